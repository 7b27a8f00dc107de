"""Histograms over public edges, sums by private labels, quantiles.

Released: counts of the cells of public edges, sums of the rows of each of several public classes,
order statistics. Guarantee: that of the queries of `skdp.queries`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._parameters import FLAG, check_length, check_parameter, different_labels, naming
from skdp.base import check_integer
from skdp.budget import PrivacyBudget
from skdp.queries import MAX_CELLS, Grid, label_sums, row_counts
from skdp.statistics._call import Call, Floats, Released, result
from skdp.tabular import check_labelled_table
from skdp.user_code import or_raise

Bins = int | Floats
_ONE_COLUMN = "X must be one column of labels, as an array, a list or a series"
_LEARNED_EDGES = "edges are learned: rows beyond them are in no cell; state edges, or bounds"
_CLEAR = 10.0  # standard errors: below, a quotient by a sum of counts has no error of first order


def _bins(bins: Any) -> Bins:
    """Return a number of bins, or increasing finite edges."""
    if isinstance(bins, numbers.Integral):
        return check_integer(bins, "bins", low=1, high=MAX_CELLS)
    check_length(bins, "bins")
    problem = "bins must be a number of bins or finite edges that increase, at least 2"
    try:
        array = np.asarray(bins)
    except ValueError:
        array = np.zeros(0, dtype=object)
    if array.dtype.kind not in "iuf":
        raise TypeError(problem)
    edges = array.astype(np.float64)
    if edges.ndim != 1 or edges.size < 2 or not np.isfinite(edges).all():
        raise ValueError(problem)
    if np.any(edges[1:] <= edges[:-1]):
        raise ValueError(problem)
    return edges


def _edges(bins: Bins, low: float, high: float) -> Floats:
    """Return edges at equal distances between bounds, or the stated ones."""
    if not isinstance(bins, int):
        return bins
    if low == high:  # as numpy
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    if np.any(edges[1:] <= edges[:-1]):
        raise ValueError("bounds are too close for so many bins")
    return edges


def _apart(bins: list[Bins], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return learned bounds with room for so many different edges: they are never refused."""
    number = np.array([b if isinstance(b, int) else 1 for b in bins], dtype=np.float64)
    least = 2.0**-49 * number * np.maximum(np.maximum(np.abs(low), np.abs(high)), 1e-290)
    close = (high > low) & (high - low < least)
    return np.where(close, low - least, low), np.where(close, high + least, high)


def _grid(bins: list[Bins], low: Floats, high: Floats) -> list[Floats]:
    """Return the edges of each column."""
    return [_edges(b, *ends) for b, *ends in zip(bins, low, high, strict=True)]


def _counted(
    call: Call, X: ArrayLike, bins: list[Bins] | Bins, bounds: Any, n_features: int | None
) -> tuple[Released, list[Floats]]:
    """Return the counts of the cells of one grid over all columns, and its edges."""
    rows, _ = call.table(X)
    d = rows.n_features
    if n_features not in (None, d):
        raise ValueError(f"X must have {n_features} column(s), got {d}")
    each = list(bins) if isinstance(bins, list) else [bins] * d
    if len(each) != d:
        raise ValueError(f"bins must be one or have one entry a column ({d}), got {len(each)}")
    sizes = [b if isinstance(b, int) else b.size - 1 for b in each]
    if math.prod(sizes) > MAX_CELLS:
        raise ValueError(f"bins: there must be at most {MAX_CELLS} cells")
    stated = call.stated(bounds, d, rows.names)
    if all(not isinstance(b, int) for b in each):
        bounds = stated = np.zeros(d), np.zeros(d)  # not used, so none need be learned
    if stated is not None:  # refuse bounds that are too close before the charge
        _grid(each, *stated)
    public = [b if isinstance(b, int) else b.tolist() for b in each]
    with call.bounded(rows, bounds, public, audit=False) as (session, low, high, _):
        if stated is None:
            low, high = _apart(each, low, high)
        edges = _grid(each, low, high)
        release = session.answer(row_counts(Grid(tuple(edges)), "histogram"))
        privacy = session.certificate()
    note = _LEARNED_EDGES if stated is None else ""
    labels: dict[str, Floats] = {}
    for j, edge in enumerate(edges):
        of = "" if d == 1 else f"_{j}"
        shape = [-1 if i == j else 1 for i in range(d)]  # along its own axis
        labels |= {f"from{of}": edge[:-1].reshape(shape), f"to{of}": edge[1:].reshape(shape)}
    return result(release.value, release.std, privacy, flat=False, note=note, labels=labels), edges


def histogram(
    X: ArrayLike,
    bins: int | ArrayLike = 10,
    *,
    categories: Sequence[Any] | None = None,
    density: bool = False,
    range: Any = None,  # noqa: A002  as numpy's
    bounds: Any = "private",
    nan_policy: str = "raise",
    n_rows: str = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> tuple[Released, Floats]:
    """Return the histogram of one column of numbers or categories.

    Parameters
    ----------
    X : array-like of shape (n_samples,) or (n_samples, 1)
        Private rows: finite numbers, or with `categories` a flat column of labels of any type.
    bins : int or array-like of float, default=10
        Number of bins of equal width between the bounds, or public edges in increasing order.
    categories : sequence, default=None
        Public labels, used instead of bins. Rows with other labels are not counted.
    density : bool, default=False
        Divide counts by their sum and by the width of their bins, as numpy does; with categories,
        by their sum.
    range : tuple (low, high), default=None
        numpy's name for `bounds`. State only one of them.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); ``"private"`` learns them, for 5 to 72% of the allowance.
        Learned bounds are seldom round numbers, so state them (or edges) if values are whole
        numbers. Not used with edges.
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
    released : Released, value of shape (n_bins,)
        Negative counts, which noise may cause, are kept, so counts have no bias. The standard error
        of a density is to first order. It is NaN if the sum of the counts is below ten of its own
        standard errors.
    edges : ndarray of shape (n_bins + 1,)
        A bin includes its lower edge; the last bin includes both edges. Values outside the edges
        are in no bin. With `categories`, these are returned instead.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if they are learned, and one count for each bin, including
    empty ones. *Sensitivity*: 1 if a row is added or removed, 2 (L1) if one is replaced.
    *Mechanism*: discrete Laplace, or rounded Gaussian if delta > 0; with `categories`, the
    mechanism of `subset_sums` for the number 1 in each row, so that counts are not whole numbers.
    *Charged*: (epsilon, delta), once, as "histogram".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> counts, edges = statistics.histogram(np.arange(900) % 3, [0, 1, 2, 3], random_state=0)
    >>> bool(np.all(abs(counts.value - 300) < 5 * counts.std)), edges
    (True, array([0., 1., 2., 3.]))
    """
    call = Call(
        "histogram",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    check_parameter(density, "density", FLAG)
    if range is not None:
        if not isinstance(bounds, str):
            raise ValueError("range and bounds are two names of one thing; state one of them")
        with naming("range"):
            stated = Call.stated(range, 1)
            if stated is not None:
                _grid([_bins(bins)], *stated)
        bounds = range
    if categories is not None:
        released, labels = _labelled(call, X, categories)
        return _density(released, 1.0) if density else released, labels
    try:
        released, (edges,) = _counted(call, X, _bins(bins), bounds, 1)
    except TypeError as error:
        if "X must be numeric" not in str(error):
            raise
        raise TypeError("X must be numeric; of texts, state categories=[...]") from None
    return _density(released, np.diff(edges)) if density else released, edges


def _labelled(call: Call, X: Any, categories: Any) -> tuple[Released, np.ndarray]:
    """Return how many rows have each of some public labels, and these."""
    known, order = _classes(categories, "categories")
    if not hasattr(X, "__len__"):
        raise TypeError(_ONE_COLUMN)
    ones = np.ones(or_raise(lambda: len(X), lambda: TypeError(_ONE_COLUMN)))
    rows, _ = check_labelled_table(ones, X, classes=known, **call.entrance)
    with call.opened(rows, (known.tolist(), order.tolist())) as session:
        # The row that is summed is 1: sums by label are counts.
        release = session.answer(label_sums(np.zeros(1), np.ones(1), len(known)), name="counts")
        privacy = session.certificate()
    counts, std = release.value[order, 0], np.broadcast_to(release.std, (len(known), 1))[order, 0]
    return result(counts, std, privacy, flat=False, labels={"category": known[order]}), known[order]


def _density(counts: Released, widths: Any) -> Released:
    """Return counts over their sum and their widths.

    To first order, with p = c / N: the variance of c / N is ((1 - p)**2 s**2 + p**2 S) / N**2, S
    that of the other counts together.
    """
    number, spread = float(counts.value.sum()), float(np.square(counts.std).sum())
    p, own = counts.value / (number if number > 0 else np.nan), np.square(counts.std)
    std = np.sqrt((1 - p) ** 2 * own + p**2 * (spread - own)) / number if number > 0 else p
    clear = number >= _CLEAR * math.sqrt(spread)
    return replace(counts, value=p / widths, std=std / widths if clear else p * np.nan, bounds=None)


def histogram2d(
    X: ArrayLike,
    bins: Any = 10,
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
) -> tuple[Released, Floats, Floats]:
    """Return the joint histogram of two columns.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, 2)
        Private rows, finite numbers.
    bins : int or list of two, default=10
        For each column, the number of bins between its bounds, or public edges in increasing order.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); ``"private"`` learns them, for 5 to 72% of the allowance. Not
        used for edges.
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
    released : Released, value of shape (n_bins_0, n_bins_1)
        Negative counts, which noise may cause, are kept.
    edges_0, edges_1 : ndarray
        Rows outside the edges are in no cell.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** As for `histogram`, with the joint cells of both columns. *Released*,
    *sensitivity*, *mechanism*: as there. *Charged*: (epsilon, delta), once, as "histogram2d".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(size=(4000, 2))
    >>> counts, *_ = statistics.histogram2d(x, 2, bounds=(0, 1), random_state=0)
    >>> counts.value.shape
    (2, 2)
    """
    call = Call(
        "histogram2d",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    released, edges = _counted(call, X, _bins_of_each(bins), bounds, 2)
    return released, edges[0], edges[1]


def _bins_of_each(bins: Any) -> list[Bins] | Bins:
    """Return the bins of each column, from one number or a list with an entry for each."""
    if isinstance(bins, list | tuple):
        return [_bins(b) for b in bins]
    return _bins(bins)


def histogramdd(
    X: ArrayLike,
    bins: Any = 10,
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
) -> tuple[Released, list[Floats]]:
    """Return the joint histogram of all columns.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
        Private rows, finite numbers.
    bins : int or list, default=10
        For each column, the number of bins between its bounds, or public edges in increasing order.
        At most 2**20 cells altogether.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); ``"private"`` learns them, for 5 to 72% of the allowance. Not
        used for edges.
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
    released : Released, one dimension a column
        Negative counts, which noise may cause, are kept.
    edges : list of ndarray
        Rows outside the edges are in no cell.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** As for `histogram`, with the joint cells of all columns. *Released*, *sensitivity*,
    *mechanism*: as there. *Charged*: (epsilon, delta), once, as "histogramdd".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(size=(4000, 3))
    >>> counts, edges = statistics.histogramdd(x, 2, bounds=(0, 1), random_state=0)
    >>> counts.value.shape, len(edges)
    ((2, 2, 2), 3)
    """
    call = Call(
        "histogramdd",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    return _counted(call, X, _bins_of_each(bins), bounds, None)


def subset_sums(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[Any],
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
    """Return the sum of the clipped rows of each class.

    Each row has a label, which is protected together with its cells.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows, finite numbers.
    labels : array-like of shape (n_samples,)
        Private label of each row. Rows whose label is not among `classes` are in no sum.
    classes : sequence
        Public labels of one type, for example all text or all numbers.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them (see `Released`).
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells, and rows whose label is missing.
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
    released : Released, value of shape (n_classes,) or (n_classes, n_features)
        In the order of the classes.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is charged then.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and a sum for each class and column.
    *Sensitivity* (L2), where r is the distance from 0 to the furthest corner of the bounds: r if a
    row is added or removed; at most 2 r if one is replaced, and less if no bound is below 0,
    because a row that moves from one class to another changes two sums by r each. The factor of 4
    found in some texts is not needed. *Mechanism*: discrete Laplace or K-norm noise, whichever is
    smaller, or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta), once, as "subset_sums".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> day, delay = np.arange(700) % 7, np.full(700, 10.0)
    >>> sums = statistics.subset_sums(
    ...     delay, day, classes=range(7), bounds=(0, 60), random_state=0
    ... )
    >>> bool(np.all(abs(sums.value - 1000) < 5 * sums.std))
    True
    """
    call = Call(
        "subset_sums",
        epsilon,
        delta,
        budget,
        random_state,
        nan_policy,
        n_rows,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
    )
    known, order = _classes(classes)
    rows, flat = check_labelled_table(
        X,
        labels,
        classes=known,
        **call.entrance,
    )
    public = (known.tolist(), order.tolist())
    with call.bounded(rows, bounds, public) as (session, low, high, learned):
        release = session.answer(label_sums(low, high, len(known)))
        privacy = session.certificate()
    error = release.std
    if learned is not None:  # any label may have all the rows that are clipped
        error = np.hypot(error, learned.sum_error())
    return result(
        release.value[order],
        error[order],
        privacy,
        flat=flat,
        bounds=(low, high),
        asked=bounds,
        names=rows.names,
        labels={"class": known[order][:, None]},
    )


def _classes(classes: Any, name: str = "classes") -> tuple[np.ndarray, np.ndarray]:
    """Return public classes, sorted, and the place of each given class among them."""
    return different_labels(
        classes,
        f"{name} must be a sequence of different public labels of one type, at least one and none "
        "missing",
    )
