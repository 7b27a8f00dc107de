"""The files of ledgers: how they get their names, and what errors of SQLite say to a user.

Nothing is released here. A file is finished under another name before it is published, so nobody
ever sees half a ledger, and none replaces another by accident.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from skdp.budget import locks, schema
from skdp.exceptions import LedgerError, SealedBudgetError

__all__ = [
    "BUSY",
    "check_regular",
    "copy_whole",
    "errors",
    "is_url",
    "may_be_ledger",
    "other_file",
    "patiently",
    "publish",
    "remove",
]

_Result = TypeVar("_Result")

# Seconds that SQLite waits by itself, in C, where no Ctrl-C reaches it; longer waits are Python's.
BUSY = 0.05

_TIMEOUT = 10.0  # seconds to wait for another thread's transaction


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
