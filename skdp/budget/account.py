"""A ledger with its accountant: charges, what remains, refusals."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from skdp.budget import schema
from skdp.budget.operations import Known, LedgerOperations, releases_json
from skdp.budget.schema import Terms, Totals
from skdp.budget.urls import check_public, check_text, without_literals
from skdp.exceptions import BudgetExceededError, LedgerError, SealedBudgetError
from skdp.loss.accountants import ACCOUNTANTS, Accountant, PLDAccountant, plan_epsilon
from skdp.loss.charge import Charge, Cost, PrivacyLoss, check_cost, non_gaussian_delta
from skdp.loss.conversions import Amount, exact, loss_text, rounded_amount

# `fits` counts this many charges one by one where prices depend on what was charged before; the
# rest count at the plain price, so that the call ends.
_COUNTED = 1_000

_LEFT = (
    "budget.remaining says what is left, budget.charges what was spent; the total of a ledger "
    "cannot be raised."
)

_NO_DELTA = (
    "delta=0 (pure noise), and with it the classes, categories or keys, if the fit would learn "
    "them. To learn them, make the budget with a larger delta"
)

_DRY: ContextVar[bool] = ContextVar("a dry run", default=False)
# What is charged for, and whether names of releases may quote literals.
_WHAT: ContextVar[tuple[str, bool]] = ContextVar("what is charged for", default=("", True))


@contextlib.contextmanager
def charging_nothing() -> Iterator[None]:
    """Refuse every charge in the block, so that a dry run cannot spend anything."""
    token = _DRY.set(True)
    try:
        yield
    finally:
        _DRY.reset(token)


@contextlib.contextmanager
def charging_for(what: str, literals: bool = False) -> Iterator[None]:
    """Write into the ledger what the charges of the block are for.

    Unless `literals`, their releases are named there without the texts and numbers of a query.
    """
    token = _WHAT.set((check_text(what, "note"), literals))
    try:
        yield
    finally:
        _WHAT.reset(token)


def described(releases: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return releases as the ledger describes them."""
    if _WHAT.get()[1]:
        return releases
    return [{**release, "name": without_literals(release.get("name", ""))} for release in releases]


class Account:
    """A ledger and its accountant; `tokens` are those of reservations open here, oldest first."""

    __slots__ = ("_plain", "accountant", "ledger", "note", "terms", "tokens")

    ledger: LedgerOperations  # set once it is open

    def __init__(self, terms: Terms, note: str = "") -> None:
        self.terms, self.note = terms, note
        self.tokens: dict[str, None] = {}
        self.accountant = accountant_of(terms)
        self._plain = (0, Amount())  # the sum of plain prices up to the charge of this number

    @property
    def spent(self) -> PrivacyLoss:
        """The (epsilon, delta) of all charges, rounded up."""
        stateful = self.accountant.stateful
        return self.accountant.loss(self.plain() if stateful else self.ledger.look().totals.charged)

    def plain(self) -> Amount:
        """Return the sum of the plain prices of all charges; only charges not seen yet are read."""
        counted, amount = self._plain
        number, components = self.ledger.components(counted)
        if number < counted:  # an older copy of the ledger was put back
            self._plain = (0, Amount())
            return self.plain()
        amount = amount + plain_sum(self.accountant, components)
        self._plain = (number, amount)
        return amount

    @property
    def remaining(self) -> PrivacyLoss:
        """The (epsilon, delta) of one more fit, or plan, that is neither spent nor set aside."""
        return self.remaining_at(self.ledger.look())

    def remaining_at(self, known: Known) -> PrivacyLoss:
        """Return what remained when this process saw the ledger."""
        return self.accountant.room(self._free(known).positive())

    def _free(self, known: Known) -> Amount:
        return free_amount(self.accountant, self.terms, known.totals, known.taken)

    def fits(self, cost: Cost) -> int:
        """Return how many more charges of this price fit."""
        tokens, cap = tuple(self.tokens), self.accountant.cap
        check_cost(cost)
        if self.accountant.planned:
            return self.ledger.planned(cost, tokens)
        # With the cap as the price, all that own reservations hold counts as room.
        room = self.ledger.room(cap, cap, tokens).positive()
        charged = self.ledger.look().totals.charged
        count = 0
        while self.accountant.stateful and count < _COUNTED:
            price = self.accountant.price_at(cost, charged)
            if not price.fits(room):
                return count
            count, charged, room = count + 1, charged + price, room - price
        price = self.accountant.price(cost)
        parts = ((room.main, price.main), (room.separate, price.separate))
        return count + min(have // need for have, need in parts if need)

    def _price(self, cost: Cost) -> Callable[[Amount], Amount] | None:
        """Return what a charge adds, as a function of what was charged; None where plans say it."""
        if self.accountant.planned:
            return None
        if self.accountant.stateful:
            return functools.partial(self.accountant.price_at, cost)
        price = self.accountant.price(cost)
        return lambda charged: price

    def _prices(self, cost: Cost) -> list[Amount | None]:
        """Return what a reservation sets aside in each part of the budget; None where too small."""
        accountant = self.accountant
        if not isinstance(accountant, PLDAccountant):
            return [accountant.price(cost)]
        prices = [(accountant.plan_price(cost, delta), exact(e)) for e, delta in self.terms.plans]
        return [price if price.main <= epsilon else None for price, epsilon in prices]

    # -- spending -----------------------------------------------------------------------------

    def check(self, cost: Cost) -> None:
        """Raise what :meth:`grant` would raise for this price; record nothing."""
        price_after, tokens = self._price(check_cost(cost)), tuple(self.tokens)
        if price_after is None:
            if not self.ledger.planned(cost, tokens):
                raise self.unplanned(cost)
            return
        price = price_after(self.ledger.look().totals.charged)
        room = self.ledger.room(self.accountant.cap, price, tokens)
        if not price.fits(room):
            raise self.exceeded(cost, room)

    def grant(
        self,
        cost: Cost,
        *,
        estimator: str,
        seeded: bool = False,
        releases: Sequence[Mapping[str, Any]] = (),
        note: str = "",
    ) -> Charge:
        """Write a charge if it fits, in one transaction; see `PrivacyBudget.charge`."""
        if _DRY.get():
            raise LedgerError("a dry run charges no ledger")
        price_after = self._price(check_cost(cost))
        facts = {
            "estimator": check_text(estimator, "estimator"),
            "seeded": int(bool(seeded)),
            "releases": releases_json(releases),
            "note": ": ".join(
                filter(None, (self.note, _WHAT.get()[0], check_public(note, "note")))
            ),
        }
        charge, room = self.ledger.record(
            cost, price_after, self.accountant.cap, tuple(self.tokens), self.terms.adjacency, facts
        )
        if charge is not None:
            return charge
        if price_after is None:
            raise self.unplanned(cost, estimator)
        raise self.exceeded(cost, room, estimator)

    def reserve(self, cost: Cost, note: str) -> tuple[int, str]:
        """Set a price aside; return the number of the reservation, and its token."""
        token = uuid.uuid4().hex  # secret: whoever has it draws from the reservation
        planned = self.accountant.planned
        number, room = self.ledger.reserve(
            cost, self._prices(cost), self.accountant.cap, note, token, planned=planned
        )
        if not number:
            raise self.exceeded(cost, self._free(self.ledger.look()) if planned else room)
        self.tokens[token] = None
        return number, token

    def check_reserve(self, cost: Cost) -> None:
        """Raise what :meth:`reserve` would raise for this price; record nothing."""
        prices, known = self._prices(check_cost(cost)), self.ledger.look()
        room = self._free(known)
        free = [price for i, price in enumerate(prices) if price and i not in known.taken]
        if not any(self.accountant.planned or price.fits(room) for price in free):
            raise self.exceeded(cost, room)

    # -- refusals -----------------------------------------------------------------------------

    def exceeded(self, cost: Cost, room: Amount, who: str = "") -> BudgetExceededError:
        """Return the error for a price that does not fit into this room."""
        terms, remaining = self.terms, self.accountant.room(room.positive())
        named = f"{who}: the" if who else "The"
        return BudgetExceededError(
            f"{named} price is {loss_text(cost)} ({cost.mechanism}); the budget of "
            f"{loss_text(terms)} has {loss_text(remaining, up=False)} left under "
            f'accountant="{terms.accountant}". {_still_charged(who)}'
            f" {self._way_out(cost, remaining)}{self._separate_hint(cost)}",
            cost=cost,
            remaining=remaining,
        )

    def unplanned(self, cost: Cost, who: str = "") -> BudgetExceededError:
        """Return the error for a price that no plan holds."""
        named = f"{who}: no" if who else "No"
        return BudgetExceededError(
            f"{named} plan of this budget holds the price {loss_text(cost)} ({cost.mechanism}), "
            "or it is used up. "
            f'accountant="{self.terms.accountant}" grants only what was planned before the first '
            "charge of the plan: "
            "`with budget.reserve([first.privacy_cost(), second.privacy_cost()]):` "
            f"around all fits of a plan. {_still_charged(who)}"
        )

    def _way_out(self, cost: Cost, remaining: PrivacyLoss) -> str:
        """Say which of epsilon and delta does not fit, and what to do about it."""
        if self.accountant.planned:
            price = plan_epsilon(cost, remaining.delta) if remaining.delta else math.inf
            if math.isinf(price):
                return "All of its plans are taken, or its deltas do not fit into one."
            return f"As a plan it comes to epsilon={rounded_amount(price):g} there: plan less."
        if not remaining.epsilon:
            return (
                "Its epsilon is spent. You may use what was released as often as you like. "
                "Further releases about this table need a second budget (another ledger, and "
                "another dataset= if this one has a name), which whoever is responsible for the "
                "data decides: the two totals add up."
            )
        if self._separate_hint(cost):
            return _LEFT
        if self.terms.accountant != "basic":
            return f"State a smaller epsilon. {_LEFT}"
        if cost.delta <= remaining.delta:
            return f"The epsilon does not fit: state a smaller epsilon. {_LEFT}"
        if cost.epsilon > remaining.epsilon:
            return f"The epsilon and delta do not fit: state smaller ones. {_LEFT}"
        least = f"a smaller delta, {rounded_amount(remaining.delta, up=False)!r} at most"
        way = least if remaining.delta else _NO_DELTA
        return f"The delta does not fit: state {way}. {_LEFT}"

    def _separate_hint(self, cost: Cost) -> str:
        """Say how much separate delta a price needs, if the accountant has less."""
        needed, stated = non_gaussian_delta(cost), self.terms.separate_delta
        if self.terms.accountant == "basic" or needed <= stated:
            return ""
        needed = rounded_amount(needed)
        return (
            f" A release that is not Gaussian needs a separate delta of {needed!r}; the budget has "
            f"only separate_delta={stated!r} for all such releases: make it with "
            f"PrivacyBudget(..., separate_delta={needed!r}), or more for several fits."
        )


def _still_charged(who: str) -> str:
    """Say what was charged beside a refused fit of `who` ("": a plan of fits)."""
    if not who:
        return "Nothing was charged."
    return (
        "Nothing was charged for this fit; earlier ones, such as those of earlier steps of a "
        "pipeline, stay charged."
    )


def accountant_of(terms: Terms) -> Accountant:
    """Return the accountant that terms name, or raise if it cannot keep such a budget."""
    return ACCOUNTANTS[terms.accountant](terms.epsilon, terms.delta, terms.separate_delta)


def plain_sum(accountant: Accountant, components: Mapping[str, int]) -> Amount:
    """Return the sum of the plain prices of components, each text with how often it occurs."""
    prices = (n * accountant.price_all(schema.singles_of(text)) for text, n in components.items())
    return sum(prices, Amount())


def free_amount(
    accountant: Accountant, terms: Terms, totals: Totals, taken: Collection[int]
) -> Amount:
    """Return what is neither spent nor set aside: of plans, the largest part that is free."""
    if not accountant.planned:
        return accountant.cap - totals.charged - totals.aside
    free = [part for i, part in enumerate(terms.plans) if i not in taken]
    epsilon, delta = max(free, default=(0.0, 0.0))
    return Amount(exact(epsilon), exact(delta))


class Reservation:
    """A price set aside during a ``with`` block; made by `PrivacyBudget.reserve`.

    Parameters
    ----------
    account : Account
        Where the price is set aside.
    cost : Cost
        The whole price.
    note : str
        Recorded in the ledger.
    """

    def __init__(self, account: Account, cost: Cost, note: str) -> None:
        self.cost, self.note = cost, note
        self._account, self._token = account, ""
        self._number = self._pid = 0

    def __enter__(self) -> Reservation:
        if self._number:
            raise RuntimeError("A reservation can be entered once; call budget.reserve again.")
        self._number, self._token = self._account.reserve(self.cost, self.note)
        self._pid = os.getpid()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if os.getpid() != self._pid:
            return  # a forked child that leaves the block does not end its parent's reservation
        self._account.tokens.pop(self._token, None)
        try:
            self._account.ledger.release(self._number)
        except (LedgerError, SealedBudgetError):
            if error is None:  # else that error matters more; the price stays set aside
                raise
