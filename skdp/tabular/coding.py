"""Private tables of cells of any types as codes: of a public domain, or of a model's outcomes.

`check_coded` codes a private table by a `Domain`, once, before any charge. After it no reader of
the rows can fail. The codes of a row depend on that row only, and are in range. Cells outside of
the domain are moved to a declared value, or the table is refused, as the domain says: refusing
shows that there is such a cell, and nothing else. Proofs: workloads.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.columns import flat_array
from skdp.tabular.containers import is_parts, kind_of
from skdp.tabular.domain import REFUSE, Bins, Domain
from skdp.tabular.encoding import Schema, _column_part, table_schema
from skdp.tabular.labels import _NOT_FINITE, _OTHER_LENGTH, check_labels, label_column
from skdp.tabular.parts import _NO_ROWS, ONE_PLACE, Form, checked_parts, heads_of, refuse_parts
from skdp.tabular.rows import Rows
from skdp.user_code import interruptible, suppress_warnings

__all__ = ["CodedRows", "check_coded", "check_coded_target", "public_codes", "target_column"]

_OUTSIDE = (
    "X has values outside of the stated domain, which refuses them; with outside='clip' they are "
    "moved to a declared value."
)


class CodedRows(Rows):
    """Private rows as codes of a public domain; each is in range of the column's size."""

    def __init__(self, codes: NDArray, sizes: tuple[int, ...]) -> None:
        super().__init__(codes)
        self.sizes = sizes
        # What a query has counted, for its next release; as private as the rows.
        self.kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def keep(self, positions: NDArray[np.intp]) -> Self:
        """Return the rows at ascending positions, of which nothing has been counted yet."""
        copied = super().keep(positions)
        copied.kept = WeakKeyDictionary()
        return copied

    def codes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the codes of rows start to stop, shape (stop - start, n_columns)."""
        return np.asarray(self._part(self._X, start, stop), dtype=np.int64)


def check_coded(
    X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False, one_place: str = ONE_PLACE
) -> Any:
    """Code a private table of any types by a public domain, once.

    Guarantee: a row's codes depend on that row only; after it returns reading cannot fail. Error
    texts are fixed and quote no cell.

    Parameters
    ----------
    X : array-like, pandas, polars or pyarrow table of shape (n_samples, n_columns)
    domain : Domain
    estimator : str
        Name for error messages.
    allow_empty : bool, default=False
    one_place : str
        As of `check_rows`.

    Returns
    -------
    rows : CodedRows

    Raises
    ------
    TypeError, ValueError
        If X is no table of the domain's columns, or (``outside="refuse"``) has a cell outside.
    """
    if is_parts(X):
        refuse_parts(X, estimator, one_place)
        columns, heads = heads_of(X)
        for head in heads:
            _check_schema(table_schema(head, estimator=estimator)[1], domain, estimator)
        form, sizes = CodedForm(columns, domain.n_columns, domain), tuple(domain.sizes)
        return checked_parts(X, form, heads[0], allow_empty=allow_empty, sizes=sizes)
    codes = public_codes(X, domain, estimator=estimator, allow_empty=allow_empty)
    return CodedRows(codes, domain.sizes)


def check_coded_target(
    X: Any, y: Any, domain: Domain, target: int, *, estimator: str, allow_empty: bool = False
) -> CodedRows:
    """Code a private table and its targets, a column of its own, by a public domain of both.

    Guarantee: as `check_coded`; the codes of a row and of its target depend on these only.

    Parameters
    ----------
    X : array-like, pandas, polars or pyarrow table of shape (n_samples, n_columns - 1)
    y : array-like of shape (n_samples,)
    domain : Domain
    target : int
        The position of the targets' column in it.
    estimator : str
        Name for error messages.
    allow_empty : bool, default=False

    Raises
    ------
    TypeError, ValueError
        As `check_coded`, or if y is no sequence of one cell a row.
    """
    others = [j for j in range(domain.n_columns) if j != target]
    options: dict[str, Any] = {"estimator": estimator, "allow_empty": allow_empty}
    codes = public_codes(X, domain.of(others), **options)
    column = target_column(y, len(codes), estimator)
    of_target = public_codes(column, domain.of([target], named=False), **options)
    both = np.insert(codes.astype(np.uint16), target, of_target[:, 0], axis=1)
    return CodedRows(both, domain.sizes)


def target_column(y: Any, n: int, estimator: str) -> NDArray:
    """Return targets as a table of one column, or raise with a fixed text."""
    column, problem = label_column(y, n)
    cells = np.empty(0) if problem else flat_array(column)
    if cells.dtype.kind == "f" and not np.isfinite(cells).all():
        problem = _NOT_FINITE
    if problem:
        raise ValueError(problem.format(estimator=estimator, y="y"))
    return cells.reshape(-1, 1)


def public_codes(X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False) -> NDArray:
    """Return the codes of the caller's own table, shape (n_rows, n_columns); as `check_coded`."""
    refuse_parts(X, estimator, ONE_PLACE)
    X, schema = table_schema(X, estimator=estimator)
    _check_schema(schema, domain, estimator)
    if X.shape[0] == 0 and not allow_empty:
        raise ValueError(_NO_ROWS)
    coded, strange = _coded(X, domain)
    if strange and domain.outside == REFUSE:
        raise ValueError(_OUTSIDE)
    return coded


def _check_schema(schema: Schema, domain: Domain, estimator: str) -> None:
    """Raise if a table has other columns than the domain."""
    if schema.n_columns != domain.n_columns:
        raise ValueError(
            f"X has {schema.n_columns} features, but the domain of {estimator} has "
            f"{domain.n_columns} columns"
        )
    if None not in (schema.names, domain.names) and schema.names != domain.names:
        raise ValueError(
            f"X must have the columns of the domain, in its order: {list(domain.names or ())}"
        )
    labels = domain.names or schema.names or range(domain.n_columns)
    domain._check_kinds(
        [kind_of(one, schema.container) for one in schema.types],
        list(labels),
        table=schema.container != "numpy",
    )


def _coded(X: Any, domain: Domain) -> tuple[NDArray, bool]:
    """Return the codes of a table, and whether a cell is outside of the domain."""
    n = X.shape[0]
    largest = max(domain.sizes)
    coded = np.zeros((n, domain.n_columns), dtype=np.uint8 if largest <= 2**8 else np.uint16)
    step = 2**16
    strange = False
    with suppress_warnings(), interruptible():  # a cell's own conversion may warn, or raise
        for j in range(domain.n_columns):
            for start in range(0, n, step):
                cells = _column_part(X, j, start, min(start + step, n))
                codes, outside = domain.codes(j, cells)
                coded[start : start + step, j] = codes
                strange |= bool(outside.any())
    return coded, strange


@dataclass(frozen=True)
class CodedForm(Form):
    """Batches as rows of codes of a domain."""

    domain: Domain

    @property
    def problems(self) -> tuple[tuple[type[Exception], str], ...]:
        """That of a cell outside of a domain that refuses it."""
        return ((ValueError, _OUTSIDE),)

    @property
    def read(self) -> str:
        """The method of the rows that returns all that is private about them."""
        return "codes"

    def rows(self, batch: Any) -> CodedRows:
        """Return the rows of a batch."""
        return self.check(batch)[0]

    def check(self, batch: Any) -> tuple[CodedRows, set[int]]:
        """Return the rows of a batch, and whether a cell is refused."""
        codes, strange = _coded(self.chosen(batch), self.domain)
        refused = strange and self.domain.outside == REFUSE
        return CodedRows(codes, self.domain.sizes), {0} if refused else set()


# --- outcomes of a public model ---------------------------------------------------------------

# What is known of a row is decided by its own pair: the codes of two labels and whether they are
# one, the code of a label and the cell of a score, or a number and how far its prediction is from
# it. How many rows there are is taken as private, so that they may be a selection.

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
    return _coded_columns([true, predicted, right], (size + 1, size + 1, 2))


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
    return _coded_columns([true, cells], (len(classes) + 1, bins.size))


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
    refuse_parts(labels, estimator, ONE_PLACE, name=name)
    codes, _ = check_labels(labels, None, estimator=estimator, classes=classes, name=name)
    return np.where(codes < 0, len(classes), codes)


def _numbers(numbers: Any, estimator: str, name: str) -> NDArray[np.float64]:
    refuse_parts(numbers, estimator, ONE_PLACE, name=name)
    found, _ = check_labels(numbers, None, estimator=estimator, name=name)
    return np.clip(found, -_FARTHEST, _FARTHEST)


def _same_length(first: NDArray, second: NDArray, name: str) -> None:
    if len(first) != len(second):
        raise ValueError(_OTHER_LENGTH.format(y=name).replace("X and", "y_true and"))


def _coded_columns(columns: list[NDArray], sizes: tuple[int, ...]) -> CodedRows:
    kind = np.uint8 if max(sizes) <= 2**8 else np.uint16
    rows = CodedRows(np.column_stack(columns).astype(kind), sizes)
    rows.filtered = True
    return rows
