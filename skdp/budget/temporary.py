"""Files of ledgers that have no path: they end with the process that made them.

Nothing is released here. Such a ledger becomes a file once it is shared, in a file system in memory
where there is one. A process that exits removes its files, a worker of multiprocessing too. One
that is killed cannot, nor one that ends by ``os._exit``: the next process of the same user that
shares a ledger does it. A process whose ledgers are files holds an ``flock`` on a file of its own
as long as it lives, so what can be locked belongs to the dead.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
import uuid
from multiprocessing.util import Finalize

from skdp.budget import locks

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["claim", "new_path"]

_MEMORY_FOLDER = "/dev/shm"  # a file system in memory, on Linux
_SIGN = re.compile(r"(skdp-[0-9a-f]{32})\.process")

_TIMEOUT = 10.0  # seconds to wait for another thread


class _Process:
    """What files of this process are called, and the file that it holds in each folder."""

    def __init__(self) -> None:
        self.stem = f"skdp-{uuid.uuid4().hex}"
        self.numbers = itertools.count()
        self.held: dict[str, int] = {}
        # No fork waits for it: a fork may itself be what makes files.
        self.turn = locks.Turn("in memory", network=True)


_process = _Process()


def _after_fork_in_child() -> None:
    global _process
    for file in _process.held.values():  # or the parent would seem alive after its end
        with contextlib.suppress(OSError):
            os.close(file)
    _process = _Process()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork_in_child)


def new_path() -> str:
    """Return a name for a ledger, in memory or in the temporary folder; nothing is made."""
    folder = _MEMORY_FOLDER
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        folder = os.path.realpath(tempfile.gettempdir())
    return os.path.join(folder, f"{_process.stem}-{next(_process.numbers)}.budget")


def claim(path: str) -> None:
    """Sign as alive in the folder of a ledger before it is made; remove what the dead left."""
    folder = os.path.dirname(path)
    if folder in _process.held:
        return
    with _process.turn.taken(_TIMEOUT):
        if folder in _process.held:
            return
        _process.held[folder] = _sign(os.path.join(folder, f"{_process.stem}.process"))
        # Unlike atexit, Finalize also runs in children of multiprocessing, and here after the
        # children of this process have ended. It does nothing in a forked child.
        Finalize(None, _remove, args=(folder, _process.stem), exitpriority=-10)
        if fcntl is not None:
            _remove_what_the_dead_left(folder)


def _sign(path: str) -> int:
    """Make and lock the file of this process; return its descriptor."""
    while True:
        file = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
        if fcntl is None:
            return file
        fcntl.flock(file, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        os.close(file)  # somebody took it for that of a dead process before it was locked


def _remove(folder: str, stem: str) -> None:
    """Remove the files of a process: ledgers, sidecars, journals, and last what it signed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(f"{stem}-"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        os.unlink(os.path.join(folder, f"{stem}.process"))


def _remove_what_the_dead_left(folder: str) -> None:
    """Remove the files of processes of this user that have ended."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if (match := _SIGN.fullmatch(name)) and match[1] != _process.stem:
                _remove_if_dead(folder, match[1])


def _remove_if_dead(folder: str, stem: str) -> None:
    path = os.path.join(folder, f"{stem}.process")
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if os.fstat(file).st_uid == os.geteuid():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails where it is alive
                _remove(folder, stem)
        finally:
            os.close(file)
