"""The ledger of many hosts: tables in a PostgreSQL schema.

What `skdp.budget.ledger` promises of a file holds here by other means:

- **One writer.** Every writing transaction is READ COMMITTED and first locks the row of running
  totals, ``SELECT ... FOR UPDATE``; whatever it reads after that is what the last one committed.
- **Durable before noise.** The transaction sets ``synchronous_commit`` to on, and a server with
  ``fsync=off`` is refused. A standby that is promoted has lost the charges that had not reached it:
  its name belongs into ``synchronous_standby_names``.
- **A commit whose answer is lost** is asked about. Each writing transaction leaves a key of its
  own in ``commits``. Whoever gets no answer connects again, takes the same lock, which waits until
  the lost transaction has ended, and looks for its key: a charge that is there counts once, and one
  that is not was never made. Where nobody answers, an error says so, and no noise is drawn.
- **A client that hangs** holds the lock for at most `_IDLE` seconds; then the server ends its
  transaction, and nothing of it counts.
- **A server that hangs** holds up one ledger, for about a minute at most. Every exchange has a
  deadline on this side (`Line`). What is shown of a budget is what this process saw
  last, with its time, and a fork does not wait.
- **No code of others is run.** A name in a database may lead to a view, or to a table with rules,
  triggers, policies or defaults, which run functions of whoever made them. So nothing is read or
  written before PostgreSQL's own catalog has said that each table is a plain one, with the columns,
  defaults and indexes of a ledger, and belongs to the owner of its schema. The catalog is read with
  ``search_path`` set to ``pg_catalog``, so that no operator or function of others takes part; a
  schema that has such is refused. The owner of a ledger is trusted with its contents, and not to
  exchange tables in the middle of a transaction.
- **One table has one ledger.** A comment on one table of each ledger names it and its data set
  (`_register`). PostgreSQL lets nobody but the owner write it, and reading it runs nothing. Whoever
  may make a schema can lie there, so that a new ledger is refused, but cannot hide or change the
  ledgers of others.

Passwords stay in the process that was given them (`skdp.budget.urls`). Worker processes take theirs
from ``PGPASSWORD``, ``~/.pgpass`` or a service file, as any client does.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import functools
import hashlib
import os
import queue
import re
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

from skdp.budget import locks, plans, schema
from skdp.budget.operations import Known, LedgerOperations, timestamp
from skdp.budget.schema import Terms
from skdp.budget.urls import NAME, parts_of, secrets_of
from skdp.exceptions import LedgerError, SealedBudgetError
from skdp.loss.charge import Cost

_CONNECT = 10  # seconds to reach one address
_ADDRESSES = 3  # addresses at most for which that much time is allowed
_LOCK = 30  # seconds to wait for another process's transaction
_MORE = 5.0  # seconds until the answer that this was in vain must be here
_IDLE = 15  # seconds that a transaction waits for its client; below _LOCK, so that locks come free
_ANSWER = 20.0  # seconds to wait for the answer to one statement
_WHOLE = 60.0  # seconds for all statements of a transaction, and to read a whole ledger
_COMMIT = 15.0  # seconds to wait for the answer to a commit, before it is asked about
_ASK = 60.0  # seconds during which a lost commit is asked about
_TURN = 60.0  # seconds to wait for another thread of this process
_LIBPQ: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "skdp",
}
_TABLES = ("ledger", "charges", "reservations", "totals", "plans", "items", "draws")

# One connection for each ledger. Those of a parent process are kept: to close one would end it.
_OPEN: dict[str, tuple[int, Line]] = {}
_FORKED: list[Line] = []
_CHECKED: set[tuple[str, str]] = set()  # the ledgers whose totals this process has checked
_KNOWN: dict[tuple[str, str], Known] = {}  # what this process saw last of each ledger

# The totals, and the parts of the budget that plans have taken.
_STATE = f"totals.*, ARRAY(SELECT part {plans.PLANS}{plans.TAKEN}) AS taken FROM totals"


# --- what the catalog says ------------------------------------------------------------------------

_MARKER = re.compile(r"skdp ledger (\w+), data set (none|sha256:[0-9a-f]{64})")

# Kinds of constraints: p and u are primary and unique keys, n is NOT NULL (from PostgreSQL 18 on).
# Types by number, which nobody can take over: 20 is bigint, 25 is text.
_CHECK = """
SELECT want.name, pg_catalog.current_setting('fsync') AS fsync, n.oid IS NOT NULL AS in_schema,
    c.oid IS NOT NULL AS there,
    pg_catalog.pg_has_role(n.nspowner, 'USAGE') AS own,
    CASE WHEN c.oid IS NULL THEN NULL
    WHEN c.relkind <> 'r' OR c.relpersistence <> 'p' OR c.relispartition THEN 'is no plain table'
    WHEN c.relowner <> n.nspowner THEN 'belongs to another role than its schema'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = c.oid) THEN 'has rules'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid) THEN 'has triggers'
    WHEN c.relrowsecurity OR c.relforcerowsecurity THEN 'has row security'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = c.oid OR inhparent = c.oid)
        THEN 'inherits, or is inherited'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_constraint
            WHERE conrelid = c.oid AND contype NOT IN ('p', 'u', 'n'))
        THEN 'has constraints that a ledger does not have'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attnum > 0
            AND NOT attisdropped AND atttypid NOT IN (20, 25))
        THEN 'has columns that a ledger does not have'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adrelid = c.oid
            AND pg_catalog.pg_get_expr(adbin, adrelid) <> '''''::text')
        THEN 'has defaults that a ledger does not have'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_index WHERE indrelid = c.oid AND (indexprs IS NOT NULL
            OR pg_catalog.replace(pg_catalog.pg_get_expr(indpred, indrelid), '"', '')
                <> '(closed IS NULL)')) THEN 'has indexes that a ledger does not have'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refobjid = n.oid
            AND refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
            AND classid IN ('pg_catalog.pg_proc'::pg_catalog.regclass,
                'pg_catalog.pg_operator'::pg_catalog.regclass))
        THEN 'lies in a schema with functions or operators'
    END AS problem
FROM (VALUES {tables}) AS want (name)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = '{name}'
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = want.name
"""

# Every table that may be the ledger of a schema, and what its comment says.
_REGISTERED = """
SELECT n.nspname, d.description, n.nspowner = me.oid AS mine
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspowner = c.relowner
JOIN pg_catalog.pg_roles me ON me.rolname = CURRENT_USER
LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0
    AND d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass
WHERE c.relname = 'skdp_format' AND c.relkind = 'r'
ORDER BY n.nspname
"""


def _check_of(name: str) -> str:
    """Return the statement that asks the catalog about the tables of a schema."""
    tables = (f"('{table}'::pg_catalog.name)" for table in (*_TABLES, "commits", "skdp_format"))
    return _CHECK.format(name=name, tables=", ".join(tables))


def _problem(rows: Sequence[Any]) -> str | None:
    """Return in words why the tables of a schema must not be read; None if they may be."""
    for row in rows:
        if row["problem"] is not None:
            what = f"its table {row['name']} {row['problem']}"
            return f"{what}, so that reading or writing it could run code of others"
    return next((f"it has no table {row['name']}" for row in rows if not row["there"]), None)


def _has_format(rows: Sequence[Any]) -> bool:
    """Whether a schema claims to be a ledger."""
    return any(row["there"] and row["name"] == "skdp_format" for row in rows)


def _hash_of(dataset: str | None) -> str:
    """Return the data set as the comment of a ledger says it: everybody can read comments."""
    return "none" if dataset is None else f"sha256:{hashlib.sha256(dataset.encode()).hexdigest()}"


def _read_marker(comment: str | None) -> str | None:
    """Return the data set in a comment, "none" or a hash; None if no ledger wrote it."""
    match = _MARKER.fullmatch(comment or "")
    return None if match is None else match[2]


def _register(name: str, ledger_id: str, dataset: str | None) -> str:
    """Return the statement that writes the comment of a ledger."""
    text = f"skdp ledger {ledger_id}, data set {_hash_of(dataset)}"
    if not _MARKER.fullmatch(text):
        raise ValueError("The identity of a ledger has letters and digits alone.")
    return f"COMMENT ON TABLE \"{name}\".skdp_format IS '{text}'"


# --- exchanges with a server that may never answer ------------------------------------------------
#
# A driver waits inside C code, where interrupts work differently in each version. So each
# connection is used by a thread of its own (`Line`), for which callers wait until a deadline. A
# connection that did not answer in time is dropped: its socket is shut down, which also ends the
# wait of its thread. It is never used again, because its place in the protocol is unknown.
#
# A fork copies no threads. The child must not use the lines of its parent; closing them would end
# the parent's transactions.

_SLICE = 0.5  # seconds; where waiting for a lock cannot be interrupted (Windows), Ctrl-C takes this
_THREAD = "skdp ledger"


class Silence(Exception):
    """No answer came before the deadline, so the connection was dropped."""


class Line:
    """A connection to a server (made by `connect`), and the thread that alone uses it."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.pid = os.getpid()
        self._connect = connect
        self._calls = queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]] | None]()
        self._dropped = False
        self._raw: Any = None
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name=_THREAD)
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C while it starts
            self.drop()
            raise

    # -- in the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._dropped and (task := self._calls.get()) is not None:
            call, answer = task
            try:
                answer.set_result(call(self._raw))
            except BaseException as error:  # noqa: BLE001  for the thread that waits
                answer.set_exception(error)
            del task, call, answer  # a result may be large
        with contextlib.suppress(Exception):
            if self._raw is not None:
                self._raw.close()
        if self._socket is not None:
            self._socket.close()

    def open(self, _: Any) -> None:
        """Connect."""
        raw = self._connect()
        # A second descriptor of the same socket: the driver may close its own at any time, and the
        # number of a closed one may be somebody else's by the time that it is shut down.
        self._socket = socket.fromfd(raw.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        self._raw = raw

    # -- in other threads ---------------------------------------------------------------------

    def ask(self, call: Callable[[Any], Any], timeout: float) -> tuple[Any, BaseException | None]:
        """Return what `call` returns for the connection, and the error that it raised if it did.

        The error is returned, not raised: raised again by the caller, it would stay the context of
        the caller's own error, with the text of the server in it.
        """
        if not self.mine():
            return None, Silence("this connection was dropped")
        answer, until = Future[Any](), time.monotonic() + timeout
        try:
            self._calls.put((call, answer))
            while not wait([answer], min(max(until - time.monotonic(), 0.0), _SLICE)).done:
                if time.monotonic() >= until:
                    break
        except BaseException:  # Ctrl-C, or a signal handler that raises
            self.drop()
            raise
        if not answer.done():
            self.drop()
            return None, Silence(f"no answer within {max(timeout, 0.0):.3g} s")
        error = answer.exception()
        return (answer.result(), None) if error is None else (None, error)

    def mine(self) -> bool:
        """Whether it was made by this process and not dropped."""
        return not self._dropped and self.pid == os.getpid()

    def usable(self) -> bool:
        """Whether the connection seems open."""
        return self.mine() and self._raw is not None and not self._raw.closed

    def in_transaction(self) -> bool:
        """Whether a transaction is open; not to be called during an exchange."""
        return self.usable() and self._raw.info.transaction_status != 0

    def drop(self) -> None:
        """Give the connection up, without a word to the server and without waiting."""
        if self.pid != os.getpid():  # a shutdown by a child would end its parent's transaction
            return
        self._dropped = True
        self._calls.put(None)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, timeout: float = 1.0) -> None:
        """Say goodbye to the server, within the timeout."""
        if self.mine():
            self._calls.put(None)
            self._thread.join(max(timeout, 0.0))
            self.drop()


def with_addresses(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a connection with the addresses of its hosts, or raise OSError.

    libpq asks name servers itself, and may hold Python's global lock meanwhile.
    """
    if options.get("hostaddr") or options.get("service") or os.environ.get("PGSERVICE"):
        return options
    hosts = str(options.get("host") or os.environ.get("PGHOST", "")).split(",")
    ports = str(options.get("port") or os.environ.get("PGPORT", "")).split(",")
    if len(ports) not in (1, len(hosts)) or os.environ.get("PGHOSTADDR"):
        return options  # libpq says what is wrong
    ports = ports * len(hosts) if len(ports) == 1 else ports
    places = []
    for host, port in zip(hosts, ports, strict=True):
        if not host or host.startswith(("/", "@")):
            places.append((host, "", port))  # a socket of this machine
            continue
        with contextlib.suppress(OSError, UnicodeError):
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = dict.fromkeys(str(answer[4][0]) for answer in answers)
            places += [(host, address, port) for address in addresses]
    if not places:
        raise OSError("no address")
    if not any(address for _, address, _ in places):
        return options
    names, numeric, port_list = (",".join(part) for part in zip(*places, strict=True))
    resolved = {**options, "host": names, "hostaddr": numeric}
    return {**resolved, "port": port_list} if any(port_list.split(",")) else resolved


# --- connections ----------------------------------------------------------------------------------


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ImportError(
            "A ledger in PostgreSQL needs psycopg: pip install 'skdp[postgres]'."
        ) from None
    return psycopg


class _Row(tuple[Any, ...]):
    """A row that is read by place and by name, as sqlite3.Row is."""

    names: tuple[str, ...] = ()

    def __getitem__(self, which: Any) -> Any:
        return tuple.__getitem__(self, self.names.index(which) if type(which) is str else which)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return self.names


@functools.cache
def _row_of(names: tuple[str, ...]) -> type[_Row]:
    return type("_NamedRow", (_Row,), {"names": names})


def _rows(cursor: Any) -> type[_Row]:
    return _row_of(tuple(column.name for column in cursor.description or ()))


class _Statements:
    """A connection that takes the statements of `skdp.budget.operations`, until a time."""

    def __init__(self, line: Line, shown: str, until: float, answer: float = _ANSWER) -> None:
        self.line, self._shown, self._until, self._answer = line, shown, until, answer

    def execute(
        self, statement: str, values: Sequence[Any] = (), timeout: float | None = None
    ) -> Any:
        """Run a statement with values marked by ``?`` (the last of several); return the cursor."""
        text = statement.replace("?", "%s") if values else statement

        def call(raw: Any) -> Any:
            cursor = raw.execute(text, tuple(values) or None)
            while cursor.nextset():
                pass
            return cursor

        seconds = self._answer if timeout is None else timeout
        result, error = self.line.ask(call, min(self._until - time.monotonic(), seconds))
        if error is not None:
            raise _failed(self._shown, error)
        return result

    def roll_back(self) -> None:
        """End a transaction that is open; where that fails, end the connection."""
        if self.line.in_transaction():
            with contextlib.suppress(LedgerError):
                self.execute("ROLLBACK", timeout=5.0)
            if self.line.in_transaction():
                self.line.drop()


def _failed(shown: str, error: BaseException) -> BaseException:
    """Return the error for a server's answer, or its silence, without a word of the answer."""
    if isinstance(error, Silence):
        return LedgerError(
            f"The ledger {shown} does not answer ({error}). Nothing was charged or released."
        )
    if isinstance(error, _psycopg().Error):
        return LedgerError(f"The ledger {shown} {_reason(error)}. Nothing was released.")
    return error


_HOST = "".join(
    f"ALTER TABLE {table} ADD COLUMN host TEXT NOT NULL DEFAULT '';"
    for table in ("charges", "reservations")
)


def _tables() -> str:
    """Return the statements that make the tables, from those of an SQLite ledger."""
    text = schema.SCHEMA.replace(" WITHOUT ROWID", "").replace("INTEGER", "BIGINT")
    # SQLite numbers reservations by itself; here that must be said.
    head, table, tail = text.partition("CREATE TABLE reservations (")
    numbered = "number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
    return (head + table + tail.replace("number BIGINT PRIMARY KEY", numbered, 1)) + (
        f"{_HOST}ALTER TABLE charges ADD COLUMN client_key TEXT UNIQUE;"
        "CREATE TABLE commits (key TEXT PRIMARY KEY);"
        "CREATE TABLE skdp_format (version BIGINT NOT NULL);"
        f"INSERT INTO skdp_format VALUES ({schema.FORMAT});"
    )


def grants(role: str, name: str = "skdp") -> str:
    """Return the statements that let a role charge a ledger, and do no more than that.

    Run them as the owner, who made the ledger. The role can insert charges and move the totals
    (which `python -m skdp.ledger verify URL` recomputes); it can neither remove nor rewrite a
    charge.

    - `role`: Of the clients.
    - `name`: Of the ledger.
    """
    if not NAME.fullmatch(name):
        raise ValueError("name must be that of a ledger: lower-case letters, digits and _.")
    to = '"' + role.replace('"', '""') + '"'
    update = {
        "totals": "charges, charged_main, charged_apart, aside_main, aside_apart",
        "charges": "releases",
        "reservations": "unused_main, unused_apart, closed",
        "plans": "drawn",
        "items": "unused",
    }
    insert = ("charges", "reservations", "plans", "items", "draws", "commits")
    lines = [
        f'GRANT USAGE ON SCHEMA "{name}" TO {to};',
        f'GRANT SELECT ON ALL TABLES IN SCHEMA "{name}" TO {to};',
        *(f'GRANT INSERT ON "{name}".{table} TO {to};' for table in insert),
        *(f'GRANT UPDATE ({columns}) ON "{name}".{t} TO {to};' for t, columns in update.items()),
    ]
    return "\n".join(lines) + "\n"


_REASONS = {
    "08": "cannot be reached, or the connection was lost",
    "28": "refuses this login; worker processes take a password from PGPASSWORD, ~/.pgpass or a "
    "service file, never from the budget",
    "3D": "lies in a database that is not there",
    "42501": "does not allow this role to do that; see skdp.budget.postgres.grants",
    "25006": "is on a server that only reads (a standby, or default_transaction_read_only)",
    "53": "cannot grow: the server is out of disk, memory or connections",
    "55P03": f"is locked by another process (waited {_LOCK} s)",
    "57": "was shut down, or its server ended this transaction",
    "25P03": f"was idle for {_IDLE} s inside a transaction, which the server has ended",
    "40": "could not be read as of one moment",
}


def _reason(error: BaseException) -> str:
    """Return what an error of the server means, in words of our own."""
    code = getattr(error, "sqlstate", None) or ""
    if not code and ("authentication failed" in str(error) or "no password" in str(error)):
        code = "28"  # libpq has no code where there is no connection yet
    if not code and "timeout expired" in str(error):
        return f"does not answer (waited {_CONNECT} s for each address)"
    default = "cannot be reached, or is not a usable skdp ledger"
    return _REASONS.get(code, _REASONS.get(code[:2], default))


class PostgresLedger(LedgerOperations):
    """The schema of one budget and its charges; `path` is a URL without secrets."""

    remote = True

    def __init__(self, path: str, ledger_id: str) -> None:
        self.path, self.id = path, ledger_id
        self._server, self._options, self.name = parts_of(path)
        self._key = ""  # of the transaction, in the table commits
        self._is_owner = False  # whether this role owns the ledger
        self._turn = locks.shared_turn(("postgresql", path), path, network=True)

    # -- making and opening -------------------------------------------------------------------

    @classmethod
    def open_or_create(
        cls, path: str, terms: Terms, facts: Mapping[str, Any], *, must_exist: bool
    ) -> tuple[PostgresLedger, dict[str, Any]]:
        """Return the ledger at a URL, made if it is not there, and its row of facts."""
        ledger = cls(path, "")
        with ledger._begun("READ COMMITTED", ledger_exists=False) as connection:
            # Of two clients that create the same ledger, one waits here and then finds it.
            ledger._lock(connection, f"ledger {ledger.name}")
            rows = connection.execute(_check_of(ledger.name)).fetchall()
            if _has_format(rows):
                connection.roll_back()
            elif must_exist:
                raise LedgerError(f"ledger must exist, because must_exist=True; {path} does not.")
            elif rows[0]["in_schema"]:
                raise LedgerError(
                    f"The schema {ledger.name} of {path} is there, and is no ledger of skdp; name "
                    "another: ...?ledger=NAME."
                )
            else:
                ledger._create(connection, terms, facts)
        with ledger._transaction(write=True) as connection:  # also: may this role write?
            stored = dict(connection.execute("SELECT * FROM ledger").fetchone())
            if stored["dataset"] is None and "dataset" in facts:
                ledger._refuse_second(connection, facts["dataset"])
            if ledger._register_earlier(connection, stored):
                ledger._commit(connection)
        ledger.id = stored["id"]
        return ledger, stored

    def _create(self, connection: _Statements, terms: Terms, facts: Mapping[str, Any]) -> None:
        """Make the tables of a new ledger, and commit."""
        dataset = facts.get("dataset")
        if dataset is not None:
            self._refuse_second(connection, dataset)
        row = {**schema.new_row(uuid.uuid4().hex, timestamp(), terms), **facts}
        connection.execute(f'CREATE SCHEMA "{self.name}"')
        # Nobody else sees this schema yet. A type or table of pg_temp never comes first.
        connection.execute(f'SET LOCAL search_path TO "{self.name}", pg_temp; {_tables()}')
        schema.insert(connection, "ledger", row)
        connection.execute(_register(self.name, row["id"], dataset))
        self._end(connection)

    @staticmethod
    def _lock(connection: _Statements, text: str) -> None:
        """Wait for other clients that are about to make the same thing."""
        digest = hashlib.sha256(f"skdp {text}".encode()).digest()
        key = int.from_bytes(digest[:8], "big", signed=True)
        connection.execute(f"SELECT pg_catalog.pg_advisory_xact_lock({key})", timeout=_LOCK + _MORE)

    def _refuse_second(self, connection: _Statements, dataset: str) -> None:
        """Raise if another ledger of the same data set lies in the database.

        The comments of all ledgers say so. Ledgers of earlier versions have none: those of this
        role get one now; those of others get theirs when their owner opens them.
        """
        self._lock(connection, f"data set {dataset}")
        connection.execute("SET LOCAL search_path TO pg_catalog, pg_temp")
        for name, comment, mine in connection.execute(_REGISTERED).fetchall():
            if name == self.name:
                continue
            registered = _read_marker(comment)
            if registered is None and mine and NAME.fullmatch(name):
                registered = self._registered_now(connection, name)
            if registered == _hash_of(dataset):
                raise LedgerError(
                    f"One table has one ledger, and that of dataset={dataset!r} is ledger={name!r} "
                    f"of this database; {self.path} would be a second one."
                )
        connection.execute(f'SET LOCAL search_path TO "{self.name}", pg_temp')

    @staticmethod
    def _registered_now(connection: _Statements, name: str) -> str | None:
        """Write the comment of another ledger of this role; return the data set in it."""
        if _problem(connection.execute(_check_of(name)).fetchall()):
            return None
        rows = connection.execute(f'SELECT id, dataset FROM "{name}".ledger').fetchall()
        if len(rows) != 1 or not str(rows[0]["id"]).isalnum():
            return None
        connection.execute(_register(name, *rows[0]))
        return _hash_of(rows[0]["dataset"])

    def _register_earlier(self, connection: _Statements, stored: Mapping[str, Any]) -> bool:
        """Write the comment of a ledger of an earlier version, if this role may; say whether."""
        rows = connection.execute(_REGISTERED).fetchall()
        comments = [comment for name, comment, _ in rows if name == self.name]
        if not self._is_owner or any(_read_marker(comment) for comment in comments):
            return False
        connection.execute(_register(self.name, stored["id"], stored["dataset"]))
        return True

    def _state(self, connection: Any, facts: Mapping[str, Any]) -> None:
        if "dataset" in facts:
            self._refuse_second(connection, facts["dataset"])
            connection.execute(_register(self.name, self.id, facts["dataset"]))
        super()._state(connection, facts)

    def known(self) -> Known:
        """Return what this process saw last of the ledger."""
        if known := _KNOWN.get((self.path, self.id)):
            return known
        raise LedgerError("This process has not seen the ledger yet: budget.remaining asks it.")

    def _copy_to(self, memory: sqlite3.Connection) -> None:
        with self._transaction(write=False) as connection:
            memory.executescript(schema.HEAD + schema.SCHEMA + "DELETE FROM totals;" + _HOST)
            for table in _TABLES:
                names = [row[1] for row in memory.execute(f"PRAGMA table_info({table})")]
                marks = ", ".join("?" * len(names))
                rows = connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
                memory.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def present(self) -> bool:
        """Whether the ledger can be reached, and is still the same one."""
        try:
            return super().present()
        except LedgerError:
            return False

    # -- transactions -------------------------------------------------------------------------

    def _line(self, timeout: float) -> tuple[Line, bool]:
        """Return this process's connection, made if there is none, and whether it was made now."""
        pid, line = _OPEN.get(self.path, (0, None))
        if line is not None and pid != os.getpid():
            _FORKED.append(line)
        elif line is not None:
            if line.usable():
                return line, False
            line.drop()
        psycopg, stated = _psycopg(), _CONNECT
        options = {**_LIBPQ, **self._options, **secrets_of(self.path)}
        with contextlib.suppress(ValueError):  # 0 and less would be no limit
            stated = int(str(options.get("connect_timeout", _CONNECT)))
        # libpq has no shorter one than two seconds, and then goes on to the next host.
        options["connect_timeout"] = min(stated, _CONNECT) if stated > 0 else _CONNECT

        def connect() -> Any:
            parameters = psycopg.conninfo.conninfo_to_dict(self._server, **options)
            ours = {"autocommit": True, "row_factory": _rows, "prepare_threshold": None}
            return psycopg.connect("", **with_addresses(parameters), **ours)

        # A host may have two addresses, one of which (often that of IPv6) leads nowhere.
        addresses = min(self.path.count(",") + self.path.count("%2C") + 2, _ADDRESSES)
        try:
            line = Line(connect)
        except RuntimeError:  # the interpreter is ending: it starts no more threads
            raise LedgerError(
                f"The ledger {self.path} cannot be reached any more: this process is ending. "
                "Nothing was charged or released."
            ) from None
        _OPEN[self.path] = (os.getpid(), line)
        _, error = line.ask(line.open, min(float(_CONNECT * addresses), timeout))
        if error is not None:
            line.drop()
            if not isinstance(error, Silence | psycopg.Error) and isinstance(error, Exception):
                error = psycopg.OperationalError("no address, or an odd option")
            raise _failed(self.path, error)
        return line, True

    def _begin(self, isolation: str, until: float) -> tuple[_Statements, list[Any]]:
        """Begin a transaction; return its connection and what the catalog says of the tables."""
        begin = (
            f"BEGIN ISOLATION LEVEL {isolation};"
            " SET LOCAL search_path TO pg_catalog, pg_temp; SET LOCAL row_security TO off;"
            f" SET LOCAL lock_timeout TO '{_LOCK}s';"
            f" SET LOCAL idle_in_transaction_session_timeout TO '{_IDLE}s';"
            # A stronger setting stays.
            " SELECT pg_catalog.set_config('synchronous_commit', CASE"
            " pg_catalog.current_setting('synchronous_commit')"
            " WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);"
            f" {_check_of(self.name)}"
        )
        answer = _WHOLE if "READ ONLY" in isolation else _ANSWER
        while True:
            line, new = self._line(until - time.monotonic())
            connection = _Statements(line, self.path, until, answer)
            try:
                return connection, connection.execute(begin, timeout=_CONNECT).fetchall()
            except LedgerError:
                line.drop()
                if new:
                    raise
                # The server was restarted, or the network cut: nothing had begun.

    @contextlib.contextmanager
    def _begun(self, isolation: str, *, ledger_exists: bool = True) -> Iterator[_Statements]:
        """Begin a transaction; roll it back at the end if it is still open."""
        _psycopg()
        # In a thread that serves a connection, only a destructor can want another one.
        if threading.current_thread().name == _THREAD:
            raise LedgerError(
                f"The ledger {self.path} cannot be used by a destructor that interrupts another "
                "use of a ledger. Nothing was charged or released."
            )
        with self._turn.taken(_TURN):
            # Twice: a connection that was lost unnoticed is tried before a new one is made.
            connection, tables = self._begin(isolation, time.monotonic() + _WHOLE + 2 * _CONNECT)
            try:
                if tables[0]["fsync"] != "on":
                    raise LedgerError(
                        f"The server of the ledger {self.path} runs with fsync=off and may "
                        "forget charges. Nothing was released."
                    )
                if ledger_exists:
                    self._check(connection, tables)
                yield connection
            except Exception:
                connection.roll_back()
                raise
            except BaseException:  # Ctrl-C waits for nobody; the server rolls back by itself
                connection.line.drop()
                raise
            connection.roll_back()

    def _check(self, connection: _Statements, tables: list[Any]) -> None:
        """Raise unless this is a ledger of this format and, if an id is known, this one."""
        if not _has_format(tables):
            raise SealedBudgetError(
                "The ledger of this budget is not there, so nothing can be charged to it here: "
                f"{self.path}"
            )
        if problem := _problem(tables):
            raise LedgerError(
                f"The ledger {self.path} is not used, because {problem}. Nothing was released."
            )
        self._is_owner = bool(tables[0]["own"])
        rows = connection.execute(
            f'SET LOCAL search_path TO "{self.name}", pg_temp; SELECT'
            " (SELECT pg_catalog.count(*) FROM ledger) AS ledgers,"
            " (SELECT pg_catalog.min(id) FROM ledger) AS id,"
            " (SELECT pg_catalog.min(version) FROM skdp_format) AS version,"
            f" {_STATE}"
        ).fetchall()
        if len(rows) != 1 or rows[0]["ledgers"] != 1:
            raise LedgerError(f"The ledger {self.path} is damaged.")
        row = rows[0]
        if row["version"] != schema.FORMAT:
            raise LedgerError(
                f"The ledger {self.path} has another format than {schema.FORMAT}, which this skdp "
                "reads."
            )
        if self.id and row["id"] != self.id:
            raise SealedBudgetError(
                "The ledger of this budget was replaced by another one, so nothing can be charged "
                f"to it here: {self.path}"
            )
        self._saw(row["id"], row)

    def _saw(self, ledger_id: str, row: Any) -> None:
        now, totals = datetime.datetime.now(datetime.UTC), schema.Totals.of(row)
        _KNOWN[self.path, ledger_id] = Known(now, totals, frozenset(row["taken"]))

    @contextlib.contextmanager
    def _transaction(self, write: bool) -> Iterator[Any]:
        with self._begun("READ COMMITTED" if write else "REPEATABLE READ READ ONLY") as connection:
            if write:
                connection.execute("SELECT charges FROM totals FOR UPDATE", timeout=_LOCK + _MORE)
                if not self.id or (self.path, self.id) not in _CHECKED:
                    schema.verify(connection)  # type: ignore[arg-type]
                    if self.id:
                        _CHECKED.add((self.path, self.id))
                self._key = uuid.uuid4().hex
            yield connection

    def _commit(self, connection: Any) -> None:
        row = connection.execute(
            f"WITH made AS (INSERT INTO commits VALUES (?)) SELECT {_STATE}", (self._key,)
        ).fetchone()
        self._end(connection)
        if self.id:
            self._saw(self.id, row)

    def _end(self, connection: _Statements) -> None:
        """Commit; if no answer comes, find out whether it was done."""
        key, answer = self._key, None
        with contextlib.suppress(LedgerError):
            answer = connection.execute("COMMIT", timeout=_COMMIT).statusmessage
        written: bool | None = answer == "COMMIT"
        if answer is None:
            connection.line.drop()
            # A child that was forked in here would find the charge of its parent.
            forked = connection.line.pid != os.getpid()
            written = self._written(key) if key and not forked else None
        if written:
            return
        if written is None:
            raise LedgerError(
                f"The ledger {self.path} did not answer a commit, and cannot be asked whether "
                "it was made: it counts if it was. Nothing was released."
            )
        raise LedgerError(
            f"The ledger {self.path} did not commit. Nothing was charged or released."
        )

    def _written(self, key: str) -> bool | None:
        """Return whether a transaction of this key was committed; None if nobody answers."""
        until = time.monotonic() + _ASK
        while time.monotonic() < until:
            with contextlib.suppress(LedgerError, SealedBudgetError):
                connection, tables = self._begin("READ COMMITTED", until)
                try:
                    self._check(connection, tables)
                    # The lost transaction holds this lock until it has ended, one way or the other.
                    connection.execute("SELECT 1 FROM totals FOR UPDATE", timeout=_LOCK + _MORE)
                    rows = connection.execute("SELECT 1 FROM commits WHERE key = ?", (key,))
                    return rows.fetchone() is not None
                finally:
                    connection.roll_back()
            time.sleep(0.5)
        return None

    def _new_row(self, cost: Cost) -> dict[str, Any]:
        return super()._new_row(cost) | {"host": socket.gethostname()}

    def _insert(self, connection: Any, table: str, row: dict[str, Any]) -> int:
        if table == "charges":
            row = {**row, "client_key": self._key}
        number: int = schema.insert(connection, table, row, " RETURNING number").fetchone()[0]
        return number


def _close_all() -> None:
    """Say goodbye to the servers, which need not answer."""
    until = time.monotonic() + 2.0
    for _, line in list(_OPEN.values()):
        line.close(min(until - time.monotonic(), 1.0))


atexit.register(_close_all)
