"""Streams of bits that are known: one word again and again, or a seeded one that is remembered."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from skdp.core.noise import SeededEntropy

ONES = (1 << 64) - 1


class Repeating:
    """Every 64-bit word is the same, so every lazily extended deviate is a known rational."""

    def __init__(self, word: int) -> None:
        self.word = word
        self.drawn = 0

    def bytes(self, n: int) -> bytes:
        self.drawn += n
        return (self.word.to_bytes(8, "little") * (n // 8 + 1))[:n]

    def words(self, n: int) -> np.ndarray:
        self.drawn += 8 * n
        return np.full(n, self.word, dtype=np.uint64)

    def ideal(self, x: float) -> Fraction:
        """Return the real number of which x is the prefix with 48 bits."""
        return Fraction(x) + Fraction(self.word, ONES << 48)


class Recorded:
    """A seeded stream that remembers what it gave."""

    def __init__(self, seed: int) -> None:
        self.source = SeededEntropy(seed)
        self.log: list[list[int]] = []

    def bytes(self, n: int) -> bytes:
        assert n == 8
        out = self.source.bytes(n)
        self.log.append([int.from_bytes(out, "little")])
        return out

    def words(self, n: int) -> np.ndarray:
        out = self.source.words(n)
        self.log.append(out.tolist())
        return out
