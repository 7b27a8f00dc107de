"""Cells of columns and leaves of trees: how many rows each has, and gradients of additive models.

Released: noisy counts of the cells of every column, and noisy sums of residuals in them, of rows
with private labels or targets; and noisy counts of each label in the leaves of trees.

**Cells** (`ColumnCells`). Public or released cuts divide each column: a value is in cell i of its
column if i cuts are at most the value. So a row is in one cell of each of the d columns, decided by
comparisons of its own values alone.

**Counts** (`CellCounts`). A row adds one to d cells; where rows have labels, one whose label is
none of the classes to none. L1 d, squared L2 d (A); 2 d and 2 d (R), where the two rows share no
cell.

**Gradients** (`CellGradient`). The logits of a row are the offset and, column by column in their
order, the scores of its cells: sums of d + 1 floats of that row alone, to the last bit. Its
residuals are p - onehot(label), rounded and clipped by `skdp.core.clipping.clip_to_norm` to
integers r with sum r_k**2 <= R**2, R = 2**16 clip; r = 0 for a label that is none of the classes.
The row adds r to d cells, so by Cauchy and Schwarz its part has L1 norm d sum |r_k| <= d sqrt(K) R
for K logits, and squared L2 norm d R**2 (A). Under R the parts of two rows may point opposite ways
in the same cells: twice the norms, four times the square. *Attained* (A) by a row whose label is
certainly wrong; under R up to the last column, since rows that share all cells have one p, and
their residuals differ by 1. |r| <= 2**17, so sums over 2**16 rows are below 2**33 and exact.

**Targets** (`TargetMoments`). One number of each row, mapped as by `ScaledBox`: the proof is that
of `Moments` (moments.md) for d = 1.

**Errors** (`CellErrors`). The prediction of a row with a target is the offset and the scores of its
cells, added as above; its error is that less the target, clipped to public bounds, over a public
unit, rounded and clipped to an integer |r| <= R = 2**16. The row adds r to d cells: L1 d R, squared
L2 d R**2 (A); twice and four times (R). *Attained* by targets a unit away, and under R by two rows
in the same cells whose targets are on either side.

**Leaves** (`LeafCounts`). The splits of T trees are public or released. A row goes down each tree
by comparisons of its own values, and adds one to one leaf of each for its label, or to none: L1 T,
squared L2 T (A); 2 T and 2 T (R), where the two rows share no leaf or no label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Floats, ScaledBox, check_width, clip_to_norm, isqrt_up
from skdp.core.mechanisms import Independent
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, check_ascending, reviewed
from skdp.core.sums import histogram_sensitivity
from skdp.core.table import REPLACE_ONE, PrivateTable, as_total, total_dtype
from skdp.queries.linear import softmax
from skdp.queries.moments import Moments

__all__ = [
    "CellCounts",
    "CellErrors",
    "CellGradient",
    "ColumnCells",
    "LeafCounts",
    "SplitTrees",
    "TargetMoments",
    "additive",
]

_RESIDUAL_BITS = 16


@reviewed
@dataclass(frozen=True, eq=False)
class ColumnCells:
    """The cells into which public or released cuts divide columns.

    Attributes
    ----------
    cuts : tuple of ndarray
        Of each column, increasing; without cuts a column has one cell.
    """

    cuts: tuple[Floats, ...]

    @property
    def sizes(self) -> list[int]:
        """The number of cells of each column."""
        return [one.size + 1 for one in self.cuts]

    @property
    def starts(self) -> NDArray[np.int64]:
        """The number of cells before each column, and of all."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def codes(self, block: Floats) -> NDArray[np.int64]:
        """Return the cell of each value, counted over all columns, shape (n, d)."""
        check_width(block, len(self.cuts))
        found = np.empty(block.shape, dtype=np.int64)
        for j, (cuts, start) in enumerate(zip(self.cuts, self.starts, strict=False)):
            check_ascending(cuts, "cuts")
            found[:, j] = np.searchsorted(cuts, block[:, j], side="right") + start
        return found


def additive(scores: Floats, codes: NDArray[np.int64]) -> Floats:
    """Return the sums of the scores of rows' cells, (n, K), added in the order of the columns."""
    total = np.zeros((len(codes), len(scores)))
    for column in codes.T:
        total += scores.T[column]
    return total


def _add_in_cells(
    cells: ColumnCells, codes: NDArray[np.int64], r: Floats, total: NDArray, dtype: type
) -> None:
    """Add the integers (n, K) of each row to the cells that it is in, in place."""
    starts = cells.starts
    for j in range(len(cells.cuts)):
        own, size = codes[:, j] - starts[j], int(starts[j + 1] - starts[j])
        for k in range(r.shape[1]):
            part = np.bincount(own, weights=r[:, k], minlength=size)
            total[k, starts[j] : starts[j + 1]] += as_total(part, dtype)


@reviewed
@dataclass(frozen=True, eq=False)
class CellCounts(Query):
    """The number of rows in each cell of each column.

    Guarantee: L1 d, squared L2 d (A); 2 d and 2 d (R).

    Attributes
    ----------
    cells : ColumnCells
    kind : {"labelled", "with target", "columns"}
        Rows of `check_labelled`; with their target in the last column; or with neither.
    """

    name: ClassVar[str] = "counts of cells"
    cells: ColumnCells
    kind: str = "labelled"

    def exact(self, table: PrivateTable) -> NDArray:
        size, kind = int(self.cells.starts[-1]), self.kind
        if kind not in ("labelled", "with target", "columns"):
            raise ValueError(f"kind must be 'labelled', 'with target' or 'columns', got {kind!r}")

        def add(block: Any, totals: list[NDArray]) -> None:
            if kind == "labelled":
                rows = block[0][block[1] >= 0]
            else:
                rows = block[:, :-1] if kind == "with target" else block
            totals[0] += np.bincount(self.cells.codes(rows).ravel(), minlength=size)

        def fresh() -> list[NDArray]:
            return [np.zeros(size, dtype=np.int64)]

        read = "labelled" if kind == "labelled" else "chunk"
        (total,) = table.fold(add, fresh, width=len(self.cells.cuts), read=read)
        return total

    def sensitivity(self, relation: str) -> Independent:
        size = histogram_sensitivity(len(self.cells.cuts), relation)
        return Independent(size, size)

    def decoded(self, noisy: Noisy) -> Release:
        return released(noisy.values, noisy.std)


@reviewed
@dataclass(frozen=True, eq=False)
class CellGradient(Query):
    """The gradient of the logistic loss of an additive model, summed over labelled rows.

    Guarantee: see the module.

    Attributes
    ----------
    cells : ColumnCells
    scores : ndarray of shape (K, number of cells)
        Where: what each cell adds to the logits. K is 1 for two classes.
    offset : ndarray of shape (K,)
        Public or released, added to the logits.
    clip : float
        Bound on the norm of a row's residuals, in (0, 2).

    Returns
    -------
    gradient : Release, of shape (K, number of cells)
    """

    name: ClassVar[str] = "gradient of an additive model"
    cells: ColumnCells
    scores: Floats
    offset: Floats
    clip: float

    @property
    def _bound(self) -> int:
        """The bound on a row's residuals, in steps."""
        return max(1, math.floor(min(self.clip, 2.0) * 2**_RESIDUAL_BITS))

    @property
    def unit(self) -> float:
        return 2.0**-_RESIDUAL_BITS

    def exact(self, table: PrivateTable) -> NDArray:
        cells, n_logits = self.cells, len(self.scores)
        dtype = total_dtype(table.rows, 2**18)

        def add(block: tuple[Floats, NDArray[np.int64]], totals: list[NDArray]) -> None:
            codes, labels = cells.codes(block[0]), block[1]
            residual = softmax(self.offset + additive(self.scores, codes))
            if n_logits == 1:
                residual[:, 0] -= labels == 1
            else:
                residual -= labels[:, None] == np.arange(n_logits)
            residual[labels < 0] = 0.0
            _add_in_cells(
                cells, codes, clip_to_norm(residual, self.unit, self._bound), totals[0], dtype
            )

        def fresh() -> list[NDArray]:
            return [np.zeros(self.scores.shape, dtype=dtype)]

        width = max(len(cells.cuts), n_logits)
        (total,) = table.fold(add, fresh, width=width, read="labelled")
        return total

    def sensitivity(self, relation: str) -> Independent:
        d, times = len(self.cells.cuts), 2 if relation == REPLACE_ONE else 1
        l1 = d * isqrt_up(len(self.scores) * self._bound**2)
        return Independent(times * l1, times**2 * d * self._bound**2)

    def decoded(self, noisy: Noisy) -> Release:
        values = noisy.values.astype(np.float64).reshape(self.scores.shape)
        return released(values * self.unit, noisy.std * self.unit)


@reviewed
class TargetBox(ScaledBox):
    """The last column of rows, clipped to bounds and scaled to half width 1, as `ScaledBox`."""

    def at(self, bits: int) -> TargetBox:
        """Return the same view with another number of steps."""
        return TargetBox(self.low, self.high, bits)

    def map(self, block: Floats) -> Floats:
        """Map the last number of each row to one integer with |q| <= steps."""
        return super().map(block[:, -1:])


@reviewed
@dataclass(frozen=True, eq=False)
class TargetMoments(Moments):
    """Mean and mean square of the target, the last column, relative to its bounds, and the count.

    Guarantee: of one number a row, that of `Moments`.
    """

    name: ClassVar[str] = "moments of the target"

    @property
    def _view(self) -> TargetBox:
        return TargetBox(self.low, self.high)


@reviewed
@dataclass(frozen=True, eq=False)
class CellErrors(Query):
    """The errors of an additive model, in each cell summed over rows with targets.

    Guarantee: see the module. Rows are those of `check_with_target`.

    Attributes
    ----------
    cells : ColumnCells
        Of the columns but the target.
    scores : ndarray of shape (number of cells,)
        Where: what each cell adds to the prediction, in user units.
    offset : float
        Public or released, added to the prediction.
    low, high : float
        Bounds of the target.
    largest : float
        Bound on the absolute error of a row, in user units, above 0.

    Returns
    -------
    errors : Release, of shape (number of cells,)
        Predictions less targets, in units of `largest`.
    """

    name: ClassVar[str] = "errors of an additive model"
    cells: ColumnCells
    scores: Floats
    offset: float
    low: float
    high: float
    largest: float

    @property
    def unit(self) -> float:
        return 2.0**-_RESIDUAL_BITS

    def exact(self, table: PrivateTable) -> NDArray:
        d, scores = len(self.cells.cuts), self.scores[None, :]
        dtype = total_dtype(table.rows, 2**18)

        def add(block: Floats, totals: list[NDArray]) -> None:
            check_width(block, d + 1)
            codes = self.cells.codes(block[:, :d])
            error = self.offset + additive(scores, codes)
            error -= np.clip(block[:, d:], self.low, self.high)
            error /= self.largest
            r = clip_to_norm(error, self.unit, 2**_RESIDUAL_BITS)
            _add_in_cells(self.cells, codes, r, totals[0], dtype)

        def fresh() -> list[NDArray]:
            return [np.zeros(scores.shape, dtype=dtype)]

        (total,) = table.fold(add, fresh, width=d + 1)
        return total[0]

    def sensitivity(self, relation: str) -> Independent:
        d, times = len(self.cells.cuts), 2 if relation == REPLACE_ONE else 1
        return Independent(times * d * 2**_RESIDUAL_BITS, times**2 * d * 4**_RESIDUAL_BITS)

    def decoded(self, noisy: Noisy) -> Release:
        return released(noisy.values * self.unit, noisy.std * self.unit)


@reviewed
@dataclass(frozen=True, eq=False)
class SplitTrees:
    """Complete binary trees of public or released splits.

    Attributes
    ----------
    columns, cuts : ndarray of shape (n_trees, 2**depth - 1)
        Of each node, the root first and then level by level: the column that it splits, and where.
        A value that is at least the cut goes to the right.
    n_columns : int
    """

    compares: ClassVar[bool] = True  # a cut may be infinite
    columns: NDArray[np.int64]
    cuts: Floats
    n_columns: int

    @property
    def n_leaves(self) -> int:
        """The number of leaves of one tree."""
        return self.columns.shape[1] + 1

    def leaves(self, block: Floats) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree, counted over all trees, shape (n, n_trees)."""
        check_width(block, self.n_columns)
        n, inner = len(block), self.columns.shape[1]
        every = np.arange(n)
        found = np.empty((n, len(self.columns)), dtype=np.int64)
        for tree, (columns, cuts) in enumerate(zip(self.columns, self.cuts, strict=True)):
            node = np.zeros(n, dtype=np.int64)
            for _ in range(inner.bit_length()):
                node = 2 * node + 1 + (block[every, columns[node]] >= cuts[node])
            found[:, tree] = node - inner + tree * self.n_leaves
        return found


@reviewed
@dataclass(frozen=True, eq=False)
class LeafCounts(Query):
    """The number of rows of each label in each leaf of trees, from `check_labelled`.

    Guarantee: L1 T, squared L2 T (A); 2 T and 2 T (R), for T trees.

    Returns
    -------
    counts : Release, of shape (n_labels, n_trees, n_leaves)
    """

    name: ClassVar[str] = "counts of leaves"
    trees: SplitTrees
    n_labels: int

    def exact(self, table: PrivateTable) -> NDArray:
        trees, size = self.trees, self.trees.n_leaves * len(self.trees.columns)

        def add(block: tuple[Floats, NDArray[np.int64]], totals: list[NDArray]) -> None:
            known = block[1] >= 0
            flat = trees.leaves(block[0][known]) + size * block[1][known][:, None]
            totals[0] += np.bincount(flat.ravel(), minlength=totals[0].size)

        def fresh() -> list[NDArray]:
            return [np.zeros(self.n_labels * size, dtype=np.int64)]

        width = max(trees.n_columns, len(trees.columns))
        (total,) = table.fold(add, fresh, width=width, read="labelled")
        return total

    def sensitivity(self, relation: str) -> Independent:
        size = histogram_sensitivity(len(self.trees.columns), relation)
        return Independent(size, size)

    def decoded(self, noisy: Noisy) -> Release:
        shape = (self.n_labels, len(self.trees.columns), self.trees.n_leaves)
        return released(noisy.values.reshape(shape), noisy.std)
