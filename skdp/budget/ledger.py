"""The ledger: an SQLite file that threads and processes share.

The ledger promises that

- a charge is granted and written in one transaction, so that no interleaving of threads and
  processes can grant more than the cap (`skdp.budget.locks`);
- when :meth:`Ledger.record` returns, the charge is on the disk, also after a power failure. A
  process killed before that may leave a charge for noise that was never drawn, but never noise
  without its charge.

Journal mode: DELETE with ``synchronous=EXTRA``, not WAL. A ledger at rest is then one file that can
be copied, and an empty sidecar that is locked. EXTRA also syncs the directory after the journal is
removed; with FULL, a power failure just after the commit could bring the journal back and roll a
paid charge back. While a transaction runs there is a ``-journal`` file beside the ledger, from
which the next user of the file rolls a dead process's unfinished transaction back.

A file is finished under another name before it is published, so nobody ever sees half a ledger, and
none replaces another by accident.

A ledger without a path is in the memory of its process until the process shares it (pickles it or
forks). Then it becomes a file, in a memory file system where there is one, and is never synced. A
process that exits removes its files, a worker of multiprocessing too. One that is killed, or ends
by ``os._exit``, cannot: the next process of the same user that shares a ledger does it. A process
whose ledgers are files holds an ``flock`` on a file of its own as long as it lives, so what can be
locked belongs to the dead.
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
import weakref
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, TypeVar

from skdp.budget import locks, schema
from skdp.budget.operations import LedgerOperations, timestamp
from skdp.budget.schema import Terms
from skdp.exceptions import LedgerError, SealedBudgetError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TIMEOUT = 10.0  # seconds to wait for another thread's or process's transaction
_Result = TypeVar("_Result")

# Seconds that SQLite waits by itself, in C, where no Ctrl-C reaches it; longer waits are Python's.
BUSY = 0.05


def remove(path: str) -> None:
    """Remove a file, its sidecar, and the journal that a killed process may have left."""
    for name in (path, path + "-journal", locks.sidecar(path)):
        with contextlib.suppress(OSError):
            os.unlink(name)


def may_be_ledger(path: str) -> bool:
    """Whether the head of a file is that of a ledger; also where it cannot be read."""
    # Closing the file would drop the record locks of a transaction of another thread.
    with contextlib.suppress(OSError):
        turn = locks.turn_of_file(path)
        with turn.taken(TIMEOUT), open(path, "rb", opener=_open_now) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            return file.read(72)[68:] == schema.APPLICATION_ID.to_bytes(4, "big")
    return True


def _open_now(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # no waiting for a pipe's writer


def check_regular(path: str) -> None:
    """Raise LedgerError if a file that a ledger needs may block whoever opens it, or is a link."""
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


def copy_all(source: sqlite3.Connection, target: sqlite3.Connection, timeout: float) -> None:
    """Copy a database; wait for others at most `timeout` seconds."""
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


_LOCKED = "is locked by another process (waited {timeout:g} s)"
_READ_ONLY = "cannot be written; the file and its directory must be writable"
_REASONS = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_AUTH: _READ_ONLY,
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
def errors(path: str, shown: str, ledger_id: str, timeout: float = TIMEOUT) -> Iterator[None]:
    """Turn errors of SQLite and of the file into LedgerError; `ledger_id` is "" for any ledger."""
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
    """The names of this process's files, and the file that it locks in each folder."""

    def __init__(self) -> None:
        self.stem = f"skdp-{uuid.uuid4().hex}"
        self.numbers = itertools.count()
        self.signs: dict[str, int] = {}
        # No fork waits for it: a fork may itself be what makes files.
        self.turn = locks.Turn("in memory", network=True)


_process = _Process()


def _after_fork_in_child() -> None:
    global _process
    for file in _process.signs.values():  # or the parent would seem alive after its end
        with contextlib.suppress(OSError):
            os.close(file)
    _process = _Process()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork_in_child)


def new_path() -> str:
    """Return a name for a file in memory or in the temporary folder, without making it."""
    folder = _MEMORY_FOLDER
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        folder = os.path.realpath(tempfile.gettempdir())
    return os.path.join(folder, f"{_process.stem}-{next(_process.numbers)}.budget")


def claim(path: str) -> None:
    """Sign as alive in the folder of a ledger before it is made; remove what the dead left."""
    folder = os.path.dirname(path)
    if folder in _process.signs:
        return
    with _process.turn.taken(TIMEOUT):
        if folder in _process.signs:
            return
        _process.signs[folder] = _sign(os.path.join(folder, f"{_process.stem}.process"))
        # Unlike atexit, Finalize also runs in children of multiprocessing, and here after the
        # children of this process have ended. It does nothing in a forked child.
        Finalize(None, _remove, args=(folder, _process.stem), exitpriority=-10)
        if fcntl is not None:
            with contextlib.suppress(OSError):
                for name in os.listdir(folder):
                    if (match := _SIGN.fullmatch(name)) and match[1] != _process.stem:
                        _remove_if_dead(folder, match[1])


def _sign(path: str) -> int:
    """Make and lock the file that shows that this process lives; return its descriptor."""
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
    """Remove the files of a process: ledgers, sidecars, journals, and last its locked file."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(f"{stem}-"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        os.unlink(os.path.join(folder, f"{stem}.process"))


def _remove_if_dead(folder: str, stem: str) -> None:
    """Remove the files of a process of this user, if it has ended."""
    path = os.path.join(folder, f"{stem}.process")
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if os.fstat(file).st_uid == os.geteuid():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails where it is alive
                _remove(folder, stem)
        finally:
            os.close(file)


# --- the ledger -----------------------------------------------------------------------------------

# The ledgers in the memory of this process; a fork makes files of them.
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
    """An SQLite file that holds the terms of one budget and all its charges; `path` is absolute."""

    def __init__(self, path: str, ledger_id: str, *, temporary: bool = False) -> None:
        self.path, self.id, self.temporary = path, ledger_id, temporary
        self.shown = path  # the name that messages use
        self.timeout = TIMEOUT
        self._memory: sqlite3.Connection | None = None
        self._pid = 0  # of the process that has it in memory, or had
        self._own_turn: locks.Turn | None = None  # of a ledger that was made in memory
        self._is_local = False  # whether its file system was found to be no network's

    # -- making and opening -------------------------------------------------------------------

    @classmethod
    def create(cls, path: str, terms: Terms, facts: Mapping[str, Any]) -> Ledger:
        """Make a new ledger at `path`; raise FileExistsError if another process was faster."""
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
        memory = schema.in_memory(check_same_thread=False)
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
        connection.executescript(f"{schema.HEAD}BEGIN IMMEDIATE;{schema.SCHEMA}")
        row = {**schema.new_row(self.id, timestamp(), terms), **facts}
        schema.insert(connection, "ledger", row)
        connection.execute("COMMIT")

    def share(self) -> None:
        """Make a file of a ledger in memory, so that other processes can charge it."""
        if self._own_turn is not None and self._memory is not None:
            with self._own_turn.taken(self.timeout):
                self._share()

    def _share(self) -> None:
        memory = self._memory
        if memory is None or os.getpid() != self._pid or memory.in_transaction:
            return
        with self._errors():
            try:
                claim(self.path)
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                # Threads that wait for the turn in memory must have the turn of the file next.
                locks.turn_of_file(self.path, self._own_turn)
                with contextlib.closing(self._connect("rw")) as file:
                    file.execute("PRAGMA synchronous = OFF")
                    copy_all(memory, file, self.timeout)
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
        """Open the ledger at `path`, which must be writable; return it and its row of facts."""
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

    def _copy_to(self, memory: sqlite3.Connection) -> None:
        with self._transaction(write=False, upgrade=False) as connection:
            copy_all(connection, memory, self.timeout)

    @classmethod
    def write_copy(cls, memory: sqlite3.Connection, source: str, path: str) -> None:
        """Write a copy in memory of the ledger `source` to `path`, marked as a copy of it."""
        draft = f"{path}.{uuid.uuid4().hex}.new"
        with errors(source, source, ""):
            schema.upgrade(memory)  # of the copy alone: the ledger stays as it is
            (ledger_id,) = memory.execute("SELECT id FROM ledger").fetchone()
            memory.execute("UPDATE ledger SET backup_of = ?", (source,))
        copy = cls(draft, ledger_id)
        copy.shown = path
        replaces = os.path.lexists(path)
        # In this order: no sidecar is put beside what is no ledger.
        is_ledger = os.path.isfile(path) and may_be_ledger(path)
        if replaces and not (is_ledger and cls.is_at(path, ledger_id)):
            raise LedgerError(f"A backup never replaces another file, and {path} is one.")
        if replaces and os.path.exists(source) and os.path.samefile(path, source):
            raise LedgerError(f"A ledger cannot be its own backup: {path}.")
        try:
            with copy._errors(), contextlib.closing(copy._connect("rwc")) as file:
                file.execute("PRAGMA synchronous = EXTRA")
                copy_all(memory, file, copy.timeout)
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
        self._is_local = True

    def _turn(self) -> locks.Turn:
        """Return the turn at this ledger that the threads of this process take."""
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
        """Open the ledger, check that it is this one, and close it, rolling back what is open."""
        turn = self._turn()
        with turn.taken(self.timeout):
            self._begun_by = os.getpid()
            if self._memory is not None:
                with self._in_memory(self._memory) as connection:
                    yield connection
                return
            if self._own_turn is not None and not os.path.exists(self.path):
                raise self._gone()
            if not self._is_local:
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
        if self._memory is not None:
            connection.execute("COMMIT")
            return
        if not self._lock.holds():
            connection.execute("ROLLBACK")
            raise LedgerError(
                f"The lock file of the ledger {self.path} was removed or replaced while it was "
                "held. Nothing was released."
            )
        patiently(lambda: connection.execute("COMMIT"), self._deadline)

    def _check(self, connection: sqlite3.Connection) -> int:
        """Return the format, or raise unless this is a ledger and, if an id is known, this one."""
        if not schema.is_ledger(connection):
            raise other_file(self.path, self.id)
        version = schema.format_of(connection, self.path)
        ids = [row["id"] for row in connection.execute("SELECT id FROM ledger")]
        if len(ids) != 1:
            raise LedgerError(f"The ledger {self.path} is damaged.")
        if self.id and ids != [self.id]:
            raise other_file(self.path, self.id)
        return version

    def _look(self) -> dict[str, Any]:
        """Return the row of terms and facts in a file; {} if it is no ledger."""
        with locks.turn_of_file(self.path).taken(self.timeout):
            try:
                check_regular(self.path)
                with (
                    locks.FileLock(self.path, self.timeout),
                    contextlib.closing(self._connect("rw")) as connection,
                ):
                    deadline = time.monotonic() + self.timeout
                    return patiently(lambda: self._facts(connection), deadline)
            except locks.Busy:  # it may well be one
                raise
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                    raise locks.Busy(f"The ledger {self.path} is locked.") from None
            except (sqlite3.Error, LedgerError):
                pass
        return {}

    @staticmethod
    def _facts(connection: sqlite3.Connection) -> dict[str, Any]:
        if not schema.is_ledger(connection):
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
