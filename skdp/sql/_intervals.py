"""Intervals of expressions over released numbers, and their names.

An expression has an interval if each step can be computed on the ends of intervals. With k
aggregates, each interval is taken at level 1 - 0.05 / k: all of them hold together in at least 95%
of releases, however they depend on each other, and then so does that of the result. Intervals of
medians, variances and deviations are known at 95% alone: an expression of one of these and another
aggregate has none.

A number that depends on a released subquery has no interval either, and a note says so. It would
hold for the released value in the place of the subquery, and not for the query as written: it does
not contain the noise of the subquery, without which rows would change in an unknown way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from skdp.sql._catalog import folded
from skdp.sql._relations import AGGREGATES
from skdp.sql._syntax import is_anonymized, refuse
from skdp.sql.ir import quoted
from skdp.sql.rules import compiled

if TYPE_CHECKING:
    from skdp.sql._plan import Plan, Specification

Ends = tuple[str, str]

_LONGEST = 100_000  # characters of SQL: products of products have each end several times
_AT_ANY_LEVEL = ("count", "distinct_units", "sum", "mean")  # as `DPGroupBy.intervals` has it


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
        if parts > 1 and aggregate.kind not in _AT_ANY_LEVEL:
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
    columns = {aggregate.column for aggregate in used if aggregate.column}
    deps = scope.body.deps
    for key in scope.keys:
        deps |= key.row.deps
    for name, item in scope.values.values():
        deps |= item.deps if name in columns else 0
    return tuple(table for i, table in enumerate(scope.released_tables) if deps >> i & 1)


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
