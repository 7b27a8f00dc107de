"""Every estimator under the contract, and the one table of failures that are expected.

A new estimator joins by an entry in `CASES`; nothing else in this folder names estimators, except
for the worst pairs of `test_neighbour` and `test_audit`, which are theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

from skdp import kernel
from skdp.base import PrivateMixin, check_bounds
from skdp.budget import PrivacyBudget
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler

RELATIONS = ("replace_one", "add_or_remove_one")
DELTAS = (0.0, 1e-5)


class Toy(TransformerMixin, PrivateMixin, BaseEstimator):
    """The smallest private estimator: it subtracts a private mean. Twins below break its rules."""

    def __init__(
        self,
        *,
        bounds: Any = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float = 0.0,
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Toy:
        with self._all_or_nothing():
            rows = self._open(X)
            low, high = check_bounds(self.bounds, rows.n_features)
            with self._session(rows) as session:
                self.mean_ = session.mean(session.box(low, high), self._share(X)).value
                self.privacy_ = session.certificate()
        return self

    def _share(self, X: Any) -> float | None:
        return None

    def transform(self, X: Any) -> Any:
        return self._public_array(X) - self.mean_


@dataclass(frozen=True)
class Case:
    """An estimator as the contract meets it.

    Attributes
    ----------
    name : str
    make : callable
        Makes an unfitted estimator from keyword-only privacy parameters; rows of the contract lie
        around [-1, 1], and far outside of it too.
    sklearn : bool
        Whether scikit-learn's checks run on it; configurations of one class need them once.
    n_features : int
        Of the rows that it is tested on.
    """

    name: str
    make: Callable[..., Any]
    sklearn: bool = False
    n_features: int = 3


def _pipeline(**privacy: Any) -> Any:
    return make_pipeline(
        DPStandardScaler(bounds=(-1, 1), **privacy),
        DPPCA(2, norm_bound=4.0, center=0.0, **privacy),
        DPKMeans(2, bounds=(-4, 4), **privacy),
    )


CASES = (
    Case("toy", Toy, sklearn=True),
    Case("standard_scaler", lambda **p: DPStandardScaler(bounds=(-1, 1), **p)),
    Case("standard_scaler_private", DPStandardScaler, sklearn=True),
    Case("minmax_scaler", DPMinMaxScaler, sklearn=True),
    Case("minmax_scaler_stated", lambda **p: DPMinMaxScaler(bounds=(-1, 1), **p)),
    Case("pca", lambda **p: DPPCA(norm_bound=1.0, center=0.0, **p)),
    Case("pca_private", DPPCA, sklearn=True),
    Case("pca_laplace", lambda **p: DPPCA(norm_bound=1.0, noise="laplace", **p)),
    Case("pca_wishart", lambda **p: DPPCA(1, norm_bound=1.0, noise="wishart", **p)),
    Case("kmeans", lambda **p: DPKMeans(2, bounds=(-1, 1), **p)),
    Case("kmeans_private", DPKMeans, sklearn=True),
    Case("kmeans_lloyd", lambda **p: DPKMeans(2, algorithm="lloyd", **p), sklearn=True),
    # Enough epsilon for the subspace not to be given up, features enough for there to be one.
    Case(
        "kmeans_subspace",
        lambda **p: DPKMeans(2, bounds=(-1, 1), **{**p, "epsilon": 50.0}),
        n_features=13,
    ),
    Case("pipeline", _pipeline),
)

# Checks of scikit-learn that an estimator cannot pass and stay private, each with its reason.
# No reason may be about fitting, cloning, pickling or parameters. An entry that passes is a
# failure (strict), so the table cannot outlive its reasons.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "DPKMeans": {
        "check_clustering": "reads labels_, the exact assignment of private rows: never released",
    },
}


def make(case: Case, delta: float, relation: str = "replace_one", epsilon: float = 1.0) -> Any:
    """Return an unfitted estimator; under replace-one it has no budget, as most users' have."""
    budget = None
    if relation != "replace_one":
        budget = _budget(relation)
    return case.make(epsilon=epsilon, delta=delta, budget=budget, random_state=None)


_BUDGETS: dict[str, PrivacyBudget] = {}


def _budget(relation: str) -> PrivacyBudget:
    """Return one budget a relation; audits replace it by a stand-in, so nothing is charged."""
    if relation not in _BUDGETS:
        _BUDGETS[relation] = PrivacyBudget(1.0, 1e-3, adjacency=relation)
    return _BUDGETS[relation]


def rows(n: int, d: int, seed: int) -> np.ndarray:
    """Return made-up rows, partly outside [-1, 1]."""
    return np.random.default_rng(seed).normal(0, 0.7, size=(n, d))


class Door(PrivateMixin, BaseEstimator):
    """An estimator that asks a session for one thing; for tests of a single door.

    Parameters
    ----------
    ask : callable
        From the session to what is kept as ``answer_``.
    """

    def __init__(
        self,
        ask: Callable[[Any], Any],
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.ask = ask
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def _session(self, rows: kernel.Rows) -> kernel.Session:
        # Without the mixin's digest of parameters, which cannot read a lambda.
        return kernel.open_session(
            rows,
            estimator="Door",
            epsilon=self.epsilon,
            delta=self.delta,
            budget=self.budget,
            random_state=self.random_state,
        )

    def fit(self, X: Any, y: Any = None) -> Door:
        with self._all_or_nothing():
            rows = self._open(X)
            with self._session(rows) as session:
                self.answer_ = self.ask(session)
                self.privacy_ = session.certificate()
        return self
