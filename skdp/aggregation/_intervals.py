"""Intervals of released numbers: what noise leaves open, at 95%.

Nothing is released here: public numbers only, the scale of the noise and what was released. The
noise is rounded Gaussian or discrete Laplace, independent between numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri
from sklearn.isotonic import isotonic_regression

from skdp.statistics._limits import heavy_z

Floats = NDArray[np.float64]

__all__ = [
    "LEVEL",
    "Z",
    "half_width",
    "quantile_bins",
    "quotient_interval",
    "tree_excess",
    "variance_interval",
]

LEVEL = 0.95
Z = float(ndtri(0.5 + LEVEL / 2))
_SMOOTHED = 1.06


def half_width(std: float, step: float, *, pure: bool, level: float = LEVEL) -> float:
    """Return the least multiple of a step that noise stays within, at a level.

    Examples
    --------
    >>> half_width(10.0, 1.0, pure=False)
    20.0
    """
    sigma = std / step
    if not pure:
        return step * max(math.ceil(float(ndtri(0.5 + level / 2)) * sigma - 0.5), 0)
    # P(|X| > h) = 2 q**(h + 1) / (1 + q), q = exp(-1 / scale).
    scale = 0.5 / math.asinh(math.sqrt(0.5) / sigma)
    q = math.exp(-1 / scale)
    return step * max(math.ceil(scale * math.log(2 / (1 + q) / (1 - level))) - 1, 0)


def _two_laplace(a: float, b: float, level: float = LEVEL) -> float:
    """Return a quantile of |X + Y|, Laplace variables of standard deviations a and b."""
    a, b = sorted((a / math.sqrt(2), b / math.sqrt(2)), reverse=True)
    if b < 1e-9 * a:
        return -a * math.log(1 - level)
    if a - b < 1e-6 * a:
        return a * float(brentq(lambda t: (1 + t / 2) * math.exp(-t) - (1 - level), 0, 50))

    def beyond(t: float) -> float:
        tail = (a * a * math.exp(-t / a) - b * b * math.exp(-t / b)) / (a * a - b * b)
        return tail - (1 - level)

    return float(brentq(beyond, 0, 50 * a))


def quotient_intervals(
    total: Floats,
    count: Floats,
    total_std: float,
    count_std: float,
    *,
    low: float,
    high: float,
    pure: bool,
    extra: Any = 0.0,
    level: float = LEVEL,
) -> tuple[Floats, Floats]:
    """Return the quotients in [low, high] that noise of totals and counts allows (Fieller).

    All r with |total - r count| within the 95% quantile of the noise of that difference, which r
    alone decides; their hull, as a grid of 513 numbers shows it. Each end is bisected between two
    neighbours of the grid to the last bit, and is the outer one of the last two numbers. `extra` is
    the variance of each total beyond its noise.
    """
    grid = np.linspace(low, high, 513)

    def slack(r: Floats, part: slice, wide: bool = False) -> Floats:
        """Return by how much each r is allowed; of a grid, if wide, for each of the keys."""
        t, n, more = (_part(values, part, wide) for values in (total, count, extra))
        size = np.abs(r) * count_std
        variance = total_std**2 + size**2 + more
        fourth = 3 * (total_std**4 + size**4) if pure else 0.0
        kurtosis = fourth / variance**2 if pure else 0.0
        limit = heavy_z(kurtosis, level) * np.sqrt(variance)
        if pure and not np.all(more):
            limit = np.where(more != 0, limit, _two_laplace_all(total_std, size, level))
        return np.asarray(limit - np.abs(t - r * n))

    ends = []
    for start in range(0, len(count), _KEYS):
        part = slice(start, start + _KEYS)
        n = count[part]
        inside = slack(grid, part, wide=True) >= 0
        best = np.clip(total[part] / np.where(n, n, 1.0), low, high)
        best = np.where(n, best, (low + high) / 2)
        fits, some = slack(best, part) >= 0, inside.any(axis=1)
        left = np.where(some, grid[np.argmax(inside, axis=1)], best)
        right = np.where(some, grid[512 - np.argmax(inside[:, ::-1], axis=1)], best)
        left = np.where(fits, np.minimum(left, best), left)
        right = np.where(fits, np.maximum(right, best), right)
        below = grid[np.maximum(np.searchsorted(grid, left) - 1, 0)]
        above = grid[np.minimum(np.searchsorted(grid, right, side="right"), 512)]
        of_part = functools.partial(slack, part=part)
        alone = ~some & ~fits  # noise took it beyond its bounds
        ends.append([np.where(alone, best, _edges(of_part, left, below)),
                     np.where(alone, best, _edges(of_part, right, above))])  # fmt: skip
    lows, highs = np.concatenate(ends, axis=1) if ends else np.empty((2, 0))
    return lows, highs


_KEYS = 256  # at once: a megabyte for each array of a grid


def _part(values: Any, part: slice, wide: bool) -> Any:
    """Return some keys' values, as a column if wide; one number is that of all keys."""
    if np.ndim(values) == 0:
        return values
    return values[part, None] if wide else values[part]


_Z_LAPLACE = -math.log(1 - LEVEL) / math.sqrt(2)


def _two_laplace_all(a: float, sizes: Any, level: float = LEVEL) -> Any:
    """Return the quantiles for many second standard deviations, by interpolation of their ratio."""
    ratio = np.minimum(a, sizes) / np.maximum(np.maximum(a, sizes), 1e-300)
    return np.maximum(a, sizes) * np.interp(ratio, _RATIOS, _quantiles(level))


_RATIOS = np.linspace(0, 1, 65)


@functools.lru_cache(maxsize=64)
def _quantiles(level: float) -> Floats:
    return np.array([_two_laplace(1.0, float(r), level) for r in _RATIOS])


_HALVINGS = 56  # of the 512th part of a range: below the last bit of its ends


def _edges(slack: Callable[[Floats], Floats], inside: Floats, outside: Floats) -> Floats:
    """Return, outwards, the last allowed numbers on the way from allowed ones to others."""
    open_end = slack(outside) >= 0
    inside = np.where(open_end, outside, inside)
    for _ in range(_HALVINGS):
        middle = inside + (outside - inside) / 2
        fits = slack(middle) >= 0
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
    return outside


def variance_interval(
    count: Floats,
    first: Floats,
    second: Floats,
    stds: tuple[float, float, float],
    *,
    pure: bool,
) -> tuple[Floats, Floats, Floats]:
    """Return variances and their intervals, from noisy counts, sums and sums of squares.

    In half widths of the bounds, about the middle: values in [-1, 1], variances in [0, 1]; `second`
    is the sum of squares less half the count. With the true v and w = v - 1/2, second count -
    first**2 - w count**2 is noise of mean -s1**2 - w s0**2 (in stds) and of a variance that is
    estimated; all v whose deviation is within its quantile are in the interval.
    """
    s0, s1, s2 = stds
    n, a, b = count, first, second
    grid = np.linspace(-0.5, 0.5, 4097)[None, :]
    n, a, b = n[:, None], a[:, None], b[:, None]
    mean = b * n - a * a + s1**2 - grid * (n * n - s0**2)
    # Squares of estimates are too large by the variances of their noise.
    parts = np.stack(
        [
            np.broadcast_to(np.maximum(n * n - s0**2, 0) * s2**2, mean.shape),
            np.maximum((b - 2 * grid * n) ** 2 - s2**2 - 4 * grid**2 * s0**2, 0) * s0**2,
            np.broadcast_to(4 * np.maximum(a * a - s1**2, 0) * s1**2, mean.shape),
        ]
    )
    quadratic = s2**2 * s0**2 + 2 * s1**4 + 2 * grid**2 * s0**4
    spread = parts.sum(axis=0) + quadratic
    z = np.full(mean.shape, Z)
    if pure:  # the kurtosis of a sum decides between the normal and the Laplace quantile
        share = (parts**2).sum(axis=0) / np.maximum(spread, 1e-300) ** 2
        z = Z + (_Z_LAPLACE - Z) * np.sqrt(np.clip(share, 0, 1))
    inside = np.abs(mean) <= z * np.sqrt(spread)
    value = np.clip(0.5 + (b * n - a * a) / np.maximum(n * n, 1.0), 0.0, 1.0)[:, 0]
    none = ~inside.any(axis=1)
    step = 1.0 / 4096
    low = np.where(none, value, 0.5 + grid[0][np.argmax(inside, axis=1)]) - step
    last = 4096 - np.argmax(inside[:, ::-1], axis=1)
    high = np.where(none, value, 0.5 + grid[0][last]) + step
    return value, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


# --- quantiles from a tree of bins ----------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def tree_excess(depth: int, q: float) -> Floats:
    """Return the map from a tree's nodes to sums before each edge, less q of all: (edges, nodes).

    Nodes are level by level, without the root. Of all unbiased sums those of least variance: least
    squares on what the levels say of each other (Hay et al. 2010, Section 4).
    """
    size = 2**depth
    spans = np.concatenate(
        [np.repeat(np.eye(2**k), size >> k, axis=1) for k in range(1, depth + 1)]
    )
    sums = np.vstack([np.zeros(size), np.tril(np.ones((size, size)))])
    return np.asarray((sums - q * sums[-1]) @ np.linalg.pinv(spans))


@functools.lru_cache(maxsize=64)
def _edge_limits(depth: int, q: float, pure: bool) -> Floats:
    """Return what noise of `tree_excess` stays within at 95%, an edge, in a node's deviations."""
    squares = tree_excess(depth, q) ** 2
    variance = squares.sum(axis=1)
    kurtosis = 3 * (squares**2).sum(axis=1) / np.maximum(variance, 1e-300) ** 2
    return np.asarray(heavy_z(kurtosis if pure else 0.0, LEVEL) * np.sqrt(variance))


def quantile_bins(
    nodes: Floats, node_std: float, depth: int, q: float, *, pure: bool
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Return where the share q of the rows is reached, in bins, and the bins between which that is.

    An edge is below the quantile if clearly less than q of the rows is below it. The noisy shares
    of rows below edges are made to ascend first, as the true ones do (isotonic regression): an edge
    far from the quantile that noise alone put near it leaves the interval. Limits are those of one
    edge, times `_SMOOTHED`, which makes up for the choice of what is averaged: without it intervals
    held in 93.7% where many bins are empty and exactly q of the rows is before them, with it in
    94.9% or more (8,000 runs a case). The interval is of whole bins, so elsewhere it holds more
    often: a bin less would be too short.

    Returns
    -------
    value : ndarray of float
        In bins from 0.
    first, last : ndarray of int
    """
    size = 2**depth
    excess = (nodes @ tree_excess(depth, q).T) / max(node_std, 1e-300)
    limit = _SMOOTHED * _edge_limits(depth, q, pure)
    ascending = np.array([isotonic_regression(row) for row in excess]).reshape(excess.shape)
    every = np.ones((len(nodes), 1), bool)
    open_left = np.c_[ascending[:, 1:] >= -limit[1:], every]
    open_right = np.c_[(ascending <= limit)[:, size - 1 :: -1], every]
    first = np.minimum(np.argmax(open_left, axis=1), size - 1)
    last = np.maximum(size - 1 - np.argmax(open_right, axis=1), 0)
    rising = np.maximum.accumulate(excess, axis=1)
    falling = np.minimum.accumulate(excess[:, ::-1], axis=1)[:, ::-1]
    smooth = (rising + falling) / 2
    place = np.minimum(np.argmax(np.c_[smooth[:, 1:] >= 0, every], axis=1), size - 1)
    rows = np.arange(len(nodes))
    start, end = smooth[rows, place], smooth[rows, place + 1]
    part = np.where(end > start, -start / np.maximum(end - start, 1e-300), 0.5)
    return place + np.clip(part, 0.0, 1.0), first, last
