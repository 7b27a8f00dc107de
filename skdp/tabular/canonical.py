"""One cell of a table: what it is looked up by, and how it is read from its container.

Nothing is released here. What a cell is read as depends on that cell only: one that cannot be read
(a conversion that raises, a date that Python cannot hold) is equal to no category and is no number,
and the others of its column are read as if it were not there.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.containers import cut
from skdp.tabular.values import is_missing, numbers
from skdp.user_code import no_restart, run_isolated

__all__ = [
    "as_list",
    "as_numbers",
    "plain",
]

_NANOSECONDS = {
    "W": 604_800 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9,
    "ms": 10**6, "us": 10**3, "ns": 1,
}  # fmt: skip
_EPOCH = datetime.datetime(1970, 1, 1)
_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
INSTANT = "instant"  # a date and time of a known zone, in nanoseconds of UTC
_UNREADABLE = object()  # equal to no category, and no number


def plain(value: Any) -> Any:
    """Return what a value is looked up by: the same for equal numbers, dates and missing values.

    Numpy's scalars are like Python's, every kind of missing value is None, and dates and durations
    are whole numbers of nanoseconds, however they are held.
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _ticks(value)
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value) or (isinstance(value, float | np.floating) and bool(np.isnan(value))):
        return None
    more = int(getattr(value, "nanosecond", getattr(value, "nanoseconds", 0)) or 0)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            return INSTANT, _nanoseconds(value - _UTC_EPOCH) + more
        return "moment", _nanoseconds(value - _EPOCH) + more
    if isinstance(value, datetime.date):
        return "moment", (value - _EPOCH.date()).days * _NANOSECONDS["D"]
    if isinstance(value, datetime.timedelta):
        return "span", _nanoseconds(value) + more
    return value


def _nanoseconds(span: datetime.timedelta) -> int:
    return (span.days * 86_400 + span.seconds) * 10**9 + span.microseconds * 1000


def _ticks(value: Any) -> Any:
    """Return a numpy date or duration as whole nanoseconds, of any size; None for NaT."""
    if np.isnat(value):
        return None
    kind = "moment" if value.dtype.kind == "M" else "span"
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and kind == "moment":
        day = value.astype("M8[D]")
        if day.astype(value.dtype) != value:
            raise ValueError("a date beyond what days can count")
        value, unit, step = day, "D", 1
    if unit not in _NANOSECONDS:
        return value.item()
    return kind, int(value.astype(np.int64)) * step * _NANOSECONDS[unit]


def as_numbers(cells: Any) -> NDArray[np.float64]:
    """Return cells as float64, NaN for one that is missing or no number; each decided by itself."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    return numbers(as_list(cells))[0]


def as_list(cells: Any) -> list[Any]:
    """Return the cells of a column as a list of Python objects; each is read by itself if need be.

    One cell that its container cannot read must not decide about the others.
    """
    found: list[Any] | None = run_isolated(lambda: _read(cells), None, no_restart)
    if found is not None:
        return found
    if len(cells) == 1:
        return [_UNREADABLE]
    return [cell for i in range(len(cells)) for cell in as_list(cut(cells, i, i + 1))]


def _read(cells: Any) -> list[Any]:
    if hasattr(cells, "to_pylist"):  # pyarrow
        return list(cells.to_pylist())
    if hasattr(cells, "to_list"):  # pandas, polars
        return list(cells.to_list())
    if cells.dtype.kind in "mM":
        return list(cells)  # numpy's scalars: `tolist` would count ticks
    return list(cells.tolist())
