"""How well the ends of a learned range are known: post-processing of released counts.

doc/synthetic.md shows how often doubts are raised, rightly and wrongly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.queries.learned_bounds.decoding import End, LearnedBox
from skdp.tabular.domain import NUMBER
from skdp.tabular.unstated import UNITS, ColumnPlan

__all__ = ["DOUBT_FAR", "DOUBT_ONE_VALUE", "LearnedRange", "range_of"]

DOUBT_FAR = "the range may be far too wide"
DOUBT_ONE_VALUE = "most rows seem to have one value, and how far the others reach is not known"

# The end over the distance up to which counts are clear of noise; columns with a tail have up to
# half as much.
_FACTOR = 8.0
_MOST = 0.75  # of the quantiles are one value
_UNSEEN = 0.003  # noise of a count, of the rows: ten times as many may be anywhere, unseen


@dataclass(frozen=True)
class LearnedRange:
    """The learned range of one column of numbers or dates, and the noisy counts behind its ends.

    A function of released numbers.

    - `low`, `high`: The learned bounds.
    - `clear_low`, `clear_high`: There are rows in the bin that ends here, or beyond it: noise alone
      shows as much in one of 10**8 counts. If that holds for no bin of a side, a value amid the
      rows.
    - `outer_low`, `outer_high`: The noisy number of rows from there to the last bin that was taken
      for rows (in that last bin, if it is clear itself), and the standard deviation of its noise.
      NaN if there is no such bin.
    - `doubts`: Texts of the warnings of a fit.
    """

    low: Any
    high: Any
    clear_low: Any
    clear_high: Any
    outer_low: tuple[float, float]
    outer_high: tuple[float, float]
    doubts: tuple[str, ...]


def range_of(
    box: LearnedBox, quantiles: NDArray[np.float64] | None, plan: ColumnPlan
) -> LearnedRange:
    """Return the range of the one column of a box.

    `quantiles` are released, at equal steps; None if every value has its own bin.
    """
    middle = float(box.middle[0])
    ends: tuple[End, ...] = box.ends[0] if box.ends else ()
    seen = [end for end in ends if end.seen > 0.0]
    spread = 0.0 if quantiles is None else float(quantiles.max() - quantiles.min())
    # Where no bin of a side is clear, the whole column tells which distances are usual.
    usual = [end.clear or max(abs(middle), spread) for end in seen]
    doubts = []
    if any(end.seen > 0.99 * _FACTOR * u > 0.0 for end, u in zip(seen, usual, strict=True)):
        doubts.append(DOUBT_FAR)
    if not seen:
        mostly_one_value = bool(ends) and ends[0].noise > _UNSEEN * box.n
    else:
        mostly_one_value = (
            quantiles is not None
            and np.unique(quantiles, return_counts=True)[1].max() >= _MOST * quantiles.size
            and any(math.isnan(end.hidden) for end in seen)
        )
    if mostly_one_value:
        doubts.append(DOUBT_ONE_VALUE)
    clear = [end.clear for end in ends] or [0.0, 0.0]
    none = (math.nan, math.nan)
    outer = [(e.outer, e.noise) if e.seen > 0.0 else none for e in ends] or [none, none]
    return LearnedRange(
        low=_shown(float(box.low[0]), plan),
        high=_shown(float(box.high[0]), plan),
        clear_low=_shown(middle - clear[0], plan),
        clear_high=_shown(middle + clear[1], plan),
        outer_low=outer[0],
        outer_high=outer[1],
        doubts=tuple(doubts),
    )


def _shown(value: float, plan: ColumnPlan) -> Any:
    """Return a learned value as a number, a date or a duration."""
    if plan.kind == NUMBER:
        return value
    limit = 2.0**62  # as bins of dates have it: whole seconds
    ticks = np.int64(np.clip(round(value * UNITS[plan.kind] / 1e6) * 1e6, -limit, limit))
    return ticks.view("M8[us]" if plan.kind == "moment" else "m8[us]")
