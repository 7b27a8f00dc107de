"""What a pure release takes of a Gaussian allowance: the residue of the allowance after it.

Nothing is released here. Let G_m be the pair of normal distributions m apart, R_e randomized
response at epsilon e, and let f >= g say that g dominates f (every hockey-stick divergence of f is
at most that of g). The plain "gdp" filter replaces R_e by the Gaussian that dominates it alone. But
inside an allowance G_mu much less is enough: what must hold is that R_e *together with what is
left* stays within G_mu. The residue of G_mu after R_e is the largest r with R_e x G_r >= G_mu (x is
composition), and the price of the release is mu^2 - r^2 (the idea is that of [1]_; the two
statements below are proved here, and stand by themselves).

**The filter is valid.** State: what is left of mu^2; a Gaussian release takes its own mu^2. Claim:
whatever an analyst does who obeys the filter from a state s on, with at most k releases, is
dominated by G_sqrt(s). For k = 0 there is nothing. The next release f is chosen, and its price p
depends on f and s alone. After every outcome of f the analyst is at s - p, so what follows is
dominated by G_sqrt(s - p) by induction; by adaptive composition ([2]_, Theorem 4) everything is
dominated by f x G_sqrt(s - p), which the price keeps within G_sqrt(s). (A fit that still runs when
the next one is charged is a function of one draw of its pair, which may be taken as seen.)

**One number decides.** R_e x G_r >= G_mu for r < mu if and only if the smallest sum of the errors
of the two kinds is no less::

    Phi(e/r - r/2) / (1 + exp(e)) + Phi(-e/r - r/2) exp(e) / (1 + exp(e)) >= Phi(-mu/2)

Proof. Both sides are half of 1 - delta(0), so it is necessary. Let q be the density of the privacy
loss under P, times exp(-loss/2); then exp(-x/2) delta(x) is the integral over y > x of 2 sinh((y -
x)/2) q(y), and since both pairs are symmetric, so is it in x. For G_mu, q is a constant times the
normal density of variance mu^2; for R_e x G_r, a constant times the mean of two of variance r^2, at
e and -e. Let D(x) be the difference of exp(-x/2) delta(x), of G_mu minus the other. D is even, D''
= D/4 + c with c the difference of the q, and D(0) >= 0 is what was asked for. The log of the ratio
of the q is a constant - a y^2 + log cosh(b y) with a, b > 0, whose derivative, divided by y, falls
in y > 0: so it rises and then falls, or falls. Hence on y > 0 c is negative on at most one
interval. Beyond its end D >= 0, because the integral is over c >= 0. On the interval D'' = D/4 + c
has no negative inner minimum, as there D'' < 0. Where the interval begins at 0, D is >= 0 at both
ends, so throughout. Otherwise c >= 0 on [0, its beginning], D'(0) = 0 and D(0) >= 0, so D grows
there, and again D >= 0 at both ends. So D >= 0, which is the claim.

**A price stays valid where more is left.** From R_e x G_r >= G_mu follows R_e x G_r x G_t >= G_mu x
G_t, and squares of Gaussian distances add up. So of equal releases one after the other, each before
the last one may take a price that is valid for the last.

References
----------
.. [1] M. Regehr, B. Hu, E. Leeman, P. Manurangsi, P. Tholoniat, M. Lecuyer, "Privacy filters are
   captured by residues", arXiv:2602.15815, 2026.
.. [2] J. Dong, A. Roth, W. Su, "Gaussian differential privacy", JRSS B 2022.
"""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.special import ndtr

from skdp.loss.amounts import exact, round_down, round_up
from skdp.loss.conversions import down, pure_mu, smallest, up

__all__ = ["is_enough", "pure_price"]

_REL = 1e-12  # relative error granted to each value of ndtr and the arithmetic round it
_STEP = 3e-4  # by which a price may be above the best one
_COUNTED = 2**16  # releases of one charge are priced one by one so far
_SMALL = 1e-4  # below it floats seldom tell a better price from the plain one


def _holds(epsilon: float, left: Fraction, price: Fraction) -> bool:
    """Whether an epsilon-DP release may take `price` out of what is left of mu squared."""
    if price > left:
        return False
    mu = down(math.sqrt(round_down(left)))  # downwards: a smaller allowance
    r = up(math.sqrt(round_up(left - price)))  # upwards: more is left
    share = 1 / (1 + math.exp(min(epsilon, 700.0)))
    a, b = epsilon / r, r / 2
    errors = share * float(ndtr(a - b)) + (1 - share) * float(ndtr(-a - b))
    # The rounding of the arguments, at most an ulp of a + b, moves ndtr by that times (a + b + 1).
    slack = _REL + 1e-15 * (a + b) * (a + b + 1)
    allowed = float(ndtr(-mu / 2))
    return allowed > 1e-290 and errors * (1 - slack) >= allowed * (1 + _REL)  # else no float says


def is_enough(epsilon: float, left: Fraction, price: Fraction) -> bool:
    """Whether one epsilon-DP release may take this price; False also where no float can say it.

    Far faster than :func:`pure_price`, which looks for the smallest price.
    """
    return _holds(up(epsilon), left, price)


def pure_price(epsilon: float, times: int, left: Fraction) -> Fraction:
    """Return what `times` epsilon-DP releases take out of what is left of mu squared, rounded up.

    It is never more than `times` prices of the plain filter, whatever is left, and more than what
    is left where they do not fit.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    times : int
        How often.
    left : Fraction
        Of mu squared; at least 0.

    Returns
    -------
    price : Fraction
        A finite decimal.
    """
    plain = exact(pure_mu(epsilon)) ** 2
    bound = up(epsilon)  # the decimal of repr may lie above the float
    price, total, done = Fraction(0), Fraction(0), 0
    while done < times:
        rest = left - total
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


def _as_many(epsilon: float, left: Fraction, plain: Fraction, price: Fraction, most: int) -> int:
    """Return how many releases, `most` at most, take a price that is valid for the first of them.

    It is valid for all where it is for the last; the plain price must still fit before that.
    """

    def fit(n: int) -> bool:
        rest = left - (n - 1) * price
        return n <= most and rest >= plain and _holds(epsilon, rest, price)

    n = 1
    while fit(2 * n):
        n *= 2
    low, high = n, min(2 * n, most + 1)  # `low` fit, `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low


def _smallest_price(epsilon: float, left: Fraction, plain: Fraction) -> Fraction:
    """Return a price that is valid here, hardly above the best; the plain one at worst."""
    best = smallest(lambda p: _holds(epsilon, left, exact(p)), float(plain))
    if math.isfinite(best):
        # A little more than the best is still enough a few releases later, when less is left.
        for price in (best * (1 + _STEP), best * (1 + 2 * _STEP)):
            short = exact(float(f"{price:.8g}"))
            if short <= plain and _holds(epsilon, left, short):
                return short
    return plain
