"""K-norm and Wishart noise: their distributions against closed forms.

False alarms and power: as in `test_sampling`. Seeds are fixed; a correct sampler under another seed
would fail a comparison with probability ALPHA = 1e-6, and what is wrong is rejected at 1e-12.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from skdp.core import noise as sampling
from skdp.core.noise import SeededEntropy, deviates
from skdp.queries import second_moments as wishart
from tests.core.distributions import ALPHA, REJECT, edges_for, p_of_bins, rounded_laplace_cdf
from tests.folding import each


@pytest.mark.parametrize("scale", [1.5, 2.5, 2**20])
@pytest.mark.parametrize("cube", [False, True])
def test_k_norm_in_one_dimension_is_a_rounded_laplace(scale, cube):
    def drawn(scale):
        return sampling.k_norm(1, scale, 50_000, cube=cube, entropy=SeededEntropy(39))[:, 0]

    edges = edges_for(float(scale), stats.laplace.ppf)
    assert p_of_bins(drawn(scale), edges, rounded_laplace_cdf(scale)) > ALPHA
    for wrong in (2 / 3, 3 / 2):
        assert p_of_bins(drawn(scale * wrong), edges, rounded_laplace_cdf(scale)) < REJECT


@each("d", [2, 3, 10])
@each("scale", [2**12, Fraction(2**31, 3)])
def test_k_norm_radius_and_direction(d, scale):
    # Radius, two coordinates of the direction, and their independence: four comparisons. Rounding
    # moves a radius of d * 2**12 by one part in 2**12, far below what 20,000 draws show.
    z = sampling.k_norm(d, scale, 20_000, entropy=SeededEntropy(40)) / float(scale)
    radius = np.linalg.norm(z, axis=1)
    assert stats.kstest(radius, stats.gamma(d).cdf).pvalue > ALPHA
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(radius * wrong, stats.gamma(d).cdf).pvalue < REJECT
    assert stats.kstest(radius, stats.gamma(d + 1).cdf).pvalue < REJECT
    # a coordinate of a uniform direction: (1 + u) / 2 ~ Beta((d-1)/2, (d-1)/2)
    marginal = stats.beta((d - 1) / 2, (d - 1) / 2).cdf
    for j in (0, d - 1):
        u = z[:, j] / radius
        assert stats.kstest((1 + u) / 2, marginal).pvalue > ALPHA
    assert stats.spearmanr(radius, np.abs(z[:, 0]) / radius).pvalue > ALPHA
    skewed = z * np.linspace(1, 2, d)
    skewed = skewed[:, 0] / np.linalg.norm(skewed, axis=1)
    assert stats.kstest((1 + skewed) / 2, marginal).pvalue < REJECT


@each("d", [2, 3, 10])
@each("scale", [2**12, Fraction(2**31, 3)])
def test_k_norm_of_the_cube(d, scale):
    # The largest coordinate is Gamma(d); the others, relative to it, are uniform; its place and
    # its sign are fair. Radius, two coordinates, place and sign: five comparisons.
    z = sampling.k_norm(d, scale, 20_000, cube=True, entropy=SeededEntropy(48)) / float(scale)
    place = np.abs(z).argmax(axis=1)
    signed = z[np.arange(len(z)), place]
    largest = np.abs(signed)
    assert stats.kstest(largest, stats.gamma(d).cdf).pvalue > ALPHA
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(largest * wrong, stats.gamma(d).cdf).pvalue < REJECT
    assert stats.kstest(largest, stats.gamma(d + 1).cdf).pvalue < REJECT
    for j in (0, d - 1):
        others = (z[:, j] / largest)[place != j]
        assert stats.kstest(others, stats.uniform(-1, 2).cdf).pvalue > ALPHA
        assert stats.kstest(others * 1.2, stats.uniform(-1, 2).cdf).pvalue < REJECT
    assert stats.chisquare(np.bincount(place, minlength=d)).pvalue > ALPHA
    assert stats.binomtest(int((signed > 0).sum()), len(z)).pvalue > ALPHA
    # a coordinate's variance, in standard errors of it: the fourth moment of z is finite
    squares = z[:, 0] ** 2
    assert abs(squares.mean() - (d + 1) * (d + 2) / 3) < 6 * squares.std() / math.sqrt(len(z))


def test_k_norm_takes_a_scale_for_each_vector():
    scales = np.where(np.arange(8000) % 2, 2.0**12, 2.0**20)
    z = sampling.k_norm(3, scales, entropy=SeededEntropy(41)) / scales[:, None]
    for part in (z[::2], z[1::2]):
        assert stats.kstest(np.linalg.norm(part, axis=1), stats.gamma(3).cdf).pvalue > ALPHA


def test_k_norm_in_a_thousand_dimensions():
    z = sampling.k_norm(1000, 2.0**34, 4, entropy=SeededEntropy(42)) / 2.0**34
    # the radius has mean 1000 and standard deviation 32; 5 of them: false alarms 3e-6
    assert np.all(np.abs(np.linalg.norm(z, axis=1) - 1000) < 160)
    assert stats.kstest(z[0] / z[0].std(), "norm").pvalue > ALPHA


def gamma_difference_cdf(shape):
    """CDF of the difference of two Gamma(shape, 1) variables, by quadrature of its density."""
    t = np.linspace(-60, 60, 240_001)
    nu = shape - 0.5
    with np.errstate(invalid="ignore", divide="ignore"):
        density = np.abs(t) ** nu * special.kv(nu, np.abs(t))
    density[t == 0] = density[np.flatnonzero(t == 0) + 1]
    total = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return lambda x: np.interp(x, t, total / total[-1])


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 1.25, 2**40])
def test_wishart_of_order_one_is_a_rounded_laplace(scale):
    # W = c (g1**2 + g2**2) is exponential with mean 2c.
    source = SeededEntropy(43)
    values = np.array([wishart.symmetrized_wishart(1, scale, entropy=source) for _ in range(4000)])
    edges = edges_for(2 * scale, stats.laplace.ppf)
    assert p_of_bins(values.ravel(), edges, rounded_laplace_cdf(2 * scale)) > ALPHA
    for wrong in (2 / 3, 3 / 2):
        assert p_of_bins(values.ravel(), edges, rounded_laplace_cdf(2 * scale * wrong)) < REJECT


@pytest.mark.statistical
def test_wishart_of_order_two():
    # W1 - W2 = c times: trace: difference of two chi2_6; diagonal: of two chi2_3; off the diagonal:
    # a sum of six products of normals, that is a difference of two Gamma(3, 1). Five comparisons.
    c = Fraction(2**40, 3)
    source = SeededEntropy(44)
    m = np.array([wishart.symmetrized_wishart(2, c, entropy=source) for _ in range(4000)])
    assert np.array_equal(m, m.transpose(0, 2, 1))
    m = m / float(c)
    trace = (m[:, 0, 0] + m[:, 1, 1]) / 2
    assert stats.kstest(trace, gamma_difference_cdf(3)).pvalue > ALPHA
    for k in (0, 1):
        assert stats.kstest(m[:, k, k] / 2, gamma_difference_cdf(1.5)).pvalue > ALPHA
    assert stats.kstest(m[:, 0, 1], gamma_difference_cdf(3)).pvalue > ALPHA
    # rotation invariance: the diagonal's distribution in another direction
    other = (m[:, 0, 0] + m[:, 1, 1] + 2 * m[:, 0, 1]) / 2
    assert stats.kstest(other / 2, gamma_difference_cdf(1.5)).pvalue > ALPHA
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(trace * wrong, gamma_difference_cdf(3)).pvalue < REJECT
        assert stats.kstest(m[:, 0, 1] * wrong, gamma_difference_cdf(3)).pvalue < REJECT
    # degrees of freedom d instead of d + 1
    assert stats.kstest(trace, gamma_difference_cdf(2)).pvalue < 1e-9


def test_wishart_moments():
    # Order 30, 60 draws: variances 2 (d+1) c**2 off the diagonal and 4 (d+1) c**2 on it.
    # Standard errors come from the draws; 6 of them: false alarms 3e-9 each.
    d, c = 30, 2.0**36 / 3
    source = SeededEntropy(45)
    m = np.array([wishart.symmetrized_wishart(d, c, entropy=source) for _ in range(60)]) / c
    i, j = np.triu_indices(d, 1)
    for part, variance in (
        (m[:, i, j], 2 * (d + 1)),
        (m[:, np.arange(d), np.arange(d)], 4 * (d + 1)),
    ):
        means, squares = part.mean(axis=1), (part**2).mean(axis=1)
        assert abs(means.mean()) < 6 * means.std() / math.sqrt(60)
        assert abs(squares.mean() - variance) < 6 * squares.std() / math.sqrt(60)
        for wrong in (4 / 9, 9 / 4):
            assert abs(squares.mean() - wrong * variance) > 6 * squares.std() / math.sqrt(60)


def test_wishart_is_a_difference_of_positive_semidefinite_matrices(monkeypatch):
    d = 6
    c = 2.0**40
    g = deviates.draw_normal(d * 2 * (d + 1), SeededEntropy(46)).x.reshape(d, -1)
    parts = []
    for half in (slice(0, d + 1), slice(d + 1, None)):
        only = np.zeros_like(g)
        only[:, half] = g[:, half]
        monkeypatch.setattr(
            wishart, "draw_normal", lambda *_, x=only: deviates.Deviates(x.ravel().copy())
        )
        source = SeededEntropy(47)
        parts.append(wishart.symmetrized_wishart(d, c, entropy=source).astype(float))
        np.testing.assert_allclose(
            parts[-1], c * (g[:, half] @ g[:, half].T) * (1 if half.start == 0 else -1), rtol=1e-9
        )
    assert np.linalg.eigvalsh(parts[0]).min() > 0
    assert np.linalg.eigvalsh(parts[1]).max() < 0
