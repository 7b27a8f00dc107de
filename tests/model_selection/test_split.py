"""Two parts of a table for one charge: a neighbour differs in one part, by one row or unit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import BudgetExceededError, DPOneHotEncoder, PrivacyBudget, statistics
from skdp.model_selection import private_train_test_split
from tests.folding import each

N = 200
X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2)), columns=["a", "b"])
Y = np.arange(N)


def split(X, y=None, *, adjacency="replace_one", unit=None, **options):
    budget = PrivacyBudget(3.0, adjacency=adjacency, unit=unit)
    options = {"epsilon": 1.0, "random_state": 0, **options}
    return private_train_test_split(X, y, budget=budget, **options), budget


@each("test_size", [0.1, 0.25, 0.9])
@each("adjacency", ["replace_one", "add_or_remove_one"])
def test_every_row_is_in_one_part_for_one_charge(adjacency, test_size):
    parts, budget = split(X, Y, adjacency=adjacency, test_size=test_size)
    assert sorted([*parts.y_train, *parts.y_test]) == list(range(N))
    assert parts.X_train.equals(X.iloc[parts.y_train]) and parts.X_test.equals(X.iloc[parts.y_test])
    if adjacency == "replace_one":
        assert len(parts.y_test) == round(test_size * N)
    else:  # binomial: further than 5 deviations with a probability below 1e-5
        assert abs(len(parts.y_test) - test_size * N) < 5 * np.sqrt(N / 4)
    assert budget.spent.epsilon == 1.0 and len(budget.charges) == 1
    for own in (parts.train_budget, parts.test_budget):
        assert own.adjacency == adjacency and own.remaining.epsilon == 1.0
    statistics.mean(parts.X_test, bounds=(-3, 3), epsilon=1.0, budget=parts.test_budget)
    with pytest.raises(BudgetExceededError):
        statistics.mean(parts.X_test, bounds=(-3, 3), epsilon=0.1, budget=parts.test_budget)
    assert parts.train_budget.remaining.epsilon == 1.0


@each("row", [0, 57, N - 1])
def test_a_replaced_row_stays_in_its_part(row):
    other = X.copy()
    other.iloc[row] = 9.0
    (one, _), (two, _) = split(X, Y), split(other, Y)
    assert one.y_train.tolist() == two.y_train.tolist()
    differs = [not a.equals(b) for a, b in zip(one[:2], two[:2], strict=True)]
    assert sum(differs) == 1


@each("row", [0, 57, N - 1])
def test_a_removed_row_moves_no_other(row):
    options = {"adjacency": "add_or_remove_one"}
    (one, _), (two, _) = split(X, **options), split(X.drop(index=row), **options)
    for before, after in zip(one[:2], two[:2], strict=True):
        assert set(before.index) - {row} == set(after.index)


@each(("adjacency", "price"), [("replace_one", 2.0), ("add_or_remove_one", 1.0)])
def test_all_rows_of_a_unit_are_in_one_part(adjacency, price):
    ids = pd.Series(np.arange(N) // 4, name="patient")
    parts, budget = split(X, Y, adjacency=adjacency, unit="patient", groups=ids, test_size=0.5)
    assert not set(parts.groups_train) & set(parts.groups_test)
    assert len(set(parts.groups_train)) + len(set(parts.groups_test)) == N // 4
    assert budget.spent.epsilon == price  # a unit that is replaced may have another id
    assert parts.test_budget.unit == "patient"
    assert parts.test_budget.adjacency == "add_or_remove_one"


def test_half_of_delta_is_left_for_the_whole_table():
    budget = PrivacyBudget(3.0, 1e-6)
    private_train_test_split(X, budget=budget, epsilon=1.0)
    DPOneHotEncoder(budget=budget).fit([["a"]] * N)  # which learns its categories
    parts = private_train_test_split(X, budget=budget, epsilon=1.0)
    assert [charge.delta for charge in budget.charges] == [5e-7, 1e-8, 2.45e-7]
    assert parts.train_budget.delta == 2.45e-7


def test_refusals_charge_nothing():
    budget = PrivacyBudget(3.0, adjacency="add_or_remove_one")
    for options in ({"test_size": 0}, {"test_size": 1.0}, {"test_size": "half"}, {"groups": Y}):
        with pytest.raises((TypeError, ValueError)):
            private_train_test_split(X, budget=budget, epsilon=1.0, **options)
    with pytest.raises(ValueError, match="number of rows"):
        private_train_test_split(X, Y[1:], budget=budget, epsilon=1.0)
    with pytest.raises(BudgetExceededError):
        private_train_test_split(X, budget=budget, epsilon=4.0)
    with pytest.raises(ValueError, match="by_position"):
        budget.parallel(["a", "b"], epsilon=1.0, by_position=True)
    assert not budget.charges
