"""What frequencies of events prove about epsilon and mu, at a stated confidence.

Nothing is released. `a` and `b` are scores of outputs on two neighbouring tables, one number a run;
runs are independent. Every bound is exact for any distribution: no normal approximation.

* Two Clopper-Pearson intervals bound an event's two probabilities, and epsilon and mu with them.
  The event is chosen on the first runs and tried on the others, so nothing is counted twice.
* P[a > b] + P[a = b] / 2 is the area under the curve of power over level. Under mu-GDP it is at
  most Phi(mu / sqrt(2)): the power at level x is at most Phi(Phi^-1(x) + mu), and the integral of
  this over x is P[N(mu, 1) > N(0, 1)]. Pairs (a_i, b_i) are independent, so one Clopper-Pearson
  interval for one probability is enough, and nothing is chosen: it tells small mu apart with half
  of the runs that an event needs.

References
----------
Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning", section 4.

Dong, Roth & Su 2022, "Gaussian differential privacy", Definition 2.1.

Hoeffding 1956, "On the distribution of the number of successes in independent trials".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = [
    "Event",
    "auc_mu_bound",
    "choose_event",
    "epsilon_bound",
    "event_bounds",
    "held_out_bound",
    "lower",
    "mu_bound",
    "proved",
    "upper",
]

Floats = NDArray[np.float64]
Bound = Callable[[Floats, Floats], Floats]

_N_THRESHOLDS = 400  # of each audit, to choose from
_TIMES = 1.5  # as many runs as chose an event are imagined to try it


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
    """An event of a score: at or above a threshold, or below it; on which table it is likelier."""

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
    """Return the lower bound on an event's probability and the upper one on the other table's.

    As they would come out of `times` as many runs in which the event has the frequency of these.
    """
    counts, size = [], likelier.size * times
    for scores in (likelier, other):
        hits = np.searchsorted(np.sort(scores), thresholds, side="left")
        counts.append(np.asarray(hits if below else scores.size - hits, dtype=np.float64) * times)
    return lower(counts[0], size, alpha / 2), upper(counts[1], size, alpha / 2)


def choose_event(a: Floats, b: Floats, bound: Bound, alpha: float) -> tuple[float, Event]:
    """Return the threshold event that proves most in these runs, and what that would be.

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
            values = bound(*event_bounds(first, second, thresholds, below, alpha, _TIMES))
            at = int(np.argmax(values))
            if values[at] > best:
                best = float(values[at])
                chosen = Event(float(thresholds[at]), below, bool(swapped))
    return best, chosen


def proved(a: Floats, b: Floats, event: Event, bound: Bound, alpha: float) -> float:
    """Return what an event that was chosen before these runs proves, at least 0."""
    first, second = (b, a) if event.swapped else (a, b)
    threshold = np.array([event.threshold])
    pair = event_bounds(first, second, threshold, event.below, alpha)
    return max(0.0, float(bound(*pair)[0]))


def held_out_bound(a: Floats, b: Floats, bound: Bound, alpha: float, n_choose: int) -> float:
    """Choose the best threshold event on the first runs of each sample, bound it on the others."""
    _, event = choose_event(a[:n_choose], b[:n_choose], bound, alpha)
    return proved(a[n_choose:], b[n_choose:], event, bound, alpha)


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
