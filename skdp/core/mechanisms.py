"""The mechanisms: exact integers, with the noise that their sensitivity asks for.

Each takes an integer statistic with an integer sensitivity in steps and a share, and returns
integers. Guarantee: level(share)-GDP in a Gaussian session, in a pure one epsilon-DP for the
share's epsilon, if the statistics of neighbours are no further apart than the sensitivity, in the
distance that the mechanism hands to the transcript beside them. Real noise is rounded *after* an
ideal addition to an integer, which is post-processing. Proofs: PROOFS.md, "Noise on integers",
"Gram matrix" and "Exponential mechanism".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.core import calibration
from skdp.core import noise as samplers
from skdp.core.clipping import isqrt_up
from skdp.core.privacy_filter import PrivacyFilter, Share
from skdp.exceptions import PrivacyLeakError

__all__ = [
    "exponential_mechanism",
    "independent_noise",
    "l1",
    "l2",
    "l2_noise",
    "nuclear",
    "symmetric_noise",
    "upper_l1",
]


def l2(a: NDArray, b: NDArray) -> float:
    """Return the Euclidean distance of two integer arrays, exactly up to the last rounding."""
    difference = (np.asarray(a, dtype=object) - np.asarray(b, dtype=object)).ravel()
    return math.sqrt(sum(int(v) ** 2 for v in difference))


def l1(a: NDArray, b: NDArray) -> float:
    """Return the L1 distance of two integer arrays."""
    difference = (np.asarray(a, dtype=object) - np.asarray(b, dtype=object)).ravel()
    return float(sum(abs(int(v)) for v in difference))


def nuclear(a: NDArray, b: NDArray) -> float:
    """Return the nuclear norm of the difference of two symmetric integer matrices."""
    difference = np.asarray(a, dtype=object) - np.asarray(b, dtype=object)
    return float(np.abs(np.linalg.eigvalsh(difference.astype(np.float64))).sum())


def upper_l1(a: NDArray, b: NDArray) -> float:
    """Return the L1 distance of the upper triangles of two symmetric integer matrices."""
    keep = np.triu_indices(len(a))
    return l1(np.asarray(a)[keep], np.asarray(b)[keep])


_FINE_BITS = 40  # of the noise: finer steps would only cost time
_SIZE_BITS = 36  # of a sensitivity: rounding adds at most a few steps to it
_NOISE_BITS = 50  # the most, so that entries stay below what the samplers draw exactly


def _coarse_bits(sensitivity: int, level: float, spread: float = 1.0) -> int:
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


def _shortened(exact: NDArray, bits: int) -> NDArray:
    """Return the nearest integers to exact / 2**bits."""
    if not bits:
        return exact
    return (exact.astype(object) + (1 << (bits - 1))) >> bits


def _lengthened(released: NDArray, bits: int) -> NDArray:
    """Return released integers in the steps of the statistic again."""
    return released.astype(object) << bits if bits else released


def _after(sensitivity: int, bits: int, moved: int) -> int:
    """Return the sensitivity of a shortened statistic, whose rounding may add `moved` steps."""
    return -(-sensitivity >> bits) + moved if bits else sensitivity


def _symmetric(values: NDArray, upper: tuple[NDArray, NDArray], dims: int) -> NDArray:
    """Fill a symmetric matrix from its upper triangle."""
    matrix = np.zeros((dims, dims), dtype=values.dtype)
    matrix[upper] = values
    matrix.T[upper] = values
    return matrix


def l2_noise(
    meter: PrivacyFilter,
    name: str,
    exact: NDArray,
    sensitivity: int,
    share: Share,
    *,
    unit: float = 1.0,
) -> tuple[NDArray, float]:
    """Release an integer vector with an L2 sensitivity: rounded Gaussian, or K-norm if pure.

    Guarantee: level(share)-GDP, respectively epsilon-DP for the share's epsilon.

    Returns
    -------
    released : ndarray of int
    std : float
        Of one coordinate, in steps.
    """
    fraction, epsilon = meter.take(share, name)
    bits = _coarse_bits(sensitivity, meter.level(fraction), math.sqrt(exact.size + 1))
    size = _after(sensitivity, bits, isqrt_up(exact.size))
    short, unit = _shortened(exact, bits), unit * 2.0**bits
    if meter.mu is not None:
        released, std = _gaussian(meter, name, short, size, fraction, unit)
        return _lengthened(released, bits), std * 2.0**bits
    scale = size / epsilon
    released = meter.add_noise(
        name, short, size, l2,
        lambda: np.asarray(
            samplers.k_norm(exact.size, scale, entropy=meter.entropy)
        ).reshape(exact.shape),
    )  # fmt: skip
    meter.record(name, "K-norm", "L2", size * unit, float(scale) * unit, fraction)
    return _lengthened(released, bits), float(scale) * math.sqrt(exact.size + 1) * 2.0**bits


def independent_noise(
    meter: PrivacyFilter,
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
    largest = isqrt_up(l2_sensitivity_squared) if meter.mu is not None else l1_sensitivity
    bits = _coarse_bits(largest, meter.level(fraction))
    short, unit = _shortened(exact, bits), unit * 2.0**bits
    if meter.mu is not None:
        size = math.sqrt(l2_sensitivity_squared) * (1 + 2**-50)
        if bits:
            size = float(_after(largest, bits, isqrt_up(exact.size)))
        released, std = _gaussian(meter, name, short, size, fraction, unit)
        return _lengthened(released, bits), std * 2.0**bits
    moved = _after(l1_sensitivity, bits, exact.size)
    scale = moved / epsilon
    released = meter.add_noise(
        name, short, moved, l1,
        lambda: samplers.discrete_laplace(scale, exact.shape, entropy=meter.entropy),
    )  # fmt: skip
    meter.record(name, "discrete Laplace", "L1", moved * unit, float(scale) * unit, fraction)
    return _lengthened(released, bits), calibration.laplace_std(float(scale)) * 2.0**bits


def _gaussian(
    meter: PrivacyFilter,
    name: str,
    exact: NDArray,
    sensitivity: float,
    share: Fraction,
    unit: float,
) -> tuple[NDArray, float]:
    """Release integers with an L2 sensitivity under a share that has been taken."""
    sigma = calibration.sigma_up(sensitivity, meter.level(share))
    released = meter.add_noise(
        name, exact, sensitivity, l2,
        lambda: samplers.rounded_gaussian(sigma, exact.shape, entropy=meter.entropy),
    )  # fmt: skip
    meter.record(name, "rounded Gaussian", "L2", sensitivity * unit, sigma * unit, share)
    return released, sigma


def symmetric_noise(
    meter: PrivacyFilter,
    name: str,
    exact: NDArray,
    sensitivity: Callable[[str], int],
    share: Share,
    noise: str,
    *,
    unit: float = 1.0,
) -> tuple[NDArray, float]:
    """Release a symmetric integer matrix.

    ``noise="gaussian"``: isotropic in Frobenius norm (off-diagonal entries have half the
    variance of diagonal ones). ``"wishart"``: W1 - W2 with W_i ~ Wishart_D(D + 1, c I),
    c = nuclear sensitivity / (2 epsilon). ``"laplace"``: independent on the upper triangle.

    Parameters
    ----------
    sensitivity : callable
        From the name of a geometry to the sensitivity in it.

    Returns
    -------
    released : ndarray of int, symmetric
    std : float
        Of an off-diagonal entry, in steps.
    """
    if noise not in ("gaussian", "wishart", "laplace"):
        raise ValueError(f"noise must be 'gaussian', 'wishart' or 'laplace', got {noise!r}")
    if noise == "gaussian" and meter.mu is None:
        raise PrivacyLeakError("Gaussian noise in a session that promises delta = 0")
    fraction, epsilon = meter.take(share, name)
    dims = len(exact)
    # Rounding moves an entry of a difference by less than one step: norms of such a matrix.
    geometry, moved = {
        "gaussian": ("frobenius", dims),
        "wishart": ("nuclear", isqrt_up(dims**3)),
        "laplace": ("upper_l1", dims * (dims + 1) // 2),
    }[noise]
    bits = _coarse_bits(sensitivity(geometry), meter.level(fraction), dims + 1.0)
    size = _after(sensitivity(geometry), bits, moved)
    short, unit = _shortened(exact, bits), unit * 2.0**bits
    if noise == "gaussian":
        released, std = _isotropic(meter, name, short, size, fraction, unit)
    elif noise == "wishart":
        released, std = _wishart(meter, name, short, size, epsilon, fraction, unit)
    else:
        released, std = _triangle(meter, name, short, size, epsilon, fraction, unit)
    return _lengthened(released, bits), std * 2.0**bits


def _isotropic(
    meter: PrivacyFilter, name: str, exact: NDArray, size: int, share: Fraction, unit: float
) -> tuple[NDArray, float]:
    """Release a symmetric matrix with Gaussian noise that is isotropic in Frobenius norm."""
    dims = len(exact)
    upper = np.triu_indices(dims)
    sigma = calibration.sigma_up(size, meter.level(share))
    sigmas = np.full((dims, dims), sigma * math.sqrt(0.5) * (1 + 2**-50))
    np.fill_diagonal(sigmas, sigma)

    def draw() -> NDArray:
        drawn = samplers.rounded_gaussian(sigmas[upper], upper[0].shape, entropy=meter.entropy)
        return _symmetric(drawn, upper, dims)

    released = meter.add_noise(name, exact, size, l2, draw)
    what = "rounded isotropic Gaussian"
    meter.record(name, what, "Frobenius", size * unit, sigma * unit, share)
    return released, sigma * math.sqrt(0.5)


def _wishart(
    meter: PrivacyFilter,
    name: str,
    exact: NDArray,
    size: int,
    epsilon: Fraction,
    share: Fraction,
    unit: float,
) -> tuple[NDArray, float]:
    """Release a symmetric matrix under the difference of two Wishart matrices."""
    dims = len(exact)
    scale = size / (2 * epsilon)
    released = meter.add_noise(
        name, exact, size, nuclear,
        lambda: samplers.symmetrized_wishart(dims, scale, entropy=meter.entropy),
    )  # fmt: skip
    what = "symmetrised Wishart"
    meter.record(name, what, "nuclear", size * unit, float(scale) * unit, share)
    return released, float(scale) * math.sqrt(2 * (dims + 1))


def _triangle(
    meter: PrivacyFilter,
    name: str,
    exact: NDArray,
    size: int,
    epsilon: Fraction,
    share: Fraction,
    unit: float,
) -> tuple[NDArray, float]:
    """Release a symmetric matrix with Laplace noise on its upper triangle."""
    dims = len(exact)
    scale = size / epsilon
    upper = np.triu_indices(dims)

    def draw() -> NDArray:
        drawn = samplers.discrete_laplace(scale, upper[0].shape, entropy=meter.entropy)
        return _symmetric(np.asarray(drawn), upper, dims)

    released = meter.add_noise(name, exact, size, upper_l1, draw)
    what = "discrete Laplace"
    meter.record(name, what, "upper-triangle L1", size * unit, float(scale) * unit, share)
    return released, calibration.laplace_std(float(scale))


def exponential_mechanism(
    meter: PrivacyFilter, name: str, scores: NDArray, sensitivity: int, share: Share
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
        each = 2 * Fraction(calibration.pure_part(meter.level(fraction), m))
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
