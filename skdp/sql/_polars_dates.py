"""Dates and times of rewritten queries for polars, as days and microseconds since 1970.

Nothing is released here. Calendars are integer arithmetic, the same for any engine: polars' own
functions fail on dates far away. What is taken apart here is within the years 1 to 9999, or NULL.
The arithmetic is numpy's: as an expression of polars each step would be computed again by all that
use it, thousands of times for one date.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from skdp.sql._polars_typed import Compile, Value, dtype_of, not_proved, polars

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
    month = np.where(mp < 10, mp + 3, mp - 9)
    year = yoe + era * 400 + np.where(month <= 2, 1, 0)
    return year, month, doy - (153 * mp + 2) // 5 + 1


def _days(year: Any, month: Any, day: Any) -> Any:
    """Return days since 1970 of a date."""
    y = year - np.where(month <= 2, 1, 0)
    era = y // 400
    yoe = y - era * 400
    doy = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468


def _first(months: Any) -> Any:
    """Return days since 1970 of the first day of a month, counted from year 0."""
    return _days(months // 12, months % 12 + 1, 1)


def _of_numbers(moment: Any, make: Callable[[Any], Any]) -> Any:
    """Return what `make` does with integers, as an expression; NULL stays NULL."""

    def made(cells: Any) -> Any:
        pl = polars()
        found = pl.Series(make(cells.fill_null(0).to_numpy()), dtype=dtype_of("int"))
        return pl.select(pl.when(cells.is_not_null()).then(found)).to_series()

    return moment.map_batches(made, return_dtype=dtype_of("int"), is_elementwise=True)


def _moment(node: exp.Expr, inner: Compile) -> Any:
    one = inner(node)
    if one.kind != "time" or not one.tame:
        not_proved(node)
    return one.expr


def _part(node: exp.Expr, inner: Compile) -> Value:
    ways: dict[type, Callable[[Any], Any]] = {
        exp.Year: lambda moment: _civil(moment // DAY)[0],
        exp.Quarter: lambda moment: (_civil(moment // DAY)[1] + 2) // 3,
        exp.Month: lambda moment: _civil(moment // DAY)[1],
        exp.Day: lambda moment: _civil(moment // DAY)[2],
        exp.DayOfWeek: lambda moment: (moment // DAY + 4) % 7,
        exp.Hour: lambda moment: moment % DAY // _SPANS["HOUR"],
        exp.Minute: lambda moment: moment % DAY // _SPANS["MINUTE"] % 60,
    }
    return Value(_of_numbers(_moment(node.this, inner), ways[type(node)]), "int")


def _trunc(node: exp.Expr, inner: Compile) -> Value:
    moment = _moment(node.this, inner)
    unit = node.args["unit"].name.upper()
    if unit in ("HOUR", "MINUTE", "DAY"):
        return Value((moment // _SPANS[unit]) * _SPANS[unit], "time", True)
    if unit not in ("WEEK", "MONTH", "YEAR"):
        not_proved(node)

    def truncated(moment: Any) -> Any:
        days = moment // DAY
        if unit == "WEEK":  # Mondays
            return (days - (days + 3) % 7) * DAY
        year, month, _ = _civil(days)
        return _days(year, month if unit == "MONTH" else 1, 1) * DAY

    return Value(_of_numbers(moment, truncated), "time", True)


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

    def moved(moment: Any) -> Any:
        days = moment // DAY
        year, month, day = _civil(days)
        months = year * 12 + month - 1 + many * (12 if unit == "YEAR" else 1)
        first, following = _first(months), _first(months + 1)
        return (first + np.minimum(day, following - first) - 1) * DAY + moment % DAY

    return Value(_of_numbers(moment, moved), "time", True)


DATES: dict[type, Callable[[Any, Compile], Value]] = {
    **dict.fromkeys((exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfWeek), _part),
    **dict.fromkeys((exp.Hour, exp.Minute), _part),
    exp.TimestampTrunc: _trunc,
    exp.DateTrunc: _trunc,
}
