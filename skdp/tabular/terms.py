"""What is added up for every key: terms, the integers of values, and rows that count in part.

A unit contributes at most `max_rows` rows' worth to a key: of m rows each counts max_rows / m,
rounded down to the integers in which values are counted. By how much totals of terms move is said
by the queries that ask (`skdp.queries.key_totals`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.core.query import check_ascending, reviewed

__all__ = [
    "CENTER_BITS",
    "FRACTION_BITS",
    "VALUE_BITS",
    "Ints",
    "KeyTerm",
    "bounded",
    "place_of",
    "steps_of",
    "term_width",
]

Ints = NDArray[np.int64]

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
