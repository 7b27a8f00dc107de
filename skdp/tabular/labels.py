"""Rows with private labels, targets or weights, checked together.

Labels become codes of public classes (-1 for a label that is not among them), targets become
floats. Each label is read by itself (`skdp.tabular.cells.read_cell`, `skdp.tabular.columns`). Every
error text is fixed and quotes no label.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skdp.tabular.cells import cell_key, family, identity, key_order, read_cell
from skdp.tabular.columns import (
    MISSING_CODE,
    STRANGE_CODE,
    ColumnType,
    as_they_come,
    coded,
    flat_column,
    flat_columns,
    numbers_of,
    places_by,
    readable_type,
    stated_places,
)
from skdp.tabular.containers import as_list, never_held, refused_type, to_float
from skdp.tabular.parts import (
    ONE_PLACE,
    PartsRows,
    checked_parts,
    is_parts,
    refuse_parts,
    with_target,
)
from skdp.tabular.rows import (
    NumericForm,
    Rows,
    check_rows,
    check_sparse,
    check_table,
    is_flat,
    number_problems,
    numeric_head,
)

_NO_LABELS = "{estimator} requires {y} to be passed, but the target {y} is None."
_OTHER_LENGTH = (
    "Found input variables with inconsistent numbers of samples: X and {y} must have the same "
    "number of rows."
)
_NOT_FLAT = "{y} must be one-dimensional, of shape (n_samples,)."
_NOT_FINITE = "Input {y} contains NaN or infinity, or is missing an entry; {y} must be finite."
_NEVER_HELD = (
    "{estimator}: none of the stated classes or categories can be in {y}: they are text and {y} "
    "has numbers, or the other way round. Convert either {y}, or the stated classes (labels, in "
    "metrics). Nothing was charged for this fit."
)
_NOT_REAL = "Input {y} must be real numbers."
_PARTS_WEIGHTS = (
    "{estimator}: sample_weight has no meaning for rows in parts. Leave weights out, or give all "
    "rows in one table. Nothing was charged for this fit."
)


# --- rows with labels -----------------------------------------------------------------------


class LabelledRows(Rows):
    """Rows with a code each (-1 for a label that is not among the classes), or with a target."""

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the codes of rows start to stop."""
        return np.asarray(self._part(self._y, start, stop), dtype=np.int64)

    def labelled(self, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return rows start to stop with their codes."""
        return self.chunk(start, stop), self.labels(start, stop)

    def weighted_labelled(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray]:
        """Return rows start to stop with their codes and weights."""
        return *self.labelled(start, stop), self.weights(start, stop)

    def digest(self) -> bytes:
        """Return a hash of rows and labels; it keys the noise of seeded fits and nothing else."""
        labels = np.ascontiguousarray(self._part(self._y, 0, self._n)).tobytes()
        return hashlib.blake2b(super().digest() + labels, digest_size=32).digest()


class TargetRows(LabelledRows):
    """Rows with their target behind their columns, or several; last their weights, if any.

    `n_targets` is None for a target of one dimension.
    """

    def __init__(self, X: Any, y: NDArray, weights: NDArray | None = None) -> None:
        super().__init__(X, y)
        self._weights = weights
        self.n_targets = None if y.ndim == 1 else y.shape[1]
        self.n_features += (self.n_targets or 1) + (weights is not None)

    def behind(self) -> tuple[Rows, int]:
        """Return the columns behind those of X as rows of their own, and how many are of X."""
        columns = [column for column in (self._y, self._weights) if column is not None]
        rows = Rows(np.column_stack(columns), positions=self._positions, filtered=self.filtered)
        rows.units = self.units
        return rows, self.n_features - rows.n_features

    def chunk(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start to stop, each with its target, shape (stop - start, n_features)."""
        values = super().chunk(start, stop)
        # Columns in memory: what is done column by column is much faster.
        columns = np.empty((self.n_features, len(values)))
        columns[: values.shape[1]] = values.T
        place = values.shape[1]
        for behind in (self._y, self._weights):
            if behind is not None:
                part = np.asarray(self._part(behind, start, stop), dtype=np.float64)
                part = part.reshape(len(part), -1).T
                # What changed after the check: as in `Rows.chunk`.
                columns[place : place + len(part)] = np.where(np.isfinite(part), part, 0.0)
                place += len(part)
        return columns.T


# --- labels and targets -------------------------------------------------------------------------


def label_column(y: Any, n_rows: int | None, name: str = "y") -> tuple[Any, str]:
    """Return labels as one column, and an error text if they are not one for each row."""
    if y is None:
        return None, _NO_LABELS
    column = flat_column(y, name)
    if column is None or isinstance(column, np.ma.MaskedArray):
        return None, _NOT_FLAT
    return column, "" if n_rows in (None, len(column)) else _OTHER_LENGTH


def label_codes(labels: Any, classes: Sequence[Any] | NDArray) -> NDArray[np.int64]:
    """Return the position of each label among the classes, -1 for one that is not there.

    Guarantee: an entry depends on its label and the declared type of the labels only; no label
    raises.
    """
    places = stated_places(labels, places_by(classes))
    return np.maximum(places, -1, out=places)


def _coded_labels(
    labels: Any, classes: Sequence[Any] | NDArray
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the codes of labels, and which of them are missing or infinite."""
    places = stated_places(labels, places_by(classes))
    # Infinity is a number, but no class; like NaN it is refused.
    missing = places == MISSING_CODE
    kind = readable_type(labels).kind
    if kind == "float":
        missing |= np.isinf(numbers_of(labels, ColumnType(kind)))
    elif kind == "any":
        cells = as_list(labels)
        for i in np.flatnonzero(places == STRANGE_CODE).tolist():
            missing[i] = read_cell(cells[i]) in (math.inf, -math.inf)
    return np.maximum(places, -1, out=places), missing


def check_labelled(
    X: Any,
    y: Any,
    *,
    estimator: str,
    classes: NDArray | None = None,
    allow_empty: bool = False,
    one_place: str = ONE_PLACE,
    takes_sparse: bool = False,
) -> Any:
    """Return validated private rows with codes of their private labels, or with float targets.

    With `takes_sparse`, rows may be sparse. Guarantee: as `check_rows`, for X and y. Labels are of
    any type; without `classes` (public, sorted) they are finite numbers. Labels that are not among
    the classes are allowed; their rows are in no fit. If X is in parts, y is the name of a column
    or another table in parts.
    """
    if is_parts(X) or is_parts(y):
        options: Any = {"allow_empty": allow_empty, "one_place": one_place, "classes": classes}
        return _labelled_parts(X, y, estimator=estimator, **options)
    check = check_sparse if takes_sparse and sparse.issparse(X) else check_rows
    rows = check(X, estimator=estimator, allow_empty=allow_empty)
    numbers, _ = check_labels(y, rows._n, estimator=estimator, classes=classes)
    return LabelledRows(rows._X, numbers)


def check_labels(
    y: Any,
    n_rows: int | None,
    *,
    estimator: str,
    classes: NDArray | None = None,
    omit: bool = False,
    name: str = "y",
) -> tuple[NDArray, NDArray[np.bool_]]:
    """Return codes of private labels, or float targets, and which are missing or not finite.

    As `check_labelled`; missing labels are refused unless `omit`.
    """
    labels, problem = label_column(y, n_rows, name)
    if classes is not None and labels is not None:
        _check_classes(labels, classes, estimator, name)
    numbers, missing, problem = _numbers_of(labels, classes, problem, omit=omit)
    if problem:
        raise ValueError(problem.format(estimator=estimator, y=name))
    return numbers, missing


def _check_classes(labels: Any, classes: NDArray, estimator: str, name: str) -> None:
    """Raise if labels of this declared type can be none of the classes."""
    declared = labels.type if hasattr(labels, "to_pylist") else labels.dtype
    if never_held(classes, declared):
        raise TypeError(_NEVER_HELD.format(estimator=estimator, y=name))


def _numbers_of(
    labels: Any, classes: NDArray | None, problem: str, *, omit: bool
) -> tuple[NDArray, NDArray[np.bool_], str]:
    """Return codes or targets of labels, which are missing, and an error text or "".

    Labels and problem are those of `label_column`.
    """
    numbers: NDArray
    if problem:
        return np.empty(0), np.empty(0, dtype=bool), problem
    if classes is not None:
        numbers, missing = _coded_labels(labels, classes)
    else:
        values, problem = to_float(labels)
        if problem or values is None:
            return np.empty(0), np.empty(0, dtype=bool), _NOT_REAL
        numbers, missing = values, ~np.isfinite(values)
    return numbers, missing, "" if omit or not missing.any() else _NOT_FINITE


def _of_known(rows: Rows, codes: NDArray, missing: NDArray[np.bool_]) -> LabelledRows:
    """Return rows with their codes; where rows are left out, also those without a label."""
    positions = rows._positions
    if positions is not None:
        positions = positions[~missing[positions]]
    return LabelledRows(rows._X, codes, positions=positions, filtered=rows.filtered)


@dataclass(frozen=True)
class LabelForm(NumericForm):
    """Batches as rows with labels or, without `classes`, with targets."""

    classes: NDArray | None = None
    name: str = "y"

    def check(self, batch: Any) -> tuple[Rows | None, set[int]]:
        """Return the rows of a batch, and which problems it has."""
        X, y = self.sides(batch)
        if y is None:
            return None, {_Y_PROBLEMS[_OTHER_LENGTH]}
        rows, bad = self._numeric(X)
        if rows is None:
            return None, bad
        labels, text = label_column(y, rows._length, self.name)
        numbers, missing, text = _numbers_of(labels, self.classes, text, omit=self.omit)
        if text:
            bad = bad | {_Y_PROBLEMS[text]}
        if text not in ("", _NOT_FINITE):
            return None, bad
        if self.classes is None:
            return TargetRows(rows._X, numbers), bad
        return _of_known(rows, numbers, missing), bad


# Problems of y come behind those of X: their texts and numbers.
_Y_PROBLEMS = {_OTHER_LENGTH: 2, _NOT_FLAT: 3, _NOT_REAL: 4, _NOT_FINITE: 5}


def _labelled_parts(
    X: Any,
    y: Any,
    *,
    estimator: str,
    classes: NDArray | None,
    allow_empty: bool,
    one_place: str,
    omit: bool = False,
    filtered: bool = False,
    name: str = "y",
) -> PartsRows:
    """Return a table in parts with its labels or targets as rows; errors as `check_labelled`."""
    for side, what in ((X, "X"), (y, name)):
        refuse_parts(side, estimator, one_place, name=what)
    if y is None:
        raise ValueError(_NO_LABELS.format(estimator=estimator, y=name))
    source, columns, heads, target, y_heads = with_target(X, y, name)
    if any(len(head.shape) > 1 and head.shape[1] != 1 for head in y_heads):
        raise ValueError(_NOT_FLAT.format(y=name))
    if classes is None and any(refused_type(head)[0] for head in y_heads):
        raise ValueError(_NOT_REAL.format(y=name))
    labels = flat_column(y_heads[0], name)
    if classes is not None and labels is not None:
        _check_classes(labels, classes, estimator, name)
    head = numeric_head(heads, estimator)
    texts = [text.format(estimator=estimator, y=name) for text in _Y_PROBLEMS]
    form = LabelForm(
        columns,
        int(head.shape[1]),
        (*number_problems(omit), *((ValueError, text) for text in texts)),
        target,
        has_target=True,
        read="chunk" if classes is None else "labelled",
        targets=int(classes is None),
        omit=omit,
        classes=classes,
        name=name,
    )
    return checked_parts(source, form, head, allow_empty=allow_empty, filtered=filtered or omit)


def check_labelled_table(
    X: Any,
    labels: Any,
    *,
    estimator: str,
    classes: NDArray,
    allow_empty: bool = False,
    omit: bool = False,
    filtered: bool = False,
    one_place: str = ONE_PLACE,
) -> tuple[Any, bool]:
    """Return validated rows with a private label each, as `check_table`, and whether X is flat.

    A label that is not among the classes is allowed. With `omit`, a missing label is a missing cell
    of its row.
    """
    options: Any = {
        "estimator": estimator, "allow_empty": allow_empty, "omit": omit, "filtered": filtered
    }  # fmt: skip
    if is_parts(X) or is_parts(labels):
        options |= {"classes": classes, "one_place": one_place, "name": "labels"}
        return _labelled_parts(X, labels, **options), is_flat(X)
    rows, flat = check_table(X, **options)
    codes, missing = check_labels(
        labels, rows._X.shape[0], estimator=estimator, classes=classes, omit=omit, name="labels"
    )
    return _of_known(rows, codes, missing), flat


def with_weights(rows: Any, weights: Any, *, estimator: str) -> Any:
    """Return checked rows with a private weight each, any finite number, or raise.

    Weights are read by the methods ``weighted`` and ``weighted_labelled``; chunks are as before.
    """
    if isinstance(rows, PartsRows):
        raise TypeError(_PARTS_WEIGHTS.format(estimator=estimator))
    copied = copy.copy(rows)
    copied._row_weights = _checked_weights(weights, rows._n, estimator)
    return copied


def _checked_weights(weights: Any, n: int, estimator: str) -> NDArray:
    """Return a weight for each of n rows, or raise; a table of one column is refused."""
    shape = getattr(weights, "shape", None)
    if shape == () or isinstance(weights, Real):  # one public weight of all rows
        weights = np.full(n, weights)
    elif isinstance(shape, tuple) and len(shape) != 1:
        text = _NOT_FLAT.format(y="sample_weight")
        raise ValueError(f"Sample weights must be 1D array or scalar: {text}")
    return check_labels(weights, n, estimator=estimator, name="sample_weight")[0]


def check_with_target(
    X: Any,
    y: Any,
    *,
    estimator: str,
    allow_empty: bool = False,
    one_place: str = ONE_PLACE,
    takes_sparse: bool = False,
    takes_table: bool = False,
    weights: Any = None,
) -> Any:
    """Return validated private rows with a private number each, which is their last column.

    With `takes_sparse`, rows may be sparse; with `takes_table`, y may have several columns. With
    `weights`, a private weight of each row is behind its number: any finite number. Guarantee: as
    `check_labelled`.
    """
    if is_parts(X) or is_parts(y):
        if weights is not None:
            raise TypeError(_PARTS_WEIGHTS.format(estimator=estimator))
        options: Any = {"allow_empty": allow_empty, "one_place": one_place, "classes": None}
        return _labelled_parts(X, y, estimator=estimator, **options)
    check = check_sparse if takes_sparse and sparse.issparse(X) else check_rows
    rows = check(X, estimator=estimator, allow_empty=allow_empty)
    columns, is_table = flat_columns(y, "y") if takes_table and y is not None else ([y], False)
    if not (is_table and columns):
        columns, is_table = [y], False
    targets = [check_labels(column, rows._n, estimator=estimator)[0] for column in columns]
    target = np.column_stack(targets) if is_table else targets[0]
    if weights is not None:
        weights = _checked_weights(weights, rows._n, estimator)
    return TargetRows(rows._X, target, weights)


# --- labels of which nobody stated the classes ------------------------------------------------

_FAMILIES = ("text", "number", "boolean")
_NO_CLASSES = ("date", "timestamp", "zoned", "time", "duration", "bytes")


class UnselectedRows(LabelledRows):
    """Checked rows with labels that have no codes until classes are released."""

    keys_per_row = 1

    def __init__(self, X: Any, labels: NDArray) -> None:
        codes, values = coded(labels, readable_type(labels))
        dtype = getattr(labels, "dtype", None)
        self._kind = dtype.kind if isinstance(dtype, np.dtype) else "O"
        self._dtype = dtype
        # The noise of a seeded fit depends on the order of keys: sorted, or as they come.
        if self._kind in "biufU":
            order = sorted(range(len(values)), key=values.__getitem__)
        else:
            order = [code for code in as_they_come(codes, len(values)) if code >= 0]
        place = np.full(len(values) + 2, -1, dtype=np.int64)  # the last two are of no value
        self._keys: list[Any] = []
        for i in order:
            key = cell_key(values[i])
            if key is not None:
                place[i] = len(self._keys)
                self._keys.append(key[1])
        super().__init__(X, place[codes])
        self._codes: NDArray[np.int64] = np.full(len(self._keys) + 1, -1, dtype=np.int64)

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the codes of rows start to stop: -1 before classes are known."""
        return self._codes[super().labels(start, stop)]

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return the labels that rows have, sorted, and the number of rows of each by weight."""
        places = np.asarray(self._part(self._y, 0, self._n), dtype=np.int64)
        counts = np.bincount(places[places >= 0], minlength=len(self._keys))
        gone = {identity(key) for key in without}
        present = [i for i in np.flatnonzero(counts) if identity(self._keys[i]) not in gone]
        present.sort(key=lambda i: (type(self._keys[i]) is bool, key_order(self._keys[i])))
        return [self._keys[i] for i in present], [weights[0] * int(counts[i]) for i in present]

    def boolean_labels(self) -> NDArray | None:
        """Return the labels of a y of type bool, which is public, or None."""
        return np.array([False, True]) if self._kind == "b" else None

    def take_domain(self, classes: NDArray) -> None:
        """Give each label its place among public classes, which are sorted."""
        self.take_classes(classes.tolist())

    def take_classes(self, released: Sequence[Any]) -> NDArray:
        """Give each label its place among released keys, and return these as classes, sorted.

        If released keys are of several families (text and numbers), the largest family are the
        classes; of equally large ones text comes first, then numbers.
        """
        families = [family(key) for key in released]
        best = max(_FAMILIES, key=families.count)
        keys = [key for key in released if family(key) == best]
        classes = np.unique(np.array(keys)) if keys else np.array(keys, dtype=np.int64)
        if self._kind in "biuf":  # the type of y is public
            classes = np.unique(classes.astype(self._dtype))
        cells = np.empty(len(self._keys), dtype=object)
        cells[:] = self._keys
        # A label of another family is in no class, though True and 1 are equal.
        same = np.array([family(key) == best for key in self._keys], dtype=bool)
        codes = label_codes(cells, classes) if keys else np.full(len(cells), -1)
        self._codes = np.append(np.where(same, codes, -1), -1).astype(np.int64)
        return classes

    def digest(self) -> bytes:
        """Return a hash of rows and labels; it keys the noise of seeded fits and nothing else."""
        keys = repr(self._keys).encode()
        return hashlib.blake2b(super().digest() + keys, digest_size=32).digest()


def check_unselected(X: Any, y: Any, *, estimator: str, allow_empty: bool = False) -> Any:
    """Validate private rows with private labels, whose classes will be selected privately.

    Guarantee: as `check_labelled`. Refused are tables in parts too, and labels that are dates by
    the type of y.
    """
    if is_parts(X) or is_parts(y):
        raise ValueError(
            f"{estimator}: classes must be given for a table in parts: they are selected privately "
            "from labels in one place only"
        )
    rows = check_rows(X, estimator=estimator, allow_empty=allow_empty)
    labels, problem = label_column(y, rows._n)
    _, _, problem = _numbers_of(labels, np.arange(2), problem, omit=False)
    if problem:
        raise ValueError(problem.format(estimator=estimator, y="y"))
    kind = readable_type(labels)
    if kind.kind in _NO_CLASSES or getattr(kind.dtype, "kind", "") == "c":
        raise ValueError(
            f"{estimator}: classes must be given where y is of type {kind.kind!r}: text, "
            "numbers and booleans are selected privately"
        )
    return UnselectedRows(rows._X, labels)
