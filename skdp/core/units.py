"""Privacy units of many rows: a table with at most so many of each, and how many that shall be.

`RowsPerUnit` is the choice of that number. `bound_units` keeps at most
`most` rows of every unit: those with the smallest *tickets*, words that a keyed generator
of the unit's own draws for its rows, one after the other. So which rows of a unit are kept depends
on the rows of this unit alone, each set of them is as likely as any other, and no tie makes it one
more. What one unit may change is a matter of counting: PROOFS.md, "Units of many rows".
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import Floats
from skdp.core.noise import OSEntropy
from skdp.core.query import Choice, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable, Stability, _chunk_rows
from skdp.loss.conversions import pure_part

PRIVATE_ROWS = "private"
CHOICE_SHARE = Fraction(1, 10)  # of an allowance, for the choice of the rows a unit
LARGEST_BOUND = 2**20
_ONE_IN = 100  # units may lose rows
_STEP = 1.0  # by how much half an octave more must pay, in the exponent of the choice


class Units(Protocol):
    """Whose the rows of a table are; `skdp.tabular.rows` makes them of ids."""

    codes: NDArray[np.int64]  # of the unit of each row, from 0
    words: NDArray[np.uint64]  # of each unit: of its id alone


@dataclass(frozen=True)
class Unit:
    """What a privacy unit of a session is, beside whose the rows are.

    - `name`: Of the ids.
    - `most`: The rows of one unit that count.
    """

    name: str
    most: int | str


# --- which rows are kept --------------------------------------------------------------------------


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words, one by one: the finaliser of SplitMix64 (Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def _keys(key: bytes | None) -> NDArray[np.uint64]:
    """Return two words: of a key, or of the operating system's entropy."""
    if key is None:
        return np.asarray(OSEntropy().words(2), dtype=np.uint64)
    return np.frombuffer(hashlib.blake2b(key, digest_size=16).digest(), dtype=np.uint64)


def kept_rows(units: Units, most: int, key: bytes | None) -> NDArray[np.intp]:
    """Return the positions, ascending, of at most `most` rows of each unit, at random.

    Guarantee: which rows of a unit are kept depends on `key`, its word and the number of its rows
    alone; never more than `most`.

    - `key`: None draws one from the operating system.
    """
    codes = units.codes
    order = _by_unit(codes)
    grouped = codes[order]
    starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if codes.size else order
    counts = np.diff(np.r_[starts, codes.size])
    if counts.size == 0 or counts.max() <= most:
        return np.arange(codes.size, dtype=np.intp)
    place = np.arange(codes.size) - np.repeat(starts, counts)  # of a row in its unit
    first, second = _keys(key)
    streams = _mix(_mix(units.words ^ first) + second)
    tickets = _mix(streams[grouped] + (place.astype(np.uint64) + np.uint64(1)) * _GAMMA)
    drawn = _by_ticket(grouped, tickets, place)
    return np.sort(order[drawn][place < most])


def _by_unit(codes: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the order by unit and place; of distinct keys, which sort faster than ties."""
    n = codes.size
    if n and int(codes.max() + 1) * n < 2**63:
        return np.argsort(codes * n + np.arange(n))
    return np.argsort(codes, kind="stable")


_LEAST_BITS = 20  # of tickets that are compared


def _by_ticket(
    codes: NDArray[np.int64], tickets: NDArray[np.uint64], place: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Return the order by unit, ticket and, of equal tickets, place: a tie keeps no row more.

    In one number each, with as many bits of the ticket as are left. How many are left depends on
    all units; so where these bits leave two rows of a unit equal, whole tickets are compared.
    """
    above, below = int(codes.max()).bit_length(), int(place.max()).bit_length()
    if above + below + _LEAST_BITS > 64:
        return np.lexsort((place, tickets, codes))
    short = (tickets >> np.uint64(above + below)) << np.uint64(below)
    # Where there is one unit, no bit is its own: a shift by 64 has no meaning.
    high = codes.astype(np.uint64) << np.uint64(64 - above) if above else np.uint64(0)
    drawn = np.argsort(high | short | place.astype(np.uint64))
    equal = np.diff((high | short)[drawn]) == 0
    return np.lexsort((place, tickets, codes)) if equal.any() else drawn


def bound_units(
    table: PrivateTable, units: Units, most: int, relation: str, key: bytes | None
) -> PrivateTable:
    """Return the table of at most `most` rows of each unit.

    Guarantee: one unit replaces at most `most` rows ("replace_one": as many as are on both sides,
    and the others enter or leave), or adds or removes as many ("add_or_remove_one"). The number
    of rows is private under both.
    """
    kept = table.rows.keep(kept_rows(units, most, key))
    replaced = most if relation == REPLACE_ONE else 0
    return PrivateTable(kept, Stability(replaced, most))


# --- how many rows ------------------------------------------------------------------------------


class UnitRows:
    """One row a unit: the number of its rows in the caller's table."""

    n_features = 1
    filtered = False
    n_is_private = False  # beyond what the stability of `unit_table` says

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.counts, self._n = counts, int(counts.size)

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        """Return the (start, stop) of chunks that cover all rows."""
        step = _chunk_rows(width, least)
        return [(i, min(i + step, self._n)) for i in range(0, self._n, step)]

    def chunk(self, start: int, stop: int) -> Floats:
        """Return rows start to stop as float64, shape (stop - start, 1)."""
        return self.counts[start:stop].astype(np.float64).reshape(-1, 1)

    def digest(self) -> bytes:
        """Return a hash of the content; it keys the noise of seeded fits and nothing else."""
        return hashlib.blake2b(np.sort(self.counts).tobytes(), digest_size=32).digest()


def unit_table(units: Units, relation: str) -> PrivateTable:
    """Return the table of one row a unit, which changes by one row with one unit.

    Under "replace_one" a unit may have no row before, or after: then a row enters, or leaves.
    """
    counts = np.unique(units.codes, return_counts=True)[1].astype(np.int64)
    replaces = relation == REPLACE_ONE
    return PrivateTable(UnitRows(counts), Stability(int(replaces), 1))


def bound_candidates(largest: int = LARGEST_BOUND) -> tuple[int, ...]:
    """Return 1, 2, 3, 4, 6, 8, 12, ...: the rows a unit that a choice may come to."""
    powers = [2**i for i in range(largest.bit_length())]
    bounds = sorted({*powers, *(3 * p // 2 for p in powers if p > 1)})
    return tuple(bound for bound in bounds if bound <= largest)


@reviewed
@dataclass(frozen=True, eq=False)
class RowsPerUnit(Choice):
    """The least number of rows a unit that leaves about 99 units in 100 whole.

    Among `candidates`, k has the score max(100 F(k) - U, 0) + penalty * (place of k), F(k) the
    number of units with more than k rows, U that of all.

    Guarantee: a unit more moves 100 F - U by 99 or -1, another one by 100 at most; the maximum
    with 0 moves no further, and the penalty is public. So 99 (A), 100 (R).

    - `candidates`: Ascending.
    - `penalty`: What a step costs, so that noise does not climb where no unit has more rows.
    """

    name: ClassVar[str] = "rows per unit"
    candidates: tuple[int, ...]
    penalty: int

    def scores(self, table: PrivateTable) -> NDArray:
        counts = np.sort(table.rows.counts)
        above = counts.size - np.searchsorted(counts, self.candidates, side="right")
        excess = np.maximum(_ONE_IN * above.astype(np.int64) - counts.size, 0)
        return (excess + self.penalty * np.arange(len(self.candidates)))[None, :]

    def sensitivity(self, relation: str) -> int:
        return _ONE_IN if relation == REPLACE_ONE else _ONE_IN - 1

    def decoded(self, chosen: NDArray) -> int:
        return self.candidates[int(chosen[0])]


def rows_query(level: float, *, pure: bool, smallest: float) -> RowsPerUnit:
    """Return the choice for an allowance, whose part for it has this level (epsilon, or mu).

    - `smallest`: 1 over the most rows that the allowance carries.
    """
    each = level if pure else 2 * pure_part(level, 1)  # as `exponential_mechanism` spends it
    penalty = math.ceil(_STEP * 2 * _ONE_IN / each)
    largest = min(LARGEST_BOUND, max(1, int(1 / smallest)))
    return RowsPerUnit(bound_candidates(largest), penalty)
