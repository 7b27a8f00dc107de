"""One cell of a key or id column: how it is read, compared, ordered and hashed.

`read_cell` is one rule for every cell of any type. It looks at that cell alone and never raises, so
that no cell decides what another one is read as. A cell is read as

- text (``str``);
- a boolean;
- a number, by its value: ``1.0`` and ``Decimal(1)`` are read as ``1``, ``-0.0`` as ``0``, and
  ``Decimal("0.1")`` as ``0.1`` (beyond 600 digits it is missing);
- a date (years 1 to 9999 are ``datetime.date``, others numpy's);
- a timestamp (numpy's, in microseconds, or in nanoseconds where it has any; one with a time zone is
  read as its instant in UTC);
- a time of day, a duration, bytes, a UUID, or an interval of pandas;
- missing (None), if it is none of these.

`id_of` is the rule for ids: dates are timestamps at midnight, ``True`` is 1.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import hashlib
import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core.query import reviewed
from skdp.tabular.canonical import plain
from skdp.tabular.values import is_missing
from skdp.user_code import no_restart, run_isolated

__all__ = [
    "Interval",
    "date_of_days",
    "duration",
    "exact_number",
    "family",
    "id_of",
    "identity",
    "key_order",
    "read_cell",
    "read_cells",
    "timestamp",
    "words_of",
]

_WORD = 2**64
_MICROSECONDS = 365 * 290_000 * 86_400 * 10**6  # that 64 bits can count, before and after 1970
_EPOCH = datetime.date(1970, 1, 1)
_DAYS = (datetime.date.min - _EPOCH).days, (datetime.date.max - _EPOCH).days
# Of a number. One of more is missing: Python shows none if its user says so, of 640 digits or more.
_DIGITS, _BITS = 600, 2_000
_EXACT = decimal.Context(prec=2 * _DIGITS)  # so that trailing zeros go, and nothing else
_FAMILIES: dict[type, str] = {
    type(None): "missing", bool: "boolean", str: "text", bytes: "bytes", uuid.UUID: "uuid",
    datetime.date: "date", datetime.time: "time", np.timedelta64: "duration",
    **dict.fromkeys((int, float, decimal.Decimal, fractions.Fraction), "number"),
}  # fmt: skip


@reviewed
@dataclass(frozen=True)
class Interval:
    """An interval of pandas, as `pandas.cut` makes them."""

    left: Any
    right: Any
    closed: str


_VALUES = {*_FAMILIES, np.datetime64}  # what a cell may be read as
_CLOSED = ("left", "right", "both", "neither")


# --- reading --------------------------------------------------------------------------------------


def read_cell(cell: Any) -> Any:
    """Return the value of a cell, None if it is missing; see the module's rule."""
    if type(cell) is str:
        return cell
    return run_isolated(functools.partial(_read, cell), None, no_restart)


def read_cells(cells: Iterable[Any]) -> list[Any]:
    """Return the value of every cell, each read by itself."""
    return [cell if type(cell) is str else read_cell(cell) for cell in cells]


def id_of(value: Any) -> Any:
    """Return what an id, as `read_cell` has read it, is compared by."""
    kind = type(value)
    if kind is bool:
        return int(value)
    if kind is float or kind is decimal.Decimal:
        return exact_number(value)
    if kind is datetime.date:
        return np.datetime64(value, "us")
    if kind is np.datetime64:
        return _moment(plain(value))
    return value


def _read(cell: Any) -> Any:
    """Read a cell by what its type inherits from; its own methods do not run."""
    if is_missing(cell):
        return None
    for base in type(cell).__mro__:
        if base in _READERS:
            value = _READERS[base](cell)
            return value if type(value) in _VALUES else None
    kind = type(cell)
    if kind.__name__ == "Interval" and kind.__module__.partition(".")[0] == "pandas":
        return _of_interval(cell)
    return None


def _of_interval(cell: Any) -> Interval | None:
    ends = read_cell(cell.left), read_cell(cell.right)
    kinds = {family(end) for end in ends}
    fit = kinds in ({"number"}, {"timestamp"}, {"duration"}) and cell.closed in _CLOSED
    return Interval(*ends, str(cell.closed)) if fit else None


def exact_number(value: Any) -> Any:
    """Return a number as an integer, else as a float, else as it is; None for NaN.

    Equal numbers of all types become the same value.
    """
    if type(value) is float:
        if math.isfinite(value):
            return int(value) if value.is_integer() else value
        return None if math.isnan(value) else value
    if type(value) is decimal.Decimal:
        if not value.is_finite():
            return None if value.is_nan() else float(value)
        if (value and abs(value.adjusted()) > _DIGITS) or len(value.as_tuple().digits) > _DIGITS:
            return None
        if value == value.to_integral_value():
            return int(value)
        near = float(value)
        # 0.1, and what a float of it is in full, are both the float 0.1.
        same = near == value or decimal.Decimal(repr(near)) == value
        return near if same else _EXACT.normalize(value)
    if type(value) is fractions.Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
            return None
        return value.numerator if value.denominator == 1 else _near(value)
    return value if value.bit_length() <= _BITS else None


def _near(value: fractions.Fraction) -> Any:
    try:
        near = float(value)
    except OverflowError:
        return value
    return near if near == value else value


def _of_float(cell: Any) -> Any:
    near = float(cell)
    # A longer float than Python's may lie between two of them: it would be taken for another.
    return exact_number(near) if near == cell else None


def _of_decimal(cell: Any) -> Any:
    return exact_number(decimal.Decimal(cell))


def _of_numpy_date(cell: Any) -> Any:
    if np.datetime_data(cell.dtype)[0] in ("Y", "M", "W", "D"):
        days = cell.astype("datetime64[D]")
        if np.isnat(cell) or days.astype(cell.dtype) != cell:
            return None
        return date_of_days(int(days.astype(np.int64)))
    return _moment(plain(cell))


def _of_date(cell: Any) -> Any:
    return datetime.date(cell.year, cell.month, cell.day)


def _of_time(cell: Any) -> Any:
    return None if cell.tzinfo is not None else datetime.time(
        cell.hour, cell.minute, cell.second, cell.microsecond
    )  # fmt: skip


def _of_duration(cell: Any) -> Any:
    found = plain(cell)
    return duration(found[1]) if isinstance(found, tuple) else None


def _moment(found: Any) -> Any:
    """Return a timestamp as `plain` has it: a name, and nanoseconds since 1970."""
    return timestamp(found[1]) if isinstance(found, tuple) else None


_READERS: dict[type, Any] = {
    str: str.__str__,
    bool: bool,
    np.bool_: bool,
    int: lambda cell: exact_number(int.__int__(cell)),
    np.integer: int,
    float: lambda cell: exact_number(float.__float__(cell)),
    np.floating: _of_float,
    decimal.Decimal: _of_decimal,
    fractions.Fraction: lambda cell: (
        exact_number(cell) if type(cell) is fractions.Fraction else None
    ),
    datetime.datetime: lambda cell: _moment(plain(cell)),
    datetime.date: _of_date,
    datetime.time: _of_time,
    datetime.timedelta: _of_duration,
    np.datetime64: _of_numpy_date,
    np.timedelta64: _of_duration,
    bytes: lambda cell: bytes(memoryview(cell)),
    uuid.UUID: lambda cell: cell if type(cell) is uuid.UUID else None,
}


# --- values of dates and times --------------------------------------------------------------------


def timestamp(nanoseconds: int) -> np.datetime64 | None:
    """Return the timestamp so many nanoseconds after 1970; None beyond 290,000 years."""
    whole, rest = divmod(nanoseconds, 1000)
    if rest:
        return np.datetime64(nanoseconds, "ns") if abs(nanoseconds) < 2**63 else None
    return np.datetime64(whole, "us") if abs(whole) <= _MICROSECONDS else None


def duration(nanoseconds: int) -> np.timedelta64 | None:
    """Return a duration of so many nanoseconds."""
    whole, rest = divmod(nanoseconds, 1000)
    if rest:
        return np.timedelta64(nanoseconds, "ns") if abs(nanoseconds) < 2**63 else None
    return np.timedelta64(whole, "us") if abs(whole) <= _MICROSECONDS else None


def date_of_days(days: int) -> datetime.date | np.datetime64:
    """Return the date so many days after 1970."""
    if _DAYS[0] <= days <= _DAYS[1]:
        return _EPOCH + datetime.timedelta(days)
    return np.datetime64(days, "D")


# --- comparing, sorting, hashing ------------------------------------------------------------------


def family(value: Any) -> str:
    """Return what a value is: "text", "number", "boolean", "date", "timestamp" and so on."""
    if type(value) is np.datetime64:
        return "date" if np.datetime_data(value.dtype)[0] == "D" else "timestamp"
    return _FAMILIES.get(type(value), "interval")


def identity(value: Any) -> Any:
    """Return what a value, or a tuple of them, is compared by: True is another key than 1."""
    if type(value) is tuple:
        return tuple(map(identity, value))
    if type(value) is Interval:
        return "interval", identity(value.left), identity(value.right), value.closed
    return value if type(value) is str else (family(value), value)


def key_order(key: Any) -> Any:
    """Return by what keys are sorted: numbers, then others by type and value, then missing."""
    if isinstance(key, tuple):
        return tuple(key_order(part) for part in key)
    if key is None:
        return (2, "", 0, "")
    kind = type(key)
    if isinstance(key, bool | int | float | decimal.Decimal | fractions.Fraction):
        return (0, "", key, kind.__name__)
    found = family(key)
    if found in ("date", "timestamp", "duration"):
        return (1, found, plain(key)[1], "")
    if found == "interval":
        return (1, found, (key_order(key.left), key_order(key.right)), key.closed)
    return (1, found, key, "")


def words_of(values: Sequence[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each value, in which no other value has a part."""
    return np.array(list(map(_word, values)), dtype=np.uint64)


def _word(value: Any) -> int:
    if isinstance(value, int) or type(value) is np.int64:
        return int(value) % _WORD
    text = repr(exact_number(value) if type(value) is decimal.Decimal else value)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
