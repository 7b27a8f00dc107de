"""Means of a user's function of one row, of scores of rows, or of a user's features of a row.

Guarantee: whatever the code does, a row's values are clipped, are public where the code fails, and
that row alone decides them; so these are images of rows ("Sums" in PROOFS.md, "A user's code" in
histograms.md).

References
----------
M. Kearns (1998), "Efficient noise-tolerant learning from statistical queries", JACM 45; A. Blum,
C. Dwork, F. McSherry, K. Nissim (2005), "Practical privacy: the SuLQ framework", PODS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import SUM_BITS, Ball, Box, Floats
from skdp.core.noise import lent_generators
from skdp.core.privacy_filter import Meter, Release, Share, released
from skdp.core.query import UserFunction, reviewed
from skdp.core.sums import RowSum, Values
from skdp.core.table import PrivateTable, as_total, total_dtype
from skdp.tabular.containers import alone, cut, to_float
from skdp.tabular.rows import as_dense
from skdp.user_code import foreign_code, run_isolated, suppress_warnings, user_code


@dataclass(frozen=True, eq=False)
class _OfUserCode(Values):
    """The numbers that a user's code makes of a row, clipped by a view."""

    runs_user_code = True
    function: Any = None
    exact_blocks: bool = False

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        raise TypeError("only a session runs a user's code")


@dataclass(frozen=True, eq=False)
class _OfFunction(_OfUserCode):
    """The number that a user's code makes of a row, clipped to the view of one number."""

    @property
    def count_weight(self) -> int:
        return max(1, int(self.view.norm) // 2)

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Release:
        mean = super().decoded(sums, std, count)
        return released(mean.value[0], float(mean.std[0]))


@reviewed
@dataclass(frozen=True, eq=False)
class FunctionOfRow(_OfFunction):
    """A user's g(row), clipped to [0, 1]; see `function_mean`."""

    what = "a user's function of each row"

    def user_total(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> NDArray:
        def answer(row: Floats) -> float:
            value = run_isolated(lambda: float(self.function.call(row)), math.nan, restart)
            return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0

        total = 0
        with user_code(meter, share, name) as restart:
            for block in table.rows.chunks():
                # A subclass or a view would let the callable reach the other rows.
                values = [answer(np.array(row)) for row in block]
                total += int(self.view.map(np.array(values)[:, None]).sum())
        return np.array([total], dtype=np.int64)


def function_mean(function: UserFunction) -> RowSum:
    """Return the query of the mean over the rows of a user's g(row) in [0, 1].

    The callable gets one row as a new float64 array, and must not pass anything from one row to
    another. Results are clipped to [0, 1]; an exception or no finite number counts as 0.
    """
    image = FunctionOfRow(Box([0.0], [1.0]), SUM_BITS, count_error=True, function=function)
    return RowSum(image, count=True, name="query")


@reviewed
@dataclass(frozen=True, eq=False)
class ScoreOfRow(_OfFunction):
    """A user's score of a row, clipped to bounds; see `score_mean`."""

    what = "a score of each row"
    low: float = 0.0
    high: float = 1.0

    def user_total(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> NDArray:
        if table.in_parts:
            with foreign_code(meter):
                (scores,) = table.fold(self._add, _no_scores, read="pair")
            total = int(scores[0])
        else:
            with user_code(meter, share, name) as restart:
                total = sum(self._sum(X, y, restart) for X, y in table.rows.slices(self._step))
        return np.array([total], dtype=np.int64)

    @property
    def _step(self) -> int:
        return 4096 if self.exact_blocks else 1

    def _sum(self, X: Any, y: Any, restart: Callable[[int], None]) -> int:
        """Return the sum, in steps, of the scores of rows that the callable gets at once."""
        values = _row_scores(self.function.call, X, y, self.low, restart)
        return int(self.view.map(np.clip(values, self.low, self.high)[:, None]).sum())

    def _add(self, pair: tuple[Any, Any], totals: list[NDArray]) -> None:
        """Add the scores of a chunk where it lies, silently, in one thread at a time."""
        X, y = pair
        with suppress_warnings(), lent_generators() as restart:
            for i in range(0, X.shape[0], self._step):
                totals[0][0] += self._sum(*_rows(X, y, i, i + self._step), restart)

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Release:
        mean = super().decoded(sums, std, count)
        return released(np.clip(mean.value, self.low, self.high), mean.std)


def score_mean(
    function: UserFunction, low: float, high: float, exact_blocks: bool = False
) -> RowSum:
    """Return the query of the mean over the rows of a user's score, clipped to [low, high].

    The callable gets one row at a time (X and y slices of length one); exceptions and non-finite
    results become `low`. With ``exact_blocks`` it gets blocks, and must give each row the same bits
    in every block: elementwise ufuncs and ``accumulate`` do, BLAS does not.
    """
    view = Box([low], [high])
    image = ScoreOfRow(
        view, SUM_BITS, function=function, low=low, high=high, exact_blocks=exact_blocks
    )
    return RowSum(image, count=True, name="score")


def _row_scores(
    score: Callable[[Any, Any], ArrayLike],
    X: Any,
    y: Any,
    default: float,
    restart: Callable[[int], None],
) -> Floats:
    """Apply the user's callable to rows; failures and non-finite values become the default."""
    length = X.shape[0]
    values = run_isolated(
        lambda: np.asarray(score(X, y), dtype=np.float64).reshape(length), None, restart
    )
    if values is None:
        if length > 1:
            # One bad row must not decide for the others: ask for each row alone.
            pairs = (_rows(X, y, i, i + 1) for i in range(length))
            return np.concatenate([_row_scores(score, *p, default, restart) for p in pairs])
        return np.array([default])
    bounded: Floats = np.where(np.isfinite(values), values, default)
    return bounded


def _rows(X: Any, y: Any, start: int, stop: int) -> tuple[Any, Any]:
    """Return some rows of a slice as a slice of their own."""
    stop = min(stop, X.shape[0])
    return alone(cut(X, start, stop)), None if y is None else alone(cut(y, start, stop))


def _no_scores() -> list[NDArray]:
    return [np.zeros(1, dtype=object)]


# --- a user's features of each row --------------------------------------------------------------


def _row_features(
    transform: Callable[[Any], Any],
    X: Floats,
    view: Box | Ball,
    restart: Callable[[int], None],
) -> Floats:
    """Apply the user's map to rows and clip; a row that fails becomes zeros, and it alone."""
    length = len(X)
    # A copy: the map may write into it, or keep it.
    own = X.copy()
    values = run_isolated(lambda: to_float(as_dense(transform(own)))[0], None, restart)
    if values is None or values.shape != (length, view.n_dims):
        if length == 1:
            return np.zeros((1, view.n_dims))
        # One bad row must not decide for the others: ask for each row alone.
        return np.concatenate(
            [_row_features(transform, X[i : i + 1], view, restart) for i in range(length)]
        )
    finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(values), axis=1)
    q = view.map(np.where(finite[:, None], values, 0.0))
    q[~finite] = 0.0
    return q


@reviewed
@dataclass(frozen=True, eq=False)
class BasisOfRow(_OfUserCode):
    """A user's features of a row, clipped by a view; see `basis_mean`."""

    what = "a user's features of each row"

    def user_total(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> NDArray:
        rows, view = table.rows, self.view
        dtype = total_dtype(rows, self.largest)
        total: NDArray = np.zeros(view.n_dims, dtype=dtype)
        width = max(table.n_features, view.n_dims)
        with user_code(meter, share, name) as restart:
            for start, stop in rows.spans(width=width):
                block = rows.chunk(start, stop)
                step = len(block) if self.exact_blocks else 1
                for i in range(0, len(block), step):
                    q = _row_features(self.function.call, block[i : i + step], view, restart)
                    total += as_total(np.ones(len(q)) @ q, dtype)
        return total

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Any:
        return super().decoded(sums, std, count), count


def basis_mean(transform: UserFunction, view: Box | Ball, exact_blocks: bool = False) -> RowSum:
    """Return the query of the mean over rows of a user's features of one row, and n.

    The map gets one row at a time, a float64 array of shape (1, d) of its own, and returns an array
    (dense, sparse or a table) of shape (1, b). Where it raises or returns another shape or anything
    not finite, the row counts as the view's centre. With ``exact_blocks`` it gets blocks, and one
    that fails is tried again row by row: sound only for maps that give a row the same bits in every
    block (elementwise ufuncs do, BLAS does not). Every call must start from the same state: a map
    that remembers rows would let one of them move the features of others.

    The answer is (mean, n), the mean of shape (b,).
    """
    image = BasisOfRow(view, SUM_BITS, function=transform, exact_blocks=exact_blocks)
    return RowSum(image, count=True, name="basis mean")
