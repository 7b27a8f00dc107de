"""Selection of the columns that say most about a target: `DPSelectKBest`.

A fit releases moments of each class, or the second moment of columns and target. Scores and the
choice of columns are computed from them.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import feature_selection as theirs
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.base import check_bounds, in_precision_of
from skdp.base.classifiers import (
    CLASSES_SHARE,
    StatedClasses,
    class_counts,
    finite_squares,
    warn_of_column,
)
from skdp.base.transformers import Floats, Transformer
from skdp.core import ScaledBox, Session
from skdp.exceptions import warn_caller
from skdp.parameters import Integers, Table, naming
from skdp.planning import Allowance, bounds_in
from skdp.queries import SecondMoment, label_moments, select_classes
from skdp.tabular import (
    as_dense,
    check_labelled,
    check_public_array,
    check_unselected,
    check_with_target,
)

__all__ = ["DPSelectKBest"]

_CLASSES, _NUMBERS = "f_classif", "f_regression"
_SEEN = 3.0  # a class counts if its count is above this many deviations of noise


def _score_name(value: Any, name: str) -> str:
    """Return the name of a score, or raise; scikit-learn's own two functions are meant by it."""
    if callable(value):
        value = {theirs.f_classif: _CLASSES, theirs.f_regression: _NUMBERS}.get(value, value)
    if isinstance(value, str) and value in (_CLASSES, _NUMBERS):
        return value
    raise ValueError(
        f"{name} must be {_CLASSES!r} or {_NUMBERS!r}: a score of your own would see private rows"
    )


class DPSelectKBest(theirs.SelectorMixin, StatedClasses, Transformer):
    """Keep the k columns with the largest private F statistics.

    The private counterpart of scikit-learn's ``SelectKBest`` with ``f_classif`` (the variance of a
    column between classes over its variance within classes) or ``f_regression`` (the correlation of
    a column with a numeric target).

    Parameters
    ----------
    score_func : {"f_classif", "f_regression"}, default="f_classif"
        ``"f_classif"`` for classes, ``"f_regression"`` for numeric targets. scikit-learn's
        functions of these names are accepted too.
    k : int or "all", default=10
        How many columns are kept; ``"all"`` releases nothing.
    classes : "private" or array-like of shape (n_classes,), default="private"
        ... Not used with ``"f_regression"``.
    target_bounds : "private" or tuple (low, high), default="private"
        Range of a numeric target. State it together with `bounds`, or leave both to be learned.

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,) or None
        Noisy F statistics of the clipped columns. The expected contribution of noise is subtracted,
        so they may be below 0. They have no standard error: only their order is used. None if
        nothing was released.
    bounds_ : tuple of two ndarrays of shape (n_features,) or None
    classes_ : ndarray of shape (n_classes,)
        Only with ``"f_classif"``: the classes, stated or selected. With fewer than two classes
        there are no scores, and the first k columns are kept.

    Notes
    -----
    **Privacy.** *Released*: classes and bounds, if not stated. With ``"f_classif"``: the counts of
    the classes, and for each class the sums of u and of u**2 - 1/2, as
    `skdp.naive_bayes.DPGaussianNB` releases them. Here u in [-1, 1] is a clipped value in units of
    half the width of its bounds. L2 *sensitivity* of the sums, for d columns: 2 sqrt(d) if a row is
    replaced, sqrt(5 d / 4) if one is added or removed. With ``"f_regression"``: the second moment
    of columns and target, as `skdp.linear_model.DPRidge` releases it. *Mechanism*: Laplace or
    K-norm noise, symmetrised Wishart noise, or rounded Gaussian noise where it is less. With
    ``k="all"`` nothing is released or charged. Scores and choice are post-processing. Proofs:
    ``skdp/core/PROOFS.md``.

    The choice may be wrong if noise hides the scores: with few rows or many columns. If the values
    of a column span a small part of its bounds, noise hides most of its variance, so tight bounds
    help.

    **Expected error.** In [0, 1]: the part of the `k` columns kept by a fit without noise that a
    fit misses. It needs ``like=(X, y)``.

    References
    ----------
    Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.feature_selection import DPSelectKBest
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5000, 6))
    >>> y = X[:, 2] + X[:, 4] + 0.2 * rng.normal(size=5000) > 1
    >>> best = DPSelectKBest(k=2, classes=[False, True], bounds=(0, 1)).fit(X, y)
    >>> best.get_support(indices=True)
    array([2, 4])
    """

    score_func: Any = field(default=_CLASSES, kw_only=False)
    k: int | str = 10
    classes: Any = "private"
    bounds: Any = "private"
    target_bounds: Any = "private"

    _tags = ("target_tags.required",)
    _parameter_table: ClassVar[Table] = {
        "score_func": _score_name,
        "k": (Integers(1, 2**31), "all"),
    }

    def _is_free(self) -> bool:
        return isinstance(self.k, str)

    @property
    def _of_classes(self) -> bool:
        return _score_name(self.score_func, "score_func") == _CLASSES

    @property
    def _learns_classes(self) -> bool:
        return super()._learns_classes and self._of_classes and not self._is_free()

    def _target(self) -> Any:
        """Return the stated bounds of the target, or None; or raise."""
        with naming("target_bounds"):
            stated = check_bounds(self.target_bounds, 1)
        if (stated is None) != isinstance(self.bounds, str):
            raise ValueError(
                "bounds and target_bounds must be stated together, or both be 'private'"
            )
        return stated

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        if self._is_free():
            return
        if self._of_classes:
            self._check_classes()
        else:
            self._target()

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None) -> Self:
        """Charge the budget and choose columns.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers. Rows in parts (`skdp.engines`) are refused.
        y : array-like of shape (n_samples,)
            Private labels or numbers.
        """
        with self._all_or_nothing(groups):
            self._check_without_rows()
            name = type(self).__name__
            if self._is_free():
                self._open(X)
                nothing: Any = None
                self.scores_ = self.bounds_ = nothing
                self.privacy_ = self._context().nothing_released()
                return self
            classes = self._check_classes() if self._of_classes else None
            if not self._of_classes:
                rows = check_with_target(X, y, **self._entrance)
            elif classes is None:
                rows = check_unselected(X, y, **self._entrance)
            else:
                rows = check_labelled(X, y, classes=classes, **self._entrance)
            validate_data(self, X, skip_check_array=True)
            warn_of_column(y)
            stated = self._stated_bounds(self.n_features_in_)
            with self._session(rows) as session, np.errstate(all="ignore"):
                if self._of_classes:
                    self._score_classes(session, stated, classes)
                else:
                    self._score_numbers(session, stated)
        if self._of_classes and len(self.classes_) < 2:  # which is released, so we may warn
            warn_caller(
                f"{name}: {len(self.classes_)} class(es) had enough rows to be selected: there "
                "are no scores, and the first columns were kept. State them, classes=[...], or "
                "take a larger epsilon or delta",
            )
        if isinstance(self.k, int) and self.k > self.n_features_in_:
            warn_caller(
                f"{name}: k={self.k} is greater than n_features={self.n_features_in_}. All the "
                "features will be returned, and a fit with k='all' costs nothing.",
            )
        return self

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        if self._of_classes:
            unit = np.ones(n_features)
            return allowance.query_std(label_moments(-unit, unit, 2))
        return allowance.gram_std(n_features + 1)

    def _score_classes(self, session: Session, stated: Any, classes: Any) -> None:
        """Release moments of classes, and set the scores."""
        if classes is None:
            classes = session.answer(select_classes(), CLASSES_SHARE)
        self.classes_ = classes
        self.scores_, self.bounds_ = np.zeros(self.n_features_in_), stated
        if len(classes) < 2:
            return
        bounds, learned = bounds_in(session, stated)
        self.bounds_ = low, high = finite_squares(bounds) if learned is not None else bounds
        counts, spread = class_counts(session, len(classes))
        sums, squares = session.answer(label_moments(low, high, len(classes)))
        seen = counts >= _SEEN * spread
        if seen.sum() >= 2:
            self.scores_ = _f_classif(
                *(sums.value[seen], squares.value[seen], counts[seen]),
                *(float(sums.std), float(squares.std)),
            )

    def _score_numbers(self, session: Session, stated: Any) -> None:
        """Release the second moment of columns and target, and set the scores."""
        target = self._target()
        box: Any = None
        if stated is not None:
            box = tuple(np.append(*pair) for pair in zip(stated, target, strict=True))
        bounds, learned = bounds_in(session, box)
        low, high = finite_squares(bounds) if learned is not None else bounds
        self.bounds_ = low[:-1].copy(), high[:-1].copy()
        gram = session.answer(SecondMoment(ScaledBox(low, high)))
        n, mean = gram.n, gram.total / gram.n
        covariance = gram.second_moment / n - np.outer(mean, mean)
        noise = gram.std / n
        # A variance counts as at least twice its noise, and that of a covariance is taken off.
        spread = np.maximum(np.diag(covariance), max(2.0 * noise, 2.0**-24))
        squared = covariance[:-1, -1] ** 2 - noise**2
        part = np.clip(squared / (spread[:-1] * spread[-1]), -1.0, 1.0 - 1e-9)
        self.scores_ = part / (1.0 - part) * max(n - 2.0, 1.0)

    def _distance(self, fit: Any, exact: Any, X: Floats) -> float:
        chosen, best = (selector.get_support() for selector in (fit, exact))
        return float(1.0 - (chosen & best).sum() / best.sum())

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        if self.scores_ is None:
            return np.ones(self.n_features_in_, dtype=bool)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[np.argsort(-self.scores_, kind="stable")[: int(self.k)]] = True
        return mask

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the chosen columns of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Finite numbers. If they are private, so is the result.

        Returns
        -------
        X_new : ndarray of shape (n_samples, k)
        """
        return in_precision_of(X, self._public_array(X)[:, self._get_support_mask()])

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return rows with 0 in the columns that were not chosen.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, k)
            The chosen columns, finite numbers.
        """
        check_is_fitted(self)
        values = check_public_array(as_dense(X), **self._entrance)
        return in_precision_of(X, np.asarray(super().inverse_transform(values)))


def _f_classif(
    sums: Floats, squares: Floats, counts: Floats, std: float, square_std: float
) -> Floats:
    """Return F statistics of columns from noisy sums of classes, (n_classes, d), in half widths.

    `std` is the noise on a sum of values, `square_std` that on a sum of squares.
    """
    weight, n = counts[:, None], float(counts.sum())
    mean = np.clip(sums / weight, -1.0, 1.0)
    square = np.clip(squares / weight + 0.5, 0.0, 1.0)
    overall = (weight * mean).sum(axis=0) / n
    between = (weight * (mean - overall) ** 2).sum(axis=0)
    # On average, the noise of a class mean adds std**2 / n.
    between -= float((std**2 / counts * (1.0 - counts / n)).sum())
    variance = (weight * np.maximum(square - mean**2, 0.0)).sum(axis=0) / n
    noise = square_std * np.sqrt(len(counts)) / n
    variance = np.maximum(variance, max(2.0 * noise, 2.0**-24))
    ratios: Floats = between / max(len(counts) - 1, 1) / variance
    return ratios * max(n - len(counts), 1.0) / n
