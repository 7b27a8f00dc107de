"""K-norm and Wishart noise decide for the ideal variable: oracles and forced fallbacks.

Every oracle is slow and independent of the code it checks, as in `test_sampling_exact`.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from skdp.core import noise as sampling
from skdp.core.noise import SeededEntropy, deviates, vectors
from skdp.queries import second_moments as wishart
from tests.core.bits import ONES, Repeating
from tests.folding import each


@each("scale", [3, Fraction(1000, 3), 2.0**30, 2**45])
@each("d", [1, 2, 7])
@each("imprecise", [0.0, 0.6])
@each("cube", [False, True])
def test_k_norm_equals_high_precision(scale, d, imprecise, cube, slack, monkeypatch):
    n, k = 12, d + cube
    draw = deviates.draw_uniform if cube else deviates.draw_normal
    g = draw(n * d, SeededEntropy(9))
    e = deviates.draw_laplace(n * k, SeededEntropy(10))
    word = 0x9E3779B97F4A7C15
    source = Repeating(word)
    monkeypatch.setattr(vectors, draw.__name__, lambda *_: deviates.Deviates(g.x.copy(), {}))
    # one exponential is known to more bits already
    held = {k: ((int(e.x[k] * 2**48) << 64) | word, 112)}
    monkeypatch.setattr(vectors, "draw_laplace", lambda *_: deviates.Deviates(e.x.copy(), held))
    slack(imprecise)
    got = sampling.k_norm(d, scale, n, cube=cube, entropy=source)
    with mpmath.workdps(80):

        def real(x):
            x = source.ideal(x)
            return mpmath.mpf(x.numerator) / x.denominator

        t = Fraction(scale)
        t = mpmath.mpf(t.numerator) / t.denominator
        for row in range(n):
            z = [real(x) for x in g.x[row * d : row * d + d].tolist()]
            radius = sum(abs(real(x)) for x in e.x[row * k : row * k + k].tolist())
            norm = 1 if cube else mpmath.sqrt(sum(v * v for v in z))
            expected = [int(mpmath.nint(t * radius * v / norm)) for v in z]
            assert got[row].tolist() == expected


@each("cube", [False, True])
def test_k_norm_intervals_hold_for_all_further_bits(cube):
    # Prefixes of a few units, so that the intervals are wide: what is called certain must hold for
    # any further bits, those that make one factor large and another small among them.
    rng = np.random.default_rng(9)
    n, d = 400, 3
    m = rng.integers(32, 200, (n, d)) * rng.choice([-1, 1], (n, d))
    r = rng.integers(32, 200, (n, d + cube))
    # coordinates of the cube are in units of 2**-48, those on the sphere in their norm
    scale = Fraction(2**96, 4000) if cube else Fraction(2**48, 40)
    scales = np.array([scale] * n, dtype=object)
    args = [deviates.Deviates(a.ravel() * 2.0**-48) for a in (m, r)]
    values, sure = vectors._round_exactly(*args, scales, np.arange(n), d, 48, Repeating(1))
    assert 40 < sure.sum() < n - 40
    for trial in range(200):
        q = [rng.integers(0, 2, (n, k)).astype(float) for k in (d, d + cube)]
        if trial < 2:
            q = [np.full((n, d + i * cube), abs(trial - i)) for i in range(2)]
        g, e = m + q[0] * (1 - 1e-9), r + q[1] * (1 - 1e-9)
        norm = 100 if cube else np.linalg.norm(g, axis=1, keepdims=True)
        z = e.sum(axis=1, keepdims=True) * g / norm / 40
        np.testing.assert_array_equal(np.rint(z)[sure], values[sure])


@each("cube", [False, True])
def test_imprecise_filters_give_the_same_vectors(cube, slack):
    def drawn(scales, size=None):
        return sampling.k_norm(5, scales, size, cube=cube, entropy=SeededEntropy(11))

    scales = [Fraction(k, 3) for k in range(1, 41)]
    expected = drawn(scales)
    slack(0.3)
    np.testing.assert_array_equal(drawn(scales), expected)
    assert drawn(np.array([float(s) for s in scales]), 40).shape == (40, 5)


def test_uniform_deviates_fill_the_interval():
    # All 2**49 prefixes, once each: the top 49 bits of a word, as a signed integer.
    for word, x in [(0, 0.0), (ONES, -(2.0**-48)), (1 << 63, -1.0), ((1 << 63) - 1, 1 - 2.0**-48)]:
        assert deviates.draw_uniform(1, Repeating(word)).x.tolist() == [x]


@each("scale", [2, Fraction(2**34, 3), 2.0**40 / 3, 2.0**45, 2**60])
@each("d", [1, 2, 9])
@each("imprecise", [0.0, 0.6])
@each("word", [1, 0x9E3779B97F4A7C15, ONES - 1])
def test_wishart_equals_rationals(scale, d, imprecise, word, slack, monkeypatch):
    k = 2 * (d + 1)
    g = deviates.draw_normal(d * k, SeededEntropy(12))
    source = Repeating(word)
    extra = wishart._extra_limbs(d, Fraction(scale))
    first = word >> (64 - 21 * extra)  # the bits that the limbs take; then whole words
    held = {}
    if not extra:
        held = {1: ((int(g.x[1] * 2**48) << 64) | word, 112)}
    monkeypatch.setattr(wishart, "draw_normal", lambda *_: deviates.Deviates(g.x.copy(), held))
    slack(imprecise)
    got = wishart.symmetrized_wishart(d, scale, entropy=source)
    below = Fraction(first, 1 << (48 + 21 * extra)) + Fraction(word, ONES << (48 + 21 * extra))
    m = [[Fraction(x) + below for x in row] for row in g.x.reshape(d, k).tolist()]
    half = Fraction(1, 2)
    for i in range(d):
        for j in range(d):
            terms = [a * b for a, b in zip(m[i], m[j], strict=True)]
            value = Fraction(scale) * (sum(terms[: d + 1]) - sum(terms[d + 1 :]))
            assert int(got[i, j]) == math.floor(value + half)


def test_wishart_rows_keep_the_bits_they_have_shown(slack, monkeypatch):
    # Held deviates (62 bits known beyond the prefix, other than the stream's) in a run with limbs.
    d, k = 4, 10
    g = deviates.draw_normal(d * k, SeededEntropy(13))
    word = 0x0123456789ABCDEF
    source = Repeating(word)
    other = [0xFEDCBA9876543210, 0x8000000000000001]
    where = [3, 17, 39]
    held = {p: ((((int(g.x[p] * 2**48)) << 64 | other[0]) << 64) | other[1], 176) for p in where}
    where.append(20)  # and one of which two bits are known, as for one of the normal tail
    held[20] = ((int(g.x[20] * 2**48) << 2) | 3, 50)
    monkeypatch.setattr(
        wishart, "draw_normal", lambda *_: deviates.Deviates(g.x.copy(), dict(held))
    )
    scale = Fraction(2**52, 3)
    assert wishart._extra_limbs(d, scale) == 1
    slack(0.9)
    got = wishart.symmetrized_wishart(d, scale, entropy=source)
    below = Fraction(word >> 43, 1 << 69) + Fraction(word, ONES << 69)
    values = [Fraction(x) + below for x in g.x.tolist()]
    for p in where:
        m, b = held[p]
        values[p] = Fraction(m, 1 << b) + Fraction(word, ONES << b)
    m = [values[r * k : r * k + k] for r in range(d)]
    for i in range(d):
        for j in range(d):
            terms = [a * b for a, b in zip(m[i], m[j], strict=True)]
            value = scale * (sum(terms[: d + 1]) - sum(terms[d + 1 :]))
            assert int(got[i, j]) == math.floor(value + Fraction(1, 2))


@pytest.mark.parametrize(("scale", "extra"), [(1, 0), (2**52, 1), (2**62, 2)])
def test_wishart_products_are_within_their_error(scale, extra, monkeypatch):
    # All low bits ones, G2 = 0: what is left out is as large as it can be, and of one sign.
    d = 3
    x = np.zeros((d, 8))
    x[:, :4] = [[1 - 2.0**-48], [3 - 2.0**-40], [0.5 - 2.0**-48]]
    monkeypatch.setattr(wishart, "draw_normal", lambda *_: deviates.Deviates(x.ravel()))
    assert wishart._extra_limbs(d, Fraction(scale)) == extra
    rows = wishart._Rows(d, extra, Repeating(ONES))
    rows.low[:, 4:] = 0
    norms, error = wishart._errors(rows)
    cuts = [(rows, norms, error)]
    if extra:
        cuts.append((short := wishart._Short(rows), *short.errors(norms)))
    for used, norms, error in cuts:
        digits = wishart._digits(used, 0, d)
        m = rows.high.astype(object) * 2 ** (21 * extra) + rows.low.astype(object)
        m = m >> (rows.bits - used.bits)
        for i, j in zip(*np.triu_indices(d), strict=True):
            a, b = m[i][:4], m[j][:4]
            total = sum(int(part[i, j]) << (21 * k) for k, part in digits.items())
            assert used is not rows or total == rows.total(i, j)
            cut, full = (a * b).sum(), ((a + 1) * (b + 1)).sum()
            assert total <= cut < full <= total + norms[i] + norms[j] + error
            assert cut > total


def test_wishart_rows_are_extended_consistently(monkeypatch):
    x = deviates.draw_normal(12, SeededEntropy(50)).x
    m = (int(x[8] * 2**48) << 128) | (0xFEDCBA9876543210 << 64) | 0x8000000000000001
    held = {8: (m, 176)}
    monkeypatch.setattr(wishart, "draw_normal", lambda *_: deviates.Deviates(x, held))
    source = Repeating(0x0123456789ABCDEF)
    rows = wishart._Rows(2, 2, source)
    first = rows.longer_row(1, 100)
    assert rows.longer[1][1] == 154
    assert first[2] == m >> (176 - 154)
    second = rows.longer_row(1, 200)
    bits = rows.longer[1][1]
    assert [v >> (bits - 154) for v in second] == first
    assert second[2] == ((m << 64) | source.word) >> (240 - bits)
    plain = (int(x[6] * 2**48) << 42) | (source.word >> 22)
    assert second[0] == (((plain << 64) | source.word) << 64) | source.word


def test_wishart_asks_for_bits_until_certain(monkeypatch):
    # 2 * (1/2)**2 = 1/2 but for the bits beyond the first 112: only the third helping decides.
    x = np.array([0.5, 0.0, 0.0, 0.0])
    monkeypatch.setattr(wishart, "draw_normal", lambda *_: deviates.Deviates(x))
    source = Repeating(1)
    assert wishart.symmetrized_wishart(1, 2, entropy=source).tolist() == [[1]]
    assert source.drawn == 2 * 4 * 8
    held = {0: (1 << 80, 48)}
    monkeypatch.setattr(wishart, "draw_normal", lambda *_: deviates.Deviates(x, held))
    with pytest.raises(OverflowError, match="beyond"):
        wishart.symmetrized_wishart(1, 2, entropy=source)


def test_wishart_in_several_column_chunks(monkeypatch):
    expected = wishart.symmetrized_wishart(20, 2.0**40, entropy=SeededEntropy(14))
    monkeypatch.setattr(wishart, "_COLUMNS", 4)
    got = wishart.symmetrized_wishart(20, 2.0**40, entropy=SeededEntropy(14))
    np.testing.assert_array_equal(got, expected)


def test_wishart_does_not_fit_int64():
    got = wishart.symmetrized_wishart(30, 2**62, entropy=SeededEntropy(15))
    assert got.dtype == object
    assert all(isinstance(v, int) for v in got.ravel().tolist())
