"""Counts of rows by what a released model says of them, and by their labels.

Released: how many rows of each outcome are in each bin of a score, from which probabilities are
calibrated. Guarantee: a row is in at most one cell, so PROOFS.md, "Sums", holds: a row that is
added or removed moves one count by one, a row that is replaced moves two. The score of a row is a
function of that row and of released numbers, to the last bit: it is made by elementwise operations
and added up column by column, so no other row of a batch changes it. Matrix products, which are
faster, decide only the bins of rows that no rounding could move to another bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Floats, by_columns, check_width
from skdp.core.query import check_ascending, reviewed
from skdp.core.sums import RowCells, RowSum
from skdp.queries.cells import additive, row_counts
from skdp.queries.workloads import coded_rows

Ints = NDArray[np.int64]


def _within(scores: Floats) -> Floats:
    """Return scores (K, n) as (n, K), all finite."""
    return np.clip(np.nan_to_num(scores.T, copy=False), -1e300, 1e300)


_UNKNOWN = np.zeros(0), math.inf  # a lead of more than two classes, and its error


def _error(size: float, n_terms: int) -> float:
    """Return a bound on the difference of two sums of terms whose absolute values add up to `size`.

    Two to three roundings a term and one an addition, in either sum: four times fewer than here.
    """
    return (n_terms + 8) * 2.0**-50 * size if size < 1e290 else math.inf


@reviewed
@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores of the classes that are linear in the rows of a view, shape (n, K).

    - `weights` of shape (K, d)
    - `offset` of shape (K,)
    """

    view: Any
    weights: Floats
    offset: Floats

    def of_rows(self, x: Floats) -> Floats:
        """Return the scores of rows."""
        total = np.repeat(self.offset[:, None], len(x), axis=1)
        with np.errstate(all="ignore"):
            columns = np.multiply(self.view.map(x).T, self.view.grid[:, None], order="C")
            for weights, column in zip(self.weights.T, columns, strict=True):
                total += weights[:, None] * column
        return _within(total)

    def lead(self, x: Floats) -> tuple[Floats, float]:
        """Return about the lead of the second of two classes, and a bound on its error."""
        weights, offset = self.weights * self.view.grid, self.offset
        if len(weights) != 2:
            return _UNKNOWN
        size = float(np.abs(offset).sum() + (np.abs(weights) @ self.view.half).sum())
        lead = self.view.map(x) @ (weights[1] - weights[0]) + (offset[1] - offset[0])
        return lead, _error(size, len(weights.T))


@reviewed
@dataclass(frozen=True, eq=False)
class NormalScores:
    """Log densities of clipped rows, with normal columns in each class, up to a constant.

    - `low`, `high` of shape (d,)
    - `mean`, `var` of shape (K, d)
    """

    low: Floats
    high: Floats
    mean: Floats
    var: Floats

    def of_rows(self, x: Floats) -> Floats:
        """Return the scores of rows, within 1e300."""
        check_width(x, self.mean.shape[1])
        total = np.zeros((len(self.mean), len(x)))
        columns = np.array(x.T, order="C")
        numbers = (part.T[:, :, None] for part in (self.mean, self.var, np.log(self.var)))
        with np.errstate(all="ignore"):
            np.clip(columns, self.low[:, None], self.high[:, None], out=columns)
            for column, mean, var, log in zip(columns, *numbers, strict=True):
                term = column - mean
                term *= term
                term /= var
                total += log
                total += term
            return _within(-0.5 * total)

    def lead(self, x: Floats) -> tuple[Floats, float]:
        """Return about the lead of the second of two classes, and a bound on its error."""
        check_width(x, self.mean.shape[1])
        if len(self.mean) != 2 or self.var.min() < 1e-300:  # reciprocals could be infinite
            return _UNKNOWN
        block, low, high = by_columns(x, self.low, self.high)
        columns = np.clip(block, low, high)
        reach = np.maximum(np.abs(self.low), np.abs(self.high)) + np.abs(self.mean)
        logs, slope = np.log(self.var), self.mean / self.var
        size = float((np.abs(logs) + reach**2 / self.var).sum())
        at_zero = (logs + self.mean * slope).sum(axis=1)
        lead = columns @ (slope[1] - slope[0]) + (at_zero[0] - at_zero[1]) / 2
        columns *= columns
        lead += columns @ (0.5 / self.var[0] - 0.5 / self.var[1])
        return lead, _error(size, 2 * len(reach.T))


@reviewed
@dataclass(frozen=True, eq=False)
class MedianScores:
    """Negative distances of clipped rows to the medians of classes, summed over scaled columns.

    - `low`, `high`, `scale` of shape (d,)
    - `medians` of shape (K, d)
    """

    low: Floats
    high: Floats
    medians: Floats
    scale: Floats

    def of_rows(self, x: Floats) -> Floats:
        """Return the scores of rows."""
        check_width(x, self.medians.shape[1])
        total = np.zeros((len(self.medians), len(x)))
        columns = np.clip(x.T, self.low[:, None], self.high[:, None])
        with np.errstate(all="ignore"):
            for column, medians, scale in zip(columns, self.medians.T, self.scale, strict=True):
                total -= np.abs(column - medians[:, None]) / scale
        return _within(total)


@reviewed
@dataclass(frozen=True, eq=False)
class CategoryScores:
    """Sums of the logarithms of a row's categories in each class; unknown ones count nothing.

    - `categories`: Ascending numbers of each column.
    - `logs` of shape (K, n_categories)
    """

    categories: tuple[Floats, ...]
    logs: tuple[Floats, ...]

    def of_rows(self, x: Floats) -> Floats:
        """Return the scores of rows."""
        check_width(x, len(self.categories))
        total = np.zeros((len(x), len(self.logs[0])))
        for column, known, logs in zip(x.T, self.categories, self.logs, strict=True):
            place = np.minimum(np.searchsorted(known, column), len(known) - 1)
            total += np.where((known[place] == column)[:, None], logs.T[place], 0.0)
        return total


@reviewed
@dataclass(frozen=True, eq=False)
class TableScores:
    """Sums of the logarithms of tables of coded columns, for each class that a target may have.

    - `sizes`: Of the domain by which rows are coded.
    - `n_classes`: The first codes of the target.
    - `columns`: The columns of each table, ascending, with the target.
    - `logs`: Finite; one axis a column.
    """

    sizes: tuple[int, ...]
    target: int
    n_classes: int
    columns: tuple[tuple[int, ...], ...]
    logs: tuple[Floats, ...]

    def of_rows(self, x: Any) -> Floats:
        """Return the scores of coded rows, whatever their own class is."""
        total = np.zeros((len(x), self.n_classes))
        for columns, table in zip(self.columns, self.logs, strict=True):
            front = np.moveaxis(table, columns.index(self.target), -1)
            total += front[tuple(x[:, a] for a in columns if a != self.target)][
                ..., : self.n_classes
            ]
        return total


def leads(scores: Floats) -> tuple[Floats, Ints, Ints]:
    """Return by how much a class leads over another, and both classes.

    Of two classes: the second over the first, so that leads have a sign. Of more: the best over the
    next.
    """
    n, rows = len(scores), np.arange(len(scores))
    if scores.shape[1] == 2:
        return scores[:, 1] - scores[:, 0], np.ones(n, np.int64), np.zeros(n, np.int64)
    first = scores.argmax(axis=1)
    others = scores.copy()
    others[rows, first] = -np.inf
    second = others.argmax(axis=1)
    return scores[rows, first] - scores[rows, second], first, second


def _at_most(cuts: Floats, leads: Floats) -> Ints:
    """Return how many cuts are at most each lead: few are compared with all, faster than a search.

    Leads are finite.
    """
    if cuts.size > 64:
        return np.searchsorted(cuts, leads, side="right")
    reached = (leads >= cuts[:, None]).view(np.uint8)
    return reached.sum(axis=0, dtype=np.uint8).astype(np.int64)


@reviewed
@dataclass(frozen=True, eq=False)
class AdditiveScores:
    """Scores of the classes that add up over the cells of a row's columns.

    - `cells`: The `ColumnCells` of the columns.
    - `scores` of shape (K, number of cells)
    """

    cells: Any
    scores: Floats

    def of_rows(self, x: Floats) -> Floats:
        """Return the scores of rows."""
        return _within(additive(self.scores, self.cells.codes(x)).T)


@reviewed
@dataclass(frozen=True, eq=False)
class ScoreCells(RowCells):
    """Two cells for each bin of a row's lead: its label is the class behind, or the leading one.

    Rows with another label are in none.

    - `cuts`: Public or released, ascending: a lead is in bin i if i cuts are at most the lead.
    """

    what = "lead of a class and whether it is right"
    needs_labels = True
    scores: Any
    cuts: Floats

    def __post_init__(self) -> None:
        check_ascending(self.cuts, "cuts")

    @property
    def answer_shape(self) -> tuple[int, ...]:
        return (self.cuts.size + 1, 2)

    @property
    def shape(self) -> tuple[int, ...]:
        return (2 * self.cuts.size + 2,)

    def of_rows(self, x: Any, labels: Any) -> Ints:
        bins, first, second = self._bins(x)
        cells = 2 * bins + (labels == first)
        return np.where((labels == first) | (labels == second), cells, -1)[:, None]

    def _bins(self, x: Any) -> tuple[Ints, Any, Any]:
        """Return the bin of each row's lead, and both classes."""
        lead, error = self.scores.lead(x) if hasattr(self.scores, "lead") else _UNKNOWN
        if error == math.inf:
            lead, first, second = leads(self.scores.of_rows(x))
            return _at_most(self.cuts, lead), first, second
        bins = _at_most(self.cuts, lead - error)
        doubtful = np.flatnonzero(bins != _at_most(self.cuts, lead + error))
        if doubtful.size:
            bins[doubtful] = _at_most(self.cuts, leads(self.scores.of_rows(x[doubtful]))[0])
        return bins, 1, 0


@reviewed
@dataclass(frozen=True, eq=False)
class CodedScoreCells(ScoreCells):
    """The same for coded rows with `TableScores`: the label is the code of the target."""

    needs_labels = False
    read = "codes"
    least = 2**16

    def check_table(self, table: Any) -> None:
        coded_rows(table, self.scores.sizes)

    def of_rows(self, x: Any, labels: Any) -> Ints:
        return super().of_rows(x, x[:, self.scores.target])


def score_counts(scores: Any, cuts: NDArray[Any], weight_bound: float | None = None) -> RowSum:
    """Return the query of the rows whose leading class is wrong or right, by bins of the lead.

    With a weight bound it is of their weights, in units of the bound.
    """
    kind = CodedScoreCells if type(scores) is TableScores else ScoreCells
    cells = kind(scores, np.asarray(cuts, dtype=np.float64))
    return row_counts(cells, "calibration", weight_bound)
