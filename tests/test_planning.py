"""What a plan counts on is what the session adds: noise of a share, before and in a fit."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from skdp import DPKMeans, PrivacyBudget
from skdp.core import Ball, Box, Count, Mean, RowSum, Sum, check_allowance, open_session
from skdp.core.mechanisms import Independent, Spherical
from skdp.core.sums import Values
from skdp.planning import Allowance
from skdp.queries import ColumnCells, Grid, SecondMoment, moments, row_counts
from skdp.tabular import check_rows
from tests.folding import each

X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
RELATIONS = ["replace_one", "add_or_remove_one"]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_parts_add_up_to_the_whole(delta):
    whole = DPKMeans(epsilon=0.5, delta=delta)._allowance()
    parts = [whole.part(share) for share in (0.2, 0.3, 0.5)]
    power = 1 if whole.pure else 2
    assert sum(part.level**power for part in parts) == pytest.approx(whole.level**power)
    assert whole.pure == (delta == 0)
    assert whole.pure_epsilon == 0.5 or delta > 0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_planned_noise_is_that_of_the_release(relation, delta):
    """To 5%: K-norm and Gaussian noise; rounding may add a little, and n is noisy."""
    budget = PrivacyBudget(10.0, 1e-3, adjacency=relation)
    rows = check_rows(X, estimator="test")
    with open_session(rows, estimator="test", epsilon=4.0, delta=delta, budget=budget) as session:
        share = 0.2
        planned = Allowance.left(session, share)
        assert planned.adjacency == relation
        ball = Ball(np.zeros(3), 2.0)
        mean = session.answer(Mean(ball), share)
        assert np.mean(mean.std) * 500 == pytest.approx(planned.sum_std(2.0, 3), rel=0.2)
        first, _, count = session.answer(moments(-np.ones(3), np.ones(3)), share)
        n = float(count.value)
        assert np.mean(first.std) * n == pytest.approx(planned.moments_std(3), rel=0.05)
        count = session.row_count(share)
        assert float(count.std) == pytest.approx(
            0.0 if planned.replace else planned.count_std, rel=0.1
        )
        gram = session.answer(SecondMoment(Ball(np.zeros(3), 1.0), 0.25), share)
        assert gram.noise == planned.gram_noise("auto", 4)


QUERIES = {
    "sum": Sum(Box(-np.ones(3), np.ones(3))),
    "mean": Mean(Ball(np.zeros(3), 1.0)),
    "count": Count(),
    "moments": moments(-np.ones(3), np.ones(3)),
    "cells": row_counts(Grid((np.linspace(-1, 1, 9),)), "histogram"),
    "cells of columns": row_counts(ColumnCells((np.zeros(1),) * 3), "histogram"),
    "the smaller noise": RowSum(Values(Box(-np.ones(3), np.ones(3)), 8), noise="smaller"),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [1e-4, 2.0, 1e6])
@each("name", QUERIES)
def test_the_noise_of_a_query_is_what_a_session_draws(name, relation, delta, epsilon, monkeypatch):
    """To 12 digits, whether a statistic is shortened or not."""
    drawn = []
    for kind in (Independent, Spherical):

        def noted(self, meter, label, exact, share, unit, right=kind.noised):
            answer = right(self, meter, label, exact, share, unit)
            drawn.append((answer[1] * unit, exact.size))
            return answer

        monkeypatch.setattr(kind, "noised", noted)
    budget = PrivacyBudget(1e7, 1e-3, adjacency=relation)
    rows = check_rows(X, estimator="test")
    with open_session(
        rows, estimator="test", epsilon=epsilon, delta=delta, budget=budget
    ) as session:
        planned = Allowance.left(session, 0.5).query_std(QUERIES[name])
        session.answer(QUERIES[name], 0.5)
        entries = QUERIES[name].prepared(session.terms()).entries
    std, size = drawn[-1]
    assert size == entries
    assert planned == pytest.approx(std, rel=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@each("name", QUERIES)
def test_the_noise_of_rows_that_a_filter_leaves(name, delta, monkeypatch):
    """A row is replaced, or enters or leaves: both count, as they do in the session."""
    drawn = []
    for kind in (Independent, Spherical):

        def noted(self, meter, label, exact, share, unit, right=kind.noised):
            answer = right(self, meter, label, exact, share, unit)
            drawn.append(answer[1] * unit)
            return answer

        monkeypatch.setattr(kind, "noised", noted)
    rows = copy.copy(check_rows(X, estimator="test"))
    rows.filtered = True
    budget = PrivacyBudget(1e7, 1e-3)
    with open_session(rows, estimator="test", epsilon=2.0, delta=delta, budget=budget) as session:
        session.answer(QUERIES[name])
    mu = check_allowance(2.0, delta)
    planned = Allowance(2.0, mu, "add_or_remove_one", replaces=True).query_std(QUERIES[name])
    assert planned == pytest.approx(drawn[-1], rel=1e-9)
    added = Allowance(2.0, mu, "add_or_remove_one").query_std(QUERIES[name])
    assert name == "count" or added < 0.999 * planned
    assert Allowance(2.0, mu, "replace_one", replaces=True).query_std(QUERIES[name]) == Allowance(
        2.0, mu, "replace_one"
    ).query_std(QUERIES[name])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mu", [None, 0.3])
@pytest.mark.parametrize("d", [1, 20])
def test_the_noise_of_a_variance_is_that_of_both_moments(relation, mu, d):
    planned = Allowance(1.0, mu, relation)
    factors = moments(-np.ones(d), np.ones(d)).prepared(planned._terms).image.factors
    part = factors[0] / factors[1]
    expected = planned.moments_std(d) * np.hypot(1.0, part)
    assert planned.variance_std(d) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mu", [None, 0.3])
@pytest.mark.parametrize("d", [1, 3, 40])
def test_formulas_of_a_norm_are_those_of_the_queries(relation, mu, d):
    planned = Allowance(0.1, mu, relation)
    for formula, query in (
        (planned.sum_std(1.0, d), Mean(Ball(np.zeros(d), 1.0))),
        (planned.moments_std(d), moments(-np.ones(d), np.ones(d))),
        (planned.count_std, row_counts(Grid((np.linspace(-1, 1, 9),)), "histogram")),
        (planned.cell_std, row_counts(Grid((np.linspace(-1, 1, 9),)), "histogram")),
    ):
        # Of a count, the formula has no rounding to whole numbers.
        rel = 1e-3 if formula == planned.count_std else 1e-8
        assert formula == pytest.approx(planned.query_std(query), rel=rel)
    absolute = planned.cell_std * np.sqrt(2 / np.pi) if mu else planned.count_std / np.sqrt(2)
    assert planned.mean_cell_noise == pytest.approx(absolute)
