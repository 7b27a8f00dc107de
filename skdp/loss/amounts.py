"""Exact amounts of epsilon, delta, mu and rho, and the checks of the numbers a user types.

Nothing is released here. An amount that a user writes as a float is read as the decimal that
``repr`` shows (``0.1`` is one tenth, not the nearest binary fraction), so that ten charges of
0.1 fill a budget of 1.0 exactly. Sums and comparisons are made on :class:`fractions.Fraction`
and stored as decimal text; floats are never accumulated.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

__all__ = [
    "Amount",
    "check_delta",
    "check_positive",
    "decimal_text",
    "exact",
    "exact_shares",
    "round_down",
    "round_up",
]


def exact(value: float) -> Fraction:
    """Return the decimal number that ``repr(float(value))`` shows, as a fraction.

    Parameters
    ----------
    value : float
        A finite number.

    Returns
    -------
    fraction : fractions.Fraction

    Examples
    --------
    >>> from skdp.loss.amounts import exact
    >>> 10 * exact(0.1) == 1
    True
    """
    return Fraction(repr(float(value)))


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


def decimal_text(amount: Fraction) -> str:
    """Return `amount` written as a decimal, exactly; its denominator must divide a power of ten.

    Every amount of the ledger is a sum of products of decimals, so this never rounds.
    """
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
    """Share `total` by weight, so that the decimals of the shares add up to it exactly.

    All shares but the last are rounded down to fifteen digits of the total, and the last takes
    what remains. Where that is no decimal that a float shows (of 17 digits, some are not), one
    share is a little smaller. Where the weights differ so much that a share would have fewer than
    six digits left, every share is rounded down by itself, and something remains.

    Parameters
    ----------
    total : Fraction
        Above 0; a decimal that a float shows.
    weights : sequence of Fraction
        Above 0.

    Returns
    -------
    shares : list of float
    """
    whole = sum(weights, Fraction(0))
    step = Fraction(10) ** (math.floor(math.log10(total)) - 14)
    first = [total * weight / whole // step * step for weight in weights[:-1]]
    largest = first.index(max(first)) if first else 0
    coarse = total * min(weights) / whole < 10**6 * step
    for _ in range(0 if coarse else 200):
        shares = [*first, total - sum(first, Fraction(0))]
        if min(shares) > 0 and all(exact(float(share)) == share for share in shares):
            return [float(share) for share in shares]
        if not first:
            break
        first[largest] -= step
    return [round_down(total * weight / whole) for weight in weights]


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
    """What an accountant adds up: two exact numbers, which it caps separately.

    Parameters
    ----------
    main : fractions.Fraction
        epsilon ("basic"), mu squared ("gdp") or rho ("zcdp").
    apart : fractions.Fraction
        delta ("basic"), or the delta of what is not Gaussian ("gdp", "zcdp").
    """

    main: Fraction = Fraction(0)
    apart: Fraction = Fraction(0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.main + other.main, self.apart + other.apart)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.main - other.main, self.apart - other.apart)

    def __rmul__(self, times: int) -> Amount:
        return Amount(times * self.main, times * self.apart)

    def fits(self, room: Amount) -> bool:
        """Whether both parts are at most those of `room`."""
        return self.main <= room.main and self.apart <= room.apart

    def overlap(self, other: Amount) -> Amount:
        """Return the smaller of the two, part by part."""
        return Amount(min(self.main, other.main), min(self.apart, other.apart))

    def positive(self) -> Amount:
        """Return the amount with negative parts replaced by zero."""
        return Amount(max(self.main, Fraction(0)), max(self.apart, Fraction(0)))
