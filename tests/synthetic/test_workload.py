"""Workloads against dense matrices: answers, marginals, sensitivities, and the queries' noise."""

from __future__ import annotations

import gc
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skdp.budget.budget import StandInBudget
from skdp.core import noise as sampling
from skdp.core import open_session
from skdp.core.transcript import record
from skdp.exceptions import PrivacyLeakError
from skdp.queries import (
    Cells,
    Intervals,
    MarginalCells,
    Prefixes,
    SparseVector,
    Weighted,
    Workload,
    WorstMarginal,
    WorstQuery,
    marginals,
    row_counts,
    workload_answer,
)
from skdp.queries import workloads as workload
from skdp.synthetic import Domain
from skdp.tabular import check_coded, check_rows
from skdp.tabular.coding import CodedRows
from tests.folding import each

RELATIONS = ("replace_one", "add_or_remove_one")
SIZES = (3, 2, 4)
RNG = np.random.default_rng(0)
GROUPS = {
    "cells": Cells([0, 2]),
    "one cell": Cells([1, 2], np.array([5])),
    "cells twice": Cells([0], np.array([1, 1, 2])),
    "prefixes": Prefixes(2),
    "intervals": Intervals(2),
    "intervals of three": Intervals(0),
    "zeros and ones": Weighted([0, 1], RNG.integers(0, 2, (7, 6))),
    "weights": Weighted([0, 1, 2], RNG.random((4, 24))),
    "weights and ones": Weighted([2], [[1.0, 0.5, 0.25, 0.0], [1, 1, 1, 1]]),
}


def dense(groups, sizes):
    """Return the coefficients of all queries on all cells, by definition: a slow oracle."""
    cells = list(itertools.product(*map(range, sizes)))
    rows = []
    for group in groups:
        shape = [sizes[a] for a in group.attributes]
        own = [np.ravel_multi_index([cell[a] for a in group.attributes], shape) for cell in cells]
        if isinstance(group, Cells):
            index = np.arange(math.prod(shape)) if group.index is None else group.index
            rows += [[float(place == i) for place in own] for i in index]
        elif isinstance(group, Prefixes):
            rows += [[float(place <= i) for place in own] for i in range(max(shape[0] - 1, 1))]
        elif isinstance(group, Intervals):
            for i, j in itertools.combinations_with_replacement(range(shape[0]), 2):
                rows.append([float(i <= place <= j) for place in own])
        else:
            rows += [[w[place] / group.one for place in own] for w in group.weights]
    return np.array(rows)


def every_workload():
    return [[g] for g in GROUPS.values()] + [list(GROUPS.values())]


@each("groups", every_workload())
def test_answers_and_coefficients_are_the_matrix(groups):
    work = Workload(SIZES, groups)
    matrix = dense(groups, SIZES)
    assert matrix.shape == (work.n_queries, 24)
    assert np.array_equal(work.coefficients(np.arange(24)), matrix * work.one)
    some = np.array([3, 3, 23, 0])
    assert np.array_equal(work.coefficients(some), matrix[:, some] * work.one)
    table = np.random.default_rng(1).integers(0, 1000, SIZES)
    exact = work.answers(table)
    assert exact.dtype == np.int64
    assert np.array_equal(exact, matrix @ table.reshape(-1) * work.one)
    share = table / table.sum()
    assert np.allclose(work.answers(share), matrix @ share.reshape(-1), rtol=1e-12)
    for query in range(work.n_queries):
        g, place = work.locate(query)
        row = work.groups[g].coefficients(SIZES, np.array([place]))[0] / work.groups[g].one
        # Spread over the whole domain it is the query's row of the matrix.
        alone = Workload(SIZES, [Weighted(work.groups[g].attributes, row[None, :])])
        assert np.array_equal(alone.coefficients(np.arange(24))[0] / alone.one, matrix[query])


@each("groups", every_workload())
def test_a_row_moves_an_answer_by_at_most_one(groups):
    """By brute force over pairs of cells: alone, and against every other."""
    work = Workload(SIZES, groups)
    rows = work.coefficients(np.arange(24)).T  # what one row adds to all answers, by its cell
    assert rows.min() >= 0
    assert rows.max() <= work.one
    assert np.abs(rows[:, None, :] - rows[None, :, :]).max() <= work.one


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_marginals_are_sums(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
    d = len(sizes)
    sets = data.draw(
        st.lists(st.sets(st.integers(0, d - 1)).map(lambda s: tuple(sorted(s))), max_size=6)
    )
    table = np.random.default_rng(0).integers(0, 50, sizes)
    found = marginals(table, sets)
    assert set(found) == set(sets)
    for s in sets:
        axes = tuple(j for j in range(d) if j not in s)
        assert np.array_equal(found[s], table.sum(axis=axes).reshape(-1))
    assert marginals(table, []) == {}


@each(
    ("sizes", "sets"),
    [
        ((3, 2, 4), [(0,), (1, 2), (0, 1, 2), ()]),
        ((300, 300, 300, 2), [(0, 3), (1,), (2, 3), (0, 1)]),  # too many cells for a whole table
        ((2,) * 40, list(itertools.combinations(range(0, 40, 8), 2))),
    ],
)
@each("n", [0, 1, 70_000])
def test_exact_marginals_count_rows(sizes, sets, n):
    codes = np.column_stack([np.random.default_rng(j).integers(0, k, n) for j, k in
                             enumerate(sizes)])  # fmt: skip
    rows = CodedRows(codes.astype(np.uint16), sizes)
    found = workload.exact_marginals(rows, sets)
    for s in sets:
        counts = np.zeros([sizes[a] for a in s], dtype=np.int64)
        np.add.at(counts, tuple(codes[:, a] for a in s), 1)
        if not s:
            counts = np.array(n)
        assert np.array_equal(found[s], counts.reshape(-1))
        assert found[s].dtype == np.int64


def test_bad_workloads():
    with pytest.raises(ValueError, match="at least one query"):
        Workload(SIZES, [])
    with pytest.raises(ValueError, match="at least one query"):
        Workload(SIZES, [Cells([0], np.array([], dtype=int))])
    with pytest.raises(ValueError, match="table of 4000000 cells"):
        Workload((2000, 2000), [Cells([0, 1])])


# --- the queries --------------------------------------------------------------------------------

DOMAIN = Domain(list(SIZES))
X = np.column_stack([np.random.default_rng(j).integers(0, k, 40) for j, k in enumerate(SIZES)])


UNMETERED = StandInBudget("add_or_remove_one")


def opened(X, relation="replace_one", epsilon=1.0, delta=0.0):
    rows = check_coded(X, DOMAIN, estimator="Test", allow_empty=True)
    budget = None if relation == "replace_one" else UNMETERED
    return open_session(rows, estimator="Test", epsilon=epsilon, delta=delta, budget=budget)


def moved(ask, relation, X, other, delta=0.0):
    """Return by how much the exact value of a release moves, and what it declares."""
    entries = []
    for table in (X, other):
        with record() as transcript, opened(table, relation, delta=delta) as session:
            ask(session)
        (entry,) = transcript.entries
        entries.append(entry)
    return entries[0].distance(entries[0].exact, entries[1].exact), entries[0].sensitivity


ALL = Workload(SIZES, list(GROUPS.values()))
TABLES = np.concatenate(
    [np.eye(math.prod(SIZES[a] for a in s))[0] * 99 for s in ALL.attribute_sets]
)


def table_of(sizes, attributes):
    return row_counts(MarginalCells(sizes, attributes), "marginal")


def marginal(s):
    s.answer(table_of(SIZES, (0, 2)))


def measured(s):
    s.answer(workload_answer(ALL, 0))


def measured_weight(s):
    # "weights and ones": the first query is 1 in the first cell of column 2 and 0 in the last.
    s.answer(workload_answer(ALL, ALL.n_queries - 2))


def chosen(s):
    s.answer(WorstQuery(ALL, np.zeros(ALL.n_queries)))


def chosen_table(s):
    s.answer(WorstMarginal(ALL, TABLES, np.zeros(len(ALL.groups))))


def chosen_table_or_none(s):
    s.answer(WorstMarginal(ALL, TABLES, np.zeros(len(ALL.groups)), none=True))


QUERIES = [marginal, measured, measured_weight, chosen, chosen_table, chosen_table_or_none]


@pytest.mark.slow
@each("relation", RELATIONS)
@each("delta", [0.0, 1e-5])
@each("ask", QUERIES)
def test_no_pair_of_cells_moves_a_release_by_more_than_it_declares(ask, delta, relation):
    """Every pair of cells of a row; the worst attains the declared sensitivity, so it is exact."""
    ends = list(itertools.product([0, 2], [0, 1], [0, 1, 3]))
    most = 0.0
    for cell, other in itertools.product(ends, ends):
        if relation == "replace_one":
            pair = np.vstack([X[:3], cell]), np.vstack([X[:3], other])
        else:
            pair = np.vstack([X[:3], cell]), X[:3]
        distance, declared = moved(ask, relation, *pair, delta)
        assert distance <= declared * (1 + 1e-12)
        most = max(most, distance / declared)
    assert most > 0.999


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_rows_are_rows_like_others(relation):
    for ask in QUERIES:
        with opened(np.zeros((0, 3)), relation) as session:
            ask(session)


def test_an_independent_count_of_the_noise():
    """Scales and norms on the certificate are those of the claim, in user units."""
    work = Workload(SIZES, [GROUPS["weights and ones"]])
    for relation in RELATIONS:
        with opened(X, relation, epsilon=2.0) as session:
            session.answer(workload_answer(work, 1), 0.25)
            session.answer(table_of(SIZES, (0, 2)), 0.25)
            session.answer(WorstQuery(work, np.zeros(2)), 0.25)
            records = session.certificate().releases
        table = 2 if relation == "replace_one" else 1
        assert [r.sensitivity for r in records] == [1.0, table, work.one]
        assert np.allclose([r.scale for r in records[:2]], [1 / 0.5, table / 0.5])
        assert records[2].scale == 2 * work.one / 0.5


@pytest.mark.statistical
def test_answers_are_unbiased_and_their_noise_is_as_stated():
    """Mean and spread of 4000 releases, z-tests at 5 sigma: false alarms below 3e-6 each."""
    work = Workload(SIZES, [GROUPS["weights"]])
    exact = dense([GROUPS["weights"]], SIZES) @ np.bincount(
        workload.flat_codes(X, SIZES, (0, 1, 2)), minlength=24
    )
    runs = 4000
    for delta in (0.0, 1e-5):
        with opened(X, epsilon=1.0, delta=delta) as session:
            asked = [workload_answer(work, i % 4) for i in range(runs)]
            found = [session.answer(query, 1 / runs) for query in asked]
        error = np.array(
            [(r.value - exact[q.image.query]) / r.std for q, r in zip(asked, found, strict=True)]
        )
        assert np.abs(error.mean()) < 5 / math.sqrt(error.size)
        kurtosis = 2 if delta else 5
        assert abs((error**2).mean() - 1) < 5 * math.sqrt(kurtosis / error.size)
        # At two thirds of the noise it would be 0.44: found.
        assert abs(4 / 9 - 1) > 5 * math.sqrt(kurtosis / error.size)


def test_the_worst_query_is_chosen_as_the_exponential_mechanism_has_it():
    """Chi-squared at 1e-6 against exp(eta |error|); epsilon 2/3 and 3/2 as large are rejected."""
    work = Workload((3, 2), [Cells([0]), Weighted([1], [[0.5, 1.0]])])
    domain = Domain([3, 2])
    table = np.array([[0, 1]] * 3 + [[1, 0]])
    answers = np.array([1.0, 1.0, 1.5, 2.0])
    exact = np.array([3.0, 1.0, 0.0, 3.5])
    runs, epsilon = 4000, 2.0
    rows = check_coded(table, domain, estimator="Test")
    with open_session(rows, estimator="Test", epsilon=epsilon * runs, delta=0.0) as session:
        worst = WorstQuery(work, answers)
        found = np.bincount([session.answer(worst, 1 / runs) for _ in range(runs)], minlength=4)

    def tail(epsilon):
        p = np.exp(epsilon / 2 * np.abs(exact - answers))
        return stats.chisquare(found, runs * p / p.sum()).pvalue

    assert tail(epsilon) > 1e-6
    assert tail(epsilon * 2 / 3) < 1e-6
    assert tail(epsilon * 3 / 2) < 1e-6


def test_the_worst_marginal_is_chosen_by_its_distance_and_its_penalty():
    work = Workload((3, 2), [Cells([0]), Cells([1]), Cells([0, 1])])
    rows = check_coded(np.array([[0, 1]] * 5), Domain([3, 2]), estimator="Test")
    public = np.array([5.0, 0, 0, 1, 2, *np.zeros(6)])
    # Distances 0, 1 + 3, 5.
    for penalties, best in (([0, 0, 0], 2), ([0, 2, 0], 2), ([0, 0, 3], 1), ([-9, 9, 9], 0)):
        with open_session(rows, estimator="Test", epsilon=1000.0, delta=0.0) as session:
            assert session.answer(WorstMarginal(work, public, penalties)) == best
    for penalties, best in (([0, 1, 6], 1), ([1, 5, 6], None)):  # none has the score 0
        with open_session(rows, estimator="Test", epsilon=1000.0, delta=0.0) as session:
            assert session.answer(WorstMarginal(work, public, penalties, none=True)) == best


def test_large_public_answers_do_not_overflow():
    with opened(X) as session:
        for value in (1e300, -np.inf):
            chosen = session.answer(WorstQuery(ALL, np.full(ALL.n_queries, value)), 0.3)
            assert 0 <= chosen < ALL.n_queries


def test_rows_must_be_coded_by_the_workload_s_domain():
    other = Workload((3, 2), [Cells([0])])
    with opened(X) as session:
        with pytest.raises(PrivacyLeakError, match="not coded"):
            session.answer(workload_answer(other, 0), 0.125)
        with pytest.raises(PrivacyLeakError, match="too large"):
            session.answer(table_of(SIZES, (2,) * 11), 0.125)
        # What fails on the rows is paid for, and not what public facts refuse.
        assert session.remaining == 0.875
    plain = check_rows(X, estimator="Test")
    session = open_session(plain, estimator="Test", epsilon=1.0, delta=0.0)
    with session, pytest.raises(PrivacyLeakError, match="not coded"):
        session.answer(workload_answer(ALL, 0))


def test_public_numbers_of_another_shape_are_refused():
    """Numbers that numpy would repeat weigh a count more than once."""
    answers, penalties = np.zeros(ALL.n_queries), np.zeros(len(ALL.groups))
    with opened(X) as session:
        for wrong in (
            WorstQuery(ALL, np.zeros((2, ALL.n_queries))),
            WorstQuery(ALL, answers[:1]),
            WorstMarginal(ALL, np.tile(TABLES, (3, 1)), penalties),
            WorstMarginal(ALL, TABLES[:-1], penalties),
            WorstMarginal(ALL, TABLES, np.zeros((2, len(ALL.groups)))),
            WorstMarginal(ALL, TABLES, 0.0),
        ):
            with pytest.raises(ValueError, match="must have shape"):
                session.answer(wrong, 0.125)
        assert session.remaining == 0.25  # what fails is paid for


def test_groups_of_others_are_refused():
    """Coefficients beyond `one` would move an answer by more than it declares."""

    class Thousandfold(Cells):
        def apply(self, table):
            return 1000 * super().apply(table)

    work = Workload(SIZES, [Thousandfold([0])])
    with opened(X) as session:
        comparisons = session.answer(SparseVector(1.0, 1), 0.5)
        for ask in (
            lambda: session.answer(workload_answer(work, 0)),
            lambda: comparisons.is_far(workload_answer(work, 0), 0.0),
        ):
            with pytest.raises(TypeError, match="Thousandfold"):
                ask()


def test_rows_are_counted_once_for_many_releases(monkeypatch):
    passes = []
    count = workload.exact_marginals
    monkeypatch.setattr(workload, "exact_marginals", lambda *a: (passes.append(1), count(*a))[1])
    work = Workload(SIZES, [GROUPS["cells"]])
    for _ in range(2):  # a session of other rows counts its own
        with opened(X) as session:
            for query in range(3):
                session.answer(workload_answer(work, query), 0.1)
                session.answer(WorstQuery(work, np.zeros(work.n_queries)), 0.1)
            kept = session._table.rows.kept
    assert len(passes) == 2
    assert len(kept) == 1
    del work
    gc.collect()
    assert len(kept) == 0


@pytest.mark.slow
def test_two_thirds_of_the_noise_is_found(monkeypatch):
    """The spread test above, on a sampler that draws at two thirds of the scale."""
    true = sampling.discrete_laplace
    monkeypatch.setattr(
        sampling, "discrete_laplace", lambda scale, *a, **k: true(scale * 2 / 3, *a, **k)
    )
    with pytest.raises(AssertionError):
        test_answers_are_unbiased_and_their_noise_is_as_stated()


@pytest.mark.parametrize("value", [2.0**62, -(2.0**62), 1e300, math.inf, math.nan])
def test_public_tables_of_any_size_keep_the_sensitivity(value):
    """Sums of huge public numbers must not wrap around where a row more moves them."""
    work = Workload((2, 2), [Cells((0,)), Cells((1,))])
    public = np.array([value, value, 0.0, 0.0])
    scores = []
    for n in (2048, 2049):
        rows = check_coded(np.zeros((n, 2)), Domain.binary(2), estimator="T")
        with record() as transcript, open_session(rows, estimator="T", epsilon=1.0) as session:
            session.answer(WorstMarginal(work, public, [value, 0.0]))
        scores.append(transcript.entries[0].exact.astype(object))
    assert np.abs(scores[0] - scores[1]).max() <= 1


def test_groups_outside_of_their_range_are_refused():
    with pytest.raises(ValueError, match="numbered from 0"):
        Cells((0,), np.array([1, -1]))
    for weights in ([[3.0, 0.0]], [[-2.0, 0.0]], [[math.nan, 0.0]]):
        with pytest.raises(ValueError, match=r"in \[0, 1\]"):
            Weighted((0,), weights)
