"""DPSubsampleAggregate in searches, pipelines and parallel fits; its progress."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pandas as pd
import pytest
from models import (
    LABELS,
    PUBLIC,
    SECRET,
    TARGETS,
    TEST,
    TREE,
    A,
    Quotes,
    R,
    X,
    averaging,
    budget_of,
    linear,
    relations,
    smoothed,
    voting,
)
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPStandardScaler, PrivacyBudget
from skdp.ensemble import DPSubsampleAggregate
from skdp.exceptions import BudgetExceededError
from skdp.model_selection import search_cost
from tests.folding import each

# --- ledger, parallel fits, composition ---------------------------------------------------------


@relations
@each("n_jobs", [None, 1, 2])
def test_one_charge_whatever_the_number_of_jobs(n_jobs, relation):
    budget = budget_of(relation)
    voting(n_jobs=n_jobs, epsilon=2.0, delta=1e-3, budget=budget, random_state=None).fit(X, LABELS)
    (charge,) = budget.charges
    assert (charge.epsilon, charge.delta) == (2.0, 1e-3)
    assert budget.spent.epsilon == 2.0


def test_a_fit_beyond_the_budget_is_refused():
    budget = PrivacyBudget(1.0)
    with pytest.raises(BudgetExceededError):
        voting(epsilon=1.5, budget=budget).fit(X, LABELS)
    assert budget.spent.epsilon == 0


@pytest.mark.parametrize("make", [voting, averaging, linear])
def test_seeds_repeat_a_fit_and_jobs_change_nothing(make):
    y = LABELS if make is voting else TARGETS
    first, second = make(n_jobs=1).fit(X, y), make(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(first.predict(TEST), second.predict(TEST))
    other = make(random_state=1).fit(X, y)
    name = "coef_" if make is linear else "votes_" if make is voting else "answers_"
    np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert not np.array_equal(getattr(first, name), getattr(other, name))


# --- progress -------------------------------------------------------------------------------------


class Log:
    """Writes down and prints which tasks begin and end; asks for everything that it may ask for."""

    def __init__(self, stop_at=None):
        self.events, self.passed, self.stop_at = [], [], stop_at

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.passed += [X, y, metadata, fitted_estimator]
        self.events.append(("begin", context.task_name, context.max_subtasks))
        self.kept = vars(estimator).copy()

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.passed += [X, y, metadata, fitted_estimator]
        self.events.append(("end", context.task_name, context.task_id))
        print("heard", context.task_id)
        if context.task_name == "block" and context.task_id == self.stop_at:
            raise RuntimeError("enough")


def steps(n_blocks):
    """Return the tasks of a fit as callbacks see them."""
    found = ["setup", ("begin", "fit", 1), ("begin", "blocks", n_blocks)]
    for i in range(n_blocks):
        found += [("begin", "block", 0), ("end", "block", i)]
    return [*found, ("end", "blocks", 0), ("end", "fit", 0), "teardown"]


needs_callbacks = pytest.mark.skipif(
    not hasattr(DPSubsampleAggregate, "set_callbacks"), reason="scikit-learn before 1.9"
)


@needs_callbacks
@pytest.mark.parametrize(
    ("make", "n_jobs", "relation"),
    [(voting, 1, R), (voting, 2, A), (averaging, 1, A), (linear, 1, R), (smoothed, 1, R)],
)
def test_callbacks_are_told_how_many_blocks_are_done(make, n_jobs, relation, capfd):
    """The same whatever the rows: failing blocks and empty ones among them. Nothing is passed."""
    log = Log()
    inner = Quotes("fit") if make is voting else None
    model = make(inner or (TREE if make is voting else None), n_jobs=n_jobs, n_blocks=7)
    model.set_params(budget=budget_of(relation), student=TREE if make is voting else None)
    for rows in (X[:30], np.where(np.arange(60).reshape(30, 2) == 8, SECRET, X[:30]), X[:3]):
        log.events.clear()
        model.set_callbacks(log).fit(rows, (LABELS if make is voting else TARGETS)[: len(rows)])
        assert log.events == steps(model.n_blocks_)
        said = "".join(capfd.readouterr())
        assert said.count("heard") == model.n_blocks_ + 2
        assert str(SECRET) not in said
    assert log.passed
    assert all(one is None for one in log.passed)
    # What it saw of the estimator is parameters, and what is public or released.
    assert not any(row.tobytes() in pickle.dumps(log.kept) for row in X[:30])


@pytest.mark.slow
@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_callback_that_raises_ends_the_fit(n_jobs, capfd):
    """At the same block whatever the rows; the fit stays charged, and nothing is released."""
    for rows in (X[:60], np.full((60, 2), SECRET)):
        budget = budget_of(R)
        model = voting(n_jobs=n_jobs, n_blocks=20, budget=budget).set_callbacks(log := Log(3))
        before = dict(vars(model))
        with pytest.raises(RuntimeError, match="enough") as caught:
            model.fit(rows, LABELS[:60])
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert log.events[-2:] == [("end", "block", 3), "teardown"]
        assert budget.spent.epsilon == 20.0
        assert vars(model) == before


@needs_callbacks
def test_callbacks_of_the_blocks_estimator_are_dropped():
    """They would be given private rows; and those of the fit are not handed on."""
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    for part in (inner, inner[-1]):
        if hasattr(part, "set_callbacks"):
            part.set_callbacks(Log())
    logs = [part._skl_callbacks[0] for part in (inner, inner[-1]) if hasattr(part, "set_callbacks")]
    assert logs
    model = voting(inner, n_blocks=5, n_jobs=1, student=TREE)
    model.fit(X, LABELS)
    assert not any(log.events for log in logs)
    assert all(part._skl_callbacks for part in (inner, inner[-1]) if hasattr(part, "set_callbacks"))


@needs_callbacks
def test_callbacks_survive_a_clone_and_the_output_of_other_threads_is_kept(capsys):
    said = threading.Event()
    done = threading.Event()

    def display():
        said.wait()
        print("from a display")
        done.set()

    thread = threading.Thread(target=display)
    thread.start()

    class Asks(Log):
        def on_fit_task_begin(self, estimator, context):
            if context.task_name == "block":
                said.set()
                done.wait()

    clone(voting(n_blocks=3).set_callbacks(Asks())).fit(X, LABELS)
    thread.join()
    assert "from a display" in capsys.readouterr().out


@pytest.mark.slow
def test_search_pipeline_and_nested_parameters():
    budget = PrivacyBudget(100.0)
    pipe = make_pipeline(
        DPStandardScaler(bounds=(-1, 1), budget=budget), voting(epsilon=5.0, budget=budget)
    )
    search = GridSearchCV(pipe, {"dpsubsampleaggregate__estimator__max_depth": [1, 2]}, cv=2)
    cost = search_cost(search, len(X))
    with budget.reserve(cost):
        search.fit(X, LABELS)
    assert budget.spent.epsilon == 5 * 6.0
    assert search.score(TEST, np.where(TEST[:, 0] > 0, "late", "on time")) > 0.8


@pytest.mark.slow
def test_tables_reach_the_estimator_with_their_columns():
    table = pd.DataFrame(X, columns=["a", "b"])
    inner = make_pipeline(make_column_transformer(("passthrough", ["a"])), TREE)
    model = voting(inner, public=pd.DataFrame(PUBLIC, columns=["a", "b"])).fit(table, LABELS)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    truth = np.where(TEST[:, 0] > 0, "late", "on time")
    assert model.score(pd.DataFrame(TEST, columns=["a", "b"]), truth) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("make", [voting, averaging])
def test_an_estimator_that_works_in_place_passes_nothing_on(make):
    """Its blocks would see what the blocks before have made of the queries."""
    final = LogisticRegression() if make is voting else Ridge(1e-3)
    answers = [
        make(make_pipeline(StandardScaler(copy=copy), final)).fit(
            X, LABELS if make is voting else TARGETS
        )
        for copy in (True, False)
    ]
    for model in answers:
        asked = PUBLIC[model.queries_]
        if make is voting:
            assert np.mean(model.answers_ == np.where(asked[:, 0] > 0, "late", "on time")) > 0.9
        else:
            truth = 3 * asked[:, 0] - asked[:, 1] + 0.5
            assert np.mean(np.abs(model.answers_ - truth)) < 1


def test_a_booster():
    inner = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5)
    model = averaging(inner, n_blocks=20, epsilon=500.0, n_queries=20).fit(X, TARGETS)
    assert np.corrcoef(model.answers_, 3 * PUBLIC[model.queries_, 0])[0, 1] > 0.9
