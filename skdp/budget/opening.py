"""Opening a budget: checks of its arguments, its ledger, pickles, copies.

A ledger is made if it is not there, and compared with the terms of the budget if it is. One table
has one ledger: a second one of the same data set in the same folder is refused, and so is the
backup of a ledger that is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import numbers
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skdp.budget import locks, schema
from skdp.budget.account import Account
from skdp.budget.ledger import BUSY, TIMEOUT, Ledger, check_regular, copy_all, errors, may_be_ledger
from skdp.budget.operations import LedgerOperations
from skdp.budget.schema import Terms
from skdp.budget.urls import check_path, check_public, check_text, is_url, normal_url
from skdp.exceptions import LedgerError, SealedBudgetError
from skdp.loss.accountants import ACCOUNTANTS
from skdp.loss.conversions import check_delta, check_positive, exact
from skdp.parameters import check_parameter

# --- what a user states ---------------------------------------------------------------------------


def path_of(ledger: object) -> str:
    """Return the absolute path of a file that the user named, or raise."""
    if not isinstance(ledger, str | os.PathLike) or isinstance(os.fspath(ledger), bytes):
        raise TypeError("ledger must be None, a str or an os.PathLike of str: a file's path.")
    name = os.fspath(ledger)
    if not name or "\0" in name:
        raise ValueError("ledger must be None or the path of a file; got an empty or odd name.")
    check_path(name, explicit=not isinstance(ledger, str))
    return os.path.realpath(name)


def ledger_path(ledger: object, must_exist: bool) -> str:
    """Return the absolute path (or the URL) of the ledger that the user named, or raise."""
    if is_url(ledger):
        return normal_url(str(ledger))
    path = path_of(ledger)
    if os.path.exists(path) and not os.path.isfile(path):
        raise LedgerError(f"ledger must be the path of a file; {path} is a directory or device.")
    if must_exist and not os.path.exists(path):
        raise LedgerError(f"ledger must exist, because must_exist=True; {path} does not.")
    if not os.path.isdir(os.path.dirname(path)):
        raise LedgerError(f"ledger must lie in a directory that exists; {path} does not.")
    return path


def check_n_rows(value: object) -> tuple[int, ...]:
    """Return the numbers of rows that a user states, sorted, without repetition."""
    message = "n_rows must be None, an integer of at least 1, or a list of such."
    stated = (value,) if isinstance(value, numbers.Integral) else value
    if not isinstance(stated, list | tuple | set | frozenset) or not stated:
        raise TypeError(message)
    if any(isinstance(n, bool) or not isinstance(n, numbers.Integral) for n in stated):
        raise TypeError(message)
    if not all(1 <= int(n) < 2**63 for n in stated):
        raise ValueError(message)
    return tuple(sorted({int(n) for n in stated}))


def checked_terms(
    epsilon: object,
    delta: object,
    adjacency: object,
    accountant: object,
    separate_delta: object,
    plans: object,
    unit: object = None,
) -> Terms:
    """Return the terms of a budget, or raise; its accountant checks whether it can keep them."""
    terms = Terms(
        check_positive(epsilon, "epsilon"),
        check_delta(delta),
        check_parameter(adjacency, "adjacency", "replace_one", "add_or_remove_one"),
        check_parameter(accountant, "accountant", *ACCOUNTANTS),
        check_delta(separate_delta, "separate_delta"),
        unit=check_unit(unit),
    )
    if ACCOUNTANTS[terms.accountant].planned:
        return dataclasses.replace(terms, plans=check_plans(plans, terms))
    if plans is not None:
        raise ValueError('plans must be None but under accountant="pld".')
    return terms


def check_unit(unit: object) -> str | None:
    """Return the name of the privacy unit, or None for one row, or raise."""
    if unit is None:
        return None
    if not isinstance(unit, str):
        raise TypeError(
            "unit must be None (one row) or the name of the column of ids, such as 'user_id'; got "
            f"{type(unit).__name__}."
        )
    if not unit.strip():
        raise ValueError("unit must be None or a name; got an empty one.")
    if unit.strip() == "row":  # which certificates and displays say of one row
        raise ValueError("unit must be None if it is one row; 'row' cannot be the name of ids.")
    return check_text(unit, "unit")


def check_plans(plans: object, terms: Terms) -> tuple[tuple[float, float], ...]:
    """Return the (epsilon, delta) of each plan, or raise; by default one plan has all."""
    if plans is None:
        return ((terms.epsilon, terms.delta),)
    message = (
        "plans must be None or a list of pairs (epsilon, delta), each with epsilon > 0 and delta "
        "in (0, 1), one for each plan"
    )
    if not isinstance(plans, list | tuple) or not plans:
        raise TypeError(message + ".")
    if any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in plans):
        raise TypeError(message + ".")
    parts = [(check_positive(e, "epsilon of a plan"), check_delta(d)) for e, d in plans]
    if not all(delta for _, delta in parts):
        raise ValueError(message + "; got a delta of 0.")
    for i, (name, total) in enumerate((("epsilon", terms.epsilon), ("delta", terms.delta))):
        if sum(exact(part[i]) for part in parts) > exact(total):
            raise ValueError(f"The {name}s of all plans must add up to at most {total!r}.")
    return tuple(parts)


def checked_facts(dataset: object, n_rows: object, terms: Terms) -> dict[str, str]:
    """Return what a ledger says beside its terms, or raise."""
    facts: dict[str, str] = {}
    if dataset is not None:
        facts["dataset"] = check_public(dataset, "dataset")
        if not dataset:
            raise ValueError("dataset must be None or a name; got an empty one.")
    if n_rows is not None:
        counts = check_n_rows(n_rows)
        if terms.unit is not None:
            raise ValueError(
                f"n_rows must be None where the unit is {terms.unit!r}: how many rows one unit has "
                "is private."
            )
        if terms.adjacency != "replace_one":
            raise ValueError(
                'n_rows must be None under adjacency="add_or_remove_one", where the number of '
                "rows is private."
            )
        facts["n_rows"] = json.dumps(counts)
    return facts


def checked_parts(parts: object) -> dict[str, str | None]:
    """Return the names of disjoint parts, each with the path of its ledger (if any), or raise."""
    if isinstance(parts, str) or not isinstance(parts, Mapping | Sequence) or not len(parts):
        raise TypeError("parts must be a list of names, or a dict of names and ledgers' paths.")
    names = [check_text(name, "a name of parts") for name in parts]
    if len(set(names)) < len(names) or not all(names):
        raise ValueError("parts must be different names, none of them empty.")
    if not isinstance(parts, Mapping):
        return dict.fromkeys(names)
    paths = [ledger_path(parts[name], must_exist=False) for name in names]
    if len(set(paths)) < len(paths):
        raise ValueError("each of parts must have a ledger of its own; two have the same path.")
    return dict(zip(names, paths, strict=True))


# --- ledgers --------------------------------------------------------------------------------------


def differences(
    stored: Mapping[str, str | None], terms: Terms, facts: Mapping[str, str]
) -> list[str]:
    """Return what differs between a ledger and the terms and facts that a budget states."""
    names = {"delta_apart": "separate_delta"}  # the column keeps its first name
    wrong = [(name, text) for name, text in terms.texts().items() if stored[name] != text]
    wrong += [(name, text) for name, text in facts.items() if stored[name] not in (None, text)]
    return [f"{names.get(name, name)}={stored[name]}, not {text}" for name, text in wrong]


def ledger_at(path: str, ledger_id: str, *, temporary: bool = False) -> LedgerOperations:
    """Return an object for the ledger at a path or URL, which need not be there."""
    if is_url(path):
        from skdp.budget import postgres  # imported where there is one

        return postgres.PostgresLedger(path, ledger_id)
    return Ledger(path, ledger_id, temporary=temporary)


def opened(path: str) -> LedgerOperations:
    """Open the ledger at a path or URL."""
    return ledger_at(path, "") if is_url(path) else Ledger.open(path)[0]


def open_or_create(
    path: str, terms: Terms, facts: dict[str, str], *, must_exist: bool = False
) -> tuple[LedgerOperations, dict[str, Any]]:
    """Return the ledger at `path`, made if it is not there, and its row of terms and facts."""
    if is_url(path):
        from skdp.budget import postgres

        create = postgres.PostgresLedger.open_or_create
        return _completed(*create(path, terms, facts, must_exist=must_exist), terms, facts)
    named = "dataset" in facts
    # Otherwise two processes could make a ledger of the same data set at the same time.
    lock = locks.folder_locked(os.path.dirname(path), 10.0) if named else contextlib.nullcontext()
    with lock:
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
    """Check a ledger that was there, and write facts into it that it does not hold yet."""
    path = ledger.path
    if wrong := differences(stored, terms, facts):
        raise ValueError(
            f"The ledger {path} was made with " + "; ".join(wrong) + ". Open it with what it "
            "was made with, as PrivacyBudget.open(ledger) does; another promise is another "
            "ledger, and both add up."
        )
    new: dict[str, Any] = {name: value for name, value in facts.items() if stored[name] is None}
    if isinstance(ledger, Ledger):
        if (original := stored["backup_of"]) is not None:
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
    if others := Ledger.others_of(path, dataset):
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

# In the order of the values in a pickle.
NAMES = (
    *("path", "ledger_id", "epsilon", "delta", "adjacency", "accountant", "separate_delta"),
    *("temporary", "plans", "unit"),
)


@dataclass(frozen=True)
class Handle:
    """The ledger and terms in a pickle; they never change, as joblib hashes estimators by them."""

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
    def from_state(cls, state: Mapping[str, Any]) -> Handle:
        """Return the handle that has this state, or raise ValueError."""
        values = {"temporary": False, "plans": (), "unit": None, **state}  # 0.1 lacks these
        if set(values) != set(NAMES):
            raise ValueError("This is not the state of a PrivacyBudget.")
        path, ledger_id, temporary = (values.pop(n) for n in ("path", "ledger_id", "temporary"))
        return cls(path, ledger_id, Terms(**values), bool(temporary))

    def state(self) -> dict[str, Any]:
        """Return what a pickle holds."""
        own = {"path": self.path, "ledger_id": self.ledger_id, "temporary": self.temporary}
        values = own | vars(self.terms)
        return {name: values[name] for name in NAMES}

    def account(self, note: str = "") -> tuple[Account, Mapping[str, Any]]:
        """Return the account of this ledger, sealed if it is not there, and its row of facts."""
        account = Account(self.terms, note)
        account.ledger = ledger_at(self.path, self.ledger_id, temporary=self.temporary)
        try:
            stored = account.ledger.stated()
        except (LedgerError, SealedBudgetError):  # gone, another kind of file, or unreadable
            account.ledger.sealed = True
            return account, {}
        # The file decides what the budget is, not the pickle.
        if differences(stored, self.terms, {}):
            raise LedgerError(f"The pickled budget and its ledger {self.path} disagree.")
        return account, stored


# --- copies to look at ----------------------------------------------------------------------------


def snapshot(path: str | os.PathLike[str]) -> tuple[sqlite3.Connection, int]:
    """Return a copy of a ledger in memory, in this version's format, and the format of its file.

    `path` is that of a file, which may be read-only, or a URL. The copy is to be read, never to be
    charged. SQLite makes it under the lock of the ledger, so a charge that is being written is in
    it as a whole or not at all. Raises LedgerError if there is no ledger that can be read.
    """
    if is_url(path):
        return ledger_at(normal_url(str(path)), "").snapshot(), schema.FORMAT
    name = path_of(path)
    if not os.path.lexists(name):
        raise LedgerError(f"There is no ledger at {name}.")
    check_regular(name)
    if not may_be_ledger(name):
        raise LedgerError(f"{name} is no ledger of skdp.")
    memory = schema.in_memory()
    writable = os.access(name, os.W_OK) and os.access(os.path.dirname(name), os.W_OK)
    # Where no lock can be made, and none is there, nobody has charged this file from here.
    locked = writable or os.path.exists(locks.sidecar(name))
    turn = locks.turn_of_file(name)
    uri = f"{Path(name).as_uri()}?mode={'rw' if writable else 'ro'}"
    try:
        with (
            turn.taken(TIMEOUT),
            locks.FileLock(name, TIMEOUT) if locked else contextlib.nullcontext(),
            errors(name, name, ""),
            contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY)) as file,
        ):
            copy_all(file, memory, TIMEOUT)
        with errors(name, name, ""):
            if not schema.is_ledger(memory):
                raise LedgerError(f"{name} is no ledger of skdp.")
            version = schema.format_of(memory, name)
            schema.check_tables(memory)
            if memory.execute("SELECT COUNT(*) FROM ledger").fetchone()[0] != 1:
                raise LedgerError(f"The ledger {name} is damaged.")
            if version < schema.FORMAT:
                memory.execute("BEGIN")
                schema.upgrade(memory)
                memory.execute("COMMIT")
            schema.check_columns(memory)
            return memory, version
    except BaseException:
        memory.close()
        raise
