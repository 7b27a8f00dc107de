"""What can be checked of a ledger by reading it, and what nobody can know from it.

Every sum is made again from the charges and reservations, every price
again from its components, and the rest of every plan from what was drawn.
"""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from skdp.budget import plans, schema
from skdp.budget.account import accountant_of
from skdp.exceptions import LedgerError
from skdp.loss.accountants import Accountant, GDPResidueAccountant, plan_epsilon
from skdp.loss.charge import Cost
from skdp.loss.conversions import Amount, exact

UNKNOWABLE = (
    "whether the file was replaced by an older copy, or its last charges and totals undone",
    "whether there were fits on the same table with no budget, or with another ledger",
    "whether the noise that was drawn is the described noise, and who drew it",
    "whether the table, its unit and its neighbouring relation are those that the budget is for",
    "whether the clocks of the machines that charged were right",
)

# What reading a row raises that was not written by a ledger.
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


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Parameters
    ----------
    level : {"ok", "note", "wrong"}
        "note": nothing is broken, and a reader should know it.
    text : str
        What was checked, or what is wrong.
    """

    level: str
    text: str


def verify(connection: sqlite3.Connection) -> list[Finding]:
    """Check a ledger, given a snapshot of it; the ledger is sound if no finding is "wrong"."""
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        if verdict != "ok":
            return [Finding("wrong", "SQLite finds that the file is damaged")]
        return [Finding("ok", "SQLite finds no damage in the file"), *_findings(connection)]
    except (LedgerError, *UNREADABLE) as error:
        reason = str(error) if isinstance(error, LedgerError) else "a row of it cannot be read"
        return [Finding("wrong", reason)]


_COLUMNS = "number, at, seeded, releases, components, main, apart, skdp_version"
Row = tuple[int, str, int, str, str, str, str, str]


def _findings(connection: sqlite3.Connection) -> Iterator[Finding]:
    facts = dict(connection.execute("SELECT * FROM ledger").fetchone())
    terms = schema.Terms.of(facts)
    accountant = accountant_of(terms)
    rows: list[Row] = [
        tuple(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM charges ORDER BY number")
    ]
    numbers = [row[0] for row in rows]
    yield _judged(
        numbers == list(range(1, len(rows) + 1)),
        f"its {len(rows)} charges are numbered without a gap",
        "charges are missing in it, or numbered twice",
    )
    times = [datetime.datetime.fromisoformat(row[1]) for row in rows]
    yield _judged(
        times == sorted(times),
        "their times are in order",
        "the times of its charges are not in order: a clock was set back, or they were changed",
        "note",
    )
    kept, counted = schema.Totals.read(connection), schema.Totals.counted(connection)
    yield _judged(
        kept == counted,
        "its totals are the sums of its charges and open reservations",
        "its totals are not the sums of its charges and open reservations",
    )
    yield _judged(
        (counted.charged + counted.aside).fits(accountant.cap),
        "what was charged and what is set aside stay within the budget",
        "more was charged or set aside than the budget allows",
    )
    if accountant.planned:
        costs = [(row[0], schema.cost_of(row[4])) for row in rows]
        yield from _of_plans(connection, terms, costs)
    else:
        wrong = _wrong_prices(accountant, rows)
        yield _judged(
            not wrong,
            "every charge has the price of its components",
            f"charges whose price is not that of their components: {_some(wrong)}",
        )
    seeded = [row[0] for row in rows if row[2]]
    if seeded:
        yield Finding(
            "note", f"seeded noise, which whoever knows the seed can remove: {_some(seeded)}"
        )
    unread = [row[0] for row in rows if not _is_list(row[3])]
    yield _judged(
        not unread,
        "the descriptions of releases can be read",
        f"charges whose releases cannot be read: they were changed by others: {_some(unread)}",
    )
    silent = [row[0] for row in rows if row[3] == "[]"]
    if silent:
        yield Finding(
            "note",
            f"charges that list no release (the fit failed, or is still running): {_some(silent)}",
        )
    if facts["backup_of"] is not None:
        yield Finding("note", f"this is a backup of {facts['backup_of']}")
    versions = Counter(row[7] for row in rows)
    if versions:
        words = ", ".join(f"{version} ({n})" for version, n in sorted(versions.items()))
        yield Finding("note", f"charged by skdp {words}; made by skdp {facts['skdp_version']}")


def _judged(fine: bool, yes: str, no: str, level: str = "wrong") -> Finding:
    return Finding("ok", yes) if fine else Finding(level, no)


def _some(numbers: list[int]) -> str:
    shown = ", ".join(f"#{number}" for number in numbers[:10])
    return shown + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")


def _is_list(text: object) -> bool:
    """Say whether a text is a JSON list of objects, as releases are written."""
    if text == "[]":
        return True
    try:
        releases = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(releases, list) and all(isinstance(release, dict) for release in releases)


def _wrong_prices(accountant: Accountant, rows: list[Row]) -> list[int]:
    """Return the numbers of charges whose price is not what its components have."""
    if isinstance(accountant, GDPResidueAccountant):
        return _wrong_residues(accountant, rows)
    wrong = []
    for number, _, _, _, components, main, apart, _ in rows:
        price = _price(accountant, components)
        fine = _is(apart, price.apart) and (
            _is(main, price.main) or _nearly(accountant, main, price.main)
        )
        if not fine:
            wrong.append(number)
    return wrong


def _wrong_residues(accountant: GDPResidueAccountant, rows: list[Row]) -> list[int]:
    """Return the numbers of charges that paid less than what they took of the allowance.

    The last charges come first: a price that is valid there is valid where more was left, too
    (`skdp.loss.accountants`).
    """
    valid: set[tuple[str, str, str]] = set()
    wrong = []
    amounts = [schema.amount_of(row[5], row[6]) for row in rows]
    charged = Fraction(sum(amount.main for amount in amounts))
    for row, found in zip(reversed(rows), reversed(amounts), strict=True):
        number, components, paid = row[0], row[4], (row[4], row[5], row[6])
        charged -= found.main
        if paid in valid:
            continue
        price = _price(accountant, components)
        # A ledger may hold charges at the plain price, too: that is more, never less.
        fine = found.apart == price.apart and found.main <= price.main
        if fine and found.main != price.main:
            cost = schema.cost_of(components)
            fine = accountant.is_price(cost, Amount(charged), found.main / _SLACK)
        if fine:
            valid.add(paid)
        else:
            wrong.append(number)
    return wrong[::-1]


def _price(accountant: Accountant, components: str) -> Amount:
    """Return the price of a charge, far faster than by adding its single prices up first."""
    (first, often), *others = schema.singles_of(components)
    price = accountant.price_one(first) if often == 1 else often * accountant.price_one(first)
    for single, times in others:
        price = price + times * accountant.price_one(single)
    return price


def _is(text: str, amount: Fraction) -> bool:
    """Whether a decimal text says exactly this; faster than to make a fraction of the text."""
    whole, _, digits = schema.checked_amount(text).partition(".")
    return int(whole + digits) * amount.denominator == amount.numerator * 10 ** len(digits)


def _nearly(accountant: Accountant, text: str, price: Fraction) -> bool:
    slack = 0 if accountant.name == "basic" else price * _ROUNDING
    return abs(Fraction(text) - price) <= slack


def _of_plans(
    connection: sqlite3.Connection, terms: schema.Terms, costs: list[tuple[int, Cost]]
) -> Iterator[Finding]:
    yield _judged(
        plans.left_as_drawn(connection, costs),
        "every charge was drawn from a plan, and what is left of each is what was not drawn",
        "what is left of its plans is not what its charges left of them",
    )
    holders = [plan for plan in plans.read(connection, schema.cost_of) if plan.taken]
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
    late = [
        plan.number
        for plan in holders
        if plan.drawn and not _is_paid(plan, terms, paid[plan.number])
    ]
    yield _judged(
        not late,
        "the first draw of every plan paid for all of it, and no later one paid again",
        f"plans whose first draw did not pay for all of them, or another paid: {_some(late)}",
    )


def _is_paid(plan: plans.Plan, terms: schema.Terms, draws: list[Amount]) -> bool:
    """Whether the first draw of a plan has its price, within its part, and the others none."""
    epsilon, delta = terms.plans[plan.part]
    first, *others = draws
    price = plan_epsilon(plan.cost, delta)
    return (
        price * float(_SLACK) <= first.main <= exact(epsilon)
        and first.apart == exact(delta)
        and others == [Amount()] * len(others)
    )
