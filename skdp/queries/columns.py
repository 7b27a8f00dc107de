"""A query of the rows that have a value in one column.

Released: what the query releases. Guarantee: whether a row is among them, and its value there, are
decided by the row alone. Proof: columns.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from skdp.core.privacy_filter import Share
from skdp.core.query import Derived, reviewed
from skdp.core.sums import RowSum
from skdp.core.table import PrivateTable, stability_of
from skdp.queries.histograms import CellQuantile
from skdp.queries.learned_bounds.learning import LearnedBounds
from skdp.queries.quantiles import Quantiles
from skdp.tabular.unstated import UncodedRows

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter

__all__ = ["OfColumn"]


@reviewed
@dataclass(frozen=True, eq=False)
class OfColumn(Derived):
    """A query of one column, of the rows in which it is not missing.

    Guarantee: that of the query, for the table that a filter of each row leaves: its number of rows
    is private, unless the type of the column has no missing values. For rows from
    `skdp.tabular.check_columns`.

    Attributes
    ----------
    column : int
    query : RowSum, Quantiles, CellQuantile or LearnedBounds
        Of a table of one column, without labels or weights.

    Returns
    -------
    answer : what the query returns
    """

    name: ClassVar[str] = "column"
    column: int
    query: Any

    def table(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> PrivateTable:
        query = self.query
        if type(query) not in _OF_COLUMN or (type(query) is RowSum and not query.of_values_alone):
            raise TypeError(
                "query must be a RowSum of values without cells, labels and weights, Quantiles, "
                f"CellQuantile or LearnedBounds, got {type(query).__name__}"
            )
        if not isinstance(table.rows, UncodedRows):
            raise TypeError("a column is asked of rows with columns of their own")
        rows, stability = table.rows.column(self.column), stability_of(table.relation)
        if rows.filtered:
            stability = stability.filtered()
        return PrivateTable(rows, stability)


_OF_COLUMN = (RowSum, Quantiles, CellQuantile, LearnedBounds)
