"""Limits: how `Released` computes its intervals, for noise alone and for a population.

By a standard error (`NoiseLimits`, `MeanLimits`), by the equation of a metric (`MetricLimits`), or
by counts of rows around a quantile (`QuantileLimits`). `zoomed` releases these counts through an
open session, with the guarantee of `skdp.core.RowSum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp.confidence.equations import Floats, Noise, Pair, discrete_laplace_reach
from skdp.core import Session
from skdp.queries import ColumnCells, Lattice, row_counts

_CELLS = 12, 10  # of a window: where a population's quantile may be, and where that of the rows
_LOCATING = Fraction(1, 8)  # of a quantile's share, for the first window
_LAST = Fraction(3, 8)  # least part of a quantile's share for the last window
_WINDOWS = 6
_LOST = 1e-3  # chance that some window after the first misses the quantile
_CERTAIN = 1 - _LOST / (_WINDOWS - 1)


class Limits(Protocol):
    """The intervals of a `Released`, in the shape of its value."""

    @property
    def of_population(self) -> bool:
        """Whether `population` has an answer."""

    def noise(self, level: float) -> Pair:
        """Return the interval for the rows."""

    def population(self, level: float) -> Pair:
        """Return the interval for the population that units were drawn from."""

    def at(self, index: Any) -> Limits:
        """Return the limits of some entries."""


def plain_ends(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the ends of intervals: Python floats for a single number, arrays otherwise."""
    if np.ndim(low) == 0 and np.ndim(high) == 0:
        return float(low), float(high)
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


# --- widths ---------------------------------------------------------------------------------------


def heavy_z(kurtosis: Any, level: float) -> Any:
    """Return the half width, in deviations, for noise between normal and Laplace by its kurtosis.

    Cornish & Fisher (1938), with the excess kurtosis; at most the width for a Laplace noise.
    """
    z = float(ndtri(0.5 + level / 2))
    laplace = max(-math.log(1 - level) / math.sqrt(2), z)
    return np.clip(z + (z**3 - 3 * z) / 24 * np.asarray(kurtosis), z, laplace)


def spread_seen(value: Any, std: Any) -> Floats:
    """Return variances from noisy ones, so that intervals by them hold as often as they say.

    x becomes (x + sqrt(x**2 + 4 std**2)) / 2. That adds std**2 / x if x is clear of noise, because
    the coverage of an interval is concave in its variance; if noise hides x, it is about std.
    Intervals at 95% hold in 94.9 to 95.3% for x of three deviations of noise or more, else in more.

    Examples
    --------
    >>> spread_seen(np.array([-100.0, 0.0, 100.0]), 1.0).round(2).tolist()
    [0.01, 1.0, 100.01]
    """
    value = np.asarray(value, dtype=np.float64)
    root = np.hypot(value, 2 * np.asarray(std))
    below = 2 * np.square(std) / np.maximum(root - value, 1e-300)
    return np.where(value < 0, below, (value + root) / 2)


# --- standard errors, means, metrics --------------------------------------------------------------


@dataclass(frozen=True)
class NoiseLimits:
    """Intervals of released values from the standard errors of their noise."""

    value: Floats
    std: Floats

    of_population: ClassVar[bool] = False

    def noise(self, level: float) -> Pair:
        """Return the interval by Laplace or Gaussian noise, whichever is wider."""
        half = Noise(1.0, pure=True).width(level) * self.std
        # Whole numbers may have discrete noise: Laplace, or rounded Gaussian.
        discrete = discrete_laplace_reach(np.where(self.std > 0, self.std, 1.0), level)
        discrete = np.maximum(discrete, float(ndtri(0.5 + level / 2)) * self.std + 1.0)
        integer = (self.value == np.rint(self.value)) & (self.std > 0)
        half = np.where(integer, np.maximum(half, discrete), half)
        return self.value - half, self.value + half

    def population(self, level: float) -> Pair:
        """Refuse: the variance of a population was not released."""
        raise ValueError(
            "population_interval needs an answer of mean, median or quantile with intervals=True, "
            "not computed further: others do not release how much rows differ"
        )

    def at(self, index: Any) -> Self:
        """Return the limits of some entries."""
        return self._each(lambda array: array[index])

    def shaped(self, shape: tuple[int, ...]) -> Self:
        """Return the limits in another shape."""
        return self._each(lambda array: np.broadcast_to(array, self.value.shape).reshape(shape))

    def _each(self, change: Callable[[Floats], Any]) -> Self:
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "pure"}
        return replace(self, **{name: np.asarray(change(a)) for name, a in arrays.items()})


@dataclass(frozen=True)
class MeanLimits(NoiseLimits):
    """Intervals of means between bounds, from noise and the variance of the rows.

    `spread` is the variance of the rows' mean around that of the population.
    """

    spread: Floats
    low: Floats
    high: Floats
    pure: bool

    of_population: ClassVar[bool] = True

    def population(self, level: float) -> Pair:
        """Return the interval of the population's mean of clipped values."""
        variance = self.std**2 + self.spread
        share = self.std**2 / np.maximum(variance, 1e-300)
        half = heavy_z(3.0 * share**2 if self.pure else 0.0, level) * np.sqrt(variance)
        low = np.clip(self.value - half, self.low, self.high)
        return low, np.clip(self.value + half, self.low, self.high)


@dataclass(frozen=True)
class MetricLimits:
    """Intervals of a metric: `ends` returns them by level, for noise or also for sampling.

    With `users`, rows of one unit depend on each other, so nothing is known of a population.
    """

    ends: Callable[[float, bool], Pair]
    users: bool
    index: tuple[Any, ...] = ()  # of the entries: one index after the other
    of_population: bool = True

    def noise(self, level: float) -> Pair:
        """Return the interval for the rows."""
        low, high = self.ends(level, False)
        for index in self.index:
            low, high = low[index], high[index]
        return low, high

    def population(self, level: float) -> Pair:
        """Return the interval for the population; NaN for units of several rows."""
        if self.users:
            unknown = np.full_like(self.noise(level)[0], np.nan)
            return unknown, unknown.copy()
        return replace(self, ends=lambda level, _: self.ends(level, True)).noise(level)

    def at(self, index: Any) -> MetricLimits:
        """Return the limits of some entries."""
        return replace(self, index=(*self.index, index))


# --- quantiles ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """Noisy counts, of deviation `std`, of a column's rows in cells around the quantile of level q.

    Cell i holds the candidates from edges[i] up to edges[i + 1] - 1; the first and last cell also
    have all rows below and above. Up to `clusters` rows are of one unit, and may move together.
    """

    lattice: Lattice
    edges: NDArray[np.int64]
    counts: Floats
    std: float
    q: float
    pure: bool
    clusters: float

    @property
    def excess(self) -> Floats:
        """Rows below each inner edge, less q of all rows."""
        return np.cumsum(self.counts)[:-1] - self.q * self.counts.sum()

    def _limits(self, level: float, population: bool) -> Pair:
        """Return how far below 0 and above 0 noise moves the excess at each inner edge."""
        q, k = self.q, len(self.counts)
        below = np.arange(1, k)
        squares = below * (1 - q) ** 2 + (k - below) * q**2
        fourths = below * (1 - q) ** 4 + (k - below) * q**4
        variance = self.std**2 * squares
        cumulant = 3 * self.std**4 * fourths if self.pure else np.zeros(k - 1)
        z = float(ndtri(0.5 + level / 2))
        if not population:
            half = heavy_z(cumulant / np.maximum(variance, 1e-300) ** 2, level) * np.sqrt(variance)
            return half, half
        rows = max(float(self.counts.sum()), 1.0) * q * (1 - q)  # a binomial number, of the rows
        total = np.maximum(variance + self.clusters * rows, 1e-300)
        cumulant = cumulant + rows * (1 - 6 * q * (1 - q)) * self.clusters**3
        kurtosis = np.maximum(cumulant / total**2, 0.0)
        skew = rows * (1 - 2 * q) * self.clusters**2 / total**1.5
        # Cornish & Fisher (1938), to the second order; never less than for a normal distribution.
        even = z + (z**3 - 3 * z) * kurtosis / 24 - (2 * z**3 - 5 * z) * skew**2 / 36
        odd = skew * (z * z - 1) / 6
        root = np.sqrt(total)
        return np.maximum(even - odd, z) * root, np.maximum(even + odd, z) * root

    def between(self, level: float, *, population: bool = False) -> tuple[int, int]:
        """Return the edges of the column between which the quantile is, at a level.

        With r rows below an edge e, the quantile (any of NumPy's) is e or more if r <= q n - q, and
        below e if r >= q n + 1 - q. An edge is passed if the excess is further from 0 than that and
        the noise. All edges from an end of the window inwards must be passed, so an end is wrong
        only if noise passes the edge next to the quantile. That also holds for a population,
        although the same rows decided where the window is: an edge beyond its quantile has at least
        as many rows below it as the quantile has.
        """
        left, right = self._limits(level, population)
        excess = self.excess
        passed = excess < -left - self.q
        first = int(np.argmin(np.append(passed, False)))
        passed = (excess > right + 1 - self.q)[::-1]
        last = len(self.counts) - int(np.argmin(np.append(passed, False)))
        return int(self.edges[first]), int(self.edges[last])

    def interval(self, level: float, *, population: bool = False) -> tuple[float, float]:
        """Return the ends of the interval in the column's units."""
        last = self.lattice.size
        first_edge, last_edge = 0, last
        if level < 1 - 2 * _LOST:
            # The chance that a window misses the quantile is a part of 1 - level.
            first_edge, last_edge = self.between(level + _LOST, population=population)
        if self.lattice.step:
            low, high = self.lattice.value(np.array([first_edge, last_edge - 1]))
        else:
            low = self.lattice.low if first_edge == 0 else _cut(self.lattice, first_edge)
            high = self.lattice.high if last_edge == last else _cut(self.lattice, last_edge)
        return float(low), float(high)

    @property
    def value(self) -> float:
        """The quantile: where the excess, made monotone, crosses 0."""
        rising = np.maximum.accumulate(self.excess)
        falling = np.minimum.accumulate(self.excess[::-1])[::-1]
        middle = (rising + falling) / 2
        first, last = self.edges[0], self.edges[-1]
        if not len(middle):
            place = (first + last - 1) / 2
            start, end = first, last
        else:
            cell = int(np.searchsorted(middle, 0.0))
            start, end = self.edges[cell], self.edges[cell + 1]
            part = 0.5
            if 0 < cell < len(middle):
                rise = middle[cell] - middle[cell - 1]
                part = float(-middle[cell - 1] / rise) if rise > 0 else 0.5
            place = start - 0.5 + part * (end - start)
        number = int(np.clip(round(place), start, end - 1))
        return float(self.lattice.value(np.array([number]))[0])


def _cut(lattice: Lattice, edge: int) -> float:
    """Return the border between candidates edge - 1 and edge."""
    below, above = lattice.value(np.array([edge - 1, edge]))
    return float(below / 2 + above / 2)


@dataclass(frozen=True)
class QuantileLimits:
    """Intervals of quantiles: an array of `Window` in the shape of their values."""

    windows: NDArray[np.object_]

    of_population: ClassVar[bool] = True

    def noise(self, level: float) -> Pair:
        """Return the interval for the rows."""
        return self._interval(level, population=False)

    def population(self, level: float) -> Pair:
        """Return the interval for the population."""
        return self._interval(level, population=True)

    def at(self, index: Any) -> QuantileLimits:
        """Return the limits of some entries."""
        windows = self.windows[index]
        if isinstance(windows, Window):
            windows = np.array(windows, dtype=object)
        return QuantileLimits(windows)

    def shaped(self, shape: tuple[int, ...]) -> QuantileLimits:
        """Return the limits in another shape."""
        return QuantileLimits(self.windows.reshape(shape))

    def _interval(self, level: float, *, population: bool) -> Pair:
        ends = [window.interval(level, population=population) for window in self.windows.ravel()]
        pairs = np.array(ends, dtype=np.float64).reshape(*self.windows.shape, 2)
        return pairs[..., 0][()], pairs[..., 1][()]  # of one number: no array


def zoomed(
    session: Session, low: Floats, high: Floats, levels: Sequence[float], step: float | None
) -> NDArray[np.object_]:
    """Release counts of cells around quantiles; return their last windows, (n_levels, d).

    The first window has all candidates of a column. Each next window leaves out cells that cannot
    hold the quantile of the rows or of the population. If noise keeps all windows wide, the next
    counts get twice the share. The last window gets the rest: when all cells have one candidate, or
    if less than `_LAST` would remain.
    """
    bounds = zip(low.tolist(), high.tolist(), strict=True)
    lattices = [Lattice(a, b, step, "uniform") for a, b in bounds]
    windows = np.empty((len(levels), len(lattices)), dtype=object)
    for i, q in enumerate(levels):
        share = session.remaining / (len(levels) - i)
        inner = outer = [(0, lattice.size) for lattice in lattices]
        remaining, part = share, share * _LOCATING
        for number in range(1, _WINDOWS + 1):
            edges = [_edges(*ends) for ends in zip(outer, inner, strict=True)]
            single = all(cuts[-1] - cuts[0] == len(cuts) - 1 for cuts in edges)
            if single or number == _WINDOWS or remaining - part < share * _LAST:
                break
            remaining -= part
            counted = _counted(session, lattices, edges, q, part)
            outer = [window.between(_CERTAIN, population=True) for window in counted]
            narrow = [window.between(_CERTAIN) for window in counted]
            pairs = zip(narrow, inner, strict=True)
            if all(2 * (b - a) > end - start for (a, b), (start, end) in pairs):
                part = 2 * part
            inner = narrow
        windows[i] = _counted(session, lattices, edges, q, remaining)
    return windows


def _edges(outer: tuple[int, int], inner: tuple[int, int]) -> NDArray[np.int64]:
    """Return evenly spaced edges of a window: where the population's quantile and the rows' lie."""
    even = [np.linspace(*ends, n + 1) for ends, n in zip((outer, inner), _CELLS, strict=True)]
    edges = np.unique(np.concatenate(even).round().astype(np.int64))
    return edges[(edges >= outer[0]) & (edges <= outer[1])]


def _counted(
    session: Session,
    lattices: list[Lattice],
    edges: list[NDArray[np.int64]],
    q: float,
    share: Fraction,
) -> list[Window]:
    """Release the counts of one window of each column."""
    cuts, window_edges = [], []
    for lattice, of in zip(lattices, edges, strict=True):
        at = np.array([_cut(lattice, int(edge)) for edge in of[1:-1]])
        keep = np.append(True, at[1:] > at[:-1]) if at.size else np.ones(0, bool)
        cuts.append(at[keep])  # candidates that are the same float share a cell
        window_edges.append(np.concatenate([of[:1], of[1:-1][keep], of[-1:]]))
    release = session.answer(row_counts(ColumnCells(tuple(cuts)), "counts of cells"), share)
    std = float(np.max(release.std))
    starts = np.cumsum([0, *(len(of) - 1 for of in window_edges)])
    clusters = float(session.max_rows_per_unit or 1)
    return [
        Window(lattice, of, release.value[a:b], std, q, session.pure, clusters)
        for lattice, of, a, b in zip(lattices, window_edges, starts[:-1], starts[1:], strict=True)
    ]
