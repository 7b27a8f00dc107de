"""The files of ledgers: how they get their names, and what errors of SQLite say to a user.

Nothing is released here. A file is finished under another name before it is published, so nobody
ever sees half a ledger, and none replaces another by accident.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator

from skdp.budget import locks, schema
from skdp.exceptions import LedgerError, SealedBudgetError

__all__ = ["errors", "is_url", "may_be_ledger", "other_file", "publish", "remove"]

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
        with turn.taken(_TIMEOUT), open(path, "rb") as file:
            return file.read(72)[68:] == schema.APPLICATION_ID.to_bytes(4, "big")
    return True


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
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
        if code == sqlite3.SQLITE_NOTADB:
            raise other_file(path, ledger_id) from None
        reason = _REASONS.get(code, "is not a usable skdp ledger").format(timeout=timeout)
        raise LedgerError(f"The ledger {shown} {reason}. Nothing was released.") from None
