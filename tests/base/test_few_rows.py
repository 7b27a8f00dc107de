"""Few rows: which noise a fit draws by public facts alone, and shares that fit the allowance."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skdp import PrivacyBudget
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.ensemble import DPExplainableBoostingRegressor
from skdp.linear_model import DPRidge
from skdp.naive_bayes import DPGaussianNB
from skdp.neighbors import DPNearestCentroid
from tests.folding import each

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = 30.0 + X[:, 0]
IDS = np.arange(200) // 2
ACCOUNTS = {
    "rows": ({}, {}, True),
    "added": ({"adjacency": "add_or_remove_one"}, {}, False),
    "units": ({"unit": "person"}, {"groups": IDS}, False),
    "gdp": ({"accountant": "gdp"}, {}, False),
    "zcdp": ({"accountant": "zcdp"}, {}, False),
}


@each("account", list(ACCOUNTS))
@each("model", [DPRidge, DPExplainableBoostingRegressor])
def test_noise_is_pure_where_the_number_of_rows_is_public_alone(model, account):
    options, of_fit, pure = ACCOUNTS[account]
    budget = PrivacyBudget(5.0, 1e-4, **options)
    estimator = model(epsilon=0.5, delta=1e-6, budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, Y, **of_fit)
    assert (estimator.privacy_.delta == 0) == pure
    assert ("Gaussian" in str(estimator.privacy_.releases)) != pure
    told = estimator.privacy_cost(n_samples=200, n_features=2)
    assert (told.delta == 0) == pure
    if not options.get("accountant"):
        assert budget.spent.delta == told.delta
    with pytest.raises(ValueError, match="n_samples"):
        estimator.privacy_cost(n_samples=-5)


def test_counts_of_classes_take_what_their_noise_asks_for():
    """Noise of 5% of a mean count for 2% of the allowance, or a second release, of 25% at most."""
    shares = {}
    for n in (100_000, 5_600, 200):
        rows, y = np.zeros((n, 1)), np.arange(n) % 4
        for model in (DPNearestCentroid, DPGaussianNB):
            fitted = model(classes=range(4), bounds=(0, 1)).fit(rows + y[:, None] % 2, y)
            counts = [r.share for r in fitted.privacy_.releases if r.name.startswith("counts of l")]
            shares[n, model] = sum(counts)
            assert len(counts) == 1 + (n < 100_000)
    # The share follows a noisy number of rows: .0604 deviates by .003, and .265 is below .2 where
    # it is 3.3 deviations above its mean.
    *many, one, other = shares.values()
    assert many == pytest.approx([0.02, 0.02, 0.0604, 0.0604], abs=0.02)
    assert 0.1 < min(one, other) <= max(one, other) < 0.266


@each("model", [DPNearestCentroid, DPLinearDiscriminantAnalysis])
@each("n", [10, 60])
def test_counts_of_classes_take_no_more_than_is_left(model, n):
    # Of fits of one column with learned bounds, two thirds (n = 10) and a third asked for more.
    y = np.arange(n) % 2
    for _ in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = model(classes=[0, 1], budget=PrivacyBudget(1.0)).fit(X[:n, :1], y)
        assert fitted.privacy_.epsilon == pytest.approx(1.0)
