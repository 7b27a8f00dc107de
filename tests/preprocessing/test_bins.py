"""`DPKBinsDiscretizer`: bins as scikit-learn has them, from released edges alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from skdp import DPKBinsDiscretizer, DPKMeans, DPStandardScaler, PrivacyBudget
from skdp.audit import replay_check
from skdp.model_selection import search_cost
from tests.folding import each

NOISELESS = 1e6


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.uniform(-3, 3, 2000), rng.exponential(20, 2000)])


@each("strategy", ["uniform", "quantile"])
def test_it_warns_where_rows_are_too_few(strategy):
    ages = np.random.default_rng(0).normal(50, 10, (10_000, 1))
    bins = DPKBinsDiscretizer(5, strategy=strategy)
    with pytest.warns(UserWarning, match="DPKBinsDiscretizer: .*: rows are too few"):
        bins.fit(ages[:50])
    with warnings.catch_warnings(action="error"):
        bins.fit(ages)


@each("encode", ["onehot-dense", "onehot", "ordinal"])
@each("strategy", ["uniform", "quantile", "kmeans"])
def test_without_noise_it_is_scikit_learns(X, encode, strategy):
    bounds = (X.min(axis=0), X.max(axis=0))
    options = {"encode": encode, "strategy": strategy}
    ours = DPKBinsDiscretizer(4, bounds=bounds, epsilon=NOISELESS, **options).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its next version's quantiles
        theirs = KBinsDiscretizer(4, **options).fit(X)
    for mine, other in zip(ours.bin_edges_, theirs.bin_edges_, strict=True):
        assert mine == pytest.approx(other, abs=0.2)
    a, b = ours.transform(X), theirs.transform(X)
    assert sparse.issparse(a) == sparse.issparse(b) == (encode == "onehot")
    assert abs(a - b).mean() < 0.01
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert ours.get_feature_names_out(["a", "b"]).tolist() == (
        theirs.get_feature_names_out(["a", "b"]).tolist()
    )
    again = ours.transform(ours.inverse_transform(a))
    assert abs(again - a).max() == 0


@each("strategy", ["quantile", "kmeans"])
@each("weight_bound", ["private", 3.0])
@each("epsilon", [1.0, NOISELESS])
def test_weighted_rows_are_as_many_as_their_weights_say(strategy, weight_bound, epsilon):
    rng = np.random.default_rng(0)
    X = rng.normal(rng.choice([-5.0, 0.0, 6.0], 20_000), 1.0)[:, None]
    weights = np.where(X[:, 0] < 3, 1.0, rng.uniform(0.0, 3.0, 20_000))
    options = {"encode": "ordinal", "strategy": strategy}
    budget = PrivacyBudget(epsilon)
    ours = DPKBinsDiscretizer(
        3, bounds=(-10, 10), weight_bound=weight_bound, epsilon=epsilon, budget=budget, **options
    ).fit(X, sample_weight=weights)
    theirs = KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf", **options)
    theirs.fit(X, sample_weight=weights)
    off = 0.3 if epsilon == 1.0 else 0.05
    assert ours.bin_edges_[0][1:-1] == pytest.approx(theirs.bin_edges_[0][1:-1], abs=off)
    assert budget.spent.epsilon == pytest.approx(epsilon)


def test_stated_equal_widths_are_free_and_others_not(X):
    free = DPKBinsDiscretizer(3, strategy="uniform", bounds=(0, 3))
    assert free.privacy_cost() is None
    assert free.expected_error(100, 2) == 0
    assert free.fit(X).privacy_.epsilon == 0
    assert DPKBinsDiscretizer(3).privacy_cost().epsilon == 1
    budget = PrivacyBudget(1.0)
    fitted = DPKBinsDiscretizer(3, strategy="uniform", budget=budget).fit(X)
    assert budget.spent.epsilon == fitted.privacy_.epsilon == 1.0


def test_values_of_many_rows_are_one_edge_and_it_is_said():
    rng = np.random.default_rng(1)
    money = np.where(rng.random(4000) < 0.6, 0.0, rng.lognormal(3, 1, 4000))
    X = np.column_stack([money, rng.random(4000) < 0.3])
    with pytest.warns(UserWarning, match="fewer than n_bins"):
        bins = DPKBinsDiscretizer(4, bounds=(0, 1000), encode="ordinal", epsilon=20.0).fit(X)
    assert bins.n_bins_.tolist() == [2, 2]
    assert set(bins.transform(X)[:, 1][X[:, 1] == 1]) == {1}
    assert set(bins.transform(X)[:, 1][X[:, 1] == 0]) == {0}
    with pytest.warns(UserWarning, match=r"columns 1 have fewer .* histogram shows fewer values"):
        DPKBinsDiscretizer(4, strategy="kmeans", bounds=(0, 1000), epsilon=20.0).fit(X)


def test_columns_with_numbers_of_bins_of_their_own():
    X = np.random.default_rng(1).random((4000, 4)) * [1, 1, 2, 3]
    options = {"encode": "ordinal", "bounds": ([0] * 4, [1, 1, 2, 3]), "epsilon": 4.0}
    bins = DPKBinsDiscretizer([2, 2, 5, 3], **options).fit(X)
    assert bins.n_bins_.tolist() == [2, 2, 5, 3]
    for column, size in zip(bins.transform(X).T.astype(int), [2, 2, 5, 3], strict=True):
        np.testing.assert_allclose(np.bincount(column) / 4000, 1 / size, atol=0.03)
    assert sum(r.epsilon for r in bins.privacy_.releases) == pytest.approx(4.0)
    other = np.zeros((4000, 4))
    replay_check(DPKBinsDiscretizer([2, 2, 5, 3], **options), X, other)
    for bad, text in (([2, 3], "array of shape"), ([2, 1, 3, 2.5], "at indices 1, 3")):
        with pytest.raises(ValueError, match=text):
            DPKBinsDiscretizer(bad).fit(X)
    even = DPKBinsDiscretizer([2, 4], strategy="uniform", bounds=(0, 1)).fit(X[:, :2])
    assert even.n_bins_.tolist() == [2, 4]


def test_a_column_without_width_is_one_bin():
    with pytest.warns(UserWarning, match="is constant"):
        bins = DPKBinsDiscretizer(3, strategy="uniform", bounds=([2, 0], [2, 1])).fit(np.eye(2))
    assert bins.n_bins_.tolist() == [1, 3]
    assert bins.transform([[5.0, 0.5]]).tolist() == [[1, 0, 1, 0]]
    assert bins.inverse_transform([[1, 0, 1, 0]]).tolist() == [[0, 0.5]]
    with pytest.raises(ValueError, match="one bin of each column"):
        bins.inverse_transform([[1, 0, 0, 0]])
    with pytest.raises(ValueError, match="Expected 4 columns"):
        bins.inverse_transform([[1, 0]])


def test_it_is_a_step_with_a_price(X):
    pytest.importorskip("pandas")
    budget = PrivacyBudget(10.0)
    columns = ColumnTransformer(
        [
            ("bins", DPKBinsDiscretizer(3, bounds=(0, 99), budget=budget), [1]),
            ("scaled", DPStandardScaler(bounds=(-3, 3), budget=budget), [0]),
        ]
    ).set_output(transform="pandas")
    table = columns.fit_transform(X)
    assert list(table)[:3] == ["bins__x1_0.0", "bins__x1_1.0", "bins__x1_2.0"]
    assert budget.spent.epsilon == 2.0
    pipe = make_pipeline(DPKBinsDiscretizer(3, epsilon=0.5), DPKMeans(2, epsilon=0.25))
    search = GridSearchCV(pipe, {"dpkmeans__n_clusters": [2, 3]}, cv=2, refit=False)
    assert search_cost(search, 100).epsilon == pytest.approx(4 * 0.75)


@each(
    ("options", "named"),
    [
        ({"n_bins": 1}, "n_bins"),
        ({"encode": "sparse"}, "encode"),
        ({"strategy": "means"}, "strategy"),
        ({"step": -1.0}, "step"),
        ({"prior": "log", "step": 1.0}, "step"),
        ({"bounds": (0, 0.5), "step": 3.0}, None),
        ({"bounds": (0.1, 0.5), "step": 3.0}, "step"),
    ],
)
def test_what_is_refused_costs_nothing(X, options, named):
    budget = PrivacyBudget(10.0)
    bins = DPKBinsDiscretizer(budget=budget, **options)
    if named is None:
        with pytest.warns(UserWarning, match="fewer"):
            bins.fit(X)
        return
    with pytest.raises((ValueError, TypeError), match=named):
        bins.fit(X)
    assert budget.spent.epsilon == 0


def test_learned_bins_of_equal_width_do_not_end_far_beyond_the_rows():
    """Learned bounds did: the first bin had all but 5% of the rows in half of these columns."""
    X = np.random.default_rng(0).gamma(2.0, 3.0, size=(1000, 3)) * [1e-3, 1.0, 1e3]
    for _ in range(4):
        bins = DPKBinsDiscretizer(strategy="uniform", encode="ordinal", epsilon=30.0).fit(X)
        for column in bins.transform(X).T:
            assert np.bincount(column.astype(int)).max() < 900
