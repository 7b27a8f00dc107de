"""K-means where rows are too few for bounds of every column: in a ball that is learned.

One box for all columns is as wide as the widest one, and its half diagonal, which noise follows, is
many times the rows' distance from their mean. Distances from a point are one number a row: their
median takes little of the allowance. So a centre and a radius are learned in turn: median of the
rows' lengths, a first mean, median of the distances from it; for more rows, counts of distances,
which show where to clip. Noise is then spent on structure, or, where released numbers say that it
would drown, on one better mean. All decisions depend on public facts and earlier releases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.cluster._coreset import Clustering, PublicBox, shrinkage
from skdp.cluster._lloyd import MANY_FEATURES, at_one_point, cluster_in, spectral_edge, subspace
from skdp.core import Ball, Mean, Session
from skdp.planning import Allowance
from skdp.queries import NormBins, row_counts

Floats = NDArray[np.float64]

# Rows times level a column (pure; a part of it for Gaussian noise, times the root of the columns)
# from which bounds of every column cost less than they are worth.
_ENOUGH = {True: 800.0, False: 240.0}
# Gaussian noise does with fewer rows, and so does a row more or less: in these units a number of
# rows times the level is one of pure noise for a row replaced.
_GAUSSIAN_EASE = 3.3
_ADDED_EASE = {True: 2.0, False: 1.4}

# Noise of the first mean, in radii, that is aimed at; its least and largest share. Lengths of rows
# far from the origin are alike, so it is clipped to about their median, which keeps directions.
_FIRST_MEAN = (0.3, 0.2, 0.35)
_FIRST_WIDE = 1.1
# Rows that a median needs (the exponential mechanism misses all rows with a chance of about 100
# exp(-rows / 4), as rows are alike in one part of a hundred of its prior); least, largest share.
_LENGTHS = (50, 0.03, 0.35)
_DISTANCES = (40, 0.02, 0.2)
_COUNTS = (150, 0.01, 1.0)  # of counts of distances, of use from _FINE rows on
_FINE = 1500.0
_FEW = 150.0  # with fewer rows one mean takes all that the first median leaves
_LONG = 0.7  # noise of a first mean, in radii, that makes it useless
_COUNTED = 8.0  # medians up to which distances are counted
_CLEAR = 2.0  # standard deviations of a sum of counts that are taken for rows
# Where nothing is counted: mean excess beyond two medians, times four; the least and the largest
# radius, and the root mean square distance, in medians; what clipping takes of a point's own noise.
_TAIL, _NARROW, _FAR, _TYPICAL, _TURNED = 0.6, 1.2, 4.0, 1.2, 0.1
_BIAS = 0.7  # of the mean excess of distances: what clipping moves a mean by
_MARGIN = 1.1  # of claimed errors, for what the first mean and the decoded counts leave out
_LEAST_OWN = 0.3  # of a median distance: what is not noise of the point, as both are uncertain
_KNOWN = 0.7  # of the length of the noise of a mean: distances from it are not shorter

# Of what the mean leaves: mean, second moment (least and most), and of the remainder the tree.
_SECOND_MEAN = 0.1
_GRAM = (0.1, 0.6)
_EDGE_AIM = 0.15  # of the mean squared distance: edge of the noise that a second moment aims at
_TREE = 0.5
_GRAM_RADIUS = (0.8, 1.7)  # in radii, and in root mean square distances
# Noise drowns structure above this edge, or below so many levels of a tree's count in all rows.
_HOPELESS_EDGE = {True: 0.3, False: 0.5}
_HOPELESS_TREE = {True: 8.0, False: 6.0}
_REACH = 3.0  # half widths of the bounds, in radii of the second moment

_TINY, _LARGEST = 1e-100, 1e100  # of lengths: their squares are finite and above 0


def takes_ball(session: Session, n: float) -> bool:
    """Say whether n rows are too few for bounds of every column, or columns are many."""
    if session.n_features > MANY_FEATURES:  # a ball at the rows is narrower than any box
        return True
    d = session.n_features if session.pure else math.sqrt(session.n_features)
    return n * session.level() < _ENOUGH[session.pure] * d


def _fraction(x: float) -> Fraction:
    return Fraction(x).limit_denominator(1000)


def _share(size: float, limits: tuple[float, float, float]) -> Fraction:
    """Return the share of `size` that has so many rows, within limits."""
    rows, least, most = limits
    return _fraction(min(max(rows / size, least), most))


@dataclass(frozen=True)
class _Point:
    """A released point near the rows: an estimate of their mean, and its noise a coordinate."""

    at: Floats
    std: float


@dataclass(frozen=True)
class _Reach:
    """How far rows are from a point: radius to clip to, root mean square, mean excess over it."""

    radius: float
    rms: float
    excess: float


class _BallFit:
    """The steps of a fit in a ball: each spends a part of the session's allowance."""

    def __init__(self, session: Session, n: float) -> None:
        self.session, self.n = session, n
        self.whole, self.root = session.remaining, math.sqrt(session.n_features)
        size = max(n * session.level(self.whole), 1.0)
        if not session.pure:
            size *= _GAUSSIAN_EASE
        if session.adjacency != "replace_one":
            size *= _ADDED_EASE[session.pure]
        self.size = size

    def mean_noise(self, share: Fraction) -> float:
        """Return the noise of a coordinate of a mean in a ball, in radii."""
        return Allowance.left(self.session, share).ball_std(self.session.n_features) / self.n

    def median(self, center: Floats, limits: tuple[float, float, float]) -> float:
        """Release about the median distance from a point."""
        from skdp.queries import NormMedian  # with what learns bounds, which most fits do not need

        share = self.whole * _share(self.size, limits)
        median = float(self.session.answer(NormMedian(center, self.n), share))
        return min(max(median, _TINY), _LARGEST)

    def reach(self, center: Floats, median: float, noise: float, known: float = 0.0) -> _Reach:
        """Return how far rows are, by counts of distances if rows are many.

        The radius minimises the squared noise and clipping bias of a mean, whose noise is `noise`
        radii a coordinate.
        """
        if self.size >= _FINE:
            bins = NormBins(center, _COUNTED * median, low=-40, high=1, descending=True)
            share = self.whole * _share(self.size, _COUNTS)
            counts = self.session.answer(row_counts(bins, "distances"), share)
            seen = self._seen(counts.value, float(np.max(counts.std)), bins.unit, noise)
            if seen is not None:
                return seen
        own = math.sqrt(max(median**2 - known**2, 0.0))  # of the rows, without the point's noise
        # Beyond x medians, the mean excess is taken for _TAIL / x**2 of them.
        x = (math.sqrt(2) * _BIAS * _TAIL / (self.root * noise)) ** (1 / 3)
        x = min(max(x, _NARROW), _FAR)
        radius = max(math.hypot(known, x * own), _NARROW * median)
        rms = _TYPICAL * max(own, _LEAST_OWN * median)
        return _Reach(radius, rms, _TAIL * own / x**2 + _TURNED * known)

    def _seen(self, counts: NDArray, std: float, bound: float, noise: float) -> _Reach | None:
        """Decode counts of distances; None if noise hides them all."""
        edges = bound * 2.0 ** (-np.arange(counts.size) / 4)  # lower ones, of descending bins
        beyond = np.cumsum(counts.astype(np.float64))
        doubt = _CLEAR * std * np.sqrt(np.arange(1, beyond.size + 1))
        beyond = np.where(beyond > doubt, beyond, 0.0)
        beyond = np.minimum(np.maximum.accumulate(beyond), self.n) / self.n
        middle = (beyond[:-1] + beyond[1:]) / 2
        excess = np.append(0.0, np.cumsum((edges[:-1] - edges[1:]) * middle))
        square = float(((edges[:-1] ** 2 - edges[1:] ** 2) * middle).sum())
        if square <= 0:
            return None
        cost = (self.root * noise * edges) ** 2 + (_BIAS * excess) ** 2
        best = int(np.argmin(cost))
        return _Reach(float(edges[best]), math.sqrt(square), float(excess[best]))

    def mean(self, center: Floats, radius: float, share: Fraction | None) -> tuple[Floats, float]:
        """Release the mean of rows in a ball, and its noise a coordinate."""
        release = self.session.answer(Mean(Ball(center, radius)), share)
        return np.array(release.value), float(np.max(np.asarray(release.std)))

    def better(self, point: _Point, radius: float, share: Fraction | None) -> _Point:
        """Release a mean of rows clipped about an earlier one; return both, weighted.

        By their precision, or more to the later one where they are far apart.
        """
        value, std = self.mean(point.at, radius, share)
        step = value - point.at
        trust = 1 / (1 + (std / max(point.std, _TINY)) ** 2)
        trust = max(trust, shrinkage(float(step @ step), std**2 * step.size))
        return _Point(point.at + trust * step, std * math.sqrt(trust))


def fit_in_ball(
    session: Session, n: float, n_std: float, n_clusters: int
) -> tuple[Clustering, PublicBox]:
    """Learn a ball and cluster in it; return the centres, and a box about the ball."""
    d, fit = session.n_features, _BallFit(session, n)
    origin = np.zeros(d)

    def one_point(point: _Point, reach: _Reach) -> tuple[Clustering, PublicBox]:
        # Clipping moves a mean by at most the mean excess, in a direction that is not known.
        error = _MARGIN * math.hypot(point.std, reach.excess / fit.root)
        if fit.size < _FEW:  # rows may be elsewhere: nothing is claimed
            error = reach.radius
        std, noise_std = (np.full(d, min(x, reach.radius)) for x in (error, point.std))
        box = PublicBox(point.at - reach.radius, point.at + reach.radius)
        return at_one_point(point.at, std, noise_std, n, n_std, n_clusters), box

    median = fit.median(origin, _LENGTHS)
    # Noise of `aim` radii is enough: what follows needs no more than a point amid the rows.
    aim, least, most = _FIRST_MEAN
    part = min(max(fit.mean_noise(session.remaining) * fit.root / aim, least), most)
    share = fit.whole * _fraction(part)
    noise = fit.mean_noise(share)
    in_steps = fit.size >= _FEW and noise * fit.root < _LONG
    if not in_steps:
        noise = fit.mean_noise(session.remaining)
    reach = fit.reach(origin, median, noise)
    radius = max(reach.radius, median) if fit.size >= _FINE else _FIRST_WIDE * median
    value, std = fit.mean(origin, radius, share if in_steps else None)
    point = _Point(value * shrinkage(float(value @ value), std**2 * d), std)
    if not in_steps:
        return one_point(point, _Reach(radius, reach.rms, _TURNED * median))

    distance = min(fit.median(point.at, _DISTANCES), 2 * median)
    distance = max(distance, _KNOWN * point.std * fit.root)
    noise = fit.mean_noise(session.remaining * Fraction(9, 10))
    reach = fit.reach(point.at, distance, noise, min(point.std * fit.root, distance))

    # Structure, if its noise is below what rows differ by.
    rest = session.remaining
    square = max(reach.rms, _TINY)
    least, most = _GRAM_RADIUS
    radius = max(least * reach.radius, min(most * reach.rms, _COUNTED * distance))
    unit = (radius / square) ** 2
    least, most = _GRAM
    edge = spectral_edge(session, rest, n) * unit
    gram = min(max((edge / _EDGE_AIM) ** (1 if session.pure else 2), least), most)
    mean_share, gram_share, tree_share = (
        rest * _fraction(part) for part in (_SECOND_MEAN, gram, _TREE * (1 - _SECOND_MEAN - gram))
    )
    edge = spectral_edge(session, gram_share, n) * unit
    tree = n / Allowance.left(session, tree_share / 2).cell_scale
    if (
        n_clusters == 1
        or edge > _HOPELESS_EDGE[session.pure]
        or tree < _HOPELESS_TREE[session.pure]
    ):
        return one_point(fit.better(point, reach.radius, None), reach)
    point = fit.better(point, reach.radius, mean_share)
    wide = max(_REACH * radius, reach.radius)
    box = PublicBox(point.at - wide, point.at + wide)
    space = subspace(session, box, point.at, np.full(d, point.std), radius, gram_share)
    if space.n_clear:
        found = cluster_in(space, session, box, space.n_clear, tree_share, n, n_std, n_clusters)
        if found is not None:
            return found, box
    point = fit.better(_Point(space.mean, float(space.std.max())), reach.radius, None)
    return one_point(point, reach)
