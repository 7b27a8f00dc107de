"""Smooth medians of blocks, against the same query of rows; progress, whatever blocks do."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import PrivacyBudget, user_code
from skdp.core import Box, UserFunction, open_session
from skdp.core.clipping import SUM_BITS
from skdp.core.transcript import record
from skdp.queries import OnBlocks, SmoothMedian, blocks
from skdp.tabular import check_labelled
from tests.views import block_mean, block_smooth_median, box_of

R, A = "replace_one", "add_or_remove_one"
BUDGETS = {R: None, A: PrivacyBudget(1e9, 0.5, adjacency=A)}
SECRET = 31337.125


def opened(X, relation=R, **level):
    rows = check_labelled(X, np.zeros(len(X)), estimator="test", allow_empty=True)
    options = {"epsilon": 1.0, "budget": BUDGETS[relation], "random_state": 0, **level}
    return open_session(rows, estimator="test", **options)


def content(X, y, seed):
    """Return the block's one row."""
    return X[0]


@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(
    values=st.lists(
        st.sampled_from([-9.0, -1.0, -0.5, 0.0, 0.1, 1.0, 7.0]), min_size=1, max_size=9
    ),
    epsilon=st.sampled_from([0.3, 1.0, 10.0]),
    noise=st.sampled_from(["cauchy", "student"]),
)
def test_the_exact_statistic_is_that_of_rows_under_replace_one(values, epsilon, noise):
    """Blocks of one row each: the values, and rungs, of the query of rows, which has an oracle."""
    X = np.array(values)[:, None]
    found = []
    for ask in (
        lambda s: s.answer(
            block_smooth_median(
                OnBlocks(UserFunction(content), len(X)), box_of(s, -1, 1), noise=noise
            )
        ),
        lambda s: s.answer(SmoothMedian(box_of(s, -1, 1), noise=noise)),
    ):
        with record() as transcript, opened(X, epsilon=epsilon) as session:
            ask(session)
        found.append(transcript.entries[0])
    np.testing.assert_array_equal(found[0].exact, found[1].exact)


@pytest.mark.parametrize("relation", [R, A])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_coordinate_has_its_part_and_is_clipped(relation, delta):
    view = Box([-1.0, 0.0, -5.0], [1.0, 8.0, 5.0], per_feature=True)
    with opened(np.zeros((60, 2)), relation, epsilon=300.0, delta=delta) as session:
        release = session.answer(
            block_smooth_median(
                OnBlocks(UserFunction(lambda X, y, seed: [0.5, 99.0, np.nan]), 30),
                view,
            )
        )
        (found,) = session.certificate().releases
    np.testing.assert_allclose(release.value, [0.5, 8.0, 0.0], atol=0.01)
    assert np.isnan(release.std).all()
    assert found.mechanism == "rounded Cauchy, smooth sensitivity"
    assert (found.mu is None) == (delta == 0)


def test_laplace_needs_a_delta_of_its_own():
    run = OnBlocks(UserFunction(content), 3)
    laplace = block_smooth_median(run, Box([0.0], [1.0]), noise="laplace")
    with opened(np.zeros((9, 1))) as session, pytest.raises(ValueError, match="not pure"):
        session.answer(laplace)
    with opened(np.zeros((9, 1)), separate_delta=1e-5) as session:
        session.answer(laplace)
        assert session.certificate().releases[0].delta == 1e-5


# --- progress -------------------------------------------------------------------------------------


class Wild:
    """Answers, fails, or ends its process, as its rows say; and prints them."""

    def __init__(self, how):
        self.how = how

    def __call__(self, X, y, seed):
        print(X)
        if np.max(X) < SECRET:
            return [1.0]
        if self.how == "dies":
            os._exit(1)
        if self.how == "raises":
            raise ValueError(f"{SECRET}")
        return "nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "n_jobs", "places"),
    [("raises", 1, (None, 0, 5)), ("answers", 1, (5,)), ("dies", 2, (5,))],
)
def test_progress_is_told_the_same_whatever_blocks_do(how, n_jobs, places, capfd):
    """Even where all blocks are run again because the process of one has died."""
    view = Box([0.0], [4.0])
    for place in places:
        X, told = np.zeros((12, 1)), []
        if place is not None:
            X[place] = SECRET

        def progress(*numbers, told=told):
            told.append(numbers)
            assert threading.current_thread() is threading.main_thread()
            print("heard")

        with record() as transcript, opened(X) as session:
            session.answer(
                block_mean(
                    OnBlocks(
                        UserFunction(Wild(how)),
                        3,
                        n_jobs=n_jobs,
                        progress=UserFunction(progress),
                    ),
                    view,
                )
            )
        assert told == [(1, 3), (2, 3), (3, 3)]
        said = "".join(capfd.readouterr())
        assert said == 3 * "heard\n"
        without = Box([0.0], [4.0], bits=SUM_BITS).map(np.ones((1, 1)))[0, 0]
        assert transcript.entries[0].exact == without * (3 if place is None else 2)


def test_what_progress_raises_has_no_context_of_the_blocks(monkeypatch):
    """Not that the backend has failed, because of a row perhaps."""

    class Fails:
        def __init__(self, **options):
            pass

        def __call__(self, calls):
            raise OSError(f"{SECRET}")

    def progress(done, n_blocks):
        if done == n_blocks:
            raise RuntimeError("enough")

    monkeypatch.setattr(blocks, "Parallel", Fails)  # and each block is run by itself then
    with opened(np.zeros((4, 1))) as session, pytest.raises(RuntimeError, match="enough") as caught:
        session.answer(
            block_mean(
                OnBlocks(UserFunction(content), 2, progress=UserFunction(progress)),
                Box([0.0], [4.0]),
            )
        )
    assert caught.value.__context__ is None
    assert not isinstance(sys.stdout, user_code._Muffled)


def test_a_thread_that_was_there_is_heard_but_not_while_it_runs_a_block():
    stream = io.StringIO()
    muffled = user_code._Muffled(stream, {threading.current_thread()})
    muffled.write("heard ")
    user_code.RUNNING.block = True
    try:
        muffled.write("not heard ")
    finally:
        user_code.RUNNING.block = False
    other = threading.Thread(target=muffled.write, args=("nor this ",))
    other.start()
    other.join()
    muffled.on = False
    muffled.write("and passed on")
    assert stream.getvalue() == "heard and passed on"


def test_output_is_dropped_without_progress_also_of_threads_that_were_there(capsys):
    """A pool of the user's that runs blocks prints rows."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(opened(np.full((6, 1), SECRET)))
        ready, done = threading.Event(), threading.Event()

        def pool():
            ready.wait()
            print(SECRET)
            done.set()

        thread = threading.Thread(target=pool)
        thread.start()

        def task(X, y, seed):
            ready.set()
            done.wait()
            return [0.0]

        with opened(np.full((6, 1), SECRET)) as session:
            session.answer(block_mean(OnBlocks(UserFunction(task), 2), Box([0.0], [1.0])))
        thread.join()
    assert capsys.readouterr().out == ""
