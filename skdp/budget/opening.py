"""Opening the ledger of a budget, what a pickle of a budget says of it, and copies to look at.

A ledger is made if it is not there, and compared with the terms of the budget if it is. One table
has one ledger: a second one of the same data set in the same folder is refused, and so is the
backup of a ledger that is there.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from skdp.budget import locks, schema
from skdp.budget.account import Account
from skdp.budget.arguments import path_of
from skdp.budget.files import BUSY, check_regular, copy_whole, errors, is_url, may_be_ledger
from skdp.budget.ledger import Ledger
from skdp.budget.operations import LedgerOperations
from skdp.budget.schema import Terms
from skdp.budget.urls import normal_url
from skdp.exceptions import LedgerError, SealedBudgetError

# The parameter that a column of the ledger holds, where their names differ.
_SHOWN = {"delta_apart": "separate_delta"}


def differences(stored: Mapping[str, str | None], terms: Terms) -> list[str]:
    """Return in what the terms of a ledger file differ from those of a budget."""
    return [
        f"{_SHOWN.get(name, name)}={stored[name]}, not {text}"
        for name, text in terms.texts().items()
        if stored[name] != text
    ]


def ledger_at(path: str, ledger_id: str, *, temporary: bool = False) -> LedgerOperations:
    """Return the ledger at a path or URL, which need not be there."""
    if is_url(path):
        from skdp.budget import postgres  # imported where there is one

        return postgres.PostgresLedger(path, ledger_id)
    return Ledger(path, ledger_id, temporary=temporary)


def opened(path: str) -> LedgerOperations:
    """Return the ledger that is at a path or URL."""
    return ledger_at(path, "") if is_url(path) else Ledger.open(path)[0]


def open_or_create(
    path: str, terms: Terms, facts: dict[str, str], *, must_exist: bool = False
) -> tuple[LedgerOperations, dict[str, Any]]:
    """Return the ledger at `path`, made if it is not there, and what it says of itself."""
    if is_url(path):
        from skdp.budget import postgres

        return _completed(
            *postgres.PostgresLedger.open_or_create(path, terms, facts, must_exist=must_exist),
            terms,
            facts,
        )
    folder = os.path.dirname(path)
    named = "dataset" in facts
    with locks.folder_locked(folder, 10.0) if named else contextlib.nullcontext():
        if not os.path.exists(path):
            if named:
                _refuse_second(path, facts["dataset"])
            with contextlib.suppress(FileExistsError):  # another process was faster: open it
                return Ledger.create(path, terms, facts), facts
        ledger, stored = Ledger.open(path)
        return _completed(ledger, stored, terms, facts)


def _completed(
    ledger: LedgerOperations, stored: dict[str, Any], terms: Terms, facts: Mapping[str, str]
) -> tuple[LedgerOperations, dict[str, Any]]:
    """Return a ledger that was there and what it says, with what is stated for the first time."""
    path = ledger.path
    wrong = differences(stored, terms) + [
        f"{name}={stored[name]}, not {value}"
        for name, value in facts.items()
        if stored[name] not in (None, value)
    ]
    if wrong:
        raise ValueError(
            f"The ledger {path} was made with " + "; ".join(wrong) + ". Open it with what it "
            "was made with; another promise is another ledger, and both add up."
        )
    new: dict[str, Any] = {name: value for name, value in facts.items() if stored[name] is None}
    if isinstance(ledger, Ledger):
        original = stored["backup_of"]
        if original is not None:
            if original != path and Ledger.is_at(original, ledger.id):
                raise LedgerError(
                    f"The ledger {path} is a backup of {original}, which still exists: open that "
                    "one."
                )
            new["backup_of"] = None
        if "dataset" in facts or stored["dataset"] is not None:
            _refuse_second(path, facts.get("dataset", stored["dataset"]))
    if new:
        ledger.state(new)
    return ledger, {**stored, **new}


def _refuse_second(path: str, dataset: str) -> None:
    """Raise if another ledger of the same data set lies in the folder."""
    others = Ledger.others_of(path, dataset)
    if others:
        raise LedgerError(
            f"One table has one ledger, and dataset={dataset!r} would have two: {path} and "
            f"{others[0]}. If one is a copy of the other, delete the copy, or the one that lacks "
            "charges (python -m skdp.ledger show FILE): in another folder it would spend the "
            "budget again, unnoticed. Copies to keep are made with budget.backup(path). If they "
            "are of different tables, give each a dataset of its own; a second budget of the same "
            f"table, meant as such, too: dataset='{dataset}, second budget', say. Its total adds "
            "to that of the first."
        )


# --- pickles --------------------------------------------------------------------------------------

_NAMES = (
    *("path", "ledger_id", "epsilon", "delta", "adjacency", "accountant", "separate_delta"),
    *("temporary", "plans", "unit"),
)


@dataclass(frozen=True)
class Handle:
    """Where a ledger is, and what it should say: what a pickle of a budget holds.

    It never changes while its budget lives, so hashes of estimators that hold the budget (joblib's
    cache) do not either.
    """

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


# --- copies to look at ----------------------------------------------------------------------------

_TIMEOUT = 10.0  # seconds to wait for another process's transaction


def snapshot(path: str | os.PathLike[str]) -> tuple[sqlite3.Connection, int]:
    """Return a copy of a ledger in memory, in this version's format, and the format of its file.

    `path` is that of a file, which may be read-only, or the URL of a ledger in PostgreSQL. The copy
    is to be looked at and checked, never to be charged; the file is not changed. It is copied by
    SQLite's backup under the lock of the ledger, so a charge that is being written is in it as a
    whole or not at all. Raises LedgerError if there is no ledger, or it cannot be read.
    """
    if is_url(path):
        from skdp.budget import postgres

        return postgres.snapshot(normal_url(str(path))), schema.FORMAT
    name = path_of(path)
    if not os.path.lexists(name):
        raise LedgerError(f"There is no ledger at {name}.")
    check_regular(name)
    if not may_be_ledger(name):
        raise LedgerError(f"{name} is no ledger of skdp.")
    memory = sqlite3.connect(":memory:", isolation_level=None)
    memory.row_factory = sqlite3.Row
    writable = os.access(name, os.W_OK) and os.access(os.path.dirname(name), os.W_OK)
    # Where no lock can be made, and none is there, nobody has charged this file from here.
    locked = writable or os.path.exists(locks.sidecar(name))
    turn = locks.turn_of_file(name)
    uri = f"{Path(name).as_uri()}?mode={'rw' if writable else 'ro'}"
    try:
        with (
            turn.taken(_TIMEOUT),
            locks.FileLock(name, _TIMEOUT) if locked else contextlib.nullcontext(),
            errors(name, name, "", _TIMEOUT),
            contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY)) as file,
        ):
            copy_whole(file, memory, _TIMEOUT)
        with errors(name, name, "", _TIMEOUT):
            return memory, _brought_up_to_date(memory, name)
    except BaseException:
        memory.close()
        raise


def _brought_up_to_date(memory: sqlite3.Connection, name: str) -> int:
    """Bring a copy to this version's format; return the format that it had."""
    if memory.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
        raise LedgerError(f"{name} is no ledger of skdp.")
    version: int = memory.execute("PRAGMA user_version").fetchone()[0]
    if not 1 <= version <= schema.FORMAT:
        raise LedgerError(
            f"The ledger {name} has format {version}; this skdp reads {schema.FORMAT}."
        )
    schema.check_tables(memory)
    if memory.execute("SELECT COUNT(*) FROM ledger").fetchone()[0] != 1:
        raise LedgerError(f"The ledger {name} is damaged.")
    if version < schema.FORMAT:
        memory.execute("BEGIN")
        schema.upgrade(memory)
        memory.execute("COMMIT")
    schema.check_columns(memory)
    return version
