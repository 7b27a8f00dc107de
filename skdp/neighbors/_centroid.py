"""Private nearest centroids: `DPNearestCentroid`.

A fit releases bounds, unless stated; the number of rows of each class; the mean of the columns, and
their mean square where noise allows; the sum of the clipped rows of each class, and how often the
nearest centroid is right. The medians of each class may stand for its mean.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from skdp.base.calibration import Calibration, calibration_share, signal_of, typical_lead
from skdp.base.classifiers import DistanceClassifier, Floats, Start
from skdp.core import Box, Session
from skdp.parameters import Reals, Table, check_parameter
from skdp.planning import Allowance
from skdp.queries import LinearScores, MedianScores, Quantiles, label_vectors, rank_scale

__all__ = ["DPNearestCentroid"]

_CENTER_SHARE = 0.08
_RADIUS = 0.4  # of scaled rows, in roots of the number of columns
_AT_MEDIAN = 0.4  # density of a normal column there, times its deviation
# Noise of ranks, in rows of an average class, above which 6 of 220 fits were better than the label
# of the largest class (4 tables of two to five classes).
_HIDDEN = 0.5


def _is_euclidean(model: Any) -> bool:
    return bool(model.metric == "euclidean")


class DPNearestCentroid(DistanceClassifier):
    """Classify each row by the nearest private class mean, or median.

    The private counterpart of scikit-learn's ``NearestCentroid``. The sums of all classes are one
    release, so it suits few rows and many columns. X may be sparse, if
    `classes` are stated.

    Parameters
    ----------
    metric : {"euclidean", "manhattan"}, default="euclidean"
        Distances between scaled columns: to the means of the classes, or to the medians of their
        columns, which need many more rows: noise of a median grows with the number of columns.
        With medians there are labels, and no probabilities, as in scikit-learn.
    shrink_threshold : float or None, default=None
        Move each coordinate of a centroid towards the mean of all rows by so many of its standard
        errors, and not beyond (nearest shrunken centroids).
    priors : {"empirical", "uniform"} or array-like of shape (n_classes,), default="empirical"
        Shares of the classes: those of the rows, equal ones, or these, from public knowledge.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        Shares of the classes, by `priors`.
    centroids_ : ndarray of shape (n_classes, n_features)
        Means of the rows of each class, clipped to `bounds_` and shortened to `radius_`, in the
        units of X; or their medians.
    centroids_std_error_ : ndarray of shape (n_classes, n_features)
        Standard error of `centroids_` due to noise, relative to the means of all rows of the class,
        clipped to `bounds_` only. It is to first order in the noise of the counts. NaN if rows are
        shortened (see Notes) or shrunken, with learned bounds, for a class of few rows, and for
        medians.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    center_, scale_ : ndarray of shape (n_features,)
    radius_ : float
        Infinite for medians.

    See Also
    --------
    DPLogisticRegression : Usually more accurate with many rows.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (2% of the allowance; of few rows more); the
    means and mean squares of the columns, or the means only, unless noise would hide them (8%); the
    sum of the clipped rows of each class; and counts of rows by their lead, for calibration.
    *Sensitivity* of the sums in L2: the radius if a row is added or removed, twice the radius if
    one is replaced; of counts: 1, and 2 in L1. *Mechanism*: K-norm, discrete Laplace or rounded
    Gaussian noise, whichever is less. With ``metric="manhattan"`` the median of each column in
    each class is released instead of the sums: *Mechanism*: the exponential one, on ranks, which an
    added or removed row moves by 1/2 in one class, and a replaced one by 1, or 1/2 in two.

    **Distances** are between scaled and clipped rows. To means, the average of what noise adds is
    subtracted, because otherwise rare classes would be far from every row. A class that has no rows
    in the noisy counts is at the centre. The shares of the classes count, too: where classes
    overlap, more rows get the label of the larger one.

    **Probabilities** are calibrated: the last 2 to 10% of the allowance release how many rows are
    right and wrong in bins of their lead. Where noise hides that, probabilities are near to the
    shares of the classes, and the label of the largest class may be predicted for every row. Where
    it would hide all medians, only the shares are released, and a warning says so.

    **Clipping.** If noise is small enough, `radius_` is so large that no row within the bounds
    exceeds it. Otherwise it is about half the norm of typical rows, and longer rows are shortened,
    so that their means are nearer to `center_`: this separates classes as well, with less noise.

    References
    ----------
    Tibshirani, Hastie, Narasimhan & Chu 2002, "Diagnosis of multiple cancer types by shrunken
    centroids of gene expression", section 2 (the method; here the noise is that of one joint
    vector).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp.neighbors import DPNearestCentroid
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DPNearestCentroid(classes=range(10), bounds=(0, 16), delta=1e-6, epsilon=3.0)
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

    metric: str = field(default="euclidean", kw_only=False)
    shrink_threshold: float | None = None
    priors: Any = "empirical"

    _parameter_table: ClassVar[Table] = {
        "metric": ("euclidean", "manhattan"),
        "shrink_threshold": (None, Reals(0, math.inf, "()")),
    }
    _takes_sparse = True

    # As in scikit-learn, medians only predict.
    decision_function = available_if(_is_euclidean)(DistanceClassifier.decision_function)
    predict_proba = available_if(_is_euclidean)(DistanceClassifier.predict_proba)
    predict_log_proba = available_if(_is_euclidean)(DistanceClassifier.predict_log_proba)

    @property
    def _stated_priors(self) -> Any:
        if not isinstance(self.priors, str):
            return self.priors
        check_parameter(self.priors, "priors", "empirical", "uniform")
        return None if self.priors == "empirical" else self.priors

    def _public(self, n_features: int) -> Any:
        stated = super()._public(n_features)
        if stated is not None and (stated[0] == stated[1]).all():
            raise ValueError("All features have zero variance: each has one number as bounds")
        return stated

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        if self.metric == "manhattan":
            return allowance.choice_scale(n_features)
        return allowance.part(1 / 2).ball_std(n_features)

    def _fit(self, session: Session, public: Any, n_classes: int) -> None:
        start = self._started(session, public, n_classes, _CENTER_SHARE)
        d, counts = start.low.size, start.counts
        shares = counts / counts.sum()
        self.class_prior_ = shares if self._priors is None else self._priors
        share = session.remaining - calibration_share(session, start.n, n_classes)
        if self.metric == "manhattan":
            self._fit_medians(session, start, share)
            return
        start = replace(start, allowance=Allowance.left(session, share))
        view = start.view(start.radius(_RADIUS))
        sums = session.answer(label_vectors(view, n_classes), share)
        mean, self.centroids_, self.centroids_std_error_ = start.means(sums, view)
        self.radius_ = view.radius
        noise = float(np.mean(sums.std)) / counts
        kept: Any = d  # coordinates whose noise is left
        if self.shrink_threshold is not None:
            mean, kept = self._shrunken(mean, counts)
            self.centroids_ = self.center_ + mean * self.scale_
            self.centroids_std_error_ = np.full_like(mean, math.nan)
        lengths = np.maximum((mean**2).sum(axis=1) - kept * noise**2, 0.0)
        if counts.max() > 1.0:  # a class without rows has no direction
            mean[counts <= 1.0], lengths[counts <= 1.0] = 0.0, 0.0
        # Minus half the squared distances, up to what all classes share.
        scores = LinearScores(view, mean, -lengths / 2)
        deviation = min(1.0, view.radius / math.sqrt(d))  # of a clipped column
        signal = signal_of(mean, noise[:, None], shares)
        typical = typical_lead(mean, deviation, shares)
        self._calibration = Calibration.fitted(
            session, scores, typical, signal, counts, start.spread
        )

    def _fit_medians(self, session: Session, start: Start, share: Fraction) -> None:
        """Release the median of each column in each class, and counts of leads."""
        counts, d = start.counts, start.low.size
        query = Quantiles(Box(start.low, start.high, per_feature=True), 0.5, n_labels=len(counts))
        ranks = rank_scale(
            0.5, session.level(share), d, pure=session.pure, adjacency=session.adjacency
        )
        if math.sqrt(2) * ranks > _HIDDEN * counts.mean():
            bounds = self.bounds_
            self._forget()
            self.bounds_ = bounds
            self._fit_constant(session, len(counts))
            return
        medians = session.answer(query, share, name="medians of labels").value.T
        scaled = (medians - self.center_) / self.scale_
        self.radius_ = math.inf
        if self.shrink_threshold is not None:
            scaled, _ = self._shrunken(scaled, counts)
            medians = self.center_ + scaled * self.scale_
        self.centroids_, self.centroids_std_error_ = medians, np.full_like(medians, math.nan)
        shares = counts / counts.sum()
        noise = math.sqrt(2) * ranks / counts / _AT_MEDIAN
        typical = float(shares @ np.abs(scaled - shares @ scaled).sum(axis=1))
        signal = signal_of(scaled, noise[:, None], shares)
        scores = MedianScores(start.low, start.high, medians, self.scale_)
        self._calibration = Calibration.fitted(
            session, scores, typical, signal, counts, start.spread
        )

    def _shrunken(self, mean: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Return scaled means nearer to that of all rows, and how many coordinates differ from it.

        The deviation of a column within classes follows from its scale, that of all rows.
        """
        n, K = float(counts.sum()), len(counts)
        overall = (counts / n) @ mean
        between = (counts / n) @ (mean - overall) ** 2
        within = np.sqrt(np.maximum(1.0 - between, 0.0) * n / max(n - K, 1.0)) * self.scale_
        errors = np.sqrt(np.maximum(1 / counts - 1 / n, 0.0))[:, None]
        step = self.shrink_threshold * errors * (within + np.median(within)) / self.scale_
        away = mean - overall
        away = np.sign(away) * np.maximum(np.abs(away) - step, 0.0)
        return overall + away, (away != 0).sum(axis=1)
