"""What principal component analysis decides before the data, and makes of a released matrix.

Nothing is released here: plans follow from public and released numbers, spectra from releases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from skdp.planning import Allowance

Floats = NDArray[np.float64]

# Shares of the fit's allowance (of epsilon, or of mu**2 where noise is Gaussian); what is left
# goes to the second moment.
COUNT_SHARE = 0.02  # a private number of rows: ten times sharper than the Gram's own entry
_RADIUS_SHARES = (0.005, 0.05)  # least and most for a private radius
_SEEN_SHARE = 0.25  # the most, where rows are so few that they would not be seen at all
_SEEN = 7.5 * math.sqrt(
    8
)  # rows in eight bins of the norm are seen above so many times a count's noise
_MEAN_SHARES = (0.03, 0.25)  # least and most for a private centre
_MEAN_ERROR = 0.1  # aim: an error of the centre of a tenth of the radius
_MEAN_USELESS = 0.5  # above half the radius a private centre is no better than the origin
_PROBED = 0.1  # above this share for a centre, a third of it says whether one is needed
_TIGHTEN_SHARE = 0.03  # at most, for a radius inside a stated one
_BLIND = 0.7  # of the rows: counts with more noise say nothing of a radius
# Standard deviations that a learned radius wants between a count and nothing.
_CLEAR_OF_NOISE = 10.6
# The constant feature of the augmented row, as a part of the radius: 2% more noise on the second
# moment; the mean's noise is 1 / (0.15 sqrt(2)) = 4.7 times what its own release would have.
TAU = 0.15

# --- before the data: what noise to expect ----------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What public numbers decide before a row counts: shares, and how far to clip.

    Parameters
    ----------
    allowance : Allowance
        Of the fit.
    dims : int
    n : float
        Number of rows, public or released.
    noise : str
        As the estimator's parameter.
    """

    allowance: Allowance
    dims: int
    n: float
    noise: str

    @property
    def pure(self) -> bool:
        """Whether noise is that of pure differential privacy."""
        return self.allowance.pure

    def edge(self, allowance: Allowance) -> float:
        """Return the edge of the noise on a covariance of rows of norm 1, for this allowance."""
        size = self.dims + 1
        return allowance.spectral_edge(size, allowance.gram_noise(self.noise, size)) / self.n

    @property
    def relative_noise(self) -> float:
        """The noise's edge if the whole allowance were spent on it."""
        return self.edge(self.allowance)

    def left(self, center: Floats | None, bound: float | None) -> float:
        """Return the share that a second moment has at least, by what is stated.

        Raises
        ------
        ValueError
            If noise would hide where the rows are whose radius is to be learned.
        """
        share = 1.0 if self.allowance.replace else 1 - COUNT_SHARE
        if center is None and self.mean_share:
            share -= self.mean_share + self.radius_share
        if bound is not None:
            return share - self.tighten_share
        if not self.sees_rows:
            raise ValueError(
                f"norm_bound must be stated for n_samples = {self.n:g} at epsilon = "
                f"{self.allowance.pure_epsilon:g}: noise would hide where so few rows are, and the "
                "error is in units of what is learned"
            )
        return share - self.radius_share

    @property
    def radius_share(self) -> float:
        """Share for learning a radius.

        The learned radius covers the bins of the norm whose noisy count stands clear
        of the noise. A smaller share thus costs less and leaves out a longer tail, which pays
        where noise grows with the radius: r costs spectral noise of ``relative_noise * r**2``,
        and a leading component loses about a tenth of what rows are shortened by. So the tail to
        leave out is ten times ``relative_noise`` of the rows, at most 30%.
        """
        clear = _CLEAR_OF_NOISE * self._count_noise
        low, high = _RADIUS_SHARES
        power = 1 if self.pure else 2
        share = min(max((clear / self.tail) ** power, low), high)
        return min(max((_SEEN * self._count_noise / self.n) ** power, share), _SEEN_SHARE)

    @property
    def sees_rows(self) -> bool:
        """Whether the share of a private radius shows where most rows are."""
        return _SEEN * self.allowance.part(self.radius_share).count_std <= self.n

    @property
    def tail(self) -> float:
        """Number of rows that a radius may leave out: see `radius_share`."""
        return self.n * min(10 * self.relative_noise, 0.3)

    @property
    def _count_noise(self) -> float:
        return self.allowance.count_std

    @property
    def tighten_share(self) -> float:
        """Share for a radius inside a stated one, or 0 where its noise would hide all rows."""
        share = min(self.radius_share, _TIGHTEN_SHARE)
        return share if 2 * self.allowance.part(share).count_std <= _BLIND * self.n else 0.0

    @property
    def probe_share(self) -> float:
        """Part of `mean_share` that says whether the rest would pay, or 0: no question.

        Rows that were centred beforehand need no private centre. A third of a large share tells,
        unless its noise would hide a mean of half the radius.
        """
        share = self.mean_share
        if share <= _PROBED:
            return 0.0
        probe = share / 3
        return probe if self._mean_error(probe) <= _MEAN_USELESS else 0.0

    def _mean_error(self, share: float) -> float:
        """Return the error of a private mean, as a part of the radius."""
        return self._mean_factor / share ** (1.0 if self.pure else 0.5)

    @property
    def _mean_factor(self) -> float:
        size = self.dims if self.allowance.replace else self.dims - 1  # the number of rows is one
        return math.sqrt(self.dims) * self.allowance.sum_std(1.0, size) / self.n

    @property
    def mean_share(self) -> float:
        """Share for a private centre, or 0 where it would not pay.

        The error of a private mean of n rows of norm at most r is about factor * r at full share
        (L2 sensitivity 2r, or sqrt(1 + 1/9) r with a private n); it grows as share**-1/2 under
        Gaussian noise and as 1 / share under the K-norm mechanism.
        """
        power = 1.0 if self.pure else 0.5
        low, high = _MEAN_SHARES
        share = min(max((self._mean_factor / _MEAN_ERROR) ** (1 / power), low), high)
        return share if self._mean_error(share) <= _MEAN_USELESS else 0.0

    def radius(self, bound: float) -> float:
        """Return the radius to clip to, given a bound on the norms: less where noise dominates.

        Clipping keeps the directions of rows, and no row's part in the second moment shrinks
        faster than the noise. So where the noise's edge is above three times the average variance
        that rows on the sphere would have, the radius is lowered, to three quarters at most.
        """
        excess = self.relative_noise * self.dims
        return bound * (1.0 if excess <= 3 else max(math.sqrt(3 / excess), 0.75))


# --- after the release: spectra ---------------------------------------------------------------


def shrink_to_zero(vector: Floats, std: float) -> Floats:
    """Return a noisy vector after positive-part James-Stein shrinkage towards zero."""
    norm2 = float(vector @ vector)
    if vector.size < 3 or norm2 == 0.0:
        return vector
    return vector * max(0.0, 1 - (vector.size - 2) * std**2 / norm2)


def flip_signs(components: Floats) -> Floats:
    """Make the entry of largest absolute value of every row positive."""
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * np.where(signs == 0, 1.0, signs)[:, None]


@dataclass(frozen=True)
class Spectrum:
    """Eigenvectors of a noisy covariance with the variances they explain."""

    components: Floats  # (d, d), rows, by decreasing noisy eigenvalue
    variances: Floats  # (d,)
    eigenvalues: Floats  # (d,), noisy
    total: float
    edge: float  # of a semicircle with the variance of the noise

    def number(self, wanted: int | float) -> int:
        """Return how many components to keep: a number, or those of more than a part of all."""
        if isinstance(wanted, int):
            return wanted
        parts = np.cumsum(self.variances) / self.total if self.total > 0 else self.variances
        return min(int(np.searchsorted(parts, wanted, side="right")) + 1, self.variances.size)


def explained_by_noisy_vectors(noisy: Floats, total: float, edge: float) -> Floats:
    """Return the variance along each eigenvector of a noisy covariance.

    In spiked models an eigenvalue l shows as w = l + s**2 / l, with an edge of the noise of 2 s,
    and the noisy eigenvector explains l (1 - s**2 / l**2) = sqrt(w**2 - edge**2) (Gavish &
    Donoho 2017). An eigenvector below the edge is noise: it explains the average of what the
    others leave.
    """
    strong = noisy > edge
    # sqrt(w**2 - edge**2), of which the squares would overflow under the largest norm bounds.
    root = np.sqrt(np.maximum(noisy - edge, 0.0)) * np.sqrt(np.maximum(noisy + edge, 0.0))
    variances = np.where(strong, root, 0.0)
    rest = max(total - float(variances.sum()), 0.0) / max(noisy.size - int(strong.sum()), 1)
    # The average may exceed a variance just above the edge; decreasing order is the contract.
    return np.sort(np.where(strong, variances, rest))[::-1]


def spectrum_of(
    second_moment: Floats, mean: Floats, n: float, std: float, radius: float
) -> Spectrum:
    """Return the spectrum of M / n - mean mean' (with n - 1 degrees of freedom), never negative.

    Parameters
    ----------
    second_moment : ndarray of shape (d, d)
        Released sum of (x - c)(x - c)'.
    mean : ndarray of shape (d,)
        Of x - c.
    n : float
        At least 1.
    std : float
        Of an off-diagonal entry of ``second_moment``.
    radius : float
        Bound on ||x - c||: no covariance has a trace above radius**2 n / (n - 1).
    """
    d = mean.size
    unbiased = n / (n - 1) if n >= 2 else 1.0
    # The division comes first: a sum of squares close to the largest float must not overflow.
    covariance = (second_moment / n - np.outer(mean, mean)) * unbiased
    noisy, vectors = linalg.eigh((covariance + covariance.T) / 2)
    noisy, vectors = noisy[::-1], vectors[:, ::-1]
    edge = 2 * std / n * math.sqrt(d) * unbiased
    largest = radius**2 * unbiased
    total = float(np.clip(noisy.sum(), 0.0, largest))
    variances = explained_by_noisy_vectors(noisy, total, edge)
    if variances.sum() > largest:
        variances = variances * (largest / variances.sum())
    total = max(total, float(variances.sum()))
    return Spectrum(flip_signs(vectors.T), variances, noisy, total, edge)
