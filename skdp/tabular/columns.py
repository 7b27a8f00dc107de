"""Columns of ids, keys and numbers: their declared types and values.

The type of a column is its dtype, its Arrow type, its type in a database, or is stated by the
caller (``types={"k": "text"}``). No cell decides it. Columns of objects and of categories have the
type "any": each cell is read by `skdp.tabular.cells.read_cell`. In a column of another type each
cell is a value of that type or is missing, by itself, and no cell raises.

Texts are equal if their bytes are, whatever the collation of a database. Dates and timestamps that
are infinite, or too far from 1970 for 64 bits of microseconds, are missing.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.cells import (
    NANOSECONDS,
    Interval,
    compared,
    date_of_days,
    duration,
    family,
    id_of,
    identity,
    is_missing,
    numbers,
    read_cell,
    stands_for_nothing,
    ticks,
    timestamp,
    words_of,
)
from skdp.tabular.containers import (
    array_of,
    as_list,
    checked,
    is_frame,
    is_listed,
    is_sliced_table,
    object_rows,
    refuse_other_arrays,
    to_float,
)
from skdp.user_code import no_restart, reading, run_isolated

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ColumnType:
    """The type of the cells of a column.

    Kinds are "any", "text", "boolean", "integer", "float", "decimal", "date", "timestamp", "zoned",
    "time", "duration", "bytes", "uuid", "interval", and "other", which is refused.
    """

    kind: str
    # Bits of a float; the smallest and the largest integer; the number of digits of a decimal, and
    # of those after the point; the time zone of a zoned timestamp.
    detail: Any = None
    dtype: Any = None  # the type in its own library, for the released column, if it is known


ANY, OTHER = ColumnType("any"), ColumnType("other")
STATED_TYPES = ("text", "boolean", "integer", "float", "date", "timestamp")
_NAMES = {
    "text": "text", "boolean": "booleans", "integer": "whole numbers", "float": "numbers",
    "decimal": "decimal numbers", "date": "dates (datetime.date)", "bytes": "bytes",
    "timestamp": "timestamps (datetime.datetime or numpy's, without a time zone)",
    "zoned": "timestamps with a time zone, or numpy's in UTC", "time": "times (datetime.time)",
    "duration": "durations (datetime.timedelta)", "uuid": "UUIDs", "interval": "intervals",
}  # fmt: skip
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_DUCKDB = {
    "BOOLEAN": "boolean", "DECIMAL": "decimal", "DATE": "date", "BLOB": "bytes", "UUID": "uuid",
    **{f"{sign}{name}": "integer" for sign in ("", "U") for name in _BITS},
    "FLOAT": "float", "DOUBLE": "float", "VARCHAR": "text", "ENUM": "text",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
    "TIMESTAMP WITH TIME ZONE": "zoned", "TIMESTAMPTZ_NS": "zoned",
    "TIME": "time", "TIME_NS": "time",
}  # fmt: skip
_ARROW = {
    "any": "is_null", "boolean": "is_boolean", "integer": "is_integer", "float": "is_floating",
    "decimal": "is_decimal", "text": "is_string is_large_string is_string_view",
    "bytes": "is_binary is_large_binary is_binary_view is_fixed_size_binary", "date": "is_date",
    "timestamp": "is_timestamp", "time": "is_time", "duration": "is_duration",
}  # fmt: skip
_PANDAS = {
    "StringDtype": "text", "BooleanDtype": "boolean", "IntervalDtype": "interval",
    **{f"{sign}Int{bits}Dtype": "integer" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_NUMPY = {
    "b": "boolean", "i": "integer", "u": "integer", "U": "text", "S": "bytes", "m": "duration",
    "O": "any",
}  # fmt: skip
_DAY = NANOSECONDS["D"]
_INFINITE = {32: 2**31 - 1, 64: 2**63 - 1}  # as DuckDB has it in dates of so many bits
_AT_ONCE = 1000  # cells above which a column of text is coded with one dict of its texts
_CELLS_AT_ONCE = 2**16  # of numbers: memory does not grow with their temporaries


# --- types --------------------------------------------------------------------------------------


def _range(bits: int, signed: bool) -> tuple[int, int]:
    """Return the smallest and the largest integer of a number of bits."""
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def type_of_arrow(kind: Any) -> ColumnType:
    """Return the type of an Arrow column."""
    types = import_module("pyarrow.types")
    if types.is_dictionary(kind):
        kind = kind.value_type
    if hasattr(kind, "extension_name"):
        name = {"arrow.uuid": "uuid", "arrow.bool8": "boolean"}.get(kind.extension_name, "other")
        return ColumnType(name, dtype=kind)
    for name, tests in _ARROW.items():
        if any(getattr(types, test)(kind) for test in tests.split()):
            if name == "any":
                return ANY
            if getattr(kind, "tz", None) is not None:
                return ColumnType("zoned", kind.tz, kind)
            if name == "integer":
                return ColumnType(name, _range(kind.bit_width, types.is_signed_integer(kind)), kind)
            if name == "decimal":
                return ColumnType(name, (kind.precision, kind.scale), kind)
            return ColumnType(name, kind.bit_width if name == "float" else None, kind)
    return OTHER


def type_of_duckdb(name: str) -> ColumnType:
    """Return the type of a DuckDB column, by the name of its type."""
    name = name.upper()
    if name.endswith("]"):
        return OTHER
    kind = _DUCKDB.get(name.partition("(")[0], "other")
    if kind == "float":
        return ColumnType(kind, 32 if name == "FLOAT" else 64)
    if kind == "decimal":
        digits, _, scale = name.partition("(")[2].rstrip(")").partition(",")
        return ColumnType(kind, (int(digits), int(scale)))
    if kind == "integer":
        signed = name.removeprefix("U")
        return ColumnType(kind, _range(_BITS[signed], signed == name))
    return ColumnType(kind, "UTC" if kind == "zoned" else None)


def _type_of_numpy(dtype: np.dtype) -> ColumnType:
    if dtype.kind == "f":
        # A longer float is read cell by cell: rounded, two ids would be one.
        return ColumnType("float", 8 * dtype.itemsize, dtype) if dtype.itemsize <= 8 else ANY
    if dtype.kind in "iu":
        return ColumnType("integer", _range(8 * dtype.itemsize, dtype.kind == "i"), dtype)
    if dtype.kind in "mM":
        unit = np.datetime_data(dtype)[0]
        if unit in ("ps", "fs", "as", "generic") or (dtype.kind == "m" and unit in ("Y", "M")):
            return OTHER
        days = dtype.kind == "M" and unit in ("Y", "M", "W", "D")
        return ColumnType("date" if days else "timestamp" if dtype.kind == "M" else "duration",
                          dtype=dtype)  # fmt: skip
    return ColumnType(_NUMPY.get(dtype.kind, "other"), dtype=dtype)


def type_of_column(column: Any) -> ColumnType:
    """Return the declared type of a column of numpy, pandas, polars or pyarrow, or of a list."""
    if isinstance(column, list | tuple):
        return ANY
    if hasattr(column, "to_pylist"):
        return type_of_arrow(column.type)
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return _type_of_numpy(dtype)
    if hasattr(dtype, "is_temporal"):  # polars
        if str(dtype) in ("Object", "Null") or not find_spec("pyarrow"):
            return ANY
        if type(dtype).__name__ in ("Enum", "Categorical"):  # whose categories may be private
            return ColumnType("text")
        if str(dtype) in ("Int128", "UInt128"):
            return OTHER
        return replace(type_of_arrow(column.head(0).to_arrow().type), dtype=dtype)
    name = type(dtype).__name__
    if name == "ArrowDtype":
        return replace(type_of_arrow(dtype.pyarrow_dtype), dtype=dtype)
    if name == "DatetimeTZDtype":
        return ColumnType("zoned", str(dtype.tz), dtype)
    if name in ("Float32Dtype", "Float64Dtype"):
        return ColumnType("float", int(name[5:7]), dtype)
    if name == "CategoricalDtype":
        return ANY
    if _PANDAS.get(name) == "integer":
        return replace(_type_of_numpy(dtype.numpy_dtype), dtype=dtype)
    return ColumnType(_PANDAS.get(name, "other"), dtype=dtype)


def readable_type(column: Any) -> ColumnType:
    """Return the type of a column of classes or categories, "any" where others are refused."""
    kind = type_of_column(column)
    return ANY if kind.kind == "other" else kind


def stated_type(kind: Any, name: str) -> ColumnType:
    """Return the type that a caller states for a column, or raise ValueError."""
    if kind not in STATED_TYPES:
        raise ValueError(f"types: column {name!r} must have one of {STATED_TYPES}, got {kind!r}")
    return ColumnType(kind, 64 if kind == "float" else None)


# --- values -------------------------------------------------------------------------------------


def _as_type(value: Any, kind: str) -> Any:
    """Return the result of `read_cell` as a value of a type; None if the type has no such value."""
    own = family(value)
    if kind == "any" or own == kind or (kind == "zoned" and own == "timestamp"):
        return value
    if own == "number":
        if kind == "integer":
            return value if type(value) is int else None
        if kind == "decimal":
            if type(value) is float:  # as it is written
                return decimal.Decimal(repr(value)) if np.isfinite(value) else None
            return decimal.Decimal(value) if type(value) in (int, decimal.Decimal) else None
        if kind == "float":
            with suppress(OverflowError):
                return float(value)
    if kind == "timestamp" and own == "date":
        return timestamp(ticks(value))
    if kind == "time" and own == "duration":  # since midnight, with nanoseconds
        return value
    if kind == "date" and own == "timestamp":
        day = value.astype("datetime64[D]")
        return date_of_days(int(day.astype(np.int64))) if day == value else None
    if kind == "text" and value is not None:
        return _as_text(value, own)
    return None


def _as_text(value: Any, own: str) -> str | None:
    """Return the text of a value of family `own`, for columns of objects stated to be text."""
    if own == "boolean":
        return "true" if value else "false"
    if own in ("date", "timestamp"):
        return str(value).rstrip("0").rstrip(".") if "." in str(value) else str(value)
    if own == "number":
        return f"{value:f}" if type(value) is decimal.Decimal else str(value)
    return str(value) if own in ("uuid", "time") else None


def stated_value(value: Any, kind: ColumnType, name: str) -> Any:
    """Return a stated key as a value of its column; TypeError if the type has no such value."""
    read = read_cell(value)
    if kind.kind == "any" or is_missing(value):
        if read is None and not is_missing(value):
            raise TypeError(
                f"stated keys of column {name!r} must be text, numbers, booleans, dates, "
                "timestamps, times, durations, bytes, UUIDs or intervals"
            )
        return read
    if (key := _of_column(value, read, kind)) is None:
        raise TypeError(
            f"stated keys of column {name!r} must be of its type: {_NAMES[kind.kind]}. Convert "
            "them, or the column"
        )
    return key


def _of_column(value: Any, read: Any, kind: ColumnType) -> Any:
    """Return a stated key, and what `read_cell` makes of it, as a value of a type; else None."""
    zone = getattr(value, "tzinfo", None)
    is_number = kind.kind in ("integer", "float", "decimal")
    if (
        (family(read) == "number") != is_number
        or (kind.kind == "zoned" and isinstance(value, datetime.datetime) and zone is None)
        or (kind.kind == "timestamp" and zone is not None)
        or (kind.kind == "text" and family(read) != "text")
    ):
        return None
    key = _as_type(read, kind.kind)
    if key is None or kind.detail is None or not is_number:
        return key
    if kind.kind == "integer":
        return key if kind.detail[0] <= key <= kind.detail[1] else None
    if kind.kind == "float":
        if kind.detail < 64:  # rounded as the cells of the column are
            with np.errstate(all="ignore"):
                key = float(np.dtype(f"f{kind.detail // 8}").type(key))
            if np.isinf(key) and key != read:
                return None
        return None if type(read) is int and key != read else key
    digits, scale = kind.detail
    context = decimal.Context(prec=digits, traps=[decimal.Inexact, decimal.InvalidOperation])
    try:  # written as the column writes it
        return key.quantize(decimal.Decimal(1).scaleb(-scale), context=context)
    except (decimal.Inexact, decimal.InvalidOperation):
        return None


# --- cells to codes -----------------------------------------------------------------------------


MISSING_CODE, STRANGE_CODE = -1, -2
_STRANGE = object()  # the value of a cell of a type that `read_cell` does not know


def coded(column: Any, kind: ColumnType, own: ColumnType | None = None) -> tuple[Ints, list[Any]]:
    """Return the code of each cell, and the distinct values in the order of their codes.

    The code of a missing cell is -1, that of a type unknown to `read_cell` -2. `own` is the type of
    the column, if the caller states another one.
    """
    with reading():
        codes, cells = _distinct(column, own or kind)
        values = cells.tolist() if isinstance(cells, np.ndarray) else cells
        return _merged(codes, [_as_type(value, kind.kind) for value in values])


def as_they_come(codes: Ints, n_values: int) -> list[int]:
    """Return the codes that occur, -1 and -2 among them, in the order of their first cells."""
    # The codes -1 and -2 are the last two places. Backwards, so that the first cell remains.
    first = np.full(n_values + 2, codes.size)
    first[codes[::-1]] = np.arange(codes.size)[::-1]
    order = np.argsort(first)[: np.count_nonzero(first < codes.size)].tolist()
    return [code if code < n_values else code - n_values - 2 for code in order]


def coded_ids(column: Any, kind: ColumnType) -> tuple[Ints, NDArray[np.uint64]]:
    """Return the unit of each row, below 0 where it has no id, and a hash of each unit's id."""
    with reading():
        codes, cells = _distinct(column, kind)
        if kind.kind == "integer" and len(cells) and isinstance(cells, np.ndarray):
            return codes, cells.astype(np.uint64)
        codes, values = _merged(codes, [id_of(cell) for cell in cells])
        return codes, words_of(values)


def _merged(codes: Ints, values: list[Any]) -> tuple[Ints, list[Any]]:
    """Return codes and distinct values, as `coded`, of values of which some may be equal."""
    places: dict[Any, int] = {}
    to = [
        MISSING_CODE if value is None
        else STRANGE_CODE if value is _STRANGE
        else places.setdefault(identity(value), len(places))
        for value in values
    ]  # fmt: skip
    if len(places) == len(values):
        return codes, values
    # Backwards, so that of equal values the first one remains: it is shown to the user.
    first: list[Any] = [None] * len(places)
    for place, value in zip(reversed(to), reversed(values), strict=True):
        if place >= 0:
            first[place] = value
    return np.array([*to, STRANGE_CODE, MISSING_CODE], dtype=np.int64)[codes], first


def places_by(values: Iterable[Any]) -> dict[Any, int]:
    """Return the place of each stated value, by its comparable form; see `stated_places`.

    A value that no cell can have is left out.
    """
    places: dict[Any, int] = {}
    for place, value in enumerate(values):
        # As they are stated, so that keys of seeded noise, which hold them, stay as they were.
        known = value.item() if isinstance(value, np.generic) else value
        temporal = isinstance(value, np.datetime64 | np.timedelta64)
        if temporal or type(known) not in (bool, int, float, str) or known != known:
            known = _category(value)
        if known is not None or stands_for_nothing(value):
            places.setdefault(known, place)
    return places


def stated_places(column: Any, places: Mapping[Any, int]) -> Ints:
    """Return the place of each cell in `places_by`: -2 for other values, -1 for missing cells.

    Equal numbers are one value, whatever their types. A float of 16 or 32 bits also equals the
    stated float that rounds to it (0.1 is another number in 32 bits). A missing cell has the place
    of None, if None is stated.
    """
    missing = places.get(None, MISSING_CODE)
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.itemsize <= 8:
        return _places_of_numbers(np.asarray(column), places, missing)
    kind = readable_type(column)
    if kind.kind == "any":
        short: dict[type, dict[Any, int]] = {}
        with reading():
            cells = column if isinstance(column, list) else as_list(column)
            place_of_each = [_place_of_cell(cell, places, missing, short) for cell in cells]
        return np.array(place_of_each, dtype=np.int64)
    codes, values = coded(column, kind)
    bits = kind.detail if kind.kind == "float" else 64
    rounded = _rounded(places, np.dtype(f"f{bits // 8}")) if bits < 64 else {}
    at = [places.get(compared(value), rounded.get(value, STRANGE_CODE)) for value in values]
    return np.array([*at, STRANGE_CODE, missing], dtype=np.int64)[codes]


def _category(cell: Any) -> Any:
    """Return what a category is compared by; a tuple may be one, of cells."""
    return tuple(map(read_cell, cell)) if type(cell) is tuple else compared(read_cell(cell))


def _place_of_cell(
    cell: Any, places: Mapping[Any, int], missing: int, short: dict[type, dict[Any, int]]
) -> int:
    value = cell if type(cell) is str else _category(cell)
    if value is None:
        return missing if stands_for_nothing(cell) else STRANGE_CODE
    place = places.get(value, STRANGE_CODE)
    if place < 0 and (kind := type(cell)) in (np.float16, np.float32):
        if kind not in short:
            short[kind] = _rounded(places, np.dtype(kind))
        place = short[kind].get(value, place)
    return place


def _rounded(places: Mapping[Any, int], dtype: np.dtype) -> dict[Any, int]:
    """Return the places of stated floats as a shorter float type holds them."""
    rounded: dict[Any, int] = {}
    with np.errstate(all="ignore"):
        for value, place in places.items():
            if type(value) is float and np.isfinite(near := dtype.type(value)):
                rounded.setdefault(near.item(), place)
    return rounded


def _places_of_numbers(cells: NDArray, places: Mapping[Any, int], missing: int) -> Ints:
    """Return the places of numbers of one type, by a search among the stated ones of this type."""
    known = _rounded(places, cells.dtype) if cells.dtype.kind == "f" else {}
    for value, place in places.items():
        if isinstance(value, bool | int | float) and _fits(value, cells.dtype):
            known[cells.dtype.type(value).item()] = place
    codes = np.full(cells.shape, STRANGE_CODE, dtype=np.int64)
    values = np.array(sorted(known), dtype=cells.dtype)
    order = np.array([known[value.item()] for value in values], dtype=np.int64)
    for first in range(0, len(cells), _CELLS_AT_ONCE):
        block, places_of = (x[first : first + _CELLS_AT_ONCE] for x in (cells, codes))
        if known:
            at = np.minimum(np.searchsorted(values, block), len(values) - 1)
            np.copyto(places_of, order[at], where=values[at] == block)
        places_of[block != block] = missing
    return codes


def _fits(value: Any, dtype: np.dtype) -> bool:
    """Say whether a type has exactly this number."""
    try:
        with np.errstate(all="ignore"):
            return bool(dtype.type(value).item() == value)
    except OverflowError:
        return False


def flat_column(values: Any, name: str) -> Any:
    """Return labels, targets or ids as one column of any library, or None.

    A table of one column counts as this column, and so does a list of rows of one cell.
    """
    columns, _ = flat_columns(values, name)
    return columns[0] if len(columns) == 1 else None


def flat_columns(values: Any, name: str) -> tuple[list[Any], bool]:
    """Return labels, targets or ids as columns of any library, and whether they are a table."""
    refuse_other_arrays(values, name)
    values = checked(values, name)
    if is_frame(values):
        return [values.iloc[:, j] for j in range(values.shape[1])], True
    if is_sliced_table(values) and not hasattr(values, "dtype"):
        take = values.column if hasattr(values, "column_names") else values.to_series
        return [take(j) for j in range(values.shape[1])], True
    if hasattr(values, "iloc") or hasattr(values, "to_pylist") or hasattr(values, "to_arrow"):
        return [values], False
    if hasattr(values, "to_series"):  # an index of pandas
        return [values.to_series()], False
    # numpy would take the type of a sequence of another class from its cells.
    typed = any(hasattr(values, name) for name in ("dtype", "__array__", "typecode", "keys"))
    of_cells = is_listed(values) or (
        hasattr(values, "__getitem__")
        and not (typed or isinstance(values, str | bytes | bytearray | memoryview))
    )
    with reading():
        read: Any = object_rows if of_cells else array_of
        array = run_isolated(lambda: read(values), None, no_restart)
    if array is None or array.ndim not in (1, 2):
        return [], False
    if array.ndim == 1:
        return [array], False
    if type(array) is np.matrix:
        array = np.asarray(array)
    return [array[:, j] for j in range(array.shape[1])], True


def flat_array(column: Any) -> NDArray:
    """Return a column as an array of its numpy type, or of objects if it has no such type."""
    dtype = getattr(column, "dtype", None)
    temporal = getattr(dtype, "kind", "O") in "mM" or getattr(dtype, "is_temporal", bool)()
    if (isinstance(dtype, np.dtype) or temporal) and getattr(dtype, "kind", "") != "O":
        return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    cells = column if isinstance(column, list) else as_list(column)
    return np.fromiter(cells, dtype=object, count=len(cells))


def _distinct(column: Any, kind: ColumnType) -> tuple[Ints, Any]:
    """Return the code of each cell, -1 if it is missing, and values, of which some may be equal."""
    if hasattr(column, "to_arrow") or hasattr(column, "to_pylist"):
        if kind.kind == "any":
            return _of_objects(as_list(column))
        arrow = column.to_arrow() if hasattr(column, "to_arrow") else column
        return _of_arrow(values_of(arrow), kind)
    if isinstance(column, np.ma.MaskedArray):
        codes, values = _distinct(np.asarray(column.data), kind)
        return np.where(np.ma.getmaskarray(column), -1, codes), values
    if isinstance(column, list | tuple):
        return _of_objects(list(column))
    dtype = column.dtype
    name = type(dtype).__name__
    if isinstance(dtype, np.dtype):
        return _of_numpy(np.asarray(column), kind)
    if name == "ArrowDtype":
        return _of_arrow(values_of(import_module("pyarrow").array(column)), kind)
    if name == "CategoricalDtype":
        return np.asarray(column.cat.codes, dtype=np.int64), _values(as_list(dtype.categories))
    if name == "StringDtype" and dtype.storage == "python":
        # The codes of pandas would take half of a surrogate pair for its description.
        return _of_objects(column.to_numpy(dtype=object, na_value=None).tolist())
    if name == "DatetimeTZDtype":
        return _of_numpy(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), kind)
    codes, values = column.factorize()
    return np.asarray(codes, dtype=np.int64), _values(as_list(values))


def _values(cells: Iterable[Any]) -> list[Any]:
    """Return the value of every cell, each read by itself."""
    return [cell if type(cell) is str else _value(cell) for cell in cells]


def _value(cell: Any) -> Any:
    value = read_cell(cell)
    return _STRANGE if value is None and not stands_for_nothing(cell) else value


def _of_objects(cells: list[Any]) -> tuple[Ints, list[Any]]:
    """Return the codes of cells of any types, each of which is read by itself."""
    if len(cells) > _AT_ONCE and all(type(cell) is str for cell in cells):
        texts = dict.fromkeys(cells)
        place = dict(zip(texts, range(len(texts)), strict=True))
        return np.fromiter(map(place.__getitem__, cells), np.int64, len(cells)), list(texts)
    return np.arange(len(cells), dtype=np.int64), _values(cells)


def _of_numpy(cells: NDArray, kind: ColumnType) -> tuple[Ints, Any]:
    if kind.kind == "any" or cells.dtype.kind in "US":
        return _of_objects(as_list(cells) if cells.dtype.kind in "OUS" else list(cells))
    if cells.dtype.kind == "f":
        cells = cells.astype(np.float64) + 0.0  # one zero
    values, codes = np.unique(cells, return_inverse=True)
    codes = codes.reshape(-1).astype(np.int64)
    if cells.dtype.kind in "Mm":
        return codes, _values(list(values))
    if cells.dtype.kind == "f":
        return codes, [None if cell != cell else cell for cell in values.tolist()]
    return codes, values.tolist() if cells.dtype.kind == "b" else values


def values_of(column: Any) -> Any:
    """Return a column without a dictionary, which may hold a value twice, or an extension type."""
    types = import_module("pyarrow.types")
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not hasattr(column.type, "extension_name"):
        return column
    storage = column.cast(column.type.storage_type)
    is_boolean = column.type.extension_name == "arrow.bool8"
    return storage.cast(import_module("pyarrow").bool_()) if is_boolean else storage


def _of_arrow(column: Any, kind: ColumnType) -> tuple[Ints, Any]:
    """Return codes and values, as `_distinct`, of a column from `values_of`."""
    pa = import_module("pyarrow")
    compute = import_module("pyarrow.compute")
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    own = column.type
    if kind.kind == "any":
        return np.full(len(column), -1), []
    if kind.kind == "float":
        column = compute.add(column.cast(pa.float64()), 0.0)  # one zero
        column = compute.if_else(compute.is_nan(column), pa.scalar(None, pa.float64()), column)
    elif kind.kind in ("date", "timestamp", "zoned", "time", "duration"):
        column = column.cast(pa.int32() if own.bit_width == 32 else pa.int64())
    elif kind.kind in ("text", "uuid") and not pa.types.is_fixed_size_binary(own):
        # The bytes of a text are not checked.
        column = column.cast(pa.binary() if pa.types.is_string(own) else pa.large_binary())
    elif pa.types.is_binary_view(own):
        column = column.cast(pa.large_binary())
    elif kind.kind == "decimal" and own.bit_width < 128:
        column = column.cast(pa.decimal128(own.precision, own.scale))
    coded_column = column.dictionary_encode().combine_chunks()
    if isinstance(coded_column, pa.ChunkedArray):
        empty = pa.array([], column.type).dictionary_encode()
        coded_column = coded_column.chunk(0) if coded_column.num_chunks else empty
    indices = coded_column.indices
    codes = np.asarray(indices.fill_null(-1) if indices.null_count else indices).astype(np.int64)
    dictionary = coded_column.dictionary
    if kind.kind == "integer" and pa.types.is_integer(dictionary.type):
        return codes, np.asarray(dictionary)
    return codes, _plain_values(dictionary.to_pylist(), kind.kind, own)


def _plain_values(cells: list[Any], kind: str, own: Any) -> list[Any]:
    """Return distinct cells of Arrow as values of Python."""
    if kind == "text":
        return [cell.decode("utf-8", "surrogateescape") for cell in cells]
    if kind == "integer":  # of 128 bits, as text
        return [int(cell) for cell in cells]
    if kind == "uuid":
        return [
            uuid.UUID(bytes=cell) if len(cell) == 16 else uuid.UUID(cell.decode()) for cell in cells
        ]
    if kind == "date":
        days = own.bit_width == 32
        return [
            None if abs(cell) == _INFINITE[own.bit_width]
            else date_of_days(cell if days else cell // 86_400_000)
            for cell in cells
        ]  # fmt: skip
    if kind in ("timestamp", "zoned", "time", "duration"):
        make = {"time": _time, "duration": duration}.get(kind, timestamp)
        step = NANOSECONDS[own.unit]
        return [None if abs(cell) == _INFINITE[64] else make(cell * step) for cell in cells]
    return cells


def _time(nanoseconds: int) -> Any:
    """Return a time of day; a duration since midnight where `datetime.time` has none."""
    if nanoseconds % 1000 or not 0 <= nanoseconds < _DAY:
        return duration(nanoseconds)
    return (datetime.datetime.min + datetime.timedelta(microseconds=nanoseconds // 1000)).time()


def numbers_of(column: Any, kind: ColumnType) -> NDArray[np.float64]:
    """Return cells as float64, NaN for missing cells and, in a list, for cells of other types."""
    if isinstance(column, list | tuple):
        return numbers(list(column))[0]
    if not hasattr(column, "to_pylist"):
        values = to_float(column)[0]
        assert values is not None  # by its type it holds numbers
        return np.ascontiguousarray(values)
    pa = import_module("pyarrow")
    column = values_of(column)
    if kind.kind == "boolean":
        column = column.cast(pa.int8())
    column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.fill_null(float("nan")) if column.null_count else column)


def with_types(table: Any, stated: Mapping[str, ColumnType] | None = None) -> Any:
    """Return a table of pandas whose columns of objects and categories have types.

    Each cell becomes a value of the stated type by itself, or is missing; dates become timestamps.
    Without a stated type it becomes text. TypeError for stated types of columns that have a type.
    """
    kinds = {}
    if hasattr(table, "iloc"):
        for name in table.columns:
            if table[name].ndim == 1 and type_of_column(table[name]).kind == "any":
                kinds[name] = ColumnType("text")
    for name, kind in (stated or {}).items():
        if name not in kinds:
            raise TypeError(
                f"types: column {name!r} is none of objects or categories of pandas: it has a type "
                "already, or the table does not have it"
            )
        kinds[name] = kind
    columns = {name: _typed(table[name], kind) for name, kind in kinds.items()}
    return table.assign(**columns) if columns else table


def _typed(column: Any, kind: ColumnType) -> Any:
    """Return a column of pandas of objects or categories as a column of a stated type."""
    pandas = import_module("pandas")
    if kind.kind == "text":
        return pandas.array(_texts_of(column, ANY), dtype="string")
    codes, values = coded(column, kind, ANY)
    if kind.kind == "integer":
        values = [value if -(2**63) <= value < 2**63 else None for value in values]
    if kind.kind in ("date", "timestamp"):
        cells = np.array([*values, "NaT"], dtype="datetime64[us]")[codes]
        return pandas.Series(cells, index=column.index)
    dtype = {"integer": "Int64", "float": "Float64", "boolean": "boolean"}[kind.kind]
    return pandas.array(np.array([*values, None], dtype=object)[codes], dtype=dtype)


def valid_texts(table: Any) -> Any:
    """Return a table of pandas without text that no UTF-8 has: it is missing."""
    columns = {}
    for name in table.columns:
        if getattr(table[name].dtype, "storage", "") == "python":
            texts = _texts_of(table[name], ColumnType("text"))
            columns[name] = import_module("pandas").array(texts, dtype=table[name].dtype)
    return table.assign(**columns) if columns else table


def _texts_of(column: Any, own: ColumnType) -> NDArray[np.object_]:
    """Return the text of each cell that has one in UTF-8, else None."""
    codes, values = coded(column, ColumnType("text"), own)
    # Half of a surrogate pair is left out by encoding.
    valid = [text if text.encode(errors="ignore").decode() == text else None for text in values]
    return np.array([*valid, None], dtype=object)[codes]


# --- released values ----------------------------------------------------------------------------


def column_of_values(values: Sequence[Any], kind: ColumnType, like: Any) -> Any:
    """Return released keys as a column of their type, for a table of the same kind as `like`.

    If the type cannot hold them (a missing key among integers of numpy), the library chooses one
    for them, or they become objects, or text: all of them are public. This never fails.
    """
    values = list(map(shown_key, values))
    makers: list[Callable[[], Any]] = []
    if hasattr(like, "get_columns"):  # polars
        polars = import_module(type(like).__module__.partition(".")[0])
        makers += [lambda: _polars_series(polars, values, kind)] * (kind.dtype is not None)
        makers += [lambda: polars.Series(_plain(values), strict=True)]
        makers += [lambda: polars.Series(values, dtype=polars.Object)]
    elif hasattr(like, "column_names"):
        makers += [lambda: _arrow_array(values, kind)] * (kind.dtype is not None)
        makers += [lambda: import_module("pyarrow").array(_plain(values))]
    elif not isinstance(like, dict) and find_spec("pandas"):
        pandas = import_module("pandas")
        makers += [lambda: _pandas_series(values, kind), lambda: pandas.Series(values)]
        makers += [lambda: pandas.Series(values, dtype=object)]
    # pandas would cut or round what its type cannot hold; the others refuse it.
    exact = kind.dtype is not None and not hasattr(like, "iloc")
    for i, make in enumerate(makers):
        column = run_isolated(make, None, no_restart)
        if column is not None and ((exact and not i) or _holds(column, values, kind)):
            return column
    return values if isinstance(like, dict) or not makers else list(map(_written, values))


def _holds(column: Any, values: list[Any], kind: ColumnType) -> bool:
    """Say whether a column has the values that it was made of."""

    def known(value: Any) -> Any:
        return identity(_as_type(read_cell(value), kind.kind))

    read = column.to_pylist if hasattr(column, "to_pylist") else column.to_list
    cells = run_isolated(lambda: list(read()), None, no_restart)
    return cells is None or list(map(known, cells)) == list(map(known, values))


def _written(value: Any) -> str | None:
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _plain(values: Sequence[Any]) -> list[Any]:
    """Return numpy's dates as Python's, which every library accepts."""
    return [value.item() if isinstance(value, np.datetime64 | np.timedelta64) else value
            for value in values]  # fmt: skip


def _ticks_of(value: Any, unit: str) -> int | None:
    if value is None:
        return None
    count, rest = divmod(cast(int, ticks(value)), NANOSECONDS[unit])
    if rest:  # truncated, it would be shown as another key
        raise ValueError
    return count


def _polars_series(polars: Any, values: Sequence[Any], kind: ColumnType) -> Any:
    dtype = kind.dtype
    if kind.kind == "date":
        days = [_ticks_of(value, "D") for value in values]
        return polars.Series(days, dtype=polars.Int32).cast(dtype)
    if kind.kind not in ("timestamp", "zoned", "duration"):
        return polars.Series(values, dtype=dtype, strict=True)
    counts = [_ticks_of(value, dtype.time_unit) for value in values]
    series = polars.Series(counts, dtype=polars.Int64)
    if kind.kind != "zoned":
        return series.cast(dtype)
    moments = series.cast(polars.Datetime(dtype.time_unit)).dt.replace_time_zone("UTC")
    return moments.dt.convert_time_zone(dtype.time_zone)


def _arrow_array(values: Sequence[Any], kind: ColumnType) -> Any:
    pa = import_module("pyarrow")
    if kind.kind in ("timestamp", "zoned", "duration"):
        counts = [_ticks_of(value, kind.dtype.unit) for value in values]
        return pa.array(counts, pa.int64()).cast(kind.dtype)
    if kind.kind == "date" and kind.dtype.bit_width == 32:
        days = [_ticks_of(value, "D") for value in values]
        return pa.array(days, pa.int32()).cast(kind.dtype)
    if kind.kind == "text":  # whose bytes need not be UTF-8
        large = [None if value is None else value.encode("utf-8", "surrogateescape")
                 for value in values]  # fmt: skip
        return pa.array(large, pa.large_binary()).view(pa.large_string()).cast(kind.dtype)
    return pa.array(_plain(values), kind.dtype)


def shown_key(value: Any) -> Any:
    """Return a released key, or a tuple of them, for callers: with intervals of pandas."""
    if type(value) is tuple:
        return tuple(map(shown_key, value))
    if type(value) is not Interval:
        return value
    pandas = import_module("pandas")
    make = {np.datetime64: pandas.Timestamp, np.timedelta64: pandas.Timedelta}
    ends = [make.get(type(end), lambda end: end)(end) for end in (value.left, value.right)]
    return pandas.Interval(*ends, closed=value.closed)


def _pandas_series(values: Sequence[Any], kind: ColumnType) -> Any:
    pandas = import_module("pandas")
    dtype = kind.dtype
    if kind.kind == "zoned":
        is_fine = any(value is not None and value.dtype == "M8[ns]" for value in values)
        unit = getattr(dtype, "unit", "ns" if is_fine else "us")
        moments = pandas.Series(np.array(values, dtype=f"M8[{unit}]")).dt.tz_localize("UTC")
        moments = moments.dt.tz_convert(kind.detail)
        return moments if dtype is None else moments.astype(dtype)
    if dtype is None or not values:
        dtype = object if not values else None
    try:
        return pandas.Series(list(values), dtype=dtype)
    except UnicodeEncodeError:  # text with half of a surrogate pair
        return pandas.Series(list(values), dtype=object)
