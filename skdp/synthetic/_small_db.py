"""SmallDB: a small table that answers many linear queries like the private one.

The exponential mechanism chooses it among all small tables on a public domain (or among a public
random list of them), scored by their worst query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from skdp.base import check_integer
from skdp.budget import PrivacyBudget
from skdp.core import PrivacyCertificate
from skdp.parameters import FRACTION, Integers, Table, check_parameter
from skdp.queries import (
    MAX_SMALL_TABLES,
    Prefixes,
    SmallTable,
    ThresholdTable,
    Workload,
    check_small_tables,
    check_threshold_tables,
    n_multisets,
    public_tables,
    table_rate,
)
from skdp.synthetic._base import ReleaserMixin, documented
from skdp.synthetic._queries import conjunctions, workload_of
from skdp.tabular import Domain, about

_PAIRS = conjunctions(2)
ALL, LIST, PATHS = "all", "list", "paths"
_LARGEST_SIZE = 2**24  # points of a small table
_LARGEST_LIST = 2**26  # points of all candidates: 512 MB
_LARGEST_DOMAIN = 2**62  # cells that candidates are drawn on
_LIST_SEED = 0  # the list of candidates is the same in every fit


@dataclass(frozen=True)
class _Range:
    """The public tables of `size` points to choose from.

    They are scored one by one (`method` "all"), `n_listed` of them ("list"), or counted as lattice
    paths ("paths").
    """

    workload: Workload
    n_cells: int
    size: int
    method: str
    n_listed: int = 0

    @property
    def log_number(self) -> float:
        """Logarithm of the number of tables."""
        if self.method == LIST:
            return math.log(self.n_listed)
        return _log_multisets(self.n_cells, self.size)

    @property
    def rounding(self) -> float:
        """How far the answers of the best of all tables are off, for any rows."""
        if self.method == PATHS:
            return 1 / (2 * self.size)
        return math.sqrt(math.log(2 * self.workload.n_queries) / (2 * self.size))

    def check(self) -> None:
        """Refuse too many tables, by public sizes, before any charge."""
        queries, cells, size = self.workload.n_queries, self.n_cells, self.size
        fewer = "Use a larger alpha or a smaller size"
        others = "MWEMReleaser, or (beyond 2**20 cells) DPMarginalSynthesizer"

        def refused(problem: str) -> ValueError:
            return ValueError(
                f"{queries:,} queries on a domain of {about(cells)} cells, tables of {size:,} "
                f"points: {problem}"
            )

        if self.method == PATHS:
            try:
                check_threshold_tables(cells, size)
            except ValueError as error:
                raise refused(f"{error}. {fewer}, or wider bins") from None
            return
        if self.method == LIST:
            listed = f"{self.n_listed:,} candidates are too many"
            if self.n_listed * size > _LARGEST_LIST or cells > _LARGEST_DOMAIN:
                raise refused(
                    f"{listed}; at most {_LARGEST_LIST:,} points of all candidates and "
                    f"{_LARGEST_DOMAIN:.2g} cells are possible"
                )
            slow = (
                f"{listed} to score. Use fewer candidates or queries, a larger alpha or a smaller "
                f"size, {others}"
            )
        else:
            digits = self.log_number / math.log(10)
            large = digits > 15
            number = f"about 10**{digits:.0f}" if large else f"{n_multisets(cells, size):,}"
            instead = (
                f"{fewer}, fewer columns or wider bins, thresholds of one column, candidates=K (a "
                f"public list of K tables), {others}"
            )
            if large or n_multisets(cells, size) > MAX_SMALL_TABLES:
                raise refused(
                    f"there are {number} of these, and at most {MAX_SMALL_TABLES:,} can be scored. "
                    f"{instead}"
                )
            slow = f"scoring all queries on the {number} of these takes too many steps. {instead}"
        try:
            check_small_tables(cells, size, queries, self.n_listed or None)
        except ValueError:
            raise refused(slow) from None


def _log_multisets(n_cells: int, size: int) -> float:
    """Return log comb(n_cells + size - 1, size), by the smaller number of factors."""
    if n_cells.bit_length() > 900:  # beyond floats; then the points hardly ever share a cell
        return size * math.log(n_cells) - math.lgamma(size + 1)
    factors, other = min(size, n_cells - 1), max(size, n_cells - 1)
    i = np.arange(1, factors + 1, dtype=np.float64)
    return float(np.log1p(other / i).sum())


def _size_for(size: Any, alpha: float, n_queries: int, paths: bool) -> int:
    """Return the number of points of a small table."""
    if not isinstance(size, str):
        return int(size)
    if size == "source":
        points = math.log(n_queries) / alpha / alpha
    elif paths:
        points = 1 / alpha / 2
    else:
        points = math.log(2 * n_queries) / (2 * alpha) / alpha
    if points > _LARGEST_SIZE:  # infinite for a tiny alpha
        many = f"{points:.3g}" if math.isfinite(points) else "more than 1e+308"
        raise ValueError(
            f"alpha={alpha} needs a table of {many} points; at most {_LARGEST_SIZE} are "
            "possible. Use a larger alpha"
        )
    if size == "source" or paths:
        return max(math.ceil(points), 1)
    return math.floor(points) + 1


@documented
class SmallDBReleaser(ReleaserMixin, BaseEstimator):
    """Differentially private small table that answers linear queries like the private table.

    For domains with few cells: the number of tables to choose from grows like (cells of the domain)
    ** size. Thresholds of one ordered column are an exception: they are both cheap and accurate.
    With ``alpha=0.1`` and the default queries (all pairs of columns), a fit is possible for two
    binary columns (tables of 104 points on 4 cells), and refused from three on. Then state
    thresholds of one column, a larger `alpha`, a smaller `size`, or `candidates`. Or use
    `MWEMReleaser` or `DPMarginalSynthesizer`, which answer more queries about more columns better.

    Parameters
    ----------
    {queries}
    alpha : float, default=0.1
        In (0, 1): the largest error of the answers of the best table. It only determines the size.
    size : "auto", "source" or int, default="auto"
        Number of rows of the released table. ``"auto"``: floor(ln(2 Q) / (2 alpha**2)) + 1 for Q
        queries, and ceil(1 / (2 alpha)) for thresholds of a one-column table. ``"source"``:
        ceil(ln(Q) / alpha**2), twice as many, as in the references.
    {domain}
    candidates : "all" or int, default="all"
        ``"all"`` chooses among all tables of that size. An int K chooses among a fixed public list
        of K tables of uniformly random points: private on any domain, but even the best of these
        may be far off. 1,000 tables for all triples of 16 binary columns take about 5 seconds.
    epsilon : float, default=1.0
    delta : float, default=0.0
        In [0, 1). Above zero, the charge is that of Gaussian noise at (epsilon, delta). In it, the
        exponential mechanism counts like a pure mechanism with half its epsilon.
    {fit}

    Attributes
    ----------
    database_ : ndarray or table of shape (size, n_features)
        The released table in the form and with the types of X, if these can hold all values of the
        domain. With `Bins`, the middle of the cell.
    domain_ : Domain
        The domain of all columns.
    {columns_seen}

    {raises}

    See Also
    --------
    conjunctions : Queries on sets of columns.
    thresholds : Queries on ordered columns.

    Notes
    -----
    **Privacy.** *Released*: one table of `size` points of the domain. The score of a table is the
    largest error of a query, in rows, rounded up. *Sensitivity* of the score: 1, whether a row is
    added, removed or replaced, for any number of queries. *Mechanism*: the exponential mechanism
    over all such tables, sampled exactly. Either all tables are scored (at most 2e7, with a bounded
    number of queries), or they are counted as lattice paths (thresholds of one column). *Charged*:
    (epsilon, delta), once, before any noise, to ``budget``.

    {outside}
    `predict` and `sample` use only the released table.

    {rehearsed}

    References
    ----------
    Blum, Ligett & Roth 2013, "A learning theory approach to noninteractive database privacy",
    Section 3.

    Dwork & Roth 2014, "The algorithmic foundations of differential privacy", Section 4.1
    (SmallDB).

    Wasserman & Zhou 2010, "A statistical framework for differential privacy", Section 4
    (Kolmogorov-Smirnov distance).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.synthetic import Bins, SmallDBReleaser, thresholds
    >>> delays = np.random.default_rng(0).exponential(20.0, size=(10_000, 1))
    >>> released = SmallDBReleaser(
    ...     thresholds(), alpha=0.02, domain=Bins.regular(0, 200, 100), random_state=0
    ... ).fit(delays)
    >>> released.database_.shape
    (25, 1)
    >>> late = released.predict(lambda row: row[0] > 30)
    >>> bool(abs(late[0] - np.mean(delays > 30)) < 0.05)
    True
    >>> round(released.error_bound(10_000), 3)
    0.033
    """

    _in_parts = True

    database_: Any
    privacy_: PrivacyCertificate

    def __init__(
        self,
        queries: Any = _PAIRS,
        *,
        alpha: float = 0.1,
        size: Any = "auto",
        domain: Any = None,
        candidates: Any = ALL,
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.queries = queries
        self.alpha = alpha
        self.size = size
        self.domain = domain
        self.candidates = candidates
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    _parameter_table: ClassVar[Table] = {
        "alpha": FRACTION,
        "size": ("auto", "source", Integers(1, _LARGEST_SIZE)),
        "candidates": (ALL, Integers(1, _LARGEST_LIST)),
    }

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release the small table.

        Parameters
        ----------
        {fit_X}

        Returns
        -------
        self : SmallDBReleaser
        """
        with self._all_or_nothing(groups):
            X, domain = self._open_domain(X)
            tables = self._range(domain)
            tables.check()
            rows = self._open_coded(X)
            listed = None
            if tables.method == LIST:
                listed = public_tables(tables.n_cells, tables.size, tables.n_listed, _LIST_SEED)
            with self._session(rows) as session:
                if tables.method == PATHS:
                    grid = np.arange(tables.n_cells, dtype=np.float64)
                    cells = session.answer(ThresholdTable(grid, tables.size))
                else:
                    cells = session.answer(
                        SmallTable(tables.workload, tables.size, candidates=listed)
                    )
                self.privacy_ = session.certificate()
            self._codes = np.column_stack(np.unravel_index(cells, domain.sizes))
            self.database_ = self._table(self._codes)
        return self

    def _range(self, domain: Domain) -> _Range:
        """Return the range of tables on a domain, or raise naming the parameter."""
        work = workload_of(self.queries, domain)
        n_listed = 0 if isinstance(self.candidates, str) else int(self.candidates)
        paths = (
            not n_listed
            and domain.n_columns == 1
            and all(isinstance(group, Prefixes) for group in work.groups)
        )
        size = _size_for(self.size, float(self.alpha), work.n_queries, paths)
        method = LIST if n_listed else PATHS if paths else ALL
        return _Range(work, domain.n_cells, size, method, n_listed)

    def _check_fit(self, domain: Domain, n: int) -> None:
        self._range(domain).check()

    def error_bound(
        self, n_samples: int, n_features: int | None = None, *, beta: float = 0.05
    ) -> float:
        """Return a bound on the error of the worst query of a fit, for any rows.

        Nothing is fitted, read or charged. This is the alpha of the theorem; most fits are several
        times better.

        Parameters
        ----------
        {sizes}
        beta : float, default=0.05
            Chance that a fit is further off, in (0, 1).

        Returns
        -------
        error : float
            A part of the rows; 1 if epsilon is too small for any guarantee. It is the error of the
            best table of that size, plus the loss of the private choice. With an int as
            `candidates`, it is only the loss of the choice.
        """
        n = check_integer(n_samples, "n_samples", low=1)
        check_parameter(beta, "beta", FRACTION)
        tables = self._range(self._known_domain(n_features))
        allowance = self._allowance()
        eta = float(table_rate(allowance.level, pure=allowance.pure))
        # A score beyond the best by t has a chance of at most (number of tables) exp(-eta t).
        # Scores are errors in rows, rounded up.
        chosen = ((tables.log_number - math.log(float(beta))) / eta + 1) / n
        return min(chosen + (0.0 if tables.method == LIST else tables.rounding), 1.0)
