"""`check_pipeline`: budgets, parameters that have a price, and prices beyond what is left."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline

import skdp
from skdp import DPPCA, DPMinMaxScaler, DPQuantileTransformer, PrivacyBudget, check_pipeline
from skdp.budget import Cost
from skdp.model_selection import PerRecordKFold, search_cost
from tests.model_selection.findings import BUDGET, REMOVE, found, kmeans, places, scaler, scorer

# --- budgets and parameters ---------------------------------------------------------------------


def test_a_step_without_the_budget_is_named():
    pipe = make_pipeline(scaler(), DPPCA(2), kmeans())
    assert [w for w, what in found(pipe, "high") if "budget" in what] == ["dppca (DPPCA)"]
    search = GridSearchCV(kmeans(), {}, scoring=scorer(None), cv=KFold(2))
    assert places(search) == ["scoring (PrivateScorer)"]


def test_no_budget_at_all_is_a_surprise_only():
    assert found(make_pipeline(scaler(None), kmeans(None)), "high") == []
    assert len(found(make_pipeline(scaler(None), kmeans(None)), "low")) == 2


def test_the_budget_of_a_block_is_that_of_steps_without_one():
    pipe = make_pipeline(scaler(None), kmeans(None))
    with BUDGET:
        assert found(pipe) == []
        assert found(make_pipeline(scaler(None), kmeans())) == []
        search = GridSearchCV(pipe, {}, scoring=scorer(None), cv=KFold(2))
        assert found(search) == []
        ((where, what),) = found(make_pipeline(scaler(None), kmeans(PrivacyBudget(1.0))))
        assert "different budgets" in what
    with REMOVE:
        assert "only PerRecordKFold" in found(search)[0][1]
        search = HalvingGridSearchCV(pipe, {}, scoring=scorer(None), cv=PerRecordKFold(2))
        assert "is refused" in found(search)[0][1]


def test_two_budgets_and_two_relations():
    (one,) = check_pipeline(make_pipeline(scaler(), kmeans(PrivacyBudget(1.0))))
    assert one.severity == "medium"
    assert one.where == "dpstandardscaler (DPStandardScaler), dpkmeans (DPKMeans)"
    (one,) = check_pipeline(make_pipeline(scaler(), kmeans(REMOVE)))
    assert one.severity == "high"
    assert "two neighbouring relations" in one.what


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), "1", None])
def test_a_wrong_epsilon_is_named_by_step(epsilon):
    pipe = make_pipeline(scaler(), make_pipeline(DPPCA(2, epsilon=epsilon, budget=BUDGET)))
    ((where, what),) = found(pipe)
    assert where == "pipeline__dppca (DPPCA)"
    assert "epsilon" in what
    with pytest.raises((TypeError, ValueError), match="step pipeline__dppca: DPPCA: epsilon"):
        search_cost(GridSearchCV(pipe, {}, cv=KFold(2)))


def test_a_wrong_epsilon_of_a_candidate():
    search = GridSearchCV(kmeans(), {"epsilon": [1.0, -2.0]}, scoring=scorer(), cv=KFold(2))
    ((where, what),) = found(search)
    assert (where, "-2.0" in what) == ("estimator (DPKMeans)", True)


def test_parameters_that_mean_something_else():
    def texts(estimator):
        return [what for _, what in found(estimator)]

    assert "1/300" in texts(kmeans(algorithm="lloyd", max_iter=300))[0]
    assert "does not read it" in texts(kmeans(max_iter=300))[0]
    assert texts(kmeans(algorithm="lloyd")) == []
    assert "10 rounds" in texts(DPQuantileTransformer(n_quantiles=1000, budget=BUDGET))[0]
    for n in ("mle", True):
        assert "n_components" in texts(DPPCA(n, budget=BUDGET))[0]
    for n in (np.int64(2), 0.95, None):
        assert texts(DPPCA(n, budget=BUDGET)) == []


def test_rounds_of_quantiles_are_as_it_says():
    for n in (130, 257, 258, 1000):
        text = found(DPQuantileTransformer(n_quantiles=n, budget=BUDGET))[0][1]
        assert f"takes {math.floor(math.log2(n - 2)) + 1} rounds" in text  # as documented


def test_seeds():
    (one,) = check_pipeline(kmeans(random_state=0))
    assert one.severity == "high"  # this suite runs inside the context
    with skdp.config_context(noise="system"):
        (one,) = check_pipeline(kmeans(random_state=0))
    assert one.severity == "low"


# --- prices -------------------------------------------------------------------------------------


def test_a_step_that_releases_nothing_needs_no_budget():
    search = GridSearchCV(
        make_pipeline(DPMinMaxScaler(bounds=(-5, 5)), kmeans(REMOVE, epsilon=0.3)),
        {"dpkmeans__n_clusters": [2, 3]},
        scoring=scorer(REMOVE),
        cv=PerRecordKFold(3),
    )
    assert found(search) == []
    learned = search.set_params(estimator__dpminmaxscaler__bounds="private")
    ((where, _),) = found(learned, "high")
    assert where == "estimator__dpminmaxscaler (DPMinMaxScaler)"


def test_prices_beyond_the_budget():
    budget = PrivacyBudget(1.0)
    ((where, what),) = found(make_pipeline(scaler(budget, epsilon=0.5, delta=1e-6)), "high")
    assert where == "dpstandardscaler (DPStandardScaler)"
    assert "delta=1e-06 is more than the budget has" in what
    ((where, what),) = found(kmeans(budget, epsilon=1.5), "high")
    assert "epsilon=1.5 is more" in what
    both = make_pipeline(scaler(budget, epsilon=0.6), kmeans(budget, epsilon=0.6))
    ((where, what),) = found(both, "high")
    assert "dpstandardscaler" in where
    assert "dpkmeans" in where
    assert "epsilon=1.2" in what
    assert found(both.set_params(dpkmeans__epsilon=0.4)) == []
    gaussian = PrivacyBudget(1.0, 1e-5, accountant="gdp")
    assert found(scaler(gaussian, epsilon=0.9, delta=1e-5)) == []


def test_the_price_of_a_whole_search():
    budget = PrivacyBudget(1.0)
    score = scorer(budget).privacy_cost().epsilon

    def searched(epsilon, k=(2, 3, 4, 5), step=True):
        steps = [scaler(budget, epsilon=epsilon), kmeans(budget, epsilon=epsilon)]
        grid = {"dpkmeans__n_clusters": list(k)}
        return GridSearchCV(make_pipeline(*steps), grid, scoring=scorer(budget), cv=KFold(2))

    ((where, what),) = found(searched(0.3), "high")
    assert where == "GridSearchCV"
    assert f"all its fits and scores (epsilon={9 * 0.6 + 8 * score:g}, delta=0.0) is more" in what
    fits = searched((1.0 - 8 * score - 1e-9) / 18)
    assert found(fits, "high") == []
    # Together with a step before it, and as often as an outer search fits it.
    both = make_pipeline(scaler(budget, epsilon=0.2), fits)
    ((where, what),) = found(both, "high")
    assert where == "dpstandardscaler (DPStandardScaler), gridsearchcv (GridSearchCV)"
    assert "are together more" in what
    nested = GridSearchCV(fits, {"refit": [True]}, scoring=scorer(budget), cv=KFold(2))
    ((where, what),) = found(nested, "high")
    assert where == "GridSearchCV"
    # What is charged elsewhere is not in this cost.
    assert found(searched(0.3).set_params(scoring=scorer(None)), "high") != []


def test_a_wrong_epsilon_of_a_later_step_is_named_before_any_charge():
    budget = PrivacyBudget(9.0)
    pipe = make_pipeline(scaler(budget), kmeans(budget, epsilon=-1.0))
    ((where, what),) = found(pipe, "high")
    assert where == "dpkmeans (DPKMeans)"
    assert "epsilon" in what
    search = GridSearchCV(
        pipe.set_params(dpkmeans__epsilon=1.0),
        {"dpkmeans__epsilon": [0.5, 0.0]},
        scoring=scorer(budget),
        cv=KFold(2),
    )
    assert "estimator__dpkmeans (DPKMeans)" in places(search, "high")
    with pytest.raises(ValueError, match="step dpkmeans: DPKMeans: epsilon"):
        search_cost(search)
    assert budget.charges == []


def test_a_price_that_depends_on_the_number_of_rows_is_said_to_be_unknown():
    search = GridSearchCV(kmeans(), {"n_clusters": [2]}, scoring=scorer(), cv=LeaveOneOut())
    ((where, what),) = found(search, "low")
    assert "cost is not known: n_samples must be given" in what
    assert list(search_cost(search, 5).findings) == []


def test_prices_are_compared_with_what_is_left():
    budget = PrivacyBudget(2.0)
    pipe = make_pipeline(scaler(budget, epsilon=0.4), kmeans(budget, epsilon=0.6))
    assert found(pipe) == []
    budget.charge(Cost(1.4), estimator="before")
    ((where, what),) = found(pipe, "high")
    assert where == "dpstandardscaler (DPStandardScaler), dpkmeans (DPKMeans)"
    assert "more than the budget has left (remaining: epsilon=0.6, delta=0.0)" in what
    ((where, what),) = found(pipe.set_params(dpkmeans__epsilon=0.65), "high")
    assert where == "dpkmeans (DPKMeans)"
    assert "epsilon=0.65 is more than the budget has left" in what
    assert found(pipe.set_params(dpkmeans__epsilon=0.1)) == []
    with budget.reserve(Cost(0.6)):  # what is set aside here is for these steps
        assert found(pipe) == []
    assert len(budget.charges) == 1


def test_a_ledger_that_was_opened_twice_is_one(tmp_path):
    one, two = (PrivacyBudget(1.0, ledger=tmp_path / "x.budget") for _ in range(2))
    assert one is not two
    assert found(make_pipeline(scaler(one, epsilon=0.5), kmeans(two, epsilon=0.5))) == []
    ((_, what),) = found(make_pipeline(scaler(one, epsilon=0.6), kmeans(two, epsilon=0.6)))
    assert "are together more" in what
    search = GridSearchCV(kmeans(two, epsilon=0.1), {}, scoring=scorer(two), cv=KFold(2))
    assert search_cost(search, budget=one) == search_cost(search)


def test_a_ledger_that_is_gone(tmp_path):
    path = tmp_path / "x.budget"
    pipe = make_pipeline(scaler(), kmeans(PrivacyBudget(1.0, ledger=path)))
    path.unlink()
    ((where, what),) = found(pipe, "high")
    assert where == "dpkmeans (DPKMeans)"
    assert "cannot be read" in what
