"""Statistical queries: sums, means and counts of bounded functions of one row.

Released: sums and means of clipped rows (of each column, or of a row's own total), of cells that
are not 0, and of a user's g(row) in [0, 1]; counts of the cells of public edges; sums of the rows
of each private label. Rows with missing cells may be left out: what is released of the others, and
their number, is then protected as if rows were added or removed.

Guarantee: every function of a row that is summed is bounded in integers and decided by that row
alone; each door says its sensitivity. Proofs: kernel/README.md, "Statistical queries".

References
----------
M. Kearns (1998), "Efficient noise-tolerant learning from statistical queries", JACM 45; A. Blum,
C. Dwork, F. McSherry, K. Nissim (2005), "Practical privacy: the SuLQ framework", PODS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from skdp.kernel import sampling
from skdp.kernel import statistics as stats
from skdp.kernel.blocks import LabelledRows, check_labels
from skdp.kernel.containers import is_listed, to_float
from skdp.kernel.doors import Doors, released
from skdp.kernel.isolation import attempt
from skdp.kernel.protect import SUM_BITS, Box, Floats, View, isqrt_up, power_of_two_grid
from skdp.kernel.release import Release, Share
from skdp.kernel.rows import _NO_ROWS, Rows, _no_table, _numeric_container, _raise, check_rows

__all__ = ["MAX_CELLS", "QueryDoors", "check_labelled_table", "check_table"]

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
        problems.add(problem or ("finite" if infinite else ""))
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
        q = np.clip(block, self.low, self.high)
        q *= 1.0 / self.grid  # a power of two: the exact quotient
        # Rounding ascends, so |q_j| <= half_j, which is rounded like a cell.
        return np.rint(q, out=q)

    def widths(self) -> list[int]:
        """Return by how many steps each coordinate may change, at most."""
        ends = [np.rint(end / self.grid) for end in (self.low, self.high)]
        return [int(b) - int(a) for a, b in zip(*ends, strict=True)]


class NonZero:
    """A view of which cells are not 0, through the view of a box from 0 to 1."""

    def __init__(self, base: View) -> None:
        self._base = base
        self.n_dims, self.grid, self.center = base.n_dims, base.grid, base.center
        self.half, self.norm = base.half, base.norm

    def map(self, block: Floats) -> Floats:
        """Map float rows to the base's image of 0 and 1."""
        return self._base.map((block != 0.0).astype(np.float64))


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


# --- the doors ----------------------------------------------------------------------------------


class QueryDoors(Doors):
    """Doors that release sums of bounded functions of a row; see the module."""

    def _query_box(
        self, low: ArrayLike, high: ArrayLike, *, nonzero: bool, across: bool, about_zero: bool
    ) -> View:
        """Return the view that `clipped_sum` and `clipped_mean` add up."""
        shape = (self.n_features,)
        if nonzero:
            low, high = 0.0, 1.0
        a, b = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        view: Any = (
            AboutZero(a, b, per_feature=not across)
            if about_zero
            else Box(a, b, per_feature=not across, bits=SUM_BITS)
        )
        if nonzero:
            view = NonZero(view)
        return Total(view) if across else view

    def clipped_sum(
        self,
        low: ArrayLike,
        high: ArrayLike,
        share: Share = None,
        *,
        nonzero: bool = False,
        across: bool = False,
        name: str = "sum",
    ) -> Release:
        """Release the sum of the clipped rows, in user units.

        Guarantee: R: sum of x - centre at the box's diagonal, plus the public n times the centre.
        A: sum of x at the norm of the box's furthest corner from 0. With `across`, of each row's
        own total, which is one number of known range.

        Parameters
        ----------
        low, high : array-like
            Public bounds, scalars or one a feature.
        share : float, default=None
        nonzero : bool, default=False
            Sum 1 for a cell that is not 0, else 0; the bounds are not used.
        across : bool, default=False
            Sum over the cells of a row too.
        """
        view = self._query_box(
            low, high, nonzero=nonzero, across=across, about_zero=not self._replace
        )
        exact, n = stats.exact_sum(self._rows, view)
        size = stats.sum_sensitivity(view, self.adjacency)
        noisy, std = self.vector(name, exact, size, share, unit=float(view.grid.max()))
        # The centre is 0 where n is private.
        base = n * view.center if self._replace else view.center
        return released(base + noisy.astype(np.float64) * view.grid, std * view.grid)

    def clipped_mean(
        self,
        low: ArrayLike,
        high: ArrayLike,
        share: Share = None,
        *,
        across: bool = False,
        name: str = "mean",
    ) -> Release:
        """Release the mean of the clipped rows, or of each row's own total (`across`).

        Guarantee: as `Session.mean`. The standard error has the noise of a private n in it.
        """
        view = self._query_box(low, high, nonzero=False, across=across, about_zero=False)
        exact, n = stats.exact_sum(self._rows, view)
        return self._mean_with_error(name, view, exact, n, max(1, view.norm // 3), share)

    def _mean_with_error(
        self, name: str, view: View, exact: NDArray, n: int, weight: int, share: Share
    ) -> Release:
        """Release a mean; its standard error (first order) counts the noise of a private n too."""
        mean = self._mean_of(name, view, exact, n, weight, share)
        if self._replace:
            return mean
        moved = (mean.value - view.center) / view.grid / weight
        return released(mean.value, mean.std * np.sqrt(1.0 + moved**2))

    def statistical_query(
        self, query: Callable[[Floats], Any], share: Share = None, *, name: str = "query"
    ) -> Release:
        """Release the mean over the rows of a user's g(row) in [0, 1].

        The callable gets one row as a new float64 array; a result outside of [0, 1] is clipped, an
        exception or anything but a finite number counts as 0. It must not pass anything from one
        row to another. Guarantee: the sum moves by at most 1 (A and R); as `clipped_mean` of a box
        from 0 to 1.
        """
        view = Box([0.0], [1.0], bits=SUM_BITS)
        total = 0
        self._check_share(share, name)
        with self._foreign(), sampling.lent_generators() as restart:
            for block in self._rows.blocks():
                # A subclass or a view would let the callable reach the other rows.
                values = [_answer(query, np.array(row), restart) for row in block]
                total += int(view.map(np.array(values)[:, None]).sum())
        exact = np.array([total], dtype=np.int64)
        weight = max(1, view.norm // 2)
        mean = self._mean_with_error(name, view, exact, self._rows._n, weight, share)
        return released(mean.value[0], float(np.asarray(mean.std)[0]))

    def edge_histogram(
        self, edges: Sequence[Floats], share: Share = None, *, name: str = "histogram"
    ) -> Release:
        """Release the numbers of rows in the cells of a grid of public edges, one array a feature.

        Guarantee: a row is in at most one cell. L1 1, squared L2 1 (A); 2 and 2 (R).
        """
        exact = cell_counts(self._rows, edges)
        size = stats.histogram_sensitivity(1, self.adjacency)
        noisy, std = self.scalars(name, exact, size, size, share)
        return released(noisy.reshape([edge.size - 1 for edge in edges]), std)

    def label_sums(
        self,
        low: ArrayLike,
        high: ArrayLike,
        n_labels: int,
        share: Share = None,
        *,
        name: str = "label sums",
    ) -> Release:
        """Release the sum of the clipped rows of each label; rows from `check_labelled_table`.

        Labels are private: a row may change it with its values. Guarantee: `label_sensitivities`.
        Pure: Laplace or K-norm noise, whichever is less.

        Returns
        -------
        release : Release, value of shape (n_labels, n_features)
        """
        shape = (self.n_features,)
        view = AboutZero(
            np.broadcast_to(low, shape), np.broadcast_to(high, shape), per_feature=True
        )
        exact = label_sums(self._rows, view, n_labels)
        l1, l2_squared = label_sensitivities(view, self.adjacency)
        unit, norm = float(view.grid.max()), isqrt_up(l2_squared)
        if self.pure and math.sqrt(2) * l1 >= math.sqrt(exact.size + 1) * norm:
            noisy, std = self.vector(name, exact, norm, share, unit=unit)
        else:
            noisy, std = self.scalars(name, exact, l1, l2_squared, share, unit=unit)
        error = np.broadcast_to(std * view.grid, exact.shape)
        return released(noisy.astype(np.float64) * view.grid, error)
