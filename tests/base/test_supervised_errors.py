"""Standard errors of supervised models cover what all rows have, for columns as people have them.

Each test takes the root mean square of errors in standard errors over 12 fits. For noise as it is
claimed it is about 1; the least that one configuration has is the equivalent of 40 independent
numbers (counts shared by the columns of a class and one matrix shared by all coefficients leave no
fewer), of which a root mean square above 1.6 has a chance of 2e-7.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from skdp import PrivacyBudget
from skdp.base import classifiers
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.linear_model import DPLinearRegression
from skdp.naive_bayes import DPGaussianNB
from skdp.neighbors import DPNearestCentroid
from tests.folding import each

ROWS, FITS, CLASSES, LIMIT = 8000, 12, range(3), 1.6
# 0/1, money that is mostly 0, lengths in small units, counts, lognormal.
BOUNDS = [0, 0, 100_000, 0, 0], [1, 8000, 250_000, 20, 10]
MEANS = {
    DPGaussianNB: "theta_",
    DPNearestCentroid: "centroids_",
    DPLinearDiscriminantAnalysis: "means_",
}


def ordinary(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.random(ROWS) < 0.1,
            np.where(rng.random(ROWS) < 0.8, 0, rng.lognormal(7, 0.5, ROWS)),
            rng.normal(170, 10, ROWS) * 1000,
            rng.poisson(3, ROWS),
            rng.lognormal(0, 0.5, ROWS),
        ]
    )
    return X, X[:, 2] / 10_000 + X[:, 3] / 3 + X[:, 4] + rng.normal(size=ROWS)


def deviations(kind, delta, relation, bounds):
    """Return errors in standard errors, finite ones, and the part of the fits that have them."""
    found, fits = [], 0
    for seed in range(FITS):
        X, score = ordinary(seed)
        options = {"delta": delta, "budget": PrivacyBudget(1e9, 0.5, adjacency=relation)}
        options |= {"bounds": bounds, "epsilon": 100.0}
        if kind is DPLinearRegression:
            target = "private" if bounds == "private" else (0, 40)
            model = kind(target_bounds=target, **options).fit(X, score)
            truth = LinearRegression().fit(X, score)
            moved = np.append(model.coef_ - truth.coef_, model.intercept_ - truth.intercept_)
            ratio = moved / np.append(model.coef_std_error_, model.intercept_std_error_)
        else:
            y = np.searchsorted([20.0, 22.0], score + np.random.default_rng(seed).normal(size=ROWS))
            model = kind(classes=CLASSES, **options).fit(X, y)
            truth = np.stack([X[y == k].mean(axis=0) for k in CLASSES])
            name = MEANS[kind]
            ratio = (getattr(model, name) - truth) / getattr(model, f"{name[:-1]}_std_error_")
        fits += bool(np.isfinite(ratio).any())
        found.extend(ratio[np.isfinite(ratio)])
    return np.array(found), fits / FITS


def rms(found):
    return math.sqrt(np.mean(found**2)) if found.size else 0.0


@pytest.mark.statistical
@each("relation", ["add_or_remove_one", "replace_one"])
@each("delta", [0.0, 1e-6])
@each("kind", [*MEANS, DPLinearRegression])
def test_errors_cover_what_all_rows_have(kind, delta, relation):
    found, known = deviations(kind, delta, relation, BOUNDS)
    assert known == 1.0 or relation == "replace_one"
    assert known < 0.5 or rms(found) < LIMIT
    if kind is DPLinearRegression:
        found, known = deviations(kind, delta, relation, "private")
        assert known > 0.5
        assert rms(found) < LIMIT


@pytest.mark.parametrize("kind", MEANS)
def test_learned_bounds_leave_the_means_of_classes_without_errors(kind):
    """How many rows of one class lie beyond them is not known."""
    X, score = ordinary(0)
    model = kind(classes=[0, 1], epsilon=50.0).fit(X, score > 21)
    assert np.isnan(getattr(model, f"{MEANS[kind][:-1]}_std_error_")).all()


@pytest.mark.statistical
@pytest.mark.parametrize(
    "kind", [DPNearestCentroid, DPLinearDiscriminantAnalysis, DPLinearRegression]
)
def test_shortened_rows_taken_for_whole_ones_are_caught(kind, monkeypatch):
    monkeypatch.setattr(classifiers.Standard, "reach", lambda self, low, high: 2.0)
    found, known = deviations(kind, 0.0, "replace_one", BOUNDS)
    assert known == 1.0
    assert rms(found) > LIMIT
