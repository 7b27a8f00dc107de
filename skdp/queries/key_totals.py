"""What a GROUP BY asks of units: totals and quantiles by key, histograms of units, rows left out.

A row of the private table is a unit with all its rows, from `skdp.tabular.check_grouped`. So each
query is a `RowSum` whose image is what one unit adds, and each image reads the units in a pass of
its own. A quantile is a choice for each key among points between the bounds. Proofs: key_totals.md.

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
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Floats
from skdp.core.privacy_filter import (
    Meter,
    Release,
    Share,
    exact_fraction,
    in_transcript,
    released,
)
from skdp.core.query import Measurement, check_ascending, reviewed
from skdp.core.sums import Image, Range, RowSum
from skdp.core.table import REPLACE_ONE, PrivateTable
from skdp.loss.conversions import pure_part
from skdp.queries.quantiles import Node, loss_between, rates, rounded_level
from skdp.queries.ranked_columns import RankedColumn, Scored, choose
from skdp.tabular.contributions import (
    CENTER_BITS,
    FRACTION_BITS,
    VALUE_BITS,
    KeyTerm,
    steps_of,
    term_width,
)
from skdp.tabular.contributions import (
    POINT_BITS as POINT_BITS,
)

MAX_ROWS_PER_UNIT = 2**14  # in a key: so that squares of a unit's sums are below 2**58


def _check_caps(max_keys: int, max_rows: int) -> None:
    if not (1 <= max_rows <= MAX_ROWS_PER_UNIT and max_keys >= 1):
        raise ValueError("max_keys and max_rows must be at least 1, max_rows at most 2**14")


def term_bound(term: KeyTerm, max_rows: int) -> tuple[int, int, int]:
    """Return a term's bounds for one unit in one key: L1, squared L2, and that of a change.

    The change is that of two units in the same key, or in two.

    Examples
    --------
    >>> term_bound(KeyTerm("rows"), 7)
    (7, 49, 98)
    """
    l1, levels = 1, 1
    if term.kind in ("rows", "filled"):
        l1 = max_rows
    elif term.kind in ("bins", "leaves", "between"):
        l1 = max_rows << FRACTION_BITS
        # A value is in one node of each level below the root.
        levels = term.depth if term.kind == "leaves" else 1
    elif term.kind == "about":
        l1 = (max_rows << (VALUE_BITS - CENTER_BITS)) ** 2
    elif term.kind in ("sum", "square"):
        l1 = max_rows * term.offset
    change = 2 * levels * l1**2
    if term.kind == "square":
        change = 4 * l1**2
    elif term.kind == "sum":
        lowest, highest = (steps_of(np.array([term.low, term.high]), term) - term.offset).tolist()
        change = max(change, (max_rows * (max(highest, 0) - min(lowest, 0))) ** 2)
    return levels * l1, levels * l1**2, change


def _nodes(leaves: NDArray) -> NDArray:
    """Return the counts of all nodes of a binary tree below its root, from those of its leaves."""
    start = leaves.shape[1] - 2
    nodes = np.empty((len(leaves), start + leaves.shape[1]), dtype=leaves.dtype)
    nodes[:, start:] = leaves
    while start:
        leaves = leaves[:, ::2] + leaves[:, 1::2]
        start -= leaves.shape[1]
        nodes[:, start : start + leaves.shape[1]] = leaves
    return nodes


class UnitImage(Image):
    """What one unit adds; the rows add it up over units by themselves."""

    own_pass = of_units = True


def unit_sum(image: UnitImage) -> RowSum:
    """Return the query of what all units add."""
    return RowSum(image, noise="entries", name=image.what)


@reviewed
@dataclass(frozen=True, eq=False)
class KeyTotals(UnitImage):
    """One of several terms, in each key of a unit; the answer has a row for each key.

    In the user's units: rows, units, values relative to the middle of their bounds or to 0, squares
    of half widths. For ``"leaves"``: all nodes of a binary tree below its root, level by level.

    Guarantee: a unit adds to at most `max_keys` keys, and two units differ in twice as many; see
    `term_bound`.

    - `keys`: Public. Totals of keys that the table does not have are 0.
    - `terms`: All terms to compute; the table is read once for them.
    - `index`: The place of the released term.
    """

    what = "totals by key"
    names = ("keys",)
    keys: tuple[Any, ...]
    terms: tuple[KeyTerm, ...]
    index: int
    max_keys: int
    max_rows: int

    def __post_init__(self) -> None:
        _check_caps(self.max_keys, self.max_rows)
        if not all(math.isfinite(end) for term in self.terms for end in (term.low, term.high)):
            raise ValueError("bounds of terms must be finite")
        if self._term.kind == "points":
            raise ValueError("points are no sum: ask KeyQuantiles")
        if self._term.kind == "between" and len(self._term.cuts) != len(self.keys):
            raise ValueError("cuts must be those of each key")

    @property
    def _term(self) -> KeyTerm:
        return self.terms[self.index]

    @property
    def shape(self) -> tuple[int, int]:
        term = self._term
        width = term_width(term)
        return len(self.keys), 2 * width - 2 if term.kind == "leaves" else width

    @property
    def unit(self) -> float:
        term = self._term
        if term.kind == "sum":
            return term.grid
        if term.kind in ("bins", "leaves", "between"):
            return 2.0**-FRACTION_BITS
        about, square = (2.0 ** (CENTER_BITS - VALUE_BITS)) ** 2, 2.0**-VALUE_BITS
        return {"about": about, "square": square}.get(term.kind, 1.0)

    @property
    def l1(self) -> int:
        return self.max_keys * term_bound(self._term, self.max_rows)[0]

    @property
    def l2_squared(self) -> int:
        return self.max_keys * term_bound(self._term, self.max_rows)[1]

    @property
    def change_l2_squared(self) -> int:
        return self.max_keys * term_bound(self._term, self.max_rows)[2]

    def table_total(self, table: PrivateTable) -> NDArray:
        term = self._term
        # The table is read once for all terms.
        known = table.rows.kept
        read = (self.keys, repr(self.terms), self.max_keys, self.max_rows)
        if read not in known:
            known[read] = table.rows.totals(self.keys, self.terms, self.max_keys, self.max_rows)
        start = sum(map(term_width, self.terms[: self.index]))
        totals = known[read][:, start : start + term_width(term)]
        if term.kind == "leaves":
            totals = _nodes(totals)
        largest = max(int(totals.max()), -int(totals.min())) if totals.size else 0
        return totals.ravel().astype(np.int64 if largest < 2**62 else object, copy=False)


@reviewed
@dataclass(frozen=True, eq=False)
class UnitShapes(UnitImage):
    """A unit's bins in two histograms: its number of keys, and of rows in a random one of these.

    - `keys`: Public; None for all keys of the table.
    - `key_edges`, `row_edges`: The least number of each bin, ascending from 1.
    """

    what = "keys and rows of units"
    names = ("keys",)
    l1 = l2_squared = 2
    change_l1 = change_l2_squared = 4
    keys: tuple[Any, ...] | None
    key_edges: tuple[int, ...]
    row_edges: tuple[int, ...]

    def __post_init__(self) -> None:
        check_ascending(self.key_edges, "key_edges")
        check_ascending(self.row_edges, "row_edges")

    @property
    def shape(self) -> tuple[int]:
        return (len(self.key_edges) + len(self.row_edges),)

    def table_total(self, table: PrivateTable) -> NDArray:
        counts: NDArray = table.rows.shapes(self.keys, self.key_edges, self.row_edges)
        return counts

    def decoded(self, sums: Floats, std: float, count: Any) -> tuple[Release, Release]:
        split = len(self.key_edges)
        return released(sums[:split], std), released(sums[split:], std)


@reviewed
@dataclass(frozen=True, eq=False)
class LeftOut(UnitImage, Range):
    """A unit's (unit, key) pairs and rows that bounding left out.

    Of these keys, or with None of all keys of the table.

    Guarantee: with pairs counted in steps of `max_rows`, both numbers lie between 0 and
    `max_keys` * `max_rows`.
    """

    what = "left out"
    names = ("keys",)
    shape = (2,)
    keys: tuple[Any, ...] | None
    max_keys: int
    max_rows: int

    @property
    def largest(self) -> int:
        return self.max_keys * self.max_rows

    def table_total(self, table: PrivateTable) -> NDArray:
        rows = self.max_keys * self.max_rows
        out = table.rows.left_out(self.keys, self.max_keys, self.max_rows, self.max_keys, rows)
        return np.array([int(out[0]) * self.max_rows, int(out[1])], dtype=np.int64)

    def decoded(self, sums: Floats, std: float, count: Any) -> Release:
        scale = np.array([1.0 / self.max_rows, 1.0])
        return released(sums * scale, std * scale)


@reviewed
@dataclass(frozen=True, eq=False)
class UnitSpread(UnitImage):
    """The share of a unit's values in each bin; the outer bins include values beyond them.

    Guarantee: shares are not negative and add up to at most 1, so they differ by at most 2 (L1 and
    squared L2).
    """

    what = "spread of values"
    column: str
    edges: tuple[float, ...]
    unit = 2.0**-FRACTION_BITS
    l1 = 1 << FRACTION_BITS
    l2_squared = l1**2
    change_l1, change_l2_squared = 2 * l1, 2 * l2_squared

    def __post_init__(self) -> None:
        check_ascending(self.edges, "edges")

    @property
    def shape(self) -> tuple[int]:
        return (len(self.edges) - 1,)

    def table_total(self, table: PrivateTable) -> NDArray:
        spread: NDArray = table.rows.spread(self.column, self.edges)
        return spread


# --- quantiles by key -----------------------------------------------------------------------------
#
# Released is for each public key one of 2**20 + 1 points, with probability proportional to
# exp(-eta * distance of q n to the ranks of the key's rows there). A unit changes the scores of a
# few keys only, and of these by a bounded weight.

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
        _check_caps(self.max_keys, self.max_rows)
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

        # The number of runs tells of the rows.
        exact = in_transcript(
            lambda: [scored(column)(None).runs() for column in self._columns(table)]
        )

        distance = loss_between([eta] * len(self.keys), pure=pure)
        points = meter.release(name, exact, float(level), distance, draw, (len(self.keys),))
        moved = Fraction(self.max_rows) * (
            1 if relation == REPLACE_ONE else Fraction(node.widest, node.level.denominator)
        )
        scale = float(1 / (eta * node.level.denominator)) / 2**FRACTION_BITS
        meter.record(name, "exponential mechanism", "ranks", float(moved), scale, fraction)
        return released(points.astype(np.float64), np.full(len(points), np.nan))
