"""What lies beyond the last rows that were seen: a posterior over tails, from noisy counts.

Post-processing: nothing here sees a row. Two kinds of tails are weighed against each other. One
goes on as the rows inside tell: u doublings beyond the end, S(0) exp2(-a (2**(k u) - 1) / (k ln 2))
rows are left, a the slope in doublings of rows a doubling of distance (power laws for k = 0,
lognormal below 1/2, exponential 1, normal 2), or it ends, at the last bin or at the number 0. The
other says that rows beyond the end have nothing to do with those inside: a group of their own, as
large as the counts there allow. The bound lies where the noise of a wider one costs as much as what
it clips. What a standard error says of clipping is read from the same posterior later, when the
rows outside have been counted.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, ndtri

from skdp.core.clipping import Floats

_SLOPES = np.geomspace(1.0, 40.0, 18)
_BENDS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
_BEND_WEIGHTS = (3.0, 3.0, 3.0, 3.0, 2.0, 1.5, 1.0, 0.5, 0.3, 0.2, 0.2)
_STEP = 1 / 16  # doublings, of the grid of integrals
_LAST = 14.0  # doublings beyond the end, where integrals stop
_INNER = 2.0  # doublings inside the end whose bins tell of the tail
_GROUPS = (
    1.0,
    3.0,
)  # ends, in doublings, of the two groups of bins beyond: values may be far apart
_MODEL = 0.06  # relative error of the family, at the end; it grows inwards
_ENDS, _ENDS_AT_ZERO = 0.35, 1.0  # prior weight of a tail that ends there, beside 1 for no end
_APART = 0.2  # prior chance of a group of its own, for the bound
_APART_CLAIMED = 0.5  # and for errors: a claim doubts more than a choice
_APART_SLOPES = np.array([2.5, 6.0])
_APART_DENSITY = 0.42  # sqrt(2 pi) / 6: its size is uniform up to six standard deviations
_APART_SIZES = (np.arange(12) + 0.5) / 12  # ranks of its size
_NEIGHBORS = 10  # bins on either side of the end that are looked at: half doublings, and one at 0
_AT_ONCE = 64  # sides: memory does not grow with columns
_LAST_ROW = 0.25  # rows: a tail has none beyond the place where fewer are left
_LEAST_STD = 0.01  # rows: a count without noise is not held against it any harder
_BLUNT, _MANY = 3.0, 40.0  # noise that tells nothing of single rows, and rows that need none
_CLAIMED = 0.97  # of the posterior: three standard errors reach it
# Ranks between which a posterior is kept by its means: fine where claims are read.
_RANKS = np.concatenate([np.arange(0.05, 0.9, 0.05), 1.0 - np.geomspace(0.1, 0.001, 24)])


@dataclass(frozen=True)
class Beyond:
    """Where to clip, and what is expected beyond.

    - `doublings`: From the end of the rows seen to the bound.
    - `rows`, `doubt`: Mean and standard deviation of the number of rows beyond the bound.
    - `tails`: The posterior for claims, in units of the end.
    """

    doublings: float
    rows: float
    doubt: float
    tails: Tails


@dataclass(frozen=True, eq=False)
class Tails:
    """A posterior over what lies beyond a bound: some tails and their weights.

    - `weight` of shape (tails,)
    - `rows` of shape (tails,): How many lie beyond.
    - `excess`, `squares` of shape (tails,): Sums of what they exceed the bound by, and of its
      squares.
    """

    weight: Floats
    rows: Floats
    excess: Floats
    squares: Floats

    def scaled(self, unit: float) -> Tails:
        """Return the same with distances in another unit."""
        return Tails(self.weight, self.rows, self.excess * unit, self.squares * unit**2)

    def claims(self) -> tuple[float, float]:
        """Return what clipping adds to the standard error of a sum, and of a sum of squares."""
        return _quantile(self.excess, self.weight) / 3.0, _quantile(self.squares, self.weight) / 3.0


NO_TAILS = Tails(np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1))


def _quantile(values: Floats, weight: Floats) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weight[order])
    at = int(np.searchsorted(sums, _CLAIMED * sums[-1]))
    return float(values[order[min(at, order.size - 1)]])


def _kept(tails: NDArray) -> list[Tails]:
    """Return each posterior of (4, sides, tails) by its means between ranks of the excess."""
    order = np.argsort(tails[2], axis=1, kind="stable")
    weight, *values = np.take_along_axis(tails, order[None], axis=2)
    weight /= weight.sum(axis=1, keepdims=True)
    group = np.searchsorted(_RANKS, np.cumsum(weight, axis=1) - weight / 2.0)
    size = _RANKS.size + 1
    group += size * np.arange(len(group))[:, None]

    def sums(values: Floats) -> NDArray:
        return np.bincount(group.ravel(), values.ravel(), minlength=size * len(group))

    total = sums(weight)
    some = np.flatnonzero(total > 0.0)
    means = np.stack([total[some], *(sums(weight * x)[some] / total[some] for x in values)])
    cuts = np.searchsorted(some, size * np.arange(1, len(group)))
    return [Tails(*side) for side in np.split(means, cuts, axis=1)]


def given_rows_outside(
    low: Tails, high: Tails, counted: float, std: float, *, gaussian: bool
) -> tuple[Tails, Tails]:
    """Return both sides' posteriors, given the noisy number of rows outside.

    Where the count says that there are none, nothing was clipped, whatever the tails are.
    """
    low, high = _some_or_none(low), _some_or_none(high)
    rows = np.add.outer(low.rows, high.rows)
    spread = np.sqrt(std**2 + rows + _LEAST_STD**2)  # about as many rows are there as expected
    # If there are some, there is one at least.
    lacking = np.where(rows > 0.0, max(1.0 - counted, 0.0) / math.hypot(std, _LEAST_STD), 0.0)
    chance = -np.log(spread)
    for z in ((counted - rows) / spread, lacking):
        chance -= z * z / 2.0 if gaussian else np.sqrt(1.0 + 2.0 * z * z)
    chance -= chance.max()
    joint = np.multiply.outer(low.weight, high.weight) * np.exp(chance)
    return (
        Tails(joint.sum(axis=1), low.rows, low.excess, low.squares),
        Tails(joint.sum(axis=0), high.rows, high.excess, high.squares),
    )


def _some_or_none(tails: Tails) -> Tails:
    """Return the tails twice: with no row, though some are expected, and with at least one."""
    some = -np.expm1(-tails.rows)
    each = np.stack([tails.rows, tails.excess, tails.squares]) / np.maximum(some, 1e-12)
    weight = np.concatenate([tails.weight * (1.0 - some), tails.weight * some])
    return Tails(weight, *np.concatenate([np.zeros_like(each), each], axis=1))


def _given_count(rows: Floats, counted: float, std: float) -> Floats | float:
    """Return by how much more rows are there than expected, given their noisy count.

    They are about Poisson, so that there may be none, which a count with little noise tells.
    """
    if std > _BLUNT or counted > _MANY:
        return 1.0
    number = np.arange(2.0 * _MANY)
    rows = np.maximum(rows, 1e-12)
    chance = np.outer(np.log(rows), number) - gammaln(number + 1.0)
    chance -= ((counted - number) / std) ** 2 / 2.0
    chance = np.exp(chance - chance.max(axis=1, keepdims=True))
    more: Floats = chance @ number / chance.sum(axis=1) / rows
    return more


def _left(doublings: Floats, slope: Floats, bend: Floats) -> Floats:
    """Return the part of the rows beyond the end that is left at each distance, (tails, places)."""
    k = np.maximum(bend, 1e-6)[:, None] * math.log(2.0)
    power = np.expm1(np.minimum(k * doublings, 60.0)) / k
    left: Floats = 2.0 ** np.clip(-slope[:, None] * power, -1000.0, 60.0)
    return left


@functools.cache
def _family() -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return slopes and bends of the tails; what is left, what exceeds, and squares, on the grid.

    What exceeds r is the integral of what is left from r outwards; of squares, twice that of the
    distance times what is left.
    """
    slope = np.repeat(_SLOPES, len(_BENDS))
    bend = np.tile(np.array(_BENDS), _SLOPES.size)
    grid = np.arange(0.0, _LAST + _STEP / 2, _STEP)
    left = _left(grid, slope, bend)
    distance = 2.0**grid
    density = left * distance * math.log(2.0)
    return slope, bend, left, _outwards(density), _outwards(2.0 * density * distance)


def _outwards(density: Floats) -> Floats:
    """Return the integrals from each place of the grid outwards."""
    pieces = (density[:, 1:] + density[:, :-1]) * (_STEP / 2.0)
    sums = np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([sums, np.zeros((density.shape[0], 1))], axis=1)


@dataclass(frozen=True)
class _Shapes:
    """What the edges about an end decide of all tails, whatever was counted.

    Tails that go on come first, then those that end with the last bin, and leave nothing beyond
    it, then those that end at the number 0, where that is near.

    - `beyond`: First bin of each group beyond the end, and the one after its last; the others stand
      alone.
    - `bins` of shape (groups,): How many bins each has.
    - `model` of shape (groups,): Relative error of a count.
    - `scale` of shape (tails,): Rows inside of each tail of one row beyond the end.
    - `shape`, `squares` of shape (tails, groups): Rows of each group where one is inside, and
      squares of these.
    - `log_weight` of shape (tails,)
    - `offered` of shape (bounds,): Bounds to choose from, in doublings beyond the end.
    - `index`, `zero_index`: Places of these bounds, and of 0, on the grid of `_family`.
    - `left`, `exceeding` of shape (tails, bounds)
    - `apart` of shape (bounds,): Means of a group of its own of one row: rows beyond a bound, their
      square, their excess.
    - `going_on`: The tails that do not end with the last bin.
    """

    beyond: list[tuple[int, int]]
    bins: Floats
    model: Floats
    scale: Floats
    shape: Floats
    squares: Floats
    log_weight: Floats
    offered: Floats
    index: NDArray[np.int64]
    zero_index: int | None
    left: Floats
    exceeding: Floats
    apart: list[Floats]
    going_on: NDArray[np.int64]


@functools.lru_cache(maxsize=64)
def _shapes(places: tuple[float, ...], inside: int, at_zero: float, farthest: float) -> _Shapes:
    """Return what is known of the tails at these edges, in doublings from the end.

    `inside` of the bins between them are not beyond the end; 0 is `at_zero`.
    """
    slope, bend, left, exceeding, _ = _family()
    edges = np.array(places)
    # Bins beyond are put together.
    beyond, first = [], inside
    for group in _GROUPS:
        stop = int(np.searchsorted(edges[1:], group + 1e-9))
        if stop > first:
            beyond.append((first, stop))
            first = stop
    edges = edges[[*range(inside + 1), *(stop for _, stop in beyond)]]

    stops, weights = [math.inf, 0.0], [1.0, _ENDS if at_zero else _ENDS_AT_ZERO]
    if 0.0 < at_zero < min(_GROUPS[-1], farthest):
        stops.append(at_zero)
        weights.append(_ENDS_AT_ZERO)
    above = _left(edges, slope, bend)
    above = np.concatenate([np.where(edges >= s - 1e-9, 0.0, above) for s in stops])
    inner = -np.diff(above, axis=1)
    scale = inner[:, :inside].sum(axis=1)
    shape = inner / scale[:, None]
    log_bends = np.tile(np.log(_BEND_WEIGHTS), _SLOPES.size)

    # What is left and what exceeds, for bounds on a grid and at 0.
    offered = np.arange(0.0, farthest + 1e-9, 2 * _STEP)
    index = np.round(offered / _STEP).astype(int)
    zero_index = None
    if len(stops) == 3:
        zero_index = round(at_zero / _STEP)
        offered, index = np.append(offered, at_zero), np.append(index, zero_index)
    parts, sums = np.zeros((2, len(stops), slope.size, offered.size))
    parts[0], sums[0] = left[:, index], exceeding[:, index]
    if zero_index is not None:
        before = offered < at_zero - 1e-9
        parts[2] = np.where(before, parts[0], 0.0)
        short = sums[0] - exceeding[:, zero_index][:, None]
        sums[2] = np.where(before, np.maximum(short, 0.0), 0.0)
    alone = 2.0 ** (-_APART_SLOPES[:, None] * offered)
    excess = alone * 2.0**offered / (_APART_SLOPES[:, None] - 1.0)
    return _Shapes(
        beyond=beyond,
        bins=np.array([1.0] * inside + [stop - first for first, stop in beyond]),
        model=_MODEL * (1.0 + 2.0 * np.maximum(-edges[:-1], 0.0)),
        scale=scale,
        shape=shape,
        squares=shape**2,
        log_weight=np.add.outer(np.log(weights), log_bends).ravel(),
        offered=offered,
        index=index,
        zero_index=zero_index,
        left=parts.reshape(scale.size, -1),
        exceeding=sums.reshape(scale.size, -1),
        apart=[x.mean(axis=0) for x in (alone, alone**2, excess)],
        going_on=np.delete(np.arange(scale.size), slice(slope.size, 2 * slope.size)),
    )


def beyond_ends(
    counts: list[Floats], edges: list[Floats], ends: list[int], zeros: list[float], std: float,
    *, balance: float, farthest: float,
) -> list[Beyond]:  # fmt: skip
    """Return the bound of each of some sides, and what is expected beyond it.

    - `counts`, `edges` of shape (bins,): Noisy counts, and the outer edges of their bins,
      ascending.
    - `ends`: The last bin with rows of each side.
    - `zeros`: Distance of the number 0, if it lies on a side, where tails like to end; else 0.
    - `std`: Standard deviation of a count's noise.
    - `balance`: Rows that may as well be clipped as bring the noise of a wider bound.
    - `farthest`: Doublings from the end to the bound, at most.
    """
    # Sides with the same edges about their ends are weighed together.
    together: dict[tuple[tuple[float, ...], int, float], list[tuple[int, Floats]]] = {}
    for i, (edge, end, zero) in enumerate(zip(edges, ends, zeros, strict=True)):
        begin = max(end - _NEIGHBORS, 0)
        doublings = np.log2(edge[begin : end + _NEIGHBORS] / edge[end]).tolist()
        first = bisect_left(doublings, -_INNER - 1e-9)
        stop = bisect_left(doublings, _GROUPS[-1] + 1e-9)
        lower = doublings[first - 1] if first else doublings[0] - 0.5
        at_zero = math.log2(zero / float(edge[end])) if zero >= edge[end] * 0.999999 else math.inf
        at_zero = 0.0 if at_zero < 1e-6 else at_zero
        if at_zero >= min(_GROUPS[-1], farthest):
            at_zero = math.inf
        key = (lower, *doublings[first:stop]), end + 1 - begin - first, at_zero
        together.setdefault(key, []).append((i, counts[i][begin + first : begin + stop]))
    found: dict[int, Beyond] = {}
    for (places, inside, at_zero), sides in together.items():
        shapes = _shapes(places, inside, at_zero, farthest)
        for k in range(0, len(sides), _AT_ONCE):
            numbers, near = zip(*sides[k : k + _AT_ONCE], strict=True)
            weighed = _weighed(shapes, np.array(near), inside, std, balance)
            found.update(zip(numbers, weighed, strict=True))
    return [found[i] for i in range(len(ends))]


def _weighed(
    shapes: _Shapes, counts: Floats, inside: int, std: float, balance: float
) -> list[Beyond]:
    """Return what `beyond_ends` does, of sides with the same edges: counts of shape (sides, bins).

    Of the bins, so many are inside the end.
    """
    y = np.column_stack(
        [counts[:, :inside], *(counts[:, a:b].sum(axis=1) for a, b in shapes.beyond)]
    )
    rows = np.maximum(y, 0.0)
    rows[:, inside:] = 0.0
    variance = std**2 * shapes.bins + rows + 1.0 + (shapes.model * rows) ** 2
    precision = (1.0 / variance) @ shapes.squares.T
    fit = np.maximum((y / variance) @ shapes.shape.T, 0.0)
    sizes = fit / precision
    weight = shapes.log_weight + (0.5 * fit**2 / precision - 0.5 * np.log(precision))
    weight = np.exp(weight - weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    group = None
    if y.shape[1] > inside:
        count, noise = y[:, inside], std * np.sqrt(shapes.bins[inside:]) + _LEAST_STD
        off = count[:, None] - shapes.shape[:, inside] * sizes
        chance = np.exp(-0.5 * off**2 / variance[:, inside, None])
        group = _Groups(count, np.full(count.size, noise[0]), (weight * chance).sum(axis=1))
    sizes /= shapes.scale  # rows beyond the end, if it goes on
    if group is not None:
        beyond = y[:, inside:].sum(axis=1).tolist()
        for size, counted in zip(sizes, beyond, strict=True):
            size *= _given_count(size, counted, float(np.linalg.norm(noise)))

    sums = weight * sizes
    moments = np.stack(
        [sums @ shapes.left, (sums * sizes) @ shapes.left**2, sums @ shapes.exceeding]
    )
    if group is not None:
        apart = group.weight(_APART)[:, None]
        means = group.moments()[:, :, None] * np.stack(shapes.apart)[:, None, :]
        moments = (1.0 - apart) * moments + apart * means
    best = np.argmin(balance * 2.0**shapes.offered + moments[2], axis=1)
    mean, square, _ = moments[:, np.arange(len(best)), best]
    doubt = np.sqrt(np.maximum(square - mean**2, 0.0))
    tails = _posterior(shapes, weight, sizes, best)
    if group is not None:
        apart = group.weight(_APART_CLAIMED)[:, None]
        tails[0] *= 1.0 - apart
        tails = np.concatenate([tails, group.tails(apart, 2.0 ** shapes.offered[best])], axis=2)
    found = zip(
        shapes.offered[best].tolist(), mean.tolist(), doubt.tolist(), _kept(tails), strict=True
    )
    return [Beyond(*side) for side in found]


def _posterior(shapes: _Shapes, weight: Floats, sizes: Floats, best: NDArray[np.int64]) -> NDArray:
    """Return weights, rows, excesses and sums of squares of the tails beyond some bounds.

    Of shape (4, sides, tails). Tails end at 0, or where hardly a row is left.
    """
    slope, bend, _, exceeding, squares = _family()
    sides = len(best)
    k = np.maximum(bend, 1e-6) * math.log(2.0)
    going_on = sizes[:, shapes.going_on].reshape(sides, -1, slope.size)
    some = np.log2(np.maximum(going_on / _LAST_ROW, 1.0))
    at, bound = shapes.index[best][:, None, None], 2.0 ** shapes.offered[best][:, None, None]
    cut = np.ceil(np.log1p(some * k / slope) / k / _STEP)
    cut = np.clip(cut, at, exceeding.shape[1] - 1).astype(int)
    if shapes.zero_index is not None:
        cut[:, 1] = np.minimum(cut[:, 1], np.maximum(shapes.zero_index, at[:, 0]))
    every = np.arange(slope.size)
    excess = exceeding[every, at] - exceeding[every, cut]
    square_sums = squares[every, at] - squares[every, cut] - 2.0 * bound * excess
    tails = np.zeros((4, *weight.shape))
    tails[0] = weight
    tails[1] = shapes.left[:, best].T * sizes
    tails[2, :, shapes.going_on] = (excess * going_on).reshape(sides, -1).T
    tails[3, :, shapes.going_on] = (np.maximum(square_sums, 0.0) * going_on).reshape(sides, -1).T
    return tails


class _Groups:
    """Groups of their own beyond the ends of some sides, of unknown sizes: normal, cut off at 0.

    - `count`, `std` of shape (sides,): Of the bins beyond the end.
    - `chance` of shape (sides,): What the other tails give the count, relative to its peak.
    """

    def __init__(self, count: Floats, std: Floats, chance: Floats) -> None:
        self.count, self.std, self.chance = count, std, np.maximum(chance, 1e-300)
        self.z = count / std
        self.above = np.maximum(ndtr(self.z), 1e-12)

    def weight(self, prior: float) -> Floats:
        """Return the posterior chance that there is such a group."""
        apart = prior * _APART_DENSITY * self.above
        chance: Floats = apart / (apart + (1.0 - prior) * self.chance)
        return chance

    def moments(self) -> Floats:
        """Return mean, mean square and mean of their rows, (3, sides)."""
        density = np.exp(-self.z * self.z / 2.0) / math.sqrt(2.0 * math.pi)
        mean = np.maximum(self.count + self.std * density / self.above, 0.0)
        return np.stack([mean, np.maximum(self.std**2 + self.count * mean, mean**2), mean])

    def tails(self, weight: Floats, bound: Floats) -> Floats:
        """Return weights, rows, excesses and sums of squares for some sizes, (4, sides, tails)."""
        chances = 1.0 - self.above[:, None] * (1.0 - _APART_SIZES)
        sizes = np.maximum(self.count[:, None] + self.std[:, None] * ndtri(chances), 0.0)
        rows = sizes[:, :, None] * (bound[:, None] ** -_APART_SLOPES)[:, None, :]
        bound = bound[:, None, None]
        excess = rows * bound / (_APART_SLOPES - 1.0)
        # The mean square of a power law's excess is finite beyond a slope of 2.
        squares = excess * bound * 2.0 / (_APART_SLOPES - 2.0)
        weights = np.broadcast_to(weight[:, :, None] / (rows[0].size), rows.shape)
        return np.stack([weights, rows, excess, squares]).reshape(4, len(rows), -1)
