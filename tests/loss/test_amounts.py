"""Exact amounts: decimals as typed, rounded outwards only where a float is shown."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.loss.conversions import (
    Amount,
    check_delta,
    check_positive,
    decimal_text,
    exact,
    round_down,
    round_up,
    rounded_amount,
)
from tests.folding import each

FLOATS = st.floats(min_value=0, max_value=1e300, allow_nan=False)


def test_a_float_is_the_decimal_that_was_typed():
    assert exact(0.1) == Fraction(1, 10)
    assert exact(1e-300) == Fraction(1, 10**300)
    assert exact(np.float64(0.1)) == Fraction(1, 10)
    assert exact(3) == 3

    class Sly(float):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash(1.0)

    assert exact(Sly(1e-3)) == Fraction(1, 1000)  # neither what was kept for 1.0, nor kept for it
    assert exact(1.0) == 1
    assert exact(Sly(1e3)) == 1000


@given(FLOATS)
def test_a_float_rounds_to_itself(value):
    assert round_up(exact(value)) == round_down(exact(value)) == value


@given(st.fractions(min_value=0, max_value=10**40))
def test_rounding_brackets_the_amount_and_is_tight(amount):
    low, high = round_down(amount), round_up(amount)
    assert exact(low) <= amount <= exact(high)
    assert high <= math.nextafter(low, math.inf)


@given(FLOATS, st.integers(1, 8))
def test_a_price_is_shown_in_few_digits_and_never_smaller(value, digits):
    low, high = rounded_amount(value, digits, up=False), rounded_amount(value, digits)
    assert low <= value <= high
    assert float(f"{high:.{digits}g}") == high
    assert high - low <= 10.0 ** (1 - digits) * max(abs(low), abs(high))


def test_rounding_past_the_range_of_floats():
    assert round_up(Fraction(10) ** 400) == math.inf
    assert round_up(-(Fraction(10) ** 400)) == -math.inf


@given(st.lists(FLOATS, min_size=1, max_size=6), st.integers(-5, 5))
def test_decimal_text_is_exact(values, times):
    amount = times * sum((exact(v) * exact(values[0]) for v in values), Fraction(0))
    assert Fraction(decimal_text(amount)) == amount


def test_decimal_text_refuses_to_round():
    assert decimal_text(Fraction(-1, 8)) == "-0.125"
    assert decimal_text(Fraction(12)) == "12"
    with pytest.raises(ValueError, match="finite decimal"):
        decimal_text(Fraction(1, 3))


def test_amounts_add_and_compare_part_by_part():
    a, b = Amount(Fraction(3), Fraction(1)), Amount(Fraction(1), Fraction(2))
    assert a + b == Amount(Fraction(4), Fraction(3))
    assert a - b == Amount(Fraction(2), Fraction(-1))
    assert (a - b).positive() == Amount(Fraction(2), Fraction(0))
    assert a.overlap(b) == Amount(Fraction(1), Fraction(1))
    assert 2 * b == Amount(Fraction(2), Fraction(4))
    assert not a.fits(b)
    assert not b.fits(a)
    assert a.overlap(b).fits(b)


@each("value", [True, np.True_, "1", None, 1j, [1.0], np.array([1.0])])
def test_only_numbers_are_numbers(value):
    with pytest.raises(TypeError, match=r"^epsilon must be a finite number > 0; got"):
        check_positive(value, "epsilon")
    with pytest.raises(TypeError, match=r"^delta must be a number in \[0, 1\); got"):
        check_delta(value)


@each("value", [0, -1, math.nan, math.inf, -math.inf, 10**400, np.float32(0)])
def test_epsilon_is_finite_and_positive(value):
    with pytest.raises(ValueError, match=r"^epsilon must be a finite number > 0; got"):
        check_positive(value, "epsilon")


@pytest.mark.parametrize("value", [1, 1.5, -1e-9, math.nan, math.inf])
def test_delta_is_in_the_unit_interval(value):
    with pytest.raises(ValueError, match=r"^delta must be a number in \[0, 1\); got"):
        check_delta(value)


def test_accepted_numbers_become_floats():
    assert check_positive(np.int64(3), "epsilon") == 3.0
    assert type(check_positive(np.float32(0.5), "epsilon")) is float
    assert math.copysign(1, check_delta(-0.0)) == 1
