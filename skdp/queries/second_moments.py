"""The second moment ("Gram matrix") of clipped rows, and the symmetric noise that it gets.

Released: the sum of (x - c)(x - c)' over the rows, with their sum and number, as one matrix.
Guarantee: exact integers; one row's change is bounded in Frobenius norm (Gaussian noise), nuclear
norm (symmetrised Wishart noise) and L1 on the upper triangle (discrete Laplace noise). Proofs:
second_moments.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import Noisy, Query, Terms, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable, Rows, as_total, fold, total_dtype
from skdp.exceptions import PrivacyLeakError
from skdp.loss.conversions import pure_epsilon_from_mu
from skdp.queries.wishart import symmetrized_wishart

__all__ = [
    "GramRelease",
    "SecondMoment",
    "Symmetric",
    "exact_gram",
    "gram_sensitivity",
]

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
