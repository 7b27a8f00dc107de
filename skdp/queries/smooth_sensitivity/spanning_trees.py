"""The cost of the minimum spanning tree of a public graph with private edge weights.

Neighbours differ in the weight of one edge, in [0, width]. Nothing is claimed for points whose
distances are the weights: one point touches all its edges. Proofs: smooth_sensitivity.md.

References
----------
K. Nissim, S. Raskhodnikova, A. Smith (2007), "Smooth sensitivity and sampling in private data
analysis", STOC, section 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from skdp.core.clipping import Box
from skdp.core.privacy_filter import Release, Share, released
from skdp.core.query import Measurement, reviewed
from skdp.queries.smooth_sensitivity.ladders import Ladder, smooth_release
from skdp.queries.smooth_sensitivity.medians import integer_columns

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable

__all__ = [
    "SpanningCost",
    "check_graph",
    "log_smooth_spanning_cost",
    "spanning_cost",
]


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


Ints = NDArray[np.int64]


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
