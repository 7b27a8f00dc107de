"""What any ledger does inside a transaction: reads its sums, charges, sets aside, frees.

The arithmetic is Python's, exact; a store (an SQLite file, a PostgreSQL
database) brings transactions in which nobody else writes. Statements are those that both stores
read, with ``?`` for values.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skdp._version import __version__
from skdp.budget import plans, schema
from skdp.budget.schema import Contents, Totals
from skdp.exceptions import SealedBudgetError
from skdp.loss.charge import Charge, Cost, ReservationRecord
from skdp.loss.conversions import Amount, decimal_text


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
    text = None
    with contextlib.suppress(TypeError, ValueError):  # the text of those may quote a value
        text = json.dumps([dict(release) for release in releases], default=_plain, allow_nan=False)
    if text is None:
        raise TypeError(
            "releases must be a sequence of mappings that JSON can hold: str, int, finite float, "
            "bool, None, and lists and dicts of them (no arrays)."
        )
    return text


def _hidden(token: str) -> str:
    """Return what the ledger keeps of a reservation's token: who reads it cannot draw."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True)
class Known:
    """What a process saw last of a ledger on a server, at a time in UTC by its own clock.

    `taken` are the parts of the budget that plans have taken.
    """

    when: datetime.datetime
    totals: Totals
    taken: frozenset[int]


class LedgerOperations(abc.ABC):
    """What a ledger does; a store says how a transaction begins and ends.

    `path` is a file or a URL without a password; `id` is the identity that the ledger must carry; a
    `temporary` one ends with the process that made it; a `remote` one is on a server, for which
    nothing that is shown waits.
    """

    path: str
    id: str
    temporary: bool = False
    remote: bool = False

    @abc.abstractmethod
    def _transaction(self, write: bool) -> contextlib.AbstractContextManager[Any]:
        """Return a transaction, which is rolled back unless `_commit` ended it."""

    @abc.abstractmethod
    def _commit(self, connection: Any) -> None:
        """End a transaction; raise LedgerError unless what it wrote is durable."""

    @abc.abstractmethod
    def backup(self, path: str) -> None:
        """Copy the ledger to the file `path`, marked as a copy; see `PrivacyBudget.backup`."""

    def share(self) -> None:  # noqa: B027  a ledger that others can reach is shared already
        """Let other processes charge it."""

    def known(self) -> Known | None:
        """Return what this process saw last of a ledger on a server, if it saw anything."""
        return None

    def present(self) -> bool:
        """Whether the ledger is there and still the same one."""
        try:
            with self._transaction(write=False):
                return True
        except SealedBudgetError:
            return False

    def stated(self) -> dict[str, Any]:
        """Return what the ledger says of itself."""
        with self._transaction(write=False) as connection:
            return dict(connection.execute("SELECT * FROM ledger").fetchone())

    def state(self, facts: Mapping[str, Any]) -> None:
        """Write down facts that the ledger does not hold yet."""
        with self._transaction(write=True) as connection:
            for name, value in facts.items():
                connection.execute(f"UPDATE ledger SET {name} = ?", (value,))
            self._commit(connection)

    # -- reading ------------------------------------------------------------------------------

    def sums(self) -> tuple[Amount, Amount]:
        """Return what was charged, and what is set aside and unused."""
        with self._transaction(write=False) as connection:
            totals = Totals.read(connection)
            return totals.charged, totals.aside

    def room(self, cap: Amount, price: Amount, tokens: Sequence[str]) -> Amount:
        """Return the room for a charge of this price by a holder of these tokens."""
        with self._transaction(write=False) as connection:
            totals = Totals.read(connection)
            reserved = self._held(connection, tokens)
        mine = sum((unused for _, unused in reserved), Amount())
        return cap - totals.charged - totals.aside + mine.overlap(price)

    def contents(self, last: int | None = None) -> Contents:
        """Return what the ledger holds, or its last rows alone, as of one moment."""
        with self._transaction(write=False) as connection:
            return Contents.read(connection, last)

    def components(self, after: int) -> tuple[int, Mapping[str, int]]:
        """Return the number of the last charge, and the components of those after another one."""
        with self._transaction(write=False) as connection:
            rows = connection.execute("SELECT components FROM charges WHERE number > ?", (after,))
            counts = Counter(row[0] for row in rows.fetchall())
            return Totals.read(connection).charges, counts

    def taken(self) -> set[int]:
        """Return the parts of the budget that plans have taken."""
        with self._transaction(write=False) as connection:
            return plans.taken(connection)

    def planned(self, cost: Cost, tokens: Sequence[str]) -> int:
        """Return how many charges of this price the plans still hold for these tokens."""
        with self._transaction(write=False) as connection:
            return plans.fits(connection, cost, [_hidden(token) for token in tokens])

    def charges(self, adjacency: str) -> list[Charge]:
        """Return every charge, oldest first."""
        with self._transaction(write=False) as connection:
            rows = connection.execute("SELECT * FROM charges ORDER BY number").fetchall()
            return [schema.charge_of(row, adjacency) for row in rows]

    def reservations(self) -> list[ReservationRecord]:
        """Return every reservation, oldest first."""
        with self._transaction(write=False) as connection:
            rows = connection.execute("SELECT * FROM reservations ORDER BY number").fetchall()
            return [schema.reservation_of(row) for row in rows]

    # -- writing ------------------------------------------------------------------------------

    def record(
        self,
        cost: Cost,
        price_after: Callable[[Amount], Amount] | None,
        cap: Amount,
        *,
        adjacency: str,
        estimator: str,
        seeded: bool,
        releases: str,
        note: str,
        tokens: Sequence[str] = (),
    ) -> tuple[Charge | None, Amount]:
        """Write a charge if it fits, and return it, or None and the room there is.

        The charge draws from the open reservations whose token it has, newest first, then from
        what is free. `price_after` says what it adds to what was charged. Without one, it draws
        from the plans: the first draw from one pays for all of it.
        """
        with self._transaction(write=True) as connection:
            totals = Totals.read(connection)
            free = cap - totals.charged - totals.aside
            number, plan, drawn = totals.charges + 1, None, Amount()
            if price_after is None:
                plan, price = self._draw(connection, cost, tokens, number)
                drawn, granted = price, plan is not None
            else:
                price = price_after(totals.charged)
                for which, unused in self._held(connection, tokens):
                    part = unused.overlap(price - drawn)
                    drawn = drawn + part
                    self._set_unused(connection, which, unused - part)
                granted = (price - drawn).fits(free)
            if not granted:
                connection.execute("ROLLBACK")
                return None, free + drawn
            row: dict[str, Any] = {
                "number": number,
                "at": timestamp(),
                **self._process(),
                "estimator": estimator,
                "components": schema.components_json(cost),
                "seeded": int(seeded),
                "releases": releases,
                "note": note,
                "main": decimal_text(price.main),
                "apart": decimal_text(price.apart),
                "skdp_version": __version__,
            }
            self._insert(connection, "charges", row)
            Totals(number, totals.charged + price, totals.aside - drawn).write(connection)
            self._commit(connection)
        return schema.charge_of(row, adjacency, cost), free

    def describe(self, charge: Charge, releases: str) -> None:
        """Write down what a charge released, unless that was done; its price does not change."""
        query = (
            "UPDATE charges SET releases = ?"
            " WHERE number = ? AND at = ? AND pid = ? AND releases = '[]'"
        )
        values = (releases, charge.number, charge.when.isoformat(), charge.pid)
        with self._transaction(write=True) as connection:
            connection.execute(query, values)
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

        There is one price, or one for each part of a budget of plans, None where the plan does
        not fit into the part: the first free part that it fits into is taken.
        """
        with self._transaction(write=True) as connection:
            totals = Totals.read(connection)
            free = cap - totals.charged - totals.aside
            parts = set(range(len(prices))) - plans.taken(connection)
            part = min((i for i in parts if prices[i] is not None), default=None)
            price = None if part is None else prices[part]
            if part is None or price is None or not price.fits(free):
                connection.execute("ROLLBACK")
                return 0, free
            row = {
                "at": timestamp(),
                **self._process(),
                "components": schema.components_json(cost),
                "note": note,
                "unused_main": decimal_text(price.main),
                "unused_apart": decimal_text(price.apart),
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
        which, values = "closed IS NULL", []
        if number is not None:
            which, values = "closed IS NULL AND number = ?", [number]
        with self._transaction(write=True) as connection:
            totals = Totals.read(connection)
            rows = connection.execute(
                f"SELECT unused_main, unused_apart FROM reservations WHERE {which}", values
            ).fetchall()
            freed = sum((schema.amount_of(*row) for row in rows), Amount())
            connection.execute(
                f"UPDATE reservations SET closed = ? WHERE {which}", [timestamp(), *values]
            )
            Totals(totals.charges, totals.charged, totals.aside - freed).write(connection)
            self._commit(connection)
        return len(rows)

    # -- inside -------------------------------------------------------------------------------

    def _insert(self, connection: Any, table: str, row: dict[str, Any]) -> int:
        return schema.insert(connection, table, row)

    def _process(self) -> dict[str, Any]:
        """Return what the ledger says of the process that writes."""
        return {"pid": os.getpid()}

    @staticmethod
    def _held(connection: Any, tokens: Sequence[str]) -> list[tuple[int, Amount]]:
        """Return the open reservations with one of these tokens and what is unused of them.

        The newest comes first.
        """
        if not tokens:
            return []
        rows = connection.execute(
            "SELECT number, unused_main, unused_apart FROM reservations"
            f" WHERE closed IS NULL AND token IN ({', '.join('?' * len(tokens))})"
            " ORDER BY number DESC",
            [_hidden(token) for token in tokens],
        ).fetchall()
        return [(number, schema.amount_of(main, apart)) for number, main, apart in rows]

    def _draw(
        self, connection: Any, cost: Cost, tokens: Sequence[str], charge: int
    ) -> tuple[int | None, Amount]:
        """Take a price out of one plan; return its number and what that costs, if one holds it."""
        drawn = plans.draw(connection, cost, [_hidden(token) for token in tokens], charge)
        if drawn is None:
            return None, Amount()
        plan, first = drawn
        if not first:
            return plan, Amount()
        row = connection.execute(
            "SELECT unused_main, unused_apart FROM reservations WHERE number = ?", (plan,)
        ).fetchone()
        self._set_unused(connection, plan, Amount())
        return plan, schema.amount_of(*row)

    @staticmethod
    def _set_unused(connection: Any, number: int, unused: Amount) -> None:
        connection.execute(
            "UPDATE reservations SET unused_main = ?, unused_apart = ? WHERE number = ?",
            (decimal_text(unused.main), decimal_text(unused.apart), number),
        )
