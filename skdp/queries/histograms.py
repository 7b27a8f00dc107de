"""Bins of the lengths of rows, and quantiles among equal bins of a box.

Released: quantiles of columns, chosen by the exponential mechanism among the bins of a box; bins of
lengths are counted by `RowSum`. Guarantee: a row alone decides its bin. Proofs: histograms.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import NORM_MARGIN, Box, Floats, View
from skdp.core.privacy_filter import Release, exact_fraction, released
from skdp.core.query import Choice, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable, fold
from skdp.tabular.rows import Rows

Ints = NDArray[np.int64]

# --- norms --------------------------------------------------------------------------------------

_ALARM = 1e-4
_CLEAR_WINDOW = 5.5
NORM_CODES = (-160, 160)  # quarter-power bins: norms from 2**-40 to 2**40


def norm_codes(x: Floats, unit: float = 1.0) -> NDArray[np.int64]:
    """Return the bin of each row's L2 norm, four to a power of two: floor(4 log2 norm) + 1.

    Bin c has norms from 2**((c-1)/4) to 2**(c/4) units, up to a relative 1e-12. Bins are to be
    clipped to norms between 2**-100 and 2**100 units, where squares neither underflow nor overflow.
    A row alone decides its bin: histograms.md, "Norms".
    """
    if not 1e-100 <= unit <= 1e100:  # squares could
        x, unit = x / unit, 1.0
    bins, near = _quarter_bins(np.einsum("ij,ij->i", x, x) / unit**2)
    doubtful = np.flatnonzero(near)
    if doubtful.size:
        # einsum adds in any order; this sum, column by column, does not depend on other rows.
        squares = np.square((x[doubtful] / unit).T)
        total = squares[0].copy()
        for column in squares[1:]:
            total += column
        bins[doubtful] = _quarter_bins(total)[0]
    return bins


def _quarter_bins(total: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the bins of squared norms and which of these are close to a boundary."""
    mantissa, exponent = np.frexp(total)  # total = mantissa * 2**exponent, mantissa in [1/2, 1)
    middle = math.sqrt(0.5)
    # norm**2 in [2**(h-1), 2**h): bin 2h - 1 for the lower, 2h for the upper quarter power.
    bins = 2 * exponent.astype(np.int64) - (mantissa < middle)
    bins[total == 0.0] = -(2**20)
    bins[np.isinf(total)] = 2**20
    near = np.abs(mantissa - middle) < NORM_MARGIN
    near |= mantissa < 0.5 + NORM_MARGIN
    near |= mantissa > 1.0 - NORM_MARGIN
    return bins, near


def norm_from_bins(counts: NDArray, std: float, first_code: int) -> float:
    """Return the upper edge of the outermost quarter-power bin that is clear of the noise.

    If no single bin is clear, of the window of up to four doublings that stands out most; NaN if
    none does. Clipping the tail beyond costs less than the noise of a bound that covers it.
    """
    noisy = counts.astype(np.float64)
    # Laplace noise in one bin passes t with probability exp(-sqrt(2) t / std) / 2, Gaussian noise
    # with less: noise is taken for rows in 0.01% of fits.
    level = std / math.sqrt(2.0) * math.log(noisy.size / _ALARM)
    clear = np.flatnonzero(noisy > level)
    last = int(clear[-1]) if clear.size else _end_of_window(noisy, std)
    return math.nan if last < 0 else float(2.0 ** ((first_code + last) / 4))


def _end_of_window(noisy: Floats, std: float) -> int:
    """Return the last bin of the window that is most above its noise; -1 if none is clear."""
    # With noise alone in 320 bins, some window passed 5.5 standard deviations in 1.7% of 6,000
    # draws of Laplace noise, in none of Gaussian noise.
    total = np.concatenate([[0.0], np.cumsum(noisy)])
    best, last = _CLEAR_WINDOW, -1
    for width in (2, 4, 8, 16):
        above = (total[width:] - total[:-width]) / (max(std, 1e-300) * math.sqrt(width))
        first = int(np.argmax(above))
        if above[first] > best:
            best, last = float(above[first]), first + width - 1
    return last


# --- histograms of cells --------------------------------------------------------------------------


def histogram_sensitivity(parts: int, adjacency: str) -> int:
    """Return the L1 sensitivity, which is the squared L2 one, of `parts` histograms side by side.

    A row adds one to one bin of each: parts (A). Another row takes as many away: 2 parts (R).
    """
    return 2 * parts if adjacency == REPLACE_ONE else parts


def grid_histograms(rows: Rows, view: View, n_cells: int) -> Ints:
    """Count each feature's values in n_cells equal cells of [-half, half], shape (d, n_cells)."""
    d = view.n_dims
    width = 2.0 * view.half + 1.0  # integer values in the range
    offsets = np.arange(d) * n_cells

    def add(block: Floats, totals: list[NDArray]) -> None:
        q = view.map(block)
        q += view.half
        # q * n_cells is an exact integer below 2**53; the quotient is one IEEE operation on one
        # number, so the cell depends on the value only.
        q *= n_cells
        q /= width
        cell = np.minimum(q.astype(np.int64), n_cells - 1)
        cell += offsets
        flat = cell.ravel()
        if flat.size < d * n_cells:  # one pass over the counts is more work than one over the rows
            np.add.at(totals[0], flat, np.int64(1))
        else:
            totals[0] += np.bincount(flat, minlength=d * n_cells)

    (counts,) = fold(rows, add, lambda: [np.zeros(d * n_cells, dtype=np.int64)])
    return counts.reshape(d, n_cells)


MAX_CELLS = 2**20  # of a histogram: every block of rows adds that many
_KEPT_CELLS = 2**20  # of all columns, kept for another quantile: 8 MB


# --- the queries --------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class CellQuantile(Choice):
    """The q-quantile of every feature, as the midpoint of one of n_cells equal cells of its box.

    The score of a cell is the distance of q n to [rows below, rows below or in it], times q's
    denominator. Guarantee: the distance moves by at most max(q, 1 - q) (A), 1 (R).
    """

    name: ClassVar[str] = "quantile"
    view: Box
    q: float
    n_cells: int = 4096

    def scores(self, table: PrivateTable) -> NDArray:
        level = exact_fraction(self.q)
        a, b = level.numerator, level.denominator
        cells, n = self._cells(table.rows), table.n
        scores = cells.astype(object) if b * n >= 2**60 else cells
        step = max(2**17 // self.n_cells, 1)
        for first in range(0, len(scores), step):  # of a wide table there is room for one array
            part = scores[first : first + step]
            up_to = np.cumsum(part, axis=1)
            below = np.subtract(up_to, part, out=part)
            below *= b
            below -= a * n
            up_to *= -b
            up_to += a * n
            np.maximum(below, up_to, out=below)
            np.maximum(below, 0, out=below)
        return scores

    def _cells(self, rows: Any) -> Ints:
        """Return the counts of all cells; two quantiles of one view are asked with one pass."""
        kept = getattr(rows, "kept", {})  # of some columns, nothing is kept
        cells: Ints | None = kept.pop(self.view, None)
        if cells is None or cells.shape[1] != self.n_cells:
            cells = grid_histograms(rows, self.view, self.n_cells)
            if cells.size <= _KEPT_CELLS:
                kept[self.view] = cells.copy()
        return cells

    def sensitivity(self, relation: str) -> int:
        level = exact_fraction(self.q)
        widest = Fraction(1) if relation == REPLACE_ONE else max(level, 1 - level)
        return int(level.denominator * widest)

    def decoded(self, chosen: NDArray) -> Release:
        view = self.view
        width = 2 * view.half * view.grid / self.n_cells
        value = view.center - view.half * view.grid + (chosen + 0.5) * width
        return released(value, np.full(view.n_dims, np.nan))
