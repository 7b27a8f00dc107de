"""Symmetrised Wishart noise: pure epsilon for a second-moment matrix, every entry exactly rounded.

The ideal matrix is W1 - W2 with W_i = c G_i G_i^T, G_i of shape (d, d+1) with independent standard
normal entries: W_i ~ Wishart_d(d + 1, c I).

**Privacy.** Added to a statistic of nuclear sensitivity s it is (s / (2c))-DP (second_moments.md).
The statistic has integer entries, so adding the rounded ideal matrix is rounding the ideal sum,
which is post-processing. Every rounding is certified, so pure epsilon stays pure.

**Computation.** An entry may reach 2**50 while its rounding must be right: float64 is not enough.
1. The normals are cut after F = 48, 69 or 90 bits and split in limbs of 21 bits.
2. Of limb matrices A and B with counterparts A', B', the sum A B' + B A' is (A + B)(A' + B') -
   A A' - B B': one product each instead of two. The sum of two limbs is below 2**22 (the top limb
   is below 2**20, as no deviate is beyond 2**14), so over at most 256 columns all partial sums are
   below 2**(22 + 22 + 8) = 2**52. BLAS computes such products exactly in float64, in whatever order
   it adds, with or without fused operations.
3. The limb products are joined as digits of 21 bits; the lowest are left out and bounded. Two
   float64 numbers have enough of them to round nearly every entry with certainty.
4. The digits of others are joined in Python integers: an entry is certain when both ends of its
   error interval round to the same integer.
5. The rows of other entries get more bits, which stay theirs for every entry.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise import exact
from skdp.core.noise.additive import two_product
from skdp.core.noise.deviates import BITS, draw_normal
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_order, as_rational

__all__ = [
    "symmetrized_wishart",
]

_MIN_SCALE = Fraction(1, 1 << 100)
_MAX_SCALE = Fraction(1 << 62)
_MAX_ORDER = 1 << 15
_LIMB = 21
_MASK = (1 << _LIMB) - 1
_COLUMNS = 256  # of one exact product
_ROWS = 256  # of the matrix that are computed at once
_AT_ONCE = 1 << 20  # deviates


def symmetrized_wishart(d: int, scale: Any, *, entropy: Entropy | None = None) -> np.ndarray:
    """Draw round(W1 - W2), W_i independent Wishart_d(d + 1, scale I), shape (d, d).

    Guarantee: each entry is the nearest integer to that of the ideal matrix, exactly; int64, or
    Python integers if one does not fit. `scale` counts at its exact rational value, in
    [2**-100, 2**62]. The caller charges.
    """
    c = as_rational(scale, "scale", _MIN_SCALE, _MAX_SCALE)
    d = as_order(d, "d", _MAX_ORDER)
    source = resolve(entropy)
    rows = _Rows(d, _extra_limbs(d, c), source)
    norms, error = _errors(rows)
    out = np.empty((d, d), dtype=np.int64)
    for first in range(0, d, _ROWS):
        digits = _digits(rows, first, first + _ROWS)
        values, sure = _round(digits, rows, norms, error, c, first)
        out[first:, first : first + _ROWS] = values.T
        out[first : first + _ROWS, first:] = values
        for i, j in np.argwhere(~sure).tolist():
            if i <= j:
                total = sum(int(part[i, j]) << (_LIMB * k) for k, part in digits.items())
                i, j = first + i, first + j
                value = _round_exactly(total, norms[i] + norms[j] + error, c, 2 * rows.bits)
                value = _one_entry(rows, i, j, c) if value is None else value
                if out.dtype != object and not -(1 << 63) <= value < 1 << 63:
                    out = out.astype(object)
                out[i, j] = out[j, i] = value
    return out


def _extra_limbs(d: int, c: Fraction) -> int:
    """Return how many limbs of further bits make doubtful entries rare (0, 1 or 2)."""
    for extra in (0, 1):
        # Expected doubtful entries: d**2/2 entries, error c * 3.2 (d+1) * 2**-F on each side.
        if c * 4 * d * d * (d + 1) < 1 << (BITS + _LIMB * extra):
            return extra
    return 2


class _Rows:
    """The rows of [G1, G2], shape (d, 2 (d+1)), cut after `bits` bits, and their further bits.

    `high` has the first 48 bits after the point, `low` the next 21 * extra; `longer` the rows known
    to more bits: row -> (integers, bits).
    """

    def __init__(self, d: int, extra: int, entropy: Entropy) -> None:
        n = d * 2 * (d + 1)
        drawn = draw_normal(n, entropy)
        self.entropy = entropy
        self.extra = extra
        self.bits = BITS + _LIMB * extra
        self.columns = 2 * (d + 1)
        self.longer: dict[int, tuple[list[int], int]] = {}
        high, low = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        held, shift = drawn.held, np.uint64(64 - _LIMB * extra)
        for first in range(0, n, _AT_ONCE):
            part = slice(first, min(first + _AT_ONCE, n))
            high[part] = np.ldexp(drawn.x[part], BITS)
        del drawn  # it is as large as either
        for first in range(0, n if extra else 0, _AT_ONCE):
            part = slice(first, min(first + _AT_ONCE, n))
            low[part] = entropy.words(part.stop - first) >> shift
        # Deviates of which more bits are known already: they keep those bits.
        self._known: dict[int, tuple[int, int]] = {}
        for k, (m, b) in held.items():
            while b < self.bits:
                m, b = (m << 64) | exact.bits_of(entropy, 64), b + 64
            cut = m >> (b - self.bits)
            if abs(cut >> (_LIMB * extra)) >= 1 << 62:  # |X| > 2**14: probability exp(-2**27)
                raise OverflowError("a normal deviate is beyond 2**14")
            high[k], low[k] = cut >> (_LIMB * extra), cut & ((1 << (_LIMB * extra)) - 1)
            self._known[k] = (m, b)
        self.high = high.reshape(d, -1)
        self.low = low.reshape(d, -1)

    def limb(self, a: int, part: Any) -> np.ndarray:
        """Return part of the matrix L_a, where row = sum of L_a 2**(21 a - bits), L_0 lowest."""
        above = a - self.extra
        values: np.ndarray = (
            self.low[part] >> (_LIMB * a) if above < 0 else self.high[part] >> (_LIMB * above)
        )
        return values if above == 2 else values & _MASK

    def longer_row(self, row: int, bits: int) -> list[int]:
        """Return a row cut after at least `bits` bits; bits drawn once stay."""
        values, b = self.longer.get(row, ([], 0))
        if not values:
            low = self.low[row].tolist()
            shift = _LIMB * self.extra
            values = [(h << shift) | v for h, v in zip(self.high[row].tolist(), low, strict=True)]
            b = self.bits
        while b < bits:
            fresh = self.entropy.words(self.columns).tolist()
            for k, (m, have) in self._known.items():
                if k // self.columns == row:  # bits this deviate has already shown come first
                    k -= row * self.columns
                    while have < b + 64:
                        m, have = (m << 64) | exact.bits_of(self.entropy, 64), have + 64
                    fresh[k] = (m >> (have - b - 64)) & ((1 << 64) - 1)
                    self._known[k + row * self.columns] = (m, have)
            values = [(v << 64) | w for v, w in zip(values, fresh, strict=True)]
            b += 64
            self.longer[row] = (values, b)
        return values


def _lowest(extra: int) -> int:
    """Return the lowest a + b of limb products L_a L_b that are not left out."""
    return extra + 1 + (extra == 2)


def _errors(rows: _Rows) -> tuple[list[int], int]:
    """Return what bounds the error of `_digits`, in 2**(-2 bits): of each row, and of all.

    With integer prefixes m and unknown fractions q in [0, 1), an inner product of K = 2 (d+1) terms
    (m_i + q_i)(m_j + q_j) differs from that of the prefixes by at most sum|m_i| + sum|m_j| + K.
    """
    lowest, norms = _lowest(rows.extra), []
    largest = [0] * lowest
    for first in range(0, len(rows.high), _ROWS):
        part = slice(first, first + _ROWS)
        for a in range(lowest):
            largest[a] = max(largest[a], int(np.abs(rows.limb(a, part)).max()))
        # Sum of |m|, from above: |high| + 1 <= 2**10 (|high| // 2**10 + 2), whose sums stay below
        # 2**63 for 2**20 columns.
        size = ((np.abs(rows.high[part]) >> 10) + 2).sum(axis=1)
        norms += [value << (_LIMB * rows.extra + 10) for value in size.tolist()]
    dropped = sum(
        rows.columns * largest[a] * largest[k - a] << (_LIMB * k)
        for k in range(lowest)
        for a in range(k + 1)
    )
    return norms, rows.columns + dropped


def _digits(rows: _Rows, first: int, stop: int) -> dict[int, np.ndarray]:
    """Return some rows of G1 G1^T - G2 G2^T, cut, right of the diagonal block and in it.

    They are the sum of digits_k 2**(21 k - 2 bits); all but the highest are in [0, 2**21).
    """
    top, lowest = rows.extra + 2, _lowest(rows.extra)
    d, half = len(rows.high), rows.columns // 2
    stop = min(stop, d)
    shape = (stop - first, d - first)
    digits = {k: np.zeros(shape, dtype=np.int64) for k in range(lowest, 2 * top + 1)}
    squares = np.zeros((top + 1, *shape), dtype=np.int64)
    pairs = [(a, b) for a in range(top + 1) for b in range(max(lowest - a, a + 1), top + 1)]
    product = np.empty(shape)
    for begin in range(0, rows.columns, _COLUMNS):
        span = slice(begin, min(begin + _COLUMNS, rows.columns))
        left, right = (
            [rows.limb(a, (slice(first, end), span)).astype(float) for a in range(top + 1)]
            for end in (stop, d)
        )
        for part in left:
            part[:, max(half - begin, 0) :] *= -1.0
        for a in range(top + 1):
            squares[a] += np.matmul(left[a], right[a].T, out=product).astype(np.int64)
        for a, b in pairs:
            both = right[a] + right[b]
            digits[a + b] += np.matmul(left[a] + left[b], both.T, out=product).astype(np.int64)
    for a, b in pairs:
        digits[a + b] -= squares[a] + squares[b]
    for a in range(-(-lowest // 2), top + 1):
        digits[2 * a] += squares[a]
    for k in range(lowest, 2 * top):
        digits[k + 1] += digits[k] >> _LIMB
        digits[k] &= _MASK
    return digits


def _round(
    digits: dict[int, np.ndarray],
    rows: _Rows,
    norms: list[int],
    error: int,
    c: Fraction,
    first: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest integers to c * total, in float64, and which are certain.

    total = T1 + T2, T1 of the two highest digits, so below 2**53 steps of 2**w and exact, T2 below
    one step; c = C + r, u = 2**-53, M = C 2**w. C T1 = p + e exactly (Dekker), |p| <= 2**53 M; e, C
    T2 and r T1 are at most M each. s, their sum, has an error below 2**-48 M; what is lost of c
    moves the result by less than u M; p - rint(p) is exact, and adding s and 1/2 to it loses less
    than 2**-51 (1 + 4 M): together less than 2**-44 (1 + M). Everything that `_round_exactly` does
    not know is doubtful here, too.
    """
    low, top = min(digits), max(digits)
    unit = [math.ldexp(1.0, _LIMB * k - 2 * rows.bits) for k in range(top + 1)]
    factor = float(c)
    upper = ((digits[top] << _LIMB) + digits[top - 1]) * unit[top - 1]
    lower = sum(digits[k] * unit[k] for k in range(low, top - 1))
    p, e = two_product(upper, factor)
    s = e + (factor * lower + float(c - Fraction(factor)) * upper)
    whole = np.rint(p)
    v = (p - whole) + s
    v += 0.5
    # Each row's part, as float64 above it.
    sizes = np.array([float(c * norm / 4**rows.bits) for norm in norms[first:]]) * (1 + 2**-40)
    margin = 2.0**-44 * (1.0 + factor * unit[top - 1]) + exact.SLACK
    margin += float(c * error / 4**rows.bits) * (1 + 2**-40)
    below = np.floor(v)
    gap = np.abs(v - np.rint(v))
    sure = gap > (sizes[: len(v), None] + sizes) * (1 + 2**-40) + margin
    sure &= (np.abs(digits[top]) < 1 << 31) & (np.abs(p) < 2.0**61)
    whole[~sure] = 0.0
    return whole.astype(np.int64) + np.where(sure, below, 0.0).astype(np.int64), sure


def _round_exactly(total: int, error: int, c: Fraction, bits: int) -> int | None:
    """Return the nearest integer to c * total / 2**bits, if it is certain."""
    q = c.denominator << bits
    centre = total * (2 * c.numerator) + q
    reach = error * (2 * c.numerator) + (int(exact.SLACK * q) if exact.SLACK else 0)
    low, high = (centre - reach) // (2 * q), (centre + reach) // (2 * q)
    return low if low == high else None


def _one_entry(rows: _Rows, i: int, j: int, c: Fraction) -> int:
    """Round one doubtful entry, with as many further bits of its rows as it takes."""
    bits = rows.bits + 64
    half = rows.columns // 2
    while True:
        a, b = rows.longer_row(i, bits), rows.longer_row(j, bits)
        # A row may be known to more bits: cut both at `bits`.
        a = [v >> (rows.longer[i][1] - bits) for v in a]
        b = [v >> (rows.longer[j][1] - bits) for v in b]
        products = [x * y for x, y in zip(a, b, strict=True)]
        total = sum(products[:half]) - sum(products[half:])
        error = sum(map(abs, a)) + sum(map(abs, b)) + rows.columns
        q = c.denominator << (2 * bits)
        low = (2 * c.numerator * (total - error) + q) // (2 * q)
        high = (2 * c.numerator * (total + error) + q) // (2 * q)
        if low == high:
            return low
        bits += 64
