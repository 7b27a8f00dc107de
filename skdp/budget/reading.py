"""What a ledger holds as of one moment, and public numbers of rows."""

from __future__ import annotations

import datetime
import math
import os
import sqlite3
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skdp.budget import plans
from skdp.budget.account import accountant_of, free_amount, plain_sum
from skdp.budget.schema import Terms, Totals, amount_of, charge_of, cost_of, reservation_of
from skdp.exceptions import LargeDeltaWarning, PublicRowCountWarning, outside_level
from skdp.loss.accountants import Accountant, plan_epsilon
from skdp.loss.charge import Charge, PrivacyLoss, ReservationRecord
from skdp.loss.conversions import Amount, exact, round_up


def time_of_day(when: datetime.datetime) -> str:
    """Return a time in UTC; with its date, unless that is today's."""
    today = when.date() == datetime.datetime.now(datetime.UTC).date()
    return when.strftime("%H:%M:%S UTC" if today else "%Y-%m-%d %H:%M:%S UTC")


# --- numbers of rows ------------------------------------------------------------------------------

# Under "replace_one" every fit shows its number of rows, which is public for the table, but not for
# a table that was *filtered* by private values. So a budget knows the stated numbers of the table,
# or the first that it saw, and warns once of another. This is a reminder, no proof: a filtered
# table may have a number of rows that is expected.

_PARTS = {(j, k) for k in range(2, 11) for j in (1, k - 1)} | {(j, 10) for j in range(1, 10)}


def is_part(part: int, total: int) -> bool:
    """Say whether a table of `total` rows has a part of `part` rows in a cross-validation.

    That is: one part out of k or all but one, for k up to 10; tenths, for other training and test
    sets; one row alone or all but one. A fraction of a row is rounded either way, as folds do.
    """
    if part >= total:
        return part == total
    if part in (1, total - 1):
        return True
    return any(part in (total * j // k, -(-total * j // k)) for j, k in _PARTS)


class RowCounts:
    """The stated or shown numbers of rows; in workers, which see folds first, no number `binds`."""

    def __init__(self, stated: tuple[int, ...], *, binds: bool) -> None:
        self.stated, self.binds, self.warned = stated, binds, False
        self._pid = os.getpid()
        self._largest: int | None = None  # of which other numbers may be parts
        self._last: int | None = None

    def expects(self, n_rows: int) -> bool:
        """Note a number of rows; return False, once, if it belongs to no table that is known."""
        if self.warned:
            return True
        if self.stated:
            expected = any(is_part(n_rows, total) for total in self.stated)
        elif not self.binds or os.getpid() != self._pid:
            return True
        elif self._largest is None or is_part(self._largest, n_rows):
            self._largest, expected = n_rows, True  # what was seen before was a fold of this one
        else:
            # Training folds differ by one row; or it is the test fold of the last training fold.
            expected = is_part(n_rows, self._largest) or is_part(n_rows, self._largest + 1)
            if self._last is not None:
                expected = expected or is_part(self._last, self._last + n_rows)
        self._last, self.warned = n_rows, not expected
        return expected


def warn_unexpected(name: str) -> None:
    """Warn that an estimator or function shows a number of rows that may be private."""
    warnings.warn(
        f"{name} shows a number of rows that is not that of the table of this budget, nor of a "
        'part of it in a cross-validation. Under adjacency="replace_one" the number of rows '
        "counts as public; that of a table that was filtered by private values is not public. If "
        "this number is public, state it: PrivacyBudget(..., n_rows=[...]); else use "
        'adjacency="add_or_remove_one".',
        PublicRowCountWarning,
        stacklevel=outside_level(),
    )


def warn_of_delta(name: str, delta: float, n_rows: int) -> None:
    """Warn of a delta of 1/n or more for n rows, which permits publishing a row."""
    if delta * n_rows >= 1:
        warnings.warn(
            f"{name}: delta={delta:g} is 1/n or more for n={n_rows} rows: such a delta permits "
            "publishing a row. State one that is far below 1/n.",
            LargeDeltaWarning,
            stacklevel=outside_level(),
        )


# --- statements -----------------------------------------------------------------------------------


_EVERY = 2**62  # rows: no limit


@dataclass(frozen=True)
class Statement:
    """What a ledger holds as of one moment: all of it, or the latest rows alone."""

    facts: Mapping[str, Any]
    terms: Terms
    totals: Totals
    charges: tuple[Charge, ...]
    paid: tuple[Amount, ...]  # what each charge added to the sums
    reservations: tuple[ReservationRecord, ...]
    plans: tuple[plans.Plan, ...]
    accountant: Accountant
    charged: Amount  # the sum of all plain prices

    @classmethod
    def read(
        cls,
        connection: sqlite3.Connection,
        last: int | None = None,
        before: int | None = None,
        plain: Amount | None = None,
    ) -> Statement:
        """Read all, or the `last` rows; of charges, only those with a number below `before`.

        `plain` is the sum of all plain prices, where it is known (see `Account.plain`).
        """
        facts = dict(connection.execute("SELECT * FROM ledger").fetchone())
        terms, totals = Terms.of(facts), Totals.read(connection)
        end = totals.charges + 1 if before is None else before
        limit = _EVERY if last is None else last
        charges = connection.execute(
            "SELECT * FROM charges WHERE number >= ? AND number < ? ORDER BY number",
            (end - limit, end),
        ).fetchall()
        reservations = connection.execute(
            "SELECT * FROM reservations ORDER BY number DESC LIMIT ?", (limit,)
        ).fetchall()
        accountant = accountant_of(terms)
        if plain is None and accountant.stateful:
            rows = connection.execute(
                "SELECT components, COUNT(*) FROM charges GROUP BY components"
            )
            plain = plain_sum(accountant, dict(rows.fetchall()))
        return cls(
            facts,
            terms,
            totals,
            tuple(charge_of(row, terms.adjacency) for row in charges),
            tuple(amount_of(row["main"], row["apart"]) for row in charges),
            tuple(reservation_of(row) for row in reversed(reservations)),
            plans.read(connection, cost_of, every=last is None),
            accountant,
            totals.charged if plain is None else plain,
        )

    @property
    def spent(self) -> PrivacyLoss:
        """The (epsilon, delta) of all charges, rounded up."""
        return self.accountant.loss(self.charged)

    @property
    def remaining(self) -> PrivacyLoss:
        """The (epsilon, delta) of one more fit, or plan."""
        taken = {plan.part for plan in self.plans if plan.taken}
        free = free_amount(self.accountant, self.terms, self.totals, taken)
        return self.accountant.room(free.positive())

    def history(self) -> list[tuple[datetime.datetime, PrivacyLoss]]:
        """Return what was spent after charges, at most 200 of them and the last, with its time."""
        charges, accountant, paid = self.charges, self.accountant, self.paid
        if accountant.stateful:
            paid = tuple(accountant.price(charge.cost) for charge in charges)
        stride = max(len(charges) // 200, 1)
        history, total = [], Amount()
        for i, (charge, price) in enumerate(zip(charges, paid, strict=True)):
            total = total + price
            if i % stride == 0 or i == len(charges) - 1:
                history.append((charge.when, accountant.loss(total)))
        return history

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta that all charges amount to, rounded up."""
        if not self.accountant.planned:
            return self.accountant.epsilon_at(self.charged, delta)
        # Plans share the delta as their own deltas are to each other: any shares are valid.
        drawn = [plan for plan in self.plans if plan.drawn]
        deltas = [self.terms.plans[plan.part][1] for plan in drawn]
        total = Fraction(0)
        for plan, own_delta in zip(drawn, deltas, strict=True):
            part = delta * (1 - 1e-9) * own_delta / sum(deltas)
            epsilon = plan_epsilon(plan.cost, part) if part else math.inf
            if math.isinf(epsilon):
                return epsilon
            total += exact(epsilon)
        return round_up(total)
