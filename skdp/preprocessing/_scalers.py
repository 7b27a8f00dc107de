"""Scalers whose statistics are private: by moments, ranges, medians and quantiles.

`DPStandardScaler` releases the mean and mean square of each column in one vector. `DPMinMaxScaler`
releases two extreme quantiles of each column, or nothing if bounds are stated. `DPRobustScaler` and
`DPQuantileTransformer` are post-processing of released quantiles.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from skdp._docstrings import documenter
from skdp.base import names_of
from skdp.base.batch_invariant import interpolated
from skdp.base.expected_error import check_like, unanswered
from skdp.base.mixin import WEIGHT_BOUND, weighted_rows
from skdp.base.transformers import (
    N_CELLS,
    NAN_POLICY,
    ColumnMoments,
    Floats,
    Scaler,
    check_means,
    error_of_fits,
    finite,
    release_moments,
    release_present_moments,
    release_present_range,
    release_range,
    warn_of_doubtful_bounds,
    warn_of_far_bounds,
)
from skdp.confidence.equations import moment_errors, root_error
from skdp.core import Box
from skdp.parameters import FLAG, Integers, Reals, Table
from skdp.planning import Allowance, weight_bound_in
from skdp.quantile import TEXTS, QuantileFit

# Variances in units of the squared half width. Below the first they mean nothing, because sums are
# rounded to steps. The second is that of a uniform column, taken if noise hides the variance.
_RESOLUTION, _UNIFORM = 2.0**-28, 1.0 / 3.0
_LARGEST, _SMALLEST = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)


documented = documenter(
    {
        **TEXTS,
        "omit": """
            nan_policy : {"raise", "omit"}, default="raise"
                ``"omit"``: the statistics of a column are of the cells that it has (NaN, None and
                NA are missing), each column for an equal part of the allowance, and `transform`
                keeps missing cells.
            """,
        "rows": """
            X : array-like or table of shape (n_samples, n_features)
                Private rows, finite numbers; with ``nan_policy="omit"`` also missing ones.
                May be in parts (`skdp.engines`) unless nan_policy="omit".
            y : None, ignored
            """,
        "omitted": """
            With ``nan_policy="omit"`` the same is released for each column, over the rows that have
            a value in it. A replaced row may join or leave these rows, so ranks may move by two
            steps. Without stated bounds, the number of these rows (5%) and the bounds (at most
            half) are released first. Proof: ``skdp/queries/columns.md``.

            {error_in_ranks}
            """,
    }
)


@documented
class DPStandardScaler(Scaler):
    """Standardise columns by their differentially private mean and standard deviation.

    The private counterpart of scikit-learn's ``StandardScaler``, without ``partial_fit`` and
    ``copy`` (the input is never changed).

    Parameters
    ----------
    with_mean : bool, default=True
        Subtract the mean.
    with_std : bool, default=True
        Divide by the standard deviation.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them, for a part of the allowance that falls with n_samples * epsilon / n_features:
        16 to 18% at 50,000, 73% at 1,000 (without delta, rows replaced).
    {omit}
        The number of missing cells is private, so the number of rows of a column has noise, too.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,) or None
        Noisy mean of the clipped rows, within the bounds; None if ``with_mean`` and ``with_std``
        are both False.
    var_ : ndarray of shape (n_features,) or None
        Noisy variance of the clipped rows, at least 0; None if ``with_std=False``.
    scale_ : ndarray of shape (n_features,) or None
        The divisor: the square root of `var_`, or of a floor where that is larger (see Notes); 1.0
        for a column whose bounds are equal. None if ``with_std=False``.
    mean_std_error_ : ndarray of shape (n_features,) or None
        Standard error of `mean_`, in the units of X: due to noise and, with learned bounds, due to
        the clipping of ordinary columns. NaN if bounds could not be learned well enough (few rows,
        or too many values beyond them): state `bounds` then.
    var_std_error_ : ndarray of shape (n_features,) or None
        Standard error of `var_`, in squared units.
    scale_std_error_ : ndarray of shape (n_features,) or None
        Standard error of `scale_`. If noise hides the variance, a third of the largest error that
        `scale_` may have.
    weight_bound_ : float or None
    bounds_ : tuple of two ndarrays of shape (n_features,)
        ... None if nothing was released and no bounds are stated.
    n_samples_ : float, ndarray of shape (n_features,) or None
        Number of rows (of values of each column with ``nan_policy="omit"``): exact where it is
        public, otherwise noisy. With `sample_weight` the noisy sum of clipped weights. None if
        nothing was released. There is no ``n_samples_seen_``.

    See Also
    --------
    DPMinMaxScaler : Free with stated bounds.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (a median, and counts of distances from it, for
    each column); then the sums over rows of u and of f (u**2 - 1/2) for all d columns, as one
    vector. Here u in [-1, 1] is a clipped value relative to the middle of its bounds, in half
    widths; f is a public factor. *Sensitivity* (L2) of the vector: 2 sqrt(d) with f = 13/8 if a row
    is replaced; sqrt(5 d / 4 + 1) with f = 1 if one is added or removed, with the number of rows as
    last entry. Of its largest entry, with f = 2: 2 and 1. *Mechanism*: K-norm noise of the ball or
    the cube, or rounded Gaussian noise, whichever is least. With ``with_mean=False,
    with_std=False`` nothing is released or charged. With ``nan_policy="omit"`` the same is released
    for each column, over its non-missing rows. Replacing a row may add or remove a value; the
    number of values is weighted so that this moves the sums no further. Counts for learned bounds
    take 5%, these at most half. Proof: ``skdp/queries/moments.md`` and ``columns.md``.

    **Weights.** A row and its weight are protected together. With b the `weight_bound`, a row of
    weight v, clipped to [0, b], counts v / b times in the sums. The sum of weights is private under
    both relations: it is another entry of the vector, (v / b) c. *Sensitivity*: c is 1.53 sqrt(d)
    if a row is replaced, which fits into the bound of 2 sqrt(d); 1 if one is added or removed. The
    noise is as large as for sum(v) / b rows, so state a bound near the weights of most rows.
    Standard errors are for the weighted mean and variance, and NaN with learned bounds, which are
    learned without weights. If nearly all weights are 0, the mean is noise, and `scale_` is at
    least that of a uniform column. Proof: ``skdp/core/PROOFS.md``.

    **Small variances.** `fit` raises for no values of finite rows, and no column is divided by
    noise: `scale_` squared is at least the standard error of the variance (but at most the variance
    of a uniform column), and at least 2**-28 of the squared half width, because sums are rounded.
    So the values of a constant column become small, but not zero as in scikit-learn. Tight bounds
    help, because noise is proportional to their width.

    **Expected error.** The root mean square, over columns and fits, of the error of `mean_`,
    divided by the width of the column's bounds. With stated bounds it is relative to the mean of
    the clipped rows. With learned bounds it needs public rows as `like`, and is relative to the
    mean of all rows, so it includes clipping. With a private number of rows it depends on where
    means lie within their bounds: `like` may then also be an earlier fit.

    References
    ----------
    Hardt & Talwar 2010, "On the geometry of differential privacy", section 4 (K-norm mechanism).

    Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPStandardScaler
    >>> X = np.random.default_rng(0).normal([170.0, 70.0], [10.0, 12.0], size=(10_000, 2))
    >>> scaler = DPStandardScaler(bounds=([120, 30], [220, 150]), random_state=0).fit(X)
    >>> np.abs(scaler.mean_ - X.mean(axis=0)) < 1
    array([ True,  True])
    >>> np.abs(scaler.transform(X).std(axis=0) - 1) < 0.1
    array([ True,  True])
    >>> round(DPStandardScaler(epsilon=0.1, bounds=(0, 1)).expected_error(10_000, 1), 4)
    0.0017
    """

    with_mean: bool = True
    with_std: bool = True
    bounds: Any = "private"
    nan_policy: str = "raise"
    weight_bound: Any = "private"

    _in_parts = True

    _parameter_table: ClassVar[Table] = {
        "with_mean": FLAG,
        "with_std": FLAG,
        "nan_policy": NAN_POLICY,
        "weight_bound": WEIGHT_BOUND,
    }

    def _is_free(self) -> bool:
        return not (self.with_std or self.with_mean)

    def fit(
        self, X: ArrayLike, y: Any = None, *, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Charge the budget and release means and variances.

        Parameters
        ----------
        {rows}
        sample_weight : array-like of shape (n_samples,), default=None
            ... A row and its weight are protected together. With ``nan_policy="raise"`` and rows in
            one table only.
        """
        with self._all_or_nothing(groups):
            rows, most = weighted_rows(self, self._open(X), sample_weight)
            stated = self._stated_bounds(rows.n_features)
            nothing: Any = None
            self.mean_ = self.var_ = self.scale_ = nothing
            self.mean_std_error_ = self.var_std_error_ = self.scale_std_error_ = nothing
            if self._is_free():
                self.bounds_, self.n_samples_ = stated, None
                self.privacy_ = self._context().nothing_released()
                return self
            with self._session(rows) as session:
                if self._omits:
                    moments = release_present_moments(session, rows, stated)
                else:
                    self.weight_bound_ = weight_bound_in(session, most)
                    moments = release_moments(session, stated, self.weight_bound_)
            self._set_statistics(moments)
        return self

    def _set_statistics(self, moments: ColumnMoments) -> None:
        """Set means, variances, scales and their errors from released moments."""
        self.bounds_, self.n_samples_ = moments.bounds, moments.n
        mean, square = moments.mean, moments.square
        noise = moments.mean_noise, moments.square_noise, moments.n_noise
        mean_error, variance_error = moment_errors(mean, square, *noise)
        box = Box(*moments.bounds, per_feature=True)
        half = box.half_width
        with np.errstate(over="ignore", under="ignore"):
            self.mean_ = np.clip(box.center + mean * half, *self.bounds_)
            clipped = moments.clipped(self.mean_)
            self.mean_std_error_ = np.hypot(finite(mean_error * half), clipped[0])
            if moments.learned and not moments.weighted:  # errors of weighted ones are all NaN
                warn_of_doubtful_bounds(self, self.mean_std_error_, moments.learned)
            if not self.with_std:
                return
            variance = np.maximum(square - mean**2, 0.0)
            self.var_ = finite(variance * half * half)
            self.var_std_error_ = np.hypot(finite(variance_error * half * half), clipped[1])
            root = np.sqrt(np.maximum(variance, np.clip(variance_error, _RESOLUTION, _UNIFORM)))
            self.scale_ = np.where(root * half > 0.0, root * half, 1.0)
            # The floor is no estimate: it may be as far off as the root of the variance.
            lifted = (root - np.sqrt(variance)) / 3.0 * half
            self.scale_std_error_ = finite(root_error(self.var_, self.var_std_error_) + lifted)

    def _forward(self, values: Floats) -> Floats:
        if self.with_mean and self.mean_ is not None:
            values -= self.mean_
        if self.with_std and self.scale_ is not None:
            values /= self.scale_
        return values

    def _backward(self, values: Floats) -> Floats:
        if self.with_std and self.scale_ is not None:
            values *= self.scale_
        if self.with_mean and self.mean_ is not None:
            values += self.mean_
        return values

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        if self._omits:  # columns share equally, as each has missing cells of its own
            return allowance.part(1 / n_features).moments_std(1)
        # Of squares, as these gain the most from pure noise: by that of means, variances of 20
        # columns had 1.7 times the error with a delta (epsilon 1, rows added or removed).
        return allowance.variance_std(n_features)

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        bounds = self._stated_bounds(d, names_of(like))
        if self._is_free():
            return 0.0
        self._refuse_error_of_present()
        if bounds is None:
            return self._rehearsed_error(n, d, like)
        allowance = self._allowance(d)
        off = np.zeros(d) if allowance.replace else self._off_middle(bounds, like, d)
        return float(allowance.moments_std(d) / n / 2.0 * np.sqrt(np.mean(1.0 + off**2)))

    def _rehearsed_error(self, n: int, d: int, like: Any) -> float:
        """Return the error with learned bounds, from fits to public rows."""
        if like is None or isinstance(like, Scaler):
            raise ValueError(
                "like must be given, as public rows: where learned bounds end, and what they cost, "
                "depends on the rows. Made-up ones will do; or state bounds"
            )

        def squares(fitted: Any, rows: Floats) -> float:
            low, high = fitted.bounds_
            off = fitted.mean_ / 2 - rows.mean(axis=0) / 2
            half = np.maximum(high / 2 - low / 2, np.finfo(float).tiny)
            return float(np.mean((off / half) ** 2))

        return math.sqrt(error_of_fits(self, n, d, like, squares))

    def _off_middle(self, bounds: Any, like: Any, d: int) -> Floats:
        """Return the distance of means from the middle of the bounds, in half widths."""
        if like is None:
            raise ValueError(
                "with a private number of rows the error of a mean depends on where it lies: pass "
                "like=, public rows or an earlier fit"
            )
        low, high = bounds
        center = check_means(like, d)
        if center is None:
            center = np.clip(check_like(self, like, d), low, high).mean(axis=0)
        half = np.maximum(high / 2 - low / 2, np.finfo(float).tiny)
        off: Floats = np.clip((center - (low / 2 + high / 2)) / half, -1.0, 1.0)
        return off


# --- scaling to a range -----------------------------------------------------------------------


def _range(feature_range: Any, name: str = "feature_range") -> tuple[float, float]:
    """Return the range as two floats, or raise."""
    try:
        low, high = (float(side) for side in feature_range)
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"{name} must be a pair (low, high) of finite numbers, low < high")
    return low, high


@documented
class DPMinMaxScaler(Scaler):
    """Scale columns to a range by stated bounds, or by private extreme quantiles.

    The private counterpart of scikit-learn's ``MinMaxScaler``, without ``partial_fit`` and ``copy``
    (the input is never changed). With stated bounds a fit reads no value and costs nothing.

    Parameters
    ----------
    feature_range : tuple (low, high), default=(0, 1)
        Range of the output.
    clip : bool, default=False
        Clip the output to the range. If False, the output for values beyond `data_min_` and
        `data_max_` lies outside it.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high): they become `data_min_` and `data_max_`. ``"private"`` releases
        quantiles instead.
    q : "auto" or float, default="auto"
        For private bounds: level of the lower quantile, in (0, 0.5); the upper one has 1 - q.
        ``"auto"`` takes the most extreme level that noise does not push beyond the rows.
    {omit}
        The number of missing cells is private; with stated bounds nothing is released.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (n_features,)
        The stated bounds; otherwise private quantiles of the levels `q_` and 1 - `q_`, rounded to
        1/4096 of the width of `bounds_`. Where both quantiles are one value, such as 0, `bounds_`:
        the other rows may lie anywhere within them. Always ``data_min_ < data_max_``.
    data_range_ : ndarray of shape (n_features,)
        ``data_max_ - data_min_``.
    scale_, min_ : ndarray of shape (n_features,)
        The output is ``X * scale_ + min_``. A stated range of 0 counts as 1, as in scikit-learn.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        ... The quantiles lie within them.
    q_ : float, ndarray of shape (n_features,) or None
        Level of the lower quantile, with ``nan_policy="omit"`` of each column; None with stated
        bounds.
    {fitted}
        ... With stated bounds there are no releases, and epsilon is 0.

    See Also
    --------
    DPStandardScaler : By mean and standard deviation.

    Notes
    -----
    **Privacy.** With stated bounds nothing is *released* and nothing *charged*. Otherwise:
    *released* are the number of rows, if it is private (2%); bounds (a median, and counts of
    distances from it, for each column, at most 20%); then a lower and an upper quantile of each
    column, for half of the rest each. *Sensitivity* of a cell's score, its distance in ranks from
    the quantile: 1 if a row is replaced, max(q, 1 - q) if one is added or removed. *Mechanism*: the
    exponential mechanism over 4096 equal cells of the bounds, with an equal part for each column.
    With ``nan_policy="omit"`` the same is released for each column, over its non-missing rows:
    their number (5%), bounds (at most half), two quantiles. Proof: ``skdp/queries/columns.md``.

    About a part q of the rows is below the range, and as many are above; `expected_error` returns
    how many. With ``q="auto"`` a cell beyond all rows is chosen with probability below 1/100 for
    each column and side; with too few rows for that, q is 1/4 and the range is as uncertain as the
    bounds. `fit` raises for no values of finite rows: the range of a constant column is at least
    one cell wide.

    **Expected error.** A part of the rows: the mean, over columns and fits, of the rows more than
    1/4096 of `bounds_` below `data_min_` or above `data_max_`; about two times `q_` if values
    differ. At 0.5 and more, epsilon is not enough for any range. Zero with stated bounds. Private
    ones need public rows as `like`: if values repeat, a range may hold all of them.

    References
    ----------
    Smith 2011, "Privacy-preserving statistical estimation with optimal convergence rates",
    Algorithm 2 (private quantiles).

    McSherry & Talwar 2007, "Mechanism design via differential privacy", Theorem 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPMinMaxScaler
    >>> X = np.array([[1.0, -3.0], [2.0, 5.0]])
    >>> scaler = DPMinMaxScaler(bounds=([0, -5], [4, 5])).fit(X)
    >>> scaler.transform(X)
    array([[0.25, 0.2 ],
           [0.5 , 1.  ]])
    >>> scaler.privacy_cost() is None, scaler.privacy_.epsilon
    (True, 0.0)
    """

    feature_range: tuple[float, float] = field(default=(0, 1), kw_only=False)
    clip: bool = False
    bounds: Any = "private"
    q: str | float = "auto"
    nan_policy: str = "raise"

    _in_parts = True

    _parameter_table: ClassVar[Table] = {
        "feature_range": _range,
        "clip": FLAG,
        "nan_policy": NAN_POLICY,
        "q": ("auto", Reals(1e-9, 0.5, "[)")),
    }

    def _is_free(self) -> bool:
        return not isinstance(self.bounds, str)

    def _noise_compared(self, allowance: Allowance, n_features: int | None) -> float:
        # Each column is searched twice, but choices have most of the allowance, so this counts each
        # once. By the noise of learning bounds, or by two choices, ranges of 5 columns were 1.5
        # times as far off with a delta (epsilon 1).
        return math.nan if n_features is None else allowance.choice_scale(n_features)

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Take the stated bounds, or charge the budget and release quantiles.

        Parameters
        ----------
        {rows}
        """
        with self._all_or_nothing(groups):
            rows = self._open(X)
            low, high = _range(self.feature_range)
            stated, learned = self._stated_bounds(rows.n_features), None
            if stated is not None:
                self.bounds_, self.q_ = stated, None
                self.data_min_, self.data_max_ = stated[0].copy(), stated[1].copy()
                self.privacy_ = self._context().nothing_released()
            else:
                with self._session(rows) as session:
                    if self._omits:
                        released = release_present_range(session, rows, self.q)
                    else:
                        released = release_range(session, self.q)
                self.bounds_, learned, self.q_, self.data_min_, self.data_max_ = released
            # Halves first, because the width of huge bounds may overflow.
            half_range = self.data_max_ / 2 - self.data_min_ / 2
            with np.errstate(over="ignore", under="ignore"):
                self.data_range_ = finite(2 * half_range)
                divisor = np.where(half_range > 0, half_range, 0.5)
                self.scale_ = np.clip((high / 2 - low / 2) / divisor, _SMALLEST, _LARGEST)
                self.min_ = finite(low - self.data_min_ * self.scale_)
        warn_of_far_bounds(self, learned)
        return self

    def _forward(self, values: Floats) -> Floats:
        low, high = _range(self.feature_range)
        # X * scale_ + min_, in an order that neither cancels digits nor makes inf - inf.
        values = (values - self.data_min_) * self.scale_ + low
        return np.clip(values, low, high) if self.clip else values

    def _backward(self, values: Floats) -> Floats:
        low, _ = _range(self.feature_range)
        return np.asarray((values - low) / self.scale_ + self.data_min_)

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        if self._stated_bounds(d, names_of(like)) is not None:
            return 0.0
        self._refuse_error_of_present()
        if like is None:
            raise unanswered(
                self, "the rows: on how often values repeat at the ends of a column", fit=False
            )

        def outside(fitted: Any, rows: Floats) -> float:
            low, high = fitted.bounds_
            cell = high / N_CELLS - low / N_CELLS
            beyond = (rows < fitted.data_min_ - cell) | (rows > fitted.data_max_ + cell)
            return float(np.mean(beyond))

        return error_of_fits(self, n, d, like, outside)


# --- scaling by quantiles -------------------------------------------------------------------------
# An interquartile range below this part of the bounds' width is taken for none.
_NARROWEST = 2.0**-16
# As in scikit-learn: ranks are kept this far from 0 and 1 where they become normal deviates.
_CLIPPED_RANK = 1e-7 - np.spacing(1)


def _percentages(quantile_range: Any, name: str = "quantile_range") -> tuple[float, float]:
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
        "quantile_range": _percentages,
        "nan_policy": NAN_POLICY,
        **dict.fromkeys(("with_centering", "with_scaling", "unit_variance"), FLAG),
    }

    def _levels(self) -> list[float]:
        low, high = _percentages(self.quantile_range)
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
                low, high = _percentages(self.quantile_range)
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
        wide = half_range > _NARROWEST * half_width
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
