"""Searches over private estimators at one cost: `DPGridSearchCV`, `DPRandomizedSearchCV`.

Nothing of the other runs is released: no table of results, no progress, no line in the ledger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    clone,
    is_classifier,
    is_clusterer,
    is_regressor,
)
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._config import noise_is_seeded
from skdp._docstrings import documenter
from skdp.base import CallContext, PrivateMixin
from skdp.base.classifiers import warn_of_column
from skdp.budget import Cost
from skdp.budget.budget import StandInBudget
from skdp.core import (
    PRIVATE_ROWS,
    Unit,
    UserFunction,
    check_allowance,
    check_unit,
    public_generator,
)
from skdp.model_selection._candidates import (
    allot,
    ask_for_groups,
    check_candidate,
    check_first_steps,
    check_targets_of,
    gaussian_epsilon,
    needs_separate_delta,
    noise_of,
)
from skdp.model_selection._pricing import private_parts
from skdp.model_selection._scorer import PrivateScorer, check_scored, needs_targets, score_in
from skdp.parameters import Integers, Reals, Table, naming, rows_in
from skdp.planning import Allowance
from skdp.queries import BaseRun, BestOfRuns, Repeats, base_level
from skdp.tabular import WholeUnits, check_labels, dealt_rows, is_listed

_MOST_CANDIDATES = 10**5  # each is checked before the charge
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


def _of_best(name: str, text: str, returned: str, *, as_array: bool = True) -> Any:
    """Return a method of a search that its best model answers for rows of the caller."""

    def method(self: Any, X: ArrayLike) -> Any:
        answer = self._from_best(name, X)
        return np.asarray(answer) if as_array else answer

    rows = "X : array-like or table of shape (n_samples, n_features)\n    Rows of the caller."
    sections = {"Parameters": rows, "Returns": returned}
    parts = (f"\n\n{title}\n{'-' * len(title)}\n{part}" for title, part in sections.items())
    method.__name__, method.__qualname__ = name, f"PrivateSearch.{name}"
    method.__doc__ = text + "".join(parts)
    return available_if(_best_has(name))(method)


class PrivateSearch(MetaEstimatorMixin, PrivateMixin, BaseEstimator, ABC):
    """A private search; subclasses say what its candidates are."""

    _parameter_table: ClassVar[Table] = {
        "n_runs": ("auto", Integers(2, 10**6)),
        "runs": ("geometric", "logarithmic"),
        "test_size": Reals(0, 1, "()"),
    }

    estimator: Any = field(init=False)
    scoring: Any = field(init=False)
    n_runs: Any = field(init=False)
    runs: str = field(init=False)
    test_size: float = field(init=False)

    @abstractmethod
    def _candidate_params(self) -> list[Mapping[str, Any]]:
        """Return the parameters of all candidates; they must not depend on rows."""

    @abstractmethod
    def _n_candidates(self) -> int:
        """Return how many candidates there are."""

    # --- costs --------------------------------------------------------------------------------

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
        n_samples : int, default=None
            Not used: the cost does not depend on it.
        n_features : int, default=None
            Columns of X. Without it, an upper bound.

        Returns
        -------
        cost : skdp.budget.Cost
            (epsilon, delta); delta is 0 where no step needs it and pure noise is less.
        """
        self._check_parameters()
        delta = self._delta_of(self._unfitted(self._candidate_params()), n_features)
        return Cost(epsilon=float(self.epsilon), delta=delta, separate_delta=delta)

    def run_cost(self) -> Cost:
        """Return the allowance of the fit in a run; the score has as much, for other rows.

        Returns
        -------
        cost : skdp.budget.Cost
            For all private steps together; they share it in proportion to their ``epsilon``. Its
            ``separate_delta`` is for categories and classes that steps learn.
        """
        self._check_parameters()
        candidates = self._unfitted(self._candidate_params())
        delta = self._delta_of(candidates)
        base = self._base(candidates, delta)
        noise, separate = self._noise_cost(base, delta), base.separate_delta
        if not separate:
            return noise
        return Cost(noise.epsilon, noise.delta + separate, mu=noise.mu, separate_delta=separate)

    def _delta_of(self, candidates: Sequence[Any], n_features: int | None = None) -> float:
        """Return the delta that a search takes: none where it is only noisier with it.

        Its charge says nothing about Gaussian noise, so the accountant does not matter.
        """
        delta, epsilon, repeats = self._allowed_delta, float(self.epsilon), self._repeats()
        if not delta or any(needs_separate_delta(candidate, delta) for candidate in candidates):
            return delta
        check_allowance(epsilon, delta)
        pure, gaussian = (base_level(epsilon, d, repeats) for d in (0.0, delta))
        assert pure.epsilon is not None
        if n_features is None:
            n_features = getattr(self, "n_features_in_", None)
        levels = Allowance(pure.epsilon), Allowance(pure.epsilon, gaussian.mu)
        with np.errstate(all="ignore"):  # levels may be next to nothing
            try:
                noise = [[e.cell_std, *noise_of(candidates, e, n_features)] for e in levels]
            except (ArithmeticError, ValueError):  # of what the fits refuse
                return delta
            return 0.0 if np.sum(np.log(noise[0])) <= np.sum(np.log(noise[1])) else delta

    def _base(self, candidates: Sequence[Any], delta: float) -> BaseRun:
        """Return the privacy loss that a run of these candidates may have."""
        epsilon = float(self.epsilon)
        separate = any(needs_separate_delta(candidate, delta) for candidate in candidates)
        check_allowance(epsilon, delta)
        base = base_level(epsilon, delta, self._repeats(), separate=separate)
        if delta and gaussian_epsilon(base.mu, delta) <= 0:
            raise ValueError(
                f"delta={delta!r} alone covers the noise of a run, which leaves it no "
                "epsilon: state a smaller delta"
            )
        return base

    @staticmethod
    def _noise_cost(base: BaseRun, delta: float) -> Cost:
        """Return the part of a run's cost that is for noise."""
        if base.mu is None:
            return Cost(float(base.epsilon or 0.0))
        return Cost(gaussian_epsilon(base.mu, delta), delta, mu=base.mu)

    # --- checks before the charge --------------------------------------------------------------

    @property
    def _unit(self) -> str | None:
        budget = self._context().budget
        return None if budget is None else budget.unit

    def _scoring(self) -> PrivateScorer:
        """Return the scorer of runs, whose epsilon is not used."""
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
        """Return the candidates, each with a budget that grants everything."""
        if not hasattr(self.estimator, "get_params") or isinstance(self.estimator, type):
            raise TypeError(f"estimator must be an estimator, got {type(self.estimator).__name__}")
        adjacency = self._context().adjacency
        # With delta the levels of Gaussian noise add up: no step may choose pure noise then.
        roomy = StandInBudget(adjacency, self._unit, accountant="gdp")
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
    ) -> tuple[list[Any], BaseRun, float]:
        """Return the checked candidates, whose steps share a run, its allowance, and the delta."""
        candidates = self._unfitted(params)
        delta = self._delta_of(candidates)
        base = self._base(candidates, delta)
        for candidate in candidates:
            check_candidate(allot(candidate, base, delta), base)
            if unit is not None:
                ask_for_groups(candidate, unit, self.max_rows_per_unit, self._context().adjacency)
        return candidates, base, delta

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        scorer = self._scoring()
        _, base, delta = self._candidates(self._candidate_params(), self._unit)
        self._check_score(scorer, base, delta, self._unit)

    def _check_score(
        self, scorer: PrivateScorer, base: BaseRun, delta: float, unit: str | None
    ) -> Any:
        """Return how many rows of a unit a score uses; refuse numbers that leave no allowance."""
        cost = self._noise_cost(base, delta)
        claimed = check_allowance(cost.epsilon, cost.delta)
        if not base.covers([Cost(cost.epsilon, cost.delta, mu=claimed)]):
            raise ValueError(f"epsilon={self.epsilon!r} is too large for a search to divide")
        max_rows = scorer.max_rows_per_unit
        max_rows = self.max_rows_per_unit if max_rows == PRIVATE_ROWS else max_rows
        if unit is not None:
            check_unit(Unit(unit, max_rows), self._context().adjacency, cost.epsilon, cost.delta)
        return max_rows

    # --- the search ---------------------------------------------------------------------------

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> Self:
        """Charge the budget, search, and keep the best run.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, as the first steps take them: text for encoders, numbers otherwise. Rows
            in parts (`skdp.engines`) are refused.
        y : array-like of shape (n_samples,), default=None
            Private targets, if the estimator or the metric needs them.
        groups : array-like of shape (n_samples,), default=None
            ... In each run, all rows of an id are in the same part.
        """
        with self._all_or_nothing(groups):
            self._check_parameters()
            protected = self._context().unit()
            unit = None if protected is None else protected.name
            scorer = self._scoring()
            metric, bounds = scorer.check_parameters()
            params = self._candidate_params()
            candidates, base, delta = self._candidates(params, unit)
            max_rows = self._check_score(scorer, base, delta, unit)
            if needs_targets(metric) and y is None:
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None: "
                    f"metric={metric!r} compares predictions with it"
                )
            # Refuse here what the fits of runs would refuse: failed runs would tell of a row.
            for candidate in candidates:
                check_scored(metric, candidate, fitted=False)
                check_first_steps(candidate, X, type(self).__name__, self._allow_empty)
            validate_data(self, X, skip_check_array=True)
            # Again, now that the number of columns is known, which decides about the noise.
            candidates, base, delta = self._candidates(params, unit)
            max_rows = self._check_score(scorer, base, delta, unit)
            self._check_lengths(X, y)
            y = self._check_targets(y, candidates)
            rows: Any = dealt_rows(X, y)
            if unit is not None:
                # The relation of units: that of rows (`_adjacency`) counts rows as private.
                relation, name = self._context().adjacency, type(self).__name__
                options: Any = {"unit_name": unit, "estimator": name, "adjacency": relation}
                rows = WholeUnits(X, y, groups, **options)
            query = BestOfRuns(
                UserFunction(self._fit_run(candidates, is_listed(y))),
                UserFunction(self._score_run(metric, bounds, base, delta, max_rows)),
                len(candidates),
                self._repeats(),
                float(self.test_size),
                separate=base.separate_delta > 0,
            )
            with self._session(rows, delta=0.0, separate_delta=delta) as session:
                best = session.answer(query)
            if best.model is None:
                raise RuntimeError(_NO_MODEL)
            self.best_index_ = best.candidate
            self.best_params_ = dict(params[best.candidate])
            self.cv_results_ = _results(params, best.candidate, best.score)
            self.best_estimator_ = self._handed_over(best.model)
            self.best_score_ = best.score
            self.scorer_ = metric
        return self

    def _check_lengths(self, X: Any, y: Any) -> None:
        n = rows_in(X)
        if y is not None and n != rows_in(y):
            raise ValueError("X and y must have the same number of rows")
        if self._adjacency == "replace_one" and n < 2:
            raise ValueError(
                f"X: found array with {n} sample(s) while a minimum of 2 is required: one part is "
                "fitted on, another is scored"
            )

    def _check_targets(self, y: Any, candidates: list[Any]) -> Any:
        """Return y flat; refuse missing labels and targets that are not finite, as fits do."""
        if y is None:
            return y
        # Labels may be of any class; only regressors need numbers.
        classes = None if any(map(is_regressor, candidates)) else np.empty(0)
        check_labels(y, rows_in(y), estimator=type(self).__name__, classes=classes)
        for candidate in candidates if classes is None else ():
            check_targets_of(candidate, y)
        warn_of_column(y)  # here, because runs are silent
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
            targets = () if y is None else (y,)
            if groups is None:
                return model.fit(X, *targets)
            with config_context(enable_metadata_routing=True):  # of this thread only
                return model.fit(X, *targets, groups=groups)

        return fit

    def _score_run(
        self, metric: str, bounds: Any, base: BaseRun, delta: float, max_rows: Any
    ) -> Any:
        cost, name = self._noise_cost(base, delta), f"{type(self).__name__} score"

        def score(
            model: Any, X: Any, y: Any, budget: Any, seed: int | None, groups: Any = None
        ) -> float:
            options = {"groups": groups, "max_rows_per_unit": max_rows}
            context = CallContext(name, cost.epsilon, cost.delta, budget, seed, **options)
            return score_in(context, metric, bounds, model, X, y)

        return score

    def _handed_over(self, model: Any) -> Any:
        """Return the model with the user's budget, which further fits will charge."""
        _set_all(model, "budget", self.budget)
        _set_all(model, "random_state", None)
        for _, part in private_parts(model):
            if hasattr(part, "privacy_"):
                part.privacy_ = self.privacy_  # what the release of this model cost
        return model

    # --- the best model -------------------------------------------------------------------------

    def _from_best(self, method: str, *rows: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, method)(*rows)

    @property
    def classes_(self) -> NDArray:
        """The classes of the best model."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("classes_")
        classes: NDArray = self.best_estimator_.classes_
        return classes

    predict = _of_best(
        "predict", "Predict with the best model.", "y : ndarray of shape (n_samples,)"
    )
    predict_proba = _of_best(
        "predict_proba",
        "Return the probabilities of the classes from the best model.",
        "probabilities : ndarray of shape (n_samples, n_classes)",
    )
    predict_log_proba = _of_best(
        "predict_log_proba",
        "Return the logarithms of `predict_proba`.",
        "log_probabilities : ndarray of shape (n_samples, n_classes)",
    )
    score_samples = _of_best(
        "score_samples",
        "Return the log-likelihood of each row under the best model.",
        "scores : ndarray of shape (n_samples,)",
    )
    decision_function = _of_best(
        "decision_function",
        "Return the decision function of the best model.",
        "values : ndarray of shape (n_samples,) or (n_samples, n_classes)",
    )
    transform = _of_best(
        "transform",
        "Transform rows with the best model.",
        "X_new : ndarray of shape (n_samples, n_features_out)",
        as_array=False,
    )
    inverse_transform = _of_best(
        "inverse_transform",
        "Undo `transform` with the best model.",
        "X_original : ndarray of shape (n_samples, n_features)",
        as_array=False,
    )

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
        y : array-like of shape (n_samples,), default=None
        """
        return float(self._from_best("score", X, y))

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        tags.transformer_tags = inner.transformer_tags
        tags.target_tags.multi_output = False  # private scorers take one target
        tags.input_tags.sparse = False  # only dense tables can be partitioned at random
        return tags


def _results(params: list[Mapping[str, Any]], best: int, score: float) -> dict[str, Any]:
    """Return the candidates as scikit-learn lists them, with the score of the best alone."""
    names = dict.fromkeys(name for candidate in params for name in candidate)
    results: dict[str, Any] = {}
    for name in names:
        values = np.empty(len(params), dtype=object)
        for index, candidate in enumerate(params):
            values[index] = candidate.get(name)
        mask = [name not in candidate for candidate in params]
        results[f"param_{name}"] = np.ma.MaskedArray(values, mask=mask)
    results["params"] = [dict(candidate) for candidate in params]
    for name, value in (("mean_test_score", score), ("rank_test_score", 1.0)):
        results[name] = np.full(len(params), np.nan)
        results[name][best] = value
    return results


def _set_all(estimator: Any, parameter: str, value: Any) -> None:
    """Set a parameter of this name wherever an estimator or a part of it has one."""
    names = [n for n in estimator.get_params(deep=True) if n.rpartition("__")[2] == parameter]
    estimator.set_params(**dict.fromkeys(names, value))


# --- the two searches ---------------------------------------------------------------------------


def _counted(candidates: int) -> int:
    """Return a number of candidates; refuse none and too many."""
    if not 1 <= candidates <= _MOST_CANDIDATES:
        raise ValueError(f"from 1 to {_MOST_CANDIDATES} candidates can be tried, got {candidates}")
    return candidates


_documented = documenter(
    {
        "search": """
    scoring : {"accuracy", "neg_brier_score"} or PrivateScorer, default=None
        The score of a run: a mean of bounded scores of rows, see `private_scorer` (its epsilon and
        budget are not used). None: accuracy, for classifiers. Where one class is rare, accuracy
        may choose a model that never predicts it; "neg_brier_score" needs probabilities.
    n_runs : "auto" or int, default="auto"
        Expected number of runs, at least 2; public. ``"auto"``: two for each candidate, but from 10
        to 100. More runs cost nothing with pure noise, and little otherwise.
    runs : {"geometric", "logarithmic"}, default="geometric"
        Distribution of the number of runs. ``"logarithmic"`` costs as much as two pure runs instead
        of three, but often makes very few runs.
    test_size : float, default=0.25
        Part of the rows on which a run is scored. Each row (or unit) is in it with this
        probability.
    epsilon : float, default=1.0
        ... Here a fit is the whole search.
    delta : float or None, default=None
        ... Here a fit is the whole search.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most, in each fit and each score,
        unless a step or the scorer states its own number. ``"private"``: each of them chooses the
        number, for 10% of its allowance.
    random_state : int, RandomState or None, default=None
        ... The random draws of a search are secret; they are seeded only there, too.
        """,
        "best": """
    best_estimator_ : estimator
        The model of the best run, fitted on a part of the rows. There is no refit.
    best_params_ : dict
        Parameters of the best run.
    best_index_ : int
        Its place in ``cv_results_["params"]``.
    cv_results_ : dict of ndarrays
        As scikit-learn's, one entry a candidate: ``params``, ``param_...``, and ``mean_test_score``
        and ``rank_test_score``, which are NaN but for the best: no other run is released.
    best_score_ : float
        The noisy score of the best run. It is the highest of many, so it is usually too high. For
        an estimate, score `best_estimator_` with a `private_scorer` on held-out rows.
    scorer_ : str
        The metric.
    classes_ : ndarray
        Only for a classifier: its classes.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
    privacy_ : skdp.core.PrivacyCertificate
        The one charge.
        """,
        "search_raises": """
    TypeError, ValueError
        In `fit`, before anything is charged: if any candidate has a parameter out of range, if a
        step is not private, or if X has a cell that a step refuses (text in a column of numbers,
        NaN, infinity); with `groups`, if their unit is not the budget's, or if a step takes no
        groups.
    BudgetExceededError, SealedBudgetError, LedgerError
    RuntimeError
        In `fit`, after the charge: if every run failed.
        """,
    }
)


@_documented
class DPGridSearchCV(PrivateSearch):
    """Search a grid of parameters of a private estimator, at one cost for a grid of any size.

    The private counterpart of scikit-learn's ``GridSearchCV``, where the costs of all fits add up.
    This search makes a secret number of runs instead. Each run draws a candidate at random, fits it
    on a random part of the rows, and scores it with noise on the other rows. Only the best run is
    released. The whole search costs as much as three runs (less with Gaussian noise).

    Parameters
    ----------
    estimator : estimator
        A private estimator of skdp, or a pipeline whose steps are private or learn nothing from
        rows. Private steps share the allowance of a run in proportion to their ``epsilon``; their
        ``delta`` and ``budget`` are not used. Categories and classes that they learn have half of
        `delta` of the search.
    param_grid : dict or list of dict
        As for ``GridSearchCV``; public. If it contains the ``epsilon`` of steps, the search tries
        different ways of sharing the allowance.
    {search}

    Attributes
    ----------
    {best}

    Raises
    ------
    {search_raises}

    See Also
    --------
    DPRandomizedSearchCV : With candidates drawn from distributions.
    search_cost : The cost of scikit-learn's own searches.

    Notes
    -----
    **Privacy.** *Released*: which candidate was best, its fitted model and its noisy score.
    *Sensitivity*: the fit and the score of a run use disjoint rows, so a row affects only one of
    them; the privacy loss of each is at most `run_cost`. With `groups`, all rows of a unit are in
    one of the two, and each protects the unit. *Mechanism*: the best of K independent runs; K is
    secret, with a truncated geometric (or logarithmic) distribution. With pure runs of epsilon_b
    each, the search costs 3 epsilon_b (or 2 epsilon_b). With Gaussian runs, the bound by privacy
    profiles holds. *Charged*: at most (epsilon, delta), once, before any row is read, to
    ``budget``. Runs have no line of their own in the ledger. Proof:
    ``skdp/queries/best_of_runs.md``.

    **Not protected: time.** The duration of a search reveals K, and the cost does not cover that.
    Do not publish how long it took. **Nor what your own code keeps.** A function in a step that
    counts or logs its calls knows K, too.

    ``cv`` and ``refit`` are missing: with folds, each row would be in several fits, and a refit is
    a further fit. To refit, fit ``clone(search.best_estimator_)`` with a budget of its own.

    References
    ----------
    Papernot & Steinke 2022, "Hyperparameter tuning with Renyi differential privacy", Corollary 3.

    Koskela, Redberg & Wang 2024, "Privacy profiles for private selection", section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPGridSearchCV, PrivacyBudget
    >>> from skdp.neighbors import DPNearestCentroid
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2)) + 2.0 * (np.arange(400) % 2)[:, None]
    >>> budget = PrivacyBudget(3.0)
    >>> search = DPGridSearchCV(
    ...     DPNearestCentroid(classes=[0, 1]),
    ...     {"bounds": [(-3, 5), (-30, 50)]},
    ...     n_runs=4,
    ...     epsilon=3.0,
    ...     budget=budget,
    ... )
    >>> search.run_cost().epsilon
    1.0
    >>> search = search.fit(X, np.arange(400) % 2)
    >>> len(budget.charges), sorted(search.best_params_)
    (1, ['bounds'])
    """

    estimator: Any = field(kw_only=False)
    param_grid: Any = field(kw_only=False)
    scoring: Any = None
    n_runs: Any = "auto"
    runs: str = "geometric"
    test_size: float = 0.25

    def _candidate_params(self) -> list[Mapping[str, Any]]:
        with naming("param_grid"):
            self._n_candidates()
            return list(ParameterGrid(self.param_grid))

    def _n_candidates(self) -> int:
        with naming("param_grid"):
            return _counted(len(ParameterGrid(self.param_grid)))


@_documented
class DPRandomizedSearchCV(PrivateSearch):
    """Search candidates drawn from distributions, at one cost for any number of them.

    Works like `DPGridSearchCV`; see there what a run is and what it costs. The list of candidates
    is drawn before any row is read, with the operating system's randomness.

    Parameters
    ----------
    estimator : estimator
        As in `DPGridSearchCV`.
    param_distributions : dict or list of dict
        As for ``RandomizedSearchCV``: lists, or distributions with ``rvs``; public.
    n_iter : int, default=20
        Number of candidates to draw.
    {search}

    Attributes
    ----------
    {best}

    Raises
    ------
    {search_raises}

    See Also
    --------
    DPGridSearchCV : With all candidates of a grid.

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism* and *charged*: as for `DPGridSearchCV`;
    candidates are drawn without reading rows. Time is not protected.

    References
    ----------
    As for `DPGridSearchCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import loguniform
    >>> from skdp import DPRandomizedSearchCV, DPRidge
    >>> from skdp.model_selection import private_scorer
    >>> search = DPRandomizedSearchCV(
    ...     DPRidge(bounds=(-1, 1), target_bounds=(-1, 1)),
    ...     {"alpha": loguniform(1e-2, 1e2)},
    ...     scoring=private_scorer("neg_mean_absolute_error", epsilon=1.0, bounds=2.0),
    ...     n_iter=5,
    ...     n_runs=4,
    ... )
    >>> search.privacy_cost().epsilon
    1.0
    """

    estimator: Any = field(kw_only=False)
    param_distributions: Any = field(kw_only=False)
    n_iter: int = 20
    scoring: Any = None
    n_runs: Any = "auto"
    runs: str = "geometric"
    test_size: float = 0.25

    _parameter_table: ClassVar[Table] = {"n_iter": Integers(1, _MOST_CANDIDATES)}

    def _candidate_params(self) -> list[Mapping[str, Any]]:
        seed = None
        if noise_is_seeded() and self.random_state is not None:
            with naming("random_state"):
                seed = repr(self.random_state).encode()
        drawn = int(public_generator(seed).integers(2**32))
        with naming("param_distributions"):
            sampler = ParameterSampler(self.param_distributions, self.n_iter, random_state=drawn)
            params = list(sampler)
            _counted(len(params))
            return params

    def _n_candidates(self) -> int:
        return int(self.n_iter)
