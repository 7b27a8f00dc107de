"""Histograms, sums by private labels, quantiles.

Released are counts of cells, sums of the rows of each class, and choices of the exponential
mechanism or counts of cells around quantiles. Proofs: histograms.md, quantiles.md.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from skdp.base import check_integer
from skdp.base.context import noise_of_a_count
from skdp.confidence.limits import QuantileLimits, zoomed
from skdp.core import Box
from skdp.parameters import FLAG, STEP, check_length, check_parameter, different_labels, naming
from skdp.planning import Allowance
from skdp.queries import MAX_CELLS, Grid, Quantiles, check_levels, label_sums, row_counts
from skdp.statistics._call import Call, Floats, Options, Released, check_axis, documented, result
from skdp.tabular import NotNumericError, check_labelled_table
from skdp.user_code import or_raise

Bins = int | Floats
_ONE_COLUMN = "X must be one column of labels, as an array, a list or a series"
_LEARNED_EDGES = "edges are learned: rows beyond them are in no cell; state edges, or bounds"
_CLEAR = 10.0  # a density has an error if the sum of counts is above so many of its errors
_NO_ERROR = "std is NaN because it depends on the rows; intervals=True releases intervals instead"
_INTERVALS = (
    "std is NaN because it depends on the rows; interval() and population_interval() are known"
)
_EXTREMES = (
    "no private minimum or maximum is meaningful: one row decides it, so noise has to hide it; ask "
    "for levels such as 0.01 and 0.99"
)

# --- histograms and sums by label -----------------------------------------------------------------


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
    plain = edges.ndim == 1 and edges.size >= 2 and np.isfinite(edges).all()
    if not plain or np.any(edges[1:] <= edges[:-1]):
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


def _widened(bins: list[Bins], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return learned bounds with room for so many different edges: they must not be refused."""
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
    columns = list(bins) if isinstance(bins, list) else [bins] * d
    if len(columns) != d:
        raise ValueError(f"bins must be one or have one entry a column ({d}), got {len(columns)}")
    sizes = [b if isinstance(b, int) else b.size - 1 for b in columns]
    if math.prod(sizes) > MAX_CELLS:
        raise ValueError(f"bins: there must be at most {MAX_CELLS} cells")
    stated = call.stated(bounds, d, rows.names)
    if all(not isinstance(b, int) for b in columns):
        bounds = stated = np.zeros(d), np.zeros(d)  # not used, so none need be learned
    if stated is not None:  # refuse bounds that are too close before the charge
        _grid(columns, *stated)
    public = [b if isinstance(b, int) else b.tolist() for b in columns]
    with call.bounded(rows, bounds, public, noise_of_a_count, audit=False) as opened:
        session, low, high, _ = opened
        if stated is None:
            low, high = _widened(columns, low, high)
        edges = _grid(columns, low, high)
        release = session.answer(row_counts(Grid(tuple(edges)), "histogram"))
        privacy = session.certificate()
    note = _LEARNED_EDGES if stated is None else ""
    labels: dict[str, Floats] = {}
    for j, edge in enumerate(edges):
        of = "" if d == 1 else f"_{j}"
        shape = [-1 if i == j else 1 for i in range(d)]  # along its own axis
        labels |= {f"from{of}": edge[:-1].reshape(shape), f"to{of}": edge[1:].reshape(shape)}
    options: Any = {"note": note, "labels": labels, "uncorrelated": True}
    return result(release.value, release.std, privacy, **options), edges


@documented
def histogram(
    X: ArrayLike,
    bins: int | ArrayLike = 10,
    *,
    categories: Sequence[Any] | None = None,
    density: bool = False,
    range: Any = None,  # noqa: A002  as numpy's
    bounds: Any = "private",
    **options: Unpack[Options],
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
    {cells}
        Learned bounds are seldom round numbers, so state them (or edges) if values are whole
        numbers.
    {rows}

    Returns
    -------
    released : Released, value of shape (n_bins,)
        Negative counts, which noise may cause, are kept, so counts have no bias. The standard error
        of a density is to first order. It is NaN if the sum of the counts is below ten of its own
        standard errors.
    edges : ndarray of shape (n_bins + 1,)
        A bin includes its lower edge; the last bin includes both edges. Values outside the edges
        are in no bin. With `categories`, these are returned instead.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: bounds, if they are learned, and one count for each bin, including
    empty ones. *Sensitivity*: 1 if a row is added or removed, 2 (L1) if one is replaced.
    *Mechanism*: discrete Laplace or rounded Gaussian noise, whichever is less; with `categories`,
    the mechanism of `subset_sums` for the number 1 in each row, so that counts are not whole
    numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> counts, edges = statistics.histogram(np.arange(900) % 3, [0, 1, 2, 3], random_state=0)
    >>> bool(np.all(abs(counts.value - 300) < 5 * counts.std)), edges
    (True, array([0., 1., 2., 3.]))
    """
    call = Call.of("histogram", options)
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
    except NotNumericError:
        raise TypeError("X must be numeric; of texts, state categories=[...]") from None
    return _density(released, np.diff(edges)) if density else released, edges


def _labelled(call: Call, X: Any, categories: Any) -> tuple[Released, np.ndarray]:
    """Return the numbers of rows with each of some public labels, and these labels."""
    known, order = _classes(categories, "categories")
    if not hasattr(X, "__len__"):
        raise TypeError(_ONE_COLUMN)
    ones = np.ones(or_raise(lambda: len(X), lambda: TypeError(_ONE_COLUMN)))
    rows, _ = check_labelled_table(ones, X, classes=known, **call.entrance)
    with call.opened(rows, (known.tolist(), order.tolist())) as session:
        # Each row is the number 1, so sums by label are counts.
        release = session.answer(label_sums(np.zeros(1), np.ones(1), len(known)), name="counts")
        privacy = session.certificate()
    counts, std = release.value[order, 0], np.broadcast_to(release.std, (len(known), 1))[order, 0]
    shape: Any = {"labels": {"category": known[order]}, "uncorrelated": True}
    return result(counts, std, privacy, **shape), known[order]


def _density(counts: Released, widths: Any) -> Released:
    """Return counts over their sum and their widths.

    To first order, the variance of p = c / N is ((1 - p)**2 s**2 + p**2 S) / N**2: s**2 is the
    variance of c, and S that of all other counts together.
    """
    number, spread = float(counts.value.sum()), float(np.square(counts.std).sum())
    p, own = counts.value / (number if number > 0 else np.nan), np.square(counts.std)
    std = np.sqrt((1 - p) ** 2 * own + p**2 * (spread - own)) / number if number > 0 else p
    clear = number >= _CLEAR * math.sqrt(spread)
    std = std / widths if clear else p * np.nan
    privacy: Any = counts.privacy
    return result(p / widths, std, privacy, note=counts.note, labels=counts.labels)


@documented
def histogram2d(
    X: ArrayLike, bins: Any = 10, *, bounds: Any = "private", **options: Unpack[Options]
) -> tuple[Released, Floats, Floats]:
    """Return the joint histogram of two columns.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, 2)
        Private rows, finite numbers.
    bins : int or list of two, default=10
        For each column, the number of bins between its bounds, or public edges in increasing order.
    {cells}
    {rows}

    Returns
    -------
    released : Released, value of shape (n_bins_0, n_bins_1)
        Negative counts, which noise may cause, are kept.
    edges_0, edges_1 : ndarray
        Rows outside the edges are in no cell.

    {raises}

    Notes
    -----
    **Privacy.** As for `histogram`, with the joint cells of both columns. *Released*,
    *sensitivity*, *mechanism*: as there.

    Examples
    --------
    {table}
    >>> counts, *_ = statistics.histogram2d(x, 2, bounds=(0, 1), random_state=0)
    >>> counts.value.shape
    (2, 2)
    """
    call = Call.of("histogram2d", options)
    released, edges = _counted(call, X, _bins_of_each(bins), bounds, 2)
    return released, edges[0], edges[1]


def _bins_of_each(bins: Any) -> list[Bins] | Bins:
    """Return the bins of each column, from one number or a list with an entry for each."""
    if isinstance(bins, list | tuple):
        return [_bins(b) for b in bins]
    return _bins(bins)


@documented
def histogramdd(
    X: ArrayLike, bins: Any = 10, *, bounds: Any = "private", **options: Unpack[Options]
) -> tuple[Released, list[Floats]]:
    """Return the joint histogram of all columns.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
        Private rows, finite numbers.
    bins : int or list, default=10
        For each column, the number of bins between its bounds, or public edges in increasing order.
        At most 2**20 cells altogether.
    {cells}
    {rows}

    Returns
    -------
    released : Released, one dimension a column
        Negative counts, which noise may cause, are kept.
    edges : list of ndarray
        Rows outside the edges are in no cell.

    {raises}

    Notes
    -----
    **Privacy.** As for `histogram`, with the joint cells of all columns. *Released*, *sensitivity*,
    *mechanism*: as there.

    Examples
    --------
    {table}
    >>> counts, edges = statistics.histogramdd(x, 2, bounds=(0, 1), random_state=0)
    >>> counts.value.shape, len(edges)
    ((2, 2), 2)
    """
    call = Call.of("histogramdd", options)
    return _counted(call, X, _bins_of_each(bins), bounds, None)


@documented
def subset_sums(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[Any],
    bounds: Any = "private",
    **options: Unpack[Options],
) -> Released:
    """Return the sum of the clipped rows of each class.

    Each row has a label, which is protected together with its cells.

    Parameters
    ----------
    {X}
    labels : array-like of shape (n_samples,)
        Private label of each row. Rows whose label is not among `classes` are in no sum.
    classes : sequence
        Public labels of one type, for example all text or all numbers.
    {bounds}
    nan_policy : {"raise", "omit"}, default="raise"
        ``"omit"``: leave out rows with missing cells, and rows whose label is missing.
    n_rows : {"private", "public"}, default="private"
    {privacy}

    Returns
    -------
    released : Released, value of shape (n_classes,) or (n_classes, n_features)
        In the order of the classes.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and a sum for each class and column.
    *Sensitivity* (L2), where r is the distance from 0 to the furthest corner of the bounds: r if a
    row is added or removed; at most 2 r if one is replaced, and less if no bound is below 0,
    because a row that moves from one class to another changes two sums by r each. The factor of 4
    found in some texts is not needed. *Mechanism*: discrete Laplace, K-norm or rounded Gaussian
    noise, whichever is least.

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
    call = Call.of("subset_sums", options)
    known, order = _classes(classes)
    rows, flat = check_labelled_table(X, labels, classes=known, **call.entrance)
    public = (known.tolist(), order.tolist())

    def noise(allowance: Allowance) -> float:
        half = np.ones(rows.n_features)
        return allowance.query_std(label_sums(-half, half, max(len(known), 2)))

    with call.bounded(rows, bounds, public, noise) as (session, low, high, learned):
        release = session.answer(label_sums(low, high, len(known)))
        privacy = session.certificate()
    # Any label may have all the rows that are clipped.
    clipping = np.zeros(1) if learned is None else learned.sum_error()
    error = np.hypot(release.std, clipping)
    shape: Any = {"flat": flat, "names": rows.names, "labels": {"class": known[order][:, None]}}
    value, error = release.value[order], error[order]
    shape |= {"bounds": (low, high), "learned": learned}
    return result(value, error, privacy, clipping=clipping, uncorrelated=True, **shape)


def _classes(classes: Any, name: str = "classes") -> tuple[np.ndarray, np.ndarray]:
    """Return public classes, sorted, and the place of each given class among them."""
    return different_labels(
        classes,
        f"{name} must be a sequence of different public labels of one type, at least one and none "
        "missing",
    )


# --- quantiles ------------------------------------------------------------------------------------


def _quantiles(
    call: Call, X: ArrayLike, q: Any, bounds: Any, step: Any, keepdims: Any, intervals: Any
) -> Released:
    """Return quantiles, one row a level."""
    check_length(q, "q")
    levels = check_levels(q)
    step = check_parameter(step, "step", *STEP)
    check_parameter(intervals, "intervals", FLAG)
    rows, flat = call.table(X)
    # It keys seeded noise, without intervals as in earlier versions.
    public = ([str(level) for level in levels], step, *(["intervals"] if intervals else []))

    def noise(allowance: Allowance) -> float:
        return allowance.choice_scale(rows.n_features * len(levels).bit_length())

    with call.bounded(rows, bounds, public, noise, audit=False) as opened:
        session, low, high, _ = opened
        if intervals:
            windows: Any = zoomed(session, low, high, [float(level) for level in levels], step)
            value: Floats = np.array([[window.value for window in row] for row in windows])
        else:
            view = Box(low, high, per_feature=True)
            value = session.answer(Quantiles(view, q, step=step)).value.T
        privacy = session.certificate()
    note = _INTERVALS if intervals else _NO_ERROR
    if levels[0] == 0 or levels[-1] == 1:
        note = f"{note}; {_EXTREMES}"
    shape: Any = {"flat": flat, "keepdims": keepdims, "names": rows.names}
    if np.ndim(q):
        shape["labels"] = {"q": np.array(levels, dtype=np.float64)[:, None]}
    else:
        value, windows = value[0], windows[0] if intervals else None
    if intervals:
        shape["limits"] = QuantileLimits(windows)
    return result(value, np.nan, privacy, bounds=(low, high), note=note, **shape)


@documented
def quantile(
    X: ArrayLike,
    q: float | Sequence[float],
    *,
    axis: int = 0,
    keepdims: bool = False,
    step: float | None = None,
    intervals: bool = False,
    bounds: Any = "private",
    **options: Unpack[Options],
) -> Released:
    """Return quantiles of each column.

    Parameters
    ----------
    {X}
    q : float or sequence of float
        Levels in [0, 1], strictly increasing.
    {of_columns}
    {candidates}
    {ranges}
    {rows}

    Returns
    -------
    released : Released
        The standard error is NaN: it depends on the rows near the quantile, so it is private.
        `skdp.quantile.DPQuantile.expected_error` returns by how many ranks quantiles are off on
        average, for public rows that resemble the private ones. Its `error_bound` bounds the error
        for any rows, as a part of the rows.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and one candidate for each column and level.
    *Sensitivity* of the score, a difference of ranks: at most 1. *Mechanism*: the exponential
    mechanism, recursively for several levels. With ``intervals=True``: for each level, up to six
    times, the numbers of rows in at most 23 cells of each column, which close in on the quantile.
    *Sensitivity* of these (L1 and squared L2) for d columns: d if a row is added or removed, twice
    that if one is replaced. *Mechanism*: discrete Laplace or rounded Gaussian noise, whichever is
    less.

    Examples
    --------
    {ages}
    >>> answer = statistics.quantile(ages, [0.25, 0.75], step=1, bounds=(0, 120))
    >>> bool(np.all(np.abs(answer.value - [36, 72]) <= 3))
    True
    """
    call = Call.of("quantile", options)
    check_axis(axis, keepdims)
    return _quantiles(call, X, q, bounds, step, keepdims, intervals)


@documented
def percentile(X: ArrayLike, q: float | Sequence[float], **options: Any) -> Released:
    """Return percentiles of each column: `quantile` at q / 100.

    Parameters
    ----------
    {X}
    q : float or sequence of float
        In percent, from 0 to 100, strictly increasing.
    **options
        As for `quantile`.

    Returns
    -------
    released : Released
        As for `quantile`.

    {raises}

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism* and *charged*: as for `quantile`, and
    charged under that name.

    Examples
    --------
    {ages}
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


@documented
def median(
    X: ArrayLike,
    *,
    axis: int = 0,
    keepdims: bool = False,
    step: float | None = None,
    intervals: bool = False,
    bounds: Any = "private",
    **options: Unpack[Options],
) -> Released:
    """Return the median of each column.

    Parameters
    ----------
    {X}
    {of_columns}
    {candidates}
    {ranges}
    {rows}

    Returns
    -------
    released : Released
        The standard error is NaN: it depends on the rows near the median, so it is private.

    {raises}

    Notes
    -----
    **Privacy.** As for `quantile` at level 1/2. *Released*, *sensitivity*, *mechanism*: as there.

    Examples
    --------
    {ages}
    >>> float(statistics.median(ages, step=1, bounds=(0, 120), random_state=0)), np.median(ages)
    (54.0, np.float64(54.0))
    """
    call = Call.of("median", options)
    check_axis(axis, keepdims)
    return _quantiles(call, X, 0.5, bounds, step, keepdims, intervals)
