"""What all doors of a session share: its rows, its relation, and sums with the number of rows.

Doors live in `skdp.kernel.session` and, one file a mechanism, in the mixins that it inherits. Every
door computes an exact statistic of the rows and hands it to the meter with its sensitivity.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exceptions import PrivacyLeakError
from skdp.kernel import statistics as stats
from skdp.kernel.isolation import interruptible, quiet
from skdp.kernel.mechanisms import Mechanisms
from skdp.kernel.protect import Floats, View
from skdp.kernel.release import Release, Share
from skdp.kernel.rows import Rows
from skdp.kernel.trackers import untracked

__all__ = ["Doors", "released"]


def released(value: NDArray | float, std: Any) -> Release:
    """Freeze a released array."""
    array = np.array(value, dtype=np.float64)
    array.setflags(write=False)
    return Release(array, std)


class Doors(Mechanisms):
    """The rows of a session beside its meter; `Session` and its mixins inherit it."""

    def __init__(self, rows: Rows, **options: Any) -> None:
        super().__init__(rows, **options)
        self._rows = rows
        self.n_features = rows.n_features

    @contextmanager
    def _foreign(self) -> Iterator[None]:
        """Run a user's code on rows, which gets neither warnings through nor a release."""
        with self._lock:
            self._busy += 1
        try:
            with quiet(), interruptible(), untracked():
                yield
        finally:
            with self._lock:
                self._busy -= 1

    @property
    def _replace(self) -> bool:
        return self.adjacency == stats.REPLACE_ONE

    @property
    def n_rows(self) -> int:
        """Number of rows, where the relation makes it public."""
        if not self._replace:
            raise PrivacyLeakError("the number of rows is private under 'add_or_remove_one'")
        return self._rows._n

    def _mean_of(
        self, name: str, view: View, exact: NDArray, n: int, weight: int, share: Share
    ) -> Release:
        """Release the mean of a view's rows from their exact sum; see `mean`."""
        size = stats.sum_sensitivity(view, self.adjacency, weight=weight)
        unit = float(view.grid.max())
        total, std, count = self._with_count(name, exact, n, weight, size, share, unit)
        steps = np.clip(total / count, -view.half, view.half)
        return released(view.center + steps * view.grid, std / count * view.grid)

    def _count_of(self, n: float, std: float, weight: int) -> Release:
        """Return the number of rows as a release, from the noise of `weight` times itself."""
        return released(n, 0.0 if self._replace else std / weight)

    def _with_count(
        self,
        name: str,
        exact: NDArray,
        n: int,
        weight: int,
        sensitivity: int,
        share: Share,
        unit: float,
    ) -> tuple[Floats, float, float]:
        """Release sums with the number of rows (R: it is public; A: weight * n in the vector).

        Returns
        -------
        sums : ndarray
            In steps.
        std : float
        count : float
            At least 1.
        """
        if self._replace:
            noisy, std = self.vector(name, exact, sensitivity, share, unit=unit)
            return noisy.astype(np.float64), std, max(1.0, float(n))
        # Of Python integers where weight * n could overflow.
        dtype = exact.dtype if weight * n < 2**62 else object
        both = np.concatenate([exact, np.array([weight * n], dtype=dtype)])
        noisy, std = self.vector(name, both, sensitivity, share, unit=unit)
        return noisy[:-1].astype(np.float64), std, max(1.0, float(noisy[-1]) / weight)
