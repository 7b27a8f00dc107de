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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.clipping import isqrt_up
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import reviewed
from skdp.loss.conversions import pure_part

__all__ = [
    "Independent",
    "Spherical",
    "after_shortening",
    "coarse_bits",
    "exponential_mechanism",
    "l1",
    "l2",
    "laplace_std",
    "lengthened",
    "shortened",
    "sigma_up",
]


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

    Parameters
    ----------
    sensitivity : int
    level : float
        Epsilon or mu of the release.
    spread : float
        How much larger than sensitivity / level noise is.
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


def _noised(
    bounds: Independent | Spherical,
    meter: Meter,
    name: str,
    exact: NDArray,
    share: Share,
    unit: float,
) -> tuple[NDArray, float]:
    """Release integers with the noise that their bounds ask for, and its deviation, in steps.

    Guarantee: level(share)-GDP, respectively epsilon-DP for the share's epsilon.
    """
    fraction, epsilon = meter.take(share, name)
    level, shape = meter.level(fraction), exact.shape
    bits, size = bounds.shortened(exact.size, level, pure=meter.pure)
    norm, distance = "L2", l2
    scale: Any
    if not meter.pure:
        what, scale = "rounded Gaussian", sigma_up(size, level)
        std = scale
    elif isinstance(bounds, Spherical):
        what, scale = "K-norm", size / epsilon
        std = float(scale) * math.sqrt(exact.size + 1)
    else:
        what, norm, distance, scale = "discrete Laplace", "L1", l1, size / epsilon
        std = laplace_std(float(scale))

    def draw() -> NDArray:
        # The entropy of a seeded release is known only now.
        if what == "K-norm":
            noise = samplers.k_norm(exact.size, scale, entropy=meter.entropy)
            return np.asarray(noise).reshape(shape)
        if what == "discrete Laplace":
            return samplers.discrete_laplace(scale, shape, entropy=meter.entropy)
        return samplers.rounded_gaussian(scale, shape, entropy=meter.entropy)

    released = meter.add_noise(name, shortened(exact, bits), size, distance, draw)
    unit *= 2.0**bits
    meter.record(name, what, norm, size * unit, float(scale) * unit, fraction)
    return lengthened(released, bits), std * 2.0**bits


@reviewed
@dataclass(frozen=True)
class Independent:
    """Every entry gets noise of its own: rounded Gaussian, or discrete Laplace if pure.

    Attributes
    ----------
    l1, l2_squared : int
        Bounds on the L1 norm and on the squared L2 norm of a change, in steps.
    or_spherical : bool
        In a pure session take K-norm noise for the L2 norm where that is less.
    """

    l1: int
    l2_squared: int
    or_spherical: bool = False

    def times(self, k: int) -> Independent:
        """Return the bounds for k rows."""
        return replace(self, l1=k * self.l1, l2_squared=k * k * self.l2_squared)

    def either(self, other: Independent) -> Independent:
        """Return bounds for a change of this kind or of the other."""
        l2_squared = max(self.l2_squared, other.l2_squared)
        return replace(self, l1=max(self.l1, other.l1), l2_squared=l2_squared)

    def shortened(self, entries: int, level: float, *, pure: bool) -> tuple[int, Any]:
        """Return by how many bits a vector is shortened, and its sensitivity after that."""
        largest = self.l1 if pure else isqrt_up(self.l2_squared)
        bits = coarse_bits(largest, level)
        if pure or bits:
            return bits, after_shortening(largest, bits, entries if pure else isqrt_up(entries))
        return 0, math.sqrt(self.l2_squared) * (1 + 2**-50)

    def _spherical(self, entries: int, *, pure: bool) -> Spherical | None:
        """Return the bound for K-norm noise where that is what is drawn."""
        l2 = isqrt_up(self.l2_squared)
        less = math.sqrt(2) * self.l1 >= math.sqrt(entries + 1) * l2
        return Spherical(l2) if self.or_spherical and pure and less else None

    def std(self, entries: int, level: float, *, pure: bool) -> float:
        """Return the deviation, in steps, of the noise on an entry; level is epsilon or mu."""
        if spherical := self._spherical(entries, pure=pure):
            return spherical.std(entries, level, pure=pure)
        bits, size = self.shortened(entries, level, pure=pure)
        return (laplace_std(size / level) if pure else sigma_up(size, level)) * 2.0**bits

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float = 1.0
    ) -> tuple[NDArray, float]:
        """Return the integers with the noise that these bounds ask for, and its deviation."""
        if spherical := self._spherical(exact.size, pure=meter.pure):
            return spherical.noised(meter, name, exact, share, unit)
        return _noised(self, meter, name, exact, share, unit)


@reviewed
@dataclass(frozen=True)
class Spherical:
    """The whole vector gets noise of one L2 scale: rounded Gaussian, or K-norm if pure.

    Attributes
    ----------
    l2 : int
        Bound on the L2 norm of a change, in steps, rounded up.
    """

    l2: int

    def times(self, k: int) -> Spherical:
        """Return the bound for k rows."""
        return Spherical(k * self.l2)

    def either(self, other: Spherical) -> Spherical:
        """Return a bound for a change of this kind or of the other."""
        return Spherical(max(self.l2, other.l2))

    def shortened(self, entries: int, level: float, *, pure: bool) -> tuple[int, int]:
        """Return by how many bits a vector is shortened, and its sensitivity after that."""
        bits = coarse_bits(self.l2, level, math.sqrt(entries + 1))
        return bits, after_shortening(self.l2, bits, isqrt_up(entries))

    def std(self, entries: int, level: float, *, pure: bool) -> float:
        """Return the deviation, in steps, of the noise on an entry; level is epsilon or mu."""
        bits, size = self.shortened(entries, level, pure=pure)
        scale = math.sqrt(entries + 1) * size / level if pure else sigma_up(size, level)
        return scale * 2.0**bits

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float = 1.0
    ) -> tuple[NDArray, float]:
        """Return the integers with the noise that this bound asks for, and its deviation."""
        return _noised(self, meter, name, exact, share, unit)


def exponential_mechanism(
    meter: Meter, name: str, scores: NDArray, sensitivity: int, share: Share
) -> NDArray:
    """Choose an index in each row of integer scores (lower is better), all under one share.

    Exponential mechanism, P(i) proportional to exp(-eta score_i), eta = epsilon_j / (2
    sensitivity). The m rows share equally: epsilon / m each, or mu**2 / m in a Gaussian
    session, where a choice whose log-ratios range over 2 epsilon_j is GDP like an epsilon_j-DP
    release (PROOFS.md, "Bounded range"): eta is twice as large there.

    Parameters
    ----------
    scores : ndarray of shape (m, candidates)
    sensitivity : int
        By how much any score moves between neighbours.

    Returns
    -------
    chosen : ndarray of shape (m,)
    """
    fraction, epsilon = meter.take(share, name)
    m = len(scores)
    if meter.mu is None:
        each = epsilon / m
    else:
        each = 2 * Fraction(pure_part(meter.level(fraction), m))
    eta = each / (2 * sensitivity)

    def largest(a: NDArray, b: NDArray) -> float:
        return float(np.abs(np.asarray(a, object) - np.asarray(b, object)).max())

    def draw() -> NDArray:
        return np.array(
            [samplers.exponential_mechanism(s, eta, entropy=meter.entropy) for s in scores]
        )

    released = meter.release(name, scores, sensitivity, largest, draw, (m,))
    meter.record(name, "exponential mechanism", "score", sensitivity, float(1 / eta), fraction)
    return released
