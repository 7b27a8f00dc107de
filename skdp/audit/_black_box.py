"""Lower bounds on epsilon, delta and mu for any mechanism, from its outputs alone.

The runs are cut in three: a score that tells the tables apart is learned on the first part
(DP-Sniper), the event that proves most is chosen on the second, and its probabilities are bounded
on the third, which neither has seen. So a bound holds with the stated confidence whatever was tried
on the first two.

`find_violation` searches neighbouring tables on which a mechanism loses more than it claims. Pairs
are compared with few runs; those that look worst are tried again with fresh runs, at a confidence
that counts how many are tried again. First runs decide nothing, so the confidence holds over the
whole search.

References
----------
Bichsel, Steffen, Bogunovic & Vechev 2021, "DP-Sniper: black-box discovery of differential privacy
violations using classifiers".

Kong, Munoz Medina & Ribero 2024, "DP-Auditorium" (hockey-stick divergence by held-out tests).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._docstrings import shared_texts
from skdp.audit._statistical import (
    Bound,
    auc_mu_bound,
    epsilon_bound,
    held_out_bound,
    learned_score,
    mu_bound,
    numbers_of,
    smallest_caught,
    warn_of_long,
)
from skdp.parameters import FRACTION, check_integer, check_parameter

Mechanism = Callable[[Any, np.random.Generator], Any]


@shared_texts
@dataclass(frozen=True)
class LowerBound:
    """Lower bounds on the privacy loss of a mechanism, proved by runs on neighbouring tables.

    Attributes
    ----------
    epsilon, delta : float
        No (epsilon, delta) guarantee with this delta and a smaller epsilon is true.
    mu : float
        No mu-GDP guarantee with a smaller mu is true.
    delta_at, epsilon_at : float
        No (epsilon_at, delta) guarantee with a delta below delta_at is true (hockey-stick
        divergence).
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
        """
        wrong = epsilon is not None and self.epsilon > epsilon
        if epsilon is not None and epsilon <= self.epsilon_at:  # it would hold there, too
            wrong = wrong or self.delta_at > self.delta
        return bool(wrong or (mu is not None and self.mu > mu))

    @property
    def tested(self) -> bool:
        """Whether the outputs showed any loss: a bound above 0."""
        return max(self.epsilon, self.mu, self.delta_at) > 0

    @property
    def smallest_violation(self) -> float:
        """The smallest epsilon for which as many runs refute `epsilon_at` in half of all audits.

        Infinity if none. It is that of randomized response; others are caught less often.
        """
        return smallest_caught(
            self.epsilon_at, self.delta, self.n_runs - self.n_runs // 2, (1 - self.confidence) / 4
        )


def outputs_of(
    mechanism: Mechanism, table: Any, n_runs: int, rng: np.random.Generator
) -> list[Any]:
    """Run a mechanism; the text of an error is an output, too."""
    outputs = []
    for _ in range(n_runs):
        try:
            outputs.append(mechanism(table, rng))
        except Exception as error:  # noqa: BLE001  # an adversary sees whatever is raised
            outputs.append(f"{type(error).__name__}: {error}")
    return outputs


@shared_texts
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

    Raises
    ------
    TypeError
        If an output holds an object of another type, because its information would be missed.
    ValueError
        If there are fewer than 100 outputs, or if the two numbers differ.

    Warns
    -----
    UserWarning
        If an output has more than 64 numbers: of the others, only equality, sum and extremes count.

    Notes
    -----
    **Privacy.** A small bound proves nothing.

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
    check_parameter(confidence, "confidence", FRACTION)
    a, b = [numbers_of(output) for output in first], [numbers_of(output) for output in second]
    warn_of_long([*a, *b])
    learn, choose = n // 4, n // 2 - n // 4
    score = learned_score(a[:learn], b[:learn])
    first_scores, second_scores = score(a[learn:]), score(b[learn:])
    alpha = (1.0 - confidence) / 4  # three events, and pairs for mu

    def held_out(bound: Bound) -> float:
        return held_out_bound(first_scores, second_scores, bound, alpha, choose)

    return LowerBound(
        epsilon=held_out(lambda p, q: epsilon_bound(p, q, delta)),
        delta=float(delta),
        # Pairs choose nothing: only the score was learned, on other runs.
        mu=max(held_out(mu_bound), auc_mu_bound(first_scores, second_scores, alpha)),
        delta_at=held_out(lambda p, q: p - np.exp(epsilon) * q),
        epsilon_at=float(epsilon),
        confidence=float(confidence),
        n_runs=n,
    )


@shared_texts
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
        numpy generator. An exception counts as an output, because it may leak.
    table, neighbour : object
        Neighbouring tables (not checked), preferably a worst-case pair.
    epsilon, delta : float
        The claim.
    n_runs : int, default=10_000
        Runs on each table, at least 100.
    confidence : float, default=0.999
        Probability that the bounds hold.
    random_state : int or None, default=None
        Seeds `rng`.

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


# --- a search for violations ----------------------------------------------------------------------

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Search:
    """The result of a search.

    Attributes
    ----------
    bound : LowerBound
        The bound for the worst pair that was tried again.
    pair : tuple of two tables
    refuted : bool
        Whether the claim is disproved, at the stated confidence over all pairs.
    n_searched, n_confirmed : int
        Number of pairs that were searched, and of pairs that were tried again.
    """

    bound: LowerBound
    pair: tuple[Any, Any]
    refuted: bool
    n_searched: int
    n_confirmed: int


def structured_pairs(
    n_features: int = 1,
    *,
    low: float = 0.0,
    high: float = 1.0,
    sizes: Sequence[int] = (1, 2, 3, 8),
    adjacency: str = "replace_one",
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield neighbouring tables of numbers that are edge cases for a mechanism.

    All rows alike, all but one, alternating corners, ties, values just inside and far outside of
    the bounds, missing and infinite cells, an empty table where rows may be added.

    Parameters
    ----------
    n_features : int, default=1
    low, high : float, default=0.0, 1.0
        Bounds that are stated to the mechanism.
    sizes : sequence of int, default=(1, 2, 3, 8)
        Numbers of rows of the first table.
    adjacency : {"replace_one", "add_or_remove_one"}, default="replace_one"

    Yields
    ------
    table, neighbour : ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> from skdp.audit import structured_pairs
    >>> table, neighbour = next(structured_pairs(2, sizes=(2,)))
    >>> table.tolist(), neighbour.tolist()
    ([[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]])
    """
    if adjacency not in ("replace_one", "add_or_remove_one"):
        raise ValueError('adjacency must be "replace_one" or "add_or_remove_one"')
    middle, wide = (low + high) / 2, high - low
    moved = [
        (low, high),
        (high, low),
        (middle, high),
        (high, high + 1000 * wide),
        (middle, float("nan")),
        (middle, float("inf")),
        (middle, np.nextafter(middle, high)),
    ]
    for n in sizes:
        corners = np.where(np.arange(n) % 2, high, low)[:, None]
        for background in (np.full((n, 1), low), np.full((n, 1), middle), corners):
            for old, new in moved:
                table = np.repeat(background.astype(np.float64), n_features, axis=1)
                table[-1] = old
                neighbour = table.copy()
                neighbour[-1] = new
                if adjacency == "replace_one":
                    yield table, neighbour
                else:
                    yield neighbour, neighbour[:-1]


def neighbouring_tables(
    row: Any, *, adjacency: str = "replace_one", min_rows: int = 1, max_rows: int = 12
) -> Any:
    """Return a hypothesis strategy for pairs of neighbouring tables (lists of rows).

    Parameters
    ----------
    row : hypothesis strategy
        Of one row.
    adjacency : {"replace_one", "add_or_remove_one"}, default="replace_one"
    min_rows, max_rows : int, default=1, 12
        Of the first table.

    Returns
    -------
    pairs : hypothesis strategy
        A strategy for tuples (table, neighbour); hypothesis must be installed.

    Examples
    --------
    >>> from hypothesis import strategies
    >>> from skdp.audit import neighbouring_tables
    >>> pairs = neighbouring_tables(strategies.floats(0, 1))
    """
    from hypothesis import strategies

    @strategies.composite
    def pairs(draw: Any) -> Pair:
        table = draw(strategies.lists(row, min_size=min_rows, max_size=max_rows))
        at = draw(strategies.integers(0, len(table) - 1))
        others = table[:at] + table[at + 1 :]
        if adjacency == "replace_one":
            return table, [*table[:at], draw(row), *table[at + 1 :]]
        return (table, others) if draw(strategies.booleans()) else (others, table)

    return pairs()


def _looks(mechanism: Mechanism, pair: Pair, n: int, rng: np.random.Generator) -> float:
    """Return how well a few runs tell a pair apart: an estimate that proves nothing."""
    first, second = ([numbers_of(o) for o in outputs_of(mechanism, t, n, rng)] for t in pair)
    half = n // 2
    score = learned_score(first[:half], second[:half])
    a, b = np.sort(score(first[half:])), np.sort(score(second[half:]))
    cuts = np.concatenate([a, b])
    # Smoothed log odds of the best event, either way round.
    p = (a.size - np.searchsorted(a, cuts) + 1.0) / (a.size + 2.0)
    q = (b.size - np.searchsorted(b, cuts) + 1.0) / (b.size + 2.0)
    odds = np.maximum(np.abs(np.log(p / q)), np.abs(np.log1p(-p + 1e-12) - np.log1p(-q + 1e-12)))
    return float(np.max(odds))


def _mutated(pair: Pair, rng: np.random.Generator) -> Pair:
    """Return a pair of numeric tables with one cell moved, in both if the row is common.

    Tables of different lengths must have their common rows first.
    """
    table, neighbour = (np.array(t, dtype=np.float64) for t in pair)
    n = min(len(table), len(neighbour))
    same = len(table) == len(neighbour)
    common = [np.array_equal(table[i], neighbour[i], equal_nan=True) for i in range(n)]
    if not n or not table[0].size or not (same or all(common)):
        return pair
    i = int(rng.integers(n))
    at = (i,) if table.ndim == 1 else (i, int(rng.integers(table.shape[1])))
    moved = table[at] + rng.normal() * 10.0 ** rng.integers(-3, 2)
    table[at] = moved
    if common[i]:
        neighbour[at] = moved
    return table, neighbour


@shared_texts
def find_violation(
    mechanism: Mechanism,
    pairs: Iterable[tuple[Any, Any]],
    *,
    epsilon: float,
    delta: float = 0.0,
    mu: float | None = None,
    n_runs: int = 4000,
    n_looks: int = 200,
    n_confirm: int = 3,
    n_steps: int = 0,
    confidence: float = 0.999,
    random_state: int | None = None,
    worse: Callable[[tuple[Any, Any]], float] | None = None,
) -> Search:
    """Search pairs of neighbouring tables for one on which a claim is false.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(table, rng) -> output``.
    pairs : iterable of tuple
        Such as `structured_pairs`, or examples of a hypothesis strategy.
    epsilon, delta, mu : float
        The claim.
    n_runs : int, default=4000
        Number of fresh runs on each table of a pair that is tried again.
    n_looks : int, default=200
        Number of first runs on each table of every pair.
    n_confirm : int, default=3
        Number of pairs that are tried again.
    n_steps : int, default=0
        Number of steps of a random search from the worst pair, for tables of numbers. Each step
        changes a cell, and keeps the change if the pair looks worse.
    confidence : float, default=0.999
        Probability that a true claim is not refuted, over all pairs.
    random_state : int or None, default=None
        Seeds `rng`.
    worse : callable or None, default=None
        ``worse(pair) -> float``, larger for worse pairs. It replaces the first runs.

    Raises
    ------
    ValueError
        If there are no pairs, or if a parameter is out of range.

    Notes
    -----
    **Privacy.** The runs are not private: use made-up rows.

    Examples
    --------
    A maximum that forgets to clip:

    >>> import numpy as np
    >>> from skdp.audit import find_violation, structured_pairs
    >>> def total(table, rng):
    ...     return float(np.nansum(table)) + rng.laplace(0, 1.0)
    >>> pairs = structured_pairs(low=0, high=1, sizes=(2,))
    >>> find_violation(total, pairs, epsilon=1.0, n_runs=1000, random_state=0).refuted
    True
    """
    n = check_integer(n_runs, "n_runs", low=100)
    looks = check_integer(n_looks, "n_looks", low=40)
    k = check_integer(n_confirm, "n_confirm", low=1)
    steps = check_integer(n_steps, "n_steps", low=0)
    rng = np.random.default_rng(random_state)

    def badness(pair: Pair) -> float:
        return _looks(mechanism, pair, looks, rng) if worse is None else float(worse(pair))

    ranked: list[tuple[float, Pair]] = [(badness(pair), pair) for pair in pairs]
    if not ranked:
        raise ValueError("pairs must have at least one pair of tables")
    best = max(ranked, key=lambda entry: entry[0])
    for _ in range(steps):
        pair = _mutated(best[1], rng)
        ranked.append((badness(pair), pair))
        best = max(best, ranked[-1], key=lambda entry: entry[0])
    ranked.sort(key=lambda entry: -entry[0])
    tried = [pair for _, pair in ranked[:k]]
    per_pair = 1.0 - (1.0 - confidence) / len(tried)
    bounds = []
    for pair in tried:
        first, second = (outputs_of(mechanism, table, n, rng) for table in pair)
        bounds.append(
            bound_from_outputs(first, second, epsilon=epsilon, delta=delta, confidence=per_pair)
        )
    refuted = [bound.refutes(epsilon=epsilon, mu=mu) for bound in bounds]
    at = max(range(len(tried)), key=lambda i: (refuted[i], bounds[i].epsilon))
    return Search(bounds[at], tried[at], refuted[at], len(ranked), len(tried))
