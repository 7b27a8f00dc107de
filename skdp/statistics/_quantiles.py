"""Private quantiles of columns.

Released are choices of the exponential mechanism; the proofs are in quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._parameters import FLAG, STEP, check_length, check_parameter
from skdp.budget import PrivacyBudget
from skdp.confidence.limits import QuantileLimits, zoomed
from skdp.core import Box
from skdp.queries import Quantiles, check_levels
from skdp.statistics._call import Call, Floats, Released, check_axis, result

_NO_ERROR = "std is NaN because it depends on the rows; intervals=True releases intervals instead"
_INTERVALS = (
    "std is NaN because it depends on the rows; interval() and population_interval() are known"
)
_EXTREMES = (
    "no private minimum or maximum is meaningful: one row decides it, so noise has to hide it; ask "
    "for levels such as 0.01 and 0.99"
)


def _quantiles(
    call: Call, X: ArrayLike, q: Any, bounds: Any, step: Any, keepdims: Any, intervals: Any
) -> Released:
    """Return quantiles, one row a level."""
    check_length(q, "q")
    levels = check_levels(q)
    step = check_parameter(step, "step", *STEP)
    check_parameter(intervals, "intervals", FLAG)
    rows, flat = call.table(X)
    # What follows noise is seeded by what is asked: without intervals as ever.
    public = ([str(level) for level in levels], step, *(["intervals"] if intervals else []))
    with call.bounded(rows, bounds, public, audit=False) as opened:
        session, low, high, _ = opened
        if intervals:
            windows = zoomed(session, low, high, [float(level) for level in levels], step)
            value: Floats = np.array([[one.value for one in row] for row in windows])
        else:
            view = Box(low, high, per_feature=True)
            value = session.answer(Quantiles(view, q, step=step)).value.T
        privacy = session.certificate()
    note = _INTERVALS if intervals else _NO_ERROR
    if levels[0] == 0 or levels[-1] == 1:
        note = f"{note}; {_EXTREMES}"
    limits = None
    if intervals:
        limits = QuantileLimits(windows[0] if np.ndim(q) == 0 else windows)
    return result(
        value[0] if np.ndim(q) == 0 else value,
        np.nan,
        privacy,
        flat=flat,
        keepdims=keepdims,
        bounds=(low, high),
        note=note,
        limits=limits,
        names=rows.names,
        labels={} if np.ndim(q) == 0 else {"q": np.array(levels, dtype=np.float64)[:, None]},
    )


def quantile(
    X: ArrayLike,
    q: float | Sequence[float],
    *,
    axis: int = 0,
    keepdims: bool = False,
    step: float | None = None,
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
    """Return quantiles of each column.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    q : float or sequence of float
        Levels in [0, 1], strictly increasing.
    axis : {0}, default=0
        Of each column.
    keepdims : bool, default=False
        Keep the axis of the rows, with length 1.
    step : float, default=None
        Answers are multiples of `step`: for integers, use 1. None: a fine grid between the bounds.
    intervals : bool, default=False
        True: find quantiles from counts of rows in cells, so that `Released.interval` and
        `Released.population_interval` are known at any level. Without intervals the value is found
        by the exponential mechanism, and is off by fewer ranks: of 5,000 normal values at
        epsilon = 1 the median by 1 instead of 10.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); ``"private"`` learns them, for 5 to 72% of the allowance.
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
        The standard error is NaN: it depends on the rows near the quantile, so it is private.
        `skdp.quantile.DPQuantile.expected_error` returns by how many ranks quantiles are off on
        average, for public rows that resemble the private ones. Its `error_bound` bounds the error
        for any rows, as a part of the rows.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and one candidate for each column and level.
    *Sensitivity* of the score, a difference of ranks: at most 1. *Mechanism*: the exponential
    mechanism, recursively for several levels. With ``intervals=True``: for each level, up to six
    times, the numbers of rows in at most 23 cells of each column, which close in on the quantile.
    *Sensitivity* of these (L1 and squared L2) for d columns: d if a row is added or removed, twice
    that if one is replaced. *Mechanism*: discrete Laplace, or rounded Gaussian if delta > 0.
    *Charged*: (epsilon, delta), once, as "quantile".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> ages = np.random.default_rng(0).integers(18, 90, size=5000)
    >>> answer = statistics.quantile(ages, [0.25, 0.75], step=1, bounds=(0, 120))
    >>> bool(np.all(np.abs(answer.value - [36, 72]) <= 3))
    True
    """
    call = Call(
        "quantile",
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
    return _quantiles(call, X, q, bounds, step, keepdims, intervals)


def percentile(X: ArrayLike, q: float | Sequence[float], **options: Any) -> Released:
    """Return percentiles of each column: `quantile` at q / 100.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    q : float or sequence of float
        In percent, from 0 to 100, strictly increasing.
    **options
        As for `quantile`.

    Returns
    -------
    released : Released
        As for `quantile`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism* and *charged*: as for `quantile`, and
    charged under that name.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> ages = np.random.default_rng(0).integers(18, 90, size=5000)
    >>> answer = statistics.percentile(ages, 90, step=1, bounds=(0, 120))
    >>> bool(abs(answer.value - 82) <= 3)
    True
    """
    check_length(q, "q")
    try:
        percent = np.asarray(q, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        percent = np.full(1, math.nan)
    if percent.ndim > 1 or not np.all((percent >= 0) & (percent <= 100)):
        raise ValueError("q must be percentages between 0 and 100, strictly increasing")
    # Rounded: 0.07 is meant, not 0.07000000000000001.
    levels = np.round(percent / 100.0, 15)
    return quantile(X, levels.tolist(), **options)


def median(
    X: ArrayLike,
    *,
    axis: int = 0,
    keepdims: bool = False,
    step: float | None = None,
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
    """Return the median of each column.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    axis : {0}, default=0
        Of each column.
    keepdims : bool, default=False
        Keep the axis of the rows, with length 1.
    step : float, default=None
        Answers are multiples of `step`: for integers, use 1. None: a fine grid between the bounds.
    intervals : bool, default=False
        True: find quantiles from counts of rows in cells, so that `Released.interval` and
        `Released.population_interval` are known at any level. Without intervals the value is found
        by the exponential mechanism, and is off by fewer ranks: of 5,000 normal values at
        epsilon = 1 the median by 1 instead of 10.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); ``"private"`` learns them, for 5 to 72% of the allowance.
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
        The standard error is NaN: it depends on the rows near the median, so it is private.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** As for `quantile` at level 1/2. *Released*, *sensitivity*, *mechanism*: as there.
    *Charged*: (epsilon, delta), once, as "median".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> ages = np.random.default_rng(0).integers(18, 90, size=5000)
    >>> float(statistics.median(ages, step=1, bounds=(0, 120), random_state=0)), np.median(ages)
    (54.0, np.float64(54.0))
    """
    call = Call(
        "median",
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
    return _quantiles(call, X, 0.5, bounds, step, keepdims, intervals)
