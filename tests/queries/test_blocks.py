"""User code on disjoint blocks: one row, one block, one vote; nothing else leaves a block."""

from __future__ import annotations

import math
import random

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import PrivacyBudget, config_context
from skdp.core import Box, Count, Unit, UserFunction, open_session
from skdp.core.transcript import record, replay
from skdp.exceptions import PrivacyLeakError, SeededNoiseWarning
from skdp.queries import BlockVotes, OfBlocks, OnBlocks
from skdp.tabular import check_labelled
from tests.folding import each
from tests.queries.blocks import A, Collects, First, R, opened, relations, rows_of, sums
from tests.views import block_mean, block_median

LEVELS = [(1.0, 0.0), (1.0, 1e-5)]

levels = pytest.mark.parametrize(("epsilon", "delta"), LEVELS)


def tables(relation):
    X = np.random.default_rng(0).uniform(size=(40, 2))
    big = X.copy()
    big[7] = 1e6
    return big, (X if relation == R else np.delete(X, 7, axis=0))


def moved(ask, relation, **level):
    """Return distance over sensitivity of the only release, on a pair where a model flips."""
    X, other = tables(relation)
    with record() as transcript, opened(rows_of(X), relation, **level) as session:
        ask(session)
    with replay(transcript) as second, opened(rows_of(other), relation, **level) as session:
        ask(session)
    (a,), (b,) = transcript.entries, second.entries
    return a.distance(a.exact, b.exact) / a.sensitivity


@relations
@levels
@each("n_blocks", [1, 3, 9])
@each("n_classes", [2, 3])
def test_votes_move_by_their_sensitivity(relation, epsilon, delta, n_blocks, n_classes):
    def ask(session):
        session.answer(BlockVotes(OnBlocks(UserFunction(First(4, 0, 1)), n_blocks), 4, n_classes))

    assert 0.999 < moved(ask, relation, epsilon=epsilon, delta=delta) <= 1.0


@relations
@levels
@each("query", [block_mean, block_median, None])
def test_a_unit_moves_as_many_blocks_as_it_has_rows(relation, epsilon, delta, query):
    """Not twice as many where its rows are replaced."""
    X, users = np.random.default_rng(0).uniform(size=(40, 2)), np.arange(40) // 2
    big, own = X.copy(), users == 3
    big[own] = [[1e6], [2e6]]
    pair = (X, users) if relation == R else (X[~own], users[~own])
    run = OnBlocks(UserFunction(First(3, -1e300, 1e300) if query else First(3, 0, 1)), 200)
    box = Box([-1.0, 0.0, -5.0], [1.0, 8.0, 5.0], per_feature=True)
    transcripts = []
    for table, ids in ((big, users), pair):
        budget = PrivacyBudget(10.0, 0.1, adjacency=relation, unit="user")
        rows = rows_of(table).of_units(ids, "test", relation)
        replayed = replay(transcripts[0]) if transcripts else record()
        with (
            replayed as transcript,
            config_context(noise="seeded"),
            pytest.warns(SeededNoiseWarning),
            open_session(
                rows, estimator="test", epsilon=epsilon, delta=delta, budget=budget,
                random_state=0, unit=Unit("user", 2),
            ) as session,
        ):  # fmt: skip
            session.answer(query(run, box) if query else BlockVotes(run, 3, 3))
        transcripts.append(transcript)
    (a,), (b,) = (transcript.entries for transcript in transcripts)
    assert 0.999 < a.distance(a.exact, b.exact) / a.sensitivity <= 1.0


@relations
@levels
def test_an_abstention_moves_less(relation, epsilon, delta):
    def ask(session):
        session.answer(BlockVotes(OnBlocks(UserFunction(First(4, -1, 1)), 3), 4, 2))

    assert 0.499 < moved(ask, relation, epsilon=epsilon, delta=delta) <= 0.5


@relations
@levels
@each("query", [block_mean, block_median])
def test_vectors_move_by_their_sensitivity(relation, epsilon, delta, query):
    view = Box([-1.0, 0.0, -5.0], [1.0, 8.0, 5.0], per_feature=True)

    def ask(session):
        task = UserFunction(First(3, -1e300, np.finfo(float).max))
        session.answer(query(OnBlocks(task, 5), view))

    assert 0.999 < moved(ask, relation, epsilon=epsilon, delta=delta) <= 1.0


@pytest.mark.slow
@relations
def test_no_release_moves_further_on_drawn_neighbours(relation):
    """Whatever the blocks answer, abstentions and exceptions among it."""

    def task(X, y, seed):
        kind = int(abs(X.sum() * 1e4)) % 5
        if kind == 0:
            raise RuntimeError
        return np.array([kind - 1, X.sum(), np.nan, 1e308 * kind, 2.0])[:3]

    view = Box([-1, -1, -1], [1, 1, 1])
    rng = np.random.default_rng(0)
    for _ in range(30):
        X = rng.normal(size=(12, 2))
        place = rng.integers(12)
        other = np.delete(X, place, axis=0)
        if relation == R:
            other = X.copy()
            other[place] = rng.normal(size=2)
        with record() as transcript, opened(rows_of(X), relation) as s:
            ask_all(s, task, view)
        with replay(transcript) as second, opened(rows_of(other), relation) as s:
            ask_all(s, task, view)
        for a, b in zip(transcript.entries, second.entries, strict=True):
            assert a.distance(a.exact, b.exact) <= a.sensitivity


def ask_all(s, task, view):
    s.answer(BlockVotes(OnBlocks(UserFunction(task), 4), 3, 2), 0.25)
    s.answer(BlockVotes(OnBlocks(UserFunction(task), 4), 3, 4), 0.25)
    s.answer(block_mean(OnBlocks(UserFunction(task), 4), view), 0.25)
    s.answer(block_median(OnBlocks(UserFunction(task), 4), view), 0.25)


# --- every row in exactly one block ---------------------------------------------------------------


@relations
@each("seed", [None, 0])
@each(("n", "n_blocks"), [(100, 7), (5, 5), (3, 10), (1, 1), (100, 1)])
def test_every_row_is_in_exactly_one_block(relation, seed, n, n_blocks):
    X = np.arange(2 * n, dtype=float).reshape(n, 2)
    task = Collects()
    with opened(rows_of(X, np.arange(n)), relation, seed=seed) as session:
        session.answer(block_mean(OnBlocks(UserFunction(task), n_blocks), Box([0], [1])))
    assert len(task.seen) == n_blocks
    found = np.vstack([X for X, _, _ in task.seen])
    assert sorted(map(tuple, found)) == sorted(map(tuple, X))
    for part, labels, _ in task.seen:
        np.testing.assert_array_equal(part[:, 0], 2 * labels)  # labels go with their rows
    sizes = [len(part) for part, _, _ in task.seen]
    if relation == R:  # sizes are public
        assert max(sizes) - min(sizes) <= 1


def test_blocks_of_private_length_have_binomial_sizes():
    """Each row draws for itself: chi-square over 16 blocks, false alarm 1e-9; twice unlike."""
    X = np.zeros((8000, 1))
    drawn = []
    for _ in range(2):
        task = Collects()
        with opened(rows_of(X), A, seed=None) as session:
            session.answer(block_mean(OnBlocks(UserFunction(task), 16), Box([0], [1])))
        drawn.append([len(part) for part, _, _ in task.seen])
    for sizes in drawn:
        assert np.sum((np.array(sizes) - 500) ** 2 / 500) < 75  # 15 degrees of freedom
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("place", [0, 17, 39])
def test_a_row_less_changes_one_block_also_among_equal_rows(place):
    """Under add-or-remove-one with a seed, which audits compare."""
    X = np.repeat(np.arange(8.0), 5)[:, None]
    contents = []
    for table in (X, np.delete(X, place, axis=0)):
        task = Collects()
        with record(), opened(rows_of(table), A) as session:
            session.answer(block_mean(OnBlocks(UserFunction(task), 6), Box([0], [1])))
        contents.append([part.tobytes() for part, _, _ in task.seen])
    assert sum(a != b for a, b in zip(*contents, strict=True)) == 1


def test_a_row_replaced_changes_one_block():
    X = np.arange(40.0)[:, None]
    other = X.copy()
    other[13] = -1
    contents = []
    for table in (X, other):
        task = Collects()
        with opened(rows_of(table), R) as session:
            session.answer(block_mean(OnBlocks(UserFunction(task), 6), Box([0], [1])))
        contents.append([part.tobytes() for part, _, _ in task.seen])
    assert sum(a != b for a, b in zip(*contents, strict=True)) == 1


# --- what user code is given --------------------------------------------------------------------


class Looks:
    def __init__(self):
        self.found = None

    def __call__(self, X, y, seed):
        self.found = X
        X[:] = 0.0  # a copy, so it is no matter
        return [0.0]


@relations
@pytest.mark.parametrize("n_blocks", [1, 3])
def test_a_block_is_a_copy_without_a_base(relation, n_blocks):
    X = np.random.default_rng(0).normal(size=(9, 2))
    before, task = X.copy(), Looks()
    with opened(rows_of(X), relation, seed=None) as session:
        session.answer(block_mean(OnBlocks(UserFunction(task), n_blocks), Box([0], [1])))
    np.testing.assert_array_equal(X, before)
    assert task.found.base is None


@relations
def test_a_table_keeps_its_columns_and_nothing_else(relation):
    """Neither the index, which counts rows, nor a dtype that other rows decide."""
    X = pd.DataFrame({"a": [1, 2, 3, 4], "b": [0.5, 1, 2, 3]}, index=[10, 20, 30, 40])
    X.attrs["n"] = 4
    found = []

    def task(X, y, seed):
        found.append(X)
        return [0.0]

    rows = check_labelled(X, np.zeros(4), estimator="test", allow_empty=True)
    with opened(rows, relation, seed=None) as session:
        session.answer(block_mean(OnBlocks(UserFunction(task), 2), Box([0], [1])))
    for part in found:
        assert list(part.columns) == ["a", "b"]
        assert list(part.index) == list(range(len(part)))
        assert set(part.dtypes) == {np.dtype(float)}
        assert part.attrs == {}


def test_polars_tables():
    X = pl.DataFrame({"a": [1, 2, 3, 4], "b": [0.5, 1, 2, 3]})
    found = []

    def task(X, y, seed):
        found.append(X)
        return [0.0]

    rows = check_labelled(X, pl.Series([1, 2, 3, 4]), estimator="test")
    with opened(rows) as session:
        session.answer(block_mean(OnBlocks(UserFunction(task), 2), Box([0], [1])))
    assert all(part.columns == ["a", "b"] for part in found)
    assert sorted(v for part in found for v in part["a"]) == [1, 2, 3, 4]


# --- what is released -------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_many_blocks_give_the_majority(delta, n_classes):
    def task(X, y, seed):
        return [0, 1, n_classes - 1, -1 if seed % 3 else 1]

    with opened(rows_of(np.zeros((400, 1))), epsilon=20.0, delta=delta) as session:
        winners, votes = session.answer(BlockVotes(OnBlocks(UserFunction(task), 400), 4, n_classes))
    assert winners.tolist() == [0, 1, n_classes - 1, 1]
    assert (votes is None) == (n_classes == 3 and delta == 0)
    if votes is not None:
        assert votes.value.argmax(axis=1).tolist() == winners.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("query", [block_mean, block_median])
def test_vectors_are_aggregated_in_user_units(query):
    def task(X, y, seed):
        return [0.25, 7.0, 1e9]

    view = Box([-1, -10, 0], [1, 10, 100], per_feature=True)
    with opened(rows_of(np.zeros((2000, 1))), epsilon=10.0) as session:
        value = session.answer(query(OnBlocks(UserFunction(task), 2000), view)).value
    np.testing.assert_allclose(value, [0.25, 7.0, 100.0], atol=0.05 * 100)
    np.testing.assert_allclose(value[:2], [0.25, 7.0], atol=0.1)


def test_the_median_is_the_median_of_the_blocks():
    """Against a sort: at a large epsilon the cell of a value of middle rank."""
    X = np.random.default_rng(1).uniform(0, 10, size=(31, 1))

    def task(X, y, seed):
        return [X[0, 0]]

    with opened(rows_of(X), epsilon=2000.0) as session:
        value = session.answer(
            block_median(
                OnBlocks(UserFunction(task), 31),
                Box([0], [10]),
                n_cells=10_000,
            )
        ).value[0]
    assert value == pytest.approx(np.median(X), abs=0.002)


@pytest.mark.statistical
def test_noise_of_the_median_at_two_thirds_would_show():
    """The distribution over cells against the exact one; chi-square, false alarm 1e-6.

    Noise at two thirds is missed with a probability of .0024, at three halves with 1e-12.
    """
    epsilon, n_blocks, n_cells, n_runs = 2.0, 4, 4, 2000

    def task(X, y, seed):
        return [X[0, 0]]

    X = np.array([0.1, 0.35, 0.6, 0.6])[:, None]
    below, inside = np.array([0, 1, 2, 4]), np.array([1, 1, 2, 0])
    dist = np.maximum(np.maximum(below - 2, 2 - below - inside), 0)
    found = np.zeros(n_cells)
    for seed in range(n_runs):
        with opened(rows_of(X), epsilon=epsilon, seed=seed) as session:
            value = session.answer(
                block_median(
                    OnBlocks(UserFunction(task), n_blocks),
                    Box([0], [1]),
                    n_cells=n_cells,
                )
            )
        found[min(int(value.value[0] * n_cells), n_cells - 1)] += 1

    def chi2(scale):
        p = np.exp(-epsilon / 2 * scale * dist)
        expected = n_runs * p / p.sum()
        return np.sum((found - expected) ** 2 / expected)

    assert chi2(1.0) < 31  # 3 degrees of freedom
    assert chi2(2 / 3) > 31
    assert chi2(3 / 2) > 31


@relations
def test_no_rows_at_all_give_an_answer(relation):
    if relation == R:
        return
    with opened(rows_of(np.empty((0, 2))), relation, seed=None) as session:
        winners, _ = session.answer(
            BlockVotes(OnBlocks(UserFunction(First(3, 0, 1)), 4), 3, 2), 0.5
        )
        mean = session.answer(
            block_mean(OnBlocks(UserFunction(sums), 4), Box([0] * 3, [1] * 3)),
            0.5,
        ).value
    assert set(winners.tolist()) <= {0, 1}
    assert np.isfinite(mean).all()


def test_certificate_and_scale():
    with opened(rows_of(np.zeros((9, 1))), epsilon=2.0) as session:
        session.answer(BlockVotes(OnBlocks(UserFunction(First(4, 0, 1)), 3), 4, 2))
        (entry,) = session.certificate().releases
    assert entry.sensitivity == pytest.approx(2 * math.sqrt(4), rel=1e-3)
    assert entry.scale == pytest.approx(2 * math.sqrt(4) / 2.0, rel=1e-3)


@pytest.mark.parametrize("n_blocks", [0, -1, 2.0, True])
def test_bad_numbers_of_blocks(n_blocks):
    with opened(rows_of(np.zeros((9, 1)))) as s, pytest.raises((TypeError, ValueError)):
        s.answer(BlockVotes(OnBlocks(UserFunction(First(1, 0, 1)), n_blocks), 1, 2))


def test_no_second_release_beyond_the_allowance():
    with opened(rows_of(np.zeros((9, 1)))) as session:
        session.answer(BlockVotes(OnBlocks(UserFunction(First(1, 0, 1)), 2), 1, 2), 0.6)
        with pytest.raises(PrivacyLeakError):
            session.answer(
                BlockVotes(OnBlocks(UserFunction(First(1, 0, 1)), 2), 1, 2),
                0.6,
            )


# --- what blocks may ask and share -------------------------------------------------------------


@pytest.mark.parametrize("n_jobs, backend", [(None, "loky"), (2, "loky"), (2, "threading")])
def test_blocks_share_no_random_generator(n_jobs, backend):
    """How much a block draws must not reach the next one, nor what the caller draws later."""

    def draw():
        return random.random() + np.random.rand()

    def task(X, y, seed):
        if X.max() > 5:
            draw()
        return [round(draw())] * 3

    def run(table):
        np.random.seed(0)
        random.seed(0)
        with (
            record() as transcript,
            opened(rows_of(table)) as session,
            joblib.parallel_config(backend),
        ):
            session.answer(BlockVotes(OnBlocks(UserFunction(task), 4, n_jobs=n_jobs), 3, 3))
        return transcript.entries[0].exact, draw()

    table = np.zeros((40, 1))
    one, other = run(table), run(np.where(np.arange(40)[:, None] == 7, 9.0, table))
    assert np.abs(one[0] - other[0]).sum(axis=1).max() <= 2
    assert one[1] == other[1]


def test_only_queries_of_rows_are_asked_of_blocks():
    """What reads labels or runs code finds neither in the answers; nothing is spent."""
    run = OnBlocks(UserFunction(lambda X, y, seed: [0.0]), 4)
    with opened(rows_of(np.zeros((9, 1)))) as session:
        for query in (Count(), block_mean(run, Box([0], [1]))):
            with pytest.raises(TypeError, match="must be a Sum or Mean of a view, CellQuantile or"):
                session.answer(OfBlocks(run, query))
        assert session.remaining == 1
        session.answer(block_mean(run, Box([0], [1])))
        (found,) = session.certificate().releases
    assert found.query == "skdp.queries.blocks.OfBlocks, skdp.core.sums.RowSum: clipped values"
