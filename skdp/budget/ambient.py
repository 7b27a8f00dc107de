"""The budget of a fit that names none: the innermost ``with budget:``.

A block is entered in one thread, and a search inside it fits in others. So a fit looks for a block
of its own context first (thread or asynchronous task), then for the innermost block of the process.
If several threads have blocks and this one has none, it is unclear which is meant: an error, before
any charge.

Other processes learn of a block in three ways:

- Estimators that are cloned or pickled inside a block take its budget with them.
- Tasks of joblib carry the budget of the block that called `Parallel`, or that there was none.
- A process that is forked inside a block is inside it, until its parent may mean another one.

A worker that has learned nothing refuses a fit that names no budget.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from multiprocessing import current_process
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from joblib.parallel import BatchedCalls, Parallel

from skdp import _forks
from skdp.exceptions import UncountedFitWarning, action_of_filters, outside_level

if TYPE_CHECKING:
    from skdp.budget.budget import PrivacyBudget


class Block:
    """One ``with budget:``, from entering to leaving it."""

    def __init__(
        self, source: PrivacyBudget | _Sent, outer: Block | None, *, travels: bool = True
    ) -> None:
        self.source, self.outer, self.open, self.travels = source, outer, True, travels

    @property
    def budget(self) -> PrivacyBudget:
        """The budget that counts fits of this block."""
        source = self.source
        return source.budget() if isinstance(source, _Sent) else source


_HERE: ContextVar[Block | None] = ContextVar("skdp_budget", default=None)
# The open blocks of this process, in the order of entering. Changed and read by single operations
# of a dictionary only: a lock would hang where a signal handler, a destructor or the garbage
# collector enters a block while another is being entered.
_OPEN: dict[Block, None] = {}
_LIVE: weakref.WeakSet[PrivacyBudget] = weakref.WeakSet()  # the budgets of this process


# -- processes ------------------------------------------------------------------------------------

_inherited: tuple[Block, ...] = ()  # blocks that were open at the fork


def _after_fork_in_child() -> None:
    global _inherited
    # Whoever hands this child its tasks may be another thread of the parent.
    block, blocks = here(), [*_OPEN]
    if block is not None and block.travels and block not in blocks:  # of a task of joblib
        blocks.append(block)
    _inherited = (*_inherited, *blocks)
    _OPEN.clear()
    # A block that does not travel still counts in the thread that forked.
    while block is not None and not (block.open and not block.travels):
        block = block.outer
    _HERE.set(block)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _runs_task_of_others() -> bool:
    """Whether dask or Spark runs this thread's task, perhaps for another process."""
    if dask := sys.modules.get("distributed"):
        with contextlib.suppress(ValueError, AttributeError):  # not in a worker
            return not dask.get_worker().address.startswith("inproc:")
    spark = sys.modules.get("pyspark")
    return spark is not None and spark.TaskContext.get() is not None


# -- tasks of joblib ------------------------------------------------------------------------------

# An attribute of a task that was called in no block: whether the caller had a budget, or None where
# the caller may have been in a block.
_OUTSIDE = "skdp_fits_are_uncounted_beside_a_budget"

# Budgets of the last tasks: a worker connects to a ledger once, not once a task.
_recent: deque[PrivacyBudget] = deque(maxlen=4)


class _Sent:
    """A budget that a task has brought along, opened by its first fit."""

    def __init__(self, pickled: bytes) -> None:
        self.pickled = pickled

    def budget(self) -> PrivacyBudget:
        budget = cast("PrivacyBudget", pickle.loads(self.pickled))
        if budget not in _recent:
            _recent.append(budget)
        return budget


class _Call:
    """The budget that counts the fits of one call of `Parallel`."""

    def __init__(self) -> None:
        self.source: PrivacyBudget | _Sent | None = None
        self.travels, self.outside = True, cast("bool | None", None)
        try:
            block, is_known = _resolved()
        except ValueError:  # of several blocks side by side
            return
        if block is not None:
            self.source, self.travels = block.source, block.travels
        elif is_known:
            self.outside = _is_beside_a_budget()

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.source
        return _Sent, (source.pickled if isinstance(source, _Sent) else pickle.dumps(source),)


class _Task:
    """The function of a task in the process that called `Parallel`."""

    def __init__(self, function: Callable[..., Any], call: _Call) -> None:
        self.function, self.call = function, call
        self.__name__ = getattr(function, "__name__", type(function).__name__)  # dask shows it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        source, own = self.call.source, here()
        if source is None or (own is not None and own.source is source):
            return self.function(*args, **kwargs)
        with only_here(source, travels=self.call.travels):
            return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.call.source is not None and self.call.travels:
            return functools.partial, (_run_in_block, self.call, self.function)
        # No code of skdp: other tasks than fits may go where it is not installed.
        attributes = {_OUTSIDE: self.call.outside}
        return functools.partial, (self.function,), (self.function, (), {}, attributes)


def _run_in_block(sent: _Sent, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    block = enter(sent)
    try:
        return function(*args, **kwargs)
    finally:
        leave(block)


class _Tasks:
    """An iterable of tasks with a length."""

    def __init__(self, tasks: Iterator[Any], n: int) -> None:
        self._tasks, self._n = tasks, n

    def __iter__(self) -> Iterator[Any]:
        return self._tasks

    def __len__(self) -> int:
        return self._n


_parallel = Parallel.__call__


@functools.wraps(_parallel)
def _call_in_block(self: Parallel, iterable: Any) -> Any:
    # joblib takes tasks from the iterable, pickles and runs them in threads of its own, perhaps
    # after the block. Only here the caller is known; all backends are called from here.
    call, last = _Call(), None

    def task(function: Callable[..., Any]) -> _Task:
        nonlocal last  # tasks of one function share one object, which is pickled once
        wrapped = last
        if wrapped is None or wrapped.function is not function:
            wrapped = last = _Task(function, call)
        return wrapped

    tasks = ((task(function), args, kwargs) for function, args, kwargs in iterable)
    return _parallel(self, _Tasks(tasks, len(iterable)) if hasattr(iterable, "__len__") else tasks)


Parallel.__call__ = _call_in_block


def _outside() -> bool | None:
    """Return the mark `_OUTSIDE` of the task of joblib that runs here, else None."""
    stacks: list[FrameType | None] = [sys._getframe(1), None]
    if not _runs_task_of_others():  # a task of the main thread may have started this one
        main = threading.main_thread().ident or 0
        # Not the frame of this call: it would hold itself, and with it the rows of the fit.
        own = main == threading.get_ident()
        stacks[1] = stacks[0] if own else sys._current_frames().get(main)
    is_batch = False
    for i, frame in enumerate(stacks):
        while frame is not None:
            if frame.f_code.co_name == "__call__":
                batch: Any = frame.f_locals.get("self")
                is_of_joblib = isinstance(batch, BatchedCalls)
                # Batches that dask runs for joblib do not hold their tasks.
                tasks = batch.items if is_of_joblib else frame.f_locals.get("tasks")
                task = tasks[0] if isinstance(tasks, list) and tasks else None
                if isinstance(task, list | tuple) and task:
                    attributes = getattr(task[0], "__dict__", {})
                    if _OUTSIDE in attributes:
                        return cast("bool | None", attributes[_OUTSIDE])
                is_batch = is_batch or (i == 1 and is_of_joblib)
            frame = frame.f_back
    # A caller that has not imported this module marks nothing, and is in no block. That holds for
    # callers that are no workers themselves; names of the children of workers have a colon.
    return False if is_batch and ":" not in current_process().name else None


def _is_beside_a_budget() -> bool:
    """Whether this process, or the caller of its task, has a budget."""
    mark = _outside()
    return len(_LIVE) > 0 if mark is None else mark


# -- blocks ---------------------------------------------------------------------------------------


def _innermost(block: Block | None) -> Block | None:
    """Return the innermost block that is still open, from `block` outwards."""
    while block is not None and not block.open:
        block = block.outer
    return block


def enter(source: PrivacyBudget | _Sent) -> Block:
    """Begin a block."""
    block = Block(source, _innermost(_HERE.get()))
    _OPEN[block] = None
    _forks.changed()
    _HERE.set(block)
    return block


def leave(block: Block) -> None:
    """End a block."""
    block.open = False
    _OPEN.pop(block, None)
    if _OPEN or any(block.open for block in _inherited):  # a child of the last one may stay inside
        _forks.changed()
    _HERE.set(_innermost(_HERE.get()))


@contextlib.contextmanager
def only_here(source: PrivacyBudget | _Sent, *, travels: bool = False) -> Iterator[None]:
    """Make a budget ambient in this thread or task; in other processes, too, if it `travels`."""
    block = Block(source, _innermost(_HERE.get()), travels=travels)
    token = _HERE.set(block)
    if not _is_meant(source):  # else children that were forked go on as they are
        _forks.changed()
    try:
        yield
    finally:
        block.open = False
        _HERE.reset(token)


def here() -> Block | None:
    """Return the innermost block of this thread or task."""
    return _innermost(_HERE.get())


def _resolved() -> tuple[Block | None, bool]:
    """Return the block that counts a fit here and now, and whether that is known."""
    return (own, True) if (own := here()) is not None else _resolved_elsewhere()


def _resolved_elsewhere() -> tuple[Block | None, bool]:
    """Return the same for a thread that is in no block of its own."""
    if _runs_task_of_others():  # blocks of this process are of other tasks
        return None, _outside() is not None
    blocks = [block for block in [*_OPEN] if block.open]
    if not blocks:
        if not _forks.knows_parents():
            return None, not _forks.ancestors and _outside() is not None
        blocks = [block for block in _inherited if block.open]
    if not blocks:
        return None, True
    if len({id(block.source) for block in blocks}) > 1:
        around, block = set(), _innermost(blocks[-1])
        while block is not None:
            around.add(id(block))
            block = _innermost(block.outer)
        beside = [block for block in blocks if id(block) not in around]
        if any(block.budget is not blocks[-1].budget for block in beside):
            raise ValueError(
                "budget must be stated here: several threads are inside `with budget:` blocks of "
                "different budgets, and this thread is in none of its own. Pass budget=..."
            )
    return blocks[-1], True


def _is_meant(source: PrivacyBudget | _Sent) -> bool:
    """Whether every thread of this process charges this budget."""
    try:
        block = _resolved_elsewhere()[0]
    except ValueError:
        return False
    return block is not None and block.source is source


def ambient_budget() -> PrivacyBudget | None:
    """Return the budget of the innermost block, or None; raise ValueError if threads disagree."""
    block = _resolved()[0]
    return None if block is None else block.budget


def ledger_of(budget: PrivacyBudget | None) -> str | None:
    """Return the identity of a budget's ledger, which several budgets may have opened."""
    return None if budget is None else budget._ledger.id


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
    """Refuse a fit without a budget where one may be meant; warn beside a budget."""
    if not _resolved()[1]:
        raise ValueError(_UNKNOWN.format(name=name))
    text = _UNCOUNTED.format(name=name)
    level = outside_level()
    frame = sys._getframe(level - 1)
    if not _is_beside_a_budget():
        return
    # By default once a process; a filter for more (an error, always) is left to Python.
    before = action_of_filters(text, UncountedFitWarning, frame)
    if before in ("default", "module", "once") and text in _shown:
        return
    warnings.warn(text, UncountedFitWarning, stacklevel=level)
    # Ignored, perhaps by the filters of another thread: then it is shown when it is not.
    if "ignore" not in (before, action_of_filters(text, UncountedFitWarning, frame)):
        _shown.add(text)
