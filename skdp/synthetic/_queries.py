"""Linear queries as users state them: conjunctions, thresholds, intervals, parities, functions.

With a public `Domain` a specification becomes a `Workload`, which a session answers.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._docstrings import shared_texts
from skdp.base import check_integer
from skdp.parameters import check_length, naming
from skdp.queries import MAX_TABLE, Cells, Group, Intervals, Prefixes, Weighted, Workload
from skdp.tabular import Bins, Domain

# --- kinds of queries -----------------------------------------------------------------------------

MAX_SETS = 2**20  # sets of columns
MAX_QUERIES = 2**24
MAX_WEIGHTS = 2**26  # entries of a matrix of queries


@shared_texts
class Queries:
    """Linear queries, stated without a table.

    A query is a function of one row with values in [0, 1]; its answer is its mean over the rows.
    Queries are made by `conjunctions`, `thresholds`, `intervals`, `parities` and `linear_queries`;
    ``a + b`` has the queries of both. Objects are immutable, so estimators may share them.
    """

    @property
    def parts(self) -> tuple[Queries, ...]:
        """The specifications of which this one is the sum."""
        return (self,)

    @property
    def key(self) -> tuple[Any, ...]:
        """A hashable key that distinguishes the specification from others of its type."""
        raise NotImplementedError

    def groups(self, domain: Domain) -> list[Group]:
        """Return the queries on a domain, grouped by the columns that they depend on."""
        raise NotImplementedError

    def workload(self, domain: Domain) -> Workload:
        """Return the queries on a domain.

        Raises
        ------
        TypeError, ValueError
            If the queries do not fit the domain, or if there are none or too many.
        """
        groups = self.groups(domain)
        count = sum(group.n_queries(domain.sizes) for group in groups)
        if count == 0:
            raise ValueError("queries must hold at least one query, got none")
        if count > MAX_QUERIES:
            raise ValueError(f"queries must be at most {MAX_QUERIES}, got {count}")
        return Workload(domain.sizes, groups)

    def __call__(self, domain: Domain) -> Workload:
        """Return the queries on a domain, as `workload` does."""
        return self.workload(domain)

    def __add__(self, other: object) -> Queries:
        if not isinstance(other, Queries):
            return NotImplemented
        return _Sum([self, other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Queries):
            return NotImplemented
        return type(self) is type(other) and self.key == other.key

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.key))

    def __sklearn_clone__(self) -> Queries:
        return self  # it never changes


class _Sum(Queries):
    """The queries of several specifications, one after the other."""

    def __init__(self, parts: Iterable[Queries]) -> None:
        self._all = tuple(single for part in parts for single in part.parts)

    @property
    def parts(self) -> tuple[Queries, ...]:
        return self._all

    @property
    def key(self) -> tuple[Any, ...]:
        return self._all

    def __repr__(self) -> str:
        return " + ".join(map(repr, self._all))

    def groups(self, domain: Domain) -> list[Group]:
        return [group for part in self._all for group in part.groups(domain)]


class _OnColumns(Queries):
    """Queries on some columns of the domain, given by name or position; None for all."""

    # Seeded noise is keyed by the attributes of an instance, so names of arguments are the class's.
    _name = "linear_queries"
    _options: ClassVar[tuple[str, ...]] = ("columns",)

    def __init__(self, columns: Any) -> None:
        self.columns = _check_columns(columns)

    def _argument(self) -> Any:
        """Return the argument without a name, for displays; None if there is none."""
        return getattr(self, "order", None)

    @property
    def key(self) -> tuple[Any, ...]:
        options = [getattr(self, name) for name in self._options]
        stated = [("by column", *v.items()) if isinstance(v, dict) else v for v in options]
        return (self._argument(), *stated)

    def __repr__(self) -> str:
        argument = self._argument()
        stated = [] if argument is None else [str(argument)]
        for name in self._options:
            value = getattr(self, name)
            if value is not None and value is not False:
                stated.append(f"{name}={value!r}")
        return f"{self._name}({', '.join(stated)})"

    def _positions(self, domain: Domain) -> list[int]:
        """Return the stated columns in the order stated; all if none are."""
        if self.columns is None:
            return list(range(domain.n_columns))
        with naming("columns"):
            positions = [domain.position(column) for column in self.columns]
        if len(set(positions)) != len(positions):
            raise ValueError("columns must be distinct")
        return positions

    def _sets(self, domain: Domain, order: int) -> Iterator[tuple[int, ...]]:
        """Return every set of `order` of the stated columns, ascending."""
        positions = sorted(self._positions(domain))
        if order > len(positions):
            raise ValueError(
                f"queries: order={order} is above the number of columns "
                f"(n_features = {len(positions)})"
            )
        if (count := math.comb(len(positions), order)) > MAX_SETS:
            raise ValueError(
                f"queries: order={order} of {len(positions)} columns makes {count} sets of "
                f"columns; at most {MAX_SETS} are possible"
            )
        return combinations(positions, order)


class _Conjunctions(_OnColumns):
    _name = "conjunctions"
    _options = ("monotone", "columns", "values")

    def __init__(self, order: Any, monotone: bool, columns: Any, values: Any) -> None:
        super().__init__(columns)
        self.order = check_integer(order, "order", low=1)
        if not isinstance(monotone, bool | np.bool_):
            raise TypeError(f"monotone must be True or False, got {type(monotone).__name__}")
        self.monotone = bool(monotone)
        if values is not None and not self.monotone:
            raise ValueError("values is for monotone=True only: other conjunctions ask every value")
        self.values = dict(values) if isinstance(values, Mapping) else values

    def groups(self, domain: Domain) -> list[Group]:
        sets = self._sets(domain, self.order)
        if not self.monotone:
            return [Cells(s) for s in sets]
        values = self._by_position(domain)
        code = {j: self._code(domain, j, values) for j in self._positions(domain)}
        groups: list[Group] = []
        for s in sets:
            cell = reduce(lambda cell, j: cell * domain.sizes[j] + code[j], s, 0)
            groups.append(Cells(s, np.array([cell])))
        return groups

    def _by_position(self, domain: Domain) -> dict[int, Any]:
        """Return the stated values by the columns' positions; refuse keys that name no column."""
        if self.values is None:
            return {}
        if not isinstance(self.values, dict):
            return dict.fromkeys(self._positions(domain), self.values)
        by_position: dict[int, Any] = {}
        for key, value in self.values.items():
            try:
                j = domain.position(key)
            except ValueError:
                raise ValueError(f"values names no column of the domain: {key!r}") from None
            if j in by_position:
                raise ValueError(f"values names a column twice: {key!r}")
            by_position[j] = value
        return by_position

    @staticmethod
    def _code(domain: Domain, j: int, values: dict[int, Any]) -> int:
        """Return the code of the value of a column in a monotone conjunction."""
        if j not in values:
            return domain.sizes[j] - 1
        label = j if domain.names is None else domain.names[j]
        value = values[j]
        codes, outside = domain.codes(j, np.array([value], dtype=object))
        if outside[0]:
            raise ValueError(f"values: {value!r} is not in the domain of column {label!r}")
        return int(codes[0])


class _Ordered(_OnColumns):
    """Queries on each of some ordered columns by itself."""

    _group: type[Prefixes] | type[Intervals]

    def groups(self, domain: Domain) -> list[Group]:
        return [self._group(j) for j in self._ordered(domain)]

    def _ordered(self, domain: Domain) -> list[int]:
        """Return the stated columns, whose order the domain states; else all with an order."""
        if self.columns is not None:
            return self._positions(domain)
        ordered = [j for j in range(domain.n_columns) if _is_ordered(domain, j)]
        if not ordered:
            raise ValueError(
                f"queries: {self._name} needs an ordered column (Bins, or numbers that increase), "
                "and the domain has none; columns= takes the order of the categories stated"
            )
        return ordered


class _Thresholds(_Ordered):
    _name, _group = "thresholds", Prefixes


class _Intervals(_Ordered):
    _name, _group = "intervals", Intervals


class _Parities(_OnColumns):
    _name = "parities"

    def __init__(self, order: Any, columns: Any) -> None:
        super().__init__(columns)
        self.order = check_integer(order, "order", low=1)

    def groups(self, domain: Domain) -> list[Group]:
        groups: list[Group] = []
        for s in self._sets(domain, self.order):
            shape = tuple(domain.sizes[j] for j in s)
            _check_cells(math.prod(shape))
            even = 1 - np.indices(shape).sum(axis=0).reshape(1, -1) % 2
            groups.append(Weighted(s, even))
        return groups


class _Matrix(_OnColumns):
    def __init__(self, weights: NDArray, columns: Any) -> None:
        super().__init__(columns)
        self.weights = weights

    def _argument(self) -> str:
        n, cells = self.weights.shape
        return f"<{n} x {cells} matrix>"

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.weights.shape, self.weights.dtype.str, self.weights.tobytes(), self.columns)

    def groups(self, domain: Domain) -> list[Group]:
        positions = self._positions(domain)
        cells = math.prod(domain.sizes[j] for j in positions)
        if self.weights.shape[1] != cells:
            raise ValueError(
                f"q has {self.weights.shape[1]} cells a query, but the domain of its columns has "
                f"{cells}"
            )
        return [_weighted(domain, positions, self.weights)]


class Functions(_OnColumns):
    """Queries that are functions of a row."""

    def __init__(self, functions: Sequence[Callable[[Any], float]], columns: Any) -> None:
        super().__init__(columns)
        self.functions = tuple(functions)

    def _argument(self) -> str:
        names = [getattr(g, "__name__", type(g).__name__) for g in self.functions]
        return f"<{', '.join(names)}>"

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.functions, self.columns)

    def on_rows(self, domain: Domain, rows: NDArray) -> NDArray[np.float64]:
        """Return every function's mean over released rows (codes of all columns of the domain)."""
        positions = self._positions(domain)
        codes, times = np.unique(rows[:, positions], axis=0, return_counts=True)
        means: NDArray[np.float64] = self.at(domain, positions, codes) @ times / len(rows)
        return means

    def groups(self, domain: Domain) -> list[Group]:
        positions = self._positions(domain)
        shape = tuple(domain.sizes[j] for j in positions)
        _check_cells(math.prod(shape))
        _check_weights(len(self.functions), math.prod(shape))
        codes = np.column_stack(np.unravel_index(np.arange(math.prod(shape)), shape))
        return [_weighted(domain, positions, self.at(domain, positions, codes))]

    def at(self, domain: Domain, positions: Sequence[int], codes: NDArray) -> NDArray:
        """Return every function at some cells, checked; shape (n_functions, len(codes)).

        A function gets a row of the stated columns: a dict by name if the domain has names, else a
        tuple. Of `Bins` it gets the middle of the cell.
        """
        columns = [domain.values(j, codes[:, i]).tolist() for i, j in enumerate(positions)]
        names = None if domain.names is None else [domain.names[j] for j in positions]
        cells: list[Any] = list(zip(*columns, strict=True))
        if names is not None:
            cells = [dict(zip(names, cell, strict=True)) for cell in cells]
        out = np.empty((len(self.functions), len(cells)))
        for i, g in enumerate(self.functions):
            for c, cell in enumerate(cells):
                out[i, c] = _in_unit(g(cell), i)
        return out


def _weighted(domain: Domain, positions: Sequence[int], weights: NDArray) -> Weighted:
    """Return the group of queries whose cells are in the order of these columns."""
    order = np.argsort(positions)
    shape = tuple(domain.sizes[j] for j in positions)
    table = weights.reshape(len(weights), *shape).transpose(0, *(order + 1))
    return Weighted([positions[i] for i in order], table.reshape(len(weights), -1))


def _is_ordered(domain: Domain, j: int) -> bool:
    """Say whether a column is of bins, or of numbers that increase."""
    column = domain.column(j)
    if isinstance(column, Bins):
        return True
    return domain.is_numeric(j) and all(a < b for a, b in pairwise(column))


def _check_cells(cells: int) -> None:
    if cells > MAX_TABLE:
        raise ValueError(
            f"queries: a table of {cells} cells is too large; at most {MAX_TABLE} are "
            "possible. State fewer columns"
        )


def _check_weights(n_queries: int, cells: int) -> None:
    if n_queries * cells > MAX_WEIGHTS:
        raise ValueError(
            f"q must have at most {MAX_WEIGHTS} entries, got {n_queries} queries on {cells} cells"
        )


def _check_columns(columns: Any) -> tuple[Any, ...] | None:
    """Return the stated columns as a tuple; one name or position is a list of one."""
    if columns is None:
        return None
    if isinstance(columns, str | numbers.Integral) or not isinstance(columns, Iterable):
        columns = [columns]
    with naming("columns"):
        check_length(columns, "columns")
        stated = tuple(columns)
    if not stated:
        raise ValueError("columns must name at least one column, got none")
    if not all(isinstance(column, Hashable) for column in stated):
        raise TypeError("columns must be names or positions of columns")
    return stated


def _in_unit(value: Any, query: int) -> float:
    """Return a query's value at a cell of the public domain, or raise with the number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"q must return numbers in [0, 1], query {query} gave {type(value).__name__}"
        ) from None
    if not 0.0 <= number <= 1.0:  # NaN is neither
        raise ValueError(f"q must lie in [0, 1]; query {query} is {number} at a cell")
    return number


# --- how users state queries ----------------------------------------------------------------------


@shared_texts
def conjunctions(
    order: int = 2, *, monotone: bool = False, columns: Any = None, values: Any = None
) -> Queries:
    """State conjunctions: which part of the rows has given values in all of some columns.

    Parameters
    ----------
    order : int, default=2
        Number of columns of each query, for all sets of this many columns.
    monotone : bool, default=False
        False: one query for each cell of each marginal table of this many columns (general
        conjunctions). True: one query for each set of columns: whether all have a stated value.
    columns : sequence, default=None
        Names or positions of the columns to choose from; None: all columns.
    values : value or mapping from column to value, default=None
        For monotone conjunctions: one value for all columns, or a value for each column by name or
        position. If not given, the last category of a column, which is 1 for a column of zeros and
        ones. With `Bins`, any number in the cell. Unknown names are refused once the domain is
        known.

    Raises
    ------
    TypeError, ValueError
        If `order` is not an integer of at least 1, if `columns` is empty, or if `values` is given
        for general conjunctions.

    Examples
    --------
    >>> from skdp.synthetic import Domain, conjunctions
    >>> conjunctions(3).workload(Domain.binary(16)).n_queries
    4480
    >>> conjunctions(3, monotone=True).workload(Domain.binary(16)).n_queries
    560
    """
    return _Conjunctions(order, monotone, columns, values)


@shared_texts
def thresholds(columns: Any = None) -> Queries:
    """State thresholds of ordered columns: which part of the rows lies in the first j cells.

    Parameters
    ----------
    columns : sequence, default=None
        Names or positions; the categories are ordered as in the domain. None: all columns with
        `Bins` or with increasing numbers.

    Examples
    --------
    >>> from skdp.synthetic import Bins, Domain, thresholds
    >>> thresholds().workload(Domain([Bins.regular(0, 1, 100)])).n_queries
    99
    """
    return _Thresholds(columns)


@shared_texts
def intervals(columns: Any = None) -> Queries:
    """State intervals of ordered columns: which part of the rows lies in the cells i to j.

    Parameters
    ----------
    columns : sequence, default=None
        As for `thresholds`.

    Examples
    --------
    >>> from skdp.synthetic import Bins, Domain, intervals
    >>> intervals().workload(Domain([Bins.regular(0, 1, 100)])).n_queries
    5050
    """
    return _Intervals(columns)


@shared_texts
def parities(order: int = 2, *, columns: Any = None) -> Queries:
    """State parities: which part of the rows has an even sum of codes in some columns.

    The code of a value is its position in the domain, from 0. In columns of zeros and ones, the sum
    of codes is the number of ones.

    Parameters
    ----------
    order : int, default=2
        Number of columns of each query, for all sets of this many columns.
    columns : sequence, default=None
        Names or positions of the columns to choose from; None: all columns.

    Examples
    --------
    >>> from skdp.synthetic import Domain, parities
    >>> parities(2).workload(Domain.binary(16)).n_queries
    120
    """
    return _Parities(order, columns)


@shared_texts
def linear_queries(q: ArrayLike | Callable | Sequence[Callable], *, columns: Any = None) -> Queries:
    """State queries by a matrix, or by functions of a row.

    Parameters
    ----------
    q : array-like of shape (n_queries, n_cells) or (n_cells,), callable, or sequence of callables
        Values in [0, 1]. A matrix has one column for each cell of the stated columns; the value of
        the last column changes fastest. A function gets a row of the stated columns: a dict by name
        if the domain has names, otherwise a tuple. It is evaluated once at every cell of the public
        domain (at the middles of `Bins`), and never sees a private row.
    columns : sequence, default=None
        Names or positions; None: all columns. At most 2**20 cells together.

    Raises
    ------
    TypeError, ValueError
        If a matrix holds no query, or anything but numbers in [0, 1]. Functions are checked when
        they are evaluated: in a fit, before any charge.

    Notes
    -----
    Coefficients other than 0 and 1 are rounded to multiples of 2**-20.

    **Cost.** A function is called in Python once for every cell of the stated columns, which takes
    10 to 20 microseconds each. So name the columns that it reads: on a domain of 2**20 cells, a
    function of two columns takes 0.1 seconds with ``columns=``, and 17 seconds without.

    Examples
    --------
    >>> from skdp.synthetic import Bins, Domain, linear_queries
    >>> domain = Domain({"origin": ["EWR", "JFK"], "delay": Bins([-60, 15, 1500])})
    >>> late = linear_queries(lambda row: row["origin"] == "JFK" and row["delay"] > 15)
    >>> late.workload(domain).answers([[10, 20], [30, 40]]).tolist()
    [40]
    """
    check_length(q, "q")
    if callable(q):
        return Functions([q], columns)
    if isinstance(q, Sequence) and len(q) > 0 and all(callable(g) for g in q):
        functions: list[Any] = list(q)
        return Functions(functions, columns)
    try:
        weights = np.array(q)
        if weights.dtype.kind not in "biuf":
            if weights.dtype.kind != "O":
                raise TypeError
            weights = weights.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("q must be a matrix of numbers in [0, 1], or functions") from None
    if weights.ndim == 1 and weights.size:
        weights = weights[None, :]
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(
            "q must hold at least one query: a matrix of shape (n_queries, n_cells), got shape "
            f"{weights.shape}"
        )
    _check_weights(*weights.shape)
    inside = (weights >= 0) & (weights <= 1)
    if not inside.all():
        i, c = np.argwhere(~inside)[0]
        raise ValueError(f"q must lie in [0, 1]; query {i} is {weights[i, c]} at cell {c}")
    weights.setflags(write=False)
    return _Matrix(weights, columns)


def query_names(queries: Queries, domain: Domain) -> list[str]:
    """Return a text for each query: columns and their cells; of weights, columns and a number."""
    names: list[str] = []
    for part in queries.parts:
        texts: dict[int, _ColumnTexts] = {}
        for group in part.groups(domain):
            columns = [texts.setdefault(j, _ColumnTexts(domain, j)) for j in group.attributes]
            n = group.n_queries(domain.sizes)
            if isinstance(group, Cells):
                flat = np.arange(n) if group.index is None else group.index
                codes = np.unravel_index(flat, group.table(domain.sizes))
                cells = [c.single[i].tolist() for c, i in zip(columns, codes, strict=True)]
                names += map(", ".join, zip(*cells, strict=True))
            elif isinstance(group, Prefixes | Intervals):
                column = columns[0]
                first, last = np.zeros(n, int), np.arange(n)
                if isinstance(group, Intervals):
                    first, last = np.triu_indices(len(column.single))
                runs = np.where(
                    first == last, column.single[first], column.start[first] + column.end[last]
                )
                names += runs.tolist()
            else:
                kind = getattr(part, "_name", "query")
                of = ", ".join(c.label for c in columns)
                names += [f"{kind} {i} of {of}" for i in range(n)]
    return names


class _ColumnTexts:
    """Texts of a column's cells: of a single one, and of the first and last one of a run."""

    def __init__(self, domain: Domain, j: int) -> None:
        column = domain.column(j)
        self.label = label = f"column {j}" if domain.names is None else str(domain.names[j])
        if not isinstance(column, Bins):
            single = start = [f"{label} = {value}" for value in column]
            end = [f" to {value}" for value in column]
        else:
            edges = [column.shown(float(edge)) for edge in column.edges]
            start = [f"{label} in [{edge}, " for edge in edges[:-1]]
            end = [f"{edge})" for edge in edges[1:-1]] + [f"{edges[-1]}]"]
            single = [low + high for low, high in zip(start, end, strict=True)]
            if column.missing:
                single, start = [*single, f"{label} missing"], [*start, ""]
                end.append(f"{end[-1]} or missing")
        self.single, self.start, self.end = (
            np.array(texts, dtype=object) for texts in (single, start, end)
        )


def workload_of(queries: Any, domain: Domain) -> Workload:
    """Return the queries of the parameter ``queries`` on a domain, or raise naming it."""
    with naming("queries"):
        return as_queries(queries).workload(domain)


def as_queries(queries: Any) -> Queries:
    """Return a specification, a function, or a sequence of such as one specification; or raise."""
    if isinstance(queries, Queries):
        return queries
    if callable(queries):
        return linear_queries(queries)
    if isinstance(queries, Sequence) and not isinstance(queries, str | bytes):
        if len(queries) == 0:
            raise ValueError("queries must hold at least one query, got none")
        if all(isinstance(q, Queries) or callable(q) for q in queries):
            return _Sum([as_queries(q) for q in queries])
    raise TypeError(
        "queries must be made by conjunctions, thresholds, intervals, parities or linear_queries, "
        f"or be a function of a row, or a sequence of these; got {type(queries).__name__}"
    )
