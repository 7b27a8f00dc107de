"""What estimators with a private target share: bounds, scales, predictions, rehearsals.

Nothing is released here, except that some functions ask an open session. All plans
follow from public numbers and from the released number of rows.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import validate_data

from skdp._parameters import check_classes, check_size
from skdp._rehearsal import NOISELESS, mean_error, rehearsal, repeated, unanswered
from skdp._standardising import Standard, class_counts, standard_for_classes
from skdp._weights import weighted_rows
from skdp.base import PrivateMixin, check_integer
from skdp.budget import Cost, PrivacyBudget, gdp_mu
from skdp.budget.ambient import outside_level
from skdp.core import Session
from skdp.loss.conversions import check_delta
from skdp.planning import Allowance, bounds_in
from skdp.queries import LearnedBox, SelectClasses, StandardBall, softmax
from skdp.tabular import Rows, check_labelled, check_public_array, check_unselected, checked
from skdp.user_code import or_raise, suppress_warnings

Floats = NDArray[np.float64]

_NOT_SCORED = (
    "score: y must have one entry for each row of X, in one dimension: labels of the type of "
    "classes_, or finite numbers. sample_weight, if it is given, must be as many finite numbers"
)
_LARGEST = 1e150  # of a learned bound: its square stays finite
# Noise of a class's mean, in scales, or edge of that of a covariance, below which rows are whole.
_WHOLE_NOISE, _WHOLE_EDGE = 0.02, 0.05
CLASSES_SHARE = 0.1  # of the allowance, for classes that nobody stated
SEEN = 10.0  # standard deviations of its count above which a class has a standard error


def finite_squares(bounds: Iterable[Floats]) -> tuple[Floats, Floats]:
    """Return learned bounds, none so large that its square is infinite."""
    low, high = (np.clip(side, -_LARGEST, _LARGEST) for side in bounds)
    return low, high


def warn_of_column(y: Any) -> None:
    """Warn where targets have two dimensions, of which the second is flattened."""
    if getattr(y, "shape", ())[1:] == (1,):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
            stacklevel=outside_level(),
        )


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
    y = np.asarray(checked(like[1], "like"))
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
    **stated: Any,
) -> float:
    """Return the mean distance of fits to n rows like public ones from fits without noise.

    These have parameters `stated` that are private in the others.

    Nothing private is touched, and nothing charged. ``distance(fit, noiseless, X)`` compares two
    fits on the public rows.
    """
    n = check_integer(n_samples, "n_samples", low=1)
    with rehearsal(estimator, adjacency) as made:

        def once(number: int) -> float:
            rows = repeated(len(X), n, number)
            noisy = made(number).fit(X[rows], y[rows])
            exact = made(number, epsilon=NOISELESS, delta=0.0, **stated).fit(X[rows], y[rows])
            return distance(noisy, exact, X)

        return mean_error(once, least=6, most=24, precision=0.1)


# --- classifiers -------------------------------------------------------------------------------

_OF_EVERY_FIT = {"classes_", "feature_names_in_", "max_rows_per_unit_", "n_features_in_"}
_NO_DELTA = (
    "{}: classes must be given for a classifier if delta is 0: all class labels, from public "
    "knowledge, because which labels occur in y is private. With delta above 0 they are selected "
    "privately"
)
_FEW_CLASSES = (
    "{}: {} class(es) had enough rows to be selected, so nothing else was released. State "
    "classes, or take a larger epsilon or delta; for a y of many different numbers, take a "
    "regressor"
)
_NO_CLASS = (
    "{}: no class had enough rows to be selected, so there is nothing to predict. State classes, "
    "or take a larger epsilon or delta; for a y of many different numbers, take a regressor"
)


@dataclass(frozen=True)
class Start:
    """What `LabelledClassifier._started` released.

    Attributes
    ----------
    low, high : ndarray of shape (d,)
    learned : LearnedBox or None
        What bounds were learned from.
    counts, spread : ndarray of shape (n_classes,), float
        Of `class_counts`.
    n : float
        Their sum.
    standard : Standard
    allowance : Allowance
        What is left.
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
        """The largest norm that a centred and scaled row within the bounds has."""
        return self.standard.reach(self.low, self.high)

    def radius(self, short: float, part: float = 1.0) -> float:
        """Return what norms of rows are clipped to: none where noise is small, else short ones.

        Parameters
        ----------
        short : float
            In roots of the number of columns.
        part : float
            Of the allowance, for sums of classes; the rest is for a second moment.
        """
        d, n_classes, reach = self.low.size, len(self.counts), self.reach
        sums, rest = self.allowance.part(part), self.allowance.part(1.0 - part)
        noise = sums.vector_std((1 + sums.replace) * reach, n_classes * d) * n_classes / self.n
        edge = 0.0
        if part < 1.0:
            edge = rest.spectral_edge(d, rest.gram_noise("auto", d)) * reach**2 / self.n
        known = math.isfinite(self.standard.spread)
        whole = known and noise <= _WHOLE_NOISE and edge <= _WHOLE_EDGE
        return reach if whole else short * math.sqrt(d)

    def view(self, radius: float) -> StandardBall:
        """Return the map of rows to a ball."""
        return StandardBall(self.low, self.high, self.standard.center, self.standard.scale, radius)

    def means(self, sums: Any, view: StandardBall) -> tuple[Floats, Floats, Floats]:
        """Return the means of classes, in units of the view and of X, and their standard errors.

        About the means of all rows within the bounds; NaN where bounds are learned or rows are
        shortened by the view, and for classes of few rows.
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


class ExactScoreMixin:
    """A score of any rows, computed by scikit-learn, whose errors would quote labels or targets."""

    predict: Callable[[Any], NDArray]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy (classifiers) or R squared (regressors) on the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Exact, so as private as the rows are.
        """
        predicted = self.predict(X)
        measure = accuracy_score if is_classifier(self) else r2_score
        with suppress_warnings():  # one of two bad targets would decide of which there is any
            found = or_raise(
                lambda: measure(y, predicted, sample_weight=sample_weight),
                lambda: ValueError(_NOT_SCORED),
            )
        return float(found)


class LabelledClassifier(ExactScoreMixin, ClassifierMixin, PrivateMixin, BaseEstimator, ABC):
    """What classifiers share: a fit of labelled rows, predictions from logits, rehearsals.

    With scikit-learn 1.9 or later callbacks are told of their fits, and of steps if there are any.
    """

    _in_parts = True

    def __init__(
        self,
        *,
        classes: Any = "private",
        bounds: Any = "private",
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.classes = classes
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None) -> Self:
        """Charge the budget and fit.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers. May be in parts (`skdp.engines`).
        y : array-like of shape (n_samples,)
            Private labels.
        groups : array-like of shape (n_samples,), default=None
            Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
            together. A budget with a `unit` needs groups; any other budget refuses them.
            Rows without an id are left out if a unit is added or removed, and refused otherwise.

        Returns
        -------
        self : LabelledClassifier
        """
        with self._all_or_nothing(groups):
            return self._fitted(X, y)

    def _fitted(self, X: Any, y: Any, weights: Any = None) -> Self:
        """Fit rows with labels, and weights if there are any, whose bound goes to `_fit`."""
        classes = self._check_classes()
        rows = self._open_labelled(X, y, classes)
        rows, most = weighted_rows(self, rows, weights)
        options = {} if most is None else {"most": most}
        public = self._public(rows.n_features)
        self._check_size(rows.n_features, 2 if classes is None else len(classes))
        delta, separate = self._deltas()
        opened = self._session(rows, delta=delta, separate_delta=separate)
        with opened as session, np.errstate(all="ignore"):
            if classes is None:
                classes = session.answer(SelectClasses(), CLASSES_SHARE)
            self.classes_ = classes
            if len(classes) > 1:
                self._fit(session, public, len(classes), **options)
            else:
                self._forget()
            self.privacy_ = session.certificate()
        if len(classes) < 2:  # released: whoever sees the fit sees it
            warnings.warn(
                _FEW_CLASSES.format(type(self).__name__, len(classes)),
                stacklevel=outside_level(),
            )
        return self

    def _forget(self) -> None:
        """Drop what an earlier fit has found and this one has not."""
        found = [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]
        for name in set(found) - _OF_EVERY_FIT:
            delattr(self, name)

    @property
    def _learns_classes(self) -> bool:
        return isinstance(self.classes, str) and self.classes == "private"

    def _deltas(self) -> tuple[float, float]:
        """Return the delta of noise, and that of classes that one row alone has."""
        delta = float(self.delta)
        return (delta / 2, delta / 2) if self._learns_classes else (delta, 0.0)

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the cost of one fit, before any data is touched.

        Parameters
        ----------
        n_samples, n_features : int, default=None
            Not used: the cost of a fit does not depend on them.

        Returns
        -------
        cost : skdp.budget.Cost
            The (epsilon, delta) that one fit charges, and its mu where noise is Gaussian. With
            private classes, half of delta pays for selecting them.
        """
        self._context()
        epsilon = float(self.epsilon)
        noise, separate = self._deltas()
        mu = gdp_mu(epsilon, noise) if noise else None
        return Cost(epsilon=epsilon, delta=noise + separate, mu=mu, separate_delta=separate)

    @abstractmethod
    def _fit(self, session: Session, public: Any, n_classes: int) -> None:
        """Ask for everything, and set the fitted attributes; `public` is what `_public` returns."""

    @abstractmethod
    def _logits(self, X: Any) -> Floats:
        """Return the logits of rows: (n, n_classes), or (n, 1) for the second of two."""

    def _scores(self, X: Any) -> Floats:
        """Return the logits of rows; where there is one class or none, zeros, (n, 1)."""
        if len(getattr(self, "classes_", (0, 1))) > 1:
            return self._logits(X)
        return np.zeros((len(self._public_array(X)), 1))

    def _public(self, n_features: int) -> Any:
        """Return what is stated of the columns, or raise: before the charge. Their bounds."""
        return self._stated_bounds(n_features)

    def _bounds(self, session: Session, stated: Any) -> LearnedBox | None:
        """Set `bounds_` to the stated bounds, or to learned ones; return what was learned."""
        self.bounds_, learned = bounds_in(session, stated)
        if learned is not None:
            self.bounds_ = finite_squares(self.bounds_)
        return learned

    def _started(
        self, session: Session, stated: Any, n_classes: int, part: float, most: float | None = None
    ) -> Start:
        """Ask for bounds, counts of classes, and centers and scales with a part of what is left."""
        learned = self._bounds(session, stated)
        low, high = self.bounds_
        allowance = Allowance.left(session, 1.0)
        counts, spread = class_counts(session, n_classes, most)
        n = float(counts.sum())
        standard = standard_for_classes(session, allowance, low, high, n, part, most)
        self.class_count_ = counts if most is None else counts * most
        self.center_, self.scale_ = standard.center, standard.scale
        return Start(low, high, learned, counts, spread, n, standard, Allowance.left(session))

    def _mapped(self, X: Any) -> Floats:
        """Return the caller's rows as the view of the fit maps them."""
        values = self._public_array(X)
        with np.errstate(all="ignore"):
            mapped: Floats = self._view.map(values) * self._view.grid
        return mapped

    def _check_classes(self) -> NDArray | None:
        """Return the public class labels, sorted, or None for private ones; or raise."""
        if not self._learns_classes:
            return check_classes(self.classes)
        check_delta(self.delta)
        if not self.delta:
            raise ValueError(_NO_DELTA.format(type(self).__name__))
        return None

    def _check_size(self, n_features: int, n_classes: int) -> None:
        """Refuse what makes the fitted attributes too large."""
        check_size("classes", n_classes * (n_features + 1))

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        self._check_classes()

    def _open_labelled(self, X: Any, y: Any, classes: NDArray | None) -> Rows:
        """Check parameters, rows and labels; record the public schema. Charges nothing."""
        self._check_parameters()
        name, empty = type(self).__name__, self._allow_empty
        if classes is None:
            rows = check_unselected(X, y, estimator=name, allow_empty=empty)
        else:
            one_place = self._one_place()
            rows = check_labelled(
                X, y, estimator=name, classes=classes, allow_empty=empty, one_place=one_place
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
        logits = self._scores(X)
        if len(self.classes_) < 2:
            return np.ones((len(logits), len(self.classes_)))
        chances = softmax(logits)
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
        logits = self._scores(X)
        if len(self.classes_) == 0:
            raise ValueError(_NO_CLASS.format(type(self).__name__))
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, len(logits))
        if logits.shape[1] == 1:
            return self.classes_[(logits[:, 0] > 0).astype(np.int64)]
        return self.classes_[logits.argmax(axis=1)]

    def expected_error(self, n_samples: int, *, like: Any = None) -> float:
        """Return the part of the predictions that noise will change, on average.

        Fits are rehearsed on public rows. Nothing private is read and nothing is charged. Use it to
        see whether epsilon is large enough.

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
            In [0, 1]: the part of the rows of `like` whose prediction differs from that of a fit
            without noise, averaged over fits.

        Raises
        ------
        ValueError
            If `like` is not given, because the error depends on the rows.

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
            if not len(fit.classes_):
                return 1.0
            return float(np.mean(fit.predict(X) != exact.predict(X)))

        stated = {"classes": check_classes(np.unique(y))} if self._learns_classes else {}
        return error_of_rehearsals(made, self._adjacency, n_samples, X, y, distance, **stated)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
