"""Tables of numpy, pandas, polars and pyarrow, and lists: rows, types, numbers.

The value of a cell depends on that cell and on the declared type of its column, which is public.
No library chooses a common type for several columns, or for the cells of a column.
"""

from __future__ import annotations

import decimal
import itertools
import re
import string
from collections.abc import Iterable, Sequence
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.cells import PLAIN_NUMBERS, is_missing, numbers
from skdp.tabular.sound import sound
from skdp.user_code import no_restart, reading, run_isolated

Floats = NDArray[np.float64]

NUMBER, OBJECTS = "number", "objects"
_AS_OBJECTS = ("StringDtype",)  # types of pandas that are objects in numpy, whatever is missing
_STEP = 2**16  # cells of lists converted at a time
_MOST_NAMED = 5  # columns in a message
_MOST_LISTED = 5
_LETTERS = f"{string.ascii_letters}{string.digits}_ "
_PLAIN_TYPE = re.compile(r"[\w ]+(\([\d, ]*\)|\[[a-z]+\])?")  # DECIMAL(18, 3), date32[day]


# --- containers -----------------------------------------------------------------------------

_ARRAY_LIBRARIES = ("cupy", "jax", "jaxlib", "mlx", "tensorflow", "torch")


def checked(X: Any, name: str = "X") -> Any:
    """Return a caller's container after the checks of `skdp.tabular.sound`."""
    owned = X is None or type(X) in (list, tuple) or (type(X) is np.ndarray and X.flags.owndata)
    return X if owned else sound(X, name)


def refuse_other_arrays(X: Any, name: str = "X") -> None:
    """Refuse arrays of other libraries: some are on a device, and no two convert alike."""
    kind = type(X)
    library = kind.__module__.partition(".")[0]
    standard = hasattr(kind, "__array_namespace__") and not isinstance(X, np.ndarray | np.generic)
    if standard or library in _ARRAY_LIBRARIES:
        raise TypeError(
            f"{name} is an array of {library}: call numpy.asarray({name}) first, of a copy in main "
            "memory if it is on another device."
        )


def is_frame(X: Any) -> bool:
    """Say whether X is a pandas table, which is sliced with ``iloc``."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def is_sliced_table(X: Any) -> bool:
    """Say whether X is a polars or pyarrow table, which is cut with ``slice(offset, length)``."""
    return hasattr(X, "slice") and hasattr(X, "columns") and hasattr(X, "shape")


def is_listed(X: Any) -> bool:
    """Say whether X is a list, a tuple or another sequence that has no type for its entries."""
    if hasattr(X, "__array__") or isinstance(X, str | bytes | bytearray | memoryview):
        return False
    return isinstance(X, Sequence) and not hasattr(X, "typecode")  # of array.array


def array_of(X: Any) -> NDArray:
    """Return what numpy makes of X: objects if X has no type, which would be taken from cells."""
    typed = any(hasattr(X, name) for name in ("dtype", "typecode", "format"))
    if not typed and hasattr(X, "__array__"):
        return np.asanyarray(checked(np.asanyarray(X)), dtype=object)
    return np.asanyarray(X, dtype=None if typed else object)


def listed(names: Sequence[Any]) -> str:
    """Return names of columns for a message: the first of them, where they are many."""
    more = f" and {len(names) - _MOST_LISTED} more" * (len(names) > _MOST_LISTED)
    return ", ".join(map(repr, names[:_MOST_LISTED])) + more


def column_names(X: Any) -> tuple[Any, ...]:
    """Return the column names of a pandas, polars or pyarrow table."""
    return tuple(X.column_names if hasattr(X, "column_names") else X.columns)


def column_types(X: Any) -> list[Any]:
    """Return the type of each column of a table; of an array or a column, its own type."""
    if hasattr(X, "column_names"):  # pyarrow
        return [field.type for field in X.schema]
    return list(X.dtypes) if is_frame(X) or is_sliced_table(X) else [getattr(X, "dtype", None)]


def cut(X: Any, start: int, stop: int) -> Any:
    """Return rows start to stop of any supported container, as that container."""
    if hasattr(X, "iloc"):  # a pandas column, too, whose index may have labels of its own
        return X.iloc[start:stop]
    if is_sliced_table(X):
        return X.slice(start, stop - start)
    return X[start:stop]


def alone(part: Any) -> Any:
    """Return a part of a table as a table of its own, without the whole table's index."""
    if isinstance(part, np.ndarray):
        return np.array(part)
    if hasattr(part, "iloc"):
        return part.reset_index(drop=True).copy()
    return part


def take(X: Any, positions: NDArray[np.intp]) -> Any:
    """Return the rows at ascending positions of any supported container, as that container."""
    if positions.size and positions[-1] - positions[0] == positions.size - 1:
        return cut(X, int(positions[0]), int(positions[-1]) + 1)
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    if hasattr(X, "to_pandas") and not hasattr(X, "to_numpy"):
        return X.take(positions)  # pyarrow
    return X[positions]


# --- types of columns -------------------------------------------------------------------------


# By a type of numpy (its kind), of polars (its class) and of Arrow (the beginning of its name).
_NUMPY = {
    **dict.fromkeys("biuf", "number"), "O": "objects", "c": "complex",
    "M": "dates", "m": "durations", "U": "text", "S": "text", "T": "other text",
}  # fmt: skip
_POLARS = {
    "Null": "objects", "Object": "objects", "String": "text",
    **dict.fromkeys(("Categorical", "Enum", "Binary"), "other text"),
}  # fmt: skip
_ARROW = {
    ("int", "uint", "float", "double", "halffloat", "bool"): "number",
    ("decimal",): "decimals", ("null",): "objects",
    ("date", "time", "duration", "month_day_nano"): "dates",
    ("string", "large_string"): "text",
    ("binary", "large_binary", "fixed_size_binary"): "other text",
}  # fmt: skip
_INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_PANDAS = {"StringDtype": "text", "PeriodDtype": "dates", "IntervalDtype": "intervals"}


def _content(dtype: Any) -> str:
    """Return what a type of any library says of the cells of its column."""
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    name = type(dtype).__name__
    if hasattr(dtype, "is_temporal"):  # polars
        if dtype.is_temporal():
            return "dates"
        if name == "Boolean" or dtype.is_numeric():
            return "decimals" if name == "Decimal" else "number"
        return _POLARS.get(name, "records")
    if hasattr(dtype, "to_pandas_dtype"):  # pyarrow
        name = str(dtype)
        return next((what for start, what in _ARROW.items() if name.startswith(start)), "records")
    return _PANDAS.get(name) or _NUMPY.get(str(getattr(dtype, "kind", "O")), "records")


def readable_as(dtype: Any) -> str:
    """Return `NUMBER` or `OBJECTS`, or what cells are that no number can be read from."""
    inner = getattr(dtype, "pyarrow_dtype", dtype)
    if type(inner).__name__ == "DictionaryType":
        return "text" if "text" in _content(inner.value_type) else OBJECTS
    content = _content(dtype)
    return {"decimals": OBJECTS, "other text": "text"}.get(content, content)


def type_ranges(X: Any) -> Floats:
    """Return the ends of what the type of each column can hold, shape (2, n_features).

    0 and 1 of booleans; infinite where a type says nothing.
    """
    arrow_column = hasattr(X, "to_pylist") and not hasattr(X, "column_names")
    types = [X.type] if arrow_column else column_types(X)
    ranges = np.tile([-np.inf, np.inf], (len(types), 1))
    for j, dtype in enumerate(types):
        name = str(getattr(dtype, "pyarrow_dtype", dtype)).lower()
        if name in ("bool", "boolean"):
            ranges[j] = 0.0, 1.0
        elif name in _INTEGERS:
            ranges[j] = np.iinfo(name).min, np.iinfo(name).max
    shape: Any = getattr(X, "shape", ())
    width = shape[1] if len(shape) == 2 else 1
    return np.broadcast_to(ranges.reshape(-1, 2).T, (2, width))


def refused_type(X: Any) -> tuple[str, Any]:
    """Return what the first column without numbers holds by its type, and its name.

    ("", None) if there is no such column. The name is None for an array.
    """
    names = column_names(X) if is_frame(X) or is_sliced_table(X) else (None,)
    for name, dtype in zip(names, column_types(X), strict=True):
        if (content := readable_as(dtype)) not in (NUMBER, OBJECTS):
            return content, name
    return "", None


def type_name(dtype: Any) -> str:
    """Return the name of a type for a message, without the categories or fields that it may list.

    The categories of an ENUM are the cells of a column, and the fields of a STRUCT the keys of its
    dicts.
    """
    name = str(dtype)
    if _PLAIN_TYPE.fullmatch(name):
        return name
    return name[: len(name) - len(name.lstrip(_LETTERS))].strip() or "other"


def kind_of(dtype: Any, container: str) -> str:
    """Return what a column's type says of its cells: "text", "temporal", "number" or nothing."""
    if isinstance(dtype, str):  # pandas' may have any values
        return "text" if container == "polars" else ""
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    if hasattr(dtype, "to_pandas_dtype"):
        dtype = getattr(dtype, "value_type", dtype)
    content = _content(dtype)
    return {"decimals": "number", "dates": "temporal", "durations": "temporal"}.get(
        content, content if content in ("number", "text") else ""
    )


def never_held(values: Iterable[Any], dtype: Any, container: str = "numpy") -> bool:
    """Say whether a column of a type can hold none of some stated values: text among numbers, say.

    Decided by the type, which is public. A missing value may stand in a column of any type.
    """
    kind = kind_of(dtype, container)
    kinds = {
        "text" if isinstance(value, str | bytes)
        else "number" if isinstance(value, Real | np.bool_ | decimal.Decimal) else ""
        for value in values if not is_missing(value)
    }  # fmt: skip
    return kind in ("text", "number") and bool(kinds) and kinds <= {"text", "number"} - {kind}


def any_type(X: Any) -> dict[Any, str]:
    """Return the names and types of the columns of objects and categories of pandas.

    Both are public. Categories may be numbers or text, as objects may.
    """
    columns: Iterable[tuple[Any, Any]] = ()
    if is_frame(X):
        columns = zip(column_names(X), X.dtypes, strict=True)
    elif getattr(X, "name", None) is not None:
        columns = [(X.name, getattr(X, "dtype", None))]
    objects = {name: type_name(dtype) for name, dtype in columns if readable_as(dtype) == OBJECTS}
    return dict(itertools.islice(objects.items(), _MOST_NAMED))


def holds_numbers(X: Any) -> bool:
    """Say whether the types of all columns are those of numbers, so that no cell decides."""
    return all(readable_as(dtype) == NUMBER for dtype in column_types(X))


def keeps_types(X: Any) -> bool:
    """Say whether numpy makes the same type of any rows of X: a missing cell decides nothing."""
    return all(
        isinstance(dtype, np.dtype) or type(dtype).__name__ in _AS_OBJECTS
        for dtype in column_types(X)
    )


# --- lists of rows -----------------------------------------------------------------------------


def _row_cells(row: Any) -> Any:
    """Return what a row of a list iterates over: its cells; None if it is one cell.

    A list, a tuple, another sequence or something that numpy makes an array of, but no text.
    """
    kind = type(row)
    if kind is list or kind is tuple:
        return row
    if kind is float or kind is int or kind is str or row is None:
        return None
    return run_isolated(lambda: _cells_of(row), None, no_restart)


def _cells_of(row: Any) -> Any:
    if issubclass(type(row), str | bytes | bytearray | np.generic):
        return None
    if hasattr(type(row), "__array__"):
        # One row by itself. Iterating gives numpy's scalars, so that dates stay dates.
        array = np.asanyarray(row)
        checked(array)
        if array.ndim == 0:
            return None
        return list(array) if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
    return list(row) if isinstance(row, Sequence) else None


def _rows(X: Iterable[Any]) -> tuple[list[Any], tuple[int, ...]] | None:
    """Return the cells of each row of a list, and the shape of a row; of a flat list itself and ().

    None if some rows have another shape than others.
    """
    items = list(X)
    if run_isolated(lambda: set(map(type, items)) <= PLAIN_NUMBERS, False, no_restart):
        return items, ()
    rows = [_row_cells(row) for row in items]
    shapes = {() if row is None else getattr(row, "shape", (len(row),)) for row in rows}
    if len(shapes) > 1:
        return None
    shape = shapes.pop() if shapes else ()
    return (rows if shape else items), shape


def rows_of_numbers(X: Iterable[Any]) -> tuple[Floats | None, bool]:
    """Return a list of rows, or of numbers, as float64, and whether any cell is no number.

    None if the rows have different shapes, or some are none.
    """
    if (shaped := run_isolated(lambda: _rows(X), None, no_restart)) is None:
        return None, False
    rows, shape = shaped
    if not shape:
        return numbers(rows)
    values = np.empty((len(rows), shape[0]))
    strange = False
    step = max(1, _STEP // max(shape[0], 1))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        flat, other = numbers(itertools.chain.from_iterable(part))
        values[start : start + step] = flat.reshape(len(part), shape[0])
        strange |= other
    return values, strange


def object_rows(X: Iterable[Any]) -> NDArray[np.object_] | None:
    """Return a list of rows, or of cells, as an array of objects: the same cells.

    None if the rows have different shapes, or some are none.
    """
    if (shaped := run_isolated(lambda: _rows(X), None, no_restart)) is None:
        return None
    rows, shape = shaped
    table = np.empty((len(rows), *shape), dtype=object)
    for i, row in enumerate(rows):
        if len(shape) == 1:
            for j, cell in enumerate(row):
                table[i, j] = cell
        else:
            table[i] = row
    return table


def array_of_rows(X: Iterable[Any]) -> NDArray | None:
    """Return a list of rows as an array that reads as they do: of floats, or of objects.

    None if the rows have different shapes, or some are none.
    """
    with reading():
        table = object_rows(X)
    if table is None or not set(map(type, table.ravel().tolist())) <= {bool, int, float}:
        return table
    return rows_of_numbers(table.tolist())[0]


# --- cells ------------------------------------------------------------------------------------

_UNREADABLE = object()  # no number, no category


def as_list(cells: Any) -> list[Any]:
    """Return the cells of a column as a list of Python objects; each is read by itself if need be.

    One cell that its container cannot read must not decide about the others.
    """
    values: list[Any] | None = run_isolated(lambda: _listed_cells(cells), None, no_restart)
    if values is not None:
        return values
    if len(cells) == 1:
        return [_UNREADABLE]
    return [cell for i in range(len(cells)) for cell in as_list(cut(cells, i, i + 1))]


def _listed_cells(cells: Any) -> list[Any]:
    if hasattr(cells, "to_pylist"):  # pyarrow
        return list(cells.to_pylist())
    if hasattr(cells, "to_list"):  # pandas, polars
        return list(cells.to_list())
    if cells.dtype.kind in "mM":
        return list(cells)  # numpy's scalars: `tolist` would count ticks
    return list(cells.tolist())


def _array_values(array: NDArray) -> tuple[Floats, bool]:
    """Return an array as float64, and whether any cell is no number; such cells are NaN."""
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(object), None)
    array = np.asarray(array)  # of a subclass, whose own code does not run then
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # a long double beyond the range becomes inf
            return np.asarray(array, dtype=np.float64), False
    if array.dtype.kind != "O":
        return np.full(array.shape, np.nan), True
    values, strange = numbers(array.ravel().tolist())
    return values.reshape(array.shape), strange


def _column_values(column: Any) -> tuple[Floats, bool]:
    """Return a column of any library as float64, as `_array_values`."""
    if isinstance(column, np.ndarray):
        return _array_values(column)
    arrow = hasattr(column, "to_pylist")
    dtype = column.type if arrow else column.dtype
    kind = readable_as(dtype)
    if kind not in (NUMBER, OBJECTS):
        return np.full(len(column), np.nan), True
    if hasattr(dtype, "is_temporal"):  # polars
        if kind == NUMBER:
            return column.cast(_polars_float(column)).to_numpy(), False
        return numbers(column.to_list())
    if not arrow:
        if kind == NUMBER and not isinstance(dtype, np.dtype):  # of pandas, with missing cells
            return column.to_numpy(dtype=np.float64, na_value=np.nan), False
        if type(dtype).__name__ == "ArrowDtype":
            return numbers(column.tolist())
        return _array_values(np.asanyarray(column))
    if type(dtype).__name__ == "DictionaryType":
        return _column_values(column.cast(dtype.value_type))
    if kind == OBJECTS:
        return numbers(column.to_pylist())
    numpy: NDArray = np.asarray(column)  # floats, or objects where booleans are missing
    return _array_values(numpy)


def _polars_float(table: Any) -> Any:
    """Return the float64 of the library that a polars column or table comes from."""
    return import_module(type(table).__module__.partition(".")[0]).Float64


def _table_values(table: Any) -> tuple[Floats, bool]:
    """Return a table as float64, column by column: a type of one must not be that of another."""
    if is_frame(table):
        types = list(table.dtypes)
        if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in types):
            return np.asarray(table.to_numpy(dtype=np.float64)), False
        columns = [table.iloc[:, j] for j in range(len(types))]
    elif hasattr(table, "column_names"):
        # One chunk of numbers is read without a copy of it.
        columns = [
            column.chunk(0) if getattr(column, "num_chunks", 0) == 1 else column
            for column in table.columns
        ]
    else:
        if all(readable_as(dtype) == NUMBER for dtype in table.dtypes):
            return table.cast(_polars_float(table)).to_numpy(), False
        columns = list(table.get_columns())
    values = np.empty((table.shape[0], len(columns)))
    strange = False
    for j, column in enumerate(columns):
        values[:, j], other = _column_values(column)
        strange |= other
    return values, strange


def to_float(block: Any) -> tuple[Floats | None, str]:
    """Return an array, a table, a column or a list as float64, and a problem.

    A cell that is missing or no number is NaN. The problem is "type" if any cell is no number,
    "value" if the values are None because X has no shape, else "".
    """
    try:
        with np.errstate(all="ignore"):
            if is_listed(block):
                with reading():
                    values, strange = rows_of_numbers(block)
            elif is_frame(block) or is_sliced_table(block):
                values, strange = _table_values(block)
            elif hasattr(block, "dtype") or hasattr(block, "to_pylist"):
                values, strange = _column_values(block)
            else:
                values, strange = _array_values(array_of(block))
    except Exception:  # noqa: BLE001  its text may quote a cell
        return None, "value"
    if values is None:
        return None, "value"
    return values, "type" if strange else ""


def as_table(values: Floats, like: Any) -> Any:
    """Return float rows as a pandas or polars table with the columns of `like`, or unchanged.

    Nothing else is taken from `like`: neither its index, which counts private rows, nor the types
    of its columns, which all rows may have decided.
    """
    if is_frame(like):
        return type(like)(values, columns=list(like.columns))
    if hasattr(like, "get_columns"):  # polars
        return type(like)(values, schema=list(like.columns), orient="row")
    return values


def table_of(columns: dict[str, list[Any]], like: Any) -> Any:
    """Return public columns as a table of the kind of `like`, else of pandas.

    A dict of lists for a dict, and if pandas is not installed.
    """
    if isinstance(like, dict):
        return columns
    if is_frame(like):
        return type(like)(columns)
    if hasattr(like, "get_columns"):  # polars; stated keys may be 1 and 2.5
        return type(like)(columns, strict=False)
    if is_sliced_table(like):
        return type(like).from_pydict(columns)
    try:
        return import_module("pandas").DataFrame(columns)
    except ImportError:
        return columns
