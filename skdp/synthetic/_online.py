"""Private multiplicative weights: linear queries answered one at a time, as they are asked.

The sparse vector technique tells whether the answer of the public distribution is too far off. If
it is, the answer is measured with noise, and the distribution is updated.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_integer
from skdp.base.expected_error import mean_error, rehearsal, rehearsal_rng, unanswered
from skdp.core import Session
from skdp.exceptions import BudgetExceededError, PrivacyLeakError
from skdp.parameters import FRACTION, Integers, Table, check_parameter, shown
from skdp.planning import row_count
from skdp.queries import (
    QUERY_UNIT,
    AboveThreshold,
    SparseVector,
    Workload,
    comparison_margin,
    workload_answer,
)
from skdp.synthetic._base import PublicTable, ReleaserMixin, documented
from skdp.synthetic._mwem import AUTO, COUNT_SHARE, Weights, as_fractions, check_factored
from skdp.synthetic._queries import Queries, as_queries, linear_queries
from skdp.tabular import Domain

# Shares of comparisons in what remains after the number of rows; the rest is for the answers.
COMPARING, COMPARING_GAUSSIAN = Fraction(3, 4), Fraction(19, 20)
USUAL_ASKED = 50  # queries of an expected error, where none are stated
THRESHOLD = 0.75  # in alpha: a quarter is left for the noise of comparisons
SWEEPS, TOL = 30, 1e-4
# "auto" keeps the noise of so many comparisons within half of alpha, but for this chance.
USUAL_QUERIES, MISSED = 100, 0.1


@dataclass(frozen=True)
class _Plan:
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
            session = self._session(rows)
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
            live.weights.fit(SWEEPS, TOL)
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

    def _plan(self, domain: Domain, n: float | None = None) -> _Plan:
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
        return _Plan(alpha, updates, counting, comparing, answering, epsilon)

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
        with rehearsal(self, self._adjacency) as unfitted:

            def error(number: int) -> float:
                with unfitted(number).fit(table.rows) as fitted:
                    answers = [
                        fitted.answer(query)
                        if fitted.n_updates_left_
                        else float(fitted.predict(query)[0])
                        for query in stated
                    ]
                return float(np.abs(np.array(answers) - exact).max())

            return mean_error(error, least=5, most=30)

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
