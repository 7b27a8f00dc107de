"""Bounds from released octave histograms: post-processing, and always an answer.

Private approximate bounds: values are counted by sign and octave (statistics), released with
noise, and the outermost bins whose noisy count stands clear of the noise give the bounds. Where
none does, what is known of the rows' extremes serves, then the fullest bin: a useless bound is
allowed when n * epsilon is tiny, an error or a look at the data is not.

References
----------
Wilson et al. 2020, "Differentially private SQL with bounded user contribution", section 5.1.1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skdp.kernel.protect import Floats
from skdp.kernel.statistics import exponent_edges

__all__ = ["box_from_octaves", "norm_from_octaves"]


def _threshold(std: float, n_bins: int, failure: float = 1e-4) -> float:
    """Return a level that noise alone passes in any of n_bins bins with probability < failure.

    Holds for Laplace and for Gaussian noise of this standard deviation: both tails are below
    exp(-sqrt(2) t / std) for t beyond three standard deviations.
    """
    return std / math.sqrt(2) * math.log(n_bins / failure)


def _outermost(counts: Floats, threshold: float) -> tuple[int, int] | None:
    """Return the first and last bin above the threshold, or None."""
    above = np.flatnonzero(counts > threshold)
    return (int(above[0]), int(above[-1])) if above.size else None


def box_from_octaves(
    own: NDArray, own_std: float, common: NDArray, common_std: float
) -> tuple[Floats, Floats]:
    """Return (low, high) per feature from noisy octave histograms.

    Parameters
    ----------
    own : ndarray of shape (d, bins)
        Noisy histogram of each feature.
    common : ndarray of shape (2, bins)
        Noisy histograms of the rows' least and greatest values.
    own_std, common_std : float
        Standard deviation of the noise.
    """
    lower, upper = exponent_edges()
    n_bins = lower.size
    common = common.astype(np.float64)
    level = _threshold(common_std, 2 * n_bins)
    least, greatest = _outermost(common[0], level), _outermost(common[1], level)
    # Nothing clear of the noise: the fullest bin is the best guess, and public.
    first = least[0] if least else int(np.argmax(common[0]))
    last = greatest[1] if greatest else int(np.argmax(common[1]))
    first, last = min(first, last), max(first, last)
    low = np.full(len(own), lower[first])
    high = np.full(len(own), upper[last])
    level = _threshold(own_std, own.size)
    for j, histogram in enumerate(own.astype(np.float64)):
        found = _outermost(histogram, level)
        if found:
            low[j], high[j] = lower[found[0]], upper[found[1]]
    # Positive data far from zero keep their lower octave; a range that includes the zero bin
    # starts or ends at zero, not at the bin's tiny edge.
    tiny = upper[n_bins // 2]
    low = np.where(low == -tiny, 0.0, low)
    high = np.where(high == tiny, 0.0, high)
    flat = high <= low
    return np.where(flat, low - tiny, low), np.where(flat, low + tiny, high)


def norm_from_octaves(counts: NDArray, std: float, first_code: int) -> float:
    """Return the upper edge of the outermost quarter-octave clear of the noise."""
    counts = counts.astype(np.float64)
    found = _outermost(counts, _threshold(std, counts.size))
    last = found[1] if found else int(np.argmax(counts))
    return float(2.0 ** ((first_code + last) / 4))
