"""FROM and WHERE: rows that each belong to one unit, as one SELECT of DuckDB.

Nothing is released here. A relation carries, beside its columns, whose each row is. What is
accepted keeps units apart: a row of the result depends on rows of its own unit and on public
tables alone, so that a unit more or less changes no row of another. Therefore

- private tables are joined where the query equates ids of units, or keys that lead to an owner;
  equality of units is added to the SQL in any case;
- subqueries that group by what leads to a unit group by the unit too;
- EXISTS and IN look at rows of the same unit;
- nothing takes rows by their number or order: no LIMIT, no sample, no window.

A join that makes very many rows of a few may fail for want of memory, and where the rows of one
unit decide that, the failure tells of them. So how many rows a join makes of one is bounded before
any row is read:

- public tables multiply a row by at most `MOST_MATCHES` together, by their own rows alone, which
  are public;
- private tables that are tied by units, not by a key, count at most so many rows of a unit each
  that a unit has at most `MOST_PAIRS` in the join, with what public tables make of them. Which ones
  is decided by a hash of each row's own cells: no other unit has a say in it.

What is left is the size of the whole, for which the page on SQL says what is not promised.

A subquery that aggregates over units is released before the rest, and is a public table then, of
which is known what names one row: what it groups by. A query that joins it has to equate all of
that, since how many rows there will be is not known before the charge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from skdp.exceptions import QueryRefusedError
from skdp.sql._catalog import Catalog, Table, folded
from skdp.sql._relations import (
    Body,
    Field,
    InnerAggregates,
    Left,
    Links,
    Relation,
    RowScope,
    grouped_item,
    is_aggregate,
    item_name,
)
from skdp.sql._syntax import SOURCES, OverUnits, conjuncts, only, place_of, refusal, refuse, said
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
from skdp.sql.rules import compiled, condition
from skdp.user_code import cancellable, or_raise

_MOST_RELATIONS = 100
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
        self._bits = {
            item.source: 1 << number
            for number, item in enumerate(
                table for table in catalog.tables.values() if table.released is not None
            )
        }
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
        selected = []
        raws = {}
        for number, (name, column) in enumerate(table.columns.items()):
            raw = f"{handle}.{quoted(column.name)}"
            type_ = column_type(column.kind)
            if type_ != OTHER and column.kind.upper().replace(", ", ",") != type_.sql.replace(
                ", ", ","
            ):
                raw = f"TRY_CAST({raw} AS {type_.sql})"
            tags = set()
            if name == table.unit:
                tags.add(_UNIT)
            if table.owner is not None and name == table.owner.column:
                tags.add(f"{table.owner.table}.{table.owner.key}")
            pointing = {
                f"{other.owner.table}.{name}"
                for other in self.catalog.tables.values()
                if other.owner is not None
                and other.owner.table == folded(table.name)
                and other.owner.key == name
            }
            tags |= pointing
            raw = bounded(raw, type_, column.kind, named=bool(tags))
            bounds = (0.0, 1.0) if type_.kind == "bool" else column.bounds
            inner = f"c{number}"
            unique = bool(pointing)
            fields[name] = Field(inner, type_, bounds, frozenset(tags), column.keys, unique)
            raws[name] = canonical(raw, type_)
            selected.append(f"{raws[name]} AS {inner}")
        source = f"{table.source} AS {handle}"
        if table.owner is not None:
            above = self.base(self.catalog.tables[table.owner.table], node)
            of = self._handle(node)
            key = above.fields[table.owner.key].name
            source += (
                f" JOIN ({above.sql}) AS {of} ON {raws[table.owner.column]} = {of}.{quoted(key)}"
            )
            selected.insert(0, f"{of}.u AS u")
        elif table.row_id:
            selected.insert(0, f"{table.row_id.format(handle)} AS u")
        elif table.unit is not None:
            unit = f"{handle}.{quoted(table.columns[table.unit].name)}"
            if table.columns[table.unit].kind.upper() in ("FLOAT", "DOUBLE"):  # one zero, no NaN
                unit = f"CASE WHEN NOT isnan({unit}) THEN {unit} + 0.0 END"
            kind = table.columns[table.unit].kind
            unit = bounded(unit, column_type(kind), kind, named=True)
            selected.insert(0, f"{unit} AS u")
        released = table.released and tuple(
            fields[name].name if name else "" for name in table.released
        )
        sql = f"SELECT {', '.join(selected)} FROM {source}"
        deps = self._bits.get(table.source, 0)
        once = bool(table.row_id)
        return Relation(sql, fields, not table.public, released=released, deps=deps, once=once)

    def relation(self, node: exp.Expr, ctes: dict[str, Any]) -> tuple[str, Relation]:
        """Return what FROM names, and its alias."""
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
        given = (node.args.get("catalog"), node.args.get("db"), node.this)
        parts = [part.name for part in given if part is not None]
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
            refuse(node, *SOURCES["lengths"])
        fields, columns = {}, []
        for i, cells in enumerate(zip(*rows, strict=True)):
            try:
                type_, alike_cells = alike(self.tree, node, list(cells))
            except QueryRefusedError:
                refuse(node, *SOURCES["types"])
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
            refuse(select, *SOURCES["no from"])
        only(first, "this")
        scope = RowScope(self.tree, parent)
        start, joins, turned = _left_joins(first.this, select.args.get("joins") or [])
        alias, relation = self.relation(start, ctes)
        handle = self._handle(first)
        scope.tables.append((alias, relation, handle))
        body = Body(scope, f"FROM ({_place(handle)}) AS {handle}", [], None)
        equated: list[Equality] = []
        links = Links()
        body.deps |= relation.deps
        if relation.private:
            links.add(handle)
        for join in joins:
            self._join(join, body, links, ctes, equated)
        if turned:  # what * stands for has its order
            scope.tables[:2] = scope.tables[1::-1]
        where = select.args.get("where")
        equated += equalities(None if where is None else where.this, scope)
        for test in conjuncts(None if where is None else where.this):
            links.see(test, scope)
            body.tests.append(self._test(test, body, links, ctes))
            public = None if body.left is None else body.left.compiled(test)
            if body.left is not None and public is not None:
                body.left.tests.append(public.sql)
                body.deps |= public.deps
        units = links.handles
        if units:
            links.check(select)
            body.unit = f"{units[0]}.u"
            body.tests += [f"{units[0]}.u = {other}.u" for other in units[1:]]
        self._bound(select, body, equated)
        return body

    def _bound(self, select: exp.Select, body: Body, equated: list[Equality]) -> None:
        """Bound what joins make of a row, and put relations in their places."""
        body.matches = check_public(select, self.catalog, body.scope, equated)
        cap, body.pairs = private_cap(body.scope, equated, body.matches)
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
            if body.left is not None:
                body.left.source = body.left.source.replace(_place(handle), sql)

    def _join(
        self,
        join: exp.Join,
        body: Body,
        links: Links,
        ctes: dict[str, Any],
        equated: list[Equality],
    ) -> None:
        only(join, "this", "on", "using", "side", "kind")
        side, kind = (str(join.args.get(item) or "").upper() for item in ("side", "kind"))
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER"):
            way = {
                "RIGHT": "put its table first in FROM, and use LEFT JOIN",
                "FULL": "use LEFT JOIN, and add the rows of the other table without a match by "
                "UNION ALL and NOT EXISTS",
            }.get(side, "use JOIN or LEFT JOIN; for SEMI use EXISTS, for ANTI use NOT EXISTS")
            refuse(join, f"{f'{side} {kind}'.strip()} JOIN is not supported here", way)
        alias, relation = self.relation(join.this, ctes)
        handle = self._handle(join)
        scope = body.scope
        body.deps |= relation.deps
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
            left = exp.column(item.name, table=owner[0])
            tests.append(exp.EQ(this=left, expression=exp.column(item.name, table=alias)))
            scope.merged.add(name)
        outer = side == "LEFT"
        if outer and relation.private and not links.handles:  # see `Left`
            body.left = Left(RowScope(self.tree, scope.parent, before), body.source)
            outer = False
        own = Links(list(links.handles), list(links.pairs)) if outer else links
        if relation.private:
            own.add(handle)
        for test in tests:
            own.see(test, scope)
        equated += [equality for test in tests for equality in equalities(test, scope)]
        nodes = [condition(test, scope) for test in tests]
        body.deps |= deps_of(nodes)
        compiled_tests = [node.sql for node in nodes]
        if outer:
            if relation.private:
                own.check(join)
                compiled_tests.append(f"{links.handles[0]}.u = {handle}.u")
            # Where there is no match its columns are NULL: none of them is the row's unit.
            fields = {
                name: replace(field, tags=field.tags - {_UNIT})
                for name, field in relation.fields.items()
            }
            scope.tables[-1] = (alias, replace(relation, fields=fields), handle)
            body.source += f" LEFT JOIN ({_place(handle)}) AS {handle}"
            body.source += f" ON {' AND '.join(compiled_tests) or 'TRUE'}"
        else:
            body.source += f" JOIN ({_place(handle)}) AS {handle}"
            body.source += f" ON {' AND '.join(compiled_tests) or 'TRUE'}"

    def _test(self, test: exp.Expr, body: Body, links: Links, ctes: dict[str, Any]) -> str:
        """Return one test of WHERE."""
        inner, negated = test, False
        while isinstance(inner, exp.Not | exp.Paren):
            negated ^= isinstance(inner, exp.Not)
            inner = inner.this
        if isinstance(inner, exp.Exists):
            only(inner, "this")
            result = self._inner_exists(inner.this, None, body, links, ctes, negated)
        elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
            only(inner, "this", "query")
            query = inner.args["query"]
            query = query.this if isinstance(query, exp.Subquery) else query
            result = self._inner_exists(query, inner.this, body, links, ctes, negated)
        else:
            tested = condition(test, body.scope)
            body.deps |= tested.deps
            return tested.sql
        return f"NOT {result}" if negated else result

    def _inner_exists(
        self,
        select: exp.Expr,
        member: exp.Expr | None,
        body: Body,
        links: Links,
        ctes: dict[str, Any],
        negated: bool,
    ) -> str:
        """Return EXISTS over rows of the same unit, or of public tables."""
        if not isinstance(select, exp.Select):
            refuse(select, *SOURCES["no select"])
        plain = not (
            select.args.get("group") or select.args.get("having") or select.args.get("distinct")
        ) and not any(is_aggregate(item) for item in select.expressions)
        if plain:
            only(select, "expressions", "from_", "joins", "where")
            inner = self.body(select, ctes, body.scope)
            if inner.left is not None:
                refuse(select, *SOURCES["left"])
            items = select.expressions
            value = compiled(items[0], inner.scope) if member is not None else None
        else:
            relation = self.derived(select, ctes)
            items = select.expressions
            handle = self._handle(select)
            inner_scope = RowScope(self.tree, body.scope, [("", relation, handle)])
            inner = Body(inner_scope, "", [], None, deps=relation.deps)
            inner.source = f"FROM ({relation.sql}) AS {handle}"
            inner.unit = f"{handle}.u" if relation.private else None
            field = next(iter(relation.fields.values()))
            value = self.tree.leaf(field.type, f"{handle}.{quoted(field.name)}", None, field.tags)
        tests, linked = list(inner.tests), False
        if member is not None:
            if len(items) != 1 or value is None:
                refuse(select, *SOURCES["one column"])
            left = compiled(member, body.scope)
            linked = bool(left.tags & value.tags)
            body.deps |= left.deps | value.deps
            _, (value, left) = alike(self.tree, member, [value, left])
            equal = f"({value.sql} = {left.sql})"
            tests.append(f"({equal} IS DISTINCT FROM FALSE)" if negated else equal)
        if inner.unit is not None:
            if not links.handles:
                refuse(select, *SOURCES["chosen"])
            if not linked and not _equates(select, inner.scope):
                refuse(select, *SOURCES["other units"])
            tests.append(f"{inner.unit} = {links.handles[0]}.u")
        body.deps |= inner.deps
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"EXISTS (SELECT 1 {inner.source}{where})"

    # --- subqueries -------------------------------------------------------------------------------

    def derived(self, node: exp.Expr, ctes: dict[str, Any]) -> Relation:
        """Return a subquery that keeps units apart."""
        if isinstance(node, exp.Subquery):
            only(node, "this")
            return self.derived(node.this, ctes)
        if isinstance(node, exp.Union):
            return self._union(node, ctes)
        if not isinstance(node, exp.Select):
            way = "write a subquery as SELECT, or as UNION ALL of SELECTs"
            refuse(node, f"the subquery {said(node)} is not supported", way)
        check_order(self, node, ctes)
        for name in ("order", "limit", "offset", "qualify", "sample"):
            if node.args.get(name) is not None:
                at_end = name in ("order", "limit", "offset")
                what = "ORDER BY" if name == "order" else name.upper()
                refuse(
                    node,
                    f"{what} in this subquery would choose rows by those of other privacy units",
                    "write it at the end of the whole query" if at_end else "leave it out",
                )
        only(node, "expressions", "from_", "joins", "where", "group", "having", "distinct", "with_")
        ctes = self.with_ctes(node, ctes)
        body = self.body(node, ctes)
        if body.left is not None:
            refuse(node, *SOURCES["left"])
        group = node.args.get("group")
        having = node.args.get("having")
        items = [part for item in node.expressions for part in self._expanded(item, body.scope)]
        if group is None and having is None and not any(is_aggregate(item) for _, item in items):
            scope: Any = body.scope
            tail = ""
        else:
            scope, tail = self._grouped(node, body, items)
        distinct = ""
        if node.args.get("distinct") is not None:
            only(node.args["distinct"])
            distinct = "DISTINCT "
            if body.unit and not any(compiled(item, scope).tags for _, item in items):
                raise over_units(node)
        fields: dict[str, Field] = {}
        selected = [f"{body.unit} AS u"] if body.unit else []
        deps = body.deps
        for number, (name, item) in enumerate(items):
            one = compiled(item, scope)
            deps |= one.deps
            known = body.scope.field_of(item) if isinstance(item, exp.Column) else None
            keys = None if known is None else known.keys
            if one.type.kind == "null":
                refuse(item, *SOURCES["no type"])
            if folded(name) in fields:
                reason = f"two columns of the subquery are named {name!r}"
                refuse(item, reason, "give them different names with AS")
            inner = f"c{number}"
            fields[folded(name)] = Field(inner, one.type, one.bounds, one.tags, keys)
            selected.append(f"{self.tree.canonical(one).sql} AS {inner}")
        sql = f"SELECT {distinct}{', '.join(selected)} {body.sql}{tail}"
        if len(sql) > 10**6:
            refuse(node, *SOURCES["too long"])
        private = body.unit is not None
        if not private:
            released = names_of_one_row(body, items, group, fields)
            return Relation(sql, fields, private, released=released, deps=deps)
        once = body.once and scope is body.scope
        return Relation(sql, fields, private, body.matches, body.pairs, deps=deps, once=once)

    def _grouped(
        self, node: exp.Select, body: Body, items: list[tuple[str, exp.Expr]]
    ) -> tuple[InnerAggregates, str]:
        """Return the scope of a subquery that aggregates inside units, and GROUP BY ... HAVING."""
        group = node.args.get("group")
        named: list[exp.Expr] = []
        if group is not None:
            only(group, "expressions")
            named = [
                grouped_item(expression, items, body.scope) for expression in group.expressions
            ]
        own = [compiled(item, body.scope) for item in named]
        keys = [self.tree.canonical(item) for item in own]
        body.deps |= deps_of(keys)
        if body.unit is not None and not any(key.tags for key in own):
            raise over_units(node)
        groups = [key.sql for key in keys]
        if body.unit is not None:
            groups.insert(0, body.unit)
        scope = InnerAggregates(body.scope, keys)
        tail = f" GROUP BY {', '.join(groups)}" if groups else ""
        having = node.args.get("having")
        if having is not None:
            test = condition(having.this, scope)
            body.deps |= test.deps
            tail += f" HAVING {test.sql}"
        return scope, tail

    def _expanded(self, item: exp.Expr, scope: RowScope) -> Iterator[tuple[str, exp.Expr]]:
        """Yield the columns of an item of a SELECT: itself, or what * stands for."""
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
        if type(node) is not exp.Union:
            refuse(node, *SOURCES["union"])
        ctes = self.with_ctes(node, ctes)
        a, b = self.derived(node.this, ctes), self.derived(node.expression, ctes)
        distinct = bool(node.args.get("distinct"))
        if distinct and (a.private or b.private):
            refuse(node, *SOURCES["union"])
        if a.private != b.private:
            refuse(node, *SOURCES["mixed"])
        if len(a.fields) != len(b.fields):
            refuse(node, *SOURCES["columns"])
        fields, left, right = {}, [], []
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
            left.append(f"{sides[0].sql} AS {item.name}")
            right.append(f"{sides[1].sql} AS {item.name}")
        unit = ["u"] if a.private else []
        first, second = self._handle(node), self._handle(node)
        sql = (
            f"SELECT {', '.join(unit + left)} FROM ({a.sql}) AS {first} UNION ALL "
            f"SELECT {', '.join(unit + right)} FROM ({b.sql}) AS {second}"
        )
        if distinct:  # of public rows alone
            names = ", ".join(field.name for field in fields.values())
            sql = f"SELECT DISTINCT {names} FROM ({sql}) AS {self._handle(node)}"
        pairs = a.pairs + b.pairs
        if pairs > MOST_OF_UNIONS:
            refuse(
                node,
                f"UNION ALL of joins by the privacy unit alone can give {pairs:,} rows of one "
                f"unit; at most {MOST_OF_UNIONS:,} are allowed",
                "join by the key of a declared owner, or query each part by itself",
            )
        deps = a.deps | b.deps
        return Relation(sql, fields, a.private, a.matches + b.matches - 1, pairs, deps=deps)

    def with_ctes(self, node: exp.Expr, ctes: dict[str, Any]) -> dict[str, Any]:
        """Return common tables, those of WITH among them: each sees the ones before it."""
        given = node.args.get("with_")
        if given is None:
            return ctes
        if given.args.get("recursive"):
            refuse(given, *SOURCES["recursive"])
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
    """Return FROM with a RIGHT JOIN that stands first turned round, and whether its * is to be."""
    if not joins or str(joins[0].args.get("side") or "").upper() != "RIGHT":
        return first, joins, False
    turned = joins[0].copy()
    turned.set("side", "LEFT")
    turned.set("this", first.copy())
    return joins[0].this, [turned, *joins[1:]], not joins[0].args.get("using")


def _place(handle: str) -> str:
    """Return what stands for a relation until all of its SELECT is known."""
    return f"\x00{handle}\x00"


def _equates(select: exp.Select, scope: RowScope) -> bool:
    """Say whether WHERE equates an id of a subquery with one of the query around it."""
    where = select.args.get("where")
    for test in conjuncts(None if where is None else where.this):
        sides = (test.this, test.expression) if isinstance(test, exp.EQ) else ()
        if len(sides) == 2 and all(isinstance(side, exp.Column) for side in sides):
            inside = [scope.own(side) is not None for side in sides]
            if sorted(inside) == [False, True]:
                a, b = (scope.column(side) for side in sides)
                if a.tags & b.tags:
                    return True
    return False


# --- how many rows a join makes of one ----------------------------------------------------------


@dataclass(frozen=True)
class Equality:
    """A column of a table that a test equates with something.

    Attributes
    ----------
    handle, column : str
        In SQL.
    unique : bool
        Whether the column names one row.
    others : frozenset of str
        Tables of the same SELECT on the other side.
    outer_unique : bool
        Whether the other side is a column of the SELECT around it that names one row there.
    """

    handle: str
    column: str
    unique: bool
    others: frozenset[str]
    outer_unique: bool = False


def equalities(node: exp.Expr | None, scope: RowScope) -> Iterable[Equality]:
    """Yield what ANDs equate, for each side that is a column of this SELECT."""
    for test in conjuncts(node):
        if not isinstance(test, exp.EQ):
            continue
        for item, other in ((test.this, test.expression), (test.expression, test.this)):
            result = scope.own(item) if isinstance(item, exp.Column) else None
            if result is None:
                continue
            field, handle = result
            inside = [scope.own(column) for column in other.find_all(exp.Column)]
            others = frozenset(of for known in inside if known for of in known[1:])
            if handle in others or _rounds(field.type, test, other, scope):
                continue
            outer = None
            if isinstance(other, exp.Column) and not others and scope.parent is not None:
                outer = scope.parent.own(other)
            yield Equality(
                handle, field.name, field.unique, others, bool(outer and outer[0].unique)
            )


def _rounds(type_: Type, node: exp.Expr, other: exp.Expr, scope: RowScope) -> bool:
    """Say whether an equation compares a column in a type in which values that differ may be one.

    So do floating point, fewer digits, and times of a zone: a clock that is put forward makes two
    local times one.
    """
    own = scope.tree.leaf(type_, "NULL")
    try:
        goal, _ = alike(scope.tree, node, [own, compiled(other, scope)])
    except QueryRefusedError:  # and so will the test itself be, with its own reason
        return True
    if goal.kind == type_.kind:
        return goal.scale < type_.scale
    return (type_.kind, goal.kind) not in _EXACT


def deps_of(nodes: Iterable[Node]) -> int:
    """Return the released tables on which nodes depend, as bits."""
    deps = 0
    for node in nodes:
        deps |= node.deps
    return deps


_FIRST_TIME = "'290309-12-22 (BC) 00:00:00"


def bounded(sql: str, type_: Type, kind: str, *, named: bool) -> str:
    """Return a cell as SQL, of a length that no row decides; a time that is none as NULL.

    A join with public tables writes it up to a thousand times. Ids and keys of owners are not cut,
    which would take two for one: longer ones name nobody.

    Parameters
    ----------
    sql : str
    type_ : Type
    kind : str
        The type of the column in DuckDB.
    named : bool
        Whether it holds ids, or keys of owners.
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
    """Return how many rows public tables make of one, by what is in them; refuse too many."""
    waiting = {handle: relation for _, relation, handle in scope.tables if not relation.private}
    if not waiting or (len(waiting) == len(scope.tables) and scope.parent is None):
        return math.prod(relation.matches for _, relation, _ in scope.tables)
    reached = {handle for _, relation, handle in scope.tables if relation.private}
    most = math.prod(relation.matches for _, relation, _ in scope.tables)  # of subqueries
    alone = scope.parent is not None and len(waiting) == len(scope.tables)

    def counted() -> int:
        most = 1
        with catalog.reading() as cursor:
            while waiting:
                result = {
                    handle: 1 if alone and item.released is not None else _matches(cursor, item, [
                        e.column for e in equated if e.handle == handle and e.others <= reached
                    ])
                    for handle, item in waiting.items()
                }  # fmt: skip
                least = min(result, key=result.__getitem__)
                if result[least] == _UNKNOWN:
                    refuse(
                        node,
                        "the join with a released subquery does not equate all columns of its "
                        "GROUP BY, so how many of its rows match one row is not known beforehand",
                        "select all columns of GROUP BY in the subquery and equate each of them, "
                        "or run the subquery first as a query of its own",
                    )
                most *= max(result[least], 1)
                reached.add(least)
                del waiting[least]
        return most

    way = "check that the public tables of the query still exist"
    most *= or_raise(
        counted,
        lambda: refusal(node, "DuckDB cannot read a public table of the query", way),
        own=(QueryRefusedError,),
    )
    if most > MOST_MATCHES:
        refuse(
            node,
            f"joins with public tables can give {most:,} rows for one row; at most "
            f"{MOST_MATCHES:,} are allowed",
            "add conditions that equate columns of each public table with columns of other tables "
            "or with constants",
        )
    return most


def _matches(cursor: Any, relation: Relation, columns: list[str]) -> int:
    """Return the largest number of rows of a public table that agree in some columns."""
    if relation.released is not None:  # there are no rows yet
        return 1 if set(relation.released) <= set(columns) else _UNKNOWN
    if not columns:
        sql = f"SELECT count(*) FROM ({relation.sql})"
    else:
        names = ", ".join(dict.fromkeys(columns))
        sql = f"SELECT max(n) FROM (SELECT count(*) AS n FROM ({relation.sql}) GROUP BY {names})"
    result = cancellable(lambda: cursor.execute(sql).fetchone(), cursor.interrupt)
    return int(result[0] or 0)


def private_cap(scope: RowScope, equated: list[Equality], matches: int) -> tuple[int | None, int]:
    """Return how many rows of a unit each private table may have, and how many its join has then.

    None for all of them, and 0 for as many as the unit has itself: a table that is reached by a
    column that names one row of it multiplies nothing. `matches` is what public tables make of a
    row, those inside of subqueries among them.
    """
    own = [(handle, relation) for _, relation, handle in scope.tables if relation.private]
    if not own:
        return None, 0
    private = [handle for handle, _ in own]
    most = min(_many(root, private, equated) for root in private)
    if scope.parent is not None and not any(
        e.handle in private and (e.unique or e.outer_unique) and not e.others for e in equated
    ):
        most += 1  # beside the rows of the SELECT around it
    here = max(matches // math.prod(relation.matches for _, relation in own), 1)
    before = max(relation.pairs for _, relation in own)
    if most <= 1 and before * here <= MOST_OF_UNIONS:
        return None, before * here
    return max(math.floor((MOST_PAIRS / here) ** (1 / most) + 1e-9), 1), MOST_PAIRS


def _many(root: str, private: list[str], equated: list[Equality]) -> int:
    reached, most = {root}, 1
    while len(reached) < len(private):
        tied = next(
            (
                e.handle
                for e in equated
                if e.unique and e.handle in private and e.handle not in reached
                and e.others and e.others <= reached
            ),
            None,
        )  # fmt: skip
        if tied is None:
            tied = next(handle for handle in private if handle not in reached)
            most += 1
        reached.add(tied)
    return most


def capped(relation: Relation, cap: int, handle: str) -> str:
    """Return a private relation with at most so many rows of each unit.

    Only the rows of units that have more are put in order.
    """
    names = [field.name for field in relation.fields.values()]
    plain = [
        field.name for field in relation.fields.values() if field.type.kind not in ("other", "null")
    ]
    order = ", ".join(f"{item} ASC NULLS LAST" for item in [f"hash({', '.join(names)})", *plain])
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
    """Return the error that says so: whoever can release it first does."""
    return OverUnits(
        node,
        f"{place_of(node)}a subquery that aggregates rows of several privacy units is not "
        "supported here. Group by the privacy unit in it, or run it first as a query of its own. "
        "Nothing was charged.",
    )


def check_order(compiler: Any, node: exp.Select, ctes: dict[str, Any]) -> None:
    """Raise for an aggregation over units that takes some of its rows: they are released ones."""
    named = [name for name in _ORDER if node.args.get(name) is not None]
    grouped = node.args.get("group") is not None or node.args.get("distinct") is not None
    if not named or not (grouped or any(map(is_aggregate, node.expressions))):
        return
    parts = {name: node.args.pop(name) for name in named}
    try:
        compiler.derived(node, ctes)
    finally:
        for name, part in parts.items():
            node.set(name, part)


def names_of_one_row(
    body: Body, items: list[tuple[str, exp.Expr]], group: exp.Expr | None, fields: dict[str, Field]
) -> tuple[str, ...] | None:
    """Return the columns of a subquery of public tables that name one row of it.

    None where nothing of it was released; ("",), which is no column, where none do.
    """
    tables = [relation for _, relation, _ in body.scope.tables]
    if all(table.released is None for table in tables):
        return None
    if any(is_aggregate(item) for _, item in items) and group is None:
        return ()
    if len(tables) > 1 or group is not None:
        return ("",)
    known = {}
    for name, item in items:
        if isinstance(item, exp.Column):
            field = body.scope.field_of(item)
            if field is not None:
                known[field.name] = fields[folded(name)].name
    return tuple(known.get(name, "") for name in tables[0].released or ())
