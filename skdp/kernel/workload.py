"""Linear queries on coded rows: many sums of functions of a few columns each, without a matrix.

A query is a function q of a row with values in [0, 1]; its answer is the sum over the rows. Queries
come in groups: those of a group are functions of the same columns, so that the group's answers are
a small linear map of one marginal table. A `Workload` is public; it never sees a row.

Released by the doors: the number of a query (or group) that is answered badly, chosen by the
exponential mechanism; noisy answers; noisy marginal tables. Guarantee: coefficients are integers in
[0, one], answers are exact integers in units of 1/one; a row more or less moves an answer by at
most one, a row replaced too. Proofs: kernel/README.md, "Linear queries".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exceptions import PrivacyLeakError
from skdp.kernel import calibration
from skdp.kernel import statistics as stats
from skdp.kernel.coding import CodedRows
from skdp.kernel.doors import Doors
from skdp.kernel.release import Release, Share, released

__all__ = [
    "MAX_TABLE",
    "QUERY_UNIT",
    "Cells",
    "ExactAnswers",
    "Group",
    "Intervals",
    "Prefixes",
    "Weighted",
    "Workload",
    "WorkloadDoors",
    "cells_noise",
    "marginals",
]

MAX_TABLE = 2**20  # cells of one table that is written out: a marginal, or a whole domain
ONE = 2**20  # the unit of coefficients that are not all 0 or 1
QUERY_UNIT = ONE  # of which the unit of every workload is a divisor

Sizes = tuple[int, ...]


# --- groups -----------------------------------------------------------------------------------


class Group:
    """Queries that are functions of the same columns.

    Parameters
    ----------
    attributes : sequence of int
        Positions of the columns, ascending.

    Attributes
    ----------
    one : int
        Coefficients are integers in [0, one].
    """

    one = 1

    def __init__(self, attributes: Sequence[int]) -> None:
        self.attributes = tuple(int(a) for a in attributes)

    def table(self, sizes: Sizes) -> Sizes:
        """Return the shape of the group's marginal table."""
        return tuple(sizes[a] for a in self.attributes)

    def n_queries(self, sizes: Sizes) -> int:
        """Return the number of queries."""
        raise NotImplementedError

    def apply(self, table: NDArray) -> NDArray:
        """Return the answers, in units of 1/one, from the flat marginal table."""
        raise NotImplementedError

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        """Return the coefficients of some queries, shape (len(queries), cells of the table)."""
        raise NotImplementedError

    def sensitivities(self, sizes: Sizes) -> tuple[int, int, int, int]:
        """Return bounds: L1 and squared L2 of one row's coefficients; of the difference of two."""
        weights = self.coefficients(sizes, np.arange(self.n_queries(sizes)))
        l1 = int(weights.sum(axis=0).max(initial=0))
        l2 = int((weights * weights).sum(axis=0).max(initial=0))
        # Of coefficients that are not negative: |p - q|_1 <= |p|_1 + |q|_1 and at most one a query.
        return l1, l2, min(2 * l1, self.n_queries(sizes) * self.one), 2 * l2


class Cells(Group):
    """Counts of the cells of a marginal table: all of them, or some.

    Parameters
    ----------
    attributes : sequence of int
    index : ndarray of int, default=None
        Flat positions of the cells; None for all.
    """

    def __init__(self, attributes: Sequence[int], index: NDArray | None = None) -> None:
        super().__init__(attributes)
        self.index = None if index is None else np.asarray(index, dtype=np.int64)
        if self.index is not None and self.index.min(initial=0) < 0:
            raise ValueError("cells must be numbered from 0")  # -1 would be a cell once more

    def n_queries(self, sizes: Sizes) -> int:
        """Return the number of cells."""
        return math.prod(self.table(sizes)) if self.index is None else self.index.size

    def apply(self, table: NDArray) -> NDArray:
        """Return the cells' counts."""
        return table if self.index is None else table[self.index]

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        """Return a 1 in each query's cell."""
        queries = np.asarray(queries, dtype=np.int64)
        place = queries if self.index is None else self.index[queries]
        out = np.zeros((queries.size, math.prod(self.table(sizes))), dtype=np.int64)
        out[np.arange(queries.size), place] = 1
        return out

    def sensitivities(self, sizes: Sizes) -> tuple[int, int, int, int]:
        """Return how often a cell is asked: a row is in one cell, two rows are in two."""
        if self.index is None:
            times = [1] * min(2, self.n_queries(sizes))
        else:
            times = sorted(np.unique(self.index, return_counts=True)[1].tolist())[-2:]
        one, two = max(times, default=0), sum(times)
        return one, one, two, two


class Prefixes(Group):
    """How many rows are in the first j cells of an ordered column, for j = 1 .. size - 1."""

    def __init__(self, attribute: int) -> None:
        super().__init__([attribute])

    def n_queries(self, sizes: Sizes) -> int:
        """Return size - 1: all cells together hold all rows (one query if there is one cell)."""
        return max(sizes[self.attributes[0]] - 1, 1)

    def apply(self, table: NDArray) -> NDArray:
        """Return the running sums."""
        return np.cumsum(table)[: max(table.size - 1, 1)]

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        """Return ones up to each query's cell."""
        cells = np.arange(sizes[self.attributes[0]])
        return (cells <= np.asarray(queries)[:, None]).astype(np.int64)

    def sensitivities(self, sizes: Sizes) -> tuple[int, int, int, int]:
        """Return the number of prefixes: one row may be in all of them, another in none."""
        k = self.n_queries(sizes)
        return k, k, k, k


class Intervals(Group):
    """How many rows are in the cells i to j of an ordered column, for all i <= j."""

    def __init__(self, attribute: int) -> None:
        super().__init__([attribute])

    def n_queries(self, sizes: Sizes) -> int:
        """Return g (g + 1) / 2."""
        g = sizes[self.attributes[0]]
        return g * (g + 1) // 2

    def _ends(self, g: int) -> tuple[NDArray, NDArray]:
        return np.triu_indices(g)

    def apply(self, table: NDArray) -> NDArray:
        """Return differences of running sums."""
        low, high = self._ends(table.size)
        sums = np.concatenate([np.zeros(1, dtype=table.dtype), np.cumsum(table)])
        return sums[high + 1] - sums[low]

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        """Return ones from the first to the last cell of each."""
        g = sizes[self.attributes[0]]
        low, high = (end[np.asarray(queries, dtype=np.int64)][:, None] for end in self._ends(g))
        cells = np.arange(g)
        return ((cells >= low) & (cells <= high)).astype(np.int64)

    def sensitivities(self, sizes: Sizes) -> tuple[int, int, int, int]:
        """Return the most intervals that hold a cell: (j + 1) (g - j), in the middle.

        Of cells p < q, s (g + 1 - s) intervals hold just one, s = (p + 1) + (g - q): at most as
        many.
        """
        g = sizes[self.attributes[0]]
        most = ((g + 1) // 2) * ((g + 2) // 2)
        return most, most, most, most


class Weighted(Group):
    """Queries given by their coefficients on the cells of a marginal table.

    Parameters
    ----------
    attributes : sequence of int
    weights : array-like of shape (n_queries, cells)
        In [0, 1], already checked. Others than 0 and 1 are rounded to multiples of 2**-20: queries
        are public, so that is an error of the answer, not of the privacy.
    """

    def __init__(self, attributes: Sequence[int], weights: ArrayLike) -> None:
        super().__init__(attributes)
        values = np.asarray(weights)
        if not bool(np.all((values >= 0) & (values <= 1))):
            raise ValueError("weights must be in [0, 1]")
        binary = bool(np.all((values == 0) | (values == 1)))
        self.one = 1 if binary else ONE
        scaled = values if binary else np.rint(values.astype(np.float64) * ONE)
        self.weights = scaled.astype(np.int64)

    def n_queries(self, sizes: Sizes) -> int:
        """Return the number of rows of the weights."""
        return len(self.weights)

    def apply(self, table: NDArray) -> NDArray:
        """Return the weighted sums: exact for a table of integers."""
        return self.weights @ table

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        """Return the weights of some queries."""
        return self.weights[np.asarray(queries, dtype=np.int64)]


# --- marginal tables ----------------------------------------------------------------------------


def cells_noise(level: float, adjacency: str, *, pure: bool) -> tuple[float, float]:
    """Return the standard deviation and the mean size of the noise of counts of disjoint cells.

    For planning before a release: what `WorkloadDoors.marginal` and `Session.edge_histogram` add at
    this level (epsilon, or mu).
    """
    size = stats.histogram_sensitivity(1, adjacency)
    if pure:
        return calibration.laplace_std(size / level), size / level
    std = math.sqrt(size) / level
    return std, std * math.sqrt(2 / math.pi)


def marginals(table: NDArray, sets: Iterable[Sequence[int]]) -> dict[tuple[int, ...], NDArray]:
    """Return the flat marginal tables of a table over all columns, one for each set of columns.

    Columns are summed out one after the other, and sets that agree on the columns so far share the
    work: all 3-way tables of 16 binary columns cost about 100 passes, not 560.

    Parameters
    ----------
    table : ndarray of shape sizes
    sets : iterable of ascending tuples
    """
    found: dict[tuple[int, ...], NDArray] = {}

    def descend(part: NDArray, kept: tuple[int, ...], column: int, wanted: set[Any]) -> None:
        # part has the kept columns first, then `column`, column + 1, ...
        if column == table.ndim or all(len(s) == len(kept) for s in wanted):
            rest = tuple(range(len(kept), part.ndim))
            for s in wanted:
                found[s] = part.sum(axis=rest).reshape(-1) if rest else part.reshape(-1)
            return
        inside = {s for s in wanted if column in s}
        if outside := wanted - inside:
            descend(part.sum(axis=len(kept)), kept, column + 1, outside)
        if inside:
            descend(part, (*kept, column), column + 1, inside)

    wanted = {tuple(s) for s in sets}
    if wanted:
        descend(table, (), 0, wanted)
    return found


def flat_codes(codes: NDArray, sizes: Sizes, attributes: Sequence[int]) -> NDArray[np.int64]:
    """Return the flat cell of each row in the marginal table of some columns."""
    flat = np.zeros(len(codes), dtype=np.int64)
    for a in attributes:
        flat *= sizes[a]
        flat += codes[:, a]
    return flat


def exact_marginals(
    rows: CodedRows, sets: Iterable[Sequence[int]]
) -> dict[tuple[int, ...], NDArray[np.int64]]:
    """Count the rows in each cell of some marginal tables; one pass over the rows."""
    wanted = sorted({tuple(s) for s in sets})
    sizes = rows.sizes
    if len(wanted) > 1 and math.prod(sizes) <= MAX_TABLE:
        whole = exact_marginals(rows, [tuple(range(len(sizes)))])
        return marginals(whole[tuple(range(len(sizes)))].reshape(sizes), wanted)
    counts = {s: np.zeros(math.prod(sizes[a] for a in s), dtype=np.int64) for s in wanted}
    for start, stop in rows.spans(least=2**16):
        codes = rows.codes(start, stop)
        for s in wanted:
            counts[s] += np.bincount(flat_codes(codes, sizes, s), minlength=counts[s].size)
    return counts


# --- the workload -------------------------------------------------------------------------------


class Workload:
    """Public linear queries on the cells of a domain, in groups.

    Parameters
    ----------
    sizes : tuple of int
        Number of values of each column.
    groups : sequence of Group

    Attributes
    ----------
    n_queries : int
    one : int
        Answers are exact integers in units of 1/one.

    Raises
    ------
    ValueError
        If there is no query, or a group's marginal table has more than `MAX_TABLE` cells.
    """

    def __init__(self, sizes: Sizes, groups: Sequence[Group]) -> None:
        self.sizes = tuple(int(k) for k in sizes)
        self.groups = tuple(groups)
        for group in self.groups:
            if (cells := math.prod(group.table(self.sizes))) > MAX_TABLE:
                raise ValueError(
                    f"queries on columns {group.attributes} have a table of {cells} cells; at most "
                    f"{MAX_TABLE} are possible"
                )
        lengths = [group.n_queries(self.sizes) for group in self.groups]
        self.starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        self.n_queries = int(self.starts[-1])
        if self.n_queries == 0:
            raise ValueError("queries must hold at least one query, got none")
        self.one = max(group.one for group in self.groups)

    def __repr__(self) -> str:
        return f"Workload({self.n_queries} queries in {len(self.groups)} groups)"

    @property
    def attribute_sets(self) -> list[tuple[int, ...]]:
        """The columns of each group."""
        return [group.attributes for group in self.groups]

    def locate(self, query: int) -> tuple[int, int]:
        """Return the group of a query and its place there."""
        g = int(np.searchsorted(self.starts, query, side="right")) - 1
        return g, int(query - self.starts[g])

    def from_marginals(self, tables: dict[tuple[int, ...], NDArray]) -> NDArray:
        """Return all answers from the marginal tables: in units of 1/one for integers, else of 1.

        For counts the result is exact (int64: counts below 2**42).
        """
        parts = []
        for group in self.groups:
            table = tables[group.attributes]
            part = group.apply(table)
            if table.dtype.kind == "f":
                parts.append(part / group.one)
            else:
                parts.append(part * (self.one // group.one))
        return np.concatenate(parts)

    def answers(self, table: NDArray) -> NDArray:
        """Return all answers on a table over the whole domain (shape sizes, or flat).

        Integers: exact, in units of 1/one. Floats (a distribution): as fractions.
        """
        whole = np.asarray(table).reshape(self.sizes)
        return self.from_marginals(marginals(whole, self.attribute_sets))

    def coefficients(self, cells: NDArray) -> NDArray[np.int64]:
        """Return every query's coefficient on some flat cells of the domain, in units of 1/one.

        Returns
        -------
        coefficients : ndarray of shape (n_queries, len(cells))
        """
        codes = np.column_stack(np.unravel_index(np.asarray(cells, dtype=np.int64), self.sizes))
        parts = []
        for group in self.groups:
            every = group.coefficients(self.sizes, np.arange(group.n_queries(self.sizes)))
            where = flat_codes(codes, self.sizes, group.attributes)
            parts.append(every[:, where] * (self.one // group.one))
        return np.concatenate(parts)

    def sensitivities(self, adjacency: str) -> tuple[int, int]:
        """Return (L1, squared L2) sensitivity of all answers together, in units of 1/one.

        The sums over groups of what one row adds at most (A), of how much two rows differ (R).
        """
        l1 = l2 = 0
        for group in self.groups:
            up = self.one // group.one
            a1, a2, r1, r2 = group.sensitivities(self.sizes)
            replace = adjacency == stats.REPLACE_ONE
            l1 += (r1 if replace else a1) * up
            l2 += (r2 if replace else a2) * up * up
        return l1, l2


# --- the doors ----------------------------------------------------------------------------------


class WorkloadDoors(Doors):
    """Doors that answer linear queries on coded rows; see the module."""

    def _coded(self, sizes: Sizes) -> CodedRows:
        """Return the session's rows, if they are coded by a domain of these sizes."""
        rows = self._rows
        if not isinstance(rows, CodedRows) or rows.sizes != tuple(sizes):
            raise PrivacyLeakError("the session's rows are not coded by this domain")
        return rows

    def exact_answers(self, workload: Workload) -> ExactAnswers:
        """Return a holder of the workload's exact answers, for the doors that choose and measure.

        Nothing is released. One pass over the rows serves any number of releases.
        """
        rows = self._coded(workload.sizes)
        return ExactAnswers(self, workload, exact_marginals(rows, workload.attribute_sets))

    def _own(self, held: ExactAnswers) -> ExactAnswers:
        """Refuse the answers on another session's rows: they have not been paid for here."""
        if held._session is not self:
            raise PrivacyLeakError("the exact answers belong to another session")
        return held

    def all_answers(
        self, held: ExactAnswers, share: Share = None, *, name: str = "answers"
    ) -> Release:
        """Release every answer with independent noise, as sums of q over the rows.

        Guarantee: the sensitivities of `Workload.sensitivities`, in both relations.
        """
        work = self._own(held).workload
        l1, l2 = work.sensitivities(self.adjacency)
        noisy, std = self._scalars(name, held._answers, l1, l2, share, unit=1 / work.one)
        return released(noisy.astype(np.float64) / work.one, std / work.one)

    def marginal(
        self,
        sizes: Sizes,
        attributes: Sequence[int],
        share: Share = None,
        *,
        name: str = "marginal",
    ) -> Release:
        """Release a marginal table's counts, shape of the table.

        Guarantee: L1 1, squared L2 1 (A); 2 and 2 (R).
        """
        rows = self._coded(sizes)
        shape = tuple(sizes[a] for a in attributes)
        if math.prod(shape) > MAX_TABLE:
            raise PrivacyLeakError(f"a table of {math.prod(shape)} cells is too large to release")
        (exact,) = exact_marginals(rows, [tuple(attributes)]).values()
        size = stats.histogram_sensitivity(1, self.adjacency)
        noisy, std = self._scalars(name, exact, size, size, share)
        return released(noisy.astype(np.float64).reshape(shape), std)

    def measure(
        self, held: ExactAnswers, query: int, share: Share = None, *, name: str = "answer"
    ) -> Release:
        """Release one answer: the sum of q over the rows. Guarantee: sensitivity 1 (A and R)."""
        one = self._own(held).workload.one
        exact = held._answers[[query]]
        noisy, std = self._scalars(name, exact, one, one * one, share, unit=1 / one)
        return released(float(noisy[0]) / one, std / one)

    def worst_query(
        self,
        held: ExactAnswers,
        answers: ArrayLike,
        share: Share = None,
        *,
        name: str = "worst query",
    ) -> int:
        """Choose a query whose answer is far from the public one, by the exponential mechanism.

        The score is -abs(exact - public). Guarantee: sensitivity 1 (A and R), whatever the public
        answers are; they must be a function of public values and earlier releases.

        Parameters
        ----------
        answers : array-like of shape (n_queries,)
            Public, in rows (a fraction times the number of rows, or its released estimate).
        """
        work = self._own(held).workload
        public = np.rint(np.asarray(answers, dtype=np.float64) * work.one)
        public = np.clip(np.nan_to_num(public), -(2.0**61), 2.0**61).astype(np.int64)
        scores = -np.abs(held._answers - public)
        return int(self._choices(name, scores[None, :], work.one, share)[0])

    def worst_marginal(
        self,
        held: ExactAnswers,
        tables: dict[tuple[int, ...], NDArray],
        penalties: ArrayLike,
        share: Share = None,
        *,
        name: str = "worst marginal",
    ) -> int:
        """Choose a group whose marginal table is far from the public one, less a public penalty.

        The score is the penalty minus the L1 distance of the tables. Guarantee: sensitivity 1 (A),
        2 (R).

        Parameters
        ----------
        tables : dict
            Public tables by the groups' columns, in rows.
        penalties : array-like of shape (n_groups,)
            Public, in rows: what measuring the group would leave as noise.

        Returns
        -------
        group : int
        """
        distances = [
            np.abs(self._own(held)._tables[s] - _public_integers(tables[s])).sum()
            for s in held.workload.attribute_sets
        ]
        public = _public_integers(penalties)
        scores = public - np.array(distances, dtype=np.int64)
        size = stats.histogram_sensitivity(1, self.adjacency)
        return int(self._choices(name, scores[None, :], size, share)[0])


def _public_integers(values: ArrayLike) -> NDArray[np.int64]:
    """Return public numbers as integers so small that the sum of a table of them is one too.

    A sum that wrapped around would move by more than a row moves it.
    """
    numbers = np.nan_to_num(np.rint(np.asarray(values, dtype=np.float64)))
    return np.clip(numbers, -(2.0**40), 2.0**40).astype(np.int64)


class ExactAnswers:
    """The exact answers of a workload on a session's rows; only that session's doors read them."""

    def __init__(
        self, session: Doors, workload: Workload, tables: dict[tuple[int, ...], NDArray]
    ) -> None:
        self._session = session
        self.workload = workload
        self._tables = tables
        self._answers = workload.from_marginals(tables)

    def __repr__(self) -> str:
        return f"ExactAnswers({self.workload.n_queries} queries)"

    def __reduce__(self) -> Any:
        raise PrivacyLeakError("exact answers cannot be copied or pickled")
