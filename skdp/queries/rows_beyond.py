"""How many rows units have beyond a bound: what a fit with that bound leaves out.

Released: one number. A row of the table is a unit, with the number of its rows, from
`skdp.tabular.UnitCounts`.

Guarantee: of a unit with c rows min(max(c - k, 0), M) are counted, a number in [0, M], so a unit
more or less moves the sum by at most M (A); one in the place of another, from one number in [0, M]
to another one, by at most M, too (R).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.mechanisms import Independent
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, reviewed
from skdp.core.table import PrivateTable

__all__ = ["RowsBeyond"]


@reviewed
@dataclass(frozen=True, eq=False)
class RowsBeyond(Query):
    """The rows of units beyond `max_rows`, of each unit at most `most`.

    Guarantee: L1 `most`, squared L2 its square, A and R alike.

    Attributes
    ----------
    max_rows, most : int
        Positive.
    """

    name: ClassVar[str] = "rows left out"
    max_rows: int
    most: int

    def exact(self, table: PrivateTable) -> NDArray:
        beyond = np.clip(table.rows.counts - self.max_rows, 0, self.most)
        return np.array([beyond.sum()], dtype=np.int64)

    def sensitivity(self, relation: str) -> Independent:
        if min(self.max_rows, self.most) < 1:
            raise ValueError("max_rows and most must be at least 1")
        return Independent(self.most, self.most**2)

    def decoded(self, noisy: Noisy) -> Release:
        return released(float(noisy.values[0]), float(noisy.std))
