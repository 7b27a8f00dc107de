"""Sample and aggregate: user code on disjoint blocks of rows, and queries of its answers.

Code of any kind (a fit of some estimator) answers on each of m disjoint blocks. A vote among these
answers is released, or the mean or a quantile of answers that are vectors, clipped to a public box.

Guarantee: a row is in one block, so whatever the code does, a row changes one of m answers. Nothing
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
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import Floats, isqrt_up
from skdp.core.mechanisms import Independent, Spherical, exponential_mechanism
from skdp.core.privacy_filter import Meter, Release, Share, released
from skdp.core.query import Derived, Measurement, UserFunction, reviewed
from skdp.core.sums import RowSum, Values
from skdp.core.table import PrivateTable, Stability
from skdp.queries.histograms import CellQuantile
from skdp.queries.smooth_sensitivity.medians import SmoothMedian
from skdp.tabular.containers import as_table, take, to_float
from skdp.tabular.rows import Rows
from skdp.user_code import (
    RUNNING,
    foreign_code,
    interruptible,
    run_isolated,
    silent,
)

Task = Callable[[Any, NDArray, int], Any]  # (X, y, seed) of a block -> numbers
Progress = Callable[[int, int], Any]  # (blocks that are done, blocks)
Positions = NDArray[np.intp]


def _answer(task: Task, X: Any, y: NDArray, seed: int, width: int) -> Floats:
    """Return what the task makes of one block; NaN for what is no finite number, or fails."""
    nothing = np.full(width, np.nan)
    RUNNING.block = True
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
        RUNNING.block = False
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
    calls: Callable[[], Iterator[tuple]], n_jobs: int | None, n_blocks: int, *, one_by_one: bool
) -> Iterator[tuple[int, Floats]]:
    """Yield (block, answer), from the first block to the last; once more from the first if need be.

    The death of a process counts for the block that caused it only: all are run again then.
    """
    if n_jobs is not None:
        n_jobs = min(int(n_jobs), n_blocks)  # each job is a process
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


def _seeded_words(table: PrivateTable, key: bytes) -> NDArray[np.uint64]:
    """Return one keyed hash a row, the same for rows that two neighbouring tables have in common.

    Where rows are replaced, a row that replaces another has its word: the hash is of its place in
    its unit, or in the caller's table. Where one is added or removed, it is of the row's content.
    """
    rows = table.rows
    if not table.stability.replacements:
        return words_of(_contents(rows), key)
    places: Iterable[Any] = range(rows._n) if rows._positions is None else rows._positions.tolist()
    if rows.units is not None:
        units, seen = rows.unit_rows(), Counter[int]()
        places = []
        for word in units.words[units.codes].tolist():
            places.append((word, seen[word]))
            seen[word] += 1
    digests = (hashlib.blake2b(repr(place).encode(), digest_size=8, key=key) for place in places)
    return np.array(
        [int.from_bytes(digest.digest(), "little") for digest in digests], dtype=np.uint64
    )


def words_of(contents: Iterable[bytes], key: bytes) -> NDArray[np.uint64]:
    """Return one keyed hash a row, of its content and of how many equal rows came before."""
    seen: Counter[bytes] = Counter()
    words = []
    for content in contents:
        count = seen[content].to_bytes(8, "little")
        seen[content] += 1
        digest = hashlib.blake2b(content + count, digest_size=8, key=key).digest()
        words.append(int.from_bytes(digest, "little"))
    return np.array(words, dtype=np.uint64)


def _contents(rows: Rows) -> Iterator[bytes]:
    for start, stop in rows.spans():
        labels = np.asarray(rows._part(rows._y, start, stop), dtype=np.float64)
        both = np.ascontiguousarray(np.column_stack([rows.chunk(start, stop), labels]))
        yield from map(np.ndarray.tobytes, both)


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

    - `task`: ``task(X, y, seed)`` of a block returns numbers. It must not pass anything from one
      block to another. Public.
    - `n_blocks`: Public.
    - `n_jobs`: Blocks that are run at the same time.
    - `progress`: ``progress(done, n_blocks)`` is called for done = 1 to n_blocks, in this thread.
    """

    task: UserFunction
    n_blocks: int
    n_jobs: int | None = None
    progress: UserFunction | None = None


def _blocks(
    table: PrivateTable, meter: Meter, n_blocks: int, rng: np.random.Generator
) -> list[Positions]:
    """Return the positions of the rows of each block: every row is in exactly one.

    Where the number of rows is public: by a public random permutation, in turn, so that sizes
    differ by at most one. Otherwise by an independent word a row. Under a seed that word is a hash,
    and rows are in the order of their words: audits compare two tables that differ in one unit.
    """
    n = table.n
    if table.n_is_public:
        order = rng.permutation(n)
        return [np.sort(order[k::n_blocks]) for k in range(n_blocks)]
    if meter.noise_seed is not None:
        key = hashlib.blake2b(repr(meter.noise_seed).encode() + meter.history()).digest()
        words = _seeded_words(table, key)
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
    table: PrivateTable, meter: Meter, run: OnBlocks, width: int
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
    with foreign_code(meter), silent(heard):
        for k, answer in _in_parallel(
            calls, n_jobs, int(n_blocks), one_by_one=progress is not None
        ):
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
    n_is_private = False  # the number of blocks is a parameter

    def __init__(self, table: PrivateTable, meter: Meter, run: OnBlocks, center: Floats) -> None:
        self._n, self.n_features = run.n_blocks, len(center)
        self._answers: Floats | None = None
        self._run = partial(block_outputs, table, meter, run, len(center))
        self._center = center

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        return [(0, self._n)]

    def chunk(self, start: int, stop: int) -> Floats:
        if self._answers is None:
            vectors = self._run()
            self._answers = np.where(np.isfinite(vectors), vectors, self._center)
        return self._answers[start:stop]


# --- what is released ---------------------------------------------------------------------------

_STEP_BITS = 12  # a vote has so many steps, so that square roots lose less than 1/8000


def vote_bounds(n_queries: int, n_classes: int) -> tuple[Spherical | Independent, float]:
    """Return by how much the votes of `BlockVotes` move if a block does, and the step they have.

    Of two classes the differences of counts, of more the counts, of all queries.
    """
    if n_classes == 2:
        return Spherical(isqrt_up(4 * n_queries << (2 * _STEP_BITS))), 2.0**-_STEP_BITS
    return Independent(2 * n_queries, 2 * n_queries), 1.0


@reviewed
@dataclass(frozen=True, eq=False)
class BlockVotes(Measurement):
    """The winner of each of several votes that disjoint blocks take part in.

    A block has one vote in each; a number that is no class is an abstention. Guarantee: a row that
    is replaced, added or removed changes one block, which changes at most one vote a query into
    another: L2 sensitivity of all queries' counts sqrt(2 n_queries). With two classes, the
    difference of the counts is released (sensitivity 2 sqrt(n_queries)); with more, all
    counts under Gaussian noise, or in a pure session the winners by the exponential mechanism
    at an equal part of epsilon each, a count moving by at most 1.

    - returns `winners` of shape (n_queries,): Codes.
    - returns `counts`: Of shape (n_queries, n_classes), up to the same number for all classes of a
      query; None after the exponential mechanism.
    """

    name: ClassVar[str] = "votes of blocks"
    run: OnBlocks
    n_queries: int
    n_classes: int

    @staticmethod
    def steps(query: Any, table: PrivateTable) -> int:
        """Return how many blocks one unit changes: one a row."""
        return table.stability.changes

    def measure(
        self, table: PrivateTable, meter: Meter, share: Share, name: str
    ) -> tuple[NDArray[np.int64], Release | None]:
        run, n_queries, n_classes = self.run, self.n_queries, self.n_classes
        meter.check(share, name)
        codes = block_outputs(table, meter, run, n_queries)
        votes = np.stack([(codes == k).sum(axis=0) for k in range(n_classes)], axis=1)
        bounds, step = vote_bounds(n_queries, n_classes)
        if n_classes == 2:
            exact = (votes[:, 1] - votes[:, 0]).astype(np.int64) << _STEP_BITS
            noisy, std = bounds.noised(meter, name, exact, share, step)
            half = noisy.astype(np.float64) * step / 2
            winners = (half > 0).astype(np.int64)
            return winners, released(np.stack([-half, half], axis=1), std * step / 2)
        if meter.pure:
            return exponential_mechanism(meter, name, -votes, 1, share), None
        noisy, std = bounds.noised(meter, name, votes, share)
        return noisy.argmax(axis=1), released(noisy.astype(np.float64), std)


@reviewed
@dataclass(frozen=True, eq=False)
class OfBlocks(Derived):
    """A query of the table of what disjoint blocks answer, one row a block.

    A block returns a vector of as many numbers as the query's view has dimensions; what is not
    finite is the view's centre. Guarantee: each row that is replaced, added or removed changes the
    answer of one block, and the number of blocks is public. So the answers of blocks are a table of
    Stability(k, 0) where a unit changes k rows, and the query's own guarantee holds for it.
    """

    name: ClassVar[str] = "answers of blocks"
    run: OnBlocks
    query: Any

    def table(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> PrivateTable:
        query = self.query
        of_view = query.image if type(query) is RowSum else query
        if type(of_view) not in _OF_BLOCKS:
            raise TypeError(
                "query must be a Sum or Mean of a view, CellQuantile or SmoothMedian, got "
                f"{type(of_view).__name__}"
            )
        meter.check(share, name)
        answers = BlockAnswers(table, meter, self.run, of_view.view.center)
        return PrivateTable(answers, Stability(table.stability.changes, 0))


_OF_BLOCKS = (Values, CellQuantile, SmoothMedian)  # they read the rows of a view, and no labels
