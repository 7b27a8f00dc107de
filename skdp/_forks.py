"""What a forked process knows of the blocks of its parents.

A process counts the changes of its blocks (`skdp.budget.ambient`) in memory that its forked
children can read. ``import skdp`` sets these hooks before budgets are imported, because a worker
may be forked in between; so this module imports little.
"""

from __future__ import annotations

import itertools
import mmap
import os
import sys
from typing import NamedTuple

__all__ = ["ancestors", "changed", "knows_parents"]


class _Ancestor(NamedTuple):
    """A process that this one was forked from, as it was at the fork."""

    pid: int
    changes: mmap.mmap  # which it goes on writing, for its children to read
    at_fork: bytes
    knew: bool  # whether a fit without a block was known to be outside of all


_numbers = itertools.count(1)
_changes = mmap.mmap(-1, 8)
_at_fork: _Ancestor  # this process, as the next fork will find it
ancestors: tuple[_Ancestor, ...] = ()


def changed() -> None:
    """Tell forked children that their inherited blocks are out of date; called after the change."""
    _changes[:] = next(_numbers).to_bytes(8, "little")


def knows_parents() -> bool:
    """Whether this process knows all blocks of the processes that may hand it tasks.

    It does if there are none, or if its parent has forked it and has changed no block since.
    Workers that were started otherwise (spawn, forkserver, loky, dask) do not.
    """
    if not all(ancestor.knew and ancestor.changes[:] == ancestor.at_fork for ancestor in ancestors):
        return False
    process = sys.modules.get("multiprocessing.process")  # imported in each of its children
    parent = process and process.parent_process()
    return not parent or parent.pid in [ancestor.pid for ancestor in ancestors]


def _before_fork() -> None:
    global _at_fork
    _at_fork = _Ancestor(os.getpid(), _changes, _changes[:], knows_parents())


def _after_fork_in_child() -> None:
    global ancestors, _changes
    ancestors = (*ancestors, _at_fork)
    _changes = mmap.mmap(-1, 8)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
