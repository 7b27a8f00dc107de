"""Lower bounds on epsilon, delta and mu for any mechanism, from its outputs alone.

Nothing is released: tables are made up. `black_box_bound` runs a callable many times on two
neighbouring tables; `bound_from_outputs` takes outputs that somebody else collected. The runs are
cut in three: a score that tells the tables apart is learned on the first part (DP-Sniper), the
event that proves most is chosen on the second, and its probabilities are bounded on the third,
which neither has seen. So what is claimed holds with the stated confidence whatever was tried on
the first two.

References
----------
Bichsel, Steffen, Bogunovic & Vechev 2021, "DP-Sniper: black-box discovery of differential privacy
violations using classifiers".

Kong, Munoz Medina & Ribero 2024, "DP-Auditorium" (hockey-stick divergence by held-out tests).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.audit._features import Raised, learned_score, numbers_of, warn_of_long
from skdp.audit._intervals import (
    Bound,
    Floats,
    auc_mu_bound,
    choose_event,
    epsilon_bound,
    mu_bound,
    proved,
)
from skdp.base import check_integer

__all__ = ["LowerBound", "Mechanism", "black_box_bound", "bound_from_outputs", "outputs_of"]

Mechanism = Callable[[Any, np.random.Generator], Any]


@dataclass(frozen=True)
class LowerBound:
    """Lower bounds on the privacy loss of a mechanism, proved by runs on neighbouring tables.

    Attributes
    ----------
    epsilon : float
        No (epsilon, delta) guarantee with this delta and a smaller epsilon is true.
    delta : float
        The delta at which epsilon is stated.
    mu : float
        No mu-GDP guarantee with a smaller mu is true.
    delta_at : float
        No (epsilon_at, delta) guarantee with a smaller delta is true (hockey-stick divergence).
    epsilon_at : float
        The epsilon at which `delta_at` is stated.
    confidence : float
        Probability that all these bounds hold.
    n_runs : int
        Runs on each table, including those for learning and choosing.
    """

    epsilon: float
    delta: float
    mu: float
    delta_at: float
    epsilon_at: float
    confidence: float
    n_runs: int

    def refutes(self, *, epsilon: float | None = None, mu: float | None = None) -> bool:
        """Say whether a claim is proved wrong: (epsilon, delta) with the same delta, or mu.

        Parameters
        ----------
        epsilon, mu : float, default=None
            The claim; None claims nothing.

        Returns
        -------
        refuted : bool
        """
        wrong = epsilon is not None and self.epsilon > epsilon
        if epsilon is not None and epsilon <= self.epsilon_at:  # it would hold there, too
            wrong = wrong or self.delta_at > self.delta
        return bool(wrong or (mu is not None and self.mu > mu))


def outputs_of(
    mechanism: Mechanism, table: Any, n_runs: int, rng: np.random.Generator
) -> list[Any]:
    """Run a mechanism; what it raises is an output, too."""
    found = []
    for _ in range(n_runs):
        try:
            found.append(mechanism(table, rng))
        except Exception as error:  # noqa: BLE001  # an adversary sees whatever is raised
            found.append(Raised(f"{type(error).__name__}: {error}"))
    return found


def bound_from_outputs(
    first: Sequence[Any],
    second: Sequence[Any],
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    confidence: float = 0.999,
) -> LowerBound:
    """Bound the privacy loss from below, using independent outputs on two neighbouring tables.

    Parameters
    ----------
    first, second : sequence
        Equally many outputs of the mechanism on each table, at least 100: numbers, dates, arrays,
        tables, text, None, dataclasses, fitted estimators, or containers of these.
    epsilon : float, default=1.0
        The claimed epsilon, at which the hockey-stick divergence is bounded.
    delta : float, default=0.0
        The claimed delta, at which epsilon is bounded.
    confidence : float, default=0.999
        In (0, 1): probability that all bounds hold.

    Returns
    -------
    bound : LowerBound

    Raises
    ------
    TypeError
        If an output holds an object of another type, because its information would be missed.
    ValueError
        If there are fewer than 100 outputs, or if the two numbers differ.

    Warns
    -----
    UserWarning
        If an output has more than 64 numbers. Of the numbers beyond these, only their equality, sum
        and extremes are used.

    Notes
    -----
    **Privacy.** Nothing is released. A small bound proves nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.audit import bound_from_outputs
    >>> rng = np.random.default_rng(0)
    >>> grid = 2.0**-10  # noise in plain floats would show in their last bits
    >>> first, second = (np.round(rng.laplace(x, 1, 3000) / grid) * grid for x in (0, 1))
    >>> bound = bound_from_outputs(first, second)
    >>> 0.6 < bound.epsilon < 1.0
    True
    """
    n = len(first)
    if n != len(second) or n < 100:
        raise ValueError("first and second must hold as many outputs, at least 100 each")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence!r}")
    a, b = [numbers_of(one) for one in first], [numbers_of(one) for one in second]
    warn_of_long([*a, *b])
    learn, choose = n // 4, n // 2
    score = learned_score(a[:learn], b[:learn])
    chosen_on = score(a[learn:choose]), score(b[learn:choose])
    tried_on = score(a[choose:]), score(b[choose:])
    alpha = (1.0 - confidence) / 4  # three events, and pairs for mu

    def of_epsilon(p: Floats, q: Floats) -> Floats:
        return epsilon_bound(p, q, delta)

    def of_delta(p: Floats, q: Floats) -> Floats:
        return p - np.exp(epsilon) * q

    def held_out(bound: Bound) -> float:
        return proved(*tried_on, choose_event(*chosen_on, bound, alpha)[1], bound, alpha)

    return LowerBound(
        epsilon=held_out(of_epsilon),
        delta=float(delta),
        # Pairs choose nothing: only the score was learned, on other runs.
        mu=max(held_out(mu_bound), auc_mu_bound(score(a[learn:]), score(b[learn:]), alpha)),
        delta_at=held_out(of_delta),
        epsilon_at=float(epsilon),
        confidence=float(confidence),
        n_runs=n,
    )


def black_box_bound(
    mechanism: Mechanism,
    table: Any,
    neighbour: Any,
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    n_runs: int = 10_000,
    confidence: float = 0.999,
    random_state: int | None = None,
) -> LowerBound:
    """Run any mechanism many times on two neighbouring tables, and bound its privacy loss.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(table, rng) -> output``, with outputs as in `bound_from_outputs`. `rng` is a
        numpy generator that the mechanism may use. An exception counts as an output, because its
        occurrence and its text may leak.
    table, neighbour : object
        Neighbouring tables, preferably a worst-case pair. It is not checked that they are
        neighbours.
    epsilon, delta : float
        The claim.
    n_runs : int, default=10_000
        Runs on each table, at least 100.
    confidence : float, default=0.999
        Probability that the bounds hold.
    random_state : int or None, default=None
        Seeds `rng`.

    Returns
    -------
    bound : LowerBound

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    **Privacy.** Thousands of runs on the same rows are not private: use made-up rows.

    Examples
    --------
    A mean whose noise is for a replaced row's half:

    >>> from skdp.audit import black_box_bound
    >>> def mean(table, rng):
    ...     return round(sum(table) / len(table) + rng.laplace(0, 0.5 / len(table)), 3)
    >>> bound = black_box_bound(mean, [0, 0], [0, 1], epsilon=1.0, n_runs=4000, random_state=0)
    >>> bound.refutes(epsilon=1.0)
    True
    """
    n = check_integer(n_runs, "n_runs", low=100)
    rng = np.random.default_rng(random_state)
    first = outputs_of(mechanism, table, n, rng)
    numbers_of(first[0])  # an output that cannot be read is refused half way
    second = outputs_of(mechanism, neighbour, n, rng)
    return bound_from_outputs(first, second, epsilon=epsilon, delta=delta, confidence=confidence)
