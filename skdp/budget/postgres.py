"""The ledger of many hosts: a PostgreSQL schema with the tables that an SQLite ledger has.

Nothing is released here, and no row of data ever reaches the database. What `skdp.budget.ledger`
promises of a file holds here by other means:

- **One writer.** Every writing transaction is READ COMMITTED and first locks the row of running
  totals, ``SELECT ... FOR UPDATE``; whatever it reads after that is what the last one committed.
- **Durable before noise.** ``synchronous_commit`` is on, set by the transaction itself, whatever
  the server or the role says, and a server with ``fsync=off`` is refused. A standby that is
  promoted has lost the charges that had not reached it: where one stands by, its name belongs into
  ``synchronous_standby_names``.
- **A commit whose answer is lost** is asked about. Each writing transaction leaves a key of its
  own in ``commits``. Whoever gets no answer connects again and takes the same lock, which waits
  until the lost transaction has ended, and looks for its key: a charge that is there counts once,
  and one that is not was never made. Where nobody answers, an error says so, and no noise is drawn.
- **A client that hangs** holds the lock for at most `_IDLE` seconds; then the server ends its
  transaction, and nothing of it counts.

Passwords stay in the process that was given them: names, pickles and messages have none. Worker
processes take theirs from ``PGPASSWORD``, ``~/.pgpass`` or a service file, as any client does.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import socket
import sqlite3
import time
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skdp.budget import locks, schema
from skdp.budget.files import remove
from skdp.budget.operations import LedgerOperations, timestamp
from skdp.exceptions import LedgerError, SealedBudgetError

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresLedger", "grants", "normal_url", "snapshot"]

_CONNECT = 10  # seconds to reach the server
_LOCK = 30  # seconds to wait for another process's transaction
_IDLE = (
    15  # seconds that a transaction may wait for its client; less than _LOCK, so locks come free
)
_ASK = 60.0  # seconds during which a lost commit is asked about
_TURN = 60.0  # seconds to wait for another thread of this process
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SECRET = ("password", "sslpassword", "sslkey")
_TABLES = ("ledger", "charges", "reservations", "totals", "plans", "items", "draws")

# What a URL without secrets needs beside it, in this process alone.
_SECRETS: dict[str, dict[str, str]] = {}
# One connection for each ledger; those of the process that forked are kept, and never used.
_OPEN: dict[str, tuple[int, Any]] = {}
_FORKED: list[Any] = []
# The ledgers whose totals this process has checked.
_CHECKED: set[tuple[str, str]] = set()


def normal_url(ledger: str) -> str:
    """Return the URL without secrets, which this process remembers, or raise.

    ``postgresql://user@host:port/database?ledger=name``; other parameters are those of libpq.
    `name` is the schema, "skdp" unless given. Several hosts are separated by commas.
    """
    try:
        parts = urllib.parse.urlsplit(ledger)
        host = parts.netloc.rpartition("@")[2]
        ports = [one.rpartition("]")[2].partition(":")[2] for one in host.split(",")]
        if not all(port.isdecimal() or not port for port in ports):
            raise ValueError
        given = urllib.parse.parse_qsl(parts.query, keep_blank_values=True, strict_parsing=False)
    except ValueError:
        raise ValueError("ledger must be a URL postgresql://user@host:port/database.") from None
    options = dict(given)
    name = options.pop("ledger", "skdp")
    if len(options) + ("ledger" in dict(given)) != len(given) or parts.fragment:
        raise ValueError("ledger must be a URL that gives every parameter once, without a '#'.")
    if not _NAME.fullmatch(name) or name.startswith("pg_"):
        raise ValueError(
            "ledger must be a URL whose parameter ledger= is a name of lower-case letters, digits "
            f"and _; got {name!r}."
        )
    secrets = {key: options.pop(key) for key in _SECRET if key in options}
    if parts.password is not None:
        secrets["password"] = urllib.parse.unquote(parts.password)
    user = "" if parts.username is None else f"{parts.username}@"
    query = urllib.parse.urlencode([*sorted(options.items()), ("ledger", name)])
    shown = f"postgresql://{user}{host}{parts.path}?{query}"
    if secrets:
        _SECRETS[shown] = secrets
    return shown


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
    """A connection that takes the statements of `skdp.budget.operations`."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw

    def execute(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Run a statement whose values are marked by ``?``."""
        text: Any = statement.replace("?", "%s") if values else statement
        return self.raw.execute(text, tuple(values) or None)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        text: Any = statement.replace("?", "%s")
        with self.raw.cursor() as cursor:
            cursor.executemany(text, rows)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return not self.raw.closed and self.raw.info.transaction_status != 0


def _tables() -> str:
    """Return the statements that make the tables, from those of an SQLite ledger."""
    text = schema.SCHEMA.replace(" WITHOUT ROWID", "").replace("INTEGER", "BIGINT")
    own = "number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, at TEXT NOT NULL, pid BIGINT"
    head, table, tail = text.partition("CREATE TABLE reservations (")
    text = (
        head
        + table
        + tail.replace("number BIGINT PRIMARY KEY, at TEXT NOT NULL, pid BIGINT", own, 1)
    )
    return text + (
        "ALTER TABLE charges ADD COLUMN host TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE charges ADD COLUMN client_key TEXT UNIQUE;"
        "ALTER TABLE reservations ADD COLUMN host TEXT NOT NULL DEFAULT '';"
        "CREATE TABLE commits (key TEXT PRIMARY KEY);"
        "CREATE TABLE skdp_format (version BIGINT NOT NULL);"
        f"INSERT INTO skdp_format VALUES ({schema.FORMAT});"
    )


def grants(role: str, name: str = "skdp") -> str:
    """Return the statements that let a role charge a ledger, and do no more than that.

    Run them as the owner, who made the ledger. The role can insert charges, and move the totals;
    it can neither remove nor rewrite a charge. `python -m skdp.ledger verify URL` recomputes the
    totals.

    Parameters
    ----------
    role : str
        Of the clients.
    name : str, default="skdp"
        Of the ledger.

    Returns
    -------
    script : str
    """
    if not _NAME.fullmatch(name):
        raise ValueError("name must be that of a ledger: lower-case letters, digits and _.")
    to = '"' + role.replace('"', '""') + '"'
    update = {
        "totals": "charges, charged_main, charged_apart, aside_main, aside_apart",
        "charges": "releases",
        "reservations": "unused_main, unused_apart, closed",
        "plans": "drawn",
        "items": "unused",
    }
    lines = [
        f'GRANT USAGE ON SCHEMA "{name}" TO {to};',
        f'GRANT SELECT ON ALL TABLES IN SCHEMA "{name}" TO {to};',
        *(
            f'GRANT INSERT ON "{name}".{table} TO {to};'
            for table in ("charges", "reservations", "plans", "items", "draws", "commits")
        ),
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


def _reason(error: Exception) -> str:
    code = getattr(error, "sqlstate", None) or ""
    if not code and ("authentication failed" in str(error) or "no password" in str(error)):
        code = "28"  # libpq has no code where there is no connection yet
    default = "cannot be reached, or is not a usable skdp ledger"
    return _REASONS.get(code, _REASONS.get(code[:2], default))


class PostgresLedger(LedgerOperations):
    """A schema of a PostgreSQL database that holds the terms of one budget and all its charges.

    Parameters
    ----------
    path : str
        The URL without secrets, as `normal_url` returns it.
    ledger_id : str
        The identity that it must carry; a ledger with another one was replaced.
    """

    def __init__(self, path: str, ledger_id: str) -> None:
        self.path, self.id = path, ledger_id
        base, _, query = path.partition("?")
        options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.name = options.pop("ledger")
        self._server, self._options = base, options
        self._key = ""
        self._turn = locks.shared_turn(("postgresql", path), path, network=True)

    # -- making and opening -------------------------------------------------------------------

    @classmethod
    def open_or_create(
        cls, path: str, terms: schema.Terms, facts: Mapping[str, Any], *, must_exist: bool
    ) -> tuple[PostgresLedger, dict[str, Any]]:
        """Return the ledger at a URL, made if it is not there, and what it says of itself."""
        ledger = cls(path, "")
        with ledger._begun("READ COMMITTED", ledger_exists=False) as connection:
            # Of two clients that create the same ledger, one waits here and then finds it.
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtext(?))", (f"skdp {ledger.name}",)
            )
            found = connection.execute(
                "SELECT to_regclass(?) IS NOT NULL, EXISTS (SELECT 1 FROM pg_namespace"
                " WHERE nspname = ?)",
                (f'"{ledger.name}".skdp_format', ledger.name),
            ).fetchone()
            if found[0]:
                connection.execute("ROLLBACK")
            elif must_exist:
                raise LedgerError(f"ledger must exist, because must_exist=True; {path} does not.")
            elif found[1]:
                raise LedgerError(
                    f"The schema {ledger.name} of {path} is there, and is no ledger of skdp; name "
                    "another: ...?ledger=NAME."
                )
            else:
                if "dataset" in facts:
                    ledger._refuse_second(connection, facts["dataset"])
                connection.execute(f'CREATE SCHEMA "{ledger.name}"')
                for statement in _tables().split(";"):
                    if statement.strip():
                        connection.execute(statement)
                row = {**schema.new_row(uuid.uuid4().hex, timestamp(), terms), **facts}
                names, marks = ", ".join(row), ", ".join("?" * len(row))
                connection.execute(
                    f"INSERT INTO ledger ({names}) VALUES ({marks})", tuple(row.values())
                )
                ledger._end(connection)
        with ledger._transaction(write=True) as connection:  # also: may this role write?
            stored = dict(connection.execute("SELECT * FROM ledger").fetchone())
            if stored["dataset"] is None and "dataset" in facts:
                ledger._refuse_second(connection, facts["dataset"])
        ledger.id = stored["id"]
        return ledger, stored

    def _refuse_second(self, connection: Any, dataset: str) -> None:
        """Raise if another ledger of the same data set lies in the database."""
        schemas = connection.execute(
            "SELECT table_schema FROM information_schema.tables WHERE table_name = 'skdp_format'"
            " AND table_schema <> ? AND has_schema_privilege(table_schema, 'USAGE')",
            (self.name,),
        ).fetchall()
        for (name,) in schemas:
            quoted = '"' + name.replace('"', '""') + '"'
            stated = connection.execute(f"SELECT dataset FROM {quoted}.ledger").fetchone()
            if stated is not None and stated[0] == dataset:
                raise LedgerError(
                    f"One table has one ledger, and that of dataset={dataset!r} is ledger={name} "
                    f"of this database; {self.path} would be a second one."
                )

    def backup(self, path: str) -> None:
        """Copy the ledger to an SQLite file, marked as a copy of this one."""
        if os.path.exists(path):
            raise LedgerError(f"A backup never replaces another file, and {path} is one.")
        with contextlib.closing(snapshot(self.path)) as memory:
            memory.execute("UPDATE ledger SET backup_of = ?", (self.path,))
            try:
                with contextlib.closing(sqlite3.connect(path)) as file:
                    file.execute("PRAGMA synchronous = EXTRA")
                    memory.backup(file)
            except sqlite3.Error:
                remove(path)
                raise LedgerError(f"The backup {path} cannot be written.") from None

    def present(self) -> bool:
        """Whether the ledger can be reached, and is still the same one."""
        try:
            return super().present()
        except LedgerError:
            return False

    # -- transactions -------------------------------------------------------------------------

    def _connect(self) -> Any:
        """Return this process's connection to the database, made if there is none that works."""
        pid, connection = _OPEN.get(self.path, (0, None))
        if connection is not None and pid != os.getpid():
            _FORKED.append(connection)  # closing it would end the parent's
            connection = None
        if connection is not None and not connection.closed:
            return connection
        secrets = _SECRETS.get(self.path, {})
        defaults: dict[str, Any] = {
            "connect_timeout": _CONNECT,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
            "application_name": "skdp",
        }
        connection = _psycopg().connect(
            self._server, **{**defaults, **self._options, **secrets}, autocommit=True,
            row_factory=_rows, prepare_threshold=None,
        )  # fmt: skip
        _OPEN[self.path] = (os.getpid(), connection)
        return connection

    @contextlib.contextmanager
    def _begun(self, isolation: str, *, ledger_exists: bool = True) -> Iterator[_Statements]:
        """Begin a transaction; roll it back at the end if it is still open."""
        error: type[Exception] = _psycopg().Error
        with self._turn.taken(_TURN):
            try:
                begin: Any = (
                    f"BEGIN ISOLATION LEVEL {isolation}; SET LOCAL lock_timeout = '{_LOCK}s';"
                    f" SET LOCAL idle_in_transaction_session_timeout = '{_IDLE}s';"
                    # A stronger setting stays.
                    " SELECT set_config('synchronous_commit', CASE current_setting("
                    "'synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END,"
                    f' true); SET LOCAL search_path TO "{self.name}", pg_temp'
                )
                connection = self._connect()
                try:
                    connection.execute(begin)
                except error:  # the server was restarted, or the network cut: nothing had begun
                    with contextlib.suppress(error):
                        connection.close()
                    connection = self._connect()
                    connection.execute(begin)
                statements = _Statements(connection)
                try:
                    if connection.execute("SHOW fsync").fetchone()[0] != "on":
                        raise LedgerError(
                            f"The server of the ledger {self.path} runs with fsync=off and may "
                            "forget charges. Nothing was released."
                        )
                    if ledger_exists:
                        self._check(statements)
                    yield statements
                finally:
                    if statements.in_transaction:
                        with contextlib.suppress(error):
                            connection.execute("ROLLBACK")
                        if statements.in_transaction:
                            connection.close()
            except error as problem:
                reason = _reason(problem)
                raise LedgerError(
                    f"The ledger {self.path} {reason}. Nothing was released."
                ) from None

    def _check(self, connection: _Statements) -> None:
        """Raise unless this is a ledger of this format and, if an id is known, this one."""
        there = connection.execute("SELECT to_regclass('skdp_format') IS NOT NULL").fetchone()
        if there is None or not there[0]:
            raise SealedBudgetError(
                "The ledger of this budget is not there, so nothing can be charged to it here: "
                f"{self.path}"
            )
        versions = connection.execute("SELECT version FROM skdp_format").fetchall()
        if [tuple(row) for row in versions] != [(schema.FORMAT,)]:
            raise LedgerError(
                f"The ledger {self.path} has another format than {schema.FORMAT}, which this skdp "
                "reads."
            )
        ids = [row["id"] for row in connection.execute("SELECT id FROM ledger").fetchall()]
        if len(ids) != 1:
            raise LedgerError(f"The ledger {self.path} is damaged.")
        if self.id and ids != [self.id]:
            raise SealedBudgetError(
                "The ledger of this budget was replaced by another one, so nothing can be charged "
                f"to it here: {self.path}"
            )

    @contextlib.contextmanager
    def _transaction(self, write: bool) -> Iterator[Any]:
        if not write:
            with self._begun("REPEATABLE READ READ ONLY") as connection:
                yield connection
            return
        with self._begun("READ COMMITTED") as connection:
            connection.execute("SELECT charges FROM totals FOR UPDATE").fetchall()
            if not self.id or (self.path, self.id) not in _CHECKED:
                schema.verify(connection)  # type: ignore[arg-type]
                if self.id:
                    _CHECKED.add((self.path, self.id))
            self._key = uuid.uuid4().hex
            yield connection

    def _commit(self, connection: Any) -> None:
        connection.execute("INSERT INTO commits VALUES (?)", (self._key,))
        self._end(connection)

    def _end(self, connection: _Statements) -> None:
        """Commit; if no answer comes, find out whether it was done."""
        error: type[Exception] = _psycopg().Error
        key = self._key
        try:
            answer = connection.raw.execute("COMMIT").statusmessage
        except error:
            answer = None
        if answer == "COMMIT":
            return
        if answer is None and key:
            with contextlib.suppress(error):
                connection.raw.close()
            written = self._written(key)
            if written:
                return
            if written is None:
                raise LedgerError(
                    f"The ledger {self.path} did not answer a commit, and cannot be asked whether "
                    "it was made: it counts if it was. Nothing was released."
                )
        raise LedgerError(f"The ledger {self.path} did not commit. Nothing was released.")

    def _written(self, key: str) -> bool | None:
        """Return whether a transaction of this key was committed; None if nobody answers."""
        error: type[Exception] = _psycopg().Error
        until = time.monotonic() + _ASK
        while True:
            try:
                connection = _Statements(self._connect())
                connection.execute(f"BEGIN; SET LOCAL lock_timeout = '{_LOCK}s'")
                # The lost transaction holds this lock until it has ended, one way or the other.
                connection.execute(f'SELECT 1 FROM "{self.name}".totals FOR UPDATE').fetchall()
                found = connection.execute(
                    f'SELECT 1 FROM "{self.name}".commits WHERE key = ?', (key,)
                ).fetchone()
                connection.execute("ROLLBACK")
                return found is not None
            except error:
                _, broken = _OPEN.get(self.path, (0, None))
                with contextlib.suppress(error):
                    if broken is not None:
                        broken.close()
                if time.monotonic() > until:
                    return None
                time.sleep(0.5)

    # -- what rows say ------------------------------------------------------------------------

    def _process(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "host": socket.gethostname()}

    def _insert(self, connection: Any, table: str, row: dict[str, Any]) -> int:
        if table == "charges":
            row = {**row, "client_key": self._key}
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        statement = f"INSERT INTO {table} ({names}) VALUES ({marks}) RETURNING number"
        number: int = connection.execute(statement, tuple(row.values())).fetchone()[0]
        return number


def snapshot(path: str) -> sqlite3.Connection:
    """Return a copy, as of one moment, as an SQLite ledger in memory."""
    ledger = PostgresLedger(path, "")
    memory = sqlite3.connect(":memory:", isolation_level=None)
    memory.row_factory = sqlite3.Row
    try:
        with ledger._transaction(write=False) as connection:
            memory.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            memory.execute(f"PRAGMA user_version = {schema.FORMAT}")
            memory.executescript(schema.SCHEMA + "DELETE FROM totals;")
            for table in _TABLES:
                names = [row[1] for row in memory.execute(f"PRAGMA table_info({table})")]
                marks = ", ".join("?" * len(names))
                rows = connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
                memory.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    except BaseException:
        memory.close()
        raise
    return memory


def _close_all() -> None:
    for pid, connection in _OPEN.values():
        if pid == os.getpid():
            with contextlib.suppress(Exception):
                connection.close()


atexit.register(_close_all)
