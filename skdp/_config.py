"""Settings of a block of code: its noise, its uncounted fits, its time.

Noise comes from the operating system. `random_state` seeds noise only inside an explicit
`config_context`, because scikit-learn's ensembles put integers into every ``random_state`` that
they find, and whoever knows the seed can subtract the noise.

The context has to reach the threads and processes in which scikit-learn fits clones, and nothing
else: no other thread, no other asyncio task, no model that is saved inside, no worker that outlives
it. scikit-learn's own configuration does nearly that: it belongs to a thread, and
`sklearn.utils.parallel` sets it in a worker for the time of one task. So the context is a mark on
one of its values, ``working_memory``, whose number stays; a context variable says which task of the
thread entered it. Where the mark is lost (a plain `joblib.Parallel`, a thread of the caller's own,
another ``working_memory``), the defaults hold.
"""

from __future__ import annotations

import itertools
import math
import numbers
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import sklearn

SYSTEM, SEEDED = "system", "seeded"
WARN, ALLOW = "warn", "allow"
_CHOICES = {"noise": (SYSTEM, SEEDED), "uncounted_fits": (WARN, ALLOW)}  # the defaults first

_numbers = itertools.count()
_entered: set[int] = set()  # the contexts of this process that have not been left
# Those of them that this asyncio task, or the code that started it, has entered.
_of_task: ContextVar[frozenset[int]] = ContextVar("skdp_config", default=frozenset())


class _MarkedNumber(float):
    """A value of scikit-learn's configuration that also carries settings of skdp."""

    owner: int | None  # the process that entered the context; None where it travelled in a task
    number: int
    settings: dict[str, str]
    thread: int  # that entered it

    def __new__(
        cls, value: float, owner: int | None, number: int, settings: dict[str, str]
    ) -> _MarkedNumber:
        self = super().__new__(cls, value)
        self.owner, self.number, self.settings = owner, number, settings
        self.thread = threading.get_ident()
        return self

    def __reduce__(self) -> Any:
        return _MarkedNumber, (float(self), None, self.number, self.settings)

    @property
    def holds(self) -> bool:
        """Whether the context is open in this process, thread and asyncio task."""
        if self.owner is None:  # a task brought it, for the time of the task
            return True
        if self.owner != os.getpid() or self.number not in _entered:
            return False  # a process that was forked inside the context may outlive it
        # In any other thread it is only where scikit-learn has brought it.
        return self.thread != threading.get_ident() or self.number in _of_task.get()


def _settings() -> dict[str, str]:
    """Return what is set here and now, without defaults."""
    mark = sklearn.get_config()["working_memory"]
    return mark.settings if isinstance(mark, _MarkedNumber) and mark.holds else {}


def noise_is_seeded() -> bool:
    """Whether a ``random_state`` seeds noise here and now."""
    return _settings().get("noise") == SEEDED


def uncounted_fits_are_allowed() -> bool:
    """Whether fits that no budget counts are allowed here and now."""
    return _settings().get("uncounted_fits") == ALLOW


def get_config() -> dict[str, str]:
    """Return the settings of skdp in this thread.

    Returns
    -------
    config : dict
        ``noise``: "system" or "seeded"; ``uncounted_fits``: "warn" or "allow". See
        `config_context`.

    Examples
    --------
    >>> import skdp
    >>> with skdp.config_context(noise="seeded"):
    ...     skdp.get_config()
    {'noise': 'seeded', 'uncounted_fits': 'warn'}
    """
    return {name: choices[0] for name, choices in _CHOICES.items()} | _settings()


@contextmanager
def config_context(
    *, noise: str | None = None, uncounted_fits: str | None = None
) -> Iterator[None]:
    """Set for a block of code how noise is drawn, and whether fits may go uncounted.

    Outside such a block, noise always comes from the operating system, and ``random_state`` seeds
    post-processing only (such as the restarts of k-means on released points).

    Parameters
    ----------
    noise : {"seeded", "system"}, default=None
        With "seeded", for tests and teaching, fits whose ``random_state`` is not None draw
        reproducible noise. "system" restores the default for an inner block. None changes nothing.
    uncounted_fits : {"allow", "warn"}, default=None
        What happens to a fit that names no budget, outside of all ``with budget:`` blocks. By
        default ("warn") it warns if the process has a budget, and raises in a worker process that
        cannot know whether there is such a block. "allow" permits it. None changes nothing.

    Yields
    ------
    None

    Notes
    -----
    **Privacy.** *A fit under "seeded" is not private*: whoever knows or guesses the seed can
    subtract the noise. Such a fit is marked ``seeded`` in its certificate and in the ledger, and
    warns with `SeededNoiseWarning` if it charges a budget. A session that is opened inside the
    block keeps its noise after the block. Fits under "allow" add up, but no ledger shows it.

    **Reach.** Like scikit-learn's ``config_context``, the block affects its own thread, and the
    workers (threads, loky, multiprocessing, dask) in which scikit-learn fits for it. It does not
    affect threads that you start, asyncio tasks that are not created inside it, a plain
    ``joblib.Parallel``, or code inside another ``sklearn.config_context(working_memory=...)``:
    there, the defaults hold. In a worker of your own, enter the block in the function that it runs.

    Examples
    --------
    >>> import numpy as np
    >>> import skdp
    >>> ages = np.arange(1000) % 80
    >>> with skdp.config_context(noise="seeded"):
    ...     a, b = (
    ...         skdp.statistics.mean(ages, bounds=(0, 80), random_state=0).value for _ in range(2)
    ...     )
    >>> bool(a == b)
    True
    """
    settings = dict(_settings())
    for name, value in {"noise": noise, "uncounted_fits": uncounted_fits}.items():
        default, other = _CHOICES[name]
        if value is None:
            continue
        if not (isinstance(value, str) and value in (default, other)):
            raise ValueError(f"{name} must be {other!r} or {default!r}, got {value!r}")
        settings[name] = value
        if value == default:
            del settings[name]
    memory = sklearn.get_config()["working_memory"]
    if not settings:
        plain = float(memory) if isinstance(memory, _MarkedNumber) else memory
        with sklearn.config_context(working_memory=plain):
            yield
        return
    number = next(_numbers)
    _entered.add(number)
    _of_task.set(_of_task.get() | {number})
    try:
        marked = _MarkedNumber(memory, os.getpid(), number, settings)
        with sklearn.config_context(working_memory=marked):
            yield
    finally:
        _entered.discard(number)
        _of_task.set(_of_task.get() - {number})


@contextmanager
def pad_time(seconds: float) -> Iterator[None]:
    """Make a block of code end at a multiple of a stated time, whatever is fitted in it.

    For servers whose clients may measure how long an answer takes. A block that raises is padded,
    too.

    Parameters
    ----------
    seconds : float
        From 1e-6 to 1e6. Choose more than the slowest fit needs, so that all fits take the same
        time.

    Yields
    ------
    None

    Raises
    ------
    TypeError, ValueError
        If `seconds` is not a number from 1e-6 to 1e6. The block is then not entered.

    Notes
    -----
    **Privacy.** The end of the block only reveals how many multiples of `seconds` it took: nothing
    if that is always one, at most log2(k) bits if it is at most k. A wait is as exact as the
    system's clock, and does not depend on rows. Not hidden are the load of the machine, its memory,
    and what other processes see (`doc/sharp_edges.md`, "Time and memory").

    Examples
    --------
    >>> import time
    >>> import skdp
    >>> before = time.monotonic()
    >>> with skdp.pad_time(0.05):
    ...     mean = skdp.statistics.mean([1.0, 2.0] * 100, bounds=(0, 3))
    >>> time.monotonic() - before >= 0.05
    True
    """
    if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real):
        raise TypeError(f"seconds must be a number, got {type(seconds).__name__}")
    step = float(seconds)
    if not 1e-6 <= step <= 1e6:  # NaN, too; clocks and sleep() keep nothing outside
        raise ValueError(f"seconds must be a number from 1e-6 to 1e6, got {seconds!r}")
    started = time.monotonic()
    try:
        yield
    finally:
        end = started + step * max(1, math.ceil((time.monotonic() - started) / step))
        while (remaining := end - time.monotonic()) > 0:
            time.sleep(remaining)
