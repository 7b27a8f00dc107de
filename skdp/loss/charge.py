"""Prices and lines of a ledger: PrivacyLoss, Cost, Charge, ReservationRecord.

A price is known before the data is touched; a charge repeats it with the names of the releases.
"""

from __future__ import annotations

import datetime
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from skdp._version import __version__
from skdp.loss.conversions import (
    attacker_sentence,
    check_delta,
    check_positive,
    exact,
    loss_text,
    round_up,
)


@dataclass(frozen=True)
class PrivacyLoss:
    """An (epsilon, delta) guarantee.

    Parameters
    ----------
    epsilon : float
        The bound on the log-likelihood ratio, in nats.
    delta : float
        The probability mass outside that bound.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Cost:
    """The price of one fit, or the exact sum of the prices of several.

    Parameters
    ----------
    epsilon : float
        Epsilon of the fit's (epsilon, delta) claim; finite, above 0.
    delta : float
        Delta of the claim, in [0, 1). Zero means pure epsilon-DP.
    mu : float or None, default=None
        If given, the whole fit but `separate_delta` is mu-GDP: its noise is Gaussian, which needs
        `delta` above 0. The claim ``(epsilon, delta - separate_delta)`` must follow from `mu`; this
        is not checked here.
    separate_delta : float, default=0.0
        The part of `delta` that pays for non-Gaussian releases; in [0, delta].

    Attributes
    ----------
    components : tuple of (Cost, int)
        The single prices in the sum, and how often each occurs.

    Notes
    -----
    ``a + b``, ``n * a`` and ``sum([a, b, c])`` add prices. A sum keeps its components, which each
    accountant composes in its own way. Its `epsilon`, `delta` and `separate_delta` are exact
    decimal sums, rounded up.

    Examples
    --------
    >>> from skdp.budget import Cost
    >>> search = 15 * Cost(0.1, 0.0) + Cost(0.5, 1e-6, mu=0.15)
    >>> search.epsilon, search.delta
    (2.0, 1e-06)
    >>> search.mechanism
    'mixed'
    """

    epsilon: float
    delta: float = 0.0
    mu: float | None = None
    separate_delta: float = 0.0
    _terms: tuple[tuple[Cost, int], ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the dataclass is frozen
        set_(self, "epsilon", check_positive(self.epsilon, "epsilon"))
        set_(self, "delta", check_delta(self.delta))
        set_(self, "separate_delta", check_delta(self.separate_delta, "separate_delta"))
        if self.separate_delta > self.delta:
            raise ValueError("separate_delta must be at most delta.")
        if self.mu is not None:
            set_(self, "mu", check_positive(self.mu, "mu"))
            if self.delta == 0:
                raise ValueError("delta must be above 0 where mu is given (Gaussian noise).")

    @property
    def components(self) -> tuple[tuple[Cost, int], ...]:
        """The single prices in this one, each with how often it occurs."""
        return self._terms or ((self, 1),)

    @property
    def mechanism(self) -> str:
        """One of "pure", "gaussian", "approximate" (an (epsilon, delta) claim only), "mixed"."""
        kinds = {_kind(single) for single, _ in self.components}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    def _repr_html_(self) -> str:
        """Return the price and what it means, for notebooks."""
        meaning = attacker_sentence(self.epsilon, self.delta, "")
        return f"<div>Cost: {loss_text(self)}. {meaning}</div>"

    def __add__(self, other: object) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return total(((self, 1), (other, 1)))

    def __radd__(self, other: object) -> Cost:
        return self if other == 0 else NotImplemented  # sum() starts with 0

    def __mul__(self, times: object) -> Cost:
        if isinstance(times, bool) or not isinstance(times, numbers.Integral):
            return NotImplemented
        if times < 1:
            raise ValueError("A Cost can be multiplied by a whole number >= 1 only.")
        return total(((self, int(times)),))

    __rmul__ = __mul__


def _kind(cost: Cost) -> str:
    if cost.delta == 0:
        return "pure"
    return "approximate" if cost.mu is None else "gaussian"


def non_gaussian_delta(cost: Cost) -> float:
    """Return the part of delta that pays for what is not Gaussian."""
    # An (epsilon, delta) claim without mu is epsilon-DP but for an event of probability delta.
    return cost.delta if cost.mu is None else cost.separate_delta


def total(parts: Iterable[tuple[Cost, int]]) -> Cost:
    """Return the sum of prices, each with how often it occurs, whatever their order."""
    terms: Counter[Cost] = Counter()
    for cost, times in parts:
        for single, n in cost.components:
            terms[single] += n * times
    if terms.total() == 1:
        return next(iter(terms))
    ordered = sorted(terms.items(), key=lambda term: repr(term[0]))
    sums = {  # rounded up: never less than the exact sum
        name: round_up(sum((n * exact(getattr(c, name)) for c, n in ordered), Fraction(0)))
        for name in ("epsilon", "delta", "separate_delta")
    }
    price = object.__new__(Cost)  # its terms were checked one by one; their delta may exceed 1
    for name, value in {**sums, "mu": None, "_terms": tuple(ordered)}.items():
        object.__setattr__(price, name, value)  # the dataclass is frozen
    return price


def check_plan(cost: object) -> Cost:
    """Return the sum of a list of prices, or one price, or raise."""
    if isinstance(cost, list | tuple) and cost:
        return total((check_cost(price), 1) for price in cost)
    return check_cost(cost)


def check_cost(cost: object) -> Cost:
    """Return a price, or raise."""
    if not isinstance(cost, Cost):
        raise TypeError(
            f"cost must be a skdp.budget.Cost; got {type(cost).__name__}. Write "
            "Cost(epsilon=0.5), estimator.privacy_cost() or search_cost(search)."
        )
    return cost


@dataclass(frozen=True)
class Charge:
    """One line of the ledger: what was released, by which estimator and process, when.

    Parameters
    ----------
    number : int
        Its place in the ledger, from 1.
    when : datetime.datetime
        Time of the charge, in UTC.
    estimator : str
        The name of the class that was fitted.
    epsilon, delta : float
        The (epsilon, delta) claim that was charged.
    mechanism : str
        "pure", "gaussian", "approximate" or "mixed"; see :class:`Cost`.
    mu : float or None
        The mu of Gaussian DP, if the whole charge is Gaussian.
    adjacency : str
        "replace_one" or "add_or_remove_one".
    seeded : bool
        Whether the noise came from a `random_state`. If so, whoever knows the seed can remove it.
    releases : tuple of dict
        Public facts about each release (name, share, noise); empty until the fit is finished.
    note : str
        Free text.
    pid : int
        The process that charged.
    cost : Cost
        The price, with its components.
    skdp_version : str
        The version of skdp that charged.
    host : str or None
        The host that charged, if the ledger is shared by many hosts.
    """

    number: int
    when: datetime.datetime
    estimator: str
    epsilon: float
    delta: float
    mechanism: str
    mu: float | None
    adjacency: str
    seeded: bool
    releases: tuple[Mapping[str, Any], ...] = field(hash=False)
    note: str
    pid: int
    cost: Cost = field(repr=False)
    skdp_version: str = __version__
    host: str | None = None


@dataclass(frozen=True)
class ReservationRecord:
    """A price set aside by :meth:`PrivacyBudget.reserve`, as the ledger holds it.

    Parameters
    ----------
    when : datetime.datetime
        In UTC.
    epsilon, delta : float
        The claim of the whole price.
    note : str
        For a search: what its price does not cover.
    pid : int
        The process that holds it.
    open : bool
        Whether its unused part is still set aside.
    number : int
        In the ledger.
    host : str or None
        The host of that process, if the ledger is shared by many hosts.
    """

    when: datetime.datetime
    epsilon: float
    delta: float
    note: str
    pid: int
    open: bool
    number: int = 0
    host: str | None = None
