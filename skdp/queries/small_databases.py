"""Small tables that answer public queries like the private one: the exponential mechanism.

Released: a table z of `size` = m points, chosen among all tables of m points on public cells (or a
public list of them) with probability proportional to exp(-eta score). The score is the largest
error of a query, in rows and rounded up: max over f of ceil(|F(x) - n f(z)|), F(x) the sum of f
over the n private rows, f(z) its mean over the m points. Distributions are exact: all tables are
scored, or, for thresholds of one ordered column, counted as lattice paths.

Guarantee: the score has sensitivity 1 under both relations, whatever the number of queries. Proofs:
small_databases.md.

References
----------
A. Blum, K. Ligett, A. Roth (2013), "A learning theory approach to noninteractive database privacy",
JACM 60, section 3; C. Dwork, A. Roth (2014), "The algorithmic foundations of differential privacy",
algorithm 4 (SmallDB); L. Wasserman, S. Zhou (2010), "A statistical framework for differential
privacy", JASA 105, section 4 (exponential mechanism under the Kolmogorov-Smirnov distance).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import Floats
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_rational, bits_of, exp_bracket, uniform_below
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import Measurement, check_ascending, reviewed
from skdp.core.table import PrivateTable
from skdp.loss import conversions
from skdp.queries.histograms import MAX_CELLS
from skdp.queries.workloads import Cells, Weighted, Workload, coded_rows, exact_answers, flat_codes
from skdp.tabular.domain import about

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
        return _released_table(meter, name, exact, workload.one, draw, size, share)


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
        return _released_table(meter, name, exact, 1, draw, size, share)


def _released_table(
    meter: Meter,
    name: str,
    exact: NDArray,
    unit_steps: int,
    draw: Callable[[Fraction], Ints],
    size: int,
    share: Share,
) -> Ints:
    """Take the share, draw a table, and record it."""
    fraction, epsilon = meter.take(share, name)
    # In a Gaussian session `epsilon` is the pure epsilon of the share's mu: see `table_rate`.
    eta = epsilon / 2 if meter.mu is None else epsilon
    distance = partial(score_change, unit_steps=unit_steps)
    chosen = meter.release(name, exact, 1.0, distance, lambda: draw(eta), (size,))
    meter.record(name, _MECHANISM, "rows", 1.0, float(1 / eta), fraction)
    return chosen


# --- lattice paths --------------------------------------------------------------------------------
#
# A table of `size` = m points on g ordered cells is a lattice path: C_j of its points are in the
# first j cells, 0 <= C_1 <= ... <= C_g = m. If A_j of n rows are in these cells, its score is
# s(C) = max_j ceil(|A_j - n C_j / m|), a Kolmogorov-Smirnov distance, and it is drawn with
# probability proportional to exp(-eta s(C)), exactly, though there are comb(g + m - 1, m) paths.
# Method and proof: small_databases.md, "Lattice paths" and "Levels".

Brackets = list[tuple[int, int]]  # of weights times 2**bits

_WASTE = 1.0  # rejected paths for each kept one, at most, as far as floats can tell
_MAX_ETA = Fraction(1 << 60)


def n_multisets(n_cells: int, size: int) -> int:
    """Return the number of tables of `size` points on n_cells cells."""
    return math.comb(n_cells + size - 1, size)


def threshold_table(
    counts: NDArray, size: int, eta: Fraction | float, *, entropy: Entropy | None = None
) -> Ints:
    """Draw the ascending cells of `size` points with probability proportional to exp(-eta score).

    Guarantee: exactly distributed, given fair independent bits, for size * n below 2**62; eta > 0
    counts at its exact rational value. `counts` are the rows in each cell; with no rows all scores
    are 0. (2 eta)-DP; the caller charges.
    """
    rate = as_rational(eta, "eta", Fraction(1, 1 << 60), _MAX_ETA)
    source = resolve(entropy)
    paths = _Paths(np.cumsum(np.asarray(counts, dtype=np.int64)), int(size))
    blocks = _blocks(paths, rate)
    room = paths.total.bit_length()
    while True:
        chosen = _invert(lambda bits: _block_weights(blocks, rate, bits), room, source)
        block = blocks[chosen]
        cells = paths.draw(block.last, source)
        above = path_score(paths.below, cells, paths.size) - block.first
        if above <= 0 or _is_kept(block, above, rate, source):
            return cells


def path_score(below: Ints, cells: Ints, size: int) -> int:
    """Return the score of a table: max over j of |A_j - n C_j / size|, rounded up."""
    path = np.cumsum(np.bincount(cells, minlength=below.size))
    worst = int(np.abs(size * below - int(below[-1]) * path).max())
    return -(-worst // size)


# --- choices with real weights ------------------------------------------------------------------


def _block_weights(blocks: Sequence[_Block], rate: Fraction, bits: int) -> Brackets:
    """Return the weights of the blocks, relative to that of one path of the first level."""
    least = blocks[0].first
    edges = [exp_bracket(rate * (block.first - least), bits) for block in blocks]
    edges.append((0, 0))
    return [
        (block.paths * (low - high_after), block.paths * (high - low_after))
        for block, (low, high), (low_after, high_after) in zip(
            blocks, edges[:-1], edges[1:], strict=True
        )
    ]


def _keep_weights(block: _Block, above: int, rate: Fraction, bits: int) -> Brackets:
    """Return the weights of keeping a path and of rejecting it; its score is first level + `above`.

    They are the weights of the block's levels from its score on, and of those before.
    """
    low, high = exp_bracket(rate * above, bits)
    end = (0, 0)
    if block.last is not None:
        end = exp_bracket(rate * (block.last + 1 - block.first), bits)
    return [(low - end[1], high - end[0]), ((1 << bits) - high, (1 << bits) - low)]


def _is_kept(block: _Block, above: int, rate: Fraction, entropy: Entropy) -> bool:
    """Decide whether a path is kept, by `_keep_weights`."""
    return _invert(lambda bits: _keep_weights(block, above, rate, bits), 0, entropy) == 0


def _invert(weights: Callable[[int], Brackets], room: int, entropy: Entropy) -> int:
    """Return i with probability proportional to weight i, known as brackets of any precision.

    The choice is the first i whose cumulative weight exceeds V times the total, V a uniform with
    lazily extended bits: decided when the first i that may be it is the first that must be.
    """
    v, bits = bits_of(entropy, 64), 64
    while True:
        # A weight below 0 is a bracket of one near 0.
        brackets = [(max(low, 0), high) for low, high in weights(bits + room + 64)]
        lows = list(accumulate(low for low, _ in brackets))
        highs = list(accumulate(high for _, high in brackets))
        first = _first_at(highs, v * lows[-1], bits)
        last = _first_at(lows, (v + 1) * highs[-1], bits)
        if first == last:
            return first
        v, bits = (v << 64) | bits_of(entropy, 64), bits + 64


def _first_at(sums: Sequence[int], target: int, bits: int) -> int:
    """Return the first index with sums[index] * 2**bits >= target, or the length."""
    return next((i for i, total in enumerate(sums) if total << bits >= target), len(sums))


def _pick(weights: Sequence[int], entropy: Entropy) -> int:
    """Return i with probability proportional to an integer weight."""
    place = uniform_below(sum(weights), entropy=entropy)
    return next(i for i, total in enumerate(accumulate(weights)) if place < total)


def _uniform_multiset(n_cells: int, size: int, entropy: Entropy) -> list[int]:
    """Return a uniform multiset of `size` of n_cells cells, ascending.

    From a uniform subset of n_cells + size - 1 places (Floyd's algorithm): the i-th less i.
    """
    chosen: set[int] = set()
    for top in range(n_cells - 1, n_cells + size - 1):
        place = uniform_below(top + 1, entropy=entropy)
        chosen.add(top if place in chosen else place)
    return [place - i for i, place in enumerate(sorted(chosen))]


# --- levels -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Block:
    """The levels first to last (None: no end); the number of paths of score at most the last."""

    first: int
    last: int | None
    paths: int


def _blocks(paths: _Paths, rate: Fraction) -> list[_Block]:
    """Cut the levels into blocks such that few paths are rejected; only time depends on the cuts.

    Each cut halves the block that may reject most, or moves the tail to twice its distance.
    """
    least, eta = paths.least, float(rate)
    step = max(1, math.ceil(1 / rate))
    blocks = [_Block(least, least, paths.count(least)), _Block(least + 1, None, paths.total)]
    while True:
        sizes = [
            _logs(block, blocks[i - 1].paths if i else 0, least, eta)
            for i, block in enumerate(blocks)
        ]
        certain = _log_sum([low for low, _ in sizes])
        lost = [gap for _, gap in sizes]
        if _log_sum(lost) <= certain + math.log(_WASTE):
            return blocks
        k = max(range(len(lost)), key=lost.__getitem__)
        block = blocks[k]
        if block.last is None:
            middle = 2 * (block.first - least) + step + least
        else:
            middle = (block.first + block.last - 1) // 2
        blocks[k : k + 1] = [
            _Block(block.first, middle, paths.count(middle)),
            _Block(middle + 1, block.last, block.paths),
        ]


def _logs(block: _Block, before: int, least: int, eta: float) -> tuple[float, float]:
    """Return the logarithms of a block's weight, as far as certain, and of the remaining weight.

    At least the paths of the block before are kept, and all paths of a block of one level.
    """
    weight = -eta * (block.first - least)
    if block.last is not None:
        length = block.last + 1 - block.first
        weight += math.log(-math.expm1(-eta * length))
        if length == 1:
            before = block.paths
    gap = block.paths - before
    return (
        weight + math.log(before) if before else -math.inf,
        weight + math.log(gap) if gap else -math.inf,
    )


def _log_sum(logs: Sequence[float]) -> float:
    """Return the logarithm of a sum of exponentials."""
    top = max(logs)
    return top if top == -math.inf else top + math.log(sum(math.exp(x - top) for x in logs))


# --- paths --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """Consecutive cells with the same window, low to high."""

    start: int
    length: int
    low: int
    high: int


class _Paths:
    """The paths of a table: `total` is their number, `least` their least score.

    `below` are the A_j, the last one n; `size` is m.
    """

    def __init__(self, below: Ints, size: int) -> None:
        self.below, self.size, self.n = below, size, int(below[-1])
        self.total = n_multisets(below.size, size)
        self.least = 0
        if self.n:
            # C_j nearest to m A_j / n rises with j, so the best path is best at every cell.
            remainder = size * below % self.n
            self.least = -(-int(np.minimum(remainder, self.n - remainder).max()) // size)

    def _runs(self, level: int) -> list[_Run]:
        """Return the windows |m A_j - n C_j| <= m level, C_g = m, as runs of cells."""
        below, m, n = self.below, self.size, self.n
        if n:
            reach = min(level, n)
            low = np.clip(-(m * (reach - below) // n), 0, m)
            high = np.clip(m * (below + reach) // n, 0, m)
        else:
            low, high = np.zeros_like(below), np.full_like(below, m)
        low[-1] = high[-1] = m
        change = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0)) + 1
        starts = np.concatenate([[0], change])
        lengths = np.diff(np.append(starts, below.size))
        columns = (starts, lengths, low[starts], high[starts])
        return [_Run(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]

    def count(self, level: int) -> int:
        """Return the number of paths of score at most `level`."""
        if level < self.least:
            return 0
        if level >= self.n:
            return self.total
        ways, low = [1], 0  # of C = low, low + 1, ... after the cells so far: 0 before the first
        for run in self._runs(level):
            ways, low = _along(_into(ways, low, run), run.length - 1), run.low
        return ways[-1]

    def draw(self, level: int | None, entropy: Entropy) -> Ints:
        """Return the cells of a uniform path of score at most `level`; of all paths if None."""
        if level is None or level >= self.n:
            return np.array(_uniform_multiset(self.below.size, self.size, entropy), dtype=np.int64)
        ways, low = [1], 0
        steps: list[tuple[_Run, list[int], int, list[int]]] = []
        for run in self._runs(level):
            entered = _into(ways, low, run)
            steps.append((run, ways, low, entered))
            ways, low = _along(entered, run.length - 1), run.low
        # Backwards: the path is at c after the run; where was it after the first cell of the run,
        # and before it?
        cells: list[int] = []
        c = self.size
        for run, ways, low, entered in reversed(steps):
            if run.length > 1:
                jumps = range(c - run.low + 1)
                further = _pick([entered[c - run.low - i] * n_multisets(run.length - 1, i)
                                 for i in jumps], entropy)  # fmt: skip
                inside = _uniform_multiset(run.length - 1, further, entropy)
                cells += [run.start + 1 + place for place in inside]
                c -= further
            before = low + _pick(ways[: c - low + 1], entropy)
            cells += [run.start] * (c - before)
            c = before
        return np.sort(np.array(cells, dtype=np.int64))


def _into(ways: list[int], low: int, run: _Run) -> list[int]:
    """Return the numbers of ways to be at run.low, ..., run.high after the run's first cell."""
    sums = list(accumulate(ways))
    entered = sums[run.low - low :]
    return entered + [sums[-1]] * (run.high - run.low + 1 - len(entered))


def _along(ways: list[int], cells: int) -> list[int]:
    """Return the numbers of ways after more cells with the same window."""
    width = len(ways)
    if width == 1 or not cells:
        return ways
    if 2 * cells <= width:
        for _ in range(cells):
            ways = list(accumulate(ways))
        return ways
    factors = [n_multisets(cells, i) for i in range(width)]
    return [sum(map(int.__mul__, ways[: c + 1], factors[c::-1])) for c in range(width)]
