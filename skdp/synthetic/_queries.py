"""How users state queries: conjunctions, thresholds, intervals, parities, functions of a row.

Nothing is released here: what is stated is public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp.parameters import check_length, naming
from skdp.queries import Workload
from skdp.synthetic._kinds import (
    Functions,
    Queries,
    _check_weights,
    _Conjunctions,
    _Intervals,
    _Matrix,
    _Parities,
    _Sum,
    _Thresholds,
)
from skdp.tabular import Domain


def conjunctions(
    order: int = 2, *, monotone: bool = False, columns: Any = None, values: Any = None
) -> Queries:
    """State conjunctions: which part of the rows has given values in all of some columns.

    Parameters
    ----------
    order : int, default=2
        Number of columns of each query. All sets of this many columns are asked.
    monotone : bool, default=False
        False: one query for each cell of each marginal table of this many columns (general
        conjunctions). True: one query for each set of columns: whether all of them have a stated
        value.
    columns : sequence, default=None
        Names or positions of the columns to choose from; None: all columns.
    values : value or mapping from column to value, default=None
        For monotone conjunctions: one value for all columns, or a value for each column by name or
        position. If not given, the last category of a column, which is 1 for a column of zeros and
        ones. With `Bins`, any number in the cell. Unknown names are refused once the domain is
        known.

    Returns
    -------
    queries : Queries

    Raises
    ------
    TypeError, ValueError
        If `order` is not an integer of at least 1, if `columns` is empty, or if `values` is given
        for general conjunctions.

    Examples
    --------
    >>> from skdp.synthetic import Domain, conjunctions
    >>> conjunctions(3).workload(Domain.binary(16)).n_queries
    4480
    >>> conjunctions(3, monotone=True).workload(Domain.binary(16)).n_queries
    560
    """
    return _Conjunctions(order, monotone, columns, values)


def thresholds(columns: Any = None) -> Queries:
    """State thresholds of ordered columns: which part of the rows lies in the first j cells.

    Parameters
    ----------
    columns : sequence, default=None
        Names or positions; the categories are ordered as in the domain. None: all columns with
        `Bins` or with increasing numbers.

    Returns
    -------
    queries : Queries

    Examples
    --------
    >>> from skdp.synthetic import Bins, Domain, thresholds
    >>> thresholds().workload(Domain([Bins.regular(0, 1, 100)])).n_queries
    99
    """
    return _Thresholds(columns)


def intervals(columns: Any = None) -> Queries:
    """State intervals of ordered columns: which part of the rows lies in the cells i to j.

    Parameters
    ----------
    columns : sequence, default=None
        As for `thresholds`.

    Returns
    -------
    queries : Queries

    Examples
    --------
    >>> from skdp.synthetic import Bins, Domain, intervals
    >>> intervals().workload(Domain([Bins.regular(0, 1, 100)])).n_queries
    5050
    """
    return _Intervals(columns)


def parities(order: int = 2, *, columns: Any = None) -> Queries:
    """State parities: which part of the rows has an even sum of codes in some columns.

    The code of a value is its position in the domain, from 0. In columns of zeros and ones, the sum
    of codes is the number of ones.

    Parameters
    ----------
    order : int, default=2
        Number of columns of each query. All sets of this many columns are asked.
    columns : sequence, default=None
        Names or positions of the columns to choose from; None: all columns.

    Returns
    -------
    queries : Queries

    Examples
    --------
    >>> from skdp.synthetic import Domain, parities
    >>> parities(2).workload(Domain.binary(16)).n_queries
    120
    """
    return _Parities(order, columns)


def linear_queries(q: ArrayLike | Callable | Sequence[Callable], *, columns: Any = None) -> Queries:
    """State queries by a matrix, or by functions of a row.

    Parameters
    ----------
    q : array-like of shape (n_queries, n_cells) or (n_cells,), callable, or sequence of callables
        Values in [0, 1]. A matrix has one column for each cell of the stated columns; the value of
        the last column changes fastest. A function gets a row of the stated columns: a dict by name
        if the domain has names, otherwise a tuple. It is evaluated once at every cell of the public
        domain (at the middles of `Bins`), and never sees a private row.
    columns : sequence, default=None
        Names or positions; None: all columns. At most 2**20 cells together.

    Returns
    -------
    queries : Queries

    Raises
    ------
    TypeError, ValueError
        If a matrix holds no query, or anything but numbers in [0, 1]. Functions are checked when
        they are evaluated: in a fit, before any charge.

    Notes
    -----
    Coefficients other than 0 and 1 are rounded to multiples of 2**-20.

    **Cost.** A function is called in Python once for every cell of the stated columns, which takes
    10 to 20 microseconds each. So name the columns that it reads. On a domain of 2**20 cells, each
    evaluation of a function of two columns takes 0.1 seconds with ``columns=``, and 17 seconds
    without.

    Examples
    --------
    >>> from skdp.synthetic import Bins, Domain, linear_queries
    >>> domain = Domain({"origin": ["EWR", "JFK"], "delay": Bins([-60, 15, 1500])})
    >>> late = linear_queries(lambda row: row["origin"] == "JFK" and row["delay"] > 15)
    >>> late.workload(domain).answers([[10, 20], [30, 40]]).tolist()
    [40]

    A function of few columns is asked at their cells only, if they are named.

    >>> late = linear_queries(lambda row: row["delay"] > 15, columns=["delay"])
    >>> late.workload(domain).answers([[10, 20], [30, 40]]).tolist()
    [60]
    """
    check_length(q, "q")
    if callable(q):
        return Functions([q], columns)
    if isinstance(q, Sequence) and len(q) > 0 and all(callable(g) for g in q):
        functions: list[Any] = list(q)
        return Functions(functions, columns)
    try:
        weights = np.array(q)
        if weights.dtype.kind not in "biuf":
            if weights.dtype.kind != "O":
                raise TypeError
            weights = weights.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("q must be a matrix of numbers in [0, 1], or functions") from None
    if weights.ndim == 1 and weights.size:
        weights = weights[None, :]
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(
            "q must hold at least one query: a matrix of shape (n_queries, n_cells), got shape "
            f"{weights.shape}"
        )
    _check_weights(*weights.shape)
    inside = (weights >= 0) & (weights <= 1)
    if not inside.all():
        i, c = np.argwhere(~inside)[0]
        raise ValueError(f"q must lie in [0, 1]; query {i} is {weights[i, c]} at cell {c}")
    weights.setflags(write=False)
    return _Matrix(weights, columns)


def workload_of(queries: Any, domain: Domain) -> Workload:
    """Return the queries of the parameter ``queries`` on a domain, or raise naming it."""
    with naming("queries"):
        return as_queries(queries).workload(domain)


def as_queries(queries: Any) -> Queries:
    """Return a specification, a function, or a sequence of such as one specification.

    Raises
    ------
    TypeError, ValueError
        If queries is none of these, or empty.
    """
    if isinstance(queries, Queries):
        return queries
    if callable(queries):
        return linear_queries(queries)
    if isinstance(queries, Sequence) and not isinstance(queries, str | bytes):
        if len(queries) == 0:
            raise ValueError("queries must hold at least one query, got none")
        if all(isinstance(q, Queries) or callable(q) for q in queries):
            return _Sum([as_queries(q) for q in queries])
    raise TypeError(
        "queries must be made by conjunctions, thresholds, intervals, parities or linear_queries, "
        f"or be a function of a row, or a sequence of these; got {type(queries).__name__}"
    )
