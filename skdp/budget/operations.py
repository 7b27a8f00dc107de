"""The operations of a ledger: reading sums, charging, reserving, freeing.

A store (an SQLite file, a PostgreSQL database) brings transactions in which nobody else writes.
Statements are in the SQL that both stores read, with ``?`` for values.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from skdp._version import __version__
from skdp.budget import plans, schema
from skdp.budget.schema import Totals, texts_of
from skdp.exceptions import SealedBudgetError
from skdp.loss.charge import Charge, Cost
from skdp.loss.conversions import Amount

_Result = TypeVar("_Result")


def timestamp() -> str:
    """Return the time as the ledger writes it."""
    return datetime.datetime.now(datetime.UTC).isoformat()


def _plain(value: Any) -> Any:
    """Turn numpy's scalars into Python's for JSON; everything else unknown is refused."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError


def releases_json(releases: Sequence[Mapping[str, Any]]) -> str:
    """Return the metadata of releases as JSON, or raise a TypeError of fixed text."""
    with contextlib.suppress(TypeError, ValueError):  # the text of those may quote a value
        return json.dumps([dict(release) for release in releases], default=_plain, allow_nan=False)
    raise TypeError(
        "releases must be a sequence of mappings that JSON can hold: str, int, finite float, "
        "bool, None, and lists and dicts of them (no arrays)."
    )


def _hidden(token: str) -> str:
    """Return the hash of a reservation's token: whoever reads the ledger cannot draw from it."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True)
class Known:
    """What a process saw of a ledger, and when; `taken` are the parts that plans have."""

    when: datetime.datetime
    totals: Totals
    taken: frozenset[int]


class LedgerOperations(abc.ABC):
    """What a ledger does; a store says how a transaction begins and ends.

    `path` is a file or a URL without a password; `id` is the identity that the ledger must have; a
    `temporary` one ends with its process; a `repr` does not wait for a `remote` one.
    """

    path: str
    id: str
    temporary: bool = False
    remote: bool = False
    sealed: bool = False  # whether it was gone when it was last used; `repr` says so

    @abc.abstractmethod
    def _transaction(self, write: bool) -> contextlib.AbstractContextManager[Any]:
        """Return a transaction, which is rolled back unless `_commit` ended it."""

    @abc.abstractmethod
    def _commit(self, connection: Any) -> None:
        """End a transaction; raise LedgerError unless what it wrote is durable."""

    @abc.abstractmethod
    def _copy_to(self, memory: sqlite3.Connection) -> None:
        """Copy the ledger, as of one moment, to an empty SQLite database."""

    def snapshot(self) -> sqlite3.Connection:
        """Return a copy in memory, as of one moment, as an SQLite ledger."""
        memory = schema.in_memory()
        try:
            self._copy_to(memory)
        except BaseException:
            memory.close()
            raise
        return memory

    def share(self) -> None:  # noqa: B027  most ledgers can be reached by others
        """Let other processes charge it."""

    @contextlib.contextmanager
    def _use(self, write: bool = False) -> Iterator[Any]:
        """Begin a transaction, and note whether the ledger is there."""
        try:
            with self._transaction(write) as connection:
                yield connection
            self.sealed = False
        except SealedBudgetError:
            self.sealed = True
            raise

    def present(self) -> bool:
        """Whether the ledger is there and still the same one."""
        try:
            with self._use():
                return True
        except SealedBudgetError:
            return False

    def stated(self) -> dict[str, Any]:
        """Return the row of terms and facts."""
        with self._use() as connection:
            return dict(connection.execute("SELECT * FROM ledger").fetchone())

    def state(self, facts: Mapping[str, Any]) -> None:
        """Write down facts that the ledger does not hold yet."""
        with self._use(write=True) as connection:
            self._state(connection, facts)
            self._commit(connection)

    def _state(self, connection: Any, facts: Mapping[str, Any]) -> None:
        for name, value in facts.items():
            connection.execute(f"UPDATE ledger SET {name} = ?", (value,))

    # -- reading ------------------------------------------------------------------------------

    def look(self) -> Known:
        """Return the totals, and the parts that plans have taken."""
        with self._use() as connection:
            taken = frozenset(plans.taken(connection))
            return Known(datetime.datetime.now(datetime.UTC), Totals.read(connection), taken)

    def known(self) -> Known:
        """Return the same; of a ledger on a server, what this process saw last."""
        return self.look()

    def room(self, cap: Amount, price: Amount, tokens: Sequence[str]) -> Amount:
        """Return the room for a charge of this price by a holder of these tokens."""
        with self._use() as connection:
            totals = Totals.read(connection)
            reserved = self._open_to(connection, tokens)
        mine = sum((unused for _, unused in reserved), Amount())
        return cap - totals.charged - totals.aside + mine.overlap(price)

    def read(self, function: Callable[[Any], _Result]) -> _Result:
        """Return what a function reads in one transaction."""
        with self._use() as connection:
            return function(connection)

    def components(self, after: int) -> tuple[int, Mapping[str, int]]:
        """Return the number of the last charge, and the components of charges after another."""
        with self._use() as connection:
            rows = connection.execute("SELECT components FROM charges WHERE number > ?", (after,))
            counts = Counter(row[0] for row in rows.fetchall())
            return Totals.read(connection).charges, counts

    def planned(self, cost: Cost, tokens: Sequence[str]) -> int:
        """Return how many charges of this price the plans still hold for these tokens."""
        with self._use() as connection:
            return plans.fits(connection, cost, [_hidden(token) for token in tokens])

    def rows(self, table: str) -> list[Any]:
        """Return all charges or reservations, oldest first."""
        with self._use() as connection:
            rows: list[Any] = connection.execute(
                f"SELECT * FROM {table} ORDER BY number"
            ).fetchall()
            return rows

    # -- writing ------------------------------------------------------------------------------

    def record(
        self,
        cost: Cost,
        price_after: Callable[[Amount], Amount] | None,
        cap: Amount,
        tokens: Sequence[str],
        adjacency: str,
        facts: Mapping[str, Any],
    ) -> tuple[Charge | None, Amount]:
        """Write a charge with these facts if it fits; return it (or None) and the room.

        The charge draws from the open reservations whose token it has, newest first, then from
        what is free. `price_after` gives its price after what was charged. If None, the charge
        draws from a plan, and the first draw pays for the whole plan.
        """
        with self._use(write=True) as connection:
            totals = Totals.read(connection)
            free = cap - totals.charged - totals.aside
            number, drawn = totals.charges + 1, Amount()
            if price_after is None:
                plan_price = self._draw(connection, cost, tokens, number)
                granted, price = plan_price is not None, plan_price or Amount()
                drawn = price
            else:
                price = price_after(totals.charged)
                # The rollback below undoes this if the rest of the price does not fit.
                for which, unused in self._open_to(connection, tokens):
                    part = unused.overlap(price - drawn)
                    drawn = drawn + part
                    self._set_unused(connection, which, unused - part)
                granted = (price - drawn).fits(free)
            if not granted:
                connection.execute("ROLLBACK")
                return None, free + drawn
            row = {
                "number": number,
                **self._new_row(cost),
                **facts,
                **dict(zip(("main", "apart"), texts_of(price), strict=True)),
                "skdp_version": __version__,
            }
            self._insert(connection, "charges", row)
            Totals(number, totals.charged + price, totals.aside - drawn).write(connection)
            self._commit(connection)
        return schema.charge_of(row, adjacency, cost), free

    def describe(self, charge: Charge, releases: str) -> None:
        """Write down what a charge released, unless that was done; its price does not change."""
        with self._use(write=True) as connection:
            # The number alone may be that of another charge, where an older copy was put back.
            connection.execute(
                "UPDATE charges SET releases = ?"
                " WHERE number = ? AND at = ? AND pid = ? AND releases = '[]'",
                (releases, charge.number, charge.when.isoformat(), charge.pid),
            )
            self._commit(connection)

    def reserve(
        self,
        cost: Cost,
        prices: Sequence[Amount | None],
        cap: Amount,
        note: str,
        token: str,
        *,
        planned: bool = False,
    ) -> tuple[int, Amount]:
        """Set a price aside if it fits into what is free; return its number or 0, and the room.

        There is one price, or one for each part of a budget of plans (None where the plan is too
        large for the part): the first free part that holds the plan is taken.
        """
        with self._use(write=True) as connection:
            totals = Totals.read(connection)
            free = cap - totals.charged - totals.aside
            taken = plans.taken(connection)
            fitting = ((i, p) for i, p in enumerate(prices) if p is not None and i not in taken)
            part, price = next(fitting, (0, None))
            if price is None or not price.fits(free):
                connection.execute("ROLLBACK")
                return 0, free
            row = {
                **self._new_row(cost),
                "note": note,
                **dict(zip(("unused_main", "unused_apart"), texts_of(price), strict=True)),
                "token": _hidden(token),
            }
            number = self._insert(connection, "reservations", row)
            if planned:
                plans.write(connection, number, part, cost)
            Totals(totals.charges, totals.charged, totals.aside + price).write(connection)
            self._commit(connection)
        return number, free

    def release(self, number: int | None) -> int:
        """Free what is unused of one reservation, or of all open ones; return how many."""
        values = [] if number is None else [number]
        where = "WHERE closed IS NULL" + " AND number = ?" * len(values)
        with self._use(write=True) as connection:
            totals = Totals.read(connection)
            rows = connection.execute(
                f"SELECT unused_main, unused_apart FROM reservations {where}", values
            ).fetchall()
            freed = sum((schema.amount_of(*row) for row in rows), Amount())
            connection.execute(
                f"UPDATE reservations SET closed = ? {where}", [timestamp(), *values]
            )
            Totals(totals.charges, totals.charged, totals.aside - freed).write(connection)
            self._commit(connection)
        return len(rows)

    def _insert(self, connection: Any, table: str, row: dict[str, Any]) -> int:
        """Write a row; return its number."""
        return schema.insert(connection, table, row).lastrowid or 0

    def _new_row(self, cost: Cost) -> dict[str, Any]:
        """Return the columns that charges and reservations share."""
        return {"at": timestamp(), "pid": os.getpid(), "components": schema.components_json(cost)}

    @staticmethod
    def _open_to(connection: Any, tokens: Sequence[str]) -> list[tuple[int, Amount]]:
        """Return the open reservations of these tokens, newest first, and what is unused."""
        if not tokens:
            return []
        rows = connection.execute(
            "SELECT number, unused_main, unused_apart FROM reservations"
            f" WHERE closed IS NULL AND token IN ({', '.join('?' * len(tokens))})"
            " ORDER BY number DESC",
            [_hidden(token) for token in tokens],
        ).fetchall()
        return [(number, schema.amount_of(*texts)) for number, *texts in rows]

    def _draw(
        self, connection: Any, cost: Cost, tokens: Sequence[str], charge: int
    ) -> Amount | None:
        """Take a price out of a plan; return what that costs now, or None if no plan holds it."""
        drawn = plans.draw(connection, cost, [_hidden(token) for token in tokens], charge)
        if drawn is None:
            return None
        plan, is_first = drawn
        if not is_first:
            return Amount()
        row = connection.execute(
            "SELECT unused_main, unused_apart FROM reservations WHERE number = ?", (plan,)
        ).fetchone()
        self._set_unused(connection, plan, Amount())
        return schema.amount_of(*row)

    @staticmethod
    def _set_unused(connection: Any, number: int, unused: Amount) -> None:
        connection.execute(
            "UPDATE reservations SET unused_main = ?, unused_apart = ? WHERE number = ?",
            (*texts_of(unused), number),
        )
