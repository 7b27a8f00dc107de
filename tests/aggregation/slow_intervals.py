"""Intervals key by key, slowly: what `skdp.aggregation._intervals` is compared with.

The same definitions, written for one key; ends are roots that Brent's method finds, within
`TOLERANCE` of the range of the values on either side.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.optimize import brentq
from sklearn.isotonic import isotonic_regression

from skdp.aggregation._intervals import LEVEL, Z, tree_excess
from skdp.confidence.limits import heavy_z

TOLERANCE = 1e-12


def _two_laplace(a, b, level=LEVEL):
    """Return a quantile of |X + Y|, Laplace variables of standard deviations a and b."""
    a, b = sorted((a / math.sqrt(2), b / math.sqrt(2)), reverse=True)
    if b < 1e-9 * a:
        return -a * math.log(1 - level)
    if a - b < 1e-6 * a:
        return a * float(brentq(lambda t: (1 + t / 2) * math.exp(-t) - (1 - level), 0, 50))

    def beyond(t):
        tail = (a * a * math.exp(-t / a) - b * b * math.exp(-t / b)) / (a * a - b * b)
        return tail - (1 - level)

    return float(brentq(beyond, 0, 50 * a))


def quotient_interval(
    total, count, total_std, count_std, *, low, high, pure, extra=0.0, level=LEVEL
):
    """Return the quotients in [low, high] that noise of total and count allows (Fieller).

    All r with |total - r count| within the 95% quantile of the noise of that difference, which r
    alone decides; their hull. `extra` is the variance of the total beyond its noise.
    """
    grid = np.linspace(low, high, 513)
    tolerance = TOLERANCE * (high - low)

    def allowed(r):
        size = np.abs(r) * count_std
        if pure and not extra:
            limit = _two_laplace_all(total_std, size, level)
        else:
            variance = total_std**2 + size**2 + extra
            shares = total_std**2 / variance, size**2 / variance  # fourth powers may be inf
            kurtosis = 3 * (shares[0] ** 2 + shares[1] ** 2) if pure else 0.0
            limit = heavy_z(kurtosis, level) * np.sqrt(variance)
        return limit - np.abs(total - r * count)

    inside = np.flatnonzero(allowed(grid) >= 0)
    best = float(np.clip(total / count, low, high)) if count else (low + high) / 2
    if not inside.size:
        if float(allowed(np.array([best]))[0]) < 0:
            return best, best  # noise took it beyond its bounds
        place = int(np.searchsorted(grid, best))
        return (
            _edge(allowed, tolerance, best, float(grid[max(place - 1, 0)])),
            _edge(allowed, tolerance, best, float(grid[min(place, 512)])),
        )
    first, last = int(inside[0]), int(inside[-1])
    left = (
        min(float(grid[first]), best) if float(allowed(np.array([best]))[0]) >= 0 else grid[first]
    )
    right = max(float(grid[last]), best) if float(allowed(np.array([best]))[0]) >= 0 else grid[last]
    below = float(grid[np.searchsorted(grid, left, side="left") - 1]) if left > low else low
    above = float(grid[min(np.searchsorted(grid, right, side="right"), 512)])
    return _edge(allowed, tolerance, float(left), below), _edge(
        allowed, tolerance, float(right), above
    )


def _two_laplace_all(a, sizes, level):
    """Return the quantiles for many second standard deviations, interpolated by their ratio."""
    ratio = np.minimum(a, sizes) / np.maximum(np.maximum(a, sizes), 1e-300)
    return np.maximum(a, sizes) * np.interp(ratio, _RATIOS, _quantiles(level))


_RATIOS = np.linspace(0, 1, 65)


@functools.lru_cache(maxsize=64)
def _quantiles(level):
    return np.array([_two_laplace(1.0, float(r), level) for r in _RATIOS])


def _edge(allowed, tolerance, inside, outside):
    """Return the last allowed number on the way from one that is allowed to one that is not."""

    def at(r):
        return float(allowed(np.array([r]))[0])

    if inside == outside or at(outside) >= 0:
        return outside
    if at(inside) <= 0:
        return inside
    return float(brentq(at, inside, outside, xtol=tolerance))


def variance_interval(count, first, second, stds, *, pure):
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
        z = Z + (-math.log(1 - LEVEL) / math.sqrt(2) - Z) * np.sqrt(np.clip(share, 0, 1))
    inside = np.abs(mean) <= z * np.sqrt(spread)
    value = np.clip(0.5 + (b * n - a * a) / np.maximum(n * n, 1.0), 0.0, 1.0)[:, 0]
    none = ~inside.any(axis=1)
    step = 1.0 / 4096
    low = np.where(none, value, 0.5 + grid[0][np.argmax(inside, axis=1)]) - step
    last = 4096 - np.argmax(inside[:, ::-1], axis=1)
    high = np.where(none, value, 0.5 + grid[0][last]) + step
    return value, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


@functools.lru_cache(maxsize=64)
def _edge_limits(depth, q, pure):
    """Return what noise of `tree_excess` stays within at 95%, an edge, in a node's deviations."""
    squares = tree_excess(depth, q) ** 2
    variance = squares.sum(axis=1)
    kurtosis = 3 * (squares**2).sum(axis=1) / np.maximum(variance, 1e-300) ** 2
    return np.asarray(heavy_z(kurtosis if pure else 0.0, LEVEL) * np.sqrt(variance))


def quantile_bins(nodes, node_std, depth, q, *, pure):
    """Return where the share q of the rows is reached, and the bins between which that is."""
    size = 2**depth
    excess = (nodes @ tree_excess(depth, q).T) / max(node_std, 1e-300)
    limit = 1.06 * _edge_limits(depth, q, pure)
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
