"""One cell of a table: a number to add up, or a value to compare.

Both rules look at one cell alone and never run code of its own class, so no cell changes the value
of another. (numpy and pandas would choose a common type for all cells: one cell of text turns the
numbers of its column into text.)

**As a number** (`number`): a bool, an int, a float or a real scalar of numpy (subclasses are read
as their base), a `Decimal`, a `Fraction`, or an array of no dimensions. A missing cell (None, NaN,
numpy's masked constant, pandas' NA and NaT) is NaN. Everything else is no number, text like "1" and
complex numbers too.

**As a value** (`read_cell`), for categories, classes, keys and ids:

- text (``str``);
- a boolean;
- a number, by its value: ``1.0`` and ``Decimal(1)`` are read as ``1``, ``-0.0`` as ``0``, and
  ``Decimal("0.1")`` as ``0.1`` (beyond 600 digits it is missing);
- a date (years 1 to 9999 are ``datetime.date``, others numpy's);
- a timestamp (numpy's, in microseconds, or in nanoseconds where it has any; one with a time zone is
  read as its instant in UTC);
- a time of day, a duration, bytes, a UUID, or an interval of pandas;
- missing (None), if it is none of these.

Keys compare these values as they are (`identity`). For ids (`id_of`), classes and categories
(`compared`), ``True`` is 1 and a date is its midnight.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import hashlib
import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core.query import reviewed
from skdp.user_code import no_restart, reading, run_isolated

Floats = NDArray[np.float64]

# --- as numbers ---------------------------------------------------------------------------------

_NUMPY_NUMBERS = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.longlong, np.uint8, np.uint16, np.uint32,
    np.uint64, np.ulonglong, np.float16, np.float32, np.float64, np.longdouble,
)  # fmt: skip
# numpy converts cells of these types to float64 one by one, without code of their own.
PLAIN_NUMBERS = frozenset({bool, int, float, *_NUMPY_NUMBERS})


def nearest(value: int | fractions.Fraction) -> float:
    """Return an integer or fraction of any size as a float: infinity beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _array(cell: NDArray) -> float | None:
    """Return an array of no dimensions of real numbers as a float."""
    if issubclass(type(cell), np.ma.MaskedArray):
        return None
    plain = np.asarray(cell)  # of a subclass, whose own code does not run then
    if plain.ndim or plain.dtype.kind not in "biuf":
        return None
    return float(plain.astype(np.float64))


_MASKED: type = type(np.ma.masked)
_NUMBERS: dict[type, Callable[[Any], float | None]] = {
    **{kind: kind.__float__ for kind in _NUMPY_NUMBERS},
    float: float.__float__,
    int: lambda cell: nearest(int.__int__(cell)),
    decimal.Decimal: lambda cell: (
        math.nan if decimal.Decimal.is_nan(cell) else decimal.Decimal.__float__(cell)
    ),
    # NaT is missing; a date or a duration is no number.
    np.datetime64: lambda cell: math.nan if np.isnat(cell) else None,
    np.timedelta64: lambda cell: math.nan if np.isnat(cell) else None,
    np.ndarray: _array,
}


def is_missing(cell: Any) -> bool:
    """Say whether a cell stands for no value: None, numpy's masked constant, pandas' NA or NaT."""
    kind = type(cell)
    return cell is None or kind is _MASKED or kind.__name__ in ("NAType", "NaTType")


def number(cell: Any) -> float | None:
    """Return a cell as a float, NaN if it is missing, None if it is no number."""
    if type(cell) is float:
        return float(cell)
    if is_missing(cell):
        return math.nan
    if type(cell) is fractions.Fraction:
        return nearest(cell)
    # By what it inherits, and not by its own methods, which it may have overridden.
    for base in type(cell).__mro__:
        if (read := _NUMBERS.get(base)) is not None:
            return read(cell)
    return None


def numbers(cells: Iterable[Any]) -> tuple[Floats, bool]:
    """Return cells as float64, each by itself, and whether any of them is no number.

    A cell that is missing or no number is NaN.
    """
    items = cells if isinstance(cells, list) else list(cells)
    with reading():  # a long double beyond the range is infinite
        if run_isolated(lambda: set(map(type, items)) <= PLAIN_NUMBERS, False, no_restart):
            # numpy converts plain numbers one by one; it raises for an integer without a float.
            fast = run_isolated(lambda: np.array(items, dtype=np.float64), None, no_restart)
            if fast is not None:
                return fast, False
        read = [run_isolated(functools.partial(number, cell), None, no_restart) for cell in items]
    values = np.array([math.nan if v is None else v for v in read], dtype=np.float64)
    return values, None in read


# --- as values ----------------------------------------------------------------------------------

_WORD = 2**64
_MICROSECONDS = 365 * 290_000 * 86_400 * 10**6  # that 64 bits can count, before and after 1970
_EPOCH = datetime.date(1970, 1, 1)
NANOSECONDS = {
    "W": 604_800 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9,
    "ms": 10**6, "us": 1000, "ns": 1,
}  # fmt: skip
_DAYS = (datetime.date.min - _EPOCH).days, (datetime.date.max - _EPOCH).days
# A number of more digits is missing: users may forbid Python to show one of 640 digits or more.
_DIGITS, _BITS = 600, 2_000
_CONTEXT = decimal.Context(prec=2 * _DIGITS)  # so that trailing zeros go, and nothing else
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


def read_cell(cell: Any) -> Any:
    """Return the value of a cell by the module's rule, None if it is missing."""
    if type(cell) is str:
        return cell
    return run_isolated(functools.partial(_read, cell), None, no_restart)


def stands_for_nothing(cell: Any) -> bool:
    """Say whether a cell is missing (NaN and NaT too), and not just of an unknown type."""
    near = run_isolated(functools.partial(number, cell), None, no_restart)
    return near is not None and near != near


def id_of(value: Any) -> Any:
    """Return the comparable form of an id that `read_cell` has read."""
    kind = type(value)
    if kind is bool:
        return int(value)
    if kind is float or kind is decimal.Decimal:
        return exact_number(value)
    return timestamp(ticks(value)) if kind in (datetime.date, np.datetime64) else value


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
        ends = read_cell(cell.left), read_cell(cell.right)
        kinds = {family(end) for end in ends}
        if kinds in ({"number"}, {"timestamp"}, {"duration"}) and cell.closed in _CLOSED:
            return Interval(*ends, str(cell.closed))
    return None


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
        return near if same else _CONTEXT.normalize(value)
    if type(value) is fractions.Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
            return None
        if value.denominator == 1:
            return value.numerator
        near = nearest(value)
        return near if near == value else value
    return value if value.bit_length() <= _BITS else None


def _of_numpy_date(cell: Any) -> Any:
    if np.datetime_data(cell.dtype)[0] in ("Y", "M", "W", "D"):
        days = cell.astype("datetime64[D]")
        if np.isnat(cell) or days.astype(cell.dtype) != cell:
            return None
        return date_of_days(int(days.astype(np.int64)))
    return timestamp(ticks(cell))


_READERS: dict[type, Any] = {
    str: str.__str__,
    bool: bool,
    np.bool_: bool,
    int: lambda cell: exact_number(int.__int__(cell)),
    np.integer: int,
    float: lambda cell: exact_number(float.__float__(cell)),
    # A longer float than Python's may lie between two of them: it would be taken for another.
    np.floating: lambda cell: exact_number(float(cell)) if float(cell) == cell else None,
    decimal.Decimal: lambda cell: exact_number(decimal.Decimal(cell)),
    fractions.Fraction: lambda cell: (
        exact_number(cell) if type(cell) is fractions.Fraction else None
    ),
    datetime.datetime: lambda cell: timestamp(ticks(cell)),
    datetime.date: lambda cell: datetime.date(cell.year, cell.month, cell.day),
    datetime.time: lambda cell: (
        None
        if cell.tzinfo is not None
        else datetime.time(cell.hour, cell.minute, cell.second, cell.microsecond)
    ),
    datetime.timedelta: lambda cell: duration(ticks(cell)),
    np.datetime64: _of_numpy_date,
    np.timedelta64: lambda cell: duration(ticks(cell)),
    bytes: lambda cell: bytes(memoryview(cell)),
    uuid.UUID: lambda cell: cell if type(cell) is uuid.UUID else None,
}


# --- values of dates and times ------------------------------------------------------------------


def ticks(value: Any) -> int | None:
    """Return the nanoseconds of a duration, or since 1970 (in UTC, if there is a zone).

    None for NaT, and for numpy's units that are no number of nanoseconds.
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        unit, step = np.datetime_data(value.dtype)
        if np.isnat(value) or unit not in NANOSECONDS:
            return None
        return int(value.astype(np.int64)) * step * NANOSECONDS[unit]
    if not isinstance(value, datetime.datetime | datetime.timedelta):
        return (value - _EPOCH).days * NANOSECONDS["D"]
    more = int(getattr(value, "nanosecond", getattr(value, "nanoseconds", 0)) or 0)  # of pandas
    if isinstance(value, datetime.datetime):
        value = value - datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo and datetime.UTC)
    return (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1000 + more


def timestamp(nanoseconds: int | None) -> np.datetime64 | None:
    """Return the timestamp of nanoseconds since 1970; None beyond 290,000 years."""
    return _of_ticks(np.datetime64, nanoseconds)


def duration(nanoseconds: int | None) -> np.timedelta64 | None:
    """Return the duration of nanoseconds; None beyond 290,000 years."""
    return _of_ticks(np.timedelta64, nanoseconds)


def _of_ticks(kind: Any, nanoseconds: int | None) -> Any:
    """Return a time in microseconds, or in nanoseconds if microseconds cannot hold it."""
    if nanoseconds is None:
        return None
    microseconds, rest = divmod(nanoseconds, 1000)
    if rest:
        return kind(nanoseconds, "ns") if abs(nanoseconds) < 2**63 else None
    return kind(microseconds, "us") if abs(microseconds) <= _MICROSECONDS else None


def date_of_days(days: int) -> datetime.date | np.datetime64:
    """Return the date of days since 1970."""
    if _DAYS[0] <= days <= _DAYS[1]:
        return _EPOCH + datetime.timedelta(days)
    return np.datetime64(days, "D")


# --- comparing, sorting, hashing ----------------------------------------------------------------

MISSING: tuple[str, Any] = ("missing", None)
_LARGEST = 2**63  # whole numbers of categories are smaller, unless a float holds them


def cell_key(cell: Any) -> tuple[str, Any] | None:
    """Return the family and value of a cell that is text, a number, a boolean or missing.

    None for all others: infinite, dates, bytes and so on.
    """
    if type(cell) is str:
        return "text", cell
    value = read_cell(cell)
    if value is None:
        return MISSING if stands_for_nothing(cell) else None
    kind = type(value)
    if kind is int and abs(value) >= _LARGEST:
        value = nearest(value)
        return ("number", value) if value == read_cell(cell) else None
    if kind in (int, str, bool) or (kind is float and math.isfinite(value)):
        return family(value), value
    return None


def family(value: Any) -> str:
    """Return what a value is: "text", "number", "boolean", "date", "timestamp" and so on."""
    if type(value) is np.datetime64:
        return "date" if np.datetime_data(value.dtype)[0] == "D" else "timestamp"
    return _FAMILIES.get(type(value), "interval")


def compared(value: Any) -> Any:
    """Return the comparable form of a class or category: True is 1, a date is its midnight."""
    kind = family(value)
    if kind in ("date", "timestamp"):
        return "moment", ticks(value)
    return ("span", ticks(value)) if kind == "duration" else value


def identity(value: Any) -> Any:
    """Return the comparable form of a key, or of a tuple of keys: True is another key than 1."""
    if type(value) is tuple:
        return tuple(map(identity, value))
    if type(value) is Interval:
        return "interval", identity(value.left), identity(value.right), value.closed
    return value if type(value) is str else (family(value), value)


def key_order(key: Any) -> Any:
    """Return the sort order of a key: numbers, then others by type and value, then missing."""
    if isinstance(key, tuple):
        return tuple(key_order(part) for part in key)
    if key is None:
        return (2, "", 0, "")
    kind = type(key)
    if isinstance(key, bool | int | float | decimal.Decimal | fractions.Fraction):
        return (0, "", key, kind.__name__)
    own = family(key)
    if own in ("date", "timestamp", "duration"):
        return (1, own, ticks(key), "")
    if own == "interval":
        return (1, own, (key_order(key.left), key_order(key.right)), key.closed)
    return (1, own, key, "")


def words_of(values: Sequence[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each value, by itself."""
    return np.array(list(map(_word, values)), dtype=np.uint64)


def _word(value: Any) -> int:
    if isinstance(value, int) or type(value) is np.int64:
        return int(value) % _WORD
    text = repr(exact_number(value) if type(value) is decimal.Decimal else value)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
