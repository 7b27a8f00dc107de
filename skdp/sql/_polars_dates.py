"""Dates and times of rewritten queries for polars, as days and microseconds since 1970.

Nothing is released here. Calendars are integer arithmetic, the same for any engine: polars' own
functions fail on dates far away. What is taken apart here is within the years 1 to 9999, or NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from skdp.sql._polars_typed import Compile, Value, choice, dtype_of, not_proved, polars

__all__ = ["DATES", "DAY", "shifted"]

DAY = 86_400_000_000
_SPANS = {"WEEK": 7 * DAY, "DAY": DAY, "HOUR": DAY // 24, "MINUTE": DAY // 1440}


def _civil(days: Any) -> tuple[Any, Any, Any]:
    """Return year, month and day of days since 1970, in the Gregorian calendar."""
    z = days + 719_468
    era = z // 146_097
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = choice(mp < 10, mp + 3, mp - 9)
    year = yoe + era * 400 + choice(month <= 2, polars().lit(1), polars().lit(0))
    return year, month, doy - (153 * mp + 2) // 5 + 1


def _days(year: Any, month: Any, day: Any) -> Any:
    """Return days since 1970 of a date."""
    y = year - choice(month <= 2, polars().lit(1), polars().lit(0))
    era = y // 400
    yoe = y - era * 400
    doy = (153 * choice(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468


def _moment(node: exp.Expr, inner: Compile) -> Any:
    one = inner(node)
    if one.kind != "time" or not one.tame:
        not_proved(node)
    return one.expr


def _part(node: exp.Expr, inner: Compile) -> Value:
    moment = _moment(node.this, inner)
    days = moment // DAY
    year, month, day = _civil(days)
    ways: dict[type, Callable[[], Any]] = {
        exp.Year: lambda: year,
        exp.Quarter: lambda: (month + 2) // 3,
        exp.Month: lambda: month,
        exp.Day: lambda: day,
        exp.DayOfWeek: lambda: (days + 4) - ((days + 4) // 7) * 7,
        exp.Hour: lambda: (moment - days * DAY) // _SPANS["HOUR"],
        exp.Minute: lambda: ((moment - days * DAY) // _SPANS["MINUTE"]) % 60,
    }
    made = ways[type(node)]()
    return Value(made, "int")


def _trunc(node: exp.Expr, inner: Compile) -> Value:
    moment = _moment(node.this, inner)
    unit = node.args["unit"].name.upper()
    if unit in ("HOUR", "MINUTE", "DAY"):
        return Value((moment // _SPANS[unit]) * _SPANS[unit], "time", True)
    days = moment // DAY
    year, month, _ = _civil(days)
    one = polars().lit(1, dtype=dtype_of("int"))
    if unit == "WEEK":  # Mondays
        return Value((days - ((days + 3) - ((days + 3) // 7) * 7)) * DAY, "time", True)
    if unit not in ("YEAR", "MONTH"):
        not_proved(node)
    return Value(_days(year, month if unit == "MONTH" else one, one) * DAY, "time", True)


def shifted(node: exp.Binary, inner: Compile) -> Value:
    moment = _moment(node.this, inner)
    interval = node.expression
    count = interval.this.this if isinstance(interval.this, exp.Paren) else interval.this
    negative = isinstance(count, exp.Neg)
    many = int(str((count.this if negative else count).this))
    many *= (-1 if negative else 1) * (1 if isinstance(node, exp.Add) else -1)
    unit = interval.args["unit"].name.upper()
    if unit in _SPANS:
        return Value(moment + many * _SPANS[unit], "time", True)
    if unit not in ("YEAR", "MONTH"):
        not_proved(node)
    days = moment // DAY
    year, month, day = _civil(days)
    months = year * 12 + month - 1 + many * (12 if unit == "YEAR" else 1)
    year, month = months // 12, months - (months // 12) * 12 + 1
    one = polars().lit(1, dtype=dtype_of("int"))
    length = _days((months + 1) // 12, (months + 1) - ((months + 1) // 12) * 12 + 1, one)
    length = length - _days(year, month, one)
    moved = _days(year, month, choice(day > length, length, day))
    return Value(moved * DAY + (moment - days * DAY), "time", True)


DATES: dict[type, Callable[[Any, Compile], Value]] = {
    **dict.fromkeys((exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfWeek), _part),
    **dict.fromkeys((exp.Hour, exp.Minute), _part),
    exp.TimestampTrunc: _trunc,
    exp.DateTrunc: _trunc,
}
