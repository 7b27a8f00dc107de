"""Centres and rates of kernels, and what it costs to publish rows as centres; all of it public.

Nothing is released here.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.budget.ambient import outside_level
from skdp.density_ratio._base import check_candidates
from skdp.density_ratio._solve import median_distance
from skdp.exceptions import PublishedRowsWarning
from skdp.loss.conversions import round_up

Floats = NDArray[np.float64]

PUBLISHED = "published_private_rows"
_SCALES = (1.0, 0.5)  # private choice of the bandwidth: these times the median public distance


def box_of_centers(stated: tuple[Floats, Floats] | None, public: Floats) -> tuple[Floats, Floats]:
    """Return the public box in which noisy centres lie: the stated one, or that of public rows."""
    if stated is None:
        far = 1e100  # the noise has a scale of its own beyond
        return public.min(axis=0).clip(-far, far), public.max(axis=0).clip(-far, far)
    if max(np.abs(side).max() for side in stated) > 1e100:
        raise ValueError("bounds must be 'public' or a pair (low, high) within 1e100 of 0")
    return stated


def refuse_published(adjacency: str, rate: float | None, many: bool) -> None:
    """Raise where rows cannot be published: those of a unit of many, or at a private rate."""
    if many:
        raise ValueError(
            f"centers must not be {PUBLISHED!r} where a unit has many rows (groups): each would be "
            "published with a probability of its own"
        )
    if adjacency == "add_or_remove_one" and rate is None:
        raise ValueError(
            f"sampling_rate must be given for centers={PUBLISHED!r} under "
            "'add_or_remove_one': delta = n_centers / n would publish the number of rows"
        )


def warn_published() -> None:
    """Warn the caller of a fit that it publishes rows."""
    warnings.warn(
        f"centers={PUBLISHED!r} publishes raw private rows: each private row ends "
        "up in centers_ with the probability charged as delta.",
        PublishedRowsWarning,
        stacklevel=outside_level(),
    )


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
    except (TypeError, ValueError, OverflowError):
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
