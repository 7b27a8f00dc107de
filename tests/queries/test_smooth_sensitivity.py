"""Smooth sensitivity: constants against the densities, S against brute force, the ladder."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skdp.queries.smooth_sensitivity import ladders as smooth
from skdp.queries.smooth_sensitivity import medians as order
from skdp.queries.smooth_sensitivity.ladders import (
    STEPS,
    Ladder,
    choose_noise,
    laplace_kappa,
    student_kappa,
)
from skdp.queries.smooth_sensitivity.medians import quantile_log_smooth
from tests.folding import each

RELATIONS = ["replace_one", "add_or_remove_one"]
R, A = RELATIONS
HALF = Fraction(1, 2)
QS = [Fraction(0), Fraction(1, 4), Fraction(1, 3), HALF, Fraction(51, 100), Fraction(9, 10), 1]
QS = [Fraction(q) for q in QS]


# --- admissible noise ----------------------------------------------------------------------------


def worst_loss(nu, shift, log_ratio):
    """Return sup over z of log p_{0,1}(z) / p_{shift, exp(log_ratio)}(z), Student's densities.

    Where the derivative vanishes, (z - f)(nu + z**2) = z (nu s**2 + (z - f)**2): a quadratic.
    """
    s = math.exp(log_ratio)
    roots = np.roots([shift, nu * (1 - s * s) - shift**2, -shift * nu])
    z = np.concatenate([np.real(roots), [0.0, shift, 1e12, -1e12]])
    loss = log_ratio - (nu + 1) / 2 * (np.log1p(z * z / nu) - np.log1p(((z - shift) / s) ** 2 / nu))
    return float(loss.max())


@each("nu", [1, 2, 3, 7])
@each("epsilon", [1e-3, 0.1, 1.0, 5.0, 20.0])
@each("part", [0.0, 0.2, 0.5, 0.95])
def test_the_loss_reaches_epsilon_and_never_exceeds_it(nu, epsilon, part):
    beta = part * epsilon / nu
    kappa = student_kappa(epsilon, beta, nu)
    largest = 0.0
    for b in np.linspace(-beta, beta, 21):
        # |f - f'| <= min(S, S'), S = 1 / kappa in units of the first scale
        furthest = min(1.0, math.exp(b)) / kappa
        for shift in (furthest, furthest / 2, furthest * 1e-6):
            largest = max(largest, worst_loss(nu, shift, b), worst_loss(nu, -shift, b))
    assert largest <= epsilon * (1 + 1e-9)
    assert largest >= epsilon * (1 - 1e-9)


def test_the_constant_of_the_text():
    assert student_kappa(1e-3, 5e-4, 1) * 1e-3 == pytest.approx(2 / math.sqrt(3), rel=1e-3)
    assert student_kappa(1.0, 0.5, 1) == pytest.approx(0.96, abs=0.01)
    assert 6 / student_kappa(0.1, 0.05, 1) / 0.1 > 5  # Nissim, Raskhodnikova and Smith's constant


@each("epsilon", [0.01, 0.3, 1.0, 4.0, 30.0])
@each("delta", [1e-2, 1e-6, 1e-12])
def test_laplace_is_epsilon_delta_and_not_pure(epsilon, delta):
    """delta(epsilon) by integration over the four exponential pieces, worst shifts and scales."""
    kappa, beta = laplace_kappa(epsilon, delta)
    assert kappa == pytest.approx(2 / epsilon) and beta <= epsilon / (2 * math.log(2 / delta))
    largest = 0.0
    for b in (-beta, -beta / 2, 0.0, beta):
        s = math.exp(b)
        shift = min(1.0, s) / kappa

        def loss(z, s=s, shift=shift, b=b):
            return b - abs(z) + abs(z - shift) / s

        # Piecewise linear in z: on a side where the loss exceeds epsilon, the rest is a tail.
        for sign in (1, -1):
            lo, hi = 0.0, 1e6
            if loss(sign * hi) <= epsilon:
                continue
            for _ in range(200):
                middle = (lo + hi) / 2
                lo, hi = (lo, middle) if loss(sign * middle) > epsilon else (middle, hi)
            second = stats.laplace.sf((hi - sign * shift) / s)
            value = stats.laplace.sf(hi) - math.exp(min(epsilon, 700)) * second
            largest = max(largest, value)
    assert largest <= delta
    # Not pure: a smaller scale makes far values as unlikely as one likes.
    s = math.exp(-beta)
    assert -1e3 / beta + 1e3 / beta / s - beta > 900 > epsilon


def test_constants_refuse_what_has_none():
    for bad in [(0.0, 0.0, 1), (1.0, 1.0, 1), (1.0, 0.5, 2), (1.0, -0.1, 1), (501.0, 0.0, 1)]:
        with pytest.raises(ValueError, match="beta"):
            student_kappa(*bad)
    with pytest.raises(ValueError, match="beta"):
        student_kappa(1.0, 0.1, 0)
    for bad in [(0.0, 0.1), (1.0, 0.0), (1.0, 1.0)]:
        with pytest.raises(ValueError, match="delta"):
            laplace_kappa(*bad)
    with pytest.raises(ValueError, match="noise"):
        choose_noise("gauss", 1.0)
    with pytest.raises(ValueError, match="delta"):
        choose_noise("laplace", 1.0)
    with pytest.raises(ValueError, match="nu"):
        choose_noise("student", 1.0, nu=0)
    with pytest.raises(TypeError, match="nu"):
        choose_noise("student", 1.0, nu=2.5)
    with pytest.raises(ValueError, match="larger epsilon"):
        choose_noise("cauchy", 1e-11)


# --- the smooth sensitivity against brute force ---------------------------------------------------


def replaced(a, b):
    return len(a) - sum((Counter(a) & Counter(b)).values())


def added(a, b):
    return len(a) + len(b) - 2 * sum((Counter(a) & Counter(b)).values())


@cache
def world(relation, size, low, high):
    """Return all tables (A: of up to `size` rows) and their distances."""
    sizes = [size] if relation == R else range(size + 1)
    domain = range(low, high + 1)
    tables = [t for n in sizes for t in itertools.combinations_with_replacement(domain, n)]
    apart = replaced if relation == R else added
    return tables, np.array([[apart(a, b) for b in tables] for a in tables])


def brute(relation, size, low, high, q, beta):
    """Return all tables with their quantile and smooth sensitivity, by definition."""
    tables, distance = world(relation, size, low, high)
    f = np.array([t[max(1, math.ceil(q * len(t))) - 1] if t else low for t in tables])
    local = np.where(distance <= 1, np.abs(f[:, None] - f), 0).max(axis=1)
    return tables, f, (np.exp(-beta * distance) * local).max(axis=1)


@each("q", QS, ids=str)
@each("beta", [0.01, 0.4, 2.0])
def test_replace_one_equals_all_neighbours_at_all_distances(q, beta):
    for n in (1, 2, 3, 4):
        for t, f, s in zip(*brute(R, n, -2, 2, q, beta), strict=True):
            got, size = order.smooth_sensitivity(t, q, -2, 2, beta, replace=True)
            assert got == f and size == pytest.approx(s, rel=1e-12)


@each("q", QS, ids=str)
@each("beta", [0.01, 0.4, 2.0])
def test_add_or_remove_one_equals_all_neighbours_at_all_distances(q, beta):
    """Tables of up to 8 rows stand for all: a worst neighbour of 3 rows has at most 2 * 3 + 1."""
    for t, f, s in zip(*brute(A, 8, -1, 2, q, beta), strict=True):
        if len(t) <= 3:
            got, size = order.smooth_sensitivity(t, q, -1, 2, beta, replace=False)
            assert got == f and size == pytest.approx(s, rel=1e-12)
            if q == HALF:
                x = np.array(t, dtype=np.int32)
                got, log_s = order.log_smooth_median_add(x, -1, 2, beta, 50)
                assert got == f and math.exp(log_s) == pytest.approx(s, rel=1e-12)


def by_definition_replace(x, m, low, high, beta):
    """Return S by the O(n**2) definition."""
    e = np.concatenate([[low], np.sort(x), [high]]).astype(float)
    i, j = np.arange(m + 1)[:, None], np.arange(m, len(e))[None, :]
    return ((e[j] - e[i]) * np.exp(-beta * np.maximum(j - i - 1, 0))).max()


def by_definition_add(x, q, low, high, beta):
    """Return S from the ranks between which a neighbour jumps, in tables of every size."""
    n = len(x)
    e = np.concatenate([[low], np.sort(x), [high]]).astype(float)
    i, r = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    best = 0.0
    for size in range(3 * n + 3 + 40):
        m, after = order.rank_of(q, size), order.rank_of(q, size + 1)
        below = m if after > m else m - 1
        for low_count, high_count in (
            (below, size - below),
            (below + (after == m), size - below + (after > m)),
        ):
            fits = (i <= low_count) & (r <= high_count) & (i + r <= n)
            gap = np.where(fits, e[n + 1 - r] - e[i], 0.0)
            cost = low_count + high_count + n - 2 * (i + r)
            best = max(best, float((gap * np.exp(-beta * np.maximum(cost, 0))).max()))
    return best


columns = st.lists(st.integers(-20, 20) | st.sampled_from([-20, 0, 20, 3]), min_size=1, max_size=30)


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(columns, st.integers(1, 30), st.sampled_from([1e-3, 0.03, 0.3, 1.0]))
def test_replace_one_equals_the_definition(x, m, beta):
    m = min(m, len(x))
    column = np.array(x, dtype=np.int32)
    f, log_s = order.log_smooth_replace(column, m, -20, 20, beta, 100)
    assert f == sorted(x)[m - 1]
    assert log_s == pytest.approx(math.log(by_definition_replace(x, m, -20, 20, beta)), abs=1e-12)


@pytest.mark.parametrize(("small", "blocks"), [(1, 128), (2**15, 128), (1, 2)])
def test_add_or_remove_one_equals_the_definition(small, blocks, monkeypatch):
    monkeypatch.setattr(order, "_SMALL", small)
    monkeypatch.setattr(order, "_BLOCKS", blocks)

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(columns, st.integers(0, 20), st.sampled_from([1e-3, 0.03, 0.3, 1.0]))
    def check(x, twentieths, beta):
        q = Fraction(twentieths, 20)
        _, s = order.smooth_sensitivity(x, q, -20, 20, beta, replace=False)
        assert s == pytest.approx(by_definition_add(x, q, -20, 20, beta), rel=1e-11)

    check()


runs = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 16)), min_size=1, max_size=5)


@pytest.mark.parametrize("blocks", [1, 3, 128])
def test_heavy_ties_equal_the_definition(blocks, monkeypatch):
    """Up to 5 values, each repeated up to 16 times; one block, three, and one for each value."""
    monkeypatch.setattr(order, "_BLOCKS", blocks)

    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(runs, st.integers(0, 20), st.sampled_from([1e-3, 0.01, 0.1, 1.0]), st.randoms())
    def check(pairs, twentieths, beta, shuffler):
        x = [v for v, times in pairs for _ in range(times)]
        shuffler.shuffle(x)
        q, column = Fraction(twentieths, 20), np.array(x, dtype=np.int32)
        floor = math.log(40) - 140  # below, what is left out may count
        for s, got in (
            (
                by_definition_replace(x, order.rank_of(q, len(x)), -20, 20, beta),
                order.smooth_sensitivity(x, q, -20, 20, beta, replace=True),
            ),
            (
                by_definition_add(x, q, -20, 20, beta),
                order.smooth_sensitivity(x, q, -20, 20, beta, replace=False),
            ),
        ):
            assert got[0] == sorted(x)[order.rank_of(q, len(x)) - 1]
            assert max(math.log(got[1]), floor) == pytest.approx(max(math.log(s), floor), abs=1e-11)
        if q == HALF:
            median = order.log_smooth_median_add(column, -20, 20, beta, 10**6)
            assert median[0] == got[0] and median[1] == pytest.approx(math.log(got[1]), abs=1e-11)

    check()


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(
    st.one_of(st.fractions(-1, 1, max_denominator=200), st.floats(-1, 1).map(Fraction)),
    st.lists(st.integers(0, 100) | st.integers(0, 2**31 - 1), min_size=1, max_size=20),
)
def test_multiples_are_rounded_down_exactly(ratio, r):
    exact = [math.floor(ratio * v) for v in r]
    assert order._floor_times(ratio, np.array(r)).tolist() == exact


@each("blocks", [1, 4, 128])
@each("beta", [1e-4, 1e-2])
@each("kind", ["even", "geometric", "normal", "lump"])
def test_contenders_include_the_best_pair(kind, beta, blocks, monkeypatch):
    """With bounds on blocks and without, n = 5000; values that many pairs share are among them."""
    rng = np.random.default_rng(2)
    n, half = 5000, 2**17
    u = (np.arange(n) - n / 2) / n
    x = {
        "even": u * 2 * half,
        "geometric": np.sign(u) * np.exp(23 * np.abs(u)),
        "normal": rng.normal(0, 1000, n),
        "lump": np.where(rng.random(n) < 0.9, 5.0, rng.normal(0, 1e5, n)),
    }[kind]
    x = np.clip(x, -half, half).astype(np.int32)
    found = {}
    for every in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(order, "_BLOCKS", blocks)
            if every:
                patch.setattr(order, "_contenders", lambda w, f, rows, columns, *_: (rows, columns))
            found[every] = [
                function(x.copy(), where, -half, half, beta, n)
                for function, where in (
                    (order.log_smooth_replace, n // 4),
                    (order.log_smooth_replace, n // 2),
                    *((order.log_smooth_add, q) for q in QS),
                )
            ]
    np.testing.assert_allclose(found[False], found[True], rtol=0, atol=1e-12)


@each("beta", [1e-4, 1e-2, 0.5])
@each("kind", ["wide", "ties", "heavy", "skewed"])
def test_large_columns_equal_the_definition(kind, beta):
    rng = np.random.default_rng(8)
    n = 1501
    most = min(n + 1, int(150 / beta) + 2)
    x = {
        "wide": rng.integers(-(2**17), 2**17, n),
        "ties": rng.integers(0, 3, n) * 1000,
        "heavy": np.clip(rng.standard_cauchy(n) * 3000, -(2**17), 2**17),
        "skewed": np.exp(rng.normal(5, 2, n)).clip(0, 2**17),
    }[kind].astype(np.int32)
    for m in (1, 400, 751, n):
        s = by_definition_replace(x, m, -(2**17), 2**17, beta)
        got = order.log_smooth_replace(x.copy(), m, -(2**17), 2**17, beta, most)[1]
        assert got == pytest.approx(math.log(s), abs=1e-11)
    median = order.log_smooth_median_add(x.copy(), -(2**17), 2**17, beta, most)
    general = order.log_smooth_add(x.copy(), HALF, -(2**17), 2**17, beta, most)
    # Below exp(-140) of the width, what is left out may count.
    sizes = [max(s, math.log(2**18) - 140) for s in (median[1], general[1])]
    assert median[0] == general[0] and sizes[0] == pytest.approx(sizes[1], abs=1e-11)
    # A window of the ranks that matter gives the same.
    reach = int(40 / beta) + 2
    if reach < n // 10:
        for q in (Fraction(1, 5), HALF, Fraction(4, 5)):
            near = order.log_smooth_add(x.copy(), q, -(2**17), 2**17, beta, reach)
            far = order.log_smooth_add(x.copy(), q, -(2**17), 2**17, beta, most)
            assert near[0] == far[0]
            sizes = [max(s, math.log(2**18) - 35) for s in (near[1], far[1])]
            assert sizes[0] == pytest.approx(sizes[1], abs=1e-11)


# --- the ladder ----------------------------------------------------------------------------------


@each("noise", ["cauchy", "student", "laplace"])
@each("epsilon", [1e-6, 0.1, 1.0, 64.0, 1e9])
def test_the_ladder_covers_and_rounds_up(noise, epsilon):
    how = choose_noise(noise, epsilon, delta=1e-9)
    for width in (1, 1000, 2**19):
        ladder = Ladder(width, how.beta / STEPS)
        assert ladder.level(-math.inf) == ladder.last and ladder.level(math.log(width) + 1) == 0
        assert ladder.scale(0) == width
        assert 0 < ladder.scale(ladder.last) <= Fraction(1, 2**smooth.FLOOR_BITS)
        assert how.kappa * ladder.scale(ladder.last) >= Fraction(1, 2**100)
        assert how.kappa * width <= smooth.LARGEST_SCALE[noise]
        for s in (1e-3, 0.4, 1.0):
            level = ladder.level(math.log(width * s))
            if level < ladder.last:
                above = float(ladder.scale(level)) / (width * s)
                assert above * (1 + 1e-12) >= 1 and above <= math.exp(2.001 * float(ladder.h))
        # what is left out is below the last rung
        gone = math.log(width) - ladder.beta * ladder.reach
        assert gone <= math.log(ladder.scale(ladder.last)) + 1e-9
    assert how.beta <= Fraction(how.epsilon) / 2


@st.composite
def neighbours(draw, relation):
    x = draw(st.lists(st.integers(-8, 8), min_size=2, max_size=9))
    row = draw(st.integers(-8, 8))
    place = draw(st.integers(0, len(x) - 1))
    y = x[:place] + ([row] if relation == R else []) + x[place + 1 :]
    return (x, y) if draw(st.booleans()) else (y, x)


@pytest.mark.slow
@each("relation", RELATIONS)
@each("q", [0.5, 0.2, 0.9])
def test_neighbours_are_as_close_as_the_noise_is_calibrated_for(relation, q):
    """Quantiles by the smaller scale, rungs by STEPS at most; both are nearly attained."""
    most = {"f": 0.0, "rung": 0}
    level = Fraction(str(q))

    @settings(max_examples=250, deadline=None, database=None, derandomize=True)
    @given(neighbours(relation), st.sampled_from([0.05, 0.4, 1.5]))
    def check(pair, beta):
        ladder = Ladder(16, Fraction(beta) / STEPS)
        (f, j), (g, k) = (
            quantile_log_smooth(
                np.array(t, dtype=np.int32), level, -8, 8, ladder, replace=relation == R
            )
            for t in pair
        )
        smaller = ladder.scale(max(j, k))
        assert abs(f - g) <= smaller and abs(j - k) <= STEPS
        most["f"] = max(most["f"], float(abs(f - g) / smaller))
        most["rung"] = max(most["rung"], abs(j - k))

    check()
    assert most["f"] > 0.9 and most["rung"] >= STEPS - 1
