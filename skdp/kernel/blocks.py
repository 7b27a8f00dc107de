"""User code on disjoint blocks of rows: sample and aggregate.

Released: a vote among the answers that code of any kind (a fit of some estimator) gives on each of
m disjoint blocks, or the mean or the median of vectors that it returns, clipped to a public box. A
row is in one block, so whatever the code does, a row changes one of m votes or vectors. Nothing
else leaves a block: an exception, or anything but finite numbers of the stated shape, is an
abstention (votes) or the box's centre (vectors), and warnings and output are silenced. Whoever
wants to see progress is told how many blocks are done, in the same steps whatever the rows.

Under replace-one a row's block is decided by its place, and the numbers of rows are public. Under
add-or-remove-one each row draws its block independently, from the operating system's entropy.
Proofs: kernel/README.md, "Disjoint blocks".
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

from skdp.kernel import sampling
from skdp.kernel.cells import plain
from skdp.kernel.containers import is_frame, is_listed, reading, take, to_float
from skdp.kernel.isolation import attempt, interruptible, no_restart, quiet
from skdp.kernel.protect import SUM_BITS, Ball, Box, Floats, isqrt_up
from skdp.kernel.query import Measurement, UserFunction, reviewed
from skdp.kernel.release import Release, Share, released
from skdp.kernel.rows import Rows, check_rows
from skdp.kernel.smooth import Ladder, order_halves, quantile_log_smooth, smooth_release
from skdp.kernel.values import object_rows

if TYPE_CHECKING:
    from skdp.kernel.doors import Doors

__all__ = [
    "BlockMean",
    "BlockMedian",
    "BlockSmoothMedian",
    "BlockVotes",
    "OnBlocks",
    "as_table",
    "check_labelled",
    "label_codes",
]

Task = Callable[[Any, NDArray, int], Any]  # (X, y, seed) of a block -> numbers
Progress = Callable[[int, int], Any]  # (blocks that are done, blocks)
Positions = NDArray[np.intp]

_STEP_BITS = 12  # a vote has so many steps, so that square roots lose less than 1/8000
_NO_LABELS = "{estimator} requires {y} to be passed, but the target {y} is None."
_OTHER_LENGTH = "X and {y} must have the same number of rows."
_NOT_FLAT = "{y} must be one-dimensional, of shape (n_samples,)."
_NOT_FINITE = "Input {y} contains NaN or infinity, or is missing an entry; {y} must be finite."
_NOT_REAL = "Input {y} must be real numbers."


# --- rows with labels -------------------------------------------------------------------------


class LabelledRows(Rows):
    """Rows with a number each: a code (-1 for a label that is none of the classes), or a target."""

    def digest(self) -> bytes:
        """Return a hash of rows and labels; it keys the noise of seeded fits and nothing else."""
        labels = np.ascontiguousarray(self._part(self._y, 0, self._n)).tobytes()
        return hashlib.blake2b(super().digest() + labels, digest_size=32).digest()


def _flat(y: Any) -> tuple[NDArray, str]:
    """Return labels as an array of one dimension, and a fixed text if they are none."""
    try:
        with reading():
            if is_listed(y):
                # Objects: a common dtype would be decided by all labels, one could turn the others
                # to text.
                labels = object_rows(y)
            elif hasattr(y, "column_names"):  # a pyarrow table, of one column
                (column,) = y.columns
                labels = object_rows(column.to_pylist())
            elif hasattr(y, "to_pylist"):  # pyarrow, whose arrays depend on what is missing
                labels = object_rows(y.to_pylist())
            elif hasattr(y, "to_numpy"):
                labels = _of_column(y)
            else:
                labels = np.asanyarray(y)
    except Exception:  # noqa: BLE001  a label's own conversion may raise anything
        labels = None
    if labels is None or isinstance(labels, np.ma.MaskedArray):
        return np.empty(0), _NOT_FLAT
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.reshape(-1)
    if labels.ndim != 1:
        return np.empty(0), _NOT_FLAT
    return labels, ""


def _of_column(y: Any) -> NDArray | None:
    """Return labels from a column of pandas or polars, or a table of one such column.

    Of a type that has missing cells, an array of all would be of floats as soon as one is missing.
    """
    if hasattr(y, "columns"):
        if len(y.columns) != 1:
            return None
        y = y.iloc[:, 0] if is_frame(y) else y.to_series(0)
    kind = getattr(y.dtype, "kind", "O")
    temporal = kind in "mM" or getattr(y.dtype, "is_temporal", bool)()
    if temporal or (isinstance(y.dtype, np.dtype) and kind != "O"):
        return np.asanyarray(y.to_numpy())  # numpy has a missing date
    return object_rows(y.to_list())


def _is_missing(label: Any) -> bool:
    """Say whether a label of any type is missing (None, NaN, NaT, NA) or infinite."""
    if isinstance(label, float | np.floating):
        return not math.isfinite(label)
    missing: bool = attempt(lambda: plain(label) is None, False, no_restart)
    return missing


def _scalars(values: NDArray) -> list[Any]:
    """Return the entries of an array; dates as such, and not as counts of their unit."""
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def _comparable(a: np.dtype, b: np.dtype) -> bool:
    """Say whether numbers of two types are compared exactly by numpy."""
    if not {a.kind, b.kind} <= set("biuf"):
        return False
    longest = max([d.itemsize for d in (a, b) if d.kind in "iu"], default=0)
    return np.result_type(a, b).kind != "f" or longest < 8


def label_codes(labels: NDArray, classes: NDArray) -> NDArray[np.int64]:
    """Return the position of each label in the sorted classes, -1 for one that is not there.

    Numbers, dates and durations are the same whatever holds them. Guarantee: an entry depends on
    its label only, and nothing raises.
    """
    if _comparable(labels.dtype, classes.dtype):
        place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        return np.where(classes[place] == labels, place, -1)
    known = {plain(label): code for code, label in enumerate(_scalars(classes))}

    def code(label: Any) -> int:
        return known.get(plain(label), -1)

    items = _scalars(labels)
    # All at once, unless a label's own hash or comparison fails.
    codes = attempt(lambda: [code(label) for label in items], None, no_restart)
    if codes is None:
        codes = [attempt(functools.partial(code, label), -1, no_restart) for label in items]
    return np.array(codes, dtype=np.int64)


def check_labelled(
    X: Any,
    y: Any,
    *,
    estimator: str,
    classes: NDArray | None = None,
    allow_empty: bool = False,
) -> Rows:
    """Validate private rows with their private labels or targets.

    Guarantee: as `check_rows`, for X and y.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Labels of any type, or (without `classes`) finite numbers.
    estimator : str
        Name for error messages.
    classes : ndarray of shape (n_classes,), default=None
        Public, sorted. Other labels are allowed; their rows are in no fit.
    allow_empty : bool, default=False

    Returns
    -------
    rows : Rows
        With codes of the classes, or float targets.

    Raises
    ------
    TypeError, ValueError
        As `check_rows`; if y is None, has another length, is not one-dimensional or has entries
        that are missing or (without `classes`) no finite numbers. The texts are fixed.
    """
    rows = check_rows(X, estimator=estimator, allow_empty=allow_empty)
    numbers, _ = check_labels(y, rows._n, estimator=estimator, classes=classes)
    return LabelledRows(rows._X, numbers)


def check_labels(
    y: Any,
    n_rows: int,
    *,
    estimator: str,
    classes: NDArray | None = None,
    omit: bool = False,
    name: str = "y",
) -> tuple[NDArray, NDArray[np.bool_]]:
    """Return codes of private labels, or float targets, and which are missing or not finite.

    Parameters and errors as `check_labelled`.

    Parameters
    ----------
    omit : bool, default=False
        Allow labels that are missing; else they are refused.
    name : str
        Of the parameter, for error messages.
    """
    labels, problem = (np.empty(0), _NO_LABELS) if y is None else _flat(y)
    if not problem and len(labels) != n_rows:
        problem = _OTHER_LENGTH
    numbers: NDArray = np.empty(0)
    missing = np.zeros(len(labels), dtype=bool)
    if not problem and classes is not None:
        if labels.dtype.kind == "f":
            missing = ~np.isfinite(labels)
        elif labels.dtype.kind in "OmM":
            missing = np.array([_is_missing(label) for label in _scalars(labels)], dtype=bool)
        numbers = label_codes(labels, classes)
    elif not problem:
        found, failed = to_float(labels)
        if failed or found is None or labels.dtype.kind in "USmM":
            problem = _NOT_REAL
        else:
            numbers, missing = found, ~np.isfinite(found)
    if not (problem or omit) and missing.any():
        problem = _NOT_FINITE
    if problem:
        raise ValueError(problem.format(estimator=estimator, y=name))
    return numbers, missing


def as_table(values: Floats, like: Any) -> Any:
    """Return float rows as a pandas or polars table with the columns of another, or as they are.

    Nothing else of the other table is taken over: neither its index, which counts private rows, nor
    the types of its columns, which may be decided by all rows.
    """
    if is_frame(like):
        return type(like)(values, columns=list(like.columns))
    if hasattr(like, "get_columns"):  # polars
        return type(like)(values, schema=list(like.columns), orient="row")
    return values


# --- user code --------------------------------------------------------------------------------


_RUNNING = threading.local()  # `block`: whether this thread runs a block's task


class _Muffled(io.TextIOBase):
    """A stream that drops what is written to it, but by some threads, until it is switched off.

    Those are silent too while they run a block. Switched off, it passes everything on: a display
    that took it for the real one meanwhile loses nothing.
    """

    def __init__(self, stream: Any, heard: set[threading.Thread]) -> None:
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


@contextlib.contextmanager
def _silent(heard: set[threading.Thread] | None = None) -> Iterator[None]:
    """Drop warnings and what is printed: both may quote rows. `heard`: threads that may print."""
    with quiet():
        allowed = set() if heard is None else heard
        out, err = (_Muffled(stream, allowed) for stream in (sys.stdout, sys.stderr))
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                yield
        finally:
            out.on = err.on = False


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
            sampling.lent_generators() as restart,
        ):
            values = attempt(lambda: to_float(task(X, y, seed))[0], None, lambda _: restart(seed))
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
    with _silent(), interruptible():
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
        labels = np.asarray(rows._y[start:stop], dtype=np.float64)
        both = np.ascontiguousarray(np.column_stack([rows.block(start, stop), labels]))
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


def _blocks(core: Doors, n_blocks: int, rng: np.random.Generator) -> list[Positions]:
    """Return the positions of the rows of each block: every row is in exactly one.

    R: a public random permutation, dealt out in turn; sizes differ by at most one. A: by an
    independent word a row. Under a seed that word is a hash of the row's content, so that the
    blocks of two tables that differ in one row do so too, which audits compare; and rows are
    in the order of their words, as their places differ.
    """
    n = core._rows._n
    if core._replace:
        order = rng.permutation(n)
        return [np.sort(order[k::n_blocks]) for k in range(n_blocks)]
    if core._noise_seed is not None:
        key = hashlib.blake2b(repr(core._noise_seed).encode() + core._history.digest()).digest()
        words = _by_content(core._rows, key)
        blocks = _dealt(words, n_blocks)
        order = np.lexsort((words, blocks))
    else:
        words = sampling.OSEntropy().words(n)
        blocks = _dealt(words, n_blocks)
        order = np.argsort(blocks, kind="stable")
    return _split(order, blocks[order], n_blocks)


def _part(core: Doors, positions: Positions) -> tuple[Any, NDArray]:
    """Return copies of a block's rows, as float64 in the caller's kind of table, and labels."""
    table = core._rows._X
    ascending = np.sort(positions)
    values, _ = to_float(take(table, ascending))
    assert values is not None  # check_rows has converted every block once
    back = np.searchsorted(ascending, positions)
    values = np.array(values[back], dtype=np.float64, order="C", subok=False)
    np.copyto(values, 0.0, where=~np.isfinite(values))  # rows that changed after the check
    return as_table(values, table), core._rows._y[positions]


def _block_outputs(core: Doors, run: OnBlocks, width: int) -> NDArray[np.float64]:
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
    rng = core.post_processing_rng()
    seeds = rng.integers(0, 2**31 - 1, size=n_blocks).tolist()
    blocks = _blocks(core, int(n_blocks), rng)
    pid = os.getpid()

    def calls() -> Iterator[tuple]:
        for positions, seed in zip(blocks, seeds, strict=True):
            X, y = _part(core, positions)
            yield delayed(_work)(task, X, y, seed, width, pid)

    here, told = threading.current_thread(), 0
    # Displays have threads of their own, which were there before the blocks'.
    heard = set(threading.enumerate()) if progress else set()
    heard.discard(here)
    answers = np.full((int(n_blocks), width), np.nan)
    with core._foreign(), _silent(heard):
        for k, answer in _in_parallel(calls, n_jobs, one_by_one=progress is not None):
            answers[k] = answer
            if progress is not None and k == told:  # a block that is run again is not news
                told += 1
                heard.add(here)
                progress(told, int(n_blocks))
                heard.discard(here)
    return answers


def _clipped(core: Doors, run: OnBlocks, view: Box | Ball) -> Floats:
    """Return the blocks' vectors as integers in the view; private."""
    vectors = _block_outputs(core, run, view.n_dims)
    finite = np.isfinite(vectors)
    with np.errstate(all="ignore"):
        q = view.map(np.where(finite, vectors, view.center))
    return np.where(finite, q, 0.0)


@reviewed
@dataclass(frozen=True, eq=False)
class BlockVotes(Measurement):
    """The winner of each of several votes that disjoint blocks take part in.

    A block has one vote in each; a number that is no class is an abstention. Guarantee: one
    row changes one block, which changes at most one vote a query into another, under both
    relations: L2 sensitivity of all queries' counts sqrt(2 n_queries). With two classes, the
    difference of the counts is released (sensitivity 2 sqrt(n_queries)); with more, all
    counts under Gaussian noise, or in a pure session the winners by the exponential mechanism
    at an equal part of epsilon each, a count moving by at most 1.

    Returns
    -------
    winners : ndarray of shape (n_queries,)
        Codes.
    counts : Release or None
        Of shape (n_queries, n_classes), up to the same number for all classes of a query;
        None after the exponential mechanism.
    """

    name: ClassVar[str] = "votes of blocks"
    run: OnBlocks
    n_queries: int
    n_classes: int

    def measure(
        self, core: Doors, share: Share, name: str
    ) -> tuple[NDArray[np.int64], Release | None]:
        run, n_queries, n_classes = self.run, self.n_queries, self.n_classes
        core._check_share(share, name)
        codes = _block_outputs(core, run, n_queries)
        votes = np.stack([(codes == k).sum(axis=0) for k in range(n_classes)], axis=1)
        if n_classes == 2:
            exact = (votes[:, 1] - votes[:, 0]).astype(np.int64) << _STEP_BITS
            size = isqrt_up(4 * n_queries << (2 * _STEP_BITS))
            step = 2.0**-_STEP_BITS
            noisy, std = core._vector(name, exact, size, share, unit=step)
            half = noisy.astype(np.float64) * step / 2
            winners = (half > 0).astype(np.int64)
            return winners, released(np.stack([-half, half], axis=1), std * step / 2)
        if core.pure:
            return core._choices(name, -votes, 1, share), None
        noisy, std = core._scalars(name, votes, 2 * n_queries, 2 * n_queries, share)
        return noisy.argmax(axis=1), released(noisy.astype(np.float64), std)


@reviewed
@dataclass(frozen=True, eq=False)
class BlockMean(Measurement):
    """The mean over disjoint blocks of a vector that each returns, clipped to a view.

    Guarantee: one row changes the vector of one block, to any other in the view, under both
    relations: L2 sensitivity of the sum 2 norm. The number of blocks is public.

    Returns
    -------
    mean : Release, value and std of shape (view.n_dims,)
        The std is of the noise before each number is clipped to the view's half width.
    """

    name: ClassVar[str] = "mean of blocks"
    run: OnBlocks
    view: Any

    def measure(self, core: Doors, share: Share, name: str) -> Release:
        run, view = self.run, self.view
        core._check_share(share, name)
        view = view.at(SUM_BITS)
        q = _clipped(core, run, view)
        exact = q.astype(np.int64).sum(axis=0)
        size = max(1, 2 * view.norm)
        noisy, std = core._vector(name, exact, size, share, unit=float(view.grid.max()))
        steps = np.clip(noisy.astype(np.float64) / run.n_blocks, -view.half, view.half)
        return released(view.center + steps * view.grid, std / run.n_blocks * view.grid)


@reviewed
@dataclass(frozen=True, eq=False)
class BlockMedian(Measurement):
    """The median over disjoint blocks of each coordinate of a vector in a box.

    Exponential mechanism over n_cells equal cells of each coordinate's interval, as
    `CellQuantile`. Guarantee: under both relations one of the n_blocks values is replaced,
    which moves a rank by at most 1; each coordinate takes an equal part of the share.

    Returns
    -------
    median : Release, value of shape (view.n_dims,)
        Midpoints of cells.
    """

    name: ClassVar[str] = "median of blocks"
    run: OnBlocks
    view: Box
    n_cells: int = 1024

    def measure(self, core: Doors, share: Share, name: str) -> Release:
        run, view, n_cells = self.run, self.view, self.n_cells
        core._check_share(share, name)
        q = _clipped(core, run, view)
        # Exact: integers of at most 2**18 times n_cells.
        cells = (q + view.half) * n_cells // (2 * view.half + 1)
        where = cells.astype(np.int64) + np.arange(view.n_dims) * n_cells
        counts = np.bincount(where.ravel(), minlength=view.n_dims * n_cells)
        counts = counts.reshape(view.n_dims, n_cells)
        up_to = np.cumsum(counts, axis=1)
        # Twice the distance of m / 2 to the ranks of the cell's values.
        scores = np.maximum(
            np.maximum(2 * (up_to - counts) - run.n_blocks, run.n_blocks - 2 * up_to), 0
        )
        chosen = core._choices(name, scores.astype(np.int64), 2, share)
        width = 2 * view.half * view.grid / n_cells
        value = view.center - view.half * view.grid + (chosen + 0.5) * width
        return released(value, np.full(view.n_dims, np.nan))


@reviewed
@dataclass(frozen=True, eq=False)
class BlockSmoothMedian(Measurement):
    """The median over disjoint blocks of each coordinate, under smooth noise.

    Guarantee: under both relations one of the n_blocks values of a coordinate is replaced, and
    their number is public: the smooth sensitivity is that of replaced values, as
    `SmoothMedian` has it for replaced rows. Each coordinate takes an equal part of the
    share.

    Returns
    -------
    median : Release, value of shape (view.n_dims,)
        In the box; std is NaN, as the noise's scale is private.

    Raises
    ------
    ValueError
        If the noise is unknown or its scale out of range; no block has been run then.
    """

    name: ClassVar[str] = "smooth median of blocks"
    run: OnBlocks
    view: Box
    noise: str = "cauchy"
    nu: int = 3

    def measure(self, core: Doors, share: Share, name: str) -> Release:
        run, view, noise, nu = self.run, self.view, self.noise, self.nu
        half = order_halves(view)

        def statistic(ladders: list[Ladder]) -> tuple[NDArray, list[int]]:
            columns = _clipped(core, run, view).astype(np.int32).T
            pairs = [
                quantile_log_smooth(x.copy(), Fraction(1, 2), -h, h, ladder, replace=True)
                for x, h, ladder in zip(columns, half, ladders, strict=True)
            ]
            return np.array([f for f, _ in pairs], dtype=np.int64), [j for _, j in pairs]

        noisy = smooth_release(
            core,
            name,
            [max(1, 2 * h) for h in half],
            statistic,
            share,
            noise=noise,
            nu=nu,
            unit=float(view.grid.max()),
        )
        steps = np.array([min(max(int(v), -h), h) for v, h in zip(noisy, half, strict=True)])
        return released(view.center + steps * view.grid, np.full(view.n_dims, np.nan))
