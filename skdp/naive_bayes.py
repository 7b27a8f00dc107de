"""Private naive Bayes: `DPGaussianNB` and `DPCategoricalNB`.

A fit releases the number of rows of each class, and for each class the sums and sums of squares of
the columns (`DPGaussianNB`) or the number of rows in each category (`DPCategoricalNB`).
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from skdp.base.calibration import Calibration, calibration_share, signal_of, typical_lead
from skdp.base.classifiers import SEEN, Floats, LabelledClassifier, class_counts
from skdp.base.mixin import WEIGHT_BOUND
from skdp.core import ScaledBox, Session
from skdp.exceptions import warn_at_end
from skdp.parameters import FLAG, Reals, Table, check_size
from skdp.planning import Allowance, bounds_in
from skdp.queries import (
    Categories,
    CategoryScores,
    NormalScores,
    label_moments,
    label_vectors,
    row_counts,
)

__all__ = ["DPCategoricalNB", "DPGaussianNB"]

_MOST_CATEGORIES, _MOST_LEARNED = 2**16, 2**8  # of a column
_SMALL = 1e-10  # alpha, at least, unless it is forced
_UNIFORM = 1 / 3  # variance of a uniform column, in squares of half its width
_RESOLUTION = 2.0**-28
_HIDDEN = 0.125  # noise on class means, in half widths, above which squares are not worth theirs


class _NaiveBayes(LabelledClassifier):
    """A naive Bayes classifier."""

    weight_bound: Any = "private"

    _parameter_table: ClassVar[Table] = {"weight_bound": WEIGHT_BOUND}
    _fewest_classes = 1
    _log_constant = 0.0  # of each column, which its scores leave out

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Charge the budget and fit.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Private labels.
        sample_weight : array-like of shape (n_samples,), default=None
            ... They weigh counts and sums. With rows in one table only.
        """
        with self._all_or_nothing(groups):
            return self._fitted(X, y, sample_weight)

    def _counted(
        self, session: Session, n_classes: int, most: float | None
    ) -> tuple[Floats, float]:
        """Return the counts of the classes, at least 1 (in units of `most`), and their noise."""
        counts, spread = class_counts(session, n_classes, most)
        self.class_count_ = counts if most is None else counts * most
        return counts, spread

    def predict_joint_log_proba(self, X: ArrayLike) -> Floats:
        """Return the joint log probabilities of the caller's rows and the classes.

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
            Those of `predict_log_proba`, plus the log density of the row by the model.
        """
        logs = self.predict_log_proba(X)
        if self._constant is not None:
            return logs
        values = self._public_array(X)
        priors = self._calibration.shares if self._priors is None else self._priors
        with np.errstate(divide="ignore"):
            joint = self._calibration.scores.of_rows(values) + np.log(priors)
        density = np.logaddexp.reduce(joint, axis=1) + self._log_constant * values.shape[1]
        return np.asarray(logs + density[:, None])


class DPGaussianNB(_NaiveBayes):
    """Naive Bayes with normal columns, from private means and variances of each class.

    The private counterpart of scikit-learn's ``GaussianNB``, without ``partial_fit``.

    Parameters
    ----------
    priors : array-like of shape (n_classes,) or None, default=None
        Shares of the classes, from public knowledge; their sum is 1. None: those of the rows. They
        move the calibrated logits; predictions of rows between classes may differ from those of
        ``GaussianNB``, whose logits are not calibrated.
    var_smoothing : float, default=0.0
        Part of the largest variance of a column of X that is added to all variances.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_, class_prior_ : ndarray of shape (n_classes,)
        Noisy number of rows of each class, at least 1; `priors`, or its share of all rows.
    epsilon_ : float
        What `var_smoothing` adds to variances.
    theta_, var_ : ndarray of shape (n_classes, n_features)
        Mean and variance of each column in each class, in the units of X. No variance is smaller
        than its noise; where noise would hide most of them, all are those of uniform columns.
    theta_std_error_ : ndarray of shape (n_classes, n_features)
        Standard error of `theta_` due to noise, relative to the means of the clipped rows. NaN for
        a class of few rows, and with learned bounds.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    weight_bound_ : float or None

    See Also
    --------
    DPLogisticRegression : Usually more accurate.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (2% of the allowance; of few rows more); for each
    class, sums of u and of f (u**2 - 1/2), where u in [-1, 1] is a clipped value relative to its
    bounds.
    *Sensitivity* of the sums in L2, for d columns: sqrt(5 d / 4) with f = 1 if a row is added or
    removed, 2 sqrt(d) with f = 13/8 if one is replaced. Of the largest entries of all classes
    together, with f = 2: 1 and 2. If their noise would be more than an eighth of the rows of a
    class, the sums of u alone are released: with half the columns, pure noise is half as large.
    Last, counts of rows by their lead, for calibration: of sensitivity 1, 2 in L1 if one is
    replaced. *Mechanism*: Laplace, K-norm or rounded Gaussian noise, whichever is least.

    **Weights.** A row and its weight are protected together. A row of weight v counts v / b times
    in all counts and sums, where b is the `weight_bound` and v is clipped to [0, b], so it moves
    none of them by more than a row of weight b, which has the *sensitivity* above. The noise is as
    large as for sum(v) / b rows. Classes are selected, and bounds are learned, without weights.

    **Probabilities** are calibrated: the last 2 to 10% of the allowance release how many rows are
    right and wrong in bins of their lead. Where noise hides that, probabilities are near to the
    shares of the classes, and the label of the largest class may be predicted for every row.

    References
    ----------
    Vaidya, Shafiq, Basu & Hong 2013, "Differentially private naive Bayes classification" (counts
    and moments of each class; here with the sensitivity of one joint vector).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.naive_bayes import DPGaussianNB
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(4000) % 2
    >>> X = rng.normal(size=(4000, 2)) + 2 * y[:, None]
    >>> DPGaussianNB(classes=[0, 1], bounds=(-4, 6)).fit(X, y).score(X, y) > 0.85
    True
    """

    priors: Any = None
    var_smoothing: float = 0.0

    _parameter_table: ClassVar[Table] = {"var_smoothing": Reals(0, math.inf, "[)")}
    _normalised_priors = True
    _log_constant = -0.5 * math.log(2 * math.pi)

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        # Of sums alone, as where noise is large: they gain the most from pure noise. By the noise
        # of sums and squares, which is Gaussian from 12 columns on, the error on wine (13 columns,
        # 178 rows, epsilon 1) was .36 with a delta of 1e-6 and .24 with 0. Where there are more
        # rows, and squares, errors of both noises were equal within .01 (breast cancer, wine).
        if n_features is None:
            return math.nan
        unit = np.ones(n_features)
        return allowance.query_std(label_vectors(ScaledBox(-unit, unit), 2))

    def _fit(
        self, session: Session, public: Any, n_classes: int, most: float | None = None
    ) -> None:
        learned = self._bounds(session, public)
        low, high = self.bounds_
        counts, spread = self._counted(session, n_classes, most)
        n_rows = float(counts.sum())
        shares = counts / n_rows
        self.class_prior_ = shares if self._priors is None else self._priors
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        n, query = counts[:, None], label_moments(low, high, n_classes, most)
        share = session.remaining - calibration_share(session, n_rows, n_classes)
        if Allowance.left(session, share).query_std(query) > _HIDDEN * float(n.mean()):
            sums = session.answer(label_vectors(ScaledBox(low, high), n_classes, most), share)
            std, mean = float(np.mean(sums.std)), np.clip(sums.value / n, -1.0, 1.0)
            variance = np.full_like(mean, _UNIFORM)
        else:
            sums, squares = session.answer(query, share)
            std, mean = float(np.mean(sums.std)), np.clip(sums.value / n, -1.0, 1.0)
            square = np.clip(squares.value / n + 0.5, 0.0, 1.0)
            # A variance below its noise would make rows far from the mean all but impossible.
            noise = np.hypot(float(np.mean(squares.std)), 2.0 * mean * std)
            floor = np.clip(2 * noise / n, _RESOLUTION, _UNIFORM)
            variance = np.maximum(square - mean**2, floor)
        self.theta_ = middle + mean * half
        var = variance * half * half
        of_all = shares @ (var + (mean * half) ** 2) - (shares @ (mean * half)) ** 2
        self.epsilon_ = float(self.var_smoothing) * float(of_all.max())
        if self.epsilon_:
            var = var + self.epsilon_
            variance = np.where(half > 0, var / np.where(half > 0, half, 1.0) ** 2, variance)
        self.var_ = np.clip(np.where(var > 0, var, 1.0), 1e-300, 1e300)
        error = np.hypot(std, mean * spread) / n * half
        few = n < SEEN * spread
        unknown = few | (learned is not None)
        self.theta_std_error_ = np.where(unknown, math.nan, error)
        scores = NormalScores(low, high, self.theta_, self.var_)
        deviations = np.sqrt(shares @ variance)
        scaled = mean / deviations
        signal = signal_of(scaled, std / n / deviations, shares)
        typical = typical_lead(scaled, 1.0, shares)
        self._calibration = Calibration.fitted(
            session, scores, typical, signal, counts, spread, most
        )


def _check_categories(
    categories: Any, n_features: int, min_categories: Any = None
) -> tuple[Floats, ...] | None:
    """Return the public categories of each column, sorted, or None for learned ones; or raise."""
    if categories is None and min_categories is None:
        return None
    if min_categories is not None:
        least = np.asarray(min_categories)
        if least.ndim and least.shape != (n_features,):
            raise ValueError(
                f"'min_categories' should have shape ({n_features},), got {least.shape}: one "
                "number for each column, or one for all"
            )
        if least.dtype.kind not in "iu" or (least < 1).any() or (least > _MOST_CATEGORIES).any():
            raise ValueError(f"'min_categories' should be integers from 1 to {_MOST_CATEGORIES}")
        counted = [np.arange(size, dtype=np.float64) for size in np.broadcast_to(least, n_features)]
        if categories is None:
            return tuple(counted)
        stated = _check_categories(categories, n_features) or counted
        return tuple(map(np.union1d, stated, counted))
    text = (
        "categories must be a list with one list of distinct finite numbers for each column, from "
        "public knowledge, because those that occur in X are private. Or state min_categories"
    )
    if isinstance(categories, str) or not hasattr(categories, "__len__"):
        raise ValueError(text)
    if len(categories) != n_features:
        raise ValueError(f"{text}: got {len(categories)} for {n_features} columns")
    columns = []
    for column in categories:
        try:
            values = np.unique(np.asarray(column, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(text) from None
        if np.ndim(column) != 1 or not values.size or not np.isfinite(values).all():
            raise ValueError(text)
        columns.append(values)
    return tuple(columns)


class DPCategoricalNB(_NaiveBayes):
    """Naive Bayes with categorical columns, from private counts.

    The private counterpart of scikit-learn's ``CategoricalNB``; categories are numbers.

    Parameters
    ----------
    categories : list of array-like or None, default=None
        The categories of each column, from public knowledge. A cell with another value is ignored.
        None, without `min_categories`: the whole numbers from 0 to a learned bound, at most 255,
        for a fifth of the allowance at most; where rows are few, for up to a half.
    alpha : float, default=1.0
        Smoothing: added to each count. Besides, each class takes from all rows as many as the noise
        of its counts of a column: ``n_categories_ * category_count_std_error_``. With 0 it takes
        none, and categories whose counts noise hides are impossible.
    force_alpha : bool, default=True
        Whether alpha is used as it is; else it is 1e-10 at least.
    fit_prior : bool, default=True
        Whether the shares of the classes are those of the rows; else they are equal.
    class_prior : array-like of shape (n_classes,) or None, default=None
        Shares of the classes, from public knowledge, in place of either.
    min_categories : int, array-like of shape (n_features,) or None, default=None
        The whole numbers from 0 on, so many, are categories of each column, beside `categories`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    categories_ : list of ndarray
        The categories, sorted.
    n_categories_ : ndarray of shape (n_features,)
        How many there are in each column.
    class_count_, class_log_prior_ : ndarray of shape (n_classes,)
        Noisy number of rows of each class, at least 1, and the logarithm of its part of all, or of
        the stated share.
    category_count_ : list of ndarray of shape (n_classes, n_categories)
        Noisy counts, at least 0; one array for each column.
    category_count_std_error_ : float
        Standard error of a count before it is clipped at 0.
    feature_log_prob_ : list of ndarray of shape (n_classes, n_categories)
        Logarithms of the probabilities of the categories in each class.
    weight_bound_ : float or None

    See Also
    --------
    DPGaussianNB : For numeric columns.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and the bounds of
    categories, if not stated; the number of rows of each class (2% of the allowance; of few rows
    more); for each class and column, the number of rows with each category; counts of rows by their
    lead, for calibration. *Sensitivity* of categories, for d columns: d in L1 and sqrt(d) in L2 if
    a row is added or removed; 2 d in L1 and sqrt(2 d) in L2 if one is replaced. *Mechanism*:
    discrete Laplace or rounded Gaussian noise, whichever is less.

    **Weights.** A row and its weight are protected together. A row of weight v counts v / b times
    in all counts and sums, where b is the `weight_bound` and v is clipped to [0, b], so it moves
    none of them by more than a row of weight b, which has the *sensitivity* above. The noise is as
    large as for sum(v) / b rows. Classes are selected, and bounds are learned, without weights.

    **Probabilities** are calibrated: the last 2 to 10% of the allowance release how many rows are
    right and wrong in bins of their lead. Where noise hides that, probabilities are near to the
    shares of the classes, and the label of the largest class may be predicted for every row.

    References
    ----------
    Vaidya, Shafiq, Basu & Hong 2013, "Differentially private naive Bayes classification", section
    III.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.naive_bayes import DPCategoricalNB
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(4000) % 2
    >>> X = np.where(rng.random((4000, 3)) < 0.8, y[:, None], 2)
    >>> model = DPCategoricalNB([[0, 1, 2]] * 3, classes=[0, 1]).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    categories: Any = field(default=None, kw_only=False)
    alpha: float = 1.0
    force_alpha: bool = True
    fit_prior: bool = True
    class_prior: Any = None
    min_categories: Any = None
    bounds: Any = field(init=False)

    _parameter_table: ClassVar[Table] = {
        "alpha": Reals(0, math.inf, "[)"),
        "fit_prior": FLAG,
        "force_alpha": FLAG,
    }
    _normalised_priors = True
    _name_of_priors = "class_prior"
    _tags = ("input_tags.categorical",)

    @property
    def _stated_priors(self) -> Any:
        if self.class_prior is None and not self.fit_prior:
            return "uniform"
        return self.class_prior

    def _public(self, n_features: int) -> tuple[Floats, ...] | None:
        return _check_categories(self.categories, n_features, self.min_categories)

    def _check_size(self, n_features: int, n_classes: int) -> None:
        public = self._public(n_features)
        cells = n_features * _MOST_LEARNED if public is None else sum(map(len, public))
        check_size("classes and categories", n_classes * cells)

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        return math.nan if n_features is None else allowance.bins_std(n_features)

    def _fit(
        self, session: Session, public: Any, n_classes: int, most: float | None = None
    ) -> None:
        if public is None:
            (_, high), _ = bounds_in(session, None)
            sizes = np.clip(np.floor(high) + 1, 1, _MOST_LEARNED).astype(np.int64)
            public = tuple(np.arange(size, dtype=np.float64) for size in sizes)
        n, spread = self._counted(session, n_classes, most)
        share = session.remaining - calibration_share(session, float(n.sum()), n_classes)
        query = row_counts(Categories(public, n_classes), "categories of labels", most)
        cells = session.answer(query, share)
        self.categories_ = list(public)
        self.n_categories_ = np.array([len(column) for column in public])
        log_shares = np.log(self.class_count_ / self.class_count_.sum())
        self.class_log_prior_ = log_shares if self._priors is None else np.log(self._priors)
        cuts = np.cumsum([len(column) for column in public])[:-1]
        counts = np.split(np.maximum(cells.value, 0.0) * (most or 1.0), cuts, axis=1)
        self.category_count_ = counts
        self.category_count_std_error_ = float(np.mean(cells.std)) * (most or 1.0)
        alpha = float(self.alpha)
        if alpha < _SMALL and not self.force_alpha:
            alpha = _SMALL
            warn_at_end(
                f"alpha too small will result in numeric errors, setting alpha = {alpha:.1e}. Use "
                "force_alpha=True to keep alpha unchanged."
            )
        smoothed = [column + alpha for column in counts]
        if alpha:
            # Else a category that noise hides in one class would rule that class out.
            noise = self.category_count_std_error_
            parts = [column / column.max() for column in smoothed]
            of_all = [part.sum(axis=0) / part.sum() for part in parts]
            smoothed = [c + noise * len(o) * o for c, o in zip(smoothed, of_all, strict=True)]
        totals = [np.maximum(c.sum(axis=1, keepdims=True), 1e-300) for c in smoothed]
        self.feature_log_prob_ = [np.log(c / n) for c, n in zip(smoothed, totals, strict=True)]
        logs = self.feature_log_prob_
        scores = CategoryScores(public, tuple(np.maximum(log, -1e300) for log in logs))
        # Shares of categories over the root of those of all rows: their squared distances between
        # classes are about those of logarithms. Counts below 0 are as they are, so as not to have
        # less noise than is subtracted.
        shares = np.exp(log_shares)
        overall = shares @ np.exp(np.hstack(logs))
        roots = np.sqrt(np.where(overall > 0, overall, 1 / n.sum()))  # 0 without smoothing alone
        scaled, within = np.exp(np.hstack(logs)) / roots, n[:, None] * roots
        noise = float(np.mean(cells.std)) / within
        signal = signal_of(cells.value.reshape(n_classes, -1) / within, noise, shares)
        typical = typical_lead(scaled, 1.0, shares)
        self._calibration = Calibration.fitted(session, scores, typical, signal, n, spread, most)
