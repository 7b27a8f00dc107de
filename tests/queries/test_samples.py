"""Samples of rows: exactly distributed positions, amplified noise, publications that are refused.

Statistical tests use seeded streams, so they pass or fail once and for all; each states the
probability with which a correct sampler would have failed it under a random seed.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdp import PrivacyBudget, PrivacyLeakError, core
from skdp.budget import gdp_mu
from skdp.core import Sum, transcript
from skdp.core.noise import OSEntropy, SeededEntropy
from skdp.queries import NoisySample, PublishedRows, samples
from skdp.tabular import check_rows
from tests.folding import each
from tests.views import box_of

RELATIONS = ["replace_one", "add_or_remove_one"]
R, A = RELATIONS
X = np.random.default_rng(3).uniform(-1, 1, size=(200, 3))


def open_session(
    X=X, *, epsilon=1.0, delta=0.0, apart=0.0, adjacency=R, seed=None, total=1e8, **options
):
    budget = PrivacyBudget(total, 0.9, adjacency=adjacency, **options)
    rows = check_rows(X, estimator="T", allow_empty=adjacency == A)
    return core.open_session(
        rows, estimator="T", epsilon=epsilon, delta=delta, separate_delta=apart, budget=budget,
        random_state=seed,
    )  # fmt: skip


# --- positions -----------------------------------------------------------------------------------


def fits(drawn, probabilities) -> bool:
    """Compare counts with exact probabilities (chi-square); false-alarm rate 1e-6."""
    outcomes = list(probabilities)
    counts = Counter(map(tuple, drawn))
    if not set(counts) <= set(outcomes):
        return False
    expected = np.array([float(probabilities[o]) for o in outcomes]) * len(drawn)
    observed = [counts[o] for o in outcomes]
    return bool(stats.chisquare(observed, expected).pvalue > 1e-6)


def test_positions_without_replacement_are_uniform_in_every_order():
    entropy = SeededEntropy(0, b"wor")
    drawn = [samples.draw_without_replacement(5, 2, entropy).tolist() for _ in range(10_000)]
    uniform = {pair: Fraction(1, 20) for pair in itertools.permutations(range(5), 2)}
    assert fits(drawn, uniform)
    assert not fits([sorted(pair) for pair in drawn], uniform)
    assert sorted(samples.draw_without_replacement(300, 300, entropy)) == list(range(300))


@pytest.mark.statistical
def test_poisson_samples_have_independent_rows_at_the_public_rate():
    entropy = SeededEntropy(0, b"poisson")
    rate = samples.public_rate(0.3)
    assert Fraction(3, 10) - Fraction(1, 2**32) < rate <= Fraction(3, 10)
    drawn = [samples.draw_poisson(4, rate, entropy).tolist() for _ in range(10_000)]

    def law(p):
        return {
            subset: p ** len(subset) * (1 - p) ** (4 - len(subset))
            for size in range(5)
            for subset in itertools.combinations(range(4), size)
        }

    assert fits(drawn, law(rate))
    assert not fits(drawn, law(rate * 2 / 3)) and not fits(drawn, law(rate * 3 / 2))
    assert samples.draw_poisson(200_000, Fraction(1), entropy).size == 200_000
    share = samples.draw_poisson(1_000_000, rate, entropy).size / 1e6
    assert abs(share - 0.3) < 5 * math.sqrt(0.21 / 1e6)  # false-alarm rate 6e-7
    assert samples.draw_poisson(0, rate, entropy).size == 0


@pytest.mark.parametrize("threshold", [1, 77 * 2**24, 77 * 2**24 + 5, 2**32 - 1, 2**32])
def test_a_byte_of_the_system_decides_as_the_whole_word_does(threshold):
    """Each first byte, followed by bits on either side of the threshold's own."""
    rest = threshold % 2**24
    for bits in {max(rest - 1, 0), rest, 2**24 - 1}:

        class Bytes(OSEntropy):
            def bytes(self, n):
                return bytes(range(n))

            def words(self, n, bits=bits):
                return np.full(n, bits << 40, dtype=np.uint64)

        chosen = samples.draw_poisson(256, Fraction(threshold, 2**32), Bytes())
        assert chosen.tolist() == [b for b in range(256) if (b << 24) + bits < threshold]


@pytest.mark.statistical
def test_a_padded_sample_has_its_exact_law():
    """All outcomes of n = 3, rate 1/2, size 2: a random part, or filled up with dummies."""
    law: Counter = Counter()
    for picked in itertools.product([0, 1], repeat=3):
        sample = [i for i in range(3) if picked[i]]
        sample += [-1] * (2 - len(sample))
        orders = list(itertools.permutations(sample, 2))
        for order in orders:
            law[order] += Fraction(1, 8 * len(orders))
    entropy = SeededEntropy(0, b"padded")
    half = Fraction(1, 2)
    drawn = [samples.draw_padded(3, half, 2, entropy).tolist() for _ in range(10_000)]
    assert sum(law.values()) == 1
    assert fits(drawn, law)
    assert not fits([sorted(pair) for pair in drawn], law)


# --- the amplified epsilon -----------------------------------------------------------------------


@each("ratio", [1, Fraction(3, 2), 40, Fraction(2**32), Fraction(10**9, 7)])
@each("epsilon", [1e-6, 0.1, 1.0, 10.0, 700.0, 1e5, 1e15])
def test_the_amplified_epsilon_is_right_and_rounded_down(epsilon, ratio):
    ratio = Fraction(ratio)
    found = samples.amplified_epsilon(Fraction(epsilon), ratio)
    with mpmath.workdps(60):
        r, e = mpmath.mpf(ratio.numerator) / ratio.denominator, mpmath.mpf(epsilon)
        right = e + mpmath.log(r - (r - 1) * mpmath.exp(-e))
        value = mpmath.mpf(found.numerator) / found.denominator
        assert right * (1 - mpmath.mpf(2) ** -38) <= value <= right
        if epsilon < 1000:
            textbook = mpmath.log(1 + (mpmath.exp(e) - 1) * r)
            assert abs(textbook - right) < mpmath.mpf(10) ** -40 * max(1, right)


def test_a_ratio_below_one_is_refused():
    with pytest.raises(ValueError, match="ratio"):
        samples.amplified_epsilon(Fraction(1), Fraction(1, 2))


# --- noisy samples -------------------------------------------------------------------------------


def variance_is_one(values) -> bool:
    """Test unit variance, two-sided; false-alarm rate about 1e-6 (z = 4.9)."""
    squares = np.asarray(values) ** 2
    return bool(abs(squares.mean() - 1) < 4.9 * squares.std() / math.sqrt(squares.size))


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("d", [1, 3])
def test_noise_has_the_stated_scale_and_no_other(adjacency, d):
    """Rows at the centre of a wide box: the transcript's release is noise alone."""
    noise = []
    for seed in range(4):
        session = open_session(np.zeros((1000, d)), adjacency=adjacency, seed=seed)
        with transcript.record() as t:
            result = session.answer(NoisySample(box_of(session, -1, 1), 500, rate=0.5))
        step = float(box_of(session, -1, 1).grid[0])
        noise.append(t.entries[0].released * step / result.std)
    assert variance_is_one(np.ravel(noise))
    assert not variance_is_one(2 / 3 * np.ravel(noise))
    assert not variance_is_one(3 / 2 * np.ravel(noise))
    amplified = math.log(1 + (math.e - 1) * 2)
    assert result.std[0] == pytest.approx(2 * math.sqrt(d) * math.sqrt(d + 1) / amplified, rel=1e-4)


def test_noise_of_one_dimension_is_laplace():
    """Kolmogorov-Smirnov against the Laplace distribution; false-alarm rate 1e-6."""
    session = open_session(np.zeros((4000, 1)), seed=0)
    with transcript.record() as t:
        session.answer(NoisySample(box_of(session, -1, 1), 4000))
    scale = session.certificate().releases[0].scale / float(box_of(session, -1, 1).grid[0])
    noise = t.entries[0].released.ravel()
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > 1e-6
    assert stats.kstest(noise, stats.laplace(scale=scale * 1.5).cdf).pvalue < 1e-6
    assert stats.kstest(noise, stats.laplace(scale=scale / 1.5).cdf).pvalue < 1e-6


@pytest.mark.parametrize("n", [0, 1, 7, 500])
def test_the_number_of_points_never_follows_a_private_n(n):
    session = open_session(np.ones((n, 2)), adjacency=A, apart=0.2)
    points = session.answer(NoisySample(box_of(session, -1, 1), 20, rate=0.1))
    assert points.value.shape == (20, 2) and np.abs(points.value).max() <= 1
    assert session.answer(PublishedRows(20, rate=0.1, dummy=[5.0, 6.0])).shape == (20, 2)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_almost_without_noise_the_points_are_rows_of_the_table(adjacency, delta):
    session = open_session(adjacency=adjacency, epsilon=1e7, delta=delta)
    points = session.answer(NoisySample(box_of(session, -1, 1), 30, rate=1.0)).value
    near = np.abs(points[:, None, :] - X[None]).max(axis=2).argmin(axis=1)
    np.testing.assert_allclose(points, X[near], atol=0.01)
    assert len(set(near)) == 30


def test_a_sample_larger_than_the_table_is_the_table_under_replace_one():
    session = open_session(X[:5], epsilon=1e7)
    points = session.answer(NoisySample(box_of(session, -1, 1), 30)).value
    order = np.lexsort(points.T), np.lexsort(X[:5].T)
    np.testing.assert_allclose(points[order[0]], X[:5][order[1]], atol=1e-3)
    assert session.certificate().releases[0].epsilon == pytest.approx(1e7)


BAD_SIZES = [(0, 0.5), (-1, 0.5), (True, 0.5), (2.0, 0.5)]
BAD_RATES = [(5, rate) for rate in (0.0, -0.1, 1.1, math.nan, math.inf, 2.0**-33, None)]


@each(
    ("adjacency", "size", "rate", "match"),
    [(relation, *bad, "size") for relation in RELATIONS for bad in BAD_SIZES]
    + [(A, *bad, "rate") for bad in BAD_RATES],
)
def test_bad_sizes_and_rates_are_refused_and_take_nothing(adjacency, size, rate, match):
    session = open_session(adjacency=adjacency, apart=0.5)
    with pytest.raises(ValueError, match=match):
        session.answer(NoisySample(box_of(session, -1, 1), size, rate=rate))
    with pytest.raises(ValueError, match=match):
        session.answer(PublishedRows(size, rate=rate))
    assert session.remaining == 1
    assert session.certificate().releases == ()


def test_flat_boxes_and_huge_rows_give_finite_points():
    data = np.array([[1e308, -1e308], [3.0, 3.0]])
    for low, high in ((3, 3), (-1e307, 1e307), (-1e-300, 1e-300)):
        session = open_session(data)
        points = session.answer(NoisySample(box_of(session, low, high), 2)).value
        assert np.isfinite(points).all() and points.min() >= low and points.max() <= high


# --- in the transcript ----------------------------------------------------------------------------


def record_of(data, adjacency, source=None, epsilon=1.0):
    session = open_session(data, adjacency=adjacency, apart=0.5, epsilon=epsilon, seed=0)
    with transcript.record() if source is None else transcript.replay(source) as t:
        points = session.answer(NoisySample(box_of(session, -1, 1), 4, rate=0.5))
        rows = session.answer(PublishedRows(4, rate=0.5))
    return t, points.value, rows


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_replay_returns_the_recorded_points_and_rows(adjacency):
    recorded, points, rows = record_of(X[:8], adjacency)
    other = X[50:58] if adjacency == R else X[50:53]
    _, again, rows_again = record_of(other, adjacency, recorded)
    np.testing.assert_array_equal(points, again)
    np.testing.assert_array_equal(rows, rows_again)


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_neighbours_are_within_the_sensitivity_and_attain_it(adjacency):
    data = np.vstack([X[:8], [[-1.0, -1.0, -1.0]]])
    if adjacency == R:
        other = np.vstack([X[:8], [[1.0, 1.0, 1.0]]])
    else:
        other = data[:-1]
    first, second = record_of(data, adjacency)[0], record_of(other, adjacency)[0]
    for a, b in zip(first.entries, second.entries, strict=True):
        assert a.sensitivity == b.sensitivity and a.exact.shape == b.exact.shape == (1,)
        moved = a.distance(a.exact, b.exact)
        assert a.sensitivity * (1 - 1e-4) <= moved <= a.sensitivity
        assert moved == b.distance(b.exact, a.exact)
        assert a.distance(a.exact, a.exact) == 0
    # Two units apart is further than one.
    third = record_of(np.vstack([other[1:], other[:1] / 2]), adjacency)[0]
    if adjacency == R:
        a, b = first.entries[0], third.entries[0]
        assert a.distance(a.exact, b.exact) > a.sensitivity
    fewer = record_of(data[2:], A)[0]
    a, b = first.entries[0], fewer.entries[0]
    assert a.distance(a.exact, b.exact) == 2 * a.sensitivity


def test_without_a_transcript_only_sampled_rows_are_mapped(monkeypatch):
    asked = []
    real = samples._mapped
    monkeypatch.setattr(
        samples,
        "_mapped",
        lambda self, view, positions: asked.append(positions.size) or real(self, view, positions),
    )
    session = open_session()
    session.answer(NoisySample(box_of(session, -1, 1), 5))
    assert asked == [5]


# --- an audit on a worst pair --------------------------------------------------------------------

CLAIM, N_AUDIT, RUNS = 2.0, 2, 2500
CONFIDENCE = 1 - 1e-5


def lower_bound(monkeypatch, factor):
    """Return a Clopper-Pearson lower bound of epsilon from {the point is at the upper end}.

    One of two rows is shown under noise; the tables differ in one row, at opposite ends of the
    box. The event's probabilities are e**-e'/2 and (1 - 1/n) e**-e'/2 + 1/(2 n): the ratio is
    e**epsilon, so the bound is tight. `factor` divides the noise.
    """
    real = samples.samplers.k_norm
    monkeypatch.setattr(
        samples.samplers,
        "k_norm",
        lambda d, scale, size, entropy: real(d, scale / factor, size, entropy=entropy),
    )
    low = np.full((N_AUDIT, 1), -1.0)
    other = low.copy()
    other[1] = 1.0
    counts = []
    for which, data in enumerate((low, other)):
        # One session of RUNS equal shares, each of the claim: opening one takes longer than a draw.
        session = core.open_session(
            check_rows(data, estimator="T"),
            estimator="T",
            epsilon=CLAIM * RUNS,
            random_state=which,
        )
        view, share = box_of(session, -1, 1), Fraction(1, RUNS)
        hits = sum(
            session.answer(NoisySample(view, 1), share).value[0, 0] == 1.0 for _ in range(RUNS)
        )
        counts.append(hits)
    alpha = (1 - CONFIDENCE) / 2
    above = stats.beta.ppf(1 - alpha, counts[0] + 1, RUNS - counts[0])
    below = stats.beta.ppf(alpha, counts[1], RUNS - counts[1] + 1)
    return math.log(below / above)


@pytest.mark.statistical
def test_the_claimed_epsilon_holds_on_a_worst_pair_and_less_noise_is_caught(monkeypatch):
    """A correct query fails this with probability at most 1e-5."""
    bound = lower_bound(monkeypatch, 1)
    assert CLAIM / 1.5 < bound <= CLAIM
    assert lower_bound(monkeypatch, Fraction(3, 2)) > CLAIM


# --- publications --------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_published_rows_are_raw_rows_and_the_ledger_and_certificate_say_so(adjacency):
    budget = PrivacyBudget(3.0, 0.1, adjacency=adjacency)
    rows = check_rows(X, estimator="T")
    with core.open_session(
        rows, estimator="T", epsilon=1.0, delta=1e-6, separate_delta=0.025, budget=budget
    ) as session:
        session.answer(Sum(box_of(session, -1, 1)))
        shown = session.answer(PublishedRows(5, rate=0.025, dummy=9.0))
        certificate = session.certificate()
    table = {tuple(row) for row in X.tolist()}
    inside = [tuple(row) in table for row in shown.tolist()]
    assert all(inside) if adjacency == R else np.all(np.array(inside) ^ (shown[:, 0] == 9.0))
    assert not shown.flags.writeable
    assert certificate.delta == 0.025001 == budget.spent.delta
    assert certificate.mu == gdp_mu(1.0, 1e-6)
    record = certificate.releases[-1]
    assert (record.mechanism, record.sensitivity) == ("raw rows published", math.inf)
    assert record.delta == pytest.approx(0.025, rel=1e-7) and record.delta <= 0.025
    assert "raw rows published" in certificate._repr_html_()
    json.loads(certificate.to_json(), parse_constant=pytest.fail)  # JSON has no Infinity
    (charge,) = budget.charges
    assert charge.releases[-1]["delta"] == record.delta and "delta" not in charge.releases[0]
    assert charge.cost.separate_delta == 0.025


def test_the_noise_of_a_session_is_that_of_the_claim_without_the_part_set_aside():
    plain, apart = open_session(delta=1e-6), open_session(delta=1e-6, apart=0.3)
    assert plain._meter.mu == apart._meter.mu and plain.level(0.5) == apart.level(0.5)
    pure = open_session(apart=0.3)
    assert pure.pure and pure._filter.delta == 0.3


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_accountants_keep_the_publication_apart(accountant):
    options = {"accountant": accountant, "separate_delta": 0.1, "total": 100.0}
    session = open_session(delta=1e-6, apart=0.025, **options)
    assert session._filter._budget.spent.delta >= 0.025
    with pytest.raises(ValueError, match="Nothing was charged"):
        open_session(delta=1e-6, apart=0.2, **options)


def test_ten_decimal_parts_add_up_exactly():
    assert open_session(delta=0.1, apart=0.2)._filter.delta == 0.3


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_publication_beyond_separate_delta_or_a_second_one_is_refused(adjacency):
    session = open_session(adjacency=adjacency, apart=0.025)
    for size, rate in ((6, 0.0251), (200, 1.0), (1000, 1.0)):
        with pytest.raises(PrivacyLeakError, match="separate_delta"):
            session.answer(PublishedRows(size, rate=rate))
    assert session.certificate().releases == ()
    assert session.answer(PublishedRows(5, rate=0.025)).shape == (5, 3)
    with pytest.raises(PrivacyLeakError, match="already"):
        session.answer(PublishedRows(1, rate=0.001))
    with pytest.raises(PrivacyLeakError, match="separate_delta"):
        open_session(adjacency=adjacency, delta=0.5).answer(PublishedRows(1, rate=0.001))
    session = open_session(adjacency=adjacency, apart=0.5)
    session.close()
    with pytest.raises(PrivacyLeakError, match="closed"):
        session.answer(PublishedRows(1, rate=0.001))


def test_a_bad_separate_delta_is_refused_before_the_charge():
    budget = PrivacyBudget(3.0, 0.5)
    rows = check_rows(X, estimator="T")
    for bad in (-0.1, 1.0, math.nan, "0"):
        with pytest.raises((TypeError, ValueError), match="delta"):
            core.open_session(rows, estimator="T", epsilon=1.0, separate_delta=bad, budget=budget)
    with pytest.raises(ValueError, match="delta"):
        core.open_session(
            rows, estimator="T", epsilon=1.0, delta=0.5, separate_delta=0.5, budget=budget
        )
    assert budget.spent.epsilon == 0
