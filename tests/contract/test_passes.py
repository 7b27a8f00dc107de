"""How often a fit reads the rows: seconds differ from machine to machine, passes do not.

A pass asks the rows for their spans, once. The check of the input is one of them.
"""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest
from cases import DELTAS
from estimators import CASES
from golden import table

import skdp
from skdp.queries import StandardBall, views
from skdp.tabular.rows import Rows

# Passes of a fit of three columns, the same with and without delta, or of both.
PASSES: dict[str, int | tuple[int, int]] = {
    "standard_scaler": 2,
    "standard_scaler_private": 5,
    "standard_scaler_weighted": 2,
    "standard_scaler_weighted_private": 7,
    "minmax_scaler": 4,
    "minmax_scaler_stated": 1,
    "pca": 3,
    "pca_laplace": 4,
    "pca_wishart": 4,
    "kmeans": 4,
    "kmeans_lloyd": 8,
    "kmeans_weighted": 7,
    "kmeans_weighted_lloyd": 6,
    "kmeans_weighted_mean": 7,
    "pipeline": 8,
    "median": 4,
    "median_step": 2,
    "median_smooth": 4,
    "median_smooth_stated": 2,
    "median_global": 2,
    "quantile": 4,
    "quantile_stated": 2,
    "quantile_log": 4,
    "robust_scaler": 4,
    "quantile_transformer": 4,
    "quantile_normal": 2,
    "kernel_density": 4,
    "kernel_density_stated": 2,
    "kernel_density_cells": 2,
    "histogram_density": 4,
    "histogram_density_stated": 2,
    "empirical_cdf": 6,
    "empirical_cdf_stated": 4,
    "ulsif": 3,
    "ulsif_b": 3,
    "ulsif_a": 4,
    "ulsif_a_rate": 4,
    "ulsif_stated": 3,
    "ulsif_basis": 3,
    "vote": 1,
    "scores": 1,
    "scores_of_three": 1,
    "vote_of_three": 1,
    "prediction": 1,
    "median_prediction": 1,
    "parameters": 1,
    "median_parameters": 1,
    "smooth_parameters": 1,
    "ridge": 4,
    "ridge_private": 10,
    "ridge_weighted": 4,
    "linear_regression": 4,
    "boosting": (10, 24),
    "boosting_of_three": (11, 25),
    "boosting_regressor": (8, 23),
    "boosting_regressor_private": (14, 29),
    "gaussian_nb": 5,
    "categorical_nb": 5,
    "categorical_nb_weighted": 7,
    "gaussian_nb_weighted": 5,
    "discriminant_analysis": (7, 6),
    "small_db": 1,
    "small_db_thresholds": 1,
    "small_db_list": 1,
    "mwem": 3,
    "mwem_all": 3,
    "mwem_queries": 1,
    "online": 2,
    "bins": 4,
    "bins_kmeans": 4,
    "bins_uniform": 4,
    "bins_weighted": 2,
    "one_hot": 0,
    "ordinal": 0,
    "target_encoder": 5,
    "target_encoder_binary": 3,
    "select_classes": 4,
    "select_numbers": 2,
    "imputer": 6,
    "imputer_stated": 2,
    "imputer_median": 2,
    "imputer_frequent": 2,
    "standard_scaler_omit": 3,
    "minmax_scaler_omit": 6,
    "robust_scaler_omit": 2,
    "quantile_transformer_omit": 2,
}
# At most: noise decides how many there are.
AT_MOST: dict[str, int] = {
    "grid_search": 60,
    "kmeans_ball": 10,
    "kmeans_private": 7,
    "kmeans_subspace": 10,
    "logistic": 12,
    "logistic_regression": 23,
    "logistic_regression_of_three": 61,
    "logistic_regression_weighted": 23,
    "logistic_regression_weighted_of_three": 61,
    "logistic_stated": 15,
    "marginals": 11,
    "marginals_of_three": 12,
    "nearest_centroid": 6,
    "nearest_centroid_medians": 6,
    "pca_private": 6,
    "random_search": 60,
    "train_on_release": 5,
    "train_on_release_numbers": 11,
}
# What is asked of all columns together has as many passes for many columns.
OF_ALL_COLUMNS = (
    "standard_scaler",
    "standard_scaler_private",
    "minmax_scaler",
    "robust_scaler",
    "quantile_transformer",
    "quantile_normal",
    "bins",
    "imputer_stated",
)
NAMES = {case.name: case for case in CASES if not case.name.startswith("toy")}


@pytest.fixture
def passes(monkeypatch):
    """Return a function that fits and counts the passes."""
    spans, count = Rows.spans, 0

    def counted(rows, **options):
        nonlocal count
        count += 1
        return spans(rows, **options)

    def passes_of(case, X, delta):
        nonlocal count
        estimator = case.make(epsilon=2.0, delta=delta, budget=None)
        count = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(*case.table(X))
        return count

    monkeypatch.setattr(Rows, "spans", counted)
    return passes_of


def test_every_estimator_is_counted():
    assert not PASSES.keys() & AT_MOST.keys()
    assert PASSES.keys() | AT_MOST.keys() == NAMES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_passes_of_a_fit(name, passes):
    case = NAMES[name]
    counts = tuple(passes(case, table("mixed", case.n_features), delta) for delta in DELTAS)
    if name in AT_MOST:
        assert max(counts) <= AT_MOST[name]
        return
    expected = PASSES[name]
    assert counts == (expected if isinstance(expected, tuple) else (expected, expected))


@pytest.mark.parametrize("name", OF_ALL_COLUMNS)
def test_more_columns_need_no_more_passes(name, passes):
    X = np.random.default_rng(0).normal(0, 0.7, (1000, 40))
    few, many = (passes(NAMES[name], X[:, :d], 1e-5) for d in (3, 40))
    assert many == few


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_logistic_regression_maps_each_row_once(delta, monkeypatch):
    """And keeps no image beyond the fit; with no room for images its numbers are the same."""
    X = np.random.default_rng(0).normal(0, 0.7, (3000, 3))
    y = (X[:, 0] > 0.2).astype(int)
    count, tables = 0, []
    of_rows, made = StandardBall.map, views._MappedRows.__init__

    def counted(view, block):
        nonlocal count
        count += len(block)
        return of_rows(view, block)

    def noted(rows, *arguments):
        made(rows, *arguments)
        tables.append(weakref.ref(rows))

    monkeypatch.setattr(StandardBall, "map", counted)
    monkeypatch.setattr(views._MappedRows, "__init__", noted)

    def coefficients():
        nonlocal count
        count = 0
        gc.disable()
        try:
            with skdp.config_context(noise="seeded"):
                model = skdp.DPLogisticRegression(
                    classes=[0, 1], epsilon=4.0, delta=delta, random_state=0
                ).fit(X, y)
            assert tables and all(rows() is None for rows in tables)
        finally:
            gc.enable()
        return model.coef_

    fast = coefficients()
    assert count == len(X)
    monkeypatch.setattr(views, "_KEPT_BYTES", 0)
    assert (coefficients() == fast).all()
    assert count > 3 * len(X)
