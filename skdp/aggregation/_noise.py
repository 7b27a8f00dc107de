"""Which noise an aggregation draws, and whether a count selects its keys: by public facts alone.

Noise is pure where it is no more than Gaussian noise of the same allowance (`pure_is_less`). Of
stated keys the expected widths of intervals decide, of learned keys the smallest count that shows.
How many keys a unit has decides most. Where that is to be learned, it is released first, by a
session of its own; then it is public, and the main session opens with the better noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.aggregation import _plan as plan
from skdp.aggregation._plan import Aggregate
from skdp.aggregation._results import expected_width, std_of
from skdp.budget import PrivacyBudget
from skdp.core import Release, check_allowance
from skdp.planning import Allowance, pure_is_less
from skdp.queries import counting_law, least_shown

FIRST_PART = Fraction(1, 20)  # of epsilon, for the histograms of units
SMALLEST_EPSILON = 1e-3  # below, the part for the histograms would show nothing
FEW = 8  # if a unit changes at most so many entries, Laplace noise is smaller than Gaussian noise
_FEW_ROWS = 2  # a stated cap on rows, above which few units may reach it
_UNIT_RANGE = (0.0, 1.0)  # stands for bounds that are learned: it does not change the comparison


@dataclass(frozen=True)
class Shapes:
    """Released histograms of units, by keys and by rows in a key, and the law of their noise."""

    by_keys: Any
    by_rows: Any
    std: float
    pure: bool

    @classmethod
    def of(cls, releases: tuple[Release, Release], pure: bool) -> Shapes:
        """Return the shapes that a session of pure or Gaussian noise has released."""
        by_keys, by_rows = releases
        return cls(np.array(by_keys.value), np.array(by_rows.value), std_of(by_keys), pure)


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

    - `epsilon`, `delta`: Of the main session: all of its delta, noise and keys together.
    - `shares`: Of the main session.
    - `method`: The stated method of selecting keys.
    """

    epsilon: float
    delta: float
    budget: PrivacyBudget | None
    adjacency: str
    aggregates: list[Aggregate]
    shares: Mapping[str, Fraction]
    method: str

    @property
    def basic(self) -> bool:
        """Whether pure noise may take the place of Gaussian noise."""
        return self.budget is None or self.budget.accountant == "basic"

    @property
    def _replace(self) -> bool:
        return self.adjacency == "replace_one"

    def _is_less(self, noise_delta: float, noise: Any) -> bool:
        return pure_is_less(self.epsilon, noise_delta, self.budget, noise, self.adjacency)

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
            return self.epsilon * part, self.delta
        mu = check_allowance(self.epsilon, self.delta / 2)
        assert mu is not None
        return mu * math.sqrt(part), self.delta / 2

    def threshold(self, pure: bool, caps: tuple[int, int]) -> float:
        """Return the least count that shows, if counts with these caps select the keys."""
        level, delta = self._level(pure, "counted")
        return float(counting_law(*caps, level, delta, pure=pure, replace=self._replace)[1])

    def counts_pure(self, caps: tuple[int, int]) -> bool:
        """Say whether pure noise shows the smaller keys, if counts with these caps select them."""
        return self._is_less(self.delta / 2, lambda a: self.threshold(a.pure, caps))

    def _first_selected(self, pure: bool, max_keys: int, shapes: Shapes, of_rows: bool) -> float:
        """Return about how many rows the keys have that a selection before the counts shows."""
        roots, rows = plan.weight_seen(shapes.by_keys, shapes.by_rows, shapes.std, pure=shapes.pure)
        level, delta = self._level(pure, "keys")
        least = least_shown(max_keys, level, delta, pure=pure, replace=self._replace, weight=roots)
        return least * (rows if of_rows else 1.0)

    def caps(
        self, pure: bool, shapes: Shapes, stated: tuple[Any, Any], first: bool
    ) -> tuple[tuple[int, int] | None, float]:
        """Return caps of counts that select keys, and the least count of rows that shows.

        No caps where a selection before the counts shows smaller keys; `first` says whether that
        would have pure noise.
        """
        of_rows = counting_term(self.aggregates) == "rows"
        caps, least = plan.counting_caps(
            shapes.by_keys,
            shapes.by_rows,
            shapes.std,
            lambda *caps: self.threshold(pure, caps),
            pure=shapes.pure,
            of_rows=of_rows,
            max_keys=stated[0],
            max_rows=stated[1],
        )
        other = self._first_selected(first, stated[0] or 1, shapes, of_rows)
        return (caps, least) if least <= other else (None, other)

    def selects_pure(self, max_keys: int) -> bool:
        """Say whether keys are selected with Laplace noise, where no count selects them."""
        few = max_keys == 1 and len(self.aggregates) * 2 + 1 <= FEW
        if self.method == "auto":
            return few and self.basic
        return self.method == "laplace" or (few and self.method == "optimal")

    def learned_keys(self, stated: tuple[Any, Any], shapes: Shapes | None) -> Design:
        """Return the design for learned keys; `stated` are the caps, None for private ones."""
        max_keys, max_rows = stated
        kind = counting_term(self.aggregates)
        selects = self.selects_pure(max_keys) if max_keys else False
        if kind is None or self.method != "auto":
            return Design(selects)
        if kind == "units":
            max_rows = 1
        if shapes is not None:  # known before the session opens
            first = self.selects_pure(
                max_keys or plan.upper_cap(shapes.by_keys, shapes.std, pure=shapes.pure)
            )
            choices = {pure: self.caps(pure, shapes, stated, first) for pure in (True, False)}
            pure = choices[True][1] <= choices[False][1]
            caps = choices[pure][0]
            return Design(first) if caps is None else Design(pure, True, caps)
        if max_keys and max_rows:
            caps = int(max_keys), int(max_rows)
            if caps[1] > _FEW_ROWS:
                return Design(selects)
            return Design(self.counts_pure(caps), True, caps)
        return Design(bool(max_keys) and self.counts_pure((int(max_keys), 1)), True)
