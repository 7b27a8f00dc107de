"""Scalers of tables with missing cells: scikit-learn's without noise, errors that hold with it.

Oracles: scikit-learn's scalers, which leave missing cells out as ours do, and keep them. The noise
of seeded fits is against the stated standard errors; the bits are fixed in tests.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from skdp import PrivacyBudget
from skdp.audit import neighbour_check
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdp.quantile import DPQuantileTransformer, DPRobustScaler
from tests.folding import each

ADJACENCIES = ("replace_one", "add_or_remove_one")
HOLES = np.random.default_rng(5).normal([170.0, 70.0], [10.0, 12.0], size=(4000, 2))
HOLES[::5, 0], HOLES[1::3, 1] = np.nan, np.nan
WITHIN = ([100.0, 0.0], [250.0, 150.0])
OMITTING = {
    "standard": (DPStandardScaler, StandardScaler, ("mean_", "var_")),
    "minmax": (partial(DPMinMaxScaler, q=0.005), MinMaxScaler, ()),
    "robust": (DPRobustScaler, RobustScaler, ("center_", "scale_")),
}


@each("bounds", ["private", WITHIN], ids=["private", "stated"])
@each("adjacency", ADJACENCIES)
@each("kind", OMITTING)
def test_missing_cells_are_left_out_and_stay_missing(kind, adjacency, bounds):
    make, plain, names = OMITTING[kind]
    budget = PrivacyBudget(1e6, adjacency=adjacency)
    ours = make(bounds=bounds, nan_policy="omit", epsilon=1e5, budget=budget, random_state=0)
    theirs = plain().fit(HOLES)
    once = ours.fit(HOLES).transform(HOLES)
    assert np.array_equal(np.isnan(once), np.isnan(HOLES))
    assert np.array_equal(np.isnan(ours.inverse_transform(once)), np.isnan(HOLES))
    np.testing.assert_allclose(ours.inverse_transform(once), HOLES, rtol=1e-9)
    for name in names:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=0.02)
    free = kind == "minmax" and bounds is WITHIN
    assert budget.spent.epsilon == (0 if free else 1e5)
    assert sum(one.share for one in ours.privacy_.releases) == pytest.approx(0.0 if free else 1.0)
    if kind == "standard":
        assert ours.n_samples_ == pytest.approx([3200, 2667], abs=1)


@pytest.mark.parametrize("kind", OMITTING)
def test_missing_cells_are_refused_by_default_before_the_charge(kind):
    budget = PrivacyBudget(1.0)
    with pytest.raises(ValueError, match="nan_policy='omit'"):
        OMITTING[kind][0](budget=budget).fit(HOLES)
    bad = np.where(np.isnan(HOLES), np.inf, HOLES)
    with pytest.raises(ValueError, match="infinity"):
        OMITTING[kind][0](nan_policy="omit", budget=budget).fit(bad)
    with pytest.raises(ValueError, match="nan_policy must be"):
        OMITTING[kind][0](nan_policy="drop", budget=budget).fit(HOLES)
    with pytest.raises(ValueError, match="how many cells of a column are missing"):
        OMITTING[kind][0](nan_policy="omit").expected_error(1000, 2, like=HOLES[:0])
    assert budget.spent.epsilon == 0


def test_columns_without_missing_cells_by_their_type_have_a_public_number_of_rows():
    table = pd.DataFrame({"a": HOLES[:, 0], "b": np.arange(4000) % 50})
    fitted = DPStandardScaler(bounds=(0, 250), nan_policy="omit", random_state=0).fit(table)
    assert fitted.n_samples_[1] == 4000 != fitted.n_samples_[0] != 3200


def test_a_quantile_transformer_keeps_what_is_missing():
    fitted = DPQuantileTransformer(n_quantiles=5, bounds=WITHIN, nan_policy="omit", epsilon=1e5)
    once = fitted.fit_transform(HOLES)
    assert np.array_equal(np.isnan(once), np.isnan(HOLES))
    np.testing.assert_allclose(np.nanmedian(once, axis=0), 0.5, atol=0.01)


def test_an_empty_column_raises_nothing():
    table = np.full((50, 2), np.nan)
    table[:, 1] = 1.0
    for make, _, _ in OMITTING.values():
        for bounds in ("private", (0, 2)):
            fitted = make(bounds=bounds, nan_policy="omit", random_state=0).fit(table)
            assert np.isfinite(fitted.transform(np.ones((3, 2)))).all()


@each("delta", [0.0, 1e-6])
@each("adjacency", ADJACENCIES)
@each("kind", OMITTING)
def test_a_row_with_or_without_a_value_moves_what_is_released_as_stated(kind, adjacency, delta):
    """And moments by all of their sensitivity: at both ends of the bounds, and with no value."""
    bounds = "private" if kind == "minmax" else (-1.0, 1.0)
    budget = PrivacyBudget(1e6, 0.5, adjacency=adjacency)
    make = OMITTING[kind][0]
    scaler = make(bounds=bounds, nan_policy="omit", epsilon=4.0, delta=delta, budget=budget)
    table = np.array([[1.0], [0.5], [-0.25], [np.nan], [1.0]])
    others = [table[:4]]
    if adjacency == "replace_one":
        others = [np.vstack([table[:4], [[end]]]) for end in (-1.0, np.nan)]
    found = [neighbour_check(scaler, table, other) for other in others]
    assert all(distance <= sensitivity for one in found for _, distance, sensitivity in one)
    if kind == "standard":
        for one in found:
            assert max(distance / sensitivity for _, distance, sensitivity in one) > 0.99


@pytest.mark.statistical
@pytest.mark.parametrize("bounds", ["private", WITHIN], ids=["private", "stated"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_standard_errors_with_missing_cells(adjacency, bounds):
    exact = np.nanmean(HOLES, axis=0), np.nanvar(HOLES, axis=0)
    budget = PrivacyBudget(1e6, 0.5, adjacency=adjacency)
    z = [[], []]
    for _ in range(60):
        fitted = DPStandardScaler(
            bounds=bounds, nan_policy="omit", epsilon=5.0, delta=1e-6, budget=budget
        )
        fitted.fit(HOLES)
        z[0].append((fitted.mean_ - exact[0]) / fitted.mean_std_error_)
        z[1].append((fitted.var_ - exact[1]) / fitted.var_std_error_)
    for one in z:
        # A count of the rows outside that nothing explains leaves no error: 1 of 200 fits.
        assert np.isnan(one).sum() <= 4
        assert 0.2 < np.sqrt(np.nanmean(np.square(one))) < 1.5
