"""Sessions on one table."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import PrivacyBudget, SeededNoiseWarning, core
from skdp.tabular import check_rows

X = np.random.default_rng(3).uniform(-1, 1, size=(500, 2))


def open_session(X=X, *, epsilon=1.0, delta=0.0, adjacency="replace_one", seed=None, total=1e6):
    budget = PrivacyBudget(total, 0.5, adjacency=adjacency)
    rows = check_rows(X, estimator="T")
    if seed is not None:
        with pytest.warns(SeededNoiseWarning):
            return core.open_session(
                rows, estimator="T", epsilon=epsilon, delta=delta, budget=budget, random_state=seed
            )
    return core.open_session(rows, estimator="T", epsilon=epsilon, delta=delta, budget=budget)
