"""A domain for columns that nobody stated: selected categories, bins within learned bounds.

`learn_domain` answers queries of single columns and makes the domain of their answers: the values
that enough rows have, or edges at quantiles within learned bounds. Then rows get their codes by
what was released. Proofs: learned_domain.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Box
from skdp.core.session import Session
from skdp.core.sums import RowSum
from skdp.queries.columns import FilledCells, OfColumn
from skdp.queries.key_selection import SelectKeys
from skdp.queries.learned_bounds.decoding import End, LearnedBox
from skdp.queries.learned_bounds.learning import LearnedBounds
from skdp.queries.quantiles import Quantiles
from skdp.tabular.domain import NUMBER, Bins, Domain
from skdp.tabular.unstated import KEYS, NUMBERS, OTHER, UNITS, ColumnPlan, domain_of

# Parts of the share of a column of numbers: for the number of missing values, and for bounds. The
# remaining part is for quantiles.
MISSING, BOUNDS = Fraction(1, 20), Fraction(11, 20)
# So many missing values are taken for none: in standard deviations, and of all rows.
_CLEAR, _FEW_MISSING = 4.0, 0.002
MOST_CATEGORIES = 1000  # of one column: more would be more cells than rows
_EXACT = 2.0**52  # whole numbers up to which halves are exact
_TAIL_EDGES = 4  # at most, between the outermost quantile and the bound of a side


def tail_points(low: float, high: float, quantiles: NDArray[np.float64]) -> list[float]:
    """Return points between the outermost quantiles and the bounds, each further than the last.

    A bound may be a thousand times as far from the rows as the outermost quantile. Rows spread
    evenly up to it would dominate every mean. Distances from the median at least double, so that
    the released tables tell how many rows lie how far out. A function of released numbers.

    Examples
    --------
    >>> tail_points(0.0, 100.0, np.array([0.0, 4.0, 8.0]))
    [12.0, 20.0, 36.0, 68.0]
    """
    middle, found = float(np.median(quantiles)), []
    for bound, outer in ((low, float(quantiles.min())), (high, float(quantiles.max()))):
        reach, start = abs(bound - middle), abs(outer - middle)
        start = start or float(np.ptp(quantiles)) or reach / 2.0 ** (_TAIL_EDGES + 1)
        if not 0.0 < start < reach < math.inf:
            continue
        factor = max(2.0, (reach / start) ** (1 / (_TAIL_EDGES + 1)))
        distances = [start * factor**k for k in range(1, _TAIL_EDGES + 1)]
        sign = math.copysign(1.0, bound - middle)
        found += [middle + sign * d for d in distances if d < 0.99 * reach]
    return found


def edges_of(
    low: float, high: float, quantiles: NDArray[np.float64], *, whole: bool
) -> NDArray[np.float64]:
    """Return edges at quantiles, with a bin of its own for a value that is several of them.

    Zero has one, too, if it is within the bounds: amounts are often nothing. A function of released
    numbers; edges increase whatever they are.

    Examples
    --------
    >>> edges_of(0.0, 9.0, np.array([0.0, 0.0, 3.0, 5.0]), whole=True).tolist()
    [-0.5, 0.5, 2.5, 4.5, 7.5, 9.5]
    """
    whole = whole and max(abs(low), abs(high)) < _EXACT
    inner = quantiles[(quantiles >= low) & (quantiles <= high)]
    values, times = np.unique(np.concatenate([inner, [low, high]]), return_counts=True)
    single = set(values[times > 1].tolist())
    if low <= 0.0 <= high:
        single.add(0.0)
    points = set(values.tolist()) | single
    points |= {p for p in tail_points(low, high, quantiles) if low < p < high}
    if whole:
        below = {math.floor(v) - 0.5 for v in (points - {high}) | single} | {
            math.floor(v) + 0.5 for v in single
        }
        ends = {math.floor(low) - 0.5, math.floor(high) + 0.5}
        edges = sorted(e for e in below | ends if min(ends) <= e <= max(ends))
        return np.array(edges)
    after = {float(np.nextafter(v, math.inf)) for v in single}
    edges = sorted(e for e in points | after if e <= high or e in after)
    if len(edges) < 2:
        edges.append(float(np.nextafter(edges[0], math.inf)))
    return np.array(edges)


class LearnedDomain(NamedTuple):
    """A domain, and how well the ends of its numbers are known: functions of what was released.

    - `ranges`: By the label of each column of numbers that was learned.
    """

    domain: Domain
    ranges: dict[Any, LearnedRange]


def learn_domain(
    session: Session,
    plans: Sequence[ColumnPlan],
    n: float,
    n_bins: int,
    share: Fraction,
    *,
    named: bool,
    foremost: int | None = None,
) -> LearnedDomain:
    """Learn the domain of the session's rows, which have no codes, and give them codes by it.

    The rows are from `skdp.tabular.check_uncoded`. Columns have equal shares; the `foremost` column
    of numbers, if there is one, as much as all others.

    - `plans`: Of the session's rows.
    - `n`: The number of rows, as far as it is known.
    - `n_bins`: About so many bins for a column of numbers.
    - `share`: Of the session's allowance, for all columns.
    - `named`: Whether the domain has names.
    """
    keyed = [j for j, plan in enumerate(plans) if plan.source == KEYS]
    numbers = [j for j, plan in enumerate(plans) if plan.source == NUMBERS]
    specs: dict[int, Any] = {}
    ranges: dict[Any, LearnedRange] = {}
    others = len(keyed) + len(numbers) - (foremost in numbers)
    part = share / (max(others, 1) * (2 if others and foremost in numbers else 1))
    if keyed:
        keys = session.answer(SelectKeys(len(keyed), "sips", "categories"), part * len(keyed))
        for j in keyed:
            specs[j] = categories_of([key for key in keys if key[0] == j], plans[j])
    incomplete: set[int] = set()
    if nullable := tuple(j for j in numbers if plans[j].missing):
        query = RowSum(FilledCells(nullable, missing=True), noise="entries", name="missing values")
        missing = session.answer(query, part * len(nullable) * MISSING)
        clear = missing.value > max(_CLEAR * missing.std, _FEW_MISSING * n)
        incomplete = {j for j, is_clear in zip(nullable, clear, strict=True) if is_clear}
    for j in numbers:
        plan = replace(plans[j], missing=j in incomplete)
        own = part * max(others, 1) if j == foremost else part
        specs[j], ranges[plan.label] = _learned_bins(session, j, plan, n, n_bins, own)
    every = [specs.get(j, plan.spec) for j, plan in enumerate(plans)]
    domain = domain_of(plans, every, named=named)
    session.code_rows(domain)
    return LearnedDomain(domain, ranges)


def _learned_bins(
    session: Session, j: int, plan: ColumnPlan, n: float, n_bins: int, share: Fraction
) -> tuple[Bins, LearnedRange]:
    """Return bins of the rows that have a value in one column, from bounds and quantiles."""

    def answer(query: Any, part: Fraction, what: str) -> Any:
        return session.answer(OfColumn(j, query), share * part, name=f"{what} of {plan.label}")

    bounds = LearnedBounds(n=max(n, 1.0), audit=False, spare=0.25 / n_bins)
    box = answer(bounds, BOUNDS, "bounds")
    low, high = float(box.low[0]), float(box.high[0])
    if plan.integer:
        low, high = float(math.floor(low)), float(math.ceil(high))
    if not low < high:
        low, high = low - 1.0, low + 1.0
    levels = [(k + 1) / n_bins for k in range(n_bins - 1)]
    if plan.integer and high - low < 2 * n_bins and max(-low, high) < _EXACT:
        bins = Bins(np.arange(low, high + 2) - 0.5, integer=True, missing=plan.missing)
        return bins, range_of(box, None, plan)
    query = Quantiles(Box([low], [high]), levels, 1.0 if plan.integer else None)
    quantiles = answer(query, 1 - BOUNDS - MISSING, "quantiles").value[0]
    edges = edges_of(low, high, quantiles, whole=plan.integer)
    if plan.kind != NUMBER:
        bins = ticks_between(edges, plan)
    else:
        bins = Bins(edges, integer=plan.integer, missing=plan.missing)
    return bins, range_of(box, quantiles, plan)


def ticks_between(edges: NDArray[np.float64], plan: ColumnPlan) -> Bins:
    """Return bins of dates or durations from edges in the unit that they are learned in."""
    limit = 2.0**62  # whole seconds: nobody states a date more precisely
    edges = np.round(edges * UNITS[plan.kind] / 1e6) * 1e6
    ticks = np.unique(np.clip(edges, -limit, limit).astype(np.int64))
    if ticks.size < 2:
        ticks = np.array([ticks[0], ticks[0] + 1])
    unit = "M8[us]" if plan.kind == "moment" else "m8[us]"
    return Bins(ticks.view(unit), missing=plan.missing)


def categories_of(keys: list[Any], plan: ColumnPlan) -> list[Any]:
    """Return the categories of one column from its keys; all others are the last."""
    values: list[Any] = []
    for _, _, value in keys:
        if value not in values:  # True and 1 are one category
            values.append(value)
    others = OTHER if plan.text and all(v is None or isinstance(v, str) for v in values) else None
    values = [value for value in values if value != others][:MOST_CATEGORIES]
    return [*values, others]


# --- how well the ends of a learned range are known -----------------------------------------------
#
# Post-processing of released counts. doc/synthetic.md shows how often doubts are raised, rightly
# and wrongly.

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
