"""Sums with the number of rows, of measurements that run a user's code or certify a bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Floats, View, isqrt_up
from skdp.core.query import Noisy
from skdp.core.table import REPLACE_ONE, PrivateTable


def sum_sensitivity(view: View, adjacency: str, *, weight: int = 0) -> int:
    """Return the sensitivity of (weight * n, sum of q) in L2, in steps, rounded up.

    A: sqrt(weight**2 + norm**2). R: the count does not move; 2 norm (attained between opposite
    corners of a box). At least 1, so that the noise of a box without width has a scale.
    """
    if adjacency == REPLACE_ONE:
        return max(1, 2 * view.norm)
    return max(1, isqrt_up(weight**2 + view.norm**2))


def with_count(exact: NDArray, table: PrivateTable, weight: int) -> NDArray:
    """Return exact sums with weight * n behind them where the number of rows is private."""
    if table.n_is_public:
        return exact
    # Of Python integers where weight * n could overflow.
    dtype = exact.dtype if weight * table.n < 2**62 else object
    return np.concatenate([exact, np.array([weight * table.n], dtype=dtype)])


def without_count(noisy: Noisy, weight: int) -> tuple[Floats, float]:
    """Return noisy sums and the number of rows, at least 1, from what `with_count` made."""
    if noisy.terms.n_rows is not None:
        return noisy.values.astype(np.float64), max(1.0, float(noisy.terms.n_rows))
    return noisy.values[:-1].astype(np.float64), max(1.0, float(noisy.values[-1]) / weight)


def mean_in(
    view: View, noisy: Noisy, weight: int, *, count_error: bool = False
) -> tuple[Floats, Floats]:
    """Return the mean of a view's rows, clipped to it, and its standard error, in user units.

    With `count_error` the error has that of a private number of rows in it (first order).
    """
    total, count = without_count(noisy, weight)
    steps = np.clip(total / count, -view.half, view.half)
    value, std = view.center + steps * view.grid, noisy.std / count * view.grid
    if count_error and noisy.terms.n_rows is None:
        std = std * np.sqrt(1.0 + (steps / weight) ** 2)
    return value, std
