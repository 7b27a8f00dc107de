"""Sparse private rows: checked once, then read in chunks that are dense, as other rows are.

Nothing is released here. Guarantee: that of `check_rows`; whatever reads the rows gets the same
chunks as of the dense table. How many cells are stored, and which, decides nothing but the time
that reading takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from skdp.core.table import MAX_FEATURES
from skdp.tabular.rows import Rows

__all__ = ["check_sparse", "dense_blocks"]

_NOT_FINITE = "Input X contains NaN or infinity; the cells of a sparse X must be finite."


class SparseRows(Rows):
    """The rows of a matrix in compressed sparse rows, of which a chunk at a time is dense."""

    def _part(self, table: Any, start: int, stop: int) -> Any:
        part = super()._part(table, start, stop)
        return part.toarray() if sparse.issparse(part) else part


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
        With a fixed text: no two dimensions, no numbers, not finite, no row, no column or too many.
    """
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have rows")
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real.")
    if X.dtype.kind not in "biuf":
        raise TypeError(f"{estimator}: the cells of a sparse X must be real numbers")
    if not 1 <= X.shape[1] <= MAX_FEATURES:
        raise ValueError(
            f"Found array with {X.shape[1]} feature(s) while a minimum of 1 is required "
            f"and at most {MAX_FEATURES} are possible."
        )
    if X.shape[0] == 0 and not allow_empty:
        raise ValueError("X has 0 sample(s) while a minimum of 1 is required.")
    rows = SparseRows(X.tocsr())
    # Of the chunks, not of the cells that are stored: what stands twice adds up.
    bad = [
        not np.isfinite(rows._part(rows._X, start, stop).astype(np.float64)).all()
        for start, stop in rows.spans()
    ]
    if any(bad):
        raise ValueError(_NOT_FINITE)
    return rows


def dense_blocks(X: Any, rows: int = 4096) -> Iterator[Any]:
    """Yield the caller's own sparse rows as dense blocks; at least one, which may be empty."""
    table = X.tocsr()
    for start in range(0, max(table.shape[0], 1), rows):
        yield table[start : start + rows].toarray()
