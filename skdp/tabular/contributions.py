"""What units contribute by key: exact integers of rows that are sorted by unit and key.

A table is cut into buckets of whole units. Every answer is a sum over units. What one unit adds
depends on its own rows, its own id and the secret number, so the buckets are answered one after the
other and added up exactly: how many there are changes no integer. By how much the integers may move
is said by the queries that ask (`skdp.queries.key_totals`, `skdp.queries.key_selection`).

**Rows.** A unit contributes at most `max_rows` rows' worth to a key: of m rows each counts
max_rows / m, rounded down to the integers in which values are counted.

**Ranks.** A unit contributes to the keys of its smallest ranks. The rank of a key is the upper half
of a hash of the secret, the id and the key; where two keys of a unit have the same half, the order
of the keys decides. So no two ranks of a unit are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._config import noise_is_seeded
from skdp.core import noise as samplers
from skdp.core.query import check_ascending, reviewed
from skdp.tabular.cells import identity, key_order, words_of
from skdp.tabular.columns import ColumnType, Ints, stated_value

__all__ = [
    "CENTER_BITS",
    "FRACTION_BITS",
    "VALUE_BITS",
    "Bucket",
    "Contributions",
    "GroupedTable",
    "Ints",
    "KeyTerm",
    "Words",
    "bounded",
    "mixed_words",
    "place_of",
    "steps_of",
    "term_width",
]


# --- terms ---------------------------------------------------------------------------------------


VALUE_BITS = 30  # of a clipped value between its bounds
FRACTION_BITS = 10  # of a row that counts in part, in a histogram
CENTER_BITS = 15  # of a unit's sum about a centre, before it is squared


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


def bounded(sums: Ints, rows: Ints, max_rows: int) -> Ints:
    """Return sums of so many rows, each of which counts max_rows / rows where they are more.

    Rounded down; of sums in [0, rows top] the result is in [0, min(rows, max_rows) top].
    """
    most = np.maximum(rows, 1)
    part = (sums // most) * max_rows + ((sums % most) * max_rows) // most
    return np.where(rows > max_rows, part, sums)


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


# --- buckets and sums ----------------------------------------------------------------------------

Words = NDArray[np.uint64]
Columns = Mapping[str, NDArray[np.float64]]

_WORD = 2**64
_HALF = np.uint64(32)
_BINNED = ("bins", "leaves")


def secret_number(random_state: Any, digest: Callable[[], bytes]) -> int:
    """Return a secret 64-bit number: of the operating system, or of the seed of seeded noise."""
    entropy: Any = None
    if noise_is_seeded() and isinstance(random_state, int | np.integer):
        entropy = samplers.SeededEntropy(int(random_state), b"ranks" + digest())
    return int(samplers.uniform_below(_WORD, entropy=entropy))


def mixed_words(units: NDArray, keys: NDArray, salt: int) -> Words:
    """Return a salted hash of pairs of 64-bit words: a keyed mixing."""
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


class Bucket:
    """Rows of some units, sorted by unit and key.

    The rows of one unit in one key are a *pair*. Pairs are numbered by unit, then key.

    Attributes
    ----------
    start : ndarray of int of shape (n_pairs,)
        The first row of each pair.
    unit, key, rows : ndarray of int of shape (n_pairs,)
        Unit and key of each pair, and its number of rows.
    words : ndarray of uint64 of shape (n_units,)
        A hash of each unit's id.
    columns : mapping of ndarray
        Values of all rows.
    """

    def __init__(
        self, start: Ints, unit: Ints, key: Ints, rows: Ints, words: Words, columns: Columns
    ) -> None:
        self.start, self.unit, self.key, self.rows = start, unit, key, rows
        self.words, self.columns = words, columns

    @classmethod
    def of_rows(cls, units: Ints, keys: Ints, words: Words, columns: Columns) -> Bucket:
        """Sort rows; `units` and `keys` are numbers of the unit and the key of each."""
        bits = int(keys.max(initial=0)).bit_length()
        code = (units << bits) | keys
        values: Columns = {}
        if columns:
            order = np.argsort(code)  # the order within a pair changes no sum
            code, values = code[order], {name: own[order] for name, own in columns.items()}
        else:
            code.sort()
        start = _starts(code)
        pair = code[start]
        rows = np.diff(start, append=code.size)
        return cls(start, pair >> bits, pair & (2**bits - 1), rows, words, values)

    def ranked(
        self, chosen: Ints, words: Callable[[Ints], Words], order: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Return pairs by unit and rank, their place in the unit, and its number of pairs.

        Parameters
        ----------
        chosen : ndarray of int
            Ascending pairs.
        words : callable
            Maps pairs to their hashes.
        order : ndarray of int
            Of the keys: the place of each.
        """
        unit = self.unit[chosen]
        first = _starts(unit)
        pairs = np.diff(first, append=unit.size)
        size, place = np.repeat(pairs, pairs), np.arange(unit.size) - np.repeat(first, pairs)
        several = np.flatnonzero(size > 1)  # a unit of one pair needs no rank
        pair = chosen[several]
        rank = (self.unit[pair].astype(np.uint64) << _HALF) | (words(pair) >> _HALF)
        by_rank = np.argsort(rank)
        ascending = rank[by_rank]
        if (ascending[1:] == ascending[:-1]).any():
            by_rank = np.lexsort((order[self.key[pair]], rank))
        ranked = chosen.copy()
        ranked[several] = pair[by_rank]
        return ranked, place, size

    def _sums(self, values: Ints) -> Ints:
        """Add up integers of rows for every pair."""
        return np.add.reduceat(values, self.start) if self.start.size else values[:0]

    def of_pairs(self, term: KeyTerm, max_rows: int, codes: Ints) -> Ints:
        """Return the bounded integer of a term for every pair; `codes` are places of keys."""
        if term.kind == "units":
            return np.ones(self.start.size, dtype=np.int64)
        if term.kind == "rows":
            return np.minimum(self.rows, max_rows)
        values = self.columns[term.column]
        there = ~np.isnan(values)
        rows = self._sums(there.astype(np.int64))
        counted = np.minimum(rows, max_rows)
        if term.kind == "filled":
            return counted
        steps = steps_of(np.where(there, values, term.low), term)
        if term.kind == "square":
            about = 2 * steps - term.top
            steps = (about * about) >> VALUE_BITS
        sums = self._sums(np.where(there, steps, 0))
        total: Ints = bounded(sums, rows, max_rows) - counted * term.offset
        if term.kind != "about":
            return total
        center = np.array(term.centers, dtype=np.int64)[np.maximum(codes[self.key], 0)]
        return ((total - center * counted) >> CENTER_BITS) ** 2

    def cells(self, term: KeyTerm, max_rows: int, pairs: Ints, codes: Ints, n_keys: int) -> Ints:
        """Return the rows of each key in every bin, in parts of a row, from some of the pairs.

        Where a pair has at most `max_rows` values each counts in full, so the values of all such
        pairs are counted together; those of other pairs by pair.
        """
        width, values = term_width(term), self.columns[term.column]
        there = ~np.isnan(values)
        filled = self._sums(there.astype(np.int64))
        kept = np.zeros(self.start.size, dtype=bool)
        kept[pairs] = True
        seen = np.flatnonzero(there & np.repeat(kept, self.rows))
        pair, values = np.repeat(np.arange(self.start.size), self.rows)[seen], values[seen]
        if term.kind == "bins":
            place = place_of(values, term)
        else:
            place = np.minimum(steps_of(values, term) >> (VALUE_BITS - term.depth), width - 1)
        whole, to = filled[pair] <= max_rows, codes[self.key]
        cell = to[pair[whole]] * width + place[whole]
        counts = np.bincount(cell, minlength=n_keys * width).astype(np.int64) << FRACTION_BITS
        cell, count = np.unique(pair[~whole] * width + place[~whole], return_counts=True)
        pair = cell // width
        part = bounded(count.astype(np.int64) << FRACTION_BITS, filled[pair], max_rows)
        np.add.at(counts, to[pair] * width + cell % width, part)
        return counts.reshape(n_keys, width)


def _changes(ascending: Ints) -> NDArray[np.bool_]:
    """Return whether a new value begins, for each place."""
    return np.r_[np.ones(ascending[:1].size, dtype=bool), ascending[1:] != ascending[:-1]]


def _starts(ascending: Ints) -> Ints:
    """Return where a new value begins."""
    return np.flatnonzero(_changes(ascending))


def _exact_sums(values: Ints, to: Ints, n: int) -> NDArray:
    """Return sums by place as integers of Python: those of 64 bits may not be enough."""
    low, high = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    np.add.at(low, to, values & 0xFFFFFFFF)
    np.add.at(high, to, values >> 32)
    return high.astype(object) * 2**32 + low


class Contributions:
    """What the units of a table contribute, by key; it has the face of `skdp.tabular.Rows`.

    Parameters
    ----------
    buckets : callable
        Yields the same buckets each time.
    names : list
        Plain keys: a key's number is its place here.
    n_features : int
        Number of columns of values.
    random_state : object
        A seed of the secret number where noise is seeded.
    unit_name : str or None
        None: each row is a unit.
    types : dict of ColumnType, default=None
        Of each key column.
    release : callable, default=None
        Removes what the buckets are read from.
    """

    filtered = False
    n_is_private = True  # a unit may have no row on one side
    units = None  # a row of this table is a unit already

    def __init__(
        self,
        buckets: Callable[[], Iterable[Bucket]],
        names: list[Any],
        n_features: int,
        random_state: Any = None,
        unit_name: str | None = "unit",
        types: dict[str, ColumnType] | None = None,
        release: Callable[[], object] | None = None,
    ) -> None:
        self.n_features, self.unit_name = n_features, unit_name
        self.buckets, self._names, self.types = buckets, names, types or {}
        self._release = release
        self._asked: tuple[Sequence[Any], Ints] | None = None
        # Now, which is before the charge: after it nothing that a cell could make fail is computed.
        if set(map(type, names)) <= {str}:
            order = sorted(range(len(names)), key=names.__getitem__)
        else:
            order = sorted(range(len(names)), key=lambda i: key_order(names[i]))
        # Hashes of the keys of the table, and their places once they are sorted. Another key may
        # move a place, but not the order of two keys of a unit.
        self._own = words_of(names).view(np.int64), np.argsort(np.array(order, dtype=np.int64))
        self._last: tuple[Any, int, tuple[Ints, Ints, Ints]] | None = None  # what was ranked last
        self.kept: dict[Any, Any] = {}  # what queries have computed
        # Of a unit's own id and a key: other units have no part in it. Tests put in another one.
        self.hash: Callable[[Words, NDArray, int], Words] = mixed_words
        self.secret = secret_number(random_state, self.digest)

    def salt(self, number: int) -> int:
        """Return one of the secret numbers that rank keys."""
        mixed = hashlib.blake2b(f"{self.secret}|{number}".encode(), digest_size=8).digest()
        return int.from_bytes(mixed, "little")

    def digest(self) -> bytes:
        """Return a hash of the rows in any order, for seeded noise and nothing else."""
        key_words = words_of(self._names)
        count = total = 0
        for bucket in self.buckets():
            unit, key = (np.repeat(one, bucket.rows) for one in (bucket.unit, bucket.key))
            word = mixed_words(bucket.words[unit], key_words[key], 0)
            for i, name in enumerate(sorted(bucket.columns), 1):
                values = bucket.columns[name]
                values = np.where(np.isnan(values), np.nan, values)  # one NaN
                word = mixed_words(word, values.view(np.uint64), i)
            count += word.size
            total = (total + int(np.add.reduce(word))) % _WORD
        return hashlib.blake2b(f"{count}|{total}".encode(), digest_size=32).digest()

    def close(self) -> None:
        """Leave nothing behind."""
        self.kept.clear()
        if self._release is not None:
            self._release()

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

    @property
    def _n(self) -> int:
        """The number of units."""
        return sum(int(np.count_nonzero(_changes(bucket.unit))) for bucket in self.buckets())

    def stated_keys(self, keys: Sequence[Any]) -> tuple[Any, ...]:
        """Return stated keys as values of the types of their columns, sorted.

        Raises
        ------
        TypeError, ValueError
            For keys that the type of their column has not, and for keys that become equal.
        """
        kinds = list(self.types.items())
        if kinds[0][1].kind in ("text", "any") and set(map(type, keys)) == {str}:
            return tuple(sorted(keys))
        parts = [key if len(kinds) > 1 else (key,) for key in keys]
        made = []
        for key in parts:
            cells = zip(key, kinds, strict=True)
            made.append(tuple(stated_value(cell, kind, name) for cell, (name, kind) in cells))
        if len(set(map(identity, made))) < len(made):
            raise ValueError("keys must be at least one, and no key twice")
        made.sort(key=key_order)
        return tuple(made) if len(kinds) > 1 else tuple(key for (key,) in made)

    def _codes_of(self, keys: Sequence[Any]) -> Ints:
        """Return the place in `keys` of every key of the table, -1 for others."""
        asked = self._asked
        # By identity: 1 equals True, which is another key.
        same = asked is not None and len(asked[0]) == len(keys) and all(map(is_, asked[0], keys))
        if asked is None or not same:
            places = {identity(key): i for i, key in enumerate(keys)}
            codes = [places.get(identity(name), -1) for name in self._names]
            asked = self._asked = tuple(keys), np.array(codes, dtype=np.int64)
        return asked[1]

    def _ranked(
        self, bucket: Bucket, salt: int, codes: Ints | None, gone: Ints | None = None
    ) -> tuple[Ints, Ints, Ints]:
        """Return pairs of a bucket by unit and secret rank; see `Bucket.ranked`.

        `codes`: places of public keys, which their hash is of; None for private keys, all but those
        that have a place in `gone`.
        """
        asked = bucket, codes, self.hash
        last = self._last  # what is left out is asked for, then totals
        if codes is not None and last and last[1] == salt and all(map(is_, last[0], asked)):
            return last[2]
        words, order = self._own if codes is None else (codes, codes)
        if codes is None and gone is None:
            chosen = np.arange(bucket.key.size)
        else:
            public = (gone if codes is None else codes)[bucket.key] >= 0  # type: ignore[index]
            chosen = np.flatnonzero(~public if codes is None else public)

        def hashes(pairs: Ints) -> Words:
            return self.hash(bucket.words[bucket.unit[pairs]], words[bucket.key[pairs]], salt)

        ranked = bucket.ranked(chosen, hashes, order)
        self._last = asked, salt, ranked
        return ranked

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return the keys that have rows and the sums of their units' weights.

        A unit counts in len(weights) of its keys at most, by secret rank, with weights[n - 1] where
        it counts in n. Keys `without` are left out before that.
        """
        gone = self._codes_of(without) if without else None
        most, each = len(weights), np.array(weights, dtype=np.int64)
        totals = np.zeros(len(self._names), dtype=np.int64)
        seen = np.zeros(len(self._names), dtype=bool)
        for bucket in self.buckets():
            chosen, place, size = self._ranked(bucket, salt, None, gone)
            kept = place < most
            key = bucket.key[chosen[kept]]
            np.add.at(totals, key, each[np.minimum(size[kept], most) - 1])
            seen[key] = True
        order = self._own[1]
        present = np.flatnonzero(seen)
        present = present[np.argsort(order[present])]
        return [self._names[i] for i in present.tolist()], totals[present].tolist()

    def shapes(
        self, keys: Sequence[Any] | None, key_edges: Sequence[int], row_edges: Sequence[int]
    ) -> Ints:
        """Count units by their number of keys, then by the rows they have in one of these.

        The one of the smallest rank. Each in the last of the ascending edges, from 1, that it
        reaches.
        """
        codes = None if keys is None else self._codes_of(keys)
        counts = [np.zeros(len(edges), dtype=np.int64) for edges in (key_edges, row_edges)]
        for bucket in self.buckets():
            chosen, place, size = self._ranked(bucket, self.salt(-1), codes)
            first = place == 0
            numbers = size[first], bucket.rows[chosen[first]]
            for count, edges, of in zip(counts, (key_edges, row_edges), numbers, strict=True):
                reached = np.searchsorted(edges, of, side="right") - 1
                count += np.bincount(reached, minlength=len(edges))
        return np.concatenate(counts)

    def spread(self, column: str, edges: Sequence[float]) -> Ints:
        """Return how the values of units are spread over bins: a unit's shares of them, in parts.

        The outer bins hold what is beyond. A unit adds at most 2**FRACTION_BITS in all.
        """
        width = len(edges) - 1
        out = np.zeros(width, dtype=np.int64)
        for bucket in self.buckets():
            values = bucket.columns[column]
            there = ~np.isnan(values)
            unit = np.repeat(bucket.unit, bucket.rows)[there]
            place = np.searchsorted(np.array(edges[1:-1]), values[there], side="right")
            cell, counts = np.unique(unit * width + place, return_counts=True)
            rows = np.bincount(unit, minlength=1)[cell // width]
            np.add.at(out, cell % width, (counts << FRACTION_BITS) // rows)
        return out

    def left_out(
        self, keys: Sequence[Any], max_keys: int, max_rows: int, most_keys: int, most_rows: int
    ) -> Ints:
        """Return how many keys of units, and rows, bounding left out; each unit's at most so many.

        Of rows with these keys: those of keys that were left out, and in each of the others what is
        beyond `max_rows`.
        """
        codes, out = self._codes_of(keys), np.zeros(2, dtype=np.int64)
        for bucket in self.buckets():
            chosen, place, size = self._ranked(bucket, self.salt(-2), codes)
            rows, start = bucket.rows[chosen], np.flatnonzero(place == 0)
            lost = np.where(place < max_keys, np.maximum(rows - max_rows, 0), rows)
            lost = np.minimum(lost, most_rows)
            beyond = np.add.reduceat(lost, start) if start.size else lost
            out[0] += np.clip(size[start] - max_keys, 0, most_keys).sum()
            out[1] += np.minimum(beyond, most_rows).sum()
        return out

    def totals(
        self, keys: Sequence[Any], terms: Sequence[KeyTerm], max_keys: int, max_rows: int
    ) -> NDArray:
        """Return the integers of terms for every key, (keys, widths of the terms): exact."""
        codes = self._codes_of(keys)
        starts = np.cumsum([0, *map(term_width, terms)]).tolist()
        out = np.zeros((len(keys), starts[-1]), dtype=object)
        for bucket in self.buckets():
            chosen, place, _ = self._ranked(bucket, self.salt(-2), codes)
            chosen = chosen[place < max_keys]
            to = codes[bucket.key[chosen]]
            for term, start, stop in zip(terms, starts, starts[1:], strict=False):
                if term.kind in _BINNED:
                    out[:, start:stop] += bucket.cells(term, max_rows, chosen, codes, len(keys))
                else:
                    values = bucket.of_pairs(term, max_rows, codes)[chosen]
                    out[:, start] += _exact_sums(values, to, len(keys))
        return out


class GroupedTable(Contributions):
    """Rows in memory, by numbers of units and keys: one bucket.

    Parameters
    ----------
    units, keys : ndarray of int of shape (n_rows,)
    names : list
        Keys.
    columns : dict of ndarray
        Values; NaN where they are missing.
    random_state : object
        As of `Contributions`.
    """

    def __init__(
        self,
        units: Ints,
        keys: Ints,
        names: list[Any],
        columns: dict[str, NDArray[np.float64]],
        random_state: Any = None,
    ) -> None:
        words = np.arange(int(units.max(initial=-1)) + 1, dtype=np.uint64)
        bucket = Bucket.of_rows(units, keys, words, columns)
        super().__init__(lambda: [bucket], names, len(columns), random_state)
