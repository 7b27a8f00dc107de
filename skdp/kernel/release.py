"""The way out: a session charges the budget once, then meters every release against it.

This is the only module that calls ``charge`` and the only one that adds noise. Opening a session
charges the fit's whole (epsilon, delta) atomically, before any noise is drawn, and nothing is ever
refunded. A release takes a *share* of the session's allowance, kept as an exact fraction; shares
never sum above one. In a pure session (delta = 0) a share s may lose s * epsilon (basic
composition). In a Gaussian session the whole is mu-GDP with the largest mu that implies
(epsilon, delta), and a share s may lose sqrt(s) * mu (mu**2 adds up, adaptively chosen releases
included: Smith & Thakurta 2022). A release that is not private but for a small probability has a
delta of its own, `delta_apart`, which adds to the claim: the publication of rows, each with a
probability, and Laplace noise of smooth scale. Proofs: kernel/README.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.budget import Cost, PrivacyBudget
from skdp.budget import exact as as_charged
from skdp.budget.amounts import check_delta, round_up
from skdp.exceptions import (
    LedgerError,
    PrivacyLeakError,
    SealedBudgetError,
    SeededNoiseWarning,
)
from skdp.kernel import calibration, sampling
from skdp.kernel.certificate import PrivacyCertificate, ReleaseRecord
from skdp.kernel.protect import Floats
from skdp.kernel.rows import Rows
from skdp.kernel.tape import Entry, current_tape

__all__ = ["Meter", "Release"]

Share = float | Fraction | None

# Below this the noise would outgrow what the samplers draw exactly (2**52 steps), and the release
# would say nothing about any table that fits a disk.
SMALLEST_LEVEL = 1e-6
LARGEST_EPSILON = 1e15  # beyond, noise would be below the smallest scale that the samplers take


def _failpoint(name: str) -> None:
    """Do nothing; tests replace it to stop a process here (before or after the charge)."""


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


def exact_fraction(value: float | Fraction) -> Fraction:
    """Return a float as the fraction of its shortest decimal: 0.1 is a tenth, as in the ledger."""
    return value if isinstance(value, Fraction) else as_charged(float(value))


@dataclass(frozen=True)
class Release:
    """A released array: private no more, safe to keep and to post-process.

    Attributes
    ----------
    value : ndarray of float64, read-only
        In user units.
    std : ndarray or float
        Standard deviation of the noise, entry by entry, in the same units.
    """

    value: Floats
    std: Any


class Meter:
    """The allowance of one session: charges it, meters it, draws the noise.

    `Session` adds the statistics; this class never sees a row.

    Parameters
    ----------
    rows : Rows
        Used for the digest of seeded noise only.
    estimator : str
        Name in ledger and certificate.
    epsilon, delta : float
        Already validated.
    delta_apart : float
        For one release with a delta of its own: the probability with which a publication of rows
        shows the one in question, or the delta of Laplace noise of smooth scale. The claim is
        (epsilon, delta + delta_apart).
    budget : PrivacyBudget or None
    random_state : None, int or RandomState
        None draws from the operating system.
    context : str
        Public parameters; part of the seeded stream's key.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        estimator: str,
        epsilon: float,
        delta: float,
        delta_apart: float = 0.0,
        budget: PrivacyBudget | None,
        random_state: Any = None,
        context: str = "",
    ) -> None:
        self.estimator = estimator
        self.epsilon = float(epsilon)
        # The noise pays with `delta`, a publication with `delta_apart`; the claim has their sum.
        noise_delta = float(delta)
        self.delta_apart = check_delta(delta_apart, "delta_apart")
        self.delta = round_up(as_charged(noise_delta) + as_charged(self.delta_apart))
        self.adjacency = "replace_one" if budget is None else budget.adjacency
        if self.epsilon > LARGEST_EPSILON:
            raise ValueError(f"epsilon must be at most {LARGEST_EPSILON:g}, got {self.epsilon!r}")
        self.mu = calibration.gdp_mu(self.epsilon, noise_delta) if noise_delta > 0 else None
        if (self.epsilon if self.mu is None else self.mu) < SMALLEST_LEVEL:
            raise ValueError(
                f"epsilon must be at least {SMALLEST_LEVEL:g}, and delta not so small that the "
                f"Gaussian level mu falls below it; got epsilon={self.epsilon!r}, "
                f"delta={noise_delta!r}"
            )
        self._published = False
        self._epsilon_exact = exact_fraction(self.epsilon)
        self._spent = Fraction(0)
        self._open = True
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._busy = 0  # passes over the rows on which a user's code runs
        self._budget = budget
        self._records: list[ReleaseRecord] = []
        self._history = hashlib.blake2b(digest_size=32)
        self._seed = _seed_of(random_state)
        self.seeded = self._seed is not None
        cost = Cost(
            epsilon=self.epsilon, delta=self.delta, mu=self.mu, delta_apart=self.delta_apart
        )
        entropy: Any = None
        if self._seed is not None:
            # Two fits on different rows or parameters must never share noise: the difference of
            # their releases would be exact. So the stream is keyed by both.
            key = hashlib.blake2b(rows.digest(), digest_size=32)
            claim = (estimator, self.epsilon, self.delta, self.adjacency, context)
            key.update(repr(claim if not self.delta_apart else (*claim, noise_delta)).encode())
            self._key = key.digest()
            entropy = sampling.SeededEntropy(self._seed, self._key)
        self._entropy = entropy
        if budget is not None:
            if self.seeded:
                _warn_seeded()
            _failpoint("before_charge")
            self._charge = budget.charge(cost, estimator=estimator, seeded=self.seeded)
            _failpoint("after_charge")

    def __copy__(self) -> Any:
        raise PrivacyLeakError("a session cannot be copied: both would spend one charge")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return self.__copy__()

    # --- metering -----------------------------------------------------------------------------

    @property
    def pure(self) -> bool:
        """Whether the session's noise is pure: no delta but that of a publication."""
        return self.mu is None

    @property
    def rest(self) -> Fraction:
        """Share of the allowance that is left."""
        return 1 - self._spent

    def _fraction(self, share: Share) -> Fraction:
        fraction = self.rest if share is None else exact_fraction(share)
        if not 0 < fraction <= 1:
            raise PrivacyLeakError(f"share must be in (0, 1], got {float(fraction):g}")
        return fraction

    def level(self, share: Share = None) -> float:
        """Return what a release of this share may lose: its epsilon (pure) or its mu.

        Rounded down.
        """
        fraction = self._fraction(share)
        if self.mu is None:
            return float(fraction * self._epsilon_exact) * (1 - 2**-50)
        # Three roundings of at most 2**-53 each: the factor keeps the square below share * mu**2.
        return math.sqrt(float(fraction)) * self.mu * (1 - 2**-50)

    @contextlib.contextmanager
    def _spending(self, name: str) -> Iterator[None]:
        """Hold the lock under which a share is taken, if this session may still release."""
        # Before the lock: a forked child may have inherited it locked.
        if os.getpid() != self._pid:
            raise PrivacyLeakError(f"release {name!r} in a process that did not open the session")
        with self._lock:
            if not self._open:
                raise PrivacyLeakError(f"release {name!r} after the session was closed")
            if self._busy:
                # One row would decide whether there is such a release.
                raise PrivacyLeakError(f"release {name!r} asked for by code that runs on the rows")
            yield

    def _affordable(self, share: Share, name: str) -> Fraction:
        """Return the share as a fraction if that much is left; under the lock."""
        fraction = self._fraction(share)
        if self._spent + fraction > 1:
            raise PrivacyLeakError(
                f"release {name!r} wants a share of {float(fraction):g}; "
                f"{float(self.rest):g} of the session's allowance is left"
            )
        return fraction

    def _check_share(self, share: Share, name: str) -> None:
        """Raise what `_take` would raise, before a user's code is run on the rows."""
        with self._spending(name):
            self._affordable(share, name)

    def _take(self, share: Share, name: str) -> tuple[Fraction, Fraction]:
        """Spend a share; return it and the pure epsilon that it buys."""
        with self._spending(name):
            fraction = self._affordable(share, name)
            self._spent += fraction
        if self.mu is None:
            return fraction, fraction * self._epsilon_exact
        return fraction, Fraction(calibration.pure_epsilon_from_mu(self.level(fraction)))

    def _take_apart(self, probability: Fraction, name: str) -> None:
        """Spend `delta_apart` on one release that needs a delta of its own, of this size."""
        if not 0 < probability <= 1:
            raise PrivacyLeakError(f"release {name!r} needs a probability in (0, 1]")
        with self._spending(name):
            if probability > as_charged(self.delta_apart):
                raise PrivacyLeakError(
                    f"release {name!r} needs a delta of its own of {float(probability):g}; the "
                    f"session has set delta_apart={self.delta_apart:g} aside for that"
                )
            if self._published:
                raise PrivacyLeakError(f"release {name!r}: delta_apart has been spent already")
            self._published = True

    # --- mechanisms ---------------------------------------------------------------------------
    # Each takes exact integers with an integer sensitivity in steps and returns integers. Real
    # noise is rounded *after* an ideal addition to an integer, which is post-processing.

    def _emit(
        self,
        name: str,
        exact: NDArray,
        sensitivity: float,
        distance: Callable[[NDArray, NDArray], float],
        noise: Callable[[], NDArray],
    ) -> NDArray:
        """Add noise to an exact statistic (or replay a recorded release) and log the release."""

        def add() -> NDArray:
            drawn = noise()
            # Python integers where int64 could overflow: a wrapped sum would be no release.
            wide = exact.dtype == object or drawn.dtype == object
            largest = 0
            if not wide:
                largest = int(np.abs(drawn).max(initial=0)) + int(np.abs(exact).max(initial=0))
            if wide or largest >= 2**62:
                return exact.astype(object) + drawn.astype(object)
            return exact + drawn

        return self._log(name, exact, sensitivity, distance, add, exact.shape)

    def _log(
        self,
        name: str,
        exact: NDArray,
        sensitivity: float,
        distance: Callable[[NDArray, NDArray], float],
        make: Callable[[], NDArray],
        shape: tuple[int, ...],
    ) -> NDArray:
        """Make a release (or take it from a tape that is replayed) and write it down."""
        tape = current_tape()
        released = None if tape is None else tape.next_released(name, shape)
        if released is None:
            self._reseed(name, exact, sensitivity)
            released = make()
            _failpoint("after_noise")
        if tape is not None:
            tape.entries.append(Entry(name, exact.copy(), sensitivity, distance, released.copy()))
        self._history.update(name.encode())
        self._history.update(repr(released.tolist()).encode())
        return released

    def _reseed(self, name: str, exact: NDArray, sensitivity: float) -> None:
        """Key the noise of a seeded release by what is released, too.

        Rows and parameters do not tell everything: a function among the parameters may read what no
        digest of it shows. The same value under the same noise says nothing new; two values under
        one noise would give their difference away.
        """
        if self._seed is None:
            return
        key = hashlib.blake2b(self._key, digest_size=32)
        key.update(self._history.digest())
        key.update(repr((name, exact.shape, float(sensitivity))).encode())
        if not (exact.size == 1 and isinstance(exact.flat[0], np.ndarray | list | None)):
            # Not the holder of a whole table or of scores (samples.py, quantiles.py), which is full
            # on a tape only: the rows are in the key already.
            key.update(repr(exact.tolist()).encode())
        self._entropy = sampling.SeededEntropy(self._seed, key.digest())

    def _record(
        self,
        name: str,
        mechanism: str,
        norm: str,
        sensitivity: float,
        scale: float,
        share: Fraction,
    ) -> None:
        level = self.level(share)
        self._records.append(
            ReleaseRecord(
                name=name,
                mechanism=mechanism,
                sensitivity=float(sensitivity),
                norm=norm,
                scale=float(scale),
                share=float(share),
                epsilon=level if self.mu is None else None,
                mu=None if self.mu is None else level,
            )
        )

    def vector(
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
        if self.mu is not None:
            sigma = calibration.sigma_up(sensitivity, self.level(fraction))
            released = self._emit(
                name, exact, sensitivity, l2,
                lambda: sampling.rounded_gaussian(sigma, exact.shape, entropy=self._entropy),
            )  # fmt: skip
            self._record(name, "rounded Gaussian", "L2", sensitivity * unit, sigma * unit, fraction)
            return released, sigma
        scale = sensitivity / epsilon
        released = self._emit(
            name, exact, sensitivity, l2,
            lambda: np.asarray(
                sampling.k_norm(exact.size, scale, entropy=self._entropy)
            ).reshape(exact.shape),
        )  # fmt: skip
        self._record(name, "K-norm", "L2", sensitivity * unit, float(scale) * unit, fraction)
        return released, float(scale) * math.sqrt(exact.size + 1)

    def publish(
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
        self._records.append(
            ReleaseRecord(
                name=name,
                mechanism="raw rows published",
                sensitivity=math.inf,
                norm="none",
                scale=0.0,
                share=0.0,
                epsilon=0.0 if self.mu is None else None,
                mu=None if self.mu is None else 0.0,
                delta=round_up(probability),
            )
        )
        return shown

    def scalars(
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
        if self.mu is not None:
            size = math.sqrt(l2_sensitivity_squared) * (1 + 2**-50)
            sigma = calibration.sigma_up(size, self.level(fraction))
            released = self._emit(
                name, exact, size, l2,
                lambda: sampling.rounded_gaussian(sigma, exact.shape, entropy=self._entropy),
            )  # fmt: skip
            self._record(name, "rounded Gaussian", "L2", size * unit, sigma * unit, fraction)
            return released, sigma
        scale = l1_sensitivity / epsilon
        released = self._emit(
            name, exact, l1_sensitivity, l1,
            lambda: sampling.discrete_laplace(scale, exact.shape, entropy=self._entropy),
        )  # fmt: skip
        self._record(
            name, "discrete Laplace", "L1", l1_sensitivity * unit, float(scale) * unit, fraction
        )
        return released, calibration.laplace_std(float(scale))

    def symmetric(
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
        fraction, epsilon = self._take(share, name)
        dims = len(exact)
        upper = np.triu_indices(dims)
        if noise == "gaussian":
            if self.mu is None:
                raise PrivacyLeakError("Gaussian noise in a session that promises delta = 0")
            size = sensitivity("frobenius")
            sigma = calibration.sigma_up(size, self.level(fraction))
            sigmas = np.full((dims, dims), sigma * math.sqrt(0.5) * (1 + 2**-50))
            np.fill_diagonal(sigmas, sigma)

            def draw() -> NDArray:
                drawn = sampling.rounded_gaussian(
                    sigmas[upper], upper[0].shape, entropy=self._entropy
                )
                return _symmetric(drawn, upper, dims)

            released = self._emit(name, exact, size, l2, draw)
            self._record(
                name, "rounded isotropic Gaussian", "Frobenius", size * unit, sigma * unit, fraction
            )
            return released, sigma * math.sqrt(0.5)
        if noise == "wishart":
            size = sensitivity("nuclear")
            scale = size / (2 * epsilon)
            released = self._emit(
                name, exact, size, nuclear,
                lambda: sampling.symmetrized_wishart(dims, scale, entropy=self._entropy),
            )  # fmt: skip
            self._record(
                name, "symmetrised Wishart", "nuclear", size * unit, float(scale) * unit, fraction
            )
            return released, float(scale) * math.sqrt(2 * (dims + 1))
        if noise == "laplace":
            size = sensitivity("upper_l1")
            scale = size / epsilon

            def draw() -> NDArray:
                drawn = sampling.discrete_laplace(scale, upper[0].shape, entropy=self._entropy)
                return _symmetric(np.asarray(drawn), upper, dims)

            released = self._emit(name, exact, size, upper_l1, draw)
            self._record(
                name,
                "discrete Laplace",
                "upper-triangle L1",
                size * unit,
                float(scale) * unit,
                fraction,
            )
            return released, calibration.laplace_std(float(scale))
        raise ValueError(f"noise must be 'gaussian', 'wishart' or 'laplace', got {noise!r}")

    def joint(
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
        replace = self.adjacency == "replace_one"
        q = min(max(float(count_share), 0.01), 0.99)
        exact = np.concatenate([counts[:, None], sums], axis=1)
        d = sums.shape[1]
        if self.mu is not None:
            mu = self.level(fraction)
            if replace:
                # Below one half the counts' part costs nothing: 4 mu_s**2 is the larger term.
                q = max(q, 0.5)
                mu = mu * math.sqrt(0.5)
            sigma_count = calibration.sigma_up(1.0, math.sqrt(q) * mu * (1 - 2**-50))
            mu_sum = math.sqrt(1 - q) * mu * (1 - 2**-50)
            sigma_sums = np.array([calibration.sigma_up(float(b), mu_sum) for b in bounds])
            scales = np.concatenate(
                [np.full((len(counts), 1), sigma_count), np.repeat(sigma_sums[:, None], d, axis=1)],
                axis=1,
            )

            def distance(a: NDArray, b: NDArray) -> float:
                difference = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
                return float(np.sqrt(np.sum((difference / scales) ** 2)))

            released = self._emit(
                name, exact, self.level(fraction), distance,
                lambda: sampling.rounded_gaussian(scales, scales.shape, entropy=self._entropy),
            )  # fmt: skip
            part = Fraction(q)
            self._record(
                f"{name}: counts",
                "rounded Gaussian",
                "L2, joint",
                1.0,
                sigma_count,
                fraction * part,
            )
            self._record(
                f"{name}: sums", "rounded Gaussian", "L2, joint",
                float(bounds.max()) * unit, float(sigma_sums.max()) * unit, fraction * (1 - part),
            )  # fmt: skip
            return released[:, 0], sigma_count, released[:, 1:], sigma_sums
        per_row = epsilon / 2 if replace else epsilon
        q_exact = Fraction(q).limit_denominator(1000)
        t_count = 1 / (q_exact * per_row)
        t_sum = 1 / ((1 - q_exact) * per_row)  # times the group's bound

        def pure_distance(a: NDArray, b: NDArray) -> float:
            difference = (np.asarray(a, object) - np.asarray(b, object)).astype(np.float64)
            loss = np.abs(difference[:, 0]).sum() / float(t_count)
            norms = np.sqrt((difference[:, 1:] ** 2).sum(axis=1))
            return float(loss + (norms / bounds.astype(np.float64)).sum() / float(t_sum))

        def draw() -> NDArray:
            noisy_counts = sampling.discrete_laplace(t_count, counts.shape, entropy=self._entropy)
            scales = [int(b) * t_sum for b in bounds]
            noisy_sums = sampling.k_norm(d, scales, len(counts), entropy=self._entropy)
            return np.concatenate([np.asarray(noisy_counts)[:, None], noisy_sums], axis=1)

        released = self._emit(name, exact, float(epsilon), pure_distance, draw)
        self._record(
            f"{name}: counts",
            "discrete Laplace",
            "L1, joint",
            1.0,
            float(t_count),
            fraction * q_exact,
        )
        self._record(
            f"{name}: sums", "K-norm", "L2, joint",
            float(bounds.max()) * unit, float(bounds.max() * t_sum) * unit,
            fraction * (1 - q_exact),
        )  # fmt: skip
        std = bounds.astype(np.float64) * float(t_sum) * math.sqrt(d + 1)
        return released[:, 0], calibration.laplace_std(float(t_count)), released[:, 1:], std

    def choices(self, name: str, scores: NDArray, sensitivity: int, share: Share) -> NDArray:
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

    # --- the end ------------------------------------------------------------------------------

    def post_processing_rng(self) -> np.random.Generator:
        """Return a generator for data-independent randomness of post-processing.

        Seeded fits key it by the seed and the releases so far, never by the rows.
        """
        if self._seed is None:
            return sampling.public_generator(None)
        return sampling.public_generator(repr(self._seed).encode() + self._history.digest())

    def certificate(self) -> PrivacyCertificate:
        """Return what has been released so far and the session's guarantee."""
        return PrivacyCertificate(
            estimator=self.estimator,
            adjacency=self.adjacency,
            unit="row",
            epsilon=self.epsilon,
            delta=self.delta,
            mu=self.mu,
            seeded=self.seeded,
            charged=self._budget is not None,
            releases=tuple(self._records),
        )

    def close(self) -> None:
        """End the session: no further release; the ledger learns what the charge was for."""
        if self._open and self._budget is not None:
            # The price stands in the ledger since the session opened. That its description cannot
            # be added now is no reason to lose a fit that is paid for.
            with contextlib.suppress(LedgerError, SealedBudgetError):
                self._budget.describe(self._charge, [record.to_dict() for record in self._records])
        self._open = False

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _symmetric(values: NDArray, upper: tuple[NDArray, NDArray], dims: int) -> NDArray:
    """Fill a symmetric matrix from its upper triangle."""
    matrix = np.zeros((dims, dims), dtype=values.dtype)
    matrix[upper] = values
    matrix.T[upper] = values
    return matrix


def _seed_of(random_state: Any) -> int | None:
    """Return the integer that keys a seeded stream; None means the operating system's entropy."""
    if random_state is None:
        return None
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        return int(random_state)
    if hasattr(random_state, "randint"):
        return int(random_state.randint(0, 2**31 - 1))
    raise ValueError(
        "random_state must be None, an int or a numpy RandomState, got "
        f"{type(random_state).__name__}"
    )


def _warn_seeded() -> None:
    """Warn once a call site that the noise of a charged fit is reproducible."""
    warnings.warn(
        "random_state is set, so the noise that protects this fit can be reproduced by whoever "
        "knows the seed; use random_state=None for a release.",
        SeededNoiseWarning,
        stacklevel=5,
    )
