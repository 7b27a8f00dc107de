"""Normal and Laplace deviates and discrete Laplace noise, as functions of their random bits.

The sampler (`skdp.core.noise.deviates`) is a rejection from a table of 2**14 entries. One word of
64 bits has 14 bits for the entry, 42 for the position X in the entry's cell, and the first 8 bits
of a uniform V. X is accepted if V is below a probability; 64 more bits of V, and more still, are
drawn only where they are needed. Four steps from the bits to the noise:

1. First words: for every entry and every first byte of V, what is accepted or rejected at once is
   right for the ideal density.
2. Thresholds: the exact V (72 bits) at which the shipped code begins to accept with certainty, and
   at which it begins to reject, enclose the ideal probability.
3. Probabilities: from these thresholds and the shipped rounding, every probability of discrete
   Laplace noise near 0 is enclosed; their ratios bound the privacy loss. No formula enters.
4. `discrete_laplace` composes these parts as step 3 assumes.

Step 3 assumes that acceptance is monotone inside a block of positions; `proofs/` bounds by how
little it may fail to be.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.core.noise import additive, deviates
from skdp.core.noise.deviates import Deviates
from tests.verified.balls import ball, flint_with

ABOUT = (
    "skdp/core/noise/additive.py",
    "skdp/core/noise/deviates.py",
    "skdp/core/noise/entropy.py",
    "skdp/core/noise/exact.py",
)
NEEDS = ("flint",)

POSITIONS = 1 << 42  # in a cell
V_BITS = 72  # of V: the byte of the first word and one word more
DENSITIES = {"Laplace": False, "normal": True}


@pytest.fixture(autouse=True)
def _balls():
    flint_with(200)


class ScriptedWords:
    """Entropy that gives out the first words as stated, then zeros or ones.

    After six words of the same bits it gives out a third pattern. With ones alone, a V and an X
    that both approach the point where the density is 1 would never be told apart.
    """

    def __init__(self, first, later):
        self.first, self.later, self.n_asked = first, later, 0

    def words(self, n):
        if self.first is not None:
            first, self.first = self.first, None
            assert first.size == n
            return first
        return np.full(n, self.later_word(), dtype=np.uint64)

    def later_word(self):
        self.n_asked += 1
        if self.n_asked > 6:
            return 0x5A5A5A5A5A5A5A5A
        return (1 << 64) - 1 if self.later else 0

    def bytes(self, n):
        return self.later_word().to_bytes(8, "little")[:n]


# --- the table ----------------------------------------------------------------------------------


@functools.cache
def cells_of(name):
    """Return the table, the signed cell of each entry, and how many entries each cell has."""
    table = deviates._envelope(DENSITIES[name])
    cells = (table.left[: table.tail_from] >> 42).astype(int)
    counts = dict(
        zip(*(part.tolist() for part in np.unique(cells, return_counts=True)), strict=True)
    )
    return table, cells, counts


def first_entries(name):
    """Return the first entry of each cell."""
    _, cells, _ = cells_of(name)
    return {cell: int(np.argmax(cells == cell)) for cell in sorted(set(cells.tolist()))}


def acceptance(name, n_entries, magnitude):
    """Return the ball of the ideal probability with which |X| = magnitude * 2**-48 is accepted."""
    table = deviates._envelope(DENSITIES[name])
    x = ball(Fraction(magnitude, 1 << 48))
    exponent = x * x / 2 if table.normal else x
    return table.level * (-exponent).exp() / n_entries


# --- step 1: first words ------------------------------------------------------------------------


def byte_bounds(name, position):
    """Return, for each entry, which bytes of V are surely below and surely above acceptance.

    The prefix of X leaves an interval of 2**-48. In 256ths: acceptance is at least `low` in all
    of it, and at most `high`.
    """
    _, cells, counts = cells_of(name)
    low, high = {}, {}
    for cell, n_entries in counts.items():
        prefix = (cell << 42) + position
        ends = [256 * acceptance(name, n_entries, abs(m)) for m in (prefix, prefix + 1)]
        low[cell] = min(int(end.lower().floor().unique_fmpz()) for end in ends)
        high[cell] = max(int(end.upper().ceil().unique_fmpz()) for end in ends)
    return np.array([[low[cell], high[cell]] for cell in cells.tolist()]).T


def outcome(table, words, later):
    """Return which first words are accepted, the deviates, and which needed more bits of X."""
    x, held = np.empty(words.size), {}
    rejected, tail = deviates._pass(table, x, held, ScriptedWords(words, later))
    accepted = np.ones(words.size, dtype=bool)
    accepted[rejected] = accepted[tail] = False
    return accepted, x, list(held)


def check_first_words(name, position):
    """Check all first words of one position; return how many."""
    table, _, _ = cells_of(name)
    byte, step = np.arange(256, dtype=np.uint64), 1 << 10
    low, high = byte_bounds(name, position)
    for start in range(0, table.tail_from, step):
        entry = np.arange(start, min(start + step, table.tail_from))
        head = (entry.astype(np.uint64) << np.uint64(50)) | np.uint64(position << 8)
        words = (head[:, None] | byte).ravel()
        with_zeros, x, longer = outcome(table, words, 0)
        with_ones, x_ones, longer_too = outcome(table, words, 1)
        prefix = (table.left[entry] + position).repeat(256)
        assert (np.ldexp(x, 48) == prefix)[with_zeros].all()
        assert (np.ldexp(x_ones, 48) == prefix)[with_ones].all()
        # V only grows with its later bits: an acceptance cannot come from larger ones alone.
        assert not (with_ones & ~with_zeros).any()
        always, never = with_zeros & with_ones, ~with_zeros & ~with_ones
        always[longer + longer_too] = False  # decided by more bits of X, in step 2
        v = np.tile(byte.astype(int), entry.size)
        assert (v + 1 <= low[entry].repeat(256))[always].all()
        assert (v >= high[entry].repeat(256) - 1)[never].all()
    return 256 * table.tail_from


def test_first_words(record_property):
    """What the first word accepts or rejects for all later bits, the ideal density does, too.

    Domain: both densities, every entry outside the tail, every first byte of V, the two ends of
    the cell and one position inside. Method: exhaustive; later bits are all zeros and all ones.
    """
    positions = (0, POSITIONS - 1, 0x155_5555_5555)
    checked = [check_first_words(name, position) for name in DENSITIES for position in positions]
    record_property("words", sum(checked))


# --- step 2: thresholds -------------------------------------------------------------------------


def certain(table, entry, x, v):
    """Return where the shipped code surely accepts 72-bit values of V, and surely rejects."""
    byte, word = (v >> 64).astype(np.uint8), (v & ((1 << 64) - 1)).astype(np.uint64)
    yes, no = deviates._accept(table, entry, x, byte, word)
    sure, never = byte < table.sure[entry], byte >= table.never[entry]
    return sure | (~never & yes), never | (~sure & no)


def thresholds(table, entry, x):
    """Return integers (accepts, rejects): V < accepts is accepted, V >= rejects is rejected.

    In units of 2**-72; exact, by bisection with the shipped code. The answer is monotone in V.
    """
    found = []
    for which in (0, 1):
        low, high = np.zeros(x.size, object), np.full(x.size, 1 << V_BITS, object)
        for _ in range(V_BITS + 1):
            middle = (low + high) // 2
            inside = middle < (1 << V_BITS)
            answer = certain(table, entry, x, np.where(inside, middle, 0))[which]
            up = inside & (answer if which == 0 else ~answer) & (low < high)
            low, high = (
                np.where(up, middle + 1, low),
                np.where(up | (low >= high), high, middle),
            )
        found.append(low)
    return found


def check_thresholds(name):
    """Check the thresholds of one density at 17 positions of each cell; return how many."""
    table, _, counts = cells_of(name)
    positions = [*(j * POSITIONS // 16 for j in range(16)), POSITIONS - 1]
    points = [
        ((cell << 42) + position, entry, counts[cell])
        for cell, entry in first_entries(name).items()
        for position in positions
    ]
    prefix, entry = (np.array(part) for part in list(zip(*points, strict=True))[:2])
    accepts, rejects = thresholds(table, entry, np.ldexp(prefix.astype(np.float64), -48))
    for (m, _, n_entries), yes, no in zip(points, accepts, rejects, strict=True):
        near, far = sorted((abs(m), abs(m + 1)))
        assert ball(int(yes)) <= 2**V_BITS * acceptance(name, n_entries, far)
        assert 2**V_BITS * acceptance(name, n_entries, near) <= ball(int(no))
    # The shipped margin is 2**-44 on both sides; floats of V and of the probability add a little.
    assert int((rejects - accepts).max()) <= 2 ** (V_BITS - 43) * Fraction(1001, 1000)
    return 2 * len(points)


def test_thresholds(record_property):
    """The shipped thresholds of acceptance enclose the ideal probability, closely.

    Domain: both densities, each of the 640 cells at 17 positions. Method: bisection on 72 bits of
    V.
    """
    record_property("thresholds", sum(check_thresholds(name) for name in DENSITIES))


# --- step 3: probabilities ----------------------------------------------------------------------


def rounded(prefix, scale):
    """Return the least and the largest result of the shipped rounding, for any later bits."""
    x = np.ldexp(prefix.astype(np.float64), -48)
    ends = [
        additive.round_scaled(Deviates(x.copy()), scale, False, ScriptedWords(None, later))
        for later in (0, 1)
    ]
    return np.minimum(*ends), np.maximum(*ends)


def blocks_of_one_result(scale, n_parts):
    """Cut every cell into blocks of positions; return (start, stop, least, largest result).

    A block in which the result changes is cut in half, until it has at most 2**22 positions.
    """
    start = np.concatenate(
        [
            (cell << 42) + np.arange(n_parts, dtype=np.int64) * (POSITIONS // n_parts)
            for cell in first_entries("Laplace")
        ]
    )
    stop = start + POSITIONS // n_parts
    while True:
        (least, high), (low, largest) = rounded(start, scale), rounded(stop - 1, scale)
        least, largest = np.minimum(least, low), np.maximum(high, largest)
        cut = np.flatnonzero((least != largest) & (stop - start > 1))
        if not cut.size or (stop - start)[cut].max() <= 1 << 22:
            return start, stop, least, largest
        middle = (start[cut] + stop[cut]) // 2
        start, stop = np.concatenate([start, middle]), np.concatenate([stop, stop[cut]])
        stop[cut] = middle


def noise_probabilities(scale, n_parts):
    """Return bounds (low, high) on P(K = k) of discrete Laplace noise, for k near 0.

    A block adds its lower threshold to the lower bound of its one result, and its upper threshold
    to the upper bound of each result that it may have. Negative X that round to 0 are drawn again.
    """
    table, _, counts = cells_of("Laplace")
    start, stop, least, largest = blocks_of_one_result(scale, n_parts)
    cell = (start >> 42).tolist()
    entries = first_entries("Laplace")
    entry = np.array([entries[c] for c in cell])
    ends = [
        thresholds(table, entry, np.ldexp(m.astype(np.float64), -48)) for m in (start, stop - 1)
    ]
    size = np.array([counts[c] for c in cell], object) * (stop - start).astype(object)
    accepts = np.minimum(ends[0][0], ends[1][0]) * size
    rejects = np.maximum(ends[0][1], ends[1][1]) * size
    low, high, again = {}, {}, [0, 0]
    for yes, no, first, last, negative in zip(
        accepts.tolist(), rejects.tolist(), least.tolist(), largest.tolist(),
        (start < 0).tolist(), strict=True,
    ):  # fmt: skip
        for k in range(first, last + 1):
            certainly = yes if first == last else 0
            if k == 0 and negative:
                again = [again[0] + certainly, again[1] + no]
            else:
                low[k], high[k] = low.get(k, 0) + certainly, high.get(k, 0) + no
    tail = thresholds(table, np.array([table.tail_from]), np.zeros(1))
    n_tail = ((1 << 14) - table.tail_from) * POSITIONS
    total = sum(accepts.tolist()) + n_tail * int(tail[0][0]) - again[1]
    total_high = sum(rejects.tolist()) + n_tail * int(tail[1][0]) - again[0]
    inner = int(5 * scale) - 1  # beyond, the tail adds to a result
    return {
        k: (Fraction(low[k], total_high), Fraction(high[k], total))
        for k in range(-inner, inner + 1)
    }


PARTS = 64  # blocks in a cell, at least
SCALES = (Fraction(1, 2), Fraction(1), Fraction(10, 3), Fraction(17))


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_noise_probabilities(scale, record_property):
    """Every probability of discrete Laplace noise near 0 is enclosed, and so is the privacy loss.

    Domain: results up to 5 scale - 1 in size, all random bits. Method: lower and upper sums of the
    thresholds of step 2 over blocks of positions (64 a cell, more where the result changes).
    """
    bounds = noise_probabilities(scale, PARTS)
    q = (-1 / ball(scale)).exp()
    for k, (low, high) in bounds.items():
        truth = (1 - q) / (1 + q) * q ** abs(k)
        assert ball(low) <= truth, k
        assert truth <= ball(high), k
    ratios = [
        max(bounds[k][1] / bounds[k + 1][0], bounds[k + 1][1] / bounds[k][0])
        for k in bounds
        if k + 1 in bounds
    ]
    loss, claimed = ball(max(ratios)).log(), 1 / ball(scale)
    # Inside a block acceptance falls by the factor exp(-2**-6 / PARTS). Each of the two bounds in
    # a ratio may be wide by that much, and so may the two normalisations.
    assert loss <= claimed + ball(Fraction(4, 64 * PARTS) * Fraction(1001, 1000))
    record_property("probabilities", len(bounds))
    record_property("loss_bound", float(loss.upper()))
    record_property("claimed", float(1 / scale))


# --- step 4: the whole draw ---------------------------------------------------------------------


class ThenOneWord(ScriptedWords):
    """Entropy that gives out the first words as stated, then one word for ever."""

    def __init__(self, first, word):
        super().__init__(first, 0)
        self.word = word

    def later_word(self):
        return self.word


def check_draw(scale, words):
    """Compare draws with what the parts make of the same words; return how many."""
    table, _, _ = cells_of("Laplace")
    known = (256 << 42) + 0x12345  # X a little above 4, with a V of 0: accepted
    known_word = (first_entries("Laplace")[256] << 50) | (0x12345 << 8)
    known_result = int(rounded(np.array([known]), scale)[0][0])
    assert known_result > 0
    entropy = ThenOneWord(words, known_word)
    drawn = additive.discrete_laplace(scale, words.size, entropy=entropy)
    x = np.empty(words.size)
    rejected, tail = deviates._pass(table, x, {}, ThenOneWord(words, known_word))
    further = ThenOneWord(None, known_word)
    expected = additive.round_scaled(Deviates(x.copy()), scale, False, further)
    prefixes = np.ldexp(x, 48).astype(np.int64).tolist()
    for value, prefix in zip(expected.tolist(), prefixes, strict=True):
        ends = {math.trunc(scale * Fraction(m, 1 << 48)) for m in (prefix, prefix + 1)}
        assert value in ends
    again = (x < 0) & (expected == 0)
    again[rejected] = True
    assert again.any()
    expected[again] = known_result
    outside_tail = np.ones(words.size, dtype=bool)
    outside_tail[tail] = False
    assert np.array_equal(drawn[outside_tail], expected[outside_tail])
    return int(outside_tail.sum())


def test_a_draw_is_composed_of_these_parts(record_property):
    """`discrete_laplace` returns the rounded X, and draws again where X is rejected or "minus 0".

    Domain: 2**14 seeded first words, four scales. Method: each further word is one that is known
    to be accepted, with a result that differs from 0. The rounding is compared with fractions.
    """
    words = np.random.default_rng(5).integers(0, 1 << 64, 1 << 14, dtype=np.uint64)
    record_property("draws", sum(check_draw(scale, words) for scale in SCALES))
