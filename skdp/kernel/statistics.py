"""Exact statistics of bounded integer rows, each with the sensitivity that belongs to it.

Nothing is released here. Every function makes one pass over the rows in blocks and returns
exact integers: the same to the last bit in any row order, block size or number of threads,
because every partial sum of a block stays below 2**53 (float64 adds integers exactly there) and
blocks are added as int64, or as Python integers where int64 could overflow.

Sensitivities are integers in the same steps, for both neighbouring relations (A: add or remove
one row; R: replace one row). All views are symmetric about 0, so the diameter of the image, which
is the sensitivity of its sum under R, is twice its radius, the sensitivity under A.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skdp.kernel.protect import Floats, ScaledBox, View, isqrt_up, norm_codes
from skdp.kernel.rows import Rows

__all__ = [
    "REPLACE_ONE",
    "CellTable",
    "exact_gram",
    "exact_moments",
    "exact_sum",
    "fold",
    "gram_sensitivity",
    "grid_histograms",
    "histogram_sensitivity",
    "leaf_geometry",
    "moments_sensitivity",
    "norm_histogram",
    "sum_sensitivity",
]

Ints = NDArray[np.int64]
REPLACE_ONE = "replace_one"


# Passes over fewer values than this are not worth a second thread.
_PARALLEL_VALUES = 2**22
_MAX_THREADS = 4


def fold(
    rows: Rows,
    add: Callable[[Floats, list[NDArray]], None],
    fresh: Callable[[], list[NDArray]],
    *,
    width: int = 1,
    least: int = 256,
) -> list[NDArray]:
    """Add up what `add` makes of every block, in threads, and return the totals.

    Guarantee: the totals are exact integers, so neither the number of threads nor the order in
    which blocks are added changes a bit. Overflow warnings are off: they would depend on rows.

    Parameters
    ----------
    add : callable
        Adds a block's part to the totals, in place.
    fresh : callable
        Makes totals of zero; each thread has its own.
    width, least : int
        As in `Rows.spans`.
    """
    spans = rows.spans(width=width, least=least)
    parallel = rows._n * max(rows.n_features, width) >= _PARALLEL_VALUES
    threads = min(os.cpu_count() or 1, _MAX_THREADS, len(spans)) if parallel else 1

    def work(first: int) -> list[NDArray]:
        totals = fresh()
        with np.errstate(all="ignore"):
            for start, stop in spans[first::threads]:
                add(rows.block(start, stop), totals)
        return totals

    if threads == 1:
        return work(0)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(work, range(threads)))
    return [sum(columns[1:], start=columns[0]) for columns in zip(*parts, strict=True)]


def total_dtype(rows: Rows, largest: int) -> type:
    """Return int64 where n * largest cannot overflow it, else object (Python integers)."""
    return np.int64 if rows._n * largest < 2**62 else object


def as_total(part: NDArray, dtype: type) -> NDArray:
    """Convert an exact integer-valued float64 array to the dtype of the total."""
    whole = part.astype(np.int64)
    return whole.astype(object) if dtype is object else whole


# --- sums and second moments ------------------------------------------------------------------


def exact_sum(rows: Rows, view: View) -> tuple[NDArray, int]:
    """Return (sum of q, n), exactly."""
    dtype = total_dtype(rows, int(view.half.max(initial=0.0)))

    def add(block: Floats, totals: list[NDArray]) -> None:
        totals[0] += as_total(np.ones(len(block)) @ view.map(block), dtype)

    (total,) = fold(rows, add, lambda: [np.zeros(view.n_dims, dtype=dtype)], width=view.n_dims)
    return total, rows._n


def exact_moments(rows: Rows, view: ScaledBox) -> tuple[NDArray, int, int]:
    """Return (sums of q and of p = round(q**2 / Q) - Q/2 for every feature, Q, n), exactly.

    q in [-Q, Q] is the row in units of each feature's half width; see kernel/README.md, "Moments".
    """
    scale = view.steps
    d = view.n_dims
    dtype = total_dtype(rows, scale)

    def add(block: Floats, totals: list[NDArray]) -> None:
        q = view.map(block)
        ones = np.ones(len(q))
        totals[0][:d] += as_total(ones @ q, dtype)
        # q**2 is above 2**53, so it is rounded: one operation on one number.
        q *= q
        q *= 1.0 / scale
        np.rint(q, out=q)
        totals[0][d:] += as_total(ones @ q, dtype) - len(q) * (scale // 2)

    (total,) = fold(rows, add, lambda: [np.zeros(2 * d, dtype=dtype)], width=2 * d)
    return total, scale, rows._n


def sum_sensitivity(view: View, adjacency: str, *, weight: int = 0) -> int:
    """Return the sensitivity of (weight * n, sum of q) in L2, in steps, rounded up.

    A: sqrt(weight**2 + norm**2). R: the count does not move; 2 norm (attained between opposite
    corners of a box). At least 1, so that the noise of a box without width has a scale.
    """
    if adjacency == REPLACE_ONE:
        return max(1, 2 * view.norm)
    return max(1, isqrt_up(weight**2 + view.norm**2))


def moments_sensitivity(n_dims: int, scale: int, adjacency: str, *, weight: int = 0) -> int:
    """Return the L2 sensitivity of (weight * n, `exact_moments`), in steps, rounded up.

    Squared: 5/4 d scale**2 + weight**2 (A), 4 d scale**2 (R, where the count does not move).
    Holds for the rounded integers: kernel/README.md, "Moments".
    """
    if adjacency == REPLACE_ONE:
        return isqrt_up(4 * n_dims * scale**2)
    return isqrt_up(-(-5 * n_dims * scale**2 // 4) + weight**2)


_GRAM_BITS = 24  # of integers whose products are added up over few rows; longer ones are split


def exact_gram(rows: Rows, view: View) -> tuple[NDArray, NDArray, int]:
    """Return (sum of q q', sum of q, n), exactly, as Python integers.

    Products are BLAS on integers. That of r rows of integers up to 2**b is at most r 2**(2b), which
    must be at most 2**53: 2**16 rows up to 18 bits, fewer up to 24. Longer ones are split, q =
    2**15 high + low with |high| <= 2**16 and 0 <= low < 2**15, and three products are added up.
    """
    d = view.n_dims
    bits = int(view.half.max(initial=0.0)).bit_length()
    long = bits > _GRAM_BITS
    # Products of so many rows are exact in float64, and in int64.
    batch, most = (2 ** min(max(room - 2 * bits, 0), 16) for room in (53, 62))
    dtype = total_dtype(rows, 2**32 if long else 4**bits)

    def add(block: Floats, totals: list[NDArray]) -> None:
        q = view.map(block)
        totals[0] += as_total(np.ones(len(q)) @ q, dtype)
        if long:
            high = q * 2.0**-15
            np.floor(high, out=high)
            q -= high * 2.0**15
            for k, (a, b) in enumerate(((high, high), (high, q), (q, q))):
                totals[1][k] += as_total(a.T @ b, dtype)
            return
        for start in range(0, len(q), most):
            part = q[start : start + most]
            whole = len(part) - len(part) % batch if len(part) > batch else 0
            total = (part[whole:].T @ part[whole:]).astype(np.int64)
            if whole:
                stack = part[:whole].reshape(-1, batch, d)
                total += (stack.transpose(0, 2, 1) @ stack).astype(np.int64).sum(axis=0)
            totals[1][0] += total.astype(dtype)

    def fresh() -> list[NDArray]:
        return [np.zeros(d, dtype=dtype), np.zeros((3 if long else 1, d, d), dtype=dtype)]

    # Every block adds a matrix of products: it should have more rows than that costs.
    first, products = fold(rows, add, fresh, least=4 * d)
    second = products[0].astype(object)
    if long:
        cross, low = products[1].astype(object), products[2].astype(object)
        second = (second << 30) + ((cross + cross.T) << 15) + low
    return second, first.astype(object), rows._n


def gram_sensitivity(norm: int, tau: int, n_dims: int, adjacency: str, geometry: str) -> int:
    """Return the sensitivity of the Gram matrix of z = (q, tau), ||q|| <= norm, in steps squared.

    With gamma**2 = norm**2 + tau**2 and tau <= norm. A: the change is zz', whose Frobenius and
    nuclear norms are gamma**2 and whose upper triangle has L1 norm at most (D+1)/2 gamma**2 in D
    dimensions. R: zz' - vv' (the n entry cancels): Frobenius sqrt(2) gamma**2, nuclear
    2 gamma**2 (both at z orthogonal to v), upper triangle sqrt(D**2/2 + D + 1) gamma**2 (D even)
    or sqrt(D**2/2 + D + 3/4) gamma**2 (D odd). Proofs: kernel/README.md, "Gram matrix".
    """
    if tau > norm:
        raise ValueError("tau must not exceed the norm bound")
    gamma2 = norm**2 + tau**2
    dims = n_dims + (tau > 0)
    replace = adjacency == REPLACE_ONE
    if geometry == "frobenius":
        return isqrt_up(2 * gamma2**2) if replace else gamma2
    if geometry == "nuclear":
        return 2 * gamma2 if replace else gamma2
    if geometry == "upper_l1":
        if not replace:
            return -(-(dims + 1) * gamma2 // 2)
        quarter = 2 * dims**2 + 4 * dims + (4 if dims % 2 == 0 else 3)
        return isqrt_up(-(-quarter * gamma2**2 // 4))
    raise ValueError(f"unknown geometry {geometry!r}")


# --- counts and sums of the cells of a binary tree --------------------------------------------


@dataclass
class CellTable:
    """Exact counts and sums of all nodes of a complete binary tree over a box; private.

    The tree's geometry is public: level l cuts every box of that level at its integer midpoint
    along ``split_dims[l]``. So one pass that finds each row's deepest cell determines every node.
    Nodes are numbered as in a heap: root 1, children 2i and 2i + 1.
    """

    counts: Ints  # (2**depth,)
    sums: NDArray  # (2**depth, d)
    depth: int

    @cached_property
    def _count_prefix(self) -> Ints:
        return np.concatenate([[0], np.cumsum(self.counts)])

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

    def node_counts(self, nodes: Ints) -> Ints:
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
    """The public boxes of the tree: integer bounds (inclusive) of every node, by heap number."""

    low: Ints  # (2**(depth+1), d), row 0 unused
    high: Ints
    split_dims: Ints  # (depth,)
    depth: int


def tree_geometry(half: Floats, depth: int, grid: Floats | None = None) -> TreeGeometry:
    """Cut the box [-half, half] `depth` times at midpoints of its nominally longest side.

    Sides are compared in units of `grid` a step (None: one grid for all). All boxes of a level
    have the same shape up to rounding, so the side to cut is chosen once a level, from the root's
    nominal sides.
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
    """Return each node's integer centre and the bound on |q_j - centre_j| within it, both (m, d).

    The bound is the larger distance from the rounded centre to either face.
    """
    low, high = geometry.low[nodes], geometry.high[nodes]
    centers = (low + high) // 2
    return centers, np.maximum(np.maximum(centers - low, high - centers), 0)


def cell_table(rows: Rows, view: View, geometry: TreeGeometry) -> CellTable:
    """Find each row's deepest cell and add up counts and sums of the cells, in one pass."""
    depth, d = geometry.depth, view.n_dims
    n_cells = 2**depth
    thresholds = [
        geometry.low[2 * np.arange(2**level, 2 ** (level + 1)) + 1, geometry.split_dims[level]]
        for level in range(depth)
    ]
    dtype = total_dtype(rows, int(view.half.max(initial=0.0)))

    def add(block: Floats, totals: list[NDArray]) -> None:
        columns = np.ascontiguousarray(view.map(block).T)
        code = np.zeros(columns.shape[1], dtype=np.int64)
        for level in range(depth):
            cut = thresholds[level].astype(np.float64)[code]
            code = 2 * code + (columns[geometry.split_dims[level]] >= cut)
        totals[0] += np.bincount(code, minlength=n_cells)
        for j in range(d):
            part = np.bincount(code, weights=columns[j], minlength=n_cells)
            totals[1][:, j] += as_total(part, dtype)

    def fresh() -> list[NDArray]:
        return [np.zeros(n_cells, dtype=np.int64), np.zeros((n_cells, d), dtype=dtype)]

    counts, sums = fold(rows, add, fresh)
    return CellTable(counts, sums, depth)


def histogram_sensitivity(parts: int, adjacency: str) -> int:
    """Return the L1 sensitivity, which is the squared L2 one, of `parts` histograms side by side.

    A row adds one to one bin of each: parts (A). Another row takes as many away: 2 parts (R).
    """
    return 2 * parts if adjacency == REPLACE_ONE else parts


# --- histograms for bounds and quantiles ------------------------------------------------------

NORM_CODES = (-160, 160)  # quarter-octaves: norms from 2**-40 to 2**40


def norm_histogram(rows: Rows, center: Floats) -> Ints:
    """Count the rows in each quarter-octave of ||x - center||; a row adds one to one bin."""
    low, high = NORM_CODES
    size = high - low + 1

    def add(block: Floats, totals: list[NDArray]) -> None:
        codes = np.clip(norm_codes(block - center), low, high) - low
        totals[0] += np.bincount(codes, minlength=size)

    (histogram,) = fold(rows, add, lambda: [np.zeros(size, dtype=np.int64)])
    return histogram


def grid_histograms(rows: Rows, view: View, n_cells: int) -> Ints:
    """Count each feature's values in n_cells equal cells of its range [-half, half].

    Returns
    -------
    counts : ndarray of shape (d, n_cells)
    """
    d = view.n_dims
    width = 2.0 * view.half + 1.0  # integer values in the range
    offsets = np.arange(d) * n_cells

    def add(block: Floats, totals: list[NDArray]) -> None:
        q = view.map(block)
        # (q + half) * n_cells is an exact integer below 2**53; the quotient is one IEEE operation
        # on one number, so the cell depends on the value only.
        cell = np.minimum(np.floor((q + view.half) * n_cells / width), n_cells - 1)
        flat = (cell.astype(np.int64) + offsets).ravel()
        totals[0] += np.bincount(flat, minlength=d * n_cells).reshape(d, n_cells)

    (counts,) = fold(rows, add, lambda: [np.zeros((d, n_cells), dtype=np.int64)])
    return counts
