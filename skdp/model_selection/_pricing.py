"""Prices of searches: fits of their candidates, private scores, the refit."""

from __future__ import annotations

import contextlib
import copy
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from skdp.base.leaks import has_price, is_halving, is_search, scorers_in, steps_of, what_it_does
from skdp.budget import Cost, PrivacyBudget
from skdp.budget.ambient import ambient_budget, ledger_of
from skdp.budget.budget import not_a_budget
from skdp.loss.accountants import ACCOUNTANTS
from skdp.loss.charge import total
from skdp.model_selection._folds import (
    check_halving,
    check_splits,
    fold_notes,
    number_of_splits,
    relation_of,
    splitter_of,
)
from skdp.parameters import Integers, check_parameter

_SCORE_NOTE = (
    "the ledger covers the fits, not the choice: the scores come from private folds and the "
    "scorer is not private (see private_scorer)"
)
_HALVING_NOTE = "an upper bound: halving may stop after fewer rounds"
_MEMORY_NOTE = "an upper bound: steps that Pipeline(memory=...) takes from its cache charge nothing"


@dataclass
class Bill:
    """The charges of a search, as (times, cost, purpose), and notes on what they do not cover."""

    lines: list[tuple[int, Cost, str]]
    notes: list[str]
    n_fits: int = 0
    n_scores: int = 0

    def total(self) -> Cost:
        """Return the sum of all charges."""
        parts = [(cost, times) for times, cost, _ in self.lines if times]
        if not parts:
            raise ValueError(
                "nothing in the search has a cost: neither the estimator nor the scorer has "
                "a privacy_cost method (or none charges the given budget)"
            )
        return total(parts)


def _is_private(name: str, value: Any) -> bool:
    """Say whether a parameter may charge: a private estimator, a search or a budget."""
    if has_price(value) or is_search(value) or isinstance(value, PrivacyBudget):
        return True
    return name.rpartition("__")[2] == "budget" and value is None


def below(path: str, name: str) -> str:
    """Return the path of a step as ``set_params`` takes it."""
    return f"{path}__{name}" if path else name


def private_parts(estimator: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the private estimators and searches that one fit of `estimator` fits, with paths."""
    if isinstance(estimator, FrozenEstimator):
        return []  # never fitted again, though it has all attributes of the estimator inside
    if has_price(estimator) or is_search(estimator):
        return [(path, estimator)]
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return []  # "drop", "passthrough", None, a function
    steps = steps_of(estimator)
    if steps is not None:
        return [part for name, step, _ in steps for part in private_parts(step, below(path, name))]
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


def budget_of(part: Any) -> PrivacyBudget | None:
    """Return the budget that counts a part: its own, or that of the ``with budget:`` around us."""
    budget = getattr(part, "budget", None)
    if budget is None:
        return ambient_budget()
    return budget if isinstance(budget, PrivacyBudget) else None


@contextlib.contextmanager
def naming_step(path: str) -> Iterator[None]:
    """Let an error of a step's parameters name the step."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not path:
            raise
        raise type(error)(f"step {path}: {error}") from None


def price_or_none(part: Any) -> Cost | None:
    """Return the cost of one fit; None if it releases nothing, or its parameters are wrong."""
    with contextlib.suppress(TypeError, ValueError):
        cost: Cost | None = part.privacy_cost()
        return cost
    return None


def releases(part: Any) -> bool:
    """Say whether a ledger has to count a fit: unless it certainly releases nothing."""
    with contextlib.suppress(TypeError, ValueError):
        return part.privacy_cost() is not None
    return True


class Pricer:
    """Prices for the caller's n_samples, groups and budget (None: for every budget)."""

    def __init__(self, n_samples: int | None, groups: Any, budget: Any) -> None:
        if not (budget is None or isinstance(budget, PrivacyBudget)):
            raise not_a_budget(budget)
        self.n_samples = check_parameter(n_samples, "n_samples", None, Integers(1, 2**40))
        self.groups = groups
        self.budget = budget
        self.notes: list[str] = []  # of nested searches

    def mine(self, part: Any) -> bool:
        """Say whether the charges of this part are asked for."""
        return self.budget is None or ledger_of(budget_of(part)) == ledger_of(self.budget)

    def scorers(self, estimator: Any, scoring: Any) -> list[list[Any]]:
        """Return what may score `estimator`: lists of scorers, of which each score calls one list.

        With ``scoring=None`` that is the ``score`` method, which a pipeline takes from its last
        step and a search from its own ``scoring``, or else from its best candidate.
        """
        if scoring is not None:
            return [scorers_in(scoring)]
        if isinstance(estimator, FrozenEstimator):
            return self.scorers(estimator.estimator, None)
        if isinstance(estimator, Pipeline) and estimator.steps:
            return self.scorers(estimator.steps[-1][1], None)
        if not is_search(estimator):
            return [[None]]
        if isinstance(estimator.scoring, Mapping) and isinstance(estimator.refit, str):
            return [[estimator.scoring.get(estimator.refit)]]
        if estimator.scoring is not None:
            return [scorers_in(estimator.scoring)]
        candidates, _ = candidates_of(estimator, self.n_samples, self.groups)
        return [scorers for candidate in candidates for scorers in self.scorers(candidate, None)]

    def price(self, path: str, part: Any, width: int | None = None) -> Cost | None:
        """Return the cost of a part, None if it releases nothing; `width` counts its columns."""
        options = {} if width is None else {"n_features": width}
        with naming_step(path):
            cost: Cost | None = part.privacy_cost(n_samples=self.n_samples, **options)
            return cost

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
                costs += [] if cost is None else [cost]
        return _sum(costs)

    def leaves(self, estimator: Any) -> list[Any]:
        """Return the private estimators that a fit of `estimator` charges for, at any depth."""
        leaves = []
        for path, part in private_parts(estimator):
            if is_search(part):
                leaves += self.leaves(part.estimator)
            elif self.price(path, part) is not None and self.mine(part):
                leaves.append(part)
        return leaves

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

        A fit is (times, cost, candidates that it may be of).
        """
        splitter = splitter_of(cv)
        bill, parts, private, dearest_scores = Bill([], []), self.leaves(estimator), True, []
        for _, _, candidates in fits:
            lists = [scorers for c in candidates for scorers in self.scorers(c, scoring)]
            private &= all(has_price(scorer) for scorers in lists for scorer in scorers)
            lists = [[s for s in scorers if has_price(s) and self.mine(s)] for scorers in lists]
            parts += [leaf for candidate in candidates for leaf in self.leaves(candidate)]
            parts += [scorer for scorers in lists for scorer in scorers]
            # Which candidate is scored is not known, so each score counts as the dearest one.
            prices = [_sum([scorer.privacy_cost() for scorer in scorers]) for scorers in lists]
            dearest_scores.append((max(map(len, lists)), _cover(prices)))
        adjacencies = {relation_of(budget_of(part)) for part in parts}
        classifier = is_classifier(estimator)
        check_splits(cv, splitter, adjacencies, self.n_samples)
        halving = [] if search is None else check_halving(search, classifier, adjacencies)
        n_splits = number_of_splits(splitter, self.n_samples, self.groups)
        for (times, cost, _), (n_scorers, score) in zip(fits, dearest_scores, strict=True):
            n_fits = times * n_splits
            n_scores = n_fits * (2 if return_train_score else 1)
            bill.n_fits += n_fits
            bill.n_scores += n_scores * n_scorers
            if cost is not None:
                bill.lines.append((n_fits, cost, "fits on training folds"))
            if score is not None:
                bill.lines.append((n_scores, score, "private scores"))
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
        dearest = _cover(costs)
        halving = is_halving(search)
        if halving:
            number = _halving_fits(len(costs) if number is None else number, params["factor"])
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


# Their own epsilon and delta play no part.
_ACCOUNTANTS = [ACCOUNTANTS[name](1.0, 0.5) for name in ("basic", "gdp", "zcdp")]


def _cover(prices: Sequence[Cost | None]) -> Cost | None:
    """Return a cost that no price exceeds: which candidate is refitted is not known."""
    costs = [cost for cost in prices if cost is not None]
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
    return total(union.items())


def _sum(costs: Sequence[Cost]) -> Cost | None:
    """Add costs up; None if there are none."""
    return total((cost, 1) for cost in costs) if costs else None


def _sums(cost: Cost) -> list[float]:
    """Return the sums that accountants keep of a cost."""
    amounts = [accountant.price(cost) for accountant in _ACCOUNTANTS]
    return [float(part) for amount in amounts for part in (amount.main, amount.separate)]


# --- candidates of a search -----------------------------------------------------------------------

_MOST_CHOICES = 1000  # candidates that are priced one by one where the draw is not known


def candidates_of(
    search: Any, n_samples: int | None = None, groups: Any = None
) -> tuple[list[Any], int | None]:
    """Return the candidates of a search, or (all that may be drawn, how many are) if random.

    Raises TypeError or ValueError, with the way out, if they cannot be known.
    """
    params = search.get_params(deep=False)
    if "param_grid" in params:
        choices, number = list(ParameterGrid(params["param_grid"])), None
    else:
        choices, number = _drawn(search, params, n_samples, groups)
    if params.get("resource", "n_samples") != "n_samples":
        # The resource grows from round to round; no round uses more than max_resources.
        resource = {params["resource"]: params["max_resources"]}
        choices = [{**choice, **resource} for choice in choices]
    base = search.estimator
    return [clone(base).set_params(**clone(c, safe=False)) for c in choices], number


def _drawn(
    search: Any, params: Mapping[str, Any], n_samples: int | None, groups: Any
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the parameters that a random search draws, or (all that may be, how many are)."""
    halving = is_halving(search)
    number = _first_round(params, n_samples, groups) if halving else int(params["n_iter"])
    random_state, distributions = params["random_state"], params["param_distributions"]
    known = check_random_state(random_state) is not check_random_state(None)
    # A halving search shares a RandomState with its splitter, so its draws cannot be repeated.
    if known and not (halving and isinstance(random_state, np.random.RandomState)):
        sampler = ParameterSampler(distributions, number, random_state=copy.deepcopy(random_state))
        return list(sampler), None
    # Any parameter may change the cost, so all candidates that may be drawn are priced.
    grids = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    drawn = [name for grid in grids for name, values in grid.items() if hasattr(values, "rvs")]
    if drawn:
        raise ValueError(
            f"random_state must be an int to price a search that draws {drawn[0]} from a "
            "distribution"
        )
    grid = ParameterGrid(grids)
    if len(grid) > _MOST_CHOICES:
        raise ValueError(
            f"random_state must be an int to price a search with more than {_MOST_CHOICES} "
            "candidates to draw from"
        )
    return list(grid), min(number, len(grid)) if halving else number


def _first_round(params: Mapping[str, Any], n_samples: int | None, groups: Any) -> int:
    """Return how many candidates a random halving search begins with, at most."""
    if params["n_candidates"] != "exhaust":
        return int(params["n_candidates"])
    least, most = params["min_resources"], params["max_resources"]
    if least == "exhaust":
        raise ValueError("n_candidates and min_resources cannot be both 'exhaust'")
    by_rows = params["resource"] == "n_samples"
    if most == "auto" or (by_rows and least == "smallest"):
        if not by_rows:
            raise ValueError("max_resources must be an integer for a resource other than rows")
        if n_samples is None:
            raise ValueError(
                "n_samples must be given to price a search with n_candidates='exhaust', whose "
                "number of candidates depends on it; or state n_candidates"
            )
    most = n_samples if most == "auto" else most
    if least == "smallest":
        # Times the number of classes in y, which is not known: at least one.
        splits = number_of_splits(splitter_of(params["cv"]), n_samples, groups) if by_rows else 0
        least = max(2 * splits, 1)
    if most < least:
        raise ValueError(f"min_resources={least} is more than there is: max_resources={most}")
    return int(most // least)


def _halving_fits(n_candidates: int, factor: float) -> int:
    """Return an upper bound on the candidates that successive halving fits, over all rounds."""
    fits, remaining = 0, n_candidates
    for _ in range(1 + math.floor(math.log(n_candidates, factor))):
        fits += remaining
        remaining = math.ceil(remaining / factor)
    return fits
