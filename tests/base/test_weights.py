"""Weights of rows: what scikit-learn finds with them, what errors cover, what is refused."""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from skdp import PrivacyBudget
from skdp.cluster import DPKMeans
from skdp.engines import from_arrays
from skdp.linear_model import DPLogisticRegression
from skdp.preprocessing import DPStandardScaler
from tests.folding import each

A, R = "add_or_remove_one", "replace_one"
LOW, HIGH = np.array([-1.0, 0.0, -2.0]), np.array([1.0, 6.0, 2.0])
STATED = {"bounds": (LOW, HIGH), "weight_bound": 5.0}


def budget(relation):
    return PrivacyBudget(1e12, 0.5, adjacency=relation)


def table(n, seed):
    """Return rows, some of them beyond their bounds, and weights up to 9 that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal([0.2, 3.0, 0.0], [0.3, 1.0, 1.5], size=(n, 3))
    return X, 9 * rng.random(n) ** 2 * (X[:, 0] > 0) + 0.1


def labels(X, n_classes, seed):
    """Return labels by the rows; those of light rows go the other way."""
    logits = (X - [0.2, 3.0, 0.0]) @ [3.0, 1.0, 0.5] * np.where(X[:, 0] > 0, 1.0, -1.0)
    noise = np.random.default_rng(seed).logistic(size=len(X))
    return np.digitize(logits + noise, [0.0] if n_classes == 2 else [-1.0, 1.0])


def scaler(**options):
    return DPStandardScaler(**{**STATED, **options})


def logistic(n_classes=2, **options):
    return DPLogisticRegression(classes=range(n_classes), **{**STATED, **options})


def kmeans(**options):
    return DPKMeans(3, **{**STATED, **options})


def lloyd(**options):
    return kmeans(algorithm="lloyd", **options)


MODELS = {"scaler": scaler, "logistic": logistic, "kmeans": kmeans, "lloyd": lloyd}
COMBINATIONS = [(relation, delta) for relation in (A, R) for delta in (0.0, 1e-6)]
every_noise = pytest.mark.parametrize(("relation", "delta"), COMBINATIONS)
# Two of the four, in which each relation and each delta occurs: for what is dear.
some_noise = pytest.mark.parametrize(("relation", "delta"), [(A, 0.0), (R, 1e-6)])
every_model = pytest.mark.parametrize("kind", MODELS)


def fitted(kind, X, weights, **options):
    """Return a fit, of labels where it needs them."""
    return MODELS[kind](**options).fit(X, labels(X, 2, 0), sample_weight=weights)


# --- all of them ------------------------------------------------------------------------------


@every_model
def test_weights_are_refused_before_the_charge(kind):
    ledger = PrivacyBudget(1.0)
    X, weights = table(50, 0)
    assert has_fit_parameter(MODELS[kind](), "sample_weight")
    for bad, text in (
        (weights[:-1], "same number of rows"),
        (np.full(50, np.nan), "sample_weight contains NaN"),
        (np.full(50, np.inf), "sample_weight contains NaN or infinity"),
        (np.ones((50, 2)), "one-dimensional"),
        (["a"] * 50, "sample_weight must be real"),
    ):
        with pytest.raises(ValueError, match=text):
            fitted(kind, X, bad, budget=ledger)
    for bad in (0.0, -1.0, math.inf, math.nan, "1", True, None):
        with pytest.raises((TypeError, ValueError), match="weight_bound must be"):
            fitted(kind, X, weights, weight_bound=bad, budget=ledger)
    parts = from_arrays([X, X])
    y = from_arrays([labels(X, 2, 0)] * 2) if kind == "logistic" else None
    with pytest.raises(TypeError, match="sample_weight has no meaning for rows in parts"):
        MODELS[kind](budget=ledger).fit(parts, y, sample_weight=np.ones(100))
    assert ledger.spent.epsilon == 0


@every_model
@each("relation", [A, R])
def test_a_bound_of_weights_is_learned_for_a_fifth_of_the_allowance(kind, relation):
    X, weights = table(4000, 0)
    ledger = budget(relation)
    made = fitted(kind, X, weights, weight_bound="private", budget=ledger)
    assert 4.0 < made.weight_bound_ < 200.0
    learning = [r.share for r in made.privacy_.releases if r.name in ("locations", "distances")]
    assert 0 < sum(learning) <= 0.2
    assert ledger.spent.epsilon == pytest.approx(1.0)
    made.fit(X, labels(X, 2, 0))
    assert made.weight_bound_ is None
    nothing = fitted(kind, X, np.zeros(4000), weight_bound="private")  # which is no error
    assert nothing.weight_bound_ > 0
    with pytest.warns(UserWarning, match="hardly any weight is above 0"):
        fitted(kind, X, -np.ones(4000), weight_bound="private")


def test_weights_of_columns_with_missing_cells_are_refused():
    ledger = PrivacyBudget(1.0)
    X, weights = table(50, 0)
    with pytest.raises(ValueError, match=r"needs nan_policy='raise'.*Nothing was charged"):
        scaler(nan_policy="omit", budget=ledger).fit(X, sample_weight=weights)
    assert ledger.spent.epsilon == 0


@every_model
@each("relation", [A, R])
def test_weights_change_no_price(kind, relation):
    X, weights = table(100, 0)
    for delta in (0.0, 1e-6):
        ledger = PrivacyBudget(10.0, 1e-3, adjacency=relation)
        made = fitted(kind, X, weights, delta=delta, budget=ledger)
        without = MODELS[kind](delta=delta)
        cost = without.privacy_cost(n_features=made.n_features_in_)
        assert made.privacy_cost() == cost
        assert ledger.spent.epsilon == pytest.approx(1.0)
        assert ledger.spent.delta == cost.delta <= delta


@every_model
@each("relation", [A, R])
def test_seeded_fits_with_other_weights_share_no_noise(kind, relation):
    """And the same weights, whatever holds them, are the same; so is all above the bound."""
    X, weights = table(2000, 0)

    def found(w):
        made = fitted(kind, X, w, random_state=0, budget=budget(relation))
        if kind in ("kmeans", "lloyd"):
            return made.cluster_centers_
        return made.coef_[0] if kind == "logistic" else made.mean_

    one = found(weights)
    for same in (list(weights), pd.Series(weights), weights.astype(object)):
        np.testing.assert_array_equal(found(same), one)
    for table_of_weights in (weights[:, None], pd.DataFrame({"w": weights})):  # as scikit-learn
        with pytest.raises(ValueError, match="sample_weight must be one-dimensional"):
            found(table_of_weights)
    other = weights.copy()
    other[0] += 1e-9
    assert (found(other) != one).all()


@every_model
@each("value", [0.0, -3.0, 1e-300])
@every_noise
def test_weights_of_nothing_are_like_few_rows(kind, value, relation, delta):
    """Without a warning, whatever they are, but that released centres coincide."""
    X, _ = table(300, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=ConvergenceWarning, message=".*coincide")
        made = fitted(kind, X, np.full(300, value), delta=delta, budget=budget(relation))
    shown = {name: value for name, value in vars(made).items() if name[-1] == "_"}
    for name in ("coef_", "intercept_", "mean_", "scale_", "var_", "class_count_"):
        assert np.isfinite(shown.get(name, 0.0)).all()
    for name in ("cluster_centers_", "cluster_centers_std_", "cluster_counts_"):
        assert np.isfinite(shown.get(name, 0.0)).all()
    half = (HIGH - LOW) / 2
    if "cluster_centers_std_" in shown:  # nothing is known of them
        assert (shown["cluster_centers_std_"] > 0.2 * half).all()


@every_model
def test_users_bring_weights(kind):
    """A unit of several rows, each with a weight of its own."""
    X, weights = table(600, 0)
    ids = np.arange(600) // 3
    made = MODELS[kind](epsilon=1e4, budget=PrivacyBudget(1e6, unit="user", adjacency=R))
    made.fit(X, labels(X, 2, 0), sample_weight=weights, groups=ids)
    assert made.max_rows_per_unit_ >= 3
    if kind == "scaler":
        theirs = StandardScaler().fit(X.clip(LOW, HIGH), sample_weight=weights.clip(0, 5))
        np.testing.assert_allclose(made.mean_, theirs.mean_, atol=0.05)


# --- DPStandardScaler -------------------------------------------------------------------------


@every_noise
def test_scales_are_scikit_learns_without_noise(relation, delta):
    """Weights are clipped to their bound, which is below some of them."""
    X, weights = table(3000, 0)
    made = scaler(epsilon=1e6, delta=delta, budget=budget(relation)).fit(X, sample_weight=weights)
    theirs = StandardScaler().fit(X.clip(LOW, HIGH), sample_weight=weights.clip(0, 5))
    without = StandardScaler().fit(X.clip(LOW, HIGH))
    assert np.abs(without.mean_ - theirs.mean_).max() > 0.1
    np.testing.assert_allclose(made.mean_, theirs.mean_, atol=1e-4)
    np.testing.assert_allclose(made.var_, theirs.var_, atol=2e-4)
    np.testing.assert_allclose(made.scale_, theirs.scale_, atol=2e-4)
    assert made.n_samples_ == pytest.approx(weights.clip(0, 5).sum(), abs=0.1)


def test_fit_transform_takes_weights():
    X, weights = table(3000, 0)
    made = scaler(epsilon=1e6, budget=budget(R))
    theirs = StandardScaler().fit(X.clip(LOW, HIGH), sample_weight=weights.clip(0, 5))
    found = made.fit_transform(X, sample_weight=weights)
    np.testing.assert_allclose(found, theirs.transform(X), atol=1e-3)


def test_errors_of_learned_bounds_with_weights_are_unknown():
    X, weights = table(3000, 0)
    made = scaler(bounds="private", epsilon=10.0).fit(X, sample_weight=weights)
    for name in ("mean_std_error_", "var_std_error_", "scale_std_error_"):
        assert np.isnan(getattr(made, name)).all()
    assert np.isfinite(made.mean_).all()
    assert np.isfinite(scaler(bounds="private", epsilon=10.0).fit(X).mean_std_error_).all()


@functools.cache
def _far(relation, delta, n, kind):
    """Return how far means and variances are off, in standard errors, of 200 fits."""
    X, weights = table(n, 0)
    if kind == "light":
        weights = weights / 50.0
    if kind == "at the ends":
        X[:, :2], X[: n // 20, :2] = HIGH[:2], LOW[:2]
    theirs = StandardScaler().fit(X.clip(LOW, HIGH), sample_weight=weights.clip(0, 5))
    model = scaler(delta=delta, budget=budget(relation))
    far = []
    for _ in range(200):
        made = clone(model).fit(X, sample_weight=weights)
        far.append(
            [
                np.abs(made.mean_ - theirs.mean_) / made.mean_std_error_,
                np.abs(made.var_ - theirs.var_) / made.var_std_error_,
            ]
        )
    return np.array(far)


@pytest.mark.statistical
@each("kind", ["ordinary", "light", "at the ends"])
@each("n", [200, 5000])
@every_noise
def test_errors_cover_the_weighted_statistics(relation, delta, n, kind):
    """95% intervals of 200 fits: more than 30 of one outside are seen once in ten million times.

    Sharp, too: of ordinary weights of many rows some are outside of half an interval.
    """
    far = _far(relation, delta, n, kind)
    assert np.isfinite(far).all()
    assert ((far > 1.96).sum(axis=0) <= 30).all()
    if n > 1000 and kind == "ordinary":
        assert ((far > 0.98).sum(axis=0) >= 20).all()


@pytest.mark.statistical
@some_noise
def test_full_weights_cost_little(relation, delta):
    """Weights at their bound: errors of a mean are at most 10% above those without weights.

    Their parts of the error are those of the total weight, which costs one of 7 numbers, too.
    """
    X, _ = table(2000, 0)
    errors = []
    for weights in ({}, {"sample_weight": np.full(2000, 5.0)}):
        model = scaler(delta=delta, budget=budget(relation))
        fits = [clone(model).fit(X, **weights) for _ in range(300)]
        truth = X.clip(LOW, HIGH).mean(axis=0)
        off = [(fit.mean_ - truth) / (HIGH - LOW) for fit in fits]
        errors.append(np.sqrt(np.mean(np.square(off))))
    assert errors[1] < 1.25 * errors[0]


# --- DPLogisticRegression ---------------------------------------------------------------------


@every_noise
@each("n_classes", [2, 3])
def test_a_weight_is_a_number_of_rows(n_classes, relation, delta):
    """Rows of weight 0 are as if they were not there, those of weight k as if there k times."""
    X, _ = table(4000, 0)
    y = labels(X, n_classes, 0)
    times = np.where(X[:, 0] > 0, 4, np.arange(4000) % 2)

    def model():
        return logistic(n_classes, epsilon=1e7, delta=delta, budget=budget(relation))

    weighted = model().fit(X, y, sample_weight=1.25 * times)
    repeated = model().fit(X.repeat(times, axis=0), y.repeat(times))
    without = model().fit(X, y)
    np.testing.assert_allclose(weighted.class_count_, 1.25 * repeated.class_count_, rtol=1e-3)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=0.02, atol=0.1)
    assert np.abs(without.coef_ - repeated.coef_).max() > 0.5


@every_noise
@each("n_classes", [2, 3])
def test_probabilities_are_near_scikit_learns_without_noise(n_classes, relation, delta):
    """Rows are shortened and the descent stops early; without weights it is further off."""
    X, weights = table(4000, 0)
    X = X.clip(LOW, HIGH)
    y = labels(X, n_classes, 0)
    made = logistic(n_classes, epsilon=1e6, delta=delta, budget=budget(relation))
    made.fit(X, y, sample_weight=weights)
    theirs = LogisticRegression().fit(X, y, sample_weight=weights.clip(0, 5)).predict_proba(X)
    without = clone(made).fit(X, y)
    off, other = (np.abs(one.predict_proba(X) - theirs).mean() for one in (made, without))
    assert off < 0.12
    # Of three classes a descent is as far from scikit-learn's fit as weights move that.
    assert off < other / (1.5 if n_classes == 2 else 1.02)


def test_learned_classes_and_bounds_take_weights():
    X, weights = table(4000, 0)
    y = np.array(["no", "yes"])[labels(X, 2, 0)]
    made = DPLogisticRegression(weight_bound=5.0, epsilon=1e3, delta=1e-6)
    made.fit(X, y, sample_weight=weights)
    assert list(made.classes_) == ["no", "yes"]
    theirs = LogisticRegression().fit(X, y, sample_weight=weights.clip(0, 5))
    without = clone(made).fit(X, y)
    same, other = (np.mean(one.predict(X) == theirs.predict(X)) for one in (made, without))
    assert same > max(0.8, other + 0.05)


@pytest.mark.statistical
@some_noise
def test_full_weights_predict_as_well(relation, delta):
    """Accuracies of 50 fits each are of one distribution (Kolmogorov and Smirnov, 1e-6)."""
    X, _ = table(1500, 0)
    y = np.digitize((X - [0.2, 3.0, 0.0]) @ [3.0, 1.0, 0.5], [0.0])
    model = logistic(epsilon=1.0, delta=delta, budget=budget(relation))
    scores = [
        [clone(model).fit(X, y, **weights).score(X, y) for _ in range(50)]
        for weights in ({}, {"sample_weight": np.full(1500, 5.0)})
    ]
    assert stats.ks_2samp(*scores).pvalue > 1e-6
    assert abs(np.mean(scores[0]) - np.mean(scores[1])) < 0.02


# --- DPKMeans ---------------------------------------------------------------------------------

BLOBS = np.array([[-3.0, 0.0], [3.0, 1.0], [0.0, 4.0]])


def blobs(n, seed, d=2):
    """Return rows about three centres and weights: rows on the right of theirs are heavier."""
    rng = np.random.default_rng(seed)
    where = rng.integers(3, size=n)
    X = np.zeros((n, d))
    X[:, :2] = BLOBS[where]
    X += rng.normal(0, 0.8, size=(n, d))
    right = X[:, 0] > BLOBS[where, 0]
    return X, np.where(right, 1 + 6 * rng.random(n), 0.2)


def in_order(centers):
    return centers[np.argsort(centers[:, 0])]


@every_noise
@each("algorithm", ["tree", "lloyd"])
def test_centres_are_scikit_learns_without_noise(algorithm, relation, delta):
    """Weights are clipped to their bound, which is below some of them."""
    X, weights = blobs(6000, 0)
    model = DPKMeans(3, algorithm=algorithm, max_iter=12, bounds=(-8, 8), weight_bound=5.0)
    model.set_params(epsilon=1e6, delta=delta, budget=budget(relation), random_state=0)
    labels = model.fit_predict(X, sample_weight=weights)
    clipped = weights.clip(0, 5)
    theirs = KMeans(3, n_init=4, random_state=0).fit(X, sample_weight=clipped)
    without = KMeans(3, n_init=4, random_state=0).fit(X)
    found, exact, other = (in_order(m.cluster_centers_) for m in (model, theirs, without))
    assert np.abs(exact - other).max() > 0.3
    np.testing.assert_allclose(found, exact, atol=0.01)
    sums = np.bincount(labels, weights=clipped)
    np.testing.assert_allclose(model.cluster_counts_, sums, rtol=0.01)


def test_one_centre_is_the_weighted_mean():
    X, weights = blobs(6000, 0)
    model = DPKMeans(1, bounds=(-8, 8), weight_bound=5.0, epsilon=1e6)
    model.fit(X, sample_weight=weights)
    mean = np.average(X, axis=0, weights=weights.clip(0, 5))
    np.testing.assert_allclose(model.cluster_centers_[0], mean, atol=1e-4)


def test_weights_of_many_features_need_lloyd():
    X, weights = blobs(4000, 0, d=13)
    ledger = PrivacyBudget(1e9)
    model = DPKMeans(3, bounds=(-8, 8), weight_bound=5.0, epsilon=1e6, budget=ledger)
    with pytest.raises(ValueError, match=r"more than 12 features needs algorithm='lloyd'.*Nothing"):
        model.fit(X, sample_weight=weights)
    assert ledger.spent.epsilon == 0
    model.set_params(algorithm="lloyd", random_state=1).fit(X, sample_weight=weights)
    assert np.isfinite(model.cluster_centers_).all()


@pytest.mark.statistical
@some_noise
@pytest.mark.parametrize("algorithm", ["tree", "lloyd"])
def test_errors_of_centres_cover_the_weighted_means(algorithm, relation, delta):
    """Of rows nearest to each, about three centres in 40 fits: one in 30 beyond 3 errors, or less.

    Errors count the length of the last step, too, so most are larger than what they are about.
    """
    X, weights = blobs(5000, 0)
    # Light weights under one relation with each algorithm.
    clipped = weights.clip(0, 5) / (20.0 if (algorithm == "tree") == (relation == R) else 1.0)
    far = []
    for seed in range(40):
        model = DPKMeans(3, algorithm=algorithm, bounds=(-8, 8), weight_bound=5.0, delta=delta)
        model.set_params(budget=budget(relation), epsilon=2.0, random_state=seed)
        labels = model.fit(X, sample_weight=clipped).predict(X)
        for k in np.unique(labels):
            own = labels == k
            mean = np.average(X[own], axis=0, weights=clipped[own])
            far.append(np.abs(model.cluster_centers_[k] - mean) / model.cluster_centers_std_[k])
    assert np.mean(np.array(far) > 3) <= 1 / 30
    assert np.sqrt(np.mean(np.square(far))) < 1.6


@pytest.mark.statistical
@some_noise
@pytest.mark.parametrize("algorithm", ["tree", "lloyd"])
def test_full_weights_cluster_as_well(algorithm, relation, delta):
    """Scores of 30 fits each are of one distribution (Kolmogorov and Smirnov, 1e-6)."""
    X, _ = blobs(3000, 0)
    model = DPKMeans(3, algorithm=algorithm, bounds=(-8, 8), weight_bound=5.0, delta=delta)
    model.set_params(budget=budget(relation))
    scores = [
        [clone(model).set_params(random_state=s).fit(X, **weights).score(X) for s in range(30)]
        for weights in ({}, {"sample_weight": np.full(3000, 5.0)})
    ]
    assert stats.ks_2samp(*scores).pvalue > 1e-6
    assert np.median(scores[1]) > 1.15 * np.median(scores[0])
