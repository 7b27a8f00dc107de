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
    """Return about the half widths of intervals; where caps are private, what they depend on."""
    private = [name for name in _EXAMPLE if not isinstance(getattr(by, name), int)]
    guesses = dict.fromkeys(
        (one.column for one in plan.aggregates if one.column and one.column not in plan.bounds),
        (0.0, 1.0),
    )

    def widths(caps: dict[str, int]) -> dict[str, float]:
        if _needs_rows(plan) and not rows_per_key:
            return {}
        given = {name: caps[name] for name in private}
        found: dict[str, float] = by.expected_error(
            rows_per_key=rows_per_key, bounds=guesses, **given
        )
        return found

    least, example = widths(dict.fromkeys(_EXAMPLE, 1)), widths(_EXAMPLE)
    lines = []
    for one in plan.aggregates:
        if one.name not in least or (one.column and one.column not in plan.bounds):
            continue
        what = f"half width of {one.kind}{f'({one.column})' if one.column else ''}"
        if least[one.name] == example[one.name]:
            lines.append(f"{what}: about {least[one.name]:.4g}")
            continue
        of = [name for name in private if (one.kind, name) != _NO_ROWS]
        lines.append(
            f"{what}: not known before the fit, which finds {' and '.join(of)} privately. It is "
            + "; ".join(
                f"about {found[one.name]:.4g} if {_stated(of, caps)}"
                for caps, found in ((dict.fromkeys(_EXAMPLE, 1), least), (_EXAMPLE, example))
            )
            + ". State them to know it"
        )
    if _needs_rows(plan) and not rows_per_key:
        lines.append("errors: give rows_per_key= to see how large they would be")
    return lines


_EXAMPLE = {"max_keys_per_unit": 4, "max_rows_per_unit": 8}
_NO_ROWS = ("distinct_units", "max_rows_per_unit")  # units are counted once a key


def _stated(names: list[str], caps: dict[str, int]) -> str:
    """Return caps as text: "a unit counts in 4 keys, with 8 rows in each"."""
    parts = []
    if "max_keys_per_unit" in names:
        keys = caps["max_keys_per_unit"]
        parts.append(f"in {keys} {'key' if keys == 1 else 'keys'}")
    if "max_rows_per_unit" in names:
        rows = caps["max_rows_per_unit"]
        each = " in each" if parts else " a key"
        parts.append(f"with {rows} {'row' if rows == 1 else 'rows'}{each}")
    return f"a unit counts {', '.join(parts)}"


def _needs_rows(plan: Plan) -> bool:
    return any(one.kind in ("mean", "variance", "std", "quantile") for one in plan.aggregates)
