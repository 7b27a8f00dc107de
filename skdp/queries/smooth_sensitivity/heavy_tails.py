"""Rounded Student noise, of which Cauchy noise is one: exactly distributed integers.

T = N_0 / sqrt((N_1**2 + ... + N_nu**2) / nu) with independent standard normal N_i has Student's
distribution with nu degrees of freedom; nu = 1 is Cauchy's. An integer plus the rounded noise is
the rounding of the ideal sum, which is post-processing: pure epsilon stays pure.

The normal deviates have unlimited precision. Values are computed in float64 with a forward error
bound, and doubtful ones again in integers with more bits.
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

__all__ = ["rounded_student_t"]

_MIN_SCALE = Fraction(1, 1 << 100)
_MAX_SCALE = Fraction(1 << 80)
_MAX_DEGREES = 1 << 10
_VALUES = 1 << 14  # deviates a float pass looks at
_GUARD = 16  # further bits of a square root of a quotient


def rounded_student_t(
    nu: int, scale: Any, size: Any = None, *, entropy: Entropy | None = None
) -> Any:
    """Draw the nearest integers to scale * T, T of Student's distribution with nu degrees.

    Guarantee: exactly distributed, given fair independent bits; Python integers if one does not fit
    int64. Scales count at their exact rational values, in [2**-100, 2**80], and are broadcast to
    `size` (None: the shape of `scale`; a scalar gives an int). nu is in [1, 1024]; no charge here.
    """
    degrees = as_order(nu, "nu", _MAX_DEGREES)
    shape = as_shape(size)
    source = resolve(entropy)
    if np.ndim(scale) == 0:
        n = 1 if shape is None else math.prod(shape)
        common = as_rational(scale, "scale", _MIN_SCALE, _MAX_SCALE)
        out = _draw(degrees, np.full(1, float(common)), [common], n, source)
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
        uncertain = []
        for start in range(0, where.size, step):
            now = where[start : start + step]
            exact_scales = [Fraction(scales[0 if len(scales) == 1 else k]) for k in now.tolist()]
            values, sure = _round_exactly(drawn, exact_scales, now, nu, bits, entropy)
            out = put(out, now[sure], values[sure].tolist())
            uncertain.append(now[~sure])
        where = np.concatenate(uncertain)
    return out


def _round(g: np.ndarray, scale: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Round scale * g_0 sqrt(nu) / ||g_1 .. g_nu|| into `out`; return which are certain.

    Error bound, with u = 2**-53, w = 2**-48 and y the computed value:
    1. the norm: relative (nu + 2) u / 2 + u, and sqrt(nu) w / norm from unknown bits;
    2. the scale, the root of nu, two products and a quotient: relative 5 u;
    3. g_0 moves by w, that is y by (scale sqrt(nu) / norm) w.
    These first-order terms are taken 1.25 times, which covers the higher orders while their sum is
    below 2**-10; others are not certain.
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

    |g_0| is in [m_0, m_0 + 1] 2**-bits, the root of the mean square of the others in [low, high]
    2**-(bits + guard). So |Z| is in [p m_0 2**guard / (q high), p (m_0 + 1) 2**guard / (q low)] for
    the scale p/q. The upper end has probability zero.
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
