"""A statement: all that a ledger says as of one moment, and what it amounts to.

Nothing is released here. The notebook view of a budget and ``python -m skdp.ledger`` show
statements. A statement holds values only: no connection, no lock, and no way to charge.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from fractions import Fraction

from skdp.budget.account import accountant_of, free_part
from skdp.budget.schema import Contents
from skdp.loss.accountants import Accountant, plan_epsilon
from skdp.loss.amounts import Amount, exact, round_up
from skdp.loss.charge import PrivacyLoss

__all__ = ["Statement"]


@dataclass(frozen=True)
class Statement:
    """What a ledger says, and what it amounts to.

    Parameters
    ----------
    contents : Contents
        All that the ledger holds.
    accountant : Accountant
        The one in force.
    charged : Amount
        The sum of the prices of all charges, whatever was charged before each.
    spent, remaining : PrivacyLoss
        What was charged, and what one more fit may cost, as (epsilon, delta).
    """

    contents: Contents
    accountant: Accountant
    charged: Amount
    spent: PrivacyLoss
    remaining: PrivacyLoss

    @classmethod
    def of(cls, contents: Contents, plain: Amount) -> Statement:
        """Return what the contents of a ledger amount to under its accountant.

        `plain` is the sum of the prices of all charges, whatever was charged before each; it counts
        where a price depends on that.
        """
        terms, totals = contents.terms, contents.totals
        accountant = accountant_of(terms)
        free = accountant.cap - totals.charged - totals.aside
        if accountant.planned:
            free = free_part(terms, {plan.part for plan in contents.plans if plan.taken})
        charged = plain if accountant.stateful else totals.charged
        return cls(
            contents=contents,
            accountant=accountant,
            charged=charged,
            spent=accountant.loss(charged),
            remaining=accountant.room(free.positive()),
        )

    def history(self) -> list[tuple[datetime.datetime, PrivacyLoss]]:
        """Return what was spent after charges, at most 200 of them and the last, with its time."""
        charges, accountant = self.contents.charges, self.accountant
        paid = self.contents.paid
        if accountant.stateful:
            paid = tuple(accountant.price(charge.cost) for charge in charges)
        stride = max(len(charges) // 200, 1)
        found, total = [], Amount()
        for i, (charge, price) in enumerate(zip(charges, paid, strict=True)):
            total = total + price
            if i % stride == 0 or i == len(charges) - 1:
                found.append((charge.when, accountant.loss(total)))
        return found

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta that all charges amount to, rounded up."""
        if not self.accountant.planned:
            return self.accountant.epsilon_at(self.charged, delta)
        # Plans share the delta as their own deltas are to each other: any shares are valid.
        drawn = [plan for plan in self.contents.plans if plan.drawn]
        whole = sum(self.contents.terms.plans[plan.part][1] for plan in drawn)
        total = Fraction(0)
        for plan in drawn:
            part = delta * (1 - 1e-9) * self.contents.terms.plans[plan.part][1] / whole
            epsilon = plan_epsilon(plan.cost, part) if part else math.inf
            if math.isinf(epsilon):
                return epsilon
            total += exact(epsilon)
        return round_up(total)
