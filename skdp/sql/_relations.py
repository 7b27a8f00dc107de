"""Relations, and the meaning of names in a SELECT."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from skdp.sql._catalog import folded
from skdp.sql._syntax import is_anonymized, item_at, only, refusal, refuse, said
from skdp.sql.ir import BIGINT, DOUBLE, NUMBERS, WORDS, Node, Tree, Type, decimal, quoted
from skdp.sql.operators import TO_NUMBERS
from skdp.sql.rules import compiled, compiled_if, condition

AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.Filter, exp.IgnoreNulls)
_SUBQUERIES = (exp.Subquery, exp.Select)


@dataclass(frozen=True)
class Field:
    """A column of a relation, with public facts."""

    name: str  # inside the relation's SQL
    type: Type
    bounds: tuple[float, float] | None = None
    tags: frozenset[str] = frozenset()  # which ids it holds
    keys: tuple[Any, ...] | None = None  # all values, as declared
    unique: bool = False  # names one row: the key of a declared owner, in the table itself


@dataclass(frozen=True)
class Relation:
    """A SELECT, with its columns by folded name."""

    sql: str
    fields: dict[str, Field]
    private: bool  # has a column ``u`` with the unit of each row
    matches: int = 1  # the most rows that public tables make of a private row
    pairs: int = 0  # the most rows of a unit in joins of private tables, 0 without such joins
    released: tuple[str, ...] | None = None  # of a released subquery: the columns that name a row
    once: bool = False  # each unit has one row at most


@dataclass(eq=False)
class RowScope:
    """Names of one SELECT; its subqueries see them, too."""

    tree: Tree
    parent: RowScope | None = None
    tables: list[tuple[str, Relation, str]] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)  # of USING: the first table's

    def own(self, node: exp.Column) -> tuple[Field, str] | None:
        """Return a column of this SELECT and the name of its table in SQL, or None."""
        name, qualifier = folded(node.name), folded(node.table)
        result = [
            (relation.fields[name], handle)
            for alias, relation, handle in self.tables
            if name in relation.fields and qualifier in ("", alias)
        ]
        if len(result) > 1 and not (name in self.merged and not qualifier):
            owners = [alias for alias, relation, _ in self.tables if name in relation.fields]
            way = f"write the table before it, such as {owners[0] or 't'}.{node.name}"
            refuse(node, f"column {node.name!r} is ambiguous: several tables have it", way)
        return result[0] if result else None

    def field_of(self, node: exp.Column) -> Field | None:
        """Return a column of this SELECT, or None."""
        result = self.own(node)
        return None if result is None else result[0]

    def column(self, node: exp.Column) -> Node:
        """Return the column of a name, in this SELECT or one around it."""
        if node.args.get("db") is not None:
            way = f"write {said(exp.column(node.this.copy(), table=node.args['table'].copy()))}"
            refuse(node, f"a schema before a column is not supported: {said(node)}", way)
        only(node, "this", "table")
        if isinstance(node.this, exp.Star):
            reason = f"{said(node)} would show single rows"
            refuse(node, reason, "list the columns of GROUP BY, and aggregates")
        scope: RowScope | None = self
        while scope is not None:
            result = scope.own(node)
            if result is not None:
                item, handle = result
                name = f"{handle}.{quoted(item.name)}"
                return self.tree.leaf(item.type, name, item.bounds, item.tags)
            scope = scope.parent
        names = sorted({name for _, relation, _ in self.tables for name in relation.fields})
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        raise refusal(node, f"there is no column {said(node)} here", f"the columns are: {shown}")

    def special(self, node: exp.Expr) -> Node | None:
        """Refuse subqueries and aggregates: an expression of one row has none."""
        if isinstance(node, exp.Select | exp.Exists):
            way = (
                "use EXISTS and IN as conditions of WHERE, by themselves or joined by AND; put "
                "other subqueries into FROM"
            )
            refuse(node, f"the subquery {said(node)} inside an expression is not supported", way)
        if isinstance(node, AGGREGATES):
            reason = f"the aggregate {said(node)} is not allowed here"
            way = "use it in SELECT, HAVING or ORDER BY, and not inside of another aggregate"
            refuse(node, reason, way)
        return None


@dataclass(frozen=True)
class Equality:
    """A column of a table that a test equates with an expression."""

    handle: str  # the table and the column in SQL
    column: str
    unique: bool  # the column names one row
    others: frozenset[str]  # tables of the same SELECT in the expression
    outer_unique: bool = False  # the expression is a column of the SELECT around it, naming one row


@dataclass(eq=False)
class Links:
    """Private tables of a SELECT, and pairs of them whose ids are equated."""

    handles: list[str] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)

    def see(self, test: exp.Expr, scope: RowScope) -> bool:
        """Take note of an equality of ids; say whether one is of the query around this SELECT."""
        a, b = (test.this, test.expression) if isinstance(test, exp.EQ) else (None, None)
        if not (isinstance(a, exp.Column) and isinstance(b, exp.Column)):
            return False
        first, second = scope.own(a), scope.own(b)
        if first and second and first[0].tags & second[0].tags:
            self.pairs.append((first[1], second[1]))
        across = (first is None) != (second is None)
        return across and bool(scope.column(a).tags & scope.column(b).tags)

    def check(self, node: exp.Expr) -> None:
        """Refuse private tables whose rows are not tied to the same unit."""
        reached = {self.handles[0]}
        while True:
            more = {b for pair in self.pairs for a, b in (pair, pair[::-1]) if a in reached}
            if more <= reached:
                break
            reached |= more
        if not set(self.handles) <= reached:
            refuse(
                node,
                "private tables are joined without equating their unit columns, so rows of "
                "different privacy units would be combined",
                "add a join condition that equates the unit columns, or the key of an owner with "
                "the column that refers to it (a condition inside of OR does not count)",
            )


@dataclass(eq=False)
class Body:
    """FROM and WHERE of one SELECT, compiled."""

    scope: RowScope
    source: str
    ctes: dict[str, Any] = field(default_factory=dict)
    tests: list[str] = field(default_factory=list)
    unit: str | None = None
    links: Links = field(default_factory=Links)
    equalities: list[Equality] = field(default_factory=list)
    # Public tables on the left of a LEFT JOIN with a private one: they may state all keys.
    public_left: Body | None = None
    matches: int = 1
    pairs: int = 0
    once: bool = False
    correlated: bool = False  # WHERE equates an id with one of the query around this SELECT

    @property
    def sql(self) -> str:
        """FROM ... WHERE ..., as SQL."""
        return self.source + (f" WHERE {' AND '.join(self.tests)}" if self.tests else "")


def is_aggregate(node: exp.Expr) -> bool:
    """Say whether an expression has an aggregate, subqueries aside."""
    return any(
        isinstance(part, AGGREGATES) or is_anonymized(part)
        for part in node.walk(prune=lambda n: n is not node and isinstance(n, _SUBQUERIES))
    )


def grouped_item(node: exp.Expr, items: list[tuple[str, exp.Expr]], scope: RowScope) -> exp.Expr:
    """Return the expression that an item of GROUP BY means: by its number, by name, or itself."""
    item = item_at(node, "GROUP BY", items)
    if isinstance(node, exp.Column) and not node.table and scope.own(node) is None:
        item = {folded(name): item for name, item in items}.get(folded(node.name))
    return node if item is None else item


def item_name(item: exp.Expr, number: int) -> str:
    """Return the name of a column of a SELECT."""
    if isinstance(item, exp.Alias):
        return item.alias
    if isinstance(item, exp.Column):
        return item.name
    return said(item) if len(said(item)) < 60 else f"column_{number + 1}"


@dataclass(eq=False)
class InnerAggregates:
    """Keys and aggregates of a subquery that groups by a unit, or by ids that lead to one.

    They are exact and stay inside: the result is a row of its unit like any other. Sums are of
    integers, or of numbers with nine decimals: the last bits of a sum of floats depend on the order
    of rows, and so on rows of other units.
    """

    rows: Any
    keys: list[Node]

    @property
    def tree(self) -> Tree:
        """The nodes of the query."""
        tree: Tree = self.rows.tree
        return tree

    def column(self, node: exp.Column) -> Node:
        """Refuse a column: those of GROUP BY are `special`."""
        reason = f"{said(node)} is neither in GROUP BY nor inside of an aggregate"
        refuse(node, reason, f"add it to GROUP BY, or use an aggregate such as MAX({said(node)})")

    def special(self, node: exp.Expr) -> Node | None:
        """Return an aggregate or a key."""
        tests = []
        if isinstance(node, exp.Filter):
            only(node, "this", "expression")
            tests = [condition(node.expression.this, self.rows)]
            node = node.this
        if isinstance(node, exp.AggFunc | exp.WithinGroup | exp.IgnoreNulls):
            return self._aggregate(node, tests)
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Interval):
            return None
        value = compiled_if(node, self.rows)
        value = value and self.tree.canonical(value)
        return value if value in self.keys else None

    def _aggregate(self, node: exp.Expr, tests: list[Node]) -> Node:
        make = self.tree.make
        tail = " FILTER (WHERE {1})" * bool(tests)
        if isinstance(node, exp.Count):
            only(node, "this", "big_int")
            if isinstance(node.this, exp.Star):
                return make(BIGINT, "count(*)" + tail.replace("1", "0"), *tests)
            distinct, counted = "", node.this
            if isinstance(counted, exp.Distinct):
                only(counted, "expressions")
                if len(counted.expressions) != 1:
                    reason = f"{said(node)} counts several expressions together"
                    refuse(node, reason, "count one expression")
                distinct, counted = "DISTINCT ", counted.expressions[0]
            value = self.tree.missing_nan(compiled(counted, self.rows))
            return make(BIGINT, f"count({distinct}{{0}}){tail}", value, *tests)
        if type(node) not in (exp.Sum, exp.Avg, exp.Min, exp.Max):
            reason = f"the aggregate {said(node)} is not supported inside of a subquery"
            refuse(node, reason, "use COUNT, SUM, AVG, MIN or MAX")
        only(node, "this")
        item = compiled(node.this, self.rows)
        if isinstance(node, exp.Min | exp.Max):
            name = "min" if isinstance(node, exp.Min) else "max"
            if item.type.kind in ("other", "null"):
                reason = f"{said(node)} is not supported: {said(node.this)} holds"
                way = "use it on numbers, text, booleans, dates or timestamps"
                refuse(node, f"{reason} {WORDS[item.type.kind]}", way)
            value = self.tree.canonical(self.tree.missing_nan(item))
            return make(item.type, f"{name}({{0}}){tail}", value, *tests, bounds=item.bounds)
        if item.type.kind not in NUMBERS:
            reason = f"{said(node)} needs numbers, but {said(node.this)} holds"
            refuse(node, f"{reason} {WORDS[item.type.kind]}", TO_NUMBERS)
        if isinstance(node, exp.Sum) and item.type.kind == "int":
            value = self.tree.narrow(item)
            return make(BIGINT, f"TRY_CAST(sum({{0}}){tail} AS BIGINT)", value, *tests)
        exact = item.type.kind == "decimal" and item.type.width <= 28
        fixed = decimal(28, item.type.scale) if exact else decimal(28, 9)
        value = make(fixed, f"TRY_CAST({{0}} AS {fixed.sql})", item)
        if isinstance(node, exp.Sum):
            goal = decimal(38, fixed.scale) if exact else DOUBLE
            return make(goal, f"TRY_CAST(sum({{0}}){tail} AS {goal.sql})", value, *tests)
        total = make(DOUBLE, f"TRY_CAST(sum({{0}}){tail} AS DOUBLE)", value, *tests)
        count = make(BIGINT, f"NULLIF(count({{0}}){tail}, 0)", value, *tests)
        return make(DOUBLE, "({0} / {1})", total, count, bounds=item.bounds)
