"""What a search will charge, before it runs: `search_cost` and `cross_val_cost`.

Nothing is released here and no row is read. A price is the sum of what every fit of every
candidate, every private score and the refit will charge; `PrivacyBudget.reserve` sets it aside,
so that a search that cannot be paid is refused before it starts. (scikit-learn turns an exception
in ``fit`` into a NaN score: a search whose budget runs out half-way would go on with what is left
of its candidates.)

Which folds keep the sum of the charges a guarantee for the search as a whole: under
"replace_one" the folds by position, under "add_or_remove_one" the folds by content of
`PerRecordKFold`. Everything else is said in the cost's `note`, which a reservation can write
into the ledger.
"""

from __future__ import annotations

import html
import numbers
from collections.abc import Sequence
from typing import Any

from sklearn.model_selection import check_cv

from skdp.base.leaks import has_price, is_search
from skdp.budget import Cost
from skdp.model_selection._check import look_into
from skdp.model_selection._findings import Finding, PipelineCheck
from skdp.model_selection._pricing import Bill, Pricer
from skdp.parameters import FLAG, check_integer, check_parameter, naming


class SearchCost(Cost):
    """The cost of a search: a `Cost` that also shows what it consists of.

    Parameters
    ----------
    cost : Cost
        The whole cost.
    n_fits : int, default=0
        Number of fits of whole candidates, including the refit.
    n_scores : int, default=0
        Number of calls of private scorers.
    note : str, default=""
        What the cost does not cover. ``budget.reserve(cost, note=cost.note)`` writes it into the
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
        """Return the cost, what it does not cover, and what was found, for notebooks."""
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


def _cost_of(bill: Bill, of: Any, pricer: Pricer) -> SearchCost:
    return SearchCost(
        bill.total(),
        n_fits=bill.n_fits,
        n_scores=bill.n_scores,
        note="; ".join(dict.fromkeys((*bill.notes, *pricer.notes))),
        findings=look_into(of, pricer.n_samples, pricer.groups),
    )


def search_cost(
    search: Any, n_samples: int | None = None, *, groups: Any = None, budget: Any = None
) -> SearchCost:
    """Return the price of a search before it runs: all fits, private scores and the refit.

    Each candidate is made as in the search (``clone`` and ``set_params``), so ``epsilon`` itself
    may be searched over. The private estimators are found in the search's estimator and in
    `Pipeline`, `FeatureUnion`, `ColumnTransformer`, `TransformedTargetRegressor`, voting estimators
    and nested searches.

    **What the cost covers.** The fits and the private scores. With C candidates and K folds, each
    candidate has a record in K - 1 training folds and in one test fold; the refit has it once more.
    By sequential composition its privacy loss is at most C ((K - 1)
    epsilon_fit + epsilon_score) + epsilon_refit. The ledger adds all C K + 1 fits and C K scores,
    which is a little more, because it does not know which rows a fit read. The cost does not cover
    the *choice*: ``best_params_`` and ``cv_results_`` come from scores on private folds, and are
    private only with a `private_scorer`. The `note` says so if the scorer is not private, and if
    folds of neighbouring tables are not neighbouring. A private scorer inside a function or lambda
    is not seen: it is missing from the cost, and the note calls it not private. Pass the scorer
    itself.

    Parameters
    ----------
    search : GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV or HalvingRandomSearchCV
        An unfitted search. A random search with ``random_state=None`` must have no distributions;
        its price is that of the most expensive candidate, times the number of candidates. The price
        of a halving search is an upper bound.
    n_samples : int, default=None
        Number of rows that the search will be fitted on. Only needed if the number of splits, the
        price of an estimator or the number of candidates
        (``HalvingRandomSearchCV(n_candidates="exhaust")``) depends on it.
    groups : array-like of shape (n_samples,), default=None
        Passed to ``get_n_splits`` of splitters that need the groups.
    budget : PrivacyBudget, default=None
        Count only what is charged to this budget. None counts everything, including estimators with
        a budget of their own or without one.

    Returns
    -------
    cost : SearchCost
        Set it aside with ``budget.reserve(cost, note=cost.note)``. Its `findings` are those of
        `check_pipeline`.

    Raises
    ------
    TypeError
        If a meta-estimator fits a private estimator an unknown number of times, or has a budget
        and no privacy_cost method.
    ValueError
        If nothing in the search has a cost, ``cv`` is an iterator, or ``random_state`` must be
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
    if has_price(search) and hasattr(search, "run_cost"):
        name = type(search).__name__
        raise TypeError(
            f"search has a cost of its own, whatever its candidates: {name}.privacy_cost()"
        )
    if not is_search(search):
        raise TypeError(
            "search must be a GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV or "
            f"HalvingRandomSearchCV, got {type(search).__name__}; for cross_val_score use "
            "cross_val_cost"
        )
    pricer = Pricer(n_samples, groups, budget)
    return _cost_of(pricer.search(search), search, pricer)


def _check_splits(cv: Any) -> None:
    """Refuse what makes no splits; an iterator of them is refused where they are counted."""
    if isinstance(cv, numbers.Integral):
        check_integer(cv, "cv", low=2, high=2**40)
    splits = check_cv(cv)
    if hasattr(cv, "__len__") and not isinstance(cv, str):
        if not len(cv) or any(
            isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2 for pair in cv
        ):
            raise ValueError("a list must hold pairs of rows to fit on and rows to score")
    elif not hasattr(splits, "get_n_splits"):
        raise TypeError("a number of folds, a splitter or a list of splits is needed")


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
    """Return the price of `cross_val_score` or `cross_validate`: a fit and a score per split.

    Parameters
    ----------
    estimator : estimator
        As given to ``cross_val_score``. It may be a pipeline or a search (nested search).
    cv : int, splitter or list of splits, default=None
        As given to ``cross_val_score``; None is 5 folds.
    n_samples : int, default=None
        Number of rows; only needed if the number of splits depends on it.
    scoring : callable, str, list, dict or None, default=None
        As given to ``cross_val_score``. Private scorers are counted, unless they are inside a
        function or lambda. None takes the scorer of a search.
    return_train_score : bool, default=False
        Whether the training folds are scored too; private scorers charge for these calls as well.
    groups : array-like of shape (n_samples,), default=None
        Passed to ``get_n_splits`` of splitters that need the groups.
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
        If nothing has a cost, or ``cv`` is an iterator.

    Examples
    --------
    >>> from skdp import DPKMeans
    >>> from skdp.model_selection import cross_val_cost
    >>> cross_val_cost(DPKMeans(4, epsilon=0.1, bounds=(0.0, 1.0)), cv=5).epsilon
    0.5
    """
    pricer = Pricer(n_samples, groups, budget)
    check_parameter(return_train_score, "return_train_score", FLAG)
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise TypeError(f"estimator must be an estimator, got {type(estimator).__name__}")
    with naming("cv"):
        _check_splits(cv)
    fit = pricer.one_fit(estimator)
    bill = pricer.folds(estimator, cv, scoring, return_train_score, [(1, fit, [estimator])])
    return _cost_of(bill, estimator, pricer)
