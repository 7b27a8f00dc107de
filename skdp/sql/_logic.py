"""Comparisons, choices, casts and texts in row-local expressions: total SQL of DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from skdp.sql._refusals import only, refusal, refuse, said
from skdp.sql._typed import (
    LONGEST,
    TO_DATES,
    TYPES,
    WORDS,
    Expr,
    Scope,
    alike,
    cast,
    compiled,
    condition,
    date_literal,
    small_integer,
    tamed,
    text_of,
)

__all__ = ["LOGIC"]

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


LOGIC: dict[type, Callable[[Any, Scope], Expr]] = {
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
