"""The private table: checked rows, the relation between neighbouring tables, one pass over chunks.

A query reads rows through `PrivateTable` only: in chunks (`fold`), whose
integer totals do not depend on their order, or through the readers of `skdp.tabular.rows`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._threads import in_threads, usable_cores
from skdp.exceptions import PrivacyLeakError

if TYPE_CHECKING:
    from skdp.core.clipping import Floats

REPLACE_ONE, ADD_OR_REMOVE_ONE = "replace_one", "add_or_remove_one"


class Rows(Protocol):
    """Where a private table reads its rows from; `skdp.tabular` has what stands behind it."""

    _n: int
    n_features: int
    filtered: bool  # whether a filter of each row has left them
    n_is_private: bool  # whether one unit may change their number under either relation
    units: Any  # whose each row is; None where the unit is a row

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        """Return the (start, stop) of chunks that cover all rows."""

    def chunk(self, start: int, stop: int) -> Floats:
        """Return rows start to stop as float64."""

    def digest(self) -> bytes:
        """Return a hash of the content, for seeded noise."""

    def unit_rows(self) -> Any:
        """Return whose each row is."""

    def keep(self, positions: NDArray[np.intp]) -> Rows:
        """Return the rows at ascending positions."""


@dataclass(frozen=True)
class Stability:
    """How much of a table may change when one unit of the caller's table changes.

    At most `replacements` rows are replaced, or at most `additions` rows are added or removed, or a
    part of the one and a part of the other: i replaced and j added or removed with i / replacements
    + j / additions <= 1 (none of a kind whose number is 0). So a statistic that moves by at most r
    for one replaced row and by at most a for one more or less moves by at most max(replacements *
    r, additions * a): PROOFS.md, "Stability".

    - `replacements`, `additions`: (1, 0) for the rows of a "replace_one" table, (0, 1) for those of
      an "add_or_remove_one" table; (1, 1) for what a filter of each row leaves of a "replace_one"
      table: it replaces a row, adds one or removes one; (k, k) and (0, k) for at most k rows of
      every unit.
    """

    replacements: int
    additions: int

    def __post_init__(self) -> None:
        if min(self.replacements, self.additions) < 0 or self.replacements + self.additions < 1:
            raise ValueError("a table is stable under at least one changed row")

    @property
    def relation(self) -> str:
        """The relation between tables that differ by one step, for what has no tight bound."""
        return ADD_OR_REMOVE_ONE if self.additions else REPLACE_ONE

    @property
    def steps(self) -> int:
        """Steps of that relation from a table to its neighbour: a replaced row is two of them."""
        if not self.additions:
            return self.replacements
        return max(2 * self.replacements, self.additions)

    @property
    def changes(self) -> int:
        """Rows that are changed at most, each replaced, added or removed."""
        return max(self.replacements, self.additions)

    def filtered(self) -> Stability:
        """Return the stability of what a filter of each row leaves."""
        return Stability(self.replacements, self.changes)


def stability_of(relation: str) -> Stability:
    """Return the stability of the caller's own table, whose unit is a row."""
    return Stability(1, 0) if relation == REPLACE_ONE else Stability(0, 1)


@dataclass(frozen=True, repr=False, eq=False)
class PrivateTable:
    """Private rows, and how much of them may change with one unit of the caller's table.

    - `rows`: Checked; where they are read from.
    - `kept`: What queries compute of the rows once; private, like them.
    """

    rows: Any
    stability: Stability
    kept: dict[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # No default: the number of rows of a class that says nothing of it would be published.
        if type(getattr(self.rows, "n_is_private", None)) is not bool:
            raise TypeError(f"{type(self.rows).__name__} must say whether n_is_private")

    def __repr__(self) -> str:
        return f"PrivateTable(n_features={self.n_features}, stability={self.stability})"

    def __reduce__(self) -> Any:
        raise PrivacyLeakError("a private table does not travel; its parts do, with what adds up")

    @property
    def n(self) -> int:
        """The exact number of rows; private unless `n_is_public`."""
        return self.rows._n

    @property
    def n_features(self) -> int:
        """The number of columns; public."""
        return self.rows.n_features

    @property
    def n_is_public(self) -> bool:
        """Whether all neighbouring tables have the same number of rows."""
        # A row that is all of a unit may be empty on one side: how many are not is private.
        return self.stability.additions == 0 and self.rows.n_is_private is False

    @property
    def relation(self) -> str:
        """The relation between tables that differ by one step; see `Stability.relation`."""
        return self.stability.relation

    def fold(
        self,
        add: Callable[[Any, list[NDArray]], None],
        fresh: Callable[[], list[NDArray]],
        *,
        width: int = 1,
        least: int = 256,
        read: str = "chunk",
    ) -> list[NDArray]:
        """Add up what `add` makes of every chunk of rows; see `fold`."""
        return fold(self.rows, add, fresh, width=width, least=least, read=read)

    @property
    def in_parts(self) -> bool:
        """Whether rows are read by `fold` only: they are in parts, each where it lies."""
        return hasattr(self.rows, "fold")


# Passes over fewer values than this are not worth a second thread.
_PARALLEL_VALUES = 2**22
_MAX_THREADS = 4


def fold(
    rows: Rows,
    add: Callable[[Any, list[NDArray]], None],
    fresh: Callable[[], list[NDArray]],
    *,
    width: int = 1,
    least: int = 256,
    read: str = "chunk",
) -> list[NDArray]:
    """Add up what `add` makes of every chunk, in threads, and return the totals.

    Guarantee: the totals are exact integers, so neither the number of threads nor the order in
    which chunks are added changes a bit. Overflow warnings are off: they would depend on rows.
    While there are several threads, each has one thread of BLAS: a chunk is too small for more.
    Rows in parts bring a fold of their own, which may run `add` and `fresh` in other processes:
    they hold public values only.

    - `add`: Adds a chunk's part to the totals, in place. A total of unsigned integers may wrap
      around.
    - `fresh`: Makes totals of zero; each thread has its own.
    - `width`, `least`: As in `Rows.spans`.
    - `read` ({"chunk", "labelled", "codes", "weighted", "weighted_labelled"}): The method of the
      rows that is called with (start, stop); `add` is handed what it returns.
    """
    if hasattr(rows, "fold"):
        parts: list[NDArray] = rows.fold(add, fresh, width=width, least=least, read=read)
        return parts
    spans = rows.spans(width=width, least=least)
    parallel = rows._n * max(rows.n_features, width) >= _PARALLEL_VALUES
    threads = min(usable_cores(), _MAX_THREADS, len(spans)) if parallel else 1

    def work(first: int, stop: threading.Event) -> list[NDArray]:
        totals = fresh()
        for span in spans[first::threads]:
            if stop.is_set():
                break
            fold_span(rows, span, add, totals, read)
        return totals

    several = in_threads(work, threads)
    return [sum(columns[1:], start=columns[0]) for columns in zip(*several, strict=True)]


def fold_span(
    rows: Any,
    span: tuple[int, int],
    add: Callable[[Any, list[NDArray]], None],
    totals: list[NDArray],
    read: str,
) -> None:
    """Add one chunk of rows to the totals."""
    with np.errstate(all="ignore"):  # which undoes the size of the buffer, too
        np.setbufsize(1024)  # with a larger one, columns of a block are copied first
        add(getattr(rows, read)(*span), totals)


def total_dtype(rows: Rows, largest: int) -> type:
    """Return int64 where n * largest cannot overflow it, else object (Python integers).

    Rows in parts are added up so many at a time; `added` widens their totals.
    """
    n = min(rows._n, getattr(rows, "at_a_time", rows._n))
    return np.int64 if n * largest < 2**62 else object


def added(one: list[NDArray], other: list[NDArray]) -> list[NDArray]:
    """Add up totals of two sets of rows, exactly; those that could overflow become objects.

    Unsigned totals wrap around, as they do within a part.
    """
    return [_added(a, b) for a, b in zip(one, other, strict=True)]


def _added(a: NDArray, b: NDArray) -> NDArray:
    if a.dtype.kind == "i" and b.dtype.kind == "i" and a.size:
        # Python integers: the absolute value of the least int64 is none of its own.
        ends = [max(-int(x.min()), int(x.max())) for x in (a, b)]
        if sum(ends) >= 2 ** (8 * min(a.itemsize, b.itemsize) - 2):
            a = a.astype(object)
    return np.asarray(a + b)


def as_total(part: NDArray, dtype: type) -> NDArray:
    """Convert an exact integer-valued float64 array to the dtype of the total."""
    return part.astype(np.int64).astype(dtype, copy=False)


# Two limits on a chunk: a megabyte of float64, so that temporaries stay in the caches (with half
# of it, fits of 50 columns take a tenth longer) and far below 128 MB; and at most
# 2**16 rows, so that sums of products of 18-bit integers stay below 2**53 (PROOFS.md,
# "Exact sums").
_BLOCK_VALUES = 2**17
_BLOCK_ROWS = 2**16
# Squares of coordinates of up to 2**20 steps add up exactly: 2**40 * 8192 = 2**53.
MAX_FEATURES = 8192
_LARGEST_BLOCK = 2**22  # values: 32 MB, for statistics that want many rows at once
# The C library returns the memory of freed arrays to the system, and asks for it again in each
# chunk, until an array as large as this has been freed once. It is never touched.
np.empty(_LARGEST_BLOCK - 2**10)


def _chunk_rows(width: int, least: int = 256) -> int:
    """Return the rows of a chunk: within cache, at least `least`, but never above 32 MB."""
    return max(1, min(max(_BLOCK_VALUES // width, least), _BLOCK_ROWS, _LARGEST_BLOCK // width))
