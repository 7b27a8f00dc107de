"""`DPRandomForestClassifier`: beside a slow oracle, random splits, awkward tables, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import PrivacyBudget
from skdp.ensemble import DPRandomForestClassifier
from skdp.ensemble._boosting import even_cuts
from skdp.ensemble._forest import random_trees
from skdp.queries import ColumnCells
from tests.folding import each

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(3000, 3))
Y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
OPTIONS = {"classes": ["other", "same"], "bounds": (-1, 1), "random_state": 0}


def leaf_of(model, tree, row):
    """Walk down a tree, and return the number of the leaf from left to right."""
    node = 0
    for _ in range(model.max_depth_):
        right = row[model.split_columns_[tree, node]] >= model.split_cuts_[tree, node]
        node = 2 * node + 1 + int(right)
    return node - (2**model.max_depth_ - 1)


def test_almost_without_noise_leaves_have_the_rows_that_reach_them():
    model = DPRandomForestClassifier(7, max_depth=4, epsilon=1e6, delta=1e-6, **OPTIONS).fit(X, Y)
    logs = np.zeros((50, 2))
    counts = np.zeros((2, 7, 16))
    for tree in range(7):
        leaves = np.array([leaf_of(model, tree, row) for row in X])
        for k, label in enumerate(model.classes_):
            counts[k, tree] = np.bincount(leaves[label == Y], minlength=16)
        rows = (
            counts[:, tree] + np.array([(label == Y).mean() for label in model.classes_])[:, None]
        )
        logs += np.log(rows / rows.sum(axis=0))[:, leaves[:50]].T / 7
    assert np.abs(model.leaf_count_ - counts).max() < 0.1
    expected = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    assert np.abs(model.predict_proba(X[:50]) - expected).max() < 1e-3
    assert model.score(X, Y) > 0.75


def test_counts_of_leaves_have_their_standard_error():
    """5,600 errors, about 1 in 2 million of which is more than five of them."""
    model = DPRandomForestClassifier(50, max_depth=3, epsilon=1.0, delta=1e-6, **OPTIONS).fit(X, Y)
    leaves = np.array([[leaf_of(model, tree, row) for tree in range(50)] for row in X[:3000]])
    errors = []
    for k, label in enumerate(model.classes_):
        for tree in range(50):
            exact = np.bincount(leaves[label == Y, tree], minlength=8)
            errors.append(model.leaf_count_[k, tree] - exact)
    relative = np.array(errors) / model.leaf_count_std_error_
    assert np.abs(relative).max() < 6.5
    assert 0.85 < relative.std() < 1.15


def test_splits_are_where_rows_are():
    cells = ColumnCells(even_cuts(np.zeros(3), np.array([1.0, 1.0, 0.0]), 8))
    counts = np.array([0.0, 0, 90, 0, 0, 10, 0, 0, *([5.0] * 8), 40.0])
    trees = random_trees(np.random.default_rng(0), cells, counts, 400, 3)
    split = np.isfinite(trees.cuts)
    assert set(trees.columns[split]) == {0, 1}  # the third has one cell
    first = trees.cuts[(trees.columns == 0) & split]
    assert ((first > 2 / 8) & (first <= 5 / 8)).all()
    # Below a split of the first column there is no other: each side has one cell with rows.
    assert (((trees.columns == 0) & split).sum(axis=1) <= 4).all()
    roots = trees.cuts[(trees.columns[:, 0] == 1), 0]
    assert len(set(roots.tolist())) == 7


def test_trees_that_cannot_split_send_all_to_the_left():
    cells = ColumnCells(even_cuts(np.zeros(2), np.zeros(2), 8))
    trees = random_trees(np.random.default_rng(0), cells, np.array([5.0, 5.0]), 3, 2)
    assert np.isinf(trees.cuts).all()
    assert (trees.leaves(np.array([[0.0, 9.0]])) == [[0, 4, 8]]).all()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_trees_grow_with_rows_and_epsilon(delta):
    depths = [
        DPRandomForestClassifier(epsilon=epsilon, delta=delta, **OPTIONS).fit(X[:n], Y[:n])
        for n, epsilon in [(200, 0.1), (3000, 1.0), (3000, 1e3)]
    ]
    assert [one.n_estimators_ for one in depths] == [100 if delta else 10] * 3
    shown = [one.max_depth_ for one in depths]
    assert shown == sorted(shown)
    assert shown[0] == 1
    assert shown[-1] >= 6


def test_awkward_tables():
    rng = np.random.default_rng(1)
    money = np.where(rng.random(4000) < 0.7, 0.0, rng.lognormal(8, 1, 4000))
    table = np.column_stack([rng.integers(0, 2, 4000), money, np.full(4000, 7.0)])
    y = np.where(money > 0, "paid", "free")
    options = {"classes": ["free", "paid", "lent"], "delta": 1e-6, "epsilon": 3.0}
    model = DPRandomForestClassifier(**options).fit(table, y)
    assert model.score(table, y) > 0.8
    few = DPRandomForestClassifier(**{**options, "epsilon": 0.1}).fit(table[:200], y[:200])
    chances = few.predict_proba(table)
    assert np.isfinite(chances).all()
    assert np.allclose(chances.sum(axis=1), 1.0)


@each(
    ("change", "error"),
    [
        ({"n_estimators": 0}, ValueError),
        ({"n_estimators": 1001}, ValueError),
        ({"n_estimators": "many"}, ValueError),
        ({"n_estimators": 2.5}, TypeError),
        ({"max_depth": 11}, ValueError),
        ({"max_depth": None}, TypeError),
    ],
)
def test_bad_parameters_cost_nothing(change, error):
    budget = PrivacyBudget(1.0)
    model = DPRandomForestClassifier(budget=budget, **OPTIONS).set_params(**change)
    with pytest.raises(error, match=next(iter(change))):
        model.fit(X, Y)
    assert budget.spent.epsilon == 0.0
