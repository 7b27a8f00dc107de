"""The exponential mechanism decides for the ideal variable: integers, mpmath, boundaries.

Every oracle is slow and independent of the code it checks, as in `test_sampling_exact`.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from skdp.core import noise as sampling
from skdp.core.noise import SeededEntropy, exponential
from tests.core.bits import ONES, Repeating
from tests.folding import each


@each("eta", [Fraction(1, 3), 0.01, 2, 0])
@each("counted", [False, True])
def test_exponential_mechanism_equals_integers(eta, counted, slack):
    rng = np.random.default_rng(16)
    scores = rng.integers(-50, 400, 200)
    counts = rng.integers(0, 1 << 60, 200) if counted else None
    fast = SeededEntropy(17)
    expected = [
        sampling.exponential_mechanism(scores, eta, counts, entropy=fast) for _ in range(60)
    ]
    slack(1.0)
    slow = SeededEntropy(17)
    got = [sampling.exponential_mechanism(scores, eta, counts, entropy=slow) for _ in range(60)]
    assert got == expected


@pytest.mark.parametrize("word", [0, 1, ONES // 3, ONES - 2, ONES - 1])
def test_what_those_left_out_could_decide_is_decided_among_all(word):
    """Of a part of the candidates only draws are certain that those beside it cannot have."""
    scores, counts = np.abs(np.arange(-90, 91)), np.ones(181, dtype=int)
    near, asked = slice(30, 151), []  # weights of the others are below 2**-86

    def whole():
        asked.append(word)
        return scores, counts

    expected = sampling.exponential_mechanism(scores, 1, counts, entropy=Repeating(word))
    found = sampling.exponential_mechanism(
        scores[near], 1, counts[near], entropy=Repeating(word), whole=whole
    )
    assert found + (0 if asked else near.start) == expected
    assert bool(asked) == (word != ONES // 3)


@pytest.mark.parametrize("eta", [Fraction(1, 7), Fraction(3, 2), 20])
def test_exponential_mechanism_equals_high_precision(eta):
    # Multiplicities that make all scores about as likely, so that every weight matters.
    rng = np.random.default_rng(18)
    rate = mpmath.mpf(Fraction(eta).numerator) / Fraction(eta).denominator
    words = [0, 1, ONES - 1, *rng.integers(0, ONES, 40, dtype=np.uint64).tolist()]
    for word in words:
        scores = rng.integers(0, 30, 20).tolist()
        share = rng.uniform(0, 9, 20).tolist()
        with mpmath.workdps(400):
            counts = [int(u * mpmath.exp(rate * s)) for u, s in zip(share, scores, strict=True)]
            counts[3] += 1
            w = [c * mpmath.exp(-rate * s) for s, c in zip(scores, counts, strict=True)]
            target = mpmath.mpf(word) / ONES * mpmath.fsum(w)
            sums = [mpmath.fsum(w[: k + 1]) for k in range(20)]
        got = sampling.exponential_mechanism(scores, eta, counts, entropy=Repeating(word))
        assert got == next(k for k in range(20) if sums[k] > target)


def test_exponential_mechanism_on_a_boundary_draws_more():
    # Two equal candidates and V = 1/2 - 2**-64 + ..., whose first word cannot decide in float64.
    source = Repeating((1 << 63) - 1)
    assert sampling.exponential_mechanism([4, 4], 1.0, entropy=source) == 0
    source = Repeating(1 << 63)
    assert sampling.exponential_mechanism([4, 4], 1.0, entropy=source) == 1
    # the same with an irrational boundary hit by the first words
    with mpmath.workdps(80):
        p = 1 / (1 + mpmath.exp(-1))
        v = int(mpmath.floor(p * 2**64))
        after = int((p * 2**64 - v) * 2**64)
    for second, choice in ((after - 2, 0), (after + 2, 1)):
        bits = iter([v, second])

        class Given:
            def bytes(self, n, bits=bits):
                return next(bits).to_bytes(n, "little")

        assert sampling.exponential_mechanism([0, 1], 1, entropy=Given()) == choice
        assert next(bits, None) is None


def test_exponential_mechanism_takes_integers_of_any_size():
    source = SeededEntropy(19)
    huge = [2**3000, 0, 2**3000 + 1]
    assert sampling.exponential_mechanism(huge, 1.0, entropy=source) == 1
    # exp(-700 * 1) * 2**3000 beats 1
    assert sampling.exponential_mechanism([0, 700], 1, [1, 2**3000], entropy=source) == 1
    assert sampling.exponential_mechanism([-(2**63), 2**63 - 1], 1e-3, entropy=source) == 0
    assert sampling.exponential_mechanism(np.array([2**64 - 1, 5], "u8"), 1, entropy=source) == 1
    assert sampling.exponential_mechanism([7, 0], 1.0, [1, 0], entropy=source) == 0
    assert sampling.exponential_mechanism([2**70 + 99, 2**70], 1, entropy=source) == 1


def test_exponential_table_is_correctly_rounded():
    for rate in (Fraction(1, 3), Fraction(7.5), Fraction(1, 10**6)):
        for k in (0, 2):
            table = exponential._exp_table(rate, k)
            with mpmath.workdps(60):
                for digit in (0, 1, 17, 63):
                    x = rate * digit * 64**k
                    true = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
                    if x <= 700:
                        assert abs(mpmath.mpf(float(table[digit])) / true - 1) < 1.01 * 2.0**-53
                    elif x > 746:
                        assert table[digit] == 0


def test_what_the_process_keeps_of_a_choice_is_decided_by_its_rate():
    """Not by the scores: how many tables there are would tell how large the scores were."""
    rates = [Fraction(1, 1000), Fraction(3), Fraction(1, 2**80)]
    kept = []
    for scores in ([0, 1], [0, 10**6], [0, 2**62], [0, 10**30], [5]):
        exponential._exp_tables.cache_clear()
        for rate in rates:
            exponential.exponential_mechanism(scores, rate)
        size = exponential._exp_tables.cache_info().currsize
        kept.append((size, [len(exponential._exp_tables(rate)) for rate in rates]))
    assert kept == [(3, [2, 1, 6])] * 5
