"""Bounded maps of rows for sums of columns: about zero, of cells that are not 0, of a row's total.

Nothing is released here: `Sum` and `Mean` add up what these maps make of a row. Guarantee: every
coordinate is bounded in integers and decided by the row alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp.core.clipping import SUM_BITS, Box, Floats, View, check_width, isqrt_up, power_of_two_grid
from skdp.core.query import reviewed

__all__ = ["AboutZero", "NonZero", "Total", "sum_view"]


@reviewed
class AboutZero:
    """Rows clipped to a box that need not contain 0, in steps from 0: their sum needs no count.

    Parameters
    ----------
    low, high : array-like of shape (d,)
        Public bounds in user units.
    per_feature : bool
        One grid a feature instead of one for all.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, *, per_feature: bool) -> None:
        self.low = np.array(low, dtype=np.float64)
        self.high = np.array(high, dtype=np.float64)
        self.n_dims = self.low.size
        self.center = np.zeros(self.n_dims)
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        widest = largest if per_feature else np.full(self.n_dims, largest.max())
        self.grid = np.array([power_of_two_grid(float(w), SUM_BITS) for w in widest])
        self.half = np.rint(largest / self.grid)
        self.norm = isqrt_up(sum(int(h) ** 2 for h in self.half))

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with |q_j| <= half_j."""
        check_width(block, self.n_dims)
        q = np.clip(block, self.low, self.high)
        q *= 1.0 / self.grid  # a power of two: the exact quotient
        # Rounding ascends, so |q_j| <= half_j, which is rounded like a cell.
        return np.rint(q, out=q)

    def at(self, bits: int) -> AboutZero:
        """Return the view itself: it has the steps of sums already."""
        return self

    def widths(self) -> list[int]:
        """Return by how many steps each coordinate may change, at most."""
        ends = [np.rint(end / self.grid) for end in (self.low, self.high)]
        return [int(b) - int(a) for a, b in zip(*ends, strict=True)]


@reviewed
class NonZero:
    """A view of which cells are not 0, through the view of a box from 0 to 1."""

    def __init__(self, base: View) -> None:
        self._base = base
        self.n_dims, self.grid, self.center = base.n_dims, base.grid, base.center
        self.half, self.norm = base.half, base.norm

    def at(self, bits: int) -> NonZero:
        """Return the view itself: its base has the steps of sums already."""
        return self

    def map(self, block: Floats) -> Floats:
        """Map float rows to the base's image of 0 and 1."""
        return self._base.map((block != 0.0).astype(np.float64))


@reviewed
class Total:
    """The sum of the coordinates of a view with one common grid, as one coordinate.

    A sum of at most 8192 integers up to 2**32 is exact in any order, and so is its quotient by the
    power of two that brings the bound below 2**36, so that blocks of rows add up exactly.
    """

    def __init__(self, base: View) -> None:
        self._base = base
        bound = int(base.half.sum())
        self._shrink = 2.0 ** max(bound.bit_length() - 36, 0)
        self.n_dims = 1
        self.grid = base.grid[:1] * self._shrink
        self.center = np.array([base.center.sum()])
        self.half = np.rint(np.array([float(bound)]) / self._shrink)
        self.norm = int(self.half[0])

    def at(self, bits: int) -> Total:
        """Return the view itself: its base has the steps of sums already."""
        return self

    def map(self, block: Floats) -> Floats:
        """Map float rows to one integer each."""
        total: Floats = self._base.map(block).sum(axis=1, keepdims=True)
        total /= self._shrink
        return np.rint(total, out=total)


def sum_view(
    low: ArrayLike,
    high: ArrayLike,
    n_features: int,
    *,
    nonzero: bool = False,
    across: bool = False,
    about_zero: bool = False,
) -> View:
    """Return the view of which `Sum` and `Mean` add up the rows, in steps as fine as sums need.

    Parameters
    ----------
    low, high : array-like
        Public bounds, scalars or one a feature.
    n_features : int
    nonzero : bool, default=False
        Count 1 for a cell that is not 0, else 0; the bounds are not used.
    across : bool, default=False
        Add up the cells of a row, too: one number of known range a row.
    about_zero : bool, default=False
        Relative to 0 instead of the box's centre: a sum needs no count then.
    """
    if nonzero:
        low, high = 0.0, 1.0
    a, b = np.broadcast_to(low, n_features), np.broadcast_to(high, n_features)
    view: Any = (
        AboutZero(a, b, per_feature=not across)
        if about_zero
        else Box(a, b, per_feature=not across, bits=SUM_BITS)
    )
    if nonzero:
        view = NonZero(view)
    return Total(view) if across else view
