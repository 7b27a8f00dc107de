"""Private linear discriminant analysis: `DPLinearDiscriminantAnalysis`.

A fit releases bounds, unless stated; the number of rows of each class; the means and mean squares
of the columns, unless noise would hide them; the sum of the clipped rows of each class; and the
second moment of all rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp.base.calibration import Calibration, calibration_share, signal_of, typical_lead
from skdp.base.classifiers import Floats, LabelledClassifier
from skdp.core import Session
from skdp.planning import SEMICIRCLE_EDGE, WISHART_EDGE, Allowance
from skdp.queries import LinearScores, SecondMoment, label_vectors

__all__ = ["DPLinearDiscriminantAnalysis"]

_CENTER_SHARE = 0.08
_RADIUS = 0.5  # of scaled rows, in roots of the number of columns
_TAU = 0.05


class DPLinearDiscriminantAnalysis(LabelledClassifier):
    """Classify by private class means and one private covariance for all classes.

    The private counterpart of scikit-learn's ``LinearDiscriminantAnalysis``, as a classifier.

    Parameters
    ----------
    classes : "private" or array-like of shape (n_classes,), default="private"
    bounds : "private" or tuple (low, high) or mapping, default="private"
    epsilon : float, default=1.0
    delta : float or None, default=None
    max_rows_per_unit : int or "private", default="private"
    budget : PrivacyBudget or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_, priors_ : ndarray of shape (n_classes,)
        Noisy number of rows of each class, at least 1, and its share of all rows.
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
        Columns are centred and scaled by these values before rows are clipped.
    radius_ : float
        The norm to which a centred and scaled row is clipped, in `fit` and in predictions.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
    max_rows_per_unit_ : int
    privacy_ : skdp.core.PrivacyCertificate

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if `classes` is
        private and delta is 0, if X is not a dense table of finite numbers, or if a label is
        missing.
    BudgetExceededError, SealedBudgetError, LedgerError

    See Also
    --------
    DPNearestCentroid : Without a covariance; better where rows are few.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (2% of the allowance, or 12% where rows are few); the
    means and mean squares of the columns, or the means only, unless noise would hide them (8%); the
    sum of the clipped rows of each class, and the second moment of all rows, with equal shares; and
    counts of rows by their lead, for calibration (of sensitivity 1, and 2 in L1 for replaced rows).
    *Sensitivity*, where r is the radius, first if a row is added or removed, then if one is
    replaced: of the sums in L2, r and 2 r; of the second moment, r**2 and sqrt(2) r**2 in the
    Frobenius norm, r**2 and 2 r**2 in the nuclear norm (and a little more for the constant in it).
    *Mechanism*: K-norm noise and the symmetrised Wishart mechanism, which are pure, or rounded
    Gaussian noise, whichever is less. *Charged*: at most (epsilon, delta), once, before any noise,
    to ``budget``.

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

    @property
    def _n_releases(self) -> int:
        return 5

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
        self.priors_ = counts / n
        tails = WISHART_EDGE / SEMICIRCLE_EDGE if gram.noise == "wishart" else 1.0
        edge = 2.0 * gram.std / n * math.sqrt(d) * tails
        self.noise_level_ = edge
        within = gram.second_moment / n - (mean.T * self.priors_) @ mean
        # Eigenvalues that noise hides are raised to its edge: dividing by them would amplify it.
        w, V = np.linalg.eigh((within + within.T) / 2)
        w = np.maximum(w, max(edge, 1e-9 * radius**2))
        weights = mean @ (V / w) @ V.T
        # Noise adds this to the squared length of a mean, on average.
        noise = float(np.mean(sums.std)) / counts
        lengths = np.maximum((weights * mean).sum(axis=1) - noise**2 * float((1 / w).sum()), 0.0)
        scores = LinearScores(view, weights, -lengths / 2)
        white = mean @ (V / np.sqrt(w))
        signal = max(  # in the directions that tell classes apart, or in all
            signal_of(white, noise[:, None] / np.sqrt(w), self.priors_),
            signal_of(mean, noise[:, None], self.priors_),
        )
        typical = typical_lead(white, 1.0, self.priors_)
        self._calibration = Calibration.fitted(
            session, scores, typical, signal, counts, start.spread
        )

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the logits of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            They are clipped in the same way as in `fit`.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes: the logit of the second class minus that of the first.
        """
        logits = self._scores(X)
        if logits.shape[1] == 1:  # of the shares of two classes
            return logits[:, 0]
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits
