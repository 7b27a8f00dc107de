"""Plans a SELECT: rows by unit, one aggregation, and SQL over what it releases.

A plan is text and public numbers: no private row is read for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from sqlglot import exp

from skdp.aggregation._intervals import AT_ANY_LEVEL
from skdp.exceptions import QueryRefusedError
from skdp.sql._catalog import Catalog, Table, folded
from skdp.sql._relations import (
    AGGREGATES,
    Body,
    InnerAggregates,
    grouped_item,
    is_aggregate,
    item_name,
)
from skdp.sql._sources import LEFT, Compiler
from skdp.sql._syntax import (
    TOO_LONG,
    clamp_of,
    is_anonymized,
    item_at,
    only,
    plain_aggregate,
    refusal,
    refuse,
    said,
)
from skdp.sql.ir import (
    BIGINT,
    BOOL,
    DOUBLE,
    LONGEST_SQL,
    NUMBERS,
    TEXT,
    WORDS,
    Node,
    Tree,
    quoted,
    text_of,
    walk,
)
from skdp.sql.operators import TO_NUMBERS
from skdp.sql.rules import compiled, compiled_if, condition
from skdp.user_code import or_raise

MOST_KEYS = 100_000
_MOST_ROWS = 10**9
EVERYTHING = "all rows"
CHOSEN = (
    "rows were chosen by their noisy values: an interval holds in 95% of releases for every key, "
    "and less often among those that were chosen"
)


# --- what a plan consists of --------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """An expression of GROUP BY."""

    column: str  # its column in the rows
    row: Node
    label: str
    known: tuple[Any, ...] | None  # all values, as declared
    node: exp.Expr

    def encoded(self, tree: Tree) -> Node:
        """Return the key as text: NULL is the empty text, other values begin with "="."""
        value = tree.canonical(self.row)
        if value.type.kind == "zoned":  # whatever the time zone of a connection
            value = tree.make(TEXT, "timezone('UTC', {0})", value)
        return tree.make(TEXT, "coalesce('=' || TRY_CAST({0} AS VARCHAR), '')", value)

    @property
    def decoded(self) -> str:
        """The key from its text, as SQL over released columns."""
        inner, type_ = quoted(self.column), self.row.type
        kind = "TIMESTAMP" if type_.kind == "zoned" else type_.sql
        value = f"TRY_CAST(substring({inner}, 2) AS {kind})"
        value = f"timezone('UTC', {value})" if type_.kind == "zoned" else value
        return f"(CASE WHEN {inner} <> '' THEN {value} END)"

    @property
    def shown(self) -> str:
        """The key in the type of its column, as SQL over released columns."""
        answer = self.row.type.answer
        if answer == self.row.type.sql:
            return self.decoded
        return f"TRY_CAST({self.decoded} AS {answer})"


@dataclass(frozen=True)
class Specification:
    """One aggregate for `DPGroupBy`."""

    name: str
    kind: str
    column: str = ""
    q: float = 0.5
    counts_rows: bool = False  # a sum of ones: a number of rows

    @property
    def is_count(self) -> bool:
        """Whether it is an integer."""
        return self.counts_rows or self.kind in ("count", "distinct_units")

    def given(self, bounds: Mapping[str, tuple[float, float]]) -> Any:
        """Return the aggregate in the form of `DPGroupBy.agg`."""
        if not self.column:
            return self.kind
        parts: tuple[Any, ...] = (self.kind, self.column)
        if self.kind == "quantile":
            parts = (*parts, self.q)
        return (*parts, bounds[self.column]) if self.column in bounds else parts


@dataclass(frozen=True)
class Output:
    """A column of the answer, as SQL over released columns."""

    name: str
    sql: str
    low: str | None = None
    high: str | None = None
    population: str | None = None  # the aggregate of its population interval
    measured: bool = False  # a number with an interval
    key: str = ""  # the column of the key that it is
    # Released tables on which its rows, keys or values depend: their noise is in no interval.
    given: tuple[str, ...] = ()


@dataclass(eq=False)
class Plan:
    """A query as rows, one aggregation, and SQL over what that releases."""

    text: str
    rows: str
    by: list[str]
    keys: list[Key]
    aggregates: list[Specification]
    bounds: dict[str, tuple[float, float]]
    outputs: list[Output]
    tail: str  # HAVING, ORDER BY and LIMIT
    tables: list[Table]
    per_unit: bool = False  # a unit's rows of a key are aggregated to one row first
    once: bool = False  # each row is a unit: ids are not among the columns
    notes: list[str] = field(default_factory=list)
    left_keys: str | None = None  # SQL that reads all keys from public tables
    # Further intervals, (aggregate, k): one of k intervals that hold together at 95%.
    levels: list[tuple[str, int]] = field(default_factory=list)

    @property
    def keys_known(self) -> bool:
        """Whether the columns that are grouped by are declared with all their values."""
        return bool(self.keys) and all(key.known is not None for key in self.keys)


# --- the select list ------------------------------------------------------------------------------


_KINDS: dict[type, str] = {
    exp.Sum: "sum",
    exp.Avg: "mean",
    **dict.fromkeys((exp.VariancePop, exp.Variance), "variance"),
    **dict.fromkeys((exp.StddevPop, exp.Stddev, exp.StddevSamp), "std"),
    **dict.fromkeys((exp.Median, exp.PercentileCont, exp.Quantile, exp.ApproxQuantile), "quantile"),
}
_SAMPLE = (exp.Variance, exp.Stddev, exp.StddevSamp)
_ONE_ROW: dict[type, str] = {  # aggregates that show one row, and what to use instead
    exp.Max: "for numbers use QUANTILE_CONT({}, 0.99); a subquery grouped by the unit may use MAX",
    exp.Min: "for numbers use QUANTILE_CONT({}, 0.01); a subquery grouped by the unit may use MIN",
    exp.AnyValue: "add {} to GROUP BY",
}


@dataclass(eq=False)
class ReleasedScope:
    """The scope of released values: keys and aggregates. It collects the aggregates in use."""

    body: Body
    unit: str
    keys: list[Key]
    stated: Mapping[str, tuple[float, float]]
    aggregates: list[Specification] = field(default_factory=list)
    # By node and clamp: a column, and what it holds.
    values: dict[tuple[int, Any], tuple[str, Node]] = field(default_factory=dict)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    leaves: dict[int, Specification | Key] = field(default_factory=dict)  # by node
    per_unit: bool = False  # a unit's rows of a key are aggregated to one first
    levels: set[tuple[str, int]] = field(default_factory=set)  # of intervals, beside 95%
    released_tables: tuple[str, ...] = ()  # sources of what subqueries have released

    @property
    def tree(self) -> Tree:
        """The nodes of the query."""
        return self.body.scope.tree

    def used(self, *nodes: Node) -> list[Specification]:
        """Return the aggregates from which nodes are computed."""
        leaves = (self.leaves.get(id(node)) for node in walk(nodes))
        return [leaf for leaf in leaves if isinstance(leaf, Specification)]

    def column(self, node: exp.Column) -> Node:
        """Return the expression of an alias of the SELECT, or refuse a column that is no key."""
        alias = self.aliases.get(folded(node.name)) if not node.table else None
        if alias is not None:
            hidden = self.aliases.pop(folded(node.name))
            try:
                return compiled(alias, self)
            finally:
                self.aliases[folded(node.name)] = hidden
        tags = self.body.scope.column(node).tags  # unknown names are refused as such
        way = f"add {said(node)} to GROUP BY, or use COUNT, SUM, AVG or MEDIAN of it"
        if tags:  # ids of units are no keys
            way = f"use COUNT({'DISTINCT ' * ('unit' in tags)}{said(node)})"
        reason = f"{said(node)} would show single rows: it is neither in GROUP BY nor inside of an"
        raise refusal(node, f"{reason} aggregate", way)

    def special(self, node: exp.Expr) -> Node | None:
        """Return an aggregate or a key."""
        if is_anonymized(node) or isinstance(node, AGGREGATES):
            aggregate = self.specification(node)
            leaf = self.tree.leaf(BIGINT if aggregate.is_count else DOUBLE, quoted(aggregate.name))
            self.leaves[id(leaf)] = aggregate
            return leaf
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Interval):
            return None
        if isinstance(node, exp.Select | exp.Exists):
            reason = f"the subquery {said(node)} is not supported beside aggregates"
            refuse(node, reason, "run it as a query of its own")
        if not is_aggregate(node):
            row = compiled_if(node, self.body.scope)
            row = row and self.tree.answered(row)
            key = next((key for key in self.keys if key.row is row), None)
            if key is not None:
                leaf = self.tree.leaf(key.row.type, key.decoded, tags=[f"{key.column} of keys"])
                self.leaves[id(leaf)] = key
                return leaf
        return None

    # --- aggregates -------------------------------------------------------------------------------

    def specification(self, node: exp.Expr) -> Specification:
        """Return an aggregate, the same object for the same expression."""
        test = clamp = None
        if isinstance(node, exp.Filter):
            only(node, "this", "expression")
            test = node.expression.this
            node = node.this
        if is_anonymized(node):
            clamp, node = clamp_of(node), plain_aggregate(node)
        if self.per_unit:
            return self._of_units(node, test, clamp)
        if isinstance(node, exp.Count | exp.CountIf):
            return self._count(node, test)
        q = 0.5
        given: exp.Expr | None = node.args.get("this")
        if isinstance(node, exp.IgnoreNulls):
            node = node.this
        if isinstance(node, exp.WithinGroup):
            given, q = self._within(node)
            node = node.this
        elif isinstance(node, exp.PercentileCont | exp.Quantile | exp.ApproxQuantile):
            only(node, "this", "expression", "quantile")
            q = self._level(node, node.args.get("expression") or node.args.get("quantile"))
        elif type(node) in _KINDS:
            only(node, "this")
        kind = _KINDS.get(type(node))
        if kind is None or given is None:
            if type(node) in _ONE_ROW:
                way = _ONE_ROW[type(node)].format(said(node.this))
                refuse(node, f"{said(node)} would show the value of one row", way)
            if isinstance(node, exp.ApproxDistinct):
                self._refuse_distinct(node)
            way = "use COUNT, SUM, AVG, VAR_POP, STDDEV_POP, MEDIAN or QUANTILE_CONT"
            refuse(node, f"the aggregate {said(node)} is not supported", way)
        if isinstance(given, exp.Distinct):
            reason = f"DISTINCT in {said(node)} is not supported: it works only for privacy units"
            way = "use COUNT(DISTINCT x) with the unit column as x, or leave DISTINCT out"
            refuse(node, reason, way)
        if isinstance(node, _SAMPLE):
            self.notes.append(f"{said(node)}: divided by the number of rows, not by one less")
        if test is not None:
            given = exp.Case(ifs=[exp.If(this=test.copy(), true=given.copy())])
        item = compiled(given, self.body.scope)
        if item.type.kind not in NUMBERS:
            reason = f"{said(node)} needs numbers, but {said(given)} holds"
            refuse(given, f"{reason} {WORDS[item.type.kind]}", TO_NUMBERS)
        column = self._value(item, said(given), clamp)
        return self._added(Specification("", kind, column, q))

    def _of_units(
        self, node: exp.Expr, test: exp.Expr | None, clamp: tuple[float, float] | None
    ) -> Specification:
        """Return an aggregate of one value of each unit and key, which is clamped."""
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct):
            return self._count(node, test)
        if not isinstance(node, exp.Count | exp.Sum | exp.Avg):
            reason = (
                f"{said(node)} is not supported beside counts, sums and means in a query that is "
                "written WITH ANONYMIZATION or WITH DIFFERENTIAL_PRIVACY, which aggregate the rows "
                "of a unit first"
            )
            way = "ask for variances and quantiles in a query of their own, or use plain SQL"
            refuse(node, reason, way)
        counts_rows = isinstance(node, exp.Count)
        if counts_rows and clamp is not None and not all(end.is_integer() for end in clamp):
            reason = f"the bounds {clamp[0]:g} and {clamp[1]:g} of a count are not integers"
            refuse(node, reason, "write for example CLAMPED BETWEEN 0 AND 10")
        filtered: exp.Expr = node
        if test is not None:
            filtered = exp.Filter(this=node.copy(), expression=exp.Where(this=test.copy()))
        value = InnerAggregates(self.body.scope, []).special(filtered)
        assert value is not None
        kind = "mean" if isinstance(node, exp.Avg) else "sum"
        column = self._value(value, f"{said(node)} of a unit", clamp, declared=False)
        return self._added(Specification("", kind, column, counts_rows=counts_rows))

    def _within(self, node: exp.WithinGroup) -> tuple[exp.Expr, float]:
        only(node, "this", "expression")
        order = node.expression
        if not isinstance(node.this, exp.PercentileCont) or len(order.expressions) != 1:
            reason = f"the aggregate {said(node)} is not supported"
            way = "use PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x), or QUANTILE_CONT(x, 0.5)"
            refuse(node, reason, way)
        only(node.this, "this")
        ordered = order.expressions[0]
        only(ordered, "this", "desc", "nulls_first")
        q = self._level(node, node.this.this)
        return ordered.this, 1 - q if ordered.args.get("desc") else q

    def _level(self, node: exp.Expr, given: Any) -> float:
        if isinstance(given, exp.Literal) and not given.is_string:
            q = float(given.this)
            if 0 < q < 1:
                return q
        reason = f"the level in {said(node)} must be one number between 0 and 1"
        way = "use for example 0.5, or 0.01 and 0.99 instead of 0 and 1, which would show one row"
        raise refusal(node, reason, way)

    def _count(self, node: exp.Expr, test: exp.Expr | None) -> Specification:
        only(node, "this", "big_int")
        counted, scope = node.this, self.body.scope
        if isinstance(counted, exp.Distinct):
            only(counted, "expressions")
            parts = counted.expressions
            if len(parts) != 1 or "unit" not in compiled(parts[0], scope).tags:
                self._refuse_distinct(node)
            if test is not None:
                reason = f"FILTER with {said(node)} is not supported"
                refuse(node, reason, "write the condition in WHERE")
            return self._added(Specification("", "distinct_units"))
        tests = []
        if isinstance(node, exp.CountIf):
            tests.append(condition(counted, scope))
        elif isinstance(counted, exp.Star):
            only(counted)
        elif counted is not None:
            value = compiled(counted, scope)
            if value.value is None:
                value = self.tree.missing_nan(value)
                tests.append(self.tree.make(BOOL, "({0} IS NOT NULL)", value))
        if test is not None:
            tests.append(condition(test, scope))
        if not tests:
            return self._added(Specification("", "count"))
        holes = " AND ".join(f"{{{i}}}" for i in range(len(tests)))
        row = self.tree.make(BIGINT, f"(CASE WHEN {holes} THEN 1 ELSE 0 END)", *tests)
        column = self._value(row, said(node), (0.0, 1.0))
        return self._added(Specification("", "sum", column, counts_rows=True))

    def _refuse_distinct(self, node: exp.Expr) -> NoReturn:
        """Refuse to count distinct values; name a column of the unit, which can be counted."""
        units = [
            name
            for _, relation, _ in self.body.scope.tables
            for name, field in relation.fields.items()
            if "unit" in field.tags
        ]
        way = f"use COUNT(DISTINCT {units[0]}), or " if units else ""
        reason = f"{said(node)} is not supported: only distinct privacy units can be counted"
        refuse(node, reason, f"{way}add the column to GROUP BY")

    def _added(self, aggregate: Specification) -> Specification:
        for known in self.aggregates:
            if replace(known, name="") == aggregate:
                return known
        aggregate = replace(aggregate, name=f"a{len(self.aggregates)}")
        self.aggregates.append(aggregate)
        return aggregate

    def _value(
        self, value: Node, label: str, box: tuple[float, float] | None, *, declared: bool = True
    ) -> str:
        """Return the name of a column of numbers, and store its bounds."""
        place = id(value), box
        if place in self.values:
            return self.values[place][0]
        taken = {folded(name) for name, _ in self.values.values()}
        taken |= {folded(self.unit), *(key.column for key in self.keys)}
        name = label
        while folded(name) in taken:
            name += "'"
        self.values[place] = name, value
        result = box or self.stated.get(folded(label)) or (value.bounds if declared else None)
        if result is not None:
            low, high = result
            if low == high:  # a constant: from zero to it
                low, high = min(low, 0.0), max(high, 0.0, low + 1.0 if low == 0 else low)
            if 1e-100 < high - low < 1e100:
                self.bounds[name] = low, high
        return name


def planned(text: str, select: exp.Expr, *args: Any, **options: Any) -> Plan:
    """Return the plan of a query: see `_planned`.

    Any error is a refusal: no row was read, so it depends on the query alone.
    """
    way = "simplify it, and try its parts one by one"
    plan: Plan = or_raise(
        lambda: _planned(text, select, *args, **options),
        lambda: refusal(select, "a part of the query is not supported", way),
        own=(QueryRefusedError,),
    )
    return plan


def _planned(
    text: str,
    select: exp.Expr,
    catalog: Catalog,
    unit: str,
    bounds: Mapping[str, tuple[float, float]],
    *,
    anonymized: bool = False,
    ctes: Mapping[str, Any] | None = None,
) -> Plan:
    compiler = Compiler(catalog)
    if isinstance(select, exp.Union):
        way = "write SELECT ... FROM (SELECT ... UNION ALL SELECT ...) AS t"
        refuse(select, "UNION of aggregated queries is not supported", way)
    if not isinstance(select, exp.Select):
        kind = type(select).__name__.upper()
        kind = "ORDER BY or LIMIT after a SELECT in parentheses" if kind == "SUBQUERY" else kind
        refuse(select, f"{kind} is not supported", "write the whole query as one SELECT")
    only(
        select,
        *("expressions", "from_", "joins", "where", "group", "having", "order", "limit"),
        *("offset", "distinct", "with_"),
    )
    body = compiler.body(select, compiler.with_ctes(select, dict(ctes or {})))
    if body.unit is None:
        refuse(
            select,
            "FROM has no private table",
            "put a private table into FROM; a query on public tables alone must read at least one "
            "declared table, and may have WITH only at its start, without RECURSIVE",
        )
    items = list(_items(select))
    keys = _keys(select, items, body)
    stated = {folded(name): pair for name, pair in bounds.items()}
    scope = ReleasedScope(body, unit, keys, stated)
    released = (table.source for table in catalog.tables.values() if table.released is not None)
    scope.released_tables = tuple(released)
    scope.per_unit = anonymized and any(
        isinstance(plain_aggregate(node), exp.Count | exp.Sum | exp.Avg)
        for node in select.walk(prune=lambda n: isinstance(n, exp.Subquery))
    )
    outputs = [_output(name, item, scope) for name, item in items]
    check_names(select, outputs)
    scope.aliases = {folded(name): item for name, item in items}
    tail = _tail(select, scope, items)
    if not scope.aggregates and not keys:
        way = "use COUNT, SUM, AVG, MEDIAN or another aggregate"
        refuse(select, "the query has neither an aggregate nor GROUP BY", way)
    once = body.once and not scope.per_unit
    return Plan(
        text,
        _rows(select, body, None if once else unit, scope),
        [key.column for key in keys] or [EVERYTHING],
        keys,
        scope.aggregates,
        scope.bounds,
        outputs,
        tail,
        compiler.used,
        scope.per_unit,
        once,
        list(dict.fromkeys([*compiler.notes, *scope.notes])),
        _left_keys(select, body, keys),
        sorted(scope.levels),
    )


def _left_keys(select: exp.Expr, body: Body, keys: list[Key]) -> str | None:
    """Return SQL of all keys, if public tables on the left of a LEFT JOIN state them."""
    public, tree = body.public_left, body.scope.tree
    if public is None:
        return None
    if any(relation.released is not None for _, relation, _ in public.scope.tables):
        way = "use JOIN, or run the subquery first and list its keys in VALUES"
        reason = "a released subquery on the left of a LEFT JOIN with a private table"
        refuse(select, f"{reason} is not supported", way)
    for key in keys:
        node = compiled_if(key.node, public.scope)
        if node is None or tree.answered(node) is not key.row:
            keys = []
    if not keys:
        way = (
            "use GROUP BY with columns of the public table only, put the private table on the "
            "left, or use JOIN"
        )
        refuse(select, LEFT, way)
    columns = ", ".join(key.encoded(tree).sql for key in keys)
    return f"SELECT DISTINCT {columns} {public.sql} LIMIT {MOST_KEYS + 1}"


def _items(select: exp.Select) -> Iterator[tuple[str, exp.Expr]]:
    for number, item in enumerate(select.expressions):
        inner = item
        if isinstance(item, exp.Alias):
            only(item, "this", "alias")
            inner = item.this
        if inner.is_star and isinstance(inner, exp.Star | exp.Column):
            reason = f"{said(inner)} would show single rows"
            refuse(inner, reason, "list the columns of GROUP BY, and aggregates")
        yield item_name(item, number), inner


def _keys(select: exp.Select, items: list[tuple[str, exp.Expr]], body: Body) -> list[Key]:
    """Return the keys of GROUP BY or SELECT DISTINCT."""
    group, distinct = select.args.get("group"), select.args.get("distinct")
    named: list[exp.Expr] = []
    if group is not None:
        only(group, "expressions", "all")
        named = list(group.expressions)
        if group.args.get("all"):
            named = [item for _, item in items if not is_aggregate(item)]
    if distinct is not None:
        only(distinct)
        if group is not None or any(is_aggregate(item) for _, item in items):
            reason = "SELECT DISTINCT with GROUP BY or aggregates is not supported"
            refuse(distinct, reason, "leave DISTINCT out")
        named = [item for _, item in items]
    keys: list[Key] = []
    for node in named:
        part = grouped_item(node, items, body.scope)
        row = body.scope.tree.answered(compiled(part, body.scope))
        if row.tags:
            refuse(
                node,
                f"grouping by {said(part)} would show single privacy units, since each value "
                "belongs to one unit",
                "group by a column that many units have in common; a subquery in FROM may group "
                "by the unit",
            )
        if row.type.kind in ("other", "null"):
            refuse(
                node,
                f"grouping by {said(part)} is not supported, since it holds {WORDS[row.type.kind]}",
                "group by numbers, text, booleans, dates or timestamps, or convert the column "
                "before the table is declared",
            )
        if any(key.row is row for key in keys):
            continue
        column = body.scope.field_of(part) if isinstance(part, exp.Column) else None
        known = None if column is None else column.keys
        keys.append(Key(f"key {len(keys)}: {said(part)}", row, said(part), known, part))
    return keys


def _output(name: str, item: exp.Expr, scope: ReleasedScope) -> Output:
    """Return a column of the answer."""
    value = scope.tree.answered(compiled(item, scope))
    used = scope.used(value)
    given = depends_on(scope, used)
    key = scope.leaves.get(id(value))
    if isinstance(key, Key):
        return Output(name, key.shown, key=key.column, given=given)
    if not used:
        return Output(name, value.sql, given=given)
    ends = interval_of(item, scope, len(used))
    if ends is None:
        scope.notes.append(f"{name}: no interval. There are intervals for one aggregate, and for "
                           "+, -, *, /, ROUND, FLOOR and CEIL of it; for several aggregates only "
                           "if they are counts, sums and means")  # fmt: skip
        none = "NULL::DOUBLE"
        return Output(name, value.sql, none, none, measured=True, given=given)
    plain = isinstance(item, exp.Avg | exp.Filter) and len(used) == 1 and used[0].kind == "mean"
    population = used[0].name if plain and value.sql == quoted(used[0].name) else None
    return Output(name, value.sql, *ends, population, measured=True, given=given)


def _tail(select: exp.Select, scope: ReleasedScope, items: list[tuple[str, exp.Expr]]) -> str:
    """Return HAVING, ORDER BY and LIMIT, over released columns."""
    tail = ""
    having, order = select.args.get("having"), select.args.get("order")
    chosen = False
    if having is not None:
        test = condition(having.this, scope)
        tail += f" WHERE {test.sql}"
        chosen = bool(scope.used(test))
    ordered: list[Node] = []
    orders = []
    for item in () if order is None else order.expressions:
        only(item, "this", "desc", "nulls_first")
        of = item_at(item.this, "ORDER BY", items) or item.this
        if of is item.this and isinstance(of, exp.Column) and not of.table:
            of = scope.aliases.get(folded(of.name), of)
        way = "DESC" if item.args.get("desc") else "ASC"
        nulls = "FIRST" if item.args.get("nulls_first") else "LAST"
        ordered.append(compiled(of, scope))
        orders.append(f"{ordered[-1].sql} {way} NULLS {nulls}")
    orders += [f"{key.decoded} ASC NULLS LAST" for key in scope.keys]
    if orders:
        tail += f" ORDER BY {', '.join(orders)}"
    limited = select.args.get("limit") is not None or select.args.get("offset") is not None
    if chosen or (limited and scope.used(*ordered)):
        scope.notes.append(CHOSEN)
    for name in ("limit", "offset"):
        part = select.args.get(name)
        if part is not None:
            only(part, "expression")
            value = part.expression
            if not isinstance(value, exp.Literal) or not str(value.this).isdigit():
                way = f"write it as a number, such as {name.upper()} 10"
                refuse(part, f"{name.upper()} must be an integer", way)
            tail += f" {name.upper()} {min(int(value.this), _MOST_ROWS)}"
    return tail


def _rows(select: exp.Expr, body: Body, unit: str | None, scope: ReleasedScope) -> str:
    """Return SQL for the rows that are aggregated: their unit, keys, numbers."""
    columns = [] if unit is None else [f"{body.unit} AS {quoted(unit)}"]
    tree = scope.tree
    columns += [f"{key.encoded(tree).sql} AS {quoted(key.column)}" for key in scope.keys]
    if not scope.keys:
        columns.append(f"{text_of(EVERYTHING)} AS {quoted(EVERYTHING)}")
    for name, value in scope.values.values():
        columns.append(f"{tree.to(value, DOUBLE).sql} AS {quoted(name)}")
    # Rows without a unit are left out; with `unit=None` each row is one.
    body.tests += [f"{body.unit} IS NOT NULL"] * (unit is not None)
    sql = f"SELECT {', '.join(columns)} {body.sql}"
    if len(sql) > 4 * LONGEST_SQL:
        refuse(select, *TOO_LONG)
    if scope.per_unit:
        places = range(1, 2 + max(len(scope.keys), 1))
        sql += f" GROUP BY {', '.join(map(str, places))}"
    return sql


# --- intervals, and names of columns --------------------------------------------------------------
#
# An expression has an interval if each step can be computed on the ends of intervals. With k
# aggregates, each interval is taken at level 1 - 0.05 / k: all of them hold together in at least
# 95% of releases, however they depend on each other, and then so does that of the result. Intervals
# of medians, variances and deviations are known at 95% alone: an expression of one of these and
# another aggregate has none.
#
# A number that depends on a released subquery has no interval either, and a note says so. It would
# hold for the released value in the place of the subquery, and not for the query as written: it
# does not contain the noise of the subquery, without which rows would change in an unknown way.

Ends = tuple[str, str]

_LONGEST = 100_000  # characters of SQL: products of products have each end several times


def interval_of(node: exp.Expr, scope: Any, parts: int = 1) -> Ends | None:
    """Return the ends of an expression's interval as SQL over released columns, or None.

    `parts` is the number of aggregates in all of the expression.
    """

    def inner_of(part: exp.Expr) -> Ends | None:
        return interval_of(part, scope, parts)

    node = node.unnest()
    if isinstance(node, exp.Greatest | exp.Least):  # these grow with their operands
        ends = [inner_of(part) for part in (node.this, *node.expressions)]
        name = "greatest" if isinstance(node, exp.Greatest) else "least"
        known = [pair for pair in ends if pair is not None]
        if len(known) < len(ends):
            return None
        lows, highs = zip(*known, strict=True)
        return _several(name, lows), _several(name, highs)
    if is_anonymized(node) or isinstance(node, AGGREGATES):
        aggregate = scope.specification(node)
        if parts > 1 and aggregate.kind not in AT_ANY_LEVEL:
            return None
        low, high = ends_of(aggregate.name, parts)
        if parts > 1:
            scope.levels.add((aggregate.name, parts))
        return quoted(low), quoted(high)
    if isinstance(node, exp.Literal):
        value = compiled(node, scope).sql
        return value, value
    if isinstance(node, exp.Neg):
        return inner_of(exp.Sub(this=exp.Literal.number(0), expression=node.this))
    if isinstance(node, exp.Round | exp.Floor | exp.Ceil):
        inner = inner_of(node.this)
        places = node.args.get("decimals")
        if inner is None or (places is not None and not isinstance(places, exp.Literal)):
            return None
        name = {exp.Round: "round", exp.Floor: "floor", exp.Ceil: "ceil"}[type(node)]
        rest = f", {places.this}" if places is not None else ""
        return tuple(f"{name}(CAST({end} AS DOUBLE){rest})" for end in inner)  # type: ignore[return-value]
    if isinstance(node, exp.Cast):
        inner = inner_of(node.this)
        names = ("DOUBLE", "FLOAT")
        return inner if getattr(node.to.this, "name", "") in names else None
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        a, b = inner_of(node.this), inner_of(node.expression)
        if a is None or b is None or sum(map(len, (*a, *b))) > _LONGEST:
            return None
        return _combined(node, a, b)
    return None


def _several(name: str, ends: Sequence[str]) -> str:
    known = " AND ".join(f"{end} IS NOT NULL" for end in ends)
    doubles = ", ".join(f"CAST({end} AS DOUBLE)" for end in ends)
    return f"(CASE WHEN {known} THEN {name}({doubles}) END)"


def ends_of(name: str, parts: int) -> tuple[str, str]:
    """Return the columns of the interval of an aggregate, one of `parts` of an expression."""
    place = "" if parts == 1 else f"_of_{parts}"
    return f"{name}_low{place}", f"{name}_high{place}"


def _combined(node: exp.Expr, a: Ends, b: Ends) -> Ends:
    (a0, a1), (b0, b1) = (tuple(f"CAST({end} AS DOUBLE)" for end in ends) for ends in (a, b))
    if isinstance(node, exp.Add):
        return f"({a0} + {b0})", f"({a1} + {b1})"
    if isinstance(node, exp.Sub):
        return f"({a0} - {b1})", f"({a1} - {b0})"
    sign = "*" if isinstance(node, exp.Mul) else "/"
    ends = ", ".join(f"({x} {sign} {y})" for x in (a0, a1) for y in (b0, b1))
    low, high = f"least({ends})", f"greatest({ends})"
    if sign == "/":  # what may be divided by zero has no ends
        fine = f"{b0} > 0 OR {b1} < 0"
        low, high = (f"(CASE WHEN {fine} THEN {end} END)" for end in (low, high))
    return low, high


def check_names(select: exp.Expr, outputs: Iterable[Any]) -> None:
    """Refuse names that an answer cannot have: after the charge, it would be lost."""
    taken: list[str] = []
    for output in outputs:
        name = folded(output.name)
        if not name or name.encode(errors="replace").decode() != name:
            reason = "a column of the answer has an empty name, or a name that is not Unicode"
            refuse(select, reason, "name it with AS")
        ends = ["_low", "_high"] * output.measured
        ends += ["_population_low", "_population_high"] * bool(output.population)
        taken += [name, *(name + end for end in ends)]
    if len(set(taken)) < len(taken):
        twice = next(name for i, name in enumerate(taken) if name in taken[:i])
        refuse(
            select,
            f"the answer would have two columns named {twice!r} (every number x of the answer has "
            "its interval in the columns x_low and x_high)",
            "give the columns different names with AS",
        )


def depends_on(scope: Any, used: Sequence[Specification]) -> tuple[str, ...]:
    """Return the released tables on which the rows, keys or values of a column depend."""
    if not scope.released_tables:
        return ()
    columns = {aggregate.column for aggregate in used if aggregate.column}
    texts = [scope.body.sql, *(key.row.sql for key in scope.keys)]
    texts += [item.sql for name, item in scope.values.values() if name in columns]
    return tuple(name for name in scope.released_tables if any(name in text for text in texts))


def conditional_notes(plan: Plan, subqueries: Iterable[Any]) -> list[str]:
    """Return notes on columns of a plan that depend on released numbers, with their values."""
    known = {subquery.table.source: subquery for subquery in subqueries}
    columns: dict[tuple[str, ...], list[str]] = {}
    for output in plan.outputs:
        if output.given:
            columns.setdefault(output.given, []).extend([output.name] * output.measured)
    notes = []
    for given, names in columns.items():
        what = " and ".join(_described(known[source]) for source in given if source in known)
        if names:
            notes.append(
                f"{', '.join(names)}: no interval. The rows or values behind it depend on {what}. "
                "This noise is in no interval: one would hold for the released value, and not for "
                "the query as written. To get it, release the subquery first, and write its value "
                "instead of it"
            )
        elif not any(columns.values()):
            notes.append(
                f"the keys depend on {what}: without this noise, other keys could be in the answer"
            )
    return notes


def _described(item: Any) -> str:
    """Return the text of a subquery with its released value."""
    if item.answer is None:
        return f"{item.text}, which is released with noise"
    rows = item.answer.fetchall()
    if not item.is_number:
        return f"{item.text}, which was released with noise ({len(rows)} rows, in `subqueries`)"
    value = rows[0][0] if rows else None
    shown = "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else value
    return f"{item.text}, which was released with noise as {shown}"
