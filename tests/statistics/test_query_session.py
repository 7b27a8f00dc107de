"""Sessions of statistical queries: they end, and what a query does with a row stays inside."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import BudgetExceededError, PrivacyBudget, statistics
from tests.folding import each
from tests.statistics.calls import NOISELESS


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_session_of_queries_ends(X, delta):
    budget = PrivacyBudget(1.0, 0.1)
    session = statistics.query_session(X, n_queries=3, delta=delta, budget=budget)
    assert budget.spent.epsilon == 1.0
    calls = []
    with session:
        session.ask(lambda row: 1.0)
        session.ask(lambda row: 1.0, share=1 / 4)
        assert session.remaining == pytest.approx(1 - 1 / 3 - 1 / 4)
        with pytest.raises(BudgetExceededError, match="left"):
            session.ask(calls.append, share=0.5)
        assert calls == []
        session.ask(lambda row: 0.0)
        with pytest.raises(BudgetExceededError):
            session.ask(lambda row: 1.0)
        assert len(session.privacy_.releases) == 3
    with pytest.raises(BudgetExceededError):
        session.ask(lambda row: 1.0, share=0.01)
    assert session.remaining == 0
    assert len(session.privacy_.releases) == 3
    assert budget.spent.epsilon == 1.0


def test_ten_tenths_are_ten_queries():
    with statistics.query_session([1.0, 2.0], epsilon=NOISELESS) as session:
        for _ in range(10):
            assert float(session.ask(lambda row: row[0] > 1)) == pytest.approx(0.5, abs=1e-4)
        with pytest.raises(BudgetExceededError):
            session.ask(lambda row: 0.0)


@pytest.mark.parametrize("bad", [0, -0.1, 1.5, math.nan, "all"])
def test_bad_shares_and_queries_are_refused(bad):
    with statistics.query_session([1.0, 2.0]) as session:
        with pytest.raises((TypeError, ValueError)):
            session.ask(lambda row: 1.0, share=bad)
        with pytest.raises(TypeError, match="callable"):
            session.ask(bad)
        assert session.remaining == 1.0


def test_what_a_query_does_with_a_row_stays_inside():
    def awkward(row):
        value = row[0]
        row[0] = 99.0  # its own copy
        if value == 0:
            raise ValueError(f"a cell is {value}")
        if value == 1:
            return math.nan
        if value == 2:
            return [1.0, 1.0]
        if value == 3:
            raise SystemExit
        return 1e300 * value  # clipped

    X = np.arange(-4.0, 6.0)
    with statistics.query_session(X, n_queries=2, epsilon=NOISELESS) as session:
        assert float(session.ask(awkward)) == pytest.approx(0.2, abs=1e-4)
        assert float(session.ask(lambda row: row[0] > 90)) == pytest.approx(0, abs=1e-4)
    assert X[0] == -4.0


@each("nan_policy", ["raise", "omit"])
@each("method", ["ask", "close", "__exit__"])
def test_a_query_cannot_ask_or_close_its_session(method, nan_policy):
    """One row would decide whether there is an answer more, or any at all."""
    arguments = {"ask": [lambda row: 1.0], "close": [], "__exit__": [None, None, None]}[method]

    def meddling(row):
        if row[0] > 0:
            getattr(session, method)(*arguments)
        return 1.0

    left, answers = [], []
    for table in (np.zeros((9, 1)), np.eye(9)[:, :1]):
        budget = PrivacyBudget(1e9)
        with statistics.query_session(
            table, nan_policy=nan_policy, epsilon=1e9, budget=budget
        ) as session:
            answers.append(9 * float(session.ask(meddling)))
            left.append((session.remaining, [one.epsilon for one in session.privacy_.releases]))
        with pytest.raises(BudgetExceededError):
            session.ask(lambda row: 1.0)
        described = [one["epsilon"] for charge in budget.charges for one in charge.releases]
        assert described == left[-1][1]
    assert left[0] == left[1]
    assert left[0][0] == 0.9
    np.testing.assert_allclose(answers, [9, 8], atol=0.01)  # the failing row counts as 0


def test_a_query_cannot_carry_a_generator_on():

    def drawing(row):
        return (row[0] > 0 and np.random.rand() and 0.0) or np.random.rand()

    state = np.random.get_state()[1][:5].tolist()
    answers = []
    for table in (np.zeros((9, 1)), np.eye(9)[:, :1]):
        with statistics.query_session(table, epsilon=1e9) as session:
            answers.append(9 * float(session.ask(drawing).value))
    assert abs(answers[0] - answers[1]) < 1.001
    assert np.random.get_state()[1][:5].tolist() == state


def test_queries_have_at_least_the_smallest_level():
    with pytest.raises(ValueError, match="n_queries must leave"):
        statistics.query_session(np.zeros((9, 1)), n_queries=10**12, epsilon=1e-6)
    with statistics.query_session(np.zeros((9, 1))) as session:
        with pytest.raises(ValueError, match="share must leave"):
            session.ask(lambda row: 1.0, share=1e-30)
        assert session.remaining == 1
