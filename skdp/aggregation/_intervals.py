"""Aggregates with their intervals and notes, computed from released sums by key.

The noise is rounded Gaussian or discrete Laplace, independent between numbers. Quantiles come from
a tree of bins, or from a choice for each key with counts around it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from skdp.aggregation._plan import TREE_DEPTH, Aggregate, terms_of
from skdp.budget import exact
from skdp.confidence import Released, Source
from skdp.confidence.limits import MetricLimits, heavy_z, spread_seen
from skdp.core import PrivacyCertificate, Release, Session, released
from skdp.loss.conversions import round_up
from skdp.planning import Allowance
from skdp.queries import POINT_BITS, KeyCounts, KeyQuantiles, KeyTotals, rows_off, unit_sum
from skdp.tabular import KeyTerm, listed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95
Z = float(ndtri(0.5 + LEVEL / 2))
_SMOOTHED = 1.06


def half_width(std: float, step: float, *, pure: bool, level: float = LEVEL) -> float:
    """Return the smallest multiple of a step that noise stays within, at a level.

    Examples
    --------
    >>> half_width(10.0, 1.0, pure=False)
    20.0
    """
    sigma = std / step
    if not pure:
        return step * max(math.ceil(float(ndtri(0.5 + level / 2)) * sigma - 0.5), 0)
    # P(|X| > h) = 2 q**(h + 1) / (1 + q), q = exp(-1 / scale).
    scale = 0.5 / math.asinh(math.sqrt(0.5) / sigma)
    q = math.exp(-1 / scale)
    return step * max(math.ceil(scale * math.log(2 / (1 + q) / (1 - level))) - 1, 0)


def selected_interval(
    counts: Floats, scale: float, threshold: int, *, pure: bool, level: float = LEVEL
) -> tuple[Floats, Floats]:
    """Return intervals of true counts, at least 1, given that their noisy counts are shown.

    A count is shown if it reaches the threshold with its noise: discrete Laplace noise of this
    scale within [1 - threshold, threshold - 1], or rounded Gaussian noise. For every true count c
    the interval holds in at least `level` of the releases that show it: it has all c for which
    neither P(V >= v | V >= threshold) nor P(V <= v | V >= threshold) is (1 - level) / 2 or less, v
    the noisy count. Both are monotone in c, because both laws are log-concave. Near the threshold
    intervals reach far down: a small count that shows is no different from one at the threshold.

    Examples
    --------
    >>> low, high = selected_interval(np.array([15.0, 40.0]), 1.0, 15, pure=True)
    >>> low.tolist(), high.tolist()
    ([1.0, 37.0], [17.0, 43.0])
    """
    tail = _laplace_tail(scale, threshold - 1) if pure else _gaussian_tail(scale)
    alpha = (1 - level) / 2
    reach = np.full_like(counts, min(40.0 * scale, threshold - 1) if pure else 40.0 * scale)
    reach = np.ceil(reach) + 1

    def at_least(c: Floats) -> NDArray[np.bool_]:
        """Say where noise above the count is not too rare."""
        return tail(counts - c) - tail(threshold - c) > math.log(alpha)

    def at_most(c: Floats) -> NDArray[np.bool_]:
        return -np.expm1(tail(counts + 1 - c) - tail(threshold - c)) > alpha

    # If the least count that could show may not be told apart, there is no lower end but 1.
    with np.errstate(invalid="ignore"):  # a count of 0 never shows
        low = np.maximum(_first(at_least, counts - reach, counts), 1.0)
        high = -_first(lambda c: at_most(-c), -(counts + reach), -np.maximum(counts - reach, 1.0))
    return low, np.maximum(high, low)


def _first(holds: Callable[[Floats], NDArray[np.bool_]], low: Floats, high: Floats) -> Floats:
    """Return the least integers of ranges at which something holds that holds at their ends."""
    low, high = low.copy(), high.copy()
    while (low < high).any():
        middle = np.floor((low + high) / 2)
        fits = holds(middle)
        low, high = np.where(fits, low, np.minimum(middle + 1, high)), np.where(fits, middle, high)
    return low


def _laplace_tail(scale: float, bound: int) -> Callable[[Floats], Floats]:
    """Return the function of log P(X >= x), X discrete Laplace noise within [-bound, bound]."""
    rate, size = 1 / scale, bound + 1
    total = 1 + math.exp(-rate) - 2 * math.exp(-rate * size)

    def tail(x: Floats) -> Floats:
        x = np.asarray(np.clip(x, -bound, size), dtype=float)
        above = np.where(x >= 1, x, 1 - x)  # P(X >= x) = 1 - P(X >= 1 - x)
        part = np.exp(-rate * above) * -np.expm1(-rate * (size - above)) / total
        with np.errstate(divide="ignore"):
            return np.where(x >= 1, np.log(part), np.log1p(-part))

    return tail


def _gaussian_tail(sigma: float) -> Callable[[Floats], Floats]:
    """Return the function of log P(X >= x), X rounded Gaussian noise."""
    return lambda x: np.asarray(log_ndtr((0.5 - np.asarray(x, dtype=float)) / sigma))


def _two_laplace(ratio: float, level: float) -> float:
    """Return a quantile of |X + Y|, Laplace variables of standard deviations 1 and ratio <= 1."""
    a, b = math.sqrt(0.5), ratio * math.sqrt(0.5)
    if ratio < 1e-9:
        return -a * math.log(1 - level)

    def beyond(t: float) -> float:
        if 1 - ratio < 1e-6:
            return (1 + t / a / 2) * math.exp(-t / a) - (1 - level)
        tail = (a * a * math.exp(-t / a) - b * b * math.exp(-t / b)) / (a * a - b * b)
        return tail - (1 - level)

    return float(brentq(beyond, 0, 50 * a))


def quotient_intervals(
    total: Floats,
    count: Floats,
    total_std: float,
    count_std: float,
    *,
    low: float,
    high: float,
    pure: bool,
    extra: Any = 0.0,
    level: float = LEVEL,
) -> tuple[Floats, Floats]:
    """Return intervals of total / count, in [low, high], from noisy totals and counts (Fieller).

    A quotient r is allowed if |total - r count| is within the quantile of the noise of that
    difference, which depends on r alone. The interval is the hull of the allowed r on a grid of 513
    numbers, with ends bisected between neighbours of the grid and rounded outwards. `extra` is
    variance of each total beyond its noise.
    """
    grid, more = np.linspace(low, high, 513), np.broadcast_to(extra, count.shape)
    beyond = bool(np.any(more))

    def slack(r: Floats, t: Floats, n: Floats, more: Floats) -> Floats:
        """Return how far each r is inside the limit."""
        size = np.abs(r) * count_std
        if pure and not beyond:
            limit = _two_laplace_all(total_std, size, level)
        else:
            variance = total_std**2 + size**2 + (more if beyond else 0.0)
            kurtosis: Any = 0.0
            if pure:
                kurtosis = 3 * ((total_std**2 / variance) ** 2 + (size**2 / variance) ** 2)
            limit = heavy_z(kurtosis, level) * np.sqrt(variance)
            if pure and not np.all(more):
                limit = np.where(more != 0, limit, _two_laplace_all(total_std, size, level))
        return np.asarray(limit - np.abs(t - r * n))

    def allowed(part: slice) -> tuple[Any, ...]:
        """Return the first and last allowed place of the grid, and whether there is any."""
        inside = slack(grid, total[part, None], count[part, None], more[part, None]) >= 0
        last = 512 - np.argmax(inside[:, ::-1], axis=1)
        return np.argmax(inside, axis=1), last, inside.any(axis=1)

    best = np.where(count, total / np.where(count, count, 1.0), (low + high) / 2).clip(low, high)
    fits = slack(best, total, count, more) >= 0
    if pure and beyond:
        first, last, some = _in_parts(allowed, len(count), 128)
    else:
        # The quantile is convex in r. So on each side of `best` the numbers of the grid that are
        # not allowed have no gap, and an end lies between two of four places.
        last = np.clip(np.searchsorted(grid, best, side="right") - 1, 0, 511)
        places = np.stack([np.zeros_like(last), last, last + 1, np.full_like(last, 512)])
        fit = slack(grid[places], total, count, more) >= 0
        some = fit.any(axis=0)
        ends = np.stack([np.argmax(fit, axis=0), 3 - np.argmax(fit[::-1], axis=0)])
        near = np.take_along_axis(places, ends, axis=0)  # allowed, and far is not
        far = np.take_along_axis(places, np.clip(ends + np.array([[-1], [1]]), 0, 3), axis=0)
        while (np.abs(near - far) > 1).any():
            between = (near + far) // 2
            fit = slack(grid[between], total, count, more) >= 0
            near, far = np.where(fit, between, near), np.where(fit, far, between)
        first, last = near
    # The outermost allowed numbers of the grid and `best`, and the grid's next numbers outwards.
    lowest = np.minimum(np.where(some, grid[first], high), np.where(fits, best, high))
    highest = np.maximum(np.where(some, grid[last], low), np.where(fits, best, low))
    below = grid[np.maximum(np.searchsorted(grid, lowest) - 1, 0)]
    above = grid[np.minimum(np.searchsorted(grid, highest, side="right"), 512)]
    inside, outside = np.stack([lowest, highest]), np.stack([below, above])
    inside = np.where(slack(outside, total, count, more) >= 0, outside, inside)
    for _ in range(46):  # the 512th part of a range halved: below the last bit of its ends
        middle = inside + (outside - inside) / 2
        fit = slack(middle, total, count, more) >= 0
        inside, outside = np.where(fit, middle, inside), np.where(fit, outside, middle)
    outside = np.where(some | fits, outside, best)  # else noise took it beyond its bounds
    return outside[0], outside[1]


def _in_parts(work: Callable[[slice], tuple[Any, ...]], keys: int, size: int) -> Any:
    """Apply `work` to a few keys at a time, for memory; return its columns for all keys."""
    done = [work(slice(start, start + size)) for start in range(0, max(keys, 1), size)]
    return tuple(np.concatenate(columns) for columns in zip(*done, strict=True))


_Z_LAPLACE = -math.log(1 - LEVEL) / math.sqrt(2)


def _two_laplace_all(a: float, sizes: Any, level: float = LEVEL) -> Any:
    """Return quantiles of the sum of two Laplace noises, for many second deviations."""
    ratio = np.minimum(a, sizes) / np.maximum(np.maximum(a, sizes), 1e-300)
    return np.maximum(a, sizes) * np.interp(ratio, _RATIOS, _quantiles(level))


_RATIOS = np.linspace(0, 1, 65)


@functools.lru_cache(maxsize=64)
def _quantiles(level: float) -> Floats:
    return np.array([_two_laplace(float(r), level) for r in _RATIOS])


def variance_interval(
    count: Floats,
    first: Floats,
    second: Floats,
    stds: tuple[float, float, float],
    *,
    pure: bool,
) -> tuple[Floats, Floats, Floats]:
    """Return variances and their intervals, from noisy counts, sums and sums of squares.

    Values are in [-1, 1] and variances in [0, 1]; `second` is the sum of squares less half the
    count. For the true v and w = v - 1/2, second count - first**2 - w count**2 has mean
    -s1**2 - w s0**2 (in stds) and a variance that is estimated. The interval has all v for which
    its deviation is within the quantile.
    """
    s0, s1, s2 = stds
    grid = np.linspace(-0.5, 0.5, 4097)
    quadratic = s2**2 * s0**2 + 2 * s1**4 + 2 * grid**2 * s0**4

    def ends(part: slice) -> tuple[Floats, ...]:
        n, a, b = count[part, None], first[part, None], second[part, None]
        mean = b * n - a * a + s1**2 - grid * (n * n - s0**2)
        # Squares of estimates are too large by the variances of their noise.
        parts = (
            np.maximum(n * n - s0**2, 0) * s2**2,
            np.maximum((b - 2 * grid * n) ** 2 - s2**2 - 4 * grid**2 * s0**2, 0) * s0**2,
            4 * np.maximum(a * a - s1**2, 0) * s1**2,
        )
        spread = parts[0] + parts[1] + parts[2] + quadratic
        z: Any = Z
        if pure:  # the kurtosis of a sum decides between the normal and the Laplace quantile
            squares = parts[0] ** 2 + parts[1] ** 2 + parts[2] ** 2
            z = Z + (_Z_LAPLACE - Z) * np.clip(np.sqrt(squares) / np.maximum(spread, 1e-300), 0, 1)
        inside = np.abs(mean) <= z * np.sqrt(spread)
        value = np.clip(0.5 + (b * n - a * a) / np.maximum(n * n, 1.0), 0.0, 1.0)[:, 0]
        none = ~inside.any(axis=1)
        low = np.where(none, value, 0.5 + grid[np.argmax(inside, axis=1)]) - 1 / 4096
        last = 4096 - np.argmax(inside[:, ::-1], axis=1)
        high = np.where(none, value, 0.5 + grid[last]) + 1 / 4096
        return value, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    return _in_parts(ends, len(count), 32)


# --- quantiles from a tree of bins ----------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def tree_excess(depth: int, q: float) -> Floats:
    """Return the matrix (edges, nodes) from a tree's nodes to sums before each edge, less q of all.

    Nodes are level by level, without the root. Least squares over the levels gives the unbiased
    sums of smallest variance (Hay et al. 2010, Section 4).
    """
    size = 2**depth
    spans = np.concatenate(
        [np.repeat(np.eye(2**k), size >> k, axis=1) for k in range(1, depth + 1)]
    )
    sums = np.vstack([np.zeros(size), np.tril(np.ones((size, size)))])
    return np.asarray((sums - q * sums[-1]) @ np.linalg.pinv(spans))


@functools.lru_cache(maxsize=64)
def _edge_limits(depth: int, q: float, pure: bool) -> Floats:
    """Return the 95% limit of the noise of `tree_excess` at each edge, in deviations of a node."""
    return _noise_limits(tree_excess(depth, q), LEVEL, pure)


def _noise_limits(weights: Floats, level: float, pure: bool) -> Floats:
    """Return the limit of each weighted sum of noises, in deviations of one of them."""
    squares = weights**2
    variance = squares.sum(axis=1)
    kurtosis = 3 * (squares**2).sum(axis=1) / np.maximum(variance, 1e-300) ** 2
    return np.asarray(heavy_z(kurtosis if pure else 0.0, level) * np.sqrt(variance))


def _ascending(rows: Floats) -> Floats:
    """Return the isotonic regression of each row: means of neighbours that descend, pooled."""
    n_rows, size = rows.shape
    sums, widths = np.zeros((size, n_rows)), np.zeros((size, n_rows), dtype=np.int64)
    last = np.full(n_rows, -1)  # the last pool of each row
    for column in rows.T:
        last += 1
        at = np.arange(n_rows)
        sums[last, at], widths[last, at] = column, 1
        while at.size:
            at = at[last[at] > 0]
            top = last[at]
            falls = sums[top - 1, at] * widths[top, at] > sums[top, at] * widths[top - 1, at]
            at, top = at[falls], top[falls]
            sums[top - 1, at] += sums[top, at]
            widths[top - 1, at] += widths[top, at]
            last[at] = top - 1
    pools = np.arange(size)[:, None] <= last
    means = sums.T[pools.T] / widths.T[pools.T]
    return np.repeat(means, widths.T[pools.T]).reshape(rows.shape)


def quantile_bins(
    nodes: Floats, node_std: float, depth: int, q: float, *, pure: bool
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Return the q-quantiles in bins from 0, and the first and last bin of their intervals.

    An edge is below the quantile if clearly less than q of the rows is below it. The noisy shares
    below edges are made to ascend first, as the true ones do (isotonic regression): so an edge far
    from the quantile does not get into the interval by noise alone.
    """
    size = 2**depth
    # Regression chooses what it averages, and `_SMOOTHED` makes up for that: without it intervals
    # held in 93.7% where exactly q of the rows is before many empty bins, with it in 94.9% or more
    # (8,000 runs a case). Elsewhere they hold more often, since they are of whole bins.
    limit = _SMOOTHED * _edge_limits(depth, q, pure)

    def bins(keys: slice) -> tuple[Any, ...]:
        excess = (nodes[keys] @ tree_excess(depth, q).T) / max(node_std, 1e-300)
        ascending = _ascending(excess)
        every = np.ones((len(excess), 1), bool)
        open_left = np.c_[ascending[:, 1:] >= -limit[1:], every]
        open_right = np.c_[(ascending <= limit)[:, size - 1 :: -1], every]
        first = np.minimum(np.argmax(open_left, axis=1), size - 1)
        last = np.maximum(size - 1 - np.argmax(open_right, axis=1), 0)
        rising = np.maximum.accumulate(excess, axis=1)
        falling = np.minimum.accumulate(excess[:, ::-1], axis=1)[:, ::-1]
        smooth = (rising + falling) / 2
        place = np.minimum(np.argmax(np.c_[smooth[:, 1:] >= 0, every], axis=1), size - 1)
        rows = np.arange(len(excess))
        start, end = smooth[rows, place], smooth[rows, place + 1]
        part = np.where(end > start, -start / np.maximum(end - start, 1e-300), 0.5)
        return place + np.clip(part, 0.0, 1.0), first, last

    return _in_parts(bins, len(nodes), 2048)


# --- chosen quantiles -----------------------------------------------------------------------------
#
# Three points are chosen for each key: the quantile, and two that lie a public number of rows below
# and above it. They give six edges around the quantile, and noisy counts of the rows between these.
# An end of the interval is the innermost edge that is clearly on its side of the quantile, by these
# counts alone: so the interval holds for every column, however its values are spread.

# The true quantile is on one side of the chosen one, or equal to it. Edges on the other side are on
# their side of the true one, too. So only one end of an interval can fail, and it may in 5%: these
# are two-sided limits of 90%.
_CHOSEN_LEVEL = 0.90
# Of the share of a quantile: for the quantile itself, for each of the other two points, and for the
# counts. Edges lie at these multiples of the distance to the points. These numbers make intervals
# of evenly spread rows about the shortest, in a simulation: with edges at the points alone they are
# twice as long.
_VALUE, _END, _COUNTS = Fraction(55, 100), Fraction(8, 100), Fraction(29, 100)
_EDGES = (2.5, 1.0, 0.4)
_MARGIN = 2.3  # deviations by which a point lies beyond the limit of the counts' noise
_LENGTH = 0.45  # of that distance: the usual distance to the end of the interval
_MOST = 2**39  # rows that are added at an end


def _weights(q: float) -> Floats:
    """Return how the counts of cells add up to the rows before each edge, less q of all rows."""
    cells = 2 * len(_EDGES) + 1
    before = np.tril(np.ones((cells - 1, cells)))
    return before - q


def _limits(q: float, std: float, *, pure: bool) -> Floats:
    """Return the 90% limit of the noise at each edge; `std` is that of a cell."""
    return _noise_limits(_weights(q), _CHOSEN_LEVEL, pure) * std


def _distances(part: Allowance, q: float, caps: Sequence[int]) -> tuple[float, float]:
    """Return how many rows the other points lie below and above the quantile; public."""
    max_keys, max_rows = caps
    cuts = ((0,) * (2 * len(_EDGES)),)
    counts = unit_sum(KeyTotals(("",), (KeyTerm("between", cuts=cuts),), 0, max_keys, max_rows))
    std = part.part(_COUNTS).query_std(counts)
    off = rows_off(
        part.part(_END).level, q, max_keys, max_rows, pure=part.pure, relation=part.adjacency
    )
    limits, noise = _limits(q, std, pure=part.pure), std * np.sqrt((_weights(q) ** 2).sum(axis=1))
    rows = limits + _MARGIN * np.hypot(noise, math.sqrt(2) * off)
    return float(rows[0]), float(rows[-1])


def choose_quantile(
    session: Session, aggregate: Aggregate, keys: tuple[Any, ...], caps: Sequence[int], share: Any
) -> list[Release]:
    """Release the chosen points, the edges around them, and the counts between these."""
    assert aggregate.bounds is not None
    q, column, bounds = aggregate.q, aggregate.column, aggregate.bounds
    term, share = KeyTerm("points", column, *bounds), Fraction(share)
    below, above = _distances(Allowance.left(session, share), q, caps)

    def ask(part: Fraction, name: str, **beside: int) -> Release:
        query = KeyQuantiles(keys, term, q, *caps, **beside)
        release: Release = session.answer(query, share * part, name=f"{name} {q:g} {column}")
        return release

    # Of rows that are added below, a part q is below the new quantile in rank.
    value = ask(_VALUE, "quantile")
    low = ask(_END, "below quantile", below=_rows(below / (1 - q)))
    high = ask(_END, "above quantile", above=_rows(above / q))
    points, lows, highs = (r.value.astype(np.int64) for r in (value, low, high))
    cuts = _cuts(points, lows, highs)
    between = KeyTerm("between", column, *bounds, cuts=tuple(map(tuple, cuts.tolist())))
    totals = unit_sum(KeyTotals(keys, (between,), 0, *caps))
    name = f"rows around quantile {q:g} {column}"
    counts = session.answer(totals, share * _COUNTS, name=name)
    return [value, released(cuts.astype(np.float64), np.nan), counts]


def _rows(rows: float) -> int:
    return math.ceil(min(max(rows, 1.0), _MOST))


def _cuts(points: Ints, lows: Ints, highs: Ints) -> Ints:
    """Return the edges of each key, ascending: a row at a point is before the edge above it."""
    sides = []
    for end, sign in ((lows, -1), (highs, 1)):
        distance = np.maximum(np.abs(points - end), 1)
        sides.append([points + sign * np.ceil(f * distance).astype(np.int64) for f in _EDGES])
    below, above = sides
    cuts = np.stack([*below, *(edge + 1 for edge in reversed(above))], axis=1)
    return np.clip(cuts, 0, (1 << POINT_BITS) + 1)


# --- aggregates -----------------------------------------------------------------------------------

_CLEAR = 10.0  # deviations of noise that a number of rows must have, for the error of a mean
_BEYOND = 5.0  # deviations above the least count that shows: selection changes little there
AT_ANY_LEVEL = ("count", "distinct_units", "sum", "mean")


def column_of(aggregate: Any) -> list[str]:
    """Return the names of an aggregate's columns: one, or one for each bin."""
    if aggregate.kind == "histogram":
        return [f"{aggregate.name}_{i}" for i in range(len(aggregate.edges) - 1)]
    return [aggregate.name]


def no_columns(aggregate: Any) -> dict[str, list[Any]]:
    """Return the columns of an aggregate (of SQL, too), all empty."""
    names = [f"{name}{end}" for name in column_of(aggregate) for end in ("", "_low", "_high")]
    if aggregate.kind == "mean":
        names += [f"{aggregate.name}_population_low", f"{aggregate.name}_population_high"]
    return {name: [] for name in names}


def check_outputs(by: list[str], unit: str | None, aggregates: list[Aggregate]) -> None:
    """Raise if ids are aggregated, or if two columns of the result would have the same name."""
    known = dict.fromkeys(by, "the key column")
    for aggregate in aggregates:
        if unit is not None and aggregate.column == unit:
            raise ValueError(f"{aggregate.name}: column {unit!r} is the unit, of ids")
        for name in no_columns(aggregate):
            if name in known:
                raise ValueError(
                    f"{aggregate.name}: its column {name!r} of the result would replace that of "
                    f"{known[name]}: give the aggregate another name"
                )
            known[name] = f"aggregate {aggregate.name!r}"


def left_out_of(out: Release, pure: bool) -> dict[str, float]:
    """Return the numbers of keys and rows beyond the caps, with intervals at 95%."""
    widths = 2.2 * np.asarray(out.std) if pure else 1.96 * np.asarray(out.std) + 0.5
    numbers = {}
    for name, value, width in zip(("keys", "rows"), out.value, widths, strict=True):
        for end, shift in (("", 0.0), ("_low", -float(width)), ("_high", float(width))):
            numbers[name + end] = max(float(value) + shift, 0.0)
    return numbers


_UNCLEAR = (
    "DPGroupBy: units are too few for this epsilon to learn bounds of {}: values may lie far "
    "beyond them, and there are no intervals. State bounds, or take a larger epsilon"
)
_LEFT_OUT = (
    "DPGroupBy: about {:.0%} of the rows were left out, to bound what one unit adds ({} keys, and "
    "{} rows in each). Counts and sums, and their intervals, are of the other rows. Take a larger "
    "epsilon, or state max_keys_per_unit and max_rows_per_unit"
)
_MANY = 0.1  # of the rows


def share_left_out(by: Any, counted: float) -> float | None:
    """Return the share of rows beyond the caps if it is clearly above a tenth, else None.

    `counted` is a released number of rows within the caps.
    """
    rows, least = (by.left_out_.get(key, 0.0) for key in ("rows", "rows_low"))
    return rows / (counted + rows) if least > _MANY * max(counted + rows, 1.0) else None


def remarks(
    by: Any, aggregates: list[Aggregate], unclear: set[str], columns: Mapping[str, list[Any]]
) -> list[str]:
    """Return warnings: learned bounds that are a guess, and many rows beyond the caps.

    `unclear` has the names of the aggregates whose learned bounds are a guess.
    """
    guessed = sorted({aggregate.column for aggregate in aggregates if aggregate.name in unclear})
    texts = [_UNCLEAR.format(listed(guessed))] if guessed else []
    counts = [aggregate.name for aggregate in aggregates if aggregate.kind == "count"]
    private = isinstance(by.max_keys_per_unit, str) or isinstance(by.max_rows_per_unit, str)
    if counts and private and by.unit is not None:
        share = share_left_out(by, sum(columns[counts[0]]))
        if share is not None:
            caps = by.max_keys_per_unit_, by.max_rows_per_unit_
            texts.append(_LEFT_OUT.format(share, *caps))
    return texts


def notes_of(by: Any, kinds: set[str]) -> list[str]:
    """Return notes on the rows that intervals cover, if caps were chosen privately.

    On tables of users with several rows, intervals contain the number of all rows in 50 to 90% of
    fits, and seldom where tails are heavy.
    """
    of_units = kinds == {"distinct_units"}
    private = isinstance(by.max_keys_per_unit, str) or (
        isinstance(by.max_rows_per_unit, str) and not of_units
    )
    added_up = kinds & {"count", "sum", "histogram", "distinct_units"}
    if not private or not getattr(by, "left_out_", {}) or not added_up:
        return []
    return [limits_of(by, of_units=of_units)]


def limits_of(by: Any, *, of_units: bool) -> str:
    """Return a note on the caps, and on the released number of keys or rows beyond them."""
    keys, rows, out = by.max_keys_per_unit_, by.max_rows_per_unit_, by.left_out_
    name, what = ("keys", "keys of units") if of_units else ("rows", "rows")
    low, high = math.floor(out[f"{name}_low"]), math.ceil(out[f"{name}_high"])
    number = f"Up to about {high:,} {what} were left out: noise hides how many."
    if low:
        number = f"About {round(out[name]):,} {what} were left out ({low:,} to {high:,})."
    return (
        f"a unit counts in at most {keys} {'key' if keys == 1 else 'keys'}, with at most {rows} of "
        f"its rows in each. {number} Counts and sums do not include them, and intervals are of the "
        "rows that count, not of all. State max_keys_per_unit and max_rows_per_unit to set these "
        "limits"
    )


def std_of(release: Release) -> float:
    """Return the standard deviation of the noise: the same for all numbers of a release here."""
    return float(np.max(release.std))


def _with(name: str, value: Any, low: Any, high: Any) -> dict[str, list[Any]]:
    return {name: _list(value), f"{name}_low": _list(low), f"{name}_high": _list(high)}


def _list(values: Any) -> list[Any]:
    return np.asarray(values, dtype=float).tolist()


# Squares of a unit's sums are released in squares of 2**30 steps: `KeyTotals.unit`.
_STEPS = 2.0**60


@dataclass(frozen=True)
class Totals:
    """The released sums by key, or choices, of an aggregate.

    `law` is that of the aggregate where it is a count which has selected the keys.
    """

    aggregate: Aggregate
    releases: list[Release]
    pure: bool
    law: KeyCounts | None = None

    @property
    def _term(self) -> KeyTerm:
        return terms_of(self.aggregate)[-1]

    def columns(
        self, *, spread: Release | None = None, level: float = LEVEL
    ) -> dict[str, list[Any]]:
        """Return the columns of the aggregate; with `spread`, the interval of a population's mean.

        Numbers are clipped to their intervals. ValueError if intervals of this aggregate are known
        only at 95% and `level` is another one.
        """
        aggregate, kind = self.aggregate, self.aggregate.kind
        if level != LEVEL and (kind not in AT_ANY_LEVEL or spread is not None):
            raise ValueError(f"{aggregate.name}: intervals of a {kind} are known at 95% alone")
        if aggregate.chosen:
            return self._chosen()
        if kind == "mean":
            return self._mean(spread, level)
        if kind == "quantile":
            return self._quantile()
        return self._variance() if kind in ("variance", "std") else self._sums(level)

    def _sums(self, level: float) -> dict[str, list[Any]]:
        kind, term, law, (release,) = self.aggregate.kind, self._term, self.law, self.releases
        value, of_sum = release.value, kind == "sum"
        step = {"sum": term.grid, "histogram": 2.0**-10}.get(kind, 1.0)
        width = half_width(std_of(release), step, pure=self.pure, level=level)
        least = -math.inf if of_sum and term.low < 0 else 0.0
        most = 0.0 if of_sum and term.high <= 0 else math.inf
        if law is None:
            low, high = (np.clip(value + shift, least, most) for shift in (-width, width))
        else:
            low, high = selected_interval(
                value, law.scale, law.threshold, pure=law.pure, level=level
            )
        shown = np.clip(value, low, high)
        out: dict[str, list[Any]] = {}
        for i, name in enumerate(column_of(self.aggregate)):
            out |= _with(name, shown[:, i], low[:, i], high[:, i])
        if kind in ("count", "distinct_units"):
            return {name: [round(cell) for cell in cells] for name, cells in out.items()}
        return out

    def _mean(self, spread: Release | None, level: float) -> dict[str, list[Any]]:
        name, term, releases = self.aggregate.name, self._term, self.releases
        count, total = (release.value[:, 0] for release in releases)
        stds = std_of(releases[1]), std_of(releases[0])
        middle, half = (term.low + term.high) / 2, (term.high - term.low) / 2
        extra: Any = 0.0
        if spread is not None:
            extra = spread_seen(spread.value[:, 0], std_of(spread)) * term.grid**2 * _STEPS
        lows, highs = quotient_intervals(
            total, count, *stds, low=-half, high=half, pure=self.pure, extra=extra, level=level
        )
        if spread is not None:
            return {
                f"{name}_population_low": _list(middle + lows),
                f"{name}_population_high": _list(middle + highs),
            }
        value = np.clip(total / np.maximum(count, 1.0), lows, highs)
        return _with(name, middle + value, middle + lows, middle + highs)

    def _variance(self) -> dict[str, list[Any]]:
        """Return variances (divided by the number of rows), or standard deviations."""
        aggregate, term, releases = self.aggregate, self._term, self.releases
        half = (term.high - term.low) / 2
        count, total, square = (release.value[:, 0] for release in releases)
        # Sums are in user units, squares in half widths, about one half.
        stds = std_of(releases[0]), std_of(releases[1]) / half, std_of(releases[2])
        ends = variance_interval(count, total / half, square, stds, pure=self.pure)
        shown = np.sqrt if aggregate.kind == "std" else np.asarray
        return _with(aggregate.name, *(shown(end * half**2) for end in ends))

    def _quantile(self) -> dict[str, list[Any]]:
        """Return quantiles of a tree, interpolated within their bins."""
        aggregate, term, (release,) = self.aggregate, self._term, self.releases
        value, first, last = quantile_bins(
            release.value, std_of(release), term.depth, aggregate.q, pure=self.pure
        )
        low, width = term.low, (term.high - term.low) / 2**term.depth
        ends = np.minimum(first, np.floor(value)), np.maximum(last + 1, np.ceil(value))
        return _with(
            aggregate.name, *(np.clip(low + x * width, low, term.high) for x in (value, *ends))
        )

    def _chosen(self) -> dict[str, list[Any]]:
        """Return chosen quantiles.

        Edges are looked at from the outermost inwards, until one is not clear of the noise. So the
        interval fails only if the first edge that is beyond the quantile is clear by noise alone.
        """
        aggregate, n, top = self.aggregate, len(_EDGES), 1 << POINT_BITS
        assert aggregate.bounds is not None
        points, cuts, counts = (release.value for release in self.releases)
        excess = counts @ _weights(aggregate.q).T
        limits = _limits(aggregate.q, std_of(self.releases[-1]), pure=self.pure)
        below = (excess[:, :n] < -limits[:n]) | (cuts[:, :n] <= 0)
        above = ((excess[:, n:] > limits[n:]) | (cuts[:, n:] > top))[:, ::-1]
        places = [points]
        # A value counts at its nearest point: so the ends are half a step further out.
        for clear, edges, end, out in (
            (below, cuts[:, :n], 0, -0.5),
            (above, cuts[:, n:][:, ::-1] - 1, top, 0.5),
        ):
            edges = np.c_[np.full(len(points), end), edges]
            several = np.logical_and.accumulate(clear, axis=1).sum(axis=1)
            places.append(edges[np.arange(len(points)), several] + out)
        low, high = aggregate.bounds
        step = (high - low) / 2**POINT_BITS
        return _with(aggregate.name, *(np.clip(low + x * step, low, high) for x in places))


@dataclass(frozen=True)
class Ends:
    """The intervals of a column of an aggregate; a value to be pickled.

    `selected` are the keys with their counts where a count has selected them. With `unclear` bounds
    nothing is known.
    """

    totals: Totals
    name: str
    columns: dict[str, list[Any]]
    selected: KeyCounts | None
    unclear: bool

    def __call__(self, level: float, sampled: bool) -> tuple[Floats, Floats]:
        """Return intervals for the rows, or for the population (at 95% alone)."""
        columns, of = self.columns, "_population" if sampled else ""
        if sampled and level != LEVEL:
            raise ValueError(f"{self.name}: intervals for the population are known at 95% alone")
        if level != LEVEL:
            columns = self.totals.columns(level=level)
        low, high = (np.array(columns[f"{self.name}{of}{end}"], float) for end in ("_low", "_high"))
        return (low * np.nan, high * np.nan) if self.unclear else (low, high)

    @property
    def value(self) -> Floats:
        """The numbers: those of sums and counts as they were drawn, before they are clipped."""
        aggregate = self.totals.aggregate
        if aggregate.kind not in ("count", "distinct_units", "sum", "histogram"):
            return np.array(self.columns[self.name], dtype=np.float64)
        drawn: Floats = self.totals.releases[0].value[:, column_of(aggregate).index(self.name)]
        return drawn

    @property
    def std(self) -> Any:
        """Standard errors; NaN where noise hides a key, or the count that showed it is small."""
        kind, releases = self.totals.aggregate.kind, self.totals.releases
        stds = [std_of(release) for release in releases]
        std: Any = np.nan
        enough: Any = not self.unclear
        if kind in ("count", "distinct_units", "sum", "histogram"):
            std = stds[0]
        elif kind == "mean":
            term = terms_of(self.totals.aggregate)[-1]
            count = releases[0].value[:, 0]
            enough = enough & (count >= _CLEAR * stds[0])
            count = np.where(enough, count, 1.0)
            std = np.hypot(stds[1], (self.value - (term.low + term.high) / 2) * stds[0]) / count
        if self.selected is not None and (self.totals.law is not None or kind == "mean"):
            least = self.selected.threshold + _BEYOND * float(np.max(self.selected.std))
            enough = enough & (self.selected.counts >= least)
        return np.where(enough, std, np.nan)

    def released(
        self, privacy: PrivacyCertificate, session: str, labels: Mapping[str, Any]
    ) -> Released:
        """Return the column as released numbers; `session` names that of the fit."""
        value, aggregate = self.value, self.totals.aggregate
        std = np.broadcast_to(self.std, value.shape)
        own = {"session": session, "key": f"{session} {self.name}"}
        errors = Source((privacy,), std, uncorrelated=True, **own)
        limits = MetricLimits(self, users=False, of_population=aggregate.kind == "mean")
        ends: Any = aggregate.bounds and tuple(np.array([end]) for end in aggregate.bounds)
        return Released(value, std, privacy, ends, "", limits, labels, errors)


def joined(first: PrivacyCertificate | None, second: PrivacyCertificate) -> PrivacyCertificate:
    """Return the certificate of two sessions, one after the other: what they claim adds up."""
    if first is None:
        return second
    parts = [exact(one.epsilon) for one in (first, second)]
    releases = tuple(
        replace(record, share=float(exact(record.share) * part / sum(parts)))
        for one, part in zip((first, second), parts, strict=True)
        for record in one.releases
    )
    epsilon = round_up(sum(parts, Fraction(0)))
    return replace(second, epsilon=epsilon, mu=None, releases=releases)


def expected_width(
    aggregate: Aggregate, part: Allowance, caps: Sequence[int], rows_per_key: float
) -> float:
    """Return the approximate half width of an aggregate's interval, from public numbers."""
    max_keys, max_rows = caps
    if aggregate.chosen:
        # About half the length of an interval in rows, as a share of the rows.
        return _LENGTH * sum(_distances(part, aggregate.q, caps)) / 2 / rows_per_key
    kind, term = aggregate.kind, terms_of(aggregate)[-1]
    replace = 2.0 if part.pure else math.sqrt(2)
    z = 2.12 if part.pure else Z

    def width(bound: float, signed: bool = False) -> float:
        factor = (2.0 if signed else replace) if part.replace else 1.0
        if part.pure:
            return z * (math.sqrt(2) * factor * max_keys * bound / part.level)
        return z * (factor * math.sqrt(max_keys) * bound / part.level)

    if kind == "distinct_units":
        return width(1.0)
    if kind in ("count", "histogram"):
        return width(max_rows)
    if kind == "sum":
        return width(max_rows * max(abs(term.low), abs(term.high)), True)
    if kind == "quantile":
        nodes = TREE_DEPTH if part.pure else math.sqrt(TREE_DEPTH)
        # The edge at the quantile of evenly spread values.
        edge = tree_excess(TREE_DEPTH, aggregate.q)[round(aggregate.q * 2**TREE_DEPTH)]
        return width(max_rows * nodes) * float(np.linalg.norm(edge)) / rows_per_key
    half = (term.high - term.low) / 2
    mean = width(max_rows * half, True) / rows_per_key
    return half * mean if kind == "variance" else mean
