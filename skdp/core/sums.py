"""Exact statistics of bounded integer rows, each with the sensitivity that belongs to it.

Nothing is released here. Every function makes one pass over the rows in chunks and returns
exact integers: the same to the last bit in any row order, chunk size or number of threads,
because every partial sum of a chunk stays below 2**53 (float64 adds integers exactly there) and
chunks are added as int64, or as Python integers where int64 could overflow.

Sensitivities are integers in the same steps, for both neighbouring relations (A: add or remove
one row; R: replace one row). All views are symmetric about 0, so the diameter of the image, which
is the sensitivity of its sum under R, is twice its radius, the sensitivity under A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import SUM_BITS, Floats, View, isqrt_up
from skdp.core.mechanisms import Independent, Spherical
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, Terms, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable, Rows, as_total, fold, total_dtype

__all__ = [
    "Count",
    "Mean",
    "Sum",
    "exact_sum",
    "histogram_sensitivity",
    "sum_sensitivity",
]

Ints = NDArray[np.int64]


# --- sums and second moments ------------------------------------------------------------------


def exact_sum(rows: Rows, view: View) -> tuple[NDArray, int]:
    """Return (sum of q, n), exactly."""
    dtype = total_dtype(rows, int(view.half.max(initial=0.0)))

    def add(chunk: Floats, totals: list[NDArray]) -> None:
        totals[0] += as_total(np.ones(len(chunk)) @ view.map(chunk), dtype)

    (total,) = fold(rows, add, lambda: [np.zeros(view.n_dims, dtype=dtype)], width=view.n_dims)
    return total, rows._n


def sum_sensitivity(view: View, adjacency: str, *, weight: int = 0) -> int:
    """Return the sensitivity of (weight * n, sum of q) in L2, in steps, rounded up.

    A: sqrt(weight**2 + norm**2). R: the count does not move; 2 norm (attained between opposite
    corners of a box). At least 1, so that the noise of a box without width has a scale.
    """
    if adjacency == REPLACE_ONE:
        return max(1, 2 * view.norm)
    return max(1, isqrt_up(weight**2 + view.norm**2))


def histogram_sensitivity(parts: int, adjacency: str) -> int:
    """Return the L1 sensitivity, which is the squared L2 one, of `parts` histograms side by side.

    A row adds one to one bin of each: parts (A). Another row takes as many away: 2 parts (R).
    """
    return 2 * parts if adjacency == REPLACE_ONE else parts


def with_count(exact: NDArray, table: PrivateTable, weight: int) -> NDArray:
    """Return exact sums with weight * n behind them where the number of rows is private."""
    if table.n_is_public:
        return exact
    # Of Python integers where weight * n could overflow.
    dtype = exact.dtype if weight * table.n < 2**62 else object
    return np.concatenate([exact, np.array([weight * table.n], dtype=dtype)])


def without_count(noisy: Noisy, weight: int) -> tuple[Floats, float]:
    """Return noisy sums and the number of rows, at least 1, from what `with_count` made."""
    if noisy.terms.n_rows is not None:
        return noisy.values.astype(np.float64), max(1.0, float(noisy.terms.n_rows))
    return noisy.values[:-1].astype(np.float64), max(1.0, float(noisy.values[-1]) / weight)


def mean_in(
    view: View, noisy: Noisy, weight: int, *, count_error: bool = False
) -> tuple[Floats, Floats]:
    """Return the mean of a view's rows, clipped to it, and its standard error, in user units.

    With `count_error` the error has that of a private number of rows in it (first order).
    """
    total, count = without_count(noisy, weight)
    steps = np.clip(total / count, -view.half, view.half)
    value, std = view.center + steps * view.grid, noisy.std / count * view.grid
    if count_error and noisy.terms.n_rows is None:
        std = std * np.sqrt(1.0 + (steps / weight) ** 2)
    return value, std


@reviewed
@dataclass(frozen=True, eq=False)
class Count(Query):
    """The number of rows, where it is private.

    Guarantee: sensitivity 1 (A). Under R it does not move, and is not asked for; 1 is stated there,
    as noise of no scale is none.
    """

    name: ClassVar[str] = "count"

    def exact(self, table: PrivateTable) -> NDArray:
        return np.array([table.n], dtype=np.int64)

    def sensitivity(self, relation: str) -> Independent:
        return Independent(l1=1, l2_squared=1)

    def decoded(self, noisy: Noisy) -> Release:
        return released(float(noisy.values[0]), noisy.std)


@reviewed
@dataclass(frozen=True, eq=False)
class Sum(Query):
    """The sum of x - view.center over the rows, in user units.

    Guarantee: sensitivity norm (A), 2 norm (R), in L2.
    """

    name: ClassVar[str] = "sum"
    view: Any

    def prepared(self, terms: Terms) -> Sum:
        return replace(self, view=self.view.at(SUM_BITS))

    @property
    def unit(self) -> float:
        return float(self.view.grid.max())

    def exact(self, table: PrivateTable) -> NDArray:
        return exact_sum(table.rows, self.view)[0]

    def sensitivity(self, relation: str) -> Spherical:
        return Spherical(sum_sensitivity(self.view, relation))

    def decoded(self, noisy: Noisy) -> Release:
        grid = self.view.grid
        return released(noisy.values.astype(np.float64) * grid, noisy.std * grid)


@reviewed
@dataclass(frozen=True, eq=False)
class Mean(Query):
    """The mean of the clipped rows, in user units.

    Guarantee: R: the sum at sensitivity 2 norm over the public n. A: (w n, sum) in one release at
    sensitivity sqrt(w**2 + norm**2), w = norm / 3, then their quotient, clipped to the view's box.

    Attributes
    ----------
    view : Box, Ball, Projection, ...
    count_error : bool
        Whether the standard error counts the noise of a private n (first order).
    """

    name: ClassVar[str] = "mean"
    view: Any
    count_error: bool = False

    def prepared(self, terms: Terms) -> Mean:
        return replace(self, view=self.view.at(SUM_BITS))

    @property
    def _weight(self) -> int:
        return max(1, self.view.norm // 3)

    @property
    def unit(self) -> float:
        return float(self.view.grid.max())

    def exact(self, table: PrivateTable) -> NDArray:
        return with_count(exact_sum(table.rows, self.view)[0], table, self._weight)

    def sensitivity(self, relation: str) -> Spherical:
        return Spherical(sum_sensitivity(self.view, relation, weight=self._weight))

    def decoded(self, noisy: Noisy) -> Release:
        return released(*mean_in(self.view, noisy, self._weight, count_error=self.count_error))
