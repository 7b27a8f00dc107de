"""Numbers of rows under "replace_one": bound to the first, or stated; another one warns once."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    cross_val_score,
    train_test_split,
)

from skdp import (
    DPStandardScaler,
    LargeDeltaWarning,
    PrivacyBudget,
    PublicRowCountWarning,
    statistics,
)
from skdp.budget.reading import RowCounts, is_part
from tests.folding import each

X = np.random.default_rng(0).random((239, 2))


def fit(budget, X):
    """Fit; return how many warnings of the number of rows there were."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPStandardScaler(epsilon=0.01, bounds=(0, 1), budget=budget).fit(X)
    return sum(issubclass(w.category, PublicRowCountWarning) for w in caught)


@each("n", [2, 3, 10, 59, 60, 61, 239, 240, 1000])
def test_the_parts_of_cross_validations_are_expected(n):
    splitters = [KFold(k) for k in range(2, min(n, 10) + 1)]
    splitters += [LeaveOneOut(), RepeatedKFold(n_splits=2, n_repeats=2)]
    for splitter in splitters:
        for train, test in splitter.split(np.empty((n, 1))):
            assert is_part(len(train), n)
            assert is_part(len(test), n)
    for size in (0.1, 0.2, 0.25, 0.3, 0.4, 0.5) if n >= 10 else ():
        train, test = train_test_split(np.arange(n), test_size=size)
        assert is_part(len(train), n)
        assert is_part(len(test), n)
    assert is_part(n, n)
    assert not is_part(n + 1, n)


def test_some_number_is_no_part():
    assert sum(is_part(part, 1000) for part in range(1, 1001)) < 60
    assert not any(is_part(part, 400) for part in (231, 387, 353, 17))


def test_another_number_warns_once_and_names_the_way_out():
    budget = PrivacyBudget(10.0)
    assert fit(budget, X) == 0
    assert fit(budget, X[:120]) == 0
    with pytest.warns(PublicRowCountWarning, match=r"DPStandardScaler.*n_rows=") as caught:
        DPStandardScaler(epsilon=0.01, bounds=(0, 1), budget=budget).fit(X[:127])
    assert caught[0].filename == __file__
    assert "127" not in str(caught[0].message)
    assert fit(budget, X[:131]) == 0  # once
    assert budget.n_rows == ()


def test_an_error_by_filter_comes_before_the_charge():
    budget = PrivacyBudget(10.0, n_rows=239)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PublicRowCountWarning)
        with pytest.raises(PublicRowCountWarning):
            DPStandardScaler(epsilon=0.01, bounds=(0, 1), budget=budget).fit(X[:127])
    assert budget.charges == []


@pytest.mark.slow
@each("n_jobs", [1, 2])
@each("n", [59, 60, 239])
def test_searches_do_not_warn(n, n_jobs):
    budget = PrivacyBudget(100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PublicRowCountWarning)
        scaler = DPStandardScaler(epsilon=0.01, bounds=(0, 1), budget=budget)
        for cv in (5, 3):
            grid = {"with_std": [True]}
            GridSearchCV(
                scaler, grid, cv=cv, n_jobs=n_jobs, scoring=nothing, error_score="raise"
            ).fit(X[:n])
        cross_val_score(scaler, X[:n], cv=4, scoring=nothing, error_score="raise")


def nothing(estimator, X, y=None):
    return 0.0


def test_stated_numbers_are_in_the_ledger_and_others_are_not(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(10.0, ledger=path)
    assert fit(budget, X[:127]) == 0
    assert budget._ledger.stated()["n_rows"] is None
    assert b"127" not in pickle.dumps(budget)
    stated = PrivacyBudget(10.0, ledger=path, n_rows=[239, 127, 239])
    assert stated.n_rows == (127, 239)
    assert fit(stated, X) == fit(stated, X[:127]) == 0
    assert fit(stated, X[:87]) == 1
    again = PrivacyBudget(10.0, ledger=path)
    assert again.n_rows == (127, 239)
    with pytest.raises(ValueError, match=r"made with n_rows=\[127, 239\], not \[200\]"):
        PrivacyBudget(10.0, ledger=path, n_rows=200)


def test_a_fold_before_the_whole_table():
    counts = RowCounts((), binds=True)
    assert all(counts.expects(n) for n in (191, 192, 191, 48, 47, 239, 120))
    assert not counts.expects(127)


def test_workers_see_folds_first_and_bind_nothing():
    counts = RowCounts((), binds=False)
    assert all(counts.expects(n) for n in (191, 127, 3))


def test_statistics_that_keep_the_number_private_do_not_warn():
    budget = PrivacyBudget(10.0, n_rows=239)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PublicRowCountWarning)
        statistics.mean(X[:127], bounds=(0, 1), epsilon=0.1, budget=budget)
        with pytest.raises(PublicRowCountWarning):
            statistics.mean(X[:127], bounds=(0, 1), epsilon=0.1, budget=budget, n_rows="public")


def test_under_add_or_remove_the_number_is_private():
    budget = PrivacyBudget(10.0, adjacency="add_or_remove_one")
    assert fit(budget, X) == fit(budget, X[:127]) == 0
    with pytest.raises(ValueError, match="n_rows must be None under"):
        PrivacyBudget(10.0, adjacency="add_or_remove_one", n_rows=3)


@each("wrong", [0, -1, True, [], [0], [1.5], "5", 2.0, [True]])
def test_numbers_that_are_none(wrong):
    with pytest.raises((TypeError, ValueError), match="n_rows must be None, an integer"):
        PrivacyBudget(1.0, n_rows=wrong)


# --- delta and the number of rows -----------------------------------------------------------------


def test_a_delta_of_one_over_n_warns_before_the_charge_where_n_is_public():
    def fit(delta, **kinds):
        budget = PrivacyBudget(9.0, 0.5, accountant="gdp", **kinds)
        return DPStandardScaler(bounds=(0, 1), delta=delta, budget=budget).fit(X)

    with pytest.warns(LargeDeltaWarning, match=r"DPStandardScaler: delta=0\.01 .* n=239 rows"):
        fit(0.01)
    budget = PrivacyBudget(9.0, 0.5, accountant="gdp")
    with pytest.warns(LargeDeltaWarning, match="mean: delta=0.01"):
        statistics.mean(X, bounds=(0, 1), delta=0.01, n_rows="public", budget=budget)
    budget = PrivacyBudget(9.0, 0.5, accountant="gdp")
    with warnings.catch_warnings():
        warnings.simplefilter("error", LargeDeltaWarning)
        fit(1 / 240)
        fit(0.01, adjacency="add_or_remove_one")  # how many rows there are is private
        with pytest.raises(LargeDeltaWarning):
            DPStandardScaler(bounds=(0, 1), delta=0.01, budget=budget).fit(X)
    assert budget.charges == []


def test_a_delta_of_one_over_the_stated_number_of_rows_warns():
    with pytest.warns(LargeDeltaWarning, match="PrivacyBudget: delta=0.001 .* n=1000 rows"):
        PrivacyBudget(1.0, 0.001, n_rows=[1000, 800])
    with warnings.catch_warnings():
        warnings.simplefilter("error", LargeDeltaWarning)
        PrivacyBudget(1.0, 0.0009, n_rows=1000)
        PrivacyBudget(1.0, 0.5)
