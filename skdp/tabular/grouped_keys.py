"""Keys and ids of grouped rows: plain values, each of which hangs on its own cell alone.

Nothing is released here. Keys are text, numbers, booleans or dates (numpy's, of microseconds);
True is another key than 1, and -0.0 is 0.0. Messages name a column and quote no cell.
"""

from __future__ import annotations

import hashlib
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.containers import reading
from skdp.tabular.units import GONE, ODD, id_key
from skdp.user_code import or_raise

__all__ = [
    "check_listed",
    "codes_of_column",
    "column",
    "families_of",
    "family_of_key",
    "key_codes",
    "key_order",
    "length",
    "plain_key",
    "told_apart",
    "words_of",
]

Ints = NDArray[np.int64]

_WORD = 2**64
_YEARS = 290_000  # from 1970, which microseconds in 64 bits can count


def key_order(key: Any) -> Any:
    """Return by what keys are sorted: numbers, then text, then what else there is."""
    if isinstance(key, tuple):
        return tuple(key_order(part) for part in key)
    if isinstance(key, numbers.Real):
        try:
            return (0, "", float(key), repr(key))
        except OverflowError:  # an integer beyond all floats: one row may have it
            far = math.inf if key > 0 else -math.inf  # type: ignore[operator]
            return (0, "", far, f"{key:x}")  # its decimal digits may be too many; no two are equal
    return (1, type(key).__name__, 0.0, str(key))


def with_zone(column: str) -> str:
    """Return why a column of dates is refused."""
    return f"column {column!r} has dates with a time zone; make them text first"


def _is_date(value: Any) -> bool:
    zone = getattr(value, "tzinfo", None)
    return hasattr(value, "isoformat") and hasattr(value, "year") and zone is None


def plain_key(value: Any, column: str) -> Any:
    """Return a key as a plain value of Python, dates as those of numpy."""
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if isinstance(value, float):
        value = value + 0.0  # one zero
    if isinstance(value, np.datetime64):
        if abs(int(value.astype("datetime64[Y]").astype(np.int64))) <= _YEARS:
            return value.astype("datetime64[us]")
    elif type(value) in (str, int, float, bool):
        return value
    elif _is_date(value):
        if hasattr(value, "to_datetime64"):  # of pandas, which has years that Python has not
            return plain_key(value.to_datetime64(), column)
        return np.datetime64(value, "us")
    # One text for all cells: it must not show which of several stands first.
    raise TypeError(
        f"keys of column {column!r} must be text, numbers, booleans, or dates without a time zone "
        "within 290,000 years of 1970; make other keys text first"
    )


def _arrow(column: Any) -> Any:
    """Return a polars or pyarrow column as one pyarrow array."""
    column = column.to_arrow() if hasattr(column, "to_arrow") else column
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _factorized(column: Any) -> tuple[Ints, list[Any]]:
    """Return the codes of a column's cells, -1 for what is missing, and its distinct values."""
    if hasattr(column, "factorize"):  # pandas
        try:
            codes, values = column.factorize()
        except OverflowError:  # pandas 2, of an integer beyond all floats: one row may have it
            return _coded(column.tolist())
        return np.asarray(codes, dtype=np.int64), list(values)
    if isinstance(column, np.ndarray):  # `tolist` would count ticks of dates
        return _coded(list(column) if column.dtype.kind in "mM" else column.tolist())
    arrow = _arrow(column)
    if type(getattr(arrow, "type", None)).__name__ != "DictionaryType":
        arrow = arrow.dictionary_encode()
    found = arrow.indices.to_numpy(zero_copy_only=False)
    codes = np.where(np.isnan(found), -1, found) if found.dtype.kind == "f" else found
    return np.asarray(codes, dtype=np.int64), arrow.dictionary.to_pylist()


def told_apart(key: Any) -> Any:
    """Return what a key is compared by: True is another key than 1."""
    if isinstance(key, tuple):
        return tuple(map(told_apart, key))
    return isinstance(key, bool | np.bool_), key


def merged(codes: Ints, values: list[Any]) -> tuple[Ints, list[Any]]:
    """Return codes of values once each: a dictionary may hold one twice, as may rounded dates."""
    places: dict[Any, int] = {}
    to = [places.setdefault(told_apart(value), len(places)) for value in values]
    if len(places) == len(values):
        return codes, values
    return np.array(to, dtype=np.int64)[codes], [value for _, value in places]


def key_codes(table: Any, name: str) -> tuple[Ints, list[Any]]:
    """Return codes of a key column and plain keys, none of which hangs on what rows come first."""
    cells = column(table, name)
    dtype = getattr(cells, "dtype", getattr(cells, "type", None))
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    if getattr(dtype, "tz", None) is not None or getattr(dtype, "time_zone", None) is not None:
        raise ValueError(with_zone(name))  # by the type, which is public
    codes, values = codes_of_column(table, name, "key")
    if str(getattr(cells, "dtype", "")) == "object" and any(
        isinstance(value, numbers.Real | np.bool_) for value in values
    ):  # numbers of several types that are equal: True is apart, 1.0 is shown as 1
        codes, pairs = _coded([told_apart(cell) for cell in cells])
        plain = [plain_key(value, name) for _, value in pairs]
        values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in plain]
    return merged(codes, [plain_key(value, name) for value in values])


def family_of_key(part: Any) -> str:
    """Return what a part of a plain key is: "text", "number", "boolean", "date" or "bytes"."""
    if isinstance(part, bool | np.bool_):
        return "boolean"
    if isinstance(part, numbers.Real):
        return "number"
    return {str: "text", bytes: "bytes", np.datetime64: "date"}.get(type(part), "other")


def families_of(table: Any, name: str, values: Sequence[Any]) -> tuple[frozenset[str], bool]:
    """Return of what families the plain keys of a column are, and whether its type says so."""
    cells = column(table, name)
    kind = str(getattr(cells, "dtype", getattr(cells, "type", "object"))).lower()
    return frozenset(map(family_of_key, values)), kind not in ("object", "null")


def check_listed(name: str, listed: frozenset[str], found: frozenset[str], typed: bool) -> None:
    """Raise for stated keys of another family than their column: all of them would be absent.

    A column of objects has to hold no cells but of the families that are stated.
    """
    if found and typed and not listed <= found:
        raise TypeError(f"keys of column {name!r} must be of its type")
    if not typed and not found <= listed:
        raise TypeError(
            f"key column {name!r} holds objects, and some are of another type than the stated "
            "keys; make it a column of their type"
        )


def text_of(value: Any) -> str:
    """Return the text of a key, or of several, whatever cells they are made of."""
    try:
        return repr(value)
    except ValueError:  # an integer of too many digits among the parts: one row may have it
        if isinstance(value, int):
            return f"{value:x}"
        return f"({', '.join(map(text_of, value))})"


def words_of(values: Sequence[Any]) -> NDArray[np.uint64]:
    """Return a hash of each value, in which no other value has a part."""
    return np.array(
        [
            int(value) % _WORD
            if isinstance(value, int | np.integer)
            else int.from_bytes(
                hashlib.blake2b(text_of(value).encode(), digest_size=8).digest(), "little"
            )
            for value in values
        ],
        dtype=np.uint64,
    )


def _coded(cells: list[Any]) -> tuple[Ints, list[Any]]:
    places: dict[Any, int] = {}
    codes = np.empty(len(cells), dtype=np.int64)
    for i, cell in enumerate(cells):
        missing = cell is None or cell != cell
        codes[i] = -1 if missing else places.setdefault(cell, len(places))
    return codes, list(places)


IDS = (
    "unit column {name!r} must hold ids that are numbers, texts, bytes, dates or UUIDs, one in "
    "each cell; make a text of other ids first"
)
_PLAIN = (str, int, float, np.integer, np.floating)  # of which Python's own == is that of ids
_KEYS = "key column {name!r} must hold values that can be hashed and compared, of one kind"


def _units_merged(codes: Ints, values: list[Any]) -> tuple[Ints, list[Any]]:
    """Return codes of ids once each: as `skdp.tabular.units` compares them.

    An id that equals no other, itself in another row say, would make a unit of every row.
    """
    one_type = len(set(map(type, values))) == 1 and isinstance(values[0], _PLAIN)
    if one_type and len(set(values)) == len(values):
        return codes, values
    places: dict[Any, int] = {}
    to: list[int] = []
    first: list[Any] = []
    for value in values:
        key = id_key(value)
        if key is ODD:
            raise TypeError
        place = places.setdefault(None if key is GONE else key, len(places))
        to.append(place)
        if place == len(first):
            first.append(None if key is GONE else value)
    same = len(places) == len(values)
    return (codes, first) if same else (np.array(to, dtype=np.int64)[codes], first)


def codes_of_column(table: Any, name: str, what: str) -> tuple[Ints, list[Any]]:
    """Return codes and values of an id or key column, without missing cells, or raise."""

    def read() -> tuple[Ints, list[Any], list[int]]:
        with reading():
            codes, values = _factorized(column(table, name))
            if (codes >= 0).all() and what == "unit":
                codes, values = _units_merged(codes, values)
            strange = [i for i, value in enumerate(values) if value is None or value != value]
        return codes, values, strange

    text = (IDS if what == "unit" else _KEYS).format(name=name)
    codes, values, strange = or_raise(read, lambda: TypeError(text))
    if (codes < 0).any() or np.isin(codes, strange).any():
        raise ValueError(
            f"{what} column {name!r} has missing values; drop these rows, or put in a value that "
            "says so"
        )
    return codes, values


def column(table: Any, name: str) -> Any:
    """Return a column; of lists and masked arrays an array of objects."""
    cells = table[name]
    if not isinstance(table, dict):
        return cells
    if isinstance(cells, list | tuple):  # no cell decides of which type the others are
        return np.fromiter(cells, dtype=object, count=len(cells))
    if isinstance(cells, np.ma.MaskedArray):
        found = np.array(cells.data, dtype=object)
        found[np.ma.getmaskarray(cells)] = None
        return found
    if hasattr(cells, "factorize") or hasattr(cells, "to_pylist") or hasattr(cells, "to_arrow"):
        return cells  # a column of pandas, pyarrow or polars
    text = f"column {name!r} cannot be read as an array"
    return or_raise(lambda: np.asarray(cells), lambda: TypeError(text))


def length(table: Any) -> int:
    """Return the number of rows."""
    return int(table.shape[0]) if hasattr(table, "shape") else len(next(iter(table.values())))
