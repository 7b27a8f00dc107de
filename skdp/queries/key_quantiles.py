"""Quantiles by key: for each key a choice among the points between the bounds.

What is released: for each public key one of 2**20 + 1 points, with probability proportional to
exp(-eta * distance of q n to the ranks of the key's rows there). A unit changes the scores of a few
keys only, and of these by a bounded weight. Proofs: key_quantiles.md.

References
----------
A. Smith (2011), "Privacy-preserving statistical estimation with optimal convergence rates", STOC,
algorithm 2; J. Dong, D. Durfee, R. Rogers (2020), "Optimal differential privacy composition for
exponential mechanisms", ICML, section 3 (bounded range).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.privacy_filter import Release, Share, current_transcript, exact_fraction, released
from skdp.core.query import Measurement, reviewed
from skdp.core.table import REPLACE_ONE
from skdp.loss.conversions import pure_mu, pure_part
from skdp.queries.key_totals import MAX_ROWS_PER_UNIT
from skdp.queries.quantiles import Node, range_of_change, rates, rounded_level
from skdp.queries.ranked_columns import RankedColumn, Scored, choose
from skdp.tabular.contributions import FRACTION_BITS, POINT_BITS, KeyTerm

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable

__all__ = ["POINT_BITS", "KeyQuantiles", "rows_off"]

_MOST_BESIDE = 2**40  # public rows at an end of the bounds


def _rate(
    level: float | Fraction, q: float, max_keys: int, max_rows: int, *, pure: bool, relation: str
) -> tuple[Node, Fraction]:
    """Return the level as a choice, and eta of each key, per integer step of a score.

    A step is a row's 2**FRACTION_BITS-th part over the denominator of the level. A: `max_keys` keys
    change by `max_rows` rows at most. R: as many change by rows that are replaced, or twice as many
    by rows that enter or leave; see `rates`.
    """
    node = Node(0, -1, 1, rounded_level(exact_fraction(q)), True)
    replace = relation == REPLACE_ONE
    if pure:
        each = Fraction(level) / max_keys
        half = each / 2
    else:
        each, half = (
            2 * Fraction(pure_part(float(level), keys)) for keys in (max_keys, 2 * max_keys)
        )
    if not replace:
        (eta,) = rates([node], each, half, replace=False)
    else:
        # Two equal nodes: a row may leave one key for another.
        eta = rates([node, node], each, half, replace=True)[0]
    return node, eta / (max_rows << FRACTION_BITS)


def rows_off(
    level: float, q: float, max_keys: int, max_rows: int, *, pure: bool, relation: str
) -> float:
    """Return the number of rows off that costs a point a factor e, for this epsilon or mu."""
    node, eta = _rate(level, q, max_keys, max_rows, pure=pure, relation=relation)
    return float(1 / (eta * node.level.denominator)) / 2**FRACTION_BITS


@reviewed
@dataclass(frozen=True, eq=False)
class KeyQuantiles(Measurement):
    """The q-quantile of each key's rows, by the exponential mechanism.

    Guarantee: each of the keys that a unit may change takes an equal part of the share (of epsilon;
    of mu squared in a Gaussian session). A key without rows gets a random point.

    - `keys`: Public.
    - `term`: Of the kind ``"points"``, with a column and bounds.
    - `q`: In (0, 1).
    - `below`, `above`: Public rows that are added to each key, at the lower and the upper bound.
      Quantiles of the rows and these are beyond the quantiles of the rows by a number of ranks.
    - returns of shape (n_keys,): Numbers of points, from 0 at the lower bound to 2**POINT_BITS at
      the upper one; std is NaN.
    """

    name: ClassVar[str] = "quantiles by key"
    names: ClassVar[tuple[str, ...]] = ("keys",)
    keys: tuple[Any, ...]
    term: KeyTerm
    q: float
    max_keys: int
    max_rows: int
    below: int = 0
    above: int = 0

    def __post_init__(self) -> None:
        if self.term.kind != "points":
            raise ValueError(f"the term must be one of points, got {self.term.kind!r}")
        if not (1 <= self.max_rows <= MAX_ROWS_PER_UNIT and self.max_keys >= 1):
            raise ValueError("max_keys and max_rows must be at least 1, max_rows at most 2**14")
        if not 0 < self.q < 1:
            raise ValueError(f"q must be in (0, 1), got {self.q}")
        if not all(map(math.isfinite, (self.term.low, self.term.high))):
            raise ValueError("bounds of the term must be finite")
        if not (0 <= self.below < _MOST_BESIDE and 0 <= self.above < _MOST_BESIDE):
            raise ValueError("below and above must be numbers of rows")

    def _columns(self, table: PrivateTable) -> Iterator[RankedColumn]:
        """Yield each key's rows, weighted, with the public ones."""
        read = self.keys, repr(self.term), self.max_keys, self.max_rows
        known = table.rows.kept
        parts = known.get(read)
        if parts is None:
            parts = table.rows.points_by_key(self.keys, self.term, self.max_keys, self.max_rows)
        for part in parts:
            first, starts, points, weights = part
            if first == 0 and starts.size == len(self.keys) + 1:
                known[read] = [part]  # all keys: other quantiles of these rows need no pass
            starts, points, weights = self._with_ends(starts, points, weights)
            for start, stop in itertools.pairwise(starts.tolist()):
                some = start + np.flatnonzero(weights[start:stop])
                yield RankedColumn.of(points[some], weights[some])

    def _with_ends(
        self, starts: NDArray, points: NDArray, weights: NDArray
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Return the rows of keys with the public ones, at a point of their own or a known one."""
        for beside, end, place in ((self.below, 0, 0), (self.above, 1 << POINT_BITS, -1)):
            if not beside:
                continue
            where = starts[:-1] if place == 0 else starts[1:]
            known = np.where(place == 0, where, where - 1)[starts[1:] > starts[:-1]]
            known = known[points[known] == end]
            fresh = np.full(where.size, beside << FRACTION_BITS)
            weights = weights.copy()
            weights[known] += beside << FRACTION_BITS
            # A point without weight beside an equal one with weight changes no rank.
            fresh[np.searchsorted(starts, known, side="right") - 1] = 0
            points, weights = np.insert(points, where, end), np.insert(weights, where, fresh)
            starts = starts + np.arange(starts.size)
        return starts, points, weights

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        fraction, epsilon = meter.take(share, name)
        level = epsilon if meter.pure else meter.level(fraction)
        caps, pure, relation = (self.max_keys, self.max_rows), meter.pure, table.relation
        node, eta = _rate(level, self.q, *caps, pure=pure, relation=relation)

        def scored(column: RankedColumn) -> Scored:
            return lambda reach: column.part(
                0, column.n, 0, 1 << POINT_BITS, node.level, spread=False, reach=reach
            )

        def draw() -> NDArray:
            chosen = (choose(scored(c), eta, meter.entropy) for c in self._columns(table))
            return np.fromiter(chosen, dtype=np.int64, count=len(self.keys))

        # The number of runs tells of the rows: in a transcript they are one object.
        exact = np.empty(1, dtype=object)
        if current_transcript() is not None:
            exact[0] = [scored(column)(None).runs() for column in self._columns(table)]

        def distance(a: NDArray, b: NDArray) -> float:
            losses = [
                float(eta * range_of_change(runs, other))
                for runs, other in zip(a[0], b[0], strict=True)
            ]
            if pure:
                return sum(losses)
            return math.hypot(*(pure_mu(x / 2) for x in losses if x), 0.0)

        points = meter.release(name, exact, float(level), distance, draw, (len(self.keys),))
        moved = Fraction(self.max_rows) * (
            1 if relation == REPLACE_ONE else Fraction(node.widest, node.level.denominator)
        )
        scale = float(1 / (eta * node.level.denominator)) / 2**FRACTION_BITS
        meter.record(name, "exponential mechanism", "ranks", float(moved), scale, fraction)
        return released(points.astype(np.float64), np.full(len(points), np.nan))
