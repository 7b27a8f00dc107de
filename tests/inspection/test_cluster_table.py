"""`cluster_table`: means of the clusters' rows in the caller's columns, from attributes alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

from skdp import (
    DPPCA,
    DPKBinsDiscretizer,
    DPKMeans,
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPSelectKBest,
    DPSimpleImputer,
    DPStandardScaler,
)
from skdp.inspection import cluster_table
from tests.folding import each

N = 6000


@pytest.fixture(scope="module")
def rows():
    """Return three groups that every step keeps apart."""
    rng, group = np.random.default_rng(0), np.arange(N) % 3
    return pd.DataFrame(
        {
            "age": 20.0 + 25.0 * group + rng.normal(size=N),
            "pay": 1000.0 * (group == 2) + rng.normal(0, 20, N),
            "city": np.array(["a", "b", "a"])[group],
        }
    )


NUMBERS = ["age", "pay"]
SCALER = DPStandardScaler(bounds=([0, -100], [100, 1200]), epsilon=50.0)
KMEANS = DPKMeans(3, bounds=(-3, 3), epsilon=50.0, random_state=0)


def means(rows, labels):
    return rows.groupby(labels).mean().to_numpy()


def test_a_mixed_table_comes_back_in_its_own_columns(rows):
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SCALER, FunctionTransformer()), NUMBERS),
            ("text", DPOneHotEncoder(categories=[["a", "b"]]), ["city"]),
            ("nothing", "drop", ["pay"]),
        ]
    )
    pipe = make_pipeline(columns, KMEANS).fit(rows)
    table = cluster_table(pipe)
    assert table.columns == ["age", "pay", "city_a", "city_b"]
    known = rows[NUMBERS].assign(a=rows["city"] == "a", b=rows["city"] == "b")
    exact = means(known.astype(float), pipe.predict(rows))
    assert np.all(np.abs(table.values - exact) <= 3 * table.std + 1e-9)
    assert np.all(table.std[:, 0] < 5.0) and np.all(np.abs(table.counts - N / 3) < 100)
    frame = table.to_frame()
    assert list(frame.columns) == ["count", *table.columns] and len(frame) == 3
    assert (table.to_frame(std=True)["count"] == table.counts_std).all()
    counts = np.bincount(pipe.predict(rows))
    assert np.all(np.abs(table.counts - counts) <= 3 * table.counts_std)
    assert "city_a" in table._repr_html_()


@each("indicator", [True, False])
def test_means_behind_an_imputer_are_of_cells_with_a_value(rows, indicator):
    gaps = rows[NUMBERS].copy()
    gaps.loc[np.arange(N) % 15 == 0, "age"] = np.nan  # all of them in one group
    low, high = [0, -100, 0, 0], [100, 1200, 9, 9]  # indicators weigh little
    imputer = DPSimpleImputer(bounds=(low[:2], high[:2]), add_indicator=indicator, epsilon=50.0)
    width = 4 if indicator else 2
    scaler = DPMinMaxScaler(bounds=(low[:width], high[:width]))
    pipe = make_pipeline(imputer, scaler, DPKMeans(3, bounds=(0, 1), epsilon=50.0)).fit(gaps)
    table = cluster_table(pipe)
    assert table.columns == NUMBERS + ["age missing", "pay missing"] * indicator
    exact = gaps.groupby(pipe.predict(gaps)).mean().to_numpy()
    away, errors = np.abs(table.values[:, :2] - exact), table.std[:, :2]
    assert np.all(away <= 3 * errors + 1e-9) and np.all(errors[:, 0] < 8.0)
    assert imputer.counts_ == pytest.approx(gaps.count().to_numpy(), abs=5)


def test_errors_are_unknown_where_a_step_loses_what_they_need(rows):
    X, bounds = rows[NUMBERS].to_numpy(), ([0, -100], [100, 1200])
    for strategy in ("median", "constant"):  # they release no counts
        imputer = DPSimpleImputer(strategy=strategy, bounds=bounds, epsilon=50.0)
        assert np.isnan(cluster_table(make_pipeline(imputer, SCALER, KMEANS).fit(X)).std).all()
    for projection, known in ((PCA(2), True), (PCA(1), False)):
        table = cluster_table(make_pipeline(SCALER, projection, KMEANS).fit(X))
        assert table.columns == ["x0", "x1"] and np.isfinite(table.std).all() == known
        exact = means(pd.DataFrame(X), np.arange(N) % 3)
        order = np.argsort(table.values[:, 0])
        limit = 3 * table.std[order] if known else [[10.0, 400.0]]
        assert np.all(np.abs(table.values[order] - exact) < limit)
    text = DPSimpleImputer(strategy="most_frequent", categories=[["a", "b"]], epsilon=50.0)
    onehot = DPOneHotEncoder(categories=[["a", "b"]])
    kmeans = DPKMeans(2, bounds=(0, 1), epsilon=50.0)
    table = cluster_table(make_pipeline(text, onehot, kmeans).fit(rows[["city"]]))
    assert table.columns == ["city_a", "city_b"] and (table.std < 0.2).all()
    table = cluster_table(make_pipeline(DPKBinsDiscretizer(4, bounds=bounds), KMEANS).fit(X))
    assert np.isnan(table.std).all()


def test_selected_columns_keep_their_names(rows):
    group = np.arange(N) % 3
    select = DPSelectKBest(k=1, classes=[0, 1, 2], bounds=([0, -100], [100, 1200]), epsilon=50.0)
    steps = [("scale", StandardScaler().set_output(transform="pandas"))]
    X = rows[NUMBERS].assign(noise=0.0)[["noise", "age"]]
    select.set_params(bounds=(-3, 3))
    pipe = Pipeline([*steps, ("select", select), ("cluster", KMEANS)]).fit(X, group)
    table = cluster_table(pipe)
    assert table.columns == ["noise", "age"]
    assert np.isnan(table.values[:, 0]).all() and np.isfinite(table.values[:, 1]).all()


def test_a_step_without_a_way_back_is_named(rows):
    pipe = make_pipeline(PolynomialFeatures(), KMEANS).fit(rows[NUMBERS])
    with pytest.raises(ValueError, match=r"polynomialfeatures.*pipeline\[1:\]"):
        cluster_table(pipe)
    assert cluster_table(pipe[1:]).values.shape == (3, 6)
    private = make_pipeline(DPPCA(2, center=[50, 500], norm_bound=800.0, epsilon=50.0), KMEANS)
    assert cluster_table(private.fit(rows[NUMBERS])).columns == NUMBERS
    assert cluster_table(
        make_pipeline(DPMinMaxScaler(bounds=(0, 9)), KMEANS).fit([[1.0]] * 50)
    ).columns == ["x0"]
