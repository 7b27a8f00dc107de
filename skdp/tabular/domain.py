"""A public domain: which values each column of a table may have.

A `Domain` is stated from public knowledge: the categories of a column, or `Bins`, the edges of
cells of numbers or dates. It gives the code of a cell, a function of that cell only, and the value
of a code. `skdp.tabular.coding` codes tables by it.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._docstrings import shared_texts
from skdp.parameters import FLAG, check_length, check_parameter, naming
from skdp.tabular.cells import family, nearest, read_cell, stands_for_nothing, ticks
from skdp.tabular.columns import places_by, stated_places
from skdp.tabular.containers import as_list, listed, to_float

# --- bins ----------------------------------------------------------------------------------------

MAX_CODES = 2**16  # of one column: codes fit 16 bits, and a row's codes are exact in float64
NUMBER, MOMENT, SPAN = "number", "moment", "span"
_TICK = 1000  # nanoseconds: microseconds of our centuries are exact as floats
_KINDS = {"date": MOMENT, "timestamp": MOMENT, "duration": SPAN}  # of families of cells


@shared_texts
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
            numbers = isinstance(edges, np.ndarray) and edges.dtype.kind in "biuf"
            listed = hasattr(edges, "__iter__") and not numbers
            kind, array = _temporal(list(edges)) if listed else (NUMBER, np.empty(0))
            if kind == NUMBER:
                try:
                    array = np.array(edges, dtype=np.float64)
                except (TypeError, ValueError):
                    text = "edges must be numbers, or dates, strictly increasing"
                    raise TypeError(text) from None
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
        """Return cells of equal width between two finite numbers or dates, 1 to 65535 of them."""
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
        first, last = nearest(low), nearest(high)
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
        """Return an edge as text."""
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
        """Return each number's cell, and whether it is outside.

        Numbers are clipped to the ends; NaN is in the cell of what is missing, or in the first.
        Outside is what is not between the edges, nor missing where this has a cell.
        """
        cell = np.searchsorted(self.edges, values, side="right") - 1
        known = (values >= self.edges[0]) & (values <= self.edges[-1])
        none = np.isnan(values)
        codes = np.clip(np.where(none, 0, cell), 0, self.n_cells - 1)
        if self.missing:
            codes, known = np.where(none, self.n_cells, codes), known | none
        return codes, ~known

    def read(self, cells: Any) -> NDArray[np.float64]:
        """Return cells of a column in the unit of the edges; NaN for cells of other kinds."""
        return values_of_kind(cells, self.kind)

    def values(self, codes: NDArray, rng: np.random.Generator | None = None) -> NDArray:
        """Return a point of each cell, NaN or NaT for what is missing: uniform, or the middle."""
        codes = np.asarray(codes, dtype=np.int64)
        points = self.points(np.minimum(codes, self.n_cells - 1), rng)
        none = codes == self.n_cells
        if self.kind != NUMBER:
            ticks = _in_ticks(points, self.kind)
            ticks[none] = "NaT"
            return ticks
        return np.where(none, np.nan, points) if self.missing else points

    def points(self, codes: NDArray, rng: np.random.Generator | None) -> NDArray[np.float64]:
        """Return a point of each cell between the edges, as the edges are; as `values`."""
        low, high = self.edges[codes], self.edges[codes + 1]
        part = np.full(len(codes), 0.5) if rng is None else rng.random(len(codes))
        inner = low + part * (high - low)
        if not self.integer:
            # Where edges are next to each other, rounding may give the upper one.
            top = np.where(codes == self.n_cells - 1, high, np.nextafter(high, -np.inf))
            within: NDArray[np.float64] = np.clip(inner, low, top)
            return within
        # The whole numbers of the cell; a cell without one gives the next one above.
        first = np.ceil(low) + 0.0  # not -0.0
        last = np.where(codes == self.n_cells - 1, np.floor(high), np.ceil(high) - 1)
        last = np.maximum(last, first)
        points: NDArray[np.float64] = np.minimum(first + np.floor(part * (last - first + 1)), last)
        return points


def _temporal(values: Any) -> tuple[str, NDArray[np.float64]]:
    """Return dates or durations of one kind in microseconds; "number" and nothing for others."""
    cells = [read_cell(value) for value in values]
    kinds = {_KINDS.get(family(cell), NUMBER) for cell in cells}
    if kinds in ({MOMENT}, {SPAN}):
        return kinds.pop(), np.array([_microseconds(cell) for cell in cells])
    return NUMBER, np.empty(0)


def _microseconds(value: Any) -> float:
    return float(ticks(value) or 0) / _TICK


def _in_ticks(points: NDArray[np.float64], kind: str) -> NDArray:
    return np.floor(points).astype(np.int64).view("M8[us]" if kind == MOMENT else "m8[us]")


def values_of_kind(cells: Any, kind: str) -> NDArray[np.float64]:
    """Return numbers, or times in microseconds; NaN for any other cell; each by itself."""
    if kind == NUMBER:
        floats = to_float(cells)[0]
        return np.full(len(cells), np.nan) if floats is None else floats
    array = cells
    if hasattr(cells, "iloc") and isinstance(cells.dtype, np.dtype):  # of pandas
        array = cells.to_numpy()
    if isinstance(array, np.ndarray) and array.dtype.kind == {MOMENT: "M", SPAN: "m"}[kind]:
        ticks = array.astype(f"{array.dtype.kind}8[us]")
        return np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64).astype(np.float64))
    values = [read_cell(cell) for cell in as_list(cells)]
    return np.array(
        [_microseconds(v) if _KINDS.get(family(v)) == kind else math.nan for v in values],
        dtype=np.float64,
    )


# --- domains -------------------------------------------------------------------------------------

CLIP, REFUSE = "clip", "refuse"
INTEGER = "integer"  # a column of whole numbers whose range is learned


class _Numbers:
    """A column of numbers in `Bins`, and the bin that takes cells that are no numbers."""

    def __init__(self, bins: Bins, other: Any, has_other: bool, name: str) -> None:
        self.bins = bins
        self.size = bins.size
        self.is_text = False
        self.other = bins.n_cells if bins.missing else 0
        if not has_other:
            return
        real = isinstance(other, numbers.Real) and not isinstance(other, bool)
        code, outside = bins.codes(np.array([nearest(other) if real else math.nan]))
        if outside[0]:
            low, high = bins.edges[0], bins.edges[-1]
            raise ValueError(
                f"domain: other of column {name} must be a number within its bins, from {low:g} to "
                f"{high:g}: the cell with that number takes the cells of X that are not numbers"
            )
        self.other = int(code[0])

    def codes(self, cells: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return each cell's code, and who is outside."""
        values = self.bins.read(cells)
        codes, outside = self.bins.codes(values)
        return np.where(np.isnan(values), self.other, codes), outside


class _Categories:
    """A column with a public list of values; a missing cell is the category None, if declared."""

    def __init__(self, values: Sequence[Any], other: Any, has_other: bool, name: str) -> None:
        self.values_ = list(values)
        self.size = len(self.values_)
        if not 1 <= self.size <= MAX_CODES:
            raise ValueError(f"domain: column {name} must have 1 to {MAX_CODES} categories")
        self.known = places_by(self.values_)
        self.narrow: dict[Any, Any] = {}  # empty: keys of seeded noise hold it
        self.array = _as_array(self.values_)
        missing = [stands_for_nothing(value) for value in self.values_]
        texts = [isinstance(value, str | bytes) for value in self.values_]
        if any(
            read_cell(v) is None and not m and type(v) is not tuple
            for v, m in zip(self.values_, missing, strict=True)
        ):
            raise TypeError(
                f"domain: categories of column {name} must be text, numbers, booleans, dates, "
                "timestamps, times, durations, bytes, UUIDs, intervals or missing"
            )
        # Missing values alone may stand in a column of any type.
        self.is_text = any(texts) or all(missing)
        self.only_text = not all(missing) and all(map(operator.or_, missing, texts))
        if len(self.known) != self.size:
            raise ValueError(f"domain: categories of column {name} must be distinct")
        self.other = self.size - 1
        if has_other:
            self.other = int(stated_places([other], self.known)[0])
            if self.other < 0:
                raise ValueError(f"domain: other of column {name} must be one of its categories")

    def codes(self, cells: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return each cell's code, and who is outside."""
        code = stated_places(cells, self.known)
        outside = code < 0
        return np.where(outside, self.other, code), outside


def _as_array(values: list[Any]) -> NDArray:
    """Return categories as an array: of one type where they have one, else of objects."""
    kinds = {type(value) for value in values}
    plain = (bool, int, float, str)
    if kinds <= {int, float} or (len(kinds) == 1 and kinds <= set(plain)):
        array = np.array(values)
        if array.dtype.kind in "biufU" and array.tolist() == values:
            return array
    if len(kinds) == 1 and isinstance(values[0], np.generic):
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _is_named(spec: Any) -> bool:
    """Say whether this is a pair of a name and a column, and not a list of two categories."""
    if not (isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[0], str)):
        return False
    column = spec[1]
    listed = isinstance(column, Bins | list | tuple | range | np.ndarray)
    return listed or (isinstance(column, numbers.Integral) and not isinstance(column, bool))


@shared_texts
class Domain:
    """The values that each column of a table may have, stated from public knowledge.

    Parameters
    ----------
    columns : mapping from column name to column, or sequence of columns
        A column is a list of categories, `Bins`, a tuple (low, high, n_cells) for as many `Bins`
        of equal width, or an int k for the whole numbers 0 to k - 1; a tuple of two numbers, which
        might be a range, is refused. With names, tables must have these columns, in any order.
    outside : {"clip", "refuse"}, default="clip"
        What to do with a cell that is not in the domain. ``"clip"``: with `Bins`, a number goes to
        the nearest cell, and what is missing or no number to the column's `other`; with categories,
        a value goes to the column's `other`. ``"refuse"``: ValueError before any charge; it tells
        that there is such a cell.
    other : mapping from column name (or position) to category or number, default=None
        Where undeclared and missing values go. With categories, one of them; the last if not given.
        With `Bins`, a number: the bin that holds it takes the cells that are missing or not
        numbers; if not given, the cell of what is missing where the `Bins` have one, else the
        first bin.

    Attributes
    ----------
    names : tuple or None
    sizes : tuple of int
        Number of values of each column.
    n_cells : int
        Their product.

    Raises
    ------
    TypeError, ValueError
        If a column is none of these, has repeated categories, or `other` none of them.

    Notes
    -----
    **Privacy.** Nothing is read off data. Categories listed from the private table itself (its
    ``unique()``) would publish the rare ones: list them from a code book.

    Examples
    --------
    >>> from skdp.synthetic import Bins, Domain
    >>> domain = Domain({"origin": ["EWR", "JFK", "LGA"], "delay": Bins([-60, 0, 15, 60, 1500])})
    >>> domain.sizes, domain.n_cells
    ((3, 4), 12)
    """

    def __init__(
        self,
        columns: Mapping[Any, Any] | Sequence[Any],
        *,
        outside: str = CLIP,
        other: Mapping[Any, Any] | None = None,
    ) -> None:
        named = isinstance(columns, Mapping)
        self.names: tuple[Any, ...] | None = tuple(columns) if named else None
        if isinstance(columns, str | bytes) or not isinstance(columns, Mapping | Sequence):
            raise TypeError("domain must be a mapping or a sequence of columns")
        check_length(columns, "columns")
        specs = list(columns.values()) if isinstance(columns, Mapping) else list(columns)
        if not specs:
            raise ValueError("domain must have at least one column")
        if self.names is None and (pair := next((c for c in specs if _is_named(c)), None)):
            raise TypeError(
                f"domain: {pair[0]!r} beside its column is no column: with names state a mapping, "
                f"Domain({{{pair[0]!r}: ...}}), or dict(pairs)"
            )
        check_parameter(outside, "outside", CLIP, REFUSE)
        self.outside = outside
        labels = self.names if self.names is not None else tuple(range(len(specs)))
        if other is not None and not isinstance(other, Mapping):
            raise TypeError(
                "other must be a mapping from column name (or position) to where undeclared values "
                f"go, got {type(other).__name__}"
            )
        others = dict(other or {})
        if unknown := [key for key in others if key not in labels]:
            raise ValueError(f"other names no column of the domain: {unknown[0]!r}")
        self._columns = tuple(
            _column(spec, others.get(label), label in others, repr(label))
            for spec, label in zip(specs, labels, strict=True)
        )
        self.sizes = tuple(column.size for column in self._columns)
        self.n_cells = math.prod(self.sizes)

    @classmethod
    def binary(cls, columns: int | Sequence[Any]) -> Domain:
        """Return the domain of so many columns of zeros and ones, or of columns of these names."""
        if isinstance(columns, int | np.integer):
            return cls([2] * int(columns))
        return cls(dict.fromkeys(columns, 2))

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"Domain({self.n_columns} columns, {about(self.n_cells)} cells)"

    @property
    def columns(self) -> dict[Any, Bins | list[Any]]:
        """What the values of each column are, by name, or by position if there are no names."""
        labels = range(self.n_columns) if self.names is None else self.names
        return {label: self.column(j) for j, label in enumerate(labels)}

    def ordered(self, names: Sequence[Any] | None) -> Domain:
        """Return this domain in the order of a table with these column names, else as it is."""
        if self.names is None or names is None or set(names) != set(self.names):
            return self
        return self.of([self.names.index(name) for name in names])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.names, self.sizes))

    def _key(self) -> tuple[Any, ...]:
        columns = [
            (c.bins, c.other)
            if isinstance(c, _Numbers)
            else (tuple(c.known), str(c.array.dtype), c.other)
            for c in self._columns
        ]
        return (self.names, self.outside, columns)

    def _check_kinds(self, kinds: Sequence[str], labels: Sequence[Any], *, table: bool) -> None:
        """Refuse columns whose (public) types contradict the domain.

        `kinds` are from `skdp.tabular.containers.kind_of`; in a `table` each column has its own.
        """
        for kind, label, column in zip(kinds, labels, self._columns, strict=True):
            bins = column.bins if isinstance(column, _Numbers) else None
            if kind == "number" and isinstance(column, _Categories) and column.only_text:
                raise TypeError(
                    f"X has numbers in column {label!r}, of which the domain lists text only: "
                    "list numbers, or convert the column to text"
                )
            of_dates = bins is not None and bins.kind != NUMBER
            refused = {"text": not column.is_text, "temporal": bins is not None and not of_dates}
            if not refused.get(kind):
                continue
            unlike = "no text among its categories" if bins is None else "Bins"
            what = "dates, times or durations" if kind == "temporal" else "text"
            if table:
                text = f"X has {what} in column {label!r}, which has {unlike} in the domain"
            else:
                text = f"X is an array of {what}, but column {label!r} of the domain has {unlike}"
            advice = "convert it to numbers, or list its values as categories of the domain"
            if kind == "temporal":
                advice = (
                    "state Bins of dates, convert them to numbers, or list them as categories of "
                    "the domain"
                )
            elif not table:
                advice = "give numbers, a table, or an array of dtype object"
            raise TypeError(f"{text}: {advice}")

    def of(self, positions: Sequence[int], *, named: bool = True) -> Domain:
        """Return the domain of some of the columns, which keep their names if `named`."""
        part = object.__new__(Domain)
        part.names = None
        if named and self.names is not None:
            part.names = tuple(self.names[j] for j in positions)
        part.outside = self.outside
        part._columns = tuple(self._columns[j] for j in positions)
        part.sizes = tuple(column.size for column in part._columns)
        part.n_cells = math.prod(part.sizes)
        return part

    def position(self, column: Any) -> int:
        """Return the position of a column given by name or by position; ValueError if none."""
        if self.names is not None and column in self.names:
            return self.names.index(column)
        integral = isinstance(column, numbers.Integral) and not isinstance(column, bool)
        if integral and 0 <= column < self.n_columns:
            return int(column)
        has = f"{self.n_columns} columns" if self.names is None else listed(self.names)
        raise ValueError(f"the domain has no column {column!r}; it has {has}")

    def column(self, position: int) -> Bins | list[Any]:
        """Return what a column's values are."""
        column = self._columns[position]
        return column.bins if isinstance(column, _Numbers) else list(column.values_)

    def is_numeric(self, position: int) -> bool:
        """Say whether a column's values are numbers."""
        column = self._columns[position]
        if isinstance(column, _Numbers):
            return column.bins.kind == NUMBER
        return all(isinstance(value, numbers.Real) for value in column.values_)

    def __sklearn_clone__(self) -> Domain:
        return self  # it never changes

    def codes(self, position: int, cells: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the codes of a column's cells, each decided by itself, and which are outside."""
        return self._columns[position].codes(cells)

    def values(
        self, position: int, codes: NDArray, rng: np.random.Generator | None = None
    ) -> NDArray:
        """Return a column's values for its codes; of `Bins` as `Bins.values`."""
        column = self._columns[position]
        codes = np.asarray(codes, dtype=np.int64)
        if isinstance(column, _Numbers):
            return column.bins.values(codes, rng)
        return column.array[codes]


def about(number: int) -> str:
    """Return an integer of any size in few characters."""
    digits = number.bit_length() * math.log10(2)  # a float may be too small to hold it
    return f"{number:,}" if digits < 9 else f"about 10**{digits:.0f}"


def is_integer(spec: Any) -> bool:
    """Say whether a column is stated as whole numbers whose range is learned."""
    return isinstance(spec, str) and spec == INTEGER


def is_range(spec: Any) -> bool:
    """Say whether a column is stated as a tuple (low, high, n_cells)."""
    if not (isinstance(spec, tuple) and len(spec) == 3):
        return False
    low, high, n = spec
    if isinstance(n, bool) or not isinstance(n, numbers.Integral):
        return False
    ends = [isinstance(v, numbers.Real) and not isinstance(v, bool | np.bool_) for v in (low, high)]
    return all(ends) or all(hasattr(v, "year") or isinstance(v, np.datetime64) for v in (low, high))


def check_domain(domain: Any) -> Domain:
    """Return a domain, or raise TypeError: its own code alone may read cells.

    A subclass, or a method that was set on an instance, could see cells, or give a row a code that
    depends on other rows.
    """
    kinds = {Domain: "codes", _Numbers: "codes", _Categories: "codes", Bins: "codes read"}
    parts = [domain, *getattr(domain, "_columns", ())]
    parts += [column.bins for column in parts[1:] if type(column) is _Numbers]
    for part in parts:
        methods = kinds.get(type(part))
        if methods is None or not vars(part).keys().isdisjoint(methods.split()):
            raise TypeError(f"domain must be a Domain of skdp, got {type(part).__name__}")
    return domain


def _column(spec: Any, other: Any, has_other: bool, name: str) -> _Numbers | _Categories:
    """Return one column of a domain from what the user stated."""
    if isinstance(spec, Bins):
        return _Numbers(spec, other, has_other, name)
    if isinstance(spec, int | np.integer) and not isinstance(spec, bool):
        if not 1 <= spec <= MAX_CODES:
            raise ValueError(f"domain: column {name} must have 1 to {MAX_CODES} values")
        spec = list(range(int(spec)))
    numeric = (numbers.Real, np.number)
    if is_range(spec):
        return _Numbers(Bins.regular(*spec), other, has_other, name)
    if isinstance(spec, tuple) and len(spec) == 2 and all(isinstance(v, numeric) for v in spec):
        raise TypeError(
            f"domain: column {name} is a pair of numbers, which may mean a range or two categories:"
            f" state ({spec[0]!r}, {spec[1]!r}, n_cells) for a range in so many bins, a list for "
            "categories"
        )
    if is_integer(spec):
        raise TypeError(
            f"domain: column {name} is stated as {INTEGER!r}, so its range must be learned from "
            "rows: DPMarginalSynthesizer and DPTrainOnRelease do, where domain is a mapping. State "
            "(low, high, n_cells), or Bins(..., integer=True)"
        )
    if isinstance(spec, str | bytes | Mapping) or not hasattr(spec, "__iter__"):
        raise TypeError(
            f"domain: column {name} must be a list of categories, Bins, an int or {INTEGER!r}, got "
            f"{type(spec).__name__}"
        )
    dates = getattr(getattr(spec, "dtype", None), "kind", "") in ("m", "M")
    values = spec.tolist() if hasattr(spec, "tolist") and not dates else spec
    return _Categories(list(islice(values, MAX_CODES + 1)), other, has_other, name)
