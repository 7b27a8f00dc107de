"""User code on rows: nothing of one row reaches the next, the caller, or the number of releases.

Only what a signal's handler raises gets through (Ctrl-C, timeouts, exits), without its context.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import traceback
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp.core import UserFunction, open_session
from skdp.core.transcript import record
from skdp.queries import BlockVotes, OnBlocks, function_mean, score_mean
from skdp.tabular import Domain, check_coded, check_labelled, check_rows, opaque_rows
from skdp.user_code import suppress_warnings

ROWS = np.array([[0.0], [1.0], [0.0], [0.0]])


def opened(X=ROWS, **options):
    rows = opaque_rows(X) if hasattr(X, "columns") else check_rows(X, estimator="T")
    return open_session(rows, **{"estimator": "T", "epsilon": 1e9, **options})


def asked(query, X=ROWS):
    """Return the exact sum that a query is released from, in steps, and the released mean."""
    with record() as transcript, opened(X) as session:
        value = float(session.answer(function_mean(UserFunction(query))).value)
    return transcript.entries[0].exact, value


class Late(Exception):
    pass


def late(number, frame):
    raise Late("a timeout")


def leave(number, frame):
    sys.exit(7)


@pytest.mark.parametrize(
    ("number", "handler", "expected"),
    [
        (signal.SIGALRM, late, Late),
        (signal.SIGTERM, leave, SystemExit),
        (signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
        (signal.SIGINT, leave, SystemExit),
    ],
)
def test_what_a_signal_raises_gets_through_alone(number, handler, expected):
    def query(row):
        try:
            raise ValueError(f"cell {row[0]}")
        except ValueError:
            signal.raise_signal(number)

    before = signal.signal(number, handler)
    try:
        with opened() as session, pytest.raises(expected) as caught:
            session.answer(function_mean(UserFunction(query)))
        assert signal.getsignal(number) is handler
        assert "cell" not in "".join(traceback.format_exception(caught.value))
        error = caught.value
        while error is not None:  # whoever looks for what is not printed
            assert "cell" not in repr(error)
            error = error.__context__ or error.__cause__
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Late, GeneratorExit])
def test_what_a_row_raises_is_its_default(error):
    def query(row):
        if row[0] > 0:
            raise error(f"cell {row[0]}")
        return 1.0

    assert asked(query)[1] == pytest.approx(0.75, abs=1e-4)


def test_a_row_may_swap_the_global_generator():
    def query(row):
        if row[0] > 0:
            np.random.set_bit_generator(np.random.PCG64(1))
        return np.random.rand()

    np.random.seed(4)
    np.random.normal()  # one more is pending
    state = np.random.get_state()
    exact, value = asked(query)
    np.random.seed(0)
    others, own = np.random.rand(), np.random.RandomState(np.random.PCG64(1)).rand()
    assert value == pytest.approx((3 * others + own) / 4, abs=1e-4)
    np.random.set_state(state)
    asked(query)
    for one, other in zip(state, np.random.get_state(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_python_s_generator_is_put_back():
    random.seed(1)
    first = random.random()
    random.seed(1)
    asked(lambda row: random.random())
    assert random.random() == first


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_a_scorer_sees_a_row_alone(kind):
    table = np.column_stack([np.arange(6.0), np.arange(6.0)])
    makers = {"numpy": np.array, "pandas": pd.DataFrame, "polars": pl.DataFrame}
    seen = []

    def score(X, y):
        seen.append(X)
        return [0.0]

    with opened(makers[kind](table)) as session:
        session.answer(score_mean(UserFunction(score), 0, 1))
    assert len(seen) == 6
    for i, X in enumerate(seen):
        np.testing.assert_array_equal(np.asarray(X), table[i : i + 1])
        if kind == "numpy":
            assert type(X) is np.ndarray
            assert X.base is None
        if kind == "pandas":
            assert list(X.index) == [0]


def test_a_block_may_use_skdp_while_another_thread_waits_for_it():
    """The thread that waits for the blocks must hold nothing that they need."""

    def task(X, y, seed):
        with suppress_warnings():
            coded = check_coded(X > 0, Domain.binary(1), estimator="T")
        return np.full(3, coded.n_features)

    rows = check_labelled(ROWS, np.zeros(4), estimator="T")
    found = []

    def run():
        with (
            joblib.parallel_config("threading"),
            record() as transcript,
            open_session(rows, estimator="T", epsilon=1.0) as session,
        ):
            session.answer(BlockVotes(OnBlocks(UserFunction(task), 4, n_jobs=2), 3, 3))
        found.append(transcript.entries[0].exact)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    np.testing.assert_array_equal(-found[0], [[0, 4, 0]] * 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_waits_for_no_thread_of_its_parent():
    inside, done = threading.Event(), threading.Event()

    def query(row):
        inside.set()
        done.wait(60)
        return 0.0

    thread = threading.Thread(target=asked, args=(query,), daemon=True)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:  # pragma: no cover
        signal.alarm(30)  # a child that waits dies of it
        code = 1
        try:
            asked(lambda row: 0.0)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join(60)
    assert status == 0


def test_warnings_of_two_threads_come_back():
    before = list(warnings.filters)
    entered, leave_first = threading.Event(), threading.Event()

    def first():
        with suppress_warnings():
            entered.set()
            leave_first.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(60)
    with suppress_warnings():
        leave_first.set()
        thread.join(60)
        with warnings.catch_warnings(record=True) as heard:
            warnings.warn("cell", stacklevel=1)
        assert heard == []
    assert list(warnings.filters) == before
