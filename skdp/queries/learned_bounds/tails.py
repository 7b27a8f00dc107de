"""What lies beyond the last rows that were seen: a posterior over tails, from noisy counts.

Post-processing: nothing here sees a row. Two kinds of tails are weighed against each other. One
goes on as the rows inside tell: u doublings beyond the end, S(0) exp2(-a (2**(k u) - 1) / (k ln 2))
rows are left, a the slope in doublings of rows a doubling of distance (power laws for k = 0,
lognormal below 1/2, exponential 1, normal 2), or it ends, at the last bin or at the number 0. The
other says that rows beyond the end have nothing to do with those inside: a group of their own, as
large as the counts there allow. The bound lies where the noise of a wider one costs as much as what
it clips.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from skdp.core.clipping import Floats

__all__ = [
    "Beyond",
    "beyond_end",
]

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
_APART = 0.2  # prior chance of a group of its own
_APART_SLOPES = np.array([2.5, 6.0])
_APART_DENSITY = 0.42  # sqrt(2 pi) / 6: its size is uniform up to six standard deviations


@dataclass(frozen=True)
class Beyond:
    """Where to clip, and what is expected beyond.

    Attributes
    ----------
    doublings : float
        From the end of the rows seen to the bound.
    rows, doubt : float
        Mean and standard deviation of the number of rows beyond the bound.
    excess, risk : float
        Mean and root mean square of the sum of what they exceed it by, in units of the end.
    """

    doublings: float
    rows: float
    doubt: float
    excess: float
    risk: float


def _left(doublings: Floats, slope: Floats, bend: Floats) -> Floats:
    """Return the part of the rows beyond the end that is left at each distance, (tails, places)."""
    k = np.maximum(bend, 1e-6)[:, None] * math.log(2.0)
    power = np.expm1(np.minimum(k * doublings, 60.0)) / k
    left: Floats = 2.0 ** np.clip(-slope[:, None] * power, -1000.0, 60.0)
    return left


@functools.cache
def _family() -> tuple[Floats, Floats, Floats, Floats]:
    """Return slopes and bends of the tails; what is left and what exceeds, on the grid."""
    slope = np.repeat(_SLOPES, len(_BENDS))
    bend = np.tile(np.array(_BENDS), _SLOPES.size)
    grid = np.arange(0.0, _LAST + _STEP / 2, _STEP)
    left = _left(grid, slope, bend)
    # The integral of what is left over the distance, outwards from each place.
    density = left * 2.0**grid * math.log(2.0)
    pieces = (density[:, 1:] + density[:, :-1]) * (_STEP / 2.0)
    sums = np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1]
    return slope, bend, left, np.concatenate([sums, np.zeros((slope.size, 1))], axis=1)


def _grouped(counts: Floats, places: Floats, inside: int) -> tuple[Floats, Floats, Floats]:
    """Return counts and edges with the bins beyond put together, and how many bins each has."""
    edges, sums, bins = [places[: inside + 1]], [counts[:inside]], [np.ones(inside)]
    first = inside
    for end in _GROUPS:
        stop = int(np.searchsorted(places[1:], end + 1e-9))
        if stop > first:
            edges.append(places[stop : stop + 1])
            sums.append(counts[first:stop].sum(keepdims=True))
            bins.append(np.array([float(stop - first)]))
            first = stop
    return np.concatenate(sums), np.concatenate(edges), np.concatenate(bins)


def beyond_end(
    counts: Floats, edges: Floats, end: int, std: float, *, balance: float, zero: float,
    farthest: float,
) -> Beyond:  # fmt: skip
    """Return the bound of a side, and what is expected beyond it.

    Parameters
    ----------
    counts, edges : ndarray of shape (bins,)
        Noisy counts, and the outer edges of their bins, ascending.
    end : int
        The last bin with rows.
    std : float
        Standard deviation of a count's noise.
    balance : float
        Rows that may as well be clipped as bring the noise of a wider bound.
    zero : float
        Distance of the number 0, if it lies on this side, where tails like to end; else 0.
    farthest : float
        Doublings from the end to the bound, at most.
    """
    slope, bend, left, exceeding = _family()
    doublings = np.log2(edges / edges[end])
    first = int(np.searchsorted(doublings, -_INNER - 1e-9))
    stop = int(np.searchsorted(doublings, _GROUPS[-1] + 1e-9))
    lower = doublings[first - 1] if first else doublings[0] - 0.5
    places = np.concatenate([[lower], doublings[first:stop]])
    inside = end + 1 - first
    y, places, bins = _grouped(counts[first:stop], places, inside)
    rows = np.where(np.arange(y.size) < inside, np.maximum(y, 0.0), 0.0)
    model = _MODEL * (1.0 + 2.0 * np.maximum(-places[:-1], 0.0)) * rows
    variance = std**2 * bins + rows + 1.0 + model**2

    # Tails that go on, those that end with the last bin, and those that end at 0.
    at_zero = math.log2(zero / float(edges[end])) if zero >= edges[end] * 0.999999 else math.inf
    stops, weights = [math.inf, 0.0], [1.0, _ENDS]
    if at_zero < 1e-6:
        at_zero, weights[1] = 0.0, _ENDS_AT_ZERO
    elif at_zero < min(_GROUPS[-1], farthest):
        stops.append(at_zero)
        weights.append(_ENDS_AT_ZERO)
    above = _left(places, slope, bend)
    above = np.concatenate([np.where(places >= s - 1e-9, 0.0, above) for s in stops])
    inner = -np.diff(above, axis=1)
    scale = inner[:, :inside].sum(axis=1)  # of each tail, as many rows inside
    shape = inner / scale[:, None]
    precision = (shape**2 / variance).sum(axis=1)
    fit = np.maximum((shape * y / variance).sum(axis=1), 0.0)
    log_weight = np.add.outer(np.log(weights), np.tile(np.log(_BEND_WEIGHTS), _SLOPES.size)).ravel()
    log_weight += 0.5 * fit**2 / precision - 0.5 * np.log(precision)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    size = fit / precision / scale  # rows beyond the end, if it goes on

    # What is left and what exceeds, for bounds on a grid and at 0.
    offered = np.arange(0.0, farthest + 1e-9, 2 * _STEP)
    index = np.round(offered / _STEP).astype(int)
    zero_index = 0
    if len(stops) == 3:
        zero_index = round(at_zero / _STEP)
        offered, index = np.append(offered, at_zero), np.append(index, zero_index)
    part, sums = np.zeros((2, len(stops), slope.size, offered.size))
    part[0], sums[0] = left[:, index], exceeding[:, index]
    if len(stops) == 3:
        before = offered < at_zero - 1e-9
        part[2] = np.where(before, left[:, index], 0.0)
        short = exceeding[:, index] - exceeding[:, zero_index][:, None]
        sums[2] = np.where(before, np.maximum(short, 0.0), 0.0)
    part = part.reshape(size.size, -1) * size[:, None]
    sums = sums.reshape(size.size, -1) * size[:, None]
    moments = [weight @ part, weight @ part**2, weight @ sums, weight @ sums**2]
    if y.size > inside:
        expected = shape[:, inside] * (fit / precision)
        chance = float(weight @ np.exp(-0.5 * (y[inside] - expected) ** 2 / variance[inside]))
        apart, group = _apart(float(y[inside]), math.sqrt(float(variance[inside])), chance, offered)
        moments = [(1.0 - apart) * a + apart * b for a, b in zip(moments, group, strict=True)]
    best = int(np.argmin(balance * 2.0**offered + moments[2]))
    mean, square, excess, squares = (float(m[best]) for m in moments)
    return Beyond(
        doublings=float(offered[best]),
        rows=mean,
        doubt=math.sqrt(max(square - mean**2, 0.0)),
        excess=excess,
        risk=math.sqrt(squares),
    )


def _apart(count: float, std: float, chance: float, offered: Floats) -> tuple[float, list[Floats]]:
    """Return the chance of a group of its own beyond the end, and its moments at each bound.

    `chance` is what the other tails give the count, relative to its peak.
    """
    z = count / std
    above = max(float(ndtr(z)), 1e-12)
    apart = _APART * _APART_DENSITY * above
    apart /= apart + (1.0 - _APART) * max(chance, 1e-300)
    # Normal, cut off at 0.
    mean = max(count + std * math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi) / above, 0.0)
    square = max(std**2 + count * mean, mean**2)
    slope = _APART_SLOPES[:, None]
    left = 2.0 ** (-slope * offered)
    sums = left * 2.0**offered / (slope - 1.0)
    return apart, [
        mean * left.mean(axis=0),
        square * (left**2).mean(axis=0),
        mean * sums.mean(axis=0),
        square * (sums**2).mean(axis=0),
    ]
