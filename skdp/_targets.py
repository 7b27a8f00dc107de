"""What estimators with a private number as target share: a fit of rows with targets, rehearsals.

Nothing is released here, except that bounds are asked of an open session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import validate_data

from skdp._supervised import (
    ExactScoreMixin,
    Floats,
    check_targets_like,
    error_of_rehearsals,
    finite_squares,
    warn_of_column,
)
from skdp.base import PrivateMixin, check_bounds
from skdp.core import Session
from skdp.planning import bounds_in
from skdp.queries import LearnedBox
from skdp.tabular import Rows, check_with_target


def _unstated(size: int) -> tuple[Floats, Floats]:
    """Return what stands for bounds that nobody stated, until they are learned."""
    return np.zeros(size), np.ones(size)


class TargetRegressor(ExactScoreMixin, RegressorMixin, PrivateMixin, BaseEstimator, ABC):
    """What regressors share: a fit of rows with their targets, bounds of both, rehearsals."""

    _in_parts = True
    _takes_sparse: ClassVar[bool] = False

    bounds: Any
    target_bounds: Any

    def _target_bounds(self) -> Any:
        """Return the stated bounds of the target as two arrays of one number, or None."""
        try:
            return check_bounds(self.target_bounds, 1)
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
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Private rows of finite numbers. Linear models take sparse rows; these are read in dense
            chunks, and the time this takes depends on how many cells they store. May be in parts
            (`skdp.engines`).
        y : array-like of shape (n_samples,)
            Private targets, finite numbers.
        groups : array-like of shape (n_samples,), default=None
            Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
            together. A budget with a `unit` needs groups; any other budget refuses them.
            Rows without an id are left out if a unit is added or removed, and refused otherwise.

        Returns
        -------
        self : TargetRegressor
        """
        with self._all_or_nothing(groups):
            return self._fitted(X, y)

    def _fitted(self, X: Any, y: Any, weights: Any = None, **options: Any) -> Self:
        """Fit rows with targets, and weights if there are any; `options` are those of `_fit`."""
        target = self._target_bounds()
        rows = self._open_with_target(X, y, weights)
        width = rows.n_features - (weights is not None)
        columns = self._stated_bounds(width - 1)
        with self._session(rows) as session, np.errstate(all="ignore"):
            self._fit(session, columns, target, width, **options)
            self.privacy_ = session.certificate()
        return self

    def _open_with_target(self, X: Any, y: Any, weights: Any = None) -> Rows:
        """Check privacy parameters, rows and targets; record the public schema. Charges nothing."""
        self._check_parameters()
        rows = check_with_target(
            X,
            y,
            estimator=type(self).__name__,
            allow_empty=self._allow_empty,
            one_place=self._one_place(),
            takes_sparse=self._takes_sparse,
            weights=weights,
        )
        validate_data(self, getattr(rows, "head", X), skip_check_array=True)
        warn_of_column(y)
        return rows

    @abstractmethod
    def _fit(self, session: Session, columns: Any, target: Any, width: int) -> None:
        """Ask for everything, and set the fitted attributes.

        Parameters
        ----------
        columns, target : tuple of two ndarrays, or None
            The stated bounds of the columns, and of the target.
        width : int
            Number of columns, the target counted.
        """

    @staticmethod
    def _boxed(
        session: Session, columns: Any, target: Any, width: int, *more: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats, LearnedBox | None, NDArray[np.bool_]]:
        """Return bounds of columns and target, what was learned, and which were stated.

        `more` are stated ones of columns behind the target.
        """
        d = width - 1
        known = np.append(np.full(d, columns is not None), target is not None)
        known = np.append(known, np.full(len(more), True))
        sides = zip(columns or _unstated(d), target or _unstated(1), *more, strict=True)
        low, high = (np.concatenate(parts) for parts in sides)
        box, learned = bounds_in(session, (low, high) if known.all() else None, errors=True)
        if learned is not None:
            box = finite_squares(np.where(known, (low, high), box))
        return *box, learned, known

    def expected_error(self, n_samples: int, *, like: Any = None) -> float:
        """Return how far noise will move predictions from those of a fit without noise.

        Fits are rehearsed on public rows. Nothing private is read and nothing is charged. Use it to
        see whether epsilon is large enough.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        like : tuple (X, y)
            Public rows and targets that resemble the private ones (made-up ones will do), **never
            the private rows themselves**.

        Returns
        -------
        error : float
            In the unit of y: the root mean square over the rows of `like`, averaged over fits.

        Raises
        ------
        ValueError
            If `like` is not given, because the error depends on the rows.

        Examples
        --------
        >>> import numpy as np
        >>> from skdp.linear_model import DPRidge
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> model = DPRidge(bounds=(0, 1), target_bounds=(0, 2))
        >>> model.expected_error(10_000, like=(X, 2 * X[:, 0])) < 0.1
        True
        """
        self._check_without_rows()

        def distance(fit: Any, exact: Any, X: Floats) -> float:
            return float(np.sqrt(np.mean((fit.predict(X) - exact.predict(X)) ** 2)))

        X, y = check_targets_like(self, like)
        made = self._by_position(like[0])
        return error_of_rehearsals(made, self._adjacency, n_samples, X, y, distance)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._takes_sparse
        return tags
