"""The second moment ("Gram matrix") of clipped rows, and the symmetric noise that it gets.

Released: the sum of (x - c)(x - c)' over the rows, with their sum and number, as one matrix.
Guarantee: exact integers; one row's change is bounded in Frobenius norm (Gaussian noise), nuclear
norm (symmetrised Wishart noise) and L1 on the upper triangle (discrete Laplace noise). Proofs:
second_moments.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import GRID_BITS, NORM_BITS, Ball, Floats, ScaledBox, View, isqrt_up
from skdp.core.mechanisms import (
    after_shortening,
    coarse_bits,
    l1,
    l2,
    laplace_std,
    lengthened,
    shortened,
    sigma_up,
)
from skdp.core.noise import exact
from skdp.core.noise.additive import two_product
from skdp.core.noise.deviates import BITS, draw_normal
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_order, as_rational
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import Noisy, Query, Terms, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable, Rows, as_total, fold, total_dtype
from skdp.exceptions import PrivacyLeakError
from skdp.loss.conversions import pure_epsilon_from_mu

# --- exact second moments -----------------------------------------------------------------------

_FEW_ROWS = 1024  # with fewer rows a product, products of several are made at a time
_GRAM_BITS = 24  # of integers whose products are added up over few rows; longer ones are split


def exact_gram(rows: Rows, view: View) -> tuple[NDArray, NDArray, int]:
    """Return (sum of q q', sum of q, n), exactly; as Python integers where int64 may be too short.

    BLAS multiplies integers exactly while the sum over r rows of b bits, r 2**(2b), is at most
    2**53. Integers of more than 24 bits are split: q = 2**15 high + low.
    """
    d = view.n_dims
    bits = int(view.half.max(initial=0.0)).bit_length()
    long = bits > _GRAM_BITS
    # Products of so many rows are exact in float64, and in int64.
    float_rows, int_rows = (2 ** min(max(room - 2 * bits, 0), 16) for room in (53, 62))
    dtype = total_dtype(rows, 2**32 if long else 4**bits)

    def add(chunk: Floats, totals: list[NDArray]) -> None:
        q = view.map(chunk)
        totals[0] += as_total(np.ones(len(q)) @ q, dtype)
        if long:
            high = q * 2.0**-15
            np.floor(high, out=high)
            q -= high * 2.0**15
            for k, (a, b) in enumerate(((high, high), (high, q), (q, q))):
                _add(a.T @ b, totals[1][k])
            return
        few = min(float_rows, len(q))
        if few >= _FEW_ROWS:
            for start in range(0, len(q), few):
                part = q[start : start + few]
                _add(part.T @ part, totals[1][0])
            return
        for start in range(0, len(q), int_rows):
            part = q[start : start + int_rows]
            stacked = len(part) - len(part) % few
            total = (part[stacked:].T @ part[stacked:]).astype(np.int64)
            if stacked:
                stack = part[:stacked].reshape(-1, few, d)
                total += (stack.transpose(0, 2, 1) @ stack).astype(np.int64).sum(axis=0)
            totals[1][0] += total.astype(dtype)

    def fresh() -> list[NDArray]:
        return [np.zeros(d, dtype=dtype), np.zeros((3 if long else 1, d, d), dtype=dtype)]

    # Every chunk adds a matrix of products: it should have more rows than that costs.
    first, products = fold(rows, add, fresh, least=4 * d)
    if not long:
        return products[0], first, rows._n
    high, cross, low = products.astype(object)
    return (high << 30) + ((cross + cross.T) << 15) + low, first.astype(object), rows._n


def _add(products: Floats, total: NDArray) -> None:
    """Add exact products to a total in place, some rows at a time: wide ones are large."""
    step = max(2**17 // len(total), 1)
    for first in range(0, len(total), step):
        rows = slice(first, first + step)
        total[rows] += products[rows].astype(np.int64)


def gram_sensitivity(norm: int, tau: int, n_dims: int, adjacency: str, geometry: str) -> int:
    """Return the sensitivity of the Gram matrix of z = (q, tau), ||q|| <= norm, in steps squared.

    The table of second_moments.md, for one of "frobenius", "nuclear" and "upper_l1".
    """
    if tau > norm:
        raise ValueError("tau must not exceed the norm bound")
    gamma2 = norm**2 + tau**2
    dims = n_dims + (tau > 0)
    replace = adjacency == REPLACE_ONE
    if geometry == "frobenius":
        return isqrt_up(2 * gamma2**2) if replace else gamma2
    if geometry == "nuclear":
        return 2 * gamma2 if replace else gamma2
    if geometry == "upper_l1":
        if not replace:
            return -(-(dims + 1) * gamma2 // 2)
        twice = dims**2 + 3 * dims - 4 * (tau > 0)
        return isqrt_up(-(-twice * gamma2**2 // 2))
    raise ValueError(f"unknown geometry {geometry!r}")


# --- symmetric noise ----------------------------------------------------------------------------


def nuclear(a: NDArray, b: NDArray) -> float:
    """Return the nuclear norm of the difference of two symmetric integer matrices."""
    difference = np.asarray(a, dtype=object) - np.asarray(b, dtype=object)
    return float(np.abs(np.linalg.eigvalsh(difference.astype(np.float64))).sum())


def upper_l1(a: NDArray, b: NDArray) -> float:
    """Return the L1 distance of the upper triangles of two symmetric integer matrices."""
    keep = np.triu_indices(len(a))
    return l1(np.asarray(a)[keep], np.asarray(b)[keep])


def _symmetric(values: NDArray, dims: int) -> NDArray:
    """Fill a symmetric matrix from its upper triangle, row by row; its indices take as much."""
    matrix = np.empty((dims, dims), dtype=values.dtype)
    start = 0
    for i in range(dims):
        row = values[start : start + dims - i]
        matrix[i, i:] = matrix[i:, i] = row
        start += dims - i
    return matrix


@reviewed
@dataclass(frozen=True)
class Symmetric:
    """Bounds on three norms of a change, in steps squared; symmetric noise of the kind `noise`.

    * `"gaussian"`: isotropic in Frobenius norm (half the variance off the diagonal);
    * `"wishart"`: W1 - W2, W_i ~ Wishart_D(D + 1, c I), c = nuclear sensitivity / (2 epsilon);
    * `"laplace"`: independent on the upper triangle, whose L1 norm is `upper_l1`.
    """

    frobenius: int
    nuclear: int
    upper_l1: int
    noise: str

    @classmethod
    def of(cls, norm: int, tau: int, n_dims: int, relation: str, noise: str) -> Symmetric:
        """Return the sensitivity of a second moment of rows: that of `gram_sensitivity`."""
        frobenius, nuclear, upper = (
            gram_sensitivity(norm, tau, n_dims, relation, geometry)
            for geometry in ("frobenius", "nuclear", "upper_l1")
        )
        return cls(frobenius, nuclear, upper, noise)

    def times(self, k: int) -> Symmetric:
        """Return the bounds for k rows."""
        return Symmetric(k * self.frobenius, k * self.nuclear, k * self.upper_l1, self.noise)

    def either(self, other: Symmetric) -> Symmetric:
        """Return bounds for a change of this kind or of the other."""
        return Symmetric(
            max(self.frobenius, other.frobenius),
            max(self.nuclear, other.nuclear),
            max(self.upper_l1, other.upper_l1),
            self.noise,
        )

    def _scale(self, dims: int, level: float, epsilon: Any) -> tuple[int, int, Any, float]:
        """Return by how many bits a matrix is shortened, its sensitivity after that, and noise.

        The scale of the noise, and the deviation off the diagonal.
        """
        # Rounding moves an entry of a difference by less than one step: norms of such a matrix.
        sensitivity, moved = {
            "gaussian": (self.frobenius, dims),
            "wishart": (self.nuclear, isqrt_up(dims**3)),
            "laplace": (self.upper_l1, dims * (dims + 1) // 2),
        }[self.noise]
        bits = coarse_bits(sensitivity, level, dims + 1.0)
        size = after_shortening(sensitivity, bits, moved)
        scale: Any
        if self.noise == "gaussian":
            scale = sigma_up(size, level)
            std = scale * math.sqrt(0.5)
        elif self.noise == "wishart":
            scale = size / (2 * epsilon)
            std = float(scale) * math.sqrt(2 * (dims + 1))
        else:
            scale = size / epsilon
            std = laplace_std(float(scale))
        return bits, size, scale, std

    def std(self, entries: int, level: float, *, pure: bool) -> float:
        """Return the deviation off the diagonal, in steps."""
        epsilon = level if pure else pure_epsilon_from_mu(level)
        bits, _, _, std = self._scale(math.isqrt(entries), level, epsilon)
        return std * 2.0**bits

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float = 1.0
    ) -> tuple[NDArray, float]:
        """Return the matrix with the noise that is named, and its deviation off the diagonal."""
        noise = self.noise
        if noise not in ("gaussian", "wishart", "laplace"):
            raise ValueError(f"noise must be 'gaussian', 'wishart' or 'laplace', got {noise!r}")
        if noise == "gaussian" and meter.mu is None:
            raise PrivacyLeakError("Gaussian noise in a session that promises delta = 0")
        fraction, epsilon = meter.take(share, name)
        dims = len(exact)
        # Both sides of the diagonal get the same noise: a difference between them would be shown.
        exact = exact.copy()
        for i in range(dims):
            exact[i:, i] = exact[i, i:]
        bits, size, scale, std = self._scale(dims, meter.level(fraction), epsilon)
        short, unit = shortened(exact, bits), unit * 2.0**bits
        entries = dims * (dims + 1) // 2
        if noise == "gaussian":

            def draw() -> NDArray:
                sigmas = np.full(entries, std * (1 + 2**-50))
                sigmas[np.cumsum([0, *range(dims, 1, -1)])] = scale  # on the diagonal
                drawn = samplers.rounded_gaussian(sigmas, (entries,), entropy=meter.entropy)
                return _symmetric(drawn, dims)

            mechanism, norm, distance = "rounded isotropic Gaussian", "Frobenius", l2
        elif noise == "wishart":

            def draw() -> NDArray:
                return symmetrized_wishart(dims, scale, entropy=meter.entropy)

            mechanism, norm, distance = "symmetrised Wishart", "nuclear", nuclear
        else:

            def draw() -> NDArray:
                drawn = samplers.discrete_laplace(scale, (entries,), entropy=meter.entropy)
                return _symmetric(np.asarray(drawn), dims)

            mechanism, norm, distance = "discrete Laplace", "upper-triangle L1", upper_l1
        released = meter.add_noise(name, short, size, distance, draw)
        meter.record(name, mechanism, norm, size * unit, float(scale) * unit, fraction)
        return lengthened(released, bits), std * 2.0**bits


# --- the query ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GramRelease:
    """A released second moment with the sum and the number of rows from the same noise.

    - `second_moment` of shape (d, d): Noisy sum of (x - c)(x - c)', user units squared.
    - `total` of shape (d,): Noisy sum of x - c.
    - `n`: Number of rows: exact under replace-one, else noisy and at least 1.
    - `std`, `diagonal_std`, `total_std`, `n_std`: Standard deviations of an off-diagonal entry, a
      diagonal entry, an entry of `total`, and `n`.
    - `noise` ({"gaussian", "wishart", "laplace"})
    """

    second_moment: Floats
    total: Floats
    n: float
    std: float
    diagonal_std: float
    total_std: float
    n_std: float
    noise: str


def gram_bits(view: Ball | ScaledBox, terms: Terms, noise: str) -> int:
    """Return how many bits a bound of `SecondMoment` has: rounding is below a tenth of the noise.

    Half a step in a row moves a mean product by at most one step of the bound. A public number:
    with a private number of rows, enough for n epsilon = 10**8.
    """
    if terms.n_rows is None:
        return NORM_BITS
    # Noise of a mean product, in squares of the bound of a coordinate.
    spread = math.sqrt(2 * view.n_dims) if noise == "wishart" else 1.0
    per_row = spread * (view.norm / float(view.half[0])) ** 2 / terms.level
    needed = math.ceil(math.log2(max(terms.n_rows, 1) / per_row)) + 4
    return min(max(needed, GRID_BITS), NORM_BITS)


@reviewed
@dataclass(frozen=True, eq=False)
class SecondMoment(Query):
    """The second moment of x - c with the sum and the count, as one matrix.

    With z = (x - c, t), t = tau * radius, the sum of zz' holds the second moment, t sum(x - c) and
    n t**2. Guarantee: the sensitivities of `gram_sensitivity`. The answer is a `GramRelease`.

    - `tau`: In (0, 1]. Small values add little noise and measure the mean less well.
    - `noise` ({"auto", "gaussian", "wishart", "laplace"}): ``"auto"``: Gaussian in a Gaussian
      session, else Wishart.
    """

    name: ClassVar[str] = "second moment"
    view: Any
    tau: float = 0.25
    noise: str = "auto"

    def prepared(self, terms: Terms) -> SecondMoment:
        noise = self.noise
        if noise == "auto":
            noise = "wishart" if terms.pure else "gaussian"
        return replace(self, noise=noise, view=self.view.at(gram_bits(self.view, terms, noise)))

    @property
    def _last(self) -> int:
        """The last coordinate of every augmented row, in steps."""
        return int(min(max(round(self.tau * self.view.norm), 1), self.view.norm))

    @property
    def unit(self) -> float:
        return float(self.view.grid[0]) ** 2

    @property
    def entries(self) -> int:
        """How many integers are released, once the query is prepared."""
        return (self.view.n_dims + 1) ** 2

    def exact(self, table: PrivateTable) -> NDArray:
        second, first, n = exact_gram(table.rows, self.view)
        d, t = self.view.n_dims, self._last
        # No entry is larger than n squares of the norm, which is at least t.
        wide = second.dtype == object or n * int(self.view.norm) ** 2 >= 2**62
        augmented = np.zeros((d + 1, d + 1), dtype=object if wide else np.int64)
        augmented[:d, :d] = second
        augmented[:d, d] = augmented[d, :d] = t * first.astype(augmented.dtype)
        augmented[d, d] = n * t * t
        return augmented

    def sensitivity(self, relation: str) -> Symmetric:
        view = self.view
        return Symmetric.of(view.norm, self._last, view.n_dims, relation, self.noise)

    def decoded(self, noisy: Noisy) -> GramRelease:
        d, t, step = self.view.n_dims, self._last, float(self.view.grid[0])
        matrix, std, n = noisy.values, noisy.std, noisy.terms.n_rows
        count = max(1.0, float(matrix[d, d]) / t**2) if n is None else float(n)
        moment = matrix[:d, :d].astype(np.float64)
        moment *= step**2
        total = matrix[:d, d].astype(np.float64) / t * step
        moment.setflags(write=False)
        total.setflags(write=False)
        diagonal = 1.0 if self.noise == "laplace" else math.sqrt(2)
        return GramRelease(
            second_moment=moment,
            total=total,
            n=count,
            std=std * step**2,
            diagonal_std=diagonal * std * step**2,
            total_std=std / t * step,
            n_std=diagonal * std / t**2 if n is None else 0.0,
            noise=self.noise,
        )


# --- symmetrised Wishart noise --------------------------------------------------------------------
#
# Pure epsilon for a second-moment matrix, every entry exactly rounded.
#
# The ideal matrix is W1 - W2 with W_i = c G_i G_i^T, G_i of shape (d, d+1) with independent
# standard normal entries: W_i ~ Wishart_d(d + 1, c I).
#
# **Privacy.** Added to a statistic of nuclear sensitivity s it is (s / (2c))-DP
# (second_moments.md). The statistic has integer entries, so adding the rounded ideal matrix is
# rounding the ideal sum, which is post-processing. Every rounding is certified, so pure epsilon
# stays pure.
#
# **Computation.** An entry may reach 2**50 while its rounding must be right: float64 is not enough.
# 1. The normals are cut after F = 48, 69 or 90 bits and split in limbs of 21 bits.
# 2. Of limb matrices A and B with counterparts A', B', the sum A B' + B A' is (A + B)(A' + B') -
#    A A' - B B': one product each instead of two. The sum of two limbs is below 2**22 (the top
#    limb is below 2**20, as no deviate is beyond 2**14), so over at most 256 columns all partial
#    sums are below 2**(22 + 22 + 8) = 2**52. BLAS computes such products exactly in float64, in
#    whatever order it adds, with or without fused operations.
# 3. The limb products are joined as digits of 21 bits; the lowest are left out and bounded. Two
#    float64 numbers have enough of them to round nearly every entry with certainty. Where 60 bits
#    are enough for most entries, three limbs of a shorter cut do instead of four or five.
# 4. The limb products of others are joined in Python integers: an entry is certain when both ends
#    of its error interval round to the same integer.
# 5. The rows of other entries get more bits, which stay theirs for every entry.


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
    used: _Rows | _Short = rows
    bounds = norms, error
    # About one entry in 2**10 may be doubtful: all others need fewer products.
    largest = max(int(rows.high.max()), -int(rows.high.min()))
    if rows.extra and c * 8 * (d + 1) < 1 << 50 and largest < 8 << BITS:
        used = _Short(rows)
        bounds = used.errors(norms)
    out = np.empty((d, d), dtype=np.int64)
    for first in range(0, d, _ROWS):
        digits = _digits(used, first, first + _ROWS)
        values, sure = _round(digits, used, *bounds, c, first)
        out[first:, first : first + _ROWS] = values.T
        out[first : first + _ROWS, first:] = values
        for i, j in np.argwhere(~sure).tolist():
            if i <= j:
                i, j = first + i, first + j
                total = rows.total(i, j)
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
        self.last = 2 * (extra + 2)  # digit
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

    def limbs(self, part: Any) -> list[np.ndarray]:
        """Return part of each matrix L_a, in float64."""
        return [self.limb(a, part).astype(float) for a in range(self.extra + 3)]

    def total(self, i: int, j: int) -> int:
        """Return an entry of the sum of limb products, all but the lowest: one of `_digits`."""
        limbs, half = range(self.extra + 3), self.columns // 2
        signs = np.repeat([1, -1], half)
        left = [signs * self.limb(a, i) for a in limbs]
        right = [self.limb(b, j) for b in limbs]  # over 2**16 columns, sums are below 2**59
        return sum(
            int(left[a] @ right[b]) << (_LIMB * (a + b))
            for a in limbs
            for b in limbs
            if a + b >= _lowest(self.extra)
        )

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


class _Short:
    """Rows with further bits, cut after 60 bits: three limbs, of which the highest is full, too.

    No deviate is beyond 8, so the highest limb is in [-2**21, 2**21), and sums of two below 2**22.
    """

    bits, extra, last = 60, 0, 5

    def __init__(self, rows: _Rows) -> None:
        self.high, self.columns, self._rows = rows.high, rows.columns, rows

    def limbs(self, part: Any) -> list[np.ndarray]:
        """Return part of each limb matrix, the lowest first, in float64."""
        more = self.bits - BITS
        m = self.high[part] << more
        m |= self._rows.low[part] >> (_LIMB * self._rows.extra - more)
        return [limb.astype(float) for limb in (m & _MASK, m >> _LIMB & _MASK, m >> 2 * _LIMB)]

    def errors(self, norms: list[int]) -> tuple[list[int], int]:
        """Return what bounds the error of `_digits`, as `_errors` does, from bounds of the rows."""
        cut = self._rows.bits - self.bits
        return [(norm >> cut) + self.columns + 1 for norm in norms], self.columns * (1 + _MASK**2)


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


def _digits(rows: _Rows | _Short, first: int, stop: int) -> dict[int, np.ndarray]:
    """Return some rows of G1 G1^T - G2 G2^T, cut, right of the diagonal block and in it.

    They are the sum of digits_k 2**(21 k - 2 bits); all but the highest are in [0, 2**21).
    """
    top, lowest = rows.extra + 2, _lowest(rows.extra)
    d, half = len(rows.high), rows.columns // 2
    stop = min(stop, d)
    shape = (stop - first, d - first)
    digits = {k: np.zeros(shape, dtype=np.int64) for k in range(lowest, rows.last + 1)}
    squares = np.zeros((top + 1, *shape), dtype=np.int64)
    pairs = [(a, b) for a in range(top + 1) for b in range(max(lowest - a, a + 1), top + 1)]
    product = np.empty(shape)
    for begin in range(0, rows.columns, _COLUMNS):
        span = slice(begin, min(begin + _COLUMNS, rows.columns))
        left, right = (rows.limbs((slice(first, end), span)) for end in (stop, d))
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
    for k in range(lowest, rows.last):
        digits[k + 1] += digits[k] >> _LIMB
        digits[k] &= _MASK
    return digits


def _round(
    digits: dict[int, np.ndarray],
    rows: _Rows | _Short,
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
