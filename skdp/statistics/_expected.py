"""`expected_error`: the standard error of a statistic before anything is charged.

The function is called on public rows, or on a made-up row if its error is the same for all tables,
with a budget of its own. The prediction is the standard error of that answer.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._config import config_context
from skdp.base import (
    CallContext,
    check_bounds,
    check_integer,
    labels_of_bounds,
    names_of,
    refuse_units,
)
from skdp.budget import PrivacyBudget
from skdp.budget.ambient import ambient_budget
from skdp.statistics import _histograms, _moments
from skdp.statistics._call import Released
from skdp.tabular import checked

_BY_ROWS = ("correlation", "covariance", "std", "var")  # their error depends on the rows
_MOMENTS = (*_BY_ROWS, "count", "count_nonzero", "mean", "sum")
_CELLS = ("histogram", "histogram2d", "histogramdd", "subset_sums")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module, names in ((_moments, _MOMENTS), (_histograms, _CELLS))
    for name in names
}
_ELSEWHERE = {
    **dict.fromkeys(
        ("median", "percentile", "quantile"),
        "it is one of ranks, and depends on how close the rows lie. With public rows like the "
        "private ones, skdp.quantile.DPQuantile(0.5).expected_error(n_samples, like=rows) says it, "
        "and skdp.choose_epsilon(DPQuantile(0.5), error=..., n_samples=..., like=rows) inverts it",
    ),
    "mst_cost": "its error follows the smooth sensitivity, which depends on private weights",
    "query_session": "every answer states its own error, which depends on its share",
}
_REHEARSALS = 5
_MOST_ROWS = 2**17


def expected_error(
    function: str,
    n_samples: int,
    n_features: int | None = None,
    *,
    like: Any = None,
    **parameters: Any,
) -> NDArray[np.float64]:
    """Return the standard error that a function of this module would have, before it is called.

    It is relative to the answer for the rows as clipped to stated bounds: what clipping changes is
    not included.

    Parameters
    ----------
    function : str
        Name of the function: ``"mean"``, ``"var"``, ...
    n_samples : int
        Number of rows, as far as it is public.
    n_features : int, default=None
        Number of columns. None: one flat column, or as many columns as `like` has.
    like : array-like of shape (n,) or (n, n_features), or Released, default=None
        Public rows that resemble the private ones, **never the private rows themselves**: the
        answer is not private. For ``"mean"`` also an earlier release of the mean. Needed if the
        error depends on the rows: for variances and statistics based on them, for a mean if the
        number of rows is private, and for histograms with learned bounds.
    **parameters
        Parameters of the function: ``bounds``, which must be stated, ``epsilon``, ``delta``,
        ``n_rows``, ``budget`` (only its relation is used), ...

    Returns
    -------
    error : ndarray
        In the unit of the answer (that of X for sums, means and standard deviations; its square for
        variances and covariances; rows for counts; none for correlations). In the shape of the
        answer: one number for a flat column.

    Raises
    ------
    ValueError
        If the function has no such error; if the error depends on the rows and `like` is not given;
        or if bounds would be learned, except for histograms.

    Notes
    -----
    **Privacy.** *Released*: nothing. *Sensitivity*, *mechanism*: none, because no private row is
    read. *Charged*: nothing.

    Examples
    --------
    >>> from skdp import statistics
    >>> statistics.expected_error("sum", 1000, bounds=(0, 10), n_rows="public").round(2)
    np.float64(14.14)
    >>> ages = [18, 25, 31, 44, 67]  # made up, or public
    >>> bool(statistics.expected_error("mean", 10_000, bounds=(0, 120), like=ages) < 0.1)
    True
    """
    if function in _ELSEWHERE:
        raise ValueError(
            f"function: {function!r} has no expected error here: {_ELSEWHERE[function]}"
        )
    if function not in _FUNCTIONS:
        raise ValueError(f"function must be one of {sorted(_FUNCTIONS)}, got {function!r}")
    n = check_integer(n_samples, "n_samples", low=1)
    call = _FUNCTIONS[function]
    known = inspect.signature(call).parameters.values()
    options = {entry.name: entry.default for entry in known if entry.default is not entry.empty}
    if unknown := sorted(set(parameters) - {entry.name for entry in known}):
        raise TypeError(f"{function} has no parameter {unknown[0]!r}")
    options |= parameters
    budget = options.pop("budget") or ambient_budget()
    refuse_units(function, budget)
    if options.pop("groups") is not None:
        raise ValueError("groups must be None: the expected error is that of single rows")
    relation = "replace_one" if budget is None else budget.adjacency
    delta = CallContext(function, options["epsilon"], options["delta"], budget).allowed_delta
    options["delta"] = delta
    terms: Any = {"adjacency": relation}
    if budget is not None and delta:
        terms["accountant"] = budget.accountant
    if options.get("density"):
        raise ValueError("density: that error depends on the rows; ask for that of counts, over n")
    if options.get("range") is not None:
        options["bounds"] = options.pop("range")
    if (labels := labels_of_bounds(options.get("bounds"))) is not None:  # rehearsals see arrays
        names = labels if like is None else names_of(like)
        width = 1 if names is None else len(names)
        options["bounds"] = check_bounds(options["bounds"], width, names)
        n_features = width if n_features is None else n_features

    if _learns(options) and "bins" not in options:
        raise ValueError(
            f"bounds must be stated for the expected error of {function!r}: it grows with the "
            "width of learned bounds, which depends on the private rows. The answer itself "
            "states its error"
        )
    per_row = function in (*_BY_ROWS, "mean")
    if like is None:
        _check_needs(function, options)
        if function == "histogram2d":
            n_features = 2
        table, scale = _made_up(options.get("bounds", (0.0, 1.0)), n_features), 1.0 / n
    else:
        rows = _rows_like(function, like, n_features)
        m = min(n, _MOST_ROWS)
        table, scale = np.resize(rows, (m, *rows.shape[1:])), m / n
    if options.get("categories") is not None:
        table = np.asarray(options["categories"])[:1]
    if function == "subset_sums":
        options["labels"] = np.resize(np.asarray(options["classes"]), len(table))
    squares = []
    # Seeded, so that the same question has the same answer.
    with config_context(noise="seeded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(_REHEARSALS if like is not None else 1):
            own = PrivacyBudget(float(options["epsilon"]), delta, **terms)
            answer = call(table, **options | {"random_state": number}, budget=own)
            released = answer if isinstance(answer, Released) else answer[0]  # the others are edges
            squares.append(np.square(released.std))
    error: NDArray[np.float64] = np.sqrt(np.mean(squares, axis=0))
    return error * scale if per_row else error


def _learns(options: dict[str, Any]) -> bool:
    """Say whether a call learns bounds; histograms with edges or categories do not."""
    edges = "bins" in options and not isinstance(options["bins"], int)
    edges |= options.get("categories") is not None
    return isinstance(options.get("bounds"), str) and not edges


def _check_needs(function: str, options: dict[str, Any]) -> None:
    """Refuse functions whose error depends on the rows."""
    other = ""
    if _learns(options):
        reason = "learned bounds depend on the rows: state them, or"
    elif function in _BY_ROWS:
        reason = f"the error of {function!r} depends on the rows:"
    elif function == "mean" and options["n_rows"] == "private":
        reason = "with a private number of rows the error of a mean depends on where it lies:"
        other = ", or n_rows='public' where X is the whole table and anyone may know its length"
    else:
        return
    raise ValueError(f"{reason} pass like=, public rows or an earlier release{other}")


def _made_up(bounds: Any, n_features: int | None) -> NDArray[np.float64]:
    """Return one row in the middle of stated bounds."""
    if isinstance(bounds, str) or bounds is None or isinstance(bounds, dict):
        bounds = (0.0, 1.0)
    middle = np.add(*(np.asarray(side, dtype=np.float64) / 2 for side in bounds))
    if n_features is None:
        return np.atleast_1d(middle)[:1] if np.ndim(middle) == 0 else np.atleast_2d(middle)
    return np.broadcast_to(middle, (1, check_integer(n_features, "n_features", low=1))).copy()


def _rows_like(function: str, like: Any, n_features: int | None) -> NDArray[np.float64]:
    """Return public rows, or one made up from an earlier release."""
    if isinstance(like, Released):
        if function != "mean":
            raise ValueError(
                f"like: an earlier release does not tell the error of {function!r}; pass rows"
            )
        rows = np.atleast_1d(like.value)
        return rows[None] if like.ndim else rows
    rows = np.asarray(checked(like, "like"), dtype=np.float64)
    if rows.ndim not in (1, 2) or rows.size == 0:
        raise ValueError("like must be public rows, of shape (n,) or (n, n_features)")
    if n_features is not None and (rows.ndim == 1 or rows.shape[1] != n_features):
        raise ValueError(f"like must have n_features={n_features} columns, got shape {rows.shape}")
    return rows
