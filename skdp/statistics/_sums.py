"""Counts, sums, means.

Released: the number of rows, and sums of bounded functions of a row, under noise. Guarantee: that
of the queries of `skdp.queries`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._parameters import FLAG, check_parameter
from skdp._scalers import moment_errors
from skdp.budget import PrivacyBudget
from skdp.confidence.limits import MeanLimits, spread_seen
from skdp.core import Mean, Release, Session, Sum, open_session, released
from skdp.queries import LearnedBox, Moments, sum_view
from skdp.statistics._call import Call, Floats, Released, check_axis, result


def count(
    X: ArrayLike,
    *,
    nan_policy: str = "raise",
    n_rows: str = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
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
        ``"omit"``: leave out rows with missing cells. The number of the other rows is private.
    n_rows : {"private", "public"}, default="private"
        ``"private"``: the number of rows is protected, so X may be a selection of rows by private
        values. ``"public"``: anyone may know the number of rows; less noise. Not possible under
        "add_or_remove_one".
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
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

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: the number of rows. *Sensitivity*: 1. *Mechanism*: discrete Laplace,
    or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta), once, as "count". With
    ``n_rows="public"`` the number is exact and free.

    Examples
    --------
    >>> from skdp import statistics
    >>> statistics.count([3.0, None, 5.0], nan_policy="omit", epsilon=20, random_state=0)
    Released(value=2.0, std=6.420519653322878e-05)
    """
    call = Call(
        "count",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    rows, _ = call.table(X)
    if call.n_rows == "public":
        # Said to be: no noise is drawn, so nothing is charged.
        free = open_session(
            rows, estimator="count", epsilon=epsilon, delta=delta, random_state=random_state
        )
        with free:
            return result(free.n_rows, 0.0, call.nothing_released(), flat=False)
    with call.opened(rows, ()) as session:
        release = session.row_count()
        return result(release.value, release.std, session.certificate(), flat=False)


def count_nonzero(
    X: ArrayLike,
    *,
    axis: int | None = 0,
    keepdims: bool = False,
    nan_policy: str = "raise",
    n_rows: str = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
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
        0: for each column. None: for all cells together.
    keepdims : bool, default=False
        Keep the axis of the rows, with length 1.
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells.
    n_rows : {"private", "public"}, default="private"
        ``"private"``: the number of rows is protected, so X may be a selection of rows by private
        values. ``"public"``: anyone may know the number of rows; less noise. Not possible under
        "add_or_remove_one".
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
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
        Neither rounded nor cut off at 0, so it has no bias.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: one number for each column, or one for all cells. *Sensitivity*: the
    square root of the number of columns (L2); for ``axis=None``, the number of columns.
    *Mechanism*: K-norm noise, or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta), once,
    as "count_nonzero".

    Examples
    --------
    >>> from skdp import statistics
    >>> late = [0.0, 12.0, 0.0, 45.0] * 250_000
    >>> statistics.count_nonzero(late, random_state=0).value.round(-2)
    np.float64(500000.0)
    """
    call = Call(
        "count_nonzero",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    across = check_axis(axis, keepdims, whole=True)
    rows, flat = call.table(X)
    with call.opened(rows, (across,)) as session:
        release = _sum(session, 0.0, 1.0, nonzero=True, across=across, name="count_nonzero")
        privacy = session.certificate()
    return result(
        release.value,
        release.std,
        privacy,
        flat=flat,
        across=across,
        keepdims=keepdims,
        names=rows.names,
    )


def _sum(
    session: Session,
    low: Floats | float,
    high: Floats | float,
    *,
    across: bool,
    nonzero: bool = False,
    name: str = "sum",
) -> Release:
    """Release the sum of the clipped rows.

    Where the number of rows is public, of what rows differ from the middle of their bounds, which
    is less; its share of the sum is public.
    """
    replace = session.adjacency == "replace_one"
    view = sum_view(
        low, high, session.n_features, nonzero=nonzero, across=across, about_zero=not replace
    )
    found: Release = session.answer(Sum(view), name=name)
    base = session.n_rows * view.center if replace else view.center
    return released(base + found.value, found.std)


def _with_clipping(
    std: Floats, learned: LearnedBox | None, *, across: bool, mean: bool = False
) -> Floats:
    """Return standard errors of sums or means with what learned bounds clip."""
    if learned is None:
        return std
    clipped = learned.mean_error() if mean else learned.sum_error()
    # Of all cells: the errors of columns may have one sign.
    error: Floats = np.hypot(std, np.sum(clipped, keepdims=True) if across else clipped)
    return error


def sum(  # noqa: A001  as numpy's
    X: ArrayLike,
    *,
    axis: int | None = 0,
    keepdims: bool = False,
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
    """Return the sum of the rows, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    axis : {0, None}, default=0
        0: for each column. None: for all cells together.
    keepdims : bool, default=False
        Keep the axis of the rows, with length 1.
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

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and one number for each column, or one for all
    cells. *Sensitivity* (L2): if a row is replaced, the diagonal of the bounds; if one is added or
    removed, the distance of their furthest corner from 0. *Mechanism*: K-norm noise, or rounded
    Gaussian if delta > 0. *Charged*: (epsilon, delta), once, as "sum".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> minutes = np.arange(1000) % 60
    >>> total = statistics.sum(minutes, bounds=(0, 60))
    >>> bool(abs(total.value - minutes.sum()) < 20 * total.std)
    True
    """
    call = Call(
        "sum",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    across = check_axis(axis, keepdims, whole=True)
    rows, flat = call.table(X)
    with call.bounded(rows, bounds, (across,)) as (session, low, high, learned):
        release = _sum(session, low, high, across=across)
        std = _with_clipping(release.std, learned, across=across)
        privacy = session.certificate()
    return result(
        release.value,
        std,
        privacy,
        flat=flat,
        across=across,
        keepdims=keepdims,
        bounds=(low, high),
        asked=bounds,
        names=rows.names,
    )


def mean(
    X: ArrayLike,
    *,
    axis: int | None = 0,
    keepdims: bool = False,
    intervals: bool = False,
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
    """Return the mean of the rows, clipped to bounds.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    axis : {0, None}, default=0
        0: for each column. None: for all cells together.
    keepdims : bool, default=False
        Keep the axis of the rows, with length 1.
    intervals : bool, default=False
        True: also release the mean square, so that `Released.population_interval` is known. The
        noise of uniform values was then 1 to 1.7 times as large. Only with ``axis=0``.
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
        Within the bounds.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and one number for each column, or one for all
    cells. *Sensitivity* (L2): if the number of rows is public, the diagonal of the bounds divided
    by that number; otherwise that of the sum together with the number of rows, which are released
    as one vector. *Mechanism*: K-norm noise, or rounded Gaussian if delta > 0. With
    ``intervals=True``: what `var` releases. *Charged*: (epsilon, delta), once, as "mean".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> ages = np.random.default_rng(0).integers(18, 90, size=5000)
    >>> answer = statistics.mean(ages, bounds=(0, 120), random_state=0)
    >>> bool(abs(answer.value - ages.mean()) < 4 * answer.std)
    True
    """
    call = Call(
        "mean",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    across = check_axis(axis, keepdims, whole=True)
    check_parameter(intervals, "intervals", FLAG)
    if intervals:
        return _mean_with_intervals(call, X, bounds, keepdims, across=across)
    rows, flat = call.table(X)
    with call.bounded(rows, bounds, (across,)) as (session, low, high, learned):
        view = sum_view(low, high, rows.n_features, across=across)
        release = session.answer(Mean(view, count_error=True))
        std = _with_clipping(release.std, learned, across=across, mean=True)
        privacy = session.certificate()
    cells = rows.n_features if across else 1
    value, std = release.value / cells, std / cells
    return result(
        value,
        std,
        privacy,
        flat=flat,
        across=across,
        keepdims=keepdims,
        bounds=(low, high),
        asked=bounds,
        names=rows.names,
    )


def _mean_with_intervals(
    call: Call, X: ArrayLike, bounds: Any, keepdims: bool, *, across: bool
) -> Released:
    """Return means with what tells how far they are from those of a population."""
    if across:
        raise ValueError("axis must be 0 with intervals=True: cells of one row are not independent")
    rows, flat = call.table(X)
    with call.bounded(rows, bounds, ("intervals",)) as (session, low, high, learned):
        first, second, n = session.answer(Moments(low, high))
        private = float(session.adjacency != "replace_one")
        clusters = float(session.max_rows_per_unit or 1)
        pure, privacy = session.pure, session.certificate()
    center, half = low / 2 + high / 2, high / 2 - low / 2
    noise = float(np.max(first.std))
    error, spread_error = moment_errors(first.value, second.value, noise, private)
    value = np.clip(center + half * first.value, low, high)
    error, spread_error = half * error, half**2 * spread_error
    if learned is not None:
        error = np.hypot(error, learned.mean_error())
        spread_error = np.hypot(spread_error, learned.product_errors(value).diagonal())
    spread = spread_seen((second.value - first.value**2) * half**2, spread_error)
    limits = MeanLimits(value, error, clusters * spread / max(n - 1.0, 1.0), low, high, pure)
    return result(
        value,
        error,
        privacy,
        flat=flat,
        keepdims=keepdims,
        bounds=(low, high),
        asked=bounds,
        limits=limits,
        names=rows.names,
    )
