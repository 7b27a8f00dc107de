"""Cells of rows: where `RowSum` counts rows, or adds up their images.

Guarantee: a row is in at most one cell of each block, and comparisons of its own values and label
with public or released numbers decide which. So PROOFS.md, "Sums", holds for all of them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Floats, check_width, moved, shared
from skdp.core.query import check_ascending, reviewed
from skdp.core.sums import One, RowCells, RowSum
from skdp.core.table import PrivateTable
from skdp.queries.histograms import NORM_CODES, norm_codes

Ints = NDArray[np.int64]
_MOST_BUCKETS = 4096  # of a column, for a search among its cuts


def row_counts(cells: RowCells | None, name: str, weight_bound: float | None = None) -> RowSum:
    """Return the query of the number of rows in each cell.

    - `cells`: None: one count of all rows.
    - `name`: Name of the release.
    - `weight_bound`: Public bound of the rows' weights; the answer is then the sum of weights in
      each cell, in units of the bound.
    """
    return RowSum(One(), cells, noise="entries", weight_bound=weight_bound, name=name)


def check_center(block: Floats, center: Floats) -> None:
    """Refuse rows whose distance from a centre would not be that of one row from one point."""
    if center.shape != (block.shape[1],):
        raise ValueError(f"center must have shape ({block.shape[1]},), got {center.shape}")


# --- labels ---------------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class Labels(RowCells):
    """A cell for each label, of rows from `check_labelled`; a row with another label is in none."""

    what = "label"
    needs_labels = True
    n_labels: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_labels,)

    def of_rows(self, x: Any, labels: Any) -> Ints:
        cells: Ints = labels[:, None]
        return np.where(cells < self.n_labels, cells, -1)


@reviewed
@dataclass(frozen=True, eq=False)
class Labelled(RowCells):
    """Other cells, of the rows whose label is known; a row with another label is in none."""

    needs_labels = True
    cells: RowCells

    @property
    def what(self) -> str:
        return f"{self.cells.what} (rows with a known label)"

    @property
    def spans(self) -> list[tuple[int, int]]:
        return self.cells.spans

    @property
    def shape(self) -> tuple[int, ...]:
        return self.cells.shape

    def check_table(self, table: PrivateTable) -> None:
        self.cells.check_table(table)

    def of_rows(self, x: Any, labels: Any) -> Ints:
        return np.where(labels[:, None] >= 0, self.cells.of_rows(x, labels), -1)


# --- cells of columns -----------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class ColumnCells(RowCells):
    """The cells into which public or released cuts divide columns, a block a column.

    A value is in cell i of its column if i cuts are at most the value.

    - `cuts`: Ascending cuts of each column; a column without cuts has one cell.
    - `n_targets`: Number of columns after these; they have no cells.
    """

    what = "cell of each column"
    everywhere = True
    image_first = True
    cuts: tuple[Floats, ...]
    n_targets: int = 0

    def __post_init__(self) -> None:
        for cuts in self.cuts:
            check_ascending(cuts, "cuts")

    @property
    def sizes(self) -> list[int]:
        """The number of cells of each column."""
        return [cuts.size + 1 for cuts in self.cuts]

    @property
    def starts(self) -> Ints:
        """The number of cells before each column, and of all."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def spans(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.starts.tolist()))

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self.sizes),)

    @cached_property
    def _buckets(self) -> tuple[Floats, Floats, Floats, Floats, Ints, Floats, list[int]]:
        """Return equal buckets, of which each holds one cut of its column at most.

        Low end, buckets a unit, last bucket and first bucket of each column (d, 1); the cell below
        the cut of each bucket, and that cut; the columns whose cuts lie too unevenly for buckets.
        """
        d, starts, uneven = len(self.cuts), self.starts, []
        low, rate, last = np.zeros((d, 1)), np.ones((d, 1)), np.zeros((d, 1))
        with np.errstate(all="ignore"):
            for j, cuts in enumerate(self.cuts):
                if not cuts.size:
                    continue
                low[j] = cuts[0]
                width, gap = float(cuts[-1] - cuts[0]), float(np.diff(cuts).min(initial=math.inf))
                size = 1.01 * width / gap + 1.0 if gap > 0 else math.inf
                if cuts.size > 1 and size < _MOST_BUCKETS and size / width < math.inf:
                    last[j], rate[j] = math.floor(size), size / width
                elif cuts.size > 1:
                    uneven.append(j)
        first = np.cumsum(last + 1.0, axis=0) - last - 1.0
        # A bucket without a cut: all cuts below it count, and the least number is below any value.
        below = np.full(int(last.sum()) + d, -np.finfo(float).max)
        cells = np.zeros(below.size, dtype=np.int64)
        for j, cuts in enumerate(self.cuts):
            begin, end = int(first[j, 0]), int(first[j, 0] + last[j, 0]) + 1
            if j not in uneven:
                place = self._placed(cuts, low[j], rate[j], last[j], first[j])
                if (np.diff(place) == 0).any():
                    uneven.append(j)
                    continue
                below[place] = cuts
                held = np.bincount(place - begin, minlength=end - begin)
                cells[begin:end] = starts[j] + np.cumsum(held) - 1
        return low, rate, last, first, cells, below, uneven

    @staticmethod
    def _placed(values: Floats, low: Any, rate: Any, last: Any, first: Any) -> Ints:
        """Return the bucket of each value; it ascends with the value, as every operation does."""
        place = values - low
        place *= rate
        np.clip(place, 0.0, last, out=place)
        place += first
        return place.astype(np.intp)

    def codes(self, block: Floats) -> Ints:
        """Return the cell of each value, counted over all columns, shape (n, d).

        Cuts in lower buckets than the value are below it, and those in higher ones above it, so
        that one comparison with the cut of its own bucket is left.
        """
        check_width(block, len(self.cuts))
        *ends, cells, below, uneven = self._buckets
        values = np.array(block.T, order="C")
        with np.errstate(all="ignore"):
            place = self._placed(values, *ends)
        found: Ints = cells.take(place)
        found += values >= below.take(place)
        for j in uneven:
            found[j] = np.searchsorted(self.cuts[j], values[j], side="right") + self.starts[j]
        return found.T

    def of_rows(self, x: Any, labels: Any) -> Ints:
        check_width(x, len(self.cuts) + self.n_targets)
        return self.codes(x[:, : len(self.cuts)])


def additive(scores: Floats, codes: Ints) -> Floats:
    """Return the sums of the scores of rows' cells, (n, K), added in the order of the columns."""
    total = np.zeros((len(scores), len(codes)))
    for column in codes.T:
        for sums, of_cells in zip(total, scores, strict=True):
            sums += of_cells.take(column)
    return total.T


@reviewed
@dataclass(frozen=True, eq=False)
class Categories(RowCells):
    """A cell for each label and each category of each column; a block a column.

    A row whose value equals no category, or whose label is unknown, is in no cell of the column.

    - `categories`: Public ascending numbers of each column.
    """

    what = "label and category of each column"
    needs_labels = True
    categories: tuple[Floats, ...]
    n_labels: int

    def __post_init__(self) -> None:
        for known in self.categories:
            check_ascending(known, "categories")
            if not len(known):
                raise ValueError("categories must have at least one number for each column")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_labels, sum(map(len, self.categories)))

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [(0, math.prod(self.shape))] * len(self.categories)

    def of_rows(self, x: Any, labels: Any) -> Ints:
        check_width(x, len(self.categories))
        cells, start = np.empty(x.shape, dtype=np.int64), 0
        of_label = labels * self.shape[1]
        for j, known in enumerate(self.categories):
            place = np.minimum(np.searchsorted(known, x[:, j]), len(known) - 1)
            counted = (known[place] == x[:, j]) & (labels >= 0)
            cells[:, j] = np.where(counted, of_label + start + place, -1)
            start += len(known)
        return cells


@reviewed
@dataclass(frozen=True, eq=False)
class Grid(RowCells):
    """The cells of a grid of public edges, one array of edges a column.

    A cell contains its lower edge; the last cell contains its upper edge, too. A row outside is in
    no cell.
    """

    what = "cell of a grid"
    edges: tuple[Floats, ...]

    def __post_init__(self) -> None:
        for edge in self.edges:
            check_ascending(edge, "edges")
            if len(edge) < 2:
                raise ValueError("edges must have at least two numbers for each column")

    def check_table(self, table: PrivateTable) -> None:
        if len(self.edges) != table.n_features:
            raise ValueError(
                f"edges must be one array for each of {table.n_features} columns, got "
                f"{len(self.edges)}"
            )

    @property
    def answer_shape(self) -> tuple[int, ...]:
        return tuple(edge.size - 1 for edge in self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        return (math.prod(self.answer_shape),)

    @property
    def least(self) -> int:
        return min(self.shape[0], 2**16)

    def of_rows(self, x: Any, labels: Any) -> Ints:
        cells, inside = np.zeros(len(x), dtype=np.int64), np.ones(len(x), dtype=bool)
        for j, (edge, size) in enumerate(zip(self.edges, self.answer_shape, strict=True)):
            column = x[:, j]
            inside &= (column >= edge[0]) & (column <= edge[-1])
            cell = np.searchsorted(edge, column, side="right") - 1
            cells = cells * size + np.clip(cell, 0, size - 1)
        return np.where(inside, cells, -1)[:, None]


@reviewed
@dataclass(frozen=True, eq=False)
class NormBins(RowCells):
    """Quarter-power bins of ||x - center|| / unit: four to a factor of two.

    - `center` of shape (d,)
    - `low`, `high`: First and last bin; they also take the shorter and longer rows.
    - `descending`: Whether the longest rows come first.
    """

    what = "length of the distance from a centre"
    everywhere = True
    center: Floats
    unit: float = 1.0
    low: int = NORM_CODES[0]
    high: int = NORM_CODES[1]
    descending: bool = False

    def __post_init__(self) -> None:
        if np.ndim(self.center) != 1 or np.ndim(self.unit):
            raise ValueError("center must be one point, and unit a number")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.high - self.low + 1,)

    def of_rows(self, x: Any, labels: Any) -> Ints:
        check_center(x, self.center)
        offsets = moved(x, shared(self.center))
        bins = np.clip(norm_codes(offsets, self.unit), self.low, self.high)
        return (self.high - bins if self.descending else bins - self.low)[:, None]
