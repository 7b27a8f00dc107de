"""Private searches beside other threads, and with threads and processes inside of their runs.

Leaks are planted: each of them is found, or fails the run.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skdp import DPGridSearchCV, DPMedian, DPRidge, DPStandardScaler, PrivacyBudget
from skdp.core.transcript import record
from skdp.exceptions import PrivacyLeakError
from skdp.neighbors import DPNearestCentroid
from skdp.queries import blocks

Y = np.arange(60) % 2
X = np.random.default_rng(0).normal(size=(60, 2)) + 3.0 * Y[:, None]
GRID = {"epsilon": [1.0]}
WAIT = 60.0  # seconds; for a thread that never comes


def search(estimator, **parameters):
    return DPGridSearchCV(estimator, GRID, **{"n_runs": 2, "epsilon": 30.0, **parameters})


class Waits(DPNearestCentroid):
    """Meets another thread in every fit, and prints."""

    meet = None

    def fit(self, X, y):
        print(f"a run of {threading.current_thread().name}")
        type(self).meet()
        print("still")
        return super().fit(X, y)


def test_two_searches_in_two_threads_are_charged_once_each_and_silent():
    """They end one after the other: the first must not let the second one be heard."""
    first_runs, first_has_ended, second_runs = (threading.Event() for _ in range(3))

    class First(Waits):
        meet = staticmethod(lambda: (first_runs.set(), second_runs.wait(WAIT)))

    class Second(Waits):
        meet = staticmethod(lambda: first_has_ended.wait(WAIT))

    budgets = [PrivacyBudget(100), PrivacyBudget(100)]
    before, stream = sys.stdout, io.StringIO()
    sys.stdout = stream
    try:

        def one():
            model = search(First(classes=[0, 1], bounds=(-4, 7)), budget=budgets[0]).fit(X, Y)
            first_has_ended.set()
            return model

        def other():
            first_runs.wait(WAIT)
            with blocks.silent():  # its silence has begun; runs lend generators one at a time
                second_runs.set()
                first_has_ended.wait(WAIT)
                print("not heard")
                return search(Second(classes=[0, 1], bounds=(-4, 7)), budget=budgets[1]).fit(X, Y)

        with ThreadPoolExecutor(2) as pool:
            models = [future.result() for future in [pool.submit(one), pool.submit(other)]]
        assert sys.stdout is stream
        print("heard")
    finally:
        sys.stdout = before
    assert stream.getvalue() == "heard\n"
    for model, budget in zip(models, budgets, strict=True):
        assert [charge.estimator for charge in budget.charges] == ["DPGridSearchCV"]
        assert model.privacy_.charged


@pytest.mark.parametrize("stated", [True, False])
def test_a_fit_beside_a_search_is_charged(stated):
    """In another thread, while a run is at work: to its own budget, or to the ambient one."""
    at_work, done, charged = threading.Event(), threading.Event(), []

    class Working(DPNearestCentroid):
        def fit(self, X, y):
            at_work.set()
            done.wait(WAIT)
            return super().fit(X, y)

    budget = PrivacyBudget(1000)

    def beside():
        at_work.wait(WAIT)
        try:
            DPMedian(epsilon=2.0, bounds=(0, 1), budget=budget if stated else None).fit(X[:, :1])
            charged.extend(charge.estimator for charge in budget.charges)
        finally:
            done.set()

    with budget, ThreadPoolExecutor(1) as pool:
        other = pool.submit(beside)
        with record() as transcript:
            search(Working(classes=[0, 1], bounds=(-4, 7))).fit(X, Y)
        other.result()
    # In the ledger while the search runs, as one row, and none of them for a run.
    assert charged == ["DPGridSearchCV", "DPMedian"]
    assert [charge.estimator for charge in budget.charges] == charged
    assert [charge.epsilon for charge in budget.charges] == [30.0, 2.0]
    assert all(one.estimator != "DPMedian" for one in transcript.sessions)


def test_parallel_steps_are_counted():
    """`n_jobs` of a step asks for two workers; a run has them one after the other, in sight."""
    scale = DPStandardScaler(bounds=(-4, 7))
    both = ColumnTransformer([("a", scale, [0]), ("b", scale, [1])], n_jobs=2)
    budget = PrivacyBudget(1000)
    pipe = make_pipeline(both, DPNearestCentroid(classes=[0, 1], bounds=(-4, 7)))
    model = DPGridSearchCV(pipe, {"memory": [None]}, n_runs=2, epsilon=90.0, budget=budget)
    with record() as transcript:
        model.fit(X, Y)
    inner = [one for one in transcript.sessions if one.inner]
    assert len(inner) >= 4 and all(one.cost.epsilon in (10.0, 30.0) for one in inner)
    assert [charge.estimator for charge in budget.charges] == ["DPGridSearchCV"]


class InThreads(DPNearestCentroid):
    """Planted: fits itself `times` times, in threads of its own."""

    def __init__(self, times=1, *, epsilon=1.0, classes=None, bounds=(-4, 7), budget=None):
        super().__init__(epsilon=epsilon, classes=classes, bounds=bounds, budget=budget)
        self.times = times

    def fit(self, X, y):
        def one():
            DPNearestCentroid(
                epsilon=self.epsilon, classes=[0, 1], bounds=(-4, 7), budget=self.budget
            ).fit(X, y)

        Parallel(n_jobs=2, backend="threading")(delayed(one)() for _ in range(self.times - 1))
        return super().fit(X, y)


def test_what_threads_inside_of_a_run_claim_is_seen():
    budget = PrivacyBudget(1000)
    search(InThreads(1, classes=[0, 1]), budget=budget).fit(X, Y)
    with pytest.raises(PrivacyLeakError, match="more than it may lose"):
        search(InThreads(3, classes=[0, 1]), budget=budget).fit(X, Y)
    assert len(budget.charges) == 2


class Travels(DPNearestCentroid):
    """Planted: sends its budget to another process, one way or another."""

    how = "pickle"

    def fit(self, X, y):
        if self.how == "pickle":
            pickle.dumps(self.budget)
        else:
            child = os.fork()
            if child == 0:
                try:
                    super().fit(X, y)
                    os._exit(0)
                except PrivacyLeakError:
                    os._exit(1)
                finally:
                    os._exit(2)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                raise ValueError("refused")
        return super().fit(X, y)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
@pytest.mark.parametrize("how", ["pickle", "fork"])
def test_a_run_that_fits_in_another_process_fails(how):
    """Nobody would count there: `asked` is this process's."""
    if how == "fork" and not hasattr(os, "fork"):
        pytest.skip("no fork here")

    class Leaks(Travels):
        pass

    Leaks.how = how
    budget = PrivacyBudget(1000)
    with pytest.raises(RuntimeError, match="every run of the search failed"):
        search(Leaks(classes=[0, 1], bounds=(-4, 7)), budget=budget).fit(X, Y)
    assert [charge.estimator for charge in budget.charges] == ["DPGridSearchCV"]


def test_a_search_in_a_worker_thread_of_joblib_is_charged_once():
    budget = PrivacyBudget(1000)
    models = Parallel(n_jobs=2, backend="threading")(
        delayed(search(DPNearestCentroid(classes=[0, 1], bounds=(-4, 7)), budget=budget).fit)(X, Y)
        for _ in range(3)
    )
    assert len(budget.charges) == len(models) == 3


def test_hidden_fits_of_the_runs_own_thread_are_not_in_an_ambient_ledger():
    class Hides(DPNearestCentroid):
        def fit(self, X, y):
            DPRidge(epsilon=9.0, bounds=(-4, 7), target_bounds=(0, 1)).fit(X, y)
            return super().fit(X, y)

    with PrivacyBudget(1000) as budget, pytest.raises(PrivacyLeakError):
        search(Hides(classes=[0, 1], bounds=(-4, 7))).fit(X, Y)
    assert [charge.estimator for charge in budget.charges] == ["DPGridSearchCV"]
