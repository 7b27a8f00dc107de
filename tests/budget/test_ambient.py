"""`with budget:` counts what names no budget, wherever it runs; nothing else is silent."""

from __future__ import annotations

import contextvars
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skdp
from skdp import DPKMeans, DPStandardScaler, PrivacyBudget, statistics
from skdp.budget import ambient
from skdp.exceptions import UncountedFitWarning
from skdp.model_selection import private_scorer, search_cost

ROOT = Path(__file__).resolve().parents[2]
X = np.random.default_rng(0).random((60, 3))


def scale(budget=None, epsilon=1.0):
    return DPStandardScaler(epsilon=epsilon, bounds=(0.0, 1.0), budget=budget)


def test_the_innermost_block_counts_what_names_no_budget():
    outer, inner, named = PrivacyBudget(10.0), PrivacyBudget(10.0), PrivacyBudget(10.0)
    with outer as entered:
        assert entered is outer
        assert scale().fit(X).privacy_.charged
        with inner:
            scale().fit(X)
            scale(named).fit(X)
            with outer:
                scale().fit(X)
            scale().fit(X)
        scale().fit(X)
    assert [b.spent.epsilon for b in (outer, inner, named)] == [3, 2, 1]
    assert ambient.ambient_budget() is None


def test_statistics_and_scorers_are_counted_too():
    budget = PrivacyBudget(10.0, adjacency="add_or_remove_one")
    with budget:
        assert statistics.mean(X, bounds=(0, 1), epsilon=0.5).privacy.charged
        model = DPKMeans(2, epsilon=1.0, bounds=(0, 1)).fit(X)
        private_scorer("neg_inertia", epsilon=0.25, bounds=3.0)(model, X)
    assert budget.spent.epsilon == 1.75
    assert {charge.adjacency for charge in budget.charges} == {"add_or_remove_one"}
    assert model.privacy_.adjacency == "add_or_remove_one"


def test_an_exception_ends_the_block():
    budget = PrivacyBudget(1.0)
    with pytest.raises(KeyError), budget:
        raise KeyError
    assert ambient.ambient_budget() is None


def search(budget, n_jobs):
    found = GridSearchCV(
        make_pipeline(scale(budget), DPKMeans(2, epsilon=1.0, bounds=(-3, 3), budget=budget)),
        {"dpkmeans__n_clusters": [1, 2]},
        cv=3,
        n_jobs=n_jobs,
        scoring=private_scorer("neg_inertia", epsilon=0.5, bounds=27.0, budget=budget),
        error_score="raise",
    )
    return found.fit(X)


def charged(budget):
    return sorted((c.estimator, c.epsilon) for c in budget.charges)


@pytest.fixture(scope="module")
def expected():
    budget = PrivacyBudget(100.0)
    search(budget, 1)
    return charged(budget)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sequential", "threading", "loky", "multiprocessing"])
def test_a_search_without_a_budget_counts_as_one_with_it(backend, expected):
    budget = PrivacyBudget(100.0)
    with budget, joblib.parallel_config(backend):
        found = search(None, 1 if backend == "sequential" else 2)
    assert charged(budget) == expected
    assert len(expected) == 2 * (2 * 3 + 1) + 6
    others = {c.pid for c in budget.charges} - {os.getpid()}
    assert bool(others) == (backend in ("loky", "multiprocessing"))
    found.best_estimator_.fit(X)  # what was cloned in the block keeps its budget
    assert len(budget.charges) == len(expected) + 2


@pytest.mark.slow
def test_a_search_without_a_budget_on_dask(tmp_path, expected):
    from dask.distributed import Client, LocalCluster

    budget = PrivacyBudget(100.0)
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            local_directory=str(tmp_path),
        ) as cluster,
        Client(cluster),
        joblib.parallel_config("dask"),
        budget,
    ):
        search(None, 2)
    assert charged(budget) == expected
    assert {c.pid for c in budget.charges} - {os.getpid()}


def test_a_reserved_search_in_workers():
    budget = PrivacyBudget(20.0)
    found = GridSearchCV(scale(), {"with_std": [True, False]}, cv=3, n_jobs=2, scoring=zero)
    with budget, joblib.parallel_config("loky"):
        cost = search_cost(found, len(X))
        assert cost.epsilon == 7
        with budget.reserve(cost):
            found.fit(X)
            assert (budget.spent.epsilon, budget.remaining.epsilon) == (7, 13)
    assert budget.remaining.epsilon == 13


def zero(estimator, X, y=None):
    return 0.0


def fit(estimator):
    estimator.fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_other_processes(method):
    budget, context = PrivacyBudget(10.0), multiprocessing.get_context(method)
    with budget:
        process = context.Process(target=fit, args=(scale(),))
        process.start()
        process.join()
        assert process.exitcode == 0
    assert budget.spent.epsilon == 1


def test_what_is_cloned_or_pickled_in_the_block_keeps_its_budget():
    budget, other = PrivacyBudget(10.0), PrivacyBudget(10.0)
    plain, named = scale(), scale(other)
    with budget:
        copies = [clone(plain), pickle.loads(pickle.dumps(plain)), clone(named)]
        pipe = clone(make_pipeline(plain, DPKMeans(2, epsilon=1.0, bounds=(-3, 3))))
    assert [copied.budget for copied in copies] == [budget, budget, other]
    assert plain.budget is None
    pipe.fit(X)
    assert budget.spent.epsilon == 2
    assert clone(plain).budget is None
    assert pickle.loads(pickle.dumps(plain)).budget is None


def in_thread(function):
    """Run a function in a thread; return what it returns or raises."""
    found = []

    def run():
        try:
            found.append(function())
        except ValueError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_threads_find_the_block_of_the_process():
    outer, inner = PrivacyBudget(10.0), PrivacyBudget(10.0)
    with outer:
        assert in_thread(ambient.ambient_budget) is outer
        with inner:
            assert in_thread(ambient.ambient_budget) is inner
        assert in_thread(ambient.ambient_budget) is outer
    assert in_thread(ambient.ambient_budget) is None


def test_blocks_of_several_threads_do_not_mix():
    budgets = [PrivacyBudget(100.0) for _ in range(2)]
    entered, end = threading.Barrier(3), threading.Event()

    def run(budget):
        with budget:
            entered.wait(60)
            for _ in range(5):
                scale().fit(X)
            end.wait(60)

    threads = [threading.Thread(target=run, args=(budget,)) for budget in budgets]
    for thread in threads:
        thread.start()
    entered.wait(60)
    try:
        for call in (ambient.ambient_budget, lambda: scale().fit(X), lambda: clone(scale())):
            error = contextvars.Context().run(in_thread, call)
            assert isinstance(error, ValueError)
            assert "budget must be stated here" in str(error)
    finally:
        end.set()
        for thread in threads:
            thread.join()
    assert [budget.spent.epsilon for budget in budgets] == [5, 5]
    assert ambient.ambient_budget() is None


# -- fits that nobody counts ------------------------------------------------------------------


def uncounted(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [w for w in caught if issubclass(w.category, UncountedFitWarning)]


def test_a_fit_without_a_budget_beside_one_warns_and_says_the_way_out():
    budget = PrivacyBudget(10.0)
    model = DPKMeans(2, epsilon=1.0, bounds=(0, 1)).fit(X)
    scorer = private_scorer("neg_inertia", epsilon=0.25, bounds=3.0)
    for name, call in {
        "DPStandardScaler": lambda: scale().fit(X),
        "mean": lambda: statistics.mean(X, bounds=(0, 1), epsilon=0.5),
        "private_scorer(neg_inertia)": lambda: scorer(model, X),
    }.items():
        (warning,) = uncounted(call)
        assert f"fits of {name} here" in str(warning.message)
        assert "with budget:" in str(warning.message)
        assert "config_context(uncounted_fits='allow')" in str(warning.message)
        assert warning.filename == __file__
    assert not uncounted(lambda: scale(budget).fit(X))
    with budget:
        assert not uncounted(lambda: scale().fit(X))
    with skdp.config_context(uncounted_fits="allow"):
        assert not uncounted(lambda: scale().fit(X))


def test_a_pipeline_with_a_step_without_the_budget_warns():
    budget = PrivacyBudget(10.0)
    pipe = make_pipeline(scale(budget), DPKMeans(2, epsilon=1.0, bounds=(-3, 3)))
    (warning,) = uncounted(lambda: pipe.fit(X))
    assert "DPKMeans" in str(warning.message)
    assert warning.filename == __file__
    assert not pipe[-1].privacy_.charged
    assert "charged: no: no budget counts this fit" in pipe[-1].privacy_._repr_html_()
    assert "charged: yes" in pipe[0].privacy_._repr_html_()


def test_an_error_by_filter_comes_before_any_noise():
    budget = PrivacyBudget(10.0)
    model = scale()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncountedFitWarning)
        with pytest.raises(UncountedFitWarning):
            model.fit(X)
    assert not hasattr(model, "privacy_")
    assert budget.spent.epsilon == 0


def test_a_warning_that_was_ignored_is_shown_later(monkeypatch):
    """Filters are of the process: those of a fit in another thread may hide it once."""
    monkeypatch.setattr(ambient, "_shown", set())
    budget = PrivacyBudget(10.0)

    def shown(*actions):
        with warnings.catch_warnings(record=True) as caught:
            warnings.resetwarnings()
            for action in actions:
                warnings.filterwarnings(action, "No budget counts", UncountedFitWarning)
            statistics.mean(X, bounds=(0, 1), epsilon=0.25)
        return len(caught)

    for actions in [("ignore",), ("error", "ignore"), ("default", "ignore")]:
        assert shown(*actions) == 0
    with pytest.raises(UncountedFitWarning):
        shown("error")
    assert [shown(), shown(), shown("always"), shown("ignore"), shown()] == [1, 0, 1, 0, 0]
    monkeypatch.setattr(ambient, "_shown", set())
    with monkeypatch.context() as patch:
        patch.setattr(warnings, "warn", lambda *args, **kwargs: warnings.simplefilter("ignore"))
        assert shown() == 0
    assert shown() == 1
    assert budget.charges == []


@pytest.mark.slow
def test_it_is_shown_once_a_process_for_each_estimator_by_default():
    code = """
import warnings
import numpy as np
from skdp import DPStandardScaler, PrivacyBudget, statistics
X = np.random.default_rng(0).random((60, 3))
budget = PrivacyBudget(1.0)
for _ in range(3):
    DPStandardScaler(bounds=(0.0, 1.0)).fit(X)
DPStandardScaler(bounds=(0.0, 1.0)).fit(X)
statistics.mean(X, bounds=(0.0, 1.0))
warnings.filterwarnings("ignore", message="of something else")
DPStandardScaler(bounds=(0.0, 1.0)).fit(X)
warnings.filterwarnings("error", message="No budget counts")
try:
    DPStandardScaler(bounds=(0.0, 1.0)).fit(X)
except UserWarning:
    print("an error each time that it is wanted")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    first, second = done.stderr.splitlines()
    assert "<string>:8: UncountedFitWarning: No budget counts fits of DPStandardScaler" in first
    assert "<string>:10: UncountedFitWarning: No budget counts fits of mean" in second
    assert done.stdout == "an error each time that it is wanted\n"


@pytest.mark.slow
def test_a_process_without_a_budget_does_not_warn():
    code = """
import gc, warnings
warnings.simplefilter("error")
import numpy as np
from skdp import DPStandardScaler, PrivacyBudget
X = np.random.default_rng(0).random((60, 3))
DPStandardScaler(bounds=(0.0, 1.0)).fit(X)
budget = PrivacyBudget(1.0)
del budget
gc.collect()
DPStandardScaler(bounds=(0.0, 1.0)).fit(X)
"""
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True
    )


def test_a_call_that_is_refused_does_not_warn_of_its_budget():
    budget = PrivacyBudget(10.0)
    for call in (
        lambda: statistics.mean(X, bounds=(1, 0)),
        lambda: statistics.mean(X, bounds=(0, 1), axis=1),
        lambda: statistics.mean(X, bounds=(0, 1), nan_policy="omit", n_rows="public"),
        lambda: statistics.quantile(X, [2.0], bounds=(0, 1)),
        lambda: statistics.mean([[np.inf]], bounds=(0, 1)),
    ):

        def refused(call=call):
            with pytest.raises((TypeError, ValueError)):
                call()

        assert not uncounted(refused)
    assert len(uncounted(lambda: statistics.mean(X, bounds=(0, 1)))) == 1
    assert not uncounted(lambda: statistics.count(X, n_rows="public"))  # free
    assert budget.charges == []
