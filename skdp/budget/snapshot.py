"""A ledger as it stands now, in memory: to be looked at and checked, never to be charged.

Nothing is released here, and the file is not changed: not even one of an earlier format, which is
brought up to date in memory alone. It is copied by SQLite's backup under the lock of the ledger,
so a charge that is being written is in it as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from skdp.budget import locks, postgres, schema
from skdp.budget.arguments import path_of
from skdp.budget.files import BUSY, check_regular, copy_whole, errors, is_url, may_be_ledger
from skdp.budget.urls import normal_url
from skdp.exceptions import LedgerError

__all__ = ["snapshot"]

_TIMEOUT = 10.0  # seconds to wait for another process's transaction


def snapshot(path: str | os.PathLike[str]) -> tuple[sqlite3.Connection, int]:
    """Return a copy of a ledger in memory, and the format that its file has.

    Parameters
    ----------
    path : str or os.PathLike
        Of the file, which may be read-only, or the URL of a ledger in PostgreSQL.

    Returns
    -------
    connection : sqlite3.Connection
        To the copy, in the format of this version.
    format : int
        Of the file.

    Raises
    ------
    LedgerError
        If it is no ledger, is not there, or cannot be read.
    """
    if is_url(path):
        return postgres.snapshot(normal_url(str(path))), schema.FORMAT
    name = path_of(path)
    if not os.path.lexists(name):
        raise LedgerError(f"There is no ledger at {name}.")
    check_regular(name)
    if not may_be_ledger(name):
        raise LedgerError(f"{name} is no ledger of skdp.")
    memory = sqlite3.connect(":memory:", isolation_level=None)
    memory.row_factory = sqlite3.Row
    writable = os.access(name, os.W_OK) and os.access(os.path.dirname(name), os.W_OK)
    # Where no lock can be made, and none is there, nobody has charged this file from here.
    locked = writable or os.path.exists(locks.sidecar(name))
    turn = locks.turn_of_file(name)
    uri = f"{Path(name).as_uri()}?mode={'rw' if writable else 'ro'}"
    try:
        with (
            turn.taken(_TIMEOUT),
            locks.FileLock(name, _TIMEOUT) if locked else contextlib.nullcontext(),
            errors(name, name, "", _TIMEOUT),
            contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY)) as file,
        ):
            copy_whole(file, memory, _TIMEOUT)
        with errors(name, name, "", _TIMEOUT):
            return memory, _brought_up_to_date(memory, name)
    except BaseException:
        memory.close()
        raise


def _brought_up_to_date(memory: sqlite3.Connection, name: str) -> int:
    """Bring a copy to this version's format; return the format that it had."""
    if memory.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
        raise LedgerError(f"{name} is no ledger of skdp.")
    found: int = memory.execute("PRAGMA user_version").fetchone()[0]
    if not 1 <= found <= schema.FORMAT:
        raise LedgerError(f"The ledger {name} has format {found}; this skdp reads {schema.FORMAT}.")
    schema.check_tables(memory)
    if memory.execute("SELECT COUNT(*) FROM ledger").fetchone()[0] != 1:
        raise LedgerError(f"The ledger {name} is damaged.")
    if found < schema.FORMAT:
        memory.execute("BEGIN")
        schema.upgrade(memory)
        memory.execute("COMMIT")
    schema.check_columns(memory)
    return found
