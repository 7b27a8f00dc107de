"""Accountants: how charges add up ("basic", "gdp", "gdp_residue", "zcdp", "pld").

Every accountant but "pld" is a *filter*: it fixes two caps when the budget is made and grants a
charge if and only if the exact sum of all charges stays within both. The whole history is then
(epsilon, delta)-DP even though every fit may be chosen after looking at everything released before.
PROOFS.md, beside this file, says what each adds up, why it is a filter, and why caps are fixed.

"pld" adds up whole privacy loss distributions (`skdp.loss.pld`), which is tighter but no filter: it
grants only charges of plans that were fixed before their first charge.

All conversions are rounded towards privacy (less granted, more reported).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from scipy.special import ndtr

from skdp.loss.charge import Cost, PrivacyLoss, non_gaussian_delta
from skdp.loss.conversions import (
    Amount,
    down,
    exact,
    gdp_delta,
    gdp_mu,
    largest,
    pure_mu,
    round_down,
    round_up,
    smallest,
    up,
    zcdp_delta,
)

if TYPE_CHECKING:
    from skdp.loss.pld import PlanLoss

__all__ = ["ACCOUNTANTS", "Accountant", "plan_epsilon", "pure_price"]


class Accountant(ABC):
    """Two caps, the price of a charge, and the (epsilon, delta) of sums of prices."""

    name: str
    planned = False  # whether it grants charges of plans alone
    stateful = False  # whether a price depends on what was charged before
    needs_delta = True

    def __init__(self, epsilon: float, delta: float, separate_delta: float = 0.0) -> None:
        self.epsilon, self.delta, self.separate_delta = epsilon, delta, separate_delta
        if self.needs_delta and delta == 0:
            raise ValueError(
                f'delta must be above 0 under accountant="{self.name}", which converts with it; '
                'for delta=0 use accountant="basic".'
            )
        self.check()
        self.cap = self.make_cap()

    @abstractmethod
    def check(self) -> None:
        """Raise ValueError if this accountant cannot keep such a budget."""

    @abstractmethod
    def make_cap(self) -> Amount:
        """Return the caps of the two sums."""

    @abstractmethod
    def price_one(self, cost: Cost) -> Amount:
        """Return what a single price adds to the sums."""

    @abstractmethod
    def loss(self, amount: Amount) -> PrivacyLoss:
        """Return the (epsilon, delta) of charges of this sum, rounded up."""

    @abstractmethod
    def room(self, amount: Amount) -> PrivacyLoss:
        """Return the (epsilon, delta) of one more fit that fits into this room, rounded down."""

    @abstractmethod
    def epsilon_at(self, amount: Amount, delta: float) -> float:
        """Return the epsilon of charges of this sum at another delta, rounded up."""

    def price(self, cost: Cost) -> Amount:
        """Return what `cost`, single or a sum, adds to the sums."""
        return self.price_all(cost.components)

    def price_all(self, singles: Sequence[tuple[Cost, int]]) -> Amount:
        """Return what single prices, each with how often it occurs, add to the sums."""
        (first, often), *others = singles
        total = self.price_one(first) if often == 1 else often * self.price_one(first)
        for single, times in others:
            total = total + times * self.price_one(single)
        return total

    def price_at(self, cost: Cost, charged: Amount) -> Amount:
        """Return the price after charges of this sum; never more than :meth:`price`."""
        return self.price(cost)


class BasicAccountant(Accountant):
    """Sums of epsilon and of delta."""

    name = "basic"
    needs_delta = False

    def check(self) -> None:
        if self.separate_delta:
            raise ValueError(
                'separate_delta must be 0 under accountant="basic", which adds up every delta; '
                'it is for accountant="gdp" and "zcdp".'
            )

    def make_cap(self) -> Amount:
        return Amount(exact(self.epsilon), exact(self.delta))

    def price_one(self, cost: Cost) -> Amount:
        return Amount(exact(cost.epsilon), exact(cost.delta))

    def loss(self, amount: Amount) -> PrivacyLoss:
        return PrivacyLoss(round_up(amount.main), round_up(amount.separate))

    def room(self, amount: Amount) -> PrivacyLoss:
        return PrivacyLoss(round_down(amount.main), round_down(amount.separate))

    def epsilon_at(self, amount: Amount, delta: float) -> float:
        return round_up(amount.main) if amount.separate <= exact(delta) else math.inf


class _GaussianAccountant(Accountant):
    """A Gaussian sum and a sum of separate deltas, each with its own cap ("gdp", "zcdp")."""

    def check(self) -> None:
        if self.separate_delta >= self.delta:
            raise ValueError(f"separate_delta must be in [0, delta) = [0, {self.delta!r}).")
        # exact difference of the two decimals, rounded down: the caps together never exceed delta
        self.delta_gaussian = round_down(exact(self.delta) - exact(self.separate_delta))

    @abstractmethod
    def largest_main(self, epsilon: float) -> Fraction:
        """Return the largest sum that gives (epsilon, delta_gaussian), rounded down."""

    @abstractmethod
    def mu_main(self, mu: float) -> Fraction:
        """Return what one mu-GDP release adds to the sum."""

    @abstractmethod
    def main_delta(self, epsilon: float, main: float) -> float:
        """Return an upper bound on the delta of a sum at this epsilon."""

    @abstractmethod
    def main_one(self, cost: Cost) -> Fraction:
        """Return what a single price adds to the Gaussian sum."""

    def make_cap(self) -> Amount:
        return Amount(self.largest_main(self.epsilon), exact(self.separate_delta))

    def price_one(self, cost: Cost) -> Amount:
        return Amount(self.main_one(cost), exact(non_gaussian_delta(cost)))

    def loss(self, amount: Amount) -> PrivacyLoss:
        if amount.main == 0:
            return PrivacyLoss(0.0, round_up(amount.separate))
        epsilon = self.epsilon  # the caps were made for it, so it always bounds the loss
        if amount.main < self.cap.main:
            epsilon = min(epsilon, self._main_epsilon(amount.main, down(self.delta_gaussian)))
        return PrivacyLoss(epsilon, round_up(exact(self.delta_gaussian) + amount.separate))

    def epsilon_at(self, amount: Amount, delta: float) -> float:
        # exact difference, rounded down: the delta that the separate deltas leave
        remaining = down(round_down(exact(delta) - amount.separate))
        if amount.main == 0 or remaining <= 0:
            return 0.0 if amount.main == 0 and exact(delta) >= amount.separate else math.inf
        return self._main_epsilon(amount.main, remaining)

    def _main_epsilon(self, main: Fraction, delta: float) -> float:
        """Return the epsilon of a Gaussian sum at a delta, rounded up."""
        rounded = round_up(main)
        return up(smallest(lambda e: self.main_delta(e, rounded) <= delta, 1.0))

    def room(self, amount: Amount) -> PrivacyLoss:
        if amount.main <= 0:
            return PrivacyLoss(0.0, 0.0)
        epsilon, delta = self.epsilon, self.delta_gaussian
        if self.mu_main(gdp_mu(epsilon, delta)) > amount.main:
            mu = math.sqrt(amount.main / self.mu_main(1.0))
            epsilon = min(epsilon, smallest(lambda e: gdp_delta(e, mu) <= delta, 1.0))
        # Go down until a Gaussian fit calibrated to it from scratch, with all the rounding of
        # that calibration, fits into what remains.
        factor = 1e-15
        while epsilon > 0 and factor < 1:
            if self.mu_main(gdp_mu(epsilon, delta)) <= amount.main:
                return PrivacyLoss(epsilon, delta)
            epsilon, factor = epsilon * (1 - factor), 4 * factor
        return PrivacyLoss(0.0, 0.0)


class GDPAccountant(_GaussianAccountant):
    """Sum of mu squared: exact for Gaussian noise; of a pure release, that of `pure_mu`."""

    name = "gdp"

    def largest_main(self, epsilon: float) -> Fraction:
        return exact(gdp_mu(epsilon, self.delta_gaussian)) ** 2

    def mu_main(self, mu: float) -> Fraction:
        return exact(mu) ** 2

    def main_delta(self, epsilon: float, main: float) -> float:
        return gdp_delta(epsilon, up(math.sqrt(up(main))))  # upwards

    def main_one(self, cost: Cost) -> Fraction:
        return exact(pure_mu(cost.epsilon) if cost.mu is None else cost.mu) ** 2


class GDPResidueAccountant(GDPAccountant):
    """The same sum, of which a pure release takes less where less is left (PROOFS.md)."""

    name = "gdp_residue"
    stateful = True

    def price_at(self, cost: Cost, charged: Amount) -> Amount:
        remaining = self.cap.main - charged.main
        total = Amount()
        for single, times in cost.components:
            plain = self.price_one(single)
            if single.mu is None:
                main = pure_price(single.epsilon, times, max(remaining - total.main, Fraction(0)))
                total = total + Amount(main, times * plain.separate)
            else:
                total = total + times * plain
        return total

    def is_price(self, cost: Cost, charged: Amount, main: Fraction) -> bool:
        """Whether `main` is at least what :meth:`price_at` asks for, but for its rounding."""
        is_one_pure = cost.components == ((cost, 1),) and cost.mu is None
        # Far faster than to look for the smallest price.
        if is_one_pure and _holds(up(cost.epsilon), self.cap.main - charged.main, main):
            return True
        return self.price_at(cost, charged).main <= main


class ZCDPAccountant(_GaussianAccountant):
    """Sum of rho: mu^2/2 of Gaussian noise, min(epsilon^2/2, epsilon) of pure epsilon.

    Bun & Steinke 2016: the first is Proposition 1.6 with the dominance of mu-GDP by one Gaussian
    pair; the second is Proposition 1.4, and D_alpha <= epsilon <= alpha epsilon.
    """

    name = "zcdp"

    def largest_main(self, epsilon: float) -> Fraction:
        # one ulp down covers the decimals that repr shows, and that of the result
        epsilon, delta = down(epsilon), down(self.delta_gaussian)
        return exact(down(largest(lambda rho: zcdp_delta(epsilon, rho) <= delta, 1.0)))

    def mu_main(self, mu: float) -> Fraction:
        return exact(mu) ** 2 / 2

    def main_delta(self, epsilon: float, main: float) -> float:
        return zcdp_delta(epsilon, up(main))

    def main_one(self, cost: Cost) -> Fraction:
        if cost.mu is not None:
            return self.mu_main(cost.mu)
        epsilon = exact(cost.epsilon)
        return min(epsilon**2 / 2, epsilon)


class PLDAccountant(BasicAccountant):
    """Plans that are fixed in advance, each within its own part of the budget.

    A plan must not depend on what was released; its first draw pays for all of it. PROOFS.md says
    why several plans add up as under "basic".
    """

    name = "pld"
    planned = needs_delta = True

    def check(self) -> None:
        if self.separate_delta:
            raise ValueError(
                'separate_delta must be 0 under accountant="pld": every delta is part of its plan.'
            )

    def price(self, cost: Cost) -> Amount:
        return self.plan_price(cost, self.delta)

    def plan_price(self, cost: Cost, delta: float) -> Amount:
        """Return the (epsilon, delta) of a plan of this price at this delta, rounded up."""
        epsilon = plan_epsilon(cost, delta)
        return Amount(_INFINITE if math.isinf(epsilon) else exact(epsilon), exact(delta))


_INFINITE = Fraction(10) ** 400  # more than any budget


@lru_cache(maxsize=16)
def _plan_loss(cost: Cost) -> PlanLoss:
    from skdp.loss.pld import plan_loss  # imported where a plan is made

    return plan_loss(cost)


def plan_epsilon(cost: Cost, delta: float) -> float:
    """Return the smallest epsilon of a plan at this delta, rounded up (infinity if none exists).

    Parameters
    ----------
    cost : Cost
        The sum of the prices that are planned.
    delta : float
        In (0, 1).

    Returns
    -------
    epsilon : float

    Examples
    --------
    >>> from skdp.budget import Cost, plan_epsilon
    >>> round(plan_epsilon(100 * Cost(0.1), 1e-6), 2)
    4.77
    """
    return _plan_loss(cost).epsilon(down(delta))  # the decimal of repr may lie below the float


ACCOUNTANTS: dict[str, type[Accountant]] = {
    cls.name: cls
    for cls in (BasicAccountant, GDPAccountant, GDPResidueAccountant, ZCDPAccountant, PLDAccountant)
}


# --- "gdp_residue" -------------------------------------------------------------------------------

_REL = 1e-12  # relative error granted to each value of ndtr and the arithmetic round it
_STEP = 3e-4  # by which a price may be above the best one
_COUNTED = 2**16  # of the releases of one charge, so many have prices below the plain one
_SMALL = 1e-4  # below it floats seldom tell a better price from the plain one


def _holds(epsilon: float, remaining: Fraction, price: Fraction) -> bool:
    """Whether an epsilon-DP release may take `price` of mu squared; False if floats cannot tell."""
    if price > remaining:
        return False
    mu = down(math.sqrt(round_down(remaining)))  # downwards: a smaller allowance
    r = up(math.sqrt(round_up(remaining - price)))  # upwards: more is left
    share = 1 / (1 + math.exp(min(epsilon, 700.0)))
    a, b = epsilon / r, r / 2
    errors = share * float(ndtr(a - b)) + (1 - share) * float(ndtr(-a - b))
    # The rounding of the arguments, at most an ulp of a + b, moves ndtr by that times (a + b + 1).
    slack = _REL + 1e-15 * (a + b) * (a + b + 1)
    allowed = float(ndtr(-mu / 2))
    return allowed > 1e-290 and errors * (1 - slack) >= allowed * (1 + _REL)


def pure_price(epsilon: float, times: int, remaining: Fraction) -> Fraction:
    """Return the price of `times` epsilon-DP releases with `remaining` of mu squared, rounded up.

    It is a finite decimal, at most `times` plain prices; more than is left if they do not fit.
    """
    plain = exact(pure_mu(epsilon)) ** 2
    bound = up(epsilon)  # the decimal of repr may lie above the float
    price, total, done = Fraction(0), Fraction(0), 0
    while done < times:
        rest = remaining - total
        # The last one takes all that it takes by itself: it does not fit. Past the count, and where
        # nothing is to be had, the rest takes the plain price, which is valid whatever is left.
        if rest < plain or done == _COUNTED or (price == plain and epsilon < _SMALL):
            return total + (times - done) * plain
        if not price or not _holds(bound, rest, price):
            price = _smallest_price(bound, rest, plain)
        many = _as_many(bound, rest, plain, price, min(times, _COUNTED) - done)
        total += many * price
        done += many
    return total


def _as_many(
    epsilon: float, remaining: Fraction, plain: Fraction, price: Fraction, most: int
) -> int:
    """Return for how many releases, at most `most`, a price is valid that is so for the first."""

    def fit(n: int) -> bool:
        rest = remaining - (n - 1) * price
        return n <= most and rest >= plain and _holds(epsilon, rest, price)

    n = 1
    while fit(2 * n):
        n *= 2
    low, high = n, min(2 * n, most + 1)  # `low` fit, `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low


def _smallest_price(epsilon: float, remaining: Fraction, plain: Fraction) -> Fraction:
    """Return a valid price, hardly above the best; the plain one at worst."""
    best = smallest(lambda p: _holds(epsilon, remaining, exact(p)), float(plain))
    if math.isfinite(best):
        # A little more than the best is still enough a few releases later, when less is left.
        for price in (best * (1 + _STEP), best * (1 + 2 * _STEP)):
            short = exact(float(f"{price:.8g}"))
            if short <= plain and _holds(epsilon, remaining, short):
                return short
    return plain
