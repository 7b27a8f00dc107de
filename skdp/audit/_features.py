"""Outputs of any mechanism as numbers, and a score that tells two tables apart.

Nothing is released. An output may be a number of any kind, a date, an array, a table, text, None, a
tuple, list, set or dictionary of such, a dataclass, a fitted estimator (what `fit` set), or an
exception that the mechanism raised. Anything else is refused: what it tells would not be seen, and
an audit would pass for no reason. Every number comes with what a released float says besides its
value: how many of its lowest bits are zero, and whether it is a value that one of the tables gives
often. Both have given other libraries' noise away.

References
----------
Mironov 2012, "On significance of the least significant bits for differential privacy".

Bichsel, Steffen, Bogunovic & Vechev 2021, "DP-Sniper" (events by a classifier).
"""

from __future__ import annotations

import dataclasses
import datetime
import numbers
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Raised", "learned_score", "numbers_of", "warn_of_long"]

Floats = NDArray[np.float64]

_FREQUENT = 24  # values with a column of their own, over all places of the output
_PLACES = 64  # numbers of an output that are looked at one by one
_HUGE = 1e300
_REST = "the rest"
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


class Raised(str):
    """What a mechanism raised instead of an output: that it did, and what it said, is seen."""

    __slots__ = ()


def numbers_of(output: Any) -> dict[str, float | str]:
    """Return the numbers and texts of an output by their place in it.

    Those after the first 64 are told by their number, their least and largest, their sum and a text
    that is equal where all of them are.

    Raises
    ------
    TypeError
        If the output holds an object that cannot be read.
    """
    found: dict[str, float | str] = {}
    _walk(output, "", found)
    if len(found) <= _PLACES:
        return found
    kept = dict(list(found.items())[:_PLACES])
    rest = list(found.values())[_PLACES:]
    values = [value for value in rest if isinstance(value, float)]
    kept[f"{_REST}.number"] = float(len(rest))
    kept[f"{_REST}.text"] = str(hash(tuple(rest)))  # of this process alone
    if values:
        kept[f"{_REST}.least"], kept[f"{_REST}.largest"] = min(values), max(values)
        kept[f"{_REST}.sum"] = float(np.clip(np.sum(values), -_HUGE, _HUGE))
    return kept


def warn_of_long(outputs: Iterable[Mapping[str, Any]]) -> None:
    """Warn where numbers of an output are not looked at one by one."""
    if any(f"{_REST}.number" in one for one in outputs):
        warnings.warn(
            f"outputs have more than {_PLACES} numbers: of the numbers beyond these, only "
            "equality, sum and extremes are used. Let the mechanism return the most informative "
            "numbers.",
            UserWarning,
            stacklevel=3,
        )


def _walk(value: Any, place: str, found: dict[str, float | str]) -> None:
    if isinstance(value, str | bytes | bytearray) or value is None:
        found[place] = repr(value)
    elif isinstance(value, bool | np.bool_ | numbers.Number | Decimal):
        _walk_number(value, place, found)
    elif isinstance(value, _TIMES):
        found[place] = repr(value)
    elif isinstance(value, np.ndarray) or _is_list(value):
        _walk_items(value, place, found)
    elif (pieces := _pieces(value)) is not None:
        for key, piece in pieces.items():
            _walk(piece, f"{place}.{key}", found)
    elif isinstance(value, set | frozenset):
        _walk(sorted(value, key=repr), place, found)
    elif hasattr(value, "toarray"):  # a sparse matrix
        _walk(value.toarray(), place, found)
    elif hasattr(value, "__array__"):
        _walk(np.asarray(value), place, found)
    else:
        raise TypeError(
            f"an output holds a {type(value).__name__} at {place or 'its top'}, which the audit "
            "cannot read. Return its numbers, arrays or text instead."
        )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not dataclasses.is_dataclass(value)


def _pieces(value: Any) -> Mapping[Any, Any] | None:
    """Return what an object with named pieces holds, or None if it is none."""
    if isinstance(value, type):
        return None
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if callable(getattr(value, "get_params", None)) and callable(getattr(value, "fit", None)):
        # What ends in "_" is what fit() set, in scikit-learn's convention.
        fitted = {key: v for key, v in vars(value).items() if key[-1] == "_" and key[0] != "_"}
        return fitted or None
    return None


def _walk_number(value: Any, place: str, found: dict[str, float | str]) -> None:
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        _walk_number(value.real, f"{place}.real", found)
        _walk_number(value.imag, f"{place}.imag", found)
        return
    found[place] = "nan" if value != value else float(min(max(value, -_HUGE), _HUGE))


def _walk_items(value: Any, place: str, found: dict[str, float | str]) -> None:
    shape = value.shape if isinstance(value, np.ndarray) else (len(value),)
    if shape == ():
        _walk(value.item(), place, found)
        return
    found[f"{place}.shape"] = repr(shape)
    items = value.ravel() if isinstance(value, np.ndarray) else value
    for i, item in enumerate(items):
        _walk(item, f"{place}[{i}]", found)


def trailing_zeros(values: Floats) -> Floats:
    """Return how many of the 52 bits after the leading one of each float are zeros at the end."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    mantissa = bits & np.uint64((1 << 52) - 1)
    lowest = mantissa & (~mantissa + np.uint64(1))
    with np.errstate(divide="ignore"):
        return np.where(mantissa == 0, 52.0, np.log2(np.maximum(lowest, 1).astype(np.float64)))


class Features:
    """Columns of numbers for outputs, decided on some outputs and applied to others."""

    def __init__(self, outputs: list[dict[str, float | str]]) -> None:
        self.places = sorted({place for one in outputs for place in one})
        often = Counter((place, value) for one in outputs for place, value in one.items())
        # What all of them have, or only one has, tells nothing.
        kept = [(key, times) for key, times in often.most_common() if 2 < times < len(outputs)]
        self.frequent = [key for key, _ in kept[:_FREQUENT]]

    def __call__(self, outputs: list[dict[str, float | str]]) -> Floats:
        """Return columns: values, low bits, presence, and whether it is a frequent value."""
        columns: list[Floats] = []
        for place in self.places:
            cells = [one.get(place) for one in outputs]
            is_number = np.array([isinstance(cell, float) for cell in cells])
            values = np.array([cell if isinstance(cell, float) else 0.0 for cell in cells])
            columns += [values, trailing_zeros(values), is_number.astype(np.float64)]
        for place, value in self.frequent:
            columns.append(np.array([one.get(place) == value for one in outputs], dtype=np.float64))
        return np.column_stack(columns) if columns else np.zeros((len(outputs), 1))


def learned_score(first: list[dict[str, float | str]], second: list[dict[str, float | str]]) -> Any:
    """Learn from two samples a function of outputs that is larger on the first table.

    Log odds of boosted trees over all columns, and the columns themselves: whichever has the
    largest area under its curve in a part of the samples that the trees did not see.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    features = Features(first + second)
    rows = np.vstack([features(first), features(second)])
    target = np.repeat([1, 0], [len(first), len(second)])
    seen = np.arange(len(rows)) % 3 > 0  # every third one judges
    trees = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=8, min_samples_leaf=20, early_stopping=False, random_state=0
    ).fit(rows[seen], target[seen])

    def of_trees(outputs: list[dict[str, float | str]]) -> Floats:
        return np.asarray(trees.decision_function(features(outputs)))

    def of_column(i: int, sign: float) -> Any:
        return lambda outputs: sign * features(outputs)[:, i]

    held = rows[~seen]
    areas = [roc_auc_score(target[~seen], column) for column in held.T]
    best = int(np.argmax(np.abs(np.array(areas) - 0.5)))
    sign = 1.0 if areas[best] >= 0.5 else -1.0
    trees_area = roc_auc_score(target[~seen], trees.decision_function(held))
    # A single column has less to be wrong about: trees have to be clearly better.
    if trees_area > 0.5 + 1.05 * abs(areas[best] - 0.5):
        return of_trees
    return of_column(best, sign)
