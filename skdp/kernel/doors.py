"""What all doors of a session share: its rows, its relation, and sums with the number of rows.

Doors live in `skdp.kernel.session` and, one file a mechanism, in the mixins that it inherits. Every
door computes an exact statistic of the rows and hands it to the meter with its sensitivity.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exceptions import PrivacyLeakError
from skdp.kernel import statistics as stats
from skdp.kernel.protect import Floats, View
from skdp.kernel.release import Meter, Release, Share
from skdp.kernel.rows import Rows

__all__ = ["Doors", "attempt", "interruptible", "quiet", "released"]


_QUIET = threading.RLock()


@contextmanager
def quiet() -> Iterator[None]:
    """Turn warnings off: they may quote rows, or say what a user cannot act on.

    The filters belong to the process: without the lock, two threads that turn warnings off at once
    would leave them off for good.
    """
    with _QUIET, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Interrupted(KeyboardInterrupt):
    """An interrupt by the user, not one that a row makes a callable raise."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Mark the interrupts that come from outside, so that `attempt` can tell them apart.

    Signals reach the main thread only; elsewhere, what is raised is the callable's own.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield
        return

    def handler(number: int, frame: Any) -> None:
        try:
            previous(number, frame)
        except KeyboardInterrupt:
            pass
        else:
            return
        raise _Interrupted

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def attempt(make: Callable[[], Any], default: Any, restart: Callable[[int], None]) -> Any:
    """Return what a user's code makes of a row or block, or the public default if it raises.

    It finds numpy's and Python's global generators in the same state each time: left alone, they
    would tell it how much had been drawn for earlier rows.

    Whatever it raises stays inside, KeyboardInterrupt and SystemExit too; only the user's own
    interrupt gets through, as a new one: the one raised may carry what quotes a row.
    """
    restart(0)
    try:
        return make()
    except _Interrupted:
        stopped = True
    except BaseException:  # noqa: BLE001
        stopped = False
    if stopped:
        raise _Interrupted
    return default


def released(value: NDArray | float, std: Any) -> Release:
    """Freeze a released array."""
    array = np.array(value, dtype=np.float64)
    array.setflags(write=False)
    return Release(array, std)


class Doors(Meter):
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
            with quiet(), interruptible():
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
        both = np.concatenate([exact, np.array([weight * n], dtype=exact.dtype)])
        noisy, std = self.vector(name, both, sensitivity, share, unit=unit)
        return noisy[:-1].astype(np.float64), std, max(1.0, float(noisy[-1]) / weight)
