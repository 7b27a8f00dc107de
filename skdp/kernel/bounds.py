"""Bounds from released octave histograms: post-processing, and always an answer.

Private approximate bounds: values are counted by sign and octave (statistics), released with
noise, and the outermost bins whose noisy count stands clear of the noise give the bounds. Rows
that are spread over many octaves are found by runs of bins. Where nothing stands clear, what is
known of the rows' extremes serves, then the run that comes nearest to it: a useless bound is
allowed when n * epsilon is tiny, an error or a look at the data is not.

References
----------
Wilson et al. 2020, "Differentially private SQL with bounded user contribution", section 5.1.1
(single bins).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from skdp.kernel.protect import Floats
from skdp.kernel.statistics import exponent_edges

__all__ = ["box_from_octaves", "clear_level", "norm_from_octaves"]

_WIDTHS = (1, 2, 4, 8, 16)  # of runs of bins; 16 are a factor of 65,536 of octaves
_FAILURE = 1e-3


@functools.lru_cache(maxsize=64)
def _level(std: float, width: int, n_tests: int) -> float:
    """Return a level that noise passes in any of n_tests sums of `width` bins, at most 0.1% of it.

    For noise of one bin with this standard deviation, discrete Laplace or (rounded) Gaussian. One
    bin of Laplace noise passes t with probability exp(-sqrt(2) t / std) / 2, of Gaussian noise with
    less beyond three standard deviations. Of sums: E exp(z X) <= 1 / (1 - std^2 (cosh z - 1)) for
    both, with equality for discrete Laplace noise; so a sum passes t with probability at most
    exp(-z t) (1 - std^2 (cosh z - 1))^-width for every z (Chernoff), and n_tests of them with
    n_tests times that, dependent or not.
    """
    log_tests = math.log(n_tests / _FAILURE)
    if width == 1:
        return std / math.sqrt(2) * log_tests
    # With std^2 (cosh z - 1) = u^2 in (0, 1), and cosh z - 1 = 2 sinh(z / 2)^2.
    u = np.linspace(0.001, 0.999, 400)
    z = 2 * np.arcsinh(u / (math.sqrt(2) * max(std, 1e-300)))
    return float(np.min((log_tests - width * np.log1p(-u * u)) / z))


def clear_level(std: float, n_bins: int) -> float:
    """Return a count of one bin that is taken for rows, if n_bins bins have noise of this size."""
    return _level(std, 1, len(_WIDTHS) * n_bins)


def _in_noise(part: Floats, std: float) -> int:
    """Return how many leading bins hold, together, no more than two standard deviations."""
    level = 2 * std * np.sqrt(np.arange(1, part.size))
    above = np.flatnonzero(np.cumsum(part[:-1]) > level)
    return int(above[0]) if above.size else part.size - 1


def _outermost(counts: Floats, std: float, n_tests: int) -> tuple[tuple[int, int], bool]:
    """Return the first and last bin that stand clear of the noise, or the best guess; and which.

    Single bins first, then longer runs beside what was found, less their outer bins that look
    empty. Noise is taken for rows with probability 0.1% if n_tests is that of all histograms. Then
    the bin next to an end as long as it stands clear of the noise on its own and has a quarter of
    the fullest: one test, so that half as many rows pass it, and a false alarm (0.1%) costs an
    octave. Bins with less are left to the wider margin of who uses the bounds.
    """
    found: tuple[int, int] | None = None
    guess, most = (0, 0), -math.inf
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    for width in _WIDTHS:
        runs = sums[width:] - sums[:-width]
        ratio = runs / _level(std, width, n_tests)
        start = np.arange(runs.size)
        beside = True if found is None else (start + width <= found[0]) | (start > found[1])
        clear = np.flatnonzero((ratio > 1) & beside)
        if clear.size:
            first, last = int(clear[0]), int(clear[-1]) + width - 1
            first += _in_noise(counts[first : first + width], std)
            last -= _in_noise(counts[last - width + 1 : last + 1][::-1], std)
            found = (first, last) if found is None else (min(found[0], first), max(found[1], last))
        if ratio.max() > most:
            most, at = float(ratio.max()), int(np.argmax(ratio))
            guess = at, at + width - 1
    if found is None:
        return guess, False
    first, last = found
    level = max(_level(std, 1, 1), float(counts.max()) / 4)
    while first > 0 and counts[first - 1] > level:
        first -= 1
    while last < counts.size - 1 and counts[last + 1] > level:
        last += 1
    return (first, last), True


def _with_mirror(ends: tuple[int, int], counts: Floats, std: float) -> tuple[int, int]:
    """Add the same octaves of the other sign if they stand clear of the noise on their own.

    One test, so that half as many rows pass it; a false alarm, 0.1%, costs a factor of 2 or 3.
    """
    first, last = ends
    far = counts.size - 1
    if first <= far // 2 <= last:
        return ends
    mirror = counts[far - last : far - first + 1]
    if mirror.sum() <= _level(std, mirror.size, 1):
        return ends
    return min(first, far - last), max(last, far - first)


def box_from_octaves(
    own: NDArray, own_std: float, common: NDArray | None, common_std: float
) -> tuple[Floats, Floats]:
    """Return (low, high) per feature from noisy octave histograms.

    Parameters
    ----------
    own : ndarray of shape (d, bins)
        Noisy histogram of each feature.
    common : ndarray of shape (2, bins) or None
        Noisy histograms of the rows' least and greatest values, for columns of which nothing
        stands clear of the noise.
    own_std, common_std : float
        Standard deviation of the noise.
    """
    lower, upper = exponent_edges()
    n_bins = lower.size
    first, last = 0, n_bins - 1
    if common is not None:
        tests = len(_WIDTHS) * common.size
        least, greatest = (_outermost(row, common_std, tests) for row in common.astype(np.float64))
        first, last = min(least[0][0], greatest[0][1]), max(least[0][0], greatest[0][1])
    low = np.full(len(own), lower[first])
    high = np.full(len(own), upper[last])
    for j, histogram in enumerate(own.astype(np.float64)):
        ends, clear = _outermost(histogram, own_std, len(_WIDTHS) * own.size)
        if clear or common is None:
            ends = _with_mirror(ends, histogram, own_std)
            low[j], high[j] = lower[ends[0]], upper[ends[1]]
    # Positive data far from zero keep their lower octave; a range that includes the zero bin
    # starts or ends at zero, not at the bin's tiny edge.
    tiny = upper[n_bins // 2]
    low = np.where(low == -tiny, 0.0, low)
    high = np.where(high == tiny, 0.0, high)
    flat = high <= low
    return np.where(flat, low - tiny, low), np.where(flat, low + tiny, high)


def norm_from_octaves(counts: NDArray, std: float, first_code: int) -> float:
    """Return the upper edge of the outermost quarter-octave clear of the noise, or of the fullest.

    Single bins only: rows that are clipped cost less than the noise of a bound that covers the
    tail (captured variance of digits at epsilon = 1: .92 against .87).
    """
    noisy = counts.astype(np.float64)
    clear = np.flatnonzero(noisy > _level(std, 1, 10 * noisy.size))  # noise in 0.01% of fits
    last = int(clear[-1]) if clear.size else int(np.argmax(noisy))
    return float(2.0 ** ((first_code + last) / 4))
