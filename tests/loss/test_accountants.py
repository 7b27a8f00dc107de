"""Accountants against closed forms in 50 digits and against dp_accounting.

Everything here is deterministic. Where a test says that something is not above a bound, it also
shows that a slightly larger value would be.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from skdp import PrivacyBudget
from skdp.budget import Cost, exact, gdp_delta, gdp_mu, guessing_chance, pure_mu, zcdp_delta
from skdp.loss.accountants import ACCOUNTANTS
from skdp.loss.conversions import Amount
from tests.folding import each

mpmath.mp.dps = 50

EPSILONS = st.floats(-9, 5).map(math.exp)
DELTAS = st.floats(-40, -1).map(math.exp)


def mp(value):
    """Read a float as the decimal of its repr."""
    return mpmath.mpf(repr(value))


def true_gdp_delta(epsilon, mu):
    a, b = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    return mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(b)


@pytest.mark.slow
@settings(max_examples=200)
@given(EPSILONS, st.floats(-7, 3).map(math.exp))
def test_gdp_delta_is_an_upper_bound_and_close(epsilon, mu):
    with mpmath.workdps(200):  # the two terms may agree in many digits
        true = true_gdp_delta(mpmath.mpf(epsilon), mpmath.mpf(mu))
    bound = gdp_delta(epsilon, mu)
    assert bound >= true
    b = 1 + mu + epsilon / mu
    assert bound <= true * (1 + 1e-11 * (1 + b / mu) * b) + 1e-320


def test_gdp_delta_at_the_ends():
    assert gdp_delta(1.0, 0.0) == 0.0
    for mu in (5e-324, 1e-310, 1e-160, 1e-150):
        assert 0 < gdp_delta(1.0, mu) < 1e-300
    assert gdp_delta(1.0, 1e6) == 1.0
    assert gdp_delta(0.0, 1.0) == pytest.approx(2 * mpmath.ncdf(0.5) - 1)


@settings(max_examples=100)
@given(EPSILONS, DELTAS)
def test_gdp_mu_keeps_the_claim_and_is_the_largest(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    with mpmath.workdps(200):
        assert true_gdp_delta(mp(epsilon), mp(mu)) <= mp(delta)
        assert true_gdp_delta(mp(epsilon), mp(mu * (1 + 1e-6))) > mp(delta)


@each("epsilon", [*np.geomspace(1e-8, 900, 60), 0.999999, 1.0, 1.000001])
def test_pure_mu_is_at_the_corner_of_the_trade_off_curve(epsilon):
    mu = pure_mu(float(epsilon))
    corner = 1 / (1 + mpmath.exp(mp(float(epsilon))))
    assert mpmath.ncdf(-mp(mu) / 2) <= corner
    assert mpmath.ncdf(-mp(mu * (1 - 1e-11)) / 2) > corner


def test_randomised_response_is_as_private_as_pure_mu_says():
    # its trade-off curve lies above that of mu-GDP everywhere, and touches it
    for epsilon in (0.1, 1.0, 3.0):
        alpha = np.linspace(1e-6, 1 - 1e-6, 2001)
        response = np.maximum(1 - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - alpha))
        gauss = [float(mpmath.ncdf(-pure_mu(epsilon) - mpmath.mpf(q))) for q in ndtri(alpha)]
        assert np.all(response - gauss > -1e-12)
        assert np.min(response - gauss) < 1e-3


@pytest.mark.slow
@settings(max_examples=30)
@given(st.floats(-3, 3).map(math.exp), st.floats(-8, 1).map(math.exp))
def test_zcdp_delta_bounds_the_gaussian_and_the_formula(epsilon, rho):
    bound = zcdp_delta(epsilon, rho)
    with mpmath.workdps(60):
        true = true_gdp_delta(mpmath.mpf(epsilon), mpmath.sqrt(2 * mpmath.mpf(rho)))
        assert bound >= true
        formula = min(
            mpmath.exp((a - 1) * (a * rho - epsilon)) / (a - 1) * (1 - 1 / a) ** a
            for a in (1 + mpmath.exp(x) for x in mpmath.linspace(-7, 12, 400))
        )
    assert bound <= min(formula * (1 + 1e-9), 1) + 1e-300


def test_zcdp_agrees_with_dp_accountings_renyi_accountant():
    orders = 1 + np.geomspace(0.01, 500, 3000)
    for mu, delta in ((0.2, 1e-6), (1.0, 1e-5)):
        peer = RdpAccountant(orders).compose(GaussianDpEvent(1 / mu)).get_epsilon(delta)
        accountant = ACCOUNTANTS["zcdp"](100.0, delta)
        own = accountant.loss(accountant.price(Cost(1.0, delta, mu=mu))).epsilon
        assert own == pytest.approx(peer, rel=1e-4)


# -- the filters ------------------------------------------------------------------------------


def fill(accountant, costs):
    """Grant prices in turn until nothing of the list fits any more; return what was granted."""
    spent, granted = Amount(), []
    for cost in costs:
        if (spent + accountant.price(cost)).fits(accountant.cap):
            spent = spent + accountant.price(cost)
            granted.append(cost)
    return granted, spent


def true_delta_lower_bound(costs, epsilon):
    """Return a lower bound on the true delta of these prices at epsilon, by dp_accounting.

    Gaussian noise for a price with mu, and otherwise the worst (epsilon, delta) mechanism.
    """
    total, kept = None, 1.0
    for cost in costs:
        if cost.mu is not None:
            one = privacy_loss_distribution.from_gaussian_mechanism(
                1 / cost.mu, pessimistic_estimate=False, value_discretization_interval=1e-4
            )
        else:  # with probability delta everything is told, and else it is randomised response
            kept *= 1 - cost.delta
            one = privacy_loss_distribution.from_randomized_response(
                2 / (1 + math.exp(cost.epsilon)),
                2,
                pessimistic_estimate=False,
                value_discretization_interval=1e-4,
            )
        total = one if total is None else total.compose(one)
    return 1 - kept * (1 - total.get_delta_for_epsilon(epsilon))


PLANS = {
    "gaussian": [Cost(0.3, 1e-7, mu=0.09)] * 40,
    "pure": [Cost(0.05)] * 200,
    "mixed": [Cost(0.3, 1e-7, mu=0.07), Cost(0.04), Cost(0.02, 1e-7), Cost(0.1, 1e-8, mu=0.02)]
    * 60,
}


@each("plan", PLANS)
@each("name", ["basic", "gdp", "zcdp"])
def test_a_filter_never_grants_more_than_the_true_loss_allows(name, plan):
    epsilon, delta = 1.0, 1e-6
    accountant = ACCOUNTANTS[name](epsilon, delta, 0.0 if name == "basic" else 3e-7)
    granted, spent = fill(accountant, PLANS[plan])
    assert len(granted) < len(PLANS[plan])
    assert true_delta_lower_bound(granted, epsilon) <= delta
    loss = accountant.loss(spent)
    assert loss.epsilon <= epsilon
    assert loss.delta <= delta
    assert true_delta_lower_bound(granted, loss.epsilon) <= loss.delta


def test_the_gdp_filter_is_exact_for_gaussian_noise():
    # Grants all that the truth allows, and a copied whose cap is 3% too wide is caught.
    accountant = ACCOUNTANTS["gdp"](1.0, 1e-6)
    mu = math.sqrt(float(accountant.cap.main) / 10) * (1 - 1e-12)
    granted, _ = fill(accountant, [Cost(1.0, 1e-7, mu=mu)] * 12)
    assert len(granted) == 10
    assert true_delta_lower_bound(granted, 0.999) > 1e-6
    wide = [Cost(1.0, 1e-7, mu=mu * math.sqrt(1.03))] * 10
    assert true_delta_lower_bound(wide, 1.0) > 1e-6


def test_gaussian_accountants_grant_more_than_sums():
    one = Cost(0.2, 1e-6 / 20, mu=gdp_mu(0.2, 1e-6 / 20))
    counts = {
        name: len(fill(ACCOUNTANTS[name](1.0, 1e-6), [one] * 40)[0])
        for name in ("basic", "gdp", "zcdp")
    }
    assert counts["basic"] == 5
    assert counts["gdp"] > counts["zcdp"] > 10


@pytest.mark.slow
def test_why_separate_delta_is_fixed_in_advance():
    """The rule "D + delta(M) <= delta, whatever the split" is broken by an adaptive choice.

    First a Gaussian release of mu_1. Where the realised loss l is large, go on with Gaussian
    noise up to mu_cap; elsewhere spend D = delta - delta(mu_1) apart. Each path obeys the rule.
    The hockey-stick divergence of the whole is the mean over l of the better one of the two.
    """
    epsilon, delta = 1.0, 1e-6
    mu = gdp_mu(epsilon, delta)
    mu_1 = 0.93 * mu
    apart = delta - float(true_gdp_delta(epsilon, mu_1))
    rest = math.sqrt(mu**2 - mu_1**2)
    assert apart > 0.5 * delta

    def more(loss):  # what is reached after this loss, choosing the better continuation
        gauss = true_gdp_delta(epsilon - loss, rest)
        return max(gauss, apart + (1 - apart) * max(0, 1 - mpmath.exp(epsilon - loss)))

    with mpmath.workdps(30):
        mean = mu_1**2 / 2  # the loss is N(mu^2/2, mu^2)
        total = mpmath.quad(
            lambda x: more(mean + mu_1 * x) * mpmath.npdf(x), list(range(-8, 11)), maxdegree=4
        )
    assert total > 1.2 * delta


def test_separate_delta_is_capped_apart():
    for name in ("gdp", "zcdp"):
        claim = Cost(0.001, 1e-7)
        none = ACCOUNTANTS[name](1.0, 1e-6)
        assert not none.price(claim).fits(none.cap)
        some = ACCOUNTANTS[name](1.0, 1e-6, 3e-7)
        assert (3 * some.price(claim)).fits(some.cap)
        assert not (4 * some.price(claim)).fits(some.cap)
        assert some.cap.main < none.cap.main
        assert some.price(Cost(0.5, 2e-7, mu=0.01, separate_delta=1e-7)).separate == exact(1e-7)
        assert some.loss(3 * some.price(claim)).delta <= 1e-6


@each("name", ["gdp", "zcdp"])
@each("used", [0.0, 0.3, 0.9, 0.9999])
@each(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-3)])
def test_one_gaussian_fit_of_all_that_remains_fits(name, used, epsilon, delta):
    accountant = ACCOUNTANTS[name](epsilon, delta)
    room = Amount(accountant.cap.main * Fraction(1 - used), accountant.cap.separate)
    left = accountant.room(room)
    cost = Cost(left.epsilon, left.delta, mu=gdp_mu(left.epsilon, left.delta))
    assert accountant.price(cost).fits(room)
    more = gdp_mu(left.epsilon * (1 + 1e-6), left.delta)
    wider = Cost(left.epsilon, left.delta, mu=more)
    assert not accountant.price(wider).fits(room)
    if name == "gdp" and not used:
        assert left.epsilon == epsilon


@pytest.mark.parametrize("name", ["basic", "gdp", "zcdp"])
def test_losses_are_rounded_up_and_grow(name):
    accountant = ACCOUNTANTS[name](2.0, 1e-5)
    shares = [Fraction(k, 10) for k in range(11)]
    losses = [accountant.loss(Amount(accountant.cap.main * s)).epsilon for s in shares]
    assert losses[0] == 0
    assert losses[-1] == 2.0
    assert losses == sorted(losses)
    if name == "gdp":
        for share, epsilon in zip(shares[1:], losses[1:], strict=True):
            mu = mpmath.sqrt(mpmath.mpf(float(accountant.cap.main * share)))
            assert true_gdp_delta(mp(epsilon), mu * (1 - mpmath.mpf(10) ** -15)) <= mp(1e-5)
            assert true_gdp_delta(mp(epsilon * (1 - 1e-6)), mu) > mp(1e-5)


def test_zcdp_prices():
    accountant = ACCOUNTANTS["zcdp"](1.0, 1e-6)
    assert accountant.price(Cost(0.1)).main == Fraction(1, 200)
    assert accountant.price(Cost(3.0)).main == 3
    assert accountant.price(Cost(1.0, 1e-6, mu=0.2)).main == Fraction(1, 50)


@pytest.mark.parametrize("name", ["gdp", "zcdp"])
def test_gaussian_accountants_need_a_delta(name):
    with pytest.raises(ValueError, match="delta must be above 0"):
        ACCOUNTANTS[name](1.0, 0.0)
    with pytest.raises(ValueError, match="separate_delta must be in"):
        ACCOUNTANTS[name](1.0, 1e-6, 1e-6)


def test_the_basic_accountant_has_no_separate_delta():
    with pytest.raises(ValueError, match="separate_delta must be 0"):
        ACCOUNTANTS["basic"](1.0, 1e-6, 1e-7)


def test_a_zcdp_budget_of_huge_epsilon_warns_of_nothing():
    """Warnings of numpy are errors here; the curve was once evaluated where exp overflows."""
    assert zcdp_delta(1.0, 1e6) == 1.0
    assert 0.99e8 < PrivacyBudget(1e8, 1e-6, accountant="zcdp").remaining.epsilon <= 1e8


def test_the_chance_of_a_guess_is_that_of_the_best_test():
    """Against all tests of the worst pair of distributions that (epsilon, delta) allows."""
    cases = itertools.product((0.0, 0.1, 1.0, 3.0), (0.0, 0.05, 0.5), (0.5, 0.1))
    for epsilon, delta, prior in cases:
        both = (1 - delta) / (1 + math.exp(epsilon))
        # Outcomes: only of the first, more of the first, more of the second, only of the second.
        first = [delta, (1 - delta) - both, both, 0.0]
        second = first[::-1]
        best = sum(max(prior * a, (1 - prior) * b) for a, b in zip(first, second, strict=True))
        found = guessing_chance(epsilon, delta, prior)
        assert best <= found <= best * (1 + 1e-11)
    assert guessing_chance(1e6) == 1.0
    for bad in ((-1,), (math.inf,), (math.nan,), (1, -0.1), (1, 2), (1, 0, 1.5)):
        with pytest.raises(ValueError, match="must be"):
            guessing_chance(*bad)


def test_a_budget_says_what_its_loss_means():
    for adjacency, text in (
        ("replace_one", "between two contents of one row"),
        ("add_or_remove_one", "whether one row is in the table"),
    ):
        budget = PrivacyBudget(2.0, adjacency=adjacency)
        assert "Whoever" not in budget._repr_html_()
        budget.charge(Cost(1.0), estimator="x")
        assert text in budget._repr_html_()
        assert "at most 73.2%" in budget._repr_html_()
