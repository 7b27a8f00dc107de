"""What private density ratios share: two samples, weights, their score and effective size.

Nothing is released here. ``fit(X, y)`` gets both samples in one table: y = 1 marks the private
rows, y = 0 the public ones. Only the private rows are protected; the public sample enters every
result exactly. Weights are computed from what a fit released and from the caller's own rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import numbers
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from skdp import kernel
from skdp.base import PrivateMixin
from skdp.budget import exact

__all__ = [
    "DensityRatio",
    "check_candidates",
    "check_choice",
    "check_rate",
    "check_real",
    "effective_sample_size",
]

Floats = NDArray[np.float64]
LARGEST_WEIGHT = 1e100  # finite, and so are squares and their sums


def check_choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words, or raise with the name and what it may be."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {allowed}, got {value!r}")
    return value


def check_real(value: Any, name: str, low: float, high: float) -> float:
    """Return a number of a closed range, or raise."""
    text = f"{name} must be a number of at least {low:g} and at most {high:g}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{text}, got {type(value).__name__}")
    number = math.nan
    with contextlib.suppress(OverflowError):
        number = float(value)
    if not low <= number <= high:  # False for NaN too
        raise ValueError(f"{text}, got {number!r}")
    return number


def check_candidates(
    value: Any, name: str, low: float = 1e-300, high: float = 1e300
) -> Floats | None:
    """Return positive numbers to choose from, or None for ``"private"``."""
    text = f"{name} must be 'private', a number from {low:g} to {high:g} or a sequence of such"
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
    good = candidates.ndim == 1 and 0 < candidates.size <= 100
    if not (good and np.all((candidates >= low) & (candidates <= high))):  # False for NaN
        raise ValueError(text)
    return candidates


def check_rate(value: Any, name: str) -> Fraction | None:
    """Return a public sampling rate as the fraction of its decimal, or None."""
    if value is None:
        return None
    rate = check_real(value, name, 0.0, 1.0)
    if rate < 2.0**-32:
        raise ValueError(f"{name} must be None or a number from 2**-32 to 1, got {rate!r}")
    return exact(rate)


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

    def _open_samples(self, X: Any, y: Any) -> tuple[kernel.Rows, Floats, NDArray[np.bool_]]:
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
        self._check_privacy_parameters()
        options: Any = {"estimator": type(self).__name__, "allow_empty": self._allow_empty}
        rows, public = kernel.check_samples(X, y, **options)
        private = kernel.check_marks(y, X.shape[0] if hasattr(X, "shape") else len(X), **options)
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

    def predict(self, X: ArrayLike) -> Floats:
        """Return the density ratio p_private / p_public at the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Usually the public sample, whose weights these are.

        Returns
        -------
        weights : ndarray of shape (n_samples,)
            Finite and at least 0; their mean over the public sample is about 1 where noise is weak.
        """
        return self._weights(self._public_array(X))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return -J: the mean weight of the private rows minus half the mean square of the public.

        The least-squares criterion of the source; greater is better. **It is exact, so it is not
        private**: a search that uses it tells about its private folds by its choice, and the ledger
        covers its fits only. The defaults of `DPuLSIF` choose ridge and bandwidth without it.

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
        private = kernel.check_marks(
            y,
            len(values),
            estimator=type(self).__name__,
            allow_empty=self._allow_empty,
        )
        weights = self._weights(values)
        linear = float(weights[private].mean()) if private.any() else 0.0
        return linear - 0.5 * float(np.square(weights[~private]).mean())
