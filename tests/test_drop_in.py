"""What scikit-learn and numpy have is here under the same names, or says why it is not."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import StandardScaler

from skdp import (
    DPPCA,
    DPKernelDensity,
    DPKMeans,
    DPMinMaxScaler,
    DPQuantileTransformer,
    DPRobustScaler,
    DPStandardScaler,
    PrivacyBudget,
    config_context,
    statistics,
)
from skdp.decomposition import Spectrum
from skdp.ensemble import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
from skdp.linear_model import DPLinearRegression, DPLogisticRegression, DPRidge
from tests.folding import each

DIGITS = load_digits().data
X = np.random.default_rng(0).normal(size=(500, 2))
NOISELESS = {"epsilon": 1e9, "delta": 1e-6}
BOX = {"bounds": (-5, 5), "random_state": 0}

# --- components ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits_of():
    return lambda k: DPPCA(k, norm_bound=80.0, **NOISELESS).fit(DIGITS)


@pytest.mark.parametrize("part", [0.5, 0.95])
def test_a_part_of_the_variance_keeps_as_many_components(digits_of, part):
    plain, private = PCA(part).fit(DIGITS), digits_of(part)
    assert private.n_components_ == plain.n_components_ == len(private.components_)
    assert private.transform(DIGITS).shape[1] == plain.n_components_
    assert private.explained_variance_ratio_.sum() > part


def test_a_part_of_no_variance_keeps_all_components():
    nothing = np.zeros(3)
    assert Spectrum(np.eye(3), nothing, nothing, 0.0, 0.0).number(0.9) == 3
    half = np.array([2.0, 1.0, 1.0])
    assert Spectrum(np.eye(3), half, half, 4.0, 0.0).number(0.5) == 2  # more than this part


def test_the_likelihood_is_scikit_learns(digits_of):
    plain, private = PCA(10).fit(DIGITS), digits_of(10)
    np.testing.assert_allclose(
        private.score_samples(DIGITS[:50]), plain.score_samples(DIGITS[:50]), rtol=1e-4
    )
    assert private.score(DIGITS) == pytest.approx(plain.score(DIGITS), rel=1e-4)


def test_a_model_without_variance_in_a_direction_has_no_likelihood():
    flat = np.column_stack([X, np.zeros(500)])
    fitted = DPPCA(norm_bound=5.0, center=0, epsilon=1e12, delta=1e-6).fit(flat)
    fitted.explained_variance_[-1] = 0.0  # noise may have left it just above
    assert np.all(fitted.score_samples(flat) == -np.inf)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("mle", ValueError, "n_resolved_"),
        (0, ValueError, "at least 1"),
        (1.0, ValueError, r"\(0, 1\)"),
        (3, ValueError, "at most 2"),
        (True, TypeError, "bool"),
    ],
)
def test_other_numbers_of_components_are_refused_before_the_charge(value, error, text):
    budget = PrivacyBudget(1.0, 1e-5)
    with pytest.raises(error, match=text):
        DPPCA(value, delta=1e-6, budget=budget).fit(X)
    assert budget.spent.epsilon == 0


# --- the penalty of a logistic regression --------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "tolerance"), [({"epsilon": 1e3}, 0.02), ({"delta": 1e-6}, 0.1)]
)
@pytest.mark.parametrize("C", [3e-4, 3e-3])
def test_C_shrinks_coefficients_as_scikit_learns_does(C, options, tolerance):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20_000, 3)) * [1.0, 2.0, 5.0]
    y = rows @ [2.0, -1.0, 0.1] + rng.logistic(size=len(rows)) > 0
    plain = LogisticRegression(C=C).fit(StandardScaler().fit_transform(rows), y)
    private = DPLogisticRegression(C=C, classes=[False, True], random_state=0, **options)
    with config_context(noise="seeded"):
        private.fit(rows, y)
    assert np.isnan(private.penalty_) == ("delta" in options)
    norm = np.linalg.norm(private.coef_ * rows.std(axis=0))
    assert norm == pytest.approx(np.linalg.norm(plain.coef_), rel=tolerance)


@pytest.mark.parametrize("weights", ["balanced", {False: 1, True: 9}])
def test_weights_of_classes_move_predictions_as_scikit_learns_do(weights):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20_000, 3))
    y = rows @ [1.0, -1.0, 0.5] + rng.logistic(size=len(rows)) > 3
    plain = LogisticRegression(class_weight=weights).fit(rows, y)
    for options in ({"epsilon": 1e3}, {"epsilon": 3.0, "delta": 1e-6}):
        model = DPLogisticRegression(class_weight=weights, classes=[False, True], **options)
        model.fit(rows, y)
        assert (model.predict(rows) == plain.predict(rows)).mean() > 0.95  # .67 without weights
    with pytest.raises(ValueError, match="labels that classes has not"):
        DPLogisticRegression(class_weight={2: 1.0}, classes=[0, 1]).fit(rows, y)


@pytest.mark.parametrize(
    "limits",
    [{"fit_intercept": False}, {"positive": True}, {"fit_intercept": False, "positive": True}],
)
def test_limits_of_coefficients_are_scikit_learns(limits):
    rng = np.random.default_rng(0)
    rows = rng.uniform(1, 10, (5000, 4))
    y = rows @ [2.0, 0.5, -1.0, 0.1] + 3 + rng.normal(size=len(rows))
    plain = LinearRegression(**limits).fit(rows, y)
    options = {"bounds": (0, 10), "target_bounds": (-10, 30), **limits}
    private = DPLinearRegression(epsilon=1e4, **options).fit(rows, y)
    np.testing.assert_allclose(private.coef_, plain.coef_, atol=0.01)
    assert private.intercept_ == pytest.approx(plain.intercept_, abs=0.05)
    np.testing.assert_allclose(private.summary().coef[:4], plain.coef_, atol=0.01)
    assert np.isnan(private.coef_std_error_).all()
    noisy = DPRidge(epsilon=0.3, **options).fit(rows, y)
    assert noisy.score(rows, y) > 0.5  # the best without noise have .78 to .96
    assert (noisy.coef_ >= 0).all() or not limits.get("positive")
    assert noisy.intercept_ == 0 or limits.get("fit_intercept", True)


# --- what is not there ---------------------------------------------------------------------------


@each(
    ("estimator", "name", "text"),
    [
        (DPKMeans(2), "labels_", "predict"),
        (DPKMeans(2), "inertia_", "private_scorer"),
        (DPStandardScaler(), "partial_fit", "skdp.engines"),
        (DPStandardScaler(), "n_samples_seen_", "may be private"),
        (DPKernelDensity(), "tree_", "score_samples"),
        (DPKMeans(2), "nothing", "no attribute 'nothing'"),
    ],
)
def test_what_is_missing_says_why_and_what_to_use(estimator, name, text):
    assert not hasattr(estimator, name)
    with pytest.raises(AttributeError, match=text):
        getattr(estimator, name)


def test_copies_ask_for_no_attribute_that_is_not_there():
    for made in (clone, copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        assert made(DPKMeans(3)).n_clusters == 3


# --- precision -----------------------------------------------------------------------------------

TRANSFORMERS = [
    DPKMeans(2, **BOX), DPMinMaxScaler(bounds=(-5, 5)), DPPCA(1, random_state=0),
    DPQuantileTransformer(n_quantiles=5, **BOX), DPRobustScaler(**BOX), DPStandardScaler(**BOX),
]  # fmt: skip


@each("estimator", TRANSFORMERS, ids=lambda one: type(one).__name__)
def test_float32_comes_back_as_float32(estimator):
    narrow = X.astype(np.float32)
    fitted = clone(estimator).fit(narrow)
    once = fitted.transform(narrow)
    assert once.dtype == np.float32
    assert fitted.transform(X).dtype == np.float64
    if hasattr(fitted, "inverse_transform"):
        assert fitted.inverse_transform(once).dtype == np.float32


@pytest.mark.parametrize(
    "estimator",
    [one for one in TRANSFORMERS if hasattr(one, "bounds") and "Scaler" in type(one).__name__],
    ids=lambda one: type(one).__name__,
)
def test_float16_comes_back_from_scalers_as_from_those_of_scikit_learn(estimator):
    narrow = X.astype(np.float16)
    fitted = clone(estimator).fit(narrow)
    once = fitted.transform(narrow)
    assert once.dtype == np.float16 == StandardScaler().fit_transform(narrow).dtype
    assert fitted.inverse_transform(once).dtype == np.float16
    np.testing.assert_allclose(once, fitted.transform(narrow.astype(float)), rtol=1e-2, atol=1e-2)
    assert np.isfinite(DPMinMaxScaler((0, 1e6), bounds=(0, 1)).fit(narrow).transform(narrow)).all()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_float32_of_frames_comes_back(frame):
    narrow = X.astype(np.float32)
    columns = {"a": narrow[:, 0], "b": narrow[:, 1]}
    fitted = DPStandardScaler(**BOX).fit(frame(columns))
    assert fitted.transform(frame(columns)).dtype == np.float32
    assert fitted.transform(frame(columns | {"b": X[:, 1]})).dtype == np.float64


def test_a_number_beyond_float32_stays_finite():
    narrow = np.array([[3e38], [-3e38]], dtype=np.float32)
    fitted = DPMinMaxScaler((0, 1000), bounds=(0, 1)).fit(X[:, :1])
    assert np.isfinite(fitted.transform(narrow)).all()


# --- densities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["scott", "silverman"])
@pytest.mark.parametrize("columns", [1, 2])
def test_bandwidths_by_rule_are_scikit_learns(rule, columns):
    rows = X[:, :columns]
    fitted = DPKernelDensity(bandwidth=rule, delta=1e-6, **BOX).fit(rows)
    # Of two columns the grid has too many centres for the rule.
    assert fitted.bandwidth_ >= KernelDensity(bandwidth=rule).fit(rows).bandwidth_ * (1 - 1e-12)
    assert fitted.privacy_.delta == 1e-6
    if columns == 1:
        assert fitted.bandwidth_ == pytest.approx(
            KernelDensity(bandwidth=rule).fit(rows).bandwidth_
        )


# --- statistics ----------------------------------------------------------------------------------


@each("name", ["mean", "sum", "std", "var", "median", "count_nonzero"])
@each("keepdims", [True, False])
@each("table", [X, X[:, 0]], ids=["two columns", "flat"])
def test_shapes_are_numpys(name, keepdims, table):
    options = {} if name == "count_nonzero" else {"bounds": (-5, 5)}
    for axis in (0, None) if name in ("mean", "sum", "count_nonzero") else (0,):
        found = getattr(statistics, name)(table, axis=axis, keepdims=keepdims, **options)
        shape = np.shape(getattr(np, name)(table, axis=axis, keepdims=keepdims))
        assert found.shape == np.shape(found.std) == shape


@each("q", [50, [25, 75]])
@each("keepdims", [True, False])
@each("table", [X, X[:, 0]], ids=["two columns", "flat"])
def test_percentiles_are_quantiles_of_numpys_shape(q, keepdims, table):
    found = statistics.percentile(table, q, keepdims=keepdims, bounds=(-5, 5), epsilon=1e4)
    plain = np.percentile(table, q, axis=0, keepdims=keepdims)
    assert found.shape == np.shape(plain)
    np.testing.assert_allclose(found.value, plain, atol=0.05)


@pytest.mark.parametrize("q", [101, -1, "a", [[50]], [np.nan]])
def test_percentages_outside_are_refused(q):
    with pytest.raises(ValueError, match="q must be percentages"):
        statistics.percentile(X, q, bounds=(-5, 5))


def test_a_density_is_numpys():
    found, edges = statistics.histogram(X[:, 0], 6, range=(-3, 3), density=True, epsilon=1e6)
    plain, same = np.histogram(X[:, 0], 6, range=(-3, 3), density=True)
    np.testing.assert_allclose(found.value, plain, atol=1e-4)
    np.testing.assert_array_equal(edges, same)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (0.5, 1e-6)])
def test_intervals_of_densities_cover(epsilon, delta):
    """95% of 600; below 520 of them once in a million (binomial), at other seeds."""
    plain, _ = np.histogram(X[:, 0], 6, range=(-3, 3), density=True)
    covered = 0
    for _ in range(100):
        options = {"epsilon": epsilon, "delta": delta}
        found, _ = statistics.histogram(X[:, 0], 6, range=(-3, 3), density=True, **options)
        low, high = found.interval()
        covered += int(np.sum((low <= plain) & (plain <= high)))  # NaN covers nothing
    assert covered >= 520


def test_a_density_of_few_rows_has_no_error():
    found, _ = statistics.histogram(X[:3, 0], 6, range=(-3, 3), density=True, epsilon=0.1)
    assert np.isnan(found.std).all()


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_categories_are_counted_in_the_order_given(relation):
    budget = PrivacyBudget(1e6, adjacency=relation)
    labels = np.array(["late", "on time", "on time", "lost"] * 50)
    options = {"categories": ["on time", "late", "never"], "budget": budget, "epsilon": 1e5}
    found, names = statistics.histogram(labels, **options)
    np.testing.assert_allclose(found.value, [100, 50, 0], atol=0.1)
    assert names.tolist() == ["on time", "late", "never"]
    part, _ = statistics.histogram(pd.Series(labels), density=True, **options)
    np.testing.assert_allclose(part.value, [2 / 3, 1 / 3, 0], atol=0.01)
    assert budget.spent.epsilon == 2e5


def test_expected_errors_of_categories_are_those_of_counts():
    options = {"epsilon": 1.0, "categories": ["a", "b"], "n_rows": "public"}
    expected = statistics.expected_error("histogram", 100, **options)
    found, _ = statistics.histogram(np.array(["a", "b"] * 50), **options)
    np.testing.assert_allclose(expected, found.std)
    with pytest.raises(ValueError, match="density"):
        statistics.expected_error("histogram", 100, bounds=(0, 1), density=True)
    np.testing.assert_array_equal(
        statistics.expected_error("histogram", 100, range=(0, 1)),
        statistics.expected_error("histogram", 100, bounds=(0, 1)),
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"range": (0, 1), "bounds": (0, 1)}, "range and bounds"),
        ({"categories": "ab"}, "categories must be a sequence"),
        ({"categories": ["a", "a"]}, "categories must be a sequence"),
        ({"density": 1}, "density must be True or False"),
    ],
)
def test_bad_arguments_of_histograms_are_refused_before_the_charge(options, text):
    budget = PrivacyBudget(1.0)
    with pytest.raises((TypeError, ValueError), match=text):
        statistics.histogram(np.array(["a", "b"]), budget=budget, **options)
    assert budget.spent.epsilon == 0


# --- progress ------------------------------------------------------------------------------------


class Log:
    """Writes down which tasks begin and end."""

    def __init__(self):
        self.events, self.passed = [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, **passed):
        self.passed += passed.values()
        self.events.append(("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator, context, **passed):
        self.passed += passed.values()
        self.events.append(("end", context.task_name, context.task_id))


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(DPLogisticRegression, "set_callbacks"), reason="scikit-learn before 1.9"
)
@pytest.mark.parametrize(
    ("kind", "stated"),
    [
        (DPExplainableBoostingClassifier, {"classes": [False, True]}),
        (DPExplainableBoostingRegressor, {"target_bounds": (0, 1)}),
    ],
)
def test_callbacks_are_told_how_many_steps_are_done(kind, stated):
    """Of the plan, of released numbers; nothing is passed on, and nothing is left behind."""
    rows, labels = X[:200], X[:200, 0] > 0
    for table in (rows, np.zeros_like(rows)):
        model = kind(bounds=(-5, 5), budget=PrivacyBudget(1e3, 0.5), **stated)
        model.set_callbacks(log := Log()).fit(table, labels)
        n = log.events[2][2]
        steps = [one for i in range(n) for one in (("begin", "step", 0), ("end", "step", i))]
        assert log.events == [
            "setup", ("begin", "fit", 1), ("begin", "steps", n), *steps,
            ("end", "steps", 0), ("end", "fit", 0), "teardown",
        ]  # fmt: skip
        assert all(one is None for one in log.passed)
        assert n > 1
        log.events.clear()
        model.expected_error(5, like=(table[:9], labels[:9]))
        assert log.events == []
        model.set_callbacks().fit(table, labels)
        assert not [name for name in vars(model) if "callback" in name]


# --- sparse tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_components_of_sparse_rows_are_those_of_the_dense_table(kind):
    """To the last bit: the same chunks are read, under the same noise."""
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.2, size=(3000, 60)).astype(float)
    table = kind(dense)
    model = DPPCA(3, norm_bound=8.0, epsilon=1.0, random_state=0)
    with config_context(noise="seeded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = clone(model).fit(dense), clone(model).fit(table)
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_allclose(one.transform(dense), other.transform(table))
    np.testing.assert_allclose(one.score_samples(dense), other.score_samples(table))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array])
def test_coefficients_of_sparse_rows_are_those_of_the_dense_table(kind):
    """To the last bit, with stated and with learned bounds, of rows of units too."""
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.2, size=(3000, 30)).astype(float)
    table, y = kind(dense), dense @ rng.normal(size=30) + rng.normal(size=3000)
    stated = DPRidge(bounds=(0, 4), target_bounds=(-9, 9), delta=1e-6, random_state=0)
    with config_context(noise="seeded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, groups in (
            (stated, None),
            (stated, np.repeat(np.arange(1500), 2)),
            (DPLinearRegression(random_state=0), None),
        ):
            one = clone(model).fit(dense, y, groups=groups)
            other = clone(model).fit(table, y, groups=groups)
            np.testing.assert_array_equal(one.coef_, other.coef_)
            np.testing.assert_array_equal(one.coef_std_error_, other.coef_std_error_)
            np.testing.assert_allclose(one.predict(dense), other.predict(table))
            np.testing.assert_allclose(one.score(dense, y), other.score(table, y))


def test_sparse_rows_of_units_are_cut_like_others():
    table = sparse.csr_array(np.eye(6)[np.repeat(np.arange(6), 4)])
    budget = PrivacyBudget(2.0, unit="user")
    fitted = DPPCA(1, norm_bound=2.0, budget=budget, max_rows_per_unit=2)
    assert fitted.fit(table, groups=np.repeat(np.arange(6), 4)).max_rows_per_unit_ == 2


@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        (sparse.csr_array([[np.nan, 1.0]]), ValueError, "finite"),
        (sparse.csr_array([[1j, 1.0]]), ValueError, "Complex"),
        (sparse.csr_array((0, 2)), ValueError, "0 sample"),
        (sparse.csr_array((2, 9000)), ValueError, "at most 8192"),
        (sparse.coo_array(([1.7e308, 1.7e308], ([0, 0], [0, 0]))), ValueError, "finite"),
    ],
)
def test_bad_sparse_rows_are_refused_before_the_charge(bad, error, text):
    budget = PrivacyBudget(1.0)
    with pytest.raises(error, match=text):
        DPPCA(1, budget=budget).fit(bad)
    with pytest.raises(error, match=text):
        DPRidge(budget=budget).fit(bad, np.zeros(bad.shape[0]))
    with pytest.raises(TypeError, match="does not support sparse"):
        DPKMeans(2, budget=budget).fit(sparse.eye(3))
    assert budget.spent.epsilon == 0
