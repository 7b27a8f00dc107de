"""The ledger: an SQLite file of charges and reservations, shared by threads and processes.

No row of data ever reaches this file. The ledger promises that

- a charge is granted and written in one transaction, so that no interleaving of threads and
  processes can grant more than the cap, whatever other code of these processes does with the file
  (`skdp.budget.locks`);
- when :meth:`Ledger.record` returns, the charge is on the disk, also after a power failure; a
  process killed before that may leave a charge for noise that was never drawn, and never noise
  without its charge;
- amounts are decimal text, added as exact fractions, and a charge costs the same however many
  there were (`skdp.budget.schema`).

Journal mode: DELETE with ``synchronous=EXTRA``, not WAL. A ledger at rest is then one file that can
be copied, and an empty sidecar that is locked. EXTRA also syncs the directory after the journal is
removed; with FULL, a power failure just after the commit could bring the journal back and roll a
paid charge back. While a transaction runs there is a ``-journal`` file beside the ledger, from
which the next user of the file rolls a dead process's unfinished transaction back.

A ledger without a path is held in memory by the process that made it, until that process shares it
(pickles it or forks): then it becomes a file, in a memory file system where there is one. It ends
with its process, so nothing of it is ever synced to a disk (`skdp.budget.files`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skdp.budget import locks, schema
from skdp.budget.files import (
    BUSY,
    check_regular,
    claim,
    copy_whole,
    errors,
    may_be_ledger,
    new_path,
    other_file,
    patiently,
    publish,
    remove,
)
from skdp.budget.operations import LedgerOperations, timestamp
from skdp.budget.schema import Terms
from skdp.exceptions import LedgerError, SealedBudgetError

_TIMEOUT = 10.0  # seconds to wait for another process's transaction

# The ledgers of this process that are in its memory alone; a fork makes files of them.
_IN_MEMORY: weakref.WeakValueDictionary[int, Ledger] = weakref.WeakValueDictionary()
# The files (and identities) whose totals this process has checked.
_CHECKED: set[tuple[str, str]] = set()


def _share_all(turns: set[locks.Turn]) -> None:
    for reference in _IN_MEMORY.valuerefs():
        ledger = reference()
        if ledger is not None and ledger._own_turn in turns:
            with contextlib.suppress(LedgerError):  # then the child's copy is sealed
                ledger._share()


locks.at_fork(_share_all)

# Connections of transactions that a parent was in the middle of when it forked. To close one would
# roll back, and remove the parent's journal.
_INHERITED: list[sqlite3.Connection] = []


@contextlib.contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Close a connection at the end, in the process that opened it."""
    pid = os.getpid()
    try:
        yield connection
    finally:
        if os.getpid() == pid:
            connection.close()
        else:
            _INHERITED.append(connection)


class Ledger(LedgerOperations):
    """An SQLite file that holds the terms of one budget and all its charges.

    `path` is absolute; a file whose identity is not `ledger_id` was replaced by another one. A
    temporary ledger ends with the process that made it, and is never synced to a disk.
    """

    def __init__(self, path: str, ledger_id: str, *, temporary: bool = False) -> None:
        self.path, self.id, self.temporary = path, ledger_id, temporary
        self.shown = path  # the name that messages use
        self.timeout = _TIMEOUT
        self._memory: sqlite3.Connection | None = None
        self._pid = 0  # of the process that has it in memory, or had
        self._own_turn: locks.Turn | None = None  # of a ledger that was made in memory
        self._local = False  # whether its file system was found to be no network's

    # -- making and opening -------------------------------------------------------------------

    @classmethod
    def create(cls, path: str, terms: Terms, facts: Mapping[str, Any]) -> Ledger:
        """Make a new ledger at `path`, where no file may exist, and return it.

        The file is written under another name and then linked to `path`, so that nobody ever
        sees half a ledger and of two processes that create the same one, one gets
        FileExistsError. `facts` are what it says beside its terms.
        """
        draft = f"{path}.{uuid.uuid4().hex}.new"
        ledger = cls(draft, uuid.uuid4().hex)
        ledger.shown = path
        ledger._check_file_system(path)
        check_regular(path)
        try:
            with ledger._errors(), contextlib.closing(ledger._connect("rwc")) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                ledger._write_new(connection, terms, facts)
            publish(draft, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)
        ledger.path = path
        _CHECKED.add((path, ledger.id))
        return ledger

    @classmethod
    def create_in_memory(cls, terms: Terms, facts: Mapping[str, Any]) -> Ledger:
        """Make a ledger that ends with this process, and is a file only once it is shared."""
        ledger = cls(new_path(), uuid.uuid4().hex, temporary=True)
        ledger._own_turn = locks.Turn("in memory")
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        memory.row_factory = sqlite3.Row
        with ledger._errors():
            ledger._write_new(memory, terms, facts)
        ledger._memory, ledger._pid = memory, os.getpid()
        weakref.finalize(ledger, memory.close).atexit = False  # what runs then may still charge
        _CHECKED.add((ledger.path, ledger.id))
        _IN_MEMORY[id(ledger)] = ledger
        return ledger

    def _write_new(
        self, connection: sqlite3.Connection, terms: Terms, facts: Mapping[str, Any]
    ) -> None:
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {schema.FORMAT}")
        connection.executescript("BEGIN IMMEDIATE;" + schema.SCHEMA)
        row = {**schema.new_row(self.id, timestamp(), terms), **facts}
        schema.insert(connection, "ledger", row)
        connection.execute("COMMIT")

    def share(self) -> None:
        """Make a file of a ledger in memory, so that other processes can charge it."""
        if self._own_turn is not None and self._memory is not None:
            with self._own_turn.taken(self.timeout):
                self._share()

    def _share(self) -> None:
        """Do so while this thread has the turn."""
        memory = self._memory
        if memory is None or os.getpid() != self._pid or memory.in_transaction:
            return
        with self._errors():
            try:
                claim(self.path)
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                locks.turn_of_file(self.path, self._own_turn)
                with contextlib.closing(self._connect("rw")) as file:
                    file.execute("PRAGMA synchronous = OFF")
                    copy_whole(memory, file, self.timeout)
            except OSError:
                raise LedgerError(f"The ledger {self.path} cannot be made.") from None
            except BaseException:
                remove(self.path)
                raise
        self._memory = None
        memory.close()
        _IN_MEMORY.pop(id(self), None)

    @classmethod
    def open(cls, path: str) -> tuple[Ledger, dict[str, Any]]:
        """Open the ledger at `path`; return it and what it says of itself. It must be writable."""
        ledger = cls(path, "")  # any identity will do
        if not may_be_ledger(path):
            raise other_file(ledger.path, ledger.id)  # before a sidecar is put beside it
        with ledger._transaction(write=True) as connection:
            row = connection.execute("SELECT * FROM ledger").fetchone()
            # A write that is rolled back finds read-only files and directories now, not later.
            # (SQLite leaves out a write that changes nothing, so it has to change something.)
            connection.execute("UPDATE ledger SET created = created || '.'")
            connection.execute("ROLLBACK")
        ledger.id = row["id"]
        _CHECKED.add((path, ledger.id))
        return ledger, dict(row)

    def backup(self, path: str) -> None:
        """Copy the ledger to `path`, marked as a copy of this one; see `PrivacyBudget.backup`."""
        memory = sqlite3.connect(":memory:", isolation_level=None)
        memory.row_factory = sqlite3.Row
        with contextlib.closing(memory):
            with self._transaction(write=False, upgrade=False) as connection:
                copy_whole(connection, memory, self.timeout)
            self.write_copy(memory, self.path, path)

    @classmethod
    def write_copy(cls, memory: sqlite3.Connection, source: str, path: str) -> None:
        """Write a copy in memory of the ledger `source` to `path`, marked as a copy of it."""
        draft = f"{path}.{uuid.uuid4().hex}.new"
        with errors(source, source, "", _TIMEOUT):
            schema.upgrade(memory)  # of the copy alone: the ledger stays as it is
            (ledger_id,) = memory.execute("SELECT id FROM ledger").fetchone()
            memory.execute("UPDATE ledger SET backup_of = ?", (source,))
        copy = cls(draft, ledger_id)
        copy.shown = path
        replaces = os.path.lexists(path)
        # In this order: no sidecar is put beside what is no ledger.
        is_copy = os.path.isfile(path) and may_be_ledger(path)
        if replaces and not (is_copy and cls(path, "")._look().get("id") == ledger_id):
            raise LedgerError(f"A backup never replaces another file, and {path} is one.")
        if replaces and os.path.exists(source) and os.path.samefile(path, source):
            raise LedgerError(f"A ledger cannot be its own backup: {path}.")
        try:
            with copy._errors(), contextlib.closing(copy._connect("rwc")) as file:
                file.execute("PRAGMA synchronous = EXTRA")
                copy_whole(memory, file, copy.timeout)
            if replaces:
                os.replace(draft, path)
            else:
                publish(draft, path)
        except FileExistsError:
            raise LedgerError(f"A backup never replaces another file, and {path} is one.") from None
        except OSError:
            raise LedgerError(f"The backup {path} cannot be written.") from None
        finally:
            remove(draft)

    # -- inside -------------------------------------------------------------------------------

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return errors(self.path, self.shown, self.id, self.timeout)

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{Path(self.path).as_uri()}?mode={mode}"
        busy = min(self.timeout, BUSY)
        connection = sqlite3.connect(uri, uri=True, timeout=busy, isolation_level=None)
        connection.row_factory = sqlite3.Row
        return connection

    def _check_file_system(self, path: str) -> None:
        kind = locks.network_file_system(path)
        if kind is not None:
            raise LedgerError(
                f"The ledger {path} lies on a network file system ({kind}), where locks can be "
                "lost, and charges with them; put it on a local disk. Nothing was released."
            )
        self._local = True

    def _turn(self) -> locks.Turn:
        """Return the turn of the threads of this process."""
        if self._own_turn is not None:
            return self._own_turn
        try:
            return locks.turn_of_file(self.path)
        except OSError:
            raise self._gone() from None

    def _gone(self) -> SealedBudgetError:
        return SealedBudgetError(
            "The ledger file of this budget is not there, so nothing can be charged to it here: "
            f"{self.path}"
        )

    @contextlib.contextmanager
    def _transaction(self, write: bool, upgrade: bool = True) -> Iterator[sqlite3.Connection]:
        """Open the ledger, check that it is this one, and close it, rolling back what is open.

        Without `upgrade`, a ledger of an earlier format stays as it is, and is only copied.
        """
        turn = self._turn()
        with turn.taken(self.timeout):
            self._begun_by = os.getpid()
            if self._memory is not None:
                with self._in_memory(self._memory) as connection:
                    yield connection
                return
            if self._own_turn is not None and not os.path.exists(self.path):
                raise self._gone()
            if not self._local:
                self._check_file_system(self.path)
            check_regular(self.path)
            with (
                locks.FileLock(self.path, self.timeout) as lock,
                self._errors(),
                _closing(self._connect("rw")) as connection,
            ):
                self._lock, self._deadline = lock, time.monotonic() + self.timeout
                durable = f"PRAGMA synchronous = {'OFF' if self.temporary else 'EXTRA'}"
                patiently(lambda: connection.execute(durable), self._deadline)
                begin = "BEGIN IMMEDIATE" if write else "BEGIN"
                patiently(lambda: connection.execute(begin), self._deadline)
                version = patiently(lambda: self._check(connection), self._deadline)
                if version < schema.FORMAT and not upgrade:
                    yield connection
                    return
                if version < schema.FORMAT:  # an earlier one
                    schema.upgrade(connection)
                    self._commit(connection)
                    patiently(lambda: connection.execute(begin), self._deadline)
                if not self.id or (self.path, self.id) not in _CHECKED:
                    schema.check_tables(connection)
                    schema.check_columns(connection)
                    schema.verify(connection)
                    _CHECKED.add((self.path, self.id))
                yield connection

    @contextlib.contextmanager
    def _in_memory(self, memory: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._pid:  # code forked that Python knows nothing of
            raise SealedBudgetError(
                "The ledger of this budget is in the memory of the process that made it, which "
                "could not share it before it forked, so nothing can be charged to it here. Give "
                "the budget a path: PrivacyBudget(..., ledger=...)."
            )
        with self._errors():
            if memory.in_transaction:  # of code that a signal cut short before it could clean up
                memory.execute("ROLLBACK")
            try:
                memory.execute("BEGIN")
                yield memory
            finally:
                if memory.in_transaction:
                    memory.execute("ROLLBACK")

    def _commit(self, connection: sqlite3.Connection) -> None:
        """Commit, if the lock still counts: otherwise another process may be writing, too."""
        if os.getpid() != self._begun_by:
            raise SealedBudgetError(
                "This process was forked in the middle of a transaction, which is its parent's: "
                f"nothing was charged to the ledger {self.shown} here."
            )
        if self._memory is None and not self._lock.holds():
            connection.execute("ROLLBACK")
            raise LedgerError(
                f"The lock file of the ledger {self.path} was removed or replaced while it was "
                "held. Nothing was released."
            )
        if self._memory is None:
            patiently(lambda: connection.execute("COMMIT"), self._deadline)
        else:
            connection.execute("COMMIT")

    def _check(self, connection: sqlite3.Connection) -> int:
        """Return the format, or raise unless this is a ledger and, if an id is known, this one."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
            raise other_file(self.path, self.id)
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if not 1 <= version <= schema.FORMAT:
            raise LedgerError(
                f"The ledger {self.path} has format {version}; this skdp reads {schema.FORMAT}."
            )
        ids = [row["id"] for row in connection.execute("SELECT id FROM ledger")]
        if len(ids) != 1:
            raise LedgerError(f"The ledger {self.path} is damaged.")
        if self.id and ids != [self.id]:
            raise other_file(self.path, self.id)
        return version

    def _look(self) -> dict[str, Any]:
        """Return what a file says of itself, without changing it; nothing if it is no ledger."""
        turn = locks.turn_of_file(self.path)
        with turn.taken(self.timeout):
            try:
                check_regular(self.path)
                with (
                    locks.FileLock(self.path, self.timeout),
                    contextlib.closing(self._connect("rw")) as connection,
                ):
                    deadline = time.monotonic() + self.timeout
                    return patiently(lambda: self._said(connection), deadline)
            except locks.Busy:  # it may well be one
                raise
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                    raise locks.Busy(f"The ledger {self.path} is locked.") from None
            except (sqlite3.Error, LedgerError):
                pass
        return {}

    @staticmethod
    def _said(connection: sqlite3.Connection) -> dict[str, Any]:
        head = connection.execute("PRAGMA application_id").fetchone()
        if head[0] != schema.APPLICATION_ID:
            return {}
        schema.check_tables(connection)
        return dict(connection.execute("SELECT * FROM ledger").fetchone() or {})

    @classmethod
    def is_at(cls, path: str, ledger_id: str) -> bool:
        """Whether the file at `path` is the ledger of this identity."""
        return os.path.isfile(path) and cls(path, "")._look().get("id") == ledger_id

    @classmethod
    def others_of(cls, path: str, dataset: str) -> list[str]:
        """Return the other ledgers of a data set in the folder of `path`, without backups."""
        others = []
        for entry in os.scandir(os.path.dirname(path)):
            if entry.path == path or not entry.is_file() or entry.name.endswith(".new"):
                continue
            with contextlib.suppress(OSError):
                if os.path.exists(path) and os.path.samefile(entry.path, path):
                    continue  # a second name of the same file
                if not may_be_ledger(entry.path):
                    continue
                stated = cls(entry.path, "")._look()
                if stated.get("dataset") == dataset and not stated["backup_of"]:
                    others.append(entry.path)
        return sorted(others)
