"""What a pickle of a budget holds: where its ledger is, which one it is, and its terms.

Nothing is released here. A handle never changes while its budget lives, so hashes of estimators
that hold the budget (joblib's cache) do not either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from skdp.budget.account import Account
from skdp.budget.ledger import Terms
from skdp.budget.opening import differences, ledger_at
from skdp.exceptions import LedgerError, SealedBudgetError

__all__ = ["Handle"]

_NAMES = (
    "path",
    "ledger_id",
    "epsilon",
    "delta",
    "adjacency",
    "accountant",
    "separate_delta",
    "temporary",
    "plans",
    "unit",
)


@dataclass(frozen=True)
class Handle:
    """Where a ledger is, and what it should say."""

    LENGTH: ClassVar[int] = len(_NAMES)

    path: str
    ledger_id: str
    terms: Terms
    temporary: bool

    @classmethod
    def of(cls, account: Account) -> Handle:
        """Return the handle of an account."""
        ledger = account.ledger
        return cls(ledger.path, ledger.id, account.terms, ledger.temporary)

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> Handle:
        """Return the handle that has these values.

        Pickles of 0.1 do not have the last three; those of budgets without plans and without a unit
        not the last two, those without a unit not the last.
        """
        path, ledger_id, epsilon, delta, adjacency, accountant, separate_delta, *rest = values
        plans = rest[1] if len(rest) > 1 else ()
        unit = rest[2] if len(rest) > 2 else None
        terms = Terms(epsilon, delta, adjacency, accountant, separate_delta, plans, unit)
        return cls(path, ledger_id, terms, bool(rest and rest[0]))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Handle:
        """Return the handle that has this state, or raise ValueError."""
        if set(state) not in (set(_NAMES), set(_NAMES[:-1]), set(_NAMES[:-2])):
            raise ValueError("This is not the state of a PrivacyBudget.")
        return cls.from_values([state[name] for name in _NAMES if name in state])

    def values(self, note: str = "") -> tuple[Any, ...]:
        """Return the values that a pickle holds; a note, if there is one, is the last."""
        t = self.terms
        terms = (t.epsilon, t.delta, t.adjacency, t.accountant, t.separate_delta)
        more: tuple[Any, ...] = (t.plans, t.unit) if t.unit is not None else (t.plans,)
        more = more if any(more) else ()
        if note:
            more = (t.plans, t.unit, note)
        return (self.path, self.ledger_id, *terms, self.temporary, *more)

    def state(self) -> dict[str, Any]:
        """Return the same by name, for formats without functions."""
        return dict(zip(_NAMES, self.values(), strict=False))

    def account(self, note: str = "") -> tuple[Account, Mapping[str, Any]]:
        """Return the account of this ledger, sealed if it is not there, and what that says."""
        account = Account(self.terms, note)
        account.ledger = ledger_at(self.path, self.ledger_id, temporary=self.temporary)
        try:
            stored = account.ledger.stated()
        except (LedgerError, SealedBudgetError):  # gone, another kind of file, or unreadable
            account.sealed = True
            return account, {}
        # The file decides what the budget is, not the pickle.
        if differences(stored, self.terms):
            raise LedgerError(f"The pickled budget and its ledger {self.path} disagree.")
        return account, stored
