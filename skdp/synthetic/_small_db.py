"""Small tables chosen by the exponential mechanism: `SmallDBReleaser`, `DPEmpiricalCDF`.

A small table on a public domain is scored by its worst query, on a public grid by its
Kolmogorov-Smirnov distance from a column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdp.base import PRIVATE, PrivateMixin, check_integer
from skdp.base.expected_error import (
    ExpectedErrorMixin,
    Fresh,
    check_like,
    mean_error,
    rehearsal_rng,
    stretched,
    unanswered,
)
from skdp.parameters import FRACTION, Integers, Table, check_parameter
from skdp.planning import Allowance, bounds_in
from skdp.queries import (
    MAX_CELLS,
    MAX_SMALL_TABLES,
    LearningPlan,
    Prefixes,
    SmallTable,
    ThresholdTable,
    Workload,
    check_small_tables,
    check_threshold_tables,
    largest_threshold_size,
    n_multisets,
    plan_learning,
    public_tables,
    table_rate,
)
from skdp.synthetic._base import ReleaserMixin, documented
from skdp.synthetic._queries import conjunctions, workload_of
from skdp.tabular import Domain, about

Floats = NDArray[np.float64]

# --- any linear queries ---------------------------------------------------------------------------

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

    Attributes
    ----------
    database_ : ndarray or table of shape (size, n_features)
        The released table in the form and with the types of X, if these can hold all values of the
        domain. With `Bins`, the middle of the cell.
    domain_ : Domain

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
    number of queries), or they are counted as lattice paths (thresholds of one column).

    {outside}
    `predict` and `sample` use only the released table.

    {rehearsed}

    References
    ----------
    Blum, Ligett & Roth 2013, "A learning theory approach to noninteractive database privacy",
    Section 3.

    Dwork & Roth 2014, "The algorithmic foundations of differential privacy", Section 4.1 (SmallDB).

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

    queries: Any = field(default=_PAIRS, kw_only=False)
    alpha: float = 0.1
    size: Any = "auto"
    domain: Any = None
    candidates: Any = ALL

    _in_parts = True

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
        {table_sizes}
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


# --- distribution functions -----------------------------------------------------------------------

COUNT_SHARE = Fraction(1, 50)  # of the allowance, for a private number of rows, which plans
MOST_LEARNING = Fraction(7, 20)  # of the allowance, for bounds
_VISIBLE = 1 / 6  # of the rows: a group with so many should be seen when bounds are learned
_DEFAULT_CELLS = 1000


def tuned_size(n: float, rate: float, n_cells: int) -> int:
    """Return a size that balances the errors of rounding and of the choice: sqrt(epsilon n).

    In rows, rounding is off by n / (2 size), the choice by at most about size / rate, where rate =
    epsilon / 2: each point of the table moves by about 1 / rate. The factor was found on smooth and
    skewed columns.
    """
    most = min(largest_threshold_size(n_cells), max(round(n), 1))
    return min(max(round(math.sqrt(max(n, 0.0) * rate * 2)), 1), most)


def grid_between(low: Floats, high: Floats, n_cells: int) -> Floats:
    """Return n_cells points from low to high for every column, shape (n_cells, n_features)."""
    part = np.linspace(0.0, 1.0, n_cells)[:, None]
    points = low * (1 - part) + high * part  # a difference of huge bounds would overflow
    return np.maximum.accumulate(np.clip(points, low, high), axis=0)


def check_grid(grid: Any, name: str = "grid") -> Floats | None:
    """Return a public grid of one column, ascending, or None."""
    if grid is None:
        return None
    text = f"{name} must be None or at least one finite number, strictly increasing"
    try:
        points = np.array(grid, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(text) from None
    if points.ndim != 1 or not points.size or not np.isfinite(points).all():
        raise ValueError(text)
    if np.any(np.diff(points) <= 0):
        raise ValueError(text)
    return points


@documented
class DPEmpiricalCDF(ExpectedErrorMixin, PrivateMixin, BaseEstimator):
    """Differentially private distribution function of every column, as a small table of values.

    Parameters
    ----------
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them, for up to 35% of the allowance with few rows, and the grid is then coarser. It
        needs n * epsilon of about 470 for each column (without delta; half as much if the number of
        rows is private). With fewer rows, the bounds may be far off, and `error_bound` is 1.
    n_cells : int, default=1000
        Number of grid points from the lower to the upper bound, both included.
    grid : array-like of shape (n_points,), default=None
        The grid itself, for all columns, instead of `bounds` and `n_cells`: strictly increasing,
        from public knowledge. A value counts as the first grid point that is not below it; a value
        above all grid points counts as the last one.
    size : int or None, default=None
        How many values are released for each column. Rounding to them moves the distribution
        function by up to 1/(2 size); but the more values there are, the less exactly each is
        chosen. None: sqrt(epsilon n), where epsilon is the part of a column, and n the number of
        rows (if it is private, a noisy number, for 2% of the allowance).

    Attributes
    ----------
    database_ : ndarray of shape (size_, n_features)
        The released values, ascending in every column. Columns are released one by one, so rows
        have no meaning.
    size_ : int
        Number of released values.
    grid_ : ndarray of shape (n_points, n_features)
        The grid of every column.

    See Also
    --------
    SmallDBReleaser : The same for other queries, and for several columns together.
    skdp.quantile.DPQuantile : Few quantiles, more precisely.

    Notes
    -----
    **Privacy.** *Released*: the number of rows, if it is private, unless size and bounds (or grid)
    are stated (2% of the allowance); bounds, if neither they nor a grid are stated (from a median
    of each column, and counts of distances from it; up to 35%, depending on the number of rows);
    and `database_`. The score of a table is the largest difference, at a grid point, between the
    number of rows up to this point and the share of the table up to this point times the number of
    rows, rounded up. *Sensitivity* of the score: 1, whether a row is added, removed or replaced.
    *Mechanism*: the exponential mechanism over all comb(n_points + size - 1, size) tables, sampled
    exactly by counting lattice paths; each column gets an equal part. Counts get discrete Laplace
    or rounded Gaussian noise, whichever is less.

    No error depends on the values in the rows. Without rows, all tables are equally likely.

    `cdf`, `quantile` and `sample` use only what was released.

    A column of 100,000 rows takes 0.2 seconds at the default size, one of a million rows 1 second
    (epsilon = 1). A size that is too large for the number of rows is slow (1,000 values of 1,000
    rows: 3 to 30 seconds) and no better. It is at most 1,000, and at most 214 on more than 50,000
    grid points.

    **Expected error.** A part of the rows: the largest difference at a grid point between the
    released distribution function and that of the column clipped to the grid, averaged over fits
    and columns. It needs `like`: public rows, or an earlier fit, from which rows are drawn. Values
    that occur often are hit exactly; if values fill a small part of the bounds, the grid is coarse
    for them. `error_bound` holds for any rows.

    References
    ----------
    Wasserman & Zhou 2010, "A statistical framework for differential privacy", Section 4
    (exponential mechanism under the Kolmogorov-Smirnov distance).

    McSherry & Talwar 2007, "Mechanism design via differential privacy", Theorem 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.synthetic import DPEmpiricalCDF
    >>> X = np.random.default_rng(0).exponential(10.0, size=(20_000, 1))
    >>> released = DPEmpiricalCDF(bounds=(0, 100), random_state=0).fit(X)
    >>> released.database_.shape
    (141, 1)
    >>> at = np.array([[5.0], [10.0], [30.0]])
    >>> bool(np.abs(released.cdf(at) - (1 - np.exp(-at / 10))).max() < 0.03)
    True
    >>> like = np.random.default_rng(1).exponential(12.0, size=(1000, 1))  # made up
    >>> released.expected_error(20_000, like=like) < released.error_bound(20_000) / 2
    True
    >>> round(released.error_bound(20_000), 3)
    0.046
    """

    bounds: Any = PRIVATE
    n_cells: int = _DEFAULT_CELLS
    grid: ArrayLike | None = None
    size: int | None = None

    _in_parts = True

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release a small table for every column."""
        with self._all_or_nothing(groups):
            rows = self._open(X)
            d = rows.n_features
            grid, n_points, size = check_grid(self.grid), self._n_points, self.size
            stated = self._stated_bounds(d)
            with self._session(rows) as session:
                n = 0.0
                if self._counts():
                    # Free and exact where the number of rows is public.
                    n = float(session.row_count(COUNT_SHARE).value)
                if grid is not None:
                    self.grid_ = np.repeat(grid[:, None], d, axis=1)
                else:
                    stated, _ = bounds_in(session, stated, share=MOST_LEARNING, n=n, spare=0.002)
                    self.grid_ = grid_between(stated[0], stated[1], n_points)
                if size is None:
                    size = self._tuned(n, n_points, d)
                self.size_ = int(size)
                share = session.remaining / d
                columns = []
                for j, points in enumerate(self.grid_.T):
                    name = "threshold table" if d == 1 else f"threshold table, feature {j}"
                    table = ThresholdTable(points, size, column=j)
                    columns.append(points[session.answer(table, share, name=name)])
            self.database_ = np.column_stack(columns)
            self.database_.setflags(write=False)
        return self

    _parameter_table: ClassVar[Table] = {
        "grid": check_grid,
        "n_cells": Integers(1, MAX_CELLS),
        "size": (None, Integers(1)),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.grid is not None and not isinstance(self.bounds, str):
            raise ValueError("grid and bounds must not both be stated: the grid has bounds")
        if self._n_points > MAX_CELLS:
            raise ValueError(f"grid must have at most {MAX_CELLS} points, got {self._n_points}")
        most = largest_threshold_size(self._n_points)
        check_parameter(self.size, "size", None, Integers(1, most))

    @property
    def _n_points(self) -> int:
        return int(self.n_cells) if self.grid is None else np.size(self.grid)

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        return math.nan if n_features is None else allowance.choice_scale(n_features)

    @property
    def _learns_bounds(self) -> bool:
        """Whether bounds are learned: no grid and no bounds are stated."""
        return self.grid is None and isinstance(self.bounds, str)

    def _counts(self) -> bool:
        """Say whether a fit is planned with the number of rows."""
        return self.size is None or self._learns_bounds

    def _learning(self, n: float, d: int) -> LearningPlan:
        """Return the plan for bounds, by a number of rows that is public or released."""
        terms = self._allowance(d)
        plan = plan_learning(n, d, terms.level, terms.adjacency, pure=terms.pure, audit=False)
        return plan.within(MOST_LEARNING, d=d)

    def _column_rate(self, d: int, n: float) -> float:
        """Return eta of one column's table, by public parameters and n, public or released."""
        part = Fraction(1)
        if self._learns_bounds:
            part -= self._learning(n, d).total
        if self._counts() and self._adjacency == "add_or_remove_one":
            part -= COUNT_SHARE
        column = self._allowance(d).part(part / d)
        return float(table_rate(column.level, pure=column.pure))

    def _tuned(self, n: float, n_points: int, d: int) -> int:
        return tuned_size(n, self._column_rate(d, n), n_points)

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        self._stated_bounds(d)
        if like is None:
            raise unanswered(
                self,
                "the rows: on how often values repeat, and on how much of the bounds they fill",
                ". error_bound() holds for any rows",
            )
        if isinstance(like, DPEmpiricalCDF):
            like = like.sample(max(n, 1000), random_state=0)
        columns = check_like(self, like, d).T
        rng = rehearsal_rng()

        def error(fresh: Fresh, number: int) -> float:
            rows = np.column_stack([stretched(column, n, rng) for column in columns])
            fitted = fresh(number).fit(rows)
            grid, errors = fitted.grid_, []
            released = fitted.cdf(grid)
            for j in range(d):
                exact = np.searchsorted(rows[:, j], grid[:-1, j], side="right") / n
                errors.append(np.abs(released[:-1, j] - exact).max(initial=0.0))
            return float(np.mean(errors))

        return mean_error(self, error, least=max(3, 9 - d))  # columns tell as much as fits

    def error_bound(
        self, n_samples: int, n_features: int | None = None, *, beta: float = 0.05
    ) -> float:
        """Return a bound on the error of a released distribution function, from the theorem.

        Nothing is fitted, read or charged. The bound holds for any rows, and for all columns
        together; most fits are several times closer. With learned bounds, it holds for the column
        as clipped to them; it is 1 unless a group with a sixth of the rows is clear of the noise.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
        beta : float, default=0.05
            Probability that the error of a fit is larger, in (0, 1).

        Returns
        -------
        error : float
            A part of the rows: the largest difference at a grid point between the released
            distribution function and that of the clipped column. 1 if epsilon is too small for any
            guarantee, or for learning the bounds.
        """
        n, d = self._sizes(n_samples, n_features, bounds=self.bounds)
        check_parameter(beta, "beta", FRACTION)
        size, n_points = self.size, self._n_points
        self._stated_bounds(d)
        if self._learns_bounds and self._learning(float(n), d).visible > _VISIBLE:
            return 1.0
        if size is None:
            size = self._tuned(float(n), n_points, d)
        # A table t rows worse than the best is chosen with probability exp(-rate t) at most for
        # each there is; the best is off by n / (2 size), rounded up.
        log_tables = math.log(n_multisets(n_points, size))
        chosen = (log_tables + math.log(d / float(beta))) / self._column_rate(d, n)
        return min(1 / (2 * size) + (1 + chosen) / n, 1.0)

    def cdf(self, X: ArrayLike) -> Floats:
        """Return the released distribution functions at given values.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Finite numbers.

        Returns
        -------
        fractions : ndarray of shape (n_samples, n_features)
            For each value, the share of its column in `database_` that is not larger.
        """
        values = self._public_array(X)
        counts = [
            np.searchsorted(self.database_[:, j], values[:, j], side="right")
            for j in range(values.shape[1])
        ]
        return np.column_stack(counts) / self.size_

    predict = cdf

    def quantile(self, q: ArrayLike) -> Floats:
        """Return quantiles of the released table.

        Parameters
        ----------
        q : float or array-like of shape (n_quantiles,)
            Levels in [0, 1].

        Returns
        -------
        quantiles : ndarray of shape (n_features,) or (n_quantiles, n_features)
            For each level q, the smallest released value such that at least the share q of the
            released values of the column is not larger.
        """
        check_is_fitted(self)
        text = "q must be a number in [0, 1] or a sequence of such"
        try:
            levels = np.asarray(q, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(text) from None
        if levels.ndim > 1 or not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(text)
        # Just below the product: 0.3 * 10 is above 3 in floats, its rank is 3.
        ranks = np.ceil(levels * self.size_ * (1 - 2.0**-50)).astype(np.int64)
        quantiles: Floats = self.database_[np.maximum(ranks, 1) - 1].copy()
        return quantiles

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw rows from the released table, independently for each column.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Values of `database_`, independently by column: no dependence was released.
        """
        check_is_fitted(self)
        n = check_integer(n_samples, "n_samples", low=1)
        rng = check_random_state(random_state)
        places = rng.randint(self.size_, size=(n, self.database_.shape[1]))
        return np.take_along_axis(self.database_, places, axis=0)
