"""Counts and sums of the bins of a binary tree over a box, released level by level.

Released: noisy counts, then sums, of leaves; splits depend on released counts only. Guarantee: a
row is in one bin of each level. Proofs: grouped_sums.md, "Joint noise" and "Columns in units of
their own".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import (
    GRID_BITS,
    Box,
    Floats,
    View,
    check_radius,
    isqrt_up,
    power_of_two_grid,
)
from skdp.core.mechanisms import Independent
from skdp.core.privacy_filter import Release, Share, asked, released
from skdp.core.query import Measurement, reviewed
from skdp.core.sums import weight_fractions
from skdp.core.table import as_total, fold, total_dtype
from skdp.exceptions import PrivacyLeakError
from skdp.queries.grouped_sums import _TREE_BITS, ColumnBox, Ints, Joint, column_units
from skdp.queries.histograms import histogram_sensitivity
from skdp.tabular.rows import Rows

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable

__all__ = [
    "BoxTree",
    "CellTable",
    "Projection",
    "Tree",
    "leaf_geometry",
    "tree_box",
]


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
        return np.concatenate([np.zeros(1, self.counts.dtype), np.cumsum(self.counts)])

    @cached_property
    def _sum_prefix(self) -> NDArray:
        return np.concatenate(
            [np.zeros((1, self.sums.shape[1]), self.sums.dtype), np.cumsum(self.sums, axis=0)]
        )

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
_IMAGE_BITS, _WEIGHT_BITS = 17, 34
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
        weight = np.floor(scaled[moving] * 2.0**_WEIGHT_BITS / shape[moving])
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


_NAME = "skdp.queries.trees.BoxTree"  # of the query whose tree releases on request


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
