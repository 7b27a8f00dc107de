"""Variances, standard deviations, covariances, correlations.

Released: means and mean squares of the columns, or their second moment with their sums and the
number of rows as one matrix, each in one session; the rest is computed on these numbers, and so
are the standard errors. Guarantee: that of the queries of `skdp.queries`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._scalers import FOURTH_MOMENT, moment_errors, root_error
from skdp.budget import PrivacyBudget
from skdp.core import PrivacyCertificate, ScaledBox
from skdp.queries import GramRelease, SecondMoment, moments
from skdp.statistics._call import (
    Call,
    Floats,
    Released,
    check_axis,
    check_ddof,
    result,
)

_QUOTIENT = 1.0  # how much of a variance's relative error is taken off it in a quotient
_NO_VARIANCE = 1e-12  # in units of the half width squared: what rounding leaves of a variance of 0


def _per_freedom(n: float, ddof: int) -> float:
    """Return n / (n - ddof), of at least one degree of freedom: n may be noisy, and small."""
    return n / max(n - ddof, 1.0)


def _variance(
    call: Call, X: ArrayLike, bounds: Any, ddof: int
) -> tuple[Floats, Floats, PrivacyCertificate, dict[str, Any]]:
    """Return variances, their standard errors, the certificate, and what `result` is told."""
    rows, flat = call.table(X)
    with call.bounded(rows, bounds, (ddof,)) as (session, low, high, learned):
        first, second, count = session.answer(moments(low, high))
        n = float(count.value)
        private = session.adjacency != "replace_one"
        privacy = session.certificate()
    _, error = moment_errors(first.value, second.value, float(np.max(first.std)), float(private))
    scale = (high / 2 - low / 2) ** 2 * _per_freedom(n, ddof)
    variance = np.maximum(second.value - first.value**2, 0.0) * scale
    error = error * scale
    if learned is not None:
        center = low / 2 + high / 2 + first.value * (high / 2 - low / 2)
        clipped = learned.product_errors(center).diagonal()
        error = np.hypot(error, clipped * _per_freedom(n, ddof))
    return variance, error, privacy, {"flat": flat, "bounds": (low, high), "names": rows.names}


def var(
    X: ArrayLike,
    *,
    axis: int = 0,
    keepdims: bool = False,
    ddof: int = 0,
    bounds: Any = "private",
    nan_policy: str = "raise",
    n_rows: str = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the variance of each column, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    axis : {0}, default=0
        Of each column.
    keepdims : bool, default=False
        Keep the axis of the rows, with length 1.
    ddof : int, default=0
        The divisor is the number of rows minus this.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them (see `Released`).
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    n_rows : {"private", "public"}, default="private"
        ``"private"``: the number of rows is protected, so X may be a selection of rows by private
        values. ``"public"``: anyone may know the number of rows; less noise. Not possible under
        "add_or_remove_one".
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
        Rows without an id are left out if a unit is added or removed, and refused otherwise.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    released : Released
        At least 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, then the mean and the mean square of each
    column as one vector, with the number of rows where it is private. *Sensitivity* (L2) of the
    sums, for d columns, in units of half the width of the bounds: 2 sqrt(d) if a row is replaced,
    sqrt(5 d / 4 + 1) if one is added or removed. *Mechanism*: K-norm noise, or rounded Gaussian if
    delta > 0. *Charged*: (epsilon, delta), once, as "var".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=10000)
    >>> statistics.var(x, bounds=(-1, 1)).value.round(1)
    np.float64(0.3)
    """
    call = Call(
        "var",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    check_axis(axis, keepdims)
    variance, error, privacy, told = _variance(call, X, bounds, check_ddof(ddof))
    return result(variance, error, privacy, keepdims=keepdims, asked=bounds, **told)


def std(
    X: ArrayLike,
    *,
    axis: int = 0,
    keepdims: bool = False,
    ddof: int = 0,
    bounds: Any = "private",
    nan_policy: str = "raise",
    n_rows: str = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the standard deviation of each column, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    axis : {0}, default=0
        Of each column.
    keepdims : bool, default=False
        Keep the axis of the rows, with length 1.
    ddof : int, default=0
        The divisor is the number of rows minus this.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them (see `Released`).
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    n_rows : {"private", "public"}, default="private"
        ``"private"``: the number of rows is protected, so X may be a selection of rows by private
        values. ``"public"``: anyone may know the number of rows; less noise. Not possible under
        "add_or_remove_one".
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
        Rows without an id are left out if a unit is added or removed, and refused otherwise.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    released : Released
        At least 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** As for `var`: this is the square root of its answer. *Released*, *sensitivity*,
    *mechanism*: as there. *Charged*: (epsilon, delta), once, as "std".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=10000)
    >>> statistics.std(x, bounds=(-1, 1), random_state=0).value.round(2)
    np.float64(0.58)
    """
    call = Call(
        "std",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    check_axis(axis, keepdims)
    variance, error, privacy, told = _variance(call, X, bounds, check_ddof(ddof))
    deviation, error = np.sqrt(variance), root_error(variance, error)
    return result(deviation, error, privacy, keepdims=keepdims, asked=bounds, **told)


@dataclass(frozen=True)
class _Moments:
    """Released covariances of the columns in units of their half widths, divided by n.

    Attributes
    ----------
    center : ndarray of shape (d,)
        Means, from the middle of the bounds.
    covariance : ndarray of shape (d, d)
        Positive semidefinite.
    lifted : ndarray of shape (d, d)
        By how much that moved each entry, in absolute value.
    half : ndarray of shape (d,)
        Half widths.
    gram : skdp.core.GramRelease
        What they are made of, and how much noise it has.
    privacy : skdp.core.PrivacyCertificate
    bounds : tuple of two ndarrays of shape (d,)
    clipped : ndarray of shape (d, d)
        What learned bounds may have clipped of the covariances; 0 where they are stated.
    """

    center: Floats
    covariance: Floats
    lifted: Floats
    half: Floats
    gram: GramRelease
    privacy: PrivacyCertificate
    bounds: tuple[Floats, Floats] | None = None
    clipped: Any = 0.0

    def errors(self, scale: Floats, pull: Floats) -> Floats:
        """Return the standard errors of C_jk - pull_jk (C_jj + C_kk).

        C is the covariance in units of scale_j scale_k. All entries share one noisy matrix: that
        of a column's sum is in each of its covariances, that of the number of rows in all of them.
        So the derivatives are added up before they are squared. The entries of the matrix
        are uncorrelated under each kind of noise, and the squares add up. Products of two means'
        errors count too: on few rows they are not small. What setting negative eigenvalues to 0
        moved is added with a third, so that three standard errors hold as they did before.

        Parameters
        ----------
        scale : ndarray of shape (d,)
            Above 0.
        pull : ndarray of shape (d, d)
            Symmetric, public or released; 0 on the diagonal.
        """
        gram, units = self.gram, np.outer(scale, scale)
        center, covariance = self.center / scale, self.covariance / units
        # Products. Off the diagonal C_jk has noise of its own, and that of C_jj and C_kk.
        own = (gram.diagonal_std / scale**2) ** 2
        products = (gram.std / units) ** 2 + pull**2 * np.add.outer(own, own)
        np.fill_diagonal(products, own)
        # Sums. That of column j moves C_jk by -c_k, C_jj by -2 c_j, and C_kk not at all.
        moved = (center - 2 * pull * center[:, None]) * (gram.total_std / scale)[:, None]
        sums = moved**2 + (moved**2).T
        np.fill_diagonal(sums, 4 * moved.diagonal() ** 2)  # both sums are the same one
        # Number of rows. C_jk = m_jk / n - t_j t_k / n**2 has the derivative below, over n.
        rise = np.outer(center, center) - covariance
        rise -= pull * np.add.outer(rise.diagonal(), rise.diagonal())
        first_order = (products + sums + (rise * gram.n_std) ** 2) / gram.n**2
        # Second order: the errors of two means, that of the number of rows in both.
        common = np.outer(center, center) * gram.n_std**2
        mean_errors = (gram.total_std / scale) ** 2 + common.diagonal()
        crossed = (np.outer(mean_errors, mean_errors) + 2 * common**2) / gram.n**4
        np.fill_diagonal(crossed, FOURTH_MOMENT * mean_errors**2 / gram.n**4)
        crossed += pull**2 * np.add.outer(crossed.diagonal(), crossed.diagonal())
        lifted = self.lifted / units
        lifted += np.abs(pull) * np.add.outer(lifted.diagonal(), lifted.diagonal())
        errors: Floats = np.sqrt(first_order + crossed) + lifted / 3.0
        if 3 * gram.n_std > gram.n:
            # A number of rows that is not clear of its noise: all that is known are the bounds.
            errors = np.maximum(errors, (np.abs(covariance) + 1.0 / units) / 3.0)
        return errors


def _moments(call: Call, X: ArrayLike, bounds: Any, ddof: int) -> _Moments:
    """Release the second moment of the clipped columns."""
    rows, _ = call.table(X)
    with call.bounded(rows, bounds, (ddof,)) as (session, low, high, learned):
        gram = session.answer(SecondMoment(ScaledBox(low, high)))
        privacy = session.certificate()
    half = high / 2 - low / 2
    found = covariance_of(gram, half, privacy)
    clipped: Any = 0.0
    if learned is not None:
        clipped = learned.product_errors(low / 2 + high / 2 + found.center * half)
        clipped = clipped / np.outer(half, half)
    return replace(found, bounds=(low, high), clipped=clipped)


def covariance_of(gram: GramRelease, half: Floats, privacy: PrivacyCertificate) -> _Moments:
    """Return what a released second moment says of the covariance."""
    center = gram.total / gram.n
    noisy = gram.second_moment / gram.n - np.outer(center, center)
    values, vectors = np.linalg.eigh(noisy)
    psd = (vectors * np.maximum(values, 0.0)) @ vectors.T
    psd = (psd + psd.T) / 2
    return _Moments(center, psd, np.abs(psd - noisy), half, gram, privacy)


def covariance(
    X: ArrayLike,
    *,
    ddof: int = 1,
    bounds: Any = "private",
    nan_policy: str = "raise",
    n_rows: str = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the covariance matrix of the columns, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows of finite numbers; the columns are the variables.
    ddof : int, default=1
        The divisor is the number of rows minus this.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them (see `Released`).
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    n_rows : {"private", "public"}, default="private"
        ``"private"``: the number of rows is protected, so X may be a selection of rows by private
        values. ``"public"``: anyone may know the number of rows; less noise. Not possible under
        "add_or_remove_one".
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
        Rows without an id are left out if a unit is added or removed, and refused otherwise.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    released : Released, value of shape (n_features, n_features)
        Positive semidefinite: negative eigenvalues, which noise may cause, are set to 0. The
        standard error includes the change that this makes. If noise hides a private number of rows,
        it also includes a third of the largest value that the bounds allow.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, then one matrix: the second moment of the
    columns, in units of half the widths of their bounds, with their sums and the number of rows.
    *Sensitivity*: that of rows in a ball of radius sqrt(d), see ``skdp/queries/second_moments.md``.
    *Mechanism*: symmetrised Wishart noise, or rounded Gaussian if delta > 0. *Charged*:
    (epsilon, delta), once, as "covariance".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(100000, 2))
    >>> statistics.covariance(x, bounds=(-1, 1), random_state=0).value.diagonal().round(2)
    array([0.33, 0.33])
    """
    call = Call(
        "covariance",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    ddof = check_ddof(ddof)
    found = _moments(call, X, bounds, ddof)
    d = len(found.half)
    errors = np.hypot(found.errors(np.ones(d), np.zeros((d, d))), found.clipped)
    units = np.outer(found.half, found.half) * _per_freedom(found.gram.n, ddof)
    values, errors = found.covariance * units, errors * units
    return result(values, errors, found.privacy, flat=False, bounds=found.bounds, asked=bounds)


def coefficients_of(found: _Moments) -> tuple[Floats, Floats]:
    """Return correlation coefficients off the diagonal, and their standard errors."""
    variance = found.covariance.diagonal()
    known = variance > _NO_VARIANCE
    scale = np.sqrt(np.where(known, variance, 1.0))
    both = np.outer(known, known)
    ratios = found.covariance / np.outer(scale, scale)
    coefficients = np.where(both, np.clip(ratios, -1.0, 1.0), 0.0)
    np.fill_diagonal(coefficients, 0.0)
    # r = C_jk in units of the standard deviations, which noise moves as well: dr = dC_jk - r / 2
    # (dC_jj + dC_kk). That is right where the noise of a variance is a small part of it; else
    # errors are enlarged, and nothing is claimed where a variance is not clear of its noise.
    errors = found.errors(scale, coefficients / 2)
    d = len(scale)
    part = found.errors(scale, np.zeros((d, d))).diagonal()
    worst = np.maximum.outer(part, part)
    errors = errors / np.maximum(1.0 - _QUOTIENT * worst, 1e-9)
    # The errors of what is clipped of a variance and of a covariance may have one sign.
    clipped = np.zeros((d, d)) + found.clipped / np.outer(scale, scale)
    clipped += np.abs(coefficients) / 2 * np.add.outer(clipped.diagonal(), clipped.diagonal())
    errors = np.hypot(errors, clipped)
    clear = both & (_QUOTIENT * worst < 1.0)
    return coefficients, np.where(clear, np.minimum(errors, 1.0), np.nan)


def correlation(
    X: ArrayLike,
    *,
    bounds: Any = "private",
    nan_policy: str = "raise",
    n_rows: str = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the matrix of correlation coefficients of the columns, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows of finite numbers; the columns are the variables.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them (see `Released`).
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    n_rows : {"private", "public"}, default="private"
        ``"private"``: the number of rows is protected, so X may be a selection of rows by private
        values. ``"public"``: anyone may know the number of rows; less noise. Not possible under
        "add_or_remove_one".
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
        Rows without an id are left out if a unit is added or removed, and refused otherwise.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    released : Released, value of shape (n_features, n_features)
        In [-1, 1], with ones on the diagonal. 0 for the coefficients of a column whose released
        variance is 0. The standard error is at most 1. It is too large if noise reaches the ends of
        the range, and NaN if noise hides a variance: the coefficient is then meaningless.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** Computed from what `covariance` releases. *Released*, *sensitivity*, *mechanism*:
    as there. *Charged*: (epsilon, delta), once, as "correlation".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=100000)
    >>> both = np.column_stack([x, -x])
    >>> statistics.correlation(both, bounds=(-1, 1), random_state=0).value[0, 1].round(1)
    np.float64(-1.0)
    """
    call = Call(
        "correlation",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    found = _moments(call, X, bounds, 0)
    coefficients, errors = coefficients_of(found)
    np.fill_diagonal(coefficients, 1.0)
    np.fill_diagonal(errors, 0.0)
    return result(
        coefficients, errors, found.privacy, flat=False, bounds=found.bounds, asked=bounds
    )
