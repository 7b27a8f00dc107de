"""Rounded Gaussian noise: the nearest integer to an ideal N(0, sigma**2), exactly distributed.

P(K = k) = Phi((k + 1/2) / sigma) - Phi((k - 1/2) / sigma). For an integer statistic f, f + K is the
rounding of f + N(0, sigma**2): post-processing of the ideal Gaussian mechanism. So the analytic
calibration (Balle & Wang 2018) and Gaussian differential privacy hold exactly, in any dimension.

Method: a certified rounding of sigma times a normal deviate: a float64 product with an error
bound, and integers with more bits of the deviate where the product is too near to a half.

References
----------
B. Balle, Y.-X. Wang (2018), "Improving the Gaussian mechanism for differential privacy", ICML,
Theorem 8. J. Dong, A. Roth, W. J. Su (2022), "Gaussian differential privacy", JRSS B 84(1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from . import exact
from .deviates import BITS, LIMIT, Deviates, draw_normal
from .entropy import Entropy, resolve
from .exact import as_rational, as_shape, wrap_int64

__all__ = ["rounded_gaussian"]

_MIN_SIGMA = Fraction(1, 1 << 100)
_MAX_SIGMA = Fraction(1 << 52)
_BLOCK = 1 << 14


def rounded_gaussian(sigma: Any, size: Any = None, *, entropy: Entropy | None = None) -> Any:
    """Draw the nearest integers to ideal Gaussian variables.

    Parameters
    ----------
    sigma : int, float, Fraction or array of float
        Standard deviation in grid steps, at its exact rational value; in [2**-100, 2**52]. An
        array is broadcast to `size`.
    size : int, tuple of int or None
        Shape of the result; None for the shape of `sigma` (an int for a scalar).
    entropy : Entropy or None
        Source of bits; None for the operating system.

    Returns
    -------
    int or ndarray of int64

    Raises
    ------
    TypeError, ValueError
        If a sigma is not a finite number in the range, or does not broadcast to `size`.

    Notes
    -----
    **Guarantee.** Exactly distributed, given fair independent bits.
    **Privacy.** Added to an integer statistic of L2 sensitivity s, it is (s / sigma)-GDP. The
    caller charges.

    Examples
    --------
    >>> from skdp.kernel.sampling import SeededEntropy, rounded_gaussian
    >>> rounded_gaussian([1e3, 2e3], (5, 2), entropy=SeededEntropy(0)).shape
    (5, 2)
    """
    shape = as_shape(size)
    source = resolve(entropy)
    if np.ndim(sigma) == 0:
        exact_sigma = as_rational(sigma, "sigma", _MIN_SIGMA, _MAX_SIGMA)
        n = 1 if shape is None else math.prod(shape)
        out = rounded(draw_normal(n, source), exact_sigma, source)
        return int(out[0]) if shape is None else out.reshape(shape)
    sigmas = check_scales(sigma, "sigma", _MIN_SIGMA, _MAX_SIGMA)
    if shape is None:
        shape = sigmas.shape
    try:
        sigmas = np.broadcast_to(sigmas, shape)
    except ValueError:
        raise ValueError("sigma must broadcast to size.") from None
    n = math.prod(shape)
    return rounded(draw_normal(n, source), sigmas.ravel(), source).reshape(shape)


def check_scales(values: Any, name: str, low: Fraction, high: Fraction) -> np.ndarray:
    """Return an array of scales as float64 when all are floats, else as exact Fractions."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        out = array.astype(np.float64)
        if out.size and not bool(np.all((out >= float(low)) & (out <= float(high)))):
            raise ValueError(
                f"{name} must be finite and in [{float(low):g}, {float(high):g}] grid steps."
            )
        return out
    flat = [as_rational(v, name, low, high) for v in array.ravel().tolist()]
    exact_values = np.empty(len(flat), dtype=object)
    exact_values[:] = flat
    return exact_values.reshape(array.shape)


def rounded(drawn: Deviates, sigma: Fraction | np.ndarray, entropy: Entropy) -> np.ndarray:
    """Return the nearest integer to sigma X for every ideal deviate X, certified.

    Filter. y = fl(fl(sigma) x) differs from sigma X by less than sigma (LIMIT * 2.01 * 2**-53 +
    2**-48): two roundings of relative size 2**-53 and the unknown bits of X; y - rint(y) is exact.
    If y is further than that from every half-integer, rint(y) is the nearest integer to sigma X.
    """
    scalar = isinstance(sigma, Fraction)
    factor = float(sigma) if scalar else sigma.astype(np.float64)
    error = factor * ((LIMIT * 2.0**-51 + 2.0**-BITS) * 1.01)
    limit = 0.5 - error - exact.SLACK - 2.0**-50
    out = np.empty(drawn.x.size, dtype=np.int64)
    doubtful = [np.array(sorted(drawn.held), dtype=np.intp)]
    for start in range(0, out.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        y = drawn.x[part] * (factor if scalar else factor[part])
        nearest = np.rint(y)
        y -= nearest
        np.abs(y, out=y)
        doubtful.append(np.flatnonzero(y >= (limit if scalar else limit[part])) + start)
        out[part] = nearest
    where = np.unique(np.concatenate(doubtful))
    bits = BITS
    while where.size:
        bits += 64
        m = drawn.prefixes(where, bits, entropy)
        sign = np.where(m < 0, -1, 1).astype(object)
        m = np.where(m < 0, -m - 1, m)  # |X| is in [m, m + 1] * 2**-bits
        if scalar:
            p, q = sigma.numerator, sigma.denominator
        else:
            exact_sigma = [Fraction(s) for s in sigma[where].tolist()]
            p = np.array([s.numerator for s in exact_sigma], dtype=object)
            q = np.array([s.denominator for s in exact_sigma], dtype=object)
        half = q * (1 << bits)
        lo = (m * p * 2 + half) // (half * 2)
        hi = ((m + 1) * p * 2 + half - 1) // (half * 2)
        sure = lo == hi
        out[where[sure]] = [wrap_int64(v) for v in (lo * sign)[sure].tolist()]
        where = where[~sure]
    return out
