"""What the parts of a search charge: its fits, its private scores, the refit.

Nothing is released here and no row is read.
"""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skdp.base.leaks import (
    has_price,
    is_halving,
    is_search,
    scorers_in,
    steps_of,
    what_it_does,
)
from skdp.budget import Cost, PrivacyBudget, pure_mu
from skdp.budget.ambient import ambient_budget, ledger_of
from skdp.model_selection._candidates import candidates_of, halving_fits
from skdp.model_selection._splits import (
    check_halving,
    check_splits,
    fold_notes,
    number_of_splits,
    relation_of,
    splitter_of,
)

_SCORE_NOTE = (
    "the ledger covers the fits, not the choice: the scores come from private folds and the "
    "scorer is not private (see private_scorer)"
)
_HALVING_NOTE = "an upper bound: halving may stop after fewer rounds"
_MEMORY_NOTE = "an upper bound: steps that Pipeline(memory=...) takes from its cache charge nothing"


@dataclass
class Bill:
    """Costs with their multiplicities and what they are for, and what has to be said of them."""

    lines: list[tuple[int, Cost, str]]
    notes: list[str]
    n_fits: int = 0
    n_scores: int = 0

    def total(self) -> Cost:
        """Add the lines up."""
        total = _sum([times * cost for times, cost, _ in self.lines if times])
        if total is None:
            raise ValueError(
                "nothing in the search has a cost: neither the estimator nor the scorer has "
                "a privacy_cost method (or none charges the given budget)"
            )
        return total


def _is_private(name: str, value: Any) -> bool:
    """Say whether this parameter tells of charges: a private part, a search or a ledger."""
    if has_price(value) or is_search(value) or isinstance(value, PrivacyBudget):
        return True
    return name.rpartition("__")[2] == "budget" and value is None


def private_parts(estimator: Any, path: str = "") -> list[tuple[str, Any]]:
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
            for part in private_parts(step, f"{path}__{name}" if path else name)
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
    return relation_of(_budget_of(part))


def _scorer_lists(
    estimator: Any, scoring: Any, n_samples: int | None, groups: Any
) -> list[list[Any]]:
    """Return what may score `estimator`: lists of scorers, of which each score calls one list.

    With ``scoring=None`` that is the ``score`` method, which a pipeline takes from its last step
    and a search from its own ``scoring``, or else from its best candidate.
    """
    if scoring is not None:
        return [scorers_in(scoring)]
    if isinstance(estimator, FrozenEstimator):
        return _scorer_lists(estimator.estimator, None, n_samples, groups)
    if isinstance(estimator, Pipeline) and estimator.steps:
        return _scorer_lists(estimator.steps[-1][1], None, n_samples, groups)
    if not is_search(estimator):
        return [[None]]
    if isinstance(estimator.scoring, Mapping) and isinstance(estimator.refit, str):
        return [[estimator.scoring.get(estimator.refit)]]
    if estimator.scoring is not None:
        return [scorers_in(estimator.scoring)]
    candidates, _ = candidates_of(estimator, n_samples, groups)
    return [
        scorers
        for candidate in candidates
        for scorers in _scorer_lists(candidate, None, n_samples, groups)
    ]


class Pricer:
    """What the helpers below share: the caller's n_samples, groups and budget."""

    def __init__(self, n_samples: int | None, groups: Any, budget: Any) -> None:
        if n_samples is not None and (
            not isinstance(n_samples, numbers.Integral) or isinstance(n_samples, bool)
        ):
            raise TypeError("n_samples must be a positive integer or None")
        if n_samples is not None and n_samples < 1:
            raise ValueError("n_samples must be a positive integer or None")
        if n_samples is not None and n_samples > 2**40:
            raise ValueError("n_samples must be at most 2**40")
        if not (budget is None or isinstance(budget, PrivacyBudget)):
            raise TypeError(f"budget must be a PrivacyBudget or None, got {type(budget).__name__}")
        self.n_samples = None if n_samples is None else int(n_samples)
        self.groups = groups
        self.budget = budget
        self.notes: list[str] = []  # of nested searches

    def mine(self, part: Any) -> bool:
        """Say whether the charges of this part are asked for."""
        return self.budget is None or ledger_of(_budget_of(part)) == ledger_of(self.budget)

    def charges(self, scorer: Any) -> bool:
        """Say whether a scorer charges what is asked for."""
        return has_price(scorer) and self.mine(scorer)

    def scorers(self, estimator: Any, scoring: Any) -> list[list[Any]]:
        """Return what may score `estimator`."""
        return _scorer_lists(estimator, scoring, self.n_samples, self.groups)

    def price(self, path: str, part: Any) -> Cost | None:
        """Return the cost of a part; an error of its parameters names the step."""
        try:
            return part.privacy_cost(n_samples=self.n_samples)
        except (TypeError, ValueError) as error:
            if not path:
                raise
            raise type(error)(f"step {path}: {error}") from None

    def one_fit(self, estimator: Any) -> Cost | None:
        """Return the cost of one fit of `estimator`; None if it charges nothing."""
        costs: list[Cost] = []
        for path, part in private_parts(estimator):
            if is_search(part):
                bill = self.search(part)
                self.notes += bill.notes
                costs += [times * cost for times, cost, _ in bill.lines if times]
            elif self.mine(part):
                cost = self.price(path, part)
                costs += [] if cost is None else [cost]  # None: it releases nothing
        return _sum(costs)

    def leaves(self, estimator: Any) -> list[Any]:
        """Return the private estimators that a fit of `estimator` reaches, in any depth."""
        found = []
        for path, part in private_parts(estimator):
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
    ) -> Bill:
        """Price `fits` on every split, with their scores.

        A fit is (times, cost, what may be fitted).
        """
        splitter = splitter_of(cv)
        parts = self.leaves(estimator)
        for _, _, candidates in fits:
            parts += [leaf for candidate in candidates for leaf in self.leaves(candidate)]
            lists = [list_ for c in candidates for list_ in self.scorers(c, scoring)]
            parts += [s for list_ in lists for s in list_ if self.charges(s)]
        adjacencies = {_adjacency(part) for part in parts}
        classifier = is_classifier(estimator)
        check_splits(cv, splitter, adjacencies, self.n_samples)
        halving = [] if search is None else check_halving(search, classifier, adjacencies)
        n_splits = number_of_splits(splitter, self.n_samples, self.groups)
        bill = Bill([], [])
        private = True
        for times, cost, candidates in fits:
            n_fits = times * n_splits
            bill.n_fits += n_fits
            if cost is not None:
                bill.lines.append((n_fits, cost, "fits on training folds"))
            lists = [list_ for c in candidates for list_ in self.scorers(c, scoring)]
            private &= all(has_price(s) for list_ in lists for s in list_)
            lists = [[s for s in list_ if self.charges(s)] for list_ in lists]
            calls = n_fits * (2 if return_train_score else 1)
            sums = [_sum([s.privacy_cost() for s in list_]) for list_ in lists if list_]
            dearest = _cover([cost for cost in sums if cost is not None])
            if dearest is not None:
                bill.lines.append((calls, dearest, "private scores"))
            bill.n_scores += calls * max(len(list_) for list_ in lists)
        bill.notes += [*fold_notes(cv, splitter, classifier, adjacencies), *halving]
        if not private:
            bill.notes.append(_SCORE_NOTE)
        pipelines = [estimator, *estimator.get_params(deep=True).values()]
        if any(isinstance(p, Pipeline) and p.memory is not None for p in pipelines):
            bill.notes.append(_MEMORY_NOTE)
        return bill

    def search(self, search: Any) -> Bill:
        """Price a whole search: every candidate on every split, scores, and the refit."""
        params = search.get_params(deep=False)
        candidates, number = candidates_of(search, self.n_samples, self.groups)
        costs = [self.one_fit(candidate) for candidate in candidates]
        dearest = _cover([cost for cost in costs if cost is not None])
        halving = is_halving(search)
        if halving:
            first = len(costs) if number is None else number
            number = halving_fits(first, params["factor"])
        if number is None:
            fits = [(1, cost, [c]) for cost, c in zip(costs, candidates, strict=True)]
        else:
            fits = [(number, dearest, candidates)]
        bill = self.folds(
            search.estimator, search.cv, search.scoring, search.return_train_score, fits, search
        )
        if search.refit:
            bill.n_fits += 1
            if dearest is not None:
                bill.lines.append((1, dearest, "refit on all rows"))
        if halving:
            bill.notes.append(_HALVING_NOTE)
        return bill


def _cover(costs: Sequence[Cost]) -> Cost | None:
    """Return a cost that none of `costs` exceeds: which candidate is refitted is not known."""
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
    """Return everything that an accountant may add up of a cost."""
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
            apart += times * single.separate_delta
    return [epsilon, delta, mu_squared, rho, apart]
