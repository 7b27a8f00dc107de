"""What private densities share: bounds, log densities, samples.

Nothing is released here, except that `BoxDensity` asks an open session for bounds and for a number
of rows. A density lives in a public or released box and is kept relative to the uniform one there,
so that no volume overflows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdp.base import PrivateMixin, check_integer
from skdp.base.expected_error import ExpectedErrorMixin, check_like, resampled, unanswered
from skdp.core import Session
from skdp.planning import bounds_in
from skdp.queries import LearnedBox

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

COUNT_SHARE = 0.02  # where the number of rows is private: what planning needs of it
_FAR = 1e100  # bounds end here: squares and their sums stay finite


def _usable(low: Floats, high: Floats) -> Pair:
    """Return learned bounds within 1e100 of 0 that enclose a volume; post-processing."""
    low, high = np.clip(low, -_FAR, _FAR), np.clip(high, -_FAR, _FAR)
    least = np.maximum((np.abs(low) + np.abs(high)) / 8, 1 / _FAR)
    flat = high - low < least
    return np.where(flat, low - least, low), np.where(flat, high + least, high)


def mixed(relative: Floats, weights: Floats, n: float) -> tuple[Floats, float]:
    """Return a density from one with noise: cut off at 0, of integral 1, nowhere 0.

    One row more than there are is spread evenly over the box, so that logarithms are finite.

    Parameters
    ----------
    relative : ndarray
        Relative to the uniform density.
    weights : ndarray
        Parts of the box, of the same shape; of sum 1.
    n : float
        Number of rows, public or released.

    Returns
    -------
    density : ndarray
        Relative to the uniform one. Uniform if nothing is above 0.
    factor : float
        By which what is above 0 was multiplied.
    """
    positive = np.maximum(relative, 0.0)
    total = float((weights * positive).sum())
    rows = n / (1.0 + n)
    if not (math.isfinite(total) and total > 0.0):
        return np.ones_like(positive), rows
    return rows / total * positive + (1.0 - rows), rows / total


class BoxDensity(ExpectedErrorMixin, PrivateMixin, DensityMixin, BaseEstimator, ABC):
    """A density over a box: its methods after a fit."""

    bounds: Any
    bounds_: Pair
    n_features_in_: int

    # --- what an estimator adds -----------------------------------------------------------------

    @abstractmethod
    def _relative(self, values: Floats) -> Floats:
        """Return the density, relative to the uniform one, at rows within the box."""

    @abstractmethod
    def _relative_std(self, values: Floats) -> Floats:
        """Return what noise makes of it, as a standard deviation, before it is cut off at 0."""

    @abstractmethod
    def _draw(self, n: int, random: Any) -> Floats:
        """Return n rows drawn from the density."""

    # --- the fit --------------------------------------------------------------------------------

    def _stated_bounds(self, n_features: int, names: Sequence[Any] | None = None) -> Pair | None:
        """Return the bounds that the user states, or None; a flat box gets a volume."""
        stated = super()._stated_bounds(n_features, names)
        if stated is None:
            return None
        if max(np.abs(side).max() for side in stated) > _FAR:
            raise ValueError("bounds must be 'private' or a pair (low, high) within 1e100 of 0")
        low, high = stated
        # As numpy: bounds without width are given some.
        half = np.where(high - low < 1 / _FAR, np.maximum(0.5, np.abs(low) / 8), 0.0)
        return low - half, high + half

    @staticmethod
    def _box_in(session: Session, stated: Pair | None) -> tuple[Pair, LearnedBox | None]:
        """Return the stated bounds, or learn a box privately, and what was learned."""
        pair, learned = bounds_in(session, stated, spare=0.002)
        return (pair if learned is None else _usable(*pair)), learned

    def _like(self, n: int, d: int, like: Any) -> Callable[[int], Floats]:
        """Return public rows for each rehearsal."""
        self._stated_bounds(d)
        if like is None:
            raise unanswered(
                self,
                "the rows: negative noise is cut off where there are none, and the bandwidth or "
                "the box may depend on them",
            )
        if isinstance(like, BoxDensity):
            like = like.sample(min(max(n, 1000), 10**5), random_state=0)
        public = check_like(self, like, d)
        return lambda number: resampled(public, n, number)

    # --- after the fit --------------------------------------------------------------------------

    def _log_volume(self) -> float:
        low, high = self.bounds_
        return float(np.log(high - low).sum())

    def _inside(self, values: Floats) -> NDArray[np.bool_]:
        low, high = self.bounds_
        return np.asarray(((values >= low) & (values <= high)).all(axis=1))

    def score_samples(self, X: ArrayLike) -> Floats:
        """Return the logarithm of the density at the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            Minus infinity outside ``bounds_``, finite inside.
        """
        values = self._public_array(X)
        inside = self._inside(values)
        result = np.full(len(values), -math.inf)
        result[inside] = np.log(self._relative(values[inside])) - self._log_volume()
        return result

    def pdf(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return the density at the caller's rows, and if asked how noisy it is.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
        return_std : bool, default=False

        Returns
        -------
        density : ndarray of shape (n_samples,)
            Zero outside ``bounds_``.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``: the standard deviation of the density due to noise,
            before the density is cut off at 0. It does not include the errors of sampling and
            smoothing.
        """
        values = self._public_array(X)
        inside = self._inside(values)
        density, std = np.zeros((2, len(values)))
        with np.errstate(over="ignore", under="ignore"):
            unit = np.exp(-self._log_volume())
            density[inside] = self._relative(values[inside]) * unit
            if not return_std:
                return density
            std[inside] = self._relative_std(values[inside]) * unit
        return density, std

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Return the log-likelihood of the caller's rows: the sum of `score_samples`.

        The score is exact. So on private rows, it is as private as the rows are.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
        y : None, ignored

        Returns
        -------
        log_likelihood : float
            Minus infinity if a row lies outside ``bounds_``.
        """
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw rows from the released density. This uses nothing else of the private rows.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
            Separate from the randomness of the noise, so samples may be repeated with the same
            seed.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Within ``bounds_``.
        """
        check_is_fitted(self)
        n = check_integer(n_samples, "n_samples", low=1)
        return np.clip(self._draw(n, check_random_state(random_state)), *self.bounds_)
