"""Row maps: each private row becomes a vector of bounded integers, and the bound travels along.

A *view* maps a block of rows to integer-valued float64 on a public
power-of-two grid and states the bounds that every mapped row obeys **as integers**:
``|q_j| <= half_j`` for every coordinate and ``sum_j q_j**2 <= norm**2``.

Guarantee of every ``map``: the image of a row depends on that row (and on public values) only,
to the last bit, whatever else is in the block; and the stated bounds hold for every finite row.
Two means, used throughout: elementwise ufuncs (IEEE operations on one number at a time), and
products of integers that are exact in float64, so that no summation order matters. ``np.linalg.
norm`` or a floating-point matrix product has neither property.

Rounding is to the nearest step, which has no direction: truncation would move a sum by half a step
a row. A bound is a whole number of steps and the clip comes before the rounding, so rounding
cannot leave a box; a norm is checked after it, in integers.

Edge cases: huge rows saturate before anything can overflow; a zero-width box maps to 0.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.query import reviewed
from skdp.core.table import MAX_FEATURES

Floats = NDArray[np.float64]

# The bound of a row is at least 2**17 grid steps (and less than 2**18): sums of products over
# 2**16 rows stay below 2**53. For geometry: trees, nearest centres, features.
GRID_BITS = 17
# For what is added up. Half a step of all rows together stays below a tenth of the noise up to
# n epsilon = 10**8; sums over 2**16 rows stay below 2**48.
SUM_BITS = 31
NORM_BITS = 30  # the same for a norm: squares of it are below 2**62


_NO_WIDTH = 2.0**-1000
# Relative error of a sum of at most 8192 squares, in any order, is below 8194 * 2**-53 < 1e-12.
NORM_MARGIN = 4e-12


def power_of_two_grid(bound: float, bits: int = GRID_BITS) -> float:
    """Return the power of two g with 2**bits <= bound / g < 2**(bits + 1); 1.0 for a zero bound."""
    check_bits(bits, 31)
    if bound <= 0.0:
        return 1.0
    # Below 2**-1000 a step would underflow; the bound then has fewer steps, which is still exact.
    return math.ldexp(1.0, max(math.frexp(bound)[1] - 1 - bits, -1000))


def _bounds(low: ArrayLike, high: ArrayLike) -> tuple[Floats, Floats]:
    """Return copies of both bounds; refuse those that are no numbers, or no row of them."""
    ends = vector(low), vector(high)
    if ends[0].shape != ends[1].shape:
        raise ValueError("low and high must have as many numbers")
    if any(np.isnan(end).any() for end in ends):
        raise ValueError("low and high must be numbers, got NaN")
    return ends


def vector(values: ArrayLike) -> Floats:
    """Return a copy of one number a column: a table would stretch a row to many."""
    array = np.atleast_1d(np.array(values, dtype=np.float64))
    if array.ndim != 1:
        raise ValueError(f"there must be one number a column, got shape {array.shape}")
    return array


def check_bits(bits: int, most: int) -> int:
    """Return how many bits a bound has; with more than `most`, sums of steps would not be exact."""
    if not 0 <= bits <= most:
        raise ValueError(f"bits must be from 0 to {most}, got {bits}")
    return bits


def isqrt_up(value: int) -> int:
    """Return the least integer whose square is at least value (rounds a sensitivity up)."""
    root = math.isqrt(value)
    return root if root * root == value else root + 1


def check_width(block: Floats, n_columns: int) -> None:
    """Refuse rows that have more or fewer columns than a map of rows is for.

    One column would be stretched to many by numpy, and a bound on one would be taken for all.
    """
    if block.shape[1] != n_columns:
        raise ValueError(f"bounds are for {n_columns} columns, the rows have {block.shape[1]}")


class View(Protocol):
    """What the statistics need to know of a bounded row map."""

    n_dims: int
    grid: Floats  # user units a step, one a coordinate
    center: Floats  # public origin: a row equal to it maps to 0
    half: Floats  # integers: |q_j| <= half_j
    norm: int  # integer: sum q_j**2 <= norm**2

    def map(self, block: Floats) -> Floats:
        """Map float rows to bounded integer-valued rows."""
        ...


def _norm2(q: Floats) -> Floats:
    """Return squared norms of integer-valued rows; exact up to 2**53, and larger where inexact."""
    return np.einsum("ij,ij->i", q, q)


def _square_parts(q: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a, b, c with sum q_j**2 = 2**32 a + 2**17 b + c, exactly, for integers up to 2**32.

    With q = 2**16 high + low, of one sign, all three are sums of at most 8192 integers up to 2**32.
    """
    high = q * 2.0**-16
    low = q - np.trunc(high, out=high) * 2.0**16
    return _norm2(high), np.einsum("ij,ij->i", high, low), _norm2(low)


def _outside(q: Floats, radius: int) -> NDArray[np.intp]:
    """Return which integer-valued rows have sum q_j**2 > radius**2, exactly; radius < 2**31."""
    limit, total = float(radius) ** 2, _norm2(q)
    if radius < 2**26:
        # Squares are at least 0, so a sum that is not exact (above 2**53, or inf) is above it.
        # NaN is outside, too: what is not known to be inside is not.
        return np.flatnonzero(~(total <= limit))
    out = ~(total <= limit * (1.0 + NORM_MARGIN))
    near = np.flatnonzero(~out & (total > limit * (1.0 - NORM_MARGIN)))
    # Close to the limit, so all three terms are below 2**63.
    a, b, c = (part.astype(np.int64) for part in _square_parts(q[near]))
    out[near] = (a << 32) + (b << 17) + c > radius**2
    return np.flatnonzero(out)


def clip_to_norm(x: Floats, grid: float, radius: int) -> Floats:
    """Quantise rows to integers on a grid with sum of squares at most radius**2.

    Rows are rounded to the nearest step; those that are outside then are scaled onto the sphere
    and rounded again, and where that leaves it, onto a sphere that rounding cannot leave. The
    bound is verified in integers.

    - `x` of shape (m, d): Rows relative to the public centre, in user units.
    - `grid`: Power of two.
    - `radius`: Bound in steps, below 2**31.
    - returns of shape (m, d): Integer-valued float64.
    """
    # grid is a power of two, so this is the exact quotient; then in place, block by block.
    q = x * (1.0 / grid)
    outside = _outside(np.rint(q, out=q), radius)
    step = max(1, 2**16 // x.shape[1])  # all that these rows need stays in cache
    for first in range(0, outside.size, step):
        far = outside[first : first + step]
        q[far] = _onto_sphere(_taken(x, far), radius)
    return q


def _taken(x: Floats, rows: NDArray[np.intp]) -> Floats:
    """Return some rows, in the order of memory that all of them have."""
    return x.T.take(rows, axis=1).T if x.flags.f_contiguous else x[rows]


def _onto_sphere(x: Floats, radius: int) -> Floats:
    """Return rows outside of a ball as integers within it; see `clip_to_norm`."""
    # Of short rows the columns lie in memory: their sums are of columns, and much faster. ±inf can
    # arise from a finite row minus a centre; the largest float stands for it.
    most = np.finfo(float).max
    far = np.clip(np.asfortranarray(x) if x.shape[1] < 64 else x, -most, most)
    # Each row is a power of two times y, integers of at most 2**31. The largest coordinate and its
    # exponent are the same in any order, and the parts of the squared norm are exact integers: y
    # and its norm depend on the row only. Multiplying by a power of two is exact; below 2**-980 the
    # power itself would overflow, and y then has fewer bits.
    e = np.maximum(np.frexp(np.abs(far).max(axis=1, initial=0.0))[1], -980)
    far *= np.ldexp(1.0, 31 - e)[:, None]
    a, b, c = _square_parts(y := np.rint(far, out=far))
    norm = np.sqrt(np.maximum(a * 2.0**32 + b * 2.0**17 + c, 1.0))
    # The quotient is a single IEEE operation on one number each.
    z = y * (radius / norm)[:, None]
    over = _outside(np.rint(z, out=z), radius)
    # Rounding adds at most sqrt(d) / 2 steps to a norm, and the operations less than one.
    inner = max(radius - math.ceil(math.sqrt(x.shape[1]) / 2) - 1, 0)
    again = np.rint(_taken(y, over) * (inner / norm[over])[:, None])
    again[_outside(again, radius)] = 0.0
    z[over] = again
    return z


def shared(values: Floats) -> Any:
    """Return the number that all columns have, if they have one: numpy is much faster with it."""
    return values[0] if values.size and (values == values[0]).all() else values


def by_columns(block: Floats, *numbers: Floats) -> list[Any]:
    """Return rows and numbers of columns, for operations of all rows with these numbers.

    Where all columns have the same number, it is one. Where they have not, the columns of short
    rows lie in memory: such operations, and sums of rows, are several times as fast then.
    """
    apart = any(map(np.ndim, ends := [shared(end) for end in numbers])) and block.shape[1] < 64
    return [np.asfortranarray(block) if apart else block, *ends]


def moved(block: Floats, center: Any) -> Floats:
    """Return rows relative to a centre; about 0 they are the rows themselves, not to be changed."""
    return block - center if np.any(center) else block


def check_radius(radius: float) -> float:
    """Return a radius, or raise: noise follows it, and rows its square."""
    if not 0.0 <= radius < math.inf:
        raise ValueError(f"radius must be a finite number of at least 0, got {radius!r}")
    return radius


@reviewed
class Box:
    """Rows clipped to a box and centred at its midpoint.

    - `low`, `high` of shape (d,): Public bounds in user units.
    - `per_feature`: One grid a feature (each half width has as many steps) instead of one for all.
      The common grid keeps Euclidean geometry; the other keeps every feature's precision.
    - `bits`: The largest half width has 2**bits to 2**(bits + 1) steps; at most 31.
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        *,
        per_feature: bool = False,
        bits: int = GRID_BITS,
    ) -> None:
        self._per_feature, self._bits = per_feature, bits
        self.low, self.high = _bounds(low, high)
        self.n_dims = self.low.size
        # Halves first: the sum or the difference of two huge bounds may overflow.
        self.center = self.low / 2 + self.high / 2
        self.half_width = np.maximum(self.high / 2 - self.low / 2, 0.0)
        widest = self.half_width if per_feature else np.full(self.n_dims, self.half_width.max())
        # A feature without width is its centre: the noise on its 0 steps weighs nothing.
        self.grid = np.array(
            [power_of_two_grid(float(w), bits) if w > 0 else _NO_WIDTH for w in widest]
        )
        self.half = np.floor(self.half_width / self.grid)
        self.norm = isqrt_up(sum(int(h) ** 2 for h in self.half))

    def at(self, bits: int) -> Box:
        """Return the same box with another number of steps."""
        if bits == self._bits:
            return self
        return Box(self.low, self.high, per_feature=self._per_feature, bits=bits)

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with |q_j| <= half_j."""
        check_width(block, self.n_dims)
        block, center, grid, half = by_columns(block, self.center, self.grid, self.half)
        q = moved(block, center) * (1.0 / grid)  # a power of two: the exact quotient
        np.clip(q, -half, half, out=q)
        return np.rint(q, out=q)


@reviewed
class ScaledBox:
    """Rows clipped to a box and scaled to half width 1: |q_j| <= 2**bits for every coordinate.

    All columns have the same number of steps, so noise is the same part of each column's width. As
    rows of a ball they have norm at most sqrt(d) times that.

    - `low`, `high` of shape (d,): Public bounds in user units; a feature without width maps to 0.
    - `bits`: At most 31.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, bits: int = NORM_BITS) -> None:
        self.low, self.high = _bounds(low, high)
        self.n_dims = self.low.size
        self.middle = self.low / 2 + self.high / 2
        self.half_width = np.maximum(self.high / 2 - self.low / 2, 0.0)
        self._flat = self.half_width <= 0
        self._divisor = np.where(self._flat, 1.0, self.half_width)
        # Of what rows are mapped to, in half widths.
        self.center = np.zeros(self.n_dims)
        self.steps = 2 ** check_bits(bits, 31)
        self.grid = np.full(self.n_dims, 1.0 / self.steps)
        self.half = np.full(self.n_dims, float(self.steps))
        self.norm = isqrt_up(self.n_dims * self.steps**2)

    def at(self, bits: int) -> ScaledBox:
        """Return the same view with another number of steps."""
        return ScaledBox(self.low, self.high, bits)

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with |q_j| <= steps."""
        check_width(block, self.n_dims)
        block, middle, divisor = by_columns(block, self.middle, self._divisor)
        q = moved(block, middle) / divisor
        np.clip(q, -1.0, 1.0, out=q)
        if self._flat.any():
            q[:, self._flat] = 0.0
        q *= float(self.steps)
        return np.rint(q, out=q)


@reviewed
class Ball:
    """Rows minus a public centre, clipped to an L2 norm.

    - `center` of shape (d,): Public (or released) centre in user units.
    - `radius`: Bound on the norm in user units, positive.
    - `bits`: The radius has 2**bits to 2**(bits + 1) grid steps; at most 30.
    """

    def __init__(self, center: ArrayLike, radius: float, *, bits: int = GRID_BITS) -> None:
        self.center = vector(center)
        self.radius = check_radius(float(radius))
        self.n_dims = self.center.size
        if self.n_dims > MAX_FEATURES:  # squares of so many coordinates add up exactly
            raise ValueError(f"a ball has at most {MAX_FEATURES} columns, got {self.n_dims}")
        step = power_of_two_grid(self.radius, check_bits(bits, NORM_BITS))
        self.grid = np.full(self.n_dims, step)
        self.norm = math.floor(self.radius / step)
        self.half = np.full(self.n_dims, float(self.norm))

    def at(self, bits: int) -> Ball:
        """Return the same ball with another number of steps."""
        return Ball(self.center, self.radius, bits=min(bits, NORM_BITS))

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with sum q_j**2 <= norm**2."""
        check_width(block, self.n_dims)
        return clip_to_norm(moved(block, shared(self.center)), float(self.grid[0]), self.norm)
