"""Exact statistics of bounded integer rows, each with the sensitivity that belongs to it.

Nothing is released here. Every function makes one pass over the rows in chunks and returns
exact integers: the same to the last bit in any row order, chunk size or number of threads,
because every partial sum of a chunk stays below 2**53 (float64 adds integers exactly there) and
chunks are added as int64, or as Python integers where int64 could overflow.

Sensitivities are integers in the same steps, for both neighbouring relations (A: add or remove
one row; R: replace one row). All views are symmetric about 0, so the diameter of the image, which
is the sensitivity of its sum under R, is twice its radius, the sensitivity under A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import (
    GRID_BITS,
    NORM_BITS,
    SUM_BITS,
    Ball,
    Floats,
    ScaledBox,
    View,
    isqrt_up,
)
from skdp.core.mechanisms import l2_noise
from skdp.core.privacy_filter import PrivacyFilter, Release, Share, released
from skdp.core.query import (
    Independent,
    Noisy,
    Query,
    Spherical,
    Symmetric,
    Terms,
    reviewed,
    terms_of,
)
from skdp.core.table import REPLACE_ONE, PrivateTable, Rows, as_total, fold, total_dtype

__all__ = [
    "Count",
    "GramRelease",
    "Mean",
    "Moments",
    "SecondMoment",
    "Sum",
    "exact_gram",
    "exact_moments",
    "exact_sum",
    "gram_sensitivity",
    "histogram_sensitivity",
    "moments_sensitivity",
    "sum_sensitivity",
]

Ints = NDArray[np.int64]


# --- sums and second moments ------------------------------------------------------------------


def exact_sum(rows: Rows, view: View) -> tuple[NDArray, int]:
    """Return (sum of q, n), exactly."""
    dtype = total_dtype(rows, int(view.half.max(initial=0.0)))

    def add(chunk: Floats, totals: list[NDArray]) -> None:
        totals[0] += as_total(np.ones(len(chunk)) @ view.map(chunk), dtype)

    (total,) = fold(rows, add, lambda: [np.zeros(view.n_dims, dtype=dtype)], width=view.n_dims)
    return total, rows._n


def exact_moments(rows: Rows, view: ScaledBox) -> tuple[NDArray, int, int]:
    """Return (sums of q and of p = round(q**2 / Q) - Q/2 for every feature, Q, n), exactly.

    q in [-Q, Q] is the row in units of each feature's half width; see PROOFS.md, "Moments".
    """
    scale = view.steps
    d = view.n_dims
    dtype = total_dtype(rows, scale)

    def add(chunk: Floats, totals: list[NDArray]) -> None:
        q = view.map(chunk)
        ones = np.ones(len(q))
        totals[0][:d] += as_total(ones @ q, dtype)
        # q**2 is above 2**53, so it is rounded: one operation on one number.
        q *= q
        q *= 1.0 / scale
        np.rint(q, out=q)
        totals[0][d:] += as_total(ones @ q, dtype) - len(q) * (scale // 2)

    (total,) = fold(rows, add, lambda: [np.zeros(2 * d, dtype=dtype)], width=2 * d)
    return total, scale, rows._n


def sum_sensitivity(view: View, adjacency: str, *, weight: int = 0) -> int:
    """Return the sensitivity of (weight * n, sum of q) in L2, in steps, rounded up.

    A: sqrt(weight**2 + norm**2). R: the count does not move; 2 norm (attained between opposite
    corners of a box). At least 1, so that the noise of a box without width has a scale.
    """
    if adjacency == REPLACE_ONE:
        return max(1, 2 * view.norm)
    return max(1, isqrt_up(weight**2 + view.norm**2))


def moments_sensitivity(n_dims: int, scale: int, adjacency: str, *, weight: int = 0) -> int:
    """Return the L2 sensitivity of (weight * n, `exact_moments`), in steps, rounded up.

    Squared: 5/4 d scale**2 + weight**2 (A), 4 d scale**2 (R, where the count does not move).
    Holds for the rounded integers: PROOFS.md, "Moments".
    """
    if adjacency == REPLACE_ONE:
        return isqrt_up(4 * n_dims * scale**2)
    return isqrt_up(-(-5 * n_dims * scale**2 // 4) + weight**2)


_GRAM_BITS = 24  # of integers whose products are added up over few rows; longer ones are split


def exact_gram(rows: Rows, view: View) -> tuple[NDArray, NDArray, int]:
    """Return (sum of q q', sum of q, n), exactly, as Python integers.

    Products are BLAS on integers. That of r rows of integers up to 2**b is at most r 2**(2b), which
    must be at most 2**53: 2**16 rows up to 18 bits, fewer up to 24. Longer ones are split, q =
    2**15 high + low with |high| <= 2**16 and 0 <= low < 2**15, and three products are added up.
    """
    d = view.n_dims
    bits = int(view.half.max(initial=0.0)).bit_length()
    long = bits > _GRAM_BITS
    # Products of so many rows are exact in float64, and in int64.
    batch, most = (2 ** min(max(room - 2 * bits, 0), 16) for room in (53, 62))
    dtype = total_dtype(rows, 2**32 if long else 4**bits)

    def add(chunk: Floats, totals: list[NDArray]) -> None:
        q = view.map(chunk)
        totals[0] += as_total(np.ones(len(q)) @ q, dtype)
        if long:
            high = q * 2.0**-15
            np.floor(high, out=high)
            q -= high * 2.0**15
            for k, (a, b) in enumerate(((high, high), (high, q), (q, q))):
                totals[1][k] += as_total(a.T @ b, dtype)
            return
        for start in range(0, len(q), most):
            part = q[start : start + most]
            whole = len(part) - len(part) % batch if len(part) > batch else 0
            total = (part[whole:].T @ part[whole:]).astype(np.int64)
            if whole:
                stack = part[:whole].reshape(-1, batch, d)
                total += (stack.transpose(0, 2, 1) @ stack).astype(np.int64).sum(axis=0)
            totals[1][0] += total.astype(dtype)

    def fresh() -> list[NDArray]:
        return [np.zeros(d, dtype=dtype), np.zeros((3 if long else 1, d, d), dtype=dtype)]

    # Every chunk adds a matrix of products: it should have more rows than that costs.
    first, products = fold(rows, add, fresh, least=4 * d)
    second = products[0].astype(object)
    if long:
        cross, low = products[1].astype(object), products[2].astype(object)
        second = (second << 30) + ((cross + cross.T) << 15) + low
    return second, first.astype(object), rows._n


def gram_sensitivity(norm: int, tau: int, n_dims: int, adjacency: str, geometry: str) -> int:
    """Return the sensitivity of the Gram matrix of z = (q, tau), ||q|| <= norm, in steps squared.

    With gamma**2 = norm**2 + tau**2 and tau <= norm. A: the change is zz', whose Frobenius and
    nuclear norms are gamma**2 and whose upper triangle has L1 norm at most (D+1)/2 gamma**2 in D
    dimensions. R: zz' - vv' (the n entry cancels): Frobenius sqrt(2) gamma**2, nuclear
    2 gamma**2 (both at z orthogonal to v), upper triangle sqrt(D**2/2 + D + 1) gamma**2 (D even)
    or sqrt(D**2/2 + D + 3/4) gamma**2 (D odd). Proofs: PROOFS.md, "Gram matrix".
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
        quarter = 2 * dims**2 + 4 * dims + (4 if dims % 2 == 0 else 3)
        return isqrt_up(-(-quarter * gamma2**2 // 4))
    raise ValueError(f"unknown geometry {geometry!r}")


def histogram_sensitivity(parts: int, adjacency: str) -> int:
    """Return the L1 sensitivity, which is the squared L2 one, of `parts` histograms side by side.

    A row adds one to one bin of each: parts (A). Another row takes as many away: 2 parts (R).
    """
    return 2 * parts if adjacency == REPLACE_ONE else parts


def with_count(exact: NDArray, table: PrivateTable, weight: int) -> NDArray:
    """Return exact sums with weight * n behind them where the number of rows is private."""
    if table.n_is_public:
        return exact
    # Of Python integers where weight * n could overflow.
    dtype = exact.dtype if weight * table.n < 2**62 else object
    return np.concatenate([exact, np.array([weight * table.n], dtype=dtype)])


def without_count(noisy: Noisy, weight: int) -> tuple[Floats, float]:
    """Return noisy sums and the number of rows, at least 1, from what `with_count` made."""
    if noisy.terms.n_rows is not None:
        return noisy.values.astype(np.float64), max(1.0, float(noisy.terms.n_rows))
    return noisy.values[:-1].astype(np.float64), max(1.0, float(noisy.values[-1]) / weight)


def noisy_sums(
    table: PrivateTable,
    meter: PrivacyFilter,
    name: str,
    exact: NDArray,
    weight: int,
    size: int,
    share: Share,
    unit: float,
) -> tuple[Floats, float, Release]:
    """Release sums of this L2 sensitivity with the number of rows: sums, their std, the count."""
    terms = terms_of(table, meter, share)
    values, std = l2_noise(meter, name, with_count(exact, table, weight), size, share, unit=unit)
    sums, count = without_count(Noisy(values, std, terms), weight)
    return sums, std, released(count, 0.0 if table.n_is_public else std / weight)


def mean_in(
    view: View, noisy: Noisy, weight: int, *, count_error: bool = False
) -> tuple[Floats, Floats]:
    """Return the mean of a view's rows, clipped to it, and its standard error, in user units.

    With `count_error` the error has that of a private number of rows in it (first order).
    """
    total, count = without_count(noisy, weight)
    steps = np.clip(total / count, -view.half, view.half)
    value, std = view.center + steps * view.grid, noisy.std / count * view.grid
    if count_error and noisy.terms.n_rows is None:
        std = std * np.sqrt(1.0 + (steps / weight) ** 2)
    return value, std


@reviewed
@dataclass(frozen=True, eq=False)
class Count(Query):
    """The number of rows, where it is private.

    Guarantee: sensitivity 1 (A), 0 (R).
    """

    name: ClassVar[str] = "count"

    def exact(self, table: PrivateTable) -> NDArray:
        return np.array([table.n], dtype=np.int64)

    def sensitivity(self, relation: str) -> Independent:
        # Under R noise of no scale is none; the session does not ask for it there.
        return Independent(l1=1, l2_squared=1)

    def decoded(self, noisy: Noisy) -> Release:
        return released(float(noisy.values[0]), noisy.std)


@reviewed
@dataclass(frozen=True, eq=False)
class Sum(Query):
    """The sum of x - view.center over the rows, in user units.

    Guarantee: sensitivity norm (A), 2 norm (R), in L2.
    """

    name: ClassVar[str] = "sum"
    view: Any

    def prepared(self, terms: Terms) -> Sum:
        return replace(self, view=self.view.at(SUM_BITS))

    @property
    def unit(self) -> float:
        return float(self.view.grid.max())

    def exact(self, table: PrivateTable) -> NDArray:
        return exact_sum(table.rows, self.view)[0]

    def sensitivity(self, relation: str) -> Spherical:
        return Spherical(sum_sensitivity(self.view, relation))

    def decoded(self, noisy: Noisy) -> Release:
        grid = self.view.grid
        return released(noisy.values.astype(np.float64) * grid, noisy.std * grid)


@reviewed
@dataclass(frozen=True, eq=False)
class Mean(Query):
    """The mean of the clipped rows, in user units.

    Guarantee: R: the sum at sensitivity 2 norm over the public n. A: (w n, sum) in one release at
    sensitivity sqrt(w**2 + norm**2), w = norm / 3, then their quotient, clipped to the view's box.

    Attributes
    ----------
    view : Box, Ball, Projection, ...
    count_error : bool
        Whether the standard error counts the noise of a private n (first order).
    """

    name: ClassVar[str] = "mean"
    view: Any
    count_error: bool = False

    def prepared(self, terms: Terms) -> Mean:
        return replace(self, view=self.view.at(SUM_BITS))

    @property
    def _weight(self) -> int:
        return max(1, self.view.norm // 3)

    @property
    def unit(self) -> float:
        return float(self.view.grid.max())

    def exact(self, table: PrivateTable) -> NDArray:
        return with_count(exact_sum(table.rows, self.view)[0], table, self._weight)

    def sensitivity(self, relation: str) -> Spherical:
        return Spherical(sum_sensitivity(self.view, relation, weight=self._weight))

    def decoded(self, noisy: Noisy) -> Release:
        return released(*mean_in(self.view, noisy, self._weight, count_error=self.count_error))


@reviewed
@dataclass(frozen=True, eq=False)
class Moments(Query):
    """Mean and mean square of every feature, relative to the box; and the number of rows.

    With u = (x - centre) / half width in [-1, 1], each row contributes (u, u**2 - 1/2) per feature.
    Guarantee: A: squared L2 sensitivity d (1 + 1/4), and w**2 more for the count; R: 2 sqrt(d)
    (u = 1 against u = -1). In integers: u = q / Q with one grid a feature, u**2 as
    round(q**2 / Q) / Q; proof for the rounded map in PROOFS.md, "Moments".

    The answer is (mean, mean_square, n): two `Release`, in [-1, 1] and [0, 1], and a float.
    """

    name: ClassVar[str] = "moments"
    low: ArrayLike
    high: ArrayLike

    @property
    def _view(self) -> ScaledBox:
        return ScaledBox(self.low, self.high)

    @property
    def unit(self) -> float:
        return 1 / self._view.steps

    def exact(self, table: PrivateTable) -> NDArray:
        total, scale, _ = exact_moments(table.rows, self._view)
        return with_count(total, table, scale)

    def sensitivity(self, relation: str) -> Spherical:
        view = self._view
        size = moments_sensitivity(view.n_dims, view.steps, relation, weight=view.steps)
        return Spherical(size)

    def decoded(self, noisy: Noisy) -> tuple[Release, Release, float]:
        view = self._view
        d, scale = view.n_dims, view.steps
        sums, count = without_count(noisy, scale)
        values = sums / count / scale
        error = noisy.std / count / scale
        mean = np.clip(values[:d], -1.0, 1.0)
        square = np.clip(values[d:] + 0.5, 0.0, 1.0)
        return released(mean, error), released(square, error), count


@dataclass(frozen=True)
class GramRelease:
    """A released second moment with the sum and the number of rows from the same noise.

    Attributes
    ----------
    second_moment : ndarray of shape (d, d)
        Noisy sum of (x - c)(x - c)', user units squared.
    total : ndarray of shape (d,)
        Noisy sum of x - c.
    n : float
        Exact number of rows under replace-one, noisy otherwise; at least 1.
    std, diagonal_std : float
        Standard deviation of an off-diagonal entry of ``second_moment``, and of a diagonal one.
    total_std, n_std : float
        The same of an entry of ``total`` and of ``n``.
    noise : str
        ``"gaussian"``, ``"wishart"`` or ``"laplace"``.
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

    Half a step in a row moves a mean product by one step of the bound at most. A public number:
    where the number of rows is private, as many as n epsilon = 10**8 needs.
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

    The rows are augmented: z = (x - c, t) with t = tau * radius, so sum zz' holds the second
    moment, t sum(x - c) and n t**2. Guarantee: the exact sensitivities of
    `skdp.core.sums.gram_sensitivity`. The answer is a `GramRelease`.

    Attributes
    ----------
    view : Ball or ScaledBox
    tau : float
        In (0, 1]. Small values cost little noise and measure the mean less well.
    noise : {"auto", "gaussian", "wishart", "laplace"}
        ``"auto"``: Gaussian in a Gaussian session, else Wishart.
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

    def exact(self, table: PrivateTable) -> NDArray:
        second, first, n = exact_gram(table.rows, self.view)
        d, t = self.view.n_dims, self._last
        augmented = np.zeros((d + 1, d + 1), dtype=object)
        augmented[:d, :d] = second
        augmented[:d, d] = augmented[d, :d] = t * first
        augmented[d, d] = n * t * t
        return augmented

    def sensitivity(self, relation: str) -> Symmetric:
        frobenius, nuclear, upper = (
            gram_sensitivity(self.view.norm, self._last, self.view.n_dims, relation, geometry)
            for geometry in ("frobenius", "nuclear", "upper_l1")
        )
        return Symmetric(frobenius, nuclear, upper, self.noise)

    def decoded(self, noisy: Noisy) -> GramRelease:
        d, t, step = self.view.n_dims, self._last, float(self.view.grid[0])
        matrix, std = noisy.values.astype(np.float64), noisy.std
        n = noisy.terms.n_rows
        count = max(1.0, float(matrix[d, d]) / t**2) if n is None else float(n)
        moment = matrix[:d, :d] * step**2
        total = matrix[:d, d] / t * step
        moment.setflags(write=False)
        total.setflags(write=False)
        diagonal = {"gaussian": math.sqrt(2), "wishart": math.sqrt(2), "laplace": 1.0}[self.noise]
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
