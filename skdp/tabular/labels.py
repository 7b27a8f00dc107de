"""Private labels and targets that travel with the rows; checked once, before any charge.

Nothing is released here. Labels become codes of public classes, targets become floats; every error
text is fixed and quotes no label.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skdp.tabular.canonical import plain
from skdp.tabular.containers import (
    checked,
    is_frame,
    is_listed,
    is_parts,
    never_held,
    reading,
    refused_type,
    to_float,
)
from skdp.tabular.parts import (
    ONE_PLACE,
    Pair,
    PartsRows,
    checked_parts,
    chosen,
    heads_of,
    joined,
    refuse_parts,
)
from skdp.tabular.rows import (
    NumericForm,
    Rows,
    _flat_head,
    _numeric_container,
    check_rows,
    check_table,
)
from skdp.tabular.sparse_rows import SparseRows, check_sparse
from skdp.tabular.values import object_rows
from skdp.user_code import no_restart, run_isolated

__all__ = [
    "check_labelled",
    "check_labelled_table",
    "check_with_target",
    "label_codes",
    "with_weights",
]
_NO_LABELS = "{estimator} requires {y} to be passed, but the target {y} is None."
_OTHER_LENGTH = "X and {y} must have the same number of rows."
_NOT_FLAT = "{y} must be one-dimensional, of shape (n_samples,)."
_NOT_FINITE = "Input {y} contains NaN or infinity, or is missing an entry; {y} must be finite."
_NEVER_HELD = (
    "{estimator}: none of the stated classes or categories can be in {y}: they are text and {y} "
    "has numbers, or the other way round. Convert either. Nothing was charged for this fit."
)
_NOT_REAL = "Input {y} must be real numbers."
_PARTS_WEIGHTS = (
    "{estimator}: sample_weight has no meaning for rows in parts. Leave weights out, or give all "
    "rows in one table. Nothing was charged for this fit."
)


# --- rows with labels -------------------------------------------------------------------------


class LabelledRows(Rows):
    """Rows with a number each: a code (-1 for a label that is none of the classes), or a target."""

    def labelled(self, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return rows start to stop with their codes."""
        codes = np.asarray(self._part(self._y, start, stop), dtype=np.int64)
        return self.chunk(start, stop), codes

    def weighted_labelled(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray]:
        """Return rows start to stop with their codes and weights."""
        return *self.labelled(start, stop), self.weighted(start, stop)[1]

    def digest(self) -> bytes:
        """Return a hash of rows and labels; it keys the noise of seeded fits and nothing else."""
        labels = np.ascontiguousarray(self._part(self._y, 0, self._n)).tobytes()
        return hashlib.blake2b(super().digest() + labels, digest_size=32).digest()


class TargetRows(LabelledRows):
    """Rows with their targets as one more column, the last; behind it their weights, if any."""

    def __init__(self, X: Any, y: NDArray, weights: NDArray | None = None) -> None:
        super().__init__(X, y)
        self._weights = weights
        self.n_features += 1 if weights is None else 2

    def chunk(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start to stop, each with its target, shape (stop - start, n_features)."""
        more = []
        for column in (self._y, self._weights):
            if column is not None:
                part = np.asarray(self._part(column, start, stop), dtype=np.float64)
                # What changed after the check: as in `Rows.chunk`.
                more.append(np.where(np.isfinite(part), part, 0.0))
        return np.column_stack([super().chunk(start, stop), *more])


class SparseTargetRows(TargetRows, SparseRows):
    """The same of sparse rows, of which a chunk at a time is dense."""


def _flat(y: Any, name: str = "y") -> tuple[NDArray, str]:
    """Return labels as an array of one dimension, and a fixed text if they are none."""
    y = checked(y, name)
    with reading():  # a label's own conversion may raise anything, polars a panic
        labels = run_isolated(lambda: _read(y), None, no_restart)
    if labels is None or isinstance(labels, np.ma.MaskedArray):
        return np.empty(0), _NOT_FLAT
    labels = np.asarray(labels).view()
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.reshape(-1)
    if labels.ndim != 1:
        return np.empty(0), _NOT_FLAT
    return labels, ""


def _read(y: Any) -> Any:
    """Return labels as numpy's, of one dimension or not; None if they are no column."""
    if is_listed(y):
        # Objects: a common dtype would be decided by all labels, one could turn the others to text.
        return object_rows(y)
    if hasattr(y, "column_names"):  # a pyarrow table, of one column
        (column,) = y.columns
        return object_rows(column.to_pylist())
    if hasattr(y, "to_pylist"):  # pyarrow, whose arrays depend on what is missing
        return object_rows(y.to_pylist())
    return _of_column(y) if hasattr(y, "to_numpy") else np.asanyarray(y)


def _of_column(y: Any) -> NDArray | None:
    """Return labels from a column of pandas or polars, or a table of one such column.

    Of a type that has missing cells, an array of all would be of floats as soon as one is missing.
    """
    if hasattr(y, "columns"):
        if len(y.columns) != 1:
            return None
        y = y.iloc[:, 0] if is_frame(y) else y.to_series(0)
    kind = getattr(y.dtype, "kind", "O")
    temporal = kind in "mM" or getattr(y.dtype, "is_temporal", bool)()
    if temporal or (isinstance(y.dtype, np.dtype) and kind != "O"):
        return np.asanyarray(y.to_numpy())  # numpy has a missing date
    return object_rows(y.to_list())


def _is_missing(label: Any) -> bool:
    """Say whether a label of any type is missing (None, NaN, NaT, NA) or infinite."""
    if isinstance(label, float | np.floating):
        return not math.isfinite(label)
    missing: bool = run_isolated(lambda: plain(label) is None, False, no_restart)
    return missing


def _declared(y: Any, labels: NDArray) -> tuple[Any, str]:
    """Return the declared type of labels, and of which library it is."""
    if hasattr(y, "column_names") or hasattr(y, "to_pylist"):
        return y.schema.types[0] if hasattr(y, "schema") else y.type, "pyarrow"
    if hasattr(y, "columns"):  # a table of one column
        dtype = next(iter(y.dtypes))
    else:
        dtype = getattr(y, "dtype", labels.dtype)
    return dtype, "polars" if hasattr(dtype, "is_temporal") else "numpy"


def _scalars(values: NDArray) -> list[Any]:
    """Return the entries of an array; dates as such, and not as counts of their unit."""
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def _comparable(a: np.dtype, b: np.dtype) -> bool:
    """Say whether numbers of two types are compared exactly by numpy."""
    if not {a.kind, b.kind} <= set("biuf"):
        return False
    longest = max([d.itemsize for d in (a, b) if d.kind in "iu"], default=0)
    return np.result_type(a, b).kind != "f" or longest < 8


def label_codes(labels: NDArray, classes: NDArray) -> NDArray[np.int64]:
    """Return the position of each label in the sorted classes, -1 for one that is not there.

    Numbers, dates and durations are the same whatever holds them. Guarantee: an entry depends on
    its label only, and nothing raises.
    """
    if labels.dtype.kind == "f" and labels.dtype.itemsize < 8 and classes.dtype.kind == "f":
        with np.errstate(all="ignore"):
            narrow = classes.astype(labels.dtype)  # 0.1 is another number in 32 bits
        classes = narrow if np.unique(narrow).size == classes.size else classes
    if _comparable(labels.dtype, classes.dtype):
        place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        return np.where(classes[place] == labels, place, -1)
    known = {plain(label): code for code, label in enumerate(_scalars(classes))}

    def code(label: Any) -> int:
        return known.get(plain(label), -1)

    items = _scalars(labels)
    # All at once, unless a label's own hash or comparison fails.
    codes = run_isolated(lambda: [code(label) for label in items], None, no_restart)
    if codes is None:
        codes = [run_isolated(functools.partial(code, label), -1, no_restart) for label in items]
    return np.array(codes, dtype=np.int64)


def check_labelled(
    X: Any,
    y: Any,
    *,
    estimator: str,
    classes: NDArray | None = None,
    allow_empty: bool = False,
    one_place: str = ONE_PLACE,
) -> Any:
    """Validate private rows with their private labels or targets.

    Guarantee: as `check_rows`, for X and y.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Labels of any type, or (without `classes`) finite numbers.
    estimator : str
        Name for error messages.
    classes : ndarray of shape (n_classes,), default=None
        Public, sorted. Other labels are allowed; their rows are in no fit.
    allow_empty : bool, default=False
    one_place : str
        As of `check_rows`. Of X in parts, y is the name of a column or another table in parts.

    Returns
    -------
    rows : Rows
        With codes of the classes, or float targets.

    Raises
    ------
    TypeError, ValueError
        As `check_rows`; if y is None, has another length, is not one-dimensional or has entries
        that are missing or (without `classes`) no finite numbers. The texts are fixed.
    """
    if is_parts(X) or is_parts(y):
        options: Any = {"allow_empty": allow_empty, "one_place": one_place, "classes": classes}
        return _labelled_parts(X, y, estimator=estimator, **options)
    rows = check_rows(X, estimator=estimator, allow_empty=allow_empty)
    numbers, _ = check_labels(y, rows._n, estimator=estimator, classes=classes)
    return LabelledRows(rows._X, numbers)


def check_labels(
    y: Any,
    n_rows: int,
    *,
    estimator: str,
    classes: NDArray | None = None,
    omit: bool = False,
    name: str = "y",
) -> tuple[NDArray, NDArray[np.bool_]]:
    """Return codes of private labels, or float targets, and which are missing or not finite.

    Parameters and errors as `check_labelled`.

    Parameters
    ----------
    omit : bool, default=False
        Allow labels that are missing; else they are refused.
    name : str
        Of the parameter, for error messages.
    """
    labels, problem = (np.empty(0), _NO_LABELS) if y is None else _flat(y, name)
    if classes is not None and not problem and never_held(classes.tolist(), *_declared(y, labels)):
        raise TypeError(_NEVER_HELD.format(estimator=estimator, y=name))
    numbers, missing, problem = _numbers_of(labels, problem, n_rows, classes, omit=omit)
    if problem:
        raise ValueError(problem.format(estimator=estimator, y=name))
    return numbers, missing


def _numbers_of(
    labels: NDArray, problem: str, n_rows: int, classes: NDArray | None, *, omit: bool
) -> tuple[NDArray, NDArray[np.bool_], str]:
    """Return codes or targets of labels, which are missing, and a text if they are refused."""
    if not problem and len(labels) != n_rows:
        problem = _OTHER_LENGTH
    numbers: NDArray = np.empty(0)
    missing = np.zeros(len(labels), dtype=bool)
    if not problem and classes is not None:
        if labels.dtype.kind == "f":
            missing = ~np.isfinite(labels)
        elif labels.dtype.kind in "OmM":
            missing = np.array([_is_missing(label) for label in _scalars(labels)], dtype=bool)
        numbers = label_codes(labels, classes)
    elif not problem:
        found, failed = to_float(labels)
        if failed or found is None or labels.dtype.kind in "USmM":
            problem = _NOT_REAL
        else:
            numbers, missing = found, ~np.isfinite(found)
    if not (problem or omit) and missing.any():
        problem = _NOT_FINITE
    return numbers, missing, problem


@dataclass(frozen=True)
class LabelForm(NumericForm):
    """Batches as rows with labels or, without `classes`, with targets.

    Attributes
    ----------
    y : object
        The column of the target; of a `Pair`, its columns.
    classes : ndarray or None
    estimator, name : str
        For error messages.
    """

    y: Any = None
    classes: NDArray | None = None
    estimator: str = ""
    name: str = "y"

    @property
    def problems(self) -> tuple[tuple[type[Exception], str], ...]:
        """Those of X, then those of y."""
        texts = [text.format(estimator=self.estimator, y=self.name) for text in _Y_PROBLEMS]
        return (*super().problems, *((ValueError, text) for text in texts))

    @property
    def read(self) -> str:
        """The method of the rows that returns all that is private about them."""
        return "chunk" if self.classes is None else "labelled"

    @property
    def targets(self) -> int:
        """How many columns a chunk has beside those of X."""
        return int(self.classes is None)

    @property
    def reads(self) -> tuple[Any, ...] | None:
        """Names of the columns that are read, those of the target included; None for all."""
        return None if self.columns is None else (*self.columns, self.y)

    def rows(self, batch: Any) -> Rows:
        """Return the rows of a batch."""
        X, y = self._sides(batch)
        values, _ = to_float(self.chosen(X))
        assert values is not None
        numbers, missing, problem = self._numbers(y, len(values))
        assert problem not in _Y_PROBLEMS[:3]
        return self._with(values, numbers, missing)

    def _with(self, values: NDArray, numbers: NDArray, missing: NDArray[np.bool_]) -> Rows:
        rows = self._rows(values)
        if self.classes is None:
            return TargetRows(rows._X, numbers)
        left = rows._positions
        left = None if left is None else left[~missing[left]]
        return LabelledRows(rows._X, numbers, positions=left, filtered=rows.filtered)

    def check(self, batch: Any) -> tuple[Rows | None, set[int]]:
        """Return the rows of a batch, and which problems it has."""
        X, y = self._sides(batch)
        if y is None:
            return None, {len(super().problems) + _Y_PROBLEMS.index(_OTHER_LENGTH)}
        values, problem = to_float(self.chosen(X))
        if values is None:
            return None, {0}
        _, found = super().check(values)
        found |= {0} if problem else set()
        numbers, missing, text = self._numbers(y, len(values))
        if text:
            return None, found | {len(super().problems) + _Y_PROBLEMS.index(text)}
        return self._with(values, numbers, missing), found

    def _sides(self, batch: Any) -> tuple[Any, Any]:
        if isinstance(batch, Pair):
            return batch.X, chosen(batch.y, self.y)
        batch = chosen(batch, None)
        return batch, chosen(batch, (self.y,))

    def _numbers(self, y: Any, n: int) -> tuple[NDArray, NDArray[np.bool_], str]:
        none = np.zeros(0)
        if self.classes is None:  # of numbers there is a faster way
            found, problem = to_float(y)
            if found is None or problem:
                return none, none.astype(bool), _NOT_REAL
            if found.size != len(found):
                return none, none.astype(bool), _NOT_FLAT
            numbers: NDArray = found.reshape(-1)
            missing = ~np.isfinite(numbers)
            return numbers, missing, _NOT_FINITE if missing.any() else ""
        labels, problem = _flat(_plain_labels(y))
        return _numbers_of(labels, problem, n, self.classes, omit=self.omit)


_Y_PROBLEMS = (_OTHER_LENGTH, _NOT_FLAT, _NOT_REAL, _NOT_FINITE)


def _plain_labels(y: Any) -> Any:
    """Return a column of Arrow without missing numbers as numpy's, which is read at once."""
    if not hasattr(y, "column_names") or len(y.columns) != 1:
        return y
    (column,) = y.columns
    name = str(column.type)
    if column.null_count == 0 and name.startswith(("int", "uint", "float", "double", "bool")):
        return np.asarray(column)
    return y


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
    if not is_parts(X):
        raise TypeError(f"{name} is in parts, so X must be in parts, too")
    columns: Any
    if is_parts(y):
        columns, heads = heads_of(X)
        target, target_heads = heads_of(y)
        if any(len(head.shape) > 1 and head.shape[1] != 1 for head in target_heads):
            raise ValueError(_NOT_FLAT.format(y=name))
        source = joined(X, y)
    elif hasattr(y, "__len__") and not isinstance(y, str | bytes | tuple):
        raise TypeError(
            f"{name} must be the name of a column of X or a table in parts, as X is in parts"
        )
    else:
        columns, heads = heads_of(X, without=y)
        target, source = y, X
        if classes is None:
            for head in (chosen(one, (y,)) for one in X.heads):
                if refused_type(head)[0]:
                    raise ValueError(_NOT_REAL.format(y=name))
    if classes is not None:
        of_y = target_heads[0] if is_parts(y) else chosen(X.heads[0], (y,))
        if never_held(classes.tolist(), *_declared(of_y, np.empty(0, dtype=object))):
            raise TypeError(_NEVER_HELD.format(estimator=estimator, y=name))
    for head in heads:
        _numeric_container(_flat_head(head), estimator)
    head = _flat_head(heads[0])
    form = LabelForm(columns, int(head.shape[1]), omit, target, classes, estimator, name)
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
    """Validate private rows, as `check_table`, with a private label each, and say if X is flat.

    A label that is none of the classes is allowed, and one that is missing where `omit` is true:
    it is a missing cell of its row.

    Parameters
    ----------
    classes : ndarray
        Public, sorted.
    """
    if is_parts(X) or is_parts(labels):
        rows = _labelled_parts(
            X,
            labels,
            estimator=estimator,
            classes=classes,
            allow_empty=allow_empty,
            one_place=one_place,
            omit=omit,
            filtered=filtered,
            name="labels",
        )
        return rows, getattr(X.heads[0], "ndim", 2) == 1
    rows, flat = check_table(
        X, estimator=estimator, allow_empty=allow_empty, omit=omit, filtered=filtered
    )
    codes, missing = check_labels(
        labels, rows._X.shape[0], estimator=estimator, classes=classes, omit=omit, name="labels"
    )
    positions = rows._positions
    if positions is not None:
        positions = positions[~missing[positions]]
    return LabelledRows(rows._X, codes, positions=positions, filtered=rows.filtered), flat


def with_weights(rows: Any, weights: Any, *, estimator: str) -> Any:
    """Return checked rows with a private weight each, any finite number, or raise.

    The rows are as wide as before: who reads weights reads ``weighted`` or ``weighted_labelled``.
    """
    if isinstance(rows, PartsRows):
        raise TypeError(_PARTS_WEIGHTS.format(estimator=estimator))
    copied = copy.copy(rows)
    copied._row_weights = _checked_weights(weights, rows._n, estimator)
    return copied


def _checked_weights(weights: Any, n: int, estimator: str) -> NDArray:
    """Return a weight for each of n rows, or raise; a table of one column is none, as elsewhere."""
    shape = getattr(weights, "shape", None)
    if isinstance(shape, tuple) and len(shape) != 1:
        raise ValueError(_NOT_FLAT.format(y="sample_weight"))
    return check_labels(weights, n, estimator=estimator, name="sample_weight")[0]


def check_with_target(
    X: Any,
    y: Any,
    *,
    estimator: str,
    allow_empty: bool = False,
    one_place: str = ONE_PLACE,
    takes_sparse: bool = False,
    weights: Any = None,
) -> Any:
    """Validate private rows with a private number each, which becomes their last column.

    With `takes_sparse`, rows may be sparse. With `weights`, a private weight each is behind it: any
    finite number. Guarantee: as `check_labelled`.
    """
    parts = is_parts(X) or is_parts(y)
    if parts and weights is not None:
        raise TypeError(_PARTS_WEIGHTS.format(estimator=estimator))
    as_sparse = takes_sparse and sparse.issparse(X) and not parts
    if not parts:
        check = check_sparse if as_sparse else check_rows
        rows = check(X, estimator=estimator, allow_empty=allow_empty)
        numbers, _ = check_labels(y, rows._n, estimator=estimator)
        if weights is not None:
            weights = _checked_weights(weights, rows._n, estimator)
        return (SparseTargetRows if as_sparse else TargetRows)(rows._X, numbers, weights)
    options: Any = {"allow_empty": allow_empty, "one_place": one_place, "classes": None}
    return _labelled_parts(X, y, estimator=estimator, **options)
