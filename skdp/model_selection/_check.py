"""Problems of a pipeline or search that its parameters show: `check_pipeline`.

The ledger counts what private steps charge. It cannot see that another step learns from the same
rows without noise, that a row counts several times, or that folds depend on private values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skdp._config import noise_is_seeded
from skdp.base import check_without_rows
from skdp.base.leaks import (
    ANY,
    LEARNS,
    NO_RESAMPLING,
    PRICE_IT,
    RESAMPLES,
    UNKNOWN,
    container_leaks,
    has_price,
    instead_of,
    is_search,
    leaks_of,
    learns_nothing,
    nested,
    quoted_cells,
    scorers_in,
    search_leaks,
    steps_of,
    telling_leaks,
    what_it_does,
    whole,
)
from skdp.budget import Cost, PrivacyBudget
from skdp.budget.ambient import ledger_of
from skdp.budget.reports.html import html_table
from skdp.core import check_allowance
from skdp.exceptions import BudgetExceededError, LedgerError, SealedBudgetError
from skdp.loss.charge import total
from skdp.loss.conversions import loss_text, rounded_amount
from skdp.model_selection._dry_run import DryRun, place_of, public_columns
from skdp.model_selection._folds import (
    WAY_OUT,
    check_halving,
    check_splits,
    fold_notes,
    relation_of,
    splitter_of,
)
from skdp.model_selection._pricing import (
    Pricer,
    below,
    budget_of,
    candidates_of,
    price_or_none,
    releases,
)
from skdp.parameters import Integers, check_parameter

_MOST_CANDIDATES = 100  # of a search that are looked at one by one

HIGH, MEDIUM, LOW = "high", "medium", "low"
_ORDER = (HIGH, MEDIUM, LOW)


@dataclass(frozen=True)
class Finding:
    """One thing that `check_pipeline` found.

    Parameters
    ----------
    severity : {"high", "medium", "low"}
        "high": the guarantee is lost without notice. "medium": something else leaks, or utility is
        lost. "low": a surprise. See "sharp edges" in the guide.
    where : str
        The step (by the name that ``set_params`` takes), its class, and its columns, if any.
    what : str
        What is wrong.
    way_out : str
        What to do instead.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skdp
    >>> skdp.check_pipeline(StandardScaler())[0].way_out
    'DPStandardScaler'
    """

    severity: str
    where: str
    what: str
    way_out: str

    def __str__(self) -> str:
        return f"[{self.severity}] {self.where}: {self.what}. Instead: {self.way_out}."


class PipelineCheck(Sequence[Finding]):
    """The findings of `check_pipeline`, worst first; empty (and so false) if there are none.

    Parameters
    ----------
    findings : iterable of Finding

    Examples
    --------
    >>> from skdp import DPKMeans, PrivacyBudget, check_pipeline
    >>> check_pipeline(DPKMeans(budget=PrivacyBudget(1.0)))
    check_pipeline: nothing found
    """

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        unique = dict.fromkeys(findings)
        self.findings = tuple(sorted(unique, key=lambda f: _ORDER.index(f.severity)))

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, item: Any) -> Any:
        return self.findings[item]

    def __repr__(self) -> str:
        if not self.findings:
            return "check_pipeline: nothing found"
        number = f"{len(self)} finding{'s' if len(self) > 1 else ''}"
        return "\n".join(
            [f"check_pipeline: {number}", *(f"  {finding}" for finding in self.findings)]
        )

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return the findings as a table for notebooks.

        Returns
        -------
        page : str
        """
        if not self.findings:
            return "<p>check_pipeline: nothing found</p>"
        rows = [(f.severity, f.where, f.what, f.way_out) for f in self.findings]
        return html_table(("severity", "where", "what", "instead"), rows)


def check_pipeline(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    groups: Any = None,
    n_rows: int | None = None,
) -> PipelineCheck:
    """Report what the ledger of a pipeline or search cannot see, before anything is fitted.

    With an empty table, ``X.iloc[:0]``, it also reports what a fit on such columns would refuse.

    It looks inside pipelines, meta-estimators and searches, at any depth, and reports

    - steps that are fitted on private rows and are not private;
    - splitters whose folds of neighbouring tables are not neighbouring, and searches that reveal
      the number of rows where it is private;
    - scorers that read private folds;
    - resampling (SMOTE, bootstrap), which makes one row count several times;
    - steps without a budget, or with different budgets; prices (of one step, of all steps or of a
      whole search) that exceed what the budget has left;
    - steps that do not get the ids of users (`groups`) that a budget with a `unit` needs;
    - parameters that every fit would refuse, or that mean something else in scikit-learn;
    - seeds, memory caches, and meta-estimators whose fits no cost can know.

    Parameters
    ----------
    estimator : estimator or search
        Not fitted and not changed.
    X, y, groups : table or column, default=None
        Only names and types are read, so ``X.iloc[:0]`` is enough. With `X`, the fit is tried on
        made-up rows up to its charge: all steps that refuse names, types, parameters, prices or the
        number of rows are reported together.
    n_rows : int, default=None
        The number of rows of the fit, if it is public; None: enough of them. More than 100,000
        count as 100,000.

    Returns
    -------
    findings : PipelineCheck
        A sequence of `Finding`, worst first; empty if nothing was found. Without a finding about
        a table, a fit on such a table is charged: it refuses nothing but what its cells or the
        ledger say by then.

    Notes
    -----
    **Privacy.** Only parameters, names and types are read, no rows; nothing is charged. *No finding
    is not a proof of privacy.* The check does not
    see what happens outside the estimator (how rows were chosen, or how scores are used), inside
    functions, or in classes that do something else than their parameters say. Without `X` it does
    not see parameters that are wrong for certain columns only, such as more components than
    columns. For density ratios, density estimators and `skdp.synthetic` it then checks some
    parameters; for third-party estimators, only what their `privacy_cost` refuses.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdp import DPKMeans, PrivacyBudget, check_pipeline
    >>> budget = PrivacyBudget(1.0)
    >>> for finding in check_pipeline(make_pipeline(StandardScaler(), DPKMeans(budget=budget))):
    ...     print(finding.where, "->", finding.way_out)
    standardscaler (StandardScaler) -> DPStandardScaler

    >>> import pandas as pd
    >>> columns = pd.DataFrame({"age": [40.0], "pay": [3.0]}).iloc[:0]
    >>> check_pipeline(DPKMeans(3, bounds={"pay": (0, 9)}, budget=budget), columns)[0].what
    "bounds must state every column; there are none for ['age']"
    """
    known = hasattr(estimator, "fit") or hasattr(estimator, "get_params")
    if isinstance(estimator, type) or not known:
        raise TypeError(
            f"estimator must be an estimator or a search, got {type(estimator).__name__}"
        )
    dry_run = None
    if X is not None:
        check_parameter(n_rows, "n_rows", None, Integers(1, 2**40))
        dry_run = DryRun(X, y, groups, n_rows)
    elif not (y is None and groups is None and n_rows is None):
        raise ValueError("X must be given with y, groups or n_rows: X.iloc[:0] is enough")
    return look_into(estimator, n_rows, groups, dry_run=dry_run)


def look_into(
    estimator: Any,
    n_samples: int | None = None,
    groups: Any = None,
    *,
    passes_ids: bool = False,
    dry_run: DryRun | None = None,
) -> PipelineCheck:
    """Do what `check_pipeline` does; with `passes_ids`, every step will get the ids of units."""
    walk = _Walk(n_samples, groups)
    walk.visit(estimator, "")
    if dry_run is not None:
        dry_run.run(estimator)
        refused = {finding.where for finding in walk.findings if finding.severity == HIGH}
        for problem in dry_run.problems:
            if problem[0] not in refused:
                walk.add(HIGH, *problem)
    walk.compare_budgets(prices=dry_run is None or bool(dry_run.lost or walk.searches))
    if not passes_ids:
        walk.findings += _steps_without_ids(estimator)
    return PipelineCheck(walk.findings)


def _grants(budget: PrivacyBudget, cost: Cost) -> bool:
    """Say whether the ledger grants this cost now, beside what is charged and set aside."""
    try:
        budget.check(cost)
    except BudgetExceededError:
        return False
    return True


def _refusal(part: Any) -> str:
    """Return what every fit says about these parameters; empty where it takes them."""
    try:
        check_without_rows(part)
        cost = part.privacy_cost()
        if cost is not None:
            noise_delta = 0.0 if cost.mu is None else cost.delta - cost.separate_delta
            check_allowance(cost.epsilon, noise_delta)
    except (TypeError, ValueError) as error:
        return str(error).rstrip(".")
    return ""


class _Walk:
    """What `check_pipeline` has seen so far."""

    def __init__(self, n_samples: int | None, groups: Any) -> None:
        self.n_samples, self.groups = n_samples, groups
        self.findings: list[Finding] = []
        self.parts: list[tuple[str, Any]] = []  # all that charges, with its place
        self.in_searches: set[int] = set()  # ids of the parts that searches fit many times
        self.searches: list[tuple[str, Any]] = []  # the outermost ones that can be priced
        self.depth = 0  # number of searches around the present step

    def add(self, severity: str, where: str, what: str, way_out: str) -> None:
        self.findings.append(Finding(severity, where, what, way_out))

    def visit(self, estimator: Any, path: str, columns: Any = None) -> None:
        """Look at an estimator and at everything inside it."""
        # None, "drop" and "passthrough" fit nothing; a frozen estimator is never fitted again.
        if estimator is None or isinstance(estimator, str | type | FrozenEstimator):
            return
        where = place_of(estimator, path)
        if columns is not None:
            where += f", {public_columns(columns)}"
        if is_search(estimator):
            self.search(estimator, path, where)
        elif has_price(estimator):
            self.private(estimator, where)
        elif steps_of(estimator) is not None:
            self.container(estimator, path, where)
        elif hasattr(estimator, "fit_resample"):
            self.add(HIGH, where, RESAMPLES, NO_RESAMPLING)
        elif hasattr(estimator, "fit"):
            self.other(estimator, path, where)

    def container(self, estimator: Any, path: str, where: str) -> None:
        """Look at an estimator that fits each of its steps once."""
        for name, step, columns in steps_of(estimator) or []:
            self.visit(step, below(path, name), columns)
        if isinstance(estimator, Pipeline) and estimator.memory is not None:
            what = "memory= writes transformed private rows to disk"
            self.add(MEDIUM, where, what, "memory=None, or a folder that is kept as the table is")
        for what, way_out in container_leaks(estimator):
            self.add(MEDIUM, where, what, way_out)

    def other(self, estimator: Any, path: str, where: str) -> None:
        """Look at an estimator that is not private itself."""
        if not hasattr(estimator, "get_params"):
            self.add(HIGH, where, "is fitted on private rows and is not private", ANY)
            return
        kind = type(estimator).__name__
        n_parts, n_findings = len(self.parts), len(self.findings)
        for name, inner in nested(estimator):
            self.visit(inner, below(path, name))
        if len(self.parts) > n_parts:
            does = what_it_does(estimator)
            # A meta-estimator that shows nothing of the rows without noise only lacks a price.
            severity = HIGH if any(leaks_of(estimator, private_n=True)) else MEDIUM
            self.add(severity, where, does or UNKNOWN, whole(kind) if does else PRICE_IT)
            return
        del self.findings[n_findings:]  # nothing inside is private: one finding for the whole
        for what, way_out in (*telling_leaks(estimator), *quoted_cells(estimator)):
            self.add(MEDIUM, where, what, way_out)
        if kind == "FunctionTransformer":
            functions = (estimator.func, estimator.inverse_func)
            if any(not (f is None or isinstance(f, np.ufunc)) for f in functions):
                way_out = "see that it treats each row by itself, and keeps their number and order"
                self.add(LOW, where, "its function is not looked into", way_out)
        elif not learns_nothing(estimator):
            self.add(HIGH, where, LEARNS, instead_of(estimator))

    # --- private steps and scorers --------------------------------------------------------------

    def private(self, estimator: Any, where: str) -> None:
        """Look at the parameters of a private step, or of a private scorer."""
        self.parts.append((where, estimator))
        if getattr(estimator, "random_state", None) is not None:
            severity = LOW
            what = "random_state seeds post-processing only: its noise is fresh in every fit"
            way_out = "nothing; config_context(noise='seeded') is for tests and teaching"
            if noise_is_seeded():
                severity, way_out = HIGH, "leave config_context(noise='seeded')"
                what = "random_state seeds its noise here: whoever knows it can subtract the noise"
            self.add(severity, where, what, way_out)
        meaning = _meaning(estimator)
        if meaning is not None:
            self.add(meaning[0], where, *meaning[1:])
        if (meaning is None or meaning[0] != HIGH) and (refusal := _refusal(estimator)):
            self.add(HIGH, where, refusal, "other parameters, as the message says")

    def compare_budgets(self, prices: bool = True) -> None:
        """Look for steps without a budget, or with different budgets, and for their `prices`."""
        stated: list[PrivacyBudget] = []
        charging = [
            (where, budget_of(part))
            for where, part in self.parts
            if hasattr(part, "budget") and releases(part)
        ]
        for _, budget in charging:
            if budget is not None and ledger_of(budget) not in map(ledger_of, stated):
                stated.append(budget)
        for where in [where for where, budget in charging if budget is None]:
            if stated:
                what = "has no budget beside steps that have one: the ledger does not count it"
                self.add(HIGH, where, what, "the same budget=")
            else:
                self.add(LOW, where, "has no budget: no ledger counts its fits", "budget=")
        for budget in stated:
            try:
                budget.remaining  # noqa: B018  # asks the ledger
                if prices:
                    self.compare_prices(budget)
            except (LedgerError, SealedBudgetError):
                what = "the ledger of its budget cannot be read from here: fit is refused"
                mine = [w for w, other in charging if other is budget]
                self.add(HIGH, ", ".join(mine), what, "a budget whose ledger is there")
        if len(stated) > 1:
            relations = {(other.adjacency, other.unit) for other in stated}
            severity = MEDIUM
            what = f"{len(stated)} different budgets: no ledger has the sum for these rows"
            if len(relations) > 1:
                severity = HIGH
                what = "steps under two neighbouring relations or units have no guarantee together"
            where = ", ".join(dict.fromkeys(w for w, budget in charging if budget is not None))
            self.add(severity, where, what, "one budget= for all steps")

    def compare_prices(self, budget: PrivacyBudget) -> None:
        """Look for prices that the ledger cannot grant any more, one by one or in sum."""
        remaining = budget.remaining
        priced = [
            (where, part, cost)
            for where, part in self.parts
            if (own := budget_of(part)) is not None
            and ledger_of(own) == ledger_of(budget)
            and (cost := price_or_none(part)) is not None
        ]
        room = f"remaining: {loss_text(remaining, up=False)}"
        refused = [(where, cost) for where, _, cost in priced if not _grants(budget, cost)]
        for where, cost in refused:
            by_delta = budget.accountant == "basic" and cost.delta > remaining.delta
            short = loss_text(cost).split(", ")[by_delta]
            least = f"delta={rounded_amount(remaining.delta, up=False)!r} here, or less"
            way = least if remaining.delta > 0 else "delta=0 here"
            self.add(
                HIGH,
                where,
                f"its {short} is more than the budget has left ({room}): fit is refused",
                way if by_delta else "a smaller epsilon",
            )
        # Searches have a cost of their own: they fit each candidate many times.
        steps = [(where, cost) for where, part, cost in priced if id(part) not in self.in_searches]
        for where, search in self.searches:
            pricer = Pricer(self.n_samples, self.groups, budget)
            with contextlib.suppress(ValueError):  # it charges other budgets only
                steps.append((where, pricer.search(search).total()))
        if refused or not steps:
            return
        everything = total((cost, 1) for _, cost in steps)
        if not _grants(budget, everything):
            several = len(steps) > 1
            self.add(
                HIGH,
                ", ".join(dict.fromkeys(where for where, _ in steps)),
                f"{'their prices' if several else 'the cost of all its fits and scores'} "
                f"({loss_text(everything)}) "
                f"{'are together' if several else 'is'} more than the budget has left ({room}): a "
                "fit is refused after others are charged",
                "budget.split(...), which gives each step its epsilon"
                if several
                else "a smaller epsilon, fewer candidates or fewer folds",
            )

    # --- searches -------------------------------------------------------------------------------

    def search(self, search: Any, path: str, where: str) -> None:
        """Look at a search: its candidates, its splitter, its scorers and its cost."""
        n_parts, n_findings = len(self.parts), len(self.findings)
        inside = below(path, "estimator")
        self.depth += 1
        self.visit(search.estimator, inside)
        try:
            candidates, _ = candidates_of(search, self.n_samples, self.groups)
        except (TypeError, ValueError) as error:
            self.add(MEDIUM, where, f"its candidates are not known: {error}", "state them")
            candidates = []
        for candidate in candidates[:_MOST_CANDIDATES]:
            self.visit(candidate, inside)
        self.depth -= 1
        for scorer in scorers_in(search.scoring):
            if has_price(scorer):
                self.private(scorer, f"{below(path, 'scoring')} ({type(scorer).__name__})")
        for what, way_out in search_leaks(search):
            self.add(MEDIUM, where, what, way_out)
        parts = [part for _, part in self.parts[n_parts:]]
        self.in_searches |= {id(part) for part in parts}
        self.splits(search, where, parts)
        for part in dict.fromkeys(parts):
            if (unit := _unit_without_ids(part)) is None:
                continue
            self.add(
                HIGH,
                where,
                f"{type(part).__name__} inside it gets no groups, and its budget protects one "
                f"{unit!r}: each fit is refused",
                "sklearn.set_config(enable_metadata_routing=True), and "
                f".set_{'score' if hasattr(part, 'metric') else 'fit'}_request(groups=True) on it",
            )
        if self.depth or not candidates or not parts:
            return
        try:
            Pricer(self.n_samples, self.groups, None).search(search).total()
        except (TypeError, ValueError) as error:
            if all(finding.severity != HIGH for finding in self.findings[n_findings:]):
                self.add(LOW, where, f"its cost is not known: {error}", "search_cost(search, ...)")
        else:
            self.searches.append((where, search))

    def splits(self, search: Any, where: str, parts: Sequence[Any]) -> None:
        """Look at the splitter of a search, under the relations of its budgets."""
        relations = {relation_of(budget_of(part)) for part in parts if releases(part)}
        classifier = is_classifier(search.estimator)
        try:
            splitter = splitter_of(search.cv)
            notes = fold_notes(search.cv, splitter, classifier, relations)
            check_splits(search.cv, splitter, relations, None)
            notes += check_halving(search, classifier, relations)
        except (TypeError, ValueError) as error:
            what, _, way_out = str(error).partition(WAY_OUT)
            self.add(HIGH, where, what, way_out or "another cv=")
            return
        relation = "KFold" if relations <= {"replace_one"} else "PerRecordKFold"
        for note in notes:
            self.add(MEDIUM, where, note, f"cv={relation}(...)")


# --- parameters that mean something else here ---------------------------------------------------


def _is_above(value: Any, most: int) -> bool:
    return isinstance(value, int | np.integer) and bool(most < value < 10**9)


def _meaning(part: Any) -> tuple[str, str, str] | None:
    """Return which parameter means something else in scikit-learn: severity, what and way out."""
    name = type(part).__name__
    if name == "DPKMeans" and _is_above(n := part.max_iter, 10):
        if part.algorithm != "lloyd":
            what = f"max_iter={n} is for algorithm='lloyd'; 'tree' does not read it"
            return LOW, what, "leave it out"
        what = (
            f"algorithm='lloyd' runs all of max_iter={n} iterations and splits its allowance "
            f"between them, where scikit-learn stops when centres rest: each has 1/{n} of it"
        )
        return MEDIUM, what, "algorithm='tree', or max_iter=5"
    if name == "DPQuantileTransformer" and _is_above(n := part.n_quantiles, 129):
        rounds = int(n - 2).bit_length()
        what = f"n_quantiles={n} takes {rounds} rounds, which share the allowance (5 for 33)"
        return LOW, what, "the default, 33"
    asks_rows = isinstance(getattr(part, "output", None), str) and part.output == "predictions"
    if name == "DPSubsampleAggregate" and asks_rows and part.public is None:
        what = "has no public rows, for which the blocks are asked: fit is refused"
        way_out = "public=, rows that resemble the private ones, or output='parameters'"
        return HIGH, what, way_out
    return None


# --- ids of users ---------------------------------------------------------------------------------


def _steps_without_ids(
    container: Any, path: str = "", prefix: str | None = ""
) -> Iterator[Finding]:
    """Find steps, at any depth but not in searches, that do not get the ids their budget needs.

    Without metadata routing, what `fit` gets as ``<prefix>groups`` reaches the container; None if
    nothing does.
    """
    for name, step, _ in steps_of(container) or []:
        if isinstance(step, str | type | FrozenEstimator) or step is None or is_search(step):
            continue
        inner = below(path, name)
        reached = _passed_on(container, name, prefix)
        if not has_price(step):
            yield from _steps_without_ids(step, inner, reached)
            continue
        if (unit := _unit_without_ids(step)) is None:
            continue
        needs = f"its budget protects one {unit!r}, so its fit needs groups"
        way_out = ".set_fit_request(groups=True) on this step, and fit(..., groups=ids)"
        if get_config()["enable_metadata_routing"]:
            severity, what = HIGH, f"{needs}, which it does not request: it is refused"
        else:
            way_out = f"sklearn.set_config(enable_metadata_routing=True), {way_out}"
            if reached is None:
                severity = HIGH
                what = f"{needs}, which do not reach it without metadata routing: it is refused"
            else:
                severity = MEDIUM
                what = f"{needs}, which reach it only if the call says {reached}groups="
                way_out = f"fit(..., {reached}groups=ids); or {way_out}"
        yield Finding(severity, f"{inner} ({type(step).__name__})", what, way_out)


def _passed_on(container: Any, name: str, prefix: str | None) -> str | None:
    """Return the prefix of the arguments that a container hands to a step without routing."""
    if prefix is None:
        return None
    if isinstance(container, Pipeline):
        return f"{prefix}{name}__"
    regressor = isinstance(container, TransformedTargetRegressor) and name == "regressor"
    return prefix if regressor or isinstance(container, FeatureUnion) else None


def _unit_without_ids(part: Any) -> str | None:
    """Return the unit of a part's budget if no ids are routed to the part; None: all is well."""
    budget = budget_of(part)
    if budget is None or budget.unit is None:
        return None
    routes = bool(get_config()["enable_metadata_routing"])
    request = part.get_metadata_routing()
    requested = [getattr(request, method).requests.get("groups") for method in ("fit", "score")]
    requests = any(alias is True or isinstance(alias, str) for alias in requested)
    return None if routes and requests else budget.unit
