"""Multiplicative weights: distributions that answer many linear queries like the private rows.

MWEM knows the queries: in each round, the exponential mechanism chooses a marginal table (or query)
that the distribution answers badly; it is measured with noise, and the distribution is fitted to
all measurements. Private multiplicative weights get queries one at a time: the sparse vector
technique tells whether the distribution's answer is too far off; if so, the answer is measured.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_integer
from skdp.base.callers import reported_steps
from skdp.base.expected_error import Fresh, mean_error, rehearsal_rng, unanswered
from skdp.core import Release, Session
from skdp.exceptions import BudgetExceededError, PrivacyLeakError
from skdp.parameters import FRACTION, Integers, Table, check_parameter, shown
from skdp.planning import Allowance, row_count
from skdp.queries import (
    MAX_TABLE,
    QUERY_UNIT,
    AboveThreshold,
    Cells,
    MarginalCells,
    SparseVector,
    Workload,
    WorstMarginal,
    WorstQuery,
    comparison_margin,
    marginals,
    row_counts,
    workload_answer,
)
from skdp.synthetic._base import PublicTable, ReleaserMixin, by_label, documented
from skdp.synthetic._queries import Queries, as_queries, conjunctions, linear_queries, workload_of
from skdp.tabular import Domain, about

# --- multiplicative weights -----------------------------------------------------------------------

# The weights are a distribution p over all cells of a domain: the uniform one times exp(sum of
# theta_i q_i) for the measured queries q_i. The textbook's update multiplies p once by exp(eta (t -
# q.p) q) for a new measurement t. Here all measurements are gone through again and again (Hardt,
# Ligett & McSherry 2012, section 3.1), and each step sets its exponents to where
#
#     sum over measurements of (q_i.p - t_i)^2 / (2 v_i)  +  KL(p || uniform)
#
# is least; a table of cells is one measurement of many queries. This is block coordinate ascent of
# the dual, a concave function of theta: every step increases it. v = 0 would be iterative
# proportional fitting; v > 0 keeps noise from being fitted and the exponents finite.

Floats = NDArray[np.float64]

TINY = 1e-290  # a positive float whose logarithm is finite
RUN = 256  # cells of the contiguous last axis of a view: enough for numpy to be fast
NEWTON_STEPS = 30


class _View:
    """A table over the domain, reshaped so that one marginal table's cells are fast in numpy.

    Neighbouring columns that are both inside or both outside of the attributes are one axis; the
    last columns, until they have `RUN` cells, are one contiguous axis whatever they are.
    """

    def __init__(self, sizes: tuple[int, ...], attributes: Sequence[int]) -> None:
        inside = [j in set(attributes) for j in range(len(sizes))]
        head, tail = len(sizes), 1
        while head > 0 and tail < RUN:
            head -= 1
            tail *= sizes[head]
        runs = [list(run) for _, run in groupby(range(head), inside.__getitem__)]
        merged = [math.prod(sizes[j] for j in run) for run in runs]
        are_inside = [inside[run[0]] for run in runs]
        self._shape = (*merged, tail)
        self._gaps = tuple(i for i, is_inside in enumerate(are_inside) if not is_inside)
        self._lifted = tuple(
            k if is_inside else 1 for k, is_inside in zip(merged, are_inside, strict=True)
        )
        first = math.prod(self._lifted)
        self._tail = (first, *sizes[head:])
        self._tail_gaps = tuple(1 + j - head for j in range(head, len(sizes)) if not inside[j])
        self._tail_lifted = (
            first,
            *(k if inside[head + i] else 1 for i, k in enumerate(sizes[head:])),
        )

    def marginal(self, p: Floats) -> Floats:
        """Return the flat marginal table."""
        part = p.reshape(self._shape).sum(axis=self._gaps).reshape(self._tail)
        return part.sum(axis=self._tail_gaps).reshape(-1)

    def multiply(self, p: Floats, factor: Floats) -> None:
        """Multiply every cell by the factor of its place in the marginal table."""
        spread = np.broadcast_to(factor.reshape(self._tail_lifted), self._tail)
        cells = p.reshape(self._shape)
        cells *= np.ascontiguousarray(spread).reshape(*self._lifted, self._shape[-1])


@dataclass
class _Measurement:
    """Coefficients on a marginal table (None: its cells), targets, variance, exponents."""

    coefficients: Floats | None
    target: Floats
    v: float
    theta: Floats
    view: _View

    def table(self, theta: Floats) -> Floats:
        """Return the exponents of the marginal table's cells."""
        return theta if self.coefficients is None else theta @ self.coefficients

    def answers(self, marginal: Floats) -> Floats:
        """Return the answers of the measured queries on a marginal table."""
        return marginal if self.coefficients is None else self.coefficients @ marginal

    def best_exponents(self, marginal: Floats) -> Floats:
        """Minimise log sum a exp(W'theta) - theta.t + v |theta|^2 / 2 by Newton's method.

        a are the marginal's weights without this measurement's exponents.
        """
        theta, target, v = self.theta, self.target, self.v
        base = np.log(marginal) - self.table(theta)

        def value(theta: Floats) -> tuple[float, Floats]:
            lifted = base + self.table(theta)
            top = float(lifted.max())
            weights = np.exp(lifted - top)
            total = float(weights.sum())
            loss = top + math.log(total) - float(theta @ target) + v / 2 * float(theta @ theta)
            return loss, weights / total

        loss, p = value(theta)
        step: Floats
        for _ in range(NEWTON_STEPS):
            q = self.answers(p)
            gradient = q - target + v * theta
            if float(np.abs(gradient).max()) < 1e-9:
                break
            if self.coefficients is None:
                # (diag(p + v) - p p') by Sherman and Morrison: 1 - sum p^2 / (p + v) > 0.
                inverse = 1 / (p + v)
                scaled = inverse * p
                shift = float(scaled @ gradient) / (1 - float(p @ scaled))
                step = inverse * gradient + scaled * shift
            else:
                w = self.coefficients
                hessian = (w * p) @ w.T - np.outer(q, q) + v * np.eye(q.size)
                step = np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)
            length, slope = 1.0, float(gradient @ step)
            if slope < 1e-15:  # the possible gain is below the rounding of the loss
                break
            # Halve the step until the loss falls by a quarter of the slope (Armijo).
            while length > 1e-6:
                moved, moved_p = value(theta - length * step)
                if moved <= loss - 0.25 * length * slope:
                    break
                length /= 2
            else:
                break
            theta = theta - length * step
            loss, p = moved, moved_p
        return theta


class Weights:
    """A distribution p over the cells of a domain, and the measurements fitted to it.

    All cells are kept in memory: p has the shape `sizes` of the domain's columns, and sums to 1.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.p = np.full(self.sizes, 1 / math.prod(self.sizes))
        self._measured: list[_Measurement] = []

    def measure(
        self,
        attributes: Sequence[int],
        target: Floats,
        v: float,
        coefficients: NDArray | None = None,
    ) -> None:
        """Add a measurement `target` (k,), as fractions of the rows, of noise variance v > 0.

        `coefficients` (k, cells) are on the marginal table of the ascending `attributes`; None: the
        table itself was measured.
        """
        target = np.asarray(target, dtype=np.float64).reshape(-1)
        w = None if coefficients is None else np.asarray(coefficients, dtype=np.float64)
        view = _View(self.sizes, attributes)
        self._measured.append(_Measurement(w, target, float(v), np.zeros(target.size), view))

    def fit(self, max_sweeps: int = 100, tol: float = 1e-4) -> int:
        """Go through all measurements, latest first, until none is off by more than tol.

        Returns the number of sweeps.
        """
        for sweep in range(max_sweeps):
            if max((self._step(m) for m in reversed(self._measured)), default=0.0) <= tol:
                return sweep + 1
        return max_sweeps

    def _step(self, measurement: _Measurement) -> float:
        """Set one measurement's exponents to their best; return how far off it was."""
        marginal = measurement.view.marginal(self.p)
        old, positive = measurement.theta, np.maximum(marginal, TINY)
        residual = measurement.answers(marginal) + measurement.v * old - measurement.target
        off = float(np.abs(residual).max())
        theta = measurement.best_exponents(positive)
        factor = measurement.table(theta - old)
        # The new table's largest cell sets the scale: measurements that contradict each other (of
        # no rows, say, with next to no noise) leave only cells that were next to nothing before.
        factor = np.exp(factor - (factor + np.log(positive)).max())
        total = float(factor @ marginal)
        if total >= 1e-10:  # otherwise the cells that it raises have no weight left
            measurement.theta = theta
            measurement.view.multiply(self.p, factor / total)
        return off


# --- the estimator --------------------------------------------------------------------------------

_PAIRS = conjunctions(2)
AUTO, TABLES, QUERIES = "auto", "tables", "queries"

COUNT_SHARE = Fraction(1, 20)  # for the number of rows, where it is private
# Of a round's part, for its choice; the rest measures. A table's error is a sum over its cells and
# stands out more than a query's.
CHOOSING_TABLE, CHOOSING = Fraction(1, 5), Fraction(1, 2)
# A chosen table is measured with further columns, up to so many times its cells. Its own cells are
# then sums of as many noisy cells. In return, one measurement of binary columns answers ten sets of
# three columns instead of one.
WIDER = 4
LARGEST_ROUNDS = 10_000
# How much of a measurement counts as noise, in standard deviations. Less fits the noise; more gives
# the uniform distribution too much weight (doc/benchmarks/queries.py).
SMOOTHING_TABLE, SMOOTHING = 0.3, 0.1
SWEEPS, LAST_SWEEPS = 15, 60
TOL = 1e-4  # of a fraction of the rows


@dataclass(frozen=True)
class _Plan:
    """The public plan of a fit: whether marginal `tables` are measured, or single queries.

    `chooses` is False if there are rounds enough to measure every table once.
    """

    workload: Workload
    tables: bool
    n_rounds: int
    chooses: bool


def check_factored(domain: Domain, name: str) -> None:
    """Refuse a domain with more cells than can be weighed one by one."""
    if domain.n_cells > MAX_TABLE:
        raise ValueError(
            f"domain has {about(domain.n_cells)} cells, each of which {name} weighs; at "
            f"most {MAX_TABLE} are possible. State fewer columns or wider bins, or use "
            "DPMarginalSynthesizer"
        )


@documented
class MWEMReleaser(ReleaserMixin, BaseEstimator):
    """Differentially private distribution that answers many linear queries (MWEM).

    Multiplicative weights and the exponential mechanism. In each round, a marginal table that is
    answered badly is chosen and measured (with further columns, where these cost little). Then the
    weights of all cells of the domain are fitted to all measurements. For domains of up to 2**20
    cells.

    Parameters
    ----------
    {queries}
    {domain}
    n_rounds : "auto" or int, default="auto"
        Number of measurements. More rounds measure more, each with more noise. ``"auto"`` depends
        on the number of rows (as released, if it is private), the relation, epsilon and delta. With
        as many rounds as tables (or queries), each is measured once, and nothing is chosen.
    measure : {"auto", "tables", "queries"}, default="auto"
        ``"tables"`` chooses a marginal table by the sum of the errors of its cells, and measures
        all of it: a row is in one cell, so a table costs as much as one query. It is measured with
        further columns, up to 4 times its number of cells: those that complete most of the tables
        not measured yet. ``"queries"`` chooses and measures one query, as the references do.
        ``"auto"`` takes tables, if the queries are cells of tables.

    Attributes
    ----------
    weights_ : ndarray of shape ``domain_.sizes``
        The released distribution: the part of the rows in each cell of the domain.
    measured_ : list of tuple
        The columns of the measured tables (or queries), in order: by name, or by position if they
        have no names.
    n_rounds_ : int
        Number of measurements.
    n_samples_ : float
        Number of rows; noisy if it is private.
    domain_ : Domain

    {raises}

    See Also
    --------
    PrivateMultiplicativeWeights : For queries that are asked one at a time.
    SmallDBReleaser : A small table instead of a distribution.

    Notes
    -----
    **Privacy.** *Released*: the number of rows, where it is private (5% of the allowance); in each
    round a choice and a measurement. The choice of a table takes a fifth of the round's part, that
    of a query half. Which columns a chosen table is measured with follows from the choices and the
    domain. *Sensitivity* of a choice: 1 for the error of a query; for the sum of the errors of the
    cells of a table, 1 if a row is added or removed and 2 if one is replaced. *Sensitivity* of a
    measurement: 1 for a query; for a table, 1 in L1 and L2 if a row is added or removed, 2 in L1
    and sqrt(2) in L2 if one is replaced. *Mechanism*: the exponential mechanism; discrete Laplace
    or rounded Gaussian noise, whichever is less.

    {outside}

    {rehearsed}

    References
    ----------
    Hardt, Ligett & McSherry 2012, "A simple and practical algorithm for differentially private
    data release", Section 2.1 (MWEM), Section 3.1 (measurements gone through many times).

    Hardt & Rothblum 2010, "A multiplicative weights mechanism for privacy-preserving data
    analysis", Section 4.

    McKenna, Mullins, Sheldon & Miklau 2022, "AIM: an adaptive and iterative mechanism for
    differentially private synthetic data", Section 4 (tables chosen with a penalty for noise).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.synthetic import MWEMReleaser, conjunctions
    >>> X = np.random.default_rng(0).random((5000, 6)) < np.linspace(0.1, 0.9, 6)
    >>> released = MWEMReleaser(conjunctions(2), domain=2, random_state=0).fit(X.astype(int))
    >>> released.weights_.shape
    (2, 2, 2, 2, 2, 2)
    >>> answers = released.predict(lambda row: row[4] == 1 and row[5] == 1)
    >>> bool(abs(answers[0] - np.mean(X[:, 4] & X[:, 5])) < 0.05)
    True
    """

    queries: Any = field(default=_PAIRS, kw_only=False)
    domain: Any = None
    n_rounds: Any = AUTO
    measure: str = AUTO

    _in_parts = True
    _n_progress_tasks = 1

    _parameter_table: ClassVar[Table] = {
        "n_rounds": (AUTO, Integers(1, LARGEST_ROUNDS)),
        "measure": (AUTO, TABLES, QUERIES),
    }

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget, choose and measure in rounds, and fit the weights.

        Parameters
        ----------
        {fit_X}
        """
        with self._all_or_nothing(groups):
            X, domain = self._open_domain(X)
            work = self._workload(domain)
            self._plan(work, 1.0)  # every refusal comes before the charge
            rows = self._open_coded(X)
            with self._session(rows) as session:
                spent = Fraction(0) if self._public_n else COUNT_SHARE
                self.n_samples_ = row_count(session, spent or None)
                plan = self._plan(work, self.n_samples_)
                rounds = _Rounds(session, plan, self.n_samples_, (1 - spent) / plan.n_rounds)
                self.measured_ = by_label(rounds.run(), domain)
            self.n_rounds_ = plan.n_rounds
            self.weights_ = rounds.weights.p
        return self

    @property
    def _public_n(self) -> bool:
        return self._adjacency == "replace_one"

    def _workload(self, domain: Domain) -> Workload:
        check_factored(domain, type(self).__name__)
        return workload_of(self.queries, domain)

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        # Columns make rounds: about as many as in tables of all columns and a half.
        return math.nan if n_features is None else allowance.bins_std(3 * n_features // 2)

    def _plan(self, work: Workload, n: float) -> _Plan:
        """Return the plan for n rows, public or released; raise if it cannot be carried out."""
        tables = self.measure == TABLES
        if self.measure == AUTO:
            tables = all(isinstance(group, Cells) for group in work.groups)
        candidates = len(work.groups) if tables else work.n_queries
        # Each round's noise has to be drawn exactly, with room for the session's rounding.
        drawable = max(
            int(2.0**50 * min(self.epsilon, 2.0**50) / (4 * (2 if tables else QUERY_UNIT))), 1
        )
        if isinstance(self.n_rounds, str):
            n_rounds = min(self._auto_rounds(n, len(work.sizes), tables), drawable)
        else:
            n_rounds = int(self.n_rounds)
            if min(n_rounds, candidates) > drawable:
                raise ValueError(
                    f"n_rounds must be at most {drawable} at epsilon={self.epsilon:g}, got "
                    f"{n_rounds}: more noise cannot be drawn exactly"
                )
        n_rounds = min(n_rounds, candidates)
        return _Plan(work, tables, n_rounds, n_rounds < candidates)

    def _auto_rounds(self, n: float, n_columns: int, tables: bool) -> int:
        """Return the public formula for the number of rounds."""
        mu = self.privacy_cost(n_features=n_columns).mu
        if mu is not None:
            rounds = (1 if tables else 2) * (mu * n) ** (1 / 2)
        elif tables:
            size = 2 if self._public_n else 1  # the L1 sensitivity of a table
            rounds = 2.1 * (self.epsilon * n / size) ** (1 / 4)
        else:
            rounds = 2.4 * (self.epsilon * n) ** (1 / 3)
        return int(min(max(round(rounds), 1), LARGEST_ROUNDS))

    def _check_fit(self, domain: Domain, n: int) -> None:
        self._plan(self._workload(domain), float(n))

    def error_bound(self, n_samples: int, n_features: int | None = None) -> float:
        """Return the bound on the error of the worst query, from the theorem on the algorithm.

        Nothing is fitted, read or charged. The bound is 2 sqrt(ln(cells) / T) + 10 T ln(queries) /
        (epsilon n), proved for the textbook algorithm with T rounds, for any rows, with probability
        at least 1 - 2T / queries. Errors are usually many times smaller: see `expected_error`.

        Parameters
        ----------
        {table_sizes}

        Returns
        -------
        error : float
            A part of the rows. At most 1, which means that nothing is certain.
        """
        n = check_integer(n_samples, "n_samples", low=1)
        domain = self._known_domain(n_features)
        work = self._workload(domain)
        rounds = self._plan(work, float(n)).n_rounds
        epsilon = self._allowance(len(work.sizes)).part(Fraction(1, rounds)).pure_epsilon
        fitted = 2 * math.sqrt(math.log(domain.n_cells) / rounds)
        return min(fitted + 10 * math.log(max(work.n_queries, 2)) / (epsilon * n), 1.0)


class _Rounds:
    """The rounds of one fit: choose, measure, and fit the weights to all measurements."""

    def __init__(self, session: Session, plan: _Plan, n: float, share: Fraction) -> None:
        self._session = session
        self._plan = plan
        self._n = n
        part = CHOOSING_TABLE if plan.tables else CHOOSING
        self._choosing = share * part if plan.chooses else Fraction(0)
        self._measuring = share - self._choosing
        self._wider = Wider(plan.workload.sizes, plan.workload.attribute_sets)
        self.weights = Weights(plan.workload.sizes)

    def run(self) -> list[tuple[int, ...]]:
        """Return the columns that were measured, in order."""
        measured = []
        measure = self._table if self._plan.tables else self._query
        for t in reported_steps(self._plan.n_rounds):
            measured.append(measure(t))
            if self._plan.chooses:
                self.weights.fit(SWEEPS, TOL)
        self.weights.fit(LAST_SWEEPS, TOL)
        return measured

    def _table(self, t: int) -> tuple[int, ...]:
        work, session = self._plan.workload, self._session
        group = t
        if self._plan.chooses:
            sets = work.attribute_sets
            now = marginals(self.weights.p, sets)
            tables = np.concatenate([now[s] * self._n for s in sets])
            # The mean absolute noise of a cell of a measured table, in rows.
            noise = Allowance.left(session, self._measuring).mean_cell_noise
            penalties = [noise * now[s].size for s in sets]
            group = session.answer(WorstMarginal(work, tables, penalties), self._choosing)
        attributes = work.groups[group].attributes
        if self._plan.chooses:
            attributes = self._wider.widen(attributes)
        release = session.answer(
            row_counts(MarginalCells(work.sizes, attributes), "marginal"), self._measuring
        )
        self.weights.measure(attributes, *as_fractions(release, self._n, SMOOTHING_TABLE))
        return attributes

    def _query(self, t: int) -> tuple[int, ...]:
        work, session = self._plan.workload, self._session
        query = t
        if self._plan.chooses:
            public = work.answers(self.weights.p) * self._n
            query = session.answer(WorstQuery(work, public), self._choosing)
        release = session.answer(workload_answer(work, query), self._measuring)
        where, place = work.locate(query)
        group = work.groups[where]
        weights = group.coefficients(work.sizes, np.array([place])) / group.one
        self.weights.measure(group.attributes, *as_fractions(release, self._n), weights)
        return group.attributes


class Wider:
    """Chooses the columns that are measured beside those of a chosen set; all of it public."""

    def __init__(self, sizes: Sequence[int], sets: Sequence[tuple[int, ...]]) -> None:
        self._sizes = np.array(sizes)
        self._sets = np.zeros((len(sets), len(sizes)), dtype=bool)
        for row, columns in zip(self._sets, sets, strict=True):
            row[list(columns)] = True
        self._times = np.zeros(len(sizes), dtype=np.int64)

    def widen(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        """Return these columns and others, ascending, and remember them as measured.

        Columns are added one after the other: the one that completes the most sets not in any table
        so far; of several, the one measured the least often; then the first. A set that a table
        contains is measured again only by being chosen.
        """
        inside = np.zeros(self._sizes.size, dtype=bool)
        inside[list(columns)] = True
        room = WIDER
        while True:
            missing = self._sets & ~inside
            gain = missing[missing.sum(axis=1) == 1].sum(axis=0)
            gain[self._sizes > room] = 0
            if not gain.any():
                break
            best = int(np.lexsort((self._times, -gain))[0])
            inside[best] = True
            room //= int(self._sizes[best])
        self._times += inside
        self._sets = self._sets[(self._sets & ~inside).any(axis=1)]
        return tuple(np.flatnonzero(inside).tolist())


def as_fractions(
    release: Release, n: float, smoothing: float = SMOOTHING
) -> tuple[NDArray[np.float64], float]:
    """Return a measurement in rows as fractions within reason, and how much of it is noise."""
    # Few rows under much noise: a target far outside of [0, 1] says no more than one near it.
    target = np.clip(np.asarray(release.value, dtype=np.float64).reshape(-1) / n, -1.0, 2.0)
    return target, max(smoothing * float(release.std) / n, 1e-9)


# --- queries that are asked one at a time ---------------------------------------------------------
# Shares of comparisons in what remains after the number of rows; the rest is for the answers.
COMPARING, COMPARING_GAUSSIAN = Fraction(3, 4), Fraction(19, 20)
USUAL_ASKED = 50  # queries of an expected error, where none are stated
THRESHOLD = 0.75  # in alpha: a quarter is left for the noise of comparisons
ONLINE_SWEEPS = 30
# "auto" keeps the noise of so many comparisons within half of alpha, but for this chance.
USUAL_QUERIES, MISSED = 100, 0.1


@dataclass(frozen=True)
class _OnlinePlan:
    """Public numbers of one fit.

    `counting`, `comparing` and `answering` are the shares of the number of rows, of all comparisons
    (of pure epsilon `comparing_epsilon`) and of one answer.
    """

    alpha: float
    n_updates: int
    counting: Fraction
    comparing: Fraction
    answering: Fraction
    comparing_epsilon: float


@dataclass
class _Live:
    """The open session of a fit; private, so in no attribute."""

    session: Session
    comparisons: AboveThreshold
    weights: Weights
    answering: Fraction
    pid: int = field(default_factory=os.getpid)
    lock: threading.RLock = field(default_factory=threading.RLock)


# By estimator, and not an attribute: pickles, copies and displays hold released values only.
_LIVE: weakref.WeakKeyDictionary[Any, _Live] = weakref.WeakKeyDictionary()


@documented
class PrivateMultiplicativeWeights(ReleaserMixin, BaseEstimator):
    """Differentially private answers to linear queries that are asked one at a time.

    `fit` charges once and opens a session. `answer` uses the distribution learned so far if it is
    good enough. Otherwise it measures the answer with noise, at most `n_updates` times. For domains
    of up to 2**20 cells. It is a context manager: leaving it closes the session.

    Parameters
    ----------
    {domain}
    alpha : float, default=0.1
        In (0, 1): the target error of an answer, as a fraction of the rows. If a noisy comparison
        says that the distribution is off by more than 3/4 of this, the answer is measured.
    n_updates : "auto" or int, default="auto"
        Number of measurements after which no more queries are answered. Noise grows with it.
        ``"auto"`` takes as many as keep the noise of 100 comparisons below half of ``alpha`` at
        this number of rows (as released, if it is private): at least one, and at most ceil(4
        ln(cells) / alpha**2), after which no query can be answered badly.
    epsilon : float, default=1.0
        ... It includes all answers.

    Attributes
    ----------
    weights_ : ndarray of shape ``domain_.sizes``
        The released distribution so far: the part of the rows in each cell of the domain.
    n_answers_ : int
        Number of answers so far.
    n_updates_ : int
        Number of measurements that the session allows.
    n_updates_left_ : int
        Number of measurements that are left.
    n_samples_ : float
        Number of rows; noisy if it is private.
    domain_ : Domain

    {raises}

    See Also
    --------
    MWEMReleaser : Better answers, if the queries are known in advance.

    Notes
    -----
    **Privacy.** *Released*: the number of rows, where it is private (5% of the allowance); one bit
    for each query; an answer for each bit that is 1 (at most `n_updates`). *Sensitivity* of the
    error of a query and of its answer: 1, whether a row is added, removed or replaced. *Mechanism*:
    the sparse vector technique with discrete Laplace noise on integers, drawn once for the
    threshold and afresh for every query (75% of the allowance, 95% if noise is Gaussian); discrete
    Laplace or rounded Gaussian noise for answers, whichever is less.

    The ledger has the cost from `fit` on, and the list of releases from `close` on. The rows are
    kept in memory until `close`, but not in an attribute: an estimator that was pickled or copied,
    or is in another process, can predict and sample but not answer.

    References
    ----------
    Hardt & Rothblum 2010, "A multiplicative weights mechanism for privacy-preserving data
    analysis", Section 4.

    Dwork & Roth 2014, "The algorithmic foundations of differential privacy", Section 4.2 (online
    multiplicative weights).

    Lyu, Su & Li 2017, "Understanding the sparse vector technique for differential privacy",
    Algorithm 7.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.synthetic import PrivateMultiplicativeWeights, linear_queries
    >>> X = np.random.default_rng(0).random((20_000, 6)) < np.linspace(0.1, 0.9, 6)
    >>> with PrivateMultiplicativeWeights(
    ...     2, alpha=0.05, n_updates=10, random_state=0
    ... ).fit(X.astype(int)) as online:
    ...     equal = linear_queries(lambda row: row[0] == row[1] == 1, columns=[0, 5])
    ...     answer = online.answer(equal)
    >>> bool(abs(answer - np.mean(X[:, 0] & X[:, 5])) < 0.05), online.n_updates_left_
    (True, 9)
    """

    domain: Any = field(default=None, kw_only=False)
    alpha: float = 0.1
    n_updates: Any = AUTO

    _in_parts = True

    _parameter_table: ClassVar[Table] = {"alpha": FRACTION, "n_updates": (AUTO, Integers(1))}

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and open the session; an earlier session is closed.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, of the types that the domain describes.
        {fit_more}
        """
        with self._all_or_nothing(groups):
            X, domain = self._open_domain(X)
            plan = self._plan(domain)
            rows = self._open_coded(X)
            # No `with`: the session stays open after the fit, so only an error closes it.
            session = self._opened(rows)
            try:
                self.n_samples_ = row_count(session, plan.counting or None)
                plan = self._plan(domain, self.n_samples_)
                threshold = THRESHOLD * plan.alpha * self.n_samples_
                comparisons = session.answer(
                    SparseVector(threshold, plan.n_updates, one=QUERY_UNIT),
                    plan.comparing,
                )
            except BaseException:
                session.close()
                raise
            live = _Live(session, comparisons, Weights(domain.sizes), plan.answering)
            self.weights_ = live.weights.p.copy()
            self.n_answers_ = 0
            self.n_updates_ = self.n_updates_left_ = plan.n_updates
            self.privacy_ = session.certificate()
        self.close()
        _LIVE[self] = live
        return self

    def answer(self, query: Any) -> float:
        """Answer one linear query on the private rows.

        Parameters
        ----------
        query : callable or Queries
            A function of a row with values in [0, 1], or a specification of one query. It is
            evaluated at cells of the public domain, never at a private row. A bare function is
            evaluated at all cells (17 seconds for 2**20 cells), ``linear_queries(f,
            columns=[...])`` at those of the columns named (0.1 seconds).

        Returns
        -------
        answer : float
            In [0, 1]: from the released distribution if that is good enough, otherwise measured.

        Raises
        ------
        NotFittedError
            Before `fit`.
        PrivacyLeakError
            In another process than the one that called `fit`, for example after a fork.
        BudgetExceededError
            If all updates are used up, or if the session is closed (or was never in this process).
            `predict` and `sample` still work.
        TypeError, ValueError
            If it is not a single query, or has values outside [0, 1]; no bit is then released.
        """
        check_is_fitted(self)
        work = as_queries(query).workload(self.domain_)
        if work.n_queries != 1:
            raise ValueError(f"query must be a single one, got {work.n_queries} queries")
        live = _LIVE.get(self)
        if live is None:
            raise BudgetExceededError(
                "the session is closed, or the estimator was copied or pickled: no further query "
                "is answered; predict and sample still work"
            )
        if live.pid != os.getpid():
            raise PrivacyLeakError("only the process that called fit can answer queries")
        with live.lock:
            return self._answer(live, work)

    def _answer(self, live: _Live, work: Workload) -> float:
        if self.n_updates_left_ == 0:
            raise BudgetExceededError(
                f"all {self.n_updates_} updates are used up: no further query is answered; predict "
                "and sample still work"
            )
        session, n = live.session, self.n_samples_
        answer = float(work.answers(live.weights.p)[0])
        query = workload_answer(work, 0)
        if live.comparisons.is_far(query, answer * n):
            self.n_updates_left_ = live.comparisons.left
            release = session.answer(query, live.answering)
            group = work.groups[0]
            target, v = as_fractions(release, n)
            weights = group.coefficients(work.sizes, np.array([0])) / group.one
            live.weights.measure(group.attributes, target, v, weights)
            live.weights.fit(ONLINE_SWEEPS, TOL)
            self.weights_ = live.weights.p.copy()
            answer = float(target[0])
        self.n_answers_ += 1
        self.privacy_ = session.certificate()
        return min(max(answer, 0.0), 1.0)

    def close(self) -> None:
        """End the session and release the memory of the rows; `predict` and `sample` still work."""
        live = _LIVE.pop(self, None)
        if live is not None:
            live.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _check_fit(self, domain: Domain, n: int) -> None:
        self._plan(domain, n)

    def _plan(self, domain: Domain, n: float | None = None) -> _OnlinePlan:
        """Return the public numbers of a fit of n rows, public or released, or raise.

        Without n, as before the charge, ``"auto"`` stands for one update.
        """
        check_factored(domain, type(self).__name__)
        alpha = float(self.alpha)
        stated = None if isinstance(self.n_updates, str) else int(self.n_updates)
        allowance = self._allowance()
        counting = Fraction(0) if allowance.replace else COUNT_SHARE
        comparing = (1 - counting) * (COMPARING if allowance.pure else COMPARING_GAUSSIAN)
        epsilon = allowance.part(comparing).pure_epsilon
        # Infinite for a tiny alpha; no more than can be drawn is ever planned.
        enough = min(4 * math.log(domain.n_cells) / alpha / alpha, 2.0**53)
        # With room for the session's rounding: after the charge, no draw may fail.
        drawable = 2.0**50 * epsilon / (4 * QUERY_UNIT)
        if (stated or 1) > drawable:
            raise ValueError(
                f"n_updates = {shown(stated or 1, 500)} at epsilon = {self.epsilon:g} needs more "
                "noise than can be drawn exactly; state fewer n_updates or a larger epsilon"
            )
        most = max(math.ceil(min(enough, drawable - 1)), 1)
        updates = stated or self._affordable(most, alpha * (n or 0.0) / 2, epsilon)
        answering = (1 - counting - comparing) / updates
        return _OnlinePlan(alpha, updates, counting, comparing, answering, epsilon)

    @staticmethod
    def _affordable(most: int, room: float, epsilon: float) -> int:
        """Return the largest number of updates, up to `most`, whose comparisons err by `room`."""
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = comparison_margin(middle, epsilon, USUAL_QUERIES, MISSED) <= room
            low, high = (middle, high) if fits else (low, middle)
        return max(low, 1)

    def expected_error(
        self,
        n_samples: int,
        n_features: int | None = None,
        *,
        like: Any = None,
        queries: Any = None,
    ) -> float:
        """Return the error of the worst answer, on average over fits.

        Nothing private is read and nothing is charged. The queries are asked in order about public
        rows, a few times, each time with fresh noise; after the last update `predict` answers them.
        `error_bound` holds for any rows and queries.

        Parameters
        ----------
        {table_sizes}
        like : array-like or table of shape (n_like, n_features), or fitted releaser
            Public rows that resemble the private ones (made-up ones will do), of any number; or an
            earlier fit, from which rows are drawn. There is no default, because the measurements
            differ between tables.
        queries : sequence of Queries or callables, default=None
            The queries to be asked, each a single query as `answer` takes it. None: 50 random cells
            of pairs of columns.

        Returns
        -------
        error : float
            Unit: a part of the rows. The mean over fits of the largest error of an answer.

        Raises
        ------
        ValueError
            If `like` is not given.
        """
        n = check_integer(n_samples, "n_samples", low=1)
        domain = self._known_domain(n_features, like)
        self._plan(domain, n)
        if like is None:
            raise unanswered(self, "the rows and on the queries", ". error_bound() holds for any")
        table = PublicTable(like, domain, n)
        stated = _usual_queries(domain) if queries is None else [as_queries(q) for q in queries]
        exact = [float(table.answers(query)[0]) for query in stated]

        def error(fresh: Fresh, number: int) -> float:
            with fresh(number).fit(table.rows) as fitted:
                answers = [
                    fitted.answer(query)
                    if fitted.n_updates_left_
                    else float(fitted.predict(query)[0])
                    for query in stated
                ]
            return float(np.abs(np.array(answers) - exact).max())

        return mean_error(self, error, least=5, most=60, precision=0.05)

    def error_bound(
        self,
        n_samples: int,
        n_features: int | None = None,
        *,
        n_queries: int = 100,
        beta: float = 0.05,
    ) -> float:
        """Return a bound on the error of the worst of `n_queries` answers, while updates are left.

        Nothing is fitted, read or charged. It holds for any rows.

        Parameters
        ----------
        {table_sizes}
        n_queries : int, default=100
            Number of queries that will be asked.
        beta : float, default=0.05
            Probability that the error of an answer is larger, in (0, 1).

        Returns
        -------
        error : float
            A part of the rows, at most 1: the threshold plus the noise of comparisons, or the noise
            of measured answers, whichever is larger.
        """
        n = check_integer(n_samples, "n_samples", low=1)
        k = check_integer(n_queries, "n_queries", low=1)
        check_parameter(beta, "beta", FRACTION)
        plan = self._plan(self._known_domain(n_features), n)
        allowance, third = self._allowance(), float(beta) / 3

        def tail(share: Fraction, times: int) -> float:
            """Return the error of `times` numbers of sensitivity 1, but for a third of beta."""
            level = allowance.part(share).level
            if allowance.pure:
                return math.log(times / third) / level + 1
            return math.sqrt(2 * math.log(2 * times / third)) / level + 1

        counted = tail(plan.counting, 1) if plan.counting else 0.0
        margin = comparison_margin(plan.n_updates, plan.comparing_epsilon, k, third)
        unmeasured = THRESHOLD * plan.alpha * (n + counted) + margin
        measured = tail(plan.answering, min(plan.n_updates, k))
        return min((max(unmeasured, measured) + counted) / n, 1.0)


def _usual_queries(domain: Domain) -> list[Queries]:
    """Return cells of pairs of columns, at random."""
    rng = rehearsal_rng()
    queries = []
    for _ in range(USUAL_ASKED):
        k = min(2, domain.n_columns)
        columns = tuple(sorted(rng.choice(domain.n_columns, size=k, replace=False).tolist()))
        cell = [int(rng.integers(domain.sizes[j])) for j in columns]
        weights = np.zeros([domain.sizes[j] for j in columns])
        weights[tuple(cell)] = 1.0
        queries.append(linear_queries(weights.reshape(1, -1), columns=list(columns)))
    return queries
