"""Bounds by column name, and what is refused because it could be taken for something else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from skdp import (
    DPKMeans,
    DPMinMaxScaler,
    DPStandardScaler,
    PrivacyBudget,
    statistics,
)
from skdp.base import check_bounds
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.linear_model import DPLinearRegression, DPLogisticRegression, DPRidge
from skdp.neighbors import DPHistogramDensity, DPKernelDensity
from skdp.quantile import DPMedian, DPQuantile, DPQuantileTransformer, DPRobustScaler
from skdp.synthetic import Bins, Domain, DPEmpiricalCDF
from tests.folding import each

NAMED = {"age": (18, 90), "income": [0.0, 2e5]}
TURNED = {"income": (0.0, 2e5), "age": (18, 90)}
FRAME = pd.DataFrame({"age": np.linspace(20, 80, 200), "income": np.linspace(1e4, 1e5, 200)})
TABLES = [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)]
ESTIMATORS = [
    DPStandardScaler(),
    DPMinMaxScaler(),
    DPKMeans(2),
    DPKMeans(2, algorithm="lloyd", max_iter=2),
    DPMedian(),
    DPQuantile(),
    DPRobustScaler(),
    DPQuantileTransformer(n_quantiles=3),
    DPEmpiricalCDF(n_cells=20),
    DPKernelDensity(bandwidth=5e4),
    DPHistogramDensity(),
    DPLogisticRatio(),
    DPuLSIF("noisy", n_centers=5),
    DPRidge(),
    DPLinearRegression(),
    DPLogisticRegression(classes=[0, 1]),
]
SUPERVISED = DPLogisticRatio | DPuLSIF | DPRidge | DPLinearRegression | DPLogisticRegression
FUNCTIONS = [
    statistics.mean,
    statistics.sum,
    statistics.var,
    statistics.std,
    statistics.median,
    statistics.covariance,
    statistics.correlation,
]


def fit(estimator, X):
    if isinstance(estimator, SUPERVISED):
        return estimator.fit(X, np.arange(len(X)) % 2)
    return estimator.fit(X)


@each("names", [["age", "income"], ("age", "income"), np.array(["age", "income"])])
@each("bounds", [NAMED, TURNED])
def test_names_stand_for_their_columns_in_any_order(bounds, names):
    low, high = check_bounds(bounds, 2, names)
    assert low.tolist() == [18, 0]
    assert high.tolist() == [90, 2e5]


def test_an_array_has_positions():
    low, high = check_bounds({1: (0, 2e5), 0: (18, 90)}, 2)
    assert (low.tolist(), high.tolist()) == ([18, 0], [90, 2e5])
    with pytest.raises(ValueError, match=r"X does not have: \[2\]"):
        check_bounds(dict.fromkeys(range(3), (0, 1)), 2)


def test_bounds_of_a_larger_table_serve_for_some_of_its_columns():
    larger = {"height": (0, 3), **NAMED}
    made = DPStandardScaler(bounds=larger).fit(FRAME[["income"]])
    assert [end.tolist() for end in made.bounds_] == [[0], [2e5]]
    assert made.expected_error(200) > 0
    assert made.expected_error(200, like=FRAME[["income"]]) > 0
    with pytest.raises(ValueError, match=r"none for \['age'\]; X does not have: \['Age'"):
        DPStandardScaler(bounds={"Age": (18, 90), "income": (0, 1), "height": (0, 3)}).fit(FRAME)


@each("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_estimator_takes_bounds_by_name(estimator):
    for X in TABLES:
        made = fit(clone(estimator).set_params(bounds=TURNED), X)
        assert made.get_params()["bounds"] == TURNED
        if hasattr(made, "bounds_") and made.bounds_ is not None:
            assert made.bounds_[1].tolist() == [90, 2e5]
    planned = clone(estimator).set_params(bounds=TURNED)
    if isinstance(estimator, DPStandardScaler):
        assert planned.expected_error(200, 2) > 0
    if isinstance(estimator, DPKMeans):
        assert planned.expected_error(20_000, like=FRAME) > 0
    budget = PrivacyBudget(10.0)
    e = clone(estimator).set_params(budget=budget)
    with pytest.raises(ValueError, match=r"none for \['income'\]"):
        fit(e.set_params(bounds={"age": (18, 90)}), FRAME)
    with pytest.raises(TypeError, match=r"column 'age' must be a pair"):
        fit(e.set_params(bounds={**NAMED, "age": "private"}), FRAME)
    with pytest.raises(TypeError, match="table with column names"):
        fit(e.set_params(bounds=NAMED), FRAME.to_numpy())
    with pytest.raises(TypeError, match="list of pairs is none of these"):
        fit(e.set_params(bounds=[(0, 120), (0, 2e5)]), FRAME)
    assert budget.spent.epsilon == 0


@each("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_function_takes_bounds_by_name(function):
    for X in TABLES:
        assert np.isfinite(function(X, bounds=TURNED).value).all()
    budget = PrivacyBudget(10.0)
    with pytest.raises(ValueError, match=r"none for \['income'\]"):
        function(FRAME, bounds={"age": (18, 90)}, budget=budget)
    with pytest.raises(TypeError, match="list of pairs is none of these"):
        function(FRAME, bounds=[(0, 120), (0, 2e5)], budget=budget)
    assert budget.spent.epsilon == 0


def test_a_mean_by_name_is_that_of_its_column():
    answer = statistics.mean(pa.Table.from_pandas(FRAME), bounds=TURNED, epsilon=1e6)
    np.testing.assert_allclose(answer.value, FRAME.mean().to_numpy(), rtol=1e-3)


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_pairs_are_refused_for_any_number_of_columns(n_features):
    pairs = [(0, 120)] * n_features
    for bounds in (pairs, tuple(pairs), [list(p) for p in pairs], np.array(pairs)):
        with pytest.raises(TypeError, match="list of pairs is none of these"):
            check_bounds(bounds, n_features)
    for bounds in (
        ([0] * n_features, [120] * n_features),
        (np.zeros(n_features), np.full(n_features, 120)),
        (0, [120] * n_features),
        [0, 120],
        np.array([0, 120]),
    ):
        low, high = check_bounds(bounds, n_features)
        assert low.tolist() == [0] * n_features
        assert high.tolist() == [120] * n_features


def test_a_pair_of_numbers_is_no_column_of_a_domain():
    for pair in ((18, 90), (0.5, 1.5), (np.int64(0), True)):
        for columns in ({"age": pair}, [pair]):
            with pytest.raises(TypeError, match=r"n_cells\) for a range.*a list for"):
                Domain(columns)
    assert Domain({"age": [18, 90]}).sizes == (2,)
    assert Domain({"sex": ("f", "m")}).sizes == (2,)
    assert Domain({"age": Bins([18, 90])}).sizes == (1,)


LIKE = [
    e
    for e in ESTIMATORS
    if not isinstance(
        e,
        DPMinMaxScaler | DPKMeans | SUPERVISED,
    )
]


@pytest.mark.slow
@each("estimator", LIKE, ids=lambda e: type(e).__name__)
def test_expected_errors_take_bounds_by_name(estimator):
    by_position = clone(estimator).set_params(bounds=([18, 0], [90, 2e5]))
    named = clone(estimator).set_params(bounds=TURNED)
    like = FRAME.to_numpy()
    error = by_position.expected_error(200, like=like)
    assert error > 0
    assert named.expected_error(200, like=FRAME) == pytest.approx(error, rel=0.3)
    assert named.bounds == TURNED
    # Without names the columns are those of the bounds, in their order.
    stated = clone(estimator).set_params(bounds=NAMED)
    assert stated.expected_error(200, like=like) == pytest.approx(error, rel=0.3)
    with pytest.raises(ValueError, match="n_features = 3 columns, got 2"):
        by_position.expected_error(200, 3, like=like)
    with pytest.raises(ValueError, match=r"none for \['income'\]; X does not have: \['Income'\]"):
        clone(estimator).set_params(bounds={"age": (18, 90), "Income": (0, 2e5)}).expected_error(
            200, like=FRAME
        )


def test_stated_bounds_say_how_many_columns_there_are():
    for bounds in (NAMED, ([18, 0], [90, 2e5])):
        planned = DPStandardScaler(bounds=bounds)
        assert planned.expected_error(200) == planned.expected_error(200, 2)
        with pytest.raises(ValueError, match="bounds must have n_features = 3 columns, got 2"):
            planned.expected_error(200, 3)
    with pytest.raises(ValueError, match="n_features must be given"):
        DPStandardScaler(bounds=(0, 1)).expected_error(200)


@pytest.mark.parametrize("function", ["mean", "var", "std", "sum", "covariance"])
def test_expected_errors_of_functions_take_bounds_by_name(function):
    by_position = statistics.expected_error(
        function, 20_000, bounds=([18, 0], [90, 2e5]), like=FRAME.to_numpy()
    )
    named = statistics.expected_error(function, 20_000, bounds=TURNED, like=FRAME)
    assert named.shape == by_position.shape
    assert np.all((named / by_position > 0.3) & (named / by_position < 3))


def test_messages_name_the_key_the_column_and_the_way_out():
    with pytest.raises(ValueError, match=r"none for \['age'\]; X does not have: \['Age'\]"):
        check_bounds({"Age": (0, 1)}, 1, ["age"])
    with pytest.raises(TypeError, match=r"df\[\['age'\]\], or write bounds=\(0, 120\)"):
        statistics.mean(FRAME["age"], bounds={"age": (0, 120)})
    with pytest.raises(ValueError, match=r"must not exceed high .* for \['age'\]"):
        check_bounds({"age": (90, 18), "income": (0, 1)}, 2, ["age", "income"])
    with pytest.raises(ValueError, match=r"must not exceed high .* for \[1\]"):
        check_bounds(([0, 3], [1, 2]), 2)
    with pytest.raises(TypeError, match="column 'age' must be a pair"):
        check_bounds({"age": ("18", 90), "income": (0, 1)}, 2, ["age", "income"])
    with pytest.raises(TypeError, match=r"set_output\(transform='pandas'\) keeps them"):
        DPStandardScaler(bounds=NAMED).fit(FRAME.to_numpy())


def test_series_are_taken_by_their_index():
    meta = pd.DataFrame({"low": [0.0, 18.0], "high": [2e5, 90.0]}, index=["income", "age"])
    bounds = (meta.low, meta.high)
    for estimator in (DPStandardScaler(bounds=bounds), DPMinMaxScaler(bounds=bounds)):
        low, high = estimator.fit(FRAME).bounds_
        assert (low.tolist(), high.tolist()) == ([18, 0], [90, 2e5])
    answer = statistics.mean(FRAME, bounds=(0, meta.high), epsilon=1e6)
    np.testing.assert_allclose(answer.value, FRAME.mean().to_numpy(), rtol=1e-3)
    assert DPStandardScaler(bounds=bounds).expected_error(200) == DPStandardScaler(
        bounds=TURNED
    ).expected_error(200)
    errors = [
        statistics.expected_error("mean", 20_000, bounds=b, like=FRAME) for b in (bounds, TURNED)
    ]
    np.testing.assert_allclose(*errors, rtol=0.3)
    # An index that only counts is one of positions, and so is an array.
    for plain in (meta.reset_index(drop=True), meta):
        pair = (plain.low, plain.high) if plain is not meta else (meta.low.array, meta.high.array)
        assert DPStandardScaler(bounds=pair).fit(FRAME).bounds_[1].tolist() == [2e5, 90]
    low, _ = check_bounds((pd.Series([1.0, 2.0], index=[1, 0]), 9), 2)
    assert low.tolist() == [2, 1]


def test_series_with_another_index_are_refused_before_any_charge():
    budget = PrivacyBudget(1.0)
    for index in (["age", "height"], ["age", "age"], [7, 8]):
        high = pd.Series([90, 2e5], index=index)
        for X in (FRAME, FRAME.to_numpy()):
            with pytest.raises(ValueError, match=r"index of high.*high\.to_numpy\(\)"):
                DPStandardScaler(bounds=(0, high), budget=budget).fit(X)
    assert budget.charges == []
