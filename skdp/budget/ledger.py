"""The ledger: an SQLite file of charges and reservations, shared by threads and processes.

Nothing is released here, and no row of data ever reaches this file. The ledger promises that

- a charge is granted and written in one transaction, so that no interleaving of threads and
  processes can grant more than the cap;
- when :meth:`Ledger.record` returns, the charge is on the disk, also after a power failure; a
  process killed before that may leave a charge for noise that was never drawn, and never noise
  without its charge;
- amounts are decimal text, added as exact fractions.

Journal mode: DELETE with ``synchronous=EXTRA``, not WAL. A ledger at rest is then one file, which
can be copied and works on network file systems without shared memory. EXTRA also syncs the
directory after the journal is removed; with FULL, a power failure just after the commit could
bring the journal back and roll a paid charge back. While a transaction runs there is a
``-journal`` file beside the ledger, from which the next user of the file rolls a dead process's
unfinished transaction back.

Fork: SQLite keeps a process-wide table of file locks, and a child forked while another thread is
inside a transaction would inherit its locks as its own. So every transaction, from open to close,
runs under one lock of the process, and a fork waits for that lock.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sqlite3
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from skdp.budget.amounts import Amount, decimal_text
from skdp.budget.charge import Charge, Cost, ReservationRecord
from skdp.exceptions import LedgerError, SealedBudgetError

__all__ = ["Ledger", "TemporaryFile", "Terms", "releases_json"]

_APPLICATION_ID = 0x736B6470  # "skdp", in the header of the file
_FORMAT = 1  # user_version of the file
_TIMEOUT = 10.0  # seconds to wait for another process's transaction

_SCHEMA = """
CREATE TABLE ledger (
    id TEXT NOT NULL, created TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    adjacency TEXT NOT NULL, accountant TEXT NOT NULL, delta_apart TEXT NOT NULL);
CREATE TABLE charges (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, pid INTEGER NOT NULL, estimator TEXT NOT NULL,
    components TEXT NOT NULL, seeded INTEGER NOT NULL, releases TEXT NOT NULL, note TEXT NOT NULL,
    main TEXT NOT NULL, apart TEXT NOT NULL);
CREATE TABLE reservations (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, pid INTEGER NOT NULL,
    components TEXT NOT NULL, note TEXT NOT NULL,
    unused_main TEXT NOT NULL, unused_apart TEXT NOT NULL, closed TEXT);
"""

# Held from the opening of a connection to its closing, and across every fork.
_ONE_AT_A_TIME = threading.RLock()
_FORKS = 0  # of this process and, before they forked it, its ancestors


def _before_fork() -> None:
    global _FORKS
    _ONE_AT_A_TIME.acquire()
    _FORKS += 1


def _after_fork_in_child() -> None:
    global _ONE_AT_A_TIME
    _ONE_AT_A_TIME = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _ONE_AT_A_TIME.release(),
        after_in_child=_after_fork_in_child,
    )


class TemporaryFile:
    """A ledger that nobody named: who removes it, and when.

    The process that made it removes it at its end, and earlier only if the budget is collected
    as garbage and no handle to it can be elsewhere: it was never pickled, and the process never
    forked. No other process ever removes it.
    """

    def __init__(self) -> None:
        folder = os.path.realpath(tempfile.gettempdir())
        self.path = os.path.join(folder, f"skdp-{uuid.uuid4().hex}.budget")
        self.pickled, self.forks = False, _FORKS
        # Unlike atexit, Finalize also runs in children of multiprocessing, and here after the
        # children of this process have ended. It does nothing in a forked child.
        self.at_exit = Finalize(None, self.remove, exitpriority=-10)

    def remove(self) -> None:
        """Remove the file, with the journal that a killed process may have left."""
        for name in (self.path, self.path + "-journal"):
            with contextlib.suppress(OSError):
                os.unlink(name)

    def collect(self) -> None:
        """Remove the file if nobody else can hold a handle to it."""
        if not self.pickled and self.forks == _FORKS:
            self.at_exit()  # once


@dataclass(frozen=True)
class Terms:
    """What a budget promises: public, fixed when its ledger is made."""

    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    delta_apart: float

    def texts(self) -> dict[str, str]:
        """Return the terms as the ledger stores them."""
        return {
            "epsilon": repr(self.epsilon),
            "delta": repr(self.delta),
            "adjacency": self.adjacency,
            "accountant": self.accountant,
            "delta_apart": repr(self.delta_apart),
        }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat()


def _plain(value: Any) -> Any:
    """Turn numpy's scalars into Python's for JSON; everything else unknown is refused."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError


def releases_json(releases: Sequence[Mapping[str, Any]]) -> str:
    """Return the metadata of releases as JSON, or raise a TypeError of fixed text."""
    text = None
    with contextlib.suppress(TypeError, ValueError):  # the text of those may quote a value
        text = json.dumps([dict(one) for one in releases], default=_plain, allow_nan=False)
    if text is None:
        raise TypeError(
            "releases must be a sequence of mappings that JSON can hold: str, int, finite float, "
            "bool, None, and lists and dicts of them (no arrays)."
        )
    return text


def _components_json(cost: Cost) -> str:
    return json.dumps(
        [[n, c.epsilon, c.delta, c.mu, c.delta_apart] for c, n in cost.components]
    )  # json writes a float as its repr


def _components_cost(text: str) -> Cost:
    return sum(n * Cost(*numbers) for n, *numbers in json.loads(text))


class Ledger:
    """An SQLite file that holds the terms of one budget and all its charges.

    Parameters
    ----------
    path : str
        Absolute path of the file, which exists.
    ledger_id : str
        The identity that the file must carry; a file with another one was replaced.
    timeout : float or None, default=None
        Seconds to wait while another process is inside a transaction; None means 10.
    """

    def __init__(self, path: str, ledger_id: str, timeout: float | None = None) -> None:
        self.path, self.id = path, ledger_id
        self.shown = path  # the name that messages use
        self.timeout = _TIMEOUT if timeout is None else timeout

    # -- making and opening -------------------------------------------------------------------

    @classmethod
    def create(cls, path: str, terms: Terms, private: bool = False) -> Ledger:
        """Make a new ledger at `path`, where no file may exist, and return it.

        The file is written under another name and then linked to `path`, so that nobody ever
        sees half a ledger and of two processes that create the same one, one gets
        FileExistsError. `private` makes it readable by its owner only, whatever the umask.
        """
        draft = f"{path}.{uuid.uuid4().hex}.new"
        ledger = cls(draft, uuid.uuid4().hex)
        ledger.shown = path
        try:
            if private:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            ledger._write_new(terms)
            _publish(draft, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)
        ledger.path = path
        return ledger

    def _write_new(self, terms: Terms) -> None:
        row = {"id": self.id, "created": _now(), **terms.texts()}
        with _errors(self), contextlib.closing(self._connect("rwc")) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
            connection.executescript("BEGIN IMMEDIATE;" + _SCHEMA)
            connection.execute(
                f"INSERT INTO ledger ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                tuple(row.values()),
            )
            connection.execute("COMMIT")

    @classmethod
    def open(cls, path: str) -> tuple[Ledger, dict[str, str]]:
        """Open the ledger at `path`; return it and its terms as texts. It must be writable."""
        ledger = cls(path, "")  # any identity will do
        with ledger._transaction(write=True) as connection:
            row = connection.execute("SELECT * FROM ledger").fetchone()
            # A write that is rolled back finds read-only files and directories now, not later.
            # (SQLite leaves out a write that changes nothing, so it has to change something.)
            connection.execute("UPDATE ledger SET created = created || '.'")
            connection.execute("ROLLBACK")
        ledger.id = row["id"]
        return ledger, dict(row)

    def terms(self) -> dict[str, str]:
        """Return the terms as texts, as the file has them."""
        with self._transaction(write=False) as connection:
            return dict(connection.execute("SELECT * FROM ledger").fetchone())

    def present(self) -> bool:
        """Whether the file is there and still the same ledger."""
        try:
            with self._transaction(write=False):
                return True
        except SealedBudgetError:
            return False

    # -- reading ------------------------------------------------------------------------------

    def sums(self) -> tuple[Amount, Amount]:
        """Return what was charged, and what is set aside and unused."""
        with self._transaction(write=False) as connection:
            return _charged(connection), _set_aside(connection)

    def charges(self, adjacency: str) -> list[Charge]:
        """Return every charge, oldest first."""
        with self._transaction(write=False) as connection:
            rows = connection.execute("SELECT * FROM charges ORDER BY number").fetchall()
            return [_charge(row, adjacency) for row in rows]

    def reservations(self) -> list[ReservationRecord]:
        """Return every reservation, oldest first."""
        with self._transaction(write=False) as connection:
            rows = connection.execute("SELECT * FROM reservations ORDER BY number").fetchall()
            return [_reservation(row) for row in rows]

    # -- writing ------------------------------------------------------------------------------

    def record(
        self,
        cost: Cost,
        price: Amount,
        cap: Amount,
        *,
        adjacency: str,
        estimator: str,
        seeded: bool,
        releases: str,
        note: str,
    ) -> tuple[Charge | None, Amount]:
        """Write a charge if it fits, and return it, or None and the room there is.

        The charge draws from open reservations first, newest first, then from what is free.
        """
        with self._transaction(write=True) as connection:
            free = cap - _charged(connection) - _set_aside(connection)
            uncovered = self._draw(connection, price)
            if not uncovered.fits(free):
                connection.execute("ROLLBACK")
                return None, free + (price - uncovered)
            row = {
                "at": _now(),
                "pid": os.getpid(),
                "estimator": estimator,
                "components": _components_json(cost),
                "seeded": int(seeded),
                "releases": releases,
                "note": note,
                "main": decimal_text(price.main),
                "apart": decimal_text(price.apart),
            }
            number = self._insert(connection, "charges", row)
            connection.execute("COMMIT")
        return _charge({"number": number, **row}, adjacency), free

    def describe(self, charge: Charge, releases: str) -> None:
        """Write down what a charge released, unless that was done; its price does not change."""
        query = (
            "UPDATE charges SET releases = ?"
            " WHERE number = ? AND at = ? AND pid = ? AND releases = '[]'"
        )
        values = (releases, charge.number, charge.when.isoformat(), charge.pid)
        with self._transaction(write=True) as connection:
            connection.execute(query, values)
            connection.execute("COMMIT")

    def reserve(self, cost: Cost, price: Amount, cap: Amount, note: str) -> tuple[int, Amount]:
        """Set a price aside if it fits into what is free; return its number or 0, and the room."""
        with self._transaction(write=True) as connection:
            free = cap - _charged(connection) - _set_aside(connection)
            if not price.fits(free):
                connection.execute("ROLLBACK")
                return 0, free
            row = {
                "at": _now(),
                "pid": os.getpid(),
                "components": _components_json(cost),
                "note": note,
                "unused_main": decimal_text(price.main),
                "unused_apart": decimal_text(price.apart),
            }
            number = self._insert(connection, "reservations", row)
            connection.execute("COMMIT")
        return number, free

    def release(self, number: int | None) -> int:
        """Free what is unused of one reservation, or of all open ones; return how many."""
        query = "UPDATE reservations SET closed = ? WHERE closed IS NULL"
        values: list[object] = [_now()]
        if number is not None:
            query += " AND number = ?"
            values.append(number)
        with self._transaction(write=True) as connection:
            count = connection.execute(query, values).rowcount
            connection.execute("COMMIT")
        return count

    # -- inside -------------------------------------------------------------------------------

    def _insert(self, connection: sqlite3.Connection, table: str, row: dict[str, object]) -> int:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        cursor = connection.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values())
        )
        return cursor.lastrowid or 0

    def _draw(self, connection: sqlite3.Connection, price: Amount) -> Amount:
        """Take `price` from what reservations hold; return the part that none of them covers."""
        for row in connection.execute(
            "SELECT * FROM reservations WHERE closed IS NULL ORDER BY number DESC"
        ).fetchall():
            unused = _amount(row["unused_main"], row["unused_apart"])
            drawn = unused.overlap(price)
            price, unused = price - drawn, unused - drawn
            connection.execute(
                "UPDATE reservations SET unused_main = ?, unused_apart = ? WHERE number = ?",
                (decimal_text(unused.main), decimal_text(unused.apart), row["number"]),
            )
        return price

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{Path(self.path).as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
        connection.row_factory = sqlite3.Row
        return connection

    @contextlib.contextmanager
    def _transaction(self, write: bool) -> Iterator[sqlite3.Connection]:
        """Open the file, check that it is this ledger, and close it, rolling back what is open."""
        if not os.path.exists(self.path):
            raise SealedBudgetError(
                "The ledger file of this budget is not there, so nothing can be charged to it "
                f"here: {self.path}"
            )
        with (
            _ONE_AT_A_TIME,
            _errors(self),
            contextlib.closing(self._connect("rw")) as connection,
        ):
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            self._check(connection)
            yield connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raise unless the file is a ledger of this format and, if an id is known, this one."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise _other_file(self)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != _FORMAT:
            raise LedgerError(
                f"The ledger {self.path} has format {version}; this skdp reads {_FORMAT}."
            )
        ids = [row["id"] for row in connection.execute("SELECT id FROM ledger")]
        if len(ids) != 1:
            raise LedgerError(f"The ledger {self.path} is damaged.")
        if self.id and ids != [self.id]:
            raise _other_file(self)


def _amount(main: str, apart: str) -> Amount:
    """Read the texts of an amount; anything else than two numbers >= 0 was never written here."""
    with contextlib.suppress(ValueError, TypeError, ZeroDivisionError):
        amount = Amount(Fraction(main), Fraction(apart))
        if amount == amount.positive():
            return amount
    raise LedgerError("The ledger is damaged: an amount in it is no number >= 0.")


def _charged(connection: sqlite3.Connection) -> Amount:
    """Return the exact sum of all charges; equal ones are counted by SQLite."""
    total = Amount()
    for main, apart, times in connection.execute(
        "SELECT main, apart, COUNT(*) FROM charges GROUP BY main, apart"
    ):
        total = total + times * _amount(main, apart)
    return total


def _set_aside(connection: sqlite3.Connection) -> Amount:
    """Return the exact sum of what open reservations hold and nobody used."""
    total = Amount()
    for main, apart in connection.execute(
        "SELECT unused_main, unused_apart FROM reservations WHERE closed IS NULL"
    ):
        total = total + _amount(main, apart)
    return total


def _charge(row: Mapping[str, Any] | sqlite3.Row, adjacency: str) -> Charge:
    cost = _components_cost(row["components"])
    return Charge(
        number=row["number"],
        when=datetime.datetime.fromisoformat(row["at"]),
        estimator=row["estimator"],
        epsilon=cost.epsilon,
        delta=cost.delta,
        mechanism=cost.mechanism,
        mu=cost.mu,
        adjacency=adjacency,
        seeded=bool(row["seeded"]),
        releases=tuple(json.loads(row["releases"])),
        note=row["note"],
        pid=row["pid"],
        cost=cost,
    )


def _reservation(row: sqlite3.Row) -> ReservationRecord:
    cost = _components_cost(row["components"])
    return ReservationRecord(
        when=datetime.datetime.fromisoformat(row["at"]),
        epsilon=cost.epsilon,
        delta=cost.delta,
        note=row["note"],
        pid=row["pid"],
        open=row["closed"] is None,
    )


def _publish(draft: str, path: str) -> None:
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
}


def _other_file(ledger: Ledger) -> LedgerError | SealedBudgetError:
    """Return the error for a file that is not this ledger (or, without an id, no ledger)."""
    if ledger.id:
        return SealedBudgetError(
            "The ledger file of this budget was replaced by another one, so nothing can be "
            f"charged to it here: {ledger.path}"
        )
    return LedgerError(
        f"ledger must be an skdp ledger or a path where no file is yet; {ledger.path} is "
        "another kind of file."
    )


@contextlib.contextmanager
def _errors(ledger: Ledger) -> Iterator[None]:
    """Turn SQLite's errors into LedgerError, with a text that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
        if code == sqlite3.SQLITE_NOTADB:
            raise _other_file(ledger) from None
        reason = _REASONS.get(code, "is not a usable skdp ledger").format(timeout=ledger.timeout)
        raise LedgerError(f"The ledger {ledger.shown} {reason}. Nothing was released.") from None
