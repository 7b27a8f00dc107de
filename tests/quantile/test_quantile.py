"""Medians, quantiles and what is made of them: right on enough rows, useful bounds, plain rules."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, RobustScaler

from skdp import PrivacyBudget
from skdp.quantile import DPMedian, DPQuantile, DPQuantileTransformer, DPRobustScaler
from tests.folding import each

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.lognormal(3, 1, 20_000), RNG.integers(-5, 6, 20_000)])
BOUNDS = ([0.0, -20.0], [1000.0, 20.0])
EVERY = [DPMedian(), DPQuantile(), DPRobustScaler(), DPQuantileTransformer()]
named = {"ids": lambda e: type(e).__name__}


def rank(values, quantiles):
    """Return the part of the rows below each released quantile."""
    return (values < quantiles).mean(axis=0)


# --- medians --------------------------------------------------------------------------------------


@each("delta", [0.0, 1e-6])
@each("mechanism", ["exponential", "smooth", "global"])
@each("bounds", ["private", BOUNDS], ids=["private", "stated"])
def test_medians_lie_within_their_bounds(mechanism, delta, bounds):
    median = DPMedian(mechanism=mechanism, bounds=bounds, delta=delta, random_state=0).fit(X)
    assert median.median_.shape == (2,)
    assert np.all((median.median_ >= median.bounds_[0]) & (median.median_ <= median.bounds_[1]))
    if mechanism != "global":
        # Cauchy noise is far out now and then.
        near = 0.01 if mechanism == "exponential" else 0.1
        assert abs(rank(X[:, 0], median.median_[0]) - 0.5) < near
        assert abs(median.median_[1]) < 0.1
    np.testing.assert_allclose(median.transform(X), X - median.median_)
    np.testing.assert_allclose(median.inverse_transform(median.transform(X)), X)
    np.testing.assert_array_equal(median.predict(X[:3]), [median.median_] * 3)
    certificate = median.privacy_
    assert certificate.epsilon == 1.0 and certificate.delta in (0.0, delta)
    names = [release.name for release in certificate.releases]
    learned = ["locations", "distances"] if bounds == "private" else []
    assert names[: len(learned)] == learned
    assert len(names) == len(learned) + 1
    assert sum(r.share for r in certificate.releases) == pytest.approx(1.0)


def test_laplace_noise_at_the_smooth_sensitivity_costs_delta():
    median = DPMedian(mechanism="smooth", noise="laplace", bounds=BOUNDS)
    budget = PrivacyBudget(2.0, 1e-4)
    with pytest.raises(ValueError, match="delta > 0"):
        median.set_params(budget=budget, delta=0.0).fit(X)
    assert budget.charges == []
    median.set_params(delta=1e-6).fit(X)
    cost = median.privacy_cost()
    assert (cost.epsilon, cost.delta, cost.mu) == (1.0, 1e-6, None)
    assert budget.spent.epsilon == 1.0
    assert budget.spent.delta == 1e-6
    assert median.privacy_.delta == 1e-6
    assert abs(rank(X[:, 0], median.median_[0]) - 0.5) < 0.1  # beyond with probability below 1e-6


def test_integers_have_an_integer_median():
    delays = np.repeat([-10.0, -5.0, 3.0, 60.0], [30, 45, 10, 15])[:, None]
    for seed in range(20):
        median = DPMedian(bounds=(-100, 1500), step=1, epsilon=5.0, random_state=seed)
        assert median.fit(delays).median_[0] == -5.0


@pytest.mark.statistical
@pytest.mark.parametrize("ones", [3, 4])
def test_seven_zeros_and_ones(ones):
    """The table on which the local sensitivity is 1: the odds of its median are those of ranks."""
    table = np.repeat([0.0, 1.0], [7 - ones, ones])[:, None]
    found = [
        DPMedian(bounds=(0, 1), step=1, epsilon=2.0, random_state=seed).fit(table).median_[0]
        for seed in range(1000)
    ]
    # Scores 0 and 1/2 at epsilon / 2 a rank: odds exp(1/2). Wrong with probability 1e-6: 4.9 sigma.
    mean = 1 / (1 + np.exp(0.5 if ones == 3 else -0.5))
    assert abs(np.mean(found) - mean) < 4.9 * np.sqrt(mean * (1 - mean) / 1000)


# --- quantiles ------------------------------------------------------------------------------------


@each("delta", [0.0, 1e-6])
@each("q", [0.3, [0.9], (0.25, 0.5, 0.75), np.linspace(0.05, 0.95, 19)])
def test_quantiles_have_the_shape_of_numpy_s(q, delta):
    quantile = DPQuantile(q, bounds=BOUNDS, delta=delta, epsilon=2.0, random_state=0).fit(X)
    assert quantile.quantiles_.shape == (np.size(q), 2)
    np.testing.assert_array_equal(quantile.q_, np.atleast_1d(q))
    assert np.all(np.diff(quantile.quantiles_, axis=0) >= 0)
    np.testing.assert_allclose(rank(X[:, :1], quantile.quantiles_[:, 0]), quantile.q_, atol=0.02)
    middle = quantile.quantiles_[(np.size(q) - 1) // 2]
    np.testing.assert_allclose(quantile.transform(X), X - middle)
    np.testing.assert_allclose(quantile.inverse_transform(X - middle), X)
    predicted = quantile.predict(X[:4])
    assert predicted.shape == (4, 2, np.size(q))
    np.testing.assert_array_equal(predicted[3], quantile.quantiles_.T)


def test_a_median_is_the_quantile_of_one_half():
    """The same stream of noise makes the same choice (the estimator's name keys it: no budget)."""

    class Same(DPQuantile):
        pass

    Same.__name__ = "DPQuantile"
    one = DPQuantile(0.5, bounds=BOUNDS, random_state=3).fit(X)
    two = Same(0.5, bounds=BOUNDS, random_state=3).fit(X)
    np.testing.assert_array_equal(one.quantiles_, two.quantiles_)


def test_many_levels_together_beat_one_by_one():
    """The mean rank error of 31 levels: five rounds with a fifth of epsilon, not 31 parts of it."""
    levels = np.arange(1, 32) / 32
    values = np.random.default_rng(0).uniform(0, 1, (2000, 1))
    error = {"together": 0.0, "one by one": 0.0}
    for seed in range(5):
        found = DPQuantile(levels, bounds=(0, 1), random_state=seed).fit(values).quantiles_[:, 0]
        error["together"] += np.abs(rank(values, found) - levels).mean()
        for q in levels:
            one = DPQuantile(q, bounds=(0, 1), epsilon=1 / 31, random_state=seed).fit(values)
            error["one by one"] += abs(rank(values, one.quantiles_)[0] - q) / 31
    # About 0.04 and 0.15.
    assert error["together"] < 0.6 * error["one by one"]


def test_more_levels_have_a_larger_bound():
    bound = [
        DPQuantile(np.arange(1, m + 1) / (m + 1), bounds=(0, 1)).error_bound(10**6, 1)
        for m in (1, 3, 7, 15, 31)
    ]
    assert all(a < b for a, b in itertools.pairwise(bound))


def test_a_prior_keeps_noise_of_few_rows_from_the_far_end():
    far = {"uniform": 0, "log": 0}
    for seed in range(60):
        few = np.random.default_rng(seed).lognormal(3, 1, (50, 1))
        for prior in far:
            median = DPMedian(bounds=(0, 10_000), prior=prior, epsilon=0.2, random_state=seed)
            far[prior] += float(median.fit(few).median_[0]) > 1000
    # Of 60: about 57 and 6.
    assert far["log"] < 20 < 40 < far["uniform"]


# --- expected errors ------------------------------------------------------------------------------


@each("relation", ["replace_one", "add_or_remove_one"])
@each("delta", [0.0, 1e-6])
@each("q", [0.5, (0.1, 0.2, 0.5, 0.9)])
def test_the_error_bound_is_kept(relation, delta, q):
    """Kept with probability 0.95 a level; in fact almost always, being a bound for any rows."""
    budget = PrivacyBudget(1e3, 0.1, adjacency=relation)
    quantile = DPQuantile(q, bounds=(0, 1), epsilon=1.0, delta=delta, budget=budget)
    bound = quantile.error_bound(5000, 1)
    assert 0.001 < bound < 0.5
    values = np.random.default_rng(0).uniform(0, 1, (5000, 1))
    missed = 0
    for _ in range(20):
        found = quantile.fit(values).quantiles_[:, 0]
        missed += (np.abs(rank(values, found) - np.atleast_1d(q)) > bound).sum()
    assert missed <= 2
    assert quantile.error_bound(5000) == bound  # knows its columns
    assert quantile.error_bound(10**6) < bound / 100


def test_error_bounds_of_special_cases():
    assert DPMedian(bounds=(0, 10), step=1).error_bound(1000, 1) < DPMedian(
        bounds=(0, 10)
    ).error_bound(1000, 1)
    assert DPMedian(bounds=(0, 1), epsilon=1e-3).error_bound(10, 1) == 1.0
    assert DPRobustScaler(with_centering=False, with_scaling=False).error_bound(10, 1) == 0.0
    assert 0 < DPQuantileTransformer(bounds=(0, 1)).error_bound(10**5, 2) < 1
    assert DPMedian(bounds=(-1e308, 1e308), step=1e-300).error_bound(10**5, 1) < 1
    for mechanism in ("smooth", "global"):
        with pytest.raises(ValueError, match="exponential"):
            DPMedian(mechanism=mechanism).error_bound(100, 1)
    with pytest.raises(ValueError, match="n_features"):
        DPMedian().error_bound(100)


@pytest.mark.parametrize("estimator", EVERY, **named)
def test_error_bounds_need_stated_bounds(estimator):
    """Learned bounds may be anywhere: no bound of the error would be true."""
    with pytest.raises(ValueError, match="bounds must be stated for error_bound"):
        estimator.error_bound(10**6, 1)
    stated = clone(estimator).set_params(bounds=(0, 1))
    assert 0 < stated.error_bound(10**6, 1) < 0.01


def test_the_error_bound_is_that_of_rows_rounded_to_candidates():
    """Candidates are 0.4 apart, so nearly all rows are candidate 0: any level has it."""
    values = np.random.default_rng(0).normal(size=(5000, 1)) / 100
    median = DPMedian(bounds=(-1e5, 1e5), random_state=0).fit(values)
    assert abs(median.median_[0]) < 0.4 and median.error_bound(5000, 1) < 0.02


# --- learned bounds -------------------------------------------------------------------------------


def test_medians_of_few_rows_with_learned_bounds():
    """Half of them were off by 5% of the rows or more, and of 5,000 spread rows a quarter."""
    for draw, n in (("normal", 1000), ("exponential", 1000), ("lognormal", 5000)):
        scale = {"lognormal": {"sigma": 4}}.get(draw, {})
        off = []
        for seed in range(15):
            values = getattr(np.random.default_rng(seed), draw)(size=(n, 1), **scale)
            median = DPMedian(random_state=seed).fit(values)
            off.append(abs(rank(values, median.median_)[0] - 0.5))
        assert np.median(off) < 0.005 and np.sort(off)[-3] < 0.02


def test_where_learned_bounds_end():
    """At 2**89, and at 2**-81 towards 0, whatever the rows; their widening adds two of them."""
    assert 2.0**88 <= DPMedian(epsilon=100.0).fit(np.full((2000, 1), 1e30)).bounds_[1][0] <= 2.0**92
    table = np.full((2000, 1), 1e-30)
    found = [DPMedian(epsilon=100.0, random_state=i).fit(table).median_[0] for i in range(9)]
    # In about one run of 15 the audit of the ends leaves them wider; five such of nine: 1e-4.
    assert np.median(np.abs(found)) <= 2.0**-79


# --- steps, and parameters without effect ---------------------------------------------------------


@pytest.mark.parametrize("estimator", EVERY, **named)
def test_a_step_without_a_multiple_within_stated_bounds_is_refused(estimator):
    budget = PrivacyBudget(1.0)
    options = {"bounds": ([0.0, 0.2], [1.0, 0.4]), "step": 1, "budget": budget}
    wrong = clone(estimator).set_params(**options)
    with pytest.raises(ValueError, match=r"step must have a multiple within bounds, .*0\.4\)"):
        wrong.fit(np.ones((50, 2)))
    with pytest.raises(ValueError, match="step must have a multiple within bounds"):
        wrong.error_bound(100, 2)
    assert budget.charges == []
    good = clone(estimator).set_params(bounds=(1, 1), step=1).fit(np.ones((50, 2)))
    assert np.isfinite(good.transform(np.ones((3, 2)))).all()
    learned = clone(estimator).set_params(step=1e9, random_state=0).fit(np.ones((2000, 2)))
    assert np.isfinite(learned.transform(np.ones((3, 2)))).all()  # rows decide: nothing raises


@pytest.mark.parametrize("estimator", [DPMedian(), DPQuantile(0.3)], **named)
@each(
    ("parameters", "names"),
    [
        ({"mechanism": "smooth", "step": 1}, ["step=1", "'smooth'"]),
        ({"mechanism": "global", "step": 1}, ["step=1", "'global'"]),
        ({"mechanism": "smooth", "prior": "log"}, ["prior='log'", "'smooth'"]),
        ({"mechanism": "global", "prior": "log"}, ["prior='log'", "'global'"]),
        ({"mechanism": "exponential", "noise": "student"}, ["noise='student'", "'exponential'"]),
        ({"mechanism": "global", "noise": "laplace"}, ["noise='laplace'", "'global'"]),
    ],
)
def test_parameters_without_effect_are_refused(estimator, parameters, names):
    budget = PrivacyBudget(1.0)
    fresh = clone(estimator).set_params(bounds=(0, 1), budget=budget, **parameters)
    with pytest.raises(ValueError, match="mechanism") as caught:
        fresh.fit(np.ones((50, 1)))
    assert all(name in str(caught.value) for name in names)
    assert budget.charges == []


@each(
    ("q", "error", "text"),
    [
        ([0.5, 1.5], ValueError, "1.5 is not in"),
        (-0.25, ValueError, "-0.25 is not in"),
        (10**400, ValueError, "inf is not in"),
        ([0.5, 10**400], ValueError, "inf is not in"),
        ([0.5, np.nan], ValueError, "nan is not in"),
        ([0.5, 0.25], ValueError, "0.25 comes after 0.5"),
        ([0.5, 0.5], ValueError, "0.5 comes after 0.5"),
        ([], ValueError, "got none"),
        ([[0.1, 0.5]], ValueError, "2 dimensions"),
        ([[0.1], [0.2, 0.5]], ValueError, "different lengths"),
        ("half", TypeError, "got str"),
        ([0.5, None], TypeError, "got NoneType"),
        (True, TypeError, "got bool"),
        (1j, TypeError, "got complex"),
    ],
)
def test_what_is_wrong_with_levels_is_said(q, error, text):
    budget = PrivacyBudget(1.0)
    with pytest.raises(error, match="q must be a number in") as caught:
        DPQuantile(q, bounds=(0, 1), budget=budget).fit(np.ones((50, 1)))
    assert text in str(caught.value)
    assert budget.charges == []


# --- robust scaling -------------------------------------------------------------------------------


@each("unit_variance", [False, True])
@each("quantile_range", [(25.0, 75.0), (5, 95), (60.0, 80.0), (7, 50)])
def test_robust_scaler_is_near_scikit_learn_s(quantile_range, unit_variance):
    parameters = {"quantile_range": quantile_range, "unit_variance": unit_variance}
    scaler = DPRobustScaler(bounds=BOUNDS, epsilon=20.0, random_state=0, **parameters).fit(X)
    peer = RobustScaler(**parameters).fit(X)
    np.testing.assert_allclose(scaler.center_, peer.center_, rtol=0.01, atol=0.01)
    np.testing.assert_allclose(scaler.scale_, peer.scale_, rtol=0.01)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, atol=1e-9)


def test_parts_of_the_robust_scaler():
    options = {"bounds": BOUNDS, "random_state": 0}
    centred = DPRobustScaler(with_scaling=False, **options).fit(X)
    assert centred.scale_ is None and len(centred.privacy_.releases) == 1
    np.testing.assert_allclose(centred.transform(X), X - centred.center_)
    scaled = DPRobustScaler(with_centering=False, **options).fit(X)
    assert scaled.center_ is None
    np.testing.assert_allclose(scaled.transform(X), X / scaled.scale_)
    budget = PrivacyBudget(1.0)
    free = DPRobustScaler(with_centering=False, with_scaling=False, budget=budget).fit(X)
    assert free.privacy_cost() is None and budget.charges == []
    assert free.privacy_.epsilon == 0 and free.bounds_ is None
    np.testing.assert_array_equal(free.transform(X), X)


@each("n", [1, 2, 50, 2000])
@each("value", [0.0, 3.0, -1e300])
def test_constant_columns_are_scaled_by_something_finite(n, value):
    for bounds in ("private", (value - 1, value + 1), (value, value)):
        scaler = DPRobustScaler(bounds=bounds, random_state=0).fit(np.full((n, 2), value))
        assert np.all(scaler.scale_ > 0)
        assert np.isfinite(scaler.transform(np.full((n, 2), value))).all()
    if abs(value) < 10 and n == 2000:
        scaler = DPRobustScaler(bounds=(-10, 10), step=1, random_state=0)
        scaler.fit(np.full((n, 2), value))
        np.testing.assert_array_equal(scaler.center_, value)
        np.testing.assert_array_equal(scaler.scale_, 1.0)


# --- quantile transform ---------------------------------------------------------------------------


@pytest.mark.parametrize("output_distribution", ["uniform", "normal"])
def test_quantile_transformer_is_near_scikit_learn_s(output_distribution):
    ours = DPQuantileTransformer(
        output_distribution=output_distribution, bounds=BOUNDS, epsilon=20.0, random_state=0
    ).fit(X)
    peer = QuantileTransformer(n_quantiles=500, output_distribution=output_distribution).fit(X)
    middle = X[:2000]
    found, expected = ours.transform(middle), peer.transform(middle)
    inside = np.abs(rank(X[:, :1], middle[:, 0]) - 0.5) < 0.4
    assert np.abs(found[inside, 0] - expected[inside, 0]).max() < 0.05
    assert np.all(np.diff(found[np.argsort(middle[:, 0]), 0]) >= 0)
    assert np.isfinite(ours.transform(1e308 * np.array([[1.0, -1.0]]))).all()


def test_quantile_transform_and_its_inverse_are_monotone_and_meet():
    transformer = DPQuantileTransformer(bounds=BOUNDS, random_state=0).fit(X)
    assert transformer.quantiles_.shape == (33, 2)
    assert np.all(np.diff(transformer.quantiles_, axis=0) >= 0)
    np.testing.assert_array_equal(transformer.quantiles_[[0, -1]], transformer.bounds_)
    grid = np.linspace(0, 1000, 500)
    levels = transformer.transform(np.column_stack([grid, grid / 50 - 10]))
    assert np.all(np.diff(levels, axis=0) >= 0) and levels.min() >= 0 and levels.max() <= 1
    back = transformer.inverse_transform(levels)[:, 0]
    np.testing.assert_allclose(back, grid, rtol=1e-6, atol=1e-6)
    assert np.all(
        np.diff(transformer.inverse_transform(np.tile(np.linspace(-1, 2), (2, 1)).T), axis=0) >= 0
    )


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", EVERY, **named)
@each("relation", ["replace_one", "add_or_remove_one"])
def test_a_fit_is_charged_once(estimator, relation):
    budget = PrivacyBudget(2.0, adjacency=relation)
    fitted = clone(estimator).set_params(budget=budget, epsilon=0.5).fit(X)
    assert budget.spent.epsilon == 0.5 and len(budget.charges) == 1
    assert fitted.privacy_cost().epsilon == 0.5
    assert fitted.privacy_.adjacency == relation and fitted.privacy_.charged


@pytest.mark.parametrize("estimator", EVERY, **named)
def test_no_rows_are_rows_where_their_number_is_private(estimator):
    budget = PrivacyBudget(2.0, adjacency="add_or_remove_one")
    fitted = clone(estimator).set_params(budget=budget, bounds=(0, 1)).fit(np.empty((0, 2)))
    assert np.isfinite(fitted.transform(np.zeros((3, 2)))).all()
    assert fitted.transform(np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("estimator", EVERY, **named)
@each(
    "table",
    [np.full((5, 2), 1e308), np.array([[-1e308, 1e308]] * 4), np.full((1, 1), 5e-324)],
    ids=["huge", "wide", "tiny"],
)
def test_extreme_values(estimator, table):
    for bounds in ("private", (-1e308, 1e308), (0, 1)):
        fitted = clone(estimator).set_params(bounds=bounds, random_state=0).fit(table)
        assert np.isfinite(fitted.transform(table)).all()
        assert np.isfinite(fitted.inverse_transform(table)).all()


@pytest.mark.parametrize("estimator", EVERY, **named)
def test_tables_with_names(estimator):
    frame = pd.DataFrame(X[:200], columns=["a", "b"])
    fitted = clone(estimator).set_params(random_state=0).set_output(transform="pandas").fit(frame)
    assert list(fitted.transform(frame).columns) == ["a", "b"]
    assert make_pipeline(clone(estimator), DPMedian()).fit(frame).transform(frame).shape == (200, 2)


@each("relation", ["replace_one", "add_or_remove_one"])
@each(("noise", "delta"), [("cauchy", 0.0), ("student", 0.0), ("cauchy", 1e-6)])
def test_quantiles_with_noise_of_smooth_scale(relation, noise, delta):
    """Each level has the error of one release at a third of the allowance; they do not cross."""
    X = np.random.default_rng(0).normal(size=(4000, 2))
    budget = PrivacyBudget(10.0, 1e-3, adjacency=relation)
    options = {"bounds": (-5, 5), "mechanism": "smooth", "noise": noise, "random_state": 0}
    fit = DPQuantile(epsilon=6.0, delta=delta, budget=budget, **options).fit(X)
    assert budget.spent.epsilon == 6.0
    assert np.all(np.diff(fit.quantiles_, axis=0) >= 0)
    # Cauchy noise of 12 standard deviations has a chance of 5% each, at no seed above.
    np.testing.assert_allclose(fit.quantiles_, np.quantile(X, fit.q_, axis=0), atol=0.2)
    shares = [release.share for release in fit.privacy_.releases]
    assert sum(shares) == pytest.approx(1.0)
    assert len(shares) == 3


def test_laplace_noise_serves_one_level():
    X = np.zeros((50, 1))
    budget = PrivacyBudget(10.0, 1e-3)
    options = {"mechanism": "smooth", "noise": "laplace", "delta": 1e-6, "budget": budget}
    with pytest.raises(ValueError, match="allows one level only"):
        DPQuantile([0.2, 0.5], bounds=(0, 1), **options).fit(X)
    assert budget.spent.epsilon == 0
    DPQuantile(0.2, bounds=(0, 1), **options).fit(X)
    assert (budget.spent.epsilon, budget.spent.delta) == (1.0, 1e-6)


def test_noise_that_the_kernel_cannot_draw_is_refused_before_the_charge():
    budget = PrivacyBudget(10.0)
    options = {"mechanism": "smooth", "noise": "student", "bounds": (0, 1), "budget": budget}
    with pytest.raises(ValueError, match="epsilon"):
        DPMedian(epsilon=1e-6, **options).fit(np.zeros((5, 3000)))
    assert budget.spent.epsilon == 0


def test_bounds_as_wide_as_floats_are_have_a_certificate():
    budget = PrivacyBudget(10.0)
    median = DPMedian(mechanism="smooth", bounds=(-1e308, 1e308), budget=budget)
    median.fit(np.zeros((99, 1)))
    assert median.privacy_.to_dict()["releases"][0]["sensitivity"] is None


def test_a_step_divides_its_bounds_as_decimals():
    """Three tenths are three times a tenth, which floats would not say."""
    model = DPMedian(bounds=(0, 0.3), step=0.1, epsilon=1e6, random_state=0)
    assert model.fit(np.full((50, 1), 0.3)).median_[0] == 0.3
    model = DPMedian(bounds=(0.7, 2.1), step=0.7, epsilon=1e6, random_state=0)
    assert model.fit(np.full((50, 1), 9.0)).median_[0] == pytest.approx(2.1)
