"""`DPGroupBy`: private aggregates by key, with bounded contributions of each unit."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import numbers
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.aggregation import _plan as plan
from skdp.aggregation import _results as results
from skdp.aggregation._intervals import choose_quantile
from skdp.aggregation._noise import (
    FIRST_PART,
    SMALLEST_EPSILON,
    Chooser,
    Design,
    Shapes,
    counted_term,
    counting_term,
)
from skdp.aggregation._plan import Aggregate, terms_of
from skdp.aggregation._results import std_of
from skdp.base import CallContext, unchanged_on_error
from skdp.base.context import public_key, unit_of
from skdp.budget import Cost, exact, gdp_mu
from skdp.confidence import Released
from skdp.confidence.equations import new_key
from skdp.core import PrivacyCertificate, Release, Session
from skdp.exceptions import BudgetExceededError, outside_level
from skdp.loss.conversions import exact_shares
from skdp.parameters import Integers, check_kinds, check_parameter, naming
from skdp.planning import Allowance
from skdp.queries import (
    KEY_METHODS,
    MAX_KEYS_PER_UNIT,
    MAX_ROWS_PER_UNIT,
    CountedKeys,
    KeyCounts,
    KeyTotals,
    LeftOut,
    SelectKeys,
    UnitShapes,
    UnitSpread,
    unit_sum,
)
from skdp.tabular import check_grouped, column_of_values, shown_key, table_of
from skdp.user_code import untracked

__all__ = ["DPGroupBy"]

PRIVATE = "private"
_SMALLEST_DELTA = 1e-29  # the selection of keys needs a tenth of it or more


class DPGroupBy(BaseEstimator):
    """Aggregates of the rows of each key; all rows of one unit are protected together.

    A unit (a user, a plane) may have many rows, under many keys. Its contribution is bounded: it
    counts in at most `max_keys_per_unit` of its keys, chosen at random, and in each with a weight
    of at most `max_rows_per_unit` rows. If it has m rows there, more than that, each of them counts
    max_rows_per_unit / m. Keys are stated, or found privately.

    Parameters
    ----------
    by : str or list of str
        Key columns.
    unit : str or None
        Column of ids of the privacy unit. All rows of one id are protected together. Rows without
        an id are left out. None: each row is a unit by itself, as in estimators without ``groups``.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0. It covers everything that the fit releases.
    delta : float or None, default=None
        In [0, 1). The most that a fit takes. Private keys need a delta above 0: half of it bounds
        the probability that a key which only one unit has is shown, or all of it where noise is
        pure. With stated keys delta is charged only where noise is Gaussian. None: a hundredth of
        the budget's delta; 0 without a budget.
    keys : "private", list or dict, default="private"
        Stated keys are public, and all of them are in the result, whether the table has them or
        not. Rows with other keys are left out. For several key columns, a list of tuples, or a dict
        from columns to lists of which all combinations are keys. Keys must have the type of their
        column; floats are rounded to that of a float column.
    types : dict, default=None
        Types of key columns of objects or categories: ``{"k": "text"}``. One of "text", "boolean",
        "integer", "float", "date", "timestamp"; a cell that is none is missing. Without it, each
        cell of such a column is read by itself: 1.0 and ``Decimal(1)`` are 1, ``True`` is not.
    dropna : bool, default=True
        Whether rows with a missing key are left out. False: they are a group of their own, with the
        key None.
    max_keys_per_unit, max_rows_per_unit : "private" or int, default="private"
        ``"private"``: from two noisy histograms of units, for a few hundredths of the allowance: of
        the caps that keep 95% of the rows by these, those of the smallest error. If each row is a
        unit, both are 1.
    bounds : "private" or dict, default="private"
        Range of each column, from public knowledge: a mapping from column name to (low, high), as
        in ``{"delay": (-60, 180)}``. An aggregate may state its own bounds. For columns without
        bounds, powers of two that cover the values of nearly all units are learned, for a few
        hundredths of the allowance each.
    key_method : {"auto", "laplace", "optimal", "gaussian", "sips"}, default="auto"
        How keys are found: see `skdp.queries.key_selection`. ``"auto"``: a count selects the keys
        by its own noise if there is one and if that shows smaller keys; else ``"sips"`` if noise is
        Gaussian, otherwise ``"optimal"``.
    aggregates : dict or None, default=None
        Set by `agg`; None: the keys only.
    budget : PrivacyBudget, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one. One unit is added or removed, or replaced (then
        noise is up to twice as large). How many units have rows is private under both.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    table_ : table
        A row for each key, sorted by key, in the same kind of table as the fitted one (for DuckDB a
        pandas table, or a dict of lists without pandas). Every aggregate ``x`` has columns
        ``x_low`` and ``x_high``: an interval that contains, in 95% of releases, the aggregate of
        the bounded and clipped rows without noise. It does not cover rows that were left out. Where
        a count has selected the keys, its interval holds for 95% of the releases that show the key:
        near the least count that shows it reaches far down. Numbers are clipped to their intervals,
        so no count is negative; `released_` has them as they were drawn. A
        mean also has ``x_population_low`` and ``x_population_high``, for the population, if units
        were drawn from it independently.
    released_ : dict
        By column a `skdp.statistics.Released`, with keys as labels: intervals at other levels, and
        standard errors, which sums and differences of keys keep. Counts, sums and histograms are as
        they were drawn, before clipping: add or average these, of stated keys. Errors of means are
        NaN where the number of rows is below ten of its own, and those of counts that selected
        their keys within five of the least that shows. Errors of other aggregates are NaN.
    keys_ : list
        Values of Python, dates and times among them; timestamps are numpy's, in UTC where their
        column has a time zone.
    max_keys_per_unit_, max_rows_per_unit_ : int
    bounds_ : dict
        For each aggregate that clips, by its name: (low, high), stated or learned.
    hidden_units_ : dict
        For each column with learned bounds: if fewer units than about this have values between two
        powers of two, nobody notices, and such values beyond the bounds are clipped. If this is
        more than a twentieth of the units, intervals are NaN, with a warning.
    left_out_ : dict
        ``"keys"`` and ``"rows"``: how many (unit, key) pairs, and rows of these keys, were left out
        by bounding (at most its bound for each unit); with ``_low`` and ``_high``.
    notes_ : list of str
        Where caps are private: which rows counts, sums and their intervals are of, not of all rows.
        And that rows without an id or a key are left out, whether there are any or not.
    privacy_ : PrivacyCertificate

    See Also
    --------
    skdp.budget.PrivacyBudget.parallel : For parts of which each unit is in only one.

    Notes
    -----
    **Privacy.** Released: the keys, two histograms of units, and sums by key; of one or two
    quantiles of a column, a choice for each key by the exponential mechanism (key_totals.md in
    ``skdp/queries``). Sensitivities follow from the bounds on the contribution of a unit. For
    counts of rows, if a unit is added or removed: max_keys max_rows in L1 and sqrt(max_keys)
    max_rows in L2; if a unit is replaced: twice that in L1 and sqrt(2) times that in L2 (twice,
    for sums of values relative to a middle). A key
    that only one unit has is shown with probability at most delta / 2 (delta, if noise is pure).
    Mechanisms: rounded Gaussian noise; discrete Laplace noise if delta = 0, or where it is less
    (shorter intervals of stated keys, smaller counts that show of private keys) and the budget's
    accountant is "basic". Where it depends on the number of a unit's keys, which is private, the
    histograms of units are released first, by a session of their own; the ledger has two entries
    then. Charged: at most (epsilon, delta), before any noise. Proofs: ``skdp/queries``,
    key_selection.md and key_totals.md.

    References
    ----------
    R. J. Wilson, C. Y. Zhang, W. Lam, D. Desfontaines, D. Simmons-Marengo, B. Gipson (2020),
    "Differentially private SQL with bounded user contribution", PoPETs 2020(2), Sections 3 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> visits = {"user": rng.integers(0, 5000, 20000), "page": rng.integers(0, 3, 20000)}
    >>> by = DPGroupBy("page", "user", keys=[0, 1, 2], delta=0.0).agg(visits="count")
    >>> sorted(by.fit(visits).table_)
    ['page', 'visits', 'visits_high', 'visits_low']
    """

    def __init__(
        self,
        by: str | Sequence[str],
        unit: str | None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        keys: Any = PRIVATE,
        types: Mapping[str, str] | None = None,
        dropna: bool = True,
        max_keys_per_unit: Any = PRIVATE,
        max_rows_per_unit: Any = PRIVATE,
        bounds: Any = PRIVATE,
        key_method: str = "auto",
        aggregates: Mapping[str, Any] | None = None,
        budget: Any = None,
        random_state: Any = None,
    ) -> None:
        self.by = by
        self.unit = unit
        self.epsilon = epsilon
        self.delta = delta
        self.keys = keys
        self.types = types
        self.dropna = dropna
        self.max_keys_per_unit = max_keys_per_unit
        self.max_rows_per_unit = max_rows_per_unit
        self.bounds = bounds
        self.key_method = key_method
        self.aggregates = aggregates
        self.budget = budget
        self.random_state = random_state

    def agg(self, **aggregates: Any) -> DPGroupBy:
        """Return a copy of this aggregation with other aggregates; nothing is released.

        Parameters
        ----------
        **aggregates
            Name of a column of the result = ``"count"``, ``"distinct_units"``, ``("sum", column)``,
            ``("mean", column)``, ``("variance", column)``, ``("std", column)``,
            ``("median", column)``, ``("quantile", column, q)``, each optionally followed by bounds
            ``(low, high)``, or ``("histogram", column, edges)``. The column may come first, as in
            ``("pay", "median")``.

        Returns
        -------
        aggregation : DPGroupBy

        Raises
        ------
        TypeError, ValueError
            For what is no aggregate.
        """
        plan.check_aggregates(aggregates, {})
        return type(self)(**{**self.get_params(deep=False), "aggregates": aggregates})

    # --- what is public -------------------------------------------------------------------------

    _former_delta = 1e-6  # the default when seeded noise was recorded

    @property
    def _delta(self) -> float:
        """The most that a fit takes of delta."""
        return CallContext(DPGroupBy.__name__, 1.0, self.delta, self.budget).allowed_delta

    def _by(self) -> list[str]:
        by = [self.by] if isinstance(self.by, str) else self.by
        if not isinstance(by, list | tuple) or not all(isinstance(name, str) for name in by):
            raise TypeError("by must be the name of a column, or a list of names")
        return list(by)

    def _check(self) -> tuple[CallContext, list[Aggregate], tuple[Any, ...] | None]:
        """Return the context of the fit, the aggregates and the stated keys; raise if invalid."""
        name, by = DPGroupBy.__name__, self._by()
        context = CallContext(name, self.epsilon, self.delta, self.budget, self.random_state)
        self._check_unit(context)
        if not isinstance(self.dropna, bool):
            raise TypeError(f"{name}: dropna must be True or False")
        if self.types is not None and not isinstance(self.types, Mapping):
            raise TypeError(f"{name}: types must be a dict from key columns to types")
        most = {"max_keys_per_unit": MAX_KEYS_PER_UNIT, "max_rows_per_unit": MAX_ROWS_PER_UNIT}
        for cap, limit in most.items():
            check_parameter(getattr(self, cap), cap, PRIVATE, Integers(1, limit))
        check_parameter(self.key_method, "key_method", "auto", *KEY_METHODS)
        if self.unit is not None and self.unit in by:
            raise ValueError(f"{name}: column {self.unit!r} is the unit; by must be other columns")
        check_kinds(self)
        with naming("aggregates"):
            stated = {} if self.aggregates is None else self.aggregates
            aggregates = plan.check_aggregates(stated, self.bounds)
        results.check_outputs(by, self.unit, aggregates)
        plan.check_bounds_used(aggregates, self.bounds)
        private = isinstance(self.keys, str) and self.keys == PRIVATE
        listed = None if private else plan.check_keys(self.keys, by)
        parts = listed or () if len(by) == 1 else itertools.chain(*(listed or ()))
        if self.dropna and any(part is None for part in parts):
            raise ValueError(f"{name}: keys: None is a key only with dropna=False")
        if listed is None and not self._delta:
            raise ValueError(
                f"{name}: private keys need delta > 0, the probability that a key of one unit "
                f"alone shows. Write {name}(..., delta=1e-6), or take a budget with delta, "
                "budget=PrivacyBudget(5, 1e-5); or state keys="
            )
        if listed is None and self._delta < _SMALLEST_DELTA:
            raise ValueError(
                f"{name}: private keys need delta of {_SMALLEST_DELTA:g} or more, got "
                f"{self._delta:g}: no key would ever be named"
            )
        if listed is not None and not aggregates:
            raise ValueError(f"{name}: nothing to release: keys are stated and agg() is empty")
        if not self._delta and self.key_method in ("gaussian", "sips"):
            raise ValueError(
                f"{name}: key_method {self.key_method!r} has Gaussian noise, which needs delta > 0"
            )
        return context, aggregates, listed

    def _check_unit(self, context: CallContext) -> None:
        """Raise for another unit than the budget's."""
        name = context.name
        if self.unit is None:
            if context.counts_users:
                raise ValueError(
                    f"{name}: the budget protects one {unit_of(context.budget)!r}, and each row "
                    f"would be a unit. Write unit={unit_of(context.budget)!r}, or hand in "
                    "budget=PrivacyBudget(epsilon, delta), which protects rows."
                )
            for cap in ("max_keys_per_unit", "max_rows_per_unit"):
                if not _is_private(getattr(self, cap)) and getattr(self, cap) != 1:
                    raise ValueError(f"{name}: each row is a unit, so {cap} is 1")
        elif not isinstance(self.unit, str):
            raise TypeError(f"{name}: unit must be the name of a column, or None: each row is one")
        else:
            context.check_unit(self.unit)

    def _chooser(
        self, context: CallContext, aggregates: list[Aggregate], listed: Any, *, second: bool
    ) -> Chooser:
        """Return what is public before the main session opens; `second`: it follows another."""
        return Chooser(
            float(context.epsilon),
            self._delta,
            context.budget,
            context.adjacency,
            aggregates,
            self._shares(aggregates, listed, shapes_known=second),
            self.key_method,
        )

    def _design(
        self,
        context: CallContext,
        aggregates: list[Aggregate],
        listed: tuple[Any, ...] | None,
        shapes: Shapes | None = None,
    ) -> Design:
        """Return the noise of the main session, by public facts and released histograms."""
        chooser = self._chooser(context, aggregates, listed, second=shapes is not None)
        caps = self._caps()
        max_keys, max_rows = (None if _is_private(cap) else int(cap) for cap in caps)
        if listed is None:
            return chooser.learned_keys((max_keys, max_rows), shapes)
        if not self._delta:
            return Design(pure=True)
        if shapes is None:
            return Design(chooser.stated_keys_pure(max_keys or len(listed)))
        # Each noise with its best caps; the one of the smaller error.
        errors = {}
        for pure in (True, False):
            mu = None if pure else gdp_mu(chooser.epsilon, chooser.delta)
            part = Allowance(chooser.epsilon, mu, context.adjacency).part(chooser.shares["term"])
            errors[pure] = self._best_caps(shapes, len(listed), aggregates, part)[1]
        return Design(errors[True] <= errors[False])

    def _asks_first(
        self, context: CallContext, aggregates: list[Aggregate], listed: tuple[Any, ...] | None
    ) -> bool:
        """Say whether the number of a unit's keys is released before the noise is chosen."""
        chooser = self._chooser(context, aggregates, listed, second=True)
        if not _is_private(self._caps()[0]) or not chooser.basic or not self._delta:
            return False
        if float(context.epsilon) < SMALLEST_EPSILON:
            return False
        if listed is not None:  # a unit has at most all keys
            return bool(aggregates) and not chooser.stated_keys_pure(len(listed))
        return counting_term(aggregates) is not None and self.key_method == "auto"

    def _deltas(self, design: Design, listed: Any) -> tuple[float, float]:
        """Return the delta of noise, and the delta of private keys."""
        delta = self._delta
        if listed is not None:
            return (0.0 if design.pure else delta), 0.0
        # The selection of keys needs a delta; Laplace noise leaves it all of it.
        return (0.0, delta) if design.pure else (delta / 2, delta / 2)

    def privacy_cost(self) -> Cost:
        """Return the cost of one fit, before any data is touched.

        Returns
        -------
        cost : skdp.budget.Cost
            Where `max_keys_per_unit` is private, an upper bound: with stated keys a fit charges a
            delta of 0 if its noise is pure, which depends on a released histogram.
        """
        context, aggregates, listed = self._check()
        if self._asks_first(context, aggregates, listed):
            delta = self._delta
            return Cost(epsilon=float(self.epsilon), delta=delta, separate_delta=delta)
        noise, keys = self._deltas(self._design(context, aggregates, listed), listed)
        mu = gdp_mu(float(self.epsilon), noise) if noise else None
        return Cost(epsilon=float(self.epsilon), delta=noise + keys, mu=mu, separate_delta=keys)

    def expected_error(
        self,
        *,
        max_keys_per_unit: int | None = None,
        max_rows_per_unit: int | None = None,
        rows_per_key: float | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> dict[str, float]:
        """Return the approximate half width of every interval, before anything is charged.

        Parameters
        ----------
        max_keys_per_unit, max_rows_per_unit : int, default=None
            If they are private: the values that you expect them to get.
        rows_per_key : float, default=None
            Needed for means, variances, standard deviations and quantiles.
        bounds : dict, default=None
            Expected bounds of the columns whose bounds are learned.

        Returns
        -------
        errors : dict
            By aggregate; for quantiles in ranks, as a share of the rows.
        """
        context, aggregates, listed = self._check()
        caps = []
        given = {"max_keys_per_unit": max_keys_per_unit, "max_rows_per_unit": max_rows_per_unit}
        for (name, expected), stated in zip(given.items(), self._caps(), strict=True):
            cap = expected if isinstance(stated, str) else stated
            if cap is None:
                raise ValueError(f"{name} is private: state the value that you expect")
            caps.append(int(check_parameter(cap, name, Integers(1))))
        known = plan.stated_bounds(bounds or {})
        for aggregate in aggregates:
            column = aggregate.column
            if plan.learns(aggregate) and column not in known:
                raise ValueError(
                    f"bounds of column {column!r} are learned: state a guess, "
                    f"bounds={{{column!r}: (low, high)}}"
                )
            if aggregate.kind in ("mean", "variance", "std", "quantile") and not rows_per_key:
                raise ValueError(f"{aggregate.name}: rows_per_key must be given")
        second = self._asks_first(context, aggregates, listed)
        if second:
            context = dataclasses.replace(context, epsilon=self._two_parts()[1])
        chooser = self._chooser(context, aggregates, listed, second=second)
        if listed is None:
            design = chooser.learned_keys((caps[0], caps[1]), None)
        else:
            design = Design(not self._delta or chooser.stated_keys_pure(caps[0]))
        noise = sum(self._deltas(design, listed)) if listed is not None else self._delta / 2
        mu = None if design.pure else gdp_mu(chooser.epsilon, noise)
        allowance, rows = Allowance(chooser.epsilon, mu, context.adjacency), rows_per_key or 1.0
        counting = counting_term(aggregates) if design.counts else None
        widths = {}
        for aggregate in plan.with_bounds(aggregates, known):
            selects = counting is not None and counted_term(aggregate) == counting
            part = allowance.part(chooser.shares["counted" if selects else "term"])
            widths[aggregate.name] = results.expected_width(aggregate, part, caps, rows)
        return widths

    def _two_parts(self) -> list[float]:
        """Return epsilon of the first histograms, and of everything after them."""
        return exact_shares(exact(float(self.epsilon)), [FIRST_PART, 1 - FIRST_PART])

    def _shares(
        self, aggregates: list[Aggregate], listed: Any, *, shapes_known: bool = False
    ) -> dict[str, Fraction]:
        """Return the share of each kind of release: exact fractions, together at most 1."""
        return plan.shares_of(
            aggregates,
            listed=listed is not None,
            private_keys=_is_private(self._caps()[0]),
            private_rows=_is_private(self._caps()[1]),
            bounding=self.unit is not None,
            shapes_known=shapes_known,
        )

    def _caps(self) -> tuple[Any, Any]:
        """Return the caps on keys and on rows, as stated; both are 1 if each row is a unit."""
        return (1, 1) if self.unit is None else (self.max_keys_per_unit, self.max_rows_per_unit)

    # --- the fit ----------------------------------------------------------------------------------

    def fit(self, table: Any, y: Any = None) -> DPGroupBy:
        """Release the aggregates of a table.

        Parameters
        ----------
        table : table of pandas, polars or pyarrow, dict of arrays, DuckDB relation, Source, or path
            Paths are of Parquet files, which DuckDB reads. The last three are read once, before the
            charge. More than 2**24 rows of them go to a temporary folder (TMPDIR says where), which
            is removed when the fit ends.
        y : None
            Ignored.

        Returns
        -------
        self : DPGroupBy

        Raises
        ------
        TypeError, ValueError
            For unknown columns, and columns or stated keys of a type that does not fit. The message
            names the column, and depends on no cell. Nothing has been charged.
        """
        with unchanged_on_error(self), untracked():
            context, aggregates, listed = self._check()
            rows: Any = self._checked(table, context, aggregates)
            try:
                if listed is None:
                    rows.own_keys()
                else:
                    listed = rows.stated_keys(listed)
                # Of this class, so that seeded noise is the same for a query in SQL.
                key = functools.partial(public_key, DPGroupBy(**self.get_params(deep=False)))
                shapes = first = None
                if self._asks_first(context, aggregates, listed):
                    shapes, first, context = self._first(context, rows, key, listed)
                chooser = self._chooser(context, aggregates, listed, second=shapes is not None)
                design = self._design(context, aggregates, listed, shapes)
                deltas = self._deltas(design, listed)
                with self._main_session(context, rows, key, first, deltas) as session:
                    columns = self._released(session, chooser, design, listed, shapes)
                    self.privacy_ = results.joined(first, session.certificate())
            finally:
                rows.close()
            by = self._by()
            self._numbers = {name: cells for name, cells in columns.items() if name not in by}
            self.released_ = self._as_released(aggregates, columns)
            typed = {c: column_of_values(columns[c], kind, table) for c, kind in rows.types.items()}
            self.table_ = table_of(columns | typed, table)
            kinds = {aggregate.kind for aggregate in aggregates}
            self.notes_ = results.notes_of(self, kinds) + self._missing_rows()
            for text in results.remarks(self, aggregates, self._unclear, columns):
                warnings.warn(text, stacklevel=outside_level())
        return self

    def _checked(self, table: Any, context: CallContext, aggregates: list[Aggregate]) -> Any:
        return check_grouped(
            table,
            by=self._by(),
            unit=self.unit,
            columns=list(
                dict.fromkeys(aggregate.column for aggregate in aggregates if aggregate.column)
            ),
            types=self.types,
            dropna=self.dropna,
            random_state=self.random_state,
            allow_empty=self.unit is not None or context.allows_empty,
        )

    def _missing_rows(self) -> list[str]:
        """Return a note on rows without id or key: the same whether there are any or not."""
        names = [] if self.unit is None else [self.unit]
        names += self._by() if self.dropna else []
        listed = " or ".join(map(repr, names))
        return [f"Rows in which {listed} is missing, if there are any, are left out"] * bool(names)

    def _first(
        self, context: CallContext, rows: Any, key: Any, listed: tuple[Any, ...] | None
    ) -> tuple[Shapes, PrivacyCertificate, CallContext]:
        """Release histograms of units; return them, their certificate, and the remaining call."""
        if context.budget is not None:
            context.budget.check(self.privacy_cost())  # that of both sessions
        part, remaining = self._two_parts()
        call = dataclasses.replace(context, epsilon=part, delta=0.0)
        with call.open(rows, lambda: f"{key()} first") as session:
            query = unit_sum(UnitShapes(listed, plan.KEY_EDGES, plan.ROW_EDGES))
            shapes = Shapes.of(session.answer(query), session.pure)
            certificate = session.certificate()
        return shapes, certificate, dataclasses.replace(context, epsilon=remaining)

    def _main_session(
        self,
        context: CallContext,
        rows: Any,
        key: Any,
        first: PrivacyCertificate | None,
        deltas: tuple[float, float],
    ) -> Session:
        """Charge for all but the first histograms and return the session."""
        try:
            return context.open(rows, key, delta=deltas[0], separate_delta=deltas[1])
        except BudgetExceededError as error:  # others have spent since the total was checked
            if first is None:
                raise
            charged = f"Of this fit epsilon={first.epsilon:g} was charged"
            text = str(error).replace("Nothing was charged for this fit", charged)
            raise BudgetExceededError(text, cost=error.cost, remaining=error.remaining) from None

    def _released(
        self,
        session: Session,
        chooser: Chooser,
        design: Design,
        listed: tuple[Any, ...] | None,
        shapes: Shapes | None,
    ) -> dict[str, list[Any]]:
        """Release everything; return the columns of the result."""
        aggregates, shares = chooser.aggregates, chooser.shares
        aggregates = self._bounded(session, aggregates, shares)
        self.bounds_ = {
            aggregate.name: aggregate.bounds
            for aggregate in aggregates
            if aggregate.bounds is not None
        }
        terms = plan.distinct_terms(
            term for aggregate in aggregates for term in terms_of(aggregate)
        )
        if shares["shapes"]:
            query = unit_sum(UnitShapes(listed, plan.KEY_EDGES, plan.ROW_EDGES))
            shapes = Shapes.of(session.answer(query, shares["shapes"]), session.pure)
        counted = self._counted_keys(session, chooser, design, shapes)
        keys = listed
        if counted is not None:
            keys = tuple(counted.keys)
        elif keys is None:
            cap = self._caps()[0]
            if _is_private(cap):
                assert shapes is not None
                cap = plan.upper_cap(shapes.by_keys, shapes.std, pure=shapes.pure)
            keys = tuple(session.answer(SelectKeys(int(cap), self.key_method), shares["keys"]))
            self.max_keys_per_unit_ = int(cap)
        self.keys_, by = list(map(shown_key, keys)), self._by()
        parts = [(key,) if len(by) == 1 else key for key in keys]
        columns = {name: [part[i] for part in parts] for i, name in enumerate(by)}
        if not aggregates:
            return columns
        if shares["shapes of keys"] and keys and counted is None:
            query = unit_sum(UnitShapes(keys, plan.KEY_EDGES, plan.ROW_EDGES))
            shapes = Shapes.of(session.answer(query, shares["shapes of keys"]), session.pure)
        kind = None if counted is None else counting_term(aggregates)
        if kind != "rows":
            self._choose_caps(session, shapes, len(keys), aggregates, shares, kind)
        caps = self.max_keys_per_unit_, self.max_rows_per_unit_
        self.left_out_: dict[str, float] = {}
        if keys and shares["left_out"]:
            # Counts that select keys leave out rows of all keys.
            out = unit_sum(LeftOut(keys if counted is None else None, *caps))
            self.left_out_ |= results.left_out_of(
                session.answer(out, shares["left_out"]), session.pure
            )
        self._noisy: dict[str, Any] = {}
        releases = {}
        for i, term in enumerate(terms if keys else ()):
            if term.kind == kind:
                assert counted is not None
                releases[repr(term)] = Release(counted.counts[:, None], counted.std)
                continue
            totals = unit_sum(KeyTotals(keys, tuple(terms), i, *caps))
            name = f"{term.kind} {term.column}".strip()
            releases[repr(term)] = session.answer(totals, shares["term"], name=name)
        self._counted = kind, counted
        for aggregate in aggregates:
            columns |= self._columns(session, aggregate, releases, keys, shares)
        return columns

    def _law(self, aggregate: Aggregate) -> KeyCounts | None:
        """Return the law of a count that has selected the keys; None for other aggregates."""
        kind, counted = self._counted
        return counted if counted_term(aggregate) == kind else None

    def _counted_keys(
        self, session: Session, chooser: Chooser, design: Design, shapes: Shapes | None
    ) -> KeyCounts | None:
        """Release the keys that a count selects, with this count; None if no count selects keys."""
        if not design.counts:
            return None
        max_keys, max_rows = (None if _is_private(cap) else int(cap) for cap in self._caps())
        caps = design.caps
        if caps is None:
            assert shapes is not None
            stated = max_keys, max_rows
            caps, _ = chooser.caps(session.pure, shapes, stated, session.pure)
            if caps is None:
                return None
        self.max_keys_per_unit_, self.max_rows_per_unit_ = caps
        counts: KeyCounts = session.answer(CountedKeys(*caps), chooser.shares["counted"])
        return counts

    def _columns(
        self,
        session: Session,
        aggregate: Aggregate,
        releases: Mapping[str, Release],
        keys: tuple[Any, ...],
        shares: Mapping[str, Fraction],
    ) -> dict[str, list[Any]]:
        """Return an aggregate's columns: values, intervals, and intervals for the population."""
        if not keys:
            return results.no_columns(aggregate)
        terms, pure = terms_of(aggregate), session.pure
        totals = [releases[repr(term)] for term in terms]
        if aggregate.chosen:
            totals = self._choice(session, aggregate, keys, shares)
        self._noisy[aggregate.name] = aggregate, totals, pure
        law = self._law(aggregate)
        found = results.interval_of(aggregate, totals, pure=pure, law=law)
        columns = self._known(aggregate, found)
        if aggregate.kind != "mean":
            return columns
        about = results.about_means(terms[1], columns[aggregate.name])
        caps = self.max_keys_per_unit_, self.max_rows_per_unit_
        query = unit_sum(KeyTotals(keys, (about,), 0, *caps))
        spread = session.answer(query, shares["spread"], name=f"spread {aggregate.column}")
        population = results.interval_of(aggregate, totals, pure=pure, spread=spread)
        return columns | self._known(aggregate, population)

    def _as_released(
        self, aggregates: list[Aggregate], columns: dict[str, list[Any]]
    ) -> dict[str, Released]:
        """Return the aggregates as released numbers, by column."""
        labels = {}
        for name in self._by():
            labels[name] = np.empty(len(self.keys_), dtype=object)
            labels[name][:] = columns[name]
        session, out = new_key(), {}
        for aggregate in aggregates:
            for name in results.column_of(aggregate):
                if aggregate.name not in self._noisy:
                    out[name] = Released(np.zeros(0), 0.0, self.privacy_, labels=labels)
                    continue
                bounded, totals, pure = self._noisy[aggregate.name]
                law, (_, counted) = self._law(bounded), self._counted
                unclear = aggregate.name in self._unclear
                ends = results.Ends(bounded, name, totals, columns, pure, law, counted, unclear)
                out[name] = ends.released(self.privacy_, session, labels)
        return out

    def _choice(
        self,
        session: Session,
        aggregate: Aggregate,
        keys: tuple[Any, ...],
        shares: Mapping[str, Fraction],
    ) -> list[Release]:
        """Return the releases of a chosen quantile, which equal aggregates have in common."""
        for other, releases, _ in self._noisy.values():
            if other.chosen == aggregate.chosen:
                return list(releases)
        caps = self.max_keys_per_unit_, self.max_rows_per_unit_
        return choose_quantile(session, aggregate, keys, caps, shares["term"])

    def _bounded(
        self, session: Session, aggregates: list[Aggregate], shares: Mapping[str, Fraction]
    ) -> list[Aggregate]:
        """Return aggregates with bounds, which are learned once for each column without bounds."""
        learned: dict[str, tuple[float, float]] = {}
        self.hidden_units_: dict[str, int] = {}
        without = [aggregate for aggregate in aggregates if plan.learns(aggregate)]
        self._unclear: set[str] = set()
        for column in dict.fromkeys(aggregate.column for aggregate in without):
            query, name = unit_sum(UnitSpread(column, plan.SPREAD_EDGES)), f"bounds of {column}"
            spread = session.answer(query, shares["learned"], name=name)
            learned[column], self.hidden_units_[column], clear = plan.learned_range(
                spread.value, std_of(spread), session.pure
            )
            if not clear:
                self._unclear |= {a.name for a in without if a.column == column}
        return plan.with_bounds(aggregates, learned)

    def _known(self, aggregate: Aggregate, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Return an aggregate's columns; intervals are NaN if its learned bounds are a guess."""
        if aggregate.name not in self._unclear:
            return columns
        return {
            name: cells if name == aggregate.name else [np.nan] * len(cells)
            for name, cells in columns.items()
        }

    def _choose_caps(
        self,
        session: Session,
        shapes: Shapes | None,
        n_keys: int,
        aggregates: list[Aggregate],
        shares: Mapping[str, Fraction],
        counted: str | None,
    ) -> None:
        """Set the caps: the stated ones, or those of the smallest error.

        `counted` is the kind of a count that has selected the keys; it has set the cap on keys.
        """
        keys, rows = self._caps()
        if shapes is None:
            self.max_keys_per_unit_, self.max_rows_per_unit_ = int(keys), int(rows)
            return
        part = Allowance.left(session, shares["term"])
        stated = None if counted is None else self.max_keys_per_unit_
        caps, _ = self._best_caps(shapes, n_keys, aggregates, part, stated)
        self.max_keys_per_unit_, self.max_rows_per_unit_ = caps

    def _best_caps(
        self,
        shapes: Shapes,
        n_keys: int,
        aggregates: list[Aggregate],
        part: Allowance,
        max_keys: int | None = None,
    ) -> tuple[tuple[int, int], float]:
        """Return the caps of the smallest error under an allowance of a term, and this error."""
        keys, rows = self._caps()
        kinds = {aggregate.kind for aggregate in aggregates}
        units = kinds == {"distinct_units"}
        count = Aggregate("", "distinct_units")
        return plan.best_caps(
            shapes.by_keys,
            shapes.by_rows,
            shapes.std,
            max(n_keys, 1),
            noise=results.expected_width(count, part, (1, 1), 1.0),
            power=1.0 if part.pure else 0.5,
            of_rows=not kinds <= {"mean", "variance", "std", "quantile"},
            pure=shapes.pure,
            max_keys=max_keys or (None if _is_private(keys) else int(keys)),
            max_rows=(1 if units else None) if _is_private(rows) else int(rows),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "table_")

    def to_dict(self) -> dict[Any, dict[str, Any]]:
        """Return the result as a dict from keys to dicts of their aggregates.

        Returns
        -------
        result : dict
            One entry for each key, in the order of `keys_`. Python takes 1 and True for one key.
        """
        check_is_fitted(self)
        columns = self._numbers.items()
        return {
            key: {name: cells[i] for name, cells in columns} for i, key in enumerate(self.keys_)
        }


def _is_private(cap: Any) -> bool:
    return not isinstance(cap, numbers.Integral)
