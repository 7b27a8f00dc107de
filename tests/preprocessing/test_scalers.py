"""The scalers against scikit-learn's, and against what they promise themselves.

Oracles: scikit-learn's scalers on the same rows at an epsilon so large that noise is below the
kernel's grid.
"""

from __future__ import annotations

import json
import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from skdp import PrivacyBudget
from skdp.budget.budget import StandInBudget
from skdp.core.transcript import record, replay
from skdp.preprocessing import DPMinMaxScaler, DPRobustScaler, DPStandardScaler
from skdp.quantile import DPMedian, DPQuantile
from tests.folding import each

ADJACENCIES = ("replace_one", "add_or_remove_one")
NOISELESS = 1e12
LOW, HIGH = np.array([-60.0, 0.0, -1e-3, 1e6]), np.array([300.0, 24.0, 1e-3, 3e6])

UNMETERED = {adjacency: StandInBudget(adjacency) for adjacency in ADJACENCIES}


@pytest.fixture(scope="module")
def X():
    """Rows within LOW and HIGH, columns of very different scales."""
    rng = np.random.default_rng(0)
    return LOW + (HIGH - LOW) * rng.beta([2, 5, 3, 1], [5, 2, 3, 1], size=(2000, 4))


# --- without noise ------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_standard_scaler_without_noise_is_scikit_learns(X, adjacency, delta):
    scaler = DPStandardScaler(
        bounds=(LOW, HIGH), epsilon=NOISELESS, delta=delta, budget=UNMETERED[adjacency]
    ).fit(X)
    oracle = StandardScaler().fit(X)
    half = (HIGH - LOW) / 2
    assert_allclose(scaler.mean_ / half, oracle.mean_ / half, rtol=0, atol=2**-16)
    assert_allclose(scaler.var_ / half**2, oracle.var_ / half**2, rtol=0, atol=2**-15)
    assert_allclose(scaler.scale_, oracle.scale_, rtol=1e-3)
    assert_allclose(scaler.transform(X), oracle.transform(X), atol=2e-3)
    assert_allclose(scaler.inverse_transform(oracle.transform(X)) / half, X / half, atol=1e-3)
    assert scaler.n_samples_ == pytest.approx(2000)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_standard_scaler_without_noise_and_bounds(X, delta):
    scaler = DPStandardScaler(epsilon=NOISELESS, delta=delta).fit(X)
    low, high = scaler.bounds_
    assert np.all(low <= X.min(axis=0))
    assert np.all(high >= X.max(axis=0))
    error = (scaler.mean_ - X.mean(axis=0)) / (high - low)
    assert np.abs(error).max() < 2**-16
    error = (scaler.var_ - X.var(axis=0)) / (high - low) ** 2
    assert np.abs(error).max() < 2**-17


@pytest.mark.parametrize("feature_range", [(0, 1), (-3, 7)])
@pytest.mark.parametrize("clip", [False, True])
def test_minmax_scaler_with_bounds_is_scikit_learns(X, feature_range, clip):
    scaler = DPMinMaxScaler(feature_range, clip=clip, bounds=(LOW, HIGH)).fit(X)
    oracle = MinMaxScaler(feature_range, clip=clip).fit(np.stack([LOW, HIGH]))
    for name in ("data_min_", "data_max_", "data_range_", "scale_", "min_"):
        assert_allclose(getattr(scaler, name), getattr(oracle, name), rtol=1e-12, err_msg=name)
    beyond = 1.5 * X
    assert_allclose(scaler.transform(beyond), oracle.transform(beyond), rtol=1e-9, atol=1e-9)
    assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_minmax_scaler_without_noise_and_bounds(X, adjacency, delta):
    scaler = DPMinMaxScaler(epsilon=NOISELESS, delta=delta, budget=UNMETERED[adjacency]).fit(X)
    cell = (scaler.bounds_[1] - scaler.bounds_[0]) / 4096
    assert np.all(np.abs(scaler.data_min_ - X.min(axis=0)) <= 1.01 * cell)
    assert np.all(np.abs(scaler.data_max_ - X.max(axis=0)) <= 1.01 * cell)
    assert_allclose(scaler.transform(X), MinMaxScaler().fit_transform(X), atol=0.01)


def test_range_of_a_column_that_is_nearly_always_zero():
    """Both quantiles are 0 in half of the fits: the range was 1/4096, so that ones became 4096."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(6500) < 250, rng.normal(size=(6500, 9))])
    for seed in range(10):
        scaler = DPMinMaxScaler(delta=0.0, random_state=seed).fit(X)
        assert np.abs(scaler.transform(X)[:, 0]).max() < 1000


def test_bounds_of_few_rows_hold_them():
    """With a fifth of the allowance, two of three ranges were far off (n epsilon 300 a column)."""
    X = np.random.default_rng(0).normal(size=(3000, 10))
    for seed in range(4):
        scaler = DPMinMaxScaler(delta=0.0, random_state=seed).fit(X)
        exact = np.ptp(np.quantile(X, [scaler.q_, 1 - scaler.q_], axis=0), axis=0)
        far = np.abs(np.log(scaler.data_range_ / exact)) > np.log(3.0)
        assert far.sum() <= 1


@pytest.mark.parametrize("q", [0.0102, 0.2002, 0.3701])  # 2000 q is no whole number
def test_minmax_scaler_releases_the_quantiles_asked_for(X, q):
    m = DPMinMaxScaler(q=q, epsilon=NOISELESS).fit(X)
    cell = (m.bounds_[1] - m.bounds_[0]) / 4096
    assert m.q_ == q
    lower = np.quantile(X, q, axis=0, method="inverted_cdf")
    upper = np.quantile(X, 1 - q, axis=0, method="inverted_cdf")
    # From the cell of the quantile to its outer edge; rounding may move a value by 1% of a cell.
    off = 0.01 * cell
    assert np.all((m.data_min_ - off <= lower) & (lower <= m.data_min_ + cell + off))
    assert np.all((m.data_max_ - cell - off <= upper) & (upper <= m.data_max_ + off))


def test_values_beyond_the_bounds_are_clipped_in_fit_only():
    X = np.array([[-100.0], [0.0], [0.0], [100.0]])
    scaler = DPStandardScaler(bounds=(0, 1), epsilon=NOISELESS).fit(X)
    assert_allclose(scaler.mean_, 0.25, atol=1e-4)
    assert_allclose(scaler.var_, 0.1875, atol=1e-4)
    assert_allclose(scaler.transform(X)[3], (100 - 0.25) / np.sqrt(0.1875), rtol=1e-3)


@pytest.mark.parametrize(("with_mean", "with_std"), [(True, False), (False, True), (False, False)])
def test_with_mean_and_with_std(X, with_mean, with_std):
    names = {"with_mean": with_mean, "with_std": with_std}
    scaler = DPStandardScaler(**names, bounds=(LOW, HIGH), epsilon=NOISELESS).fit(X)
    oracle = StandardScaler(**names).fit(X)
    for name in ("mean_", "var_", "scale_"):
        assert (getattr(scaler, name) is None) == (getattr(oracle, name) is None), name
    width = 1.0 if with_std else HIGH - LOW
    assert_allclose(scaler.transform(X) / width, oracle.transform(X) / width, rtol=1e-3, atol=1e-3)
    assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, rtol=1e-12)


# --- what depends on private values never raises -----------------------------------------------


def containers():
    """Yield (name, table) of every kind of column and table."""
    values = np.random.default_rng(0).integers(0, 2, size=(20, 3))
    yield "float32", values.astype(np.float32)
    yield "float16", values.astype(np.float16)
    yield "int8", values.astype(np.int8)
    yield "uint64", values.astype(np.uint64) * np.uint64(2**63)
    yield "bool", values.astype(bool)
    yield "list", values.tolist()
    yield "fortran", np.asfortranarray(values, dtype=float)
    yield "pandas", pd.DataFrame(values, columns=list("abc"))
    yield "pandas nullable", pd.DataFrame(values, columns=list("abc")).astype("Int64")
    yield "pandas boolean", pd.DataFrame(values, columns=list("abc")).astype("boolean")
    yield "polars", pl.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]})
    yield "pyarrow", pa.table({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [1, 0, 1]})
    yield "one row", np.array([[1.0, 2.0, 3.0]])
    yield "one cell", np.array([[1.0]])
    yield "huge", np.array([[1e308, -1e308, 0.0], [-1e308, 1e308, 1e308]])
    yield "tiny", np.array([[5e-324, 0.0, -5e-324]] * 20)
    yield "zeros", np.zeros((20, 3))
    yield "constant", np.full((1000, 2), 7.5)
    yield "wide", np.ones((3, 200))


ESTIMATORS = [
    DPStandardScaler(),
    DPStandardScaler(bounds=(0, 1)),
    DPStandardScaler(bounds=(2, 2)),
    DPStandardScaler(bounds=(-1e308, 1e308)),
    DPStandardScaler(bounds=(0, 5e-324)),
    DPMinMaxScaler(),
    DPMinMaxScaler((-1e308, 1e308), clip=True),
    DPMinMaxScaler(q=0.4),
    DPMinMaxScaler(bounds=(2, 2)),
    DPMinMaxScaler(bounds=(-1e308, 1e308)),
    DPMinMaxScaler(bounds=(0, 5e-324)),
]


_NO_NUMBERS = ("privacy_", "feature_names_in_", "q_", "weight_bound_")


@pytest.mark.filterwarnings(
    "error", "ignore:DPStandardScaler. bounds were learned", "ignore:.*rows are too few for this"
)
@each("table", [pytest.param(t, id=name) for name, t in containers()])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_no_rows_make_it_fail(estimator, table):
    for adjacency in ADJACENCIES:
        for privacy in ({"epsilon": 1e-6}, {"epsilon": 2.0, "delta": 1e-9}, {"epsilon": 1e9}):
            scaler = (
                clone(estimator).set_params(**privacy, budget=StandInBudget(adjacency)).fit(table)
            )
            for name, value in vars(scaler).items():
                # Errors are NaN where learned bounds say nothing of what they clip.
                if "_std_error_" in name and scaler.bounds == "private":
                    assert np.all(np.isnan(value) | (np.isfinite(value) & (value >= 0))), name
                elif name.endswith("_") and name not in _NO_NUMBERS:
                    assert np.all(np.isfinite(np.asarray(value, dtype=float))), name
            assert np.all(scaler.scale_ > 0)
            out = scaler.transform(table)
            assert not np.isnan(out).any()
            back = scaler.inverse_transform(np.clip(out.astype(float), -1e300, 1e300))
            assert not np.isnan(back).any()


@pytest.mark.parametrize("epsilon", [0.01, 1.0, NOISELESS])
def test_no_column_is_divided_by_noise(epsilon):
    X = np.full((500, 6), 3.0)
    scaler = DPStandardScaler(bounds=(0, 10), epsilon=epsilon, delta=1e-6).fit(X)
    half = 5.0
    floor = np.clip(scaler.var_std_error_ / half**2, 2**-28, 1 / 3)
    assert np.all(scaler.scale_ >= half * np.sqrt(floor) * (1 - 1e-12))
    assert np.all(scaler.scale_ <= half)
    assert np.all(scaler.var_ >= 0)
    # A constant column stays small: within noise of zero, over a scale that noise set.
    if epsilon >= 1.0:
        assert np.abs(scaler.transform(X)).max() < 1.5


def test_bounds_of_zero_width():
    X = np.column_stack([np.full(50, 4.0), np.arange(50.0)])
    scaler = DPStandardScaler(bounds=([4, 0], [4, 49]), epsilon=NOISELESS).fit(X)
    assert scaler.mean_[0] == 4
    assert scaler.scale_[0] == 1
    assert scaler.mean_std_error_[0] == 0
    assert_allclose(scaler.scale_[1], X[:, 1].std(), rtol=1e-3)
    minmax = DPMinMaxScaler(bounds=([4, 0], [4, 49])).fit(X)
    oracle = MinMaxScaler().fit(X)
    assert_allclose(minmax.scale_, oracle.scale_)
    assert_allclose(minmax.transform(X), oracle.transform(X))


# --- price and certificate ----------------------------------------------------------------------


@each("adjacency", ADJACENCIES)
@each("delta", [0.0, 1e-6])
@each("estimator", [DPStandardScaler(), DPMinMaxScaler()], ids=repr)
def test_one_charge_of_the_stated_price(X, estimator, delta, adjacency):
    budget = PrivacyBudget(1.0, 1e-5, adjacency=adjacency)
    scaler = clone(estimator).set_params(epsilon=0.25, delta=delta, budget=budget)
    most, price = scaler.privacy_cost(), scaler.privacy_cost(n_features=X.shape[1])
    assert (most.epsilon, most.delta) == (0.25, delta)
    scaler.fit(X)
    assert len(budget.charges) == 1
    assert budget.charges[0].cost == price == scaler.privacy_cost()
    certificate = scaler.privacy_
    assert (certificate.epsilon, certificate.delta) == (0.25, price.delta)
    assert price.delta in (0.0, delta)
    assert certificate.adjacency == adjacency
    assert certificate.charged
    assert sum(r.share for r in certificate.releases) == pytest.approx(1)
    assert json.loads(certificate.to_json())["estimator"] == type(scaler).__name__


@pytest.mark.parametrize(
    "estimator",
    [DPMinMaxScaler(bounds=(LOW, HIGH)), DPStandardScaler(with_mean=False, with_std=False)],
    ids=repr,
)
def test_a_fit_that_releases_nothing_is_free(X, estimator):
    budget = PrivacyBudget(1.0)
    scaler = clone(estimator).set_params(budget=budget, epsilon=5.0)
    assert scaler.privacy_cost() is None
    scaler.fit(X)
    check_is_fitted(scaler)
    assert budget.charges == []
    assert scaler.privacy_.releases == ()
    assert (scaler.privacy_.epsilon, scaler.privacy_.delta) == (0.0, 0.0)
    assert not scaler.privacy_.charged
    # Rows and parameters are checked all the same.
    with pytest.raises(ValueError, match="finite"):
        scaler.fit(np.array([[np.nan] * 4]))
    with pytest.raises(ValueError, match="epsilon"):
        scaler.set_params(epsilon=-1).fit(X)
    with pytest.raises(ValueError, match="epsilon"):
        scaler.privacy_cost()


def test_free_bounds_are_no_views_of_the_parameters():
    low, high = np.zeros(2), np.ones(2)
    scaler = DPMinMaxScaler(bounds=(low, high)).fit([[0.5, 0.5]])
    low[:] = -1
    assert_array_equal(scaler.data_min_, [0, 0])
    scaler.data_min_[:] = 9
    assert_array_equal(scaler.bounds_[0], [0, 0])


@each("adjacency", ADJACENCIES)
@each(
    "estimator", [DPStandardScaler(), DPMinMaxScaler(), DPStandardScaler(bounds=(0, 9))], ids=repr
)
def test_attributes_are_a_function_of_the_releases(X, estimator, adjacency):
    """Fit on other rows with the same releases replayed: nothing else was read."""
    scaler = clone(estimator).set_params(budget=UNMETERED[adjacency])
    with record() as transcript:
        first = vars(clone(scaler).fit(X))
    n = len(X) if adjacency == "replace_one" else 7
    other = np.random.default_rng(9).normal(size=(n, 4)) * 1e5
    with replay(transcript):
        second = vars(clone(scaler).fit(other))
    assert first.keys() == second.keys()
    for name in first:
        if name.endswith("_"):
            assert pickle.dumps(first[name]) == pickle.dumps(second[name]), name


def test_number_of_rows_is_noisy_where_it_is_private(X):
    known = DPStandardScaler(bounds=(LOW, HIGH)).fit(X)
    assert known.n_samples_ == 2000
    hidden = [
        DPStandardScaler(bounds=(LOW, HIGH), budget=UNMETERED["add_or_remove_one"])
        .fit(X)
        .n_samples_
        for _ in range(3)
    ]
    assert len(set(hidden)) == 3  # equal by chance once in thousands of runs: noise of dozens
    assert all(abs(n - 2000) < 2000 for n in hidden)
    assert not hasattr(known, "n_samples_seen_")


# --- scikit-learn's contract --------------------------------------------------------------------

KINDS = [
    DPStandardScaler(bounds=(LOW, HIGH), random_state=0),
    DPMinMaxScaler(random_state=0),
    DPMinMaxScaler(bounds=(LOW, HIGH)),
]


@pytest.mark.parametrize("estimator", KINDS, ids=repr)
def test_names_and_tables(X, estimator):
    names = ["dep_delay", "hour", "drift", "load"]
    frame = pd.DataFrame(X, columns=names)
    scaler = clone(estimator).fit(frame)
    assert_array_equal(scaler.feature_names_in_, names)
    assert_array_equal(scaler.get_feature_names_out(), names)
    assert isinstance(scaler.transform(frame), np.ndarray)
    out = scaler.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == names
    assert_array_equal(out.index, frame.index)
    table = pl.from_pandas(frame)
    same = scaler.set_output(transform="polars").transform(table)
    assert same.columns == names
    assert_allclose(same.to_numpy(), out.to_numpy())
    with pytest.raises(ValueError, match="feature names"):
        scaler.transform(frame[names[::-1]])
    # Names go when a table without names comes.
    scaler.fit(X)
    assert not hasattr(scaler, "feature_names_in_")


@pytest.mark.parametrize("estimator", KINDS, ids=repr)
def test_clone_pickle_and_refit(X, estimator):
    scaler = clone(estimator).fit(X)
    again = pickle.loads(pickle.dumps(scaler))
    assert_array_equal(again.transform(X), scaler.transform(X))
    assert_array_equal(clone(scaler).fit(X).transform(X), scaler.transform(X))
    assert_array_equal(clone(scaler).fit_transform(X), scaler.transform(X))
    before = X.copy()
    scaler.inverse_transform(scaler.transform(X))
    assert_array_equal(before, X)


def test_refit_leaves_nothing_of_the_first_fit(X):
    scaler = DPStandardScaler(bounds=(LOW, HIGH)).fit(X)
    scaler.set_params(with_std=False).fit(X)
    assert scaler.var_ is scaler.scale_ is scaler.var_std_error_ is None
    scaler.set_params(with_mean=False).fit(X)
    assert scaler.mean_ is scaler.n_samples_ is scaler.mean_std_error_ is None
    minmax = DPMinMaxScaler().fit(X)
    assert minmax.q_ is not None
    assert minmax.set_params(bounds=(0, 1)).fit(X).q_ is None


def test_pipeline_charges_each_step(X):
    budget = PrivacyBudget(3.0)
    pipe = make_pipeline(
        DPStandardScaler(bounds=(LOW, HIGH), epsilon=1.0, budget=budget),
        DPMinMaxScaler(epsilon=0.5, budget=budget, clip=True),
        DPMinMaxScaler((-1, 1), bounds=(0, 1), budget=budget),
    )
    out = pipe.fit_transform(X)
    assert out.shape == X.shape
    assert out.min() >= -1
    assert out.max() <= 1
    assert [c.estimator for c in budget.charges] == ["DPStandardScaler", "DPMinMaxScaler"]
    clone(pipe).fit(X)
    assert budget.spent.epsilon == 3.0
    columns = ColumnTransformer(
        [
            ("standard", DPStandardScaler(bounds=(LOW[:2], HIGH[:2])), [0, 1]),
            ("range", DPMinMaxScaler(bounds=(LOW[2:], HIGH[2:])), [2, 3]),
        ]
    )
    assert columns.fit_transform(X).shape == X.shape


@pytest.mark.parametrize("estimator", KINDS, ids=repr)
def test_columns_are_counted(X, estimator):
    scaler = clone(estimator).fit(X)
    with pytest.raises(ValueError, match="3 features"):
        scaler.transform(X[:, :3])
    with pytest.raises(ValueError, match="4 columns"):
        scaler.inverse_transform(X[:, :3])


@each(
    ("scaler", "error", "match"),
    [
        (DPStandardScaler(with_mean="yes"), TypeError, "with_mean"),
        (DPStandardScaler(with_std=1), TypeError, "with_std"),
        (DPMinMaxScaler(clip=None), TypeError, "clip"),
        (DPMinMaxScaler((1, 0)), ValueError, "feature_range"),
        (DPMinMaxScaler((0, 0)), ValueError, "feature_range"),
        (DPMinMaxScaler((0, np.inf)), ValueError, "feature_range"),
        (DPMinMaxScaler((0, 1, 2)), ValueError, "feature_range"),
        (DPMinMaxScaler("ab"), ValueError, "feature_range"),
        (DPMinMaxScaler(None), ValueError, "feature_range"),
        (DPMinMaxScaler(q="min"), ValueError, "q must"),
        (DPMinMaxScaler(q=True), TypeError, "q must"),
        (DPMinMaxScaler(q=0.0), ValueError, "q must"),
        (DPMinMaxScaler(q=0.5), ValueError, "q must"),
        (DPMinMaxScaler(q=np.nan), ValueError, "q must"),
    ],
    ids=repr,
)
def test_parameters_of_their_own(X, scaler, error, match):
    budget = PrivacyBudget(1.0)
    scaler.set_params(budget=budget)
    with pytest.raises(error, match=match):
        scaler.fit(X)
    assert budget.charges == []
    assert not hasattr(scaler, "n_features_in_")


# --- memory ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [DPStandardScaler(bounds=(0, 1), delta=1e-6), DPMinMaxScaler()],
    ids=repr,
)
def test_a_fit_holds_no_copy_of_the_rows(tmp_path, estimator):
    """80 MB in a sparse file; the fit allocates less than 16 MB at any time."""
    X = np.memmap(tmp_path / "X.dat", dtype=np.float64, mode="w+", shape=(1_000_000, 10))
    X[::20_000] = 1.0
    tracemalloc.start()
    try:
        estimator.fit(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * 2**20


def test_learned_bounds_that_nobody_can_trust_are_warned_of():
    """Most of a column is one value: a scale that is off would rule the next step, silently."""
    rng = np.random.default_rng(0)
    gains = np.where(rng.random(20_000) < 0.97, 0.0, rng.lognormal(8, 1, 20_000))
    table = pd.DataFrame({"age": rng.normal(40, 10, 20_000), "gain": gains})
    with pytest.warns(UserWarning, match="'gain' may be far off") as caught:
        DPStandardScaler(epsilon=0.3, random_state=0).fit(table)
    assert "age" not in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPStandardScaler(bounds=(0, 1e5), epsilon=0.3, random_state=0).fit(table)


@pytest.mark.parametrize(
    "scaler",
    [
        DPMinMaxScaler(),
        DPMinMaxScaler(nan_policy="omit"),
        DPRobustScaler(),
        DPMedian(),
        DPQuantile(),
    ],
    ids=repr,
)
def test_learned_bounds_of_few_rows_are_warned_of(scaler):
    X = np.random.default_rng(0).normal(40, 12, (20_000, 2))
    with pytest.warns(
        UserWarning,
        match=r"may be far off: rows are too few .* use (about [0-9,]+ rows|[0-9.]+ times)",
    ):
        clone(scaler).set_params(epsilon=0.1, random_state=0).fit(X[:200])
    with warnings.catch_warnings(action="error"):
        clone(scaler).set_params(epsilon=3.0, random_state=0).fit(X)
        clone(scaler).set_params(epsilon=0.1, random_state=0, bounds=(0, 100)).fit(X[:200])
