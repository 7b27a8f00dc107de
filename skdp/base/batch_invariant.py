"""Predictions with the same bits for a row in every batch.

A private score adds up one number for each row, and no number may change with another row. A matrix
product may add in an order that depends on the shape of the batch, and `numpy.interp` has two ways,
one for few rows. Within `exact_rows`, sums over columns are made from left to right, and values
interpolated, by elementwise operations, which IEEE 754 rounds in one way. That is slower than BLAS,
so it is used for scores only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_EXACT: ContextVar[bool] = ContextVar("exact_rows", default=False)


@contextmanager
def exact_rows() -> Iterator[None]:
    """Have the functions of this module give a row the same bits in every batch."""
    token = _EXACT.set(True)
    try:
        yield
    finally:
        _EXACT.reset(token)


def products(rows: Floats, weights: Floats) -> Floats:
    """Return the products of rows (n, d) with each row of weights (k, d), shape (n, k).

    Examples
    --------
    >>> import numpy as np
    >>> products(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """
    if not _EXACT.get():
        return np.asarray(rows @ weights.T)
    total = np.zeros((len(rows), len(weights)))
    for column, weight in zip(rows.T, weights.T, strict=True):
        total += column[:, None] * weight
    return total


def row_sums(values: Floats) -> Floats:
    """Return the sums over the columns of values (n, d), shape (n,)."""
    if not _EXACT.get():
        return np.asarray(values.sum(axis=1), dtype=np.float64)
    total = np.zeros(len(values))
    for column in values.T:
        total += column
    return total


def interpolated(values: Floats, marks: Floats, levels: Floats) -> Floats:
    """Return `numpy.interp` of values of shape (n,), between ascending marks.

    Examples
    --------
    >>> import numpy as np
    >>> marks, levels = np.array([0.0, 1.0]), np.array([4.0, 6.0])
    >>> with exact_rows():
    ...     interpolated(np.array([-1.0, 0.5, 3.0]), marks, levels)
    array([4., 5., 6.])
    """
    if not _EXACT.get():
        return np.asarray(np.interp(values, marks, levels))
    last = len(marks) - 1
    found = np.searchsorted(marks, values, side="right") - 1  # of equal marks the last
    at = np.clip(found, 0, last - 1)
    with np.errstate(all="ignore"):  # beyond the ends, and where a slope overflows
        slopes = (levels[at + 1] - levels[at]) / (marks[at + 1] - marks[at])
        inside = slopes * (values - marks[at]) + levels[at]
        from_right = slopes * (values - marks[at + 1]) + levels[at + 1]
    inside = np.where(np.isnan(inside), from_right, inside)
    flat = np.isnan(inside) & (levels[at] == levels[at + 1]) & ~np.isnan(values)
    inside = np.where(flat | (marks[at] == values), levels[at], inside)
    ends = np.where(found < 0, levels[0], levels[-1])
    return np.where((found < 0) | (found == last) & ~np.isnan(values), ends, inside)
