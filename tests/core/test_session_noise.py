"""Noise of sessions against their claim: standard deviations, losses, quantiles.

Statistical tests use a seeded stream, so they pass or fail once and for all; each states the
probability with which a correct sampler would have failed it under a random seed, and each is
shown to reject noise of 2/3 and 3/2 of the right scale.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import core
from skdp.budget import gdp_mu
from skdp.core import Sum, transcript
from skdp.queries import BoxTree, CellQuantile, Grid, SecondMoment, row_counts
from skdp.queries.grouped_sums import Joint
from skdp.tabular import check_rows
from tests.core.sessions import X, open_session
from tests.folding import each
from tests.views import ball_of, box_of

RELATIONS = ["replace_one", "add_or_remove_one"]
DELTAS = [0.0, 1e-6]


def many(kind, delta, runs):
    """Return noise over stated std for many releases of a statistic whose exact value is 0."""
    zeros = np.zeros((4, 2))
    values = []
    for seed in range(runs):
        rows = check_rows(zeros, estimator="T")
        session = core.open_session(
            rows, estimator="T", epsilon=1.0, delta=delta, random_state=seed
        )
        if kind == "sum":
            r = session.answer(Sum(box_of(session, -1, 1)), 1.0)
            values.append(r.value / r.std)
        elif kind == "l1":
            r = session.answer(row_counts(Grid((np.array([1.0, 2.0, 3.0]),) * 2), "histogram"), 1.0)
            values.append(r.value / r.std)  # all cells are empty
        elif kind == "gram":
            g = session.answer(SecondMoment(ball_of(session, 0, 1.0)), 1.0)
            values.append([g.second_moment[0, 1] / g.std])
        elif kind == "tree":
            tree = session.answer(BoxTree(box_of(session, -1, 1), 2))
            counts, sums = tree.sums([4, 5, 6, 7], 1.0)
            empty = np.flatnonzero(tree._table.node_counts(np.arange(4, 8)) == 0)
            values.append(counts.value[empty] / counts.std)
            values.append(sums.value[empty] / sums.std[empty, None])
    return np.concatenate([np.ravel(v) for v in values])


def variance_is_one(values) -> bool:
    """Test unit variance, two-sided; false-alarm rate about 1e-6 (z = 4.9)."""
    squares = np.asarray(values) ** 2
    error = squares.std() / math.sqrt(squares.size)
    return bool(abs(squares.mean() - 1) < 4.9 * error)


@pytest.mark.statistical
@each("delta", DELTAS)
@each("kind", ["sum", "l1", "gram", "tree"])
def test_noise_has_the_stated_standard_deviation(kind, delta):
    values = many(kind, delta, runs=300 if kind == "tree" else 700)
    assert variance_is_one(values)
    assert not variance_is_one(2 / 3 * values)
    assert not variance_is_one(3 / 2 * values)


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_stated_std_is_sensitivity_over_level(adjacency):
    """The std that the previous test measures follows from the claim, in closed form."""
    factor = 2 if adjacency == "replace_one" else 1
    mu = gdp_mu(1.0, 1e-6)
    g = open_session(delta=1e-6, adjacency=adjacency)
    assert g.answer(Sum(box_of(g, -1, 1)), 0.25).std[0] == pytest.approx(
        factor * math.sqrt(2) / (mu / 2), rel=1e-4
    )
    p = open_session(adjacency=adjacency)
    # K-norm in d = 2 dimensions at epsilon / 4, of the ball: (d + 1) (Delta_2 / epsilon)^2,
    assert p.answer(Sum(ball_of(p, np.zeros(2), 1.0)), 0.25).std[0] == pytest.approx(
        math.sqrt(3) * factor * 4, rel=1e-4
    )
    # of the cube, which is less for a box: (d + 1) (d + 2) / 3 (Delta_inf / epsilon)^2.
    assert p.answer(Sum(box_of(p, -1, 1)), 0.25).std[0] == pytest.approx(
        math.sqrt(4) * factor * 4, rel=1e-4
    )
    cells = row_counts(Grid((np.array([-1.0, 0.0, 1.0]),) * 2), "histogram")
    # Discrete Laplace noise is a little narrower than the continuous one: 1 - 1 / (24 scale^2).
    assert p.answer(cells, 0.25).std == pytest.approx(math.sqrt(2) * factor * 4, rel=5e-3)


@each("adjacency", RELATIONS)
@each("delta", DELTAS)
@each("count_share", [0.05, 0.5, 0.9])
def test_joint_release_loses_exactly_what_the_share_allows(adjacency, delta, count_share):
    """Worst neighbours of the joint release, in its own distance, against its own sensitivity."""
    d, bound = 2, 1000
    session = open_session(delta=delta, adjacency=adjacency)
    exact = np.column_stack([[5, 7], np.zeros((2, d), dtype=np.int64)])
    with transcript.record() as t:
        bounds = Joint.of(adjacency, np.array([bound, bound // 2]), count_share)
        bounds.noised(session._meter, "j", exact, 0.5, 1.0)
    (entry,) = t.entries
    base = entry.exact

    def distance(change):
        return entry.distance(base, base + np.array(change))

    arrive = distance([[1, bound, 0], [0, 0, 0]])
    move = distance([[1, bound, 0], [-1, 0, bound // 2]])
    within = distance([[0, 2 * bound, 0], [0, 0, 0]])
    worst = max(move, within) if adjacency == "replace_one" else arrive
    assert worst <= entry.sensitivity * (1 + 1e-9)
    assert worst >= entry.sensitivity * (1 - 1e-3)


@each("q", [0.0, 0.25, 0.5, 1.0])
@each("adjacency", RELATIONS)
@each("delta", DELTAS)
def test_quantiles_find_their_place(q, adjacency, delta):
    rng = np.random.default_rng(0)
    big = rng.uniform(0, 1, size=(20_000, 2))
    session = open_session(big, epsilon=5.0, delta=delta, adjacency=adjacency)
    value = session.answer(CellQuantile(box_of(session, 0, 1), q), 1.0).value
    np.testing.assert_allclose(value, q, atol=0.02)


@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
def test_quantile_scores_move_by_at_most_their_sensitivity(q):
    for adjacency in RELATIONS:
        other = np.vstack([X[1:], [[5.0, -5.0]]]) if adjacency == "replace_one" else X[1:]
        entries = []
        for data in (X, other):
            session = open_session(data, adjacency=adjacency)
            with transcript.record() as t:
                session.answer(CellQuantile(box_of(session, -1, 1), q), 1.0)
            entries.append(t.entries[0])
        a, b = entries
        assert a.distance(a.exact, b.exact) <= a.sensitivity


def test_a_flat_quantile_box_and_a_flat_tree_do_not_fail():
    session = open_session(np.ones((3, 2)))
    np.testing.assert_allclose(
        session.answer(CellQuantile(box_of(session, 1, 1), 0.5), 0.5).value, 1.0
    )
    tree = session.answer(BoxTree(box_of(session, 1, 1), 3))
    assert np.isfinite(tree.sums(np.arange(8, 16), 0.5)[1].value).all()
