"""SmallDB: a small table that answers many linear queries like the private one.

Released by the exponential mechanism over all small tables on a public domain (or over a public
random list of them), scored by their worst query. Every fit is (epsilon, delta)-differentially
private, with delta = 0 unless stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skdp._parameters import FRACTION, Integers, Table, check_parameter
from skdp.base import check_integer
from skdp.budget import PrivacyBudget
from skdp.core import PrivacyCertificate
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
from skdp.synthetic._base import ReleaserMixin
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
    """The public range of tables to choose from.

    Attributes
    ----------
    workload : Workload
    n_cells : int
    size : int
        Points of a table.
    method : {"all", "list", "paths"}
        Scored one by one, a list of them, or counted as lattice paths.
    n_listed : int
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
        """By how much the best table's answers are off, for any rows: of all tables of the size."""
        if self.method == PATHS:
            return 1 / (2 * self.size)
        return math.sqrt(math.log(2 * self.workload.n_queries) / (2 * self.size))


def _log_multisets(n_cells: int, size: int) -> float:
    """Return log comb(n_cells + size - 1, size), by the smaller number of factors."""
    if n_cells.bit_length() > 900:  # beyond floats; then the points hardly ever share a cell
        return size * math.log(n_cells) - math.lgamma(size + 1)
    factors, other = min(size, n_cells - 1), max(size, n_cells - 1)
    i = np.arange(1, factors + 1, dtype=np.float64)
    return float(np.log1p(other / i).sum())


def _size_for(size: Any, alpha: float, n_queries: int, paths: bool) -> int:
    """Return the number of points of a small table."""
    if isinstance(size, str):
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
    return int(size)


class SmallDBReleaser(ReleaserMixin, BaseEstimator):
    """Differentially private small table that answers linear queries like the private table.

    It is for domains with few cells, because the number of tables to choose from grows like (cells
    of the domain) ** size. Thresholds of one ordered column are an exception: they are both cheap
    and accurate. With ``alpha=0.1`` and the default queries (all pairs of columns), a fit is
    possible for two binary columns (tables of 104 points on 4 cells), and refused from three on.
    Then state thresholds of one column, a larger `alpha`, a smaller `size`, or `candidates`. Or use
    `MWEMReleaser` or `DPMarginalSynthesizer`, which answer more queries about more columns better.

    Parameters
    ----------
    queries : Queries, default=conjunctions(2)
        What the released table must answer well: made by `conjunctions`, `thresholds`,
        `intervals`, `parities`, `linear_queries`, or a sum of such; or a function of a row with
        values in [0, 1], or a sequence of any of these.
    alpha : float, default=0.1
        In (0, 1): the largest error of the answers of the best table. It only determines the size.
    size : "auto", "source" or int, default="auto"
        Number of rows of the released table. ``"auto"``: floor(ln(2 Q) / (2 alpha**2)) + 1 for Q
        queries, and ceil(1 / (2 alpha)) for thresholds of a one-column table. ``"source"``:
        ceil(ln(Q) / alpha**2), twice as many, as in the references.
    domain : Domain, mapping or sequence of columns, Bins or int
        The values that each column may have, from public knowledge. A mapping or a sequence of
        columns, as `Domain` takes them; a single `Bins` or int k (the whole numbers below k) holds
        for every column. It must be stated, because no default would be safe.
    candidates : "all" or int, default="all"
        ``"all"`` chooses among all tables of that size. An int K chooses among a fixed public list
        of K tables of uniformly random points. That is private on any domain, but even the best of
        these tables may be far off. 1,000 tables for all triples of 16 binary columns take about 5
        seconds.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above zero, the charge is that of Gaussian noise at (epsilon, delta). In it, the
        exponential mechanism counts like a pure mechanism with half its epsilon.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    database_ : ndarray or table of shape (size, n_features)
        The released table in the form of X: a pandas, polars or pyarrow table if X is one. Columns
        have the types of X, if these can hold all values of the domain. With `Bins`, the middle of
        the cell.
    domain_ : Domain
        The domain of all columns.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of each unit were used at most.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if queries do not fit
        the domain, if there are too many tables to choose from, if X does not have the columns of
        the domain, or if it has cells outside a domain that refuses them.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

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

    Domain, queries and size are public, and refusals about them reveal nothing. With
    ``outside="refuse"``, the domain reveals that X has a cell outside it. No other error depends on
    the values in the rows. If the number of rows is private, a table without rows is accepted.

    `predict` and `sample` use only the released table.

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
        X : array-like or table of shape (n_samples, n_features)
            Private rows, of the types that the domain describes. May be in parts (`skdp.engines`).
        y : None, ignored
        groups : array-like of shape (n_samples,), default=None
            Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
            together. A budget with a `unit` needs groups; any other budget refuses them.
            Rows without an id are left out if a unit is added or removed, and refused otherwise.

        Returns
        -------
        self : SmallDBReleaser
        """
        with self._all_or_nothing(groups):
            X, domain = self._open_domain(X)
            tables = self._range(domain)
            _check_possible(tables)
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

    def _rows(self) -> NDArray:
        return self._codes

    def _check_fit(self, domain: Domain, n: int) -> None:
        _check_possible(self._range(domain))

    def error_bound(
        self, n_samples: int, n_features: int | None = None, *, beta: float = 0.05
    ) -> float:
        """Return a bound on the error of the answers: the alpha of the theorem.

        Nothing is fitted, read or charged. Use it to see whether epsilon is large enough. The bound
        is on the worst query of a fit, for any rows; most fits are several times better.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns, where neither ``domain`` nor an earlier fit tells it.
        beta : float, default=0.05
            Chance that a fit is further off, in (0, 1).

        Returns
        -------
        error : float
            A part of the rows. At most 1, which means that epsilon is too small for any guarantee.
            It is the error of the best table of that size, plus the loss of the private choice.
            With an int as `candidates`, the error of the best candidate is unknown before the fit;
            then it is only the loss of the choice.
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


def _check_possible(tables: _Range) -> None:
    """Refuse a range that is too large, by its public sizes; nothing has been charged.

    Raises
    ------
    ValueError
        With the sizes, and what to use instead.
    """
    queries, cells, size = tables.workload.n_queries, tables.n_cells, tables.size
    where = f"{queries:,} queries on a domain of {about(cells)} cells, tables of {size:,} points: "
    fewer = "Use a larger alpha or a smaller size"
    if tables.method == PATHS:
        try:
            check_threshold_tables(cells, size)
        except ValueError as error:
            raise ValueError(f"{where}{error}. {fewer}, or wider bins") from None
        return
    others = "MWEMReleaser, or (beyond 2**20 cells) DPMarginalSynthesizer"
    if tables.method == LIST:
        if tables.n_listed * size > _LARGEST_LIST or cells > _LARGEST_DOMAIN:
            raise ValueError(
                f"{where}{tables.n_listed:,} candidates are too many; at most {_LARGEST_LIST:,} "
                f"points of all candidates and {_LARGEST_DOMAIN:.2g} cells are possible"
            )
        try:
            check_small_tables(cells, size, queries, tables.n_listed)
        except ValueError:
            raise ValueError(
                f"{where}{tables.n_listed:,} candidates are too many to score. Use fewer "
                f"candidates or queries, a larger alpha or a smaller size, {others}"
            ) from None
        return
    digits = tables.log_number / math.log(10)
    large = digits > 15
    number = f"about 10**{digits:.0f}" if large else f"{n_multisets(cells, size):,}"
    instead = (
        f"{fewer}, fewer columns or wider bins, thresholds of one column, candidates=K (a public "
        f"list of K tables), {others}"
    )
    if large or n_multisets(cells, size) > MAX_SMALL_TABLES:
        raise ValueError(
            f"{where}there are {number} of these, and at most {MAX_SMALL_TABLES:,} can be "
            f"scored. {instead}"
        )
    try:
        check_small_tables(cells, size, queries)
    except ValueError:
        raise ValueError(
            f"{where}scoring all queries on the {number} of these takes too many steps. {instead}"
        ) from None
