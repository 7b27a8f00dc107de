"""Labelled rows in blocks, and user code that one row turns."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from skdp import PrivacyBudget
from skdp.core import open_session
from skdp.tabular import check_labelled

R, A = "replace_one", "add_or_remove_one"

_BUDGETS = {A: PrivacyBudget(1e6, 0.5, adjacency=A), R: None}
relations = pytest.mark.parametrize("relation", [R, A])


def rows_of(X, y=None, classes=None):
    X = np.asarray(X, dtype=float)
    y = np.zeros(len(X)) if y is None else y
    return check_labelled(X, y, estimator="test", classes=classes, allow_empty=True)


def opened(rows, relation=R, *, epsilon=1.0, delta=0.0, seed=0):
    return open_session(
        rows, estimator="test", epsilon=epsilon, delta=delta, budget=_BUDGETS[relation],
        random_state=seed,
    )  # fmt: skip


class First:
    """A block's whole answer is that of its largest row: one row can turn all of it."""

    def __init__(self, width, low, high):
        self.width, self.low, self.high = width, low, high

    def __call__(self, X, y, seed):
        return np.full(self.width, self.high if np.max(X, initial=0.0) > 10 else self.low)


class Collects:
    """Passes everything out, which user code must not; for tests."""

    def __init__(self):
        self.seen, self.lock = [], threading.Lock()

    def __call__(self, X, y, seed):
        with self.lock:
            self.seen.append((np.asarray(X).copy(), y.copy(), seed))
        return [0.0]


def sums(X, y, seed):
    return [X.sum(), y.sum(), seed % 1000]
