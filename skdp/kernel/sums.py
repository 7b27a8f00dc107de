"""Sums, means and second moments of bounded rows.

Released: noisy integers, from which the sums and means are computed. Guarantee: the sensitivity
that stands beside each exact statistic. Where the number of rows is private, a mean is the quotient
of a sum and a count that are released together, never noise of scale 1/n with a private n. Proofs:
kernel/README.md, "Sums", "Moments" and "Gram matrix".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.kernel import statistics as stats
from skdp.kernel.protect import (
    GRID_BITS,
    NORM_BITS,
    SUM_BITS,
    Ball,
    Floats,
    ScaledBox,
    View,
)
from skdp.kernel.query import Independent, Noisy, Query, Spherical, Symmetric, Terms, reviewed
from skdp.kernel.release import Release, released
from skdp.kernel.table import PrivateTable

__all__ = ["Count", "GramRelease", "Mean", "Moments", "SecondMoment", "Sum"]


def with_count(exact: NDArray, table: PrivateTable, weight: int) -> NDArray:
    """Return exact sums with weight * n behind them where the number of rows is private."""
    if table.replace:
        return exact
    # Of Python integers where weight * n could overflow.
    dtype = exact.dtype if weight * table.n < 2**62 else object
    return np.concatenate([exact, np.array([weight * table.n], dtype=dtype)])


def without_count(noisy: Noisy, weight: int) -> tuple[Floats, float]:
    """Return noisy sums and the number of rows, at least 1, from what `with_count` made."""
    if noisy.terms.n_rows is not None:
        return noisy.values.astype(np.float64), max(1.0, float(noisy.terms.n_rows))
    return noisy.values[:-1].astype(np.float64), max(1.0, float(noisy.values[-1]) / weight)


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
        return stats.exact_sum(table.rows, self.view)[0]

    def sensitivity(self, relation: str) -> Spherical:
        return Spherical(stats.sum_sensitivity(self.view, relation))

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
        return with_count(stats.exact_sum(table.rows, self.view)[0], table, self._weight)

    def sensitivity(self, relation: str) -> Spherical:
        return Spherical(stats.sum_sensitivity(self.view, relation, weight=self._weight))

    def decoded(self, noisy: Noisy) -> Release:
        return released(*mean_in(self.view, noisy, self._weight, count_error=self.count_error))


@reviewed
@dataclass(frozen=True, eq=False)
class Moments(Query):
    """Mean and mean square of every feature, relative to the box; and the number of rows.

    With u = (x - centre) / half width in [-1, 1], each row contributes (u, u**2 - 1/2) per feature.
    Guarantee: A: squared L2 sensitivity d (1 + 1/4), and w**2 more for the count; R: 2 sqrt(d)
    (u = 1 against u = -1). In integers: u = q / Q with one grid a feature, u**2 as
    round(q**2 / Q) / Q; proof for the rounded map in kernel/README.md, "Moments".

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
        total, scale, _ = stats.exact_moments(table.rows, self._view)
        return with_count(total, table, scale)

    def sensitivity(self, relation: str) -> Spherical:
        view = self._view
        size = stats.moments_sensitivity(view.n_dims, view.steps, relation, weight=view.steps)
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
    `skdp.kernel.statistics.gram_sensitivity`. The answer is a `GramRelease`.

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
        second, first, n = stats.exact_gram(table.rows, self.view)
        d, t = self.view.n_dims, self._last
        augmented = np.zeros((d + 1, d + 1), dtype=object)
        augmented[:d, :d] = second
        augmented[:d, d] = augmented[d, :d] = t * first
        augmented[d, d] = n * t * t
        return augmented

    def sensitivity(self, relation: str) -> Symmetric:
        frobenius, nuclear, upper = (
            stats.gram_sensitivity(self.view.norm, self._last, self.view.n_dims, relation, geometry)
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
