"""What estimators with a private target share: bounds, scales, predictions, rehearsals.

Nothing is released here, except that some functions ask an open session. All plans
follow from public numbers and from the released number of rows.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from skdp._rehearsal import NOISELESS, mean_error, rehearsal, repeated, unanswered
from skdp.base import PrivateMixin, check_bounds, check_integer
from skdp.core import Mean, Moments, ScaledBox, Session
from skdp.ensemble._tasks import check_classes
from skdp.planning import LEARNING_SHARE
from skdp.queries import LabelCounts, LearnedBounds, LearnedBox, softmax
from skdp.tabular import Rows, check_labelled, check_public_array

Floats = NDArray[np.float64]

COUNT_SHARE = 0.02
# Of a class's count: above this noise, a share more.
_COUNTS_WELL, _MORE_COUNTS = 0.2, 0.1
_CENTER_USEFUL = 1.0  # noise of the mean of all columns' means, in half widths
_REACH = 4.0  # scales from the mean of a column, that narrower bounds reach
_USEFUL = 0.1  # noise of a column's mean square, in squares of half its width
_LARGEST = 1e150  # of a bound: its square stays finite


@dataclass(frozen=True)
class Noise:
    """What an allowance makes of a sensitivity; public.

    Attributes
    ----------
    level : float
        Epsilon (pure) or mu of the whole fit.
    pure, replace : bool
    """

    level: float
    pure: bool
    replace: bool

    def part(self, share: float) -> float:
        """Return the level of a share."""
        return self.level * (share if self.pure else math.sqrt(max(share, 0.0)))

    def std(self, l2: float, share: float, dims: int) -> float:
        """Return the standard deviation of an entry of a vector with an L2 sensitivity."""
        return l2 * (math.sqrt(dims + 1) if self.pure else 1.0) / self.part(share)

    def of_moments(self, share: float, dims: int) -> float:
        """Return that of a sum of `Moments`, in half widths."""
        l2 = 2 * math.sqrt(dims) if self.replace else math.sqrt(1.25 * dims + 1)
        return self.std(l2, share, 2 * dims + (not self.replace))


@dataclass(frozen=True)
class Standard:
    """Center and scale of the columns, in user units.

    Attributes
    ----------
    center, scale : ndarray of shape (d,)
        Scales are positive.
    spread : float
        The trace of the covariance of what is centred and scaled, up to noise; NaN if nothing but
        the bounds is known.
    """

    center: Floats
    scale: Floats
    spread: float


def bounds_in(
    session: Session, low: Floats, high: Floats, stated: NDArray[np.bool_], *, errors: bool
) -> tuple[Floats, Floats, LearnedBox | None]:
    """Return the stated bounds, with learned ones where none are stated, and what was learned."""
    if stated.all():
        return low, high, None
    query = LearnedBounds(audit=errors)
    learned = session.answer(query, None if errors else LEARNING_SHARE)
    low, high = (
        np.clip(np.where(stated, mine, found), -_LARGEST, _LARGEST)
        for mine, found in ((low, learned.low), (high, learned.high))
    )
    return low, high, learned


def stated_bounds(
    bounds: Any, n_features: int, names: Any
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return lows, highs and whether they are stated; bounds are not used where they are not."""
    pair = check_bounds(bounds, n_features, names)
    if pair is None:
        return np.zeros(n_features), np.ones(n_features), np.zeros(n_features, dtype=bool)
    return *pair, np.ones(n_features, dtype=bool)


def warn_of_column(y: Any) -> None:
    """Warn where targets have two dimensions, of which the second is flattened."""
    if getattr(y, "shape", ())[1:] == (1,):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,  # who called fit
        )


def standardised(
    session: Session,
    noise: Noise,
    low: Floats,
    high: Floats,
    n: float,
    share: float,
    *,
    again: bool = False,
) -> Standard:
    """Release means and mean squares where they say something; else take the middle of the bounds.

    A variance counts as at least twice its noise. A column of which nothing is known is taken for
    uniform. With `again`, where bounds are so wide that noise hides what is in them, narrower ones
    are asked once more: for those who clip rows in predictions too, as the scale of a column of
    rare values may come out far too small.
    """
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    flat = half <= 0
    error = noise.of_moments(share, low.size) / n if share else math.inf
    if error > _USEFUL:
        return Standard(middle, np.where(flat, 1.0, half / math.sqrt(3)), math.nan)
    center, scale, spread, hidden = _measured(session, low, high, error, share)
    narrow = hidden & (_REACH * scale < half / _REACH)
    if again and narrow.any():
        low = np.where(narrow, np.maximum(low, center - _REACH * scale), low)
        high = np.where(narrow, np.minimum(high, center + _REACH * scale), high)
        center, scale, spread, _ = _measured(session, low, high, error, share)
    return Standard(center, scale, spread)


def _measured(
    session: Session, low: Floats, high: Floats, error: float, share: float
) -> tuple[Floats, Floats, float, NDArray[np.bool_]]:
    """Return center, scale and `Standard.spread` of clipped columns, and whose scale is noise."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    flat = half <= 0
    mean, square, _ = session.answer(Moments(low, high), share)
    variance = np.maximum(square.value - mean.value**2, 0.0)
    least = max(2 * error, 2.0**-24)
    floored = np.clip(variance, least, 1.0)
    scale = np.sqrt(floored) * half
    scale = np.where(flat | (scale < 1e-290), 1.0, scale)
    spread = float((variance / floored)[~flat].sum())
    return middle + mean.value * half, scale, spread, ~flat & (variance <= least)


def class_counts(session: Session, n_classes: int) -> tuple[Floats, float]:
    """Return the number of rows of each class, at least 1, and the noise of one."""
    query = LabelCounts(n_classes)
    first = session.answer(query, COUNT_SHARE)
    counts, std = np.array(first.value), float(first.std)
    if std > _COUNTS_WELL * max(float(counts.sum()), 1.0) / n_classes:
        second = session.answer(query, _MORE_COUNTS, name="counts of labels, again")
        part = std**2 / (std**2 + float(second.std) ** 2)
        counts = counts + part * (second.value - counts)
        std *= float(second.std) / math.hypot(std, float(second.std))
    return np.maximum(counts, 1.0), std


def standard_for_classes(
    session: Session, noise: Noise, low: Floats, high: Floats, n: float, part: float
) -> Standard:
    """Return center and scale of the columns: of the rows where noise allows, else of the bounds.

    `part` is the part of what is left that this may take.
    """
    share = part * float(session.remaining)
    found = standardised(session, noise, low, high, n, share, again=True)
    if math.isfinite(found.spread):
        return found
    d = low.size
    l2 = (2.0 if noise.replace else math.sqrt(10) / 3) * math.sqrt(d)
    # Of many columns the mean over all of them, at least, is known.
    if noise.std(l2, share, d) / n / math.sqrt(d) > _CENTER_USEFUL:
        return found
    release = session.answer(Mean(ScaledBox(low, high)), share)
    mean = _shrunk(release.value, float(np.mean(release.std)))
    return Standard(found.center + mean * (high / 2 - low / 2), found.scale, math.nan)


def _shrunk(mean: Floats, std: float) -> Floats:
    """Shrink noisy means of columns towards their own mean, by the rule of James and Stein."""
    if mean.size < 4:
        return mean
    middle = mean.mean()
    away = mean - middle
    kept = max(0.0, 1.0 - (mean.size - 3) * std**2 / max(float(away @ away), 1e-300))
    return np.clip(middle + kept * away, -1.0, 1.0)


# --- rehearsals -------------------------------------------------------------------------------


def check_targets_like(estimator: Any, like: Any) -> tuple[Floats, NDArray]:
    """Return public rows and targets, or raise naming ``like``."""
    if like is None:
        raise unanswered(estimator, "the rows and their targets", fit=False)
    if not (isinstance(like, tuple) and len(like) == 2):
        raise TypeError(
            "like must be a pair (X, y) of public rows and targets, never of private ones"
        )
    name = f"{type(estimator).__name__}.expected_error(like=...)"
    X = check_public_array(like[0], estimator=name)
    y = np.asarray(like[1])
    if y.shape != (len(X),):
        raise ValueError("like: y must have one entry for each row of X")
    return X, y


def error_of_rehearsals(
    estimator: Any,
    adjacency: str,
    n_samples: int,
    X: Floats,
    y: NDArray,
    distance: Callable[[Any, Any, Floats], float],
) -> float:
    """Return the mean distance of fits to n rows like public ones from fits without noise.

    Nothing private is touched, and nothing charged. ``distance(fit, noiseless, X)`` compares two
    fits on the public rows.
    """
    n = check_integer(n_samples, "n_samples", low=1)
    with rehearsal(estimator, adjacency) as made:

        def once(number: int) -> float:
            rows = repeated(len(X), n, number)
            noisy = made(number).fit(X[rows], y[rows])
            exact = made(number, epsilon=NOISELESS, delta=0.0).fit(X[rows], y[rows])
            return distance(noisy, exact, X)

        return mean_error(once, least=6, most=24, precision=0.1)


# --- classifiers -------------------------------------------------------------------------------


class LabelledClassifier(ClassifierMixin, PrivateMixin, BaseEstimator, ABC):
    """What classifiers share: classes, rows with labels, predictions from logits, rehearsals."""

    classes: Any

    @abstractmethod
    def _logits(self, X: Any) -> Floats:
        """Return the logits of rows: (n, n_classes), or (n, 1) for the second of two."""

    def _check_classes(self) -> NDArray:
        """Return the public class labels, sorted, or raise."""
        return check_classes(self.classes)

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        self._check_classes()
        if hasattr(self, "bounds"):
            self._check_bounds_without_rows()

    def _open_labelled(self, X: Any, y: Any, classes: NDArray) -> Rows:
        """Check privacy parameters, rows and labels; record the public schema. Charges nothing."""
        self._check_privacy_parameters()
        rows = check_labelled(
            X,
            y,
            estimator=type(self).__name__,
            classes=classes,
            allow_empty=self._allow_empty,
            one_place=self._one_place(),
        )
        validate_data(self, getattr(rows, "head", X), skip_check_array=True)
        warn_of_column(y)
        return rows

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probabilities of the classes, in the order of `classes_`.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        chances = softmax(self._logits(X))
        return np.hstack([1.0 - chances, chances]) if chances.shape[1] == 1 else chances

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithms of `predict_proba`, -inf for 0.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the labels of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        logits = self._logits(X)
        if logits.shape[1] == 1:
            return self.classes_[(logits[:, 0] > 0).astype(np.int64)]
        return self.classes_[logits.argmax(axis=1)]

    def expected_error(self, n_samples: int, *, like: Any = None) -> float:
        """Return the part of predictions that will differ from those of a fit without noise.

        Fits are rehearsed on public rows. Nothing private is read, and nothing charged: it answers
        whether epsilon is enough.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        like : tuple (X, y)
            Public rows and labels that resemble the private ones (made-up ones will do), **never
            the private rows themselves**.

        Returns
        -------
        error : float
            In [0, 1]: a part of the rows of `like`, mean over fits.

        Raises
        ------
        ValueError
            If `like` is not given: the error depends on the rows.

        Examples
        --------
        >>> import numpy as np
        >>> from skdp.linear_model import DPLogisticRegression
        >>> X = np.linspace(-1, 1, 50)[:, None]
        >>> model = DPLogisticRegression(classes=[0, 1], bounds=(-1, 1))
        >>> model.expected_error(10_000, like=(X, X[:, 0] > 0)) < 0.1
        True
        """
        self._check_without_rows()
        X, y = check_targets_like(self, like)
        made = self._by_position(like[0])

        def distance(fit: Any, exact: Any, X: Floats) -> float:
            return float(np.mean(fit.predict(X) != exact.predict(X)))

        return error_of_rehearsals(made, self._adjacency, n_samples, X, y, distance)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
