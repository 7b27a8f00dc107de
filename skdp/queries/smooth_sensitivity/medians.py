"""Quantiles and costs of spanning trees, under noise scaled to their smooth sensitivity.

Released: the q-quantile of every feature, clipped to its box, or the cost of a tree. Guarantee: the
noise is scaled to the smooth sensitivity S of the order statistic, or cost, under the relation in
force, rounded up on a public ladder (`skdp.queries.smooth_sensitivity.ladders`). Values are
integers in [low, high]; x_(r) is the r-th smallest, `low` for r < 1 and `high` for r > n. Proofs:
smooth_sensitivity.md.

References
----------
K. Nissim, S. Raskhodnikova, A. Smith (2007), "Smooth sensitivity and sampling in private data
analysis", STOC, sections 3.1 and 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from skdp.core.clipping import Box, Floats, View
from skdp.core.privacy_filter import Meter, Release, Share, exact_fraction, released
from skdp.core.query import Measurement, reviewed
from skdp.core.table import PrivateTable
from skdp.queries.smooth_sensitivity.ladders import Ladder, smooth_release
from skdp.tabular.rows import Rows

Ints = NDArray[np.int64]
Ranks = NDArray[np.int64]

_BLOCKS = 128  # of ranks that share one bound
_SMALL = 2**15  # pairs of a staircase that are searched one by one


def smooth_sensitivity(
    values: ArrayLike, q: Fraction, low: int, high: int, beta: float, *, replace: bool
) -> tuple[int, float]:
    """Return the q-quantile of public integers, clipped to [low, high], and its smooth sensitivity.

    For teaching and tests: neither may be shown of private rows. Bounds are in [-2**31, 2**31). A
    sensitivity below exp(-150) times the width counts as 0.

    Examples
    --------
    >>> smooth_sensitivity([0, 0, 0, 1, 1, 1, 1], Fraction(1, 2), 0, 1, 0.5, replace=True)
    (1, 1.0)
    """
    x = np.clip(np.asarray(values), low, high).astype(np.int32)
    reach = min(len(x) + 1, int(150 / beta) + 2)
    if replace:
        f, log_s = log_smooth_replace(x, rank_of(q, len(x)), low, high, beta, reach)
    else:
        f, log_s = log_smooth_add(x, q, low, high, beta, reach)
    return f, math.exp(log_s)


def rank_of(q: Fraction, n: int) -> int:
    """Return the rank of the q-quantile of n values: max(1, ceil(q n)), 0 for n = 0."""
    return max(1, math.ceil(q * n)) if n else 0


def order_window(
    x: NDArray[np.int32], first: int, last: int, low: int, high: int
) -> NDArray[np.int32]:
    """Return the order statistics x_(first) .. x_(last) and sort x in place."""
    # Sorting 32-bit integers takes half the time of floats, and far less with many ties, where a
    # partition would gain nothing.
    x.sort()
    below, above = max(1 - first, 0), max(last - len(x), 0)
    inside = x[max(first, 1) - 1 : max(last, 0)]
    return np.concatenate([np.full(below, low), inside, np.full(above, high)], dtype=np.int32)


def _monotone_max(u: Floats, v: Floats, row: Floats, column: Floats) -> float:
    """Return max over (r, c) of (u_r + v_c) row_r column_c, the columns of the maxima ascending.

    Divide and conquer, all rows of a level at once: the best column of a row lies between those of
    its neighbours of the level above (smooth_sensitivity.md, "Order statistics").
    """
    rows, columns = len(u), len(v)
    best_at = np.zeros(rows, dtype=np.int64)
    best = 0.0
    stride = 1 << max(rows.bit_length() - 1, 0)
    while stride:
        now = np.arange(stride - 1, rows, 2 * stride)
        before, after = now - stride, now + stride
        lo = np.where(before >= 0, best_at[np.maximum(before, 0)], 0)
        hi = np.where(after < rows, best_at[np.minimum(after, rows - 1)], columns - 1)
        lengths = np.maximum(hi - lo, 0) + 1
        starts = np.cumsum(lengths) - lengths
        c = np.arange(lengths.sum()) + np.repeat(lo - starts, lengths)
        value = (np.repeat(u[now], lengths) + v[c]) * column[c]
        value = np.where(value > 0, value, -c)  # without a gap, lower columns come first
        top = np.maximum.reduceat(value, starts)
        hit = np.flatnonzero(value == np.repeat(top, lengths))
        owner = np.searchsorted(starts, hit, side="right") - 1
        best_at[now[owner]] = c[hit]
        best = max(best, float((top * row[now]).max()))
        stride //= 2
    return best


def _contenders(
    window: NDArray[np.int32],
    first: int,
    rows: Ranks,
    columns: Ranks,
    most: Callable[[Ranks], Ranks],
    cost: Callable[[Ranks, Ranks], Ranks],
    beta: float,
) -> tuple[Ranks, Ranks]:
    """Return the rows j and columns i that the best pair can have: usually a few of very many.

    The best pair has the largest (x_j - x_i) exp(-beta cost(j, i)), i at most most(j). A column
    stands for the ranks of equal values that end there. cost ascends with j and descends with i,
    most descends with j. Branch and bound: smooth_sensitivity.md, "Before the search".
    """
    starts = np.concatenate([[first], columns[:-1] + 1])
    while len(rows):
        size = len(rows) + len(columns)
        tall, wide = -(-len(rows) // _BLOCKS), -(-len(columns) // _BLOCKS)
        j, j_end = rows[::tall, None], _block_ends(rows, tall)[:, None]
        i, i_end = starts[::wide], np.minimum(_block_ends(columns, wide), most(j))
        weight = np.exp(-beta * np.maximum(cost(j, i_end), 0))
        widest = window[j_end - first].astype(np.float64) - window[i - first]
        gap = window[j - first].astype(np.float64) - window[np.maximum(i_end - first, 0)]
        allowed = i <= i_end
        least = np.max(gap * weight, where=allowed, initial=0.0)  # the value of some pair
        keep = allowed & (widest > 0) & (widest * weight >= least * (1 - 1e-9))
        rows = rows[np.repeat(keep.any(axis=1), tall)[: len(rows)]]
        keep_columns = np.repeat(keep.any(axis=0), wide)[: len(columns)]
        starts, columns = starts[keep_columns], columns[keep_columns]
        if 4 * (len(rows) + len(columns)) > 3 * size:
            break
    return rows, columns


def _block_ends(ranks: Ranks, size: int) -> Ranks:
    """Return the last of every `size` ranks."""
    return ranks[np.minimum(np.arange(size - 1, len(ranks) + size - 1, size), len(ranks) - 1)]


def _changes(window: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places whose value differs from the next one's."""
    return np.flatnonzero(window[1:] != window[:-1])


def log_smooth_replace(
    x: NDArray[np.int32], m: int, low: int, high: int, beta: float, reach: int
) -> tuple[int, float]:
    """Return x_(m) and log of its smooth sensitivity under replace-one.

    S = max over i <= m <= j, i < j of exp(-beta (j - i - 1)) (x_(j) - x_(i)). Pairs of more than
    `reach` changed rows are left out: the caller's floor on S is above their value.
    """
    first, last = max(0, m - reach - 1), min(len(x) + 1, m + reach + 1)
    window = order_window(x, first, last, low, high)
    f = int(window[m - first])
    # Of equal values, the nearest to rank m is as wide and cheaper.
    ends = first + _changes(window)
    rows = np.concatenate([[m], ends[ends >= m] + 1])
    columns = np.concatenate([ends[ends < m], [m]])

    j, i = _contenders(
        window, first, rows, columns, lambda j: np.full_like(j, m), lambda j, i: j - i - 1, beta
    )
    if not len(j):
        return f, -math.inf
    # beta times a length is at most about 40 (`Ladder.reach`): nothing underflows.
    best = _monotone_max(
        f - window[i - first].astype(np.float64),
        window[j - first].astype(np.float64) - f,
        np.exp(-beta * (m - i)),
        np.exp(-beta * (j - m)),
    )
    return f, math.log(best) + beta


def log_smooth_median_add(
    x: NDArray[np.int32], low: int, high: int, beta: float, reach: int
) -> tuple[int, float]:
    """Return the median and log of its smooth sensitivity under add-or-remove-one.

    S = max over i of exp(-beta (n - 2 i - 1)) (x_(n - i) - x_(i)) and
    exp(-beta (n - 2 i)) (x_(n + 1 - i) - x_(i)).
    """
    n = len(x)
    first = max(0, (n - reach) // 2)
    window = order_window(x, first, n + 1 - first, low, high)
    changes = window[1:] != window[:-1]
    best = -math.inf
    for total in (n, n + 1):  # of the two ranks, of places p and size - 1 - p in the window
        size = total + 1 - 2 * first
        # Of equal gaps, the last is the cheapest.
        inner = changes[: size // 2] | changes[: size - 1][::-1][: size // 2]
        p = np.flatnonzero(inner)
        gaps = window[size - 1 - p].astype(np.int64) - window[p]
        best = max(best, _log_max(gaps, beta * (total - 1 - 2 * (first + p))))
    return int(window[rank_of(Fraction(1, 2), n) - first]), best


def log_smooth_add(
    x: NDArray[np.int32], q: Fraction, low: int, high: int, beta: float, reach: int
) -> tuple[int, float]:
    """Return the q-quantile (`low` of no rows) and log of its smooth sensitivity, A.

    For q <= 1/2: S = max over i <= t(r), i < j = n + 1 - r, of
    exp(-beta (n - r - 2 i + max(i, t(r) - 1))) (x_(j) - x_(i)), t(r) = max(1, ceil(q r / (1 - q)))
    and t(0) = 0. For q > 1/2 the same upside down with t(r) = floor(r (1 - q) / q) + 1.
    """
    n = len(x)
    if not n:
        return low, math.log(high - low) if high > low else -math.inf
    m = rank_of(q, n)
    down = q > Fraction(1, 2)
    center = n + 1 - m if down else m
    first, last = max(0, center - reach - 1), min(n + 1, center + reach + 1)
    if down:  # ranks from above, and every value v is -1 - v, which no int32 overflows
        window = ~order_window(x, n + 1 - last, n + 1 - first, low, high)[::-1]
    else:
        window = order_window(x, first, last, low, high)
    f = int(window[center - first])

    def most(j: Ranks) -> Ranks:
        r = n + 1 - j
        if down:
            top: Ranks = _floor_times((1 - q) / q, r) + 1
        else:
            top = np.minimum(np.maximum(-_floor_times(-q / (1 - q), r), 1), r)
        return top

    def cost(j: Ranks, i: Ranks) -> Ranks:
        total: Ranks = j - 1 - i + np.maximum(most(j) - 1 - i, 0)
        return total

    # Of equal values, the lowest j is the cheapest and has the most partners; so is the last i,
    # or else the last of those that j may have.
    ends = first + _changes(window)
    j, columns = _contenders(window, first, ends + 1, ends, most, cost, beta)
    best, top = -math.inf, most(j)
    for i in (top, top - 1):  # no row is added
        keep = (i >= first) & (i < j)
        gaps = window[j[keep] - first].astype(np.int64) - window[i[keep] - first]
        best = max(best, _log_max(gaps, beta * (j[keep] - 1 - i[keep])))
    inside = _staircase_max(window, first, j, top - 1, columns, center, beta)
    return (~f if down else f), max(best, inside)


def _floor_times(ratio: Fraction, r: Ranks) -> Ranks:
    """Return floor(ratio r) for ratio in [-1, 1] and 0 <= r < 2**31, exactly."""
    # No fraction with a denominator up to max r lies between `near` and `ratio`, and products of
    # `near` fit 64 bits.
    near = ratio.limit_denominator(max(int(r.max(initial=1)), 1))
    product, below = r * near.numerator, near.denominator
    floor: Ranks = product // below if near <= ratio else -(-product // below) - (r > 0)
    return floor


def _staircase_max(
    window: NDArray[np.int32],
    first: int,
    j: Ranks,
    most: Ranks,
    columns: Ranks,
    center: int,
    beta: float,
) -> float:
    """Return log of max (x_j - x_i) exp(-beta (j - 1 + most_j - 2 i)), i of `columns` <= most_j.

    `most` descends as j ascends: cut into rectangles, and small staircases searched one by one.
    """
    upper = window[j - first].astype(np.float64)
    lower = -window[columns - first].astype(np.float64)
    # j - 1 + most - 2 i, in parts about the center: nothing overflows.
    row = np.exp(-beta * ((most - center) + (j - center) - 1))
    column = np.exp(2 * beta * (columns - center))
    width = np.searchsorted(columns, most, side="right")  # columns that a row may have
    best = 0.0
    todo = [(0, len(j), 0)]
    while todo:
        start, stop, base = todo.pop()  # rows start .. stop - 1, columns base ..
        if start >= stop or width[start] <= base:
            continue
        if (stop - start) * (width[start] - base) <= _SMALL:
            i = np.arange(base, int(width[start]))
            value = (upper[start:stop, None] + lower[i]) * column[i]
            value[i >= width[start:stop, None]] = 0.0
            best = max(best, float((value.max(axis=1) * row[start:stop]).max()))
            continue
        middle = (start + stop) // 2  # rows start .. middle all have columns base .. end - 1
        end = max(base, int(width[middle]))
        if end > base:
            part = slice(start, middle + 1)
            wide = slice(base, end)
            best = max(best, _monotone_max(upper[part], lower[wide], row[part], column[wide]))
        todo += [(start, middle, end), (middle + 1, stop, base)]
    return math.log(best) if best > 0 else -math.inf


def _log_max(gaps: NDArray[np.int64], cost: NDArray[Any]) -> float:
    """Return the largest log gap - cost; -inf if there is none above 0."""
    keep = gaps > 0
    if not keep.any():
        return -math.inf
    return float((np.log(gaps[keep]) - cost[keep]).max())


# --- quantiles ---------------------------------------------------------------------------------


def quantile_log_smooth(
    x: NDArray[np.int32], q: Fraction, low: int, high: int, ladder: Ladder, *, replace: bool
) -> tuple[int, int]:
    """Return the q-quantile of integers in [low, high] and the rung of its smooth sensitivity.

    Guarantee: for tables that differ by one replaced row (`replace`), or by one row more or less,
    |f - f'| is at most the smaller of the two rounded-up smooth sensitivities, and the rungs differ
    by at most STEPS. `x` is reordered.
    """
    if replace:
        m = rank_of(q, len(x))
        f, log_s = log_smooth_replace(x, m, low, high, ladder.beta, ladder.reach)
    elif q == Fraction(1, 2):
        f, log_s = log_smooth_median_add(x, low, high, ladder.beta, ladder.reach)
    else:
        f, log_s = log_smooth_add(x, q, low, high, ladder.beta, ladder.reach)
    return f, ladder.level(log_s)


def integer_columns(rows: Rows, view: View) -> NDArray[np.int32]:
    """Return the mapped rows of each feature, shape (d, n)."""
    out = np.empty((view.n_dims, rows._n), dtype=np.int32)
    with np.errstate(all="ignore"):
        for start, stop in rows.spans(width=view.n_dims):
            out[:, start:stop] = view.map(rows.chunk(start, stop)).T
    return out


@reviewed
@dataclass(frozen=True, eq=False)
class SmoothMedian(Measurement):
    """The q-quantile of every feature, x_(ceil(q n)), under smooth-sensitivity noise.

    Guarantee: each feature takes an equal part of the share (with Laplace noise, which is not pure,
    of `separate_delta` too). The quantile of no rows is the box's low end; the result is clipped to
    the box.

    - `view`: With public bounds: without, the smooth sensitivity would be infinite.
    - `q`: In [0, 1].
    - `noise` ({"cauchy", "student", "laplace"})
    - returns: std is NaN: the amount of noise depends on the rows, and is private.
    - raises ValueError: if q or the noise is out of range, before anything is taken from the
      allowance.
    """

    name: ClassVar[str] = "smooth median"
    view: Any
    q: float = 0.5
    noise: str = "cauchy"
    nu: int = 3

    @property
    def widths(self) -> list[int]:
        """The largest possible sensitivities, in steps."""
        return [max(1, 2 * int(h)) for h in self.view.half]

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        view = self.view
        if not 0 <= self.q <= 1:
            raise ValueError(f"q must be in [0, 1], got {self.q!r}")
        level = exact_fraction(float(self.q))
        # Order statistics are computed in int32.
        if float(view.half.max(initial=0.0)) >= 2**30:
            raise ValueError("view must have at most 2**30 steps a half width: Box(..., bits=17)")
        half = [int(h) for h in view.half]

        def statistic(ladders: list[Ladder]) -> tuple[NDArray, list[int]]:
            columns = integer_columns(table.rows, view)
            pairs = [
                quantile_log_smooth(x, level, -h, h, ladder, replace=table.n_is_public)
                for x, h, ladder in zip(columns, half, ladders, strict=True)
            ]
            return np.array([f for f, _ in pairs], dtype=np.int64), [j for _, j in pairs]

        noisy = smooth_release(
            meter,
            name,
            self.widths,
            statistic,
            share,
            noise=self.noise,
            nu=self.nu,
            unit=float(view.grid.max()),
        )
        steps = np.array([min(max(int(v), -h), h) for v, h in zip(noisy, half, strict=True)])
        value: Any = view.center + steps * view.grid
        return released(value, np.full(view.n_dims, np.nan))


# --- spanning trees -------------------------------------------------------------------------------
#
# The cost of the minimum spanning tree of a public graph with private edge weights. Neighbours
# differ in the weight of one edge, in [0, width]. Nothing is claimed for points whose distances are
# the weights: one point touches all its edges.


@reviewed
@dataclass(frozen=True, eq=False)
class SpanningCost(Measurement):
    """The cost of the minimum spanning tree of a public graph with private weights.

    Guarantee: the exact smooth sensitivity for one replaced weight, rounded up on the public
    ladder. It protects weights, not vertices or points.

    - `view`: Public bounds of the one feature, the weight.
    - `edges`: Public; row i of the session is the weight of edge i.
    - `noise` ({"cauchy", "student", "laplace"})
    - returns: A scalar; std is NaN.
    - raises ValueError: if the graph is not connected, there is not one weight for each edge, or
      the relation is not replace-one; before anything is taken from the allowance.
    """

    name: ClassVar[str] = "spanning tree"
    view: Box
    n_vertices: int
    edges: Any
    noise: str = "cauchy"
    nu: int = 3

    @property
    def widths(self) -> list[int]:
        """The largest possible sensitivity, in steps."""
        return [max(1, 2 * int(self.view.half[0]))]

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        view, n_vertices = self.view, self.n_vertices
        if not table.n_is_public:
            raise ValueError("a public graph has a weight for each edge: needs 'replace_one'")
        graph = check_graph(n_vertices, self.edges)
        if view.n_dims != 1 or len(graph) != table.n:
            raise ValueError("X must have one feature, the weight, and one row for each edge")
        half = int(view.half[0])
        (width,) = self.widths

        def statistic(ladders: list[Ladder]) -> tuple[NDArray, list[int]]:
            weights = integer_columns(table.rows, view)[0].astype(np.int64) + half
            log_s = log_smooth_spanning_cost(n_vertices, graph, weights, width, ladders[0].beta)
            cost = np.array([spanning_cost(n_vertices, graph, weights)], dtype=np.int64)
            return cost, [ladders[0].level(log_s)]

        unit = float(view.grid[0])
        noisy = smooth_release(
            meter, name, self.widths, statistic, share, noise=self.noise, nu=self.nu, unit=unit
        )
        n_chosen = n_vertices - 1
        steps = min(max(int(noisy[0]), 0), n_chosen * 2 * half)
        low = float(view.center[0]) - half * unit
        return released(n_chosen * low + steps * unit, math.nan)


def check_graph(n_vertices: int, edges: ArrayLike) -> Ints:
    """Return the edges of a public connected graph, shape (m, 2), or raise.

    Several edges between two vertices are allowed.

    - raises ValueError: if the edges do not join distinct vertices 0 .. n_vertices - 1, or not all
      of them.
    """
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or not len(pairs):
        raise ValueError("edges must be an array of integers of shape (n_edges, 2)")
    if pairs.min() < 0 or pairs.max() >= n_vertices or np.any(pairs[:, 0] == pairs[:, 1]):
        raise ValueError("edges must join two different vertices of 0 .. n_vertices - 1")
    if len(pairs) < n_vertices - 1:
        raise ValueError("the graph must be connected: n_vertices need n_vertices - 1 edges")
    out = pairs.astype(np.int64)
    if csgraph.connected_components(_adjacency(n_vertices, out), directed=False)[0] != 1:
        raise ValueError("the graph must be connected")
    return out


def _adjacency(n_vertices: int, edges: Ints) -> Any:
    """Return the symmetric matrix of the numbers of edges between two vertices."""
    # scipy before 1.16 takes indices of 32 bits only.
    ends = np.concatenate([edges, edges[:, ::-1]]).astype(np.int32)
    ones = np.ones(len(ends), dtype=np.int32)
    shape = (n_vertices, n_vertices)
    return sparse.coo_array((ones, (ends[:, 0], ends[:, 1])), shape=shape).tocsr()


def spanning_cost(n_vertices: int, edges: Ints, weights: Ints) -> int:
    """Return the cost of the minimum spanning tree, exactly (Kruskal)."""
    parent = list(range(n_vertices))

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    cost = 0
    for e in np.argsort(weights, kind="stable").tolist():
        a, b = root(int(edges[e, 0])), root(int(edges[e, 1]))
        if a != b:
            parent[a] = b
            cost += int(weights[e])
    return cost


def _cut_of(n_vertices: int, edges: Ints, ends: Ints) -> int:
    """Return the least number of edges whose removal separates the two ends."""
    if not len(edges):
        return 0
    flow = csgraph.maximum_flow(_adjacency(n_vertices, edges), int(ends[0]), int(ends[1]))
    return int(flow.flow_value)


def log_smooth_spanning_cost(
    n_vertices: int, edges: Ints, weights: Ints, width: int, beta: float
) -> float:
    """Return log of the smooth sensitivity of the cost when one edge's weight is replaced.

    The maximum of smooth_sensitivity.md, "Spanning trees", for edges of `check_graph` and integer
    weights in [0, width].
    """
    best = -math.inf
    # Light edges first: they have the widest gaps, so most other edges need not be computed.
    for e in np.argsort(weights, kind="stable").tolist():
        others = np.delete(np.arange(len(edges)), e)
        thresholds = np.unique(np.append(weights[others], width))
        thresholds = thresholds[thresholds > 0]

        def cut(at: int, e: int = e, others: Ints = others, levels: Ints = thresholds) -> int:
            lighter = others[weights[others] < levels[at]]
            return _cut_of(n_vertices, edges[lighter], edges[e])

        best = _best_of_edge(int(weights[e]), thresholds, cut, beta, best)
    return best


def _best_of_edge(
    w: int, thresholds: Ints, cut: Callable[[int], int], beta: float, best: float
) -> float:
    """Return the largest log value over the thresholds of one edge, and over `best`.

    The cut grows with the threshold, and the value at one cut does, too: a range whose ends have
    one cut has its largest value at the upper end, and one that cannot beat `best` is left out.
    """
    last = len(thresholds) - 1
    cuts = {0: cut(0), last: cut(last)}

    def value(at: int) -> float:
        t = int(thresholds[at])
        gap = t if t <= w else max(w, t - w)
        return max(math.log(gap) - beta * cuts[at], math.log(t) - beta * (cuts[at] + 1))

    best = max(best, value(0), value(last))
    ranges = [(0, last)]
    while ranges:
        low, high = ranges.pop()
        bound = math.log(int(thresholds[high])) - beta * cuts[low]
        if high - low < 2 or cuts[low] == cuts[high] or bound <= best:
            continue
        middle = (low + high) // 2
        cuts[middle] = cut(middle)
        best = max(best, value(middle))
        ranges += [(low, middle), (middle, high)]
    return best
