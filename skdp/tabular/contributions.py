"""The bounded contributions of units to keys, added up exactly.

A table is divided into buckets, and all rows of a unit are in one bucket. Every answer is a sum
over units. The share of a unit depends only on its own rows, its id and a secret number. So the
buckets are answered one after the other and added up: their number changes no integer.

A unit contributes to the keys of its smallest ranks. The rank of a key is the upper half of a hash
of the secret number, the id and the key. If two keys of a unit have the same rank, the order of the
keys decides.

The queries state how much these integers change with a unit: `skdp.queries.key_totals`,
`skdp.queries.key_selection`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from skdp._config import noise_is_seeded
from skdp.core import noise as samplers
from skdp.core.query import check_ascending, reviewed
from skdp.tabular.cells import identity, key_order, words_of
from skdp.tabular.columns import ColumnType, Ints, stated_value

# --- terms ---------------------------------------------------------------------------------------


VALUE_BITS = 30  # of a clipped value as an integer
FRACTION_BITS = 10  # of a row of a histogram, which a unit with more rows counts in part
POINT_BITS = 20  # 2**20 + 1 points between the bounds are candidates for a quantile
KINDS = ("rows", "units", "filled", "sum", "square", "bins", "leaves", "between", "points", "about")
_GATHERED = 2**24  # rows or points of keys that are held at once
CENTER_BITS = 15  # of a unit's sum about a centre, rounded off before it is squared


@reviewed
@dataclass(frozen=True, eq=False)
class KeyTerm:
    """A statistic that is added up for every key.

    - `kind`: One of `KINDS`. ``"filled"`` counts rows with a value; ``"bins"`` counts values in
      each bin of `edges`, ``"leaves"`` in 2**depth equal bins, and ``"between"`` between the key's
      `cuts`; ``"about"`` adds the square of a unit's sum relative to the key's centre. ``"points"``
      is no sum: values at the nearest of 2**POINT_BITS + 1 points, see
      `Contributions.points_by_key`.
    - `low`, `high`: Values are clipped to these bounds.
    - `zero`: For ``"sum"``: values are relative to 0, in steps of the larger bound. Otherwise they
      are relative to the middle of the bounds.
    - `centers`: For ``"about"``: a centre for each key, in steps from the middle.
    - `cuts`: For ``"between"``: for each key ascending points, as many for each key. A value at a
      cut is above it.
    """

    kind: str
    column: str = ""
    low: float = 0.0
    high: float = 1.0
    zero: bool = False
    edges: tuple[float, ...] = ()
    depth: int = 0
    centers: tuple[int, ...] = ()
    cuts: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        # The bounds of `queries/key_totals.py` hold for these values alone.
        check_ascending(self.edges, "edges")
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.low > self.high:  # NaN: not known yet
            raise ValueError("low must not exceed high")
        if self.zero and self.kind != "sum":
            raise ValueError("zero is for sums alone")
        if self.depth < 0 or any(abs(center) > self.offset for center in self.centers):
            raise ValueError("depth must be at least 0, and centers within the bounds")
        if len(set(map(len, self.cuts))) > 1 or any(list(own) != sorted(own) for own in self.cuts):
            raise ValueError("cuts must ascend, as many of them for each key")

    @property
    def base(self) -> float:
        """The value of step 0."""
        return -max(abs(self.low), abs(self.high)) if self.zero else self.low

    @property
    def grid(self) -> float:
        """The width of a step, in the user's units."""
        width = -self.base if self.zero else self.high - self.low
        return width / 2**VALUE_BITS

    @property
    def top(self) -> int:
        """The largest step of a value."""
        return 2 ** (VALUE_BITS + self.zero)

    @property
    def offset(self) -> int:
        """The step of the middle of the bounds, or of 0: the origin of a sum."""
        return self.top // 2 if self.kind in ("sum", "square", "about") else 0


def term_width(term: KeyTerm) -> int:
    """Return the number of integers of a term for one key."""
    if term.kind == "between":
        return 1 + len(term.cuts[0] if term.cuts else ())
    return {"bins": len(term.edges) - 1, "leaves": 2**term.depth}.get(term.kind, 1)


def bounded(sums: Ints, rows: Ints, max_rows: int) -> Ints:
    """Return sums over `rows` rows, times max_rows / rows if that is below 1, rounded down.

    For sums in [0, rows top] the result is in [0, min(rows, max_rows) top].
    """
    out, many = sums.copy(), np.flatnonzero(rows > max_rows)
    own, n = sums[many], rows[many]
    out[many] = (own // n) * max_rows + ((own % n) * max_rows) // n
    return out


def place_of(values: NDArray[np.float64], term: KeyTerm) -> Ints:
    """Return the bins of values. A bin includes its lower edge, the outer bins all beyond them."""
    inner = np.array(term.edges[1:-1])
    return np.asarray(np.searchsorted(inner, values, side="right"), dtype=np.int64)


def steps_of(values: NDArray[np.float64], term: KeyTerm) -> Ints:
    """Return clipped values in steps, rounded to the nearest integer."""
    with np.errstate(all="ignore"):
        clipped = np.minimum(np.maximum(values, term.low), term.high)
        steps = np.floor((clipped - term.base) * (1.0 / term.grid) + 0.5)
    return np.clip(steps, 0, term.top).astype(np.int64)


def points_of(values: NDArray[np.float64], term: KeyTerm) -> Ints:
    """Return the number of the point that is nearest to each clipped value."""
    shift = VALUE_BITS - POINT_BITS
    return (steps_of(values, term) + (1 << (shift - 1))) >> shift


# --- buckets and sums ----------------------------------------------------------------------------

Words = NDArray[np.uint64]
Columns = Mapping[str, NDArray[np.float64]]

_WORD = 2**64
_HALF = np.uint64(32)
_BLOCK = 2**17  # pairs, whose arrays fit into the caches of a processor
_SMALL = 2**29  # bound on sums of upper halves, and on the number of lower halves: below 2**62


def secret_number(random_state: Any, digest: Callable[[], bytes]) -> int:
    """Return a secret 64-bit number: random, or derived from the seed where noise is seeded."""
    entropy: Any = None
    if noise_is_seeded() and isinstance(random_state, int | np.integer):
        entropy = samplers.SeededEntropy(int(random_state), b"ranks" + digest())
    return int(samplers.uniform_below(_WORD, entropy=entropy))


def mixed_words(units: NDArray, keys: NDArray, salt: int) -> Words:
    """Return a hash of pairs of 64-bit words, keyed by a secret salt."""
    # Multipliers of SplitMix64 (Steele et al. 2014). The salt enters with each of the two words.
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
    """

    def __init__(
        self, start: Ints, unit: Ints, key: Ints, rows: Ints, words: Words, columns: Columns
    ) -> None:
        # The first row of each pair, its unit, its key and its number of rows.
        self.start, self.unit, self.key, self.rows = start, unit, key, rows
        self.words, self.columns = words, columns  # hashes of the units' ids; values of all rows
        self.latest: tuple[Any, int, tuple[Ints, Ints, Ints]] | None = None  # the latest ranking

    @classmethod
    def of_rows(cls, units: Ints, keys: Ints, words: Words, columns: Columns) -> Bucket:
        """Return the bucket of rows in any order; `units` and `keys` are their numbers, from 0."""
        # Unit and key in one integer: one sort, faster than a sort by two columns.
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

    def blocks(self) -> list[Bucket]:
        """Return views of the rows of some units each, of about `_BLOCK` pairs."""
        # Cuts lie where a unit begins, because the rows of a unit must stay together.
        n, ends = self.unit.size, np.append(_starts(self.unit), self.unit.size)
        cuts = ends[np.searchsorted(ends, np.arange(0, n + _BLOCK, _BLOCK).clip(max=n))]
        rows = np.append(self.start, self.rows.sum())[cuts]
        return [
            Bucket(
                self.start[first:last] - begin,
                self.unit[first:last],
                self.key[first:last],
                self.rows[first:last],
                self.words,
                {name: values[begin:end] for name, values in self.columns.items()},
            )
            for first, last, begin, end in zip(cuts, cuts[1:], rows, rows[1:], strict=False)
            if first < last
        ]

    def ranked(
        self, chosen: Ints, words: Callable[[Ints], Words], order: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Return pairs sorted by unit and rank, their place in the unit, and its number of pairs.

        `chosen` are the pairs, ascending; `words` maps pairs to their hashes; `order` is the place
        of each key, which decides between equal ranks.
        """
        unit = self.unit[chosen]
        first = _starts(unit)
        pairs = np.diff(first, append=unit.size)
        size, place = np.repeat(pairs, pairs), np.arange(unit.size) - np.repeat(first, pairs)
        several = np.flatnonzero(size > 1)  # a unit of one pair needs no rank
        pair = chosen[several]
        # Unit and rank in one integer. Equal ranks in a unit are rare; only then keys are compared.
        rank = (self.unit[pair].astype(np.uint64) << _HALF) | (words(pair) >> _HALF)
        by_rank = np.argsort(rank)
        ascending = rank[by_rank]
        if (ascending[1:] == ascending[:-1]).any():
            by_rank = np.lexsort((order[self.key[pair]], rank))
        ranked = chosen.copy()
        ranked[several] = pair[by_rank]
        return ranked, place, size

    def _column(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_], Ints]:
        """Return a column, which rows have a value, and how many of each pair do."""
        values = self.columns[name]
        filled = ~np.isnan(values)
        return values, filled, self.rows if filled.all() else self._sums(filled)

    def _sums(self, values: NDArray) -> Ints:
        """Add up integers of rows for every pair."""
        if not self.start.size:
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(values, self.start, dtype=np.int64)

    def of_pairs(self, term: KeyTerm, max_rows: int, codes: Ints) -> Ints:
        """Return the bounded integer of a term for every pair; `codes` are places of keys."""
        if term.kind == "units":
            return np.ones(self.start.size, dtype=np.int64)
        if term.kind == "rows":
            return np.minimum(self.rows, max_rows)
        values, filled, rows = self._column(term.column)
        counted = np.minimum(rows, max_rows)
        if term.kind == "filled":
            return counted
        steps = steps_of(np.where(filled, values, term.low), term)
        if term.kind == "square":
            steps = ((2 * steps - term.top) ** 2) >> VALUE_BITS
        total: Ints = bounded(self._sums(steps * filled), rows, max_rows) - counted * term.offset
        if term.kind != "about":
            return total
        center = np.array(term.centers, dtype=np.int64)[np.maximum(codes[self.key], 0)]
        return ((total - center * counted) >> CENTER_BITS) ** 2

    def _values(self, column: str, pairs: Ints) -> tuple[Ints, NDArray[np.float64], Ints]:
        """Return the pairs and values of the rows of some pairs, and how many each pair has."""
        # Only rows of these pairs are read: the others may be most of a bucket.
        values, filled, rows = self._column(column)
        chosen = np.zeros(self.start.size, dtype=bool)
        chosen[pairs] = True
        seen = np.flatnonzero(filled & np.repeat(chosen, self.rows))
        return np.repeat(np.arange(self.start.size), self.rows)[seen], values[seen], rows

    def points(self, term: KeyTerm, max_rows: int, pairs: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the values of some pairs: their pairs, their points, and their weights.

        The i-th value of m in a pair, in ascending order, weighs what `bounded` makes of i more
        than of i - 1: all together weigh min(m, max_rows) in steps of 2**-FRACTION_BITS.
        """
        pair, values, rows = self._values(term.column, pairs)
        point = points_of(values, term)
        weight = np.full(pair.size, 1 << FRACTION_BITS)
        many = np.flatnonzero(rows[pair] > max_rows)
        if many.size:
            many = many[np.lexsort((point[many], pair[many]))]
            first = _starts(pair[many])
            of_pair = np.diff(first, append=many.size)
            place = np.arange(many.size) - np.repeat(first, of_pair)
            m = np.repeat(of_pair, of_pair)
            below, up_to = (bounded(i << FRACTION_BITS, m, max_rows) for i in (place, place + 1))
            weight[many] = up_to - below
        return pair, point, weight

    def cells(
        self, term: KeyTerm, max_rows: int, pairs: Ints, codes: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Return the values of some pairs: their pairs, their bins, and their counts.

        In a pair with at most `max_rows` values each value counts in full. In other pairs the
        values of a bin are counted together. `codes` are places of keys.
        """
        width = term_width(term)
        pair, values, rows = self._values(term.column, pairs)
        if term.kind == "bins":
            place = place_of(values, term)
        elif term.kind == "between":
            point, key = points_of(values, term), codes[self.key[pair]]
            place = np.zeros(pair.size, dtype=np.int64)
            for cut in np.array(term.cuts, dtype=np.int64).T:
                place += cut[key] <= point
        else:
            place = np.minimum(steps_of(values, term) >> (VALUE_BITS - term.depth), width - 1)
        full = rows[pair] <= max_rows
        cell, count = np.unique(pair[~full] * width + place[~full], return_counts=True)
        several = cell // width
        parts = bounded(count << FRACTION_BITS, rows[several], max_rows)
        ones = np.full(np.count_nonzero(full), 1 << FRACTION_BITS)
        return (
            np.append(pair[full], several),
            np.append(place[full], cell % width),
            np.append(ones, parts),
        )


def _starts(ascending: Ints) -> Ints:
    """Return the places at which a new value begins."""
    new = np.r_[True, ascending[1:] != ascending[:-1]]
    return np.flatnonzero(new[: ascending.size])


def _exact_sums(values: Ints, to: Ints, n: int) -> NDArray:
    """Return sums by place, as integers of Python if 64 bits might be too few."""
    # Halves of 32 bits: of fewer than 2**31 values, neither sum overflows.
    low, high = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    np.add.at(low, to, values & 0xFFFFFFFF)
    np.add.at(high, to, values >> 32)
    if np.abs(high).max(initial=0) < _SMALL and values.size < _SMALL:
        return (high << 32) + low
    return high.astype(object) * 2**32 + low


def _merged(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Return the distinct codes of all parts, ascending, and the sums of their weights."""
    code, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(code, kind="stable")  # of a sorted part and others: quick
    code = code[order]
    start = _starts(code)
    return code[start], np.add.reduceat(weight[order], start) if start.size else weight


class Contributions:
    """The contributions of the units of a table, by key; a session reads it as `skdp.tabular.Rows`.

    - `buckets`: Yields the same buckets each time.
    - `names`: The keys of the table. The number of a key is its place in this list.
    - `n_features`: Number of columns of values.
    - `random_state`: Seed of the secret number, used only where noise is seeded.
    - `unit_name`: None: each row is a unit.
    - `types`: Type of each key column.
    - `release`: Removes the files that the buckets are read from.
    """

    filtered = False
    n_is_private = True  # a unit may have rows in only one of two neighbouring tables
    units = None  # each row that a session sees is a unit already
    keys_per_row = None  # any number; as many as a query asks for are chosen by rank

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
        self._codes: tuple[Sequence[Any], Ints] = (), np.full(len(names), -1)
        self._own: tuple[Ints, Ints] | None = None
        self.kept: dict[Any, Any] = {}  # results that queries compute once
        self.hash: Callable[[Words, NDArray, int], Words] = mixed_words  # tests replace it
        self.secret = secret_number(random_state, self.digest)

    def own_keys(self) -> tuple[Ints, Ints]:
        """Return hashes of the keys of the table, and the place of each in sorted order.

        Only private keys need them. A fit asks for them before the charge: after it, nothing is
        computed from cells for the first time. Another key may change places, but not the order of
        two keys of a unit.
        """
        if self._own is None:
            text = set(map(type, self._names)) <= {str}
            ordered = self._names if text else list(map(key_order, self._names))
            order = sorted(range(len(ordered)), key=ordered.__getitem__)
            places = np.argsort(np.array(order, dtype=np.int64))
            self._own = words_of(self._names).view(np.int64), places
        return self._own

    def salt(self, number: int) -> int:
        """Return one of the secret numbers that rank keys."""
        mixed = hashlib.blake2b(f"{self.secret}|{number}".encode(), digest_size=8).digest()
        return int.from_bytes(mixed, "little")

    def digest(self) -> bytes:
        """Return a hash of the rows in any order, for seeded noise and nothing else."""
        key_words = words_of(self._names)
        count = total = 0
        for bucket in self.buckets():
            word = mixed_words(
                np.repeat(bucket.words[bucket.unit], bucket.rows),
                np.repeat(key_words[bucket.key], bucket.rows),
                0,
            )
            for i, name in enumerate(sorted(bucket.columns), 1):
                values = bucket.columns[name]
                values = np.where(np.isnan(values), np.nan, values)  # one NaN
                word = mixed_words(word, values.view(np.uint64), i)
            count += word.size
            total = (total + int(np.add.reduce(word))) % _WORD
        return hashlib.blake2b(f"{count}|{total}".encode(), digest_size=32).digest()

    def close(self) -> None:
        """Forget all results, and remove temporary files."""
        self.kept.clear()
        if self._release is not None:
            self._release()

    def spans(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise TypeError: only queries of keys read such a table."""
        raise TypeError("a table of units is read by queries of keys only")

    chunk = spans

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __reduce__(self) -> Any:
        raise TypeError("private rows cannot be copied or pickled")

    @property
    def _n(self) -> int:
        """The number of units."""
        return sum(_starts(bucket.unit).size for bucket in self.buckets())

    def stated_keys(self, keys: Sequence[Any]) -> tuple[Any, ...]:
        """Return stated keys as values of the types of their columns, sorted.

        TypeError for a key that the type of its column does not have; ValueError for equal keys.
        """
        kinds = list(self.types.items())
        if kinds[0][1].kind in ("text", "any") and set(map(type, keys)) == {str}:
            return tuple(sorted(keys))
        typed = []
        for key in keys:
            cells = zip(key if len(kinds) > 1 else (key,), kinds, strict=True)
            typed.append(tuple(stated_value(cell, kind, name) for cell, (name, kind) in cells))
        if len(set(map(identity, typed))) < len(typed):
            raise ValueError("keys must be at least one, and no key twice")
        typed.sort(key=key_order)
        return tuple(typed) if len(kinds) > 1 else tuple(key for (key,) in typed)

    def _codes_of(self, keys: Sequence[Any]) -> Ints:
        """Return the place in `keys` of every key of the table, -1 for others."""
        known, codes = self._codes
        # Compared by identity: 1 equals True, which is another key.
        if len(known) != len(keys) or not all(map(is_, known, keys)):
            places = {identity(key): i for i, key in enumerate(keys)}
            codes = np.array([places.get(identity(name), -1) for name in self._names], np.int64)
            self._codes = tuple(keys), codes
        return codes

    def _ranked(
        self, bucket: Bucket, salt: int, codes: Ints | None, gone: Ints | None = None
    ) -> tuple[Ints, Ints, Ints]:
        """Return pairs of a bucket by unit and secret rank; see `Bucket.ranked`.

        With public keys, `codes` are the places of the keys of the table among them, and pairs of
        other keys are left out. With private keys `codes` is None, and pairs of keys that have a
        place in `gone` are left out.
        """
        last, inputs = bucket.latest, (codes, self.hash)
        # `left_out` and `totals` need the same ranking.
        if codes is not None and last and last[1] == salt and all(map(is_, last[0], inputs)):
            return last[2]
        words, order = self.own_keys() if codes is None else (codes, codes)
        if codes is not None:
            chosen = np.flatnonzero((codes >= 0)[bucket.key])
        elif gone is not None:
            chosen = np.flatnonzero((gone < 0)[bucket.key])
        else:
            chosen = np.arange(bucket.key.size)

        def hashes(pairs: Ints) -> Words:
            return self.hash(bucket.words[bucket.unit[pairs]], words[bucket.key[pairs]], salt)

        ranked = bucket.ranked(chosen, hashes, order)
        bucket.latest = inputs, salt, ranked
        return ranked

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return the keys that have rows, sorted, and the sums of their units' weights.

        A unit counts in at most len(weights) of its keys, those of the smallest secret ranks. If it
        counts in n keys, its weight in each is weights[n - 1]. Keys in `without` are left out
        first.
        """
        gone = self._codes_of(without) if without else None
        most, weight = len(weights), np.array(weights, dtype=np.int64)
        totals = np.zeros(len(self._names), dtype=np.int64)
        seen = np.zeros(len(self._names), dtype=bool)
        for bucket in self.buckets():
            chosen, place, size = self._ranked(bucket, salt, None, gone)
            counted = place < most
            key = bucket.key[chosen[counted]]
            np.add.at(totals, key, weight[np.minimum(size[counted], most) - 1])
            seen[key] = True
        return self._sorted(np.flatnonzero(seen), totals)

    def _sorted(self, present: Ints, totals: Ints) -> tuple[list[Any], list[int]]:
        """Return keys by their numbers, sorted, and their totals."""
        present = present[np.argsort(self.own_keys()[1][present])]
        return [self._names[i] for i in present.tolist()], totals[present].tolist()

    def key_counts(self, max_keys: int, max_rows: int) -> tuple[list[Any], list[int]]:
        """Return the keys in which units count, sorted, and their numbers of rows.

        A unit counts in its `max_keys` keys of the smallest secret ranks, in each with its rows
        there, at most `max_rows` of them.
        """
        totals = np.zeros(len(self._names), dtype=np.int64)
        for bucket in self.buckets():
            chosen, place, _ = self._ranked(bucket, self.salt(-2), None)
            pairs = chosen[place < max_keys]
            np.add.at(totals, bucket.key[pairs], np.minimum(bucket.rows[pairs], max_rows))
        return self._sorted(np.flatnonzero(totals), totals)

    def shapes(
        self, keys: Sequence[Any] | None, key_edges: Sequence[int], row_edges: Sequence[int]
    ) -> Ints:
        """Return a histogram of units by their number of keys, then one by their rows in a key.

        That key is the one of the smallest rank. A number is in the bin of the last edge that it
        reaches; edges ascend from 1.
        """
        codes = None if keys is None else self._codes_of(keys)
        counts = [np.zeros(len(edges), dtype=np.int64) for edges in (key_edges, row_edges)]
        for bucket in self.buckets():
            chosen, place, size = self._ranked(bucket, self.salt(-1), codes)
            first = place == 0
            numbers = size[first], bucket.rows[chosen[first]]
            for count, edges, n in zip(counts, (key_edges, row_edges), numbers, strict=True):
                reached = np.searchsorted(edges, n, side="right") - 1
                count += np.bincount(reached, minlength=len(edges))
        return np.concatenate(counts)

    def spread(self, column: str, edges: Sequence[float]) -> Ints:
        """Return the sum over units of the fraction of a unit's values that are in each bin.

        The outer bins include the values beyond them. A unit adds at most 2**FRACTION_BITS in all.
        """
        width = len(edges) - 1
        out = np.zeros(width, dtype=np.int64)
        for bucket in self.buckets():
            values = bucket.columns[column]
            filled = ~np.isnan(values)
            unit = np.repeat(bucket.unit, bucket.rows)[filled]
            place = np.searchsorted(np.array(edges[1:-1]), values[filled], side="right")
            cell, counts = np.unique(unit * width + place, return_counts=True)
            rows = np.bincount(unit, minlength=1)[cell // width]
            np.add.at(out, cell % width, (counts << FRACTION_BITS) // rows)
        return out

    def left_out(
        self,
        keys: Sequence[Any] | None,
        max_keys: int,
        max_rows: int,
        most_keys: int,
        most_rows: int,
    ) -> Ints:
        """Return the number of (unit, key) pairs, and of rows, that bounding left out.

        Rows are left out in the pairs that are left out, and in others beyond `max_rows`. A unit
        adds at most `most_keys` pairs and `most_rows` rows. Rows of other keys than `keys` do not
        count; None for all keys of the table, as `key_counts` ranks them.
        """
        codes = None if keys is None else self._codes_of(keys)
        out = np.zeros(2, dtype=np.int64)
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
        out = np.zeros((len(keys), starts[-1]), dtype=np.int64)
        for bucket in self.buckets():
            chosen, place, _ = self._ranked(bucket, self.salt(-2), codes)
            chosen = chosen[place < max_keys]
            to = codes[bucket.key[chosen]]
            for term, start in zip(terms, starts, strict=False):
                if term.kind in ("bins", "leaves", "between"):
                    pair, bins, parts = bucket.cells(term, max_rows, chosen, codes)
                    cell = codes[bucket.key[pair]] * out.shape[1] + start + bins
                    np.add.at(out.reshape(-1), cell, parts)
                else:
                    sums = _exact_sums(
                        bucket.of_pairs(term, max_rows, codes)[chosen], to, len(keys)
                    )
                    if sums.dtype == object or np.abs(out[:, start]).max(initial=0) >= 2**62:
                        out = out.astype(object)
                    out[:, start] += sums
        return out

    def points_by_key(
        self, keys: Sequence[Any], term: KeyTerm, max_keys: int, max_rows: int
    ) -> Iterator[tuple[int, Ints, Ints, Ints]]:
        """Yield, for some keys at a time: the first key, starts, points and weights.

        The points of the i-th of these keys are those from starts[i] to starts[i + 1] - 1, distinct
        and ascending, with the sums of the weights of their rows; see `Bucket.points`. All keys
        are held at once, unless rows and points are many: then buckets are read several times.
        """
        codes = self._codes_of(keys)
        rows = sum(int(bucket.rows.sum()) for bucket in self.buckets())
        times = -(-min(rows, len(keys) << POINT_BITS) // _GATHERED)
        together = max(-(-len(keys) // max(times, 1)), 1)
        for first in range(0, len(keys), together):
            last = min(first + together, len(keys))
            code, weight = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
            waiting: list[tuple[Ints, Ints]] = []
            for bucket in self.buckets():
                chosen, place, _ = self._ranked(bucket, self.salt(-2), codes)
                key = codes[bucket.key[chosen]]
                chosen = chosen[(place < max_keys) & (key >= first) & (key < last)]
                pair, point, own = bucket.points(term, max_rows, chosen)
                key = codes[bucket.key[pair]] - first
                waiting.append(((key << (POINT_BITS + 1)) | point, own))
                # Merging costs as much as what has been merged.
                if sum(part.size for part, _ in waiting) >= max(code.size, _BLOCK):
                    code, weight = _merged([(code, weight), *waiting])
                    waiting.clear()
            code, weight = _merged([(code, weight), *waiting])
            ends = np.arange(last - first + 1) << (POINT_BITS + 1)
            starts = np.searchsorted(code, ends)
            yield first, starts, code & ((2 << POINT_BITS) - 1), weight
