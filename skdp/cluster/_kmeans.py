"""Private k-means clustering: `DPKMeans`.

A fit releases bounds, unless stated; where features are many, the mean and the second moment that
choose a subspace; and noisy counts and sums of rows in public or released regions (boxes of a tree,
nearest centres), empty or not. Centres and errors are computed from these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin, pairwise_distances_argmin_min
from sklearn.metrics.pairwise import euclidean_distances

from skdp.base import PrivateMixin, in_precision_of, keeps_precision, names_of
from skdp.base.expected_error import ExpectedErrorMixin, rehearsal, rehearsals, repeated
from skdp.base.mixin import WEIGHT_BOUND, weighted_rows
from skdp.cluster._coreset import Clustering, PublicBox
from skdp.cluster._lloyd import (
    MANY_FEATURES,
    cluster,
    fit_in_ball,
    mean_error,
    number_of_rows,
    takes_ball,
)
from skdp.core import Session, public_generator
from skdp.exceptions import warn_caller
from skdp.parameters import PRIVATE, Integers, Table, check_size
from skdp.planning import Allowance, bounds_in, weight_bound_in
from skdp.tabular import check_public_array

Floats = NDArray[np.float64]

_LARGEST_BOUND = 1e100  # whose squares, and sums of them, stay inside the range of float64
_MOST_CLUSTERS = 2**16
# Fits for an expected error: up to _FEW_ROWS rows, and above, of at most _MOST_REHEARSED rows.
_REHEARSALS, _FEW_REHEARSALS, _FEW_ROWS, _MOST_REHEARSED = 15, 9, 2**17, 2**20
_MADE_UP = 20_000  # rows drawn around the centres of an earlier fit
_WEIGHTS_OF_MANY = (
    "DPKMeans: sample_weight with more than {} features needs algorithm='lloyd': the subspace of "
    "'tree' is that of rows without weights. Or reduce columns first (DPPCA), or leave weights "
    "out. Nothing was charged."
)
_LARGEST_ROW = 1e150  # of the caller's rows: the sum of 8192 squares is finite


class DPKMeans(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    ExpectedErrorMixin,
    PrivateMixin,
    BaseEstimator,
):
    """K-means clustering with differential privacy.

    The default algorithm counts and sums the rows in the boxes of a noisy adaptive tree, runs
    k-means with restarts on the released boxes, which costs nothing, and moves the centres by one
    to three private steps. The guarantee does not get weaker with more clusters.

    There is no ``labels_`` and no ``inertia_``: both are exact functions of private rows. `predict`
    and `score` compute them for rows of the caller. There is no ``n_init``: restarts happen on
    released points.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of centres.
    algorithm : {"tree", "lloyd"}, default="tree"
        ``"tree"``: see above; with more than 12 features the tree is grown in a private subspace
        of at most 6 dimensions. ``"lloyd"``: ``max_iter`` iterations of noisy counts and sums from
        a start that ignores the data (sphere packing).
    max_iter : int, default=5
        Iterations of ``"lloyd"``, which share its allowance; all are run.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); within +-1e100. Rows outside are clipped, never rejected.
        ``"private"`` learns them, for a part of the allowance that falls with n_samples * epsilon /
        n_features, as `privacy_` shows. With few rows (n_samples * epsilon below 800 a column), or
        more than 12 features, ``"tree"`` without weights learns a ball about the rows instead.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres, inside the bounds. They coincide if noise hides all clusters.
    cluster_centers_std_ : ndarray of shape (n_clusters, n_features)
        Standard error of each coordinate of each centre, in units of X. The target is the mean of
        the clipped rows nearest to that centre; at least 95% of these means lie within two standard
        errors. Included are:

        - noise;
        - shrinkage of the last step;
        - rows that change their centre in that step (estimated from the tree; with ``"lloyd"`` and
          with more than 12 features, the length of the step);
        - for ``"tree"``, half of the most that clipping residuals can take from a mean. If noise
          may hide a few distant rows, this is most of the error; tighter bounds make it smaller. In
          a ball it is a part of that (one centre: as much as released distances show).

        The error is the half width of the bounds for a centre with too small a count, and in a ball
        with n_samples * epsilon below 150. With learned bounds less than 95% may be covered: three
        of four means of 2,000 amounts, of which 80% are 0, at epsilon = 1 without delta. State
        bounds for such columns.
    cluster_centers_noise_std_ : ndarray of shape (n_clusters, n_features)
        The noise in `cluster_centers_std_` alone. A larger epsilon and more rows make it smaller.
    cluster_counts_ : ndarray of shape (n_clusters,)
        Noisy number of rows nearest to each centre, at least 0; counted before the last step of the
        centres. If noise hides all clusters (``n_distinct_`` is 1), equal parts of the noisy number
        of all rows. With `sample_weight` noisy sums of clipped weights.
    cluster_counts_std_ : ndarray of shape (n_clusters,)
        Standard error of each count. The target is the number of clipped rows that `predict` puts
        into the cluster; over tables, about 95% of these numbers lie within two standard errors.
        Included are noise and, often most of the error, an estimate from released numbers of the
        rows that change their centre in the last step: with more than 12 features or in a ball it
        may be three times too large. NaN if all of several centres coincide, and with ``"lloyd"``
        and ``max_iter=1``.
    cluster_counts_noise_std_ : float
        The noise in `cluster_counts_std_` alone.
    weight_bound_ : float or None
    bounds_ : tuple of two ndarrays of shape (n_features,)
        Bounds (low, high), stated or learned. Of a ball, the cube about it.
    residual_scale_ : ndarray of shape (n_features,)
        About the root mean square distance of rows to their centre, by column, in units of X, from
        the leaves of the tree. A rough scale: with up to 12 features the true value is at most six
        times as large (given the released counts and two standard errors), and it may be a third of
        this one for a column that the tree rarely splits. NaN if noise could hide rows that make it
        larger, and if nothing was released (one centre, ``"lloyd"``, or noise hides all clusters).
    n_distinct_ : int
        Number of different centres. If it is 1 while `n_clusters` is larger, one centre is all that
        could be had: released numbers say that noise hides all clusters, every centre is the same
        private mean, and a warning says so. Use more rows, a larger epsilon or stated bounds.
        `expected_error` tells before the fit whether this is likely.
    n_iter_ : int
        Number of releases of sums by nearest centre.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (medians, counts of distances); the row count
    (exact and free under replace-one, else with 2% of the allowance); for a ball two medians of
    rows' distances (from 0, from a first mean), counts of distances where rows are many, and up to
    three means; for a ball and with more than 12 features a mean and the second moment of the rows;
    then, for ``"tree"``, counts of disjoint boxes, once a round, counts and sums of the leaves, and
    counts and sums of the rows nearest to each centre; for ``"lloyd"`` the last of these in every
    iteration; where bounds are much wider than residuals, also the sums of squared residuals by
    column. Each column is measured in a unit of its own, from its residual (before any is released:
    its bounds), so columns of any width may stand side by side; centres, distances and cuts are in
    units of X. *Sensitivity*: adding or removing a row changes one count by 1 and one sum by at
    most half the diagonal of its leaf, respectively the norm that residuals are clipped to (lloyd:
    half the diagonal of the bounds), in these units; replacing one changes two of each, or one sum
    by twice that; squared residuals, as parts of the half widths, change by at most
    sqrt(n_features). *Mechanism*: rounded Gaussian noise if delta is above 0, otherwise discrete
    Laplace noise on counts and K-norm noise on sums (for one cluster, whichever is less).

    **Weights.** A row and its weight are protected together. A row of weight v counts v / b times,
    where b is the `weight_bound` and v is clipped to [0, b]: in counts, sums and squares. It adds
    no more than a row of weight b, so *sensitivities* are those above. The sum of weights is
    private under both relations, and released (2% of the allowance). Centres and errors are for
    weighted means. The noise is as large as for sum(v) / b rows, so state a bound near the weights
    of most rows. Bounds are learned without weights. Proof: ``skdp/queries/grouped_sums.md``.

    Whether there are fewer rows than clusters, or a feature is constant, is private, so such fits
    raise no error. If all released centres coincide, a warning says so.

    **Expected error.** For each row, the nearest centre minus the mean of the rows nearest to that
    centre, in half widths of the bounds: the root mean square over columns and rows, in the median
    of 25 fits with seeded noise (nine above 131,072 rows; above 2**20 rows it is extrapolated). It
    needs `like`, unless there is one centre and bounds are stated: at least as many public rows as
    you will fit (fewer are repeated, and the answer may be too large), or an earlier fit with a
    finite `residual_scale_`, around whose centres rows are drawn. It is refused if in most of these
    fits all centres coincide.

    References
    ----------
    Blum, Dwork, McSherry & Nissim 2005, "Practical privacy: the SuLQ framework", section 4
    (private Lloyd iterations). Su, Cao, Li, Bertino & Jin 2016, "Differentially private k-means
    clustering", sections 3 and 4 (sphere packing, clustering of released boxes).

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
    >>> 0 < kmeans.expected_error(1_000, like=rows.reshape(-1, 2)[:500]) < 0.1
    True
    """

    n_clusters: int = field(default=8, kw_only=False)
    algorithm: str = "tree"
    max_iter: int = 5
    bounds: Any = "private"
    weight_bound: Any = "private"

    _in_parts = True
    _n_progress_tasks = 1  # of algorithm="lloyd"

    # --- fitting ---------------------------------------------------------------------------------

    def fit(
        self, X: ArrayLike, y: Any = None, *, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Compute private centres.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows. May be in parts (`skdp.engines`).
        sample_weight : array-like of shape (n_samples,), default=None
            ... With rows in one table only; for more than 12 features with ``algorithm="lloyd"``.
        """
        with self._all_or_nothing(groups):
            rows, most = weighted_rows(self, self._open(X), sample_weight)
            if most is not None and self.algorithm == "tree" and rows.n_features > MANY_FEATURES:
                raise ValueError(_WEIGHTS_OF_MANY.format(MANY_FEATURES))
            bounds = self._stated_bounds(rows.n_features)
            check_size("n_clusters", int(self.n_clusters) * (rows.n_features + 1))
            with self._session(rows) as session:
                self.weight_bound_ = weight_bound = weight_bound_in(session, most)
                clustering, box = self._cluster(session, bounds, weight_bound)
                self.cluster_centers_ = clustering.centers
                self.cluster_centers_std_ = clustering.center_std
                self.cluster_centers_noise_std_ = clustering.noise_std
                self.cluster_counts_ = clustering.counts * (weight_bound or 1)
                self.cluster_counts_std_ = clustering.count_std * (weight_bound or 1)
                self.cluster_counts_noise_std_ = clustering.count_noise * (weight_bound or 1)
                self.bounds_ = (box.low, box.high)
                self.residual_scale_ = clustering.residuals
                self.n_iter_ = clustering.n_iter
                self.n_distinct_ = len(np.unique(clustering.centers, axis=0))
        # Centres are released, so a warning about them reveals nothing more.
        if self.n_distinct_ == 1 < len(self.cluster_centers_):
            warn_caller(
                f"{type(self).__name__}: all {len(self.cluster_centers_)} centres coincide: noise "
                "hides the clusters, and one private mean is all that could be had (n_distinct_ is "
                "1). Take more rows or a larger epsilon, fewer clusters or columns, "
                f"{'stated' if bounds is None else 'tighter'} bounds, or a smaller "
                "max_rows_per_unit where there are groups=",
                ConvergenceWarning,
            )
        return self

    @property
    def _learns_ball(self) -> bool:
        """Whether a fit without bounds may learn a ball: weights are bounded column by column."""
        return self.weight_bound == PRIVATE and self.algorithm == "tree"

    def _cluster(
        self,
        session: Session,
        bounds: tuple[Floats, Floats] | None,
        weight_bound: float | None,
    ) -> tuple[Clustering, PublicBox]:
        """Choose between stated bounds, those of every column and a ball; cluster in them."""
        k, count = int(self.n_clusters), None
        options: dict[str, Any] = {}
        if bounds is None and weight_bound is None and self._learns_ball:
            count = number_of_rows(session)
            if takes_ball(session, count[0]):
                return fit_in_ball(session, *count, k)
            options = {"n": count[0]}
        learned = bounds is None
        most = session.remaining * Fraction(4, 5)
        (low, high), _ = bounds_in(session, bounds, share=most, **options)
        box = PublicBox(low, high, weight_bound)
        clustering = cluster(
            session,
            box,
            k,
            algorithm=self.algorithm,
            max_iter=int(self.max_iter),
            smallest=1 / _LARGEST_BOUND,
            count=count,
            learned=learned,
        )
        return clustering, box

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None or self.n_clusters > 1:  # pure noise adds up over a tree's levels
            return math.nan
        if isinstance(self.bounds, str) and self._learns_ball and n_features > MANY_FEATURES:
            return allowance.ball_std(n_features)
        # Of the cube, as a fit has it: by that of the ball, which pure noise fits worse, a centre
        # of 20 columns had 1.5 times the noise with a delta (epsilon 1).
        return allowance.box_std(n_features)

    _parameter_table: ClassVar[Table] = {
        "n_clusters": Integers(1, _MOST_CLUSTERS),
        "max_iter": Integers(1, 1000),
        "algorithm": ("tree", "lloyd"),
        "weight_bound": WEIGHT_BOUND,
    }

    def _stated_bounds(
        self, n_features: int, names: Sequence[Any] | None = None
    ) -> tuple[Floats, Floats] | None:
        """Return (low, high), or None for ``"private"``; refuse what float64 cannot square."""
        pair = super()._stated_bounds(n_features, names)
        if pair is not None and max(np.abs(side).max() for side in pair) > _LARGEST_BOUND:
            raise ValueError("bounds: low and high must lie within -1e100 and 1e100")
        return pair

    def fit_predict(
        self, X: ArrayLike, y: Any = None, *, sample_weight: Any = None, groups: Any = None
    ) -> NDArray[np.int64]:
        """Fit, then assign the rows of X to the private centres.

        The labels are private data, which the guarantee of the fit does not cover. Keep them where
        X is kept.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows.
        sample_weight, groups : array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self.fit(X, sample_weight=sample_weight, groups=groups).predict(X)

    # --- released centres and the caller's own rows ----------------------------------------------

    def _finite_squares(self, X: ArrayLike) -> Floats:
        """Return the caller's X, limited to where squared distances stay finite."""
        return np.clip(self._public_array(X), -_LARGEST_ROW, _LARGEST_ROW)

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the index of the nearest centre for each row of the caller's X."""
        values = self._finite_squares(X)
        if not len(values):  # scikit-learn's distances refuse an empty table
            return np.empty(0, dtype=np.int64)
        return pairwise_distances_argmin(values, self.cluster_centers_).astype(np.int64)

    def __sklearn_tags__(self) -> Any:
        return keeps_precision(super().__sklearn_tags__())

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the Euclidean distance of each row of the caller's X to each centre.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters)
            float64, or float32 if X is.
        """
        values = self._finite_squares(X)
        if not len(values):
            return in_precision_of(X, np.empty((0, len(self.cluster_centers_))))
        return in_precision_of(X, euclidean_distances(values, self.cluster_centers_))

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Return minus the sum of squared distances of the caller's rows to the nearest centre.

        On private rows the score is exact, so it is not private; `skdp.model_selection` has
        scorers that are.
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

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        if like is None:
            if self.n_clusters > 1 or isinstance(self.bounds, str) or self.algorithm != "tree":
                raise ValueError(
                    "expected_error depends on how the rows are distributed around their centres "
                    "(sizes of clusters, residuals, learned bounds), which no parameter tells: "
                    "give like=, public rows that resemble them or an earlier private fit"
                )
            low, high = self._stated_bounds(d) or (np.zeros(d), np.ones(d))
            return mean_error(PublicBox(low, high), self._allowance(len(low)), n)
        rows = self._rows_like(like)
        bounds = self._stated_bounds(d, names_of(like))
        m = min(n, _MOST_REHEARSED)
        runs = rehearsals(_REHEARSALS if m <= _FEW_ROWS else _FEW_REHEARSALS)
        squares, hidden = [], 0
        with rehearsal(self) as rehearsed:
            for number in range(runs):
                table = rows[repeated(len(rows), m, number)]
                stated = {"bounds": "private" if bounds is None else bounds}
                fitted = rehearsed(number, **stated).fit(table)
                low, high = fitted.bounds_
                clipped = np.clip(table, low, high)
                squares.append(_squared_error(clipped, fitted.cluster_centers_, low, high))
                hidden += self.n_clusters > 1 and fitted.n_distinct_ == 1
        if 2 * hidden > runs:
            raise ValueError(
                f"expected_error: with n_samples={n} and epsilon={self.epsilon} noise hides the "
                f"{self.n_clusters} clusters, and all centres are one private mean. Give more rows "
                "or a larger epsilon, or ask for n_clusters=1"
            )
        return float(np.sqrt(np.median(squares))) * m / n

    def _rows_like(self, like: Any) -> Floats:
        """Return the given public rows, or rows drawn around released centres."""
        if not isinstance(like, DPKMeans):
            rows = check_public_array(like, estimator="expected_error(like=...)")
            return np.asarray(rows, dtype=np.float64)
        scale = getattr(like, "residual_scale_", None)
        if scale is None or not np.isfinite(scale).all():
            raise ValueError(
                "like must be public rows or a fitted DPKMeans with finite residual_scale_; this "
                "one has none (one centre, algorithm 'lloyd', noise that hides all clusters, or "
                "distant rows that noise hides)"
            )
        rng = public_generator(b"like")
        weight = like.cluster_counts_ / max(float(like.cluster_counts_.sum()), 1.0)
        weight = weight if weight.sum() > 0 else np.full(len(weight), 1 / len(weight))
        group = rng.choice(len(weight), size=_MADE_UP, p=weight / weight.sum())
        rows = rng.normal(like.cluster_centers_[group], scale)
        return np.clip(rows, *like.bounds_)


def _squared_error(rows: Floats, centers: Floats, low: Floats, high: Floats) -> float:
    """Return the mean square over rows and columns of centre minus mean, in half widths."""
    half = np.where(high > low, high / 2 - low / 2, np.inf)
    labels = pairwise_distances_argmin(rows, centers)
    total = 0.0
    for label, center in enumerate(centers):
        own = rows[labels == label]
        if len(own):
            total += len(own) * float(np.mean(((center - own.mean(axis=0)) / half) ** 2))
    return total / len(rows)
