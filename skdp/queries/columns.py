"""Queries on columns with missing values, each of its non-missing rows.

Whether a row has a value in a column, and which, depends on the row alone. Proof: columns.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from skdp.core.privacy_filter import Share
from skdp.core.query import Derived, reviewed
from skdp.core.sums import RowSum
from skdp.core.table import PrivateTable
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

    The rows are from `skdp.tabular.check_columns` or `check_uncoded`. Guarantee: that of the query
    on the table of these rows, whose number is private unless the type of the column has no missing
    values.

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
        rows, stability = table.rows.column(self.column), table.stability
        if rows.filtered:
            stability = stability.filtered()
        return PrivateTable(rows, stability)


_OF_COLUMN = (RowSum, Quantiles, CellQuantile, LearnedBounds)
