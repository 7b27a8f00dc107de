"""Scalers whose statistics are private: `DPStandardScaler` and `DPMinMaxScaler`.

`DPStandardScaler` releases each column's mean and mean square, relative to its bounds, with one
vector of noise for all columns; `DPMinMaxScaler` releases nothing where bounds are stated, and
otherwise two extreme quantiles a column. Everything else is post-processing. Both fits are
(epsilon, delta)-differentially private as a whole, purely where ``delta=0``.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skdp import kernel
from skdp._rehearsal import check_like, unanswered
from skdp._scalers import (
    N_CELLS,
    Floats,
    Scaler,
    auto_q,
    check_flag,
    check_means,
    column_epsilon,
    error_of_fits,
    finite,
    moment_errors,
    root_error,
)
from skdp.base import check_bounds
from skdp.budget import PrivacyBudget

__all__ = ["DPMinMaxScaler", "DPStandardScaler"]

# Rounding values and squares to the kernel's steps moves a variance, in units of the squared half
# width, by less than this; below it a variance means nothing.
_RESOLUTION = 2.0**-28
# Variance of a uniform column, in the same units: what a column counts as that noise hides.
_UNIFORM = 1.0 / 3.0
_LARGEST, _SMALLEST = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)


class DPStandardScaler(Scaler):
    """Standardise columns by their differentially private mean and standard deviation.

    The private twin of scikit-learn's ``StandardScaler``, without ``partial_fit``, ``copy`` (the
    input is never changed) and sample weights. Output is float64.

    Parameters
    ----------
    with_mean : bool, default=True
        Subtract the mean.
    with_std : bool, default=True
        Divide by the standard deviation.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Bounds of the columns, as numbers, arrays of shape (n_features,) or a mapping from column
        name to (low, high), in the units of X, from public knowledge; values beyond them count as
        the nearest bound. ``"private"`` learns them, for as much of the allowance as n epsilon over
        the number of columns demands: 16 to 18% at 50,000, 73% at 1,000 (without delta, rows
        replaced).
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Zero: pure epsilon-DP by K-norm noise. Above: Gaussian noise, which is smaller
        where there are several columns.
    budget : PrivacyBudget or None, default=None
        What the fit is charged to; it also says which tables are neighbours. None: the fit stands
        alone, under ``"replace_one"``.
    random_state : int, RandomState or None, default=None
        Seeds post-processing only: noise comes from the operating system. Inside
        ``skdp.config_context(noise="seeded")``, for tests and teaching, it seeds the noise as well.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,) or None
        Noisy mean of the clipped rows, within the bounds; None if ``with_mean`` and ``with_std``
        are both False.
    var_ : ndarray of shape (n_features,) or None
        Noisy variance of the clipped rows, at least 0; None if ``with_std=False``.
    scale_ : ndarray of shape (n_features,) or None
        What columns are divided by: the square root of `var_`, or of a floor where that is
        larger (see Notes); 1.0 for a column whose bounds are equal. None if ``with_std=False``.
    mean_std_error_ : ndarray of shape (n_features,) or None
        Standard error of `mean_`, in the units of X: of the noise and, with learned bounds, of
        what they clip of ordinary columns. NaN where bounds could not be learned well enough (few
        rows, or too many beyond them): state `bounds` then.
    var_std_error_ : ndarray of shape (n_features,) or None
        The same of `var_`, in squared units.
    scale_std_error_ : ndarray of shape (n_features,) or None
        The same of `scale_`, in the units of X. Where the variance is not clear of its noise, a
        third of how far `scale_` may be off.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The bounds, stated or learned. None if nothing was released and no bounds are stated.
    n_samples_ : float or None
        Number of rows: exact under ``"replace_one"``, where it is public, otherwise noisy; None if
        nothing was released. There is no ``n_samples_seen_``.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has names that are strings.
    privacy_ : skdp.kernel.PrivacyCertificate
        What was released, by which mechanism, at which price.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: a parameter out of its range, X not a dense table of
        finite numbers.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPMinMaxScaler : Free where bounds are stated.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (a median and counts of distances of each
    column); then, with u in [-1, 1] a clipped value relative to the middle and the half width
    of its bounds, the sums over rows of u and of u**2 - 1/2 for all d columns, as one vector.
    *Sensitivity* of the vector in L2: 2 sqrt(d) if a row is replaced; sqrt(5 d / 4 + 1) if one is
    added or removed, the number of rows being its last entry. *Mechanism*: K-norm noise
    (``delta=0``) or rounded Gaussian noise. *Charged*: (epsilon, delta), once, before any noise,
    to ``budget``. With ``with_mean=False, with_std=False`` nothing is released or charged.

    **Small variances.** Nothing raises because of what the rows hold, and no column is divided by
    noise: `scale_` squared is at least the standard error of the variance (`var_std_error_`; at
    most a third of the squared half width, the variance of a uniform column), and never below
    2**-28 of the squared half width, which is what rounding to the kernel's steps can resolve. A
    constant column thus becomes one that is small throughout, where scikit-learn's becomes zero.
    Tight bounds help: noise is a part of their width.

    The output of ``transform`` on private rows is as private as these rows are.

    References
    ----------
    Hardt & Talwar 2010, "On the geometry of differential privacy", section 4 (K-norm mechanism).

    Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8.

    ``skdp/kernel/README.md``, "Moments" (sensitivities in integers).

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
    """

    mean_: Floats | None
    var_: Floats | None
    scale_: Floats | None
    mean_std_error_: Floats | None
    var_std_error_: Floats | None
    scale_std_error_: Floats | None

    def __init__(
        self,
        *,
        with_mean: bool = True,
        with_std: bool = True,
        bounds: Any = "private",
        epsilon: float = 1.0,
        delta: float = 0.0,
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.with_mean = with_mean
        self.with_std = with_std
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def _is_free(self) -> bool:
        with_mean = check_flag(self.with_mean, "with_mean")
        return not (check_flag(self.with_std, "with_std") or with_mean)

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        self._is_free()
        self._check_bounds_without_rows()

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Charge the budget and release means and variances.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers.
        y : None
            Ignored.

        Returns
        -------
        self : DPStandardScaler
        """
        with self._all_or_nothing():
            free = self._is_free()
            rows = self._open(X)
            stated = check_bounds(self.bounds, rows.n_features, self._names())
            self.mean_ = self.var_ = self.scale_ = None
            self.mean_std_error_ = self.var_std_error_ = self.scale_std_error_ = None
            if free:
                self.bounds_, self.n_samples_ = stated, None
                self.privacy_ = self._nothing_released()
                return self
            with self._session(rows) as session:
                self.bounds_ = self._bounds_in(session, stated, errors=True)
                box = session.box(*self.bounds_, per_feature=True)
                mean, square, self.n_samples_ = session.answer(kernel.Moments(*self.bounds_))
                replace = session.adjacency == "replace_one"
                self.privacy_, learned = session.certificate(), session.learned
            half_width = box.half_width
            mean_error, variance_error = moment_errors(
                mean.value, square.value, float(mean.std), replace=replace
            )
            with np.errstate(over="ignore", under="ignore"):
                self.mean_ = np.clip(box.center + mean.value * half_width, *self.bounds_)
                self.mean_std_error_ = finite(mean_error * half_width)
                if learned is not None:
                    self.mean_std_error_ = np.hypot(self.mean_std_error_, learned.mean_error())
                if self.with_std:
                    variance = np.maximum(square.value - mean.value**2, 0.0)
                    floor = np.clip(variance_error, _RESOLUTION, _UNIFORM)
                    self.var_ = finite(variance * half_width * half_width)
                    self.var_std_error_ = finite(variance_error * half_width * half_width)
                    if learned is not None:
                        clipped = learned.product_errors(self.mean_).diagonal()
                        self.var_std_error_ = np.hypot(self.var_std_error_, clipped)
                    scale = np.sqrt(np.maximum(variance, floor)) * half_width
                    self.scale_ = np.where(scale > 0.0, scale, 1.0)
                    # The floor is no estimate: it may be as far off as the root of the variance.
                    lifted = np.sqrt(np.maximum(variance, floor)) - np.sqrt(variance)
                    error = root_error(self.var_, self.var_std_error_) + lifted / 3.0 * half_width
                    self.scale_std_error_ = finite(error)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Standardise the caller's rows; values beyond the bounds are not clipped.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Finite numbers; left as they are.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features)
        """
        values = self._public_array(X).copy()
        with np.errstate(over="ignore", under="ignore"):
            if self.with_mean and self.mean_ is not None:
                values -= self.mean_
            if self.with_std and self.scale_ is not None:
                values /= self.scale_
        return finite(values)  # or the next step's error would tell of a huge row

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Return standardised rows to the units of X.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        values = self._scaled_array(X).copy()
        with np.errstate(over="ignore", under="ignore"):
            if self.with_std and self.scale_ is not None:
                values *= self.scale_
            if self.with_mean and self.mean_ is not None:
                values += self.mean_
        return finite(values)

    def expected_error(
        self, n_samples: int, n_features: int | None = None, *, like: Any = None
    ) -> float:
        """Return the standard error of `mean_`, as a part of the width of its bounds.

        Nothing is fitted to private rows, read or charged: it answers whether epsilon is enough.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns; if None, as many as stated bounds or `like` have, or
            ``n_features_in_`` after `fit`.
        like : array-like of shape (n, n_features) or fitted DPStandardScaler, default=None
            Public rows that resemble the private ones (made-up ones will do), **never the private
            rows themselves**. Needed with learned bounds, which are rehearsed on them; and where
            the number of rows is private, as the error then depends on where the means lie in
            their bounds: there an earlier fit will do.

        Returns
        -------
        error : float
            Unit: the width of a column's bounds, stated or as a fit learns them; the root mean
            square over columns and fits. With stated bounds of the noise, about the mean of the
            clipped rows; with learned ones about the mean of all rows, so that what is clipped
            counts. Zero if nothing is released.

        Raises
        ------
        ValueError
            If the answer depends on the rows and `like` is not given.

        Examples
        --------
        >>> from skdp.preprocessing import DPStandardScaler
        >>> round(DPStandardScaler(epsilon=0.1, bounds=(0, 1)).expected_error(10_000, 1), 4)
        0.0017
        """
        n, d = self._sizes(n_samples, n_features, like=like, bounds=self.bounds)
        bounds = check_bounds(self._by_position(like).bounds, d)
        cost = self.privacy_cost()
        if cost is None:
            return 0.0
        if bounds is None:
            return self._rehearsed_error(n, d, like)
        replace = self._adjacency == "replace_one"
        sensitivity = 2.0 * math.sqrt(d) if replace else math.sqrt(1.25 * d + 1.0)
        if cost.mu is not None:
            noise = sensitivity / cost.mu
        else:
            entries = 2 * d if replace else 2 * d + 1
            noise = sensitivity / cost.epsilon * math.sqrt(entries + 1)
        off = np.zeros(d) if replace else self._off_middle(bounds, like, d)
        return float(noise / n / 2.0 * np.sqrt(np.mean(1.0 + off**2)))

    def _rehearsed_error(self, n: int, d: int, like: Any) -> float:
        """Return the error with learned bounds, of fits to public rows."""
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

        return math.sqrt(error_of_fits(self, self._adjacency, n, d, like, squares))

    def _off_middle(self, bounds: Any, like: Any, d: int) -> Floats:
        """Return how far means like those given lie off the middle, in half widths."""
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


def _check_range(feature_range: Any) -> tuple[float, float]:
    """Return the range as two floats, or raise."""
    try:
        low, high = (float(side) for side in feature_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("feature_range must be a pair (low, high) of finite numbers, low < high")
    return low, high


def _check_q(q: Any) -> float | None:
    """Return the level of the lower quantile, or None for ``"auto"``."""
    if isinstance(q, str) and q == "auto":
        return None
    if isinstance(q, bool | np.bool_) or not isinstance(q, int | float | np.number):
        raise TypeError(f"q must be 'auto' or a number in (0, 0.5), got {type(q).__name__}")
    if not 0.0 < q < 0.5:
        raise ValueError(f"q must be 'auto' or a number in (0, 0.5), got {float(q)!r}")
    return float(q)


class DPMinMaxScaler(Scaler):
    """Scale columns to a range by stated bounds, or by private extreme quantiles.

    The private twin of scikit-learn's ``MinMaxScaler``, without ``partial_fit`` and ``copy`` (the
    input is never changed). With stated bounds a fit looks at no value and costs nothing. Output
    is float64.

    Parameters
    ----------
    feature_range : tuple (low, high), default=(0, 1)
        Range of the output.
    clip : bool, default=False
        Clip the output to the range. Without it, rows beyond `data_min_` and `data_max_` leave
        it.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Bounds of the columns, as numbers, arrays of shape (n_features,) or a mapping from column
        name to (low, high), in the units of X, from public knowledge: they become `data_min_` and
        `data_max_`. ``"private"`` releases quantiles instead.
    q : "auto" or float, default="auto"
        For private bounds: level of the lower quantile, in (0, 0.5); the upper one has 1 - q.
        ``"auto"`` takes the most extreme level that noise does not push beyond the rows.
    epsilon : float, default=1.0
        Privacy loss of a fit that releases something; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above zero, the losses of the columns' quantiles add up less quickly.
    budget : PrivacyBudget or None, default=None
        What the fit is charged to; it also says which tables are neighbours. None: the fit stands
        alone, under ``"replace_one"``.
    random_state : int, RandomState or None, default=None
        Seeds post-processing only: noise comes from the operating system. Inside
        ``skdp.config_context(noise="seeded")``, for tests and teaching, it seeds the noise as well.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (n_features,)
        The stated bounds; else private quantiles of the levels `q_` and 1 - `q_`, to 1/4096 of
        `bounds_`, ``data_min_ < data_max_``.
    data_range_ : ndarray of shape (n_features,)
        ``data_max_ - data_min_``.
    scale_, min_ : ndarray of shape (n_features,)
        The output is ``X * scale_ + min_``. The scale of a column of stated range 0 is that of
        range 1, as in scikit-learn.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The bounds, stated or learned; the quantiles lie within them.
    q_ : float or None
        Level of the lower quantile; None with stated bounds.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has names that are strings.
    privacy_ : skdp.kernel.PrivacyCertificate
        What was released, by which mechanism, at which price; with stated bounds it says that
        nothing was: no releases, epsilon 0.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: a parameter out of its range, X not a dense table of
        finite numbers.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit` with private bounds, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPStandardScaler : By mean and standard deviation.

    Notes
    -----
    **Privacy.** With stated bounds nothing is *released* and nothing *charged*. Otherwise:
    *released* are the number of rows where it is private (2%); bounds (a median and counts of
    distances of each column, at most 20%); then a lower and an upper quantile of
    each column, half of the rest each. *Sensitivity* of a cell's score, its distance in ranks
    from the quantile: 1 if a row is replaced, max(q, 1 - q) if one is added or removed.
    *Mechanism*: exponential mechanism over 4096 equal cells of the bounds, each column taking an
    equal part. *Charged*: (epsilon, delta), once, before any noise, to ``budget``.

    Quantiles leave about q of the rows below the range and as many above it; `expected_error`
    says how many. With ``q="auto"`` a cell beyond all rows is chosen with probability below
    1/100 a column and side; where the rows are too few for that, q is 1/4 and the range is as
    uncertain as the bounds. Nothing raises because of what the rows hold: constant columns and
    single rows give a range that is at least one cell wide.

    The output of ``transform`` on private rows is as private as these rows are.

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

    q_: float | None

    def __init__(
        self,
        feature_range: tuple[float, float] = (0, 1),
        *,
        clip: bool = False,
        bounds: Any = "private",
        q: str | float = "auto",
        epsilon: float = 1.0,
        delta: float = 0.0,
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.feature_range = feature_range
        self.clip = clip
        self.bounds = bounds
        self.q = q
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def _is_free(self) -> bool:
        return not isinstance(self.bounds, str)

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        _check_range(self.feature_range)
        check_flag(self.clip, "clip")
        _check_q(self.q)
        self._check_bounds_without_rows()

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Take the stated bounds, or charge the budget and release quantiles.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers.
        y : None
            Ignored.

        Returns
        -------
        self : DPMinMaxScaler
        """
        with self._all_or_nothing():
            low, high = _check_range(self.feature_range)
            check_flag(self.clip, "clip")
            q = _check_q(self.q)
            rows = self._open(X)
            stated = check_bounds(self.bounds, rows.n_features, self._names())
            if stated is not None:
                self.bounds_, self.q_ = stated, None
                self.data_min_, self.data_max_ = stated[0].copy(), stated[1].copy()
                self.privacy_ = self._nothing_released()
            else:
                with self._session(rows) as session:
                    self._release_quantiles(session, q)
                    self.privacy_ = session.certificate()
            # Halves first, because the width of huge bounds may overflow.
            half_range = self.data_max_ / 2 - self.data_min_ / 2
            with np.errstate(over="ignore", under="ignore"):
                self.data_range_ = finite(2 * half_range)
                divisor = np.where(half_range > 0, half_range, 0.5)
                self.scale_ = np.clip((high / 2 - low / 2) / divisor, _SMALLEST, _LARGEST)
                self.min_ = finite(low - self.data_min_ * self.scale_)
        return self

    def _release_quantiles(self, session: kernel.Session, q: float | None) -> None:
        """Set bounds_, q_, data_min_ and data_max_ from releases of the session."""
        self.bounds_ = self._bounds_in(session, None)
        if q is None:
            replace = session.adjacency == "replace_one"
            assert session.learned is not None
            n = float(session.n_rows) if replace else session.learned.n
            level = session.level(session.rest / 2)
            epsilon = column_epsilon(level, session.n_features, pure=session.pure)
            q = auto_q(max(n, 1.0), epsilon)
        self.q_ = q
        box = session.box(*self.bounds_, per_feature=True)
        each = session.rest / 2
        lower = kernel.CellQuantile(box, q, N_CELLS)
        first = session.answer(lower, each, name="lower quantile").value
        # Rounded, because the kernel's integer scores are as long as the level's decimals.
        p = round(1.0 - q, 12)
        upper = kernel.CellQuantile(box, p, N_CELLS)
        last = session.answer(upper, each, name="upper quantile").value
        # From the middles of the cells to their outer edges. Noise may exchange the two.
        half_cell = (self.bounds_[1] - self.bounds_[0]) / N_CELLS / 2
        self.data_min_ = np.minimum(first, last) - half_cell
        self.data_max_ = np.maximum(first, last) + half_cell

    def transform(self, X: ArrayLike) -> Floats:
        """Scale the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Finite numbers; left as they are.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features)
        """
        low, high = _check_range(self.feature_range)
        # X * scale_ + min_, in an order that neither cancels digits nor makes inf - inf.
        with np.errstate(over="ignore", under="ignore"):
            values = (self._public_array(X) - self.data_min_) * self.scale_ + low
        # Without clip: the largest float, or the next step's error would tell of a huge row.
        return np.clip(values, low, high) if self.clip else finite(values)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Return scaled rows to the units of X.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        low, _ = _check_range(self.feature_range)
        with np.errstate(over="ignore", under="ignore"):
            return finite((self._scaled_array(X) - low) / self.scale_ + self.data_min_)

    def expected_error(
        self, n_samples: int, n_features: int | None = None, *, like: Any = None
    ) -> float:
        """Return which part of the rows a column's range will leave out, on average.

        Nothing is fitted to private rows, read or charged: it answers whether epsilon is enough.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns; if None, as many as stated bounds or `like` have, or
            ``n_features_in_`` after `fit`.
        like : array-like of shape (n, n_features), default=None
            Public rows that resemble the private ones (made-up ones will do), **never the private
            rows themselves**, on which the fit is rehearsed. Needed for private bounds: where
            values repeat, a range may hold all of them.

        Returns
        -------
        error : float
            Unit: a part of the rows. The mean over columns and fits of the rows below `data_min_`
            or above `data_max_` by more than 1/4096 of `bounds_`: about two times `q_` where values
            differ. 0.5 and more mean that epsilon is not enough for any range. Zero with stated
            bounds, which are what you say.

        Raises
        ------
        ValueError
            If bounds are private and `like` is not given.

        Examples
        --------
        >>> import numpy as np
        >>> from skdp.preprocessing import DPMinMaxScaler
        >>> public = np.random.default_rng(0).normal(size=(500, 4))
        >>> DPMinMaxScaler(epsilon=1.0).expected_error(100_000, like=public) < 0.01
        True
        """
        n, d = self._sizes(n_samples, n_features, like=like, bounds=self.bounds)
        _check_q(self.q)
        if check_bounds(self._by_position(like).bounds, d) is not None:
            return 0.0
        self._check_privacy_parameters()
        if like is None:
            raise unanswered(
                self, "the rows: on how often values repeat at the ends of a column", fit=False
            )

        def outside(fitted: Any, rows: Floats) -> float:
            low, high = fitted.bounds_
            cell = high / N_CELLS - low / N_CELLS
            beyond = (rows < fitted.data_min_ - cell) | (rows > fitted.data_max_ + cell)
            return float(np.mean(beyond))

        return error_of_fits(self, self._adjacency, n, d, like, outside)
