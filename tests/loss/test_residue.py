"""The residue filter: what a pure release takes of a Gaussian allowance, and that it is enough."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from skdp.budget import Cost, PrivacyBudget, gdp_mu, plan_epsilon, pure_mu
from skdp.exceptions import BudgetExceededError
from skdp.loss import accountants
from skdp.loss.accountants import pure_price
from skdp.loss.conversions import exact, up
from tests.folding import each

MP = mpmath.mp.clone()
MP.dps = 40


def delta(epsilon, mu):
    """Return the delta of mu-GDP at an epsilon of any sign."""
    if mu == 0:
        return max(MP.mpf(0), 1 - MP.exp(epsilon))
    return MP.ncdf(-epsilon / mu + mu / 2) - MP.exp(epsilon) * MP.ncdf(-epsilon / mu - mu / 2)


CASES = [(e, k) for e in (0.01, 0.3, 1.0, 3.0) for k in (1, 1.01, 1.5, 4, 40) if e * k**0.5 < 13]


@each(("epsilon", "times"), CASES)
def test_a_release_and_the_residue_stay_within_the_allowance_at_every_epsilon(epsilon, times):
    left = exact(pure_mu(epsilon)) ** 2 * Fraction(str(times))
    price = pure_price(epsilon, 1, left)
    mu, r = MP.sqrt(MP.mpf(left.numerator) / left.denominator), left - price
    r = MP.sqrt(MP.mpf(r.numerator) / r.denominator)
    high = 1 / (1 + MP.exp(-MP.mpf(repr(epsilon))))
    reach = 4 * mu + mu**2
    for i in range(-60, 61):
        x = reach * i / 60
        both = high * delta(x - epsilon, r) + (1 - high) * delta(x + epsilon, r)
        assert both <= delta(x, mu) + MP.mpf(10) ** -35


@each(("epsilon", "times"), [case for case in CASES if case[1] > 1])
def test_a_price_is_hardly_above_the_best(epsilon, times):
    left = exact(pure_mu(epsilon)) ** 2 * Fraction(str(times))
    price = pure_price(epsilon, 1, left) * Fraction("0.998")
    mu = MP.sqrt(MP.mpf(left.numerator) / left.denominator)
    rest = left - price
    r = MP.sqrt(MP.mpf(rest.numerator) / rest.denominator)
    high = 1 / (1 + MP.exp(-MP.mpf(repr(epsilon))))
    both = high * delta(-MP.mpf(epsilon), r) + (1 - high) * delta(MP.mpf(epsilon), r)
    assert both > delta(MP.mpf(0), mu)


def test_a_price_is_never_above_that_of_the_plain_filter():
    for epsilon in (1e-6, 0.01, 0.5, 2.0, 30.0):
        plain = exact(pure_mu(epsilon)) ** 2
        for times in (1, 2, 10, 1000):
            assert 0 < pure_price(epsilon, 1, times * plain) <= plain
        assert pure_price(epsilon, 3, 3 * plain) <= 3 * plain
        assert pure_price(epsilon, 1, plain) == plain  # the last one takes all of its own
        assert pure_price(epsilon, 1, plain * Fraction("0.999999")) == plain


def test_many_prices_at_once_are_those_one_by_one():
    left = exact(gdp_mu(3.0, 1e-6)) ** 2
    together, one_by_one = pure_price(0.1, 20, left), Fraction(0)
    for _ in range(20):
        one_by_one += pure_price(0.1, 1, left - one_by_one)
    assert float(together) == pytest.approx(float(one_by_one), rel=1e-3)


@each("epsilon", [0.02, 0.3, 1.7])
@each("times", [1, 2, 7, 150, 700])
def test_many_prices_are_the_sum_of_those_that_are_searched_for_one_by_one(epsilon, times):
    """The slow oracle asks at every release whether the price of the last one still holds."""
    for left in (exact(gdp_mu(3.0, 1e-6)) ** 2, Fraction("0.011"), Fraction(30)):
        plain = exact(pure_mu(epsilon)) ** 2
        price, total = Fraction(0), Fraction(0)
        for done in range(times):
            rest = left - total
            if rest < plain:
                total += (times - done) * plain
                break
            if not price or not accountants._holds(up(epsilon), rest, price):
                price = accountants._smallest_price(up(epsilon), rest, plain)
            total += price
        assert pure_price(epsilon, times, left) == total


def test_a_hundred_pure_charges_need_hardly_more_than_a_plan():
    planned = plan_epsilon(100 * Cost(0.1), 1e-6)
    with pytest.raises(BudgetExceededError):
        PrivacyBudget(6.33, 1e-6, accountant="gdp").check(100 * Cost(0.1))
    with pytest.raises(BudgetExceededError):
        PrivacyBudget(5.2, 1e-6, accountant="zcdp").check(100 * Cost(0.1))
    budget = PrivacyBudget(4.93, 1e-6, accountant="gdp_residue")
    assert 1.04 * planned > 4.93
    for _ in range(100):
        budget.charge(Cost(0.1), estimator="A")
    with pytest.raises(BudgetExceededError):
        budget.charge(Cost(0.1), estimator="A")
    assert budget.spent.epsilon == 4.93


def test_what_was_spent_is_no_statement_on_the_residue():
    """A first cheap charge is not as private as its price alone would say."""
    budget = PrivacyBudget(5.0, 1e-6, accountant="gdp_residue")
    plain = PrivacyBudget(5.0, 1e-6, accountant="gdp")
    for one in (budget, plain):
        one.charge(Cost(0.5), estimator="A")
        one.charge(Cost(0.5, 1e-7, mu=0.1), estimator="A")
    assert budget.spent == plain.spent
    assert budget.curve([1e-8, 1e-6]) == plain.curve([1e-8, 1e-6])
    assert budget.remaining.epsilon > plain.remaining.epsilon


def test_gaussian_charges_cost_what_they_cost_under_gdp():
    budget = PrivacyBudget(1.0, 1e-6, accountant="gdp_residue")
    mu = gdp_mu(1.0, 1e-6)
    for _ in range(4):
        budget.charge(Cost(0.45, 1e-6, mu=mu / 2 * (1 - 1e-9)), estimator="A")
    assert budget.remaining.epsilon < 1e-3


def test_a_reservation_holds_whatever_is_charged_beside_it():
    budget = PrivacyBudget(4.0, 1e-6, accountant="gdp_residue")
    with budget.reserve(30 * Cost(0.1)):
        token = next(iter(budget._account.tokens))
        budget._account.tokens.pop(token)
        with pytest.raises(BudgetExceededError):
            while True:
                budget.charge(Cost(0.2), estimator="B")
        budget._account.tokens[token] = None
        for _ in range(30):
            budget.charge(Cost(0.1), estimator="A")
    assert sum(charge.estimator == "A" for charge in budget.charges) == 30


def test_the_separate_delta_is_capped_as_under_gdp():
    budget = PrivacyBudget(4.0, 1e-6, accountant="gdp_residue", separate_delta=1e-7)
    with pytest.raises(BudgetExceededError, match="separate delta"):
        budget.charge(Cost(0.1, 2e-7), estimator="A")
    budget.charge(Cost(0.1, 1e-7), estimator="A")
    with pytest.raises(BudgetExceededError):
        budget.charge(Cost(0.1, 1e-9), estimator="A")


@pytest.mark.slow
def test_prices_of_thousands_of_charges():
    budget = PrivacyBudget(100.0, 1e-6, accountant="gdp_residue")
    budget.check(5_000 * Cost(0.05))
    assert budget.fits(Cost(0.5)) > PrivacyBudget(100.0, 1e-6, accountant="gdp").fits(Cost(0.5))
    assert math.isfinite(budget.remaining.epsilon)


@pytest.mark.slow
def test_a_charge_of_countless_releases_takes_at_most_the_plain_price():
    # One by one it would never end.
    left, plain = Fraction(1), exact(pure_mu(1e-9)) ** 2
    price = pure_price(1e-9, 10**15, left)
    assert price <= 10**15 * plain
