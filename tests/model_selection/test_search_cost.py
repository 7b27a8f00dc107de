"""Prices of searches are equal to what a search does: a toy estimator counts its fits."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from skdp.budget import Cost, PrivacyBudget
from skdp.model_selection import PerRecordKFold, SearchCost, search_cost
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler
from tests.folding import each
from tests.model_selection.counting import Toy, X, Y, fitted

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


@each("name", SEARCHES)
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


@each("aggressive", [False, True])
@each(("n", "factor"), [(2, 2), (5, 3), (9, 3), (10, 2.5), (12, 4)])
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


@each("random_state", [0, None])
@each(
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
