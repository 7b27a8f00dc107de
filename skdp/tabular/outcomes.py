"""Outcomes of a public model on private rows: labels beside predictions, scores or numbers.

Nothing is released here. Checked once, before any charge; after it no read can fail, and every
error text is fixed and quotes no cell. What is known of a row is decided by its own pair: the codes
of two labels and whether they are one, the code of a label and the cell of a score, or a number and
how far its prediction is from it. So neighbouring tables have neighbouring rows. How many rows
there are is taken as private, so that they may be a selection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.coding import CodedRows
from skdp.tabular.domain import Bins
from skdp.tabular.labels import _NO_LABELS, _OTHER_LENGTH, _flat, check_labels
from skdp.tabular.parts import ONE_PLACE, refuse_parts
from skdp.tabular.rows import Rows

__all__ = ["check_errors", "check_outcomes", "check_scores"]

_OTHER_KIND = (
    "{name} holds {kind}, and the classes are {others}: no label would be among them. State the "
    "classes as the labels are."
)
_FARTHEST = 1e100  # of a number: its square is finite


def check_outcomes(y_true: Any, y_pred: Any, *, estimator: str, classes: NDArray) -> CodedRows:
    """Return rows of three codes: the true class, the predicted one, and whether they are one.

    A label that is none of the classes has the code behind the last one; it equals nothing.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
    estimator : str
        Name for error messages.
    classes : ndarray of shape (n_classes,)
        Public, sorted.

    Raises
    ------
    TypeError, ValueError
        With a fixed text, if they have different lengths or other than one dimension, or a label is
        missing, or their public type is none that the classes have.
    """
    true = _codes(y_true, classes, estimator, "y_true")
    predicted = _codes(y_pred, classes, estimator, "y_pred")
    _same_length(true, predicted, "y_pred")
    size = len(classes)
    right = (true == predicted) & (true < size)
    return _coded([true, predicted, right], (size + 1, size + 1, 2))


def check_scores(
    y_true: Any, y_score: Any, *, estimator: str, classes: NDArray, bins: Bins
) -> CodedRows:
    """Return rows of two codes: the class, and the cell of the score.

    A score beyond the edges is in the nearest cell. Parameters and errors as `check_outcomes`; a
    score that is no finite number is refused.
    """
    true = _codes(y_true, classes, estimator, "y_true")
    scores = _numbers(y_score, estimator, "y_score")
    _same_length(true, scores, "y_score")
    cells, _ = bins.codes(scores)
    return _coded([true, cells], (len(classes) + 1, bins.size))


def check_errors(y_true: Any, y_pred: Any, *, estimator: str, targets: bool) -> Rows:
    """Return rows of how far a prediction is from its number; with `targets` that number first.

    Numbers beyond 1e100 count as that. Errors as `check_outcomes`.
    """
    true = _numbers(y_true, estimator, "y_true")
    predicted = _numbers(y_pred, estimator, "y_pred")
    _same_length(true, predicted, "y_pred")
    distance = np.abs(true - predicted)
    columns = [true, distance] if targets else [distance]
    return Rows(np.column_stack(columns), filtered=True)


def _codes(labels: Any, classes: NDArray, estimator: str, name: str) -> NDArray[np.int64]:
    found = _of_one_dimension(labels, estimator, name)
    kinds = ["text" if one.dtype.kind in "US" else "numbers" for one in (found, classes)]
    typed = found.dtype.kind in "USbiuf" and classes.dtype.kind in "USbiuf"
    if typed and kinds[0] != kinds[1]:  # the type of a column is public
        raise TypeError(_OTHER_KIND.format(name=name, kind=kinds[0], others=kinds[1]))
    codes, _ = check_labels(labels, len(found), estimator=estimator, classes=classes, name=name)
    return np.where(codes < 0, len(classes), codes)


def _numbers(numbers: Any, estimator: str, name: str) -> NDArray[np.float64]:
    n = len(_of_one_dimension(numbers, estimator, name))
    found, _ = check_labels(numbers, n, estimator=estimator, name=name)
    return np.clip(np.asarray(found, dtype=np.float64), -_FARTHEST, _FARTHEST)


def _of_one_dimension(values: Any, estimator: str, name: str) -> NDArray:
    refuse_parts(values, estimator, ONE_PLACE, name=name)
    found, problem = (np.empty(0), _NO_LABELS) if values is None else _flat(values, name)
    if problem:
        raise ValueError(problem.format(estimator=estimator, y=name))
    return found


def _same_length(first: NDArray, second: NDArray, name: str) -> None:
    if len(first) != len(second):
        raise ValueError(_OTHER_LENGTH.format(y=name).replace("X and", "y_true and"))


def _coded(columns: list[NDArray], sizes: tuple[int, ...]) -> CodedRows:
    kind = np.uint8 if max(sizes) <= 2**8 else np.uint16
    rows = CodedRows(np.column_stack(columns).astype(kind), sizes)
    rows.filtered = True
    return rows
