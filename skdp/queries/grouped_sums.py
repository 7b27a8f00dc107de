"""Counts and sums of rows by public region, every column in units of its own.

A region is the rows nearest to one of some public centres (`AssignedSums`), or a leaf of a public
binary tree over a box (`BoxTree`), released level by level; each row is in one region. Distances
are compared in the caller's units, on one grid for all columns. Offsets of rows from the centre of
their region are added up. One noise serves columns of any width: each column is measured in a unit
of its own, and the offset is clipped to an L2 norm in these units. Proofs: grouped_sums.md, "Joint
noise" and "Columns in units of their own".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import (
    GRID_BITS,
    Box,
    Floats,
    View,
    check_bits,
    check_radius,
    check_width,
    isqrt_up,
    power_of_two_grid,
)
from skdp.core.mechanisms import Independent, laplace_std, sigma_up
from skdp.core.privacy_filter import Meter, Release, Share, asked, released
from skdp.core.query import Measurement, Noisy, Query, Terms, reviewed
from skdp.core.sums import Range, RowSum, weight_fractions
from skdp.core.table import REPLACE_ONE, PrivateTable, as_total, fold, total_dtype
from skdp.exceptions import PrivacyLeakError
from skdp.queries.histograms import histogram_sensitivity
from skdp.tabular.rows import Rows

Ints = NDArray[np.int64]
# A clipped offset has a norm of at most 2**25 steps: its square, and every sum of squares that is
# at most that, is exact in float64, and rounding is far below any noise.
MOST_BITS = 25
_TREE_BITS = 20
_COMMON_BITS = 17  # of the grid on which rows are compared with centres
_WEIGHT_BITS, _LIMB_BITS, _LIMBS = 24, 8, 3  # of the weight of a row


def column_units(sizes: ArrayLike) -> Floats:
    """Return units a for columns of these sizes, of which one noise in L2 is then spent well.

    Noise of column j is proportional to a_j, and a row whose columns have these sizes has norm 1
    in the units. a_j = size_j / sqrt(pi_j), with parts pi that add up to one: a quarter in equal
    shares, so that the noise of no column, in its own size, is above twice that of equal shares;
    three quarters by size, so that the total is at most 4/3 of the least, (sum of sizes)**2.
    A column of size 0 has unit 0: it is constant.

    Examples
    --------
    >>> column_units([1.0, 1.0]).round(3)
    array([1.414, 1.414])
    >>> column_units([1.0, 100.0]).round(2)
    array([  2.75, 107.36])
    """
    size = np.asarray(sizes, dtype=np.float64)
    largest = float(size.max(initial=0.0))
    if largest <= 0.0:
        return np.zeros_like(size)
    part = size / largest
    weight = 0.25 / size.size + 0.75 * part / part.sum()
    return size / np.sqrt(weight)


def round_to_norm(q: Floats, radius: int) -> Floats:
    """Round rows, in steps, to integers with sum of squares at most radius**2 (<= 2**52).

    Rows inside are rounded to nearest; a row that is outside after it is scaled onto the sphere,
    truncated, and shrunk where rounding left it outside: the bound is verified in integers.
    A row's image depends on that row only.
    """
    limit = float(radius) ** 2
    d = q.shape[1]
    whole = np.rint(q)
    # A sum of squares at or above 2**53 may be inexact but is above the limit all the same.
    outside = np.flatnonzero(~(np.einsum("ij,ij->i", whole, whole) <= limit))
    if outside.size:
        far = np.clip(q[outside], -np.finfo(float).max, np.finfo(float).max)
        largest = np.abs(far).max(axis=1)  # the same in any order
        bits = (53 - math.ceil(math.log2(d))) // 2 if d > 1 else 26
        e = np.maximum(np.frexp(largest)[1], -980)
        # Two factors: one power of two might overflow. Both products are exact (or underflow).
        y = np.trunc(np.ldexp(far, (bits - e)[:, None]))
        norm2 = np.einsum("ij,ij->i", y, y)  # exact: at most d 2**(2 bits) <= 2**53
        y *= (radius / np.sqrt(norm2))[:, None]
        np.trunc(y, out=y)
        over = np.flatnonzero(~(np.einsum("ij,ij->i", y, y) <= limit))
        y[over] -= np.sign(y[over])
        still = np.flatnonzero(~(np.einsum("ij,ij->i", y, y) <= limit))
        y[still] = 0.0
        whole[outside] = y
    return whole


@reviewed
class ColumnBox:
    """Rows clipped to a box and centred at its midpoint, every column in a unit of its own.

    - `low`, `high` of shape (d,): Public bounds in user units.
    - `units` of shape (d,): Public; the grid of a column is proportional to its unit.
    - `bits`: The norm of a row is at most about 2**bits steps.
    """

    def __init__(
        self, low: ArrayLike, high: ArrayLike, units: ArrayLike, *, bits: int = MOST_BITS
    ) -> None:
        self.low = np.array(low, dtype=np.float64)
        self.high = np.array(high, dtype=np.float64)
        self.n_dims = self.low.size
        self.center = self.low / 2 + self.high / 2
        half_width = np.maximum(self.high / 2 - self.low / 2, 0.0)
        self.units = np.broadcast_to(np.asarray(units, dtype=np.float64), (self.n_dims,)).copy()
        unit = self.units
        wide = (half_width > 0) & (unit > 0)
        ratio = np.divide(half_width, unit, out=np.zeros(self.n_dims), where=wide)
        steps = 2.0 ** check_bits(bits, 31) / max(float(np.linalg.norm(ratio)), 2.0**-900)
        # A column without width is its centre: 0 steps of no length.
        self.grid = np.maximum(np.where(wide, unit, 0.0) / steps, 2.0**-1000)
        self.half = np.where(wide, np.minimum(np.rint(half_width / self.grid), 2.0**bits), 0.0)
        self.norm = isqrt_up(sum(int(h) ** 2 for h in self.half))

    def at(self, bits: int) -> ColumnBox:
        """Return the same view with another number of steps."""
        return ColumnBox(self.low, self.high, self.units, bits=bits)

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with |q_j| <= half_j."""
        check_width(block, self.n_dims)
        q = np.clip(block, self.low, self.high)
        q -= self.center
        q /= self.grid
        np.rint(q, out=q)
        return np.clip(q, -self.half, self.half, out=q)


class Nearest:
    """The nearest of public centres to a row of a box, in the caller's units; ties to the first.

    Both are rounded to one grid for all columns, so that distances compare as exact integers.
    """

    def __init__(self, low: Floats, high: Floats, centers: Floats) -> None:
        self.middle = low / 2 + high / 2
        half_width = np.maximum(high / 2 - low / 2, 0.0)
        self.grid = power_of_two_grid(float(half_width.max()), _COMMON_BITS)
        self.half = np.floor(half_width / self.grid)
        points = np.rint((centers - self.middle) / self.grid)
        self.points = np.clip(points, -(2.0**19), 2.0**19)
        self.norms = np.einsum("ij,ij->i", self.points, self.points)

    def __call__(self, block: Floats) -> NDArray[np.intp]:
        """Return the index of the nearest centre of each row."""
        q = block - self.middle
        q /= self.grid
        np.clip(q, -self.half, self.half, out=q)
        np.rint(q, out=q)
        # |q|**2 is the same for every centre. |c|**2 <= 2**38 d and 2 q.c are exact integers, so
        # ties go to the lowest index for every row alike.
        return np.argmin(self.norms - 2.0 * (q @ self.points.T), axis=1)


def _offsets(
    block: Floats, box: Box, nearest: Nearest, centers: Floats, steps: Floats, radius: int
) -> tuple[NDArray[np.intp], Floats]:
    """Return the nearest centre of each row and its clipped offset from it, in steps."""
    x = np.clip(block, box.low, box.high)
    group = nearest(x)
    x -= centers[group]
    x /= steps
    return group, round_to_norm(x, radius)


def center_sums(
    rows: Rows,
    box: Box,
    centers: Floats,
    steps: Floats,
    radius: int,
    most: float | None = None,
    bits: int = 0,
) -> tuple[NDArray, NDArray]:
    """Assign each row to its nearest centre and sum the clipped offsets by centre, exactly.

    - `box`: Rows are clipped to it first.
    - `centers` of shape (k, d): Public, in user units.
    - `steps` of shape (d,): Length of a step of each column, positive; inf for a column that counts
      as constant.
    - `radius`: L2 bound of an offset in steps.
    - `most`, `bits`: Rows have weights up to `most`, and count v / 2**bits times, v the weight.
    - returns `counts` of shape (k,): Of rows, or sums of v.
    - returns `sums` of shape (k, d): In steps; weighted sums are rounded to nearest.
    """
    nearest = Nearest(box.low, box.high, centers)
    k, d = centers.shape
    columns, n_limbs, largest = np.arange(d), 1, radius
    if most is not None:
        n_limbs, largest = _LIMBS, max(radius << _LIMB_BITS, 2**_WEIGHT_BITS)
    dtype = total_dtype(rows, largest)

    def add(block: Any, totals: list[NDArray]) -> None:
        x, *weights = (block,) if most is None else block
        group, offset = _offsets(x, box, nearest, centers, steps, radius)
        cells = (group[:, None] * d + columns).ravel()
        rest = None if most is None else np.rint(weight_fractions(weights[0], most) * 2.0**bits)
        totals[0] += as_total(np.bincount(group, weights=rest, minlength=k), dtype)
        for place in range(n_limbs):
            part = offset
            if rest is not None:  # of v, the highest first: products of a block are below 2**49
                unit = 2.0 ** (_LIMB_BITS * (n_limbs - 1 - place))
                limb = np.floor(rest / unit)
                rest = rest - limb * unit
                part = offset * limb[:, None]
            by_cell = np.bincount(cells, weights=part.ravel(), minlength=k * d)
            totals[1][place] += as_total(by_cell.reshape(k, d), dtype)

    def fresh() -> list[NDArray]:
        return [np.zeros(k, dtype=dtype), np.zeros((n_limbs, k, d), dtype=dtype)]

    read = "chunk" if most is None else "weighted"
    counts, limbs = fold(rows, add, fresh, width=k, read=read)
    if most is None:
        return counts, limbs[0]
    total = np.zeros((k, d), dtype=object)
    for limb in limbs:
        total = (total << _LIMB_BITS) + limb.astype(object)
    sums = (total + (1 << (bits - 1))) >> bits
    return counts, sums if dtype is object else sums.astype(np.int64)


def column_box(low: ArrayLike, high: ArrayLike, units: ArrayLike, level: float) -> ColumnBox:
    """Return the view of the rows clipped to a public box, columns in public units.

    Its steps are as fine as the samplers can cover with the noise of this level.
    """
    low, high = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
    return ColumnBox(low, high, units, bits=_step_bits(level, low.size))


def _step_bits(level: float, d: int) -> int:
    """Return the bits of a grid whose noise the samplers draw: fewer at tiny levels."""
    return max(min(MOST_BITS, 40 + math.floor(math.log2(level) - math.log2(d + 2))), 4)


@reviewed
@dataclass(frozen=True, eq=False)
class AssignedSums(Query):
    """Counts and sums of offsets of the rows by nearest public centre, jointly.

    Each row of the box goes to its nearest centre (Euclidean, in user units); its offset from
    it, divided by the units, is clipped to L2 norm `radius`. Noise falls on every centre,
    empty or not. Guarantee: that of `Joint`, which is why it is no
    `RowSum`: counts and sums have noise of two scales.

    - `units` of shape (d,): Public; 0 for a column that counts as constant.
    - `most`: Public bound of the weights of rows, which count by the part of it that they are.
    - `size`, `bits`: Steps of the radius, and bits of a weight; a session sets them.
    - returns `counts` of shape (k,)
    - returns `sums` of shape (k, d): Relative to the centres, in user units.
    """

    name: ClassVar[str] = "assigned sums"
    box: Box
    centers: Any
    radius: float
    units: Any = 1.0
    count_share: float = 0.5
    most: float | None = None
    size: int = 1
    bits: int = 0

    def prepared(self, terms: Terms) -> AssignedSums:
        part = (1 - min(max(float(self.count_share), 0.01), 0.99)) / 2
        level = terms.level * (part if terms.pure else math.sqrt(part))
        bits = 0 if self.most is None else min(_WEIGHT_BITS, _step_bits(level, 1))
        return replace(self, size=2 ** _step_bits(level, self.box.n_dims), bits=bits)

    @property
    def unit(self) -> float:
        return float(self.radius) / self.size

    @property
    def entries(self) -> int:
        """How many integers are released, once the query is prepared."""
        return len(self._where) * (self.box.n_dims + 1)

    @property
    def _where(self) -> Floats:
        return np.array(self.centers, dtype=np.float64).reshape(-1, self.box.n_dims)

    @property
    def _grid(self) -> Floats:
        """Length of a step of each column, in user units; 0 for one that counts as constant."""
        unit = np.broadcast_to(np.asarray(self.units, dtype=np.float64), (self.box.n_dims,))
        return np.where(unit > 0, np.maximum(unit * (self.radius / self.size), 2.0**-1000), 0.0)

    def exact(self, table: PrivateTable) -> NDArray:
        steps = np.where(self._grid > 0, self._grid, math.inf)
        where = self.box, self._where, steps, self.size
        counts, sums = center_sums(table.rows, *where, self.most, self.bits)
        return np.concatenate([counts[:, None], sums], axis=1)

    def sensitivity(self, relation: str) -> Joint:
        bound = self.size if self.most is None else self.size + 1 + isqrt_up(self.box.n_dims)
        bounds = np.full(len(self._where), bound, dtype=np.int64)
        return Joint.of(relation, bounds, self.count_share, 1 << self.bits)

    def decoded(self, noisy: Noisy) -> tuple[Release, Release]:
        values, std, unit_weight = noisy.values, np.asarray(noisy.std), 1 << self.bits
        return (
            released(values[:, 0].astype(np.float64) / unit_weight, float(std[0, 0]) / unit_weight),
            released(values[:, 1:].astype(np.float64) * self._grid, std[:, 1:] * self._grid),
        )


@reviewed
@dataclass(frozen=True, eq=False)
class SquaredOffsets(Range):
    """The squares of a row's offsets from its nearest centre, by column.

    In half widths of the box, each offset clipped to 1. Guarantee: see grouped_sums.md.

    - `centers` of shape (k, d): Public or released, in user units.
    - `one`: Steps of 1; a session sets it.
    """

    what = "squared offsets from the nearest centre"
    whole = False
    box: Box
    centers: Floats
    one: int = 1

    def prepared(self, terms: Terms) -> SquaredOffsets:
        return replace(self, one=2 ** min(_step_bits(terms.level, self.box.n_dims), _TREE_BITS))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.box.n_dims,)

    @property
    def width(self) -> int:
        return len(self.centers)

    @property
    def unit(self) -> float:
        return 1.0 / self.one

    @property
    def largest(self) -> int:
        return self.one

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        box = self.box
        half = np.maximum(box.high / 2 - box.low / 2, 0.0)
        x = np.clip(x, box.low, box.high)
        x -= self.centers[Nearest(box.low, box.high, self.centers)(x)]
        x /= np.where(half > 0, half, 1.0)
        x[:, half <= 0] = 0.0
        np.clip(x, -1.0, 1.0, out=x)
        yield x * x * self.one


def squared_offsets(box: Box, centers: ArrayLike, weight_bound: float | None = None) -> RowSum:
    """Return the query of the sum of squared offsets from the nearest centre, by column.

    In half widths of the box, each offset clipped to 1.
    """
    where = np.array(centers, dtype=np.float64).reshape(-1, box.n_dims)
    image = SquaredOffsets(box, where)
    return RowSum(image, weight_bound=weight_bound, name="squared offsets")


# --- joint noise of counts and sums ---------------------------------------------------------------
#
# Counts of disjoint groups and a bounded sum in each; trees use it, too. A row is in one group, so
# counts and sums of all groups share one allowance.


@reviewed
@dataclass(frozen=True, eq=False)
class Joint:
    """By how much a count and a sum of each of some disjoint groups move together.

    With mu_c = unit_steps / sigma_c and mu_s = bound / sigma_s, a change (a, b) loses at most
    a mu_c**2 + b mu_s**2; in a pure session, with eps_c and eps_s for one row, at most `rows` times
    eps_c + eps_s. A weighted row adds the same fraction of the count and of its vector:
    grouped_sums.md, "Weighted rows".
    """

    bounds: NDArray[np.int64]  # on the norm of a row's vector in each group, shape (m,)
    # A row added or removed makes (1, 1); a replaced one (2, 2) if it changes group, else (0, 4).
    changes: tuple[tuple[int, int], ...]
    rows: int  # 1 for a row added or removed, 2 for a replaced row
    count_share: float = 0.5  # of the allowance, for the counts
    unit_steps: int = 1  # that a row adds to the count of its group, at most

    @classmethod
    def of(cls, relation: str, bounds: NDArray, count_share: float, unit_steps: int = 1) -> Joint:
        """Return the sensitivity for one row of a relation."""
        if relation == REPLACE_ONE:
            return cls(bounds, ((2, 2), (0, 4)), 2, count_share, unit_steps)
        return cls(bounds, ((1, 1),), 1, count_share, unit_steps)

    def times(self, k: int) -> Joint:
        changes = tuple((k * k * a, k * k * b) for a, b in self.changes)
        return replace(self, changes=changes, rows=k * self.rows)

    def either(self, other: Joint) -> Joint:
        return replace(self, changes=self.changes + other.changes, rows=max(self.rows, other.rows))

    def _scales(self, level: Any, *, pure: bool) -> tuple[Fraction, Any, Any, Any]:
        """Return the counts' part of the level, scales of counts and sums, the level of sums."""
        q = min(max(float(self.count_share), 0.01), 0.99)
        if pure:
            part, per_row = Fraction(q).limit_denominator(1000), level / self.rows
            of_sums = (1 - part) * per_row
            count_scale = self.unit_steps / (part * per_row)
            return part, count_scale, self.bounds * float(1 / of_sums), of_sums
        if any(b > a for a, b in self.changes):
            # Below one half the counts cost nothing: the change within a group is larger.
            q = max(q, 0.5)
        worst = max(a * q + b * (1 - q) for a, b in self.changes)
        mu = level * math.sqrt(1 / worst)
        of_counts, of_sums = (math.sqrt(p) * mu * (1 - 2**-50) for p in (q, 1 - q))
        sum_scales = np.array([sigma_up(b, of_sums) for b in self.bounds])
        return Fraction(q), sigma_up(self.unit_steps, of_counts), sum_scales, of_sums

    def std(self, entries: int, level: Any, *, pure: bool) -> NDArray[np.float64]:
        """Return the deviations, in steps, of each group's count and of an entry of its sum."""
        _, count, sums, _ = self._scales(Fraction(level) if pure else level, pure=pure)
        count = laplace_std(float(count)) if pure else count
        sums = sums * math.sqrt(entries // len(sums)) if pure else sums
        return np.column_stack([np.full(len(sums), count), sums])

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float
    ) -> tuple[NDArray, NDArray]:
        """Return columns of counts and sums with noise, and the deviations of each group's."""
        fraction, epsilon = meter.take(share, name)
        m, d = len(exact), exact.shape[1] - 1
        level = epsilon if meter.pure else meter.level(fraction)
        part, count_scale, sum_scales, of_sums = self._scales(level, pure=meter.pure)
        if not meter.pure:
            scales = np.repeat(sum_scales[:, None], d + 1, axis=1)
            scales[:, 0] = count_scale
            kinds = [("rounded Gaussian", "L2, joint")] * 2

            def loss(counts: Floats, sums: Floats) -> Any:
                return np.sqrt(np.sum((np.column_stack([counts, sums]) / scales) ** 2))

            def draw() -> NDArray:
                return samplers.rounded_gaussian(scales, scales.shape, entropy=meter.entropy)
        else:
            kinds = [("discrete Laplace", "L1, joint"), ("K-norm", "L2, joint")]

            def loss(counts: Floats, sums: Floats) -> Any:
                norms = np.sqrt((sums**2).sum(axis=1))
                return np.abs(counts).sum() / float(count_scale) + (norms / sum_scales).sum()

            def draw() -> NDArray:
                counts = samplers.discrete_laplace(count_scale, (m,), entropy=meter.entropy)
                exactly = [int(b) / of_sums for b in self.bounds]
                sums = samplers.k_norm(d, exactly, m, entropy=meter.entropy)
                return np.concatenate([np.asarray(counts)[:, None], sums], axis=1)

        def distance(a: NDArray, b: NDArray) -> float:
            change = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
            return float(loss(change[:, 0], change[:, 1:]))

        noisy = meter.add_noise(name, exact, float(level), distance, draw)
        of_count, size = float(count_scale) / self.unit_steps, float(self.bounds.max()) * unit
        meter.record(f"{name}: counts", *kinds[0], 1.0, of_count, fraction * part)
        scale = float(sum_scales.max()) * unit
        meter.record(f"{name}: sums", *kinds[1], size, scale, fraction * (1 - part))
        return noisy, self.std(exact.size, level, pure=meter.pure)


# --- binary trees ---------------------------------------------------------------------------------
#
# Noisy counts, then sums, of leaves; splits depend on released counts only. A row is in one bin of
# each level.


# --- rows of a view on released components -------------------------------------------------------


@reviewed
class Projection:
    """Rows of a view projected on released components, clipped to a box again.

    The row alone decides its image: components are multiples of 2**-16, so products are integers,
    exact in float64 (2**18 steps * 2**16 * d < 2**53).

    - `base`: Has one grid for all columns, and so few steps that the products are exact.
    - `components` of shape (k, d): Public or released; rounded.
    - `radius` of shape (k,): Half width of the box around the projected centre, in user units.
    - `bits`: The largest half width has 2**bits to 2**(bits + 1) steps; at most 31.
    """

    _BITS = 16

    def __init__(
        self, base: View, components: ArrayLike, radius: ArrayLike, bits: int = GRID_BITS
    ) -> None:
        largest = float(base.half.max(initial=0.0)) * 2.0**self._BITS * base.n_dims
        if largest > 2.0**53 or (base.grid != base.grid[0]).any():
            raise ValueError(
                "base must have one grid for all columns and at most 2**18 steps: "
                "Ball(..., bits=17)"
            )
        self.base = base
        scaled = np.rint(np.asarray(components, dtype=np.float64) * 2**self._BITS)
        if scaled.ndim != 2 or scaled.shape[1] != base.n_dims:
            raise ValueError(f"components must have shape (k, {base.n_dims}), got {scaled.shape}")
        self._weights = np.clip(scaled, -(2.0**self._BITS), 2.0**self._BITS)
        self.components = self._weights / 2**self._BITS
        self.n_dims = self._weights.shape[0]
        self.center = np.zeros(self.n_dims)
        half_width = np.broadcast_to(np.asarray(radius, dtype=np.float64), (self.n_dims,))
        check_radius(float(half_width.min()))
        self.low, self.high = -half_width, half_width.copy()
        self.grid = np.full(self.n_dims, power_of_two_grid(float(half_width.max()), bits))
        self.half = np.floor(half_width / self.grid)
        self.norm = isqrt_up(sum(int(h) ** 2 for h in self.half))
        # A quotient of powers of two: multiplying by it is exact.
        self._rescale = float(base.grid[0]) / 2**self._BITS / float(self.grid[0])
        if not largest * self._rescale < math.inf:
            raise ValueError("radius must not be so small beside the rows of base")

    def at(self, bits: int) -> Projection:
        """Return the same projection with another number of steps; the base keeps its own."""
        return Projection(self.base, self.components, self.high, bits)

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with |q_j| <= half_j."""
        exact = self.base.map(block) @ self._weights.T
        exact *= self._rescale
        np.clip(exact, -self.half, self.half, out=exact)
        return np.rint(exact, out=exact)


# --- counts and sums of the cells of a binary tree --------------------------------------------


@dataclass
class CellTable:
    """Exact counts and sums of all nodes of a complete binary tree over a box; private.

    One pass that finds each row's deepest cell determines every node. Nodes are numbered as in a
    heap: root 1, children 2i and 2i + 1. With weights, counts and sums are in steps of weights.
    """

    counts: NDArray  # (2**depth,)
    sums: NDArray  # (2**depth, d)
    depth: int

    @cached_property
    def _count_prefix(self) -> NDArray:
        return _running(self.counts)

    @cached_property
    def _sum_prefix(self) -> NDArray:
        return _running(self.sums)

    def _span(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Return first and past-the-last deepest cell below each node."""
        level = np.frexp(nodes.astype(np.float64))[1] - 1
        below = self.depth - level
        first = (nodes << below) - (1 << self.depth)
        return first, first + (np.int64(1) << below)

    def node_counts(self, nodes: Ints) -> NDArray:
        """Return the exact number of rows of each node."""
        first, last = self._span(nodes)
        return self._count_prefix[last] - self._count_prefix[first]

    def node_sums(self, nodes: Ints, centers: Ints) -> NDArray:
        """Return the exact sums of q - center over each node's rows."""
        first, last = self._span(nodes)
        return (
            self._sum_prefix[last]
            - self._sum_prefix[first]
            - self.node_counts(nodes)[:, None] * centers
        )


def _running(values: NDArray) -> NDArray:
    """Return the running sums of rows, from 0 on."""
    return np.concatenate([np.zeros_like(values[:1]), np.cumsum(values, axis=0)])


@dataclass(frozen=True)
class TreeGeometry:
    """The public boxes of the tree: inclusive integer bounds of every node, by heap number."""

    low: Ints  # (2**(depth+1), d), row 0 unused
    high: Ints
    split_dims: Ints  # (depth,)
    depth: int


def tree_geometry(half: Floats, depth: int, grid: Floats | None = None) -> TreeGeometry:
    """Cut the box [-half, half] `depth` times at midpoints of its longest side, in units of `grid`.

    All boxes of a level have the same shape up to rounding, so the side is chosen once a level.
    """
    d = half.size
    low = np.zeros((2 ** (depth + 1), d), dtype=np.int64)
    high = np.zeros_like(low)
    low[1], high[1] = -half.astype(np.int64), half.astype(np.int64)
    side = (2.0 * half + 1.0) * (1.0 if grid is None else grid / grid.max())
    dims = np.zeros(depth, dtype=np.int64)
    for level in range(depth):
        j = int(np.argmax(side))
        dims[level] = j
        side[j] /= 2
        parents = np.arange(2**level, 2 ** (level + 1))
        for child in (0, 1):
            low[2 * parents + child] = low[parents]
            high[2 * parents + child] = high[parents]
        # The right child starts at the midpoint rounded up; a box of one step leaves it empty.
        middle = -((-(low[parents, j] + high[parents, j] + 1)) // 2)
        high[2 * parents, j] = middle - 1
        low[2 * parents + 1, j] = middle
    return TreeGeometry(low, high, dims, depth)


def leaf_geometry(geometry: TreeGeometry, nodes: Ints) -> tuple[Ints, Ints]:
    """Return each node's integer centre and the bound on |q_j - centre_j| within it, (m, d)."""
    low, high = geometry.low[nodes], geometry.high[nodes]
    centers = (low + high) // 2
    return centers, np.maximum(np.maximum(centers - low, high - centers), 0)


def cell_table(
    rows: Rows, view: View, geometry: TreeGeometry, most: float | None = None
) -> CellTable:
    """Add up counts and sums of the deepest cells in one pass.

    With `most` the rows have weights, which count in steps of 2**-16 of it.
    """
    depth, d = geometry.depth, view.n_dims
    n_cells = 2**depth
    # The first step of each right child: values of at least that go to the right.
    thresholds = [
        geometry.low[2 * np.arange(2**level, 2 ** (level + 1)) + 1, geometry.split_dims[level]]
        for level in range(depth)
    ]
    weight_steps = 1 if most is None else 2**WEIGHT_BITS
    # It must also hold counts times centres.
    dtype = total_dtype(rows, int(view.half.max(initial=0.0)) * weight_steps)
    counted = np.int64 if most is None else dtype

    def add(block: Any, totals: list[NDArray]) -> None:
        values, weights = (block, None) if most is None else block
        columns = np.ascontiguousarray(view.map(values).T)
        code = np.zeros(columns.shape[1], dtype=np.int64)
        for level in range(depth):
            cut = thresholds[level].astype(np.float64)[code]
            code = 2 * code + (columns[geometry.split_dims[level]] >= cut)
        if most is None or weights is None:
            totals[0] += np.bincount(code, minlength=n_cells)
        else:
            steps = np.rint(weight_fractions(weights, most) * 2.0**WEIGHT_BITS)
            totals[0] += as_total(np.bincount(code, weights=steps, minlength=n_cells), dtype)
            columns *= steps  # at most 2**36, as rows have at most 2**20 steps
        for j in range(d):
            part = np.bincount(code, weights=columns[j], minlength=n_cells)
            totals[1][:, j] += as_total(part, dtype)

    def fresh() -> list[NDArray]:
        return [np.zeros(n_cells, dtype=counted), np.zeros((n_cells, d), dtype=dtype)]

    counts, sums = fold(rows, add, fresh, read="chunk" if most is None else "weighted")
    return CellTable(counts, sums, depth)


MAX_DEPTH = 16
# The image of a leaf's sums has a norm of about 2**17 steps a row.
_IMAGE_BITS, _LEAF_BITS = 17, 34
WEIGHT_BITS = 16  # of the weight of a row: sums of a block are below 2**53


def leaf_weights(reach: Ints, grid: Floats) -> Ints:
    """Return the public integer weights of the columns of each leaf, shape (m, d).

    W_j = floor(2**34 sqrt(pi_j) / reach_j), at least 1, makes the leaf's half sides sqrt(pi_j)
    2**34: units by `column_units` of its half sides.
    """
    weights = np.zeros(reach.shape, dtype=np.int64)
    # Leaves of one shape have the same weights.
    shapes, which = np.unique(reach, axis=0, return_inverse=True)
    for i, shape in enumerate(shapes):
        sides = shape * grid
        unit = column_units(sides)
        scaled = np.divide(sides, unit, out=np.zeros(sides.size), where=unit > 0)  # sqrt(pi)
        moving = shape > 0
        weight = np.floor(scaled[moving] * 2.0**_LEAF_BITS / shape[moving])
        row = np.zeros(sides.size, dtype=np.int64)
        row[moving] = np.maximum(weight.astype(np.int64), 1)
        weights[which.ravel() == i] = row
    return weights


def leaf_image(sums: NDArray, weights: Ints, more: int = 0) -> NDArray:
    """Return the released image of leaf sums: sums * weights / 2**(17 + more), to nearest."""
    bits = _IMAGE_BITS + more
    largest = int(np.abs(sums).max(initial=0)) * int(weights.max(initial=0))
    wide = sums.dtype == object or largest >= 2**61
    exact = (sums.astype(object) if wide else sums) * (weights.astype(object) if wide else weights)
    image = (exact + (1 << (bits - 1))) >> bits
    return image if wide else image.astype(np.int64)


def image_bounds(reach: Ints, weights: Ints) -> Ints:
    """Return by how much, in L2, an added row moves the image of its leaf's sums, rounded up."""
    exact = (reach.astype(object) * weights.astype(object)) ** 2
    slack = 1 + isqrt_up(reach.shape[1])
    bounds = [(isqrt_up(int(total)) >> _IMAGE_BITS) + slack for total in exact.sum(axis=1)]
    return np.array(bounds, dtype=np.int64)


def tree_box(low: ArrayLike, high: ArrayLike) -> ColumnBox:
    """Return the view of a public box for a tree, with equally many steps for each side."""
    low, high = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
    return ColumnBox(low, high, np.asarray(high) / 2 - np.asarray(low) / 2, bits=_TREE_BITS)


@reviewed
@dataclass(frozen=True, eq=False)
class BoxTree(Measurement):
    """A binary tree over a view's box, whose nodes are released on request; takes nothing itself.

    The answer is a `Tree`.
    """

    name: ClassVar[str] = "tree"
    view: Any
    depth: int
    most: float | None = None  # bound of the rows' weights

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Tree:
        depth = int(min(max(self.depth, 0), MAX_DEPTH))
        # Refuses rows of other columns, also where there are none.
        self.view.map(np.zeros((0, table.n_features)))
        return Tree(table, meter, self.view, depth, self.most)


_NAME = "skdp.queries.grouped_sums.BoxTree"  # of the query whose tree releases on request


class Tree:
    """Private counts and sums of the cells of a public binary tree; releases nodes on request."""

    def __init__(
        self,
        table: PrivateTable,
        meter: Meter,
        view: ColumnBox | Box | Projection,
        depth: int,
        most: float | None,
    ) -> None:
        self._relation, self._meter = table.relation, meter
        if most is not None and view.half.max(initial=0.0) > 2**_TREE_BITS:
            raise ValueError("view must have at most 2**20 steps for rows with weights")
        self._weight_bits = 0 if most is None else WEIGHT_BITS
        self._view = view
        self._geometry = tree_geometry(view.half, depth, view.grid)
        self._table = cell_table(table.rows, view, self._geometry, most)

    def __repr__(self) -> str:
        return f"Tree(depth={self.depth})"

    @property
    def depth(self) -> int:
        """How often the box is cut on the way to a leaf."""
        return self._geometry.depth

    def boxes(self, nodes: ArrayLike) -> tuple[Floats, Floats]:
        """Return the nodes' public boxes (low, high), both (m, d), in the view's units."""
        ids = self._checked(nodes, disjoint=False)
        low = self._geometry.low[ids] * self._view.grid + self._view.center
        high = (self._geometry.high[ids] + 1) * self._view.grid + self._view.center
        return np.maximum(low, self._view.low), np.minimum(high, self._view.high)

    def centers(self, nodes: ArrayLike) -> Floats:
        """Return the public centres to which `sums` refers, shape (m, d), in the view's units."""
        ids = self._checked(nodes, disjoint=False)
        centers, _ = leaf_geometry(self._geometry, ids)
        return self._view.center + centers * self._view.grid

    def counts(
        self, nodes: ArrayLike, share: Share = None, *, name: str = "node counts"
    ) -> Release:
        """Release the numbers of rows of pairwise disjoint nodes.

        Guarantee: a row is in at most one node. L1 1, L2 1 (A); 2, sqrt(2) (R).
        """
        ids = self._checked(nodes)
        size, bits = histogram_sensitivity(1, self._relation), self._weight_bits
        exact = self._table.node_counts(ids)
        with asked(_NAME, reviewed=True):
            bounds = Independent(size << bits, size << 2 * bits)
            noisy, std = bounds.noised(self._meter, name, exact, share, 2.0**-bits)
        return self._in_rows(noisy, std)

    def _in_rows(self, counts: NDArray, std: float) -> Release:
        """Return counts in rows of the largest weight."""
        step = 2.0**-self._weight_bits
        return released(counts.astype(np.float64) * step, std * step)

    def sums(
        self,
        leaves: ArrayLike,
        share: Share = None,
        *,
        count_share: float = 0.5,
        name: str = "leaf sums",
    ) -> tuple[Release, Release]:
        """Release counts (m,) and sums (m, d) of x - leaf centre of pairwise disjoint leaves.

        Guarantee: in the leaf's units by column its half diagonal bounds ||q - centre|| (integers,
        rounded up), so the noise of a leaf's sum is local to it; joint loss as of `Joint`.
        """
        ids = self._checked(leaves)
        centers, reach = leaf_geometry(self._geometry, ids)
        weights = leaf_weights(reach, self._view.grid)
        image = leaf_image(self._table.node_sums(ids, centers), weights, self._weight_bits)
        exact = np.column_stack([self._table.node_counts(ids), image])
        bounds, bits = image_bounds(reach, weights), self._weight_bits
        with asked(_NAME, reviewed=True):
            size = Joint.of(self._relation, bounds, count_share, 1 << bits)
            noisy, std = size.noised(self._meter, name, exact, share, 2.0**-_IMAGE_BITS)
        step = np.divide(2.0**_IMAGE_BITS, weights, out=np.zeros(reach.shape), where=weights > 0)
        step *= self._view.grid
        return (
            self._in_rows(noisy[:, 0], float(std[0, 0])),
            released(noisy[:, 1:].astype(np.float64) * step, std[:, 1:2] * step),
        )

    def _checked(self, nodes: ArrayLike, *, disjoint: bool = True) -> NDArray[np.int64]:
        """Return node ids as int64; refuse unknown and, if `disjoint`, overlapping ones."""
        ids = np.atleast_1d(np.asarray(nodes, dtype=np.int64))
        if ids.size == 0 or ids.min() < 1 or ids.max() >= 2 ** (self.depth + 1):
            raise PrivacyLeakError(f"nodes must be heap numbers of a tree of depth {self.depth}")
        if disjoint:
            first, last = self._table._span(np.sort(ids))
            order = np.argsort(first, kind="stable")
            if np.any(last[order][:-1] > first[order][1:]):
                raise PrivacyLeakError("nodes of one release must be pairwise disjoint")
        return ids
