"""Sums over units, for GROUP BY: totals by key, histograms of units, rows left out.

A row of the private table is a unit with all its rows, from `skdp.tabular.check_grouped`. So each
query is a `RowSum` whose image is what one unit adds, and each image reads the units in a pass of
its own. The bounds on images are proved in key_totals.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Floats
from skdp.core.privacy_filter import Release, released
from skdp.core.query import check_ascending, reviewed
from skdp.core.sums import Image, RowSum
from skdp.core.table import PrivateTable
from skdp.tabular.contributions import (
    CENTER_BITS,
    FRACTION_BITS,
    VALUE_BITS,
    KeyTerm,
    steps_of,
    term_width,
)

__all__ = [
    "MAX_ROWS_PER_UNIT",
    "KeyTotals",
    "LeftOut",
    "UnitShapes",
    "UnitSpread",
    "term_bound",
    "unit_sum",
]

MAX_ROWS_PER_UNIT = 2**14  # in a key: so that squares of a unit's sums are below 2**58


def term_bound(term: KeyTerm, max_rows: int) -> tuple[int, int, int]:
    """Return a term's bounds for one unit in one key: L1, squared L2, and that of a change.

    The change is that of two units in the same key, or in two.

    Examples
    --------
    >>> term_bound(KeyTerm("rows"), 7)
    (7, 49, 98)
    """
    l1, levels = 1, 1
    if term.kind in ("rows", "filled"):
        l1 = max_rows
    elif term.kind in ("bins", "leaves", "between"):
        l1 = max_rows << FRACTION_BITS
        # A value is in one node of each level below the root.
        levels = term.depth if term.kind == "leaves" else 1
    elif term.kind == "about":
        l1 = (max_rows << (VALUE_BITS - CENTER_BITS)) ** 2
    elif term.kind in ("sum", "square"):
        l1 = max_rows * term.offset
    change = 2 * levels * l1**2
    if term.kind == "square":
        change = 4 * l1**2
    elif term.kind == "sum":
        lowest, highest = (steps_of(np.array([term.low, term.high]), term) - term.offset).tolist()
        change = max(change, (max_rows * (max(highest, 0) - min(lowest, 0))) ** 2)
    return levels * l1, levels * l1**2, change


def _nodes(leaves: NDArray) -> NDArray:
    """Return the counts of all nodes of a binary tree below its root, from those of its leaves."""
    start = leaves.shape[1] - 2
    nodes = np.empty((len(leaves), start + leaves.shape[1]), dtype=leaves.dtype)
    nodes[:, start:] = leaves
    while start:
        leaves = leaves[:, ::2] + leaves[:, 1::2]
        start -= leaves.shape[1]
        nodes[:, start : start + leaves.shape[1]] = leaves
    return nodes


class UnitImage(Image):
    """What one unit adds; the rows add it up over units by themselves."""

    own_pass = of_units = True


def unit_sum(image: UnitImage) -> RowSum:
    """Return the query of what all units add."""
    return RowSum(image, noise="entries", name=image.what)


@reviewed
@dataclass(frozen=True, eq=False)
class KeyTotals(UnitImage):
    """One of several terms, in each key of a unit; the answer has a row for each key.

    In the user's units: rows, units, values relative to the middle of their bounds or to 0, squares
    of half widths. For ``"leaves"``: all nodes of a binary tree below its root, level by level.

    Guarantee: a unit adds to at most `max_keys` keys, and two units differ in twice as many; see
    `term_bound`.

    - `keys`: Public. Totals of keys that the table does not have are 0.
    - `terms`: All terms to compute; the table is read once for them.
    - `index`: The place of the released term.
    """

    what = "totals by key"
    names = ("keys",)
    keys: tuple[Any, ...]
    terms: tuple[KeyTerm, ...]
    index: int
    max_keys: int
    max_rows: int

    def __post_init__(self) -> None:
        if not (1 <= self.max_rows <= MAX_ROWS_PER_UNIT and self.max_keys >= 1):
            raise ValueError("max_keys and max_rows must be at least 1, max_rows at most 2**14")
        if not all(math.isfinite(end) for term in self.terms for end in (term.low, term.high)):
            raise ValueError("bounds of terms must be finite")
        if self._term.kind == "points":
            raise ValueError("points are no sum: ask KeyQuantiles")
        if self._term.kind == "between" and len(self._term.cuts) != len(self.keys):
            raise ValueError("cuts must be those of each key")

    @property
    def _term(self) -> KeyTerm:
        return self.terms[self.index]

    @property
    def shape(self) -> tuple[int, int]:
        term = self._term
        width = term_width(term)
        return len(self.keys), 2 * width - 2 if term.kind == "leaves" else width

    @property
    def unit(self) -> float:
        term = self._term
        if term.kind == "sum":
            return term.grid
        if term.kind in ("bins", "leaves", "between"):
            return 2.0**-FRACTION_BITS
        about, square = (2.0 ** (CENTER_BITS - VALUE_BITS)) ** 2, 2.0**-VALUE_BITS
        return {"about": about, "square": square}.get(term.kind, 1.0)

    @property
    def l1(self) -> int:
        return self.max_keys * term_bound(self._term, self.max_rows)[0]

    @property
    def l2_squared(self) -> int:
        return self.max_keys * term_bound(self._term, self.max_rows)[1]

    @property
    def change_l2_squared(self) -> int:
        return self.max_keys * term_bound(self._term, self.max_rows)[2]

    def table_total(self, table: PrivateTable) -> NDArray:
        term = self._term
        # The table is read once for all terms.
        known = table.rows.kept
        read = (self.keys, repr(self.terms), self.max_keys, self.max_rows)
        if read not in known:
            known[read] = table.rows.totals(self.keys, self.terms, self.max_keys, self.max_rows)
        start = sum(map(term_width, self.terms[: self.index]))
        totals = known[read][:, start : start + term_width(term)]
        if term.kind == "leaves":
            totals = _nodes(totals)
        largest = max(int(totals.max()), -int(totals.min())) if totals.size else 0
        return totals.ravel().astype(np.int64 if largest < 2**62 else object, copy=False)


@reviewed
@dataclass(frozen=True, eq=False)
class UnitShapes(UnitImage):
    """A unit's bins in two histograms: its number of keys, and of rows in a random one of these.

    - `keys`: Public; None for all keys of the table.
    - `key_edges`, `row_edges`: The least number of each bin, ascending from 1.
    """

    what = "keys and rows of units"
    names = ("keys",)
    l1 = l2_squared = 2
    change_l1 = change_l2_squared = 4
    keys: tuple[Any, ...] | None
    key_edges: tuple[int, ...]
    row_edges: tuple[int, ...]

    def __post_init__(self) -> None:
        check_ascending(self.key_edges, "key_edges")
        check_ascending(self.row_edges, "row_edges")

    @property
    def shape(self) -> tuple[int]:
        return (len(self.key_edges) + len(self.row_edges),)

    def table_total(self, table: PrivateTable) -> NDArray:
        counts: NDArray = table.rows.shapes(self.keys, self.key_edges, self.row_edges)
        return counts

    def decoded(self, sums: Floats, std: float, count: Any) -> tuple[Release, Release]:
        split = len(self.key_edges)
        return released(sums[:split], std), released(sums[split:], std)


@reviewed
@dataclass(frozen=True, eq=False)
class LeftOut(UnitImage):
    """A unit's (unit, key) pairs and rows that bounding left out.

    Of these keys, or with None of all keys of the table.

    Guarantee: with pairs counted in steps of `max_rows`, both numbers lie between 0 and M =
    `max_keys` * `max_rows`, and so does their change.
    """

    what = "left out"
    names = ("keys",)
    shape = (2,)
    keys: tuple[Any, ...] | None
    max_keys: int
    max_rows: int

    @property
    def l1(self) -> int:
        return 2 * self.max_keys * self.max_rows

    @property
    def l2_squared(self) -> int:
        return 2 * (self.max_keys * self.max_rows) ** 2

    @property
    def change_l1(self) -> int:
        return self.l1

    @property
    def change_l2_squared(self) -> int:
        return self.l2_squared

    def table_total(self, table: PrivateTable) -> NDArray:
        rows = self.max_keys * self.max_rows
        out = table.rows.left_out(self.keys, self.max_keys, self.max_rows, self.max_keys, rows)
        return np.array([int(out[0]) * self.max_rows, int(out[1])], dtype=np.int64)

    def decoded(self, sums: Floats, std: float, count: Any) -> Release:
        scale = np.array([1.0 / self.max_rows, 1.0])
        return released(sums * scale, std * scale)


@reviewed
@dataclass(frozen=True, eq=False)
class UnitSpread(UnitImage):
    """The share of a unit's values in each bin; the outer bins include values beyond them.

    Guarantee: shares are not negative and add up to at most 1, so they differ by at most 2 (L1 and
    squared L2).
    """

    what = "spread of values"
    column: str
    edges: tuple[float, ...]
    unit = 2.0**-FRACTION_BITS
    l1 = 1 << FRACTION_BITS
    l2_squared = l1**2
    change_l1, change_l2_squared = 2 * l1, 2 * l2_squared

    def __post_init__(self) -> None:
        check_ascending(self.edges, "edges")

    @property
    def shape(self) -> tuple[int]:
        return (len(self.edges) - 1,)

    def table_total(self, table: PrivateTable) -> NDArray:
        spread: NDArray = table.rows.spread(self.column, self.edges)
        return spread
