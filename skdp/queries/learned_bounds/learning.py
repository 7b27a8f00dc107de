"""Learning bounds: a median of every column, counts of distances from it, an audit.

What is released, in this order: the number of rows where it is private; of each column a point m
amid its rows, chosen by the exponential mechanism from a floating lattice with a public prior;
noisy counts of the rows' distances from m by factors of √2, once, or twice if the first leave
doubts; the noisy number of rows outside the bounds that `decoding` makes of these. How much each
takes of the allowance follows the public (or released) number of rows. Where a column's part is too
small for its rows, one box is learned for all, of the rows' least and greatest values, or of their
largest. Proofs: learned_bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import Floats
from skdp.core.mechanisms import Independent
from skdp.core.privacy_filter import Meter, Share, current_transcript, in_transcript
from skdp.core.query import Measurement, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable, fold
from skdp.queries.cells import check_center
from skdp.queries.histograms import histogram_sensitivity
from skdp.queries.learned_bounds.decoding import (
    End,
    LearnedBox,
    Side,
    audited_box,
    box_for_all,
    box_of_ends,
    box_within_types,
    ends_of_sides,
    is_doubtful,
    noise_level,
    prior,
    unsound_box,
)
from skdp.queries.quantiles import recursion, rounds_of
from skdp.queries.ranked_columns import Part, RankedColumn, Runs, choose, gathered
from skdp.queries.samples import RATE_BITS, draw_poisson
from skdp.tabular.rows import Rows

Ints = NDArray[np.int64]

_POINT_BITS = 22  # points of a binade of the lattice
_DROPPED_BITS = 52 - _POINT_BITS  # of a double's 52 bits after its binade
_MAGNITUDE = 2**63 - 1  # all bits but the sign
_CENTER = 4  # the binade that is likeliest before anything is known
_DEEPEST = 85  # binades below it: rows that are wrongly taken to be as small do no harm
_ZERO, _POSITIVE, _NEGATIVE = 0.05, 0.70, 0.25  # prior of 0 and of the signs
_WEIGHT_BITS = 36  # of a point's weight, for a binade that has all of its sign's prior
_MEDIAN = Fraction(1, 2)
# Level times rows, pure; Gaussian noise needs about a third.
_OWN = 200  # that a column needs for bounds of its own
_FEW = 600  # below it, bounds stay near what was seen
_SURE = 1200  # below it, no error is claimed
_LEAST = 60  # below it, nothing but a point amid the rows is learned
_AMID = 110.0  # that a location takes in columns far from 0; half as many where rows are added
# The most of the allowance without errors: with a fifth, bounds missed their rows in one column of
# 60 where n epsilon was 650 a column, in two of three where it was 300.
_SHARE, _ENOUGH = 0.2, 1000
_LEAST_POINT = 100.0  # rows times level for which a point alone is looked for
_GAUSSIAN = 0.3
_VISIBLE = 0.035  # part of the rows that a far group may have without being seen
_COLUMN_VALUES = 2**19  # values of a random part of the rows that are held at once: 4 MB
_COLUMNS_VALUES = 2**19  # and of all rows, where they are held: 4 MB
_NUMBERS = 5 * 2**19  # candidates that are held of rows read as often as they are asked: 10 MB
_MOST_NUMBERS = 5 * 2**20  # and where all rows of a column are at its median
_USUALLY_NEAR = 24  # ranks, times the rate at which chances fall with them, that these are among
_SAMPLE = 2**11  # values of a column that tell where its median's neighbours lie
_NEAR = 17  # candidates far from the median weigh, together, less than exp(-17) of those about it
_RANKS = 160  # rows that a location needs, times the rate at which its chances fall with ranks
_MANY = 2**17  # rows of which a random part serves
_BEYOND = float(np.finfo(np.float64).max)  # a missing cell among values, on either side
_MOST = 2**19  # rows of a column that are held at once: with what is computed of them, 100 MB


# --- planning -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearningPlan:
    """The parts of an allowance that learning takes: public, or of a released number of rows.

    - `mode` ({"columns", "extremes", "largest"}): Of what: each column, the rows' least and
      greatest values, or their largest in size.
    - `size`: Rows times epsilon (or mu) of one such column.
    - `few`, `sure`: Whether bounds stay near what was seen; whether an error may be claimed.
    - `binades`: Above `_CENTER`, that bounds are looked for in.
    - `location`, `shape`, `doubt`, `audit`: For the medians, the counts of distances, their second
      release, the rows outside.
    - `pure`, `replace`: The noise, and the relation.
    """

    mode: str
    size: float
    few: bool
    sure: bool
    binades: int
    location: Fraction
    shape: Fraction
    doubt: Fraction
    audit: Fraction
    pure: bool
    replace: bool

    @property
    def visible(self) -> float:
        """Part of the rows that a group far from the others must have to be seen."""
        share, twice = float(self.shape + self.doubt), 2.0 if self.replace else 1.0
        if not share:
            return 1.0
        std = math.sqrt(2.0) * twice / share if self.pure else math.sqrt(twice / share)
        return min(_clear(std, gaussian=not self.pure) / self.size, 1.0)

    @property
    def total(self) -> Fraction:
        """All that learning may take."""
        return self.location + self.shape + self.doubt + self.audit

    def at_most(self, most: float) -> Fraction:
        """Return the share of what is for later answers: a fifth, and up to `most` of few rows."""
        size = self.size / (1.0 if self.pure else _GAUSSIAN)
        few = _SHARE * max(_ENOUGH / size, 1.0) ** 0.75 if self.mode == "columns" else _SHARE
        return _percent(min(few, most))

    def within(self, share: Fraction, *, d: int) -> LearningPlan:
        """Return the plan of d columns with at most this share in all.

        The location of a column like 10**5 +- 5 takes `_AMID` rows times the level, whatever the
        number of rows is; without it, the bounds hold no row.
        """
        if share >= self.total:
            return self
        location = self.location * (share / self.total)
        if self.pure:
            amid = _percent(_AMID / (self.size if self.replace else 2.0 * self.size))
            location = max(location, min(self.location, amid, share / (3 if d == 1 else 4)))
        scale = (share - location) / (self.total - self.location) if self.shape else Fraction(1)
        return changed(
            self,
            location=location,
            shape=self.shape * scale,
            doubt=self.doubt * scale,
            audit=self.audit * scale,
        )


def _binades(size: float) -> int:
    """Return in how many binades above `_CENTER` rows are looked for; size: rows times level."""
    return int(min(max(10 + size / 8, 12), 85))


def _percent(x: float) -> Fraction:
    return Fraction(max(math.ceil(1000 * x - 1e-9), 0), 1000)


def plan_learning(
    n: float, d: int, level: float, adjacency: str, *, pure: bool, audit: bool = True
) -> LearningPlan:
    """Return what learning the bounds of n rows of d columns takes of an allowance.

    - `n`: Number of rows, public or released.
    - `level`: What everything may lose: epsilon, or mu.
    - `audit`: Whether errors are wanted: then the rows outside are counted, and counts that leave
      doubts are released again.
    """
    whole = max(n, 1.0) * level
    size, mode = whole / (d if pure else math.sqrt(d)), "columns"
    ease = 1.0 if pure else _GAUSSIAN
    # A row more or less moves counts half as far as a row replaced.
    doubled = adjacency != REPLACE_ONE
    easier = (2.0 if pure else 1.4) if doubled else 1.0
    if size < _OWN * ease and d > 1:
        size, mode = whole / (2.0 if pure else math.sqrt(2.0)), "extremes"
        if size < _OWN * ease or d == 2:
            size, mode = whole, "largest"
    eased = size * easier
    if size < _LEAST * ease:
        location, shape, doubt = 0.5, 0.0, 0.0
    elif pure:
        rows = 150 if audit else 75
        location = min(max(rows / eased, 0.03 if eased < 20_000 else 0.01), 0.2)
        both = min(max(0.5 * (1200 / eased) ** 0.45, 0.1), 0.5)
        shape = min(max(650 / eased, 0.07), both)
        doubt = both - shape if audit else 0.0
    else:
        location = min(max((100 / eased) ** 2, 0.01), 0.15)
        both = min(max(0.25 * (1000 / eased) ** 0.7, 0.04), 0.35)
        shape = min(max((176 / eased) ** 2, 0.03), both)
        doubt = both - shape if audit else 0.0
    audits = audit and mode == "columns" and size >= _OWN * ease
    return LearningPlan(
        mode=mode,
        size=size,
        few=size < _FEW * ease,
        sure=eased >= _SURE * ease,
        binades=_binades(size),
        location=_percent(location),
        shape=_percent(shape),
        doubt=_percent(doubt) if doubt > 0.01 else Fraction(0),
        audit=_percent(0.08) if audits else Fraction(0),
        pure=pure,
        replace=not doubled,
    )


def _short(
    n: float, d: int, level: float, adjacency: str, *, pure: bool, most: Fraction | None = None
) -> float:
    """Return about how many times the rows, or epsilon, errors ask for; 1 if there are enough.

    With a share `most`, so many that errors are known of most columns, which are counted once.
    """
    times = 1.0
    while times < 1e5:
        plan = plan_learning(n * times, d, level, adjacency, pure=pure)
        if most is not None:
            plan = changed(plan.within(most, d=d), doubt=Fraction(0))
        if plan.sure and plan.visible <= _VISIBLE and plan.mode == "columns":
            break
        times *= 1.05
    return times


def _clear(std: float, *, gaussian: bool) -> float:
    """Return the count of one bin that is taken for rows, eight binades from the others."""
    return float(noise_level(np.log(np.array([1e-5])), 1, std, gaussian=gaussian)[0])


# --- a lattice with a prior ----------------------------------------------------------------------


class FloatLattice:
    """Floating-point candidates with public integer weights, numbered 0 .. size - 1, ascending.

    0, and 2**22 equally spaced points in each binade [2**k, 2**(k + 1)), of both signs. A value
    counts as the next candidate towards 0, or as the outermost one.

    - `binades`: Above 2**4; below it there are always `_DEEPEST`.
    """

    def __init__(self, binades: int) -> None:
        self.first = _CENTER - _DEEPEST
        self.binades = _DEEPEST + binades
        self.points = self.binades << _POINT_BITS  # of a sign
        self.size = 2 * self.points + 1
        shape = prior(np.arange(self.binades, dtype=np.float64) + self.first + 0.5, _CENTER)
        shape /= shape.sum()
        unit = 2.0**_WEIGHT_BITS
        sides = [
            np.maximum(np.rint(unit * side * shape), 1.0).astype(np.int64)
            for side in (_NEGATIVE, _POSITIVE)
        ]
        zero = np.array([round(_ZERO * unit * 2.0**_POINT_BITS)])
        # Segments of equal weights, ascending: negative binades from the far end, 0, positive ones.
        self._weights = np.concatenate([sides[0][::-1], zero, sides[1]])
        lengths = np.full(self._weights.size, 1 << _POINT_BITS)
        lengths[self.binades] = 1
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        self._mass = np.concatenate([[0], np.cumsum(lengths * self._weights)])
        # The mass below a number is its weight times it and this; both may wrap around.
        self._offsets = self._mass[:-1] - self._starts[:-1] * self._weights

    def number(self, x: Floats) -> Ints:
        """Return the number of each value's candidate: a value's own concern.

        The bits of a double are its binade and then its place there, so candidates of one sign are
        those bits without the last 30.
        """
        bits = np.ascontiguousarray(x).view(np.int64)
        size = (bits & _MAGNITUDE) >> _DROPPED_BITS
        size -= ((self.first + 1023) << _POINT_BITS) - 1
        np.clip(size, 0, self.points, out=size)
        sign = bits >> 63  # -1 below 0
        size ^= sign
        size -= sign
        size += self.points
        return size

    def value(self, number: int) -> float:
        """Return a candidate."""
        size = abs(number - self.points) - 1
        if size < 0:
            return 0.0
        binade, part = size >> _POINT_BITS, size & ((1 << _POINT_BITS) - 1)
        value = math.ldexp(1.0 + part * 2.0**-_POINT_BITS, binade + self.first)
        return value if number > self.points else -value

    def _segments(self, number: Ints) -> Ints:
        """Return the segment of equal weights that each number is in."""
        from_zero = number >= self.points
        segment: Ints = ((number - from_zero) >> _POINT_BITS) + from_zero
        return np.minimum(segment, self._weights.size - 1, out=segment)

    def mass(self, number: Ints) -> Ints:
        """Return the weight of all candidates below each number."""
        return self._weighed(number)[0]

    def _weighed(self, number: Ints) -> tuple[Ints, Ints]:
        """Return the weight of all candidates below each number, and its own."""
        segment = self._segments(number)
        weights = self._weights[segment]
        return number * weights + self._offsets[segment], weights

    def at_mass(self, mass: int) -> int:
        """Return the number of the candidate that this much weight, counted from below, is in."""
        segment = int(np.searchsorted(self._mass, mass, side="right")) - 1
        return int(self._starts[segment]) + (mass - int(self._mass[segment])) // int(
            self._weights[segment]
        )

    def _from(self, number: int) -> float:
        """Return the least value whose candidate has this number or a larger one."""
        if number == 0:
            return -math.inf
        if number > self.points:
            return self.value(number)
        return math.nextafter(self.value(number - 1), math.inf)

    def part(self, column: RankedColumn, n: int, reach: int | None) -> Part:
        """Score all candidates by a column of n rows, or those of a score up to `reach`."""
        return column.part(0, n, 0, self.size - 1, _MEDIAN, spread=False, reach=reach)

    def weighted(self, part: Part) -> Part:
        """Return the same part with as many points for each candidate as it has weight."""
        values, widths = self._weighed(part.values)
        low, high = self.mass(np.array([part.low, part.high + 1])).tolist()
        return changed(part, values=values, widths=widths, low=low, high=high - 1)

    def windows(self, samples: Floats, n: int, eta: Fraction) -> list[Window]:
        """Return where the candidates about the median are looked for in columns of n rows.

        Sorted samples of the columns, (columns, values), tell. Candidates far from the median are
        left out where they weigh so little that they seldom matter.
        """
        size = samples.shape[1]
        middle, width = size // 2, math.ceil(size / (2 * eta * n))
        ends = samples[:, [max(middle - width, 0), min(middle + width, size - 1)]]
        about = np.diff(self.mass(self.number(ends) + np.array([0, 1])))[:, 0]
        whole, slack, found = int(self._mass[-1]), 1.5 * math.sqrt(size), []
        for sample, mass in zip(samples, about.tolist(), strict=True):
            near = math.ceil(_NEAR + math.log(whole / mass))
            reach = math.ceil(near / eta)
            begin, end = max((n - reach) // 2, 0), min((n + reach + 1) // 2, n)
            first = math.floor(size * begin / n - slack)
            last = math.ceil(size * end / n + slack)
            low, high = self.number(sample[[max(first, 0), min(last, size - 1)]]).tolist()
            least = self._from(low) if first >= 0 else -math.inf
            beyond = self._from(high + 1) if last < size and high < self.size - 1 else math.inf
            others = whole * math.exp(-near) * (1 + 2.0**-30)
            found.append(Window(least, beyond, begin, end, reach, others))
        return found

    def ranked(self, blocks: Iterable[Floats], windows: Sequence[Window]) -> Iterator[RankedColumn]:
        """Yield the candidates of the values in each column's window, and the rows below each."""
        least, beyond = np.array([[[w.least], [w.beyond]] for w in windows]).transpose(1, 0, 2)
        below, pieces = np.zeros(len(windows), dtype=np.int64), []
        with np.errstate(all="ignore"):
            for block in blocks:
                values = np.ascontiguousarray(block.T)
                inside = values >= least
                below += len(block) - np.array([np.count_nonzero(column) for column in inside])
                inside &= values < beyond
                places = np.flatnonzero(inside)
                cuts = np.searchsorted(places, len(block) * np.arange(len(windows) + 1)).tolist()
                pieces.append((self.number(values.ravel()[places]).astype(np.int32), cuts))
        for j, fewer in enumerate(below.tolist()):
            parts = [numbers[cuts[j] : cuts[j + 1]] for numbers, cuts in pieces]
            ordered = np.concatenate([np.zeros(0, dtype=np.int32), *parts])
            ordered.sort()
            column = RankedColumn.of_sorted(ordered)
            yield RankedColumn(column.points.astype(np.int64), fewer + column.below)

    def columns(
        self, blocks: Callable[[], Iterable[Floats]], n: int, eta: Fraction, d: int
    ) -> Iterator[WeightedColumn]:
        """Yield d columns of n rows, each near its median where there are many rows.

        - `blocks`: Returns the rows block by block, (rows, d): the same ones each time.
        - `eta`: What choices are asked with; 0 for whole columns.
        """
        windows = [_EVERYWHERE] * d
        if n > _SAMPLE and eta:
            step = n // _SAMPLE
            with np.errstate(all="ignore"):
                samples = np.concatenate([block[::step] for block in blocks()])
            windows = self.windows(np.sort(samples.T.copy(), axis=1), n, eta)
        for j, (ranked, window) in enumerate(
            zip(self.ranked(blocks(), windows), windows, strict=True)
        ):

            def whole(j: int = j) -> RankedColumn:
                column = (block[:, j : j + 1] for block in blocks())
                return next(self.ranked(column, [_EVERYWHERE]))

            is_missed = ranked.below[0] > window.begin or ranked.below[-1] < window.end
            yield WeightedColumn(self, n, whole() if is_missed else ranked, window, whole)


@dataclass(frozen=True)
class Window:
    """Where the candidates of a score up to `reach` are looked for: in [least, beyond).

    They are there if so many rows are below `least` at most, and `end` at least below `beyond`. The
    other candidates weigh `others` at most, where one of score 0 weighs 1.
    """

    least: float
    beyond: float
    begin: int
    end: int
    reach: int | None
    others: float


_EVERYWHERE = Window(-math.inf, math.inf, 0, 0, None, 2.0**-60)


@dataclass(frozen=True)
class WeightedColumn:
    """A column's rows about its median on a lattice, and what reads all of them; private."""

    lattice: FloatLattice
    n: int
    near: RankedColumn
    window: Window
    whole: Callable[[], RankedColumn]

    def runs(self) -> Runs:
        """Return the scores of all candidates."""
        return self.lattice.part(self.whole(), self.n, None).runs()

    def choose(self, eta: Fraction, entropy: samplers.Entropy | None) -> int:
        """Return a candidate with probability proportional to weight * exp(-eta * score).

        A choice that the candidates left out could decide is made among all.
        """
        lattice, window = self.lattice, self.window

        def scored(reach: int | None) -> Part:
            column = self.near if reach is not None else self.whole()
            return lattice.weighted(lattice.part(column, self.n, reach))

        return lattice.at_mass(choose(scored, eta, entropy, window.reach, window.others))


# --- distances ----------------------------------------------------------------------------------

_SIDE = 2**11  # numbers of half doublings of one sign
_UP_TO_POWER = 2**52 - 2
_AT_ONCE = 2**16  # values: temporary arrays stay in cache


def distance_edges(middle: float, binades: int, *, upwards: bool) -> Floats:
    """Return the edges of the bins of a side: factors of √2, and the distance of 0 if it is there.

    The first is the lower edge of the first bin; what is nearer to the middle is in no bin.
    """
    halves = np.arange(2 * (_CENTER - _DEEPEST) - 1, 2 * (_CENTER + binades) + 3)
    whole, odd = halves // 2, halves % 2
    edges = np.ldexp(np.where(odd == 1, math.sqrt(2.0), 1.0), whole)
    if middle != 0.0 and (middle < 0) == upwards and abs(middle) > edges[0]:
        edges = np.union1d(edges, [abs(middle)])
    return edges


def _reduced(mode: str, columns: NDArray[np.bool_]) -> Callable[[Floats], Floats]:
    """Return the map of a block of rows to what is learned of these columns; row by row.

    A missing cell is NaN, and takes no part in the least and the greatest of a row.
    """

    def some(block: Floats) -> Floats:
        return block if columns.all() else block[:, columns]

    if mode == "columns":
        return some
    if mode == "extremes":
        return lambda block: np.stack(
            [side.reduce(some(block), axis=1) for side in (np.fmin, np.fmax)], axis=1
        )
    return lambda block: np.fmax.reduce(np.abs(some(block)), axis=1, keepdims=True)


def _half_doublings(distance: Floats) -> Ints:
    """Return the number of the half doubling that each distance is in; its upper end is in it.

    The bits of its square are rounded up to the next power of two, and so are those of the square
    of a power times √2, which is the double after a power: no other square is. The numbers of
    distances below 0 are smaller by `_SIDE`.
    """
    squares = np.abs(distance)
    squares *= distance
    halves = squares.view(np.int64)
    halves += _UP_TO_POWER
    halves >>= 52
    return halves


def _flat(block: Floats, columns: Floats) -> Iterator[Floats]:
    """Yield the values of a block, row by row, as many at once as `columns` has numbers."""
    values = np.ascontiguousarray(block).ravel()
    for start in range(0, values.size, columns.size):
        yield values[start : start + columns.size]


def _repeated(numbers: NDArray) -> NDArray:
    """Return a number a column for so many rows as are worked on at once."""
    return np.tile(numbers, max(_AT_ONCE // numbers.size, 1))


def distance_counts(
    rows: Rows, image: Callable[[Floats], Floats], middles: Floats, edges: list[list[Floats]]
) -> list[Ints]:
    """Count each column's distances from its middle, by side; a bin holds its outer edge.

    - returns: Of the bins of the low side and then of the high side, one array a column. A row adds
      one to one bin of each column, or to none.
    """
    d = middles.size
    ends = _half_doublings(
        np.array([edge for pair in edges for side in pair for edge in side[:: side.size - 1]])
    )
    first, size = int(ends.min()), int(ends.max() - ends.min()) + 1
    within = 2 * np.clip(np.arange(_SIDE) - first, 0, size - 1)
    place = np.concatenate([within + 2 * size, within])  # a negative number counts from the end
    # Distances from 0 are compared: it is an edge of the side that it is on.
    zeros = _repeated(np.where(middles < 0, np.nextafter(-middles, np.inf), -middles))
    centers, columns = _repeated(middles), _repeated(4 * size * np.arange(d))

    def add(block: Floats, totals: list[NDArray]) -> None:
        for values in _flat(image(block), centers):
            distance = values - centers[: values.size]
            bins = place[_half_doublings(distance)]
            bins += columns[: values.size]
            distance -= zeros[: values.size]
            bins -= distance.view(np.int64) >> 63  # one more if it is below
            np.add.at(totals[0], bins, 1)

    (both,) = fold(rows, add, lambda: [np.zeros(4 * size * d, np.int64)])
    both = both.reshape(d, 2, size, 2)
    counts, below = both.sum(axis=3), both[:, :, :, 1].sum(axis=(1, 2))
    by_column = zip(counts, below.tolist(), middles.tolist(), edges, strict=True)
    found = []
    for column, below_zero, middle, pair in by_column:
        beyond_zero = [below_zero, int(column.sum()) - below_zero]
        for side, edge in enumerate(pair):
            beyond = np.append(column[side][::-1].cumsum()[::-1], 0)
            rows_beyond = beyond[_half_doublings(edge[:-1]) - first + 1]
            if middle != 0.0 and (middle < 0) == (side == 1):
                rows_beyond[edge[:-1] == abs(middle)] = beyond_zero[side]
            found.append(rows_beyond - np.append(rows_beyond[1:], 0))
    return [np.concatenate(found[i : i + 2]) for i in range(0, 2 * d, 2)]


def outside_counts(
    rows: Rows, image: Callable[[Floats], Floats], low: Floats, high: Floats
) -> Ints:
    """Count the rows outside the bounds, column by column."""
    d, lows, highs = low.size, _repeated(low), _repeated(high)

    def add(block: Floats, totals: list[NDArray]) -> None:
        for values in _flat(image(block), lows):
            outside = values < lows[: values.size]
            outside |= values > highs[: values.size]
            totals[0] += np.bincount(np.flatnonzero(outside) % d, minlength=d)

    (counts,) = fold(rows, add, lambda: [np.zeros(low.size, dtype=np.int64)])
    return counts


# --- the query -----------------------------------------------------------------------------------


def _type_ranges(table: PrivateTable) -> Floats:
    """Return the ends of what the types of the columns can hold; infinite where unknown."""
    ranges = np.tile([[-np.inf], [np.inf]], table.n_features)
    known = getattr(table.rows, "ranges", None)  # of the first columns; a target has none
    if known is not None:
        ranges[:, : known.shape[1]] = known
    return ranges


def _counted_rows(table: PrivateTable, meter: Meter) -> float:
    """Return the number of rows: public, or released for a small share."""
    if table.n_is_public:
        return max(float(table.n), 1.0)
    exact = np.array([table.n], dtype=np.int64)
    share = Fraction(1, 50 if meter.pure else 100)
    noisy, _ = Independent(1, 1).noised(meter, "count", exact, share)
    return max(float(noisy[0]), 1.0)


def _medians(
    table: PrivateTable,
    meter: Meter,
    lattice: FloatLattice,
    image: Callable[[Floats], Floats],
    d: int,
    share: Fraction,
    n_known: float,
) -> Floats:
    """Release a point amid the rows of each column, of `image`.

    Of very many rows, which need not be in memory, a random part.
    """
    fraction, epsilon = meter.take(share, "locations")
    (only_round,) = rounds_of(table, meter, recursion([_MEDIAN]), fraction, epsilon, d)
    eta = only_round.etas[0]
    wanted = min(max(_MANY, math.ceil(_RANKS / (2 * eta))), _MOST)
    part = Fraction(math.floor(min(wanted / n_known, 1.0) * 2**RATE_BITS), 2**RATE_BITS)
    # In a transcript stand whole columns: random parts of neighbours differ in many rows.
    near = eta
    if current_transcript() is not None:
        part, near = Fraction(1), Fraction(0)
    values = np.empty(d)
    rows = min(n_known, wanted)
    together = int((_COLUMN_VALUES if part < 1 else _COLUMNS_VALUES) / rows)
    if part == 1 and not table.in_parts:
        together = int(min(_NUMBERS / min(rows, _USUALLY_NEAR / float(eta)), _MOST_NUMBERS / rows))
    together = max(1, together)
    for first in range(0, d, together):
        features = range(first, min(first + together, d))
        n, blocks = _read(table, meter, image, features, part)
        columns = lattice.columns(blocks, n, near, len(features))
        for j, column in zip(features, columns, strict=True):
            # The number of runs tells of the rows.
            exact = in_transcript(lambda: [column.runs()])  # noqa: B023

            def draw(column: WeightedColumn = column) -> NDArray:
                return np.array([column.choose(eta, meter.entropy)], dtype=np.int64)

            name = "location" if d == 1 else f"location, feature {j}"
            loss, distance = only_round.loss, only_round.distance
            chosen = meter.release(name, exact, loss, distance, draw, (1,))
            values[j] = lattice.value(int(chosen[0]))
    moved = 1.0 if table.n_is_public else 0.5
    scale = float(1 / (2 * eta))
    meter.record("locations", "exponential mechanism", "ranks", moved, scale, fraction)
    return values


def _read(
    table: PrivateTable,
    meter: Meter,
    image: Callable[[Floats], Floats],
    features: range,
    part: Fraction,
) -> tuple[int, Callable[[], Iterable[Floats]]]:
    """Return the number of rows, and what reads some columns of them; of a random part of the rows.

    All rows are read anew each time; a part of them, or rows elsewhere, are read once and held.
    """

    def take(block: Floats) -> Floats:
        return image(block)[:, features.start : features.stop]

    def copied(block: Floats) -> Floats:
        # A copy: it is kept, and the block may be large.
        return take(block).copy()

    def draw(n: int) -> NDArray[np.int64]:
        return draw_poisson(n, part, meter.entropy)

    filled = _beside if _has_missing(table) else iter
    if part == 1 and not table.in_parts:
        return table.n, lambda: filled(gathered(table.rows, take))
    with np.errstate(all="ignore"):
        blocks = filled(gathered(table.rows, copied, draw if part < 1 else None))
        held = np.concatenate([np.zeros((0, len(features))), *blocks])
    step = max(_AT_ONCE // len(features), 1)
    return len(held), lambda: (held[i : i + step] for i in range(0, len(held), step))


def _has_missing(table: PrivateTable) -> bool:
    """Say whether cells of these rows may be NaN, which is none: see `OfColumn`."""
    return getattr(table.rows, "has_missing", False)


def _beside(blocks: Iterable[Floats]) -> Iterator[Floats]:
    """Yield blocks whose missing cells are the least and the greatest values, in turn, by column.

    The ranks of the others about their median are then as without them, or all one half more.
    """
    seen = np.zeros(1, dtype=np.int64)
    for block in blocks:
        missing = np.isnan(block)
        if missing.any():
            number = np.cumsum(missing, axis=0) + seen
            seen = number[-1]
            block = np.where(missing, np.where(number % 2 == 1, -_BEYOND, _BEYOND), block)
        yield block


def _shaped(
    table: PrivateTable,
    meter: Meter,
    plan: LearningPlan,
    n: float,
    image: Callable[[Floats], Floats],
    middles: Floats,
    spare: float,
) -> LearnedBox:
    """Release counts of distances, and again where they leave doubts; return the box."""
    d = middles.size
    edges = [
        [distance_edges(m, plan.binades, upwards=up) for up in (False, True)]
        for m in middles.tolist()
    ]

    def apart(block: Floats) -> Floats:
        # A missing cell is no distance from the middle, which is in no bin.
        values = image(block)
        return np.where(np.isnan(values), middles, values)

    exact = distance_counts(table.rows, apart if _has_missing(table) else image, middles, edges)
    every = list(range(d))
    counts, std = _counted(table, meter, "distances", exact, every, plan.shape)
    stds = np.full(d, std)

    def ends(columns: list[int], std: float, left: Fraction) -> list[list[End]]:
        sides = []
        for j in columns:
            m, cut = float(middles[j]), edges[j][0].size - 1
            for up, part in enumerate((counts[j][:cut], counts[j][cut:])):
                towards_zero = m != 0.0 and (m < 0) == (up == 1)
                sides.append(Side(part, edges[j][up][1:], m, abs(m) if towards_zero else 0.0))
        found = ends_of_sides(
            sides, std, gaussian=not meter.pure,
            balance=max(1.0 / _each(table, meter, left, d), spare * n),
            few=plan.few, chance=min(1.0, 10.0 / d), rows=n,
        )  # fmt: skip
        return [found[i : i + 2] for i in range(0, len(found), 2)]

    left = max(meter.remaining - plan.audit, Fraction(1, 100))
    box = box_of_ends(middles, ends(every, std, left), n)
    if plan.doubt:
        each = _each(table, meter, left, d)
        noise = (math.sqrt(2.0) if meter.pure else 1.0) * (2.0 if table.n_is_public else 1.0) / each
        doubtful = np.flatnonzero(is_doubtful(box, noise)).tolist()
        if doubtful:
            share = plan.doubt * Fraction(len(doubtful), d)
            again, more = _counted(table, meter, "distances, again", exact, doubtful, share)
            left = max(left - share, Fraction(1, 100))
            total = std**2 + more**2
            # Weighted by precision; without noise, as it is.
            w = more**2 / total if total > 0 else 0.5
            for i, j in enumerate(doubtful):
                counts[j] = w * counts[j] + (1.0 - w) * again[i]
            stds[doubtful] *= more / math.sqrt(total) if total > 0 else 1.0
            end_of = list(map(list, box.ends))
            for j, pair in zip(
                doubtful, ends(doubtful, float(stds[doubtful[0]]), left), strict=True
            ):
                end_of[j] = pair
            box = box_of_ends(middles, end_of, n)
    # A group of rows far beyond the end is seen if it is clear of the noise.
    unseen = np.array([_clear(s, gaussian=not meter.pure) for s in stds])
    sound = box.sound & (unseen <= _VISIBLE * n) & plan.sure
    if plan.few:
        cap = 64.0 * np.maximum(np.abs(middles), 1.0)
        box = changed(box, low=np.maximum(box.low, -cap), high=np.minimum(box.high, cap))
    return changed(box, sound=sound)


def _each(table: PrivateTable, meter: Meter, share: Fraction, d: int) -> float:
    """Return the epsilon, or mu, of one of d columns in a share."""
    level = meter.level(share)
    return level / d if meter.pure else level / math.sqrt(d)


def _counted(
    table: PrivateTable,
    meter: Meter,
    name: str,
    exact: list[Ints],
    columns: list[int],
    share: Fraction,
) -> tuple[list[Floats], float]:
    """Release the counts of some columns; return them column by column, and their noise."""
    flat = np.concatenate([exact[j] for j in columns])
    size = histogram_sensitivity(len(columns), table.relation)
    noisy, std = Independent(size, size).noised(meter, name, flat, share)
    cuts = np.cumsum([exact[j].size for j in columns])[:-1]
    return [part.astype(np.float64) for part in np.split(noisy, cuts)], std


def _audited(
    table: PrivateTable,
    meter: Meter,
    image: Callable[[Floats], Floats],
    box: LearnedBox,
    share: Fraction,
) -> LearnedBox:
    """Release how many rows are outside; return the box with the errors that follow."""
    d = box.low.size
    exact = outside_counts(table.rows, image, box.low, box.high)
    noisy, std = Independent(d, d).noised(meter, "rows outside", exact, share)
    return audited_box(box, noisy.astype(np.float64), std, gaussian=not meter.pure)


@reviewed
@dataclass(frozen=True, eq=False)
class LearnedBounds(Measurement):
    """Bounds of every column, learned privately; always returns something usable.

    What it takes of the allowance follows rows times epsilon: much where that is little, and
    less the more there are; a share is the most that it takes. Without `audit`, the rest is for
    what is asked next: without a share, bounds take a fifth, or up to `most` where rows are few.
    Guarantee: of the medians, that of `Quantiles`; a row adds one to one bin of each column's
    counts, L1 d, L2 sqrt(d) (A), 2 d and sqrt(2 d) (R); it is outside or not in each
    column, L1 d, L2 sqrt(d), under both relations.

    - `n`: The number of rows, where it has been released before.
    - `audit`: Count the rows outside, which errors need; without it, they are all NaN.
    - `spare`: Part of the rows that each bound may clip at no cost, for answers about ranks.
    - `point`: Release nothing but a point amid the rows, for the whole share.
    - `most`: Of the allowance, without a share and `audit`, where rows are few.
    """

    name: ClassVar[str] = "learned bounds"
    n: float | None = None
    audit: bool = True
    spare: float = 0.0
    point: bool = False
    most: float = 0.5

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> LearnedBox:
        n, audit, spare = self.n, self.audit, self.spare
        whole = meter.fraction(Fraction(1))
        n = _counted_rows(table, meter) if n is None else max(n, 1.0)
        level = meter.level(whole)
        ranges = _type_ranges(table)
        columns = ranges[1] - ranges[0] > 1.0  # of a boolean column there is nothing to learn
        width = int(columns.sum())
        if width == 0:
            return box_within_types(None, columns, ranges, n)
        plan = plan_learning(n, width, level, table.relation, pure=meter.pure, audit=audit)
        most = meter.remaining if share is None else min(meter.fraction(share), meter.remaining)
        if share is None and not audit:
            most = min(most, meter.fraction(plan.at_most(self.most)))
        if self.point:
            none, binades = Fraction(0), _binades(_LEAST_POINT)
            plan = changed(plan, location=most, shape=none, doubt=none, audit=none, binades=binades)
        plan = plan.within(most, d=width)
        lattice = FloatLattice(plan.binades)
        image = _reduced(plan.mode, columns)
        d = {"columns": width, "extremes": 2, "largest": 1}[plan.mode]
        middles = _medians(table, meter, lattice, image, d, plan.location, n)
        if plan.shape:
            box = _shaped(table, meter, plan, n, image, middles, spare)
        else:
            reach = 4.0 * np.maximum(np.abs(middles), 1.0)
            box = unsound_box(middles - reach, middles + reach, middles, n)
        if plan.mode != "columns":
            box = box_for_all(box, plan.mode, width, n)
        elif plan.audit:
            box = _audited(table, meter, image, box, plan.audit)
        else:
            box = changed(box, sound=np.zeros(d, dtype=bool))
        asked = n, width, level, table.relation
        short = needed = _short(*asked, pure=meter.pure)
        if audit:
            needed = _short(*asked, pure=meter.pure, most=most)
        return changed(box_within_types(box, columns, ranges, n), short=short, needed=needed)


_FARTHEST = 1e150  # of a row's distance in one column: 8192 squares of it have a finite sum


@reviewed
@dataclass(frozen=True, eq=False)
class NormMedian(Measurement):
    """A point amid the rows' distances ||x - center||, chosen as the location of a column is.

    Guarantee: that of one location of `LearnedBounds`, since a row alone decides its distance:
    squares are added column by column, in IEEE operations on one number each. A row more changes
    all scores within a range of 2, a row replaced within 4. Proof: learned_bounds.md, "A median of
    distances".

    - `center` of shape (d,): Public or released.
    - `n`: The number of rows, public or released.
    - returns: About the median; at least 0.
    """

    name: ClassVar[str] = "median of distances"
    center: Floats
    n: float

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> float:
        fraction = min(meter.fraction(share), meter.remaining)
        n = max(self.n, 1.0)
        lattice = FloatLattice(_binades(n * meter.level(fraction)))
        center = np.array(self.center, dtype=np.float64)

        def distance(block: Floats) -> Floats:
            check_center(block, center)
            squares = np.zeros(len(block))
            for column, middle in zip(block.T, center, strict=True):
                squares += np.clip(column - middle, -_FARTHEST, _FARTHEST) ** 2
            return np.sqrt(squares)[:, None]

        # Whatever the rows are, a distance below 0 is none: its size is as likely beforehand.
        return abs(float(_medians(table, meter, lattice, distance, 1, fraction, n)[0]))
