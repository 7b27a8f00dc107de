"""Which budget counts a fit that names none: the innermost ``with budget:``.

A block is entered in one thread, and a search inside it fits in others. So a fit asks the block of
its own context first (of its thread or asynchronous task), and then the blocks of the whole
process, where one of them is the innermost of all. Where blocks of several threads stand side by
side and a thread has none of its own, nobody can tell which is meant, and that is an error before
any charge.

Other processes learn of a block in three ways:

- Estimators that are cloned or pickled inside a block take its budget with them.
- joblib pickles tasks in batches, which take the budget along, or the fact that there was no block.
- A process that is forked inside a block is inside it, until its parent may mean another one.

A worker that has learned nothing refuses a fit that names no budget.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import importlib
import itertools
import mmap
import os
import re
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing import current_process, parent_process
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from joblib.parallel import BatchedCalls

from skdp.exceptions import UncountedFitWarning

if TYPE_CHECKING:
    from skdp.budget.budget import PrivacyBudget

__all__ = [
    "Block",
    "ambient_budget",
    "check_counted",
    "enter",
    "leave",
    "ledger_of",
    "live",
    "only_here",
    "outside_level",
]


class Block:
    """One ``with budget:``, from entering to leaving it."""

    def __init__(self, budget: PrivacyBudget, outer: Block | None, *, apart: bool = False) -> None:
        self.budget, self.outer, self.open, self.apart = budget, outer, True, apart


_LIBRARIES = ("skdp", "sklearn", "joblib", "contextlib")

_HERE: ContextVar[Block | None] = ContextVar("skdp_budget", default=None)
# The open blocks of this process, in the order of entering. Changed and read by single operations
# of a dictionary only: a lock would hang where a signal handler, a destructor or the garbage
# collector enters a block while another is being entered.
_OPEN: dict[Block, None] = {}
_APART: dict[Block, None] = {}  # those of `only_here`
_LIVE: weakref.WeakSet[PrivacyBudget] = weakref.WeakSet()  # the budgets of this process


# -- processes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ancestor:
    """A process that this one was forked from, as it was at the fork."""

    pid: int
    changes: mmap.mmap  # which it goes on writing, for its children to read
    at_fork: bytes
    knew: bool  # whether a fit without a block was known to be outside of all


_numbers = itertools.count(1)
_changes = mmap.mmap(-1, 8)  # how often the blocks of this process have changed
_ancestors: tuple[_Ancestor, ...] = ()
_inherited: tuple[Block, ...] = ()  # blocks that were open at the fork
_at_fork: _Ancestor  # this process, as the next fork will find it


def _changed() -> None:
    """Tell forked children that what they have inherited holds no more; after the change."""
    _changes[:] = next(_numbers).to_bytes(8, "little")


def _before_fork() -> None:
    global _at_fork
    _at_fork = _Ancestor(os.getpid(), _changes, _changes[:], _is_told_by_start())


def _after_fork_in_child() -> None:
    global _ancestors, _changes, _inherited
    _ancestors = (*_ancestors, _at_fork)
    # Whoever hands this child its tasks may be another thread of the parent.
    _inherited = (*_inherited, *_OPEN)
    _OPEN.clear()
    block = _HERE.get()
    while block is not None and not (block.open and block.apart):
        block = block.outer
    _HERE.set(block)
    _changes = mmap.mmap(-1, 8)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def _is_told_by_start() -> bool:
    """Say whether this process knows all blocks of those who may hand it tasks.

    It does if nobody does, or if its parent has forked it and has changed no block since. Workers
    that were started otherwise (spawn, forkserver, loky, dask) do not.
    """
    if not all(one.knew and one.changes[:] == one.at_fork for one in _ancestors):
        return False
    parent = parent_process()
    return parent is None or parent.pid in [one.pid for one in _ancestors]


def _runs_task_of_others() -> bool:
    """Say whether dask or Spark runs this thread's task, for whoever is connected to them."""
    if dask := sys.modules.get("distributed"):
        with contextlib.suppress(ValueError, AttributeError):  # not in a worker
            return not dask.get_worker().address.startswith("inproc:")
    spark = sys.modules.get("pyspark")
    return spark is not None and spark.TaskContext.get() is not None


# -- batches of joblib ----------------------------------------------------------------------------

# An attribute of a batch that was pickled in no block: whether there was a budget; None if it may
# have been in one.
_OUTSIDE = "skdp_fits_are_uncounted_beside_a_budget"

# Budgets of the last batches: a worker connects to a ledger once, not once a batch.
_kept: deque[PrivacyBudget] = deque(maxlen=4)


def _reduced_batch(batch: Any) -> tuple[Any, ...]:
    """Pickle a batch of joblib's tasks with what counts their fits."""
    function, arguments, state = (*batch.__reduce_ex__(2), None)[:3]
    try:
        budget, is_known = _resolved()
        # joblib pickles in threads of its own: the batch may be of a run of a private search.
        is_known = is_known and (here() is not None or not _APART)
    except ValueError:  # of several blocks side by side
        is_known = False
    if is_known and budget is not None:
        return _batch_in_block, (budget, function, arguments, state)
    # No code of skdp: other tasks than fits may go where it is not installed.
    return function, arguments, {**(state or {}), _OUTSIDE: live() if is_known else None}


def _batch_in_block(
    budget: PrivacyBudget, function: Callable[..., Any], arguments: Any, state: Any
) -> Callable[..., Any]:
    batch = function(*arguments)
    vars(batch).update(state or {})
    if budget not in _kept:
        _kept.append(budget)
    return functools.partial(_run_in_block, budget, batch)


def _run_in_block(budget: PrivacyBudget, batch: Any, *args: Any, **kwargs: Any) -> Any:
    with budget:
        return batch(*args, **kwargs)


copyreg.pickle(BatchedCalls, _reduced_batch)


def _learn_dask() -> None:
    """Let batches that dask runs for joblib take along the same; they have a class of their own."""
    name = "joblib._dask"
    if "distributed" in sys.modules and name not in sys.modules and _OPEN:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    batch = getattr(sys.modules.get(name), "Batch", None)
    if batch is not None and batch not in copyreg.dispatch_table:
        copyreg.pickle(batch, _reduced_batch)


def _outside() -> bool | None:
    """Return what the batch that runs here was told outside of all blocks, else None."""
    stacks: list[FrameType | None] = [sys._getframe(1), None]
    if not _runs_task_of_others():  # a task of the main thread may have started this one
        stacks[1] = sys._current_frames().get(threading.main_thread().ident or 0)
    is_batch = False
    for i, frame in enumerate(stacks):
        while frame is not None:
            if frame.f_code.co_name == "__call__":
                batch = frame.f_locals.get("self")
                told = getattr(batch, "__dict__", {})
                if _OUTSIDE in told:
                    return cast("bool | None", told[_OUTSIDE])
                is_batch = is_batch or (i == 1 and isinstance(batch, BatchedCalls))
            frame = frame.f_back
    # A process that has not imported this module tells nothing, and is in no block. That holds for
    # one that is no worker itself; names of their children have a colon.
    return False if is_batch and ":" not in current_process().name else None


# -- blocks ---------------------------------------------------------------------------------------


def _innermost(block: Block | None) -> Block | None:
    """Return the innermost block that is still open, from `block` outwards."""
    while block is not None and not block.open:
        block = block.outer
    return block


def enter(budget: PrivacyBudget) -> Block:
    """Begin a block."""
    block = Block(budget, _innermost(_HERE.get()))
    _OPEN[block] = None
    _changed()
    _HERE.set(block)
    _learn_dask()
    return block


def leave(block: Block) -> None:
    """End a block."""
    block.open = False
    _OPEN.pop(block, None)
    if _OPEN or any(one.open for one in _inherited):  # a child of the last one may stay inside
        _changed()
    _HERE.set(_innermost(_HERE.get()))


@contextlib.contextmanager
def only_here(budget: PrivacyBudget) -> Iterator[None]:
    """Make a budget ambient in this thread or task, and in no other."""
    block = Block(budget, _innermost(_HERE.get()), apart=True)
    token = _HERE.set(block)
    _APART[block] = None
    _changed()
    try:
        yield
    finally:
        block.open = False
        _APART.pop(block, None)
        _HERE.reset(token)


def here() -> Block | None:
    """Return the innermost block of this thread or task."""
    return _innermost(_HERE.get())


def _resolved() -> tuple[PrivacyBudget | None, bool]:
    """Return the budget that counts a fit of here and now, and whether that can be known."""
    if (own := here()) is not None:
        return own.budget, True
    if _runs_task_of_others():  # blocks of this process are of other tasks
        return None, _outside() is not None
    blocks = [block for block in [*_OPEN] if block.open]
    if not blocks:
        if not _is_told_by_start():
            return None, not _ancestors and _outside() is not None
        blocks = [block for block in _inherited if block.open]
    if not blocks:
        return None, True
    if len({id(block.budget) for block in blocks}) > 1:
        around, block = set(), _innermost(blocks[-1])
        while block is not None:
            around.add(id(block))
            block = _innermost(block.outer)
        if any(id(block) not in around for block in blocks):
            raise ValueError(
                "budget must be stated here: several threads are inside `with budget:` blocks of "
                "different budgets, and this thread is in none of its own. Pass budget=..."
            )
    return blocks[-1].budget, True


def ambient_budget() -> PrivacyBudget | None:
    """Return the budget of the innermost block; None outside of all, or where none is known.

    Raises
    ------
    ValueError
        If several budgets are ambient in other threads, and none in this one.
    """
    _learn_dask()
    return _resolved()[0]


def ledger_of(budget: PrivacyBudget | None) -> str | None:
    """Return the identity of a budget's ledger, which several budgets may have opened."""
    return None if budget is None else budget._ledger.id


def live() -> bool:
    """Whether a budget was made or opened in this process and is still there."""
    return len(_LIVE) > 0


def outside_level() -> int:
    """Return the `stacklevel` of the first caller outside of skdp and what runs it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _LIBRARIES:
            return level
        level, frame = level + 1, frame.f_back
    return level


# -- fits that no budget counts -------------------------------------------------------------------

_UNKNOWN = (
    "{name}: budget must be stated here. Another process handed this worker its task, and the "
    "worker cannot know whether a `with budget:` there counts the fit. Pass budget=..., or send "
    "the budget along with the task and fit inside `with budget:` in the worker. If no budget is "
    "to count the fit, make it inside skdp.config_context(uncounted_fits='allow'). Nothing was "
    "charged for this fit."
)
_UNCOUNTED = (
    "No budget counts fits of {name} here: pass budget=..., or fit inside `with budget:`. If none "
    "is to count them: skdp.config_context(uncounted_fits='allow')."
)
_shown: set[str] = set()  # Python forgets what it has shown whenever a fit changes its filters


def check_counted(name: str) -> None:
    """Refuse a fit without a budget where one may be meant; warn beside a budget.

    Raises
    ------
    ValueError
        In a worker that cannot know; with the way out. Nothing has been charged.
    """
    if not _resolved()[1]:
        raise ValueError(_UNKNOWN.format(name=name))
    text = _UNCOUNTED.format(name=name)
    # By default once a process; a filter for more (an error, always) is left to Python.
    is_filtered = any(
        action not in ("default", "module", "once")
        for action, message, category, *_ in warnings.filters
        if issubclass(UncountedFitWarning, category)
        and (message is None or re.match(message, text))
    )
    told = _outside()
    is_beside_a_budget = live() if told is None else told
    if is_beside_a_budget and (is_filtered or text not in _shown):
        _shown.add(text)
        warnings.warn(text, UncountedFitWarning, stacklevel=outside_level())
