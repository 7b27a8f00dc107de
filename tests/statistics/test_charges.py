"""Private statistics: one charge under its own name, seeds, bad input that charges nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skdp import BudgetExceededError, PrivacyBudget, statistics
from tests.folding import each
from tests.statistics.calls import ADJACENCIES, CALLS, IDS, UNMETERED


@each("adjacency", ADJACENCIES)
@each(("name", "call", "more"), CALLS, ids=IDS)
def test_one_charge_under_its_own_name(X, name, call, more, adjacency):
    budget = PrivacyBudget(1.0, adjacency=adjacency)
    if name == "count" and adjacency == "replace_one":
        answer = call(X, epsilon=0.25, budget=budget, n_rows="public", **more)
        assert budget.spent.epsilon == 0 and answer.std == 0 and not answer.privacy.charged
    answer = call(X, epsilon=0.25, budget=budget, **more)
    assert budget.spent.epsilon == 0.25
    (charge,) = budget.charges
    assert charge.estimator == name
    assert answer.privacy.estimator == name and answer.privacy.charged
    assert answer.privacy.adjacency == adjacency
    with pytest.raises(BudgetExceededError):
        call(X, epsilon=0.8, budget=budget, **more)
    assert budget.spent.epsilon == 0.25


@each(("name", "call", "more"), CALLS, ids=IDS)
def test_seeds_repeat_and_do_not_share_noise(X, name, call, more):
    options = {"budget": UNMETERED["add_or_remove_one"], **more}
    first = call(X, random_state=3, **options)
    assert_array_equal(first, call(X, random_state=3, **options))
    assert first.privacy.seeded
    others = [call(X, random_state=seed, **options) for seed in range(4, 12)]
    assert any(not np.array_equal(first.value, other.value) for other in others)


BAD = [
    (statistics.mean, {"epsilon": 0.0}, ValueError),
    (statistics.mean, {"epsilon": "1"}, TypeError),
    (statistics.mean, {"delta": 1.0}, ValueError),
    (statistics.mean, {"bounds": (1, 0)}, ValueError),
    (statistics.mean, {"bounds": (0, 1e200)}, ValueError),
    (statistics.mean, {"bounds": "learn"}, ValueError),
    (statistics.mean, {"axis": 1}, ValueError),
    (statistics.mean, {"axis": False}, ValueError),
    (statistics.var, {"axis": None}, ValueError),
    (statistics.var, {"ddof": -1}, ValueError),
    (statistics.covariance, {"ddof": 0.5}, TypeError),
    (statistics.mean, {"nan_policy": "propagate"}, ValueError),
    (statistics.sum, {"random_state": "seed"}, ValueError),
    (statistics.histogram, {}, ValueError),
    (statistics.histogram2d, {}, ValueError),
    (statistics.histogramdd, {"bins": 0}, ValueError),
    (statistics.histogramdd, {"bins": 1000}, ValueError),
    (statistics.histogramdd, {"bins": [2, 2]}, ValueError),
    (statistics.histogramdd, {"bins": [2, 2, [1, 1]]}, ValueError),
    (statistics.histogramdd, {"bins": [2, 2, [1, np.nan]]}, ValueError),
    (statistics.histogramdd, {"bins": "auto"}, TypeError),
    (statistics.quantile, {"q": 1.5}, ValueError),
    (statistics.quantile, {"q": [0.5, 0.2]}, ValueError),
    (statistics.quantile, {"q": "half"}, TypeError),
    (statistics.median, {"step": 0.0}, ValueError),
    (statistics.median, {"step": "1"}, TypeError),
    (statistics.query_session, {"n_queries": 0}, ValueError),
    (statistics.subset_sums, {"labels": np.zeros(3), "classes": [0]}, ValueError),
    (statistics.subset_sums, {"labels": np.zeros(1500), "classes": [0, 0]}, ValueError),
    (statistics.subset_sums, {"labels": np.zeros(1500), "classes": []}, ValueError),
    (statistics.subset_sums, {"labels": None, "classes": [0]}, ValueError),
    (statistics.query_session, {"n_queries": 10**400}, ValueError),
    (statistics.count, {"random_state": "seed"}, ValueError),
]
ZEROS = np.zeros(1500)
BAD += [(statistics.subset_sums, {"labels": ZEROS, **more}, error) for more, error in [
    ({"classes": [0], "nan_policy": "propagate"}, ValueError),
    ({"classes": None}, TypeError),
    ({"classes": "01"}, TypeError),
    ({"classes": {0, 1}}, TypeError),
    ({"classes": [0, "a"]}, TypeError),
    ({"classes": [None]}, ValueError),
    ({"classes": [pd.NaT]}, ValueError),
    ({"classes": [np.nan, 0]}, ValueError),
]]  # fmt: skip


@each(("call", "options", "error"), BAD)
def test_bad_arguments_charge_nothing(X, call, options, error):
    budget = PrivacyBudget(10.0)
    with pytest.raises(error) as caught:
        call(X, **{"budget": budget, **options})
    assert any(name in str(caught.value) for name in options or ["X"])
    assert budget.spent.epsilon == 0


def test_a_budget_of_another_type_is_refused(X):
    with pytest.raises(TypeError, match="budget"):
        statistics.mean(X, budget=1.0)


SECRET = 717171.25


@each("cell", [np.nan, np.inf, "717171.25 or so", None, pd.Timestamp("2020-01-01"), 1j])
@each(("name", "call", "more"), CALLS, ids=IDS)
def test_bad_rows_charge_nothing_and_are_not_quoted(name, call, more, cell):
    budget = PrivacyBudget(10.0)
    table = np.array([[SECRET] * 3] * 4, dtype=object)
    table[2, 0] = cell
    if name == "subset_sums":
        call = lambda X, **o: statistics.subset_sums(X, [0] * 4, classes=[0], **o)  # noqa: E731
    with pytest.raises((TypeError, ValueError)) as caught:
        call(table, budget=budget, **more)
    assert "717171" not in str(caught.value) and "717171" not in str(caught.value.__context__)
    assert budget.spent.epsilon == 0
