"""Refuses callers that fit an estimator and then need what no private estimator has.

Nothing is released here. yellowbrick's visualizers of clusterings fit the estimator that they are
given, which charges the budget, and then ask for the labels and distances of private rows, which
are no release: an error comes when the price is paid. So the fit is refused before it is charged.
"""

from __future__ import annotations

import sys
from typing import Any

_IMPORTANCES = "yellowbrick.model_selection.importances"

# Modules that call ``fit``, with what they ask for afterwards.
_NEEDS = {
    "yellowbrick.cluster": "the labels of private rows, and distances to them",
    _IMPORTANCES: "feature_importances_ or coef_",
}
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
