"""Disjoint parts of a table, by a key that each row has by itself.

Nothing is released here. A row is in the part whose name is the text of its key, or in none;
another row decides nothing about it, and no key raises. That takes care: a column of whole numbers
becomes one of floats where a single key is missing, so 1 and 1.0 have the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skdp.tabular.cells import family, read_cell, ticks
from skdp.tabular.containers import alone, as_list, take

__all__ = ["split_by_key"]


def split_by_key(X: Any, y: Any, keys: Any, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of each part, as tables of their own: (X,), or (X, y) where there is a y.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or None
    keys : array-like of shape (n_samples,)
    names : list of str
        Public. A whole number is named "1" or "1.0", a date "2026-01-31", a moment
        "2026-01-31T12:30:00".

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
    parts = {name: number for number, name in enumerate(names)}
    place = np.array([_place(cell, parts) for cell in cells], dtype=np.intp)
    found = []
    for number in range(len(names)):
        rows = np.flatnonzero(place == number)
        found.append(tuple(_rows(one, rows) for one in (X, y) if one is not None))
    return found


def _place(cell: Any, parts: Mapping[str, int]) -> int:
    """Return the number of the part that a key names; -1 for none."""
    return next((parts[text] for text in _texts(cell) if text in parts), -1)


def _texts(cell: Any) -> tuple[str, ...]:
    """Return the texts of a key: the same for equal numbers and dates, whatever holds them.

    None at all where it is missing, or has none.
    """
    value = read_cell(cell)
    found = family(value)
    if found in ("date", "timestamp"):
        return _texts_of_date(np.datetime64(ticks(value), "ns"))
    if value is None or found not in ("text", "number", "boolean", "uuid"):
        return ()
    return (str(value), f"{value}.0") if type(value) is int else (str(value),)


def _texts_of_date(moment: np.datetime64) -> tuple[str, ...]:
    """Return a moment as ISO 8601 has it, in its shortest form and in seconds; a day as a day."""
    units = [f"M8[{unit}]" for unit in ("D", "s", "us", "ns")]
    return tuple(str(moment.astype(one)) for one in units if moment.astype(one) == moment)


def _rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows as a table of their own, in the kind of container that X is."""
    if isinstance(X, list | tuple):
        # A list without rows has no columns.
        return [X[i] for i in rows] if rows.size else np.zeros((0, *np.shape(X[:1])[1:]))
    return alone(take(X, rows))
