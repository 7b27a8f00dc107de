"""Counts of disjoint groups and a bounded sum in each, under one noise.

The queries on nearest centres and on trees use it. Guarantee: a row is in one group, so counts and
sums of all groups share one allowance. Proof: grouped_sums.md, "Joint noise".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.core import mechanisms
from skdp.core import noise as samplers
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import reviewed
from skdp.core.table import REPLACE_ONE

__all__ = ["Joint", "joint_noise"]


@reviewed
@dataclass(frozen=True, eq=False)
class Joint:
    """By how much a count and a sum of each of some disjoint groups move together.

    With mu_c = one / sigma_c and mu_s = bound / sigma_s, a change (a, b) loses at most
    a mu_c**2 + b mu_s**2. Pure, with eps_c and eps_s for one row, a change loses at most
    `rows` times eps_c + eps_s.

    Attributes
    ----------
    bounds : ndarray of int of shape (m,)
        Of the norm of what a row adds to the sum of each group.
    changes : tuple of (int, int)
        (1, 1) for a row added or removed. For a replaced row (2, 2), if it leaves one group for
        another, and (0, 4), if it changes within one.
    rows : int
        1 for a row added or removed, 2 for a replaced row.
    count_share : float
        Part of the allowance that goes to the counts, in (0, 1).
    one : int
        What a row adds to the count of its group; a row with a weight adds at most that, and to the
        sum the same part of its vector: grouped_sums.md, "Weighted rows".
    """

    bounds: NDArray[np.int64]
    changes: tuple[tuple[int, int], ...]
    rows: int
    count_share: float = 0.5
    one: int = 1

    @classmethod
    def of(cls, relation: str, bounds: NDArray, count_share: float, one: int = 1) -> Joint:
        """Return the sensitivity for one row of a relation."""
        if relation == REPLACE_ONE:
            return cls(bounds, ((2, 2), (0, 4)), 2, count_share, one)
        return cls(bounds, ((1, 1),), 1, count_share, one)

    def times(self, k: int) -> Joint:
        """Return the bounds for k rows."""
        changes = tuple((k * k * a, k * k * b) for a, b in self.changes)
        return replace(self, changes=changes, rows=k * self.rows)

    def either(self, other: Joint) -> Joint:
        """Return bounds for a change of this kind or of the other."""
        return replace(self, changes=self.changes + other.changes, rows=max(self.rows, other.rows))

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float
    ) -> tuple[NDArray, NDArray]:
        """Return columns of counts and sums with noise, and the deviations of each group's."""
        fraction, epsilon = meter.take(share, name)
        q = min(max(float(self.count_share), 0.01), 0.99)
        if meter.mu is not None:
            return self._gaussian(meter, name, exact, fraction, q, unit)
        return self._pure(meter, name, exact, fraction, epsilon, q, unit)

    def _gaussian(
        self, meter: Meter, name: str, exact: NDArray, share: Fraction, q: float, unit: float
    ) -> tuple[NDArray, NDArray]:
        if any(b > a for a, b in self.changes):
            # Below one half the counts' part costs nothing: the change within a group is larger.
            q = max(q, 0.5)
        worst = max(a * q + b * (1 - q) for a, b in self.changes)
        mu = meter.level(share) * math.sqrt(1 / worst)
        sigma_count = mechanisms.sigma_up(float(self.one), math.sqrt(q) * mu * (1 - 2**-50))
        mu_sum = math.sqrt(1 - q) * mu * (1 - 2**-50)
        sigma_sums = np.array([mechanisms.sigma_up(float(b), mu_sum) for b in self.bounds])
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
        size, scale = float(self.bounds.max()) * unit, float(sigma_sums.max()) * unit
        count_scale = sigma_count / self.one
        meter.record(f"{name}: counts", what, norm, 1.0, count_scale, share * part)
        meter.record(f"{name}: sums", what, norm, size, scale, share * (1 - part))
        return released, np.column_stack([np.full(len(exact), sigma_count), sigma_sums])

    def _pure(
        self,
        meter: Meter,
        name: str,
        exact: NDArray,
        share: Fraction,
        epsilon: Fraction,
        q: float,
        unit: float,
    ) -> tuple[NDArray, NDArray]:
        m, d = len(exact), exact.shape[1] - 1
        per_row = epsilon / self.rows
        part = Fraction(q).limit_denominator(1000)
        t_count = self.one / (part * per_row)
        t_sum = 1 / ((1 - part) * per_row)  # times the group's bound
        bounds = self.bounds.astype(np.float64)

        def distance(a: NDArray, b: NDArray) -> float:
            difference = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
            loss = np.abs(difference[:, 0]).sum() / float(t_count)
            norms = np.sqrt((difference[:, 1:] ** 2).sum(axis=1))
            return float(loss + (norms / bounds).sum() / float(t_sum))

        def draw() -> NDArray:
            noisy_counts = samplers.discrete_laplace(t_count, (m,), entropy=meter.entropy)
            scales = [int(b) * t_sum for b in self.bounds]
            noisy_sums = samplers.k_norm(d, scales, m, entropy=meter.entropy)
            return np.concatenate([np.asarray(noisy_counts)[:, None], noisy_sums], axis=1)

        released = meter.add_noise(name, exact, float(epsilon), distance, draw)
        counted, added, count_scale = "discrete Laplace", "K-norm", float(t_count) / self.one
        size = float(self.bounds.max()) * unit
        scale = float(self.bounds.max() * t_sum) * unit
        meter.record(f"{name}: counts", counted, "L1, joint", 1.0, count_scale, share * part)
        meter.record(f"{name}: sums", added, "L2, joint", size, scale, share * (1 - part))
        count_std = np.full(m, mechanisms.laplace_std(float(t_count)))
        return released, np.column_stack([count_std, bounds * float(t_sum) * math.sqrt(d + 1)])


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
    """Release counts of disjoint groups and a bounded sum in each, for one step of a relation.

    Parameters
    ----------
    counts : ndarray of shape (m,)
    sums : ndarray of shape (m, d)
    bounds, count_share, one
        As in `Joint`.
    relation : {"replace_one", "add_or_remove_one"}
        What a step between two tables is.

    Returns
    -------
    counts, count_std, sums, sum_std
        sum_std has shape (m,), one a coordinate of the group's sum.
    """
    exact = np.concatenate([counts[:, None], sums], axis=1)
    size = Joint.of(relation, bounds, count_share, one)
    released, std = size.noised(meter, name, exact, share, unit)
    return released[:, 0], float(std[0, 0]), released[:, 1:], std[:, 1]
