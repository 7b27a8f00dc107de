"""Answers of private statistics, and what is released of labels and graphs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from numpydoc.validate import validate

from skdp import PrivacyBudget, statistics
from skdp.core import PrivacyCertificate
from skdp.tabular import label_codes
from tests.folding import each
from tests.statistics.calls import HIGH, LOW, WHOLE

# --- spanning trees ------------------------------------------------------------------------------

RING = [[0, 1], [1, 2], [2, 3], [3, 0]]


def test_the_cost_of_a_spanning_tree():
    costs = [
        float(statistics.mst_cost(4, RING, [1.0, 2.0, 1.0, 5.0], 10.0, epsilon=60, random_state=i))
        for i in range(101)
    ]
    assert np.median(costs) == pytest.approx(4.0, abs=1.0)
    budget = PrivacyBudget(2.0, 0.1)
    answer = statistics.mst_cost(
        4, RING, [1, 2, 1, 5], 10, noise="laplace", delta=1e-3, budget=budget
    )
    assert budget.spent.epsilon == 1.0 and budget.spent.delta == 1e-3
    assert np.isnan(answer.std) and answer.privacy.estimator == "mst_cost"
    assert "not points" in statistics.mst_cost.__doc__ or "does not protect points" in (
        statistics.mst_cost.__doc__
    )
    assert 0 <= float(statistics.mst_cost(4, RING, [1, 2, 1, 5], 10, delta=1e-3)) <= 30


@each(
    "options",
    [
        {"n_vertices": 5},
        {"n_vertices": 1},
        {"edges": [[0, 1], [2, 3]], "weights": [1.0, 2.0]},
        {"weights": [1.0, 2.0]},
        {"weights": [1.0, 2.0, np.nan, 3.0]},
        {"weights": np.ones((4, 2))},
        {"upper": 0.0},
        {"upper": 1e200},
        {"noise": "gumbel"},
        {"noise": "laplace"},
        {"noise": "student", "nu": 0},
        {"epsilon": 1e-12},
        {"budget": PrivacyBudget(1.0, adjacency="add_or_remove_one")},
    ],
)
def test_bad_graphs_charge_nothing(options):
    budget = options.get("budget", PrivacyBudget(1.0))
    given = {"n_vertices": 4, "edges": RING, "weights": [1.0] * 4, "upper": 10.0}
    with pytest.raises(ValueError):
        statistics.mst_cost(**{**given, "budget": budget, **options})
    assert budget.spent.epsilon == 0


# --- the answer ----------------------------------------------------------------------------------


def test_an_answer_is_an_array_with_its_error(X):
    answer = statistics.mean(X, **WHOLE, random_state=0)
    assert_array_equal(np.sqrt(answer), np.sqrt(answer.value))
    assert np.asarray(answer, dtype=np.float32).dtype == np.float32
    assert answer.value.shape == answer.std.shape == (3,)
    assert not answer.value.flags.writeable and not answer.std.flags.writeable
    assert "value" in repr(answer) and "std" in repr(answer)
    one = statistics.mean(X[:, 0], bounds=(-60, 300))
    assert type(one.value) is type(one.std) is float and one.shape == ()
    assert isinstance(one.privacy, PrivacyCertificate)


def test_rows_are_counted_whatever_their_columns_hold():
    table = pd.DataFrame({"x": [1.0, 2.0] * 50, "city": ["Bern", None] * 50, "day": pd.NaT})
    polars = pytest.importorskip("polars").from_pandas(table[["x", "city"]])
    for rows in (table, polars, table["city"]):
        assert statistics.count(rows, epsilon=50).value == 100
    assert statistics.count(table, n_rows="public").value == 100


def test_a_covariance_is_positive_semidefinite(X):
    for i in range(5):
        matrix = statistics.covariance(X[:50], **WHOLE, epsilon=0.1, random_state=i).value
        assert_array_equal(matrix, matrix.T)
        scaled = matrix / np.outer(HIGH - LOW, HIGH - LOW)
        assert np.linalg.eigvalsh(scaled).min() >= -1e-9 * np.abs(scaled).max()
        found = statistics.correlation(X[:50], **WHOLE, epsilon=0.1, random_state=i)
        assert np.abs(found.value).max() <= 1 and np.all(found.value.diagonal() == 1)
        assert not np.any(found.std > 1)


def test_a_column_without_width_has_answers():
    X = np.ones((20, 2))
    more = {"bounds": ([1.0, 0.0], [1.0, 2.0]), "random_state": 0}
    for call in (statistics.mean, statistics.var, statistics.covariance):
        assert np.isfinite(call(X, **more).value).all()
        assert np.isfinite(call(X, **more).std).all()


def test_a_correlation_that_says_nothing_has_no_error():
    """Of a column without width, or of which nothing stands clear of the noise."""
    void = np.array([[False, True], [True, False]])
    rng = np.random.default_rng(0)
    more = {"bounds": ([1.0, 0.0], [1.0, 2.0]), "random_state": 0}
    found = statistics.correlation(np.ones((20, 2)), **more)
    assert_array_equal(np.isnan(found.std), void)
    few = statistics.correlation(rng.random((20, 2)), bounds=(0, 1), epsilon=0.01)
    assert_array_equal(np.isnan(few.std), void)
    many = statistics.correlation(rng.random((20_000, 2)), bounds=(0, 1), epsilon=3.0)
    assert np.all(many.std < 0.1)


@each("name", [n for n in statistics.__all__ if n[0].islower()])
def test_every_function_says_what_it_releases(name):
    doc = getattr(statistics, name).__doc__
    for phrase in ("**Privacy", "eleased*", "ensitivity*", "echanism*", "harged*", ">>> "):
        assert phrase in doc, phrase
    errors = validate(f"skdp.statistics.{name}")["errors"]
    checks = {"GL05", "GL06", "GL07", "GL08", "PR01", "PR02", "PR03", "PR04", "RT01", "SS03"}
    assert [e for e in errors if e[0] in checks] == []


@each(
    "hold",
    [
        list,
        np.array,
        pd.Series,
        lambda days: np.array(days).astype("M8[ns]"),
        lambda days: [pd.Timestamp(day) for day in days],
        lambda days: [day.item() for day in days],
    ],
    ids=["list", "array", "series", "nanoseconds", "timestamps", "dates"],
)
def test_dates_are_labels_whatever_holds_them(hold):
    days = [np.datetime64("2020-01-01"), np.datetime64("2020-01-02")]
    options = {"bounds": (0, 10), "epsilon": 1e4, "random_state": 0}
    for classes in (days, np.array(days), [pd.Timestamp(day) for day in days]):
        found = statistics.subset_sums(
            np.full(5, 10.0), hold(days * 2 + days[:1]), classes=classes, **options
        )
        np.testing.assert_allclose(found, [30, 20], atol=0.1)
    missing = [*days, np.datetime64("NaT")]
    with pytest.raises(ValueError, match="labels"):
        statistics.subset_sums(np.full(3, 10.0), missing, classes=days, **options)
    found = statistics.subset_sums(
        np.full(3, 10.0), missing, classes=days, nan_policy="omit", **options
    )
    np.testing.assert_allclose(found, [10, 10], atol=0.1)


def test_long_integers_are_labels_of_their_own():
    labels = np.array([2**53 + 1, 2**53])
    for dtype in (np.uint64, np.int64, object):
        codes = label_codes(labels, np.array([2**53, 2**53 + 1], dtype=dtype))
        assert codes.tolist() == [1, 0]


def test_a_step_may_be_any_number():
    answer = statistics.median(np.zeros(50), step=Fraction(1, 2), bounds=(-1, 1), random_state=0)
    assert float(answer) in (-1.0, -0.5, 0.0, 0.5, 1.0)


def test_a_column_of_one_value_has_no_error():
    answer = statistics.sum(np.full((50, 2), 5.0), bounds=([0, 5], [10, 5]), n_rows="public")
    assert answer.value[1] == 250
    assert answer.std[1] < 1e-200


def test_the_note_says_that_no_private_extreme_is_meaningful():
    x = np.arange(200.0)
    for q, said in (([0, 1], True), ([0.5, 1.0], True), ([0.01, 0.99], False), (0.5, False)):
        note = statistics.quantile(x, q, bounds=(0, 200), random_state=0).note
        assert ("no private minimum or maximum is meaningful" in note) is said
