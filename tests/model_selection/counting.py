"""A toy estimator that counts its fits, and what else prices are tried on."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.experimental import enable_halving_search_cv  # noqa: F401

from skdp.budget import Cost

FITS: list[tuple[float, float]] = []  # (epsilon, delta) of every fit of a Toy in this process


class Toy(ClusterMixin, BaseEstimator):
    """Says what it would charge, and notes every fit; looks at no data."""

    def __init__(self, epsilon=1.0, delta=0.0, k=1, budget=None):
        self.epsilon = epsilon
        self.delta = delta
        self.k = k
        self.budget = budget

    def privacy_cost(self, n_samples=None, n_features=None):
        return Cost(self.epsilon, self.delta, mu=0.1 if self.delta else None)

    def fit(self, X, y=None):
        FITS.append((self.epsilon, self.delta))
        self.cluster_centers_ = np.zeros((1, 1))
        return self

    def transform(self, X):
        return X

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y=None):
        return -self.k


X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2


def fitted(run):
    """Return the number of fits of a Toy, and what they charge, while `run` runs."""
    FITS.clear()
    run()
    return len(FITS), round(sum(e for e, _ in FITS), 9), round(sum(d for _, d in FITS), 12)
