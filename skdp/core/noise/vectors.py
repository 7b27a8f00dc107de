"""K-norm noise (pure epsilon) of the ball and of the cube: a Gamma radius times a point, rounded.

The ideal vector Z has a density proportional to exp(-||z|| / scale). Added to a statistic of
sensitivity s in that norm it is (s / scale)-DP (Hardt & Talwar 2010). In d dimensions:

- Euclidean norm: Z = scale * R * g / ||g||, R ~ Gamma(d, 1), g standard normal.
- largest coordinate: Z = scale * R * u, R ~ Gamma(d + 1, 1), u uniform in the cube [-1, 1)**d.
  (Z given R is uniform in the cube of half width scale * R, so its density at z is the integral of
  r**d exp(-r) / (d! (2 scale r)**d) over r > ||z|| / scale, which is exp(-||z|| / scale) up to a
  constant.) A coordinate has variance scale**2 (d + 1)(d + 2) / 3.

The statistic is an integer vector, so rounding the ideal sum is adding the rounded ideal noise:
post-processing. Each rounding is certified: pure epsilon stays pure.

R is a sum of standard exponentials |E_i|. Everything is evaluated in float64 with a forward
error bound, and rows with a doubtful coordinate again in integers with more bits.

References
----------
M. Hardt, K. Talwar (2010), "On the geometry of differential privacy", STOC, section 4.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise import exact
from skdp.core.noise.deviates import BITS, Deviates, draw_laplace, draw_normal, draw_uniform
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_order, as_rational, as_shape, check_scales, put

_MIN_SCALE = Fraction(1, 1 << 100)
_MAX_SCALE = Fraction(1 << 52)
_MAX_DIMENSION = 1 << 20
_ROWS = 1 << 14  # coordinates a float pass looks at


def k_norm(
    shape_d: int,
    scale: Any,
    size: int | None = None,
    *,
    cube: bool = False,
    entropy: Entropy | None = None,
) -> np.ndarray:
    """Draw rounded vectors with density proportional to exp(-norm(z) / scale).

    - `shape_d`: Dimension d of a vector.
    - `scale` of shape (size,): Scale in grid steps, at its exact rational value; in [2**-100,
      2**52]. One for all vectors, or one a vector.
    - `size`: Number of vectors; None for a single one (or as many as there are scales).
    - `cube`: The norm is that of the largest coordinate, instead of the Euclidean one.
    - `entropy`: Source of bits; None for the operating system.
    - returns int64 of shape (size, d), or (d,) when `size` is None and `scale` a scalar; Python
      integers if one does not fit (probability below exp(-1000))
    - raises TypeError, ValueError: if a scale is not a finite number in the range, `shape_d` is not
      a positive int, or the scales do not match `size`.

    **Guarantee.** Each coordinate is the nearest integer to that of the ideal vector, exactly.
    **Privacy.** Added to an integer statistic of sensitivity s in that norm, it is
    (s / scale)-DP. The caller charges.
    """
    d = as_order(shape_d, "shape_d", _MAX_DIMENSION)
    rows = as_shape(size)
    if rows is not None and len(rows) != 1:
        raise ValueError("size must be None or an int.")
    single = rows is None and np.ndim(scale) == 0
    if np.ndim(scale) == 0:
        n = 1 if rows is None else rows[0]
        scales = np.full(n, as_rational(scale, "scale", _MIN_SCALE, _MAX_SCALE), dtype=object)
    else:
        scales = check_scales(scale, "scale", _MIN_SCALE, _MAX_SCALE)
        n = scales.shape[0] if rows is None else rows[0]
        if scales.shape != (n,):
            raise ValueError("scale must be a scalar or an array of shape (size,).")
    source = resolve(entropy)
    k = d + cube  # exponentials of a radius
    points = draw_uniform(n * d, source) if cube else draw_normal(n * d, source)
    exponentials = draw_laplace(n * k, source)
    out = np.empty((n, d), dtype=np.int64)
    step = max(1, _ROWS // d)
    doubtful = [
        np.array(list(points.held), dtype=np.intp) // d,
        np.array(list(exponentials.held), dtype=np.intp) // k,
    ]
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        sure = _round_rows(
            points.x[part.start * d : part.stop * d].reshape(-1, d),
            exponentials.x[part.start * k : part.stop * k].reshape(-1, k),
            scales[part].astype(np.float64)[:, None],
            out[part],
        )
        doubtful.append(np.flatnonzero(~sure) + start)
    where = np.unique(np.concatenate(doubtful))
    bits = BITS
    while where.size:
        bits += 64
        left = []
        for start in range(0, where.size, step):
            rows_now = where[start : start + step]
            values, sure = _round_exactly(points, exponentials, scales, rows_now, d, bits, source)
            out = put(out.ravel(), _flat(rows_now[sure], d), values[sure].ravel().tolist())
            out = out.reshape(n, d)
            left.append(rows_now[~sure])
        where = np.concatenate(left)
    return out[0] if single else out


def _round_rows(g: np.ndarray, e: np.ndarray, scale: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Round scale * sum|e| * g / ||g|| into `out`; return which rows are certain.

    For the cube, which has one exponential more than coordinates, ||g|| is 1.

    Bound, with u = 2**-53, w = 2**-48, k exponentials and y the computed value: the sum of |e| has
    relative error (k-1) u and k w / sum|e| from unknown bits; ||g|| has relative error
    (d+2) u / 2 + u and sqrt(d) w / ||g|| (the norm of a difference is at least the difference of
    the norms), none for the cube; the scale, two products and a quotient 4 u; g_i itself moves by
    w, that is y by (scale sum|e| / ||g||) w. The first-order terms are taken 1.25 times, which
    covers the higher orders while their sum is below 2**-10; other rows are not certain.
    """
    d, k = g.shape[1], e.shape[1]
    with np.errstate(all="ignore"):
        total = np.abs(e).sum(axis=1, keepdims=True)
        relative = (1.5 * k + 8) * 2.0**-53 + (k * 2.0**-BITS) / total
        factor = scale * total
        if k == d:
            norm = np.sqrt((g * g).sum(axis=1, keepdims=True))
            factor = factor / norm
            relative = relative + (math.sqrt(d) * 2.0**-BITS) / norm
        y = factor * g
        error = (np.abs(y) * relative + factor * 2.0**-BITS) * 1.25 + exact.SLACK
        nearest = np.rint(y)
        fits = np.abs(y) < 2.0**62
        sure = (np.abs(y - nearest) < 0.5 - error) & fits
        out[...] = np.where(fits, nearest, 0.0)
    return sure.all(axis=1) & (relative[:, 0] < 2.0**-10)


def _round_exactly(
    points: Deviates,
    exponentials: Deviates,
    scales: np.ndarray,
    rows: np.ndarray,
    d: int,
    bits: int,
    entropy: Entropy,
) -> tuple[np.ndarray, np.ndarray]:
    """Round the given rows with prefixes of `bits` bits; return the values and which are certain.

    All in integers: |g_i| in [m, m+1], sum|E| in [r_lo, r_hi] and ||g|| in [n_lo, n_hi], in units
    of 2**-bits, so |Z_i| is in [p r_lo m / (q n_hi 2**bits), p r_hi (m+1) / (q n_lo 2**bits)].
    """
    k = exponentials.x.size // scales.size
    m = points.prefixes(_flat(rows, d), bits, entropy).reshape(-1, d)
    sign = np.where(m < 0, -1, 1).astype(object)
    m = np.where(m < 0, -m - 1, m)
    r = exponentials.prefixes(_flat(rows, k), bits, entropy).reshape(-1, k)
    r_lo = np.where(r < 0, -r - 1, r).sum(axis=1)
    r_hi = r_lo + k
    n_lo = n_hi = np.full(len(rows), 1 << bits, dtype=object)  # of the cube
    if k == d:
        n_lo = np.array([math.isqrt(s) for s in (m * m).sum(axis=1)], dtype=object)
        n_hi = np.array([math.isqrt(s) + 1 for s in ((m + 1) * (m + 1)).sum(axis=1)], dtype=object)
    exact_scales = [Fraction(s) for s in scales[rows].tolist()]
    p = np.array([s.numerator for s in exact_scales], dtype=object)
    q = np.array([s.denominator for s in exact_scales], dtype=object)
    below_lo = (q * n_hi * (1 << bits))[:, None]
    below_hi = (q * np.maximum(n_lo, 1) * (1 << bits))[:, None]
    lo = (2 * (p * r_lo)[:, None] * m + below_lo) // (2 * below_lo)
    hi = (2 * (p * r_hi)[:, None] * (m + 1) + below_hi - 1) // (2 * below_hi)
    sure = (lo == hi).all(axis=1) & (n_lo > 0)
    return lo * sign, sure.astype(bool)


def _flat(rows: np.ndarray, d: int) -> np.ndarray:
    """Return the flat positions of whole rows of an array of d columns."""
    return (rows[:, None] * d + np.arange(d)).ravel()
