"""Numbers that depend on what a subquery released: no interval, and a note that says so.

The interval of such a number would hold for the query with the released value in the place of the
subquery, and not for the query as written: the noise of the subquery is not in it, and nobody
knows how the rows would change without that noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skdp.sql._outline import Plan, Specification

__all__ = ["conditional_notes", "depends_on"]


def depends_on(scope: Any, used: Sequence[Specification]) -> tuple[str, ...]:
    """Return the released tables on which aggregates of a SELECT depend.

    That is: its rows, its keys, or the values of these aggregates.
    """
    body = scope.body
    texts = [body.source, body.unit, *body.tests, *(key.row.sql for key in scope.keys)]
    columns = {one.column for one in used if one.column}
    texts += [one.sql for name, one in scope.values.values() if name in columns]
    whole = " ".join(map(str, texts))
    tables = scope.released_tables
    return tuple(source for source in tables if source in whole)


def conditional_notes(plan: Plan, subqueries: Iterable[Any]) -> list[str]:
    """Return notes on columns of a plan that depend on released numbers, with their values."""
    known = {one.table.source: one for one in subqueries}
    columns: dict[tuple[str, ...], list[str]] = {}
    for output in plan.outputs:
        if output.given and output.measured:
            columns.setdefault(output.given, []).append(output.name)
        elif output.given:
            columns.setdefault(output.given, [])
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


def _described(one: Any) -> str:
    """Return a subquery with what it released."""
    if one.answer is None:
        return f"{one.text}, which is released with noise"
    rows = one.answer.fetchall()
    if not one.is_number:
        return f"{one.text}, which was released with noise ({len(rows)} rows, in `subqueries`)"
    value = rows[0][0] if rows else None
    shown = "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else value
    return f"{one.text}, which was released with noise as {shown}"
