"""Splits a query into parts that are released one after the other; answers from public tables.

A subquery that aggregates over units is a query of its own. Its answer becomes a temporary table,
which is public from then on. The query around it is planned against that table while it is still
empty, so that everything is refused before anything is charged. The last part reads private tables
and is released too, or it reads released and public tables alone.

A part may depend on the answers of earlier parts, and each has an equal share of epsilon and delta:
by basic composition they cost no more together than the whole query is charged.

Queries on public tables alone are passed on to DuckDB, without noise or charge. A closed list of
syntax, and the names of declared tables, keep them from reading files, settings or other tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp

from skdp.exceptions import QueryRefusedError
from skdp.sql._answers import Answer, Subquery, columns_of_answer, own_database
from skdp.sql._catalog import Catalog, Column, Table, folded
from skdp.sql._plan import Plan, planned
from skdp.sql._relations import is_aggregate
from skdp.sql._sources import Compiler
from skdp.sql._syntax import OverUnits, parsed, refuse, said
from skdp.sql.ir import Node, column_type, quoted
from skdp.sql.rules import RELEASED, RULES, value_of_subquery
from skdp.tabular import type_name
from skdp.user_code import cancellable

_MOST = 10
_TABLES = (exp.From, exp.Join, exp.CTE, exp.In, exp.Exists, exp.Union)
AFTER = (
    "the query reads what its subqueries released: intervals are the columns x_low and x_high of "
    "each, and rows may have been chosen by their noisy values"
)


class PartsError(RuntimeError):
    """A part of a query failed after others, the `subqueries`, were released and charged."""

    def __init__(self, text: str, subqueries: list[Answer]) -> None:
        super().__init__(text)
        self.subqueries = subqueries


@dataclass(eq=False)
class Staged:
    """A query in parts, in the order of their release."""

    subqueries: list[Subquery]
    last: Plan | None  # None if the rest reads public tables alone
    tree: exp.Expr  # the query, with tables in the place of its subqueries

    @property
    def plans(self) -> list[Plan]:
        """The plans of all releases."""
        plans = [subquery.plan for subquery in self.subqueries]
        return plans if self.last is None else [*plans, self.last]


def part_of(amount: float, parts: int) -> float:
    """Return an equal part of an amount, rounded down: `parts` of it are at most the amount."""
    part = float(amount) / parts
    while Fraction(part) * parts > Fraction(amount):
        part = math.nextafter(part, 0.0)
    return part


def staged(
    text: str,
    select: exp.Expr,
    catalog: Catalog,
    unit: str,
    bounds: Mapping[str, tuple[float, float]],
    *,
    anonymized: bool,
) -> Staged:
    """Return the parts of a query; the catalogue gets their tables, which are empty until then."""
    parts = Staged([], None, select)

    def plan(node: exp.Expr) -> Plan:
        options = {"anonymized": anonymized, "ctes": _ctes(node)}
        return planned(text, node, catalog, unit, bounds, **options)

    while True:
        try:
            if parts.subqueries and reads_public_tables_alone(select, catalog):
                for node in _numbers(select):
                    if not _is_one_number(node.this):  # after a charge it would fail
                        reason = f"the subquery {said(node)} stands for one value and may have"
                        way = "write one aggregate without GROUP BY, HAVING, LIMIT and DISTINCT"
                        refuse(node, f"{reason} several rows", way)
                public_answer(catalog, text, select)  # of empty tables: an error shows now
            else:
                for node in _numbers(select):
                    if _is_one_number(node.this):
                        value_of_subquery(node)
                parts.last = plan(select)
            break
        except OverUnits as error:
            if error.node.root() is not select:  # it is in a tree that a rule has made
                raise
            if len(parts.subqueries) == _MOST:
                reason = f"more than {_MOST} subqueries of the query would have to be released"
                refuse(error.node, reason, "split the query")
            if not _of_released(error.node, catalog):
                parts.subqueries.append(_subquery(error, plan, catalog, parts.subqueries))
    aggregates = [a for item in parts.plans for a in item.aggregates if a.column]
    unused = {folded(name) for name in bounds} - {folded(a.column) for a in aggregates}
    if unused:
        known = ", ".join(map(repr, sorted({a.column for a in aggregates if not a.counts_rows})))
        given = ", ".join(map(repr, sorted(unused)))
        reason = f"the parameter bounds names {given}, which the query does not aggregate"
        way = "name an expression as the query aggregates it" + f": {known}" * bool(known)
        refuse(select, reason, way)
    return parts


def _numbers(select: exp.Expr) -> Iterator[exp.Subquery]:
    """Yield the subqueries in expressions that are not released, the innermost first."""
    for node in reversed(list(select.find_all(exp.Subquery))):
        if _stands_for_a_number(node.this) and RELEASED not in node.meta:
            yield node


def _ctes(node: exp.Expr) -> dict[str, Any]:
    """Return the common tables that a subquery sees: those before it."""
    above: list[exp.Expr] = []
    at = node.parent
    while at is not None:
        above.insert(0, at)
        at = at.parent
    inside = {id(item) for item in above}
    ctes: dict[str, Any] = {}
    for item in above:
        given = item.args.get("with_")
        for cte in given.expressions if given is not None else ():
            if id(cte) in inside:
                break
            ctes = {**ctes, folded(cte.alias): (cte.this, ctes)}
    return ctes


def _subquery(
    error: OverUnits, plan_of: Callable[[exp.Expr], Plan], catalog: Catalog, before: list[Subquery]
) -> Subquery:
    """Return the innermost subquery to release, and put a table into its place in the query."""
    while True:
        node = error.node
        number = _stands_for_a_number(node)
        if number and not _is_one_number(node):
            raise error
        try:
            plan = plan_of(node)
            break
        except OverUnits as inner:
            error = inner
        except QueryRefusedError as inner:
            if not number or "there is no column" not in str(inner):
                raise
            way = (
                "A subquery inside an expression reads only its own tables. To compare by group, "
                "write it in FROM with GROUP BY, and join it"
            )
            reason = str(inner).replace(" Nothing was charged.", "")
            raise QueryRefusedError(f"{reason} {way}. Nothing was charged.") from None
    table = _table(plan, catalog, before)
    subquery = Subquery(plan, table, f"({said(node)})", number)
    subquery.put(catalog.reader)
    catalog.tables[folded(table.name)] = table
    columns = list(table.columns.values())
    if number:
        sql = f"(SELECT r.{quoted(columns[0].name)} FROM {table.source} AS r)"
        node.parent.meta[RELEASED] = Node(column_type(columns[0].kind), sql)
    member = isinstance(_around(node, exp.Subquery, exp.Paren), exp.In)
    if number or member:  # only a table has the columns of intervals
        columns = columns[: len(plan.outputs)]
    names = [exp.column(column.name, quoted=True) for column in columns]
    node.replace(exp.select(*names).from_(exp.to_table(table.name)))
    return subquery


def _of_released(node: exp.Expr, catalog: Catalog) -> bool:
    """Say whether a number is computed from released tables alone; if so, store its SQL."""
    if not _stands_for_a_number(node) or not _is_one_number(node):
        return False
    compiler = Compiler(catalog)
    try:
        relation = compiler.derived(node, _ctes(node))
    except QueryRefusedError:
        return False
    if not compiler.used or any(table.released is None for table in compiler.used):
        return False
    (item,) = relation.fields.values()
    sql = f"(SELECT r.{quoted(item.name)} FROM ({relation.sql}) AS r)"
    assert node.parent is not None
    node.parent.meta[RELEASED] = Node(item.type, sql)
    return True


def _around(node: exp.Expr, *kinds: Any) -> Any:
    """Return what is around a SELECT and its parentheses."""
    at = node.parent
    while isinstance(at, kinds):
        at = at.parent
    return at


def _stands_for_a_number(node: exp.Expr) -> bool:
    """Say whether a SELECT stands in an expression, and not for a table or by itself."""
    around = _around(node, exp.Subquery)
    inside = isinstance(node.parent, exp.Subquery) and around is not None
    return inside and not isinstance(around, _TABLES)


def _is_one_number(node: exp.Expr) -> bool:
    """Say whether a SELECT is one aggregate, of one row."""
    known = {name for name, part in node.args.items() if part}
    return (
        isinstance(node, exp.Select)
        and len(node.expressions) == 1
        and is_aggregate(node.expressions[0])
        and not known & {"group", "having", "limit", "offset", "distinct"}
    )


def _table(plan: Plan, catalog: Catalog, before: list[Subquery]) -> Table:
    """Return the table of the answer of a plan: its columns, then their intervals."""
    kinds = dict(columns_of_answer(plan, before))
    names = dict.fromkeys([output.name for output in plan.outputs]) | kinds
    columns = {folded(name): Column(name, kinds[name]) for name in names}
    for column in columns.values():
        if column_type(column.kind).kind == "other":
            reason = f"column {column.name!r} of a subquery has type {type_name(column.kind)}"
            way = "convert it to numbers, text, booleans, dates or timestamps with CAST"
            refuse(None, f"{reason}, which is not supported", way)
    shown = {output.key: folded(output.name) for output in plan.outputs if output.key}
    number = len(before) + 1
    while f"skdp_released_{number}" in catalog.tables:
        number += 1
    name = f"skdp_released_{number}"
    return Table(
        name,
        f'"temp"."main".{quoted(name)}',
        columns,
        released=tuple(shown.get(key.column, "") for key in plan.keys),
    )


# Syntax of queries on public tables, beside the expressions of `RULES`.
_STRUCTURE = (
    *(exp.Select, exp.Subquery, exp.Union, exp.From, exp.Join, exp.Table, exp.TableAlias),
    *(exp.With, exp.CTE, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit),
    *(exp.Offset, exp.Distinct, exp.Alias, exp.Identifier, exp.Star, exp.Var, exp.DataType),
    *(exp.DataTypeParam, exp.Interval, exp.Tuple, exp.Exists, exp.Values, exp.Filter, exp.Column),
    *(exp.WithinGroup, exp.Window, exp.WindowSpec),
)
_FUNCTIONS = (
    *(exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Variance),
    *(exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.PercentileCont),
    *(exp.Quantile, exp.RowNumber, exp.Rank, exp.Lag, exp.Lead),
)
_LISTED = frozenset((*_STRUCTURE, *_FUNCTIONS, *RULES))
_DATES = (exp.DateDiff, exp.TimeToStr, exp.TimestampTrunc, exp.DateTrunc, exp.Extract)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
_UNTRIED = (exp.Select, exp.Window, exp.AggFunc)  # DuckDB's TRY refuses these


def _named(
    select: exp.Expr, catalog: Catalog
) -> tuple[list[tuple[exp.Table, str]], list[tuple[exp.TableAlias, str]]] | None:
    """Return the source of every table, and new names of the common tables.

    None if a name is neither a public table nor a common table before it: DuckDB would decide what
    it means.
    """
    given = select.args.get("with_")
    if len(list(select.find_all(exp.With))) > (given is not None):
        return None
    if given is not None and given.args.get("recursive"):
        return None
    common: dict[str, str] = {}
    sources: dict[int, tuple[exp.Table, str]] = {}
    renamed: list[tuple[exp.TableAlias, str]] = []

    def read(part: exp.Expr) -> bool:
        for node in part.find_all(exp.Table):
            if id(node) in sources:
                continue
            known = {name for name, value in node.args.items() if value}
            named = isinstance(node.this, exp.Identifier)
            if not named or not known <= {"this", "db", "catalog", "alias"}:
                return False
            names = [part.name for part in node.parts]
            table = catalog.named(names)
            source = common.get(folded(names[0])) if len(names) == 1 else None
            if source is None and table is not None and table.public:
                source = table.source
            if source is None:
                return False
            sources[id(node)] = node, source
        return True

    for number, cte in enumerate(given.expressions if given is not None else ()):
        if not read(cte.this):
            return None
        name = folded(cte.alias)
        if name in common:
            return None
        common[name] = f"skdp_common_{number}"
        renamed.append((cte.args["alias"], common[name]))
    return (list(sources.values()), renamed) if read(select) else None


def reads_public_tables_alone(select: exp.Expr, catalog: Catalog) -> bool:
    """Say whether a query reads tables, all of them declared public."""
    result = _named(select, catalog)
    return result is not None and bool(result[0])


def _make_total(select: exp.Expr) -> None:
    """Make expressions NULL where they would fail: after a charge nothing may fail.

    DuckDB's TRY takes no subqueries, windows and aggregates. There a zero divisor becomes NULL, and
    `_in_floating_point` computes results that would be too large.
    """
    for spec in select.find_all(exp.WindowSpec):
        for end in (spec.args.get("start"), spec.args.get("end")):
            if isinstance(end, exp.Expr) and not isinstance(end, exp.Literal):
                reason = f"the frame of the window {said(spec)} must have literal integers"
                refuse(spec, reason, "write for example ROWS 3 PRECEDING")
    for cast in list(select.find_all(exp.Cast)):
        if type(cast) is exp.Cast:
            cast.replace(exp.TryCast(this=cast.this.copy(), to=cast.to.copy()))
    # From the inside out, and each operator by itself: so keys of GROUP BY still equal columns.
    for node in reversed(list(select.find_all(*_ARITHMETIC, *_DATES))):
        if node.find(*_UNTRIED) is None:
            node.replace(exp.Anonymous(this="TRY", expressions=[node.copy()]))
        elif isinstance(node, exp.IntDiv | exp.Mod):
            divisor = node.expression.unnest().copy()
            node.set("expression", exp.Nullif(this=divisor, expression=exp.Literal.number(0)))


def _in_floating_point(select: exp.Expr) -> None:
    """Compute arithmetic outside of TRY in floating point, where no result is too large."""
    for node in reversed(list(select.find_all(*_ARITHMETIC))):
        if node.find(*_UNTRIED) is not None:
            for side in ("this", "expression"):
                if isinstance(item := node.args.get(side), exp.Expr):
                    node.set(side, exp.TryCast(this=item.copy(), to=exp.DataType.build("DOUBLE")))


def _run(catalog: Catalog, sql: str, put: Sequence[Subquery] = ()) -> Any:
    """Return DuckDB's answer as an Arrow table, None if it fails."""
    try:
        cursor = catalog.reader
        for item in put:
            item.put(cursor)
        return cancellable(lambda: cursor.sql(sql).to_arrow_table(), cursor.interrupt)
    except Exception:  # noqa: BLE001  the text of the error may name other tables
        return None


def public_answer(
    catalog: Catalog,
    query: str,
    tree: exp.Expr | None = None,
    released: Sequence[Subquery] = (),
) -> Answer:
    """Return the exact answer to a query that reads public tables alone.

    `tree`: the query with tables in the place of subqueries, which are `released`.
    """
    select = parsed(query)[0] if tree is None else tree.copy()
    names = _named(select, catalog)
    if names is None:
        way = "read public tables only, each by its declared name"
        refuse(select, "this query reads other tables than public ones", way)
    for node in select.walk():
        if type(node) not in _LISTED:
            reason = f"{said(node)} is not supported in a query on public or released tables"
            way = (
                "use COUNT, SUM, AVG, MIN, MAX and other usual aggregates, ROW_NUMBER, RANK, LAG, "
                "LEAD, and the expressions that the documentation on private SQL lists"
            )
            refuse(node, reason, way)
    for node, source in names[0]:
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        table: exp.Expr
        if source.startswith("read_parquet"):
            files = exp.select("*").from_(exp.maybe_parse(source, dialect="duckdb"))
            table = exp.Subquery(this=files)
        else:
            table = exp.to_table(source, dialect="duckdb")
        table.set("alias", alias.copy())
        node.replace(table)
    for alias, name in names[1]:
        alias.set("this", exp.to_identifier(name))
    if tree is not None:
        _make_total(select)
    sql = select.sql(dialect="duckdb", comments=False)
    rows = _run(catalog, sql)
    if rows is None and released:  # the failure has ended the transaction
        _in_floating_point(select)
        sql = select.sql(dialect="duckdb", comments=False)
        with catalog.one_state() as again:
            rows = _run(again, sql, released)
    if rows is None:
        way = "check the names and types of its columns"
        refuse(None, "DuckDB cannot run this query on public or released tables", way)
    own = own_database()
    own.register("given", rows)
    own.execute("CREATE TEMP TABLE answer AS SELECT * FROM given")
    own.unregister("given")
    return Answer(own.table("answer"), query, sql, [])
