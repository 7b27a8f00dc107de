"""Columns whose values nobody stated: learned from rows that have no codes yet.

The type of booleans, or a polars Enum, says which values a column may have. The list in other types
(pandas' `category`, Arrow's dictionaries) was read off the rows: it is public only if the user says
so. All other columns are learned: numbers and dates by their values, anything else by keys. The key
of a cell is its column, its family (text, number, boolean or missing) and its value
(`skdp.tabular.cells.cell_key`); it depends on that cell alone. Once a domain is released, the codes
of a row are a function of that row and of the domain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skdp.tabular.cells import MISSING, cell_key, key_order
from skdp.tabular.coding import (
    CodedRows,
    Schema,
    _column_part,
    _number_type,
    coded_columns,
    table_schema,
)
from skdp.tabular.columns import MISSING_CODE, as_they_come, coded, readable_type
from skdp.tabular.containers import (
    as_list,
    column_names,
    column_types,
    holds_numbers,
    kind_of,
    readable_as,
    to_float,
    type_name,
)
from skdp.tabular.domain import (
    INTEGER,
    MOMENT,
    NUMBER,
    SPAN,
    Bins,
    Domain,
    is_integer,
    is_range,
    values_of_kind,
)
from skdp.tabular.parts import NO_ROWS, ONE_PLACE, refuse_parts
from skdp.tabular.rows import Rows, _checked_rows, _numeric_container
from skdp.user_code import reading

# --- rows as keys --------------------------------------------------------------------------------

Key = tuple[int, str, Any]  # of a cell: column, family, value

_NO_MARKS = (
    "{estimator}: missing_values other than NaN needs an array, lists or a pandas table: replace "
    "them by null before"
)
_DATES = (
    "{estimator}: the type of column {label!r} is of dates, times or durations, which are no "
    "categories: make text or numbers of them first"
)


def cell_codes(cells: Any, code_of: Callable[[tuple[str, Any]], int]) -> NDArray[np.int64]:
    """Return `code_of` of each cell's key, -1 for a cell that has no key; each by itself."""
    codes, values = coded(cells, readable_type(cells))
    code_of_value = np.full(len(values) + 2, -1, dtype=np.int64)
    for code in as_they_come(codes, len(values)):
        key = cell_key(values[code]) if code >= 0 else MISSING if code == MISSING_CODE else None
        if key is not None:
            code_of_value[code] = code_of(key)
    return code_of_value[codes]


class KeyedRows(Rows):
    """Private rows as keys, at most one a column.

    A cell has the key at its place in `keys`, none at -1.
    """

    def __init__(self, places: NDArray[np.int32], keys: list[Key]) -> None:
        super().__init__(places)
        self._keys, self.keys_per_row = keys, places.shape[1]

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return the keys that rows have, sorted, and the sums of their weights.

        Each key of a row with n keys weighs weights[n - 1]; keys in `without` do not count.
        """
        places, keys, gone = self._part(self._X, 0, self._n), self._keys, set(without)
        counted = np.array([key not in gone for key in keys] + [False])  # -1 is the last
        keys_of_row = counted[places].sum(axis=1)
        totals, present = [0] * len(keys), np.zeros(len(keys), dtype=bool)
        for n in np.unique(keys_of_row[keys_of_row > 0]).tolist():
            chosen = places[keys_of_row == n]
            counts = np.bincount(chosen[counted[chosen]], minlength=len(keys))
            present |= counts > 0
            for i in np.flatnonzero(counts).tolist():
                totals[i] += weights[n - 1] * int(counts[i])
        order = sorted(np.flatnonzero(present).tolist(), key=lambda i: key_order(keys[i]))
        return [keys[i] for i in order], [totals[i] for i in order]

    def digest(self) -> bytes:
        """Return a hash of the keys; it keys the noise of seeded fits and nothing else."""
        keys = [[self._keys[i] if i >= 0 else None for i in row] for row in self._X.tolist()]
        return hashlib.blake2b(repr(keys).encode(), digest_size=32).digest()


def check_categorical(X: Any, *, estimator: str, allow_empty: bool = False) -> tuple[Any, Any]:
    """Return a table of cells of any types and its `Schema`, whose types may be of categories.

    Refused with fixed texts are what is no table or has no rows, parts, and columns of dates.
    """
    refuse_parts(X, estimator, ONE_PLACE)
    X, schema = table_schema(X, estimator=estimator)
    if X.shape[0] == 0 and not allow_empty:
        raise ValueError(NO_ROWS)
    for j, dtype in enumerate(schema.types):
        if kind_of(dtype, schema.container) == "temporal":
            label = j if schema.names is None else schema.names[j]
            raise TypeError(_DATES.format(estimator=estimator, label=label))
    return X, schema


def column_cells(X: Any, j: int) -> Any:
    """Return a column of a table that `check_categorical` has checked, in its own container."""
    return _column_part(X, j, 0, int(X.shape[0]))


def array_of_cells(X: Any) -> NDArray[np.object_]:
    """Return the caller's own table, which `check_categorical` has checked, as objects."""
    cells = np.empty(X.shape, dtype=object)
    for j in range(X.shape[1]):
        for i, cell in enumerate(as_list(column_cells(X, j))):
            cells[i, j] = cell
    return cells


def with_missing(X: Any, value: Any, *, estimator: str) -> Any:
    """Return a table in which the cells that equal a public value are missing.

    Guarantee: a cell depends on that cell only; the types of the columns do not depend on cells:
    floats, where all columns are of numbers, else objects. Errors are those of `check_categorical`.
    """
    if sparse.issparse(X):
        X = X.toarray()
    table, schema = check_categorical(X, estimator=estimator, allow_empty=True)
    frame = hasattr(X, "iloc")
    if schema.names is not None and not frame:
        raise TypeError(_NO_MARKS.format(estimator=estimator))
    of_numbers, wanted = holds_numbers(table), cell_key(value)
    by_number = of_numbers and wanted is not None and wanted[0] == "number"
    cells = np.empty(table.shape) if of_numbers else array_of_cells(table)
    for j in range(table.shape[1] if of_numbers else 0):
        column = to_float(column_cells(table, j))[0]
        cells[:, j] = np.nan if column is None else np.ravel(column)
    if by_number:
        cells[cells == wanted[1]] = np.nan  # type: ignore[index]
    for j in range(0 if by_number else table.shape[1]):
        codes = cell_codes(column_cells(table, j), lambda key: int(key == wanted))
        cells[codes == 1, j] = np.nan if of_numbers else None
    return type(X)(cells, columns=list(schema.names or ()), index=X.index) if frame else cells


def check_keyed(X: Any, columns: Sequence[int], *, missing: bool) -> KeyedRows:
    """Return the keys of some columns of a table that `check_categorical` has checked.

    Guarantee: a row's keys depend on that row only; after it returns reading cannot fail. A
    `missing` cell has a key, or none.
    """
    return _keyed_rows([(j, X, j) for j in columns], int(X.shape[0]), missing=missing)


def _keyed_rows(columns: Sequence[tuple[int, Any, int]], n: int, *, missing: bool) -> KeyedRows:
    """Return the keys of columns (number in the key, table, position in it)."""
    numbers: dict[Key, int] = {}

    def number(j: int, key: tuple[str, Any]) -> int:
        return -1 if key == MISSING and not missing else numbers.setdefault((j, *key), len(numbers))

    places, step = np.empty((n, len(columns)), dtype=np.int32), 2**16
    for i, (j, table, position) in enumerate(columns):
        for start in range(0, n, step):
            cells = _column_part(table, position, start, min(start + step, n))
            places[start : start + step, i] = cell_codes(cells, partial(number, j))
    return KeyedRows(places, list(numbers))


# --- what types say of columns -------------------------------------------------------------------

CATEGORIES: tuple[str, ...] = ("private", "dtype")  # where the values of categories may come from
STATED, OF_TYPE, NUMBERS, KEYS = "stated", "type", "learned numbers", "selected categories"
UNITS = {NUMBER: 1.0, MOMENT: 86_400e6, SPAN: 60e6}  # of learned values: 1, a day, a minute
OTHER = "other"  # stands for text that was not selected

_STATE = (
    "domain: column {label!r} is of type {kind}, which says nothing that could be learned: state "
    "its values, domain={{{label!r}: [...]}}"
)
_NO_NUMBERS = (
    "domain: column {label!r} is stated as {integer!r}, but its type is {kind}: convert it to "
    "numbers, or state its values, domain={{{label!r}: [...]}}"
)
_NOT_PUBLIC = (
    "categories='dtype': the type of column {label!r} holds no list of its own; cast it to Enum, "
    "or state its categories, domain={{{label!r}: [...]}}"
)


@dataclass(frozen=True)
class ColumnPlan:
    """Where the values of one column come from; public."""

    label: Any  # name or position
    source: str  # STATED, OF_TYPE, NUMBERS or KEYS
    spec: Any = None  # the values, as `Domain` takes them, if they are known already
    kind: str = NUMBER  # of numbers that are learned; else MOMENT or SPAN
    integer: bool = False  # whether learned numbers are integers
    missing: bool = False  # whether learned numbers may be missing, by the type of the column
    text: bool = True  # whether categories that are not selected become the text "other", not None

    @property
    def learned(self) -> bool:
        """Whether the values must be learned from rows."""
        return self.source in (NUMBERS, KEYS)


def _type_at(X: Any, j: int) -> Any:
    """Return the type of a column, with the values that it may list."""
    types = column_types(X)
    return types[0] if isinstance(X, np.ndarray) else types[j]


def _nullable(X: Any, j: int, dtype: Any) -> bool:
    """Say whether a column of this type may have missing cells."""
    if isinstance(dtype, np.dtype):
        return dtype.kind in "fmMO"
    return not hasattr(X, "column_names") or bool(X.schema.field(j).nullable)


def _listed(X: Any, j: int, dtype: Any, label: Any, categories: str) -> list[Any] | None:
    """Return the values that a column's type lists, if these are public."""
    name = type(dtype).__name__
    arrow = getattr(dtype, "pyarrow_dtype", dtype)
    boolean = (isinstance(dtype, np.dtype) and dtype.kind == "b") or str(arrow) == "bool"
    if boolean or name in ("Boolean", "BooleanDtype"):
        return [False, True]
    if name == "Enum":
        return list(dtype.categories)
    if categories != "dtype":
        return None
    if name == "CategoricalDtype":
        return None if dtype.categories is None else list(dtype.categories)
    if name == "DictionaryType":
        chunks = X.column(j).unify_dictionaries().chunks
        return chunks[0].dictionary.to_pylist() if chunks else []
    if name == "Categorical":
        raise ValueError(_NOT_PUBLIC.format(label=label))
    return None


def _learned(X: Any, j: int, label: Any, *, labels: bool) -> ColumnPlan:
    """Return how a column is learned, by its type; `labels`: as categories, though of numbers."""
    dtype = _type_at(X, j)
    says, missing = readable_as(dtype), _nullable(X, j, dtype)
    shown = str(getattr(dtype, "pyarrow_dtype", dtype)).lower()
    if shown.startswith("decimal"):
        says = "number"
    if says == "number" and not labels:
        number = _number_type(dtype)
        integer = number is not None and number.kind in "iu"
        return ColumnPlan(label, NUMBERS, integer=integer, missing=missing)
    kind = getattr(dtype, "kind", "")
    if kind in ("M", "m") or shown.startswith(("date", "timestamp", "duration")):
        unit = SPAN if kind == "m" or shown.startswith("duration") else MOMENT
        return ColumnPlan(label, NUMBERS, kind=unit, missing=True)
    text = shown.startswith(("str", "large_str", "cat", "dict", "enum", "<u", "object", "utf8"))
    if says == "number" or text or shown == "null":
        return ColumnPlan(label, KEYS, text=says != "number")
    raise ValueError(_STATE.format(label=label, kind=type_name(shown)))


def column_plans(
    stated: Any,
    X: Any,
    schema: Schema,
    *,
    categories: str = "private",
    labels: Sequence[Any] = (),
) -> list[ColumnPlan]:
    """Return where the values of each column come from; no cell is read.

    Columns are stated by name or, in arrays, by position. Columns in `labels` are classes, even if
    their type is of numbers. "integer" states that a column has whole numbers; their range is
    learned. Errors name the column.
    """
    names = schema.names if schema.names is not None else tuple(range(schema.n_columns))
    known = dict(stated or {})
    if unknown := [name for name in known if name not in names]:
        raise ValueError(f"domain names columns that X does not have: {unknown}")
    plans = []
    for j, label in enumerate(names):
        dtype = _type_at(X, j)
        if label in known and not is_integer(spec := known[label]):
            if is_range(spec):  # of whole numbers, where the type of the column is
                number = _number_type(dtype)
                spec = Bins.regular(*spec, integer=number is not None and number.kind in "iu")
            plans.append(ColumnPlan(label, STATED, spec))
            continue
        values = _listed(X, j, dtype, label, categories)
        if values is None and label in known:
            if (kind := kind_of(dtype, schema.container)) in ("text", "temporal"):
                raise TypeError(_NO_NUMBERS.format(label=label, integer=INTEGER, kind=kind))
            missing = _nullable(X, j, dtype)
            plans.append(ColumnPlan(label, NUMBERS, integer=True, missing=missing))
            continue
        if values is None:
            plans.append(_learned(X, j, label, labels=label in labels))
            continue
        if (_nullable(X, j, dtype) or not values) and label not in labels:
            values = [*values, None]
        plans.append(ColumnPlan(label, OF_TYPE, values))
    return plans


def stand_in(plans: Sequence[ColumnPlan], *, named: bool) -> Domain:
    """Return a domain with made-up values for what is not known yet, to check other parameters."""
    first, last = np.datetime64("2000-01-01"), np.datetime64("2001-01-01")
    edges: dict[str, Any] = {
        NUMBER: [0.0, 1.0, 2.0, 3.0],
        MOMENT: [first, last],
        SPAN: [first - first, last - first],
    }

    def spec(plan: ColumnPlan) -> Any:
        if plan.source == NUMBERS:
            return Bins(edges[plan.kind], integer=plan.integer)
        if plan.source == KEYS:
            return ["a", "b", OTHER] if plan.text else [0, 1, None]
        return plan.spec

    return domain_of(plans, [spec(plan) for plan in plans], named=named)


def domain_of(plans: Sequence[ColumnPlan], specs: Sequence[Any], *, named: bool) -> Domain:
    """Return the domain of columns; categories that were not selected are the last code."""
    labels = [plan.label for plan in plans]
    return Domain(dict(zip(labels, specs, strict=True)) if named else list(specs))


# --- rows without codes -----------------------------------------------------------------------


class UncodedRows(CodedRows):
    """Private rows of cells of any types; they get codes once a domain is released.

    `columns` are tables with the position of a column in each; `named` says whether the domain has
    names.
    """

    def __init__(
        self, columns: list[tuple[Any, int]], plans: Sequence[ColumnPlan], named: bool
    ) -> None:
        n = int(columns[0][0].shape[0])
        super().__init__(np.zeros((n, len(plans)), dtype=np.uint8), ())
        self._columns, self.plans, self.named = columns, tuple(plans), named
        self._values: dict[int, NDArray[np.float64]] = {}
        keyed = [(j, *columns[j]) for j, plan in enumerate(plans) if plan.source == KEYS]
        with reading():
            for j, plan in enumerate(plans):
                if plan.source == NUMBERS:
                    self._values[j] = self._numbers(j, plan.kind)
            self._keyed = _keyed_rows(keyed, n, missing=True)
        self._keyed_columns = [j for j, _, _ in keyed]
        self.keys_per_row = len(keyed)

    def _numbers(self, j: int, kind: str) -> NDArray[np.float64]:
        """Return a column's values; NaN for cells that are missing, infinite or of another kind."""
        values = np.array(values_of_kind(column_cells(*self._columns[j]), kind)).reshape(-1)
        values[~np.isfinite(values)] = np.nan
        return values

    def _of_rows(self, array: NDArray) -> NDArray:
        return array if self._positions is None else array[self._positions]

    def column(self, j: int) -> Rows:
        """Return a column of numbers alone, over its non-missing rows; see `_alone`.

        Dates are in days since 1970, durations in minutes.
        """
        plan = self.plans[j]
        return _alone(self._of_rows(self._values[j]) / UNITS[plan.kind], plan)

    def incomplete(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start to stop; NaN where a cell is missing, or its column has no numbers."""
        out = np.full((stop - start, len(self.plans)), np.nan)
        for j, values in self._values.items():
            out[:, j] = self._part(values, start, stop) / UNITS[self.plans[j].kind]
        return out

    def missing_counts(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """Return the number of rows without a value in some columns that are not stated."""
        counts = np.zeros(len(columns), np.int64)
        for i, j in enumerate(columns):
            if j in self._values:
                counts[i] = np.isnan(self._of_rows(self._values[j])).sum()
                continue
            keys = [key == (j, *MISSING) for key in self._keyed._keys]
            places = self._of_rows(self._keyed._X[:, self._keyed_columns.index(j)])
            counts[i] = np.array([*keys, False])[places].sum()
        return counts

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Key]
    ) -> tuple[list[Key], list[int]]:
        """Return the keys that rows have, sorted, and the sums of their weights."""
        keyed = self._keyed if self._positions is None else self._keyed.keep(self._positions)
        return keyed.key_weights(weights, salt, without)

    def take_domain(self, domain: Domain) -> None:
        """Give each row its codes by a released domain."""
        self._X, _ = coded_columns(self._columns, domain)
        self.sizes = domain.sizes

    def digest(self) -> bytes:
        """Return a hash of the cells; it keys the noise of seeded fits and nothing else."""
        h = hashlib.blake2b(repr((self._n, self._keyed._keys)).encode(), digest_size=32)
        for j in range(len(self.plans)):
            if j in self._values:
                h.update(np.ascontiguousarray(self._values[j]).tobytes())
            else:
                h.update(repr(as_list(column_cells(*self._columns[j]))).encode())
        return h.digest()


def check_uncoded(
    X: Any,
    plans: Sequence[ColumnPlan],
    *,
    named: bool,
    allow_empty: bool = False,
    target: tuple[NDArray, int] | None = None,
) -> UncodedRows:
    """Return private rows of which some columns are not stated.

    Guarantee: the value of a cell depends on that cell only; after it returns reading cannot fail.
    `target` is a column of its own, shape (n, 1), with its position among the others.
    """
    if X.shape[0] == 0 and not allow_empty:
        raise ValueError(NO_ROWS)
    columns = [(X, j) for j in range(int(X.shape[1]))]
    if target is not None:
        columns.insert(target[1], (target[0], 0))
    return UncodedRows(columns, plans, named)


# --- rows of numbers, some of which are missing ---------------------------------------------------


def _alone(values: NDArray[np.float64], plan: ColumnPlan) -> Rows:
    """Return a column of numbers as a table of its non-missing rows.

    If its type has no missing values, all rows are there, and their number is as public as before.
    """
    if plan.missing:
        values = values[~np.isnan(values)]
    return Rows(values.reshape(-1, 1), filtered=plan.missing)


class IncompleteRows(Rows):
    """Private rows of numbers, some of which are missing; a column can be read by itself.

    `chunk` has 0 for what is missing.
    """

    _TOGETHER = 8  # columns of an array that are copied at a time: a line of the cache

    def __init__(self, X: Any, plans: Sequence[ColumnPlan]) -> None:
        super().__init__(X)
        self.plans = tuple(plans)
        self._copied: tuple[int, Any] = (-1, None)  # some columns of an array, and the first one

    def incomplete(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start to stop as float64, NaN where a cell is missing."""
        values, _ = to_float(self._part(self._X, start, stop))
        assert values is not None  # `check_columns` has converted every chunk once
        return values

    def _values(self, j: int) -> NDArray[np.float64]:
        """Return the values of a column, NaN where they are missing."""
        if isinstance(self._X, np.ndarray):
            first = j - j % self._TOGETHER
            if self._copied[0] != first:
                part = self._X[:, first : first + self._TOGETHER]
                columns = np.empty(part.shape[::-1])
                for start in range(0, self._length, 4096):
                    block, _ = to_float(part[start : start + 4096])
                    assert block is not None
                    columns[:, start : start + 4096] = block.T
                self._copied = first, columns
            values: Any = self._copied[1][j - first]
        else:
            values, _ = to_float(column_cells(self._X, j))
        return values if self._positions is None else values[self._positions]

    def column(self, j: int) -> Rows:
        """Return a column alone, over its non-missing rows; see `_alone`."""
        return _alone(self._values(j), self.plans[j])

    def missing_counts(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """Return the number of rows without a value in some columns."""
        counts = np.zeros(self.n_features, np.int64)
        for start, stop in self.spans():
            counts += np.count_nonzero(np.isnan(self.incomplete(start, stop)), axis=0)
        return counts[list(columns)]

    def digest(self) -> bytes:
        """Return a hash of the cells; it keys the noise of seeded fits and nothing else."""
        h = hashlib.blake2b(repr((self._n, [])).encode(), digest_size=32)
        for j in range(self.n_features):
            h.update(np.ascontiguousarray(self._values(j)).tobytes())
        return h.digest()


def check_columns(X: Any, *, estimator: str, allow_empty: bool = False) -> IncompleteRows:
    """Validate private rows of numbers of which some are missing.

    Guarantee and errors: as `check_rows`, but cells may be missing, and parts are refused.
    """
    refuse_parts(X, estimator, ONE_PLACE)
    X = _numeric_container(X, estimator, allow_empty=allow_empty)
    _checked_rows(X, omit=True)
    array = isinstance(X, np.ndarray)
    types = [X.dtype] * X.shape[1] if array else column_types(X)
    labels = range(len(types)) if array else column_names(X)
    plans = [
        ColumnPlan(label, NUMBERS, missing=_nullable(X, j, dtype))
        for j, (label, dtype) in enumerate(zip(labels, types, strict=True))
    ]
    return IncompleteRows(X, plans)


def stated_columns(domain: Any) -> Mapping[Any, Any] | None:
    """Return what a mapping, or None, states of the columns; None for what states all of them."""
    return {} if domain is None else domain if isinstance(domain, Mapping) else None


def leaves_open(stated: Mapping[Any, Any], n_columns: int) -> bool:
    """Say whether the values of some of so many columns are not stated."""
    return len(stated) < n_columns or any(is_integer(spec) for spec in stated.values())
