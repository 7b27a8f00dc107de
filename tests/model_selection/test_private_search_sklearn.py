"""scikit-learn's own checks, none of which may fail, for searches over three kinds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from skdp import DPGridSearchCV, DPKMeans, DPRandomizedSearchCV, DPRidge
from skdp.model_selection import private_scorer
from skdp.neighbors import DPNearestCentroid
from tests.sklearn_checks import run_checks

pytestmark = pytest.mark.slow


class CheckedSearch(DPRandomizedSearchCV):
    """States the classes that scikit-learn's checks bring, whatever they are."""

    def fit(self, X, y=None, *, groups=None):
        stated, self.estimator = self.estimator, clone(self.estimator)
        try:
            try:
                found = np.unique(np.asarray(y))
                if y is not None and len(found) > 1 and found.dtype.kind != "c":
                    self.estimator.classes = found
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)
        finally:
            self.estimator = stated


def clusters(delta):
    scoring = private_scorer("neg_inertia", epsilon=1, bounds=50)
    return DPGridSearchCV(
        DPKMeans(2), {"n_clusters": [2, 3]}, scoring=scoring, n_runs=2, delta=delta, random_state=0
    )


def classes(delta):
    return CheckedSearch(
        DPNearestCentroid(classes=[0, 1]), {"epsilon": [1.0]}, n_iter=1, n_runs=2,
        epsilon=1e6, delta=delta, random_state=0,
    )  # fmt: skip


def targets():
    scoring = private_scorer("neg_mean_squared_error", epsilon=1, bounds=50)
    return DPGridSearchCV(
        DPRidge(target_bounds=(-50, 50)), {"alpha": [1.0]}, scoring=scoring, n_runs=2,
        epsilon=1e6, random_state=0,
    )  # fmt: skip


@pytest.mark.parametrize("estimator", [clusters(0.0), clusters(1e-6), classes(1e-6), targets()])
def test_scikit_learn_checks(estimator, monkeypatch):
    run_checks(estimator, {}, monkeypatch)
