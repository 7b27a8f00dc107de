"""Moments of the columns: mean and mean square of each, with the number of rows.

Released: for every column of a box the mean and the mean square of its clipped values, in half
widths, from one vector of sums.

Guarantee: each row adds a bounded integer vector that depends on the row only. Proof: moments.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import Floats, ScaledBox, isqrt_up
from skdp.core.mechanisms import Spherical
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, reviewed
from skdp.core.sums import with_count, without_count
from skdp.core.table import REPLACE_ONE, PrivateTable, Rows, as_total, fold, total_dtype

__all__ = [
    "Moments",
    "exact_moments",
    "moments_sensitivity",
]


def exact_moments(rows: Rows, view: ScaledBox) -> tuple[NDArray, int, int]:
    """Return (sums of q and of p = round(q**2 / Q) - Q/2 for every feature, Q, n), exactly.

    q in [-Q, Q] is the row in units of each feature's half width; see moments.md.
    """
    scale = view.steps
    d = view.n_dims
    dtype = total_dtype(rows, scale)

    def add(chunk: Floats, totals: list[NDArray]) -> None:
        q = view.map(chunk)
        ones = np.ones(len(q))
        totals[0][:d] += as_total(ones @ q, dtype)
        # q**2 is above 2**53, so it is rounded: one operation on one number.
        q *= q
        q *= 1.0 / scale
        np.rint(q, out=q)
        totals[0][d:] += as_total(ones @ q, dtype) - len(q) * (scale // 2)

    (total,) = fold(rows, add, lambda: [np.zeros(2 * d, dtype=dtype)], width=2 * d)
    return total, scale, rows._n


def moments_sensitivity(n_dims: int, scale: int, adjacency: str, *, weight: int = 0) -> int:
    """Return the L2 sensitivity of (weight * n, `exact_moments`), in steps, rounded up.

    Squared: 5/4 d scale**2 + weight**2 (A), 4 d scale**2 (R, where the count does not move).
    Holds for the rounded integers: moments.md.
    """
    if adjacency == REPLACE_ONE:
        return isqrt_up(4 * n_dims * scale**2)
    return isqrt_up(-(-5 * n_dims * scale**2 // 4) + weight**2)


@reviewed
@dataclass(frozen=True, eq=False)
class Moments(Query):
    """Mean and mean square of every feature, relative to the box; and the number of rows.

    With u = (x - centre) / half width in [-1, 1], each row contributes (u, u**2 - 1/2) per feature.
    Guarantee: A: squared L2 sensitivity d (1 + 1/4), and w**2 more for the count; R: 2 sqrt(d)
    (u = 1 against u = -1). In integers: u = q / Q with one grid a feature, u**2 as
    round(q**2 / Q) / Q; proof for the rounded map in moments.md.

    The answer is (mean, mean_square, n): two `Release`, in [-1, 1] and [0, 1], and a float.
    """

    name: ClassVar[str] = "moments"
    low: ArrayLike
    high: ArrayLike

    @property
    def _view(self) -> ScaledBox:
        return ScaledBox(self.low, self.high)

    @property
    def unit(self) -> float:
        return 1 / self._view.steps

    def exact(self, table: PrivateTable) -> NDArray:
        total, scale, _ = exact_moments(table.rows, self._view)
        return with_count(total, table, scale)

    def sensitivity(self, relation: str) -> Spherical:
        view = self._view
        size = moments_sensitivity(view.n_dims, view.steps, relation, weight=view.steps)
        return Spherical(size)

    def decoded(self, noisy: Noisy) -> tuple[Release, Release, float]:
        view = self._view
        d, scale = view.n_dims, view.steps
        sums, count = without_count(noisy, scale)
        values = sums / count / scale
        error = noisy.std / count / scale
        mean = np.clip(values[:d], -1.0, 1.0)
        square = np.clip(values[d:] + 0.5, 0.0, 1.0)
        return released(mean, error), released(square, error), count
