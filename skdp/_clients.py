"""Refuses callers that fit an estimator and then need what no private estimator has.

Nothing is released here. yellowbrick's visualizers of clusterings fit the estimator that they are
given, which charges the budget, and then ask for the labels and distances of private rows, which
are no release: an error comes when the cost is paid. So the fit is refused before it is charged.
Searches whose folds are not neighbouring are refused, or warned of.
"""

from __future__ import annotations

import sys
from typing import Any

from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit, PredefinedSplit

_IMPORTANCES = "yellowbrick.model_selection.importances"

# Modules that call ``fit``, with what they ask for afterwards.
_NEEDS = {
    "yellowbrick.cluster": "the labels of private rows, and distances to them",
    _IMPORTANCES: "feature_importances_ or coef_",
}
# Splitters whose folds the users of a table decide together, and what one user moves among the
# others; and those whose number of fits tells how many users, or rows, there are.
_USERS_SPLITTERS = {
    "GroupKFold": "balances its folds by the sizes of all users, so that one user moves others",
    "GroupShuffleSplit": "draws a number of users that depends on how many users there are, by "
    "their positions",
    "LeaveOneGroupOut": "fits once for each user, so the ledger would reveal how many users "
    "there are",
    "LeavePGroupsOut": "fits at least once for each user, so the ledger would reveal how many "
    "users there are",
    "StratifiedGroupKFold": "balances its folds by the sizes and labels of all users, so that one "
    "user moves others",
}
_USERS_SPLITTERS |= dict.fromkeys(
    ("LeaveOneOut", "LeavePOut"),
    "fits at least once for each row, so the ledger would reveal the number of rows, which is "
    "private if users have many rows",
)
_SEARCHES = ("sklearn.model_selection._search", "sklearn.model_selection._validation")

# Modules whose frames pass a fit on.
_BETWEEN = ("skdp", "sklearn", "contextlib", "mlflow", "joblib", "yellowbrick.base")


def _caller() -> str:
    """Return the name of the module that asked for this fit."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name not in _BETWEEN and name.partition(".")[0] not in _BETWEEN:
            return name
        frame = frame.f_back
    return ""


def is_asked_by(module: str) -> bool:
    """Say whether a function of a module is among those that asked for this fit."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "") == module:
            return True
        frame = frame.f_back
    return False


def refused_for_users(splitter: Any) -> tuple[str, str]:
    """Return the name of a splitter that no budget of users takes, of subclasses too, and why."""
    for kind in type(splitter).__mro__:
        if why := _USERS_SPLITTERS.get(kind.__name__):
            return kind.__name__, why
    return "", ""


def check_folds_of_caller(estimator: Any, unit: str | None) -> str:
    """Raise if this fit is one of a search whose folds the users of the table decide together.

    Or a clone for one: a search clones where it is called, and may fit in other processes. Return
    what to warn of if its folds are drawn by position, or by labels; "" for nothing.

    Parameters
    ----------
    estimator : object
    unit : str or None
        Of the budget, under which the number of rows is private; None if that is a row.

    Raises
    ------
    ValueError
        With the way out; nothing has been charged.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "") in _SEARCHES:
            for name in ("cv", "cv_orig"):
                splitter = frame.f_locals.get(name)
                kind, why = refused_for_users(splitter) if unit is not None else ("", "")
                if kind:
                    raise ValueError(
                        f"{type(estimator).__name__}: {kind} {why}; the budget protects one "
                        f"{unit!r}, so the sum of the charges would be no guarantee for the "
                        "search. Use PerRecordKFold, which draws the fold of each user alone. "
                        "Nothing was charged for this fit."
                    )
                if _draws_together(splitter):
                    one = "a record" if unit is None else f"one {unit!r}"
                    return (
                        f"{type(estimator).__name__}: {one} more or less moves other rows between "
                        f"the folds of {type(splitter).__name__}, and the number of rows is "
                        "private under this budget, so the sum of the charges is no guarantee for "
                        "the search. Use skdp.model_selection.PerRecordKFold."
                    )
        frame = frame.f_back
    return ""


def _draws_together(splitter: Any) -> bool:
    """Say whether a splitter of scikit-learn draws the folds of rows together, not one by one."""
    kind = type(splitter)
    if not isinstance(splitter, BaseCrossValidator | BaseShuffleSplit):
        return False
    return kind.__module__.startswith("sklearn.") and not (
        isinstance(splitter, PredefinedSplit) or kind.__name__ == "_CVIterableWrapper"
    )


def check_caller(estimator: Any) -> None:
    """Raise if this fit is asked for by code that will fail after it has been charged.

    Raises
    ------
    TypeError
        With the way out; nothing has been charged.
    """
    caller = _caller()
    for module, needs in _NEEDS.items():
        model = module == _IMPORTANCES and hasattr(estimator, "predict")  # some have coef_
        if f"{caller}.".startswith(f"{module}.") and not model:
            raise TypeError(
                f"{type(estimator).__name__} is not fitted by {caller}: it would be charged, and "
                f"then asked for {needs}, which it does not release. Fit it yourself, and draw "
                "what it released: skdp.inspection has displays"
            )


def rows_asked_for(estimator: Any) -> str:
    """Return the method that will ask for the rows back once this fit is charged; "" for none."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_name
        if name in ("fit_transform", "fit_predict") and frame.f_locals.get("self") is estimator:
            return str(name)
        if name == "_fit_transform_one" and frame.f_globals.get("__name__") == "sklearn.pipeline":
            return "a step of a pipeline that is not the last"
        frame = frame.f_back
    return ""
