"""Bounds of columns as users state them: pairs, pairs of arrays, mappings and Series by name.

Nothing is released here and no row is read: bounds are public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "PRIVATE",
    "check_bounds",
    "columns_of",
    "columns_of_bounds",
    "labels_of_bounds",
    "names_of",
]

PRIVATE = "private"

_BOUNDS = (
    "bounds must be 'private', a pair (low, high) of numbers, a pair (lows, highs) of two lists or "
    "arrays with one number per feature, or a mapping from column name to (low, high)"
)


def _has_pairs(bounds: Any) -> bool:
    """Say whether bounds look like one pair a column, which could be taken for (lows, highs).

    A list or array of anything but numbers, or a tuple of tuples: of two columns nobody could tell
    which is meant.
    """
    if isinstance(bounds, list) or (isinstance(bounds, np.ndarray) and bounds.ndim):
        return any(_ndim(side) > 0 for side in bounds)
    return isinstance(bounds, tuple) and any(isinstance(side, tuple) for side in bounds)


def _ndim(side: Any) -> int:
    """Return the number of dimensions of one bound; a list of lists of several lengths has two."""
    try:
        return int(np.ndim(side))
    except (TypeError, ValueError):
        return 2


def _is_number(side: Any) -> bool:
    """Say whether this one bound is a number, of any kind that arrays take."""
    return _ndim(side) == 0 and np.asarray(side).dtype.kind in "biufO"


def _by_name(
    bounds: Mapping[Any, Any], n_features: int, names: Sequence[Any] | None
) -> tuple[list[Any], list[Any]]:
    """Return lows and highs in the order of the columns."""
    if names is None and set(bounds) <= set(range(n_features)):
        names = range(n_features)
    if names is None:
        way_out = (
            "; of an array the names are 0, 1, ..., and behind a step that makes arrays "
            "step.set_output(transform='pandas') keeps them"
        )
        if n_features == 1 and len(bounds) == 1:
            ((name, pair),) = bounds.items()
            way_out = f": of one column pass a table, as df[[{name!r}]], or write bounds={pair!r}"
        raise TypeError(
            f"bounds by column name need a table with column names, got rows without{way_out}"
        )
    unknown = [name for name in bounds if name not in names]
    if missing := [name for name in names if name not in bounds]:
        no_columns = f"; X does not have: {unknown}" if unknown else ""
        raise ValueError(
            f"bounds must state every column; there are none for {missing}{no_columns}"
        )
    if unknown:
        raise ValueError(f"bounds name columns that X does not have: {unknown}")
    for name in names:
        pair = bounds[name]
        if isinstance(pair, str) or _ndim(pair) != 1 or len(pair) != 2:
            raise TypeError(
                f"bounds of column {name!r} must be a pair (low, high) of numbers; learned and "
                "stated bounds do not mix"
            )
        if not all(_is_number(side) for side in pair):
            raise TypeError(f"bounds of column {name!r} must be a pair (low, high) of numbers")
    return [bounds[name][0] for name in names], [bounds[name][1] for name in names]


def _labels(side: Any) -> list[Any] | None:
    """Return the index of one bound that is a Series, unless it only counts positions."""
    if not (hasattr(side, "iloc") and hasattr(side, "index")) or _ndim(side) != 1:
        return None
    labels = list(side.index)
    return None if labels == list(range(len(labels))) else labels


def _aligned(side: Any, name: str, n_features: int, names: Sequence[Any] | None) -> Any:
    """Return one bound in the order of the columns, which its index may name in any other."""
    labels = _labels(side)
    if labels is None:
        return side
    columns = list(range(n_features) if names is None else names)
    if len(labels) != len(columns) or set(labels) != set(columns):
        raise ValueError(
            f"bounds: the index of {name} must hold each column once, got {labels} for "
            f"{columns}. For bounds by position pass {name}.to_numpy()"
        )
    return np.asarray(side)[[labels.index(column) for column in columns]]


def labels_of_bounds(bounds: Any) -> list[Any] | None:
    """Return the names of columns that bounds state, in their own order, or None."""
    if isinstance(bounds, Mapping):
        return list(bounds)
    if not isinstance(bounds, tuple):
        return None
    return next((labels for side in bounds if (labels := _labels(side)) is not None), None)


def check_bounds(
    bounds: Any, n_features: int, names: Sequence[Any] | None = None
) -> tuple[NDArray, NDArray] | None:
    """Return (low, high) as arrays of length n_features, or None for ``"private"``.

    Parameters
    ----------
    names : sequence, default=None
        Of the columns, as far as they have any; for bounds by column name, which a mapping has
        and a pair of Series with an index of its own.

    Raises
    ------
    TypeError, ValueError
        Naming ``bounds``; nothing has been charged.
    """
    if isinstance(bounds, str):
        if bounds == PRIVATE:
            return None
        raise ValueError(f"bounds must be 'private' or a pair (low, high), got {bounds!r}")
    if isinstance(bounds, Mapping):
        bounds = _by_name(bounds, n_features, names)
    elif _has_pairs(bounds):
        raise TypeError(
            f"{_BOUNDS}. A list of pairs is none of these: for columns a and b with bounds (0, 1) "
            "and (0, 9) write ([0, 0], [1, 9]) or {'a': (0, 1), 'b': (0, 9)}"
        )
    if isinstance(bounds, Iterator):  # a second fit would find it empty
        raise TypeError(_BOUNDS)
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise TypeError(_BOUNDS) from None
    low = _aligned(low, "low", n_features, names)
    high = _aligned(high, "high", n_features, names)
    try:
        sides = [np.asarray(low), np.asarray(high)]
        if any(side.dtype.kind not in "biufO" for side in sides):  # text, dates, complex
            raise TypeError
        pair = [np.asarray(side, dtype=np.float64) for side in sides]
    except OverflowError:
        raise ValueError("bounds: low and high must be finite") from None
    except (TypeError, ValueError):
        raise TypeError(_BOUNDS) from None
    for side, name in zip(pair, ("low", "high"), strict=True):
        if side.ndim > 1 or (side.ndim == 1 and side.size != n_features):
            raise ValueError(
                f"bounds: {name} must be one number or have one per feature ({n_features}), got "
                f"shape {side.shape}"
            )
        if not np.isfinite(side).all():
            raise ValueError(f"bounds: {name} must be finite")
    low_array, high_array = (np.broadcast_to(side, (n_features,)).copy() for side in pair)
    if np.any(wrong := low_array > high_array):
        labels = range(n_features) if names is None else names
        which = [label for label, bad in zip(labels, wrong, strict=True) if bad]
        raise ValueError(
            f"bounds: low must not exceed high for any feature, as it does for {which}"
        )
    return low_array, high_array


def columns_of_bounds(bounds: Any) -> int | None:
    """Return the number of columns that stated bounds have, if they say one."""
    if isinstance(bounds, Mapping):
        return len(bounds)
    if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray):
        return None
    sizes = [np.size(side) for side in bounds if _ndim(side) == 1]
    return max(sizes, default=None)


def names_of(like: Any) -> Sequence[Any] | None:
    """Return the names of the columns of public rows, or of an earlier fit, if they have any."""
    for attribute in ("feature_names_in_", "column_names", "columns"):
        names = getattr(like, attribute, None)
        if names is not None:
            return list(names)
    return None


def columns_of(like: Any) -> int | None:
    """Return the number of columns of public rows, or of an earlier fit, if they say one."""
    width = getattr(like, "n_features_in_", None)
    if width is None:
        shape: Any = getattr(like, "shape", None) or (() if like is None else np.shape(like))
        width = shape[1] if len(shape) == 2 else None
    return None if width is None else int(width)
