"""Counts and sums of rows by public region, every column in units of its own.

Regions are the nearest of public centres (`AssignedSums`) or the leaves of a public binary
tree (`BoxTree`); a row is in one of them. Which one is decided in the caller's units, on
one grid for all columns. What is added up is the row's offset from the region's centre, and one
noise serves columns of any width: each column is measured in a unit of its own, the offset is
clipped to an L2 norm in these units, and the noise falls in them. Proofs: kernel/README.md, "Joint
counts and sums of groups" and "Columns in units of their own".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exceptions import PrivacyLeakError
from skdp.kernel import statistics as stats
from skdp.kernel.protect import (
    Box,
    Floats,
    Projection,
    check_width,
    isqrt_up,
    norm_codes,
    power_of_two_grid,
)
from skdp.kernel.query import Independent, Measurement, Noisy, Query, reviewed
from skdp.kernel.release import Release, Share, released
from skdp.kernel.rows import Rows
from skdp.kernel.table import PrivateTable

if TYPE_CHECKING:
    from skdp.kernel.doors import Doors

__all__ = [
    "AssignedSums",
    "BoxTree",
    "ColumnBox",
    "Nearest",
    "NormsBelow",
    "SquaredOffsets",
    "Tree",
    "column_box",
    "column_units",
    "round_to_norm",
    "tree_box",
]

Ints = NDArray[np.int64]

MAX_DEPTH = 16
# A clipped offset has a norm of at most 2**25 steps: its square, and every sum of squares that is
# at most that, is exact in float64, and rounding is far below any noise.
MOST_BITS = 25
_TREE_BITS = 20
_NORM_BINS = 41  # quarter octaves: a factor of 1,000
_COMMON_BITS = 17  # of the grid on which rows are compared with centres
# The image of a leaf's sums has a norm of about 2**17 steps a row.
_IMAGE_BITS, _WEIGHT_BITS = 17, 34


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
    outside = np.flatnonzero(np.einsum("ij,ij->i", whole, whole) > limit)
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
        over = np.flatnonzero(np.einsum("ij,ij->i", y, y) > limit)
        y[over] -= np.sign(y[over])
        still = np.flatnonzero(np.einsum("ij,ij->i", y, y) > limit)
        y[still] = 0.0
        whole[outside] = y
    return whole


@reviewed
class ColumnBox:
    """Rows clipped to a box and centred at its midpoint, every column in a unit of its own.

    Parameters
    ----------
    low, high : array-like of shape (d,)
        Public bounds in user units.
    units : array-like of shape (d,)
        Public; the grid of a column is proportional to its unit.
    bits : int
        The norm of a row is at most about 2**bits steps.
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
        steps = 2.0**bits / max(float(np.linalg.norm(ratio)), 2.0**-900)
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


def center_sums(
    rows: Rows, box: Box, centers: Floats, steps: Floats, radius: int
) -> tuple[Ints, NDArray]:
    """Assign each row to its nearest centre and sum the clipped offsets by centre, exactly.

    Parameters
    ----------
    box : Box
        Rows are clipped to it first.
    centers : ndarray of shape (k, d)
        Public, in user units.
    steps : ndarray of shape (d,)
        Length of a step of each column, positive; inf for a column that counts as constant.
    radius : int
        L2 bound of an offset in steps.

    Returns
    -------
    counts : ndarray of shape (k,)
    sums : ndarray of shape (k, d)
        In steps.
    """
    nearest = Nearest(box.low, box.high, centers)
    k, d = centers.shape
    dtype = stats.total_dtype(rows, radius)
    columns = np.arange(d)

    def add(block: Floats, totals: list[NDArray]) -> None:
        x = np.clip(block, box.low, box.high)
        group = nearest(x)
        x -= centers[group]
        x /= steps
        offset = round_to_norm(x, radius)
        cells = (group[:, None] * d + columns).ravel()
        totals[0] += np.bincount(group, minlength=k)
        part = np.bincount(cells, weights=offset.ravel(), minlength=k * d)
        totals[1] += stats.as_total(part.reshape(k, d), dtype)

    def fresh() -> list[NDArray]:
        return [np.zeros(k, dtype=np.int64), np.zeros((k, d), dtype=dtype)]

    counts, sums = stats.fold(rows, add, fresh, width=k)
    return counts, sums


def square_sums(rows: Rows, box: Box, centers: Floats, one: int) -> NDArray:
    """Sum over rows, by column, the square of the offset from the nearest centre, exactly.

    Offsets are in half widths of the box and clipped to 1; squares are rounded to multiples of
    1 / one, so that a row adds integers from 0 to `one`.
    """
    nearest = Nearest(box.low, box.high, centers)
    half = np.maximum(box.high / 2 - box.low / 2, 0.0)
    scale = np.where(half > 0, half, math.inf)
    dtype = stats.total_dtype(rows, one)

    def add(block: Floats, totals: list[NDArray]) -> None:
        x = np.clip(block, box.low, box.high)
        x -= centers[nearest(x)]
        x /= scale
        np.clip(x, -1.0, 1.0, out=x)
        whole = np.rint(x * x * one)
        totals[0] += stats.as_total(whole.sum(axis=0), dtype)

    (total,) = stats.fold(
        rows, add, lambda: [np.zeros(box.n_dims, dtype=dtype)], width=len(centers)
    )
    return total


def leaf_weights(reach: Ints, grid: Floats) -> Ints:
    """Return the public integer weights of the columns of each leaf, shape (m, d).

    Steps of column j are multiplied by W_j = floor(2**34 sqrt(pi_j) / reach_j), at least 1, which
    makes the leaf's half sides sqrt(pi_j) 2**34: units by `column_units` of its half sides.
    """
    weights = np.zeros(reach.shape, dtype=np.int64)
    # Leaves of one shape have the same weights.
    shapes, which = np.unique(reach, axis=0, return_inverse=True)
    for i, shape in enumerate(shapes):
        sides = shape * grid
        unit = column_units(sides)
        scaled = np.divide(sides, unit, out=np.zeros(sides.size), where=unit > 0)  # sqrt(pi)
        moving = shape > 0
        weight = np.floor(scaled[moving] * 2.0**_WEIGHT_BITS / shape[moving])
        row = np.zeros(sides.size, dtype=np.int64)
        row[moving] = np.maximum(weight.astype(np.int64), 1)
        weights[which.ravel() == i] = row
    return weights


def leaf_image(sums: NDArray, weights: Ints) -> NDArray:
    """Return the released image of leaf sums: sums * weights / 2**17, rounded to nearest."""
    most = int(np.abs(sums).max(initial=0)) * int(weights.max(initial=0))
    wide = sums.dtype == object or most >= 2**61
    exact = (sums.astype(object) if wide else sums) * (weights.astype(object) if wide else weights)
    image = (exact + (1 << (_IMAGE_BITS - 1))) >> _IMAGE_BITS
    return image if wide else image.astype(np.int64)


def image_bounds(reach: Ints, weights: Ints) -> Ints:
    """Return by how much, in L2, a row more moves the image of its leaf's sums, rounded up.

    Proof: kernel/README.md, "Columns in units of their own".
    """
    exact = (reach.astype(object) * weights.astype(object)) ** 2
    slack = 1 + isqrt_up(reach.shape[1])
    bounds = [(isqrt_up(int(total)) >> _IMAGE_BITS) + slack for total in exact.sum(axis=1)]
    return np.array(bounds, dtype=np.int64)


def column_box(low: ArrayLike, high: ArrayLike, units: ArrayLike, level: float) -> ColumnBox:
    """Return the view of the rows clipped to a public box, columns in public units.

    Its steps are as fine as the samplers can cover with the noise of this level.
    """
    low, high = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
    return ColumnBox(low, high, units, bits=_step_bits(level, low.size))


def tree_box(low: ArrayLike, high: ArrayLike) -> ColumnBox:
    """Return the view of a public box for a tree: as many steps for each of its sides."""
    low, high = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
    return ColumnBox(low, high, np.asarray(high) / 2 - np.asarray(low) / 2, bits=_TREE_BITS)


def _step_bits(level: float, d: int) -> int:
    """Return the bits of a grid whose noise the samplers draw: fewer at tiny levels."""
    return max(min(MOST_BITS, 40 + math.floor(math.log2(level) - math.log2(d + 2))), 4)


@reviewed
@dataclass(frozen=True, eq=False)
class AssignedSums(Measurement):
    """Counts and sums of offsets of the rows by nearest public centre, jointly.

    Each row of the box goes to its nearest centre (Euclidean, in user units); its offset from
    it, divided by the units, is clipped to L2 norm `radius`. Noise falls on every centre,
    empty or not. Guarantee: the joint one of `Mechanisms.joint`.

    Parameters
    ----------
    units : float or array-like of shape (d,)
        Public; 0 for a column that counts as constant.

    Returns
    -------
    counts : Release, value of shape (k,)
    sums : Release, value and std of shape (k, d)
        Relative to the centres, in user units.
    """

    name: ClassVar[str] = "assigned sums"
    box: Box
    centers: Any
    radius: float
    units: Any = 1.0
    count_share: float = 0.5

    def measure(self, core: Doors, share: Share, name: str) -> tuple[Release, Release]:
        box, centers, radius = self.box, self.centers, self.radius
        units, count_share = self.units, self.count_share
        where = np.array(centers, dtype=np.float64).reshape(-1, box.n_dims)
        unit = np.broadcast_to(np.asarray(units, dtype=np.float64), (box.n_dims,))
        part = (1 - min(max(float(count_share), 0.01), 0.99)) / 2
        level = core.level(share) * (part if core.pure else math.sqrt(part))
        size = 2 ** _step_bits(level, box.n_dims)
        grid = np.where(unit > 0, np.maximum(unit * (radius / size), 2.0**-1000), 0.0)
        counts, sums = center_sums(core._rows, box, where, np.where(grid > 0, grid, math.inf), size)
        bounds = np.full(len(where), size, dtype=np.int64)
        noisy_counts, count_std, noisy_sums, sum_std = core._joint(
            name, counts, sums, bounds, share, count_share, unit=float(radius) / size
        )
        return (
            released(noisy_counts, count_std),
            released(noisy_sums.astype(np.float64) * grid, sum_std[:, None] * grid),
        )


@reviewed
@dataclass(frozen=True, eq=False)
class SquaredOffsets(Measurement):
    """By column, the sum of squared offsets of rows from their nearest centre.

    In half widths of the box, each offset clipped to 1. Guarantee: a row adds a vector of
    [0, 1]**d, so the L2 sensitivity is sqrt(d), under both relations.
    """

    name: ClassVar[str] = "squared offsets"
    box: Box
    centers: Any

    def measure(self, core: Doors, share: Share, name: str) -> Release:
        box, centers = self.box, self.centers
        where = np.array(centers, dtype=np.float64).reshape(-1, box.n_dims)
        one = 2 ** min(_step_bits(core.level(share), box.n_dims), _TREE_BITS)
        exact = square_sums(core._rows, box, where, one)
        size = isqrt_up(box.n_dims * one**2)
        noisy, std = core._vector(name, exact, size, share, unit=1 / one)
        return released(noisy.astype(np.float64) / one, std / one)


@reviewed
@dataclass(frozen=True, eq=False)
class NormsBelow(Query):
    """How many rows have each quarter-octave of ||x - center||, from a bound down.

    Entry i counts rows with a norm in [2**(-(i + 1)/4), 2**(-i/4)) times the bound; rows at or
    above the bound come first, those below the last entry's range last: shape (42,).
    Guarantee: a row is in one entry. L1 1, L2 1 (A); 2, sqrt(2) (R).
    """

    name: ClassVar[str] = "norms below"
    center: Floats
    bound: float

    def exact(self, table: PrivateTable) -> NDArray:
        def add(block: Floats, totals: list[NDArray]) -> None:
            codes = np.clip(norm_codes((block - self.center) / self.bound), 1 - _NORM_BINS, 1)
            totals[0] += np.bincount(1 - codes, minlength=_NORM_BINS + 1)

        (exact,) = table.fold(add, lambda: [np.zeros(_NORM_BINS + 1, dtype=np.int64)])
        return exact

    def sensitivity(self, relation: str) -> Independent:
        size = stats.histogram_sensitivity(1, relation)
        return Independent(size, size)

    def decoded(self, noisy: Noisy) -> Release:
        return released(noisy.values, noisy.std)


@reviewed
@dataclass(frozen=True, eq=False)
class BoxTree(Measurement):
    """A binary tree over a view's box, whose nodes are released on request; takes nothing itself.

    The answer is a `Tree`: one pass over the rows counts and adds up its leaves.
    """

    name: ClassVar[str] = "tree"
    view: Any
    depth: int

    def measure(self, core: Doors, share: Share, name: str) -> Tree:
        return Tree(core, self.view, int(min(max(self.depth, 0), MAX_DEPTH)))


class Tree:
    """Private counts and sums of the cells of a public binary tree; releases nodes on request.

    Attributes
    ----------
    depth : int
    split_dims : ndarray of shape (depth,)
        Dimension that each level cuts: the longest nominal side, in the view's units.
    """

    def __init__(self, session: Doors, view: ColumnBox | Box | Projection, depth: int) -> None:
        self._session = session
        self._view = view
        self._geometry = stats.tree_geometry(view.half, depth, view.grid)
        self._table = stats.cell_table(session._rows, view, self._geometry)
        self.depth = depth
        self.split_dims = self._geometry.split_dims.copy()

    def __repr__(self) -> str:
        return f"Tree(depth={self.depth})"

    def boxes(self, nodes: ArrayLike) -> tuple[Floats, Floats]:
        """Return the nodes' public boxes (low, high), each of shape (m, d), in the view's units."""
        ids = self._checked(nodes, disjoint=False)
        low = self._geometry.low[ids] * self._view.grid + self._view.center
        high = (self._geometry.high[ids] + 1) * self._view.grid + self._view.center
        return np.maximum(low, self._view.low), np.minimum(high, self._view.high)

    def centers(self, nodes: ArrayLike) -> Floats:
        """Return the public centres to which `sums` refers, shape (m, d), in the view's units."""
        ids = self._checked(nodes, disjoint=False)
        centers, _ = stats.leaf_geometry(self._geometry, ids)
        return self._view.center + centers * self._view.grid

    def counts(
        self, nodes: ArrayLike, share: Share = None, *, name: str = "node counts"
    ) -> Release:
        """Release the numbers of rows of pairwise disjoint nodes.

        Guarantee: a row is in at most one node. L1 1, L2 1 (A); 2, sqrt(2) (R).
        """
        ids = self._checked(nodes)
        size = stats.histogram_sensitivity(1, self._session.adjacency)
        exact = self._table.node_counts(ids)
        noisy, std = self._session._scalars(name, exact, size, size, share)
        return released(noisy, std)

    def sums(
        self,
        leaves: ArrayLike,
        share: Share = None,
        *,
        count_share: float = 0.5,
        name: str = "leaf sums",
    ) -> tuple[Release, Release]:
        """Release counts and sums of x - leaf centre of pairwise disjoint leaves, jointly.

        Guarantee: in the leaf's units by column its half diagonal bounds ||q - centre|| (in
        integers, rounded up), so the noise of a leaf's sum is local to it; joint loss as in
        `Mechanisms.joint`.

        Returns
        -------
        counts : Release, value of shape (m,)
        sums : Release, value and std of shape (m, d)
        """
        ids = self._checked(leaves)
        centers, reach = stats.leaf_geometry(self._geometry, ids)
        weights = leaf_weights(reach, self._view.grid)
        counts, count_std, image, image_std = self._session._joint(
            name,
            self._table.node_counts(ids),
            leaf_image(self._table.node_sums(ids, centers), weights),
            image_bounds(reach, weights),
            share,
            count_share,
            unit=2.0**-_IMAGE_BITS,
        )
        step = np.divide(2.0**_IMAGE_BITS, weights, out=np.zeros(reach.shape), where=weights > 0)
        step *= self._view.grid
        return (
            released(counts, count_std),
            released(image.astype(np.float64) * step, image_std[:, None] * step),
        )

    def _checked(self, nodes: ArrayLike, *, disjoint: bool = True) -> NDArray[np.int64]:
        """Return node ids as int64, refusing unknown ones and (if asked) overlapping ones."""
        ids = np.atleast_1d(np.asarray(nodes, dtype=np.int64))
        if ids.size == 0 or ids.min() < 1 or ids.max() >= 2 ** (self.depth + 1):
            raise PrivacyLeakError(f"nodes must be heap numbers of a tree of depth {self.depth}")
        if disjoint:
            first, last = self._table._span(np.sort(ids))
            order = np.argsort(first, kind="stable")
            if np.any(last[order][:-1] > first[order][1:]):
                raise PrivacyLeakError("nodes of one release must be pairwise disjoint")
        return ids
