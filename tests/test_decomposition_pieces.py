"""The pieces of DPPCA: noise of the spectrum, plans of shares, shrinkage, expected errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from skdp import PrivacyBudget, decomposition, planning
from skdp.decomposition import DPPCA
from skdp.planning import Allowance


def test_wishart_edge_is_the_minimum_of_its_transform():
    oracle = minimize_scalar(
        lambda z: (1 + z**2) / (z - z**3), bounds=(0.01, 0.99), method="bounded"
    )
    assert oracle.fun == pytest.approx(planning.WISHART_EDGE, rel=1e-6)
    rng = np.random.default_rng(0)
    G, H = rng.normal(size=(2, 300, 301))
    top = np.linalg.eigvalsh(G @ G.T - H @ H.T)[-1] / 300
    assert 0.97 < top / planning.WISHART_EDGE < 1.03


def test_auto_takes_the_smaller_spectral_noise():
    pure, gaussian = Allowance(1.0), Allowance(1.0, mu=0.2)
    assert pure.gram_noise("auto", 5) == "wishart"
    assert gaussian.gram_noise("auto", 5) == "gaussian"
    # mu = 40 implies a pure epsilon of 204, and 1.67 * 5 / 204 < sqrt(10) / 40.
    sharp = Allowance(1.0, mu=40.0, adjacency="add_or_remove_one")
    assert sharp.gram_noise("auto", 5) == "wishart"
    assert sharp.gram_noise("laplace", 5) == "laplace"


def plan(level, n, *, pure=False, replace=False, dims=64, noise="auto"):
    relation = "replace_one" if replace else "add_or_remove_one"
    allowance = Allowance(level, None if pure else level, relation)
    return decomposition.Plan(allowance, dims, n, noise)


def test_private_centre_takes_more_where_noise_is_larger():
    assert plan(0.2, 1e7).mean_share == 0.03
    assert 0.03 < plan(0.2, 1797).mean_share < plan(0.1, 1797).mean_share <= 0.25
    assert plan(0.2, 20).mean_share == 0.0
    assert plan(0.2, 1797, replace=True).mean_share > plan(0.2, 1797).mean_share
    assert plan(1.0, 1797, pure=True).mean_share > 0


def test_private_radius_takes_less_where_more_of_the_tail_may_go():
    # The more features, the more rows may be clipped for the sake of less noise.
    assert 0.005 <= plan(0.2, 1e6, dims=64).radius_share < 0.01
    assert 0.01 < plan(0.2, 1e6, dims=16).radius_share < 0.05
    assert plan(0.2, 1e6, dims=5).radius_share == 0.05
    # With few rows at most 30% of them.
    assert plan(0.2, 500).radius_share > plan(0.2, 5000).radius_share
    assert 0.02 < plan(1.0, 1797, pure=True, replace=True).radius_share <= 0.05


def test_working_radius_is_lower_where_noise_dominates():
    assert plan(0.2, 1797).radius(36.0) == 36.0
    assert 27 < plan(0.1, 1797).radius(36.0) < 36
    assert plan(0.2, 2).radius(36.0) == 27.0


def test_james_stein_shrinks_noise_and_keeps_signal():
    shrink = decomposition.shrink_to_zero
    rng = np.random.default_rng(0)
    noise = rng.normal(size=100)
    assert np.linalg.norm(shrink(noise, 1.0)) < 0.4 * np.linalg.norm(noise)
    np.testing.assert_allclose(shrink(noise + 1000, 1.0), noise + 1000, rtol=1e-5)
    np.testing.assert_array_equal(shrink(np.zeros(5), 0.0), np.zeros(5))
    np.testing.assert_array_equal(shrink(noise[:2], 10.0), noise[:2])


def test_explained_variance_of_a_spiked_matrix():
    """The variance that a noisy eigenvector explains, against its average over simulations."""
    rng = np.random.default_rng(0)
    d, sigma = 200, 0.1
    truth = np.diag(np.r_[6.0, 3.0, 2.5, np.zeros(d - 3)])
    edge = 2 * sigma * np.sqrt(d)
    corrected, explained, raw = [], [], []
    for _ in range(10):
        G = rng.normal(size=(d, d))
        noisy, vectors = np.linalg.eigh(truth + sigma * (G + G.T) / np.sqrt(2))
        noisy, vectors = noisy[::-1], vectors[:, ::-1]
        estimate = decomposition.explained_by_noisy_vectors(noisy, np.trace(truth), edge)
        corrected.append(estimate[:2])
        explained.append(np.diag(vectors.T @ truth @ vectors)[:2])
        raw.append(noisy[:2])
    explained = np.mean(explained, axis=0)
    np.testing.assert_allclose(np.mean(corrected, axis=0), explained, rtol=0.05)
    assert np.all(np.mean(raw, axis=0) > 1.1 * explained)


def test_expected_error_answers_before_anything_is_spent():
    budget = PrivacyBudget(1.0, 1e-6)
    model = DPPCA(norm_bound=2.0, center=0, delta=1e-6, budget=budget)
    error = model.expected_error(1000, 20)
    assert error / model.expected_error(2000, 20) == pytest.approx(2, rel=0.02)
    assert model.expected_error(1000, like=np.zeros((3, 20))) == error
    assert budget.spent.epsilon == 0
    as_part = DPPCA(center=0, delta=1e-6).expected_error(1000, 20)
    assert error < as_part < error / np.sqrt(0.95)
    assert DPPCA(norm_bound=2.0, delta=1e-6).expected_error(1000, 20) > error
    with pytest.raises(ValueError, match="n_features must be given"):
        model.expected_error(1000)
    with pytest.raises(ValueError, match="n_samples"):
        model.expected_error(0, 20)
