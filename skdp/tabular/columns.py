"""Columns of Arrow: their declared types, and their cells as ids, keys and numbers.

Nothing is released here. The kind of a column comes from its type in the schema of its table, of
Arrow or of DuckDB; no cell decides it. Each cell becomes a value of that kind or is missing, by
itself, and no cell raises.

Texts are equal if their bytes are, whatever the collation of a database. Keys that are dates are
compared in microseconds; those that microseconds do not count, and infinite ones, are missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.contributions import Words
from skdp.tabular.grouped_keys import IDS, with_zone, words_of
from skdp.tabular.terms import Ints

__all__ = [
    "Kinds",
    "coded_ids",
    "coded_keys",
    "has_missing",
    "kind_of_arrow",
    "kind_of_duckdb",
    "numbers_of",
    "values_of",
]

_FAMILIES = {
    "boolean": "boolean",
    **dict.fromkeys(("integer", "wide", "float"), "number"),
    "text": "text",
    "date": "date",
}
_NUMBERS = ("boolean", "integer", "wide", "float", "decimal")
_DUCKDB = {
    "BOOLEAN": "boolean",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "integer"),
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), "wide"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    "DECIMAL": "decimal",
    **dict.fromkeys(("VARCHAR", "ENUM"), "text"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "date"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), "zoned"),
    **dict.fromkeys(("TIME", "TIME_NS"), "time"),
    "BLOB": "bytes",
    "UUID": "uuid",
}
_ARROW = {
    "boolean": "is_boolean",
    "integer": "is_integer",
    "float": "is_floating",
    "decimal": "is_decimal",
    "text": "is_string is_large_string is_string_view",
    "bytes": "is_binary is_large_binary is_binary_view is_fixed_size_binary",
    "date": "is_date is_timestamp",
    "time": "is_time is_duration",
}
_DAY = 86_400_000_000  # microseconds
_TICKS = {"s": (10**6, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}  # in microseconds
_LATEST = _DAY * 365 * 290_000  # microseconds from 1970, which 64 bits can count
_INFINITE = {32: 2**31 - 1, 64: 2**63 - 1}  # as DuckDB has it in dates of so many bits


# --- types ----------------------------------------------------------------------------------------


def kind_of_arrow(kind: Any) -> str:
    """Return what the cells of an Arrow column are, by its type."""
    types = import_module("pyarrow.types")

    if types.is_dictionary(kind):
        kind = kind.value_type
    if hasattr(kind, "extension_name"):
        return "bytes" if kind.extension_name == "arrow.uuid" else "other"
    if getattr(kind, "tz", None) is not None:
        return "zoned"
    for name, tests in _ARROW.items():
        if any(getattr(types, test)(kind) for test in tests.split()):
            return name
    return "other"


def kind_of_duckdb(kind: str) -> str:
    """Return what the cells of a DuckDB column are, by the name of its type."""
    kind = kind.upper()
    return "other" if kind.endswith("]") else _DUCKDB.get(kind.partition("(")[0], "other")


class Kinds(NamedTuple):
    """What the cells of an id column, of key columns and of columns of numbers are.

    "boolean", "integer", "wide" (an integer of 128 bits, as text), "float", "decimal", "text",
    "date", "zoned", "time", "bytes", "uuid" (as text), or "other".
    """

    unit: str
    by: tuple[str, ...]
    columns: tuple[str, ...]

    def check(self, unit: str, by: list[str], columns: list[str]) -> None:
        """Raise for columns, of these names, whose type does not fit what they are asked for.

        Raises
        ------
        TypeError, ValueError
            Decided by types, which are public.
        """
        for name, kind in zip(by, self.by, strict=True):
            if kind == "zoned":
                raise ValueError(with_zone(name))
            if kind not in _FAMILIES:
                raise TypeError(f"keys of column {name!r} must be text, numbers, booleans or dates")
        for name, kind in zip(columns, self.columns, strict=True):
            if kind not in _NUMBERS:
                raise TypeError(f"column {name!r} must hold numbers")
        if self.unit == "other":
            raise TypeError(IDS.format(name=unit))

    def families(self, by: list[str]) -> dict[str, tuple[frozenset[str], bool]]:
        """Return of what family the keys of each column are, and that its type says so."""
        found = {}
        for name, kind in zip(by, self.by, strict=True):
            found[name] = frozenset({_FAMILIES[kind]}), True
        return found


# --- cells ----------------------------------------------------------------------------------------


def values_of(column: Any) -> Any:
    """Return a column without a dictionary, which may hold a value twice, or an extension type."""
    types = import_module("pyarrow.types")
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    extended = hasattr(column.type, "extension_name")
    return column.cast(column.type.storage_type) if extended else column


def has_missing(column: Any) -> bool:
    """Say whether a column has missing cells, NaN among them."""
    compute = import_module("pyarrow.compute")
    return bool(compute.any(compute.is_null(column, nan_is_null=True)).as_py())


def _dictionary(column: Any, kind: str) -> tuple[Ints, Any]:
    """Return the code of each cell, -1 where it is missing, and the distinct values as Arrow.

    Of what `values_of` has returned, as all that follows here.
    """
    pa = import_module("pyarrow")
    compute = import_module("pyarrow.compute")
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if kind == "float":
        column = compute.add(column.cast(pa.float64()), 0.0)  # one zero
        column = compute.if_else(compute.is_nan(column), pa.scalar(None, pa.float64()), column)
    elif kind in ("date", "zoned", "time"):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    elif pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        column = column.cast(pa.large_binary())
    elif kind == "text":  # the bytes of a text are not checked
        large = pa.types.is_large_string(column.type)
        column = column.cast(pa.large_binary() if large else pa.binary())
    coded = column.dictionary_encode().combine_chunks()
    if isinstance(coded, pa.ChunkedArray):
        coded = (
            coded.chunk(0) if coded.num_chunks else pa.array([], column.type).dictionary_encode()
        )
    codes = coded.indices.fill_null(-1) if coded.indices.null_count else coded.indices
    return np.asarray(codes).astype(np.int64), coded.dictionary


def _values(dictionary: Any, kind: str) -> list[Any]:
    """Return distinct cells as plain values of Python; dates as whole numbers."""
    cells: list[Any] = dictionary.to_pylist()
    if kind == "text":
        return [cell.decode("utf-8", "surrogateescape") for cell in cells]
    made: dict[str, Callable[[Any], Any]] = {"wide": int, "uuid": uuid.UUID}
    return list(map(made[kind], cells)) if kind in made else cells


def coded_ids(column: Any, kind: str) -> tuple[Ints, Words]:
    """Return the unit of each row, -1 where its id is missing, and a hash of each unit's id."""
    pa = import_module("pyarrow")
    codes, dictionary = _dictionary(column, kind)
    if pa.types.is_integer(dictionary.type):
        return codes, np.asarray(dictionary).astype(np.uint64)
    return codes, words_of(_values(dictionary, kind))


def coded_keys(column: Any, kind: str) -> tuple[Ints, list[Any]]:
    """Return the key of each row, -1 where it is missing, and plain keys; some may be equal."""
    codes, dictionary = _dictionary(column, kind)
    values = _values(dictionary, kind)
    if kind == "date":
        values = [_moment(value, column.type) for value in values]
        missing = np.array([value is None for value in values] + [True])
        codes = np.where(missing[codes], -1, codes)
    return codes, values


def _moment(ticks: int, kind: Any) -> np.datetime64 | None:
    """Return a date or timestamp of Arrow in microseconds, rounded down; None for none."""
    if abs(ticks) == _INFINITE[kind.bit_width]:
        return None
    unit = getattr(kind, "unit", None)
    if unit is None:  # a date: in days, or in milliseconds
        many, one = (_DAY, 1) if kind.bit_width == 32 else _TICKS["ms"]
    else:
        many, one = _TICKS[unit]
    moment = ticks * many // one
    return np.datetime64(moment, "us") if abs(moment) <= _LATEST else None


def numbers_of(column: Any, kind: str) -> NDArray[np.float64]:
    """Return cells as float64, NaN where they are missing."""
    pa = import_module("pyarrow")
    if kind == "boolean":
        column = column.cast(pa.int8())
    column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.fill_null(float("nan")) if column.null_count else column)
