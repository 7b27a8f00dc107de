"""The exponential mechanism and uniform integers, as functions of their random bits.

The samplers are called with scripted entropy in place of random bits, so their probabilities are
counted instead of estimated.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from skdp.core.noise import exponential_mechanism
from skdp.core.noise.exact import uniform_below
from tests.verified.balls import ball, flint_with

ABOUT = (
    "skdp/core/noise/entropy.py",
    "skdp/core/noise/exact.py",
    "skdp/core/noise/exponential.py",
)
NEEDS = ("flint",)
WORDS = 1 << 64


class OutOfBits(Exception):
    """More bits were asked for than the script has."""


class OneAnswer:
    """Entropy that gives out one integer, as bytes or as a word, and then refuses."""

    def __init__(self, value):
        self.value = value

    def _next(self):
        if self.value is None:
            raise OutOfBits
        value, self.value = self.value, None
        return value

    def bytes(self, n):
        return self._next().to_bytes(n, "little")

    def words(self, n):
        assert n == 1
        return np.array([self._next()], dtype=np.uint64)


# --- uniform integers ---------------------------------------------------------------------------

SIZES = (*range(1, 70), 100, 127, 128, 129, 200, 255, 256, 257, 1000, 40_000, 65_535)


def test_uniform_integers_are_uniform(record_property):
    """Each result of `uniform_below` has exactly as many strings of bytes as every other.

    Domain: 80 values of n, up to 65,535, and every string of bytes that a draw may read. Method:
    exhaustive. Less than half of the strings are refused.
    """
    n_strings = 0
    for n in SIZES:
        n_bytes = -(-(n - 1).bit_length() // 8)
        counts, refused = [0] * (n + 1), 0
        for value in range(256**n_bytes):
            try:
                counts[uniform_below(n, entropy=OneAnswer(value))] += 1
            except OutOfBits:
                refused += 1
        assert counts[n] == 0
        assert len(set(counts[:n])) == 1
        assert n == 1 or 2 * refused < 256**n_bytes
        n_strings += 256**n_bytes
    record_property("byte_strings", n_strings)


# --- the exponential mechanism ------------------------------------------------------------------


def chosen(scores, eta, word):
    """Return the choice that this first word makes, or None if more bits decide."""
    try:
        return exponential_mechanism(scores, eta, entropy=OneAnswer(word))
    except OutOfBits:
        return None


def first_word(holds, low, high):
    """Return the first word in [low, high) from which a monotone condition holds."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def decided(scores, eta, word, step):
    """Return the choice of the nearest word, in the direction of `step`, that needs no more bits.

    Choices ascend with the word. So going up gives the largest choice that further bits of this
    word can lead to, or a larger one; going down the smallest, or a smaller one.
    """
    while (choice := chosen(scores, eta, word)) is None:
        word, step = min(max(word + step, 0), WORDS - 1), 2 * step
    return choice


def probability_bounds(scores, eta):
    """Return a lower and an upper bound on the probability of each choice.

    The choice ascends with the first word, so bisection with the shipped function finds, for each
    i, the first word that may choose i or more and the first that surely does. Words in between
    ask for more bits; they count for neither choice in the lower bounds, for both in the upper.
    """
    n = len(scores)
    may = [0] * n + [WORDS]
    must = [0] * n + [WORDS]
    for i in range(1, n):
        may[i] = first_word(lambda w, i=i: decided(scores, eta, w, 1) >= i, 0, WORDS)
        must[i] = first_word(lambda w, i=i: decided(scores, eta, w, -1) >= i, may[i], WORDS)
    return [
        (
            Fraction(max(may[i + 1] - must[i], 0), WORDS),
            Fraction(must[i + 1] - may[i], WORDS),
        )
        for i in range(n)
    ]


LARGEST_SCORE = 3


def loss_between_neighbours(bounds):
    """Return the largest ratio of probabilities of two vectors whose scores differ by 1 at most."""
    worst = Fraction(0)
    for scores, here in bounds.items():
        for moves in itertools.product((-1, 0, 1), repeat=len(scores)):
            neighbour = tuple(s + m for s, m in zip(scores, moves, strict=True))
            if neighbour in bounds:
                there = bounds[neighbour]
                worst = max(worst, *(a[1] / b[0] for a, b in zip(here, there, strict=True)))
    return worst


def test_exponential_mechanism(record_property):
    """The probabilities are those of the definition, and neighbours differ by 2 eta at most.

    Domain: rates eta of 1/2 and 3/10, all 64 vectors of three scores from 0 to 3, and all their
    neighbours (each score moves by 1 at most). Method: bisection on the first word; the definition
    is evaluated in balls of 200 bits. The bound on the loss uses the bisection alone, no formula.
    """
    flint_with(200)
    for eta in (Fraction(1, 2), Fraction(3, 10)):
        bounds = {
            scores: probability_bounds(list(scores), eta)
            for scores in itertools.product(range(LARGEST_SCORE + 1), repeat=3)
        }
        for scores, intervals in bounds.items():
            weights = [(-ball(eta) * score).exp() for score in scores]
            for (low, high), weight in zip(intervals, weights, strict=True):
                probability = weight / sum(weights[1:], weights[0])
                assert ball(low) <= probability
                assert probability <= ball(high)
                assert high - low < Fraction(1, 2**45)
        # The width of the enclosures adds to the bound; 2**-40 is far above it.
        loss = ball(loss_between_neighbours(bounds)).log()
        assert loss <= ball(2 * eta) + ball(Fraction(1, 2**40))
        record_property(f"score_vectors, eta {eta}", len(bounds))
        record_property(f"loss_bound, eta {eta}", float(loss.upper()))
