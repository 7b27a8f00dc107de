"""Real numbers enclosed by balls of python-flint, as far as several checkers need them.

A ball is a midpoint and a radius that certainly contain the real number. `a <= b` of two balls is
true only if it holds for every pair of numbers in them, so an assertion never passes by rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

REASON = "needs the extra 'verified'"


def flint_with(bits: int) -> Any:
    """Return python-flint with so many bits a ball, or skip the test that calls this."""
    flint = pytest.importorskip("flint", reason=REASON)
    flint.ctx.prec = bits
    return flint


def ball(value: float | Fraction) -> Any:
    """Return the ball of a rational number."""
    from flint import arb

    exact = Fraction(value)
    return arb(exact.numerator) / exact.denominator
