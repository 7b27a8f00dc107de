"""Sessions on tables of which rows are left out, for missing cells or by a filter of each row.

Which rows are left out is private, and so is how many: the rows that are left are a table
whose neighbours have one row more or less ("add_or_remove_one"). Under "replace_one" a row that is
replaced may leave that table and another enter it, two steps: noise is then for half of the
allowance a step. Proof: kernel/README.md, "Missing cells".
"""

from __future__ import annotations

import dataclasses
from typing import Any

from skdp.budget import PrivacyBudget
from skdp.kernel import statistics as stats
from skdp.kernel.certificate import PrivacyCertificate, ReleaseRecord
from skdp.kernel.rows import Rows
from skdp.kernel.session import Session

__all__ = ["GapsSession", "open_session_with_gaps"]

_OTHER = "add_or_remove_one"


class GapsSession(Session):
    """A session on the rows that are left; open it with `open_session_with_gaps`.

    Attributes
    ----------
    adjacency : str
        That of the rows that are left: always "add_or_remove_one".
    claimed : str
        The relation of the whole table, for which the claim and the certificate are.
    """

    shows_row_count = False  # neither to a reader, nor to the budget: that number is private

    def __init__(self, rows: Rows, **options: Any) -> None:
        if options.get("delta_apart"):
            # Two steps would cost more than twice a delta that stands apart from mu.
            raise ValueError("a session on rows without gaps has no delta_apart")
        super().__init__(rows, **options)
        self.claimed = self.adjacency
        self._steps = 2 if self.claimed == stats.REPLACE_ONE else 1
        self.adjacency = _OTHER
        self._epsilon_exact /= self._steps
        if self.mu is not None:
            self.mu /= self._steps

    def _described(self) -> list[ReleaseRecord]:
        """Return the records with what releases lose between neighbours of the whole table."""
        return [
            dataclasses.replace(
                record,
                epsilon=None if record.epsilon is None else record.epsilon * self._steps,
                mu=None if record.mu is None else record.mu * self._steps,
            )
            for record in self._records
        ]

    def certificate(self) -> PrivacyCertificate:
        """Return what has been released so far and the session's guarantee for the whole table."""
        return dataclasses.replace(
            super().certificate(),
            adjacency=self.claimed,
            mu=None if self.mu is None else self.mu * self._steps,
        )


def open_session_with_gaps(
    rows: Rows, *, delta: float = 0.0, budget: PrivacyBudget | None = None, **options: Any
) -> GapsSession:
    """Charge the budget and return a session on rows that a filter of each row has left.

    Rows from ``check_table(..., omit=True)`` are such, and so are those that a caller has chosen by
    the values of each.

    Guarantee: everything it releases is (epsilon, delta)-differentially private together, for the
    whole table and the budget's relation. Parameters as `open_session`.
    """
    return GapsSession(rows, delta=delta, budget=budget, **options)
