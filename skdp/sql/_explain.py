"""What a query would cost and how large its errors would be: no private row is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skdp.sql._conditional import conditional_notes
from skdp.sql._outline import Plan

__all__ = ["explained"]


def explained(
    plan: Plan, by: Any, rows_per_key: float | None, subqueries: Sequence[Any] = ()
) -> str:
    """Return a text about a plan; parameters are checked as a fit would."""
    cost = by.privacy_cost()
    lines = [
        f"charged once: epsilon {cost.epsilon:g}, delta {cost.delta:g}",
        f"protected: all rows of one {by.unit} together, in {_names(plan)}",
        f"keys: {_keys(plan)}",
        f"max_keys_per_unit: {by.max_keys_per_unit}, max_rows_per_unit: {by.max_rows_per_unit}",
    ]
    shown = {}
    for one in plan.aggregates:
        bounds = plan.bounds.get(one.column)
        if one.column and not one.whole:
            what = f"clipped to [{bounds[0]:g}, {bounds[1]:g}]" if bounds else "bounds are learned"
            shown[one.column] = f"{one.column}: {what}"
    lines += list(shown.values())
    lines += _errors(plan, by, rows_per_key)
    lines += [f"note: {note}" for note in (*plan.notes, *conditional_notes(plan, subqueries))]
    return "\n".join([*lines, f"rows: {plan.rows}"])


def _names(plan: Plan) -> str:
    return ", ".join(table.name for table in plan.tables if not table.public)


def _keys(plan: Plan) -> str:
    if not plan.keys:
        return "none, one row for all"
    labels = ", ".join(key.label for key in plan.keys)
    how = "found privately, rare ones are not shown"
    if plan.public_keys is not None:
        how = "declared"
    if plan.left_keys is not None:
        how = "all in the public tables; COUNT(*) of a key without private rows is 0, in SQL 1"
    return f"{labels} ({how})"


def _errors(plan: Plan, by: Any, rows_per_key: float | None) -> list[str]:
    """Return about the half widths of intervals; where caps are private, for the least ones."""
    caps = {}
    for name in ("max_keys_per_unit", "max_rows_per_unit"):
        stated = getattr(by, name)
        caps[name] = stated if isinstance(stated, int) else 1
    private = [name for name in caps if not isinstance(getattr(by, name), int)]
    lines = []
    for one in plan.aggregates:
        if one.column and one.column not in plan.bounds:
            continue
        if one.kind in ("mean", "variance", "std", "quantile") and not rows_per_key:
            continue
        alone = (
            by.expected_error(
                rows_per_key=rows_per_key,
                bounds=dict.fromkeys(
                    (o.column for o in plan.aggregates if o.column and o.column not in plan.bounds),
                    (0.0, 1.0),
                ),
                **caps,
            )
            if rows_per_key or not _needs_rows(plan)
            else {}
        )
        if one.name in alone:
            what = f"{one.kind}({one.column})" if one.column else one.kind
            lines.append(f"half width of {what}: about {alone[one.name]:.4g}{_grows(private)}")
    if _needs_rows(plan) and not rows_per_key:
        lines.append("errors: give rows_per_key= to see how large they would be")
    return lines


def _grows(private: list[str]) -> str:
    """Say that caps that are found privately make the half width larger."""
    if not private:
        return ""
    return (
        f", if {' and '.join(private)} were 1. A fit finds larger ones where units have many rows: "
        "the half width of counts and sums grows with max_rows_per_unit, and with "
        "max_keys_per_unit (its square root, where delta is above 0). State them to see it"
    )


def _needs_rows(plan: Plan) -> bool:
    return any(one.kind in ("mean", "variance", "std", "quantile") for one in plan.aggregates)
