"""Transformers that are post-processing of private quantiles.

`DPRobustScaler` centres by the median and scales by the interquartile range;
`DPQuantileTransformer` maps columns to a uniform or a normal distribution.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from skdp._docstrings import documenter
from skdp.base.batch_invariant import interpolated
from skdp.base.scalers import NAN_POLICY, Floats, finite, warn_of_far_bounds
from skdp.parameters import FLAG, Integers, Table
from skdp.quantile import TEXTS, QuantileFit

# An interquartile range below this part of the bounds' width is taken for none.
_RESOLUTION = 2.0**-16
# As in scikit-learn: ranks are kept this far from 0 and 1 where they become normal deviates.
_CLIPPED_RANK = 1e-7 - np.spacing(1)

documented = documenter(
    {
        **TEXTS,
        "omit": """
            nan_policy : {"raise", "omit"}, default="raise"
                ``"omit"``: the quantiles of a column are of the cells that are not missing (NaN,
                None and NA are missing). Each column gets an equal part of the allowance, and
                `transform` keeps missing cells.
            """,
        "rows": """
            X : array-like or table of shape (n_samples, n_features)
                Private rows of finite numbers; with ``nan_policy="omit"``, cells may be missing.
                May be in parts (`skdp.engines`) unless nan_policy="omit".
            y : None, ignored
            groups : array-like of shape (n_samples,), default=None
            """,
        "omitted": """
            With ``nan_policy="omit"`` the same is released for each column, over the rows that have
            a value in it. A replaced row may join or leave these rows, so ranks may move by two
            steps. Without stated bounds, the number of these rows (5%) and the
            bounds (at most half) are released first. Proof: ``skdp/queries/columns.md``.

            {error_in_ranks}
            """,
    }
)


def _range(quantile_range: Any, name: str = "quantile_range") -> tuple[float, float]:
    """Return the two levels of a range in percent, or raise."""
    try:
        low, high = (float(side) for side in quantile_range)
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not 0.0 <= low < high <= 100.0:
        raise ValueError(
            f"{name} must be a pair (low, high) of percentages, 0 <= low < high <= 100"
        )
    # Rounded: 0.07 is meant, not 0.07000000000000001.
    return round(low / 100.0, 15), round(high / 100.0, 15)


@documented
class DPRobustScaler(QuantileFit):
    """Centre columns by private medians, and scale them by private interquartile ranges.

    The private counterpart of scikit-learn's ``RobustScaler``, without ``copy`` (the input is never
    changed).

    Parameters
    ----------
    with_centering : bool, default=True
        Subtract the median.
    with_scaling : bool, default=True
        Divide by the range between two quantiles.
    quantile_range : tuple (low, high), default=(25.0, 75.0)
        Levels of the two quantiles, in percent as in scikit-learn. Note that (0.25, 0.75) would
        mean levels below one percent.
    unit_variance : bool, default=False
        Scale so that normally distributed columns have variance 1.
    {bounds}
    {candidates}
    {omit}

    Attributes
    ----------
    center_ : ndarray of shape (n_features,) or None
        Private medians; None if ``with_centering=False``.
    scale_ : ndarray of shape (n_features,) or None
        Private ranges between the two quantiles. 1.0 if the range is below 2**-16 of the width of
        the bounds, as for constant columns. None if ``with_scaling=False``.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        ... None if nothing was released and no bounds are stated.

    See Also
    --------
    skdp.preprocessing.DPStandardScaler : Uses the mean and standard deviation.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (at most 20%), and up to three quantiles of each
    column, with the *sensitivity* and *mechanism* of `skdp.quantile.DPQuantile`. With
    ``with_centering=False, with_scaling=False`` nothing is released or charged.

    {omitted}

    References
    ----------
    Kaplan, Schnapp & Stemmer 2022, "Differentially private approximate quantiles", Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPRobustScaler
    >>> X = np.random.default_rng(0).normal([170.0, 70.0], [10.0, 12.0], size=(10_000, 2))
    >>> scaler = DPRobustScaler(bounds=([120, 30], [220, 150]), unit_variance=True, random_state=0)
    >>> np.abs(scaler.fit_transform(X).std(axis=0) - 1) < 0.05
    array([ True,  True])
    """

    with_centering: bool = True
    with_scaling: bool = True
    quantile_range: tuple[float, float] = (25.0, 75.0)
    unit_variance: bool = False
    bounds: Any = "private"
    step: float | None = None
    prior: str = "uniform"
    nan_policy: str = "raise"

    _in_parts = True

    _parameter_table: ClassVar[Table] = {
        "quantile_range": _range,
        "nan_policy": NAN_POLICY,
        **dict.fromkeys(("with_centering", "with_scaling", "unit_variance"), FLAG),
    }

    def _levels(self) -> list[float]:
        low, high = _range(self.quantile_range)
        levels = {0.5} if self.with_centering else set()
        if self.with_scaling:
            levels |= {low, high}
        return sorted(levels)

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release the quantiles.

        Parameters
        ----------
        {rows}
        """
        with self._all_or_nothing(groups):
            quantiles, learned = self._fit_quantiles(X)
            levels = self._levels()
            self.center_ = quantiles[levels.index(0.5)] if self.with_centering else None
            self.scale_ = None
            if self.with_scaling:
                low, high = _range(self.quantile_range)
                self.scale_ = self._scale(
                    quantiles[levels.index(low)], quantiles[levels.index(high)], low, high
                )
        warn_of_far_bounds(self, learned)
        return self

    def _scale(self, first: Floats, last: Floats, low: float, high: float) -> Floats:
        """Return the divisors of the columns from their two quantiles."""
        assert self.bounds_ is not None
        # Halves first, because the width of huge bounds may overflow.
        half_width = self.bounds_[1] / 2 - self.bounds_[0] / 2
        half_range = last / 2 - first / 2
        wide = half_range > _RESOLUTION * half_width
        unit = 1.0
        if self.unit_variance:
            # Levels of 0 and 1 have no normal deviates.
            ends = norm.ppf(np.clip([low, high], _CLIPPED_RANK, 1 - _CLIPPED_RANK))
            unit = float(ends[1] - ends[0])
        with np.errstate(over="ignore", under="ignore"):
            scale = finite(2 * (half_range / unit))
        return np.where(wide & (scale > 0), scale, 1.0)

    def _forward(self, values: Floats) -> Floats:
        if self.center_ is not None:
            values -= self.center_
        if self.scale_ is not None:
            values /= self.scale_
        return values

    def _backward(self, values: Floats) -> Floats:
        if self.scale_ is not None:
            values *= self.scale_
        if self.center_ is not None:
            values += self.center_
        return values


@documented
class DPQuantileTransformer(QuantileFit):
    """Map columns to a uniform or a normal distribution by private quantiles.

    The private counterpart of scikit-learn's ``QuantileTransformer``, without ``subsample``,
    ``ignore_implicit_zeros`` and ``copy`` (the input is never changed).

    Parameters
    ----------
    n_quantiles : int, default=33
        Number of landmarks, at equally spaced levels from 0 to 1; at least 3. The first and the
        last landmark are the bounds, which cost nothing. The others are released, in
        floor(log2(n_quantiles - 2)) + 1 rounds, so k rounds allow at most 2**k + 1 landmarks. More
        landmarks give a finer resolution, but each is less exact.
    output_distribution : {"uniform", "normal"}, default="uniform"
        Columns are mapped to [0, 1], or to normal deviates, at most 5.2 from 0.
    {bounds}
    {candidates}
    {omit}

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        Values at the levels `references_`, not decreasing. The first and last are the bounds. If no
        multiple of `step` lies within learned bounds, they are widened to the outermost released
        value.
    references_ : ndarray of shape (n_quantiles,)
        Levels from 0 to 1.
    bounds_ : tuple of two ndarrays of shape (n_features,)

    See Also
    --------
    skdp.quantile.DPQuantile : The quantiles alone.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (at most 20%), and the inner landmarks of every
    column, with the *sensitivity* and *mechanism* of `skdp.quantile.DPQuantile`.

    `transform` and `inverse_transform` are linear between two landmarks, and monotone. If landmarks
    coincide, their value is mapped to the middle of their levels, as in scikit-learn.

    {omitted}

    References
    ----------
    Kaplan, Schnapp & Stemmer 2022, "Differentially private approximate quantiles", Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPQuantileTransformer
    >>> X = np.random.default_rng(0).lognormal(3.0, 1.0, size=(20_000, 1))
    >>> transformer = DPQuantileTransformer(bounds=(0, 1000), prior="log", random_state=0)
    >>> ranks = transformer.fit_transform(X)
    >>> np.abs(np.quantile(ranks, [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]).max() < 0.02
    np.True_
    """

    n_quantiles: int = 33
    output_distribution: str = "uniform"
    bounds: Any = "private"
    step: float | None = None
    prior: str = "uniform"
    nan_policy: str = "raise"

    _in_parts = True

    _parameter_table: ClassVar[Table] = {
        "n_quantiles": Integers(3, 10_000),
        "nan_policy": NAN_POLICY,
        "output_distribution": ("uniform", "normal"),
    }

    def _levels(self) -> list[float]:
        m = int(self.n_quantiles)
        return [i / (m - 1) for i in range(1, m - 1)]

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release the landmarks.

        Parameters
        ----------
        {rows}
        """
        with self._all_or_nothing(groups):
            inner, learned = self._fit_quantiles(X)
            assert self.bounds_ is not None
            ends = np.minimum(self.bounds_[0], inner[0]), np.maximum(self.bounds_[1], inner[-1])
            self.quantiles_ = np.vstack([ends[0], inner, ends[1]])
            self.references_ = np.array([0.0, *self._levels(), 1.0])
        warn_of_far_bounds(self, learned)
        return self

    def _forward(self, values: Floats) -> Floats:
        levels = np.empty_like(values)
        ranks = self.references_
        for j, marks in enumerate(self.quantiles_.T):
            # From both sides, because landmarks may coincide.
            above = interpolated(values[:, j], marks, ranks)
            below = interpolated(-values[:, j], -marks[::-1], -ranks[::-1])
            levels[:, j] = (above - below) / 2
        if self.output_distribution == "normal":
            return norm.ppf(np.clip(levels, _CLIPPED_RANK, 1 - _CLIPPED_RANK))
        return levels

    def _backward(self, levels: Floats) -> Floats:
        if self.output_distribution == "normal":
            levels = norm.cdf(levels)
        # Slopes between landmarks near the largest number would overflow.
        unit = 2.0**-60 if np.abs(self.quantiles_).max(initial=0.0) > 2.0**960 else 1.0
        columns = [
            np.interp(levels[:, j], self.references_, marks * unit) / unit
            for j, marks in enumerate(self.quantiles_.T)
        ]
        return np.stack(columns, axis=1)
