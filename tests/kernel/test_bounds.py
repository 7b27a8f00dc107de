"""Learned bounds: false alarms as rare as stated, and rows found that no single octave tells of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import PrivacyBudget, kernel
from skdp.kernel import bounds, calibration, statistics

N_BINS = statistics.N_EXPONENT_BINS
RELATIONS = ("replace_one", "add_or_remove_one")


def open_session(X, *, epsilon=1.0, delta=0.0, adjacency="replace_one", seed=0):
    budget = PrivacyBudget(1e6, 0.5, adjacency=adjacency)
    rows = kernel.check_rows(X, estimator="T")
    return kernel.open_session(
        rows, estimator="T", epsilon=epsilon, delta=delta, budget=budget, random_state=seed
    )


def noise_of(kind, scale, size):
    rng = np.random.default_rng(0)
    if kind == "gaussian":
        return rng.normal(0, scale, size).round(), scale
    # The difference of two geometric variables is discrete Laplace.
    one, two = rng.geometric(1 - math.exp(-1 / scale), (2, *size))
    return (one - two).astype(float), calibration.laplace_std(scale)


@pytest.mark.parametrize(("kind", "scale"), [("laplace", 1.5), ("laplace", 40.0), ("gaussian", 30)])
def test_noise_is_rarely_taken_for_rows(kind, scale):
    """Claimed: 0.1% of histograms at most. More than 8 of 2,000 have a probability of 3e-4 then."""
    noise, std = noise_of(kind, scale, (2000, N_BINS))
    alarms = sum(bounds._outermost(row, std, len(bounds._WIDTHS) * N_BINS)[1] for row in noise)
    assert alarms <= 8


@pytest.mark.parametrize("width", bounds._WIDTHS)
@pytest.mark.parametrize(("kind", "scale"), [("laplace", 1.5), ("laplace", 40.0), ("gaussian", 30)])
def test_levels_hold_for_sums_of_noise(kind, scale, width):
    """One test of a sum: 0.1% at most; more than 160 of 100,000 have a probability below 1e-7."""
    noise, std = noise_of(kind, scale, (100_000, width))
    passed = np.sum(noise.sum(axis=1) > bounds._level(std, width, 1))
    assert passed <= 160
    assert bounds._level(std, width, 1000) > bounds._level(std, width, 1)


@pytest.mark.parametrize("std", [0.0, 1e-304, 1e-9, 0.1, 1e9, 1e150])
def test_levels_of_extreme_noise_are_numbers(std):
    levels = [bounds._level(std, width, 1000) for width in bounds._WIDTHS]
    assert np.isfinite(levels).all() and np.all(np.diff(levels) >= 0)


def test_runs_find_what_no_octave_tells_of():
    """2,400 rows in 16 octaves: 150 in each, which one bin of noise of scale 40 has often."""
    noise, std = noise_of("laplace", 40.0, (200, N_BINS))
    noise[:, 100:116] += 150
    n_tests = len(bounds._WIDTHS) * N_BINS
    found = [bounds._outermost(row, std, n_tests) for row in noise]
    near = [clear and 92 < first <= 108 <= last < 124 for (first, last), clear in found]
    assert np.mean(near) > 0.95
    alone = bounds._level(std, 1, n_tests)
    assert np.mean((noise > alone).any(axis=1)) < 0.05


def test_octaves_next_to_an_end_and_of_the_other_sign_need_fewer_rows():
    counts = np.zeros(N_BINS)
    std, middle = 10.0, N_BINS // 2
    n_tests = len(bounds._WIDTHS) * N_BINS
    few = 1.1 * bounds._level(std, 1, 1)
    assert few < 0.6 * bounds._level(std, 1, n_tests)
    counts[middle + 40] = 3 * few
    counts[[middle + 41, middle + 43, middle - 40]] = few
    ends, clear = bounds._outermost(counts, std, n_tests)
    assert clear and ends == (middle + 40, middle + 41)
    more = np.where(counts == 3 * few, 5 * few, counts)
    assert bounds._outermost(more, std, n_tests) == ((middle + 40, middle + 40), True)
    assert bounds._with_mirror(ends, counts, std) == ends  # two bins have more noise than one
    counts[middle - 40] *= 2
    both = (middle - 41, middle + 41)
    assert bounds._with_mirror(ends, counts, std) == both
    assert bounds._with_mirror(both, counts, std) == both


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_thousand_normal_rows_have_bounds_near_them(adjacency):
    """With a tenth of epsilon = 1. Farthest bins that noise had made: 1e11 and more, in 4 of 10."""
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(1000, 1))
        low, high = open_session(X, adjacency=adjacency, seed=seed).learn_bounds(0.1)
        assert 0.5 <= high[0] <= 64 or -64 <= low[0] <= -0.5
        assert max(-low[0], high[0]) <= 64


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_rows_extremes_are_released_for_many_features_only(adjacency, delta):
    """They have as little noise as a feature's own counts at the whole share from four on."""
    rng = np.random.default_rng(0)
    for d, names in (
        (1, ["octaves by feature"]),
        (4, ["octaves by feature"]),
        (5, ["octaves by feature", "octaves of row extremes"]),
    ):
        session = open_session(rng.normal(size=(300, d)), adjacency=adjacency, delta=delta)
        session.learn_bounds(0.5)
        session.count(0.5)
        released = session.certificate().releases
        assert [r.name for r in released if r.name.startswith("octaves")] == names
        learned = [r for r in released if r.name in names]
        assert sum(r.share for r in learned) == pytest.approx(0.5)
        if d == 4:
            own = learned[0].scale
        if d == 5:
            assert learned[1].scale == pytest.approx(own, rel=1e-6)


def test_learned_bounds_end_at_two_to_the_40():
    huge = open_session(np.full((5000, 1), 1e30)).learn_bounds(0.5)
    assert (huge[0][0], huge[1][0]) == (2.0**39, 2.0**40)
    tiny = open_session(np.full((5000, 1), 1e-30)).learn_bounds(0.5)
    assert (tiny[0][0], tiny[1][0]) == (-(2.0**-40), 2.0**-40)
