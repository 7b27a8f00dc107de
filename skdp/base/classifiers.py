"""Base classes of classifiers and regressors: fits of labelled rows, predictions, scores.

A fit releases bounds, class counts, centers and scales of the columns. Its plan depends on public
and released numbers only. With `most`, the public bound of weights, a row counts weight / most.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._docstrings import shared_texts
from skdp.base.expected_error import TargetErrorMixin
from skdp.base.mixin import PrivateMixin, weighted_rows
from skdp.core import Box, Mean, ScaledBox, Session
from skdp.exceptions import warn_at_end, warn_caller
from skdp.parameters import check_bounds, check_classes, check_size, naming
from skdp.planning import Allowance, bounds_in, learned_before, row_count, weight_bound_in
from skdp.queries import (
    Labels,
    LearnedBounds,
    LearnedBox,
    OfColumn,
    Quantiles,
    StandardBall,
    joined_box,
    label_vectors,
    moments,
    row_counts,
    select_classes,
    softmax,
)
from skdp.tabular import (
    Rows,
    check_labelled,
    check_unselected,
    check_with_target,
    dense_blocks,
)
from skdp.user_code import or_raise, suppress_warnings

# --- centers, scales and counts of classes --------------------------------------------------------

Floats = NDArray[np.float64]

COUNT_SHARE = 0.02
# The most noise of a class count, in mean counts; with more, counts are released again, for what
# brings it there, at most this part. (With .7 of few rows, log losses are nearer to those of shares
# at n epsilon 500, but the order of rows is lost: digits at 1,400.)
_NOISE_OF_COUNTS, _MOST_OF_COUNTS = 0.05, 0.25
_CENTER_USEFUL = 1.0  # noise of the mean of all columns' means, in half widths
_REACH = 4.0  # scales from the mean of a column to its narrower bounds
_USEFUL = 0.1  # noise of a column's mean square, in squares of half its width
_CLEAR = 4.0  # times the least variance that is not hidden
_SHORTEST = 1e-3  # least norm of rows, in scales: those of constant columns


@dataclass(frozen=True)
class Standard:
    """Center and positive scale of the columns (d,), in the units of X.

    `spread` is the noisy trace of the covariance of standardised rows; NaN if it is not known.
    `hidden` says of which columns the scale is that of the noise, if that is known, and `clear` of
    which it is not near that.
    """

    center: Floats
    scale: Floats
    spread: float
    hidden: NDArray[np.bool_] | None = None
    clear: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1, dtype=bool))

    def reach(self, low: Floats, high: Floats) -> float:
        """Return the largest norm of a centred and scaled row within bounds."""
        with np.errstate(over="ignore"):
            far = np.maximum(high - self.center, self.center - low) / self.scale
            return max(float(np.linalg.norm(far)), _SHORTEST)


def standardised(
    session: Session,
    allowance: Allowance,
    low: Floats,
    high: Floats,
    n: float,
    share: float,
    *,
    again: bool = False,
    most: float | None = None,
) -> Standard:
    """Release means and mean squares; if noise would hide them, return the middle of the bounds.

    With `again`, columns whose variance wide bounds hide, or nearly, are measured once more in
    narrower ones. Only for estimators that also clip rows in predictions: the scale of a column of
    rare values may come out far too small.
    """
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    flat = half <= 0
    error = allowance.part(share).moments_std(low.size) / n if share else math.inf
    if error > _USEFUL:
        # The scale of a uniform column.
        return Standard(middle, np.where(flat, 1.0, half / math.sqrt(3)), math.nan)
    standard = _measured(session, low, high, error, share, most)
    center, reach = standard.center, _REACH * standard.scale
    narrow = ~standard.clear & (reach < half / _REACH)
    if again and narrow.any():
        low = np.where(narrow, np.maximum(low, center - reach), low)
        high = np.where(narrow, np.minimum(high, center + reach), high)
        standard = _measured(session, low, high, error, share, most)
    return standard


def _measured(
    session: Session,
    low: Floats,
    high: Floats,
    error: float,
    share: float,
    most: float | None,
) -> Standard:
    """Release means and mean squares of the columns."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    flat = half <= 0
    mean, square, _ = session.answer(moments(low, high, most), share)
    variance = np.maximum(square.value - mean.value**2, 0.0)
    least = max(2 * error, 2.0**-24)  # a variance counts as at least twice its noise
    floored = np.clip(variance, least, 1.0)
    scale = np.sqrt(floored) * half
    scale = np.where(flat | (scale < 1e-290), 1.0, scale)
    spread = float((variance / floored)[~flat].sum())
    hidden, clear = ~flat & (variance <= least), ~flat & (variance > _CLEAR * least)
    return Standard(middle + mean.value * half, scale, spread, hidden, clear)


def label_counts(n_classes: int, most: float | None) -> Any:
    """Return the query of the rows of each class, or of their weights."""
    name = "counts of labels" if most is None else "weights of labels"
    return row_counts(Labels(n_classes), name, most)


def class_counts(
    session: Session, n_classes: int, most: float | None = None
) -> tuple[Floats, float]:
    """Return the number of rows of each class, at least 1, and the noise of a count."""
    query = label_counts(n_classes, most)
    first = session.answer(query, COUNT_SHARE)
    counts, std = np.array(first.value), float(first.std)
    noisy = std / (_NOISE_OF_COUNTS * max(float(counts.sum()), 1.0) / n_classes)
    if noisy > 1.0:
        wanted = COUNT_SHARE * (noisy if session.pure else noisy**2)
        # Of what remains: learning may have taken much.
        share = min(wanted, _MOST_OF_COUNTS * float(session.remaining))
        second = session.answer(query, share, name="counts of labels, again")
        # The mean of both, weighted by the inverse variances.
        part = std**2 / (std**2 + float(second.std) ** 2)
        counts = counts + part * (second.value - counts)
        std *= float(second.std) / math.hypot(std, float(second.std))
    return np.maximum(counts, 1.0), std


def standard_for_classes(
    session: Session,
    allowance: Allowance,
    low: Floats,
    high: Floats,
    n: float,
    part: float,
    most: float | None = None,
) -> Standard:
    """Return center and scale of the columns, for a part of the remaining allowance."""
    share = part * float(session.remaining)
    standard = standardised(session, allowance, low, high, n, share, again=True, most=most)
    if math.isfinite(standard.spread):
        return standard
    means = Mean(ScaledBox(low, high), weight_bound=most)
    if allowance.part(share).query_std(means) / n / math.sqrt(low.size) > _CENTER_USEFUL:
        return standard
    # Means alone have less noise; those of many columns are useful together.
    release = session.answer(means, share)
    mean = _shrunk(release.value, float(np.mean(release.std)))
    return Standard(standard.center + mean * (high / 2 - low / 2), standard.scale, math.nan)


def _shrunk(mean: Floats, std: float) -> Floats:
    """Shrink noisy means of columns towards their own mean, by the rule of James and Stein."""
    if mean.size < 4:
        return mean
    middle = mean.mean()
    away = mean - middle
    shrinkage = max(0.0, 1.0 - (mean.size - 3) * std**2 / max(float(away @ away), 1e-300))
    return np.clip(middle + shrinkage * away, -1.0, 1.0)


# --- classifiers ----------------------------------------------------------------------------------

_NOT_SCORED = (
    "score: y must have one entry for each row of X, in one dimension: labels of the type of "
    "classes_, or finite numbers. sample_weight, if it is given, must be as many finite numbers"
)
_LARGEST = 1e150  # learned bound: its square stays finite
# Rows are not clipped if the noise of a class mean (in scales), and the spectral edge of the noise
# of a covariance, are below these.
_WHOLE_NOISE, _WHOLE_EDGE = 0.02, 0.05
CLASSES_SHARE = 0.1  # of the allowance, for selecting classes
# Further looks while fewer than two classes are found. What is left then is for class counts.
_MORE_LOOKS = (0.4, 0.45)
_ENOUGH_LEFT = 0.4  # of the allowance, for a fit
SEEN = 10.0  # a class has a standard error if its count is above this many of its deviations


def finite_squares(bounds: Iterable[Floats]) -> tuple[Floats, Floats]:
    """Return learned bounds, clipped so that their squares are finite."""
    low, high = (np.clip(side, -_LARGEST, _LARGEST) for side in bounds)
    return low, high


def check_priors(
    priors: Any, classes: NDArray | None, *, normalised: bool, name: str = "priors"
) -> Any:
    """Return stated shares of classes as an array, "uniform", or None; or raise.

    `normalised` says that they are refused where their sum is not 1; else they are divided by it,
    with a warning. `name` is that of the parameter.
    """
    if priors is None or (isinstance(priors, str) and priors == "uniform"):
        return priors
    with naming(name):
        values = np.asarray(priors, dtype=np.float64)
    if classes is None:
        raise ValueError(f"{name} needs classes, in the order of which it is: state both")
    if values.shape != classes.shape:
        raise ValueError(
            f"Number of priors must match number of classes: {name} has shape {values.shape}, and "
            f"there are {len(classes)} classes"
        )
    total = values.sum()
    if not (values >= 0).all() or not 0 < total < np.inf:
        word = "Priors" if normalised else name
        raise ValueError(f"{word} must be non-negative, finite and not all 0: see {name}")
    if not np.isclose(total, 1.0):
        if normalised:
            raise ValueError(f"The sum of the priors should be 1. See {name}")
        warn_caller(
            "The priors do not sum to 1. Normalizing such that it sums to one.",
        )
        values = values / total
    return values.copy()


def warn_of_column(y: Any) -> None:
    """Warn as scikit-learn does if y has two dimensions."""
    shape = getattr(y, "shape", None)
    if isinstance(shape, tuple) and shape[1:] == (1,):
        warn_caller(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
        )


_OF_EVERY_FIT = {
    "classes_", "feature_names_in_", "max_rows_per_unit_", "n_features_in_", "weight_bound_",
}  # fmt: skip
_NO_DELTA = (
    "{0}: classes must be given{1} if delta is 0: all class labels, from public knowledge, because "
    "which labels occur in y is private: {0}(classes=[...]). With {0}(delta=1e-6), or a budget "
    "with delta, budget=PrivacyBudget(5, 1e-5), the labels that enough rows have are selected "
    "privately. In a private search state the delta, or the budget, of the search"
)
_NO_SPARSE = (
    "{}: classes must be given for a sparse X, because they are selected privately from the labels "
    "of dense rows only: classes=[...], or X.toarray()"
)
_FEW_CLASSES = (
    "{}: with all of the allowance, {} class(es) had enough rows to be selected. State them, "
    "classes=[...], or take a larger epsilon or delta; for a y of many different numbers, take a "
    "regressor"
)
_SHARES_ONLY = (
    "{}: its {} classes were found with nearly all of the allowance, so their shares are all that "
    "is predicted. State them, classes=[...], or take a larger epsilon or delta"
)
_SHARES_OF_FEW = (
    "{}: rows times epsilon are so few that only the shares of its {} classes are predicted. State "
    "bounds, or take more rows or a larger epsilon"
)
_NO_CLASS = (
    "{}: no class had enough rows to be selected, so every predicted label is missing. State them, "
    "classes=[...], or take a larger epsilon or delta; for a y of many different numbers, take a "
    "regressor"
)


@dataclass(frozen=True)
class Start:
    """The releases of `LabelledClassifier._started`, and the remaining allowance.

    `counts` are those of classes, `spread` is the noise of each and `n` their sum.
    """

    low: Floats
    high: Floats
    learned: LearnedBox | None
    counts: Floats
    spread: float
    n: float
    standard: Standard
    allowance: Allowance

    @property
    def reach(self) -> float:
        """The largest norm of a centred and scaled row within the bounds."""
        return self.standard.reach(self.low, self.high)

    def radius(self, short: float, part: float = 1.0) -> float:
        """Return the norm to which rows are clipped: `reach` if noise is small, else a short one.

        The short norm is `short` times the root of the number of columns. Sums of classes take
        `part` of the allowance, a second moment the remaining part.
        """
        d, n_classes, reach = self.low.size, len(self.counts), self.reach
        sums, rest = self.allowance.part(part), self.allowance.part(1.0 - part)
        if not (math.isfinite(self.standard.spread) and math.isfinite(reach)):
            return short * math.sqrt(d)
        vectors = label_vectors(self.view(reach), n_classes)
        noise = sums.query_std(vectors) * n_classes / self.n
        edge = 0.0
        if part < 1.0:
            edge = rest.spectral_edge(d, rest.gram_noise("auto", d)) * reach**2 / self.n
        quiet = noise <= _WHOLE_NOISE and edge <= _WHOLE_EDGE
        return reach if quiet else short * math.sqrt(d)

    def view(self, radius: float) -> StandardBall:
        """Return the map of rows to a ball."""
        return StandardBall(self.low, self.high, self.standard.center, self.standard.scale, radius)

    def means(self, sums: Any, view: StandardBall) -> tuple[Floats, Floats, Floats]:
        """Return the means of classes, in units of the view and of X, and their standard errors.

        The errors are relative to the means of the rows within the bounds. They are NaN for learned
        bounds, for rows that the view clips, and for classes of few rows.
        """
        counts = self.counts[:, None]
        mean = sums.value / counts
        # The mean of vectors in a ball is in the ball.
        length = np.linalg.norm(mean, axis=1, keepdims=True)
        mean = mean * np.minimum(1.0, view.radius / np.maximum(length, 1e-300))
        error = np.hypot(float(np.mean(sums.std)), mean * self.spread) / counts
        error = np.hypot(error, view.grid[0] / 2)  # equal cells are rounded alike
        unknown = counts < SEEN * self.spread
        unknown |= self.learned is not None or view.radius < self.reach
        scale = self.standard.scale
        return mean, self.standard.center + mean * scale, np.where(unknown, math.nan, error * scale)


@shared_texts
class ExactScoreMixin:
    """A score of any rows, computed by scikit-learn, whose errors would quote labels or targets."""

    predict: Callable[[Any], NDArray]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy (classifiers) or R squared (regressors) on the caller's rows."""
        predicted = self.predict(X)
        if not len(getattr(self, "classes_", "?")):
            return 0.0  # missing labels are right for no row
        measure = accuracy_score if is_classifier(self) else r2_score
        with suppress_warnings():  # a bad target would decide whether there is a warning
            return float(
                or_raise(
                    lambda: measure(y, predicted, sample_weight=sample_weight),
                    lambda: ValueError(_NOT_SCORED),
                )
            )


class StatedClasses(TargetErrorMixin):
    """Class labels that are stated, or selected privately for half of delta."""

    classes: Any = field(init=False)

    _fewest_classes: ClassVar[int] = 2  # that may be stated

    @property
    def _learns_classes(self) -> bool:
        return isinstance(self.classes, str) and self.classes == "private"

    @property
    def _learns(self) -> bool:
        return self._learns_classes

    @property
    def _n_releases(self) -> int:
        return 2  # the number of rows of each class, too

    def _noise_compared(self, allowance: Allowance, n_features: int | None) -> float:
        # In the small share of classes Gaussian noise shows those of half as many rows.
        return math.nan if self._learns_classes else super()._noise_compared(allowance, n_features)

    def _check_classes(self) -> NDArray | None:
        """Return the stated class labels, sorted, or None for private ones; or raise."""
        if not self._learns_classes:
            return check_classes(self.classes, self._fewest_classes)
        if not self._allowed_delta:
            classifier = " for a classifier" if is_classifier(self) else ""
            raise ValueError(_NO_DELTA.format(type(self).__name__, classifier))
        return None

    def _known(self, y: NDArray) -> dict[str, Any]:
        return {"classes": check_classes(np.unique(y))} if self._learns_classes else {}


_SLICE = 2**12  # rows that are predicted at once


class LabelledClassifier(ExactScoreMixin, ClassifierMixin, StatedClasses, BaseEstimator, ABC):
    """A classifier: a fit of labelled rows, and predictions from logits."""

    classes: Any = "private"
    bounds: Any = "private"

    _in_parts = True
    _priors: Floats | None = None  # stated shares of the classes
    _shift: Floats | None = None  # what they add to logits
    _normalised_priors: ClassVar[bool] = False  # whether they must sum to 1
    _name_of_priors: ClassVar[str] = "priors"
    _takes_sparse: ClassVar[bool] = False

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None) -> Self:
        """Charge the budget and fit.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Private labels.
        """
        with self._all_or_nothing(groups):
            return self._fitted(X, y)

    def _fitted(self, X: Any, y: Any, weights: Any = None) -> Self:
        """Fit rows with labels; `_fit` gets the bound of weights, if there are any."""
        classes = self._check_classes()
        rows = self._open_labelled(X, y, classes)
        rows, most = weighted_rows(self, rows, weights)
        public = self._public(rows.n_features)
        priors = check_priors(
            self._stated_priors,
            classes,
            normalised=self._normalised_priors,
            name=self._name_of_priors,
        )
        self._check_size(rows.n_features, 2 if classes is None else len(classes))
        with self._session(rows) as session, np.errstate(all="ignore"):
            options = {}
            if most is not None:
                self.weight_bound_ = options["most"] = weight_bound_in(session, most)
            if classes is None and (classes := rows.boolean_labels()) is not None:
                session.code_rows(classes)
            if classes is None:
                classes = session.answer(select_classes(CLASSES_SHARE, *_MORE_LOOKS))
            self.classes_ = classes
            uniform = np.full(len(classes), 1.0 / max(len(classes), 1))
            self._priors = uniform if isinstance(priors, str) else priors
            self._constant: Floats | None = None
            fewest = 2 if self._learns_classes else self._fewest_classes
            if session.remaining > _ENOUGH_LEFT and len(classes) >= fewest:
                self._fit(session, public, len(classes), **options)
            else:
                self._forget()
                self._fit_constant(session, len(classes), options.get("most"))
            self._shift = self._shift_to(self._priors)
        if self._constant is not None:  # decided by what is released, so a warning may tell it
            text = _FEW_CLASSES if len(classes) < 2 else _SHARES_ONLY
            if hasattr(self, "bounds_"):
                text = _SHARES_OF_FEW
            text = text.format(type(self).__name__, len(classes))
            warn_at_end(text)
        return self

    def _fit_constant(self, session: Session, n_classes: int, most: float | None = None) -> None:
        """Predict the shares of the classes, for which enough of the allowance is left."""
        self._constant = np.zeros(1)
        if n_classes > 1:
            released = session.answer(label_counts(n_classes, most))
            counts = np.maximum(released.value, 1.0)
            self.class_count_ = counts if most is None else counts * most
            # Shares that noise hides are shrunk to equal ones: a class with a noisy 0 may be large.
            logs = np.log(counts + float(released.std))
            self._constant = logs[1:] - logs[:1] if n_classes == 2 else logs

    @property
    def _stated_priors(self) -> Any:
        """The stated shares of the classes, "uniform", or None for those of the rows."""
        return getattr(self, "priors", None)

    def _shift_to(self, priors: Floats | None) -> Floats | None:
        """Return what stated shares of the classes add to logits, by Bayes' rule."""
        if priors is None or len(priors) < 2:
            return None
        counted = self._constant is None
        shares = self._calibration.shares if counted else self.class_count_
        logs = np.log(priors) - np.log(shares / shares.sum())
        return logs[1:] - logs[:1] if len(logs) == 2 else logs

    def _forget(self) -> None:
        """Drop the attributes of an earlier fit that this one does not set."""
        fitted = {name for name in vars(self) if name.endswith("_") and not name.startswith("_")}
        for name in fitted - _OF_EVERY_FIT:
            delattr(self, name)

    @abstractmethod
    def _fit(self, session: Session, public: Any, n_classes: int) -> None:
        """Release, and set the fitted attributes; `public` is what `_public` returns."""

    def _logits(self, X: Any) -> Floats:
        """Return the logits of rows: (n, n_classes), or (n, 1) for the second of two."""
        values = self._public_array(X)
        starts = range(0, max(len(values), 1), _SLICE)
        with np.errstate(all="ignore"):
            return np.concatenate([self._logits_of(values[i : i + _SLICE]) for i in starts])

    def _logits_of(self, rows: Floats) -> Floats:
        """Return the logits of a slice of rows, each decided by its row alone."""
        logits: Floats = self._calibration.of_rows(rows)
        return logits

    def _scores(self, X: Any) -> Floats:
        """Return the logits of rows; equal ones where a fit has only the shares of classes."""
        if self._takes_sparse and sparse.issparse(X):
            check_is_fitted(self)
            return np.concatenate([self._scores(block) for block in dense_blocks(X)])
        constant = getattr(self, "_constant", None)
        if constant is None:
            logits = self._logits(X)
        else:
            logits = np.tile(constant, (len(self._public_array(X)), 1))
        return logits if self._shift is None else logits + self._shift

    def _public(self, n_features: int) -> Any:
        """Return what is stated of the columns (their bounds), or raise before the charge."""
        return self._stated_bounds(n_features)

    def _bounds(self, session: Session, stated: Any, most: float = 0.3) -> LearnedBox | None:
        """Set `bounds_` to stated or learned bounds; return the learned box."""
        self.bounds_, learned = bounds_in(session, stated, most=most)
        if learned is not None:
            self.bounds_ = finite_squares(self.bounds_)
        return learned

    def _started(
        self, session: Session, stated: Any, n_classes: int, part: float, most: float | None = None
    ) -> Start:
        """Release bounds, class counts, and for a part of the rest centers and scales."""
        learned = self._bounds(session, stated)
        low, high = self.bounds_
        allowance = Allowance.left(session, 1.0)
        counts, spread = class_counts(session, n_classes, most)
        n = float(counts.sum())
        standard = standard_for_classes(session, allowance, low, high, n, part, most)
        self.class_count_ = counts if most is None else counts * most
        self.center_, self.scale_ = standard.center, standard.scale
        return Start(low, high, learned, counts, spread, n, standard, Allowance.left(session))

    def _check_size(self, n_features: int, n_classes: int) -> None:
        """Refuse what makes the fitted attributes too large."""
        check_size("classes", n_classes * (n_features + 1))

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        self._check_classes()

    def _open_labelled(self, X: Any, y: Any, classes: NDArray | None) -> Rows:
        """Check parameters, rows and labels, and record names and number of columns."""
        self._check_parameters()
        if classes is None:
            if self._takes_sparse and sparse.issparse(X):
                raise ValueError(_NO_SPARSE.format(type(self).__name__))
            rows = check_unselected(X, y, **self._entrance)
        else:
            options: Any = {"one_place": self._one_place(), "takes_sparse": self._takes_sparse}
            rows = check_labelled(X, y, classes=classes, **options, **self._entrance)
        validate_data(self, getattr(rows, "head", X), skip_check_array=True)
        warn_of_column(y)
        return rows

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probabilities of the classes, in the order of `classes_`."""
        logits = self._scores(X)
        if len(self.classes_) < 2:
            return np.ones((len(logits), len(self.classes_)))
        chances = softmax(logits)
        return np.hstack([1.0 - chances, chances]) if chances.shape[1] == 1 else chances

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithms of `predict_proba`, -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the labels of the caller's rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            NaN, with a warning, if no class had enough rows to be selected.
        """
        logits = self._scores(X)
        if len(self.classes_) == 0:
            warn_caller(_NO_CLASS.format(type(self).__name__))
            return np.full(len(logits), np.nan)
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, len(logits))
        if logits.shape[1] == 1:
            return self.classes_[(logits[:, 0] > 0).astype(np.int64)]
        return self.classes_[logits.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse and not self._learns_classes
        return tags

    def _distance(self, fit: Any, exact: Any, X: Floats) -> float:
        if not len(fit.classes_):
            return 1.0
        return float(np.mean(fit.predict(X) != exact.predict(X)))


class DistanceClassifier(LabelledClassifier):
    """A classifier by distances to the means of classes."""

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
        if logits.shape[1] == 1:  # of two classes
            return logits[:, 0]
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits


# --- regressors -----------------------------------------------------------------------------------


# Of the allowance, at most, for bounds of the target: from, to. With wrong bounds a fit is
# worse than any constant, so that few rows take more: rows times epsilon (times mu, of which a part
# is enough) are to be so many in this share.
TARGET_SHARE, _TARGET_SIZE, _GAUSSIAN = (0.1, 0.5), 500.0, 0.3
COLUMNS_SHARE = 0.2  # for bounds of the columns


# Where rows times epsilon are fewer than this, only a point amid the targets is learned, with this
# share: bounds missed the targets in up to half of the fits (10 tables).
FEW_ROWS, POINT_SHARE = 300.0, 0.75


def _unstated(size: int) -> tuple[Floats, Floats]:
    """Return placeholders for bounds that are learned later."""
    return np.zeros(size), np.ones(size)


_POINT_ALONE = (
    "{}: rows times epsilon are so few that about the median of the target is all that is "
    "predicted. {} about {} times as many rows or as large an epsilon"
)


_WIDE_BOUNDS = (
    "{}: noise hides how far the targets differ, or moves all predictions by a large part of that: "
    "the standard error of the mean of the target is {:.2g}. Predictions may be worse than a mean "
    "without noise. {} or a larger epsilon help"
)
# That error over the deviation of the targets, and in half widths of their bounds.
_NOISY_MEAN = 0.5, 0.005


def learning_size(session: Session, n: float) -> float:
    """Return rows times the level of the session, in that of pure noise that learns as much."""
    return n * session.level(1.0) / (1.0 if session.pure else _GAUSSIAN)


class TargetRegressor(
    ExactScoreMixin, RegressorMixin, TargetErrorMixin, PrivateMixin, BaseEstimator, ABC
):
    """A regressor: a fit of rows with targets, and bounds of both."""

    _in_parts = True
    _takes_sparse: ClassVar[bool] = False
    _takes_table: ClassVar[bool] = False  # y may have several columns
    # Rows times epsilon below which only a point is predicted, if bounds of the target are learned
    # and if they are stated: these may be far wider than the targets.
    _few_rows: ClassVar[tuple[float, float]] = FEW_ROWS, 100.0

    bounds: Any = "private"
    target_bounds: Any = "private"

    @property
    def _n_releases(self) -> int:
        return 5

    def _target_bounds(self, n_targets: int | None = None) -> Any:
        """Return the stated bounds of the targets as two arrays, or None.

        Without a number of targets, they may be for any number that an estimator takes.
        """
        try:
            if n_targets is None:
                pair = self.target_bounds if self._takes_table else ()
                sized = isinstance(pair, tuple | list) and len(pair) == 2
                n_targets = max(1, *map(np.size, pair)) if sized else 1
            return check_bounds(self.target_bounds, n_targets)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"target_bounds must be 'private' or a pair (low, high) of finite numbers: {error}"
            ) from None

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        self._target_bounds()

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None) -> Self:
        """Charge the budget and fit.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Private targets, finite numbers.
        """
        with self._all_or_nothing(groups):
            return self._fitted(X, y)

    def _fitted(self, X: Any, y: Any, weights: Any = None, **options: Any) -> Self:
        """Fit rows with targets, and weights if there are any; `options` go to `_fit`."""
        rows = self._open_with_target(X, y, weights)
        width = rows.n_features - (weights is not None)
        if n_targets := getattr(rows, "n_targets", None):
            options["n_targets"] = n_targets
        target = self._target_bounds(n_targets or 1)
        columns = self._stated_bounds(width - (n_targets or 1))
        with self._session(rows) as session, np.errstate(all="ignore"):
            self._fit(session, columns, target, width, **options)
        return self

    def _open_with_target(self, X: Any, y: Any, weights: Any = None) -> Rows:
        """Check parameters, rows and targets, and record names and number of columns."""
        self._check_parameters()
        rows = check_with_target(
            X,
            y,
            **self._entrance,
            one_place=self._one_place(),
            takes_sparse=self._takes_sparse,
            takes_table=self._takes_table,
            weights=weights,
        )
        validate_data(self, getattr(rows, "head", X), skip_check_array=True)
        if not self._takes_table:
            warn_of_column(y)
        return rows

    def _deltas(self, n_samples: int | None, n_features: int | None = None) -> tuple[float, float]:
        if self._needs_pure_noise(n_samples):
            return 0.0, 0.0
        return super()._deltas(n_samples, n_features)

    def _needs_pure_noise(self, n_samples: int | None) -> bool:
        """Say whether public facts show that rows are few, and pure noise moves a mean less.

        At (.1, 1e-6) the location of the target takes 2.3 times as many rows with Gaussian noise.
        """
        few = self._few_rows[not isinstance(self.target_bounds, str)]
        if n_samples is None or n_samples * float(self.epsilon) >= few:
            return False
        return self._context().split_delta(lambda allowance: allowance.learning_std(1))[0] == 0

    def _times_short(self, session: Session, target: Any, n: float, targets: int = 1) -> float:
        """Return how many times as many rows a model needs to tell more than a point does."""
        few = self._few_rows[target is not None] * targets
        return few / max(learning_size(session, n), 1e-9)

    @abstractmethod
    def _fit(self, session: Session, columns: Any, target: Any, width: int) -> None:
        """Release, and set the fitted attributes; `width` counts the columns and the targets."""

    def _warn_of_noisy_mean(self, errors: Floats, spreads: Floats, low: Any, high: Any) -> None:
        """Warn if released numbers show that bounds of a target are too wide for so few rows.

        Of targets that are nearly equal nothing is lost where their mean is known well.
        """
        noisy = errors > _NOISY_MEAN[0] * spreads
        noisy &= errors > _NOISY_MEAN[1] * (high / 2 - low / 2)
        if noisy.any():
            stated = "Narrower target_bounds, more rows"
            learned = "Narrow target_bounds, if you can state them, more rows"
            way = learned if isinstance(self.target_bounds, str) else stated
            name, error = type(self).__name__, float(errors[noisy].max())
            warn_at_end(_WIDE_BOUNDS.format(name, error, way))

    def _points(
        self, session: Session, columns: Any, target: Any, width: int, n: float, targets: int = 1
    ) -> tuple[Floats, str, Floats, Floats]:
        """Release a point amid each target of few rows, which is nearer to them than a noisy mean.

        Warn, and return the points, what the warning says, and bounds of columns and targets.
        """
        bounds, name = target, "point amid the targets"
        if target is None:
            query = OfColumn(width - targets, LearnedBounds(n, point=True), width)
            box = session.answer(query, POINT_SHARE, name=name)
            points, bounds = box.middle, (box.low, box.high)
        else:
            query = OfColumn(width - targets, Quantiles(Box(*target), (0.5,)), width)
            points = session.answer(query, POINT_SHARE, name=name).value[:, 0]
        low, high, *_ = self._boxed(session, columns, bounds, width, n=n, targets=targets)
        times = self._times_short(session, target, n, targets)
        if mu := self.privacy_cost(n_features=width - targets).mu:  # that of more rows
            few = self._few_rows[target is not None] * targets
            times = max(times, few * _GAUSSIAN / (max(n, 1.0) * mu))
        way = "take" if target is not None else "state target_bounds, or take"
        text = f"{float(f'{math.ceil(times):.1e}'):,.0f}"
        note = _POINT_ALONE.format(type(self).__name__, way[0].upper() + way[1:], text)
        warn_at_end(note)  # decided by released numbers
        return points, note, low, high

    @staticmethod
    def _boxed(
        session: Session,
        columns: Any,
        target: Any,
        width: int,
        *more: tuple[Floats, Floats],
        n: float | None = None,
        targets: int = 1,
    ) -> tuple[Floats, Floats, LearnedBox | None, NDArray[np.bool_]]:
        """Return bounds of columns and target, the learned box, and which were stated.

        The bounds of the target are learned first and by themselves, as all predictions depend on
        them. `more` are stated bounds of columns behind the target; `n` is a known number of rows.
        """
        d = width - targets
        stated = (columns or _unstated(d), target or _unstated(targets), *more)
        low, high = (np.concatenate(sides) for sides in zip(*stated, strict=True))
        known, share = np.full(low.size, True), 0.0
        if columns is None or target is None:
            n = row_count(session, COUNT_SHARE) if n is None else n
            size = learning_size(session, n)
            share = min(max(_TARGET_SIZE * targets / size, TARGET_SHARE[0]), TARGET_SHARE[1])
        parts: list[LearnedBox | None] = [None] * len(more)
        for pair, a, b, most in ((target, d, width, share), (columns, 0, d, COLUMNS_SHARE)):
            if pair is None:
                box = session.answer(OfColumn(a, LearnedBounds(n), b), most)
                low[a:b], high[a:b] = box.low, box.high
            else:
                box = learned_before(pair)
            known[a:b] = box is None
            parts = [*([None] * (b - a) if box is None else [box]), *parts]
        if known.all():
            return low, high, None, known
        return *finite_squares((low, high)), joined_box(parts, low, high), known

    def _distance(self, fit: Any, exact: Any, X: Floats) -> float:
        return float(np.sqrt(np.mean((fit.predict(X) - exact.predict(X)) ** 2)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._takes_table
        tags.input_tags.sparse = self._takes_sparse
        return tags
