"""Rounded Cauchy and Student noise: distributions against closed forms, rounding against oracles.

False alarms. Seeds are fixed. A correct sampler under another seed would fail one comparison with
probability ALPHA = 1e-6; each test says how many it makes. Power: 2/3 and 3/2 of the scale must be
rejected at 1e-12.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdp.core.noise import SeededEntropy, exact
from skdp.core.noise.deviates import Deviates
from skdp.queries.smooth_sensitivity import ladders
from skdp.queries.smooth_sensitivity.ladders import rounded_student_t
from tests.core.bits import ONES, Repeating
from tests.folding import each

ALPHA = 1e-6
REJECT = 1e-12
N = 100_000


def p_of_bins(values, edges, cdf):
    """P-value of chi-squared over the bins (-inf, e_0], (e_0, e_1], ..., (e_m, inf)."""
    expected = np.diff(np.concatenate([[0.0], cdf(edges.astype(float)), [1.0]])) * len(values)
    where = np.searchsorted(edges, values.astype(float), side="left")
    observed = np.bincount(where, minlength=len(edges) + 1)
    keep = expected >= 10
    rest = expected[~keep].sum(), observed[~keep].sum()
    expected, observed = expected[keep], observed[keep]
    if rest[0] > 10:  # the rest is one more bin
        expected, observed = np.append(expected, rest[0]), np.append(observed, rest[1])
    statistic = np.sum((observed - expected) ** 2 / expected)
    return stats.chi2.sf(statistic, len(expected) - 1)


def draws(nu, scale, n, entropy):
    """Return n draws with one scale."""
    return rounded_student_t(nu, np.full(n, scale, dtype=object), entropy=entropy)


def edges_of(nu, scale):
    if scale < 20:
        return np.arange(-60, 61)
    q = np.arange(1, 128) / 128
    return np.unique(np.rint(stats.t(nu).ppf(q) * scale))


@each("scale", [Fraction(1, 8), 1, 2.5, 2**10, Fraction(2**20 * 3, 7), 2.0**40])
@each("nu", [1, 2, 3, 10])
def test_distribution(nu, scale):
    """One comparison each. nu = 1 is Cauchy's closed form, the others Student's."""
    edges, size = edges_of(nu, float(scale)), float(scale)
    law = stats.cauchy if nu == 1 else stats.t(nu)

    def cdf(k):
        return law.cdf((k + 0.5) / size)

    def draw(factor=Fraction(1)):
        return draws(nu, Fraction(scale) * factor, N, SeededEntropy(31))

    assert p_of_bins(draw(), edges, cdf) > ALPHA
    for wrong in (Fraction(2, 3), Fraction(3, 2)):
        assert p_of_bins(draw(wrong), edges, cdf) < REJECT


@pytest.mark.parametrize("nu", [1, 3])
def test_kolmogorov_and_the_tails(nu):
    """Two comparisons: at 2**30 the rounding is invisible; the far tail has its share too."""
    values = draws(nu, 2**30, N, SeededEntropy(32)) / 2.0**30
    assert stats.kstest(values, stats.t(nu).cdf).pvalue > ALPHA
    far = stats.t(nu).isf(0.0005)
    assert stats.binomtest(int((np.abs(values) > far).sum()), N, 0.001).pvalue > ALPHA


@pytest.mark.parametrize("scale", [2.0**45, 2.0**52])
def test_low_bits_are_fair(scale):
    """Two comparisons: what certified rounding gives at scales where floats have no such bits."""
    values = draws(1, scale, 20_000, SeededEntropy(33))
    counts = np.bincount([int(v) & 15 for v in values], minlength=16)
    assert stats.chisquare(counts).pvalue > ALPHA


# --- certified rounding ---------------------------------------------------------------------------


def ideal(source, x):
    """Return the real number of which x is the prefix."""
    value = source.ideal(x)
    return mpmath.mpf(value.numerator) / value.denominator


def given(monkeypatch, x, held=None):
    """Make the sampler round these deviates."""
    monkeypatch.setattr(
        ladders, "draw_normal", lambda n, e: Deviates(np.array(x), dict(held or {}))
    )


def ideals(source, x, nu, scale):
    """Return the nearest integers to the ideal values, in 80 digits."""
    out = []
    with mpmath.workdps(80):
        for row in np.reshape(x, (-1, nu + 1)).tolist():
            g = [ideal(source, v) for v in row]
            size = mpmath.sqrt(mpmath.fsum(v * v for v in g[1:]) / nu)
            z = mpmath.mpf(scale.numerator) / scale.denominator * g[0] / size
            out.append(int(mpmath.sign(z) * mpmath.floor(abs(z) + mpmath.mpf(1) / 2)))
    return out


SCALES = [Fraction(1), Fraction(1000, 3), Fraction(2**40), Fraction(2**52, 7), Fraction(1, 2**70)]


@each("imprecise", [0.0, 0.6])
@each("scale", SCALES, ids=str)
@each("nu", [1, 2, 7])
def test_rounding_equals_high_precision(nu, scale, imprecise, monkeypatch):
    """A float filter that is never sure (0.6) sends everything to the integers."""
    x = Deviates(np.array(SeededEntropy(5).words(60 * (nu + 1)) % (1 << 50), dtype=float)).x
    x = (x - 2.0**49) * 2.0**-48
    x[:4] = [2.0**-48, -(2.0**-48), 0.0, -0.5]
    given(monkeypatch, x)
    monkeypatch.setattr(exact, "SLACK", imprecise)
    source = Repeating(0x9E3779B97F4A7C15)
    got = draws(nu, scale, 60, source)
    assert got.tolist() == ideals(source, x, nu, scale)
    if imprecise:
        assert source.drawn >= 8 * 60 * (nu + 1)


@each("side", [-1, 1])
@each("word", [1, 0x9E3779B97F4A7C15, ONES - 1])
@each("nu", [1, 3])
def test_next_to_a_half_integer_more_bits_are_drawn(nu, word, side, monkeypatch):
    """The scale puts the ideal value within 2**-150 of k + 1/2: floats and 112 bits cannot tell."""
    rng = np.random.default_rng(nu)
    x = rng.integers(1, 1 << 50, nu + 1) * 2.0**-48
    source = Repeating(word)
    with mpmath.workdps(120):
        g = [ideal(source, v) for v in x.tolist()]
        ratio = g[0] / mpmath.sqrt(mpmath.fsum(v * v for v in g[1:]) / nu)
        wanted = (12345 + mpmath.mpf(1) / 2 + side * mpmath.mpf(2) ** -150) / ratio
        scale = Fraction(int(mpmath.floor(wanted * mpmath.mpf(2) ** 200)), 1 << 200)
    given(monkeypatch, x)
    assert draws(nu, scale, 1, source).tolist() == [12346 if side > 0 else 12345]
    assert source.drawn >= 2 * 8 * (nu + 1)


def test_a_denominator_of_which_no_bit_is_known(monkeypatch):
    x = [1.0, 0.0, -1.0, -(2.0**-48)]
    given(monkeypatch, x)
    source = Repeating(1 << 60)
    got = draws(1, 3, 2, source)
    assert got.tolist() == ideals(source, x, 1, Fraction(3))
    assert got[0] > 2**48 and got[1] < -(2**48)


def test_huge_deviates_and_results_beyond_int64(monkeypatch):
    given(monkeypatch, [0.0, 1.0, 1.0, 1.0], {0: (-(40 << 48), 48)})
    got = draws(1, 2**70, 2, Repeating(0))
    assert got.dtype == object
    assert got.tolist() == [-40 * 2**70, 2**70]
    monkeypatch.undo()
    many = draws(1, 2.0**52, 20_000, SeededEntropy(3))
    assert many.dtype == object and max(abs(v) for v in many) > 2**63
    assert all(isinstance(v, int) for v in many)


def test_blocks_do_not_show(monkeypatch):
    whole = draws(3, 1000.0, 5000, SeededEntropy(4))
    monkeypatch.setattr(ladders, "_VALUES", 64)
    np.testing.assert_array_equal(draws(3, 1000.0, 5000, SeededEntropy(4)), whole)


# --- arguments ------------------------------------------------------------------------------------


def test_shapes_and_types():
    assert draws(1, 5, 0, None).shape == (0,)
    scales = np.tile(np.array([Fraction(1, 2**90), Fraction(2**60, 7)], dtype=object), 500)
    values = rounded_student_t(2, scales, entropy=SeededEntropy(1))
    assert not values[::2].any() and np.median(np.abs(values[1::2].astype(float))) > 2**55
    one = draws(1, 1000 / 3, 50, SeededEntropy(2))
    same = rounded_student_t(1, np.full(50, 1000 / 3), entropy=SeededEntropy(2))
    np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(one, draws(1, Fraction(1000 / 3), 50, SeededEntropy(2)))


@each("bad", [0, -1, 0.0, math.inf, math.nan, 2**81, Fraction(1, 2**101)])
def test_bad_scales(bad):
    with pytest.raises(ValueError, match="scale"):
        rounded_student_t(1, [bad])


def test_bad_arguments():
    for bad in ("1", True):
        with pytest.raises(TypeError, match="scale"):
            rounded_student_t(1, [bad])
    for nu in (0, 1025):
        with pytest.raises(ValueError, match="nu"):
            rounded_student_t(nu, [1])
    with pytest.raises(TypeError, match="nu"):
        rounded_student_t(1.5, [1])
