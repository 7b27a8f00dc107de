"""`DPGroupBy`: private aggregates by key, with bounded contributions of each unit."""

from __future__ import annotations

import functools
import itertools
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.aggregation import _intervals as intervals
from skdp.aggregation import _plan as plan
from skdp.aggregation._noise import Chooser, Design, counted_term, counting_term
from skdp.aggregation._plan import Aggregate, Shapes, terms_of
from skdp.base import CallContext, unchanged_on_error
from skdp.base.context import public_key, unit_of
from skdp.budget import Cost, gdp_mu
from skdp.confidence import Released
from skdp.confidence.equations import new_key
from skdp.core import PrivacyCertificate, Release, Session
from skdp.exceptions import BudgetExceededError, warn_at_end
from skdp.loss.conversions import rounded_amount
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
from skdp.tabular import KeyTerm, check_grouped, column_of_values, shown_key, table_of
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

    def _by(self) -> list[str]:
        by = [self.by] if isinstance(self.by, str) else self.by
        if not isinstance(by, list | tuple) or not all(isinstance(name, str) for name in by):
            raise TypeError("by must be the name of a column, or a list of names")
        return list(by)

    def _check(self) -> Chooser:
        """Return what is public of the fit; raise if a parameter is invalid."""
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
        intervals.check_outputs(by, self.unit, aggregates)
        plan.check_bounds_used(aggregates, self.bounds)
        private = isinstance(self.keys, str) and self.keys == PRIVATE
        listed = None if private else plan.check_keys(self.keys, by)
        parts = listed or () if len(by) == 1 else itertools.chain(*(listed or ()))
        if self.dropna and any(part is None for part in parts):
            raise ValueError(f"{name}: keys: None is a key only with dropna=False")
        delta = context.allowed_delta
        if listed is None and not delta:
            raise ValueError(
                f"{name}: private keys need delta > 0, the probability that a key of one unit "
                f"alone shows. Write {name}(..., delta=1e-6), or take a budget with delta, "
                "budget=PrivacyBudget(5, 1e-5); or state keys="
            )
        if listed is None and delta < _SMALLEST_DELTA:
            raise ValueError(
                f"{name}: private keys need delta of {_SMALLEST_DELTA:g} or more, got "
                f"{delta:g}: no key would ever be named"
            )
        if listed is not None and not aggregates:
            raise ValueError(f"{name}: nothing to release: keys are stated and agg() is empty")
        if not delta and self.key_method in ("gaussian", "sips"):
            raise ValueError(
                f"{name}: key_method {self.key_method!r} has Gaussian noise, which needs delta > 0"
            )
        bounding = self.unit is not None
        caps = (self.max_keys_per_unit, self.max_rows_per_unit) if bounding else (1, 1)
        max_keys, max_rows = (None if isinstance(cap, str) else int(cap) for cap in caps)
        known = (max_keys, max_rows)
        return Chooser(context, delta, aggregates, listed, known, bounding, self.key_method)

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
                stated = getattr(self, cap)
                if isinstance(stated, numbers.Integral) and stated != 1:
                    raise ValueError(f"{name}: each row is a unit, so {cap} is 1")
        elif not isinstance(self.unit, str):
            raise TypeError(f"{name}: unit must be the name of a column, or None: each row is one")
        else:
            context.check_unit(self.unit)

    def privacy_cost(self) -> Cost:
        """Return the cost of one fit, before any data is touched.

        Returns
        -------
        cost : skdp.budget.Cost
            Where `max_keys_per_unit` is private, an upper bound: with stated keys a fit charges a
            delta of 0 if its noise is pure, which depends on a released histogram.
        """
        chooser, epsilon = self._check(), float(self.epsilon)
        if chooser.asks_first:
            return Cost(epsilon=epsilon, delta=chooser.delta, separate_delta=chooser.delta)
        noise, keys = chooser.deltas(chooser.design())
        mu = gdp_mu(epsilon, noise) if noise else None
        return Cost(epsilon=epsilon, delta=noise + keys, mu=mu, separate_delta=keys)

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
        chooser = self._check()
        aggregates, caps = chooser.aggregates, []
        given = {"max_keys_per_unit": max_keys_per_unit, "max_rows_per_unit": max_rows_per_unit}
        for (name, expected), stated in zip(given.items(), chooser.caps, strict=True):
            cap = expected if stated is None else stated
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
        if chooser.asks_first:
            chooser = chooser.after_first()
        if chooser.listed is None:
            design = chooser.learned_keys((caps[0], caps[1]), None)
        else:
            design = Design(not chooser.delta or chooser.stated_keys_pure(caps[0]))
        allowance = chooser.allowance(None if design.pure else chooser.deltas(design)[0])
        rows = rows_per_key or 1.0
        counting = counting_term(aggregates) if design.counts else None
        widths = {}
        for aggregate in plan.with_bounds(aggregates, known):
            selects = counting is not None and counted_term(aggregate) == counting
            part = allowance.part(chooser.shares["counted" if selects else "term"])
            widths[aggregate.name] = intervals.expected_width(aggregate, part, caps, rows)
        return widths

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
            chooser, by = self._check(), self._by()
            aggregates = chooser.aggregates
            rows: Any = self._checked(table, chooser.context, aggregates)
            try:
                if chooser.listed is None:
                    rows.own_keys()
                else:
                    chooser = replace(chooser, listed=rows.stated_keys(chooser.listed))
                # Of this class, so that seeded noise is the same for a query in SQL.
                key = functools.partial(public_key, DPGroupBy(**self.get_params(deep=False)))
                shapes = first = None
                if chooser.asks_first:
                    shapes, first = self._first(chooser, rows, key)
                    chooser = chooser.after_first()
                design = chooser.design(shapes)
                with _main_session(chooser, design, rows, key, first) as session:
                    releases = _Releases(self, by, session, chooser, shapes)
                    columns = releases.columns(design)
                    self.privacy_ = intervals.joined(first, session.certificate())
            finally:
                rows.close()
            self._noisy = releases.noisy
            self._numbers = {name: cells for name, cells in columns.items() if name not in by}
            self.released_ = releases.as_released(columns)
            typed = {c: column_of_values(columns[c], kind, table) for c, kind in rows.types.items()}
            self.table_ = table_of(columns | typed, table)
            kinds = {aggregate.kind for aggregate in aggregates}
            self.notes_ = intervals.notes_of(self, kinds)
            # The same whether there are any or not.
            names = [] if self.unit is None else [self.unit]
            if names := names + (by if self.dropna else []):
                missing = " or ".join(map(repr, names))
                self.notes_.append(
                    f"Rows in which {missing} is missing, if there are any, are left out"
                )
            for text in intervals.remarks(self, aggregates, releases.unclear, columns):
                warn_at_end(text)
        return self

    def _checked(self, table: Any, context: CallContext, aggregates: list[Aggregate]) -> Any:
        return check_grouped(
            table,
            by=self._by(),
            unit=self.unit,
            columns=list(dict.fromkeys(a.column for a in aggregates if a.column)),
            types=self.types,
            dropna=self.dropna,
            random_state=self.random_state,
            allow_empty=self.unit is not None or context.allows_empty,
        )

    def _first(self, chooser: Chooser, rows: Any, key: Any) -> tuple[Shapes, PrivacyCertificate]:
        """Release histograms of units; return them and their certificate."""
        context = chooser.context
        if context.budget is not None:
            context.budget.check(self.privacy_cost())  # that of both sessions
        call = replace(context, epsilon=chooser.two_parts[0], delta=0.0)
        with call.open(rows, lambda: f"{key()} first") as session:
            return _shapes(session, chooser.listed), session.certificate()

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


def _shapes(session: Session, keys: tuple[Any, ...] | None, *share: Fraction) -> Shapes:
    """Release histograms of units."""
    query = unit_sum(UnitShapes(keys, plan.KEY_EDGES, plan.ROW_EDGES))
    return Shapes.of(session.answer(query, *share), session.pure)


def _main_session(
    chooser: Chooser, design: Design, rows: Any, key: Any, first: PrivacyCertificate | None
) -> Session:
    """Charge for all but the first histograms and return the session."""
    noise, keys = chooser.deltas(design)
    try:
        return chooser.context.open(rows, key, delta=noise, separate_delta=keys)
    except BudgetExceededError as error:  # others have spent since the total was checked
        if first is None:
            raise
        charged = f"Of this fit epsilon={rounded_amount(first.epsilon):g} was charged"
        text = str(error).replace("Nothing was charged for this fit", charged)
        raise BudgetExceededError(text, cost=error.cost, remaining=error.remaining) from None


@dataclass(eq=False)
class _Releases:
    """The releases of one fit, in their order; `by` gets keys, caps and bounds."""

    by: DPGroupBy
    names: list[str]  # of the key columns
    session: Session
    chooser: Chooser
    shapes: Shapes | None
    unclear: set[str] = field(default_factory=set)  # aggregates whose learned bounds are a guess
    kind: str | None = None  # of the count that has selected the keys
    counted: KeyCounts | None = None  # what it released
    noisy: dict[str, intervals.Totals] = field(default_factory=dict)

    def columns(self, design: Design) -> dict[str, list[Any]]:
        """Release everything; return the columns of the result."""
        by, session = self.by, self.session
        shares, listed = self.chooser.shares, self.chooser.listed
        aggregates = self._bounded()
        by.bounds_ = {a.name: a.bounds for a in aggregates if a.bounds is not None}
        terms = plan.distinct_terms(
            term for aggregate in aggregates for term in terms_of(aggregate)
        )
        if shares["shapes"]:
            self.shapes = _shapes(session, listed, shares["shapes"])
        self._count_keys(design)
        keys = listed
        if self.counted is not None:
            keys = tuple(self.counted.keys)
        elif keys is None:
            cap = self.chooser.caps[0]
            if cap is None:
                assert self.shapes is not None
                cap = self.shapes.upper_cap()
            keys = tuple(session.answer(SelectKeys(cap, by.key_method), shares["keys"]))
            by.max_keys_per_unit_ = cap
        by.keys_ = list(map(shown_key, keys))
        parts = [(key,) if len(self.names) == 1 else key for key in keys]
        columns = {name: [part[i] for part in parts] for i, name in enumerate(self.names)}
        if not aggregates:
            return columns
        if shares["shapes of keys"] and keys and self.counted is None:
            self.shapes = _shapes(session, keys, shares["shapes of keys"])
        if self.kind != "rows":
            self._choose_caps(len(keys))
        caps = by.max_keys_per_unit_, by.max_rows_per_unit_
        by.left_out_ = {}
        if keys and shares["left_out"]:
            # Counts that select keys leave out rows of all keys.
            out = unit_sum(LeftOut(keys if self.counted is None else None, *caps))
            by.left_out_ |= intervals.left_out_of(
                session.answer(out, shares["left_out"]), session.pure
            )
        releases = {}
        for i, term in enumerate(terms if keys else ()):
            if term.kind == self.kind:
                assert self.counted is not None
                releases[repr(term)] = Release(self.counted.counts[:, None], self.counted.std)
                continue
            totals = unit_sum(KeyTotals(keys, tuple(terms), i, *caps))
            name = f"{term.kind} {term.column}".strip()
            releases[repr(term)] = session.answer(totals, shares["term"], name=name)
        for aggregate in aggregates:
            columns |= self._columns(aggregate, releases, keys, caps)
        return columns

    def _count_keys(self, design: Design) -> None:
        """Release the keys that a count selects, with this count, if one does."""
        if not design.counts:
            return
        chooser, pure, caps = self.chooser, self.session.pure, design.caps
        if caps is None:
            assert self.shapes is not None
            caps, _ = chooser.counting_caps(pure, self.shapes, pure)
            if caps is None:
                return
        self.by.max_keys_per_unit_, self.by.max_rows_per_unit_ = caps
        self.counted = self.session.answer(CountedKeys(*caps), self.chooser.shares["counted"])
        self.kind = counting_term(chooser.aggregates)

    def _columns(
        self,
        aggregate: Aggregate,
        releases: Mapping[str, Release],
        keys: tuple[Any, ...],
        caps: tuple[int, int],
    ) -> dict[str, list[Any]]:
        """Return an aggregate's columns: values, intervals, and intervals for the population."""
        if not keys:
            return intervals.no_columns(aggregate)
        terms, session = terms_of(aggregate), self.session
        parts = [releases[repr(term)] for term in terms]
        if aggregate.chosen:
            # Equal aggregates have one choice in common.
            known = self.noisy.values()
            same = [t.releases for t in known if t.aggregate.chosen == aggregate.chosen]
            share = self.chooser.shares["term"]
            if same:
                parts = same[0]
            else:
                parts = intervals.choose_quantile(session, aggregate, keys, caps, share)
        law = self.counted if counted_term(aggregate) == self.kind else None
        totals = intervals.Totals(aggregate, parts, session.pure, law)
        self.noisy[aggregate.name] = totals
        columns = totals.columns()
        if aggregate.kind == "mean":
            # Squared deviations of units from the released means.
            term, means = terms[1], np.array(columns[aggregate.name])
            centers = np.round((means - (term.low + term.high) / 2) / term.grid)
            centers = np.clip(centers, -(term.top // 2), term.top // 2).astype(np.int64)
            steps = tuple(centers.tolist())
            about = KeyTerm("about", term.column, term.low, term.high, centers=steps)
            query = unit_sum(KeyTotals(keys, (about,), 0, *caps))
            name = f"spread {aggregate.column}"
            spread = session.answer(query, self.chooser.shares["spread"], name=name)
            columns |= totals.columns(spread=spread)
        if aggregate.name not in self.unclear:
            return columns
        return {
            name: cells if name == aggregate.name else [np.nan] * len(cells)
            for name, cells in columns.items()
        }

    def as_released(self, columns: dict[str, list[Any]]) -> dict[str, Released]:
        """Return the aggregates as released numbers, by column."""
        labels, by = {}, self.by
        for name in self.names:
            labels[name] = np.empty(len(by.keys_), dtype=object)
            labels[name][:] = columns[name]
        session, out = new_key(), {}
        for aggregate in self.chooser.aggregates:
            for name in intervals.column_of(aggregate):
                totals = self.noisy.get(aggregate.name)
                if totals is None:
                    out[name] = Released(np.zeros(0), 0.0, by.privacy_, labels=labels)
                    continue
                unclear = aggregate.name in self.unclear
                ends = intervals.Ends(totals, name, columns, self.counted, unclear)
                out[name] = ends.released(by.privacy_, session, labels)
        return out

    def _bounded(self) -> list[Aggregate]:
        """Return aggregates with bounds, which are learned once for each column without bounds."""
        learned: dict[str, tuple[float, float]] = {}
        aggregates, hidden = self.chooser.aggregates, {}
        without = [aggregate for aggregate in aggregates if plan.learns(aggregate)]
        for column in dict.fromkeys(aggregate.column for aggregate in without):
            query, name = unit_sum(UnitSpread(column, plan.SPREAD_EDGES)), f"bounds of {column}"
            spread = self.session.answer(query, self.chooser.shares["learned"], name=name)
            learned[column], hidden[column], clear = plan.learned_range(
                spread.value, intervals.std_of(spread), self.session.pure
            )
            if not clear:
                self.unclear |= {a.name for a in without if a.column == column}
        self.by.hidden_units_ = hidden
        return plan.with_bounds(aggregates, learned)

    def _choose_caps(self, n_keys: int) -> None:
        """Set the caps: the stated ones, or those of the smallest error.

        A count that has selected the keys has set the cap on keys.
        """
        by, caps = self.by, self.chooser.caps
        if self.shapes is not None:
            part = Allowance.left(self.session, self.chooser.shares["term"])
            most = caps[0] if self.counted is None else by.max_keys_per_unit_
            caps, _ = self.chooser.best_caps(self.shapes, n_keys, part, most)
        by.max_keys_per_unit_, by.max_rows_per_unit_ = caps
