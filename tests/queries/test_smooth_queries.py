"""Queries with smooth noise: quantiles and the cost of spanning trees.

False alarms: the test of the released noise makes one comparison for each noise at ALPHA = 1e-6 and
must reject 2/3 and 3/2 of the scale at 1e-12. Everything else is deterministic.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skdp import PrivacyBudget, core
from skdp.budget import pure_mu
from skdp.core import transcript
from skdp.exceptions import PrivacyLeakError
from skdp.loss.conversions import pure_epsilon_from_mu
from skdp.queries import SmoothMedian, SpanningCost
from skdp.queries.smooth_sensitivity import ladders as smooth
from skdp.queries.smooth_sensitivity import medians as order
from skdp.queries.smooth_sensitivity import medians as spanning
from skdp.queries.smooth_sensitivity.ladders import STEPS, Ladder, student_kappa
from skdp.tabular import check_rows
from tests.folding import each
from tests.views import box_of

RELATIONS = ["replace_one", "add_or_remove_one"]
R, A = RELATIONS
HALF = Fraction(1, 2)


# --- the query for quantiles ----------------------------------------------------------------------

RNG = np.random.default_rng(3)
TABLE = RNG.normal(size=(2001, 2))


def open_session(X=TABLE, *, epsilon=1.0, delta=0.0, apart=0.0, adjacency=R, seed=None):
    budget = PrivacyBudget(1e15, 0.5, adjacency=adjacency)
    rows = check_rows(X, estimator="T", allow_empty=adjacency == A)
    return core.open_session(
        rows,
        estimator="T",
        epsilon=epsilon,
        delta=delta,
        separate_delta=apart,
        budget=budget,
        random_state=seed,
    )


def noise_of(meter, parts, share, noise="cauchy"):
    """Return the noise that each of some numbers gets for a share."""
    level, delta = meter.level(share), meter.separate_delta
    return smooth.part_noise(level, [1] * parts, pure=meter.pure, delta=delta, noise=noise)


@each("adjacency", RELATIONS)
@each("delta", [0.0, 1e-6])
@each("noise", ["cauchy", "student", "laplace"])
@each("q", [0.5, 0.25, 0.9])
def test_a_huge_epsilon_gives_the_quantile(adjacency, delta, noise, q):
    session = open_session(epsilon=1e6, delta=delta, apart=1e-6, adjacency=adjacency, seed=1)
    release = session.answer(
        SmoothMedian(box_of(session, -6, 6, per_feature=True), q=q, noise=noise), 0.5
    )
    rank = math.ceil(Fraction(str(q)) * len(TABLE))
    np.testing.assert_allclose(release.value, np.sort(TABLE, axis=0)[rank - 1], atol=2e-3)
    assert np.isnan(release.std).all()
    assert session.remaining == HALF


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["cauchy", "student", "laplace"])
def test_the_noise_has_the_scale_of_the_smooth_sensitivity(noise):
    """One comparison each: the noise on 5000 equal features is kappa S Z."""
    rng = np.random.default_rng(0)
    d = 5000
    X = np.tile(rng.normal(size=(101, 1)), d)
    with transcript.record() as t:
        session = open_session(X, epsilon=float(d), apart=1e-3, seed=2)
        session.answer(SmoothMedian(box_of(session, -6, 6), noise=noise))
    (entry,) = t.entries
    f, level = entry.exact[0]
    how = noise_of(session._meter, d, 1.0, noise=noise)
    assert how.epsilon == pytest.approx(1.0)
    width = 2 * int(box_of(session, -6, 6).half[0])
    scale = float(how.kappa * Ladder(width, how.beta / STEPS).scale(level))
    q = box_of(session, -6, 6).map(X)[:, 0].astype(int)
    beta = float(how.beta) * (STEPS - 1) / STEPS
    _, s = order.smooth_sensitivity(q, HALF, -width // 2, width // 2, beta, replace=True)
    assert float(how.kappa) * s <= scale <= float(how.kappa) * s * math.exp(float(how.beta) / 15)
    law = {"cauchy": stats.cauchy, "student": stats.t(3), "laplace": stats.laplace}[noise]
    drawn = (entry.released - f).astype(float) / scale
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-6
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(drawn * wrong, law.cdf).pvalue < 1e-12


def test_the_certificate_shows_public_numbers_only():
    records = []
    for X in (TABLE, np.zeros((7, 2))):
        session = open_session(X, epsilon=0.5, apart=1e-6)
        session.answer(SmoothMedian(box_of(session, -4, 4), noise="student"), 0.25)
        session.answer(SmoothMedian(box_of(session, -4, 4), noise="laplace"), 0.25)
        records.append(session.certificate().to_json())
    assert records[0] == records[1]
    first, second = session.certificate().releases
    assert first.mechanism == "rounded Student (3), smooth sensitivity"
    assert first.share == 0.25 and first.epsilon == pytest.approx(0.125) and first.delta == 0
    assert second.delta == 1e-6 and first.sensitivity == 8.0
    assert first.scale == pytest.approx(8 * student_kappa(1 / 16, 1 / 96, 3))


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("q", [0.5, 0.1])
def test_replay_and_neighbours_in_the_transcript(adjacency, q):
    other = TABLE[:51].copy()
    other[0] = [-4, 4]
    other = other if adjacency == R else other[1:]
    values = []
    with transcript.record() as first:
        session = open_session(TABLE[:51], adjacency=adjacency)
        values.append(session.answer(SmoothMedian(box_of(session, -4, 4), q=q)).value)
    with transcript.replay(first) as second:
        session = open_session(other, adjacency=adjacency)
        values.append(session.answer(SmoothMedian(box_of(session, -4, 4), q=q)).value)
    np.testing.assert_array_equal(*values)
    (a,), (b,) = first.entries, second.entries
    assert 0 < a.distance(a.exact, b.exact) <= a.sensitivity == b.sensitivity == 1.0
    far = a.exact.copy()
    far[0, 0] += 2**18
    assert a.distance(a.exact, far) > 1
    far = a.exact.copy()
    far[1, 1] += STEPS + 1
    assert a.distance(a.exact, far) > 1


def test_the_classical_pair():
    """{0,0,0,1,1,1,1} against {0,0,0,0,1,1,1}: everything moves, and the noise has full width."""
    entries = []
    for ones in (4, 3):
        X = np.repeat([0.0, 1.0], [7 - ones, ones])[:, None]
        with transcript.record() as t:
            session = open_session(X)
            session.answer(SmoothMedian(box_of(session, 0, 1)))
        entries += t.entries
    a, b = entries
    assert a.exact[0, 0] == -b.exact[0, 0] == 2**17
    assert a.exact[0, 1] == b.exact[0, 1] == 0
    assert a.distance(a.exact, b.exact) == 1.0


def test_ties_never_end_the_noise():
    """exp(-beta k) underflows to 0 here; the last rung still has noise, and a tail."""
    X = np.full((5001, 2), 0.5)
    with transcript.record() as t:
        session = open_session(X, epsilon=20.0)
        release = session.answer(SmoothMedian(box_of(session, -1, 1)))
    np.testing.assert_allclose(release.value, 0.5, atol=1e-3)
    how = noise_of(session._meter, 2, 1.0)
    (entry,) = t.entries
    ladder = Ladder(2**18, how.beta / STEPS)
    assert entry.exact[0, 1] == ladder.last and ladder.scale(ladder.last) > 0


@each("noise", ["cauchy", "student"])
@each("adjacency", RELATIONS)
@each("q", [0, 0.5, 1])
def test_odd_tables_are_released_within_the_box(adjacency, q, noise):
    tables = [np.zeros((1, 2)), np.array([[1e300, -1e300]] * 3), np.array([[-0.0, 5e-324]] * 2)]
    if adjacency == A:
        tables.append(np.zeros((0, 2)))
    for X in tables:
        for epsilon in (1e-5, 1e12):
            session = open_session(X, epsilon=epsilon, adjacency=adjacency)
            for box in (
                box_of(session, -1, [1, 50]),
                box_of(session, 2, 2),
                box_of(session, -1e300, 1e300),
            ):
                value = session.answer(SmoothMedian(box, q=q, noise=noise), 0.1).value
                assert np.all(value >= box.low) and np.all(value <= box.high)


@each(
    ("options", "error", "match"),
    [
        ({"q": -0.1}, ValueError, "q must"),
        ({"q": 1.1}, ValueError, "q must"),
        ({"q": math.nan}, ValueError, "finite"),
        ({"noise": "gauss"}, ValueError, "noise"),
        ({"noise": "laplace"}, ValueError, "delta"),
        ({"noise": "student", "nu": 0}, ValueError, "nu"),
        ({"noise": "student", "nu": 1.5}, TypeError, "nu"),
        ({"share": 1e-9}, ValueError, "larger epsilon"),
    ],
)
def test_bad_parameters_take_nothing(options, error, match):
    session = open_session(epsilon=0.01)
    options = dict(options)
    share = options.pop("share", None)
    with pytest.raises(error, match=match):
        session.answer(SmoothMedian(box_of(session, -1, 1), **options), share)
    assert session.remaining == 1


def test_laplace_has_a_delta_of_its_own_once():
    session = open_session(apart=1e-6)
    assert session._filter.delta == 1e-6 and session.pure
    session.answer(SmoothMedian(box_of(session, -1, 1), noise="laplace"), 0.25)
    with pytest.raises(PrivacyLeakError, match="already"):
        session.answer(SmoothMedian(box_of(session, -1, 1), noise="laplace"), 0.25)
    assert session.remaining == Fraction(3, 4)
    how = noise_of(session._meter, 4, 0.5, noise="laplace")
    assert how.delta * 4 <= 1e-6 and how.epsilon * 4 <= 0.5


def test_shares_beyond_the_allowance_are_refused():
    session = open_session()
    session.answer(SmoothMedian(box_of(session, -1, 1)), 0.75)
    with pytest.raises(PrivacyLeakError, match="share"):
        session.answer(SmoothMedian(box_of(session, -1, 1)), 0.5)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_each_feature_has_its_part(delta):
    session = open_session(delta=delta)
    each = noise_of(session._meter, 5, 0.5).epsilon
    if not delta:
        assert each == pytest.approx(0.1) and 5 * Fraction(each) <= HALF
    else:
        assert 5 * pure_mu(each) ** 2 <= session._meter.mu**2 / 2
        assert each == pytest.approx(pure_epsilon_from_mu(session._meter.mu / math.sqrt(10)))


# --- spanning trees ------------------------------------------------------------------------------


def graphs(n):
    """Return all connected graphs on n vertices, one with a double edge among them."""
    pairs = list(itertools.combinations(range(n), 2))
    out = []
    for size in range(n - 1, len(pairs) + 1):
        for edges in itertools.combinations(pairs, size):
            try:
                out.append(spanning.check_graph(n, np.array(edges)))
            except ValueError:
                continue
    return [*out, np.concatenate([out[0], out[0][:1]])]


@pytest.mark.slow
@each(("n", "width"), [(2, 4), (3, 3), (4, 2)])
@each("beta", [0.1, 0.8])
def test_spanning_trees_equal_brute_force_on_all_small_graphs(n, width, beta):
    for edges in graphs(n):
        weights = np.array(list(itertools.product(range(width + 1), repeat=len(edges))))
        cost = np.array([spanning.spanning_cost(n, edges, w) for w in weights])
        if len(edges) == n - 1:
            np.testing.assert_array_equal(cost, weights.sum(axis=1))
        distance = (weights[:, None] != weights).sum(axis=2)
        local = np.where(distance <= 1, np.abs(cost[:, None] - cost), 0).max(axis=1)
        s = (np.exp(-beta * distance) * local).max(axis=1)
        for i in range(0, len(weights), max(1, len(weights) // 12)):
            got = spanning.log_smooth_spanning_cost(n, edges, weights[i], width, beta)
            assert math.exp(got) == pytest.approx(s[i], rel=1e-12)


def test_the_cost_is_that_of_scipy():
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    rng = np.random.default_rng(4)
    pairs = np.array(list(itertools.combinations(range(12), 2)))
    edges = spanning.check_graph(12, pairs[rng.permutation(len(pairs))[:40]]).astype(np.int32)
    weights = rng.integers(1, 1000, len(edges))
    matrix = coo_array((weights, (edges[:, 0], edges[:, 1])), shape=(12, 12)).tocsr()
    assert spanning.spanning_cost(12, edges, weights) == minimum_spanning_tree(matrix).sum()


@each(
    "edges", [[[0, 1]], [[0, 0], [0, 1], [1, 2]], [[0, 3], [0, 1]], [0, 1], np.zeros((0, 2), int),
              [[0.0, 1.0], [1.0, 2.0]], [[-1, 1], [1, 2]]]
)  # fmt: skip
def test_what_is_no_connected_graph_is_refused(edges):
    with pytest.raises(ValueError, match=r"edges|graph"):
        spanning.check_graph(3, edges)


def test_the_door_for_spanning_trees():
    rng = np.random.default_rng(0)
    edges = np.array(list(itertools.combinations(range(8), 2)))
    weights = rng.uniform(1, 3, size=(len(edges), 1))
    session = open_session(weights, epsilon=1e4)
    value = float(session.answer(SpanningCost(box_of(session, 1, 3), 8, edges), 0.5).value)
    assert value == pytest.approx(spanning.spanning_cost(8, edges, weights[:, 0] * 1e9) / 1e9, 1e-3)
    other = weights.copy()
    other[3] = 1.0
    entries = []
    for table in (weights, other):
        with transcript.record() as t:
            session = open_session(table, epsilon=0.5)
            release = session.answer(SpanningCost(box_of(session, 1, 3), 8, edges, noise="student"))
        assert 7 <= release.value <= 21
        entries += t.entries
    assert 0 < entries[0].distance(entries[0].exact, entries[1].exact) <= 1
    session = open_session(weights)
    with pytest.raises(ValueError, match="one row for each edge"):
        session.answer(SpanningCost(box_of(session, 1, 3), 8, edges[:-1]))
    with pytest.raises(ValueError, match="replace_one"):
        open_session(weights, adjacency=A).answer(SpanningCost(box_of(session, 1, 3), 8, edges))
    assert session.remaining == 1
