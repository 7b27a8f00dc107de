"""A search for neighbouring tables on which a mechanism loses more than it claims.

Nothing is released: tables are made up. Pairs are looked at with few runs; those that look worst
are tried again with fresh runs, at a confidence that counts how many are tried again. What the
first look saw decides nothing, so the confidence holds over everything that was searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.audit._black_box import LowerBound, Mechanism, bound_from_outputs, outputs_of
from skdp.audit._features import learned_score, numbers_of
from skdp.base import check_integer

__all__ = ["Search", "find_violation", "neighbouring_tables", "structured_pairs"]

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
        rest = table[:at] + table[at + 1 :]
        if adjacency == "replace_one":
            return table, [*table[:at], draw(row), *table[at + 1 :]]
        return (table, rest) if draw(strategies.booleans()) else (rest, table)

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
    """Return a pair near a pair of numeric tables: a cell of a common row, or of the other one.

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
        Pairs of neighbouring tables, such as `structured_pairs` or examples of a hypothesis
        strategy.
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
        changes a cell, and keeps the change if the pair looks worse. No gradient is needed.
    confidence : float, default=0.999
        Probability that a true claim is not refuted, over all pairs.
    random_state : int or None, default=None
    worse : callable or None, default=None
        ``worse(pair) -> float``, larger for worse pairs. It replaces the first runs; for example,
        the distance of recorded statistics.

    Returns
    -------
    found : Search

    Raises
    ------
    ValueError
        If there are no pairs, or if a parameter is out of range.

    Notes
    -----
    **Privacy.** Nothing is released under a guarantee: use made-up rows.

    Examples
    --------
    A maximum that forgets to clip:

    >>> import numpy as np
    >>> from skdp.audit import find_violation, structured_pairs
    >>> def total(table, rng):
    ...     return float(np.nansum(table)) + rng.laplace(0, 1.0)
    >>> pairs = structured_pairs(low=0, high=1, sizes=(2,))
    >>> found = find_violation(total, pairs, epsilon=1.0, n_runs=1000, random_state=0)
    >>> found.refuted
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
        seen = badness(pair), pair
        ranked.append(seen)
        best = max(best, seen, key=lambda entry: entry[0])
    ranked.sort(key=lambda entry: -entry[0])
    tried = [pair for _, pair in ranked[:k]]
    each = 1.0 - (1.0 - confidence) / len(tried)
    bounds = [
        bound_from_outputs(
            outputs_of(mechanism, table, n, rng),
            outputs_of(mechanism, neighbour, n, rng),
            epsilon=epsilon,
            delta=delta,
            confidence=each,
        )
        for table, neighbour in tried
    ]
    refuted = [bound.refutes(epsilon=epsilon, mu=mu) for bound in bounds]
    at = max(range(len(tried)), key=lambda i: (refuted[i], bounds[i].epsilon))
    return Search(bounds[at], tried[at], refuted[at], len(ranked), len(tried))
