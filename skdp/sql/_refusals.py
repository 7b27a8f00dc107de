"""Refusals: what is refused, where, why, and what to write instead. They quote no data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from skdp.exceptions import QueryRefusedError

__all__ = ["SOURCES", "OverUnits", "only", "place_of", "refusal", "refuse", "refuse_bounds", "said"]

# Parts of the syntax tree, as SQL writes them.
_WRITTEN = {
    "alias": "an alias",
    "default": "DEFAULT",
    "distinct": "DISTINCT",
    "except": "EXCLUDE",
    "expression": "a further argument",
    "expressions": "further arguments",
    "group": "GROUP BY",
    "into": "INTO",
    "joins": "a JOIN in parentheses",
    "kind": "AS STRUCT or AS VALUE",
    "limit_options": "a percentage or WITH TIES",
    "locks": "FOR UPDATE or FOR SHARE",
    "method": "NATURAL, ASOF or POSITIONAL JOIN",
    "on": "DISTINCT ON",
    "order": "ORDER BY",
    "pivots": "PIVOT or UNPIVOT",
    "sample": "TABLESAMPLE or USING SAMPLE",
    "this": "an argument",
}
_INSTEAD = {
    "method": "write JOIN ... ON with the columns that must be equal",
    "on": "use GROUP BY and an aggregate",
    "except": "list the columns by name",
    "rename": "list the columns by name, and rename them with AS",
    "replace": "list the columns by name, with the expressions that replace them",
}

# Why FROM, WHERE or a subquery is refused, and what to write instead.
SOURCES = {
    "no from": ("the query has no FROM clause", "name a declared table in FROM"),
    "lengths": ("the rows of VALUES have different lengths", "give each row as many values"),
    "types": (
        "a column of VALUES has values of different types",
        "convert them to one type with CAST",
    ),
    "no select": (
        "the subquery of EXISTS or IN is not one SELECT",
        "write EXISTS (SELECT ...) or x IN (SELECT ...), without UNION in it",
    ),
    "left": (
        "a public table on the left of a LEFT JOIN has rows that belong to no privacy unit",
        "put the private table on the left, or use JOIN",
    ),
    "one column": ("the subquery of IN has several columns", "select one column in it"),
    "chosen": (
        "private rows in EXISTS or IN would decide which rows of public tables are shown",
        "put the private table into FROM of the outer query",
    ),
    "other units": (
        "the subquery reads rows of other privacy units than that of the row around it",
        "equate in its WHERE its unit column, or the key of an owner, with that of the outer query",
    ),
    "no type": (
        "a column of the subquery is NULL in every row and has no type",
        "write CASE WHEN FALSE THEN 0 END for a number, CASE WHEN FALSE THEN '' END for a text",
    ),
    "too long": (
        "the query becomes too long when its subqueries are put into it",
        "use fewer or shorter subqueries",
    ),
    "union": (
        "UNION without ALL would compare rows of several privacy units: only public tables have it",
        "use UNION ALL",
    ),
    "mixed": (
        "UNION ALL of a private and a public table has rows that belong to no privacy unit",
        "use only private or only public tables on both sides",
    ),
    "columns": (
        "the two sides of UNION ALL have different numbers of columns",
        "select as many columns on both sides",
    ),
    "recursive": ("WITH RECURSIVE is not supported", "use WITH without RECURSIVE"),
}


class OverUnits(QueryRefusedError):
    """A subquery that aggregates over units: refused here, to be released before the rest.

    Attributes
    ----------
    node : sqlglot.exp.Expr
        Its SELECT.
    """

    def __init__(self, node: Any, text: str) -> None:
        super().__init__(text)
        self.node = node

    def __reduce__(self) -> Any:  # without the syntax tree
        return QueryRefusedError, self.args


def place_of(node: Any) -> str:
    """Return where a node of the syntax tree stands, as far as its parts say."""
    for part in node.walk() if node is not None else ():
        meta = part.meta
        if "line" in meta and "col" in meta:
            length = meta["end"] - meta["start"]
            return f"line {meta['line']}, column {max(meta['col'] - length, 1)}: "
    return ""


def said(node: Any) -> str:
    """Return a part of the query as text, shortened."""
    text = node.sql(dialect="duckdb")
    return text if len(text) <= 60 else f"{text[:57]}..."


def refusal(node: Any, reason: str, instead: str = "") -> QueryRefusedError:
    """Return the error for a part of a query: what is refused and why, and what to write."""
    way = f" {instead[0].upper()}{instead[1:]}." if instead else ""
    return QueryRefusedError(f"{place_of(node)}{reason}.{way} Nothing was charged.")


def refuse(node: Any, reason: str, instead: str = "") -> NoReturn:
    """Raise for a part of a query.

    Raises
    ------
    QueryRefusedError
    """
    raise refusal(node, reason, instead)


def refuse_bounds(node: Any, names: Iterable[str], known: Iterable[str] = ()) -> NoReturn:
    """Refuse bounds of expressions that the query does not aggregate.

    Raises
    ------
    QueryRefusedError
    """
    listed = ", ".join(map(repr, sorted(set(known))))
    way = "name an expression as the query aggregates it" + f": {listed}" * bool(listed)
    given = ", ".join(map(repr, sorted(names)))
    refuse(node, f"the parameter bounds names {given}, which the query does not aggregate", way)


def only(node: Any, *names: str) -> None:
    """Refuse a node with other parts than these: what is not listed is not supported."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            part = name.strip("_")
            what = _WRITTEN.get(part, part.replace("_", " ").upper())
            kind = type(node).__name__.upper()
            where = {"SELECT": " in this SELECT", "JOIN": ""}.get(kind)
            where = f" in {said(node)}" if where is None else where
            refuse(node, f"{what} is not supported{where}", _INSTEAD.get(part, "leave it out"))
