"""The closed list of supported SQL expressions, and `compiled`, which applies their rules.

A rule gives the type, the SQL and the bounds of a node. `skdp.sql.ir` says why no node raises;
`skdp.sql.operators` has the rules of operators, this module those of casts, dates and texts.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from sqlglot import exp

from skdp.sql._syntax import OverUnits, only, refusal, refuse, said
from skdp.sql.ir import (
    ANY_YEAR,
    BIGINT,
    BOOL,
    DATE,
    DOUBLE,
    LONGEST,
    MOST_YEARS,
    NUMBERS,
    TEXT,
    TIME,
    TIMES,
    WORDS,
    ZONED,
    Node,
    TooLargeError,
    Tree,
    Type,
    column_type,
    decimal,
    integer,
    text_of,
)
from skdp.sql.operators import (
    _ONE,
    _TWO,
    OPERATORS,
    TO_DATES,
    TRUTH,
    Rule,
    grown,
    small_integer,
    stated_moment,
    tested,
)

# --- dates --------------------------------------------------------------------------------------


def _dated(tree: Tree, node: exp.Expr, value: Node, part: exp.Expr | None = None) -> Node:
    """Return a date or timestamp as TIMESTAMP, or refuse other values."""
    if value.type.kind not in TIMES:
        reason = f"{said(node)} needs a date or timestamp, but {said(part or node.this)} holds"
        refuse(part or node, f"{reason} {WORDS[value.type.kind]}", TO_DATES)
    return tree.local(value)


# Bounds of the parts of a date; those of years follow from the type.
_PARTS: dict[str, Any] = {
    "year": None,
    "quarter": (1.0, 4.0),
    "month": (1.0, 12.0),
    "week": (1.0, 53.0),
    "day": (1.0, 31.0),
    "dayofweek": (0.0, 6.0),
    "isodow": (1.0, 7.0),
    "dayofyear": (1.0, 366.0),
    "hour": (0.0, 23.0),
    "minute": (0.0, 59.0),
    "second": (0.0, 59.0),
    "millisecond": (0.0, 59_999.0),
    "microsecond": (0.0, 59_999_999.0),
    "epoch": None,
    "isoyear": None,
}
_CLOCK = ("hour", "minute", "second", "millisecond", "microsecond", "epoch")
_SAME_PARTS = {"dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear"} | {
    f"{name}s": name for name in _PARTS
}
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _part(name: str, tree: Tree, node: exp.Expr, value: Node) -> Node:
    """Return a part of a date; EXTRACT, without a `name`, says which."""
    part = node.this if name else node.expression
    name = name or node.this.name.lower()
    name = _SAME_PARTS.get(name, name)
    if name not in _PARTS:
        *first, last = _PARTS
        way = f"use {', '.join(first)} or {last}"
        refuse(node, f"EXTRACT of {name!r} from a date is not supported", way)
    if value.type.kind == "clock" and name in _CLOCK:
        goal = DOUBLE if name == "epoch" else BIGINT
        return tree.make(goal, f"{name}({{0}})", value, bounds=_PARTS[name])
    moment = _dated(tree, node, value, part)
    if name == "epoch":
        return tree.make(DOUBLE, "epoch({0})", moment)
    years = moment.type.width
    bounds = _PARTS[name] or (-float(years) if years else 0.0, 9999.0 + years)
    return tree.make(integer(32), f"{name}({{0}})", moment, bounds=bounds)


def _unit_of(node: exp.Expr, what: str) -> str:
    given = node.args.get("unit")
    unit = "" if given is None else _SAME_PARTS.get(given.name.lower(), given.name.lower())
    if unit not in _UNITS:
        way = f"use {', '.join(map(repr, _UNITS[:-1]))} or {_UNITS[-1]!r}"
        refuse(node, f"{what} {unit!r} is not supported", way)
    return unit


def _trunc(tree: Tree, node: exp.Expr, value: Node) -> Node:
    unit = _unit_of(node, "DATE_TRUNC to")
    moment = _dated(tree, node, value)
    result = tree.make(replace(moment.type, shown=""), f"date_trunc('{unit}', {{0}})", moment)
    return tree.to(result, replace(value.type, shown="")) if value.type.kind == "zoned" else result


def _date_diff(tree: Tree, node: exp.Expr, last: Node, first: Node) -> Node:
    unit = _unit_of(node, "DATE_DIFF in")
    kinds = {operand.type.kind for operand in (last, first)} & set(TIMES)
    goal = ZONED if kinds == {"zoned"} else TIME
    ends = []
    for operand, part in ((first, node.expression), (last, node.this)):
        if operand.type.kind == "text" and isinstance(operand.value, str) and kinds:
            operand = stated_moment(tree, node, operand, goal)
        ends.append(_dated(tree, node, operand, part))
    return tree.make(BIGINT, f"date_diff('{unit}', {{0}}, {{1}})", *ends)


_FORMAT = re.compile(r"(?:[^%]|%(?:-[dmyHIMSj]|[aAbBcdfgGHIjmMnpSuUVwWxXyYzZ%]))*")


def _strftime(tree: Tree, node: exp.TimeToStr, value: Node, form: Node) -> Node:
    moment, pattern, part = value, form, node.this
    if value.type.kind == "text" and form.type.kind != "text":  # DuckDB takes both orders
        moment, pattern, part = form, value, node.args["format"]
    text = pattern.value
    if not isinstance(text, str) or len(text) > 100 or not _FORMAT.fullmatch(text):
        reason = f"the format of {said(node)} is not a text literal of DuckDB's format letters"
        refuse(node, reason, "write for example STRFTIME(x, '%Y-%m'), with at most 100 characters")
    stated = tree.leaf(TEXT, text_of(text), value=text)
    return tree.make(TEXT, "strftime({0}, {1})", _dated(tree, node, moment, part), stated)


def _name_of(part: str) -> Rule:
    """Return the rule of the name of a day or month."""
    return Rule(
        lambda tree, node, operand: tree.make(TEXT, f"{part}({{0}})", _dated(tree, node, operand)),
        _ONE,
    )


# The length of intervals in years, or more.
_YEARS = {"YEAR": 1.0, "MONTH": 1 / 12, "WEEK": 1 / 52, "DAY": 1 / 365}
_YEARS |= dict.fromkeys(("HOUR", "MINUTE", "SECOND"), 1 / 8760)


def _shifted(tree: Tree, node: exp.Binary, value: Node) -> Node:
    span = node.expression
    only(span, "this", "unit")
    unit = span.args["unit"].name.upper().rstrip("S") if span.args.get("unit") is not None else ""
    if unit not in _YEARS:
        way = "use YEAR, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND, such as INTERVAL 3 DAY"
        refuse(node, f"the unit of {said(span)} is not supported", way)
    count = small_integer(span.this, 10_000, "the length of an interval", text=True)
    moment = _dated(tree, node, value)
    years = moment.type.width + math.ceil(abs(count) * _YEARS[unit]) + 1
    if years > MOST_YEARS:
        reason = f"{said(node)} moves a date by more than {MOST_YEARS:,} years"
        refuse(node, reason, "use shorter intervals")
    symbol = "+" if isinstance(node, exp.Add) else "-"
    sql = f"({{0}} {symbol} INTERVAL ({count}) {unit})"
    if value.type.kind == "date" and unit in ("YEAR", "MONTH", "WEEK", "DAY"):
        return tree.make(replace(DATE, width=years), f"CAST({sql} AS DATE)", moment)
    if value.type.kind == "zoned":
        return tree.make(replace(ZONED, width=years), f"timezone('UTC', {sql})", moment)
    return tree.make(replace(TIME, width=years), sql, moment)


# --- casts --------------------------------------------------------------------------------------


# Names in sqlglot, and the types in DuckDB to which casts are supported.
_CASTS = {
    **{name: name for name in ("TINYINT", "SMALLINT", "BIGINT", "UTINYINT", "USMALLINT")},
    **{name: name for name in ("UBIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "DATE")},
    "INT": "INTEGER",
    "UINT": "UINTEGER",
    "INT128": "HUGEINT",
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), "VARCHAR"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), "TIMESTAMP"),
}
_STATED = {"TIME": "TIME", "UUID": "UUID", "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}  # literals
_PARTS_OF_DATES = (
    "write EXTRACT(YEAR FROM x), or x - DATE '2020-01-01' for the days since then of a date"
)


def _cast(tree: Tree, node: exp.Cast, value: Node) -> Node:
    name = node.to.this.name if hasattr(node.to.this, "name") else ""
    if name in _STATED and isinstance(value.value, str):  # such as TIME '12:30:00'
        return stated_moment(tree, node, value, column_type(_STATED[name]))
    via = name if name == "DECIMAL" else _CASTS.get(name)
    if via is None:
        reason = f"a cast to {said(node.to)} is not supported"
        way = "cast to BIGINT, DOUBLE, DECIMAL, VARCHAR, BOOLEAN, DATE or TIMESTAMP"
        refuse(node, reason, way)
    goal = _decimal_of(node) if via == "DECIMAL" else replace(column_type(via), shown="")
    kind = value.type.kind
    if kind == "other":
        reason = f"{said(node)}: {said(node.this)} has a type that can only be counted"
        refuse(node, reason, "convert the column before the table is declared")
    if kind == "text" and isinstance(value.value, str) and goal.kind in TIMES:
        return stated_moment(tree, node, value, goal)
    if kind == "null":
        return value
    if kind != "text" and goal.kind != "text" and _FAMILIES.get(kind, kind) != _FAMILIES[goal.kind]:
        times = _FAMILIES[goal.kind] == "time"
        reason = f"{said(node)} can only give NULL: {said(node.this)} holds {WORDS[kind]}"
        refuse(node, reason, TO_DATES if times else _PARTS_OF_DATES)
    if kind in TIMES and goal.kind in TIMES:
        return value if value.type.sql == goal.sql else tree.to(tree.tamed(value), goal)
    if kind == "zoned":  # as DuckDB writes it in UTC
        sql = "(CAST({0} AS VARCHAR) || '+00')"
        return tree.make(TEXT, sql, tree.local(value))
    if (kind, value.type.sql) == (goal.kind, goal.sql) and value.type.width <= goal.width:
        # A column of an ENUM is no VARCHAR in an answer.
        return tree.make(TEXT, "{0}", value) if value.type == TEXT and value.type.shown else value
    bounds = None
    if kind in NUMBERS and goal.kind in NUMBERS:
        bounds = value.bounds if goal.kind in ("double", "float") else grown(value.bounds, 1.0)
    elif kind == "bool" and goal.kind in NUMBERS:
        bounds = TRUTH
    if goal.kind in ("date", "time"):
        goal = replace(goal, width=ANY_YEAR)
    sql = f"TRY_CAST({{0}} AS {goal.sql if via == 'DECIMAL' else via})"
    if via not in ("DECIMAL", goal.sql):
        sql = f"CAST({sql} AS {goal.sql})"
        goal = replace(goal, shown=via)
    return tree.make(goal, sql, value, bounds=bounds)


# Casts stay within a family, or are to or from text. Other kinds are families of their own.
_FAMILIES = {
    **dict.fromkeys((*NUMBERS, "bool"), "number"),
    **dict.fromkeys(TIMES, "time"),
    "text": "text",
}


def _decimal_of(node: exp.Cast) -> Type:
    params = [small_integer(p.this, 38, "a precision or scale") for p in node.to.expressions]
    width, scale = ([*params, 0] if params else [18, 3])[:2]
    if not (1 <= width <= 38 and 0 <= scale <= width):
        way = "write DECIMAL(p, s) with p from 1 to 38 and s from 0 to p"
        refuse(node, f"there is no type {said(node.to)}", way)
    return decimal(width, scale)


# --- text ---------------------------------------------------------------------------------------


def _text(sql: str, type_: Type = TEXT) -> Rule:
    """Return the rule of a function of one text."""
    return Rule(lambda tree, node, value: tree.make(type_, sql, value), _ONE, needs="text")


def _stated_text(tree: Tree, node: exp.Expr, part: exp.Expr, what: str) -> Node:
    if not (isinstance(part, exp.Literal) and part.is_string) or "\0" in str(part.this):
        reason = f"{what} in {said(node)} must be a text literal"
        refuse(part, reason, "write a text in quotes, such as 'abc', without the character 0")
    return tree.leaf(TEXT, text_of(str(part.this)), value=str(part.this))


def _matches(sql: str, tree: Tree, node: exp.Expr, value: Node) -> Node:
    """Return a comparison of a text with a literal."""
    pattern = _stated_text(tree, node, node.expression, "the pattern")
    test = sql.replace("{0} ", "{0} NOT ") if node.args.get("negate") else sql
    return tree.make(BOOL, test, value, pattern, bounds=TRUTH)


def _substring(tree: Tree, node: exp.Substring, value: Node) -> Node:
    start = small_integer(node.args.get("start"), 10**6, "the position of SUBSTRING")
    length = node.args.get("length")
    size = LONGEST if length is None else small_integer(length, 10**6, "the length of SUBSTRING")
    if size < 0 or start < 0:
        reason = f"{said(node)}: position and length must not be negative"
        refuse(node, reason, "use RIGHT(x, n) for the last n characters")
    return tree.make(TEXT, f"substring({{0}}, {start}, {size})", value)


def _end_of_text(name: str, tree: Tree, node: exp.Expr, value: Node) -> Node:
    size = small_integer(node.expression, 10**6, f"the length of {name.upper()}")
    if size < 0:
        refuse(node, f"{said(node)}: the length must not be negative", "write 0 or more")
    return tree.make(TEXT, f'"{name}"({{0}}, {size})', value)


def _joined(tree: Tree, node: exp.Expr, *parts: Node) -> Node:
    """Return texts put together, cut: otherwise a few steps could fill any memory."""
    hole = "coalesce({{{}}}, '')" if isinstance(node, exp.Concat) else "{{{}}}"
    pieces = " || ".join(f'"left"({hole.format(i)}, {LONGEST})' for i in range(len(parts)))
    return tree.make(TEXT, f'"left"({pieces}, {LONGEST})', *parts)


def _replace(tree: Tree, node: exp.Replace, value: Node) -> Node:
    old = _stated_text(tree, node, node.expression, "the text to replace")
    new = _stated_text(tree, node, node.args["replacement"], "the replacement")
    if len(new.value) > 10 * max(len(old.value), 1):
        reason = f"{said(node)}: the new text may be at most ten times as long as the old one"
        refuse(node, reason, "use a shorter text")
    inner = f'replace("left"({{0}}, {LONGEST}), {{1}}, {{2}})'
    return tree.make(TEXT, f'"left"({inner}, {LONGEST})', value, old, new)


SHIFTED = Rule(_shifted, _ONE, ("expression", "typed", "safe"))  # by an interval
_OF_DATES = (exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfWeek, exp.DayOfYear)
_OF_TIMES = (exp.Hour, exp.Minute, exp.Second)
_MATCHES = {exp.Like: "({0} LIKE {1})", exp.ILike: "({0} ILIKE {1})"} | {
    exp.StartsWith: "starts_with({0}, {1})",
    exp.Contains: "contains({0}, {1})",
}
FUNCTIONS: dict[type, Rule] = {
    **{
        kind: Rule(partial(_part, kind.__name__.lower()), _ONE) for kind in (*_OF_DATES, *_OF_TIMES)
    },
    exp.DayOfWeekIso: Rule(partial(_part, "isodow"), _ONE),
    exp.TimeToUnix: Rule(partial(_part, "epoch"), _ONE),
    exp.Extract: Rule(partial(_part, ""), ("expression",), _ONE),
    exp.Monthname: _name_of("monthname"),
    exp.Dayname: _name_of("dayname"),
    exp.TimestampTrunc: Rule(_trunc, _ONE, ("unit",)),
    exp.DateTrunc: Rule(_trunc, _ONE, ("unit",)),
    exp.DateDiff: Rule(_date_diff, _TWO, ("unit", "date_part_boundary")),
    exp.TimeToStr: Rule(_strftime, ("this", "format")),
    exp.Cast: Rule(_cast, _ONE, ("to", "safe")),
    exp.TryCast: Rule(_cast, _ONE, ("to", "safe")),
    exp.Lower: _text("lower({0})"),
    exp.Upper: _text("upper({0})"),
    exp.Trim: _text("trim({0})"),
    exp.Length: _text("length({0})", integer(32)),
    **{
        kind: Rule(partial(_matches, sql), _ONE, ("expression", "negate"), needs="text")
        for kind, sql in _MATCHES.items()
    },
    exp.Substring: Rule(_substring, _ONE, ("start", "length"), needs="text"),
    exp.Left: Rule(partial(_end_of_text, "left"), _ONE, ("expression",), needs="text"),
    exp.Right: Rule(partial(_end_of_text, "right"), _ONE, ("expression",), needs="text"),
    exp.DPipe: Rule(_joined, _TWO, ("safe",), needs="text"),
    exp.Concat: Rule(_joined, ("expressions",), ("safe", "coalesce"), needs="text"),
    exp.Replace: Rule(_replace, _ONE, ("expression", "replacement"), needs="text"),
}


RELEASED = "skdp_released"  # in the meta of a subquery: its released number
_ONE_SET = "write columns in GROUP BY, and one query for each set of columns"
_INSTEAD: dict[type, str] = {
    **dict.fromkeys((exp.Cube, exp.Rollup, exp.GroupingSets), _ONE_SET),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp), "write the date itself"),
}
_CHAIN = 50  # longer chains of +, AND, OR and || are computed in pairs: nesting has a limit
_CHAINS: tuple[tuple[type, ...], ...] = ((exp.Add, exp.Sub), (exp.And,), (exp.Or,), (exp.DPipe,))
RULES: dict[type, Rule] = OPERATORS | FUNCTIONS  # what is answered, by exact type of syntax


class Scope(Protocol):
    """The place of an expression in a query: its columns, and syntax that is special there."""

    @property
    def tree(self) -> Tree:
        """Return the nodes of the query."""

    def column(self, node: exp.Column) -> Node:
        """Return the column of a name, or refuse it."""

    def special(self, node: exp.Expr) -> Node | None:
        """Return the node of syntax that is special in this scope, such as an aggregate."""


def compiled(root: exp.Expr, scope: Scope) -> Node:
    """Return an expression as a node, or refuse it."""
    seen, at = scope.tree.seen, id(scope)
    # A stack, since Python's own would end at long chains. Each part of a query is compiled once.
    stack: list[tuple[exp.Expr, Rule | None, list[exp.Expr]]] = [(root, None, [])]
    while stack:
        node, rule, parts = stack.pop()
        if (at, id(node)) in seen:
            continue
        try:
            if rule is None:
                result = _leaf(node, scope)
                if result is None:
                    rule, parts = _rule(node)
                    if not parts:
                        result = rule.build(scope.tree, node)
            else:
                result = rule.build(scope.tree, node, *(seen[at, id(part)][0] for part in parts))
        except TooLargeError as error:
            refuse(node, str(error), "use fewer or shorter parts, or compute some in a subquery")
        if result is None:
            stack.append((node, rule, parts))
            stack += [(part, None, []) for part in reversed(parts)]
        else:
            seen[at, id(node)] = result, node, scope  # as long as these live, ids are theirs
    value: Node = seen[at, id(root)][0]
    return value


def _leaf(node: exp.Expr, scope: Scope) -> Node | None:
    """Return the node of a column, a subquery, or syntax that is special in this scope."""
    if isinstance(node, exp.Subquery):
        return value_of_subquery(node)
    value = scope.special(node)
    if value is None and isinstance(node, exp.Column):
        value = scope.column(node)
    return value


def _rule(node: exp.Expr) -> tuple[Rule, list[exp.Expr]]:
    """Return the rule of a node, and its operands."""
    kinds = next((kinds for kinds in _CHAINS if isinstance(node, kinds)), None)
    if kinds is not None:
        terms: list[tuple[exp.Expr, exp.Expr]] = []
        at: exp.Expr = node
        while isinstance(at, kinds) and not isinstance(at.expression, exp.Interval):
            terms.append((at.expression, at))
            at = at.this
        if len(terms) > _CHAIN:
            for _, operand in terms:
                only(operand, "this", "expression", "typed", "safe")
            terms = [(at, exp.Add()), *reversed(terms)]
            signs = ["-" if isinstance(of, exp.Sub) else "+" for _, of in terms]
            adds = isinstance(node, exp.Add | exp.Sub)
            step = None if adds else RULES[type(node)].build
            return Rule(partial(_chain, step, signs)), [term for term, _ in terms]
    if isinstance(getattr(node, "expression", None), exp.Interval):
        if not isinstance(node, exp.Add | exp.Sub):
            reason = f"{said(node)}: an interval can only be added to or subtracted from a date"
            refuse(node, reason, "write for example x + INTERVAL 3 DAY")
        return SHIFTED, SHIFTED.parts(node)
    result = RULES.get(type(node))
    if result is None:
        if isinstance(node, exp.Window):
            reason = f"the window function {said(node)} would show values of single rows"
            refuse(node, reason, "use GROUP BY and an aggregate")
        way = _INSTEAD.get(
            type(node),
            "use arithmetic, comparisons, CASE, COALESCE, CAST, and functions of numbers, text and "
            "dates that the documentation on private SQL lists",
        )
        refuse(node, f"{said(node)} is not on the list of supported SQL expressions", way)
    return result, result.parts(node)


def _chain(step: Any, signs: list[str], tree: Tree, node: exp.Expr, *operands: Node) -> Node:
    """Return a long chain: its terms are put together in pairs."""

    def pair(a: tuple[str, Node], b: tuple[str, Node]) -> tuple[str, Node]:
        if step is not None:
            return "+", step(tree, node, a[1], b[1])
        if a[0] == b[0]:
            return a[0], RULES[exp.Add].build(tree, node, a[1], b[1])
        first, second = (a, b) if a[0] == "+" else (b, a)
        return "+", RULES[exp.Sub].build(tree, node, first[1], second[1])

    terms = list(zip(signs, operands, strict=True))
    while len(terms) > 1:
        odd = terms[len(terms) // 2 * 2 :]
        terms = [*itertools.starmap(pair, zip(terms[::2], terms[1::2], strict=False)), *odd]
    return terms[0][1]


def value_of_subquery(node: exp.Subquery) -> Node:
    """Return the number that a subquery has released; OverUnits if it is to be released first."""
    known = node.meta.get(RELEASED)  # a comment of the query may hold text of this name
    if isinstance(known, Node):
        return known
    only(node, "this")
    way = (
        "write a subquery with one aggregate over all rows, without GROUP BY; EXISTS and IN are "
        "allowed as conditions of WHERE, by themselves or joined by AND"
    )
    reason = f"the subquery {said(node)} inside an expression is not supported"
    raise OverUnits(node.this, str(refusal(node, reason, way)))


def compiled_if(node: exp.Expr, scope: Scope) -> Node | None:
    """Return an expression as a node; None if this scope refuses it."""
    try:
        return compiled(node, scope)
    except ValueError:
        return None


def condition(node: exp.Expr, scope: Scope) -> Node:
    """Return an expression that is true, false or NULL."""
    return tested(node, compiled(node, scope))
