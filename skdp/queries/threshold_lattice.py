"""The exponential mechanism over all small tables, scored by Kolmogorov-Smirnov distance.

A table of `size` = m points on g ordered cells is a lattice path: C_j of its points are in the
first j cells, 0 <= C_1 <= ... <= C_g = m. If A_j of n rows are in these cells, its score is s(C) =
max_j ceil(|A_j - n C_j / m|), and it is drawn with probability proportional to exp(-eta s(C)),
exactly, though there are comb(g + m - 1, m) paths. Method and proof: small_databases.md, "Lattice
paths" and "Levels".

References
----------
L. Wasserman, S. Zhou (2010), "A statistical framework for differential privacy", JASA 105,
section 4 (exponential mechanism under the Kolmogorov-Smirnov distance).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_rational, bits_of, exp_bracket, uniform_below

__all__ = [
    "n_multisets",
    "path_score",
    "threshold_table",
]

Ints = NDArray[np.int64]
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
