"""User code on disjoint blocks: one row, one block, one vote; nothing else leaves a block."""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import threading
import warnings
from fractions import Fraction

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import PrivacyBudget
from skdp.core import Box, Count, UserFunction, open_session
from skdp.core.transcript import record, replay
from skdp.exceptions import PrivacyLeakError
from skdp.queries import BlockVotes, OfBlocks, OnBlocks
from skdp.tabular import check_labelled
from tests.views import block_mean, block_median

R, A = "replace_one", "add_or_remove_one"
SECRET = 31337.125
LEVELS = [(1.0, 0.0), (1.0, 1e-5)]
_BUDGETS = {A: PrivacyBudget(1e6, 0.5, adjacency=A), R: None}
relations = pytest.mark.parametrize("relation", [R, A])
levels = pytest.mark.parametrize(("epsilon", "delta"), LEVELS)
jobs = pytest.mark.parametrize("n_jobs", [1, 2])


def rows_of(X, y=None, classes=None):
    X = np.asarray(X, dtype=float)
    y = np.zeros(len(X)) if y is None else y
    return check_labelled(X, y, estimator="test", classes=classes, allow_empty=True)


def opened(rows, relation=R, *, epsilon=1.0, delta=0.0, seed=0):
    return open_session(
        rows, estimator="test", epsilon=epsilon, delta=delta, budget=_BUDGETS[relation],
        random_state=seed,
    )  # fmt: skip


class First:
    """A block's whole answer is that of its largest row: one row can turn all of it."""

    def __init__(self, width, low, high):
        self.width, self.low, self.high = width, low, high

    def __call__(self, X, y, seed):
        return np.full(self.width, self.high if np.max(X, initial=0.0) > 10 else self.low)


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
@pytest.mark.parametrize("n_blocks", [1, 3, 9])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_move_by_their_sensitivity(relation, epsilon, delta, n_blocks, n_classes):
    def ask(session):
        session.answer(BlockVotes(OnBlocks(UserFunction(First(4, 0, 1)), n_blocks), 4, n_classes))

    assert 0.999 < moved(ask, relation, epsilon=epsilon, delta=delta) <= 1.0


@relations
@levels
def test_an_abstention_moves_less(relation, epsilon, delta):
    def ask(session):
        session.answer(BlockVotes(OnBlocks(UserFunction(First(4, -1, 1)), 3), 4, 2))

    assert 0.499 < moved(ask, relation, epsilon=epsilon, delta=delta) <= 0.5


@relations
@levels
@pytest.mark.parametrize("query", [block_mean, block_median])
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


class Collects:
    """Passes everything out, which user code must not; for tests."""

    def __init__(self):
        self.seen, self.lock = [], threading.Lock()

    def __call__(self, X, y, seed):
        with self.lock:
            self.seen.append((np.asarray(X).copy(), y.copy(), seed))
        return [0.0]


@relations
@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize(("n", "n_blocks"), [(100, 7), (5, 5), (3, 10), (1, 1), (100, 1)])
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


# --- failures stay in their block -----------------------------------------------------------------


class Fails:
    """Fails for the block with the secret, in one way or another."""

    def __init__(self, how):
        self.how = how

    def __call__(self, X, y, seed):
        if np.max(X, initial=0.0) < SECRET:
            return np.ones(3)
        warnings.warn(f"a warning quotes {SECRET}", stacklevel=1)
        print(f"{SECRET}")
        sys.stderr.write(f"{SECRET}")
        if self.how == "raises":
            raise ValueError(f"an error quotes {SECRET}")
        if self.how == "exits":
            raise SystemExit(f"{SECRET}")
        if self.how == "dies":
            os._exit(1)
        return {
            "nan": np.full(3, np.nan), "shape": np.ones(4), "text": ["a", "b", "c"],
            "none": None, "scalar": 1.0, "complex": np.ones(3) * 1j, "object": object(),
        }[self.how]  # fmt: skip


HOWS = ["raises", "exits", "nan", "shape", "text", "none", "scalar", "complex", "object"]


@pytest.mark.slow
@jobs
@pytest.mark.parametrize("how", HOWS)
def test_a_failing_block_abstains_silently(how, n_jobs, capfd, recwarn):
    X = np.zeros((8, 1))
    X[3] = SECRET
    view = Box([0] * 3, [4] * 3)
    with record() as transcript, opened(rows_of(X)) as session:
        session.answer(
            BlockVotes(OnBlocks(UserFunction(Fails(how)), 4, n_jobs=n_jobs), 3, 3),
            0.5,
        )
        session.answer(
            block_mean(OnBlocks(UserFunction(Fails(how)), 4, n_jobs=n_jobs), view),
            0.5,
        )
    votes, mean = (entry.exact for entry in transcript.entries)
    np.testing.assert_array_equal(-votes, [[0, 3, 0]] * 3)  # scores are minus the votes
    # And one centre, 0.
    np.testing.assert_array_equal(mean, 3 * view.at(31).map(np.ones((1, 3)))[0])
    assert not recwarn.list
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.slow
def test_the_death_of_a_process_counts_for_its_block_only():
    """Otherwise one row would decide about the votes of all blocks."""
    X = np.zeros((8, 1))
    X[3] = SECRET
    with record() as transcript, opened(rows_of(X)) as session:
        session.answer(BlockVotes(OnBlocks(UserFunction(Fails("dies")), 4, n_jobs=2), 3, 3))
    np.testing.assert_array_equal(-transcript.entries[0].exact, [[0, 3, 0]] * 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_task_that_cannot_be_sent_to_a_process_is_run_here():
    class Local:
        def __call__(self, X, y, seed):
            return np.ones(3)

        def __reduce__(self):
            raise TypeError("no pickling")

    with record() as transcript, opened(rows_of(np.zeros((8, 1)))) as session:
        session.answer(BlockVotes(OnBlocks(UserFunction(Local()), 4, n_jobs=2), 3, 3))
    np.testing.assert_array_equal(-transcript.entries[0].exact, [[0, 4, 0]] * 3)


def test_an_interrupt_of_the_user_gets_through_and_one_of_a_row_does_not():
    def pressed(X, y, seed):
        signal.raise_signal(signal.SIGINT)

    def raised(X, y, seed):
        raise KeyboardInterrupt

    # A shell may have started the tests with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with opened(rows_of(np.zeros((8, 1)))) as session, pytest.raises(KeyboardInterrupt):
            session.answer(BlockVotes(OnBlocks(UserFunction(pressed), 4), 3, 3))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    with record() as transcript, opened(rows_of(np.zeros((8, 1)))) as session:
        session.answer(BlockVotes(OnBlocks(UserFunction(raised), 4), 3, 3))
    np.testing.assert_array_equal(transcript.entries[0].exact, np.zeros((3, 3)))


def test_code_that_runs_on_blocks_gets_no_release():
    with opened(rows_of(np.zeros((8, 1)))) as session:
        rest = []

        def task(X, y, seed):
            rest.append(session.remaining)
            return [session.row_count(0.1).value] * 3

        with record() as transcript:
            session.answer(BlockVotes(OnBlocks(UserFunction(task), 4), 3, 3), 0.5)
        assert session.remaining == Fraction(1, 2)
        assert rest == [1] * 4
    np.testing.assert_array_equal(transcript.entries[0].exact, np.zeros((3, 3)))


def test_what_a_block_runs_in_parallel_is_silent_too(capfd):
    def task(X, y, seed):
        from joblib import Parallel, delayed

        Parallel(n_jobs=2, verbose=50)(delayed(_loud)(k) for k in range(2))
        return np.ones(3)

    with opened(rows_of(np.zeros((8, 1)))) as session:
        session.answer(BlockVotes(OnBlocks(UserFunction(task), 4), 3, 3))
    assert capfd.readouterr() == ("", "")


def _loud(k):
    warnings.warn(f"cell {k}", stacklevel=1)
    print("cell", k)


@pytest.mark.slow
def test_warnings_are_as_they_were_afterwards():
    before = list(warnings.filters)
    with opened(rows_of(np.zeros((8, 1)))) as session:
        session.answer(BlockVotes(OnBlocks(UserFunction(First(1, 0, 1)), 2, n_jobs=2), 1, 2))
    assert list(warnings.filters) == before


# --- the same whatever the parallelism ------------------------------------------------------------


def sums(X, y, seed):
    return [X.sum(), y.sum(), seed % 1000]


@pytest.mark.slow
@relations
def test_n_jobs_changes_nothing(relation):
    X = np.random.default_rng(0).normal(size=(50, 2))
    found = []
    for n_jobs, backend in [(None, "loky"), (1, "loky"), (2, "loky"), (2, "threading")]:
        with (
            record() as transcript,
            opened(rows_of(X, np.arange(50)), relation) as session,
            joblib.parallel_config(backend=backend),
        ):
            session.answer(
                block_mean(
                    OnBlocks(UserFunction(sums), 5, n_jobs=n_jobs),
                    Box([-9] * 3, [999] * 3),
                )
            )
        found.append(transcript.entries[0])
    for entry in found[1:]:
        np.testing.assert_array_equal(entry.exact, found[0].exact)
        np.testing.assert_array_equal(entry.released, found[0].released)


def test_blocks_have_different_seeds_that_repeat_themselves():
    def seeds():
        task = Collects()
        with opened(rows_of(np.zeros((50, 2)))) as session:
            session.answer(block_mean(OnBlocks(UserFunction(task), 20), Box([0], [1])))
        return [seed for _, _, seed in task.seen]

    first = seeds()
    assert len(set(first)) == 20
    assert seeds() == first


def test_labels_key_the_noise_of_seeded_sessions():
    """Two fits that differ in labels only must not share noise."""
    drawn = []
    for label in (0.0, 1.0):
        with (
            record() as transcript,
            opened(rows_of(np.zeros((9, 2)), np.full(9, label))) as session,
        ):
            session.answer(block_mean(OnBlocks(UserFunction(First(1, 0, 1)), 3), Box([0], [1])))
        drawn.append(transcript.entries[0].released - transcript.entries[0].exact)
    assert drawn[0] != drawn[1]


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


# --- labels -----------------------------------------------------------------------------------


def codes_of(y, classes):
    found = check_labelled(
        np.zeros((len(y), 1)), y, estimator="test", classes=np.unique(classes), allow_empty=True
    )
    return found._y.tolist()


@pytest.mark.parametrize(
    ("y", "classes", "expected"),
    [
        ([0, 1, 2, 7, -1], [0, 1, 2], [0, 1, 2, -1, -1]),
        (np.array([0.0, 1.0, 0.5]), [0, 1], [0, 1, -1]),
        ([True, False], [False, True], [1, 0]),
        (["b", "a", "zebra", "A"], ["a", "b"], [1, 0, -1, -1]),
        (np.array(["b", "a", "long"]), ["a", "b"], [1, 0, -1]),
        (pd.Series(["b", "a", "c"], dtype="category"), ["a", "b"], [1, 0, -1]),
        (pl.Series(["b", "a", "c"]), ["a", "b"], [1, 0, -1]),
        (["a", 1, "b"], ["a", "b"], [0, -1, 1]),  # a number among text turns nothing into text
        ([0, "0", 1], [0, 1], [0, -1, 1]),
        (np.array([["a"], ["b"]]), ["a", "b"], [0, 1]),
        ([], ["a", "b"], []),
    ],
)
def test_labels_become_codes(y, classes, expected):
    assert codes_of(y, classes) == expected


class Odd:
    def __hash__(self):
        raise RuntimeError(f"{SECRET}")


@pytest.mark.parametrize(
    ("y", "classes", "text"),
    [
        (None, ["a", "b"], "requires y to be passed"),
        ([0, 1], None, "same number of rows"),
        ([0.0, np.nan, SECRET], [0, 1], "finite"),
        ([0.0, None, SECRET], [0, 1], "missing"),
        ([0.0, np.inf, SECRET], None, "finite"),
        (["a", "b", str(SECRET)], None, "real numbers"),
        ([1j, 0, 1], None, "real numbers"),
        (np.array(["2020-01-01"] * 3, dtype="M8[D]"), None, "real numbers"),
        (np.full((3, 2), SECRET), None, "one-dimensional"),
        ([[SECRET, 1]] * 3, None, "one-dimensional"),
        (7, None, "one-dimensional"),
    ],
)
def test_bad_labels_are_refused_without_a_quote(y, classes, text):
    with pytest.raises(ValueError, match=text) as caught:
        check_labelled(
            np.zeros((3, 1)), y, estimator="test",
            classes=None if classes is None else np.array(classes),
        )  # fmt: skip
    error = caught.value
    assert str(SECRET) not in f"{error} {error.__cause__} {error.__context__}"


def test_a_label_s_own_hash_may_fail():
    assert codes_of([0, Odd(), 1], [0, 1]) == [0, -1, 1]


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
            with pytest.raises(TypeError, match="must be one of Mean, CellQuantile, SmoothMedian"):
                session.answer(OfBlocks(run, query))
        assert session.remaining == 1
        session.answer(block_mean(run, Box([0], [1])))
        (found,) = session.certificate().releases
    assert found.query == "skdp.queries.blocks.OfBlocks, skdp.core.sums.Mean"
