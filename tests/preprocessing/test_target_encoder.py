"""`DPTargetEncoder`: scikit-learn's encodings without noise, the mean where noise hides all."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.preprocessing import TargetEncoder

from skdp import PrivacyBudget, make_private
from skdp.preprocessing import DPOrdinalEncoder, DPTargetEncoder
from tests.folding import each

pd = pytest.importorskip("pandas")

QUIET = {"epsilon": 1e6, "delta": 0.0}
CITIES = [f"c{i:02d}" for i in range(30)]


def table(n=4000, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.integers(0, 30, n)
    rooms = rng.integers(1, 4, n).astype(float)
    y = spread * rng.normal(size=30)[city] + 0.3 * spread * rooms + rng.normal(size=n)
    return pd.DataFrame({"city": np.array(CITIES)[city], "rooms": rooms}), np.clip(y, -6, 6)


STATED = {"categories": [CITIES, [1.0, 2.0, 3.0]], "target_bounds": (-6, 6)}


@each("smooth", [0.0, 25.0])
def test_without_noise_it_is_scikit_learns(smooth):
    X, y = table()
    ours = DPTargetEncoder(smooth=smooth, **STATED, **QUIET).fit(X, y)
    theirs = TargetEncoder(smooth=smooth, target_type="continuous").fit(X, y)
    for a, b in zip(ours.encodings_, theirs.encodings_, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
    assert ours.target_mean_ == pytest.approx(theirs.target_mean_, abs=1e-3)
    assert ours.get_feature_names_out().tolist() == ["city", "rooms"]
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-3)
    frame = ours.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["city", "rooms"]


def test_auto_smoothing_is_near_scikit_learns():
    X, y = table()
    ours = DPTargetEncoder(**STATED, **QUIET).fit(X, y)
    theirs = TargetEncoder(target_type="continuous").fit(X, y)
    assert np.abs(ours.encodings_[0] - theirs.encodings_[0]).max() < 0.05


def test_binary_targets():
    X, y = table()
    words = np.where(y > 0.5, "yes", "no")
    ours = DPTargetEncoder(categories=STATED["categories"], smooth=5.0, classes=["no", "yes"])
    ours.set_params(**QUIET).fit(X, words)
    theirs = TargetEncoder(smooth=5.0).fit(X, words)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-3)
    assert ours.classes_.tolist() == theirs.classes_.tolist() == ["no", "yes"]
    assert (ours.target_type_, ours.target_bounds_) == ("binary", (0.0, 1.0))
    booleans = clone(ours).set_params(classes=None).fit(X, y > 0.5)
    np.testing.assert_allclose(booleans.transform(X), ours.transform(X), atol=1e-3)
    with pytest.raises(ValueError, match="for each, to y == label"):
        clone(ours).set_params(classes=[0, 1, 2]).fit(X, words)


def test_unknown_and_missing_cells_are_the_mean_unless_stated():
    X = pd.DataFrame({"a": ["u", "v", None, "w"] * 500})
    y = np.array([0.0, 1.0, 1.0, 0.0] * 500)
    options = {"target_bounds": (0, 1), **QUIET}
    some = DPTargetEncoder(categories=[["u", "v"]], **options).fit(X, y)
    assert some.transform(X[:4]).ravel().round(2).tolist() == [0.0, 1.0, 0.5, 0.5]
    every = DPTargetEncoder(categories=[["u", "v", None]], **options).fit(X, y)
    assert every.transform(X[:4]).ravel().round(2).tolist() == [0.0, 1.0, 1.0, 0.5]
    assert np.isfinite(every.fit_transform(X, y)).all()


@each("relation", ["replace_one", "add_or_remove_one"])
def test_all_is_learned_in_one_charge(relation):
    X, y = table(20_000)
    budget = PrivacyBudget(3.0, 1e-6, adjacency=relation)
    encoder = DPTargetEncoder(epsilon=3.0, delta=1e-6, budget=budget)
    cost = encoder.privacy_cost()
    encoder.fit(X, y)
    assert (budget.spent.epsilon, budget.spent.delta) == (cost.epsilon, cost.delta) == (3.0, 1e-6)
    assert sorted(encoder.categories_[0]) == sorted(CITIES)
    assert encoder.categories_[1].tolist() == [1.0, 2.0, 3.0]
    assert r2_score(y, encoder.transform(X)[:, 0]) > 0.3
    low, high = encoder.target_bounds_
    assert low < high
    with pytest.raises(AttributeError, match="partial_fit"):
        encoder.partial_fit(X, y)


@pytest.mark.statistical
@each("epsilon", [1.0, 3.0])
def test_it_is_no_worse_than_the_mean_and_its_errors_hold(epsilon):
    """Encodings without effects are near the mean, with them near the rows' own means."""
    options = {"epsilon": epsilon, **STATED}
    worse, within = [], []
    for seed in range(20):
        X, y = table(spread=0.0, seed=seed)
        worse.append(r2_score(y, DPTargetEncoder(**options).fit(X, y).transform(X)[:, 0]))
        X, y = table(spread=1.0, seed=seed)
        fit = DPTargetEncoder(**options).fit(X, y)
        for j, name in enumerate(X.columns):
            means = pd.Series(y).groupby(X[name].to_numpy()).mean()[fit.categories_[j]]
            errors = np.abs(fit.encodings_[j] - means) / fit.encodings_std_error_[j]
            within.extend(errors.dropna())
    found = float(np.mean(worse)), float(np.mean(np.array(within) < 2))
    assert found[0] > -0.03, found
    assert found[1] > 0.88, found


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_few_rows_without_bounds_are_encoded_by_a_point(epsilon):
    """Learned bounds of so few rows had a mean R squared of -1e6 and less."""
    scores = []
    for seed in range(12):
        X, y = table(300, seed=seed)
        with pytest.warns(UserWarning, match="one point amid the targets"):
            encoder = DPTargetEncoder(categories=STATED["categories"], epsilon=epsilon).fit(X, y)
        assert np.ptp(encoder.encodings_[0]) == 0.0
        scores.append(r2_score(y, encoder.transform(X)[:, 0]))
    assert np.median(scores) > -0.5


def test_targets_that_cannot_be_read_are_refused_before_the_charge():
    X, y = table(50)
    budget = PrivacyBudget(1.0)
    encoder = DPTargetEncoder(**STATED, budget=budget)
    for bad in (np.where(y > 0, "yes", "no"), np.where(y > 2, np.nan, y), y[:-1], None):
        with pytest.raises(ValueError, match="y"):
            clone(encoder).fit(X, bad)
    with pytest.raises(ValueError, match="target_bounds"):
        clone(encoder).set_params(target_bounds=(1, 0)).fit(X, y)
    assert budget.spent.epsilon == 0


def test_a_target_without_width():
    X, _ = table(200)
    encoder = DPTargetEncoder(**{**STATED, "target_bounds": (5, 5)}).fit(X, np.full(200, 5.0))
    assert np.allclose(encoder.transform(X), 5.0)


def test_expected_error_and_make_private():
    X, y = table(300)
    encoder = DPTargetEncoder(**STATED)
    assert encoder.expected_error(3000, like=(X, y)) > encoder.expected_error(10**5, like=(X, y))
    private = make_private(TargetEncoder(smooth=3.0, cv=3), **STATED)
    private = getattr(private, "estimator", private)
    assert (type(private), private.smooth) == (DPTargetEncoder, 3.0)


def test_counts_of_private_booleans():
    """A type that lists its values needs a selection all the same."""
    X = pd.DataFrame({"owned": [True, False] * 500})
    encoder = DPOrdinalEncoder(min_frequency=10, delta=1e-6).fit(X)
    assert encoder.categories_[0].tolist() == [False, True]
