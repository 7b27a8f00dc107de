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

import copy
import math
import numbers
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    LeavePOut,
    ParameterGrid,
    ParameterSampler,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import check_random_state

from skdp.budget import Cost, PrivacyBudget, pure_mu
from skdp.model_selection._folds import PerRecordKFold

__all__ = ["SearchCost", "cross_val_cost", "search_cost"]

_PER_ROW_NOTE = (
    "folds of PerRecordKFold differ in size between tables that differ in one replaced record: "
    "they are neighbouring under adjacency='add_or_remove_one' only"
)
_INDEX_NOTE = (
    "under adjacency='add_or_remove_one' only PerRecordKFold gives neighbouring folds: with "
    "another splitter one record moves others between folds, and the sum of the charges is not "
    "a guarantee for the search"
)
_LABEL_NOTE = (
    "folds drawn from labels or groups (scikit-learn stratifies classifiers by default) are "
    "neighbouring only where those are public; KFold splits by position"
)
_SCORE_NOTE = (
    "the ledger covers the fits, not the choice: the scores come from private folds and the "
    "scorer is not private (see private_scorer)"
)
_HALVING_NOTE = "an upper bound: halving may stop after fewer rounds"
_MEMORY_NOTE = "an upper bound: steps that Pipeline(memory=...) takes from its cache charge nothing"

_MOST_CHOICES = 1000  # candidates that are priced one by one where the draw is not known

# Splitters whose folds are a function of the positions alone (n is public under replace_one).
_BY_POSITION = (
    KFold,
    LeaveOneOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)


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
    """

    def __init__(self, cost: Cost, *, n_fits: int = 0, n_scores: int = 0, note: str = "") -> None:
        set_ = object.__setattr__  # a Cost is frozen
        for name, value in vars(cost).items():
            set_(self, name, value)
        set_(self, "n_fits", n_fits)
        set_(self, "n_scores", n_scores)
        set_(self, "note", note)

    n_fits: int
    n_scores: int
    note: str

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

    def total(self, more_notes: Sequence[str] = ()) -> SearchCost:
        """Add the lines up."""
        total = _sum([times * cost for times, cost in self.lines if times])
        if total is None:
            raise ValueError(
                "nothing in the search has a price: neither the estimator nor the scorer has "
                "a privacy_cost method (or none charges the given budget)"
            )
        note = "; ".join(dict.fromkeys((*self.notes, *more_notes)))
        return SearchCost(total, n_fits=self.n_fits, n_scores=self.n_scores, note=note)


def _is_search(estimator: Any) -> bool:
    """Say whether this is one of scikit-learn's searches (by its parameters)."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return False
    names = estimator.get_params(deep=False)
    return {"estimator", "cv", "refit", "scoring"} <= names.keys() and (
        "param_grid" in names or "param_distributions" in names
    )


def _steps(estimator: Any) -> list[Any] | None:
    """Return what a container fits once each, or None if it is not a container known to do so."""
    if isinstance(estimator, Pipeline):
        return [step for _, step in estimator.steps]
    if isinstance(estimator, FeatureUnion):
        return [step for _, step in estimator.transformer_list]
    if isinstance(estimator, ColumnTransformer):
        return [step for _, step, _ in estimator.transformers] + [estimator.remainder]
    if isinstance(estimator, TransformedTargetRegressor):
        return [estimator.regressor, estimator.transformer]
    if isinstance(estimator, VotingClassifier | VotingRegressor):
        return [step for _, step in estimator.estimators]
    return None


def _is_private(name: str, value: Any) -> bool:
    """Say whether this parameter tells of charges: a private part, a search or a ledger."""
    if hasattr(value, "privacy_cost") or _is_search(value) or isinstance(value, PrivacyBudget):
        return True
    return name.rpartition("__")[2] == "budget" and value is None


def _priced_parts(estimator: Any) -> list[Any]:
    """Return the estimators and searches that one fit of `estimator` fits, each once."""
    if isinstance(estimator, FrozenEstimator):
        return []  # never fitted again; it passes on the attributes of what it holds
    if hasattr(estimator, "privacy_cost") or _is_search(estimator):
        return [estimator]
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return []  # "drop", "passthrough", None, a function
    steps = _steps(estimator)
    if steps is not None:
        return [part for step in steps for part in _priced_parts(step)]
    inside = estimator.get_params(deep=True)
    if any(_is_private(name, value) for name, value in inside.items()):
        raise TypeError(
            f"cannot tell how often {type(estimator).__name__} fits the private estimators "
            "inside it or charges its budget: give it a privacy_cost(n_samples=None, "
            "n_features=None) method"
        )
    return []


def _adjacency(part: Any) -> str:
    """Return the neighbouring relation that a part's charges are made under."""
    return getattr(getattr(part, "budget", None), "adjacency", "replace_one")


def _scorers(scoring: Any) -> list[Any]:
    """Return the scorers of a ``scoring`` argument, names and None included."""
    if isinstance(scoring, Mapping):
        return list(scoring.values())
    if isinstance(scoring, list | tuple | set):
        return list(scoring)
    return [scoring]


def _scorer_lists(estimator: Any, scoring: Any) -> list[list[Any]]:
    """Return what may score `estimator`: lists of scorers, of which each score calls one list.

    With ``scoring=None`` that is the ``score`` method, which a pipeline takes from its last step
    and a search from its own ``scoring``, or else from its best candidate.
    """
    if scoring is not None:
        return [_scorers(scoring)]
    if isinstance(estimator, FrozenEstimator):
        return _scorer_lists(estimator.estimator, None)
    if isinstance(estimator, Pipeline) and estimator.steps:
        return _scorer_lists(estimator.steps[-1][1], None)
    if not _is_search(estimator):
        return [[None]]
    if isinstance(estimator.scoring, Mapping) and isinstance(estimator.refit, str):
        return [[estimator.scoring.get(estimator.refit)]]
    if estimator.scoring is not None:
        return [_scorers(estimator.scoring)]
    candidates, _ = _candidates(estimator)
    return [scorers for candidate in candidates for scorers in _scorer_lists(candidate, None)]


def _splitter(cv: Any) -> Any:
    """Return the splitter that scikit-learn would make of ``cv``."""
    if isinstance(cv, Iterator):
        raise ValueError(
            "cv is an iterator, which pricing the search would exhaust: pass a list of splits"
        )
    return check_cv(cv)


def _n_splits(splitter: Any, n_samples: int | None, groups: Any) -> int:
    """Return the number of splits, from the number of rows at most."""
    if n_samples is None:
        if isinstance(splitter, LeaveOneOut | LeavePOut):
            raise ValueError(
                f"n_samples must be given for {type(splitter).__name__}, whose number of splits "
                "depends on it"
            )
        return int(splitter.get_n_splits(None, None, groups))
    stand_in = np.broadcast_to(np.float64(0.0), (n_samples, 1))
    return int(splitter.get_n_splits(stand_in, None, groups))


def _fold_notes(cv: Any, splitter: Any, estimator: Any, adjacencies: set[str]) -> list[str]:
    """Say where the folds of neighbouring tables are not neighbouring tables."""
    per_record = isinstance(splitter, PerRecordKFold)
    notes = []
    if "add_or_remove_one" in adjacencies and not per_record:
        notes.append(_INDEX_NOTE)
    if "replace_one" in adjacencies:
        given = not hasattr(cv, "split") and not (cv is None or isinstance(cv, numbers.Integral))
        stratified = (cv is None or isinstance(cv, numbers.Integral)) and is_classifier(estimator)
        if per_record:
            notes.append(_PER_ROW_NOTE)
        elif stratified or not (given or isinstance(splitter, _BY_POSITION)):
            notes.append(_LABEL_NOTE)
    return notes


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
        return self.budget is None or getattr(part, "budget", None) is self.budget

    def one_fit(self, estimator: Any) -> Cost | None:
        """Return the price of one fit of `estimator`; None if it charges nothing."""
        costs: list[Cost] = []
        for part in _priced_parts(estimator):
            if _is_search(part):
                bill = self.search(part)
                self.notes += bill.notes
                costs += [times * cost for times, cost in bill.lines if times]
            elif self.mine(part):
                cost = part.privacy_cost(n_samples=self.n_samples)
                costs += [] if cost is None else [cost]  # None: it releases nothing
        return _sum(costs)

    def leaves(self, estimator: Any) -> list[Any]:
        """Return the private estimators that a fit of `estimator` reaches, in any depth."""
        found = []
        for part in _priced_parts(estimator):
            if _is_search(part):
                found += self.leaves(part.estimator)
            elif part.privacy_cost(n_samples=self.n_samples) is not None:
                found.append(part)
        return [part for part in found if self.mine(part)]

    def folds(
        self,
        estimator: Any,
        cv: Any,
        scoring: Any,
        return_train_score: bool,
        fits: Sequence[tuple[int, Cost | None, Sequence[Any]]],
    ) -> _Bill:
        """Price `fits` on every split, with their scores.

        A fit is (times, cost, what may be fitted).
        """
        splitter = _splitter(cv)
        n_splits = _n_splits(splitter, self.n_samples, self.groups)
        bill = _Bill([], [])
        parts = self.leaves(estimator)
        private = True
        for times, cost, candidates in fits:
            n_fits = times * n_splits
            bill.n_fits += n_fits
            if cost is not None:
                bill.lines.append((n_fits, cost))
            lists = [list_ for c in candidates for list_ in _scorer_lists(c, scoring)]
            private &= all(hasattr(s, "privacy_cost") for list_ in lists for s in list_)
            lists = [
                [s for s in list_ if hasattr(s, "privacy_cost") and self.mine(s)] for list_ in lists
            ]
            calls = n_fits * (2 if return_train_score else 1)
            sums = [_sum([s.privacy_cost() for s in list_]) for list_ in lists if list_]
            dearest = _cover([cost for cost in sums if cost is not None])
            if dearest is not None:
                bill.lines.append((calls, dearest))
            bill.n_scores += calls * max(len(list_) for list_ in lists)
            parts += [leaf for c in candidates for leaf in self.leaves(c)]
            parts += [s for list_ in lists for s in list_]
        bill.notes += _fold_notes(cv, splitter, estimator, {_adjacency(part) for part in parts})
        if not private:
            bill.notes.append(_SCORE_NOTE)
        pipelines = [estimator, *estimator.get_params(deep=True).values()]
        if any(isinstance(p, Pipeline) and p.memory is not None for p in pipelines):
            bill.notes.append(_MEMORY_NOTE)
        return bill

    def search(self, search: Any) -> _Bill:
        """Price a whole search: every candidate on every split, scores, and the refit."""
        params = search.get_params(deep=False)
        candidates, n_iter = _candidates(search)
        costs = [self.one_fit(candidate) for candidate in candidates]
        dearest = _cover([cost for cost in costs if cost is not None])
        halving = "aggressive_elimination" in params
        if halving:
            n_iter = _halving_fits(len(costs), params["factor"])
        if n_iter is None:
            fits = [(1, cost, [c]) for cost, c in zip(costs, candidates, strict=True)]
        else:
            fits = [(n_iter, dearest, candidates)]
        bill = self.folds(
            search.estimator, search.cv, search.scoring, search.return_train_score, fits
        )
        if search.refit:
            bill.n_fits += 1
            if dearest is not None:
                bill.lines.append((1, dearest))
        if halving:
            bill.notes.append(_HALVING_NOTE)
        return bill


def _candidates(search: Any) -> tuple[list[Any], int | None]:
    """Return the candidates of a search, or (what they may be, how many) if they are random."""
    chosen, n_iter = _choices(search.get_params(deep=False))
    made = [clone(search.estimator).set_params(**clone(choice, safe=False)) for choice in chosen]
    return made, n_iter


def _choices(params: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int | None]:
    """Return the parameters of the candidates, or (what they may be, how many) if random."""
    if "param_grid" in params:
        candidates = list(ParameterGrid(params["param_grid"]))
        if params.get("resource", "n_samples") != "n_samples":
            # The resource grows from round to round; no round uses more than max_resources.
            for candidate in candidates:
                candidate[params["resource"]] = params["max_resources"]
        return candidates, None
    if "n_iter" not in params:
        raise TypeError(
            "the number of candidates of this search depends on the number of rows: use "
            "HalvingGridSearchCV, GridSearchCV or RandomizedSearchCV"
        )
    random_state = check_random_state(params["random_state"])
    distributions, n_iter = params["param_distributions"], int(params["n_iter"])
    if random_state is not check_random_state(None):
        sampler = ParameterSampler(distributions, n_iter, random_state=copy.deepcopy(random_state))
        return list(sampler), None
    # Any parameter may change the price, so all that may be drawn are priced.
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
    return list(grid), n_iter


def _halving_fits(n_candidates: int, factor: float) -> int:
    """Return an upper bound of the candidates that successive halving fits, over all rounds."""
    fits, left = 0, n_candidates
    for _ in range(1 + math.floor(math.log(n_candidates, factor))):
        fits += left
        left = math.ceil(left / factor)
    return fits


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
        To be set aside by ``budget.reserve(cost, note=cost.note)``.

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
    if not _is_search(search):
        raise TypeError(
            "search must be a GridSearchCV, RandomizedSearchCV or HalvingGridSearchCV, got "
            f"{type(search).__name__}; for cross_val_score use cross_val_cost"
        )
    pricer = _Pricer(n_samples, groups, budget)
    return pricer.search(search).total(pricer.notes)


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
    return bill.total(pricer.notes)
