"""Private scores for searches: `private_scorer`.

A call releases one number under epsilon-DP: the mean over rows of a per-row score, clipped to
public bounds. The sensitivity of such sums is known for every estimator: what an estimator does
with one row cannot move the clipped value of another. Ratios (r2) and scores that compare rows with
each other (silhouette, ROC AUC) are refused; `skdp.metrics` releases r2 and ROC AUC.
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.metadata_routing import MetadataRequest

from skdp._docstrings import shared_texts
from skdp.base import AmbientBudgetMixin, CallContext
from skdp.base.batch_invariant import exact_rows, row_sums
from skdp.base.context import public_key
from skdp.budget import Cost, PrivacyBudget
from skdp.core import UserFunction
from skdp.queries import score_mean
from skdp.tabular import is_parts, keeps_types, opaque_rows
from skdp.user_code import or_raise

Floats = NDArray[np.float64]


def _labels(y: Any) -> NDArray:
    """Return labels as an array whose type does not depend on which of them are missing."""
    if isinstance(getattr(y, "dtype", None), np.dtype) or not hasattr(y, "to_list"):
        return np.asarray(y)
    labels = y.to_list()
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _accuracy(estimator: Any, X: Any, y: Any) -> Floats:
    """Return 1 for every row whose prediction equals its label (all of its labels)."""
    y = _labels(y)
    equal = np.asarray(np.asarray(estimator.predict(X)) == y)
    return np.asarray(equal.reshape(len(y), -1).all(axis=1), dtype=np.float64)


def _errors(estimator: Any, X: Any, y: Any) -> Floats:
    """Return prediction minus target, shape (n_samples, n_outputs)."""
    y = np.asarray(y, dtype=np.float64)
    predicted = np.asarray(estimator.predict(X), dtype=np.float64)
    return (predicted.reshape(y.shape) - y).reshape(len(y), -1)


def _neg_error(estimator: Any, X: Any, y: Any, *, power: int) -> Floats:
    errors = np.abs(_errors(estimator, X, y)) ** power
    return -row_sums(errors) / errors.shape[1]


def _neg_brier_score(estimator: Any, X: Any, y: Any) -> Floats:
    """Return minus half the squared distance of the probabilities from those of the label."""
    chances = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    hit = np.asarray(_labels(y)[:, None] == np.asarray(estimator.classes_), dtype=np.float64)
    return -row_sums((chances - hit) ** 2) / 2


def _neg_inertia(estimator: Any, X: Any, y: Any) -> Floats:
    """Return minus the squared distance to the nearest centre, after a pipeline's transformers."""
    *transformers, last = _steps(estimator)
    for step in transformers:
        X = step.transform(X)
    rows = np.asarray(X, dtype=np.float64)
    nearest = np.full(len(rows), np.inf)
    for center in np.asarray(last.cluster_centers_, dtype=np.float64):
        nearest = np.minimum(nearest, row_sums((rows - center) ** 2))
    return -nearest


# name: (per-row score, whether it needs y, attribute that the estimator needs, fixed bounds)
_METRICS: dict[str, tuple[Callable[..., Floats], bool, str, tuple[float, float] | None]] = {
    "accuracy": (_accuracy, True, "predict", (0.0, 1.0)),
    "neg_brier_score": (_neg_brier_score, True, "predict_proba", (-1.0, 0.0)),
    "neg_inertia": (_neg_inertia, False, "cluster_centers_", None),
    "neg_mean_absolute_error": (partial(_neg_error, power=1), True, "predict", None),
    "neg_mean_squared_error": (partial(_neg_error, power=2), True, "predict", None),
}

SCORES_WITH_BOUNDS = tuple(name for name, entry in _METRICS.items() if entry[3] is not None)


def _check_bounds(metric: str, bounds: Any) -> tuple[float, float]:
    """Return the public bounds (low, high) of a row's score."""
    fixed = _METRICS[metric][3]
    if fixed is not None:
        if bounds is not None:
            raise ValueError(f"bounds must be None for metric={metric!r}, whose bounds are {fixed}")
        return fixed
    text = (
        f"bounds must be given for metric={metric!r}: a number b > 0 for scores in [-b, 0], or "
        "(low, high) with low < high, finite and from public knowledge"
    )
    if bounds is None:
        raise ValueError(text)
    pair = (-bounds, 0.0) if isinstance(bounds, numbers.Real) else bounds
    try:
        low, high = (float(bound) for bound in pair)
    except (TypeError, ValueError):
        low = high = math.nan
    if isinstance(bounds, bool) or not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(text)
    return low, high


def _steps(estimator: Any) -> list[Any]:
    """Return the fitted steps that rows pass through."""
    if not isinstance(estimator, Pipeline):
        return [estimator]
    return [s for _, s in estimator.steps if s is not None and s != "passthrough"]


def _n_rows(table: Any, name: str = "X") -> int:
    """Return the number of rows of a table, or refuse it."""

    def counted() -> int:
        shape = getattr(table, "shape", None)
        if isinstance(table, type) or not hasattr(table, "__getitem__"):
            raise TypeError
        return len(table) if shape is None else int(shape[0])

    text = f"{name} must be a table, an array or a list, got {type(table).__name__}"
    n: int = or_raise(counted, lambda: TypeError(text))
    return n


# Transformers that give a row the same bits in every batch, within `exact_rows`: of elementwise
# arithmetic and look-ups, and of sums and interpolations by `skdp.base.batch_invariant`.
_ROW_BY_ROW = {
    "DPKBinsDiscretizer": "skdp.preprocessing._discretizer",
    "DPMedian": "skdp.quantile",
    "DPMinMaxScaler": "skdp.preprocessing._scalers",
    "DPOneHotEncoder": "skdp.preprocessing._encoders",
    "DPOrdinalEncoder": "skdp.preprocessing._encoders",
    "DPPCA": "skdp.decomposition",
    "DPQuantile": "skdp.quantile",
    "DPQuantileTransformer": "skdp.preprocessing._scalers",
    "DPRobustScaler": "skdp.preprocessing._scalers",
    "DPSelectKBest": "skdp.feature_selection",
    "DPSimpleImputer": "skdp.impute",
    "DPStandardScaler": "skdp.preprocessing._scalers",
    "DPTargetEncoder": "skdp.preprocessing._target_encoder",
}


def _is_row_by_row(step: Any, stable: bool) -> bool:
    """Say whether a fitted step gives a row the same bits whatever rows are beside it.

    `stable` says so of the table: scikit-learn stacks the columns that it passes on, and converts
    whole numbers if one is missing.
    """
    if step is None or isinstance(step, str):
        return stable or step == "drop"
    kind = type(step)  # a subclass may do anything
    if kind is Pipeline:
        return all(_is_row_by_row(part, stable) for _, part in step.steps)
    if kind is FeatureUnion:
        return all(_is_row_by_row(part, stable) for _, part in step.transformer_list)
    if kind is ColumnTransformer:
        return all(_is_row_by_row(part, stable) for _, part, _ in step.transformers_)
    if kind is FunctionTransformer:
        return stable and step.func is None  # "passthrough", as ColumnTransformer fits it
    known = _ROW_BY_ROW.get(kind.__name__) == kind.__module__
    # Sparse rows cannot be scored one by one.
    own = step.get_params(deep=False) if known else {}
    return known and not own.get("sparse_output") and own.get("encode") != "onehot"


# Estimators whose predictions within `exact_rows` have the same bits in every batch.
_EXACT = {
    "DPCategoricalNB": "skdp.naive_bayes",
    "DPExplainableBoostingClassifier": "skdp.ensemble._boosting",
    "DPExplainableBoostingRegressor": "skdp.ensemble._boosting",
    "DPGaussianNB": "skdp.naive_bayes",
    "DPLinearDiscriminantAnalysis": "skdp.discriminant_analysis",
    "DPLinearRegression": "skdp.linear_model._ridge",
    "DPLogisticRegression": "skdp.linear_model._logistic",
    "DPNearestCentroid": "skdp.neighbors._centroid",
    "DPRidge": "skdp.linear_model._ridge",
}


def _is_exact(metric: str, estimator: Any, X: Any) -> bool:
    """Say whether a row's score has the same bits in every block, so that blocks may be scored.

    True where the steps before the last, and the last, are among those above. For
    "neg_inertia" it only needs centres, whose distances are summed from left to right.
    """
    *head, last = _steps(estimator)
    kind = type(last)
    known = _EXACT.get(kind.__name__) == kind.__module__
    if metric == "neg_inertia":
        known = kind.__module__.partition(".")[0] == "skdp"
    known = known and (type(estimator) is Pipeline or last is estimator)
    stable = not is_parts(X) and keeps_types(X)
    return known and all(_is_row_by_row(step, stable) for step in head)


def _without_budget(estimator: Any) -> Any:
    """Return a copy of a fitted estimator, without budgets, that may go to other processes."""
    copied = copy.deepcopy(estimator)
    waiting, seen = [copied], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, BaseEstimator) and id(part) not in seen:
            seen.add(id(part))
            if getattr(part, "budget", None) is not None:
                part.budget = None
            waiting += vars(part).values()
    return copied


def check_scored(metric: str, estimator: Any, *, fitted: bool = True) -> None:
    """Refuse an estimator that lacks what a metric needs; `fitted` also looks for attributes."""
    attribute = _METRICS[metric][2]
    last = _steps(estimator)[-1]
    if not (hasattr(last, attribute) or (attribute.endswith("_") and not fitted)):
        raise TypeError(
            f"metric={metric!r} needs a fitted estimator with {attribute}, which "
            f"{type(last).__name__} has not"
        )


def needs_targets(metric: str) -> bool:
    """Say whether a metric compares predictions with y."""
    return _METRICS[metric][1]


def score_in(
    context: CallContext, metric: str, bounds: tuple[float, float], estimator: Any, X: Any, y: Any
) -> float:
    """Charge a call and release the mean score of rows."""
    per_row, needs_y, _, _ = _METRICS[metric]
    low, high = bounds
    if needs_y and y is None:
        raise TypeError(f"y must be given for metric={metric!r}")
    check_scored(metric, estimator)
    in_parts = is_parts(X) or (needs_y and is_parts(y))
    if not in_parts and needs_y and _n_rows(X) != _n_rows(y, "y"):
        raise ValueError("X and y must have the same number of rows")
    context.unit()  # refuses missing groups before the charge
    if not (in_parts or context.allows_empty) and _n_rows(X) == 0:
        raise ValueError("X has 0 sample(s) while a minimum of 1 is required.")
    rows = opaque_rows(X, y if needs_y else None, allow_empty=context.allows_empty)
    scored = _without_budget(estimator) if in_parts else estimator

    def score(X_part: Any, y_part: Any) -> Floats:
        with exact_rows():
            return per_row(scored, X_part, y_part)

    def key() -> str:
        # Seeded scores that differ in nothing but the bounds must not share noise either.
        return f"{(low, high)!r} {public_key(estimator, fitted=True)}"

    with context.open(rows, key) as session:
        mean = score_mean(UserFunction(score), low, high, _is_exact(metric, scored, X))
        release = session.answer(mean, name=metric)
    return float(release.value)


@shared_texts
class PrivateScorer(AmbientBudgetMixin, BaseEstimator):
    """A scorer that releases a noisy mean of clipped per-row scores; see `private_scorer`.

    It can be cloned, copied and pickled. It charges the same ledger from every process.

    Parameters
    ----------
    metric : str
        Name of the score of a row.
    epsilon : float
        The cost of one call.
    bounds : float, (float, float) or None
        Of a row's score.
    max_rows_per_unit : int or "private"
    budget : PrivacyBudget or None
    random_state : int, RandomState or None

    Examples
    --------
    >>> from skdp.model_selection import private_scorer
    >>> private_scorer("accuracy", epsilon=0.1).privacy_cost().epsilon
    0.1
    """

    def __init__(
        self,
        metric: str,
        *,
        epsilon: float = 1.0,
        bounds: Any = None,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.epsilon = epsilon
        self.bounds = bounds
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the cost of one call.

        Parameters
        ----------
        n_samples, n_features : int, default=None
            Not used: the cost does not depend on them.
        """
        return Cost(epsilon=self.epsilon, delta=0.0)

    def _context(self, groups: Any = None) -> CallContext:
        return CallContext(
            f"private_scorer({self.metric})",
            self.epsilon,
            0.0,
            self.budget,
            self.random_state,
            groups=groups,
            max_rows_per_unit=self.max_rows_per_unit,
        )

    def check_parameters(self) -> tuple[str, tuple[float, float]]:
        """Check the parameters, and raise if one is wrong; nothing is charged.

        Returns
        -------
        metric : str
        bounds : (float, float)
            Of a row's score.
        """
        if not isinstance(self.metric, str) or self.metric not in _METRICS:
            raise ValueError(
                f"metric must be one of {sorted(_METRICS)}, means of bounded values of single "
                "rows; skdp.metrics has R2, ROC AUC and others of held-out rows, with intervals"
            )
        self._context()
        return self.metric, _check_bounds(self.metric, self.bounds)

    def set_score_request(self, *, groups: bool | str | None = None) -> PrivateScorer:
        """Ask scikit-learn's metadata routing for `groups`, in place.

        Parameters
        ----------
        groups : bool, str or None, default=None
            True: pass groups on. A str: pass on the groups with this name. None or False: no
            groups.
        """
        self._metadata_request = MetadataRequest(owner=self)
        self._metadata_request.score.add_request(param="groups", alias=groups)
        return self

    def __call__(self, estimator: Any, X: Any, y: Any = None, *, groups: Any = None) -> float:
        """Release the private score of a fitted estimator; greater is better, within the bounds.

        The estimator must be private itself: its memory of training rows is not protected here. For
        rows in parts (`skdp.engines`), `y` is the name of a column or another table in parts. A
        budget with a `unit` needs `groups`, the id of the unit of each row; any other budget
        refuses them. Raises BudgetExceededError, before any charge, if the budget does not cover
        epsilon, and TypeError if the estimator lacks what the metric needs or `y` is missing.
        """
        metric, bounds = self.check_parameters()
        return score_in(self._context(groups), metric, bounds, estimator, X, y)


@shared_texts
def private_scorer(
    metric: str,
    *,
    epsilon: float,
    bounds: Any = None,
    max_rows_per_unit: Any = "private",
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> PrivateScorer:
    """Make a scorer for ``scoring=``; each of its calls is epsilon-DP, and charged.

    Parameters
    ----------
    metric : str
        The score of a row, whose mean over rows is released: "accuracy", "neg_brier_score",
        "neg_inertia", "neg_mean_absolute_error" or "neg_mean_squared_error". "neg_brier_score" is
        minus half the sum of (probability - 1 for the label, 0 for other classes) squared, from -1
        to 0; unlike accuracy, it separates models where one class is rare. "neg_inertia"
        is minus the squared distance to the nearest centre, *per row* (`KMeans.score` returns the
        sum). In a pipeline, the distance is measured after its transformers, so do not compare
        candidates that scale differently.
    epsilon : float
        The cost of one call. A search calls it once for each candidate and fold (twice with
        ``return_train_score=True``); `search_cost` counts the calls.
    bounds : float or (float, float), default=None
        Range (low, high) to which the score of a row is clipped, from public knowledge; a number b
        means (-b, 0). For "neg_inertia" on rows in the unit box of d features, b = d is never
        exceeded. A tighter range means less noise and more clipping. None for "accuracy"
        and "neg_brier_score".

    Returns
    -------
    scorer : PrivateScorer
        ``scorer(estimator, X, y=None) -> float``.

    Raises
    ------
    ValueError, TypeError
        If a parameter is wrong; raised immediately.

    Notes
    -----
    **Privacy.** *Released*: the mean of the clipped scores of the rows it is called on.
    *Sensitivity*, with w = high - low: under "replace_one" the sum of scores moves by at most w and
    the number of rows n is public, so the mean moves by at most w/n. Under "add_or_remove_one" the
    sum of scores relative to the middle of the bounds moves by at most w/2 and the number of rows
    by one; both are released together. *Mechanism*: K-norm noise on integers (in one dimension
    Laplace noise), pure epsilon-DP. *Charged*: `epsilon`, to `budget`, by every call, before the
    noise is drawn. If scoring a row fails, its score is ``low``. The estimator itself must be
    private, and must score each row from that row alone: one that remembers rows (in a cache, or in
    a state that `predict` changes) is not covered.

    **Time.** Models of skdp, alone or after its transformers, score blocks of rows. Other models,
    and all after a transformer that is not from skdp or has sparse rows, score one row at a time:
    0.2 to 4 ms for each. No other way is safe for code whose sums may depend on the other rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skdp import DPKMeans, PrivacyBudget
    >>> from skdp.model_selection import PerRecordKFold, private_scorer, search_cost
    >>> X = np.repeat([[0.2, 0.2], [0.8, 0.8]], 300, axis=0)
    >>> X += np.linspace(0.0, 0.1, 600)[:, None]
    >>> budget = PrivacyBudget(epsilon=8.0, adjacency="add_or_remove_one")
    >>> search = GridSearchCV(
    ...     DPKMeans(epsilon=1.0, bounds=(0.0, 1.0), budget=budget),
    ...     {"n_clusters": [1, 2]},
    ...     scoring=private_scorer("neg_inertia", epsilon=0.5, bounds=2.0, budget=budget),
    ...     cv=PerRecordKFold(2),
    ... )
    >>> with budget.reserve(search_cost(search, len(X))):
    ...     search = search.fit(X)
    >>> budget.spent.epsilon  # 4 fits, 4 scores, 1 refit
    7.0
    """
    scorer = PrivateScorer(
        metric,
        epsilon=epsilon,
        bounds=bounds,
        max_rows_per_unit=max_rows_per_unit,
        budget=budget,
        random_state=random_state,
    )
    scorer.check_parameters()
    return scorer
