"""Runs code on private rows so that its warnings, output and exceptions stay inside.

Code that reads cells, or a user's code on rows, runs within `suppress_warnings` and
`interruptible`; `run_isolated` replaces a result by a default if it raises. In a session that is
`foreign_code`, where no release can be made: one row would decide whether there is one.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.core.noise import lent_generators
from skdp.exceptions import LATE

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter, Share

__all__ = [
    "cancellable", "foreign_code", "interruptible", "no_restart", "or_raise", "reading",
    "run_isolated", "silent", "suppress_warnings", "untracked", "user_code",
]  # fmt: skip


# The locks here are reentrant: a signal handler or a destructor that fits may interrupt their
# holder. So between any two steps under them, a complete `enter` and `leave` of another user may
# happen, and `leave` undoes half an `enter`.


class _Silence:
    """Turns the warnings of the process off while it has users; nobody waits for another."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._users: set[object] = set()
        self._off: list[Any] = []  # context managers, each with the filters before it

    def enter(self, user: object) -> None:
        with self._lock:
            self._users.add(user)
            if not self._off:
                before = warnings.catch_warnings()
                before.__enter__()
                self._off.append(before)
                warnings.simplefilter("ignore")

    def leave(self, user: object) -> None:
        with self._lock:
            self._users.discard(user)
            with contextlib.suppress(IndexError):  # an interrupting user may pop the last one
                while not self._users:
                    before = self._off.pop()
                    before.__exit__(None, None, None)

    def forked(self) -> None:
        """Start a child with warnings on: it has none of the users' threads."""
        self._lock = threading.RLock()
        self._users.clear()
        self.leave(None)


_SILENCE = _Silence()


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Turn warnings off, because they may quote rows, and how many there are tells of rows."""
    user = object()
    # What the outer fit holds back is said when warnings are on again.
    outer = LATE.set(None)
    with np.errstate(all="ignore"):
        try:
            _SILENCE.enter(user)
            yield
        finally:
            _SILENCE.leave(user)
            LATE.reset(outer)


# --- printed output -----------------------------------------------------------------------------


RUNNING = threading.local()  # `block`: whether this thread runs a block's task


class _Muffled(io.TextIOBase):
    """A stream that drops output, except that of some threads, until it is switched off.

    Those threads are silent too while they run a block. Switched off it passes everything on, for
    displays that have taken it for the real stream.
    """

    def __init__(self, stream: Any, audible: Container[threading.Thread]) -> None:
        self._stream, self._audible, self.on = stream, audible, True

    def write(self, text: str) -> int:
        # Threads are compared as objects: the number of an ended thread may be used again.
        audible = threading.current_thread() in self._audible
        audible = audible and not getattr(RUNNING, "block", False)
        if self._stream is not None and (audible or not self.on):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and bool(self._stream.isatty())


class _Muffler:
    """Muffles stdout and stderr of the process while it has users."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._audible: list[set[threading.Thread]] = []  # the audible threads of each user
        self._put: list[tuple[str, _Muffled]] = []

    def __contains__(self, thread: object) -> bool:
        """Say whether a thread is audible to all users."""
        return all(thread in threads for threads in list(self._audible))

    def enter(self, audible: set[threading.Thread]) -> None:
        with self._lock:
            self._audible.append(audible)
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if not (isinstance(stream, _Muffled) and stream.on):
                    muffled = _Muffled(stream, self)
                    self._put.append((name, muffled))
                    setattr(sys, name, muffled)

    def leave(self, audible: set[threading.Thread]) -> None:
        with self._lock:
            self._audible = [threads for threads in self._audible if threads is not audible]
            if self._audible:
                return
            for name, muffled in reversed(self._put):
                muffled.on = False
                if getattr(sys, name) is muffled:
                    setattr(sys, name, muffled._stream)
            self._put = []

    def forked(self) -> None:
        """Stay silent in a child, whoever held the lock."""
        self._lock = threading.RLock()


_MUFFLER = _Muffler()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SILENCE.forked)
    os.register_at_fork(after_in_child=_MUFFLER.forked)


@contextmanager
def silent(audible: set[threading.Thread] | None = None) -> Iterator[None]:
    """Drop warnings and printed output, which may quote rows, of all threads but the audible."""
    threads = set() if audible is None else audible
    with suppress_warnings():
        try:
            _MUFFLER.enter(threads)
            yield
        finally:
            _MUFFLER.leave(threads)


# --- exceptions ---------------------------------------------------------------------------------


class _Interrupted(KeyboardInterrupt):
    """The exception of a signal handler, which comes from outside and not from a row."""

    def __init__(self, reason: BaseException | None = None) -> None:
        super().__init__()
        self.reason = reason


_SIGNALS = tuple(signal.valid_signals())
# `signal.getsignal` makes enumerations of numbers: 60 us for all signals, at each fit.
_handler_of: Callable[[int], Any] = getattr(_signal, "getsignal", signal.getsignal)
_watching = False  # whether the main thread is in `interruptible`


def _marked(previous: Callable[[int, Any], Any]) -> Callable[[int, Any], None]:
    """Return a signal handler that marks the exceptions of another one."""

    def handler(number: int, frame: Any) -> None:
        reason: BaseException | None = None
        try:
            previous(number, frame)
        except BaseException as error:  # noqa: BLE001  a timeout, an exit, an interrupt
            reason = error
        if reason is not None and frame is not None and _is_between(frame):
            raise reason
        if reason is not None:
            raise _Interrupted(reason)

    return handler


# While a block is entered or left, a mark would not reach `interruptible`, which removes it.
_MANAGER = contextlib._GeneratorContextManager
_BETWEEN = (_MANAGER.__enter__.__code__, _MANAGER.__exit__.__code__)


def _is_between(frame: FrameType) -> bool:
    """Say whether a signal came between blocks, outside of code that `run_isolated` runs."""
    if frame.f_code not in _BETWEEN:
        return False
    around: FrameType | None = frame
    while around is not None and around.f_code is not run_isolated.__code__:
        around = around.f_back
    return around is None


@contextmanager
def interruptible() -> Iterator[None]:
    """Mark exceptions of signal handlers (Ctrl-C, timeouts), so that `run_isolated` passes them on.

    They leave without the context that they interrupted. Only the main thread gets signals.
    """
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        yield
        return
    known: dict[int, Any] = {number: _handler_of(number) for number in _SIGNALS}
    handlers = {number: handler for number, handler in known.items() if callable(handler)}
    reason: BaseException | None = None
    _watching = True
    try:
        for number, handler in handlers.items():
            _signal.signal(number, _marked(handler))
        yield
    except _Interrupted as stopped:
        reason = stopped.reason or KeyboardInterrupt()
    finally:
        while True:  # until all are back: another signal may come between two of them
            try:
                for number, handler in handlers.items():
                    _signal.signal(number, handler)
                break
            except BaseException as late:  # noqa: BLE001  of another handler
                reason = late.reason if isinstance(late, _Interrupted) else late
        _watching = False
    if reason is not None:
        reason.__context__ = None  # a frame that was interrupted may hold rows
        raise reason.with_traceback(None) from None


@contextmanager
def reading() -> Iterator[None]:
    """Read cells: no cell causes a warning or an exception, but signals do."""
    with suppress_warnings(), interruptible():
        yield


def run_isolated(make: Callable[[], Any], default: Any, restart: Callable[[int], None]) -> Any:
    """Return the result of a user's code on a row or block, or the public default if it raises.

    All exceptions stay inside, KeyboardInterrupt and SystemExit too. Only that of a signal handler
    gets through, as a new exception, because the old one may quote a row.
    """
    restart(0)  # global generators would tell how much was drawn for earlier rows
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


_INTERRUPTED = "Query interrupted"  # DuckDB's error for Ctrl-C


def or_raise(
    make: Callable[[], Any],
    refusal: Callable[[], Exception],
    *,
    own: tuple[type[Exception], ...] = (),
) -> Any:
    """Return a library's result on rows; if it fails, raise `refusal()`, which has a fixed text.

    Errors of the types `own` pass. The refusal is raised outside of ``except``: inside it would
    keep the caught error, which may quote a cell, as its ``__context__``, with ``from None`` too.
    """
    try:
        return make()
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit, *own)):
            raise  # everything else is dropped; a panic of polars is no Exception either
        interrupted = type(error) is RuntimeError and error.args == (_INTERRUPTED,)
    raise KeyboardInterrupt if interrupted else refusal()


def cancellable(work: Callable[[], Any], cancel: Callable[[], Any]) -> Any:
    """Return ``work()``, a query that waits in C, and cancel it on Ctrl-C.

    It runs in another thread, because DuckDB looks for signals between its own tasks only.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done, outcome = threading.Event(), list[tuple[Any, BaseException | None]]()

    def run() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:  # noqa: BLE001  raised again below
            outcome.append((None, error))
        done.set()

    try:
        threading.Thread(target=run, daemon=True).start()
    except RuntimeError:  # the interpreter is ending, or the process may have no more threads
        return work()
    try:
        done.wait()
    except BaseException:
        while not done.wait(0.05):  # again, because it may not have begun
            cancel()
        raise
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def no_restart(seed: int) -> None:
    """Do nothing: code that only reads cells draws no random numbers."""


_lock = threading.RLock()
_inside: set[object] = set()  # blocks that are open: mlflow's switch is one for the process
_switched_off = contextlib.ExitStack()


def _switch_off() -> None:
    mlflow = sys.modules.get("mlflow.utils.autologging_utils")
    switch = getattr(mlflow, "disable_autologging", None)
    # Leaving mlflow's block switches logging on, also for those who had switched it off before.
    if switch is not None and not getattr(mlflow, "_AUTOLOGGING_GLOBALLY_DISABLED", False):
        _switched_off.enter_context(switch())


@contextlib.contextmanager
def untracked() -> Iterator[None]:
    """Switch mlflow's autologging off while code of others runs inside of a fit."""
    block = object()
    try:
        with _lock:
            _inside.add(block)
            _switch_off()
        yield
    finally:
        with _lock:
            _inside.discard(block)
            if not _inside:
                _switched_off.close()


@contextmanager
def foreign_code(meter: Meter) -> Iterator[None]:
    """Run a user's code on rows without warnings, releases and tracking."""
    with meter.without_releases(), reading(), untracked():
        yield


@contextmanager
def user_code(meter: Meter, share: Share, name: str) -> Iterator[Callable[[int], None]]:
    """Run a user's code on rows before a release of this share; yield `restart` of generators."""
    meter.check(share, name)
    with foreign_code(meter), lent_generators() as restart:
        yield restart
