"""Centres and rates of kernels, and what it costs to publish rows as centres; all of it public.

Nothing is released here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.budget.amounts import round_up
from skdp.density_ratio._base import check_candidates
from skdp.density_ratio._solve import median_distance

Floats = NDArray[np.float64]

PUBLISHED = "published_private_rows"
_SCALES = (1.0, 0.5)  # private choice of the bandwidth: these times the median public distance


def published_delta(rate: Fraction, delta: float) -> float:
    """Return the share of the private rows that is published, rounded up; refuse a smaller delta.

    The nearest float to the share is enough; what is charged is rounded up all the same.
    """
    if delta < float(rate):
        raise ValueError(
            f"delta must be at least {round_up(rate)!r}, the share of the private rows that "
            f"centers={PUBLISHED!r} publishes, got {delta!r}"
        )
    return round_up(rate)


def stated_centers(centers: Any, n_features: int, most: int) -> Floats | None:
    """Return centres that the user states, or None for a word."""
    if isinstance(centers, str):
        return None
    text = "centers must be 'public', 'noisy', an array of shape (n_centers, n_features)"
    stated = np.zeros((0, 0))
    good = True
    try:
        stated = np.asarray(centers, dtype=np.float64)
    except (TypeError, ValueError):
        good = False
    good = good and stated.ndim == 2 and 0 < len(stated) <= most
    if not good or stated.shape[1] != n_features or not np.isfinite(stated).all():
        raise ValueError(f"{text} of finite numbers, or {PUBLISHED!r}")
    return stated


def rates_of(gamma: Any, kernel: str, public: Floats) -> Floats:
    """Return the rates to choose from, in ascending order; they depend on public rows only."""
    stated = check_candidates(gamma, "gamma")
    if stated is not None:
        return np.unique(stated)
    some = np.unique(np.linspace(0, len(public) - 1, min(len(public), 500)).astype(np.intp))
    typical = median_distance(public[some])
    rates = 1.0 / (np.array(_SCALES) * min(max(typical, 1e-100), 1e100))
    return rates if kernel == "laplacian" else 0.5 * rates**2
