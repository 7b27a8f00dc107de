"""The smallest private estimators, of one sample and of two, and one that asks for one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from skdp.base import PrivateMixin, check_bounds
from skdp.budget import PrivacyBudget
from skdp.core import Box, Mean, Session, open_session
from skdp.tabular import Rows, check_samples
from tests.views import box_of


class Toy(TransformerMixin, PrivateMixin, BaseEstimator):
    """The smallest private estimator: it subtracts a private mean. Twins below break its rules."""

    def __init__(
        self,
        *,
        bounds: Any = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Toy:
        with self._all_or_nothing(groups):
            rows = self._open(X)
            low, high = check_bounds(self.bounds, rows.n_features)
            with self._session(rows) as session:
                self.mean_ = session.answer(Mean(box_of(session, low, high)), self._share(X)).value
        return self

    def _share(self, X: Any) -> float | None:
        return None

    def transform(self, X: Any) -> Any:
        return self._public_array(X) - self.mean_


class ToyRatio(PrivateMixin, BaseEstimator):
    """The smallest estimator of two samples: a private mean beside the public rows' own."""

    def __init__(
        self,
        *,
        bounds: Any = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> ToyRatio:
        with self._all_or_nothing(groups):
            self._context()
            rows, public = check_samples(
                X, y, estimator=type(self).__name__, allow_empty=self._allow_empty
            )
            validate_data(self, X, skip_check_array=True)
            self.low_, self.high_ = check_bounds(self.bounds, rows.n_features)
            with self._session(rows) as session:
                self.mean_ = session.answer(Mean(self._view(session))).value
            self.public_mean_ = np.clip(public, self.low_, self.high_).mean(axis=0)
        return self

    def _view(self, session: Session) -> Box:
        return box_of(session, self.low_, self.high_)

    def predict(self, X: Any) -> Any:
        """Return weights: larger on the private mean's side."""
        rows = np.clip(self._public_array(X), self.low_, self.high_)
        return np.exp((rows * (self.mean_ - self.public_mean_)).sum(axis=1))

    def score(self, X: Any, y: Any) -> float:
        weights, private = self.predict(X), np.asarray(y) == 1
        return float(weights[private].sum() - weights[~private].sum())


class OneRelease(PrivateMixin, BaseEstimator):
    """An estimator that asks a session for one thing; for tests of a single query.

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
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.ask = ask
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def _session(self, rows: Rows) -> Session:
        # Without the mixin's digest of parameters, which cannot read a lambda.
        context = self._context()
        unit = context.unit()
        return open_session(
            rows if unit is None else rows.of_units(context.groups, context.name),
            unit=unit,
            estimator="OneRelease",
            epsilon=self.epsilon,
            delta=self.delta,
            budget=self.budget,
            random_state=self.random_state,
        )

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> OneRelease:
        with self._all_or_nothing(groups):
            rows = self._open(X)
            with self._session(rows) as session:
                self.answer_ = self.ask(session)
        return self
