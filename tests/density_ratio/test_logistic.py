"""DPLogisticRatio: weights of a logistic regression, whatever the rows; what is charged for them.

Statistical tests use fixed seeds, so they pass or fail once and for all; each states how far a
correct fit would be from failing.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdp import DPLogisticRatio, PrivacyBudget
from skdp.audit import neighbour_check, replay_check
from skdp.density_ratio import stack_samples
from skdp.density_ratio._ratio import ridge_rule
from tests.folding import each

RELATIONS = ["replace_one", "add_or_remove_one"]
R, A = RELATIONS
RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(0, 1, (200, 2))
PRIVATE = RNG.normal(0.7, 1, (2000, 2))
X, Y = stack_samples(private=PRIVATE, public=PUBLIC)
BOX = (-4.0, 4.0)


def budget(adjacency, epsilon=1e9, **options):
    return PrivacyBudget(epsilon, 0.5, adjacency=adjacency, **options)


def paper(rng):
    """Return the samples of the source's experiment and the true ratio at the public rows."""
    public, private = rng.normal(1, 1, (50, 1)), rng.normal(2, 0.5, (2000, 1))
    true = stats.norm.pdf(public[:, 0], 2, 0.5) / stats.norm.pdf(public[:, 0], 1, 1)
    return private, public, true


def shifted(rng, d, n=2000, n_public=200):
    """Return samples that differ by a shift of one standard deviation, and the true ratio."""
    mean = np.full(d, 1 / math.sqrt(d))
    public, private = rng.normal(size=(n_public, d)), rng.normal(size=(n, d)) + mean
    return private, public, np.exp(public @ mean - 0.5)


# --- the weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_almost_without_noise_they_are_those_of_a_logistic_regression(adjacency):
    model = DPLogisticRatio(2.0, bounds=BOX, epsilon=1e7, budget=budget(adjacency)).fit(X, Y)
    clipped = np.clip(np.vstack([PRIVATE, PUBLIC]), *BOX)
    # A box of ±4 in two columns: ||x|| <= sqrt(32), half of the unit for rows and intercept each.
    Z = np.column_stack([clipped / math.sqrt(64), np.full(len(clipped), math.sqrt(0.5))])
    marks = np.repeat([1, 0], [2000, 200])
    oracle = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12, max_iter=1000).fit(
        Z, marks, sample_weight=np.where(marks == 1, 1.0, 10.0)
    )
    scores = Z @ oracle.coef_[0]
    expected = np.exp(scores[2000:]) / np.exp(scores[2000:]).mean()
    np.testing.assert_allclose(model.predict(PUBLIC), expected, rtol=2e-3)
    np.testing.assert_allclose(model.coef_, oracle.coef_[0, :2] / math.sqrt(64), rtol=2e-3)
    straight = model.intercept_ + (np.clip(PUBLIC, *BOX) - model.center_) @ model.coef_
    np.testing.assert_allclose(np.log(model.predict(PUBLIC)), straight, atol=1e-3)


@each("delta", [0.0, 1e-6])
@each("adjacency", RELATIONS)
@each("bounds", ["public", BOX])
def test_weights_have_mean_one_and_move_the_public_mean(adjacency, delta, bounds):
    model = DPLogisticRatio(
        bounds=bounds, epsilon=2.0, delta=delta, budget=budget(adjacency), random_state=0
    ).fit(X, Y)
    weights = model.predict(PUBLIC)
    assert weights.mean() == pytest.approx(1) and weights.min() >= 0
    moved = np.average(PUBLIC, axis=0, weights=weights)
    # The noise of the weighted mean is 0.055; shrinkage takes away 0.25.
    np.testing.assert_allclose(moved, 0.7, atol=0.5)
    assert 20 < model.effective_sample_size_ < 200
    assert 0 < model.noise_std_ < 0.5
    assert model.score(X, Y) > -0.5  # that of equal weights is 1/2 at best: 1 - 1/2


MOST = {"paper": (1.45, 1.6, 4.0), "2": (1.0, 0.3, 0.12), "5": (1.3, 0.65, 0.25)}


@pytest.mark.parametrize("case", MOST)
def test_the_rule_for_the_ridge_is_decent_everywhere(case):
    """Median squared error over 11 draws; equal weights have about 1.6.

    The linear model does not hold for the source's samples, whose variances differ, and a better
    fit of it is no better estimate there.
    """
    for epsilon, most in zip((0.1, 1.0, 10.0), MOST[case], strict=True):
        errors = []
        for seed in range(11):
            rng = np.random.default_rng(seed)
            private, public, true = paper(rng) if case == "paper" else shifted(rng, int(case))
            data = stack_samples(private=private, public=public)
            model = DPLogisticRatio(epsilon=epsilon, random_state=seed).fit(*data)
            errors.append(np.mean((model.predict(public) - true) ** 2))
        assert np.median(errors) < most, (case, epsilon, np.median(errors))


@pytest.mark.statistical
def test_the_stated_noise_is_the_noise():
    """Standard deviation over 200 fits with one ridge, against what the fits say, to 25%."""
    predictions, said = [], []
    for seed in range(200):
        model = DPLogisticRatio(20.0, epsilon=2.0, random_state=seed).fit(X[:600], Y[:600])
        predictions.append(model.predict(PUBLIC))
        said.append(model.noise_std_)
    measured = math.sqrt(np.var(predictions, axis=0).mean())
    assert 0.8 < measured / np.mean(said) < 1.25


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_expected_error_is_the_noise_that_a_fit_adds(adjacency, delta):
    model = DPLogisticRatio(bounds=BOX, delta=delta, budget=budget(adjacency), random_state=0)
    expected = model.expected_error(2000, PUBLIC)
    assert model.budget.spent.epsilon == 0
    model.fit(X, Y)
    release = model.privacy_.releases[-1]
    std = release.scale * (1.0 if model.privacy_.mu else math.sqrt(4))
    spread = math.sqrt((PUBLIC.var(axis=0) / 64).sum())
    assert expected == pytest.approx(std * spread, rel=0.05)
    assert expected > DPLogisticRatio(bounds=BOX, delta=delta).expected_error(20_000, PUBLIC)
    with pytest.raises((TypeError, ValueError), match="n_samples"):
        model.expected_error(0, PUBLIC)


def test_the_rule_follows_its_arguments():
    base = ridge_rule(1000, 0.02, 3, 1.0)
    assert ridge_rule(4000, 0.02, 3, 1.0) == pytest.approx(2 * base)
    assert ridge_rule(1000, 0.02, 3, 4.0) == pytest.approx(2 * base)
    assert ridge_rule(1000, 0.0, 3, 1.0) > 0
    assert ridge_rule(2.0**32, 1.0, 3, 1e30) <= 1e12


# --- awkward samples -----------------------------------------------------------------------------


@each("adjacency", RELATIONS)
@each("epsilon", [1e-3, 1e6])
@each("alpha", ["auto", 1e-6, 1e12])
def test_weights_are_finite_and_not_negative_always(adjacency, epsilon, alpha):
    rng = np.random.default_rng(0)
    tables = {
        "constant": (np.ones((20, 2)), np.ones((5, 2))),
        "one each": (np.zeros((1, 2)), np.ones((1, 2))),
        "far apart": (np.full((30, 2), 1e300), np.full((5, 2), -1e300)),
        "tiny": (np.full((30, 2), 5e-324), np.zeros((5, 2))),
        "separable": (np.full((30, 2), 3.0), rng.normal(-3, 0.1, (9, 2))),
    }
    for bounds in ("public", (-1e300, 1e300), (2.0, 2.0), (0.0, 1e-310)):
        for private, public in tables.values():
            data = stack_samples(private=private, public=public)
            model = DPLogisticRatio(
                alpha, bounds=bounds, epsilon=epsilon, budget=budget(adjacency, 1e9)
            ).fit(*data)
            for rows in (public, private, [[1e308, -1e308]]):
                weights = model.predict(rows)
                assert np.isfinite(weights).all() and weights.min() >= 0
            assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_)
            assert np.isfinite(model.noise_std_)
            assert 0 < model.effective_sample_size_ <= len(public) * (1 + 1e-9)
            assert model.predict(public).mean() == pytest.approx(1)


def test_no_private_rows_are_a_sample_where_their_number_is_private():
    model = DPLogisticRatio(budget=budget(A)).fit(PUBLIC, np.zeros(200))
    assert np.isfinite(model.predict(PUBLIC)).all()
    with pytest.raises(ValueError, match="private"):
        DPLogisticRatio(budget=budget(R)).fit(PUBLIC, np.zeros(200))


@each(
    ("options", "match"),
    [
        ({"alpha": "best"}, "alpha"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"alpha": True}, "alpha"),
        ({"alpha": [1.0]}, "alpha"),
        ({"bounds": "private"}, "bounds"),
        ({"bounds": (1.0, 0.0)}, "bounds"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
    ],
)
def test_bad_parameters_are_refused_before_the_charge(options, match):
    shared = budget(R)
    with pytest.raises((TypeError, ValueError), match=match):
        DPLogisticRatio(**{"budget": shared, **options}).fit(X, Y)
    with pytest.raises(ValueError, match="no public row"):
        DPLogisticRatio(budget=shared).fit(X, np.ones(len(X)))
    assert shared.spent.epsilon == 0


# --- privacy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_the_ledger_and_the_certificate_hold_what_was_released(adjacency, delta):
    shared = PrivacyBudget(3.0, 1e-5, adjacency=adjacency)
    model = DPLogisticRatio(epsilon=0.5, delta=delta, budget=shared).fit(X, Y)
    assert shared.spent.epsilon == 0.5 and shared.spent.delta in (0.0, delta)
    names = [r.name for r in model.privacy_.releases]
    assert names == (["count"] if adjacency == A else []) + ["logistic regression"]
    assert sum(r.share for r in model.privacy_.releases) == pytest.approx(1)
    assert model.privacy_cost().epsilon == 0.5
    sensitivity = model.privacy_.releases[-1].sensitivity * model.alpha_
    assert sensitivity == pytest.approx(1.002 if adjacency == A else math.sqrt(2) + 0.002, rel=1e-3)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_replay_and_neighbours(adjacency, delta):
    model = DPLogisticRatio(bounds=BOX, delta=delta, budget=budget(adjacency))
    few, public = PRIVATE[:30], PUBLIC[:10]
    other = -few if adjacency == R else -few[:-5]
    first = np.vstack([public, few]), np.repeat([0, 1], [10, 30])
    second = np.vstack([public, other]), np.repeat([0, 1], [10, len(other)])
    replay_check(model, first[0], second[0], y=first[1], y_other=second[1], X_public=public)
    ends = np.array([[4.0, 4.0]]), np.array([[-4.0, -4.0]])
    data = np.vstack([first[0], ends[0]]), np.append(first[1], 1)
    near = (np.vstack([first[0], ends[1]]), data[1]) if adjacency == R else first
    found = neighbour_check(model, data[0], near[0], y=data[1], y_neighbour=near[1])
    assert 0 < found[-1].distance <= found[-1].sensitivity


# --- scikit-learn --------------------------------------------------------------------------------


def test_it_clones_keeps_names_and_works_in_a_pipeline():
    frame = pd.DataFrame(X, columns=["a", "b"])
    shared = budget(R)
    model = DPLogisticRatio(budget=shared, random_state=0)
    fitted = clone(model).fit(frame, Y)
    assert fitted.feature_names_in_.tolist() == ["a", "b"] and fitted.n_features_in_ == 2
    np.testing.assert_array_equal(
        fitted.predict(frame), DPLogisticRatio(random_state=0).fit(frame, Y).predict(frame)
    )
    pipeline = make_pipeline(FunctionTransformer(), model).fit(X, Y)
    assert pipeline.predict(PUBLIC).shape == (200,)
    assert shared.spent.epsilon == 2.0
