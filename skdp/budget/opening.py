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
from skdp.budget.ledger import Ledger, Terms
from skdp.exceptions import LedgerError

__all__ = ["differences", "open_or_create"]


def differences(stored: Mapping[str, str | None], terms: Terms) -> list[str]:
    """Return in what the terms of a ledger file differ from those of a budget."""
    return [
        f"{name}={stored[name]}, not {text}"
        for name, text in terms.texts().items()
        if stored[name] != text
    ]


def open_or_create(path: str, terms: Terms, facts: dict[str, str]) -> tuple[Ledger, dict[str, Any]]:
    """Return the ledger at `path`, made if it is not there, and what it says of itself."""
    folder = os.path.dirname(path)
    named = "dataset" in facts
    with locks.folder_locked(folder, 10.0) if named else contextlib.nullcontext():
        if not os.path.exists(path):
            if named:
                _refuse_second(path, facts["dataset"])
            with contextlib.suppress(FileExistsError):  # another process was faster: open it
                return Ledger.create(path, terms, facts), facts
        ledger, stored = Ledger.open(path)
        wrong = differences(stored, terms) + [
            f"{name}={stored[name]}, not {value}"
            for name, value in facts.items()
            if stored[name] not in (None, value)
        ]
        if wrong:
            raise ValueError(f"The ledger {path} was made with " + "; ".join(wrong) + ".")
        new: dict[str, Any] = {name: value for name, value in facts.items() if stored[name] is None}
        original = stored["backup_of"]
        if original is not None:
            if original != path and Ledger.is_at(original, ledger.id):
                raise LedgerError(
                    f"The ledger {path} is a backup of {original}, which is there: open that."
                )
            new["backup_of"] = None
        if named or stored["dataset"] is not None:
            _refuse_second(path, facts.get("dataset", stored["dataset"]))
        if new:
            ledger.state(new)
    return ledger, {**stored, **new}


def _refuse_second(path: str, dataset: str) -> None:
    """Raise if another ledger of the same data set lies in the folder."""
    others = Ledger.others_of(path, dataset)
    if others:
        raise LedgerError(
            f"One table has one ledger, and that of dataset={dataset!r} is {others[0]}; {path} "
            "would be a second one."
        )
