"""`DPSelectKBest`: scikit-learn's F statistics without noise, and a choice from releases alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdp import DPLogisticRegression, PrivacyBudget
from skdp.feature_selection import DPSelectKBest
from skdp.model_selection import search_cost
from tests.folding import each

CANCER, DIABETES = load_breast_cancer(return_X_y=True), load_diabetes(return_X_y=True)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("score", [f_classif, "f_regression"], ids=["classes", "numbers"])
def test_without_noise_scores_are_scikit_learns(score, relation):
    X, y = CANCER if score is f_classif else DIABETES
    bounds = {"bounds": (X.min(axis=0), X.max(axis=0)), "target_bounds": (0, 350)}
    budget = PrivacyBudget(1e6, adjacency=relation)
    ours = DPSelectKBest(score, k=4, classes=[0, 1], epsilon=1e6, budget=budget, **bounds)
    ours.fit(X, y)
    theirs = SelectKBest(f_classif if len(set(y)) == 2 else f_regression, k=4).fit(X, y)
    assert ours.scores_ == pytest.approx(theirs.scores_, rel=0.02, abs=0.1)
    assert ours.get_support(indices=True).tolist() == theirs.get_support(indices=True).tolist()
    assert (ours.transform(X) == theirs.transform(X)).all()
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert ours.inverse_transform(ours.transform(X)).shape == X.shape
    rows = sparse.csr_array(ours.transform(X))
    assert (ours.inverse_transform(rows) == ours.inverse_transform(rows.toarray())).all()


@pytest.mark.parametrize("bounds", [(0, 1), "private"], ids=str)
def test_columns_that_say_something_are_kept(bounds):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5000, 8))
    signal = X[:, 2] + X[:, 4] + 0.2 * rng.normal(size=5000)
    of_classes = DPSelectKBest(k=2, bounds=bounds, delta=1e-6).fit(X, signal > 1)
    assert of_classes.get_support(indices=True).tolist() == [2, 4]
    assert of_classes.classes_.tolist() == [False, True]
    target = "private" if bounds == "private" else (-1, 3)
    of_numbers = DPSelectKBest("f_regression", k=2, bounds=bounds, target_bounds=target, delta=1e-6)
    assert of_numbers.fit(X, signal).get_support(indices=True).tolist() == [2, 4]


def test_all_is_free_and_few_classes_are_told():
    X, y = CANCER
    free = DPSelectKBest(k="all").fit(X, y)
    assert free.privacy_cost() is None
    assert free.privacy_.epsilon == 0
    assert free.transform(X).shape == X.shape
    with pytest.warns(UserWarning, match=r"1 class\(es\) had enough rows"):
        one = DPSelectKBest(k=3, delta=1e-6).fit(X, np.zeros(len(X)))
    assert one.get_support(indices=True).tolist() == [0, 1, 2]
    with pytest.warns(UserWarning, match="greater than n_features"):
        assert DPSelectKBest(k=99, classes=[0, 1]).fit(X, y).transform(X).shape == X.shape


def test_a_step_with_a_price():
    X, y = CANCER
    budget = PrivacyBudget(10.0, 1e-5)
    private = {"classes": [0, 1], "epsilon": 1.0, "delta": 1e-6, "budget": budget}
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X).rename(columns=str)
    pipe = make_pipeline(DPSelectKBest(k=5, **private), DPLogisticRegression(**private))
    assert pipe.fit(frame, y).predict(frame).shape == y.shape
    assert budget.spent.epsilon == 2.0
    search = GridSearchCV(pipe, {"dpselectkbest__k": [2, "all"]}, cv=2, refit=False)
    assert search_cost(search, len(X)).epsilon == pytest.approx(2 * (2.0 + 1.0))


@each(
    ("options", "named"),
    [
        ({"delta": 0.0}, "classes must be given if delta is 0"),
        ({"score_func": max, "classes": [0, 1]}, "score_func must be"),
        ({"k": 0, "classes": [0, 1]}, "k must be"),
        ({"score_func": "f_regression", "bounds": (0, 1)}, "stated together"),
        ({"score_func": "f_regression", "target_bounds": (1, 0)}, "bounds"),
        ({"classes": [0, 1], "bounds": {"x": (0, 1)}}, "bounds"),
    ],
)
def test_what_is_refused_costs_nothing(options, named):
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises((ValueError, TypeError), match=named):
        DPSelectKBest(budget=budget, **options).fit(*CANCER)
    assert budget.spent.epsilon == 0


def test_groups():
    X, y = CANCER
    budget = PrivacyBudget(1e6, 1e-3, unit="user_id")
    best = DPSelectKBest(k=3, classes=[0, 1], epsilon=1e5, budget=budget, max_rows_per_unit=2)
    assert best.fit(X, y, groups=np.arange(len(X)) // 2).scores_.max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("score", ["f_classif", "f_regression"])
def test_the_expected_error_is_about_what_fits_miss(score):
    """Of 3 in 8 columns; the mean of 40 fits has an error of about .05, of which 5 are allowed."""
    rng = np.random.default_rng(0)

    def drawn(n):
        X = rng.uniform(size=(n, 8))
        y = X[:, 5:] @ [1.0, 0.5, 0.3] + 0.3 * rng.normal(size=n)
        return X, y > 0.9 if score == "f_classif" else y

    stated = {"classes": [False, True], "bounds": (0, 1), "target_bounds": (-1, 3)}
    best = DPSelectKBest(score, k=3, epsilon=0.3, delta=1e-6, **stated)
    like = drawn(2000)
    missed = [1 - best.fit(*drawn(2000)).get_support()[5:].mean() for _ in range(40)]
    expected = best.expected_error(2000, like=like)
    assert 0 < expected < 1 and abs(expected - np.mean(missed)) < 0.25
    assert best.expected_error(200_000, like=like) < 0.1 < 0.3 < best.expected_error(100, like=like)
    assert best.set_params(k="all").expected_error(100) == 0


def test_an_expected_error_reads_and_charges_nothing():
    budget = PrivacyBudget(1.0)
    best = DPSelectKBest(k=2, classes=[0, 1], bounds=(0, 5000), budget=budget)
    with pytest.raises(ValueError, match="like must be given"):
        best.expected_error(500)
    assert 0 <= best.expected_error(500, like=CANCER) <= 1
    assert budget.spent.epsilon == 0 and not hasattr(best, "scores_")
