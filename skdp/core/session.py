"""Sessions: a budget is charged once, and queries are answered from what it bought.

A session is a private table with a privacy filter. `open_session` charges the budget; `answer`
releases the answer to a query, which carries its sensitivity (see `skdp.core.query`).

Guarantee: only registered query types are answered, as they were when they were handed in; the
noise is that for the worst change of the table that one unit can make (`skdp.core.table`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from types import TracebackType
from typing import Any

import numpy as np

from skdp.budget import PrivacyBudget
from skdp.core.certificate import PrivacyCertificate
from skdp.core.mechanisms import exponential_mechanism
from skdp.core.privacy_filter import (
    SMALLEST_LEVEL,
    Meter,
    PrivacyFilter,
    Release,
    Share,
    asked,
    check_allowance,
    released,
)
from skdp.core.query import (
    Choice,
    Derived,
    Measurement,
    Noisy,
    Query,
    Terms,
    check_query,
    checked_integers,
    is_reviewed,
    moved_by,
    owned,
    terms_of,
)
from skdp.core.sums import Count
from skdp.core.table import REPLACE_ONE, PrivateTable, Rows, stability_of
from skdp.core.units import (
    CHOICE_SHARE,
    PRIVATE_ROWS,
    Unit,
    bound_units,
    rows_query,
    unit_table,
)
from skdp.exceptions import PrivacyLeakError


class Session:
    """A metered conversation with one private table; open it with `open_session`.

    Attributes
    ----------
    n_features : int
    adjacency : {"replace_one", "add_or_remove_one"}
        How neighbouring tables of this session differ: the number of rows is public under
        "replace_one" only. The certificate names the relation of the caller's own table.
    pure : bool
        Whether noise is pure, or Gaussian.
    max_rows_per_unit : int or None
        How many rows of one unit count; None where the unit is a row.
    """

    def __init__(self, table: PrivateTable, privacy_filter: PrivacyFilter) -> None:
        self._table = table
        self._filter = privacy_filter
        self._meter = privacy_filter.meter()
        self._per_step = self._meter.per_step(table.stability.steps)
        self.max_rows_per_unit = privacy_filter.max_rows_per_unit
        self.n_features = table.n_features
        self.adjacency = table.relation
        self.pure = self._meter.pure

    def __reduce__(self) -> Any:
        raise PrivacyLeakError("a session cannot be copied: both would spend one charge")

    # --- queries --------------------------------------------------------------------------------

    def answer(self, query: Any, share: Share = None, *, name: str | None = None) -> Any:
        """Release the answer to a query, with the noise that its own sensitivity asks for.

        Guarantee: level(share)-GDP, respectively pure DP for the share's epsilon, if the
        sensitivity that stands in the query's type holds; only registered types are answered.

        Parameters
        ----------
        query : Query, Choice, Measurement or Derived
        share : float or Fraction, default=None
            Of the session's allowance; None for all that remains.
        name : str, default=None
            In the certificate; that of the query by default.

        Raises
        ------
        TypeError
            If the query is not of a registered type.
        PrivacyLeakError
            If the allowance does not cover the share.
        """
        return answer_query(query, self._table, self._meter, share, name)

    def row_count(self, share: Share = None, *, name: str = "count") -> Release:
        """Return the number of rows: exact and free where it is public, else a noisy release."""
        if self._table.n_is_public:
            return released(float(self._table.n), 0.0)
        out: Release = self.answer(Count(), share, name=name)
        return out

    def code_rows(self, domain: Any) -> None:
        """Give rows their codes by a released domain: a function of each row alone."""
        self._table.rows.take_domain(domain)

    # --- what is public -------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """The number of rows, where it is public."""
        if not self._table.n_is_public:
            raise PrivacyLeakError("the number of rows of this table is private")
        return self._table.n

    @property
    def remaining(self) -> Fraction:
        """Share of the allowance that is left."""
        return self._meter.remaining

    def level(self, share: Share = None) -> float:
        """Return the epsilon (pure) or mu that a release of this share may lose.

        For one row of the relation `adjacency`: where a unit changes more, its part.
        """
        return self._per_step.level(share)

    def terms(self, share: Share = None) -> Terms:
        """Return what a query may know of this session; all of it is public."""
        return terms_of(self._table, self._per_step, share)

    def post_processing_rng(self) -> np.random.Generator:
        """Return a generator for data-independent randomness of post-processing."""
        return self._meter.post_processing_rng()

    def certificate(self) -> PrivacyCertificate:
        """Return what has been released so far and the session's guarantee."""
        return self._filter.certificate()

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session: no further release; the ledger learns what the charge was for.

        Raises
        ------
        PrivacyLeakError
            If code that runs on the rows asks for it: one row would decide about all later answers.
        """
        self._filter.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def answer_query(
    query: Any, table: PrivateTable, meter: Meter, share: Share = None, name: str | None = None
) -> Any:
    """Release the answer to a query on a table; see `Session.answer`."""
    kind = check_query(query)
    query = owned(query)
    name = query.name if name is None else name
    known = is_reviewed(kind)
    described = f"{kind.__module__}.{kind.__qualname__}"
    if known and issubclass(kind, Query):
        described = query.described
    with asked(described, reviewed=known):
        if issubclass(kind, Derived):
            derived = kind.table(query, table, meter, share, name)
            return answer_query(query.query, derived, meter, share, name)
        if issubclass(kind, Measurement):
            steps = kind.steps(query, table)
            return kind.measure(query, table, meter.per_step(steps), share, name)
        if issubclass(kind, Choice):
            size = moved_by(kind, query, table.stability)
            scores = _computed(meter, share, name, lambda: kind.scores(query, table))
            return kind.decoded(query, exponential_mechanism(meter, name, scores, size, share))
        # What a query may know is for one step, like what a measurement may lose.
        terms = terms_of(table, meter.per_step(table.stability.steps), share)
        query = kind.prepared(query, terms)
        size = moved_by(kind, query, table.stability)
        if not is_reviewed(type(size)):
            raise TypeError(f"{kind.__name__}.sensitivity must return one of skdp.core")
        unit = query.unit
        if known:
            kind.check_table(query, table)

        def compute() -> Any:
            if known:
                exact = kind.exact_in_session(query, table, meter, share, name)
            else:
                exact = kind.exact(query, table)
            return checked_integers(exact, kind)

        exact = _computed(meter, share, name, compute)
        values, std = size.noised(meter, name, exact, share, unit)
        if not known:  # whether int64 holds them would tell of what is exact
            values = values.astype(object)
        return kind.decoded(query, Noisy(values, std, terms))


def _computed(meter: Meter, share: Share, name: str, make: Callable[[], Any]) -> Any:
    """Return what a query computes of the rows, if its share is there.

    Whether it fails may depend on a row (on whether there is one, say): that is paid for.
    """
    meter.check(share, name)
    try:
        return make()
    except BaseException:
        meter.take(share, name)
        raise


def open_session(
    rows: Rows,
    *,
    estimator: str,
    epsilon: float,
    delta: float = 0.0,
    separate_delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
    context: str = "",
    unit: Unit | None = None,
) -> Session:
    """Charge (epsilon, delta + separate_delta) to the budget and return a session on the rows.

    Guarantee: the charge is in the ledger before any noise is drawn; everything the session
    releases is (epsilon, delta + separate_delta)-differentially private together, for the caller's
    whole table and the budget's relation, rows that a filter has left out included.

    Parameters
    ----------
    rows : Rows
        From `check_rows` or another entrance of `skdp.tabular`.
    estimator : str
        Name in ledger and certificate.
    epsilon, delta : float
        Valid (`skdp.base` checks them for estimators).
    separate_delta : float, default=0.0
        For one release with a separate delta (`PublishedRows`, or Laplace noise scaled to a smooth
        sensitivity); other noise has none of it.
    budget : PrivacyBudget or None
        Shared ledger; None means the fit stands alone, under replace-one.
    random_state : None, int or RandomState
        Seeds post-processing; and noise, which is then reproducible and marked so, but only inside
        ``skdp.config_context(noise="seeded")``.
    context : str
        Public parameters of the fit; keys the stream of seeded noise.
    unit : Unit, default=None
        Whose the rows are is in `rows.units` then, and at most so many of one unit count; None:
        the unit is a row.

    Returns
    -------
    session : Session
        A context manager.

    Raises
    ------
    BudgetExceededError, SealedBudgetError, LedgerError
        Nothing was charged then.
    """
    relation = REPLACE_ONE if budget is None else budget.adjacency
    stability = stability_of(relation)
    table = PrivateTable(rows, stability.filtered() if rows.filtered else stability)
    if (unit is None) != (rows.units is None):
        raise TypeError("rows of units need a unit, and a unit needs rows of units")
    if unit is not None:
        check_unit(unit, relation, epsilon, delta)
    # A row of some tables is all that one unit has: `skdp.tabular.contributions`.
    whole: str | None = getattr(rows, "unit_name", None)
    privacy_filter = PrivacyFilter(
        rows.digest,
        estimator=estimator,
        epsilon=epsilon,
        delta=delta,
        separate_delta=separate_delta,
        budget=budget,
        random_state=random_state,
        context=context,
        n_rows=table.n if table.n_is_public and unit is None and whole is None else None,
        unit=whole if unit is None else unit.name,
    )
    if unit is not None:
        table = _of_units(table, privacy_filter, unit, relation)
    return Session(table, privacy_filter)


def _steps_of(rows: int, relation: str) -> int:
    """Return how many steps so many rows of a unit are, for what has no tight bound."""
    return 2 * rows if relation == REPLACE_ONE else rows


def check_unit(unit: Unit, relation: str, epsilon: float, delta: float) -> None:
    """Refuse, before the charge, so many rows a unit that the allowance of one is none."""
    if unit.most == PRIVATE_ROWS:
        return
    steps = _steps_of(int(unit.most), relation)
    mu = check_allowance(epsilon, delta)
    if (epsilon if mu is None else mu) / steps < SMALLEST_LEVEL:
        raise ValueError(
            f"max_rows_per_unit={unit.most} leaves each row less than {SMALLEST_LEVEL:g} of the "
            f"allowance: state fewer rows, or a larger epsilon than {epsilon!r}"
        )


def _of_units(
    table: PrivateTable, privacy_filter: PrivacyFilter, unit: Unit, relation: str
) -> PrivateTable:
    """Return the table with at most so many rows of each unit, which are chosen if not stated."""
    units, meter = table.rows.unit_rows(), privacy_filter.meter()
    if unit.most == PRIVATE_ROWS:
        each = meter.level(CHOICE_SHARE)
        smallest = SMALLEST_LEVEL * _steps_of(1, relation) / meter.level(Fraction(1))
        query = rows_query(each, pure=meter.pure, smallest=smallest)
        most = answer_query(query, unit_table(units, relation), meter, CHOICE_SHARE)
        privacy_filter._keep_rest()
    else:
        most = int(unit.most)
    privacy_filter.max_rows_per_unit = most
    return bound_units(table, units, most, relation, privacy_filter.ticket_key())
