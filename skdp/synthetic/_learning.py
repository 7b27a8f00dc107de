"""A domain that nobody stated, or only in part: what is refused, what it costs, what was learned.

Nothing private is seen here: `skdp.queries.LearnDomain` asks the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.base import PrivateMixin
from skdp.budget import Cost, gdp_mu
from skdp.budget.ambient import outside_level
from skdp.core import Session
from skdp.planning import Allowance
from skdp.queries import DOUBT_FAR, DOUBT_ONE_VALUE, LearnDomain, LearnedRange
from skdp.tabular import (
    CATEGORIES,
    KEYS,
    NUMBERS,
    ColumnPlan,
    Domain,
    Schema,
    column_plans,
    is_parts,
    stated_columns,
)

LEARNING, LEARNING_OF_FEW = Fraction(3, 20), Fraction(3, 10)  # of the allowance; of few rows
MOST_BINS, FEWEST_BINS = 16, 4
_READABLE = 0.02  # of all rows: the noise of a bin, in the table of one of several columns

_IN_PARTS = (
    "{name}: a domain that is not stated cannot be learned from a table in parts; state it for all "
    "columns, from a code book or by a fit on a part: domain=fitted.domain_"
)
_TEXT = (
    "{name}: the categories of columns {columns} are not stated. State them, domain={{"
    "{column!r}: [...]}}, or set delta above 0, say 1e-6: values that enough rows have are then "
    "selected privately, for half of delta"
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
    """Return what is stated of the columns, where that is not all of them; else None."""
    stated = stated_columns(domain)
    if stated is None or len(stated) >= width:
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
    """Return where the values of each column of X come from.

    Parameters
    ----------
    labels : sequence of names or positions
        Columns that are classes.

    Raises
    ------
    TypeError, ValueError
        Naming what is missing; nothing has been charged.
    """
    if is_parts(X):
        raise ValueError(_IN_PARTS.format(name=type(estimator).__name__))
    categories = getattr(estimator, "categories", CATEGORIES[0])
    return column_plans(stated, X, schema, categories=categories, labels=labels)


def check_learnable(estimator: Any, plans: Sequence[ColumnPlan] | None) -> None:
    """Refuse, before any charge, what this estimator, or any with delta = 0, cannot learn."""
    name = type(estimator).__name__
    learned = [plan.label for plan in plans or () if plan.learned]
    if learned and not isinstance(estimator, LearningMixin):
        raise ValueError(_UNSTATED.format(name=name, columns=learned))
    chosen = [plan.label for plan in plans or () if plan.source == KEYS]
    if chosen and not estimator.delta:
        raise ValueError(_TEXT.format(name=name, columns=chosen, column=chosen[0]))


class LearningMixin(PrivateMixin):
    """Price and shares of an estimator that learns what its domain does not state.

    Expects the parameters ``domain`` and ``categories``.
    """

    domain: Any
    domain_source_: dict[Any, str]
    learned_ranges_: dict[Any, LearnedRange]

    def _learns(self, n_columns: int | None) -> bool:
        """Say whether the domain leaves a column to be learned, or to its type."""
        stated = stated_columns(self.domain)
        if stated is None:
            return False
        return not stated or (n_columns is not None and len(stated) < n_columns)

    def _deltas(self, n_columns: int | None) -> tuple[float, float]:
        """Return the delta of noise, and that of categories that one row alone has."""
        delta = float(self.delta)
        return (delta / 2, delta / 2) if self._learns(n_columns) else (delta, 0.0)

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the cost of one fit, before any data is touched.

        Parameters
        ----------
        n_samples : int, default=None
            Not used: the cost of a fit does not depend on it.
        n_features : int, default=None
            Number of columns of the domain, including the target. If `domain` is a mapping that
            states fewer columns, the others are learned. Without this number, before a fit, the
            mapping is assumed to state all columns.

        Returns
        -------
        cost : skdp.budget.Cost
            The (epsilon, delta) that one fit charges, and its mu where noise is Gaussian. If the
            domain does not state every column, half of delta pays for selecting categories.
        """
        self._context()
        if n_features is None and hasattr(self, "domain_"):
            n_features = self.domain_.n_columns
        epsilon = float(self.epsilon)
        noise, separate = self._deltas(n_features)
        mu = gdp_mu(epsilon, noise) if noise else None
        return Cost(epsilon=epsilon, delta=noise + separate, mu=mu, separate_delta=separate)

    def _learn(
        self, session: Session, plans: Sequence[ColumnPlan] | None, stated: Domain, n: float
    ) -> Domain:
        """Return the domain that rows have their codes by: the stated one, or a learned one."""
        labels = stated.names or range(stated.n_columns)
        self.learned_ranges_ = {}
        if plans is None:
            self.domain_source_ = dict.fromkeys(labels, "stated")
            return stated
        self.domain_source_ = {plan.label: plan.source for plan in plans}
        if not any(plan.learned for plan in plans):
            return stated
        columns = max(len(plans), 1)
        share = Fraction(1, 10 * columns)
        noise = Allowance.left(session, share).cells_noise[1]
        readable = _READABLE * n / noise
        n_bins = int(min(max(readable, FEWEST_BINS), MOST_BINS))
        part = LEARNING_OF_FEW if readable < FEWEST_BINS else LEARNING
        domain, self.learned_ranges_ = session.answer(LearnDomain(n, n_bins), part)
        self._warn(plans, domain, few=readable < FEWEST_BINS / 2)
        return domain

    def _warn(self, plans: Sequence[ColumnPlan], domain: Domain, *, few: bool) -> None:
        """Warn of what was not found: released, so anybody may know."""
        name = type(self).__name__
        none = {
            plan.label: domain.values(j, np.array([0])).tolist()[0]
            for j, plan in enumerate(plans)
            if plan.source == KEYS and domain.sizes[j] == 1
        }
        if none:
            rest = next(iter(none.values()))
            warnings.warn(
                _NONE_FOUND.format(name=name, columns=list(none), rest=rest),
                stacklevel=outside_level(),
            )
        if few and (numbers := [plan.label for plan in plans if plan.source == NUMBERS]):
            warnings.warn(_FEW.format(name=name, columns=numbers), stacklevel=outside_level())
            return
        for doubt, message in _DOUBTS.items():
            found = [label for label, r in self.learned_ranges_.items() if doubt in r.doubts]
            if found:
                warnings.warn(message.format(name=name, columns=found), stacklevel=outside_level())
