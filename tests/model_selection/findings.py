"""Private steps for `check_pipeline`, and what it finds."""

from __future__ import annotations

from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401

from skdp import DPKMeans, DPStandardScaler, PrivacyBudget, check_pipeline
from skdp.model_selection import private_scorer

BUDGET = PrivacyBudget(99.0)
REMOVE = PrivacyBudget(99.0, adjacency="add_or_remove_one")


def scaler(budget=BUDGET, **params):
    return DPStandardScaler(bounds=(-5, 5), budget=budget, **params)


def kmeans(budget=BUDGET, **params):
    return DPKMeans(2, bounds=(-5, 5), budget=budget, **params)


def scorer(budget=BUDGET):
    return private_scorer("neg_inertia", epsilon=0.1, bounds=100.0, budget=budget)


def found(estimator, severity=None):
    """Return (where, what) of the findings."""
    return [
        (one.where, one.what)
        for one in check_pipeline(estimator)
        if severity is None or one.severity == severity
    ]


def places(estimator, severity="high"):
    return [where for where, _ in found(estimator, severity)]
