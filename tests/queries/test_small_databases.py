"""Small tables: sensitivity of the score, exact distributions, refusals before the charge."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import PrivacyBudget, core
from skdp.budget import gdp_mu
from skdp.budget.budget import StandInBudget
from skdp.core import transcript
from skdp.core.privacy_filter import Meter
from skdp.loss import conversions
from skdp.queries import (
    Cells,
    Prefixes,
    SmallTable,
    ThresholdTable,
    Weighted,
    Workload,
    check_small_tables,
    check_threshold_tables,
    n_multisets,
    public_tables,
    table_rate,
)
from skdp.queries import small_databases as small_tables
from skdp.tabular import Domain, check_coded, check_rows
from tests.folding import each
from tests.queries.test_quantile_distributions import is_like

R, A = "replace_one", "add_or_remove_one"

SIZES = (2, 3)
WORKLOAD = Workload(SIZES, [Cells((0,)), Cells((0, 1), np.array([1, 4])), Prefixes(1)])
ROWS = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [1, 1], [0, 1], [1, 2]])


class Toy:
    """The protocol of a workload, with a dense matrix of integers in [0, one]."""

    def __init__(self, matrix, one=1):
        self.matrix, self.one = np.asarray(matrix, dtype=np.int64), one
        self.sizes, self.n_queries = (self.matrix.shape[1],), len(self.matrix)
        group = Weighted([0], np.zeros_like(self.matrix))
        vars(group).update(one=one, weights=self.matrix)
        self.groups, self.starts = (group,), np.array([0, self.n_queries])

    def answers(self, table):
        return self.matrix @ np.ravel(table)

    def coefficients(self, cells):
        return self.matrix[:, cells]


def score_of(workload, histogram, table):
    """Return the score of one table, by fractions."""
    n, m, one = int(histogram.sum()), len(table), workload.one
    answers = workload.answers(histogram).tolist()
    points = workload.coefficients(np.array(table)).sum(axis=1).tolist()
    errors = [abs(Fraction(a, one) - Fraction(n * p, m * one)) for a, p in
              zip(answers, points, strict=True)]  # fmt: skip
    return math.ceil(max(errors))


def all_tables(n_cells, size):
    return list(itertools.combinations_with_replacement(range(n_cells), size))


def histogram_of(rows, sizes=SIZES):
    cells = np.ravel_multi_index(np.asarray(rows).reshape(-1, len(sizes)).T, sizes)
    return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)


# --- the score ----------------------------------------------------------------------------------


workloads = st.integers(1, 3).flatmap(
    lambda q: st.tuples(
        st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=q, max_size=q),
    ).map(lambda parts: Toy(parts[0], one=4))
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    workload=workloads,
    counts=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    moved=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    size=st.integers(1, 3),
)
def test_the_score_has_sensitivity_one(workload, counts, moved, size):
    table = np.array(counts)
    more, replaced = table.copy(), table.copy()
    more[moved[0]] += 1
    replaced[moved[0]] += 1
    replaced[moved[1]] -= 1
    pairs = [(table, more)] + ([(table, replaced)] if replaced.min() >= 0 else [])
    for a, b in pairs:
        exact = [np.concatenate([[t.sum() * workload.one], workload.answers(t)]) for t in (a, b)]
        bound = small_tables.score_change(*exact, workload.one)
        assert bound <= 1
        for z in all_tables(4, size):
            change = score_of(workload, a, z) - score_of(workload, b, z)
            assert abs(change) <= math.ceil(bound)


def test_the_sensitivity_is_attained_both_ways():
    workload = Toy([[1, 0]])
    for a, b in [((5, 0), (4, 1)), ((5, 0), (5, 1)), ((0, 0), (1, 0))]:
        one, other = np.array(a), np.array(b)
        changes = {score_of(workload, one, z) - score_of(workload, other, z)
                   for z in all_tables(2, 1)}  # fmt: skip
        assert changes & {-1, 1}
        exact = [np.array([t.sum(), t[0]]) for t in (one, other)]
        assert small_tables.score_change(*exact, 1) == 1.0


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    workload=workloads,
    counts=st.lists(st.integers(0, 30), min_size=4, max_size=4),
    size=st.integers(1, 4),
    big=st.booleans(),
)
def test_scores_are_those_of_fractions(workload, counts, size, big):
    table = np.array(counts) * (2**56 if big else 1)  # beyond int64 in the products
    scorer = small_tables._Scorer(workload, 4, size)
    cells = small_tables.AllTables(4, size).cells(0, n_multisets(4, size))
    found = scorer.scores(cells, workload.answers(table), int(table.sum()))
    assert found.tolist() == [score_of(workload, table, z) for z in cells.tolist()]
    # Without the matrix of all coefficients, block by block.
    scorer._matrix = None
    again = scorer.scores(cells, workload.answers(table), int(table.sum()))
    assert again.tolist() == found.tolist()


@pytest.mark.parametrize(("n_cells", "size"), [(5, 3), (2, 70), (7, 1), (1, 4), (40, 3)])
def test_tables_are_numbered(n_cells, size):
    tables = small_tables.AllTables(n_cells, size)
    assert len(tables) == n_multisets(n_cells, size)
    found = np.concatenate([tables.cells(i, min(i + 50, len(tables)))
                            for i in range(0, len(tables), 50)])  # fmt: skip
    assert set(map(tuple, found.tolist())) == set(all_tables(n_cells, size))
    assert len(found) == len(tables)


# --- exact distributions ------------------------------------------------------------------------


def open_session(rows, *, relation=R, epsilon=1.0, delta=0.0, sizes=SIZES, seed=0, plain=False):
    if plain:
        table = np.asarray(rows, dtype=np.float64)
        checked = check_rows(table, estimator="T", allow_empty=True)
    else:
        domain = Domain(list(sizes))
        checked = check_coded(rows, domain, estimator="T", allow_empty=True)
    budget = StandInBudget(relation)
    return core.open_session(
        checked, estimator="T", epsilon=epsilon, delta=delta, random_state=seed, budget=budget
    )


def drawn(session, ask, tables, runs):
    """Return how often each table is released when the same share is asked for many times."""
    full = session._meter.take(None, "all")
    number = {table: i for i, table in enumerate(tables)}
    counts = np.zeros(len(tables), dtype=int)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Meter, "take", lambda *_: full)
        patched.setattr(Meter, "record", lambda *_: None)
        for _ in range(runs):
            counts[number[tuple(ask(session).tolist())]] += 1
    return counts


def small(size, candidates=None):
    return lambda s: s.answer(SmallTable(WORKLOAD, size, candidates=candidates))


def ideal(scores, eta):
    weights = np.exp(-float(eta) * np.array(scores, dtype=float))
    return weights / weights.sum()


def check_draws(counts, scores, eta):
    assert is_like(counts, ideal(scores, eta))
    for wrong in (2 / 3, 3 / 2):
        assert not is_like(counts, ideal(scores, wrong * eta))


@pytest.mark.parametrize("relation", [R, A])
def test_all_tables_are_exactly_distributed(relation):
    tables = all_tables(6, 2)
    session = open_session(ROWS, relation=relation, epsilon=3.0)
    counts = drawn(session, small(2), tables, 1200)
    check_draws(counts, [score_of(WORKLOAD, histogram_of(ROWS), z) for z in tables], 1.5)


def test_blocks_do_not_change_the_distribution(monkeypatch):
    monkeypatch.setattr(small_tables, "_BLOCK_VALUES", 20)  # four tables at once
    tables = all_tables(6, 2)
    session = open_session(ROWS, epsilon=3.0)
    counts = drawn(session, small(2), tables, 500)
    scores = [score_of(WORKLOAD, histogram_of(ROWS), z) for z in tables]
    assert is_like(counts, ideal(scores, 1.5))
    assert not is_like(counts, ideal(scores, 1.0))


def test_a_gaussian_session_has_twice_the_range():
    mu = gdp_mu(5.0, 1e-3)
    eta = conversions.pure_epsilon_from_mu(mu)  # of a choice with range 2 eta: the mu of eta
    tables = all_tables(6, 2)
    session = open_session(ROWS, epsilon=5.0, delta=1e-3)
    counts = drawn(session, small(2), tables, 1200)
    check_draws(counts, [score_of(WORKLOAD, histogram_of(ROWS), z) for z in tables], eta)
    assert float(table_rate(mu, pure=False)) == eta
    assert float(table_rate(3.0, pure=True)) == 1.5


def test_public_candidates_are_exactly_distributed():
    family = public_tables(6, 3, 8, 7)
    tables = [tuple(row) for row in family.tolist()]
    assert len(set(tables)) == 8
    session = open_session(ROWS, epsilon=3.0)
    counts = drawn(session, small(3, family), tables, 1200)
    check_draws(counts, [score_of(WORKLOAD, histogram_of(ROWS), z) for z in tables], 1.5)


def test_public_tables_are_a_function_of_their_seed():
    first = public_tables(50, 4, 3, 1)
    assert np.array_equal(first, public_tables(50, 4, 3, 1))
    assert not np.array_equal(first, public_tables(50, 4, 3, 2))
    assert first.shape == (3, 4)
    assert 0 <= first.min() <= first.max() < 50


@pytest.mark.statistical
@pytest.mark.parametrize("relation", [R, A])
def test_threshold_tables_are_exactly_distributed(relation):
    grid = np.array([0.0, 1.0, 2.5, 4.0])
    x = np.array([-3.0, 0.0, 0.5, 1.0, 1.0, 2.0, 2.5, 9.0, 9.0])
    below = np.array([2, 5, 7, 9])  # rows at most each point; the last one takes what is beyond
    tables = all_tables(4, 3)
    scores = []
    for z in tables:
        path = np.array([sum(c <= j for c in z) for j in range(4)])
        scores.append(max(math.ceil(abs(Fraction(int(a)) - Fraction(9 * int(c), 3)))
                          for a, c in zip(below, path, strict=True)))  # fmt: skip
    rows = np.column_stack([np.zeros(9), x])
    session = open_session(rows, relation=relation, epsilon=2.0, plain=True)
    ask = lambda s: s.answer(ThresholdTable(grid, 3, column=1))  # noqa: E731
    check_draws(drawn(session, ask, tables, 1200), scores, 1.0)


def test_paths_and_lists_are_one_mechanism():
    # Thresholds of one ordered column: enumeration and lattice paths score alike.
    rows = np.array([[0], [3], [3], [1], [4], [4], [4]])
    workload = Workload((5,), [Prefixes(0)])
    counts = np.bincount(rows[:, 0], minlength=5)
    for z in all_tables(5, 3):
        path = small_tables.path_score(np.cumsum(counts), np.array(z), 3)
        assert path == score_of(workload, counts, z)


# --- queries --------------------------------------------------------------------------------------


def test_releases_are_metered_and_written_down():
    session = open_session(ROWS, epsilon=1.0)
    with transcript.record() as recorded:
        session.answer(SmallTable(WORKLOAD, 2), 0.25)
        session.answer(ThresholdTable(np.arange(2.0), 3), 0.75)
    assert session.remaining == 0
    records = session.certificate().releases
    assert [r.mechanism for r in records] == ["exponential mechanism over tables"] * 2
    assert [r.epsilon for r in records] == pytest.approx([0.25, 0.75])
    assert [entry.sensitivity for entry in recorded.entries] == [1.0, 1.0]
    assert recorded.entries[0].exact.tolist() == [7, *WORKLOAD.answers(histogram_of(ROWS))]
    assert recorded.entries[1].exact.tolist() == [7, 3, 7]


@pytest.mark.parametrize("relation", [R, A])
def test_tables_without_rows(relation):
    session = open_session(np.zeros((0, 2), dtype=int), relation=relation)
    table = session.answer(SmallTable(WORKLOAD, 3), 0.5)
    assert table.shape == (3,)
    empty = open_session(np.zeros((0, 1)), relation=relation, plain=True)
    assert empty.answer(ThresholdTable(np.linspace(0, 1, 9), 4)).shape == (4,)


def test_a_table_reveals_nothing_when_replayed():
    with transcript.record() as recorded:
        first = open_session(ROWS, seed=None).answer(SmallTable(WORKLOAD, 2))
    with transcript.replay(recorded) as again:
        second = open_session(1 - ROWS.clip(0, 1), seed=None).answer(SmallTable(WORKLOAD, 2))
    assert np.array_equal(first, second)
    assert recorded.entries[0].distance(recorded.entries[0].exact, again.entries[0].exact) > 1


def of_thresholds(grid, size):
    return lambda s: s.answer(ThresholdTable(grid, size))


REFUSED = [
    (small(90), "tables of size 90 on a domain of 6 cells"),
    (small(2, [[0, 6]]), "flat cells from 0 to 5"),
    (small(2, [[0, 1, 2]]), r"shape \(n_candidates, 2\)"),
    (small(2, [[0.5, 1.0]]), "integers of shape"),
    (small(2, np.zeros((0, 2), dtype=int)), "candidates"),
    (of_thresholds(np.arange(2.0**21), 2), "2,097,152 cells is too fine"),
    (of_thresholds(np.arange(1e5), 3000), "at most a size of"),
]


@each(("ask", "text"), REFUSED)
def test_refused_before_the_allowance_is_touched(ask, text, monkeypatch):
    budget = PrivacyBudget(2.0)
    checked = check_coded(ROWS, Domain(list(SIZES)), estimator="T")
    session = core.open_session(checked, estimator="T", epsilon=1.0, budget=budget)
    with pytest.raises(ValueError, match=text):
        ask(session)
    assert session.remaining == 1


def test_rows_must_be_of_the_domain():
    session = open_session(ROWS.astype(float), plain=True)
    with pytest.raises(Exception, match="not coded by this domain"):
        session.answer(SmallTable(WORKLOAD, 2))


def test_sizes_that_are_possible():
    check_small_tables(16, 7, 100)
    check_threshold_tables(1000, 50)
    check_threshold_tables(2**20, 100)
    with pytest.raises(ValueError, match=r"about 10\*\*42 tables of size 10 on a domain of 65,536"):
        check_small_tables(2**16, 10, 100)
    with pytest.raises(ValueError, match="steps; at most"):
        check_small_tables(16, 7, 10**6)
    check_small_tables(2**16, 10, 100, n_tables=1000)
