"""Probabilities of logistic regressions: they mean what they say, and a wrong plan shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skdp import PrivacyBudget, config_context
from skdp.linear_model import DPLogisticRegression, _logistic
from skdp.queries import softmax

A, R = "add_or_remove_one", "replace_one"


def budget(relation):
    return PrivacyBudget(1e12, 0.5, adjacency=relation)


def drawn(n, seed, *, classes=2, rare=0.0):
    """Return rows, labels and the probabilities that these were drawn with."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    logits = X @ np.array([[1.0, 0.0], [-0.5, 1.0], [0.0, 0.5]])[:, : classes - 1] - rare
    logits = np.column_stack([np.zeros(n), logits])
    return X, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1), softmax(logits)


def miscalibration(classes, rare, delta, relation, *, weighted=False):
    """Return by how much mean probabilities and the slope of log-odds are wrong, over fits."""
    new, truth, p = drawn(20_000, 99, classes=classes, rare=rare)
    means, slopes = [], []
    for seed in range(4):
        X, y, _ = drawn(20_000, seed, classes=classes, rare=rare)
        model = DPLogisticRegression(
            classes=range(classes), bounds=(-4, 4), epsilon=3.0, delta=delta, random_state=seed,
            budget=budget(relation), weight_bound=2.0 if weighted else "private",
        )  # fmt: skip
        with config_context(noise="seeded"):
            model.fit(X, y, sample_weight=np.full(len(X), 2.0) if weighted else None)
        chances = model.predict_proba(new)
        means.append(chances.mean(axis=0) - p.mean(axis=0))
        odds = np.log(chances[:, 1:2] / chances[:, :1])
        two = truth < 2
        slopes.append(LogisticRegression(C=1e6).fit(odds[two], truth[two]).coef_[0, 0])
    return float(np.abs(np.mean(means, axis=0)).max()), abs(math.log(float(np.mean(slopes))))


CALIBRATED = [
    (2, 0.0, 0.0, R, False),
    (2, 2.4, 0.0, R, False),
    (2, 2.4, 1e-6, A, False),
    (2, 1.5, 0.0, A, True),
    (3, 1.0, 1e-6, R, False),
]


@pytest.mark.parametrize(("classes", "rare", "delta", "relation", "weighted"), CALIBRATED)
def test_probabilities_are_calibrated(classes, rare, delta, relation, weighted):
    """Seeded: the mean over four fits, and the slope of true log-odds on predicted ones."""
    bias, slope = miscalibration(classes, rare, delta, relation, weighted=weighted)
    assert bias < (0.006 if classes == 2 else 0.012)
    assert slope < 0.12


def test_a_bound_on_slopes_that_many_rows_exceed_makes_probabilities_wrong(monkeypatch):
    """So the plan lifts it where noise is small and classes overlap."""
    monkeypatch.setattr(_logistic._Plan, "cap", 0.25)
    bias, slope = miscalibration(2, 2.4, 0.0, R)
    assert bias >= 0.006 or slope >= 0.12


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_any_epsilon_has_finite_odds_and_its_charge(delta):
    X, y, _ = drawn(3000, 1)
    new, _, _ = drawn(500, 2)
    spent = []
    for epsilon in (0.01, 1.0, 30.0):
        ledger = PrivacyBudget(40.0, 1e-3)
        model = DPLogisticRegression(classes=[0, 1], bounds=(-4, 4), epsilon=epsilon, delta=delta)
        model.set_params(budget=ledger).fit(X, y)
        spent.append((float(ledger.spent.epsilon), float(ledger.spent.delta)))
        odds = model.decision_function(new)
        assert np.isfinite(odds).all()
        np.testing.assert_array_equal(model.predict(new), (odds > 0).astype(int))
    assert [epsilon for epsilon, _ in spent] == [0.01, 1.0, 30.0]
    assert {taken for _, taken in spent} <= {0.0, delta}
