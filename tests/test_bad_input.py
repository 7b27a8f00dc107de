"""Bad input, for every estimator: refused by name, for free, without a trace.

A refusal names the parameter, quotes no cell of X anywhere in the chain of exceptions, comes
before anything is charged and leaves the estimator as it was, fitted or not. What depends on
private values is never refused: constant columns, one row, fewer rows than clusters.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import functools
import os
import pickle
import shutil
import sqlite3
import tempfile
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skdp import PrivacyBudget
from skdp.budget import Cost
from skdp.budget import ledger as ledger_module
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.ensemble import DPSubsampleAggregate
from skdp.exceptions import (
    BudgetExceededError,
    LedgerError,
    PublishedRowsWarning,
    SealedBudgetError,
)
from skdp.neighbors import DPHistogramDensity, DPKernelDensity
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdp.quantile import DPMedian, DPQuantile, DPQuantileTransformer, DPRobustScaler
from skdp.synthetic import (
    Bins,
    Domain,
    DPEmpiricalCDF,
    DPMarginalSynthesizer,
    MWEMReleaser,
    PrivateMultiplicativeWeights,
    SmallDBReleaser,
    conjunctions,
    linear_queries,
    thresholds,
)

# Cells that no message may quote, and how they would look in one.
WORD, NUMBER = "SECRET", 123456.789
TRACES = ("SECRET", "123456", "1.23456", "0x1.e24")

ESTIMATORS = {
    "standard_scaler": DPStandardScaler(),
    "minmax_scaler": DPMinMaxScaler(),
    "pca": DPPCA(2),
    "kmeans": DPKMeans(3),
    "kmeans_lloyd": DPKMeans(3, algorithm="lloyd", max_iter=2),
    "median": DPMedian(),
    "quantile": DPQuantile(),
    "robust_scaler": DPRobustScaler(),
    "quantile_transformer": DPQuantileTransformer(n_quantiles=5),
    "kernel_density": DPKernelDensity(),
    "histogram_density": DPHistogramDensity(),
    "empirical_cdf": DPEmpiricalCDF(n_cells=50),
    "ulsif": DPuLSIF(n_centers=10),
    "logistic": DPLogisticRatio(),
    # Of labels 0 and 1, as marks are.
    "vote": DPSubsampleAggregate(
        DecisionTreeClassifier(max_depth=1),
        public=np.random.default_rng(1).normal(size=(8, 4)),
        classes=[0, 1],
        n_blocks=3,
    ),
    "marginals": DPMarginalSynthesizer(domain=Bins.regular(-2, 2, 2)),
    "small_db": SmallDBReleaser(
        conjunctions(1), size=3, domain=Bins.regular(-2, 2, 2), candidates=20
    ),
    "mwem": MWEMReleaser(conjunctions(1), domain=Bins.regular(-2, 2, 2), n_rounds=2),
    "online": PrivateMultiplicativeWeights(Bins.regular(-2, 2, 2), n_updates=2),
}
# These take cells of any kind: a domain says what becomes of them.
RELEASERS = ["marginals", "small_db", "mwem", "online"]
# Its labels, bounds and public rows, and private rows of any values, are in test_ensemble.py.
APART = ["vote"]
# Other code for private rows of any values; what is refused before, is refused by the same code.
VARIANTS = {
    "ulsif_noisy": DPuLSIF("noisy", n_centers=5, noise="independent"),
    "ulsif_basis": DPuLSIF(basis=PolynomialFeatures(2), basis_bounds=(-5, 5)),
}
# Of two samples: fitted with marks, y = 1 for a private row and y = 0 for a public one.
MARKED = {
    name: e
    for name, e in ESTIMATORS.items()
    if get_tags(e).target_tags.required and name not in APART
}
BOUNDED = {name: e for name, e in ESTIMATORS.items() if hasattr(e, "bounds") and name not in APART}
every_estimator = pytest.mark.parametrize("kind", ESTIMATORS)
every_numeric_estimator = pytest.mark.parametrize(
    "kind", [kind for kind in ESTIMATORS if kind not in RELEASERS]
)
every_releaser = pytest.mark.parametrize("kind", RELEASERS)
every_variant = pytest.mark.parametrize(
    "kind", [name for name in (*ESTIMATORS, *VARIANTS) if name not in APART]
)
every_estimator_of_two_samples = pytest.mark.parametrize("kind", MARKED)
every_bounded_estimator = pytest.mark.parametrize("kind", BOUNDED)
fitted_or_not = pytest.mark.parametrize("fitted", [False, True], ids=["unfitted", "fitted"])

GOOD = np.random.default_rng(0).normal(size=(60, 4))


def takes_marks(estimator):
    return get_tags(estimator).target_tags.required


def marks(X):
    """Return marks of as many rows as X has, if it has any number: the odd rows are private."""
    try:
        n = X.shape[0] if hasattr(X, "shape") else len(X)
    except (TypeError, IndexError):
        n = 2
    return np.arange(n) % 2


def fit(estimator, X):
    """Fit the estimator on these rows, marked if need be."""
    return estimator.fit(X, marks(X)) if takes_marks(estimator) else estimator.fit(X)


def score(estimator, X):
    return estimator.score(X, marks(X)) if takes_marks(estimator) else estimator.score(X)


def answer(estimator, X):
    """Return what the estimator says of rows."""
    known = ("predict", "transform", "score_samples")
    return getattr(estimator, next(m for m in known if hasattr(estimator, m)))(X)


def chain(error):
    """Return every text that an exception carries: messages, notes, causes and contexts."""
    texts, found, queue = [], set(), [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in found:
            continue
        found.add(id(one))
        texts += [str(one), repr(one), repr(one.args), *getattr(one, "__notes__", [])]
        queue += [one.__cause__, one.__context__]
    return "\n".join([*texts, *traceback.format_exception(error)])


@functools.cache
def _shared(kind, fitted):
    """Return an estimator with a budget of its own; tests work on copies, and charge nothing."""
    estimator = clone(ESTIMATORS[kind]).set_params(budget=PrivacyBudget(100.0, 1e-3))
    return fit(estimator, GOOD) if fitted else estimator


def prepared(kind, fitted, own_budget=None, **parameters):
    """Return a copy of an estimator, fitted on good rows if asked for, with a budget."""
    if own_budget is None:
        return copy.deepcopy(_shared(kind, fitted)).set_params(**parameters)
    estimator = clone(ESTIMATORS[kind]).set_params(budget=own_budget)
    return (fit(estimator, GOOD) if fitted else estimator).set_params(**parameters)


def named(value):
    """Return the name of a test's parameter, the same in every process."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, tuple) and all(isinstance(one, type) for one in value):
        return "-".join(one.__name__ for one in value)
    text = repr(value)
    return type(value).__name__ if " at 0x" in text or len(text) > 30 else text


def refused(estimator, call, errors, match, *, charged=True):
    """Assert that the call is refused and leaves no trace; return the error's texts."""
    before = dict(vars(estimator))
    budget = estimator.budget if charged and isinstance(estimator.budget, PrivacyBudget) else None
    charges, spent = (budget.charges, budget.spent) if budget else (None, None)
    with pytest.raises(errors, match=match) as caught:
        call(estimator)
    texts = chain(caught.value)
    assert not [trace for trace in TRACES if trace in texts]
    # The same attributes, and the very same objects.
    assert vars(estimator).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(estimator).items())
    if not any(name.endswith("_") and not name.startswith("_") for name in before):
        with pytest.raises(NotFittedError):
            check_is_fitted(estimator)
    if budget:
        assert (budget.charges, budget.spent) == (charges, spent)
    return texts


# --- rows ---------------------------------------------------------------------------------------


def planted(value, dtype=float, shape=(40, 4), at=(17, 2)):
    """Return rows with a bad cell among cells that must not be quoted."""
    X = np.full(shape, NUMBER, dtype=dtype)
    X[at] = value
    return X


def frame(column):
    """Return a pandas table of numbers with a third column of other things."""
    n = len(column)
    return pd.DataFrame({"a": [NUMBER] * n, "b": [NUMBER] * n, "c": column, "d": [NUMBER] * n})


def bad_rows():
    """Yield (name, X, error, text that the message must hold)."""
    nothing = "NaN or infinity"
    text = "numeric"
    no_rows = "0 sample|no public row"  # of two samples there is none of either
    yield "nan", planted(np.nan), ValueError, nothing
    yield "infinity", planted(np.inf), ValueError, nothing
    yield "minus infinity", planted(-np.inf), ValueError, nothing
    yield "float32 nan", planted(np.nan, np.float32), ValueError, nothing
    # Far behind the first block.
    yield "late nan", planted(np.nan, shape=(300_000, 4), at=(299_999, 3)), ValueError, nothing
    yield "list nan", planted(np.nan).tolist(), ValueError, nothing
    yield "none", planted(None, object), ValueError, nothing
    yield "huge int", planted(10**400, object), ValueError, text
    yield "huge decimal", planted(decimal.Decimal("1e999"), object), ValueError, nothing
    yield "strings", np.full((40, 4), WORD), ValueError, text
    yield "one string", planted(WORD, object), ValueError, text
    yield "late string", planted(WORD, object, (40_000, 4), (39_999, 0)), ValueError, text
    yield "bytes", np.full((40, 4), WORD.encode()), ValueError, text
    yield "list string", planted(WORD, object).tolist(), ValueError, text
    yield "objects", planted(object(), object), TypeError, text
    yield "dicts", planted({WORD: NUMBER}, object), TypeError, text
    yield "lists", planted([WORD], object), (TypeError, ValueError), text
    yield "complex", planted(1j, complex), ValueError, "[Cc]omplex"
    yield "complex object", planted(1j, object), (TypeError, ValueError), "[Cc]omplex|numeric"
    yield "dates", np.full((4, 4), "2020-01-01", "datetime64[D]"), TypeError, text
    yield "durations", np.ones((4, 4), "timedelta64[s]"), TypeError, text
    yield "pandas nan", frame([1.0, np.nan, 2.0]), ValueError, nothing
    yield "pandas na", frame(pd.array([1, None, 2], "Int64")), ValueError, nothing
    yield "pandas strings", frame([WORD, WORD, "x"]), ValueError, text
    yield "pandas objects", frame([1, WORD, {}]), (TypeError, ValueError), text
    yield "pandas category", frame(pd.Categorical([WORD, "b", WORD])), ValueError, text
    yield "pandas dates", frame(pd.to_datetime(["2020-01-01"] * 3)), TypeError, text
    yield "pandas durations", frame(pd.to_timedelta([1, 2, 3], "s")), TypeError, text
    yield "polars null", pl.DataFrame({"a": [NUMBER, None], "b": [1.0, 2.0]}), ValueError, nothing
    yield "polars strings", pl.DataFrame({"a": [WORD, "b"], "b": [1.0, 2.0]}), ValueError, text
    yield (
        "polars dates",
        pl.DataFrame({"a": [datetime.date(2020, 1, 1)] * 2}),
        (TypeError, ValueError),
        text,
    )
    yield "pyarrow null", pa.table({"a": [NUMBER, None], "b": [1.0, 2.0]}), ValueError, nothing
    yield "pyarrow strings", pa.table({"a": [WORD, "b"], "b": [1.0, 2.0]}), ValueError, text
    yield "one dimension", np.full(20, NUMBER), ValueError, "2D array"
    yield "three dimensions", np.full((4, 4, 4), NUMBER), ValueError, "2D array"
    yield "no dimension", np.float64(NUMBER), ValueError, "2D array"
    yield "number", NUMBER, ValueError, "2D array"
    yield "word", WORD, ValueError, "2D array"
    yield "nothing", None, ValueError, "2D array"
    yield "dict", {"a": [NUMBER]}, ValueError, "2D array"
    yield "pandas column", frame([1.0, 2.0])["a"], ValueError, "2D array"
    yield "polars column", pl.Series("a", [NUMBER, 1.0]), ValueError, "2D array"
    yield "ragged", [[NUMBER, 1.0], [NUMBER]], ValueError, "X must be"
    yield "structured", np.zeros(4, dtype=[("a", float), ("b", float)]), ValueError, "X must"
    yield "no rows", np.empty((0, 4)), ValueError, no_rows
    yield "no columns", np.empty((4, 0)), ValueError, "0 feature"
    yield "neither", np.empty((0, 0)), ValueError, "0 (sample|feature)"
    yield "empty list", [], ValueError, "2D array"
    yield "pandas no rows", frame([]), ValueError, no_rows
    yield "pandas no columns", pd.DataFrame(index=[0, 1]), ValueError, "0 feature"
    yield "polars no rows", pl.DataFrame({"a": [], "b": []}), ValueError, no_rows
    for form in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
        for kind in ("array", "matrix"):
            X = getattr(sparse, f"{form}_{kind}")(planted(0.0))
            yield f"sparse {form} {kind}", X, TypeError, "sparse"


BAD_ROWS = [pytest.param(*case[1:], id=case[0]) for case in bad_rows()]


@fitted_or_not
@pytest.mark.parametrize(("X", "errors", "match"), BAD_ROWS)
@every_numeric_estimator
def test_bad_rows(kind, X, errors, match, fitted):
    refused(prepared(kind, fitted), lambda e: fit(e, X), errors, match)


@pytest.mark.parametrize(("X", "errors", "match"), BAD_ROWS)
@every_numeric_estimator
def test_bad_rows_after_fit(kind, X, errors, match):
    """The caller's own argument may be private to the caller: the same texts."""
    estimator = prepared(kind, fitted=True)
    for method in ("transform", "predict", "inverse_transform", "score_samples", "pdf"):
        if hasattr(estimator, method):
            refused(estimator, lambda e, m=method: getattr(e, m)(X), errors, match)
    if hasattr(estimator, "score"):
        refused(estimator, lambda e: score(e, X), errors, match)


OF_CELLS = ("NaN or infinity", "numeric", "[Cc]omplex|numeric")
BAD_TABLES = [pytest.param(*case[1:], id=case[0]) for case in bad_rows() if case[3] not in OF_CELLS]


@fitted_or_not
@pytest.mark.parametrize(("X", "errors", "match"), BAD_TABLES)
@every_releaser
def test_bad_tables(kind, X, errors, match, fitted):
    match = f"{match}|2D array"  # of objects, ragged rows are such
    refused(prepared(kind, fitted), lambda e: fit(e, X), errors, match)
    if fitted:
        match = f"{match}|at least one query|features"  # an empty list may be one of queries
        refused(prepared(kind, fitted), lambda e: e.predict(X), errors, match)


@fitted_or_not
@pytest.mark.parametrize(
    "X", [param.values[0] for param in BAD_ROWS if param.values[2] in OF_CELLS]
)
@every_releaser
def test_cells_outside_of_a_domain_that_refuses_them(kind, X, fitted):
    """The text says that there is one, and quotes none; clipped, they never raise."""
    columns = X.shape[1] if hasattr(X, "shape") else 4
    domain = Domain([Bins([-1.0, 0.0, 1.0])] * columns, outside="refuse")
    estimator = prepared(kind, fitted, domain=domain)
    refused(estimator, lambda e: fit(e, X), ValueError, "outside of the stated domain")
    domain = Domain([Bins([-1.0, 0.0, 1.0])] * columns)
    clone(ESTIMATORS[kind]).set_params(domain=domain).fit(X)


@every_estimator
def test_bad_rows_with_names(kind):
    """Names of columns are public; what stands in the columns is not."""
    estimator = prepared(kind, fitted=False)
    names = ["a", "b", "c", "d"]
    fit(estimator, pd.DataFrame(GOOD, columns=names))
    other = pd.DataFrame(GOOD, columns=names[::-1])
    refused(estimator, lambda e: answer(e, other), ValueError, "feature names")
    fit(estimator, GOOD)
    refused(estimator, lambda e: answer(e, GOOD[:, :3]), ValueError, "features")


@fitted_or_not
@pytest.mark.parametrize("name", ["sample_weight", "groups", "check_input"])
@every_estimator
def test_arguments_that_fit_does_not_take(kind, name, fitted):
    estimator = prepared(kind, fitted)
    weights = np.full(len(GOOD), NUMBER)
    for method in ("fit", "fit_transform", "fit_predict"):
        if hasattr(estimator, method):
            refused(
                estimator,
                lambda e, m=method: getattr(e, m)(GOOD, **{name: weights}),
                TypeError,
                name,
            )
    refused(estimator, lambda e: e.fit(GOOD, None, weights), TypeError, "positional argument")


def test_more_columns_than_the_kernel_takes():
    """Its norms are exact for 8192 columns; a table of more is refused before the charge."""
    X = np.full((3, 8193), NUMBER)
    refused(prepared("pca", fitted=False), lambda e: fit(e, X), ValueError, "8192 features")


# --- parameters -----------------------------------------------------------------------------------

PARAMETERS = [
    *[("epsilon", value, ValueError) for value in (0, 0.0, -1, -1e-300, np.nan, np.inf, -np.inf)],
    ("epsilon", 10**400, ValueError),
    *[("epsilon", value, TypeError) for value in ("1", "", True, None, 1j, [1.0], np.ones(1))],
    *[("delta", value, ValueError) for value in (1, 1.0, 1.5, -1e-9, np.nan, np.inf, -np.inf)],
    *[("delta", value, TypeError) for value in ("0", False, None, 0j, [0.0])],
    *[("budget", value, TypeError) for value in (1.0, "flights.budget", {}, PrivacyBudget)],
    *[("random_state", value, ValueError) for value in ("0", 1.5, [0], True)],
    ("random_state", np.random.default_rng(0), ValueError),
]


@fitted_or_not
@pytest.mark.parametrize(("name", "value", "error"), PARAMETERS, ids=named)
@every_estimator
def test_bad_privacy_parameters(kind, name, value, error, fitted):
    estimator = prepared(kind, fitted, **{name: value})
    refused(estimator, lambda e: fit(e, np.full((20, 4), NUMBER)), error, name)
    if name in ("epsilon", "delta", "budget"):
        refused(estimator, lambda e: e.privacy_cost(), error, name)


BOUNDS = [
    ("reversed", (1, 0), ValueError),
    ("one reversed", ([0, 0, 5, 0], [1, 1, 4, 1]), ValueError),
    ("too short", ([0, 0], [1, 1]), ValueError),
    ("too long", ([0] * 5, 1), ValueError),
    ("no entries", ([], []), ValueError),
    ("two dimensions", (np.zeros((1, 4)), np.ones((1, 4))), ValueError),
    ("nan", (0, np.nan), ValueError),
    ("infinity", (-np.inf, np.inf), ValueError),
    ("one nan", ([0, 0, np.nan, 0], 1), ValueError),
    ("none in it", (None, 1), (TypeError, ValueError)),
    ("too large for a float", (0, 10**400), ValueError),
    ("other word", "public", ValueError),
    ("empty word", "", ValueError),
    ("words", ("a", "b"), TypeError),
    ("number", 5, TypeError),
    ("none", None, TypeError),
    ("one side", (1,), TypeError),
    ("three sides", (0, 1, 2), TypeError),
    ("complex", (0, 1j), TypeError),
    ("objects", (object(), object()), TypeError),
    ("dates", (np.datetime64("2020"), np.datetime64("2021")), TypeError),
]


@fitted_or_not
@pytest.mark.parametrize(
    ("bounds", "error"), [pytest.param(*case[1:], id=case[0]) for case in BOUNDS]
)
@every_bounded_estimator
def test_bad_bounds(kind, bounds, error, fitted):
    if kind in MARKED and bounds == "public":  # their default; they learn none
        bounds = "private"
    estimator = prepared(kind, fitted, bounds=bounds)
    refused(estimator, lambda e: fit(e, np.full((20, 4), NUMBER)), error, "bounds")


CANDIDATES = [("ulsif", "gamma"), ("ulsif", "alpha")]
QUANTILES = ("median", "quantile", "robust_scaler", "quantile_transformer")
OWN = [
    *[("pca", "norm_bound", v, ValueError) for v in (0, -1.0, np.nan, np.inf, "big", 10**400)],
    *[("pca", "norm_bound", v, TypeError) for v in (True, None, [1.0, 2.0])],
    *[("pca", "center", v, ValueError) for v in ([0, 0], np.nan, [0, 0, 0, np.inf])],
    *[("pca", "center", v, (TypeError, ValueError)) for v in ("middle", None, object(), 10**400)],
    *[("pca", "n_components", v, ValueError) for v in (0, -1, 5)],
    *[("pca", "n_components", v, TypeError) for v in (0.9, "mle", True)],
    *[("pca", "noise", v, (TypeError, ValueError)) for v in ("normal", "gaussian", None, 1)],
    *[("pca", "whiten", v, TypeError) for v in ("no", None, 2)],
    *[("kmeans", "n_clusters", v, ValueError) for v in (0, -3)],
    *[("kmeans", "n_clusters", v, TypeError) for v in (2.0, "8", None, True)],
    *[("kmeans", "max_iter", v, ValueError) for v in (0, -1)],
    *[("kmeans", "max_iter", v, TypeError) for v in (1.0, "5", None, True)],
    *[("kmeans", "algorithm", v, (TypeError, ValueError)) for v in ("elkan", None, 1, [])],
    *[("standard_scaler", name, "no", TypeError) for name in ("with_mean", "with_std")],
    *[("minmax_scaler", "feature_range", v, ValueError) for v in ((1, 1), (0, np.nan), 5)],
    *[("minmax_scaler", "q", v, (TypeError, ValueError)) for v in ("low", 0, 0.7, None, True)],
    ("minmax_scaler", "clip", "no", TypeError),
    *[("quantile", "q", v, ValueError) for v in ([], (), -0.1, 1.5, np.nan, [0.5, np.inf])],
    *[("quantile", "q", v, ValueError) for v in ([0.5, 0.25], [0.5, 0.5], [[0.1, 0.5]])],
    *[("quantile", "q", v, TypeError) for v in ("median", None, True, 1j, {}, [None], object())],
    *[("median", "mechanism", v, ValueError) for v in ("laplace", "", None, 1, [])],
    *[("quantile", "mechanism", v, ValueError) for v in ("laplace", "", None, 1, [])],
    *[("median", "noise", v, ValueError) for v in ("normal", None, 1, [])],
    *[(k, "step", v, ValueError) for k in QUANTILES for v in (0, -1.0, np.nan, np.inf, 10**400)],
    *[(k, "step", v, TypeError) for k in QUANTILES for v in ("1", True, 1j, [1.0])],
    *[(k, "prior", v, ValueError) for k in QUANTILES for v in ("normal", "", None, 1, [])],
    *[("robust_scaler", name, "no", TypeError) for name in ("with_centering", "with_scaling")],
    ("robust_scaler", "unit_variance", 1, TypeError),
    *[("robust_scaler", "quantile_range", v, ValueError) for v in ((75, 25), (5, 5), (-1, 50))],
    *[("robust_scaler", "quantile_range", v, ValueError) for v in ((1, 101), 5, "all", None)],
    *[("quantile_transformer", "n_quantiles", v, ValueError) for v in (0, 2, -5, 10_001)],
    *[("quantile_transformer", "n_quantiles", v, TypeError) for v in (5.0, "9", None, True)],
    *[("quantile_transformer", "output_distribution", v, ValueError) for v in ("log", None, 1)],
    *[("kernel_density", "bandwidth", v, ValueError) for v in (0, -1.0, np.nan, np.inf, "scott")],
    *[("kernel_density", "bandwidth", v, TypeError) for v in (None, True, 1j, [1.0])],
    *[("kernel_density", "spacing", v, ValueError) for v in (0, 0.39, 1.6, np.nan)],
    *[("kernel_density", "spacing", v, TypeError) for v in ("wide", None, True)],
    *[("kernel_density", "features", v, ValueError) for v in ("gaussian", "", None, 1, [])],
    ("kernel_density", "bounds", (0, 1e101), ValueError),
    *[("histogram_density", "bins", v, ValueError) for v in (0, -1, "sturges", "", 2**6, [2, 3])],
    *[("histogram_density", "bins", v, ValueError) for v in ([1, 2, 3, [0.0, np.nan]], np.ones(3))],
    *[("histogram_density", "bins", v, (TypeError, ValueError)) for v in (None, True, 2.5, {})],
    *[("ulsif", "centers", v, ValueError) for v in ("private", "", 1, None, [1.0], [], object())],
    *[("ulsif", "centers", v, ValueError) for v in (np.ones((3, 2)), np.full((3, 4), np.nan))],
    ("ulsif", "centers", np.ones((2001, 4)), ValueError),
    *[("ulsif", "n_centers", v, ValueError) for v in (0, -1, 2001)],
    *[("ulsif", "n_centers", v, TypeError) for v in (2.0, "8", None, True)],
    *[("ulsif", "kernel", v, ValueError) for v in ("gaussian", "", None, 1, [], np.exp)],
    *[(k, n, v, ValueError) for k, n in CANDIDATES for v in (0, -1.0, np.nan, np.inf, "auto", "")],
    *[(k, n, v, ValueError) for k, n in CANDIDATES for v in ([], [1.0, 0.0], [[1.0]], [1.0] * 101)],
    *[
        (k, n, v, (TypeError, ValueError))
        for k, n in CANDIDATES
        for v in (None, True, 1j, {}, 10**400)
    ],
    ("ulsif", "gamma", [1.0] * 9, ValueError),
    *[
        ("logistic", "alpha", v, ValueError)
        for v in (0, -1.0, 1e-7, 1e13, np.nan, np.inf, "private")
    ],
    *[("logistic", "alpha", v, TypeError) for v in (None, True, 1j, [1.0], {})],
    ("logistic", "alpha", 10**400, (TypeError, ValueError)),
    *[("ulsif", "noise", v, ValueError) for v in ("gaussian", "", None, 1, [])],
    *[("ulsif", "nonnegative", v, ValueError) for v in ("no", None, True)],
    *[("ulsif", "baseline", v, ValueError) for v in (-1, np.nan, np.inf)],
    *[("ulsif", "baseline", v, TypeError) for v in ("1", None, True)],
    *[("ulsif", "sampling_rate", v, ValueError) for v in (0, -0.5, 1.5, np.nan)],
    *[("ulsif", "sampling_rate", v, TypeError) for v in ("0.5", True, [0.5])],
    # The noise is scaled to the stated bounds: a basis has none of its own.
    ("ulsif", "basis", PolynomialFeatures(), ValueError),
    ("ulsif", "basis_bounds", (0, 1), ValueError),
    *[("marginals", "max_cells", v, ValueError) for v in (0, 7, -1, 2**23)],
    *[("marginals", "max_cells", v, TypeError) for v in (None, 8.0, True, "all", [8])],
    *[("marginals", "domain", v, TypeError) for v in (None, 2.0, "all", [2] * 4, True, object())],
    *[("marginals", "domain", v, ValueError) for v in (0, -2, 2**20, Domain([2] * 3), {"a": 2})],
    *[("marginals", "queries", v, TypeError) for v in (1, "all", object(), [1], np.ones(4))],
    *[("marginals", "queries", v, ValueError) for v in ([], conjunctions(5))],
    *[("small_db", "alpha", v, ValueError) for v in (0, 1, 1.5, -0.1, np.nan, np.inf)],
    *[("small_db", "alpha", v, TypeError) for v in ("0.1", None, True, 1j, [0.1])],
    *[("small_db", "size", v, ValueError) for v in (0, -1, 2**40, "all", "")],
    *[("small_db", "size", v, TypeError) for v in (2.0, None, True, [3])],
    *[("small_db", "candidates", v, ValueError) for v in (0, -1, 2**40, "some", "")],
    *[("small_db", "candidates", v, TypeError) for v in (2.0, None, True, [3])],
    *[("small_db", "domain", v, TypeError) for v in (None, 2.0, "all", [2] * 4, True, object())],
    *[("small_db", "domain", v, ValueError) for v in (0, -2, 2**20, Domain([2] * 3), {"a": 2})],
    *[("small_db", "queries", v, TypeError) for v in (None, 1, "all", object(), [1], np.ones(4))],
    *[("small_db", "queries", v, ValueError) for v in ([], conjunctions(5))],
    *[("mwem", "n_rounds", v, ValueError) for v in (0, -1, 2**40, "all", "")],
    *[("mwem", "n_rounds", v, TypeError) for v in (2.0, None, True, [3])],
    *[("mwem", "measure", v, ValueError) for v in ("", "cells", None, 1, [1])],
    *[("mwem", "domain", v, TypeError) for v in (None, 2.0, "all", [2] * 4, object())],
    *[("mwem", "domain", v, ValueError) for v in (0, 2**10, Domain([2] * 3), {"a": 2})],
    *[("mwem", "queries", v, TypeError) for v in (None, 1, "all", object(), [1], np.ones(4))],
    *[("mwem", "queries", v, ValueError) for v in ([], conjunctions(5))],
    *[("online", "alpha", v, ValueError) for v in (0, 1, 1.5, -0.1, np.nan, np.inf)],
    *[("online", "alpha", v, TypeError) for v in ("0.1", None, True, 1j, [0.1])],
    *[("online", "n_updates", v, ValueError) for v in (0, -1, 2**60, "all", "")],
    *[("online", "n_updates", v, TypeError) for v in (2.0, None, True, [3])],
    *[("online", "domain", v, ValueError) for v in (0, 2**10, Domain([2] * 3), {"a": 2})],
]


@fitted_or_not
@pytest.mark.parametrize(("kind", "name", "value", "error"), OWN, ids=named)
def test_bad_parameters_of_their_own(kind, name, value, error, fitted):
    estimator = prepared(kind, fitted, **{name: value})
    refused(estimator, lambda e: fit(e, np.full((20, 4), NUMBER)), error, name)


@fitted_or_not
@pytest.mark.parametrize(
    "value",
    [(0, np.inf), (-np.inf, 0), (0, np.nan), (1, 0), (None, 1), (0,), 5, "private", "public", {},
     ([0] * 4, [1] * 4), ([], []), (np.zeros((1, 5)), np.ones((1, 5))), (0, 10**400), (0, 1j)],
    ids=named,
)  # fmt: skip
def test_bounds_that_do_not_bound_a_basis(value, fitted):
    estimator = prepared("ulsif", fitted, basis=PolynomialFeatures(1), basis_bounds=value)
    refused(estimator, lambda e: fit(e, GOOD), (TypeError, ValueError), "basis_bounds")


@fitted_or_not
@pytest.mark.parametrize("value", [5, "poly", PolynomialFeatures, abs, {}], ids=named)
def test_a_basis_that_is_no_transformer(value, fitted):
    estimator = prepared("ulsif", fitted, basis=value, basis_bounds=(0, 1))
    refused(estimator, lambda e: fit(e, GOOD), TypeError, "basis")


@pytest.mark.parametrize(
    "output", [lambda X: X[:1], lambda X: X[0], lambda X: X[:, :0]], ids=range(3)
)
def test_a_basis_that_gives_no_row_for_every_row(output):
    transformer = FunctionTransformer(output)
    estimator = prepared("ulsif", False, basis=transformer, basis_bounds=(-9, 9))
    refused(estimator, lambda e: fit(e, GOOD), ValueError, "basis")


@fitted_or_not
@pytest.mark.parametrize(
    ("queries", "error", "match"),
    [
        (linear_queries(np.ones((2, 15))), ValueError, "q has 15 cells a query.* 16"),
        (linear_queries(lambda row: row[0] + 2), ValueError, r"q must lie in \[0, 1\].* 3\.0"),
        (linear_queries(lambda row: np.nan), ValueError, "q must lie in .* nan"),
        (lambda row: None, TypeError, "q must return numbers.* NoneType"),
        (conjunctions(2, columns=[0, 4]), ValueError, "no column 4"),
        (conjunctions(2, columns=["a", "b"]), ValueError, "no column 'a'"),
        (conjunctions(2, columns=[0, 0]), ValueError, "columns must be distinct"),
        (conjunctions(2, columns=[1]), ValueError, "order=2 is above"),
        (conjunctions(1, monotone=True, values=9), ValueError, "values: 9 is not in the domain"),
        (thresholds(["b"]), ValueError, "no column 'b'"),
    ],
)
def test_queries_that_do_not_fit_the_domain(queries, error, match, fitted):
    estimator = prepared("small_db", fitted, queries=queries)
    refused(estimator, lambda e: fit(e, GOOD), error, match)


@pytest.mark.parametrize("size", [3, "auto", "source", 10**6])
def test_too_many_small_tables(size):
    """Refused with the sizes, and what to use instead; at once, however many there are."""
    estimator = prepared("small_db", False, candidates="all", size=size, domain=100)
    match = "400 queries on a domain of 100,000,000 cells.*MWEMReleaser"
    refused(estimator, lambda e: fit(e, GOOD), ValueError, match)


# --- marks --------------------------------------------------------------------------------------

TURNS = np.arange(60) % 2


def bad_marks():
    """Yield (name, y, text that the message must hold)."""
    other = "y must mark every row.* 1 for a private row, 0 for a public one"
    yield "none", None, "requires y to be passed"
    yield "no private row", np.zeros(60), "y marks no private row"
    yield "no public row", np.ones(60), "y marks no public row"
    yield "codes 1 and 2", TURNS + 1, other
    yield "codes -1 and 1", 2 * TURNS - 1, other
    yield "a third value", np.where(np.arange(60) == 7, 2, TURNS), other
    yield "a weight", np.where(np.arange(60) == 7, NUMBER, TURNS), other
    yield "nan", np.where(np.arange(60) == 7, np.nan, TURNS), other
    yield "words", np.where(TURNS == 1, WORD, "public"), other
    yield "a word", np.where(np.arange(60) == 7, WORD, TURNS.astype(object)), other
    yield "pandas words", pd.Series(np.where(TURNS == 1, WORD, "public")), other
    yield "pandas na", pd.array([1, None, 0] * 20, "Int64"), other
    yield "two columns", np.column_stack([TURNS, TURNS]), other
    yield "a number", 1, other
    yield "too short", TURNS[:59], "y must have as many entries as X has rows"
    yield "too long", np.append(TURNS, 1), "y must have as many entries as X has rows"


BAD_MARKS = [pytest.param(*case[1:], id=case[0]) for case in bad_marks()]


@fitted_or_not
@pytest.mark.parametrize(("y", "match"), BAD_MARKS)
@every_estimator_of_two_samples
def test_bad_marks(kind, y, match, fitted):
    X = GOOD + NUMBER
    refused(prepared(kind, fitted), lambda e: e.fit(X, y), ValueError, match)
    if fitted:
        refused(prepared(kind, fitted), lambda e: e.score(X, y), ValueError, match)


@every_estimator_of_two_samples
def test_marks_are_not_left_out(kind):
    for call in (lambda e: e.fit(GOOD), lambda e: e.fit(GOOD, groups=TURNS)):
        refused(prepared(kind, False), call, TypeError, "'y'|groups")


@every_estimator_of_two_samples
def test_a_bad_public_row_is_refused_like_a_private_one(kind):
    for place in (4, 5):
        X = GOOD + NUMBER
        X[place, 1] = np.nan
        refused(
            prepared(kind, False), lambda e, X=X: e.fit(X, TURNS), ValueError, "NaN or infinity"
        )


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_published_rows_need_their_share_as_delta(adjacency):
    """Variant C: refused before the warning and the charge, if delta is below what it publishes."""
    budget = PrivacyBudget(100.0, 0.9, adjacency=adjacency)
    estimator = DPuLSIF("published_private_rows", n_centers=6, budget=budget)
    rate = 0.2  # 6 of 30 private rows
    if adjacency == "add_or_remove_one":
        # The share itself would tell the number of private rows.
        estimator.set_params(delta=0.5)
        refused(estimator, lambda e: e.fit(GOOD, TURNS), ValueError, "sampling_rate must be given")
        estimator.set_params(sampling_rate=rate)
    for delta in (0.0, 1e-6, np.nextafter(rate, 0)):
        estimator.set_params(delta=delta)
        refused(estimator, lambda e: e.fit(GOOD, TURNS), ValueError, "delta must be at least 0.2")
    # A budget of less delta than that refuses as well.
    estimator.set_params(delta=rate, budget=PrivacyBudget(100.0, 0.1, adjacency=adjacency))
    with pytest.warns(PublishedRowsWarning):
        refused(estimator, lambda e: e.fit(GOOD, TURNS), BudgetExceededError, "delta")


# --- budgets and ledgers --------------------------------------------------------------------------


@fitted_or_not
@every_estimator
def test_budget_too_small(kind, fitted):
    first = prepared(kind, fitted)
    for budget, privacy in (
        (PrivacyBudget(0.5, 1e-3), {"epsilon": 1.0}),
        (PrivacyBudget(5.0), {"epsilon": 1.0, "delta": 1e-6}),
        (PrivacyBudget(5.0, 1e-9), {"epsilon": 1.0, "delta": 1e-6}),
        (PrivacyBudget(1.0, 1e-6, accountant="gdp"), {"epsilon": 1.1, "delta": 1e-6}),
    ):
        first.set_params(budget=budget, **privacy)
        text = refused(first, lambda e: fit(e, GOOD), BudgetExceededError, "budget")
        assert "Nothing was charged" in text
        assert budget.charges == []


def ledgered(kind, fitted, path):
    """Return the estimator with a budget whose ledger has this path."""
    return prepared(kind, fitted, PrivacyBudget(100.0, 1e-3, ledger=path))


@fitted_or_not
@every_estimator
def test_ledger_deleted(kind, fitted, tmp_path):
    path = tmp_path / "a.budget"
    estimator = ledgered(kind, fitted, path)
    path.unlink()
    refused(
        estimator, lambda e: fit(e, GOOD), SealedBudgetError, "budget.*a\\.budget", charged=False
    )
    assert estimator.budget.sealed
    assert not path.exists()  # and nothing made it anew


@fitted_or_not
@every_estimator
def test_budget_sealed(kind, fitted, tmp_path):
    """As a model is after it was unpickled where its ledger is not."""
    path = tmp_path / "a.budget"
    model = pickle.dumps(ledgered(kind, fitted, path))
    path.rename(tmp_path / "elsewhere")
    estimator = pickle.loads(model)
    assert estimator.budget.sealed
    refused(estimator, lambda e: fit(e, GOOD), SealedBudgetError, "budget", charged=False)
    if fitted:
        assert len(answer(estimator, GOOD)) == len(GOOD)


@fitted_or_not
@every_estimator
def test_ledger_of_another_kind(kind, fitted, tmp_path):
    path = tmp_path / "a.budget"
    estimator = ledgered(kind, fitted, path)
    for content in (b"not a ledger at all, " * 100, b"", b"SQLite format 3\0" + bytes(4000)):
        path.write_bytes(content)
        refused(
            estimator,
            lambda e: fit(e, GOOD),
            (LedgerError, SealedBudgetError),
            "ledger.*a\\.budget",
            charged=False,
        )
        assert path.read_bytes() == content
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE flights (delay REAL)")
    other.close()
    refused(
        estimator,
        lambda e: fit(e, GOOD),
        (LedgerError, SealedBudgetError),
        "ledger.*a\\.budget",
        charged=False,
    )
    # Nor can a budget be made on such a file.
    for ledger in (path, tmp_path, tmp_path / "nowhere" / "b.budget"):
        with pytest.raises(LedgerError, match="ledger"):
            PrivacyBudget(1.0, ledger=ledger)


@fitted_or_not
@every_estimator
def test_ledger_locked(kind, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "_TIMEOUT", 0.05)
    path = tmp_path / "a.budget"
    estimator = ledgered(kind, fitted, path)
    before = estimator.budget.charges
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    refused(estimator, lambda e: fit(e, GOOD), LedgerError, "ledger.*locked", charged=False)
    holder.execute("ROLLBACK")
    holder.close()
    assert estimator.budget.charges == before
    fit(estimator, GOOD)


@fitted_or_not
@every_estimator
def test_disk_full(kind, fitted, tmp_path, monkeypatch):
    path = tmp_path / "a.budget"
    estimator = ledgered(kind, fitted, path)
    connect = ledger_module.Ledger._connect

    def full(ledger, mode):
        connection = connect(ledger, mode)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(ledger_module.Ledger, "_connect", full)
    for size in (2000, 300, 0):  # fill the pages, until nothing as short as a fit's charge fits
        with pytest.raises(LedgerError, match="disk is full"):
            while True:
                estimator.budget.charge(Cost(1.0), estimator="", note="x" * size)
    refused(estimator, lambda e: fit(e, GOOD), LedgerError, "ledger.*disk is full")


@pytest.fixture
def open_folder():
    """Make a folder that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="skdp-test-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@fitted_or_not
@every_estimator
def test_ledger_read_only(kind, fitted, open_folder):
    path = open_folder / "a.budget"
    estimator = ledgered(kind, fitted, path)
    before = estimator.budget.charges
    path.chmod(0o444)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # permissions bind ordinary users only, and the tests may be run by root
        verdict = "as it should be"
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            refused(estimator, lambda e: fit(e, GOOD), LedgerError, "ledger.*must be writable")
        except BaseException as error:
            verdict = "".join(traceback.format_exception(error))
        finally:
            os.write(write, verdict.encode()[:60_000])
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read().decode() == "as it should be"
    os.waitpid(pid, 0)
    assert estimator.budget.charges == before


# --- what depends on private values is never refused ---------------------------------------------

ADJACENCIES = ("replace_one", "add_or_remove_one")


class Unmetered(PrivacyBudget):
    """A budget that grants everything and writes nothing."""

    def charge(self, cost, **facts):
        return None

    def describe(self, charge, *facts, **more):
        return None


UNMETERED = {adjacency: Unmetered(1.0, adjacency=adjacency) for adjacency in ADJACENCIES}


def private_tables():
    """Yield (name, X): rows that are awkward, but rows."""
    rng = np.random.default_rng(1)
    yield "one row", np.array([[1.0, 2.0, 3.0]])
    yield "fewer rows than clusters", rng.normal(size=(2, 3))
    yield "twenty rows", rng.normal(size=(20, 3))
    yield "all rows equal", np.tile([[5.0, -7.0, 0.1]], (50, 1))
    yield "all zero", np.zeros((50, 3))
    yield "a constant column", np.column_stack([rng.normal(size=(50, 2)), np.full(50, 3.0)])
    yield "two values", np.repeat([[0.0, 0.0], [1.0, 1.0]], 25, axis=0)
    yield "an outlier", np.concatenate([rng.normal(size=(50, 3)), np.full((1, 3), 1e300)])
    yield "huge", rng.choice([-1e308, 1e308], size=(50, 3))
    yield "tiny", rng.choice([-5e-324, 5e-324], size=(50, 3))
    yield "one column", rng.normal(size=(50, 1))
    yield "more columns than rows", rng.normal(size=(5, 12))
    yield "booleans", rng.integers(0, 2, size=(50, 3)).astype(bool)
    yield "int8", rng.integers(-128, 128, size=(50, 3)).astype(np.int8)


def among_public(X):
    """Return (X, y): these private rows among public ones."""
    public = np.random.default_rng(2).normal(size=(8, X.shape[1]))
    table = np.concatenate([public[:3], X, public[3:]])
    return table, np.repeat([0, 1, 0], [3, len(X), 5])


def fit_private(estimator, X):
    """Fit the estimator on private rows that these are; there may be none of them."""
    return estimator.fit(*(among_public(X) if takes_marks(estimator) else (X,)))


def released(estimator):
    """Yield every fitted array or number of an estimator."""
    for name, value in vars(estimator).items():
        if name.endswith("_") and name not in ("privacy_", "feature_names_in_", "domain_"):
            parts = value if isinstance(value, tuple) else (value,)
            for part in parts:
                if part is not None and not isinstance(part, str):
                    yield name, np.asarray(part, dtype=float)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("X", [pytest.param(X, id=name) for name, X in private_tables()])
@every_variant
def test_private_values_never_raise(kind, X, adjacency):
    if kind == "kernel_density" and X.shape[1] > 10:
        return  # refused: the number of columns is public
    for privacy in ({"epsilon": 1e-6}, {"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 1e6}):
        e = clone({**ESTIMATORS, **VARIANTS}[kind])
        e.set_params(budget=UNMETERED[adjacency], **privacy)
        if "n_components" in e.get_params():
            e.set_params(n_components=1)
        fit_private(e, X)
        for name, value in released(e):
            assert np.all(np.isfinite(value)), name
        if hasattr(e, "transform"):
            assert not np.isnan(e.transform(X)).any()
        if hasattr(e, "predict"):
            assert len(e.predict(X)) == len(X)
        if hasattr(e, "score"):
            assert not np.isnan(e.score(*(among_public(X) if takes_marks(e) else (X,))))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("X", [pytest.param(X, id=name) for name, X in private_tables()])
@pytest.mark.parametrize("kind", [*BOUNDED, "ulsif_noisy"])
def test_private_values_never_raise_within_stated_bounds(kind, X, adjacency):
    """Bounds of zero width, bounds that hold no row, bounds that hold them all."""
    if kind == "kernel_density" and X.shape[1] > 10:
        return  # refused: the number of columns is public
    for bounds in ((0, 0), (1e6, 1e6 + 1), (-1e100, 1e100), (0, 1e-300)):
        for privacy in ({"epsilon": 0.1}, {"epsilon": 1.0, "delta": 1e-6}):
            e = clone({**ESTIMATORS, **VARIANTS}[kind])
            e.set_params(budget=UNMETERED[adjacency], bounds=bounds, **privacy)
            fit_private(e, X)
            for name, value in released(e):
                assert np.all(np.isfinite(value)), name


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@every_variant
def test_no_rows_are_rows_like_others_where_their_number_is_private(kind, delta):
    """An error, or no charge, would tell neighbours apart: a fold of a search may be empty."""
    budget = PrivacyBudget(10.0, 0.1, adjacency="add_or_remove_one")
    for n in (0, 1):
        X = np.zeros((n, 4))
        e = clone({**ESTIMATORS, **VARIANTS}[kind])
        e.set_params(budget=budget, epsilon=0.5, delta=delta)
        fit_private(e, X)
        for name, value in released(e):
            assert np.all(np.isfinite(value)), name
        for method in ("transform", "predict"):
            if hasattr(e, method):
                assert len(getattr(e, method)(X)) == n
        if hasattr(e, "score"):
            assert np.isfinite(e.score(*(among_public(X) if takes_marks(e) else (X,))))
    assert budget.spent.epsilon in (0.0, 1.0)  # nothing at all, or the same for both


# --- what depends on the public sample ------------------------------------------------------------


def public_tables():
    """Yield (name, X): public rows that are awkward, but rows."""
    for name, X in private_tables():
        if X.shape[1] == 3:
            yield name, X.astype(float)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("public", [pytest.param(X, id=name) for name, X in public_tables()])
@pytest.mark.parametrize("kind", [*MARKED, *VARIANTS])
def test_any_public_sample_gives_finite_weights(kind, public, adjacency):
    private = np.random.default_rng(3).normal(size=(30, 3))
    X, y = np.concatenate([private, public]), np.repeat([1, 0], [30, len(public)])
    for privacy in ({"epsilon": 1.0}, {"epsilon": 1e-3, "delta": 1e-6}):
        e = clone({**ESTIMATORS, **VARIANTS}[kind])
        e.set_params(budget=UNMETERED[adjacency], **privacy).fit(X, y)
        for name, value in released(e):
            assert np.all(np.isfinite(value)), name
        for rows in (X, np.sign(X) * 1e308, public[:1]):
            weights = e.predict(rows)
            assert np.all(np.isfinite(weights))
            assert np.all(weights >= 0)
        assert np.isfinite(e.score(X, y))
