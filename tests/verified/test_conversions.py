"""Conversions between epsilon, delta and mu: rounded towards privacy on every point of a grid.

The truth is evaluated in balls of 600 bits, so an assertion that passes holds for the real number.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from skdp.core.noise.exact import exp_bracket
from skdp.loss.conversions import gdp_delta, gdp_mu, pure_epsilon_from_mu, pure_mu
from tests.verified.balls import ball, flint_with

ABOUT = ("skdp/loss/conversions.py", "skdp/core/noise/exact.py")
NEEDS = ("flint",)
BITS = 600


@pytest.fixture(autouse=True)
def _balls():
    flint_with(BITS)


def normal_cdf(x):
    """Return Phi(x)."""
    from flint import arb

    return (-x / arb(2).sqrt()).erfc() / 2


def true_delta(epsilon, mu):
    """Return the smallest delta for which mu-GDP gives (epsilon, delta)-DP; arguments are balls."""
    return normal_cdf(mu / 2 - epsilon / mu) - epsilon.exp() * normal_cdf(-mu / 2 - epsilon / mu)


def true_pure_epsilon(mu):
    """Return the largest epsilon for which every epsilon-DP release is mu-GDP."""
    return (normal_cdf(ball(mu) / 2) / normal_cdf(-ball(mu) / 2)).log()


EPSILONS = (*np.geomspace(1e-6, 700, 60).tolist(), 1 / 3, 0.1, 0.3, 1.0, 2.0, 1e-3, 1e3, 5e3)
DELTAS = (1e-300, 1e-30, 1e-12, 1e-9, 1e-6, 1e-5, 1e-3, 0.1, 0.5, 0.99)


def test_gdp_mu_is_never_too_large(record_property):
    """Noise of level `gdp_mu(epsilon, delta)` has a true delta of at most `delta`.

    Domain: 68 epsilons from 1e-6 to 5000 and 10 deltas from 1e-300 to 0.99, each as the float and
    as the decimal number of its `repr`. A level that is larger by 1e-4 would be too large.
    """
    n_points = 0
    for epsilon, delta in itertools.product(EPSILONS, DELTAS):
        mu = gdp_mu(epsilon, delta)
        for e, d in ((epsilon, delta), (Fraction(repr(epsilon)), Fraction(repr(delta)))):
            assert true_delta(ball(e), ball(mu)) <= ball(d), (epsilon, delta)
            n_points += 1
        larger = ball(mu) * ball(1 + Fraction(1, 10**4))
        assert true_delta(ball(epsilon), larger) > ball(delta), (epsilon, delta)
    record_property("points", n_points)


def test_pure_conversions_are_rounded_towards_privacy(record_property):
    """Every `pure_epsilon_from_mu(mu)`-DP release is mu-GDP, every epsilon-DP one `pure_mu`-GDP.

    Domain: 402 mu from 1e-12 to 70, among them both sides of 1e-3, where the formula changes; 400
    epsilons from 1e-9 to 600.
    """
    mus = (*np.geomspace(1e-12, 70, 400).tolist(), 1e-3, float(np.nextafter(1e-3, 0)))
    for mu in mus:
        epsilon, truth = pure_epsilon_from_mu(mu), true_pure_epsilon(mu)
        assert ball(epsilon) <= truth, mu
        assert ball(epsilon) >= truth * (1 - ball(Fraction(1, 10**6))), mu
    epsilons = np.geomspace(1e-9, 600, 400).tolist()
    for epsilon in epsilons:
        assert true_pure_epsilon(pure_mu(epsilon)) >= ball(epsilon), epsilon
    record_property("points", len(mus) + len(epsilons))


def test_gdp_delta_is_never_too_small(record_property):
    """`gdp_delta` bounds the true delta. Domain: 40 epsilons (1e-6 to 500), 40 mu (1e-4 to 60)."""
    n_points = 0
    epsilons, mus = np.geomspace(1e-6, 500, 40).tolist(), np.geomspace(1e-4, 60, 40).tolist()
    for epsilon, mu in itertools.product(epsilons, mus):
        bound = gdp_delta(epsilon, mu)
        assert bound == 1 or true_delta(ball(epsilon), ball(mu)) <= ball(bound), (epsilon, mu)
        n_points += 1
    record_property("points", n_points)


def test_exp_bracket_contains_the_truth(record_property):
    """`exp_bracket` returns integers on both sides of 2**bits exp(-x), at most a few apart.

    Domain: fractions p / q for q up to 32 and x up to 40, with 8, 53, 64 and 200 bits.
    """
    n_brackets, widest = 0, 0
    for q in range(1, 33):
        for p, bits in itertools.product(range(0, 40 * q, max(1, q // 3)), (8, 53, 64, 200)):
            low, high = exp_bracket(Fraction(p, q), bits)
            truth = (-ball(Fraction(p, q))).exp() * 2**bits
            assert ball(low) <= truth, (p, q, bits)
            assert truth <= ball(high), (p, q, bits)
            n_brackets, widest = n_brackets + 1, max(widest, high - low)
    assert widest <= 3
    record_property("brackets", n_brackets)
