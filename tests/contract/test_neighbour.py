"""Neighbours: no exact statistic moves by more than its declared sensitivity, some by all of it.

Every estimator on drawn and on adversarial pairs of neighbouring tables; every query of a session
on its worst pair, where the sensitivity must be attained, so that the check can fail. That it finds
queries which are broken on purpose, `test_broken_queries` shows.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from cases import DELTAS, RELATIONS, make, of_every_pair, thinned
from estimators import CASES
from hypothesis import given, settings
from neighbours import D, check_neighbours, neighbours, tables, worst_pairs
from toys import OneRelease
from worst_queries import CORNERS, QUERIES, WHOLE, assigned, laplace_pair, release_case

from skdp.audit import neighbour_check
from skdp.budget import PrivacyBudget
from skdp.core import mechanisms
from skdp.core import session as session_module
from skdp.core.query import Choice, Derived, Measurement, Query, reviewed_types
from skdp.core.sums import Image, RowCells, RowSum


@of_every_pair
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_drawn_neighbours(case, pairs):
    for delta, relation in pairs:
        check_drawn(case, delta, relation, len(thinned(range(8), pairs)))


def check_drawn(case, delta, relation, examples):
    """Compare neighbours that hypothesis draws, the same ones in every run."""
    estimator = make(case, delta, relation)

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @given(pair=neighbours(relation, case.n_features))
    def check(pair):
        check_neighbours(estimator, case, *pair)

    check()


@of_every_pair
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_adversarial_neighbours(case, pairs):
    for delta, relation in pairs:
        check_adversarial(case, delta, relation, pairs)


def check_adversarial(case, delta, relation, pairs):
    """Compare the worst pairs of rows among others."""
    estimator, d = make(case, delta, relation), case.n_features
    # Others that sit still, that stretch the learned bounds, and that lie on the first row.
    tables = itertools.cycle(
        itertools.product((0, 2, 3), (np.zeros((3, d)), np.full((3, d), -7.5), np.eye(3, d)))
    )
    for x, moved in thinned(worst_pairs(d).values(), pairs):
        place, others = next(tables)
        X = np.insert(others, place, x, axis=0)
        changed = np.insert(others, place, moved, axis=0)
        other = changed if relation == "replace_one" else others
        check_neighbours(estimator, case, X, other)


@pytest.mark.parametrize("name", dict.fromkeys(query[0] for query in QUERIES))
def test_a_sensitivity_is_attained(name):
    for _, ask, deltas, relations, pair, least in (query for query in QUERIES if query[0] == name):
        for delta, relation in itertools.product(deltas, relations):
            worst = tables(relation, *(laplace_pair() if pair is None else pair))
            found = neighbour_check(release_case(name, ask, relation, delta), *worst)
            assert found
            for _, distance, sensitivity in found:
                assert distance >= least * sensitivity, (delta, relation)


@pytest.mark.parametrize(
    ("name", "ask", "delta", "relation", "X", "other", "least"),
    [
        pytest.param(name, ask, delta, relation, X, other, least, id=f"{name}-{delta}")
        for name, ask, deltas, relation, X, other, least in WHOLE
        for delta in deltas
    ],
)
def test_a_sensitivity_is_attained_by_whole_tables(name, ask, delta, relation, X, other, least):
    found = neighbour_check(release_case(name, ask, relation, delta), X, other)
    assert max(distance / sensitivity for _, distance, sensitivity in found) >= least


TESTS = Path(__file__).parents[1]

# Queries, and images of rows, whose neighbour tests need rows of their own: where they are.
ELSEWHERE = {
    "BasisOfRow": "queries/test_kernel_queries.py",
    "Beyond": "contract/test_users.py",
    "KernelFeatures": "queries/test_kernel_queries.py",
    "BestOfRuns": "queries/test_best_of_runs.py",
    "CodedScoreCells": "base/test_calibration.py",
    "KernelMean": "queries/test_kernel_queries.py",
    "KeyQuantiles": "queries/test_key_quantiles.py",
    "KeyTotals": "queries/test_key_totals.py",
    "LeftOut": "queries/test_key_totals.py",
    "LogisticMinimiser": "queries/test_logistic.py",
    "LogisticObjective": "queries/test_objective.py",
    "FilledCells": "test_impute.py",
    "NoisySample": "queries/test_samples.py",
    "PublishedRows": "queries/test_samples.py",
    "OfColumn": "test_impute.py",
    "PresentValues": "test_impute.py",
    "RowsPerUnit": "core/test_units.py",
    "CountedKeys": "queries/test_counted_keys.py",
    "SelectKeys": "queries/test_key_selection.py",
    "UnitShapes": "queries/test_key_totals.py",
    "UnitSpread": "queries/test_key_totals.py",
}


def test_every_query_is_here(monkeypatch):
    """Every type of query, image and cells is asked above, or in the file that is named."""
    asked = set()
    check = session_module.check_query

    def noted_query(query):
        asked.add(type(query))
        if type(query) is RowSum:
            asked.update({type(query.image), type(query.cells)} - {type(None)})
        return check(query)

    monkeypatch.setattr(session_module, "check_query", noted_query)
    asked_kinds = Query | Choice | Measurement | Derived | Image | RowCells
    kinds = {kind for kind in reviewed_types() if issubclass(kind, asked_kinds)}
    made_by = {
        "BasisOfRow": "basis_mean",
        "Beyond": "rows_beyond",
        "KernelFeatures": "feature_means",
        "PresentValues": "present_means",
    }
    for name, file in ELSEWHERE.items():
        assert f"{made_by.get(name, name)}(" in (TESTS / file).read_text()
    budgets = {relation: PrivacyBudget(1e6, 0.5, adjacency=relation) for relation in RELATIONS}
    cases = [(*entry[:3], entry[3][0], np.zeros((3, D))) for entry in QUERIES]
    for name, ask, deltas, relation, X in cases + [entry[:5] for entry in WHOLE]:
        release_case(name, ask, relation, deltas[0]).set_params(budget=budgets[relation]).fit(X)
    kinds = {kind for kind in kinds if kind.__name__ not in ELSEWHERE}
    assert len(kinds) > 10
    assert {kind for kind in asked if kind.__name__ not in ELSEWHERE} == kinds


def test_a_free_count_is_no_release():
    """Under replace-one the number of rows is public; nothing is released for it."""
    release = OneRelease(lambda s: s.row_count().value)
    assert neighbour_check(release, *tables("replace_one", *CORNERS)) == []


def test_a_row_that_stays_in_its_group_moves_less_than_declared():
    """Under replace-one a joint release is calibrated to a row that changes its group."""
    stays = np.array([1.0, 0.5, 0.0]), np.array([1.0, -0.5, 0.0])
    for delta in DELTAS:
        found = neighbour_check(OneRelease(assigned, delta=delta), *tables("replace_one", *stays))
        for _, distance, sensitivity in found:
            assert 0.4 < distance / sensitivity <= 1.0


def test_sums_beyond_int64_are_compared_exactly():
    """Distances of Python integers: 2**80 and one more differ by one."""
    for distance in (mechanisms.l1, mechanisms.l2):
        a = np.array([2**80, -(2**80)], dtype=object)
        assert distance(a, a + np.array([0, 1], dtype=object)) == 1.0
