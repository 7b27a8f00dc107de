"""Privacy loss distributions of plans: never below the exact delta, and close above it.

The exact values are sums over all outcomes in 50-digit arithmetic; dp-accounting, which uses
Fourier transforms on a finer grid, is a second opinion.
"""

from __future__ import annotations

import itertools
import math
import random

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution

from skdp.budget import Cost, gdp_delta
from skdp.loss import pld
from skdp.loss.charge import total
from skdp.loss.pld import Losses, PlanLoss, plan_loss
from tests.folding import each

MP = mpmath.mp.clone()  # no other test sees its precision
MP.dps = 50


def gaussian_delta(epsilon, mu):
    """Return the delta of mu-GDP at an epsilon of any sign, in 50 digits."""
    if mu == 0:
        return max(MP.mpf(0), 1 - MP.exp(epsilon))
    mu = MP.mpf(mu)
    return MP.ncdf(-epsilon / mu + mu / 2) - MP.exp(epsilon) * MP.ncdf(-epsilon / mu - mu / 2)


def exact_delta(epsilon, pure, mu=0):
    """Return the delta of randomized responses and a Gaussian, over all outcomes of the former."""
    losses = {MP.mpf(0): MP.mpf(1)}
    for one in pure:
        one, found = MP.mpf(repr(one)), {}
        up = 1 / (1 + MP.exp(-one))
        for loss, mass in losses.items():
            found[loss + one] = found.get(loss + one, 0) + mass * up
            found[loss - one] = found.get(loss - one, 0) + mass * (1 - up)
        losses = found
    return sum(m * gaussian_delta(MP.mpf(repr(epsilon)) - x, mu) for x, m in losses.items())


def laplace(scale, step):
    """Return the losses of Laplace noise of this scale at sensitivity 1, split onto a grid.

    The loss is +-1/scale with half of the mass of each side, and has a density in between.
    """
    epsilon, n = 1 / scale, round(1 / scale / step)
    assert math.isclose(n * step, epsilon)
    masses = np.zeros(2 * n + 1)
    low = (np.arange(2 * n) - n) * step
    share = -np.expm1(-step)
    masses[1:] += 2 * np.exp((low - epsilon) / 2) * np.sinh(step / 4) ** 2 / share
    masses[:-1] += np.exp((low - epsilon) / 2) * np.expm1(-step / 2) ** 2 / (2 * share)
    masses[-1] += 0.5
    masses[0] += 0.5 * math.exp(-epsilon)
    assert math.isclose(masses.sum(), 1, rel_tol=1e-12)
    return Losses(-n, masses)


def test_the_losses_of_forty_laplace_releases():
    step = 1 / 3 / 200
    losses = laplace(3.0, step).times(40)
    assert 1.7854e-6 <= PlanLoss(losses, step, 0.0, 0.0).delta(10.0) <= 1.79e-6
    assert 2.2396e-6 <= PlanLoss(losses, step, 1 / 5, 0.0).delta(10.0) <= 2.25e-6


def test_a_hundred_pure_charges():
    assert 4.77 < plan_loss(100 * Cost(0.1)).epsilon(1e-6) <= 4.78


PLANS = [
    ([0.1] * 30, 0),
    ([0.1] * 30, 0.3),
    ([1.0], 0),
    ([0.05] * 10 + [0.2] * 5 + [1.5], 0.7),
    ([0.123456789, 0.3333333, 0.0271828, 1.41421356] * 3, 0),  # no common grid
    ([0.123456789, 0.3333333, 0.0271828, 1.41421356] * 2, 0.05),
    ([1e-9, 3.0], 0),
    ([], 0.4),
]


@each(("pure", "mu"), PLANS)
def test_no_delta_is_below_the_exact_one_and_none_far_above(pure, mu):
    cost = total([(Cost(one), 1) for one in pure] + ([(Cost(1.0, 1e-6, mu=mu), 1)] if mu else []))
    loss = plan_loss(cost)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        exact, found = exact_delta(epsilon, pure, mu), loss.delta(epsilon)
        assert found >= exact
        assert found <= float(exact) * (1 + 2e-4) + 1e-12


@each(("pure", "mu"), PLANS)
def test_epsilon_is_the_smallest_one_that_the_delta_allows(pure, mu):
    cost = total([(Cost(one), 1) for one in pure] + ([(Cost(1.0, 1e-6, mu=mu), 1)] if mu else []))
    loss = plan_loss(cost)
    for delta in (1e-3, 1e-6, 1e-11):
        epsilon = loss.epsilon(delta)
        assert exact_delta(epsilon, pure, mu) <= delta
        if epsilon > 1e-3:
            assert exact_delta(epsilon * (1 - 2e-3), pure, mu) > delta


def test_splitting_a_loss_keeps_both_masses():
    for epsilon, step in itertools.product((0.3, 1.7, 0.004, 5.0), (0.01, 0.03, 0.5)):
        losses = pld._pure(pld.exact(epsilon), pld.exact(step))
        at = (losses.first + np.arange(losses.masses.size)) * step
        assert losses.masses.sum() == pytest.approx(1, rel=1e-13)
        assert losses.masses @ np.exp(-at) == pytest.approx(1, rel=1e-12)
        assert (
            losses.masses @ (at > 0) == pytest.approx(1 / (1 + math.exp(-epsilon)), rel=1e-12)
            or epsilon < step
        )


def test_separate_deltas_and_claims_without_mu_tell_all():
    loss = plan_loss(2 * Cost(0.5, 1e-7) + Cost(1.0, 2e-6, mu=0.1, separate_delta=1e-6))
    apart = 1 - (1 - 1e-7) ** 2 * (1 - 1e-6)
    assert apart * (1 - 1e-9) <= loss.delta(50.0) <= apart * (1 + 1e-9)
    assert loss.epsilon(1.199e-6) == math.inf
    assert loss.epsilon(1.3e-6) < 3
    alone = plan_loss(2 * Cost(0.5) + Cost(1.0, 1e-6, mu=0.1))
    assert loss.delta(0.5) == pytest.approx(apart + (1 - apart) * alone.delta(0.5), rel=1e-9)


def test_one_gaussian_is_its_closed_form():
    for mu in (0.01, 0.5, 3.0, 90.0):
        loss = plan_loss(Cost(1.0, 1e-6, mu=mu))
        for epsilon in (0.0, 0.1, 1.0, 10.0):
            assert loss.delta(epsilon) == pytest.approx(
                gdp_delta(epsilon, mu), rel=1e-9, abs=1e-300
            )


def test_gaussians_add_up_as_their_squares():
    many = plan_loss(25 * Cost(1.0, 1e-6, mu=0.1))
    one = plan_loss(Cost(1.0, 1e-6, mu=0.5))
    assert many.delta(1.0) == pytest.approx(one.delta(1.0), rel=1e-12)


def test_tails_are_cut_towards_privacy():
    masses = np.concatenate([np.full(300, 1e-33), [1.0], np.full(300, 1e-33)])
    cut = Losses(-300, masses).trimmed()
    assert cut.masses.size < 10
    assert cut.infinite >= 2.9e-31
    assert cut.masses.sum() + cut.infinite >= masses.sum()
    full = Losses(-500, np.full(1001, 1 / 1001))
    assert full.trimmed().masses.size == 1001


def test_huge_and_tiny_prices_stay_finite():
    assert plan_loss(Cost(1000.0)).epsilon(1e-6) == pytest.approx(1000)
    assert plan_loss(Cost(800.0) + 1000 * Cost(1e-4)).epsilon(1e-6) < 801
    assert plan_loss(Cost(1e-300)).delta(0.0) < 1e-200
    assert plan_loss(Cost(5.0, 1e-6, mu=1e-200)).delta(0.5) < 1e-200


@pytest.mark.parametrize(
    "cost", [Cost(1e300), 3 * Cost(1e308), Cost(1.0, 1e-6, mu=1e300), 10**400 * Cost(1e-300)]
)
def test_a_plan_that_no_float_can_hold_tells_all(cost):
    assert plan_loss(cost).epsilon(1e-6) == math.inf
    assert plan_loss(cost).delta(1e300) == 1.0


def test_many_charges_far_below_the_grid_are_fast_and_tight():
    # Randomized response that often at so small an epsilon is Gaussian, of mu = 1.
    assert gdp_delta(5.0, 1.0) < plan_loss(10**18 * Cost(1e-9)).delta(5.0)
    assert plan_loss(10**18 * Cost(1e-9)).epsilon(1e-6) < 6.34  # a normal one of 1.2534
    without = plan_loss(50 * Cost(0.5)).epsilon(1e-6)
    assert without < plan_loss(50 * Cost(0.5) + 10**9 * Cost(1e-8)).epsilon(1e-6) < without + 1e-3


@pytest.mark.parametrize("mu", [0.0, 0.35])
def test_a_second_opinion(mu):
    pure, times = common.DifferentialPrivacyParameters(0.25, 0), 20
    theirs = privacy_loss_distribution.from_privacy_parameters(pure, 1e-3).self_compose(times)
    cost = times * Cost(0.25)
    if mu:
        theirs = theirs.compose(
            privacy_loss_distribution.from_gaussian_mechanism(
                1 / mu, value_discretization_interval=1e-3
            )
        )
        cost += Cost(1.0, 1e-6, mu=mu)
    ours = plan_loss(cost)
    for delta in (1e-4, 1e-6, 1e-9):
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=1e-3)


@pytest.mark.slow
def test_ten_thousand_different_charges():
    draw = random.Random(0)
    values = [draw.uniform(0.05, 0.15) for _ in range(10_000)]
    cost = total((Cost(value), 1) for value in values)
    epsilon = plan_loss(cost).epsilon(1e-6)
    # All of the root mean square: the next larger and smaller plan of equal charges.
    root = math.sqrt(sum(v * v for v in values) / len(values))
    assert epsilon == pytest.approx(
        plan_loss(10_000 * Cost(round(root, 6))).epsilon(1e-6), rel=1e-3
    )


def test_many_equal_charges():
    # One by one it would take hours.
    assert plan_loss(10**6 * Cost(0.001)).epsilon(1e-6) < 6
