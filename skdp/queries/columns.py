"""Queries on columns with missing values, one or all of them, and on some complete columns.

Whether a row has a value in a column, and which, depends on the row alone. Proof: columns.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import Floats, ScaledBox
from skdp.core.privacy_filter import Meter, Release, Share, released
from skdp.core.query import Derived, Terms, reviewed
from skdp.core.sums import Image, Range, RowSum
from skdp.core.table import PrivateTable, as_total, total_dtype
from skdp.queries.histograms import CellQuantile
from skdp.queries.learned_bounds.learning import LearnedBounds
from skdp.queries.quantiles import Quantiles
from skdp.tabular.labels import TargetRows
from skdp.tabular.unstated import IncompleteRows, UncodedRows

# --- a query of one column, or of some -----------------------------------------------------------


def _add_cut(first: int, stop: int, add: Callable[..., None], block: Any, totals: Any) -> None:
    add(block[:, first:stop], totals)


def _take_cut(first: int, stop: int, take: Callable[[Any], NDArray], block: Any) -> NDArray:
    return take(block[:, first:stop])


class _View:
    """All rows of a table, with other columns; read in chunks alone."""

    ranges: Any = None

    def __init__(self, rows: Any, n_features: int) -> None:
        self._rows, self._n, self.n_features = rows, rows._n, n_features
        self.n_is_private, self.filtered = rows.n_is_private, rows.filtered

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = self._rows.spans(width=width, least=least)
        return spans


class _CutRows(_View):
    """Some columns, one after the other."""

    def __init__(self, rows: Any, first: int, stop: int) -> None:
        super().__init__(rows, stop - first)
        self._span, self._read = (first, stop), rows.chunk
        if isinstance(rows, TargetRows):
            behind, before = rows.behind()
            if stop <= before:  # X alone: targets need not be put beside it
                self._read = super(TargetRows, rows).chunk
            elif first >= before:
                self._rows, self._span = behind, (first - before, stop - before)
                self._read = behind.chunk
        known = getattr(rows, "ranges", None)
        self.ranges = None if known is None else known[:, first:stop]
        if hasattr(rows, "fold"):  # rows in parts, each read where it lies
            self.fold, self.gather = self._fold, self._gather
            self.spans_in_memory, self.at_a_time = rows.spans_in_memory, rows.at_a_time

    def chunk(self, start: int, stop: int) -> NDArray:
        values: NDArray = self._read(start, stop)
        return values[:, slice(*self._span)]

    def _fold(self, add: Any, fresh: Any, *, width: int = 1, least: int = 256, read: str) -> Any:
        options: Any = {"width": width, "least": least, "read": read}
        return self._rows.fold(partial(_add_cut, *self._span, add), fresh, **options)

    def _gather(self, take: Any, **options: Any) -> Any:
        return self._rows.gather(partial(_take_cut, *self._span, take), **options)


class _Weights(_View):
    """The weights of the rows, as the only column."""

    def chunk(self, start: int, stop: int) -> NDArray:
        weights: NDArray = self._rows.weights(start, stop)[:, None]
        return weights


class _Cells(_View):
    """Some columns of numbers; NaN where a cell is missing."""

    has_missing = True

    def __init__(self, rows: Any, columns: tuple[int, ...]) -> None:
        super().__init__(rows, len(columns))
        self._columns = list(columns)
        # Of rows without codes the types say nothing here.
        known = rows.ranges if isinstance(rows, IncompleteRows) else None
        self.ranges = None if known is None else known[:, self._columns]

    def chunk(self, start: int, stop: int) -> NDArray:
        values: NDArray = self._rows.incomplete(start, stop)
        if self._columns != list(range(values.shape[1])):
            values = values[:, self._columns]
        return values


@reviewed
@dataclass(frozen=True, eq=False)
class OfColumn(Derived):
    """A query of one column, of the rows in which it is not missing; or of some columns.

    Without `stop` the rows are from `skdp.tabular.check_columns` or `check_uncoded`. Guarantee:
    that of the query on the table of these rows, whose number is private unless the type of the
    column has no missing values. With `stop` the rows are complete, and the guarantee is that of
    the query on the table of these columns of all rows (columns.md). With several columns in a
    tuple the bounds of all of them are learned, each of its non-missing cells, and no row is left
    out. ``"weights"`` are a column, too.

    - `query`: Of a table of these columns, without labels or weights.
    - `stop`: For the columns from `column` to before this one.
    """

    column: Any
    query: Any
    stop: int | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """Such as "quantiles of columns 2 to 4"."""
        if isinstance(self.column, tuple):
            which = f"{len(self.column)} columns"
        elif self.stop is None or self.stop == self.column + 1:
            which = f"column {self.column}"
        else:
            which = f"columns {self.column} to {self.stop - 1}"
        return f"{self.query.name} of {which}"

    def table(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> PrivateTable:
        query = self.query
        if type(query) not in _OF_COLUMN or (type(query) is RowSum and not query.of_values_alone):
            raise TypeError(
                "query must be a RowSum of values without cells, labels and weights, Quantiles, "
                f"CellQuantile or LearnedBounds, got {type(query).__name__}"
            )
        if self.column == "weights":
            if getattr(table.rows, "_row_weights", None) is None:
                raise TypeError("the rows have no weights")
            return PrivateTable(_Weights(table.rows, 1), table.stability)
        if self.stop is not None:
            if not 0 <= self.column < self.stop <= table.n_features:
                raise ValueError(f"columns must be among the {table.n_features} of the table")
            return PrivateTable(_CutRows(table.rows, self.column, self.stop), table.stability)
        if not isinstance(table.rows, UncodedRows | IncompleteRows):
            raise TypeError("a column is asked of rows with columns of their own")
        if isinstance(self.column, tuple):
            if type(query) is not LearnedBounds:
                raise TypeError("of several columns with missing cells only bounds are learned")
            places = range(len(table.rows.plans))
            if not all(type(j) is int and j in places for j in self.column):
                raise ValueError("columns must be numbers of columns of the table")
            return PrivateTable(_Cells(table.rows, self.column), table.stability)
        rows, stability = table.rows.column(self.column), table.stability
        if rows.filtered:
            stability = stability.filtered()
        return PrivateTable(rows, stability)


_OF_COLUMN = (RowSum, Quantiles, CellQuantile, LearnedBounds)


# --- all columns together ------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class FilledCells(Range):
    """Whether a row has a value in each of some columns of numbers; with `missing`, whether not."""

    own_pass = True
    largest = 1
    columns: tuple[int, ...]
    missing: bool = False

    @property
    def what(self) -> str:  # type: ignore[override]
        return "missing values" if self.missing else "non-missing values"

    @property
    def shape(self) -> tuple[int]:
        return (len(self.columns),)

    @property
    def entry_bounds(self) -> tuple[int, int]:
        return 1, 1

    def check_table(self, table: PrivateTable) -> None:
        if not hasattr(table.rows, "missing_counts"):
            raise TypeError("missing cells are counted in rows that have no codes yet")

    def table_total(self, table: PrivateTable) -> NDArray:
        counts: NDArray = table.rows.missing_counts(self.columns)
        return counts if self.missing else table.n - counts


@reviewed
@dataclass(frozen=True, eq=False)
class PresentValues(Image):
    """The clipped values of a row, u in [-1, 1], and C for each of them in `counted` columns.

    A missing cell adds 0 to both. The answer is the mean of each column over its non-missing rows.

    - `counted`: The columns that may have missing cells. The others have as many values as there
      are rows.
    - `count`: C; a session sets it.
    """

    what = "clipped values of non-missing cells"
    own_pass = True
    view: Any
    counted: tuple[int, ...]
    count: int = 1

    def prepared(self, terms: Terms) -> PresentValues:
        steps = int(self.view.steps)
        # Where rows are replaced, the largest that costs nothing; else a third of the half width:
        # a mean has 5% more noise than its sum.
        count = math.isqrt(3 * steps**2) if terms.replaces else steps // 3
        return replace(self, count=max(1, count))

    @property
    def in_cubes(self) -> tuple[PresentValues, float]:
        """The prepared image with the largest C that does not add to the bounds on entries."""
        steps = int(self.view.steps)
        return replace(self, count=2 * steps if self.count > steps else steps), 1.0

    def check_table(self, table: PrivateTable) -> None:
        if not isinstance(table.rows, IncompleteRows):
            raise TypeError("means of columns with missing values need rows from check_columns")

    @property
    def shape(self) -> tuple[int]:
        return (self.view.n_dims + len(self.counted),)

    @property
    def unit(self) -> float:
        return 1.0 / self.view.steps

    @property
    def count_weight(self) -> int:
        return max(1, int(self.view.steps) // 3)

    def _of_columns(self, counted: int, other: int) -> int:
        """Return the sum over columns of a bound for each of them."""
        k = len(self.counted)
        return k * counted + (int(self.view.n_dims) - k) * other

    @property
    def l1(self) -> int:
        steps = int(self.view.steps)
        return self._of_columns(steps + self.count, steps)

    @property
    def l2_squared(self) -> int:
        steps = int(self.view.steps)
        return self._of_columns(steps**2 + self.count**2, steps**2)

    @property
    def change_l1(self) -> int:
        steps = int(self.view.steps)
        return self._of_columns(max(2 * steps, steps + self.count), 2 * steps)

    @property
    def change_l2_squared(self) -> int:
        steps = int(self.view.steps)
        return self._of_columns(max(4 * steps**2, steps**2 + self.count**2), 4 * steps**2)

    @property
    def largest(self) -> int:
        return max(int(self.view.steps), self.count)

    @property
    def entry_bounds(self) -> tuple[int, int]:
        return self.largest, max(2 * int(self.view.steps), self.count)

    def table_total(self, table: PrivateTable) -> NDArray:
        dtype = total_dtype(table.rows, self.largest)
        d, counted = int(self.view.n_dims), list(self.counted)
        no_width = bool((self.view.half_width == 0).any())

        def add(x: Floats, totals: list[NDArray]) -> None:
            q, every = self.view.map(x), np.ones(len(x))
            sums, present = every @ q, np.full(d, len(x))
            # A column without width is mapped to 0, whatever is missing.
            if no_width or np.isnan(sums).any():
                missing = np.isnan(x)
                np.copyto(q, 0.0, where=missing)
                sums = every @ q
                present -= np.count_nonzero(missing, axis=0)
            totals[0][:d] += as_total(sums, dtype)
            totals[0][d:] += present[counted].astype(dtype) * self.count

        (total,) = table.fold(add, lambda: [np.zeros(self.shape, dtype)], read="incomplete")
        return total

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Release:
        view, d, counted = self.view, self.view.n_dims, list(self.counted)
        n, n_std = np.ones(d), np.zeros(d)
        if count is not None:
            n[:], n_std[:] = float(count.value), float(count.std)
        n[counted], n_std[counted] = sums[d:] / self.count, std / self.count
        rows = np.maximum(n, 1.0)
        mean = np.clip(sums[:d] / rows / view.steps, -1.0, 1.0)
        error = np.hypot(std / rows / view.steps, mean * n_std / rows)  # to first order
        answer = released(view.middle + view.half_width * mean, view.half_width * error)
        return replace(answer, count=released(n, n_std))


def present_means(low: ArrayLike, high: ArrayLike, counted: tuple[int, ...]) -> RowSum:
    """Return the query of the mean of each column over its non-missing rows, in user units."""
    image = PresentValues(ScaledBox(low, high), counted)
    return RowSum(image, count=len(counted) < image.view.n_dims, name="means")
