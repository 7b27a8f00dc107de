"""Private searches whose unit is a user: parts drawn per user, ids for every fit and score."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline

from skdp import (
    DPPCA,
    DPGridSearchCV,
    DPKMeans,
    DPRidge,
    DPStandardScaler,
    PrivacyBudget,
)
from skdp.audit import neighbour_check
from skdp.core.transcript import record
from skdp.model_selection import check_pipeline, private_scorer
from skdp.neighbors import DPNearestCentroid
from skdp.tabular import WholeUnits
from tests.folding import each

RELATIONS = ("replace_one", "add_or_remove_one")
RNG = np.random.default_rng(0)
USERS = RNG.integers(0, 30, 200)
Y = np.arange(200) % 2
X = RNG.normal(size=(200, 2)) + 3.0 * Y[:, None]
CLASSIFIER = DPNearestCentroid(classes=[0, 1], bounds=(-4, 7))
GRID = {"epsilon": [1.0]}


def budget_of(relation="add_or_remove_one"):
    return PrivacyBudget(1000, 0.1, adjacency=relation, unit="user_id")


def search(estimator=CLASSIFIER, grid=GRID, **parameters):
    return DPGridSearchCV(estimator, grid, **{"n_runs": 2, "epsilon": 30.0, **parameters})


class Seen:
    """Remembers what the runs of a search are handed."""

    def __init__(self, monkeypatch):
        self.fits, self.scores = [], []
        fit, score = DPGridSearchCV._fit_run, DPGridSearchCV._score_run

        def watched(true, where):
            def call(first, X, y, budget, seed, **groups):
                where.append((X, y, groups["groups"], budget))
                return true(first, X, y, budget, seed, **groups)

            return call

        monkeypatch.setattr(
            DPGridSearchCV, "_fit_run", staticmethod(lambda *a: watched(fit(*a), self.fits))
        )
        monkeypatch.setattr(
            DPGridSearchCV, "_score_run", lambda s, *a: watched(score(s, *a), self.scores)
        )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_users_are_dealt_out_whole_and_every_run_has_their_ids(monkeypatch, relation, delta):
    seen, budget = Seen(monkeypatch), budget_of(relation)
    model = search(budget=budget, delta=delta)
    with record() as transcript:
        model.fit(X, Y, groups=pd.Series(USERS, name="user_id"))
    assert seen.fits and len(seen.fits) == len(seen.scores)
    for fitted, scored in zip(seen.fits, seen.scores, strict=True):
        assert not set(fitted[2]) & set(scored[2])
        assert len(fitted[2]) + len(scored[2]) == 200
        for rows, y, ids, inner in (fitted, scored):
            assert (inner.unit, inner.adjacency) == ("user_id", relation)
            for user in set(ids):
                assert np.array_equal(rows[ids == user], X[user == USERS])
                assert np.array_equal(y[ids == user], Y[user == USERS])
    (charge,) = budget.charges
    assert charge.epsilon == 30.0 and charge.delta in (0.0, delta)
    assert model.privacy_.unit == "user_id"
    assert model.best_estimator_.max_rows_per_unit_ >= 1
    # All of the search's allowance is a run's third, under both relations.
    if not delta:
        assert {one.cost.epsilon for one in transcript.sessions if one.inner} == {10.0}


@pytest.mark.parametrize(
    "ids",
    [USERS.tolist(), [f"user {i}" for i in USERS], pl.Series(USERS), pd.DataFrame({"id": USERS})],
    ids=["list", "text", "polars", "table"],
)
def test_ids_of_every_kind_arrive_as_they_are(ids):
    table = WholeUnits(X, Y, ids, unit_name="user", estimator="test")
    rows, y, found = table.part(np.array([3, 5]))
    assert len(set(found.tolist())) == 2
    listed = ids["id"].tolist() if isinstance(ids, pd.DataFrame) else list(ids)
    own = np.array([one in set(found.tolist()) for one in listed])
    assert np.array_equal(rows, X[own]) and np.array_equal(y, Y[own])
    assert [one for one, mine in zip(listed, own, strict=True) if mine] == found.tolist()


STEPS = {
    "pipeline": make_pipeline(DPStandardScaler(bounds=(-4, 7)), CLASSIFIER),
    "nested": make_pipeline(make_pipeline(DPStandardScaler(bounds=(-4, 7))), CLASSIFIER),
    "columns": make_pipeline(
        ColumnTransformer([("a", DPStandardScaler(bounds=(-4, 7)), [0, 1])]), CLASSIFIER
    ),
    "union": make_pipeline(FeatureUnion([("a", DPStandardScaler(bounds=(-4, 7)))]), CLASSIFIER),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_get_the_ids(name):
    budget = budget_of()
    model = search(STEPS[name], {"memory": [None]}, budget=budget, epsilon=60.0)
    model.fit(X, Y, groups=USERS)
    assert model.best_estimator_[-1].max_rows_per_unit_ >= 1
    assert len(budget.charges) == 1


def test_targets_get_the_ids():
    estimator = TransformedTargetRegressor(
        DPRidge(bounds=(-4, 7), target_bounds=(0, 1)), func=np.abs, inverse_func=np.abs
    )
    scoring = private_scorer("neg_mean_squared_error", epsilon=1, bounds=1)
    model = search(estimator, {"regressor__alpha": [1.0]}, scoring=scoring, budget=budget_of())
    model.fit(X, Y, groups=USERS)
    assert model.best_estimator_.regressor_.max_rows_per_unit_ >= 1


def test_rows_a_user_that_the_search_states_hold_where_steps_and_scorer_state_none(monkeypatch):
    found = []
    true = DPGridSearchCV._score_run
    monkeypatch.setattr(
        DPGridSearchCV, "_score_run", lambda s, *a: (found.append(a[-1]), true(s, *a))[1]
    )
    for own, scorer, want in (("private", "private", (3, 3)), (5, 7, (5, 7))):
        estimator = DPKMeans(2, bounds=(-5, 9), max_rows_per_unit=own)
        scoring = private_scorer("neg_inertia", epsilon=1, bounds=9, max_rows_per_unit=scorer)
        model = search(
            estimator, {"n_clusters": [2]}, scoring=scoring, max_rows_per_unit=3,
            budget=budget_of(),
        )  # fmt: skip
        model.fit(X, groups=USERS)
        assert (model.best_estimator_.max_rows_per_unit_, found.pop()) == want


class NoGroups(DPNearestCentroid):
    def fit(self, X, y):
        return super().fit(X, y)


class Priced(ClassifierMixin, BaseEstimator):
    """Charges, and takes no groups."""

    def __init__(self, epsilon=1.0, budget=None):
        self.epsilon = epsilon
        self.budget = budget

    def privacy_cost(self, n_samples=None, n_features=None):
        return DPNearestCentroid(epsilon=self.epsilon, classes=[0, 1]).privacy_cost()

    def fit(self, X, y):
        return self


REGRESSION = private_scorer("neg_mean_squared_error", epsilon=1, bounds=1)


@each(
    ("model", "arguments", "text"),
    [
        (search(), {}, "no groups= say to whom"),
        (search(), {"groups": pd.Series(USERS, name="visit")}, "groups are named 'visit'"),
        (search(), {"groups": USERS[:5]}, "as many entries as X has rows"),
        (search(NoGroups(classes=[0, 1])), {"groups": USERS}, "NoGroups: its fit takes no groups="),
        (search(Priced()), {"groups": USERS}, "Priced: its fit takes no groups="),
        (
            search(make_pipeline(DPPCA(1), NoGroups(classes=[0, 1])), {"dppca__n_components": [1]}),
            {"groups": USERS},
            r"step nogroups \(NoGroups\): its fit takes no groups=",
        ),
        (
            search(
                TransformedTargetRegressor(
                    DPRidge(bounds=(-4, 7), target_bounds=(0, 1)),
                    transformer=DPStandardScaler(bounds=(0, 1)),
                ),
                {"regressor__alpha": [1.0]},
                scoring=REGRESSION,
            ),
            {"groups": USERS},
            "passes no groups on to its transformer",
        ),
        (search(max_rows_per_unit=10**8), {"groups": USERS}, "max_rows_per_unit=100000000"),
        (search(max_rows_per_unit=0), {"groups": USERS}, "max_rows_per_unit"),
        (
            search(CLASSIFIER, {"max_rows_per_unit": [10**8]}),
            {"groups": USERS},
            "max_rows_per_unit=100000000",
        ),
    ],
)
def test_what_cannot_protect_users_is_refused_before_the_charge(model, arguments, text):
    budget = budget_of()
    model.set_params(budget=budget)
    with pytest.raises((TypeError, ValueError), match=text):
        model.fit(X, Y, **arguments)
    assert budget.charges == []
    assert not hasattr(model, "best_estimator_")


def test_a_row_without_an_id_is_left_out_or_refused():
    ids = [None, *USERS[1:]]
    assert search(budget=budget_of()).fit(X, Y, groups=ids).privacy_.unit == "user_id"
    budget = budget_of("replace_one")
    with pytest.raises(ValueError, match="id for every row"):
        search(budget=budget).fit(X, Y, groups=ids)
    assert budget.charges == []


def test_groups_without_a_unit_are_refused():
    budget = PrivacyBudget(100, adjacency="add_or_remove_one")
    with pytest.raises(ValueError, match="the budget protects one row"):
        search(budget=budget).fit(X, Y, groups=USERS)
    assert budget.charges == []


def test_without_a_budget_users_are_protected_all_the_same():
    model = search().fit(X, Y, groups=USERS)
    assert model.privacy_.unit == "unit"
    assert model.best_estimator_.max_rows_per_unit_ >= 1


def test_checks_of_pipelines_know_units():
    (finding, *_) = check_pipeline(search(NoGroups(classes=[0, 1]), budget=budget_of()))
    assert "takes no groups" in finding.what
    assert not check_pipeline(search(budget=budget_of()))


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_user_of_most_rows_and_no_users_at_all(relation):
    users = np.where(np.arange(200) < 190, 7, USERS)
    search(budget=budget_of(relation)).fit(X, Y, groups=users)
    search(budget=budget_of(relation)).fit(X[:0], Y[:0], groups=users[:0])


def kmeans(relation, test_size):
    budget = budget_of(relation)
    options = {"max_rows_per_unit": 2, "budget": budget}
    return DPGridSearchCV(
        DPKMeans(2, bounds=(-1, 1), algorithm="lloyd", max_iter=1, **options),
        {"n_clusters": [2]},
        scoring=private_scorer("neg_inertia", epsilon=1, bounds=2, **options),
        n_runs=2,
        test_size=test_size,
        epsilon=9.0,
        budget=budget,
    )


def pair(relation):
    rows = np.sign(np.random.default_rng(3).normal(size=(60, 2)))
    users = np.arange(60) % 6
    own = users == 3
    rows[own] = 1.0
    if relation == "replace_one":
        other = np.where(own[:, None], 0.0, rows)
        return rows, users, other, users
    return rows, users, rows[~own], users[~own]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("test_size", [0.1, 0.9])
def test_one_user_moves_no_statistic_of_a_run_further_than_declared(relation, test_size):
    rows, users, other, users_other = pair(relation)
    assert neighbour_check(
        kmeans(relation, test_size), rows, other, groups=users, groups_neighbour=users_other
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("planted", ["fit", "score"])
def test_ids_of_rows_in_a_run_are_found(monkeypatch, relation, planted):
    """Planted: each row is handed over as a user of its own."""
    part, calls = WholeUnits.part, []

    def leaky(self, chosen):
        rows, y, ids = part(self, chosen)
        calls.append(1)
        mine = len(calls) % 2 == (planted == "fit")
        return rows, y, np.arange(len(ids)) if mine else ids

    monkeypatch.setattr(WholeUnits, "part", leaky)
    rows, users, other, users_other = pair(relation)
    with pytest.raises(AssertionError, match="moved further"):
        neighbour_check(
            kmeans(relation, 0.1 if planted == "fit" else 0.9),
            rows,
            other,
            groups=users,
            groups_neighbour=users_other,
        )
