"""Means of a user's own function of one row, or of a model's score of each row.

Released: the mean of g(row) in [0, 1]. Guarantee: whatever the function does, the value of a row is
clipped to [0, 1], is 0 where the function fails, and is decided by that row alone.

References
----------
M. Kearns (1998), "Efficient noise-tolerant learning from statistical queries", JACM 45; A. Blum,
C. Dwork, F. McSherry, K. Nissim (2005), "Practical privacy: the SuLQ framework", PODS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import SUM_BITS, Box, Floats
from skdp.core.mechanisms import l2_noise
from skdp.core.noise import lent_generators
from skdp.core.privacy_filter import Release, Share, released
from skdp.core.query import Measurement, Noisy, UserFunction, reviewed, terms_of
from skdp.queries.user_sums import mean_in, sum_sensitivity, with_count
from skdp.tabular.containers import alone, cut
from skdp.user_code import foreign_code, run_isolated, suppress_warnings, user_code

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable

__all__ = [
    "FunctionMean",
    "ScoreMean",
]


def _answer(query: Callable[[Floats], Any], row: Floats, restart: Callable[[int], None]) -> float:
    """Return g(row) clipped to [0, 1]; 0 where it fails or returns no finite number."""
    value = run_isolated(lambda: float(query(row)), math.nan, restart)
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


# --- means of a user's function of one row ------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class FunctionMean(Measurement):
    """The mean over the rows of a user's g(row) in [0, 1].

    The callable gets one row as a new float64 array; a result outside of [0, 1] is clipped, an
    exception or anything but a finite number counts as 0. It must not pass anything from one row to
    another. Guarantee: the sum moves by at most 1 (A and R); as `Mean` of a box from 0 to 1.
    """

    name: ClassVar[str] = "query"
    function: UserFunction

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        view = Box([0.0], [1.0], bits=SUM_BITS)
        total = 0
        with user_code(meter, share, name) as restart:
            for block in table.rows.chunks():
                # A subclass or a view would let the callable reach the other rows.
                values = [_answer(self.function.call, np.array(row), restart) for row in block]
                total += int(view.map(np.array(values)[:, None]).sum())
        return _mean_of_total(table, meter, name, view, total, share, count_error=True)


@reviewed
@dataclass(frozen=True, eq=False)
class ScoreMean(Measurement):
    """The mean over the rows of a user's score of one row, clipped to [low, high].

    The callable gets one row at a time (X and y slices of length one); its exceptions and
    non-finite results become `low`. With ``exact_blocks`` it gets blocks, and must give each row
    the same bits in every block (elementwise ufuncs and ``accumulate`` do; BLAS does not, and a row
    that makes a block fail would change the last bits of its neighbours). Guarantee: as `Mean` of a
    one-dimensional box.
    """

    name: ClassVar[str] = "score"
    function: UserFunction
    low: float
    high: float
    exact_blocks: bool = False

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        view = Box([self.low], [self.high], bits=SUM_BITS)
        if table.in_parts:
            meter.check(share, name)
            with foreign_code(meter):
                (found,) = table.fold(self._add, _no_scores, read="pair")
            total = int(found[0])
        else:
            with user_code(meter, share, name) as restart:
                total = sum(self._sum(X, y, restart) for X, y in table.rows.slices(self._step))
        mean = _mean_of_total(table, meter, name, view, total, share)
        return released(np.clip(mean.value, self.low, self.high), mean.std)

    @property
    def _step(self) -> int:
        return 4096 if self.exact_blocks else 1

    def _sum(self, X: Any, y: Any, restart: Callable[[int], None]) -> int:
        """Return the sum of the scores of rows that the callable gets at once, in steps."""
        view = Box([self.low], [self.high], bits=SUM_BITS)
        values = _row_scores(self.function.call, X, y, self.low, restart)
        return int(view.map(np.clip(values, self.low, self.high)[:, None]).sum())

    def _add(self, pair: tuple[Any, Any], totals: list[NDArray]) -> None:
        """Add the scores of a chunk where it lies: silent, and one thread at a time."""
        X, y = pair
        with suppress_warnings(), lent_generators() as restart:
            for i in range(0, X.shape[0], self._step):
                totals[0][0] += self._sum(*_rows(X, y, i, i + self._step), restart)


def _mean_of_total(
    table: PrivateTable,
    meter: Meter,
    name: str,
    view: Box,
    total: int,
    share: Share,
    *,
    count_error: bool = False,
) -> Release:
    """Release a mean in one dimension from the exact sum of a view's rows."""
    weight = max(1, view.norm // 2)
    exact = with_count(np.array([total], dtype=np.int64), table, weight)
    size = sum_sensitivity(view, table.relation, weight=weight)
    terms = terms_of(table, meter, share)
    values, std = l2_noise(meter, name, exact, size, share, unit=float(view.grid.max()))
    noisy = Noisy(values, std, terms)
    value, error = mean_in(view, noisy, weight, count_error=count_error)
    return released(value[0], float(error[0]))


def _row_scores(
    score: Callable[[Any, Any], ArrayLike],
    X: Any,
    y: Any,
    default: float,
    restart: Callable[[int], None],
) -> Floats:
    """Apply the user's callable; exceptions and non-finite values become the public default."""
    length = X.shape[0]
    values = run_isolated(
        lambda: np.asarray(score(X, y), dtype=np.float64).reshape(length), None, restart
    )
    if values is None:
        if length > 1:
            # One bad row must not decide for the others: ask for each row alone.
            one = [_rows(X, y, i, i + 1) for i in range(length)]
            parts = [_row_scores(score, *pair, default, restart) for pair in one]
            return np.concatenate(parts)
        return np.array([default])
    bounded: Floats = np.where(np.isfinite(values), values, default)
    return bounded


def _rows(X: Any, y: Any, start: int, stop: int) -> tuple[Any, Any]:
    """Return some rows of a slice, as a slice of their own."""
    stop = min(stop, X.shape[0])
    return alone(cut(X, start, stop)), None if y is None else alone(cut(y, start, stop))


def _no_scores() -> list[NDArray]:
    return [np.zeros(1, dtype=object)]
