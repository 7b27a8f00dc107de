"""Subqueries that aggregate over units: found while a query is compiled, released before the rest.

Nothing is released here. What they released is a public table then, of which is known what names
one row: what it groups by. A query that joins it has to equate all of that, since how many rows
there will be is not known before the charge.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from skdp.sql._catalog import folded
from skdp.sql._refusals import OverUnits, place_of
from skdp.sql._relations import Body, Field, is_aggregate

__all__ = ["check_order", "names_of_one_row", "over_units"]

_ORDER = ("order", "limit", "offset")


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
    tables = [one for _, one, _ in body.scope.tables]
    if all(one.released is None for one in tables):
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
