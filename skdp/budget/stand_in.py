"""A stand-in for a budget, for audits: it grants every charge and writes none.

Nothing is released here. A fit that is given one is charged to no ledger, and its certificate says
so.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

from skdp.budget.budget import PrivacyBudget
from skdp.exceptions import PrivacyLeakError
from skdp.loss.charge import Charge, Cost

__all__ = ["StandInBudget"]

_HERE_ONLY = "what a run of a search fits, it fits in its own process: elsewhere nobody counts it"


class StandInBudget(PrivacyBudget):
    """A budget for audits: grants every charge, writes none, and lists them in `asked`.

    Parameters
    ----------
    adjacency : {"replace_one", "add_or_remove_one"}, default="replace_one"
    unit : str or None, default=None
    here_only : bool, default=False
        Refuse to charge, or to be pickled, in another process, whose charges `asked` would miss.

    Attributes
    ----------
    asked : list
        For each charge (cost, estimator, note), and for each fit what the ledger would publish of
        its releases.
    """

    __slots__ = ("_pid", "asked")

    def __init__(
        self,
        adjacency: str = "replace_one",
        unit: str | None = None,
        *,
        here_only: bool = False,
    ) -> None:
        super().__init__(1.0, adjacency=adjacency, unit=unit)
        self.asked: list[Any] = []
        self._pid = os.getpid() if here_only else None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pid is not None:
            raise PrivacyLeakError(_HERE_ONLY)
        return super().__reduce__()

    def __getstate__(self) -> dict[str, Any]:
        if self._pid is not None:
            raise PrivacyLeakError(_HERE_ONLY)
        return super().__getstate__()

    def charge(
        self,
        cost: Cost,
        *,
        estimator: str,
        seeded: bool = False,
        releases: Sequence[Mapping[str, Any]] = (),
        note: str = "",
    ) -> Charge:
        """Grant the charge and remember the parts of it that the ledger would publish."""
        if self._pid not in (None, os.getpid()):
            raise PrivacyLeakError(_HERE_ONLY)
        self.asked.append((cost, estimator, note))
        return Charge(
            number=len(self.asked),
            when=datetime.datetime.now(datetime.UTC),
            estimator=estimator,
            epsilon=cost.epsilon,
            delta=cost.delta,
            mechanism=cost.mechanism,
            mu=cost.mu,
            adjacency=self.adjacency,
            seeded=seeded,
            releases=tuple(releases),
            note=note,
            pid=os.getpid(),
            cost=cost,
        )

    def expect_rows(self, n_rows: int, name: str) -> None:
        """Expect any number of rows: it stands for no table."""

    def describe(self, charge: Charge, releases: Sequence[Mapping[str, Any]]) -> None:
        """Remember what the ledger would publish of the fit's releases."""
        self.asked.append([dict(release) for release in releases])
