"""The same charges under every accountant, with what each conversion loses.

Nothing is released here, and nothing is charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from skdp.loss.accountants import ACCOUNTANTS, plan_epsilon
from skdp.loss.amounts import Amount, check_delta
from skdp.loss.charge import Cost, check_plan

__all__ = ["Conversion", "compare_accountants"]

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
    found = {name: _epsilon(name, plan, delta) for name in ACCOUNTANTS}
    least = min(found.values())
    order = sorted(found, key=lambda name: found[name])
    return [
        Conversion(
            name,
            found[name],
            found[name] - least if found[name] > least else 0.0,
            not ACCOUNTANTS[name].planned,
        )
        for name in order
    ]


def _epsilon(name: str, cost: Cost, delta: float) -> float:
    kind = ACCOUNTANTS[name]
    if kind.planned:
        return plan_epsilon(cost, delta)
    accountant = kind(1.0, delta)  # its own epsilon plays no part
    amount = accountant.price(cost)
    if accountant.stateful:
        amount = Amount(_least(name, cost, delta, amount), amount.apart)
    return accountant.epsilon_at(amount, delta)


def _least(name: str, cost: Cost, delta: float, plain: Amount) -> Fraction:
    """Return the least cap that these charges fit into, all at once."""
    accountant = ACCOUNTANTS[name](1.0, delta)
    low, high = plain.main / 2, plain.main
    for _ in range(_STEPS):
        middle = (low + high) / 2
        accountant.cap = Amount(middle, plain.apart)
        fits = accountant.price_at(cost, Amount()).main <= middle
        low, high = (low, middle) if fits else (middle, high)
    return high
