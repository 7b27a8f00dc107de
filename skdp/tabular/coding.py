"""Private tables as codes: of a public domain, or of a model's outcomes.

`check_coded` codes a private table by a `Domain`, once, before any charge. After it, reading the
rows cannot fail. The codes of a row are in range and depend on that row only. A cell outside of the
domain is moved to a declared value, or the table is refused, as the domain says. A refusal shows
only that there is such a cell. Proofs: workloads.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.columns import flat_array
from skdp.tabular.containers import is_parts, kind_of
from skdp.tabular.domain import REFUSE, Bins, Domain, check_domain
from skdp.tabular.encoding import Schema, _column_part, table_schema
from skdp.tabular.labels import _NOT_FINITE, _OTHER_LENGTH, check_labels, label_column
from skdp.tabular.parts import NO_ROWS, ONE_PLACE, Form, checked_parts, heads_of, refuse_parts
from skdp.tabular.rows import Rows
from skdp.user_code import interruptible, suppress_warnings

_OUTSIDE = (
    "X has values outside of the stated domain, which refuses them; with outside='clip' they are "
    "moved to a declared value."
)


class CodedRows(Rows):
    """Private rows as codes of a public domain; each is in range of the column's size."""

    def __init__(self, codes: NDArray, sizes: tuple[int, ...]) -> None:
        super().__init__(codes)
        self.sizes = sizes

    def codes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the codes of rows start to stop, shape (stop - start, n_columns)."""
        return np.asarray(self._part(self._X, start, stop), dtype=np.int64)


def check_coded(
    X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False, one_place: str = ONE_PLACE
) -> Any:
    """Return a private table of any types, in memory or in parts, as codes of a public domain.

    Guarantee: the codes of a row depend on that row only; after it returns reading cannot fail.
    Error texts are fixed and quote no cell: X is no table of the domain's columns, or has a cell
    outside of a domain that refuses it.
    """
    check_domain(domain)
    if is_parts(X):
        refuse_parts(X, estimator, one_place)
        columns, heads = heads_of(X)
        for head in heads:
            _check_schema(table_schema(head, estimator=estimator)[1], domain, estimator)
        problems = ((ValueError, _OUTSIDE),)
        form = CodedForm(columns, domain.n_columns, problems, read="codes", domain=domain)
        return checked_parts(X, form, heads[0], allow_empty=allow_empty, sizes=domain.sizes)
    codes = public_codes(X, domain, estimator=estimator, allow_empty=allow_empty)
    return CodedRows(codes, domain.sizes)


def check_coded_target(
    X: Any, y: Any, domain: Domain, target: int, *, estimator: str, allow_empty: bool = False
) -> CodedRows:
    """Return a private table and its targets as codes of a public domain of both.

    `target` is the position of the targets' column in the domain. Guarantee: as `check_coded`.
    """
    others = [j for j in range(domain.n_columns) if j != target]
    options: dict[str, Any] = {"estimator": estimator, "allow_empty": allow_empty}
    codes = public_codes(X, domain.of(others), **options)
    column = target_column(y, len(codes), estimator)
    of_target = public_codes(column, domain.of([target], named=False), **options)
    codes = np.insert(codes.astype(np.uint16), target, of_target[:, 0], axis=1)
    return CodedRows(codes, domain.sizes)


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
        raise ValueError(NO_ROWS)
    codes, outside = coded_columns([(X, j) for j in range(domain.n_columns)], domain)
    if outside and domain.outside == REFUSE:
        raise ValueError(_OUTSIDE)
    return codes


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
        [kind_of(dtype, schema.container) for dtype in schema.types],
        list(labels),
        table=schema.container != "numpy",
    )


def coded_columns(columns: Sequence[tuple[Any, int]], domain: Domain) -> tuple[NDArray, bool]:
    """Return the codes of columns (table, position), and whether a cell is outside the domain."""
    check_domain(domain)
    n = int(columns[0][0].shape[0])
    codes: NDArray = np.zeros((n, domain.n_columns), dtype=_code_type(domain.sizes))
    step, is_outside = 2**16, False
    with suppress_warnings(), interruptible():  # a cell's own conversion may warn, or raise
        for j, (table, position) in enumerate(columns):
            for start in range(0, n, step):
                cells = _column_part(table, position, start, min(start + step, n))
                codes[start : start + step, j], outside = domain.codes(j, cells)
                is_outside |= bool(outside.any())
    return codes, is_outside


def _code_type(sizes: Sequence[int]) -> type:
    return np.uint8 if max(sizes) <= 2**8 else np.uint16


@dataclass(frozen=True)
class CodedForm(Form):
    """Batches as rows of codes of a domain."""

    domain: Domain = field(kw_only=True)

    def check(self, batch: Any) -> tuple[CodedRows, set[int]]:
        """Return the rows of a batch, and whether a cell is refused."""
        X = self.sides(batch)[0]
        codes, outside = coded_columns([(X, j) for j in range(self.n_columns)], self.domain)
        refused = outside and self.domain.outside == REFUSE
        return CodedRows(codes, self.domain.sizes), {0} if refused else set()


# --- outcomes of a public model ---------------------------------------------------------------

# The row of an outcome depends on its own pair only: codes of both labels and whether they are
# equal, the code of a label and the bin of a score, or a number and its prediction error. The
# number of rows is taken as private, so that they may be a selection.

_FARTHEST = 1e100  # numbers are clipped here, so that their squares are finite


def check_outcomes(y_true: Any, y_pred: Any, *, estimator: str, classes: NDArray) -> CodedRows:
    """Return rows of three codes: the true class, the predicted class, and whether they are equal.

    A label that is not among the classes (public, sorted) has the code behind the last one, and
    equals no label. Errors are those of `check_labels`, and different lengths.
    """
    true = _codes(y_true, classes, estimator, "y_true")
    predicted = _codes(y_pred, classes, estimator, "y_pred")
    _same_length(true, predicted, "y_pred")
    size = len(classes)
    right = (true == predicted) & (true < size)
    return _outcomes([true, predicted, right], (size + 1, size + 1, 2))


def check_scores(
    y_true: Any, y_score: Any, *, estimator: str, classes: NDArray, bins: Bins
) -> CodedRows:
    """Return rows of two codes: the class, and the bin of the score, as `check_outcomes`.

    A score beyond the edges is in the nearest bin; one that is no finite number is refused.
    """
    true = _codes(y_true, classes, estimator, "y_true")
    scores = _numbers(y_score, estimator, "y_score")
    _same_length(true, scores, "y_score")
    cells, _ = bins.codes(scores)
    return _outcomes([true, cells], (len(classes) + 1, bins.size))


def check_errors(y_true: Any, y_pred: Any, *, estimator: str, targets: bool) -> Rows:
    """Return rows of absolute prediction errors, with `targets` behind the true number.

    Numbers are clipped to 1e100. Errors as `check_outcomes`.
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
    values, _ = check_labels(numbers, None, estimator=estimator, name=name)
    return np.clip(values, -_FARTHEST, _FARTHEST)


def _same_length(first: NDArray, second: NDArray, name: str) -> None:
    if len(first) != len(second):
        raise ValueError(_OTHER_LENGTH.format(y=name).replace("X and", "y_true and"))


def _outcomes(columns: list[NDArray], sizes: tuple[int, ...]) -> CodedRows:
    rows = CodedRows(np.column_stack(columns).astype(_code_type(sizes)), sizes)
    rows.filtered = True
    return rows
