"""Prices of searches, checked against what a search does: a toy estimator counts its fits."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePOut,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp.budget import Cost, PrivacyBudget
from skdp.model_selection import (
    PerRecordKFold,
    SearchCost,
    cross_val_cost,
    private_scorer,
    search_cost,
)
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler

FITS: list[tuple[float, float]] = []  # (epsilon, delta) of every fit of a Toy in this process


class Toy(ClusterMixin, BaseEstimator):
    """Says what it would charge, and notes every fit; looks at no data."""

    def __init__(self, epsilon=1.0, delta=0.0, k=1, budget=None):
        self.epsilon = epsilon
        self.delta = delta
        self.k = k
        self.budget = budget

    def privacy_cost(self, n_samples=None, n_features=None):
        return Cost(self.epsilon, self.delta, mu=0.1 if self.delta else None)

    def fit(self, X, y=None):
        FITS.append((self.epsilon, self.delta))
        self.cluster_centers_ = np.zeros((1, 1))
        return self

    def transform(self, X):
        return X

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y=None):
        return -self.k


class Wrapper(BaseEstimator):
    """A meta-estimator that skdp knows nothing of."""

    def __init__(self, estimator=None):
        self.estimator = estimator


class Free(Toy):
    def privacy_cost(self, n_samples=None, n_features=None):
        return None


class Charging(BaseEstimator):
    """Would fit private estimators of its own making, on its budget."""

    def __init__(self, budget=None):
        self.budget = budget


class PricedWrapper(Wrapper):
    def privacy_cost(self, n_samples=None, n_features=None):
        return 3 * self.estimator.privacy_cost()


X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2


def fitted(run):
    """Return the number of fits of a Toy, and what they charge, while `run` runs."""
    FITS.clear()
    run()
    return len(FITS), round(sum(e for e, _ in FITS), 9), round(sum(d for _, d in FITS), 12)


# --- search_cost: equal to what the search does -----------------------------------------------


PART = Toy(0.1)
SEARCHES = {
    "grid": GridSearchCV(Toy(), {"k": [1, 2, 3]}),
    "grid of epsilons": GridSearchCV(Toy(k=5), {"epsilon": [0.1, 0.2, 0.7], "k": [1, 2]}, cv=3),
    "two grids": GridSearchCV(Toy(), [{"k": [1, 2]}, {"epsilon": [0.5]}], cv=2),
    "no refit": GridSearchCV(Toy(), {"k": [1, 2, 3]}, refit=False),
    "refit by name": GridSearchCV(
        Toy(), {"k": [1]}, scoring={"a": lambda e, X, y=None: 0.0}, refit="a"
    ),
    "splitter": GridSearchCV(Toy(), {"k": [1]}, cv=ShuffleSplit(7, random_state=0)),
    "splits given": GridSearchCV(Toy(), {"k": [1]}, cv=[(np.arange(9), np.arange(9, 20))] * 4),
    "leave one out": GridSearchCV(Toy(), {"k": [1]}, cv=LeaveOneOut()),
    "repeated": GridSearchCV(Toy(), {"k": [1]}, cv=RepeatedKFold(n_splits=2, n_repeats=3)),
    "per record": GridSearchCV(Toy(), {"k": [1, 2]}, cv=PerRecordKFold(2, random_state=1)),
    "pipeline": GridSearchCV(make_pipeline(Toy(0.5), Toy(0.25, 1e-6)), {"toy-2__k": [1, 2]}),
    "step replaced": GridSearchCV(
        Pipeline([("a", Toy(0.5)), ("b", Toy(0.25))]), {"a": [Toy(0.5), Toy(0.5, k=2)]}
    ),
    "union": GridSearchCV(
        Pipeline([("u", FeatureUnion([("a", PART), ("d", "drop"), ("b", PART)])), ("c", PART)]),
        {"u__a__k": [1, 2]},
    ),
    "columns": GridSearchCV(
        Pipeline(
            [
                ("c", ColumnTransformer([("a", PART, [0]), ("d", "drop", [0])], remainder=PART)),
                ("k", PART),
            ]
        ),
        {"k__k": [1, 2]},
    ),
    "target": GridSearchCV(
        TransformedTargetRegressor(make_pipeline(PART, LinearRegression())),
        {"check_inverse": [True]},
    ),
    "frozen": GridSearchCV(
        Pipeline([("f", FrozenEstimator(Toy(9.0).fit(X))), ("k", PART)]), {"k__k": [1, 2]}
    ),
    "search in a pipeline": GridSearchCV(
        make_pipeline(PART, GridSearchCV(PART, {"k": [1, 2]}, cv=2)), {"toy__k": [1, 2]}, cv=3
    ),
    "random, seed": RandomizedSearchCV(
        Toy(), {"epsilon": stats.uniform(0.5, 1), "k": [1, 2]}, n_iter=4, cv=2, random_state=3
    ),
    "random, state": RandomizedSearchCV(
        Toy(),
        {"k": [1, 2, 3]},
        n_iter=2,
        cv=2,
        random_state=np.random.RandomState(3),
    ),
    "random, few": RandomizedSearchCV(Toy(), {"k": list(range(9))}, n_iter=3, cv=2),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_price_of_a_search_is_what_its_fits_charge(name):
    search = SEARCHES[name]
    cost = search_cost(search, len(X))
    n_fits, epsilon, delta = fitted(lambda: clone(search).fit(X, Y.astype(float)))
    assert n_fits > 0
    if name == "grid of epsilons":  # the refitted one has k=1 and the least epsilon; not known
        assert cost.epsilon == pytest.approx(epsilon + 0.7 - 0.1)
    else:
        assert cost.epsilon == pytest.approx(epsilon, abs=1e-8)
    assert cost.delta == pytest.approx(delta, rel=1e-9)


def test_counts_of_fits_and_exact_sums():
    cost = search_cost(GridSearchCV(Toy(0.1), {"k": [1, 2, 3]}), 20)
    assert (cost.n_fits, cost.n_scores, cost.epsilon, cost.delta) == (16, 0, 1.6, 0.0)
    assert isinstance(cost, SearchCost)
    assert isinstance(cost, Cost)
    assert cost.components == ((Cost(0.1), 16),)
    assert pickle.loads(pickle.dumps(cost)).n_fits == 16
    assert (cost + Cost(0.4)).epsilon == 2.0
    assert (2 * cost).components == ((Cost(0.1), 32),)
    assert repr(cost).startswith("SearchCost(epsilon=1.6, delta=0.0, n_fits=16, n_scores=0, note=")
    PrivacyBudget(1.6).check(cost)
    with pytest.raises(ValueError, match="price"):
        PrivacyBudget(1.5999999).check(cost)


def test_pricing_reads_no_rows_and_leaves_the_search_alone():
    class Rows:
        def __getattr__(self, name):
            raise AssertionError("a row was read")

    search = RandomizedSearchCV(
        Toy(), {"k": [1, 2, 3]}, n_iter=2, random_state=np.random.RandomState(0)
    )
    before = pickle.dumps(search)
    assert search_cost(search).n_fits == 11
    assert pickle.dumps(search) == before
    assert not hasattr(search, "best_params_")
    budget = PrivacyBudget(15.0)
    with (
        pytest.raises(ValueError, match="price"),
        budget.reserve(search_cost(GridSearchCV(Toy(budget=budget), {"k": [1, 2, 3]}))),
    ):
        search.fit(Rows())
    assert budget.charges == []


def test_random_candidates_without_a_seed_are_priced_at_the_dearest():
    def price(distributions, **more):
        return search_cost(RandomizedSearchCV(Toy(), distributions, n_iter=3, cv=2, **more)).epsilon

    assert price({"epsilon": [0.1, 2.0], "k": range(1, 9)}) == 7 * 2.0
    assert price([{"epsilon": [0.1]}, {"epsilon": [0.5], "k": [1, 2]}]) == 7 * 0.5
    for unknown in (stats.uniform(0.5, 1), range(1001)):
        for name in ("epsilon", "k"):
            with pytest.raises(ValueError, match="random_state must be an int"):
                price({name: unknown})
    assert price({"k": range(1000)}) == 7.0
    with pytest.raises(ValueError, match="random_state must be an int"):
        price({"k": stats.randint(0, 9)}, random_state=np.random)  # the global state: unseeded
    pipe = Pipeline([("a", Toy(1.0)), ("b", Toy(1.0))])
    search = RandomizedSearchCV(pipe, {"a": [Toy(3.0), "passthrough"]}, n_iter=1, cv=2)
    assert search_cost(search).epsilon == 3 * 4.0


FREE_SCALER = DPStandardScaler(epsilon=1.0, bounds=(0, 40), with_mean=False, with_std=False)


@pytest.mark.parametrize(
    ("estimator", "distributions"),
    [
        (DPMinMaxScaler(epsilon=1.0, bounds=(0, 40)), {"bounds": ["private"]}),
        (
            make_pipeline(DPMinMaxScaler(epsilon=1.0, bounds=(0, 40)), Toy(0.5)),
            {"dpminmaxscaler__bounds": ["private"]},
        ),
        (FREE_SCALER, {"with_std": [True]}),
        (GridSearchCV(Toy(), {"k": [1, 2]}, cv=2), {"cv": [5]}),
        (GridSearchCV(Toy(), {"k": [1, 2]}, cv=2), {"refit": [True], "param_grid": [{"k": [1]}]}),
    ],
)
def test_random_candidates_may_change_any_parameter(estimator, distributions):
    # One combination each, so that the draw is known; what it charges comes from the grid.
    random = RandomizedSearchCV(estimator, distributions, n_iter=1, cv=2)
    grid = GridSearchCV(estimator, {k: list(v) for k, v in distributions.items()}, cv=2)
    assert search_cost(random, 20).epsilon == search_cost(grid, 20).epsilon
    budget = PrivacyBudget(99.0)
    if "budget" in estimator.get_params():
        search = clone(random).set_params(estimator__budget=budget, scoring=lambda e, X, y: 0.0)
        search.fit(X, Y)
        assert budget.spent.epsilon == search_cost(search, 20).epsilon == 3.0


@pytest.mark.parametrize("aggressive", [False, True])
@pytest.mark.parametrize(("n", "factor"), [(2, 2), (5, 3), (9, 3), (10, 2.5), (12, 4)])
def test_halving_is_priced_at_an_upper_bound(n, factor, aggressive):
    search = HalvingGridSearchCV(
        Toy(),
        {"k": list(range(n))},
        factor=factor,
        cv=2,
        aggressive_elimination=aggressive,
        random_state=0,
        min_resources=4,
    )
    cost = search_cost(search, 200)
    many = np.arange(400.0).reshape(200, 2)
    n_fits, epsilon, _ = fitted(lambda: search.fit(many))
    assert epsilon <= cost.epsilon
    assert n_fits <= cost.n_fits
    if aggressive or search.n_possible_iterations_ >= search.n_required_iterations_:
        assert n_fits == cost.n_fits  # the bound is reached
    assert "upper bound" in cost.note


@pytest.mark.parametrize("random_state", [0, None])
@pytest.mark.parametrize(
    "more",
    [
        {"n_candidates": 7, "min_resources": 8},
        {"n_candidates": 50, "min_resources": "exhaust"},  # more than there are
        {"n_candidates": "exhaust", "min_resources": 20},
        {"n_candidates": "exhaust", "min_resources": 20, "max_resources": 90},
        {"n_candidates": "exhaust"},
        {"n_candidates": "exhaust", "resource": "epsilon", "max_resources": 6},
        {"n_candidates": 4, "resource": "epsilon", "max_resources": 4},
    ],
)
def test_random_halving_is_priced_at_an_upper_bound(more, random_state):
    search = HalvingRandomSearchCV(
        Toy(), {"k": list(range(12))}, factor=2, cv=2, random_state=random_state, **more
    )
    cost = search_cost(search, 200)
    many = np.arange(400.0).reshape(200, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer combinations than candidates
        n_fits, epsilon, _ = fitted(lambda: search.fit(many))
    assert epsilon <= cost.epsilon
    assert n_fits <= cost.n_fits
    if search.n_possible_iterations_ >= search.n_required_iterations_:
        assert n_fits == cost.n_fits  # the bound is reached
    assert "upper bound" in cost.note


def test_random_halving_is_priced_at_what_it_draws():
    search = HalvingRandomSearchCV(
        Toy(), {"epsilon": stats.uniform(0.1, 1.0)}, n_candidates=4, min_resources=20, cv=2
    )
    with pytest.raises(ValueError, match=r"random_state must be an int .* epsilon"):
        search_cost(search, 200)
    cost = search_cost(search.set_params(random_state=3), 200)
    _, epsilon, _ = fitted(lambda: search.fit(np.arange(400.0).reshape(200, 2)))
    assert 0 < epsilon <= cost.epsilon


def test_halving_over_a_priced_resource_takes_its_largest_value():
    search = HalvingGridSearchCV(
        Toy(), {"k": [1, 2, 3]}, resource="epsilon", max_resources=4, min_resources=1, cv=2
    )
    cost = search_cost(search, 20)
    _, epsilon, _ = fitted(lambda: search.fit(X))
    assert epsilon <= cost.epsilon == (2 * (3 + 1) + 1) * 4.0


def test_the_refit_is_priced_at_a_candidate_that_is_dearest_in_every_sense_or_at_their_union():
    def price(epsilons, deltas):
        grid = [{"epsilon": [e], "delta": [d]} for e, d in zip(epsilons, deltas, strict=True)]
        return search_cost(GridSearchCV(Toy(), grid, cv=2))

    assert price([0.1, 0.5], [0.0, 0.0]).epsilon == pytest.approx(2 * 0.6 + 0.5)
    # One is dearer in delta, the other in epsilon: the refit may be either, so both are set aside.
    cost = price([2.0, 0.5], [0.0, 1e-6])
    assert cost.epsilon == pytest.approx(3 * 2.5)
    assert cost.delta == pytest.approx(3e-6)


# --- private scorers in the cost -------------------------------------------------------------


def test_private_scores_are_in_the_price():
    one, two = (private_scorer("accuracy", epsilon=e) for e in (0.125, 0.25))

    def price(**more):
        cost = search_cost(GridSearchCV(Toy(), {"k": [1, 2, 3]}, **more), 20)
        return cost.epsilon, cost.n_scores, "scorer is not private" in cost.note

    assert price(scoring=one) == (16 + 15 * 0.125, 15, False)
    assert price(scoring=one, return_train_score=True) == (16 + 30 * 0.125, 30, False)
    assert price(scoring={"a": one, "b": two}, refit="a") == (16 + 15 * 0.375, 30, False)
    assert price(scoring={"a": one, "b": "accuracy"}, refit="a") == (16 + 15 * 0.125, 15, True)
    assert price() == (16, 0, True)
    assert price(scoring="accuracy") == (16, 0, True)
    assert price(scoring=["accuracy", "f1"], refit=False) == (15, 0, True)
    # The scorer alone has a cost where the estimator has none.
    plain = GridSearchCV(DummyClassifier(), {"strategy": ["prior"]}, scoring=one)
    assert search_cost(plain).epsilon == 5 * 0.125


def test_price_of_cross_validation():
    scorer = private_scorer("accuracy", epsilon=0.125)
    assert cross_val_cost(Toy()).epsilon == 5
    assert cross_val_cost(Toy(), 3, scoring=scorer).epsilon == 3 * 1.125
    assert cross_val_cost(Toy(), 3, scoring=scorer, return_train_score=True).epsilon == 3 * 1.25
    assert cross_val_cost(Toy(), LeaveOneOut(), n_samples=20).n_fits == 20
    groups = np.arange(20) % 4
    assert cross_val_cost(Toy(), LeaveOneGroupOut(), n_samples=20, groups=groups).n_fits == 4
    nested = GridSearchCV(Toy(), {"k": [1, 2]}, cv=2)
    cost = cross_val_cost(nested, 3)
    n_fits, epsilon, _ = fitted(lambda: cross_val_score(nested, X, cv=3))
    assert (n_fits, epsilon) == (15, 15.0)
    assert cost.epsilon == 15.0
    assert "not private" in cost.note  # the inner scores


def test_steps_that_release_nothing_are_free():
    budget = PrivacyBudget(99.0, adjacency="add_or_remove_one")
    pipe = make_pipeline(Free(), Toy(0.5, budget=budget))
    cost = cross_val_cost(pipe, PerRecordKFold(2, random_state=0), scoring="accuracy")
    assert cost.epsilon == 1.0
    assert "replaced record" not in cost.note  # of the free step, which has no budget
    with pytest.raises(ValueError, match="has a cost"):
        cross_val_cost(Free(), 2)


def test_only_one_budget_is_counted_if_asked():
    mine, other = PrivacyBudget(99.0), PrivacyBudget(99.0)
    pipe = make_pipeline(Toy(0.5, budget=mine), Toy(0.25, budget=other), Toy(0.125))
    scorer = private_scorer("accuracy", epsilon=1.0, budget=mine)
    assert cross_val_cost(pipe, 2, scoring=scorer).epsilon == 2 * 1.875
    assert cross_val_cost(pipe, 2, scoring=scorer, budget=mine).epsilon == 2 * 1.5
    assert cross_val_cost(pipe, 2, scoring=scorer, budget=other).epsilon == 2 * 0.25
    with pytest.raises(ValueError, match="nothing in the search has a cost"):
        cross_val_cost(Toy(), 2, budget=mine)


def scores_of_searches():
    budget = PrivacyBudget(999.0)
    one, two = (private_scorer("accuracy", epsilon=e, budget=budget) for e in (0.125, 0.25))
    inner = GridSearchCV(Toy(0.5, budget=budget), {"k": [1, 2]}, cv=2, scoring=one)
    nested = GridSearchCV(inner, {"estimator__delta": [0.0, 0]}, cv=2)
    named = {"a": one, "b": two}
    return budget, {
        "search": inner,
        "search of a search": nested,
        "pipeline": make_pipeline(StandardScaler(), make_pipeline("passthrough", inner)),
        "named": clone(inner).set_params(scoring=named, refit="b"),
        "frozen": make_pipeline(Toy(0.5, budget=budget), FrozenEstimator(clone(inner).fit(X, Y))),
        "scorers to choose from": GridSearchCV(inner, {"scoring": [one, clone(one)]}, cv=2),
        "steps to choose from": GridSearchCV(
            make_pipeline(inner), {"gridsearchcv": [nested]}, cv=2
        ),
    }


def spent_by(budget, run):
    """Return what a Toy (which notes it) and a scorer (which charges it) spend."""
    before = budget.spent.epsilon
    return fitted(run)[1] + budget.spent.epsilon - before


@pytest.mark.slow
@pytest.mark.parametrize("name", scores_of_searches()[1])
@pytest.mark.parametrize("train", [False, True])
def test_the_score_of_a_search_is_that_of_its_scorer(name, train):
    budget, searches = scores_of_searches()
    more = {"cv": 3, "return_train_score": train}
    cost = cross_val_cost(searches[name], **more)
    spent = spent_by(
        budget, lambda: cross_validate(searches[name], X, Y, error_score="raise", **more)
    )
    assert cost.epsilon == pytest.approx(spent, abs=1e-9)
    assert cost.n_scores == (6 if train else 3)
    assert "not private" not in cost.note


@pytest.mark.parametrize("train", [False, True])
def test_the_score_of_a_search_in_a_search(train):
    budget, searches = scores_of_searches()
    grid = {"standardscaler__with_std": [True, False]}
    outer = GridSearchCV(searches["pipeline"], grid, cv=3, return_train_score=train)
    cost = search_cost(outer)
    spent = spent_by(budget, lambda: outer.fit(X, Y))
    assert cost.epsilon == pytest.approx(spent, abs=1e-9)
    assert cost.n_scores == (12 if train else 6)  # those of inner searches belong to their fits
    assert "not private" not in cost.note
    # Candidates with scorers of their own, dear and not private: each is priced at its own.
    dear = private_scorer("accuracy", epsilon=8.0, budget=budget)
    outer = GridSearchCV(searches["search"], {"scoring": [dear, "accuracy"]}, cv=3, refit=False)
    cost = search_cost(outer)
    spent = spent_by(budget, lambda: outer.fit(X, Y))
    assert cost.epsilon == pytest.approx(spent, abs=1e-9)
    assert "scorer is not private" in cost.note


# --- what the cost does not cover ------------------------------------------------------------


class ByLength(KFold):
    """May draw its folds in any way."""


@pytest.mark.parametrize(
    ("adjacency", "cv", "word"),
    [
        ("replace_one", None, ""),
        ("replace_one", KFold(3, shuffle=True), ""),
        ("replace_one", ShuffleSplit(3), ""),
        ("replace_one", [(np.arange(9), np.arange(9, 20))], ""),
        ("replace_one", StratifiedKFold(3), "labels"),
        ("replace_one", GroupKFold(3), "labels"),
        ("replace_one", PredefinedSplit(np.arange(20) % 3), ""),
        ("replace_one", LeaveOneOut(), ""),
        ("replace_one", TimeSeriesSplit(3), "order of time"),
        ("replace_one", RepeatedStratifiedKFold(n_splits=2), "labels"),
        ("replace_one", StratifiedShuffleSplit(2), "labels"),
        ("replace_one", ByLength(3), "not known how ByLength"),
        ("replace_one", PerRecordKFold(3, random_state=0), "PerRecordKFold"),
        ("add_or_remove_one", None, "only PerRecordKFold"),
        ("add_or_remove_one", KFold(3, shuffle=True), "only PerRecordKFold"),
        ("add_or_remove_one", StratifiedKFold(3), "only PerRecordKFold"),
        ("add_or_remove_one", TimeSeriesSplit(3), "with TimeSeriesSplit"),
        ("add_or_remove_one", ShuffleSplit(3), "with ShuffleSplit"),
        ("add_or_remove_one", PredefinedSplit(np.arange(20) % 3), "that row alone"),
        ("add_or_remove_one", [(np.arange(9), np.arange(9, 20))], "that row alone"),
        ("add_or_remove_one", PerRecordKFold(3, random_state=0), ""),
    ],
)
def test_the_note_names_folds_that_are_not_neighbouring(adjacency, cv, word):
    budget = PrivacyBudget(99.0, adjacency=adjacency)
    scorer = private_scorer("neg_inertia", epsilon=1.0, bounds=1.0, budget=budget)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Toy(budget=budget)), {"toy__k": [1]}, cv=cv, scoring=scorer
    )
    note = search_cost(search, 20).note
    assert word in note
    assert bool(word) == bool(note)


REMOVE = "add_or_remove_one"


@pytest.mark.parametrize("resource", ["n_samples", "k"])
@pytest.mark.parametrize("where", ["alone", "pipeline", "scorer", "nested", "cross_validation"])
def test_halving_on_rows_is_refused_where_their_number_is_private(where, resource):
    """It makes 43 charges for 240 rows and 37 for 239, and resamples by position."""
    budget = PrivacyBudget(99.0, adjacency=REMOVE)
    own = {"max_resources": 4} if resource == "k" else {}
    toy = Toy(budget=None if where == "scorer" else budget)
    scorer = private_scorer("neg_inertia", epsilon=1.0, bounds=1.0, budget=budget)
    search = HalvingGridSearchCV(
        make_pipeline(StandardScaler(), toy) if where == "pipeline" else toy,
        {"toy__delta" if where == "pipeline" else "delta": [0.0, 0]},
        resource="toy__k" if (resource, where) == ("k", "pipeline") else resource,
        scoring=scorer,
        cv=PerRecordKFold(2, random_state=0),
        **own,
    )

    def price():
        if where == "nested":
            return search_cost(
                GridSearchCV(make_pipeline(search), {}, cv=PerRecordKFold(2), scoring=scorer)
            )
        return cross_val_cost(search, 2) if where == "cross_validation" else search_cost(search)

    if resource == "n_samples":
        with pytest.raises(ValueError, match="PerRecordKFold, another resource="):
            price()
    else:
        assert price().epsilon > 0
    assert budget.charges == []


def test_halving_that_counts_classes_is_named():
    class ToyClassifier(DummyClassifier):
        def privacy_cost(self, n_samples=None, n_features=None):
            return Cost(1.0)

    def note(**more):
        search = HalvingGridSearchCV(ToyClassifier(), {"strategy": ["prior"]}, cv=KFold(2), **more)
        return search_cost(search, 200).note

    assert "counts the classes in y" in note()
    assert "counts the classes in y" in note(min_resources="smallest")
    assert "classes" not in note(min_resources=20)


@pytest.mark.parametrize("cv", [LeaveOneOut(), LeavePOut(2)])
def test_what_fits_once_a_row_is_refused_where_their_number_is_private(cv):
    budget = PrivacyBudget(99.0, adjacency=REMOVE)
    with pytest.raises(ValueError, match=r"tell the number of rows.*PerRecordKFold"):
        cross_val_cost(Toy(budget=budget), cv, n_samples=20)
    with pytest.raises(ValueError, match=r"tell the number of rows.*PerRecordKFold"):
        search_cost(GridSearchCV(Toy(budget=budget), {"k": [1]}, cv=cv))
    assert cross_val_cost(Toy(), cv, n_samples=20).epsilon == cv.get_n_splits(X)


@pytest.mark.parametrize(
    "split",
    [
        ([0, 1, 1], [2]),
        ([0, 1], [2, 2]),
        (np.random.default_rng(0).integers(20, size=20), [0]),
        ([0, -20], [2]),  # one row by two names
    ],
)
def test_a_row_that_comes_twice_in_a_split_is_refused(split):
    for adjacency in ("replace_one", REMOVE):
        toy = Toy(budget=PrivacyBudget(9.0, adjacency=adjacency))
        with pytest.raises(ValueError, match=r"split 1 names a row more than once.*no bootstrap"):
            cross_val_cost(toy, [([0, 1], [2]), split], n_samples=20)
    masks = [(np.arange(20) < 9, np.arange(20) >= 9)]
    assert cross_val_cost(Toy(), masks, n_samples=20).n_fits == 1


def test_a_threshold_that_is_fixed_is_one_fit():
    assert cross_val_cost(FixedThresholdClassifier(Toy(0.5)), 2).epsilon == 1.0


def test_the_note_is_written_into_the_ledger():
    budget = PrivacyBudget(16.0)
    cost = search_cost(GridSearchCV(Toy(0.5, budget=budget), {"k": [1, 2, 3]}))
    with budget.reserve(cost, note=cost.note):
        assert budget.remaining.epsilon == 8.0
    (reservation,) = budget.reservations
    assert "scorer is not private" in reservation.note
    assert (reservation.epsilon, budget.remaining.epsilon) == (8.0, 16.0)
    for accountant in ("gdp", "zcdp"):
        gaussian = PrivacyBudget(9.0, 1e-5, accountant=accountant)
        with gaussian.reserve(search_cost(GridSearchCV(Toy(0.5, 1e-6), {"k": [1, 2, 3]}))):
            assert gaussian.remaining.epsilon < 9.0


def test_other_notes():
    class ToyClassifier(DummyClassifier):
        def privacy_cost(self, n_samples=None, n_features=None):
            return Cost(1.0)

    scorer = private_scorer("accuracy", epsilon=1.0)
    assert "stratifies classifiers" in cross_val_cost(ToyClassifier(), scoring=scorer).note
    assert cross_val_cost(ToyClassifier(), KFold(5), scoring=scorer).note == ""
    cached = Pipeline([("a", Toy())], memory="nowhere")
    assert "cache" in cross_val_cost(cached, scoring=scorer).note
    cached = Pipeline([("p", Pipeline([("a", Toy())], memory="nowhere"))])
    assert "cache" in cross_val_cost(cached, scoring=scorer).note


# --- bad input of the prices ------------------------------------------------------------------


def test_a_meta_estimator_that_fits_an_unknown_number_of_times_is_refused():
    for meta in (BaggingRegressor(Toy()), Wrapper(Toy()), Wrapper(make_pipeline(Toy()))):
        with pytest.raises(TypeError, match="how often"):
            cross_val_cost(meta)
    assert cross_val_cost(PricedWrapper(Toy(0.5)), 2).epsilon == 3.0
    for meta in (Charging(), Charging(PrivacyBudget(1.0)), Wrapper(Charging())):
        with pytest.raises(TypeError, match="charges its budget"):
            cross_val_cost(make_pipeline(Toy(), meta))
    with pytest.raises(TypeError, match="charges its budget"):
        cross_val_cost(Wrapper(PrivacyBudget(1.0)))
    voting = VotingRegressor([("a", Toy(0.5)), ("b", "drop"), ("c", Toy(0.25))])
    assert cross_val_cost(voting, 2).epsilon == 1.5


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: search_cost(Toy()), TypeError, "cross_val_cost"),
        (lambda: search_cost(GridSearchCV), TypeError, "search must be"),
        (lambda: search_cost(GridSearchCV(DummyRegressor(), {})), ValueError, "has a cost"),
        (lambda: cross_val_cost(Toy(), iter([])), ValueError, "cv is an iterator"),
        (lambda: cross_val_cost(Toy(), "five"), ValueError, "cv"),
        (lambda: cross_val_cost(Toy(), LeaveOneOut()), ValueError, "n_samples must be given"),
        (lambda: cross_val_cost(Toy(), n_samples=0), ValueError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(), n_samples=2.5), TypeError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(), n_samples=True), TypeError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(epsilon=-1.0)), ValueError, "epsilon"),
        (
            lambda: search_cost(HalvingRandomSearchCV(Toy(), {"k": [1, 2]})),
            ValueError,
            "n_samples must be given .* or state n_candidates",
        ),
        (
            lambda: search_cost(
                HalvingRandomSearchCV(Toy(), {"k": [1, 2]}, min_resources="exhaust"), 20
            ),
            ValueError,
            "cannot be both 'exhaust'",
        ),
        (
            lambda: search_cost(HalvingRandomSearchCV(Toy(), {"k": [1]}, min_resources=30), 20),
            ValueError,
            "min_resources=30 is more",
        ),
    ],
)
def test_bad_input_of_prices(call, kind, match):
    with pytest.raises(kind, match=match):
        call()
