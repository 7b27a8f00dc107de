"""Terms, which are added up for every key, and the integers to which values are rounded.

A unit contributes to a key with a weight of at most `max_rows` rows. If it has m rows there, more
than that, each of them counts max_rows / m, rounded down to the integers in which values are
counted. `skdp.queries.key_totals` states how much the totals of terms move with a unit.
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

VALUE_BITS = 30  # a clipped value is an integer of so many bits
FRACTION_BITS = 10  # a row of a histogram counts as an integer of so many bits
CENTER_BITS = 15  # by so many bits a unit's sum about a centre is rounded before it is squared


@reviewed
@dataclass(frozen=True, eq=False)
class KeyTerm:
    """A statistic that is added up for every key.

    Attributes
    ----------
    kind : {"rows", "units", "filled", "sum", "square", "bins", "leaves", "about"}
        ``"filled"`` counts rows with a value; ``"bins"`` counts values in each bin of `edges`, and
        ``"leaves"`` in 2**depth equal bins; ``"about"`` adds the square of a unit's sum relative to
        the key's centre.
    column : str
    low, high : float
        Values are clipped to these bounds.
    zero : bool
        For ``"sum"``: values are relative to 0, in steps of the larger bound. Otherwise they are
        relative to the middle of the bounds.
    edges : tuple of float
    depth : int
    centers : tuple of int
        For ``"about"``: a centre for each key, in steps from the middle.
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
        """The width of a step, in the user's units."""
        width = -self.base if self.zero else self.high - self.low
        return width / 2**VALUE_BITS

    @property
    def top(self) -> int:
        """The largest step of a value."""
        return 2 ** (VALUE_BITS + self.zero)

    @property
    def offset(self) -> int:
        """The step that is subtracted from every row that counts: of the middle, or of 0."""
        return self.top // 2 if self.kind in ("sum", "square", "about") else 0


def term_width(term: KeyTerm) -> int:
    """Return the number of integers of a term for one key."""
    return {"bins": len(term.edges) - 1, "leaves": 2**term.depth}.get(term.kind, 1)


def bounded(sums: Ints, rows: Ints, max_rows: int) -> Ints:
    """Return sums over `rows` rows, times max_rows / rows where there are more, rounded down.

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
