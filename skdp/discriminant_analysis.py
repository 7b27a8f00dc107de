"""Private linear discriminant analysis: `DPLinearDiscriminantAnalysis`.

A fit releases bounds, unless stated; the number of rows of each class; the means and mean squares
of the columns, unless noise would hide them; the sum of the clipped rows of each class; and the
second moment of all rows.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone

from skdp.base.batch_invariant import products
from skdp.base.calibration import Calibration, calibration_share, signal_of, typical_lead
from skdp.base.classifiers import DistanceClassifier, Floats
from skdp.core import Session
from skdp.parameters import Integers, Reals, Table
from skdp.planning import SEMICIRCLE_EDGE, WISHART_EDGE, Allowance
from skdp.queries import LinearScores, SecondMoment, label_vectors

__all__ = ["DPLinearDiscriminantAnalysis"]

_CENTER_SHARE = 0.08
_RADIUS = 0.5  # of scaled rows, in roots of the number of columns
_TAU = 0.05


class DPLinearDiscriminantAnalysis(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DistanceClassifier
):
    """Classify by private class means and one private covariance for all classes.

    The private counterpart of scikit-learn's ``LinearDiscriminantAnalysis``.

    Parameters
    ----------
    shrinkage : float in [0, 1], "auto" or None, default=None
        Replace this part of the covariance, in the units of X, by the mean of its variances in all
        directions. ``"auto"`` takes the part from the released covariance, of scaled columns, and
        the number of rows (oracle approximating shrinkage).
    priors : array-like of shape (n_classes,) or None, default=None
        Shares of the classes, from public knowledge. None: those of the rows.
    n_components : int or None, default=None
        Number of columns that `transform` returns, at most ``min(n_classes - 1, n_features)``,
        which None stands for.
    covariance_estimator : covariance estimator or None, default=None
        In place of `shrinkage`: it is fitted to made-up rows that have the released covariance. So
        it must depend on the covariance of rows alone, as ``ShrunkCovariance`` and
        ``GraphicalLasso`` do.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_, priors_ : ndarray of shape (n_classes,)
        Noisy number of rows of each class, at least 1; `priors`, or its share of all rows.
    covariance_ : ndarray of shape (n_features, n_features)
        Covariance of the rows within classes, raised where noise hides it.
    xbar_ : ndarray of shape (n_features,)
        Mean of `means_`, weighted by `priors_`.
    scalings_ : ndarray of shape (n_features, n_directions)
        Directions that `transform` projects on. The covariance within classes is 1 along each.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Part of the variance of the projected means along each direction.
    coef_, intercept_ : ndarray of shape (n_classes, n_features) and (n_classes,)
        The linear discriminants before they are calibrated; for two classes their difference.
    means_ : ndarray of shape (n_classes, n_features)
        Means of the rows of each class, clipped to `bounds_` and shortened to `radius_`, in the
        units of X.
    means_std_error_ : ndarray of shape (n_classes, n_features)
        Standard error of `means_` due to noise, relative to the means of all rows of the class,
        clipped to `bounds_` only. It is to first order in the noise of the counts. NaN if rows are
        shortened (see Notes), with learned bounds, and for a class of few rows.
    noise_level_ : float
        Noise hides the eigenvalues of the shared covariance of scaled rows that are below this
        level. They are raised to it.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    center_, scale_ : ndarray of shape (n_features,)
    radius_ : float

    See Also
    --------
    DPNearestCentroid : Without a covariance; better where rows are few.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (2% of the allowance; of few rows more); the
    means and mean squares of the columns, or the means only, unless noise would hide them (8%); the
    sum of the clipped rows of each class, and the second moment of all rows, with equal shares; and
    counts of rows by their lead, for calibration (of sensitivity 1, and 2 in L1 for replaced rows).
    *Sensitivity*, where r is the radius, first if a row is added or removed, then if one is
    replaced: of the sums in L2, r and 2 r; of the second moment, r**2 and sqrt(2) r**2 in the
    Frobenius norm, r**2 and 2 r**2 in the nuclear norm (and a little more for the constant in it).
    *Mechanism*: K-norm noise and the symmetrised Wishart mechanism, which are pure, or rounded
    Gaussian noise, whichever is less.

    **Probabilities** are calibrated: the last 2 to 10% of the allowance release how many rows are
    right and wrong in bins of their lead. Where noise hides that, probabilities are near to the
    shares of the classes, and the label of the largest class may be predicted for every row.

    **Clipping.** If noise is small enough, `radius_` is so large that no row within the bounds
    exceeds it. Otherwise it is about half the norm of typical rows, and longer rows are shortened,
    so that their means are nearer to `center_`: this separates classes as well, with less noise.

    References
    ----------
    Fisher 1936, "The use of multiple measurements in taxonomic problems".

    Dwork, Talwar, Thakurta & Zhang 2014, "Analyze Gauss", Algorithm 1 (here with isotropic noise).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(9000) % 3
    >>> X = rng.normal(size=(9000, 2)) + 4 * np.eye(3, 2)[y]
    >>> model = DPLinearDiscriminantAnalysis(classes=[0, 1, 2], bounds=(-4, 8), delta=1e-6)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    shrinkage: Any = None
    priors: Any = None
    n_components: int | None = None
    covariance_estimator: Any = None

    _parameter_table: ClassVar[Table] = {
        "shrinkage": ("auto", None, Reals(0, 1)),
        "n_components": (None, Integers(1)),
    }

    @property
    def _n_releases(self) -> int:
        return 5

    def _check_size(self, n_features: int, n_classes: int) -> None:
        super()._check_size(n_features, n_classes)
        most = n_features if self._learns_classes else min(n_features, n_classes - 1)
        if self.n_components is not None and self.n_components > most:
            raise ValueError("n_components cannot be larger than min(n_features, n_classes - 1).")
        if self.covariance_estimator is not None:
            if self.shrinkage is not None:
                raise ValueError(
                    "covariance_estimator and shrinkage parameters are not None. Only one of the "
                    "two can be set."
                )
            if not hasattr(self.covariance_estimator, "fit"):
                raise TypeError("covariance_estimator must have fit, and then covariance_")
            self._estimated(np.eye(n_features))  # raises what it raises before the charge

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        return math.nan if n_features is None else allowance.part(1 / 2).gram_std(n_features)

    def _fit(self, session: Session, public: Any, n_classes: int) -> None:
        start = self._started(session, public, n_classes, _CENTER_SHARE)
        d, n, counts = start.low.size, start.n, start.counts
        share = session.remaining - calibration_share(session, start.n, n_classes)
        start = replace(start, allowance=Allowance.left(session, share))
        view = start.view(start.radius(_RADIUS, 1 / 2))
        radius = self.radius_ = view.radius
        sums = session.answer(label_vectors(view, n_classes), share / 2)
        gram = session.answer(SecondMoment(view, _TAU), share / 2)
        mean, self.means_, self.means_std_error_ = start.means(sums, view)
        shares = counts / n
        self.priors_ = shares if self._priors is None else self._priors
        tails = WISHART_EDGE / SEMICIRCLE_EDGE if gram.noise == "wishart" else 1.0
        edge = 2.0 * gram.std / n * math.sqrt(d) * tails
        self.noise_level_ = edge
        within = gram.second_moment / n - (mean.T * shares) @ mean
        # Eigenvalues that noise hides are raised to its edge: dividing by them would amplify it.
        w, V = np.linalg.eigh((within + within.T) / 2)
        w = np.maximum(w, max(edge, 1e-9 * radius**2))
        w, V = self._regularised(w, V, n)
        weights = mean @ (V / w) @ V.T
        # Noise adds this to the squared length of a mean, on average.
        noise = float(np.mean(sums.std)) / counts
        lengths = np.maximum((weights * mean).sum(axis=1) - noise**2 * float((1 / w).sum()), 0.0)
        scores = LinearScores(view, weights, -lengths / 2)
        white = mean @ (V / np.sqrt(w))
        self._set_directions((V * w) @ V.T, V / np.sqrt(w), white, weights, -lengths / 2)
        signal = max(  # in the directions that tell classes apart, or in all
            signal_of(white, noise[:, None] / np.sqrt(w), shares),
            signal_of(mean, noise[:, None], shares),
        )
        typical = typical_lead(white, 1.0, shares)
        self._calibration = Calibration.fitted(
            session, scores, typical, signal, counts, start.spread
        )

    def _fit_constant(self, session: Session, n_classes: int, most: float | None = None) -> None:
        super()._fit_constant(session, n_classes, most)
        largest = max(min(n_classes - 1, self.n_features_in_), 0)
        size = largest if self.n_components is None else min(self.n_components, largest)
        self.explained_variance_ratio_ = np.zeros(size)

    def _estimated(self, covariance: Floats) -> Floats:
        """Return what `covariance_estimator` makes of rows with this covariance and mean 0."""
        w, V = np.linalg.eigh(covariance)
        half = np.sqrt(len(w) * np.maximum(w, 0.0))[:, None] * V.T
        estimator = self.covariance_estimator
        estimator = clone(estimator) if hasattr(estimator, "get_params") else copy(estimator)
        estimator.fit(np.concatenate([half, -half]))
        return np.asarray(estimator.covariance_, dtype=np.float64)

    def _regularised(self, w: Floats, V: Floats, n: float) -> tuple[Floats, Floats]:
        """Return the eigenvalues and directions of the covariance after shrinkage."""
        part, d = self.shrinkage, len(w)
        if part is None and self.covariance_estimator is None:
            return w, V
        units = np.outer(self.scale_, self.scale_)
        covariance = (V * w) @ V.T
        if part is None:
            covariance = self._estimated(covariance * units) / units
        elif part == "auto":  # Chen, Wiesel, Eldar & Hero 2010, equation 23
            squares, mean = float(np.square(w).mean()), float(w.mean())
            part = min((squares + mean**2) / ((n + 1) * max(squares - mean**2 / d, 1e-300)), 1.0)
            covariance = (1 - part) * covariance + part * mean * np.eye(d)
        else:
            part, covariance = float(part), covariance * units
            mean = float(np.trace(covariance)) / d
            covariance = ((1 - part) * covariance + part * mean * np.eye(d)) / units
        least = w.min()
        w, V = np.linalg.eigh((covariance + covariance.T) / 2)
        return np.maximum(w, least), V

    def _set_directions(
        self, within: Floats, whitening: Floats, white: Floats, weights: Floats, offsets: Floats
    ) -> None:
        """Set the attributes in the units of X, from scaled rows."""
        scale, priors = self.scale_, self.priors_
        self.covariance_ = within * np.outer(scale, scale)
        self.xbar_ = priors @ self.means_
        between = np.sqrt(priors)[:, None] * (white - priors @ white)
        _, lengths, directions = np.linalg.svd(between, full_matrices=False)
        most = min(len(priors) - 1, len(scale))
        self.scalings_ = (whitening / scale[:, None]) @ directions[:most].T
        size = most if self.n_components is None else min(self.n_components, most)
        squares = np.square(lengths[:most])
        self.explained_variance_ratio_ = squares[:size] / max(float(squares.sum()), 1e-300)
        coef = weights / scale
        with np.errstate(divide="ignore"):
            intercept = offsets - coef @ self.center_ + np.log(priors)
        if len(priors) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_, self.intercept_ = coef, intercept

    @property
    def _n_features_out(self) -> int:
        return len(self.explained_variance_ratio_)

    def transform(self, X: ArrayLike) -> Floats:
        """Project the caller's rows on the directions that separate the classes.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            They are clipped to `bounds_`. If they are private, so is the result.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
            0 where a fit has only the shares of the classes.
        """
        values = self._public_array(X)
        if self._constant is not None:
            return np.zeros((len(values), self._n_features_out))
        directions = self.scalings_[:, : self._n_features_out].T
        return products(np.clip(values, *self.bounds_) - self.xbar_, directions)
