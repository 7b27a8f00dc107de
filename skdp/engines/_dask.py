"""Parts on dask's workers: partitions of a frame, or files that every worker sees.

Nothing is released here. Every pass has tasks of its own (``pure=False``): by equal keys dask would
give back the totals of an earlier pass without a look at the parts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from skdp.engines._source import Part, Task

__all__ = ["Dask"]

_TOGETHER = 8  # totals that are added up at a time, on the workers: a tree of reductions


def _visit(task: Task, number: int, handle: Any, wanted: Any) -> list[NDArray]:
    return task(Part(number, handle, wanted))


def _sum(task: Task, totals: list[list[NDArray]]) -> list[NDArray]:
    return functools.reduce(task.added, totals)


class Dask:
    """Visits parts by the current client of dask, or by its default scheduler."""

    remote = True

    def map_add(self, task: Task, parts: Sequence[Part]) -> list[NDArray]:
        """Return the sum of ``task(part)`` over the parts; what a lost worker did is done again."""
        delayed = import_module("dask").delayed
        public = delayed(task, pure=False)
        visit, add = delayed(_visit, pure=False), delayed(_sum, pure=False)
        totals = [visit(public, *part) for part in parts]
        while len(totals) > 1:
            groups = range(0, len(totals), _TOGETHER)
            totals = [add(public, totals[i : i + _TOGETHER]) for i in groups]
        found: list[NDArray] = totals[0].compute() if totals else task.zero()
        return found

    def fetched(self, reader: Any, number: int, handle: Any, columns: Sequence[str]) -> Any:
        """Yield batches of one part in this process."""
        (part,) = import_module("dask").compute(handle)
        yield from reader(part)
