"""Disjoint parts of a table, by a key that each row has by itself.

Nothing is released here. A row is in the part whose name is the text of its key, or in none;
another row decides nothing about it, and no key raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp.tabular.canonical import as_list, plain
from skdp.tabular.containers import alone, take

__all__ = ["split_by_key"]


def split_by_key(X: Any, y: Any, keys: Any, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of each part, as tables of their own: (X,), or (X, y) where there is a y.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or None
    keys : array-like of shape (n_samples,)
    names : list of str
        Public.

    Raises
    ------
    ValueError
        If X, y and keys have different lengths.
    """
    listed = hasattr(keys, "__len__") and not isinstance(keys, str)
    if not listed or len(keys) != len(X) or (y is not None and len(y) != len(X)):
        raise ValueError("by (and y) must have an entry for each row of X.")
    is_column = hasattr(keys, "dtype") or hasattr(keys, "to_pylist")
    cells = as_list(keys) if is_column else list(keys)
    numbers = {name: number for number, name in enumerate(names)}
    place = np.array([numbers.get(_text(cell), -1) for cell in cells], dtype=np.intp)
    found = []
    for number in range(len(names)):
        rows = np.flatnonzero(place == number)
        found.append(tuple(_rows(one, rows) for one in (X, y) if one is not None))
    return found


def _text(cell: Any) -> str:
    """Return the text of a key; none at all where it is missing, or has none."""
    try:
        value = plain(cell)
        return "" if value is None else str(value)
    except Exception:  # noqa: BLE001  a key's own conversion may raise anything
        return ""


def _rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows as a table of their own, in the kind of container that X is."""
    if isinstance(X, list | tuple):
        # A list without rows has no columns.
        return [X[i] for i in rows] if rows.size else np.zeros((0, *np.shape(X[:1])[1:]))
    return alone(take(X, rows))
