"""Future charges, before any row is read: `plan`, `search_cost` and `cross_val_cost`.

The sum of the charges is a guarantee for the search as a whole if folds of neighbouring tables are
neighbouring: folds by position under "replace_one", folds by content (`PerRecordKFold`) under
"add_or_remove_one". The `note` of a cost says what else it does not cover.
"""

from __future__ import annotations

import html
import inspect
import math
import numbers
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline

from skdp._docstrings import documenter, shared_texts
from skdp.base import check_without_rows
from skdp.base.leaks import has_price, is_search
from skdp.budget import Cost
from skdp.budget.reports.html import html_table, text_table
from skdp.loss.charge import total
from skdp.loss.conversions import loss_text, rounded_amount
from skdp.model_selection._check import Finding, PipelineCheck, look_into
from skdp.model_selection._pricing import Bill, Pricer, naming_step, private_parts
from skdp.parameters import FLAG, check_integer, check_parameter, naming

_documented = documenter(
    {
        "priced": """
            groups : array-like of shape (n_samples,), default=None
                Passed to ``get_n_splits`` of splitters that need the groups.
            budget : PrivacyBudget, default=None
                Count only what is charged to this budget; None counts everything.
            """,
        "unknown_price": """
            TypeError
                If a meta-estimator fits a private estimator an unknown number of times, or has a
                budget and no privacy_cost method.
            """,
    }
)


@shared_texts
@dataclass(frozen=True)
class PlannedCharge:
    """One line of a plan: a charge, and how often it will be made.

    Attributes
    ----------
    step : str
        The name of the step, preceded by the names of the steps that contain it; "" for the
        estimator itself.
    estimator : str
        The class that is charged.
    times : int
        How often the charge is made.
    cost : skdp.budget.Cost or None
        The cost of one charge; None if nothing is released.
    error : float
        The `expected_error` of the step at `n_samples` rows (the largest, if it returns several);
        NaN if it has no answer. The docstring of the class gives the unit.
    note : str
        Why there is no error; for a search, what the charges are for.
    """

    step: str
    estimator: str
    times: int
    cost: Cost | None
    error: float = math.nan
    note: str = ""

    def cells(self) -> tuple[Any, ...]:
        """Return the line as values: step, estimator, times, epsilon, delta, error, note."""
        cost = self.cost
        spent = (0.0, 0.0) if cost is None else (float(cost.epsilon), float(cost.delta))
        return (self.step, self.estimator, self.times, *spent, self.error, self.note)


_HEAD = ("step", "estimator", "times", "epsilon", "delta", "expected error", "note")


@shared_texts
class ChargePlan(Sequence[PlannedCharge]):
    """The future charges, in the order of the steps, and their sum.

    Parameters
    ----------
    charges : iterable of PlannedCharge
    total : skdp.budget.Cost or None
        Sum of all charges; None if nothing is charged.
    note : str
        What the sum does not cover, and how many findings `check_pipeline` has.
    """

    def __init__(
        self, charges: Sequence[PlannedCharge], total: Cost | None = None, note: str = ""
    ) -> None:
        self.charges, self.total, self.note = tuple(charges), total, note

    def __len__(self) -> int:
        return len(self.charges)

    def __getitem__(self, item: Any) -> Any:
        return self.charges[item]

    def _rows(self) -> list[tuple[str, ...]]:
        total = (0.0, 0.0) if self.total is None else (self.total.epsilon, self.total.delta)
        lines = [*(one.cells() for one in self), ("total", "", "", *total, math.nan, self.note)]
        rows = []
        for step, name, times, *prices, error, note in lines:
            price = [f"{rounded_amount(one):g}" for one in prices]
            off = "" if math.isnan(error) else f"{error:.3g}"
            rows.append((step, name, str(times), *price, off, note))
        return rows

    def __repr__(self) -> str:
        head, _, *rows = text_table(_HEAD, self._rows())
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        """Return the plan as a table, for notebooks."""
        return html_table(_HEAD, self._rows())

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, a row for each charge.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas.") from None
        names = ["step", "estimator", "times", "epsilon", "delta", "expected_error", "note"]
        return pd.DataFrame([charge.cells() for charge in self.charges], columns=names)


def _error(part: Any, n_samples: int | None, width: int | None) -> tuple[float, str]:
    """Return the error of one fit; NaN, and why, if it is not known."""
    if not hasattr(part, "expected_error"):
        return math.nan, "has no expected error"
    if n_samples is None:
        return math.nan, "state n_samples"
    known = inspect.signature(part.expected_error).parameters
    options = {"n_features": width} if "n_features" in known else {}
    try:
        errors = part.expected_error(n_samples, **options)
    except (TypeError, ValueError) as error:
        if "like must be" in str(error):  # each step needs rows of its own
            call = f"{type(part).__name__}.expected_error({n_samples}, like=...)"
            return math.nan, f"depends on the rows: ask {call}"
        if width is None and "n_features must be given" in str(error):
            return math.nan, "how many columns the step gets is not known beforehand"
        return math.nan, str(error)
    return float(np.max(np.asarray(errors, dtype=np.float64))), ""


def _widths(estimator: Any, n_features: int | None) -> dict[int, int | None]:
    """Return the number of columns that each step gets, as far as parameters tell, by its id."""
    widths: dict[int, int | None] = {id(estimator): n_features}
    if isinstance(estimator, ColumnTransformer):
        for _, step, columns in estimator.transformers:
            widths |= _widths(step, len(columns) if isinstance(columns, list | tuple) else None)
    elif isinstance(estimator, Pipeline):
        width = n_features
        for _, step in estimator.steps:
            widths |= _widths(step, width)
            if not (isinstance(step, OneToOneFeatureMixin) or step in ("passthrough", None)):
                number = getattr(step, "n_components", None)
                width = number if isinstance(number, int) else None
    return widths


def _lines(estimator: Any, pricer: Pricer, n_features: int | None) -> list[PlannedCharge]:
    """Return the charges of one fit; of a search inside, equal charges as one line."""
    widths, lines = _widths(estimator, n_features), []
    for path, part in private_parts(estimator):
        name = type(part).__name__
        if is_search(part) and not has_price(part):
            bill = pricer.search(part)
            pricer.notes = [*bill.notes, *pricer.notes]
            counts: Counter[tuple[Cost, str]] = Counter()
            for times, cost, what in bill.lines:
                counts[cost, what] += times
            lines += [
                PlannedCharge(path, name, times, cost, note=what)
                for (cost, what), times in counts.items()
                if times
            ]
        elif pricer.mine(part):
            with naming_step(path):
                check_without_rows(part)
            width = widths.get(id(part))
            price = pricer.price(path, part, width)
            error, note = _error(part, pricer.n_samples, width)
            if price is None:
                error, note = math.nan, "nothing is released"
            lines.append(PlannedCharge(path, name, 1, price, error, note))
    return lines


@_documented
def plan(
    estimator: Any,
    n_samples: int | None = None,
    n_features: int | None = None,
    *,
    groups: Any = None,
    budget: Any = None,
) -> ChargePlan:
    """Return every charge that a fit will make, step by step, with the error that it buys.

    Parameters
    ----------
    estimator : estimator
        A private estimator, a pipeline (`ColumnTransformer`, `FeatureUnion`, ...) with private
        steps, or a scikit-learn search over either; fitted or not.
    n_samples : int, default=None
        Number of rows, as far as it is public. Without it no error is shown.
    n_features : int, default=None
        Number of columns of X. Parameters tell the number after a step that changes it, or no error
        is shown.
    {priced}

    Returns
    -------
    plan : ChargePlan
        A sequence of `PlannedCharge`; `total` is their sum. ``budget.reserve(plan.total)`` sets it
        aside.

    Raises
    ------
    {unknown_price}
    ValueError
        If a parameter of a step is wrong; the message names the step.

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*, *charged*: nothing, because no row is read.

    Errors of the fits of a search are not shown: each uses fewer than `n_samples` rows.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> import skdp
    >>> pipeline = make_pipeline(
    ...     skdp.DPMinMaxScaler(bounds=(0, 100)), skdp.DPKMeans(4, bounds=(0, 1), epsilon=0.5)
    ... )
    >>> planned = skdp.plan(pipeline, n_samples=10_000, n_features=3)
    >>> [(charge.step, charge.times) for charge in planned], float(planned.total.epsilon)
    ([('dpminmaxscaler', 1), ('dpkmeans', 1)], 0.5)
    """
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise TypeError(f"estimator must be an estimator, got {type(estimator).__name__}")
    pricer = Pricer(n_samples, groups, budget)
    lines = _lines(estimator, pricer, n_features)
    notes = pricer.notes
    if findings := look_into(estimator, pricer.n_samples, groups):
        what = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
        notes.append(f"check_pipeline has {what} beside these charges")
    parts = [(line.cost, line.times) for line in lines if line.cost is not None]
    return ChargePlan(lines, total(parts) if parts else None, "; ".join(dict.fromkeys(notes)))


# --- the price of a search ------------------------------------------------------------------------


class SearchCost(Cost):
    """The cost of a search: a `Cost` with its numbers of fits and scores, and notes.

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
        more = {"n_fits": n_fits, "n_scores": n_scores, "note": note}
        for name, value in {**vars(cost), **more, "findings": PipelineCheck(findings)}.items():
            object.__setattr__(self, name, value)  # a Cost is frozen

    n_fits: int
    n_scores: int
    note: str
    findings: PipelineCheck

    def _repr_html_(self) -> str:
        """Return the cost, what it does not cover, and what was found, for notebooks."""
        note = f"<p>Not covered: {html.escape(self.note)}.</p>" if self.note else ""
        return (
            f"<div><p><strong>({loss_text(self)})</strong> for {self.n_fits} fits "
            f"and {self.n_scores} private scores.</p>{note}{self.findings.to_html()}</div>"
        )

    def __repr__(self) -> str:
        return (
            f"SearchCost({loss_text(self)}, n_fits={self.n_fits}, "
            f"n_scores={self.n_scores}, note={self.note!r})"
        )


def _cost_of(bill: Bill, estimator: Any, pricer: Pricer) -> SearchCost:
    return SearchCost(
        bill.total(),
        n_fits=bill.n_fits,
        n_scores=bill.n_scores,
        note="; ".join(dict.fromkeys((*bill.notes, *pricer.notes))),
        findings=look_into(estimator, pricer.n_samples, pricer.groups),
    )


@_documented
def search_cost(
    search: Any, n_samples: int | None = None, *, groups: Any = None, budget: Any = None
) -> SearchCost:
    """Return the price of a search before it runs: all fits, private scores and the refit.

    Each candidate is made as in the search, so ``epsilon`` itself may be searched over. Private
    estimators count at any depth: in pipelines, column transformers, voting, nested searches.

    **What the cost covers.** The fits and the private scores: of C candidates and K folds, C K + 1
    fits and C K scores. (A record is in K - 1 training folds and one test fold, so its privacy loss
    is a little less, but the ledger does not know which rows a fit read.) The cost does not cover
    the *choice*: ``best_params_`` and ``cv_results_`` come from scores on private folds, and are
    private only with a `private_scorer`. The `note` says so if the scorer is not private, and if
    folds of neighbouring tables are not neighbouring. Pass the scorer itself: inside a function or
    lambda it is not seen.

    Parameters
    ----------
    search : GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV or HalvingRandomSearchCV
        An unfitted search. A random search with ``random_state=None`` must have lists only; all its
        candidates count as the most expensive one. The price of halving is an upper bound.
    n_samples : int, default=None
        Number of rows that the search will be fitted on. Only needed if the number of splits, a
        price or the number of candidates (``n_candidates="exhaust"``) depends on it.
    {priced}

    Returns
    -------
    cost : SearchCost
        Set it aside with ``budget.reserve(cost, note=cost.note)``.

    Raises
    ------
    {unknown_price}
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
    """Refuse a cv that makes no splits; iterators are refused where splits are counted."""
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


@_documented
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
        As given to ``cross_val_score``. None takes the scorer of a search.
    return_train_score : bool, default=False
        Whether the training folds are scored (and charged for), too.
    {priced}

    Raises
    ------
    {unknown_price}
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
