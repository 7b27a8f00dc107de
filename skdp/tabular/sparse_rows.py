"""Sparse private rows: copied, checked once, then read in chunks that are dense, as others are.

Nothing is released here. Guarantee: that of `check_rows`; whatever reads the rows gets the same
chunks as of the dense table. How many cells are stored, and which, decides nothing but the time
that reading takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skdp.core.table import MAX_FEATURES
from skdp.tabular.rows import Rows
from skdp.tabular.sound import own_sparse

__all__ = ["as_dense", "check_sparse", "dense_blocks"]

_NOT_FINITE = "Input X contains NaN or infinity; the cells of a sparse X must be finite."


class SparseRows(Rows):
    """The rows of a matrix in compressed sparse rows, of which a chunk at a time is dense."""

    def _part(self, table: Any, start: int, stop: int) -> Any:
        part = super()._part(table, start, stop)
        return part.toarray() if sparse.issparse(part) else part

    @property
    def head(self) -> NDArray[np.float64]:
        """The table without rows, for what is public about it."""
        return np.empty((0, self._X.shape[1]))


def check_sparse(X: Any, *, estimator: str, allow_empty: bool = False) -> SparseRows:
    """Validate a sparse private table; the container, its shape and its type are public.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_samples, n_features)
    estimator : str
    allow_empty : bool, default=False
        As in `check_rows`.

    Returns
    -------
    rows : SparseRows

    Raises
    ------
    TypeError, ValueError
        With a fixed text: no two dimensions, no numbers, not finite, no row, no column or too many,
        or an index, in `indices` or `indptr`, that contradicts the shape.
    """
    table = _own_rows(X, estimator)
    if table.shape[0] == 0 and not allow_empty:
        raise ValueError("X has 0 sample(s) while a minimum of 1 is required.")
    rows = SparseRows(table)
    with np.errstate(all="ignore"):
        if table.has_canonical_format:
            bad = [not np.isfinite(table.data.astype(np.float64, copy=False)).all()]
        else:  # of the chunks, not of the cells that are stored: what stands twice adds up
            parts = (rows._part(table, start, stop) for start, stop in rows.spans())
            bad = [not np.isfinite(part.astype(np.float64)).all() for part in parts]
    if any(bad):
        raise ValueError(_NOT_FINITE)
    return rows


def _own_rows(X: Any, estimator: str) -> sparse.csr_array:
    """Return the caller's sparse rows as our own, or raise with a fixed text."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have rows")
    kind = getattr(getattr(X, "dtype", None), "kind", "f")  # of no data at all, there is none
    if kind == "c":
        raise ValueError("Complex data not supported: X must be real.")
    if kind not in "biuf":
        raise TypeError(f"{estimator}: the cells of a sparse X must be real numbers")
    table = own_sparse(X)
    if not 1 <= table.shape[1] <= MAX_FEATURES:
        raise ValueError(
            f"Found array with {table.shape[1]} feature(s) while a minimum of 1 is required "
            f"and at most {MAX_FEATURES} are possible."
        )
    return table


def dense_blocks(X: Any, rows: int = 4096) -> Iterator[Any]:
    """Yield the caller's own sparse rows as dense blocks; at least one, which may be empty."""
    table = _own_rows(X, "predict or transform")
    for start in range(0, max(table.shape[0], 1), rows):
        yield table[start : start + rows].toarray()


def as_dense(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix, public or the caller's own, as an array; everything else as it is."""
    return own_sparse(X, name).toarray() if sparse.issparse(X) else X
