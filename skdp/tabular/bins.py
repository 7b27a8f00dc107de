"""Public edges that part a column of numbers, dates or durations into cells.

Nothing is released here, and no data decides.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._parameters import FLAG, check_length, check_parameter, naming
from skdp.tabular.cells import family, read_cell, ticks
from skdp.tabular.containers import as_list, to_float

__all__ = ["MAX_CODES", "NUMBER", "Bins", "as_ticks", "finite"]

MAX_CODES = 2**16  # of one column: codes fit 16 bits, and a row's codes are exact in float64
NUMBER, MOMENT, SPAN = "number", "moment", "span"
_TICK = 1000  # nanoseconds: microseconds of our centuries are exact as floats
_KINDS = {"date": MOMENT, "timestamp": MOMENT, "duration": SPAN}  # of families of cells


class Bins:
    """Public edges that part a column of numbers, or of dates, into cells.

    A cell holds its lower edge; the last one its upper edge too.

    Parameters
    ----------
    edges : array-like of shape (n_cells + 1,)
        Strictly increasing, finite: numbers, or dates and times, or durations.
    integer : bool, default=False
        Whether the column has whole numbers: released values are rounded to whole numbers then.
    missing : bool, default=False
        Whether there is one cell more, the last, for what is missing. It is released as missing.

    Attributes
    ----------
    edges : ndarray of shape (n_cells + 1,)
        Of dates microseconds since 1970, of durations microseconds.
    kind : {"number", "moment", "span"}
        Of what the edges are.
    size : int
        Number of cells, that of missing values included.

    Raises
    ------
    TypeError, ValueError
        If edges are not finite numbers that increase, or too many.

    Examples
    --------
    >>> from skdp.synthetic import Bins
    >>> Bins([0, 18, 65, 120], integer=True).size
    3
    >>> Bins.regular(0.0, 1.0, 4).edges.tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    kind: str = NUMBER
    missing: bool = False

    def __init__(self, edges: Any, *, integer: bool = False, missing: bool = False) -> None:
        check_parameter(integer, "integer", FLAG)
        check_parameter(missing, "missing", FLAG)
        check_length(edges, "edges")
        with naming("edges"):
            kind, array = _read_edges(edges)
        increasing = array.ndim == 1 and array.size >= 2 and np.isfinite(array).all()
        if not (increasing and bool(np.all(array[1:] > array[:-1]))):
            raise ValueError("edges must be at least two finite numbers, strictly increasing")
        if not math.isfinite(float(array[-1]) - float(array[0])):
            raise ValueError("edges must not be further apart than the largest float")
        if array.size > MAX_CODES:
            raise ValueError(f"edges must be at most {MAX_CODES}, got {array.size}")
        array.setflags(write=False)
        self.edges = array
        self.integer = bool(integer)
        # Not held where it is the default: keys of seeded noise stay as they were.
        if kind != NUMBER:
            self.kind = kind
        if missing:
            self.missing = True

    @classmethod
    def regular(
        cls, low: Any, high: Any, n_cells: int, *, integer: bool = False, missing: bool = False
    ) -> Bins:
        """Return cells of equal width.

        Parameters
        ----------
        low, high : float
            Finite, low below high; or two dates.
        n_cells : int
            From 1 to 65535.
        integer, missing : bool, default=False
            As of `Bins`.

        Returns
        -------
        bins : Bins

        Raises
        ------
        TypeError, ValueError
            Naming the parameter.
        """
        integral = isinstance(n_cells, numbers.Integral) and not isinstance(n_cells, bool)
        if not (integral and 1 <= n_cells < MAX_CODES):
            raise ValueError(
                f"n_cells must be an integer from 1 to {MAX_CODES - 1}, got {n_cells!r}"
            )
        options = {"integer": integer, "missing": missing}
        kind, ends = _temporal([low, high])
        if kind != NUMBER and ends[0] < ends[1]:
            steps = np.linspace(ends[0], ends[1], int(n_cells) + 1).astype("m8[us]")
            return cls(steps if kind == SPAN else np.datetime64(0, "us") + steps, **options)
        for name, value in (("low", low), ("high", high)):
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise TypeError(f"{name} must be a finite number, got {type(value).__name__}")
        first, last = finite(low), finite(high)
        if not (first < last and math.isfinite(last - first)):
            raise ValueError(
                "low must be below high, both finite and no further apart than the largest float, "
                f"got {low!r} and {high!r}"
            )
        return cls(np.linspace(first, last, int(n_cells) + 1), **options)

    @property
    def n_cells(self) -> int:
        """Number of cells between the edges."""
        return int(self.edges.size) - 1

    @property
    def size(self) -> int:
        """Number of cells, that of missing values included."""
        return self.n_cells + self.missing

    def __repr__(self) -> str:
        ends = " to ".join(self.shown(float(edge)) for edge in self.edges[[0, -1]])
        return f"Bins({self.n_cells} cells from {ends}{', and missing' * self.missing})"

    def shown(self, edge: float) -> str:
        """Return an edge as text.

        Parameters
        ----------
        edge : float

        Returns
        -------
        text : str
        """
        if self.kind == NUMBER:
            return f"{edge:g}"
        text = str(_in_ticks(np.array([edge]), self.kind)[0])
        return text.removesuffix(".000000").removesuffix("T00:00:00")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bins):
            return NotImplemented
        return np.array_equal(self.edges, other.edges) and self._kind() == other._kind()

    def __hash__(self) -> int:
        return hash((self.edges.tobytes(), self._kind()))

    def _kind(self) -> tuple[Any, ...]:
        return (self.integer, self.missing, self.kind)

    def codes(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return each number's cell.

        Parameters
        ----------
        values : ndarray of float

        Returns
        -------
        codes : ndarray of int
            Clipped to the ends; for NaN the cell of what is missing, or the first.
        outside : ndarray of bool
            Which values are not between the edges, nor missing where these have a cell.
        """
        cell = np.searchsorted(self.edges, values, side="right") - 1
        known = (values >= self.edges[0]) & (values <= self.edges[-1])
        none = np.isnan(values)
        codes = np.clip(np.where(none, 0, cell), 0, self.n_cells - 1)
        if self.missing:
            codes, known = np.where(none, self.n_cells, codes), known | none
        return codes, ~known

    def read(self, cells: Any) -> NDArray[np.float64]:
        """Return cells of a column as the edges are: NaN for what is none such.

        Parameters
        ----------
        cells : column of a table

        Returns
        -------
        values : ndarray of float
        """
        if self.kind != NUMBER:
            return as_ticks(cells, self.kind)
        values = to_float(cells)[0]
        return np.full(len(cells), np.nan) if values is None else values

    def values(self, codes: NDArray, rng: np.random.Generator | None = None) -> NDArray:
        """Return a point of each cell.

        Parameters
        ----------
        codes : ndarray of int
        rng : Generator, default=None
            For uniform points; None for middles.

        Returns
        -------
        values : ndarray of float, or of datetime64 or timedelta64
            NaN, or NaT, for the cell of what is missing.
        """
        codes = np.asarray(codes, dtype=np.int64)
        points = self.points(np.minimum(codes, self.n_cells - 1), rng)
        none = codes == self.n_cells
        if self.kind != NUMBER:
            ticks = _in_ticks(points, self.kind)
            ticks[none] = "NaT"
            return ticks
        return np.where(none, np.nan, points) if self.missing else points

    def points(self, codes: NDArray, rng: np.random.Generator | None) -> NDArray[np.float64]:
        """Return a point of each cell between the edges, as the edges are; as `values`.

        Parameters
        ----------
        codes : ndarray of int
        rng : Generator or None

        Returns
        -------
        points : ndarray of float
        """
        low, high = self.edges[codes], self.edges[codes + 1]
        part = np.full(len(codes), 0.5) if rng is None else rng.random(len(codes))
        inner = low + part * (high - low)
        if not self.integer:
            # Where edges are next to each other, rounding may give the upper one.
            top = np.where(codes == self.n_cells - 1, high, np.nextafter(high, -np.inf))
            within: NDArray[np.float64] = np.clip(inner, low, top)
            return within
        # The whole numbers of the cell; a cell without one gives the next one above.
        first = np.ceil(low)
        last = np.where(codes == self.n_cells - 1, np.floor(high), np.ceil(high) - 1)
        last = np.maximum(last, first)
        whole: NDArray[np.float64] = np.minimum(first + np.floor(part * (last - first + 1)), last)
        return whole


def finite(value: Any) -> float:
    """Return a number as a float, infinity if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _temporal(values: Any) -> tuple[str, NDArray[np.float64]]:
    """Return dates or durations of one kind in microseconds; "number" and nothing for others."""
    cells = [read_cell(value) for value in values]
    kinds = {_KINDS.get(family(cell), NUMBER) for cell in cells}
    if kinds in ({MOMENT}, {SPAN}):
        return kinds.pop(), np.array([_microseconds(cell) for cell in cells])
    return NUMBER, np.empty(0)


def _microseconds(value: Any) -> float:
    return float(ticks(value) or 0) / _TICK


def _read_edges(edges: Any) -> tuple[str, NDArray[np.float64]]:
    """Return of what kind edges are, and as floats."""
    kind, array = _temporal(list(edges)) if hasattr(edges, "__iter__") else (NUMBER, np.empty(0))
    if kind != NUMBER:
        return kind, array
    try:
        return NUMBER, np.array(edges, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("edges must be numbers, or dates, strictly increasing") from None


def _in_ticks(points: NDArray[np.float64], kind: str) -> NDArray:
    whole = np.floor(points).astype(np.int64)
    return whole.view("M8[us]" if kind == MOMENT else "m8[us]")


def as_ticks(cells: Any, kind: str) -> NDArray[np.float64]:
    """Return dates, or durations, in microseconds; NaN for any other cell; each by itself."""
    array = cells
    if hasattr(cells, "iloc") and isinstance(cells.dtype, np.dtype):  # of pandas
        array = cells.to_numpy()
    if isinstance(array, np.ndarray) and array.dtype.kind == {MOMENT: "M", SPAN: "m"}[kind]:
        ticks = array.astype(f"{array.dtype.kind}8[us]")
        return np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64).astype(np.float64))
    values = [read_cell(cell) for cell in as_list(cells)]
    found = [_microseconds(v) if _KINDS.get(family(v)) == kind else math.nan for v in values]
    return np.array(found, dtype=np.float64)
