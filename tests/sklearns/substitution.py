"""A plugin of pytest: scikit-learn's names stand for private estimators, almost without noise.

    export SKDP_SUBSTITUTED=1
    python -m pytest -p tests.sklearns.substitution --pyargs sklearn.cluster.tests.test_k_means

A substitute takes scikit-learn's parameters and those of the private estimator. What the latter
does not have (solvers, tolerances, numbers of runs) is stored and not used. Bounds, classes and
categories are those of the rows, which are public in these tests: learned ones would clip. The
report of a test names the private estimators that it uses.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import OrdinalEncoder

import skdp

EPSILON, DELTA = 1e9, 1e-6
SWITCH = "SKDP_SUBSTITUTED"


_uses: list[str] = []  # names of substitutes that the running test has made or fitted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Any:
    """Note in the report of a test whether it uses a private estimator."""
    _uses.clear()
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: Any) -> None:
    item.user_properties.append(("substituted", " ".join(sorted(set(_uses)))))


# A test of several solvers is run once: private estimators have none. Tests of these alone are left
# out (iterations, warm starts, l1, copies of X, weights of 0 that leave no more rows than columns),
# of sparse tables, of `RidgeCV` and `LogisticRegressionCV`, which are not substituted, and one that
# takes long and passes (`positive_ridge_loss`).
LINEAR = ("test_base", "test_ridge", "test_logistic")
SOLVERS = re.compile(
    r"(?<=[-\[])(newton-cg|newton-cholesky|svd|cholesky|sparse_cg|lsqr|saga?|lbfgs|liblinear|auto)"
    r"(?=[-\]])"
)
OTHERS = re.compile(
    r"cs[rc]_|coo_|sparse|cv_|_cv|CV|gcv|array_api|solver_option|max_iter|n_iter|warm_start|"
    r"elastic|l1_ratio|penalty_deprecated|penalty_none|l1ratio|liblinear_|newton_cholesky|n_jobs|"
    r"callback|solver_error|positive_error|_path|solvers_multiclass\[|string_inputs|data_preprocessing|"
    r"lbfgs_solver_con|-cv\]|scoring|positive_ridge_loss|weight_consistency"
)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave out what says nothing of the private linear models."""
    kept: dict[tuple[Any, str], Any] = {}
    for item in items:
        of_linear = item.module.__name__.split(".")[-1] in LINEAR
        name = SOLVERS.sub("", item.name) if of_linear else item.name
        if not (of_linear and OTHERS.search(item.name)):
            kept.setdefault((item.module, name), item)
    items[:] = kept.values()


def table_of(X: Any) -> Any:
    """Return X as numbers of two dimensions, or None: then the estimator says what is wrong."""
    try:
        table = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return table if table.ndim == 2 and table.size else None


def box(X: Any, y: Any = None) -> dict[str, Any]:
    """Return the bounds of every column, a little wider where it is constant."""
    table = table_of(X)
    if table is None or not np.isfinite(table).any(axis=0).all() or np.isinf(table).any():
        return {}
    low, high = np.nanmin(table, axis=0), np.nanmax(table, axis=0)
    return {"bounds": (low, high)}


def ball(X: Any, y: Any = None) -> dict[str, Any]:
    """Return the centre and the largest norm about it."""
    table = table_of(X)
    if table is None or not np.isfinite(table).all():
        return {}
    center = table.mean(axis=0)
    radius = float(np.linalg.norm(table - center, axis=1).max())
    return {"center": center, "norm_bound": max(radius, 1e-12)}


def classes(X: Any, y: Any = None) -> dict[str, Any]:
    """Return the bounds of every column and the labels."""
    try:
        return {**box(X), "classes": np.unique(np.asarray(y))}
    except TypeError:
        return box(X)


def counted(X: Any, y: Any = None) -> dict[str, Any]:
    """Return the labels, and as categories of every column the numbers up to its largest."""
    table, stated = table_of(X), classes(X, y)
    stated.pop("bounds", None)
    if table is not None and np.isfinite(table).all():
        stated["categories"] = [range(int(column.max()) + 1) for column in table.T]
    return stated


def targets(X: Any, y: Any = None) -> dict[str, Any]:
    """Return the bounds of every column and of the target."""
    try:
        y = np.asarray(y, dtype=np.float64)
        return {**box(X), "target_bounds": (float(y.min()), float(y.max()))}
    except (TypeError, ValueError):
        return box(X)


_scikit_categories = OrdinalEncoder  # not that of this module, once it is substituted


def listed(X: Any, y: Any = None) -> dict[str, Any]:
    """Return the categories of every column, in scikit-learn's order."""
    try:
        return {"categories": [list(c) for c in _scikit_categories().fit(X).categories_]}
    except (TypeError, ValueError, AttributeError):
        return {}


def weighing(X: Any, weights: Any, own: dict[str, Any]) -> dict[str, Any]:
    """Return the bound of weights, which is public here; weights exclude missing cells."""
    if weights is None or "weight_bound" not in own:
        return {}
    table, largest = table_of(X), float(np.max(np.asarray(weights, dtype=np.float64), initial=0.0))
    whole = table is not None and not np.isnan(table).any()
    omits = {"nan_policy": "raise"} if whole and "nan_policy" in own else {}
    return {"weight_bound": largest or 1.0, **omits}


def filled(X: Any, y: Any = None) -> dict[str, Any]:
    """Return the bounds of every column and its categories."""
    X = X.toarray() if sparse.issparse(X) else X
    table = table_of(X)
    empty = False if table is None else np.isnan(table).all(axis=0)
    return {**box(X if table is None else np.where(empty, 0.0, table)), **listed(X)}


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
    ("sklearn.preprocessing.KBinsDiscretizer", "DPKBinsDiscretizer", box, {}),
    ("sklearn.preprocessing.OneHotEncoder", "DPOneHotEncoder", listed, {}),
    ("sklearn.preprocessing.OrdinalEncoder", "DPOrdinalEncoder", listed, {}),
    ("sklearn.impute.SimpleImputer", "DPSimpleImputer", filled, {}),
    ("sklearn.naive_bayes.GaussianNB", "DPGaussianNB", classes, {}),
    ("sklearn.naive_bayes.CategoricalNB", "DPCategoricalNB", counted, {}),
    ("sklearn.neighbors.NearestCentroid", "DPNearestCentroid", classes, {"epsilon": 1e13}),
    (
        "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
        "DPLinearDiscriminantAnalysis",
        classes,
        {"epsilon": 1e13},
    ),
    ("sklearn.linear_model.LinearRegression", "DPLinearRegression", targets, {"epsilon": 1e13}),
    ("sklearn.linear_model.Ridge", "DPRidge", targets, {"epsilon": 1e13}),
    (
        "sklearn.linear_model.LogisticRegression",
        "DPLogisticRegression",
        classes,
        {"epsilon": 1e13},
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
        _uses.append(ours.__name__)
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]

    def fit(self: Any, X: Any, y: Any = None, *weights: Any, **routed: Any) -> Any:
        if weights:
            routed["sample_weight"] = weights[0]
        _uses.append(ours.__name__)
        values = {**state(X, y), **fixed, **weighing(X, routed.get("sample_weight"), own)}
        chosen = inspect.signature(theirs.__init__).parameters
        for name in set(values) & set(chosen):  # what the test itself states
            if getattr(self, name) is not chosen[name].default:
                del values[name]
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
