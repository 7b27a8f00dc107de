"""Counts, sums, means, variances, covariances.

Released: sums of bounded functions of a row under noise, each function in one session; everything
else is made of these. Guarantee: that of the doors of `skdp.kernel`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp import kernel
from skdp._scalers import moment_errors
from skdp.budget import PrivacyBudget
from skdp.statistics._call import (
    Call,
    Floats,
    Released,
    check_axis,
    check_ddof,
    finite_root,
    positive,
    result,
)

__all__ = ["correlation", "count", "count_nonzero", "covariance", "mean", "std", "sum", "var"]

_REPLACE = "replace_one"


def count(
    X: ArrayLike,
    *,
    nan_policy: str = "raise",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the number of rows.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: count the rows without missing cells; that number is private under both
        relations.
    epsilon, delta : float, default=1.0, 0.0
        What the call may lose.
    budget : PrivacyBudget, default=None
        Shared ledger; None stands alone, under "replace_one".
    random_state : None, int or RandomState, default=None
        An integer makes the noise reproducible, and the answer no release.

    Returns
    -------
    released : Released

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: the number of rows. *Sensitivity*: 1. *Mechanism*: discrete Laplace,
    or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta), once, as "count". Where one row
    is replaced and none is left out the number of rows is public: it is exact, and free.

    Examples
    --------
    >>> from skdp import statistics
    >>> statistics.count([3.0, None, 5.0], nan_policy="omit", epsilon=20, random_state=0)
    Released(value=array(2.), std=array(0.00952933))
    """
    call = Call("count", epsilon, delta, budget, random_state, nan_policy)
    rows, _ = call.table(X)
    if call.adjacency == _REPLACE and not call.omits:
        # Public under this relation: no noise is drawn, so nothing is charged.
        free = kernel.open_session(rows, estimator="count", epsilon=epsilon)
        with free:
            return result(free.n_rows, 0.0, call.nothing_released(), flat=False)
    with call.opened(rows, ()) as session:
        release = session.count()
        return result(release.value, release.std, session.certificate(), flat=False)


def count_nonzero(
    X: ArrayLike,
    *,
    axis: int | None = 0,
    nan_policy: str = "raise",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the number of cells that are not 0.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    axis : {0, None}, default=0
        0: of each column. None: of all cells.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    epsilon, delta : float, default=1.0, 0.0
        What the call may lose.
    budget : PrivacyBudget, default=None
        Shared ledger; None stands alone, under "replace_one".
    random_state : None, int or RandomState, default=None
        An integer makes the noise reproducible, and the answer no release.

    Returns
    -------
    released : Released
        Not rounded, and below 0 where noise wants it: so it has no bias.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: one number a column, or one. *Sensitivity*: the square root of the
    number of columns (L2); for ``axis=None`` that number. *Mechanism*: K-norm noise, or rounded
    Gaussian if delta > 0. *Charged*: (epsilon, delta), once, as "count_nonzero".

    Examples
    --------
    >>> from skdp import statistics
    >>> late = [0.0, 12.0, 0.0, 45.0] * 250_000
    >>> statistics.count_nonzero(late, random_state=0).value.round(-2)
    np.float64(500000.0)
    """
    call = Call("count_nonzero", epsilon, delta, budget, random_state, nan_policy)
    across = check_axis(axis, whole=True)
    rows, flat = call.table(X)
    with call.opened(rows, (across,)) as session:
        release = session.clipped_sum(0.0, 1.0, nonzero=True, across=across, name="count_nonzero")
        privacy = session.certificate()
    return result(release.value, release.std, privacy, flat=flat or across)


def sum(  # noqa: A001  as numpy's
    X: ArrayLike,
    *,
    axis: int | None = 0,
    bounds: Any = "private",
    nan_policy: str = "raise",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the sum of the rows, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    axis : {0, None}, default=0
        0: of each column. None: of all cells.
    bounds : "private" or (low, high), default="private"
        Public bounds, numbers or one a column, to which cells are clipped; ``"private"`` learns
        them at a tenth of the allowance.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    epsilon, delta : float, default=1.0, 0.0
        What the call may lose.
    budget : PrivacyBudget, default=None
        Shared ledger; None stands alone, under "replace_one".
    random_state : None, int or RandomState, default=None
        An integer makes the noise reproducible, and the answer no release.

    Returns
    -------
    released : Released

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and one number a column, or one. *Sensitivity*
    (L2): if a row is replaced the diagonal of the bounds, if one is added or removed the distance
    of their furthest corner from 0. *Mechanism*: K-norm noise, or rounded Gaussian if delta > 0.
    *Charged*: (epsilon, delta), once, as "sum".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> minutes = np.arange(1000) % 60
    >>> statistics.sum(minutes, bounds=(0, 60), random_state=0).value.round(-3), minutes.sum()
    (np.float64(29000.0), np.int64(29100))
    """
    call = Call("sum", epsilon, delta, budget, random_state, nan_policy)
    across = check_axis(axis, whole=True)
    rows, flat = call.table(X)
    with call.bounded(rows, bounds, (across,)) as (session, low, high):
        release = session.clipped_sum(low, high, across=across)
        privacy = session.certificate()
    return result(release.value, release.std, privacy, flat=flat or across)


def mean(
    X: ArrayLike,
    *,
    axis: int | None = 0,
    bounds: Any = "private",
    nan_policy: str = "raise",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the mean of the rows, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    axis : {0, None}, default=0
        0: of each column. None: of all cells.
    bounds : "private" or (low, high), default="private"
        Public bounds, numbers or one a column, to which cells are clipped; ``"private"`` learns
        them at a tenth of the allowance.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    epsilon, delta : float, default=1.0, 0.0
        What the call may lose.
    budget : PrivacyBudget, default=None
        Shared ledger; None stands alone, under "replace_one".
    random_state : None, int or RandomState, default=None
        An integer makes the noise reproducible, and the answer no release.

    Returns
    -------
    released : Released
        Within the bounds.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and one number a column, or one.
    *Sensitivity* (L2): if a row is replaced the diagonal of the bounds over the public number of
    rows; else that of the sum together with the number of rows, which are released as one vector.
    *Mechanism*: K-norm noise, or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta),
    once, as "mean".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> ages = np.random.default_rng(0).integers(18, 90, size=5000)
    >>> answer = statistics.mean(ages, bounds=(0, 120), random_state=0)
    >>> bool(abs(answer.value - ages.mean()) < 4 * answer.std)
    True
    """
    call = Call("mean", epsilon, delta, budget, random_state, nan_policy)
    across = check_axis(axis, whole=True)
    rows, flat = call.table(X)
    with call.bounded(rows, bounds, (across,)) as (session, low, high):
        release = session.clipped_mean(low, high, across=across)
        privacy = session.certificate()
    cells = rows.n_features if across else 1
    return result(release.value / cells, release.std / cells, privacy, flat=flat or across)


def _variance(
    call: Call, X: ArrayLike, bounds: Any, ddof: int
) -> tuple[Floats, Floats, kernel.PrivacyCertificate, bool]:
    """Return variances, their standard errors, the certificate, and whether X is flat."""
    rows, flat = call.table(X)
    with call.bounded(rows, bounds, (ddof,)) as (session, low, high):
        view = session.box(low, high, per_feature=True)
        first, second, n = session.moments(view)
        replace = session.adjacency == _REPLACE
        privacy = session.certificate()
    _, error = moment_errors(first.value, second.value, float(np.max(first.std)), replace=replace)
    scale = (high / 2 - low / 2) ** 2 * positive(n, ddof)
    variance = np.maximum(second.value - first.value**2, 0.0) * scale
    return variance, error * scale, privacy, flat


def var(
    X: ArrayLike,
    *,
    axis: int = 0,
    ddof: int = 0,
    bounds: Any = "private",
    nan_policy: str = "raise",
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
    ddof : int, default=0
        The divisor is the number of rows minus this.
    bounds : "private" or (low, high), default="private"
        Public bounds, numbers or one a column, to which cells are clipped; ``"private"`` learns
        them at a tenth of the allowance.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    epsilon, delta : float, default=1.0, 0.0
        What the call may lose.
    budget : PrivacyBudget, default=None
        Shared ledger; None stands alone, under "replace_one".
    random_state : None, int or RandomState, default=None
        An integer makes the noise reproducible, and the answer no release.

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
    column as one vector, with the number of rows where it is private. *Sensitivity*, of sums in
    units of the half width (L2): 2 sqrt(d) if a row is replaced, sqrt(5 d / 4 + 1) if one is
    added or removed. *Mechanism*: K-norm noise, or rounded Gaussian if delta > 0. *Charged*:
    (epsilon, delta), once, as "var".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=10000)
    >>> statistics.var(x, bounds=(-1, 1), random_state=0).value.round(2)
    np.float64(0.33)
    """
    call = Call("var", epsilon, delta, budget, random_state, nan_policy)
    check_axis(axis)
    variance, error, privacy, flat = _variance(call, X, bounds, check_ddof(ddof))
    return result(variance, error, privacy, flat=flat)


def std(
    X: ArrayLike,
    *,
    axis: int = 0,
    ddof: int = 0,
    bounds: Any = "private",
    nan_policy: str = "raise",
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
    ddof : int, default=0
        The divisor is the number of rows minus this.
    bounds : "private" or (low, high), default="private"
        Public bounds, numbers or one a column, to which cells are clipped; ``"private"`` learns
        them at a tenth of the allowance.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    epsilon, delta : float, default=1.0, 0.0
        What the call may lose.
    budget : PrivacyBudget, default=None
        Shared ledger; None stands alone, under "replace_one".
    random_state : None, int or RandomState, default=None
        An integer makes the noise reproducible, and the answer no release.

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
    **Privacy.** As `var`, of which this is the square root. *Released*, *sensitivity*,
    *mechanism*: as there. *Charged*: (epsilon, delta), once, as "std".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=10000)
    >>> statistics.std(x, bounds=(-1, 1), random_state=0).value.round(2)
    np.float64(0.58)
    """
    call = Call("std", epsilon, delta, budget, random_state, nan_policy)
    check_axis(axis)
    variance, error, privacy, flat = _variance(call, X, bounds, check_ddof(ddof))
    deviation = finite_root(variance)
    # First order away from 0, and at 0 as far as the root may be off.
    off = finite_root(error)
    return result(
        deviation, error / np.maximum(2 * deviation, np.maximum(off, 1e-300)), privacy, flat=flat
    )


def _scaled_covariance(
    call: Call, X: ArrayLike, bounds: Any, ddof: int
) -> tuple[Floats, Floats, Floats, kernel.PrivacyCertificate]:
    """Return covariances in units of the half widths, their errors, half widths, certificate."""
    rows, _ = call.table(X)
    with call.bounded(rows, bounds, (ddof,)) as (session, low, high):
        gram = session.gram(kernel.ScaledBall(low, high))
        privacy = session.certificate()
    n, half = gram.n, high / 2 - low / 2
    center = gram.total / n
    factor = positive(n, ddof)
    raw = gram.second_moment / n - np.outer(center, center)
    values, vectors = np.linalg.eigh(raw)
    psd = (vectors * np.maximum(values, 0.0)) @ vectors.T * factor
    diagonal = {"gaussian": np.sqrt(2.0), "wishart": np.sqrt(2.0), "laplace": 1.0}[gram.noise]
    own = np.full(raw.shape, gram.std)
    np.fill_diagonal(own, diagonal * gram.std)
    squares = np.add.outer(center**2, center**2)
    squares += np.diag(2 * center**2)  # twice the same mean
    moved = (np.outer(center, center) - raw) * gram.n_std
    error = np.sqrt(own**2 + squares * gram.total_std**2 + moved**2) / n * factor
    return (psd + psd.T) / 2, error, half, privacy


def covariance(
    X: ArrayLike,
    *,
    ddof: int = 1,
    bounds: Any = "private",
    nan_policy: str = "raise",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the covariance matrix of the columns, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers; columns are variables.
    ddof : int, default=1
        The divisor is the number of rows minus this.
    bounds : "private" or (low, high), default="private"
        Public bounds, numbers or one a column, to which cells are clipped; ``"private"`` learns
        them at a tenth of the allowance.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    epsilon, delta : float, default=1.0, 0.0
        What the call may lose.
    budget : PrivacyBudget, default=None
        Shared ledger; None stands alone, under "replace_one".
    random_state : None, int or RandomState, default=None
        An integer makes the noise reproducible, and the answer no release.

    Returns
    -------
    released : Released, value of shape (n_features, n_features)
        Positive semidefinite: negative eigenvalues, which noise makes, are set to 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, then the second moment of the columns in units
    of their half widths, with their sums and the number of rows, as one matrix. *Sensitivity*:
    that of a ball of radius sqrt(d), `skdp.kernel.statistics.gram_sensitivity`. *Mechanism*:
    symmetrised Wishart noise, or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta),
    once, as "covariance".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(100000, 2))
    >>> statistics.covariance(x, bounds=(-1, 1), random_state=0).value.diagonal().round(2)
    array([0.33, 0.33])
    """
    call = Call("covariance", epsilon, delta, budget, random_state, nan_policy)
    matrix, error, half, privacy = _scaled_covariance(call, X, bounds, check_ddof(ddof))
    units = np.outer(half, half)
    return result(matrix * units, error * units, privacy, flat=False)


def correlation(
    X: ArrayLike,
    *,
    bounds: Any = "private",
    nan_policy: str = "raise",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the matrix of correlation coefficients of the columns, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers; columns are variables.
    bounds : "private" or (low, high), default="private"
        Public bounds, numbers or one a column, to which cells are clipped; ``"private"`` learns
        them at a tenth of the allowance.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    epsilon, delta : float, default=1.0, 0.0
        What the call may lose.
    budget : PrivacyBudget, default=None
        Shared ledger; None stands alone, under "replace_one".
    random_state : None, int or RandomState, default=None
        An integer makes the noise reproducible, and the answer no release.

    Returns
    -------
    released : Released, value of shape (n_features, n_features)
        In [-1, 1], ones on the diagonal; 0 beside a column whose released variance is 0. The
        standard error is at most 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** A function of what `covariance` releases. *Released*, *sensitivity*, *mechanism*:
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
    call = Call("correlation", epsilon, delta, budget, random_state, nan_policy)
    matrix, error, _, privacy = _scaled_covariance(call, X, bounds, 0)
    variance = matrix.diagonal()
    root = np.sqrt(variance)
    known = variance > 1e-12
    safe = np.where(known, root, 1.0)
    both = np.outer(known, known)
    coefficients = np.where(both, np.clip(matrix / np.outer(safe, safe), -1.0, 1.0), 0.0)
    np.fill_diagonal(coefficients, 1.0)
    relative = np.where(known, error.diagonal() / safe**2 / 2, 1.0)
    off = np.sqrt(
        (error / np.outer(safe, safe)) ** 2
        + coefficients**2 * np.add.outer(relative**2, relative**2)
    )
    off = np.where(both, np.minimum(off, 1.0), 1.0)
    np.fill_diagonal(off, 0.0)
    return result(coefficients, off, privacy, flat=False)
