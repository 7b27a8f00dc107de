"""Online multiplicative weights: answers, what is left, what a pickle holds, audits of releases."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdp.audit import neighbour_check, replay_check
from skdp.budget import PrivacyBudget
from skdp.core import Session
from skdp.core.transcript import record
from skdp.exceptions import BudgetExceededError, PrivacyLeakError
from skdp.queries import MarginalCells, row_counts
from skdp.synthetic import Domain, PrivateMultiplicativeWeights, conjunctions
from skdp.synthetic._weights import _LIVE
from skdp.tabular import Rows
from tests.folding import each

A = PrivacyBudget(1e6, 0.5, adjacency="add_or_remove_one")
BUDGETS = pytest.mark.parametrize("budget", [None, A], ids=["R", "A"])
DELTAS = pytest.mark.parametrize("delta", [0.0, 1e-6])


def table(n=20_000, seed=0):
    """Return columns of zeros and ones, of which the second follows the first."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, 4)) < [0.2, 0.5, 0.5, 0.9]).astype(int)
    X[:, 1] = np.where(rng.random(n) < 0.8, X[:, 0], X[:, 1])
    return X


def questions():
    """Return all pairs of columns, twice: both are 1."""
    pairs = [(i, j) for i in range(4) for j in range(i)] * 2
    return [lambda row, i=i, j=j: row[i] == 1 and row[j] == 1 for i, j in pairs]


def online(**options):
    defaults = {"domain": 2, "alpha": 0.05, "n_updates": 8, "random_state": 0}
    return PrivateMultiplicativeWeights(**{**defaults, **options})


@pytest.mark.statistical
@BUDGETS
@DELTAS
def test_answers_are_within_the_bound(delta, budget):
    X = table()
    fitted = online(delta=delta, budget=budget).fit(X)
    bound = fitted.error_bound(len(X), n_queries=12)
    assert bound < 0.1
    errors = [abs(fitted.answer(q) - np.mean([q(row) for row in X.tolist()])) for q in questions()]
    assert max(errors) < bound
    assert fitted.n_answers_ == 12
    # The second time all is known.
    assert 0 < 8 - fitted.n_updates_left_ <= 6
    assert fitted.weights_.sum() == pytest.approx(1.0)
    fitted.close()


@DELTAS
def test_it_refuses_after_its_updates(delta):
    fitted = online(n_updates=2, alpha=0.01, epsilon=50.0, delta=delta).fit(table(2000))
    answers = []
    with pytest.raises(BudgetExceededError, match="all 2 updates are used up"):
        for q in questions():
            answers.append(fitted.answer(q))
    assert fitted.n_updates_left_ == 0
    assert fitted.n_answers_ == len(answers) >= 2
    assert fitted.predict(questions()[0]).shape == (1,)
    assert fitted.sample(3).shape == (3, 4)
    releases = fitted.privacy_.releases
    assert sum(r.share for r in releases) == pytest.approx(1.0)
    assert [r.mechanism for r in releases[:1]] == ["sparse vector, discrete Laplace"]


def test_a_pickle_predicts_and_does_not_answer():
    X = table(3000)
    fitted = online().fit(X)
    fitted.answer(questions()[0])
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), copy.copy(fitted)):
        np.testing.assert_array_equal(
            other.predict(conjunctions(2)), fitted.predict(conjunctions(2))
        )
        with pytest.raises(BudgetExceededError, match="copied or pickled"):
            other.answer(questions()[0])
    fresh = clone(fitted)
    with pytest.raises(NotFittedError):
        fresh.answer(questions()[0])
    fitted.answer(questions()[1])  # it goes on itself
    assert not any(isinstance(v, Session | Rows) for v in vars(fitted).values())


def test_closing_and_fitting_again():
    with online() as fitted:
        first = _LIVE[fitted.fit(table(500))].session
        fitted.fit(table(500, seed=1))
        with pytest.raises(PrivacyLeakError, match="closed"):
            first.answer(row_counts(MarginalCells((2,) * 4, (0,)), "marginal"))
        fitted.answer(questions()[0])
    with pytest.raises(BudgetExceededError, match="closed"):
        fitted.answer(questions()[0])
    fitted.close()
    assert fitted not in _LIVE


def test_a_fit_that_fails_leaves_the_open_session():
    fitted = online().fit(table(500))
    fitted.set_params(alpha=3.0)
    with pytest.raises(ValueError, match="alpha"):
        fitted.fit(table(500, seed=1))
    fitted.answer(questions()[0])


def test_charged_once_for_all_answers():
    budget = PrivacyBudget(1.0)
    asked = len(questions())  # no noise uses up more
    with online(budget=budget, random_state=None, n_updates=asked).fit(table(500)) as fitted:
        for q in questions():
            fitted.answer(q)
    (charge,) = budget.charges
    assert charge.epsilon == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_another_process_does_not_answer():
    fitted = online().fit(table(500))
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            fitted.answer(questions()[0])
        except PrivacyLeakError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_threads_share_the_updates():
    fitted = online(n_updates=3, alpha=0.001, epsilon=1000.0).fit(table(500))
    done, refused = [], []

    def ask():
        for q in questions():
            try:
                done.append(fitted.answer(q))
            except BudgetExceededError:
                refused.append(1)

    workers = [threading.Thread(target=ask) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert fitted.n_updates_left_ == 0
    assert len(done) + len(refused) == 36
    assert len([r for r in fitted.privacy_.releases if r.name == "answer"]) == 3


class Asks(PrivateMultiplicativeWeights):
    """Asks fixed questions in its fit, as audits need it."""

    def fit(self, X, y=None):
        super().fit(X)
        try:
            self.answers_ = []
            for q in (*questions()[:4], conjunctions(1, monotone=True, columns=[3])):
                if self.n_updates_left_:
                    self.answers_.append(self.answer(q))
        finally:
            self.close()
        return self


@BUDGETS
@DELTAS
def test_releases_are_all_that_it_learns(delta, budget):
    estimator = Asks(
        2, alpha=0.2, n_updates=3, delta=delta, epsilon=20.0, budget=budget, random_state=0
    )
    X, other = table(60), 1 - table(60 if budget is None else 31)
    replay_check(estimator, X, other)


@BUDGETS
@DELTAS
def test_neighbours_move_nothing_further_than_declared(delta, budget):
    estimator = Asks(
        2, alpha=0.2, n_updates=3, delta=delta, epsilon=20.0, budget=budget, random_state=0
    )
    X = table(20)
    for row in ([1, 1, 1, 1], [0, 0, 0, 0]):
        X[-1] = row
        changed = np.vstack([X[:-1], 1 - X[-1:]])
        found = neighbour_check(estimator, X, changed if budget is None else X[:-1])
        assert max(d / s for _, d, s in found) <= 1.0


@pytest.mark.parametrize("n", [0, 1])
def test_hardly_any_rows(n):
    with online(epsilon=0.05, budget=A).fit(np.zeros((n, 3), dtype=int)) as fitted:
        answer = fitted.answer(lambda row: row[0] == 0)
    assert 0.0 <= answer <= 1.0


def test_what_is_no_single_query():
    fitted = online().fit(table(100))
    with record() as transcript:
        for query, error in (
            (conjunctions(2), ValueError),
            (lambda row: 3.0, ValueError),
            (lambda row: "a", TypeError),
            (np.zeros((1, 4)), TypeError),
            (conjunctions(1, monotone=True, columns=[9]), ValueError),
        ):
            with pytest.raises(error):
                fitted.answer(query)
    assert transcript.entries == []
    assert fitted.n_answers_ == 0


@each(
    ("options", "error", "text"),
    [
        ({"alpha": 0.0}, ValueError, "alpha"),
        ({"alpha": 1.0}, ValueError, "alpha"),
        ({"alpha": "a"}, TypeError, "alpha"),
        ({"n_updates": 0}, ValueError, "n_updates"),
        ({"n_updates": "all"}, ValueError, "n_updates"),
        ({"n_updates": 1.5}, TypeError, "n_updates"),
        ({"n_updates": 10**9, "epsilon": 0.01}, ValueError, "n_updates = 1000000000"),
        ({"domain": None}, ValueError, "domain"),
        ({"domain": 100}, ValueError, "cells"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
    ],
)
def test_bad_parameters_charge_nothing(options, error, text):
    budget = PrivacyBudget(1.0)
    with pytest.raises(error, match=text):
        online(**{"budget": budget, **options}).fit(table(50))
    assert budget.charges == []


@each("alpha", [1e-5, 1e-8, 1e-300])
@each("epsilon", [1.0, 1e-6])
def test_an_alpha_beyond_what_rows_can_pay_for_leaves_one_update(alpha, epsilon):
    estimator = online(alpha=alpha, epsilon=epsilon, n_updates="auto")
    with estimator.fit(table(50)) as fitted:
        assert fitted.n_updates_ == 1
        assert 0.0 <= fitted.answer(lambda row: row[0] == 0) <= 1.0
    assert estimator.error_bound(50, 4) == 1.0


def test_too_little_epsilon_for_any_comparison():
    for n_updates, options in ((1, {"n_updates": "auto", "alpha": 1e-8}), (7, {"n_updates": 7})):
        estimator = online(epsilon=1e-12, **options)
        with pytest.raises(ValueError, match=f"n_updates = {n_updates} at epsilon = 1e-12 needs"):
            estimator.fit(table(50))
    with pytest.raises(ValueError, match="n_updates = 1000"):
        online(n_updates=10**400).fit(table(50))


def test_the_number_of_updates_is_that_of_the_theory_or_what_the_rows_can_pay_for():
    options = {"alpha": 0.5, "n_updates": "auto"}
    assert online(**options).fit(table(1)).n_updates_ == 1
    few, many = (online(**options).fit(table(n)).n_updates_ for n in (1000, 4000))
    assert 1 < few < many < math.ceil(4 * math.log(16) / 0.25)
    fitted = online(**options, epsilon=1e5).fit(table(100))
    assert fitted.n_updates_ == math.ceil(4 * math.log(16) / 0.25)


def test_errors_that_are_expected():
    estimator = online(domain=Domain.binary(4))
    errors = [estimator.error_bound(n) for n in (100, 10_000, 10**6)]
    assert errors[0] == 1.0
    assert 0.75 * 0.05 < errors[2] < 0.05 < errors[1]
    more = estimator.error_bound(10_000, n_queries=10_000)
    assert errors[1] < more
    with pytest.raises(ValueError, match="beta"):
        estimator.error_bound(100, beta=0.0)
    with pytest.raises(ValueError, match="n_features"):
        online().error_bound(100)
