"""Counts of disjoint groups and a bounded sum in each, under one noise.

Nothing is released here; the queries on nearest centres and on trees do. Guarantee: a row is in one
group, so counts and sums of all groups share one allowance. Proof: grouped_sums.md, "Joint
noise".
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.core import mechanisms
from skdp.core import noise as samplers
from skdp.core.privacy_filter import Meter, Share
from skdp.core.table import REPLACE_ONE

__all__ = ["joint_noise"]


def joint_noise(
    meter: Meter,
    name: str,
    counts: NDArray,
    sums: NDArray,
    bounds: NDArray,
    share: Share,
    count_share: float,
    relation: str,
    *,
    unit: float = 1.0,
    one: int = 1,
) -> tuple[NDArray, float, NDArray, NDArray]:
    """Release counts of disjoint groups and a bounded sum in each, in one release.

    A row adds one to the count of its group and a vector of norm at most bounds[group] to its
    sum. A: loss mu_c**2 + mu_s**2 (pure: eps_c + eps_s). R: a row leaves one group for another,
    2 mu_c**2 + 2 mu_s**2, or changes within one, 4 mu_s**2; the larger counts (pure:
    2 eps_c + 2 eps_s). mu_c = 1 / sigma_c, mu_s = bound / sigma_s.

    Parameters
    ----------
    counts : ndarray of shape (m,)
    sums : ndarray of shape (m, d)
    bounds : ndarray of shape (m,)
        Integers.
    count_share : float
        Part of the share that goes to the counts, in (0, 1).
    relation : {"replace_one", "add_or_remove_one"}
        What a step between two tables is.
    one : int
        What a row adds to the count of its group; a row with a weight adds at most that, and to the
        sum the same part of its vector: grouped_sums.md, "Weighted rows".

    Returns
    -------
    counts, count_std, sums, sum_std
        sum_std has shape (m,), one a coordinate of the group's sum.
    """
    fraction, epsilon = meter.take(share, name)
    exact = np.concatenate([counts[:, None], sums], axis=1)
    q = min(max(float(count_share), 0.01), 0.99)
    if meter.mu is not None:
        return _joint_gaussian(meter, name, exact, bounds, fraction, q, relation, unit, one)
    return _joint_pure(meter, name, exact, bounds, fraction, epsilon, q, relation, unit, one)


def _joint_gaussian(
    meter: Meter,
    name: str,
    exact: NDArray,
    bounds: NDArray,
    share: Fraction,
    q: float,
    relation: str,
    unit: float,
    one: int,
) -> tuple[NDArray, float, NDArray, NDArray]:
    """Release columns of counts and sums with Gaussian noise; see `joint_noise`."""
    mu = meter.level(share)
    if relation == REPLACE_ONE:
        # Below one half the counts' part costs nothing: 4 mu_s**2 is the larger term.
        q = max(q, 0.5)
        mu = mu * math.sqrt(0.5)
    sigma_count = mechanisms.sigma_up(float(one), math.sqrt(q) * mu * (1 - 2**-50))
    mu_sum = math.sqrt(1 - q) * mu * (1 - 2**-50)
    sigma_sums = np.array([mechanisms.sigma_up(float(b), mu_sum) for b in bounds])
    scales = np.repeat(sigma_sums[:, None], exact.shape[1], axis=1)
    scales[:, 0] = sigma_count

    def distance(a: NDArray, b: NDArray) -> float:
        difference = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
        return float(np.sqrt(np.sum((difference / scales) ** 2)))

    released = meter.add_noise(
        name, exact, meter.level(share), distance,
        lambda: samplers.rounded_gaussian(scales, scales.shape, entropy=meter.entropy),
    )  # fmt: skip
    what, norm, part = "rounded Gaussian", "L2, joint", Fraction(q)
    size, scale = float(bounds.max()) * unit, float(sigma_sums.max()) * unit
    meter.record(f"{name}: counts", what, norm, 1.0, sigma_count / one, share * part)
    meter.record(f"{name}: sums", what, norm, size, scale, share * (1 - part))
    return released[:, 0], sigma_count, released[:, 1:], sigma_sums


def _joint_pure(
    meter: Meter,
    name: str,
    exact: NDArray,
    bounds: NDArray,
    share: Fraction,
    epsilon: Fraction,
    q: float,
    relation: str,
    unit: float,
    one: int,
) -> tuple[NDArray, float, NDArray, NDArray]:
    """Release columns of counts and sums with Laplace and K-norm noise; see `joint_noise`."""
    m, d = len(exact), exact.shape[1] - 1
    per_row = epsilon / 2 if relation == REPLACE_ONE else epsilon
    part = Fraction(q).limit_denominator(1000)
    t_count = one / (part * per_row)
    t_sum = 1 / ((1 - part) * per_row)  # times the group's bound

    def distance(a: NDArray, b: NDArray) -> float:
        difference = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
        loss = np.abs(difference[:, 0]).sum() / float(t_count)
        norms = np.sqrt((difference[:, 1:] ** 2).sum(axis=1))
        return float(loss + (norms / bounds.astype(np.float64)).sum() / float(t_sum))

    def draw() -> NDArray:
        noisy_counts = samplers.discrete_laplace(t_count, (m,), entropy=meter.entropy)
        scales = [int(b) * t_sum for b in bounds]
        noisy_sums = samplers.k_norm(d, scales, m, entropy=meter.entropy)
        return np.concatenate([np.asarray(noisy_counts)[:, None], noisy_sums], axis=1)

    released = meter.add_noise(name, exact, float(epsilon), distance, draw)
    counted, added = "discrete Laplace", "K-norm"
    size, scale = float(bounds.max()) * unit, float(bounds.max() * t_sum) * unit
    meter.record(f"{name}: counts", counted, "L1, joint", 1.0, float(t_count) / one, share * part)
    meter.record(f"{name}: sums", added, "L2, joint", size, scale, share * (1 - part))
    std = bounds.astype(np.float64) * float(t_sum) * math.sqrt(d + 1)
    return released[:, 0], mechanisms.laplace_std(float(t_count)), released[:, 1:], std
