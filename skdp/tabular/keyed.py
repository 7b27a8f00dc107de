"""Rows with a key a column: the categories of which nobody stated the list.

Nothing is released here. A cell's key is its column, its family (text, number, boolean, missing)
and its value, and hangs on that cell alone; dates, bytes and other objects have none. `cell_codes`
looks up cells of the caller's own tables in the same way.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.cells import MISSING, cell_key, key_order
from skdp.tabular.columns import MISSING_CODE, as_they_come, coded, readable_type
from skdp.tabular.containers import as_list, kind_of
from skdp.tabular.encoding import _column_part, table_schema
from skdp.tabular.parts import ONE_PLACE, refuse_parts
from skdp.tabular.rows import _NO_ROWS, Rows

__all__ = [
    "MISSING",
    "KeyedRows",
    "array_of_cells",
    "cell_codes",
    "cell_key",
    "check_categorical",
    "check_keyed",
    "column_cells",
    "weights_of_keys",
]

Key = tuple[str, Any]  # family, value

_DATES = (
    "{estimator}: the type of column {label!r} is of dates, times or durations, which are no "
    "categories: make text or numbers of them first"
)


def cell_codes(cells: Any, code_of: Callable[[Key], int]) -> NDArray[np.int64]:
    """Return the code of each cell's key, -1 for one that has none; each decided by itself.

    Parameters
    ----------
    cells : column of an array, or of a pandas, polars or pyarrow table
    code_of : callable
    """
    codes, values = coded(cells, readable_type(cells))
    found = np.full(len(values) + 2, -1, dtype=np.int64)
    for code in as_they_come(codes, len(values)):
        key = cell_key(values[code]) if code >= 0 else MISSING if code == MISSING_CODE else None
        if key is not None:
            found[code] = code_of(key)
    return found[codes]


def weights_of_keys(
    places: NDArray[Any], keys: Sequence[Any], weights: list[int], without: Sequence[Any]
) -> tuple[list[Any], list[int]]:
    """Return the keys that rows have, sorted, and their weights: a row's keys share its own.

    Parameters
    ----------
    places : ndarray of shape (n_rows, n_columns)
        Of the key of each cell; -1 for a cell that has none.
    keys : sequence
    weights : list of int
        Of each key of a row with 1, 2, ... keys.
    without : sequence
        Keys that do not count.
    """
    gone = set(without)
    left = np.array([key not in gone for key in keys] + [False])  # -1 is the last
    keys_of_row = left[places].sum(axis=1)
    totals, present = [0] * len(keys), np.zeros(len(keys), dtype=bool)
    for several in np.unique(keys_of_row[keys_of_row > 0]).tolist():
        chosen = places[keys_of_row == several]
        counts = np.bincount(chosen[left[chosen]], minlength=len(keys))
        present |= counts > 0
        for i in np.flatnonzero(counts).tolist():
            totals[i] += weights[several - 1] * int(counts[i])
    found = sorted(np.flatnonzero(present).tolist(), key=lambda i: key_order(keys[i]))
    return [keys[i] for i in found], [totals[i] for i in found]


class KeyedRows(Rows):
    """Private rows as keys, at most one a column.

    Parameters
    ----------
    places : ndarray of shape (n_rows, n_columns)
        Of the key of each cell; -1 for a cell that has none.
    keys : list of (column, family, value)
    """

    def __init__(self, places: NDArray[np.int32], keys: list[tuple[int, str, Any]]) -> None:
        super().__init__(places)
        self._keys = keys

    def salt(self, number: int) -> int:
        """Return 0: a row has no more keys than columns, so none is chosen by rank."""
        return 0

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return the keys that rows have, sorted, and their weights: a row's keys share its own."""
        return weights_of_keys(self._part(self._X, 0, self._n), self._keys, weights, without)

    def digest(self) -> bytes:
        """Return a hash of the keys; it keys the noise of seeded fits and nothing else."""
        keys = [[self._keys[i] if i >= 0 else None for i in row] for row in self._X.tolist()]
        return hashlib.blake2b(repr(keys).encode(), digest_size=32).digest()


def check_categorical(X: Any, *, estimator: str, allow_empty: bool = False) -> tuple[Any, Any]:
    """Return a table of cells of any types and its `Schema`, whose types may be of categories.

    Raises
    ------
    TypeError, ValueError
        With a fixed text, if X is no table, has no rows, is in parts, or has columns of dates.
    """
    refuse_parts(X, estimator, ONE_PLACE)
    X, schema = table_schema(X, estimator=estimator)
    if X.shape[0] == 0 and not allow_empty:
        raise ValueError(_NO_ROWS)
    for j, dtype in enumerate(schema.types):
        if kind_of(dtype, schema.container) == "temporal":
            label = j if schema.names is None else schema.names[j]
            raise TypeError(_DATES.format(estimator=estimator, label=label))
    return X, schema


def column_cells(X: Any, j: int) -> Any:
    """Return a column of a table that `check_categorical` has checked, in its own container."""
    return _column_part(X, j, 0, int(X.shape[0]))


def array_of_cells(X: Any) -> NDArray[np.object_]:
    """Return the caller's own table, which `check_categorical` has checked, as objects."""
    found = np.empty(X.shape, dtype=object)
    for j in range(X.shape[1]):
        for i, cell in enumerate(as_list(column_cells(X, j))):
            found[i, j] = cell
    return found


def check_keyed(X: Any, columns: Sequence[int], *, missing: bool) -> KeyedRows:
    """Return the keys of some columns of a table that `check_categorical` has checked.

    Guarantee: a row's keys depend on that row only; after it returns reading cannot fail.

    Parameters
    ----------
    X : array or table
    columns : sequence of int
    missing : bool
        Whether a missing cell has a key.
    """
    places: dict[tuple[int, str, Any], int] = {}

    def place(j: int, key: Key) -> int:
        if key == MISSING and not missing:
            return -1
        return places.setdefault((j, *key), len(places))

    n, step = int(X.shape[0]), 2**16
    found = np.empty((n, len(columns)), dtype=np.int32)
    for i, j in enumerate(columns):
        for start in range(0, n, step):
            cells = _column_part(X, j, start, min(start + step, n))
            found[start : start + step, i] = cell_codes(cells, functools.partial(place, j))
    return KeyedRows(found, list(places))
