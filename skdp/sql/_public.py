"""Queries on public tables alone: passed on to DuckDB, without noise and without a charge.

Which tables are read is decided by names that the catalogue declares; and by a closed list of
syntax, since other functions read files, settings and tables by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from skdp.sql._answer import Answer
from skdp.sql._catalog import Catalog, folded
from skdp.sql._parse import parsed
from skdp.sql._refusals import refuse, said
from skdp.sql._results import Subquery, own_database
from skdp.sql.rules import RULES
from skdp.user_code import cancellable

__all__ = ["public_answer", "reads_public_tables_alone"]

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
            pieces = [one.name for one in given if one is not None]
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
    found = _named(select, catalog)
    return found is not None and bool(found[0])


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
                if isinstance(one := node.args.get(side), exp.Expr):
                    node.set(side, exp.TryCast(this=one.copy(), to=exp.DataType.build("DOUBLE")))


def _run(catalog: Catalog, sql: str, put: Sequence[Subquery] = ()) -> Any:
    """Return what DuckDB answers, as an Arrow table; None if it cannot."""
    try:
        with catalog.reading() as cursor:
            for one in put:
                one.put(cursor)
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
    found = _named(select, catalog)
    if found is None:
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
    for node, source in found[0]:
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        whole: exp.Expr
        if source.startswith("read_parquet"):
            inner = exp.select("*").from_(exp.maybe_parse(source, dialect="duckdb"))
            whole = exp.Subquery(this=inner, alias=alias.copy())
        else:
            whole = exp.to_table(source, dialect="duckdb")
            whole.set("alias", alias.copy())
        node.replace(whole)
    for alias, name in found[1]:
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
