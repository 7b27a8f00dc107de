"""`compare`: intervals of differences cover, p-values are uniform where nothing differs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skdp import PrivacyBudget, statistics
from skdp.aggregation import DPGroupBy
from skdp.statistics._compare import _holm
from tests.folding import each


def mean(x, **options):
    return statistics.mean(x, bounds=(-5, 5), intervals=True, **options)


@each("epsilon", [0.3, 10.0])
@pytest.mark.statistical
def test_intervals_cover_and_p_values_are_uniform(epsilon):
    """Of 300 differences 95% intervals leave out at most 27, by chance with a probability of .001.

    Where noise is most of the error, intervals for Laplace noise are too wide. Halved intervals
    leave out a third.
    """
    rng, out, p = np.random.default_rng(0), 0, []
    for i in range(300):
        a, b = (
            mean(rng.normal(m, 1, 500), epsilon=epsilon, random_state=2 * i + k)
            for k, m in enumerate((0.5, 0.2))
        )
        found = statistics.compare(a, b)
        out += not found.low[0] <= 0.3 <= found.high[0]
        equal = mean(rng.normal(0.2, 1, 500), epsilon=epsilon, random_state=10**6 + i)
        p.append(statistics.compare(equal, b).p_value[0])
    assert out <= 27
    assert np.mean(np.array(p) < 0.05) <= 27 / 300
    if epsilon == 10.0:
        assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_where_sampling_is_all_it_is_welch_s_test():
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 1, 4000), rng.normal(0.05, 2, 3000)
    found = statistics.compare(mean(x, epsilon=1e6), mean(y, epsilon=1e6))
    exact = stats.ttest_ind(np.clip(x, -5, 5), np.clip(y, -5, 5), equal_var=False)
    assert found.p_value[0] == pytest.approx(exact.pvalue, rel=0.02)
    low, high = exact.confidence_interval(0.95)
    assert (found.low[0], found.high[0]) == pytest.approx((low, high), rel=0.02)


def test_all_groups_of_a_group_by_are_compared():
    rng, n = np.random.default_rng(0), 6000
    table = pd.DataFrame({"g": rng.choice(list("abc"), n), "who": np.arange(n)})
    table["x"] = rng.normal(5, 1, n) + (table["g"] == "c")
    budget = PrivacyBudget(3, adjacency="add_or_remove_one", unit="who")
    by = DPGroupBy(
        "g", "who", keys=["a", "b", "c"], bounds={"x": (0, 10)}, max_keys_per_unit=1,
        max_rows_per_unit=1, epsilon=2.0, budget=budget,
    )  # fmt: skip
    means = by.agg(m=("mean", "x")).fit(table).released_["m"]
    found = statistics.compare(means)
    pairs = list(zip(found.first, found.second, strict=True))
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    assert found.p_value[1:].max() < 1e-3 < found.p_value[0]
    alone = statistics.compare(means, correction=None)
    assert (found.high - found.low > alone.high - alone.low).all()
    assert (found.p_value >= alone.p_value).all()
    assert found.to_frame().shape == (3, 6) and "a - c" in repr(found)


def test_rows_at_hand_differ_by_noise_alone():
    x = np.random.default_rng(0).normal(size=(2000, 2))
    both = statistics.mean(x, bounds=(-5, 5), epsilon=1.0)
    found = statistics.compare(both, of="rows")
    low, high = (both[0] - both[1]).interval()
    assert (found.low[0], found.high[0]) == (low, high)
    with pytest.raises(ValueError, match="same rows"):
        statistics.compare(mean(x))
    with pytest.raises(ValueError, match="intervals=True"):
        statistics.compare(both[0], statistics.mean(x[:, 0], bounds=(-5, 5)))


def test_refusals():
    one = mean(np.zeros(50))
    for arguments in ((one,), (one, mean(np.zeros((50, 2))))):
        with pytest.raises(ValueError, match="compare"):
            statistics.compare(*arguments)
    with pytest.raises(TypeError, match="second must be Released, got float"):
        statistics.compare(one, 0.5)
    with pytest.raises(ValueError, match="correction"):
        statistics.compare(one, one, correction="none")


def test_holm_is_that_of_the_paper():
    p = np.array([0.01, np.nan, 0.04, 0.03, 0.005])
    corrected = _holm(p)
    np.testing.assert_allclose(corrected, [0.04, np.nan, 0.09, 0.09, 0.025])
