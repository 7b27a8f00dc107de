"""Which noise an aggregation draws, and whether a count selects its keys: by public facts alone.

Noise is pure where it is no more than Gaussian noise of the same allowance (`pure_is_less`). Of
stated keys the expected widths of intervals decide, of learned keys the smallest count that shows.
How many keys a unit has decides most. Where that is to be learned, it is released first, by a
session of its own; then it is public, and the main session opens with the better noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from skdp.aggregation import _plan as plan
from skdp.aggregation._intervals import expected_width
from skdp.aggregation._plan import Aggregate, Caps, Shapes
from skdp.base import CallContext
from skdp.budget import exact, gdp_mu
from skdp.core import check_allowance
from skdp.loss.conversions import exact_shares
from skdp.planning import Allowance, pure_is_less
from skdp.queries import counting_law, least_shown

FIRST_PART = Fraction(1, 20)  # of epsilon, for the histograms of units
SMALLEST_EPSILON = 1e-3  # below, the part for the histograms would show nothing
FEW = 8  # if a unit changes at most so many entries, Laplace noise is smaller than Gaussian noise
_FEW_ROWS = 2  # a stated cap on rows, above which few units may reach it
# Weights by which the allowance is shared.
_LEARNED, _SHAPES, _LEFT_OUT, _KEYS, _AGGREGATES = 8, 8, 2, 60, 60
# Of the histograms of found keys, after a session of its own for the first ones: so that keys and
# aggregates have no less than without that session.
_SHAPES_AGAIN = 3
_UNIT_RANGE = (0.0, 1.0)  # stands for bounds that are learned: it does not change the comparison


@dataclass(frozen=True)
class Design:
    """The noise of the main session, and how it finds keys.

    - `counts`: Whether a count may select the keys; False for stated keys.
    - `caps`: Of the count that selects keys, where they are known before the session opens.
    """

    pure: bool
    counts: bool = False
    caps: tuple[int, int] | None = None


_COUNTS = {"count": "rows", "distinct_units": "units"}


def counted_term(aggregate: Aggregate) -> str | None:
    """Return the kind of the term of a count, "rows" or "units"; None for other aggregates."""
    return _COUNTS.get(aggregate.kind)


def counting_term(aggregates: Sequence[Aggregate]) -> str | None:
    """Return the kind of the count that can select keys: "rows", else "units", else None."""
    kinds = {counted_term(aggregate) for aggregate in aggregates} - {None}
    return "rows" if "rows" in kinds else next(iter(kinds), None)


@dataclass(frozen=True)
class Chooser:
    """What is public of a fit before its main session opens.

    - `context`: The call; its epsilon is that of the main session.
    - `delta`: All of it, noise and keys together.
    - `listed`: The stated keys; None: they are learned.
    - `caps`: The stated caps, None for private ones.
    - `bounding`: Whether caps may leave rows out.
    - `method`: The stated method of selecting keys.
    - `second`: Whether another session has released the first histograms of units.
    """

    context: CallContext
    delta: float
    aggregates: list[Aggregate]
    listed: tuple[Any, ...] | None
    caps: Caps
    bounding: bool
    method: str
    second: bool = False

    @property
    def _basic(self) -> bool:
        """Whether pure noise may take the place of Gaussian noise."""
        return self.context.budget is None or self.context.budget.accountant == "basic"

    @cached_property
    def shares(self) -> dict[str, Fraction]:
        """The share of each kind of release: exact fractions, together at most 1.

        ``"counted"`` takes the place of three other shares, where counts select their keys.
        """
        aggregates, listed, private = self.aggregates, self.listed is not None, None in self.caps
        first = private and (aggregates or self.caps[0] is None) and not self.second
        again = _SHAPES_AGAIN if self.second else _SHAPES
        learned = {aggregate.column for aggregate in aggregates if plan.learns(aggregate)}
        # NaN: learned bounds may differ from all stated ones, so their terms are their own.
        bounded = plan.with_bounds(aggregates, dict.fromkeys(learned, (0.0, math.nan)))
        terms = plan.distinct_terms(term for a in bounded for term in plan.terms_of(a))
        n_terms = len(terms) + len({aggregate.chosen for aggregate in bounded} - {""})
        spreads = sum(aggregate.kind == "mean" for aggregate in aggregates)
        weights = {
            "learned": _LEARNED * len(learned),
            "shapes": _SHAPES if first else 0,
            "shapes of keys": again if not listed and private and aggregates else 0,
            "keys": 0 if listed else _KEYS,
            "left_out": _LEFT_OUT if aggregates and self.bounding else 0,
            "terms": _AGGREGATES if aggregates else 0,
        }
        shares = {name: Fraction(weight, sum(weights.values())) for name, weight in weights.items()}
        if learned:
            shares["learned"] /= len(learned)
        if aggregates:
            shares["term"] = shares["terms"] / (2 * n_terms + spreads) * 2
            shares["spread"] = shares["term"] / 2
            shares["counted"] = shares["keys"] + shares["shapes of keys"] + shares["term"]
        return shares

    # --- one session or two -----------------------------------------------------------------------

    @property
    def asks_first(self) -> bool:
        """Whether the number of a unit's keys is released before the noise is chosen."""
        if self.caps[0] is not None or not self._basic or not self.delta:
            return False
        if self.context.epsilon < SMALLEST_EPSILON:
            return False
        if self.listed is not None:  # a unit has at most all keys
            keys = len(self.listed)
            return bool(self.aggregates) and not replace(self, second=True).stated_keys_pure(keys)
        return counting_term(self.aggregates) is not None and self.method == "auto"

    @property
    def two_parts(self) -> list[float]:
        """Epsilon of the first histograms, and of everything after them."""
        return exact_shares(exact(float(self.context.epsilon)), [FIRST_PART, 1 - FIRST_PART])

    def after_first(self) -> Chooser:
        """Return the chooser of the main session, after a session for the first histograms."""
        remaining = replace(self.context, epsilon=self.two_parts[1])
        return replace(self, context=remaining, second=True)

    def design(self, shapes: Shapes | None = None) -> Design:
        """Return the noise of the main session, by public facts and released histograms."""
        if self.listed is None:
            return self.learned_keys(self.caps, shapes)
        if not self.delta:
            return Design(pure=True)
        if shapes is None:
            return Design(self.stated_keys_pure(self.caps[0] or len(self.listed)))
        # Each noise with its best caps; the one of the smaller error.
        errors = {}
        for pure in (True, False):
            part = self.allowance(None if pure else self.delta).part(self.shares["term"])
            errors[pure] = self.best_caps(shapes, len(self.listed), part, self.caps[0])[1]
        return Design(errors[True] <= errors[False])

    def deltas(self, design: Design) -> tuple[float, float]:
        """Return the delta of noise, and the delta of private keys."""
        if self.listed is not None:
            return (0.0 if design.pure else self.delta), 0.0
        # The selection of keys needs a delta; Laplace noise leaves it all of it.
        return (0.0, self.delta) if design.pure else (self.delta / 2, self.delta / 2)

    def allowance(self, delta: float | None) -> Allowance:
        """Return the allowance of the main session, of pure noise without a delta."""
        epsilon = float(self.context.epsilon)
        mu = None if delta is None else gdp_mu(epsilon, delta)
        return Allowance(epsilon, mu, self.context.adjacency)

    def best_caps(
        self, shapes: Shapes, n_keys: int, part: Allowance, max_keys: int | None
    ) -> tuple[tuple[int, int], float]:
        """Return the caps of the smallest error under an allowance of a term, and this error."""
        kinds = {aggregate.kind for aggregate in self.aggregates}
        units = kinds == {"distinct_units"}
        count = Aggregate("", "distinct_units")
        return shapes.best_caps(
            (max_keys, self.caps[1] or (1 if units else None)),
            max(n_keys, 1),
            noise=expected_width(count, part, (1, 1), 1.0),
            power=1.0 if part.pure else 0.5,
            of_rows=not kinds <= {"mean", "variance", "std", "quantile"},
        )

    def _is_less(self, noise_delta: float, noise: Any) -> bool:
        epsilon, budget = float(self.context.epsilon), self.context.budget
        return pure_is_less(epsilon, noise_delta, budget, noise, self.context.adjacency)

    # --- stated keys ----------------------------------------------------------------------------

    def stated_keys_pure(self, max_keys: int) -> bool:
        """Say whether noise on totals of stated keys is pure, for this cap on a unit's keys."""

        def width(allowance: Allowance) -> float:
            """Return the geometric mean of the widths of all aggregates."""
            part = allowance.part(self.shares["term"])
            guesses = {a.column: _UNIT_RANGE for a in self.aggregates if plan.learns(a)}
            known = plan.with_bounds(self.aggregates, guesses)
            widths = [expected_width(a, part, (max_keys, 1), 1.0) for a in known]
            return math.exp(sum(map(math.log, widths)) / len(widths))

        return self._is_less(self.delta, width)

    # --- learned keys ---------------------------------------------------------------------------

    def _level(self, pure: bool, share: str) -> tuple[float, float]:
        """Return the level of a share, and the delta of keys."""
        part = float(self.shares[share])
        if pure:
            return float(self.context.epsilon) * part, self.delta
        mu = check_allowance(float(self.context.epsilon), self.delta / 2)
        assert mu is not None
        return mu * math.sqrt(part), self.delta / 2

    def threshold(self, pure: bool, caps: tuple[int, int]) -> float:
        """Return the least count that shows, if counts with these caps select the keys."""
        level, delta = self._level(pure, "counted")
        replaces = self.context.adjacency == "replace_one"
        return float(counting_law(*caps, level, delta, pure=pure, replace=replaces)[1])

    def counts_pure(self, caps: tuple[int, int]) -> bool:
        """Say whether pure noise shows the smaller keys, if counts with these caps select them."""
        return self._is_less(self.delta / 2, lambda a: self.threshold(a.pure, caps))

    def _first_selected(self, pure: bool, max_keys: int, shapes: Shapes, of_rows: bool) -> float:
        """Return about how many rows the keys have that a selection before the counts shows."""
        roots, rows = shapes.weights()
        level, delta = self._level(pure, "keys")
        replaces = self.context.adjacency == "replace_one"
        least = least_shown(max_keys, level, delta, pure=pure, replace=replaces, weight=roots)
        return least * (rows if of_rows else 1.0)

    def counting_caps(
        self, pure: bool, shapes: Shapes, first: bool
    ) -> tuple[tuple[int, int] | None, float]:
        """Return caps of counts that select keys, and the least count of rows that shows.

        No caps where a selection before the counts shows smaller keys; `first` says whether that
        would have pure noise.
        """
        of_rows = counting_term(self.aggregates) == "rows"
        caps, least = shapes.counting_caps(
            self.caps, lambda caps: self.threshold(pure, caps), of_rows=of_rows
        )
        other = self._first_selected(first, self.caps[0] or 1, shapes, of_rows)
        return (caps, least) if least <= other else (None, other)

    def selects_pure(self, max_keys: int) -> bool:
        """Say whether keys are selected with Laplace noise, where no count selects them."""
        few = max_keys == 1 and len(self.aggregates) * 2 + 1 <= FEW
        if self.method == "auto":
            return few and self._basic
        return self.method == "laplace" or (few and self.method == "optimal")

    def learned_keys(self, stated: Caps, shapes: Shapes | None) -> Design:
        """Return the design for learned keys; `stated` are the caps, None for private ones."""
        max_keys, max_rows = stated
        kind = counting_term(self.aggregates)
        selects = self.selects_pure(max_keys) if max_keys else False
        if kind is None or self.method != "auto":
            return Design(selects)
        if kind == "units":
            max_rows = 1
        if shapes is not None:  # known before the session opens
            first = self.selects_pure(max_keys or shapes.upper_cap())
            choices = {pure: self.counting_caps(pure, shapes, first) for pure in (True, False)}
            pure = choices[True][1] <= choices[False][1]
            caps = choices[pure][0]
            return Design(first) if caps is None else Design(pure, True, caps)
        if max_keys and max_rows:
            if max_rows > _FEW_ROWS:
                return Design(selects)
            return Design(self.counts_pure((max_keys, max_rows)), True, (max_keys, max_rows))
        return Design(max_keys is not None and self.counts_pure((max_keys, 1)), True)
