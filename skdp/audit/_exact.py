"""The exact privacy loss of a small discrete mechanism, by following all of its choices.

A mechanism that draws from `EnumeratedChoices` instead of a generator is run once for each sequence
of outcomes, with its exact probability: no confidence, no false alarm.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any

from skdp._docstrings import shared_texts
from skdp.loss.conversions import check_delta


@shared_texts
class EnumeratedChoices:
    """The generator that a mechanism draws from, while all of its outcomes are enumerated.

    It has those methods of a numpy generator that have finitely many outcomes.

    Parameters
    ----------
    path : sequence of int
        Outcomes of the first draws; all later draws have outcome 0.
    """

    def __init__(self, path: Sequence[int]) -> None:
        self._path = list(path)
        self._at = 0
        self.probability = Fraction(1)
        self.widths: list[int] = []

    def choice_of(self, probabilities: Sequence[Fraction | int]) -> int:
        """Draw an index with the given exact probabilities.

        Parameters
        ----------
        probabilities : sequence of Fraction or int
            Weights; they need not add up to one.
        """
        weights = [Fraction(p) for p in probabilities]
        total = sum(weights, start=Fraction(0))
        if total <= 0 or min(weights) < 0:
            raise ValueError("probabilities must be weights of which one is positive")
        chosen = self._path[self._at] if self._at < len(self._path) else 0
        self.widths.append(len(weights))
        self._at += 1
        self.probability *= weights[chosen] / total
        return chosen

    def bernoulli(self, p: Fraction | float) -> bool:
        """Draw a coin: True with probability p, read as an exact fraction.

        Parameters
        ----------
        p : Fraction or float
        """
        return self.choice_of([1 - Fraction(p), Fraction(p)]) == 1

    def integers(self, low: int, high: int | None = None) -> int:
        """Draw a uniform integer, as `numpy.random.Generator.integers` does.

        Parameters
        ----------
        low, high : int
            From low to high - 1; with one argument from 0 to low - 1.
        """
        start, stop = (0, low) if high is None else (low, high)
        return start + self.choice_of([1] * (stop - start))


@shared_texts
def exact_distribution(
    mechanism: Callable[[Any, Any], Hashable], table: Any, *, max_paths: int = 100_000
) -> dict[Hashable, Fraction]:
    """Return the exact probability of every output of a mechanism with finitely many outcomes.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(table, rng) -> output``, hashable. All of its randomness comes from `rng`, an
        `EnumeratedChoices`.
    table : object
    max_paths : int, default=100_000
        The largest number of sequences of outcomes to follow.

    Raises
    ------
    ValueError
        If there are more sequences of outcomes.

    Notes
    -----
    **Privacy.** The probabilities are exact: use made-up rows.

    Examples
    --------
    >>> from skdp.audit import exact_distribution
    >>> def flip(bit, rng):
    ...     return bit ^ rng.bernoulli(0.25)
    >>> {out: str(p) for out, p in exact_distribution(flip, 1).items()}
    {1: '3/4', 0: '1/4'}
    """
    probabilities: dict[Hashable, Fraction] = defaultdict(Fraction)
    path: list[int] = []
    for _ in range(max_paths):
        rng = EnumeratedChoices(path)
        output = mechanism(table, rng)
        if rng.probability:
            probabilities[output] += rng.probability
        path += [0] * (len(rng.widths) - len(path))
        del path[len(rng.widths) :]
        # The next sequence, as an odometer counts: the last draw with an outcome left moves on.
        while path and path[-1] + 1 == rng.widths[len(path) - 1]:
            path.pop()
        if not path:
            return dict(probabilities)
        path[-1] += 1
    raise ValueError(f"mechanism must have at most max_paths = {max_paths} sequences of outcomes")


def exact_epsilon(
    mechanism: Callable[[Any, Any], Hashable],
    table: Any,
    neighbour: Any,
    *,
    delta: float = 0.0,
    max_paths: int = 100_000,
) -> float:
    """Return the smallest epsilon for which a mechanism is (epsilon, delta)-DP on a pair.

    Parameters
    ----------
    mechanism : callable
        As for `exact_distribution`.
    table, neighbour : object
        Neighbouring tables; both directions are checked.
    delta : float, default=0.0
        In [0, 1).
    max_paths : int, default=100_000
        The largest number of sequences of outcomes to follow on each table.

    Returns
    -------
    epsilon : float
        Up to rounding; infinite if no epsilon is enough.

    Raises
    ------
    TypeError, ValueError
        If `delta` is not in [0, 1), or if there are more sequences of outcomes.

    Notes
    -----
    **Privacy.** The number is exact: use made-up rows.

    Examples
    --------
    >>> from skdp.audit import exact_epsilon
    >>> def flip(bit, rng):
    ...     return bit ^ rng.bernoulli(0.25)
    >>> round(exact_epsilon(flip, 0, 1), 6)  # log(3)
    1.098612
    """
    check_delta(delta)
    at = delta if isinstance(delta, Fraction) else Fraction(float(delta))
    p = exact_distribution(mechanism, table, max_paths=max_paths)
    q = exact_distribution(mechanism, neighbour, max_paths=max_paths)
    return max(_one_way(p, q, at), _one_way(q, p, at))


def _one_way(p: dict[Hashable, Fraction], q: dict[Hashable, Fraction], delta: Fraction) -> float:
    """Return the least log(t), t >= 1, with sum of (p - t q)+ at most delta."""
    pairs = [(p[out], q.get(out, Fraction(0))) for out in p]
    # The sum falls in t. Down to the next ratio p / q it is linear: that of the outputs with larger
    # ratios.
    above = sum((a for a, b in pairs if b == 0), start=Fraction(0))
    if above > delta:
        return math.inf
    finite = sorted(((a / b, a, b) for a, b in pairs if b > 0), reverse=True)
    below = Fraction(0)
    for i, (_, a, b) in enumerate(finite):
        above, below = above + a, below + b
        following = finite[i + 1][0] if i + 1 < len(finite) else Fraction(0)
        t = (above - delta) / below
        if t >= following:
            return max(0.0, _log(t)) if t > 0 else 0.0
    return 0.0


def _log(value: Fraction) -> float:
    """Return the logarithm of a positive number, to rounding of the result also near one."""
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    if abs(bits) <= 1:
        return math.log1p(float(value - 1))
    scaled = value / 2**bits if bits > 0 else value * 2**-bits
    return bits * math.log(2) + math.log1p(float(scaled - 1))
