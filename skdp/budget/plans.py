"""Plans of a ledger: their prices, their draws, their parts.

Under accountant="pld" a reservation is a plan: its list of prices is fixed when it is set aside,
and it takes one part of the budget. Its first draw pays for all of it, so nothing is freed from
then on; once the reservation is closed, whoever charges this ledger may draw the rest. A plan of
which nothing was drawn is freed.

A price of a plan pays for one fit of its kind that is no larger: of at most its epsilon if it is
pure, of at most its mu and separate delta if it is Gaussian. The pair of distributions that
dominates the planned release then dominates the one that is made, which is all that the proof of
plans asks for (`skdp.loss.pld`). The same price is taken where there is one, then the smallest.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from skdp.loss.charge import Cost

TABLES = """
CREATE TABLE plans (
    number INTEGER PRIMARY KEY, part INTEGER NOT NULL, drawn INTEGER NOT NULL);
CREATE TABLE items (
    plan INTEGER NOT NULL, kind TEXT NOT NULL, times INTEGER NOT NULL, unused INTEGER NOT NULL,
    PRIMARY KEY (plan, kind)) WITHOUT ROWID;
CREATE TABLE draws (
    charge INTEGER NOT NULL, plan INTEGER NOT NULL, kind TEXT NOT NULL, times INTEGER NOT NULL,
    PRIMARY KEY (charge, kind)) WITHOUT ROWID;
"""


PLANS = "FROM plans JOIN reservations USING (number)"
TAKEN = " WHERE drawn = 1 OR closed IS NULL"


@dataclass(frozen=True)
class Plan:
    """A plan as the ledger holds it."""

    number: int  # of its reservation
    part: int  # of the budget, from 0
    drawn: bool  # whether anything was drawn from it
    open: bool  # whether its reservation is open
    cost: Cost
    items: tuple[tuple[str, int, int], ...]  # kind of price, how often planned, how often unused

    @property
    def taken(self) -> bool:
        """Whether it keeps its part of the budget."""
        return self.drawn or self.open


def kinds(cost: Cost) -> Counter[str]:
    """Return the kinds of single prices in a price, with how often each occurs."""
    counts: Counter[str] = Counter()
    for single, times in cost.components:
        if single.mu is not None:
            kind = ["gaussian", single.mu, single.separate_delta]
        elif single.delta:
            kind = ["approximate", single.epsilon, single.delta]
        else:
            kind = ["pure", single.epsilon]
        counts[json.dumps(kind)] += times
    return counts


def taken(connection: sqlite3.Connection) -> set[int]:
    """Return the parts of the budget that plans have taken."""
    return {part for (part,) in connection.execute(f"SELECT part {PLANS}{TAKEN}")}


def write(connection: sqlite3.Connection, number: int, part: int, cost: Cost) -> None:
    """Write the plan of a new reservation."""
    connection.execute("INSERT INTO plans VALUES (?, ?, 0)", (number, part))
    for kind, times in kinds(cost).items():
        connection.execute("INSERT INTO items VALUES (?, ?, ?, ?)", (number, kind, times, times))


def _open_to(connection: sqlite3.Connection, tokens: Sequence[str]) -> list[sqlite3.Row]:
    """Return the plans that hashed tokens draw from: open ones, newest first, then closed ones."""
    mine = f"token IN ({', '.join('?' * len(tokens))})" if tokens else "1 = 0"
    return connection.execute(
        f"SELECT number, drawn {PLANS}"
        f" WHERE (closed IS NULL AND {mine}) OR (closed IS NOT NULL AND drawn = 1)"
        " ORDER BY closed IS NOT NULL, CASE WHEN closed IS NULL THEN -number ELSE number END",
        list(tokens),
    ).fetchall()


def covers(planned: str, wanted: str) -> bool:
    """Whether a price of one kind pays for a fit of another."""
    name, *sizes = json.loads(planned)
    other, *needed = json.loads(wanted)
    return name == other and all(x >= y for x, y in zip(sizes, needed, strict=True))


def allocated(planned: Mapping[str, int], wanted: Mapping[str, int]) -> Counter[str] | None:
    """Return which of the planned prices pay for those wanted; None if they do not."""
    unused, taken = Counter(planned), Counter[str]()
    sizes = {kind: json.loads(kind)[1:] for kind in (*planned, *wanted)}
    for kind in sorted(wanted, key=lambda k: sizes[k], reverse=True):
        need = wanted[kind]
        # Of the prices that cover a kind, the kind itself is the smallest.
        for other in sorted((k for k in planned if covers(k, kind)), key=lambda k: sizes[k]):
            if times := min(need, unused[other]):
                unused[other] -= times
                taken[other] += times
                need -= times
        if need:
            return None
    return taken


def _unused(connection: sqlite3.Connection, plan: int) -> dict[str, int]:
    rows = connection.execute("SELECT kind, unused FROM items WHERE plan = ?", (plan,))
    return {row["kind"]: row["unused"] for row in rows}


def fits(connection: sqlite3.Connection, cost: Cost, tokens: Sequence[str]) -> int:
    """Return how many charges of this price the plans still hold for these tokens."""
    wanted, total = kinds(cost), 0
    for row in _open_to(connection, tokens):
        unused = _unused(connection, row["number"])
        low, high = 0, sum(unused.values()) // wanted.total() + 1  # fits `low` times, not `high`
        while high - low > 1:
            middle = (low + high) // 2
            often = {kind: middle * times for kind, times in wanted.items()}
            low, high = (low, middle) if allocated(unused, often) is None else (middle, high)
        total += low
    return total


def draw(
    connection: sqlite3.Connection, cost: Cost, tokens: Sequence[str], charge: int
) -> tuple[int, bool] | None:
    """Take a price out of a plan for a charge; return its number, and whether it is the first."""
    wanted = kinds(cost)
    holds = "SELECT 1 FROM items WHERE plan = ? AND kind = ? AND unused >= ?"
    for row in _open_to(connection, tokens):
        plan = row["number"]
        # Most charges are what was planned: then the rest of a long plan need not be read.
        exact = all(connection.execute(holds, (plan, *item)).fetchone() for item in wanted.items())
        taken = wanted if exact else allocated(_unused(connection, plan), wanted)
        if taken is None:
            continue
        for kind, times in taken.items():
            connection.execute(
                "UPDATE items SET unused = unused - ? WHERE plan = ? AND kind = ?",
                (times, plan, kind),
            )
            connection.execute("INSERT INTO draws VALUES (?, ?, ?, ?)", (charge, plan, kind, times))
        connection.execute("UPDATE plans SET drawn = 1 WHERE number = ?", (plan,))
        return plan, not row["drawn"]
    return None


def read(
    connection: sqlite3.Connection, cost_of: Callable[[str], Cost], *, every: bool = True
) -> tuple[Plan, ...]:
    """Return the plans of a ledger, oldest first: every one, or those that take a part of it."""
    rows = connection.execute(
        "SELECT number, part, drawn, closed IS NULL, components"
        f" {PLANS}{'' if every else TAKEN} ORDER BY number"
    ).fetchall()
    items = "SELECT kind, times, unused FROM items WHERE plan = ? ORDER BY kind"
    return tuple(
        Plan(
            number,
            part,
            bool(drawn),
            bool(is_open),
            cost_of(components),
            tuple(map(tuple, connection.execute(items, (number,)))),
        )
        for number, part, drawn, is_open, components in rows
    )


def left_as_drawn(connection: sqlite3.Connection, costs: Iterable[tuple[int, Cost]]) -> bool:
    """Whether charges (number, price) drew what pays for them, and plans hold what is left."""
    drawn: dict[int, Counter[str]] = {}
    used: Counter[tuple[int, str]] = Counter()
    for row in connection.execute("SELECT * FROM draws"):
        drawn.setdefault(row["charge"], Counter())[row["kind"]] += row["times"]
        used[row["plan"], row["kind"]] += row["times"]
    for number, cost in costs:
        wanted, taken = kinds(cost), drawn.pop(number, Counter())
        if taken.total() != wanted.total() or allocated(taken, wanted) is None:
            return False
    is_as_drawn = all(
        0 <= unused == times - used.pop((plan, kind), 0)
        for plan, kind, times, unused in connection.execute("SELECT * FROM items").fetchall()
    )
    return is_as_drawn and not drawn and not used
