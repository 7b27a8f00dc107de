"""Lower bounds on the privacy loss from many fits on two neighbouring tables.

**Bounds.** Scores `a` and `b` of outputs on two neighbouring tables are one number a run; runs are
independent. Every bound is exact for any distribution: no normal approximation.

* Two Clopper-Pearson intervals bound an event's two probabilities, and epsilon and mu with them.
  The event is chosen on the first runs and tried on the others, so no run counts twice.
* P[a > b] + P[a = b] / 2 is the area under the curve of power over level. Under mu-GDP it is at
  most Phi(mu / sqrt(2)): the power at level x is at most Phi(Phi^-1(x) + mu), and the integral of
  this over x is P[N(mu, 1) > N(0, 1)]. Pairs (a_i, b_i) are independent, so one Clopper-Pearson
  interval for one probability is enough, and nothing is chosen: it tells small mu apart with half
  of the runs that an event needs.

**Outputs as numbers.** Unknown types are refused: an audit would pass because it sees nothing of
them. Every number comes with two side channels of floats: how many of its lowest bits are zero, and
whether it is a value that one of the tables gives often. Both have given other libraries'
noise away.

References
----------
Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning", section 4
(lower bounds on epsilon by Clopper-Pearson intervals).

Dong, Roth & Su 2022, "Gaussian differential privacy", Definition 2.1 (trade-off curves).

Hoeffding 1956, "On the distribution of the number of successes in independent trials".

Mironov 2012, "On significance of the least significant bits for differential privacy".

Bichsel, Steffen, Bogunovic & Vechev 2021, "DP-Sniper" (events by a classifier).
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import inspect
import math
import numbers
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdp._config import config_context
from skdp._docstrings import shared_texts
from skdp.base import PrivateMixin
from skdp.base.context import allowed_delta
from skdp.budget import Cost, PrivacyBudget, gdp_mu
from skdp.budget.budget import StandInBudget
from skdp.loss.conversions import smallest
from skdp.parameters import FRACTION, check_integer, check_parameter, columns_of


@dataclass(frozen=True)
class AuditResult:
    """Lower bounds on the privacy loss, proved by many fits on two neighbouring tables.

    Attributes
    ----------
    epsilon_lower : float
        No (epsilon, delta) guarantee with this delta and a smaller epsilon is true.
    mu_lower : float
        No mu-GDP guarantee with a smaller mu is true.
    epsilon, delta : float
        The claim.
    mu : float or None
        The claimed mu, if noise is Gaussian.
    confidence : float
        Probability, over the noise of the fits, that both lower bounds hold.
    n_runs : int
        Fits on each table.
    """

    epsilon_lower: float
    mu_lower: float
    epsilon: float
    delta: float
    mu: float | None
    confidence: float
    n_runs: int

    @property
    def refuted(self) -> bool:
        """Whether the claim is proved wrong: a lower bound exceeds it."""
        gaussian = self.mu is not None and self.mu_lower > self.mu
        return self.epsilon_lower > self.epsilon or gaussian

    @property
    def passed(self) -> bool:
        """Whether the audit saw a loss (a lower bound above 0) and none above the claim.

        Lower bounds of 0 say that nothing was tested: neither `passed` nor `refuted`.
        """
        return max(self.epsilon_lower, self.mu_lower) > 0 and not self.refuted

    @property
    def smallest_violation(self) -> float:
        """The smallest loss that as many runs could have caught; infinity if none.

        In mu if a mu is claimed, else in epsilon. About half of such audits refute the claim if the
        mechanism loses this much and is the easiest one to catch: randomized response, or one
        number with Gaussian noise. Others are caught less often.
        """
        alpha, n = 1.0 - self.confidence, self.n_runs
        if self.mu is None:
            return smallest_caught(self.epsilon, self.delta, n - n // CHOOSING, 0.75 * alpha)
        return smallest_caught(self.mu, None, n, 0.65 * 0.9 * alpha)


Floats = NDArray[np.float64]
Bound = Callable[[Floats, Floats], Floats]

CHOOSING = 4  # one run in so many chooses the event; the bound is as sharp as the others are many


def bounds_of(
    a: Floats, b: Floats, *, delta: float, gaussian: bool, confidence: float, learned: bool
) -> tuple[float, float]:
    """Return lower bounds on epsilon and mu that hold together, from scores of many runs.

    Where the claim is one of mu (`gaussian`), nearly all of the error goes to the bound on mu, most
    of that to pairs. If the score was `learned` on the runs that choose, pairs leave these out.
    """
    alpha, n = 1.0 - confidence, a.size // CHOOSING
    of_epsilon = 0.1 * alpha if gaussian else 0.75 * alpha
    of_mu = alpha - of_epsilon
    epsilon = held_out_bound(a, b, lambda p, q: epsilon_bound(p, q, delta), of_epsilon, n)
    skip = n if learned else 0
    mu = max(
        held_out_bound(a, b, mu_bound, 0.35 * of_mu, n),
        auc_mu_bound(a[skip:], b[skip:], 0.65 * of_mu),
    )
    return epsilon, mu


def _as_scores(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Project vector statistics on Fisher's discriminant of the tables in the first runs.

    Each coordinate is clipped to the range of its middle values, because noise with heavy tails
    would decide the line otherwise.
    """
    if a.shape[1] == 1:
        return a[:, 0], b[:, 0]
    n = len(a) // CHOOSING
    first_a, first_b = a[:n], b[:n]
    low, high = np.quantile(np.concatenate([first_a, first_b]), [0.02, 0.98], axis=0)
    first_a, first_b = np.clip(first_a, low, high), np.clip(first_b, low, high)
    # In units of each coordinate's spread, which may differ by any factor.
    spread = np.concatenate([first_a, first_b]).std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    within = np.cov(first_a / unit, rowvar=False) + np.cov(first_b / unit, rowvar=False)
    gap = (first_a.mean(axis=0) - first_b.mean(axis=0)) / unit
    # The ridge is for coordinates that are constant or linear in each other.
    line = np.linalg.solve(within + 1e-6 * np.eye(len(gap)), gap) / unit
    return np.clip(a, low, high) @ line, np.clip(b, low, high) @ line


def _collect(
    subject: Subject,
    X: Any,
    y: Any,
    groups: Any,
    statistic: Callable[[Any], Any],
    n: int,
    seed: int | None,
) -> Floats:
    """Fit n times and return the statistics, shape (n, dimensions)."""
    values = []
    estimator = copy.copy(subject.estimator)
    names = [k for k in estimator.get_params() if k.rpartition("__")[2] == "random_state"]
    for run in range(n):
        if seed is not None:
            estimator.set_params(**dict.fromkeys(names, seed + run))
        fit(estimator, X, y, groups)
        values.append(np.asarray(statistic(estimator), dtype=np.float64).ravel())
    statistics = np.array(values)
    if statistics.ndim != 2 or np.isnan(statistics).any():
        raise ValueError("statistic must return as many numbers for every fit, and no NaN")
    return statistics


@shared_texts
def audit(
    estimator: Any,
    X: ArrayLike,
    X_neighbour: ArrayLike,
    statistic: str | Callable[[Any], ArrayLike],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    y: Any = None,
    y_neighbour: Any = None,
    groups: Any = None,
    groups_neighbour: Any = None,
    n_runs: int = 4000,
    confidence: float = 0.999,
    random_state: int | None = None,
) -> AuditResult:
    """Bound the privacy loss of an estimator from below, using its outputs on two neighbours.

    The estimator is fitted `n_runs` times on each table. The first quarter of the runs chooses an
    event: the statistic is at or above a threshold, or below it. The other runs bound its
    probabilities p and q on the two tables by Clopper-Pearson intervals. ``p <= exp(epsilon) q +
    delta`` then bounds epsilon, whatever the estimator does inside, and ``Phi^-1(p) - Phi^-1(q) <=
    mu`` bounds mu under mu-GDP. A second bound on mu comes from pairs of runs: the statistic is
    larger on the one table with probability at most ``Phi(mu / sqrt(2))``.

    Parameters
    ----------
    estimator : estimator
        It is not changed, and its budget, if any, is not charged.
    X, X_neighbour : array-like of shape (n_samples, n_features)
        Neighbouring tables, preferably a worst case: few rows, extreme values.
    statistic : str or callable
        Name of a fitted attribute, or a function of the fitted estimator. Several numbers are
        projected on the line that tells the tables apart best in the first quarter of the runs.
    epsilon, delta : float, default=None
        The claim to test. None: the claim of the estimator.
    y, y_neighbour : array-like, default=None
        Passed to `fit` if given.
    groups, groups_neighbour : array-like, default=None
        Passed to `fit` if given. The tables then differ in all rows of one unit.
    n_runs : int, default=4000
        Fits on each table, at least 20.
    confidence : float, default=0.999
        In (0, 1): probability that the lower bounds hold. A correct estimator fails with
        probability at most ``1 - confidence``.
    random_state : int or None, default=None
        None: noise comes from the operating system. An int seeds every run differently, so that an
        audit of skdp's estimators can be repeated.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    **Privacy.** Thousands of fits on the same rows are not private: use made-up rows. A small lower
    bound proves nothing; a large one disproves the claim.

    The table shows the easiest case: a variant that releases one number with two thirds of the
    noise of its claim. It is caught at confidence 0.999 in these shares of 200 simulated audits:

    =========================== =========
    claim                       4000 runs
    =========================== =========
    epsilon = 0.1                      0%
    epsilon = 0.3                     43%
    epsilon = 1                       99%
    epsilon = 2.5                    100%
    Gaussian, (0.5, 1e-6)             14%
    Gaussian, (1, 1e-6)               80%
    Gaussian, (3, 1e-6)              100%
    =========================== =========

    With several releases, or a pair of tables that is not the worst case, it is caught less often.
    So audit at epsilon >= 1 if the same code makes the noise at every epsilon, with more runs than
    the default if you can. An audit at epsilon = 0.1 seldom sees anything, and then does not pass.
    `AuditResult.smallest_violation` says what as many runs could have caught at all.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.audit import audit
    >>> from skdp.preprocessing import DPStandardScaler
    >>> X, X_neighbour = np.array([[1.0]]), np.array([[-1.0]])
    >>> scaler = DPStandardScaler(bounds=(-1, 1), epsilon=3.0)
    >>> audit(scaler, X, X_neighbour, "mean_", n_runs=500, random_state=0).passed
    True
    >>> audit(scaler, X, X_neighbour, "mean_", epsilon=1.0, n_runs=500, random_state=0).refuted
    True
    """
    n = check_integer(n_runs, "n_runs", low=20)
    check_parameter(confidence, "confidence", FRACTION)
    subject = subject_of(estimator, seed=random_state, only_unset=False)
    claim = _claim(subject.estimator, X, epsilon, delta)
    measured = attrgetter(statistic) if isinstance(statistic, str) else statistic
    seed = None if random_state is None else int(random_state)
    other_seed = None if seed is None else seed + n  # the two samples must be independent
    with config_context(noise="seeded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = _collect(subject, X, y, groups, measured, n, seed)
        second = _collect(
            subject, X_neighbour, y_neighbour, groups_neighbour, measured, n, other_seed
        )
    if first.shape[1] != second.shape[1]:
        raise ValueError("statistic must return as many numbers for every fit, and no NaN")
    a, b = _as_scores(first, second)
    epsilon_lower, mu_lower = bounds_of(
        a,
        b,
        delta=claim.delta,
        gaussian=claim.mu is not None,
        confidence=confidence,
        learned=first.shape[1] > 1,
    )
    return AuditResult(
        epsilon_lower, mu_lower, claim.epsilon, claim.delta, claim.mu, float(confidence), n
    )


def _claim(estimator: Any, X: Any, epsilon: float | None, delta: float | None) -> Cost:
    """Return the claim under test; mu follows from (epsilon, delta) where noise is Gaussian."""
    own = None
    if hasattr(estimator, "privacy_cost"):
        # The number of columns decides whether noise is pure.
        known = "n_features" in inspect.signature(estimator.privacy_cost).parameters
        width = columns_of(X) if known else None
        own = estimator.privacy_cost(**({} if width is None else {"n_features": width}))
    if own is None:
        if epsilon is None:
            raise ValueError("epsilon must be given: the estimator states no cost")
        return Cost(epsilon, delta or 0.0)
    if epsilon is None and delta is None:
        return own
    claimed_epsilon = own.epsilon if epsilon is None else epsilon
    claimed_delta = own.delta if delta is None else delta
    gaussian = claimed_delta > 0 and own.mu is not None
    mu = gdp_mu(claimed_epsilon, claimed_delta) if gaussian else None
    return Cost(claimed_epsilon, claimed_delta, mu=mu)


# --- an estimator that charges no ledger ----------------------------------------------------------


_stand_in = cache(StandInBudget)  # one for each relation, unit and accountant


class Subject(NamedTuple):
    """An unfitted clone with a stand-in for its budget, if it has one."""

    estimator: Any
    budget: StandInBudget | None
    adjacency: str


def subject_of(estimator: Any, *, seed: int | None, only_unset: bool = True) -> Subject:
    """Clone an estimator, take its budget away, and set every random_state to `seed`.

    With `only_unset`, random states that are already set stay.
    """
    subject = clone(estimator)
    budget: StandInBudget | None = None
    relations: set[str] = set()
    changes: dict[str, Any] = {}
    parameters = subject.get_params(deep=True)
    for name, part in {"": subject, **parameters}.items():
        # The stand-in has no delta of which a fit could take a hundredth.
        if isinstance(part, PrivateMixin) and getattr(part, "delta", 0.0) is None:
            changes[f"{name}__delta".removeprefix("__")] = allowed_delta(part)
    for name, value in parameters.items():
        last = name.rpartition("__")[2]
        if isinstance(value, PrivacyBudget):
            relations.add(value.adjacency)
            # All steps share one stand-in, which then sees all charges together.
            if budget is None:
                budget = _stand_in(value.adjacency, value.unit, accountant=value.accountant)
            changes[name] = budget
        elif last == "budget" and value is None:
            relations.add("replace_one")
        elif last == "random_state" and (value is None or not only_unset):
            changes[name] = seed
    subject.set_params(**changes)
    if len(relations) > 1:
        raise ValueError("estimator must have one neighbouring relation in all of its steps")
    return Subject(subject, budget, relations.pop() if relations else "replace_one")


def fit(estimator: Any, X: Any, y: Any, groups: Any) -> None:
    """Fit an estimator; `groups` go to each private step of a pipeline."""
    options = {}
    if groups is not None and isinstance(estimator, Pipeline):
        private = [name for name, step in estimator.steps if hasattr(step, "epsilon")]
        options = {f"{name}__groups": groups for name in private}
    elif groups is not None:
        options = {"groups": groups}
    estimator.fit(X, *(() if y is None else (y,)), **options)


def fitted_clone(
    subject: Subject, X: Any, y: Any, groups: Any = None
) -> tuple[Any, list[str], list[Any]]:
    """Fit a clone; return it, the texts of its warnings, and the charges to its budget."""
    estimator, budget = clone(subject.estimator), subject.budget
    if budget is not None:
        budget.asked.clear()
    allowed = config_context(noise="seeded", uncounted_fits="allow")
    with allowed, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(estimator, X, y, groups)
    texts = [f"{w.category.__name__}: {w.message}" for w in caught]
    return estimator, texts, [] if budget is None else list(budget.asked)


# --- bounds from frequencies of events ------------------------------------------------------------


_N_THRESHOLDS = 400  # of each audit, to choose from
_MORE_RUNS = 1.5  # as many runs as chose an event are imagined to try it


def lower(hits: Floats, n: float, alpha: float) -> Floats:
    """Return Clopper-Pearson lower bounds on a probability, one-sided, that fail with alpha."""
    some = np.maximum(hits, 1e-3)
    return np.where(hits > 0, special.betaincinv(some, n - some + 1, alpha), 0.0)


def upper(hits: Floats, n: float, alpha: float) -> Floats:
    """Return Clopper-Pearson upper bounds, one-sided."""
    return 1.0 - lower(n - hits, n, alpha)


def epsilon_bound(p: Floats, q: Floats, delta: float) -> Floats:
    """Return the epsilon that p <= exp(epsilon) q + delta needs."""
    with np.errstate(divide="ignore"):
        return np.where(p > delta, np.log(np.maximum(p - delta, 0.0)) - np.log(q), -np.inf)


def mu_bound(p: Floats, q: Floats) -> Floats:
    """Return the mu of the curve of Gaussian trade-offs through false q, true p."""
    with np.errstate(invalid="ignore"):
        gap = special.ndtri(p) - special.ndtri(q)
    return np.where(np.isfinite(gap), gap, -np.inf)


class Event(NamedTuple):
    """An event: the score is at or above a threshold, or below; `swapped` if likelier on b."""

    threshold: float
    below: bool
    swapped: bool


def event_bounds(
    likelier: Floats,
    other: Floats,
    thresholds: Floats,
    below: bool,
    alpha: float,
    times: float = 1.0,
) -> tuple[Floats, Floats]:
    """Return a lower bound on an event's probability, and an upper one on the other table.

    The bounds of `times` as many runs with these frequencies.
    """
    counts, size = [], likelier.size * times
    for scores in (likelier, other):
        hits = np.searchsorted(np.sort(scores), thresholds, side="left")
        counts.append(np.asarray(hits if below else scores.size - hits, dtype=np.float64) * times)
    return lower(counts[0], size, alpha / 2), upper(counts[1], size, alpha / 2)


def choose_event(a: Floats, b: Floats, bound: Bound, alpha: float) -> Event:
    """Return the threshold event that proves most in these runs.

    The best of many is too good to be true. That it has to hold at `alpha` in hardly more runs than
    these, while it is tried on three times as many, keeps it from being a rare event that was
    frequent here.
    """
    thresholds = np.unique(np.concatenate([a, b]))
    if thresholds.size > _N_THRESHOLDS:
        thresholds = thresholds[np.linspace(0, thresholds.size - 1, _N_THRESHOLDS).astype(int)]
    best, chosen = -np.inf, Event(float(thresholds[0]), False, False)
    for swapped, (first, second) in enumerate(((a, b), (b, a))):
        for below in (False, True):
            values = bound(*event_bounds(first, second, thresholds, below, alpha, _MORE_RUNS))
            at = int(np.argmax(values))
            if values[at] > best:
                best = float(values[at])
                chosen = Event(float(thresholds[at]), below, bool(swapped))
    return chosen


def held_out_bound(a: Floats, b: Floats, bound: Bound, alpha: float, n_choose: int) -> float:
    """Choose the best threshold event on the first runs of each sample, bound it on the others."""
    event = choose_event(a[:n_choose], b[:n_choose], bound, alpha)
    first, second = (b, a) if event.swapped else (a, b)
    pair = event_bounds(
        first[n_choose:], second[n_choose:], np.array([event.threshold]), event.below, alpha
    )
    return max(0.0, float(bound(*pair)[0]))


def smallest_caught(claim: float, delta: float | None, n: int, alpha: float) -> float:
    """Return the smallest loss for which n runs refute a claim in about half of all audits.

    A claim of mu has no delta: then the loss is in mu, and is bounded by pairs.
    """

    def proved(loss: float) -> float:
        if delta is None:
            p = lower(np.array([n * special.ndtr(loss / np.sqrt(2.0))]), n, alpha / 2)
            return float(np.sqrt(2.0) * special.ndtri(p[0]))
        p, q = (1 - delta) * special.expit(loss) + delta, (1 - delta) * special.expit(-loss)
        hits = n * np.array([p, q])
        return float(
            epsilon_bound(lower(hits[:1], n, alpha / 2), upper(hits[1:], n, alpha / 2), delta)[0]
        )

    most = 100.0  # beyond it outputs tell the tables apart in every run
    return smallest(lambda x: proved(x) > claim, claim) if proved(most) > claim else math.inf


def auc_mu_bound(a: Floats, b: Floats, alpha: float) -> float:
    """Return a lower bound on mu from all pairs (a_i, b_i), whichever of the two is larger.

    Ties count in every second pair: then the hits of an even number of pairs are independent, of
    mean P[a > b] + P[a = b] / 2 on average, and their upper tail is at most the binomial one of
    that mean (Hoeffding 1956, Theorem 4).
    """
    n = int(a.size) // 2 * 2
    a, b = a[:n], b[:n]
    ties = a == b
    best = 0.0
    for won, counted in ((a > b, ties[::2]), (a < b, ties[1::2])):
        hits = np.array([float(won.sum() + counted.sum())])
        p = float(lower(hits, n, alpha / 2)[0]) if n else 0.0
        if p > 0.5:
            best = max(best, float(np.sqrt(2.0) * special.ndtri(p)))
    return best


# --- outputs as numbers ---------------------------------------------------------------------------

_FREQUENT = 24  # values with a column of their own, over all places of the output
_PLACES = 64  # numbers of an output that are looked at one by one
_HUGE = 1e300
_REST = "the rest"
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def numbers_of(output: Any) -> dict[str, float | str]:
    """Return the numbers and texts of an output by their place in it.

    Those after the first 64 are summarised: their number, least, largest, sum, and a text that is
    equal where all of them are. An object that cannot be read raises TypeError.
    """
    cells = dict(_cells(output, ""))
    if len(cells) <= _PLACES:
        return cells
    summary = dict(list(cells.items())[:_PLACES])
    rest = list(cells.values())[_PLACES:]
    values = [value for value in rest if isinstance(value, float)]
    summary[f"{_REST}.number"] = float(len(rest))
    summary[f"{_REST}.text"] = str(hash(tuple(rest)))  # of this process alone
    if values:
        summary[f"{_REST}.least"], summary[f"{_REST}.largest"] = min(values), max(values)
        summary[f"{_REST}.sum"] = float(np.clip(np.sum(values), -_HUGE, _HUGE))
    return summary


def warn_of_long(outputs: Iterable[Mapping[str, Any]]) -> None:
    """Warn where numbers of an output are not looked at one by one."""
    if any(f"{_REST}.number" in output for output in outputs):
        warnings.warn(
            f"outputs have more than {_PLACES} numbers: of the numbers beyond these, only "
            "equality, sum and extremes are used. Let the mechanism return the most informative "
            "numbers.",
            UserWarning,
            stacklevel=3,
        )


def _cells(value: Any, place: str) -> Iterator[tuple[str, float | str]]:
    """Yield the numbers and texts of a value with their places."""
    if isinstance(value, str | bytes | bytearray) or value is None:
        yield place, repr(value)
    elif isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        yield from _cells(value.real, f"{place}.real")
        yield from _cells(value.imag, f"{place}.imag")
    elif isinstance(value, bool | np.bool_ | numbers.Number | Decimal):
        number: Any = value
        yield place, "nan" if number != number else float(min(max(number, -_HUGE), _HUGE))
    elif isinstance(value, _TIMES):
        yield place, repr(value)
    elif isinstance(value, np.ndarray) and value.shape == ():
        yield from _cells(value.item(), place)
    elif isinstance(value, np.ndarray):
        yield from _items(value.ravel(), value.shape, place)
    elif isinstance(value, Sequence) and not dataclasses.is_dataclass(value):
        yield from _items(value, (len(value),), place)
    elif (pieces := _pieces(value)) is not None:
        for key, piece in pieces.items():
            yield from _cells(piece, f"{place}.{key}")
    elif isinstance(value, set | frozenset):
        yield from _cells(sorted(value, key=repr), place)
    elif hasattr(value, "toarray"):  # a sparse matrix
        yield from _cells(value.toarray(), place)
    elif hasattr(value, "__array__"):
        yield from _cells(np.asarray(value), place)
    else:
        raise TypeError(
            f"an output holds a {type(value).__name__} at {place or 'its top'}, which the audit "
            "cannot read. Return its numbers, arrays or text instead."
        )


def _items(items: Any, shape: tuple[int, ...], place: str) -> Iterator[tuple[str, float | str]]:
    yield f"{place}.shape", repr(shape)
    for i, item in enumerate(items):
        yield from _cells(item, f"{place}[{i}]")


def _pieces(value: Any) -> Mapping[Any, Any] | None:
    """Return the named pieces of an object, or None if it has none."""
    if isinstance(value, type):
        return None
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if callable(getattr(value, "get_params", None)) and callable(getattr(value, "fit", None)):
        # By scikit-learn's convention, fit() sets the attributes that end in "_".
        fitted = {key: v for key, v in vars(value).items() if key[-1] == "_" and key[0] != "_"}
        return fitted or None
    return None


def trailing_zeros(values: Floats) -> Floats:
    """Return how many of the 52 bits after the leading one of each float are zeros at the end."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    mantissa = bits & np.uint64((1 << 52) - 1)
    lowest = mantissa & (~mantissa + np.uint64(1))
    with np.errstate(divide="ignore"):
        return np.where(mantissa == 0, 52.0, np.log2(np.maximum(lowest, 1).astype(np.float64)))


class Features:
    """Columns of numbers for outputs, decided on some outputs and applied to others."""

    def __init__(self, outputs: list[dict[str, float | str]]) -> None:
        self.places = sorted({place for output in outputs for place in output})
        often = Counter((place, value) for output in outputs for place, value in output.items())
        # A value of all outputs, or of hardly any, tells nothing.
        frequent = [key for key, times in often.most_common() if 2 < times < len(outputs)]
        self.frequent = frequent[:_FREQUENT]

    def __call__(self, outputs: list[dict[str, float | str]]) -> Floats:
        """Return columns: values, low bits, presence, and whether it is a frequent value."""
        columns: list[Floats] = []
        for place in self.places:
            cells = [output.get(place) for output in outputs]
            is_number = np.array([isinstance(cell, float) for cell in cells])
            values = np.array([cell if isinstance(cell, float) else 0.0 for cell in cells])
            columns += [values, trailing_zeros(values), is_number.astype(np.float64)]
        for place, value in self.frequent:
            columns.append(
                np.array([output.get(place) == value for output in outputs], dtype=np.float64)
            )
        return np.column_stack(columns) if columns else np.zeros((len(outputs), 1))


def learned_score(first: list[dict[str, float | str]], second: list[dict[str, float | str]]) -> Any:
    """Learn from two samples a function of outputs that is larger on the first table.

    Log odds of boosted trees over all columns, and the columns themselves: whichever has the
    largest area under its curve in a part of the samples that the trees did not see.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    features = Features(first + second)
    rows = np.vstack([features(first), features(second)])
    target = np.repeat([1, 0], [len(first), len(second)])
    seen = np.arange(len(rows)) % 3 > 0  # every third one judges
    trees = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=8, min_samples_leaf=20, early_stopping=False, random_state=0
    ).fit(rows[seen], target[seen])

    judged = rows[~seen]
    areas = [roc_auc_score(target[~seen], column) for column in judged.T]
    best = int(np.argmax(np.abs(np.array(areas) - 0.5)))
    sign = 1.0 if areas[best] >= 0.5 else -1.0
    trees_area = roc_auc_score(target[~seen], trees.decision_function(judged))
    # A single column has less to be wrong about: trees have to be clearly better.
    if trees_area > 0.5 + 1.05 * abs(areas[best] - 0.5):
        return lambda outputs: np.asarray(trees.decision_function(features(outputs)))
    return lambda outputs: sign * features(outputs)[:, best]
