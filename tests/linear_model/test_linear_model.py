"""Linear models: what they find, what their errors cover, and rows that must not make them fail."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse, special
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.neighbors import NearestCentroid

from skdp import PrivacyBudget, config_context
from skdp.audit import neighbour_check, replay_check
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.ensemble import DPExplainableBoostingRegressor
from skdp.linear_model import DPLinearRegression, DPLogisticRegression, DPRidge
from skdp.naive_bayes import DPCategoricalNB, DPGaussianNB
from skdp.neighbors import DPNearestCentroid
from skdp.queries import softmax
from skdp.tabular import check_with_target
from tests.folding import each

A, R = "add_or_remove_one", "replace_one"
BETA = np.array([2.0, -1.0, 0.5])
STATED = {"bounds": ([0, -5, 0], [1, 5, 15]), "target_bounds": (-12, 20)}
NOISELESS = {"epsilon": 1e6}


def budget(relation):
    return PrivacyBudget(1e12, 1e-4, adjacency=relation)


def mixed(n, seed):
    """Return a 0/1 column, a normal and an exponential one, and a target."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.random(n) < 0.2, rng.normal(size=n), rng.exponential(size=n)])
    return X, X @ BETA + 1 + rng.normal(size=n)


# --- least squares ----------------------------------------------------------------------------


WEIGHTED = {"bounds": (0, 1), "target_bounds": (-3, 6), "weight_bound": 5.0}


def weighted(n, seed):
    """Return rows, targets that are not linear in them, and weights up to 9."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    y = X @ BETA + X[:, 2] ** 2 + rng.uniform(-1, 1, n)
    return X, y, 9 * rng.random(n) ** 2


@pytest.mark.parametrize("relation", [A, R])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_weighted_rows_are_scikit_learns_without_noise(delta, relation):
    """Weights are clipped to their bound, which is below some of them."""
    X, y, weights = weighted(3000, 0)
    for ours, theirs in (
        (DPLinearRegression(**WEIGHTED), LinearRegression()),
        (DPRidge(500.0, **WEIGHTED), Ridge(500.0)),
    ):
        made = ours.set_params(delta=delta, budget=budget(relation), **NOISELESS)
        made.fit(X, y, sample_weight=weights)
        theirs.fit(X, y, sample_weight=np.minimum(weights, 5.0))
        np.testing.assert_allclose(made.coef_, theirs.coef_, atol=2e-3)
        assert made.intercept_ == pytest.approx(theirs.intercept_, abs=5e-3)
        assert np.isfinite(made.coef_std_error_).all()
        assert np.isnan(made.coef_population_std_error_).all()


def test_weights_are_refused_before_the_charge():
    ledger = PrivacyBudget(1.0)
    X, y, weights = weighted(50, 0)
    model = DPRidge(bounds=(0, 1), target_bounds=(-3, 6), weight_bound=1.0, budget=ledger)
    for bad, text in (
        (weights[:-1], "same number of rows"),
        (np.full(50, np.nan), "sample_weight contains NaN"),
        (np.ones((50, 2)), "one-dimensional"),
        (["a"] * 50, "sample_weight must be real"),
    ):
        with pytest.raises(ValueError, match=text):
            model.fit(X, y, sample_weight=bad)
    for bad in (0.0, -1.0, math.inf, math.nan, "1"):
        with pytest.raises((TypeError, ValueError), match="weight_bound must be"):
            model.set_params(weight_bound=bad).fit(X, y, sample_weight=weights)
    assert ledger.spent.epsilon == 0


def test_weights_of_nothing_leave_no_errors():
    """Their sum is below its noise: coefficients are shrunk, and nothing is claimed of them."""
    X, y, _ = weighted(300, 0)
    model = DPRidge(**WEIGHTED, delta=1e-6, budget=budget(R))
    model.fit(X, y, sample_weight=np.zeros(300))
    assert np.isfinite([*model.coef_, model.intercept_]).all()
    assert np.isnan([*model.coef_std_error_, model.intercept_std_error_]).all()


@pytest.mark.statistical
@pytest.mark.parametrize("relation", [A, R])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_errors_of_weighted_rows_cover_the_weighted_coefficients(delta, relation):
    """95% intervals of 80 fits: fewer than one run in a million has more than 18 of one outside.

    Nor are they all inside of half an interval, as errors twice too large would leave them.
    """
    X, y, weights = weighted(20_000, 0)
    model = DPLinearRegression(**WEIGHTED, delta=delta, epsilon=4.0, budget=budget(relation))
    exact = LinearRegression().fit(X, y, sample_weight=np.minimum(weights, 5.0))
    truth = [*exact.coef_, exact.intercept_]
    far = []
    for _ in range(80):
        made = clone(model).fit(X, y, sample_weight=weights)
        error = np.array([*made.coef_std_error_, made.intercept_std_error_])
        assert np.isfinite(error).all()
        far.append(np.abs(np.array([*made.coef_, made.intercept_]) - truth) / error)
    assert ((np.array(far) > 1.96).sum(axis=0) <= 18).all()
    assert ((np.array(far) > 0.98).sum(axis=0) >= 5).all()


@pytest.mark.parametrize("relation", [A, R])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_noise_it_is_scikit_learns(delta, relation):
    X, y = mixed(3000, 0)
    for ours, theirs in (
        (DPLinearRegression(**STATED), LinearRegression()),
        (DPRidge(500.0, **STATED), Ridge(500.0)),
    ):
        made = ours.set_params(delta=delta, budget=budget(relation), **NOISELESS).fit(X, y)
        theirs.fit(X, y)
        np.testing.assert_allclose(made.coef_, theirs.coef_, atol=2e-3)
        assert made.intercept_ == pytest.approx(theirs.intercept_, abs=5e-3)
        np.testing.assert_allclose(made.predict(X), theirs.predict(X), atol=0.02)


@pytest.mark.statistical
@each("stated", [True, False])
@pytest.mark.parametrize(("relation", "delta"), [(A, 0.0), (R, 1e-6)])
def test_standard_errors_cover(relation, delta, stated):
    """About the coefficients of all rows, and about those of the population.

    Of 40 fits of three coefficients. The errors of one fit are correlated, so a rate of 95% may
    show as 85% by chance; noise at two thirds of its size would cover 81% of the time and more
    than 97% never, so of stated bounds a root mean square between 0.75 and 1.3 is asked as well:
    five standard errors of 40 independent fits. With learned bounds errors are larger than needed.
    """
    noise, both = [], []
    for seed in range(40):
        X, y = mixed(20_000, seed)
        more = STATED if stated else {}
        options = {"epsilon": 20.0, "delta": delta, "budget": budget(relation)}
        model = DPLinearRegression(**options, **more).fit(X, y)
        noise.append((model.coef_ - LinearRegression().fit(X, y).coef_) / model.coef_std_error_)
        both.append((model.coef_ - BETA) / model.coef_population_std_error_)
    for ratios in (noise, both):
        found = np.array(ratios)[np.isfinite(ratios).all(axis=1)]
        assert len(found) >= 0.7 * 40
        assert np.mean(np.abs(found) < 1.96) > 0.85
        rms = math.sqrt(np.mean(found**2))
        assert rms < 1.3
        assert rms > 0.7 or not stated


def test_errors_are_nan_where_they_cannot_be_told():
    X, y = mixed(2000, 1)
    hidden = DPLinearRegression(epsilon=0.01, **STATED).fit(X, y)
    assert np.isnan(hidden.coef_std_error_).all()
    assert np.isnan(hidden.coef_population_std_error_).all()
    twice = DPLinearRegression(bounds=(-5, 15), target_bounds=(-12, 20), delta=1e-6)
    assert np.isnan(twice.fit(X[:, [1, 1]], y).coef_std_error_).all()  # one direction has nothing
    short = DPLinearRegression(epsilon=5.0, **STATED).fit(X, y)  # rows are shortened
    assert np.isnan(short.coef_std_error_).all()
    assert np.isnan(short.coef_population_std_error_).all()
    penal = DPRidge(1.0, delta=1e-6, epsilon=1000.0, **STATED).fit(X, y)
    assert np.isfinite(penal.coef_std_error_).all()
    assert np.isfinite(penal.coef_population_std_error_).all()


def test_targets_are_clipped_to_their_bounds():
    X, y = mixed(3000, 2)
    far = np.where(np.arange(3000) < 10, 1e300, y)
    model = DPLinearRegression(**{**STATED, **NOISELESS, "target_bounds": (-8, 8)}).fit(X, far)
    want = LinearRegression().fit(X, np.clip(far, -8, 8))
    np.testing.assert_allclose(model.coef_, want.coef_, atol=0.02)
    assert model.target_bounds_ == (-8.0, 8.0)


def test_tables_and_names():
    X, y = mixed(500, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = {"c": (0, 15), "a": (0, 1), "b": (-5, 5)}
    for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        for target in (y, y.tolist(), pd.Series(y), pl.Series(y)):
            model = DPRidge(bounds=named, target_bounds=(-12, 20)).fit(table, target)
            assert model.bounds_[1].tolist() == [1, 5, 15]
            assert list(model.feature_names_in_) == ["a", "b", "c"]
            assert model.predict(table).shape == (500,)


@each(
    ("change", "match"),
    [
        ({"alpha": -1.0}, "alpha must be a number in"),
        ({"alpha": math.inf}, "alpha must be a number in"),
        ({"alpha": "auto"}, "alpha must be a number in"),
        ({"target_bounds": (1, 0)}, "target_bounds must be"),
        ({"target_bounds": "auto"}, "target_bounds must be"),
        ({"target_bounds": ([0, 0], [1, 1])}, "target_bounds must be"),
        ({"bounds": (1, 0)}, "low must not exceed high"),
    ],
)
def test_parameters_are_refused_before_the_charge(change, match):
    X, y = mixed(50, 4)
    ledger = budget(R)
    model = DPRidge(budget=ledger).set_params(**change)
    with pytest.raises((TypeError, ValueError), match=match):
        model.fit(X, y)
    with pytest.raises((TypeError, ValueError), match=match):
        model.expected_error(50, like=(X, y))
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (None, "requires y"),
        (np.full(50, np.nan), "y contains NaN"),
        (np.array(["a"] * 50), "must be real numbers"),
        (np.ones(49), "same number of rows"),
        (np.ones((50, 2, 1)), "one-dimensional"),
        (np.ones((49, 2)), "same number of rows"),
        ([[0.0, 1.0]] * 49 + [[0.0, math.inf]], "y contains NaN"),
        (np.ones((50, 3)), r"low must be one number or have one per feature \(3\)"),
    ],
)
def test_targets_are_refused_before_the_charge(y, match):
    ledger = budget(R)
    with pytest.raises((TypeError, ValueError), match=match):
        DPRidge(target_bounds=([0, 0], [1, 1]), budget=ledger).fit(np.ones((50, 2)), y)
    assert ledger.spent.epsilon == 0


@each("relation", [A, R])
@each("delta", [0.0, 1e-6])
def test_several_targets_are_fitted_from_one_release(delta, relation):
    X, y = mixed(3000, 0)
    Y = np.column_stack([y, 1 - y / 2, X @ [1.0, 1.0, 1.0]])
    names = []
    bounds = {"bounds": STATED["bounds"], "target_bounds": ([-12, -20, -9], [20, 20, 30])}
    for ours, theirs in (
        (DPLinearRegression(**bounds), LinearRegression()),
        (DPLinearRegression(**bounds, fit_intercept=False), LinearRegression(fit_intercept=False)),
        (DPRidge(500.0, **bounds, weight_bound=1.0), Ridge(500.0)),
        (DPRidge([5.0, 500.0, 0.0]), Ridge([5.0, 500.0, 0.0])),
    ):
        made = ours.set_params(delta=delta, budget=budget(relation), **NOISELESS)
        weights = {} if made.weight_bound == "private" else {"sample_weight": 1.0}
        made.fit(X, Y, **weights)
        theirs.fit(X, Y)
        assert made.coef_.shape == made.coef_std_error_.shape == (3, 3)
        np.testing.assert_allclose(made.coef_, theirs.coef_, atol=3e-3)
        np.testing.assert_allclose(made.intercept_, np.zeros(3) + theirs.intercept_, atol=9e-3)
        np.testing.assert_allclose(made.predict(X), theirs.predict(X), atol=0.03)
        assert made.score(X, Y) == pytest.approx(theirs.score(X, Y), abs=1e-3)
        names.append([release.name for release in made.privacy_.releases])
        summary = made.summary(target=2, of="rows")
        np.testing.assert_array_equal(summary.std_error[:3], made.coef_std_error_[2])
        assert made.budget.spent.epsilon <= NOISELESS["epsilon"]
    assert all(each.count("second moment") == 1 for each in names)
    with pytest.raises(ValueError, match="penalties do not correspond: 3 != 1"):
        made.fit(X, y)
    for target in (3, None):
        with pytest.raises(ValueError, match="target must be an integer from 0 to 2"):
            made.summary(target=target)
    expected = DPRidge(epsilon=1e3, **bounds).expected_error(3000, like=(X, Y))
    assert 0 < expected < 0.2


def test_errors_of_several_targets_cover():
    """Of 240 errors, at most one run in 10**4 has more than 30 beyond 1.96."""
    X, y = mixed(2000, 0)
    Y = np.column_stack([y, 4 - 2 * y])
    truth = LinearRegression().fit(X, Y).coef_
    stated = {"bounds": STATED["bounds"], "target_bounds": ([-12, -36], [20, 28])}
    for delta in (0.0, 1e-6):
        model = DPLinearRegression(**stated, epsilon=50.0, delta=delta, budget=budget(R))
        fits = [clone(model).fit(X, Y) for _ in range(20)]
        far = [np.abs(fit.coef_ - truth) / fit.coef_std_error_ for fit in fits]
        assert (np.array(far) > 1.96).sum() <= 20
        assert (np.array(far) > 0.98).sum() >= 10


@each("relation", [A, R])
@each("delta", [0.0, 1e-6])
def test_several_targets_move_no_more_than_the_moments_say(delta, relation):
    """Rows of 1e9 and targets of -1e9, in tables that are unlike each other or neighbours."""
    X, y = mixed(400, 0)
    Y = np.column_stack([y, -y])
    far, far_y = np.full((400 + 3 * (relation == A), 3), 1e9), np.full((403, 2), -1e9)
    models = [DPRidge(bounds=STATED["bounds"], target_bounds=(-12, 20)), DPRidge()]
    for model in models:
        model.set_params(delta=delta, budget=PrivacyBudget(9.0, 0.1, adjacency=relation))
        replay_check(model, X, far, y=Y, y_other=far_y[: len(far)], X_public=X[:3])
        first = (X[1:], Y[1:]) if relation == A else (
            np.vstack([far[:1], X[1:]]), np.vstack([far_y[:1], Y[1:]])
        )  # fmt: skip
        found = neighbour_check(model, X, first[0], y=Y, y_neighbour=first[1])
        assert any(release.distance > 0.4 * release.sensitivity for release in found)


def test_tables_of_targets_have_equal_fits():
    X, y = mixed(2000, 3)
    Y = np.column_stack([y, -y])
    frame = pd.DataFrame(Y, columns=["a", "b"])
    fits = []
    for target in (Y, Y.tolist(), frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        for rows in (X, sparse.csr_array(X)):
            model = DPRidge(**STATED, **NOISELESS, budget=budget(R))
            fits.append(model.fit(rows, target).coef_)
    np.testing.assert_allclose(fits, [fits[0]] * len(fits), atol=1e-3)
    with pytest.warns(UserWarning, match="about the median"):
        few = DPRidge(epsilon=0.01).fit(X[:200], Y[:200])
    assert (few.coef_.shape, few.predict(X).shape) == ((2, 3), (2000, 2))
    for pair in ((DPRidge(**STATED), Ridge()), (DPLinearRegression(**STATED), LinearRegression())):
        ours, theirs = (
            (model.coef_.shape, model.intercept_.shape, model.predict(X).shape)
            for model in (one.fit(X, Y[:, :1]) for one in pair)
        )
        assert ours == theirs


@each("model", [DPRidge, DPLinearRegression, DPExplainableBoostingRegressor])
@each("delta", [0.0, 1e-6])
def test_few_rows_with_wide_bounds_of_the_target(model, delta):
    # Bounds 40 deviations wide. Of 360 fits of few rows the least R squared was -.28.
    X = np.random.default_rng(0).normal(size=(3000, 2)).clip(-3, 3)
    y = 500.0 + 500.0 * X[:, 0]
    wide = {"bounds": (-3, 3), "target_bounds": (0, 20_000), "delta": delta}
    with pytest.warns(UserWarning, match="about the median of the target is all"):
        few = model(**wide, epsilon=0.3, random_state=0).fit(X[:300], y[:300])
    assert few.score(X, y) > -1.0
    assert (few.privacy_.delta, few.privacy_cost(n_samples=300).delta) == (0.0, 0.0)
    if model is not DPExplainableBoostingRegressor:
        with pytest.warns(UserWarning, match="noise hides how far the targets differ"):
            model(**wide | {"target_bounds": (-1e5, 1e5)}, epsilon=1.0).fit(X[:300], y[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(**wide, epsilon=30.0, budget=PrivacyBudget(30.0, 1e-3)).fit(X, y)


def test_expected_error_is_what_fits_show():
    X, y = mixed(2000, 5)
    model = DPLinearRegression(delta=1e-6, **STATED)
    expected = model.expected_error(2000, like=(X, y))
    exact = LinearRegression().fit(X, y).predict(X)
    found = [
        math.sqrt(np.mean((clone(model).fit(X, y).predict(X) - exact) ** 2)) for _ in range(12)
    ]
    assert 0.6 < np.mean(found) / expected < 1.6
    with pytest.raises(ValueError, match="like must be given"):
        model.expected_error(2000)
    with pytest.raises(TypeError, match="pair"):
        model.expected_error(2000, like=X)


# --- rows of any values -----------------------------------------------------------------------


def tables():
    rng = np.random.default_rng(0)
    yield "one row", np.array([[1.0, 2.0, 3.0]])
    yield "one cell", np.array([[1.0]])
    yield "huge", np.array([[1e308, -1e308, 0.0], [-1e308, 1e308, 1e308]])
    yield "tiny", np.array([[5e-324, 0.0, -5e-324]] * 20)
    yield "zeros", np.zeros((20, 3))
    yield "constant", np.full((1000, 2), 7.5)
    yield "wide", rng.normal(size=(3, 25))


def regressors():
    yield DPRidge()
    yield DPLinearRegression()
    yield DPRidge(bounds=(2, 2), target_bounds=(3, 3))
    yield DPRidge(bounds=(-1e308, 1e308), target_bounds=(-1e308, 1e308))
    yield DPRidge(1e-300, bounds=(0, 5e-324), target_bounds=(0, 1))


@pytest.mark.filterwarnings("ignore:DP.*rows times epsilon are so few")
@pytest.mark.filterwarnings("ignore:DP.*noise hides how far the targets differ")
@pytest.mark.filterwarnings("error")
@each("X", [pytest.param(X, id=name) for name, X in tables()])
@pytest.mark.parametrize("model", list(regressors()), ids=repr)
def test_no_rows_make_a_regressor_fail(model, X):
    for relation in (A, R):
        for privacy in ({"epsilon": 1e-6}, {"epsilon": 2.0, "delta": 1e-9}, {"epsilon": 1e9}):
            fit = clone(model).set_params(budget=budget(relation), **privacy)
            for y in (X[:, 0], -X[:, -1], np.zeros(len(X))):
                fit.fit(X, y)
                assert np.isfinite(fit.coef_).all()
                assert np.isfinite(fit.intercept_)
                assert np.isfinite(fit.predict(X)).all()
        empty = clone(model).set_params(budget=budget(A)).fit(X[:0], X[:0, 0])
        assert np.isfinite(empty.predict(X)).all()


def test_a_target_is_the_last_column_of_its_row():
    X, y = np.arange(6.0).reshape(3, 2), np.array([7.0, 8.0, 9.0])
    rows = check_with_target(X, y, estimator="Test")
    assert rows.n_features == 3
    np.testing.assert_array_equal(rows.chunk(1, 3), [[2, 3, 8], [4, 5, 9]])
    assert rows.digest() != check_with_target(X, y + 1, estimator="Test").digest()


# --- logistic regression ----------------------------------------------------------------------


def separable(n, seed, n_classes=2):
    """Return rows of which most have the label that a linear score gives them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    scores = X @ np.random.default_rng(0).normal(size=(4, n_classes))
    return X, (scores + rng.gumbel(size=scores.shape) / 3).argmax(axis=1)


@each("relation", [A, R])
@each("delta", [0.0, 1e-6])
@each("n_classes", [2, 3])
def test_without_an_intercept_a_row_of_zeros_has_equal_odds(n_classes, delta, relation):
    X, y = separable(4000, 1, n_classes)
    X = X + np.array([0, 3, 0, -3])  # far from 0, where rows are not centred
    best = LogisticRegression(fit_intercept=False).fit(X, y)
    model = DPLogisticRegression(
        classes=range(n_classes), bounds=(-9, 9), fit_intercept=False, epsilon=1e4, delta=delta,
        budget=budget(relation),
    ).fit(X, y)  # fmt: skip
    np.testing.assert_array_equal(model.intercept_, np.zeros(1 if n_classes == 2 else 3))
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 4))), 1 / n_classes)
    assert (model.predict(X) == best.predict(X)).mean() > 0.97
    noisy = clone(model).set_params(epsilon=3.0).fit(X, y)
    assert noisy.score(X, y) > best.score(X, y) - 0.05
    replay_check(
        model, X[:99], -X[: 99 - (relation == A)], y=y[:99], y_other=y[-99:][: 99 - (relation == A)]
    )


@each("relation", [A, R])
@each("delta", [0.0, 1e-6])
@each("n_classes", [2, 3])
def test_with_little_noise_it_is_as_good_as_scikit_learns(n_classes, delta, relation):
    X, y = separable(8000, 1, n_classes)
    new, truth = separable(4000, 2, n_classes)
    best = LogisticRegression().fit(X, y)
    for more in ({"bounds": (-5, 5)}, {}):
        model = DPLogisticRegression(
            classes=range(n_classes), epsilon=20.0, delta=delta, budget=budget(relation), **more
        ).fit(X, y)
        assert model.score(new, truth) > best.score(new, truth) - (0.02 if more else 0.08)
        chances = model.predict_proba(new)
        assert chances.shape == (4000, n_classes)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.predict(new), chances.argmax(axis=1))
        # Rows inside the ball: the decision is linear in the user's units.
        inside = model.center_ + 1e-3 * new * model.scale_
        logits = (inside @ model.coef_.T + model.intercept_).squeeze()
        np.testing.assert_allclose(logits, model.decision_function(inside), atol=1e-3)


def test_one_column_and_many_do_not_swing():
    """A step that is too long for the rows is cut short, whatever their covariance."""
    rng = np.random.default_rng(3)
    y = np.arange(6000) % 2
    for X in (
        (y - 0.5)[:, None] * 2 + rng.normal(size=(6000, 1)),
        np.repeat((y - 0.5)[:, None] * 2 + rng.normal(size=(6000, 1)), 8, axis=1),
    ):
        model = DPLogisticRegression(classes=[0, 1], bounds=(-6, 6), epsilon=3.0, delta=1e-6)
        best = LogisticRegression().fit(X, y).score(X, y)
        assert model.fit(X, y).score(X, y) > best - 0.02


def test_rare_classes_keep_their_rank():
    """With one row in fifty of the second class, rows are ranked well, and few are called so."""
    rng = np.random.default_rng(4)
    y = (rng.random(20_000) < 0.02).astype(int)
    X = rng.normal(size=(20_000, 3)) + 2.0 * y[:, None]
    model = DPLogisticRegression(classes=[0, 1], bounds=(-5, 7), delta=1e-6).fit(X, y)
    assert roc_auc_score(y, model.decision_function(X)) > 0.97
    assert abs(model.predict_proba(X)[:, 1].mean() - 0.02) < 0.03


def test_labels_of_any_type_and_none_of_the_classes():
    X, y = separable(900, 5, 3)
    names = np.array(["a", "b", "c"])[y]
    for labels in (names, pd.Series(names), pl.Series(names), names.tolist()):
        model = DPLogisticRegression(classes=["a", "b"], bounds=(-5, 5), epsilon=50.0)
        model.fit(X, labels)
        assert model.classes_.tolist() == ["a", "b"]
        assert set(model.predict(X)) <= {"a", "b"}
        assert abs(model.class_count_.sum() - (y < 2).sum()) < 20


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"classes": None}, "classes must be given"),
        ({"classes": [1]}, "at least two"),
        ({"classes": [0.0, np.nan]}, "classes must be finite"),
        ({"bounds": (1, 0)}, "low must not exceed high"),
        ({"fit_intercept": False, "class_weight": "balanced"}, "needs fit_intercept=True"),
    ],
)
def test_a_classifier_refuses_before_the_charge(change, match):
    X, y = separable(50, 6)
    ledger = budget(R)
    model = DPLogisticRegression(classes=[0, 1], budget=ledger).set_params(**change)
    with pytest.raises(ValueError, match=match):
        model.fit(X, y)
    with pytest.raises(ValueError, match=match):
        model.expected_error(50, like=(X, y))
    assert ledger.spent.epsilon == 0


@pytest.mark.slow
def test_expected_error_of_a_classifier():
    X, y = separable(2000, 7)
    model = DPLogisticRegression(classes=[0, 1], bounds=(-5, 5), delta=1e-6)
    few, many = (model.expected_error(n, like=(X, y)) for n in (300, 6000))
    assert 0 <= many < few <= 1
    with pytest.raises(ValueError, match="like must be given"):
        model.expected_error(2000)


@pytest.mark.filterwarnings("error", "ignore:.*only the shares of its")
@each("X", [pytest.param(X, id=name) for name, X in tables()])
@each("bounds", ["private", (2, 2), (-1e308, 1e308), (0, 5e-324)], ids=str)
def test_no_rows_make_a_classifier_fail(X, bounds):
    for number, (relation, privacy) in enumerate(
        itertools.product(
            (A, R), ({"epsilon": 1e-6}, {"epsilon": 2.0, "delta": 1e-9}, {"epsilon": 1e9})
        )
    ):
        n_classes = 2 + number % 2
        labels = (np.arange(len(X)) % n_classes, np.zeros(len(X)), np.full(len(X), 7))
        model = DPLogisticRegression(
            classes=range(n_classes), bounds=bounds, budget=budget(relation), **privacy
        ).fit(X, labels[number % 3])
        if len(X) * privacy["epsilon"] > 1e3 or bounds != "private":
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.intercept_).all()
        assert np.isfinite(model.predict_proba(X)).all()
    empty = DPLogisticRegression(classes=[0, 1], bounds=bounds, budget=budget(A))
    assert np.isfinite(empty.fit(X[:0], np.zeros(0)).predict_proba(X)).all()


def test_probabilities_depend_on_their_own_row_only():
    logits = np.random.default_rng(8).normal(0, 30, (257, 5))
    whole = softmax(logits)
    for i in range(257):
        np.testing.assert_array_equal(softmax(logits[i : i + 1]), whole[i : i + 1])
    np.testing.assert_allclose(whole, special.softmax(logits, axis=1), atol=1e-15)


# --- means, variances and counts of classes ---------------------------------------------------

OTHERS = [DPGaussianNB, DPNearestCentroid, DPLinearDiscriminantAnalysis]
TWINS = [GaussianNB, NearestCentroid, LinearDiscriminantAnalysis]


@each("relation", [A, R])
@each("delta", [0.0, 1e-6])
@each(("ours", "theirs"), list(zip(OTHERS, TWINS, strict=True)))
def test_other_classifiers_are_as_good_as_scikit_learns(ours, theirs, delta, relation):
    X, y = separable(6000, 1, 3)
    new, truth = separable(4000, 2, 3)
    best = theirs().fit(X, y).score(new, truth)
    options = {"classes": range(3), "epsilon": 20.0, "delta": delta, "budget": budget(relation)}
    model = ours(bounds=(-5, 5), **options).fit(X, y)
    assert model.score(new, truth) > best - 0.03
    np.testing.assert_allclose(model.predict_proba(new).sum(axis=1), 1.0)
    # Learned bounds are far too wide now and then.
    learned = [ours(**options).fit(X, y).score(new, truth) for _ in range(5)]
    assert np.median(learned) > best - 0.03


def test_without_noise_the_moments_are_scikit_learns():
    X, y = separable(2000, 3, 3)
    options = {"classes": range(3), "bounds": (-5, 5), **NOISELESS}
    model, want = DPGaussianNB(**options).fit(X, y), GaussianNB().fit(X, y)
    np.testing.assert_allclose(model.theta_, want.theta_, atol=1e-3)
    np.testing.assert_allclose(model.var_, want.var_, atol=1e-3)
    np.testing.assert_allclose(model.class_prior_, want.class_prior_, atol=1e-3)
    cells = np.rint(X).clip(0, 2)
    model = DPCategoricalNB([[0, 1, 2]] * 4, classes=range(3), **NOISELESS).fit(cells, y)
    want = CategoricalNB().fit(cells.astype(int), y)
    for a, b in zip(model.feature_log_prob_, want.feature_log_prob_, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-2)
    # Calibrated on the same rows, it is as good; classes that are hardly told apart may change.
    assert model.score(cells, y) > want.score(cells.astype(int), y) - 0.02


def test_weights_repeat_rows():
    X, y = separable(3000, 5, 3)
    weights = np.arange(3000) % 3
    X = np.rint(X).clip(0, 2)
    rows, labels = X.repeat(weights, axis=0), y.repeat(weights)
    known = {"classes": range(3), **NOISELESS}
    for model, names in (
        (DPGaussianNB(bounds=(0, 2), **known), ("theta_", "var_", "class_count_")),
        (DPCategoricalNB([[0, 1, 2]] * 4, **known), ("category_count_", "class_count_")),
    ):
        want = clone(model).fit(rows, labels)
        model.set_params(weight_bound=2.0).fit(X, y, sample_weight=weights)
        for name in names:
            pair = getattr(model, name), getattr(want, name)
            np.testing.assert_allclose(*pair, rtol=0.01, atol=0.01)
        assert np.mean(model.predict(X) == want.predict(X)) > 0.98


def test_one_stated_class_has_a_density_and_no_smoothing_has_impossible_categories():
    X, y = separable(500, 6, 3)
    one = DPGaussianNB(bounds=(-5, 5), classes=[0], **NOISELESS).fit(X, np.zeros(500))
    assert (one.predict(X) == 0).all() and (one.predict_proba(X) == 1).all()
    want = GaussianNB().fit(X, np.zeros(500))
    np.testing.assert_allclose(one.var_, want.var_, rtol=0.01)
    logs = one.predict_joint_log_proba(X), want.predict_joint_log_proba(X)
    np.testing.assert_allclose(*logs, atol=0.1)
    known = {"classes": [0, 1], "alpha": 0.0, **NOISELESS}
    cells, labels = np.arange(400)[:, None] % 3, np.arange(400) % 3 > 1
    model = DPCategoricalNB([[0, 1, 2, 3]], **known).fit(cells, labels)
    assert (np.isneginf(model.feature_log_prob_[0]) == [[0, 0, 1, 1], [1, 1, 0, 1]]).all()
    assert model.predict_proba([[0.0], [2.0]]) == pytest.approx(np.eye(2), abs=0.02)
    with pytest.warns(UserWarning, match="alpha too small"):
        model.set_params(force_alpha=False).fit(cells, labels)
    assert np.isfinite(model.feature_log_prob_[0]).all()


@pytest.mark.parametrize("relation", [A, R])
def test_sums_alone_where_noise_would_hide_variances(relation):
    """With a tenth of the rows; errors of the sums of classes are less then, also of counts."""
    X, y = separable(8000, 4, 3)
    X = np.repeat(X, 8, axis=1)
    names, noise, spread = {}, {}, {}
    for part in (1, 10):
        model = DPGaussianNB(
            bounds=(-5, 5), classes=range(3), epsilon=1.0, delta=0.0, budget=budget(relation)
        ).fit(X[::part], y[::part])
        names[part] = [release.name for release in model.privacy_.releases]
        errors = model.theta_std_error_ * model.class_count_[:, None]
        noise[part] = float(np.nanmedian(errors))
        spread[part] = float(np.ptp(model.var_))
    assert names[1][-2:] == ["moments of labels", "calibration"]
    assert names[10][-2:] == ["vectors of labels", "calibration"]
    assert 0.4 < noise[10] / noise[1] < 0.75
    assert spread[10] == 0.0 < spread[1]


@pytest.mark.statistical
@pytest.mark.parametrize("relation", [A, R])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_standard_errors_of_means_cover(delta, relation):
    """Of 40 fits with 12 means: a root mean square beyond 0.8 to 1.25 is seven standard errors."""
    X, y = separable(3000, 4, 3)
    exact = np.stack([X.clip(-5, 5)[y == k].mean(axis=0) for k in range(3)])
    found = []
    for _ in range(40):
        options = {"classes": range(3), "bounds": (-5, 5), "delta": delta}
        model = DPGaussianNB(budget=budget(relation), **options).fit(X, y)
        found.append((model.theta_ - exact) / model.theta_std_error_)
    assert 0.8 < math.sqrt(np.mean(np.square(found))) < 1.25
    learned = DPGaussianNB(classes=range(3)).fit(X, y)
    assert np.isnan(learned.theta_std_error_).all()


@pytest.mark.filterwarnings("error")
@each("X", [pytest.param(X, id=name) for name, X in tables()])
@each("bounds", ["private", (2, 2), (-1e308, 1e308), (0, 5e-324)], ids=str)
@each("kind", OTHERS)
def test_no_rows_make_another_classifier_fail(kind, X, bounds):
    privacies = ({"epsilon": 1e-6}, {"epsilon": 2.0, "delta": 1e-9}, {"epsilon": 1e9})
    for number, privacy in enumerate(privacies):
        relation = (A, R)[(number + len(X)) % 2]  # one and the other in turn
        labels = (np.arange(len(X)) % 3, np.zeros(len(X)), np.full(len(X), 7))[number]
        model = kind(classes=range(3), bounds=bounds, budget=budget(relation), **privacy)
        if kind is DPNearestCentroid and bounds == (2, 2):  # as scikit-learn's refuses such rows
            with pytest.raises(ValueError, match="All features have zero variance"):
                model.fit(X, labels)
            continue
        assert np.isfinite(model.fit(X, labels).predict_proba(X)).all()


@each(
    ("change", "match"),
    [
        ({"categories": "auto"}, "categories must be a list"),
        ({"categories": [[0, 1]]}, "got 1 for 2 columns"),
        ({"categories": [[0, 1], []]}, "categories must be a list"),
        ({"categories": [[0, 1], ["a"]]}, "categories must be a list"),
        ({"categories": [[0, 1], [np.nan]]}, "categories must be a list"),
        ({"alpha": -1.0}, "alpha must be a number in"),
        ({"classes": []}, "at least one class label"),
        ({"classes": None}, "classes must be given"),
    ],
)
def test_categories_are_refused_before_the_charge(change, match):
    ledger = budget(R)
    model = DPCategoricalNB([[0, 1]] * 2, classes=[0, 1], budget=ledger).set_params(**change)
    with pytest.raises(ValueError, match=match):
        model.fit(np.ones((9, 2)), np.arange(9) % 2)
    assert ledger.spent.epsilon == 0


def test_a_subclass_that_hands_names_on_takes_weights_as_its_base_does():
    class Ridge(DPRidge):
        def fit(self, X, y, **options):
            return super().fit(X, y, **options)

    rows = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    model = Ridge(bounds=(-1, 1), target_bounds=(-3, 3), weight_bound=1.0, delta=1e-6)
    assert np.isfinite(model.fit(rows, rows[:, 0], sample_weight=np.ones(200)).coef_).all()


def test_a_penalty_that_no_float_holds_leaves_no_error():
    rows = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    model = DPRidge(bounds=(-1, 1), target_bounds=(-3, 3), weight_bound=1e-308, epsilon=1e6)
    model.fit(rows, rows[:, 0], sample_weight=np.ones(200))
    assert np.isnan(model.coef_std_error_).all()


def test_bounds_whose_squares_are_zero_give_a_finite_model():
    rng = np.random.default_rng(0)
    model = DPLinearRegression(bounds=(-1e-200, 1e-200), target_bounds=(0, 1), random_state=0)
    model.fit(rng.random((100, 4)), rng.random(100))
    assert np.isfinite(model.predict(rng.random((3, 4)))).all()


@pytest.mark.parametrize("kind", OTHERS)
def test_stated_priors_shift_the_logits(kind):
    X, y = load_iris(return_X_y=True)
    known = {"classes": [0, 1, 2], "bounds": (0, 8), "epsilon": 1e6, "delta": 1e-6}
    priors = np.array([0.2, 0.5, 0.3])
    with config_context(uncounted_fits="allow"):
        plain, stated = kind(**known).fit(X, y), kind(**known, priors=priors).fit(X, y)
        with pytest.raises(ValueError, match="match number of classes"):
            kind(**known, priors=[0.5, 0.5]).fit(X, y)
        with pytest.raises(ValueError, match="needs classes"):
            kind(bounds=(0, 8), delta=1e-6, priors=priors).fit(X, y)
    odds = stated.predict_log_proba(X) - plain.predict_log_proba(X) - np.log(3 * priors)
    assert np.abs(odds - odds[:, :1]).max() < 0.05
    if kind is DPLinearDiscriminantAnalysis:
        want = LinearDiscriminantAnalysis().fit(X, y)
        same = np.corrcoef(plain.transform(X)[:, 0], want.transform(X)[:, 0])[0, 1]
        assert abs(same) > 0.999 and plain.transform(X).shape == (150, 2)
        ratios = plain.explained_variance_ratio_, want.explained_variance_ratio_
        assert np.allclose(*ratios, atol=0.01)
