"""Maps of rows that queries add up, beside those of the core.

Claim for every map: the row alone, and public values, decide its image to the last bit, and the
stated integer bounds hold for every finite row.

**Standardised rows** (`StandardBall`). x is clipped to a box, then z = (x - c) / s with public or
released c and s: one IEEE operation on one number at a time. `clip_to_norm` clips z to a norm and
verifies sum q_j**2 <= norm**2 in integers.

**Weighted rows** (`WeightedBall`). The norm is at most sqrt(N**2 + t**2), whatever the weight.
1. The last column is the row's weight v, private like the row; it is clipped to [0, b], b public.
   With the integers q of the others, ||q|| <= N, and a public constant t, the row becomes
   rint(sqrt(v / b) (q, t)), in single operations on one number at a time.
2. sqrt(v / b) <= 1; rounding is monotone and leaves integers. So no coordinate is further from 0
   than that of (q, t). *Attained* by weight b.
3. A sum of products of such rows is that of (q, t) weighted by v / b, up to rounding; it has the
   sensitivity of any rows in a ball of this norm (second_moments.md).

**Logits as rows** (`LogitBall`). A row is mapped to its logits at a public or released theta, which
depend on the row alone ("Gradients" in images.py); `clip_to_norm` verifies their norm as above.

**Mapped tables** (`mapped`). Row i of the table is `view.map` of row i of another table, so both
have the same stability. An image that is kept is the one that the map would return again: it
depends on its row and the view alone.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import (
    GRID_BITS,
    NORM_BITS,
    SUM_BITS,
    Ball,
    Box,
    Floats,
    ScaledBox,
    View,
    by_columns,
    check_width,
    clip_to_norm,
    isqrt_up,
    power_of_two_grid,
    vector,
)
from skdp.core.query import owned, reviewed
from skdp.core.table import PrivateTable

if TYPE_CHECKING:
    from skdp.queries.images import LogisticGradient

# --- standardised rows ----------------------------------------------------------------------------


@reviewed
class StandardBall(Ball):
    """Rows clipped to a box, centred and scaled column by column, then clipped to an L2 norm.

    - `low`, `high`, `center`, `scale` of shape (d,): Public or released, in user units; scales are
      positive.
    - `radius`: Bound on the norm of a scaled row, positive.
    - `bits`: The radius has 2**bits to 2**(bits + 1) grid steps; at most 30.
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        center: ArrayLike,
        scale: ArrayLike,
        radius: float,
        *,
        bits: int = GRID_BITS,
    ) -> None:
        self.low, self.high = vector(low), vector(high)
        self.middle, self.scale = vector(center), vector(scale)
        if len({side.size for side in (self.low, self.high, self.middle, self.scale)}) != 1:
            raise ValueError("low, high, center and scale must have as many numbers")
        if not (0.0 < radius < math.inf and np.all(self.scale > 0.0)):
            raise ValueError("radius and scale must be positive")
        super().__init__(np.zeros(self.low.size), radius, bits=bits)

    def at(self, bits: int) -> StandardBall:
        return StandardBall(
            self.low, self.high, self.middle, self.scale, self.radius, bits=min(bits, NORM_BITS)
        )

    def map(self, block: Floats) -> Floats:
        check_width(block, self.n_dims)
        ends = self.low, self.high, self.middle, self.scale
        block, low, high, middle, scale = by_columns(block, *ends)
        z = np.clip(block, low, high)
        z -= middle
        z /= scale
        return super().map(z)


@reviewed
class WeightedBall:
    """Rows (q, constant) of a ball, times the root of their weight as a fraction of its bound.

    - `ball`: Map of the columns before the last, which is the weight.
    - `constant`: As a part of the ball's radius, in [0, 1].
    - `most`: Public bound of weights; finite, above 0.
    """

    def __init__(self, ball: Any, constant: float, most: float) -> None:
        if not (0.0 <= constant <= 1.0 and 0.0 < most < math.inf):
            raise ValueError("constant must be in [0, 1], and most finite and positive")
        self.ball = ball
        self.constant, self.most = float(constant), float(most)
        self.n_dims = ball.n_dims + 1
        step = float(ball.grid[0])
        self.last = min(max(round(self.constant * ball.norm), 0), ball.norm)
        self.norm = isqrt_up(ball.norm**2 + self.last**2)
        self.center = np.zeros(self.n_dims)
        self.grid = np.full(self.n_dims, step)
        self.half = np.append(ball.half, float(self.last))

    def at(self, bits: int) -> WeightedBall:
        """Return the same map with another number of steps."""
        return WeightedBall(self.ball.at(min(bits, NORM_BITS - 1)), self.constant, self.most)

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with sum q_j**2 <= norm**2."""
        check_width(block, self.n_dims)
        root = np.clip(block[:, -1], 0.0, self.most)
        root /= self.most
        np.sqrt(root, out=root)
        z = np.empty((len(block), self.n_dims))
        z[:, :-1] = self.ball.map(block[:, :-1])
        z[:, -1] = self.last
        z *= root[:, None]
        return clip_to_norm(z, 1.0, self.norm)


@reviewed
class LogitBall(Ball):
    """The logits of rows at a public or released theta, clipped to an L2 norm.

    - `gradient`: Holds theta.
    - `radius`: Bound on the norm of a row's logits, positive.
    - `bits`: As of `StandardBall`.
    """

    def __init__(self, gradient: LogisticGradient, radius: float, *, bits: int = GRID_BITS) -> None:
        # A checked copy with arrays of its own.
        self.gradient = owned(replace(gradient, view=gradient.view.at(GRID_BITS)))
        super().__init__(np.zeros(len(gradient.theta)), radius, bits=bits)

    def at(self, bits: int) -> LogitBall:
        return LogitBall(self.gradient, self.radius, bits=min(bits, NORM_BITS))

    def map(self, block: Floats) -> Floats:
        return self.of_mapped(self.gradient.view.map(block))

    def of_mapped(self, q: Floats) -> Floats:
        """Map rows that the view of the gradient has mapped."""
        return super().map(self.gradient.logits(q))


@reviewed
class TargetBox(ScaledBox):
    """The last column of rows, clipped to bounds and scaled to half width 1, as `ScaledBox`."""

    def at(self, bits: int) -> TargetBox:
        return TargetBox(self.low, self.high, bits)

    def map(self, block: Floats) -> Floats:
        return super().map(block[:, -1:])


# --- column by column ----------------------------------------------------------------------------


@reviewed
class AboutZero:
    """Rows clipped to a public box that need not contain 0, in steps from 0: sums need no count.

    With `per_feature` each column has its own grid.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, *, per_feature: bool) -> None:
        self.low = np.array(low, dtype=np.float64)
        self.high = np.array(high, dtype=np.float64)
        self.n_dims = self.low.size
        if not (self.low <= self.high).all():  # widths are differences of the ends
            raise ValueError("low must not exceed high")
        self.center = np.zeros(self.n_dims)
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        widest = largest if per_feature else np.full(self.n_dims, largest.max())
        self.grid = np.array([power_of_two_grid(float(w), SUM_BITS) for w in widest])
        self.half = np.rint(largest / self.grid)
        self.norm_squared = sum(int(h) ** 2 for h in self.half)
        self.norm = isqrt_up(self.norm_squared)
        self.lowest, self.highest = np.rint(self.low / self.grid), np.rint(self.high / self.grid)

    def map(self, block: Floats) -> Floats:
        check_width(block, self.n_dims)
        q = np.clip(block, self.low, self.high)
        q *= 1.0 / self.grid  # a power of two: the exact quotient
        # Rounding ascends, so |q_j| <= half_j, which is rounded like a cell.
        return np.rint(q, out=q)

    def at(self, bits: int) -> AboutZero:
        return self  # it has the steps of sums already


@reviewed
class NonZero:
    """A view of which cells are not 0, through the view of a box from 0 to 1."""

    def __init__(self, base: View) -> None:
        self._base = base
        self.n_dims, self.grid, self.center = base.n_dims, base.grid, base.center
        self.half, self.norm = base.half, base.norm
        if isinstance(base, AboutZero):  # the image is one of its two ends
            self.lowest, self.highest = base.lowest, base.highest

    def at(self, bits: int) -> NonZero:
        return self  # its base has the steps of sums already

    def map(self, block: Floats) -> Floats:
        return self._base.map((block != 0.0).astype(np.float64))


@reviewed
class Total:
    """The sum of the coordinates of a view with one common grid, as one coordinate.

    A sum of at most 8192 integers up to 2**32 is exact in any order, and so is its quotient by the
    power of two that brings the bound below 2**36, so that blocks of rows add up exactly.
    """

    def __init__(self, base: Any) -> None:
        self._base = base
        bound = int(base.half.sum())
        self._shrink = 2.0 ** max(bound.bit_length() - 36, 0)
        self.n_dims = 1
        self.grid = base.grid[:1] * self._shrink
        self.center = np.array([base.center.sum()])
        self.half = np.rint(np.array([float(bound)]) / self._shrink)
        self.norm = int(self.half[0])
        if hasattr(base, "lowest"):  # rounding ascends, so the total lies between those of the ends
            self.lowest = np.rint(base.lowest.sum(keepdims=True) / self._shrink)
            self.highest = np.rint(base.highest.sum(keepdims=True) / self._shrink)

    def at(self, bits: int) -> Total:
        return self  # its base has the steps of sums already

    def map(self, block: Floats) -> Floats:
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
    """Return the view whose rows `Sum` and `Mean` add up, in steps as fine as sums need.

    - `low`, `high`: Public bounds, scalars or one a feature.
    - `nonzero`: Whether a cell counts 1 if it is not 0, else 0; the bounds are not used.
    - `across`: Whether to add up the cells of each row to one number.
    - `about_zero`: Whether values are relative to 0, not to the box's centre: a sum needs no count
      then.
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


# --- mapped tables --------------------------------------------------------------------------------

_KEPT_BYTES = 40 * 2**20  # of images of one table: with all else a fit needs less than 64 MB
_EXACT = 2.0**24  # float32 holds integers up to this
_MAP_VALUES = 2**16  # mapped at a time, in a core's cache
# Images that are known are read in longer chunks.
_CHUNK_ROWS, _CHUNK_VALUES = 2**14, 2**19


def mapped(table: PrivateTable, view: View) -> PrivateTable:
    """Return the table of the images of rows under a view, for queries that read it many times.

    The private table keeps the images of one view, the last.
    """
    key = pickle.dumps(view)  # its public numbers: queries make views of their own anew
    known = table.kept.get("images")
    if known is None or known[0] != key:
        images = (_MappedParts if table.in_parts else _MappedRows)(table.rows, view)
        known = table.kept["images"] = key, PrivateTable(images, table.stability)
    return known[1]


class _MappedRows:
    """The images of rows in memory. As many as fit are kept, from the first row on."""

    def __init__(self, rows: Any, view: View) -> None:
        self._rows, self._view = rows, view
        self._n, self.n_features = rows._n, view.n_dims
        self.filtered, self.n_is_private = rows.filtered, rows.n_is_private
        exact = float(view.half.max(initial=0.0)) <= _EXACT
        size = min(self._n, _KEPT_BYTES // (4 * self.n_features)) if exact else 0
        self._images = np.empty((size, self.n_features), dtype=np.float32)
        self._known = np.zeros(size, dtype=np.bool_)

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        width = max(width, self.n_features)
        least = max(least, min(_CHUNK_ROWS, _CHUNK_VALUES // width))
        spans: list[tuple[int, int]] = self._rows.spans(width=width, least=least)
        return spans

    def chunk(self, start: int, stop: int) -> Floats:
        kept = slice(start, stop) if stop <= len(self._images) else None
        if kept is not None and self._known[kept].all():
            return self._images[kept].astype(np.float64)
        q = np.empty((stop - start, self.n_features))
        step = max(1, _MAP_VALUES // self.n_features)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            q[first - start : last - start] = self._view.map(self._rows.chunk(first, last))
        if kept is not None:
            self._images[kept] = q
            self._known[kept] = True
        return q

    def labelled(self, start: int, stop: int) -> tuple[Floats, NDArray[np.int64]]:
        return self.chunk(start, stop), self._rows.labels(start, stop)

    def weighted_labelled(self, start: int, stop: int) -> tuple[Floats, NDArray[np.int64], NDArray]:
        return *self.labelled(start, stop), self._rows.weights(start, stop)


class _MappedParts:
    """The images of rows in parts; each pass maps them where they lie."""

    def __init__(self, rows: Any, view: View) -> None:
        self._rows, self._view = rows, view
        self._n, self.n_features, self.at_a_time = rows._n, view.n_dims, rows.at_a_time
        self.filtered, self.n_is_private = rows.filtered, rows.n_is_private

    def fold(
        self, add: Any, fresh: Any, *, width: int = 1, least: int = 256, read: str = "chunk"
    ) -> Any:
        options: Any = {"width": max(width, self.n_features), "least": least, "read": read}
        return self._rows.fold(partial(_add_mapped, self._view, add), fresh, **options)


def _add_mapped(view: View, add: Callable[..., None], block: Any, totals: Any) -> None:
    x, *others = block if isinstance(block, tuple) else (block,)
    q = view.map(x)
    add((q, *others) if others else q, totals)
