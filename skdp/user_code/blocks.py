"""User code on disjoint blocks of rows: sample and aggregate.

Released: a vote among the answers that code of any kind (a fit of some estimator) gives on each of
m disjoint blocks, or the mean or the median of vectors that it returns, clipped to a public box. A
row is in one block, so whatever the code does, a row changes one of m votes or vectors. Nothing
else leaves a block: an exception, or anything but finite numbers of the stated shape, is an
abstention (votes) or the box's centre (vectors), and warnings and output are silenced. Whoever
wants to see progress is told how many blocks are done, in the same steps whatever the rows.

Under replace-one a row's block is decided by its place, and the numbers of rows are public. Under
add-or-remove-one each row draws its block independently, from the operating system's entropy.
Proofs: blocks.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import Floats
from skdp.core.isolation import interruptible, run_isolated, suppress_warnings
from skdp.core.query import UserFunction, reviewed
from skdp.tabular.containers import as_table, take, to_float
from skdp.tabular.rows import Rows

if TYPE_CHECKING:
    from skdp.core.privacy_filter import PrivacyFilter
    from skdp.core.table import PrivateTable

__all__ = [
    "BlockAnswers",
    "OnBlocks",
    "block_outputs",
    "silent",
]

Task = Callable[[Any, NDArray, int], Any]  # (X, y, seed) of a block -> numbers
Progress = Callable[[int, int], Any]  # (blocks that are done, blocks)
Positions = NDArray[np.intp]


# --- user code --------------------------------------------------------------------------------


_RUNNING = threading.local()  # `block`: whether this thread runs a block's task


class _Muffled(io.TextIOBase):
    """A stream that drops what is written to it, but by some threads, until it is switched off.

    Those are silent too while they run a block. Switched off, it passes everything on: a display
    that took it for the real one meanwhile loses nothing.
    """

    def __init__(self, stream: Any, heard: Container[threading.Thread]) -> None:
        self._stream, self._heard, self.on = stream, heard, True

    def write(self, text: str) -> int:
        # By the object: the number of a thread that ended may be that of a block's thread next.
        heard = threading.current_thread() in self._heard and not getattr(_RUNNING, "block", False)
        if self._stream is not None and (heard or not self.on):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and bool(self._stream.isatty())


class _Silence:
    """Streams that are muffled while anyone wants them so.

    They belong to the process. The first who comes muffles them and the last who goes puts them
    back: one of two threads that ends before the other does not let the other be heard.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
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
        self._lock = threading.Lock()


_SILENCE = _Silence()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SILENCE.forked)


@contextlib.contextmanager
def silent(heard: set[threading.Thread] | None = None) -> Iterator[None]:
    """Drop warnings and what is printed: both may quote rows. `heard`: threads that may print.

    Whoever else prints meanwhile is dropped too: nobody can tell whose a thread is.
    """
    allowed = set() if heard is None else heard
    with suppress_warnings():
        _SILENCE.enter(allowed)
        try:
            yield
        finally:
            _SILENCE.leave(allowed)


def _answer(task: Task, X: Any, y: NDArray, seed: int, width: int) -> Floats:
    """Return what the task makes of one block; NaN for what is no finite number, or fails."""
    nothing = np.full(width, np.nan)
    _RUNNING.block = True
    # What the task would run in parallel runs in this thread: silent, and one after the other on
    # the generators that it has been lent.
    inside = parallel_config(backend="sequential")
    try:
        with (
            inside,
            np.errstate(all="ignore"),  # of the thread, unlike the warnings' filters
            samplers.lent_generators() as restart,
        ):
            values = run_isolated(
                lambda: to_float(task(X, y, seed))[0], None, lambda _: restart(seed)
            )
    finally:
        _RUNNING.block = False
    if values is None or values.shape != (width,):
        return nothing
    # A new array: a subclass, or the base of a view, could carry rows along.
    return np.where(np.isfinite(values), values, np.nan)


def _work(task: Task, X: Any, y: NDArray, seed: int, width: int, pid: int) -> Floats:
    """Run `_answer`, silenced where the caller's silence does not reach: in another process."""
    if os.getpid() == pid:
        return _answer(task, X, y, seed, width)
    with silent(), interruptible():
        return _answer(task, X, y, seed, width)


def _apart(call: tuple) -> Floats:
    """Run a block in a process of its own; if that dies, the block has no answer."""
    try:
        # Two jobs, because one would run here.
        (answer,) = Parallel(n_jobs=2, backend="loky", max_nbytes=None)([call])
    except BrokenProcessPool:
        return np.full(call[1][4], np.nan)
    except Exception:  # noqa: BLE001  the task, which is public, cannot be sent to a process
        return _work(*call[1])
    return answer


def _in_parallel(
    calls: Callable[[], Iterator[tuple]], n_jobs: int | None, *, one_by_one: bool
) -> Iterator[tuple[int, Floats]]:
    """Yield (block, answer), from the first block to the last; once more from the first if need be.

    The death of a process counts for the block that caused it only: all are run again then.
    """
    # No memory maps: they would write the blocks to a disk.
    parallel = Parallel(n_jobs=n_jobs, max_nbytes=None)
    if one_by_one:
        with contextlib.suppress(ValueError):  # not every backend can
            parallel = Parallel(n_jobs=n_jobs, max_nbytes=None, return_as="generator")
    try:
        yield from enumerate(parallel(calls()))
        return
    except Exception:  # noqa: BLE001  of the backend: tasks themselves raise none
        pass
    # Not in the handler: what a consumer raises must not carry the backend's error along.
    yield from enumerate(map(_apart, calls()))


# --- the blocks -------------------------------------------------------------------------------


def _by_content(rows: Rows, key: bytes) -> NDArray[np.uint64]:
    """Return one keyed hash a row, of its content and of how many equal rows came before."""
    seen: Counter[bytes] = Counter()
    words = np.empty(rows._n, dtype=np.uint64)
    for start, stop in rows.spans():
        labels = np.asarray(rows._part(rows._y, start, stop), dtype=np.float64)
        both = np.ascontiguousarray(np.column_stack([rows.chunk(start, stop), labels]))
        for i, row in enumerate(both, start):
            content = row.tobytes()
            count = seen[content].to_bytes(8, "little")
            seen[content] += 1
            digest = hashlib.blake2b(content + count, digest_size=8, key=key).digest()
            words[i] = int.from_bytes(digest, "little")
    return words


def _dealt(words: NDArray[np.uint64], n_blocks: int) -> NDArray[np.int64]:
    """Return the block that each word stands for, from its upper half."""
    upper = words >> np.uint64(32)
    return ((upper * np.uint64(n_blocks)) >> np.uint64(32)).astype(np.int64)


def _split(order: Positions, blocks: NDArray[np.int64], n_blocks: int) -> list[Positions]:
    """Return the positions of each block; `blocks` belongs to `order`, and ascends."""
    edges = np.searchsorted(blocks, np.arange(1, n_blocks))
    return np.split(order, edges)


@reviewed
@dataclass(frozen=True, eq=False)
class OnBlocks:
    """User code that runs on each of some disjoint blocks of rows.

    Attributes
    ----------
    task : UserFunction
        ``task(X, y, seed)`` of a block returns numbers. It must not pass anything from one block to
        another. Public.
    n_blocks : int
        Public.
    n_jobs : int, default=None
        Blocks that are run at the same time.
    progress : UserFunction, default=None
        ``progress(done, n_blocks)`` is called for done = 1 to n_blocks, in this thread.
    """

    task: UserFunction
    n_blocks: int
    n_jobs: int | None = None
    progress: UserFunction | None = None


def _blocks(
    table: PrivateTable, meter: PrivacyFilter, n_blocks: int, rng: np.random.Generator
) -> list[Positions]:
    """Return the positions of the rows of each block: every row is in exactly one.

    R: a public random permutation, dealt out in turn; sizes differ by at most one. A: by an
    independent word a row. Under a seed that word is a hash of the row's content, so that the
    blocks of two tables that differ in one row do so too, which audits compare; and rows are
    in the order of their words, as their places differ.
    """
    n = table.n
    if table.n_is_public:
        order = rng.permutation(n)
        return [np.sort(order[k::n_blocks]) for k in range(n_blocks)]
    if meter.noise_seed is not None:
        key = hashlib.blake2b(repr(meter.noise_seed).encode() + meter.history()).digest()
        words = _by_content(table.rows, key)
        blocks = _dealt(words, n_blocks)
        order = np.lexsort((words, blocks))
    else:
        words = samplers.OSEntropy().words(n)
        blocks = _dealt(words, n_blocks)
        order = np.argsort(blocks, kind="stable")
    return _split(order, blocks[order], n_blocks)


def _part(rows: Rows, positions: Positions) -> tuple[Any, NDArray]:
    """Return copies of a block's rows, as float64 in the caller's kind of table, and labels."""
    X = rows._X
    if rows._positions is not None:
        positions = rows._positions[positions]
    ascending = np.sort(positions)
    values, _ = to_float(take(X, ascending))
    assert values is not None  # check_rows has converted every block once
    back = np.searchsorted(ascending, positions)
    values = np.array(values[back], dtype=np.float64, order="C", subok=False)
    np.copyto(values, 0.0, where=~np.isfinite(values))  # rows that changed after the check
    return as_table(values, X), rows._y[positions]


def block_outputs(
    table: PrivateTable, meter: PrivacyFilter, run: OnBlocks, width: int
) -> NDArray[np.float64]:
    """Return the answers of all blocks, shape (n_blocks, width), NaN for none; private.

    `progress` is called with (1, n_blocks), (2, n_blocks), ... in this thread, whatever happens
    in the blocks; when is a matter of time, which is not protected. It may print, and what it
    raises ends the release: no row decides whether it does.
    """
    task, n_blocks, n_jobs = run.task.call, run.n_blocks, run.n_jobs
    progress = None if run.progress is None else run.progress.call
    if isinstance(n_blocks, bool) or not isinstance(n_blocks, (int, np.integer)):
        raise TypeError("n_blocks must be an integer")
    if n_blocks < 1 or width < 1:
        raise ValueError("n_blocks must be at least 1, and so the numbers that a block returns")
    rng = meter.post_processing_rng()
    seeds = rng.integers(0, 2**31 - 1, size=n_blocks).tolist()
    blocks = _blocks(table, meter, int(n_blocks), rng)
    pid = os.getpid()

    def calls() -> Iterator[tuple]:
        for positions, seed in zip(blocks, seeds, strict=True):
            X, y = _part(table.rows, positions)
            yield delayed(_work)(task, X, y, seed, width, pid)

    here, told = threading.current_thread(), 0
    # Displays have threads of their own, which were there before the blocks'.
    heard = set(threading.enumerate()) if progress else set()
    heard.discard(here)
    answers = np.full((int(n_blocks), width), np.nan)
    with meter.foreign_code(), silent(heard):
        for k, answer in _in_parallel(calls, n_jobs, one_by_one=progress is not None):
            answers[k] = answer
            if progress is not None and k == told:  # a block that is run again is not news
                told += 1
                heard.add(here)
                progress(told, int(n_blocks))
                heard.discard(here)
    return answers


class BlockAnswers:
    """The rows of the table of what blocks answer; the code runs when they are first read.

    A number that is not finite is that of `center`, which is public: a function of its block.
    """

    filtered = False

    def __init__(
        self, table: PrivateTable, meter: PrivacyFilter, run: OnBlocks, center: Floats
    ) -> None:
        self._n, self.n_features = run.n_blocks, len(center)
        self._answers: Floats | None = None
        self._run = partial(block_outputs, table, meter, run, len(center))
        self._center = center

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        """Return the one chunk of all answers."""
        return [(0, self._n)]

    def chunk(self, start: int, stop: int) -> Floats:
        """Return the answers of blocks start to stop."""
        if self._answers is None:
            vectors = self._run()
            self._answers = np.where(np.isfinite(vectors), vectors, self._center)
        return self._answers[start:stop]
