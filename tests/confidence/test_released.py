"""Answers as numbers: intervals cover, and arithmetic keeps an error only where it has one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from skdp import PrivacyBudget, statistics
from skdp.statistics import Released
from tests.folding import each

X = np.random.default_rng(0).normal(size=(500, 3))
A = {"budget": PrivacyBudget(1e6, 0.5, adjacency="add_or_remove_one")}


@pytest.fixture
def two(system_noise):
    ask = {"bounds": (-5, 5), "epsilon": 1.0, "n_rows": "public"}
    return statistics.mean(X, **ask), statistics.mean(X, **ask)


@each("level", [0.5, 0.9, 0.95, 0.99, 0.999, 0.99999])
@each("epsilon", [0.01, 0.1, 1.0, 2.0, 4.0, 6.0, 10.0, 20.0])
def test_the_interval_of_a_count_covers_by_its_exact_distribution(epsilon, level):
    count = statistics.count(X, epsilon=epsilon, delta=0.0, **A)
    low, high = count.interval(level)
    half = math.floor((float(high) - float(low)) / 2 + 1e-9)
    p = math.exp(-epsilon)
    beyond = 2 * p ** (half + 1) / (1 + p)
    assert beyond <= 1 - level
    # And it is not much wider than it has to be: 2 whole numbers, or half as wide again.
    least = max(math.ceil(math.log((1 - level) * (1 + p) / 2) / -epsilon) - 1, 0)
    assert half <= max(1.5 * least + 1, least + 2)


def test_the_interval_of_gaussian_noise_and_of_sums_of_laplace_noise_covers():
    # One noise is `share` of the variance of a sum of two, by numerical convolution of densities.
    x = np.linspace(-60, 60, 24_001)
    step = x[1] - x[0]
    for share in (1.0, 0.9, 0.7, 0.5):
        scales = np.sqrt(np.array([share, 1 - share]) / 2)
        density = np.exp(-np.abs(x) / scales[0]) / (2 * scales[0])
        if share < 1:
            other = np.exp(-np.abs(x) / scales[1]) / (2 * scales[1])
            density = np.convolve(density, other, mode="same") * step
        for level in (0.5, 0.68, 0.8, 0.9, 0.95, 0.99, 0.999):
            half = Released(np.array(0.5), np.array(1.0), None).interval(level)[1] - 0.5
            assert density[np.abs(x) <= half].sum() * step >= level - 1e-3
            assert half >= norm.ppf(0.5 + level / 2) - 1e-9


def test_ends_of_a_number_are_plain_floats():
    one = statistics.mean(X[:, 0], bounds=(-5, 5), intervals=True)
    for answer in (one, one + 1.0):
        assert [type(end) for end in answer.interval()] == [float, float]
    low, high = one.population_interval()
    assert repr((low, high)) == f"({low}, {high})"
    assert statistics.mean(X, bounds=(-5, 5)).interval()[0].shape == (3,)


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_of_means_cover(system_noise, delta):
    ask = {"bounds": (-5, 5), "epsilon": 0.5, "delta": delta, "n_rows": "public"}
    truth, inside, runs = X.mean(axis=0), 0, 1000
    for _ in range(runs):
        low, high = statistics.mean(X, **ask).interval(0.9)
        inside += np.count_nonzero((low <= truth) & (truth <= high))
    # Three entries a run, at most wholly dependent: 6 standard errors of 1000 runs below 0.9.
    assert inside / (3 * runs) > 0.9 - 6 * math.sqrt(0.09 / runs)


def test_multiples_and_sums_with_public_numbers(two):
    a, _ = two
    for made, value, std in (
        (a * 3, a.value * 3, a.std * 3),
        (-2 * a, a.value * -2, a.std * 2),
        (a / 4, a.value / 4, a.std / 4),
        (a + 1, a.value + 1, a.std),
        (10 - a, 10 - a.value, a.std),
        (a - np.array([1, 2, 3]), a.value - [1, 2, 3], a.std),
        (np.array([1.0, 2, 3]) * a, a.value * [1, 2, 3], a.std * [1, 2, 3]),
        (np.float64(2) * a, a.value * 2, a.std * 2),
        (-a, -a.value, a.std),
    ):
        assert isinstance(made, Released)
        np.testing.assert_allclose(made.value, value)
        np.testing.assert_allclose(made.std, std)
        assert made.privacy is a.privacy
        assert made.bounds is None


def test_two_answers(two):
    a, b = two
    np.testing.assert_allclose((a - b).std, np.sqrt(2) * a.std)
    np.testing.assert_allclose((a + b).value, a.value + b.value)
    assert (a + b).privacy == (a.privacy, b.privacy)
    for made in (a * b, a / b, 1 / a, a + a, a[0] + a[1], (a + b) - b):
        assert np.isnan(made.std).all()
        assert not np.isnan(made.value).any()


def test_seeded_noise_may_repeat():
    ask = {"bounds": (-5, 5), "n_rows": "public", "random_state": 0}
    a, b = statistics.mean(X, **ask), statistics.mean(X, **ask)
    assert np.array_equal(a.value, b.value)
    assert np.isnan((a - b).std).all()


@pytest.mark.statistical
def test_the_error_of_a_difference_is_what_happens(system_noise):
    ask = {"bounds": (-5, 5), "n_rows": "public"}
    found = [statistics.mean(X, **ask) - statistics.mean(X, **ask) for _ in range(500)]
    ratio = np.array([d.value / d.std for d in found])
    # 1,500 squares of sums of two Laplace noises, kurtosis 4.5: standard error 0.048 at most 0.084
    # where entries are wholly dependent; 5 of them.
    assert abs(np.mean(ratio**2) - 1) < 0.42


def test_as_an_array(two):
    a, _ = two
    assert len(a) == 3
    assert [float(one) for one in a] == a.value.tolist()
    assert a[1].std == a.std[1]
    assert a[1:].value.shape == (2,)
    assert isinstance(np.sqrt(np.abs(a)), np.ndarray)
    assert np.add(a.value, 1).tolist() == (1 + a).value.tolist()
    assert np.asarray(a).tolist() == a.value.tolist()
    assert np.mean(a) == a.value.mean()
    assert f"{a[0]:.3f}" == f"{a.value[0]:.3f} ± {a.std[0]:.3f}"
    with pytest.raises(TypeError, match="index it first"):
        f"{a:.3f}"
    with pytest.raises(TypeError):
        a + "1"
    with pytest.raises(ValueError, match="level must be"):
        a.interval(1.0)
    assert a._repr_html_().count("<tr>") == 4
    assert not a.value.flags.writeable
    assert not (a + 1).value.flags.writeable


def test_to_frame(two):
    frame = two[0].to_frame(0.9)
    low, high = two[0].interval(0.9)
    assert list(frame.columns) == ["value", "std", "low", "high"]
    np.testing.assert_array_equal(frame["low"], low)
    np.testing.assert_array_equal(frame["high"], high)


def test_what_has_no_error_has_no_interval():
    median = statistics.median(X, bounds=(-5, 5))
    low, high = median.interval()
    assert np.isnan(low).all()
    assert np.isnan(high).all()
    exact = statistics.count(X, n_rows="public")
    assert [float(side) for side in exact.interval()] == [500, 500]


def test_notes_say_what_else_there_is_to_know():
    ages = np.arange(2000) % 70 + 18.0
    median = statistics.median(ages, bounds=(0, 120))
    assert np.isnan(median.std) and "intervals=True" in median.note and median.note in repr(median)
    stated, _ = statistics.histogram(ages, 3, bounds=(0, 120))
    learned, _ = statistics.histogram(ages, 3)
    assert not stated.note and "in no cell" in learned.note
