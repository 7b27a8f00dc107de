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
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skdp.core.clipping import (
    GRID_BITS,
    NORM_BITS,
    SUM_BITS,
    Box,
    Floats,
    ScaledBox,
    View,
    by_columns,
    check_bits,
    check_radius,
    check_width,
    clip_to_norm,
    isqrt_up,
    power_of_two_grid,
    shared,
    vector,
)
from skdp.core.query import owned, reviewed

if TYPE_CHECKING:
    from skdp.queries.images import LogisticGradient

__all__ = [
    "AboutZero",
    "LogitBall",
    "NonZero",
    "StandardBall",
    "TargetBox",
    "Total",
    "WeightedBall",
    "sum_view",
]


# --- standardised rows ----------------------------------------------------------------------------


@reviewed
class StandardBall:
    """Rows clipped to a box, centred and scaled column by column, then clipped to an L2 norm.

    Parameters
    ----------
    low, high, center, scale : array-like of shape (d,)
        Public or released, in user units; scales are positive.
    radius : float
        Bound on the norm of a scaled row, positive.
    bits : int, default=17
        The radius has 2**bits to 2**(bits + 1) grid steps; at most 30.
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
        self.radius = float(radius)
        if not (0.0 < self.radius < math.inf and np.all(self.scale > 0.0)):
            raise ValueError("radius and scale must be positive")
        self.n_dims = self.low.size
        step = power_of_two_grid(self.radius, check_bits(bits, NORM_BITS))
        self.center = np.zeros(self.n_dims)  # of the scaled rows
        self.grid = np.full(self.n_dims, step)
        self.norm = math.floor(self.radius / step)
        self.half = np.full(self.n_dims, float(self.norm))

    def at(self, bits: int) -> StandardBall:
        """Return the same view with another number of steps."""
        return StandardBall(
            self.low, self.high, self.middle, self.scale, self.radius, bits=min(bits, NORM_BITS)
        )

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with sum q_j**2 <= norm**2."""
        check_width(block, self.n_dims)
        low, high, *standard = map(shared, (self.low, self.high, self.middle, self.scale))
        z = np.clip(by_columns(block, low, high, *standard), low, high)
        z -= standard[0]
        z /= standard[1]
        return clip_to_norm(z, float(self.grid[0]), self.norm)


@reviewed
class WeightedBall:
    """Rows (q, constant) of a ball, times the root of their weight as a fraction of its bound.

    Parameters
    ----------
    ball : StandardBall or Ball
        Map of the columns before the last, which is the weight.
    constant : float
        As a part of the ball's radius, in [0, 1].
    most : float
        Public bound of weights; finite, above 0.
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
class LogitBall:
    """The logits of rows at a public or released theta, clipped to an L2 norm.

    Parameters
    ----------
    gradient : LogisticGradient
        Holds theta.
    radius : float
        Bound on the norm of a row's logits, positive.
    bits : int, default=17
        As of `StandardBall`.
    """

    def __init__(self, gradient: LogisticGradient, radius: float, *, bits: int = GRID_BITS) -> None:
        # A checked copy with arrays of its own.
        self.gradient = owned(replace(gradient, view=gradient.view.at(GRID_BITS)))
        self.radius = check_radius(float(radius))
        self.n_dims = len(gradient.theta)
        step = power_of_two_grid(self.radius, check_bits(bits, NORM_BITS))
        self.center = np.zeros(self.n_dims)
        self.grid = np.full(self.n_dims, step)
        self.norm = math.floor(self.radius / step)
        self.half = np.full(self.n_dims, float(self.norm))

    def at(self, bits: int) -> LogitBall:
        """Return the same view with another number of steps."""
        return LogitBall(self.gradient, self.radius, bits=min(bits, NORM_BITS))

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with sum q_k**2 <= norm**2."""
        logits = self.gradient.logits(self.gradient.view.map(block))
        return clip_to_norm(logits, float(self.grid[0]), self.norm)


@reviewed
class TargetBox(ScaledBox):
    """The last column of rows, clipped to bounds and scaled to half width 1, as `ScaledBox`."""

    def at(self, bits: int) -> TargetBox:
        """Return the same view with another number of steps."""
        return TargetBox(self.low, self.high, bits)

    def map(self, block: Floats) -> Floats:
        """Map the last number of each row to one integer with |q| <= steps."""
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
        """Map float rows to integers with |q_j| <= half_j."""
        check_width(block, self.n_dims)
        q = np.clip(block, self.low, self.high)
        q *= 1.0 / self.grid  # a power of two: the exact quotient
        # Rounding ascends, so |q_j| <= half_j, which is rounded like a cell.
        return np.rint(q, out=q)

    def at(self, bits: int) -> AboutZero:
        """Return the view itself: it has the steps of sums already."""
        return self


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
    """Return the view whose rows `Sum` and `Mean` add up, in steps as fine as sums need.

    Parameters
    ----------
    low, high : array-like
        Public bounds, scalars or one a feature.
    n_features : int
    nonzero : bool, default=False
        Whether a cell counts 1 if it is not 0, else 0; the bounds are not used.
    across : bool, default=False
        Whether to add up the cells of each row to one number.
    about_zero : bool, default=False
        Whether values are relative to 0, not to the box's centre: a sum needs no count then.
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
