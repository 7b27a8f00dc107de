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

    def _scales(self, level: Any, *, pure: bool) -> tuple[Fraction, Any, Any, Any]:
        """Return the counts' part of the level, scales of counts and sums, the level of sums."""
        q = min(max(float(self.count_share), 0.01), 0.99)
        if pure:
            part, per_row = Fraction(q).limit_denominator(1000), level / self.rows
            of_sums = (1 - part) * per_row
            count_scale = self.unit_steps / (part * per_row)
            return part, count_scale, self.bounds * float(1 / of_sums), of_sums
        if any(b > a for a, b in self.changes):
            # Below one half the counts cost nothing: the change within a group is larger.
            q = max(q, 0.5)
        worst = max(a * q + b * (1 - q) for a, b in self.changes)
        mu = level * math.sqrt(1 / worst)
        of_counts, of_sums = (math.sqrt(p) * mu * (1 - 2**-50) for p in (q, 1 - q))
        sum_scales = np.array([sigma_up(b, of_sums) for b in self.bounds])
        return Fraction(q), sigma_up(self.unit_steps, of_counts), sum_scales, of_sums

    def std(self, entries: int, level: Any, *, pure: bool) -> NDArray[np.float64]:
        """Return the deviations, in steps, of each group's count and of an entry of its sum."""
        _, count, sums, _ = self._scales(Fraction(level) if pure else level, pure=pure)
        count = laplace_std(float(count)) if pure else count
        sums = sums * math.sqrt(entries // len(sums)) if pure else sums
        return np.column_stack([np.full(len(sums), count), sums])

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float
    ) -> tuple[NDArray, NDArray]:
        """Return columns of counts and sums with noise, and the deviations of each group's."""
        fraction, epsilon = meter.take(share, name)
        m, d = len(exact), exact.shape[1] - 1
        level = epsilon if meter.pure else meter.level(fraction)
        part, count_scale, sum_scales, of_sums = self._scales(level, pure=meter.pure)
        if not meter.pure:
            scales = np.repeat(sum_scales[:, None], d + 1, axis=1)
            scales[:, 0] = count_scale
            kinds = [("rounded Gaussian", "L2, joint")] * 2

            def loss(counts: Floats, sums: Floats) -> Any:
                return np.sqrt(np.sum((np.column_stack([counts, sums]) / scales) ** 2))

            def draw() -> NDArray:
                return samplers.rounded_gaussian(scales, scales.shape, entropy=meter.entropy)
        else:
            kinds = [("discrete Laplace", "L1, joint"), ("K-norm", "L2, joint")]

            def loss(counts: Floats, sums: Floats) -> Any:
                norms = np.sqrt((sums**2).sum(axis=1))
                return np.abs(counts).sum() / float(count_scale) + (norms / sum_scales).sum()

            def draw() -> NDArray:
                counts = samplers.discrete_laplace(count_scale, (m,), entropy=meter.entropy)
                exactly = [int(b) / of_sums for b in self.bounds]
                sums = samplers.k_norm(d, exactly, m, entropy=meter.entropy)
                return np.concatenate([np.asarray(counts)[:, None], sums], axis=1)

        def distance(a: NDArray, b: NDArray) -> float:
            change = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
            return float(loss(change[:, 0], change[:, 1:]))

        noisy = meter.add_noise(name, exact, float(level), distance, draw)
        of_count, size = float(count_scale) / self.unit_steps, float(self.bounds.max()) * unit
        meter.record(f"{name}: counts", *kinds[0], 1.0, of_count, fraction * part)
        scale = float(sum_scales.max()) * unit
        meter.record(f"{name}: sums", *kinds[1], size, scale, fraction * (1 - part))
        return noisy, self.std(exact.size, level, pure=meter.pure)


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
