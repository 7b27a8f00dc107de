"""What can be read of a budget: its terms, its charges, and what still fits."""

from __future__ import annotations

import copy
import datetime
import math
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from skdp.budget.account import Account, accountant_of, free_amount
from skdp.budget.ledger import Ledger
from skdp.budget.operations import Known, LedgerOperations
from skdp.budget.schema import Contents, Terms
from skdp.exceptions import (
    BudgetExceededError,
    LargeDeltaWarning,
    LedgerError,
    PublicRowCountWarning,
    SealedBudgetError,
    outside_level,
)
from skdp.loss.accountants import Accountant, plan_epsilon
from skdp.loss.charge import Charge, Cost, PrivacyLoss, ReservationRecord
from skdp.loss.conversions import Amount, check_delta, check_positive, exact, exact_shares, round_up

_GLANCE = 0.05  # seconds that repr waits for another process's transaction


def short_number(value: float) -> str:
    """Return a number with at most ten characters, for a `repr`."""
    text = repr(value)
    return text if len(text) <= 10 else f"{value:.4g}"


def time_of_day(when: datetime.datetime) -> str:
    """Return a time in UTC; with its date, unless that is today's."""
    today = when.date() == datetime.datetime.now(datetime.UTC).date()
    return when.strftime("%H:%M:%S UTC" if today else "%Y-%m-%d %H:%M:%S UTC")


def remaining_shown(budget: BudgetReader) -> tuple[PrivacyLoss, str]:
    """Return what remains and, of a ledger on a server, when this process saw that; or raise."""
    if not budget._ledger.remote:
        return budget.remaining, ""
    known = budget._known()
    return budget._account.remaining_at(known), f" as of {time_of_day(known.when)}"


class BudgetReader:
    """The part of `PrivacyBudget` that reads."""

    __slots__ = ()

    _account: Account
    _dataset: str | None
    _n_rows: RowCounts

    # -- the terms ----------------------------------------------------------------------------

    @property
    def _ledger(self) -> LedgerOperations:
        return self._account.ledger

    @property
    def _terms(self) -> Terms:
        return self._account.terms

    @property
    def epsilon(self) -> float:
        """Total epsilon."""
        return self._terms.epsilon

    @property
    def delta(self) -> float:
        """Total delta."""
        return self._terms.delta

    @property
    def adjacency(self) -> str:
        """The neighbouring relation: "replace_one" or "add_or_remove_one"."""
        return self._terms.adjacency

    @property
    def unit(self) -> str | None:
        """The privacy unit: the name of the column of ids; None: one row."""
        return self._terms.unit

    @property
    def accountant(self) -> str:
        """How charges add up: "basic", "gdp", "gdp_residue", "zcdp" or "pld"."""
        return self._terms.accountant

    @property
    def separate_delta(self) -> float:
        """The part of delta for charges that are not Gaussian ("gdp", "gdp_residue" and "zcdp")."""
        return self._terms.separate_delta

    @property
    def ledger(self) -> str | None:
        """The absolute path of the ledger; None if it ends with the process that made it."""
        return None if self._ledger.temporary else self._ledger.path

    @property
    def note(self) -> str:
        """What is written with each charge that is made through this object."""
        return self._account.note

    @property
    def dataset(self) -> str | None:
        """The name of the table, if the ledger has one."""
        return self._dataset

    @property
    def n_rows(self) -> tuple[int, ...]:
        """The numbers of rows that were stated as public; empty if none were."""
        return self._n_rows.stated

    @property
    def sealed(self) -> bool:
        """Whether the ledger cannot be reached, so nothing can be charged."""
        self._account.sealed = not self._ledger.present()
        return self._account.sealed

    @property
    def spent(self) -> PrivacyLoss:
        """The (epsilon, delta) of all charges so far under the accountant, rounded up."""
        return self._account.spent

    @property
    def remaining(self) -> PrivacyLoss:
        """The (epsilon, delta) available for one more fit (not spent, not set aside), rounded down.

        Under "gdp" and "zcdp", the fit must have Gaussian noise. Under "pld", it must be a plan.
        """
        return self._account.remaining

    @property
    def charges(self) -> list[Charge]:
        """Every charge, oldest first."""
        with self._account.noting_seal():
            return self._ledger.charges(self.adjacency)

    @property
    def reservations(self) -> list[ReservationRecord]:
        """Every reservation, oldest first, open or not, with its note."""
        with self._account.noting_seal():
            return self._ledger.reservations()

    # -- what it amounts to, and what still fits -----------------------------------------------

    def _remaining_at_a_glance(self) -> str:
        """Return `remaining` for `repr`, which waits for nobody; "" where it would have to."""
        ledger, account = self._ledger, copy.copy(self._account)
        if isinstance(ledger, Ledger):
            if account.sealed:
                return ""
            account.ledger = quick = copy.copy(ledger)
            quick.timeout = _GLANCE
        try:
            loss, when = (account.remaining, "") if not ledger.remote else remaining_shown(self)
        except (SealedBudgetError, LedgerError):
            self._account.sealed = account.sealed
            return ""
        return f"({short_number(loss.epsilon)}, {short_number(loss.delta)}){when}"

    def _known(self) -> Known:
        known = self._ledger.known()
        if known is None:
            raise LedgerError("This process has not seen the ledger yet: budget.remaining asks it.")
        return known

    def _statement(self, last: int | None = None) -> Statement:
        account = self._account
        with account.noting_seal():
            contents = self._ledger.contents(last)
        return Statement.of(contents, account.plain() if account.accountant.stateful else Amount())

    def curve(self, deltas: Iterable[float]) -> list[float]:
        """Return the epsilon of all charges so far at each delta, rounded up.

        Parameters
        ----------
        deltas : iterable of float
            Each in [0, 1).

        Returns
        -------
        epsilons : list of float
            Infinity if a delta is too small. Under "pld", a plan that was charged counts whole.

        Notes
        -----
        The curve assumes that the charges did not depend on earlier releases; the (epsilon, delta)
        of the budget holds in any case.

        Examples
        --------
        >>> from skdp.budget import Cost, PrivacyBudget
        >>> budget = PrivacyBudget(1.0, 1e-6)
        >>> _ = budget.charge(Cost(0.5, 1e-7), estimator="DPPCA")
        >>> budget.curve([1e-8, 1e-6])
        [inf, 0.5]
        """
        statement = self._statement(last=0)
        return [statement.epsilon(check_delta(delta)) for delta in deltas]

    def history(self) -> list[tuple[datetime.datetime, PrivacyLoss]]:
        """Return when charges were made, and what was spent after each.

        Returns
        -------
        history : list of (datetime.datetime, PrivacyLoss)
            In order, for the last charge and at most about 200 others.
        """
        return self._statement().history()

    def fits(self, cost: Cost) -> int:
        """Return how many more charges of this price are granted now.

        Parameters
        ----------
        cost : Cost
            The price of one fit.

        Returns
        -------
        count : int
            Reservations of this process included. Under "pld": how many the plans still contain.
            Under "gdp_residue", a number above 1,000 is a lower bound.

        Examples
        --------
        >>> from skdp.budget import Cost, PrivacyBudget
        >>> PrivacyBudget(1.0).fits(Cost(0.3))
        3
        """
        return self._account.fits(cost)

    def split(self, **weights: float) -> dict[str, float]:
        """Share the remaining epsilon by weight.

        Parameters
        ----------
        **weights : float
            Positive weights, one for each name.

        Returns
        -------
        shares : dict of str to float
            An epsilon for each name. Their decimal sum is exactly what remains, unless weights
            differ by more than nine digits. Under "gdp" and "zcdp", the shares are for Gaussian
            fits at ``remaining.delta``, which add up to less than the sum of their epsilons.

        Raises
        ------
        ValueError, TypeError
            If there is no weight, or one is not a finite number above 0.
        BudgetExceededError
            If nothing remains.

        Examples
        --------
        >>> from skdp.budget import PrivacyBudget
        >>> PrivacyBudget(1.0).split(scale=1, pca=2, kmeans=2)
        {'scale': 0.2, 'pca': 0.4, 'kmeans': 0.4}
        """
        if not weights:
            raise ValueError("split needs at least one weight: split(name=1, other=3).")
        exacts = [exact(check_positive(w, name)) for name, w in weights.items()]
        remaining = exact(self.remaining.epsilon)
        if remaining == 0:
            raise BudgetExceededError("Nothing of the budget remains to be split.")
        shares = dict(zip(weights, exact_shares(remaining, exacts), strict=True))
        if min(shares.values()) <= 0:
            raise ValueError("The weights differ too much: a share would round to zero.")
        return shares


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


@dataclass(frozen=True)
class Statement:
    """What a ledger holds as of one moment; `charged` is the sum of all plain prices."""

    contents: Contents
    accountant: Accountant
    charged: Amount
    spent: PrivacyLoss
    remaining: PrivacyLoss

    @classmethod
    def of(cls, contents: Contents, plain: Amount) -> Statement:
        """Return the statement of contents whose plain prices sum to `plain` (see `Account`)."""
        terms, totals = contents.terms, contents.totals
        accountant = accountant_of(terms)
        taken = {plan.part for plan in contents.plans if plan.taken}
        free = free_amount(accountant, terms, totals, taken)
        charged = plain if accountant.stateful else totals.charged
        loss, room = accountant.loss(charged), accountant.room(free.positive())
        return cls(contents, accountant, charged, loss, room)

    def history(self) -> list[tuple[datetime.datetime, PrivacyLoss]]:
        """Return what was spent after charges, at most 200 of them and the last, with its time."""
        charges, accountant, paid = self.contents.charges, self.accountant, self.contents.paid
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
        drawn = [plan for plan in self.contents.plans if plan.drawn]
        deltas = [self.contents.terms.plans[plan.part][1] for plan in drawn]
        total = Fraction(0)
        for plan, own_delta in zip(drawn, deltas, strict=True):
            part = delta * (1 - 1e-9) * own_delta / sum(deltas)
            epsilon = plan_epsilon(plan.cost, part) if part else math.inf
            if math.isinf(epsilon):
                return epsilon
            total += exact(epsilon)
        return round_up(total)
