"""Bounds from released histograms of distances: post-processing, and always an answer.

`LearnedBounds` releases, for each column, a point m amid the rows and noisy counts of the rows'
distances from m, by factors of √2 on either side. Here is what is made of these numbers: where each
side ends, how far beyond the end the bound goes, and how much the rows that are clipped may
still weigh. Nothing here sees a row. Figures of how often such answers are off are printed by
doc/benchmarks/learned_bounds.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from skdp.core.clipping import Floats
from skdp.queries.learned_bounds.tails import NO_TAILS, Tails, beyond_ends, given_rows_outside

Ints = NDArray[np.int64]

WIDTHS = (1, 2, 4, 8, 12)  # of runs of bins that are held against the noise
# Chance that noise is taken for the first rows of a side: hardly any, as rows may be far nearer to
# the middle than what noise shows; or, where nothing is so clear, a little.
FIRST = 1e-5, 0.01
FURTHER = 0.003  # and for rows beyond those found, each time that some were
_FAR = 9.0  # bins beyond the rows found, from which on that chance falls faster
_TRIM = 3e-2  # chance that noise alone keeps the outer bins of a run; less the farther they are
_FARTHEST = 3.0  # doublings that a bound may lie beyond the last bin with rows
_FARTHEST_OF_FEW = 2.0
_MINORITY = 0.25  # of the rows: amounts that few rows have need not have one tail
_HIDDEN = 1.0  # standard deviations of a count: rows that may lie as far again, unseen
_BEFORE = 16  # bins, of half a doubling, that the rows of such a side lie in
_CLEAR = 1e-8  # chance that noise alone is taken for rows that are clear of it
_CLEAR_WIDTHS = (*range(1, 13), 16, 24, 32, 48)  # bins
_NOTICED = 1.25  # standard deviations of the rows outside that count as rows
_UNEXPLAINED = 3.2  # of them that the ends do not explain
_AT_ONCE = 64  # sides: memory does not grow with columns
_SHOWN = 50.0  # standard deviations that the rows of such a side must be for an error


def prior(binade: Floats, center: float | Floats) -> Floats:
    """Return the weight of binades before anything is known: a Student t shape about one."""
    shape: Floats = (1.0 + ((binade - center) / 6.0) ** 2 / 3.0) ** -2.0
    return shape


# --- what noise can do --------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _laplace_tail(width: int) -> tuple[Floats, Floats]:
    """Return (log P(S > t), t), ascending in the first, for the sum S of `width` unit Laplace.

    By the formula of Lugannani and Rice; a single one is exact.
    """
    v = 1.0 - np.geomspace(0.97, 1e-5, 400)
    t = 2.0 * width * v / (1.0 - v * v)
    if width == 1:
        chance = math.log(0.5) - t
    else:
        r = np.sqrt(2.0 * (v * t + width * np.log1p(-v * v)))
        u = v * np.sqrt(2.0 * width * (1.0 + v * v)) / (1.0 - v * v)
        extra = np.exp(-r * r / 2.0) / math.sqrt(2.0 * math.pi) * (1.0 / u - 1.0 / r)
        chance = np.log(np.maximum(np.exp(log_ndtr(-r)) + extra, 1e-300))
        t, chance = t[chance > -300.0], chance[chance > -300.0]
    order = np.argsort(chance)
    return chance[order], t[order]


def noise_level(log_chance: Floats, width: int, std: float, *, gaussian: bool) -> Floats:
    """Return the count that the noise of `width` bins passes with these chances.

    At least 1/2: without noise, one row is a row.
    """
    if gaussian:
        # Rounding adds half a row: noise above 1/2 is a row.
        level = 0.5 - std * math.sqrt(width) * ndtri(np.exp(np.maximum(log_chance, -700.0)))
    else:
        # Of discrete Laplace noise, whose deviation is far below its scale where that is small.
        scale = 0.0 if std == 0.0 else 0.5 / math.asinh(1.0 / (math.sqrt(2.0) * std))
        if width == 1:
            level = scale * np.maximum(math.log(0.5) - log_chance, 0.0)
        else:
            chance, t = _laplace_tail(width)
            level = scale * np.interp(log_chance, chance, t)
    return np.maximum(level, 0.5)


# --- the end of a side --------------------------------------------------------------------------


@dataclass(frozen=True)
class End:
    """Where one side of a column ends.

    - `reach`: Distance of the bound from the middle; 0 where no rows were found on this side.
    - `tails`: What may lie beyond the bound.
    - `hidden`: Rows that may lie as far again beyond it, whatever the tails say; NaN: nobody knows.
    - `expected`, `doubt`: About so many rows lie beyond, and the standard deviation of that.
    - `seen`, `clear`: Distances: where the last bin that was taken for rows ends, and where the
      last one ends from which on outwards the counts are clear of noise (0: none is).
    - `outer`, `noise`: The noisy count of the bins from `clear` to `seen` (of the last one, if that
      is clear), and the standard deviation of its noise; that of one bin where no rows were found.
    """

    reach: float
    tails: Tails = field(default=NO_TAILS, compare=False)
    hidden: float = 0.0
    expected: float = 0.0
    doubt: float = 0.0
    seen: float = 0.0
    clear: float = 0.0
    outer: float = 0.0
    noise: float = field(default=0.0, compare=False)

    def claims(self, tails: Tails) -> tuple[float, float]:
        """Return what clipping here adds to the standard error of a sum, and of one of squares."""
        excess, squares = tails.claims()
        hidden = self.hidden * self.reach
        return math.hypot(excess, hidden), math.hypot(squares, hidden * self.reach)


NO_END = End(0.0)


@functools.lru_cache(maxsize=64)
def _trim_levels(size: int, std: float, *, gaussian: bool) -> Floats:
    """Return what the sums of the outermost 1, 2, ... bins of a run must reach to be rows."""
    chance = math.log(_TRIM) - 2.0 * np.log(np.arange(size, 0.0, -1.0))
    return np.array([noise_level(chance[k], k + 1, std, gaussian=gaussian) for k in range(size)])


@functools.lru_cache(maxsize=64)
def _least_level(width: int, std: float, chance: float, *, gaussian: bool) -> float:
    """Return what runs must pass, at least, whose chances are parts of this one."""
    level = noise_level(np.log(np.array([chance])), width, std, gaussian=gaussian)
    return float(level[0]) * 0.999


@functools.lru_cache(maxsize=64)
def _further_levels(size: int, width: int, std: float, chance: float, *, gaussian: bool) -> Floats:
    """Return what runs of this width must pass at 0, 1, ... bins beyond the rows found."""
    # The sum of 1 / (1 + d)**2 is below 1.65. Far out chances fall faster: by squares alone noise
    # made one bound in 5,000 more than a thousand times too wide.
    far = 2.0 * np.log(np.maximum((1.0 + np.arange(size)) / _FAR, 1.0))
    log_chance = math.log(FURTHER * chance / len(WIDTHS) / 1.65) - 2.0 * np.log1p(np.arange(size))
    log_chance -= far
    return noise_level(log_chance, width, std, gaussian=gaussian)


@functools.lru_cache(maxsize=64)
def _clear_levels(std: float, *, gaussian: bool) -> Floats:
    """Return what the sums of the outermost 1, 2, ... bins must pass to be clear of noise."""
    chance = np.log(np.array([_CLEAR]))
    levels = [noise_level(chance, width, std, gaussian=gaussian)[0] for width in _CLEAR_WIDTHS]
    return np.repeat(levels, np.diff([0, *_CLEAR_WIDTHS]))


def _trimmed(counts: Floats, last: Ints, width: int, std: float, *, gaussian: bool) -> Ints:
    """Return the last bins of runs, less outer bins that hold, together, what noise could be.

    Of each row of `counts` the run of this width that begins at `last`. A run that begins among the
    rows is clear by these alone, whatever its outer bins hold.
    """
    bins = last[:, None] + np.arange(width - 1, -1, -1)
    sums = np.cumsum(np.take_along_axis(counts, bins, axis=1), axis=1)
    above = sums / _trim_levels(width, std, gaussian=gaussian)
    clear = above >= 1.0
    outer = np.where(clear.any(axis=1), clear.argmax(axis=1), above.argmax(axis=1))
    return last + (width - 1) - outer


def _last_bins(
    counts: Floats, doublings: Floats, middles: Floats, std: float, chance: float, *, gaussian: bool
) -> Ints:
    """Return the last bin that has rows of each side, or -1; all arrays have a row for each side.

    Runs of bins are held against levels with unequal chances: first each by the prior of its
    doublings, half of it about that of the middle; then those beyond what was found, the nearest
    with the greatest chance, until nothing more is found.
    """
    sides, bins = counts.shape
    weight = prior(doublings, 4.0)
    weight /= weight.sum(axis=1, keepdims=True)
    some = np.flatnonzero(middles)
    near = prior(doublings[some], np.log2(np.abs(middles[some]))[:, None])
    weight[some] = (weight[some] + near / near.sum(axis=1, keepdims=True)) / 2.0
    none = np.zeros((sides, 1))
    sums, weights = (np.concatenate([none, x.cumsum(axis=1)], axis=1) for x in (counts, weight))
    ends = [np.full(sides, -1) for _ in FIRST]
    runs = []  # of each width: the few that are above the least level, side by side
    chances = [first * chance / len(WIDTHS) for first in FIRST]
    for w in (w for w in WIDTHS if w <= bins):
        run = sums[:, w:] - sums[:, :-w]
        least = _least_level(w, std, chances[-1], gaussian=gaussian)
        further = _further_levels(bins, w, std, chance, gaussian=gaussian)
        side, first = np.nonzero(run > min(least, further[0]))
        run = run[side, first]
        runs.append((w, further, side, first, run))
        for most, end in zip(chances, ends, strict=True):
            log_chance = np.log(most * (weights[side, first + w] - weights[side, first]) / w)
            clear = (run > least) & (run > noise_level(log_chance, w, std, gaussian=gaussian))
            _move_out(end, counts, side[clear], first[clear], w, std, gaussian=gaussian)
    end = np.where(ends[0] > -1, *ends)
    before = np.full(sides, -1)
    while (end > before).any():
        before = end.copy()
        for w, further, side, first, run in runs:
            beyond = first - before[side] - 1
            clear = (before[side] > -1) & (beyond >= 0) & (run > further[np.maximum(beyond, 0)])
            _move_out(end, counts, side[clear], first[clear], w, std, gaussian=gaussian)
    return end


def _move_out(
    end: Ints, counts: Floats, side: Ints, first: Ints, width: int, std: float, *, gaussian: bool
) -> None:
    """Move the ends of sides out to their outermost runs, which are ascending in each side."""
    last = np.flatnonzero(np.append(side[1:] != side[:-1], True)[: side.size])
    side = side[last]
    trimmed = _trimmed(counts[side], first[last], width, std, gaussian=gaussian)
    end[side] = np.maximum(end[side], trimmed)


@dataclass(frozen=True)
class Side:
    """One side of a column, as it was counted.

    - `counts` of shape (bins,): Noisy counts of distances from the middle, with independent noise.
    - `edges` of shape (bins,): Outer edges of the bins, ascending.
    - `zero`: Distance of the number 0, if it lies on this side: tails like to end there.
    """

    counts: Floats
    edges: Floats
    middle: float
    zero: float = 0.0


def ends_of_sides(
    sides: list[Side],
    std: float,
    *,
    gaussian: bool,
    balance: float,
    few: bool = False,
    chance: float = 1.0,
    rows: float = 0.0,
) -> list[End]:
    """Return where each side ends.

    Beyond the last bin with rows the bound lies where what it clips, by the tails that may be
    there, costs as much as the noise of a wider one.

    - `std`: Standard deviation of a count's noise.
    - `gaussian`: Else Laplace.
    - `balance`: Rows that may as well be clipped as bring the noise of a wider bound.
    - `few`: Whether there are few rows: bounds stay nearer to those that were seen.
    - `chance`: What `FIRST` and `FURTHER` are multiplied by: many columns share them.
    - `rows`: Of the column; where few of them are on a side, more may be hidden beyond it.
    """
    last_bin = np.full(len(sides), -1)
    by_size: dict[int, list[int]] = {}
    for i, side in enumerate(sides):
        by_size.setdefault(side.counts.size, []).append(i)
    for alike in by_size.values():
        for k in range(0, len(alike), _AT_ONCE):
            some = alike[k : k + _AT_ONCE]
            counts, edges = (
                np.array([getattr(sides[i], x) for i in some]) for x in ("counts", "edges")
            )
            middles = np.array([sides[i].middle for i in some])
            last_bin[some] = _last_bins(
                counts, np.log2(edges), middles, std, chance, gaussian=gaussian
            )
    ends = [changed(NO_END, noise=std)] * len(sides)
    some = np.flatnonzero(last_bin >= 0).tolist()
    found = beyond_ends(
        [sides[i].counts for i in some],
        [sides[i].edges for i in some],
        last_bin[some].tolist(),
        [sides[i].zero for i in some],
        std,
        balance=balance,
        farthest=_FARTHEST_OF_FEW if few else _FARTHEST,
    )
    for i, beyond in zip(some, found, strict=True):
        side, j = sides[i], int(last_bin[i])
        last = float(side.edges[j])
        reach = last * 2.0**beyond.doublings
        if side.zero and math.isclose(reach, side.zero, rel_tol=1e-9):
            reach = side.zero
        ends[i] = End(
            reach,
            beyond.tails.scaled(last),
            _hidden(side.counts[: j + 1], std, rows),
            beyond.rows,
            beyond.doubt,
            last,
            *_clear_end(side.counts, side.edges, j, std, gaussian=gaussian),
        )
    return ends


def _clear_end(
    counts: Floats, edges: Floats, end: int, std: float, *, gaussian: bool
) -> tuple[float, float, float]:
    """Return where counts are clear of noise; the noisy count beyond, and its noise.

    The outermost bins up to the end are added up, one after the other, until their sum is one that
    noise alone seldom has.
    """
    sums = np.cumsum(counts[: end + 1][::-1])
    widest = max(w for w in _CLEAR_WIDTHS if w <= sums.size)
    clear = np.flatnonzero(sums[:widest] > _clear_levels(std, gaussian=gaussian)[:widest])
    if clear.size:
        k = int(clear[0])  # bins beyond the one that is clear
        beyond = max(k, 1)
        return float(edges[end - k]), float(sums[beyond - 1]), std * math.sqrt(beyond)
    return 0.0, float(sums[-1]), std * math.sqrt(sums.size)


def _hidden(counts: Floats, std: float, rows: float) -> float:
    """Return how many rows may lie beyond the bound, as far again, unseen; NaN: nobody knows.

    Amounts that few rows have (wages of the few who are paid by the hour, gains) are no tail of the
    others: within the noise of a count rows may lie far beyond, and weigh as much as all the rest.
    Rows in one place (zeros and ones, one amount) have no tail: none are seen before the last bins,
    by more than the noise.
    """
    outer, inner = float(counts[-2:].sum()), counts[-2 - _BEFORE : -2]
    before = float(inner.sum())
    on_side = outer + before
    alone = before <= outer / 10.0 + std * math.sqrt(inner.size)
    if on_side >= _MINORITY * rows or alone:
        return 0.0
    return _HIDDEN * std if on_side >= _SHOWN * std else math.nan


# --- the box ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnedBox:
    """Learned bounds, with what the rows beyond them may weigh.

    A function of released numbers. Errors are NaN in columns whose rows cannot be trusted to be
    seen: few rows for what the learning may lose, nothing found but one value, or more rows beyond
    the bounds than the ends of the column explain.

    - `low`, `high` of shape (d,)
    - `middle` of shape (d,): A value amid the rows.
    - `risk`, `squares` of shape (2, d): Of the low and the high side: what clipping adds to the
      standard error of a sum of the column, and of a sum of the squares of what rows exceed the
      bound by.
    - `expected`, `doubt` of shape (2, d): About so many rows lie beyond, and the standard deviation
      of that.
    - `excess` of shape (d,): Rows that were counted beyond and are not expected there, where that
      is more than the noise of the count: at an unknown distance.
    - `n`: Number of rows, public or released; at least 1.
    - `ends`: Of each column, the low and the high side; empty where only a point amid the rows, or
      one box for all columns, was learned.
    - `short`: With all of the allowance errors would ask for so many times the rows, or epsilon; 1
      where there are enough.
    - `needed`: The same with the share that was given, for errors of most columns.
    """

    low: Floats
    high: Floats
    middle: Floats
    risk: Floats
    squares: Floats
    expected: Floats
    doubt: Floats
    excess: Floats
    sound: NDArray[np.bool_]
    n: float
    ends: tuple[tuple[End, End], ...] = ()
    short: float = 1.0
    needed: float = 1.0

    @property
    def why_no_error(self) -> str:
        """What to do where errors are NaN."""
        if self.needed > 1.0:
            return f"rows are too few for this epsilon. State bounds=, or {self.more_rows}"
        return "rows that are too few to be seen may lie far from the others. State bounds="

    @property
    def more_rows(self) -> str:
        """How much more errors ask for; "" where there is enough."""
        if self.needed <= 1.0:
            return ""
        times = math.ceil(10.0 * self.needed - 1e-6) / 10.0
        rows = float(f"{times * self.n:.1e}")
        if times > 100.0:  # beside so few rows their number itself is noise
            return f"use about {rows:,.0f} rows, or an epsilon larger in proportion"
        return f"use {times:g} times as many rows (about {rows:,.0f}) or as large an epsilon"

    def column(self, j: int, low: float, high: float) -> LearnedBox:
        """Return the box of one column, with its bounds rounded outwards."""
        return changed(self.columns([j]), low=np.full(1, low), high=np.full(1, high))

    def columns(self, which: Sequence[int] | NDArray) -> LearnedBox:
        """Return the box of some columns."""
        each = ("low", "high", "middle", "risk", "squares", "expected", "doubt", "excess", "sound")
        parts = {name: getattr(self, name)[..., which] for name in each}
        return changed(self, **parts, ends=())

    def of_counts(self, counts: Floats) -> LearnedBox:
        """Return the same of columns with so many non-missing cells each, where `n` is their mean.

        Those with less than half of it are not known to have shown all their cells.
        """
        times = self.n / np.maximum(counts, 1.0)
        return changed(
            self,
            risk=self.risk * times,
            squares=self.squares * times,
            excess=self.excess * times,
            sound=self.sound & (times <= 2.0),
        )

    def _reach(self) -> Floats:
        return np.stack([self.middle - self.low, self.high - self.middle])

    def _error(self, sides: Floats, power: int) -> Floats:
        """Return the weight of the rows beyond, of the model's and of those in excess of it.

        Those in excess may be anywhere: taken to lie as far beyond the bound as it is from the
        middle.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.hypot(sides[0], sides[1])
            error = error + self.excess * self._reach().max(axis=0) ** power
        return np.where(self.sound, error, math.nan)

    def sum_error(self) -> Floats:
        """Return the error of a column's sum from its clipped rows, as one of a standard error."""
        return self._error(self.risk, 1)

    def mean_error(self) -> Floats:
        """Return the same of a column's mean."""
        return self.sum_error() / self.n

    def product_errors(self, center: Floats) -> Floats:
        """Return the same of mean products of two columns' distances from a center, (d, d).

        With s the distances of the bounds from the center and e the excesses, (s_j + e_j) (s_k +
        e_k) exceeds s_j s_k by s_j e_k + s_k e_j + e_j e_k.
        """
        span, error, root = self._square_parts(center)
        linear = np.outer(span, error)
        errors: Floats = (linear + linear.T + np.outer(root, root)) / self.n
        return errors

    def square_errors(self, center: Floats) -> Floats:
        """Return the diagonal of `product_errors`, (d,)."""
        span, error, root = self._square_parts(center)
        errors: Floats = (2.0 * (span * error) + root * root) / self.n
        return errors

    def _square_parts(self, center: Floats) -> tuple[Floats, Floats, Floats]:
        """Return s, the error of e, and the root of the error of squares of e."""
        span = np.maximum(np.abs(center - self.low), np.abs(self.high - center))
        return span, self.sum_error(), np.sqrt(self._error(self.squares, 2))


def box_of_ends(middles: Floats, ends: list[list[End]], n: float) -> LearnedBox:
    """Return the box of the ends of each column; where there are none, it reaches to 0 or to 1."""
    reach = np.array([[end.reach for end in pair] for pair in ends]).T
    low, high = middles - reach[0], middles + reach[1]
    alone = np.array([pair == [NO_END, NO_END] for pair in ends])
    high = np.where(alone, np.where(middles == 0.0, 1.0, np.maximum(middles, 0.0)), high)
    low = np.where(alone, np.minimum(middles, 0.0), low)
    claims = np.array([[end.claims(end.tails) for end in pair] for pair in ends])
    return LearnedBox(
        low=low,
        high=high,
        middle=middles.copy(),
        risk=claims[:, :, 0].T,
        squares=claims[:, :, 1].T,
        expected=np.array([[end.expected for end in pair] for pair in ends]).T,
        doubt=np.array([[end.doubt for end in pair] for pair in ends]).T,
        excess=np.zeros(middles.size),
        sound=~alone,
        n=n,
        ends=tuple((low_end, high_end) for low_end, high_end in ends),
    )


def audited_box(box: LearnedBox, counted: Floats, std: float, *, gaussian: bool) -> LearnedBox:
    """Return the box, given the noisy numbers of rows outside.

    The tails that explain them weigh more. Columns whose ends do not explain them have no error.
    """
    # Held against what is expected, not against the most that the counts allow: a group of rows
    # just beyond the end fits into the doubt of the counts, and its distance is unknown.
    excess = counted - box.expected.sum(axis=0)
    doubt = np.sqrt((box.doubt**2).sum(axis=0))
    spread = np.hypot(std, doubt)
    sound = box.sound & (excess <= _UNEXPLAINED * spread)
    risk, squares = box.risk.copy(), box.squares.copy()
    for j in np.flatnonzero(sound):
        low, high = box.ends[j]
        tails = given_rows_outside(low.tails, high.tails, float(counted[j]), std, gaussian=gaussian)
        for side, (end, given) in enumerate(zip((low, high), tails, strict=True)):
            risk[side, j], squares[side, j] = end.claims(given)
    return changed(
        box,
        risk=risk,
        squares=squares,
        excess=np.where(excess > _NOTICED * spread, np.maximum(excess - doubt, 0.0), 0.0),
        sound=sound,
    )


def unsound_box(low: Floats, high: Floats, middles: Floats, n: float) -> LearnedBox:
    """Return a box of which nothing is claimed."""
    d = low.size
    return LearnedBox(
        low=low,
        high=high,
        middle=middles,
        risk=np.zeros((2, d)),
        squares=np.zeros((2, d)),
        expected=np.zeros((2, d)),
        doubt=np.zeros((2, d)),
        excess=np.zeros(d),
        sound=np.zeros(d, dtype=bool),
        n=n,
    )


def joined_box(parts: Sequence[LearnedBox | None], low: Floats, high: Floats) -> LearnedBox:
    """Return one box of all columns: boxes of some, and None for each stated one, which is certain.

    Errors of other numbers of rows are turned into those of the first box's.
    """
    n = next(part.n for part in parts if part is not None)
    none = np.zeros(1)
    stated = changed(unsound_box(none, none, none, n), sound=np.ones(1, dtype=bool))
    boxes = [stated if part is None else part for part in parts]

    def of_all(name: str, *, per_row: bool = False) -> Any:
        values = [getattr(box, name) * (n / box.n if per_row else 1) for box in boxes]
        return np.concatenate(values, axis=-1)

    weights = {name: of_all(name, per_row=True) for name in ("risk", "squares", "excess")}
    counts = {name: of_all(name) for name in ("expected", "doubt")}
    known = np.repeat([part is not None for part in parts], [box.low.size for box in boxes])
    middle = np.where(known, of_all("middle"), low / 2 + high / 2)
    sound = np.concatenate([box.sound for box in boxes])
    short = {name: max(getattr(box, name) for box in boxes) for name in ("short", "needed")}
    return LearnedBox(low, high, middle, **weights, **counts, sound=sound, n=n, **short)


def box_for_all(box: LearnedBox, mode: str, d: int, n: float) -> LearnedBox:
    """Return one box for all columns, of the rows' extremes or of their largest in size."""
    high = float(box.high[-1])
    low = float(box.low[0]) if mode == "extremes" else -high
    if not low < high:
        low, high = min(low, high), max(low, high) + 1.0
    return unsound_box(np.full(d, low), np.full(d, high), np.full(d, low / 2 + high / 2), n)


def box_within_types(
    box: LearnedBox | None, learned: NDArray[np.bool_], ranges: Floats, n: float
) -> LearnedBox:
    """Return the box of all columns, of which some were learned: within what their types can hold.

    No row lies beyond the ends of a type, so nothing is lost there.

    - `box`: Of the learned columns, in order; None if there are none.
    - `learned`: The others have the range of their type for bounds.
    - `ranges` of shape (2, d): Ends of the types; infinite where they say nothing.
    """
    if box is None:
        box = unsound_box(np.zeros(0), np.zeros(0), np.zeros(0), n)
    least, most = ranges[:, learned]
    ends = np.stack([box.low, box.high])
    within = np.clip(ends, least, most)
    # A box that lies beyond the range has a width all the same.
    flat = within[0] >= within[1]
    within[1] = np.where(flat, np.minimum(within[0] + 1.0, most), within[1])
    within[0] = np.where(flat, np.maximum(within[1] - 1.0, least), within[0])
    inside = np.stack([box.low > least, box.high < most])

    def filled(values: NDArray[Any], others: Any) -> Any:
        whole = np.empty((*values.shape[:-1], learned.size), dtype=values.dtype)
        whole[..., learned], whole[..., ~learned] = values, others
        return whole

    both = filled(within, ranges[:, ~learned])
    no_ends = iter(box.ends or [(NO_END, NO_END)] * box.low.size)
    return LearnedBox(
        low=both[0],
        high=both[1],
        middle=filled(np.clip(box.middle, *within), ranges[:, ~learned].mean(axis=0)),
        risk=filled(np.where(inside, box.risk, 0.0), 0.0),
        squares=filled(np.where(inside, box.squares, 0.0), 0.0),
        expected=filled(np.where(inside, box.expected, 0.0), 0.0),
        doubt=filled(np.where(inside, box.doubt, 0.0), 0.0),
        excess=filled(box.excess, 0.0),
        sound=filled(box.sound, True),
        n=n,
        ends=tuple(next(no_ends) if j else (NO_END, NO_END) for j in learned) if box.ends else (),
    )


def is_doubtful(box: LearnedBox, noise: float) -> NDArray[np.bool_]:
    """Say of each column whether the rows beyond weigh much beside the noise of a sum.

    That is `noise` half widths.
    """
    width = box.high / 2 - box.low / 2
    return ~(box.sound & (box.sum_error() <= 0.6 * noise * width))
