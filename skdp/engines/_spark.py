"""Parts in Spark: the partitions of a frame, or files that its Python workers read by themselves.

Nothing is released here. Totals come back as rows of a result, one a partition: Spark counts those
of a task that ran twice once. (An accumulator would add both; ``toLocalIterator`` would run one
partition after the other.)
"""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.engines._source import Part, Task

__all__ = ["Spark", "SparkFiles"]

_TOGETHER = 16  # more partials than this are added up on the workers first
_A_CORE = 4  # tasks for each core: one that takes long does not keep the others waiting
_SCHEMA = "totals binary"


class Spark:
    """Visits the partitions of one frame.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    """

    remote = True
    takes_pairs = False  # partitions of two frames have nothing to do with each other

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def map_add(self, task: Task, parts: Sequence[Part]) -> list[NDArray]:
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

    def map_add(self, task: Task, parts: Sequence[Part]) -> list[NDArray]:
        """Return the sum of ``task(part)`` over the parts; each Spark task takes some of them."""
        session = active_session()
        n = max(1, min(len(parts), _A_CORE * session.sparkContext.defaultParallelism))
        numbers = session.range(0, len(parts), 1, n)
        return _collected(numbers.mapInArrow(_reader(task, parts), _SCHEMA), task, n)


def active_session() -> Any:
    """Return the session of Spark that is active, or raise.

    Raises
    ------
    ValueError
        If there is none.
    """
    session = import_module("pyspark.sql").SparkSession.getActiveSession()
    if session is None:
        raise ValueError("engine='spark' needs an active session of Spark; start one before")
    return session


def _collected(totals: Any, task: Task, n: int) -> list[NDArray]:
    """Return the sum of the totals of n partitions, many of which are added up on the workers."""
    if n > _TOGETHER:
        totals = totals.repartition(math.isqrt(n)).mapInArrow(_adder(task), _SCHEMA)
    found = [pickle.loads(row[0]) for row in totals.collect()]
    return functools.reduce(task.added, found, task.zero())


def _quoted(name: str) -> str:
    """Return a name as Spark's columns have it, where it may hold dots."""
    return "`" + str(name).replace("`", "``") + "`"


def _batch(totals: list[NDArray]) -> Any:
    arrow = import_module("pyarrow")
    return arrow.RecordBatch.from_arrays([arrow.array([pickle.dumps(totals)])], names=["totals"])


def _named(batch: Any, names: tuple[str, ...]) -> Any:
    """Return a batch with the names of the frame's columns."""
    return import_module("pyarrow").RecordBatch.from_arrays(batch.columns, names=list(names))


def _visitor(
    task: Task, parts: Sequence[Part], names: tuple[str, ...]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what a Python worker does with the batches of its partition."""
    wanted = {part.number: part.wanted for part in parts}
    some = any(rows is not None for rows in wanted.values())
    none = np.zeros(0, dtype=np.int64) if some else None

    def visit(batches: Iterable[Any]) -> Iterator[Any]:
        number = import_module("pyspark").TaskContext.get().partitionId()
        named = (_named(batch, names) for batch in batches)
        yield _batch(task.over(Part(number, None, wanted.get(number, none)), named))

    return visit


def _reader(task: Task, parts: Sequence[Part]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what a Python worker does with the numbers of its parts."""

    def visit(batches: Iterable[Any]) -> Iterator[Any]:
        numbers = (number.as_py() for batch in batches for number in batch.column(0))
        mine = (task(parts[number]) for number in numbers)
        yield _batch(functools.reduce(task.added, mine, task.zero()))

    return visit


def _adder(task: Task) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what adds up the totals of several partitions."""

    def add(batches: Iterable[Any]) -> Iterator[Any]:
        found = [pickle.loads(cell.as_py()) for batch in batches for cell in batch.column(0)]
        yield _batch(functools.reduce(task.added, found, task.zero()))

    return add
