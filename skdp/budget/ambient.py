"""Which budget counts a fit that names none: the innermost ``with budget:``.

Nothing is released here. A block is entered in one thread, and a search inside it fits in others.
So a fit asks the block of its own context first (of its thread or asynchronous task), and then the
blocks of the whole process, where one of them is the innermost of all. Where blocks of several
threads stand side by side and a thread has none of its own, nobody can tell which is meant, and
that is an error before any charge. Estimators that are cloned or pickled inside a block take its
budget with them, into worker processes too.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING

from skdp.exceptions import UncountedFitWarning

if TYPE_CHECKING:
    from skdp.budget.budget import PrivacyBudget

__all__ = [
    "Block",
    "ambient_budget",
    "enter",
    "leave",
    "ledger_of",
    "live",
    "only_here",
    "outside_level",
]


class Block:
    """One ``with budget:``, from entering to leaving it."""

    def __init__(self, budget: PrivacyBudget, outer: Block | None) -> None:
        self.budget, self.outer, self.open = budget, outer, True


_LIBRARIES = ("skdp", "sklearn", "joblib", "contextlib")

_HERE: ContextVar[Block | None] = ContextVar("skdp_budget", default=None)
_ALL: tuple[Block, ...] = ()  # of the process, in the order of entering; replaced, never changed
_CHANGING = threading.Lock()
_LIVE: weakref.WeakSet[PrivacyBudget] = weakref.WeakSet()  # the budgets of this process


def _after_fork_in_child() -> None:
    global _CHANGING
    _CHANGING = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _innermost(block: Block | None) -> Block | None:
    """Return the innermost block that is still open, from `block` outwards."""
    while block is not None and not block.open:
        block = block.outer
    return block


def enter(budget: PrivacyBudget) -> Block:
    """Begin a block."""
    global _ALL
    block = Block(budget, _innermost(_HERE.get()))
    with _CHANGING:
        _ALL = (*_ALL, block)
    _HERE.set(block)
    return block


def leave(block: Block) -> None:
    """End a block."""
    global _ALL
    block.open = False
    with _CHANGING:
        _ALL = tuple(one for one in _ALL if one is not block)
    _HERE.set(_innermost(_HERE.get()))


@contextlib.contextmanager
def only_here(budget: PrivacyBudget) -> Iterator[None]:
    """Make a budget ambient in this thread or task, and in no other."""
    token = _HERE.set(Block(budget, _innermost(_HERE.get())))
    try:
        yield
    finally:
        _HERE.reset(token)


def here() -> Block | None:
    """Return the innermost block of this thread or task."""
    return _innermost(_HERE.get())


def ambient_budget() -> PrivacyBudget | None:
    """Return the budget of the innermost block, or None outside of all.

    Raises
    ------
    ValueError
        If several budgets are ambient in other threads, and none in this one.
    """
    own = here()
    if own is not None:
        return own.budget
    blocks = [block for block in _ALL if block.open]
    if not blocks:
        return None
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
    return blocks[-1].budget


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


_SHOWN: set[tuple[str, str, int]] = set()  # (text, file, line)


def _shown_before(text: str, frame: FrameType) -> bool:
    """Say whether this was shown for this line, and the filters want it once a line.

    Python forgets what it has shown whenever somebody changes its filters for a while, as every
    fit does.
    """
    module = frame.f_globals.get("__name__", "")
    wanted = "default"
    for action, message, category, where, line in reversed(warnings.filters):
        if (
            issubclass(UncountedFitWarning, category)
            and (message is None or re.match(message, text))
            and (where is None or re.match(where, module))
            and line in (0, frame.f_lineno)
        ):
            wanted = action  # the first of the list counts
    if wanted in ("error", "always", "all", "ignore"):
        return False
    key = text, frame.f_code.co_filename, frame.f_lineno
    known = key in _SHOWN
    _SHOWN.add(key)
    return known


def warn_uncounted(name: str) -> None:
    """Warn of a fit that no budget counts, in a process that has one."""
    if not live():
        return
    text = (
        f"No budget counts this fit of {name}, while this process has one: pass budget=... to "
        "each private step, or fit inside `with budget:`. If the rows are public, or another "
        "ledger counts it, filter skdp.exceptions.UncountedFitWarning."
    )
    level = outside_level()
    if not _shown_before(text, sys._getframe(level - 1)):
        warnings.warn(text, UncountedFitWarning, stacklevel=level)
