"""Base classes of estimators that release data: domains, coded rows, answers, samples.

A releaser inherits `ReleaserMixin` and follows one shape::

    def fit(self, X, y=None):
        with self._all_or_nothing(groups):
            X, domain = self._open_domain(X)        # parameters checked, domain_ set
            ...                                     # all that can fail; nothing is charged yet
            rows = self._open_coded(X)
            with self._session(rows) as session:    # charged here
                ...                                 # releases and post-processing

The release is a table of codes (`_codes`), a distribution over the domain (`weights_`), or whatever
`_tables`, `_cell_fractions` and `_draw` are overridden to compute from. `predict` and `sample` use
nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._docstrings import documenter
from skdp.base import PrivateMixin, check_integer, refuse_units
from skdp.base.context import allowed_delta
from skdp.base.expected_error import ExpectedErrorMixin, Fresh, mean_error, repeated, unanswered
from skdp.budget import Cost
from skdp.core import Session
from skdp.exceptions import warn_at_end
from skdp.planning import Allowance
from skdp.queries import DOUBT_FAR, DOUBT_ONE_VALUE, LearnedRange, learn_domain, marginals
from skdp.synthetic._queries import Functions, Queries, as_queries
from skdp.tabular import (
    CATEGORIES,
    KEYS,
    NUMBERS,
    Bins,
    ColumnPlan,
    Domain,
    Schema,
    check_coded,
    check_uncoded,
    column_plans,
    decoded,
    is_parts,
    leaves_open,
    listed,
    public_codes,
    stand_in,
    stated_columns,
    table_schema,
)

documented = documenter(
    {
        "queries": """
            queries : Queries, default=conjunctions(2)
                Queries that the release must answer well: made by `conjunctions`, `thresholds`,
                `intervals`, `parities`, `linear_queries`, or a sum of such; or a function of a row
                with values in [0, 1], or a sequence of any of these.
            """,
        "domain": """
            domain : Domain, mapping or sequence of columns, Bins or int
                The values that each column may have, from public knowledge: a mapping or a sequence
                of columns, as `Domain` takes them, or one `Bins` or int k (the whole numbers below
                k) for every column. It must be stated, because no default would be safe.
            """,
        "outside": """
            Domain and queries are public, and refusals about them reveal nothing. With
            ``outside="refuse"``, the domain reveals that X has a cell outside it. No other error
            depends on the values in the rows. If the number of rows is private, a table without
            rows is accepted.
            """,
        "rehearsed": """
            **Expected error.** A part of the rows: the largest error of an answer to `queries`,
            averaged over fits. It depends on how uneven the rows are, so it needs `like`. An
            earlier fit as `like` is sampled; columns without a stated domain then have that of the
            earlier fit, and the cost of learning it is not in the error.
            """,
        "fit_X": """
            X : array-like or table of shape (n_samples, n_features)
                Private rows, of the types that the domain describes. May be in parts
                (`skdp.engines`).
            {fit_more}
            """,
        "fit_more": """
            y : None, ignored
            groups : array-like of shape (n_samples,), default=None
            """,
        "raises": """
            Raises
            ------
            TypeError, ValueError
                In `fit`, before anything is charged: if a parameter is out of range, if domain or
                queries are too large or do not fit each other, if X does not have the columns of
                the domain, or if it has cells outside a domain that refuses them.
            BudgetExceededError, SealedBudgetError, LedgerError
                In `fit`, if the budget cannot pay the cost.
            """,
        "table_sizes": """
            n_samples : int
                Number of rows, as far as it is public.
            n_features : int, default=None
                Number of columns, where neither ``domain`` nor an earlier fit tells it.
            """,
    }
)

# --- domains that are not stated ------------------------------------------------------------------

LEARNING, LEARNING_OF_FEW = Fraction(3, 20), Fraction(3, 10)  # of the allowance; of few rows
MOST_BINS, FEWEST_BINS = 16, 4
_READABLE = 0.02  # of all rows: the noise of a bin, in the table of one of several columns

_IN_PARTS = (
    "{name}: a domain that is not stated cannot be learned from a table in parts; state it for all "
    "columns, from a code book or by a fit on a part: domain=fitted.domain_"
)
_TEXT = (
    "{name}: the categories of columns {columns} are not stated. State them, domain={{"
    "{column!r}: [...]}}, or write {name}(delta=1e-6, ...) or take a budget with delta, budget="
    "PrivacyBudget(5, 1e-5): values that enough rows have are then selected privately"
)
_UNSTATED = (
    "{name}: domain must state every column, and does not state {columns}; list their categories, "
    "or (low, high, n_cells) for numbers. DPMarginalSynthesizer learns what is not stated"
)
_NONE_FOUND = (
    "{name}: no value of columns {columns} has enough rows to be selected at this epsilon and "
    "delta; all their values became {rest!r}. State their categories, or take a larger epsilon"
)
_FEW = (
    "{name}: rows are too few for this epsilon to learn the domain of columns {columns} well. What "
    "was learned (see domain_) may be far from their values, which are moved into it. State "
    "(low, high, n_cells) from public knowledge, or take a larger epsilon"
)
_STATE = (
    "; learned_ranges_ shows the noisy counts. State their (low, high, n_cells) from public "
    "knowledge, or take a larger epsilon"
)
_DOUBTS = {
    DOUBT_FAR: "{name}: the learned bins of columns {columns} may end far beyond all values: the "
    "counts at their ends are hardly more than noise. Synthetic values fill the last bin evenly"
    + _STATE,
    DOUBT_ONE_VALUE: "{name}: most rows of columns {columns} seem to have one value, and the "
    "counts of the others are hardly more than noise. The learned bins may end far short of them, "
    "or far beyond; values are moved into the bins" + _STATE,
}


def unstated(domain: Any, schema: Schema, width: int) -> Mapping[Any, Any] | None:
    """Return the stated columns, if the domain does not state all `width` of them; else None."""
    stated = stated_columns(domain)
    if stated is None or not leaves_open(stated, width):
        return None
    if schema.names is None and any(not isinstance(label, int) for label in stated):
        return None  # names for an array, which has none: the domain must be complete
    return stated


def plans_of(
    estimator: Any,
    stated: Mapping[Any, Any],
    X: Any,
    schema: Schema,
    *,
    labels: Sequence[Any] = (),
) -> list[ColumnPlan]:
    """Return where the values of each column of X come from; `labels` are columns of classes."""
    if is_parts(X):
        raise ValueError(_IN_PARTS.format(name=type(estimator).__name__))
    categories = getattr(estimator, "categories", CATEGORIES[0])
    return column_plans(stated, X, schema, categories=categories, labels=labels)


def check_learnable(estimator: Any, plans: Sequence[ColumnPlan] | None) -> None:
    """Refuse, before any charge, columns that this estimator, or any with delta 0, cannot learn."""
    name = type(estimator).__name__
    learned = [plan.label for plan in plans or () if plan.learned]
    if learned and not isinstance(estimator, LearningMixin):
        raise ValueError(_UNSTATED.format(name=name, columns=learned))
    chosen = [plan.label for plan in plans or () if plan.source == KEYS]
    if chosen and not allowed_delta(estimator):
        raise ValueError(_TEXT.format(name=name, columns=chosen, column=chosen[0]))


class LearningMixin(PrivateMixin):
    """Price and shares of an estimator that learns columns which its domain does not state.

    Expects the parameters ``domain`` and ``categories``.
    """

    domain: Any = field(init=False)
    domain_: Domain = field(init=False)
    _plans: list[ColumnPlan] | None = None

    def _foremost(self) -> int | None:
        """Return the column whose values are learned with as much as those of all others."""
        return None

    def _learns_some(self, n_columns: int | None) -> bool:
        """Say whether the values of some column are learned or public by its type."""
        stated = stated_columns(self.domain)
        if stated is None:
            return False
        return not stated or leaves_open(stated, n_columns or 0)

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        # Single columns, pairs, and what is measured again.
        return math.nan if n_features is None else allowance.bins_std(3 * n_features)

    def _split_delta(self, n_features: int | None = None) -> tuple[float, float]:
        """Return the delta of noise, and that of categories that only one row has."""
        if n_features is None and hasattr(self, "domain_"):
            n_features = self.domain_.n_columns
        noise = partial(self._noise_compared, n_features=n_features)
        return self._context().split_delta(noise, learns=self._learns_some(n_features))

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the cost of one fit, before any data is touched.

        Parameters
        ----------
        n_samples : int, default=None
            Not used: the cost of a fit does not depend on it.
        n_features : int, default=None
            Number of columns of the domain, including the target. Columns that it does not
            state are learned. None: as in the last fit; before a fit, the stated columns only.

        Returns
        -------
        cost : skdp.budget.Cost
            The (epsilon, delta) that one fit charges, and its mu where noise is Gaussian. If the
            domain does not state every column, a part of delta pays for selecting categories.
        """
        return super().privacy_cost(n_samples, n_features)

    def _learn(
        self, session: Session, plans: Sequence[ColumnPlan] | None, stated: Domain, n: float
    ) -> Domain:
        """Return the domain by which rows are coded: the stated one, or a learned one."""
        labels = stated.names or range(stated.n_columns)
        self.learned_ranges_: dict[Any, LearnedRange] = {}
        if plans is None:
            self.domain_source_ = dict.fromkeys(labels, "stated")
            return stated
        self.domain_source_ = {plan.label: plan.source for plan in plans}
        if not any(plan.learned for plan in plans):
            return stated
        columns = max(len(plans), 1)
        share = Fraction(1, 10 * columns)
        noise = Allowance.left(session, share).mean_cell_noise
        readable = _READABLE * n / noise
        n_bins = int(min(max(readable, FEWEST_BINS), MOST_BINS))
        part = LEARNING_OF_FEW if readable < FEWEST_BINS else LEARNING
        part = min(part, session.remaining / 2)
        of_columns: Any = {"named": stated.names is not None, "foremost": self._foremost()}
        domain, self.learned_ranges_ = learn_domain(session, plans, n, n_bins, part, **of_columns)
        self._warn(plans, domain, few=readable < FEWEST_BINS / 2)
        return domain

    def _warn(self, plans: Sequence[ColumnPlan], domain: Domain, *, few: bool) -> None:
        """Warn of columns that were learned badly, by released values only."""
        name = type(self).__name__
        none = {
            plan.label: domain.values(j, np.array([0])).tolist()[0]
            for j, plan in enumerate(plans)
            if plan.source == KEYS and domain.sizes[j] == 1
        }
        if none:
            rest = next(iter(none.values()))
            warn_at_end(_NONE_FOUND.format(name=name, columns=listed(list(none)), rest=rest))
        if few and (numbers := [plan.label for plan in plans if plan.source == NUMBERS]):
            warn_at_end(_FEW.format(name=name, columns=listed(numbers)))
            return
        for doubt, message in _DOUBTS.items():
            doubtful = [label for label, r in self.learned_ranges_.items() if doubt in r.doubts]
            if doubtful:
                warn_at_end(message.format(name=name, columns=listed(doubtful)))


# --- releasers ------------------------------------------------------------------------------------

Tables = dict[tuple[int, ...], NDArray]


def check_domain(domain: Any, n_columns: int, names: Sequence[Any] | None = None) -> Domain:
    """Return a complete `Domain` from whatever the parameter ``domain`` holds, or raise.

    One `Bins` or int (the whole numbers below it) stands for every column.
    """
    if isinstance(domain, Domain):
        return domain.ordered(names)
    if _is_complete(domain):
        return Domain(domain).ordered(names)
    if isinstance(domain, Bins | int | np.integer) and not isinstance(domain, bool):
        if names is not None and len(set(names)) == n_columns:
            return Domain(dict.fromkeys(names, domain))
        return Domain([domain] * n_columns)
    raise TypeError(
        "domain must be a Domain, stated from public knowledge, or a list or mapping of its "
        f"columns, or Bins or an int for every column, got {type(domain).__name__}"
    )


def by_label(sets: Iterable[Sequence[int]], domain: Domain) -> list[tuple[Any, ...]]:
    """Return sets of columns by name, or by position where the columns have no names."""
    labels = domain.names or range(domain.n_columns)
    return [tuple(labels[j] for j in s) for s in sets]


def _is_complete(domain: Any) -> bool:
    """Say whether a domain states every column."""
    if isinstance(domain, str | bytes):
        return False
    return isinstance(domain, Domain | Mapping | Sequence)


def _is_queries(queries: Any) -> bool:
    """Tell specifications and functions from rows."""
    if isinstance(queries, Queries) or callable(queries):
        return True
    if not isinstance(queries, Sequence) or isinstance(queries, str):
        return False
    return all(isinstance(q, Queries) or callable(q) for q in queries)  # an empty list, too


class ReleaserMixin(ExpectedErrorMixin, PrivateMixin):
    """Domain, coded rows, answers and samples of an estimator that releases data.

    Expects the parameters of `PrivateMixin` and ``domain``.
    """

    domain: Any = field(init=False)
    weights_: NDArray[np.float64] = field(init=False)  # over the domain, shape ``domain_.sizes``
    _codes: NDArray | None = None  # of released rows, shape (m, n_columns)
    _plans: list[ColumnPlan] | None = None
    _tags = ("input_tags.string", "input_tags.categorical", "input_tags.allow_nan")

    # --- rows ---------------------------------------------------------------------------------

    def _known_domain(self, n_features: int | None, like: Any = None) -> Domain:
        """Return the domain of a fit: by its parameters, else like that of `like` or the last."""
        self._check_parameters()
        refuse_units(type(self).__name__, self._context().budget)
        d = None if n_features is None else check_integer(n_features, "n_features", low=1)
        if _is_complete(self.domain):
            stated = check_domain(self.domain, 1)
            if d not in (None, stated.n_columns):
                raise ValueError(
                    f"n_features must be the number of columns of domain, {stated.n_columns}, or "
                    f"None; got {d}"
                )
            return stated
        known: Any = None  # the last fit may have had other parameters: only its columns are used
        if d is None and isinstance(like, ReleaserMixin):
            check_is_fitted(like)
            known = like.domain_
        elif d is None and like is not None:
            _, known = table_schema(like, estimator="expected_error(like=...)")
        elif d is None:
            known = getattr(self, "domain_", None)
        names = None
        if known is not None:
            d, names = known.n_columns, known.names
        if d is None and isinstance(self.domain, Bins | int | np.integer):
            raise ValueError("n_features must be given before fit, an integer of at least 1")
        return check_domain(self.domain, d or 1, names)

    def _leaves_open(self, like: Any) -> bool:
        """Say whether an earlier release knows columns that are not stated here."""
        check_is_fitted(like)
        if isinstance(self.domain, Mapping) and leaves_open(self.domain, like.domain_.n_columns):
            return True
        return not _is_complete(self.domain)

    def _open_domain(self, X: Any) -> tuple[Any, Domain]:
        """Check parameters and columns; set `domain_`. Returns X and the domain."""
        self._check_parameters()
        X, schema = table_schema(X, estimator=type(self).__name__)
        stated = unstated(self.domain, schema, schema.n_columns)
        vars(self).pop("_plans", None)  # of an earlier fit
        if stated is not None:
            self._plans = plans_of(self, stated, X, schema)
        check_learnable(self, self._plans)
        if self._plans is None:
            self.domain_ = check_domain(self.domain, schema.n_columns, schema.names)
        else:  # values by type, and placeholders for columns that are learned
            self.domain_ = stand_in(self._plans, named=schema.names is not None)
        self._schema = schema
        return X, self.domain_

    def _open_coded(self, X: Any) -> Any:
        """Check rows and code them, after `_open_domain`; record names. Charges nothing."""
        domain = self.domain_
        if self._plans is not None and any(plan.learned for plan in self._plans):
            rows: Any = check_uncoded(
                X, self._plans, named=domain.names is not None, allow_empty=self._allow_empty
            )
        else:
            rows = check_coded(X, domain, **self._entrance, one_place=self._one_place())
        self._table(np.zeros((0, domain.n_columns), dtype=np.int64))  # raises now, or never
        validate_data(self, getattr(rows, "head", X), skip_check_array=True)
        return rows

    # --- the release ----------------------------------------------------------------------------

    def _tables(self, sets: Iterable[Sequence[int]]) -> Tables:
        """Return the flat marginal tables of some sets of columns (ascending), as fractions."""
        sizes, rows = self.domain_.sizes, self._codes
        if rows is None:
            return marginals(self.weights_, sets)
        tables: Tables = {}
        for s in {tuple(s) for s in sets}:
            shape = tuple(sizes[j] for j in s)
            flat = np.ravel_multi_index(tuple(rows[:, j] for j in s), shape)
            tables[s] = np.bincount(flat, minlength=math.prod(shape)) / len(rows)
        return tables

    def _cell_fractions(self, codes: NDArray) -> NDArray[np.float64]:
        """Return which part of the release lies in the cell of each of the caller's rows."""
        rows, codes = self._codes, codes.astype(np.int64)
        if rows is None:
            return self.weights_[tuple(codes.T)]
        stacked = np.concatenate([rows.astype(np.int64), codes])
        place = np.unique(stacked, axis=0, return_inverse=True)[1].reshape(-1)
        counts = np.bincount(place[: len(rows)], minlength=int(place.max(initial=0)) + 1)
        return counts[place[len(rows) :]] / len(rows)

    def _draw(self, n: int, rng: Any) -> NDArray[np.int64]:
        """Return the codes of n rows drawn from the release, shape (n, n_columns)."""
        if (rows := self._codes) is not None:
            return rows[rng.randint(len(rows), size=n)].astype(np.int64)
        flat = np.maximum(self.weights_.reshape(-1), 0.0)
        cells = rng.choice(flat.size, size=n, p=flat / flat.sum())
        return np.column_stack(np.unravel_index(cells, self.domain_.sizes))

    def _answers(self, queries: Queries) -> NDArray[np.float64]:
        """Return the answers of queries, as fractions."""
        answers = []
        for part in queries.parts:
            if self._codes is not None and isinstance(part, Functions):
                # At the released rows only: the domain may have too many cells.
                answers.append(part.on_rows(self.domain_, self._codes))
            else:
                work = part.workload(self.domain_)
                answers.append(work.from_marginals(self._tables(work.attribute_sets)))
        return np.clip(np.concatenate(answers), 0.0, 1.0)

    def predict(self, queries: Any) -> NDArray[np.float64]:
        """Answer linear queries from the release, also queries that were not stated in `fit`.

        Parameters
        ----------
        queries : Queries, callable, sequence of these, or table of shape (n_rows, n_features)
            Queries, as made by `conjunctions` and similar functions, or a function of a row with
            values in [0, 1]. A row stands for the query "is a row in the same cell of the domain?".

        Returns
        -------
        answers : ndarray of shape (n_queries,)
            Means over the released data, in [0, 1].

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the queries do not fit the domain, or have values outside [0, 1].
        """
        check_is_fitted(self)
        if _is_queries(queries):
            return self._answers(as_queries(queries))
        if queries is None or isinstance(queries, str | bytes | Real):
            raise TypeError(
                "queries must be made by conjunctions or thresholds, say, or be a function of a "
                f"row, a sequence of these, or a table of rows; got {type(queries).__name__}"
            )
        X, _ = table_schema(queries, estimator=type(self).__name__)
        validate_data(self, X, reset=False, skip_check_array=True)
        codes = public_codes(X, self.domain_, **self._entrance)
        return np.clip(self._cell_fractions(codes), 0.0, 1.0)

    # --- before a fit ---------------------------------------------------------------------------

    def _check_fit(self, domain: Domain, n: int) -> None:
        """Raise the errors that a fit of n rows on this domain raises before the charge."""
        raise NotImplementedError

    def _queries(self, domain: Domain) -> Queries:
        """Return the queries whose errors count."""
        return as_queries(self.queries)  # type: ignore[attr-defined]

    def _error_of_fit(self, n: int, n_features: int | None, like: Any) -> float:
        if isinstance(like, ReleaserMixin) and self._leaves_open(like):
            known = clone(self).set_params(domain=like.domain_)
            return float(known.expected_error(n, n_features, like=like))
        domain = self._known_domain(n_features, like)
        self._check_fit(domain, n)
        if like is None:
            bound = ". error_bound() holds for any rows" if hasattr(self, "error_bound") else ""
            depends = "the rows: on how uneven they are, and on how far their columns depend on "
            raise unanswered(self, depends + "each other", bound)
        table, queries = PublicTable(like, domain, n), self._queries(domain)
        exact = table.answers(queries)

        def error(fresh: Fresh, number: int) -> float:
            fitted = fresh(number).fit(table.rows)
            return float(np.abs(fitted.predict(queries) - exact).max())

        return mean_error(self, error, least=5)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw rows at random from the release, in the form of the fitted table.

        Returns
        -------
        X : ndarray or table of shape (n_samples, n_features)
            With `Bins`, a uniformly random point of the cell.
        """
        check_is_fitted(self)
        n = check_integer(n_samples, "n_samples", low=1)
        rng = check_random_state(random_state)
        return self._table(self._draw(n, rng), rng)

    def _table(self, codes: NDArray, rng: Any = None) -> Any:
        """Return released codes as a table like X; with no rng, `Bins` by the cells' middles."""
        names = self._schema.names or self.domain_.names
        return decoded(
            self.domain_,
            codes,
            names=names,
            container=self._schema.container,
            types=self._schema.types,
            rng=rng,
        )


class PublicTable(ReleaserMixin):
    """As many public rows as a fit will have, and their answers; earlier releases are sampled."""

    def __init__(self, like: Any, domain: Domain, n: int) -> None:
        name = "expected_error(like=...)"
        if isinstance(like, ReleaserMixin):
            like = like.sample(n, random_state=0)
        X, schema = table_schema(like, estimator=name)
        if schema.n_columns != domain.n_columns:
            raise ValueError(
                f"like must have the {domain.n_columns} columns of domain, got {schema.n_columns}. "
                "Where domain states some columns only, pass an earlier release, which knows the "
                "others, or state them"
            )
        codes = public_codes(X, domain, estimator=name)
        self.domain_, self._schema = domain, schema
        self._codes = codes[repeated(len(codes), n)]
        self.rows = self._table(self._codes)

    def answers(self, queries: Queries) -> NDArray[np.float64]:
        """Return the exact answers."""
        return self._answers(queries)
