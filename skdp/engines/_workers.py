"""Engines, which visit the parts of a table: threads of this process, dask's workers, or Spark's.

Each engine has ``map_add(task, parts)``: the sum of ``task(part)`` over the parts, each of which is
counted once. Sums are exact, so their order changes nothing.

- `Threads` reads files, streams and arrays.
- `Dask` gives every pass tasks of its own (``pure=False``): for tasks with equal keys, dask would
  return the totals of an earlier pass without reading the parts.
- `Spark` and `SparkFiles` return totals as rows of a result, one for each partition. Where a Spark
  task ran twice, its result is counted once. (An accumulator would add both results;
  ``toLocalIterator`` would run one partition after the other.)
"""

from __future__ import annotations

import functools
import itertools
import math
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._threads import in_threads, usable_cores
from skdp.core.table import added
from skdp.tabular.parts import FoldTask
from skdp.tabular.source import Part

_DASK_GROUP = 8  # totals that one dask task adds up
_SPARK_PARTITIONS = 16  # more of them than this are added up on the workers first
_TASKS_PER_CORE = 4  # of Spark: a task that takes long does not keep the others waiting
_SCHEMA = "totals binary"

Totals = list[NDArray]
Visitor = Callable[[Iterable[Any]], Iterator[Any]]


def _sum(task: FoldTask, totals: Iterable[Totals]) -> Totals:
    return functools.reduce(added, totals, task.zero())


class Threads:
    """Visits parts in as many threads as the process may use cores, BLAS with one thread each.

    - `most`: The largest number of threads; None for the cores that affinity, control group and
      ``OMP_NUM_THREADS`` allow.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most

    def map_add(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the sum of ``task(part)`` over the parts; each thread adds up its own."""
        cores = usable_cores() if self.most is None else self.most
        threads = max(1, min(cores, len(parts)))
        waiting = iter(parts)  # `next` of a list's iterator is atomic

        def work(_: int, stop: threading.Event) -> Totals:
            mine = itertools.takewhile(lambda part: not stop.is_set(), waiting)
            return _sum(task, map(task, mine))

        return functools.reduce(added, in_threads(work, threads))


# --- dask -----------------------------------------------------------------------------------------


def _visit(task: FoldTask, number: int, handle: Any, wanted: Any) -> Totals:
    return task(Part(number, handle, wanted))


class Dask:
    """Visits parts by the current client of dask, or by its default scheduler."""

    remote = True

    def map_add(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the sum of ``task(part)`` over the parts; what a lost worker did is done again."""
        delayed = import_module("dask").delayed
        public = delayed(task, pure=False)
        visit, add = delayed(_visit, pure=False), delayed(_sum, pure=False)
        totals = [visit(public, *part) for part in parts]
        while len(totals) > 1:
            groups = range(0, len(totals), _DASK_GROUP)
            totals = [add(public, totals[i : i + _DASK_GROUP]) for i in groups]
        return totals[0].compute() if totals else task.zero()

    def fetched(self, reader: Any, number: int, handle: Any, columns: Sequence[str]) -> Any:
        """Yield batches of one part in this process."""
        (part,) = import_module("dask").compute(handle)
        yield from reader(part)


# --- Spark ----------------------------------------------------------------------------------------


class Spark:
    """Visits the partitions of one frame."""

    remote = True
    takes_pairs = False  # partitions of two frames have nothing to do with each other

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def map_add(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the sum of the totals of all partitions."""
        names = tuple(self.frame.columns) if task.reads is None else task.reads
        # `mapInArrow` does not find columns that have a dot in their name.
        frame = self.frame.select(*map(_quoted, names)).toDF(*(f"c{j}" for j in range(len(names))))
        return _collected(frame.mapInArrow(_visitor(task, parts, names), _SCHEMA), task, len(parts))

    def fetched(self, reader: Any, number: int, handle: Any, columns: Sequence[str]) -> Any:
        """Yield the rows of all partitions with the first: Spark hands them over together."""
        if number == 0:
            yield self.frame.select(*map(_quoted, columns)).toArrow()


class SparkFiles:
    """Visits parts that every worker can read, such as row groups of files, by the active session.

    Rows go from the file to the Python worker; those of a frame go through the Java runtime first.
    """

    remote = True

    def map_add(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the sum of ``task(part)`` over the parts; each Spark task takes some of them."""
        session = active_session()
        cores = session.sparkContext.defaultParallelism
        n = max(1, min(len(parts), _TASKS_PER_CORE * cores))
        numbers = session.range(0, len(parts), 1, n)
        return _collected(numbers.mapInArrow(_reader(task, parts), _SCHEMA), task, n)


def active_session() -> Any:
    """Return the active session of Spark; ValueError if there is none."""
    session = import_module("pyspark.sql").SparkSession.getActiveSession()
    if session is None:
        raise ValueError("engine='spark' needs an active session of Spark; start one before")
    return session


def _collected(frame: Any, task: FoldTask, n: int) -> Totals:
    """Return the sum of the totals in a frame of n partitions."""
    if n > _SPARK_PARTITIONS:
        frame = frame.repartition(math.isqrt(n)).mapInArrow(_adder(task), _SCHEMA)
    return _sum(task, [pickle.loads(row[0]) for row in frame.collect()])


def _quoted(name: str) -> str:
    """Return the name of a column as Spark reads it, where it may contain dots."""
    return "`" + str(name).replace("`", "``") + "`"


def _batch(totals: Totals) -> Any:
    arrow = import_module("pyarrow")
    return arrow.RecordBatch.from_arrays([arrow.array([pickle.dumps(totals)])], names=["totals"])


def _visitor(task: FoldTask, parts: Sequence[Part], names: tuple[str, ...]) -> Visitor:
    """Return the function by which a Python worker reads the batches of its partition."""
    wanted = {part.number: part.wanted for part in parts}
    some = any(rows is not None for rows in wanted.values())
    none = np.zeros(0, dtype=np.int64) if some else None

    def visit(batches: Iterable[Any]) -> Iterator[Any]:
        number = import_module("pyspark").TaskContext.get().partitionId()
        renamed = import_module("pyarrow").RecordBatch.from_arrays
        named = (renamed(batch.columns, names=list(names)) for batch in batches)
        yield _batch(task(Part(number, None, wanted.get(number, none)), named))

    return visit


def _reader(task: FoldTask, parts: Sequence[Part]) -> Visitor:
    """Return the function by which a Python worker visits the parts whose numbers it gets."""

    def visit(batches: Iterable[Any]) -> Iterator[Any]:
        numbers = (number.as_py() for batch in batches for number in batch.column(0))
        yield _batch(_sum(task, (task(parts[number]) for number in numbers)))

    return visit


def _adder(task: FoldTask) -> Visitor:
    """Return the function by which a Python worker adds up the totals of several partitions."""

    def add(batches: Iterable[Any]) -> Iterator[Any]:
        cells = (cell.as_py() for batch in batches for cell in batch.column(0))
        yield _batch(_sum(task, map(pickle.loads, cells)))

    return add
