"""Tables as codes, of a public domain or of a model's outcomes, and released codes as tables.

`check_coded` codes a private table by a `Domain`, once, before any charge. After it, reading the
rows cannot fail. The codes of a row are in range and depend on that row only. A cell outside of the
domain is moved to a declared value, or the table is refused, as the domain says. A refusal shows
only that there is such a cell. Proofs: workloads.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.cells import family, read_cell, stands_for_nothing, ticks
from skdp.tabular.columns import flat_array
from skdp.tabular.containers import (
    column_names,
    column_types,
    is_frame,
    is_listed,
    is_sliced_table,
    kind_of,
    object_rows,
)
from skdp.tabular.domain import NUMBER, REFUSE, Bins, Domain, check_domain
from skdp.tabular.labels import _NOT_FINITE, _OTHER_LENGTH, check_labels, label_column
from skdp.tabular.parts import (
    NO_ROWS,
    ONE_PLACE,
    Form,
    checked_parts,
    heads_of,
    is_parts,
    refuse_parts,
)
from skdp.tabular.rows import _RAGGED, Rows, _container
from skdp.user_code import no_restart, reading, run_isolated

# --- schemas --------------------------------------------------------------------------------------

CATEGORY, ENUM = "category", "enum"  # types that list their values, without the list
# Types whose description holds no value of the column, by the beginning of their class's name.
_PANDAS = ("Int", "UInt", "Float", "Boolean", "String", "DatetimeTZ", "Period")
_ARROW = (
    "TimestampType", "DurationType", "Time32Type", "Time64Type", "FixedSizeBinaryType",
)  # fmt: skip


@dataclass(frozen=True)
class Schema:
    """What is public about a table."""

    n_columns: int
    names: tuple[Any, ...] | None  # of the columns; None for an array
    container: str  # "numpy", "pandas", "polars" or "pyarrow"
    types: tuple[Any, ...] = ()  # of the columns, without values; None if nothing else is left


def table_schema(X: Any, *, estimator: str) -> tuple[Any, Schema]:
    """Return X as an array or table of cells of any types, and its schema.

    Errors have fixed texts: X is sparse, complex or not two-dimensional, or has no column or two of
    the same name.
    """
    if is_parts(X):  # the first part has the types
        return X, table_schema(heads_of(X)[1][0], estimator=estimator)[1]
    if is_listed(X):
        # Objects: one row of text would turn the numbers of all others to text.
        with reading():
            X = object_rows(X)
        if X is None:
            raise ValueError(_RAGGED)
    X = _container(X, estimator)
    if isinstance(X, np.ndarray):
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported: X must be real.")
        return X, Schema(X.shape[1], None, "numpy", (_type_of(X.dtype),) * X.shape[1])
    other = "pyarrow" if hasattr(X, "column_names") else "polars"
    container = "pandas" if is_frame(X) else other
    return X, Schema(X.shape[1], column_names(X), container, tuple(map(_type_of, column_types(X))))


def without_column(X: Any, schema: Schema, position: int) -> tuple[Any, Schema]:
    """Return an array or table, and its schema, without one of its columns."""
    others = [j for j in range(schema.n_columns) if j != position]
    names = None if schema.names is None else tuple(schema.names[j] for j in others)
    types = tuple(schema.types[j] for j in others)
    if is_frame(X):
        X = X.iloc[:, others]
    else:
        X = X.select(list(names or ())) if is_sliced_table(X) else X[:, others]
    return X, Schema(len(others), names, schema.container, types)


def _type_of(dtype: Any) -> Any:
    """Return a column's type without any value: `CATEGORY`, `ENUM`, or None if it is nested.

    The values that a type lists (pandas' categories, polars' enumerations) may have been read off
    the private rows, so they are left out: a released column has the categories of the domain. Left
    out is also what one cell may have decided: the length of the longest text, the digits of
    decimals, the width of the numbers of a dictionary.
    """
    if isinstance(dtype, np.dtype):
        if dtype.kind in "US":
            return np.dtype(dtype.kind)
        return np.dtype(dtype.str) if dtype.names is None else None  # without its metadata
    name = type(dtype).__name__
    if name in ("CategoricalDtype", "Categorical", "Enum"):
        return ENUM if name == "Enum" else CATEGORY
    if hasattr(dtype, "is_temporal"):  # polars
        flat = dtype.is_temporal() or (dtype.is_numeric() and name != "Decimal")
        return dtype if flat or name in ("String", "Boolean", "Binary") else None
    if name == "ArrowDtype":
        return dtype if _type_of(dtype.pyarrow_dtype) == dtype.pyarrow_dtype else None
    if hasattr(dtype, "to_pandas_dtype"):  # pyarrow
        if name == "DictionaryType" and _type_of(dtype.value_type) is not None:
            arrow = import_module("pyarrow")
            return arrow.dictionary(arrow.int32(), dtype.value_type)
        return dtype if name in ("DataType", *_ARROW) and dtype.num_fields == 0 else None
    return dtype if name.startswith(_PANDAS) else None


def _column_part(X: Any, j: int, start: int, stop: int) -> Any:
    """Return a part of one column in its own container."""
    if is_frame(X):
        return X.iloc[start:stop, j]
    if hasattr(X, "column_names"):  # pyarrow
        return X.column(j).slice(start, stop - start)
    if is_sliced_table(X):  # polars
        column = X[:, j].slice(start, stop - start)
        # Python may not have such a date. What has a zone becomes a timestamp of UTC.
        return column.to_numpy() if column.dtype.is_temporal() else column
    return X[start:stop, j]


# --- codes of a domain ----------------------------------------------------------------------------

_OUTSIDE = (
    "X has values outside of the stated domain, which refuses them; with outside='clip' they are "
    "moved to a declared value."
)


class CodedRows(Rows):
    """Private rows as codes of a public domain; each is in range of the column's size."""

    def __init__(self, codes: NDArray, sizes: tuple[int, ...], *, filtered: bool = False) -> None:
        super().__init__(codes, filtered=filtered)
        self.sizes = sizes

    def codes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the codes of rows start to stop, shape (stop - start, n_columns)."""
        return np.asarray(self._part(self._X, start, stop), dtype=np.int64)


def check_coded(
    X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False, one_place: str = ONE_PLACE
) -> Any:
    """Return a private table of any types, in memory or in parts, as codes of a public domain.

    Guarantee: the codes of a row depend on that row only; after it returns reading cannot fail.
    Error texts are fixed and quote no cell: X is no table of the domain's columns, or has a cell
    outside of a domain that refuses it.
    """
    check_domain(domain)
    if is_parts(X):
        refuse_parts(X, estimator, one_place)
        columns, heads = heads_of(X)
        for head in heads:
            _check_schema(table_schema(head, estimator=estimator)[1], domain, estimator)
        problems = ((ValueError, _OUTSIDE),)
        form = CodedForm(columns, domain.n_columns, problems, read="codes", domain=domain)
        return checked_parts(X, form, heads[0], allow_empty=allow_empty, sizes=domain.sizes)
    codes = public_codes(X, domain, estimator=estimator, allow_empty=allow_empty)
    return CodedRows(codes, domain.sizes)


def check_coded_target(
    X: Any, y: Any, domain: Domain, target: int, *, estimator: str, allow_empty: bool = False
) -> CodedRows:
    """Return a private table and its targets as codes of a public domain of both.

    `target` is the position of the targets' column in the domain. Guarantee: as `check_coded`.
    """
    others = [j for j in range(domain.n_columns) if j != target]
    options: dict[str, Any] = {"estimator": estimator, "allow_empty": allow_empty}
    codes = public_codes(X, domain.of(others), **options)
    column = target_column(y, len(codes), estimator)
    of_target = public_codes(column, domain.of([target], named=False), **options)
    codes = np.insert(codes.astype(np.uint16), target, of_target[:, 0], axis=1)
    return CodedRows(codes, domain.sizes)


def target_column(y: Any, n: int, estimator: str) -> NDArray:
    """Return targets as a table of one column, or raise with a fixed text."""
    column, problem = label_column(y, n)
    cells = np.empty(0) if problem else flat_array(column)
    if cells.dtype.kind == "f" and not np.isfinite(cells).all():
        problem = _NOT_FINITE
    if problem:
        raise ValueError(problem.format(estimator=estimator, y="y"))
    return cells.reshape(-1, 1)


def public_codes(X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False) -> NDArray:
    """Return the codes of the caller's own table, shape (n_rows, n_columns); as `check_coded`."""
    refuse_parts(X, estimator, ONE_PLACE)
    X, schema = table_schema(X, estimator=estimator)
    _check_schema(schema, domain, estimator)
    if X.shape[0] == 0 and not allow_empty:
        raise ValueError(NO_ROWS)
    codes, outside = coded_columns([(X, j) for j in range(domain.n_columns)], domain)
    if outside and domain.outside == REFUSE:
        raise ValueError(_OUTSIDE)
    return codes


def _check_schema(schema: Schema, domain: Domain, estimator: str) -> None:
    """Raise if a table has other columns than the domain."""
    if schema.n_columns != domain.n_columns:
        raise ValueError(
            f"X has {schema.n_columns} features, but the domain of {estimator} has "
            f"{domain.n_columns} columns"
        )
    if None not in (schema.names, domain.names) and schema.names != domain.names:
        raise ValueError(
            f"X must have the columns of the domain, in its order: {list(domain.names or ())}"
        )
    labels = domain.names or schema.names or range(domain.n_columns)
    domain._check_kinds(
        [kind_of(dtype, schema.container) for dtype in schema.types],
        list(labels),
        table=schema.container != "numpy",
    )


def coded_columns(columns: Sequence[tuple[Any, int]], domain: Domain) -> tuple[NDArray, bool]:
    """Return the codes of columns (table, position), and whether a cell is outside the domain."""
    check_domain(domain)
    n = int(columns[0][0].shape[0])
    codes: NDArray = np.zeros((n, domain.n_columns), dtype=_code_type(domain.sizes))
    step, is_outside = 2**16, False
    with reading():  # a cell's own conversion may warn, or raise
        for j, (table, position) in enumerate(columns):
            for start in range(0, n, step):
                cells = _column_part(table, position, start, min(start + step, n))
                codes[start : start + step, j], outside = domain.codes(j, cells)
                is_outside |= bool(outside.any())
    return codes, is_outside


def _code_type(sizes: Sequence[int]) -> type:
    return np.uint8 if max(sizes) <= 2**8 else np.uint16


@dataclass(frozen=True)
class CodedForm(Form):
    """Batches as rows of codes of a domain."""

    domain: Domain = field(kw_only=True)

    def check(self, batch: Any) -> tuple[CodedRows, set[int]]:
        """Return the rows of a batch, and whether a cell is refused."""
        X = self.sides(batch)[0]
        codes, outside = coded_columns([(X, j) for j in range(self.n_columns)], self.domain)
        refused = outside and self.domain.outside == REFUSE
        return CodedRows(codes, self.domain.sizes), {0} if refused else set()


# --- outcomes of a public model ---------------------------------------------------------------

# The row of an outcome depends on its own pair only: codes of both labels and whether they are
# equal, the code of a label and the bin of a score, or a number and its prediction error. The
# number of rows is taken as private, so that they may be a selection.

_FARTHEST = 1e100  # numbers are clipped here, so that their squares are finite


def check_outcomes(y_true: Any, y_pred: Any, *, estimator: str, classes: NDArray) -> CodedRows:
    """Return rows of three codes: the true class, the predicted class, and whether they are equal.

    A label that is not among the classes (public, sorted) has the code behind the last one, and
    equals no label. Errors are those of `check_labels`, and different lengths.
    """
    true, predicted = _pair((y_true, classes), (y_pred, classes), "y_pred", estimator)
    size = len(classes)
    right = (true == predicted) & (true < size)
    return _outcomes([true, predicted, right], (size + 1, size + 1, 2))


def check_scores(
    y_true: Any,
    y_score: Any,
    *,
    estimator: str,
    classes: NDArray,
    bins: Bins,
    levels: tuple[int, ...],
) -> CodedRows:
    """Return rows of codes: the class, and the bin of the score, as `check_outcomes`.

    A bin is a path in a tree with so many branches at each of the `levels`, a code for each level:
    the first codes count fewer, wider bins. A score beyond the edges is in the nearest bin; one
    that is no finite number is refused.
    """
    true, scores = _pair((y_true, classes), (y_score, None), "y_score", estimator)
    cells, _ = bins.codes(scores)
    path = np.unravel_index(cells, levels)
    return _outcomes([true, *path], (len(classes) + 1, *levels))


def check_errors(y_true: Any, y_pred: Any, *, estimator: str, targets: bool) -> Rows:
    """Return rows of absolute prediction errors, with `targets` behind the true number.

    Numbers are clipped to 1e100. Errors as `check_outcomes`.
    """
    true, predicted = _pair((y_true, None), (y_pred, None), "y_pred", estimator)
    distance = np.abs(true - predicted)
    columns = [true, distance] if targets else [distance]
    return Rows(np.column_stack(columns), filtered=True)


def _pair(true: Any, other: Any, name: str, estimator: str) -> list[NDArray]:
    """Return two columns of (labels, classes) as codes or, where classes are None, as numbers."""
    columns = []
    for (labels, classes), own in ((true, "y_true"), (other, name)):
        refuse_parts(labels, estimator, ONE_PLACE, name=own)
        values, _ = check_labels(labels, None, estimator=estimator, classes=classes, name=own)
        if classes is None:
            columns.append(np.clip(values, -_FARTHEST, _FARTHEST))
        else:
            columns.append(np.where(values < 0, len(classes), values))
    if len(columns[0]) != len(columns[1]):
        raise ValueError(_OTHER_LENGTH.format(y=name).replace("X and", "y_true and"))
    return columns


def _outcomes(columns: list[NDArray], sizes: tuple[int, ...]) -> CodedRows:
    return CodedRows(np.column_stack(columns).astype(_code_type(sizes)), sizes, filtered=True)


# --- released codes as a table --------------------------------------------------------------------


def _moments_of(values: Sequence[Any]) -> NDArray:
    """Return dates or durations of any kinds as an array of nanoseconds."""
    cells = [read_cell(value) for value in values]
    kinds = {family(cell) for cell in cells if cell is not None}
    dtype = "m8[ns]" if kinds == {"duration"} else "M8[ns]"
    if not kinds <= ({"duration"} if dtype[0] == "m" else {"date", "timestamp"}):
        raise ValueError("dates and durations")
    lowest = np.iinfo(np.int64).min  # which stands for no date
    return np.array([lowest if c is None else ticks(c) for c in cells], np.int64).view(dtype)


def _python(value: Any) -> Any:
    """Return a category as the containers of Python's own types hold it."""
    if stands_for_nothing(value):
        return None
    if hasattr(value, "to_pydatetime") and not value.nanosecond:
        return value.to_pydatetime()
    if hasattr(value, "to_pytimedelta") and not value.nanoseconds:
        return value.to_pytimedelta()
    if isinstance(value, np.generic):
        item = value.item()
        # Of some units, a date's item counts ticks.
        return value if value.dtype.kind in "mM" and isinstance(item, int) else item
    return value


def _floats(values: Sequence[Any]) -> list[float | None]:
    return [None if stands_for_nothing(value) else float(value) for value in values]


def _column(container: str, values: Any, dtype: Any = None) -> Any:
    """Return values as a column of a container, an array as it is."""
    if container == "numpy":
        return values
    module: Any = import_module(container)  # the caller's table came from there
    if container == "pyarrow":
        return module.array(values, type=dtype)
    return module.Series(values, dtype=dtype)


def _candidates(
    container: str, dtype: Any, values: list[Any], array: NDArray
) -> Iterator[Callable[[], Any]]:
    """Yield columns of categories, in the type of the table first; a library may refuse some."""
    if container == "numpy":
        kind = getattr(dtype, "kind", "O")
        if kind in "fiub":
            yield lambda: array.astype(dtype) if array.dtype.kind in "fiub" else None
            yield lambda: np.array(_floats(values), dtype=np.float64).astype(dtype)
        if kind in "mM":
            yield lambda: _moments_of(values).astype(dtype)
        yield lambda: array
        return
    module: Any = import_module(container)
    missing = np.array([stands_for_nothing(value) for value in values])
    codes = np.cumsum(~missing) - 1
    make = partial(_column, container)
    if container == "pandas":
        objects = np.dtype(object)
        if isinstance(dtype, str):
            # Of the domain's categories, never of those of X, which may have been read off its
            # rows; and without an order, which the domain does not state.
            present = [v for v, gone in zip(values, missing, strict=True) if not gone]
            labels = module.Index(present, tupleize_cols=False)
            codes = np.where(missing, -1, codes)
            yield lambda: make(module.Categorical.from_codes(codes, categories=labels))
        elif dtype is not None:
            yield lambda: make(values, objects).astype(dtype)
        yield lambda: make(array)
        yield lambda: make(values, objects)
        return
    cells = [_python(value) for value in values]
    present = [cell for cell in cells if cell is not None]
    if isinstance(dtype, str):  # of polars
        yield lambda: make(cells, module.Enum(present) if dtype == ENUM else module.Categorical)
    elif hasattr(dtype, "value_type"):  # all categories are in the dictionary, drawn or not
        yield lambda: module.DictionaryArray.from_arrays(
            module.array(codes, dtype.index_type, mask=missing), make(present, dtype.value_type)
        )
    elif dtype is not None:
        yield lambda: make(cells, dtype).cast(dtype)  # dates may come in another type
        yield lambda: make(cells).cast(dtype)
        yield lambda: make(_moments_of(values)).cast(dtype)
    yield lambda: make(array) if array.dtype.kind != "O" else None
    yield lambda: make(cells)
    yield lambda: make(_moments_of(values))
    yield lambda: make(_floats(values))


def _categories(domain: Domain, j: int, label: Any, container: str, dtype: Any) -> Any:
    """Return all categories of a column, in order, as its container holds them.

    The first candidate in which every category is read as itself, else text. The domain and the
    types decide, not the categories of a release: its column is taken from here. ValueError if the
    container cannot hold the categories at all.
    """
    values, array = domain.column(j), domain.values(j, np.arange(domain.sizes[j]))
    assert isinstance(values, list)
    for candidate in _candidates(container, dtype, values, array):

        def known(candidate: Callable[[], Any] = candidate) -> Any:
            column = candidate()
            if column is None or str(getattr(column, "dtype", "")) == "Object":
                return None  # polars can do next to nothing with objects
            codes, outside = domain.codes(j, column)
            same = np.array_equal(codes, np.arange(domain.sizes[j])) and not outside.any()
            return column if same else None

        if (column := run_isolated(known, None, no_restart)) is not None:
            return column
    if container in ("polars", "pyarrow"):
        texts = [None if stands_for_nothing(value) else str(value) for value in values]
        column = run_isolated(lambda: _column(container, texts), None, no_restart)
        if column is not None:
            return column
    raise ValueError(
        f"domain: column {label!r} has categories that a {container} table cannot hold; state "
        "others, or give X as an array of dtype object"
    )


def _taken(column: Any, codes: NDArray, container: str) -> Any:
    """Return the categories of some codes."""
    if container == "pandas":
        return column.iloc[codes].reset_index(drop=True)
    if container == "polars":
        return column.gather(codes)
    if container == "pyarrow":
        return column.take(import_module("pyarrow").array(codes))
    return column[codes]


def _number_type(dtype: Any) -> np.dtype | None:
    """Return the number type of numpy that a column's type has, if it has one."""
    for read in (
        lambda: np.dtype(dtype) if isinstance(dtype, np.dtype) else None,
        lambda: np.dtype(dtype.numpy_dtype),  # pandas
        lambda: np.dtype(dtype.to_pandas_dtype()),  # pyarrow
        lambda: np.dtype(str(dtype).lower()) if hasattr(dtype, "is_numeric") else None,  # polars
    ):
        number: np.dtype | None = run_isolated(read, None, no_restart)
        if number is not None:
            return number if number.kind in "iuf" and number.itemsize <= 8 else None
    return None


def _as_numbers(bins: Bins, values: NDArray, codes: NDArray, dtype: Any) -> tuple[NDArray, bool]:
    """Return points of cells as a type of numbers, and whether it can hold points of every cell.

    The edges and the type decide, not the codes.
    """
    number = _number_type(dtype)
    if number is None or number == np.float64:
        return values, number is not None
    if bins.integer or number.kind in "iu":
        high = 2.0**53 if number.kind in "iu" else 2.0 ** (np.finfo(number).nmant + 1)
        low = -high
        if number.kind in "iu":
            low, high = max(np.iinfo(number).min, low), min(np.iinfo(number).max, high)
        fits = low <= np.floor(bins.edges[0]) and np.ceil(bins.edges[-1]) <= high
        return (values.astype(number), True) if fits and bins.integer else (values, False)
    # A shorter float: rounding must not move a point to the next cell.
    with np.errstate(all="ignore"):
        short = bins.edges.astype(number)
        first = np.where(short < bins.edges, np.nextafter(short, number.type(np.inf)), short)
        beyond = short >= bins.edges
        beyond[-1] = short[-1] > bins.edges[-1]
        last = np.where(beyond, np.nextafter(short, number.type(-np.inf)), short)
        bottom, top = first[:-1], last[1:]
    if not (np.isfinite(bottom) & np.isfinite(top) & (bottom <= top)).all():
        return values, False
    return np.clip(values.astype(number), bottom[codes], top[codes]), True


def _points(domain: Domain, j: int, codes: NDArray, container: str, dtype: Any, rng: Any) -> Any:
    """Return points of a column's `Bins` as its container holds them, missing where they are."""
    bins = domain.column(j)
    assert isinstance(bins, Bins)
    if bins.kind != NUMBER:
        return _moments(bins.values(codes, rng), container, dtype)
    none = codes == bins.n_cells
    codes = np.where(none, 0, codes)
    values, fits = _as_numbers(bins, bins.points(codes, rng), codes, dtype)
    if bins.missing:
        return _with_missing(values, none, container, dtype if fits else None)
    column = _column(container, values)
    return column.astype(dtype) if container == "pandas" and fits else column


def _with_missing(values: NDArray, none: NDArray, container: str, dtype: Any) -> Any:
    """Return numbers of which some are missing; of a numpy type, which has none, floats."""
    floats = np.where(none, np.nan, values.astype(np.float64))
    if container == "numpy":
        return floats
    module: Any = import_module(container)
    if container == "pandas":
        if dtype is None or isinstance(dtype, np.dtype):
            return module.Series(floats)
        return module.Series(values).astype(dtype).mask(module.Series(none))
    if container == "polars":
        column = module.Series(np.where(none, 0, values))
        nulls = module.Series([None] * len(none), dtype=module.Series(values[:0]).dtype)
        return column.zip_with(module.Series(~none), nulls)
    return module.array(values, mask=none)


def _moments(ticks: NDArray, container: str, dtype: Any) -> Any:
    """Return dates or durations in the type of their column, or in microseconds."""
    if str(dtype).lower() in ("date", "date32[day]", "date64[ms]") or "M8[D]" in str(dtype):
        ticks = ticks.astype("M8[D]").astype(ticks.dtype)  # the day, without its hours
    if container == "numpy":
        return ticks.astype(dtype) if getattr(dtype, "kind", "") == ticks.dtype.kind else ticks
    column = _column(container, ticks)

    def typed() -> Any:
        if container == "pyarrow":
            return column.cast(dtype, safe=False)
        if container == "polars":
            zone = getattr(dtype, "time_zone", None)
            return (column.dt.replace_time_zone("UTC") if zone else column).cast(dtype)
        zone = getattr(dtype, "tz", None)
        return (column.dt.tz_localize("UTC") if zone is not None else column).astype(dtype)

    cast = run_isolated(typed, None, no_restart)
    return column if cast is None else cast


def decoded(
    domain: Domain,
    codes: NDArray,
    *,
    names: Sequence[Any] | None = None,
    container: str = "numpy",
    types: Sequence[Any] = (),
    rng: np.random.Generator | None = None,
) -> Any:
    """Return released codes, shape (n, n_columns), as a table of numbers and categories.

    The domain, names, container and types alone decide whether this succeeds and which types the
    columns have, not the codes. So decoding no rows is a check before a charge.

    - An array has numbers if all columns have, dates or text if all columns and `types` have, else
      objects.
    - The type of a column (`Schema.types`) is kept if it has each value of the domain. Otherwise
      the container chooses the type.
    - Categories that polars or pyarrow cannot hold in one column become text, which is not in the
      domain.
    """
    columns, labels = [], list(range(domain.n_columns) if names is None else names)
    long = False
    types = list(types) or [None] * domain.n_columns
    codes = np.asarray(codes, dtype=np.int64)
    with reading():
        for j, (label, dtype) in enumerate(zip(labels, types, strict=True)):
            if isinstance(domain.column(j), Bins):
                columns.append(_points(domain, j, codes[:, j], container, dtype, rng))
            else:
                column = _categories(domain, j, label, container, dtype)
                if container == "numpy" and column.dtype.kind in "iu":  # which floats cannot hold
                    long |= any(abs(int(value)) > 2**53 for value in column.tolist())
                columns.append(_taken(column, codes[:, j], container))
    if container == "numpy":
        return _stacked(columns, len(codes), types[0], long)
    module: Any = import_module(container)
    if names is None:
        labels = [f"x{j}" for j in labels]
    if container == "pandas":
        table = module.DataFrame(dict(enumerate(columns)))
        table.columns = labels
        return table
    by_name = {str(label): column for label, column in zip(labels, columns, strict=True)}
    return module.table(by_name) if container == "pyarrow" else module.DataFrame(by_name)


def _stacked(columns: list[NDArray], n: int, dtype: Any, long: bool) -> NDArray:
    """Return columns as one array: of numbers, of the type stated, or of objects."""
    kinds = {column.dtype.kind for column in columns}
    same = kinds == {getattr(dtype, "kind", "O")} and kinds <= set("mMU")
    numeric = kinds <= set("biuf")
    if numeric and long and np.result_type(*columns).kind == "f":
        numeric = False  # next to floats they would be rounded
    if same or numeric:
        return np.column_stack(columns)
    out = np.empty((n, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        out[:, j] = list(column) if column.dtype.kind in "mM" else column.tolist()
    return out
