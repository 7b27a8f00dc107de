"""Mechanisms alone, on pairs that show nearly all of what they may lose.

An estimator's audit shows a part of the loss, spread over its releases. Here one mechanism gets the
whole allowance on its worst pair of statistics, so that noise at two thirds, or at half, of what
its claim needs is caught. The scales themselves are compared exactly in `tests/verified`. False
alarms: as in `test_audit`, 3e-6 an audit.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from audit_pairs import CONFIDENCE
from cases import budget_of
from scipy.stats import binom
from toys import OneRelease
from worst_queries import ABOVE, PAIRS_OF_SIDES, SEVEN, SEVEN_R, CodedRelease

from skdp.audit import audit
from skdp.core import open_session
from skdp.core.clipping import isqrt_up
from skdp.core.mechanisms import Cubes, Independent, Spherical, exponential_mechanism
from skdp.exceptions import PrivacyLeakError
from skdp.queries import SmoothMedian, SparseVector, workload_answer
from skdp.queries.grouped_sums import Joint
from skdp.queries.second_moments import Symmetric
from skdp.queries.workloads import threshold_scales
from skdp.tabular import Bins, Domain, check_coded
from tests.views import box_of

pytestmark = pytest.mark.statistical

ZERO, ONE = np.zeros((1, 1)), np.ones((1, 1))


def row(s):
    """Return the one row's value: 0 or 1."""
    return int(next(iter(s._table.rows.chunks()))[0, 0])


def chosen(s, others=12):
    """Choose among one candidate and others; a row makes it better by one, and these worse."""
    here = row(s)
    scores = np.array([[1 - here] + [here] * others])
    return float(exponential_mechanism(s._meter, "choice", scores, 1, None)[0] == 0)


def of_matrix(noise, size=1000):
    def ask(s):
        exact = np.array([[row(s) * size]])
        bounds = Symmetric(size, size, size, noise)
        return float(bounds.noised(s._meter, "matrix", exact, None)[0][0, 0])

    return ask


def of_scalar(s, size=1000):
    return float(
        Independent(size, size**2).noised(s._meter, "number", np.array([row(s) * size]), None)[0][0]
    )


def of_vector(s, size=1000):
    return float(Spherical(size).noised(s._meter, "number", np.array([row(s) * size]), None)[0][0])


def of_cube(s, size=1000, entries=2):
    """Return by how much less the noise of the cube lost for the row than without it."""
    exact = np.full(entries, row(s) * size)
    bounds = Spherical(isqrt_up(entries * size**2), Cubes(size))
    noisy = bounds.noised(s._meter, "box", exact, None)[0].astype(float)
    assert s.certificate().releases[0].mechanism == "K-norm of the cube"
    return float(np.abs(noisy).max() - np.abs(noisy - size).max())


def of_groups(s, size=1000):
    """Return which of two groups' counts and sums say that the row is there."""
    here = row(s)
    exact = np.array([[here, here * size], [1 - here, (1 - here) * size]])
    bounds = Joint.of(s.adjacency, np.array([size, size]), 0.5)
    counts, sums = np.hsplit(bounds.noised(s._meter, "groups", exact, None, 1.0)[0], [1])
    counts = counts[:, 0]
    near = s._filter.epsilon / 4  # half of it for two groups, half of that for counts
    if not s.pure:
        return float(counts[0] - counts[1] + (sums[0, 0] - sums[1, 0]) / size)

    def loss(count, total):
        return abs(count) + abs(total) / size - abs(count - 1) - abs(total - size) / size

    return near * (loss(counts[0], sums[0, 0]) - loss(counts[1], sums[1, 0]))


GAUSS = {"delta": 0.05, "budget": budget_of("replace_one", None, "gdp")}
# (name, what is asked, X, X', options, runs, factor of the variant's loss over its claim)
MECHANISMS = [
    ("choices", chosen, ONE, ZERO, {}, 1800, 2.0),
    ("choices, delta", chosen, ONE, ZERO, GAUSS, 3200, 2.0),
    ("wishart", of_matrix("wishart"), ZERO, ONE, {}, 1000, 2.0),
    ("wishart, delta", of_matrix("wishart"), ZERO, ONE, GAUSS, 1200, 2.0),
    ("matrix, laplace", of_matrix("laplace"), ZERO, ONE, {}, 2000, 1.5),
    ("matrix, gaussian", of_matrix("gaussian"), ZERO, ONE, GAUSS, 800, 1.5),
    ("laplace", of_scalar, ZERO, ONE, {}, 1300, 1.5),
    ("laplace, delta", of_scalar, ZERO, ONE, GAUSS, 800, 1.5),
    ("k-norm", of_vector, ZERO, ONE, {}, 2000, 1.5),
    ("cube", of_cube, ZERO, ONE, {}, 1400, 1.5),
    ("groups", of_groups, ZERO, ONE, {}, 2500, 2.0),
    ("groups, delta", of_groups, ZERO, ONE, GAUSS, 450, 2.0),
]


@pytest.mark.parametrize(
    ("ask", "X", "other", "options", "runs", "factor"),
    [pytest.param(*entry[1:], id=entry[0]) for entry in MECHANISMS],
)
def test_a_mechanism_holds_its_claim_and_shows_it(ask, X, other, options, runs, factor):
    release = OneRelease(ask, epsilon=3.0, **options)
    result = audit(
        release, X, other, "answer_", n_runs=runs, confidence=CONFIDENCE, random_state=0
    )  # fmt: skip
    assert result.passed
    mu = None if result.mu is None else result.mu / factor
    assert replace(result, epsilon=result.epsilon / factor, mu=mu).refuted


def test_smooth_noise_holds_a_small_claim():
    """An eighth of it would show all that so few runs can show, which is three times the claim."""

    def ask(s):
        return float(s.answer(SmoothMedian(box_of(s, 0, 1))).value[0])

    options = {"n_runs": 400, "confidence": CONFIDENCE, "random_state": 0}
    assert audit(OneRelease(ask), SEVEN, SEVEN_R, "answer_", **options).passed
    eight = OneRelease(ask, epsilon=8.0)
    assert audit(eight, SEVEN, SEVEN_R, "answer_", epsilon=1.0, **options).refuted


# --- comparisons with a threshold ---------------------------------------------------------------

# A row that goes from the cell `ABOVE` to the opposite one: the one count falls, the other grows.
HERE, THERE = np.full((1, 3), 5.0), np.full((1, 3), -5.0)
OPPOSITE = 0
MANY = 32


def comparisons(s, threshold, times):
    asked = s.answer(SparseVector(threshold, times))
    return lambda query, public=0.0: asked.is_far(workload_answer(PAIRS_OF_SIDES, query), public)


def both_ways(s):
    """Count positive answers of a count that falls, less those of one that grows.

    About the public answer at which they turn: what the threshold's noise is like costs little.
    """
    far = comparisons(s, 60.0, MANY)
    start = next((p for p in range(-20, -120, -6) if far(ABOVE, p)), -120) + 8
    found = {ABOVE: 0, OPPOSITE: 0}
    for public in range(start, start - 16, -1):
        for query in 4 * [ABOVE, OPPOSITE]:
            if sum(found.values()) < MANY - 1:
                found[query] += far(query, public)
    return float(found[ABOVE] - found[OPPOSITE])


def ladders(s):
    """Find the noise of two comparisons by public answers that come nearer until one is far.

    Where every question has noise of its own the two ladders say little; noise that is drawn once
    would show both counts but for one common error, and so their exact difference.
    """
    far = comparisons(s, 40.0, 2)
    ends = []
    for query in (ABOVE, OPPOSITE):
        public = next((p for p in range(0, -400, -1) if far(query, p)), -400)
        ends.append(public)
    return float(np.clip(ends[0] - ends[1], -2, 2))


@pytest.mark.parametrize(
    ("ask", "epsilon", "runs"),
    [
        pytest.param(both_ways, 2.0, 400, marks=pytest.mark.exhaustive),
        pytest.param(ladders, 1.0, 250),
    ],
)
def test_comparisons_hold_their_claim_over_many_answers(ask, epsilon, runs):
    """Several updates: noise without the factor c, or drawn once for all, shows far more."""
    result = audit(
        CodedRelease(ask, epsilon=epsilon), HERE, THERE, "answer_", n_runs=runs,
        confidence=CONFIDENCE, random_state=0,
    )  # fmt: skip
    assert not result.refuted


@pytest.mark.parametrize("ask", [pytest.param(both_ways, marks=pytest.mark.exhaustive), ladders])
def test_the_audit_of_comparisons_would_find_a_loss(ask):
    """The same questions with noise for 64 times the claim: as without the factor c and worse."""
    result = audit(
        CodedRelease(ask, epsilon=64.0), HERE, THERE, "answer_", epsilon=1.0, n_runs=80,
        confidence=CONFIDENCE, random_state=0,
    )  # fmt: skip
    assert result.refuted


def test_no_positive_answer_is_given_that_was_not_paid_for():
    def ask(s):
        far = comparisons(s, 0.0, 3)
        return float(sum(far(ABOVE, -100.0) for _ in range(4)))

    with pytest.raises(PrivacyLeakError, match="no positive answer is left"):
        CodedRelease(ask, epsilon=100.0).fit(HERE)


def tail(scale, least):
    """Return P(L >= least) of discrete Laplace noise; least is an integer."""
    q = math.exp(-1 / scale)
    return q**least / (1 + q) if least > 0 else 1 - q ** (1 - least) / (1 + q)


def both(rho, nu, distance, reach=400):
    """Return P(one comparison is far) and P(two of one session are), for a common rho."""
    mass = [tail(rho, r) - tail(rho, r + 1) for r in range(-reach, reach + 1)]
    far = [tail(nu, distance + r) for r in range(-reach, reach + 1)]
    one = sum(m * f for m, f in zip(mass, far, strict=True))
    return one, sum(m * f * f for m, f in zip(mass, far, strict=True))


@pytest.mark.parametrize("times", [2, 16])
def test_comparisons_share_the_threshold_s_noise_and_nothing_else(times):
    """One comparison, and two of one session, are far as often as the proof's noise makes them.

    False alarms: 1e-6 for each of the four counts, at other seeds.
    """
    epsilon, threshold, runs = 4.0, 2, 3000
    rho, nu = (float(scale) for scale in threshold_scales(times, epsilon))
    # The scales themselves: epsilon_1 + epsilon_2 = epsilon, of which nu pays c times, twice.
    assert 1 / rho + 2 * times / nu == pytest.approx(epsilon, rel=1e-6)
    pairs = []
    rows = check_coded(
        np.full((1, 3), -5.0),
        Domain([Bins([-10.0, 0.0, 10.0])] * 3),
        estimator="T",
    )
    for seed in range(runs):
        with open_session(rows, estimator="T", epsilon=epsilon, random_state=seed) as session:
            far = comparisons(session, float(threshold), times)
            pairs.append((far(ABOVE), far(ABOVE)))
    counts = np.array(pairs).sum(axis=0)[0], sum(a and b for a, b in pairs)
    for found, p in zip(counts, both(rho, nu, threshold), strict=True):
        assert 5e-7 < binom.cdf(found, runs, p) < 1 - 5e-7
