"""Row expressions as a typed tree: types, nodes, conversions, and SQL written once.

Every node has a value or NULL, whatever is in the cells of its row. No node raises, and none
depends on another row. So no cell decides whether a query fails:

- integers carry a width in bits. Up to 127 bits they are exact; where a result may be wider, an
  operand that leaves no room for it is NULL;
- decimals carry their digits. Up to 38 they are exact; beyond that they become DOUBLE;
- DOUBLE follows IEEE 754, where nothing overflows but to infinity;
- dates are NULL outside the years 1 to 9999 before anything is computed from them. Intervals may
  move them further, and the type says how far;
- timestamps with a time zone are computed in UTC, whatever the connection's time zone is;
- casts are TRY_CAST, a divisor of zero gives NULL, texts are cut at `LONGEST` characters.

These widths come from types, never from declared bounds, which cells may break. No TRY(...) is
used: DuckDB takes common parts of expressions out of it, where they raise.

Equal nodes are one object. SQL is as long as the query: a rule that needs a long operand twice
gives it a name. Nesting and length have limits, `DEEPEST` and `LONGEST_SQL`.
"""

from __future__ import annotations

import datetime
import itertools
import math
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from string import Formatter
from typing import Any

LONGEST = 1_000  # characters of a text
DEEPEST = 150  # DuckDB's parser stops at 1,000, and a node has up to six levels of SQL
LONGEST_SQL = 1_000_000
ANY_YEAR = 10**9
MOST_YEARS = 200_000  # DuckDB's timestamps end in the year 294,247
MOST_FLOAT = Decimal("3.4e38")
_SHORT = 200  # operands up to this length are written twice rather than named

Box = tuple[float, float] | None

NUMBERS = ("int", "decimal", "double", "float")
TIMES = ("date", "time", "zoned")
WORDS = {
    "int": "integers",
    **dict.fromkeys(("decimal", "double", "float"), "numbers"),
    "text": "text",
    "bool": "booleans",
    "date": "dates",
    "time": "timestamps",
    "zoned": "timestamps with a time zone",
    "clock": "times of day",
    "blob": "binary values",
    "uuid": "UUIDs",
    "null": "NULL",
    "other": "values of a type that can only be counted",
}


class TooLargeError(ValueError):
    """An expression is nested too deeply or too long; the text names the limit."""


# --- types --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Type:
    """The type of a node."""

    kind: str  # a key of `WORDS`
    sql: str  # the type in DuckDB
    # Bits of integers, digits of decimals. Of dates and timestamps: how many years they may lie
    # outside the years 1 to 9999; `ANY_YEAR` where that is not known.
    width: int = 0
    scale: int = 0  # digits of decimals after the point
    shown: str = field(default="", compare=False)  # a column's own type, for released keys

    @property
    def answer(self) -> str:
        """The type of a released key."""
        return self.shown or self.sql


DOUBLE, FLOAT = Type("double", "DOUBLE"), Type("float", "FLOAT")
TEXT, BOOL = Type("text", "VARCHAR"), Type("bool", "BOOLEAN")
NULL, OTHER = Type("null", "INTEGER"), Type("other", "UBIGINT")
BIGINT = Type("int", "BIGINT", 63)
DATE, TIME = Type("date", "DATE"), Type("time", "TIMESTAMP")
ZONED = Type("zoned", "TIMESTAMP WITH TIME ZONE")

# Integer columns: bits, and the type of computations, the next larger one of unsigned integers.
_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_INTEGERS = {name: (8 * 2**i - 1, name) for i, name in enumerate(_SIGNED)} | {
    f"U{name}": (8 * 2**i, larger) for i, (name, larger) in enumerate(itertools.pairwise(_SIGNED))
}
_INTEGERS["UHUGEINT"] = _INTEGERS["HUGEINT"]  # NULL beyond
_OTHERS = {
    "DOUBLE": DOUBLE,
    "FLOAT": FLOAT,
    "VARCHAR": TEXT,
    "BOOLEAN": BOOL,
    "DATE": replace(DATE, width=ANY_YEAR),
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "DATETIME"), replace(TIME, width=ANY_YEAR)
    ),
    "TIMESTAMP_NS": Type("time", "TIMESTAMP_NS", 0, 9),
    "TIMESTAMP WITH TIME ZONE": replace(ZONED, width=ANY_YEAR),
    "TIME": Type("clock", "TIME"),
    "BLOB": Type("blob", "BLOB"),
    "UUID": Type("uuid", "UUID"),
}


@cache
def column_type(kind: str) -> Type:
    """Return the type of a column of a table, from its type in DuckDB."""
    base = kind.upper()
    if base.endswith("]"):
        return OTHER
    base, _, rest = (part.strip() for part in base.partition("("))
    if base in _INTEGERS:
        return Type("int", _INTEGERS[base][1], _INTEGERS[base][0], shown=kind)
    if base == "DECIMAL":
        width, _, scale = rest.rstrip(")").partition(",")
        return replace(decimal(int(width), int(scale)), shown=kind)
    if base == "ENUM":
        return replace(TEXT, shown=kind)
    return replace(_OTHERS[base], shown=kind) if base in _OTHERS else OTHER


def integer(width: int) -> Type:
    """Return the type of integers of so many bits."""
    return Type("int", "BIGINT" if width <= 63 else "HUGEINT", width)


def decimal(width: int, scale: int) -> Type:
    """Return the type of decimals of so many digits."""
    return Type("decimal", f"DECIMAL({width}, {scale})", width, scale)


def digits_of(kind: Type) -> int:
    """Return the largest number of digits before the point of a number."""
    return kind.width - kind.scale if kind.kind == "decimal" else len(str(2**kind.width))


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_of(value: str) -> str:
    """Return a text as a literal."""
    return "'" + value.replace("'", "''") + "'"


# --- nodes --------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Node:
    """A value of a row: a column, a literal, or an operator with its operands."""

    type: Type
    parts: str  # SQL with holes {0}, {1} for operands; without operands the SQL itself
    args: tuple[Node, ...] = ()
    bounds: Box = None  # of the value, if columns are within their declared bounds
    value: Any = None  # a literal's value: Decimal, str or bool
    tags: frozenset[str] = frozenset()  # of a column: which ids it holds
    let: int | None = None  # the long operand that `parts` has several times: it is given a name
    depth: int = 1  # nested nodes
    length: int = 0  # characters of SQL

    @property
    def sql(self) -> str:
        """The node as SQL of DuckDB: every operand is written where it is used."""
        return _written(self, itertools.count(1))


def _written(node: Node, names: Iterator[int]) -> str:
    if not node.args:
        return node.parts
    name = operand = ""
    if node.let is not None:
        name = f"skdp_v{next(names)}"
        operand = _written(node.args[node.let], names)
    sql = ""
    for text, hole in _pieces(node.parts):
        sql += text
        if hole is not None:
            sql += name if hole == node.let else _written(node.args[hole], names)
    return sql if node.let is None else f"list_transform([{operand}], lambda {name}: {sql})[1]"


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes and all from which they are computed, each once."""
    stack, seen = list(nodes)[::-1], set()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            stack += reversed(node.args)
            yield node


@cache
def _pieces(parts: str) -> tuple[tuple[str, int | None], ...]:
    """Return SQL with holes as pairs: a text, and the operand after it."""
    result = Formatter().parse(parts)
    return tuple((text, None if hole is None else int(hole)) for text, hole, _, _ in result)


class Tree:
    """Makes the nodes of a query; equal nodes are one object."""

    def __init__(self) -> None:
        self.known: dict[Any, Node] = {}
        # Nodes by scope and syntax: see `skdp.sql.rules.compiled`.
        self.seen: dict[tuple[int, int], Any] = {}

    def make(
        self,
        type_: Type,
        parts: str,
        *args: Node,
        bounds: Box = None,
        let: int | None = None,
    ) -> Node:
        """Return a node with operands; `let` is the operand that its SQL has more than once."""
        key = (type_, type_.shown, parts, bounds, *map(id, args))
        node = self.known.get(key)
        if node is None:
            depth, length = 1 + max((arg.depth for arg in args), default=0), len(parts)
            if let is not None and args[let].length <= _SHORT:
                let = None
            for _, hole in _pieces(parts) if args else ():
                length += 12 if hole is None or hole == let else args[hole].length
            if let is not None:
                length += args[let].length + 40
            if depth > DEEPEST:
                raise TooLargeError(f"the expression is nested more than {DEEPEST} levels deep")
            if length > LONGEST_SQL:
                raise TooLargeError(
                    f"the expression is too long: it has more than {LONGEST_SQL:,} characters of "
                    "DuckDB's SQL"
                )
            node = Node(type_, parts, args, bounds, let=let, depth=depth, length=length)
            self.known[key] = node
        return node

    def leaf(
        self,
        type_: Type,
        sql: str,
        bounds: Box = None,
        tags: Iterable[str] = (),
        value: Any = None,
    ) -> Node:
        """Return a node without operands: a column or a literal."""
        key = (type_, type_.shown, sql, bounds, frozenset(tags), value)
        if key not in self.known:
            self.known[key] = Node(type_, sql, (), bounds, value, key[4], length=len(sql))
        return self.known[key]

    def null(self, type_: Type = NULL) -> Node:
        """Return NULL."""
        return self.leaf(type_, "NULL" if type_ == NULL else f"CAST(NULL AS {type_.sql})")

    # --- literals -----------------------------------------------------------------------------

    def number(self, value: Decimal, type_: Type | None = None) -> Node:
        """Return a literal number; OverflowError if no type holds it."""
        end = float(value)
        if not math.isfinite(end):
            raise OverflowError
        if type_ is None:
            exponent = int(value.as_tuple().exponent)
            if exponent == 0 and abs(value) < 2**126:
                type_ = integer(max(int(value).bit_length(), 1))
            else:
                width = max(len(value.as_tuple().digits), 1 - exponent)
                type_ = decimal(width, -exponent) if exponent < 0 and width <= 38 else DOUBLE
        if type_.kind == "int":
            sql = f"CAST({int(value)} AS {type_.sql})"
        elif type_.kind == "decimal":
            sql = f"CAST('{value:f}' AS {type_.sql})"
        else:
            sql = f"CAST('{end!r}' AS {type_.sql})"
        return self.leaf(type_, sql, (end, end), value=value)

    def moment(self, text: str, type_: Type) -> Node:
        """Return a literal date, timestamp, time of day or UUID; ValueError for other texts."""
        if type_.kind == "uuid":
            return self.leaf(type_, f"CAST('{uuid.UUID(text)}' AS UUID)")
        if type_.kind == "clock":
            clock = datetime.time.fromisoformat(text)
            if clock.tzinfo is not None:
                raise ValueError
            return self.leaf(type_, f"TIME '{clock.isoformat()}'")
        if type_.kind == "date":
            return self.leaf(DATE, f"DATE '{datetime.date.fromisoformat(text).isoformat()}'")
        instant = datetime.datetime.fromisoformat(text)
        if type_.kind == "zoned":
            utc = datetime.UTC
            try:
                instant = instant.replace(tzinfo=instant.tzinfo or utc).astimezone(utc)
            except OverflowError:
                raise ValueError from None
            shown = instant.replace(tzinfo=None).isoformat(sep=" ")
            return self.leaf(ZONED, f"TIMESTAMPTZ '{shown}+00'")
        if instant.tzinfo is not None:
            raise ValueError
        return self.leaf(TIME, f"TIMESTAMP '{instant.isoformat(sep=' ')}'")

    # --- conversions --------------------------------------------------------------------------

    def to(self, value: Node, goal: Type) -> Node:
        """Return a value in another type, NULL where it cannot be converted."""
        kind = value.type.kind
        if (kind, value.type.sql) == (goal.kind, goal.sql):
            return value
        if kind == "null":
            return self.null(goal)
        if isinstance(value.value, Decimal) and goal.kind in NUMBERS and _holds(goal, value.value):
            return self.number(value.value, goal)
        if kind in TIMES and goal.kind in TIMES:
            return self._to_time(value, goal)
        # Only these cannot fail; CAST lets DuckDB use its statistics.
        safe = (
            (kind in ("int", "decimal") and goal.kind == "double")
            or (kind, goal.kind) == ("float", "double")
            or (kind == goal.kind == "int" and value.type.width <= goal.width)
        )
        word = "CAST" if safe else "TRY_CAST"
        bounds = value.bounds if goal.kind in NUMBERS else None
        return self.make(goal, f"{word}({{0}} AS {goal.sql})", value, bounds=bounds)

    def _to_time(self, value: Node, goal: Type) -> Node:
        if value.type.kind == "zoned":
            return self.to(self.local(value), goal)
        if goal.kind == "zoned":
            value = self.tamed(self.to(value, TIME))
            return self.make(replace(goal, width=value.type.width), "timezone('UTC', {0})", value)
        if goal.kind == "date" or value.type.scale == 9:
            value = self.tamed(value)
        goal = replace(goal, width=0 if goal.scale == 9 else value.type.width)
        return self.make(goal, f"TRY_CAST({{0}} AS {goal.sql})", value)

    def tamed(self, value: Node) -> Node:
        """Return a date or timestamp of the years 1 to 9999, else NULL."""
        if value.type.width <= MOST_YEARS and value.type.scale != 9:
            return value
        if value.type.scale == 9:  # of the years 1677 to 2262, or infinite
            sql = "(CASE WHEN isfinite({0}) THEN {0} END)"
        else:
            low, high = "0001-01-01", "10000-01-01"
            if value.type.kind == "zoned":
                low, high = f"{low} 00:00:00+00", f"{high} 00:00:00+00"
            kind = "TIMESTAMPTZ" if value.type.kind == "zoned" else value.type.sql
            sql = f"(CASE WHEN {{0}} >= {kind} '{low}' AND {{0}} < {kind} '{high}' THEN {{0}} END)"
        return self.make(replace(value.type, width=0, shown=""), sql, value, let=0)

    def local(self, value: Node) -> Node:
        """Return a date or timestamp of the years 1 to 9999 as TIMESTAMP, zoned ones in UTC."""
        value = self.tamed(value)
        if value.type.sql == "TIMESTAMP":
            return value
        sql = "timezone('UTC', {0})" if value.type.kind == "zoned" else "CAST({0} AS TIMESTAMP)"
        if value.type.scale == 9:  # a cast would round, up to the next second
            sql = "make_timestamp(epoch_us({0}))"
        return self.make(replace(TIME, width=value.type.width), sql, value)

    def narrow(self, value: Node, most: int = 63) -> Node:
        """Return integers of so many bits, NULL where they have more."""
        if value.type.width <= most:
            return value
        if most == 63:
            return self.make(BIGINT, "TRY_CAST({0} AS BIGINT)", value, bounds=value.bounds)
        end = f"CAST({2**most - 1} AS HUGEINT)"
        sql = f"(CASE WHEN {{0}} BETWEEN -{end} AND {end} THEN {{0}} END)"
        return self.make(
            integer(most), sql, self.to(value, integer(127)), bounds=value.bounds, let=0
        )

    def with_negative(self, value: Node) -> Node:
        """Return integers whose negatives exist: -(2**127) is NULL."""
        if value.type.width < 127:
            return value
        sql = f"(CASE WHEN {{0}} > CAST('{-(2**127)}' AS HUGEINT) THEN {{0}} END)"
        return self.make(replace(value.type, shown=""), sql, value, bounds=value.bounds, let=0)

    def nonzero(self, value: Node) -> Node:
        """Return a divisor: NULL instead of zero."""
        if isinstance(value.value, Decimal) and value.value:
            return value
        sql = "(CASE WHEN {0} <> 0 THEN {0} END)"
        return self.make(value.type, sql, value, let=0, bounds=value.bounds)

    def answered(self, value: Node) -> Node:
        """Return a value for an answer: integers as BIGINT, unless computed from wider columns."""
        if value.type.kind != "int" or value.type.width <= 63:
            return value
        wide = any(n.value is None and not n.args and n.type.width > 63 for n in walk([value]))
        return value if wide else self.narrow(value)

    def missing_nan(self, value: Node) -> Node:
        """Return a value for an aggregate: NaN is missing."""
        if value.type.kind not in ("double", "float"):
            return value
        sql = "(CASE WHEN NOT isnan({0}) THEN {0} END)"
        return self.make(value.type, sql, value, bounds=value.bounds, let=0)

    def canonical(self, value: Node) -> Node:
        """Return a value of which equal ones have the same bits: see `canonical`."""
        if value.type.kind not in ("double", "float"):
            return value
        sql = canonical("{0}", value.type)
        result = self.make(value.type, sql, value, bounds=value.bounds, let=0)
        result.tags = value.tags
        return result


def _holds(goal: Type, value: Decimal) -> bool:
    """Say whether a type holds a literal number, exactly but for binary fractions."""
    if goal.kind == "int":
        return value == value.to_integral_value() and abs(value) < 2 ** min(goal.width, 126)
    if goal.kind == "decimal":
        exponent = int(value.as_tuple().exponent)
        return -exponent <= goal.scale and abs(value) < Decimal(10) ** (goal.width - goal.scale)
    return abs(value) < MOST_FLOAT or goal.kind == "double"


def canonical(sql: str, type_: Type) -> str:
    """Return SQL with one zero and one NaN.

    DuckDB's GROUP BY keeps one of several equal values, and which one depends on the order of rows
    of other units.
    """
    if type_.kind not in ("double", "float"):
        return sql
    kind = type_.sql
    return (
        f"(CASE WHEN {sql} = 0 THEN 0.0::{kind} WHEN isnan({sql}) THEN 'nan'::{kind} "
        f"ELSE {sql} END)"
    )


def box(low: float, high: float) -> Box:
    """Return bounds, None where they are not finite."""
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def union_of(parts: Iterable[Node]) -> Box:
    """Return bounds around those of all parts, None where one has none."""
    boxes = [part.bounds for part in parts if part.type.kind != "null"]
    known = [pair for pair in boxes if pair is not None]
    if not known or len(known) < len(boxes):
        return None
    return min(low for low, _ in known), max(high for _, high in known)
