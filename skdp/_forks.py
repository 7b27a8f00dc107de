"""What a process that was forked can know of the blocks of those that it was forked from.

A process that has imported skdp counts how often its blocks (`skdp.budget.ambient`) have changed,
where its forked children can read it. ``import skdp`` sets these hooks, before budgets are
imported: a worker may be forked in between. So this imports little.
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
    """Tell forked children that what they have inherited holds no more; after the change."""
    _changes[:] = next(_numbers).to_bytes(8, "little")


def knows_parents() -> bool:
    """Say whether this process knows all blocks of those who may hand it tasks.

    It does if nobody does, or if its parent has forked it and has changed no block since. Workers
    that were started otherwise (spawn, forkserver, loky, dask) do not.
    """
    if not all(one.knew and one.changes[:] == one.at_fork for one in ancestors):
        return False
    process = sys.modules.get("multiprocessing.process")  # imported in each of its children
    parent = process and process.parent_process()
    return not parent or parent.pid in [one.pid for one in ancestors]


def _before_fork() -> None:
    global _at_fork
    _at_fork = _Ancestor(os.getpid(), _changes, _changes[:], knows_parents())


def _after_fork_in_child() -> None:
    global ancestors, _changes
    ancestors = (*ancestors, _at_fork)
    _changes = mmap.mmap(-1, 8)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
