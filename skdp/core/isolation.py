"""Code that rows may reach, without its warnings and exceptions: nothing of a row leaves with them.

Nothing is released here. Whoever reads cells, or runs a user's code on rows, does it within
`suppress_warnings` and `interruptible`, and asks `run_isolated` for what may raise.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = [
    "interruptible",
    "no_restart",
    "run_isolated",
    "suppress_warnings",
    "untracked",
]


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
def suppress_warnings() -> Iterator[None]:
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


_SIGNALS = tuple(signal.valid_signals())
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
    """Mark exceptions of signal handlers (Ctrl-C, timeouts): `run_isolated` lets them through.

    They leave as they were raised, without what they interrupted. Signals reach the main thread
    only; elsewhere, what is raised is the callable's own.
    """
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        yield
        return
    found: dict[int, Any] = {number: signal.getsignal(number) for number in _SIGNALS}
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


def run_isolated(make: Callable[[], Any], default: Any, restart: Callable[[int], None]) -> Any:
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


def no_restart(seed: int) -> None:
    """Leave the global generators alone: nothing that reads a cell draws from them."""


_lock = threading.Lock()
_inside = 0  # blocks that are open, in all threads: mlflow's switch is one for the process
_switched_off = contextlib.ExitStack()


def _switch_off() -> None:
    mlflow = sys.modules.get("mlflow.utils.autologging_utils")
    switch = getattr(mlflow, "disable_autologging", None)
    # Leaving mlflow's block switches logging on, also for those who had switched it off before.
    if switch is not None and not getattr(mlflow, "_AUTOLOGGING_GLOBALLY_DISABLED", False):
        _switched_off.enter_context(switch())


@contextlib.contextmanager
def untracked() -> Iterator[None]:
    """Switch mlflow's autologging off while code of others runs inside of a fit.

    Examples
    --------
    >>> with untracked():
    ...     pass  # nothing that is fitted here is logged
    """
    global _inside
    with _lock:
        if _inside == 0:
            _switch_off()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _switched_off.close()
