"""The best that an adaptive analyst can do against each accountant, by exact search.

The releases are randomized responses, some of which tell all with a small probability. A strategy
chooses the next release after each outcome, as far as the accountant grants it, or stops. Its delta
at the epsilon of the budget is the mean of (1 - exp(epsilon - loss))+ over its outcomes, so the
best strategy is found from the end: no sampling, no false alarm. What the accountants promise must
hold for it; the natural filter, which composes the privacy losses of what was chosen so far and
stops at the budget, is shown to break its promise.
"""

from __future__ import annotations

import math
from functools import cache

import pytest

from skdp.budget import Cost, PrivacyBudget
from skdp.budget.account import accountant_of
from skdp.budget.schema import Terms
from skdp.exceptions import BudgetExceededError
from skdp.loss.charge import total
from skdp.loss.conversions import Amount
from skdp.loss.pld import plan_loss
from tests.folding import each


def outcomes(release):
    """Return the (loss, probability) of a release (epsilon, delta), on the table it is true of."""
    epsilon, delta = release
    high = 1 / (1 + math.exp(-epsilon))
    yield epsilon, (1 - delta) * high
    yield -epsilon, (1 - delta) * (1 - high)
    if delta:
        yield math.inf, delta


def best_delta(menu, epsilon, start, after):
    """Return the delta of the best strategy; `after(state, release)` is None if refused."""

    @cache
    def best(loss, state):
        if loss == math.inf:
            return 1.0
        found = max(0.0, -math.expm1(epsilon - loss))  # of stopping here
        for release in menu:
            following = after(state, release)
            if following is not None:
                parts = (p * best(round(loss + x, 9), following) for x, p in outcomes(release))
                found = max(found, math.fsum(parts))
        return found

    return best(0.0, start)


def cost(release):
    return Cost(*release)


def filtered(accountant, epsilon, delta, separate_delta, menu):
    keeper = accountant_of(Terms(epsilon, delta, "replace_one", accountant, separate_delta))

    def after(charged, release):
        price = keeper.price_at(cost(release), charged)
        return charged + price if price.fits(keeper.cap - charged) else None

    return best_delta(menu, epsilon, Amount(), cache(after))


def natural(epsilon, delta, menu):
    """Return the best delta against the natural filter: compose what was chosen, stop at delta."""

    @cache
    def after(used, release):
        chosen = tuple(sorted((*used, release)))
        plan = total((cost(one), 1) for one in chosen)
        return chosen if plan_loss(plan).delta(epsilon) <= delta else None

    return best_delta(menu, epsilon, (), after)


MENUS = [
    [(1.0, 0.0), (0.3, 0.0)],
    [(0.3, 0.0), (0.3, 0.03)],
    [(0.7, 0.0), (0.45, 0.01)],
]


@each("menu", MENUS)
@each("accountant", ["basic", "gdp", "gdp_residue", "zcdp"])
@each(("epsilon", "delta", "apart"), [(1.5, 0.05, 0.02), (1.0, 0.2, 0.05)])
def test_no_strategy_beats_a_filter(accountant, epsilon, delta, apart, menu):
    apart = 0.0 if accountant == "basic" else apart
    assert filtered(accountant, epsilon, delta, apart, menu) <= delta


def test_the_filters_are_not_idle():
    """The best strategy comes near to what they promise, and nearer against the better one."""
    menu = [(0.3, 0.0)]
    found = {name: filtered(name, 1.5, 0.05, 0.0, menu) for name in ("gdp", "gdp_residue", "zcdp")}
    assert found["gdp"] < found["gdp_residue"] <= 0.05
    assert found["gdp_residue"] > 0.5 * 0.05


@pytest.mark.parametrize(
    ("menu", "epsilon", "delta", "least"), [(MENUS[0], 1.5, 0.05, 1.25), (MENUS[1], 1.5, 0.05, 1.2)]
)
def test_the_natural_filter_breaks_its_promise(menu, epsilon, delta, least):
    assert natural(epsilon, delta, menu) > least * delta


@pytest.mark.parametrize(
    "plan",
    [
        {(1.0, 0.0): 2, (0.3, 0.0): 4},
        {(0.3, 0.0): 5, (0.3, 0.03): 2},
        {(0.7, 0.0): 2, (0.45, 0.01): 1, (0.2, 0.0): 3},
    ],
)
def test_no_order_and_no_stop_beats_a_plan(plan):
    """The best adaptive order of a fixed plan is as good as all of it, and no better."""
    names = sorted(plan)

    def after(left, release):
        i = names.index(release)
        return (*left[:i], left[i] - 1, *left[i + 1 :]) if left[i] else None

    start = tuple(plan[name] for name in names)
    whole = plan_loss(total((cost(name), n) for name, n in plan.items()))
    for epsilon in (0.3, 1.5):
        found = best_delta(names, epsilon, start, after)
        assert found <= whole.delta(epsilon)
        assert found == pytest.approx(whole.delta(epsilon), rel=1e-6)


def test_a_ledger_of_plans_refuses_the_natural_filter():
    """Neither a second plan nor anything outside of the plan is granted after a draw."""
    budget = PrivacyBudget(1.5, 0.05, accountant="pld")
    with budget.reserve([Cost(0.3)]):
        budget.charge(Cost(0.3), estimator="A")
        with pytest.raises(BudgetExceededError):
            budget.reserve([Cost(0.3)])
        with pytest.raises(BudgetExceededError):
            budget.charge(Cost(0.3), estimator="A")
    with pytest.raises(BudgetExceededError):
        budget.reserve([Cost(0.3)])


def test_a_part_of_its_own_for_each_plan_keeps_the_sum():
    """The second plan is chosen in view of the first: the best choice stays within the budget."""
    first, second = (0.75, 0.025), (0.75, 0.025)
    menu = [(0.3, 0.0), (0.7, 0.0), (0.2, 0.02)]

    def plans(part):
        found = []
        for a in range(4):
            for b in range(3):
                for c in range(2):
                    if not a + b + c:
                        continue
                    plan = total((cost(m), n) for m, n in zip(menu, (a, b, c), strict=True) if n)
                    if plan_loss(plan).delta(part[0]) <= part[1]:
                        found.append((a, b, c))
        return found

    def after(state, release):
        parts, left = state
        if release in menu:
            i = menu.index(release)
            if left is None or not left[i]:
                return None
            return parts, (*left[:i], left[i] - 1, *left[i + 1 :])
        return None

    @cache
    def best(loss, parts, left):
        if loss == math.inf:
            return 1.0
        found = max(0.0, -math.expm1(1.5 - loss))
        for release in menu if left else ():
            following = after((parts, left), release)
            if following is not None:
                found = max(
                    found,
                    math.fsum(
                        p * best(round(loss + x, 9), *following) for x, p in outcomes(release)
                    ),
                )
        if parts:  # give up what is left of this plan, and fix the next
            for plan in plans(parts[0]):
                found = max(found, best(loss, parts[1:], plan))
        return found

    assert 0.0 < best(0.0, (first, second), None) <= 0.05
