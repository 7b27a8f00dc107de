"""Quantiles: exact distributions of what is chosen, and the range of their losses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2
from scipy.stats import norm as normal

from skdp.budget import gdp_mu, pure_mu
from skdp.loss import conversions
from skdp.queries import ranked_columns
from tests.folding import each
from tests.queries.ranks import PAIR, A, ask, open_session, oracle_scores

RELATIONS = ("replace_one", "add_or_remove_one")

ALPHA = 1e-6  # false-alarm rate of each chi-square test


# --- exact distributions ------------------------------------------------------------------------


def oracle(values, candidates, level, rate):
    """Return the probabilities of candidates under exp(-rate * distance in ranks)."""
    scores = oracle_scores(values, candidates, level, len(values))
    weights = np.exp([-rate * float(s) for s in scores])
    return weights / weights.sum()


def is_like(counts, probabilities):
    """Say whether counts are those of draws with these probabilities, by chi-square at ALPHA."""
    expected = counts.sum() * probabilities
    order = np.argsort(expected)
    # Cells of fewer than ten expected draws are put together.
    small = np.cumsum(expected[order]) < 10
    groups = [order[small], *([i] for i in order[~small])]
    seen = np.array([counts[list(g)].sum() for g in groups if len(g)])
    hoped = np.array([expected[list(g)].sum() for g in groups if len(g)])
    keep = hoped > 0
    if seen[~keep].sum():
        return False
    statistic = ((seen[keep] - hoped[keep]) ** 2 / hoped[keep]).sum()
    return bool(chi2.sf(statistic, keep.sum() - 1) > ALPHA)


def drawn(x, adjacency, levels, runs, size, **options):
    """Return how often each tuple of candidates 0 .. size - 1 is released."""
    epsilon, delta = options.pop("epsilon", 1.0), options.pop("delta", 0.0)
    counts = np.zeros((size,) * np.size(levels), dtype=int)
    session = open_session(x, adjacency, epsilon=epsilon, delta=delta, random_state=0)
    for _ in range(runs):
        session._meter._shares.spent = Fraction(0)  # time and again
        counts[tuple(ask(session, levels, step=1.0, **options)[0].astype(int))] += 1
    return counts.ravel()


MEDIAN_RATES = {  # per rank, at epsilon = 3: epsilon / (2 max(q, 1 - q)) (A), epsilon / 2 (R)
    (0.5, A): 3.0,
    (0.5, "replace_one"): 1.5,
    (0.2, A): 3.0 / 1.6,
    (0.2, "replace_one"): 1.5,
}


@pytest.mark.statistical
@pytest.mark.parametrize(("q", "adjacency"), MEDIAN_RATES)
@pytest.mark.parametrize("x", [PAIR[0], PAIR[1], [1.2, 4.6, 4.9, 7.0, 99.0], []])
def test_one_level_is_exactly_distributed(q, adjacency, x):
    tells = len(x) == 7 and q == 0.5  # a wrong rate, which takes more draws
    counts = drawn(x, adjacency, q, 2500 if tells else 1000, 7, epsilon=3.0)
    values = [min(max(round(v), 0), 6) for v in x]
    level, rate = Fraction(str(q)), MEDIAN_RATES[q, adjacency]
    assert is_like(counts, oracle(values, range(7), level, rate))
    if tells:
        assert not is_like(counts, oracle(values, range(7), level, rate * 2 / 3))
        assert not is_like(counts, oracle(values, range(7), level, rate * 3 / 2))


@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_gaussian_session_has_twice_the_range(adjacency):
    mu = gdp_mu(2.0, 1e-3)
    rate = 2 * conversions.pure_epsilon_from_mu(mu) / (1 if adjacency == A else 2)
    counts = drawn(PAIR[0], adjacency, 0.5, 2500, 7, epsilon=2.0, delta=1e-3)
    exact = oracle(PAIR[0], range(7), Fraction(1, 2), rate)
    assert is_like(counts, exact)
    for wrong in (2 / 3, 3 / 2):
        assert not is_like(counts, oracle(PAIR[0], range(7), Fraction(1, 2), wrong * rate))


def two_levels(values, size, first, second, rates):
    """Return the probabilities of pairs: the first level by brute force over all places."""
    places = 2**ranked_columns.SPREAD_BITS
    spread = []
    for point in sorted(set(values)):
        for j in range(1, values.count(point) + 1):
            place = int(f"{j:0{ranked_columns.SPREAD_BITS}b}"[::-1], 2)
            spread.append(point * places + place)
    spread = np.sort(spread)
    at = np.arange(size * places)
    below = np.searchsorted(spread, at)
    up_to = np.searchsorted(spread, at, side="right")
    target = float(first * len(values))
    weights = np.exp(-rates[0] * np.maximum(np.maximum(below - target, target - up_to), 0))
    weights /= weights.sum()
    table = np.zeros((size, size))
    for cut, point in set(zip(below.tolist(), (at // places).tolist(), strict=True)):
        mass = weights[(below == cut) & (at // places == point)].sum()
        rest = [int(v) // places for v in spread[cut:]]
        table[point, point:] += mass * oracle(rest, range(point, size), second, rates[1])
    return table.ravel()


@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_two_levels_are_exactly_distributed(adjacency):
    x = [0, 0, 1, 1, 1, 1, 1, 1, 2, 3]
    # Round 0 has level 1/2; round 1 has level (0.75 - 0.5) / (1 - 0.5), alone: half of epsilon.
    rate = 4.0 / 2 / (1 if adjacency == A else 2)
    counts = drawn(x, adjacency, (0.5, 0.75), 3000, 4, epsilon=4.0, high=3.0)
    half = Fraction(1, 2)
    assert is_like(counts, two_levels(x, 4, half, half, (rate, rate)))
    assert not is_like(counts, two_levels(x, 4, half, half, (rate * 1.5, rate)))
    assert not is_like(counts, two_levels(x, 4, half, half, (rate, rate * 2 / 3)))


# --- bounded range --------------------------------------------------------------------------------


def kinks(epsilon, t):
    """Return the errors of the best test between two points whose losses are t and t - epsilon."""
    return math.expm1(t) / math.expm1(epsilon), math.expm1(epsilon - t) / math.expm1(epsilon)


@each("epsilon", [1e-3, 0.1, 1.0, 3.0, 10.0, 30.0])
def test_a_range_of_epsilon_is_gaussian_private_like_half_of_epsilon(epsilon):
    bound = pure_mu(epsilon / 2)
    found = []
    for t in np.linspace(0, epsilon, 401)[1:-1]:
        type_1, type_2 = kinks(epsilon, t)
        found.append(normal.isf(type_1) - normal.ppf(type_2))
    assert max(found) <= bound * (1 + 1e-9)
    assert found[200 - 1] == pytest.approx(bound, rel=1e-9)  # t = epsilon / 2


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 4.0])
def test_the_exponential_mechanism_is_within_its_gaussian_claim(mu):
    """All tests between two tables, of the mechanism itself: the trade-off stays above G_mu."""
    eta = conversions.pure_epsilon_from_mu(mu)  # per rank, R: a range of 2 ranks
    for x, other in (([1, 2, 4, 5], [1, 2, 4, 0]), (PAIR[0], PAIR[1]), ([3, 3, 3], [3, 3, 0])):
        p, q = (oracle(list(v), range(7), Fraction(1, 2), eta) for v in (x, other))
        order = np.argsort(q / p)
        type_1 = 1 - np.cumsum(p[order][::-1])
        type_2 = np.cumsum(q[order][::-1])
        for a, b in zip(type_1[:-1], type_2[:-1], strict=True):
            assert normal.isf(a) - normal.ppf(b) <= mu * (1 + 1e-6) + 1e-9
