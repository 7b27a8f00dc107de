"""Intervals hold what they say: of quantiles by key, and of a population's mean.

Of quantiles where values are far apart, too; false alarms: 1e-7 a test. Of means where noise shows
the spread: no draws there, the share of intervals that hold is integrated over the noise.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, laplace, norm

from skdp.aggregation import _intervals
from skdp.aggregation._intervals import (
    Z,
    quantile_bins,
    quotient_intervals,
    tree_excess,
)
from skdp.confidence.limits import heavy_z, spread_seen
from tests.folding import each

# --- quantiles ----------------------------------------------------------------------------------

DEPTH, RUNS = 7, 2500
PLACES = np.arange(2**DEPTH)
ROWS = {
    "two values": np.where(PLACES == 42, 0.7, 0.0) + np.where(PLACES == 44, 0.3, 0.0),
    "even": np.full(2**DEPTH, 2.0**-DEPTH),
    "far apart": np.where(PLACES == 3, 0.5, 0.0) + np.where(PLACES == 120, 0.5, 0.0),
    "a gap": np.where((PLACES < 20) | (PLACES >= 108), 1 / 40, 0.0),
    "a step": np.where(PLACES < 60, 0.2 / 60, 0.0) + np.where(PLACES == 60, 0.8, 0.0),
}


def held(leaves, q, noise, pure):
    """Return how often the bin in which q of the rows is reached is in the interval."""
    nodes = [leaves.reshape(2**k, -1).sum(axis=1) for k in range(1, DEPTH + 1)]
    true = int(np.searchsorted(np.cumsum(leaves), q * leaves.sum() * (1 - 1e-12)))
    value, first, last = quantile_bins(np.concatenate(nodes) + noise, 1.0, DEPTH, q, pure=pure)
    assert ((value >= 0) & (value <= 2**DEPTH)).all()
    return int(((first <= true) & (true <= last)).sum())


def draws(pure):
    g = np.random.default_rng(3)
    shape = (RUNS, 2 ** (DEPTH + 1) - 2)
    return g.laplace(0, 0.5**0.5, shape) if pure else g.normal(0, 1, shape)


@pytest.mark.slow
@pytest.mark.parametrize("pure", [True, False])
def test_the_bin_of_the_quantile_is_in_it(pure):
    noise, least = draws(pure), binom.ppf(1e-7, RUNS, 0.945)
    for leaves in ROWS.values():
        for n in (5.0, 300.0):
            for q in (0.5, 0.9):
                assert held(leaves * n, q, noise, pure) >= least


def test_a_shorter_interval_is_seen(monkeypatch):
    right = _intervals._edge_limits
    monkeypatch.setattr(_intervals, "_edge_limits", lambda *which: 0.6 * right(*which))
    assert held(ROWS["two values"] * 40, 0.7, draws(False), False) < binom.ppf(1e-7, RUNS, 0.945)


def test_sums_of_least_variance_are_the_sums():
    g = np.random.default_rng(0)
    leaves = g.random(2**DEPTH)
    nodes = np.concatenate([leaves.reshape(2**k, -1).sum(axis=1) for k in range(1, DEPTH + 1)])
    below = np.r_[0.0, np.cumsum(leaves)]
    assert np.allclose(tree_excess(DEPTH, 0.3) @ nodes, below - 0.3 * below[-1])


def length(leaves, q, noise):
    """Return the mean length of intervals, in bins."""
    nodes = [leaves.reshape(2**k, -1).sum(axis=1) for k in range(1, DEPTH + 1)]
    _, first, last = quantile_bins(np.concatenate(nodes) + noise, 1.0, DEPTH, q, pure=False)
    return float((last - first + 1).mean())


def test_edges_far_from_the_quantile_are_not_in_it(monkeypatch):
    """Of 10 rows in two bins: from 65 bins to 9, where noise of 83 empty ones is not smoothed."""
    noise = draws(False)[:1000]
    shorter = length(ROWS["two values"] * 10, 0.7, noise)
    monkeypatch.setattr(_intervals, "_ascending", lambda rows: rows)
    assert shorter < 15 < 50 < length(ROWS["two values"] * 10, 0.7, noise)


# --- means of a population ----------------------------------------------------------------------

PARTS = (np.arange(20_001) + 0.5) / 20_001
NOISE = {"Gaussian": norm.ppf(PARTS), "Laplace": laplace.ppf(PARTS, scale=0.5**0.5)}


def share_held(seen, spread, beside, noise):
    """Return in how many percent of releases an interval holds.

    Of a normal deviation of variance `beside` + `spread`, in units of the noise of `spread`.
    """
    width = np.sqrt(beside + seen(spread + noise, 1.0))
    return 100 * float((2 * norm.cdf(Z * width / np.sqrt(beside + spread)) - 1).mean())


@each("noise", NOISE.values(), ids=list(NOISE))
@each("beside", [0.01, 0.3, 1.0, 5.0])
def test_what_is_seen_of_a_spread_is_enough_and_no_more(noise, beside):
    for spread in (0.0, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0, 15.0, 100.0):
        found = share_held(spread_seen, spread, beside, noise)
        assert found >= 94.5
        assert spread < 3 or found <= 95.6
    added = lambda x, std: np.maximum(x, 0) + std  # noqa: E731  a deviation more: too long
    assert share_held(added, 5.0, beside, noise) > 95.6
    bare = lambda x, std: np.maximum(x, 0)  # noqa: E731  too short
    assert beside == 5.0 or share_held(bare, 1.0, beside, noise) < 94.5


def test_a_spread_far_above_laplace_noise_makes_a_normal_interval():
    """Not one of Laplace noise, 8% longer."""
    total, count, extra = np.array([500.0]), np.array([1000.0]), np.array([10.0**4])
    low, high = quotient_intervals(total, count, 0.1, 0.1, low=-1, high=1, pure=True, extra=extra)
    assert (high - low)[0] / 2 == pytest.approx(Z * 100 / 1000, rel=1e-3)
    assert heavy_z(3.0, 0.95) > heavy_z(1.0, 0.95) > heavy_z(0.0, 0.95) == Z


def test_a_spread_without_noise_is_as_it_is():
    assert spread_seen(np.array([0.0, 4.0, -1e300]), 0.0).tolist() == [0.0, 4.0, 0.0]
    assert spread_seen(np.array([-1e12]), 1.0)[0] == pytest.approx(1e-12)
