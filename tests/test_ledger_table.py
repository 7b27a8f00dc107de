"""The table of the ledger: what was done with epsilon = 1 a fit, and what the ledger says of it.

Run with ``-v``, the first test reads as the table: the situation, and what it spends. All its
rows use real estimators, in real threads and processes; the rows about killed processes kill them.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skdp import DPPCA, BudgetExceededError, DPKMeans, DPStandardScaler, PrivacyBudget
from skdp.budget import Cost
from skdp.core import privacy_filter as release
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.model_selection import cross_val_cost, search_cost

X = np.random.default_rng(0).random((60, 3))
TABLE: dict[str, tuple[int, Callable]] = {}


def scale(budget, epsilon=1.0):
    return DPStandardScaler(epsilon=epsilon, bounds=(0.0, 1.0), budget=budget)


def pca(budget):
    return DPPCA(2, epsilon=1.0, norm_bound=2.0, budget=budget)


def kmeans(budget):
    return DPKMeans(2, epsilon=1.0, bounds=(0.0, 1.0), budget=budget)


def ratio(budget):
    return DPuLSIF(epsilon=1.0, n_centers=3, gamma=1.0, budget=budget)


MARKS = np.arange(60) % 2  # both samples in every fold


def row(situation, spends):
    """Enter a situation into the table."""

    def enter(do):
        TABLE[situation] = spends, do
        return do

    return enter


# --- clones and searches ----------------------------------------------------------------------


@row("clone ten times, fit each", 10)
def _(budget, tmp_path):
    estimator = kmeans(budget)
    for _ in range(10):
        clone(estimator).fit(X)


@row("copy, deepcopy and unpickle, fit each", 3)
def _(budget, tmp_path):
    estimator = kmeans(budget)
    for other in (
        copy.copy(estimator),
        copy.deepcopy(estimator),
        pickle.loads(pickle.dumps(estimator)),
    ):
        other.fit(X)


def search(budget, n_jobs):
    found = GridSearchCV(
        kmeans(budget), {"n_clusters": [1, 2, 3]}, cv=5, n_jobs=n_jobs, error_score="raise"
    )
    cost = search_cost(found, len(X))
    assert cost.epsilon == 16.0
    with budget.reserve(cost):
        assert budget.remaining.epsilon == 184.0
        found.fit(X)
    assert budget.remaining.epsilon == 184.0
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    return {charge.pid for charge in budget.charges} - {os.getpid()}


@row("GridSearchCV 3 candidates x 5 folds + refit, n_jobs=1", 16)
def _(budget, tmp_path):
    search(budget, 1)


@row("GridSearchCV 3 candidates x 5 folds + refit, n_jobs=2 (loky)", 16)
def _(budget, tmp_path):
    with joblib.parallel_config("loky"):
        assert search(budget, 2)  # other processes did charge


@row("GridSearchCV 3 candidates x 5 folds + refit, threading", 16)
def _(budget, tmp_path):
    with joblib.parallel_config("threading"):
        assert not search(budget, 2)


@row("GridSearchCV 3 candidates x 5 folds + refit, a dask LocalCluster", 16)
def _(budget, tmp_path):
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            local_directory=str(tmp_path),
        ) as cluster,
        Client(cluster),
        joblib.parallel_config("dask"),
    ):
        assert search(budget, 2)


@row("cross_val_score 5 folds, n_jobs=1", 5)
def _(budget, tmp_path):
    assert cross_val_cost(kmeans(budget), 5).epsilon == 5
    assert len(cross_val_score(kmeans(budget), X, cv=5)) == 5


@row("cross_val_score 5 folds, n_jobs=2", 5)
def _(budget, tmp_path):
    assert len(cross_val_score(kmeans(budget), X, cv=5, n_jobs=2)) == 5
    assert {charge.pid for charge in budget.charges} != {os.getpid()}


# --- two samples ------------------------------------------------------------------------------


@row("density ratios of two samples, cloned three times and fitted", 4)
def _(budget, tmp_path):
    for _ in range(3):
        clone(ratio(budget)).fit(X, MARKS)
    clone(DPLogisticRatio(epsilon=1.0, budget=budget)).fit(X, MARKS)


@row("Pipeline of a scaler and a density ratio, and its clone", 4)
def _(budget, tmp_path):
    pipe = make_pipeline(scale(budget), ratio(budget))
    for each in (pipe, clone(pipe)):
        each.fit(X, MARKS)
        assert np.isfinite(each.predict(X)).all()
        assert np.isfinite(each.score(X, MARKS))


def ratio_search(budget, n_jobs):
    found = GridSearchCV(
        ratio(budget), {"gamma": [0.3, 1.0, 3.0]}, cv=5, n_jobs=n_jobs, error_score="raise"
    )
    with budget.reserve(search_cost(found, len(X))):
        assert budget.remaining.epsilon == 184.0
        found.fit(X, MARKS)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    return {charge.pid for charge in budget.charges} - {os.getpid()}


@row("GridSearchCV of a density ratio, 3 candidates x 5 folds + refit, n_jobs=1", 16)
def _(budget, tmp_path):
    assert not ratio_search(budget, 1)


@row("GridSearchCV of a density ratio, 3 candidates x 5 folds + refit, n_jobs=2", 16)
def _(budget, tmp_path):
    assert ratio_search(budget, 2)


@row("cross_val_score of a density ratio, 5 folds, n_jobs=1 and n_jobs=2", 10)
def _(budget, tmp_path):
    assert cross_val_cost(ratio(budget), 5).epsilon == 5
    for n_jobs in (1, 2):
        assert np.isfinite(cross_val_score(ratio(budget), X, MARKS, cv=5, n_jobs=n_jobs)).all()
    assert {charge.pid for charge in budget.charges} != {os.getpid()}


@row("marks that are none, a sample that is missing, a bad basis: refused, nothing charged", 0)
def _(budget, tmp_path):
    for y in (None, MARKS + 1, np.zeros(60), np.ones(60)):
        with pytest.raises(ValueError, match="y"):
            ratio(budget).fit(X, y)
    with pytest.raises(ValueError, match="basis_bounds"):
        ratio(budget).set_params(basis=PolynomialFeatures()).fit(X, MARKS)


# --- one charge a step ------------------------------------------------------------------------


@row("Pipeline of three steps", 3)
def _(budget, tmp_path):
    pipe = make_pipeline(scale(budget), pca(budget), kmeans(budget)).fit(X)
    pipe.predict(X)


@row("Pipeline of three steps, cloned", 3)
def _(budget, tmp_path):
    clone(make_pipeline(scale(budget), pca(budget), kmeans(budget))).fit(X)


@row("FeatureUnion of two, n_jobs=2", 2)
def _(budget, tmp_path):
    FeatureUnion([("scale", scale(budget)), ("pca", pca(budget))], n_jobs=2).fit_transform(X)


@row("ColumnTransformer of two", 2)
def _(budget, tmp_path):
    ColumnTransformer(
        [("scale", scale(budget), [0]), ("pca", pca(budget), [1, 2])], remainder="passthrough"
    ).fit_transform(X)


@row("Pipeline(memory=...) fitted twice: cached steps once, the last step twice", 4)
def _(budget, tmp_path):
    steps = [("scale", scale(budget)), ("pca", pca(budget)), ("kmeans", kmeans(budget))]
    Pipeline(steps, memory=str(tmp_path)).fit(X)
    assert budget.spent.epsilon == 3
    clone(Pipeline(steps, memory=str(tmp_path))).fit(X)


# --- pickles ----------------------------------------------------------------------------------


@row("unpickled copy refitted 5 times, in this process", 5)
def _(budget, tmp_path):
    estimator = pickle.loads(pickle.dumps(scale(budget)))
    for _ in range(5):
        estimator.fit(X)


@row("unpickled copy refitted 5 times, in another process", 5)
def _(budget, tmp_path):
    (tmp_path / "model").write_bytes(pickle.dumps((scale(budget), X)))
    code = """if True:
        import pickle, sys
        estimator, X = pickle.load(open(sys.argv[1], "rb"))
        for _ in range(5):
            estimator.fit(X)
        assert estimator.budget.spent.epsilon == 5
    """
    path = os.pathsep.join(entry for entry in sys.path if entry)
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        timeout=600,
    )


# --- races and refusals -----------------------------------------------------------------------


def greedy(budget, attempts):
    """Fit until the attempts are over; return how many fits were granted."""
    granted = 0
    estimator = scale(budget)
    for _ in range(attempts):
        try:
            estimator.fit(X)
        except BudgetExceededError:
            continue
        granted += 1
    return granted


def runner(budget, start, granted):
    start.wait()
    granted.put(greedy(budget, 20))


@row("8 threads and 4 processes racing for a budget of 100 charges", 100)
def _(budget, tmp_path):
    small = PrivacyBudget(100.0)
    fork = multiprocessing.get_context("fork")
    start, granted = fork.Event(), fork.SimpleQueue()
    workers: list = [fork.Process(target=runner, args=(small, start, granted)) for _ in range(4)]
    for worker in workers:  # processes first: no thread of the race is running when they fork
        worker.start()
    workers += [threading.Thread(target=runner, args=(small, start, granted)) for _ in range(8)]
    for worker in workers[4:]:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(60)
    # 12 runners wanted 240 fits.
    assert sum(granted.get() for _ in workers) == 100
    return small


@row("0.1 ten times into 1.0, then 1e-9", 1)
def _(budget, tmp_path):
    small = PrivacyBudget(1.0)
    for _ in range(10):
        scale(small, epsilon=0.1).fit(X)
    for epsilon in (1e-9, 1e-6):
        with pytest.raises(BudgetExceededError):
            small.check(Cost(epsilon))
    with pytest.raises(BudgetExceededError):
        scale(small, epsilon=1e-6).fit(X)
    with pytest.raises(ValueError, match="epsilon"):  # less than any fit may have
        scale(small, epsilon=1e-9).fit(X)
    assert len(small.charges) == 10
    return small


class Unread:
    """Rows that must not be read; says so when anything is asked of them."""

    def __init__(self):
        object.__setattr__(self, "asked", [])

    def __getattribute__(self, name):
        if name not in ("asked", "__class__"):
            object.__getattribute__(self, "asked").append(name)
        return object.__getattribute__(self, name)

    def __len__(self):
        self.asked.append("__len__")
        return 60

    def __getitem__(self, key):
        self.asked.append("__getitem__")
        return X[key]


@row("budget too small for a search, with reserve: refused before any row is read", 0)
def _(budget, tmp_path):
    small = PrivacyBudget(15.9)
    rows = Unread()
    found = GridSearchCV(kmeans(small), {"n_clusters": [1, 2, 3]}, cv=5)
    with pytest.raises(BudgetExceededError), small.reserve(search_cost(found, 60)):
        found.fit(rows)
    assert rows.asked == []
    assert small.remaining.epsilon == 15.9
    cross_val_score(kmeans(None), rows, cv=2)
    assert rows.asked != []  # the rows do notice when they are read
    return small


# --- killed processes -------------------------------------------------------------------------


def forked(run):
    """Run a function in a forked child and return the child's id."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs ends by another signal than the tests expect
        try:
            run()
        finally:
            os._exit(1)  # neither pytest nor the ledger's clean-up goes on in the child
    return pid


def see_killed(pid):
    """Wait for the end of a child; it must have been killed."""
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def fit_and_die(budget, place):
    """Fit in a child that is killed where the kernel passes `place`."""

    def failpoint(name):
        if name == place:
            os.kill(os.getpid(), signal.SIGKILL)

    def run():
        release._failpoint = failpoint
        scale(budget).fit(X)

    see_killed(forked(run))


@row("process killed before the charge", 0)
def _(budget, tmp_path):
    fit_and_die(budget, "before_charge")


@row("process killed between charge and noise", 1)
def _(budget, tmp_path):
    fit_and_die(budget, "after_charge")


@row("process killed after the noise", 1)
def _(budget, tmp_path):
    fit_and_die(budget, "after_noise")


@pytest.mark.parametrize(
    ("situation", "spends"),
    [
        pytest.param(s, n, marks=[pytest.mark.slow] if "loky" in s or "dask" in s else [])
        for s, (n, _) in TABLE.items()
    ],
)
def test_spent(situation, spends, tmp_path):
    budget = PrivacyBudget(200.0)
    budget = TABLE[situation][1](budget, tmp_path) or budget
    assert budget.spent.epsilon == spends
    assert budget.spent.delta == 0.0
    assert sum(charge.epsilon for charge in budget.charges) == pytest.approx(spends)
    scale(PrivacyBudget(1.0)).fit(X)  # nothing is left that would hinder the next one


def diary_of(path, counted):
    """Return a failpoint that appends a byte to a file for every fit that gets to `counted`."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    fresh = False

    def failpoint(name):
        nonlocal fresh
        if name == "before_charge":
            fresh = True
        if name == counted and fresh:
            fresh = False  # the first noise of a fit; it draws more
            os.write(file, b".")

    return failpoint


def fit_until_killed(budget, path):
    def run():
        release._failpoint = diary_of(path, "after_noise")
        while True:
            scale(budget).fit(X)

    return forked(run)


@pytest.mark.slow
def test_200_kills_at_random_times_lose_no_charge(tmp_path):
    # The ledger may count a fit whose noise was never drawn, at most one for each kill; it never
    # misses one. A child is killed a random time after its first or second noise, or after none:
    # however slow the disk is, two thirds of the kills hit a process at work.
    budget = PrivacyBudget(1e6, ledger=tmp_path / "ledger")
    diary = tmp_path / "diary"
    delays = random.Random(0)
    for _ in range(200):
        before = diary.stat().st_size if diary.exists() else 0
        wanted, deadline = before + delays.randrange(3), time.monotonic() + 60
        pid = fit_until_killed(budget, diary)
        while (diary.stat().st_size if diary.exists() else 0) < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        time.sleep(delays.uniform(0.0, 0.01))
        os.kill(pid, signal.SIGKILL)
        see_killed(pid)
    drawn = diary.stat().st_size
    assert drawn <= len(budget.charges) <= drawn + 200
    assert budget.spent.epsilon == len(budget.charges)
    assert drawn >= 150  # the kills did hit processes at work
    again = PrivacyBudget(1e6, ledger=tmp_path / "ledger")
    scale(again).fit(X)  # it clears away the journal that a killed process may have left
    assert again.spent.epsilon == budget.spent.epsilon
    assert sorted(os.listdir(tmp_path)) == ["diary", "ledger", "ledger.lock"]


def test_the_diary_would_show_noise_before_the_charge(tmp_path):
    # The planted bug: a mechanism that draws its noise where the charge is still to come.
    budget = PrivacyBudget(1e6)
    diary = tmp_path / "diary"

    def run():
        notes = diary_of(diary, "before_charge")

        def failpoint(name):
            notes(name)
            os.kill(os.getpid(), signal.SIGKILL)

        release._failpoint = failpoint
        scale(budget).fit(X)

    see_killed(forked(run))
    assert diary.stat().st_size == 1 > len(budget.charges)
