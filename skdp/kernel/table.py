"""The private table of a session: its rows, and the relation between neighbouring tables.

Nothing is released here. A query reads rows through this value only: in blocks (`fold`), whose
integer totals do not depend on their order, or through the readers of `skdp.kernel.rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy.typing import NDArray

from skdp.kernel import statistics as stats
from skdp.kernel.protect import Floats
from skdp.kernel.rows import Rows

__all__ = ["PrivateTable"]


@dataclass(frozen=True, repr=False, eq=False)
class PrivateTable:
    """Private rows and the relation under which they are protected.

    Attributes
    ----------
    rows : Rows
        Checked.
    relation : {"replace_one", "add_or_remove_one"}
    """

    rows: Rows
    relation: str

    def __repr__(self) -> str:
        return f"PrivateTable(n_features={self.rows.n_features}, relation={self.relation!r})"

    @property
    def n(self) -> int:
        """The exact number of rows; private under "add_or_remove_one"."""
        return self.rows._n

    @property
    def replace(self) -> bool:
        """Whether the relation is "replace_one"."""
        return self.relation == stats.REPLACE_ONE

    def fold(
        self,
        add: Callable[[Floats, list[NDArray]], None],
        fresh: Callable[[], list[NDArray]],
        *,
        width: int = 1,
        least: int = 256,
    ) -> list[NDArray]:
        """Add up what `add` makes of every block of rows; see `skdp.kernel.statistics.fold`."""
        return stats.fold(self.rows, add, fresh, width=width, least=least)
