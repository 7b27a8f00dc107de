"""Small tables that answer public queries like the private one: the exponential mechanism.

Released: a table z of `size` = m points, chosen among all tables of m points on public cells (or a
public list of them) with probability proportional to exp(-eta score). The score is the largest
error of a query, in rows and rounded up: max over f of ceil(|F(x) - n f(z)|), F(x) the sum of f
over the n private rows, f(z) its mean over the m points. Distributions are exact: all tables are
scored, or, for thresholds of one ordered column, counted as lattice paths
(`skdp.queries.threshold_lattice`).

Guarantee: the score has sensitivity 1 under both relations, whatever the number of queries. Proofs:
small_databases.md.

References
----------
A. Blum, K. Ligett, A. Roth (2013), "A learning theory approach to noninteractive database privacy",
JACM 60, section 3; C. Dwork, A. Roth (2014), "The algorithmic foundations of differential privacy",
algorithm 4 (SmallDB).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import Floats
from skdp.core.privacy_filter import Share
from skdp.core.query import Measurement, check_ascending, reviewed
from skdp.loss import conversions
from skdp.queries.histograms import MAX_CELLS
from skdp.queries.threshold_lattice import n_multisets, threshold_table
from skdp.queries.workloads import Cells, Weighted, Workload, coded_rows, exact_answers, flat_codes
from skdp.tabular.domain import about

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable

__all__ = [
    "MAX_SMALL_TABLES",
    "SmallTable",
    "ThresholdTable",
    "check_small_tables",
    "check_threshold_tables",
    "largest_threshold_size",
    "n_multisets",
    "public_tables",
    "table_rate",
]

Ints = NDArray[np.int64]

MAX_SMALL_TABLES = 2 * 10**7  # scored one by one
_LARGEST_WORK = 2 * 10**10  # queries times points times tables: some minutes
_LARGEST_MATRIX = 2**27  # bytes of the coefficients of all queries on all cells
_BLOCK_VALUES = 2**20  # tables times queries scored at once: 8 MB
_LARGEST_LATTICE = 10**7  # additions a level, about
_LARGEST_PATH = 1000  # points: the numbers of ways of a path then take some hundred MB
_MECHANISM = "exponential mechanism over tables"


# --- what is possible, by public sizes -----------------------------------------------------------


def check_small_tables(
    n_cells: int, size: int, n_queries: int, n_tables: int | None = None
) -> None:
    """Refuse a choice among too many tables, by its public sizes.

    - `n_cells`: Cells of the domain.
    - `size`: Points of a table.
    - `n_tables`: Length of a public list; None for all tables.
    - raises ValueError: with the sizes, and what to do instead.
    """
    # The logarithm first: the number may have more digits than there is memory.
    digits = 0.0
    if n_tables is None:
        if n_cells.bit_length() > 900:  # beyond floats; points hardly ever share a cell
            log = size * math.log(n_cells) - math.lgamma(size + 1)
        else:
            log = math.lgamma(n_cells + size) - math.lgamma(size + 1) - math.lgamma(n_cells)
        digits = log / math.log(10)
    large = digits > 15
    among = 10**15 if large else n_multisets(n_cells, size) if n_tables is None else n_tables
    many = f"about 10**{digits:.0f}" if large else f"{among:,}"
    what = f"{many} tables of size {size} on a domain of {about(n_cells)} cells"
    if among > MAX_SMALL_TABLES:
        raise ValueError(
            f"there are {what}; at most {MAX_SMALL_TABLES:,} can be scored. Use a smaller size or "
            "domain, a public list of candidate tables, thresholds of one column (which need no "
            "list), MWEMReleaser, or (beyond 2**20 cells) DPMarginalSynthesizer"
        )
    if among * size * n_queries > _LARGEST_WORK:
        raise ValueError(
            f"{n_queries:,} queries on {what} are {among * size * n_queries:.2g} steps; at most "
            f"{_LARGEST_WORK:.2g} are possible. Use fewer queries, tables or points, or "
            "MWEMReleaser"
        )


def check_threshold_tables(n_cells: int, size: int) -> None:
    """Refuse lattice paths that would take many minutes on some table, by their public sizes.

    - raises ValueError: with the sizes.
    """
    if n_cells > MAX_CELLS:
        raise ValueError(f"a grid of {n_cells:,} cells is too fine; at most {MAX_CELLS:,}")
    if size > (most := largest_threshold_size(n_cells)):
        raise ValueError(
            f"a table of size {size:,} on {n_cells:,} cells may take too long; at most a size of "
            f"{most:,}, or fewer cells"
        )


def largest_threshold_size(n_cells: int) -> int:
    """Return the largest size that `check_threshold_tables` lets pass on so many cells."""
    # A level costs at most about (size + 1) min(n_cells, (size + 1)**2) additions of integers, and
    # there are up to two hundred levels; large tables need far fewer.
    by_time = max(_LARGEST_LATTICE // n_cells, int(_LARGEST_LATTICE ** (1 / 3))) - 1
    return min(by_time, _LARGEST_PATH)


def table_rate(level: float | Fraction, *, pure: bool) -> Fraction:
    """Return eta for a choice that may lose `level`: epsilon, or mu.

    Score changes range over 2, so the choice loses 2 eta, and is mu-GDP for the mu of eta
    (core/PROOFS.md, "Bounded range").
    """
    if pure:
        return Fraction(level) / 2
    return Fraction(conversions.pure_epsilon_from_mu(float(level)))


def public_tables(n_cells: int, size: int, n_tables: int, seed: int) -> Ints:
    """Return a public list of random tables of flat cells, (n_tables, size), from a public seed."""
    key = repr(("tables", int(n_cells), int(size), int(n_tables), int(seed))).encode()
    rng = samplers.public_generator(key)
    return np.sort(rng.integers(n_cells, size=(n_tables, size)), axis=1)


# --- all tables, numbered -----------------------------------------------------------------------


class AllTables:
    """All tables of `size` points on n_cells cells, numbered.

    A table is a subset of n_cells + size - 1 places, c_1 < ... < c_m, with the number
    comb(c_1, 1) + ... + comb(c_m, m); its points are c_i - (i - 1).
    """

    def __init__(self, n_cells: int, size: int) -> None:
        self._n = n_multisets(n_cells, size)
        self._combs = [
            np.array([math.comb(c, i + 1) for c in range(n_cells + i)], dtype=np.int64)
            for i in range(size)
        ]

    def __len__(self) -> int:
        return self._n

    def cells(self, start: int, stop: int) -> Ints:
        """Return the cells of tables start to stop - 1, ascending, (stop - start, size)."""
        remaining = np.arange(start, stop)
        cells = np.empty((remaining.size, len(self._combs)), dtype=np.int64)
        for i in range(len(self._combs) - 1, -1, -1):
            place = np.searchsorted(self._combs[i], remaining, side="right") - 1
            remaining -= self._combs[i][place]
            cells[:, i] = place - i
        return cells


class ListedTables:
    """A public list of tables."""

    def __init__(self, tables: ArrayLike, n_cells: int, size: int) -> None:
        array = np.asarray(tables)
        good = array.ndim == 2 and array.shape[1] == size and len(array) > 0
        if not good or array.dtype.kind not in "iu":
            raise ValueError(f"candidates must be integers of shape (n_candidates, {size})")
        if int(array.min()) < 0 or int(array.max()) >= n_cells:
            raise ValueError(f"candidates must hold flat cells from 0 to {n_cells - 1}")
        self._tables = array.astype(np.int64)

    def __len__(self) -> int:
        return len(self._tables)

    def cells(self, start: int, stop: int) -> Ints:
        """Return the cells of tables start to stop - 1."""
        return self._tables[start:stop]


# --- scores -------------------------------------------------------------------------------------


class _Scorer:
    """The scores of tables on a workload; it sees no row."""

    def __init__(self, workload: Workload, n_cells: int, size: int) -> None:
        self._workload, self._size = workload, size
        self._matrix: NDArray | None = None
        kind = np.dtype(np.uint8 if workload.one == 1 else np.int32)
        if n_cells * workload.n_queries * kind.itemsize <= _LARGEST_MATRIX:
            # One row a cell: the queries of a point lie side by side.
            self._matrix = np.empty((n_cells, workload.n_queries), dtype=kind)
            for start in range(0, n_cells, self.step):
                block = np.arange(start, min(start + self.step, n_cells))
                self._matrix[block] = self._by_groups(block[:, None])

    @property
    def step(self) -> int:
        """Number of tables that are scored at once."""
        return max(_BLOCK_VALUES // self._workload.n_queries, 1)

    def sums(self, cells: Ints) -> Ints:
        """Return the sum of every query over each table's points, (n_tables, n_queries)."""
        if self._matrix is not None:
            total = self._matrix[cells[:, 0]].astype(np.int64)
            for i in range(1, self._size):
                total += self._matrix[cells[:, i]]
            return total
        return self._by_groups(cells)

    def _by_groups(self, cells: Ints) -> Ints:
        """Return `sums` without a matrix of the whole domain, group by group."""
        work, n = self._workload, len(cells)
        total = np.empty((n, work.n_queries), dtype=np.int64)
        # One column after the other in memory: each is read by itself.
        codes = np.array(np.unravel_index(cells.reshape(-1), work.sizes)).T
        for g, group in enumerate(work.groups):
            flat = flat_codes(codes, work.sizes, group.attributes).reshape(n, -1)
            sums = total[:, work.starts[g] : work.starts[g + 1]]
            if isinstance(group, Weighted):
                sums[:] = sum(group.weights.T[points] for points in flat.T)
            elif isinstance(group, Cells) and group.index is not None:
                sums[:] = sum(
                    (points[:, None] == group.index).astype(np.int64) for points in flat.T
                )
            else:
                width = math.prod(group.table(work.sizes))
                step = max(_BLOCK_VALUES // width, 1)
                for start in range(0, n, step):
                    part = flat[start : start + step]
                    place = (part + width * np.arange(len(part))[:, None]).reshape(-1)
                    counts = np.bincount(place, minlength=width * len(part)).reshape(-1, width)
                    if not isinstance(group, Cells):  # the answers of cells are their counts
                        counts = np.array([group.apply(table) for table in counts])
                    sums[start : start + step] = counts
            sums *= work.one // group.one
        return total

    def scores(self, cells: Ints, answers: NDArray, n: int) -> NDArray:
        """Return max over f of ceil(|F - n f(z)|), integers; answers in units of 1/one."""
        m, unit_steps = self._size, self._workload.one
        sums: NDArray = self.sums(cells)
        if n * m * unit_steps >= 2**61:
            sums, answers = sums.astype(object), answers.astype(object)
        sums *= -n
        sums += m * answers
        worst = np.maximum(sums.max(axis=1), -sums.min(axis=1))
        return -(-worst // (m * unit_steps))


def score_change(a: NDArray, b: NDArray, unit_steps: int) -> float:
    """Return a bound on the change of any table's score between two tables of rows.

    a, b: the number of rows and every answer, in units of 1/unit_steps. |dF - f(z) dn| is largest
    where f(z) is 0 or 1.
    """
    change = np.asarray(a, dtype=object) - np.asarray(b, dtype=object)
    dn, moved = change[0], change[1:]
    return float(max(max(abs(x), abs(x - dn)) for x in moved)) / unit_steps


def _choose(
    tables: AllTables | ListedTables,
    score: Callable[[Ints], NDArray],
    step: int,
    eta: Fraction,
    entropy: samplers.Entropy | None,
) -> Ints:
    """Return a table with probability proportional to exp(-eta score), exactly.

    One pass counts the tables of each score, by blocks; a score is drawn with these
    multiplicities, then one of its tables, whose block is scored again.
    """
    spans = [(i, min(i + step, len(tables))) for i in range(0, len(tables), step)]
    blocks = [np.unique(score(tables.cells(*span)), return_counts=True) for span in spans]
    levels, where = np.unique(np.concatenate([s for s, _ in blocks]), return_inverse=True)
    counts = np.zeros(levels.size, dtype=np.int64)
    np.add.at(counts, where, np.concatenate([times for _, times in blocks]))
    chosen = samplers.exponential_mechanism(levels, eta, counts, entropy=entropy)
    place = samplers.uniform_below(int(counts[chosen]), entropy=entropy)
    in_block = np.array([times[scores == levels[chosen]].sum() for scores, times in blocks])
    block = int(np.searchsorted(np.cumsum(in_block), place, side="right"))
    cells = tables.cells(*spans[block])
    which = np.flatnonzero(score(cells) == levels[chosen])[place - in_block[:block].sum()]
    return np.sort(cells[which])


# --- the measurements ---------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class SmallTable(Measurement):
    """A table of `size` points that answers a workload like the rows do.

    The session's rows must be coded by the workload's domain. Guarantee: sensitivity 1 of the score
    under both relations, eta = epsilon / 2.

    - `candidates` of shape (n_candidates, size): A public list of tables (flat cells) to choose
      from; None for all tables. A table listed twice is twice as likely.
    - returns of shape (size,): Flat cells of the points, ascending.
    - raises ValueError: as `check_small_tables`, before anything is taken from the allowance.
    """

    name: ClassVar[str] = "small table"
    workload: Workload
    size: int
    candidates: Any = None

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Ints:
        workload, size = self.workload, self.size
        rows = coded_rows(table, workload.sizes)
        n_cells = math.prod(workload.sizes)
        tables: AllTables | ListedTables
        if self.candidates is None:
            check_small_tables(n_cells, size, workload.n_queries)
            tables = AllTables(n_cells, size)
        else:
            tables = ListedTables(self.candidates, n_cells, size)
            check_small_tables(n_cells, size, workload.n_queries, len(tables))
        scorer = _Scorer(workload, n_cells, size)
        answers = exact_answers(table, workload).answers
        n = rows._n

        def score(cells: Ints) -> NDArray:
            return scorer.scores(cells, answers, n)

        def draw(eta: Fraction) -> Ints:
            return _choose(tables, score, scorer.step, eta, meter.entropy)

        exact = np.concatenate([np.array([n * workload.one], dtype=answers.dtype), answers])
        return _released_table(
            meter, name, exact, lambda a, b: score_change(a, b, workload.one), draw, size, share
        )


@reviewed
@dataclass(frozen=True, eq=False)
class ThresholdTable(Measurement):
    """A table of `size` grid points whose distribution function is like a column's.

    A value counts as the first grid point that is not below it, or as the last one. Guarantee:
    sensitivity 1 of the score under both relations, eta = epsilon / 2.

    - `grid` of shape (n_cells,): Public, ascending, finite.
    - returns of shape (size,): Positions of the points in the grid, ascending.
    - raises ValueError: as `check_threshold_tables`, before anything is taken from the allowance.
    """

    name: ClassVar[str] = "threshold table"
    grid: Floats
    size: int
    column: int = 0

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Ints:
        grid, size = self.grid, self.size
        check_threshold_tables(grid.size, size)
        check_ascending(grid, "grid")
        if not 0 <= self.column < table.n_features:
            raise ValueError(f"column must be from 0 to {table.n_features - 1}, got {self.column}")

        def add(block: Floats, totals: list[NDArray]) -> None:
            cell = np.searchsorted(grid, block[:, self.column], side="left")
            totals[0] += np.bincount(np.minimum(cell, grid.size - 1), minlength=grid.size)

        (counts,) = table.fold(add, lambda: [np.zeros(grid.size, dtype=np.int64)])

        def draw(eta: Fraction) -> Ints:
            return threshold_table(counts, size, eta, entropy=meter.entropy)

        exact = np.concatenate([[counts.sum()], np.cumsum(counts)])
        return _released_table(
            meter, name, exact, lambda a, b: score_change(a, b, 1), draw, size, share
        )


def _released_table(
    meter: Meter,
    name: str,
    exact: NDArray,
    distance: Callable[[NDArray, NDArray], float],
    draw: Callable[[Fraction], Ints],
    size: int,
    share: Share,
) -> Ints:
    """Take the share, draw a table, and record it."""
    fraction, epsilon = meter.take(share, name)
    # In a Gaussian session `epsilon` is the pure epsilon of the share's mu: see `table_rate`.
    eta = epsilon / 2 if meter.mu is None else epsilon
    chosen = meter.release(name, exact, 1.0, distance, lambda: draw(eta), (size,))
    meter.record(name, _MECHANISM, "rows", 1.0, float(1 / eta), fraction)
    return chosen
