"""A plan shows every charge that a fit then makes, and charges nothing itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skdp
from skdp import (
    DPPCA,
    DPGridSearchCV,
    DPKMeans,
    DPLogisticRegression,
    DPMinMaxScaler,
    DPStandardScaler,
    PrivacyBudget,
)
from skdp.model_selection import private_scorer, search_cost
from tests.folding import each

X = np.random.default_rng(0).uniform(size=(300, 3))


def pipeline(budget=None):
    return make_pipeline(
        DPMinMaxScaler(bounds=(0, 1)),
        DPStandardScaler(bounds=(0, 1), epsilon=0.5, budget=budget),
        DPPCA(2, center=0, norm_bound=3.0, delta=1e-6, budget=budget),
        DPKMeans(2, bounds=(-3, 3), budget=budget),
    )


def test_the_charges_are_those_that_a_fit_makes():
    budget = PrivacyBudget(100.0, 1e-3)
    planned = skdp.plan(pipeline(budget), 300, 3)
    assert budget.spent.epsilon == 0
    pipeline(budget).fit(X)
    made = [one for one in planned if one.cost is not None]
    assert [one.estimator for one in made] == [charge.estimator for charge in budget.charges]
    assert planned.total.epsilon == budget.spent.epsilon == 2.5
    assert planned.total.delta == budget.spent.delta


def test_errors_are_expected_errors_where_there_are_any():
    free, scaler, pca, kmeans = skdp.plan(pipeline(), 300, 3)
    assert free.cost is None
    assert free.note == "nothing is released"
    assert scaler.error == pipeline()[1].expected_error(300, 3)
    assert pca.error == pipeline()[2].expected_error(300, 3)
    assert math.isnan(kmeans.error)
    assert "give like=" in kmeans.note
    assert {one.note for one in skdp.plan(pipeline())[1:]} == {"state n_samples"}


def test_columns_of_a_column_transformer_are_counted():
    transformer = ColumnTransformer(
        [("a", DPStandardScaler(bounds=(0, 1)), [0, 2]), ("b", DPMinMaxScaler(q=0.1), "rest")]
    )
    first, second = skdp.plan(make_pipeline(transformer), 300, 3)
    assert first.step == "columntransformer__a"
    assert first.error == DPStandardScaler(bounds=(0, 1)).expected_error(300, 2)
    assert math.isnan(second.error)


def test_a_search_is_planned_as_it_is_priced():
    scorer = private_scorer("neg_inertia", epsilon=0.1, bounds=1.0)
    search = GridSearchCV(
        DPKMeans(bounds=(0, 1), epsilon=0.2), {"n_clusters": [2, 3]}, cv=3, scoring=scorer
    )
    planned, price = skdp.plan(search, 300), search_cost(search, 300)
    assert planned.total == price or planned.total.epsilon == price.epsilon
    assert [(one.times, one.note) for one in planned] == [
        (6, "fits on training folds"),
        (6, "private scores"),
        (1, "refit on all rows"),
    ]
    private = DPGridSearchCV(DPKMeans(2), {"n_clusters": [2]}, scoring=scorer, epsilon=3.0)
    (once,) = skdp.plan(private)
    assert (once.times, once.cost.epsilon) == (1, 3.0)


def test_only_charges_to_a_budget_are_asked_for():
    one, two = PrivacyBudget(10.0), PrivacyBudget(10.0)
    both = make_pipeline(
        DPStandardScaler(bounds=(0, 1), budget=one), DPKMeans(bounds=(-3, 3), budget=two)
    )
    assert [line.estimator for line in skdp.plan(both, budget=two)] == ["DPKMeans"]
    assert "check_pipeline has" in skdp.plan(both).note


def test_what_is_shown():
    planned = skdp.plan(pipeline(), 300, 3)
    lines = repr(planned).splitlines()
    assert len(lines) == 6
    assert lines[-1].startswith("total")
    assert "2.5" in lines[-1]
    assert planned._repr_html_().count("<tr>") == 6
    frame = planned.to_frame()
    assert frame["epsilon"].tolist() == [0.0, 0.5, 1.0, 1.0]
    assert np.isnan(frame["expected_error"].iloc[-1])


def test_steps_inside_a_column_transformer_know_their_columns():
    scaled = make_pipeline(DPMinMaxScaler(bounds=(0, 9)), DPStandardScaler(bounds=(0, 1)))
    columns = ColumnTransformer([("some", scaled, ["a", "b", "c"])])
    planned = {line.step: line for line in skdp.plan(columns, 300)}
    line = planned["some__dpstandardscaler"]
    assert line.error == DPStandardScaler(bounds=(0, 1)).expected_error(300, 3)


def test_models_without_a_price_are_named():
    planned = skdp.plan(make_pipeline(DPStandardScaler(bounds=(0, 1)), LogisticRegression()))
    assert len(planned) == 1
    assert planned.note.startswith("check_pipeline has")
    (line,) = skdp.plan(DPLogisticRegression(classes=[0, 1], delta=1e-6), 300, 3)
    assert "depends on the rows: ask DPLogisticRegression.expected_error" in line.note


@each(
    ("arguments", "error", "text"),
    [
        ((3,), TypeError, "estimator must be an estimator"),
        ((DPKMeans,), TypeError, "estimator must be an estimator"),
        ((DPKMeans(2), 1.5), TypeError, "n_samples"),
        ((DPKMeans(2), 0), ValueError, "n_samples"),
        ((make_pipeline(DPKMeans(-1)), 100), ValueError, "step dpkmeans: n_clusters"),
        ((make_pipeline(DPKMeans(epsilon=0)), 100), ValueError, "step dpkmeans: .*epsilon"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        skdp.plan(*arguments)
