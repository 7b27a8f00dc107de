"""The mechanisms: exact integers, with the noise that their sensitivity asks for.

Each takes an integer statistic with an integer sensitivity in steps and a share, and returns
integers. Guarantee: level(share)-GDP in a Gaussian session, in a pure one epsilon-DP for the
share's epsilon, if the statistics of neighbours are no further apart than the sensitivity, in the
distance that the mechanism hands to the tape beside them. Real noise is rounded *after* an ideal
addition to an integer, which is post-processing. (`publish` has no noise, and a guarantee of its
own.) Proofs: kernel/README.md, "Noise on integers", "Gram matrix", "Joint counts and sums of
groups" and "Exponential mechanism".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.budget.amounts import round_up
from skdp.exceptions import PrivacyLeakError
from skdp.kernel import calibration, sampling
from skdp.kernel.protect import isqrt_up
from skdp.kernel.release import Meter, Share

__all__ = ["Mechanisms", "l1", "l2", "nuclear", "upper_l1"]


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


class Mechanisms(Meter):
    """The noise of a session beside its meter; this class never sees a row either."""

    def _vector(
        self, name: str, exact: NDArray, sensitivity: int, share: Share, *, unit: float = 1.0
    ) -> tuple[NDArray, float]:
        """Release an integer vector with an L2 sensitivity: rounded Gaussian, or K-norm if pure.

        Guarantee: level(share)-GDP, respectively epsilon-DP for the share's epsilon.

        Returns
        -------
        released : ndarray of int
        std : float
            Of one coordinate, in steps.
        """
        fraction, epsilon = self._take(share, name)
        bits = _coarse_bits(sensitivity, self.level(fraction), math.sqrt(exact.size + 1))
        size = _after(sensitivity, bits, isqrt_up(exact.size))
        short, unit = _shortened(exact, bits), unit * 2.0**bits
        if self.mu is not None:
            released, std = self._gaussian(name, short, size, fraction, unit)
            return _lengthened(released, bits), std * 2.0**bits
        scale = size / epsilon
        released = self._emit(
            name, short, size, l2,
            lambda: np.asarray(
                sampling.k_norm(exact.size, scale, entropy=self._entropy)
            ).reshape(exact.shape),
        )  # fmt: skip
        self._record(name, "K-norm", "L2", size * unit, float(scale) * unit, fraction)
        return _lengthened(released, bits), float(scale) * math.sqrt(exact.size + 1) * 2.0**bits

    def _scalars(
        self,
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
        fraction, epsilon = self._take(share, name)
        largest = isqrt_up(l2_sensitivity_squared) if self.mu is not None else l1_sensitivity
        bits = _coarse_bits(largest, self.level(fraction))
        short, unit = _shortened(exact, bits), unit * 2.0**bits
        if self.mu is not None:
            size = math.sqrt(l2_sensitivity_squared) * (1 + 2**-50)
            if bits:
                size = float(_after(largest, bits, isqrt_up(exact.size)))
            released, std = self._gaussian(name, short, size, fraction, unit)
            return _lengthened(released, bits), std * 2.0**bits
        moved = _after(l1_sensitivity, bits, exact.size)
        scale = moved / epsilon
        released = self._emit(
            name, short, moved, l1,
            lambda: sampling.discrete_laplace(scale, exact.shape, entropy=self._entropy),
        )  # fmt: skip
        self._record(name, "discrete Laplace", "L1", moved * unit, float(scale) * unit, fraction)
        return _lengthened(released, bits), calibration.laplace_std(float(scale)) * 2.0**bits

    def _gaussian(
        self, name: str, exact: NDArray, sensitivity: float, share: Fraction, unit: float
    ) -> tuple[NDArray, float]:
        """Release integers with an L2 sensitivity under a share that has been taken."""
        sigma = calibration.sigma_up(sensitivity, self.level(share))
        released = self._emit(
            name, exact, sensitivity, l2,
            lambda: sampling.rounded_gaussian(sigma, exact.shape, entropy=self._entropy),
        )  # fmt: skip
        self._record(name, "rounded Gaussian", "L2", sensitivity * unit, sigma * unit, share)
        return released, sigma

    def _symmetric(
        self,
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
        if noise == "gaussian" and self.mu is None:
            raise PrivacyLeakError("Gaussian noise in a session that promises delta = 0")
        fraction, epsilon = self._take(share, name)
        dims = len(exact)
        # Rounding moves an entry of a difference by less than one step: norms of such a matrix.
        geometry, moved = {
            "gaussian": ("frobenius", dims),
            "wishart": ("nuclear", isqrt_up(dims**3)),
            "laplace": ("upper_l1", dims * (dims + 1) // 2),
        }[noise]
        bits = _coarse_bits(sensitivity(geometry), self.level(fraction), dims + 1.0)
        size = _after(sensitivity(geometry), bits, moved)
        short, unit = _shortened(exact, bits), unit * 2.0**bits
        if noise == "gaussian":
            released, std = self._isotropic(name, short, size, fraction, unit)
        elif noise == "wishart":
            released, std = self._wishart(name, short, size, epsilon, fraction, unit)
        else:
            released, std = self._triangle(name, short, size, epsilon, fraction, unit)
        return _lengthened(released, bits), std * 2.0**bits

    def _isotropic(
        self, name: str, exact: NDArray, size: int, share: Fraction, unit: float
    ) -> tuple[NDArray, float]:
        """Release a symmetric matrix with Gaussian noise that is isotropic in Frobenius norm."""
        dims = len(exact)
        upper = np.triu_indices(dims)
        sigma = calibration.sigma_up(size, self.level(share))
        sigmas = np.full((dims, dims), sigma * math.sqrt(0.5) * (1 + 2**-50))
        np.fill_diagonal(sigmas, sigma)

        def draw() -> NDArray:
            drawn = sampling.rounded_gaussian(sigmas[upper], upper[0].shape, entropy=self._entropy)
            return _symmetric(drawn, upper, dims)

        released = self._emit(name, exact, size, l2, draw)
        what = "rounded isotropic Gaussian"
        self._record(name, what, "Frobenius", size * unit, sigma * unit, share)
        return released, sigma * math.sqrt(0.5)

    def _wishart(
        self, name: str, exact: NDArray, size: int, epsilon: Fraction, share: Fraction, unit: float
    ) -> tuple[NDArray, float]:
        """Release a symmetric matrix under the difference of two Wishart matrices."""
        dims = len(exact)
        scale = size / (2 * epsilon)
        released = self._emit(
            name, exact, size, nuclear,
            lambda: sampling.symmetrized_wishart(dims, scale, entropy=self._entropy),
        )  # fmt: skip
        what = "symmetrised Wishart"
        self._record(name, what, "nuclear", size * unit, float(scale) * unit, share)
        return released, float(scale) * math.sqrt(2 * (dims + 1))

    def _triangle(
        self, name: str, exact: NDArray, size: int, epsilon: Fraction, share: Fraction, unit: float
    ) -> tuple[NDArray, float]:
        """Release a symmetric matrix with Laplace noise on its upper triangle."""
        dims = len(exact)
        scale = size / epsilon
        upper = np.triu_indices(dims)

        def draw() -> NDArray:
            drawn = sampling.discrete_laplace(scale, upper[0].shape, entropy=self._entropy)
            return _symmetric(np.asarray(drawn), upper, dims)

        released = self._emit(name, exact, size, upper_l1, draw)
        what = "discrete Laplace"
        self._record(name, what, "upper-triangle L1", size * unit, float(scale) * unit, share)
        return released, calibration.laplace_std(float(scale))

    def _joint(
        self,
        name: str,
        counts: NDArray,
        sums: NDArray,
        bounds: NDArray,
        share: Share,
        count_share: float,
        *,
        unit: float = 1.0,
    ) -> tuple[NDArray, float, NDArray, NDArray]:
        """Release counts of disjoint groups and a bounded sum in each, in one release.

        A row adds one to the count of its group and a vector of norm at most bounds[group] to its
        sum. A: loss mu_c**2 + mu_s**2 (pure: eps_c + eps_s). R: a row leaves one group for another,
        2 mu_c**2 + 2 mu_s**2, or changes within one, 4 mu_s**2; the larger counts (pure:
        2 eps_c + 2 eps_s). mu_c = 1 / sigma_c, mu_s = bound / sigma_s.

        Parameters
        ----------
        counts : ndarray of shape (m,)
        sums : ndarray of shape (m, d)
        bounds : ndarray of shape (m,)
            Integers.
        count_share : float
            Part of the share that goes to the counts, in (0, 1).

        Returns
        -------
        counts, count_std, sums, sum_std
            sum_std has shape (m,), one a coordinate of the group's sum.
        """
        fraction, epsilon = self._take(share, name)
        exact = np.concatenate([counts[:, None], sums], axis=1)
        q = min(max(float(count_share), 0.01), 0.99)
        if self.mu is not None:
            return self._joint_gaussian(name, exact, bounds, fraction, q, unit)
        return self._joint_pure(name, exact, bounds, fraction, epsilon, q, unit)

    def _joint_gaussian(
        self, name: str, exact: NDArray, bounds: NDArray, share: Fraction, q: float, unit: float
    ) -> tuple[NDArray, float, NDArray, NDArray]:
        """Release columns of counts and sums with Gaussian noise; see `joint`."""
        mu = self.level(share)
        if self.adjacency == "replace_one":
            # Below one half the counts' part costs nothing: 4 mu_s**2 is the larger term.
            q = max(q, 0.5)
            mu = mu * math.sqrt(0.5)
        sigma_count = calibration.sigma_up(1.0, math.sqrt(q) * mu * (1 - 2**-50))
        mu_sum = math.sqrt(1 - q) * mu * (1 - 2**-50)
        sigma_sums = np.array([calibration.sigma_up(float(b), mu_sum) for b in bounds])
        scales = np.repeat(sigma_sums[:, None], exact.shape[1], axis=1)
        scales[:, 0] = sigma_count

        def distance(a: NDArray, b: NDArray) -> float:
            difference = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
            return float(np.sqrt(np.sum((difference / scales) ** 2)))

        released = self._emit(
            name, exact, self.level(share), distance,
            lambda: sampling.rounded_gaussian(scales, scales.shape, entropy=self._entropy),
        )  # fmt: skip
        what, norm, part = "rounded Gaussian", "L2, joint", Fraction(q)
        size, scale = float(bounds.max()) * unit, float(sigma_sums.max()) * unit
        self._record(f"{name}: counts", what, norm, 1.0, sigma_count, share * part)
        self._record(f"{name}: sums", what, norm, size, scale, share * (1 - part))
        return released[:, 0], sigma_count, released[:, 1:], sigma_sums

    def _joint_pure(
        self,
        name: str,
        exact: NDArray,
        bounds: NDArray,
        share: Fraction,
        epsilon: Fraction,
        q: float,
        unit: float,
    ) -> tuple[NDArray, float, NDArray, NDArray]:
        """Release columns of counts and sums with Laplace and K-norm noise; see `joint`."""
        m, d = len(exact), exact.shape[1] - 1
        per_row = epsilon / 2 if self.adjacency == "replace_one" else epsilon
        part = Fraction(q).limit_denominator(1000)
        t_count = 1 / (part * per_row)
        t_sum = 1 / ((1 - part) * per_row)  # times the group's bound

        def distance(a: NDArray, b: NDArray) -> float:
            difference = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
            loss = np.abs(difference[:, 0]).sum() / float(t_count)
            norms = np.sqrt((difference[:, 1:] ** 2).sum(axis=1))
            return float(loss + (norms / bounds.astype(np.float64)).sum() / float(t_sum))

        def draw() -> NDArray:
            noisy_counts = sampling.discrete_laplace(t_count, (m,), entropy=self._entropy)
            scales = [int(b) * t_sum for b in bounds]
            noisy_sums = sampling.k_norm(d, scales, m, entropy=self._entropy)
            return np.concatenate([np.asarray(noisy_counts)[:, None], noisy_sums], axis=1)

        released = self._emit(name, exact, float(epsilon), distance, draw)
        counted, added = "discrete Laplace", "K-norm"
        size, scale = float(bounds.max()) * unit, float(bounds.max() * t_sum) * unit
        self._record(f"{name}: counts", counted, "L1, joint", 1.0, float(t_count), share * part)
        self._record(f"{name}: sums", added, "L2, joint", size, scale, share * (1 - part))
        std = bounds.astype(np.float64) * float(t_sum) * math.sqrt(d + 1)
        return released[:, 0], calibration.laplace_std(float(t_count)), released[:, 1:], std

    def _choices(self, name: str, scores: NDArray, sensitivity: int, share: Share) -> NDArray:
        """Choose an index in each row of integer scores (lower is better), all under one share.

        Exponential mechanism, P(i) proportional to exp(-eta score_i), eta = epsilon_j / (2
        sensitivity). The m rows share equally: epsilon / m each, or mu**2 / m in a Gaussian
        session, where a choice whose log-ratios range over 2 epsilon_j is GDP like an epsilon_j-DP
        release (kernel/README.md, "Quantiles", bounded range): eta is twice as large there.

        Parameters
        ----------
        scores : ndarray of shape (m, candidates)
        sensitivity : int
            By how much any score moves between neighbours.

        Returns
        -------
        chosen : ndarray of shape (m,)
        """
        fraction, epsilon = self._take(share, name)
        m = len(scores)
        if self.mu is None:
            each = epsilon / m
        else:
            each = 2 * Fraction(calibration.pure_part(self.level(fraction), m))
        eta = each / (2 * sensitivity)

        def largest(a: NDArray, b: NDArray) -> float:
            return float(np.abs(np.asarray(a, object) - np.asarray(b, object)).max())

        def draw() -> NDArray:
            return np.array(
                [sampling.exponential_mechanism(s, eta, entropy=self._entropy) for s in scores]
            )

        released = self._log(name, scores, sensitivity, largest, draw, (m,))
        self._record(name, "exponential mechanism", "score", sensitivity, float(1 / eta), fraction)
        return released

    def _publish(
        self,
        name: str,
        exact: NDArray,
        distance: Callable[[NDArray, NDArray], float],
        make: Callable[[], NDArray],
        shape: tuple[int, ...],
        probability: Fraction,
    ) -> NDArray:
        """Publish rows as they are. No noise, no differential privacy for those that are shown.

        Guarantee: (0, probability)-DP if a row that differs between neighbours is among those shown
        with at most this probability and what is shown otherwise does not depend on it; it is
        refused beyond `delta_apart`, and a second time.

        Parameters
        ----------
        exact, distance
            For the tape: the distance counts rows that differ, and neighbours differ in one.
        make : callable
            Draws and returns what is published.
        probability : Fraction
        """
        self._take_apart(probability, name)
        shown = self._log(name, exact, 1.0, distance, make, shape)
        delta = round_up(probability)
        self._record(name, "raw rows published", "none", math.inf, 0.0, Fraction(0), delta=delta)
        return shown
