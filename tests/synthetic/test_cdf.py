"""`DPEmpiricalCDF`: what it answers, how well, what it costs, what it refuses."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import PrivacyBudget
from skdp.queries import largest_threshold_size
from skdp.synthetic import DPEmpiricalCDF
from skdp.synthetic._small_db import grid_between, tuned_size
from tests.folding import each

A = "add_or_remove_one"
X = np.random.default_rng(0).beta(2, 5, (4000, 2)) * [1.0, 50.0]


def distance(fitted, values):
    """Return the largest error of each released distribution function at its grid."""
    errors = []
    for j in range(fitted.n_features_in_):
        points = fitted.grid_[:, j]
        true = np.searchsorted(np.sort(values[:, j]), points, side="right") / len(values)
        released = np.searchsorted(fitted.database_[:, j], points, side="right") / fitted.size_
        errors.append(np.abs(true - released).max())
    return np.array(errors)


def test_it_is_close_and_within_the_theorem():
    estimator = DPEmpiricalCDF(bounds=([0, 0], [1, 50]), epsilon=2.0, random_state=0)
    # Both columns together are further off in one fit of 10**6.
    bound = clone(estimator).error_bound(len(X), 2, beta=1e-6)
    for seed in range(3):
        fitted = clone(estimator).set_params(random_state=seed).fit(X)
        assert np.all(distance(fitted, X) <= bound)
        assert np.all(distance(fitted, X) < 0.06)
    assert fitted.size_ == 63  # sqrt(epsilon n) at half of epsilon a column
    assert fitted.error_bound(len(X)) > fitted.error_bound(100 * len(X))


def test_much_epsilon_leaves_the_rounding():
    fitted = DPEmpiricalCDF(grid=np.linspace(0, 50, 500), size=20, epsilon=1e6).fit(X)
    # 1/40, half a rounded row, and the best of the grid: never better than a cell's own share.
    cell = max(np.histogram(X[:, j], fitted.grid_[:, j])[0].max() for j in range(2)) / len(X)
    assert np.all(distance(fitted, X) <= max(1 / 40 + 1 / len(X), cell))


def test_cdf_quantile_and_sample_are_those_of_the_table():
    fitted = DPEmpiricalCDF(bounds=(0, 50), size=10, random_state=0).fit(X)
    table = fitted.database_
    assert np.all(np.diff(table, axis=0) >= 0)
    assert np.isin(table, fitted.grid_).all()
    at = np.array([[-1.0, 10.0], [0.5, 1e9], table[3]])
    slow = [[np.mean(table[:, j] <= row[j]) for j in range(2)] for row in at]
    assert np.array_equal(fitted.cdf(at), slow)
    assert np.array_equal(fitted.predict(at), fitted.cdf(at))
    levels = np.array([0.0, 0.1, 0.3, 0.31, 0.5, 0.7, 1.0])
    ranks = [0, 0, 2, 3, 4, 6, 9]
    assert np.array_equal(fitted.quantile(levels), table[ranks])
    assert np.array_equal(fitted.quantile(0.3), table[2])
    drawn = fitted.sample(500, random_state=1)
    assert drawn.shape == (500, 2)
    assert all(set(drawn[:, j]) == set(table[:, j]) for j in range(2))
    assert np.array_equal(drawn, fitted.sample(500, random_state=1))
    assert not fitted.database_.flags.writeable


def test_grids():
    grid = [0.0, 0.1, 0.5, 40.0]
    fitted = DPEmpiricalCDF(grid=grid, size=5, random_state=0).fit(X)
    assert np.array_equal(fitted.grid_, np.column_stack([grid, grid]))
    assert np.isin(fitted.database_, grid).all()
    one = DPEmpiricalCDF(bounds=(3, 3), n_cells=1, size=4).fit(X)
    assert np.all(one.database_ == 3.0)
    huge = grid_between(np.array([-1.7e308]), np.array([1.7e308]), 5)
    assert np.isfinite(huge).all()
    assert np.all(np.diff(huge, axis=0) > 0)


@pytest.mark.parametrize("relation", ["replace_one", A])
def test_what_is_released(relation):
    budget = PrivacyBudget(10.0, adjacency=relation)
    fitted = DPEmpiricalCDF(n_cells=50, budget=budget, random_state=0).fit(X[:1000])
    names = [record.name for record in fitted.privacy_.releases]
    counted = ["count"] if relation == A else []
    assert names == [
        *counted, "locations", "distances",
        "threshold table, feature 0", "threshold table, feature 1",
    ]  # fmt: skip
    assert sum(record.share for record in fitted.privacy_.releases) == pytest.approx(1.0)
    assert budget.spent.epsilon == 1.0
    shares = {record.name: record.share for record in fitted.privacy_.releases}
    # Where rows are few, bounds take 35%.
    learning = shares["locations"] + shares["distances"]
    assert learning == pytest.approx(0.35, abs=0.01)
    whole = 1 - learning - (0.02 if relation == A else 0)
    assert shares["threshold table, feature 1"] == pytest.approx(whole / 2)
    # The rate that the size is chosen for is the one of the release.
    assert 1 / fitted.privacy_.releases[-1].scale == pytest.approx(whole / 4)
    if relation != A:
        assert fitted._column_rate(2, 1000) == pytest.approx(whole / 4)
    assert fitted._column_rate(2, 1e6) == pytest.approx((0.9 if relation == A else 0.92) / 4)


def test_delta_makes_the_choice_cheaper():
    plain = DPEmpiricalCDF(bounds=(0, 1), epsilon=1.0)
    relaxed = DPEmpiricalCDF(bounds=(0, 1), epsilon=1.0, delta=1e-6)
    assert relaxed._column_rate(20, 100) > 1.5 * plain._column_rate(20, 100)
    fitted = relaxed.set_params(size=8, random_state=0).fit(X)
    assert 1 / fitted.privacy_.releases[-1].scale == pytest.approx(relaxed._column_rate(2, 4000))


def test_learned_bounds_serve_wherever_an_error_is_promised():
    """At the number of rows from which on `error_bound` promises anything, fixed seeds."""
    estimator = DPEmpiricalCDF()
    assert estimator.error_bound(250, 1) == estimator.error_bound(550, 2) == 1.0
    assert DPEmpiricalCDF(bounds=(0, 100)).error_bound(250, 1) < 0.8
    assert DPEmpiricalCDF(epsilon=2.0).error_bound(300, 1) < 1.0
    assert estimator.error_bound(600, 1) < 0.6
    at = np.array([[2.0], [5.0], [10.0], [20.0], [40.0]])
    near = close = 0
    for seed in range(20):
        rows = np.random.default_rng(seed).exponential(10.0, size=(600, 1))
        fitted = clone(estimator).set_params(random_state=seed).fit(rows)
        error = np.abs(fitted.cdf(at) - (1 - np.exp(-at / 10))).max()
        assert 10 < fitted.grid_[-1, 0] < 1000
        assert error < 0.4
        near += bool(20 < fitted.grid_[-1, 0] < 200)
        close += bool(error < 0.15)
    # On so few rows noise is taken for rows in 6% of fits, and 3% are off by more.
    assert near >= 17
    assert close >= 18


def test_a_table_without_rows():
    budget = PrivacyBudget(10.0, adjacency=A)
    fitted = DPEmpiricalCDF(bounds=(0, 1), budget=budget).fit(np.empty((0, 2)))
    assert fitted.database_.shape == (fitted.size_, 2)


def test_names_pickles_and_seeds():
    frame = pd.DataFrame(X, columns=["a", "b"])
    estimator = DPEmpiricalCDF(bounds=(0, 50), n_cells=30, random_state=3)
    fitted = clone(estimator).fit(frame)
    assert list(fitted.feature_names_in_) == ["a", "b"]
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.cdf(frame[:5]), fitted.cdf(frame[:5]))
    assert np.array_equal(clone(estimator).fit(frame).database_, fitted.database_)


def test_sizes():
    assert tuned_size(10_000, 0.5, 1000) == 100
    assert tuned_size(1e12, 0.5, 1000) == 1000
    assert tuned_size(-50.0, 0.5, 1000) == 1
    assert tuned_size(4, 1e9, 1000) == 4
    assert tuned_size(1e9, 0.5, 2**20) == largest_threshold_size(2**20)


REFUSED = [
    ({"n_cells": 0}, ValueError, "n_cells must be an integer of at least 1"),
    ({"n_cells": 2.5}, TypeError, "n_cells must be an integer"),
    ({"n_cells": 2**21}, ValueError, "at most 1048576"),
    ({"size": 0}, ValueError, "size must be None or an integer of at least 1, got 0"),
    (
        {"size": 10_000},
        ValueError,
        "size must be None or an integer of at least 1 and at most 1000, got 10000",
    ),
    ({"size": 300, "n_cells": 2**20}, ValueError, "size must be .* at most 214"),
    ({"size": "auto"}, TypeError, "size must be None or an integer"),
    ({"grid": [1.0, 1.0], "bounds": "private"}, ValueError, "grid must be .* increasing"),
    ({"grid": [], "bounds": "private"}, ValueError, "grid must be"),
    ({"grid": [0.0, math.nan], "bounds": "private"}, ValueError, "grid must be"),
    ({"grid": "fine", "bounds": "private"}, TypeError, "grid must be"),
    ({"grid": [0.0, 1.0]}, ValueError, "grid and bounds must not both be stated"),
    ({"bounds": (1, 0)}, ValueError, "low must not exceed high"),
    ({"bounds": "stated"}, ValueError, "bounds must be 'private'"),
    ({"epsilon": 0}, ValueError, "epsilon"),
]


@each(("parameters", "errors", "text"), REFUSED)
def test_refused_before_any_charge(parameters, errors, text):
    budget = PrivacyBudget(10.0)
    estimator = DPEmpiricalCDF(**{"bounds": (0, 1), "budget": budget, **parameters})
    with pytest.raises(errors, match=text):
        estimator.fit(X)
    assert not budget.charges
    with pytest.raises(errors, match=text):
        estimator.error_bound(100, 2)


def test_refused_arguments():
    fitted = DPEmpiricalCDF(bounds=(0, 1), size=3).fit(X)
    for q in (-0.1, 1.1, math.nan, [[0.5]]):
        with pytest.raises(ValueError, match="q must be"):
            fitted.quantile(q)
    with pytest.raises(TypeError, match="q must be"):
        fitted.quantile("half")
    for beta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="beta must be a number in"):
            fitted.error_bound(10, beta=beta)
    with pytest.raises(TypeError, match="beta must be"):
        fitted.error_bound(10, beta="small")
    with pytest.raises(ValueError, match="n_samples must be"):
        fitted.sample(0)
    with pytest.raises(ValueError, match="features"):
        fitted.cdf(np.zeros((3, 5)))
