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

__all__ = [
    "Independent",
    "Spherical",
    "after_shortening",
    "coarse_bits",
    "exponential_mechanism",
    "independent_noise",
    "l1",
    "l2",
    "l2_noise",
    "l_infinity",
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


def l_infinity(a: NDArray, b: NDArray, cubes: int = 1) -> float:
    """Return the largest difference of two entries of integer arrays; of parts, their sum."""
    moved = np.abs(np.asarray(a, dtype=object) - np.asarray(b, dtype=object)).reshape(cubes, -1)
    return float(moved.max(axis=1, initial=0).sum())


def laplace_std(scale: float) -> float:
    """Return the standard deviation of discrete Laplace noise, which is small below scale 1.

    The variance is 2 q / (1 - q)**2 with q = exp(-1 / scale), that is 1 / (2 sinh(1 / 2 scale)**2).
    """
    return math.sqrt(0.5) / math.sinh(min(0.5 / scale, 700.0))


Box = tuple[int, int] | None  # the largest changes of so many equal parts, added up

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


def ball_spread(entries: int) -> float:
    """Return the deviation of a coordinate of K-norm noise of the ball, of scale 1."""
    return math.sqrt(entries + 1)


def cube_spread(entries: int) -> float:
    """Return the deviation of a coordinate of K-norm noise of the cube, of scale 1."""
    return math.sqrt((entries + 1) * (entries + 2) / 3)


def box_std(box: tuple[int, int], entries: int) -> float:
    """Return the deviation of K-norm noise of cubes at epsilon 1, in steps; see `l2_noise`."""
    return box[0] * cube_spread(entries // box[1])


def _vector(
    l2_bound: int, box: Box, entries: int, level: float, *, pure: bool
) -> tuple[int, int, float, int]:
    """Return how a vector gets noise of one scale.

    By how many bits it is shortened, its sensitivity then, the deviation of pure noise of scale 1,
    and the number of cubes, 0 for a ball.
    """
    size, rounded, spread, cubes = l2_bound, isqrt_up(entries), ball_spread(entries), 0
    if pure and box is not None and box_std(box, entries) < size * spread:
        size, cubes = box
        rounded, spread = cubes - 1, cube_spread(entries // cubes)
    bits = coarse_bits(size, level, spread)
    return bits, after_shortening(size, bits, rounded), spread, cubes


def l2_noise(
    meter: Meter,
    name: str,
    exact: NDArray,
    sensitivity: int,
    share: Share,
    *,
    unit: float = 1.0,
    box: Box = None,
) -> tuple[NDArray, float]:
    """Release an integer vector with an L2 sensitivity: rounded Gaussian, or K-norm if pure.

    Guarantee: level(share)-GDP, respectively epsilon-DP for the share's epsilon. A `box` (b, c)
    says that the largest changes in c equal parts of the vector add up to b at most. Then each part
    gets K-norm noise of the cube, at the whole epsilon, where that is less.

    Returns
    -------
    released : ndarray of int
    std : float
        Of one coordinate, in steps.
    """
    fraction, epsilon = meter.take(share, name)
    bits, size, spread, cubes = _vector(
        sensitivity, box, exact.size, meter.level(fraction), pure=meter.pure
    )
    short, unit = shortened(exact, bits), unit * 2.0**bits
    if meter.mu is not None:
        released, std = _gaussian(meter, name, short, size, fraction, unit)
        return lengthened(released, bits), std * 2.0**bits
    scale = size / epsilon
    parts, kind = cubes or 1, ("K-norm of the cube", "largest entry") if cubes else ("K-norm", "L2")
    released = meter.add_noise(
        name, short, size, partial(l_infinity, cubes=cubes) if cubes else l2,
        lambda: np.asarray(
            samplers.k_norm(
                exact.size // parts, scale, parts, cube=cubes > 0, entropy=meter.entropy
            )
        ).reshape(exact.shape),
    )  # fmt: skip
    meter.record(name, *kind, size * unit, float(scale) * unit, fraction)
    return lengthened(released, bits), float(scale) * spread * 2.0**bits


def independent_noise(
    meter: Meter,
    name: str,
    exact: NDArray,
    l1_sensitivity: int,
    l2_sensitivity_squared: int,
    share: Share,
    *,
    unit: float = 1.0,
) -> tuple[NDArray, float]:
    """Release integers with independent noise: rounded Gaussian, or discrete Laplace if pure.

    Returns
    -------
    released : ndarray of int
    std : float
    """
    fraction, epsilon = meter.take(share, name)
    sensitivity = Independent(l1_sensitivity, l2_sensitivity_squared)
    bits, size = sensitivity._short(exact.size, meter.level(fraction), pure=meter.pure)
    short, unit = shortened(exact, bits), unit * 2.0**bits
    if meter.mu is not None:
        released, std = _gaussian(meter, name, short, size, fraction, unit)
        return lengthened(released, bits), std * 2.0**bits
    scale = size / epsilon
    released = meter.add_noise(
        name, short, size, l1,
        lambda: samplers.discrete_laplace(scale, exact.shape, entropy=meter.entropy),
    )  # fmt: skip
    meter.record(name, "discrete Laplace", "L1", size * unit, float(scale) * unit, fraction)
    return lengthened(released, bits), laplace_std(float(scale)) * 2.0**bits


def _gaussian(
    meter: Meter,
    name: str,
    exact: NDArray,
    sensitivity: float,
    share: Fraction,
    unit: float,
) -> tuple[NDArray, float]:
    """Release integers with an L2 sensitivity under a share that has been taken."""
    sigma = sigma_up(sensitivity, meter.level(share))
    released = meter.add_noise(
        name, exact, sensitivity, l2,
        lambda: samplers.rounded_gaussian(sigma, exact.shape, entropy=meter.entropy),
    )  # fmt: skip
    meter.record(name, "rounded Gaussian", "L2", sensitivity * unit, sigma * unit, share)
    return released, sigma


@reviewed
@dataclass(frozen=True)
class Independent:
    """Every entry gets noise of its own: rounded Gaussian, or discrete Laplace if pure.

    Attributes
    ----------
    l1, l2_squared : int
        Bounds on the L1 norm and on the squared L2 norm of a change, in steps.
    or_spherical : bool
        In a pure session take K-norm noise, of the ball or of the cube, where that is less.
    box : (int, int) or None
        Bound on the sum of the largest changes in so many equal parts of the entries.
    """

    l1: int
    l2_squared: int
    or_spherical: bool = False
    box: Box = None

    def times(self, k: int) -> Independent:
        """Return the bounds for k rows."""
        l2_squared = k * k * self.l2_squared
        return replace(self, l1=k * self.l1, l2_squared=l2_squared, box=_times(self.box, k))

    def either(self, other: Independent) -> Independent:
        """Return bounds for a change of this kind or of the other."""
        return replace(
            self,
            l1=max(self.l1, other.l1),
            l2_squared=max(self.l2_squared, other.l2_squared),
            box=_either(self.box, other.box),
        )

    def _short(self, entries: int, level: float, *, pure: bool) -> tuple[int, Any]:
        """Return by how many bits a vector is shortened, and its sensitivity after that."""
        largest = self.l1 if pure else isqrt_up(self.l2_squared)
        bits = coarse_bits(largest, level)
        if pure or bits:
            return bits, after_shortening(largest, bits, entries if pure else isqrt_up(entries))
        return 0, math.sqrt(self.l2_squared) * (1 + 2**-50)

    def _spherical(self, entries: int, *, pure: bool) -> Spherical | None:
        """Return the bound for K-norm noise where that is what is drawn."""
        vector = Spherical(isqrt_up(self.l2_squared), self.box)
        less = math.sqrt(2) * self.l1 >= vector.least(entries)
        return vector if self.or_spherical and pure and less else None

    def std(self, entries: int, level: float, *, pure: bool) -> float:
        """Return the deviation, in steps, of the noise on an entry; level is epsilon or mu."""
        if spherical := self._spherical(entries, pure=pure):
            return spherical.std(entries, level, pure=pure)
        bits, size = self._short(entries, level, pure=pure)
        return (laplace_std(size / level) if pure else sigma_up(size, level)) * 2.0**bits

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float
    ) -> tuple[NDArray, float]:
        """Return the integers with the noise that these bounds ask for, and its deviation."""
        if spherical := self._spherical(exact.size, pure=meter.pure):
            return spherical.noised(meter, name, exact, share, unit)
        return independent_noise(meter, name, exact, self.l1, self.l2_squared, share, unit=unit)


@reviewed
@dataclass(frozen=True)
class Spherical:
    """All entries get noise of one scale: rounded Gaussian, or K-norm if pure.

    The K-norm is that of the ball, or that of the cube where its noise is less.

    Attributes
    ----------
    l2 : int
        Bound on the L2 norm of a change, in steps, rounded up.
    box : (int, int) or None
        Bound on the sum of the largest changes in so many equal parts of the entries.
    """

    l2: int
    box: Box = None

    def times(self, k: int) -> Spherical:
        """Return the bounds for k rows."""
        return Spherical(k * self.l2, _times(self.box, k))

    def either(self, other: Spherical) -> Spherical:
        """Return bounds for a change of this kind or of the other."""
        return Spherical(max(self.l2, other.l2), _either(self.box, other.box))

    def least(self, entries: int) -> float:
        """Return the deviation, in steps, of pure noise on an entry at epsilon 1."""
        ball = self.l2 * ball_spread(entries)
        return ball if self.box is None else min(ball, box_std(self.box, entries))

    def std(self, entries: int, level: float, *, pure: bool) -> float:
        """Return the deviation, in steps, of the noise on an entry; level is epsilon or mu."""
        bits, size, spread, _ = _vector(self.l2, self.box, entries, level, pure=pure)
        return (spread * size / level if pure else sigma_up(size, level)) * 2.0**bits

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float
    ) -> tuple[NDArray, float]:
        """Return the integers with the noise that this bound asks for, and its deviation."""
        return l2_noise(meter, name, exact, self.l2, share, unit=unit, box=self.box)


def _times(box: Box, k: int) -> Box:
    return None if box is None else (k * box[0], box[1])


def _either(a: Box, b: Box) -> Box:
    """Return the larger of two bounds, None where one is not stated."""
    return None if a is None or b is None else (max(a[0], b[0]), a[1])


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

    def draw() -> NDArray:
        return np.array(
            [samplers.exponential_mechanism(s, eta, entropy=meter.entropy) for s in scores]
        )

    released = meter.release(name, scores, sensitivity, l_infinity, draw, (m,))
    meter.record(name, "exponential mechanism", "score", sensitivity, float(1 / eta), fraction)
    return released
