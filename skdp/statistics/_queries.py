"""Means of functions that a user writes, and the cost of a spanning tree."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Unpack

from numpy.typing import ArrayLike

from skdp.base import check_integer
from skdp.budget import PrivacyBudget, gdp_mu
from skdp.core import (
    Box,
    PrivacyCertificate,
    Session,
    UserFunction,
    check_allowance,
    open_session,
)
from skdp.exceptions import BudgetExceededError
from skdp.loss.conversions import check_positive, exact
from skdp.parameters import check_parameter, naming
from skdp.planning import Allowance
from skdp.queries import SpanningCost, check_graph, function_mean, planned_noise
from skdp.statistics._call import Call, Floats, Options, Released, documented, result
from skdp.user_code import or_raise

SMALLEST_LEVEL = 1e-9  # of a query: below, noise is too large for the samplers
_WEIGHTS = "weights must be finite numbers, one for each edge, as an array, a list or a series"


class QuerySession:
    """An allowance for statistical queries on one private table; open it with `query_session`.

    It is a context manager, and keeps the rows until it is closed.

    Parameters
    ----------
    session : skdp.core.Session
        An open session, already charged.
    n_queries : int
        Number of equal parts of the allowance.
    """

    def __init__(self, session: Session, n_queries: int) -> None:
        self._session: Session | None = session
        self._equal_part = Fraction(1, n_queries)
        self._lock = threading.RLock()  # one query at a time
        self._privacy = session.certificate()

    def __repr__(self) -> str:
        return f"QuerySession(remaining={self.remaining:g})"

    @property
    def remaining(self) -> float:
        """The remaining part of the allowance, in [0, 1]; 0 after closing."""
        return 0.0 if self._session is None else float(self._session.remaining)

    @property
    def privacy_(self) -> PrivacyCertificate:
        """Certificate of all answers so far, which together satisfy (epsilon, delta)-DP."""
        return self._privacy if self._session is None else self._session.certificate()

    def ask(self, query: Callable[[Floats], Any], *, share: float | None = None) -> Released:
        """Return the noisy mean of g(row) over the rows.

        Parameters
        ----------
        query : callable
            ``g(row)`` gets one row, an array of shape (n_features,), and returns a number in [0,
            1]. Other numbers are clipped to [0, 1]; an exception, or anything but a finite number,
            counts as 0. It must not pass information from one row to another, or to the outside (by
            printing, writing or charging a budget). For every row, numpy's and Python's global
            random generators are in the same state.
        share : float, default=None
            Part of the allowance, in (0, 1]: of epsilon, or of mu squared if noise is Gaussian.
            None: one of the equal parts.

        Returns
        -------
        released : Released
            In [0, 1].

        Raises
        ------
        BudgetExceededError
            If less than this share is left, or if the session is closed. The query is then not
            called, and an open session stays open.
        TypeError, ValueError
            If an argument is out of range.
        """
        if not callable(query):
            raise TypeError(f"query must be callable, got {type(query).__name__}")
        part = self._equal_part
        if share is not None:
            check_positive(share, "share")
            part = exact(float(share))
            if part > 1:
                raise ValueError(f"share must be in (0, 1], got {share!r}")
        with self._lock:
            session = self._session
            if session is None or part > session.remaining:
                raise BudgetExceededError(
                    f"the query wants {float(part):g} of the session's allowance, "
                    f"{self.remaining:g} is left; nothing was released"
                )
            if session.level(part) < SMALLEST_LEVEL:
                raise ValueError(
                    f"share must leave the query a level of at least {SMALLEST_LEVEL:g}, got "
                    f"share={float(part):g} of epsilon={self._privacy.epsilon:g}"
                )
            release = session.answer(function_mean(UserFunction(query)), part)
            # Every query draws noise of its own, so answers of one session are independent.
            return result(release.value, release.std, session.certificate())

    def close(self) -> None:
        """End the session and release the memory of the rows; the rest of the allowance is lost.

        Waits for an answer that another thread is computing.

        Raises
        ------
        PrivacyLeakError
            If a query itself calls this; it counts as a failure on its row.
        """
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._privacy = self._session.certificate()
                self._session = None

    def __enter__(self) -> QuerySession:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


@documented
def query_session(X: ArrayLike, *, n_queries: int = 10, **options: Unpack[Options]) -> QuerySession:
    """Open a session that answers statistical queries: means of g(row) in [0, 1].

    Parameters
    ----------
    {X}
    n_queries : int, default=10
        Number of queries that share the allowance equally; `QuerySession.ask` accepts other shares.
    {rows}

    {raises}

    Notes
    -----
    **Privacy.** *Released*: one mean for each query; a query may depend on earlier answers.
    *Sensitivity*: 1 over the number of rows if that is public; otherwise that of the sum together
    with the number of rows, as one vector. *Mechanism*: Laplace or rounded Gaussian noise,
    whichever is less. *Charged*: at most (epsilon, delta), once, on opening, as "query_session".
    Queries that are not asked are not refunded.

    References
    ----------
    Kearns 1998, "Efficient noise-tolerant learning from statistical queries", Section 2.

    Blum, Dwork, McSherry & Nissim 2005, "Practical privacy: the SuLQ framework", Section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> ages = np.random.default_rng(0).integers(18, 90, size=5000)
    >>> with statistics.query_session(ages, n_queries=2, random_state=0) as session:
    ...     old = session.ask(lambda row: row[0] >= 65)
    ...     even = session.ask(lambda row: row[0] % 2 == 0)
    >>> bool(abs(old.value - (ages >= 65).mean()) < 5 * old.std), session.remaining
    (True, 0.0)
    """
    call = Call.of("query_session", options)
    parts = check_integer(n_queries, "n_queries", low=1, high=2**53)

    def noise(allowance: Allowance) -> float:
        return allowance.part(Fraction(1, parts)).cell_std

    epsilon, (delta, _) = float(call.epsilon), call.split_delta(noise)
    allowance = Allowance(epsilon, gdp_mu(epsilon, delta) if delta else None)
    if allowance.part(Fraction(1, parts)).level / call.steps < SMALLEST_LEVEL:
        raise ValueError(
            f"n_queries must leave each query a level of at least {SMALLEST_LEVEL:g}, got "
            f"n_queries={parts} for epsilon={epsilon:g}"
        )
    rows, _ = call.table(X)
    return QuerySession(call.opened(rows, (parts,), delta=delta), parts)


@documented
def mst_cost(
    n_vertices: int,
    edges: ArrayLike,
    weights: ArrayLike,
    upper: float,
    *,
    noise: str = "cauchy",
    nu: int = 3,
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the cost of a minimum spanning tree of a public graph with private edge weights.

    It protects the weight of one edge. It does not protect points: if weights are distances between
    points, each point determines the weights of all its edges, and the guarantee does not cover
    that.

    Parameters
    ----------
    n_vertices : int
        Public.
    edges : array-like of int of shape (n_edges, 2)
        Public edges that join the vertices 0 .. n_vertices - 1 to a connected graph.
    weights : array-like of shape (n_edges,)
        Private weights, one for each edge; clipped to [0, upper].
    upper : float
        Public upper bound of a weight, above 0.
    noise : {"cauchy", "student", "laplace"}, default="cauchy"
        ``"laplace"`` needs delta > 0, and spends all of it.
    nu : int, default=3
        Degrees of freedom of Student's noise.
    epsilon, delta : float or None, default=1.0, None
    budget : PrivacyBudget or None, default=None
        ... Its relation must be "replace_one".

    Returns
    -------
    released : Released
        Between 0 and (n_vertices - 1) upper. The standard error is NaN: the amount of noise depends
        on the weights, so it is private.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: one number. *Sensitivity*: the smooth sensitivity of the cost when the
    weight of one edge is replaced. *Mechanism*: Cauchy or Student noise, which is pure epsilon-DP,
    or Laplace noise, which is not.

    References
    ----------
    Nissim, Raskhodnikova & Smith 2007, "Smooth sensitivity and sampling in private data
    analysis", Section 3.3.

    Examples
    --------
    >>> from skdp import statistics
    >>> ring = [[0, 1], [1, 2], [2, 3], [3, 0]]
    >>> cost = statistics.mst_cost(4, ring, [1.0, 2.0, 1.0, 5.0], 10.0, random_state=0)
    >>> 0 <= float(cost) <= 30
    True
    """
    call = Call("mst_cost", epsilon, delta, budget, random_state)
    if call.adjacency != "replace_one":
        raise ValueError(
            f"budget must be of the relation 'replace_one' for mst_cost, got {call.adjacency!r}"
        )
    if call.counts_users:
        raise ValueError(
            "budget must have no unit for mst_cost, which protects the weight of one edge"
        )
    call = dataclasses.replace(call, n_rows="public")  # the number of edges
    n = check_integer(n_vertices, "n_vertices", low=2)
    check_parameter(noise, "noise", "cauchy", "student", "laplace")
    nu = check_integer(nu, "nu", low=1, high=1024)
    epsilon = float(epsilon)
    # Noise is pure, or spends all of delta.
    separate = call.allowed_delta if noise == "laplace" else 0.0
    check_allowance(epsilon, separate)
    with naming("edges"):
        graph = check_graph(n, edges)
    top = float(check_positive(upper, "upper"))
    with naming("upper"):
        call.stated((0.0, top), 1)
    query = SpanningCost(Box([0.0], [top]), n, graph, noise=noise, nu=nu)
    # Refuse here what the query would refuse after the charge.
    with naming("epsilon"):
        planned_noise(query, Allowance(epsilon).part(1 - 1e-9), separate * (1 - 1e-9))
    rows, _ = or_raise(lambda: call.table(weights), lambda: ValueError(_WEIGHTS))
    public = (n, graph.tolist(), top, noise, nu)
    with open_session(rows, estimator="mst_cost", epsilon=1.0) as probe:
        if rows.n_features != 1 or probe.n_rows != len(graph):
            raise ValueError("weights must hold one number for each edge")
    with call.opened(rows, public, delta=0.0, separate_delta=separate) as session:
        release = session.answer(query, name="mst_cost")
        privacy = session.certificate()
    return result(release.value, math.nan, privacy)
