"""Linear queries on coded rows: many sums of functions of a few columns each, without a matrix.

A query is a function q of a row with values in [0, 1]; its answer is the sum over the rows. Queries
come in groups: those of a group are functions of the same columns, so that the group's answers are
a small linear map of one marginal table. A `Workload` is public; it never sees a row.

Queries of a session: which query (or group) is answered badly, chosen by the exponential mechanism
(`WorstQuery`, `WorstMarginal`), noisy answers (`workload_answer`), and whether answers are far from
public ones (`SparseVector`). Coefficients are integers in [0, one], answers exact integers in units
of 1/one. Proofs: workloads.md, sparse_vector.md.

References
----------
M. Lyu, D. Su, N. Li (2017), "Understanding the sparse vector technique for differential privacy",
PVLDB 10(6), Algorithm 7 and Section 4.2 (how to split epsilon). C. Dwork, A. Roth (2014), "The
algorithmic foundations of differential privacy", Section 3.6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core import noise as samplers
from skdp.core.mechanisms import l1
from skdp.core.privacy_filter import Meter, Share
from skdp.core.query import Choice, Measurement, check_query, reviewed
from skdp.core.sums import Ints, Range, RowCells, RowSum
from skdp.core.table import PrivateTable, fold
from skdp.exceptions import PrivacyLeakError
from skdp.queries.histograms import histogram_sensitivity
from skdp.tabular.coding import CodedRows

MAX_TABLE = 2**20  # cells of one table that is written out: a marginal, or a whole domain
ONE = 2**20  # the unit of coefficients that are not all 0 or 1
QUERY_UNIT = ONE  # of which the unit of every workload is a divisor

Sizes = tuple[int, ...]


# --- groups -----------------------------------------------------------------------------------


class Group:
    """Queries that are functions of the same columns.

    - `attributes`: Positions of the columns, ascending.
    - `one` (int): Coefficients are integers in [0, one].
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


@reviewed
class Cells(Group):
    """Counts of the cells of a marginal table: all of them, or some.

    - `index`: Flat positions of the cells; None for all.
    """

    def __init__(self, attributes: Sequence[int], index: NDArray | None = None) -> None:
        super().__init__(attributes)
        self.index = None if index is None else np.asarray(index, dtype=np.int64)
        if self.index is not None and self.index.min(initial=0) < 0:
            raise ValueError("cells must be numbered from 0")  # -1 would be a cell once more

    def n_queries(self, sizes: Sizes) -> int:
        return math.prod(self.table(sizes)) if self.index is None else self.index.size

    def apply(self, table: NDArray) -> NDArray:
        return table if self.index is None else table[self.index]

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        queries = np.asarray(queries, dtype=np.int64)
        place = queries if self.index is None else self.index[queries]
        out = np.zeros((queries.size, math.prod(self.table(sizes))), dtype=np.int64)
        out[np.arange(queries.size), place] = 1
        return out


@reviewed
class Prefixes(Group):
    """How many rows are in the first j cells of an ordered column, for j = 1 .. size - 1."""

    def __init__(self, attribute: int) -> None:
        super().__init__([attribute])

    def n_queries(self, sizes: Sizes) -> int:
        """Return size - 1: all cells together hold all rows (one query if there is one cell)."""
        return max(sizes[self.attributes[0]] - 1, 1)

    def apply(self, table: NDArray) -> NDArray:
        return np.cumsum(table)[: max(table.size - 1, 1)]

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        cells = np.arange(sizes[self.attributes[0]])
        return (cells <= np.asarray(queries)[:, None]).astype(np.int64)


@reviewed
class Intervals(Group):
    """How many rows are in the cells i to j of an ordered column, for all i <= j."""

    def __init__(self, attribute: int) -> None:
        super().__init__([attribute])

    def n_queries(self, sizes: Sizes) -> int:
        g = sizes[self.attributes[0]]
        return g * (g + 1) // 2

    def _ends(self, g: int) -> tuple[NDArray, NDArray]:
        return np.triu_indices(g)

    def apply(self, table: NDArray) -> NDArray:
        low, high = self._ends(table.size)
        sums = np.concatenate([np.zeros(1, dtype=table.dtype), np.cumsum(table)])
        return sums[high + 1] - sums[low]

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        g = sizes[self.attributes[0]]
        low, high = (end[np.asarray(queries, dtype=np.int64)][:, None] for end in self._ends(g))
        cells = np.arange(g)
        return ((cells >= low) & (cells <= high)).astype(np.int64)


@reviewed
class Weighted(Group):
    """Queries given by their coefficients on the cells of a marginal table.

    - `weights` of shape (n_queries, cells): In [0, 1], already checked. Others than 0 and 1 are
      rounded to multiples of 2**-20: queries are public, so that is an error of the answer, not of
      the privacy.
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
        return len(self.weights)

    def apply(self, table: NDArray) -> NDArray:
        return self.weights @ table

    def coefficients(self, sizes: Sizes, queries: NDArray) -> NDArray[np.int64]:
        return self.weights[np.asarray(queries, dtype=np.int64)]


# --- marginal tables ----------------------------------------------------------------------------


def marginals(table: NDArray, sets: Iterable[Sequence[int]]) -> dict[tuple[int, ...], NDArray]:
    """Return the flat marginal tables of a table over all columns, one for each set of columns.

    Columns are summed out one after the other, and sets that agree on the columns so far share the
    work: all 3-way tables of 16 binary columns cost about 100 passes, not 560.
    """
    tables: dict[tuple[int, ...], NDArray] = {}

    def descend(part: NDArray, kept: tuple[int, ...], column: int, wanted: set[Any]) -> None:
        # part has the kept columns first, then `column`, column + 1, ...
        if column == table.ndim or all(len(s) == len(kept) for s in wanted):
            rest = tuple(range(len(kept), part.ndim))
            for s in wanted:
                tables[s] = part.sum(axis=rest).reshape(-1) if rest else part.reshape(-1)
            return
        inside = {s for s in wanted if column in s}
        if outside := wanted - inside:
            descend(part.sum(axis=len(kept)), kept, column + 1, outside)
        if inside:
            descend(part, (*kept, column), column + 1, inside)

    wanted = {tuple(s) for s in sets}
    if wanted:
        descend(table, (), 0, wanted)
    return tables


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
    widths = [math.prod(sizes[a] for a in s) for s in wanted]

    def add(codes: NDArray[np.int64], totals: list[NDArray]) -> None:
        for s, counts in zip(wanted, totals, strict=True):
            counts += np.bincount(flat_codes(codes, sizes, s), minlength=counts.size)

    def fresh() -> list[NDArray]:
        return [np.zeros(width, dtype=np.int64) for width in widths]

    return dict(zip(wanted, fold(rows, add, fresh, least=2**16, read="codes"), strict=True))


# --- the workload -------------------------------------------------------------------------------


@reviewed
class Workload:
    """Public linear queries on the cells of a domain, in groups.

    - `sizes`: Number of values of each column.
    - `n_queries` (int)
    - `one` (int): Answers are exact integers in units of 1/one.
    - raises ValueError: if there is no query, or a group's marginal table has more than `MAX_TABLE`
      cells.
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

        - returns of shape (n_queries, len(cells)
        """
        codes = np.column_stack(np.unravel_index(np.asarray(cells, dtype=np.int64), self.sizes))
        parts = []
        for group in self.groups:
            every = group.coefficients(self.sizes, np.arange(group.n_queries(self.sizes)))
            where = flat_codes(codes, self.sizes, group.attributes)
            parts.append(every[:, where] * (self.one // group.one))
        return np.concatenate(parts)


# --- the queries --------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class _Exact:
    """The exact marginal tables of a workload's groups, one after another, and its answers."""

    cells: NDArray[np.int64]
    answers: NDArray[np.int64]


def coded_rows(table: PrivateTable, sizes: Sizes) -> CodedRows:
    """Return the rows of a table, if they are coded by a domain of these sizes."""
    rows = table.rows
    if getattr(rows, "sizes", None) != tuple(sizes):
        raise PrivacyLeakError("the session's rows are not coded by this domain")
    return rows


def exact_answers(table: PrivateTable, workload: Workload) -> _Exact:
    """Return a workload's exact marginal tables and answers; private.

    They are kept beside the rows as long as the workload lives: one pass over the rows serves any
    number of releases.
    """
    rows = coded_rows(table, workload.sizes)
    exact = rows.kept.get(workload)
    if exact is None:
        tables = exact_marginals(rows, workload.attribute_sets)
        cells = np.concatenate([tables[s] for s in workload.attribute_sets])
        exact = rows.kept[workload] = _Exact(cells, workload.from_marginals(tables))
    return exact


@reviewed
@dataclass(frozen=True, eq=False)
class MarginalCells(RowCells):
    """The cells of the marginal table of some columns, of rows that a domain codes.

    - `sizes`: Of the domain by which the rows are coded.
    - `attributes`: The columns, ascending.
    """

    what = "cell of a marginal table"
    everywhere = True
    read = "codes"
    least = 2**16
    sizes: tuple[int, ...]
    attributes: tuple[int, ...]

    @property
    def answer_shape(self) -> tuple[int, ...]:
        return tuple(self.sizes[a] for a in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        return (math.prod(self.answer_shape),)

    def check_table(self, table: PrivateTable) -> None:
        coded_rows(table, self.sizes)
        if self.shape[0] > MAX_TABLE:
            raise PrivacyLeakError(f"a table of {self.shape[0]} cells is too large to release")

    def of_rows(self, x: Any, labels: Any) -> Ints:
        return flat_codes(x, self.sizes, self.attributes)[:, None]


@reviewed
@dataclass(frozen=True, eq=False)
class WorkloadAnswer(Range):
    """The value q(row) of one query of a workload, in [0, one].

    - `query`: Position in the workload.
    """

    what = "answer"
    own_pass = True  # one pass serves all queries of the workload
    workload: Workload
    query: int

    @property
    def unit(self) -> float:
        return 1 / self.workload.one

    @property
    def largest(self) -> int:
        return self.workload.one

    def table_total(self, table: PrivateTable) -> NDArray:
        return exact_answers(table, self.workload).answers[[int(self.query)]]


def workload_answer(workload: Workload, query: int) -> RowSum:
    """Return the query of the answer to one query of a workload, by its position."""
    return RowSum(WorkloadAnswer(workload, query), noise="entries", name="answer")


@reviewed
@dataclass(frozen=True, eq=False)
class WorstQuery(Choice):
    """A query whose answer is far from the public one, by its position in the workload.

    The score is -abs(exact - public), in units of 1/one. Guarantee: it moves by at most `one` (A
    and R), whatever the public answers are; they must be a function of public values and earlier
    releases.

    - `answers` of shape (n_queries,): Public, in rows (a fraction times the number of rows, or its
      released estimate).
    """

    name: ClassVar[str] = "worst query"
    workload: Workload
    answers: Any

    def scores(self, table: PrivateTable) -> NDArray:
        exact = exact_answers(table, self.workload).answers
        public = np.rint(np.asarray(self.answers, dtype=np.float64) * self.workload.one)
        public = np.clip(np.nan_to_num(public), -(2.0**61), 2.0**61).astype(np.int64)
        return -np.abs(exact - _shaped(public, exact.shape, "answers"))[None, :]

    def sensitivity(self, relation: str) -> int:
        return self.workload.one

    def decoded(self, chosen: NDArray) -> int:
        return int(chosen[0])


@reviewed
@dataclass(frozen=True, eq=False)
class WorstMarginal(Choice):
    """A group whose marginal table is far from the public one, less a public penalty, by position.

    The score is the penalty minus the L1 distance of the tables. Guarantee: it moves as the counts
    do, by at most 1 (A), 2 (R). With `none`, the choice None has the constant score 0: it is likely
    where no distance exceeds its penalty.

    - `tables`: Public flat tables of the groups, one after another in one array, in rows.
    - `penalties` of shape (n_groups,): Public, in rows: what measuring the group would leave as
      noise.
    - `none`: Whether the choice may be none of the groups.
    """

    name: ClassVar[str] = "worst marginal"
    workload: Workload
    tables: Any
    penalties: Any
    none: bool = False

    def scores(self, table: PrivateTable) -> NDArray:
        exact = exact_answers(table, self.workload).cells
        public = _shaped(_public_integers(self.tables), exact.shape, "tables")
        sizes = [math.prod(group.table(self.workload.sizes)) for group in self.workload.groups]
        starts = np.cumsum([0, *sizes[:-1]])
        distances = np.add.reduceat(np.abs(exact - public), starts)
        penalties = _shaped(_public_integers(self.penalties), distances.shape, "penalties")
        scores = penalties - distances
        return np.append(scores, np.zeros(int(self.none), dtype=np.int64))[None, :]

    def sensitivity(self, relation: str) -> int:
        return histogram_sensitivity(1, relation)

    def decoded(self, chosen: NDArray) -> int | None:
        position = int(chosen[0])
        return position if position < len(self.workload.groups) else None


def _public_integers(values: ArrayLike) -> NDArray[np.int64]:
    """Return public numbers as integers so small that the sum of a table of them is one too.

    A sum that wrapped around would move by more than a row moves it.
    """
    numbers = np.nan_to_num(np.rint(np.asarray(values, dtype=np.float64)))
    return np.clip(numbers, -(2.0**40), 2.0**40).astype(np.int64)


def _shaped(public: NDArray, shape: tuple[int, ...], what: str) -> NDArray:
    """Return public numbers of this shape; of another one, a count would be weighed repeatedly."""
    if public.shape != shape:
        raise ValueError(f"{what} must have shape {shape}, got {public.shape}")
    return public


# --- comparisons with a threshold -----------------------------------------------------------------
#
# The sparse vector technique. Released: for each query one bit, whether the public answer is far
# from the exact one. Negative bits are free; `max_above` positive ones are paid for. The bit is
# |exact - public| + nu >= threshold + rho, on integers with discrete Laplace noise: rho is drawn
# once, nu for every query. Guarantee: all bits together are epsilon-DP for the share's epsilon,
# whatever the session releases between them (in a Gaussian session mu-GDP, by the pure epsilon that
# implies it). Proof: sparse_vector.md.


LARGEST_SCALE = 2**52  # of the sampler of discrete Laplace noise


def threshold_scales(
    max_above: int, epsilon: float | Fraction, sensitivity: int = 1
) -> tuple[Fraction, Fraction]:
    """Return the exact scales of rho and nu for a score that moves by at most `sensitivity`.

    With c = `max_above`: sensitivity / epsilon_1 and 2 c sensitivity / epsilon_2, epsilon split
    1 : (2c)**(2/3), which makes the variance of rho - nu smallest.

    - raises ValueError: if max_above is below 1, or the noise would be too large for the sampler.

    Examples
    --------
    >>> rho, nu = threshold_scales(4, 1.0)
    >>> float(rho), float(nu)
    (5.0, 10.0)
    """
    if max_above < 1:
        raise ValueError(f"max_above must be at least 1, got {max_above}")
    e = Fraction(epsilon)
    ratio = Fraction((2 * max_above) ** (2 / 3)).limit_denominator(1000)
    rho = sensitivity * (1 + ratio) / e
    nu = 2 * max_above * sensitivity * (1 + ratio) / (ratio * e)
    if max(rho, nu) > LARGEST_SCALE:
        raise ValueError(
            f"max_above = {max_above} positive answers at epsilon = {float(e):g} need noise beyond "
            "what can be drawn exactly"
        )
    return rho, nu


@reviewed
@dataclass(frozen=True, eq=False)
class SparseVector(Measurement):
    """Comparisons of answers with public ones, at one cost for all; see `AboveThreshold`.

    Guarantee: the share is taken at once. Each score abs(exact - public) moves by at most 1, in
    rows, under both relations.

    - `threshold`: Public, in rows.
    - `max_above`: Number of positive answers after which no query is answered.
    - `one`: Comparisons are in units of 1/one of a row: a multiple of the `one` of every workload.
    """

    name: ClassVar[str] = "above threshold"
    threshold: float
    max_above: int
    one: int = 1

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> AboveThreshold:
        return AboveThreshold(self, table, meter, share, name)


class AboveThreshold:
    """Says which public answers are far from the exact ones; the answer to `SparseVector`.

    - `left`: Number of remaining positive answers.
    - `scales` (tuple of two floats): Scales of the noise of the threshold and of a comparison, in
      rows.
    """

    def __init__(
        self, query: SparseVector, table: PrivateTable, meter: Meter, share: Share, name: str
    ) -> None:
        self._table, self._meter, self._name = table, meter, name
        self._one, self._left = int(query.one), int(query.max_above)
        self._threshold = round(Fraction(float(query.threshold)) * self._one)
        fraction, epsilon = meter.take(share, name)
        rho, self._nu = threshold_scales(self._left, epsilon, self._one)
        # Drawn once and never shown: only the bits are released.
        meter.reseed(f"{name}: threshold", np.zeros(1, dtype=np.int64), self._one)
        self._rho = int(samplers.discrete_laplace(rho, entropy=meter.entropy))
        self.scales = (float(rho / self._one), float(self._nu / self._one))
        meter.record(
            name, "sparse vector, discrete Laplace", "score", 1.0, self.scales[1], fraction
        )

    @property
    def left(self) -> int:
        """Number of remaining positive answers."""
        return self._left

    def __repr__(self) -> str:
        return f"AboveThreshold(left={self.left})"

    def __reduce__(self) -> Any:
        raise PrivacyLeakError("comparisons with a threshold cannot be copied or pickled")

    def is_far(self, query: RowSum, public: float) -> bool:
        """Release whether |exact - public| is above the threshold, under noise.

        - `query`: From `workload_answer`.
        - `public`: Public answer, in rows: a function of public values and earlier releases.
        - raises TypeError: if it is another kind of query.
        - raises PrivacyLeakError: if no positive answer remains, the session is closed or belongs
          to another process, or the workload's unit does not divide that of the comparisons.
        """
        answer = query.image if check_query(query) is RowSum else query
        if type(answer) is not WorkloadAnswer:
            raise TypeError(f"query must be a workload_answer, got {type(answer).__name__}")
        factor, remainder = divmod(self._one, answer.workload.one)
        if remainder:
            raise PrivacyLeakError("the workload's unit does not divide that of the comparisons")
        exact = int(answer.table_total(self._table)[0]) * factor
        score = abs(exact - round(Fraction(float(public)) * self._one))

        def compare() -> NDArray:
            nu = int(samplers.discrete_laplace(self._nu, entropy=self._meter.entropy))
            return np.array([score + nu >= self._threshold + self._rho], dtype=np.int64)

        # One comparison at a time: two at once could both take the last positive answer.
        with self._meter.spending(self._name):
            if self._left < 1:
                raise PrivacyLeakError(f"release {self._name!r}: no positive answer is left")
            value = np.array([score], dtype=object if score >= 2**62 else np.int64)
            bit = self._meter.release(self._name, value, float(self._one), l1, compare, (1,))
            far = bool(bit[0])
            self._left -= far
        return far


def comparison_margin(max_above: int, epsilon: float, n_queries: int, beta: float) -> float:
    """Return a bound on the noise of n_queries comparisons, with probability 1 - beta.

    In units of the sensitivity.
    """
    rho, nu = threshold_scales(max_above, epsilon)
    # |rho| and the largest |nu| exceed their parts with probability at most beta / 2 each:
    # P(|L| >= t + 1) <= exp(-t / scale) for discrete Laplace L.
    return float(rho) * math.log(2 / beta) + float(nu) * math.log(2 * n_queries / beta) + 2
