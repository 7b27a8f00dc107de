"""Queries broken on purpose, each of which the check of neighbours must find."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import DELTAS, RELATIONS, Case, make
from neighbours import D, check_neighbours, tables
from toys import OneRelease, ToyRatio
from worst_queries import (
    CORNERS,
    assigned,
    ball,
    box,
    gram,
    leaf_sums,
    mean_of_box,
    sum_of_box,
    tau_pair,
)

from skdp.audit import neighbour_check
from skdp.budget import PrivacyBudget
from skdp.core import RowSum, Sum, session
from skdp.core import clipping as protect
from skdp.queries import grouped_sums as groups
from skdp.queries import (
    second_moments,
)
from tests.folding import each
from tests.views import ball_of, box_of


def privacy(delta, relation):
    """Return the parameters of a fit whose budget has this relation."""
    budget = PrivacyBudget(9.0, 0.5, adjacency=relation)
    return {"delta": delta, "budget": budget}


def must_be_found(ask, delta, relation, pair, match="moved further"):
    release = make(Case("broken", lambda **p: OneRelease(ask, **p)), delta, relation)
    with pytest.raises(AssertionError, match=match) as caught:
        neighbour_check(release, *tables(relation, *pair))
    return caught.value


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_box_that_does_not_clip_is_found(monkeypatch, delta, relation):
    def unclipped(self, block):
        return np.trunc((block - self.center) / self.grid)

    monkeypatch.setattr(protect.Box, "map", unclipped)
    pair = 1.01 * CORNERS[0], 1.01 * CORNERS[1]
    for ask in (sum_of_box, mean_of_box):
        error = must_be_found(ask, delta, relation, pair)
        assert "1.01" not in str(error)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_ball_clipped_in_floats_is_found(monkeypatch, delta, relation):
    """Rounding to nearest after a float clip leaves the sphere by a fraction of a step.

    On a coarse grid, where that is more than the rounding of distances.
    """

    def rounded(x, grid, radius):
        norms = np.maximum(np.linalg.norm(x, axis=1), 1e-300)[:, None]
        return np.rint(x * np.minimum(1.0, radius * grid / norms) / grid)

    monkeypatch.setattr(protect, "clip_to_norm", rounded)
    monkeypatch.setattr(protect, "NORM_BITS", 17)
    sphere = np.random.default_rng(0).normal(size=(500, D))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    longest = max(sphere, key=lambda u: np.linalg.norm(np.rint(u * 2**17)))
    pair = longest, -longest
    must_be_found(lambda s: s.answer(Sum(ball(s))).value, delta, relation, pair)


@each(
    ("owner", "function", "ask", "pair"),
    [
        (second_moments, "gram_sensitivity", gram("auto"), tau_pair(D)),
    ],
)
@each("relation", RELATIONS)
@each("delta", DELTAS)
def test_a_sensitivity_too_small_by_root_two_is_found(
    monkeypatch, owner, function, ask, pair, delta, relation
):
    correct = getattr(owner, function)
    monkeypatch.setattr(owner, function, lambda *a, **k: math.ceil(correct(*a, **k) / math.sqrt(2)))
    must_be_found(ask, delta, relation, pair)


@pytest.mark.parametrize("delta", DELTAS)
def test_add_or_remove_noise_under_replace_one_is_found(monkeypatch, delta):
    """The commonest mistake: the sensitivity of one relation under the other."""
    correct = RowSum.sensitivity
    monkeypatch.setattr(RowSum, "sensitivity", lambda query, _: correct(query, "add_or_remove_one"))
    must_be_found(mean_of_box, delta, "replace_one", CORNERS)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_residuals_that_are_not_clipped_are_found(monkeypatch, delta, relation):
    monkeypatch.setattr(groups, "round_to_norm", lambda q, radius: np.rint(q))
    must_be_found(
        assigned, delta, relation, (np.array([1.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0]))
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_rows_far_from_every_centre_move_no_further(delta, relation):
    corners = np.array([1.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0])
    neighbour_check(OneRelease(assigned, **privacy(delta, relation)), *tables(relation, *corners))


@pytest.mark.parametrize("delta", DELTAS)
def test_leaf_sums_about_the_wrong_point_are_found(monkeypatch, delta):
    """Sums about 0 instead of the leaf's centre: the sensitivity is not local any more."""
    monkeypatch.setattr(
        groups.CellTable,
        "node_sums",
        lambda self, nodes, _: (
            self._sum_prefix[self._span(nodes)[1]] - self._sum_prefix[self._span(nodes)[0]]
        ),
    )
    must_be_found(leaf_sums, delta, "add_or_remove_one", CORNERS)


def test_a_declared_sensitivity_read_from_rows_is_found():
    def ask(s):
        largest = float(np.abs(np.concatenate(list(s._table.rows.chunks()))).max())
        return s.answer(Sum(ball_of(s, 0.0, largest))).value

    release = OneRelease(ask)
    # The grid follows the radius, so both are declared in steps; the radii differ by a half.
    with pytest.raises(AssertionError, match="declared sensitivity depends on rows"):
        neighbour_check(release, *tables("replace_one", CORNERS[0], 1.5 * CORNERS[1]))


CHANGED = np.ones((4, D)), np.vstack([np.ones((3, D)), -np.ones((1, D))])


class NarrowsByNumber(ToyRatio):
    """Divides by the exact number of private rows before the noise, as if it were public."""

    def fit(self, X, y):
        self._n = int(np.sum(y))
        return super().fit(X, y)

    def _view(self, session):
        return box_of(session, self.low_, self.high_ / self._n)


class AsksByPositions(ToyRatio):
    """Asks twice if the first row of the table is private."""

    def fit(self, X, y):
        self._first = y[0]
        return super().fit(X, y)

    def _view(self, session):
        if self._first:
            session.row_count(0.1)
        return super()._view(session)


def test_the_number_of_private_rows_in_a_statistic_is_found():
    case = Case("broken", NarrowsByNumber, samples=True)
    broken = make(case, 0.0, "add_or_remove_one")
    with pytest.raises(AssertionError, match="declared sensitivity depends on rows"):
        check_neighbours(broken, case, np.ones((4, D)), np.ones((3, D)))
    check_neighbours(make(case, 0.0), case, *CHANGED)


def test_positions_of_private_rows_in_a_branch_are_found():
    case = Case("broken", AsksByPositions, samples=True)
    broken = make(case, 0.0, "add_or_remove_one")
    public, y = np.zeros((3, D)), np.array([0, 0, 0])
    with pytest.raises(AssertionError, match=r"(order|number) of releases"):
        neighbour_check(
            broken, np.vstack([public, np.ones((1, D))]), np.vstack([np.ones((2, D)), public]),
            y=np.append(y, 1), y_neighbour=np.append([1, 1], y),
        )  # fmt: skip
    check_neighbours(make(case, 0.0), case, *CHANGED)


def test_a_moved_private_row_attains_the_sensitivity_among_public_ones():
    """A worst pair of private rows, at both relations; the public rows take no part in it."""
    case = Case("toy", ToyRatio, samples=True)
    for delta in DELTAS:
        for relation, other in zip(RELATIONS, (CHANGED[1], CHANGED[0][:3]), strict=True):
            found = check_neighbours(make(case, delta, relation), case, CHANGED[0], other)
            assert len(found) == 1
            assert found[0].distance >= 0.99 * found[0].sensitivity


def test_a_number_of_releases_that_depends_on_rows_is_found():
    def ask(s):
        positive = next(iter(s._table.rows.chunks()))[-1, 0] > 0
        s.answer(Sum(box(s)), 0.5)
        return s.answer(Sum(box(s)), 0.5).value if positive else None

    with pytest.raises(AssertionError, match="number of releases"):
        neighbour_check(OneRelease(ask), *tables("replace_one", *CORNERS))
    with pytest.raises(AssertionError, match="order of releases"):
        neighbour_check(OneRelease(ask), *tables("replace_one", *CORNERS[::-1]))


def test_a_release_outside_the_transcript_is_the_replay_audit_s_to_find():
    """What passes no query leaves no distance: the audits complete each other."""
    assert session.Session.n_rows is not None
    release = OneRelease(lambda s: float(next(iter(s._table.rows.chunks())).sum()))
    assert neighbour_check(release, *tables("replace_one", *CORNERS)) == []
