"""The files of ledgers: their names, their life, and what errors of SQLite say to a user.

A file is finished under another name before it is published, so nobody ever sees half a ledger,
and none replaces another by accident.

A ledger without a path becomes a file once it is shared, in a file system in memory where there is
one, and ends with the process that made it. A process that exits removes its files, a worker of
multiprocessing too. One that is killed cannot, nor one that ends by ``os._exit``: the next process
of the same user that shares a ledger does it. A process whose ledgers are files holds an ``flock``
on a file of its own as long as it lives, so what can be locked belongs to the dead.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sqlite3
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from typing import TypeVar

from skdp.budget import locks, schema
from skdp.exceptions import LedgerError, SealedBudgetError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_Result = TypeVar("_Result")

# Seconds that SQLite waits by itself, in C, where no Ctrl-C reaches it; longer waits are Python's.
BUSY = 0.05

_TIMEOUT = 10.0  # seconds to wait for another thread


def remove(path: str) -> None:
    """Remove a file, its sidecar, and the journal that a killed process may have left."""
    for name in (path, path + "-journal", locks.sidecar(path)):
        with contextlib.suppress(OSError):
            os.unlink(name)


def is_url(ledger: object) -> bool:
    """Whether a user means a database: the prefix of its URL says so."""
    return isinstance(ledger, str) and ledger.startswith(("postgresql://", "postgres://"))


def may_be_ledger(path: str) -> bool:
    """Whether the head of a file is that of a ledger; also where it cannot be read."""
    # Closing the file would drop the record locks of a transaction of another thread.
    with contextlib.suppress(OSError):
        turn = locks.turn_of_file(path)
        with turn.taken(_TIMEOUT), open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            return file.read(72)[68:] == schema.APPLICATION_ID.to_bytes(4, "big")
    return True


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def check_regular(path: str) -> None:
    """Raise LedgerError if a file that a ledger needs is a pipe, a device, a folder or a link.

    To open some of these waits forever. The ledger itself may be called by a link.
    """
    for name in (path, locks.sidecar(path), path + "-journal", path + "-wal", path + "-shm"):
        try:
            mode = (os.stat if name == path else os.lstat)(name).st_mode
        except OSError:  # not there
            continue
        if not stat.S_ISREG(mode):
            raise LedgerError(
                f"The ledger {path} cannot be used: {name} is a folder, a link, a pipe or a "
                "device, and must be a plain file. Nothing was released."
            )


def patiently(act: Callable[[], _Result], deadline: float) -> _Result:
    """Run a statement that may have to wait for others, again and again until the deadline."""
    while True:
        try:
            return act()
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.002)


def copy_whole(source: sqlite3.Connection, target: sqlite3.Connection, timeout: float) -> None:
    """Copy a database; wait for others at most so many seconds."""
    deadline = time.monotonic() + timeout

    def progress(status: int, remaining: int, total: int) -> None:
        if remaining and time.monotonic() >= deadline:
            raise locks.Busy(f"The ledger is locked by another process (waited {timeout:g} s).")

    source.backup(target, progress=progress, sleep=0.01)


def publish(draft: str, path: str) -> None:
    """Give the finished file its name, without ever replacing a file."""
    try:
        os.link(draft, path)
        return
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        pass
    # Whoever creates the empty file owns the name; anyone else who sees it is told that it is
    # not a ledger, which refuses a charge and never forgets one.
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.replace(draft, path)


_REASONS = {
    sqlite3.SQLITE_BUSY: "is locked by another process (waited {timeout:g} s)",
    sqlite3.SQLITE_LOCKED: "is locked by another process (waited {timeout:g} s)",
    sqlite3.SQLITE_READONLY: "cannot be written; the file and its directory must be writable",
    sqlite3.SQLITE_PERM: "cannot be written; the file and its directory must be writable",
    sqlite3.SQLITE_AUTH: "cannot be written; the file and its directory must be writable",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; the file and its directory must be writable",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error or is full",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_CONSTRAINT: "is damaged",
}


def other_file(path: str, ledger_id: str) -> LedgerError | SealedBudgetError:
    """Return the error for a file that is not this ledger (or, without an id, no ledger)."""
    if ledger_id:
        return SealedBudgetError(
            "The ledger file of this budget was replaced by another one, so nothing can be "
            f"charged to it here: {path}"
        )
    return LedgerError(
        f"ledger must be an skdp ledger or a path where no file is yet; {path} is "
        "another kind of file."
    )


@contextlib.contextmanager
def errors(path: str, shown: str, ledger_id: str, timeout: float) -> Iterator[None]:
    """Turn errors of SQLite and of the file into LedgerError, with a text that says what to do.

    `shown` is the name that messages use; `ledger_id` is empty where no ledger is there yet.
    """
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
        if isinstance(error, UnicodeDecodeError):
            code = sqlite3.SQLITE_CORRUPT
        if code == sqlite3.SQLITE_NOTADB:
            raise other_file(path, ledger_id) from None
        reason = _REASONS.get(code, "is not a usable skdp ledger").format(timeout=timeout)
        raise LedgerError(f"The ledger {shown} {reason}. Nothing was released.") from None


# --- ledgers without a path -----------------------------------------------------------------------


_MEMORY_FOLDER = "/dev/shm"  # a file system in memory, on Linux
_SIGN = re.compile(r"(skdp-[0-9a-f]{32})\.process")


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
