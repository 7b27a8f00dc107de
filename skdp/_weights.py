"""Private weights of rows in a fit: a public bound of them, checked before the charge.

Nothing is released here.
"""

from __future__ import annotations

import math
from typing import Any

from skdp._clients import is_asked_by
from skdp._parameters import Reals
from skdp.tabular import with_weights

# What the parameter may be.
WEIGHT_BOUND = (None, Reals(0, math.inf, "()"))

_NO_BOUND = (
    "{name}: weights are private, so what a row may move needs a public bound of them. State "
    "{name}(weight_bound=...), from public knowledge: larger weights are clipped to it. Nothing "
    "was charged for this fit."
)


_OF_PRESENT = (
    "{name}: sample_weight needs nan_policy='raise': with 'omit' each column is asked of rows of "
    "its own, without weights. Fill missing cells before (DPSimpleImputer), or leave weights out. "
    "Nothing was charged for this fit."
)


_OF_OTHERS = (
    "{name}: AdaBoost weighs a row by the errors on all rows, so its weights move with every row, "
    "and no ledger sees it. Use DPExplainableBoostingClassifier or DPTrainOnRelease. Nothing was "
    "charged."
)


def check_weight_bound(estimator: Any) -> float:
    """Return the stated bound of weights, or raise; its range is checked with the parameters."""
    if is_asked_by("sklearn.ensemble._weight_boosting"):
        raise TypeError(_OF_OTHERS.format(name=type(estimator).__name__))
    if estimator.weight_bound is None:
        raise ValueError(_NO_BOUND.format(name=type(estimator).__name__))
    return float(estimator.weight_bound)


def weighted_rows(estimator: Any, rows: Any, sample_weight: Any) -> tuple[Any, float | None]:
    """Return checked rows with their weights, and the bound of these; None without weights.

    The estimator's parameters have been checked.
    """
    if sample_weight is None:
        return rows, None
    if getattr(estimator, "nan_policy", "raise") == "omit":
        raise ValueError(_OF_PRESENT.format(name=type(estimator).__name__))
    most = check_weight_bound(estimator)
    return with_weights(rows, sample_weight, estimator=type(estimator).__name__), most
