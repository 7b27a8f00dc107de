"""What a plan of a query consists of: keys, aggregates, columns of the answer. Text and numbers.

Nothing is released here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from skdp.sql._catalog import Table
from skdp.sql._expressions import Expr
from skdp.sql._typed import TYPES, canonical, quoted

__all__ = ["Key", "Output", "Plan", "Specification"]


@dataclass(frozen=True)
class Key:
    """What is grouped by: its column in the rows, its SQL there, and what it is afterwards."""

    column: str
    row: Expr
    label: str
    known: tuple[Any, ...] | None
    node: exp.Expr

    @property
    def encoded(self) -> str:
        """The key as text that is never missing: NULL is the empty text, all else has a mark."""
        value = canonical(self.row.sql, self.row.family)
        return f"coalesce('=' || TRY_CAST({value} AS VARCHAR), '')"

    @property
    def decoded(self) -> str:
        """The key itself, from its text, as SQL over released columns."""
        inner = quoted(self.column)
        if self.row.family == "bool":
            return f"(CASE {inner} WHEN '=true' THEN TRUE WHEN '=false' THEN FALSE END)"
        kind = TYPES[self.row.family]
        return f"(CASE WHEN {inner} <> '' THEN TRY_CAST(substring({inner}, 2) AS {kind}) END)"


@dataclass(frozen=True)
class Specification:
    """One aggregate: as `DPGroupBy` is asked for it."""

    name: str
    kind: str
    column: str = ""
    q: float = 0.5
    whole: bool = False  # a number of rows, though added up

    def given(self, bounds: Mapping[str, tuple[float, float]]) -> Any:
        """Return what `DPGroupBy.agg` takes."""
        if not self.column:
            return self.kind
        parts: tuple[Any, ...] = (self.kind, self.column)
        if self.kind == "quantile":
            parts = (*parts, self.q)
        return (*parts, bounds[self.column]) if self.column in bounds else parts


@dataclass(frozen=True)
class Output:
    """A column of the answer, as SQL over what was released.

    `given` are the released tables on which the rows, keys or values behind it depend: their noise
    is in no interval of this column.
    """

    name: str
    sql: str
    low: str | None = None
    high: str | None = None
    population: str | None = None
    measured: bool = False
    given: tuple[str, ...] = ()


@dataclass(eq=False)
class Plan:
    """All of a query."""

    text: str
    rows: str
    by: list[str]
    keys: list[Key]
    aggregates: list[Specification]
    bounds: dict[str, tuple[float, float]]
    outputs: list[Output]
    tail: str
    tables: list[Table]
    per_unit: bool = False
    notes: list[str] = field(default_factory=list)
    left_keys: str | None = None  # SQL that reads all keys from public tables
    # Intervals beside those at 95%: of which aggregate, as one of how many at 95% together.
    levels: list[tuple[str, int]] = field(default_factory=list)

    @property
    def public_keys(self) -> list[Any] | None:
        """All keys, where columns that are grouped by are declared with them; else None."""
        if not self.keys:
            return None
        if any(key.known is None for key in self.keys):
            return None
        return list(itertools.product(*(key.known or () for key in self.keys)))
