"""A plugin of pytest: scikit-learn's names stand for private estimators, almost without noise.

    export SKDP_SUBSTITUTED=1
    python -m pytest -p tests.sklearns.substitution --pyargs sklearn.cluster.tests.test_k_means

A substitute takes scikit-learn's parameters and those of the private estimator. What the latter
does not have (solvers, tolerances, numbers of runs) is stored and not used. Bounds are those of the
rows, which are public in these tests: learned ones would clip.
"""

from __future__ import annotations

import importlib
import inspect
import os
from typing import Any

import numpy as np

import skdp

EPSILON, DELTA = 1e9, 1e-6
SWITCH = "SKDP_SUBSTITUTED"


def table_of(X: Any) -> Any:
    """Return X as numbers of two dimensions, or None: then the estimator says what is wrong."""
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return table if table.ndim == 2 and table.size else None


def box(X: Any) -> dict[str, Any]:
    """Return the bounds of every column, a little wider where it is constant."""
    table = table_of(X)
    if table is None or not np.isfinite(table).any(axis=0).all() or np.isinf(table).any():
        return {}
    low, high = np.nanmin(table, axis=0), np.nanmax(table, axis=0)
    return {"bounds": (low, high)}


def ball(X: Any) -> dict[str, Any]:
    """Return the centre and the largest norm about it."""
    table = table_of(X)
    if table is None or not np.isfinite(table).all():
        return {}
    center = table.mean(axis=0)
    radius = float(np.linalg.norm(table - center, axis=1).max())
    return {"center": center, "norm_bound": max(radius, 1e-12)}


def weighing(X: Any, weights: Any, own: dict[str, Any]) -> dict[str, Any]:
    """Return the bound of weights, which is public here; weights exclude missing cells."""
    if weights is None or "weight_bound" not in own:
        return {}
    table, largest = table_of(X), float(np.max(np.asarray(weights, dtype=np.float64), initial=0.0))
    whole = table is not None and not np.isnan(table).any()
    omits = {"nan_policy": "raise"} if whole and "nan_policy" in own else {}
    return {"weight_bound": largest or 1.0, **omits}


PAIRS: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("sklearn.decomposition.PCA", "DPPCA", ball, {"epsilon": 1e13}),
    ("sklearn.cluster.KMeans", "DPKMeans", box, {"algorithm": "tree"}),
    ("sklearn.preprocessing.StandardScaler", "DPStandardScaler", box, {"nan_policy": "omit"}),
    ("sklearn.preprocessing.MinMaxScaler", "DPMinMaxScaler", box, {"nan_policy": "omit"}),
    ("sklearn.preprocessing.RobustScaler", "DPRobustScaler", box, {"nan_policy": "omit"}),
    (
        "sklearn.preprocessing.QuantileTransformer",
        "DPQuantileTransformer",
        box,
        {"nan_policy": "omit"},
    ),
]  # fmt: skip


def substitute(theirs: type, ours: type, state: Any, fixed: dict[str, Any]) -> type:
    """Return a class that is called like theirs and computes like ours."""
    parameters = dict(inspect.signature(theirs.__init__).parameters)
    own = {k: p for k, p in inspect.signature(ours.__init__).parameters.items() if k != "self"}
    for name, one in own.items():
        if name not in parameters:
            parameters[name] = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    values = {"epsilon": EPSILON, "delta": DELTA, **fixed}
    for name, value in values.items():
        parameters[name] = parameters[name].replace(default=value)
    ordered = sorted(parameters.values(), key=lambda one: one.kind)
    signature = inspect.Signature(ordered)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]

    def fit(self: Any, X: Any, y: Any = None, **routed: Any) -> Any:
        values = {**state(X), **fixed, **weighing(X, routed.get("sample_weight"), own)}
        held = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            return ours.fit(self, X, y, **routed)
        finally:
            for name, value in held.items():
                setattr(self, name, value)

    members = {"__init__": __init__, "fit": fit, "__module__": __name__, "__doc__": ours.__doc__}
    return type(theirs.__name__, (ours,), members)


def substitute_all() -> None:
    """Put the private estimators into scikit-learn's places, for this whole process."""
    for path, name, state, fixed in PAIRS:
        module, _, attribute = path.rpartition(".")
        package = importlib.import_module(module)
        made = substitute(getattr(package, attribute), getattr(skdp, name), state, fixed)
        setattr(package, attribute, made)
        globals()[attribute] = made  # so that copies in other processes find it


if os.environ.get(SWITCH):  # not where pytest imports this file to look for doctests
    substitute_all()
