"""The tables of a ledger, its totals, and earlier formats.

Amounts are decimal text, added as exact fractions. The totals of all charges, and of what is set
aside, stand in the ledger, so that a charge costs the same however many there were. They are
checked against the charges when a ledger is opened.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skdp._version import __version__
from skdp.budget import plans
from skdp.exceptions import LedgerError
from skdp.loss.charge import Charge, Cost, ReservationRecord, total
from skdp.loss.conversions import Amount, decimal_text

APPLICATION_ID = 0x736B6470  # "skdp", in the header of the file
FORMAT = 4  # user_version of the file; 0.1 wrote 1, 2 has no plans, 3 no unit
HEAD = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"

_TOTALS = """
CREATE TABLE totals (
    charges INTEGER NOT NULL, charged_main TEXT NOT NULL, charged_apart TEXT NOT NULL,
    aside_main TEXT NOT NULL, aside_apart TEXT NOT NULL);
CREATE INDEX open_reservations ON reservations (token) WHERE closed IS NULL;
"""

_NO_TOTALS = "INSERT INTO totals VALUES (0, '0', '0', '0', '0');"

SCHEMA = f"""
CREATE TABLE ledger (
    id TEXT NOT NULL, created TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    adjacency TEXT NOT NULL, accountant TEXT NOT NULL, delta_apart TEXT NOT NULL,
    skdp_version TEXT NOT NULL, dataset TEXT, n_rows TEXT, backup_of TEXT,
    plans TEXT, unit TEXT);
CREATE TABLE charges (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, pid INTEGER NOT NULL, estimator TEXT NOT NULL,
    components TEXT NOT NULL, seeded INTEGER NOT NULL, releases TEXT NOT NULL, note TEXT NOT NULL,
    main TEXT NOT NULL, apart TEXT NOT NULL, skdp_version TEXT NOT NULL);
CREATE TABLE reservations (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, pid INTEGER NOT NULL,
    components TEXT NOT NULL, note TEXT NOT NULL,
    unused_main TEXT NOT NULL, unused_apart TEXT NOT NULL, closed TEXT, token TEXT NOT NULL);
{_TOTALS}{plans.TABLES}{_NO_TOTALS}"""

# Whatever 0.1 set aside has no token: nobody can draw from it until it is freed.
_FROM_1 = f"""
ALTER TABLE ledger ADD COLUMN skdp_version TEXT NOT NULL DEFAULT '0.1.0';
ALTER TABLE ledger ADD COLUMN dataset TEXT;
ALTER TABLE ledger ADD COLUMN n_rows TEXT;
ALTER TABLE ledger ADD COLUMN backup_of TEXT;
ALTER TABLE charges ADD COLUMN skdp_version TEXT NOT NULL DEFAULT '0.1.0';
ALTER TABLE reservations ADD COLUMN token TEXT NOT NULL DEFAULT '';
{_TOTALS}"""

_FROM_2 = "ALTER TABLE ledger ADD COLUMN plans TEXT;" + plans.TABLES
# Whatever was charged before was for one row.
_FROM_3 = "ALTER TABLE ledger ADD COLUMN unit TEXT;"

_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?")
_DIGITS = 4_000  # of an amount; the sum of squares of the smallest floats has 2,200
# Sums of decimals in this context are exact, or raise.
_EXACT = decimal.Context(
    prec=10**6, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
)


@dataclass(frozen=True)
class Terms:
    """What a budget promises: public, fixed when its ledger is made."""

    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    separate_delta: float
    plans: tuple[tuple[float, float], ...] = ()
    unit: str | None = None  # the column whose value says whose a row is; None: one row

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `PrivacyBudget`."""
        return vars(self) | {"plans": list(self.plans) or None}

    def texts(self) -> dict[str, str | None]:
        """Return the columns of the ledger."""
        return {
            "epsilon": repr(self.epsilon),
            "delta": repr(self.delta),
            "adjacency": self.adjacency,
            "accountant": self.accountant,
            "delta_apart": repr(self.separate_delta),  # columns keep the names of 0.1: "apart"
            "plans": json.dumps(self.plans) if self.plans else None,
            "unit": self.unit,
        }

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Terms:
        """Return the terms in a row of the ledger."""
        try:
            parts = json.loads(row["plans"]) if row["plans"] else ()
            return cls(
                float(row["epsilon"]),
                float(row["delta"]),
                row["adjacency"],
                row["accountant"],
                float(row["delta_apart"]),
                tuple((epsilon, delta) for epsilon, delta in parts),
                row["unit"],
            )
        except (ValueError, TypeError, RecursionError):
            raise _damaged("its terms cannot be read") from None


def _damaged(what: str) -> LedgerError:
    return LedgerError(f"The ledger is damaged: {what}.")


def checked_amount(text: object) -> str:
    """Return the text of an amount, or raise LedgerError unless it is a decimal >= 0."""
    if isinstance(text, str) and _DECIMAL.fullmatch(text) and len(text) < _DIGITS:
        return text
    raise _damaged("an amount in it is no decimal number >= 0")


def amount_of(main: object, separate: object) -> Amount:
    """Return the amount that these texts say."""
    return Amount(Fraction(checked_amount(main)), Fraction(checked_amount(separate)))


def _sum(texts: Iterable[tuple[object, object]]) -> tuple[int, Amount]:
    """Return how many amounts there are, and their exact sum; far faster than fractions."""
    count, main, separate = 0, decimal.Decimal(0), decimal.Decimal(0)
    for main_text, separate_text in texts:
        count += 1
        main = _EXACT.add(main, decimal.Decimal(checked_amount(main_text)))
        separate = _EXACT.add(separate, decimal.Decimal(checked_amount(separate_text)))
    return count, Amount(Fraction(main), Fraction(separate))


@dataclass(frozen=True)
class Totals:
    """The running totals of a ledger: how many charges, their sum, and what is set aside."""

    charges: int
    charged: Amount
    aside: Amount

    @classmethod
    def read(cls, connection: sqlite3.Connection) -> Totals:
        """Return the totals; raise LedgerError if their count is not that of the charges."""
        # All amounts are compared when a ledger is opened; this much can be seen at each charge.
        rows = connection.execute(
            "SELECT *, (SELECT MAX(number) FROM charges) AS last FROM totals"
        ).fetchall()
        if len(rows) != 1 or rows[0]["charges"] != (rows[0]["last"] or 0):
            raise _damaged("its totals are not those of its charges")
        return cls.of(rows[0])

    @classmethod
    def of(cls, row: Mapping[str, Any] | sqlite3.Row) -> Totals:
        """Return the totals in a row."""
        return cls(
            row["charges"],
            amount_of(row["charged_main"], row["charged_apart"]),
            amount_of(row["aside_main"], row["aside_apart"]),
        )

    @classmethod
    def counted(cls, connection: sqlite3.Connection) -> Totals:
        """Return the totals, added up from the charges and reservations."""
        count, charged = _sum(connection.execute("SELECT main, apart FROM charges"))
        still_open = "SELECT unused_main, unused_apart FROM reservations WHERE closed IS NULL"
        return cls(count, charged, _sum(connection.execute(still_open))[1])

    def write(self, connection: sqlite3.Connection) -> None:
        """Replace the totals of the ledger."""
        connection.execute(
            "UPDATE totals SET charges = ?, charged_main = ?, charged_apart = ?,"
            " aside_main = ?, aside_apart = ?",
            (self.charges, *texts_of(self.charged), *texts_of(self.aside)),
        )


def in_memory(**options: Any) -> sqlite3.Connection:
    """Return an empty database in memory, whose rows are read by name."""
    memory = sqlite3.connect(":memory:", isolation_level=None, **options)
    memory.row_factory = sqlite3.Row
    return memory


def is_ledger(connection: sqlite3.Connection) -> bool:
    """Whether the head of a database says that it is a ledger."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(application == APPLICATION_ID)


def format_of(connection: sqlite3.Connection, path: str) -> int:
    """Return the format of a ledger; raise LedgerError unless this version reads it."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if not 1 <= version <= FORMAT:
        raise LedgerError(f"The ledger {path} has format {version}; this skdp reads {FORMAT}.")
    return version


def check_tables(connection: sqlite3.Connection) -> None:
    """Raise LedgerError if the file has views or triggers, which run code of their own."""
    query = "SELECT COUNT(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"
    virtual = " OR upper(sql) LIKE 'CREATE VIRTUAL%'"
    if connection.execute(query + virtual).fetchone()[0]:
        raise _damaged("it has views or triggers, which no ledger has")


def _columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    query = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
    return {(table, column) for table, column in connection.execute(query)}


@functools.cache
def _expected() -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(SCHEMA)
        return _columns(memory)


def check_columns(connection: sqlite3.Connection) -> None:
    """Raise LedgerError if a ledger of this format lacks tables or columns."""
    if not _expected() <= _columns(connection):
        raise _damaged("it lacks tables or columns")
    facts = connection.execute("SELECT * FROM ledger").fetchall()
    if len(facts) != 1 or not all(isinstance(value, str | None) for value in facts[0]):
        raise _damaged("what it says of itself cannot be read")


def verify(connection: sqlite3.Connection) -> None:
    """Raise LedgerError unless the totals are the sums of the charges and open reservations."""
    if Totals.read(connection) != Totals.counted(connection):
        raise _damaged("its totals are not the sums of its charges and reservations")


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring a ledger of an earlier format to this one, inside the caller's transaction."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == FORMAT:
        return
    if version == 1:
        _run(connection, _FROM_1)
        counted = Totals.counted(connection)
        (last,) = connection.execute("SELECT MAX(number) FROM charges").fetchone()
        if counted.charges != (last or 0):
            raise _damaged("charges are missing in it")
        connection.execute(_NO_TOTALS)
        counted.write(connection)
    if version < 3:
        _run(connection, _FROM_2)
    _run(connection, _FROM_3)
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Run a script inside a transaction, which `executescript` would commit."""
    for statement in script.split(";"):
        if statement.strip():
            connection.execute(statement)


def insert(connection: Any, table: str, row: Mapping[str, object], returning: str = "") -> Any:
    """Write a row; return the cursor."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    statement = f"INSERT INTO {table} ({names}) VALUES ({marks}){returning}"
    return connection.execute(statement, tuple(row.values()))


def components_json(cost: Cost) -> str:
    """Return the single prices in a cost as JSON."""
    return json.dumps(
        [[n, c.epsilon, c.delta, c.mu, c.separate_delta] for c, n in cost.components]
    )  # json writes a float as its repr


@functools.lru_cache(maxsize=1024)
def singles_of(text: str) -> tuple[tuple[Cost, int], ...]:
    """Return the single prices that `components_json` wrote, with how often each occurs."""
    singles = tuple((Cost(*numbers), n) for n, *numbers in json.loads(text))
    if not singles or not all(type(n) is int and n > 0 for _, n in singles):
        raise _damaged("a price in it has no components")
    return singles


def cost_of(text: str) -> Cost:
    """Return the price that `components_json` wrote."""
    return total(singles_of(text))


def texts_of(amount: Amount) -> tuple[str, str]:
    """Return the texts of an amount, as `amount_of` reads them."""
    return decimal_text(amount.main), decimal_text(amount.separate)


def charge_of(
    row: Mapping[str, Any] | sqlite3.Row, adjacency: str, cost: Cost | None = None
) -> Charge:
    """Return a row of the ledger as a charge; `cost` is its price, if that is known."""
    cost = cost_of(row["components"]) if cost is None else cost
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
        skdp_version=row["skdp_version"],
        host=row["host"] if "host" in row.keys() else None,  # noqa: SIM118  sqlite3.Row is no dict
    )


def reservation_of(row: sqlite3.Row) -> ReservationRecord:
    """Return a row of the ledger as a reservation, without its token, which is secret."""
    cost = cost_of(row["components"])
    return ReservationRecord(
        when=datetime.datetime.fromisoformat(row["at"]),
        epsilon=cost.epsilon,
        delta=cost.delta,
        note=row["note"],
        pid=row["pid"],
        open=row["closed"] is None,
        number=row["number"],
        host=row["host"] if "host" in row.keys() else None,  # noqa: SIM118  sqlite3.Row is no dict
    )


def new_row(ledger_id: str, created: str, terms: Terms) -> dict[str, Any]:
    """Return the row of terms of a new ledger."""
    return {"id": ledger_id, "created": created, **terms.texts(), "skdp_version": __version__}
