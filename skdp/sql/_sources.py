"""Compiles FROM and WHERE to one SELECT of DuckDB, whose rows each belong to one unit.

Every row of the result depends on rows of its own unit and on public tables alone: PROOFS.md says
how. A join that makes very many rows of a few may run out of memory, and a failure that depends on
the rows of one unit would tell of them. So public facts bound a join before any row is read:

- public tables together multiply a row by at most `MOST_MATCHES`;
- where private tables are tied by units, not by a key, each counts only so many rows of a unit that
  the unit has at most `MOST_PAIRS` in the join, after public tables multiplied them. A hash of each
  row's own cells chooses them: no other unit has a say in it.

A subquery that aggregates over units is released before the rest, and is a public table then. The
columns of its GROUP BY name one row. A query that joins it has to equate all of them, because its
number of rows is not known before the charge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlglot import exp

from skdp.exceptions import QueryRefusedError
from skdp.sql._catalog import Catalog, Table, folded
from skdp.sql._relations import (
    Body,
    Equality,
    Field,
    InnerAggregates,
    Links,
    Relation,
    RowScope,
    grouped_item,
    is_aggregate,
    item_name,
)
from skdp.sql._syntax import TOO_LONG, OverUnits, conjuncts, only, place_of, refusal, refuse, said
from skdp.sql.ir import (
    BIGINT,
    LONGEST,
    OTHER,
    WORDS,
    Node,
    Tree,
    Type,
    canonical,
    column_type,
    quoted,
    union_of,
)
from skdp.sql.operators import alike
from skdp.sql.rules import compiled, compiled_if, condition
from skdp.user_code import cancellable, or_raise

_MOST_RELATIONS = 100
LEFT = "a public table on the left of a LEFT JOIN has rows that belong to no privacy unit"
_UNIT = "unit"
MOST_MATCHES = 1_000
MOST_PAIRS = 10**6
MOST_OF_UNIONS = 4 * MOST_PAIRS
_UNKNOWN = 10**9
_ORDER = ("order", "limit", "offset")
_EXACT = {("int", "decimal"), ("float", "double"), ("date", "time")}  # conversions


class Compiler:
    """Compiles the relations of one query."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.tree = Tree()
        self._count = 0
        self.used: list[Table] = []
        self.notes: list[str] = []

    def _handle(self, node: Any) -> str:
        self._count += 1
        if self._count > _MOST_RELATIONS:
            reason = (
                "the query reads too many tables and subqueries: the limit is about "
                f"{_MOST_RELATIONS // 2}, and lower for tables with owners"
            )
            refuse(node, reason, "use fewer of them, or split the query")
        return f"t{self._count}"

    # --- tables -----------------------------------------------------------------------------------

    def base(self, table: Table, node: Any) -> Relation:
        """Return the rows of a declared table, of types that expressions know."""
        if table not in self.used:
            self.used.append(table)
        handle = self._handle(node)
        fields: dict[str, Field] = {}
        cells = {}
        owners = [other.owner for other in self.catalog.tables.values() if other.owner is not None]
        for number, (name, column) in enumerate(table.columns.items()):
            cell = f"{handle}.{quoted(column.name)}"
            type_ = column_type(column.kind)
            same = column.kind.upper().replace(", ", ",") == type_.sql.replace(", ", ",")
            if type_ != OTHER and not same:
                cell = f"TRY_CAST({cell} AS {type_.sql})"
            place = folded(table.name), name
            unique = any((owner.table, owner.key) == place for owner in owners)
            tags = {".".join(place)} if unique else set()
            if name == table.unit:
                tags.add(_UNIT)
            if table.owner is not None and name == table.owner.column:
                tags.add(f"{table.owner.table}.{table.owner.key}")
            bounds = (0.0, 1.0) if type_.kind == "bool" else column.bounds
            cell = bounded(cell, type_, column.kind, named=bool(tags))
            cells[name] = canonical(cell, type_)
            fields[name] = Field(f"c{number}", type_, bounds, frozenset(tags), column.keys, unique)
        source, unit = f"{table.source} AS {handle}", ""
        if table.owner is not None:
            above = self.base(self.catalog.tables[table.owner.table], node)
            owner = self._handle(node)
            key = quoted(above.fields[table.owner.key].name)
            source += (
                f" JOIN ({above.sql}) AS {owner} ON {cells[table.owner.column]} = {owner}.{key}"
            )
            unit = f"{owner}.u AS u"
        elif table.row_id:
            unit = f"{table.row_id.format(handle)} AS u"
        elif table.unit is not None:
            kind = table.columns[table.unit].kind
            unit = f"{handle}.{quoted(table.columns[table.unit].name)}"
            if kind.upper() in ("FLOAT", "DOUBLE"):  # one zero, no NaN
                unit = f"CASE WHEN NOT isnan({unit}) THEN {unit} + 0.0 END"
            unit = f"{bounded(unit, column_type(kind), kind, named=True)} AS u"
        selected = [unit] * bool(unit)
        selected += [f"{cells[name]} AS {item.name}" for name, item in fields.items()]
        released = table.released and tuple(
            fields[name].name if name else "" for name in table.released
        )
        sql = f"SELECT {', '.join(selected)} FROM {source}"
        once = bool(table.row_id)
        return Relation(sql, fields, not table.public, released=released, once=once)

    def relation(self, node: exp.Expr, ctes: dict[str, Any]) -> tuple[str, Relation]:
        """Return a relation of FROM, and its alias."""
        if isinstance(node, exp.Subquery):
            only(node, "this", "alias")
            relation = self.derived(node.this, ctes)
            return self._aliased(node, folded(node.alias), relation)
        if isinstance(node, exp.Values):
            return self._aliased(node, folded(node.alias), self._values(node))
        if not isinstance(node, exp.Table):
            way = "use declared tables, subqueries and VALUES in FROM"
            refuse(node, f"{said(node)} in FROM is not supported", way)
        only(node, "this", "db", "catalog", "alias")
        if not isinstance(node.this, exp.Identifier):
            way = "declare a table with these rows in the parameter tables of PrivateDatabase"
            refuse(node, f"the table function {said(node)} is not supported", way)
        parts = [part.name for part in node.parts]
        declared = self.catalog.named(parts)
        if len(parts) == 1 and folded(parts[0]) in ctes:
            body, outer = ctes[folded(parts[0])]
            relation = self.derived(body, outer)
        elif declared is not None:
            relation = self.base(declared, node)
        else:
            known = sorted(t.name for t in self.catalog.tables.values() if t.released is None)
            way = f"use one of the declared tables: {', '.join(known)}"
            refuse(node, f"table {'.'.join(parts)} is not declared", way)
        return self._aliased(node, folded(node.alias or node.name), relation)

    def _aliased(self, node: Any, alias: str, relation: Relation) -> tuple[str, Relation]:
        given = node.args.get("alias")
        if given is not None:
            only(given, "this", "columns")
            names = [folded(item.name) for item in given.args.get("columns") or []]
            if len(names) > len(relation.fields) or len(set(names)) < len(names):
                reason = f"the column names of {alias!r} are too many, or two of them are equal"
                refuse(node, reason, f"give different names, {len(relation.fields)} or fewer")
            if names:
                old = list(relation.fields.items())
                new = [*names, *(name for name, _ in old[len(names) :])]
                fields = {name: item for name, (_, item) in zip(new, old, strict=True)}
                relation = replace(relation, fields=fields)
        return alias, relation

    def _values(self, node: exp.Values) -> Relation:
        """Return a table that the query states."""
        only(node, "expressions", "alias")
        rows = [
            [compiled(cell, RowScope(self.tree)) for cell in row.expressions]
            for row in node.expressions
        ]
        if len({len(row) for row in rows}) != 1:
            reason = "the rows of VALUES have different lengths"
            refuse(node, reason, "give each row as many values")
        fields, columns = {}, []
        for i, cells in enumerate(zip(*rows, strict=True)):
            try:
                type_, alike_cells = alike(self.tree, node, list(cells))
            except QueryRefusedError:
                reason = "a column of VALUES has values of different types"
                refuse(node, reason, "convert them to one type with CAST")
            type_ = BIGINT if type_.kind == "null" else type_
            fields[f"col{i}"] = Field(f"c{i}", type_)
            columns.append([f"CAST({cell.sql} AS {type_.sql})" for cell in alike_cells])
        listed = ", ".join(f"({', '.join(row)})" for row in zip(*columns, strict=True))
        handle = self._handle(node)
        names = ", ".join(field.name for field in fields.values())
        sql = f"SELECT * FROM (VALUES {listed}) AS {handle}({names})"
        return Relation(sql, fields, private=False)

    # --- FROM and WHERE ---------------------------------------------------------------------------

    def body(
        self, select: exp.Select, ctes: dict[str, Any], parent: RowScope | None = None
    ) -> Body:
        """Return FROM and WHERE of a SELECT."""
        first = select.args.get("from_")
        if first is None:
            refuse(select, "the query has no FROM clause", "name a declared table in FROM")
        only(first, "this")
        scope = RowScope(self.tree, parent)
        start, joins, turned = _left_joins(first.this, select.args.get("joins") or [])
        alias, relation = self.relation(start, ctes)
        handle = self._handle(first)
        scope.tables.append((alias, relation, handle))
        body = Body(scope, f"FROM ({_place(handle)}) AS {handle}", ctes)
        if relation.private:
            body.links.handles.append(handle)
        for join in joins:
            self._join(join, body)
        if turned:  # the columns of * have the order of the query
            scope.tables[:2] = scope.tables[1::-1]
        where = select.args.get("where")
        for test in conjuncts(None if where is None else where.this):
            body.correlated |= body.links.see(test, scope)
            body.equalities += equalities(test, scope)
            body.tests.append(self._test(test, body))
            left = body.public_left
            public = None if left is None else compiled_if(test, left.scope)
            if left is not None and public is not None:
                left.tests.append(public.sql)
        units = body.links.handles
        if units:
            body.links.check(select)
            body.unit = f"{units[0]}.u"
            body.tests += [f"{units[0]}.u = {other}.u" for other in units[1:]]
        self._bound(select, body)
        return body

    def _bound(self, select: exp.Select, body: Body) -> None:
        """Bound the rows that joins make of a row, and write relations into their places."""
        body.matches = check_public(select, self.catalog, body.scope, body.equalities)
        cap, body.pairs = private_cap(body.scope, body.equalities, body.matches)
        if cap is not None:
            note = (
                f"of each table that is joined by the unit alone, at most {cap:,} rows of a unit "
                "count, chosen by a hash. Join by the key of a declared owner to count all"
            )
            if note not in self.notes:
                self.notes.append(note)
        body.once = body.matches == 1 and all(
            relation.once for _, relation, _ in body.scope.tables if relation.private
        )
        for _, relation, handle in body.scope.tables:
            sql = relation.sql
            if cap is not None and relation.private:
                sql = capped(relation, cap, self._handle(select))
            body.source = body.source.replace(_place(handle), sql)
            if body.public_left is not None:
                source = body.public_left.source
                body.public_left.source = source.replace(_place(handle), sql)

    def _join(self, join: exp.Join, body: Body) -> None:
        only(join, "this", "on", "using", "side", "kind")
        side, kind = (str(join.args.get(item) or "").upper() for item in ("side", "kind"))
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER"):
            way = {
                "RIGHT": "put its table first in FROM, and use LEFT JOIN",
                "FULL": "use LEFT JOIN, and add the rows of the other table without a match by "
                "UNION ALL and NOT EXISTS",
            }.get(side, "use JOIN or LEFT JOIN; for SEMI use EXISTS, for ANTI use NOT EXISTS")
            refuse(join, f"{f'{side} {kind}'.strip()} JOIN is not supported here", way)
        alias, relation = self.relation(join.this, body.ctes)
        handle = self._handle(join)
        scope, links = body.scope, body.links
        if any(alias == known for known, _, _ in scope.tables):
            way = "give one of them another name with AS"
            refuse(join, f"two tables in FROM are named {alias!r}", way)
        tests = list(conjuncts(join.args.get("on")))
        before = list(scope.tables)
        scope.tables.append((alias, relation, handle))
        for item in join.args.get("using") or []:
            name = folded(item.name)
            owner = [known for known, other, _ in before if name in other.fields]
            if not owner or name not in relation.fields:
                reason = f"column {item.name!r} of USING is not on both sides of the join"
                refuse(join, reason, "use ON with the columns that must be equal")
            sides = [exp.column(item.name, table=table) for table in (owner[0], alias)]
            tests.append(exp.EQ(this=sides[0], expression=sides[1]))
            scope.merged.add(name)
        outer = side == "LEFT"
        if outer and relation.private and not links.handles:
            body.public_left = Body(RowScope(self.tree, scope.parent, before), body.source)
            outer = False
        # An outer join ties only its own table to those before it, and only for its own check.
        own = Links(list(links.handles), list(links.pairs)) if outer else links
        if relation.private:
            own.handles.append(handle)
        sql = []
        for test in tests:
            own.see(test, scope)
            body.equalities += equalities(test, scope)
            sql.append(condition(test, scope).sql)
        if outer:
            if relation.private:
                own.check(join)
                sql.append(f"{links.handles[0]}.u = {handle}.u")
            # Where there is no match its columns are NULL: none of them is the row's unit.
            fields = {
                name: replace(field, tags=field.tags - {_UNIT})
                for name, field in relation.fields.items()
            }
            scope.tables[-1] = (alias, replace(relation, fields=fields), handle)
        body.source += f"{' LEFT' * outer} JOIN ({_place(handle)}) AS {handle}"
        body.source += f" ON {' AND '.join(sql) or 'TRUE'}"

    def _test(self, test: exp.Expr, body: Body) -> str:
        """Return a condition of WHERE as SQL."""
        inner, negated = test, False
        while isinstance(inner, exp.Not | exp.Paren):
            negated ^= isinstance(inner, exp.Not)
            inner = inner.this
        if isinstance(inner, exp.Exists):
            only(inner, "this")
            result = self._inner_exists(inner.this, None, body, negated)
        elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
            only(inner, "this", "query")
            query = inner.args["query"]
            query = query.this if isinstance(query, exp.Subquery) else query
            result = self._inner_exists(query, inner.this, body, negated)
        else:
            return condition(test, body.scope).sql
        return f"NOT {result}" if negated else result

    def _inner_exists(
        self, select: exp.Expr, member: exp.Expr | None, body: Body, negated: bool
    ) -> str:
        """Return EXISTS or IN (of a `member`), over rows of the same unit or of public tables."""
        if not isinstance(select, exp.Select):
            way = "write EXISTS (SELECT ...) or x IN (SELECT ...), without UNION in it"
            refuse(select, "the subquery of EXISTS or IN is not one SELECT", way)
        value: Node | None
        if any(map(select.args.get, ("group", "having", "distinct"))) or any(
            map(is_aggregate, select.expressions)
        ):
            relation = self.derived(select, body.ctes)
            handle = self._handle(select)
            scope = RowScope(self.tree, body.scope, [("", relation, handle)])
            inner = Body(scope, f"FROM ({relation.sql}) AS {handle}")
            inner.unit = f"{handle}.u" if relation.private else None
            field = next(iter(relation.fields.values()))
            value = self.tree.leaf(field.type, f"{handle}.{quoted(field.name)}", None, field.tags)
        else:
            only(select, "expressions", "from_", "joins", "where")
            inner = self.body(select, body.ctes, body.scope)
            _refuse_left(select, inner)
            value = None if member is None else compiled(select.expressions[0], inner.scope)
        links = body.links
        tests, linked = inner.tests, False
        if member is not None:
            if len(select.expressions) != 1 or value is None:
                refuse(select, "the subquery of IN has several columns", "select one column in it")
            outside = compiled(member, body.scope)
            linked = bool(outside.tags & value.tags)
            _, (value, outside) = alike(self.tree, member, [value, outside])
            equal = f"({value.sql} = {outside.sql})"
            tests.append(f"({equal} IS DISTINCT FROM FALSE)" if negated else equal)
        if inner.unit is not None:
            if not links.handles:
                refuse(
                    select,
                    "private rows in EXISTS or IN would decide which rows of public tables are "
                    "shown",
                    "put the private table into FROM of the outer query",
                )
            if not linked and not inner.correlated:
                refuse(
                    select,
                    "the subquery reads rows of other privacy units than that of the row around it",
                    "equate in its WHERE its unit column, or the key of an owner, with that of the "
                    "outer query",
                )
            tests.append(f"{inner.unit} = {links.handles[0]}.u")
        return f"EXISTS (SELECT 1 {inner.sql})"

    # --- subqueries -------------------------------------------------------------------------------

    def derived(self, node: exp.Expr, ctes: dict[str, Any]) -> Relation:
        """Return a subquery in which each row belongs to one unit, or to none."""
        if isinstance(node, exp.Subquery):
            only(node, "this")
            return self.derived(node.this, ctes)
        if isinstance(node, exp.Union):
            return self._union(node, ctes)
        if not isinstance(node, exp.Select):
            way = "write a subquery as SELECT, or as UNION ALL of SELECTs"
            refuse(node, f"the subquery {said(node)} is not supported", way)
        check_order(self, node, ctes)
        for name in (*_ORDER, "qualify", "sample"):
            if node.args.get(name) is not None:
                what = "ORDER BY" if name == "order" else name.upper()
                way = "write it at the end of the whole query" if name in _ORDER else "leave it out"
                reason = f"{what} in this subquery would choose rows by those of other"
                refuse(node, f"{reason} privacy units", way)
        only(node, "expressions", "from_", "joins", "where", "group", "having", "distinct", "with_")
        body = self.body(node, self.with_ctes(node, ctes))
        _refuse_left(node, body)
        group, having = node.args.get("group"), node.args.get("having")
        items = [part for item in node.expressions for part in self._expanded(item, body.scope)]
        scope: Any = body.scope
        tail = ""
        if group is not None or having is not None or any(is_aggregate(item) for _, item in items):
            scope, tail = self._grouped(node, body, items)
        distinct = ""
        if node.args.get("distinct") is not None:
            only(node.args["distinct"])
            distinct = "DISTINCT "
            if body.unit and not any(compiled(item, scope).tags for _, item in items):
                raise over_units(node)
        fields: dict[str, Field] = {}
        selected = [f"{body.unit} AS u"] if body.unit else []
        for number, (name, item) in enumerate(items):
            value = compiled(item, scope)
            known = body.scope.field_of(item) if isinstance(item, exp.Column) else None
            keys = None if known is None else known.keys
            if value.type.kind == "null":
                refuse(
                    item,
                    "a column of the subquery is NULL in every row and has no type",
                    "write CASE WHEN FALSE THEN 0 END for a number, CASE WHEN FALSE THEN '' END "
                    "for a text",
                )
            if folded(name) in fields:
                reason = f"two columns of the subquery are named {name!r}"
                refuse(item, reason, "give them different names with AS")
            inner = f"c{number}"
            fields[folded(name)] = Field(inner, value.type, value.bounds, value.tags, keys)
            selected.append(f"{self.tree.canonical(value).sql} AS {inner}")
        sql = f"SELECT {distinct}{', '.join(selected)} {body.sql}{tail}"
        if len(sql) > 10**6:
            refuse(node, *TOO_LONG)
        if body.unit is None:
            released = names_of_one_row(body, items, group, fields)
            return Relation(sql, fields, private=False, released=released)
        once = body.once and scope is body.scope
        return Relation(sql, fields, True, body.matches, body.pairs, once=once)

    def _grouped(
        self, node: exp.Select, body: Body, items: list[tuple[str, exp.Expr]]
    ) -> tuple[InnerAggregates, str]:
        """Return the scope of a subquery that aggregates inside units, and GROUP BY ... HAVING."""
        group, having = node.args.get("group"), node.args.get("having")
        keys: list[Node] = []
        if group is not None:
            only(group, "expressions")
            parts = [grouped_item(part, items, body.scope) for part in group.expressions]
            keys = [self.tree.canonical(compiled(part, body.scope)) for part in parts]
        if body.unit is not None and not any(key.tags for key in keys):
            raise over_units(node)
        groups = [key.sql for key in keys]
        if body.unit is not None:
            groups.insert(0, body.unit)
        scope = InnerAggregates(body.scope, keys)
        tail = f" GROUP BY {', '.join(groups)}" if groups else ""
        if having is not None:
            tail += f" HAVING {condition(having.this, scope).sql}"
        return scope, tail

    def _expanded(self, item: exp.Expr, scope: RowScope) -> Iterator[tuple[str, exp.Expr]]:
        """Yield the columns of an item of SELECT: itself, or those of *."""
        table = None
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            table = folded(item.table)
            if table not in [alias for alias, _, _ in scope.tables]:
                known = ", ".join(alias for alias, _, _ in scope.tables)
                refuse(item, f"there is no table {item.table!r} here", f"the tables are: {known}")
            item = item.this
        if isinstance(item, exp.Star):
            only(item)
            for alias, relation, _ in scope.tables:
                if table in (None, alias):
                    for name in relation.fields:
                        yield name, exp.column(name, table=alias)
            return
        inner = item.this if isinstance(item, exp.Alias) else item
        yield item_name(item, 0), inner

    def _union(self, node: exp.Union, ctes: dict[str, Any]) -> Relation:
        only(node, "this", "expression", "with_", "distinct")
        ctes = self.with_ctes(node, ctes)
        a, b = self.derived(node.this, ctes), self.derived(node.expression, ctes)
        distinct = bool(node.args.get("distinct"))
        if type(node) is not exp.Union or (distinct and (a.private or b.private)):
            reason = "UNION without ALL would compare rows of several privacy units: only public"
            refuse(node, f"{reason} tables have it", "use UNION ALL")
        if a.private != b.private:
            refuse(
                node,
                "UNION ALL of a private and a public table has rows that belong to no privacy unit",
                "use only private or only public tables on both sides",
            )
        if len(a.fields) != len(b.fields):
            reason = "the two sides of UNION ALL have different numbers of columns"
            refuse(node, reason, "select as many columns on both sides")
        fields, first, second = {}, [], []
        for (name, item), other in zip(a.fields.items(), b.fields.values(), strict=True):
            sides = [self.tree.leaf(x.type, x.name, x.bounds) for x in (item, other)]
            try:
                type_, sides = alike(self.tree, node, sides)
            except QueryRefusedError:
                kinds = WORDS[item.type.kind], WORDS[other.type.kind]
                reason = f"column {name!r} of UNION ALL holds {kinds[0]} on one side and {kinds[1]}"
                refuse(node, f"{reason} on the other", "convert one of them with CAST")
            tags, bounds = item.tags & other.tags, union_of(sides)
            fields[name] = Field(item.name, type_, bounds, tags)
            first.append(f"{sides[0].sql} AS {item.name}")
            second.append(f"{sides[1].sql} AS {item.name}")
        unit = ["u"] if a.private else []
        sql = " UNION ALL ".join(
            f"SELECT {', '.join(unit + columns)} FROM ({side.sql}) AS {self._handle(node)}"
            for columns, side in ((first, a), (second, b))
        )
        if distinct:  # of public rows alone
            names = ", ".join(field.name for field in fields.values())
            sql = f"SELECT DISTINCT {names} FROM ({sql}) AS {self._handle(node)}"
        pairs = a.pairs + b.pairs
        if pairs > MOST_OF_UNIONS:
            reason = (
                f"UNION ALL of joins by the privacy unit alone can give {pairs:,} rows of one "
                f"unit; at most {MOST_OF_UNIONS:,} are allowed"
            )
            way = "join by the key of a declared owner, or query each part by itself"
            refuse(node, reason, way)
        return Relation(sql, fields, a.private, a.matches + b.matches - 1, pairs)

    def with_ctes(self, node: exp.Expr, ctes: dict[str, Any]) -> dict[str, Any]:
        """Return the common tables that a node sees: each of its WITH sees those before it."""
        given = node.args.get("with_")
        if given is None:
            return ctes
        if given.args.get("recursive"):
            refuse(given, "WITH RECURSIVE is not supported", "use WITH without RECURSIVE")
        only(given, "expressions")
        named: set[str] = set()
        for cte in given.expressions:
            only(cte, "this", "alias", "materialized")
            alias = cte.args["alias"]
            only(alias, "this")
            if folded(alias.name) in named:
                reason = f"two tables of WITH are named {alias.name!r}"
                refuse(cte, reason, "give one of them another name")
            named.add(folded(alias.name))
            ctes = {**ctes, folded(alias.name): (cte.this, ctes)}
        return ctes


def _left_joins(first: exp.Expr, joins: list[exp.Join]) -> tuple[exp.Expr, list[exp.Join], bool]:
    """Return FROM with a first RIGHT JOIN as LEFT JOIN; and whether * has the reverse order."""
    if not joins or str(joins[0].args.get("side") or "").upper() != "RIGHT":
        return first, joins, False
    turned = joins[0].copy()
    turned.set("side", "LEFT")
    turned.set("this", first.copy())
    return joins[0].this, [turned, *joins[1:]], not joins[0].args.get("using")


def _refuse_left(node: exp.Expr, body: Body) -> None:
    if body.public_left is not None:
        refuse(node, LEFT, "put the private table on the left, or use JOIN")


def _place(handle: str) -> str:
    """Return a placeholder for a relation, which is bounded once its whole SELECT is known."""
    return f"\x00{handle}\x00"


# --- how many rows a join makes of one row ------------------------------------------------------


def equalities(test: exp.Expr, scope: RowScope) -> Iterator[Equality]:
    """Yield the equality of a test for each side that is a column of this SELECT."""
    if not isinstance(test, exp.EQ):
        return
    for item, other in ((test.this, test.expression), (test.expression, test.this)):
        result = scope.own(item) if isinstance(item, exp.Column) else None
        if result is None:
            continue
        field, handle = result
        inside = [scope.own(column) for column in other.find_all(exp.Column)]
        others = frozenset(known[1] for known in inside if known)
        if handle in others or _rounds(field.type, test, other, scope):
            continue
        outer = None
        if isinstance(other, exp.Column) and not others and scope.parent is not None:
            outer = scope.parent.own(other)
        yield Equality(handle, field.name, field.unique, others, bool(outer and outer[0].unique))


def _rounds(type_: Type, node: exp.Expr, other: exp.Expr, scope: RowScope) -> bool:
    """Say whether an equation compares a column in a type in which different values may be equal.

    These are floating point, fewer digits, and times of a zone: where clocks are put forward, two
    local times are one.
    """
    column = scope.tree.leaf(type_, "NULL")
    try:
        goal, _ = alike(scope.tree, node, [column, compiled(other, scope)])
    except QueryRefusedError:  # the test itself will be refused, with its own reason
        return True
    if goal.kind == type_.kind:
        return goal.scale < type_.scale
    return (type_.kind, goal.kind) not in _EXACT


_FIRST_TIME = "'290309-12-22 (BC) 00:00:00"


def bounded(sql: str, type_: Type, kind: str, *, named: bool) -> str:
    """Return a cell of a column (of DuckDB's type `kind`) as SQL, of bounded length.

    A join with public tables writes it up to a thousand times. `named`: it holds ids or keys of
    owners, which are not cut, since two could become one; longer ones name nobody.
    """
    if type_.kind in ("time", "zoned") and type_.scale != 9:
        # Arrow has earlier ones; to write one as text ends the database.
        zone, offset = ("TZ", "+00'") if type_.kind == "zoned" else ("", "'")
        first, infinite = f"TIMESTAMP{zone} {_FIRST_TIME}{offset}", f"TIMESTAMP{zone} '-infinity'"
        return f"(CASE WHEN {sql} >= {first} OR {sql} = {infinite} THEN {sql} END)"
    if kind.upper() == "VARCHAR":
        short = f"strlen({sql}) <= {LONGEST}"  # bytes
        if named:
            return f"(CASE WHEN {short} THEN {sql} END)"
        return f'(CASE WHEN {short} THEN {sql} ELSE "left"({sql}, {LONGEST}) END)'
    if kind.upper() in ("BLOB", "BIT") and named:
        return f"(CASE WHEN octet_length({sql}) <= {LONGEST} THEN {sql} END)"
    if type_.kind == "blob":
        return f"({sql})[1:{LONGEST}]"
    if type_.kind == "other":
        return f"(CASE WHEN {sql} IS NOT NULL THEN hash({sql}) END)"
    return sql


def check_public(node: exp.Expr, catalog: Any, scope: RowScope, equated: list[Equality]) -> int:
    """Return the most rows that public tables make of a row, by reading them; refuse too many."""
    waiting = {handle: relation for _, relation, handle in scope.tables if not relation.private}
    most = math.prod(relation.matches for _, relation, _ in scope.tables)  # of subqueries
    alone = len(waiting) == len(scope.tables)
    if not waiting or (alone and scope.parent is None):
        return most
    reached = {handle for _, relation, handle in scope.tables if relation.private}

    def matches(handle: str, relation: Relation) -> int:
        """Return the largest number of rows of a public table that agree in equated columns."""
        columns = [e.column for e in equated if e.handle == handle and e.others <= reached]
        if relation.released is not None:  # there are no rows yet
            return 1 if alone or set(relation.released) <= set(columns) else _UNKNOWN
        grouped = f" GROUP BY {', '.join(dict.fromkeys(columns))}" if columns else ""
        counts = f"SELECT count(*) AS n FROM ({relation.sql}){grouped}"
        cursor = catalog.reader
        sql = f"SELECT max(n) FROM ({counts})"
        result = cancellable(lambda: cursor.execute(sql).fetchone(), cursor.interrupt)
        return int(result[0] or 0)

    def counted() -> int:
        product = 1
        while waiting:  # the table with the fewest matches next: it may tie others
            counts = {handle: matches(handle, relation) for handle, relation in waiting.items()}
            least = min(counts, key=counts.__getitem__)
            if counts[least] == _UNKNOWN:
                refuse(
                    node,
                    "the join with a released subquery does not equate all columns of its GROUP "
                    "BY, so how many of its rows match one row is not known beforehand",
                    "select all columns of GROUP BY in the subquery and equate each of them, or "
                    "run the subquery first as a query of its own",
                )
            product *= max(counts[least], 1)
            reached.add(least)
            del waiting[least]
        return product

    way = "check that the public tables of the query still exist"
    most *= or_raise(
        counted,
        lambda: refusal(node, "DuckDB cannot read a public table of the query", way),
        own=(QueryRefusedError,),
    )
    if most > MOST_MATCHES:
        reason = f"joins with public tables can give {most:,} rows for one row; at most"
        way = (
            "add conditions that equate columns of each public table with columns of other tables "
            "or with constants"
        )
        refuse(node, f"{reason} {MOST_MATCHES:,} are allowed", way)
    return most


def private_cap(scope: RowScope, equated: list[Equality], matches: int) -> tuple[int | None, int]:
    """Return the cap on the rows of a unit in each private table, and on those of its join.

    None for no cap, and 0 for as many rows as the unit has: a table of which a key names one row
    multiplies nothing. `matches` is the product of public tables, subqueries included.
    """
    relations = {handle: relation for _, relation, handle in scope.tables if relation.private}
    if not relations:
        return None, 0
    factors = min(_factors(root, list(relations), equated) for root in relations)
    if scope.parent is not None and not any(
        e.handle in relations and (e.unique or e.outer_unique) and not e.others for e in equated
    ):
        factors += 1  # beside the rows of the SELECT around it
    here = max(matches // math.prod(relation.matches for relation in relations.values()), 1)
    pairs = max(relation.pairs for relation in relations.values()) * here
    if factors <= 1 and pairs <= MOST_OF_UNIONS:
        return None, pairs
    return max(math.floor((MOST_PAIRS / here) ** (1 / factors) + 1e-9), 1), MOST_PAIRS


def _factors(root: str, private: list[str], equated: list[Equality]) -> int:
    """Return the number of tables that multiply rows: all but those reached by a unique key."""
    rest, factors = [handle for handle in private if handle != root], 1
    while rest:
        by_key = (
            e.handle
            for e in equated
            if e.unique and e.handle in rest and e.others
            and e.others <= set(private) - set(rest)
        )  # fmt: skip
        tied = next(by_key, None)
        factors += tied is None
        rest.remove(rest[0] if tied is None else tied)
    return factors


def capped(relation: Relation, cap: int, handle: str) -> str:
    """Return a private relation with at most `cap` rows of each unit, chosen by a hash.

    Only the rows of units that have more are sorted.
    """
    fields = relation.fields.values()
    columns = [f"hash({', '.join(field.name for field in fields)})"]
    columns += [field.name for field in fields if field.type.kind not in ("other", "null")]
    order = ", ".join(f"{column} ASC NULLS LAST" for column in columns)
    own, many = f"{handle}_own", f"{handle}_many"
    once = "MATERIALIZED" if relation.pairs else "NOT MATERIALIZED"
    return (
        f"WITH {own} AS {once} ({relation.sql}), "
        f"{many} AS (SELECT u AS m FROM {own} GROUP BY u HAVING count(*) > {cap}) "
        f"SELECT * FROM {own} ANTI JOIN {many} ON u = m UNION ALL "
        f"(SELECT * FROM {own} SEMI JOIN {many} ON u = m "
        f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY {order}) <= {cap})"
    )


# --- subqueries that aggregate over units -------------------------------------------------------


def over_units(node: exp.Expr) -> OverUnits:
    """Return the error for a subquery over units; a caller that can releases it first."""
    return OverUnits(
        node,
        f"{place_of(node)}a subquery that aggregates rows of several privacy units is not "
        "supported here. Group by the privacy unit in it, or run it first as a query of its own. "
        "Nothing was charged.",
    )


def check_order(compiler: Any, node: exp.Select, ctes: dict[str, Any]) -> None:
    """Raise OverUnits for an aggregation over units with ORDER BY or LIMIT.

    These take some of its released rows; in other subqueries they are refused.
    """
    grouped = node.args.get("group") is not None or node.args.get("distinct") is not None
    if not (grouped or any(map(is_aggregate, node.expressions))):
        return
    parts = {name: node.args.pop(name) for name in _ORDER if node.args.get(name) is not None}
    try:
        if parts:
            compiler.derived(node, ctes)
    finally:
        for name, part in parts.items():
            node.set(name, part)


def names_of_one_row(
    body: Body, items: list[tuple[str, exp.Expr]], group: exp.Expr | None, fields: dict[str, Field]
) -> tuple[str, ...] | None:
    """Return the columns of a subquery of public tables that name one row of it.

    None if it reads no released table; ("",), which is no column, if no columns do.
    """
    tables = [relation for _, relation, _ in body.scope.tables]
    if all(table.released is None for table in tables):
        return None
    if any(is_aggregate(item) for _, item in items) and group is None:
        return ()
    if len(tables) > 1 or group is not None:
        return ("",)
    columns = [(name, item) for name, item in items if isinstance(item, exp.Column)]
    known = {
        field.name: fields[folded(name)].name
        for name, item in columns
        if (field := body.scope.field_of(item)) is not None
    }
    return tuple(known.get(name, "") for name in tables[0].released or ())
