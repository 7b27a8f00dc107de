"""A query with subqueries that aggregate over units: what is released first, and what comes then.

Nothing is released here. Such a subquery is a query of its own: its answer becomes a temporary
table, which is public from then on, and the query around it is planned against that table while it
is still empty. So all that may be refused is refused before anything is charged. What comes last
either reads private tables, and is released too, or released and public ones alone.

Parts of a query are released one after the other, each may hang on what those before it released,
and each has an equal part of epsilon and delta: by basic composition they cost no more together
than the whole query is charged.

Queries on public tables alone are passed on to DuckDB, without noise and without a charge. Which
tables they read is decided by names that the catalogue declares, and by a closed list of syntax,
since other functions read files, settings and tables by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from skdp.exceptions import QueryRefusedError
from skdp.sql._answers import Answer, Subquery, columns_of_answer, own_database
from skdp.sql._catalog import Catalog, Column, Table, folded
from skdp.sql._plan import Plan, planned
from skdp.sql._relations import is_aggregate
from skdp.sql._sources import Compiler
from skdp.sql._syntax import OverUnits, parsed, refuse, refuse_bounds, said
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
    """A part of a query failed after others were released, and charged.

    Attributes
    ----------
    subqueries : list of Answer
        What was released.
    """

    def __init__(self, text: str, subqueries: list[Answer]) -> None:
        super().__init__(text)
        self.subqueries = subqueries


@dataclass(eq=False)
class Staged:
    """A query in parts.

    Attributes
    ----------
    subqueries : list of Subquery
        To be released first, in this order.
    last : Plan or None
        To be released last; None where the rest reads public tables alone.
    tree : sqlglot.exp.Expr
        Of the rest.
    """

    subqueries: list[Subquery]
    last: Plan | None
    tree: exp.Expr

    @property
    def plans(self) -> list[Plan]:
        """All that is released."""
        plans = [subquery.plan for subquery in self.subqueries]
        return plans if self.last is None else [*plans, self.last]


def part_of(whole: float, parts: int) -> float:
    """Return an equal part of an amount: the largest float of which so many are at most it."""
    part = float(whole) / parts
    while Fraction(part) * parts > Fraction(whole):
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
    """Return the parts of a query; tables that are not there yet are put into the catalogue.

    Raises
    ------
    QueryRefusedError
    """
    subqueries: list[Subquery] = []
    spare = {folded(name) for name in bounds}
    while True:
        try:
            if subqueries and reads_public_tables_alone(select, catalog):
                _check_one_row(select)
                public_answer(catalog, text, select)  # of no rows: what fails fails now
                last = None
            else:
                _check_numbers(select)
                last = _planned(text, select, catalog, unit, bounds, anonymized, spare)
            break
        except OverUnits as error:
            if error.node.root() is not select:  # of a part that was written anew
                raise
            if len(subqueries) == _MOST:
                reason = f"more than {_MOST} subqueries of the query would have to be released"
                refuse(error.node, reason, "split the query")
            if not _of_released(error.node, catalog):
                subquery = _subquery(
                    error, text, catalog, unit, bounds, anonymized, spare, subqueries
                )
                subqueries.append(subquery)
    if spare:
        plans = [subquery.plan for subquery in subqueries] + ([] if last is None else [last])
        named = [
            aggregate.column
            for plan in plans
            for aggregate in plan.aggregates
            if not aggregate.whole
        ]
        refuse_bounds(select, spare, filter(None, named))
    return Staged(subqueries, last, select)


def _check_numbers(select: exp.Expr) -> None:
    """Raise for the first subquery in an expression that is not released, those inside it first."""
    for node in reversed(list(select.find_all(exp.Subquery))):
        number = _stands_for_a_number(node.this) and _is_one_number(node.this)
        if number and RELEASED not in node.meta:
            value_of_subquery(node)


def _check_one_row(select: exp.Expr) -> None:
    """Refuse subqueries that stand for a number and may have several rows: it would fail late."""
    for node in select.find_all(exp.Subquery):
        if (
            _stands_for_a_number(node.this)
            and RELEASED not in node.meta
            and not _is_one_number(node.this)
        ):
            reason = f"the subquery {said(node)} stands for one value and may have several rows"
            refuse(node, reason, "write one aggregate without GROUP BY, HAVING, LIMIT and DISTINCT")


def _planned(
    text: str,
    node: exp.Expr,
    catalog: Catalog,
    unit: str,
    bounds: Mapping[str, tuple[float, float]],
    anonymized: bool,
    spare: set[str],
) -> Plan:
    """Return a plan of one part; take off `spare` the bounds that it uses."""
    left = {folded(name) for name in bounds}
    plan = planned(
        text, node, catalog, unit, bounds, anonymized=anonymized, ctes=_ctes(node), spare=left
    )
    spare &= left
    return plan


def _ctes(node: exp.Expr) -> dict[str, Any]:
    """Return the common tables that a subquery sees: those that stand before it."""
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
    error: OverUnits,
    text: str,
    catalog: Catalog,
    unit: str,
    bounds: Mapping[str, tuple[float, float]],
    anonymized: bool,
    spare: set[str],
    before: list[Subquery],
) -> Subquery:
    """Return the innermost subquery that is to be released, and put a table in its place."""
    while True:
        node = error.node
        number = _stands_for_a_number(node)
        if number and not _is_one_number(node):
            raise error
        try:
            plan = _planned(text, node, catalog, unit, bounds, anonymized, spare)
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
            text = str(inner).replace(" Nothing was charged.", "")
            raise QueryRefusedError(f"{text} {way}. Nothing was charged.") from None
    subquery = Subquery(plan, _table(plan, catalog, before), f"({said(node)})", number)
    with catalog.reading() as cursor:
        subquery.put(cursor)
    catalog.tables[folded(subquery.table.name)] = subquery.table
    names = [output.name for output in plan.outputs] if number else [
        column.name for column in subquery.table.columns.values()
    ]  # fmt: skip
    whole = exp.to_table(subquery.table.name)
    rest = exp.select(*[exp.column(name, quoted=True) for name in names]).from_(whole)
    if number:
        column = next(iter(subquery.table.columns.values()))
        sql = f"(SELECT r.{quoted(column.name)} FROM {subquery.table.source} AS r)"
        bit = sum(table.released is not None for table in catalog.tables.values()) - 1
        node.parent.meta[RELEASED] = Node(column_type(column.kind), sql, deps=1 << bit)
    elif _is_member(node):  # of IN: the columns that it has
        rest.set("expressions", rest.expressions[: len(plan.outputs)])
    node.replace(rest)
    return subquery


def _of_released(node: exp.Expr, catalog: Catalog) -> bool:
    """Say whether a number is computed from released tables alone; put it in its place then."""
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
    node.parent.meta[RELEASED] = Node(item.type, sql, deps=relation.deps)
    return True


def _is_member(node: exp.Expr) -> bool:
    at = node.parent
    while isinstance(at, exp.Subquery | exp.Paren):
        at = at.parent
    return isinstance(at, exp.In)


def _stands_for_a_number(node: exp.Expr) -> bool:
    """Say whether a SELECT stands in an expression, and not for a table or by itself."""
    at = node.parent
    if not isinstance(at, exp.Subquery):
        return False
    while isinstance(at, exp.Subquery):
        at = at.parent
    return at is not None and not isinstance(at, _TABLES)


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
    """Return the table of what a plan will release: its columns, then their intervals."""
    kinds = dict(columns_of_answer(plan, before))
    first = [output.name for output in plan.outputs]
    names = first + [name for name in kinds if name not in first]
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


_STRUCTURE = (
    *(
        exp.Select,
        exp.Subquery,
        exp.Union,
        exp.From,
        exp.Join,
        exp.Table,
        exp.TableAlias,
        exp.Column,
    ),
    *(exp.With, exp.CTE, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit),
    *(exp.Offset, exp.Distinct, exp.Alias, exp.Identifier, exp.Star, exp.Var, exp.DataType),
    *(exp.DataTypeParam, exp.Interval, exp.Tuple, exp.Exists, exp.Values, exp.Filter),
    *(exp.WithinGroup, exp.Window, exp.WindowSpec),
)
_FUNCTIONS = (
    *(exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Variance),
    *(exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.PercentileCont),
    *(exp.Quantile, exp.RowNumber, exp.Rank, exp.Lag, exp.Lead),
)
_DATES = (exp.DateDiff, exp.TimeToStr, exp.TimestampTrunc, exp.DateTrunc, exp.Extract)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
_UNTRIED = (exp.Select, exp.Window, exp.AggFunc)  # what DuckDB's TRY refuses
_LISTED = frozenset((*_STRUCTURE, *_FUNCTIONS))


def _named(
    select: exp.Expr, catalog: Catalog
) -> tuple[list[tuple[exp.Table, str]], list[tuple[exp.TableAlias, str]]] | None:
    """Return what every table is read from, and new names of common tables.

    None where a name is anything but a public table, or a common table that stands before it: what
    it meant would be up to DuckDB.
    """
    given = select.args.get("with_")
    if len(list(select.find_all(exp.With))) > (given is not None):
        return None
    if given is not None and given.args.get("recursive"):
        return None
    common: dict[str, str] = {}
    sources: list[tuple[exp.Table, str]] = []
    renamed: list[tuple[exp.TableAlias, str]] = []
    inside: set[int] = set()

    def read(part: exp.Expr) -> bool:
        for node in part.find_all(exp.Table):
            if id(node) in inside:
                continue
            inside.add(id(node))
            if not {k for k, v in node.args.items() if v} <= {"this", "db", "catalog", "alias"}:
                return False
            if not isinstance(node.this, exp.Identifier):
                return False
            given = (node.args.get("catalog"), node.args.get("db"), node.this)
            pieces = [item.name for item in given if item is not None]
            table = catalog.named(pieces)
            if len(pieces) == 1 and folded(pieces[0]) in common:
                sources.append((node, common[folded(pieces[0])]))
            elif table is not None and table.public:
                sources.append((node, table.source))
            else:
                return False
        return True

    for number, cte in enumerate(given.expressions if given is not None else ()):
        if not read(cte.this):
            return None
        name = folded(cte.alias)
        if name in common:
            return None
        common[name] = f"skdp_common_{number}"
        renamed.append((cte.args["alias"], common[name]))
    return (sources, renamed) if read(select) else None


def reads_public_tables_alone(select: exp.Expr, catalog: Catalog) -> bool:
    """Say whether every table of a query is declared public, or a common table of its own."""
    result = _named(select, catalog)
    return result is not None and bool(result[0])


def _make_total(select: exp.Expr) -> None:
    """Give expressions NULL where they have no value: after a charge nothing may fail.

    DuckDB tries no arithmetic on subqueries, windows and aggregates: there a zero divides into
    NULL, and `_in_floating_point` is for what is too large.
    """
    for spec in select.find_all(exp.WindowSpec):
        for end in (spec.args.get("start"), spec.args.get("end")):
            if isinstance(end, exp.Expr) and not isinstance(end, exp.Literal):
                reason = f"the frame of the window {said(spec)} must have literal integers"
                refuse(spec, reason, "write for example ROWS 3 PRECEDING")
    for cast in list(select.find_all(exp.Cast)):
        if type(cast) is exp.Cast:
            cast.replace(exp.TryCast(this=cast.this.copy(), to=cast.to.copy()))
    # From the inside out, each by itself: what is grouped by stays what is shown.
    for node in reversed(list(select.find_all(*_ARITHMETIC, *_DATES))):
        if node.find(*_UNTRIED) is None:
            node.replace(exp.Anonymous(this="TRY", expressions=[node.copy()]))
        elif isinstance(node, exp.IntDiv | exp.Mod):
            divisor = node.expression.unnest().copy()
            node.set("expression", exp.Nullif(this=divisor, expression=exp.Literal.number(0)))


def _in_floating_point(select: exp.Expr) -> None:
    """Compute what DuckDB does not try in floating point, where nothing is too large."""
    for node in reversed(list(select.find_all(*_ARITHMETIC))):
        if node.find(*_UNTRIED) is not None:
            for side in ("this", "expression"):
                if isinstance(item := node.args.get(side), exp.Expr):
                    node.set(side, exp.TryCast(this=item.copy(), to=exp.DataType.build("DOUBLE")))


def _run(catalog: Catalog, sql: str, put: Sequence[Subquery] = ()) -> Any:
    """Return what DuckDB answers, as an Arrow table; None if it cannot."""
    try:
        with catalog.reading() as cursor:
            for item in put:
                item.put(cursor)
            return cancellable(lambda: cursor.sql(sql).to_arrow_table(), cursor.interrupt)
    except Exception:  # noqa: BLE001  its text may name other tables
        return None


def public_answer(
    catalog: Catalog,
    query: str,
    tree: exp.Expr | None = None,
    released: Sequence[Subquery] = (),
) -> Answer:
    """Return the exact answer to a query that reads public tables alone, released ones among them.

    `tree` is its syntax, if subqueries have been put in place: those that were `released`.
    """
    select = parsed(query)[0] if tree is None else tree.copy()
    result = _named(select, catalog)
    if result is None:
        way = "read public tables only, each by its declared name"
        refuse(select, "this query reads other tables than public ones", way)
    for node in select.walk():
        if type(node) not in _LISTED and type(node) not in RULES:
            reason = f"{said(node)} is not supported in a query on public or released tables"
            way = (
                "use COUNT, SUM, AVG, MIN, MAX and other usual aggregates, ROW_NUMBER, RANK, LAG, "
                "LEAD, and the expressions that the documentation on private SQL lists"
            )
            refuse(node, reason, way)
    for node, source in result[0]:
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        whole: exp.Expr
        if source.startswith("read_parquet"):
            inner = exp.select("*").from_(exp.maybe_parse(source, dialect="duckdb"))
            whole = exp.Subquery(this=inner, alias=alias.copy())
        else:
            whole = exp.to_table(source, dialect="duckdb")
            whole.set("alias", alias.copy())
        node.replace(whole)
    for alias, name in result[1]:
        alias.set("this", exp.to_identifier(name))
    if tree is not None:
        _make_total(select)
    sql = select.sql(dialect="duckdb", comments=False)
    table = _run(catalog, sql)
    if table is None and released:  # what failed has ended its transaction
        _in_floating_point(select)
        sql = select.sql(dialect="duckdb", comments=False)
        table = _run(replace(catalog, shared=False, opened=None), sql, released)
    if table is None:
        way = "check the names and types of its columns"
        refuse(None, "DuckDB cannot run this query on public or released tables", way)
    own = own_database()
    own.register("given", table)
    own.execute("CREATE TEMP TABLE answer AS SELECT * FROM given")
    own.unregister("given")
    return Answer(own.table("answer"), query, sql, [])
