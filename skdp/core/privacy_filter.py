"""The way out: a session charges the budget once, then meters every release against it.

This is the only module that calls ``charge``. Opening a session charges the fit's whole (epsilon,
delta) atomically, before any noise is drawn, and nothing is ever refunded. A release takes a
*share* of the session's allowance, kept as an exact fraction; shares never sum above one. In a pure
session (delta = 0) a share s may lose s * epsilon (basic composition). In a Gaussian session the
whole is mu-GDP with the largest mu that implies (epsilon, delta), and a share s may lose
sqrt(s) * mu (mu**2 adds up, adaptively chosen releases included: Smith & Thakurta 2022). A release
that is not private but for a small probability has a delta of its own, `separate_delta`, which
adds to the claim: the publication of rows, each with a probability, and Laplace noise of smooth
scale.

A mechanism is handed a `Meter`, a view of the session's `PrivacyFilter`: it takes its share, makes
its release through `add_noise` or `release`, which a transcript records and replays and a seed
keys, and writes down what it did. The filter itself stays with the session. The mechanisms are in
`skdp.core.mechanisms`, and beside the queries that are alone in using one. Proofs: PROOFS.md,
"Metering".
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._config import noise_is_seeded
from skdp.budget import Cost, PrivacyBudget, gdp_mu
from skdp.budget import exact as as_charged
from skdp.budget.budget import StandInBudget, not_a_budget
from skdp.budget.reading import warn_of_delta
from skdp.core import noise as samplers
from skdp.core.certificate import PrivacyCertificate, ReleaseRecord
from skdp.core.clipping import Floats
from skdp.core.table import REPLACE_ONE
from skdp.exceptions import LedgerError, PrivacyLeakError, SealedBudgetError, SeededNoiseWarning
from skdp.loss.conversions import check_delta, pure_epsilon_from_mu, round_up

Share = float | Fraction | None

# Below this the noise would outgrow what the samplers draw exactly (2**52 steps), and the release
# would say nothing about any table that fits a disk.
SMALLEST_LEVEL = 1e-6
LARGEST_EPSILON = 1e15  # beyond, noise would be below the smallest scale that the samplers take


def _failpoint(name: str) -> None:
    """Do nothing; tests replace it to stop a process here (before or after the charge)."""


def exact_fraction(value: float | Fraction) -> Fraction:
    """Return a float as the fraction of its shortest decimal: 0.1 is a tenth, as in the ledger."""
    if type(value) is Fraction:
        return value
    if isinstance(value, Fraction):  # a class of the caller's would add up as it likes
        return Fraction(int(value.numerator), int(value.denominator))
    return as_charged(float(value))


@dataclass(frozen=True)
class Release:
    """A released array: private no more, safe to keep and to post-process.

    - `value`: In user units.
    - `std`: Standard deviation of the noise, entry by entry, in the same units.
    - `count`: The number of rows of a mean whose `std` covers the noise of that number.
    """

    value: Floats
    std: Any
    count: Any = None


def released(value: NDArray | float, std: Any) -> Release:
    """Freeze a released array."""
    array = np.array(value, dtype=np.float64)
    array.setflags(write=False)
    return Release(array, std)


# Of an audit that records what is released, or replays it; see `skdp.core.transcript`.
TRANSCRIPT: ContextVar[Any] = ContextVar("skdp_transcript", default=None)


def current_transcript() -> Any:
    """Return the active transcript, if any."""
    return TRANSCRIPT.get()


def in_transcript(make: Callable[[], Any]) -> NDArray:
    """Return an array of one object, whose size tells nothing: what `make` returns, for audits."""
    holder = np.empty(1, dtype=object)
    if current_transcript() is not None:
        holder[0] = make()
    return holder


# The query that is being answered: its type by full name, and whether skdp has it.
_ASKED: ContextVar[tuple[str, bool]] = ContextVar("skdp_query", default=("", True))


def check_allowance(epsilon: float, delta: float) -> float | None:
    """Return the Gaussian level mu, None if pure; refuse an allowance that no noise can have."""
    if epsilon > LARGEST_EPSILON:
        raise ValueError(f"epsilon must be at most {LARGEST_EPSILON:g}, got {epsilon!r}")
    mu = gdp_mu(epsilon, delta) if delta > 0 else None
    if (epsilon if mu is None else mu) < SMALLEST_LEVEL:
        raise ValueError(
            f"epsilon must be at least {SMALLEST_LEVEL:g}, and delta not so small that the "
            f"Gaussian level mu falls below it; got epsilon={epsilon!r}, delta={delta!r}"
        )
    return mu


@contextlib.contextmanager
def asked(query: str, *, reviewed: bool) -> Iterator[None]:
    """Name the query to which the releases of this block belong, for the certificate.

    Where a query asks another of a table that it has derived, both.
    """
    outer, outer_is_reviewed = _ASKED.get()
    both = f"{outer}, {query}" if outer else query
    token = _ASKED.set((both, reviewed and outer_is_reviewed))
    try:
        yield
    finally:
        _ASKED.reset(token)


@dataclass
class _Shares:
    """A part of what was charged, and how much of this part has been spent."""

    part: Fraction = Fraction(1)
    spent: Fraction = Fraction(0)


class PrivacyFilter:
    """The allowance of one session: charges it, and writes down what was released.

    It never sees a row. Only the session holds it: mechanisms (`skdp.core.mechanisms`) and
    measurements take their shares through a `Meter`, which cannot enlarge what there is.

    - `digest`: Returns a hash of the rows, which keys seeded noise and nothing else.
    - `estimator`: Name in ledger and certificate.
    - `epsilon`, `delta`: Already validated.
    - `separate_delta`: For one release with a delta of its own: the probability with which a
      publication of rows shows the one in question, or the delta of Laplace noise of smooth scale.
      The claim is (epsilon, delta + separate_delta).
    - `random_state`: Seeds post-processing; and noise, but only inside
      ``config_context(noise="seeded")``.
    - `context`: Public parameters; part of the seeded stream's key.
    - `n_rows`: The number of rows where it is public: the budget warns of tables of another length.
    - `unit`: The name of the privacy unit; None: one row. It must be that of the budget.
    """

    def __init__(
        self,
        digest: Callable[[], bytes],
        *,
        estimator: str,
        epsilon: float,
        delta: float,
        separate_delta: float = 0.0,
        budget: PrivacyBudget | None,
        random_state: Any = None,
        context: str = "",
        n_rows: int | None = None,
        unit: str | None = None,
    ) -> None:
        if not (budget is None or type(budget) in (PrivacyBudget, StandInBudget)):
            # A class of the caller's would decide by itself what it charges.
            raise not_a_budget(budget)
        if budget is not None and budget.unit != unit:
            # `skdp.base` says it with a way out.
            raise ValueError(f"{estimator}: the budget's unit is {budget.unit!r}, not {unit!r}")
        self.estimator = estimator
        self.epsilon = float(epsilon)
        # The noise pays with `delta`, a publication with `separate_delta`; the claim has their sum.
        noise_delta = float(delta)
        self.claimed_separate_delta = check_delta(separate_delta, "separate_delta")
        self.delta = round_up(as_charged(noise_delta) + as_charged(self.claimed_separate_delta))
        self.relation = REPLACE_ONE if budget is None else budget.adjacency
        self.claimed_mu = check_allowance(self.epsilon, noise_delta)
        self.unit = unit
        self.max_rows_per_unit: int | None = None
        self._shares = _Shares()
        self._separate_delta_is_spent = False
        self._is_paid = False  # whether any share has been taken
        self._is_open = True
        self._passes = 0  # over the rows, on which a user's code runs
        self._entropy: Any = None  # of noise; None: the operating system
        self._pid = os.getpid()
        self._lock = threading.RLock()  # held already: by code that interrupted a release
        self._budget = budget
        self._records: list[ReleaseRecord] = []
        self._history = hashlib.blake2b(digest_size=32)
        self._seed = _seed_of(random_state)  # of post-processing
        self.seeded = self._seed is not None and noise_is_seeded()
        self.noise_seed = self._seed if self.seeded else None
        cost = Cost(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=self.claimed_mu,
            separate_delta=self.claimed_separate_delta,
        )
        if self.noise_seed is not None:
            # Two fits on different rows or parameters must never share noise: the difference of
            # their releases would be exact. So the stream is keyed by both.
            key = hashlib.blake2b(digest(), digest_size=32)
            claim = (estimator, self.epsilon, self.delta, self.relation, context)
            apart = (noise_delta,) if self.claimed_separate_delta else ()
            key.update(repr((*claim, *apart)).encode())
            self._key = key.digest()
            self._entropy = samplers.SeededEntropy(self.noise_seed, self._key)
        warn_of_delta(estimator, self.delta, n_rows or 0)
        if budget is not None:
            if self.seeded:
                warnings.warn(
                    "random_state is set inside config_context(noise='seeded'), so whoever knows "
                    "the seed can reproduce the noise that protects this fit; leave the context "
                    "for a release.",
                    SeededNoiseWarning,
                    stacklevel=3,
                )
            if n_rows is not None:
                budget.expect_rows(n_rows, estimator)
            _failpoint("before_charge")
            self._charge = budget.charge(cost, estimator=estimator, seeded=self.seeded)
            _failpoint("after_charge")
        transcript = current_transcript()
        self._opened = None if transcript is None else transcript.opened(estimator, cost, budget)

    def meter(self) -> Meter:
        """Return a view of the allowance."""
        return Meter(self, self._shares, 1)

    def _keep_rest(self) -> None:
        """Let shares be of what is left, from now on; the session alone may.

        Epsilons add up and squares of mu do, so what is left of an allowance is one itself. The
        old allowance is empty then: a meter that was made before can take nothing more.
        """
        with self._spending("what is left"):
            old = self._shares
            if old.spent == 1:
                raise PrivacyLeakError("nothing of the session's allowance is left")
            self._shares = _Shares(old.part * (1 - old.spent))
            old.spent = Fraction(1)

    def __reduce__(self) -> Any:  # copies are made by it, too
        raise PrivacyLeakError("a session cannot be copied: both would spend one charge")

    @contextlib.contextmanager
    def _spending(self, name: str) -> Iterator[None]:
        """Hold the lock under which a share is taken, if this session may still release."""
        # Before the lock: a forked child may have inherited it locked.
        self._check_process(name)
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise PrivacyLeakError(f"release {name!r} in the middle of another of this session")
        with self._lock:
            self._check_open(name)
            yield

    def _check_process(self, name: str) -> None:
        if os.getpid() != self._pid:
            raise PrivacyLeakError(f"release {name!r} in a process that did not open the session")

    def _check_open(self, name: str) -> None:
        if not self._is_open:
            raise PrivacyLeakError(f"release {name!r} after the session was closed")
        if self._passes:
            # One row would decide whether there is such a release.
            raise PrivacyLeakError(f"release {name!r} asked for by code that runs on the rows")

    def ticket_key(self) -> bytes | None:
        """Return what keys the choice of a unit's rows; None: the operating system's entropy.

        Under a seed, and where an audit compares two tables, rows of the same unit get the same
        tickets in both: the key tells nothing of the table.
        """
        if current_transcript() is not None:
            return b"audited"
        return None if self.noise_seed is None else repr(self.noise_seed).encode()

    def post_processing_rng(self) -> np.random.Generator:
        """Return a generator for data-independent randomness of post-processing.

        With a `random_state` it is keyed by that and the releases so far, never by the rows.
        """
        if self._seed is None:
            return samplers.public_generator(None)
        return samplers.public_generator(repr(self._seed).encode() + self._history.digest())

    def certificate(self) -> PrivacyCertificate:
        """Return what has been released so far and the session's guarantee."""
        return PrivacyCertificate(
            estimator=self.estimator,
            adjacency=self.relation,
            unit="row" if self.unit is None else self.unit,
            max_rows_per_unit=self.max_rows_per_unit,
            epsilon=self.epsilon,
            delta=self.delta,
            mu=self.claimed_mu,
            seeded=self.seeded,
            charged=type(self._budget) is PrivacyBudget,
            releases=tuple(self._records),
        )

    def close(self) -> None:
        """End the session: no further release; the ledger learns what the charge was for.

        - raises PrivacyLeakError: if code that runs on the rows asks for it: one row would decide
          about all later answers.
        """
        if self._passes:
            raise PrivacyLeakError("a session cannot be closed by code that runs on its rows")
        if self._is_open and self._budget is not None:
            # The cost stands in the ledger since the session opened. That its description cannot
            # be added now is no reason to lose a fit that is paid for.
            with contextlib.suppress(LedgerError, SealedBudgetError):
                self._budget.describe(self._charge, [record.to_dict() for record in self._records])
        self._is_open = False


class Meter:
    """A view of a session's allowance: it can check, take shares and release under them.

    Mechanisms and measurements are handed this and no more. What is taken by all meters of a
    session adds up to its claim at most (`tests/verified/test_filter.py` runs every short sequence
    of requests). That a release loses no more than the share that was taken for it, the proof of
    its mechanism shows.

    - `shares`: Several meters may draw on the same.
    - `steps`: The guarantee of a mechanism that takes a share is for one of so many steps. Group
      privacy: what is epsilon-DP for a step is k epsilon-DP for k of them, mu-GDP is k mu-GDP; so
      each step may lose a k-th part. PROOFS.md, "Stability".
    """

    __slots__ = ("_filter", "_shares", "_steps")

    def __init__(self, privacy_filter: PrivacyFilter, shares: _Shares, steps: int) -> None:
        self._filter, self._shares, self._steps = privacy_filter, shares, steps

    def per_step(self, steps: int) -> Meter:
        """Return this meter for mechanisms whose guarantee is for one of so many of its steps."""
        if type(steps) is not int or steps < 1:  # a part of a step would enlarge the allowance
            raise PrivacyLeakError(f"steps must be a positive integer, got {steps!r}")
        return Meter(self._filter, self._shares, self._steps * steps)

    # --- what is public -------------------------------------------------------------------------

    @property
    def relation(self) -> str:
        """How neighbouring tables of the caller differ."""
        return self._filter.relation

    @property
    def unit(self) -> str | None:
        """The name of the privacy unit; None: one row."""
        return self._filter.unit

    @property
    def claimed_separate_delta(self) -> float:
        """The separate delta that the session has charged."""
        return self._filter.claimed_separate_delta

    @property
    def noise_seed(self) -> int | None:
        """The seed of the noise; None where noise is not seeded."""
        return self._filter.noise_seed

    def history(self) -> bytes:
        """Return a hash of the releases so far."""
        return self._filter._history.digest()

    def post_processing_rng(self) -> np.random.Generator:
        """Return a generator for data-independent randomness of post-processing."""
        return self._filter.post_processing_rng()

    # --- shares ---------------------------------------------------------------------------------

    @property
    def pure(self) -> bool:
        """Whether the session's noise is pure: no delta but that of a publication."""
        return self._filter.claimed_mu is None

    @property
    def mu(self) -> float | None:
        """The Gaussian level of all noise for one step; None if pure."""
        whole, part = self._filter.claimed_mu, self._shares.part
        if whole is None or part == 1:
            return None if whole is None else whole / self._steps
        return whole * math.sqrt(part) * (1 - 2**-50) / self._steps

    @property
    def remaining(self) -> Fraction:
        """Share of the allowance that is left."""
        return 1 - self._shares.spent

    @property
    def entropy(self) -> Any:
        """Where noise comes from; None for the operating system."""
        return self._filter._entropy

    @property
    def separate_delta(self) -> float:
        """The delta that one release may have of its own, for one step.

        Of (epsilon, delta)-DP for a step, k steps make delta * (1 + e**epsilon + ... +
        e**((k - 1) epsilon)).
        """
        return self._filter.claimed_separate_delta / self._growth

    @property
    def _growth(self) -> float:
        """What k steps make of a delta of one of them; infinite past the range of floats."""
        if self._steps == 1:
            return 1.0
        each = float(self._epsilon_of_step)
        if self.mu is not None:
            each = max(each, pure_epsilon_from_mu(self.mu))
        if (self._steps - 1) * each > 700.0:
            return math.inf
        return sum(math.exp(i * each) for i in range(self._steps)) * (1 + 2**-40)  # upwards

    @property
    def _epsilon_of_step(self) -> Fraction:
        return exact_fraction(self._filter.epsilon) * self._shares.part / self._steps

    def fraction(self, share: Share) -> Fraction:
        """Return a share as a fraction; None stands for all that is left."""
        fraction = self.remaining if share is None else exact_fraction(share)
        if not 0 < fraction <= 1:
            raise PrivacyLeakError(f"share must be in (0, 1], got {float(fraction):g}")
        return fraction

    def level(self, share: Share = None) -> float:
        """Return what a release of this share may lose a step: its epsilon (pure) or its mu.

        Rounded down.
        """
        fraction = self.fraction(share)
        if self.mu is None:
            return float(fraction * self._epsilon_of_step) * (1 - 2**-50)
        # Four roundings of at most 2**-53 each: the factor keeps the square below share * mu**2.
        return math.sqrt(float(fraction)) * self.mu * (1 - 2**-50)

    @contextlib.contextmanager
    def spending(self, name: str) -> Iterator[None]:
        """Hold the lock under which shares are taken; refuse where the session may not release."""
        with self._filter._spending(name):
            yield

    def _affordable(self, share: Share, name: str) -> Fraction:
        """Return the share as a fraction if that much is left; under the lock."""
        fraction = self.fraction(share)
        if self._shares.spent + fraction > 1:
            raise PrivacyLeakError(
                f"release {name!r} wants a share of {float(fraction):g}; "
                f"{float(self.remaining):g} of the session's allowance is left"
            )
        return fraction

    def take(self, share: Share, name: str) -> tuple[Fraction, Fraction]:
        """Spend a share; return it and the pure epsilon that it buys, for one step."""
        with self.spending(name):
            fraction = self._affordable(share, name)
            self._shares.spent += fraction
            self._filter._is_paid = True
        if self.mu is None:
            return fraction, fraction * self._epsilon_of_step
        return fraction, Fraction(pure_epsilon_from_mu(self.level(fraction)))

    def take_separate_delta(self, probability: Fraction, name: str) -> None:
        """Spend the separate delta on one release that needs this much of it a step."""
        if not 0 < probability <= 1:
            raise PrivacyLeakError(f"release {name!r} needs a probability in (0, 1]")
        with self.spending(name):
            if probability > as_charged(self.separate_delta):
                raise PrivacyLeakError(
                    f"release {name!r} needs a delta of its own of {float(probability):g}; the "
                    f"session has set separate_delta={self.separate_delta:g} aside for that"
                )
            if self._filter._separate_delta_is_spent:
                raise PrivacyLeakError(f"release {name!r}: separate_delta has been spent already")
            self._filter._separate_delta_is_spent = self._filter._is_paid = True

    @contextlib.contextmanager
    def without_releases(self) -> Iterator[None]:
        """Refuse every release in the block, in which a user's code runs on rows."""
        with self._filter._lock:
            self._filter._passes += 1
        try:
            yield
        finally:
            with self._filter._lock:
                self._filter._passes -= 1

    def check(self, share: Share, name: str) -> None:
        """Raise what `take` would raise, before a user's code is run on the rows."""
        with self.spending(name):
            self._affordable(share, name)

    # --- releases ------------------------------------------------------------------------------

    def add_noise(
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
            both = (exact, drawn)
            wide = any(values.dtype == object for values in both)
            if wide or sum(int(np.abs(values).max(initial=0)) for values in both) >= 2**62:
                return exact.astype(object) + drawn.astype(object)
            return exact + drawn

        return self.release(name, exact, sensitivity, distance, add, exact.shape)

    def release(
        self,
        name: str,
        exact: NDArray,
        sensitivity: float,
        distance: Callable[[NDArray, NDArray], float],
        make: Callable[[], NDArray],
        shape: tuple[int, ...],
    ) -> NDArray:
        """Make a release (or take it from a transcript that is replayed) and write it down."""
        self._filter._check_process(name)
        self._filter._check_open(name)
        if not self._filter._is_paid:
            raise PrivacyLeakError(f"release {name!r} before any share was taken")
        transcript = current_transcript()
        released = None if transcript is None else transcript.next_released(name, shape)
        if released is None:
            self.reseed(name, exact, sensitivity)
            released = make()
            _failpoint("after_noise")
        if transcript is not None:
            moved = sensitivity * self._steps  # by the whole unit
            transcript.note(name, exact, moved, distance, released)
        if self._filter._opened is not None:
            self._filter._opened.releases += 1
        if self._filter._seed is not None:  # nothing else reads it
            # What repr(released.tolist()) is, some rows at a time: it is much longer than they are.
            step = max(2**16 * len(released) // max(released.size, 1), 1)
            for i in range(0, max(len(released), 1), step):
                part = repr(released[i : i + step].tolist())[1:-1]
                self._filter._history.update(f"{', ' if i else name + '['}{part}".encode())
            self._filter._history.update(b"]")
        return released

    def reseed(self, name: str, exact: NDArray, sensitivity: float) -> None:
        """Key the noise of a seeded release by what is released, too.

        Rows and parameters do not tell everything: a function among the parameters may read what no
        digest of it shows. The same value under the same noise says nothing new; two values under
        one noise would give their difference away.
        """
        if self._filter.noise_seed is None:
            return
        key = hashlib.blake2b(self._filter._key, digest_size=32)
        key.update(self._filter._history.digest())
        key.update(repr((name, exact.shape, float(sensitivity))).encode())
        if not (exact.size == 1 and isinstance(exact.flat[0], np.ndarray | list | None)):
            # Not the holder of a whole table or of scores (samples.py, quantiles.py), which is full
            # in a transcript only: the rows are in the key already.
            key.update(repr(exact.tolist()).encode())
        self._filter._entropy = samplers.SeededEntropy(self._filter.noise_seed, key.digest())

    def record(
        self,
        name: str,
        mechanism: str,
        norm: str,
        sensitivity: float,
        scale: float,
        share: Fraction,
        *,
        delta: float = 0.0,
    ) -> None:
        """Write a release into the certificate; without a share it has a separate delta only.

        What it loses is for the whole unit, its sensitivity for what the mechanism was told.
        """
        level = self.level(share) * self._steps if share else 0.0
        query, is_reviewed = _ASKED.get()
        self._filter._records.append(
            ReleaseRecord(
                name=name,
                mechanism=mechanism,
                sensitivity=float(sensitivity),
                norm=norm,
                scale=float(scale),
                share=float(share * self._shares.part),
                epsilon=level if self.mu is None else None,
                mu=None if self.mu is None else level,
                delta=min(delta * self._growth, 1.0) if delta else delta,
                query=query,
                reviewed=is_reviewed,
            )
        )


def _seed_of(random_state: Any) -> int | None:
    """Return the integer of a random state, which keys seeded streams; None if there is none."""
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
