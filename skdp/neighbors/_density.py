"""What private densities share, and one that is constant in each of many cells.

A density lives in a public or released box, relative to the uniform one there, so that no volume
overflows. Gaussian kernels are products over features, each with a factor width / (sqrt(2 pi) h),
so sums over a grid of centres are taken one feature at a time. A fit of `DPHistogramDensity`
releases bounds, unless stated, and the noisy numbers of rows in the cells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdp.base import PrivateMixin, check_integer
from skdp.base.expected_error import (
    ExpectedErrorMixin,
    Fresh,
    check_like,
    mean_error,
    resampled,
    unanswered,
)
from skdp.core import Session
from skdp.planning import Allowance, bounds_in, row_count
from skdp.queries import MAX_CELLS, Grid, LearnedBox, row_counts
from skdp.statistics._histograms import Bins, _bins, _bins_of_each, _edges

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

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Within ``bounds_``.
        """
        check_is_fitted(self)
        n = check_integer(n_samples, "n_samples", low=1)
        return np.clip(self._draw(n, check_random_state(random_state)), *self.bounds_)


# --- histograms -----------------------------------------------------------------------------------
_MOST_BINS = 2**10  # of a feature
_MOST_FEATURES = 64  # dimensions of an array of numpy


def _most_bins(n_features: int) -> int:
    """Return the largest number of automatic bins."""
    return min(math.floor(MAX_CELLS ** (1.0 / n_features) + 1e-9), _MOST_BINS)


def auto_bins(n: float, n_features: int, std: float) -> int:
    """Return a number of bins for each feature, from public or released numbers.

    2 n**(1/(d+2)) balances the errors of sampling and of the width of cells for a smooth density; a
    cell holds at least four standard deviations `std` of the noise on average. Above 4, the number
    is rounded down to 2**k or 1.5 * 2**k, so that noise in a released n hardly ever moves it.
    """
    smooth = 2.0 * n ** (1.0 / (n_features + 2.0))
    loud = (n / (4.0 * std)) ** (1.0 / n_features)
    bins = int(min(max(math.floor(min(smooth, loud)), 1), _most_bins(n_features)))
    if bins <= 4:
        return bins
    power = 1 << (bins.bit_length() - 1)
    return power + power // 2 if bins >= power + power // 2 else power


class DPHistogramDensity(BoxDensity):
    """Differentially private density from a histogram: a simple baseline.

    Negative counts are set to 0, and the density is scaled to an integral of 1. `DPKernelDensity`
    is smooth, and has less error for most densities of one to three features.

    Parameters
    ----------
    bins : "auto", int or list, default="auto"
        An int: the number of cells of equal width between the bounds, the same for each feature. A
        list: for each feature such a number, or public edges in increasing order; for a single
        feature, the edges themselves. At most 2**20 cells altogether. ``"auto"`` computes the
        number from the number of rows (noisy where it is private), epsilon and delta.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); rows outside are in no cell. ``"private"`` learns the box, for a
        fifth of the allowance at most; where rows are few, for up to a half. Without delta, this
        needs n * epsilon of about 1,000 for each column; with fewer rows the box may be far off.
        Not used for columns with stated edges.

    Attributes
    ----------
    edges_ : tuple of ndarrays
        Edges of the cells, one array for each feature.
    probabilities_ : ndarray, one dimension for each feature
        Probabilities of the cells, with sum 1.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The box, stated or learned.
    noise_std_ : float
        Standard deviation of the probability of a cell due to noise, before it is cut off at 0.

    Raises
    ------
    TypeError, ValueError
        ... Also if there would be more than 2**20 cells or 64 columns.

    See Also
    --------
    DPKernelDensity : Smooth densities.
    skdp.statistics.histogramdd : The noisy counts alone.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (at most 20% of the allowance); under
    ``"add_or_remove_one"`` with ``bins="auto"``, the number of rows (2%); and the number of rows in
    each cell. *Sensitivity* of the counts: 1 if a row is added or removed; if one is replaced, 2 in
    L1 and sqrt(2) in L2. *Mechanism*: discrete Laplace or rounded Gaussian noise, whichever is
    less. Any number of densities and samples costs nothing more.

    One additional row is spread evenly over the box, so that the logarithm of the density is finite
    everywhere in the box.

    **Expected error.** How far noise will move the density, in total variation distance: half the
    integral of the absolute difference from the histogram of the same cells without noise, averaged
    over fits. It needs `like`: public rows, or an earlier fit, from which rows are drawn. The rows
    matter because negative noise is cut off: a density with few peaks has less noise.

    References
    ----------
    Wasserman & Zhou 2010, "A statistical framework for differential privacy", section 4
    (perturbed histograms).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.neighbors import DPHistogramDensity
    >>> X = np.random.default_rng(0).normal(size=(10_000, 1))
    >>> density = DPHistogramDensity(bounds=(-4, 4), random_state=0).fit(X)
    >>> at_0, beyond = density.pdf([[0.0], [5.0]])
    >>> bool(abs(at_0 - 0.4) < 0.1), float(beyond)
    (True, 0.0)
    >>> density.sample(3, random_state=0).shape
    (3, 1)
    """

    bins: Any = "auto"
    bounds: Any = "private"

    _in_parts = True

    def _bins_of_features(self, n_features: int) -> list[Bins] | None:
        """Return bins or edges of each feature, None for "auto"; refuse too many cells."""
        if n_features > _MOST_FEATURES:
            raise ValueError(
                f"X must have at most {_MOST_FEATURES} columns for a histogram of all of them "
                f"together, got {n_features}; choose some, or take statistics.histogram of each"
            )
        if isinstance(self.bins, str):
            if self.bins == "auto":
                return None
            raise ValueError(f"bins must be 'auto', an int or a list, got {self.bins!r}")
        given = _bins_of_each(self.bins) if isinstance(self.bins, list) else _bins(self.bins)
        if isinstance(given, np.ndarray) and n_features > 1:
            raise ValueError("bins must be a list with one entry for each feature, if it has edges")
        bins = given if isinstance(given, list) else [given] * n_features
        if len(bins) != n_features:
            raise ValueError(f"bins must have {n_features} entries, one a feature, got {len(bins)}")
        sizes = [b if isinstance(b, int) else b.size - 1 for b in bins]
        if math.prod(sizes) > MAX_CELLS:
            raise ValueError(
                f"bins must make at most {MAX_CELLS} cells, got {math.prod(sizes)}: "
                f"{' x '.join(map(str, sizes[:8]))}{' x ...' if len(sizes) > 8 else ''}; "
                "take fewer bins or columns, or bins='auto'"
            )
        return bins

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget, release the histogram, and compute the density."""
        with self._all_or_nothing(groups):
            rows = self._open(X)
            d = rows.n_features
            bins = self._bins_of_features(d)
            stated = self._stated_bounds(d)
            if bins is not None and not any(isinstance(b, int) for b in bins):
                stated = np.zeros(d), np.ones(d)  # not used: all edges are stated
            if stated is not None:
                # Refuse here bounds that are too close for the bins that a release may have.
                _all_edges(bins or [_most_bins(d)] * d, stated)
            with self._session(rows) as session:
                self._release(session, bins, stated)
        return self

    @property
    def _n_releases(self) -> int:
        return 2

    def _release(self, session: Session, bins: list[Bins] | None, stated: Pair | None) -> None:
        """Release the histogram and set the fitted attributes."""
        bounds, learned = self._box_in(session, stated)
        n = math.nan
        if session.adjacency == "replace_one" or bins is None:
            n = row_count(session, COUNT_SHARE, learned)
        if bins is None:
            std = Allowance.left(session).cell_std
            bins = [auto_bins(n, session.n_features, std)] * session.n_features
        edges = _all_edges(bins, bounds)
        release = session.answer(row_counts(Grid(tuple(edges)), "histogram"))
        counts = release.value
        n = max(1.0, float(counts.sum())) if math.isnan(n) else n
        widths = [np.diff(edge) / (edge[-1] - edge[0]) for edge in edges]
        cells = reduce(np.multiply.outer, widths, np.ones(()))
        self.bounds_ = np.array([e[0] for e in edges]), np.array([e[-1] for e in edges])
        self.edges_ = tuple(edges)
        relative, self._factor = mixed(counts / cells, cells, n)
        self.probabilities_ = relative * cells
        self._std = float(np.max(release.std))
        self.noise_std_ = self._std * self._factor

    # --- post-processing --------------------------------------------------------------------------

    def _cells(self, values: Floats) -> tuple[tuple[Any, ...], Floats]:
        """Return the cells of rows within the box, and their shares of the box."""
        index, part = [], np.ones(len(values))
        for j, edge in enumerate(self.edges_):
            cell = np.searchsorted(edge, values[:, j], side="right") - 1
            cell = np.clip(cell, 0, edge.size - 2)
            index.append(cell)
            part *= (np.diff(edge) / (edge[-1] - edge[0]))[cell]
        return tuple(index), part

    def _relative(self, values: Floats) -> Floats:
        index, part = self._cells(values)
        relative: Floats = self.probabilities_[index] / part
        return relative

    def _relative_std(self, values: Floats) -> Floats:
        return self.noise_std_ / self._cells(values)[1]

    def _draw(self, n: int, random: Any) -> Floats:
        weights = self.probabilities_.ravel()
        cells = random.choice(weights.size, size=n, p=weights / weights.sum())
        index = np.unravel_index(cells, self.probabilities_.shape)
        place = random.uniform(size=(n, len(self.edges_)))
        columns = [
            edge[i] * (1.0 - u) + edge[i + 1] * u
            for edge, i, u in zip(self.edges_, index, place.T, strict=True)
        ]
        return np.column_stack(columns)

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        rows = self._like(n, d, like)
        self._bins_of_features(d)

        def distance(fresh: Fresh, number: int) -> float:
            public = rows(number)
            fitted = fresh(number).fit(public)
            counts, _ = np.histogramdd(public, fitted.edges_)
            exact = counts / max(counts.sum(), 1.0)
            return 0.5 * float(np.abs(fitted.probabilities_ - exact).sum())

        return mean_error(self, distance, most=60, precision=0.05)


def _all_edges(bins: list[Bins], bounds: Pair) -> list[Floats]:
    """Return the edges of every feature."""
    return [_edges(b, float(a), float(z)) for b, a, z in zip(bins, *bounds, strict=True)]
