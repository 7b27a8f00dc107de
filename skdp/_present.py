"""Tables with missing cells, a column at a time: each is asked of the rows that have a value in it.

Nothing is released here, except that an open session is asked for bounds of a column, and for the
number of rows that have a value in it; both only where bounds are not stated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core import Box, Count, Session
from skdp.queries import LearnedBounds, LearnedBox, OfColumn
from skdp.tabular import ColumnPlan

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]

_COUNT, _BOUNDS = Fraction(1, 20), Fraction(1, 2)  # of what a column may take


@dataclass(frozen=True)
class Present:
    """A column with bounds; what it has left of the allowance is for the answers asked of it.

    Attributes
    ----------
    session : Session
    number : int
    label : str
    low, high : float
    box : Box
        From low to high.
    learned : LearnedBox or None
        None with stated bounds.
    counts_private : bool
        Whether the type of the column has missing values: how many are there is private then.
    end : Fraction or None
        What the session keeps for the columns after it; None for the last one.
    """

    session: Session
    number: int
    label: str
    low: float
    high: float
    box: Box
    learned: LearnedBox | None
    counts_private: bool
    end: Fraction | None

    def left(self) -> Any:
        """Return what the column has left."""
        return self.session.remaining - (self.end or 0)

    def answer(self, query: Any, name: str, part: Fraction | None = None) -> Any:
        """Answer a query of the column for a part of what it has left, or for all of it."""
        share = None if self.end is None and part is None else self.left() * (part or 1)
        query = OfColumn(self.number, query)
        return self.session.answer(query, share, name=f"column {self.label}, {name}")


def present_columns(
    session: Session,
    plans: Sequence[ColumnPlan],
    stated: Pair | None,
    *,
    audit: bool,
    spare: float = 0.0,
) -> Iterator[Present]:
    """Yield the columns with bounds; each has an equal part of what is left of the allowance.

    Parameters
    ----------
    session : Session
        Of rows from `skdp.tabular.check_columns`.
    plans : sequence of ColumnPlan
    stated : tuple of two ndarrays of shape (n_features,) or None
    audit, spare
        Of `LearnedBounds`.
    """
    d = len(plans)
    for j, plan in enumerate(plans):
        # What is left, in equal parts: bounds take what they need, and no more.
        left = session.remaining / (d - j)
        end = session.remaining - left
        learned = None
        if stated is None:
            label = f"column {plan.label}"
            count = session.answer(OfColumn(j, Count()), left * _COUNT, name=f"{label}, count")
            query = LearnedBounds(n=max(float(count.value), 1.0), audit=audit, spare=spare)
            learned = session.answer(OfColumn(j, query), left * _BOUNDS, name=f"{label}, bounds")
            low, high = learned.low, learned.high
        else:
            low, high = stated[0][j : j + 1], stated[1][j : j + 1]
        ends, box = (float(low[0]), float(high[0])), Box(low, high, per_feature=True)
        last = None if j == d - 1 else end
        yield Present(session, j, str(plan.label), *ends, box, learned, plan.missing, last)
