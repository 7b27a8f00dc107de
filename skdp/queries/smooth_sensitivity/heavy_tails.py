"""Rounded Cauchy and Student noise: the nearest integers to scale * T, exactly distributed.

T = N_0 / sqrt((N_1**2 + ... + N_nu**2) / nu) with independent standard normal N_i has Student's
distribution with nu degrees of freedom; nu = 1 is Cauchy's. An integer statistic plus the rounded
noise is the rounding of the ideal sum, a post-processing; so pure epsilon under smooth sensitivity
stays pure (`skdp.queries.smooth_sensitivity`), however small the scale and however long the
tail.

The normal deviates are of unlimited precision (``deviates``). Everything is evaluated in float64
with a forward error bound, and what is doubtful again in integers with more bits. The tails are
heavy: at large scales a result may exceed int64 and is a Python integer then.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise import exact
from skdp.core.noise.deviates import BITS, Deviates, draw_normal
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_order, as_rational, as_shape, check_scales, put

__all__ = [
    "rounded_cauchy",
    "rounded_student_t",
]

_MIN_SCALE = Fraction(1, 1 << 100)
_MAX_SCALE = Fraction(1 << 80)
_MAX_DEGREES = 1 << 10
_VALUES = 1 << 14  # deviates a float pass looks at
_GUARD = 16  # further bits of a square root of a quotient


def rounded_cauchy(scale: Any, size: Any = None, *, entropy: Entropy | None = None) -> Any:
    """Draw the nearest integers to ideal Cauchy variables.

    Parameters
    ----------
    scale : int, float, Fraction or array of these
        Scale in grid steps, at its exact rational value; in [2**-100, 2**80]. An array is
        broadcast to `size`.
    size : int, tuple of int or None
        Shape of the result; None for the shape of `scale` (an int for a scalar).
    entropy : Entropy or None
        Source of bits; None for the operating system.

    Returns
    -------
    int or ndarray of int64 (Python integers if one does not fit)

    Raises
    ------
    TypeError, ValueError
        If a scale is not a finite number in the range, or does not broadcast to `size`.

    Notes
    -----
    **Guarantee.** Exactly distributed, given fair independent bits.
    **Privacy.** Scaled by a smooth sensitivity: `skdp.queries.cauchy_kappa`. The caller charges.

    Examples
    --------
    >>> from skdp.core.noise import SeededEntropy
    >>> rounded_cauchy([1e3, 2e3], (5, 2), entropy=SeededEntropy(0)).shape
    (5, 2)
    """
    return rounded_student_t(1, scale, size, entropy=entropy)


def rounded_student_t(
    nu: int, scale: Any, size: Any = None, *, entropy: Entropy | None = None
) -> Any:
    """Draw the nearest integers to ideal Student variables with nu degrees of freedom.

    Parameters
    ----------
    nu : int
        Degrees of freedom, in [1, 1024]; the variance is finite from 3 on.
    scale, size, entropy
        As in `rounded_cauchy`.

    Returns
    -------
    int or ndarray of int64 (Python integers if one does not fit)

    Raises
    ------
    TypeError, ValueError
        As `rounded_cauchy`; if `nu` is not an int in the range.

    Notes
    -----
    **Guarantee.** Exactly distributed, given fair independent bits.
    **Privacy.** Scaled by a smooth sensitivity: `skdp.queries.student_kappa`. The caller charges.

    Examples
    --------
    >>> from skdp.core.noise import SeededEntropy
    >>> isinstance(rounded_student_t(3, 1024.0, entropy=SeededEntropy(0)), int)
    True
    """
    degrees = as_order(nu, "nu", _MAX_DEGREES)
    shape = as_shape(size)
    source = resolve(entropy)
    if np.ndim(scale) == 0:
        n = 1 if shape is None else math.prod(shape)
        one = as_rational(scale, "scale", _MIN_SCALE, _MAX_SCALE)
        out = _draw(degrees, np.full(1, float(one)), [one], n, source)
        return int(out[0]) if shape is None else out.reshape(shape)
    scales = check_scales(scale, "scale", _MIN_SCALE, _MAX_SCALE)
    shape = scales.shape if shape is None else shape
    try:
        scales = np.broadcast_to(scales, shape).ravel()
    except ValueError:
        raise ValueError("scale must broadcast to size.") from None
    out = _draw(degrees, scales.astype(np.float64), scales, scales.size, source)
    return out.reshape(shape)


def _draw(nu: int, factor: np.ndarray, scales: Any, n: int, entropy: Entropy) -> np.ndarray:
    """Draw n values; `factor` (floats) and `scales` (exact) have length n, or 1 for all."""
    width = nu + 1
    drawn = draw_normal(n * width, entropy)
    out = np.empty(n, dtype=np.int64)
    step = max(1, _VALUES // width)
    doubtful = [np.array(sorted({k // width for k in drawn.held}), dtype=np.intp)]
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        g = drawn.x[part.start * width : part.stop * width].reshape(-1, width)
        sure = _round(g, factor if len(factor) == 1 else factor[part], out[part])
        doubtful.append(np.flatnonzero(~sure) + start)
    where = np.unique(np.concatenate(doubtful))
    bits = BITS
    while where.size:
        bits += 64
        left = []
        for start in range(0, where.size, step):
            now = where[start : start + step]
            exact_scales = [Fraction(scales[0 if len(scales) == 1 else k]) for k in now.tolist()]
            values, sure = _round_exactly(drawn, exact_scales, now, nu, bits, entropy)
            out = put(out, now[sure], values[sure].tolist())
            left.append(now[~sure])
        where = np.concatenate(left)
    return out


def _round(g: np.ndarray, scale: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Round scale * g_0 sqrt(nu) / ||g_1 .. g_nu|| into `out`; return which are certain.

    Bound, with u = 2**-53, w = 2**-48 and y the computed value: the norm has relative error
    (nu + 2) u / 2 + u, and sqrt(nu) w / norm from unknown bits (the norm of a difference is at
    least the difference of the norms); the scale, the root of nu, two products and a quotient 5 u;
    g_0 itself moves by w, that is y by (scale sqrt(nu) / norm) w. The first-order terms are taken
    1.25 times, which covers the higher orders while their sum is below 2**-10; others are not
    certain.
    """
    nu = g.shape[1] - 1
    with np.errstate(all="ignore"):
        norm = np.sqrt((g[:, 1:] * g[:, 1:]).sum(axis=1))
        factor = scale * math.sqrt(nu) / norm
        y = factor * g[:, 0]
        relative = (1.5 * nu + 8) * 2.0**-53 + math.sqrt(nu) * 2.0**-BITS / norm
        error = (np.abs(y) * relative + factor * 2.0**-BITS) * 1.25 + exact.SLACK
        nearest = np.rint(y)
        fits = np.abs(y) < 2.0**62  # False for NaN too
        sure = (np.abs(y - nearest) < 0.5 - error) & fits & (relative < 2.0**-10)
        out[...] = np.where(fits, nearest, 0.0)
    return np.asarray(sure)


def _round_exactly(
    drawn: Deviates,
    scales: list[Fraction],
    where: np.ndarray,
    nu: int,
    bits: int,
    entropy: Entropy,
) -> tuple[np.ndarray, np.ndarray]:
    """Round the values `where` with prefixes of `bits` bits; return them and which are certain.

    All in integers: |g_0| in [m_0, m_0 + 1] 2**-bits, the root of the mean square of the others in
    [low, high] 2**-(bits + guard), so |Z| is in [p m_0 2**guard / (q high),
    p (m_0 + 1) 2**guard / (q low)] for the scale p/q. The upper end has probability zero.
    """
    width = nu + 1
    flat = (where[:, None] * width + np.arange(width)).ravel()
    m = drawn.prefixes(flat, bits, entropy).reshape(-1, width)
    values = np.empty(where.size, dtype=object)
    sure = np.zeros(where.size, dtype=bool)
    for i, (row, scale) in enumerate(zip(m.tolist(), scales, strict=True)):
        size = [v if v >= 0 else -v - 1 for v in row]
        low = math.isqrt((sum(v * v for v in size[1:]) << 2 * _GUARD) // nu)
        high = math.isqrt((sum((v + 1) ** 2 for v in size[1:]) << 2 * _GUARD) // nu + 1) + 1
        p, q = scale.numerator << _GUARD, scale.denominator
        least = (2 * p * size[0] + q * high) // (2 * q * high)
        values[i] = least if row[0] >= 0 else -least
        if low:
            sure[i] = least == (2 * p * (size[0] + 1) + q * low - 1) // (2 * q * low)
    return values, sure
