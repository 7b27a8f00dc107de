"""What private density ratios share: two samples, weights, their score and effective size.

Nothing is released here. ``fit(X, y)`` gets both samples in one table: y = 1 marks the private
rows, y = 0 the public ones. Only the private rows are protected; the public sample enters every
result exactly. Weights are computed from what a fit released and from the caller's own rows.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from skdp.base import PrivateMixin
from skdp.budget import exact
from skdp.tabular import Rows, check_marks, check_samples

Floats = NDArray[np.float64]
LARGEST_WEIGHT = 1e100  # finite, and so are squares and their sums


def check_candidates(
    value: Any, name: str, low: float = 1e-300, high: float = 1e300, most: int = 100
) -> Floats | None:
    """Return positive numbers to choose from, or None for ``"private"``."""
    text = f"{name} must be 'private', a number in [{low:g}, {high:g}] or at most {most} of them"
    if isinstance(value, str):
        if value == "private":
            return None
        raise ValueError(f"{text}, got {value!r}")
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        candidates = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except OverflowError:
        raise ValueError(text) from None
    except (TypeError, ValueError):
        raise TypeError(f"{text}, got {type(value).__name__}") from None
    good = candidates.ndim == 1 and 0 < candidates.size <= most
    if not (good and np.all((candidates >= low) & (candidates <= high))):  # False for NaN
        raise ValueError(text)
    return candidates


def rate_of(value: Any) -> Fraction | None:
    """Return a public sampling rate as the fraction of its decimal, or None."""
    return None if value is None else exact(float(value))


def effective_sample_size(weights: Floats) -> float:
    """Return (sum w)**2 / sum w**2 (Kish): that many equal weights would average noise as well."""
    largest = float(weights.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    scaled = weights / largest  # neither sum overflows
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


class DensityRatio(PrivateMixin):
    """Two samples in, weights out; `_weights` is what an estimator adds."""

    n_features_in_: int

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        return tags

    def _open_samples(self, X: Any, y: Any) -> tuple[Rows, Floats, NDArray[np.bool_]]:
        """Check privacy parameters and both samples; record the schema. Charges nothing.

        Returns
        -------
        rows : Rows
            The private sample.
        public : ndarray of shape (n_public, n_features)
        private : ndarray of bool of shape (n_samples,)
            The marks. Public under "replace_one" only, and never needed for more than what they say
            of the public rows.
        """
        self._check_parameters()
        options: Any = {"estimator": type(self).__name__, "allow_empty": self._allow_empty}
        rows, public = check_samples(X, y, **options)
        private = check_marks(y, X.shape[0] if hasattr(X, "shape") else len(X), **options)
        validate_data(self, X, reset=True, skip_check_array=True)
        return rows, public, private

    def _context_of(self, public: Floats) -> str:
        """Return a digest of the public sample: seeded fits that differ in it share no noise."""
        names = repr(list(getattr(self, "feature_names_in_", [])))
        digest = hashlib.blake2b(names.encode(), digest_size=16)
        digest.update(np.ascontiguousarray(public).tobytes())
        return digest.hexdigest()

    def _weights(self, values: Floats) -> Floats:
        """Return the weights of the caller's rows."""
        raise NotImplementedError

    def _weights_std(self, values: Floats, weights: Floats) -> Floats:
        """Return the standard deviation that noise gives these weights of the caller's rows."""
        raise NotImplementedError

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return the density ratio p_private / p_public at the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Usually the public sample, which is to be weighted.
        return_std : bool, default=False
            Also return the standard deviation of the weights due to noise.

        Returns
        -------
        weights : ndarray of shape (n_samples,)
            Finite and at least 0; their mean over the public sample is about 1 where noise is weak.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``: the standard deviation of each weight due to the noise of
            the release, to first order, and before the weight is cut off at 0. It is for the ridge
            and bandwidth of this fit: it does not include the effect of noise on their choice, nor
            the errors of sampling and of the model.
        """
        values = self._public_array(X)
        weights = self._weights(values)
        return (weights, self._weights_std(values, weights)) if return_std else weights

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return -J: the private rows' mean weight minus half the public rows' mean squared weight.

        This is the least-squares criterion of the source; greater is better. **It is exact, so it
        is not private**: the choice of a search that uses it reveals something about the private
        folds, and the ledger covers the fits only. By default `DPuLSIF` chooses ridge and bandwidth
        without it.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            1 for rows of the private sample, 0 for rows of the public one.

        Returns
        -------
        score : float
        """
        values = self._public_array(X)
        private = check_marks(
            y,
            len(values),
            estimator=type(self).__name__,
            allow_empty=self._allow_empty,
        )
        weights = self._weights(values)
        linear = float(weights[private].mean()) if private.any() else 0.0
        return linear - 0.5 * float(np.square(weights[~private]).mean())
