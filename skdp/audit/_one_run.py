"""Audits from one run: canaries in the table by independent coins, guessed from the output.

A mechanism is run once on a table that has each of m canaries (or one of two rows in its place) by
a fair coin. An attacker guesses r of the coins from the output. Under a claim, many right guesses
are unlikely; the largest claim that they refute is the lower bound. Canaries that share noise say
less than as many runs would, and a high confidence costs much: the claim itself allows that,
rarely, one event tells of all canaries at once.

Theorem. Let g(x) be the largest power at level x that the claim allows, W the number of right
guesses, p_i = P[W = i], R_j = sum_{i >= j} i p_i / m and H_j = sum_{i >= j} (r - i) p_i / m. Then
R_j <= g(H_{j-1}) for every j >= 1 (Mahloujifar, Melis & Chaudhuri 2024).

Proof. Fix a canary i and all other coins. That i is guessed "in", and that at least j - 1 of the
others are right, is an event of the output, and so is that i is guessed "out" and the same. Each
event's probability when it is right is at most g of that when it is wrong, by the claim for the two
tables that differ in i. g is concave, so this holds for the mean over both events, over the other
coins, and over i. The mean of P[i right, W without i >= j - 1] is R_j: W >= j there; that of P[i
wrong, W without i >= j - 1] is H_{j-1}. QED.

If P[W >= v] is tau, as little total mass as possible is needed with tau at v itself, and below only
what H_{j-1} >= g^-1(R_j) asks for: mass that is moved down adds to no R_j and to later H_j. So the
claim allows tau if and only if `_mass` is at most 1.

References
----------
Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", arXiv 2305.08846,
Theorem 5.2.

Mahloujifar, Melis & Chaudhuri 2024, "Auditing f-differential privacy in one run", arXiv 2410.22235.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from skdp._docstrings import shared_texts
from skdp.loss.conversions import check_delta, largest
from skdp.parameters import FRACTION, check_integer, check_parameter

_LARGEST = 60.0  # epsilon and mu beyond which nothing is claimed


@dataclass(frozen=True)
class OneRunBound:
    """Lower bounds on the privacy loss, proved by correct guesses of canaries in one run.

    Attributes
    ----------
    epsilon, mu : float
        No (epsilon, delta) guarantee with a smaller epsilon is true, and no mu-GDP guarantee with a
        smaller mu.
    delta : float
    n_correct, n_guesses, n_canaries : int
    confidence : float
        Probability that both bounds hold.
    """

    epsilon: float
    mu: float
    delta: float
    n_correct: int
    n_guesses: int
    n_canaries: int
    confidence: float


def _mass(tail: float, v: int, r: int, m: int, inverse: Callable[[float], float]) -> float:
    """Return the least total probability with which P[W >= v] can be `tail`; above 1 it cannot."""
    right, wrong = tail * v / m, tail * (r - v) / m
    total = tail
    for i in range(v - 1, -1, -1):
        # Mass p at i right guesses adds p (r - i) / m to H and p i / m to R.
        needed = max(0.0, inverse(min(right, 1.0)) - wrong)
        wrong += needed
        here = needed * m / (r - i)
        total += here
        right += here * i / m
        if total > 1.0:
            break
    return total


def _steinke(epsilon: float, delta: float, v: int, r: int, m: int) -> float:
    """Return the bound of Theorem 5.2 on P[W >= v]."""
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(stats.binom.sf(v - 1, r, q))
    if delta == 0.0 or v == 0:
        return tail
    below = np.cumsum(stats.binom.pmf(np.arange(v - 1, -1, -1), r, q))
    return tail + 2 * m * delta * float(np.max(below / np.arange(1, v + 1)))


def _largest_refuted(refuted: Callable[[float], bool]) -> float:
    """Return the largest claim that is refuted, or 0."""
    if not refuted(0.0):
        return 0.0
    return largest(lambda claim: claim <= _LARGEST and refuted(claim), 1.0)


@shared_texts
def bound_from_guesses(
    n_correct: int, n_guesses: int, n_canaries: int, *, delta: float = 0.0, confidence: float = 0.95
) -> OneRunBound:
    """Bound the privacy loss from below by the number of canaries guessed correctly in one run.

    Parameters
    ----------
    n_correct, n_guesses, n_canaries : int
        Number of correct guesses, of all guesses (fixed before the run), and of all canaries (each
        included by an independent fair coin).
    delta : float, default=0.0
        The delta at which epsilon is bounded.
    confidence : float, default=0.95
        In (0, 1): probability that both bounds hold.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skdp.audit import bound_from_guesses
    >>> bound = bound_from_guesses(760, 1000, 1000)
    >>> round(bound.epsilon, 2), round(bound.mu, 2)
    (1.01, 0.44)
    """
    m = check_integer(n_canaries, "n_canaries", low=1)
    r = check_integer(n_guesses, "n_guesses", low=1)
    v = check_integer(n_correct, "n_correct", low=0)
    if not v <= r <= m:
        raise ValueError("n_correct must be at most n_guesses, and that at most n_canaries")
    check_parameter(confidence, "confidence", FRACTION)
    check_delta(delta)
    alpha = (1.0 - confidence) / 2

    # `level` is the least level at which the claim allows a power.
    def epsilon_refuted(epsilon: float) -> bool:
        small, large = math.exp(-epsilon), math.exp(epsilon)

        def level(power: float) -> float:
            return max(0.0, (power - delta) * small, 1.0 - delta - large * (1.0 - power))

        return _mass(alpha, v, r, m, level) > 1.0 or _steinke(epsilon, delta, v, r, m) < alpha

    def mu_refuted(mu: float) -> bool:
        def level(power: float) -> float:
            return float(special.ndtr(special.ndtri(power) - mu))

        return _mass(alpha, v, r, m, level) > 1.0

    return OneRunBound(
        epsilon=_largest_refuted(epsilon_refuted),
        mu=_largest_refuted(mu_refuted),
        delta=float(delta),
        n_correct=v,
        n_guesses=r,
        n_canaries=m,
        confidence=float(confidence),
    )


@shared_texts
def one_run_audit(
    mechanism: Callable[[Any, np.random.Generator], Any],
    table_of: Callable[[NDArray[np.bool_]], Any],
    score: Callable[[Any], ArrayLike],
    n_canaries: int,
    *,
    n_guesses: int | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> OneRunBound:
    """Run a mechanism once on a table with canaries, guess which were included, and bound its loss.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(table, rng) -> output``, run once.
    table_of : callable
        ``table_of(included) -> table``. Tables whose `included` differ in one place are neighbours.
    score : callable
        ``score(output)`` returns `n_canaries` numbers, larger for canaries that were likelier
        included.
    n_canaries : int
    n_guesses : int or None, default=None
        Half for the largest scores and half for the smallest. None: all canaries.
    delta : float, default=0.0
        The delta at which epsilon is bounded.
    confidence : float, default=0.95
        Probability that the bounds hold.
    random_state : int or None, default=None
        Seeds the coins and `rng`.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    **Privacy.** The run is not private: use made-up rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.audit import one_run_audit
    >>> def cells(table, rng):
    ...     return table + rng.normal(0, 0.5, size=len(table))  # 2-GDP
    >>> bound = one_run_audit(
    ...     cells, lambda included: included.astype(float), lambda out: out, 2000, random_state=0
    ... )
    >>> 0.5 < bound.mu < 2
    True
    """
    m = check_integer(n_canaries, "n_canaries", low=1)
    r = m if n_guesses is None else check_integer(n_guesses, "n_guesses", low=1)
    if r > m:
        raise ValueError("n_guesses must be at most n_canaries")
    rng = np.random.default_rng(random_state)
    included = rng.integers(2, size=m).astype(bool)
    scores = np.asarray(score(mechanism(table_of(included), rng)), dtype=np.float64).ravel()
    if scores.shape != (m,) or np.isnan(scores).any():
        raise ValueError("score must return a number for each canary, and no NaN")
    order = np.argsort(scores, kind="stable")
    n_out = r // 2
    correct = int((~included[order[:n_out]]).sum() + included[order[m - (r - n_out) :]].sum())
    return bound_from_guesses(correct, r, m, delta=delta, confidence=confidence)
