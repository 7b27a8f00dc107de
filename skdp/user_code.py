"""Code that rows may reach, without its warnings and exceptions: nothing of a row leaves with them.

Whoever reads cells, or runs a user's code on rows, does it within
`suppress_warnings` and `interruptible`, and asks `run_isolated` for what may raise. In a session
that is `foreign_code`, where no release is made: one row would decide whether there is one.
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

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter, Share

__all__ = [
    "cancellable",
    "foreign_code",
    "interruptible",
    "no_restart",
    "or_raise",
    "run_isolated",
    "silent",
    "suppress_warnings",
    "untracked",
    "user_code",
]


# The locks here are reentrant: a signal handler or a destructor that fits may interrupt whoever
# holds one. Each block of code under them is written so that a whole `enter` and `leave` of
# another user may come between any two of its steps, and so that `leave` undoes half an `enter`.


class _Silence:
    """Warnings that are off while anyone wants them off.

    The filters belong to the process, so the first who comes turns them off and the last who goes
    turns them on: nobody waits for another's code, which may wait for threads of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._users: set[object] = set()
        self._off: list[Any] = []  # what turned them off; each holds the filters before it

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
            with contextlib.suppress(IndexError):  # who interrupts this may take the last one
                while not self._users:
                    before = self._off.pop()
                    before.__exit__(None, None, None)

    def forked(self) -> None:
        """Start a child with warnings on: the threads that wanted them off are not in it."""
        self._lock = threading.RLock()
        self._users.clear()
        self.leave(None)


_SILENCE = _Silence()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SILENCE.forked)


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Turn warnings off: they may quote rows, or say what a user cannot act on."""
    user = object()
    with np.errstate(all="ignore"):
        try:
            _SILENCE.enter(user)
            yield
        finally:
            _SILENCE.leave(user)


# --- what is printed ----------------------------------------------------------------------------


RUNNING = threading.local()  # `block`: whether this thread runs a block's task


class _Muffled(io.TextIOBase):
    """A stream that drops what is written to it, but by some threads, until it is switched off.

    Those are silent too while they run a block. Switched off, it passes everything on: a display
    that took it for the real one meanwhile loses nothing.
    """

    def __init__(self, stream: Any, heard: Container[threading.Thread]) -> None:
        self._stream, self._heard, self.on = stream, heard, True

    def write(self, text: str) -> int:
        # By the object: the number of a thread that ended may be that of a block's thread next.
        heard = threading.current_thread() in self._heard and not getattr(RUNNING, "block", False)
        if self._stream is not None and (heard or not self.on):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and bool(self._stream.isatty())


class _Muffler:
    """Streams that are muffled while anyone wants them so.

    They belong to the process. The first who comes muffles them and the last who goes puts them
    back: one of two threads that ends before the other does not let the other be heard.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._heard: list[set[threading.Thread]] = []  # of each who is inside
        self._put: list[tuple[str, _Muffled]] = []

    def __contains__(self, thread: object) -> bool:
        """Say whether all who are inside hear a thread."""
        return all(thread in heard for heard in list(self._heard))

    def enter(self, heard: set[threading.Thread]) -> None:
        with self._lock:
            self._heard.append(heard)
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if not (isinstance(stream, _Muffled) and stream.on):
                    muffled = _Muffled(stream, self)
                    self._put.append((name, muffled))
                    setattr(sys, name, muffled)

    def leave(self, heard: set[threading.Thread]) -> None:
        with self._lock:
            self._heard = [one for one in self._heard if one is not heard]
            if self._heard:
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
    os.register_at_fork(after_in_child=_MUFFLER.forked)


@contextmanager
def silent(heard: set[threading.Thread] | None = None) -> Iterator[None]:
    """Drop warnings and what is printed: both may quote rows. `heard`: threads that may print.

    Whoever else prints meanwhile is dropped too: nobody can tell whose a thread is.
    """
    allowed = set() if heard is None else heard
    with suppress_warnings():
        try:
            _MUFFLER.enter(allowed)
            yield
        finally:
            _MUFFLER.leave(allowed)


# --- what is raised -----------------------------------------------------------------------------


class _Interrupted(KeyboardInterrupt):
    """A signal's exception: it comes from outside, not from code that a row made raise it."""

    def __init__(self, reason: BaseException | None = None) -> None:
        super().__init__()
        self.reason = reason


_SIGNALS = tuple(signal.valid_signals())
# That of `signal` makes enumerations of numbers: 60 us for all signals, at each fit.
_handler_of: Callable[[int], Any] = getattr(_signal, "getsignal", signal.getsignal)
_watching = False  # whether the main thread is in `interruptible`


def _marked(previous: Callable[[int, Any], Any]) -> Callable[[int, Any], None]:
    """Return a signal handler that marks what another one raises."""

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


# Where a block is entered or left, a mark would not reach `interruptible`, which takes it off.
_MANAGER = contextlib._GeneratorContextManager
_BETWEEN = (_MANAGER.__enter__.__code__, _MANAGER.__exit__.__code__)


def _is_between(frame: FrameType) -> bool:
    """Say whether a signal came between blocks, and not in code that `run_isolated` runs."""
    if frame.f_code not in _BETWEEN:
        return False
    around: FrameType | None = frame
    while around is not None and around.f_code is not run_isolated.__code__:
        around = around.f_back
    return around is None


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
    found: dict[int, Any] = {number: _handler_of(number) for number in _SIGNALS}
    handlers = {number: handler for number, handler in found.items() if callable(handler)}
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
            except BaseException as late:  # noqa: BLE001  what a handler raised
                reason = late.reason if isinstance(late, _Interrupted) else late
        _watching = False
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


_INTERRUPTED = "Query interrupted"  # what DuckDB makes of Ctrl-C


def or_raise(
    make: Callable[[], Any],
    refusal: Callable[[], Exception],
    *,
    own: tuple[type[Exception], ...] = (),
) -> Any:
    """Return what a library makes of rows; where it fails, raise an error that knows nothing of it.

    What is raised inside of ``except`` keeps what was caught as its ``__context__``, with ``from
    None`` too, and that may quote a cell or list all categories of a column.

    Parameters
    ----------
    make : callable
    refusal : callable
        Returns the error, of a fixed text.
    own : tuple of types
        Errors of this package, which pass.
    """
    try:
        return make()
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit, *own)):
            raise  # all else is forgotten: a panic of polars is no Exception either
        interrupted = type(error) is RuntimeError and error.args == (_INTERRUPTED,)
    raise KeyboardInterrupt if interrupted else refusal()


def cancellable(work: Callable[[], Any], cancel: Callable[[], Any]) -> Any:
    """Return ``work()``, a query that waits in C, so that Ctrl-C cancels it and then goes on.

    It runs in another thread: DuckDB looks for signals between tasks of its own only, and not while
    its other threads have all of them.
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
    """Leave the global generators alone: nothing that reads a cell draws from them."""


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
    """Switch mlflow's autologging off while code of others runs inside of a fit.

    Examples
    --------
    >>> with untracked():
    ...     pass  # nothing that is fitted here is logged
    """
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
    """Run a user's code on rows, which gets neither warnings through nor a release."""
    with meter.without_releases(), suppress_warnings(), interruptible(), untracked():
        yield


@contextmanager
def user_code(meter: Meter, share: Share, name: str) -> Iterator[Callable[[int], None]]:
    """Run a user's code on rows before a release of this share: no release, no warning.

    Yields what gives code that failed fresh generators.
    """
    meter.check(share, name)
    with foreign_code(meter), lent_generators() as restart:
        yield restart
