"""Parts in Spark: the partitions of a frame, read as Arrow batches by Python workers.

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

__all__ = ["Spark"]

_TOGETHER = 16  # more partials than this are added up on the workers first


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
        frame = self.frame
        if hasattr(task, "form") and task.form.reads is not None:
            frame = frame.select(*map(_quoted, task.form.reads))
        totals = frame.mapInArrow(_visitor(task, parts), "totals binary")
        if len(parts) > _TOGETHER:
            totals = totals.repartition(math.isqrt(len(parts))).mapInArrow(
                _adder(task), "totals binary"
            )
        found = [pickle.loads(row[0]) for row in totals.collect()]
        return functools.reduce(task.added, found, task.zero())


def _quoted(name: str) -> str:
    """Return a name as Spark's columns have it, where it may hold dots."""
    return "`" + str(name).replace("`", "``") + "`"


def _batch(totals: list[NDArray]) -> Any:
    arrow = import_module("pyarrow")
    return arrow.RecordBatch.from_arrays([arrow.array([pickle.dumps(totals)])], names=["totals"])


def _visitor(task: Task, parts: Sequence[Part]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what a Python worker does with the batches of its partition."""
    wanted = {part.number: part.wanted for part in parts}
    some = any(rows is not None for rows in wanted.values())
    none = np.zeros(0, dtype=np.int64) if some else None

    def visit(batches: Iterable[Any]) -> Iterator[Any]:
        number = import_module("pyspark").TaskContext.get().partitionId()
        yield _batch(task.over(Part(number, None, wanted.get(number, none)), batches))

    return visit


def _adder(task: Task) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what adds up the totals of several partitions."""

    def add(batches: Iterable[Any]) -> Iterator[Any]:
        found = [pickle.loads(cell.as_py()) for batch in batches for cell in batch.column(0)]
        yield _batch(functools.reduce(task.added, found, task.zero()))

    return add
