"""Distributions of noise at integers, and the test of samples against them."""

from __future__ import annotations

import numpy as np
from scipy import special, stats

ALPHA = 1e-6
REJECT = 1e-12


def p_of_bins(values, edges, cdf):
    """P-value of chi-squared over the bins (-inf, e_0], (e_0, e_1], ..., (e_m, inf)."""
    expected = np.diff(np.concatenate([[0.0], cdf(np.asarray(edges, dtype=float)), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)
    keep = expected * len(values) >= 10
    expected, observed = expected[keep], observed[keep]
    if (~keep).any():  # the rest is one more bin
        expected = np.append(expected, max(1.0 - expected.sum(), 1e-300))
        observed = np.append(observed, len(values) - observed.sum())
    statistic = np.sum((observed - len(values) * expected) ** 2 / (len(values) * expected))
    return stats.chi2.sf(statistic, len(expected) - 1)


def rounded_laplace_cdf(t):
    """CDF at integers of a rounded continuous Laplace variable."""
    return lambda k: stats.laplace.cdf((np.asarray(k, dtype=float) + 0.5) / t)


def gaussian_cdf(sigma):
    """CDF at integers of a rounded Gaussian variable."""
    return lambda k: special.ndtr((np.asarray(k, dtype=float) + 0.5) / sigma)


def edges_for(scale, quantile):
    """Bin edges: every integer in reach, or 128 quantiles."""
    if scale < 20:
        return np.arange(-int(12 * scale) - 2, int(12 * scale) + 3)
    q = np.arange(1, 128) / 128
    return np.unique(np.rint(quantile(q) * scale).astype(np.int64))
