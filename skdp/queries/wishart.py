"""Symmetrised Wishart noise: pure epsilon for a second-moment matrix, every entry exactly rounded.

The ideal matrix is W1 - W2 with W_i = c G_i G_i^T, G_i of shape (d, d+1) with independent standard
normal entries: W_i ~ Wishart_d(d + 1, c I).

**Privacy.** Added to a statistic of nuclear sensitivity s it is (s / (2c))-DP (second_moments.md).
The statistic has integer entries, so adding the rounded ideal matrix is rounding the ideal sum,
which is post-processing. Every rounding is certified, so pure epsilon stays pure.

**Computation.** An entry may reach 2**50 while its rounding must be right: float64 is not enough.
1. The normals are cut after F = 48, 69 or 90 bits and split in limbs of 21 bits.
2. The product of two limb matrices over at most 1024 columns has all partial sums below
   2**(21 + 21 + 10) = 2**52 (the top limb is below 2**20, as no deviate is beyond 2**14). So BLAS
   computes it exactly in float64, in whatever order it adds, with or without fused operations.
3. The limb products are joined in Python integers; the lowest are left out and bounded. An entry is
   certain when both ends of its error interval round to the same integer.
4. The rows of other entries get more bits, which stay theirs for every entry.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise import exact
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
_COLUMNS = 1024  # of one exact product


def symmetrized_wishart(d: int, scale: Any, *, entropy: Entropy | None = None) -> np.ndarray:
    """Draw round(W1 - W2), W_i independent Wishart_d(d + 1, scale I), shape (d, d).

    Guarantee: each entry is the nearest integer to that of the ideal matrix, exactly; int64, or
    Python integers if one does not fit. `scale` counts at its exact rational value, in
    [2**-100, 2**62]. The caller charges.
    """
    c = as_rational(scale, "scale", _MIN_SCALE, _MAX_SCALE)
    d = as_order(d, "d", _MAX_ORDER)
    source = resolve(entropy)
    extra = _extra_limbs(d, c)
    rows = _Rows(d, extra, source)
    i, j = np.triu_indices(d)
    total, error = _products(rows, i, j)
    values, sure = _round(total, error, c, 2 * rows.bits)
    for e in np.flatnonzero(~sure).tolist():
        values[e] = _one_entry(rows, int(i[e]), int(j[e]), c)
    out = np.empty((d, d), dtype=object)
    out[i, j] = out[j, i] = values
    fits = all(-(1 << 63) <= v < 1 << 63 for v in values.tolist())
    return out.astype(np.int64) if fits else out


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
        high = np.ldexp(drawn.x, BITS).astype(np.int64)
        low = np.zeros(n, dtype=np.int64)
        if extra:
            shift = np.uint64(64 - _LIMB * extra)
            low = (entropy.words(n) >> shift).view(np.int64)
        # Deviates of which more bits are known already: they keep those bits.
        self._known: dict[int, tuple[int, int]] = {}
        for k, (m, b) in drawn.held.items():
            while b < self.bits:
                m, b = (m << 64) | exact.bits_of(entropy, 64), b + 64
            cut = m >> (b - self.bits)
            if abs(cut >> (_LIMB * extra)) >= 1 << 62:  # |X| > 2**14: probability exp(-2**27)
                raise OverflowError("a normal deviate is beyond 2**14")
            high[k], low[k] = cut >> (_LIMB * extra), cut & ((1 << (_LIMB * extra)) - 1)
            self._known[k] = (m, b)
        self.high = high.reshape(d, -1)
        self.low = low.reshape(d, -1)

    def limbs(self) -> list[np.ndarray]:
        """Return float64 matrices L_0 (lowest), ..., with row = sum of L_a 2**(21 a - bits)."""
        parts = [(self.low >> (_LIMB * a)) & _MASK for a in range(self.extra)]
        parts += [self.high & _MASK, (self.high >> _LIMB) & _MASK, self.high >> (2 * _LIMB)]
        return [p.astype(np.float64) for p in parts]

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


def _products(rows: _Rows, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (total, error): entries of G1 G1^T - G2 G2^T are within `error`, in 2**(-2 bits).

    With integer prefixes m and unknown fractions q in [0, 1), an inner product of K = 2 (d+1) terms
    (m_i + q_i)(m_j + q_j) differs from that of the prefixes by at most sum|m_i| + sum|m_j| + K.
    """
    limbs = rows.limbs()
    top = len(limbs) - 1
    largest = [float(np.abs(part).max()) for part in limbs]
    half = rows.columns // 2
    spans = [(1.0, 0, half), (-1.0, half, rows.columns)]
    lowest = rows.extra + 1 + (rows.extra == 2)  # limb products below are left out
    total = np.zeros(i.size, dtype=object)
    dropped = 0
    for k in range(2 * top, -1, -1):
        pairs = [(a, k - a) for a in range(max(0, k - top), min(top, k) + 1)]
        if k < lowest:
            size = sum(int(largest[a]) * int(largest[b]) for a, b in pairs)
            dropped += rows.columns * size << (_LIMB * k)
            continue
        part = np.zeros(i.size, dtype=np.int64)
        for a, b in pairs:
            if a > b:
                continue
            for sign, begin, end in spans:
                for start in range(begin, end, _COLUMNS):
                    stop = min(start + _COLUMNS, end)
                    product = limbs[a][:, start:stop] @ limbs[b][:, start:stop].T
                    terms = product[i, j] if a == b else product[i, j] + product[j, i]
                    part += (sign * terms).astype(np.int64)
        total += part.astype(object) << (_LIMB * k)
    # Sum of |m| over a row, from above: |high| + 1 <= 2**10 (|high| // 2**10 + 2), whose sums stay
    # below 2**63 for 2**20 columns.
    norm = ((np.abs(rows.high) >> 10) + 2).sum(axis=1).astype(object) << (_LIMB * rows.extra + 10)
    return total, norm[i] + norm[j] + (rows.columns + dropped)


def _round(
    total: np.ndarray, error: np.ndarray, c: Fraction, bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest integers to c * total / 2**bits and which are certain."""
    q = c.denominator << bits
    slack = int(exact.SLACK * q) if exact.SLACK else 0
    centre = total * (2 * c.numerator) + q
    reach = error * (2 * c.numerator) + slack
    low = (centre - reach) // (2 * q)
    high = (centre + reach) // (2 * q)
    return low, (low == high).astype(bool)


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
