"""`DPExplainableBoostingRegressor`: beside a slow oracle, on awkward tables, in bad input."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import PrivacyBudget
from skdp.ensemble import DPExplainableBoostingRegressor
from tests.folding import each

NOISELESS = {"epsilon": 1e6, "delta": 1e-6, "bounds": (-1, 1), "target_bounds": (-4, 4)}
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(3000, 3))
Y = 2 * np.abs(X[:, 0]) + (X[:, 1] > 0.2) + RNG.normal(scale=0.2, size=3000)


def oracle(model, rounds=20):
    """Boost row by row and cell by cell, in plain floats, on the bins of a fit."""
    codes = [
        np.array([(cuts <= value).sum() for value in column])
        for cuts, column in zip(model.bin_cuts_, X.T, strict=True)
    ]
    scores = [np.zeros(cuts.size + 1) for cuts in model.bin_cuts_]
    largest = model.largest_error_
    for _ in range(rounds):
        found = Y.mean() + sum(one[code] for one, code in zip(scores, codes, strict=True))
        errors = np.clip(np.clip(Y, -4, 4) - found, -largest, largest)
        for one, code in zip(scores, codes, strict=True):
            for cell in range(one.size):
                one[cell] += 0.2 * errors[code == cell].sum() / ((code == cell).sum() + 1.0)
    shown = [one - one[code].mean() for one, code in zip(scores, codes, strict=True)]
    return Y.mean() + sum(one[code] for one, code in zip(shown, codes, strict=True))


def test_almost_without_noise_it_is_boosting_row_by_row():
    model = DPExplainableBoostingRegressor(8, **NOISELESS).fit(X, Y)
    predicted = model.predict(X)
    assert np.abs(predicted - oracle(model)).max() < 0.01
    assert model.n_iter_ == 20
    assert model.score(X, Y) > 0.85
    assert model.intercept_ == pytest.approx(Y.mean(), abs=1e-3)
    assert model.n_samples_ == pytest.approx(3000, rel=1e-3)
    # What is shown is the model: an intercept, and a curve a column of mean 0 over rows.
    total = np.full(len(X), model.intercept_)
    for cuts, term, weights, column in zip(
        model.bin_cuts_, model.term_scores_, model.bin_weights_, X.T, strict=True
    ):
        total += term[np.searchsorted(cuts, column, side="right")]
        assert abs(weights @ term) / weights.sum() < 1e-9
    assert np.abs(total - predicted).max() < 1e-9
    assert all(np.isnan(one).all() for one in model.term_scores_std_error_)


def test_columns_that_are_copies_share_what_they_tell():
    """All columns move at once: without shorter steps sixty copies would run away."""
    copies = np.repeat(X[:, :1], 60, axis=1)
    model = DPExplainableBoostingRegressor(8, **NOISELESS).fit(copies, np.abs(copies[:, 0]))
    assert model.score(copies, np.abs(copies[:, 0])) > 0.9
    assert np.ptp(list(model.term_scores_), axis=0).max() < 0.05


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_targets_beyond_their_bounds_are_clipped(delta):
    options = {"bounds": (-1, 1), "target_bounds": (0, 1), "epsilon": 100.0, "delta": delta}
    model = DPExplainableBoostingRegressor(4, **options).fit(X, 100 * X[:, 0])
    predicted = model.predict(100 * X)
    assert predicted.min() >= 0
    assert predicted.max() <= 1
    assert model.score(X, np.clip(100 * X[:, 0], 0, 1)) > 0.8


@each(
    ("bounds", "target_bounds"),
    [
        ((2, 2), (3, 3)),
        ((-1e308, 1e308), (-1e308, 1e308)),
        ((-1, 1), (-1e200, 1e200)),
        ((0, 5e-324), (0, 5e-324)),
        ("private", (0, 1)),
        ((0, 1), "private"),
    ],
)
@each("delta", [0.0, 1e-6])
def test_any_bounds_and_few_rows_give_finite_numbers(bounds, target_bounds, delta):
    for rows in (X[:0], X[:1], X[:200], 1e300 * X[:200]):
        model = DPExplainableBoostingRegressor(
            bounds=bounds, target_bounds=target_bounds, epsilon=0.1, delta=delta
        )
        budget = PrivacyBudget(1.0, 1e-3, adjacency="add_or_remove_one")
        model.set_params(budget=budget).fit(rows, rows[:, 0])
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite(model.largest_error_) == (model.n_iter_ > 0)


@each("adjacency", ["replace_one", "add_or_remove_one"])
@each("delta", [0.0, 1e-6])
def test_few_rows_with_learned_bounds_get_a_point_amid_the_targets(adjacency, delta):
    # Targets 90 deviations from 0. Of 800 fits none had an R squared below -.07.
    y = 1000.0 + 20.0 * X[:300, 0]
    for seed in range(3):
        budget = PrivacyBudget(1e3, 0.1, adjacency=adjacency)
        model = DPExplainableBoostingRegressor(
            epsilon=1.0, delta=delta, budget=budget, random_state=seed
        )
        with pytest.warns(UserWarning, match="about the median of the target is all"):
            model.fit(X[:300], y)
        assert model.score(X[:300], y) > -1.0
        # A delta is not used where the number of rows is public, and this is said beforehand.
        pure = delta == 0 or adjacency == "replace_one"
        assert (model.privacy_.delta == 0) == pure
        told = model.privacy_cost(n_samples=300, n_features=3)
        assert (told.delta, budget.spent.delta) == (model.privacy_.delta, model.privacy_.delta)


def test_awkward_tables():
    """A column of zeros and ones, money of which most is 0, a constant."""
    rng = np.random.default_rng(1)
    worked = rng.integers(0, 2, 4000)
    hours = rng.integers(0, 61, 4000)
    money = np.where(worked * hours > 10, worked * hours * rng.lognormal(3, 0.3, 4000), 0.0)
    table = np.column_stack([worked, hours, np.full(4000, 7.0)])
    model = DPExplainableBoostingRegressor(
        epsilon=3.0, delta=1e-6, bounds=([0, 0, 7], [1, 60, 7]), target_bounds=(0, 4000)
    ).fit(table, money)
    assert model.score(table, money) > 0.5
    assert model.bin_cuts_[2].size == 0
    assert model.term_scores_[0][1] > model.term_scores_[0][0]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"n_bins": 1}, ValueError, "n_bins"),
        ({"n_bins": 8.0}, TypeError, "n_bins"),
        ({"bounds": (1, -1)}, ValueError, "bounds"),
        ({"target_bounds": (1, -1)}, ValueError, "target_bounds"),
        ({"target_bounds": "learned"}, ValueError, "target_bounds"),
    ],
)
def test_bad_parameters_cost_nothing(change, error, said):
    budget = PrivacyBudget(1.0)
    model = DPExplainableBoostingRegressor(bounds=(-1, 1), target_bounds=(0, 1), budget=budget)
    with pytest.raises(error, match=said):
        model.set_params(**change).fit(X, Y)
    assert budget.spent.epsilon == 0.0


def test_too_many_cells_cost_nothing():
    budget = PrivacyBudget(1.0)
    model = DPExplainableBoostingRegressor(1024, bounds=(-1, 1), budget=budget)
    with pytest.raises(ValueError, match=r"n_bins times the number of columns must be at most"):
        model.fit(np.zeros((3, 1025)), [0, 1, 1])
    assert budget.spent.epsilon == 0.0
