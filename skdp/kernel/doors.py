"""What all doors of a session share: its rows, its relation, and sums with the number of rows.

Doors live in `skdp.kernel.session` and, one file a mechanism, in the mixins that it inherits. Every
door computes an exact statistic of the rows and hands it to the meter with its sensitivity.
"""

from __future__ import annotations

import os
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
from skdp.kernel.mechanisms import Mechanisms
from skdp.kernel.protect import Floats, View
from skdp.kernel.release import Release, Share
from skdp.kernel.rows import Rows

__all__ = ["Doors", "attempt", "interruptible", "quiet", "released"]


class _Silence:
    """Warnings that are off while anyone wants them off.

    The filters belong to the process, so the first who comes turns them off and the last who goes
    turns them on: nobody waits for another's code, which may wait for threads of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.simplefilter("ignore")
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users = max(self._users - 1, 0)
            if self._users == 0 and self._before is not None:
                self._before.__exit__(None, None, None)
                self._before = None

    def forked(self) -> None:
        """Start a child with warnings on: the threads that wanted them off are not in it."""
        self._lock = threading.Lock()
        self._users = min(self._users, 1)
        self.leave()


_SILENCE = _Silence()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SILENCE.forked)


@contextmanager
def quiet() -> Iterator[None]:
    """Turn warnings off: they may quote rows, or say what a user cannot act on."""
    with np.errstate(all="ignore"):
        _SILENCE.enter()
        try:
            yield
        finally:
            _SILENCE.leave()


class _Interrupted(KeyboardInterrupt):
    """A signal's exception: it comes from outside, not from code that a row made raise it."""

    def __init__(self, reason: BaseException | None = None) -> None:
        super().__init__()
        self.reason = reason


_watching = False  # whether the main thread is in `interruptible`


def _marked(previous: Callable[[int, Any], Any]) -> Callable[[int, Any], None]:
    """Return a signal handler that marks what another one raises."""

    def handler(number: int, frame: Any) -> None:
        reason: BaseException | None = None
        try:
            previous(number, frame)
        except BaseException as error:  # noqa: BLE001  a timeout, an exit, an interrupt
            reason = error
        if reason is not None:
            raise _Interrupted(reason)

    return handler


@contextmanager
def interruptible() -> Iterator[None]:
    """Mark exceptions of signal handlers (Ctrl-C, timeouts), so that `attempt` lets them through.

    They leave as they were raised, without what they interrupted. Signals reach the main thread
    only; elsewhere, what is raised is the callable's own.
    """
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        yield
        return
    found: dict[int, Any] = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handlers = {number: handler for number, handler in found.items() if callable(handler)}
    reason: BaseException | None = None
    _watching = True
    try:
        for number, handler in handlers.items():
            signal.signal(number, _marked(handler))
        yield
    except _Interrupted as stopped:
        reason = stopped.reason or KeyboardInterrupt()
    finally:
        _watching = False
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if reason is not None:
        reason.__context__ = None  # a frame that was interrupted may hold rows
        raise reason.with_traceback(None) from None


def attempt(make: Callable[[], Any], default: Any, restart: Callable[[int], None]) -> Any:
    """Return what a user's code makes of a row or block, or the public default if it raises.

    It finds numpy's and Python's global generators in the same state each time: left alone, they
    would tell it how much had been drawn for earlier rows.

    Whatever it raises stays inside, KeyboardInterrupt and SystemExit too. Only what a signal's
    handler raised gets through, as a new exception: the one raised may carry what quotes a row.
    """
    restart(0)
    stopped: _Interrupted | None = None
    try:
        return make()
    except _Interrupted as error:
        stopped = _Interrupted(error.reason)
    except BaseException:  # noqa: BLE001
        pass
    if stopped is not None:
        raise stopped
    return default


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
