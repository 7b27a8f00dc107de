"""`choose_epsilon` inverts ``expected_error``, wherever that has an answer."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline

from skdp import (
    DPKMeans,
    DPLogisticRegression,
    DPMedian,
    DPRidge,
    DPStandardScaler,
    PrivacyBudget,
    choose_epsilon,
    statistics,
)
from skdp.model_selection._choose_epsilon import _approach, _settle
from tests.folding import each

ROWS = np.random.default_rng(0).normal(size=(400, 2)).clip(-4, 4)


@each("error", [0.3, 0.02, 0.001])
@each("delta", [0.0, 1e-6])
def test_the_error_is_met_and_a_smaller_epsilon_would_not_do(error, delta):
    scaler = DPStandardScaler(bounds=(0, 100), delta=delta)
    found = choose_epsilon(scaler, error=error, n_samples=5000, n_features=3)
    assert scaler.set_params(epsilon=found).expected_error(5000, 3) <= error
    assert scaler.set_params(epsilon=0.98 * found).expected_error(5000, 3) > error
    assert found == float(f"{found:.3g}")


def test_the_formula_of_a_count():
    # Discrete Laplace noise of scale 1 / epsilon under add-or-remove: standard deviation by hand.
    budget = PrivacyBudget(1.0, adjacency="add_or_remove_one")
    found = choose_epsilon("count", error=7.0, n_samples=1000, budget=budget)
    p = np.exp(-found)
    assert np.sqrt(2 * p) / (1 - p) <= 7.0
    p = np.exp(-0.99 * found)
    assert np.sqrt(2 * p) / (1 - p) > 7.0
    assert budget.charges == []


def test_errors_of_several_columns_are_all_met():
    parameters = {"bounds": ([0, 0], [1, 1000]), "n_rows": "public"}
    found = choose_epsilon("mean", error=[0.1, 1.0], n_samples=2000, n_features=2, **parameters)
    errors = statistics.expected_error("mean", 2000, 2, epsilon=found, **parameters)
    assert (errors <= [0.1, 1.0]).all()
    errors = statistics.expected_error("mean", 2000, 2, epsilon=0.98 * found, **parameters)
    assert not (errors <= [0.1, 1.0]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "error", "like"),
    [
        (DPKMeans(3, bounds=(-4, 4)), 0.2, ROWS),
        (DPMedian(bounds=(-4, 4)), 0.15, ROWS),
        (DPRidge(bounds=(-4, 4), target_bounds=(-8, 8), delta=1e-6), 1.0, (ROWS, ROWS.sum(axis=1))),
    ],
)
def test_where_fits_are_rehearsed(model, error, like):
    # At a small epsilon some of these have no answer, because noise drowns all.
    told = []
    found = choose_epsilon(
        model, error=error, n_samples=4000, like=like, progress=lambda *of: told.append(of[:2])
    )
    assert told == [(i + 1, 20) for i in range(len(told))]
    assert len(told) <= 20  # answers, about half of them rough ones
    assert model.set_params(epsilon=found).expected_error(4000, like=like) <= error
    assert 1e-3 < found < 100


@pytest.mark.parametrize(
    ("subject", "options"),
    [
        (DPMedian(bounds=(-4, 4)), {}),
        ("std", {"bounds": (-4, 4)}),  # its error depends on noise: that of rehearsals is seeded
    ],
)
def test_an_epsilon_at_the_end_of_the_range_keeps_the_error(subject, options):
    options = {"like": ROWS[:100], **options}

    def error_at(epsilon):
        if isinstance(subject, str):
            return statistics.expected_error(subject, 1000, epsilon=epsilon, **options).max()
        return subject.set_params(epsilon=epsilon).expected_error(1000, **options)

    enough = error_at(5.0)
    assert enough == error_at(5.0)
    found = choose_epsilon(subject, error=enough, n_samples=1000, high=5.0, **options)
    assert error_at(found) <= enough
    with pytest.raises(ValueError, match="At epsilon=5 the expected error is"):
        choose_epsilon(subject, error=enough / 3, n_samples=1000, high=5.0, **options)


def test_ends():
    scaler = DPStandardScaler(bounds=(0, 1))
    assert choose_epsilon(scaler, error=100.0, n_samples=5000, n_features=1) == 1e-3
    with pytest.raises(ValueError, match=r"At epsilon=0\.1 the expected error is .*more rows"):
        choose_epsilon(scaler, error=1e-9, n_samples=50, n_features=1, high=0.1)


@pytest.mark.parametrize("error", [0, -1, float("nan"), [], [1, 0]])
def test_bad_errors(error):
    with pytest.raises(ValueError, match="error must be a number above 0"):
        choose_epsilon(DPStandardScaler(bounds=(0, 1)), error=error, n_samples=10)


def test_what_has_no_answer():
    with pytest.raises(TypeError, match="KMeans cannot say how large its error"):
        choose_epsilon(KMeans(), error=1.0, n_samples=10)
    with pytest.raises(TypeError, match="of a pipeline, one of its steps"):
        choose_epsilon(make_pipeline(DPStandardScaler()), error=1.0, n_samples=10)
    with pytest.raises(ValueError, match="give like="):
        choose_epsilon(DPKMeans(3, bounds=(0, 1)), error=1.0, n_samples=100, n_features=2)
    with pytest.raises(
        TypeError, match="does not take queries; it takes n_samples and n_features, like"
    ):
        choose_epsilon(DPLogisticRegression(), error=0.1, n_samples=100, queries=[])
    with pytest.raises(ValueError, match="or n_rows='public'"):
        choose_epsilon("mean", error=1.0, n_samples=100, bounds=(0, 1))
    with pytest.raises(ValueError, match="low must be at most high"):
        choose_epsilon(DPStandardScaler(), error=1.0, n_samples=10, low=2, high=1)


def test_where_the_error_jumps_few_answers_find_the_place():
    asked = []

    def ratio(epsilon):
        asked.append(epsilon)
        return 0.1 if epsilon > 30.0 else 2.0

    assert 30.0 < _settle(ratio, 1e-3, 100.0, 34.0, 1.0, 28.0) < 30.0 * 1.15
    epsilon, _, unmet = _approach(ratio, 1e-3, 100.0, 1.0)
    assert unmet <= 30.0 < epsilon < 36.0
    assert len(asked) <= 12
