"""Exact amounts, and conversions between epsilon, delta, mu and rho.

An amount that a user writes as a float is read as the decimal that ``repr`` shows (``0.1`` is one
tenth, not the nearest binary fraction), so that ten charges of 0.1 fill a budget of 1.0 exactly.
Sums and comparisons are made on :class:`fractions.Fraction` and stored as decimal text; floats are
never accumulated. Conversions are floats; each docstring says which way its result is rounded.

References
----------
.. [1] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy",
   ICML 2018, Theorem 8.
.. [2] J. Dong, A. Roth, W. Su, "Gaussian differential privacy", JRSS B 2022.
.. [3] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020, Proposition 12.
"""

from __future__ import annotations

import decimal
import functools
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri_exp

from skdp.parameters import Reals, check_parameter


def exact(value: float) -> Fraction:
    """Return the decimal number that ``repr(float(value))`` shows, as a fraction.

    Parameters
    ----------
    value : float
        Finite.

    Returns
    -------
    fraction : fractions.Fraction

    Examples
    --------
    >>> from skdp.loss.conversions import exact
    >>> 10 * exact(0.1) == 1
    True
    """
    # Only floats are looked up: a class of the caller's compares and hashes as it likes.
    return _fraction_shown(float(value))


@functools.lru_cache(maxsize=64)
def _fraction_shown(value: float) -> Fraction:
    return Fraction(repr(value))


def round_up(amount: Fraction) -> float:
    """Return the smallest float whose ``repr`` is at least `amount` (infinity past the range)."""
    try:
        value = float(amount)
    except OverflowError:
        return math.inf if amount > 0 else -math.inf
    while math.isfinite(value) and exact(value) < amount:  # towards more loss
        value = math.nextafter(value, math.inf)
    return value


def round_down(amount: Fraction) -> float:
    """Return the largest float whose ``repr`` is at most `amount`."""
    return 0.0 - round_up(-amount)  # 0.0, and not -0.0, for zero


def rounded_amount(amount: float, digits: int = 6, *, up: bool = True) -> float:
    """Return an amount as a reader sees it, in few digits and never smaller (not `up`: larger)."""
    context = decimal.Context(digits, decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR)
    return float(context.create_decimal(repr(float(amount))))


def loss_text(loss: Any, *, up: bool = True) -> str:
    """Return the epsilon and delta of a price or a total; what remains is rounded down."""
    epsilon, delta = (rounded_amount(value, up=up) for value in (loss.epsilon, loss.delta))
    return f"epsilon={epsilon!r}, delta={delta!r}"


def decimal_text(amount: Fraction) -> str:
    """Return the decimal of a sum of products of decimals, exactly."""
    denominator = amount.denominator
    twos = (denominator & -denominator).bit_length() - 1
    fives, rest = 0, denominator >> twos
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    if rest != 1:
        raise ValueError("amount is not a finite decimal")
    digits = max(twos, fives)
    scaled = abs(amount.numerator) * (10**digits // denominator)
    text = str(scaled).rjust(digits + 1, "0")
    sign = "-" if amount < 0 else ""
    return sign + (text if digits == 0 else f"{text[:-digits]}.{text[-digits:]}")


def exact_shares(total: Fraction, weights: Sequence[Fraction]) -> list[float]:
    """Share `total` by weight into decimals that add up to it exactly; both are above 0.

    The last share takes the remainder. If the weights differ so much that a share would have fewer
    than six digits, every share is rounded down by itself, and something remains.
    """
    exact_parts = [total * weight / sum(weights, Fraction(0)) for weight in weights]
    step = Fraction(10) ** (math.floor(math.log10(total)) - 14)
    first = [part // step * step for part in exact_parts[:-1]]
    largest = first.index(max(first)) if first else 0
    is_coarse = min(exact_parts) < 10**6 * step
    for _ in range(0 if is_coarse else 200):
        shares = [*first, total - sum(first, Fraction(0))]
        if min(shares) > 0 and all(exact(float(share)) == share for share in shares):
            return [float(share) for share in shares]
        if not first:
            break
        first[largest] -= step  # until a float shows the remainder
    return [round_down(part) for part in exact_parts]


def _real(value: object, name: str, allowed: str) -> float:
    """Return `value` as a float, or raise a TypeError that names the parameter."""
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {allowed}; got an object of type {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_positive(value: object, name: str) -> float:
    """Return `value` as a float if it is a finite number above zero, and raise otherwise."""
    number = _real(value, name, "a finite number > 0")
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a finite number > 0; got {number!r}.")
    return number


def check_delta(value: object, name: str = "delta") -> float:
    """Return `value` as a float if it is a number in [0, 1), and raise otherwise."""
    number = _real(value, name, "a number in [0, 1)")
    if not 0 <= number < 1:  # False for NaN too
        raise ValueError(f"{name} must be a number in [0, 1); got {number!r}.")
    return abs(number)  # -0.0 becomes 0.0


@dataclass(frozen=True)
class Amount:
    """What an accountant adds up: two exact numbers, capped separately."""

    main: Fraction = Fraction(0)  # epsilon ("basic"), mu squared ("gdp") or rho ("zcdp")
    separate: Fraction = Fraction(0)  # delta ("basic"), or that of charges that are not Gaussian

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.main + other.main, self.separate + other.separate)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.main - other.main, self.separate - other.separate)

    def __rmul__(self, times: int) -> Amount:
        return Amount(times * self.main, times * self.separate)

    def fits(self, room: Amount) -> bool:
        """Whether both parts are at most those of `room`."""
        return self.main <= room.main and self.separate <= room.separate

    def overlap(self, other: Amount) -> Amount:
        """Return the smaller of the two, part by part."""
        return Amount(min(self.main, other.main), min(self.separate, other.separate))

    def positive(self) -> Amount:
        """Return the amount with negative parts replaced by zero."""
        return Amount(max(self.main, Fraction(0)), max(self.separate, Fraction(0)))


# --- conversions ---------------------------------------------------------------------------------

# Relative error granted to one call of erfcx, erfinv, ndtr or ndtri_exp and the arithmetic round
# it. Their authors state 1e-13 or better; the tests compare them with 50-digit arithmetic.
_REL = 1e-12


def up(value: float) -> float:
    """Return the next float above."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """Return the next float towards zero."""
    return math.nextafter(value, 0.0)


def gdp_delta(epsilon: float, mu: float) -> float:
    """Return an upper bound on the smallest delta for which mu-GDP gives (epsilon, delta)-DP.

    delta = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2) ([1]_, Theorem 8).

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        At least 0.

    Returns
    -------
    delta : float
        In [0, 1], never below the exact value. It is above it by at most the factor 1 + 1e-11
        (1 + b/mu) b, where b = 1 + mu + epsilon/mu.
    """
    if mu == 0:
        return 0.0
    ratio = epsilon / mu
    if math.isinf(ratio):  # mu so small that the exact value is below exp(-1e300)
        return math.ulp(0.0)
    a, b = mu / 2 - ratio, -mu / 2 - ratio
    if a < -1e150:  # the same; its square is infinite
        return math.ulp(0.0)
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
    """Return adjacent (low, high), `holds` at low (or low is 0), not at high (or high is inf)."""
    low, high = 0.0, start
    while holds(high):
        low, high = high, 2 * high
        if math.isinf(high):
            return low, high
    while low < (mid := low + (high - low) / 2) < high:
        low, high = (mid, high) if holds(mid) else (low, mid)
    return low, high


def largest(holds: Callable[[float], bool], start: float) -> float:
    """Return the largest number > 0 up to which a condition holds; 0.0 if it never does."""
    return _bisect(holds, start)[0]


def smallest(holds: Callable[[float], bool], start: float) -> float:
    """Return the smallest number >= 0 from which on a condition holds."""
    return 0.0 if holds(0.0) else _bisect(lambda x: not holds(x), start)[1]


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu such that mu-GDP gives (epsilon, delta)-DP, rounded down.

    Parameters
    ----------
    epsilon : float
        Finite, above 0; the decimal number of its `repr`, as everywhere in this package.
    delta : float
        In (0, 1).

    Returns
    -------
    mu : float
        ``gdp_delta(epsilon, mu) <= delta`` holds, including the rounding errors of this function.

    Examples
    --------
    >>> from skdp.budget import gdp_mu
    >>> round(gdp_mu(1.0, 1e-6), 4)
    0.2367
    """
    # The decimal that repr shows may lie half an ulp below the float: one ulp down covers it.
    epsilon, delta = down(epsilon), down(delta)
    return largest(lambda mu: gdp_delta(epsilon, mu) <= delta, 1.0)


def pure_mu(epsilon: float) -> float:
    """Return the smallest mu such that every epsilon-DP release is mu-GDP, rounded up.

    mu = -2 Phi^-1(1/(1 + exp(epsilon))): the trade-off curve of epsilon-DP has its corner at
    alpha = beta = 1/(1 + exp(epsilon)) and is linear on both sides, so the convex curve of mu-GDP
    lies below it if and only if it does so at the corner ([2]_, Proposition 3 and equation 2).

    Parameters
    ----------
    epsilon : float
        Finite, above 0.

    Returns
    -------
    mu : float
    """
    epsilon = up(epsilon)  # the decimal of repr may lie above the float
    if epsilon < 1:
        # Phi^-1(1/2 + h) = sqrt 2 erfinv(2 h), h = tanh(epsilon/2)/2: no cancellation near 1/2.
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(-(epsilon + math.log1p(math.exp(-epsilon)))))
    return up(mu * (1 + _REL))  # upwards


def pure_epsilon_from_mu(mu: float) -> float:
    """Return an epsilon such that every epsilon-DP release is mu-GDP, rounded down; mu > 0."""
    # log_ndtr is good to about 1e-13; their difference is at least 0.79 mu and the two terms are
    # at most log 2 + mu**2 / 8 + ..., so 1e-9 covers it for mu >= 1e-3. Below, the tangent
    # epsilon = sqrt(2 / pi) mu bounds the curve from below (it is convex and starts at 0).
    if mu < 1e-3:
        return math.sqrt(2 / math.pi) * mu * (1 - 1e-9)
    return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)) * (1 - 1e-9)


def pure_part(mu: float, parts: int) -> float:
    """Return the epsilon that each of `parts` pure releases may have within mu-GDP together."""
    return pure_epsilon_from_mu(mu / math.sqrt(parts) * (1 - 2**-50))


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return an upper bound on the delta for which rho-zCDP gives (epsilon, delta)-DP.

    delta <= exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1) for every
    alpha > 1 ([3]_, Proposition 12); a good alpha is searched, and any alpha is valid.

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
        spread, shift = alpha_1 * alpha * rho, alpha_1 * epsilon
        # alpha log(1 - 1/alpha) - log(alpha - 1), without 1 - 1/alpha
        gain, loss = alpha_1 * np.log(alpha_1), alpha * np.log1p(alpha_1)
        error = 1e-14 * (spread + shift + np.abs(gain) + loss + 1)
        return spread - shift + gain - loss + error  # upwards: error covers the rounding of the sum

    center = max((epsilon / rho - 1) / 2, 1.0)  # minimises the exponent
    grid = np.geomspace(1e-3, 1e3 * center, 129)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(6):
            values = np.nan_to_num(log_delta(grid), nan=np.inf)
            best = int(np.argmin(values))
            grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, 128)], 129)
    exponent = min(float(values[best]), 1.0)  # above 0 the bound is 1 anyway
    return min(1.0, math.exp(exponent) * (1 + _REL) + math.ulp(0.0))  # upwards


def guessing_chance(epsilon: float, delta: float = 0.0, prior: float = 0.5) -> float:
    """Return how often the best attacker guesses which of two neighbouring tables was used.

    The attacker knows both tables and how likely each was beforehand, and sees everything that was
    released.

    Parameters
    ----------
    epsilon : float
        Finite, at least 0.
    delta : float, default=0.0
        In [0, 1].
    prior : float, default=0.5
        The probability of the first table before anything was released, in [0, 1].

    Returns
    -------
    chance : float
        The largest probability of a correct guess that (epsilon, delta) allows, rounded up.

    Notes
    -----
    A guess is a test. If its false positive rate is x, its power is at most min(1, exp(epsilon)
    x + delta); the same holds with the tables exchanged [1]_. The chance of a correct guess is
    linear in both rates, so it is largest at a corner of the possible rates: (0, delta),
    (1 - delta, 1), or ((1 - delta) / (1 + exp(epsilon)),
    (exp(epsilon) + delta) / (1 + exp(epsilon))).

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath, "The composition theorem for differential privacy",
       ICML 2015, Theorem 2.1.

    Examples
    --------
    >>> from skdp.budget import guessing_chance
    >>> [round(guessing_chance(epsilon), 2) for epsilon in (0.1, 1.0, 4.0)]
    [0.52, 0.73, 0.98]
    """
    check_parameter(epsilon, "epsilon", Reals(0, math.inf, "[)"))
    check_parameter(delta, "delta", Reals(0, 1))
    check_parameter(prior, "prior", Reals(0, 1))
    wrong = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    corners = [(0.0, delta), (wrong, 1 - wrong), (1 - delta, 1.0)]
    chance = max(prior * power + (1 - prior) * (1 - x) for x, power in corners)
    return min(chance * (1 + _REL), 1.0)  # rounded up: more than the error of the arithmetic


def attacker_sentence(epsilon: float, delta: float, adjacency: str, unit: str | None = None) -> str:
    """Say what a loss lets an attacker do; `adjacency` is "" where it is not known."""
    if not epsilon and not delta:
        return ""
    chance = guessing_chance(epsilon, min(delta, 1.0)) if math.isfinite(epsilon) else 1.0
    unit = "row" if unit is None else unit
    guess = {
        "replace_one": f"between two contents of one {unit}",
        "add_or_remove_one": f"whether one {unit} is in the table",
    }.get(adjacency, f"between two tables that one {unit} tells apart")
    percent = math.ceil(1000 * chance) / 10
    while percent == 100.0 > 100.0 * chance and chance < 1.0 - 1e-9:
        percent = 100.0 - 10.0 ** math.floor(math.log10(100.0 - 100.0 * chance))
    return (
        f"Whoever knows all the rest and guesses {guess}, with even chances beforehand, is right "
        f"with a probability of at most {percent:.10g}%."
    )
