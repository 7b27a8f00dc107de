"""Parts in threads of this process: the engine of files, streams and arrays.

Nothing is released here.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Sequence

from numpy.typing import NDArray

from skdp._threads import in_threads, usable_cores
from skdp.engines._source import Part, Task

__all__ = ["Threads"]


class Threads:
    """Visits parts in as many threads as the process may use cores, BLAS with one thread each.

    Parameters
    ----------
    most : int, default=None
        The most threads; None for the cores that affinity, control group and ``OMP_NUM_THREADS``
        allow.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most

    def map_add(self, task: Task, parts: Sequence[Part]) -> list[NDArray]:
        """Return the sum of ``task(part)`` over the parts; each thread adds up its own."""
        cores = usable_cores() if self.most is None else self.most
        threads = max(1, min(cores, len(parts)))
        waiting = iter(parts)  # `next` of a list's iterator is atomic

        def work(_: int, stop: threading.Event) -> list[NDArray]:
            mine = itertools.takewhile(lambda part: not stop.is_set(), waiting)
            return functools.reduce(task.added, map(task, mine), task.zero())

        return functools.reduce(task.added, in_threads(work, threads))
