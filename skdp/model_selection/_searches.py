"""What scikit-learn's searches and containers fit: their steps and scorers.

Nothing is released here and no row is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import FeatureUnion, Pipeline


def has_price(part: Any) -> bool:
    """Say whether this charges by itself: its class has a ``privacy_cost``.

    Wrappers that pass on every attribute of what they hold (yellowbrick's) have none.
    """
    return not isinstance(part, type) and hasattr(type(part), "privacy_cost")


def is_search(estimator: Any) -> bool:
    """Say whether this is one of scikit-learn's searches (by its parameters)."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return False
    names = estimator.get_params(deep=False)
    return {"estimator", "cv", "refit", "scoring"} <= names.keys() and (
        "param_grid" in names or "param_distributions" in names
    )


def is_halving(search: Any) -> bool:
    """Say whether a search is one of successive halving."""
    return "aggressive_elimination" in search.get_params(deep=False)


def steps_of(estimator: Any) -> list[tuple[str, Any, Any]] | None:
    """Return what a container fits once each, as (name, step, columns).

    None if it is not a container known to do so.
    """
    if isinstance(estimator, Pipeline):
        return [(name, step, None) for name, step in estimator.steps]
    if isinstance(estimator, FeatureUnion):
        return [(name, step, None) for name, step in estimator.transformer_list]
    if isinstance(estimator, ColumnTransformer):
        rest = ("remainder", estimator.remainder, "all others")
        return [*estimator.transformers, rest]
    if isinstance(estimator, TransformedTargetRegressor):
        parts = ("regressor", "transformer")
        return [(name, getattr(estimator, name), None) for name in parts]
    if isinstance(estimator, VotingClassifier | VotingRegressor):
        return [(name, step, None) for name, step in estimator.estimators]
    if isinstance(estimator, FixedThresholdClassifier):
        return [("estimator", estimator.estimator, None)]
    return None


def scorers_in(scoring: Any) -> list[Any]:
    """Return the scorers of a ``scoring`` argument, names and None included."""
    if isinstance(scoring, Mapping):
        return list(scoring.values())
    if isinstance(scoring, list | tuple | set):
        return list(scoring)
    return [scoring]


# What scikit-learn's meta-estimators do with an estimator inside, where the sum of its charges is
# no guarantee for the whole, or is not known. By the name of the class or of one that it inherits.
_PER_CLASS = "fits once for each class that occurs in y: the number of charges tells how many"
_PER_OUTPUT = "fits once for each column of y, which no cost can know"
_CHOOSES = "chooses by scores on private rows, as often as they tell it to"
_META = {
    "AdaBoostClassifier": "weighs rows by the errors made on them, which are private",
    "AdaBoostRegressor": (
        "draws rows with replacement by the errors made on them: one row counts several times, "
        "and which one is private"
    ),
    "CalibratedClassifierCV": "fits its calibration on private rows without noise",
    "ClassifierChain": _PER_OUTPUT,
    "IterativeImputer": "fits once for each column with missing cells, in rounds, without noise",
    "MultiOutputClassifier": _PER_OUTPUT,
    "MultiOutputRegressor": _PER_OUTPUT,
    "OneVsOneClassifier": f"{_PER_CLASS}; each fit is on the rows of two classes only",
    "OneVsRestClassifier": _PER_CLASS,
    "OutputCodeClassifier": _PER_CLASS,
    "RFE": "fits once for each number of columns, which no cost can know",
    "RFECV": _CHOOSES,
    "RegressorChain": _PER_OUTPUT,
    "SelectFromModel": "chooses columns by a fitted estimator: put that before it, in the pipeline",
    "SelfTrainingClassifier": "labels rows and fits again, as often as private rows tell it to",
    "SequentialFeatureSelector": _CHOOSES,
    "StackingClassifier": (
        "fits every member once on all rows and once a fold (stratified by y unless cv says "
        "otherwise), and its final_estimator on their predictions for private rows"
    ),
    "StackingRegressor": (
        "fits every member once on all rows and once a fold, and its final_estimator on their "
        "predictions for private rows"
    ),
    "TunedThresholdClassifierCV": "chooses its threshold by scores on private rows",
}


def what_it_does(estimator: Any) -> str:
    """Return what a meta-estimator does that no sum of charges covers; "" if it is not known."""
    params = estimator.get_params(deep=False)
    if params.get("bootstrap") is True and "estimator" in params:
        return (
            "draws rows with replacement (bootstrap=True): one row counts several times, while "
            "the ledger says epsilon once"
        )
    if "max_samples" in params and "estimator" in params:
        return "fits on rows drawn by position, in a number that follows from that of the table"
    for kind in type(estimator).__mro__:
        if kind.__module__.startswith("sklearn.") and kind.__name__ in _META:
            return _META[kind.__name__]
    return ""
