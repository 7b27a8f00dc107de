"""`make_private` replaces steps, shares one epsilon, and drops nothing silently."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

import skdp
from skdp import DPGridSearchCV, PrivacyBudget, make_private
from tests.folding import each

FACTS = {"bounds": (-4, 4), "classes": [0, 1]}


def test_the_whole_costs_what_was_asked_for():
    X = np.random.default_rng(0).normal(size=(300, 2))
    budget = PrivacyBudget(1.0)
    pipeline = make_pipeline(StandardScaler(with_std=False), GaussianNB())
    private = make_private(pipeline, budget=budget, **FACTS)
    private.fit(X, X[:, 0] > 0)
    assert private[0].with_std is False
    assert private[1].bounds == "private"  # what a scaler makes has no stated bounds
    assert budget.spent.epsilon == 1.0
    assert [type(step).__name__ for step in pipeline] == ["StandardScaler", "GaussianNB"]


def test_a_step_that_needs_little_leaves_the_rest_to_others():
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    private = make_private(pipeline, n_samples=10**7, n_features=2, **FACTS)
    assert private[0].epsilon == 0.05
    assert private[1].epsilon == 0.95


def test_bounds_reach_the_steps_that_see_the_columns():
    columns = ColumnTransformer([("a", StandardScaler(), ["x"]), ("b", MinMaxScaler(), ["y"])])
    bounds = {"x": (0, 1), "y": (0, 5)}
    private = make_private(make_pipeline(columns, Normalizer(), Ridge(2.0)), bounds=bounds)
    assert [part[1].bounds for part in private[0].transformers] == [{"x": (0, 1)}, {"y": (0, 5)}]
    assert (private[2].alpha, private[2].bounds) == (2.0, (-1, 1))
    with pytest.raises(ValueError, match=r"no step reads: \{.z.\}"):
        make_private(columns, bounds={**bounds, "z": (0, 1)})


def test_a_search_becomes_a_private_one():
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=4, scoring="accuracy")
    private = make_private(search, classes=[0, 1])
    assert isinstance(private, DPGridSearchCV)
    assert private.test_size == 0.25
    assert skdp.plan(private).total.epsilon == 1.0


def test_a_selection_of_columns_keeps_its_score():
    pipeline = make_pipeline(SelectKBest(f_regression, k=1), Ridge())
    private = make_private(pipeline, bounds=(-4, 4), target_bounds=(-4, 4))
    assert (type(private[0]).__name__, private[0].k) == ("DPSelectKBest", 1)
    X = np.random.default_rng(0).normal(size=(2000, 2))
    assert private.fit(X, X[:, 1])[0].get_support().tolist() == [False, True]


@each(
    ("step", "dropped"),
    [
        (KMeans(8, n_init=10, init="random"), "init, n_init of KMeans"),
        (PCA(svd_solver="full"), "svd_solver of PCA"),
        (make_pipeline(LogisticRegression(max_iter=1000)), "max_iter of step logisticregression"),
        (RandomForestClassifier(50, min_samples_leaf=5), "min_samples_leaf, n_estimators of"),
        (HistGradientBoostingClassifier(max_iter=50), "max_iter of HistGradientBoosting"),
        (GridSearchCV(GaussianNB(), {}, error_score="raise"), "error_score of GridSearchCV"),
    ],
)
def test_how_scikit_learn_computes_is_dropped_in_one_warning(step, dropped):
    with pytest.warns(
        UserWarning, match=f"only says how scikit-learn computes: {dropped}"
    ) as caught:
        make_private(step, delta=1e-6)
    [only] = caught
    assert only.filename == __file__


@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
def test_a_forest_becomes_boosting(forest):
    private = make_private(forest(n_jobs=2, random_state=3), **FACTS)
    assert type(private).__name__ == "DPExplainableBoostingClassifier"
    assert (private.bounds, private.classes, private.random_state) == ((-4, 4), [0, 1], 3)


@each(
    ("step", "facts", "words"),
    [
        (
            make_pipeline(LogisticRegression(l1_ratio=0.5, solver="saga")),
            FACTS,
            "logisticregression .*l1_ratio",
        ),
        (KMeans(2, init=np.zeros((2, 2))), {"bounds": (-4, 4)}, "no such thing as init"),
        (LogisticRegression(penalty="l1", solver="saga"), FACTS, "no such thing as penalty"),
        (make_pipeline(KNeighborsClassifier()), {}, "kneighborsclassifier .*DPTrainOnRelease"),
        (RandomForestClassifier(class_weight="balanced"), FACTS, "no such thing as class_weight"),
        (GridSearchCV(GaussianNB(), {}, scoring="roc_auc"), FACTS, "no scoring='roc_auc': a run"),
        (StackingClassifier([("a", GaussianNB())]), {}, r"DPTrainOnRelease\(StackingClassifier"),
        (GaussianNB(), {}, "classes must be given"),
        (StandardScaler(), FACTS, "classes is stated, but no step takes it"),
        (Normalizer(), {}, "learns nothing"),
        (GridSearchCV(KMeans(2), {"init": ["random"]}), {"bounds": (-4, 4)}, "init"),
    ],
)
def test_what_has_no_private_meaning_is_refused_by_name(step, facts, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make_private(step, **facts)


def test_what_comes_second_is_told_its_name():
    scaler = StandardScaler()
    with pytest.raises(TypeError, match=r"make_private\(estimator, budget=budget\)"):
        make_private(scaler, PrivacyBudget(1.0))
    with pytest.raises(TypeError, match=r"make_private\(estimator, epsilon=0.5\)"):
        make_private(scaler, 0.5)
    assert list(inspect.signature(make_private).parameters)[:2] == ["estimator", "epsilon"]
