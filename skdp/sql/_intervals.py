"""Intervals of what is computed from one released number, and their names: post-processing.

An interval of the number becomes one of the result where every step follows its ends; else there
is none. Results of several numbers have none: each of their intervals holds in 95% of releases,
and all of them together in less.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from skdp.sql._catalog import folded
from skdp.sql._dialect import is_anonymized
from skdp.sql._expressions import compiled
from skdp.sql._refusals import refuse
from skdp.sql._relations import AGGREGATES
from skdp.sql._typed import quoted

__all__ = ["check_names", "interval_of"]

Ends = tuple[str, str]


def interval_of(node: exp.Expr, scope: Any) -> Ends | None:
    """Return the ends of an expression's interval as SQL over released columns, or None."""
    if isinstance(node, exp.Paren):
        return interval_of(node.this, scope)
    if is_anonymized(node) or isinstance(node, AGGREGATES):
        one = scope.specification(node)
        return quoted(f"{one.name}_low"), quoted(f"{one.name}_high")
    if isinstance(node, exp.Literal):
        value = compiled(node, scope).sql
        return value, value
    if isinstance(node, exp.Neg):
        return interval_of(exp.Sub(this=exp.Literal.number(0), expression=node.this), scope)
    if isinstance(node, exp.Round | exp.Floor | exp.Ceil):
        inner = interval_of(node.this, scope)
        places = node.args.get("decimals")
        if inner is None or (places is not None and not isinstance(places, exp.Literal)):
            return None
        name = {exp.Round: "round", exp.Floor: "floor", exp.Ceil: "ceil"}[type(node)]
        rest = f", {places.this}" if places is not None else ""
        return tuple(f"{name}(CAST({end} AS DOUBLE){rest})" for end in inner)  # type: ignore[return-value]
    if isinstance(node, exp.Cast):
        inner = interval_of(node.this, scope)
        names = ("DOUBLE", "FLOAT")
        return inner if getattr(node.to.this, "name", "") in names else None
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        a, b = interval_of(node.this, scope), interval_of(node.expression, scope)
        return None if a is None or b is None else _combined(node, a, b)
    return None


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
    """Refuse names that an answer cannot have: after the charge it would be lost."""
    taken: list[str] = []
    for one in outputs:
        name = folded(one.name)
        if not name or name.encode(errors="replace").decode() != name:
            refuse(select, "a column has no name, or one that is no Unicode", "name it with AS")
        ends = ["_low", "_high"] * one.measured
        ends += ["_population_low", "_population_high"] * bool(one.population)
        taken += [name, *(name + end for end in ends)]
    if len(set(taken)) < len(taken):
        refuse(
            select,
            "two columns have one name, or one has the name of another one's interval",
            "name them with AS",
        )
