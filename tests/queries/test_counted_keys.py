"""Keys with their counts by one noise: exact privacy losses, sensitivities, intervals, goals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from skdp.aggregation._intervals import selected_interval
from skdp.budget import PrivacyBudget
from skdp.core import open_session
from skdp.core.transcript import record
from skdp.queries import CountedKeys
from skdp.queries import key_selection as selection
from skdp.tabular.contributions import Bucket, Contributions
from tests.folding import each

RELATIONS = ("add_or_remove_one", "replace_one")
ALPHA = 1e-7  # of a statistical test, for all that it looks at


def table(baskets, n_names):
    """Return units with these rows: a list of keys for each unit, a row each."""
    units = np.repeat(np.arange(len(baskets)), [len(one) for one in baskets])
    keys = np.array([key for one in baskets for key in one], dtype=np.int64)
    bucket = Bucket.of_rows(units, keys, np.arange(len(baskets), dtype=np.uint64), {})
    rows = Contributions(lambda: [bucket], list(range(n_names)), 0)
    rows.secret = 5
    return rows


def count(rows, query, *, epsilon=1.0, delta=0.0, apart=0.1, relation=RELATIONS[0]):
    budget = PrivacyBudget(epsilon, 0.9, adjacency=relation, unit="unit")
    with open_session(
        rows, estimator="test", epsilon=epsilon, delta=delta, separate_delta=apart, budget=budget
    ) as session:
        return session.answer(query), session.certificate()


# --- what the law loses, exactly ------------------------------------------------------------------


def noise_of(scale, bound):
    """Return the probabilities of bounded discrete Laplace noise, of -bound to bound."""
    weights = np.exp(-np.abs(np.arange(-bound, bound + 1)) / float(scale))
    return weights / weights.sum()


def shown(count, scale, threshold, width):
    """Return the law of one key: not shown first, then each count from the threshold."""
    noisy = count + np.arange(1 - threshold, threshold)
    out = np.zeros(width)
    for value, probability in zip(noisy, noise_of(scale, threshold - 1), strict=True):
        out[max(value - threshold + 1, 0)] += probability
    return out


def loss(pairs, scale, threshold, epsilon):
    """Return the least delta for counts (before, after) of some keys, by their joint laws."""
    width = 2 * threshold + max(map(max, pairs)) + 1
    before, after = np.ones(1), np.ones(1)
    for a, b in pairs:
        before = np.multiply.outer(before, shown(a, scale, threshold, width)).ravel()
        after = np.multiply.outer(after, shown(b, scale, threshold, width)).ravel()
    return float(np.maximum(before - math.exp(epsilon) * (1 + 1e-12) * after, 0).sum())


def worst_loss(max_keys, rows, epsilon, delta, relation):
    """Return the largest loss over counts of other units, low and high."""
    replaced = relation == "replace_one"
    scale, threshold = selection.counting_law(
        max_keys, rows, epsilon, delta, pure=True, replace=replaced
    )
    most = 0.0
    for others in (0, 1, threshold - 1, 3 * threshold):
        pairs = [(others + rows, others)] * max_keys
        pairs += [(others, others + rows)] * (max_keys if replaced else 0)
        for both in (pairs, [pair[::-1] for pair in pairs]):
            most = max(most, loss(both, scale, threshold, epsilon))
    return most


@each("relation", RELATIONS)
@each(("max_keys", "rows"), [(1, 1), (1, 3), (2, 1)])
def test_counts_lose_epsilon_and_delta_and_no_less(max_keys, rows, relation):
    """No delta is exceeded, and some are used up by more than 0.97 (thresholds are integers)."""
    if max_keys == 2 and relation == "replace_one":
        epsilon, deltas = 8.0, np.geomspace(0.002, 0.02, 12)  # four keys: few counts each
    else:
        epsilon, deltas = 1.0 * max_keys, np.geomspace(0.005, 0.05, 12)
    used = [worst_loss(max_keys, rows, epsilon, d, relation) / d for d in deltas]
    assert max(used) <= 1 + 1e-9
    assert max(used) > 0.8


@each("rows", [1, 7, 2**14])
@each("keys", [1, 6, 2**15])
@each("delta", [Fraction(1, 10**30), Fraction(1, 10**6), Fraction(1, 3)])
@each("scale", [Fraction(1, 50), Fraction(7, 2), Fraction(10**9 + 7, 3)])
def test_bounds_are_certified_and_the_least(scale, delta, keys, rows):
    bound = selection.largest_noise(scale, rows, keys, delta)

    def outside(b):
        """Return log of keys * P(b - rows < X <= b), in floats."""
        rate = 1 / float(scale)
        above = -rate * (b - rows + 1) + math.log(-math.expm1(-rate * rows))
        return math.log(keys) + above - math.log1p(math.exp(-rate) - 2 * math.exp(-rate * (b + 1)))

    assert bound >= rows
    assert keys * selection._outside(bound, scale, rows, 200) <= delta
    assert outside(bound) <= math.log(delta) + 1e-6
    assert bound == rows or outside(bound - 2) > math.log(delta) - 1e-6


@pytest.mark.statistical
@each(("scale", "bound"), [(Fraction(1, 2), 2), (Fraction(3), 4), (Fraction(40), 3)])
def test_bounded_noise_has_its_law(scale, bound):
    n = 200_000
    drawn = selection._bounded_laplace(scale, bound, n, None)
    counts = np.bincount(drawn + bound, minlength=2 * bound + 1)
    law = noise_of(scale, bound)
    assert counts.size == law.size
    each = ALPHA / law.size
    assert (counts >= binom.ppf(each, n, law)).all()
    assert (counts <= binom.ppf(1 - each, n, law)).all()


@each("relation", RELATIONS)
@each(("max_keys", "rows"), [(1, 1), (4, 3)])
def test_the_gaussian_law_is_that_of_the_sensitivity(max_keys, rows, relation):
    units = 2 if relation == "replace_one" else 1
    mu, delta = 0.7, 1e-3
    sigma, threshold = selection.counting_law(
        max_keys, rows, mu, delta, pure=False, replace=units == 2
    )
    assert sigma == pytest.approx(rows * math.sqrt(units * max_keys) / mu, rel=1e-6)
    hidden = norm.cdf((threshold - 0.5 - rows) / sigma) ** max_keys
    assert 1 - hidden <= delta / units
    assert 1 - norm.cdf((threshold - 2.5 - rows) / sigma) ** max_keys > delta / units


# --- what is counted ------------------------------------------------------------------------------


@each("relation", RELATIONS)
@each("delta", [0.0, 0.05])
@each(("max_keys", "rows"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_a_unit_moves_what_is_declared_and_no_more(max_keys, rows, delta, relation):
    """One unit of many rows leaves, or is another one; with keys of its own it moves all of it."""
    rng = np.random.default_rng(4)
    furthest = 0.0
    own = [list(range(10, 40)) * 20, list(range(40, 70)) * 20]
    for i in range(20):
        others = [rng.choice(12, rng.integers(1, 9)).tolist() for _ in range(5)]
        loud = own[0] if i == 0 else rng.choice(30, rng.integers(1, 200)).tolist()
        quiet = own[1] if i == 0 else rng.choice(30, rng.integers(1, 200)).tolist()
        entries = []
        for baskets in ([*others, loud], [*others, quiet] if relation == "replace_one" else others):
            with record() as transcript:
                query = CountedKeys(max_keys, rows)
                count(table(baskets, 70), query, delta=delta, relation=relation)
            entries += transcript.entries
        first, second = entries
        assert first.sensitivity == second.sensitivity
        moved = first.distance(first.exact, second.exact) / first.sensitivity
        assert moved <= 1
        furthest = max(furthest, moved)
    assert furthest > 1 - 1e-12


@pytest.mark.statistical
@each("relation", RELATIONS)
@each("delta", [0.0, 0.05])
@each(("max_keys", "rows"), [(1, 1), (8, 2)])
def test_a_key_of_one_unit_shows_no_more_often_than_delta(max_keys, rows, delta, relation):
    runs, limit = 300, 0.2 / (2 if relation == "replace_one" else 1)
    lonely = table([list(range(max_keys)) * rows], max_keys)
    query = CountedKeys(max_keys, rows)
    seen = 0
    for _ in range(runs):
        found, _ = count(lonely, query, delta=delta, apart=0.2, relation=relation)
        seen += bool(found.keys)
    assert seen <= binom.ppf(1 - ALPHA, runs, limit)


def test_the_certificate_has_the_share_and_the_delta():
    found, certificate = count(table([[0]] * 500, 1), CountedKeys(1), apart=1e-6)
    assert found.keys == [0] and abs(found.counts[0] - 500) < 40
    (one,) = certificate.releases
    assert one.epsilon <= 1 and one.delta == 1e-6 and one.sensitivity == 1 and one.scale == 1.0
    assert one.mechanism == "truncated Laplace, threshold"


def test_what_is_refused():
    rows = table([[0]], 1)
    with pytest.raises(ValueError, match="delta of their own"):
        count(rows, CountedKeys(1), apart=0.0)
    for query in (CountedKeys(0), CountedKeys(1, 0), CountedKeys(2**15), CountedKeys(1, 2**15)):
        with pytest.raises(ValueError, match="max_"):
            count(rows, query)


# --- intervals ------------------------------------------------------------------------------------


def covered(c, threshold, noisy, law, low, high):
    """Return the probability that the interval of a count contains it, given that it shows."""
    visible = law[noisy >= threshold]
    held = (low[noisy[noisy >= threshold]] <= c) & (c <= high[noisy[noisy >= threshold]])
    return float(visible[held].sum() / visible.sum())


@each("level", [0.5, 0.95, 0.99])
@each("pure", [True, False])
@each("size", [1.0, 4.0, 30.0])
def test_intervals_hold_given_that_a_count_shows(size, pure, level):
    """For counts from 1 to far above the threshold, by exact sums over the noise; and not idly."""
    if pure:
        threshold = selection.largest_noise(Fraction(size), 1, 1, Fraction(1, 10**6)) + 1
        reach = threshold - 1
        law = noise_of(size, reach)
    else:
        threshold, reach = math.ceil(1 + 4.9 * size), math.ceil(7 * size)
        ends = np.arange(-reach, reach + 2) - 0.5
        law = np.diff(norm.cdf(ends / size))
    top = 3 * threshold
    values = np.arange(threshold, top + reach + 1, dtype=float)
    low, high = np.zeros(top + reach + 1), np.zeros(top + reach + 1)
    low[threshold:], high[threshold:] = selected_interval(
        values, size, threshold, pure=pure, level=level
    )
    assert (low[threshold:] >= 1).all() and (np.diff(low[threshold:]) >= 0).all()
    step = max(1, top // 60)
    for c in range(1, top, step):
        noisy = c + np.arange(-reach, reach + 1)
        assert covered(c, threshold, noisy, law, low, high) >= level - 1e-9
    far = covered(top, threshold, top + np.arange(-reach, reach + 1), law, low, high)
    assert far <= level + (0.5 if size < 4 else 0.15)


def test_intervals_that_ignore_the_selection_do_not_hold():
    """The planted bug: a count of 8 shows seldom, and then its noise is large."""
    threshold, law = 15, noise_of(1.0, 14)
    values = np.arange(60, dtype=float)
    noisy = 8 + np.arange(-14, 15)
    assert covered(8, threshold, noisy, law, values - 3, values + 3) == 0.0
