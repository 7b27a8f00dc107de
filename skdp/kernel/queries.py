"""Statistical queries: sums, means and counts of bounded functions of one row.

Released: sums and means of clipped rows (of each column, or of a row's own total), of cells that
are not 0, and of a user's g(row) in [0, 1]; counts of the cells of public edges; sums of the rows
of each private label. Rows with missing cells may be left out: what is released of the others, and
their number, is then protected as if rows were added or removed.

Guarantee: every function of a row that is summed is bounded in integers and decided by that row
alone; each query says its sensitivity. Proofs: kernel/README.md, "Statistical queries".

References
----------
M. Kearns (1998), "Efficient noise-tolerant learning from statistical queries", JACM 45; A. Blum,
C. Dwork, F. McSherry, K. Nissim (2005), "Practical privacy: the SuLQ framework", PODS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from skdp.kernel import statistics as stats
from skdp.kernel.blocks import LabelledRows, check_labels
from skdp.kernel.bounds import norm_from_octaves
from skdp.kernel.containers import cut, is_listed, to_float
from skdp.kernel.isolation import attempt
from skdp.kernel.protect import (
    SUM_BITS,
    Box,
    Floats,
    View,
    check_width,
    isqrt_up,
    power_of_two_grid,
)
from skdp.kernel.query import (
    Choice,
    Independent,
    Measurement,
    Noisy,
    Query,
    UserFunction,
    reviewed,
)
from skdp.kernel.release import Release, Share, exact_fraction, released
from skdp.kernel.rows import _NO_ROWS, Rows, _no_table, _numeric_container, _raise, check_rows
from skdp.kernel.sums import mean_in, with_count
from skdp.kernel.table import PrivateTable

if TYPE_CHECKING:
    from skdp.kernel.doors import Doors

__all__ = [
    "MAX_CELLS",
    "CellQuantile",
    "EdgeHistogram",
    "FunctionMean",
    "LabelSums",
    "NormBound",
    "ScoreMean",
    "check_labelled_table",
    "check_table",
    "sum_view",
]

MAX_CELLS = 2**20  # of a histogram: public, and every block of rows adds that many


# --- tables -----------------------------------------------------------------------------------


def check_table(
    X: Any, *, estimator: str, allow_empty: bool = False, omit: bool = False
) -> tuple[Rows, bool]:
    """Validate private rows, one column of them given as a flat sequence included.

    Guarantee: as `check_rows`. With `omit`, rows with a missing cell (NaN, None, NA) are left out:
    the table is that of the others, and their number is private under both relations; open the
    session with `skdp.kernel.gaps.open_session_with_gaps` then.

    Returns
    -------
    rows : Rows
    flat : bool
        Whether X has one dimension.
    """
    table, flat = _as_columns(X)
    if not omit:
        return check_rows(table, estimator=estimator, allow_empty=allow_empty), flat
    table = _numeric_container(table, estimator)
    if table.shape[0] == 0 and not allow_empty:
        raise ValueError(_NO_ROWS)
    rows = Rows(table)
    whole: list[NDArray[Any]] = [np.zeros(0, dtype=bool)]
    problems = set()
    for start, stop in rows.spans():
        values, problem = to_float(rows._part(table, start, stop))
        infinite = values is not None and np.isinf(values).any()
        problems.add(problem or ("infinite" if infinite else ""))
        if values is not None:
            whole.append(np.asarray(~np.isnan(values).any(axis=1)))
    _raise(problems, table)
    return Rows(table, positions=np.flatnonzero(np.concatenate(whole))), flat


def check_labelled_table(
    X: Any,
    labels: Any,
    *,
    estimator: str,
    classes: NDArray,
    allow_empty: bool = False,
    omit: bool = False,
) -> tuple[Rows, bool]:
    """Validate private rows, as `check_table`, with a private label each, and say if X is flat.

    A label that is none of the classes is allowed, and one that is missing where `omit` is true:
    it is a missing cell of its row.

    Parameters
    ----------
    classes : ndarray
        Public, sorted.
    """
    rows, flat = check_table(X, estimator=estimator, allow_empty=allow_empty, omit=omit)
    codes, missing = check_labels(
        labels, rows._X.shape[0], estimator=estimator, classes=classes, omit=omit, name="labels"
    )
    positions = rows._positions
    if positions is not None:
        positions = positions[~missing[positions]]
    return LabelledRows(rows._X, codes, positions=positions), flat


def _as_columns(X: Any) -> tuple[Any, bool]:
    """Return what has one dimension as one column; everything else as it is."""
    if hasattr(X, "columns") or sparse.issparse(X):
        return X, False
    table, problem = X, ""
    if is_listed(X):
        table = _no_table(X, flat=True)
    elif not isinstance(X, np.ndarray) and getattr(X, "ndim", 1) == 1:
        if hasattr(X, "dtype") or hasattr(X, "to_pylist"):  # a column of a table's library
            table, problem = to_float(X)
        else:
            table = _no_table(X, flat=True)
    _raise(problem, X)
    if not isinstance(table, np.ndarray) or table.ndim != 1:
        return table, False
    return table.reshape(-1, 1), True


# --- views ------------------------------------------------------------------------------------


@reviewed
class AboutZero:
    """Rows clipped to a box that need not contain 0, in steps from 0: their sum needs no count.

    Parameters
    ----------
    low, high : array-like of shape (d,)
        Public bounds in user units.
    per_feature : bool
        One grid a feature instead of one for all.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, *, per_feature: bool) -> None:
        self.low = np.array(low, dtype=np.float64)
        self.high = np.array(high, dtype=np.float64)
        self.n_dims = self.low.size
        self.center = np.zeros(self.n_dims)
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        widest = largest if per_feature else np.full(self.n_dims, largest.max())
        self.grid = np.array([power_of_two_grid(float(w), SUM_BITS) for w in widest])
        self.half = np.rint(largest / self.grid)
        self.norm = isqrt_up(sum(int(h) ** 2 for h in self.half))

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with |q_j| <= half_j."""
        check_width(block, self.n_dims)
        q = np.clip(block, self.low, self.high)
        q *= 1.0 / self.grid  # a power of two: the exact quotient
        # Rounding ascends, so |q_j| <= half_j, which is rounded like a cell.
        return np.rint(q, out=q)

    def at(self, bits: int) -> AboutZero:
        """Return the view itself: it has the steps of sums already."""
        return self

    def widths(self) -> list[int]:
        """Return by how many steps each coordinate may change, at most."""
        ends = [np.rint(end / self.grid) for end in (self.low, self.high)]
        return [int(b) - int(a) for a, b in zip(*ends, strict=True)]


@reviewed
class NonZero:
    """A view of which cells are not 0, through the view of a box from 0 to 1."""

    def __init__(self, base: View) -> None:
        self._base = base
        self.n_dims, self.grid, self.center = base.n_dims, base.grid, base.center
        self.half, self.norm = base.half, base.norm

    def at(self, bits: int) -> NonZero:
        """Return the view itself: its base has the steps of sums already."""
        return self

    def map(self, block: Floats) -> Floats:
        """Map float rows to the base's image of 0 and 1."""
        return self._base.map((block != 0.0).astype(np.float64))


@reviewed
class Total:
    """The sum of the coordinates of a view with one common grid, as one coordinate.

    A sum of at most 8192 integers up to 2**32 is exact in any order, and so is its quotient by the
    power of two that brings the bound below 2**36, so that blocks of rows add up exactly.
    """

    def __init__(self, base: View) -> None:
        self._base = base
        bound = int(base.half.sum())
        self._shrink = 2.0 ** max(bound.bit_length() - 36, 0)
        self.n_dims = 1
        self.grid = base.grid[:1] * self._shrink
        self.center = np.array([base.center.sum()])
        self.half = np.rint(np.array([float(bound)]) / self._shrink)
        self.norm = int(self.half[0])

    def at(self, bits: int) -> Total:
        """Return the view itself: its base has the steps of sums already."""
        return self

    def map(self, block: Floats) -> Floats:
        """Map float rows to one integer each."""
        total: Floats = self._base.map(block).sum(axis=1, keepdims=True)
        total /= self._shrink
        return np.rint(total, out=total)


# --- exact statistics ---------------------------------------------------------------------------


def cell_counts(rows: Rows, edges: Sequence[Floats]) -> NDArray[np.int64]:
    """Count the rows in each cell of a grid of public edges; a row outside is in no cell.

    A cell holds its lower edge; the last one its upper edge too.
    """
    sizes = [edge.size - 1 for edge in edges]
    n_cells = math.prod(sizes)

    def add(block: Floats, totals: list[NDArray]) -> None:
        code = np.zeros(len(block), dtype=np.int64)
        inside = np.ones(len(block), dtype=bool)
        for j, (edge, size) in enumerate(zip(edges, sizes, strict=True)):
            x = block[:, j]
            inside &= (x >= edge[0]) & (x <= edge[-1])
            cell = np.searchsorted(edge, x, side="right") - 1
            code = code * size + np.clip(cell, 0, size - 1)
        totals[0] += np.bincount(code[inside], minlength=n_cells)

    (counts,) = stats.fold(
        rows, add, lambda: [np.zeros(n_cells, dtype=np.int64)], least=min(n_cells, 2**16)
    )
    return counts


def label_sums(rows: Rows, view: View, n_labels: int) -> NDArray:
    """Sum the mapped rows of each label code 0 .. n_labels - 1, exactly; others are left out."""
    d = view.n_dims
    dtype = stats.total_dtype(rows, int(view.half.max(initial=0.0)))
    total: NDArray = np.zeros((n_labels, d), dtype=dtype)
    with np.errstate(all="ignore"):
        for start, stop in rows.spans():
            codes = np.asarray(rows._part(rows._y, start, stop))
            q = view.map(rows.block(start, stop))
            known = codes >= 0
            for j in range(d):
                part = np.bincount(codes[known], weights=q[known, j], minlength=n_labels)
                total[:, j] += stats.as_total(part, dtype)
    return total


def label_sensitivities(view: AboutZero, adjacency: str) -> tuple[int, int]:
    """Return (L1, squared L2) sensitivity of `label_sums`, in steps.

    A: those of one row. R: a row leaves one label for another, twice the square of the norm, or
    changes within one, the square of the box's diagonal; in L1 twice the sum of the bounds.
    """
    l1, norm2 = int(view.half.sum()), sum(int(h) ** 2 for h in view.half)
    if adjacency == stats.REPLACE_ONE:
        l1, norm2 = 2 * l1, max(2 * norm2, sum(w * w for w in view.widths()))
    return max(1, l1), max(1, norm2)


def _answer(query: Callable[[Floats], Any], row: Floats, restart: Callable[[int], None]) -> float:
    """Return g(row) clipped to [0, 1]; 0 where it fails or returns no finite number."""
    value = attempt(lambda: float(query(row)), math.nan, restart)
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


def sum_view(
    low: ArrayLike,
    high: ArrayLike,
    n_features: int,
    *,
    nonzero: bool = False,
    across: bool = False,
    about_zero: bool = False,
) -> View:
    """Return the view of which `Sum` and `Mean` add up the rows, in steps as fine as sums need.

    Parameters
    ----------
    low, high : array-like
        Public bounds, scalars or one a feature.
    n_features : int
    nonzero : bool, default=False
        Count 1 for a cell that is not 0, else 0; the bounds are not used.
    across : bool, default=False
        Add up the cells of a row, too: one number of known range a row.
    about_zero : bool, default=False
        Relative to 0 instead of the box's centre: a sum needs no count then.
    """
    if nonzero:
        low, high = 0.0, 1.0
    a, b = np.broadcast_to(low, n_features), np.broadcast_to(high, n_features)
    view: Any = (
        AboutZero(a, b, per_feature=not across)
        if about_zero
        else Box(a, b, per_feature=not across, bits=SUM_BITS)
    )
    if nonzero:
        view = NonZero(view)
    return Total(view) if across else view


# --- the queries --------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class EdgeHistogram(Query):
    """The numbers of rows in the cells of a grid of public edges, one array of edges a feature.

    Guarantee: a row is in at most one cell. L1 1, squared L2 1 (A); 2 and 2 (R).
    """

    name: ClassVar[str] = "histogram"
    edges: tuple[Floats, ...]

    def exact(self, table: PrivateTable) -> NDArray:
        return cell_counts(table.rows, self.edges)

    def sensitivity(self, relation: str) -> Independent:
        size = stats.histogram_sensitivity(1, relation)
        return Independent(size, size)

    def decoded(self, noisy: Noisy) -> Release:
        shape = [edge.size - 1 for edge in self.edges]
        return released(noisy.values.reshape(shape), noisy.std)


@reviewed
@dataclass(frozen=True, eq=False)
class LabelSums(Query):
    """The sum of the clipped rows of each label, (n_labels, d); rows from `check_labelled_table`.

    Labels are private: a row may change it with its values. Guarantee: `label_sensitivities`.
    Pure: Laplace or K-norm noise, whichever is less.
    """

    name: ClassVar[str] = "label sums"
    low: Floats
    high: Floats
    n_labels: int

    @property
    def _view(self) -> AboutZero:
        return AboutZero(self.low, self.high, per_feature=True)

    @property
    def unit(self) -> float:
        return float(self._view.grid.max())

    def exact(self, table: PrivateTable) -> NDArray:
        return label_sums(table.rows, self._view, self.n_labels)

    def sensitivity(self, relation: str) -> Independent:
        return Independent(*label_sensitivities(self._view, relation), or_spherical=True)

    def decoded(self, noisy: Noisy) -> Release:
        grid = self._view.grid
        error = np.broadcast_to(noisy.std * grid, noisy.values.shape)
        return released(noisy.values.astype(np.float64) * grid, error)


@reviewed
@dataclass(frozen=True, eq=False)
class NormBound(Query):
    """A bound on ||x - center|| that most rows keep, from a histogram of their norms.

    Positive; NaN where noise hides all rows.

    Guarantee: a row is in one power-of-2**(1/4) bin. L1 1, L2 1 (A), 2 and sqrt(2) (R).
    """

    name: ClassVar[str] = "octaves of the norm"
    center: Floats

    def exact(self, table: PrivateTable) -> NDArray:
        return stats.norm_histogram(table.rows, self.center)

    def sensitivity(self, relation: str) -> Independent:
        size = stats.histogram_sensitivity(1, relation)
        return Independent(size, size)

    def decoded(self, noisy: Noisy) -> float:
        return norm_from_octaves(noisy.values, noisy.std, stats.NORM_CODES[0])


@reviewed
@dataclass(frozen=True, eq=False)
class CellQuantile(Choice):
    """The q-quantile of every feature, as the midpoint of one of n_cells equal cells of its box.

    The score of a cell is the distance of q n to the interval [rows below, rows below or in it], in
    integers times q's denominator: a value that many rows share is as good a quantile as its rank
    allows. Guarantee: the score moves by at most max(q, 1 - q) (A), 1 (R).
    """

    name: ClassVar[str] = "quantile"
    view: Box
    q: float
    n_cells: int = 4096

    def scores(self, table: PrivateTable) -> NDArray:
        level = exact_fraction(self.q)
        a, b = level.numerator, level.denominator
        cells = stats.grid_histograms(table.rows, self.view, self.n_cells)
        n = table.n
        wide = cells.astype(object) if b * n >= 2**60 else cells
        up_to = np.cumsum(wide, axis=1)
        return np.maximum(np.maximum(b * (up_to - wide) - a * n, a * n - b * up_to), 0)

    def sensitivity(self, relation: str) -> int:
        level = exact_fraction(self.q)
        widest = Fraction(1) if relation == stats.REPLACE_ONE else max(level, 1 - level)
        return int(level.denominator * widest)

    def decoded(self, chosen: NDArray) -> Release:
        view = self.view
        width = 2 * view.half * view.grid / self.n_cells
        value = view.center - view.half * view.grid + (chosen + 0.5) * width
        return released(value, np.full(view.n_dims, np.nan))


# --- means of a user's function of one row ------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class FunctionMean(Measurement):
    """The mean over the rows of a user's g(row) in [0, 1].

    The callable gets one row as a new float64 array; a result outside of [0, 1] is clipped, an
    exception or anything but a finite number counts as 0. It must not pass anything from one row to
    another. Guarantee: the sum moves by at most 1 (A and R); as `Mean` of a box from 0 to 1.
    """

    name: ClassVar[str] = "query"
    function: UserFunction

    def measure(self, core: Doors, share: Share, name: str) -> Release:
        view = Box([0.0], [1.0], bits=SUM_BITS)
        total = 0
        with core._user_code(share, name) as restart:
            for block in core._rows.blocks():
                # A subclass or a view would let the callable reach the other rows.
                values = [_answer(self.function.call, np.array(row), restart) for row in block]
                total += int(view.map(np.array(values)[:, None]).sum())
        return _mean_of_total(core, name, view, total, share, count_error=True)


@reviewed
@dataclass(frozen=True, eq=False)
class ScoreMean(Measurement):
    """The mean over the rows of a user's score of one row, clipped to [low, high].

    The callable gets one row at a time (X and y slices of length one); its exceptions and
    non-finite results become `low`. With ``exact_blocks`` it gets blocks, and must give each row
    the same bits in every block (elementwise ufuncs and ``accumulate`` do; BLAS does not, and a row
    that makes a block fail would change the last bits of its neighbours). Guarantee: as `Mean` of a
    one-dimensional box.
    """

    name: ClassVar[str] = "score"
    function: UserFunction
    low: float
    high: float
    exact_blocks: bool = False

    def measure(self, core: Doors, share: Share, name: str) -> Release:
        view = Box([self.low], [self.high], bits=SUM_BITS)
        step = 4096 if self.exact_blocks else 1
        total = 0
        with core._user_code(share, name) as restart:
            for X, y in core._rows.slices(step):
                values = _row_scores(self.function.call, X, y, self.low, restart)
                total += int(view.map(np.clip(values, self.low, self.high)[:, None]).sum())
        mean = _mean_of_total(core, name, view, total, share)
        return released(np.clip(mean.value, self.low, self.high), mean.std)


def _mean_of_total(
    core: Doors, name: str, view: Box, total: int, share: Share, *, count_error: bool = False
) -> Release:
    """Release a mean in one dimension from the exact sum of a view's rows."""
    weight = max(1, view.norm // 2)
    exact = with_count(np.array([total], dtype=np.int64), core._private, weight)
    size = stats.sum_sensitivity(view, core.adjacency, weight=weight)
    terms = core.terms(share)
    values, std = core._vector(name, exact, size, share, unit=float(view.grid.max()))
    noisy = Noisy(values, std, terms)
    value, error = mean_in(view, noisy, weight, count_error=count_error)
    return released(value[0], float(error[0]))


def _row_scores(
    score: Callable[[Any, Any], ArrayLike],
    X: Any,
    y: Any,
    default: float,
    restart: Callable[[int], None],
) -> Floats:
    """Apply the user's callable; exceptions and non-finite values become the public default."""
    length = X.shape[0]
    values = attempt(
        lambda: np.asarray(score(X, y), dtype=np.float64).reshape(length), None, restart
    )
    if values is None:
        if length > 1:
            # One bad row must not decide for the others: ask for each row alone.
            one = [_one(X, y, i) for i in range(length)]
            parts = [_row_scores(score, *pair, default, restart) for pair in one]
            return np.concatenate(parts)
        return np.array([default])
    bounded: Floats = np.where(np.isfinite(values), values, default)
    return bounded


def _one(X: Any, y: Any, i: int) -> tuple[Any, Any]:
    """Return row i of a slice, as a slice of length one."""
    return cut(X, i, i + 1), None if y is None else cut(y, i, i + 1)
