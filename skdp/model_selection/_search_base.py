"""What private searches share: candidates checked before the charge, runs, the winner.

Released, under the (epsilon, delta) of the search: the parameters, the fitted model and the noisy
score of the best of a secret number of runs. Nothing of the other runs: no table of results, no
progress, no line in the ledger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    clone,
    is_classifier,
    is_clusterer,
    is_regressor,
)
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.base import CallContext, PrivateMixin
from skdp.base.classifiers import warn_of_column
from skdp.budget import Cost, PrivacyBudget
from skdp.core import PRIVATE_ROWS, Unit, UserFunction, check_allowance, check_unit
from skdp.model_selection._candidates import (
    allot,
    ask_for_groups,
    check_candidate,
    check_first_steps,
    check_targets_of,
    fit_with_groups,
    gaussian_epsilon,
    needs_separate_delta,
)
from skdp.model_selection._pricing import private_parts
from skdp.model_selection._scorer import PrivateScorer, check_scored, needs_targets, score_in
from skdp.parameters import Integers, Reals, Table, naming
from skdp.queries import BaseRun, BestOfRuns, Repeats, base_level
from skdp.tabular import WholeUnits, check_labels, dealt_rows, is_listed

_RUNS_A_CANDIDATE, _FEWEST_RUNS, _MOST_RUNS = 2, 10, 100
_NO_MODEL = (
    "every run of the search failed; the search is charged. Fit one candidate by itself on public "
    "rows that resemble the private ones to see why"
)


def _best_has(method: str) -> Any:
    def check(self: Any) -> bool:
        getattr(getattr(self, "best_estimator_", self.estimator), method)
        return True

    return check


class PrivateSearch(MetaEstimatorMixin, PrivateMixin, BaseEstimator, ABC):
    """What both searches share; they differ in their candidates."""

    _parameter_table: ClassVar[Table] = {
        "n_runs": ("auto", Integers(2, 10**6)),
        "runs": ("geometric", "logarithmic"),
        "test_size": Reals(0, 1, "()"),
    }

    estimator: Any
    scoring: Any
    n_runs: Any
    runs: str
    test_size: float
    max_rows_per_unit: Any

    @abstractmethod
    def _candidate_params(self) -> list[Mapping[str, Any]]:
        """Return the parameters of all candidates; no row decides them."""

    @abstractmethod
    def _n_candidates(self) -> int:
        """Return how many candidates there are."""

    # --- what it costs ------------------------------------------------------------------------

    def _repeats(self) -> Repeats:
        mean = self.n_runs
        if mean == "auto":
            wanted = _RUNS_A_CANDIDATE * self._n_candidates()
            mean = min(max(wanted, _FEWEST_RUNS), _MOST_RUNS)
        return Repeats.of_mean(int(mean), logarithmic=self.runs == "logarithmic")

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the cost of the whole search, before any data is touched.

        Parameters
        ----------
        n_samples, n_features : int, default=None
            Not used: the cost does not depend on them.

        Returns
        -------
        cost : skdp.budget.Cost
            (epsilon, delta), for any set of candidates.
        """
        self._context()
        epsilon, delta = float(self.epsilon), float(self.delta)
        return Cost(epsilon=epsilon, delta=delta, separate_delta=delta)

    def run_cost(self) -> Cost:
        """Return the allowance of the fit in one run; the score has the same, for other rows.

        Returns
        -------
        cost : skdp.budget.Cost
            For all private steps together; they share it in proportion to their ``epsilon``. Its
            ``separate_delta`` is for what steps learn (categories, classes).
        """
        self._check_parameters()
        base = self._base(self._unfitted(self._candidate_params()))
        noise, apart = self._noise_cost(base), base.separate_delta
        if not apart:
            return noise
        return Cost(noise.epsilon, noise.delta + apart, mu=noise.mu, separate_delta=apart)

    def _base(self, candidates: Sequence[Any]) -> BaseRun:
        """Return what a run of these candidates may lose; their parameters are public."""
        epsilon, delta = float(self.epsilon), float(self.delta)
        separate = any(needs_separate_delta(candidate, delta) for candidate in candidates)
        check_allowance(epsilon, delta)
        base = base_level(epsilon, delta, self._repeats(), separate=separate)
        if delta and gaussian_epsilon(base.mu, delta) <= 0:
            raise ValueError(
                f"delta={self.delta!r} alone covers the noise of a run, which leaves it no "
                "epsilon: state a smaller delta"
            )
        return base

    def _noise_cost(self, base: BaseRun) -> Cost:
        """Return what the noise of a run may cost."""
        if base.mu is None:
            return Cost(float(base.epsilon or 0.0))
        delta = float(self.delta)
        return Cost(gaussian_epsilon(base.mu, delta), delta, mu=base.mu)

    # --- what is checked before ----------------------------------------------------------------

    def _scoring(self) -> PrivateScorer:
        """Return what scores a run; its epsilon is not used."""
        scoring = self.scoring
        if scoring is None:
            if not is_classifier(self.estimator):
                metric = "inertia" if is_clusterer(self.estimator) else "mean_squared_error"
                raise ValueError(
                    "scoring must be stated unless estimator is a classifier: "
                    f"private_scorer('neg_{metric}', epsilon=1, bounds=...), say; its epsilon is "
                    "not used"
                )
            scoring = "accuracy"
        with naming("scoring"):
            scorer = PrivateScorer(scoring) if isinstance(scoring, str) else scoring
        if not isinstance(scorer, PrivateScorer):
            raise TypeError(
                "scoring must be the name of a metric or a private_scorer, got "
                f"{type(scoring).__name__}"
            )
        with naming("scoring"):
            scorer.check_parameters()
        return scorer

    def _unfitted(self, params: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the candidates, each with the budget of a run, which it has not read yet."""
        context = self._context()
        unit = None if context.budget is None else context.budget.unit
        if not hasattr(self.estimator, "get_params") or isinstance(self.estimator, type):
            raise TypeError(f"estimator must be an estimator, got {type(self.estimator).__name__}")
        # Of which nothing is asked: each run has its own.
        roomy = PrivacyBudget(1e15, delta=0.5, adjacency=context.adjacency, unit=unit)
        candidates = []
        for choice in params:
            candidate = clone(self.estimator).set_params(**clone(dict(choice), safe=False))
            for part in [candidate, *candidate.get_params(deep=True).values()]:
                if hasattr(part, "set_callbacks") and not isinstance(part, type):
                    part.set_callbacks()  # they would count the runs
            _set_all(candidate, "budget", roomy)
            _set_all(candidate, "random_state", None)
            candidates.append(candidate)
        return candidates

    def _candidates(
        self, params: Sequence[Mapping[str, Any]], unit: str | None
    ) -> tuple[list[Any], BaseRun]:
        """Return the candidates, each with its parts of a run, and that; raise for a wrong one."""
        candidates = self._unfitted(params)
        base = self._base(candidates)
        for candidate in candidates:
            check_candidate(allot(candidate, base, float(self.delta)), base)
            if unit is not None:
                ask_for_groups(candidate, unit, self.max_rows_per_unit, self._context().adjacency)
        return candidates, base

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        context = self._context()
        unit = None if context.budget is None else context.budget.unit
        scorer = self._scoring()
        _, base = self._candidates(self._candidate_params(), unit)
        self._check_score(scorer, base, unit)

    def _check_score(self, scorer: PrivateScorer, base: BaseRun, unit: str | None) -> Any:
        """Return how many rows of a unit count in a score; refuse so many that nothing is left."""
        cost = self._noise_cost(base)
        claimed = check_allowance(cost.epsilon, cost.delta)
        if not base.covers([Cost(cost.epsilon, cost.delta, mu=claimed)]):
            raise ValueError(f"epsilon={self.epsilon!r} is too large for a search to divide")
        most = scorer.max_rows_per_unit
        most = self.max_rows_per_unit if most == PRIVATE_ROWS else most
        if unit is not None:
            check_unit(Unit(unit, most), self._context().adjacency, cost.epsilon, cost.delta)
        return most

    # --- the search ---------------------------------------------------------------------------

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> Self:
        """Charge the budget, search, and keep the best run.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, of whatever the first steps take: text for encoders, numbers otherwise.
            Rows in parts (`skdp.engines`) are refused.
        y : array-like of shape (n_samples,), default=None
            Private targets, if the estimator or the metric needs them.
        groups : array-like of shape (n_samples,), default=None
            Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
            together, and are in the same part. A budget with a `unit` needs groups; any other
            budget refuses them.

        Returns
        -------
        self : object
        """
        with self._all_or_nothing(groups):
            self._check_parameters()
            whole = self._context().unit()
            unit = None if whole is None else whole.name
            scorer = self._scoring()
            metric, bounds = scorer.check_parameters()
            params = self._candidate_params()
            candidates, base = self._candidates(params, unit)
            most = self._check_score(scorer, base, unit)
            if needs_targets(metric) and y is None:
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None: "
                    f"metric={metric!r} compares predictions with it"
                )
            # What fits refuse is refused here, not in runs: which of them fail would tell of a row.
            for candidate in candidates:
                check_scored(metric, candidate, fitted=False)
                check_first_steps(candidate, X, type(self).__name__, self._allow_empty)
            validate_data(self, X, skip_check_array=True)
            self._check_lengths(X, y)
            y = self._check_targets(y, candidates)
            name = type(self).__name__
            rows: Any = dealt_rows(X, y)
            if unit is not None:
                relation = self._context().adjacency
                options: Any = {"unit_name": unit, "estimator": name, "adjacency": relation}
                rows = WholeUnits(X, y, groups, **options)
            query = BestOfRuns(
                UserFunction(self._fit_run(candidates, is_listed(y))),
                UserFunction(self._score_run(metric, bounds, base, most)),
                len(candidates),
                self._repeats(),
                float(self.test_size),
                separate=base.separate_delta > 0,
            )
            with self._session(rows, delta=0.0, separate_delta=float(self.delta)) as session:
                best = session.answer(query)
                certificate = session.certificate()
            if best.model is None:
                raise RuntimeError(_NO_MODEL)
            self.privacy_ = certificate
            self.best_params_ = dict(params[best.candidate])
            self.best_estimator_ = self._handed_over(best.model)
            self.best_score_ = best.score
            self.scorer_ = metric
        return self

    def _check_lengths(self, X: Any, y: Any) -> None:
        n = _length(X)
        if y is not None and n != _length(y):
            raise ValueError("X and y must have the same number of rows")
        if self._adjacency == "replace_one" and n < 2:
            raise ValueError(
                f"X: found array with {n} sample(s) while a minimum of 2 is required: one part is "
                "fitted on, another is scored"
            )

    def _check_targets(self, y: Any, candidates: list[Any]) -> Any:
        """Return y flat; refuse what fits refuse: missing labels, targets that are not finite."""
        if y is None:
            return y
        # Labels may be of any class; only regressors need numbers.
        classes = None if any(map(is_regressor, candidates)) else np.empty(0)
        check_labels(y, _length(y), estimator=type(self).__name__, classes=classes)
        for candidate in candidates if classes is None else ():
            check_targets_of(candidate, y)
        warn_of_column(y)  # runs are silent
        if isinstance(y, np.ndarray) and y.shape[1:] == (1,):
            y = y.ravel()
        return y

    @staticmethod
    def _fit_run(candidates: list[Any], listed: bool) -> Any:
        def fit(
            candidate: int, X: Any, y: Any, budget: Any, seed: int | None, groups: Any = None
        ) -> Any:
            model = clone(candidates[candidate])
            _set_all(model, "budget", budget)
            _set_all(model, "random_state", seed)
            if listed:  # as the caller had it: estimators take no labels from an array of objects
                y = list(y)
            if groups is not None:
                return fit_with_groups(model, X, y, groups)
            return model.fit(X) if y is None else model.fit(X, y)

        return fit

    def _score_run(self, metric: str, bounds: tuple[float, float], base: BaseRun, most: Any) -> Any:
        cost, name = self._noise_cost(base), f"{type(self).__name__} score"

        def score(
            model: Any, X: Any, y: Any, budget: Any, seed: int | None, groups: Any = None
        ) -> float:
            context = CallContext(
                name, cost.epsilon, cost.delta, budget, seed, groups=groups, max_rows_per_unit=most
            )
            return score_in(context, metric, bounds, model, X, y)

        return score

    def _handed_over(self, model: Any) -> Any:
        """Return the model as the user's: refits charge the user's budget, not the stand-in."""
        _set_all(model, "budget", self.budget)
        _set_all(model, "random_state", None)
        for _, part in private_parts(model):
            if hasattr(part, "privacy_"):
                part.privacy_ = self.privacy_  # what the release of this model cost
        return model

    # --- the best model -------------------------------------------------------------------------

    def _ask(self, method: str, X: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, method)(X)

    @property
    def classes_(self) -> NDArray:
        """The classes of the best model."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("classes_")
        classes: NDArray = self.best_estimator_.classes_
        return classes

    @available_if(_best_has("predict"))
    def predict(self, X: ArrayLike) -> NDArray:
        """Predict with the best model.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Rows of the caller.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        return np.asarray(self._ask("predict", X))

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probabilities of the classes from the best model.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return np.asarray(self._ask("predict_proba", X))

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: ArrayLike) -> NDArray:
        """Return the decision function of the best model.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return np.asarray(self._ask("decision_function", X))

    @available_if(_best_has("transform"))
    def transform(self, X: ArrayLike) -> Any:
        """Transform rows with the best model.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features_out)
        """
        return self._ask("transform", X)

    @available_if(_best_has("transform"))
    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> Any:
        """Search, and transform the rows with the best model; see `fit` and `transform`.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows.
        y : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features_out)
            As private as the rows are.
        """
        return self.fit(X, y, groups=groups).transform(X)

    @available_if(_best_has("score"))
    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the score of the best model on rows of the caller, without noise.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Exact, so as private as the rows are.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        tags.transformer_tags = inner.transformer_tags
        tags.input_tags.sparse = False  # rows are dealt out from dense tables alone
        return tags


def _length(table: Any) -> int:
    """Return the number of rows of what is an array or becomes one."""
    if hasattr(table, "shape"):
        return int(table.shape[0])
    return len(table) if hasattr(table, "__len__") else len(np.asarray(table))


def _set_all(estimator: Any, parameter: str, value: Any) -> None:
    """Set a parameter of this name wherever an estimator or a part of it has one."""
    names = [n for n in estimator.get_params(deep=True) if n.rpartition("__")[2] == parameter]
    estimator.set_params(**dict.fromkeys(names, value))
