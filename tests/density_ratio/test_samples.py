"""stack_samples: every container, even spread, folds that hold both samples, fixed errors."""

from __future__ import annotations

import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import KFold

from skdp.density_ratio import stack_samples
from tests.folding import each

PRIVATE = {"a": [1.5, 2.5, 3.5], "b": [1, 2, 3]}
PUBLIC = {"a": [-1.5, -2.5, -3.5, -4.5, -5.5], "b": [-1, -2, -3, -4, -5]}


def rows_of(columns):
    return [list(row) for row in zip(*columns.values(), strict=True)]


CONTAINERS = {
    "numpy": lambda columns: np.array(rows_of(columns)),
    "lists": rows_of,
    "tuples": lambda columns: tuple(map(tuple, rows_of(columns))),
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


def values_of(X):
    """Return any container as a float array."""
    X = X.to_pandas() if isinstance(X, pa.Table) else X
    return np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=float)


def oracle(n_private, n_public):
    """Return the marks one by one: private row k stands where (k + 1/2) N / n begins."""
    total = n_private + n_public
    places = {((2 * k + 1) * total) // (2 * n_private) for k in range(n_private)}
    return [int(place in places) for place in range(total)]


def column(n, value=0.0):
    return np.full((n, 1), value)


# --- what comes back --------------------------------------------------------------------------


@each("make", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_gives_its_own_kind_and_both_samples_in_order(make):
    private, public = make(PRIVATE), make(PUBLIC)
    X, y = stack_samples(private=private, public=public)
    assert type(X) is (np.ndarray if isinstance(private, list | tuple) else type(private))
    assert type(y) is np.ndarray
    assert y.dtype == np.int8
    assert y.tolist() == oracle(3, 5)
    np.testing.assert_array_equal(values_of(X)[y == 1], rows_of(PRIVATE))
    np.testing.assert_array_equal(values_of(X)[y == 0], rows_of(PUBLIC))
    # The samples themselves are left as they were.
    np.testing.assert_array_equal(values_of(private), rows_of(PRIVATE))
    np.testing.assert_array_equal(values_of(public), rows_of(PUBLIC))


def test_arrays_and_lists_go_together():
    X, y = stack_samples(private=rows_of(PRIVATE), public=np.array(rows_of(PUBLIC)))
    np.testing.assert_array_equal(X[y == 1], rows_of(PRIVATE))


def test_no_cell_decides_a_type():
    class Reads:
        def __array__(self, dtype=None, copy=None):
            return np.array(rows, dtype=dtype)

    types = []
    for rows in ([[True], [False]], [[1], [2]], [[1], [2.5]]):
        types += [stack_samples(private=X, public=X)[0].dtype for X in (rows, Reads())]
    assert types == 3 * [np.dtype(float), np.dtype(object)]


@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow"])
def test_columns_keep_names_and_dtypes(name):
    X, _ = stack_samples(private=CONTAINERS[name](PRIVATE), public=CONTAINERS[name](PUBLIC))
    expected = CONTAINERS[name](PUBLIC)
    if name == "pyarrow":
        assert X.schema.equals(expected.schema)
    else:
        assert list(X.columns) == ["a", "b"]
        assert list(X.dtypes) == list(expected.dtypes)


def test_pandas_gets_a_new_index_and_keeps_kinds_that_numpy_has_not():
    kinds = pd.CategoricalDtype(["x", "y"])
    private = pd.DataFrame({"c": pd.Series(["x"], dtype=kinds), "i": pd.array([None], "Int64")})
    public = pd.DataFrame(
        {"c": pd.Series(["y", "x"], dtype=kinds), "i": pd.array([1, 2], "Int64")}
    ).set_axis([7, 7])
    X, y = stack_samples(private=private, public=public)
    assert X.index.equals(pd.RangeIndex(3))
    assert X.dtypes.tolist() == [kinds, pd.Int64Dtype()]
    assert X["c"].tolist() == ["y", "x", "x"]
    assert y.tolist() == [0, 1, 0]


def test_pandas_columns_of_the_same_name():
    table = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    X, _ = stack_samples(private=table, public=-table)
    assert sorted(X.to_numpy().tolist()) == [[-1.0, -2.0], [1.0, 2.0]]


@each(
    ("first", "second", "common"),
    [
        ("f4", "f4", "f4"),
        ("i2", "i8", "i8"),
        ("?", "f8", "f8"),
        ("U1", "U7", "U7"),
        ("f8", "U7", "O"),
        ("O", "f8", "O"),
    ],
)
def test_arrays_keep_a_common_dtype_and_numbers_stay_numbers(first, second, common):
    X, y = stack_samples(
        private=np.ones((2, 2)).astype(first), public=np.zeros((2, 2)).astype(second)
    )
    assert X.dtype == common
    one, zero = np.ones(1).astype(first)[0], np.zeros(1).astype(second)[0]
    kept = X[y == 1].ravel().tolist() + X[y == 0].ravel().tolist()
    for cell, before in zip(kept, 4 * [one] + 4 * [zero], strict=True):
        assert isinstance(cell, str) == isinstance(before, str)
        assert float(cell) == float(before)


@pytest.mark.parametrize("name", ["polars", "pyarrow", "pandas"])
def test_whole_numbers_in_one_sample_only(name):
    whole, real = CONTAINERS[name]({"a": [1, 2]}), CONTAINERS[name]({"a": [0.5, 1.5]})
    X, y = stack_samples(private=whole, public=real)
    assert values_of(X)[y == 1].tolist() == [[1.0], [2.0]]


NO_ROWS = {
    "numpy": np.empty((0, 2)),
    "numpy without a width": np.array([]),
    "lists": [],
    "tuples": (),
    "pandas": pd.DataFrame(PRIVATE).iloc[:0],
    "polars": pl.DataFrame(PRIVATE).head(0),
    "pyarrow": pa.table(PRIVATE).slice(0, 0),
}


@each("name", NO_ROWS)
def test_a_private_sample_may_have_no_rows(name):
    X, y = stack_samples(private=NO_ROWS[name], public=CONTAINERS[name.split()[0]](PUBLIC))
    assert y.tolist() == [0] * 5
    np.testing.assert_array_equal(values_of(X), rows_of(PUBLIC))


# --- where rows go ----------------------------------------------------------------------------


@given(n_private=st.integers(0, 60), n_public=st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_every_window_holds_its_share_of_private_rows(n_private, n_public):
    _, y = stack_samples(private=column(n_private), public=column(n_public, 1.0))
    assert y.tolist() == oracle(n_private, n_public)
    before = np.concatenate([[0], np.cumsum(y)])
    count = before[None, :] - before[:, None]  # private rows from place i to before place j
    places = np.arange(before.size)
    length = places[None, :] - places[:, None]
    # Exact, in integers: |count - length * n / N| < 1.
    assert (np.abs(count * y.size - length * n_private)[length >= 0] < y.size).all()
    assert y.sum() == n_private


def test_one_sample_may_be_much_larger():
    _, y = stack_samples(private=column(300_000), public=column(3))
    assert np.flatnonzero(y == 0).size == 3
    gaps = np.diff(np.flatnonzero(y == 0))
    assert np.abs(gaps - 100_001).max() <= 1
    _, y = stack_samples(private=column(1), public=column(300_000))
    assert np.flatnonzero(y).tolist() == [150_000]


def test_places_are_a_function_of_the_two_sizes_only():
    rng = np.random.default_rng(0)
    first = stack_samples(private=rng.normal(size=(9, 2)), public=rng.normal(size=(31, 2)))[1]
    second = stack_samples(private=rng.normal(size=(9, 2)), public=rng.normal(size=(31, 2)))[1]
    np.testing.assert_array_equal(first, second)


@given(
    n_private=st.integers(1, 200),
    n_public=st.integers(1, 200),
    n_splits=st.integers(2, 8),
)
@settings(max_examples=80, deadline=None)
def test_folds_that_are_not_shuffled_hold_both_samples_in_proportion(n_private, n_public, n_splits):
    X, y = stack_samples(private=column(n_private), public=column(n_public))
    if len(X) < n_splits:
        return
    for _, test in KFold(n_splits).split(X):
        expected = len(test) * n_private / len(X)
        assert abs(y[test].sum() - expected) < 1
        if expected >= 1 and len(test) - expected >= 1:
            assert set(y[test]) == {0, 1}


# --- errors -----------------------------------------------------------------------------------

SECRET = "8675309"
LINE = [[float(SECRET), 1.0]]


@each(
    ("private", "public", "error", "text"),
    [
        (LINE, [[1.0]], ValueError, "public must have the columns of private.*2 columns.*1"),
        (LINE, np.empty((0, 2)), ValueError, "public must have at least one row"),
        (LINE, [], ValueError, "public must be a table or an array"),
        (np.empty((0, 2)), np.empty((0, 2)), ValueError, "public must have at least one row"),
        (LINE[0], LINE, ValueError, "private must be a table or an array"),
        (LINE, LINE[0], ValueError, "public must be a table or an array"),
        ([LINE[0], [1.0]], LINE, ValueError, "private must be a table or an array"),
        (None, LINE, ValueError, "private must be a table or an array"),
        (SECRET, LINE, ValueError, "private must be a table or an array"),
        (sparse.csr_matrix(LINE), LINE, TypeError, "private must be a dense array"),
        (LINE, sparse.csr_matrix(LINE), TypeError, r"use public\.toarray"),
        (pd.DataFrame(LINE), LINE, TypeError, "private and public must be the same kind"),
        (pd.DataFrame(LINE), pl.DataFrame(LINE), TypeError, "must be the same kind"),
        (pd.Series(LINE[0]), LINE, ValueError, "private must be a table or an array"),
        (
            pd.DataFrame(LINE, columns=["a", "b"]),
            pd.DataFrame(LINE, columns=["b", "a"]),
            ValueError,
            "public must have the columns of private, in the same order",
        ),
        (pd.DataFrame(LINE), pd.DataFrame(LINE, columns=["0", "1"]), ValueError, "the columns of"),
        (pa.table({"a": [1]}), pa.table({"b": [1]}), ValueError, "the columns of"),
        (
            pl.DataFrame({"a": [SECRET]}),
            pl.DataFrame({"a": [[1.0]]}),
            TypeError,
            "the columns of private and public must have types that go together",
        ),
        (
            pa.table({"a": [SECRET]}),
            pa.table({"a": [1.0]}),
            TypeError,
            "the columns of private and public must have types that go together",
        ),
    ],
)
def test_errors_name_the_parameter_and_quote_no_cell(private, public, error, text):
    with pytest.raises(error, match=text) as caught:
        stack_samples(private=private, public=public)
    assert SECRET not in "".join(traceback.format_exception(caught.value, limit=0))
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_samples_are_named():
    # Two tables in the wrong order would publish the private one.
    with pytest.raises(TypeError, match="positional"):
        stack_samples(LINE, LINE)
