"""The public schema of a table of any cells, and released codes decoded by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.cells import family, read_cell, stands_for_nothing, ticks
from skdp.tabular.containers import (
    column_names,
    column_types,
    is_frame,
    is_listed,
    is_parts,
    is_sliced_table,
    object_rows,
    reading,
)
from skdp.tabular.domain import NUMBER, Bins, Domain
from skdp.tabular.parts import heads_of
from skdp.tabular.rows import _RAGGED, _container
from skdp.user_code import interruptible, no_restart, run_isolated, suppress_warnings

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


def _known_again(domain: Domain, j: int, column: Any) -> bool:
    """Say whether all categories in a column of a container are read as what they are."""
    if str(getattr(column, "dtype", "")) == "Object":
        return False  # polars can do next to nothing with it
    codes, outside = domain.codes(j, column)
    return bool(np.array_equal(codes, np.arange(domain.sizes[j])) and not outside.any())


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
            return column if column is not None and _known_again(domain, j, column) else None

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
    if number.kind in "iu":
        limits = np.iinfo(number)
        low, high = max(limits.min, -(2**53)), min(limits.max, 2**53)
        if bins.integer and low <= np.floor(bins.edges[0]) and np.ceil(bins.edges[-1]) <= high:
            return values.astype(number), True
        return values, False
    if bins.integer:
        exact = 2.0 ** (np.finfo(number).nmant + 1)
        fits = -exact <= np.floor(bins.edges[0]) and np.ceil(bins.edges[-1]) <= exact
        return (values.astype(number), True) if fits else (values, False)
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
    with suppress_warnings(), interruptible():
        for j, (label, dtype) in enumerate(zip(labels, types, strict=True)):
            if isinstance(domain.column(j), Bins):
                columns.append(_points(domain, j, codes[:, j], container, dtype, rng))
            else:
                column = _categories(domain, j, label, container, dtype)
                long |= container == "numpy" and _is_long(column)
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


def _is_long(column: NDArray) -> bool:
    """Say whether whole numbers are among the categories that floats cannot hold."""
    return column.dtype.kind in "iu" and any(abs(int(v)) > 2**53 for v in column.tolist())


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
