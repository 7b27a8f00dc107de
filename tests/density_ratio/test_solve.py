"""The least-squares fit and its criterion against slow oracles: no noise, no private rows here."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from skdp.base.nystroem import LEAST_SIGNAL
from skdp.density_ratio._ulsif import Moments, criterion, median_distance, solve


def samples(seed=0, n=300, N=40, b=12, gamma=0.5):
    rng = np.random.default_rng(seed)
    public, private = rng.normal(1, 1, (N, 2)), rng.normal(1.5, 0.7, (n, 2))
    centers = public[:b]
    return rbf_kernel(public, centers, gamma=gamma), rbf_kernel(private, centers, gamma=gamma)


def moments_of(F, G, noise=None):
    b = F.shape[1]
    return Moments(
        second=F.T @ F / len(F),
        first=F.mean(axis=0),
        rows=F,
        n_public=len(F),
        private=G.mean(axis=0),
        noise=np.zeros((b, 1)) if noise is None else noise,
        n_private=float(len(G)),
    )


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_without_noise_the_solution_is_the_closed_form(alpha):
    """Kanamori, Hido & Sugiyama 2009, eq. 15: (H + alpha I)^-1 h, to 1e-10."""
    F, G = samples()
    coef, noise = solve(moments_of(F, G), alpha, 0.0)
    H = sum(np.outer(f, f) for f in F) / len(F)
    np.testing.assert_allclose(
        coef, np.linalg.inv(H + alpha * np.eye(len(H))) @ G.mean(axis=0), rtol=0, atol=1e-10
    )
    assert not noise.any()


@pytest.mark.parametrize("baseline", [0.0, 1.0, 2.5])
def test_the_solution_is_the_minimum_of_the_criterion(baseline):
    from scipy.optimize import minimize

    F, G = samples()
    alpha = 0.3
    coef, _ = solve(moments_of(F, G), alpha, baseline)

    def objective(a):
        value = 0.5 * np.mean((baseline + F @ a) ** 2) - np.mean(baseline + G @ a)
        return value + alpha / 2 * a @ a

    found = minimize(objective, np.zeros(len(coef)), method="BFGS", options={"gtol": 1e-10})
    np.testing.assert_allclose(coef, found.x, atol=1e-6)


def slow_criterion(F, G, alpha, baseline, noise):
    """Fit without each public row in turn and judge it there; the traces by explicit inverses."""
    n, b = F.shape
    h = G.mean(axis=0)
    values, vectors = np.linalg.eigh(F.T @ F / n)
    seen = values >= LEAST_SIGNAL**2 * np.sum((vectors.T @ noise) ** 2, axis=1)
    seen = vectors[:, seen] @ vectors[:, seen].T
    losses, traces, predictions = [], [], []
    inverses = []
    for i in range(n):
        others = np.delete(F, i, axis=0)
        inverse = np.linalg.inv(others.T @ others / (n - 1) + alpha * np.eye(b))
        a = inverse @ (h - baseline * others.mean(axis=0))
        w = baseline + F[i] @ a
        losses.append(0.5 * w**2 - (baseline + h @ seen @ a))
        traces.append(np.trace(seen @ inverse @ noise @ noise.T))
        predictions.append(max(w, 0.0))
        inverses.append(inverse)
    weights = np.array(predictions)
    # Sampling variance of h under the weights; its trace is taken with all public rows.
    inverse = np.linalg.inv(F.T @ F / (n - 1) + alpha * np.eye(b))
    mean = weights @ F / weights.sum()
    V = (F * weights[:, None]).T @ F / weights.sum() - np.outer(mean, mean)
    return np.mean(losses) + np.mean(traces) + np.trace(inverse @ V) / len(G)


@pytest.mark.parametrize("baseline", [0.0, 1.0])
@pytest.mark.parametrize("noisy", [False, True])
def test_the_leave_one_out_criterion_is_the_brute_force_one(baseline, noisy):
    F, G = samples(seed=1)
    noise = 0.02 * np.random.default_rng(2).normal(size=(F.shape[1], 5)) * noisy
    alphas = np.array([1e-3, 0.03, 1.0, 30.0])
    fast, _ = criterion(moments_of(F, G, noise), alphas, baseline)
    slow = [slow_criterion(F, G, alpha, baseline, noise) for alpha in alphas]
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-10)


def test_the_criterion_of_noisy_moments_is_the_loss_that_noise_causes():
    """On average over noise: the leave-one-out loss, with the true h, of the fit to the noisy one.

    2,000 draws, 4 standard errors: false alarms below 1e-4. Without the trace, the same test fails
    by many standard errors.
    """
    F, G = samples(seed=3, N=25, b=6, gamma=5.0)
    rng = np.random.default_rng(4)
    noise = 0.005 * rng.normal(size=(6, 5))
    exact, alpha, n = moments_of(F, G, noise), 0.03, 25
    assert np.linalg.eigvalsh(exact.second)[0] > LEAST_SIGNAL**2 * np.sum(noise**2)
    inverses = [
        np.linalg.inv(others.T @ others / (n - 1) + alpha * np.eye(6))
        for others in (np.delete(F, i, axis=0) for i in range(n))
    ]
    trace = np.mean([np.trace(inverse @ noise @ noise.T) for inverse in inverses])
    differences = []
    for e in rng.normal(size=(2000, 5)) @ noise.T:
        h = exact.private + e
        noisy = Moments(**{**vars(exact), "private": h, "n_private": 1e15})
        fits = [inverse @ h for inverse in inverses]
        loss = np.mean(
            [0.5 * (f @ a) ** 2 - exact.private @ a for f, a in zip(F, fits, strict=True)]
        )
        differences.append(criterion(noisy, np.array([alpha]), 0.0)[0][0] - loss)
    error = np.std(differences) / np.sqrt(2000)
    assert abs(np.mean(differences)) < 4 * error
    assert abs(np.mean(differences) - trace) > 10 * error


@pytest.mark.statistical
@pytest.mark.parametrize("baseline", [0.0, 1.0])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_the_reported_spread_of_the_criterion_is_that_of_the_noise(alpha, baseline):
    """4,000 draws give the std within 5% (4.5 standard errors); the second order is off by less."""
    F, G = samples(seed=5, N=400, b=6, gamma=5.0)
    rng = np.random.default_rng(6)
    exact = moments_of(F, G, 0.003 * rng.normal(size=(6, 5)))
    values = [
        criterion(Moments(**{**vars(exact), "private": exact.private + e}), [alpha], baseline)[0][0]
        for e in rng.normal(size=(4000, 5)) @ exact.noise.T
    ]
    assert criterion(exact, [alpha], baseline)[1][0] == pytest.approx(np.std(values), rel=0.08)


def test_median_distance_of_ties_and_of_one_row():
    assert median_distance(np.zeros((5, 2))) == 1.0
    assert median_distance(np.ones((1, 3))) == 1.0
    rows = np.array([[0.0], [0.0], [3.0], [3.0]])
    assert median_distance(rows) == pytest.approx(3.0)
