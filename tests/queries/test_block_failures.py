"""User code on disjoint blocks: a failure stays in its block, and parallelism changes nothing."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from fractions import Fraction

import joblib
import numpy as np
import pytest

from skdp.core import Box, UserFunction
from skdp.core.transcript import record
from skdp.queries import BlockVotes, OnBlocks
from tests.folding import each
from tests.queries.blocks import Collects, First, opened, relations, rows_of, sums
from tests.views import block_mean

SECRET = 31337.125

jobs = pytest.mark.parametrize("n_jobs", [1, 2])


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
@each("how", HOWS)
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
