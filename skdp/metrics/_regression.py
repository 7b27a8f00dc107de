"""R², mean squared and mean absolute error of predictions of numbers on held-out private rows.

Released: sums and sums of squares of how far predictions are from their numbers, and of these
numbers, with the number of rows, under one noise. Guarantee: that of `skdp.core.Moments`;
everything else is computed from what it answers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._parameters import Reals, shown
from skdp._public_key import public_key
from skdp.base import check_bounds
from skdp.budget import PrivacyBudget
from skdp.confidence.equations import Floats, Noise
from skdp.metrics._call import context_of
from skdp.metrics._errors import RegressionErrors, Sums
from skdp.metrics._estimate import Estimate
from skdp.planning import bounds_in
from skdp.queries import LearnedBox, Moments
from skdp.tabular import check_errors

__all__ = [
    "RegressionErrors",
    "mean_absolute_error",
    "mean_squared_error",
    "r2_score",
    "regression_errors",
]

_LARGEST_BOUND, _SMALLEST_BOUND = 1e100, 1e-100


def _check_most(max_error: Any) -> float | None:
    """Return the stated bound of absolute errors, or None for ``"private"``."""
    if isinstance(max_error, str) and max_error == "private":
        return None
    allowed = Reals(0.0, _LARGEST_BOUND, "(]")
    if not (allowed.is_kind(max_error) and allowed.has(max_error)):
        raise ValueError(
            "max_error must be 'private' or a positive number from public knowledge: what absolute "
            f"errors are clipped to; got {shown(max_error)}"
        )
    return float(max_error)


def _check_targets(bounds: Any) -> tuple[float, float] | None:
    """Return the stated bounds of targets, or None for ``"private"``."""
    try:
        stated = check_bounds(bounds, 1)
    except (TypeError, ValueError) as error:
        text = str(error)
        raise type(error)(f"target_{text}" if text.startswith("bounds") else text) from None
    if stated is None:
        return None
    low, high = (float(side[0]) for side in stated)
    if not high / 2 - low / 2 >= _SMALLEST_BOUND or max(abs(low), abs(high)) > _LARGEST_BOUND:
        raise ValueError(
            f"target_bounds must be two numbers within {_LARGEST_BOUND:g} of 0, low < high by at "
            f"least {2 * _SMALLEST_BOUND:g}"
        )
    return low, high


def _released(
    name: str,
    y_true: Any,
    y_pred: Any,
    max_error: Any,
    target_bounds: Any = None,
    *,
    targets: bool = False,
    **options: Any,
) -> RegressionErrors:
    """Charge, and release the sums."""
    most = _check_most(max_error)
    pair = _check_targets(target_bounds) if targets else None
    context = context_of(name, options)
    context.unit()
    rows = check_errors(y_true, y_pred, estimator=name, targets=targets)
    known = most is not None and (pair is not None or not targets)
    public = (name, most, pair)
    with context.open(rows, lambda: public_key(public)) as session:
        stated = None
        if most is not None and known:
            ends = ([pair] if pair is not None else []) + [(0.0, most)]
            stated = (np.array([a for a, _ in ends]), np.array([float(b) for _, b in ends]))
        (low, high), learned = bounds_in(session, stated, errors=True, share=None)
        low, high = _used(low, high, most, pair)
        first, second, n = session.answer(Moments(low, high))
        privacy = session.certificate()
        noise = Noise(float(np.max(first.std)) * n, session.pure, whole=False)
    sums = Sums(
        first=float(first.value[-1]) * n,
        second=float(second.value[-1] - 0.5) * n,
        n=n,
        most=float(high[-1]),
        noise=noise,
        clipped=(0.0, 0.0, 0.0),
        learned=learned is not None and not known,
    )
    if targets:
        half = float(high[0] / 2 - low[0] / 2)
        sums = replace(
            sums,
            target_first=float(first.value[0]) * n,
            target_second=float(second.value[0] - 0.5) * n,
            target_half=half,
        )
    if learned is not None and not known:
        middle = float(low[0] / 2 + high[0] / 2 + first.value[0] * (high[0] - low[0]) / 2)
        clipped = _clipped(learned, most, pair, sums, middle if targets else math.nan)
        sums = replace(sums, clipped=clipped)
    bounds = (float(low[0]), float(high[0])) if targets else None
    return RegressionErrors(float(high[-1]), bounds, privacy, sums)


def _used(
    low: Floats, high: Floats, most: float | None, pair: tuple[float, float] | None
) -> tuple[Floats, Floats]:
    """Return bounds with what is stated in its place; errors begin at 0, and no box is flat."""
    low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    low[-1] = 0.0
    high[-1] = max(float(high[-1]), _SMALLEST_BOUND) if most is None else most
    if len(low) > 1:
        if pair is not None:
            low[0], high[0] = pair
        if not low[0] < high[0]:
            wide = max(abs(float(low[0])), 1.0) * 2.0**-20
            low[0], high[0] = low[0] - wide, high[0] + wide
    return low, high


def _clipped(
    learned: LearnedBox,
    most: float | None,
    pair: tuple[float, float] | None,
    sums: Sums,
    middle: float,
) -> tuple[float, float, float]:
    """Return what learned bounds may have clipped of the means; 0 of what is stated."""
    half = sums.most / 2
    centers = np.zeros(len(learned.low))
    if len(centers) > 1:
        centers[0] = middle
    products = learned.product_errors(centers).diagonal()
    absolute = squared = variance = 0.0
    if most is None:
        absolute, squared = float(learned.mean_error()[-1]) / half, float(products[-1]) / half**2
    if len(centers) > 1 and pair is None:
        variance = float(products[0]) / sums.target_half**2
    return absolute, squared, variance


def regression_errors(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    target_bounds: Any = "private",
    max_error: Any = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> RegressionErrors:
    """Return R², mean squared and mean absolute error of held-out private rows, for one charge.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private numbers of held-out rows.
    y_pred : array-like of shape (n_samples,)
        The prediction of the model for each row, from that row alone.
    target_bounds : "private" or tuple (low, high), default="private"
        Range of `y_true`, from public knowledge; numbers beyond it count as the nearest bound.
        ``"private"`` learns it.
    max_error : "private" or float, default="private"
        The bound to which absolute errors are clipped, from public knowledge. ``"private"`` learns
        it. If either this or `target_bounds` is not stated, both are learned, for 14 to 80% of the
        allowance.
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
    errors : RegressionErrors

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, then sums and sums of squares of errors and
    targets, in units of half the width of their bounds, with the number of rows. *Sensitivity*:
    that of `skdp.core.Moments` of two columns. *Mechanism*: K-norm noise, or rounded Gaussian if
    delta > 0. *Charged*: (epsilon, delta), once, as "regression_errors". The model must be public,
    or trained privately, and each prediction must depend on its own row alone.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import metrics
    >>> x = np.linspace(-1, 1, 5000)
    >>> errors = metrics.regression_errors(x + np.sin(x * 1e4) / 4, x, target_bounds=(-2, 2),
    ...     max_error=0.5)
    >>> bool(0.8 < float(errors.r2()) < 1), bool(abs(float(errors.mae()) - 0.16) < 0.05)
    (True, True)
    """
    return _released(
        "regression_errors",
        y_true,
        y_pred,
        max_error,
        target_bounds,
        targets=True,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    )


def r2_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    target_bounds: Any = "private",
    max_error: Any = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Estimate:
    """Return the coefficient of determination R² of held-out private rows.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private numbers of held-out rows.
    y_pred : array-like of shape (n_samples,)
        The prediction of the model for each row, from that row alone.
    target_bounds : "private" or tuple (low, high), default="private"
        Range of `y_true`, from public knowledge; numbers beyond it count as the nearest bound.
        ``"private"`` learns it.
    max_error : "private" or float, default="private"
        The bound to which absolute errors are clipped, from public knowledge. ``"private"`` learns
        it. If either this or `target_bounds` is not stated, both are learned, for 14 to 80% of the
        allowance.
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
    r2 : Estimate
        At most 1; NaN if noise hides the variance of the targets.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `regression_errors`, which also
    gives the mean errors at the same cost. *Charged*: (epsilon, delta), once, as "r2_score".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import metrics
    >>> x = np.linspace(-1, 1, 5000)
    >>> y = x + np.sin(x * 1e4) / 4
    >>> r2 = metrics.r2_score(y, x, target_bounds=(-2, 2), max_error=0.5)
    >>> bool(0.8 < float(r2) < 1)
    True
    """
    return _released(
        "r2_score",
        y_true,
        y_pred,
        max_error,
        target_bounds,
        targets=True,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    ).r2()


def mean_squared_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    max_error: Any = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Estimate:
    """Return the mean squared error of held-out private rows.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private numbers of held-out rows.
    y_pred : array-like of shape (n_samples,)
        The prediction of the model for each row, from that row alone.
    max_error : "private" or float, default="private"
        The bound to which absolute errors are clipped, from public knowledge. ``"private"`` learns
        it, for 14 to 80% of the allowance.
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
    error : Estimate
        In squared units of the targets.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: a bound, if not stated, then the sums of errors and of their squares,
    in units of half the width of this bound, with the number of rows. *Sensitivity*: that of
    `skdp.core.Moments` of one column. *Mechanism*: K-norm noise, or rounded Gaussian if delta > 0.
    *Charged*: (epsilon, delta), once, as "mean_squared_error". The model must be public, or trained
    privately, and each prediction must depend on its own row alone.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import metrics
    >>> x = np.linspace(-1, 1, 5000)
    >>> error = metrics.mean_squared_error(x + np.sin(x * 1e4) / 4, x, max_error=0.5)
    >>> bool(abs(float(error) - 0.031) < 0.01)
    True
    """
    return _released(
        "mean_squared_error",
        y_true,
        y_pred,
        max_error,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    ).mse()


def mean_absolute_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    max_error: Any = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Estimate:
    """Return the mean absolute error of held-out private rows.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private numbers of held-out rows.
    y_pred : array-like of shape (n_samples,)
        The prediction of the model for each row, from that row alone.
    max_error : "private" or float, default="private"
        The bound to which absolute errors are clipped, from public knowledge. ``"private"`` learns
        it, for 14 to 80% of the allowance.
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
    error : Estimate
        In the units of the targets.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `mean_squared_error`. *Charged*:
    (epsilon, delta), once, as "mean_absolute_error".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import metrics
    >>> x = np.linspace(-1, 1, 5000)
    >>> error = metrics.mean_absolute_error(x + np.sin(x * 1e4) / 4, x, max_error=0.5)
    >>> bool(abs(float(error) - 0.16) < 0.05)
    True
    """
    return _released(
        "mean_absolute_error",
        y_true,
        y_pred,
        max_error,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    ).mae()
