"""What DPSubsampleAggregate refuses, before anything is charged."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from models import (
    LABELS,
    PUBLIC,
    SECRET,
    TARGETS,
    TEST,
    TREE,
    R,
    X,
    averaging,
    budget_of,
    linear,
    relations,
    voting,
)
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.cross_decomposition import PLSRegression
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from skdp import DPStandardScaler, PrivacyBudget
from skdp.density_ratio import DPLogisticRatio
from skdp.ensemble import DPSubsampleAggregate
from tests.folding import each


class NoPredict(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        return self


BAD = [
    ({"estimator": StandardScaler()}, TypeError, "estimator"),
    ({"estimator": DecisionTreeClassifier}, TypeError, "estimator"),
    ({"estimator": KMeans()}, TypeError, "estimator"),
    ({"estimator": NoPredict()}, TypeError, "estimator"),
    ({"estimator": None}, TypeError, "estimator"),
    ({"estimator": "tree"}, TypeError, "estimator"),
    ({"estimator": make_pipeline(DPStandardScaler(), TREE)}, TypeError, "private"),
    ({"estimator": DPLogisticRatio()}, TypeError, "estimator"),
    ({"estimator": LogisticRegression(C=-1)}, ValueError, "C"),
    ({"estimator": KNeighborsClassifier(10_000)}, ValueError, "n_neighbors"),
    ({"student": StandardScaler()}, TypeError, "student"),
    ({"student": LinearRegression()}, TypeError, "student"),
    ({"public": None}, ValueError, "public"),
    ({"public": PUBLIC[:, :1]}, ValueError, "public"),
    ({"public": PUBLIC * np.nan}, ValueError, "public|NaN"),
    ({"classes": None}, ValueError, "classes"),
    ({"classes": ["late"]}, ValueError, "classes"),
    ({"classes": [0.5, 1.5]}, ValueError, "Unknown label type"),
    ({"output": "both"}, ValueError, "output"),
    ({"aggregate": "mean"}, ValueError, "aggregate"),
    ({"aggregate": "auto", "output": "parameters", "bounds": (-1, 1)}, TypeError, "coef_"),
    (
        {"aggregate": "auto", "output": "parameters", "estimator": LogisticRegression()},
        ValueError,
        "bounds",
    ),
    ({"aggregate": "smooth_median"}, ValueError, "aggregate"),
    ({"n_blocks": 0}, ValueError, "n_blocks"),
    ({"n_blocks": 2.5}, TypeError, "n_blocks"),
    ({"n_blocks": "many"}, ValueError, "n_blocks"),
    ({"n_queries": 0}, ValueError, "n_queries"),
    (
        {"n_jobs": "two"},
        TypeError,
        "n_jobs must be None, .* or an integer of .* at most -1, got str",
    ),
    (
        {"n_jobs": 0},
        ValueError,
        "n_jobs must be None, .* or an integer of .* at most -1, got 0",
    ),
    ({"epsilon": 0}, ValueError, "epsilon"),
    ({"delta": 1.0}, ValueError, "delta"),
]


@relations
@each(("parameters", "error", "text"), BAD)
def test_bad_parameters(parameters, error, text, relation):
    budget = budget_of(relation)
    model = voting(budget=budget).set_params(**parameters)
    before = dict(vars(model))
    with pytest.raises(error, match=text):
        model.fit(X, LABELS)
    assert budget.spent.epsilon == 0
    assert vars(model) == before


@each("bounds", [None, "private", (1, 0), (0, np.inf), 3, ([0, 0], [1, 1])])
@each("make", [averaging, linear])
def test_bad_bounds(bounds, make):
    budget = budget_of(R)
    with pytest.raises((TypeError, ValueError), match="bounds"):
        make(bounds=bounds, budget=budget).fit(X, TARGETS)
    assert budget.spent.epsilon == 0


@pytest.mark.parametrize("make", [averaging, linear])
def test_an_epsilon_that_no_smooth_noise_is_made_for(make):
    budget = budget_of(R)
    with pytest.raises(ValueError, match="epsilon must be larger"):
        make(aggregate="smooth_median", epsilon=1e-10, delta=0.0, budget=budget).fit(X, TARGETS)
    assert budget.spent.epsilon == 0


@each("y", [None, LABELS[:-1], np.full((6000, 2), SECRET), [np.nan] * 6000])
@each("make", [voting, averaging])
def test_bad_labels(y, make):
    budget = budget_of(R)
    with pytest.raises(ValueError, match="y") as caught:
        make(budget=budget).fit(X, y)
    assert str(SECRET) not in str(caught.value)
    assert budget.spent.epsilon == 0


@each(
    "rows",
    [
        np.where(np.arange(12000).reshape(6000, 2) == 77, np.nan, SECRET),
        np.full((6000, 2), f"a{SECRET}", dtype=object),
        sparse.csr_array(X),
        X[:, :1],
        X[:, 0],
        X * 1j,
    ],
    ids=["nan", "text", "sparse", "columns", "flat", "complex"],
)
@each("make", [voting, averaging])
def test_bad_rows(rows, make):
    budget = budget_of(R)
    with pytest.raises((TypeError, ValueError)) as caught:
        make(budget=budget).fit(rows, LABELS if make is voting else TARGETS)
    error = caught.value
    assert str(SECRET) not in f"{error} {error.__cause__} {error.__context__}"
    assert budget.spent.epsilon == 0


@pytest.mark.parametrize(
    "model", [SVC(kernel="linear"), PLSRegression()], ids=["no setter", "more than coefficients"]
)
def test_models_that_are_more_than_their_parameters_are_refused(model):
    y = LABELS if isinstance(model, SVC) else TARGETS
    budget = PrivacyBudget(50.0)
    options = {"classes": ["late", "on time"]} if isinstance(model, SVC) else {}
    with pytest.raises(TypeError, match="from coef_ and intercept_ alone"):
        DPSubsampleAggregate(
            model, output="parameters", bounds=(-5, 5), budget=budget, **options
        ).fit(X, y)
    assert budget.spent.epsilon == 0


def test_models_of_counts_have_parameters_too():
    model = DPSubsampleAggregate(
        PoissonRegressor(), output="parameters", bounds=(-5, 5), n_blocks=20, epsilon=20.0
    ).fit(X, np.abs(TARGETS))
    assert np.isfinite(model.predict(TEST)).all()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_public_columns_in_another_order_are_refused(make):
    """Values would be taken for those of another column, silently."""
    budget = budget_of(R)
    frame = make({"a": X[:, 0], "b": X[:, 1]})
    turned = make({"b": PUBLIC[:, 1], "a": PUBLIC[:, 0]})
    other = make({"a": PUBLIC[:, 0], "c": PUBLIC[:, 1]})
    for public in (turned, other):
        model = voting(public=public, budget=budget)
        with pytest.raises(ValueError, match="public must have the columns of X in the same order"):
            model.fit(frame, LABELS)
        assert not hasattr(model, "feature_names_in_")
    assert budget.spent.epsilon == 0
    # Names on one side only say nothing, and are no reason to warn.
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        free = {"n_blocks": 4, "delta": 0.0, "budget": budget, "random_state": None}
        same = make({"a": PUBLIC[:, 0], "b": PUBLIC[:, 1]})
        voting(public=same, **free).fit(frame, LABELS)
        voting(**free).fit(frame, LABELS)
        voting(public=turned, **free).fit(X, LABELS)


def test_the_warning_of_a_column_points_to_the_caller():
    with pytest.warns(DataConversionWarning) as caught:
        voting(n_blocks=4).fit(X, LABELS[:, None])
    assert [one.filename for one in caught if one.category is DataConversionWarning] == [__file__]


@pytest.mark.parametrize("classes", [[0, "a"], [0.0, np.nan], ["a", b"b"]])
def test_classes_of_two_types_are_refused(classes):
    with pytest.raises(ValueError, match="classes must be"):
        voting(classes=classes).fit(X, LABELS)
