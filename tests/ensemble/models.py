"""What the tests of DPSubsampleAggregate fit, and to what."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from skdp import PrivacyBudget
from skdp.ensemble import DPSubsampleAggregate

R, A = "replace_one", "add_or_remove_one"
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (6000, 2))
LABELS = np.where(X[:, 0] > 0, "late", "on time")
TARGETS = 3 * X[:, 0] - X[:, 1] + 0.5
PUBLIC = RNG.uniform(-1, 1, (60, 2))
TEST = RNG.uniform(-1, 1, (500, 2))
TREE = DecisionTreeClassifier(max_depth=2)
SECRET = 31337.125
relations = pytest.mark.parametrize("relation", [R, A])


def voting(model=TREE, **parameters):
    options = {
        "public": PUBLIC, "classes": ["late", "on time"], "n_blocks": 100, "epsilon": 20.0,
        "aggregate": "vote", "random_state": 0,
    }  # fmt: skip
    return DPSubsampleAggregate(model, **{**options, **parameters})


def scoring(model=TREE, **parameters):
    return voting(model, **{"aggregate": "scores", **parameters})


def averaging(model=None, **parameters):
    options = {
        "public": PUBLIC, "bounds": (-5, 5), "n_blocks": 100, "epsilon": 20.0, "random_state": 0,
    }  # fmt: skip
    return DPSubsampleAggregate(model or Ridge(1e-3), **{**options, **parameters})


def linear(model=None, **parameters):
    return averaging(
        model or LinearRegression(), **{"public": None, "output": "parameters", **parameters}
    )


def smoothed(model=None, **parameters):
    return linear(model, aggregate="smooth_median", **parameters)


class Constant(RegressorMixin, BaseEstimator):
    """Has the mean target for all of its parameters, or something near it."""

    def __init__(self, spread=0.0, random_state=None):
        self.spread = spread
        self.random_state = random_state

    def fit(self, X, y):
        moved = self.spread * np.random.default_rng(self.random_state).normal(size=2)
        self.coef_, self.intercept_ = np.mean(y) + moved, np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.intercept_)


class Quotes(ClassifierMixin, BaseEstimator):
    """Fails with a text that quotes a cell, at several places."""

    def __init__(self, at="fit"):
        self.at = at

    def fit(self, X, y):
        self.classes_, self.row_ = np.unique(y), np.asarray(X)[0]
        self.bad_ = np.max(X) >= SECRET
        warnings.warn(f"{self.row_}", stacklevel=1)
        if self.bad_ and self.at == "fit":
            raise RuntimeError(f"cannot work with {X}")
        return self

    def predict(self, X):
        print(self.row_)
        if self.bad_ and self.at == "predict":
            raise RuntimeError(f"cannot work with {self.row_}")
        return np.resize(self.classes_, len(X))


def budget_of(relation, epsilon=100.0, delta=0.1):
    return PrivacyBudget(epsilon, delta, adjacency=relation)
