"""What a user writes, read by type checkers: mypy in CI. It is never run."""

from __future__ import annotations

import numpy as np
from sklearn.pipeline import make_pipeline

import skdp
from skdp import DPPCA, DPKMeans, DPLogisticRegression, DPStandardScaler, PrivacyBudget, statistics
from skdp.budget import Cost


def clustered(rows: np.ndarray) -> np.ndarray:
    """Cluster rows under one budget."""
    budget = PrivacyBudget(epsilon=3.0, delta=1e-5, ledger="table.db")
    pipeline = make_pipeline(
        DPStandardScaler(bounds=(0, 1), budget=budget),
        DPPCA(2, delta=1e-6, budget=budget),
        DPKMeans(4, budget=budget),
    )
    planned = skdp.plan(pipeline, n_samples=1000, n_features=5)
    total: Cost | None = planned.total
    assert total is not None
    pipeline.fit(rows)
    spent: float = float(budget.spent.epsilon)
    assert spent <= 3.0
    labels: np.ndarray = pipeline.predict(rows)
    return labels


def average(ages: np.ndarray) -> tuple[float, float]:
    """Return the ends of an interval."""
    answer = statistics.mean(ages, bounds=(0, 120), epsilon=0.5)
    low, high = answer.interval(0.95)
    return float(low), float(high)


def predicted(rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit a model within a budget that is ambient."""
    with PrivacyBudget(1.0, 1e-6):
        model = DPLogisticRegression(classes=[0, 1], delta=1e-6).fit(rows, y)
    centers: np.ndarray = model.predict_proba(rows)
    return centers
