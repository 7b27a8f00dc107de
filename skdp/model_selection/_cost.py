"""What a search will charge, before it runs: `search_cost` and `cross_val_cost`.

Nothing is released here and no row is read. A price is the sum of what every fit of every
candidate, every private score and the refit will charge; `PrivacyBudget.reserve` sets it aside,
so that a search that cannot be paid is refused before it starts. (scikit-learn turns an exception
in ``fit`` into a NaN score: a search whose budget runs out half-way would go on with what is left
of its candidates.)

Which folds keep the sum of the charges a guarantee for the search as a whole: under
"replace_one" the folds by position, under "add_or_remove_one" the folds by content of
`PerRecordKFold`. Everything else is said in the price's `note`, which a reservation can write
into the ledger.
"""

from __future__ import annotations

import html
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skdp.budget import Cost, PrivacyBudget, pure_mu
from skdp.budget.ambient import ambient_budget
from skdp.model_selection._check import Finding, PipelineCheck, check_pipeline
from skdp.model_selection._searches import (
    candidates_of,
    halving_fits,
    has_price,
    is_halving,
    is_search,
    scorers_in,
    steps_of,
    what_it_does,
)
from skdp.model_selection._splits import (
    check_halving,
    check_splits,
    fold_notes,
    number_of_splits,
    splitter_of,
)

__all__ = ["SearchCost", "cross_val_cost", "search_cost"]

_SCORE_NOTE = (
    "the ledger covers the fits, not the choice: the scores come from private folds and the "
    "scorer is not private (see private_scorer)"
)
_HALVING_NOTE = "an upper bound: halving may stop after fewer rounds"
_MEMORY_NOTE = "an upper bound: steps that Pipeline(memory=...) takes from its cache charge nothing"


class SearchCost(Cost):
    """The price of a search: a `Cost` that also says what it is made of.

    Parameters
    ----------
    cost : Cost
        The whole price.
    n_fits : int, default=0
        Number of fits of whole candidates, the refit included.
    n_scores : int, default=0
        Number of calls of private scorers.
    note : str, default=""
        What the price does not cover. ``budget.reserve(cost, note=cost.note)`` writes it into the
        ledger.
    findings : PipelineCheck, default=()
        What `check_pipeline` found in the search.
    """

    def __init__(
        self,
        cost: Cost,
        *,
        n_fits: int = 0,
        n_scores: int = 0,
        note: str = "",
        findings: Sequence[Finding] = (),
    ) -> None:
        set_ = object.__setattr__  # a Cost is frozen
        for name, value in vars(cost).items():
            set_(self, name, value)
        set_(self, "n_fits", n_fits)
        set_(self, "n_scores", n_scores)
        set_(self, "note", note)
        set_(self, "findings", PipelineCheck(findings))

    n_fits: int
    n_scores: int
    note: str
    findings: PipelineCheck

    def _repr_html_(self) -> str:
        """Return the price, what it does not cover, and what was found, for notebooks."""
        note = f"<p>Not covered: {html.escape(self.note)}.</p>" if self.note else ""
        return (
            f"<div><p><strong>({self.epsilon:g}, {self.delta:g})</strong> for {self.n_fits} fits "
            f"and {self.n_scores} private scores.</p>{note}{self.findings.to_html()}</div>"
        )

    def __repr__(self) -> str:
        return (
            f"SearchCost(epsilon={self.epsilon!r}, delta={self.delta!r}, n_fits={self.n_fits}, "
            f"n_scores={self.n_scores}, note={self.note!r})"
        )


@dataclass
class _Bill:
    """Costs with their multiplicities, and what has to be said about them."""

    lines: list[tuple[int, Cost]]
    notes: list[str]
    n_fits: int = 0
    n_scores: int = 0

    def total(self, of: Any, more_notes: Sequence[str] = ()) -> SearchCost:
        """Add the lines up."""
        total = _sum([times * cost for times, cost in self.lines if times])
        if total is None:
            raise ValueError(
                "nothing in the search has a price: neither the estimator nor the scorer has "
                "a privacy_cost method (or none charges the given budget)"
            )
        note = "; ".join(dict.fromkeys((*self.notes, *more_notes)))
        return SearchCost(
            total,
            n_fits=self.n_fits,
            n_scores=self.n_scores,
            note=note,
            findings=check_pipeline(of),
        )


def _is_private(name: str, value: Any) -> bool:
    """Say whether this parameter tells of charges: a private part, a search or a ledger."""
    if has_price(value) or is_search(value) or isinstance(value, PrivacyBudget):
        return True
    return name.rpartition("__")[2] == "budget" and value is None


def _priced_parts(estimator: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the estimators and searches that one fit of `estimator` fits, each once, by name."""
    if isinstance(estimator, FrozenEstimator):
        return []  # never fitted again; it passes on the attributes of what it holds
    if has_price(estimator) or is_search(estimator):
        return [(path, estimator)]
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return []  # "drop", "passthrough", None, a function
    steps = steps_of(estimator)
    if steps is not None:
        return [
            part
            for name, step, _ in steps
            for part in _priced_parts(step, f"{path}__{name}" if path else name)
        ]
    inside = estimator.get_params(deep=True)
    if any(_is_private(name, value) for name, value in inside.items()):
        name, does = type(estimator).__name__, what_it_does(estimator)
        raise TypeError(
            f"cannot tell how often {name} fits the private estimators inside it or charges its "
            f"budget{f': it {does}' if does else ''}. Give it a privacy_cost(n_samples=None, "
            "n_features=None) method, or put it, with estimators that are not private, into "
            "DPSubsampleAggregate"
        )
    return []


def _budget_of(part: Any) -> Any:
    """Return the budget that a part is charged to: its own, or that of a ``with budget:``."""
    budget = getattr(part, "budget", None)
    return ambient_budget() if budget is None else budget


def _adjacency(part: Any) -> str:
    """Return the neighbouring relation that a part's charges are made under."""
    return getattr(_budget_of(part), "adjacency", "replace_one")


def _scorer_lists(estimator: Any, scoring: Any) -> list[list[Any]]:
    """Return what may score `estimator`: lists of scorers, of which each score calls one list.

    With ``scoring=None`` that is the ``score`` method, which a pipeline takes from its last step
    and a search from its own ``scoring``, or else from its best candidate.
    """
    if scoring is not None:
        return [scorers_in(scoring)]
    if isinstance(estimator, FrozenEstimator):
        return _scorer_lists(estimator.estimator, None)
    if isinstance(estimator, Pipeline) and estimator.steps:
        return _scorer_lists(estimator.steps[-1][1], None)
    if not is_search(estimator):
        return [[None]]
    if isinstance(estimator.scoring, Mapping) and isinstance(estimator.refit, str):
        return [[estimator.scoring.get(estimator.refit)]]
    if estimator.scoring is not None:
        return [scorers_in(estimator.scoring)]
    candidates, _ = candidates_of(estimator)
    return [scorers for candidate in candidates for scorers in _scorer_lists(candidate, None)]


class _Pricer:
    """What the helpers below share: the caller's n_samples, groups and budget."""

    def __init__(self, n_samples: int | None, groups: Any, budget: Any) -> None:
        if n_samples is not None and (
            not isinstance(n_samples, numbers.Integral) or isinstance(n_samples, bool)
        ):
            raise TypeError("n_samples must be a positive integer or None")
        if n_samples is not None and n_samples < 1:
            raise ValueError("n_samples must be a positive integer or None")
        self.n_samples = None if n_samples is None else int(n_samples)
        self.groups = groups
        self.budget = budget
        self.notes: list[str] = []  # of nested searches

    def mine(self, part: Any) -> bool:
        """Say whether the charges of this part are asked for."""
        return self.budget is None or _budget_of(part) is self.budget

    def charges(self, scorer: Any) -> bool:
        """Say whether a scorer charges what is asked for."""
        return has_price(scorer) and self.mine(scorer)

    def price(self, path: str, part: Any) -> Cost | None:
        """Return the price of a part; an error of its parameters names the step."""
        try:
            return part.privacy_cost(n_samples=self.n_samples)
        except (TypeError, ValueError) as error:
            if not path:
                raise
            raise type(error)(f"step {path}: {error}") from None

    def one_fit(self, estimator: Any) -> Cost | None:
        """Return the price of one fit of `estimator`; None if it charges nothing."""
        costs: list[Cost] = []
        for path, part in _priced_parts(estimator):
            if is_search(part):
                bill = self.search(part)
                self.notes += bill.notes
                costs += [times * cost for times, cost in bill.lines if times]
            elif self.mine(part):
                cost = self.price(path, part)
                costs += [] if cost is None else [cost]  # None: it releases nothing
        return _sum(costs)

    def leaves(self, estimator: Any) -> list[Any]:
        """Return the private estimators that a fit of `estimator` reaches, in any depth."""
        found = []
        for path, part in _priced_parts(estimator):
            if is_search(part):
                found += self.leaves(part.estimator)
            elif self.price(path, part) is not None:
                found.append(part)
        return [part for part in found if self.mine(part)]

    def folds(
        self,
        estimator: Any,
        cv: Any,
        scoring: Any,
        return_train_score: bool,
        fits: Sequence[tuple[int, Cost | None, Sequence[Any]]],
        search: Any = None,
    ) -> _Bill:
        """Price `fits` on every split, with their scores.

        A fit is (times, cost, what may be fitted).
        """
        splitter = splitter_of(cv)
        parts = self.leaves(estimator)
        for _, _, candidates in fits:
            parts += [leaf for candidate in candidates for leaf in self.leaves(candidate)]
            lists = [list_ for c in candidates for list_ in _scorer_lists(c, scoring)]
            parts += [s for list_ in lists for s in list_ if self.charges(s)]
        adjacencies = {_adjacency(part) for part in parts}
        classifier = is_classifier(estimator)
        check_splits(cv, splitter, adjacencies, self.n_samples)
        halving = [] if search is None else check_halving(search, classifier, adjacencies)
        n_splits = number_of_splits(splitter, self.n_samples, self.groups)
        bill = _Bill([], [])
        private = True
        for times, cost, candidates in fits:
            n_fits = times * n_splits
            bill.n_fits += n_fits
            if cost is not None:
                bill.lines.append((n_fits, cost))
            lists = [list_ for c in candidates for list_ in _scorer_lists(c, scoring)]
            private &= all(has_price(s) for list_ in lists for s in list_)
            lists = [[s for s in list_ if self.charges(s)] for list_ in lists]
            calls = n_fits * (2 if return_train_score else 1)
            sums = [_sum([s.privacy_cost() for s in list_]) for list_ in lists if list_]
            dearest = _cover([cost for cost in sums if cost is not None])
            if dearest is not None:
                bill.lines.append((calls, dearest))
            bill.n_scores += calls * max(len(list_) for list_ in lists)
        bill.notes += [*fold_notes(cv, splitter, classifier, adjacencies), *halving]
        if not private:
            bill.notes.append(_SCORE_NOTE)
        pipelines = [estimator, *estimator.get_params(deep=True).values()]
        if any(isinstance(p, Pipeline) and p.memory is not None for p in pipelines):
            bill.notes.append(_MEMORY_NOTE)
        return bill

    def search(self, search: Any) -> _Bill:
        """Price a whole search: every candidate on every split, scores, and the refit."""
        params = search.get_params(deep=False)
        candidates, n_iter = candidates_of(search)
        costs = [self.one_fit(candidate) for candidate in candidates]
        dearest = _cover([cost for cost in costs if cost is not None])
        halving = is_halving(search)
        if halving:
            n_iter = halving_fits(len(costs), params["factor"])
        if n_iter is None:
            fits = [(1, cost, [c]) for cost, c in zip(costs, candidates, strict=True)]
        else:
            fits = [(n_iter, dearest, candidates)]
        bill = self.folds(
            search.estimator, search.cv, search.scoring, search.return_train_score, fits, search
        )
        if search.refit:
            bill.n_fits += 1
            if dearest is not None:
                bill.lines.append((1, dearest))
        if halving:
            bill.notes.append(_HALVING_NOTE)
        return bill


def _cover(costs: Sequence[Cost]) -> Cost | None:
    """Return a price that none of `costs` exceeds: which candidate is refitted is not known."""
    if not costs:
        return None
    sums = np.array([_sums(cost) for cost in costs])
    dominant = np.flatnonzero((sums >= sums.max(axis=0)).all(axis=1))
    if len(dominant):
        return costs[dominant[0]]
    # No candidate is the dearest in every sense: take each single price as often as any has it.
    union: Counter[Cost] = Counter()
    for cost in costs:
        union |= Counter(dict(cost.components))
    return sum((times * single for single, times in union.items()), start=0)  # type: ignore


def _sum(costs: Sequence[Cost]) -> Cost | None:
    """Add costs up; None if there are none."""
    total: Cost | None = None
    for cost in costs:
        total = cost if total is None else total + cost
    return total


def _sums(cost: Cost) -> list[float]:
    """Return everything that an accountant may add up of a price."""
    epsilon = delta = mu_squared = rho = apart = 0.0
    for single, times in cost.components:
        epsilon += times * single.epsilon
        delta += times * single.delta
        if single.mu is None:
            mu_squared += times * pure_mu(single.epsilon) ** 2
            rho += times * min(single.epsilon**2 / 2, single.epsilon)
            apart += times * single.delta
        else:
            mu_squared += times * single.mu**2
            rho += times * single.mu**2 / 2
            apart += times * single.delta_apart
    return [epsilon, delta, mu_squared, rho, apart]


def search_cost(
    search: Any, n_samples: int | None = None, *, groups: Any = None, budget: Any = None
) -> SearchCost:
    """Price a search before it runs: every fit of every candidate, the scores, the refit.

    Each candidate is made as the search makes it (``clone`` and ``set_params``), so that
    ``epsilon`` itself may be searched over. The private estimators are found in the search's
    estimator and in `Pipeline`, `FeatureUnion`, `ColumnTransformer`,
    `TransformedTargetRegressor`, voting estimators and nested searches.

    **What the price covers.** The fits and the private scores. Of C candidates on K folds a record
    is in K - 1 training folds and one test fold each, and in the refit: it loses at most
    C ((K - 1) epsilon_fit + epsilon_score) + epsilon_refit by sequential composition. The ledger
    adds all C K + 1 fits and C K scores, a little more, because it does not know which rows a
    fit read. It does not cover the *choice*: ``best_params_`` and
    ``cv_results_`` come from scores on private folds. They are private only with a
    `private_scorer`; the `note` says so otherwise, and says where the folds of neighbouring
    tables are not neighbouring tables. A private scorer inside a function or lambda is not seen:
    it is not in the price, and the note calls it not private; pass the scorer itself.

    Parameters
    ----------
    search : GridSearchCV, RandomizedSearchCV or HalvingGridSearchCV
        Unfitted. A `RandomizedSearchCV` with ``random_state=None`` is priced at ``n_iter`` times
        the dearest candidate that its lists make, and must have no distributions; a halving
        search is priced at an upper bound.
    n_samples : int, default=None
        Number of rows that the search will be fitted on. Only needed by splitters and
        estimators whose number of splits or price depends on it.
    groups : array-like of shape (n_samples,), default=None
        Passed to ``get_n_splits`` of a splitter that counts groups.
    budget : PrivacyBudget, default=None
        Count only what is charged to this budget. None counts everything, that of estimators
        with a budget of their own or none included.

    Returns
    -------
    cost : SearchCost
        To be set aside by ``budget.reserve(cost, note=cost.note)``. Its `findings` are those of
        `check_pipeline`.

    Raises
    ------
    TypeError
        If a meta-estimator fits a private estimator an unknown number of times, or has a budget
        and no privacy_cost method.
    ValueError
        If nothing in the search has a price, ``cv`` is an iterator, or ``random_state`` must be
        an int because the candidates to draw from cannot be listed.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skdp import DPKMeans, PrivacyBudget
    >>> from skdp.model_selection import PerRecordKFold, private_scorer, search_cost
    >>> budget = PrivacyBudget(epsilon=4.0)
    >>> search = GridSearchCV(
    ...     DPKMeans(epsilon=0.25, bounds=(0.0, 1.0), budget=budget),
    ...     {"n_clusters": [2, 4, 8]},
    ...     scoring=private_scorer("neg_inertia", epsilon=0.05, bounds=1.0, budget=budget),
    ...     cv=3,
    ... )
    >>> cost = search_cost(search)
    >>> cost.epsilon, cost.n_fits, cost.n_scores, cost.note
    (2.95, 10, 9, '')
    """
    if not is_search(search):
        raise TypeError(
            "search must be a GridSearchCV, RandomizedSearchCV or HalvingGridSearchCV, got "
            f"{type(search).__name__}; for cross_val_score use cross_val_cost"
        )
    pricer = _Pricer(n_samples, groups, budget)
    return pricer.search(search).total(search, pricer.notes)


def cross_val_cost(
    estimator: Any,
    cv: Any = None,
    *,
    n_samples: int | None = None,
    scoring: Any = None,
    return_train_score: bool = False,
    groups: Any = None,
    budget: Any = None,
) -> SearchCost:
    """Price `cross_val_score` or `cross_validate` before it runs: one fit and score a split.

    Parameters
    ----------
    estimator : estimator
        As given to ``cross_val_score``; a pipeline or a search as well (nested search).
    cv : int, splitter or list of splits, default=None
        As given to ``cross_val_score``; None is 5 folds.
    n_samples : int, default=None
        Number of rows, where the number of splits depends on it.
    scoring : callable, str, list, dict or None, default=None
        As given to ``cross_val_score``; private scorers in it are counted, but not inside a
        function or lambda. None takes the scorer of a search.
    return_train_score : bool, default=False
        Whether the training folds are scored too, which private scorers charge as well.
    groups : array-like of shape (n_samples,), default=None
        Passed to ``get_n_splits`` of a splitter that counts groups.
    budget : PrivacyBudget, default=None
        Count only what is charged to this budget; None counts everything.

    Returns
    -------
    cost : SearchCost

    Raises
    ------
    TypeError
        If a meta-estimator fits a private estimator an unknown number of times, or has a budget
        and no privacy_cost method.
    ValueError
        If nothing has a price, or ``cv`` is an iterator.

    Examples
    --------
    >>> from skdp import DPKMeans
    >>> from skdp.model_selection import cross_val_cost
    >>> cross_val_cost(DPKMeans(4, epsilon=0.1, bounds=(0.0, 1.0)), cv=5).epsilon
    0.5
    """
    pricer = _Pricer(n_samples, groups, budget)
    fit = pricer.one_fit(estimator)
    bill = pricer.folds(estimator, cv, scoring, return_train_score, [(1, fit, [estimator])])
    return bill.total(estimator, pricer.notes)
