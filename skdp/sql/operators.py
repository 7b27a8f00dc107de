"""Rules of operators: numbers, comparisons, choices, and a common type of operands."""

from __future__ import annotations

import decimal as decimals
import math
import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import partial

from sqlglot import exp

from skdp.sql._syntax import only, refusal, refuse, said, signed_digits
from skdp.sql.ir import (
    BIGINT,
    BOOL,
    DATE,
    DOUBLE,
    FLOAT,
    MOST_FLOAT,
    NULL,
    NUMBERS,
    TEXT,
    TIMES,
    WORDS,
    Box,
    Node,
    Tree,
    Type,
    box,
    decimal,
    digits_of,
    integer,
    text_of,
    union_of,
)

TO_NUMBERS = (
    "use CAST(x AS DOUBLE) for text and booleans (a text that is not a number becomes NULL), and "
    "EXTRACT(YEAR FROM x) for dates"
)
TO_TEXT = "use CAST(x AS VARCHAR)"
TO_DATES = "use CAST(x AS DATE) for text (a text that is not a date becomes NULL)"
_ONLY_COUNTED = "use COUNT(x) or x IS NULL, or convert the column before the table is declared"
TRUTH = (0.0, 1.0)  # bounds of booleans
_ONE, _TWO = ("this",), ("this", "expression")  # operands


@dataclass(frozen=True)
class Rule:
    """How a kind of syntax becomes a node: from operands, and from parts that it reads itself."""

    apply: Callable[..., Node]
    operands: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    needs: str = ""  # what operands must be: numbers or text

    def build(self, tree: Tree, node: exp.Expr, *values: Node) -> Node:
        """Return the node, or refuse its operands."""
        if self.needs:
            check_operands(self.needs, node, self.parts(node), *values)
        return self.apply(tree, node, *values)

    def parts(self, node: exp.Expr) -> list[exp.Expr]:
        """Return the operands of a node, in their order."""
        only(node, *self.operands, *self.read)
        nodes: list[exp.Expr] = []
        for name in self.operands:
            part = node.args.get(name)
            nodes += part if isinstance(part, list) else [] if part is None else [part]
        return nodes


def check_operands(needs: str, node: exp.Expr, parts: Sequence[exp.Expr], *values: Node) -> None:
    """Refuse operands that are no numbers, or no text."""
    kinds, way = (NUMBERS, TO_NUMBERS) if needs == "numbers" else (("text",), TO_TEXT)
    for part, value in zip(parts, values, strict=True):
        if value.type.kind not in (*kinds, "null"):
            reason = f"{said(node)} needs {needs}, but {said(part)} holds"
            refuse(part, f"{reason} {WORDS[value.type.kind]}", way)


def tested(node: exp.Expr, value: Node) -> Node:
    """Return an operand that is true, false or NULL, or refuse it."""
    if value.type.kind not in ("bool", "null"):
        reason = f"{said(node)} holds {WORDS[value.type.kind]}, but a condition must be"
        way = "write a comparison, such as x > 0 or x IS NOT NULL"
        refuse(node, f"{reason} true or false", way)
    return value


# --- one type for several operands --------------------------------------------------------------


def alike(tree: Tree, node: exp.Expr, parts: list[Node]) -> tuple[Type, list[Node]]:
    """Return the common type of operands, and the operands in it, or refuse them."""
    typed = [part for part in parts if part.type.kind != "null"]
    kinds = {part.type.kind for part in typed}
    if "other" in kinds:
        reason = f"{said(node)} has values of a type that can only be counted"
        refuse(node, reason, _ONLY_COUNTED)
    if not kinds:
        return NULL, parts
    rest = kinds - {"text"}
    if kinds <= set(NUMBERS):
        goal = _number_type(typed)
    elif len(kinds) == 1:
        goal = max((part.type for part in typed), key=operator.attrgetter("scale", "width"))
    elif rest <= set(TIMES) or (len(rest) == 1 and rest <= {"uuid", "clock"}):
        types = [part.type for part in typed if part.type.kind in rest]
        kind = max(rest, key=("uuid", "clock", *TIMES).index)
        width = operator.attrgetter("width")
        goal = max((type_ for type_ in types if type_.kind == kind), key=width)
        goal = replace(goal, width=max(map(width, types)))
        if kind == "time":  # nanoseconds before microseconds
            goal = next((type_ for type_ in types if type_.scale == 9), goal)
        if any(part.type.kind == "text" and not isinstance(part.value, str) for part in typed):
            reason = f"{said(node)} mixes text and {' and '.join(sorted(WORDS[k] for k in rest))}"
            refuse(node, reason, TO_DATES)
        parts = [
            stated_moment(tree, node, part, goal) if part.type.kind == "text" else part
            for part in parts
        ]
    else:
        raise refusal(
            node,
            f"{said(node)} mixes {' and '.join(sorted({WORDS[k] for k in kinds}))}",
            "convert them to one type with CAST (a value that cannot be converted becomes NULL)",
        )
    return goal, [tree.to(part, goal) for part in parts]


def _number_type(parts: list[Node]) -> Type:
    free = [part.type for part in parts if part.value is None] or [part.type for part in parts]
    kinds = {part.type.kind for part in parts}
    literals = [abs(part.value) for part in parts if isinstance(part.value, Decimal)]
    if {type_.kind for type_ in free} == {"float"} and all(n < MOST_FLOAT for n in literals):
        return FLOAT  # literals are rounded as the cells are
    if kinds == {"int"}:
        most = max(part.type.width for part in parts)
        widest = max(free, key=lambda type_: type_.width)
        same = len({type_.sql for type_ in free}) == 1
        return widest if same and widest.width >= most else integer(most)
    if kinds <= {"int", "decimal"}:
        scale = max(part.type.scale for part in parts)
        width = max(digits_of(part.type) for part in parts) + scale
        if width <= 38:
            return decimal(width, scale)
    return DOUBLE


def stated_moment(tree: Tree, node: exp.Expr, value: Node, goal: Type) -> Node:
    """Return a literal date or time; it is public, so it may be refused."""
    way = {
        "date": "write it like '2026-01-31'",
        "time": "write it like '2026-01-31 12:30:00', without a time zone",
        "zoned": "write it like '2026-01-31 12:30:00+00'; without an offset it is in UTC",
        "clock": "write it like '12:30:00'",
        "uuid": "write it like '6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b'",
    }[goal.kind]
    try:
        return tree.moment(value.value, goal)
    except ValueError:
        what = WORDS[goal.kind].removesuffix("s").replace("timestamps", "timestamp")
        refuse(node, f"{value.value!r} is not a {what}", way)


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
    return tree.leaf(BOOL, "TRUE" if value else "FALSE", TRUTH, value=value)


# --- numbers ------------------------------------------------------------------------------------


_FOLDED = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _arithmetic(symbol: str, tree: Tree, node: exp.Expr, a: Node, b: Node) -> Node:
    if symbol == "-" and a.type.kind in TIMES:
        return _days_between(tree, node, a, b)
    check_operands("numbers", node, (node.this, node.expression), a, b)
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
        value = _decimals(tree, symbol, a, b, bounds)
        if value is not None:
            return value
    a, b = tree.to(a, DOUBLE), tree.to(b, DOUBLE)
    if symbol in "/%":
        b = tree.nonzero(b)
    return tree.make(DOUBLE, f"({{0}} {symbol} {{1}})", a, b, bounds=bounds)


def _folded(tree: Tree, symbol: str, a: Node, b: Node) -> Node | None:
    """Return the result for two literals, exactly: 0.06 + 0.01 is 0.07."""
    values = a.value, b.value
    if not all(isinstance(value, Decimal) for value in values) or symbol not in _FOLDED:
        return None
    double = symbol == "/" or "double" in (a.type.kind, b.type.kind)
    try:
        with decimals.localcontext(prec=80):
            return tree.number(_FOLDED[symbol](*values), DOUBLE if double else None)
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
    elif width() > 127 and symbol != "*":
        a, b = tree.narrow(a, 126), tree.narrow(b, 126)
    elif width() > 127:  # the wider operand has as many bits as the other one leaves
        least = min(a.type.width, b.type.width, 63)
        a, b = tree.narrow(a, 127 - least), tree.narrow(b, 127 - least)
        a, b = (a, tree.narrow(b)) if width() > 127 else (a, b)
    goal = integer(width())
    a, b = tree.to(a, goal), tree.to(b, goal)
    result = replace(goal, width=a.type.width) if symbol == "%" else goal
    return tree.make(result, f"({{0}} {symbol} {{1}})", a, b, bounds=bounds)


def _decimals(tree: Tree, symbol: str, a: Node, b: Node, bounds: Box) -> Node | None:
    """Return decimals added, multiplied, or a remainder; None beyond 38 digits."""
    digits, scales = (digits_of(a.type), digits_of(b.type)), (a.type.scale, b.type.scale)
    if symbol == "*":
        goal = decimal(sum(digits) + sum(scales), sum(scales))
    else:
        scale = max(scales)
        goal = decimal(max(digits) + scale + (symbol != "%"), scale)
    if goal.width > 38:
        return None
    if symbol == "%":
        a, b = tree.to(a, goal), tree.to(b, goal)
        return tree.make(goal, "({0} % {1})", a, tree.nonzero(b), bounds=bounds)
    # Beyond 18 digits DuckDB computes in 64 bits, and raises, unless an operand is wider.
    least = 19 if goal.width > 18 else 1
    a = tree.to(a, decimal(max(digits[0] + scales[0], least), scales[0]))
    b = tree.to(b, decimal(digits[1] + scales[1], scales[1]))
    return tree.make(goal, f"CAST(({{0}} {symbol} {{1}}) AS {goal.sql})", a, b, bounds=bounds)


def _int_div(tree: Tree, node: exp.IntDiv, a: Node, b: Node) -> Node:
    if {a.type.kind, b.type.kind} != {"int"}:
        refuse(node, f"{said(node)} needs integers on both sides", "use FLOOR(a / b)")
    return _integers(tree, "//", a, b, None)


def _neg(tree: Tree, node: exp.Neg, value: Node) -> Node:
    if isinstance(value.value, Decimal):
        return tree.number(-value.value, value.type if value.type.kind == "double" else None)
    if value.type.kind in ("double", "float"):
        bounds = value.bounds and (-value.bounds[1], -value.bounds[0])
        return tree.make(DOUBLE, "(0.0::DOUBLE - {0})", tree.to(value, DOUBLE), bounds=bounds)
    if value.type.kind == "int" and value.type.width == 127:
        return tree.make(value.type, "(-{0})", tree.with_negative(value))
    return _arithmetic("-", tree, node, tree.number(Decimal(0)), value)


def grown(bounds: Box, by: float) -> Box:
    """Return bounds that are wider at both ends."""
    return bounds and box(bounds[0] - by, bounds[1] + by)


def _abs(tree: Tree, node: exp.Expr, value: Node) -> Node:
    if value.type.kind == "null":
        return tree.null()
    bounds = None
    if value.bounds:
        low, high = sorted(map(abs, value.bounds))
        bounds = (0.0 if value.bounds[0] <= 0 <= value.bounds[1] else low, high)
    if value.type.kind == "int":  # the least integer of a type has no absolute value in it
        value = tree.with_negative(value)
        goal = integer(min(value.type.width + 1, 127))
        return tree.make(goal, "abs({0})", tree.to(value, goal), bounds=bounds)
    goal = replace(value.type, shown="") if value.type.kind == "decimal" else DOUBLE
    return tree.make(goal, "abs({0})", tree.to(value, goal), bounds=bounds)


def _rounded(name: str, tree: Tree, node: exp.Expr, value: Node) -> Node:
    """Return FLOOR or CEIL."""
    if value.type.kind in ("int", "null"):
        return value
    shape = {"floor": math.floor, "ceil": math.ceil}[name]
    bounds = value.bounds and (float(shape(value.bounds[0])), float(shape(value.bounds[1])))
    if value.type.kind == "decimal":
        goal = decimal(min(digits_of(value.type) + 1, 38), 0)
        return tree.make(goal, f"TRY_CAST({name}({{0}}) AS {goal.sql})", value, bounds=bounds)
    return tree.make(DOUBLE, f"{name}({{0}})", tree.to(value, DOUBLE), bounds=bounds)


def _round(tree: Tree, node: exp.Round, value: Node) -> Node:
    given = node.args.get("decimals")
    places = 0 if given is None else small_integer(given, 15, "the number of decimals")
    bounds = grown(value.bounds, 10.0**-places)
    if value.type.kind == "null" or (value.type.kind == "int" and places >= 0):
        return value
    if value.type.kind == "decimal" and places >= 0:
        if places >= value.type.scale:
            return value
        goal = decimal(min(digits_of(value.type) + places + 1, 38), places)
        sql = f"TRY_CAST(round({{0}}, {places}) AS {goal.sql})"
        return tree.make(goal, sql, value, bounds=bounds)
    if value.type.kind == "int" and value.type.width <= 63:
        goal, tens = integer(max(value.type.width, 50) + 1), 10**-places
        half = f"CASE WHEN {{0}} < 0 THEN {{0}} - {tens // 2} ELSE {{0}} + {tens // 2} END"
        sql = f"(({half}) // {tens} * {tens})"
        return tree.make(goal, sql, tree.to(value, goal), bounds=bounds, let=0)
    return tree.make(DOUBLE, f"round({{0}}, {places})", tree.to(value, DOUBLE), bounds=bounds)


def _of_double(sql: str, type_: Type = DOUBLE) -> Rule:
    """Return the rule of a function of a DOUBLE."""
    let = 0 if sql.count("{0}") > 1 else None
    return Rule(
        lambda tree, node, value: tree.make(type_, sql, tree.to(value, DOUBLE), let=let),
        _ONE,
        needs="numbers",
    )


def small_integer(node: exp.Expr | None, most: int, what: str, *, text: bool = False) -> int:
    """Return a literal integer (with `text`, also one in quotes), or refuse."""
    with suppress(ValueError):
        value = int(signed_digits(node, text=text))
        if abs(value) <= most:
            return value
    given = "" if node is None else f", not {said(node)}"
    reason = f"{what} must be a literal integer of at most {most}{given}"
    raise refusal(node, reason, f"write a number from 0 to {most}")


def _days_between(tree: Tree, node: exp.Expr, first: Node, second: Node) -> Node:
    if first.type.kind == "date" and second.type.kind == "text" and second.value is not None:
        second = stated_moment(tree, node, second, DATE)
    if not first.type.kind == second.type.kind == "date":
        reason = f"the difference {said(node)} needs a DATE on both sides"
        refuse(node, reason, "write CAST(x AS DATE) - CAST(y AS DATE), or DATE_DIFF")
    days = tree.tamed(first), tree.tamed(second)
    return tree.make(BIGINT, "CAST(({0} - {1}) AS BIGINT)", *days)


# --- comparisons and logic ----------------------------------------------------------------------


def _truth(sql: str, tree: Tree, node: exp.Expr, *parts: Node) -> Node:
    """Return a comparison."""
    _, args = alike(tree, node, list(parts))
    return tree.make(BOOL, sql, *args, bounds=TRUTH)


def _in(tree: Tree, node: exp.In, *parts: Node) -> Node:
    if node.args.get("query") is not None:
        reason = "IN (SELECT ...) inside of OR, CASE or another expression is not supported"
        refuse(node, reason, "make it a condition of WHERE, by itself or joined to others by AND")
    holes = ", ".join(f"{{{i}}}" for i in range(1, len(parts)))
    return _truth(f"({{0}} IN ({holes}))", tree, node, *parts)


def _logic(word: str, tree: Tree, node: exp.Expr, a: Node, b: Node) -> Node:
    a, b = tested(node.this, a), tested(node.expression, b)
    return tree.make(BOOL, f"({{0}} {word} {{1}})", a, b, bounds=TRUTH)


def _not(tree: Tree, node: exp.Not, value: Node) -> Node:
    return tree.make(BOOL, "(NOT {0})", tested(node.this, value), bounds=TRUTH)


def _is(tree: Tree, node: exp.Is, operand: Node) -> Node:
    if isinstance(node.expression, exp.Null):
        return tree.make(BOOL, "({0} IS NULL)", operand, bounds=TRUTH)
    if not isinstance(node.expression, exp.Boolean):
        refuse(node, f"{said(node)} is not supported", "use IS NULL, IS TRUE or IS FALSE")
    if operand.type.kind not in ("bool", "null"):
        reason = f"{said(node)} needs a boolean before IS, but {said(node.this)} holds"
        refuse(node, f"{reason} {WORDS[operand.type.kind]}", "write a comparison, such as x = 1")
    value = "TRUE" if node.expression.this else "FALSE"
    return tree.make(BOOL, f"({{0}} IS NOT DISTINCT FROM {value})", operand, bounds=TRUTH)


# --- choices ------------------------------------------------------------------------------------


class _Branches(Rule):
    def parts(self, node: exp.Expr) -> list[exp.Expr]:
        only(node, "this", "ifs", "default")
        parts = [part for part in (node.this, node.args.get("default")) if part is not None]
        for branch in node.args["ifs"]:
            only(branch, "this", "true")
            parts += [branch.this, branch.args["true"]]
        return parts


def _case(tree: Tree, node: exp.Case, *parts: Node) -> Node:
    rest = list(parts)
    simple = None if node.this is None else rest.pop(0)
    default = tree.null() if node.args.get("default") is None else rest.pop(0)
    tests, values = rest[::2], rest[1::2]
    if simple is None:
        for branch, test in zip(node.args["ifs"], tests, strict=True):
            tested(branch.this, test)
    return _chosen(tree, node, simple, tests, [*values, default])


def _chosen(
    tree: Tree, node: exp.Expr, simple: Node | None, tests: list[Node], values: list[Node]
) -> Node:
    """Return CASE. The operand of a simple CASE gets a name: it is compared several times."""
    goal, chosen = alike(tree, node, values)
    prefix, let, count = "", None, len(tests)
    args = [*tests, *chosen]
    if simple is not None:
        _, (simple, *tests) = alike(tree, node, [simple, *tests])
        let = len(args)
        prefix, args = f"{{{let}}} = ", [*tests, *chosen, simple]
    branches = " ".join(f"WHEN {prefix}{{{i}}} THEN {{{count + i}}}" for i in range(count))
    sql = f"(CASE {branches} ELSE {{{2 * count}}} END)"
    return tree.make(goal, sql, *args, bounds=union_of(values), let=let)


def _if(tree: Tree, node: exp.If, test: Node, true: Node, *false: Node) -> Node:
    tests = [tested(node.this, test)]
    return _chosen(tree, node, None, tests, [true, *(false or (tree.null(),))])


def _several(name: str, tree: Tree, node: exp.Expr, *parts: Node) -> Node:
    """Return a function of any number of values of one type."""
    goal, args = alike(tree, node, list(parts))
    if goal.kind == "null":
        return tree.null()
    holes = ", ".join(f"{{{i}}}" for i in range(len(args)))
    return tree.make(goal, f"{name}({holes})", *args, bounds=union_of(parts))


def _nullif(tree: Tree, node: exp.Nullif, a: Node, b: Node) -> Node:
    if a.type.kind == "null":
        return a
    _, (operand, other) = alike(tree, node, [a, b])
    if operand.args == (a,) and operand.let is None:  # compared in another type
        sql = f"(CASE WHEN {operand.parts} = {{1}} THEN NULL ELSE {{0}} END)"
        return tree.make(replace(a.type, shown=""), sql, a, other, bounds=a.bounds, let=0)
    sql = "(CASE WHEN {0} = {1} THEN NULL ELSE {0} END)"
    return tree.make(operand.type, sql, operand, other, bounds=a.bounds, let=0)


_COMPARED = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="} | {
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_OF_SEVERAL = {exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least"}

OPERATORS: dict[type, Rule] = {
    exp.Literal: Rule(_literal, (), ("this", "is_string")),
    exp.Boolean: Rule(_boolean, (), ("this",)),
    exp.Null: Rule(lambda tree, node: tree.null()),
    exp.Paren: Rule(lambda tree, node, operand: operand, _ONE),
    **{
        kind: Rule(partial(_arithmetic, s), _TWO, ("typed", "safe"))
        for kind, s in _ARITHMETIC.items()
    },
    exp.IntDiv: Rule(_int_div, _TWO, needs="numbers"),
    exp.Neg: Rule(_neg, _ONE, needs="numbers"),
    exp.Abs: Rule(_abs, _ONE, needs="numbers"),
    exp.Floor: Rule(partial(_rounded, "floor"), _ONE, needs="numbers"),
    exp.Ceil: Rule(partial(_rounded, "ceil"), _ONE, needs="numbers"),
    exp.Round: Rule(_round, _ONE, ("decimals",), needs="numbers"),
    exp.Sqrt: _of_double("(CASE WHEN {0} >= 0 THEN sqrt(greatest({0}, 0.0::DOUBLE)) END)"),
    exp.Ln: _of_double("(CASE WHEN {0} > 0 THEN ln(greatest({0}, '5e-324'::DOUBLE)) END)"),
    exp.IsNan: _of_double("isnan({0})", BOOL),
    **{kind: Rule(partial(_truth, f"({{0}} {s} {{1}})"), _TWO) for kind, s in _COMPARED.items()},
    exp.Between: Rule(partial(_truth, "({0} BETWEEN {1} AND {2})"), ("this", "low", "high")),
    exp.In: Rule(_in, ("this", "expressions"), ("query",)),
    exp.And: Rule(partial(_logic, "AND"), _TWO),
    exp.Or: Rule(partial(_logic, "OR"), _TWO),
    exp.Not: Rule(_not, _ONE),
    exp.Is: Rule(_is, _ONE, ("expression",)),
    exp.Case: _Branches(_case),
    exp.If: Rule(_if, ("this", "true", "false")),
    **{
        kind: Rule(partial(_several, name), ("this", "expressions"), ("ignore_nulls",))
        for kind, name in _OF_SEVERAL.items()
    },
    exp.Nullif: Rule(_nullif, _TWO),
}
