"""Who gets the ids of units: private steps whose budget protects a unit need them as ``groups``.

Nothing is released here and no row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sklearn import get_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skdp.base.leaks import has_price, is_search, steps_of
from skdp.budget import PrivacyBudget
from skdp.budget.ambient import ambient_budget
from skdp.model_selection._findings import HIGH, MEDIUM, Finding


def budget_of(part: Any) -> PrivacyBudget | None:
    """Return what counts a part: its own budget, or that of the ``with budget:`` around us."""
    budget = getattr(part, "budget", None)
    if budget is None:
        return ambient_budget()
    return budget if isinstance(budget, PrivacyBudget) else None


def without_ids(search_parts: Sequence[Any], where: str) -> Iterator[Finding]:
    """Find parts of a search that are not handed the ids that their budget needs."""
    for part in dict.fromkeys(search_parts):
        if (unit := _unit_without_ids(part)) is None:
            continue
        yield Finding(
            HIGH,
            where,
            f"{type(part).__name__} inside it gets no groups, and its budget protects one "
            f"{unit!r}: each fit is refused",
            "sklearn.set_config(enable_metadata_routing=True), and "
            f".set_{'score' if hasattr(part, 'metric') else 'fit'}_request(groups=True) on it",
        )


def steps_without_ids(container: Any) -> Iterator[Finding]:
    """Find steps of pipelines, at any depth, that are not handed the ids that their budget needs.

    A search inside is looked at by itself.
    """
    return _steps(container, "", "")


def _steps(container: Any, path: str, prefix: str | None) -> Iterator[Finding]:
    """Find them below a path.

    Without metadata routing, what `fit` is handed as ``<prefix>groups`` reaches the container; None
    if nothing does.
    """
    for name, step, _ in steps_of(container) or []:
        if isinstance(step, str | type | FrozenEstimator) or step is None or is_search(step):
            continue
        inner = f"{path}__{name}" if path else name
        reached = _passed_on(container, name, prefix)
        if not has_price(step):
            yield from _steps(step, inner, reached)
            continue
        if (unit := _unit_without_ids(step)) is None:
            continue
        needs = f"its budget protects one {unit!r}, so its fit needs groups"
        way_out = ".set_fit_request(groups=True) on this step, and fit(..., groups=ids)"
        if get_config()["enable_metadata_routing"]:
            severity, what = HIGH, f"{needs}, which it does not request: it is refused"
        else:
            way_out = f"sklearn.set_config(enable_metadata_routing=True), {way_out}"
            if reached is None:
                severity = HIGH
                what = f"{needs}, which do not reach it without metadata routing: it is refused"
            else:
                severity = MEDIUM
                what = f"{needs}, which reach it only if the call says {reached}groups="
                way_out = f"fit(..., {reached}groups=ids); or {way_out}"
        yield Finding(severity, f"{inner} ({type(step).__name__})", what, way_out)


def _passed_on(container: Any, name: str, prefix: str | None) -> str | None:
    """Return the prefix of what a container passes on to a step without metadata routing."""
    if prefix is None:
        return None
    if isinstance(container, Pipeline):
        return f"{prefix}{name}__"
    regressor = isinstance(container, TransformedTargetRegressor) and name == "regressor"
    return prefix if regressor or isinstance(container, FeatureUnion) else None


def _unit_without_ids(part: Any) -> str | None:
    """Return the unit of the budget of a part to which no ids are routed; None: all is well."""
    budget = budget_of(part)
    if budget is None or budget.unit is None:
        return None
    routes = bool(get_config()["enable_metadata_routing"])
    return None if routes and _asks_for_groups(part) else budget.unit


def _asks_for_groups(part: Any) -> bool:
    """Say whether scikit-learn's metadata routing hands groups to a part."""
    request = part.get_metadata_routing()
    found = [getattr(request, method).requests.get("groups") for method in ("fit", "score")]
    return any(one is True or isinstance(one, str) for one in found)
