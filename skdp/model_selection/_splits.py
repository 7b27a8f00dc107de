"""Which splitters give neighbouring tables neighbouring folds, under which relation.

Nothing is released here and no row is read. Under "replace_one" the number of rows is public, and
folds that are a function of the positions alone are neighbouring. Under "add_or_remove_one" it is
private: positions shift, so that only folds by content are neighbouring (`PerRecordKFold`); and
what fits once a row, or on a number of rows that follows from that of the table, tells it.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)

from skdp.base.callers import refused_for_users
from skdp.base.leaks import HALVES, is_halving
from skdp.model_selection._folds import PerRecordKFold

# The relations under which folds are looked at; of a budget whose unit has many rows, both count as
# the last: the number of rows is private, and a user is all of one fold or in none of it.
REPLACE, ADD, USERS = "replace_one", "add_or_remove_one", "users"

WAY_OUT = ". Use "  # between what is refused and what to do instead

_PER_ROW_NOTE = (
    "folds of PerRecordKFold differ in size between tables that differ in one replaced record: "
    "they are neighbouring under adjacency='add_or_remove_one' only"
)
_INDEX_NOTE = (
    "under adjacency='add_or_remove_one' only PerRecordKFold gives neighbouring folds: with "
    "{name} one record moves others between folds, an error tells of too few rows, and the sum of "
    "the charges is not a guarantee for the search"
)
_USERS_NOTE = (
    "where one user has many rows only PerRecordKFold gives neighbouring folds: with {name} a user "
    "more moves the rows of others between folds, and the sum of the charges is not a guarantee "
    "for the search"
)
_STATED_USERS_NOTE = (
    "where one user has many rows, stated splits give neighbouring folds only if the fold of each "
    "user was stated by looking at that user alone"
)
_STATED_NOTE = (
    "under adjacency='add_or_remove_one' only PerRecordKFold gives neighbouring folds: stated "
    "splits do so only if the fold of each row was stated by looking at that row alone"
)
_LABEL_NOTE = (
    "folds drawn from labels or groups (scikit-learn stratifies classifiers by default) are "
    "neighbouring only where those are public: elsewhere take cv=KFold(...), which splits by "
    "position"
)
_UNKNOWN_NOTE = (
    "it is not known how {name} draws its folds: they are neighbouring under "
    "adjacency='replace_one' if they are a function of the number of rows alone"
)
_TIME_NOTE = (
    "TimeSeriesSplit is for rows in an order of time: folds are neighbouring only if no private "
    "value decides the order of the rows"
)
_CLASSES_NOTE = (
    "min_resources={value!r} counts the classes in y: how many rows the rounds use is neighbouring "
    "only where the set of classes is public; state a number"
)

# Splitters whose folds are a function of the positions alone (n is public under replace_one). A
# class that inherits from one of them may do anything.
_BY_POSITION = (
    KFold,
    LeaveOneOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
_BY_LABEL = (
    GroupKFold,
    GroupShuffleSplit,
    LeaveOneGroupOut,
    LeavePGroupsOut,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)


def splitter_of(cv: Any) -> Any:
    """Return the splitter that scikit-learn would make of ``cv``."""
    if isinstance(cv, Iterator):
        raise ValueError(
            "cv is an iterator, which pricing the search would exhaust: pass a list of splits"
        )
    return check_cv(cv)


def number_of_splits(splitter: Any, n_samples: int | None, groups: Any) -> int:
    """Return the number of splits, from the number of rows at most."""
    if n_samples is None:
        if isinstance(splitter, LeaveOneOut | LeavePOut):
            raise ValueError(
                f"n_samples must be given for {type(splitter).__name__}, whose number of splits "
                "depends on it"
            )
        return int(splitter.get_n_splits(None, None, groups))
    stand_in = np.broadcast_to(np.float64(0.0), (n_samples, 1))
    return int(splitter.get_n_splits(stand_in, None, groups))


def relation_of(budget: Any) -> str:
    """Return the relation under which folds are looked at, of a budget or None."""
    if getattr(budget, "unit", None) is not None:
        return USERS
    return str(getattr(budget, "adjacency", REPLACE))


def _is_stated(cv: Any) -> bool:
    """Say whether the splits themselves are given."""
    return not hasattr(cv, "split") and not (cv is None or isinstance(cv, numbers.Integral))


def fold_notes(cv: Any, splitter: Any, classifier: bool, adjacencies: set[str]) -> list[str]:
    """Say where the folds of neighbouring tables are not neighbouring tables."""
    kind = type(splitter)
    per_record = isinstance(splitter, PerRecordKFold)
    notes = []
    if USERS in adjacencies and not per_record:
        stated = _is_stated(cv) or kind is PredefinedSplit
        notes.append(_STATED_USERS_NOTE if stated else _USERS_NOTE.format(name=kind.__name__))
    if "add_or_remove_one" in adjacencies and not per_record:
        stated = _is_stated(cv) or kind is PredefinedSplit
        notes.append(_STATED_NOTE if stated else _INDEX_NOTE.format(name=kind.__name__))
    if "replace_one" in adjacencies:
        stratified = classifier and (cv is None or isinstance(cv, numbers.Integral))
        if per_record:
            notes.append(_PER_ROW_NOTE)
        elif stratified or kind in _BY_LABEL:
            notes.append(_LABEL_NOTE)
        elif kind is TimeSeriesSplit:
            notes.append(_TIME_NOTE)
        elif not (_is_stated(cv) or kind in _BY_POSITION):
            notes.append(_UNKNOWN_NOTE.format(name=kind.__name__))
    return notes


def check_splits(cv: Any, splitter: Any, adjacencies: set[str], n_samples: int | None) -> None:
    """Refuse splits that tell the number of rows, or that count one row several times.

    Raises
    ------
    ValueError
        With the way out.
    """
    kind, why = refused_for_users(splitter)
    if USERS in adjacencies and kind:
        raise ValueError(
            f"cv: {kind} {why}{WAY_OUT}PerRecordKFold, which draws the fold of each user alone"
        )
    if "add_or_remove_one" in adjacencies and isinstance(splitter, LeaveOneOut | LeavePOut):
        raise ValueError(
            f"cv: {type(splitter).__name__} fits once a row or more, so the ledger would tell the "
            f"number of rows, which is private under adjacency='add_or_remove_one'{WAY_OUT}"
            "PerRecordKFold"
        )
    if not _is_stated(cv):
        return
    for number, split in enumerate(cv):
        for part, name in zip(split, ("training", "test"), strict=False):
            positions = np.asarray(part)
            if positions.dtype.kind not in "iu":
                continue  # a mask names each row once
            if n_samples is not None:
                positions = positions % n_samples  # -1 is the last row
            if np.unique(positions).size < positions.size:
                raise ValueError(
                    f"cv: the {name} part of split {number} names a row more than once, and each "
                    f"time counts against its privacy while the ledger says epsilon once{WAY_OUT}"
                    "splits that name each row once (no bootstrap)"
                )


def check_halving(search: Any, classifier: bool, adjacencies: set[str]) -> list[str]:
    """Refuse a halving search that tells the number of rows; else return what is to be noted.

    Raises
    ------
    ValueError
        With the way out.
    """
    if not is_halving(search) or search.resource != "n_samples":
        return []
    if USERS in adjacencies:
        raise ValueError(
            f"{type(search).__name__} with resource='n_samples' is refused where a user has many "
            f"rows: {HALVES}{WAY_OUT}GridSearchCV or "
            "RandomizedSearchCV with PerRecordKFold, or another resource="
        )
    if "add_or_remove_one" in adjacencies:
        raise ValueError(
            f"{type(search).__name__} with resource='n_samples' is refused under "
            f"adjacency='add_or_remove_one': {HALVES}{WAY_OUT}GridSearchCV or "
            "RandomizedSearchCV with PerRecordKFold, another resource=, or a budget "
            "with adjacency='replace_one'"
        )
    if classifier and isinstance(search.min_resources, str):
        return [_CLASSES_NOTE.format(value=search.min_resources)]
    return []
