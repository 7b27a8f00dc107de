"""A public domain: which values each column of a table may have, and the codes of private rows.

Nothing is released here. A `Domain` is stated from public knowledge: the categories of a column, or
the edges that part a numeric one. `check_coded` codes a private table by it, once, before any
charge; after that no reader of the rows can fail. A cell's code depends on that cell only.

Cells outside of the domain are moved to a declared value, or the table is refused, as the domain
says; refusing tells that there is such a cell, and nothing else.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.kernel.doors import attempt, interruptible, quiet
from skdp.kernel.rows import (
    _NO_ROWS,
    Rows,
    _container,
    _cut,
    _is_frame,
    _is_sliced_table,
    is_missing,
)

__all__ = [
    "Bins",
    "CodedRows",
    "Domain",
    "Schema",
    "about",
    "check_coded",
    "decoded",
    "public_codes",
    "table_schema",
]

MAX_CODES = 2**16  # of one column: codes fit 16 bits, and a row's codes are exact in float64
CLIP, REFUSE = "clip", "refuse"
_OUTSIDE = (
    "X has values outside of the stated domain, which refuses them; with outside='clip' they are "
    "moved to a declared value."
)


class Bins:
    """Public edges that part a numeric column into cells.

    A cell holds its lower edge; the last one its upper edge too.

    Parameters
    ----------
    edges : array-like of shape (n_cells + 1,)
        Strictly increasing, finite.
    integer : bool, default=False
        Whether the column has whole numbers: released values are rounded to whole numbers then.

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

    def __init__(self, edges: ArrayLike, *, integer: bool = False) -> None:
        try:
            array = np.array(edges, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError("edges must be numbers, strictly increasing") from None
        increasing = array.ndim == 1 and array.size >= 2 and np.isfinite(array).all()
        if not (increasing and bool(np.all(np.diff(array) > 0))):
            raise ValueError("edges must be at least two finite numbers, strictly increasing")
        if array.size > MAX_CODES:
            raise ValueError(f"edges must be at most {MAX_CODES}, got {array.size}")
        array.setflags(write=False)
        self.edges = array
        self.integer = bool(integer)

    @classmethod
    def regular(cls, low: float, high: float, n_cells: int, *, integer: bool = False) -> Bins:
        """Return cells of equal width.

        Parameters
        ----------
        low, high : float
        n_cells : int
        integer : bool, default=False

        Returns
        -------
        bins : Bins
        """
        if isinstance(n_cells, bool) or not isinstance(n_cells, numbers.Integral) or n_cells < 1:
            raise ValueError(f"n_cells must be an integer of at least 1, got {n_cells!r}")
        return cls(np.linspace(low, high, int(n_cells) + 1), integer=integer)

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.edges.size - 1

    def __repr__(self) -> str:
        ends = f"{self.edges[0]:g} to {self.edges[-1]:g}"
        return f"Bins({self.size} cells from {ends})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bins):
            return NotImplemented
        return np.array_equal(self.edges, other.edges) and self.integer == other.integer

    def __hash__(self) -> int:
        return hash((self.edges.tobytes(), self.integer))

    def codes(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return each number's cell.

        Parameters
        ----------
        values : ndarray of float

        Returns
        -------
        codes : ndarray of int
            Clipped to the ends; the first cell for NaN.
        outside : ndarray of bool
            Which values are not between the edges.
        """
        cell = np.searchsorted(self.edges, values, side="right") - 1
        known = (values >= self.edges[0]) & (values <= self.edges[-1])
        cell[np.isnan(values)] = 0
        return np.clip(cell, 0, self.size - 1), ~known

    def values(self, codes: NDArray, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Return a point of each cell.

        Parameters
        ----------
        codes : ndarray of int
        rng : Generator, default=None
            For uniform points; None for middles.

        Returns
        -------
        values : ndarray of float
        """
        low, high = self.edges[codes], self.edges[codes + 1]
        part = np.full(len(codes), 0.5) if rng is None else rng.random(len(codes))
        inner = low + part * (high - low)
        if not self.integer:
            return inner
        # The whole numbers of the cell; a cell without one gives the next one above.
        first = np.ceil(low)
        last = np.where(codes == self.size - 1, np.floor(high), np.ceil(high) - 1)
        last = np.maximum(last, first)
        whole: NDArray[np.float64] = np.minimum(first + np.floor(part * (last - first + 1)), last)
        return whole


class _Categories:
    """A column with a public list of values; a missing cell is the category None, if declared."""

    def __init__(self, values: Sequence[Any], other: Any, has_other: bool, name: str) -> None:
        self.values_ = list(values)
        self.size = len(self.values_)
        if not 1 <= self.size <= MAX_CODES:
            raise ValueError(
                f"domain: column {name} must have 1 to {MAX_CODES} categories, got {self.size}"
            )
        try:
            self.known = {_plain(value): code for code, value in enumerate(self.values_)}
        except TypeError:
            raise TypeError(f"domain: categories of column {name} must be hashable") from None
        self.array = _as_array(self.values_)
        self.is_text = any(isinstance(value, str) for value in self.values_)
        if len(self.known) != self.size:
            raise ValueError(f"domain: categories of column {name} must be distinct")
        if has_other and _plain(other) not in self.known:
            raise ValueError(f"domain: other of column {name} must be one of its categories")
        self.other = self.known[_plain(other)] if has_other else self.size - 1

    def code(self, cell: Any) -> int:
        """Return a cell's code, -1 if it is no category."""
        code: int = attempt(lambda: self.known.get(_plain(cell), -1), -1, _keep)
        return code

    def codes(self, cells: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return each cell's code, and who is outside."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "biufmM":
            # A code is a function of the value, so each value is looked up once.
            values, place = np.unique(cells, return_inverse=True)
            code = np.array([self.code(cell) for cell in values], dtype=np.int64)[place]
            if cells.dtype.kind == "f" and cells.dtype.itemsize < 8:
                # A category as this column would hold it: 0.1 has another value in 32 bits.
                narrow = _narrowed(self.known, cells.dtype)
                short = [narrow.get(float(cell), -1) for cell in values]
                code = np.where(code < 0, np.array(short, dtype=np.int64)[place], code)
        else:
            code = np.array([self.code(cell) for cell in _cells(cells)], dtype=np.int64)
        outside = code < 0
        return np.where(outside, self.other, code), outside


def _keep(seed: int) -> None:
    """Leave the global generators alone: nothing here draws from them."""


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


def _narrowed(known: dict[Any, int], dtype: np.dtype) -> dict[float, int]:
    """Return the numbers among the categories as a shorter float type holds them."""
    found: dict[float, int] = {}
    with np.errstate(all="ignore"):
        for value, code in known.items():
            if isinstance(value, float):
                found.setdefault(float(dtype.type(value)), code)
    return found


_NANOSECONDS = {
    "W": 604_800 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9,
    "ms": 10**6, "us": 10**3, "ns": 1,
}  # fmt: skip
_EPOCH = datetime.datetime(1970, 1, 1)


def _plain(value: Any) -> Any:
    """Return what a value is looked up by: the same for equal numbers, dates and missing values.

    Numpy's scalars are like Python's, every kind of missing value is None, and dates and durations
    are whole numbers of nanoseconds, however they are held.
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _ticks(value)
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value) or (isinstance(value, float | np.floating) and bool(np.isnan(value))):
        return None
    more = int(getattr(value, "nanosecond", getattr(value, "nanoseconds", 0)) or 0)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            return value
        return "moment", _nanoseconds(value - _EPOCH) + more
    if isinstance(value, datetime.date):
        return "moment", (value - _EPOCH.date()).days * _NANOSECONDS["D"]
    if isinstance(value, datetime.timedelta):
        return "span", _nanoseconds(value) + more
    return value


def _nanoseconds(span: datetime.timedelta) -> int:
    return (span.days * 86_400 + span.seconds) * 10**9 + span.microseconds * 1000


def _ticks(value: Any) -> Any:
    """Return a numpy date or duration as whole nanoseconds, of any size; None for NaT."""
    if np.isnat(value):
        return None
    kind = "moment" if value.dtype.kind == "M" else "span"
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and kind == "moment":
        day = value.astype("M8[D]")
        if day.astype(value.dtype) != value:
            raise ValueError("a date beyond what days can count")
        value, unit, step = day, "D", 1
    if unit not in _NANOSECONDS:
        return value.item()
    return kind, int(value.astype(np.int64)) * step * _NANOSECONDS[unit]


class Domain:
    """The values that each column of a table may have, stated from public knowledge.

    Parameters
    ----------
    columns : mapping from column name to column, or sequence of columns
        A column is a list of categories, `Bins`, or an int k for the whole numbers 0 to k - 1. With
        names, tables must have these columns in this order.
    outside : {"clip", "refuse"}, default="clip"
        What to do with a cell that is not in the domain. ``"clip"``: with `Bins`, a number goes to
        the nearest cell; with categories, a value goes to the column's `other`. ``"refuse"``:
        ValueError before any charge; it tells that there is such a cell.
    other : mapping from column name (or position) to category, default=None
        Where undeclared and missing values go; a column's last category if not given (of `Bins`,
        what is no number goes to the first cell).

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
        if isinstance(columns, str) or not isinstance(columns, Mapping | Sequence):
            raise TypeError("domain must be a mapping or a sequence of columns")
        specs = list(columns.values()) if isinstance(columns, Mapping) else list(columns)
        if not specs:
            raise ValueError("domain must have at least one column")
        if outside not in (CLIP, REFUSE):
            raise ValueError(f"outside must be 'clip' or 'refuse', got {outside!r}")
        self.outside = outside
        labels = self.names if self.names is not None else tuple(range(len(specs)))
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
        """Return the domain of columns of zeros and ones.

        Parameters
        ----------
        columns : int or sequence
            Their number, or their names.

        Returns
        -------
        domain : Domain
        """
        if isinstance(columns, int | np.integer):
            return cls([2] * int(columns))
        return cls(dict.fromkeys(columns, 2))

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"Domain({self.n_columns} columns, {about(self.n_cells)} cells)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.names, self.sizes))

    def _key(self) -> tuple[Any, ...]:
        columns = [
            c if isinstance(c, Bins) else (tuple(c.known), str(c.array.dtype), c.other)
            for c in self._columns
        ]
        return (self.names, self.outside, columns)

    def _check_type(self, X: Any) -> None:
        """Refuse an array of text for columns without text: its type is public, and a mistake."""
        if not isinstance(X, np.ndarray) or X.dtype.kind not in "US":
            return
        for j, column in enumerate(self._columns):
            if isinstance(column, _Categories) and not column.is_text:
                raise TypeError(
                    f"X is an array of text, but column {j} of the domain has no text among its "
                    "categories; give a table, or an array of dtype object"
                )

    def position(self, column: Any) -> int:
        """Return the position of a column given by name or by position.

        Parameters
        ----------
        column : name or int

        Returns
        -------
        position : int

        Raises
        ------
        ValueError
            If there is no such column.
        """
        if self.names is not None and column in self.names:
            return self.names.index(column)
        integral = isinstance(column, numbers.Integral) and not isinstance(column, bool)
        if integral and 0 <= column < self.n_columns:
            return int(column)
        raise ValueError(f"the domain has no column {column!r}; it has {self.n_columns} columns")

    def column(self, position: int) -> Bins | list[Any]:
        """Return what a column's values are.

        Parameters
        ----------
        position : int

        Returns
        -------
        column : Bins or list of categories
        """
        column = self._columns[position]
        return column if isinstance(column, Bins) else list(column.values_)

    def is_numeric(self, position: int) -> bool:
        """Say whether a column's values are numbers.

        Parameters
        ----------
        position : int

        Returns
        -------
        numeric : bool
        """
        column = self._columns[position]
        return isinstance(column, Bins) or all(
            isinstance(value, numbers.Real) for value in column.values_
        )

    def __sklearn_clone__(self) -> Domain:
        return self  # it never changes

    def codes(self, position: int, cells: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the codes of a column's cells, each decided by itself.

        Parameters
        ----------
        position : int
        cells : column of an array, or of a pandas, polars or pyarrow table

        Returns
        -------
        codes : ndarray of int
        outside : ndarray of bool
            Which cells are not in the domain.
        """
        column = self._columns[position]
        if isinstance(column, Bins):
            codes, outside = column.codes(_numbers(cells))
            return codes, outside
        return column.codes(cells)

    def values(
        self, position: int, codes: NDArray, rng: np.random.Generator | None = None
    ) -> NDArray:
        """Return a column's values for its codes.

        Parameters
        ----------
        position : int
        codes : ndarray of int
        rng : Generator, default=None
            Data-independent randomness for a uniform point of each cell of `Bins`; None for the
            middle.

        Returns
        -------
        values : ndarray
        """
        column = self._columns[position]
        codes = np.asarray(codes, dtype=np.int64)
        if isinstance(column, Bins):
            return column.values(codes, rng)
        return column.array[codes]


def about(number: int) -> str:
    """Return an integer of any size in few characters."""
    digits = number.bit_length() * math.log10(2)  # a float may be too small to hold it
    return f"{number:,}" if digits < 9 else f"about 10**{digits:.0f}"


def _column(spec: Any, other: Any, has_other: bool, name: str) -> Bins | _Categories:
    """Return one column of a domain from what the user stated."""
    if isinstance(spec, Bins):
        if has_other:
            raise ValueError(f"domain: column {name} has bins; other is for categories")
        return spec
    if isinstance(spec, int | np.integer) and not isinstance(spec, bool):
        if not 1 <= spec <= MAX_CODES:
            raise ValueError(f"domain: column {name} must have 1 to {MAX_CODES} values, got {spec}")
        spec = list(range(int(spec)))
    if isinstance(spec, str | bytes | Mapping) or not hasattr(spec, "__iter__"):
        raise TypeError(
            f"domain: column {name} must be a list of categories, Bins or an int, got "
            f"{type(spec).__name__}"
        )
    dates = getattr(getattr(spec, "dtype", None), "kind", "") in ("m", "M")
    values = spec.tolist() if hasattr(spec, "tolist") and not dates else list(spec)
    return _Categories(values, other, has_other, name)


def _numbers(cells: Any) -> NDArray[np.float64]:
    """Return cells as float64, NaN for one that is no number; each decided by itself."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    return np.array([_number(cell) for cell in _cells(cells)], dtype=np.float64)


def _number(cell: Any) -> float:
    def convert() -> float:
        if isinstance(cell, np.datetime64 | np.timedelta64):
            return math.nan  # its float would count ticks
        try:
            return float(cell)
        except OverflowError:  # a huge integer is beyond the last edge on its side
            return math.inf if cell > 0 else -math.inf

    number: float = attempt(convert, math.nan, _keep)
    return number


_UNREADABLE = object()  # equal to no category, and no number


def _cells(cells: Any) -> list[Any]:
    """Return the cells of a column as a list of Python objects; each is read by itself if need be.

    One cell that its container cannot read must not decide about the others.
    """
    found: list[Any] | None = attempt(lambda: _read(cells), None, _keep)
    if found is not None:
        return found
    if len(cells) == 1:
        return [_UNREADABLE]
    return [cell for i in range(len(cells)) for cell in _cells(_cut(cells, i, i + 1))]


def _read(cells: Any) -> list[Any]:
    if hasattr(cells, "to_pylist"):  # pyarrow
        return list(cells.to_pylist())
    if hasattr(cells, "to_list"):  # pandas, polars
        return list(cells.to_list())
    if cells.dtype.kind in "mM":
        return list(cells)  # numpy's scalars: `tolist` would count ticks
    return list(cells.tolist())


# --- private tables ---------------------------------------------------------------------------


class CodedRows(Rows):
    """Private rows as codes of a public domain; each is in range of the column's size."""

    def __init__(self, codes: NDArray, sizes: tuple[int, ...]) -> None:
        super().__init__(codes)
        self.sizes = sizes

    def codes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the codes of rows start to stop, shape (stop - start, n_columns)."""
        return np.asarray(self._part(self._X, start, stop), dtype=np.int64)


@dataclass(frozen=True)
class Schema:
    """What is public about a table.

    Attributes
    ----------
    n_columns : int
    names : tuple or None
        Of the columns; None for an array.
    container : str
        ``"numpy"``, ``"pandas"``, ``"polars"`` or ``"pyarrow"``.
    """

    n_columns: int
    names: tuple[Any, ...] | None
    container: str


def table_schema(X: Any, *, estimator: str) -> tuple[Any, Schema]:
    """Return X as an array or table of cells of any types, and what is public about it.

    Raises
    ------
    TypeError, ValueError
        With a fixed text, if X is sparse, complex, not two-dimensional or has no column.
    """
    if not hasattr(X, "dtype") and not hasattr(X, "columns"):
        # Objects: one row of text would turn the numbers of all others to text.
        try:
            X = np.array(X, dtype=object)
        except Exception:  # noqa: BLE001  ragged; the next check says so with a fixed text
            X = np.zeros(0)
    X = _container(X, estimator)
    if isinstance(X, np.ndarray):
        X = np.asarray(X)  # parts of a matrix would have two dimensions
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported: X must be real.")
        return X, Schema(X.shape[1], None, "numpy")
    if hasattr(X, "column_names"):
        return X, Schema(X.shape[1], tuple(X.column_names), "pyarrow")
    container = "pandas" if _is_frame(X) else "polars"
    return X, Schema(X.shape[1], tuple(X.columns), container)


def check_coded(X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False) -> CodedRows:
    """Code a private table of any types by a public domain, once.

    Guarantee: a row's codes depend on that row only; after it returns reading cannot fail. Error
    texts are fixed and quote no cell.

    Parameters
    ----------
    X : array-like, pandas, polars or pyarrow table of shape (n_samples, n_columns)
    domain : Domain
    estimator : str
        Name for error messages.
    allow_empty : bool, default=False

    Returns
    -------
    rows : CodedRows

    Raises
    ------
    TypeError, ValueError
        If X is no table of the domain's columns, or (``outside="refuse"``) has a cell outside.
    """
    codes = public_codes(X, domain, estimator=estimator, allow_empty=allow_empty)
    return CodedRows(codes, domain.sizes)


def public_codes(X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False) -> NDArray:
    """Return the codes of the caller's own table, shape (n_rows, n_columns); as `check_coded`."""
    X, schema = table_schema(X, estimator=estimator)
    if schema.n_columns != domain.n_columns:
        raise ValueError(
            f"X has {schema.n_columns} features, but the domain of {estimator} has "
            f"{domain.n_columns} columns"
        )
    if None not in (schema.names, domain.names) and schema.names != domain.names:
        raise ValueError(
            f"X must have the columns of the domain, in its order: {list(domain.names or ())}"
        )
    domain._check_type(X)
    n = X.shape[0]
    if n == 0 and not allow_empty:
        raise ValueError(_NO_ROWS)
    largest = max(domain.sizes)
    coded = np.zeros((n, domain.n_columns), dtype=np.uint8 if largest <= 2**8 else np.uint16)
    step = 2**16
    strange = False
    with quiet(), interruptible():  # a cell's own conversion may warn, or raise
        for j in range(domain.n_columns):
            for start in range(0, n, step):
                cells = _column_part(X, j, start, min(start + step, n))
                codes, outside = domain.codes(j, cells)
                coded[start : start + step, j] = codes
                strange |= bool(outside.any())
    if strange and domain.outside == REFUSE:
        raise ValueError(_OUTSIDE)
    return coded


def _column_part(X: Any, j: int, start: int, stop: int) -> Any:
    """Return a part of one column in its own container."""
    if _is_frame(X):
        part = X.iloc[start:stop, j]
        plain = getattr(part.dtype, "kind", "O") in "biuf" and isinstance(part.dtype, np.dtype)
        return part.to_numpy() if plain else part
    if hasattr(X, "column_names"):  # pyarrow
        return X.column(j).slice(start, stop - start)
    if _is_sliced_table(X):  # polars
        column = X[:, j].slice(start, stop - start)
        # Reading a date that Python cannot hold would be a panic, with a trace on stderr.
        return column.to_numpy() if column.dtype.is_temporal() else column
    return X[start:stop, j]


def _one_type(stated: Any, column: NDArray) -> list[Any]:
    """Return a column of objects as a list that a typed container holds.

    The categories decide, not which of them were drawn: numbers become floats together, and what
    has no common type becomes text.
    """
    kinds = {type(value) for value in stated if value is not None}
    cells = column.tolist()
    if kinds <= {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    scalar = (bool, str, bytes, datetime.datetime, datetime.date, datetime.timedelta)
    if len(kinds) == 1 and kinds <= set(scalar):
        return cells
    return [None if cell is None else str(cell) for cell in cells]


def decoded(
    domain: Domain,
    codes: NDArray,
    *,
    names: Sequence[Any] | None = None,
    container: str = "numpy",
    rng: np.random.Generator | None = None,
) -> Any:
    """Return released codes as a table: numbers and categories, in the container asked for.

    Parameters
    ----------
    codes : ndarray of shape (n, n_columns)
        Released.
    names : sequence, default=None
        Column names of a table.
    container : {"numpy", "pandas", "polars", "pyarrow"}
        An array has numbers if all columns have, else objects.
    rng : Generator, default=None
        As for `Domain.values`.
    """
    columns = [domain.values(j, codes[:, j], rng) for j in range(domain.n_columns)]
    labels = list(names) if names is not None else [f"x{j}" for j in range(domain.n_columns)]
    if container != "numpy":
        module: Any = import_module(container)  # the caller's table came from there
        if container == "pandas":
            table = module.DataFrame(dict(enumerate(columns)))
            table.columns = labels
            return table
        by_name = {
            str(label): _one_type(domain.column(j), column) if column.dtype.kind == "O" else column
            for j, (label, column) in enumerate(zip(labels, columns, strict=True))
        }
        return module.table(by_name) if container == "pyarrow" else module.DataFrame(by_name)
    kinds = {column.dtype.kind for column in columns}
    if kinds <= set("biuf"):
        return np.column_stack(columns)
    out = np.empty((len(codes), domain.n_columns), dtype=object)
    for j, column in enumerate(columns):
        out[:, j] = column.tolist()
    return out
