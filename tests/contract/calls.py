"""Functions of `skdp.statistics` and `skdp.metrics` under the contract, each as an estimator."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from cases import RELATIONS, Case, three_classes
from sklearn.base import BaseEstimator

from skdp import metrics, statistics
from skdp.base import PrivateMixin
from skdp.budget import Cost, PrivacyBudget


class Called(PrivateMixin, BaseEstimator):
    """A function of `skdp.statistics` as an estimator: its fit keeps what a call returns."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Any = None,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.function = function
        self.options = options
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def privacy_cost(self, n_samples: Any = None, n_features: Any = None) -> Cost:
        """Return what the call has cost, before it the most: functions announce no price."""
        if not hasattr(self, "privacy_"):
            return super().privacy_cost(n_samples, n_features)
        made = self.privacy_
        return Cost(made.epsilon, made.delta, mu=made.mu)

    def _noise_of(self, allowance: Any, n_features: Any) -> float:
        return math.nan

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Called:
        with self._all_or_nothing(groups):
            privacy = {name: getattr(self, name) for name in ("epsilon", "delta", "budget")}
            if groups is not None:
                privacy |= {"groups": groups, "max_rows_per_unit": self.max_rows_per_unit}
            self.released_ = self.function(
                X, random_state=self.random_state, **privacy, **(self.options or {})
            )
            self.privacy_ = self.released_.privacy
        return self


def _call(name: str, function: Any = None, *, relations: Any = RELATIONS, **options: Any) -> Case:
    function = function or getattr(statistics, name)
    if options.get("bounds") is None:
        options.pop("bounds", None)
    else:
        name += "_stated"
    return Case(
        f"statistics.{name}", lambda **p: Called(function, options, **p), relations=relations
    )


def _of_columns(name: str, n: int | None, *arguments: Any) -> Callable[..., Any]:
    """Return a call on the first n columns (None: on one as a flat sequence); its first result."""

    def call(X: Any, **options: Any) -> Any:
        table = np.asarray(X)
        columns = table[:, 0] if n is None else table[:, :n]
        return getattr(statistics, name)(columns, *arguments, **options)[0]

    return call


def _asked(X: Any, **options: Any) -> Any:
    with statistics.query_session(X, n_queries=2, **options) as session:
        session.ask(lambda row: row[0] > 0)
        return session.ask(lambda row: row[1] ** 2)


def _subset(X: Any, **options: Any) -> Any:
    return statistics.subset_sums(X, three_classes(np.asarray(X)), classes=[0, 1, 2], **options)


def _path(X: Any, **options: Any) -> Any:
    """Return the cost of a tree in a cycle of many edges, with the first column as weights."""
    weights = np.asarray(X)[:100, 0]
    n = min(len(weights), 6)
    edges = [[i % n, (i + 1) % n] for i in range(len(weights))]
    return statistics.mst_cost(n, edges, weights, 1.0, **options)


UNIT = (-1, 1)

CALLS = (
    _call("count", relations=("add_or_remove_one",)),
    _call("count_nonzero"),
    _call("count_nonzero_of_rows", partial(statistics.count_nonzero, axis=None)),
    _call("sum"),
    _call("sum", bounds=UNIT),
    _call("mean"),
    _call("mean", bounds=UNIT),
    _call("mean_with_intervals", partial(statistics.mean, intervals=True)),
    _call("mean_of_rows", partial(statistics.mean, axis=None), bounds=UNIT),
    _call("var", bounds=UNIT),
    _call("std"),
    _call("covariance"),
    _call("correlation", bounds=UNIT),
    _call("histogram", _of_columns("histogram", None)),
    _call("histogram2d", _of_columns("histogram2d", 2), bounds=UNIT),
    _call("histogramdd", _of_columns("histogramdd", 3, 3), bounds=UNIT),
    _call("subset_sums", _subset, bounds=UNIT),
    _call("quantile", lambda X, **o: statistics.quantile(X, [0.1, 0.5, 0.9], **o)),
    _call("median", bounds=UNIT),
    _call("median_with_intervals", partial(statistics.median, intervals=True), bounds=UNIT),
    _call("describe"),
    _call("describe", bounds=UNIT),
    _call("query_session", _asked),
    _call("mst_cost", _path, relations=("replace_one",)),
)


def _metric(name: str, pairs: str, **options: Any) -> Case:
    """Return a case of `skdp.metrics`: labels, scores or numbers are made of two columns."""

    def call(X: Any, **privacy: Any) -> Any:
        a, b = np.asarray(X)[:, 0], np.asarray(X)[:, 1]
        y = {"labels": (three_classes(np.asarray(X)), np.where(a > 0, 2, 1)), "scores": (a > 0, b)}
        return getattr(metrics, name)(*y.get(pairs, (a, b)), **options, **privacy)

    stated = "_stated" if "bins" in options else ""
    return Case(f"metrics.{name}{stated}", lambda **p: Called(call, {}, **p), relations=RELATIONS)


# One for each kind of release; `tests/metrics/test_metrics.py` shows that the others add none.
CALLS += (
    _metric("accuracy_score", "labels", labels=[0, 1, 2]),
    _metric("confusion_matrix", "labels", labels=[2, 1, 0]),
    _metric("score_histogram", "scores", labels=[False, True]),
    _metric("score_histogram", "scores", labels=[False, True], bins=4),
    _metric("regression_errors", "numbers", target_bounds=UNIT, max_error=1.0),
    _metric("r2_score", "numbers"),
)
