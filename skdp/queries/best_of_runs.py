"""The best of a secret number of runs: a private search over fits and their private scores.

Released: of K runs the best one's candidate, fitted model and score. K is secret, and so are all
other runs. Guarantee: (epsilon, delta)-DP, if the claims of one run's sessions hold, which this
file checks. Proof: best_of_runs.md.

References
----------
N. Papernot, T. Steinke (2022), "Hyperparameter tuning with Renyi differential privacy", ICLR,
Lemma 7 and Corollary 3; J. Liu, K. Talwar (2019), "Private selection from private candidates",
STOC; A. Koskela, R. Redberg, Y.-X. Wang (2024), "Privacy profiles for private selection", ICML.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from skdp.budget import Cost, exact, pure_mu
from skdp.budget.ambient import only_here
from skdp.budget.budget import StandInBudget
from skdp.core import noise as samplers
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import Measurement, UserFunction, reviewed
from skdp.core.table import PrivateTable
from skdp.core.transcript import inner_sessions
from skdp.exceptions import PrivacyLeakError
from skdp.loss.conversions import gdp_delta, largest, round_down, smallest
from skdp.queries.blocks import words_of
from skdp.tabular.containers import alone, take
from skdp.tabular.records import WholeUnits
from skdp.tabular.rows import Rows
from skdp.user_code import foreign_code, run_isolated, silent

Positions = NDArray[np.intp]
_WORD = Fraction(2**64)


# --- how often --------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True)
class Repeats:
    """The truncated negative binomial distribution of the number of runs.

    - `eta`: Its shape: 1 geometric, 0 logarithmic.
    - `stop`: Gamma, in (0, 1).
    """

    eta: int
    stop: Fraction

    def __post_init__(self) -> None:
        if self.eta not in (0, 1) or not 0 < self.stop < 1:
            raise ValueError("eta must be 0 or 1, and stop in (0, 1)")

    @classmethod
    def of_mean(cls, mean: int, *, logarithmic: bool = False) -> Repeats:
        """Return the distribution with (about, if logarithmic) this mean, above 1."""
        if not logarithmic:
            return cls(1, Fraction(1, mean))
        odds = largest(lambda x: x / math.log1p(x) <= mean, 1.0)  # 1/gamma - 1
        return cls(0, Fraction(1, max(round(odds), 1) + 1))

    @property
    def mean(self) -> float:
        """The expected number of runs, rounded up."""
        inverse = 1 / self.stop
        if self.eta == 1:
            return math.nextafter(float(inverse), math.inf)
        return float(inverse - 1) / math.log(float(inverse)) * (1 + 1e-12)

    def draw(self, entropy: samplers.Entropy | None) -> int:
        """Return a number of runs, exactly distributed."""
        while True:
            k = 1
            while not _happens(self.stop, entropy):
                k += 1
            if self.eta == 1 or _happens(Fraction(1, k), entropy):
                return k


def _happens(probability: Fraction, entropy: samplers.Entropy | None) -> bool:
    below = samplers.uniform_below(probability.denominator, entropy=entropy)
    return below < probability.numerator


# --- what a run may lose ------------------------------------------------------------------------


@dataclass(frozen=True)
class BaseRun:
    """The loss that a fit may have in one run, and that its score may have on other rows.

    - `epsilon`: With pure noise; None where noise may be Gaussian.
    - `mu`: The Gaussian level then.
    - `separate_delta`: With `mu`: the delta that releases may have beside that of Gaussian noise,
      such as learned categories.
    """

    epsilon: float | None
    mu: float | None
    separate_delta: float = 0.0

    def covers(self, costs: Sequence[Cost]) -> bool:
        """Say whether releases of these prices together lose no more than this."""
        if self.epsilon is not None:
            total = sum((exact(cost.epsilon) for cost in costs), start=Fraction(0))
            return total <= exact(self.epsilon) and all(cost.delta == 0 for cost in costs)
        squares, separate = 0.0, Fraction(0)
        for cost in costs:
            for single, times in cost.components:
                if single.mu is None and single.delta > single.separate_delta:
                    return False
                mu = pure_mu(single.epsilon) if single.mu is None else single.mu
                squares += times * mu**2
                separate += times * exact(single.separate_delta)
        within = squares * (1 + 1e-12) <= (self.mu or 0.0) ** 2
        return within and separate <= exact(self.separate_delta)


@lru_cache(maxsize=256)
def base_level(
    epsilon: float, delta: float, repeats: Repeats, *, separate: bool = False
) -> BaseRun:
    """Return the largest base run for which the best of them is (epsilon, delta)-DP.

    - `epsilon`, `delta`: Loss of the best run; delta = 0 for pure base runs.
    - `separate`: Whether half of a positive delta is for the `separate_delta` of all runs.

    Examples
    --------
    >>> from fractions import Fraction
    >>> base_level(3.0, 0.0, Repeats(1, Fraction(1, 40)))
    BaseRun(epsilon=1.0, mu=None, separate_delta=0.0)
    """
    if delta == 0:
        return BaseRun(round_down(exact(epsilon) / (repeats.eta + 2)), None)
    own_delta = delta / 2 / repeats.mean * (1 - 1e-12) if separate else 0.0
    mu = largest(
        lambda mu: _epsilon_of(mu, own_delta, delta, repeats) <= epsilon, max(epsilon / 8, 1e-9)
    )
    return BaseRun(None, mu * (1 - 1e-9), own_delta)


def _epsilon_of(mu: float, own_delta: float, delta: float, repeats: Repeats) -> float:
    """Return the epsilon of the best of runs at this delta; each is mu-GDP but for `own_delta`."""
    odds = float(repeats.stop / (1 - repeats.stop)) * (1 - 1e-12)
    share = delta / repeats.mean * (1 - 1e-12) - own_delta
    # Inequality (1) of best_of_runs.md, then the delta of the second part.
    first = smallest(lambda e: gdp_delta(e, mu) + own_delta <= math.expm1(min(e, 700.0)) * odds, mu)
    second = smallest(lambda e: gdp_delta(e, mu) <= share, mu)
    return (second + (repeats.eta + 1) * first) * (1 + 1e-12)


# --- the runs ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BestRun:
    """The run that won.

    - `model`: Fitted; None if no run had a model.
    - `score`: The highest of all noisy scores, so usually too high.
    """

    candidate: int
    model: Any
    score: float


@reviewed
@dataclass(frozen=True, eq=False)
class BestOfRuns(Measurement):
    """The best of a secret number of runs of candidates, each drawn at random.

    - `fit`: ``fit(candidate, X, y, budget, seed)`` returns a private model; `seed` is None unless
      noise is seeded. With units of many rows it also gets ``groups=``, the id of each row.
    - `score`: ``score(model, X, y, budget, seed)`` returns a private number; `groups` likewise.
    - `test_size`: Fraction of the rows that are scored on.
    - `separate`: Whether fits have a `separate_delta`; see `base_level`.
    """

    name: ClassVar[str] = "best run"
    fit: UserFunction
    score: UserFunction
    n_candidates: int
    repeats: Repeats
    test_size: float
    separate: bool = False

    @staticmethod
    def steps(query: Any, table: PrivateTable) -> int:
        """Return 1 for a table of units: one unit changes one part, and runs protect units."""
        return 1 if isinstance(table.rows, WholeUnits) else table.stability.steps

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> BestRun:
        if not meter.pure:
            raise TypeError("a search needs a session whose delta is apart")
        if (meter.unit is not None) != isinstance(table.rows, WholeUnits):
            raise TypeError("a search deals out whole units, and needs a table of these")
        fraction, epsilon = meter.take(share, name)
        delta = meter.separate_delta
        if delta > 0:
            meter.take_separate_delta(exact(delta), name)
        base = base_level(round_down(epsilon), delta, self.repeats, separate=self.separate)
        what = "geometric" if self.repeats.eta == 1 else "logarithmic"
        loss = f"epsilon {base.epsilon:g}" if base.mu is None else f"mu {base.mu:g}"
        loss += f" and delta {base.separate_delta:g}" if base.separate_delta else ""
        mechanism = f"best of a {what} number of runs, {self.repeats.mean:.4g} on average, {loss}"
        meter.record(name, mechanism, "run", math.nan, math.nan, fraction, delta=delta)
        best = BestRun(0, None, -math.inf)
        # Runs share a mu, if delta is not 0, so that their noise is Gaussian.
        options: Any = {"here_only": True, "accountant": "basic" if base.mu is None else "gdp"}
        budget = StandInBudget(meter.relation, meter.unit, **options)
        # No worker processes: the claims of their sessions would not be seen. Sessions without a
        # budget claim to this one, too: the ledger of an ambient budget would show the runs.
        sequential, ambient = parallel_config("sequential"), only_here(budget)
        with inner_sessions(), silent(), sequential, ambient:
            for candidate, train, test, seed in self._drawn(table, meter):
                with foreign_code(meter):
                    run = self._run(table.rows, candidate, train, test, budget, seed, base)
                if run is not None and run.score > best.score:  # of equal ones the first
                    best = run
        return best

    def _drawn(
        self, table: PrivateTable, meter: Meter
    ) -> Iterator[tuple[int, Positions, Positions, int | None]]:
        """Yield the candidate, the parts and the seed of every run; a transcript has the draws."""

        def draw(what: str, make: Callable[[], int]) -> int:
            nothing = np.array([None], dtype=object)  # the draw depends on no row
            drawn = meter.release(
                what, nothing, 0, lambda a, b: 0.0, lambda: np.array([make()], np.int64), (1,)
            )
            return int(drawn[0])

        for _ in range(draw("number of runs", lambda: self.repeats.draw(meter.entropy))):
            candidate = draw(
                "candidate",
                lambda: samplers.uniform_below(self.n_candidates, entropy=meter.entropy),
            )
            seed = None
            if meter.noise_seed is not None:
                key = repr(meter.noise_seed).encode() + meter.history()
                seed = int.from_bytes(hashlib.blake2b(key, digest_size=4).digest(), "little") // 2
            yield candidate, *_parts(table, meter, self.test_size), seed

    def _run(
        self,
        rows: Any,
        candidate: int,
        train: Positions,
        test: Positions,
        budget: StandInBudget,
        seed: int | None,
        base: BaseRun,
    ) -> BestRun | None:
        """Make one run; None if it fails."""
        with samplers.lent_generators() as restart:
            budget.asked.clear()
            X, y, groups = _part(rows, train)
            model = run_isolated(
                lambda: self.fit.call(candidate, X, y, budget, seed, **groups), None, restart
            )
            _check_claims(budget, base)
            if model is None:
                return None
            budget.asked.clear()
            X, y, groups = _part(rows, test)
            score = run_isolated(
                lambda: float(self.score.call(model, X, y, budget, seed, **groups)),
                math.nan,
                restart,
            )
            _check_claims(budget, base)
        return BestRun(candidate, model, score) if math.isfinite(score) else None


def _check_claims(budget: StandInBudget, base: BaseRun) -> None:
    """Stop if a part of a run claims more loss than it may have; claims are public."""
    costs = [entry[0] for entry in budget.asked if isinstance(entry, tuple)]
    if not base.covers(costs):
        raise PrivacyLeakError("a run of the search asked for more than it may lose")


def _parts(table: PrivateTable, meter: Meter, test_size: float) -> tuple[Positions, Positions]:
    """Partition the rows, or units, into one part to fit on and one to score on."""
    n = table.n
    entropy: samplers.Entropy = samplers.OSEntropy()
    material = repr(meter.noise_seed).encode() + meter.history()
    if meter.noise_seed is not None:  # audits compare the parts of two tables
        entropy = samplers.SeededEntropy(meter.noise_seed, material)
    if table.n_is_public:
        order = np.argsort(entropy.words(n), kind="stable")
        n_test = min(max(round(n * test_size), 1), n - 1)
        return np.sort(order[n_test:]), np.sort(order[:n_test])
    if meter.noise_seed is None:
        words = entropy.words(n)
    else:
        key, rows = hashlib.blake2b(material, digest_size=32).digest(), table.rows
        is_units = isinstance(rows, WholeUnits)
        words = rows.keyed_words(key) if is_units else words_of(_contents(rows), key)
    tested = words < np.uint64(min(int(exact(test_size) * _WORD), 2**64 - 1))
    return np.flatnonzero(~tested), np.flatnonzero(tested)


def _contents(rows: Rows) -> Iterator[bytes]:
    for X, y in rows.slices(1):
        yield repr((np.asarray(X).tolist(), np.asarray(y).tolist())).encode()


def _part(rows: Any, positions: Positions) -> tuple[Any, Any, dict[str, Any]]:
    """Return copies of some rows and targets, or of all rows and the ids of some units."""
    if isinstance(rows, WholeUnits):
        X, y, groups = rows.part(positions)
        return X, y, {"groups": groups}
    y = None if rows._y is None else alone(take(rows._y, positions))
    return alone(take(rows._X, positions)), y, {}
