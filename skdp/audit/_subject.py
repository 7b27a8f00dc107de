"""An estimator made ready for audits: a clone that charges no ledger."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdp._config import config_context
from skdp.budget import PrivacyBudget
from skdp.budget.stand_in import StandInBudget


@cache
def _stand_in(adjacency: str, unit: str | None) -> StandInBudget:
    """Return the one stand-in of a relation and a unit."""
    return StandInBudget(adjacency, unit)


class Subject(NamedTuple):
    """An unfitted clone whose budgets are stand-ins."""

    estimator: Any
    budgets: dict[str, StandInBudget]  # by adjacency
    adjacency: str


def subject_of(estimator: Any, *, seed: int | None, only_unset: bool = True) -> Subject:
    """Clone an estimator, take its budgets away, and set every random_state to `seed`.

    Parameters
    ----------
    only_unset : bool
        Leave random states that are already set.
    """
    made = clone(estimator)
    budgets: dict[str, StandInBudget] = {}
    changes: dict[str, Any] = {}
    unstated = False
    for name, value in made.get_params(deep=True).items():
        last = name.rpartition("__")[2]
        if isinstance(value, PrivacyBudget):
            adjacency = value.adjacency
            if adjacency not in budgets:
                budgets[adjacency] = _stand_in(adjacency, value.unit)
            changes[name] = budgets[adjacency]
        elif last == "budget" and value is None:
            unstated = True
        elif last == "random_state" and (value is None or not only_unset):
            changes[name] = seed
    made.set_params(**changes)
    relations = set(budgets) | ({"replace_one"} if unstated else set())
    if len(relations) > 1:
        raise ValueError("estimator must have one neighbouring relation in all of its steps")
    return Subject(made, budgets, relations.pop() if relations else "replace_one")


def fit_parameters(estimator: Any, groups: Any) -> dict[str, Any]:
    """Return groups as an estimator takes them, or each private step of a pipeline."""
    if groups is None:
        return {}
    if isinstance(estimator, Pipeline):
        private = [name for name, step in estimator.steps if hasattr(step, "epsilon")]
        return {f"{name}__groups": groups for name in private}
    return {"groups": groups}


def fitted_clone(
    subject: Subject, X: Any, y: Any, groups: Any = None
) -> tuple[Any, list[str], list[Any]]:
    """Fit a clone; return it, the texts of its warnings, and what it asked its budgets for."""
    estimator = clone(subject.estimator)
    for budget in subject.budgets.values():
        budget.asked.clear()
    allowed = config_context(noise="seeded", uncounted_fits="allow")
    with allowed, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        more = fit_parameters(estimator, groups)
        estimator.fit(X, **more) if y is None else estimator.fit(X, y, **more)
    texts = [f"{w.category.__name__}: {w.message}" for w in caught]
    asked = [entry for budget in subject.budgets.values() for entry in budget.asked]
    return estimator, texts, asked
