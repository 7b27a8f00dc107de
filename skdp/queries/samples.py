"""Rows picked at random: noisy samples of rows, and (not recommended) the rows themselves.

Released: a fixed, public number of points in random order, each a row under noise (`NoisySample`,
pure epsilon-DP by amplification), or as it is (`PublishedRows`, (0, delta)-DP: a published row has
no privacy at all). Which rows were picked is secret. Proofs: samples.md.

References
----------
B. Balle, G. Barthe, M. Gaboardi (2018), "Privacy amplification by subsampling: tight analyses via
couplings and divergences", NeurIPS, theorems 8 (Poisson, A) and 9 (without replacement, R).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import Box, Floats
from skdp.core.noise.entropy import resolve
from skdp.core.noise.exact import exp_bracket
from skdp.core.privacy_filter import Meter, Release, Share, exact_fraction, in_transcript, released
from skdp.core.query import Measurement, reviewed
from skdp.core.table import PrivateTable
from skdp.loss.conversions import round_up
from skdp.tabular.rows import Rows

Positions = NDArray[np.int64]

RATE_BITS = 32  # a row is in the Poisson sample if a word of so many bits is below a threshold


def amplified_epsilon(epsilon: Fraction, ratio: Fraction) -> Fraction:
    """Return log(1 + (exp(epsilon) - 1) * ratio), rounded down, for ratio r >= 1: n/b, or 1/rate.

    It is epsilon + g, g = log(r - (r - 1) exp(-epsilon)). A float proposes g, and integers decide
    exp(-g) (r - (r - 1) exp(-epsilon)) >= 1 with brackets of both exponentials. No epsilon is too
    large: an exp(-epsilon) below 2**-192 counts as 2**-192.
    """
    if ratio < 1:
        raise ValueError("ratio must be at least 1")
    bits = 192
    inside = ratio - (ratio - 1) * Fraction(exp_bracket(epsilon, bits)[1], 1 << bits)
    guess = math.log1p(-float(ratio - 1) * math.expm1(-float(epsilon)))
    margin = 2.0**-40
    while True:
        gain = Fraction(max(guess * (1 - margin), 0.0))
        # Terminates: margin doubles up to 1, and a gain of 0 holds because inside >= 1.
        if Fraction(exp_bracket(gain, bits)[0], 1 << bits) * inside >= 1:
            return epsilon + gain
        margin = min(2 * margin, 1.0)


def public_rate(rate: float | Fraction | None) -> Fraction:
    """Return the rate of a Poisson sample as a multiple of 2**-32, rounded down: fewer rows."""
    if rate is None:
        raise ValueError(
            "rate must be given under 'add_or_remove_one': a public number in (0, 1], with which "
            "each row is in the sample"
        )
    exact = exact_fraction(rate) if math.isfinite(rate) else Fraction(0)
    if not Fraction(1, 2**RATE_BITS) <= exact <= 1:
        raise ValueError(f"rate must be in [2**-{RATE_BITS}, 1], got {float(rate)!r}")
    return Fraction(math.floor(exact * 2**RATE_BITS), 2**RATE_BITS)


def draw_without_replacement(n: int, size: int, entropy: samplers.Entropy | None) -> Positions:
    """Return `size` of the positions 0 .. n - 1 in uniformly random order, exactly.

    The first steps of a Fisher-Yates shuffle; only the swapped places are stored, so memory does
    not grow with n.
    """
    moved: dict[int, int] = {}
    chosen = np.empty(size, dtype=np.int64)
    for i in range(size):
        j = i + samplers.uniform_below(n - i, entropy=entropy)
        chosen[i] = moved.get(j, j)
        moved[j] = moved.get(i, i)
    return chosen


def draw_poisson(n: int, rate: Fraction, entropy: samplers.Entropy | None) -> Positions:
    """Return the ascending positions that n independent trials of this rate pick, exactly."""
    threshold, source = int(rate * 2**RATE_BITS), resolve(entropy)
    top, rest = divmod(threshold, 2**24)
    step = 2**16
    picked = [np.empty(0, dtype=np.int64)]
    for start in range(0, n, step):
        size = min(step, n - start)
        if isinstance(source, samplers.OSEntropy):
            # The first byte decides, unless it is the threshold's own: three more are drawn then.
            first = np.frombuffer(source.bytes(size), dtype=np.uint8)
            chosen, ties = first < top, np.flatnonzero(first == top)
            chosen[ties] = source.words(ties.size) >> np.uint64(40) < rest
        else:  # a seeded stream moves on by whole steps, as in fits of earlier versions
            chosen = source.words(step // 2).view(np.uint32)[:size] < np.uint64(threshold)
        picked.append(start + np.flatnonzero(chosen))
    return np.concatenate(picked)


def draw_padded(n: int, rate: Fraction, size: int, entropy: samplers.Entropy | None) -> Positions:
    """Return `size` positions in random order from a Poisson sample, filled up with dummies, -1."""
    sample = draw_poisson(n, rate, entropy)
    if sample.size >= size:
        return sample[draw_without_replacement(sample.size, size, entropy)]
    padded = np.concatenate([sample, np.full(size - sample.size, -1, dtype=np.int64)])
    return padded[draw_without_replacement(size, size, entropy)]


def _differing(a: NDArray, b: NDArray) -> tuple[list[tuple], list[tuple]]:
    """Return the rows of each table that the other does not have, with multiplicity, sorted."""
    first, second = Counter(map(tuple, a[0])), Counter(map(tuple, b[0]))
    return sorted((first - second).elements()), sorted((second - first).elements())


def moved_by(diameter: int) -> Callable[[NDArray, NDArray], float]:
    """Return the distance of two tables of integer rows in a box of this diameter.

    Tables of one length: the sum of the L2 distances of differing rows, paired in order (a chain of
    replacements). Other lengths: the number of differing rows times the diameter (a chain of
    additions and removals).
    """

    def distance(a: NDArray, b: NDArray) -> float:
        first, second = _differing(a, b)
        if len(first) != len(second):
            return float((len(first) + len(second)) * diameter)
        return math.fsum(
            math.sqrt(sum((int(u) - int(v)) ** 2 for u, v in zip(p, q, strict=True)))
            for p, q in zip(first, second, strict=True)
        )

    return distance


def _rows_changed(a: NDArray, b: NDArray) -> float:
    """Return the least number of rows to replace or add, which says nothing of what is shown."""
    return float(max(map(len, _differing(a, b))))


def _sampler(
    table: PrivateTable, meter: Meter, size: int, rate: float | Fraction | None
) -> tuple[int, int, Fraction, Callable[[], Positions]]:
    """Return n, the public size, 1 / (probability of a row), and a function that draws."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise ValueError("size must be an integer of at least 1")
    n, size = table.n, int(size)
    if table.n_is_public:
        size = min(size, n)  # n is public here
        ratio = Fraction(n, size) if size else Fraction(1)
        return n, size, ratio, lambda: draw_without_replacement(n, size, meter.entropy)
    p = public_rate(rate)
    return n, size, 1 / p, lambda: draw_padded(n, p, size, meter.entropy)


def _mapped(rows: Rows, view: Box, positions: Positions) -> NDArray[np.int64]:
    """Return the images of rows in a box as integers; position -1 is the centre."""
    centers = np.zeros((positions.size, view.n_dims), dtype=np.int64)
    return _filled(rows, positions, centers, lambda block: view.map(block).astype(np.int64))


def _filled(
    rows: Rows, positions: Positions, out: NDArray, image: Callable[[Floats], NDArray]
) -> NDArray:
    """Write the images of the rows at `positions` (any order, -1 for none) into `out`."""
    order = np.argsort(positions, kind="stable")
    ascending = positions[order]
    with np.errstate(all="ignore"):
        for start, stop in rows.spans():
            a, b = np.searchsorted(ascending, [start, stop])
            if a < b:
                block = rows.chunk(start, stop)[ascending[a:b] - start]
                out[order[a:b]] = image(block)
    return out


@reviewed
@dataclass(frozen=True, eq=False)
class NoisySample(Measurement):
    """`size` randomly picked rows in random order, clipped to a box, under K-norm noise each.

    R: `size` of the n rows without replacement (all n if size > n). A: each row with probability
    `rate`, then exactly `size` points: a random part of a larger sample; of a smaller one all rows
    and the box's centre, noised like a row.

    Guarantee: epsilon-DP for the share's pure epsilon. Each point has noise for the diameter of the
    box at epsilon' = log(1 + (exp(epsilon) - 1) n / size) (R), with 1 / rate for n / size (A),
    rounded down.

    - `size`: Public, at least 1.
    - `rate`: Public; needed under A, not used under R.
    - returns: Points of shape (size, d) in user units, clipped to the box; std of shape (d,), of
      the noise before that.
    - raises ValueError: if size or rate is out of range, before anything is taken from the
      allowance.
    """

    name: ClassVar[str] = "noisy sample"
    view: Box
    size: int
    rate: float | Fraction | None = None

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        view = self.view
        n, size, ratio, positions = _sampler(table, meter, self.size, self.rate)
        fraction, epsilon = meter.take(share, name)
        diameter = max(1, 2 * view.norm)  # at least 1: the noise needs a scale
        scale = diameter / amplified_epsilon(epsilon, ratio)

        def draw() -> NDArray:
            mapped = _mapped(table.rows, view, positions())
            noise = samplers.k_norm(view.n_dims, scale, size, entropy=meter.entropy)
            return mapped + noise  # noise beyond int64 comes as Python integers

        unit = float(view.grid.max())
        exact = in_transcript(lambda: _mapped(table.rows, view, np.arange(n)))
        noisy = meter.release(name, exact, diameter, moved_by(diameter), draw, (size, view.n_dims))
        meter.record(
            name, "K-norm, row by row", "L2", diameter * unit, float(scale) * unit, fraction
        )
        steps = np.clip(noisy.astype(np.float64), -view.half, view.half)
        points = np.clip(view.center + steps * view.grid, view.low, view.high)
        return released(points, float(scale) * math.sqrt(view.n_dims + 1) * view.grid)


@reviewed
@dataclass(frozen=True, eq=False)
class PublishedRows(Measurement):
    """Publish `size` randomly picked private rows as they are; do not use it.

    Whoever is picked has no privacy whatever, and at any n some are. R: `size` of the n rows
    without replacement. A: each row with probability `rate`, cut or filled with dummies to exactly
    `size`. In random order.

    Guarantee: (0, p)-DP with p = size / n (R), rate (A), and no better. p must not exceed the
    session's `separate_delta`, and a session publishes once.

    - `size`: Public, at least 1.
    - `rate`: Public; needed under A, not used under R.
    - `dummy` of shape (d,): Public row that fills the gaps under A.
    - returns of shape (size, d)
    - raises PrivacyLeakError: if p exceeds `separate_delta`, or the session has published rows
      before.
    - raises ValueError: if size or rate is out of range.
    """

    name: ClassVar[str] = "published rows"
    size: int
    rate: float | Fraction | None = None
    dummy: Any = 0.0

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Floats:
        n, size, ratio, positions = _sampler(table, meter, self.size, self.rate)
        filler = np.broadcast_to(np.asarray(self.dummy, dtype=np.float64), (table.n_features,))

        def gathered(positions: Positions) -> Floats:
            fillers = np.tile(filler, (positions.size, 1))
            return _filled(table.rows, positions, fillers, lambda block: block)

        exact = in_transcript(lambda: gathered(np.arange(n)))
        # Refused beyond `separate_delta`, and a second time.
        meter.take_separate_delta(1 / ratio, name)
        shape = (size, table.n_features)
        shown = meter.release(name, exact, 1.0, _rows_changed, lambda: gathered(positions()), shape)
        delta = round_up(1 / ratio)
        meter.record(name, "raw rows published", "none", math.inf, 0.0, Fraction(0), delta=delta)
        return released(shown, 0.0).value
