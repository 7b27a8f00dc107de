"""How many ranks off the exponential mechanism's quantiles are, on public rows.

Nothing private is touched, and nothing is released: the choices of `skdp.queries.quantiles` are
drawn again and again for a public column, in floating point and from a seeded generator. Only
candidates near enough in rank to have a chance are looked at, so that a million rows cost no more
than a thousand do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.queries import SPREAD_BITS, Lattice, check_levels, rates, recursion, spread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NO_CHANCE = 40.0  # exp(-40): what is as improbable is not drawn


@dataclass(frozen=True)
class _Runs:
    """Runs of places without a row, and single places with rows, in turns, over a whole column."""

    starts: Ints
    below: Ints  # rows below
    up_to: Ints  # rows below or at the place

    @classmethod
    def of(cls, ordered: Ints) -> _Runs:
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        after = np.append(first[1:], ordered.size)
        starts = np.zeros(2 * first.size + 1, dtype=np.int64)
        below, up_to = np.zeros((2, starts.size), dtype=np.int64)
        starts[1::2], starts[2::2] = ordered[first], ordered[first] + 1
        below[1::2] = first
        below[2::2] = up_to[1::2] = up_to[2::2] = after
        return cls(starts, below, up_to)

    def draw(
        self,
        low: int,
        high: int,
        cuts: tuple[int, int],
        q: float,
        rate: float,
        rng: np.random.Generator,
    ) -> int:
        """Draw a place from low to high, with odds exp(-rate) a rank off level q of the part."""
        target = cuts[0] + q * (cuts[1] - cuts[0])
        reach = (_NO_CHANCE + math.log(high - low + 1.0)) / rate
        first = int(np.searchsorted(self.starts, low, side="right")) - 1
        last = int(np.searchsorted(self.starts, high, side="right"))
        near = int(np.searchsorted(self.up_to, target - reach))
        far = int(np.searchsorted(self.below, target + reach, side="right"))
        near, far = max(near, first), min(far, last)
        if near >= far:
            near, far = first, last
        starts = np.maximum(self.starts[near:far], low)
        ends = np.append(self.starts[near + 1 : far], high + 1)
        if far < last:
            ends[-1] = self.starts[far]
        below = np.clip(self.below[near:far], *cuts)
        up_to = np.clip(self.up_to[near:far], *cuts)
        off = np.maximum(np.maximum(below - target, target - up_to), 0.0)
        lengths = np.maximum(ends - starts, 0)
        with np.errstate(divide="ignore"):
            logs = np.log(lengths.astype(np.float64)) - rate * off
        weights = np.cumsum(np.exp(logs - logs.max()))
        run = int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))
        run = min(run, len(weights) - 1)
        return int(starts[run]) + int(rng.integers(0, max(int(lengths[run]), 1)))


def rank_distance(ordered: Floats, values: Floats, levels: Sequence[float]) -> Floats:
    """Return how many ranks lie between each value, shape (..., m), and its level of the rows."""
    target = len(ordered) * np.asarray(levels, dtype=np.float64)
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return np.maximum(np.maximum(below - target, target - up_to), 0.0)


def rank_errors(
    ordered: Floats,
    lattice: Lattice,
    levels: Sequence[float],
    whole: tuple[Fraction, Fraction],
    *,
    replace: bool,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Return ranks between drawn and exact quantiles of one public column, shape (draws, m).

    Parameters
    ----------
    ordered : ndarray of shape (n,), sorted
    lattice : Lattice
        Of the column's candidates.
    levels : sequence of float
    whole : tuple of two Fractions
        What a round may lose: the last two of `allowances`.
    """
    rounds = recursion(check_levels(levels))
    m, bits = len(levels), SPREAD_BITS
    numbers = lattice.number(ordered)
    points = _Runs.of(numbers)
    places = _Runs.of(spread(numbers.copy())) if len(rounds) > 1 else points
    ordered_places = spread(numbers.copy()) if len(rounds) > 1 else numbers << bits
    steps = [
        list(zip(nodes, rates(nodes, *whole, replace=replace), strict=True)) for nodes in rounds
    ]
    found = np.empty((draws, m), dtype=np.int64)
    for i in range(draws):
        chosen = {-1: 0, m: (lattice.size << bits) - 1}
        cuts = {-1: 0, m: len(ordered)}
        for nodes in steps:
            for node, eta in nodes:
                low, high = chosen[node.left], chosen[node.right]
                part = cuts[node.left], cuts[node.right]
                q, rate = float(node.level), float(eta * node.level.denominator)
                if node.leaf:
                    place = points.draw(low >> bits, high >> bits, part, q, rate, rng) << bits
                else:
                    place = places.draw(low, high, part, q, rate, rng)
                chosen[node.place] = place
                cut = int(np.searchsorted(ordered_places, place))
                cuts[node.place] = min(max(cut, part[0]), part[1])
        found[i] = [chosen[j] >> bits for j in range(m)]
    # With a step, values are meant to be its multiples; without, candidates only stand for them.
    rows = lattice.value(numbers) if lattice.step else ordered
    return rank_distance(rows, lattice.value(found), levels)
