"""A column as counts of its rows at lattice points, and choices among these points.

A column is stored as its distinct lattice points with the number of rows below each, which one pass
over chunks counts where the lattice is small. A choice by the exponential mechanism scores only the
points whose ranks are near the wanted one; all others together weigh less than its arithmetic
resolves, and the rare draw that they could decide is decided among all.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import Floats, shared
from skdp.core.noise import exact
from skdp.core.noise.exponential import exp_weights
from skdp.core.table import PrivateTable

Ints = NDArray[np.int64]

SPREAD_BITS = (
    16  # rows of one lattice point are spread over 2**16 places of it, see `RankedColumn.places`
)
_FEW = 64  # rows of a point whose places are in a table
_COUNTED = 2**20  # points of a lattice that are counted one by one
_COUNTS = 2**21  # counts in one pass of one thread: 8 MB
_GATHERED = 2**18  # rows that are gathered rather than counted, or merged at once
_TOGETHER = 2**20  # values that are gathered in one pass: 8 MB
# Points whose score times eta is larger have weights below exp(-82) < 2**-118, beside at least 1 of
# the best: all 2**57 places of a column weigh less than 2**-60 together.
_NEAR = 82
_SELDOM = 10
_BLOCK = 2**9  # weights whose running sums are made where the choice is among them
_POWERS = 2**18  # weights of ranks that are kept: 2 MB


def gathered(
    rows: Any,
    take: Callable[[Any], NDArray],
    draw: Callable[[int], NDArray[np.intp]] | None = None,
    read: str = "chunk",
) -> Iterator[NDArray]:
    """Yield `take` of the rows of each chunk, in order; private, for ranks, which no sum gives.

    `take` maps a chunk to an array whose rows depend on one row each; `draw` returns the ascending
    positions that are taken of so many rows (None: all). `read` is as in `fold`.
    """
    if not hasattr(rows, "fold"):
        for start, stop in rows.spans():
            chunk = getattr(rows, read)(start, stop)
            yield take(chunk if draw is None else chunk[draw(stop - start)])
        return
    wanted = None
    if draw is not None:
        # The same draws as of the same rows in memory.
        drawn = [start + draw(stop - start) for start, stop in rows.spans_in_memory()]
        wanted = np.concatenate([np.zeros(0, dtype=np.int64), *drawn])
    yield from rows.gather(take, wanted=wanted, read=read)


class _Lattice(Protocol):
    size: int

    def number(self, x: Floats) -> Ints:
        """Return the number of the candidate of each value."""


def _numbering(lattices: Sequence[_Lattice], features: range) -> Callable[[Floats], Ints]:
    """Return the map of rows to the numbers of some features, (features, rows).

    Lattices of one kind are one, whose numbers stand in columns where they differ.
    """
    some = [lattices[j] for j in features]
    columns = slice(features.start, features.stop)
    if len({tuple(vars(lattice)) for lattice in some}) > 1:
        return lambda block: np.array(
            [a.number(x) for a, x in zip(some, block.T[columns], strict=True)]
        )
    together = copy.copy(some[0])
    for name in vars(together):
        ends = shared(np.array([getattr(lattice, name) for lattice in some]))
        setattr(together, name, ends[:, None] if np.ndim(ends) else ends)
    return lambda block: together.number(np.ascontiguousarray(block.T[columns]))


def reversed_bits(numbers: Ints) -> Ints:
    """Return the lowest `SPREAD_BITS` bits of each number in reverse order."""
    out = np.zeros_like(numbers)
    for bit in range(SPREAD_BITS):
        out |= ((numbers >> bit) & 1) << (SPREAD_BITS - 1 - bit)
    return out


@functools.cache
def _places_of_few() -> tuple[Ints, Ints]:
    """Return the sorted places of 0, 1, ... `_FEW` rows of a point, and where each list starts."""
    lists = [np.sort(reversed_bits(np.arange(1, m + 1))) for m in range(_FEW + 1)]
    sizes = np.arange(_FEW + 1)
    return np.concatenate(lists), np.cumsum(sizes) - sizes


@dataclass(frozen=True)
class Runs:
    """The scores of all lattice points of a part, as consecutive runs of equal scores; private.

    Run i has the points from starts[i] to starts[i] + lengths[i] - 1; lengths may be 0.
    """

    starts: Ints
    lengths: Ints
    scores: NDArray


@dataclass(frozen=True)
class Part:
    """Candidates from `low` to `high`, and the k distinct values of rows there; private.

    `below` has k + 1 numbers: of n rows so many are below each value, and up to the last one. With
    `widths` value i is so many candidates from `values[i]` on, one without.
    """

    values: Ints
    below: Ints
    n: int
    low: int
    high: int
    level: Fraction
    widths: Ints | None = None

    def runs(self) -> Runs:
        """Return the scores of all candidates.

        Between two values the score is the distance of q n to one rank, at a value to two and all
        between them.
        """
        a, b = self.level.numerator, self.level.denominator
        starts = np.full(2 * self.values.size + 1, self.low, dtype=np.int64)
        starts[1::2] = self.values
        starts[2::2] = self._stops()
        lengths = np.diff(np.append(starts, self.high + 1))
        rank = (self.below.astype(object) if b * self.n >= 2**62 else self.below) * b
        rank -= a * self.n
        scores = np.empty(starts.size, dtype=rank.dtype)
        np.abs(rank, out=scores[::2])
        np.maximum(rank[:-1], -rank[1:], out=scores[1::2])
        np.maximum(scores, 0, out=scores)
        return Runs(starts, lengths, scores)

    def _stops(self) -> Ints:
        return self.values + (1 if self.widths is None else self.widths)

    def run_at(self, eta: Fraction, v: int, others: float = 0.0) -> tuple[int, int] | None:
        """Return start and length of the run at v 2**-64 of all weight, None if it is not certain.

        The same run as the exponential mechanism's, with half as many sums. The first value with
        q n rows up to it, `middle`, has score 0. A value further left has the score of the
        candidates behind it, one further right of those before it, so that both are one run here.
        Scores go up by b a rank: their weights are powers. Bounds, u = 2**-53: a weight per point
        has a relative error of 2**-47, its product with a length below 2**62 and a running sum of
        m terms (m + 2) u more of the total; candidates beyond the reach of `_NEAR` weigh 2**-55 at
        most, left out or taken for those at the reach. The sums are compared with four times all
        this, as there. Candidates left out before it weigh `others` at most: they add between
        nothing and that to a partial sum and to V times the total, so a comparison moves by no
        more.
        """
        a, b = self.level.numerator, self.level.denominator
        if not eta or not self.values.size or b * self.n >= 2**62:
            return None
        down, up = a * self.n // b, -(-a * self.n // b)
        middle = int(np.searchsorted(self.below[1:], up))
        if middle == self.values.size:
            return None
        at = middle + 1
        stops = self._stops()
        lengths = np.empty(self.values.size + 1, dtype=np.int64)
        lengths[0], lengths[-1] = self.values[0] - self.low, self.high + 1 - stops[-1]
        np.subtract(self.values[1:at], self.values[:middle], out=lengths[1:at])
        np.subtract(stops[at:], stops[middle:-1], out=lengths[at:-1])
        weights = np.empty(lengths.size)
        left, right = down - self.below[:at], self.below[at:] - up  # ranks
        powers = _powers(eta * b)
        if powers is None:
            weights[:at] = exp_weights(left * b + (a * self.n - b * down), eta)
            weights[at:] = exp_weights(right * b + (b * up - a * self.n), eta)
        else:
            ends = exp_weights(np.array([a * self.n - b * down, b * up - a * self.n]), eta)
            weights[:at] = ends[0] * powers[np.minimum(left, powers.size - 1)]
            weights[at:] = ends[1] * powers[np.minimum(right, powers.size - 1)]
        sums = np.empty(lengths.size + 1)
        np.multiply(weights[:at], lengths[:at], out=sums[:at])
        np.multiply(weights[at:], lengths[at:], out=sums[at + 1 :])
        sums[at] = stops[middle] - self.values[middle]
        # Of all running sums only those about the target: first of blocks, then within one.
        blocks = np.cumsum(np.add.reduceat(sums, np.arange(0, sums.size, _BLOCK)))
        total = float(blocks[-1])
        target = v * 2.0**-64 * total
        margin = 4 * total * ((sums.size + 64) * 2.0**-53 + 2.0**-47 + exact.SLACK) + others
        if target < margin or target + margin >= total:
            return None
        block = int(np.searchsorted(blocks, target - margin, side="right"))
        near = sums[_BLOCK * block : _BLOCK * (block + 1)]
        near = np.cumsum(np.append(blocks[block - 1] if block else 0.0, near))
        j = int(np.searchsorted(near, target - margin, side="right"))
        if j == near.size or near[j] <= target + margin:
            return None
        i = _BLOCK * block + j - 1
        if i == at:
            return int(self.values[middle]), int(stops[middle] - self.values[middle])
        # The value of a run has the first of its weight on the left, the last on the right.
        k, is_left = i - (i > at), i < at
        if k == 0:
            return self.low, int(lengths[0])
        if k == self.values.size:
            return int(stops[-1]), int(lengths[-1])
        value = k - 1 if is_left else k
        start, width = int(self.values[value]), int(stops[value] - self.values[value])
        edge = near[j - 1] + weights[k] * width if is_left else near[j] - weights[k] * width
        if abs(target - edge) <= margin:
            return None
        if (target < edge) == is_left:
            return start, width
        return int(stops[k - 1]), int(lengths[k]) - width


@functools.lru_cache(maxsize=8)
def _powers(rate: Fraction) -> Floats | None:
    """Return exp(-rate * k) for ranks k up to the reach; None if these are many."""
    size = math.ceil(_NEAR / rate) + 2
    if size > _POWERS:
        return None
    powers = exp_weights(np.arange(size), rate)
    powers.flags.writeable = False
    return powers


Scored = Callable[[int | None], Part]  # all candidates of scores up to this one, or of all


@dataclass(frozen=True)
class RankedColumn:
    """The sorted rows of a column: its k ascending points, and the k + 1 counts of rows below each.

    The last count is the number of rows. Private.
    """

    points: Ints
    below: Ints

    @classmethod
    def of(cls, points: Ints, counts: Ints) -> RankedColumn:
        """Return the column with so many rows at these distinct points."""
        return cls(points, np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.below[-1])

    def at_ranks(self, ranks: Sequence[int]) -> Ints:
        """Return the points of the rows of these ranks, from 1 to n."""
        return self.points[np.searchsorted(self.below[1:], ranks)]

    @classmethod
    def of_sorted(cls, numbers: Ints) -> RankedColumn:
        """Return the column of rows in ascending order."""
        first = np.flatnonzero(np.append(numbers.size > 0, numbers[1:] != numbers[:-1]))
        return cls(numbers[first], np.append(first, numbers.size))

    def places(self, first: int, stop: int) -> tuple[Ints, Ints]:
        """Return the distinct places of the rows of some points, and the rows below each.

        The rows of one point are spread over its 2**16 places, nearly evenly: the j-th (j = 1, 2,
        ...) has place reverse(j): 1/2, 1/4, 3/4, 1/8, ... of the way. Guarantee: a function of the
        multiset of values; a row more in the column is a row more at one place, and moves no other.
        """
        counts = np.diff(self.below[first : stop + 1])
        starts = self.below[first:stop] - self.below[first]
        if counts.max(initial=0) <= _FEW:  # each row has a place of its own
            sorted_places, of_counts = _places_of_few()
            # The point of each row, as each point has one: twice as fast as `np.repeat`.
            point = np.zeros(int(counts.sum()), dtype=np.int64)
            point[starts[1:]] = 1
            np.cumsum(point, out=point)
            places = (self.points[first:stop] << SPREAD_BITS).take(point)
            of_rows = (of_counts[counts] - starts).take(point)
            of_rows += np.arange(point.size)
            places += sorted_places.take(of_rows)
            return places, np.arange(places.size + 1) + self.below[first]
        distinct = np.minimum(counts, 1 << SPREAD_BITS)
        rank = np.arange(1, int(distinct.sum()) + 1) - np.repeat(
            np.cumsum(distinct) - distinct, distinct
        )
        rows = ((np.repeat(counts, distinct) - rank) >> SPREAD_BITS) + 1
        places = (np.repeat(self.points[first:stop], distinct) << SPREAD_BITS) + reversed_bits(rank)
        order = np.argsort(places)
        below = np.concatenate([[0], np.cumsum(rows[order])]) + self.below[first]
        return places[order], below

    def rows_below(self, place: int) -> int:
        """Return the number of rows whose places are below this one."""
        i = int(np.searchsorted(self.points, place >> SPREAD_BITS))
        places, below = self.places(i, min(i + 1, self.points.size))
        return int(below[np.searchsorted(places, place)])

    def part(
        self,
        first: int,
        stop: int,
        low: int,
        high: int,
        level: Fraction,
        *,
        spread: bool,
        reach: int | None,
    ) -> Part:
        """Return candidates from low to high with the rows of ranks first to stop - 1, all within.

        Points or, if `spread`, their places. With a `reach` only an interval that has all
        candidates of a score up to it.
        """
        a, b, n = level.numerator, level.denominator, stop - first
        begin, end = first, stop  # ranks of the scored values
        if reach is not None:
            # A value beyond has all its rows, and more than reach / b ranks, on one side.
            begin = max(first, first + (a * n - reach) // b)
            end = min(stop, first - (-(a * n + reach) // b))
        i = int(np.searchsorted(self.below[1:], begin))
        j = max(i, int(np.searchsorted(self.below[:-1], end, side="right")))
        if spread:
            values, below = self.places(i, j)
        else:
            values, below = self.points[i:j], self.below[i : j + 1]
        # Only the rows of the part: a point, or its places, may have others before and behind.
        i = max(0, int(np.searchsorted(below, first, side="right")) - 1)
        j = min(max(i, int(np.searchsorted(below, stop))), values.size) if n else i
        values, below = values[i:j], np.clip(below[i : j + 1] - first, 0, n)
        if begin > first:
            low = int(values[0])
        if end < stop:
            high = int(values[-1])
        return Part(values, below, n, low, high, level)


def choose(
    scored: Scored,
    eta: Fraction,
    entropy: samplers.Entropy | None,
    reach: int | None = None,
    others: float = 2.0**-60,
    points: int | None = None,
) -> int:
    """Return a point with probability proportional to exp(-eta * score), one of less than 2**62.

    Exactly, if some point has score 0. Points of scores above `reach` weigh `others` at most; by
    default, of fewer than 2**57 points, those beyond `_NEAR`. Where the number of points is known,
    fewer are scored: all others weigh exp(-_SELDOM) of one of score 0, together.
    """
    if reach is None and eta:
        near: float = _NEAR
        if points is not None:
            near, others = math.log(points) + _SELDOM, math.exp(-_SELDOM) * (1 + 2.0**-30)
        reach = math.ceil(near / eta)
    part = scored(reach)
    v = samplers.uniform_below(1 << 64, entropy=entropy)
    run = part.run_at(eta, v, others)
    if run is None:
        runs = part.runs()

        def all_runs() -> tuple[NDArray, NDArray]:
            nonlocal runs
            runs = scored(None).runs()
            return runs.scores, runs.lengths

        i = samplers.exponential_mechanism(
            runs.scores, eta, runs.lengths, entropy=entropy, whole=all_runs, others=others, bits=v
        )
        run = int(runs.starts[i]), int(runs.lengths[i])
    return run[0] + samplers.uniform_below(run[1], entropy=entropy)


# --- reading ------------------------------------------------------------------------------------


def ranked_columns(
    table: PrivateTable, lattices: Sequence[_Lattice], n_labels: int | None = None
) -> Iterator[tuple[int, RankedColumn]]:
    """Yield (feature, its column), reading a few features in one pass over the rows.

    Many rows on a small lattice are counted; otherwise their distinct points are stored. With
    `n_labels` the rows of label k have the points from k times the size of the lattice on, those of
    no known label the last ones.
    """
    n, d = table.n, len(lattices)
    largest = max(lattice.size for lattice in lattices)
    counted = n > _GATHERED and largest <= _COUNTED and n_labels is None
    together = max(1, _COUNTS // largest if counted else _TOGETHER // max(n, 1))
    for first in range(0, d, together):
        features = range(first, min(first + together, d))
        if counted:
            columns = _counted(table, lattices, features)
        else:
            columns = _gathered(table, lattices, features, n_labels)
        yield from zip(features, columns, strict=True)


def _counted(
    table: PrivateTable, lattices: Sequence[_Lattice], features: range
) -> Iterator[RankedColumn]:
    """Count the rows at every point of the lattices of some features."""
    dtype = np.int32 if table.n < 2**31 else np.int64

    number = _numbering(lattices, features)

    def add(block: Floats, totals: list[NDArray]) -> None:
        for numbers, counts in zip(number(block), totals, strict=True):
            # A 1 of the same type: `add.at` is 40 times as fast then.
            np.add.at(counts, numbers, dtype(1))

    counts = table.fold(add, lambda: [np.zeros(lattices[j].size, dtype=dtype) for j in features])
    for column in counts:
        points = np.flatnonzero(column != 0)
        yield RankedColumn.of(points, column[points])


def _distinct(numbers: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the distinct ones of numbers below `size`, and how often each occurs."""
    if size <= min(_COUNTED, 8 * numbers.size):
        counts = np.bincount(numbers)
        points = np.flatnonzero(counts != 0)  # of booleans: four times as fast
        return points, counts[points]
    short = numbers.astype(np.int32) if size <= 2**31 else numbers  # sorted in half the time
    points, counts = np.unique(short, return_counts=True)
    return points.astype(np.int64), counts


def _gathered(
    table: PrivateTable, lattices: Sequence[_Lattice], features: range, n_labels: int | None
) -> Iterator[RankedColumn]:
    """Gather the distinct points of some features, and how often each occurs."""
    sizes = np.array([lattices[j].size for j in features])
    ends = sizes if n_labels is None else sizes * (n_labels + 1)
    columns = [(np.zeros(0, np.int64), np.zeros(0, np.int64)) for _ in features]
    waiting: list[list[Ints]] = [[] for _ in features]

    def merge() -> None:
        for i, parts in enumerate(waiting):
            if not parts:
                continue
            fresh, counts = _distinct(np.concatenate(parts), int(ends[i]))
            parts.clear()
            points, known = columns[i]
            if not points.size:
                columns[i] = fresh, counts
                continue
            fresh = np.concatenate([points, fresh])
            order = np.argsort(fresh, kind="stable")  # of two sorted parts: quick
            fresh = fresh[order]
            first = np.flatnonzero(np.append(True, fresh[1:] != fresh[:-1]))
            counts = np.add.reduceat(np.concatenate([known, counts])[order], first)
            columns[i] = fresh[first], counts

    limit = max(_GATHERED, 1)

    number = _numbering(lattices, features)

    def take(block: Any) -> NDArray:
        if n_labels is None:
            return number(block).T
        x, labels = block
        known = (labels >= 0) & (labels < n_labels)
        return number(x).T + np.where(known, labels, n_labels)[:, None] * sizes

    for numbers in gathered(table.rows, take, read="chunk" if n_labels is None else "labelled"):
        for parts, column in zip(waiting, numbers.T, strict=True):
            parts.append(column)
        if sum(part.size for part in waiting[0]) >= limit:
            limit = max(_GATHERED, columns[0][0].size)  # merging costs as much as is stored
            merge()
    merge()
    for points, counts in columns:
        yield RankedColumn.of(points, counts)
