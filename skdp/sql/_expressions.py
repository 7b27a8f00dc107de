"""Row-local expressions: the closed list of what is answered, as total SQL of DuckDB.

Numbers and dates, comparisons, choices, casts and texts: `skdp.sql._typed` says what total means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from skdp.sql._refusals import OverUnits, only, refusal, refuse, said
from skdp.sql._typed import (
    LONGEST,
    RELEASED,
    TO_DATES,
    TO_NUMBERS,
    TYPES,
    WORDS,
    Expr,
    Scope,
    alike,
    as_double,
    box,
    cast,
    date_literal,
    small_integer,
    tamed,
    text_of,
)

__all__ = ["HANDLERS", "compiled", "condition", "value_of_subquery"]

_LONGEST_SQL = 50_000  # parts are repeated: few levels would make any length of it
_ONE_SET = "write columns in GROUP BY, and one query for each set of columns"
_INSTEAD: dict[type, str] = {
    **dict.fromkeys((exp.Cube, exp.Rollup, exp.GroupingSets), _ONE_SET),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp), "write the date itself"),
}


def compiled(node: exp.Expr, scope: Scope) -> Expr:
    """Return an expression as SQL of one row, or refuse it.

    Raises
    ------
    QueryRefusedError
    """
    if isinstance(node, exp.Subquery):
        return value_of_subquery(node)
    found = scope.special(node)
    if found is not None:
        return found
    handler = HANDLERS.get(type(node))
    if handler is None:
        if isinstance(node, exp.Window):
            reason = f"the window function {said(node)} would show values of single rows"
            refuse(node, reason, "use GROUP BY and an aggregate")
        way = _INSTEAD.get(
            type(node),
            "use arithmetic, comparisons, CASE, COALESCE, CAST, and functions of numbers, text and "
            "dates that the documentation on private SQL lists",
        )
        refuse(node, f"{said(node)} is not on the list of supported SQL expressions", way)
    out = handler(node, scope)
    if len(out.sql) > _LONGEST_SQL:
        refuse(node, "the expression is too long", "use fewer or shorter parts")
    return out


def value_of_subquery(node: exp.Subquery) -> Expr:
    """Return the number that a subquery has released.

    Raises
    ------
    OverUnits
        If it is to be released first.
    """
    known = node.meta.get(RELEASED)  # a comment of the query may hold text of this name
    if isinstance(known, Expr):
        return known
    only(node, "this")
    error = refusal(
        node,
        f"the subquery {said(node)} inside an expression is not supported",
        "write a subquery with one aggregate over all rows, without GROUP BY; EXISTS and IN are "
        "allowed as conditions of WHERE, by themselves or joined by AND",
    )
    raise OverUnits(node.this, str(error))


def condition(node: exp.Expr, scope: Scope) -> Expr:
    """Return an expression that is true, false or NULL."""
    found = compiled(node, scope)
    if found.family not in ("bool", "null"):
        reason = f"{said(node)} holds {WORDS[found.family]}, but a condition must be true or false"
        refuse(node, reason, "write a comparison, such as x > 0 or x IS NOT NULL")
    return found


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


# --- comparisons and logic ----------------------------------------------------------------------


def _compare(node: exp.Binary, scope: Scope) -> Expr:
    only(node, "this", "expression")
    parts = [compiled(node.this, scope), compiled(node.expression, scope)]
    _, (a, b) = alike(node, parts)
    symbol = {
        exp.EQ: "=",
        exp.NEQ: "<>",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
        exp.NullSafeEQ: "IS NOT DISTINCT FROM",
        exp.NullSafeNEQ: "IS DISTINCT FROM",
    }[type(node)]
    return Expr(f"({a} {symbol} {b})", "bool", (0.0, 1.0))


def _between(node: exp.Between, scope: Scope) -> Expr:
    only(node, "this", "low", "high")
    parts = [compiled(node.args[name], scope) for name in ("this", "low", "high")]
    _, (x, low, high) = alike(node, parts)
    return Expr(f"({x} >= {low} AND {x} <= {high})", "bool", (0.0, 1.0))


def _in(node: exp.In, scope: Scope) -> Expr:
    if node.args.get("query") is not None:
        reason = "IN (SELECT ...) inside of OR, CASE or another expression is not supported"
        refuse(node, reason, "make it a condition of WHERE, by itself or joined to others by AND")
    only(node, "this", "expressions")
    parts = [compiled(part, scope) for part in (node.this, *node.expressions)]
    _, (x, *listed) = alike(node, parts)
    return Expr(f"({x} IN ({', '.join(listed)}))", "bool", (0.0, 1.0))


def _logic(node: exp.Connector, scope: Scope) -> Expr:
    only(node, "this", "expression")
    a, b = condition(node.this, scope), condition(node.expression, scope)
    word = "AND" if isinstance(node, exp.And) else "OR"
    return Expr(f"({a.sql} {word} {b.sql})", "bool", (0.0, 1.0))


def _not(node: exp.Not, scope: Scope) -> Expr:
    only(node, "this")
    return Expr(f"(NOT {condition(node.this, scope).sql})", "bool", (0.0, 1.0))


def _is(node: exp.Is, scope: Scope) -> Expr:
    only(node, "this", "expression")
    one = compiled(node.this, scope)
    if isinstance(node.expression, exp.Null):
        return Expr(f"({one.sql} IS NULL)", "bool", (0.0, 1.0))
    if isinstance(node.expression, exp.Boolean) and one.family in ("bool", "null"):
        value = "TRUE" if node.expression.this else "FALSE"
        return Expr(f"({one.sql} IS NOT DISTINCT FROM {value})", "bool", (0.0, 1.0))
    if isinstance(node.expression, exp.Boolean):
        reason = f"{said(node)} needs a boolean before IS, but {said(node.this)} holds"
        raise refusal(node, f"{reason} {WORDS[one.family]}", "write a comparison, such as x = 1")
    raise refusal(node, f"{said(node)} is not supported", "use IS NULL, IS TRUE or IS FALSE")


# --- choices ------------------------------------------------------------------------------------


def _union(parts: list[Expr]) -> tuple[float, float] | None:
    boxes = [one.bounds for one in parts if one.family != "null"]
    if not boxes or any(pair is None for pair in boxes):
        return None
    known = [pair for pair in boxes if pair is not None]
    return min(low for low, _ in known), max(high for _, high in known)


def _case(node: exp.Case, scope: Scope) -> Expr:
    only(node, "this", "ifs", "default")
    tests, values = [], []
    for branch in node.args["ifs"]:
        only(branch, "this", "true")
        test = branch.this
        if node.this is not None:
            test = exp.EQ(this=node.this.copy(), expression=test.copy())
        tests.append(condition(test, scope).sql)
        values.append(compiled(branch.args["true"], scope))
    default = node.args.get("default")
    values.append(Expr("NULL", "null") if default is None else compiled(default, scope))
    return _chosen(node, tests, values)


def _chosen(node: exp.Expr, tests: list[str], values: list[Expr]) -> Expr:
    family, sqls = alike(node, values)
    pairs = zip(tests, sqls[:-1], strict=True)
    branches = " ".join(f"WHEN {test} THEN {value}" for test, value in pairs)
    return Expr(f"(CASE {branches} ELSE {sqls[-1]} END)", family, _union(values))


def _if(node: exp.If, scope: Scope) -> Expr:
    only(node, "this", "true", "false")
    other = node.args.get("false")
    values = [compiled(node.args["true"], scope)]
    values.append(Expr("NULL", "null") if other is None else compiled(other, scope))
    return _chosen(node, [condition(node.this, scope).sql], values)


def _several(name: str) -> Callable[[Any, Scope], Expr]:
    """Return the handler of a function of any number of values that are alike."""

    def handler(node: exp.Expr, scope: Scope) -> Expr:
        only(node, "this", "expressions", "ignore_nulls")
        parts = [compiled(part, scope) for part in (node.this, *node.expressions)]
        family, sqls = alike(node, parts)
        if family == "null":
            return Expr("NULL", "null")
        return Expr(f"{name}({', '.join(sqls)})", family, _union(parts))

    return handler


def _nullif(node: exp.Nullif, scope: Scope) -> Expr:
    only(node, "this", "expression")
    parts = [compiled(node.this, scope), compiled(node.expression, scope)]
    family, (a, b) = alike(node, parts)
    return Expr(f"NULLIF({a}, {b})", family, parts[0].bounds)


_CASTS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), "int"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "num"),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), "text"),
    "BOOLEAN": "bool",
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), "time"),
}
_PARTS_OF_DATES = (
    "write EXTRACT(YEAR FROM x), or x - DATE '2020-01-01' for the days since then of a date"
)


def _casted(node: exp.Cast, scope: Scope) -> Expr:
    only(node, "this", "to", "safe")
    kind = node.to.this.name if hasattr(node.to.this, "name") else ""
    family = _CASTS.get(kind)
    if family is None:
        reason = f"a cast to {said(node.to)} is not supported"
        way = "cast to BIGINT, DOUBLE, DECIMAL, VARCHAR, BOOLEAN, DATE or TIMESTAMP"
        refuse(node, reason, way)
    one = compiled(node.this, scope)
    if one.family == "other":
        reason = f"{said(node)}: {said(node.this)} has a type that can only be counted"
        refuse(node, reason, "convert the column before the table is declared")
    if one.family == "text" and isinstance(one.constant, str) and family in ("date", "time"):
        return Expr(date_literal(node, one.constant, family), family)
    if one.family == "null":
        return one
    times = [of for of in (one.family, family) if of in ("date", "time")]
    if len(times) == 1 and "text" not in (one.family, family):
        reason = f"{said(node)} can only give NULL: {said(node.this)} holds {WORDS[one.family]}"
        way = TO_DATES if family in times else _PARTS_OF_DATES
        refuse(node, reason, way)
    kept = one.bounds if {one.family, family} <= {"int", "num"} else None
    if family == "int" and kept is not None:  # rounded
        kept = kept[0] - 1, kept[1] + 1
    if one.family == "bool" and family in ("int", "num"):
        kept = 0.0, 1.0
    if kind == "DECIMAL":  # a number of so many digits, kept as DOUBLE like all others
        params = [small_integer(p.this, 38, "a precision or scale") for p in node.to.expressions]
        if params and not (1 <= params[0] <= 38 and 0 <= (params[1:] or [0])[0] <= params[0]):
            way = "write DECIMAL(p, s) with p from 1 to 38 and s from 0 to p"
            refuse(node, f"there is no type {said(node.to)}", way)
        width = f"({', '.join(map(str, params))})" if params else "(18, 3)"
        kept = kept and (kept[0] - 1, kept[1] + 1)
        return Expr(f"TRY_CAST(TRY_CAST({one.sql} AS DECIMAL{width}) AS DOUBLE)", "num", kept)
    if one.family in ("date", "time") and family in ("date", "time"):
        return Expr(f"TRY_CAST({tamed(one)} AS {TYPES[family]})", family)
    return Expr(cast(one, family), family, kept)


# --- text ---------------------------------------------------------------------------------------


def _texts(node: exp.Expr, scope: Scope, *parts: exp.Expr) -> list[Expr]:
    out = []
    for part in parts:
        one = compiled(part, scope)
        if one.family not in ("text", "null"):
            reason = f"{said(node)} needs text, but {said(part)} holds {WORDS[one.family]}"
            refuse(part, reason, "use CAST(x AS VARCHAR)")
        out.append(one)
    return out


def _stated_text(node: exp.Expr, part: exp.Expr, what: str) -> str:
    if not (isinstance(part, exp.Literal) and part.is_string) or "\0" in str(part.this):
        reason = f"{what} in {said(node)} must be a text literal"
        refuse(part, reason, "write a text in quotes, such as 'abc', without the character 0")
    return str(part.this)


def _text_function(name: str) -> Callable[[Any, Scope], Expr]:
    """Return the handler of a function of one text."""

    def handler(node: exp.Expr, scope: Scope) -> Expr:
        only(node, "this")
        (one,) = _texts(node, scope, node.this)
        return Expr(f"{name}({one.sql})", "int" if name == "length" else "text")

    return handler


def _matches(name: str) -> Callable[[Any, Scope], Expr]:
    """Return the handler of a comparison of a text with a stated one."""

    def handler(node: exp.Expr, scope: Scope) -> Expr:
        only(node, "this", "expression", "negate")
        (one,) = _texts(node, scope, node.this)
        pattern = text_of(_stated_text(node, node.expression, "the pattern"))
        if name in ("LIKE", "ILIKE"):
            verb = f"NOT {name}" if node.args.get("negate") else name
            return Expr(f"({one.sql} {verb} {pattern})", "bool", (0.0, 1.0))
        return Expr(f"{name}({one.sql}, {pattern})", "bool", (0.0, 1.0))

    return handler


def _substring(node: exp.Substring, scope: Scope) -> Expr:
    only(node, "this", "start", "length")
    (one,) = _texts(node, scope, node.this)
    start = small_integer(node.args.get("start"), 10**6, "the position of SUBSTRING")
    length = node.args.get("length")
    size = LONGEST if length is None else small_integer(length, 10**6, "the length of SUBSTRING")
    if size < 0 or start < 0:
        reason = f"{said(node)}: position and length must not be negative"
        refuse(node, reason, "use RIGHT(x, n) for the last n characters")
    return Expr(f"substring({one.sql}, {start}, {size})", "text")


def _end_of_text(name: str) -> Callable[[Any, Scope], Expr]:
    def handler(node: exp.Expr, scope: Scope) -> Expr:
        only(node, "this", "expression")
        (one,) = _texts(node, scope, node.this)
        size = small_integer(node.expression, 10**6, f"the length of {name.upper()}")
        if size < 0:
            refuse(node, f"{said(node)}: the length must not be negative", "write 0 or more")
        return Expr(f'"{name}"({one.sql}, {size})', "text")

    return handler


def _joined(node: exp.Expr, scope: Scope) -> Expr:
    """Return texts put together, cut: otherwise few steps fill any memory."""
    if isinstance(node, exp.Concat):
        only(node, "expressions", "safe", "coalesce")
        parts = _texts(node, scope, *node.expressions)
        sqls = [f"coalesce({one.sql}, '')" for one in parts]
    else:
        only(node, "this", "expression", "safe")
        parts = _texts(node, scope, node.this, node.expression)
        sqls = [one.sql for one in parts]
    pieces = " || ".join(f'"left"({sql}, {LONGEST})' for sql in sqls)
    return Expr(f'"left"({pieces}, {LONGEST})', "text")


def _replace(node: exp.Replace, scope: Scope) -> Expr:
    only(node, "this", "expression", "replacement")
    (one,) = _texts(node, scope, node.this)
    old = _stated_text(node, node.expression, "the text to replace")
    new = _stated_text(node, node.args["replacement"], "the replacement")
    if len(new) > 10 * max(len(old), 1):
        reason = f"{said(node)}: the new text may be at most ten times as long as the old one"
        refuse(node, reason, "use a shorter text")
    inner = f'replace("left"({one.sql}, {LONGEST}), {text_of(old)}, {text_of(new)})'
    return Expr(f'"left"({inner}, {LONGEST})', "text")


# What is answered, by exact type of syntax.
HANDLERS: dict[type, Callable[[Any, Scope], Expr]] = {
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
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _compare),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _compare),
    exp.Between: _between,
    exp.In: _in,
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: _not,
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _several("coalesce"),
    exp.Greatest: _several("greatest"),
    exp.Least: _several("least"),
    exp.Nullif: _nullif,
    exp.Cast: _casted,
    exp.TryCast: _casted,
    exp.Lower: _text_function("lower"),
    exp.Upper: _text_function("upper"),
    exp.Trim: _text_function("trim"),
    exp.Length: _text_function("length"),
    exp.Like: _matches("LIKE"),
    exp.ILike: _matches("ILIKE"),
    exp.StartsWith: _matches("starts_with"),
    exp.Contains: _matches("contains"),
    exp.Substring: _substring,
    exp.Left: _end_of_text("left"),
    exp.Right: _end_of_text("right"),
    exp.DPipe: _joined,
    exp.Concat: _joined,
    exp.Replace: _replace,
}
