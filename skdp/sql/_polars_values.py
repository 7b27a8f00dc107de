"""Expressions of rewritten queries for polars: those that are proved equal to DuckDB's, no others.

Nothing is released here. What comes in is SQL that this package wrote, which cannot fail on a cell;
what comes out has the same value, to the last bit, in every row. Why, by kind of value:

- integers are computed in 128 bits, where nothing overflows, and are NULL where 64 do not hold
  them; division truncates, as here is spelled out;
- numbers are IEEE doubles: `+ - * /`, roots, floors and comparisons are exact by that standard
  (NaN equals itself and is the largest, in both engines); rounding is ``round(x * 10^p) / 10^p``;
- dates and times are integers (days, microseconds), and calendars are computed from these by
  integer arithmetic: polars' own functions fail on dates far away;
- texts are compared byte by byte, cut and counted by characters, and searched for stated parts.

Everything else is refused by name: LIKE, other case, casts between text and numbers or dates,
logarithms, hashes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from skdp.sql._polars_dates import DATES, DAY, shifted
from skdp.sql._polars_typed import (
    Compile,
    Value,
    alike,
    choice,
    dtype_of,
    lit,
    not_proved,
    null,
    polars,
    ratio,
)

__all__ = ["value_of"]

_FIRST_TIME = "290309-12-22 (BC) 00:00:00"
_SPECIAL_TIMES = {_FIRST_TIME: -9223372022400000000, "-infinity": -(2**63) + 1}
_INTEGERS = ("int", "huge")


def value_of(node: exp.Expr, inner: Compile) -> Value:
    """Return an expression whose parts `inner` compiles.

    Raises
    ------
    QueryRefusedError
        For what is not proved equal.
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        not_proved(node)
    out: Value = handler(node, inner)
    return out


# --- leaves ---------------------------------------------------------------------------------------


def _literal(node: exp.Literal, inner: Compile) -> Value:
    text = str(node.this)
    if node.is_string:
        return lit(text, "text")
    return _number(text, 1)


def _number(text: str, sign: int) -> Value:
    one = lit(sign * int(text), "int") if text.isdigit() else lit(sign * float(text), "num")
    return replace(one, stated=True)


def _neg(node: exp.Neg, inner: Compile) -> Value:
    if not isinstance(node.this, exp.Literal) or node.this.is_string:
        not_proved(node)
    return _number(str(node.this.this), -1)


def _paren(node: exp.Paren, inner: Compile) -> Value:
    return inner(node.this)


# --- logic ----------------------------------------------------------------------------------------


def _compare(node: exp.Binary, inner: Compile) -> Value:
    _, (a, b) = alike(node, inner(node.this), inner(node.expression))
    ways: dict[type, Callable[[], Any]] = {
        exp.EQ: lambda: a == b,
        exp.NEQ: lambda: a != b,
        exp.LT: lambda: a < b,
        exp.LTE: lambda: a <= b,
        exp.GT: lambda: a > b,
        exp.GTE: lambda: a >= b,
        exp.NullSafeEQ: lambda: a.eq_missing(b),
        exp.NullSafeNEQ: lambda: a.ne_missing(b),
    }
    made = ways[type(node)]()
    return Value(made, "bool")


def _between(node: exp.Between, inner: Compile) -> Value:
    parts = [inner(node.args[name]) for name in ("this", "low", "high")]
    _, (x, low, high) = alike(node, *parts)
    return Value((x >= low) & (x <= high), "bool")


def _in(node: exp.In, inner: Compile) -> Value:
    values = [inner(part) for part in (node.this, *node.expressions)]
    _, (x, *listed) = alike(node, *values)
    out = x == listed[0]
    for one in listed[1:]:
        out = out | (x == one)
    return Value(out, "bool")


def _truth(node: exp.Expr, inner: Compile) -> Any:
    one = inner(node)
    if one.kind not in ("bool", "null"):
        not_proved(node)
    return one.expr.cast(dtype_of("bool"))


def _logic(node: exp.Connector, inner: Compile) -> Value:
    a, b = _truth(node.this, inner), _truth(node.expression, inner)
    return Value(a & b if isinstance(node, exp.And) else a | b, "bool")


def _not(node: exp.Not, inner: Compile) -> Value:
    return Value(~_truth(node.this, inner), "bool")


def _is(node: exp.Is, inner: Compile) -> Value:
    one = inner(node.this)
    if not isinstance(node.expression, exp.Null):
        not_proved(node)
    return Value(one.expr.is_null(), "bool")


def _case(node: exp.Case, inner: Compile) -> Value:
    if node.this is not None:
        not_proved(node)
    tests = [_truth(branch.this, inner) for branch in node.args["ifs"]]
    given = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    values = [inner(part) for part in given]
    values.append(lit(None, "null") if default is None else inner(default))
    kind, exprs = alike(node, *values)
    out = exprs[-1]
    for test, expr in zip(tests[::-1], exprs[:-1][::-1], strict=True):
        out = choice(test, expr, out)
    # (CASE WHEN x BETWEEN year 1 AND year 9999 THEN x END)
    first = node.args["ifs"][0].this
    tame = len(tests) == 1 and default is None and isinstance(first, exp.Between)
    tame = tame and first.this == given[0] and [
        first.args[end].this.this if isinstance(first.args[end], exp.Cast) else ""
        for end in ("low", "high")
    ] == ["0001-01-01", "9999-12-31"]  # fmt: skip
    return Value(out, kind, tame and kind in ("date", "time"))


def _coalesce(node: exp.Coalesce, inner: Compile) -> Value:
    values = [inner(part) for part in (node.this, *node.expressions)]
    kind, exprs = alike(node, *values)
    return Value(polars().coalesce(*exprs), kind)


def _most(node: exp.Expr, inner: Compile) -> Value:
    """Return the greatest or least of values that are there."""
    values = [inner(part) for part in (node.this, *node.expressions)]
    kind, exprs = alike(node, *values)
    out = exprs[0]
    for one in exprs[1:]:
        better = one > out if isinstance(node, exp.Greatest) else one < out
        out = choice(out.is_null() | better.fill_null(False), one, out)
    return Value(out, kind)


def _nullif(node: exp.Nullif, inner: Compile) -> Value:
    a, b = inner(node.this), inner(node.expression)
    kind, (x, y) = alike(node, a, b)
    return Value(choice((x == y).fill_null(False), null(kind), x), kind)


# --- numbers --------------------------------------------------------------------------------------


def _quotient(a: Any, b: Any) -> Any:
    """Return a quotient of 128 bits, truncated."""
    pl = polars()
    down = a // b
    one, zero = (pl.lit(i, dtype=pl.Int128) for i in (1, 0))
    uneven = (down * b) != a
    return down + choice(uneven & ((a < zero) != (b < zero)), one, zero)


def _arithmetic(node: exp.Binary, inner: Compile) -> Value:
    if isinstance(node.expression, exp.Interval):
        return shifted(node, inner)
    a, b = inner(node.this), inner(node.expression)
    if {a.kind, b.kind} == {"date"} and isinstance(node, exp.Sub) and a.tame and b.tame:
        return Value(a.expr - b.expr, "int")
    if "null" in (a.kind, b.kind):
        return lit(None, "null")
    if isinstance(node, exp.Div) and (a.kind, b.kind) == ("num", "int"):  # a mean
        b = replace(b, expr=_doubled(b.expr), kind="num")
    kind, (x, y) = alike(node, a, b)
    if kind in _INTEGERS:
        x, y = (one.cast(dtype_of("huge")) for one in (x, y))
        if type(node) in (exp.Mod, exp.IntDiv):
            whole = _quotient(x, y)
            return Value(whole if isinstance(node, exp.IntDiv) else x - whole * y, "huge")
    if kind not in ("num", *_INTEGERS) or (kind != "num" and isinstance(node, exp.Div)):
        not_proved(node)
    made: dict[type, Callable[[], Any]] = {
        exp.Add: lambda: x + y,
        exp.Sub: lambda: x - y,
        exp.Mul: lambda: x * y,
    }
    if kind == "num":
        made |= {exp.Div: lambda: ratio(x, y)}
    if type(node) not in made:
        not_proved(node)
    return Value(made[type(node)](), kind if kind == "num" else "huge")


def _function_of_number(node: exp.Expr, inner: Compile) -> Value:
    one = inner(node.this)
    if one.kind == "huge" and isinstance(node, exp.Abs):
        return Value(one.expr.abs(), "huge")
    if one.kind != "num":
        not_proved(node)
    ways: dict[type, Callable[[], Any]] = {
        exp.Abs: lambda: one.expr.abs(),
        exp.Floor: lambda: one.expr.floor(),
        exp.Ceil: lambda: one.expr.ceil(),
        exp.Sqrt: lambda: one.expr.sqrt(),
    }
    made = ways[type(node)]()
    return Value(made, "num")


def _isnan(node: exp.IsNan, inner: Compile) -> Value:
    return Value(inner(node.this).expr.is_nan(), "bool")


def _round(node: exp.Round, inner: Compile) -> Value:
    one, places = inner(node.this), node.args.get("decimals")
    if one.kind != "num" or not isinstance(places, exp.Literal):
        not_proved(node)
    scale = polars().lit(10.0 ** int(places.this))
    made = ratio((one.expr * scale).round(0, mode="half_away_from_zero"), scale)
    return Value(choice(made.is_finite(), made, one.expr), "num")


# --- casts ----------------------------------------------------------------------------------------


def _fits(expr: Any) -> Any:
    """Return 128 bits as 64, NULL where these do not hold it."""
    pl = polars()
    low, high = (pl.lit(end, dtype=pl.Int128) for end in (-(2**63), 2**63 - 1))
    fine = (expr >= low) & (expr <= high)
    return choice(fine, expr, null("huge")).cast(pl.Int64, strict=False)


def _rounded_to(expr: Any, mode: str, most: float) -> Any:
    """Return doubles as integers of 128 bits, NULL where they are most or more, or no number."""
    whole = expr.round(0, mode=mode)
    return choice((whole < most) & (whole > -most), whole, null("num")).cast(dtype_of("huge"))


def _number_of_fixed(expr: Any) -> Any:
    """Return nine decimals as the nearest double, which DuckDB makes of them.

    Up to 2^53 a division of doubles rounds once. Beyond, the quotient is an integer of at least 56
    bits, its last one set where there is a rest: what rounds it rounds the whole quotient.
    """
    pl = polars()
    one, two, zero = (pl.lit(i, dtype=pl.Int128) for i in (1, 2, 0))
    billion, shift = (pl.lit(i, dtype=pl.Int128) for i in (10**9, 2**32))
    size = expr.abs()
    short = size < pl.lit(2**85, dtype=pl.Int128)
    over = choice(short, choice(short, size, zero) * shift, size)
    whole = over // billion
    odd = (whole * billion != over) & ((whole // two) * two == whole)
    rounded = choice(odd, whole + one, whole).cast(pl.Float64)
    far = choice(short, rounded * 2.0**-32, rounded)
    near = ratio(size.cast(pl.Float64), pl.lit(1e9))
    made = choice(size <= pl.lit(2**53, dtype=pl.Int128), near, far)
    return choice(expr < zero, -made, made)


def _cast(node: exp.Cast, inner: Compile) -> Value:
    """Return a cast; of literals, what they state."""
    to = node.to.this.name
    if isinstance(node.this, exp.Literal) and node.this.is_string and type(node) is exp.Cast:
        return _stated(node, str(node.this.this), to)
    one = inner(node.this)
    if one.kind == "null":
        return lit(None, {"BIGINT": "int", "INT128": "huge", "DOUBLE": "num", "TEXT": "text"}.get(
            to, "null"))  # fmt: skip
    handler = _CASTS.get((one.kind, to))
    if to == "DECIMAL" and one.kind in ("num", "int"):
        if [str(part) for part in node.to.expressions] != ["28", "9"]:
            not_proved(node)
        expr = one.expr.cast(dtype_of("num")) * 1e9
        if one.kind == "int":
            return Value(one.expr.cast(dtype_of("huge")) * 10**9, "fixed")
        return Value(_rounded_to(expr, "half_away_from_zero", 1e28), "fixed")
    if handler is None or (one.kind in ("date", "time") and one.kind[:4] != to[:4].lower()
                           and not one.tame):  # fmt: skip
        not_proved(node)
    kind, made = handler(one.expr)
    return Value(made, kind, one.tame)


def _stated(node: exp.Expr, text: str, to: str) -> Value:
    if to == "DOUBLE":
        return lit(float(text), "num")
    if to == "DATE":
        return Value(lit((datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days,
                          "int").expr, "date", True)  # fmt: skip
    if to.startswith("TIMESTAMP"):
        if text in _SPECIAL_TIMES:
            return Value(lit(_SPECIAL_TIMES[text], "int").expr, "time")
        span = datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1)
        micro = span // datetime.timedelta(microseconds=1)
        return Value(lit(micro, "int").expr, "time", True)
    return not_proved(node)


def _doubled(x: Any) -> Any:
    return x.cast(dtype_of("num"))


_CASTS: dict[tuple[str, str], Callable[[Any], tuple[str, Any]]] = {
    ("int", "BIGINT"): lambda x: ("int", x),
    ("int", "INT128"): lambda x: ("huge", x.cast(dtype_of("huge"))),
    ("int", "DOUBLE"): lambda x: ("num", _doubled(x)),
    ("int", "TEXT"): lambda x: ("text", x.cast(dtype_of("text"))),
    ("int", "BOOLEAN"): lambda x: ("bool", x != 0),
    ("huge", "BIGINT"): lambda x: ("int", _fits(x)),
    ("huge", "INT128"): lambda x: ("huge", x),
    ("num", "DOUBLE"): lambda x: ("num", x),
    ("num", "BIGINT"): lambda x: ("int", _fits(_rounded_to(x, "half_to_even", 2.0**64))),
    ("num", "INT128"): lambda x: ("huge", _rounded_to(x, "half_to_even", 2.0**126)),
    ("num", "BOOLEAN"): lambda x: ("bool", x != 0.0),
    ("decimal", "DOUBLE"): lambda x: ("num", _doubled(x)),
    ("fixed", "DOUBLE"): lambda x: ("num", _number_of_fixed(x)),
    ("bool", "BOOLEAN"): lambda x: ("bool", x),
    ("bool", "BIGINT"): lambda x: ("int", x.cast(dtype_of("int"))),
    ("bool", "DOUBLE"): lambda x: ("num", _doubled(x.cast(dtype_of("int")))),
    ("bool", "TEXT"): lambda x: ("text", choice(x, polars().lit("true"), choice(
        ~x, polars().lit("false"), null("text")))),
    ("text", "TEXT"): lambda x: ("text", x),
    ("date", "DATE"): lambda x: ("date", x),
    ("date", "TIMESTAMPNTZ"): lambda x: ("time", x * DAY),
    ("date", "TIMESTAMP"): lambda x: ("time", x * DAY),
    ("time", "TIMESTAMPNTZ"): lambda x: ("time", x),
    ("time", "TIMESTAMP"): lambda x: ("time", x),
    ("time", "DATE"): lambda x: ("date", x // DAY),
}  # fmt: skip


# --- texts ----------------------------------------------------------------------------------------


def _text(node: exp.Expr, inner: Compile) -> Any:
    one = inner(node)
    if one.kind not in ("text", "null"):
        not_proved(node)
    return one.expr.cast(dtype_of("text"))


def _integer(node: exp.Expr | None) -> int:
    if not isinstance(node, exp.Literal) or node.is_string:
        not_proved(node or "an argument that is not a literal")
    return int(node.this)


def _length(node: exp.Length, inner: Compile) -> Value:
    return Value(_text(node.this, inner).str.len_chars().cast(dtype_of("int")), "int")


def _named(node: exp.Anonymous, inner: Compile) -> Value:
    if str(node.this) != "strlen":
        not_proved(node)
    made = _text(node.expressions[0], inner).str.len_bytes()
    return Value(made.cast(dtype_of("int")), "int")


def _end(node: exp.Expr, inner: Compile) -> Value:
    x, size = _text(node.this, inner), _integer(node.expression)
    return Value(x.str.head(size) if isinstance(node, exp.Left) else x.str.tail(size), "text")


def _substring(node: exp.Substring, inner: Compile) -> Value:
    start, length = _integer(node.args.get("start")), _integer(node.args.get("length"))
    if start < 1:
        not_proved(node)
    return Value(_text(node.this, inner).str.slice(start - 1, length), "text")


def _stated_part(node: exp.Expr) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string or not node.this:
        not_proved(node)
    return str(node.this)


def _search(node: exp.Expr, inner: Compile) -> Value:
    x, part = _text(node.this, inner), _stated_part(node.expression)
    found = x.str.starts_with(part)
    if isinstance(node, exp.Contains):
        found = x.str.contains(part, literal=True)
    return Value(found, "bool")


def _replace(node: exp.Replace, inner: Compile) -> Value:
    x, old = _text(node.this, inner), _stated_part(node.expression)
    return Value(x.str.replace_all(old, str(node.args["replacement"].this), literal=True), "text")


def _joined(node: exp.DPipe, inner: Compile) -> Value:
    parts = [_text(part, inner) for part in (node.this, node.expression)]
    return Value(polars().concat_str(parts, ignore_nulls=False), "text")


_HANDLERS: dict[type, Callable[[Any, Compile], Value]] = {
    exp.Literal: _literal,
    exp.Boolean: lambda node, inner: lit(bool(node.this), "bool"),
    exp.Null: lambda node, inner: lit(None, "null"),
    exp.Neg: _neg,
    exp.Paren: _paren,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _compare),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _compare),
    exp.Between: _between,
    exp.In: _in,
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: _not,
    exp.Is: _is,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Greatest: _most,
    exp.Least: _most,
    exp.Nullif: _nullif,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv), _arithmetic),
    **dict.fromkeys((exp.Abs, exp.Floor, exp.Ceil, exp.Sqrt), _function_of_number),
    exp.IsNan: _isnan,
    exp.Round: _round,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    **DATES,
    exp.Length: _length,
    exp.Anonymous: _named,
    exp.Left: _end,
    exp.Right: _end,
    exp.Substring: _substring,
    exp.StartsWith: _search,
    exp.Contains: _search,
    exp.Replace: _replace,
    exp.DPipe: _joined,
}
