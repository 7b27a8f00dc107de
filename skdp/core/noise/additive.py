"""Independent noise on integers: discrete Laplace and rounded Gaussian, exactly distributed.

Released by nobody here: a mechanism adds the noise to an exact integer statistic.

*Discrete Laplace* of scale t = sensitivity / epsilon: P(K = k) = (1 - q) / (1 + q) * q**|k|,
q = exp(-1/t), the two-sided geometric distribution [1]_; the sum is epsilon-DP. Let X be a standard
Laplace deviate: floor(t |X|) = k has probability q**k (1 - q). Draw K = trunc(t X), and draw again
when X < 0 and K = 0: then K = k > 0 and K = -k < 0 have weights (1 - q) q**|k| / 2 each, and K = 0
has weight (1 - q) / 2: the distribution above up to a factor. A draw is rejected with probability
(1 - q) / 2 = about 1 / (2 t).

*Rounded Gaussian*: the nearest integer to an ideal N(0, sigma**2), P(K = k) = Phi((k + 1/2) /
sigma) - Phi((k - 1/2) / sigma). For an integer statistic f, f + K is the rounding of
f + N(0, sigma**2): post-processing of the ideal Gaussian mechanism. So the analytic calibration
[2]_ and Gaussian differential privacy [3]_ hold exactly, in any dimension.

Both are a certified rounding (`round_scaled`) of a scale times an ideal deviate.

References
----------
.. [1] A. Ghosh, T. Roughgarden, M. Sundararajan (2012), "Universally utility-maximizing privacy
   mechanisms", SIAM J. Comput. 41(6).
.. [2] B. Balle, Y.-X. Wang (2018), "Improving the Gaussian mechanism for differential privacy",
   ICML, Theorem 8.
.. [3] J. Dong, A. Roth, W. J. Su (2022), "Gaussian differential privacy", JRSS B 84(1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise import exact
from skdp.core.noise.deviates import BITS, LIMIT, Deviates, draw_laplace, draw_normal
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_rational, as_shape, check_scales, put

# Of a scale, in grid steps: what `round_scaled` has bounds for.
_LEAST, _LARGEST = Fraction(1, 1 << 100), Fraction(1 << 52)


def discrete_laplace(
    scale: int | float | Fraction, size: Any = None, *, entropy: Entropy | None = None
) -> Any:
    """Draw exact discrete Laplace noise, P(k) proportional to exp(-abs(k) / scale).

    - `scale`: Scale in grid steps, taken at its exact rational value; in [2**-100, 2**52].
    - `size`: Shape of the result; None for a single int.
    - `entropy`: Source of bits; None for the operating system.
    - raises TypeError, ValueError: if `scale` is not a finite number in the range, or `size` is no
      shape.

    **Guarantee.** Exactly distributed for every rational scale, given fair independent bits.
    **Privacy.** Added to an integer statistic of L1 sensitivity s, it is (s / scale)-DP. The
    caller charges.
    """
    t = as_rational(scale, "scale", _LEAST, _LARGEST)
    shape = as_shape(size)
    source = resolve(entropy)
    n = 1 if shape is None else math.prod(shape)
    out = np.empty(n, dtype=np.int64)
    todo: np.ndarray | None = None
    while todo is None or todo.size:
        drawn = draw_laplace(n if todo is None else todo.size, source)
        values = round_scaled(drawn, t, False, source)
        zero = np.flatnonzero(values == 0)
        again = zero[_negative(drawn, zero)]
        if todo is None:
            out, todo = values, again
        else:
            out = out.astype(object) if values.dtype == object else out
            out[todo] = values
            todo = todo[again]
    return int(out[0]) if shape is None else out.reshape(shape)


def _negative(drawn: Deviates, where: np.ndarray) -> np.ndarray:
    """Whether the deviates at `where` are negative (their prefixes tell)."""
    out = drawn.x[where] < 0
    if drawn.held:
        for i, k in enumerate(where.tolist()):
            if k in drawn.held:
                out[i] = drawn.held[k][0] < 0
    return out


def rounded_gaussian(sigma: Any, size: Any = None, *, entropy: Entropy | None = None) -> Any:
    """Draw the nearest integers to ideal Gaussian variables.

    - `sigma`: Standard deviation in grid steps, at its exact rational value; in [2**-100, 2**52].
      An array is broadcast to `size`.
    - `size`: Shape of the result; None for the shape of `sigma` (an int for a scalar).
    - `entropy`: Source of bits; None for the operating system.
    - raises TypeError, ValueError: if a sigma is not a finite number in the range, or does not
      broadcast to `size`.

    **Guarantee.** Exactly distributed, given fair independent bits.
    **Privacy.** Added to an integer statistic of L2 sensitivity s, it is (s / sigma)-GDP. The
    caller charges.
    """
    shape = as_shape(size)
    source = resolve(entropy)
    if np.ndim(sigma) == 0:
        exact_sigma = as_rational(sigma, "sigma", _LEAST, _LARGEST)
        n = 1 if shape is None else math.prod(shape)
        out = round_scaled(draw_normal(n, source), exact_sigma, True, source)
        return int(out[0]) if shape is None else out.reshape(shape)
    sigmas = check_scales(sigma, "sigma", _LEAST, _LARGEST)
    if shape is None:
        shape = sigmas.shape
    try:
        sigmas = np.broadcast_to(sigmas, shape)
    except ValueError:
        raise ValueError("sigma must broadcast to size.") from None
    n = math.prod(shape)
    return round_scaled(draw_normal(n, source), sigmas.ravel(), True, source).reshape(shape)


# --- certified rounding -------------------------------------------------------------------------

_BLOCK = 1 << 14
_SPLIT = 134217729.0  # 2**27 + 1, Veltkamp


def round_scaled(
    drawn: Deviates, t: Fraction | np.ndarray, nearest: bool, entropy: Entropy
) -> np.ndarray:
    """Return sign(X) * floor(t |X| + h) for every deviate X, with h = 1/2 if `nearest`, else 0.

    - `drawn`: Consumed: its further bits are used up.
    - `t` of shape (n,): One scale, or one a deviate (float64, or object with Fractions), in
      [2**-100, 2**52].
    - `nearest`: Nearest integer, or truncation towards zero.
    - `entropy`: Source of the further bits.
    - returns of shape (n,): Python integers (object) if one does not fit, which has probability
      below exp(-2000).

    X is an ideal deviate of which a prefix is known (see ``deviates``), t an exact rational. The
    result is the one integer that belongs to the ideal real number t X, always; how it is found:

    1. float64 with an error bound, for all;
    2. float64 in two parts (error-free product) with 64 more bits of X, for the doubtful;
    3. integers with ever more bits, for what is left (about one in 2**40) and for huge deviates.

    Bounds, with u = 2**-53 and T = fl(t), so |t - T| <= u T:

    *Stage 1.* |x| < LIMIT = 16 and y = fl(T x). |y - T x| <= u |T x|, |T x - t x| <= u T |x|, and
    the unknown bits move t X by less than t 2**-48. Together below T (16 * 2.01 u + 2**-48), which
    ``error`` exceeds. y - rint(y) is exact (a multiple of y's unit, at most 1/2). So if y is
    further than ``error`` from the set where the result jumps (integers, or half-integers), the
    result at y is the result at t X.

    *Stage 2.* Write |X| = x + w 2**-112 + (less than 2**-112) with x now the prefix of |X| and w
    the next 64 bits. Dekker's product gives p + e = T x without error (no overflow or underflow: T
    in [2**-100, 2**52], x = 0 or in [2**-48, 16)). With r = fl(t - T), computed from rationals, s =
    fl(e + fl(T w 2**-112 + r x)) has |s| <= T 2**-47 and differs from t |X| - p by less than 8 u (T
    2**-47) + T 2**-112; f = p - rint(p) is exact, and v = fl(f + s) and v + 1/2 lose less than 2 u
    (1 + |s|). So the total error is below 2**-51 + T 2**-95; we use 2**-44 (1 + T 2**-46). The
    result is rint(p) + floor(v), or rint(p) + floor(v + 1/2), when that is further from an integer.
    """
    scales = t if isinstance(t, np.ndarray) else None
    factor: Any = float(t) if scales is None else scales.astype(np.float64)
    error = factor * (LIMIT * 2.01 * 2.0**-53 + 2.0**-BITS) * 1.001 + (exact.SLACK + 2.0**-52)
    limit = 0.5 - error if nearest else error
    out = np.empty(drawn.x.size, dtype=np.int64)
    doubtful = []
    for start in range(0, out.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        y = drawn.x[part] * (factor if scales is None else factor[part])
        whole = np.rint(y)
        gap = y - whole
        np.abs(gap, out=gap)
        bound = limit if scales is None else limit[part]
        if nearest:
            out[part] = whole
            jump = gap >= bound
        else:
            out[part] = y  # the conversion truncates
            jump = gap <= bound
        doubtful.append(np.flatnonzero(jump) + start)
    where = np.concatenate(doubtful) if doubtful else np.empty(0, np.intp)
    longer = np.array(sorted(drawn.held), dtype=np.intp)  # x may not tell: stage 3
    if longer.size:
        where = np.setdiff1d(where, longer)
    if where.size:
        where = _second(drawn, t, where, nearest, entropy, out)
    where = np.concatenate([where, longer])
    bits = BITS + 64
    while where.size:
        values, sure = _third(drawn, t, where, bits, nearest, entropy)
        out = put(out, where[sure], values[sure].tolist())
        where = where[~sure]
        bits += 64
    return out


def _second(
    drawn: Deviates,
    t: Fraction | np.ndarray,
    where: np.ndarray,
    nearest: bool,
    entropy: Entropy,
    out: np.ndarray,
) -> np.ndarray:
    """Stage 2, into `out`; returns what is still doubtful, with its bits held."""
    factor: Any
    rest: Any
    if isinstance(t, Fraction):
        factor = float(t)
        rest = float(t - Fraction(factor))
    elif t.dtype == object:
        factor = t[where].astype(np.float64)
        rest = np.array([float(a - Fraction(b)) for a, b in zip(t[where], factor, strict=True)])
    else:
        factor, rest = t[where], 0.0
    x = drawn.x[where]
    words = entropy.words(where.size)
    sign = np.where(x < 0, -1, 1)
    flip = x < 0  # |X| is in (|x| - 2**-48, |x|]: prefix |x| - 2**-48, and the bits inverted
    ax = np.abs(x) - flip * 2.0**-BITS
    fraction = np.where(flip, ~words, words) * 2.0**-112
    p, e = two_product(ax, factor)
    s = e + (factor * fraction + rest * ax)
    whole = np.rint(p)
    v = (p - whole) + s
    if nearest:
        v += 0.5
    below = np.floor(v)
    gap = np.abs(v - np.rint(v))
    sure = gap > 2.0**-44 * (1.0 + factor * 2.0**-46) + exact.SLACK
    out[where] = sign * (whole.astype(np.int64) + below.astype(np.int64))
    if sure.all():
        return np.empty(0, np.intp)
    left = where[~sure]
    m = np.ldexp(drawn.x[left], BITS).astype(np.int64).tolist()
    for k, high, low in zip(left.tolist(), m, words[~sure].tolist(), strict=True):
        drawn.held[k] = ((high << 64) | low, BITS + 64)
    return left


def two_product(a: np.ndarray, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return (p, e) with p = fl(a b) and p + e = a b exactly (Dekker 1971)."""
    p = a * b
    c = _SPLIT * a
    a_hi = c - (c - a)
    a_lo = a - a_hi
    c = _SPLIT * b
    b_hi = c - (c - b)
    b_lo = b - b_hi
    return p, a_lo * b_lo - (((p - a_hi * b_hi) - a_lo * b_hi) - a_hi * b_lo)


def _third(
    drawn: Deviates,
    t: Fraction | np.ndarray,
    where: np.ndarray,
    bits: int,
    nearest: bool,
    entropy: Entropy,
) -> tuple[np.ndarray, np.ndarray]:
    """Stage 3 in integers: signed values, and where both ends of the interval agree."""
    m = drawn.prefixes(where, bits, entropy)
    sign = np.where(m < 0, -1, 1).astype(object)
    m = np.where(m < 0, -m - 1, m)  # |X| is in [m, m + 1] * 2**-bits
    exact_t = [t] * where.size if isinstance(t, Fraction) else [Fraction(s) for s in t[where]]
    p = np.array([s.numerator for s in exact_t], dtype=object)
    q = np.array([s.denominator << bits for s in exact_t], dtype=object)
    half = q if nearest else 0 * q
    low = (2 * m * p + half) // (2 * q)
    high = (2 * (m + 1) * p + half - 1) // (2 * q)  # the upper end itself has probability zero
    return low * sign, (low == high).astype(bool)
