"""Exact arithmetic shared by the samplers: rationals, brackets of exp, uniform integers.

Everything here is integer arithmetic with directed rounding, so every bracket is a theorem and
not a belief about a math library. It is slow and is used to build tables and where a
floating-point filter could not decide.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise.entropy import Entropy, resolve

#: Added to the error bound of every floating-point filter. Zero in use. The tests raise it, so that
#: decisions which are almost never in doubt take the exact path, and check that nothing changes.
SLACK = 0.0


def as_rational(value: Any, name: str, low: Fraction | int, high: Fraction | int) -> Fraction:
    """Return the exact rational value of a number; refuse what is not in [low, high].

    - raises TypeError: if `value` is not a real number (bool included).
    - raises ValueError: if `value` is not finite or not in [low, high].
    """
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an int, a float or a Fraction, not a bool.")
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, np.integer):
        value = int(value)
    elif isinstance(value, np.floating):
        value = float(value)
    if not isinstance(value, (int, float, Fraction)):
        kind = type(value).__name__
        raise TypeError(f"{name} must be an int, a float or a Fraction, not {kind}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be finite.")
    exact = Fraction(value)
    if not low <= exact <= high:
        raise ValueError(f"{name} must be in [{float(low):g}, {float(high):g}].")
    return exact


def check_scales(values: Any, name: str, low: Fraction, high: Fraction) -> np.ndarray:
    """Return an array of scales as float64 when all are floats, else as exact Fractions."""
    # a list is taken as it is: numpy would round a large int among floats
    array = np.asarray(values) if hasattr(values, "dtype") else np.array(values, dtype=object)
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        out = array.astype(np.float64)
        if out.size and not bool(np.all((out >= float(low)) & (out <= float(high)))):
            raise ValueError(f"{name} must be finite and in [{float(low):g}, {float(high):g}].")
        return out
    flat = [as_rational(v, name, low, high) for v in array.ravel().tolist()]
    exact_values = np.empty(len(flat), dtype=object)
    exact_values[:] = flat
    return exact_values.reshape(array.shape)


def as_shape(size: Any) -> tuple[int, ...] | None:
    """Return `size` as a tuple of non-negative ints, or None."""
    if size is None:
        return None
    try:
        shape: tuple[int, ...] = tuple(
            operator.index(s) for s in (size if isinstance(size, (tuple, list)) else (size,))
        )
    except TypeError:
        raise TypeError("size must be None, an int or a tuple of ints.") from None
    if any(s < 0 for s in shape):
        raise ValueError("size must not be negative.")
    return shape


def as_order(value: Any, name: str, high: int) -> int:
    """Return a dimension in [1, high] as an int."""
    try:
        order = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int.") from None
    if not 1 <= order <= high:
        raise ValueError(f"{name} must be an int in [1, {high}].")
    return order


def exp_bracket(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers (lo, hi) with lo <= 2**bits * exp(-x) <= hi, for x >= 0.

    The two differ by a few units (they are equal for x = 0). Proof: y = x / 2**s <= 2**-8 is
    enclosed by fixed-point integers; exp(y) is the sum of positive terms, each rounded down in
    `lo` and up in `hi`, where the terms left out are together less than the last one kept (each is
    less than half of the one before); squaring s times and the final reciprocal round outwards.
    """
    if x < 0:
        raise ValueError("x must not be negative.")
    if x == 0:
        return 1 << bits, 1 << bits
    if 7 * x > 5 * bits:  # exp(-x) < 2**-bits, since 5/7 > ln 2
        return 0, 1
    s = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 9)
    prec = bits + s + 16
    y_lo = (x.numerator << prec) // (x.denominator << s)
    y_hi = y_lo + 1
    lo = hi = term_lo = term_hi = 1 << prec
    k = 0
    while term_hi > 1:
        k += 1
        term_lo = (term_lo * y_lo >> prec) // k
        term_hi = -((-term_hi * y_hi >> prec) // k)
        lo += term_lo
        hi += term_hi
    hi += term_hi
    for _ in range(s):
        lo = lo * lo >> prec
        hi = -(-hi * hi >> prec)
    return (1 << prec + bits) // hi, -((-1 << prec + bits) // lo)


def bits_of(entropy: Entropy, n: int) -> int:
    """Return a uniform integer in [0, 2**n)."""
    n_bytes = -(-n // 8)
    return int.from_bytes(entropy.bytes(n_bytes), "little") >> (8 * n_bytes - n)


def uniform_below(n: int, *, entropy: Entropy | None = None) -> int:
    """Return an exactly uniform integer in [0, n), for an n of any size.

    - `n`: At least 1.
    - `entropy`: None: the operating system.
    - raises ValueError: if `n` is less than 1.
    """
    if n < 1:
        raise ValueError("n must be at least 1.")
    source = resolve(entropy)
    width = (n - 1).bit_length()
    while True:  # a draw is kept with probability above 1/2
        value = bits_of(source, width) if width else 0
        if value < n:
            return value


def put(out: np.ndarray, where: np.ndarray, values: list[int]) -> np.ndarray:
    """Return `out` with out[where] = values, as Python integers if one does not fit int64.

    Noise beyond int64 has probability below exp(-1000) at the scales allowed. Wrapping it would end
    the support of the noise, and with it pure epsilon.
    """
    if out.dtype != object and any(not -(1 << 63) <= v < 1 << 63 for v in values):
        out = out.astype(object)
    out[where] = values
    return out
