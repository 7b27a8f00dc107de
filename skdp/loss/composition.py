"""The total of several prices, and of disjoint parts of a table.

PROOFS.md, beside this file, proves the prices of disjoint parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from skdp.loss.accountants import ACCOUNTANTS, plan_epsilon
from skdp.loss.charge import Cost, check_cost, check_plan, non_gaussian_delta, total
from skdp.loss.conversions import Amount, check_delta, exact, pure_mu, round_up, up


def _changed_parts(adjacency: str) -> int:
    """Return how many parts change at most."""
    if adjacency not in ("replace_one", "add_or_remove_one"):
        raise ValueError(
            f"adjacency must be one of 'replace_one', 'add_or_remove_one'; got {adjacency!r}."
        )
    return 2 if adjacency == "replace_one" else 1


def parallel_cost(costs: Sequence[Cost], adjacency: str) -> Cost:
    """Return one price for fits on disjoint parts; it holds under every accountant but "pld".

    Parameters
    ----------
    costs : sequence of Cost
        The price of all fits on each part. It must hold if one row is added to the part or removed
        from it and, under "replace_one", also if one of its rows is replaced.
    adjacency : {"replace_one", "add_or_remove_one"}
        The neighbouring relation of the whole table, as the budget has it.

    Returns
    -------
    cost : Cost
        The largest price of the parts under "add_or_remove_one". Under "replace_one" the sum of the
        two largest, because a row may move from one part to another. If prices differ in kind, the
        largest of each quantity is taken.

    Examples
    --------
    >>> from skdp.budget import Cost, parallel_cost
    >>> parts = [Cost(0.5), Cost(0.2), Cost(0.1)]
    >>> parallel_cost(parts, "add_or_remove_one").epsilon
    0.5
    >>> parallel_cost(parts, "replace_one").epsilon
    0.7
    """
    count = _changed_parts(adjacency)
    if not isinstance(costs, list | tuple) or not costs:
        raise TypeError("costs must be a list of skdp.budget.Cost, one for each part.")
    parts = [check_cost(cost) for cost in costs]
    count = min(count, len(parts))
    if len(set(parts)) == 1:  # of the same kind and size: exact, with all components
        return count * parts[0]
    flat = [_flat(cost) for cost in parts]
    epsilons, deltas, mus, separates = (  # the `count` largest of each quantity
        sorted((quantity(cost) for cost in flat), reverse=True)[:count]
        for quantity in (lambda c: c.epsilon, lambda c: c.delta, _mu, non_gaussian_delta)
    )
    if all(cost.mu is None for cost in flat):
        prices = [Cost(*price) for price in zip(epsilons, deltas, strict=True)]
    elif all(deltas):
        places = zip(epsilons, deltas, mus, separates, strict=True)
        prices = [Cost(e, delta, mu, min(separate, delta)) for e, delta, mu, separate in places]
    else:  # one part has all of delta, and a price without delta has no mu: both in one price
        epsilon = round_up(sum(map(exact, epsilons), Fraction(0)))
        mu = _root(sum(exact(mu) ** 2 for mu in mus))
        prices = [Cost(epsilon, deltas[0], mu, min(separates[0], deltas[0]))]
    return total((price, 1) for price in prices)


def _root(square: Fraction | int) -> float:
    """Return the mu of Gaussian releases whose squares sum to this, rounded up."""
    return up(math.sqrt(up(round_up(Fraction(square)))))


def parts_cost(epsilon: float, delta: float, adjacency: str) -> Cost:
    """Return the price of disjoint parts with an allowance of (epsilon, delta) each.

    The allowance is for one row added or removed; `adjacency` is that of the whole table.
    """
    if _changed_parts(adjacency) == 1:
        return Cost(epsilon, delta)
    if delta == 0:
        return Cost(round_up(2 * exact(epsilon)))
    replaced = exact(delta) * (1 + Fraction(up(math.exp(min(epsilon, 700.0)))))
    if epsilon > 700.0 or replaced >= 1:
        raise ValueError(
            f"delta must be below 1 / (1 + exp(epsilon)) for parts under 'replace_one', where a "
            f"replaced row costs (1 + exp(epsilon)) delta; got epsilon={epsilon!r}, "
            f"delta={delta!r}. Take a smaller epsilon or delta, or delta=0."
        )
    return Cost(round_up(2 * exact(epsilon)), round_up(replaced))


def _mu(cost: Cost) -> float:
    return pure_mu(cost.epsilon) if cost.mu is None else cost.mu


def _flat(cost: Cost) -> Cost:
    """Return a single price that is no less than a sum, under every accountant."""
    if len(cost.components) == 1 and cost.components[0][1] == 1:
        return cost
    if all(single.mu is None for single, _ in cost.components):
        return Cost(cost.epsilon, cost.delta)
    # The mu of pure releases counts as well, so that the result covers them under "gdp", too.
    separate = sum(n * exact(non_gaussian_delta(single)) for single, n in cost.components)
    mu = _root(sum(n * exact(_mu(single)) ** 2 for single, n in cost.components))
    return Cost(cost.epsilon, cost.delta, mu, round_up(Fraction(separate)))


# --- all accountants side by side -----------------------------------------------------------------

_STEPS = 14  # of bisection: to 1e-4 of what a residue filter needs


@dataclass(frozen=True)
class Conversion:
    """The total of some charges under one accountant.

    Parameters
    ----------
    accountant : str
        Its name.
    epsilon : float
        The smallest epsilon at the given delta; infinity if there is none.
    loss : float
        How much this is above the smallest epsilon of all accountants.
    adaptive : bool
        Whether a fit may be chosen based on earlier releases. If not, all fits must be fixed in
        advance.
    """

    accountant: str
    epsilon: float
    loss: float
    adaptive: bool


def compare_accountants(cost: Cost | list[Cost], delta: float) -> list[Conversion]:
    """Return the total of some charges under every accountant, at the same delta.

    Parameters
    ----------
    cost : Cost or list of Cost
        The prices of all fits.
    delta : float
        In (0, 1). Under "gdp", "gdp_residue" and "zcdp" the separate deltas of the charges are set
        aside from it.

    Returns
    -------
    conversions : list of Conversion
        The smallest epsilon first.

    Examples
    --------
    >>> from skdp.budget import Cost, compare_accountants
    >>> for one in compare_accountants(100 * Cost(0.1), 1e-6):
    ...     print(f"{one.accountant:12}{one.epsilon:6.2f}{one.loss:6.2f}")
    pld           4.77  0.00
    gdp_residue   4.92  0.15
    zcdp          5.22  0.45
    gdp           6.33  1.56
    basic        10.00  5.23
    """
    plan, delta = check_plan(cost), check_delta(delta)
    if not delta:
        raise ValueError("delta must be above 0.")
    epsilons = {name: _epsilon(name, plan, delta) for name in ACCOUNTANTS}
    least = min(epsilons.values())
    return [  # both may be infinite
        Conversion(name, e, e - least if e > least else 0.0, not ACCOUNTANTS[name].planned)
        for name, e in sorted(epsilons.items(), key=lambda item: item[1])
    ]


def _epsilon(name: str, cost: Cost, delta: float) -> float:
    if ACCOUNTANTS[name].planned:
        return plan_epsilon(cost, delta)
    accountant = ACCOUNTANTS[name](1.0, delta)  # its own epsilon plays no part
    amount = accountant.price(cost)
    if accountant.stateful:  # the least cap that all of these charges fit into
        low, high = amount.main / 2, amount.main
        for _ in range(_STEPS):
            middle = (low + high) / 2
            accountant.cap = Amount(middle, amount.separate)
            fits = accountant.price_at(cost, Amount()).main <= middle
            low, high = (low, middle) if fits else (middle, high)
        amount = Amount(high, amount.separate)
    return accountant.epsilon_at(amount, delta)
