"""Rows grouped by key, held by unit: one row of the private table is everything of one unit.

Nothing is released here. The entrance, `skdp.tabular.grouping`, refuses what is no such table, in
words that name a column and quote no cell. What comes out bounds what a unit may contribute and
yields exact integers a key; by how much these move is said by the queries that ask
(`skdp.queries.key_totals`, `skdp.queries.key_selection`).

A unit contributes to at most so many keys: those of the smallest ranks. A rank is a number that is
secret and different for any two keys of a unit (a salted hash, with the key's own number in its
last digits), so there are no ties. Within a key a unit contributes at most `max_rows` rows' worth:
of m rows each counts max_rows / m, rounded down to the integers in which values are counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._config import noise_is_seeded
from skdp.core import noise as samplers
from skdp.core.query import check_ascending, reviewed
from skdp.tabular.containers import listed
from skdp.tabular.grouped_keys import (
    check_listed,
    family_of_key,
    key_order,
    text_of,
    told_apart,
    words_of,
)

__all__ = [
    "FRACTION_BITS",
    "VALUE_BITS",
    "GroupedRows",
    "GroupedTable",
    "KeyTerm",
    "check_names",
    "term_width",
]

Ints = NDArray[np.int64]

VALUE_BITS = 30  # of a clipped value between its bounds
FRACTION_BITS = 10  # of a row that counts in part, in a histogram
_CENTER_BITS = 15  # of a unit's sum about a centre, before it is squared
_WORD = 2**64
_HIGH = 0xFFFFFFFF00000000  # the half of a rank that is hash
MOST_ROWS = 2**40


@reviewed
@dataclass(frozen=True, eq=False)
class KeyTerm:
    """What is added up for every key: integers of a unit's rows, and how large they may be.

    Attributes
    ----------
    kind : {"rows", "units", "filled", "sum", "square", "bins", "leaves", "about"}
        ``"filled"``: rows that have a value; ``"bins"``: those of each of the bins of `edges`;
        ``"leaves"``: of 2**depth equal bins; ``"about"``: the square of a unit's sum about the
        key's centre.
    column : str
    low, high : float
        To which values are clipped.
    zero : bool
        Of ``"sum"``: counted from 0, in steps of the larger bound; else from the middle.
    edges : tuple of float
    depth : int
    centers : tuple of int
        Of ``"about"``, one a key, in steps from the middle.
    """

    kind: str
    column: str = ""
    low: float = 0.0
    high: float = 1.0
    zero: bool = False
    edges: tuple[float, ...] = ()
    depth: int = 0
    centers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_ascending(self.edges, "edges")

    @property
    def base(self) -> float:
        """The value of step 0."""
        return -max(abs(self.low), abs(self.high)) if self.zero else self.low

    @property
    def grid(self) -> float:
        """User units a step."""
        width = -self.base if self.zero else self.high - self.low
        return width / 2**VALUE_BITS

    @property
    def top(self) -> int:
        """The largest step of a value."""
        return 2 ** (VALUE_BITS + self.zero)

    @property
    def offset(self) -> int:
        """What is taken off every row that counts: the middle, or 0 in the user's units."""
        return self.top // 2 if self.kind in ("sum", "square", "about") else 0


def term_width(term: KeyTerm) -> int:
    """Return how many integers a key has of a term."""
    return {"bins": len(term.edges) - 1, "leaves": 2**term.depth}.get(term.kind, 1)


# --- the table ------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class GroupedRows:
    """What both engines share: a secret salt, what has been computed, the face of `Rows`."""

    n_features: int = 0
    filtered: bool = False
    n_is_private: bool = True  # a unit may have no row on one side
    units: None = None  # a row of this table is a unit already
    unit_name: str = ""
    secret: int = 0
    kept: dict[Any, Any] = field(default_factory=dict)

    def salt(self, number: int) -> int:
        """Return one of the secret numbers that rank keys."""
        mixed = hashlib.blake2b(f"{self.secret}|{number}".encode(), digest_size=8).digest()
        return int.from_bytes(mixed, "little")

    def check_keys(self, keys: Sequence[Any]) -> None:
        """Raise for stated keys of another type than their column."""
        raise NotImplementedError

    def prepare(self, keys: Sequence[Any] | None, terms: Sequence[KeyTerm]) -> None:
        """Say what will be asked, all of it public; keys are None where they are private."""

    def close(self) -> None:
        """Leave nothing behind."""

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        """Refuse: no query but those of keys reads such a table."""
        raise TypeError("a table of units is read by queries of keys only")

    def chunk(self, start: int, stop: int) -> NDArray:
        """Refuse, as `spans` does."""
        raise TypeError("a table of units is read by queries of keys only")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __reduce__(self) -> Any:
        raise TypeError("private rows cannot be copied or pickled")


def secret_number(random_state: Any, digest: Callable[[], bytes]) -> int:
    """Return a secret 64-bit number: of the operating system, or of the seed of seeded noise."""
    entropy: Any = None
    if noise_is_seeded() and isinstance(random_state, int | np.integer):
        entropy = samplers.SeededEntropy(int(random_state), b"ranks" + digest())
    return int(samplers.uniform_below(_WORD, entropy=entropy))


def bounded(sums: Ints, rows: Ints, max_rows: int) -> Ints:
    """Return sums of so many rows, each of which counts max_rows / rows where they are more.

    Rounded down; of sums in [0, rows top] the result is in [0, min(rows, max_rows) top].
    """
    most = np.maximum(rows, 1)
    part = (sums // most) * max_rows + ((sums % most) * max_rows) // most
    return np.where(rows > max_rows, part, sums)


def mixed_words(units: NDArray, keys: NDArray, salt: int) -> NDArray[np.uint64]:
    """Return a salted hash of pairs: a keyed mixing of 64-bit words."""
    first, second = (np.uint64((salt * odd + 1) % _WORD) for odd in (0x9E3779B97F4A7C15, 3))
    with np.errstate(over="ignore"):
        word = (units.astype(np.uint64) + first) * np.uint64(0xBF58476D1CE4E5B9)
        word ^= word >> np.uint64(29)
        word = (word + keys.astype(np.uint64) * np.uint64(0x94D049BB133111EB)) ^ second
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
            word ^= word >> np.uint64(31)
            word *= np.uint64(factor)
        word ^= word >> np.uint64(32)
    return word


class GroupedTable(GroupedRows):
    """Rows in memory, by unit and key.

    Pairs of a unit and a key are numbered by unit, then key; `pair` has the pair of every row.
    """

    def __init__(
        self,
        units: Ints,
        keys: Ints,
        names: list[Any],
        columns: dict[str, NDArray[np.float64]],
        random_state: Any = None,
        unit_name: str = "unit",
        unit_words: NDArray[np.uint64] | None = None,
        families: dict[str, tuple[frozenset[str], bool]] | None = None,
    ) -> None:
        super().__init__(n_features=len(columns), unit_name=unit_name)
        self._names = names
        self._columns = columns
        self._width = max(len(names), 1)
        code, self._pair = np.unique(units * self._width + keys, return_inverse=True)
        self._unit, self._key = code // self._width, code % self._width
        self._rows = np.bincount(self._pair, minlength=len(code))
        self._units = units
        words = np.arange(int(units.max(initial=-1)) + 1) if unit_words is None else unit_words
        self._unit_words = words.astype(np.uint64)
        self._key_words = words_of(names).view(np.int64)
        # By its own place among sorted keys, which another key may move, but not two of a unit.
        order = sorted(range(len(names)), key=lambda i: key_order(names[i]))
        self._key_place = np.argsort(np.array(order, dtype=np.int64))
        self._families = families or {}  # of each key column, and whether its type is public
        self.hash = self._mixed  # tests put in that of another engine
        self.secret = secret_number(random_state, self.digest)

    def _mixed(self, units: Ints, keys: NDArray, salt: int) -> NDArray[np.uint64]:
        """Return the salted hash of a unit's own id: other units have no part in it."""
        return mixed_words(self._unit_words[units], keys, salt)

    @property
    def _n(self) -> int:
        """The number of units."""
        return len(np.unique(self._unit))

    def check_keys(self, keys: Sequence[Any]) -> None:
        """Raise for stated keys of another type than their column."""
        alone = len(self._families) == 1
        for i, (name, (found, typed)) in enumerate(self._families.items()):
            listed = frozenset(family_of_key(key if alone else key[i]) for key in keys)
            check_listed(name, listed, found, typed)

    def digest(self) -> bytes:
        """Return a hash of the content, for seeded noise."""
        text = hashlib.blake2b(text_of(self._names).encode(), digest_size=32)
        for array in (self._units, self._key[self._pair], *self._columns.values()):
            text.update(np.ascontiguousarray(array).tobytes())
        return text.digest()

    def _ranked(self, chosen: Ints, salt: int, codes: Ints | None) -> tuple[Ints, Ints, Ints]:
        """Return pairs by unit and secret rank, their place in the unit and its number of pairs.

        `codes` are places of public keys: the last half of a rank, so that no two of a unit are
        equal. None: keys are private; of hashes of their own, and their order breaks ties.
        """
        key = self._key[chosen]
        code = self._key_words[key] if codes is None else codes[key]
        last = self._key_place[key] if codes is None else code
        word = self.hash(self._unit[chosen], code, salt)
        order = np.lexsort((last, word & np.uint64(_HIGH), self._unit[chosen]))
        chosen = chosen[order]
        unit = self._unit[chosen]
        start = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1]]) if unit.size else unit
        size = np.diff(np.r_[start, unit.size])
        place = np.arange(unit.size) - np.repeat(start, size)
        return chosen, place, np.repeat(size, size)

    def _codes_of(self, keys: Sequence[Any]) -> Ints:
        """Return the place in `keys` of every key of the table, -1 for others."""
        places = {told_apart(key): i for i, key in enumerate(keys)}
        found = [places.get(told_apart(name), -1) for name in self._names]
        return np.array(found, dtype=np.int64)

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return the keys that have rows and the sums of their units' weights.

        A unit counts in len(weights) of its keys at most, by secret rank, with weights[n - 1] where
        it counts in n. Keys `without` are left out before that.
        """
        chosen = np.flatnonzero(self._codes_of(without)[self._key] < 0) if without else (
            np.arange(len(self._key))
        )  # fmt: skip
        chosen, place, size = self._ranked(chosen, salt, None)
        most = len(weights)
        kept = place < most
        each = np.array(weights, dtype=np.int64)[np.minimum(size[kept], most) - 1]
        key = self._key[chosen[kept]]
        totals = np.zeros(self._width, dtype=np.int64)
        np.add.at(totals, key, each)
        present = sorted(np.unique(key).tolist(), key=lambda i: key_order(self._names[i]))
        return [self._names[i] for i in present], [int(totals[i]) for i in present]

    def shapes(
        self, keys: Sequence[Any] | None, key_edges: Sequence[int], row_edges: Sequence[int]
    ) -> Ints:
        """Count units by their number of keys, then by the rows they have in one of these.

        The one of the smallest rank. Each in the last of the ascending edges, from 1, that it
        reaches.
        """
        codes = None if keys is None else self._codes_of(keys)
        every = np.arange(len(self._key))
        chosen = every if codes is None else np.flatnonzero(codes[self._key] >= 0)
        chosen, place, size = self._ranked(chosen, self.salt(-1), codes)
        first = place == 0
        counts = [
            np.bincount(np.searchsorted(edges, of, side="right") - 1, minlength=len(edges))
            for edges, of in ((key_edges, size[first]), (row_edges, self._rows[chosen[first]]))
        ]
        return np.concatenate(counts).astype(np.int64)

    def spread(self, column: str, edges: Sequence[float]) -> Ints:
        """Return how the values of units are spread over bins: a unit's shares of them, in parts.

        The outer bins hold what is beyond. A unit adds at most 2**FRACTION_BITS in all.
        """
        values = self._columns[column]
        there = ~np.isnan(values)
        unit = self._unit[self._pair[there]]
        place = np.searchsorted(np.array(edges[1:-1]), values[there], side="right")
        width = len(edges) - 1
        cell, counts = np.unique(unit * width + place, return_counts=True)
        rows = np.bincount(unit, minlength=1)[cell // width]
        out = np.zeros(width, dtype=np.int64)
        np.add.at(out, cell % width, (counts << FRACTION_BITS) // rows)
        return out

    def left_out(
        self, keys: Sequence[Any], max_keys: int, max_rows: int, most_keys: int, most_rows: int
    ) -> Ints:
        """Return how many keys of units, and rows, bounding left out; each unit's at most so many.

        Of rows with these keys: those of keys that were left out, and in each of the others what is
        beyond `max_rows`.
        """
        codes = self._codes_of(keys)
        chosen = np.flatnonzero(codes[self._key] >= 0)
        chosen, place, size = self._ranked(chosen, self.salt(-2), codes)
        rows = self._rows[chosen]
        lost = np.where(place < max_keys, np.maximum(rows - max_rows, 0), rows)
        beyond = np.zeros(int(self._unit.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(beyond, self._unit[chosen], np.minimum(lost, most_rows))
        gone = np.minimum(np.maximum(size[place == 0] - max_keys, 0), most_keys).sum()
        return np.array([gone, np.minimum(beyond, most_rows).sum()], dtype=np.int64)

    def totals(
        self, keys: Sequence[Any], terms: Sequence[KeyTerm], max_keys: int, max_rows: int
    ) -> NDArray:
        """Return the integers of terms for every key, (keys, widths of the terms): exact."""
        codes = self._codes_of(keys)
        chosen = np.flatnonzero(codes[self._key] >= 0)
        chosen, place, _ = self._ranked(chosen, self.salt(-2), codes)
        chosen = chosen[place < max_keys]
        to = codes[self._key[chosen]]
        out = []
        for term in terms:
            for values in self._of_pairs(term, max_rows, codes):
                total = np.zeros(len(keys), dtype=object)
                np.add.at(total, to, values[chosen].astype(object))
                out.append(total)
        return np.array(out, dtype=object).reshape(len(out), len(keys)).T

    def _of_pairs(self, term: KeyTerm, max_rows: int, codes: Ints) -> list[Ints]:
        """Return the integers of a term for every pair, bounded."""
        n = len(self._key)
        if term.kind == "units":
            return [np.ones(n, dtype=np.int64)]
        if term.kind == "rows":
            return [np.minimum(self._rows, max_rows)]
        values = self._columns[term.column]
        there = ~np.isnan(values)
        values, pair = values[there], self._pair[there]
        rows = np.bincount(pair, minlength=n)
        counted = np.minimum(rows, max_rows)
        if term.kind == "filled":
            return [counted]
        if term.kind == "bins":
            return self._bins(place_of(values, term), term, pair, rows, max_rows)
        steps = steps_of(values, term)
        if term.kind == "leaves":
            place = np.minimum(steps >> (VALUE_BITS - term.depth), 2**term.depth - 1)
            return self._bins(place, term, pair, rows, max_rows)
        if term.kind == "square":
            about = 2 * steps - term.top
            steps = (about * about) >> VALUE_BITS
        sums = np.zeros(n, dtype=np.int64)
        np.add.at(sums, pair, steps)
        total = bounded(sums, rows, max_rows) - counted * term.offset
        if term.kind != "about":
            return [total]
        center = np.array(term.centers, dtype=np.int64)[np.maximum(codes[self._key], 0)]
        return [((total - center * counted) >> _CENTER_BITS) ** 2]

    def _bins(
        self, place: Ints, term: KeyTerm, pair: Ints, rows: Ints, max_rows: int
    ) -> list[Ints]:
        """Return how many rows of each pair are in every bin, in parts of a row."""
        n, out = len(self._key), []
        for b in range(term_width(term)):
            counts = np.bincount(pair[place == b], minlength=n).astype(np.int64) << FRACTION_BITS
            out.append(bounded(counts, rows, max_rows))
        return out


def place_of(values: NDArray[np.float64], term: KeyTerm) -> Ints:
    """Return the bins of values: each holds its lower edge; the outer ones what is beyond."""
    inner = np.array(term.edges[1:-1])
    return np.asarray(np.searchsorted(inner, values, side="right"), dtype=np.int64)


def steps_of(values: NDArray[np.float64], term: KeyTerm) -> Ints:
    """Return clipped values in steps, rounded to the nearest: each by itself, in any engine."""
    with np.errstate(all="ignore"):
        clipped = np.minimum(np.maximum(values, term.low), term.high)
        steps = np.floor((clipped - term.base) * (1.0 / term.grid) + 0.5)
    return np.clip(steps, 0, term.top).astype(np.int64)


def check_names(
    names: Sequence[Any], *, by: Sequence[str], unit: str, columns: Sequence[str]
) -> None:
    """Raise for columns that a table has not, or that are both key and unit."""
    if not by:
        raise ValueError("by must name at least one column")
    for name in (*by, unit, *columns):
        if name not in names:
            raise ValueError(f"table has no column {name!r}; it has {listed(names)}")
    if unit in by:
        raise ValueError(
            f"column {unit!r} is the unit; a key of its own for every unit would name it: "
            "by must be other columns"
        )
    if len(set(by)) < len(by):
        raise ValueError("by must name each column once")
