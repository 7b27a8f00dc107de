"""Sparse vector: its output distribution by summation, its epsilon, what wrong variants lose."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from skdp.budget import PrivacyBudget
from skdp.core import noise as sampling
from skdp.core import open_session
from skdp.core.transcript import record, replay
from skdp.exceptions import PrivacyLeakError, SeededNoiseWarning
from skdp.loss.conversions import pure_epsilon_from_mu
from skdp.queries import (
    Cells,
    MarginalCells,
    SparseVector,
    Weighted,
    Workload,
    row_counts,
    workload_answer,
)
from skdp.queries.workloads import comparison_margin, threshold_scales
from skdp.tabular import Domain, check_coded
from tests.folding import each

# --- the distribution, by summation -------------------------------------------------------------


def laplace(scale, width):
    """Return support and probabilities of discrete Laplace noise, but for tails below 1e-17."""
    k = np.arange(-width, width + 1)
    q = math.exp(-1 / scale)
    return k, (1 - q) / (1 + q) * q ** np.abs(k)


def at_least(scale, k):
    """Return P(L >= k)."""
    q = math.exp(-1 / scale)
    k = np.asarray(k, dtype=float)
    return np.where(
        k >= 1, q ** np.maximum(k, 1) / (1 + q), 1 - q ** (1 - np.minimum(k, 0)) / (1 + q)
    )


def below(scale, k):
    """Return P(L < k) = P(L >= 1 - k), small ones without cancellation."""
    return at_least(scale, 1 - np.asarray(k))


def probability(transcript, scores, threshold, rho_scale, nu_scale):
    """Return the probability of a transcript of bits; rho_scale 0 stands for no noise."""
    rho, weight = (np.zeros(1), np.ones(1))
    if rho_scale:
        rho, weight = laplace(rho_scale, math.ceil(40 * rho_scale))
    for bit, score in zip(transcript, scores, strict=True):
        gap = threshold + rho - score
        weight = weight * (at_least(nu_scale, gap) if bit else below(nu_scale, gap))
    return float(weight.sum())


def transcripts(k, c):
    """Return all transcripts of k queries, which stop with the c-th positive bit."""
    found = set()
    for bits in itertools.product((0, 1), repeat=k):
        places = [i for i, bit in enumerate(bits) if bit]
        found.add(bits[: places[c - 1] + 1] if len(places) >= c else bits)
    return sorted(found)


@each("c", [1, 2, 3])
@each("epsilon", [0.5, 3.0])
def test_epsilon_holds_for_all_neighbouring_scores(c, epsilon):
    """Scores that move by -1, 0 or 1 each: all transcripts of four queries, by summation."""
    rho, nu = (float(s) for s in threshold_scales(c, epsilon))
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(20):
        scores = rng.integers(0, 12, size=4)
        moved = scores + rng.integers(-1, 2, size=4)
        total = 0.0
        for bits in transcripts(4, c):
            p, q = (probability(bits, s[: len(bits)], 5, rho, nu) for s in (scores, moved))
            total += p
            largest = max(largest, abs(math.log(p / q)))
        assert total == pytest.approx(1.0)
    assert largest <= epsilon + 1e-9
    assert largest > epsilon / 6  # the check has something to see


def loss(moves, threshold, rho, nu, k, c):
    """Return the log-ratio of k - c negative bits, then c positive ones, scores 0 and `moves`."""
    bits = [0] * (k - c) + [1] * c
    there = [moves[bit] for bit in bits]
    p, q = (probability(bits, s, threshold, rho, nu) for s in ([0] * k, there))
    return math.log(p / q)


WORST = {0: 1, 1: -1}  # negative bits become less likely, and positive ones too


def test_the_constants_are_needed():
    """On one bad pair the right mechanism loses nearly epsilon; two known-wrong ones lose more."""
    epsilon, c, k = 1.0, 2, 300
    rho, nu = (float(s) for s in threshold_scales(c, epsilon))
    right = max(loss(WORST, t, rho, nu, k, c) for t in (10, 20, 30))
    assert 0.6 * epsilon < right <= epsilon + 1e-9
    no_threshold_noise = max(loss(WORST, t, 0.0, nu, k, c) for t in (0, 10, 20))
    assert no_threshold_noise > 1.5 * epsilon
    # Noise for c answers that move by 1, not by 2 against the threshold's: the scale is halved.
    half = max(loss(WORST, t, rho, nu / 2, k, c) for t in (5, 10, 15, 20, 30))
    assert half > 1.05 * epsilon


def test_noise_used_twice_tells_two_scores_apart():
    """One nu for all queries: "the first is below, the second above" has probability 0 or not."""

    def shared(first, second, scale=5.0):
        z, weight = laplace(scale, 300)
        return float(weight[(first + z < 3) & (second + z >= 3)].sum())

    assert shared(2, 2) == 0.0
    assert shared(1, 3) > 0.1


# --- the measurement ------------------------------------------------------------------------------

DOMAIN = Domain([4])
WORK = Workload(DOMAIN.sizes, [Cells((0,))])


def table(counts):
    return np.repeat(np.arange(4), counts)[:, None]


def opened(counts=(5, 3, 2, 0), *, seed=None, **options):
    rows = check_coded(table(counts), DOMAIN, estimator="Test", allow_empty=True)
    return open_session(rows, estimator="Test", random_state=seed, **{"epsilon": 2.0, **options})


def answer(query):
    return workload_answer(WORK, query)


def test_scales_are_exact_and_add_up():
    for c, epsilon in ((1, Fraction(1, 10)), (7, Fraction(3)), (1000, Fraction(1, 3))):
        rho, nu = threshold_scales(c, epsilon, 5)
        first, second = 5 / rho, 2 * c * 5 / nu
        assert first + second == epsilon
        assert second / first == pytest.approx((2 * c) ** (2 / 3), rel=1e-3)
    with pytest.raises(ValueError, match="max_above = 1000000"):
        threshold_scales(10**6, 1e-6, 2**20)
    with pytest.raises(ValueError, match="max_above"):
        threshold_scales(0, 1.0)


@pytest.mark.statistical
@pytest.mark.parametrize("one", [1, 4])
def test_bits_have_the_stated_distribution(one):
    """Chi-square over the transcripts of three queries; false alarms 1e-6 each, seed fixed."""
    public, threshold, c, epsilon, runs = (2.0, 3.25, 6.0), 2.0, 1, 2.0, 2000
    scores = [3 * one, round(0.25 * one) if one > 1 else 0, 4 * one]
    expected = {
        bits: probability(
            bits,
            scores[: len(bits)],
            threshold * one,
            *(float(s) for s in threshold_scales(c, epsilon, one)),
        )
        for bits in transcripts(3, c)
    }
    seen = dict.fromkeys(expected, 0)
    with opened(seed=one, epsilon=epsilon * runs) as session:
        for _ in range(runs):
            svt = session.answer(SparseVector(threshold, c, one=one), Fraction(1, runs))
            bits = []
            while svt.left and len(bits) < 3:
                bits.append(int(svt.is_far(answer(len(bits)), public[len(bits)])))
            seen[tuple(bits)] += 1
    statistic = sum((seen[b] - runs * p) ** 2 / (runs * p) for b, p in expected.items())
    assert chi2.sf(statistic, len(expected) - 1) > 1e-6
    # Wrong scales would have been seen.
    other = {
        b: probability(b, scores[: len(b)], threshold * one, 1.0 * one, 1.0 * one) for b in expected
    }
    wrong = sum((seen[b] - runs * p) ** 2 / (runs * p) for b, p in other.items())
    assert chi2.sf(wrong, len(expected) - 1) < 1e-6


def test_one_draw_for_the_threshold_and_one_for_every_query(monkeypatch):
    drawn = []
    correct = sampling.discrete_laplace

    def counted(scale, *args, **options):
        value = correct(scale, *args, **options)
        drawn.append((scale, value))
        return value

    monkeypatch.setattr(sampling, "discrete_laplace", counted)
    with opened(epsilon=4.0) as session:
        svt = session.answer(SparseVector(1e6, 3), Fraction(1, 2))
        for i in range(20):
            assert not svt.is_far(answer(i % 4), 0.0)
    rho, nu = threshold_scales(3, 2)
    assert [scale for scale, _ in drawn] == [rho] + 20 * [nu]
    assert len({value for _, value in drawn[1:]}) > 2
    assert svt.left == 3


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_price_is_taken_once_and_positive_bits_are_counted(delta):
    session = opened(delta=delta)
    svt = session.answer(SparseVector(-1e6, 2), Fraction(3, 4))
    assert session.remaining == Fraction(1, 4)
    assert svt.is_far(answer(0), 0.0)
    assert svt.is_far(answer(3), 0.0)
    assert svt.left == 0
    with pytest.raises(PrivacyLeakError, match="no positive answer is left"):
        svt.is_far(answer(0), 0.0)
    assert session.remaining == Fraction(1, 4)
    (entry,) = session.certificate().releases
    assert entry.share == 0.75
    assert entry.mechanism == "sparse vector, discrete Laplace"
    level = session.level(Fraction(3, 4))
    pure = level if delta == 0 else pure_epsilon_from_mu(level)
    assert entry.scale == pytest.approx(float(threshold_scales(2, pure)[1]))
    assert (entry.epsilon, entry.mu) == ((level, None) if delta == 0 else (None, level))
    assert repr(svt) == "AboveThreshold(left=0)"


def test_who_may_not_ask():
    session = opened()
    svt = session.answer(SparseVector(0.0, 3))
    for use in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyLeakError):
            use(svt)
    with pytest.raises(TypeError, match="must be a workload_answer, got One"):
        svt.is_far(row_counts(MarginalCells(DOMAIN.sizes, (0,)), "marginal"), 0.0)
    fine = Workload(DOMAIN.sizes, [Weighted([0], [[0.5, 0, 0, 1]])])
    with pytest.raises(PrivacyLeakError, match="unit"):
        svt.is_far(workload_answer(fine, 0), 0.0)
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                svt.is_far(answer(0), 0.0)
            except PrivacyLeakError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    session.close()
    with pytest.raises(PrivacyLeakError, match="closed"):
        svt.is_far(answer(0), 0.0)
    assert svt.left == 3


def test_threads_share_what_is_left():
    session = opened()
    svt = session.answer(SparseVector(-1e6, 10))
    far, refused = [], []

    def ask():
        for _ in range(8):
            try:
                far.append(svt.is_far(answer(0), 0.0))
            except PrivacyLeakError:
                refused.append(1)

    workers = [threading.Thread(target=ask) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (len(far), len(refused), svt.left) == (10, 22, 0)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("one", [1, 2**20])
def test_comparisons_stand_on_the_transcript_with_their_sensitivity(relation, one):
    budget = PrivacyBudget(100.0, adjacency=relation)
    other = (4, 4, 2, 0) if relation == "replace_one" else (4, 3, 2, 0)

    def ask(counts):
        with opened(counts, budget=budget, seed=1, epsilon=1.0) as session:
            svt = session.answer(SparseVector(1.0, 4, one=one))
            return [svt.is_far(answer(i), p) for i, p in enumerate((0.0, 7.5, 0.25, 0.0))]

    with pytest.warns(SeededNoiseWarning), record() as first:
        bits = ask((5, 3, 2, 0))
    with pytest.warns(SeededNoiseWarning), replay(first) as second:
        assert ask(other) == bits
    ratios = [
        a.distance(a.exact, b.exact) / a.sensitivity
        for a, b in zip(first.entries, second.entries, strict=True)
    ]
    assert ratios[0] == 1.0
    assert max(ratios) == 1.0
    assert first.entries[1].exact[0] == 4 * one + (one if one == 1 else one // 2)


def test_huge_public_answers_are_compared_exactly():
    with opened() as session:
        svt = session.answer(SparseVector(1e17, 2, one=2**20))
        assert svt.is_far(answer(0), 1e18)
        assert not svt.is_far(answer(0), 1e15)


def test_seeded_noise_differs_between_comparisons_and_tables():
    def bits(counts, seed):
        with opened(counts, seed=seed) as session:
            svt = session.answer(SparseVector(3.0, 60))
            return [svt.is_far(answer(0), counts[0] - 3.0) for _ in range(60)]

    assert bits((5, 3, 2, 0), 1) == bits((5, 3, 2, 0), 1)
    assert len({tuple(bits(c, s)) for c in ((5, 3, 2, 0), (4, 4, 2, 0)) for s in (1, 2)}) == 4


def test_the_margin_holds():
    """In 2000 draws of 50 comparisons the bound fails in at most beta = 0.1 of them."""
    rng = np.random.default_rng(0)
    c, k, beta = 5, 50, 0.1
    rho, nu = (float(s) for s in threshold_scales(c, 1.0))
    noise = np.abs(rng.laplace(scale=rho, size=2000)) + np.abs(
        rng.laplace(scale=nu, size=(2000, k))
    ).max(axis=1)
    failures = np.mean(noise > comparison_margin(c, 1.0, k, beta))
    assert failures < beta
