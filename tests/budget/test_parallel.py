"""Disjoint parts, and the same charges under every accountant."""

from __future__ import annotations

import itertools
import math

import pytest

from skdp.budget import Cost, PrivacyBudget, compare_accountants, parallel_cost, plan_epsilon
from skdp.budget.account import accountant_of
from skdp.budget.amounts import Amount
from skdp.budget.parallel import parallel_amount
from skdp.budget.schema import Terms
from skdp.exceptions import BudgetExceededError

COSTS = [
    Cost(0.5),
    Cost(0.2, 1e-8),
    Cost(0.3, 1e-7, mu=0.05),
    Cost(0.25, 2e-7, mu=0.04, delta_apart=5e-8),
    Cost(0.1) + Cost(0.3, 1e-7, mu=0.05),
    3 * Cost(0.05),
]
FILTERS = ["basic", "gdp", "gdp_residue", "zcdp"]


def keeper(name):
    return accountant_of(Terms(5.0, 1e-5, "replace_one", name, 0.0))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_price_covers_every_part_and_every_move(name, size):
    accountant = keeper(name)
    for parts in itertools.product(COSTS, repeat=size):
        prices = [accountant.price(cost) for cost in parts]
        for adjacency in ("add_or_remove_one", "replace_one"):
            amount = parallel_amount(accountant, parts, adjacency)
            priced = accountant.price(parallel_cost(list(parts), adjacency))
            changed = [[price] for price in prices]
            if adjacency == "replace_one":
                changed += [list(pair) for pair in itertools.combinations(prices, 2)]
            for touched in changed:
                assert sum(touched, Amount()).fits(amount)
            assert amount.fits(priced)


def test_equal_parts_keep_their_components():
    cost = Cost(0.1) + Cost(0.3, 1e-7, mu=0.05)
    assert parallel_cost([cost] * 20, "add_or_remove_one") == cost
    assert parallel_cost([cost] * 20, "replace_one") == 2 * cost
    assert parallel_cost([cost], "replace_one") == cost  # nowhere else to move to


def test_a_row_that_moves_is_why_two_parts_count():
    """Two noiseless-but-for-their-price counts: exact worst case of a moved row."""
    high = math.exp(0.5) / (1 + math.exp(0.5))
    # One randomized response in each part, of which both turn when a row moves.
    moved = math.log(high * high / ((1 - high) * (1 - high)))
    assert moved == pytest.approx(parallel_cost([Cost(0.5), Cost(0.5)], "replace_one").epsilon)
    assert moved > parallel_cost([Cost(0.5), Cost(0.5)], "add_or_remove_one").epsilon


def test_what_parallel_cannot_be_is_refused():
    with pytest.raises(ValueError, match='accountant="pld"'):
        parallel_amount(keeper("pld"), COSTS, "replace_one")
    with pytest.raises(ValueError, match="adjacency must be"):
        parallel_cost(COSTS, "zero_out")
    for bad in ([], Cost(0.1), "x"):
        with pytest.raises(TypeError, match="costs must be"):
            parallel_cost(bad, "replace_one")
    with pytest.raises(TypeError, match="cost must be"):
        parallel_cost([0.1], "replace_one")
    assert not hasattr(PrivacyBudget(1.0), "parallel")  # nobody's word is taken


def test_every_accountant_on_the_same_charges():
    found = {one.accountant: one for one in compare_accountants(100 * Cost(0.1), 1e-6)}
    assert found["basic"].epsilon == 10.0
    assert found["gdp"].epsilon == pytest.approx(6.330, abs=0.001)
    assert found["zcdp"].epsilon == pytest.approx(5.22, abs=0.01)
    assert found["gdp_residue"].epsilon == pytest.approx(4.92, abs=0.01)
    assert found["pld"].epsilon == plan_epsilon(100 * Cost(0.1), 1e-6)
    assert found["pld"].loss == 0.0
    assert found["basic"].loss == 10.0 - found["pld"].epsilon
    assert [name for name, one in found.items() if not one.adaptive] == ["pld"]


@pytest.mark.parametrize("cost", [100 * Cost(0.1), 3 * Cost(0.5) + 2 * Cost(0.3, 1e-6, mu=0.07)])
def test_a_budget_of_that_epsilon_grants_the_charges_and_a_smaller_one_does_not(cost):
    for one in compare_accountants([cost], 1e-5):

        def ask(factor, name=one.accountant, epsilon=one.epsilon):
            budget = PrivacyBudget(epsilon * factor, 1e-5, accountant=name)
            (budget.reserve if name == "pld" else budget.check)(cost)

        ask(1.0005)
        with pytest.raises(BudgetExceededError):
            ask(0.99)


def test_separate_deltas_have_their_place_or_none():
    cost = 3 * Cost(0.1, 1e-7)
    for one in compare_accountants(cost, 2e-7):
        assert one.epsilon == math.inf
        assert one.loss == 0.0
    assert all(math.isfinite(one.epsilon) for one in compare_accountants(cost, 1e-6))
    with pytest.raises(ValueError, match="delta must be above 0"):
        compare_accountants(cost, 0.0)


@pytest.mark.parametrize("name", [*FILTERS, "pld"])
def test_the_history_ends_at_what_was_spent(name):
    budget = PrivacyBudget(5.0, 1e-6, accountant=name)
    assert budget.history() == []
    with budget.reserve(5 * Cost(0.1)):
        for _ in range(5):
            budget.charge(Cost(0.1), estimator="A")
    history = budget.history()
    assert len(history) == 5
    assert history[-1][1] == budget.spent
    assert [when for when, _ in history] == [charge.when for charge in budget.charges]
    epsilons = [loss.epsilon for _, loss in history]
    assert epsilons == sorted(epsilons)
