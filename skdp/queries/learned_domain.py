"""A domain for columns that nobody stated: categories by selection, bins within learned bounds.

Released: for the columns of categories, those values that enough rows have; for each column of
numbers or dates, bounds and quantiles within them, of which edges are made. Rows then get their
codes by what was released. Proofs: learned_domain.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Box
from skdp.core.mechanisms import independent_noise
from skdp.core.privacy_filter import Share
from skdp.core.query import Measurement, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable
from skdp.queries.key_selection import MAX_KEYS_PER_UNIT, SelectKeys
from skdp.queries.learned_bounds.learning import LearnedBounds
from skdp.queries.learned_ranges import LearnedRange, range_of
from skdp.queries.quantiles import Quantiles
from skdp.tabular.domain import NUMBER, Bins, Domain
from skdp.tabular.unstated import KEYS, NUMBERS, OTHER, UNITS, ColumnPlan, domain_of

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter

__all__ = ["LearnDomain", "LearnedDomain"]

# Of what a column of numbers may take: for the number of missing values, and for bounds; what is
# left is for quantiles.
MISSING, BOUNDS = Fraction(1, 20), Fraction(11, 20)
_CLEAR, _FEW_MISSING = (
    4.0,
    0.002,
)  # standard deviations, and of all rows, that are not taken for none
MOST_CATEGORIES = 1000  # of one column: more would be more cells than rows
_EXACT = 2.0**52  # whole numbers up to which halves are exact


def edges_of(
    low: float, high: float, quantiles: NDArray[np.float64], *, whole: bool
) -> NDArray[np.float64]:
    """Return edges at quantiles, with a bin of its own for a value that is several of them.

    Zero has one, too, if it is within the bounds: amounts are often nothing. A function of released
    numbers; edges increase whatever they are.

    Examples
    --------
    >>> edges_of(0.0, 9.0, np.array([0.0, 0.0, 3.0, 5.0]), whole=True).tolist()
    [-0.5, 0.5, 2.5, 4.5, 9.5]
    """
    whole = whole and max(abs(low), abs(high)) < _EXACT
    inner = quantiles[(quantiles >= low) & (quantiles <= high)]
    values, times = np.unique(np.concatenate([inner, [low, high]]), return_counts=True)
    single = set(values[times > 1].tolist())
    if low <= 0.0 <= high:
        single.add(0.0)
    points = set(values.tolist()) | single
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

    Attributes
    ----------
    domain : Domain
    ranges : dict
        By the label of each column of numbers that was learned.
    """

    domain: Domain
    ranges: dict[Any, LearnedRange]


@reviewed
@dataclass(frozen=True, eq=False)
class LearnDomain(Measurement):
    """The domain of rows without codes; rows get their codes by it.

    Guarantee: of the categories that of `SelectKeys`, where a row has a key for each of these
    columns; a row is without a value or not in each of d columns, L1 d, L2 sqrt(d), under both
    relations; of each column of numbers those of `LearnedBounds` and `Quantiles` on the rows that
    have a value in it, a filter of each row. A row's codes are a function of the row and of what
    was released. For rows from `skdp.tabular.check_uncoded`, by shares of equal size a column.

    Parameters
    ----------
    n : float
        The number of rows, as far as it is known.
    n_bins : int
        About so many bins for a column of numbers.

    Returns
    -------
    learned : LearnedDomain
    """

    name: ClassVar[str] = "domain"
    n: float
    n_bins: int

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> LearnedDomain:
        rows = table.rows
        if not hasattr(rows, "take_domain"):
            raise TypeError("a domain is learned from rows that have no codes yet")
        plans, fraction = rows.plans, meter.fraction(share)
        keyed = [j for j, plan in enumerate(plans) if plan.source == KEYS]
        numbers = [j for j, plan in enumerate(plans) if plan.source == NUMBERS]
        specs: dict[int, Any] = {}
        ranges: dict[Any, LearnedRange] = {}
        each = fraction / max(len(keyed) + len(numbers), 1)
        if keyed:
            query = SelectKeys(min(len(keyed), MAX_KEYS_PER_UNIT), "sips")
            keys = query.selected(table, meter, each * len(keyed), "categories")
            for j in keyed:
                specs[j] = categories_of([key for key in keys if key[0] == j], plans[j])
        incomplete = self._incomplete(table, meter, each, [j for j in numbers if plans[j].missing])
        for j in numbers:
            plan = replace(plans[j], missing=j in incomplete)
            specs[j], ranges[plan.label] = self._bins(table, meter, each, j, plan)
        every = [specs.get(j, plan.spec) for j, plan in enumerate(plans)]
        domain = domain_of(plans, every, named=rows.named)
        rows.take_domain(domain)
        return LearnedDomain(domain, ranges)

    def _incomplete(
        self, table: PrivateTable, meter: Meter, each: Fraction, columns: list[int]
    ) -> set[int]:
        """Return the columns of which so many rows are without a value that it gets a bin."""
        if not columns:
            return set()
        d = len(columns)
        exact = table.rows.missing_counts(columns)
        noisy, std = independent_noise(meter, "missing values", exact, d, d, each * d * MISSING)
        clear = noisy > max(_CLEAR * std, _FEW_MISSING * self.n)
        return {j for j, found in zip(columns, clear, strict=True) if found}

    def _bins(
        self, table: PrivateTable, meter: Meter, share: Fraction, j: int, plan: ColumnPlan
    ) -> tuple[Bins, LearnedRange]:
        """Release bounds and quantiles of the rows that have a value in one column."""
        part, each = PrivateTable(table.rows.column(j), table.stability), meter
        if part.rows.filtered:
            # A row replaced is one replaced, added or removed among those that are left.
            part = PrivateTable(part.rows, table.stability.filtered())
            each = meter.per_step(2) if table.relation == REPLACE_ONE else meter
        bounds = LearnedBounds(n=max(self.n, 1.0), audit=False, spare=0.25 / self.n_bins)
        box = bounds.measure(part, each, share * BOUNDS, f"bounds of {plan.label}")
        low, high = float(box.low[0]), float(box.high[0])
        if plan.integer:
            low, high = float(math.floor(low)), float(math.ceil(high))
        if not low < high:
            low, high = low - 1.0, low + 1.0
        levels = [(k + 1) / self.n_bins for k in range(self.n_bins - 1)]
        if plan.integer and high - low < 2 * self.n_bins and max(-low, high) < _EXACT:
            bins = Bins(np.arange(low, high + 2) - 0.5, integer=True, missing=plan.missing)
            return bins, range_of(box, None, plan)
        step = 1.0 if plan.integer else None
        query = Quantiles(Box([low], [high]), levels, step)
        found = query.measure(
            part, each, share * (1 - BOUNDS - MISSING), f"quantiles of {plan.label}"
        )
        edges = edges_of(low, high, found.value[0], whole=plan.integer)
        if plan.kind != NUMBER:
            bins = ticks_between(edges, plan)
        else:
            bins = Bins(edges, integer=plan.integer, missing=plan.missing)
        return bins, range_of(box, found.value[0], plan)


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
    """Return the categories of one column from its keys; those that were not found are the last."""
    values: list[Any] = []
    for _, _, value in keys:
        if value not in values:  # True and 1 are one category
            values.append(value)
    rest = OTHER if plan.text and all(v is None or isinstance(v, str) for v in values) else None
    values = [value for value in values if value != rest][:MOST_CATEGORIES]
    return [*values, rest]
