"""Queries on some columns of a table: on one with missing values, or on several complete ones.

Whether a row has a value in a column, and which, depends on the row alone. Proof: columns.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from skdp.core.privacy_filter import Share
from skdp.core.query import Derived, reviewed
from skdp.core.sums import RowSum
from skdp.core.table import PrivateTable
from skdp.queries.histograms import CellQuantile
from skdp.queries.learned_bounds.learning import LearnedBounds
from skdp.queries.quantiles import Quantiles
from skdp.tabular.labels import TargetRows
from skdp.tabular.unstated import UncodedRows

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter

__all__ = ["OfColumn"]


def _add_cut(first: int, stop: int, add: Callable[..., None], block: Any, totals: Any) -> None:
    add(block[:, first:stop], totals)


def _take_cut(first: int, stop: int, take: Callable[[Any], NDArray], block: Any) -> NDArray:
    return take(block[:, first:stop])


class _CutRows:
    """All rows of a table, with some of its columns; read in chunks alone."""

    def __init__(self, rows: Any, first: int, stop: int) -> None:
        self._rows, self._span = rows, (first, stop)
        if isinstance(rows, TargetRows):
            behind, before = rows.behind()
            if first >= before:  # targets alone: X need not be read
                self._rows, self._span = behind, (first - before, stop - before)
        self._n, self.n_features = rows._n, stop - first
        self.n_is_private, self.filtered = rows.n_is_private, rows.filtered
        known = getattr(rows, "ranges", None)
        self.ranges = None if known is None else known[:, first:stop]
        if hasattr(rows, "fold"):  # rows in parts, each read where it lies
            self.fold, self.gather = self._fold, self._gather
            self.spans_in_memory, self.at_a_time = rows.spans_in_memory, rows.at_a_time

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = self._rows.spans(width=width, least=least)
        return spans

    def chunk(self, start: int, stop: int) -> NDArray:
        values: NDArray = self._rows.chunk(start, stop)
        return values[:, slice(*self._span)]

    def _fold(self, add: Any, fresh: Any, *, width: int = 1, least: int = 256, read: str) -> Any:
        options: Any = {"width": width, "least": least, "read": read}
        return self._rows.fold(partial(_add_cut, *self._span, add), fresh, **options)

    def _gather(self, take: Any, *, wanted: Any = None) -> Any:
        return self._rows.gather(partial(_take_cut, *self._span, take), wanted=wanted)


@reviewed
@dataclass(frozen=True, eq=False)
class OfColumn(Derived):
    """A query of one column, of the rows in which it is not missing; or of some complete columns.

    Without `stop` the rows are from `skdp.tabular.check_columns` or `check_uncoded`. Guarantee:
    that of the query on the table of these rows, whose number is private unless the type of the
    column has no missing values. With `stop` the rows are complete, and the guarantee is that of
    the query on the table of these columns of all rows (columns.md).

    Attributes
    ----------
    column : int
    query : RowSum, Quantiles, CellQuantile or LearnedBounds
        Of a table of these columns, without labels or weights.
    stop : int or None
        For the columns from `column` to before this one.

    Returns
    -------
    answer : what the query returns
    """

    name: ClassVar[str] = "column"
    column: int
    query: Any
    stop: int | None = None

    def table(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> PrivateTable:
        query = self.query
        if type(query) not in _OF_COLUMN or (type(query) is RowSum and not query.of_values_alone):
            raise TypeError(
                "query must be a RowSum of values without cells, labels and weights, Quantiles, "
                f"CellQuantile or LearnedBounds, got {type(query).__name__}"
            )
        if self.stop is not None:
            if not 0 <= self.column < self.stop <= table.n_features:
                raise ValueError(f"columns must be among the {table.n_features} of the table")
            return PrivateTable(_CutRows(table.rows, self.column, self.stop), table.stability)
        if not isinstance(table.rows, UncodedRows):
            raise TypeError("a column is asked of rows with columns of their own")
        rows, stability = table.rows.column(self.column), table.stability
        if rows.filtered:
            stability = stability.filtered()
        return PrivateTable(rows, stability)


_OF_COLUMN = (RowSum, Quantiles, CellQuantile, LearnedBounds)
