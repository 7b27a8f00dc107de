"""Intervals for a population's mean hold as often as they say, where noise shows the spread.

No draws: the share of intervals that hold is integrated over the noise of the spread.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import laplace, norm

from skdp.aggregation._intervals import Z, _heavy_z, quotient_interval, spread_seen

PLACES = (np.arange(20_001) + 0.5) / 20_001
NOISE = {"Gaussian": norm.ppf(PLACES), "Laplace": laplace.ppf(PLACES, scale=0.5**0.5)}


def held(seen, spread, beside, noise):
    """Return in how many percent of releases an interval holds.

    Of a normal deviation of variance `beside` + `spread`, in units of the noise of `spread`.
    """
    width = np.sqrt(beside + seen(spread + noise, 1.0))
    return 100 * float((2 * norm.cdf(Z * width / np.sqrt(beside + spread)) - 1).mean())


@pytest.mark.parametrize("noise", NOISE.values(), ids=list(NOISE))
@pytest.mark.parametrize("beside", [0.01, 0.3, 1.0, 5.0])
def test_what_is_seen_of_a_spread_is_enough_and_no_more(noise, beside):
    for spread in (0.0, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0, 15.0, 100.0):
        found = held(spread_seen, spread, beside, noise)
        assert found >= 94.5
        assert spread < 3 or found <= 95.6
    added = lambda x, std: np.maximum(x, 0) + std  # noqa: E731  a deviation more: too long
    assert held(added, 5.0, beside, noise) > 95.6
    bare = lambda x, std: np.maximum(x, 0)  # noqa: E731  too short
    assert beside == 5.0 or held(bare, 1.0, beside, noise) < 94.5


def test_a_spread_far_above_laplace_noise_makes_a_normal_interval():
    """Not one of Laplace noise, 8% longer."""
    low, high = quotient_interval(500.0, 1000.0, 0.1, 0.1, low=-1, high=1, pure=True, extra=10.0**4)
    assert (high - low) / 2 == pytest.approx(Z * 100 / 1000, rel=1e-3)
    assert _heavy_z(3.0) > _heavy_z(1.0) > _heavy_z(0.0) == Z


def test_a_spread_without_noise_is_as_it_is():
    assert spread_seen(np.array([0.0, 4.0, -1e300]), 0.0).tolist() == [0.0, 4.0, 0.0]
    assert spread_seen(np.array([-1e12]), 1.0)[0] == pytest.approx(1e-12)
