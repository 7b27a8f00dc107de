"""Opening the ledger of a budget: made if it is not there, and compared if it is.

Nothing is released here. A ledger is opened with the terms that it was made with, and one table
has one ledger: a second one of the same data set in the same folder is refused, and so is the
backup of a ledger that is there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from skdp.budget import locks
from skdp.budget.files import is_url
from skdp.budget.ledger import Ledger, Terms
from skdp.budget.operations import LedgerOperations
from skdp.exceptions import LedgerError

__all__ = ["differences", "ledger_at", "open_or_create", "opened"]


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
