"""The steps of private k-means: regions to count, moves of centres, their shares.

All decisions depend on public parameters and earlier releases. Noise falls on each column in a unit
of its own (`column_units`): its half width at first, its released root mean square residual later.
Nearest centres and cuts of boxes are decided in the caller's units. References: see `DPKMeans`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from skdp.base.callers import reported_steps
from skdp.cluster._coreset import (
    Clustering,
    FromLeaves,
    FromSquares,
    PublicBox,
    grow,
    shrinkage,
    sphere_packing,
    weighted_kmeans,
)
from skdp.core import Ball, Box, Mean, Release, RowSum, Session
from skdp.planning import Allowance
from skdp.queries import (
    AssignedSums,
    NormBins,
    Projection,
    SecondMoment,
    column_box,
    column_units,
    row_counts,
    squared_offsets,
    tree_box,
)

Floats = NDArray[np.float64]
CenterErrors = FromLeaves | FromSquares

# Shares of the allowance that bounds leave (of epsilon, or of mu**2 under Gaussian noise).
COUNT_SHARE = Fraction(1, 50)  # a private number of rows
_TREE_SHARE = Fraction(65, 100)  # the refinement takes the remainder

# More features than this are projected first: a tree of depth 14 would not even cut each once.
MANY_FEATURES = 12


@dataclass(frozen=True)
class _Shares:
    """Shares of a fit in a subspace; the refinement takes the remainder."""

    mean: Fraction
    gram: Fraction
    tree: Fraction


# Noise falls as share**-1/2 under Gaussian noise and as 1/share in a pure session, where many
# small shares are dear: there the refinement gives way to mean and second moment.
_GAUSSIAN_SHARES = _Shares(Fraction(5, 100), Fraction(40, 100), Fraction(20, 100))
_PURE_SHARES = _Shares(Fraction(15, 100), Fraction(60, 100), Fraction(15, 100))
_TAU = 0.25  # constant feature of the augmented second moment, as a part of the radius
_SUBSPACE_RADIUS = 0.5  # of the half diagonal: rows about the mean are clipped to it
_SUBSPACE_DIMS = 6
_SUBSPACE_WIDTH = 2.0  # half width of the subspace's box in standard deviations

# Only the mean is worth its noise below so many rows times the counts' allowance (of a tree), or
# with an edge of the noise above this part of the squared radius (second moment).
_HOPELESS_COUNT = {False: 20.0, True: 60.0}  # Gaussian, pure
_HOPELESS_EDGE = {False: 0.27, True: 0.14}

# Prior standard deviations of a mean, a residual and a step, in half widths of the bounds.
_MEAN_BEFORE = 0.6
_RESIDUAL_BEFORE = 0.3
_STEP_BEFORE = 0.25
_RESIDUALS = (1e-3, 1.0)  # least and most
_RESIDUAL_SHOWN = 6.0  # a residual is shown if the truth is at most so many times as large

# The refinement clips residuals at this many root mean squares of the released residual, or
# further out while noise costs less than _FREE_NOISE of the inertia.
_RESIDUAL_RMS = 2.5
_FREE_NOISE = 5e-4
_MOST_STEPS = 3
# Squared residuals get the least of these parts of the refinement's share that keeps the noise, in
# squares of half widths, below _SQUARES_NOISE; none if the noise is above _SQUARES_USELESS.
_SQUARES_SHARES = tuple(Fraction(part, 100) for part in (2, 5, 10, 20))
_SQUARES_NOISE = 0.01
_HARDLY_CUT = 0.4  # half widths: of rows that are uniform over the bounds, 0.58
_SQUARES_USELESS = 0.03
_NEXT_STEP = 1.0  # length of a further step, as a part of the last one
_NEXT_COUNT = 2.0  # change of a count by a further step of "lloyd", in changes by the last one
_OWN_SIGNAL = 0.1  # weight of a centre's own step in its signal; the others have the remainder
_SHRUNK = 0.7  # of the bias of shrinking, where bounds are learned
_OTHER_SHAPE = 1.25  # times as many rows may change their centre as of points that stand for them
_UPDATE = 2.0  # standard errors that a noisy count needs before its centre moves


# --- moving centres ----------------------------------------------------------------------------


def _residual_sums(
    box: PublicBox, centers: Floats, units: Floats, radius: float, typical: float = 0.35
) -> AssignedSums:
    """Return the query of counts and sums of clipped residuals by nearest centre.

    Its count share minimises the error of means if norms are about this part of their bound.
    """
    count_share = 1 / (1 + math.sqrt(box.half.size) / typical)
    view = Box(box.low, box.high)
    return AssignedSums(view, centers, radius, units, count_share, most=box.most)


def _refinement_plan(session: Session, n: float, n_clusters: int) -> tuple[int, float]:
    """Return how many refinements to make and where to clip, in root mean square residuals.

    Noise below `_FREE_NOISE` of the mean squared residual in an average cluster is free: then there
    are more steps, and a larger radius, since clipping moves the centre of a skewed cluster.
    """
    d = session.n_features
    query = _residual_sums(PublicBox(-np.ones(d), np.ones(d)), np.zeros((1, d)), np.ones(d), 1.0)
    for steps in range(_MOST_STEPS, 0, -1):
        std = Allowance.left(session, session.remaining / steps).query_std(query)
        free = math.sqrt(_FREE_NOISE / d) / std * n / n_clusters
        if free >= _RESIDUAL_RMS:
            return steps, free
    return 1, _RESIDUAL_RMS


def _diagonal(box: PublicBox, units: Floats) -> float:
    """Return half the diagonal of the box, in the units; constant columns have unit 0."""
    return float(np.linalg.norm(box.half[units > 0] / units[units > 0]))


def _largest_radius(box: PublicBox, units: Floats) -> float:
    """Return the largest useful clipping norm of residuals, in the units.

    The half diagonal of the box; less where columns are many, since noise grows with the radius in
    all columns, and a shorter residual keeps its direction.
    """
    return _diagonal(box, units) * min(1.0, 2.0 / math.sqrt(max(int((units > 0).sum()), 1)))


def _residuals(session: Session, box: PublicBox, centers: Floats, rms: Floats, n: float) -> Floats:
    """Return each column's root mean square residual, measured where that is cheap.

    For a column that the tree has not cut, it knows only the width of the bounds. Then a release of
    mean squares is worth its share if its noise is small beside squares of half widths.
    """
    wide = rms > _HARDLY_CUT * box.half
    if not wide.any():
        return rms
    query = squared_offsets(Box(box.low, box.high), centers, box.most)

    def noise(share: Fraction) -> float:
        return Allowance.left(session, session.remaining * share).query_std(query) / n

    share = next((part for part in _SQUARES_SHARES if noise(part) <= _SQUARES_NOISE), None)
    if share is None:
        if noise(_SQUARES_SHARES[-1]) > _SQUARES_USELESS:
            return rms
        share = _SQUARES_SHARES[-1]
    squares = session.answer(query, session.remaining * share)
    error = float(np.max(np.asarray(squares.std))) / n
    measured = box.half * np.sqrt(np.maximum(squares.value / n, 0.0) + error)
    return np.where(wide, measured, np.minimum(measured, rms))


def _refine_by_plan(
    session: Session,
    box: PublicBox,
    centers: Floats,
    rms: Floats,
    errors: CenterErrors,
    n: float,
    n_std: float,
    most_rms: Floats,
) -> Clustering:
    """Spend the remaining allowance on refinements, given each column's released residual.

    A residual is shown unless its largest possible value, `most_rms`, is much larger.
    """
    rms = _residuals(session, box, centers, rms, n)
    steps, reach = _refinement_plan(session, n, len(centers))
    least, most = _RESIDUALS
    units = column_units(np.clip(rms, least * box.half, most * box.half))
    radius = min(reach, _largest_radius(box, units))
    share, before = session.remaining / steps, None
    for _ in range(steps):
        result = _refine(session, box, centers, units, radius, share, n, n_std, errors)
        centers, last, before = result.centers, before, result.counts
    # As many rows may change their centre in the last step as did in the one before.
    std = result.count_std if last is None else np.hypot(result.count_std, result.counts - last)
    shown = np.where(most_rms <= _RESIDUAL_SHOWN * rms, rms, np.nan)
    return replace(result, n_iter=steps, residuals=shown, count_std=std)


def _trust(steps: Floats, noise: Floats, clear: NDArray[np.bool_], most: Floats) -> Floats:
    """Return the factors by which each center's step is shrunk, column by column.

    The signal of a column is estimated by moments of all steps (k, d), and to a small part from a
    center's own step, for single clusters that are far off; at most `most` (d,). `noise` (k,) is
    the variance of a coordinate, `clear` (k,) are the centers that move.
    """
    excess = (steps**2 / noise[:, None] - 1)[clear].sum(axis=0)
    columns = np.maximum(excess, 0.0) / (1 / noise[clear]).sum()
    own = np.maximum(steps**2 - noise[:, None], 0.0) * (columns > 0)
    signal = np.minimum((1 - _OWN_SIGNAL) * columns + _OWN_SIGNAL * own, most)
    return signal / (signal + noise[:, None]) * clear[:, None]


def _refine(
    session: Session,
    box: PublicBox,
    centers: Floats,
    units: Floats,
    radius: float,
    share: Fraction,
    n: float,
    n_std: float,
    errors: CenterErrors,
) -> Clustering:
    """Move centres by one private Lloyd step on clipped residuals, each step shrunk.

    The mean residual of all rows is shrunk and added to every centre: it has the least noise, and
    corrects an error that all centres share. The remaining step of each centre is shrunk by its own
    noise. A centre whose count noise may hide does not move. No cluster counts more rows than there
    are (by two standard errors).
    """
    d, most = session.n_features, n + 2 * n_std
    query = _residual_sums(box, centers, units, radius)
    counts, sums = session.answer(query, share, name="refinement")
    # In units of the radius, so that squares neither overflow nor vanish. Constant columns stay.
    length = units * radius
    scale = np.where(length > 0, length, 1.0)
    total_step, std = sums.value / scale, np.asarray(sums.std) / scale
    clear = counts.value > max(_UPDATE * float(counts.std), 0.5)
    error = noises = np.tile(box.half, (len(centers), 1))
    moved, sizes = centers, np.maximum(counts.value, 0.0)
    reassigned = np.zeros(len(centers))
    if clear.any():
        size = np.where(clear, np.minimum(counts.value, most), 1.0)
        total = min(float(size[clear].sum()), most)
        common = total_step[clear].sum(axis=0) / total
        noise = float((std[clear] ** 2).sum()) / total**2
        common = common * shrinkage(float(common @ common), noise)
        own = total_step / size[:, None] - common
        most_signal = (_STEP_BEFORE * box.half / scale) ** 2
        trust = _trust(own, ((std / size[:, None]) ** 2).max(axis=1), clear, most_signal)
        own = own * trust
        step, offset = (common + own) * length, total_step / size[:, None] * length
        moved = box.clip(centers + step)
        lost, doubt = errors.lost(centers, units, radius, size, offset)
        lost, doubt = lost / size[:, None], doubt / size[:, None]
        # Noise of the sum, and of the count that divides it.
        alone = np.hypot(std * length, offset * float(counts.std)) / size[:, None]
        noises = np.where(clear[:, None], np.minimum(alone, box.half), noises)
        # The bias of shrinking, and of rows that change their centre.
        bias = offset - step
        moves, reassigned = errors.moved(centers, moved, sizes)
        if errors.learned:
            # Where bounds are learned, no bound on what they hide is a theorem, and errors are what
            # was seen of them. Shrinking withholds noise, too. A count may be too large by two
            # errors, and errors of a centre grow as its rows become fewer.
            total_error = np.hypot(alone * np.sqrt(np.maximum(trust, 0.1)), _SHRUNK * bias)
            total_error = np.hypot(total_error, moves) + errors.loss * lost
            total_error *= (size / np.maximum(size - 2 * float(counts.std), size / 2))[:, None]
            noises = np.minimum(noises, total_error)
        else:
            total_error = np.hypot(np.hypot(np.hypot(alone, doubt), bias), moves)
            # The bias of clipping is no noise: half of its bound, so that two errors cover it.
            total_error += lost / 2
        error = np.where(clear[:, None], np.minimum(total_error, box.half), error)
    count_noise, unknown = float(counts.std), np.full(d, np.nan)
    count_std = np.hypot(count_noise, _OTHER_SHAPE * reassigned)
    return Clustering(moved, error, noises, sizes, count_std, count_noise, unknown)


# --- the mean and nothing else -----------------------------------------------------------------


def _mean(session: Session, box: PublicBox, share: Fraction) -> tuple[Floats, Floats]:
    """Release the mean, every column in units of its half width; and its noise by column."""
    release = session.answer(_mean_query(box, session.level()), share)
    return np.array(release.value), np.array(release.std)


def _mean_query(box: PublicBox, level: float) -> RowSum:
    """Return the query of the mean; noise of this level and above can be drawn."""
    view = column_box(box.low, box.high, column_units(box.half), level)
    return Mean(view, weight_bound=box.most)


def _mean_noise(box: PublicBox, allowance: Allowance, n: float) -> Floats:
    """Return the noise of the mean of n rows, by column."""
    query = _mean_query(box, allowance.level)
    grid = query.image.view.grid
    return allowance.query_std(query) * (grid / grid.max()) / n


def _shrunk_mean(session: Session, box: PublicBox, share: Fraction) -> tuple[Floats, Floats]:
    """Release the mean, shrunk towards the middle of the box; and its standard error by column."""
    value, std = _mean(session, box, share)
    half = np.where(box.half > 0, box.half, 1.0)
    noise, before = (std / half) ** 2, _MEAN_BEFORE**2
    trust = before / (before + noise)
    return box.middle + trust * (value - box.middle), half * np.sqrt(trust * noise)


def _fit_mean(
    session: Session, box: PublicBox, n: float, n_std: float, n_clusters: int
) -> Clustering:
    """Put every centre at the private mean, the best answer where noise drowns all structure."""
    if n_clusters == 1:
        value, std = _mean(session, box, session.remaining)
        return at_one_point(box.clip(value), std, std, n, n_std, 1)
    # A second mean, of rows clipped about this one, would have up to 45% less noise where rows lie
    # close to it, but a bound on what clipping takes would make its error three to seven times as
    # large.
    center, std = _shrunk_mean(session, box, session.remaining)
    return at_one_point(box.clip(center), std, std, n, n_std, n_clusters)


def at_one_point(
    center: Floats, std: Floats, noise_std: Floats, n: float, n_std: float, n_clusters: int
) -> Clustering:
    """Return a clustering whose centres coincide, each with an equal part of the n rows."""
    centers, stds, noise = (np.tile(v, (n_clusters, 1)) for v in (center, std, noise_std))
    counts, unknown = np.full(n_clusters, n / n_clusters), np.full(center.size, np.nan)
    count_noise = n_std / n_clusters
    # Of centres that coincide, the first is the nearest to every row.
    count_std = np.full(n_clusters, count_noise if n_clusters == 1 else np.nan)
    return Clustering(centers, stds, noise, counts, count_std, count_noise, unknown)


def mean_error(box: PublicBox, allowance: Allowance, n: int) -> float:
    """Return the noise of one private mean, a root mean square over columns in half widths."""
    used = box.half > 0
    if not used.any():
        return 0.0
    if not allowance.replace:  # the number of rows is released, and once more with the sum
        allowance = allowance.part(1 - COUNT_SHARE)
    relative = np.minimum(_mean_noise(box, allowance, n)[used] / box.half[used], 1.0)
    return math.sqrt(float((relative**2).sum()) / used.size)


# --- the tree ----------------------------------------------------------------------------------


def _fit_in_box(
    session: Session, box: PublicBox, n: float, n_std: float, n_clusters: int, *, learned: bool
) -> Clustering:
    """Tree over the box, k-means on its representatives, one refinement."""
    share = session.remaining * _TREE_SHARE
    if n < _HOPELESS_COUNT[session.pure] * Allowance.left(session, share / 2).cell_scale:
        return _fit_mean(session, box, n, n_std, n_clusters)
    view = tree_box(box.low, box.high)
    coreset = grow(
        session, view, n=n, n_std=n_std, n_clusters=n_clusters, share=share, most=box.most
    )
    points, msq = weighted_kmeans(coreset, n_clusters, session.post_processing_rng())
    centers = box.clip(box.middle + coreset.unit * points)
    rms = coreset.unit * np.sqrt(msq + coreset.spread)

    errors = FromLeaves(coreset.leaves, box.middle, coreset.unit, learned)
    most = coreset.unit * np.sqrt(coreset.leaves.most_squares(points, n))
    return _refine_by_plan(session, box, centers, rms, errors, n, n_std, most)


# --- a subspace first --------------------------------------------------------------------------


def _fit_in_subspace(
    session: Session, box: PublicBox, n: float, n_std: float, n_clusters: int
) -> Clustering:
    """Find a private subspace, cluster in it as `_fit_in_box` does, refine in all features."""
    shares = _PURE_SHARES if session.pure else _GAUSSIAN_SHARES
    remaining = session.remaining
    if spectral_edge(session, remaining * shares.gram, n) > _HOPELESS_EDGE[session.pure]:
        return _fit_mean(session, box, n, n_std, n_clusters)
    mean, mean_std = _shrunk_mean(session, box, remaining * shares.mean)
    radius = max(_SUBSPACE_RADIUS * box.radius, np.finfo(float).tiny)
    space = subspace(session, box, mean, mean_std, radius, remaining * shares.gram)
    before = np.square(_RESIDUAL_BEFORE * box.half)
    share, k = remaining * shares.tree, max(space.n_clear, 1)
    clustering = cluster_in(space, session, box, k, share, n, n_std, n_clusters, before)
    assert clustering is not None
    return clustering


def spectral_edge(session: Session, share: Fraction, n: float) -> float:
    """Return the edge of the noise of a second moment of n rows, in squares of the radius."""
    allowance = Allowance.left(session, share)
    edge = allowance.spectral_edge(session.n_features, "wishart" if allowance.pure else "gaussian")
    return edge * (1 + _TAU**2) / max(n, 1.0)


@dataclass(frozen=True)
class Subspace:
    """A released mean and covariance of rows, in squares of the radius to which rows are clipped.

    Eigenvalues (d,) descend; `n_clear` of them are above the edge of the noise. `diagonal_std` is
    that of an entry of the covariance's diagonal in squares of X, `std` (d,) that of the mean.
    """

    mean: Floats
    std: Floats
    radius: float
    covariance: Floats
    values: Floats
    vectors: Floats
    n_clear: int
    diagonal_std: Floats


def subspace(
    session: Session,
    box: PublicBox,
    mean: Floats,
    mean_std: Floats,
    radius: float,
    share: Fraction,
) -> Subspace:
    """Release the second moment about a mean that is known up to `mean_std`."""
    d = session.n_features
    gram = session.answer(SecondMoment(Ball(mean, radius), _TAU), share)
    # The augmented row has measured the mean again: the two estimates are averaged by precision.
    size = max(gram.n, 1.0)
    offset = gram.total / size / radius
    errors = (mean_std / radius) ** 2, (gram.total_std / size / radius) ** 2
    trust = errors[0] / np.maximum(errors[0] + errors[1], np.finfo(float).tiny)
    mean = box.clip(mean + offset * radius * trust)
    covariance = gram.second_moment / radius**2 / size - np.outer(offset, offset)
    values, vectors = linalg.eigh((covariance + covariance.T) / 2)
    values, vectors = np.clip(values[::-1], 0.0, 1.0), vectors[:, ::-1]
    edge = gram.std / radius**2 * math.sqrt(4 * d) / size  # off-diagonal std times 2 sqrt(d)
    n_clear = int(min(np.sum(values > edge), _SUBSPACE_DIMS))
    std = radius * np.sqrt((1 - trust) * errors[0])
    error = gram.diagonal_std / size
    return Subspace(mean, std, radius, covariance, values, vectors, n_clear, error)


def cluster_in(
    space: Subspace,
    session: Session,
    box: PublicBox,
    k: int,
    share: Fraction,
    n: float,
    n_std: float,
    n_clusters: int,
    before: Floats | None = None,
) -> Clustering | None:
    """Grow a tree in k directions for `share`, refine in all features with what remains.

    `before` (d,) is the squared residual of columns outside the subspace that is expected before
    any release. None, in a learned ball: equal parts of what the subspace leaves out; then the
    answer is None if the tree tells no two points apart, and the remainder is not spent.
    """
    learned = before is None
    mean, radius, values = space.mean, space.radius, space.values
    width = radius * np.clip(_SUBSPACE_WIDTH * np.sqrt(values[:k]), 1e-3, 1.0)
    view = Projection(Ball(mean, radius), space.vectors[:, :k].T, width)
    coreset = grow(session, view, n=n, n_std=n_std, n_clusters=n_clusters, share=share)
    points, msq = weighted_kmeans(coreset, n_clusters, session.post_processing_rng())
    if learned and not np.ptp(points, axis=0).any():
        return None
    centers = box.clip(mean + coreset.unit * points @ view.components)
    # A column's residual inside the subspace, and outside of it. The second is noisy, most of all
    # for a narrow column, and is shrunk to its prior.
    loading = space.vectors[:, :k] ** 2
    inside = coreset.unit**2 * loading @ (msq + coreset.spread)
    outside = radius**2 * (np.diag(space.covariance) - loading @ values[:k])
    if before is None:
        total = max(float(np.trace(space.covariance) - values[:k].sum()), 1e-6)
        before = np.full(mean.size, radius**2 * total / mean.size)
    trust = before**2 / np.maximum(before**2 + space.diagonal_std**2, np.finfo(float).tiny)
    outside = np.maximum(before + trust * (outside - before), 0.0)
    rms = np.sqrt(inside + outside)
    most = coreset.unit**2 * loading @ coreset.leaves.most_squares(points, n)
    most = np.maximum(np.sqrt(most + outside), rms)
    about = FromSquares(box, most, n, learned)
    return _refine_by_plan(session, box, centers, rms, about, n, n_std, most)


# --- textbook Lloyd ----------------------------------------------------------------------------


def _fit_lloyd(session: Session, box: PublicBox, n_clusters: int, max_iter: int) -> Clustering:
    """Run the textbook method: noisy counts and sums of every cluster in every iteration."""
    d = session.n_features
    start = sphere_packing(n_clusters, box.half / box.radius, session.post_processing_rng())
    centers = box.clip(box.middle + start * box.radius)
    share = session.remaining / max_iter
    units = column_units(box.half)
    radius = _diagonal(box, units)
    sizes = np.full(n_clusters, np.nan)
    for step in reported_steps(max_iter):
        query = _residual_sums(box, centers, units, radius, 0.45)
        counts, sums = session.answer(query, share, name=f"iteration {step + 1}")
        # A centre whose count noise may explain stays where it is.
        clear = (counts.value > max(_UPDATE * float(counts.std), 0.5))[:, None]
        size = np.where(clear, counts.value[:, None], 1.0)
        moved = box.clip(centers + np.where(clear, sums.value / size, 0.0))
        noise = np.minimum(np.asarray(sums.std) / size, box.half)
        # A further step would move a centre by about as much as this one.
        error = np.minimum(np.hypot(noise, _NEXT_STEP * (moved - centers)), box.half)
        error, noise = (np.where(clear, std, box.half) for std in (error, noise))
        centers, last, sizes = moved, sizes, np.maximum(counts.value, 0.0)
    # After one step nothing shows how many rows change their centre.
    count_noise, unknown = float(counts.std), np.full(d, np.nan)
    count_std = np.hypot(count_noise, _NEXT_COUNT * (sizes - last))
    return Clustering(centers, error, noise, sizes, count_std, count_noise, unknown, max_iter)


# --- the choice of steps -----------------------------------------------------------------------


def _known(count: Release) -> tuple[float, float]:
    return max(float(count.value), 1.0), float(np.max(count.std))


def number_of_rows(session: Session) -> tuple[float, float]:
    """Return the number of rows, at least 1, and its error: public, or released for a share."""
    public = session.adjacency == "replace_one"
    return _known(session.row_count(None if public else session.remaining * COUNT_SHARE))


def cluster(
    session: Session,
    box: PublicBox,
    n_clusters: int,
    *,
    algorithm: str,
    max_iter: int,
    smallest: float,
    count: tuple[float, float] | None = None,
    learned: bool = False,
) -> Clustering:
    """Choose the steps from public parameters and run them on the remaining allowance.

    Boxes whose half diagonal is below `smallest` count as one point. `count` is the number of rows
    and its error, if they have been released; `learned` says whether bounds were.
    """
    one_point = box.radius < smallest
    if algorithm == "lloyd" and not one_point:
        return _fit_lloyd(session, box, n_clusters, max_iter)
    if count is not None:
        n, n_std = count
    elif box.most is not None:
        part = session.remaining * COUNT_SHARE
        n, n_std = _known(session.answer(row_counts(None, "total weight", box.most), part))
    else:
        n, n_std = number_of_rows(session)
    if one_point:
        # Public bounds leave one point: there is nothing to learn.
        point = at_one_point(box.middle, box.half, box.half, n, n_std, n_clusters)
        return replace(point, n_iter=0)
    if n_clusters == 1:
        return _fit_mean(session, box, n, n_std, n_clusters)
    if session.n_features > MANY_FEATURES:
        return _fit_in_subspace(session, box, n, n_std, n_clusters)
    return _fit_in_box(session, box, n, n_std, n_clusters, learned=learned)


# --- few rows: in a ball that is learned ----------------------------------------------------------

# One box for all columns is as wide as the widest one, and its half diagonal, which noise follows,
# is many times the rows' distance from their mean. Distances from a point are one number a row:
# their median takes little of the allowance. So a centre and a radius are learned in turn: median
# of the rows' lengths, a first mean, median of the distances from it; for more rows, counts of
# distances, which show where to clip. Noise is then spent on structure, or, where released numbers
# say that it would drown, on one better mean. All decisions depend on public facts and earlier
# releases.

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
_DROWNED_EDGE = {True: 0.3, False: 0.5}
_DROWNED_TREE = {True: 8.0, False: 6.0}
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
    if n_clusters == 1 or edge > _DROWNED_EDGE[session.pure] or tree < _DROWNED_TREE[session.pure]:
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
