"""Threads of a fit: their number, BLAS, and how they end."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController

__all__ = ["in_threads", "one_thread_of_blas", "usable_cores"]


@functools.cache
def _blas() -> ThreadpoolController:
    """Return the BLAS libraries of this process; finding them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")


def usable_cores() -> int:
    """Return how many cores this process may use, by its own limits and by those of BLAS.

    Whoever limits the threads of BLAS (OMP_NUM_THREADS, a worker of joblib, an enclosing fold) has
    given the other cores away.
    """
    allowed = [library["num_threads"] for library in _blas().info()]
    return max(1, min([joblib.cpu_count(), *allowed]))


def one_thread_of_blas() -> Any:
    """Return a context in which BLAS has one thread, for callers with several threads."""
    return _blas().limit(limits=1)


def in_threads(work: Callable[[int, threading.Event], Any], threads: int) -> list[Any]:
    """Return ``work(i, stop)`` for each i below `threads`, in so many threads.

    Ctrl-C sets `stop`: what is returned then is not used. Where no thread can be started (the
    interpreter is ending, or the process may have no more), this one does the work.
    """
    stop, taken, results = threading.Event(), dict[int, object](), dict[int, Any]()

    def run(i: int) -> None:
        claim = object()
        if taken.setdefault(i, claim) is claim:  # no other thread was faster
            results[i] = work(i, stop)

    if threads == 1:
        return [work(0, stop)]
    with one_thread_of_blas(), ThreadPoolExecutor(threads) as pool:
        futures = []
        try:
            with contextlib.suppress(RuntimeError):
                for i in range(threads):
                    futures.append(pool.submit(run, i))
            for future in futures:
                future.result()
            for i in range(threads):
                run(i)
        except BaseException:
            stop.set()
            raise
    return [results[i] for i in range(threads)]
