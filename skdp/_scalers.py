"""What the scalers are made of: bounds, the free fit, standard errors, quantile levels.

Nothing is released here, except that `Scaler` asks an open session for bounds; the
rest computes on public parameters and on what was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp._rehearsal import ExpectedErrorMixin, check_like, mean_error, rehearsal, resampled
from skdp._transforming import Transformer
from skdp.base import in_precision_of, keeps_precision
from skdp.tabular import check_public_array

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

_LARGEST = float(np.finfo(np.float64).max)
N_CELLS = 4096  # of a column's bounds; a released quantile is the outer edge of one of them
_EMPTY_CELL = 0.01  # chance that noise puts an extreme quantile beyond the rows
_LARGEST_Q = 0.25
_FITS = 80  # rehearsals, at most: each costs a fit on n rows


def finite(values: Floats) -> Floats:
    """Replace infinities by the largest float of their sign."""
    return np.clip(values, -_LARGEST, _LARGEST)


class Scaler(OneToOneFeatureMixin, ExpectedErrorMixin, Transformer):
    """What the scalers share: bounds, and the caller's array on the way there and back."""

    bounds: Any

    def _forward(self, values: Floats) -> Floats:
        """Return rows as transformed; they are a copy of the caller's and may be changed."""
        raise NotImplementedError

    def _backward(self, values: Floats) -> Floats:
        """Return transformed rows in the units of X."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        return keeps_precision(super().__sklearn_tags__())

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Transform the caller's rows by what the fit released; nothing is clipped to bounds.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Finite numbers; left as they are. If they are private, so is the result.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features)
            float64, or float32 if X is. Finite: or the next step's error would tell of a huge row.
        """
        values = self._public_array(X).copy()
        with np.errstate(over="ignore", under="ignore"):
            return in_precision_of(X, finite(self._forward(values)))

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return transformed rows to the units of X.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        values = check_public_array(X, estimator=type(self).__name__, allow_empty=self._allow_empty)
        if values.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} columns, as many as in fit, got "
                f"{values.shape[1]}"
            )
        with np.errstate(over="ignore", under="ignore"):
            return in_precision_of(X, finite(self._backward(values.copy())))


# --- errors that depend on rows ----------------------------------------------------------------


def check_means(like: Any, d: int) -> Floats | None:
    """Return the means of an earlier fit, None if `like` is no fitted scaler, or raise."""
    if not isinstance(like, Scaler):
        return None
    means = getattr(like, "mean_", None)
    if means is None:
        raise ValueError("like must be fitted, with means, or public rows")
    if np.shape(means) != (d,):
        raise ValueError(f"like must have n_features = {d} columns, got {np.size(means)}")
    return np.asarray(means)


def error_of_fits(
    scaler: Scaler,
    adjacency: str,
    n: int,
    d: int,
    like: Any,
    error: Callable[[Any, Floats], float],
) -> float:
    """Return the mean of error(fitted, rows) over fits to n rows that are like public ones.

    As many as tell it to 10%, one standard error: 5% of the root of a mean square.
    """
    rows = check_like(scaler, like, d)
    with rehearsal(scaler, adjacency) as made:

        def once(number: int) -> float:
            table = resampled(rows, n, number)
            return error(made(number).fit(table), table)

        return mean_error(once, least=24, most=_FITS, precision=0.1)


# --- standard errors and quantile levels -------------------------------------------------------


def moment_errors(
    mean: Floats, square: Floats, noise: float, *, replace: bool
) -> tuple[Floats, Floats]:
    """Return the standard errors of mean and variance from those of the two moments.

    All in units of the half width. Where the number of rows is private it carries noise of the
    same size, and so does every quotient: the released mean differs from the exact one m by
    (noise - m times that of the number) over the *released* number, exactly. The variance is
    ``square - mean**2``; the square of the mean's error counts too, which matters on few rows.
    """
    count = 0.0 if replace else 1.0
    # m is known up to the noise.
    mean_error = noise * np.sqrt(1.0 + count * np.minimum(np.abs(mean) + noise, 1.0) ** 2)
    moved = square - 0.5 - 2.0 * mean**2
    first_order = noise**2 * (1.0 + 4.0 * mean**2 + count * moved**2)
    return mean_error, np.sqrt(first_order + FOURTH_MOMENT * mean_error**4)


# Of noise, in units of its variance squared: 3 of a normal deviate, 6 of a Laplace one.
FOURTH_MOMENT = 5.0


def root_error(value: Floats, error: Floats) -> Floats:
    """Return the standard error of the square root of a released number that is at least 0.

    A third of how far the root moves when the number moves by three standard errors, so both hold
    as often. Far from 0 that is the slope times the error; at 0 the root has none.
    """
    down = np.sqrt(value) - np.sqrt(np.maximum(value - 3.0 * error, 0.0))
    up = np.sqrt(value + 3.0 * error) - np.sqrt(value)
    return np.maximum(down, up) / 3.0


def auto_q(n: float, epsilon: float) -> float:
    """Return the quantile level that is as extreme as n rows and a column's epsilon allow.

    The exponential mechanism weighs a cell that lies r ranks off by exp(-r epsilon / 2). A cell
    beyond all rows lies q n off, and there are at most `N_CELLS`, so with this q one of them is
    drawn with probability below `_EMPTY_CELL`. Rounded up to three digits, so that the core's
    integer scores stay short.
    """
    ranks = max(2.0 / epsilon * math.log(N_CELLS / _EMPTY_CELL), 0.5)
    q = ranks / n
    if q >= _LARGEST_Q:
        return _LARGEST_Q
    digit = 10.0 ** (math.floor(math.log10(q)) - 2)
    return float(f"{math.ceil(q / digit) * digit:.2e}")
