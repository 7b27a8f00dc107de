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

__all__ = [
    "CENTER_BITS",
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
CENTER_BITS = 15  # of a unit's sum about a centre, before it is squared
_WORD = 2**64


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


from skdp.tabular.contributions import Bucket, Contributions  # noqa: E402  it needs the terms


class GroupedTable(Contributions):
    """Rows in memory, by unit and key: one bucket."""

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
        bucket = Bucket(units, keys, columns)
        super().__init__(lambda: [bucket], names, len(columns), unit_name, families)
        self._columns, self._units, self._keys = columns, units, keys
        words = np.arange(int(units.max(initial=-1)) + 1) if unit_words is None else unit_words
        self._unit_words = words.astype(np.uint64)
        self.hash = self._mixed  # tests put in another one
        self.secret = secret_number(random_state, self.digest)

    def _mixed(self, units: Ints, keys: NDArray, salt: int) -> NDArray[np.uint64]:
        return mixed_words(self._unit_words[units], keys, salt)

    def digest(self) -> bytes:
        """Return a hash of the content, for seeded noise."""
        text = hashlib.blake2b(repr(self._names).encode(), digest_size=32)
        for array in (self._units, self._keys, *self._columns.values()):
            text.update(np.ascontiguousarray(array).tobytes())
        return text.digest()
