"""The closed list of SQL expressions that are answered: of each its operands and its rule.

A rule says the type, the SQL and the bounds of a node. `skdp.sql.ir` says why no node raises.
"""

from __future__ import annotations

import decimal as decimals
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

from sqlglot import exp

from skdp.sql._refusals import OverUnits, only, refusal, refuse, said
from skdp.sql.ir import (
    BIGINT,
    BOOL,
    DATE,
    DOUBLE,
    FLOAT,
    LONGEST,
    MOST_FLOAT,
    MOST_YEARS,
    NULL,
    NUMBERS,
    TEXT,
    TIME,
    TIMES,
    WORDS,
    Box,
    Node,
    TooLargeError,
    Tree,
    Type,
    box,
    column_type,
    decimal,
    digits_of,
    integer,
    text_of,
    union_of,
)

__all__ = ["RELEASED", "RULES", "TO_NUMBERS", "Scope", "alike", "compiled", "condition"]

RELEASED = "skdp_released"  # in the meta of a subquery: what it has released
TO_NUMBERS = (
    "use CAST(x AS DOUBLE) for text and booleans (a text that is not a number becomes NULL), and "
    "EXTRACT(YEAR FROM x) for dates"
)
_TO_DATES = "use CAST(x AS DATE) for text (a text that is not a date becomes NULL)"
_ONLY_COUNTED = "use COUNT(x) or x IS NULL, or convert the column before the table is declared"
_ONE_SET = "write columns in GROUP BY, and one query for each set of columns"
_INSTEAD: dict[type, str] = {
    **dict.fromkeys((exp.Cube, exp.Rollup, exp.GroupingSets), _ONE_SET),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp), "write the date itself"),
}
_CHAIN = 50  # longer chains of +, AND, OR and || are computed in pairs: nesting has a limit
_TRUTH = (0.0, 1.0)


class Scope(Protocol):
    """Where an expression stands: what its names mean, and what else it may hold there."""

    @property
    def tree(self) -> Tree:
        """Return the nodes of the query."""

    def column(self, node: exp.Column) -> Node:
        """Return what a name means, or refuse it."""

    def special(self, node: exp.Expr) -> Node | None:
        """Return what a node means here and nowhere else; None for what means the same."""


@dataclass(frozen=True)
class Rule:
    """Of one kind of syntax: what its node is made of, which parts are operands, and others."""

    made: Callable[..., Node]
    operands: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    def parts(self, node: exp.Expr) -> list[exp.Expr]:
        """Return the operands of a node, in their order."""
        only(node, *self.operands, *self.stated)
        found: list[exp.Expr] = []
        for name in self.operands:
            part = node.args.get(name)
            found += part if isinstance(part, list) else [] if part is None else [part]
        return found


def compiled(root: exp.Expr, scope: Scope) -> Node:
    """Return an expression as a node, or refuse it. Each part is looked at once.

    Raises
    ------
    QueryRefusedError
    """
    seen, at = scope.tree.seen, id(scope)
    stack: list[tuple[exp.Expr, Rule | None, list[exp.Expr]]] = [(root, None, [])]
    while stack:
        node, rule, parts = stack.pop()
        if (at, id(node)) in seen:
            continue
        try:
            if rule is None:
                found = _whole(node, scope)
                if found is None:
                    rule, parts = _rule(node)
                    if not parts:
                        found = rule.made(scope.tree, node)
            else:
                found = rule.made(scope.tree, node, *(seen[at, id(part)][0] for part in parts))
        except TooLargeError as error:
            refuse(node, str(error), "use fewer or shorter parts, or compute some in a subquery")
        if found is None:
            stack.append((node, rule, parts))
            stack += [(part, None, []) for part in reversed(parts)]
        else:
            seen[at, id(node)] = found, node, scope  # both are kept: their ids stay theirs
    one: Node = seen[at, id(root)][0]
    return one


def _whole(node: exp.Expr, scope: Scope) -> Node | None:
    """Return what is no operator: a column, a subquery, what only this scope knows."""
    if isinstance(node, exp.Subquery):
        return value_of_subquery(node)
    found = scope.special(node)
    if found is None and isinstance(node, exp.Column):
        found = scope.column(node)
    return found


def _rule(node: exp.Expr) -> tuple[Rule, list[exp.Expr]]:
    """Return the rule for a node and its operands."""
    kinds = next((kinds for kinds in _CHAINS if isinstance(node, kinds)), None)
    if kinds is not None:
        terms: list[tuple[exp.Expr, exp.Expr]] = []
        at: exp.Expr = node
        while isinstance(at, kinds) and not isinstance(at.expression, exp.Interval):
            terms.append((at.expression, at))
            at = at.this
        if len(terms) > _CHAIN:
            for _, one in terms:
                only(one, *_TWO, "typed", "safe")
            terms = [(at, exp.Add()), *reversed(terms)]
            signs = ["-" if isinstance(of, exp.Sub) else "+" for _, of in terms]
            steps: dict[type, Any] = {exp.And: _and, exp.Or: _or, exp.DPipe: _joined}
            step = steps.get(type(node))
            return Rule(_chained(step, signs)), [term for term, _ in terms]
    if isinstance(getattr(node, "expression", None), exp.Interval):
        if not isinstance(node, exp.Add | exp.Sub):
            reason = f"{said(node)}: an interval can only be added to or subtracted from a date"
            refuse(node, reason, "write for example x + INTERVAL 3 DAY")
        rule = Rule(_shifted, ("this",), ("expression", "typed", "safe"))
        return rule, rule.parts(node)
    found = RULES.get(type(node))
    if found is None:
        if isinstance(node, exp.Window):
            reason = f"the window function {said(node)} would show values of single rows"
            refuse(node, reason, "use GROUP BY and an aggregate")
        way = _INSTEAD.get(
            type(node),
            "use arithmetic, comparisons, CASE, COALESCE, CAST, and functions of numbers, text and "
            "dates that the documentation on private SQL lists",
        )
        refuse(node, f"{said(node)} is not on the list of supported SQL expressions", way)
    return found, found.parts(node)


def _chained(step: Any, signs: list[str]) -> Callable[..., Node]:
    """Return the rule of a long chain: its terms are put together in pairs."""

    def made(tree: Tree, node: exp.Expr, *terms: Node) -> Node:
        rest = list(zip(signs, terms, strict=True))
        while len(rest) > 1:
            pairs = []
            for (a_sign, a), *more in (rest[i : i + 2] for i in range(0, len(rest), 2)):
                if not more:
                    pairs.append((a_sign, a))
                    continue
                ((b_sign, b),) = more
                if step is not None:
                    pairs.append(("+", step(tree, node, a, b)))
                elif a_sign == b_sign:
                    pairs.append((a_sign, _arithmetic("+")(tree, node, a, b)))
                else:
                    first, second = (a, b) if a_sign == "+" else (b, a)
                    pairs.append(("+", _arithmetic("-")(tree, node, first, second)))
            rest = pairs
        return rest[0][1]

    return made


def value_of_subquery(node: exp.Subquery) -> Node:
    """Return the number that a subquery has released.

    Raises
    ------
    OverUnits
        If it is to be released first.
    """
    known = node.meta.get(RELEASED)  # a comment of the query may hold text of this name
    if isinstance(known, Node):
        return known
    only(node, "this")
    error = refusal(
        node,
        f"the subquery {said(node)} inside an expression is not supported",
        "write a subquery with one aggregate over all rows, without GROUP BY; EXISTS and IN are "
        "allowed as conditions of WHERE, by themselves or joined by AND",
    )
    raise OverUnits(node.this, str(error))


def condition(node: exp.Expr, scope: Scope) -> Node:
    """Return an expression that is true, false or NULL."""
    return _test(node, compiled(node, scope))


def _test(node: exp.Expr, one: Node) -> Node:
    if one.type.kind not in ("bool", "null"):
        reason = f"{said(node)} holds {WORDS[one.type.kind]}, but a condition must be true or false"
        refuse(node, reason, "write a comparison, such as x > 0 or x IS NOT NULL")
    return one


# --- one type for several operands --------------------------------------------------------------


def alike(tree: Tree, node: exp.Expr, parts: list[Node]) -> tuple[Type, list[Node]]:
    """Return the type that operands have in common, and the operands in it."""
    typed = [one for one in parts if one.type.kind != "null"]
    kinds = {one.type.kind for one in typed}
    if "other" in kinds:
        reason = f"{said(node)} has values of a type that can only be counted"
        refuse(node, reason, _ONLY_COUNTED)
    if not kinds:
        return NULL, parts
    stated = [one for one in typed if one.type.kind == "text" and isinstance(one.value, str)]
    rest = kinds - {"text"}
    if kinds <= set(NUMBERS):
        goal = _number_type(typed)
    elif len(kinds) == 1:
        goal = max((one.type for one in typed), key=operator.attrgetter("scale", "width"))
    elif rest <= set(TIMES) or (len(rest) == 1 and rest <= {"uuid", "clock"}):
        kind = max(rest, key=("uuid", "clock", *TIMES).index)
        scale = max(one.type.scale for one in typed if one.type.kind in rest)
        goal = max((one.type for one in typed if one.type.kind == kind), key=lambda t: t.width)
        goal = replace(goal, width=max(one.type.width for one in typed if one.type.kind in rest))
        if kind == "time" and scale == 9:
            goal = next(one.type for one in typed if one.type.scale == 9)
        if "text" in kinds and len(stated) < sum(one.type.kind == "text" for one in typed):
            reason = f"{said(node)} mixes text and {' and '.join(sorted(WORDS[k] for k in rest))}"
            refuse(node, reason, _TO_DATES)
        parts = [_moment(tree, node, one, goal) if one in stated else one for one in parts]
    else:
        raise refusal(
            node,
            f"{said(node)} mixes {' and '.join(sorted({WORDS[k] for k in kinds}))}",
            "convert them to one type with CAST (a value that cannot be converted becomes NULL)",
        )
    return goal, [tree.to(one, goal) for one in parts]


def _number_type(parts: list[Node]) -> Type:
    free = [one.type for one in parts if one.value is None] or [one.type for one in parts]
    kinds = {one.type.kind for one in parts}
    stated = [abs(one.value) for one in parts if isinstance(one.value, Decimal)]
    if {one.kind for one in free} == {"float"} and max(stated, default=Decimal()) < MOST_FLOAT:
        return FLOAT  # stated numbers are rounded as the cells are
    if kinds == {"int"}:
        most = max(one.type.width for one in parts)
        same = {one.sql for one in free}
        fits = max(one.width for one in free) >= most
        return max(free, key=lambda t: t.width) if len(same) == 1 and fits else integer(most)
    if kinds <= {"int", "decimal"}:
        scale = max(one.type.scale for one in parts)
        width = max(digits_of(one.type) for one in parts) + scale
        if width <= 38:
            return decimal(width, scale)
    return DOUBLE


def _moment(tree: Tree, node: exp.Expr, one: Node, goal: Type) -> Node:
    """Return a stated date or time: it is public, so it may be refused."""
    way = {
        "date": "write it like '2026-01-31'",
        "time": "write it like '2026-01-31 12:30:00', without a time zone",
        "zoned": "write it like '2026-01-31 12:30:00+00'; without an offset it is in UTC",
        "clock": "write it like '12:30:00'",
        "uuid": "write it like '6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b'",
    }[goal.kind]
    try:
        return tree.moment(one.value, goal)
    except ValueError:
        what = WORDS[goal.kind].removesuffix("s").replace("timestamps", "timestamp")
        refuse(node, f"{one.value!r} is not a {what}", way)


# --- leaves -------------------------------------------------------------------------------------


def _literal(tree: Tree, node: exp.Literal) -> Node:
    text = str(node.this)
    if node.is_string:
        if "\0" in text:
            refuse(node, "a text with the character of code 0 is not supported", "leave it out")
        return tree.leaf(TEXT, text_of(text), value=text)
    try:
        return tree.number(Decimal(text), DOUBLE if "e" in text.lower() else None)
    except (InvalidOperation, OverflowError, ValueError):
        refuse(node, f"{said(node)} is not a finite number", "write a number below 1e308")


def _boolean(tree: Tree, node: exp.Boolean) -> Node:
    value = bool(node.this)
    return tree.leaf(BOOL, "TRUE" if value else "FALSE", _TRUTH, value=value)


# --- numbers ------------------------------------------------------------------------------------


def _check_numbers(node: exp.Expr, *parts: Node) -> None:
    for one in parts:
        if one.type.kind not in (*NUMBERS, "null"):
            part = node.args.get(("this", "expression")[parts.index(one)]) or node.this
            reason = f"{said(node)} needs numbers, but {said(part)} holds"
            refuse(part, f"{reason} {WORDS[one.type.kind]}", TO_NUMBERS)


_SYMBOLS: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_FOLDED = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _arithmetic(symbol: str) -> Callable[..., Node]:
    """Return the rule of an operator of two numbers."""

    def made(tree: Tree, node: exp.Expr, a: Node, b: Node) -> Node:
        if symbol == "-" and a.type.kind in TIMES:
            return _days_between(tree, node, a, b)
        _check_numbers(node, a, b)
        if "null" in (a.type.kind, b.type.kind):
            return tree.null()
        folded = _folded(tree, symbol, a, b)
        if folded is not None:
            return folded
        bounds = _range(symbol, a, b)
        kinds = {a.type.kind, b.type.kind}
        if kinds == {"int"} and symbol != "/":
            return _integers(tree, symbol, a, b, bounds)
        if kinds <= {"int", "decimal"} and symbol != "/":
            found = _decimals(tree, symbol, a, b, bounds)
            if found is not None:
                return found
        a, b = tree.to(a, DOUBLE), tree.to(b, DOUBLE)
        if symbol in "/%":
            b = tree.nonzero(b)
        return tree.make(DOUBLE, f"({{0}} {symbol} {{1}})", a, b, bounds=bounds)

    return made


def _folded(tree: Tree, symbol: str, a: Node, b: Node) -> Node | None:
    """Return what two stated numbers make: 0.06 + 0.01 is 0.07."""
    values = a.value, b.value
    if not all(isinstance(value, Decimal) for value in values) or symbol not in _FOLDED:
        return None
    try:
        with decimals.localcontext(prec=80):
            value = _FOLDED[symbol](*values)
            if symbol == "/":
                return tree.number(value, DOUBLE)
            double = "double" in (a.type.kind, b.type.kind)
            return tree.number(value, DOUBLE if double else None)
    except (ArithmeticError, ValueError):
        return None


def _range(symbol: str, a: Node, b: Node) -> Box:
    if symbol == "/":
        if a.bounds and isinstance(b.value, Decimal) and b.value:
            return box(*sorted(x / float(b.value) for x in a.bounds))
        return None
    if a.bounds is None or b.bounds is None or symbol == "%":
        return None
    if symbol == "*":
        ends = [x * y for x in a.bounds for y in b.bounds]
        return box(min(ends), max(ends))
    low, high = b.bounds if symbol == "+" else (-b.bounds[1], -b.bounds[0])
    return box(a.bounds[0] + low, a.bounds[1] + high)


def _integers(tree: Tree, symbol: str, a: Node, b: Node, bounds: Box) -> Node:
    """Return integers added, multiplied or divided; exact up to 127 bits."""

    def width() -> int:
        if symbol == "*":
            return a.type.width + b.type.width
        most = max(a.type.width, b.type.width)
        return most + 1 if symbol in "+-" or (signed and most < 127) else most

    # The least integer of a type, divided by -1, is too large for it.
    signed = symbol in ("//", "%") and not (isinstance(b.value, Decimal) and b.value > 0)
    if symbol in ("//", "%"):
        if signed:
            a, b = tree.with_negative(a), tree.with_negative(b)
        b = tree.nonzero(b)
    elif width() > 127:
        a, b = tree.narrow(a), tree.narrow(b)
    goal = integer(width())
    a, b = tree.to(a, goal), tree.to(b, goal)
    result = replace(goal, width=a.type.width) if symbol == "%" else goal
    return tree.make(result, f"({{0}} {symbol} {{1}})", a, b, bounds=bounds)


def _decimals(tree: Tree, symbol: str, a: Node, b: Node, bounds: Box) -> Node | None:
    """Return decimals added, multiplied, or a remainder; None beyond 38 digits."""
    whole, scales = (digits_of(a.type), digits_of(b.type)), (a.type.scale, b.type.scale)
    if symbol == "*":
        goal = decimal(sum(whole) + sum(scales), sum(scales))
    else:
        scale = max(scales)
        goal = decimal(max(whole) + scale + (symbol != "%"), scale)
    if goal.width > 38:
        return None
    if symbol == "%":
        a, b = tree.to(a, goal), tree.to(b, goal)
        return tree.make(goal, "({0} % {1})", a, tree.nonzero(b), bounds=bounds)
    # Beyond 18 digits DuckDB computes in 64 bits, and raises, unless an operand is wider.
    least = 19 if goal.width > 18 else 1
    a = tree.to(a, decimal(max(whole[0] + scales[0], least), scales[0]))
    b = tree.to(b, decimal(whole[1] + scales[1], scales[1]))
    return tree.make(goal, f"CAST(({{0}} {symbol} {{1}}) AS {goal.sql})", a, b, bounds=bounds)


def _int_div(tree: Tree, node: exp.IntDiv, a: Node, b: Node) -> Node:
    _check_numbers(node, a, b)
    if {a.type.kind, b.type.kind} != {"int"}:
        refuse(node, f"{said(node)} needs integers on both sides", "use FLOOR(a / b)")
    return _integers(tree, "//", a, b, None)


def _neg(tree: Tree, node: exp.Neg, one: Node) -> Node:
    _check_numbers(node, one)
    if isinstance(one.value, Decimal):
        return tree.number(-one.value, one.type if one.type.kind == "double" else None)
    if one.type.kind in ("double", "float"):
        bounds = one.bounds and (-one.bounds[1], -one.bounds[0])
        return tree.make(DOUBLE, "(0.0::DOUBLE - {0})", tree.to(one, DOUBLE), bounds=bounds)
    if one.type.kind == "int" and one.type.width == 127:
        return tree.make(one.type, "(-{0})", tree.with_negative(one))
    return _arithmetic("-")(tree, node, tree.number(Decimal(0)), one)


def _grown(bounds: Box, by: float) -> Box:
    return bounds and box(bounds[0] - by, bounds[1] + by)


def _abs(tree: Tree, node: exp.Expr, one: Node) -> Node:
    _check_numbers(node, one)
    ends = one.bounds and sorted(map(abs, one.bounds))
    bounds = None
    if ends and one.bounds:
        bounds = (0.0 if one.bounds[0] <= 0 <= one.bounds[1] else ends[0], ends[1])
    if one.type.kind == "null":
        return tree.null()
    if one.type.kind == "int":  # the least integer of a type has no absolute value in it
        one = tree.with_negative(one)
        goal = integer(min(one.type.width + 1, 127))
        return tree.make(goal, "abs({0})", tree.to(one, goal), bounds=bounds)
    goal = one.type if one.type.kind == "decimal" else DOUBLE
    goal = replace(goal, shown="")
    return tree.make(goal, "abs({0})", tree.to(one, goal), bounds=bounds)


def _rounded(name: str) -> Callable[..., Node]:
    """Return the rule of FLOOR or CEIL."""
    shape = {"floor": math.floor, "ceil": math.ceil}[name]

    def made(tree: Tree, node: exp.Expr, one: Node) -> Node:
        _check_numbers(node, one)
        if one.type.kind in ("int", "null"):
            return one
        bounds = one.bounds and (float(shape(one.bounds[0])), float(shape(one.bounds[1])))
        if one.type.kind == "decimal":
            goal = decimal(min(digits_of(one.type) + 1, 38), 0)
            return tree.make(goal, f"TRY_CAST({name}({{0}}) AS {goal.sql})", one, bounds=bounds)
        return tree.make(DOUBLE, f"{name}({{0}})", tree.to(one, DOUBLE), bounds=bounds)

    return made


def _round(tree: Tree, node: exp.Round, one: Node) -> Node:
    _check_numbers(node, one)
    given = node.args.get("decimals")
    places = 0 if given is None else _small_integer(given, 15, "the number of decimals")
    bounds = _grown(one.bounds, 10.0**-places)
    if one.type.kind == "null" or (one.type.kind == "int" and places >= 0):
        return one
    if one.type.kind == "decimal" and places >= 0:
        if places >= one.type.scale:
            return one
        goal = decimal(min(digits_of(one.type) + places + 1, 38), places)
        sql = f"TRY_CAST(round({{0}}, {places}) AS {goal.sql})"
        return tree.make(goal, sql, one, bounds=bounds)
    if one.type.kind == "int" and one.type.width <= 63:
        goal, tens = integer(max(one.type.width, 50) + 1), 10**-places
        half = f"CASE WHEN {{0}} < 0 THEN {{0}} - {tens // 2} ELSE {{0}} + {tens // 2} END"
        sql = f"(({half}) // {tens} * {tens})"
        return tree.make(goal, sql, tree.to(one, goal), bounds=bounds, let=0)
    return tree.make(DOUBLE, f"round({{0}}, {places})", tree.to(one, DOUBLE), bounds=bounds)


def _with_domain(sql: str, type_: Type = DOUBLE) -> Callable[..., Node]:
    """Return the rule of a function of a DOUBLE, which its SQL has several times."""

    def made(tree: Tree, node: exp.Expr, one: Node) -> Node:
        _check_numbers(node, one)
        let = 0 if sql.count("{0}") > 1 else None
        return tree.make(type_, sql, tree.to(one, DOUBLE), let=let)

    return made


def _small_integer(node: exp.Expr | None, most: int, what: str, *, text: bool = False) -> int:
    """Return an integer that the query states, or refuse."""
    negative = isinstance(node, exp.Neg)
    inner = node.this if negative and node is not None else node
    if isinstance(inner, exp.Literal) and (text or not inner.is_string):
        try:
            value = int(str(inner.this))
        except ValueError:
            value = most + 1
        if abs(value) <= most:
            return -value if negative else value
    given = "" if node is None else f", not {said(node)}"
    reason = f"{what} must be a literal integer of at most {most}{given}"
    raise refusal(node, reason, f"write a number from 0 to {most}")


# --- dates --------------------------------------------------------------------------------------


def _dated(tree: Tree, node: exp.Expr, one: Node, part: exp.Expr | None = None) -> Node:
    """Return a date or time as a TIMESTAMP, of the years that its type says."""
    if one.type.kind not in TIMES:
        reason = f"{said(node)} needs a date or timestamp, but {said(part or node.this)} holds"
        refuse(part or node, f"{reason} {WORDS[one.type.kind]}", _TO_DATES)
    return tree.local(one)


# Of each part of a date its bounds, None for those of the year.
_PARTS: dict[str, Any] = {
    "year": None,
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dayofweek": (0, 6),
    "isodow": (1, 7),
    "dayofyear": (1, 366),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "millisecond": (0, 59_999),
    "microsecond": (0, 59_999_999),
    "epoch": None,
    "isoyear": None,
}
_CLOCK = ("hour", "minute", "second", "millisecond", "microsecond", "epoch")
_SAME_PARTS = {"dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear"} | {
    f"{name}s": name for name in _PARTS
}
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _part(tree: Tree, node: exp.Expr, name: str, one: Node, part: exp.Expr) -> Node:
    name = _SAME_PARTS.get(name, name)
    if name not in _PARTS:
        *first, last = _PARTS
        way = f"use {', '.join(first)} or {last}"
        refuse(node, f"EXTRACT of {name!r} from a date is not supported", way)
    if one.type.kind == "clock" and name in _CLOCK:
        goal = DOUBLE if name == "epoch" else BIGINT
        return tree.make(goal, f"{name}({{0}})", one, bounds=_PARTS[name] and _floats(_PARTS[name]))
    moment = _dated(tree, node, one, part)
    if name == "epoch":
        return tree.make(DOUBLE, "epoch({0})", moment)
    years = moment.type.width
    ends = _PARTS[name] or ((0 if not years else -years), 9999 + years)
    return tree.make(integer(32), f"{name}({{0}})", moment, bounds=_floats(ends))


def _floats(pair: tuple[int, int]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def _part_function(name: str) -> Rule:
    return Rule(lambda tree, node, one: _part(tree, node, name, one, node.this), ("this",))


def _extract(tree: Tree, node: exp.Extract, one: Node) -> Node:
    return _part(tree, node, node.this.name.lower(), one, node.expression)


def _unit_of(node: exp.Expr, what: str, units: tuple[str, ...] = _UNITS) -> str:
    given = node.args.get("unit")
    unit = "" if given is None else _SAME_PARTS.get(given.name.lower(), given.name.lower())
    if unit not in units:
        way = f"use {', '.join(map(repr, units[:-1]))} or {units[-1]!r}"
        refuse(node, f"{what} {unit!r} is not supported", way)
    return unit


def _trunc(tree: Tree, node: exp.Expr, one: Node) -> Node:
    unit = _unit_of(node, "DATE_TRUNC to")
    moment = _dated(tree, node, one)
    found = tree.make(replace(moment.type, shown=""), f"date_trunc('{unit}', {{0}})", moment)
    return tree.to(found, replace(one.type, shown="")) if one.type.kind == "zoned" else found


def _date_diff(tree: Tree, node: exp.Expr, last: Node, first: Node) -> Node:
    unit = _unit_of(node, "DATE_DIFF in")
    kinds = {one.type.kind for one in (last, first)} & set(TIMES)
    goal = (
        TIME if kinds != {"zoned"} else next(t.type for t in (last, first) if t.type.kind in kinds)
    )
    ends = []
    for one, part in ((first, node.expression), (last, node.this)):
        given = one
        if one.type.kind == "text" and isinstance(one.value, str) and kinds:
            given = _moment(tree, node, one, goal)
        ends.append(_dated(tree, node, given, part))
    sql = f"date_diff('{unit}', {{0}}, {{1}})"
    return tree.make(BIGINT, sql, *ends)


_FORMAT = re.compile(r"(?:[^%]|%(?:-[dmyHIMSj]|[aAbBcdfgGHIjmMnpSuUVwWxXyYzZ%]))*")


def _strftime(tree: Tree, node: exp.TimeToStr, one: Node, form: Node) -> Node:
    moment, pattern, part = one, form, node.this
    if one.type.kind == "text" and form.type.kind != "text":  # DuckDB takes both orders
        moment, pattern, part = form, one, node.args["format"]
    text = pattern.value
    if not isinstance(text, str) or len(text) > 100 or not _FORMAT.fullmatch(text):
        reason = f"the format of {said(node)} is not a text literal of DuckDB's format letters"
        refuse(node, reason, "write for example STRFTIME(x, '%Y-%m'), with at most 100 characters")
    stated = tree.leaf(TEXT, text_of(text), value=text)
    return tree.make(TEXT, "strftime({0}, {1})", _dated(tree, node, moment, part), stated)


def _name_of_day(name: str) -> Rule:
    return Rule(
        lambda tree, node, one: tree.make(TEXT, f"{name}({{0}})", _dated(tree, node, one)),
        ("this",),
    )


_YEARS = {"YEAR": 1.0, "MONTH": 1 / 12, "WEEK": 1 / 52, "DAY": 1 / 365}


def _shifted(tree: Tree, node: exp.Binary, one: Node) -> Node:
    span = node.expression
    only(span, "this", "unit")
    unit = span.args["unit"].name.upper() if span.args.get("unit") is not None else ""
    unit = unit.rstrip("S")
    if unit not in ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"):
        way = "use YEAR, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND, such as INTERVAL 3 DAY"
        refuse(node, f"the unit of {said(span)} is not supported", way)
    count = _small_integer(span.this, 10_000, "the length of an interval", text=True)
    moment = _dated(tree, node, one)
    years = moment.type.width + math.ceil(abs(count) * _YEARS.get(unit, 1 / 8760)) + 1
    if years > MOST_YEARS:
        reason = f"{said(node)} moves a date by more than {MOST_YEARS:,} years"
        refuse(node, reason, "use shorter intervals")
    symbol = "+" if isinstance(node, exp.Add) else "-"
    sql = f"({{0}} {symbol} INTERVAL ({count}) {unit})"
    goal = replace(TIME, width=years)
    if one.type.kind == "date" and unit in _YEARS:
        return tree.make(replace(DATE, width=years), f"CAST({sql} AS DATE)", moment)
    if one.type.kind == "zoned":
        zoned = replace(one.type, width=years, shown="")
        return tree.make(zoned, f"timezone('UTC', {sql})", moment)
    return tree.make(goal, sql, moment)


def _days_between(tree: Tree, node: exp.Expr, first: Node, second: Node) -> Node:
    reason = f"the difference {said(node)} needs a DATE on both sides"
    way = "write CAST(x AS DATE) - CAST(y AS DATE), or DATE_DIFF"
    if first.type.kind != "date":
        refuse(node, reason, way)
    if second.type.kind == "text" and isinstance(second.value, str):
        second = _moment(tree, node, second, DATE)
    if second.type.kind != "date":
        refuse(node, reason, way)
    days = tree.tamed(first), tree.tamed(second)
    return tree.make(BIGINT, "CAST(({0} - {1}) AS BIGINT)", *days)


# --- comparisons and logic ----------------------------------------------------------------------


def _truth(sql: str) -> Callable[..., Node]:
    """Return the rule of a comparison."""

    def made(tree: Tree, node: exp.Expr, *parts: Node) -> Node:
        _, args = alike(tree, node, list(parts))
        return tree.make(BOOL, sql, *args, bounds=_TRUTH)

    return made


def _in(tree: Tree, node: exp.In, *parts: Node) -> Node:
    holes = ", ".join(f"{{{i}}}" for i in range(1, len(parts)))
    return _truth(f"({{0}} IN ({holes}))")(tree, node, *parts)


class _Membership(Rule):
    def parts(self, node: exp.Expr) -> list[exp.Expr]:
        if node.args.get("query") is not None:
            reason = "IN (SELECT ...) inside of OR, CASE or another expression is not supported"
            way = "make it a condition of WHERE, by itself or joined to others by AND"
            refuse(node, reason, way)
        return super().parts(node)


def _logic(word: str) -> Callable[..., Node]:
    def made(tree: Tree, node: exp.Expr, *parts: Node) -> Node:
        for part, one in zip((node.this, node.expression), parts, strict=True):
            _test(part, one)
        return tree.make(BOOL, f"({{0}} {word} {{1}})", *parts, bounds=_TRUTH)

    return made


_and, _or = _logic("AND"), _logic("OR")


def _not(tree: Tree, node: exp.Not, one: Node) -> Node:
    return tree.make(BOOL, "(NOT {0})", _test(node.this, one), bounds=_TRUTH)


def _is(tree: Tree, node: exp.Is, one: Node) -> Node:
    if isinstance(node.expression, exp.Null):
        return tree.make(BOOL, "({0} IS NULL)", one, bounds=_TRUTH)
    if isinstance(node.expression, exp.Boolean) and one.type.kind in ("bool", "null"):
        value = "TRUE" if node.expression.this else "FALSE"
        return tree.make(BOOL, f"({{0}} IS NOT DISTINCT FROM {value})", one, bounds=_TRUTH)
    if isinstance(node.expression, exp.Boolean):
        reason = f"{said(node)} needs a boolean before IS, but {said(node.this)} holds"
        refuse(node, f"{reason} {WORDS[one.type.kind]}", "write a comparison, such as x = 1")
    raise refusal(node, f"{said(node)} is not supported", "use IS NULL, IS TRUE or IS FALSE")


# --- choices ------------------------------------------------------------------------------------


class _Branches(Rule):
    def parts(self, node: exp.Expr) -> list[exp.Expr]:
        only(node, "this", "ifs", "default")
        found = [part for part in (node.this, node.args.get("default")) if part is not None]
        for branch in node.args["ifs"]:
            only(branch, "this", "true")
            found += [branch.this, branch.args["true"]]
        return found


def _case(tree: Tree, node: exp.Case, *parts: Node) -> Node:
    rest = list(parts)
    simple = None if node.this is None else rest.pop(0)
    default = tree.null() if node.args.get("default") is None else rest.pop(0)
    tests, values = rest[::2], rest[1::2]
    if simple is None:
        for branch, test in zip(node.args["ifs"], tests, strict=True):
            _test(branch.this, test)
    return _chosen(tree, node, simple, tests, [*values, default])


def _chosen(
    tree: Tree, node: exp.Expr, simple: Node | None, tests: list[Node], values: list[Node]
) -> Node:
    """Return CASE. The operand of a simple CASE gets a name: it is compared several times."""
    goal, chosen = alike(tree, node, values)
    prefix, let, args = "", None, [*tests, *chosen]
    if simple is not None:
        _, (simple, *tests) = alike(tree, node, [simple, *tests])
        prefix, let, args = (
            f"{{{len(tests) + len(chosen)}}} = ",
            len(tests) + len(chosen),
            [
                *tests,
                *chosen,
                simple,
            ],
        )
    count = len(tests)
    branches = " ".join(f"WHEN {prefix}{{{i}}} THEN {{{count + i}}}" for i in range(count))
    sql = f"(CASE {branches} ELSE {{{2 * count}}} END)"
    return tree.make(goal, sql, *args, bounds=union_of(values), let=let)


def _if(tree: Tree, node: exp.If, test: Node, true: Node, *false: Node) -> Node:
    tests = [_test(node.this, test)]
    return _chosen(tree, node, None, tests, [true, *(false or (tree.null(),))])


def _several(name: str) -> Rule:
    """Return the rule of a function of any number of values that are alike."""

    def made(tree: Tree, node: exp.Expr, *parts: Node) -> Node:
        goal, args = alike(tree, node, list(parts))
        if goal.kind == "null":
            return tree.null()
        holes = ", ".join(f"{{{i}}}" for i in range(len(args)))
        return tree.make(goal, f"{name}({holes})", *args, bounds=union_of(parts))

    return Rule(made, ("this", "expressions"), ("ignore_nulls",))


def _nullif(tree: Tree, node: exp.Nullif, a: Node, b: Node) -> Node:
    if a.type.kind == "null":
        return a
    _, (one, other) = alike(tree, node, [a, b])
    if one.args == (a,) and one.let is None:  # compared in another type
        sql = f"(CASE WHEN {one.parts} = {{1}} THEN NULL ELSE {{0}} END)"
        return tree.make(replace(a.type, shown=""), sql, a, other, bounds=a.bounds, let=0)
    sql = "(CASE WHEN {0} = {1} THEN NULL ELSE {0} END)"
    return tree.make(one.type, sql, one, other, bounds=a.bounds, let=0)


# --- casts --------------------------------------------------------------------------------------


def _integer_of(width: int, kind: str) -> tuple[str, Type]:
    return kind, Type("int", kind, width)


_CASTS: dict[str, tuple[str, Type]] = {
    "TINYINT": _integer_of(7, "TINYINT"),
    "SMALLINT": _integer_of(15, "SMALLINT"),
    "INT": _integer_of(31, "INTEGER"),
    "BIGINT": ("BIGINT", BIGINT),
    "INT128": _integer_of(127, "HUGEINT"),
    "UTINYINT": ("UTINYINT", Type("int", "SMALLINT", 8)),
    "USMALLINT": ("USMALLINT", Type("int", "INTEGER", 16)),
    "UINT": ("UINTEGER", Type("int", "BIGINT", 32)),
    "UBIGINT": ("UBIGINT", Type("int", "HUGEINT", 64)),
    "FLOAT": ("FLOAT", FLOAT),
    "DOUBLE": ("DOUBLE", DOUBLE),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), ("VARCHAR", TEXT)),
    "BOOLEAN": ("BOOLEAN", BOOL),
    "DATE": ("DATE", DATE),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), ("TIMESTAMP", TIME)),
}
_STATED = {
    "TIME": column_type("TIME"),
    "UUID": column_type("UUID"),
    "TIMESTAMPTZ": column_type("TIMESTAMP WITH TIME ZONE"),
}
_PARTS_OF_DATES = (
    "write EXTRACT(YEAR FROM x), or x - DATE '2020-01-01' for the days since then of a date"
)


def _cast(tree: Tree, node: exp.Cast, one: Node) -> Node:
    name = node.to.this.name if hasattr(node.to.this, "name") else ""
    via, goal = _CASTS.get(name, ("", NULL))
    if name == "DECIMAL":
        via, goal = name, _decimal_of(node)
    if name in _STATED and isinstance(one.value, str):  # such as TIME '12:30:00'
        return _moment(tree, node, one, _STATED[name])
    if goal == NULL:
        reason = f"a cast to {said(node.to)} is not supported"
        way = "cast to BIGINT, DOUBLE, DECIMAL, VARCHAR, BOOLEAN, DATE or TIMESTAMP"
        refuse(node, reason, way)
    kind = one.type.kind
    if kind == "other":
        reason = f"{said(node)}: {said(node.this)} has a type that can only be counted"
        refuse(node, reason, "convert the column before the table is declared")
    if kind == "text" and isinstance(one.value, str) and goal.kind in TIMES:
        return _moment(tree, node, one, goal)
    if kind == "null":
        return one
    if kind != "text" and goal.kind != "text" and _FAMILIES.get(kind, kind) != _FAMILIES[goal.kind]:
        times = _FAMILIES[goal.kind] == "time"
        reason = f"{said(node)} can only give NULL: {said(node.this)} holds {WORDS[kind]}"
        refuse(node, reason, _TO_DATES if times else _PARTS_OF_DATES)
    if kind in TIMES and goal.kind in TIMES:
        return one if one.type.sql == goal.sql else tree.to(tree.tamed(one), goal)
    if kind == "zoned":  # as DuckDB writes it in UTC
        sql = "(CAST({0} AS VARCHAR) || '+00')"
        return tree.make(TEXT, sql, tree.local(one))
    if (kind, one.type.sql) == (goal.kind, goal.sql) and one.type.width <= goal.width:
        return one if goal.kind in NUMBERS else replace_shown(tree, one)
    bounds = None
    if kind in NUMBERS and goal.kind in NUMBERS:
        bounds = one.bounds if goal.kind in ("double", "float") else _grown(one.bounds, 1.0)
    elif kind == "bool" and goal.kind in NUMBERS:
        bounds = _TRUTH
    if goal.kind in ("date", "time"):
        goal = replace(goal, width=10**9)
    sql = f"TRY_CAST({{0}} AS {goal.sql if via == 'DECIMAL' else via})"
    if via not in ("DECIMAL", goal.sql):
        sql = f"CAST({sql} AS {goal.sql})"
        goal = replace(goal, shown=via)
    return tree.make(goal, sql, one, bounds=bounds)


def replace_shown(tree: Tree, one: Node) -> Node:
    """Return a text as VARCHAR, which a column of an ENUM is not."""
    return one if not one.type.shown else tree.make(TEXT, "{0}", one) if one.type == TEXT else one


# What is cast to what; times of day, UUIDs and binary values to text and back alone.
_FAMILIES = {
    **dict.fromkeys((*NUMBERS, "bool"), "number"),
    **dict.fromkeys(TIMES, "time"),
    "text": "text",
}


def _decimal_of(node: exp.Cast) -> Type:
    params = [_small_integer(p.this, 38, "a precision or scale") for p in node.to.expressions]
    width, scale = ([*params, 0] if params else [18, 3])[:2]
    if not (1 <= width <= 38 and 0 <= scale <= width):
        way = "write DECIMAL(p, s) with p from 1 to 38 and s from 0 to p"
        refuse(node, f"there is no type {said(node.to)}", way)
    return decimal(width, scale)


# --- text ---------------------------------------------------------------------------------------


def _check_texts(node: exp.Expr, *parts: Node) -> None:
    for place, one in enumerate(parts):
        if one.type.kind not in ("text", "null"):
            listed = node.expressions or [node.this, node.args.get("expression")]
            part = listed[place] if place < len(listed) and listed[place] is not None else node.this
            reason = f"{said(node)} needs text, but {said(part)} holds {WORDS[one.type.kind]}"
            refuse(part, reason, "use CAST(x AS VARCHAR)")


def _text(sql: str, type_: Type = TEXT) -> Rule:
    """Return the rule of a function of one text."""

    def made(tree: Tree, node: exp.Expr, one: Node) -> Node:
        _check_texts(node, one)
        return tree.make(type_, sql, one)

    return Rule(made, ("this",))


def _stated_text(tree: Tree, node: exp.Expr, part: exp.Expr, what: str) -> Node:
    if not (isinstance(part, exp.Literal) and part.is_string) or "\0" in str(part.this):
        reason = f"{what} in {said(node)} must be a text literal"
        refuse(part, reason, "write a text in quotes, such as 'abc', without the character 0")
    return tree.leaf(TEXT, text_of(str(part.this)), value=str(part.this))


def _matches(sql: str) -> Rule:
    """Return the rule of a comparison of a text with a stated one."""

    def made(tree: Tree, node: exp.Expr, one: Node) -> Node:
        _check_texts(node, one)
        pattern = _stated_text(tree, node, node.expression, "the pattern")
        given = sql.replace("{0} ", "{0} NOT ") if node.args.get("negate") else sql
        return tree.make(BOOL, given, one, pattern, bounds=_TRUTH)

    return Rule(made, ("this",), ("expression", "negate"))


def _substring(tree: Tree, node: exp.Substring, one: Node) -> Node:
    _check_texts(node, one)
    start = _small_integer(node.args.get("start"), 10**6, "the position of SUBSTRING")
    length = node.args.get("length")
    size = LONGEST if length is None else _small_integer(length, 10**6, "the length of SUBSTRING")
    if size < 0 or start < 0:
        reason = f"{said(node)}: position and length must not be negative"
        refuse(node, reason, "use RIGHT(x, n) for the last n characters")
    return tree.make(TEXT, f"substring({{0}}, {start}, {size})", one)


def _end_of_text(name: str) -> Rule:
    def made(tree: Tree, node: exp.Expr, one: Node) -> Node:
        _check_texts(node, one)
        size = _small_integer(node.expression, 10**6, f"the length of {name.upper()}")
        if size < 0:
            refuse(node, f"{said(node)}: the length must not be negative", "write 0 or more")
        return tree.make(TEXT, f'"{name}"({{0}}, {size})', one)

    return Rule(made, ("this",), ("expression",))


def _joined(tree: Tree, node: exp.Expr, *parts: Node) -> Node:
    """Return texts put together, cut: otherwise few steps fill any memory."""
    _check_texts(node, *parts)
    hole = "coalesce({{{}}}, '')" if isinstance(node, exp.Concat) else "{{{}}}"
    pieces = " || ".join(f'"left"({hole.format(i)}, {LONGEST})' for i in range(len(parts)))
    return tree.make(TEXT, f'"left"({pieces}, {LONGEST})', *parts)


def _replace(tree: Tree, node: exp.Replace, one: Node) -> Node:
    _check_texts(node, one)
    old = _stated_text(tree, node, node.expression, "the text to replace")
    new = _stated_text(tree, node, node.args["replacement"], "the replacement")
    if len(new.value) > 10 * max(len(old.value), 1):
        reason = f"{said(node)}: the new text may be at most ten times as long as the old one"
        refuse(node, reason, "use a shorter text")
    inner = f'replace("left"({{0}}, {LONGEST}), {{1}}, {{2}})'
    return tree.make(TEXT, f'"left"({inner}, {LONGEST})', one, old, new)


# --- the list -----------------------------------------------------------------------------------

_TWO = ("this", "expression")
_ONE = ("this",)
_COMPARED = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="} | {
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_CHAINS: tuple[tuple[type, ...], ...] = ((exp.Add, exp.Sub), (exp.And,), (exp.Or,), (exp.DPipe,))

# What is answered, by exact type of syntax.
RULES: dict[type, Rule] = {
    exp.Literal: Rule(_literal, (), ("this", "is_string")),
    exp.Boolean: Rule(_boolean, (), ("this",)),
    exp.Null: Rule(lambda tree, node: tree.null()),
    exp.Paren: Rule(lambda tree, node, one: one, _ONE),
    **{
        kind: Rule(_arithmetic(symbol), _TWO, ("typed", "safe"))
        for kind, symbol in _SYMBOLS.items()
    },
    exp.IntDiv: Rule(_int_div, _TWO),
    exp.Neg: Rule(_neg, _ONE),
    exp.Abs: Rule(_abs, _ONE),
    exp.Floor: Rule(_rounded("floor"), _ONE),
    exp.Ceil: Rule(_rounded("ceil"), _ONE),
    exp.Round: Rule(_round, _ONE, ("decimals",)),
    exp.Sqrt: Rule(
        _with_domain("(CASE WHEN {0} >= 0 THEN sqrt(greatest({0}, 0.0::DOUBLE)) END)"), _ONE
    ),
    exp.Ln: Rule(
        _with_domain("(CASE WHEN {0} > 0 THEN ln(greatest({0}, '5e-324'::DOUBLE)) END)"), _ONE
    ),
    exp.IsNan: Rule(_with_domain("isnan({0})", BOOL), _ONE),
    exp.Year: _part_function("year"),
    exp.Quarter: _part_function("quarter"),
    exp.Month: _part_function("month"),
    exp.Week: _part_function("week"),
    exp.Day: _part_function("day"),
    exp.DayOfWeek: _part_function("dayofweek"),
    exp.DayOfWeekIso: _part_function("isodow"),
    exp.DayOfYear: _part_function("dayofyear"),
    exp.Hour: _part_function("hour"),
    exp.Minute: _part_function("minute"),
    exp.Second: _part_function("second"),
    exp.TimeToUnix: _part_function("epoch"),
    exp.Extract: Rule(_extract, ("expression",), ("this",)),
    exp.Monthname: _name_of_day("monthname"),
    exp.Dayname: _name_of_day("dayname"),
    exp.TimestampTrunc: Rule(_trunc, _ONE, ("unit",)),
    exp.DateTrunc: Rule(_trunc, _ONE, ("unit",)),
    exp.DateDiff: Rule(_date_diff, _TWO, ("unit", "date_part_boundary")),
    exp.TimeToStr: Rule(_strftime, ("this", "format")),
    **{kind: Rule(_truth(f"({{0}} {symbol} {{1}})"), _TWO) for kind, symbol in _COMPARED.items()},
    exp.Between: Rule(_truth("({0} BETWEEN {1} AND {2})"), ("this", "low", "high")),
    exp.In: _Membership(_in, ("this", "expressions")),
    exp.And: Rule(_and, _TWO),
    exp.Or: Rule(_or, _TWO),
    exp.Not: Rule(_not, _ONE),
    exp.Is: Rule(_is, _ONE, ("expression",)),
    exp.Case: _Branches(_case),
    exp.If: Rule(_if, ("this", "true", "false")),
    exp.Coalesce: _several("coalesce"),
    exp.Greatest: _several("greatest"),
    exp.Least: _several("least"),
    exp.Nullif: Rule(_nullif, _TWO),
    exp.Cast: Rule(_cast, _ONE, ("to", "safe")),
    exp.TryCast: Rule(_cast, _ONE, ("to", "safe")),
    exp.Lower: _text("lower({0})"),
    exp.Upper: _text("upper({0})"),
    exp.Trim: _text("trim({0})"),
    exp.Length: _text("length({0})", integer(32)),
    exp.Like: _matches("({0} LIKE {1})"),
    exp.ILike: _matches("({0} ILIKE {1})"),
    exp.StartsWith: _matches("starts_with({0}, {1})"),
    exp.Contains: _matches("contains({0}, {1})"),
    exp.Substring: Rule(_substring, _ONE, ("start", "length")),
    exp.Left: _end_of_text("left"),
    exp.Right: _end_of_text("right"),
    exp.DPipe: Rule(_joined, _TWO, ("safe",)),
    exp.Concat: Rule(_joined, ("expressions",), ("safe", "coalesce")),
    exp.Replace: Rule(_replace, _ONE, ("expression", "replacement")),
}
