"""The samplers decide for the ideal variable: oracles, brackets, forced fallbacks.

Every oracle here is slow and independent of the code it checks: rationals (fractions) and mpmath
at 80 digits. It is driven by the very bits of the fast path.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from skdp.core.noise import SeededEntropy, additive, deviates, exact
from tests.core.bits import ONES, Recorded, Repeating
from tests.folding import each

# --- brackets ---


def test_exp_bracket_holds_and_is_tight():
    rng = np.random.default_rng(0)
    with mpmath.workdps(200):
        for _ in range(300):
            x = Fraction(int(rng.integers(1, 1 << 62)), int(rng.integers(1, 1 << 62)))
            x = x * Fraction(2) ** int(rng.integers(-70, 8))
            bits = int(rng.integers(8, 400))
            lo, hi = exact.exp_bracket(x, bits)
            true = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
            assert lo <= true <= hi
            assert hi - lo <= 4
    assert exact.exp_bracket(Fraction(0), 50) == (1 << 50, 1 << 50)
    with pytest.raises(ValueError, match="negative"):
        exact.exp_bracket(Fraction(-1), 10)


@pytest.mark.parametrize("normal", [True, False])
def test_tables_are_the_documented_integers(normal):
    env = deviates._envelope(normal)
    level = env.level
    with mpmath.workdps(50):

        def weight(i):
            x = mpmath.mpf(i) / 64
            return level * mpmath.exp(-x * x / 2 if normal else -x)

        n = [int(mpmath.ceil(weight(i))) for i in range(320)]
        assert list(env.entries) == n
        tail = 2**14 - 2 * sum(n)
        assert env.tail_entries == tail == 2**14 - env.tail_from
        # measure of the tail's proposal: 2 * 64 / 4 (slope 4) or 2 * 64 (slope 1) cells of height 1
        tail_height = weight(320) * (32 if normal else 128) / tail
        assert tail_height <= 1
        assert np.all(env.sure[env.tail_from :] == 0)
        assert np.all(env.never[env.tail_from :] == int(mpmath.ceil(256 * tail_height)))
        assert abs(env.height[-1] / float(tail_height) - 1) < 1e-15
        seen = {}
        for e in range(env.tail_from):
            cell = int(env.left[e]) >> 42
            i = cell if cell >= 0 else -cell - 1
            seen[cell] = seen.get(cell, 0) + 1
            assert env.near[e] == i / 64
        assert seen == {c: n[c if c >= 0 else -c - 1] for c in range(-320, 320)}
        first = {int(c): k for k, c in reversed(list(enumerate(env.left[: env.tail_from] >> 42)))}
        for i in range(320):
            e = first[i]
            assert env.sure[e] == min(255, int(mpmath.floor(256 * weight(i + 1) / n[i])))
            assert env.never[e] == int(mpmath.ceil(256 * weight(i) / n[i]))
            assert abs(env.height[e] / float(weight(i) / n[i]) - 1) < 3e-16


@pytest.mark.parametrize("normal", [True, False])
def test_float_acceptance_is_certain_for_the_whole_interval(normal):
    # V within 1e-12 of the boundary: both answers and "not certain" must all occur, none wrong.
    env = deviates._envelope(normal)
    rng = np.random.default_rng(1)
    n = 3000
    entry = rng.integers(0, env.tail_from, n)
    x = (env.left[entry] + rng.integers(0, 1 << 42, n)) * 2.0**-48
    height, v_all = [], []
    with mpmath.workdps(50):
        for e, value in zip(entry.tolist(), x.tolist(), strict=True):
            cell = int(env.left[e]) >> 42
            count = env.entries[cell if cell >= 0 else -cell - 1]
            ends = [abs(mpmath.mpf(value)), abs(mpmath.mpf(value) + mpmath.mpf(2) ** -48)]
            p = [env.level * mpmath.exp(-t * t / 2 if normal else -t) / count for t in ends]
            height.append((min(p), max(p)))
            nudge = mpmath.mpf(float(rng.normal() * 10.0 ** rng.uniform(-16, -12)))
            v = int(mpmath.floor((p[0] + nudge) * mpmath.mpf(2) ** 72))
            v_all.append(min(max(v, 0), (1 << 72) - 1))
        byte = np.array([v >> 64 for v in v_all], dtype=np.uint8)
        word = np.array([v & ONES for v in v_all], dtype=np.uint64)
        yes, no = deviates._accept(env, entry, x, byte, word)
        for k, (low, high) in enumerate(height):
            v = mpmath.mpf(v_all[k])
            if yes[k]:
                assert (v + 1) / mpmath.mpf(2) ** 72 <= low
            if no[k]:
                assert v / mpmath.mpf(2) ** 72 >= high
    assert yes.sum() > 100
    assert no.sum() > 100
    assert (~(yes | no)).sum() > 100


@each("normal", [True, False])
@each("word", [0, 1, 0x9E3779B97F4A7C15, ONES - 1])
def test_settle_extends_bits_until_certain(normal, word):
    # V's first 72 bits are those of the boundary itself: they cannot decide, further bits must.
    env = deviates._envelope(normal)
    rng = np.random.default_rng(2)
    outcomes = []
    for _ in range(20):
        entry = int(rng.integers(0, env.tail_from))
        m = int(env.left[entry]) + int(rng.integers(0, 1 << 42))
        cell = int(env.left[entry]) >> 42
        count = env.entries[cell if cell >= 0 else -cell - 1]
        source = Repeating(word)
        x = Fraction(m, 1 << 48) + Fraction(word, ONES << 48)
        with mpmath.workdps(80):
            t = abs(mpmath.mpf(x.numerator) / x.denominator)
            p = env.level * mpmath.exp(-t * t / 2 if normal else -t) / count
            v = int(mpmath.floor(p * mpmath.mpf(2) ** 72))
            if v >= 1 << 72:
                continue
            ideal_v = (v + mpmath.mpf(word) / ONES) / mpmath.mpf(2) ** 72
            accepted, got, bits = deviates._settle(env, entry, m, v, 72, source)
            assert accepted == (ideal_v < p)
        assert source.drawn >= 16
        assert bits > 48
        assert Fraction(got, 1 << bits) <= x <= Fraction(got + 1, 1 << bits)
        outcomes.append(accepted)
    if word in (0, ONES - 1):
        assert all(outcomes) if word == 0 else not any(outcomes)


@pytest.mark.parametrize("word", [0, 0x9E3779B97F4A7C15, ONES])
def test_settle_tails_extend_bits_until_certain(word, monkeypatch):
    source = Repeating(word)
    with mpmath.workdps(80):
        # Laplace: the tail entry's acceptance probability is one number
        env = deviates._envelope(False)
        p = env.level * 128 * mpmath.exp(-5) / env.tail_entries
        v = int(mpmath.floor(p * mpmath.mpf(2) ** 72))
        rest = p * mpmath.mpf(2) ** 72 - v
        accepted = deviates._settle_constant(env, v, 72, source)
        assert accepted == (mpmath.mpf(word) / ONES < rest)
        assert source.drawn >= 8
        # normal: X = 5 + Y / 4, with a given Y and V at the boundary of its prefix
        env = deviates._envelope(True)
        for y in (0.75, -0.75, 3.0 + 2.0**-48, -(2.0**-48)):
            monkeypatch.setattr(
                deviates, "draw_laplace", lambda *_, y=y: deviates.Deviates(np.array([y]))
            )
            source = Repeating(word)
            ideal = source.ideal(y)
            u = abs(mpmath.mpf(ideal.numerator) / ideal.denominator) / 4
            p = env.level * 32 * mpmath.exp(-12.5 - u - u * u / 2) / env.tail_entries
            v = int(mpmath.floor(p * mpmath.mpf(2) ** 72))
            ideal_v = (v + mpmath.mpf(word) / ONES) / mpmath.mpf(2) ** 72
            accepted, m, b = deviates._settle_tail(env, v, 72, source)
            assert source.drawn >= 16
            assert accepted == (ideal_v < p)
            x = ideal / 4 + (5 if y > 0 else -5)
            assert Fraction(m, 1 << b) <= x <= Fraction(m + 1, 1 << b)


def test_floor_of_exp_asks_for_more_bits():
    with mpmath.workdps(60):
        for nudge, expected in ((1, 7), (-1, 6)):
            factor = Fraction(int(7 * mpmath.exp(1) * 2**150) + (nudge << 40), 1 << 150)
            assert deviates._floor_of_exp(factor, Fraction(1)) == expected


def test_a_table_without_room_is_refused(monkeypatch):
    monkeypatch.setattr(deviates, "_LEVEL", {True: 99, False: 125})
    for normal in (True, False):
        with pytest.raises(AssertionError, match="no room"):
            deviates._envelope.__wrapped__(normal)


# --- deviates against a replay in high precision ---


def _replay(normal: bool, n: int, log: list[list[int]]) -> list[Fraction]:
    """Draw n deviates from the recorded words, following the module's text, in mpmath.

    Returns the prefixes. Every comparison is exact; none of the recorded runs needs stage 3.
    """
    level = 98 if normal else 124

    def weight(x):
        x = mpmath.mpf(x.numerator) / x.denominator
        return level * mpmath.exp(-x * x / 2 if normal else -x)

    n_i = [int(mpmath.ceil(weight(Fraction(i, 64)))) for i in range(320)]
    entries = [i for i in range(320) for _ in range(n_i[i])]
    entries += [-i - 1 for i in range(320) for _ in range(n_i[i])]
    tail = 2**14 - len(entries)
    out: list[Fraction | None] = [None] * n
    todo, tails = list(range(n)), []
    while todo:
        words = log.pop(0)
        assert len(words) == len(todo)
        maybe, again = [], []
        for k, w in zip(todo, words, strict=True):
            entry, position, byte = w >> 50, (w >> 8) & ((1 << 42) - 1), w & 255
            if entry < len(entries):
                cell = entries[entry]
                i = cell if cell >= 0 else -cell - 1
                x = Fraction((cell << 42) + position, 1 << 48)
                if byte < mpmath.floor(256 * weight(Fraction(i + 1, 64)) / n_i[i]):
                    out[k] = x
                    continue
                highest = weight(Fraction(i, 64)) / n_i[i]
                at = (abs(x), n_i[i], 1)
            else:
                assert not normal or byte  # the recorded runs do not enter the normal tail
                x = None
                highest = weight(Fraction(5)) * (32 if normal else 128) / tail
                at = (Fraction(5), tail, 128)
            if byte >= 256 * highest:
                again.append(k)
            else:
                maybe.append((k, x, byte, at))
        words = log.pop(0) if maybe else []
        assert len(words) == len(maybe)
        for (k, x, byte, (ax, count, factor)), w in zip(maybe, words, strict=True):
            if mpmath.mpf((byte << 64) + w) / mpmath.mpf(2) ** 72 >= factor * weight(ax) / count:
                again.append(k)
            elif x is None:
                tails.append(k)
            else:
                out[k] = x
        todo = sorted(again)
    if tails:
        for k, y in zip(tails, _replay(False, len(tails), log), strict=True):
            out[k] = y + (5 if y >= 0 else -5)
    return out


@pytest.mark.parametrize("normal", [True, False])
def test_deviates_equal_a_replay_in_high_precision(normal):
    source = Recorded(3)
    got = (deviates.draw_normal if normal else deviates.draw_laplace)(4000, source)
    assert not got.held
    with mpmath.workdps(60):
        expected = _replay(normal, 4000, source.log)
    assert not source.log
    assert [Fraction(x) for x in got.x.tolist()] == expected
    assert np.abs(got.x).max() > (3.3 if normal else 7)  # the Laplace run enters its tail


@pytest.mark.parametrize("draw", [deviates.draw_normal, deviates.draw_laplace])
def test_imprecise_filters_draw_the_same_deviates(draw, slack):
    # With the slack nearly every acceptance in doubt is settled in integers, from the same bits.
    expected = draw(4000, SeededEntropy(4))
    slack(0.03)
    got = draw(4000, SeededEntropy(4))
    np.testing.assert_array_equal(got.x, expected.x)
    assert got.held == expected.held


def test_settle_is_reached_by_the_slack(slack, monkeypatch):
    calls = []
    original = deviates._settle
    monkeypatch.setattr(deviates, "_settle", lambda *a: calls.append(1) or original(*a))
    original_tail = deviates._settle_constant
    monkeypatch.setattr(
        deviates, "_settle_constant", lambda *a: calls.append(2) or original_tail(*a)
    )
    deviates.draw_laplace(20_000, SeededEntropy(4))
    assert not calls
    slack(0.9)
    deviates.draw_laplace(20_000, SeededEntropy(4))
    assert calls.count(1) > 300
    assert calls.count(2) > 50


# --- rounding ---

SCALES = [
    Fraction(1),
    Fraction(5, 2),
    Fraction(1000, 3),
    Fraction(2**20 * 3, 7),
    Fraction(2.0**40 / 3),
    Fraction(2**40),
    Fraction(2**52, 7),
    Fraction(1, 2**70),
]


def _exactly(x: Fraction, t: Fraction, nearest: bool) -> int:
    value = math.floor(t * abs(x) + (Fraction(1, 2) if nearest else 0))
    return value if x >= 0 else -value


@each("nearest", [True, False])
@each("t", SCALES, ids=str)
@each("word", [1, 0x9E3779B97F4A7C15, ONES - 1])
@each("imprecise", [0.0, 0.4])
def test_rounding_equals_rationals(nearest, t, word, imprecise, slack):
    source = Repeating(word)
    drawn = deviates.draw_laplace(300, SeededEntropy(5))
    # adversarial prefixes: next to a jump of t |x|, on both sides
    jumps = [(k + Fraction(1, 2) * nearest) / t for k in (0, 1, 2, 5, 1000, 2**41, 2**51 + 3)]
    near = [math.floor(j * 2**48) + e for j in jumps if j < 15 for e in (-2, -1, 0, 1)]
    near = [m for m in near if m >= 0]
    x = np.concatenate([drawn.x, [s * m / 2.0**48 for m in near for s in (1, -1) if s * m]])
    held = {7: ((int(x[7] * 2**48) << 64) | word, 112)}  # a deviate of which more is known already
    slack(imprecise)
    got = additive.round_scaled(deviates.Deviates(x.copy(), held), t, nearest, source)
    assert got.tolist() == [_exactly(source.ideal(v), t, nearest) for v in x.tolist()]
    if t >= 2**40 or (imprecise and t >= 1):
        assert source.drawn > 0
    # one scale for each gives the same
    many = np.empty(x.size, dtype=object)
    many[:] = t
    again = additive.round_scaled(deviates.Deviates(x.copy(), {}), many, nearest, source)
    np.testing.assert_array_equal(again, got)
    floats = np.full(x.size, float(t))
    expected = [_exactly(source.ideal(v), Fraction(float(t)), nearest) for v in x.tolist()]
    again = additive.round_scaled(deviates.Deviates(x.copy(), {}), floats, nearest, source)
    assert again.tolist() == expected


def test_huge_deviates_round_exactly_and_never_wrap():
    big = (40 << 112) + 12345
    drawn = deviates.Deviates(np.zeros(2), {0: (big, 112), 1: (-(3000 << 112) - 7, 112)})
    t = Fraction(2**52)
    got = additive.round_scaled(drawn, t, False, Repeating(5))
    assert got.dtype == object
    assert got.tolist() == [40 * 2**52, -3000 * 2**52]


def test_prefixes_are_remembered():
    drawn = deviates.draw_normal(50, SeededEntropy(6))
    source = SeededEntropy(7)
    where = np.arange(0, 50, 3)
    first = drawn.prefixes(where, 112, source)
    longer = drawn.prefixes(where, 240, source)
    assert all(m >> 128 == k for m, k in zip(longer, first, strict=True))
    assert drawn.prefixes(where, 48, source).tolist() == (drawn.x[where] * 2.0**48).tolist()
    mixed = drawn.prefixes(np.array([0, 1]), 112, source)
    assert mixed[0] == first[0]
    assert mixed[1] >> 64 == int(drawn.x[1] * 2**48)


@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_rounding_next_to_a_jump_beyond_double_doubles(nearest, sign):
    # t |X| is within 2**-60 of a jump, which stage 2 cannot tell: the third helping of bits must.
    t = Fraction(2**52, 7)
    rng = np.random.default_rng(8)
    x, words, expected = [], [], []
    for k in rng.integers(1, 2**51, 400).tolist():
        at = math.floor((k + Fraction(1, 2) * nearest) / t * 2**112) + k % 7 - 3
        at = at if sign > 0 else -at
        x.append((at >> 64) / 2.0**48)
        words.append(at & ONES)
        ideal = (at + Fraction(1 << 63, ONES)) / 2**112
        expected.append(_exactly(ideal, t, nearest))

    class Given(Repeating):
        def words(self, n):
            if not self.drawn:
                self.drawn = 1
                return np.array(words, dtype=np.uint64)
            return super().words(n)

    drawn = deviates.Deviates(np.array(x))
    assert additive.round_scaled(drawn, t, nearest, Given(1 << 63)).tolist() == expected
    assert len(drawn.held) > 350


def test_an_interval_over_a_jump_is_not_certain():
    # In units of 2**-112, t |X| is between 2.25 m and 2.25 (m + 1): two or three integers.
    drawn = deviates.Deviates(np.array([0.3, -0.3, 1.7]))
    t = Fraction(9 << 112, 4)
    values, sure = additive._third(drawn, t, np.arange(3), 112, False, Repeating(1))
    assert not sure.any()
    values, sure = additive._third(drawn, t / 2**80, np.arange(3), 112, False, Repeating(1))
    assert sure.all()
    assert np.sign(values).tolist() == [1, -1, 1]


def test_sign_of_a_held_deviate():
    drawn = deviates.Deviates(np.zeros(3), {0: (-(20 << 48), 48), 2: (20 << 48, 48)})
    assert additive._negative(drawn, np.arange(3)).tolist() == [True, False, False]


def testtwo_product_is_exact():
    rng = np.random.default_rng(8)
    a = rng.integers(0, 1 << 52, 500) * 2.0**-48
    for b in (2.0**-100 * 1.7, 1.1, 2.0**52 - 1):
        p, e = additive.two_product(a, b)
        for x, hi, lo in zip(a.tolist(), p.tolist(), e.tolist(), strict=True):
            assert Fraction(hi) + Fraction(lo) == Fraction(x) * Fraction(b)
