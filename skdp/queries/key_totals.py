"""Sums by key over units of bounded contribution: counts, sums, squares, histograms.

Released: for each public key, integers that are added up over its rows; histograms of units by
their numbers of keys and of rows; how much bounding left out; the spread of a column's values over
units.

Guarantee: a unit contributes to at most `max_keys` keys, and to a term of a key at most that term's
bound. Each query states its sensitivity. A row of the table is a unit with all its rows, from
`skdp.tabular.check_grouped`. Proofs: key_totals.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.mechanisms import Independent
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, check_ascending, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable
from skdp.tabular.contributions import CENTER_BITS, FRACTION_BITS, VALUE_BITS, KeyTerm, term_width

__all__ = ["MAX_ROWS_PER_UNIT", "KeyTotals", "LeftOut", "UnitShapes", "UnitSpread", "term_bound"]

MAX_ROWS_PER_UNIT = 2**14  # in a key: so that squares of a unit's sums are below 2**58


def term_bound(term: KeyTerm, max_rows: int) -> tuple[int, int, bool]:
    """Return a term's L1 and squared L2 bound for one unit in one key, and whether it has a sign.

    Examples
    --------
    >>> term_bound(KeyTerm("rows"), 7)
    (7, 49, False)
    """
    if term.kind == "units":
        return 1, 1, False
    if term.kind in ("rows", "filled"):
        return max_rows, max_rows**2, False
    if term.kind in ("bins", "leaves"):  # a value is in one node of each level above the leaves
        levels = term.depth if term.kind == "leaves" else 1
        most = max_rows << FRACTION_BITS
        return levels * most, levels * most**2, False
    if term.kind == "about":
        most = (max_rows << (VALUE_BITS - CENTER_BITS)) ** 2
        return most, most**2, False
    most = max_rows * term.offset
    return most, most**2, True


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


@reviewed
@dataclass(frozen=True, eq=False)
class KeyTotals(Query):
    """The totals of one of several terms, by key; the answer has a row for each key.

    In the user's units: rows, units, values relative to the middle of their bounds or to 0, squares
    of half widths. For ``"leaves"``: all nodes of a binary tree below its root, level by level.

    Guarantee: a unit moves at most `max_keys` keys, each by at most b (L2: b2, squared). A: L1
    max_keys b, squared L2 max_keys b2. R: L1 2 max_keys b; squared L2 2 max_keys b2 where no
    entry is negative, else 4 max_keys b2.

    Attributes
    ----------
    keys : tuple
        Public. Totals of keys that the table does not have are 0.
    terms : tuple of KeyTerm
        All terms to compute; the table is read once for them.
    index : int
        The place of the released term.
    max_keys, max_rows : int
    """

    name: ClassVar[str] = "totals by key"
    names: ClassVar[tuple[str, ...]] = ("keys",)
    keys: tuple[Any, ...]
    terms: tuple[KeyTerm, ...]
    index: int
    max_keys: int
    max_rows: int

    @property
    def _term(self) -> KeyTerm:
        if not (1 <= self.max_rows <= MAX_ROWS_PER_UNIT and self.max_keys >= 1):
            raise ValueError("max_keys and max_rows must be at least 1, max_rows at most 2**14")
        return self.terms[self.index]

    @property
    def unit(self) -> float:
        term = self._term
        if term.kind == "sum":
            return term.grid
        if term.kind in ("bins", "leaves"):
            return 2.0**-FRACTION_BITS
        about, square = (2.0 ** (CENTER_BITS - VALUE_BITS)) ** 2, 2.0**-VALUE_BITS
        return {"about": about, "square": square}.get(term.kind, 1.0)

    def exact(self, table: PrivateTable) -> NDArray:
        term = self._term
        kept = table.rows.kept
        asked = (self.keys, repr(self.terms), self.max_keys, self.max_rows)
        if asked not in kept:
            kept[asked] = table.rows.totals(self.keys, self.terms, self.max_keys, self.max_rows)
        start = sum(map(term_width, self.terms[: self.index]))
        part = kept[asked][:, start : start + term_width(term)]
        whole = _nodes(part) if term.kind == "leaves" else part
        largest = max(int(whole.max()), -int(whole.min())) if whole.size else 0
        return whole.ravel().astype(np.int64 if largest < 2**62 else object, copy=False)

    def sensitivity(self, relation: str) -> Independent:
        l1, l2_squared, signed = term_bound(self._term, self.max_rows)
        l1, l2_squared = l1 * self.max_keys, l2_squared * self.max_keys
        if relation == REPLACE_ONE:
            l1, l2_squared = 2 * l1, (4 if signed else 2) * l2_squared
        return Independent(l1, l2_squared)

    def decoded(self, noisy: Noisy) -> Release:
        shape = (len(self.keys), -1)
        values = noisy.values.astype(np.float64).reshape(shape)
        values *= self.unit
        return released(values, noisy.std * self.unit)


@reviewed
@dataclass(frozen=True, eq=False)
class UnitShapes(Query):
    """Two histograms of units: by their number of keys, and by their rows in a random one of these.

    Guarantee: a unit is in one bin of each of the two histograms. L1 and squared L2 2 (A), 4 (R).

    Attributes
    ----------
    keys : tuple or None
        Public; None for all keys of the table.
    key_edges, row_edges : tuple of int
        The least number of each bin, ascending from 1.
    """

    name: ClassVar[str] = "keys and rows of units"
    names: ClassVar[tuple[str, ...]] = ("keys",)
    keys: tuple[Any, ...] | None
    key_edges: tuple[int, ...]
    row_edges: tuple[int, ...]

    def __post_init__(self) -> None:
        check_ascending(self.key_edges, "key_edges")
        check_ascending(self.row_edges, "row_edges")

    def exact(self, table: PrivateTable) -> NDArray:
        found: NDArray = table.rows.shapes(self.keys, self.key_edges, self.row_edges)
        return found

    def sensitivity(self, relation: str) -> Independent:
        size = 4 if relation == REPLACE_ONE else 2
        return Independent(size, size)

    def decoded(self, noisy: Noisy) -> tuple[Release, Release]:
        values, split = noisy.values.astype(np.float64), len(self.key_edges)
        return released(values[:split], noisy.std), released(values[split:], noisy.std)


@reviewed
@dataclass(frozen=True, eq=False)
class LeftOut(Query):
    """The numbers of (unit, key) pairs and of rows that bounding left out.

    A unit adds at most `max_keys` pairs and M = `max_keys` * `max_rows` rows.

    Guarantee: with pairs counted in steps of `max_rows`, L1 2M and squared L2 2M**2, A and R alike.
    """

    name: ClassVar[str] = "left out"
    names: ClassVar[tuple[str, ...]] = ("keys",)
    keys: tuple[Any, ...]
    max_keys: int
    max_rows: int

    def exact(self, table: PrivateTable) -> NDArray:
        rows = self.max_keys * self.max_rows
        out = table.rows.left_out(self.keys, self.max_keys, self.max_rows, self.max_keys, rows)
        return np.array([int(out[0]) * self.max_rows, int(out[1])], dtype=np.int64)

    def sensitivity(self, relation: str) -> Independent:
        most = self.max_keys * self.max_rows
        return Independent(2 * most, 2 * most**2)

    def decoded(self, noisy: Noisy) -> Release:
        scale = np.array([1.0 / self.max_rows, 1.0])
        return released(noisy.values.astype(np.float64) * scale, noisy.std * scale)


@reviewed
@dataclass(frozen=True, eq=False)
class UnitSpread(Query):
    """A histogram of the values of a column, in which the values of a unit share a weight of one.

    The outer bins include values beyond them. Guarantee: a unit's shares are not negative and add
    up to at most one. L1 1, squared L2 1 (A); 2 and 2 (R).
    """

    name: ClassVar[str] = "spread of values"
    column: str
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        check_ascending(self.edges, "edges")

    @property
    def unit(self) -> float:
        return 2.0**-FRACTION_BITS

    def exact(self, table: PrivateTable) -> NDArray:
        found: NDArray = table.rows.spread(self.column, self.edges)
        return found

    def sensitivity(self, relation: str) -> Independent:
        one = 1 << FRACTION_BITS
        factor = 2 if relation == REPLACE_ONE else 1
        return Independent(factor * one, factor * one * one)

    def decoded(self, noisy: Noisy) -> Release:
        return released(noisy.values.astype(np.float64) * self.unit, noisy.std * self.unit)
