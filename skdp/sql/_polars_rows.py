"""From the rewritten SQL of a query's rows to lazy frames of polars: the second engine.

Nothing is released here. The SQL is what DuckDB would run, read again: subqueries, joins on equal
keys, conditions, EXISTS as semi-joins, groups, UNION ALL. Rows come out in any order, which no
statistic hangs on. What has another shape is refused, as is what holds a part that
`skdp.sql._polars_values` does not know; columns that nobody reads are let be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp, parse_one

from skdp.exceptions import QueryRefusedError
from skdp.sql._parse import conjuncts
from skdp.sql._polars_typed import (
    Value,
    choice,
    dtype_of,
    lit,
    not_proved,
    null,
    polars,
    unproved,
)
from skdp.sql._polars_values import value_of
from skdp.user_code import or_raise

__all__ = ["Lazy", "Tables", "lazy_rows"]


@dataclass(frozen=True)
class Lazy:
    """A lazy frame and the kinds of its columns; of those that are no expression, why.

    `encoded` are columns of the last SELECT that DuckDB is to write as text.
    """

    frame: Any
    kinds: dict[str, str]
    missing: dict[str, exp.Expr | str] = field(default_factory=dict)
    encoded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Tables:
    """Tables by their whole names in SQL, and what takes some rows of units that have too many.

    `choose` is given the SQL of a relation, its rows of such units, and the SQL of the choice.
    """

    by_name: Mapping[str, Lazy]
    choose: Callable[[str, Lazy, str], Any]


def lazy_rows(sql: str, tables: Tables) -> Lazy:
    """Return the rows of a rewritten query; nothing is read but by `choose`.

    Raises
    ------
    QueryRefusedError
        For what is not proved equal to DuckDB's.
    """
    rows: Lazy = or_raise(
        lambda: _relation(parse_one(sql, read="duckdb"), tables, last=True),
        lambda: unproved("a part of the query"),  # it depends on the query alone
        own=(QueryRefusedError, RuntimeError),
    )
    return rows


def _relation(node: exp.Expr, tables: Tables, *, last: bool = False) -> Lazy:
    if isinstance(node, exp.Subquery):
        return _relation(node.this, tables)
    if isinstance(node, exp.Union) and node.args.get("with_"):
        return _capped(node, tables)
    if isinstance(node, exp.Union):
        return _union(node, tables)
    if not isinstance(node, exp.Select) or node.args.get("with_"):
        not_proved(node)
    for name, part in node.args.items():
        known = ("expressions", "from_", "joins", "where", "group", "having", "distinct", "kind")
        if part and name not in known:
            not_proved(node)
    return _Select(node, tables).relation(last)


def _capped(node: exp.Union, tables: Tables) -> Lazy:
    """Return a relation with at most so many rows of a unit, as `skdp.sql._fan_out.capped` does.

    Which rows of a unit that has more are taken is up to DuckDB's hash: it takes them.
    """
    own, many = node.args["with_"].expressions
    most = many.this.args["having"].this.expression
    qualify = node.expression.this.args["qualify"].this
    window = qualify.this
    if not (
        isinstance(many.this.args["having"].this.this, exp.Count)
        and isinstance(most, exp.Literal)
        and isinstance(window, exp.Window)
        and isinstance(window.this, exp.RowNumber)
    ):
        not_proved(node)
    found = _relation(own.this, tables)
    if found.missing:
        not_proved(next(iter(found.missing.values())))
    pl = polars()
    counted = found.frame.group_by("u").agg(pl.len().alias("#n"))
    heavy = counted.filter(pl.col("#n") > int(most.this)).select("u")
    light = found.frame.join(heavy, on="u", how="anti")
    of_heavy = Lazy(found.frame.join(heavy, on="u", how="semi"), found.kinds)
    chosen = tables.choose(own.this.sql(dialect="duckdb"), of_heavy, qualify.sql(dialect="duckdb"))
    if chosen is None:
        return found
    return Lazy(pl.concat([light, chosen.select(list(found.kinds))]), found.kinds)


def _union(node: exp.Union, tables: Tables) -> Lazy:
    if node.args.get("distinct"):
        not_proved(node)
    a, b = _relation(node.this, tables), _relation(node.expression, tables)
    both = [name for name in a.kinds if b.kinds.get(name) == a.kinds[name]]
    lost = dict.fromkeys({**a.kinds, **a.missing}, "UNION ALL of such columns")
    frame = polars().concat([a.frame.select(both), b.frame.select(both)], how="vertical")
    kinds = {name: a.kinds[name] for name in both}
    return Lazy(frame, kinds, {name: why for name, why in lost.items() if name not in kinds})


def _values(node: exp.Values, names: list[str]) -> Lazy:
    """Return rows that the query states."""

    def inner(part: exp.Expr) -> Value:
        return value_of(part, inner)

    rows, kinds = [], {}
    for row in node.expressions:
        cells = dict(zip(names, map(inner, row.expressions), strict=True))
        kinds = {name: one.kind for name, one in cells.items()}
        exprs = [one.expr.cast(dtype_of(one.kind)).alias(name) for name, one in cells.items()]
        rows.append(polars().select(exprs))
    return Lazy(polars().concat(rows).lazy(), kinds)


class _Select:
    """One SELECT: its tables, joined; its conditions; its groups; its columns."""

    def __init__(self, node: exp.Select, tables: Tables) -> None:
        self.node, self.tables = node, tables
        self.kinds: dict[str, str] = {}  # of "table.column"
        self.missing: dict[str, exp.Expr | str] = {}
        self.handles: set[str] = set()
        self.tests: list[exp.Expr] = []
        self.groups: dict[exp.Expr, Value] = {}
        self.aggregates: dict[exp.Expr, tuple[str, Any, str]] = {}
        self.inputs: dict[str, Any] = {}  # of aggregates: columns, since stated values are none
        self.grouped = False
        self.frame = self._joined()

    # --- what names mean ---

    def value(self, node: exp.Expr) -> Value:
        """Return an expression over the columns of this SELECT."""
        if self.grouped:
            if node in self.groups:
                return self.groups[node]
            if isinstance(node, exp.AggFunc | exp.Filter):
                return self._aggregate(node)
        if isinstance(node, exp.Subquery):
            return self._stated(node)
        if isinstance(node, exp.Column):
            if self.grouped:
                not_proved(node)
            return self._column(node)
        return value_of(node, self.value)

    def _column(self, node: exp.Column) -> Value:
        alone = next(iter(self.handles)) if len(self.handles) == 1 else ""
        name = f"{node.table or alone}.{node.name}"
        if name not in self.kinds:
            found = self.missing.get(name)
            not_proved(found if found is not None else node)
        return Value(polars().col(name), self.kinds[name])

    def _stated(self, node: exp.Subquery) -> Value:
        """Return the one number of a table that was released."""
        one = _relation(node, self.tables)
        ((name, kind),) = one.kinds.items()
        found = one.frame.collect()[name]
        return lit(found[0] if len(found) else None, kind)

    def _handles_of(self, node: exp.Expr) -> set[str]:
        """Return the tables that an expression reads, those of numbers that were released aside."""
        parts = node.walk(prune=lambda part: isinstance(part, exp.Subquery) and part is not node)
        return {part.table for part in parts if isinstance(part, exp.Column)}

    # --- FROM and WHERE ---

    def _source(self, node: exp.Expr) -> tuple[str, Lazy]:
        alias = node.args.get("alias")
        if alias is None:
            not_proved(node)
        handle = alias.name
        if isinstance(node, exp.Table):
            parts = [node.args.get("catalog"), node.args.get("db"), node.this]
            found = self.tables.by_name.get(
                ".".join(f'"{one.name}"' for one in parts if one is not None)
            )
            if found is None:
                not_proved(node)
        elif isinstance(node, exp.Values):
            found = _values(node, [one.name for one in alias.args["columns"]])
        else:
            found = _relation(node, self.tables)
        names = {name: f"{handle}.{name}" for name in found.kinds}
        self.kinds |= {names[name]: kind for name, kind in found.kinds.items()}
        self.missing |= {f"{handle}.{name}": why for name, why in found.missing.items()}
        self.handles.add(handle)
        columns = [polars().col(name).alias(whole) for name, whole in names.items()]
        return handle, Lazy(found.frame.select(columns), {})

    def _joined(self) -> Any:
        node = self.node
        first, found = self._source(node.args["from_"].this)
        where = node.args.get("where")
        joins = node.args.get("joins") or []
        self.tests = list(conjuncts(None if where is None else where.this))
        for join in joins:
            if not str(join.args.get("side") or ""):
                self.tests += list(conjuncts(join.args.get("on")))
        frame, reached = found.frame, {first}
        for join in joins:
            side, kind = (str(join.args.get(part) or "").upper() for part in ("side", "kind"))
            if side not in ("", "LEFT") or kind or join.args.get("using"):
                not_proved(f"{side or kind} JOIN")
            handle, right = self._source(join.this)
            frame = self._join(frame, right.frame, join, reached, handle)
            reached.add(handle)
        return frame

    def _join(self, left: Any, right: Any, join: exp.Join, reached: set[str], handle: str) -> Any:
        outer = bool(join.args.get("side"))
        tests = list(conjuncts(join.args.get("on"))) if outer else self.tests
        pairs, used = [], []
        for test in tests:
            sides = self.sides(test, reached, {handle})
            if sides is not None:
                pairs.append(sides)
                used.append(test)
            elif outer:
                if isinstance(test, exp.Boolean) and test.this:
                    continue
                if self._handles_of(test) != {handle}:
                    not_proved(test)
                right = right.filter(self._truth(test))
        if not outer:
            self.tests = [test for test in self.tests if all(test is not one for one in used)]
            if not pairs:
                return left.join(right, how="cross")
        if not pairs:
            not_proved("LEFT JOIN without an equality of columns")
        return _keyed(left, right, pairs, "left" if outer else "inner")

    def sides(self, test: exp.Expr, left: set[str], right: set[str]) -> tuple[Any, Any] | None:
        """Return both sides of an equality of tables on the left and on the right."""
        while isinstance(test, exp.Paren):
            test = test.this
        if not isinstance(test, exp.EQ) or test.find(exp.Exists):
            return None
        for a, b in ((test.this, test.expression), (test.expression, test.this)):
            of_a, of_b = self._handles_of(a), self._handles_of(b)
            if of_a and of_b and of_a <= left and of_b <= right:
                one, other = self.value(a), self.value(b)
                if one.kind != other.kind or one.kind in ("decimal", "null"):
                    not_proved(test)
                return one.expr, other.expr
        return None

    def _truth(self, node: exp.Expr) -> Any:
        one = self.value(node)
        if one.kind not in ("bool", "null"):
            not_proved(node)
        return one.expr.cast(dtype_of("bool"))

    def filtered(self) -> Any:
        """Return the rows for which all conditions hold."""
        frame = self.frame
        for test in self.tests:
            inner, negated = test, False
            while isinstance(inner, exp.Not | exp.Paren):
                negated ^= isinstance(inner, exp.Not)
                inner = inner.this
            if isinstance(inner, exp.Exists):
                frame = self._semi(frame, inner, negated)
            else:
                frame = frame.filter(self._truth(test))
        return frame

    def _semi(self, frame: Any, node: exp.Exists, negated: bool) -> Any:
        """Return rows for which another SELECT has rows, or has none."""
        inner = _Select(node.this, self.tables)
        pairs, kept = [], []
        inner.kinds |= {name: kind for name, kind in self.kinds.items() if name not in inner.kinds}
        for test in inner.tests:
            if self._handles_of(test) <= inner.handles or isinstance(test, exp.Boolean):
                kept.append(test)
                continue
            sides = inner.sides(test, self.handles, inner.handles)
            if sides is None:
                not_proved(test)
            pairs.append(sides)
        inner.tests = kept
        if not pairs:
            pairs = [(polars().lit(1), polars().lit(1))]
        return _keyed(frame, inner.filtered(), pairs, "anti" if negated else "semi")

    # --- groups and columns ---

    def relation(self, last: bool) -> Lazy:
        """Return what the SELECT yields."""
        items = [
            (one.alias_or_name, one.this if isinstance(one, exp.Alias) else one)
            for one in self.node.expressions
        ]
        encoded = set()
        for i, (name, item) in enumerate(items):
            raw = _encoded(item) if last else None
            if raw is not None:
                encoded.add(name)
                items[i] = name, raw
        frame = self.filtered()
        group = self.node.args.get("group")
        having = self.node.args.get("having")
        if group is not None or any(_aggregates(item) for _, item in items):
            frame = self._grouped(frame, group, items, having)
        made, kinds, missing = [], {}, {}
        for name, item in items:
            try:
                one = self.value(item)
            except ValueError:
                if last or _aggregates(item):
                    raise
                missing[name] = item
                continue
            kinds[name] = one.kind
            made.append(one.expr.alias(name))
        if not kinds:
            not_proved(self.node)
        frame = frame.with_columns(made).select(list(kinds))  # of stated values one a row
        if self.node.args.get("distinct"):
            if missing:
                not_proved(next(iter(missing.values())))
            frame = frame.unique()
        return Lazy(frame, kinds, missing, frozenset(encoded))

    def _grouped(
        self, frame: Any, group: exp.Expr | None, items: list[Any], having: exp.Expr | None
    ) -> Any:
        keys = []
        for one in group.expressions if group is not None else ():
            place = isinstance(one, exp.Literal)
            keys.append(items[int(one.this) - 1][1] if place else one)
        named = {f"#g{i}": (key, self.value(key)) for i, key in enumerate(keys)}
        self.groups = {
            key: Value(polars().col(name), one.kind) for name, (key, one) in named.items()
        }
        self.grouped = True
        for item in [item for _, item in items] + ([having.this] if having is not None else []):
            if _aggregates(item):
                self.value(item)  # takes note of its aggregates
        made = [expr.alias(name) for name, expr, _ in self.aggregates.values()]
        frame = frame.with_columns(expr.alias(name) for name, expr in self.inputs.items())
        frame = frame.with_columns(one.expr.alias(name) for name, (_, one) in named.items())
        exprs = list(named)
        if not exprs:
            frame = frame.select(made)
        elif made:
            frame = frame.group_by(exprs).agg(made)
        else:
            frame = frame.select(exprs).unique()
        return frame.filter(self._truth(having.this)) if having is not None else frame

    def _aggregate(self, node: exp.Expr) -> Value:
        if node not in self.aggregates:
            self.grouped = False
            try:
                expr, kind = self._added(node)
            finally:
                self.grouped = True
            self.aggregates[node] = f"#a{len(self.aggregates)}", expr, kind
        name, _, kind = self.aggregates[node]
        return Value(polars().col(name), kind)

    def _input(self, expr: Any) -> Any:
        name = f"#x{len(self.inputs)}"
        self.inputs[name] = expr
        return polars().col(name)

    def _added(self, node: exp.Expr) -> tuple[Any, str]:
        """Return an aggregate over the rows of a group, and its kind."""
        test = None
        if isinstance(node, exp.Filter):
            test, node = self._input(self._truth(node.expression.this)), node.this
        if isinstance(node, exp.Count):
            distinct = isinstance(node.this, exp.Distinct)
            of = node.this.expressions[0] if distinct else node.this
            one = Value(polars().lit(1), "int") if isinstance(of, exp.Star) else self.value(of)
            held = self._input(one.expr)
            held = held if test is None else choice(test, held, None)
            if isinstance(of, exp.Star):
                count = polars().len() if test is None else test.sum()
                return count.cast(dtype_of("int")), "int"
            counted = held.drop_nulls().n_unique() if distinct else held.count()
            return counted.cast(dtype_of("int")), "int"
        if type(node) not in (exp.Sum, exp.Min, exp.Max):
            not_proved(node)
        one = self.value(node.this)
        held = self._input(one.expr)
        held = held if test is None else choice(test, held, null(one.kind))
        if isinstance(node, exp.Sum):
            if one.kind not in ("huge", "fixed"):
                not_proved(node)
            return choice(held.count() > 0, held.sum(), null(one.kind)), one.kind
        if one.kind in ("decimal", "null"):
            not_proved(node)
        if isinstance(node, exp.Min):
            return held.min(), one.kind
        return (held.nan_max() if one.kind == "num" else held.max()), one.kind


def _keyed(left: Any, right: Any, pairs: list[tuple[Any, Any]], how: str) -> Any:
    names = [f"#k{i}" for i in range(len(pairs))]
    a = left.with_columns(one.alias(name) for name, (one, _) in zip(names, pairs, strict=True))
    b = right.with_columns(one.alias(name) for name, (_, one) in zip(names, pairs, strict=True))
    return a.join(b, on=names, how=how).drop(names)


def _aggregates(node: exp.Expr) -> bool:
    return node.find(exp.AggFunc) is not None


def _encoded(node: exp.Expr) -> exp.Expr | None:
    """Return what a key is made of: coalesce('=' || TRY_CAST(... AS VARCHAR), '')."""
    if not isinstance(node, exp.Coalesce) or not isinstance(node.this, exp.DPipe):
        return None
    mark, of = node.this.this, node.this.expression
    marked = isinstance(mark, exp.Literal) and mark.is_string and mark.this == "="
    return of.this if marked and isinstance(of, exp.TryCast) else None
