"""From scikit-learn's own steps to private ones: `make_private`.

Parameters are read, no rows, and an unfitted estimator comes back; nothing is charged.
`_COUNTERPARTS` is the one table of what replaces what.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ParamSpec

import numpy as np
from sklearn import (
    cluster,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    preprocessing,
)
from sklearn import model_selection as sklearn_search
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

import skdp.impute
from skdp import preprocessing as ours
from skdp.base import CallContext, check_without_rows
from skdp.base.leaks import has_price, is_search, learns_nothing
from skdp.budget import PrivacyBudget
from skdp.budget.budget import not_a_budget
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.ensemble import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
from skdp.feature_selection import DPSelectKBest
from skdp.linear_model import DPLinearRegression, DPLogisticRegression, DPRidge
from skdp.loss.conversions import check_positive, exact, round_down
from skdp.model_selection import DPGridSearchCV, DPRandomizedSearchCV
from skdp.model_selection._choose_epsilon import choose_epsilon
from skdp.model_selection._pricing import private_parts
from skdp.model_selection._scorer import SCORES_WITH_BOUNDS
from skdp.naive_bayes import DPCategoricalNB, DPGaussianNB
from skdp.neighbors import DPKernelDensity, DPNearestCentroid
from skdp.parameters import check_kind

__all__ = ["make_private"]

_Given = ParamSpec("_Given")

# Parameters that do not change the result: dropped without a word.
_HOW = {"copy", "copy_X", "copy_x", "n_jobs", "verbose", "pre_dispatch"}
_LEAST = Fraction(1, 10)  # of an equal share: the least for a step


@dataclass(frozen=True)
class _Counterpart:
    """The private class of an estimator, where parameters of the same name mean the same.

    `always` are passed on even if they are scikit-learn's defaults. `dropped` only say how
    scikit-learn computes. `enough` is an expected error below which later steps gain little.
    """

    kind: type
    always: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    enough: float | None = None


# How scikit-learn computes what private estimators compute in another way.
_SOLVER = ("solver", "tol", "max_iter")
_OF_LOGISTIC = (*_SOLVER, "dual", "intercept_scaling", "penalty", "warm_start")
_OF_KMEANS = ("algorithm", "init", "max_iter", "n_init", "tol")
_OF_BATCHES = (
    *_OF_KMEANS, "batch_size", "compute_labels", "init_size", "max_no_improvement",
    "reassignment_ratio",
)  # fmt: skip
_OF_PCA = ("svd_solver", "tol", "iterated_power", "n_oversamples", "power_iteration_normalizer")
_OF_DENSITY = ("algorithm", "leaf_size", "breadth_first", "atol", "rtol")
_OF_FOREST = (
    "bootstrap", "ccp_alpha", "criterion", "max_depth", "max_features", "max_leaf_nodes",
    "max_samples", "min_impurity_decrease", "min_samples_leaf", "min_samples_split",
    "min_weight_fraction_leaf", "n_estimators", "oob_score", "warm_start",
)  # fmt: skip
_OF_BOOSTING = (
    "early_stopping", "l2_regularization", "learning_rate", "max_depth", "max_features",
    "max_iter", "max_leaf_nodes", "min_samples_leaf", "n_iter_no_change", "scoring", "tol",
    "validation_fraction", "warm_start",
)  # fmt: skip
# With these values; with others they change what is meant.
_COMPUTES_ONLY: dict[str, Callable[[Any], bool]] = {
    "init": lambda value: isinstance(value, str),
    "penalty": lambda value: value == "l2",
}

_COUNTERPARTS: dict[type, _Counterpart] = {
    preprocessing.StandardScaler: _Counterpart(ours.DPStandardScaler, enough=0.002),
    preprocessing.MinMaxScaler: _Counterpart(ours.DPMinMaxScaler, enough=0.01),
    preprocessing.RobustScaler: _Counterpart(ours.DPRobustScaler),
    preprocessing.QuantileTransformer: _Counterpart(
        ours.DPQuantileTransformer, dropped=("subsample",)
    ),
    preprocessing.OneHotEncoder: _Counterpart(ours.DPOneHotEncoder, enough=0.005),
    preprocessing.OrdinalEncoder: _Counterpart(ours.DPOrdinalEncoder, enough=0.005),
    preprocessing.TargetEncoder: _Counterpart(
        ours.DPTargetEncoder, dropped=("cv", "shuffle", "random_state")
    ),
    preprocessing.KBinsDiscretizer: _Counterpart(
        ours.DPKBinsDiscretizer, dropped=("quantile_method", "subsample")
    ),
    impute.SimpleImputer: _Counterpart(skdp.impute.DPSimpleImputer),
    feature_selection.SelectKBest: _Counterpart(DPSelectKBest, ("score_func",)),
    decomposition.PCA: _Counterpart(DPPCA, dropped=_OF_PCA, enough=0.001),
    cluster.KMeans: _Counterpart(DPKMeans, ("n_clusters",), _OF_KMEANS),
    cluster.MiniBatchKMeans: _Counterpart(DPKMeans, ("n_clusters",), _OF_BATCHES),
    linear_model.LogisticRegression: _Counterpart(DPLogisticRegression, dropped=_OF_LOGISTIC),
    linear_model.LinearRegression: _Counterpart(DPLinearRegression, dropped=("tol",)),
    linear_model.Ridge: _Counterpart(DPRidge, ("alpha",), _SOLVER),
    naive_bayes.GaussianNB: _Counterpart(DPGaussianNB),
    naive_bayes.CategoricalNB: _Counterpart(DPCategoricalNB, ("alpha",)),
    neighbors.NearestCentroid: _Counterpart(DPNearestCentroid),
    neighbors.KernelDensity: _Counterpart(DPKernelDensity, ("bandwidth",), _OF_DENSITY),
    discriminant_analysis.LinearDiscriminantAnalysis: _Counterpart(
        DPLinearDiscriminantAnalysis, dropped=("solver", "tol", "store_covariance")
    ),
}
for _trees, _dropped in (
    ("RandomForest", _OF_FOREST), ("ExtraTrees", _OF_FOREST), ("HistGradientBoosting", _OF_BOOSTING)
):  # fmt: skip
    for _task, _kind in (
        ("Classifier", DPExplainableBoostingClassifier),
        ("Regressor", DPExplainableBoostingRegressor),
    ):
        _COUNTERPARTS[getattr(ensemble, _trees + _task)] = _Counterpart(_kind, dropped=_dropped)
_ENOUGH = {rule.kind: rule.enough for rule in _COUNTERPARTS.values()}

_INSTEAD = {
    "MaxAbsScaler": "take MinMaxScaler, which becomes DPMinMaxScaler",
    "PowerTransformer": "take QuantileTransformer, which becomes DPQuantileTransformer",
    "RidgeClassifier": "take LogisticRegression, which becomes DPLogisticRegression",
    "LogisticRegressionCV": "take LogisticRegression, which becomes DPLogisticRegression",
    "RidgeCV": "take Ridge, or put it into GridSearchCV",
    "TruncatedSVD": "take PCA, which becomes DPPCA, or DPPCA(center=0)",
    "GradientBoostingClassifier": "take HistGradientBoostingClassifier, which has one",
    "GradientBoostingRegressor": "take HistGradientBoostingRegressor, which has one",
    "HalvingGridSearchCV": "take GridSearchCV, which becomes DPGridSearchCV",
    "HalvingRandomSearchCV": "take RandomizedSearchCV, which becomes DPRandomizedSearchCV",
}


@dataclass
class _Facts:
    """What the caller has stated, and which of it some step uses."""

    classes: Any
    target_bounds: Any
    categories: Any
    used: set[str] = field(default_factory=set)
    named: set[Any] = field(default_factory=set)  # columns whose bounds some step has
    dropped: list[str] = field(default_factory=list)  # parameters, each with its step


def _where(path: str, estimator: Any) -> str:
    name = type(estimator).__name__
    return f"step {path} ({name})" if path else name


def _join(path: str, name: str) -> str:
    return f"{path}__{name}" if path else name


def _same(a: Any, b: Any) -> bool:
    """Say whether two values of a parameter are the same, NaN with NaN."""
    if a is b:
        return True
    if isinstance(a, numbers.Number) and isinstance(b, numbers.Number):
        return bool(a == b or (a != a and b != b))
    return type(a) is type(b) and isinstance(a, str | tuple | bool) and bool(a == b)


def _changed(estimator: Any) -> dict[str, Any]:
    """Return the parameters that are not scikit-learn's defaults, but for `_HOW`."""
    known = inspect.signature(type(estimator)).parameters
    own = estimator.get_params(deep=False)
    return {
        name: value
        for name, value in own.items()
        if name not in _HOW and not _same(value, known[name].default if name in known else None)
    }


def _drop(where: str, changed: dict[str, Any], computing: tuple[str, ...], facts: _Facts) -> None:
    """Take those parameters out that only say how scikit-learn computes, and remember them."""
    gone = [
        name
        for name, value in changed.items()
        if name in computing and _COMPUTES_ONLY.get(name, lambda value: True)(value)
    ]
    for name in gone:
        del changed[name]
    if gone:
        facts.dropped.append(f"{', '.join(gone)} of {where}")


def _refuse_parameters(where: str, changed: Mapping[str, Any], private: str) -> None:
    if changed:
        listed = ", ".join(changed)
        raise ValueError(
            f"{where}: {private} has no such thing as {listed}. Leave it at its default, or put "
            f"{private} into its place and say there what you mean."
        )


def _part_of(bounds: Any, columns: Any, facts: _Facts, where: str) -> Any:
    """Return the bounds of some columns of a table."""
    if bounds is None or _is_pair(bounds):
        return bounds
    several = columns if isinstance(columns, list | tuple | np.ndarray) else [columns]
    if isinstance(bounds, Mapping):
        known = [name for name in several if isinstance(name, str | int) and name in bounds]
        if not known:
            return None
        if missing := [name for name in several if name not in known]:
            raise ValueError(
                f"{where}: bounds are stated for {known}, but not for {missing}; state all columns "
                "of a step, or none of them to learn them"
            )
        facts.named |= set(known)
        return {name: bounds[name] for name in known}
    if not all(isinstance(j, numbers.Integral) and not isinstance(j, bool) for j in several):
        raise TypeError(
            f"{where}: bounds by position need columns by position; state bounds by column name"
        )
    return tuple(np.asarray(side)[list(several)] if np.ndim(side) else side for side in bounds)


def _is_pair(bounds: Any) -> bool:
    """Say whether bounds are two numbers, the same for every column."""
    return isinstance(bounds, tuple) and all(np.ndim(side) == 0 for side in bounds)


def _after(step: Any, bounds: Any) -> Any:
    """Return the bounds of a step's output, as far as its parameters tell, or None."""
    if isinstance(step, ours.DPMinMaxScaler):
        return tuple(step.feature_range) if step.clip or bounds is not None else None
    if isinstance(step, ours.DPQuantileTransformer) and step.output_distribution == "uniform":
        return (0, 1)
    if isinstance(step, ours.DPOneHotEncoder):
        return (0, 1)
    if isinstance(step, preprocessing.Normalizer):
        return (-1, 1)
    if isinstance(step, skdp.impute.DPSimpleImputer) and not step.add_indicator:
        return bounds if _is_pair(bounds) else None
    return bounds if step in ("passthrough", None) else None


def _together(parts: list[Any]) -> Any:
    """Return two numbers that are bounds of all columns side by side, or None."""
    if not parts or not all(_is_pair(bounds) for bounds in parts):
        return None
    return (min(low for low, _ in parts), max(high for _, high in parts))


def _replaced(step: Any, path: str, bounds: Any, facts: _Facts) -> Any:
    """Return the private counterpart of one estimator."""
    rule, changed = _COUNTERPARTS[type(step)], _changed(step)
    _drop(_where(path, step), changed, rule.dropped, facts)
    same = inspect.signature(rule.kind).parameters
    options = {name: value for name, value in changed.items() if name in same}
    options |= {name: getattr(step, name) for name in rule.always}
    others = {name: value for name, value in changed.items() if name not in options}
    _refuse_parameters(_where(path, step), others, rule.kind.__name__)
    private = rule.kind(**options)
    known = private.get_params(deep=False)
    for name in ("classes", "target_bounds", "categories"):
        value = getattr(facts, name)
        if value is not None and name in known and name not in options:
            private.set_params(**{name: value})
            facts.used.add(name)
    if "bounds" in known and bounds is not None:
        private.set_params(bounds=bounds)
        facts.used.add("bounds")
    return private


def _search(step: Any, path: str, bounds: Any, facts: _Facts) -> Any:
    """Return the private search over the private counterpart of a search's estimator."""
    where, grid = _where(path, step), type(step) is sklearn_search.GridSearchCV
    kind = DPGridSearchCV if grid else DPRandomizedSearchCV
    candidates = "param_grid" if grid else "param_distributions"
    changed = _changed(step)
    for name in ("estimator", candidates, "n_iter", "random_state"):
        changed.pop(name, None)
    options: dict[str, Any] = {}
    if changed.get("refit") is False:
        del changed["refit"]  # there is none
    folds = getattr(changed.get("cv"), "n_splits", changed.get("cv"))
    if isinstance(folds, numbers.Integral) and int(folds) >= 2:
        del changed["cv"]
        options["test_size"] = 1 / int(folds)
    scoring = changed.pop("scoring", None)
    if isinstance(scoring, str) and scoring not in SCORES_WITH_BOUNDS:
        raise ValueError(
            f"{where}: {kind.__name__} has no scoring={scoring!r}: a run releases a mean of "
            f"bounded scores of rows. Take one of {', '.join(SCORES_WITH_BOUNDS)}, or a "
            "private_scorer, which states bounds."
        )
    if scoring is not None:
        options["scoring"] = scoring
    _drop(where, changed, ("error_score", "return_train_score"), facts)
    _refuse_parameters(where, changed, kind.__name__)
    if not grid:
        options |= {"n_iter": step.n_iter, "random_state": step.random_state}
    inside, _ = _private(step.estimator, path, bounds, facts)
    space = getattr(step, candidates)
    known = inside.get_params(deep=True)
    for subspace in [space] if isinstance(space, Mapping) else list(space):
        for name, values in subspace.items():
            if name not in known:
                raise ValueError(
                    f"{where}: {candidates} has {name}, which the private estimator does not have; "
                    "leave it out"
                )
            several = values if isinstance(values, list | tuple) else []
            if any(hasattr(value, "fit") for value in several):
                raise TypeError(
                    f"{where}: {candidates} has estimators for {name}; search over private ones "
                    f"with {kind.__name__} itself"
                )
    return kind(inside, space, **options)


def _private(step: Any, path: str, bounds: Any, facts: _Facts) -> tuple[Any, Any]:
    """Return the private form of a step, and the bounds of its output."""
    if step is None or isinstance(step, str):
        return step, _after(step, bounds)
    if not hasattr(step, "get_params") or isinstance(step, type):
        raise TypeError(f"step {path} must be an estimator, got {type(step).__name__}")
    if isinstance(step, FrozenEstimator):
        return step, None
    if type(step) is Pipeline:
        if step.memory is not None:
            raise ValueError(
                f"{_where(path, step)}: memory must be None: a cache would keep fits, and steps "
                "taken from it are not charged to any budget"
            )
        steps = []
        for name, inner in step.steps:
            private, bounds = _private(inner, _join(path, name), bounds, facts)
            steps.append((name, private))
        return _like(step, steps=steps), bounds
    if type(step) is FeatureUnion:
        parts = [
            (name, *_private(inner, _join(path, name), bounds, facts))
            for name, inner in step.transformer_list
        ]
        union = _like(step, transformer_list=[(name, private) for name, private, _ in parts])
        return union, None if step.transformer_weights else _together([b for *_, b in parts])
    if type(step) is ColumnTransformer:
        return _columns(step, path, bounds, facts)
    if type(step) in (sklearn_search.GridSearchCV, sklearn_search.RandomizedSearchCV):
        return _search(step, path, bounds, facts), None
    if type(step) in _COUNTERPARTS:
        private = _replaced(step, path, bounds, facts)
        return private, _after(private, bounds)
    public = not is_search(step) and type(step).__module__.startswith("sklearn.")
    inside = step.get_params(deep=True).values()  # of what learns nothing: estimators that might
    passes = public and learns_nothing(step) and not any(hasattr(value, "fit") for value in inside)
    if has_price(step) or passes:
        step = clone(step)
        return step, _after(step, bounds)
    name = type(step).__name__
    model = f"{name}(...)" if hasattr(type(step), "predict") else "the whole pipeline"
    release = f"DPTrainOnRelease({model}, target=...) trains it on a private release, at one cost"
    raise TypeError(
        f"{_where(path, step)} has no private counterpart: {_INSTEAD.get(name, release)}."
    )


def _like(container: Any, **changes: Any) -> Any:
    """Return a container with other steps, its remaining parameters as they were."""
    return type(container)(**(container.get_params(deep=False) | changes))


def _columns(step: Any, path: str, bounds: Any, facts: _Facts) -> tuple[Any, Any]:
    """Return the private form of a `ColumnTransformer`, and the bounds of its output."""
    parts, outputs = [], []
    for name, inner, columns in step.transformers:
        below = _join(path, name)
        own = None if inner == "drop" else _part_of(bounds, columns, facts, _where(below, inner))
        private, after = _private(inner, below, own, facts)
        parts.append((name, private, columns))
        outputs += [] if inner == "drop" else [after]
    # Which columns remain is not known here: their bounds are those of all columns, or learned.
    own = bounds if _is_pair(bounds) else None
    remainder, after = _private(step.remainder, _join(path, "remainder"), own, facts)
    outputs += [] if remainder == "drop" else [after]
    columns = _like(step, transformers=parts, remainder=remainder)
    return columns, None if step.transformer_weights else _together(outputs)


def _needed(part: Any, most: Fraction, n_samples: int | None, n_features: int | None) -> Fraction:
    """Return the epsilon with which a step's expected error is small enough, at most `most`."""
    enough = _ENOUGH.get(type(part))
    if enough is None or n_samples is None:
        return most
    options: Any = {} if n_features is None else {"n_features": n_features}
    options |= {"low": float(most * _LEAST), "high": float(most)}
    try:
        needed = choose_epsilon(part, error=enough, n_samples=n_samples, **options)
    except (TypeError, ValueError):  # no answer without rows, or not with so little
        return most
    return min(exact(needed), most)


def _split(
    estimator: Any, epsilon: float, delta: float, n_samples: int | None, n_features: int | None
) -> None:
    """Give the private steps their parts of epsilon and delta, in place."""
    for path, part in private_parts(estimator):
        _set(part, epsilon=epsilon, delta=delta)
        if isinstance(part, DPGridSearchCV | DPRandomizedSearchCV):
            _split(part.estimator, epsilon, delta, n_samples, n_features)
        try:
            check_without_rows(part)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{_where(path, part)}: {error}") from None
    paid = [part for _, part in private_parts(estimator) if part.privacy_cost() is not None]
    if not paid:
        return
    total, equal = exact(epsilon), exact(epsilon) / len(paid)
    for part in paid:
        _set(part, delta=round_down(exact(delta) / len(paid)) if len(paid) > 1 else delta)
    shares = [_needed(part, equal, n_samples, n_features) for part in paid]
    open_ends = [i for i, share in enumerate(shares) if share == equal]
    if not open_ends:  # all have enough: the rest goes to all
        shares = [share * total / sum(shares, start=Fraction(0)) for share in shares]
    else:
        rest = total - sum((s for i, s in enumerate(shares) if i not in open_ends), Fraction(0))
        shares = [rest / len(open_ends) if i in open_ends else s for i, s in enumerate(shares)]
    for part, share in zip(paid, shares, strict=True):
        _set(part, epsilon=round_down(share) if len(paid) > 1 else epsilon)


def _set(part: Any, **values: Any) -> None:
    known = part.get_params(deep=False)
    part.set_params(**{name: value for name, value in values.items() if name in known})


def _one_by_position(make: Callable[_Given, Any]) -> Callable[_Given, Any]:
    """Return the function; a second positional argument is refused with its likely keyword."""

    @functools.wraps(make)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> Any:
        if len(args) > 1:
            second = args[1]
            call = f"epsilon={second!r}" if isinstance(second, numbers.Real) else "budget=budget"
            raise TypeError(
                "make_private takes only the estimator by position; state the rest by name: "
                f"make_private(estimator, {call})"
            )
        return make(*args, **kwargs)

    return checked


@_one_by_position
def make_private(
    estimator: Any,
    *,
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: Any = None,
    bounds: Any = None,
    classes: Any = None,
    target_bounds: Any = None,
    categories: Any = None,
    n_samples: int | None = None,
    n_features: int | None = None,
) -> Any:
    """Return a pipeline in which scikit-learn's steps are replaced by private counterparts.

    Each step keeps its name, and the parameters that have the same meaning. Steps that learn
    nothing from rows (``FunctionTransformer``, ``Normalizer``, ``PolynomialFeatures``) stay;
    pipelines, ``FeatureUnion`` and ``ColumnTransformer`` keep their shape; ``GridSearchCV`` and
    ``RandomizedSearchCV`` become `DPGridSearchCV` and `DPRandomizedSearchCV`. A fit of the whole
    pipeline costs (`epsilon`, `delta`); `skdp.plan` shows how the steps share them.

    Parameters
    ----------
    estimator : estimator
        An estimator, a pipeline or a search of scikit-learn. It is neither changed nor fitted.
        Private steps in it are kept, except for their `epsilon`, `delta` and `budget`.
    epsilon : float, default=1.0
        Privacy loss of one fit of the whole pipeline; finite, above 0.
    delta : float or None, default=None
        In [0, 1). The most that one fit of the whole pipeline takes; the steps get equal parts of
        it. None: a hundredth of the budget's delta; 0 without a budget.
    budget : PrivacyBudget or None, default=None
        Budget that every step charges.
    bounds : None or tuple (low, high) or mapping, default=None
        Of the columns of X, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high). They are used for the steps that see these columns. After
        scalers to a range, one-hot encoders and ``Normalizer``, bounds follow from the parameters.
        Everywhere else, and with None, they are learned, for a part of the step's epsilon.
    classes : array-like or None, default=None
        All labels that may occur. None: classifiers select them, which needs `delta` above 0.
    target_bounds : tuple (low, high) or None, default=None
        Range of the target of a regression. None: learned.
    categories : list or int or None, default=None
        Categories for encoders, imputers and ``CategoricalNB``, in the form that these take.
    n_samples : int or None, default=None
        Number of rows, as far as it is public. Without it, epsilon is shared equally.
    n_features : int or None, default=None
        Number of columns, if bounds do not determine it.

    Returns
    -------
    private : estimator
        Not fitted. Change parameters with ``set_params``, as for any pipeline.

    Raises
    ------
    TypeError
        If a step has no private counterpart; the message says what to use instead.
    ValueError
        If a private step does not have a parameter, if a parameter is one that every fit refuses,
        or if no step uses a stated fact. The message names the step.

    Warns
    -----
    UserWarning
        Once, if parameters were dropped that say only how scikit-learn computes; it lists them.

    Notes
    -----
    **Privacy.** *Released*: nothing. *Sensitivity*, *mechanism*: none, as no row is read.
    *Charged*: nothing.

    **How epsilon is shared.** If the `expected_error` of a step needs no rows, the step gets the
    smallest epsilon with which this error is small enough for the following steps (scalers: 0.2% of
    the width of the bounds, or 1% of the rows out of range; encoders: 0.5% of the cells; principal
    components: noise of 0.1% of the squared norm). It gets at least a tenth of an equal share and
    at most a whole one. The other steps share the rest equally. The epsilons add up to no more than
    `epsilon`, so every accountant grants it.

    **What is dropped, what is refused.** Parameters that say only how scikit-learn computes are
    dropped: ``solver``, ``tol``, ``n_init``, ``max_iter``, ``svd_solver``, the depth of trees and
    so on, with one warning; ``copy``, ``n_jobs``, ``verbose`` without. Others that differ from
    scikit-learn's default and have no private meaning are refused, such as ``l1_ratio``. If
    defaults differ (``n_quantiles``, ``handle_unknown``, ``sparse_output``), those of the private
    class hold. Forests and histogram boosting become additive boosting. ``set_output`` and metadata
    requests must be repeated. ``cv=k`` of a search becomes ``test_size=1/k``. ``C`` is that of
    standardised columns (`DPLogisticRegression`), so without a scaler it means another penalty.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skdp
    >>> private = skdp.make_private(
    ...     make_pipeline(StandardScaler(), PCA(5), LogisticRegression()),
    ...     epsilon=1.0,
    ...     delta=1e-6,
    ...     bounds=(0, 100),
    ...     classes=[0, 1],
    ...     n_samples=100_000,
    ...     n_features=20,
    ... )
    >>> [type(step).__name__ for _, step in private.steps]
    ['DPStandardScaler', 'DPPCA', 'DPLogisticRegression']
    >>> bool(skdp.plan(private).total.epsilon <= 1)
    True
    """
    epsilon = check_positive(epsilon, "epsilon")
    if not (budget is None or isinstance(budget, PrivacyBudget)):
        raise not_a_budget(budget)
    stated = {"bounds": bounds, "classes": classes, "target_bounds": target_bounds}
    stated["categories"] = categories
    for name, value in stated.items():
        check_kind(value, name)
    if isinstance(bounds, str) and bounds == "private":
        bounds = stated["bounds"] = None
    if isinstance(bounds, list):
        bounds = tuple(bounds)
    facts = _Facts(classes, target_bounds, categories)
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise TypeError(f"estimator must be an estimator, got {type(estimator).__name__}")
    private, _ = _private(estimator, "", bounds, facts)
    if facts.dropped:
        warnings.warn(
            "make_private drops what only says how scikit-learn computes: "
            + "; ".join(facts.dropped),
            UserWarning,
            stacklevel=3,  # past `checked`
        )
    for name, value in stated.items():
        if value is not None and name not in facts.used:
            raise ValueError(f"{name} is stated, but no step takes it: leave it out")
    if isinstance(bounds, Mapping) and facts.named and set(bounds) - facts.named:
        raise ValueError(f"bounds name columns that no step reads: {set(bounds) - facts.named}")
    if not private_parts(private):
        raise ValueError(f"{type(estimator).__name__} learns nothing from rows: nothing to replace")
    if delta is None:
        delta = CallContext("make_private", 1.0, None, budget).allowed_delta
    _split(private, epsilon, delta, n_samples, n_features)
    for _, part in private_parts(private):
        _set(part, budget=budget)
    return private
