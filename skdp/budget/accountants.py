"""How charges add up: the accountants "basic", "gdp" and "zcdp".

Nothing is released here. Every accountant is a *filter*: it fixes two caps when the budget is
made and grants a charge if and only if the exact sum of all charges stays within both. The whole
history is then (epsilon, delta)-DP even though every fit may be chosen after looking at
everything released before.

==========  ==================  =============================  ===============================
accountant  first sum (capped)  second sum (capped)            why it is a filter
==========  ==================  =============================  ===============================
"basic"     epsilon             delta                          Rogers et al. 2016, Thm 3.6 [1]_
"gdp"       mu squared          delta of non-Gaussian charges  Smith & Thakurta 2022 [2]_
"zcdp"      rho                 delta of non-Gaussian charges  Whitehouse et al. 2023 [3]_
==========  ==================  =============================  ===============================

Why two *fixed* caps under "gdp" and "zcdp", instead of converting with whatever delta is left:
let D be the delta spent apart and M the Gaussian sum. The rule "grant while
D + delta_gdp(M) <= delta" is not a filter. Look at a first Gaussian release; if the realised
privacy loss is large, go on with Gaussian releases, and otherwise spend D. Every path obeys the
rule, but the two kinds of failure are collected on disjoint outcomes, and their probabilities add
up to more than delta (``tests/budget/test_accountants.py`` computes such a case). With caps fixed
in advance, write each charge as (1 - d) P + d P' with P Gaussian-private (Kairouz, Oh &
Viswanath 2015, Thm 3.3 [4]_): the P form a GDP or zCDP filter of their own, and the P' happen
with probability at most the cap on the sum of d. So delta is split by `delta_apart` when the
budget is made.

All conversions are rounded towards privacy (less granted, more reported), and the line that
does so says it.

References
----------
.. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan, "Privacy odometers and filters", NeurIPS 2016.
.. [2] A. Smith, A. Thakurta, "Fully adaptive composition for Gaussian differential privacy",
   arXiv:2210.17520, 2022.
.. [3] J. Whitehouse, A. Ramdas, R. Rogers, Z. S. Wu, "Fully-adaptive composition in
   differential privacy", ICML 2023, Theorem 1.
.. [4] P. Kairouz, S. Oh, P. Viswanath, "The composition theorem for differential privacy",
   ICML 2015.
.. [5] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy",
   ICML 2018, Theorem 8.
.. [6] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020, Proposition 12.
.. [7] J. Dong, A. Roth, W. Su, "Gaussian differential privacy", JRSS B 2022.
.. [8] M. Bun, T. Steinke, "Concentrated differential privacy", TCC 2016, Propositions 1.4, 1.6.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.special import erfcx, erfinv, ndtr, ndtri_exp

from skdp.budget.amounts import Amount, exact, round_down, round_up
from skdp.budget.charge import Cost, PrivacyLoss

__all__ = ["ACCOUNTANTS", "Accountant", "gdp_delta", "gdp_mu", "pure_mu", "zcdp_delta"]

# Relative error granted to one call of erfcx, erfinv, ndtr or ndtri_exp and the arithmetic round
# it. Their authors state 1e-13 or better; the tests compare them with 50-digit arithmetic.
_REL = 1e-12


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _down(value: float) -> float:
    return math.nextafter(value, 0.0)


def gdp_delta(epsilon: float, mu: float) -> float:
    """Return an upper bound on the smallest delta for which mu-GDP gives (epsilon, delta)-DP.

    delta = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2) ([5]_, Theorem 8).

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        At least 0.

    Returns
    -------
    delta : float
        In [0, 1], never below the exact value, and above it by 1e-11 (1 + b/mu) b of it or
        less, b = 1 + mu + epsilon/mu.
    """
    if mu == 0:
        return 0.0
    ratio = epsilon / mu
    if math.isinf(ratio):  # mu so small that the exact value is below exp(-1e300)
        return math.ulp(0.0)
    a, b = mu / 2 - ratio, -mu / 2 - ratio
    # exp(epsilon) Phi(b) = exp(-a^2/2) erfcx(-b/sqrt 2)/2, because b^2 = a^2 + 2 epsilon: the
    # exponentials of the two terms are equal, so none is subtracted from another.
    scale = math.exp(-a * a / 2) / 2
    second = float(erfcx(-b / math.sqrt(2)))
    # The rounding of a, at most ulp(ratio + |a|), moves the exponent by |a| times that and erfcx
    # by less than twice that, relatively.
    slack = _REL + 1e-15 * (a * a + (abs(a) + 1) * ratio)
    if a < 0:
        first = float(erfcx(-a / math.sqrt(2)))
        bound = scale * ((first - second) + slack * (first + second))  # upwards
    else:
        bound = float(ndtr(a)) * (1 + slack) - scale * second * (1 - slack)  # upwards
    return min(1.0, max(bound, 0.0) + math.ulp(0.0))


def _bisect(holds: Callable[[float], bool], start: float) -> tuple[float, float]:
    """Return (low, high), next to each other: `holds` at low and not at high.

    Low is 0.0, where `holds` is not asked, if it holds nowhere; high is infinity if it holds
    everywhere.
    """
    low, high = 0.0, start
    while holds(high):
        low, high = high, 2 * high
        if math.isinf(high):
            return low, high
    while low < (mid := low + (high - low) / 2) < high:
        low, high = (mid, high) if holds(mid) else (low, mid)
    return low, high


def _largest(holds: Callable[[float], bool], start: float) -> float:
    return _bisect(holds, start)[0]


def _smallest(holds: Callable[[float], bool], start: float) -> float:
    return 0.0 if holds(0.0) else _bisect(lambda x: not holds(x), start)[1]


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu such that mu-GDP gives (epsilon, delta)-DP, rounded down.

    Parameters
    ----------
    epsilon : float
        Finite, above 0. Read as the decimal of its `repr`, as everywhere in this package.
    delta : float
        In (0, 1).

    Returns
    -------
    mu : float
        ``gdp_delta(epsilon, mu) <= delta`` holds, also after the calibration's own rounding.

    Examples
    --------
    >>> from skdp.budget import gdp_mu
    >>> round(gdp_mu(1.0, 1e-6), 4)
    0.2367
    """
    # The decimal that repr shows may lie half an ulp below the float: one ulp down covers it.
    epsilon, delta = _down(epsilon), _down(delta)
    return _largest(lambda mu: gdp_delta(epsilon, mu) <= delta, 1.0)


def pure_mu(epsilon: float) -> float:
    """Return the smallest mu such that every epsilon-DP release is mu-GDP, rounded up.

    mu = -2 Phi^-1(1/(1 + exp(epsilon))): the trade-off curve of epsilon-DP has its corner at
    alpha = beta = 1/(1 + exp(epsilon)) and is linear on both sides, so the convex curve of mu-GDP
    lies below it if and only if it does so at the corner ([7]_, Proposition 3 and equation 2).

    Parameters
    ----------
    epsilon : float
        Finite, above 0.

    Returns
    -------
    mu : float
    """
    epsilon = _up(epsilon)  # the decimal of repr may lie above the float
    if epsilon < 1:
        # Phi^-1(1/2 + h) = sqrt 2 erfinv(2 h), h = tanh(epsilon/2)/2: no cancellation near 1/2.
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(-(epsilon + math.log1p(math.exp(-epsilon)))))
    return _up(mu * (1 + _REL))  # upwards


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return an upper bound on the delta for which rho-zCDP gives (epsilon, delta)-DP.

    delta <= exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1) for every
    alpha > 1 ([6]_, Proposition 12); a good alpha is searched, and any alpha is valid.

    Parameters
    ----------
    epsilon : float
        At least 0.
    rho : float
        At least 0.

    Returns
    -------
    delta : float
        In [0, 1].
    """
    if rho == 0:
        return 0.0

    def log_delta(alpha_1: np.ndarray) -> np.ndarray:  # alpha - 1 > 0
        alpha = 1 + alpha_1
        one, two = alpha_1 * alpha * rho, alpha_1 * epsilon
        # alpha log(1 - 1/alpha) - log(alpha - 1), without 1 - 1/alpha
        three, four = alpha_1 * np.log(alpha_1), alpha * np.log1p(alpha_1)
        error = 1e-14 * (one + two + np.abs(three) + four + 1)
        return one - two + three - four + error  # upwards: error covers the rounding of the sum

    center = max((epsilon / rho - 1) / 2, 1.0)  # minimises the exponent
    grid = np.geomspace(1e-3, 1e3 * center, 129)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(6):
            values = np.nan_to_num(log_delta(grid), nan=np.inf)
            best = int(np.argmin(values))
            grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, 128)], 129)
    exponent = min(float(values[best]), 1.0)  # above 0 the bound is 1 anyway
    return min(1.0, math.exp(exponent) * (1 + _REL) + math.ulp(0.0))  # upwards


class Accountant(ABC):
    """A filter: two caps, the price of a charge, and what sums mean as (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    delta_apart : float
        The part of `delta` kept for charges that are not Gaussian ("gdp" and "zcdp").
    """

    name: str

    def __init__(self, epsilon: float, delta: float, delta_apart: float = 0.0) -> None:
        self.epsilon, self.delta, self.delta_apart = epsilon, delta, delta_apart
        self.check()
        self.cap = self.make_cap()

    @abstractmethod
    def check(self) -> None:
        """Raise ValueError where this accountant cannot keep such a budget."""

    @abstractmethod
    def make_cap(self) -> Amount:
        """Return what all charges together may sum to."""

    @abstractmethod
    def price_one(self, cost: Cost) -> Amount:
        """Return what a single price adds to the sums."""

    @abstractmethod
    def loss(self, amount: Amount) -> PrivacyLoss:
        """Return the (epsilon, delta) that charges of this sum amount to, rounded up."""

    @abstractmethod
    def room(self, amount: Amount) -> PrivacyLoss:
        """Return the (epsilon, delta) of one more fit that this much room allows, rounded down."""

    def price(self, cost: Cost) -> Amount:
        """Return what `cost`, single or a sum, adds to the sums."""
        (first, often), *others = cost.components
        total = self.price_one(first) if often == 1 else often * self.price_one(first)
        for single, times in others:
            total = total + times * self.price_one(single)
        return total


class BasicAccountant(Accountant):
    """Sums of epsilon and of delta, of everything that was charged."""

    name = "basic"

    def check(self) -> None:
        if self.delta_apart:
            raise ValueError(
                'delta_apart must be 0 under accountant="basic", which adds up every delta; '
                'it is for accountant="gdp" and "zcdp".'
            )

    def make_cap(self) -> Amount:
        return Amount(exact(self.epsilon), exact(self.delta))

    def price_one(self, cost: Cost) -> Amount:
        return Amount(exact(cost.epsilon), exact(cost.delta))

    def loss(self, amount: Amount) -> PrivacyLoss:
        return PrivacyLoss(round_up(amount.main), round_up(amount.apart))

    def room(self, amount: Amount) -> PrivacyLoss:
        return PrivacyLoss(round_down(amount.main), round_down(amount.apart))


class _GaussianAccountant(Accountant):
    """What "gdp" and "zcdp" share: a Gaussian sum and a delta apart, each with its own cap."""

    def check(self) -> None:
        if self.delta == 0:
            raise ValueError(
                f'delta must be above 0 under accountant="{self.name}", which converts with it; '
                'for delta=0 use accountant="basic".'
            )
        if self.delta_apart >= self.delta:
            raise ValueError(f"delta_apart must be in [0, delta) = [0, {self.delta!r}).")
        # exact difference of the two decimals, rounded down: the caps together never exceed delta
        self.delta_gaussian = round_down(exact(self.delta) - exact(self.delta_apart))

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
        return Amount(self.largest_main(self.epsilon), exact(self.delta_apart))

    def price_one(self, cost: Cost) -> Amount:
        # An (epsilon, delta) claim without mu is epsilon-DP but for an event of probability delta.
        apart = cost.delta if cost.mu is None else cost.delta_apart
        return Amount(self.main_one(cost), exact(apart))

    def loss(self, amount: Amount) -> PrivacyLoss:
        if amount.main == 0:
            return PrivacyLoss(0.0, round_up(amount.apart))
        epsilon = self.epsilon  # the caps were made for it, so it always bounds the loss
        if amount.main < self.cap.main:
            main = round_up(amount.main)
            found = _smallest(lambda e: self.main_delta(e, main) <= _down(self.delta_gaussian), 1.0)
            epsilon = min(epsilon, _up(found))
        return PrivacyLoss(epsilon, round_up(exact(self.delta_gaussian) + amount.apart))

    def room(self, amount: Amount) -> PrivacyLoss:
        if amount.main <= 0:
            return PrivacyLoss(0.0, 0.0)
        epsilon, delta = self.epsilon, self.delta_gaussian
        if self.mu_main(gdp_mu(epsilon, delta)) > amount.main:
            mu = math.sqrt(amount.main / self.mu_main(1.0))
            epsilon = min(epsilon, _smallest(lambda e: gdp_delta(e, mu) <= delta, 1.0))
        # Go down until a Gaussian fit calibrated to it from scratch, with all the rounding of
        # that calibration, fits into what remains.
        factor = 1e-15
        while epsilon > 0 and factor < 1:
            if self.mu_main(gdp_mu(epsilon, delta)) <= amount.main:
                return PrivacyLoss(epsilon, delta)
            epsilon, factor = epsilon * (1 - factor), 4 * factor
        return PrivacyLoss(0.0, 0.0)


class GDPAccountant(_GaussianAccountant):
    """Sum of mu squared; exact for Gaussian noise, converted at the corner for pure epsilon."""

    name = "gdp"

    def largest_main(self, epsilon: float) -> Fraction:
        return exact(gdp_mu(epsilon, self.delta_gaussian)) ** 2

    def mu_main(self, mu: float) -> Fraction:
        return exact(mu) ** 2

    def main_delta(self, epsilon: float, main: float) -> float:
        return gdp_delta(epsilon, _up(math.sqrt(_up(main))))  # upwards

    def main_one(self, cost: Cost) -> Fraction:
        return exact(pure_mu(cost.epsilon) if cost.mu is None else cost.mu) ** 2


class ZCDPAccountant(_GaussianAccountant):
    """Sum of rho: mu^2/2 of Gaussian noise, min(epsilon^2/2, epsilon) of pure epsilon.

    The first is [8]_ Proposition 1.6 with the dominance of mu-GDP by one Gaussian pair; the
    second [8]_ Proposition 1.4, and D_alpha <= epsilon <= alpha epsilon.
    """

    name = "zcdp"

    def largest_main(self, epsilon: float) -> Fraction:
        # one ulp down covers the decimals that repr shows, and that of the result
        epsilon, delta = _down(epsilon), _down(self.delta_gaussian)
        return exact(_down(_largest(lambda rho: zcdp_delta(epsilon, rho) <= delta, 1.0)))

    def mu_main(self, mu: float) -> Fraction:
        return exact(mu) ** 2 / 2

    def main_delta(self, epsilon: float, main: float) -> float:
        return zcdp_delta(epsilon, _up(main))

    def main_one(self, cost: Cost) -> Fraction:
        if cost.mu is not None:
            return self.mu_main(cost.mu)
        epsilon = exact(cost.epsilon)
        return min(epsilon**2 / 2, epsilon)


ACCOUNTANTS: dict[str, type[Accountant]] = {
    cls.name: cls for cls in (BasicAccountant, GDPAccountant, ZCDPAccountant)
}
