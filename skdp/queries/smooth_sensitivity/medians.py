"""Quantiles under noise scaled to their smooth sensitivity.

Released: the q-quantile of every feature, clipped to its box. Guarantee: the smooth sensitivity is
that of the order statistic under the relation in force, rounded up on a public ladder
(`skdp.queries.smooth_sensitivity.ladders`). Proofs: smooth_sensitivity.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import View
from skdp.core.privacy_filter import Release, Share, exact_fraction, released
from skdp.core.query import Measurement, reviewed
from skdp.queries.smooth_sensitivity.ladders import Ladder, smooth_release
from skdp.queries.smooth_sensitivity.order_statistics import (
    log_smooth_add,
    log_smooth_median_add,
    log_smooth_replace,
    rank_of,
)
from skdp.tabular.rows import Rows

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable

__all__ = [
    "SmoothMedian",
    "quantile_log_smooth",
]


# --- quantiles ---------------------------------------------------------------------------------


def quantile_log_smooth(
    x: NDArray[np.int32], q: Fraction, low: int, high: int, ladder: Ladder, *, replace: bool
) -> tuple[int, int]:
    """Return the q-quantile of integers in [low, high] and the rung of its smooth sensitivity.

    Guarantee: |f - f'| is at most the smaller of the two rounded-up smooth sensitivities, and the
    rungs differ by at most STEPS, for tables that differ by one replaced row (`replace`), or by one
    row more or less. `x` is reordered.
    """
    if replace:
        m = rank_of(q, len(x))
        f, log_s = log_smooth_replace(x, m, low, high, ladder.beta, ladder.reach)
    elif q == Fraction(1, 2):
        f, log_s = log_smooth_median_add(x, low, high, ladder.beta, ladder.reach)
    else:
        f, log_s = log_smooth_add(x, q, low, high, ladder.beta, ladder.reach)
    return f, ladder.level(log_s)


def integer_columns(rows: Rows, view: View) -> NDArray[np.int32]:
    """Return the mapped rows, one feature a row of the result: shape (d, n)."""
    out = np.empty((view.n_dims, rows._n), dtype=np.int32)
    with np.errstate(all="ignore"):
        for start, stop in rows.spans(width=view.n_dims):
            out[:, start:stop] = view.map(rows.chunk(start, stop)).T
    return out


def order_halves(view: Any) -> list[int]:
    """Return the half widths of a view in steps; order statistics are computed in int32."""
    if float(view.half.max(initial=0.0)) >= 2**30:
        raise ValueError("view must have at most 2**30 steps a half width: Box(..., bits=17)")
    return [int(h) for h in view.half]


@reviewed
@dataclass(frozen=True, eq=False)
class SmoothMedian(Measurement):
    """The q-quantile of every feature, x_(ceil(q n)), under smooth-sensitivity noise.

    Guarantee: each feature takes an equal part of the share (of `separate_delta` too with Laplace
    noise, which is not pure). The smooth sensitivity of the order statistic under the relation
    in force (of no rows, it is the box's low end), rounded up on a public ladder; the result is
    clipped to the box.

    Parameters
    ----------
    view : View
        Without public bounds the smooth sensitivity would be infinite.
    q : float, default=0.5
        In [0, 1].
    noise : {"cauchy", "student", "laplace"}, default="cauchy"
    nu : int, default=3

    Returns
    -------
    release : Release
        std is NaN: how much noise there is depends on the rows, and is private.

    Raises
    ------
    ValueError
        If q or the noise is out of range; nothing has been taken from the allowance.
    """

    name: ClassVar[str] = "smooth median"
    view: Any
    q: float = 0.5
    noise: str = "cauchy"
    nu: int = 3

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        view, q, noise, nu = self.view, self.q, self.noise, self.nu
        if not 0 <= q <= 1:
            raise ValueError(f"q must be in [0, 1], got {q!r}")
        level = exact_fraction(float(q))
        half = order_halves(view)

        def statistic(ladders: list[Ladder]) -> tuple[NDArray, list[int]]:
            columns = integer_columns(table.rows, view)
            pairs = [
                quantile_log_smooth(x, level, -h, h, ladder, replace=table.n_is_public)
                for x, h, ladder in zip(columns, half, ladders, strict=True)
            ]
            return np.array([f for f, _ in pairs], dtype=np.int64), [j for _, j in pairs]

        noisy = smooth_release(
            meter,
            name,
            [max(1, 2 * h) for h in half],
            statistic,
            share,
            noise=noise,
            nu=nu,
            unit=float(view.grid.max()),
        )
        steps = np.array([min(max(int(v), -h), h) for v, h in zip(noisy, half, strict=True)])
        value: Any = view.center + steps * view.grid
        return released(value, np.full(view.n_dims, np.nan))
