"""Weighted representatives of private rows from a released tree, and k-means on them.

`grow` releases noisy counts of the frontier of a binary tree over a bounded box, once a round, and
at the end noisy counts and sums of its leaves. A row lies in one node of each frontier, so the
noise of a round does not grow with the number of nodes. From these releases follow which node to
split next, counts made consistent by least squares, and one representative point a leaf.

References
----------
Hay, Rastogi, Miklau & Suciu 2010, "Boosting the accuracy of differentially private histograms
through consistency", section 4 (least squares on a tree); Cormode et al. 2012, "Differentially
private spatial decompositions", section 4 (noisy counts along a tree of boxes).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances

from skdp.core import Session, public_generator
from skdp.planning import Allowance
from skdp.queries import BoxTree, ColumnBox, Projection, Tree
from skdp.user_code import suppress_warnings

Floats = NDArray[np.float64]

# --- the public box, and the results of a fit -----------------------------------------------------


@dataclass(frozen=True)
class PublicBox:
    """The public box of a fit, in user units, and the public bound on weights, if there are any."""

    low: Floats
    high: Floats
    most: float | None = None

    @property
    def middle(self) -> Floats:
        """The middle of the box."""
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> Floats:
        """Half widths of the columns."""
        return np.maximum(self.high / 2 - self.low / 2, 0.0)

    @property
    def radius(self) -> float:
        """Half the diagonal."""
        return float(np.linalg.norm(self.half))

    def clip(self, points: Floats) -> Floats:
        """Return points moved into the box."""
        return np.clip(points, self.low, self.high)


@dataclass(frozen=True)
class Clustering:
    """Results of a fit: centers (k, d), counts (k,), residuals (d,) and errors of these.

    They become the attributes of `DPKMeans`, which describes them.
    """

    centers: Floats
    center_std: Floats
    noise_std: Floats
    counts: Floats
    count_std: Floats
    count_noise: float
    residuals: Floats
    n_iter: int = 1


# --- errors of centres beside the noise -----------------------------------------------------------

# A released centre differs from the mean of its rows by more than noise: clipping residuals to a
# norm takes something from their sums, and means move when rows change their nearest centre after
# the last step. `FromLeaves` and `FromSquares` bound or estimate both from earlier releases.
#
# A residual r of norm x, above the radius R, loses the part w(x) = 1 - R / x of itself. So a column
# of clipped sums misses the sum of r_j w(x) over rows. Of rows that lie at most A above and B below
# their centre, with norms of at most X, w is at most w(X), x**2 K and x k, where K and k are the
# largest w(x) / x**2 and w(x) / x for x up to X. So the mean of the positive part of r_j w(x) is at
# most
#
# - A times the mean of w, itself at most w(X) and K times the mean of x**2;
# - w(X) times the mean of the positive part of r_j, which is at most A (B + m) / (A + B) where the
#   mean of r_j is m: that of rows at both ends of the range;
# - k times the root of the mean of r_j**2 times the mean of x**2 (Cauchy and Schwarz);
#
# and the negative part alike. The two have different signs, so only the larger counts.

_DRAWS = 2**14  # points that stand for all rows
_DRAWN = 2**12  # rows drawn about centres
_TINY = float(np.finfo(float).tiny)


def _parts(reach: Floats, radius: float) -> tuple[Floats, Floats, Floats]:
    """Return the largest w(x), w(x) / x and w(x) / x**2 for x up to `reach`; see above."""
    radius = max(radius, _TINY)
    x = np.maximum(reach, radius)

    def part(limit: float) -> tuple[Floats, Floats]:
        at = np.minimum(x, limit * radius)
        return 1 - radius / at, at

    # w(x) / x is largest at 2 R, and w(x) / x**2 at 1.5 R.
    (once, at), (twice, far) = part(2.0), part(1.5)
    return 1 - radius / x, once / at, twice / far**2


def _quotients(values: Floats, units: Floats) -> Floats:
    """Return values in the units; 0 for a column that counts as constant."""
    return values * np.divide(1.0, units, out=np.zeros_like(units), where=units > 0)


# --- from the leaves of a tree -------------------------------------------------------------------


@dataclass(frozen=True)
class Leaves:
    """Released leaves of a tree, in its units: boxes and means (l, d), numbers of rows (l,).

    A mean is NaN if noise hides it. `errors` (l,) are those of the numbers of rows.
    """

    low: Floats
    high: Floats
    means: Floats
    rows: Floats
    errors: Floats

    def _about(self, centers: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_], Floats, Floats]:
        """Return the nearest centre of each leaf; where means are known; means and mean squares."""
        known = np.isfinite(self.means)
        middle = np.where(known, self.means, self.low / 2 + self.high / 2)
        distances = np.square(middle[:, None] - centers).sum(axis=2)
        group = np.argmin(distances, axis=1)
        center = centers[group]
        # Rows of mean m have at most this variance; without a mean, all are in the farthest corner.
        corner = np.maximum(self.high - center, center - self.low)
        variance = (self.high - middle) * (middle - self.low)
        squares = np.where(known, (middle - center) ** 2 + variance, corner**2)
        return group, known, middle - center, squares

    def most_squares(self, centers: Floats, n: float) -> Floats:
        """Return an upper bound, by two standard errors, on mean squares of n rows by column."""
        *_, squares = self._about(centers)
        total = np.maximum(self.rows, 0.0) @ squares
        return (total + 2 * np.sqrt(self.errors**2 @ squares**2)) / n

    def most_lost(self, centers: Floats, units: Floats, radius: float) -> tuple[Floats, Floats]:
        """Return a bound on the loss of each centre's sum by clipping, and the bound's error."""
        group, known, offset, squares = self._about(centers)
        above, below = self.high - centers[group], centers[group] - self.low
        corner = _quotients(np.maximum(above, below), units)
        w0, w1, w2 = _parts(np.linalg.norm(corner, axis=1), radius)
        norms = (_quotients(np.sqrt(squares), units) ** 2).sum(axis=1)
        weight = np.minimum(w0, w2 * norms)[:, None]
        average = np.sqrt(squares) * (w1 * np.sqrt(norms))[:, None]
        width = np.maximum(self.high - self.low, _TINY)
        own = (group == np.arange(len(centers))[:, None]).astype(np.float64)
        most, doubt = np.zeros_like(centers), np.zeros_like(centers)
        for far, other, mean in ((above, below, offset), (below, above, -offset)):
            far, ends = np.maximum(far, 0.0), far * (other + mean) / width
            part = np.where(other <= 0, mean, np.maximum(ends, 0.0))
            part = np.where(known, part, far) * w0[:, None]
            lost = np.minimum(np.minimum(part, far * weight), average)
            # Counts below 0 stay: the noise of many empty leaves adds up to nothing.
            most = np.maximum(most, own @ (self.rows[:, None] * lost))
            doubt = np.maximum(doubt, np.sqrt(own @ (self.errors[:, None] * lost) ** 2))
        return most, doubt

    def _points(self) -> tuple[Floats, Floats, Floats]:
        """Return points that stand for rows, with the mean of their leaf, twice, and their weights.

        They are uniform on both sides of the mean, or at the ends of the leaf.
        """
        known = np.isfinite(self.means).all(axis=1)
        low, high, mean = self.low[known], self.high[known], self.means[known]
        per_leaf, d = max(_DRAWS // max(len(low), 1), 1), low.shape[1]
        steps = _irrational(2 * d)
        index = np.arange(1.0, per_leaf * len(low) + 1).reshape(len(low), per_leaf, 1)
        draws = index * steps
        draws -= np.floor(draws)
        side, along = draws[..., :d], draws[..., d:]
        width = np.maximum(high - low, _TINY)
        upper = side < ((mean - low) / width)[:, None]
        end = np.where(upper, high[:, None], low[:, None])
        middle = mean[:, None]
        points = middle + (end - middle) * along
        weights = np.repeat(np.maximum(self.rows[known], 0.0) / per_leaf, per_leaf)
        return points.reshape(-1, d), end.reshape(-1, d), weights

    def moved(self, before: Floats, after: Floats) -> tuple[Floats, Floats]:
        """Estimate how means (k, d) and counts (k,) of rows change when centres move."""
        uncut = (np.ptp(self.low, axis=0) == 0) & (np.ptp(self.high, axis=0) == 0)
        largest, most = np.zeros_like(after), np.zeros(len(after))
        uniform, ends, weights = self._points()
        # In a column that is not cut, rows may be uniform or at both ends: the larger move counts.
        for points in (uniform, np.where(uncut, ends, uniform)) if uncut.any() else (uniform,):
            old, new = _nearest(points, before), _nearest(points, after)
            came, went = (np.bincount(x, weights, len(after)) for x in (new, old))
            most = np.maximum(most, np.abs(came - went))
            change = np.flatnonzero(old != new)
            total = np.zeros_like(after)
            # Distances have no sign, so that rows that come and rows that go cannot cancel.
            for group in (old[change], new[change]):
                distance = np.abs(points[change] - after[group])
                np.add.at(total, group, distance * weights[change, None])
            largest = np.maximum(largest, total / np.maximum(came, 1.0)[:, None])
        return largest, most


def _irrational(d: int) -> Floats:
    """Return d steps whose multiples, modulo 1, fill a cube evenly (Roberts's sequence)."""
    root = 1.5
    for _ in range(60):
        root = (1 + root) ** (1 / (d + 1))
    return root ** -np.arange(1.0, d + 1)


def _nearest(points: Floats, centers: Floats) -> NDArray[np.intp]:
    """Return the index of the nearest centre, the first of equal ones."""
    norms = np.einsum("ij,ij->i", centers, centers)
    return np.argmin(norms - 2.0 * (points @ centers.T), axis=1)


@dataclass(frozen=True)
class FromLeaves:
    """Errors of centres from the leaves of a tree, whose unit and middle are public.

    `learned` says whether the bounds were; then `loss` is the part of a bound on losses that counts
    as an error.
    """

    loss: ClassVar[float] = 0.5
    leaves: Leaves
    middle: Floats
    unit: float
    learned: bool = False

    def lost(
        self, centers: Floats, units: Floats, radius: float, sizes: Floats, offsets: Floats
    ) -> tuple[Floats, Floats]:
        """Return a bound (k, d) on the loss of sums of residuals by clipping, and its error.

        Residuals are clipped to `radius` in `units` (d,). `sizes` (k,) are noisy numbers of rows,
        `offsets` (k, d) noisy means of clipped residuals.
        """
        at = (centers - self.middle) / self.unit
        most, std = self.leaves.most_lost(at, units / self.unit, radius)
        return self.unit * most, self.unit * std

    def moved(self, before: Floats, after: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        """Estimate how means (k, d) and counts (k,) change when centres move."""
        old, new = ((centers - self.middle) / self.unit for centers in (before, after))
        means, counts = self.leaves.moved(old, new)
        return self.unit * means, counts


# --- without leaves ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FromSquares:
    """Errors of centres from root mean squares (d,) of residuals of n rows."""

    loss: ClassVar[float] = 0.1  # the bound is that of rows which are all in one cluster
    box: PublicBox
    rms: Floats
    n: float
    learned: bool = False

    def lost(
        self, centers: Floats, units: Floats, radius: float, sizes: Floats, offsets: Floats
    ) -> tuple[Floats, Floats]:
        """Return a bound (k, d) as `FromLeaves` does, if all rows could be in one cluster."""
        above, below = self.box.high - centers, centers - self.box.low
        corner = _quotients(np.maximum(above, below), units)
        w0, w1, w2 = (part[:, None] for part in _parts(np.linalg.norm(corner, axis=1), radius))
        norms = float((_quotients(self.rms, units) ** 2).sum())
        rows = sizes[:, None]
        weight = np.minimum(w0 * rows, w2 * norms * self.n)
        average = self.n * self.rms * w1 * np.sqrt(norms)
        width = np.maximum(above + below, _TINY)
        most = np.zeros_like(centers)
        for far, other, mean in ((above, below, offsets), (below, above, -offsets)):
            # The mean of r_j is that of clipped residuals and what is lost: solved for the latter.
            part = w0 * far / width
            ends = rows * np.maximum(other + mean, 0.0) * part / (1 - part)
            most = np.maximum(most, np.minimum(np.minimum(ends, far * weight), average))
        return most, np.zeros_like(centers)

    def moved(self, before: Floats, after: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        """Return the length of the step, and how many rows around `before` it may reassign.

        Both are 0 for one centre, which has all rows.
        """
        if len(after) == 1:
            return np.zeros_like(after), np.zeros(len(after))
        rng, total = public_generator(b"moved"), float(sizes.sum())
        group = rng.choice(len(sizes), _DRAWN, p=sizes / total)
        rows = self.box.clip(rng.normal(before[group], self.rms))
        old, new = _nearest(rows, before), _nearest(rows, after)
        # The true rows have another shape: those that come and those that go may not cancel.
        reassigned = np.concatenate([pair[old != new] for pair in (old, new)])
        drawn = np.bincount(reassigned, minlength=len(after)).astype(np.float64)
        return np.abs(after - before), drawn * (total / _DRAWN)


# --- the tree -------------------------------------------------------------------------------------

Nodes = NDArray[np.int64]
Boxed = ColumnBox | Projection

MIN_DEPTH, MAX_DEPTH = 3, 14
# A node is split while its noisy count is above _SPLIT standard errors of a round's noise and above
# 1/_PARTS of an average cluster. A leaf counts only above _KEEP standard errors, because a restart
# of k-means could put a centre on noise.
_SPLIT, _PARTS, _KEEP = 2.5, 16, 3.0
_COUNT_PART = Fraction(1, 2)  # of the tree's share, for its rounds; leaf sums take the remainder
_LEAF_COUNT_SHARE = 0.2  # of the leaf release: rounds have counted most leaves already
_RESTARTS = 20
_MOST_PACKED = 1000  # points of a packing


def shrinkage(squared_norm: float, noise: float) -> float:
    """Return the positive-part James-Stein factor of a vector with this expected squared noise."""
    return max(0.0, 1.0 - noise / squared_norm) if squared_norm > 0.0 else 0.0


# --- counts of a tree, made consistent ---------------------------------------------------------


class NodeCounts:
    """Noisy counts of tree nodes, measured any number of times, and their least-squares estimate.

    Nodes are heap numbers: root 1, children 2i and 2i + 1. Children of a split node sum to it.
    """

    def __init__(self, depth: int) -> None:
        size = 2 ** (depth + 1)
        self._weighted = np.zeros(size)
        self._precision = np.zeros(size)
        self._split = np.zeros(size, dtype=bool)
        self._levels = 0  # deepest level that holds a node

    def add(self, nodes: Nodes, values: Floats, std: float) -> None:
        """Add one measurement of each node, with independent noise of this standard deviation."""
        # An exact count (the public n of replace-one) gets a variance far below any noise.
        precision = 1.0 / max(std, 1e-3) ** 2
        self._weighted[nodes] += precision * values
        self._precision[nodes] += precision

    def split(self, nodes: Nodes) -> Nodes:
        """Split nodes and return their children; measure these before `estimate`."""
        self._split[nodes] = True
        children = np.concatenate([2 * nodes, 2 * nodes + 1])
        self._levels = max(self._levels, int(children.max()).bit_length() - 1)
        return children

    def estimate(self, nodes: Nodes) -> tuple[Floats, Floats]:
        """Return the least-squares estimate of each node's count and its standard error.

        Two passes by level: upwards, the estimate of a node from its subtree; downwards, the gap
        between a node and its children, which is distributed by their variances.
        """
        size = 2 ** (self._levels + 1)
        weighted, precision = self._weighted[:size].copy(), self._precision[:size].copy()
        levels = [np.arange(2**level, 2 ** (level + 1)) for level in range(self._levels)]
        levels = [ids[self._split[ids]] for ids in levels]
        for ids in reversed(levels):
            left, right = 2 * ids, 2 * ids + 1
            variance = 1 / precision[left] + 1 / precision[right]
            total = weighted[left] / precision[left] + weighted[right] / precision[right]
            weighted[ids] += total / variance
            precision[ids] += 1 / variance
        value, variance = np.zeros(size), np.zeros(size)
        value[1], variance[1] = weighted[1] / precision[1], 1 / precision[1]
        for ids in levels:
            left, right = 2 * ids, 2 * ids + 1
            own = 1 / precision[left], 1 / precision[right]
            below = weighted[left] * own[0], weighted[right] * own[1]
            gap = value[ids] - below[0] - below[1]
            total = own[0] + own[1]
            for child, mine, mean in ((left, own[0], below[0]), (right, own[1], below[1])):
                part = mine / total
                value[child] = mean + part * gap
                variance[child] = own[0] * own[1] / total + part**2 * variance[ids]
        return value[nodes], np.sqrt(variance[nodes])


# --- growing the tree --------------------------------------------------------------------------


@dataclass(frozen=True)
class Coreset:
    """Released representatives, in units of `unit` (half the longest side) about the box's middle.

    `points` (m, d) have positive `weights` (m,). `spread` (d,) is the mean square distance of rows
    to their representative by column, as if rows were uniform in their leaf.
    """

    points: Floats
    weights: Floats
    spread: Floats
    unit: float
    leaves: Leaves


def _frontier(
    tree: Tree, counts: NodeCounts, n: float, n_clusters: int, share: Fraction
) -> tuple[Nodes, Fraction]:
    """Split nodes round by round; return the leaves and the share that the rounds have used.

    Every round measures the whole frontier, also nodes that were not split: that costs nothing,
    since a row is in one node of the frontier, and makes their counts more precise.
    """
    leaves = np.array([1], dtype=np.int64)
    used, noise = Fraction(0), 0.0
    per_round = share / tree.depth
    floor = max(n, 1.0) / (_PARTS * n_clusters)
    for _ in range(tree.depth):
        value, _ = counts.estimate(leaves)
        grown = (value > max(_SPLIT * noise, floor)) & (leaves < 2**tree.depth)
        if not grown.any():
            break
        leaves = np.concatenate([counts.split(leaves[grown]), leaves[~grown]])
        release = tree.counts(leaves, per_round)
        used += per_round
        noise = float(release.std)
        counts.add(leaves, release.value, noise)
    return np.sort(leaves), used


def _pooled(means: Floats, noise: Floats, before: Floats) -> Floats:
    """Return noisy means of leaves (m, d) shrunk to their common mean, column by column.

    Differences between leaves are estimated by DerSimonian and Laird's moments. `noise` is the
    variance of the means, `before` the prior variance of the common mean.
    """
    weight = 1 / noise
    total = weight.sum(axis=0)
    common = (weight * means).sum(axis=0) / total
    excess = (weight * (means - common) ** 2).sum(axis=0) - (len(means) - 1)
    between = total - (weight**2).sum(axis=0) / total
    signal = np.maximum(excess, 0.0) / np.maximum(between, np.finfo(float).tiny)
    weight = 1 / (noise + signal)
    common = (weight * means).sum(axis=0) / weight.sum(axis=0)
    common *= before[0] / (before[0] + 1 / weight.sum(axis=0) + np.finfo(float).tiny)
    return common + signal / (signal + noise) * (means - common)


def grow(
    session: Session,
    view: Boxed,
    *,
    n: float,
    n_std: float,
    n_clusters: int,
    share: Fraction,
    most: float | None = None,
) -> Coreset:
    """Release a tree over the view's box, for all of `share`; return a point for each clear leaf.

    `n` is the released number of rows and `n_std` its standard error. `most` bounds the weights of
    rows. If noise hides all leaves, the only point is the middle of the box.
    """
    # The depth at which noise hides the count of an average leaf.
    scale = Allowance.left(session, share).cell_scale
    rows = min(max(n / max(scale, _TINY), 1.0), 2.0**MAX_DEPTH)
    depth = int(np.clip(round(math.log2(rows)) + 2, MIN_DEPTH, MAX_DEPTH))
    tree = session.answer(BoxTree(view, depth, most))
    counts = NodeCounts(tree.depth)
    counts.add(np.array([1]), np.array([n]), n_std)
    leaves, used = _frontier(tree, counts, n, n_clusters, share * _COUNT_PART)
    again, sums = tree.sums(leaves, share - used, count_share=_LEAF_COUNT_SHARE)
    counts.add(leaves, again.value, float(again.std))
    value, error = counts.estimate(leaves)
    middle = view.low / 2 + view.high / 2
    half = float(np.max(view.high / 2 - view.low / 2))
    unit = half if half > 0 else 1.0
    clear = value > np.maximum(_KEEP * error, 0.5)
    if not clear.any():
        side = (view.high / 2 - view.low / 2) / unit
        everything = np.array([max(n, 1.0)])
        unknown, error = np.full((1, middle.size), np.nan), np.zeros(1)
        return Coreset(
            np.zeros((1, middle.size)),
            everything,
            side**2 / 3,
            unit,
            Leaves(-side[None], side[None], unknown, everything, error),
        )
    ids, weights = leaves[clear], value[clear]
    all_low, all_high = ((side - middle) / unit for side in tree.boxes(leaves))
    low, high = all_low[clear], all_high[clear]
    center = (tree.centers(ids) - middle) / unit
    # The mean of a leaf, shrunk to its centre; the prior is that rows are uniform in the leaf.
    before = (high - low) ** 2 / 12
    noise = (np.asarray(sums.std)[clear] / unit / weights[:, None]) ** 2
    trust = before / (before + noise + np.finfo(float).tiny)
    step = sums.value[clear] / unit / weights[:, None]
    uncut = (np.ptp(low, axis=0) == 0) & (np.ptp(high, axis=0) == 0)
    shrunk = _pooled(step, noise + np.finfo(float).tiny, before)
    step = np.where(uncut, shrunk, step * trust)
    points = np.clip(center + step, low, high)
    spread = np.average(before, axis=0, weights=weights)
    means = np.full((len(leaves), middle.size), np.nan)
    means[clear] = points
    errors = np.broadcast_to(error, value.shape)
    return Coreset(points, weights, spread, unit, Leaves(all_low, all_high, means, value, errors))


# --- k-means on released points ----------------------------------------------------------------


def weighted_kmeans(
    coreset: Coreset, n_clusters: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return centres (in the coreset's units) and each column's mean squared distance to them.

    With fewer distinct points than clusters, the remaining centres lie at the weighted mean.
    """
    points, weights = coreset.points, coreset.weights
    distinct = min(n_clusters, len(np.unique(points, axis=0)))
    seed = int(rng.integers(2**31 - 1))
    model = KMeans(distinct, n_init=_RESTARTS, tol=1e-6, random_state=seed)
    with suppress_warnings():
        # KMeans warns if points are so close that float64 cannot separate them.
        model.fit(points, sample_weight=weights)
    surplus = np.average(points, axis=0, weights=weights)
    centers = np.vstack([model.cluster_centers_, np.tile(surplus, (n_clusters - distinct, 1))])
    offset = points - model.cluster_centers_[model.labels_]
    return centers, np.average(offset**2, axis=0, weights=weights)


def sphere_packing(
    n_clusters: int, half: Floats, rng: np.random.Generator, *, tries: int = 100
) -> Floats:
    """Return points of the box [-half, half] far from one another and from its faces.

    Draws at least 2a from each other and a from every face, with the largest a (to 1%) at which all
    points find a place: Su et al. 2016, section 3.1. More than a thousand points are uniform draws.
    """

    def pack(radius: float) -> Floats | None:
        inner = np.maximum(half - radius, 0.0)
        points = np.empty((n_clusters, half.size))
        for i in range(n_clusters):
            draws = rng.uniform(-1.0, 1.0, size=(tries, half.size)) * inner
            if i:
                draws = draws[euclidean_distances(draws, points[:i]).min(axis=1) >= 2 * radius]
            if not len(draws):
                return None
            points[i] = draws[0]
        return points

    best = rng.uniform(-1.0, 1.0, size=(n_clusters, half.size)) * half
    low, high = 0.0, float(np.linalg.norm(half))
    for _ in range(10 if n_clusters <= _MOST_PACKED else 0):
        radius = (low + high) / 2
        packed = pack(radius)
        if packed is None:
            high = radius
        else:
            best, low = packed, radius
    return best
