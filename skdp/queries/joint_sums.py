"""Counts of disjoint groups and a bounded sum in each, under one noise.

Queries on nearest centres and on trees use it. Guarantee: a row is in one group, so counts and sums
of all groups share one allowance. Proof: grouped_sums.md, "Joint noise".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import Floats
from skdp.core.mechanisms import laplace_std, sigma_up
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import reviewed
from skdp.core.table import REPLACE_ONE

__all__ = ["Joint", "joint_noise"]


@reviewed
@dataclass(frozen=True, eq=False)
class Joint:
    """By how much a count and a sum of each of some disjoint groups move together.

    With mu_c = unit_steps / sigma_c and mu_s = bound / sigma_s, a change (a, b) loses at most
    a mu_c**2 + b mu_s**2; in a pure session, with eps_c and eps_s for one row, at most `rows` times
    eps_c + eps_s. A weighted row adds the same fraction of the count and of its vector:
    grouped_sums.md, "Weighted rows".
    """

    bounds: NDArray[np.int64]  # on the norm of a row's vector in each group, shape (m,)
    # A row added or removed makes (1, 1); a replaced one (2, 2) if it changes group, else (0, 4).
    changes: tuple[tuple[int, int], ...]
    rows: int  # 1 for a row added or removed, 2 for a replaced row
    count_share: float = 0.5  # of the allowance, for the counts
    unit_steps: int = 1  # that a row adds to the count of its group, at most

    @classmethod
    def of(cls, relation: str, bounds: NDArray, count_share: float, unit_steps: int = 1) -> Joint:
        """Return the sensitivity for one row of a relation."""
        if relation == REPLACE_ONE:
            return cls(bounds, ((2, 2), (0, 4)), 2, count_share, unit_steps)
        return cls(bounds, ((1, 1),), 1, count_share, unit_steps)

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
        m, d, bounds = len(exact), exact.shape[1] - 1, self.bounds.astype(np.float64)
        count_scale: float | Fraction
        if meter.mu is not None:
            if any(b > a for a, b in self.changes):
                # Below one half the counts cost nothing: the change within a group is larger.
                q = max(q, 0.5)
            part, allowed = Fraction(q), meter.level(fraction)
            worst = max(a * q + b * (1 - q) for a, b in self.changes)
            mu = allowed * math.sqrt(1 / worst)
            count_scale = sigma_up(float(self.unit_steps), math.sqrt(q) * mu * (1 - 2**-50))
            mu_sum = math.sqrt(1 - q) * mu * (1 - 2**-50)
            sum_std = np.array([sigma_up(float(b), mu_sum) for b in self.bounds])
            count_std, sum_scale = count_scale, float(sum_std.max())
            scales = np.repeat(sum_std[:, None], d + 1, axis=1)
            scales[:, 0] = count_scale
            kinds = [("rounded Gaussian", "L2, joint")] * 2

            def loss(counts: Floats, sums: Floats) -> Any:
                return np.sqrt(np.sum((np.column_stack([counts, sums]) / scales) ** 2))

            def draw() -> NDArray:
                return samplers.rounded_gaussian(scales, scales.shape, entropy=meter.entropy)
        else:
            part, allowed = Fraction(q).limit_denominator(1000), float(epsilon)
            per_row = epsilon / self.rows
            count_scale = self.unit_steps / (part * per_row)
            per_bound = 1 / ((1 - part) * per_row)
            count_std = laplace_std(float(count_scale))
            sum_std = bounds * float(per_bound) * math.sqrt(d + 1)
            sum_scale = float(self.bounds.max() * per_bound)
            kinds = [("discrete Laplace", "L1, joint"), ("K-norm", "L2, joint")]

            def loss(counts: Floats, sums: Floats) -> Any:
                norms = np.sqrt((sums**2).sum(axis=1))
                lost = np.abs(counts).sum() / float(count_scale)
                return lost + (norms / bounds).sum() / float(per_bound)

            def draw() -> NDArray:
                counts = samplers.discrete_laplace(count_scale, (m,), entropy=meter.entropy)
                scales = [int(b) * per_bound for b in self.bounds]
                sums = samplers.k_norm(d, scales, m, entropy=meter.entropy)
                return np.concatenate([np.asarray(counts)[:, None], sums], axis=1)

        def distance(a: NDArray, b: NDArray) -> float:
            change = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
            return float(loss(change[:, 0], change[:, 1:]))

        noisy = meter.add_noise(name, exact, allowed, distance, draw)
        of_count, size = float(count_scale) / self.unit_steps, float(bounds.max()) * unit
        meter.record(f"{name}: counts", *kinds[0], 1.0, of_count, fraction * part)
        meter.record(f"{name}: sums", *kinds[1], size, sum_scale * unit, fraction * (1 - part))
        return noisy, np.column_stack([np.full(m, count_std), sum_std])


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
    unit_steps: int = 1,
) -> tuple[NDArray, float, NDArray, NDArray]:
    """Release counts (m,) of disjoint groups and bounded sums (m, d), for one step of a relation.

    Returns counts, count_std, sums and sum_std (m,), the deviation of a coordinate of each sum.
    """
    exact = np.concatenate([counts[:, None], sums], axis=1)
    size = Joint.of(relation, bounds, count_share, unit_steps)
    noisy, std = size.noised(meter, name, exact, share, unit)
    return noisy[:, 0], float(std[0, 0]), noisy[:, 1:], std[:, 1]
