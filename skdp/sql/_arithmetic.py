"""Numbers and dates in row-local expressions: total SQL of DuckDB, as `skdp.sql._typed` has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from skdp.sql._refusals import only, refuse, said
from skdp.sql._typed import (
    TO_DATES,
    TO_NUMBERS,
    WORDS,
    Expr,
    Scope,
    as_double,
    box,
    compiled,
    date_literal,
    small_integer,
    tamed,
    text_of,
)

__all__ = ["ARITHMETIC"]

# --- leaves -------------------------------------------------------------------------------------


def _column(node: exp.Column, scope: Scope) -> Expr:
    return scope.column(node)


def _number_literal(value: Decimal) -> Expr:
    whole = value == value.to_integral_value() and abs(value) < 2**63
    number = float(value)
    if not math.isfinite(number):
        raise InvalidOperation
    sql = f"CAST({int(value)} AS BIGINT)" if whole else f"CAST('{number!r}' AS DOUBLE)"
    return Expr(sql, "int" if whole else "num", (number, number), value)


def _literal(node: exp.Literal, scope: Scope) -> Expr:
    text = str(node.this)
    if node.is_string:
        if "\0" in text:
            refuse(node, "a text with the character of code 0 is not supported", "leave it out")
        return Expr(text_of(text), "text", None, text)
    try:
        return _number_literal(Decimal(text))
    except (InvalidOperation, ValueError):
        refuse(node, f"{said(node)} is not a finite number", "write a number below 1e308")


def _boolean(node: exp.Boolean, scope: Scope) -> Expr:
    return Expr("TRUE" if node.this else "FALSE", "bool", (0.0, 1.0), bool(node.this))


def _null(node: exp.Null, scope: Scope) -> Expr:
    return Expr("NULL", "null")


def _paren(node: exp.Paren, scope: Scope) -> Expr:
    only(node, "this")
    found = compiled(node.this, scope)
    return replace(found, sql=f"({found.sql})")


# --- numbers ------------------------------------------------------------------------------------


def _numbers(node: exp.Expr, scope: Scope, *parts: exp.Expr) -> list[Expr]:
    out = []
    for part in parts:
        one = compiled(part, scope)
        if one.family not in ("int", "num", "null"):
            refuse(
                part,
                f"{said(node)} needs numbers, but {said(part)} holds {WORDS[one.family]}",
                TO_NUMBERS,
            )
        out.append(one)
    return out


def _sum_bounds(a: Expr, b: Expr, sign: int) -> tuple[float, float] | None:
    if a.bounds is None or b.bounds is None:
        return None
    low, high = b.bounds if sign > 0 else (-b.bounds[1], -b.bounds[0])
    return box(a.bounds[0] + low, a.bounds[1] + high)


def _product_bounds(a: Expr, b: Expr) -> tuple[float, float] | None:
    if a.bounds is None or b.bounds is None:
        return None
    ends = [x * y for x in a.bounds for y in b.bounds]
    return box(min(ends), max(ends))


def _arithmetic(node: exp.Binary, scope: Scope) -> Expr:
    only(node, "this", "expression", "typed", "safe")
    if isinstance(node.expression, exp.Interval):
        return _shifted(node, scope)
    first = compiled(node.this, scope)
    if isinstance(node, exp.Sub) and first.family in ("date", "time"):
        return _days_between(node, first, scope)
    a, b = _numbers(node, scope, node.this, node.expression)
    symbol = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}[type(node)]
    if isinstance(a.constant, Decimal) and isinstance(b.constant, Decimal):
        folded = _folded(symbol, a.constant, b.constant)
        if folded is not None:
            return folded
    bounds = None
    if symbol in "+-":
        bounds = _sum_bounds(a, b, 1 if symbol == "+" else -1)
    elif symbol == "*":
        bounds = _product_bounds(a, b)
    elif symbol == "/" and isinstance(b.constant, Decimal) and b.constant and a.bounds:
        ends = sorted(x / float(b.constant) for x in a.bounds)
        bounds = box(ends[0], ends[1])
    if "null" in (a.family, b.family):
        return Expr("NULL", "null")
    if symbol != "/" and a.family == b.family == "int":
        left, right = (f"TRY_CAST({one.sql} AS HUGEINT)" for one in (a, b))
        right = f"NULLIF({right}, 0)" if symbol == "%" else right
        return Expr(f"TRY_CAST(({left} {symbol} {right}) AS BIGINT)", "int", bounds)
    right = as_double(b)
    right = f"NULLIF({right}, 0)" if symbol in "/%" else right
    return Expr(f"({as_double(a)} {symbol} {right})", "num", bounds)


def _folded(symbol: str, a: Decimal, b: Decimal) -> Expr | None:
    """Return what two stated numbers make: 0.06 + 0.01 is 0.07."""
    try:
        value = {
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: a / b,
        }.get(symbol, lambda: None)()
        return None if value is None else _number_literal(value)
    except (ArithmeticError, ValueError):
        return None


def _int_div(node: exp.IntDiv, scope: Scope) -> Expr:
    only(node, "this", "expression")
    a, b = _numbers(node, scope, node.this, node.expression)
    if {a.family, b.family} != {"int"}:
        refuse(node, f"{said(node)} needs integers on both sides", "use FLOOR(a / b)")
    left, right = (f"TRY_CAST({one.sql} AS HUGEINT)" for one in (a, b))
    return Expr(f"TRY_CAST(({left} // NULLIF({right}, 0)) AS BIGINT)", "int")


def _neg(node: exp.Neg, scope: Scope) -> Expr:
    only(node, "this")
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        stated = compiled(node.this, scope).constant
        return _number_literal(-stated)
    zero = exp.Literal.number(0)
    return _arithmetic(exp.Sub(this=zero, expression=node.this.copy()), scope)


def _unary(name: str) -> Callable[[Any, Scope], Expr]:
    """Return the handler of a function of one number."""

    def handler(node: exp.Expr, scope: Scope) -> Expr:
        only(node, "this")
        (one,) = _numbers(node, scope, node.this)
        x = as_double(one)
        if name == "abs":
            ends = one.bounds and (abs(one.bounds[0]), abs(one.bounds[1]))
            low = 0.0 if one.bounds and one.bounds[0] <= 0 <= one.bounds[1] else None
            bounds = ends and (min(ends) if low is None else low, max(ends))
            if one.family == "int":
                inner = f"abs(TRY_CAST({one.sql} AS HUGEINT))"
                return Expr(f"TRY_CAST({inner} AS BIGINT)", "int", bounds)
            return Expr(f"abs({x})", "num", bounds)
        if name in ("floor", "ceil"):
            if one.family == "int":
                return one
            shape = math.floor if name == "floor" else math.ceil
            ends = one.bounds and (float(shape(one.bounds[0])), float(shape(one.bounds[1])))
            return Expr(f"{name}({x})", "num", ends)
        if name == "sqrt":
            return Expr(f"CASE WHEN {x} >= 0 THEN sqrt(greatest({x}, 0.0::DOUBLE)) END", "num")
        if name == "isnan":
            return Expr(f"isnan({x})", "bool")
        return Expr(f"CASE WHEN {x} > 0 THEN ln(greatest({x}, '1e-300'::DOUBLE)) END", "num")

    return handler


def _round(node: exp.Round, scope: Scope) -> Expr:
    only(node, "this", "decimals")
    (one,) = _numbers(node, scope, node.this)
    decimals = node.args.get("decimals")
    places = 0 if decimals is None else small_integer(decimals, 15, "the number of decimals")
    half = 10.0**-places
    bounds = one.bounds and box(one.bounds[0] - half, one.bounds[1] + half)
    return Expr(f"round({as_double(one)}, {places})", "num", bounds)


# --- dates --------------------------------------------------------------------------------------


def _dated(node: exp.Expr, part: exp.Expr, scope: Scope) -> Expr:
    one = compiled(part, scope)
    if one.family not in ("date", "time"):
        reason = f"{said(node)} needs a date or timestamp, but {said(part)} holds"
        refuse(part, f"{reason} {WORDS[one.family]}", TO_DATES)
    return one


_PARTS = ("year", "quarter", "month", "day", "dayofweek", "hour", "minute")
_SPANS = {"year": (0, 9999), "quarter": (1, 4), "month": (1, 12), "day": (1, 31)} | {
    "dayofweek": (0, 6),
    "hour": (0, 23),
    "minute": (0, 59),
}


def _part(node: exp.Expr, name: str, part: exp.Expr, scope: Scope) -> Expr:
    name = {"dow": "dayofweek"}.get(name, name)
    if name not in _PARTS:
        way = f"use {', '.join(_PARTS[:-1])} or {_PARTS[-1]}"
        refuse(node, f"EXTRACT of {name!r} from a date is not supported", way)
    one = _dated(node, part, scope)
    low, high = _SPANS[name]
    moment = f"TRY_CAST({tamed(one)} AS TIMESTAMP)"
    return Expr(f"TRY_CAST({name}({moment}) AS BIGINT)", "int", (float(low), float(high)))


def _part_function(name: str) -> Callable[[Any, Scope], Expr]:
    def handler(node: exp.Expr, scope: Scope) -> Expr:
        only(node, "this")
        return _part(node, name, node.this, scope)

    return handler


def _extract(node: exp.Extract, scope: Scope) -> Expr:
    only(node, "this", "expression")
    return _part(node, node.this.name.lower(), node.expression, scope)


def _trunc(node: exp.Expr, scope: Scope) -> Expr:
    only(node, "this", "unit")
    unit = node.args["unit"].name.lower()
    if unit not in ("year", "quarter", "month", "week", "day", "hour", "minute"):
        way = "use 'year', 'quarter', 'month', 'week', 'day', 'hour' or 'minute'"
        refuse(node, f"DATE_TRUNC to {unit!r} is not supported", way)
    one = _dated(node, node.this, scope)
    moment = f"TRY_CAST({tamed(one)} AS TIMESTAMP)"
    return Expr(f"date_trunc('{unit}', {moment})", "time")


def _interval(node: exp.Interval) -> str:
    only(node, "this", "unit")
    unit = node.args["unit"].name.upper() if node.args.get("unit") is not None else ""
    if unit.rstrip("S") not in ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE"):
        way = "use YEAR, MONTH, WEEK, DAY, HOUR or MINUTE, such as INTERVAL 3 DAY"
        refuse(node, f"the unit of {said(node)} is not supported", way)
    count = small_integer(node.this, 10_000, "the length of an interval", text=True)
    return f"INTERVAL ({count}) {unit.rstrip('S')}"


def _shifted(node: exp.Binary, scope: Scope) -> Expr:
    if not isinstance(node, exp.Add | exp.Sub):
        reason = f"{said(node)}: an interval can only be added to or subtracted from a date"
        refuse(node, reason, "write for example x + INTERVAL 3 DAY")
    one = _dated(node, node.this, scope)
    symbol = "+" if isinstance(node, exp.Add) else "-"
    moment = f"TRY_CAST({tamed(one)} AS TIMESTAMP)"
    shifted = f"({moment} {symbol} {_interval(node.expression)})"
    unit = node.expression.args["unit"].name.upper().rstrip("S")
    if one.family == "date" and unit not in ("HOUR", "MINUTE"):
        return Expr(f"TRY_CAST({shifted} AS DATE)", "date")
    return Expr(shifted, "time")


def _days_between(node: exp.Sub, first: Expr, scope: Scope) -> Expr:
    second = compiled(node.expression, scope)
    reason = f"the difference {said(node)} needs a DATE on both sides"
    if first.family != "date":
        refuse(node, reason, "write CAST(x AS DATE) - CAST(y AS DATE)")
    if second.family == "text" and isinstance(second.constant, str):
        second = Expr(date_literal(node, second.constant, "date"), "date")
    if second.family != "date":
        refuse(node, reason, "write CAST(x AS DATE) - CAST(y AS DATE)")
    return Expr(f"TRY_CAST(({tamed(first)} - {tamed(second)}) AS BIGINT)", "int")


ARITHMETIC: dict[type, Callable[[Any, Scope], Expr]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), _arithmetic),
    exp.IntDiv: _int_div,
    exp.Neg: _neg,
    exp.Abs: _unary("abs"),
    exp.Floor: _unary("floor"),
    exp.Ceil: _unary("ceil"),
    exp.Sqrt: _unary("sqrt"),
    exp.Ln: _unary("ln"),
    exp.IsNan: _unary("isnan"),
    exp.Round: _round,
    exp.Year: _part_function("year"),
    exp.Quarter: _part_function("quarter"),
    exp.Month: _part_function("month"),
    exp.Day: _part_function("day"),
    exp.DayOfWeek: _part_function("dayofweek"),
    exp.Hour: _part_function("hour"),
    exp.Minute: _part_function("minute"),
    exp.Extract: _extract,
    exp.TimestampTrunc: _trunc,
    exp.DateTrunc: _trunc,
}
