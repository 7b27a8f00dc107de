"""Delta above 0 makes no answer noisier, and is charged only where it is of use."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cases import RELATIONS
from estimators import CASES

from skdp import (
    DPPCA,
    DPKMeans,
    DPLogisticRegression,
    DPOneHotEncoder,
    DPStandardScaler,
    PrivacyBudget,
    make_private,
    statistics,
)
from skdp.aggregation import DPGroupBy
from skdp.exceptions import BudgetExceededError
from skdp.planning import Allowance, pure_is_less
from skdp.synthetic import DPMarginalSynthesizer
from tests.folding import each

X = np.random.default_rng(0).random((3000, 60))
Y = (X[:, 0] > 0.5).astype(int)
BOX = {"bounds": (0, 1)}
CLAIMS = {
    "count": lambda x, p: statistics.count(x[:, 0], **p).std,
    "histogram": lambda x, p: statistics.histogram(x[:, 0], bins=10, range=(0, 1), **p)[0].std,
    "sum": lambda x, p: statistics.sum(x, **BOX, **p).std,
    "mean": lambda x, p: statistics.mean(x, **BOX, **p).std,
    "var": lambda x, p: statistics.var(x, **BOX, **p).std,
    "scaler": lambda x, p: DPStandardScaler(**BOX, **p).fit(x).mean_std_error_,
    "one centre": lambda x, p: DPKMeans(1, **BOX, **p).fit(x).cluster_centers_noise_std_,
}


@each("relation", RELATIONS)
@each("d", [1, 5, 60])
@each("epsilon", [0.1, 1.0, 10.0])
@each("name", CLAIMS)
def test_delta_makes_no_claim_larger(name, epsilon, d, relation):
    """Claims of means and variances differ a little from draw to draw."""

    def claimed(delta):
        budget = PrivacyBudget(1e4, 1e-2, adjacency=relation)
        options = {"epsilon": epsilon, "delta": delta, "budget": budget}
        claims = [np.max(CLAIMS[name](X[:, :d], options)) for _ in range(3)]
        return float(np.median(claims)), budget.spent.delta > 0

    (without, _), (with_delta, gaussian) = claimed(0.0), claimed(1e-6)
    assert with_delta <= 1.05 * without
    assert not gaussian or with_delta < without  # delta is charged only where it is of use


def test_a_wrong_choice_would_be_seen(monkeypatch):
    """The planted rule takes Gaussian noise wherever delta allows it."""
    _claims_of_a_sum()
    monkeypatch.setattr("skdp.base.context.pure_is_less", lambda e, delta, *_, **__: delta == 0)
    with pytest.raises(AssertionError):
        _claims_of_a_sum()


def _claims_of_a_sum():
    with_delta, without = (
        CLAIMS["sum"](X[:, :1], {"epsilon": 1.0, "delta": delta})[0] for delta in (1e-6, 0.0)
    )
    assert with_delta <= 1.05 * without


@pytest.mark.parametrize("accountant", ["gdp", "gdp_residue", "zcdp"])
def test_ledgers_of_gaussian_noise_get_gaussian_noise(accountant):
    """Pure noise of the same size costs them more: mu of 1.23, not .237, at (1, 1e-6)."""
    budget = PrivacyBudget(5.0, 1e-5, accountant=accountant)
    assert not pure_is_less(1.0, 1e-6, budget, lambda allowance: allowance.cell_std)
    scaler = DPStandardScaler(**BOX, budget=budget).fit(X[:, :1])
    assert scaler.privacy_.mu is not None
    assert scaler.privacy_.delta == pytest.approx(1e-7)


@each("case", CASES, ids=lambda case: case.name)
def test_a_price_without_columns_is_no_less_than_that_of_a_fit(case):
    for delta in (0.0, 1e-5):
        estimator = case.make(epsilon=1.0, delta=delta, budget=None, random_state=None)
        most = estimator.privacy_cost() if hasattr(estimator, "privacy_cost") else None
        for width in (1, 3, 30, 300) if most is not None else ():
            cost = estimator.privacy_cost(n_features=width)
            assert cost.epsilon <= most.epsilon and cost.delta <= most.delta


# --- delta=None -----------------------------------------------------------------------------------

TABLE = pd.DataFrame(
    {"city": np.repeat(["Bern", "Oslo", "Rome"], 1000), "rooms": np.tile([1, 2, 3], 1000)}
)
LEARNERS = {
    "encoder": (DPOneHotEncoder(), (TABLE,)),
    "classifier": (DPLogisticRegression(), (X[:, :3], Y)),
    "synthesizer": (DPMarginalSynthesizer(), (TABLE,)),
}


@each("name", LEARNERS)
def test_a_first_call_with_a_budget_works(name):
    estimator, table = LEARNERS[name]
    budget = PrivacyBudget(5, 1e-5)
    estimator.set_params(budget=budget).fit(*table)
    assert budget.spent.epsilon == 1.0
    assert budget.spent.delta == pytest.approx(1e-7)
    assert estimator.privacy_.delta == budget.spent.delta


@each("name", LEARNERS)
def test_without_a_budget_it_is_zero_and_the_way_out_is_shown(name):
    estimator, table = LEARNERS[name]
    estimator.set_params(budget=None)
    with pytest.raises(ValueError, match="delta"):
        estimator.fit(*table)


def test_keys_are_learned_with_a_part_of_the_budget():
    rows = TABLE.assign(user=np.arange(len(TABLE)))
    budget = PrivacyBudget(5, 1e-5, unit="user", adjacency="add_or_remove_one")
    by = DPGroupBy("city", "user", budget=budget).agg(n="count").fit(rows)
    assert set(by.table_["city"]) == {"Bern", "Oslo", "Rome"}
    assert budget.spent.delta == pytest.approx(1e-7)
    with pytest.raises(ValueError, match=r"DPGroupBy\(..., delta=1e-6\)"):
        DPGroupBy("city", "user").agg(n="count").fit(rows)


def test_a_budget_with_too_little_delta_left_gets_pure_noise():
    budget = PrivacyBudget(5, 1e-5)
    wide = DPStandardScaler(**BOX, budget=budget)
    assert wide.fit(X).privacy_.mu is not None
    statistics.mean(X[:, 0], **BOX, epsilon=1e-3, delta=0.0, budget=budget)
    DPOneHotEncoder(epsilon=0.1, delta=0.99e-5 - 1e-7, budget=budget).fit(TABLE)
    assert budget.remaining.delta < 1e-7 or budget.remaining.delta == pytest.approx(1e-7)
    DPOneHotEncoder(epsilon=0.1, delta=float(budget.remaining.delta), budget=budget).fit(TABLE)
    assert budget.remaining.delta < 1e-20
    assert wide.fit(X).privacy_.mu is None  # works at delta = 0
    with pytest.raises(BudgetExceededError):
        DPOneHotEncoder(budget=budget).fit(TABLE)


def test_the_budget_of_a_block_is_the_one_that_counts():
    budget = PrivacyBudget(5, 1e-5)
    with budget:
        DPStandardScaler(**BOX).fit(X)
    assert budget.spent.delta == pytest.approx(1e-7)


def test_steps_of_a_pipeline_share_one_part():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    budget = PrivacyBudget(5, 1e-5)
    model = make_private(
        make_pipeline(StandardScaler(), LogisticRegression()), budget=budget, classes=[0, 1]
    )
    assert sum(step.delta for _, step in model.steps) == pytest.approx(1e-7)
    model.fit(X, Y)
    assert 0 < budget.spent.delta <= 1e-7 * (1 + 1e-9)


def test_other_numbers_of_columns_in_a_second_fit():
    """The choice is that of the rows at hand, not of an earlier fit."""
    budget = PrivacyBudget(100, 1e-3)
    scaler = DPStandardScaler(**BOX, delta=1e-6, budget=budget)
    for d, gaussian in ((1, False), (60, True), (1, False)):
        scaler.fit(X[:, :d])
        assert (scaler.privacy_.mu is not None) == gaussian
        assert scaler.privacy_cost().delta == scaler.privacy_.delta == (1e-6 if gaussian else 0.0)


def test_a_forced_noise_stays():
    assert DPPCA(2, noise="gaussian", delta=1e-6, norm_bound=8.0).fit(X[:, :3]).privacy_.mu


def test_the_noise_of_one_count_crosses_where_delta_is_large():
    assert pure_is_less(1.0, 1e-6, None, lambda allowance: allowance.cell_std)
    assert not pure_is_less(0.1, 0.5, None, lambda allowance: allowance.cell_std)
    assert Allowance(1.0).cell_std < Allowance(1.0, 0.237).cell_std
