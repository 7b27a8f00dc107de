"""Private k-means clustering.

Released, under the (epsilon, delta) of one fit: noisy counts and noisy sums of rows in public or
released regions (boxes of a tree, nearest centres), where features are many also the mean and the
second moment that choose a subspace, and, unless the caller states them, bounds of every feature.
Noise falls on every region, empty or not. The centres and all that `DPKMeans` shows are computed
from these releases and from public parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.metrics import pairwise_distances_argmin, pairwise_distances_argmin_min
from sklearn.metrics.pairwise import euclidean_distances

from skdp import kernel
from skdp._coreset import (
    count_level,
    grow,
    shrinkage,
    sphere_packing,
    weighted_kmeans,
)
from skdp.base import LEARNING_SHARE, PrivateMixin, check_bounds, check_integer
from skdp.budget import PrivacyBudget

__all__ = ["DPKMeans"]

Floats = NDArray[np.float64]

_ALGORITHMS = ("tree", "lloyd")
# Squares of what is allowed, and sums of them, stay inside the range of float64.
_LARGEST_BOUND = 1e100
_LARGEST_ROW = 1e150  # of the caller's rows: the sum of 8192 squares is finite

# Shares of the allowance that the bounds have left (of epsilon, or of mu**2 under Gaussian noise).
_COUNT_SHARE = Fraction(1, 50)  # a private number of rows
_TREE_SHARE = Fraction(7, 10)  # the refinement takes what is left

# More features than this are projected first: a tree of depth 14 would not even cut each once.
_MANY_FEATURES = 12


@dataclass(frozen=True)
class _Plan:
    """Shares of a fit in a subspace: private mean, second moment, tree; the rest refines."""

    mean: Fraction
    gram: Fraction
    tree: Fraction


# Noise falls as share**-1/2 under Gaussian noise and as 1/share in a pure session, where many
# small shares are dear: there the refinement gives way to mean and second moment.
_GAUSSIAN_PLAN = _Plan(Fraction(5, 100), Fraction(40, 100), Fraction(20, 100))
_PURE_PLAN = _Plan(Fraction(15, 100), Fraction(60, 100), Fraction(15, 100))
_TAU = 0.25  # constant feature of the augmented second moment, as a part of the radius
_SUBSPACE_RADIUS = 0.5  # of the half diagonal: rows about the mean are clipped to it
_SUBSPACE_DIMS = 6
_SUBSPACE_WIDTH = 2.0  # half width of the subspace's box in standard deviations
# Second moment not worth its noise: edge of the noise above this part of the squared radius.
_HOPELESS_NOISE = 0.27
_HOPELESS_RADIUS = 0.4  # of the half diagonal, about the first private mean

# The refinement clips residuals at this many root mean squares of the released residual, or
# further out while noise costs less than _FREE_NOISE of the inertia.
_RESIDUAL_RMS = 2.5
_FREE_NOISE = 5e-4
_MOST_STEPS = 3
_UPDATE = 2.0  # standard errors that a noisy count needs before its centre moves


def _sum_count_share(d: int) -> float:
    """Return the counts' part of a joint release of counts and residual sums.

    It is what makes the mean's error least where residuals have norms of about a third of their
    bound, of which the count's error moves the quotient.
    """
    return 1 / (1 + math.sqrt(d) / 0.35)


@dataclass(frozen=True)
class _Box:
    """The public box of a fit: view, middle and half diagonal."""

    view: kernel.Box
    middle: Floats
    radius: float

    def clip(self, points: Floats) -> Floats:
        return np.clip(points, self.view.low, self.view.high)


@dataclass(frozen=True)
class _Fit:
    """What a fit ends with.

    Attributes
    ----------
    centers : ndarray of shape (k, d)
    center_std : ndarray of shape (k,)
        Standard error by noise of a coordinate.
    counts : ndarray of shape (k,)
    count_std : float
    n_iter : int
        Releases of sums by nearest centre.
    """

    centers: Floats
    center_std: Floats
    counts: Floats
    count_std: float
    n_iter: int = 1


# --- the steps of the tree algorithm -----------------------------------------------------------


def _refinement_plan(session: kernel.Session, n: float, n_clusters: int) -> tuple[int, float]:
    """Return how many refinements to make and where to clip, in root mean square residuals.

    From public and released numbers only. A second and a third step are made where their noise is
    free: below `_FREE_NOISE` of the mean squared residual in a cluster of average size. Clipping
    at a small radius saves noise and moves the centre of a skewed cluster, so the radius too grows
    as long as noise stays free.
    """
    d = session.n_features
    for steps in range(_MOST_STEPS, 0, -1):
        level = count_level(session, session.rest / steps)
        level /= math.sqrt(d + 1) if session.pure else 1.0
        free = math.sqrt(_FREE_NOISE / d) * level * n / n_clusters
        if free >= _RESIDUAL_RMS:
            return steps, free
    return 1, _RESIDUAL_RMS


def _refine_by_plan(
    session: kernel.Session, box: _Box, centers: Floats, rms: float, n: float, n_std: float
) -> _Fit:
    """Spend the rest of the allowance on refinements, given the released rms residual."""
    steps, reach = _refinement_plan(session, n, len(centers))
    radius = float(np.clip(reach * rms, 1e-3 * box.radius, box.radius))
    share = session.rest / steps
    for _ in range(steps):
        found = _refine(session, box, centers, radius, share, n + 2 * n_std)
        centers = found.centers
    return replace(found, n_iter=steps)


def _refine(
    session: kernel.Session,
    box: _Box,
    centers: Floats,
    radius: float,
    share: Fraction,
    most: float,
) -> _Fit:
    """Move centres by one private Lloyd step on clipped residuals, each step shrunk.

    The mean residual of all rows is shrunk and added to every centre first: it has the least
    noise and mends an error that the centres share (that of a private mean). What is left of each
    cluster's own step is shrunk by its own noise. A centre whose noisy count does not stand clear
    of the noise only moves with the others; no cluster has more than `most` rows, whatever its
    noisy count says.
    """
    d = session.n_features
    counts, sums = session.centers(
        box.view, centers, radius, share, count_share=_sum_count_share(d), name="refinement"
    )
    std = np.asarray(sums.std, dtype=np.float64)
    clear = counts.value > max(_UPDATE * float(counts.std), 0.5)
    unknown = box.radius / math.sqrt(d)
    error = np.full(len(centers), unknown)
    moved = centers
    if clear.any():
        # In units of the radius, so that squares neither overflow nor vanish.
        size = np.where(clear, np.minimum(counts.value, most), 1.0)
        total = min(float(size[clear].sum()), most)
        common = sums.value[clear].sum(axis=0) / total / radius
        noise = d * float((std[clear] ** 2 / radius**2).sum()) / total**2
        common = common * shrinkage(float(common @ common), noise)
        own = sums.value / size[:, None] / radius - common
        noises = d * (std / size / radius) ** 2
        factor = [shrinkage(float(step @ step), v) for step, v in zip(own, noises, strict=True)]
        own = own * (np.array(factor) * clear)[:, None]
        moved = box.clip(centers + (common + own) * radius)
        error = np.where(clear, np.minimum(std / size, unknown), error)
    return _Fit(moved, error, np.maximum(counts.value, 0.0), float(counts.std))


def _fit_in_box(
    session: kernel.Session, box: _Box, n: float, n_std: float, n_clusters: int
) -> _Fit:
    """Tree over the box, k-means on its representatives, one refinement."""
    share = session.rest * _TREE_SHARE
    coreset = grow(session, box.view, n=n, n_std=n_std, n_clusters=n_clusters, share=share)
    points, msq = weighted_kmeans(coreset, n_clusters, session.post_processing_rng())
    centers = box.clip(box.middle + coreset.unit * points)
    rms = coreset.unit * math.sqrt(msq + coreset.spread)
    return _refine_by_plan(session, box, centers, rms, n, n_std)


def _shrunk_mean(session: kernel.Session, box: _Box, share: Fraction) -> tuple[Floats, float]:
    """Release the mean, shrunk towards the middle of the box; and the noise of a coordinate."""
    d = session.n_features
    release = session.mean(box.view, share)
    std = float(np.max(np.asarray(release.std)))
    unit = box.radius if box.radius > 0 else 1.0
    offset = (release.value - box.middle) / unit
    factor = shrinkage(float(offset @ offset), d * (std / unit) ** 2)
    return box.middle + factor * offset * unit, std


def _fit_mean(session: kernel.Session, box: _Box, n: float, n_std: float, n_clusters: int) -> _Fit:
    """Put every centre at the private mean, the best answer where noise drowns all structure."""
    d = session.n_features
    if n_clusters == 1:
        share = session.rest
        release = session.mean(box.view, share)
        error = np.full(1, float(np.max(np.asarray(release.std))))
        return _Fit(box.clip(release.value)[None], error, np.array([n]), n_std)
    mean, std = _shrunk_mean(session, box, session.rest / 2)
    # Rows about a mean that is known to a few std lie closer to it than the box's corners.
    radius = min(box.radius, math.hypot(_HOPELESS_RADIUS * box.radius, math.sqrt(d) * std))
    found = _refine(session, box, mean[None], radius, session.rest, n + 2 * n_std)
    return _Fit(
        np.repeat(found.centers, n_clusters, axis=0),
        np.repeat(found.center_std, n_clusters),
        np.full(n_clusters, float(found.counts[0]) / n_clusters),
        found.count_std / n_clusters,
    )


def _noise_edge(session: kernel.Session, d: int, share: Fraction, n: float) -> float:
    """Return about the largest eigenvalue of the noise on a second moment of rows of norm 1.

    Gaussian orthogonal ensemble: sqrt(2 d) sigma. Difference of two Wishart matrices W(d + 1, c):
    about 3.3 d c, with c = 1 / (2 epsilon) under add-or-remove.
    """
    edge = 1.65 * d if session.pure else math.sqrt(2 * d)
    return edge * (1 + _TAU**2) / count_level(session, share) / max(n, 1.0)


def _fit_in_subspace(
    session: kernel.Session, box: _Box, n: float, n_std: float, n_clusters: int
) -> _Fit:
    """Find a private subspace, cluster in it as `_fit_in_box` does, refine in all features."""
    d = session.n_features
    plan = _PURE_PLAN if session.pure else _GAUSSIAN_PLAN
    rest = session.rest
    if _noise_edge(session, d, rest * plan.gram, n) > _HOPELESS_NOISE:
        return _fit_mean(session, box, n, n_std, n_clusters)
    mean, mean_std = _shrunk_mean(session, box, rest * plan.mean)
    radius = max(_SUBSPACE_RADIUS * box.radius, np.finfo(float).tiny)
    gram = session.gram(session.ball(mean, radius), rest * plan.gram, tau=_TAU)
    # The augmented row has measured the mean again: the two estimates are averaged by precision.
    size = max(gram.n, 1.0)
    offset = gram.total / size / radius
    errors = mean_std**2, (gram.total_std / size) ** 2
    mean = box.clip(mean + offset * radius * (errors[0] / max(sum(errors), np.finfo(float).tiny)))
    covariance = gram.second_moment / radius**2 / size - np.outer(offset, offset)
    values, vectors = linalg.eigh((covariance + covariance.T) / 2)
    values, vectors = np.clip(values[::-1], 0.0, 1.0), vectors[:, ::-1]
    edge = gram.std / radius**2 * math.sqrt(4 * d) / size  # off-diagonal std times 2 sqrt(d)
    k = int(np.clip(np.sum(values > edge), 1, _SUBSPACE_DIMS))
    width = radius * np.clip(_SUBSPACE_WIDTH * np.sqrt(values[:k]), 1e-3, 1.0)
    view = session.project(session.ball(mean, radius), vectors[:, :k].T, width)
    coreset = grow(session, view, n=n, n_std=n_std, n_clusters=n_clusters, share=rest * plan.tree)
    points, msq = weighted_kmeans(coreset, n_clusters, session.post_processing_rng())
    centers = box.clip(mean + coreset.unit * points @ view.components)
    # What the subspace leaves out adds to every residual.
    outside = max(float(np.trace(covariance)) - float(values[:k].sum()), 0.0)
    rms = math.sqrt(coreset.unit**2 * (msq + coreset.spread) + radius**2 * min(outside, 1.0))
    return _refine_by_plan(session, box, centers, rms, n, n_std)


def _fit_lloyd(session: kernel.Session, box: _Box, n_clusters: int, max_iter: int) -> _Fit:
    """Run the textbook method: noisy counts and sums of every cluster in every iteration."""
    d = session.n_features
    unit = box.radius if box.radius > 0 else 1.0
    half = box.view.high / 2 - box.view.low / 2
    start = sphere_packing(n_clusters, half / unit, session.post_processing_rng())
    centers = box.clip(box.middle + start * unit)
    share = session.rest / max_iter
    radius = max(box.radius, np.finfo(float).tiny)
    for step in range(max_iter):
        counts, sums = session.centers(
            box.view,
            centers,
            radius,
            share,
            count_share=1 / (1 + math.sqrt(d) / 0.45),
            name=f"iteration {step + 1}",
        )
        # A cluster that the noise may have made up stays where it is; so does an empty one.
        clear = counts.value > max(_UPDATE * float(counts.std), 0.5)
        size = np.where(clear, counts.value, 1.0)
        centers = box.clip(centers + np.where(clear[:, None], sums.value / size[:, None], 0.0))
        error = np.minimum(np.asarray(sums.std) / size, radius / math.sqrt(d))
        error = np.where(clear, error, radius / math.sqrt(d))
    return _Fit(centers, error, np.maximum(counts.value, 0.0), float(counts.std), max_iter)


class DPKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, PrivateMixin, BaseEstimator
):
    """K-means clustering with differential privacy.

    The default algorithm counts and sums the rows in the boxes of a noisy adaptive tree, runs
    k-means with restarts on the released boxes, which costs nothing, and moves the centres by one
    to three private steps. The guarantee does not get weaker with more clusters or more restarts.

    There is no ``labels_`` and no ``inertia_``: both are exact functions of private rows. There is
    no ``n_init``: restarts happen on released points. `predict` and `score` give the same for rows
    that the caller may show.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of centres.
    algorithm : {"tree", "lloyd"}, default="tree"
        ``"tree"``: see above; with more than 12 features the tree is grown in a private subspace
        of at most 6 dimensions. ``"lloyd"``: the textbook method, ``max_iter`` iterations of
        noisy counts and noisy sums from a start that ignores the data (sphere packing).
    max_iter : int, default=5
        Iterations of ``"lloyd"``, all of which are run: the allowance is split between them.
        ``"tree"`` ignores it.
    bounds : "private" or pair (low, high), default="private"
        Public bounds of the features in units of X, each a number or an array of shape
        (n_features,), within +-1e100. Rows outside are clipped, never rejected. ``"private"``
        learns them with 10% of the allowance.
    epsilon : float, default=1.0
        Privacy loss of one fit.
    delta : float, default=0.0
        Probability that the loss exceeds epsilon, in the usual sense. Zero: pure epsilon-DP.
    budget : PrivacyBudget, default=None
        Shared budget that is charged; it also sets the neighbouring relation. None: the fit
        stands alone, and one row is replaced between neighbours.
    random_state : int, RandomState instance or None, default=None
        Seeds post-processing only: noise comes from the operating system. Inside
        ``skdp.config_context(noise="seeded")``, for tests and teaching, it seeds the noise as well.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres, inside the bounds. Where the noise drowns all structure they coincide.
    cluster_centers_std_ : ndarray of shape (n_clusters,)
        Standard error by noise of a coordinate of each centre, in units of X; for a centre that
        the noisy counts do not support, about the largest error that it can have.
    cluster_counts_ : ndarray of shape (n_clusters,)
        Noisy number of rows nearest to each centre (before its last step), at least 0.
    cluster_counts_std_ : float
        Standard deviation of the noise on a count.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        Bounds (low, high), stated or learned.
    n_iter_ : int
        Private steps: releases of sums by nearest centre.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names that are strings.
    privacy_ : skdp.kernel.PrivacyCertificate
        What was released, by which mechanism, at which price.

    Raises
    ------
    ValueError, TypeError
        In `fit`, before anything is charged: a parameter out of its range, rows that are not
        finite numbers.
    BudgetExceededError
        In `fit`, if the budget does not cover (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (histograms of octaves); the number of rows
    (exact and free under replace-one, else with 2% of the allowance); with more than 12 features
    the mean and the second moment of the rows; then, for ``"tree"``, counts of disjoint boxes,
    once a round, counts and sums of the leaves, and counts and sums of the rows nearest to each
    centre; for ``"lloyd"`` the last of these in every iteration. *Sensitivity*: adding or removing
    a row changes one count by 1 and one sum by at most half the diagonal of its leaf, respectively
    the norm that residuals are clipped to (lloyd: half the diagonal of the bounds); replacing one
    changes two of each, or one sum by twice that. *Mechanism*: ``delta=0``: discrete Laplace noise
    on counts, K-norm noise on sums; ``delta>0``: rounded Gaussian noise. *Charged*: (epsilon,
    delta), once, by `fit`, before any noise is drawn.

    Whether there are fewer rows than clusters, or a feature is constant, is private: such fits
    end in centres that coincide or sit in the middle of the bounds, never in an error.

    References
    ----------
    Blum, Dwork, McSherry & Nissim 2005, "Practical privacy: the SuLQ framework", section 4
    (private Lloyd iterations). Su, Cao, Li, Bertino & Jin 2016, "Differentially private k-means
    clustering", sections 3 and 4 (sphere packing, clustering of released boxes). Balle & Wang 2018,
    "Improving the Gaussian mechanism", Theorem 8.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.cluster import DPKMeans
    >>> rows = np.random.default_rng(0).normal([[-1.0, 0.0], [1.0, 0.0]], 0.1, size=(5000, 2, 2))
    >>> kmeans = DPKMeans(2, bounds=(-2, 2), epsilon=1.0, random_state=0).fit(rows.reshape(-1, 2))
    >>> bool(np.allclose(np.sort(kmeans.cluster_centers_[:, 0]), [-1, 1], atol=0.05))
    True
    >>> kmeans.predict([[-0.8, 0.1]]) == kmeans.predict([[-1.2, 0.0]])
    array([ True])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        algorithm: str = "tree",
        max_iter: int = 5,
        bounds: Any = "private",
        epsilon: float = 1.0,
        delta: float = 0.0,
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    # --- fitting ---------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Compute private centres.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows.
        y : None
            Ignored.

        Returns
        -------
        self : DPKMeans
        """
        with self._all_or_nothing():
            n_clusters, max_iter = self._check_parameters()
            rows = self._open(X)
            bounds = _checked_bounds(self.bounds, rows.n_features, self._names())
            with self._session(rows) as session:
                if bounds is None:
                    bounds = session.learn_bounds(LEARNING_SHARE)
                low, high = bounds
                half_diagonal = float(np.linalg.norm(high / 2 - low / 2))
                box = _Box(session.box(low, high), low / 2 + high / 2, half_diagonal)
                found = self._cluster(session, box, n_clusters, max_iter)
                self.cluster_centers_ = found.centers
                self.cluster_centers_std_ = found.center_std
                self.cluster_counts_ = found.counts
                self.cluster_counts_std_ = found.count_std
                self.bounds_ = (low, high)
                self.n_iter_ = found.n_iter
                self.privacy_ = session.certificate()
        return self

    def _cluster(self, session: kernel.Session, box: _Box, n_clusters: int, max_iter: int) -> _Fit:
        """Choose the algorithm from public parameters and run it on the rest of the allowance."""
        one_point = box.radius < 1 / _LARGEST_BOUND
        if self.algorithm == "lloyd" and not one_point:
            return _fit_lloyd(session, box, n_clusters, max_iter)
        share = session.rest * _COUNT_SHARE if session.adjacency != "replace_one" else None
        count = session.count(share)
        n, n_std = max(float(count.value), 1.0), float(count.std)
        if one_point:
            # Public bounds leave one point (or squares that vanish): there is nothing to learn.
            spread = np.full(n_clusters, box.radius)
            return _Fit(
                np.repeat(box.middle[None], n_clusters, axis=0),
                spread,
                np.full(n_clusters, n / n_clusters),
                n_std / n_clusters,
                n_iter=0,
            )
        if n_clusters == 1:
            return _fit_mean(session, box, n, n_std, n_clusters)
        if session.n_features > _MANY_FEATURES:
            return _fit_in_subspace(session, box, n, n_std, n_clusters)
        return _fit_in_box(session, box, n, n_std, n_clusters)

    def _check_parameters(self) -> tuple[int, int]:
        """Check every parameter that does not depend on X; return n_clusters and max_iter."""
        self._check_privacy_parameters()
        n_clusters = check_integer(self.n_clusters, "n_clusters", low=1)
        max_iter = check_integer(self.max_iter, "max_iter", low=1, high=1000)
        if not isinstance(self.algorithm, str):
            raise TypeError(
                f"algorithm must be 'tree' or 'lloyd', got {type(self.algorithm).__name__}"
            )
        if self.algorithm not in _ALGORITHMS:
            raise ValueError(f"algorithm must be 'tree' or 'lloyd', got {self.algorithm!r}")
        return n_clusters, max_iter

    def fit_predict(self, X: ArrayLike, y: Any = None) -> NDArray[np.int64]:
        """Fit, then assign the rows of X to the private centres.

        The result is private data, transformed: it says of each row which centre is nearest, and
        the guarantee of the fit does not cover it. Keep it where X is kept.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows.
        y : None
            Ignored.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self.fit(X).predict(X)

    # --- with public centres and the caller's own rows -------------------------------------------

    def _finite_squares(self, X: ArrayLike) -> Floats:
        """Return the caller's X, limited to where squared distances stay finite."""
        return np.clip(self._public_array(X), -_LARGEST_ROW, _LARGEST_ROW)

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the index of the nearest centre for each row of the caller's X.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        values = self._finite_squares(X)
        if not len(values):  # scikit-learn's distances refuse an empty table
            return np.empty(0, dtype=np.int64)
        return pairwise_distances_argmin(values, self.cluster_centers_).astype(np.int64)

    def transform(self, X: ArrayLike) -> Floats:
        """Return the Euclidean distance of each row of the caller's X to each centre.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters)
        """
        values = self._finite_squares(X)
        if not len(values):
            return np.empty((0, len(self.cluster_centers_)))
        return euclidean_distances(values, self.cluster_centers_)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Return minus the sum of squared distances of the caller's rows to the nearest centre.

        On private rows the score is exact, so it is not private; `skdp.model_selection` has
        scorers that are.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        score : float
        """
        values = self._finite_squares(X)
        if not len(values):
            return 0.0
        _, distances = pairwise_distances_argmin_min(values, self.cluster_centers_)
        return -float(np.sum(distances**2))

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    # --- before the data -------------------------------------------------------------------------

    def expected_error(self, n_samples: int, n_features: int | None = None) -> float:
        """Return about how far noise moves the centre of a cluster of average size.

        Nothing is fitted, read or charged: it answers whether epsilon is enough. Compare it with
        the distances between clusters that matter. It is the root mean square Euclidean error of
        one private step with residuals clipped at 0.3 times (lloyd: at) half the diagonal of the
        bounds. It is an order of magnitude, about noise only: how far the algorithm stops from the
        best centres, and rows that bounds clip, come on top (``cluster_centers_std_`` has the noise
        of a fit).

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Needed before `fit`, unless ``bounds`` has arrays; ``n_features_in_`` afterwards.

        Returns
        -------
        error : float
            In units of X, at most half the diagonal of the bounds; for ``bounds="private"`` as a
            part of half the diagonal.

        Examples
        --------
        >>> from skdp.cluster import DPKMeans
        >>> kmeans = DPKMeans(8, bounds=(-1.5, 1.5), epsilon=0.3, delta=1e-6)
        >>> round(kmeans.expected_error(20_000, 2), 3), round(kmeans.expected_error(200, 2), 3)
        (0.013, 1.349)
        """
        n_clusters, max_iter = self._check_parameters()
        if n_features is None:
            n_features = self._features_of_bounds()
        n, d = self._sizes(n_samples, n_features)
        bounds = _checked_bounds(self.bounds, d, self._names())
        half_diagonal = 1.0
        if bounds is not None:
            half_diagonal = float(np.linalg.norm(bounds[1] / 2 - bounds[0] / 2))
        pure = float(self.delta) == 0.0
        share = 1.0 if bounds is not None else 1 - LEARNING_SHARE
        replaced = self._adjacency == "replace_one"
        if self.algorithm == "lloyd":
            share, clip = share / max_iter, half_diagonal
        else:
            share *= 1.0 if replaced else 1 - float(_COUNT_SHARE)
            subspace = _PURE_PLAN if pure else _GAUSSIAN_PLAN
            if d > _MANY_FEATURES:
                share *= float(1 - subspace.mean - subspace.gram - subspace.tree)
            else:
                share *= float(1 - _TREE_SHARE)
            clip = 0.3 * half_diagonal
        size = n / n_clusters
        sums = share * (1 - _sum_count_share(d))
        if pure:
            level = float(self.epsilon) * sums / (2 if replaced else 1)
            noise = math.sqrt(d * (d + 1)) / level
        else:
            cost = self.privacy_cost(n, d)
            level = float(cost.mu or 0.0) * math.sqrt(sums / (2 if replaced else 1))
            noise = math.sqrt(d) / level
        return min(clip * noise / size, half_diagonal)

    def _features_of_bounds(self) -> int | None:
        """Return the number of features that stated bounds have, if they say one."""
        if isinstance(self.bounds, str):
            return None
        if isinstance(self.bounds, Mapping):
            return len(self.bounds)
        try:
            sizes = [np.size(side) for side in self.bounds if np.ndim(side) == 1]
        except TypeError:
            return None
        return int(sizes[0]) if sizes else None


def _checked_bounds(
    bounds: Any, n_features: int, names: Sequence[Any] | None
) -> tuple[Floats, Floats] | None:
    """Return (low, high), or None for ``"private"``; refuse what float64 cannot square."""
    pair = check_bounds(bounds, n_features, names)
    if pair is not None and max(np.abs(pair[0]).max(), np.abs(pair[1]).max()) > _LARGEST_BOUND:
        raise ValueError("bounds: low and high must lie within -1e100 and 1e100")
    return pair
