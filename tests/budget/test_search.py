"""scikit-learn's searches, pipelines and copies around an estimator that charges a budget.

The estimator is the smallest one possible, so these tests are about the budget alone: every fit,
in whichever clone, thread or process, must be in the one ledger, once.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import distributed
import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from skdp.budget import Cost, PrivacyBudget
from skdp.exceptions import BudgetExceededError, SealedBudgetError

ROOT = Path(__file__).resolve().parents[2]
X = np.arange(60.0).reshape(30, 2)


class Charging(TransformerMixin, BaseEstimator):
    """Charges its epsilon in `fit`, like every estimator of skdp, and learns nothing."""

    def __init__(self, epsilon=1.0, shift=0.0, budget=None):
        self.epsilon, self.shift, self.budget = epsilon, shift, budget

    def fit(self, X, y=None):
        self.budget.charge(Cost(self.epsilon), estimator="Charging")
        self.shift_ = self.shift
        return self

    def transform(self, X):
        return X + self.shift_

    def score(self, X, y=None):
        return float(self.shift_)


def search_of(budget, n_jobs=None):
    return GridSearchCV(Charging(budget=budget), {"shift": [0, 1, 2]}, cv=5, n_jobs=n_jobs)


def pids(budget):
    return {charge.pid for charge in budget.charges}


def test_ten_clones():
    budget = PrivacyBudget(10.0)
    for _ in range(10):
        clone(Charging(budget=budget)).fit(X)
    assert budget.spent.epsilon == 10


def test_a_search_in_one_process():
    budget = PrivacyBudget(16.0)
    search = search_of(budget).fit(X)
    assert budget.spent.epsilon == 16
    assert search.best_estimator_.budget is budget
    assert search.best_params_ == {"shift": 2}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_a_search_in_two_workers(backend):
    budget = PrivacyBudget(16.0)
    with joblib.parallel_backend(backend):
        search = search_of(budget, n_jobs=2).fit(X)
    assert budget.spent.epsilon == 16
    assert len(budget.charges) == 16
    assert search.best_estimator_.budget is budget
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    others = pids(budget) - {os.getpid()}
    assert bool(others) == (backend != "threading")


@pytest.mark.slow
def test_a_search_on_a_dask_cluster():
    budget = PrivacyBudget(16.0)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_backend("dask"),
    ):
        search = search_of(budget, n_jobs=2).fit(X)
    assert budget.spent.epsilon == 16
    assert search.best_estimator_.budget is budget
    assert pids(budget) - {os.getpid()}


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_cross_validation(n_jobs):
    budget = PrivacyBudget(5.0)
    scores = cross_val_score(Charging(shift=3.0, budget=budget), X, cv=5, n_jobs=n_jobs)
    assert budget.spent.epsilon == 5
    assert list(scores) == [3.0] * 5


def test_a_search_that_cannot_be_paid_is_refused_before_its_first_fit():
    budget = PrivacyBudget(15.0)
    with pytest.raises(BudgetExceededError), budget.reserve(16 * Cost(1.0)):
        search_of(budget).fit(X)
    assert budget.charges == []


@pytest.mark.slow
def test_a_reserved_search_in_two_processes():
    budget = PrivacyBudget(20.0)
    with budget.reserve(16 * Cost(1.0)):
        search_of(budget, n_jobs=2).fit(X)
        assert (budget.spent.epsilon, budget.remaining.epsilon) == (16, 4)
    assert (budget.spent.epsilon, budget.remaining.epsilon) == (16, 4)


def test_composite_estimators_charge_once_a_step():
    budget = PrivacyBudget(100.0)

    def step(epsilon):
        return Charging(epsilon, budget=budget)

    for model, price in [
        (make_pipeline(step(1.0), step(2.0)), 3),
        (FeatureUnion([("a", step(1.0)), ("b", step(2.0))]), 3),
        (FeatureUnion([("a", step(1.0)), ("b", step(2.0))], n_jobs=2), 3),
        (ColumnTransformer([("a", step(1.0), [0]), ("b", step(2.0), [1])]), 3),
    ]:
        for one in (model, clone(model)):
            before = budget.spent.epsilon
            one.fit(X)
            assert budget.spent.epsilon - before == price


def test_cached_steps_of_a_pipeline_are_charged_once(tmp_path):
    budget = PrivacyBudget(100.0)
    pipe = Pipeline(
        [("first", Charging(1.0, budget=budget)), ("last", Charging(10.0, budget=budget))],
        memory=str(tmp_path / "cache"),
    )
    pipe.fit(X)
    assert budget.spent.epsilon == 11
    clone(pipe).fit(X)  # the first step comes from the cache, though the ledger has changed
    assert budget.spent.epsilon == 21
    assert pipe.named_steps["first"].budget is budget
    other = PrivacyBudget(100.0)  # another budget: another cache entry
    clone(pipe).set_params(first__budget=other, last__budget=other).fit(X)
    assert other.spent.epsilon == 11


REFIT = """
import pickle, sys
import numpy as np
model = pickle.load(open(sys.argv[1], "rb"))
for _ in range(5):
    model.fit(np.zeros((4, 2)))
"""


@pytest.mark.slow
def test_an_unpickled_copy_refitted_five_times_here_and_elsewhere(tmp_path):
    budget = PrivacyBudget(100.0)
    data = pickle.dumps(Charging(budget=budget).fit(X))
    assert budget.spent.epsilon == 1
    copy = pickle.loads(data)
    assert copy.budget is budget
    for _ in range(5):
        copy.fit(X)
    assert budget.spent.epsilon == 6
    (tmp_path / "model").write_bytes(data)
    path = os.pathsep.join([str(ROOT), *(p for p in sys.path if p)])
    subprocess.run(
        [sys.executable, "-c", REFIT, str(tmp_path / "model")],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
    assert budget.spent.epsilon == 11
    assert len(pids(budget)) == 2


def test_a_model_whose_ledger_is_gone_predicts_and_does_not_fit(tmp_path):
    budget = PrivacyBudget(100.0, ledger=tmp_path / "a.budget")
    data = pickle.dumps(Charging(shift=1.0, budget=budget).fit(X))
    del budget
    (tmp_path / "a.budget").unlink()
    model = pickle.loads(data)
    assert np.array_equal(model.transform(X), X + 1)
    assert "sealed" in repr(model)
    with pytest.raises(SealedBudgetError):
        model.fit(X)
    with pytest.raises(SealedBudgetError):
        clone(model).fit(X)
