"""Private searches: one charge, one winner, nothing of the other runs; what is refused before."""

from __future__ import annotations

import io
import pickle
import warnings
from contextlib import redirect_stdout

import numpy as np
import pandas as pd
import pytest
from scipy.stats import uniform
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import (
    DPGridSearchCV,
    DPKMeans,
    DPLogisticRegression,
    DPMinMaxScaler,
    DPRandomizedSearchCV,
    DPRidge,
    DPStandardScaler,
    PrivacyBudget,
    check_pipeline,
    config_context,
)
from skdp.budget import gdp_mu
from skdp.core.transcript import record
from skdp.exceptions import BudgetExceededError, PrivacyLeakError
from skdp.model_selection import cross_val_cost, private_scorer, search_cost
from skdp.neighbors import DPNearestCentroid
from tests.folding import each

RNG = np.random.default_rng(0)
Y = np.arange(200) % 2
X = RNG.normal(size=(200, 2)) + 3.0 * Y[:, None]
GRID = {"bounds": [(-4, 7), (-400, 700)]}
INERTIA = private_scorer("neg_inertia", epsilon=1.0, bounds=50.0)


def search(**parameters):
    return DPGridSearchCV(
        DPNearestCentroid(classes=[0, 1]), GRID, **{"n_runs": 3, "epsilon": 30.0, **parameters}
    )


def clusters(**parameters):
    estimator = parameters.pop("estimator", DPKMeans(2, bounds=(-5, 9)))
    options = {"scoring": INERTIA, "n_runs": 3, "epsilon": 9.0, **parameters}
    return DPGridSearchCV(estimator, {"n_clusters": [1, 2]}, **options)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_charge_whatever_the_number_of_runs(adjacency, delta):
    budget = PrivacyBudget(100, delta=1e-3, adjacency=adjacency)
    model = clusters(budget=budget, delta=delta)
    cost = model.privacy_cost()
    with record() as transcript:
        model.fit(X)
    (charge,) = budget.charges
    assert (charge.epsilon, charge.delta) == (cost.epsilon, cost.delta) == (9.0, delta)
    assert charge.mu is None
    assert [one["name"] for one in charge.releases] == ["best run"]
    assert model.privacy_.charged and len(model.privacy_.releases) == 1
    assert sum(not one.inner for one in transcript.sessions) == 1
    assert any(one.inner for one in transcript.sessions)


def test_nothing_but_the_winner_is_kept():
    model = search().fit(X, Y)
    assert set(vars(model)) - set(model.get_params(deep=False)) == {
        "best_estimator_", "best_index_", "best_params_", "best_score_", "cv_results_",
        "n_features_in_", "privacy_", "scorer_",
    }  # fmt: skip
    # The winner's own certificate is that of the search: what its release cost.
    assert model.best_estimator_.privacy_ == model.privacy_
    assert b"StandIn" not in pickle.dumps(model)


def test_warnings_of_runs_are_not_said_later():
    """As many as runs would tell their number, which is secret; scalers warn when a fit ends."""
    model = make_pipeline(DPMinMaxScaler(), DPNearestCentroid(classes=[0, 1]))
    grid = {"dpnearestcentroid__bounds": [(0, 1), (-1, 1)]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPGridSearchCV(model, grid, n_runs=3, epsilon=3.0, delta=1e-6).fit(X, Y)
        assert not [w for w in caught if "may be far off" in str(w.message)]
        DPMinMaxScaler(epsilon=0.1).fit(X)
    assert [w for w in caught if "may be far off" in str(w.message)]


def test_a_refit_of_the_winner_is_charged_to_the_users_budget():
    budget = PrivacyBudget(100)
    model = search(budget=budget).fit(X, Y)
    clone(model.best_estimator_).fit(X, Y)
    assert [charge.estimator for charge in budget.charges] == [
        "DPGridSearchCV",
        "DPNearestCentroid",
    ]


def test_the_winner_is_good_and_predicts():
    frame = pd.DataFrame(X, columns=["a", "b"])
    # With so much budget both candidates are good.
    with config_context(noise="seeded"):
        model = search(n_runs=8, epsilon=300.0, random_state=1).fit(frame, Y)
    assert model.best_params_ in list(ParameterGrid(GRID))
    results = pd.DataFrame(model.cv_results_)  # all candidates, and the score of the best alone
    assert model.cv_results_["params"][model.best_index_] == model.best_params_
    assert results["mean_test_score"].dropna().to_dict() == {model.best_index_: model.best_score_}
    assert model.privacy_.seeded
    assert model.score(frame, Y) > 0.9
    assert list(model.classes_) == [0, 1]
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.predict(frame).shape == (200,)
    assert not hasattr(clusters(), "predict_proba")
    with pytest.raises(NotFittedError):
        search().predict(X)


def test_runs_and_their_price():
    assert search(epsilon=3.0).run_cost().epsilon == 1.0
    assert search(epsilon=3.0, runs="logarithmic").run_cost().epsilon == 1.5
    whole = gdp_mu(1.0, 1e-6)
    for n_runs, part in ((10, 0.66), (100, 0.5)):
        cost = search(epsilon=1.0, delta=1e-6, n_runs=n_runs).run_cost()
        assert part * whole < cost.mu < whole
        assert gdp_mu(cost.epsilon, cost.delta) <= cost.mu


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_steps_share_a_run_by_their_own_epsilon(delta, monkeypatch):
    # Pure runs have less noise here: Gaussian ones are asked for.
    monkeypatch.setattr(DPGridSearchCV, "_delta_of", lambda self, *_: delta)
    pipe = make_pipeline(
        DPStandardScaler(epsilon=1.0, bounds=(-5, 9)),
        DPNearestCentroid(epsilon=3.0, classes=[0, 1], bounds=(-5, 5)),
    )
    model = DPGridSearchCV(
        pipe, {"dpstandardscaler__epsilon": [1.0]}, n_runs=2, epsilon=12.0, delta=delta
    ).fit(X, Y)
    scaler, last = (step for _, step in model.best_estimator_.steps)
    if delta:
        mu = model.run_cost().mu
        assert gdp_mu(scaler.epsilon, delta) == pytest.approx(mu / 2)
        assert gdp_mu(last.epsilon, delta) == pytest.approx(mu * 0.75**0.5)
    else:
        assert (scaler.epsilon, last.epsilon) == (1.0, 3.0)


def test_candidates_are_drawn_and_the_winner_is_one_of_them():
    model = DPRandomizedSearchCV(
        DPRidge(bounds=(-5, 9), target_bounds=(0, 1)),
        {"alpha": uniform(0.5, 1.0)},
        n_iter=4,
        scoring=private_scorer("neg_mean_squared_error", epsilon=1.0, bounds=1.0),
        n_runs=3,
        epsilon=9.0,
    ).fit(X, Y)
    assert 0.5 <= model.best_params_["alpha"] <= 1.5


def refused(model, *text, y=Y, kind=(TypeError, ValueError)):
    budget = PrivacyBudget(1000, delta=0.1)
    model.set_params(budget=budget)
    with pytest.raises(kind) as caught:
        model.fit(X) if y is None else model.fit(X, y)
    assert budget.charges == []
    for one in text:
        assert one in str(caught.value)


@each(
    ("model", "text"),
    [
        (search(n_runs=1), "n_runs"),
        (search(runs="poisson"), "runs"),
        (search(test_size=1.0), "test_size"),
        (search(epsilon=0.0), "epsilon"),
        (search(scoring="roc_auc"), "metric must be one of"),
        (search(scoring=lambda m, X, y: 1.0), "private_scorer"),
        (clusters(scoring=None), "neg_inertia"),
        (DPGridSearchCV(DPNearestCentroid(), {"classes": [[0, 1], None]}), "classes"),
        (DPGridSearchCV(DPNearestCentroid(classes=[0, 1]), {"bounds": [(1, 0)]}), "bounds"),
        (DPGridSearchCV(DPNearestCentroid(classes=[0, 1]), {"nonsense": [0]}), "nonsense"),
        (DPGridSearchCV(LogisticRegression(), {"C": [1]}), "make_private"),
        (DPGridSearchCV(KMeans(), {"n_clusters": [1]}, scoring=INERTIA), "private"),
        (
            DPGridSearchCV(
                make_pipeline(StandardScaler(), DPLogisticRegression(classes=[0, 1])),
                {"dplogisticregression__bounds": [(-1, 1)]},
            ),
            "DPStandardScaler",
        ),
        (
            DPGridSearchCV(
                make_pipeline(DPKMeans(), PCA()), {"pca__n_components": [1]}, scoring=INERTIA
            ),
            "DPPCA",
        ),
    ],
)
def test_every_candidate_is_checked_before_the_charge(model, text):
    refused(model, text)


def test_rows_are_checked_before_the_charge():
    budget = PrivacyBudget(100)
    with pytest.raises(ValueError, match="NaN"):
        search(budget=budget).fit(np.full((5, 2), np.nan), Y[:5])
    with pytest.raises(ValueError, match="same number of rows"):
        search(budget=budget).fit(X, Y[:5])
    with pytest.raises(ValueError, match="minimum of 2"):
        search(budget=budget).fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="requires y"):
        search(budget=budget).fit(X)
    assert budget.charges == []


@each("bad", [np.nan, np.inf, None])
@each("classifier", [True, False])
def test_targets_are_checked_before_the_charge(bad, classifier):
    """In runs they would fail those that fit the row, and the others would win."""
    budget, y = PrivacyBudget(100), np.array([0, 1, 0, 1, bad], dtype=object)
    model, scoring = DPNearestCentroid(classes=[0, 1]), None
    if not classifier:
        model = DPRidge(target_bounds=(0, 1))
        scoring = private_scorer("neg_mean_squared_error", epsilon=1, bounds=1)
    grid = {"bounds": [(0, 1)]}
    with pytest.raises(ValueError, match="y must be"):
        DPGridSearchCV(model, grid, scoring=scoring, budget=budget).fit(X[:5], y)
    assert budget.charges == []


def test_a_cache_of_runs_is_refused(tmp_path):
    budget = PrivacyBudget(100)
    steps = [
        ("scale", DPStandardScaler(bounds=(0, 1))),
        ("model", DPNearestCentroid(classes=[0, 1])),
    ]
    model = Pipeline(steps, memory=str(tmp_path))
    with pytest.raises(ValueError, match="memory must be None"):
        DPGridSearchCV(model, {"model__bounds": [(0, 1)]}, budget=budget).fit(X[:9], Y[:9])
    assert budget.charges == [] and list(tmp_path.iterdir()) == []


def test_a_search_that_cannot_be_paid_reads_no_row():
    budget = PrivacyBudget(1.0)
    with record() as transcript, pytest.raises(BudgetExceededError):
        search(budget=budget).fit(X, Y)
    assert transcript.entries == [] and transcript.sessions == []


def test_when_every_run_fails_the_answer_is_one_error():
    class Fails(DPNearestCentroid):
        def fit(self, X, y):
            raise ValueError(f"a row {X[0]}")

    budget = PrivacyBudget(100)
    model = DPGridSearchCV(Fails(classes=[0, 1]), GRID, n_runs=2, budget=budget, epsilon=9.0)
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(printed):
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="every run of the search failed") as error:
            model.fit(X, Y)
    assert error.value.__context__ is None and error.value.__cause__ is None
    assert (caught, printed.getvalue()) == ([], "")
    assert len(budget.charges) == 1
    assert not hasattr(model, "best_estimator_")


def test_the_estimator_is_left_alone():
    budget, inner = PrivacyBudget(100), PrivacyBudget(5)
    estimator = DPKMeans(2, bounds=(-5, 9), epsilon=0.7, budget=inner)
    before = estimator.get_params()
    clusters(estimator=estimator, budget=budget).fit(X)
    assert estimator.get_params() == before
    assert inner.charges == [] and len(budget.charges) == 1


def test_an_ambient_budget_is_charged_once():
    with PrivacyBudget(100) as budget:
        clusters().fit(X)
    assert [charge.epsilon for charge in budget.charges] == [9.0]


def test_fits_that_no_price_names_reach_neither_ledger_nor_winner():
    class Hides(DPNearestCentroid):
        def fit(self, X, y):
            DPRidge(epsilon=50.0, bounds=(-4, 7), target_bounds=(0, 1)).fit(X, y)
            return super().fit(X, y)

    budget = PrivacyBudget(1000)
    model = DPGridSearchCV(Hides(classes=[0, 1]), GRID, n_runs=2)
    with budget, pytest.raises(PrivacyLeakError, match="more than it may lose"):
        model.fit(X, Y)
    assert len(budget.charges) == 1
    with pytest.raises(PrivacyLeakError, match="more than it may lose"):
        model.fit(X, Y)


@each("n_samples", [None, 1, 10**6])
@each("delta", [0.0, 1e-6])
def test_the_price_needs_no_number_of_rows(n_samples, delta):
    model = search(epsilon=3.0, delta=delta)
    cost = model.privacy_cost(n_samples=n_samples)
    assert (cost.epsilon, cost.delta, cost.mu) == (3.0, delta, None)
    assert cost == model.privacy_cost() == model.privacy_cost(None, None)
    assert model.run_cost().epsilon > 0
    assert cross_val_cost(model, cv=3, scoring=private_scorer("accuracy", epsilon=1)).epsilon == 12


def test_a_price_of_folds_asked_of_a_private_search_says_where_its_own_is():
    with pytest.raises(TypeError, match=r"DPGridSearchCV.privacy_cost\(\)"):
        search_cost(search())


def test_labels_in_a_list_are_a_list_in_every_run():
    model = search().fit(X.tolist(), Y.tolist())
    assert list(model.classes_) == [0, 1]


def test_checks_of_pipelines_know_it():
    budget = PrivacyBudget(100)
    assert not check_pipeline(search(budget=budget))
    (finding, *_) = check_pipeline(search(budget=budget, n_runs=0))
    assert "n_runs" in finding.what


def test_an_empty_table_is_a_table_where_numbers_of_rows_are_private():
    budget = PrivacyBudget(100, adjacency="add_or_remove_one")
    model = clusters(budget=budget).fit(np.empty((0, 2)))
    assert model.best_params_["n_clusters"] in (1, 2)
