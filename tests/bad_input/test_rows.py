"""Rows that no estimator takes: refused by name, for free, and no text quotes a cell."""

from __future__ import annotations

import datetime
import decimal
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter
from subjects import (
    ESTIMATORS,
    GOOD,
    NUMBER,
    WORD,
    answer,
    both,
    every_estimator,
    every_numeric_estimator,
    every_releaser,
    fit,
    marks,
    prepared,
    refused,
    score,
    takes_marks,
)

from skdp.synthetic import Bins, Domain
from tests.folding import each

# Those that take weights of rows.
WEIGHTED = {
    "bins", "gaussian_nb", "kmeans", "kmeans_lloyd", "logistic_regression", "ridge",
    "standard_scaler",
}  # fmt: skip


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
    yield "huge int", planted(10**400, object), ValueError, nothing
    yield "huge decimal", planted(decimal.Decimal("1e999"), object), ValueError, nothing
    yield "strings", np.full((40, 4), WORD), TypeError, text
    yield "one string", planted(WORD, object), TypeError, text
    yield "late string", planted(WORD, object, (2000, 4), (1999, 0)), TypeError, text
    yield "bytes", np.full((40, 4), WORD.encode()), TypeError, text
    yield "list string", planted(WORD, object).tolist(), TypeError, text
    yield "objects", planted(object(), object), TypeError, text
    yield "dicts", planted({WORD: NUMBER}, object), TypeError, text
    yield "lists", planted([WORD], object), TypeError, text
    yield "complex", planted(1j, complex), ValueError, "[Cc]omplex"
    yield "complex object", planted(1j, object), TypeError, text
    yield "dates", np.full((4, 4), "2020-01-01", "datetime64[D]"), TypeError, text
    yield "durations", np.ones((4, 4), "timedelta64[s]"), TypeError, text
    yield "pandas nan", frame([1.0, np.nan, 2.0]), ValueError, nothing
    yield "pandas na", frame(pd.array([1, None, 2], "Int64")), ValueError, nothing
    yield "pandas strings", frame([WORD, WORD, "x"]), TypeError, text
    yield "pandas objects", frame([1, WORD, {}]), TypeError, text
    yield "pandas category", frame(pd.Categorical([WORD, "b", WORD])), TypeError, text
    yield "pandas dates", frame(pd.to_datetime(["2020-01-01"] * 3)), TypeError, text
    yield "pandas durations", frame(pd.to_timedelta([1, 2, 3], "s")), TypeError, text
    yield "polars null", pl.DataFrame({"a": [NUMBER, None], "b": [1.0, 2.0]}), ValueError, nothing
    yield "polars strings", pl.DataFrame({"a": [WORD, "b"], "b": [1.0, 2.0]}), TypeError, text
    yield (
        "polars dates",
        pl.DataFrame({"a": [datetime.date(2020, 1, 1)] * 2}),
        TypeError,
        text,
    )
    yield "pyarrow null", pa.table({"a": [NUMBER, None], "b": [1.0, 2.0]}), ValueError, nothing
    yield "pyarrow strings", pa.table({"a": [WORD, "b"], "b": [1.0, 2.0]}), TypeError, text
    names = ["a", "b", "a", "c"]
    same = [pa.array([NUMBER, 1.0])] * 4
    yield "pandas names", pd.DataFrame(planted(1.0), columns=names), ValueError, "same name"
    yield "number names", pd.DataFrame(planted(1.0), columns=[0, 1, 0, 1]), ValueError, "same name"
    yield "pyarrow names", pa.Table.from_arrays(same, names=names), ValueError, "same name"
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
    for i, form in enumerate(("bsr", "coo", "csc", "csr", "dia", "dok", "lil")):
        kind = ("array", "matrix")[i % 2]
        X = getattr(sparse, f"{form}_{kind}")(planted(0.0))
        yield f"sparse {form} {kind}", X, TypeError, "sparse"


BAD_ROWS = [pytest.param(*case[1:], id=case[0]) for case in bad_rows()]


TAKES_SPARSE = {
    "nearest_centroid": ("fit", "predict", "score"),
    "pca": ("fit", "transform", "score_samples", "score"),
    "ridge": ("fit", "predict", "score"),
}


def takes(kind, method, X):
    """Whether sparse rows are no bad rows here."""
    return sparse.issparse(X) and method in TAKES_SPARSE.get(kind, ())


@each(("X", "errors", "match"), BAD_ROWS)
@every_numeric_estimator
def test_bad_rows(kind, X, errors, match):
    if takes(kind, "fit", X):
        return
    for estimator in both(kind):
        refused(estimator, lambda e: fit(e, X), errors, match)


@each(("X", "errors", "match"), BAD_ROWS)
@every_numeric_estimator
def test_bad_rows_after_fit(kind, X, errors, match):
    """The caller's own argument may be private to the caller: the same texts."""
    estimator = prepared(kind, fitted=True)
    for method in ("transform", "predict", "inverse_transform", "score_samples", "pdf"):
        if kind == "bins" and method == "inverse_transform":
            continue  # takes sparse rows, as transform may have made them
        if hasattr(estimator, method) and not takes(kind, method, X):
            refused(estimator, lambda e, m=method: getattr(e, m)(X), errors, match)
    if hasattr(estimator, "score") and not takes(kind, "score", X):
        refused(estimator, lambda e: score(e, X), errors, match)


OF_CELLS = ("NaN or infinity", "numeric", "[Cc]omplex|numeric")
BAD_TABLES = [pytest.param(*case[1:], id=case[0]) for case in bad_rows() if case[3] not in OF_CELLS]


@each(("X", "errors", "match"), BAD_TABLES)
@every_releaser
def test_bad_tables(kind, X, errors, match):
    match = f"{match}|2D array"  # of objects, ragged rows are such
    for estimator in both(kind):
        refused(estimator, lambda e: fit(e, X), errors, match)
    # An empty list may be one of queries; what is no table was meant for one.
    match = f"{match}|at least one query|features|queries must be"
    refused(estimator, lambda e: e.predict(X), (ValueError, TypeError), match)


def has_type(X):
    """Say whether a column's type, which is public, says that its cells are no numbers."""
    if not hasattr(X, "shape"):
        return False
    types = [X.dtype] if isinstance(X, np.ndarray) else getattr(X, "dtypes", X.columns)
    names = [str(getattr(dtype, "type", dtype)).lower() for dtype in types]
    words = ("date", "time", "str", "bytes")
    return any(word in name for name in names for word in words)


OF_TYPES, OF_VALUES = (
    [
        pytest.param(param.values[0], id=param.id)
        for param in BAD_ROWS
        if param.values[2] in OF_CELLS and has_type(param.values[0]) == typed
    ]
    for typed in (True, False)
)


@each("X", OF_TYPES)
@every_releaser
def test_columns_of_types_that_are_no_numbers(kind, X):
    """All their rows would go to one cell, and be paid for."""
    for outside in ("refuse", "clip"):
        domain = Domain([Bins([-1.0, 0.0, 1.0])] * X.shape[1], outside=outside)
        for estimator in both(kind, domain=domain):
            refused(estimator, lambda e: fit(e, X), TypeError, "(text|dates).*Bins")


@each("X", OF_VALUES)
@every_releaser
def test_cells_outside_of_a_domain_that_refuses_them(kind, X):
    """The text says that there is one, and quotes none; clipped, they never raise."""
    columns = X.shape[1] if hasattr(X, "shape") else 4
    domain = Domain([Bins([-1.0, 0.0, 1.0])] * columns, outside="refuse")
    for estimator in both(kind, domain=domain):
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


@each("name", ["sample_weight", "group", "check_input"])
@every_estimator
def test_arguments_that_fit_does_not_take(kind, name):
    if name == "sample_weight" and kind in WEIGHTED:
        return
    weights = np.full(len(GOOD), NUMBER)
    for estimator in both(kind):
        for method in ("fit", "fit_transform", "fit_predict"):
            if hasattr(estimator, method):
                refused(
                    estimator,
                    lambda e, m=method: getattr(e, m)(GOOD, **{name: weights}),
                    TypeError,
                    name,
                )
        refused(estimator, lambda e: e.fit(GOOD, None, weights), TypeError, "positional argument")


@every_estimator
def test_weights_of_rows_are_refused_with_the_reason(kind):
    """And scikit-learn, which reads signatures, sees that there are none."""
    estimator = prepared(kind, fitted=False)
    text = f"{type(estimator).__name__} takes no sample_weight: the weight of a row is private"
    assert has_fit_parameter(estimator, "sample_weight") == (kind in WEIGHTED)
    if kind in WEIGHTED:
        return
    texts = refused(
        estimator,
        lambda e: e.fit(GOOD, marks(GOOD), sample_weight=np.full(len(GOOD), NUMBER)),
        (TypeError, ValueError),
        re.escape(text),
    )
    assert "Nothing was charged" in texts


class OtherArray:
    """Stands in for arrays of torch, cupy and jax, which are not installed."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def __array_namespace__(self, api_version=None):
        return np

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return len(self.values)


@every_estimator
def test_arrays_of_other_libraries_are_refused_in_one_line(kind):
    estimator = prepared(kind, fitted=False)
    text = "^(X|y) is an array of tests: call numpy.asarray"
    if takes_marks(estimator):
        refused(estimator, lambda e: e.fit(GOOD, OtherArray(marks(GOOD))), TypeError, text)
    refused(estimator, lambda e: e.fit(OtherArray(GOOD), marks(GOOD)), TypeError, text)
    fit(estimator, GOOD)
    refused(estimator, lambda e: answer(e, OtherArray(GOOD)), TypeError, text)


def test_no_weights_are_none():
    labels = prepared("kmeans", fitted=False).fit_predict(GOOD, sample_weight=None)
    assert len(labels) == len(GOOD)


def test_more_columns_than_the_kernel_takes():
    """Its norms are exact for 8192 columns; a table of more is refused before the charge."""
    X = np.full((3, 8193), NUMBER)
    refused(prepared("pca", fitted=False), lambda e: fit(e, X), ValueError, "8192 features")
