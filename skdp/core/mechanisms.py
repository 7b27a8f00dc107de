"""The mechanisms: exact integers, with the noise that their sensitivity asks for.

Each takes an integer statistic with an integer sensitivity in steps and a share, and returns
integers. Guarantee: level(share)-GDP in a Gaussian session, in a pure one epsilon-DP for the
share's epsilon, if the statistics of neighbours are no further apart than the sensitivity, in the
distance that the mechanism hands to the transcript beside them. Real noise is rounded *after* an
ideal addition to an integer, which is post-processing. Proofs: PROOFS.md, "Noise on integers"
and "Exponential mechanism".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import isqrt_up
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import reviewed
from skdp.loss.conversions import pure_part


def l2(a: NDArray, b: NDArray) -> float:
    """Return the Euclidean distance of two integer arrays, exactly up to the last rounding."""
    difference = (np.asarray(a, dtype=object) - np.asarray(b, dtype=object)).ravel()
    return math.sqrt(sum(int(v) ** 2 for v in difference))


def l1(a: NDArray, b: NDArray) -> float:
    """Return the L1 distance of two integer arrays."""
    difference = (np.asarray(a, dtype=object) - np.asarray(b, dtype=object)).ravel()
    return float(sum(abs(int(v)) for v in difference))


def sigma_up(sensitivity: float, mu: float) -> float:
    """Return sensitivity / mu, rounded up: the Gaussian scale of a mu-GDP release."""
    return float(sensitivity) / mu * (1 + 2**-50)


def l_infinity(a: NDArray, b: NDArray, parts: int = 1) -> float:
    """Return the largest difference of two entries of integer arrays; of parts, their sum."""
    moved = np.abs(np.asarray(a, dtype=object) - np.asarray(b, dtype=object)).reshape(parts, -1)
    return float(moved.max(axis=1, initial=0).sum())


def laplace_std(scale: float) -> float:
    """Return the standard deviation of discrete Laplace noise, which is small below scale 1.

    The variance is 2 q / (1 - q)**2 with q = exp(-1 / scale), that is 1 / (2 sinh(1 / 2 scale)**2).
    """
    return math.sqrt(0.5) / math.sinh(min(0.5 / scale, 700.0))


_FINE_BITS = 40  # of the noise: finer steps would only cost time
_SIZE_BITS = 36  # of a sensitivity: rounding adds at most a few steps to it
_NOISE_BITS = 50  # the most, so that entries stay below what the samplers draw exactly


def coarse_bits(sensitivity: int, level: float, spread: float = 1.0) -> int:
    """Return by how many bits a statistic is shortened, from public numbers only.

    - `level`: Epsilon or mu of the release.
    - `spread`: How much larger than sensitivity / level noise is.
    """
    noise = math.log2(sensitivity) - math.log2(level)
    fine = min(math.floor(noise) - _FINE_BITS, sensitivity.bit_length() - _SIZE_BITS)
    return max(fine, math.ceil(noise + math.log2(spread)) - _NOISE_BITS, 0)


def shortened(exact: NDArray, bits: int) -> NDArray:
    """Return the nearest integers to exact / 2**bits."""
    if not bits:
        return exact
    return (exact.astype(object) + (1 << (bits - 1))) >> bits


def lengthened(released: NDArray, bits: int) -> NDArray:
    """Return released integers in the steps of the statistic again."""
    return released.astype(object) << bits if bits else released


def after_shortening(sensitivity: int, bits: int, moved: int) -> int:
    """Return the sensitivity of a shortened statistic, whose rounding may add `moved` steps."""
    return -(-sensitivity >> bits) + moved if bits else sensitivity


class _Bounds:
    """Bounds on a change that hold for Gaussian noise, too, and the noise that they ask for."""

    def least(self, entries: int, *, pure: bool) -> Any:
        """Return the bounds whose noise is drawn: those of less noise."""
        raise NotImplementedError

    def std(self, entries: int, level: float, *, pure: bool) -> float:
        """Return the deviation, in steps, of the noise on an entry; level is epsilon or mu."""
        bounds = self.least(entries, pure=pure)
        bits, size = bounds.shortened(entries, level, pure=pure)
        std = bounds.deviation(size / level, entries) if pure else sigma_up(size, level)
        return float(std * 2.0**bits)

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float = 1.0
    ) -> tuple[NDArray, float]:
        """Release integers with noise, and its deviation, in steps.

        Guarantee: level(share)-GDP, respectively epsilon-DP for the share's epsilon.
        """
        bounds = self.least(exact.size, pure=meter.pure)
        fraction, epsilon = meter.take(share, name)
        level, shape = meter.level(fraction), exact.shape
        bits, size = bounds.shortened(exact.size, level, pure=meter.pure)
        parts = bounds.parts if isinstance(bounds, Cubes) else 1
        norm, distance = "L2", l2
        scale: Any = sigma_up(size, level) if meter.mu is not None else size / epsilon
        if not meter.pure:
            what = "rounded Gaussian"
        elif isinstance(bounds, Spherical):
            what = "K-norm"
        elif isinstance(bounds, Cubes):
            what, norm, distance = (
                "K-norm of the cube",
                "largest entry",
                partial(l_infinity, parts=parts),
            )
        else:
            what, norm, distance = "discrete Laplace", "L1", l1

        def draw() -> NDArray:
            # The entropy of a seeded release is known only now.
            if what.startswith("K-norm"):
                cube, d = isinstance(bounds, Cubes), exact.size // parts
                noise = samplers.k_norm(d, scale, parts, cube=cube, entropy=meter.entropy)
                return np.asarray(noise).reshape(shape)
            if what == "discrete Laplace":
                return samplers.discrete_laplace(scale, shape, entropy=meter.entropy)
            return samplers.rounded_gaussian(scale, shape, entropy=meter.entropy)

        released = meter.add_noise(name, shortened(exact, bits), size, distance, draw)
        unit *= 2.0**bits
        meter.record(name, what, norm, size * unit, float(scale) * unit, fraction)
        std = bounds.deviation(float(scale), exact.size) if meter.pure else scale
        return lengthened(released, bits), std * 2.0**bits


@reviewed
@dataclass(frozen=True)
class Cubes:
    """Each part of a vector gets K-norm noise of the cube, at the whole epsilon; for pure sessions.

    - `size`: Bound on the largest changes of all parts, added up, in steps.
    - `parts`: How many equal parts follow each other in the vector.
    """

    size: int
    parts: int = 1

    def times(self, k: int) -> Cubes:
        """Return the bound for k rows."""
        return replace(self, size=k * self.size)

    def either(self, other: Cubes) -> Cubes:
        """Return a bound for a change of this kind or of the other."""
        return replace(self, size=max(self.size, other.size))

    def shortened(self, entries: int, level: float, *, pure: bool) -> tuple[int, int]:
        """Return by how many bits a vector is shortened, and its sensitivity after that."""
        bits = coarse_bits(self.size, level, self.deviation(1.0, entries))
        return bits, after_shortening(self.size, bits, self.parts - 1)

    def deviation(self, scale: float, entries: int) -> float:
        """Return the deviation of an entry of pure noise of a scale."""
        width = entries // self.parts
        return scale * math.sqrt((width + 1) * (width + 2) / 3)


@reviewed
@dataclass(frozen=True)
class Spherical(_Bounds):
    """The whole vector gets noise of one scale: rounded Gaussian, or K-norm if pure.

    - `l2`: Bound on the L2 norm of a change, in steps, rounded up.
    - `cubes`: Bounds on entries. K-norm noise is that of cubes where this is less than that of the
      ball.
    """

    l2: int
    cubes: Cubes | None = None

    def times(self, k: int) -> Spherical:
        """Return the bounds for k rows."""
        return Spherical(k * self.l2, self.cubes and self.cubes.times(k))

    def either(self, other: Spherical) -> Spherical:
        """Return bounds for a change of this kind or of the other."""
        cubes = self.cubes and other.cubes and self.cubes.either(other.cubes)
        return Spherical(max(self.l2, other.l2), cubes)

    def shortened(self, entries: int, level: float, *, pure: bool) -> tuple[int, int]:
        """Return by how many bits a vector is shortened, and its sensitivity after that."""
        bits = coarse_bits(self.l2, level, math.sqrt(entries + 1))
        return bits, after_shortening(self.l2, bits, isqrt_up(entries))

    def deviation(self, scale: float, entries: int) -> float:
        """Return the deviation of an entry of pure noise of a scale."""
        return scale * math.sqrt(entries + 1)

    def least(self, entries: int, *, pure: bool) -> Spherical | Cubes:
        """Return the bounds whose noise is drawn: those of less noise."""
        cubes = self.cubes if pure else None
        ball = self.deviation(self.l2, entries)
        return self if cubes is None or ball <= cubes.deviation(cubes.size, entries) else cubes


@reviewed
@dataclass(frozen=True)
class Independent(_Bounds):
    """Every entry gets noise of its own: rounded Gaussian, or discrete Laplace if pure.

    - `l1`, `l2_squared`: Bounds on the L1 norm and on the squared L2 norm of a change, in steps.
    - `or_spherical`: In a pure session take K-norm noise, of the ball or of cubes, where that is
      less.
    - `cubes`: Bounds on entries.
    """

    l1: int
    l2_squared: int
    or_spherical: bool = False
    cubes: Cubes | None = None

    def times(self, k: int) -> Independent:
        """Return the bounds for k rows."""
        cubes = self.cubes and self.cubes.times(k)
        return replace(self, l1=k * self.l1, l2_squared=k * k * self.l2_squared, cubes=cubes)

    def either(self, other: Independent) -> Independent:
        """Return bounds for a change of this kind or of the other."""
        l2_squared = max(self.l2_squared, other.l2_squared)
        cubes = self.cubes and other.cubes and self.cubes.either(other.cubes)
        return replace(self, l1=max(self.l1, other.l1), l2_squared=l2_squared, cubes=cubes)

    def shortened(self, entries: int, level: float, *, pure: bool) -> tuple[int, Any]:
        """Return by how many bits a vector is shortened, and its sensitivity after that."""
        largest = self.l1 if pure else isqrt_up(self.l2_squared)
        bits = coarse_bits(largest, level)
        if pure or bits:
            return bits, after_shortening(largest, bits, entries if pure else isqrt_up(entries))
        return 0, math.sqrt(self.l2_squared) * (1 + 2**-50)

    def deviation(self, scale: float, entries: int) -> float:
        """Return the deviation of an entry of pure noise of a scale."""
        return laplace_std(scale)

    def least(self, entries: int, *, pure: bool) -> Independent | Spherical | Cubes:
        """Return the bounds whose noise is drawn: those of less noise."""
        if not (self.or_spherical and pure):
            return self
        vector = Spherical(isqrt_up(self.l2_squared), self.cubes).least(entries, pure=True)
        size = vector.size if isinstance(vector, Cubes) else vector.l2
        return vector if math.sqrt(2) * self.l1 >= vector.deviation(size, entries) else self


def exponential_mechanism(
    meter: Meter, name: str, scores: NDArray, sensitivity: int, share: Share
) -> NDArray:
    """Choose an index in each row of integer scores (lower is better), all under one share.

    Exponential mechanism, P(i) proportional to exp(-eta score_i), eta = epsilon_j / (2
    sensitivity). The m rows share equally: epsilon / m each, or mu**2 / m in a Gaussian
    session, where a choice whose log-ratios range over 2 epsilon_j is GDP like an epsilon_j-DP
    release (PROOFS.md, "Bounded range"): eta is twice as large there.

    - `scores` of shape (m, candidates)
    - `sensitivity`: By how much any score moves between neighbours.
    - returns of shape (m,)
    """
    fraction, epsilon = meter.take(share, name)
    m = len(scores)
    if meter.mu is None:
        each = epsilon / m
    else:
        each = 2 * Fraction(pure_part(meter.level(fraction), m))
    eta = each / (2 * sensitivity)

    def draw() -> NDArray:
        return np.array(
            [samplers.exponential_mechanism(s, eta, entropy=meter.entropy) for s in scores]
        )

    released = meter.release(name, scores, sensitivity, l_infinity, draw, (m,))
    meter.record(name, "exponential mechanism", "score", sensitivity, float(1 / eta), fraction)
    return released
