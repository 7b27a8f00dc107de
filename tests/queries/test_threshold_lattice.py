"""Small tables by lattice paths: exact counts, exact distributions, whatever the levels."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.core.noise import SeededEntropy
from skdp.queries import small_databases as lattice
from skdp.queries.small_databases import n_multisets, threshold_table
from tests.queries.test_quantile_distributions import is_like


def oracle_scores(counts, size):
    """Return the score of every table, by fractions, one cell and one table at a time."""
    n, g = sum(counts), len(counts)
    scores = {}
    for table in itertools.combinations_with_replacement(range(g), size):
        errors = [
            abs(sum(counts[: j + 1]) - Fraction(n * sum(c <= j for c in table), size))
            for j in range(g)
        ]
        scores[table] = math.ceil(max(errors))
    return scores


def oracle(counts, size, eta):
    """Return the probability of every table, to 40 digits."""
    scores = oracle_scores(counts, size)
    with mpmath.workdps(40):
        weights = {z: mpmath.exp(-mpmath.mpf(eta) * s) for z, s in scores.items()}
        total = mpmath.fsum(weights.values())
        return {z: w / total for z, w in weights.items()}


small = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(counts=small, size=st.integers(1, 4))
def test_paths_are_counted(counts, size):
    paths = lattice._Paths(np.cumsum(counts), size)
    scores = list(oracle_scores(counts, size).values())
    assert paths.total == len(scores) == n_multisets(len(counts), size)
    assert paths.least == min(scores)
    for level in range(sum(counts) + 2):
        assert paths.count(level) == sum(s <= level for s in scores)


def one_cell_at_a_time(paths, level):
    """Count paths by the plain recursion over cells."""
    m, n, below = paths.size, paths.n, paths.below.tolist()
    ways = {0: 1}
    for j, a in enumerate(below):
        sums, after = list(itertools.accumulate(ways.get(c, 0) for c in range(m + 1))), {}
        for c in range(m + 1):
            inside = c == m if j == len(below) - 1 else abs(m * a - n * c) <= m * level
            if inside:
                after[c] = sums[c]
        ways = after
    return ways.get(m, 0)


@pytest.mark.parametrize(("n", "g", "size"), [(300, 4000, 12), (6, 2000, 9), (50, 3000, 20)])
def test_long_runs_are_counted(n, g, size):
    # Runs of cells with one window are taken in one step where they are longer than it is wide.
    rng = np.random.default_rng(n)
    counts = np.bincount((g * rng.random(n) ** 2).astype(int), minlength=g)
    paths = lattice._Paths(np.cumsum(counts), size)
    assert any(run.length > run.high - run.low > 1 for run in paths._runs(paths.least + n // 5))
    for level in [max(paths.least - 1, 0), *(paths.least + k * n // 20 for k in range(8))]:
        assert paths.count(level) == one_cell_at_a_time(paths, level)
        assert paths.count(level) == 0 or level >= paths.least


class Enumerated:
    """Every outcome of `uniform_below`, in turn: a tree of choices, each branch equally likely."""

    def __init__(self):
        self.script, self.sizes = [], []

    def __call__(self, n, *, entropy=None):
        if len(self.sizes) == len(self.script):
            self.script.append(0)
        self.sizes.append(n)
        return self.script[len(self.sizes) - 1]

    def outcomes(self, function):
        """Return the exact probability of each result of a function of `uniform_below`."""
        found = {}
        while True:
            self.sizes = []
            result = function()
            weight = Fraction(1, math.prod(self.sizes))
            found[result] = found.get(result, 0) + weight
            while self.script and self.script[-1] == self.sizes[len(self.script) - 1] - 1:
                self.script.pop()
            if not self.script:
                return found
            self.script[-1] += 1


def test_multisets_are_uniform(monkeypatch):
    for n_cells, size in [(1, 3), (2, 3), (3, 2), (4, 3), (5, 1), (3, 0)]:
        tree = Enumerated()
        monkeypatch.setattr(lattice, "uniform_below", tree)
        found = tree.outcomes(
            lambda k=n_cells, m=size: tuple(lattice._uniform_multiset(k, m, None))
        )
        assert set(found) == set(itertools.combinations_with_replacement(range(n_cells), size))
        assert set(found.values()) == {Fraction(1, n_multisets(n_cells, size))}


@pytest.mark.parametrize(
    ("counts", "size"),
    [([2, 0, 1, 3], 2), ([0, 0, 4, 0, 0], 2), ([1, 1, 1, 1], 3), ([0, 0, 0], 2), ([7], 3)],
)
def test_paths_are_uniform(monkeypatch, counts, size):
    paths = lattice._Paths(np.cumsum(counts), size)
    scores = oracle_scores(counts, size)
    for level in [*range(paths.least, sum(counts)), None]:
        tree = Enumerated()
        monkeypatch.setattr(lattice, "uniform_below", tree)
        found = tree.outcomes(lambda r=level: tuple(paths.draw(r, None).tolist()))
        allowed = {z for z, s in scores.items() if level is None or s <= level}
        assert set(found) == allowed
        assert set(found.values()) == {Fraction(1, len(allowed))}


def as_numbers(brackets, bits):
    """Return brackets as numbers to 40 digits, checking that they are brackets."""
    assert all(high - low >= 0 for low, high in brackets)
    return [mpmath.mpf(low + high) / 2 / mpmath.mpf(2) ** bits for low, high in brackets]


def implied(paths, blocks, eta, scores, bits=400):
    """Return the distribution of what is kept, by the weights that the sampler inverts."""
    weights = as_numbers(lattice._block_weights(blocks, eta, bits), bits)
    kept = dict.fromkeys(scores, mpmath.mpf(0))
    for block, weight in zip(blocks, weights, strict=True):
        assert block.paths == sum(block.last is None or s <= block.last for s in scores.values())
        for table, score in scores.items():
            if block.last is not None and score > block.last:
                continue
            above = score - block.first
            yes, no = 1, 0
            if above > 0:
                yes, no = as_numbers(lattice._keep_weights(block, above, eta, bits), bits)
            kept[table] += weight / block.paths * yes / (yes + no)
    total = mpmath.fsum(kept.values())
    return {table: weight / total for table, weight in kept.items()}, total / mpmath.fsum(weights)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    counts=small,
    size=st.integers(1, 4),
    eta=st.sampled_from(
        [Fraction(1, 100), Fraction(1, 3), Fraction(1, 2), Fraction(3), Fraction(40)]
    ),
    cuts=st.lists(st.integers(0, 12), max_size=4, unique=True),
)
def test_the_distribution_is_exact(counts, size, eta, cuts):
    paths = lattice._Paths(np.cumsum(counts), size)
    with mpmath.workdps(40):
        scores, ideal = oracle_scores(counts, size), oracle(counts, size, eta)
        found, kept = implied(paths, lattice._blocks(paths, eta), eta, scores)
        assert max(abs(found[z] - p) for z, p in ideal.items()) < 1e-30
        assert kept > 0.4  # of the paths that are drawn; not all of it is exact in floats
        # Any other blocks, good or bad, give the same.
        ends = [*(paths.least + c for c in sorted(cuts)), None]
        starts = [paths.least] + [end + 1 for end in ends[:-1]]
        blocks = [
            lattice._Block(a, b, paths.total if b is None else paths.count(b))
            for a, b in zip(starts, ends, strict=True)
        ]
        found, _ = implied(paths, blocks, eta, scores)
        assert max(abs(found[z] - p) for z, p in ideal.items()) < 1e-30


class Bits:
    """A stream of given words, then of one word for ever."""

    def __init__(self, *words):
        self.left, self.last = list(words), words[-1]

    def bytes(self, n):
        assert n == 8
        return (self.left.pop(0) if self.left else self.last).to_bytes(8, "little")


def test_inversion_at_a_boundary():
    # V is 1/2 and a little, or a little less: about the boundary of two equal weights.
    half, ones = 1 << 63, (1 << 64) - 1
    equal = lambda bits: [(1 << bits, 1 << bits)] * 2  # noqa: E731
    assert lattice._invert(equal, 0, Bits(half, 0, 1)) == 1
    assert lattice._invert(equal, 0, Bits(half - 1, ones, 0)) == 0
    # Weights known to a unit in 2**bits: more bits are drawn until there is no doubt.
    loose = lambda bits: [((1 << bits) - 3, (1 << bits) + 3)] * 2  # noqa: E731
    assert lattice._invert(loose, 0, Bits(half, 0, 0, 0, 1)) == 1
    assert lattice._invert(loose, 0, Bits(half - 1, ones, ones, ones - 1)) == 0


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("counts", "size"), [([3, 0, 9, 1, 4], 3), ([40, 10, 50], 4), ([0, 7, 0, 0, 0, 0], 2)]
)
def test_draws_are_exactly_distributed(counts, size):
    eta, runs = Fraction(1, 2), 2000
    entropy = SeededEntropy(3)
    tables = list(oracle_scores(counts, size))
    number = {table: i for i, table in enumerate(tables)}
    drawn = np.zeros(len(tables), dtype=int)
    for _ in range(runs):
        cells = threshold_table(np.array(counts), size, eta, entropy=entropy)
        drawn[number[tuple(cells.tolist())]] += 1

    def ideal(rate):
        return np.array([float(p) for p in oracle(counts, size, rate).values()])

    assert is_like(drawn, ideal(eta))
    assert not is_like(drawn, ideal(eta * 2 / 3))
    assert not is_like(drawn, ideal(eta * 3 / 2))


def test_no_rows_give_a_uniform_table():
    paths = lattice._Paths(np.cumsum([0, 0, 0, 0]), 3)
    assert paths.least == 0
    assert paths.count(0) == paths.total == 20
    assert len(threshold_table(np.zeros(4, dtype=np.int64), 3, 1.0)) == 3


@pytest.mark.parametrize("n", [0, 1, 1000, 100_000])
def test_the_size_of_a_real_column(n):
    # 1,000 cells, 50 points, epsilon = 1: a fraction of a second.
    x = np.random.default_rng(0).beta(2, 5, n)
    counts = np.bincount((1000 * x).astype(int), minlength=1000)
    below = np.cumsum(counts)
    cells = threshold_table(counts, 50, Fraction(1, 2), entropy=SeededEntropy(0))
    assert cells.shape == (50,)
    assert np.all(np.diff(cells) >= 0)
    least = lattice._Paths(below, 50).least
    # The theorem: further than this above the least score with probability below 1e-9.
    slack = 2 * math.log(n_multisets(1000, 50) * 1e9)
    assert least <= lattice.path_score(below, cells, 50) <= least + slack


def test_rates_beyond_floats():
    counts = np.array([10, 0, 30, 5])
    for eta in (Fraction(1, 10**15), Fraction(10**15)):
        cells = threshold_table(counts, 3, eta)
        assert cells.shape == (3,)
    assert (
        lattice.path_score(np.cumsum(counts), cells, 3)
        == lattice._Paths(np.cumsum(counts), 3).least
    )
