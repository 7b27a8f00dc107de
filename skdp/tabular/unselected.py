"""Rows with labels of which nobody stated the classes: each label is a key until classes are known.

Nothing is released here. Labels are text, numbers or booleans; any other one is of no class. What a
label is hangs on its own cell alone. Once classes are released, a label's code is its place among
them, or -1: a function of the label and of what is public.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.canonical import plain
from skdp.tabular.cells import family, identity, key_order
from skdp.tabular.containers import is_parts
from skdp.tabular.labels import (
    _NO_LABELS,
    LabelledRows,
    _flat,
    _numbers_of,
    _scalars,
    label_codes,
)
from skdp.tabular.rows import check_rows
from skdp.user_code import no_restart, run_isolated

__all__ = ["UnselectedRows", "check_unselected", "label_key"]

_FAMILIES = ("text", "number", "boolean")
_LARGEST = 2**63  # of a whole number that is a class


def label_key(label: Any) -> Any:
    """Return the key of a label; None for one that is of no class."""
    value = plain(label)
    if type(value) is float and math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < _LARGEST else value
    if type(value) is int:
        return value if abs(value) < _LARGEST else None
    return value if type(value) in (str, bool) else None


class UnselectedRows(LabelledRows):
    """Rows with labels that have no codes until classes are released.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
        Already checked.
    labels : ndarray of shape (n_samples,)
    """

    def __init__(self, X: Any, labels: NDArray) -> None:
        places: dict[Any, int] = {}
        keys: list[Any] = []
        one_by_one = labels.dtype.kind not in "biufU"
        if one_by_one:
            cells, inverse = _scalars(labels), np.arange(len(labels))
        else:
            distinct, inverse = np.unique(labels, return_inverse=True)
            cells = distinct.tolist()
        found = np.full(len(cells), -1, dtype=np.int64)
        for i, cell in enumerate(cells):
            key = run_isolated(functools.partial(label_key, cell), None, no_restart)
            if key is not None:
                found[i] = places.setdefault(identity(key), len(places))
                if found[i] == len(keys):
                    keys.append(key)
        super().__init__(X, found[inverse])
        self._keys = keys
        self._codes: NDArray[np.int64] = np.full(len(places) + 1, -1, dtype=np.int64)
        self._kind = labels.dtype

    def labelled(self, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return rows start to stop with their codes: -1 before classes are known."""
        values, places = super().labelled(start, stop)
        return values, self._codes[places]

    def salt(self, number: int) -> int:
        """Return 0: a row has one label, so none is chosen by rank."""
        return 0

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return the labels that rows have, sorted, and the number of rows of each by weight."""
        places = np.asarray(self._part(self._y, 0, self._n), dtype=np.int64)
        counts = np.bincount(places[places >= 0], minlength=len(self._keys))
        left = {identity(key) for key in without}
        present = [i for i in np.flatnonzero(counts) if identity(self._keys[i]) not in left]
        present.sort(key=lambda i: (type(self._keys[i]) is bool, key_order(self._keys[i])))
        return [self._keys[i] for i in present], [weights[0] * int(counts[i]) for i in present]

    def take_classes(self, released: Sequence[Any]) -> NDArray:
        """Give each label its place among released keys, and return these as classes, sorted.

        Of released keys of several families (text beside numbers), those of the family that has
        most are classes; of equally many, text comes first, then numbers.
        """
        families = [family(key) for key in released]
        best = max(_FAMILIES, key=families.count)
        kept = [key for key, family in zip(released, families, strict=True) if family == best]
        classes = np.unique(np.array(kept)) if kept else np.array(kept, dtype=np.int64)
        if self._kind.kind in "biuf":  # the type of y is public
            classes = np.unique(classes.astype(self._kind))
        cells = np.empty(len(self._keys), dtype=object)
        cells[:] = self._keys
        # Of another family is of no class, though True and 1 are equal.
        same = np.array([family(key) == best for key in self._keys], dtype=bool)
        codes = label_codes(cells, classes) if kept else np.full(len(cells), -1)
        self._codes = np.append(np.where(same, codes, -1), -1).astype(np.int64)
        return classes

    def digest(self) -> bytes:
        """Return a hash of rows and labels; it keys the noise of seeded fits and nothing else."""
        keys = repr(self._keys).encode()
        return hashlib.blake2b(super().digest() + keys, digest_size=32).digest()


def check_unselected(X: Any, y: Any, *, estimator: str, allow_empty: bool = False) -> Any:
    """Validate private rows with private labels, whose classes will be selected privately.

    Guarantee: as `skdp.tabular.check_labelled`.

    Raises
    ------
    TypeError, ValueError
        As `check_labelled`; for tables in parts, and labels that are dates by the type of y.
    """
    if is_parts(X) or is_parts(y):
        raise ValueError(
            f"{estimator}: classes must be given for a table in parts: they are selected privately "
            "from labels in one place only"
        )
    rows = check_rows(X, estimator=estimator, allow_empty=allow_empty)
    labels, problem = (np.empty(0), _NO_LABELS) if y is None else _flat(y)
    _, _, problem = _numbers_of(labels, problem, rows._n, np.arange(2), omit=False)
    if problem:
        raise ValueError(problem.format(estimator=estimator, y="y"))
    if labels.dtype.kind in "mMcSV":
        raise ValueError(
            f"{estimator}: classes must be given where y is of type {labels.dtype.kind!r}: text, "
            "numbers and booleans are selected privately"
        )
    return UnselectedRows(rows._X, labels)
