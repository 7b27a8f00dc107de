"""Shared by private densities: grids of kernel centres, bounds, log densities, samples.

A density lives in a public or released box, relative to the uniform one there, so that no volume
overflows. Gaussian kernels are products over features, each with a factor width / (sqrt(2 pi) h),
so sums over a grid of centres are taken one feature at a time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdp.base import PrivateMixin, check_integer
from skdp.base.expected_error import ExpectedErrorMixin, check_like, resampled, unanswered
from skdp.core import Session
from skdp.planning import bounds_in
from skdp.queries import MAX_CELLS, LearnedBox

# --- product grids --------------------------------------------------------------------------------

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

MOST_CENTERS = 2000
MOST_FEATURES = 10  # two centres a feature at least
_CHOSEN_CENTERS = 400  # where the bandwidth is chosen; 1024 in ten features
_MARGIN_FEATURES = 3  # with at most so many features, the grid reaches one centre beyond the bounds
_PER_BANDWIDTH = 8.0  # points of the tabulated density
LOUD = 0.25  # noise of the smallest bandwidth tried, relative to the uniform density


def axis_kernel(x: Floats, centers: Floats, bandwidth: float, width: float) -> Floats:
    """Return width * N(x; centers, bandwidth**2), of shape (len(x), len(centers))."""
    distance = (x[:, None] - centers) / bandwidth
    peak = width / bandwidth / math.sqrt(2 * math.pi)
    return np.asarray(np.exp(-0.5 * distance * distance) * peak, dtype=np.float64)


def along(matrices: list[Floats], tensor: Floats) -> Floats:
    """Multiply a tensor by one matrix in each dimension."""
    for j, matrix in enumerate(matrices):
        tensor = np.moveaxis(np.tensordot(matrix, tensor, axes=(1, j)), 0, j)
    return tensor


def _kron(matrices: list[Floats]) -> Floats:
    """Return the Kronecker product of the matrices of all features."""
    return reduce(lambda left, right: np.asarray(np.kron(left, right)), matrices, np.ones((1, 1)))


@dataclass(frozen=True)
class Lattice:
    """A product grid of centres: the coordinates of each feature.

    `blur` is the standard deviation of the mass at a centre in each feature: 0 for kernels, width /
    sqrt(12) for cells. The kernel at a centre is narrower by that.
    """

    axes: tuple[Floats, ...]
    blur: tuple[float, ...]

    @staticmethod
    def sizes(bounds: Pair, bandwidth: float, spacing: float) -> list[int]:
        """Return the number of centres in each feature."""
        cells = np.maximum(np.ceil((bounds[1] - bounds[0]) / bandwidth / spacing - 1e-9), 1.0)
        return [int(min(c, 1e18)) + 1 + 2 * _margin(len(cells)) for c in cells]

    @classmethod
    def make(
        cls, bounds: Pair, bandwidth: float, spacing: float, *, cells: bool = False
    ) -> Lattice:
        """Return the grid over the bounds, at most `spacing` bandwidths apart."""
        axes, blur = [], []
        margin = _margin(len(bounds[0]))
        for size, low, high in zip(cls.sizes(bounds, bandwidth, spacing), *bounds, strict=True):
            steps = size - 1 - 2 * margin
            unit = np.arange(-margin, steps + margin + 1) / steps
            axes.append(low * (1.0 - unit) + high * unit)
            blur.append(float(high - low) / steps / math.sqrt(12.0) if cells else 0.0)
        return cls(tuple(axes), tuple(blur))

    def rounded(self, centers: Floats) -> Lattice:
        """Return the grid of its centres after rounding."""
        table = centers.reshape(*self.shape, len(self.axes))
        axes = [
            np.array(np.moveaxis(table[..., j], j, 0).reshape(size, -1)[:, 0])
            for j, size in enumerate(self.shape)
        ]
        return Lattice(tuple(axes), self.blur)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of centres in each feature."""
        return tuple(axis.size for axis in self.axes)

    def centers(self) -> Floats:
        """Return all centres, shape (b, d), the last feature fastest."""
        places = np.meshgrid(*self.axes, indexing="ij")
        return np.stack(places, axis=-1).reshape(-1, len(self.axes))

    def edges(self) -> list[Floats]:
        """Return the edges of cells around the centres, one array for each feature."""
        edges = []
        for axis in self.axes:
            half = np.diff(axis[[0, 1, -2, -1]])[[0, 2]] / 2
            middle = axis[:-1] / 2 + axis[1:] / 2
            edges.append(np.concatenate([[axis[0] - half[0]], middle, [axis[-1] + half[1]]]))
        return edges

    def kernels(
        self, points: Sequence[Floats], bandwidth: float, bounds: Pair, times: float = 1.0
    ) -> list[Floats]:
        """Return kernel densities of points at the centres, by feature; `times` widens kernels."""
        columns = zip(points, self.axes, self.own(bandwidth), bounds[1] - bounds[0], strict=True)
        return [axis_kernel(x, c, times * h, float(width)) for x, c, h, width in columns]

    def own(self, bandwidth: float) -> list[float]:
        """Return the standard deviation of the kernel at a centre in each feature."""
        return [bandwidth * math.sqrt(1.0 - (blur / bandwidth) ** 2) for blur in self.blur]

    def gram(self, bandwidth: float, bounds: Pair, times: float = 1.0) -> Floats:
        """Return the kernel densities of the centres at the centres, (b, b)."""
        return _kron(self.kernels(self.axes, bandwidth, bounds, times))

    def second_moment(self, bounds: Pair, bandwidth: float) -> Floats:
        """Return the mean over the box of f(x) f(x)' for kernel densities f, (b, b)."""
        parts = []
        points = node_axes(bounds, bandwidth, 3.0)
        for values in self.kernels(points, bandwidth, bounds):
            weights = np.full(len(values), 1.0 / (len(values) - 1))
            weights[[0, -1]] /= 2
            parts.append(values.T @ (weights[:, None] * values))
        return _kron(parts)

    def root_mean_square(self, matrix: Floats | None, bandwidth: float, bounds: Pair) -> float:
        """Return the root mean square over the box of the norm of matrix @ f(x).

        This factor turns the noise of a feature into that of the density.
        """
        moment = self.second_moment(bounds, bandwidth)
        if matrix is None:
            return math.sqrt(float(np.trace(moment)))
        square = float(np.einsum("ij,ij->", matrix @ moment, matrix))
        return math.sqrt(max(square, 0.0))


def _margin(n_features: int) -> int:
    """Return how many centres lie beyond the bounds, on either side."""
    return 1 if n_features <= _MARGIN_FEATURES else 0


def node_axes(bounds: Pair, bandwidth: float, fineness: float = _PER_BANDWIDTH) -> list[Floats]:
    """Return points in each feature on which a density is tabulated, at most 2**20 in all."""
    widths = bounds[1] - bounds[0]
    while True:
        cells = np.maximum(np.ceil(np.minimum(fineness * widths / bandwidth, 1e7)), 1.0)
        if np.prod(cells + 1.0) <= MAX_CELLS or np.all(cells == 1.0):
            break
        fineness *= 0.8
    axes = []
    for low, high, number in zip(*bounds, cells, strict=True):
        unit = np.linspace(0.0, 1.0, int(number) + 1)
        axes.append(low * (1.0 - unit) + high * unit)
    return axes


def least_bandwidth(bounds: Pair, spacing: float, most: int) -> float:
    """Return the smallest bandwidth whose grid has at most `most` centres."""
    widest = float(np.max(bounds[1] - bounds[0]))
    low, high = widest * 1e-5, widest * 4.0  # at 1 / spacing the grid has its least size
    for _ in range(60):
        middle = math.sqrt(low) * math.sqrt(high)
        fits = math.prod(Lattice.sizes(bounds, middle, spacing)) <= most
        low, high = (low, middle) if fits else (middle, high)
    return high * (1.0 + 1e-12)


def candidates(
    bounds: Pair, spacing: float, n: float, noise: Callable[[float], float], loud: float = LOUD
) -> list[float]:
    """Return bandwidths to choose from, ascending: factors of √2 up to a quarter of the box.

    The noise of the smallest is no larger than the error of sampling for n rows, or than `loud`,
    for a uniform density of 1. Of values of `loud` from 0.03 to 1, a quarter was best for three
    densities of one feature. `noise` maps a bandwidth to the standard deviation of the noise.
    """
    widths = bounds[1] - bounds[0]
    d = len(widths)
    widest = float(np.max(widths))
    low, high = least_bandwidth(bounds, spacing, max(_CHOSEN_CENTERS, 2**d)), widest

    def too_loud(h: float) -> bool:
        sampling = math.sqrt(peak(bounds, h) / 2 ** (d / 2) / n)
        return noise(h) > max(sampling, loud)

    if too_loud(low):
        for _ in range(40):
            middle = math.sqrt(low) * math.sqrt(high)
            low, high = (middle, high) if too_loud(middle) else (low, middle)
        low = high
    number = 1 + max(0, math.floor(2.0 * math.log2(widest / 4.0 / low) + 1e-9))
    return [low * 2.0 ** (j / 2) for j in range(number)]


def peak(bounds: Pair, bandwidth: float) -> float:
    """Return the height of the kernel, relative to the uniform density."""
    widths = bounds[1] - bounds[0]
    return float(np.prod(widths / (math.sqrt(2 * math.pi) * bandwidth)))


# --- the base of densities ------------------------------------------------------------------------

COUNT_SHARE = 0.02  # for the number of rows, where it is private
_FAR = 1e100  # the largest bound, so that squares and their sums stay finite


def _usable(low: Floats, high: Floats) -> Pair:
    """Return learned bounds within 1e100 of 0 that enclose a volume."""
    low, high = np.clip(low, -_FAR, _FAR), np.clip(high, -_FAR, _FAR)
    least = np.maximum((np.abs(low) + np.abs(high)) / 8, 1 / _FAR)
    flat = high - low < least
    return np.where(flat, low - least, low), np.where(flat, high + least, high)


def mixed(relative: Floats, weights: Floats, n: float) -> tuple[Floats, float]:
    """Return a noisy density cut off at 0 and scaled, and the factor that scaled it.

    One more row is spread evenly over the box, so that logarithms are finite. `relative` is
    relative to the uniform density, on parts of the box whose `weights` sum to 1.
    """
    positive = np.maximum(relative, 0.0)
    total = float((weights * positive).sum())
    rows = n / (1.0 + n)
    if not (math.isfinite(total) and total > 0.0):
        return np.ones_like(positive), rows
    return rows / total * positive + (1.0 - rows), rows / total


class BoxDensity(ExpectedErrorMixin, PrivateMixin, DensityMixin, BaseEstimator, ABC):
    """A density over a box."""

    bounds: Any = field(init=False)

    # --- defined by each density ----------------------------------------------------------------

    @abstractmethod
    def _relative(self, values: Floats) -> Floats:
        """Return the density, relative to the uniform one, at rows within the box."""

    @abstractmethod
    def _relative_std(self, values: Floats) -> Floats:
        """Return the standard deviation of `_relative` due to noise, before it is cut off at 0."""

    @abstractmethod
    def _draw(self, n: int, random: Any) -> Floats:
        """Return n rows drawn from the density."""

    # --- the fit --------------------------------------------------------------------------------

    def _stated_bounds(self, n_features: int, names: Sequence[Any] | None = None) -> Pair | None:
        """Return the stated bounds, or None; a flat box gets a volume."""
        stated = super()._stated_bounds(n_features, names)
        if stated is None:
            return None
        if max(np.abs(side).max() for side in stated) > _FAR:
            raise ValueError("bounds must be 'private' or a pair (low, high) within 1e100 of 0")
        low, high = stated
        # As in numpy's histograms, bounds without width are widened.
        half = np.where(high - low < 1 / _FAR, np.maximum(0.5, np.abs(low) / 8), 0.0)
        return low - half, high + half

    @staticmethod
    def _box_in(session: Session, stated: Pair | None) -> tuple[Pair, LearnedBox | None]:
        """Return the stated bounds, or a box learned privately, and the release."""
        pair, learned = bounds_in(session, stated, spare=0.002)
        return (pair if learned is None else _usable(*pair)), learned

    def _like(self, n: int, d: int, like: Any) -> Callable[[int], Floats]:
        """Return public rows for each rehearsal."""
        self._stated_bounds(d)
        if like is None:
            raise unanswered(
                self,
                "the rows: negative noise is cut off where there are none, and the bandwidth or "
                "the box may depend on them",
            )
        if isinstance(like, BoxDensity):
            like = like.sample(min(max(n, 1000), 10**5), random_state=0)
        return resampled(check_like(self, like, d), n)

    # --- after the fit --------------------------------------------------------------------------

    def _log_volume(self) -> float:
        low, high = self.bounds_
        return float(np.log(high - low).sum())

    def _inside(self, values: Floats) -> NDArray[np.bool_]:
        low, high = self.bounds_
        return np.asarray(((values >= low) & (values <= high)).all(axis=1))

    def score_samples(self, X: ArrayLike) -> Floats:
        """Return the logarithm of the density at the caller's rows.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            Minus infinity outside ``bounds_``, finite inside.
        """
        values = self._public_array(X)
        inside = self._inside(values)
        result = np.full(len(values), -math.inf)
        result[inside] = np.log(self._relative(values[inside])) - self._log_volume()
        return result

    def pdf(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return the density at the caller's rows, and its noise if `return_std` is true.

        Returns
        -------
        density : ndarray of shape (n_samples,)
            Zero outside ``bounds_``.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``: the standard deviation of the density due to noise,
            before it is cut off at 0, without the errors of sampling and smoothing.
        """
        values = self._public_array(X)
        inside = self._inside(values)
        density, std = np.zeros((2, len(values)))
        with np.errstate(over="ignore", under="ignore"):
            unit = np.exp(-self._log_volume())
            density[inside] = self._relative(values[inside]) * unit
            if not return_std:
                return density
            std[inside] = self._relative_std(values[inside]) * unit
        return density, std

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Return the log-likelihood of the caller's rows, as private as these rows are.

        Returns
        -------
        log_likelihood : float
            Minus infinity if a row lies outside ``bounds_``.
        """
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw rows from the released density, at no further cost.

        Parameters
        ----------
        random_state : int, RandomState or None, default=None
            Independent of the noise, so samples may be repeated with the same seed.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Within ``bounds_``.
        """
        check_is_fitted(self)
        n = check_integer(n_samples, "n_samples", low=1)
        return np.clip(self._draw(n, check_random_state(random_state)), *self.bounds_)
