"""Whether a ledger is sound: its sums, prices and plans, computed anew from its charges."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from skdp.budget import plans, schema
from skdp.budget.account import accountant_of
from skdp.budget.opening import ledger_path, snapshot
from skdp.budget.plans import Plan
from skdp.budget.schema import Terms, Totals, cost_of
from skdp.exceptions import LedgerError
from skdp.loss.accountants import Accountant, GDPResidueAccountant, plan_epsilon
from skdp.loss.charge import Cost
from skdp.loss.conversions import Amount, exact

__all__ = ["UNKNOWABLE", "UNREADABLE", "Finding", "readable", "rows_of", "verify"]

UNKNOWABLE = (
    "whether the file was replaced by an older copy, or its last charges and totals undone",
    "whether there were fits on the same table with no budget, or with another ledger",
    "whether the noise that was drawn is the described noise, and who drew it",
    "whether the table, its unit and its neighbouring relation are those that the budget is for",
    "whether the clocks of the machines that charged were right",
)

# What a row may raise that was not written by a ledger.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    sqlite3.Error,
)

# Prices that were searched for may differ a little between versions of scipy, exact sums never.
_SLACK, _ROUNDING = Fraction("0.999"), Fraction(1, 10**9)


# --- reading --------------------------------------------------------------------------------------


@contextlib.contextmanager
def readable(path: str | os.PathLike[str]) -> Iterator[tuple[sqlite3.Connection, int]]:
    """Open a copy of a ledger; yield it and its format."""
    connection, version = snapshot(path)
    with contextlib.closing(connection), rows_of(path):
        yield connection, version


@contextlib.contextmanager
def rows_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise LedgerError for a row that no ledger wrote."""
    try:
        yield
    except UNREADABLE as error:
        raise LedgerError(
            f"The ledger {ledger_path(path, True)} is damaged: a row of it cannot be read."
        ) from error


# --- checks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    level: str  # "ok", "note" (nothing is broken, but a reader should know it) or "wrong"
    text: str


def verify(connection: sqlite3.Connection) -> list[Finding]:
    """Check a snapshot of a ledger, which is sound if no finding is "wrong"."""
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        if verdict != "ok":
            return [Finding("wrong", "SQLite finds that the file is damaged")]
        return [Finding("ok", "SQLite finds no damage in the file"), *_findings(connection)]
    except (LedgerError, *UNREADABLE) as error:
        reason = str(error) if isinstance(error, LedgerError) else "a row of it cannot be read"
        return [Finding("wrong", reason)]


def _findings(connection: sqlite3.Connection) -> Iterator[Finding]:
    facts = dict(connection.execute("SELECT * FROM ledger").fetchone())
    terms = Terms.of(facts)
    accountant = accountant_of(terms)
    rows = connection.execute("SELECT * FROM charges ORDER BY number").fetchall()
    numbers = [row["number"] for row in rows]
    yield _judged(
        numbers == list(range(1, len(rows) + 1)),
        f"its {len(rows)} charges are numbered without a gap",
        "charges are missing in it, or numbered twice",
    )
    times = [datetime.datetime.fromisoformat(row["at"]) for row in rows]
    yield _judged(
        times == sorted(times),
        "their times are in order",
        "the times of its charges are not in order: a clock was set back, or they were changed",
        "note",
    )
    stated, counted = Totals.read(connection), Totals.counted(connection)
    yield _judged(
        stated == counted,
        "its totals are the sums of its charges and open reservations",
        "its totals are not the sums of its charges and open reservations",
    )
    yield _judged(
        (counted.charged + counted.aside).fits(accountant.cap),
        "what was charged and what is set aside stay within the budget",
        "more was charged or set aside than the budget allows",
    )
    if accountant.planned:
        costs = [(row["number"], cost_of(row["components"])) for row in rows]
        yield from _of_plans(connection, terms, costs)
    else:
        wrong = _wrong_prices(accountant, rows)
        yield _judged(
            not wrong,
            "every charge has the price of its components",
            f"charges whose price is not that of their components: {_some(wrong)}",
        )
    seeded = [row["number"] for row in rows if row["seeded"]]
    if seeded:
        yield Finding(
            "note", f"seeded noise, which whoever knows the seed can remove: {_some(seeded)}"
        )
    unread = [row["number"] for row in rows if not _is_list(row["releases"])]
    yield _judged(
        not unread,
        "the descriptions of releases can be read",
        f"charges whose releases cannot be read: they were changed by others: {_some(unread)}",
    )
    silent = [row["number"] for row in rows if row["releases"] == "[]"]
    if silent:
        yield Finding(
            "note",
            f"charges that list no release (the fit failed, or is still running): {_some(silent)}",
        )
    if facts["backup_of"] is not None:
        yield Finding("note", f"this is a backup of {facts['backup_of']}")
    versions = Counter(row["skdp_version"] for row in rows)
    if versions:
        words = ", ".join(f"{version} ({n})" for version, n in sorted(versions.items()))
        yield Finding("note", f"charged by skdp {words}; made by skdp {facts['skdp_version']}")


def _judged(is_sound: bool, yes: str, no: str, level: str = "wrong") -> Finding:
    return Finding("ok", yes) if is_sound else Finding(level, no)


def _some(numbers: list[int]) -> str:
    shown = ", ".join(f"#{number}" for number in numbers[:10])
    return shown + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")


def _is_list(text: object) -> bool:
    """Whether a text is a JSON list of objects, as releases are written."""
    if text == "[]":
        return True
    try:
        releases = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(releases, list) and all(isinstance(release, dict) for release in releases)


def _wrong_prices(accountant: Accountant, rows: list[sqlite3.Row]) -> list[int]:
    """Return the numbers of charges whose price is not that of their components."""
    if isinstance(accountant, GDPResidueAccountant):
        return _wrong_residues(accountant, rows)
    wrong, slack = [], Fraction(0) if accountant.name == "basic" else _ROUNDING
    for row in rows:
        price = accountant.price_all(schema.singles_of(row["components"]))
        paid = schema.amount_of(row["main"], row["apart"])
        is_main = abs(paid.main - price.main) <= slack * price.main
        if not (is_main and paid.separate == price.separate):
            wrong.append(row["number"])
    return wrong


def _wrong_residues(accountant: GDPResidueAccountant, rows: list[sqlite3.Row]) -> list[int]:
    """Return the numbers of charges that paid less than what they took of the allowance."""
    valid: set[tuple[str, str, str]] = set()
    wrong = []
    amounts = [schema.amount_of(row["main"], row["apart"]) for row in rows]
    charged = Fraction(sum(amount.main for amount in amounts))
    # The last charges come first: a price that is valid there is valid where more was left, too.
    for row, paid in zip(reversed(rows), reversed(amounts), strict=True):
        components, texts = row["components"], (row["components"], row["main"], row["apart"])
        charged -= paid.main
        if texts in valid:
            continue
        price = accountant.price_all(schema.singles_of(components))
        # A ledger may hold charges at the plain price, too: that is more, never less.
        is_sound = paid.separate == price.separate and paid.main <= price.main
        if is_sound and paid.main != price.main:
            cost = cost_of(components)
            is_sound = accountant.is_price(cost, Amount(charged), paid.main / _SLACK)
        if is_sound:
            valid.add(texts)
        else:
            wrong.append(row["number"])
    return wrong[::-1]


def _of_plans(
    connection: sqlite3.Connection, terms: Terms, costs: list[tuple[int, Cost]]
) -> Iterator[Finding]:
    yield _judged(
        plans.left_as_drawn(connection, costs),
        "every charge was drawn from a plan, and what is left of each is what was not drawn",
        "what is left of its plans is not what its charges left of them",
    )
    holders = [plan for plan in plans.read(connection, cost_of) if plan.taken]
    parts = [plan.part for plan in holders]
    yield _judged(
        len(set(parts)) == len(parts) and all(0 <= part < len(terms.plans) for part in parts),
        "every plan has a part of the budget of its own",
        "two plans take the same part of the budget, or one that is not there",
    )
    paid: dict[int, list[Amount]] = {}
    for row in connection.execute(
        "SELECT DISTINCT plan, number, main, apart FROM draws JOIN charges ON charge = number"
        " ORDER BY number"
    ):
        paid.setdefault(row["plan"], []).append(schema.amount_of(row["main"], row["apart"]))
    drawn = [plan for plan in holders if plan.drawn]
    late = [plan.number for plan in drawn if not _is_paid(plan, terms, paid[plan.number])]
    yield _judged(
        not late,
        "the first draw of every plan paid for all of it, and no later one paid again",
        f"plans whose first draw did not pay for all of them, or another paid: {_some(late)}",
    )


def _is_paid(plan: Plan, terms: Terms, draws: list[Amount]) -> bool:
    """Whether the first draw of a plan has its price, within its part, and the others none."""
    epsilon, delta = terms.plans[plan.part]
    first, *others = draws
    price = plan_epsilon(plan.cost, delta)
    return (
        price * float(_SLACK) <= first.main <= exact(epsilon)
        and first.separate == exact(delta)
        and others == [Amount()] * len(others)
    )
