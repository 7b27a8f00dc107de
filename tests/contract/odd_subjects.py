"""The public classes and functions that are given odd values, each with arguments that work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from cases import Case, rows
from estimators import CASES
from odd import Subject
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from toys import Toy, ToyRatio

import skdp
from skdp import metrics, model_selection, statistics, synthetic
from skdp.aggregation import DPGroupBy
from skdp.budget import PrivacyBudget
from skdp.naive_bayes import DPGaussianNB
from skdp.preprocessing import DPStandardScaler

N = 40
OF_BASES = (Toy, ToyRatio, Pipeline)
_USES = ("transform", "predict", "predict_proba", "score_samples")
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}


def public_class(estimator: Any) -> type:
    """Return the class of skdp that a class of the tests is made of."""
    return next(cls for cls in type(estimator).__mro__ if cls.__module__.startswith("skdp"))


def _use(fitted: Any, X: Any) -> None:
    classes = getattr(fitted, "classes_", None)
    if classes is not None and len(classes) == 0:
        return  # none was selected: the fit warned of it
    for name in _USES:
        if hasattr(fitted, name):
            getattr(fitted, name)(X)
    if hasattr(fitted, "sample"):
        fitted.sample(3)


def of_case(case: Case, *, users: bool = False) -> Subject:
    """Return how a case of the contract is fitted, and used afterwards, with odd parameters."""
    X, y = case.table(rows(N, case.n_features, 0))
    made = case.make(epsilon=1.0, delta=1e-5, budget=None, random_state=0)
    base = public_class(made)
    defaults = made.get_params(deep=False)
    arguments: dict[str, Any] = {**defaults, "X": X} | ({} if y is None else {"y": y})
    takes_weights = "sample_weight" in inspect.signature(base.fit).parameters  # type: ignore[attr-defined]
    if takes_weights:
        arguments["sample_weight"] = None
    if users:
        arguments["groups"] = np.arange(len(X)) // 2

    def call(ledger: PrivacyBudget, /, **given: Any) -> None:
        table, labels = given.pop("X"), given.pop("y", None)
        fit = {} if y is None else {"y": labels}
        if users:
            fit["groups"] = given.pop("groups")
        if (weights := given.pop("sample_weight", None)) is not None:
            fit["sample_weight"] = weights
            given["weight_bound"] = 2.0
        estimator = case.make(epsilon=1.0, delta=1e-5, budget=ledger, random_state=0)
        changed = {name: value for name, value in given.items() if value is not defaults.get(name)}
        estimator.set_params(**changed)
        fitted = base.fit(estimator, table, **fit)  # type: ignore[attr-defined]
        width = getattr(fitted, "n_features_in_", X.shape[1])
        _use(fitted, X if width == X.shape[1] else np.zeros((2, width)))

    options: dict[str, Any] = {}
    if users:
        options["budget"] = lambda: PrivacyBudget(1e12, 0.99, unit="user")
    return Subject(
        f"{base.__name__}[{case.name}{', users' if users else ''}]",
        call,
        arguments,
        ("X", "y", "sample_weight", "groups"),
        **options,
    )


def _function(
    function: Callable[..., Any],
    tables: tuple[str, ...],
    *,
    users: bool = False,
    relation: str = "replace_one",
    private: bool = True,
    **arguments: Any,
) -> Subject:
    every = inspect.signature(function).parameters
    positional = [
        name for name, p in every.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    defaults = {
        name: p.default
        for name, p in every.items()
        if p.kind != p.VAR_KEYWORD and p.default is not p.empty
    }
    arguments = {**defaults, **(PRIVACY if private else {}), **arguments}
    if private:
        arguments.setdefault("budget", None)
    if not users:
        arguments.pop("groups", None)

    def call(ledger: PrivacyBudget, /, **given: Any) -> None:
        if private and given["budget"] is None:
            given["budget"] = ledger
        first = [given.pop(name) for name in positional if name in given]
        out = function(*first, **given)
        str(out)

    unit = {"unit": "user"} if users else {}
    return Subject(
        f"{function.__module__.rpartition('.')[0].removeprefix('skdp.')}.{function.__name__}",
        call,
        arguments,
        tables,
        budget=lambda: PrivacyBudget(1e12, 0.99, adjacency=relation, **unit),
    )


def functions() -> Iterator[Subject]:
    """Yield the functions that charge."""
    X = rows(N, 3, 0)
    groups = np.arange(N) // 2
    for name in ("count_nonzero", "sum", "mean", "var", "std", "covariance", "correlation"):
        function = getattr(statistics, name)
        yield _function(function, ("X",), X=X)
        yield _function(function, ("X", "groups"), users=True, X=X, groups=groups)
    yield _function(statistics.count, ("X",), relation="add_or_remove_one", X=X)
    yield _function(statistics.histogram, ("X",), X=X[:, 0])
    yield _function(statistics.histogram2d, ("X",), X=X[:, :2])
    yield _function(statistics.histogramdd, ("X",), X=X[:, :2])
    yield _function(statistics.median, ("X",), X=X)
    yield _function(statistics.quantile, ("X",), X=X, q=0.5)
    yield _function(statistics.percentile, ("X",), X=X, q=50.0)
    yield _function(statistics.query_session, ("X",), X=X)
    yield _function(
        statistics.subset_sums, ("X", "labels"), X=X, labels=np.arange(N) % 2, classes=[0, 1]
    )
    edges = [[i % 6, (i + 1) % 6] for i in range(N)]
    for options in ({}, {"noise": "student"}, {"noise": "laplace"}):
        yield _function(
            statistics.mst_cost,
            ("edges", "weights"),
            n_vertices=6,
            edges=edges,
            weights=abs(X[:, 0]),
            upper=1.0,
            **options,
        )
    yield _function(
        statistics.rows_left_out, ("groups",), users=True, groups=groups, max_rows_per_unit=1
    )
    y = np.arange(N) % 2
    for name in ("accuracy_score", "balanced_accuracy_score", "confusion_matrix"):
        yield _function(
            getattr(metrics, name), ("y_true", "y_pred"), y_true=y, y_pred=y, labels=[0, 1]
        )
    for name in ("calibration_curve", "roc_auc_score", "roc_curve", "score_histogram"):
        yield _function(
            getattr(metrics, name), ("y_true", "y_score"), y_true=y, y_score=X[:, 0], labels=[0, 1]
        )
    for name in ("mean_absolute_error", "mean_squared_error", "r2_score", "regression_errors"):
        yield _function(
            getattr(metrics, name), ("y_true", "y_pred"), y_true=X[:, 0], y_pred=X[:, 1]
        )


def others() -> Iterator[Subject]:
    """Yield what charges in other ways, and what makes the parameters of fits."""
    X = rows(N, 3, 0)
    frame = pd.DataFrame({"key": np.arange(N) % 2, "unit": np.arange(N) // 2, "x": X[:, 0]})

    def group_by(ledger: PrivacyBudget, /, **given: Any) -> None:
        given["budget"] = ledger if given["budget"] is None else given["budget"]
        table = given.pop("X")
        DPGroupBy(given.pop("by"), given.pop("unit"), **given).fit(table).to_dict()

    parameters = inspect.signature(DPGroupBy).parameters
    defaults = {name: p.default for name, p in parameters.items()}
    arguments = {**defaults, "by": "key", "unit": "unit", "X": frame, "random_state": 0}
    arguments["aggregates"] = {"total": ("sum", "x")}
    arguments["bounds"] = {"x": (-1, 1)}
    yield Subject(
        "DPGroupBy",
        group_by,
        arguments,
        ("X",),
        budget=lambda: PrivacyBudget(1e12, 0.99, unit="unit", adjacency="add_or_remove_one"),
    )

    model = LogisticRegression().fit(X, np.arange(N) % 2)

    def scored(ledger: PrivacyBudget, /, **given: Any) -> None:
        given["budget"] = ledger if given["budget"] is None else given["budget"]
        table, labels = given.pop("X"), given.pop("y")
        model_selection.private_scorer(given.pop("metric"), **given)(model, table, labels)

    arguments = {"metric": "accuracy", "epsilon": 1.0, "bounds": None, "random_state": 0}
    arguments |= {"X": X, "y": np.arange(N) % 2, "budget": None, "max_rows_per_unit": "private"}
    yield Subject("private_scorer", scored, arguments, ("X", "y"))

    yield _function(PrivacyBudget, (), private=False, epsilon=1.0, delta=1e-6)
    yield _function(synthetic.Bins, (), private=False, edges=[0, 1, 2])
    yield _function(synthetic.Domain, (), private=False, columns=[2, 3])

    def queried(kind: Any) -> Callable[..., Any]:
        def ask(ledger: PrivacyBudget, /, **given: Any) -> None:
            domain = synthetic.Domain([2, 3])
            queries = kind(**given)
            synthetic.MWEMReleaser(queries, domain=domain, n_rounds=1, budget=ledger).fit(
                np.zeros((N, 2), dtype=int)
            )

        return ask

    for kind in (synthetic.conjunctions, synthetic.thresholds, synthetic.intervals):
        defaults = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
        defaults |= {"order": 1} if "order" in defaults else {}
        yield Subject(kind.__name__, queried(kind), defaults)
    yield Subject("linear_queries", queried(synthetic.linear_queries), {"q": len, "columns": None})

    scaler = DPStandardScaler(bounds=(0, 1))
    made = DPGaussianNB(classes=[0, 1], bounds=(0, 1))
    for function, options in (
        (skdp.plan, {}),
        (skdp.check_pipeline, {}),
        (model_selection.search_cost, {"search": GridSearchCV(made, {}), "n_samples": 40}),
        (model_selection.cross_val_cost, {"n_samples": 40}),
        (skdp.make_private, {"estimator": StandardScaler(), "bounds": (0, 1)}),
        (
            skdp.choose_epsilon,
            {"estimator": scaler, "error": 9.0, "n_samples": 40, "n_features": 2},
        ),
        (skdp.pad_time, {"seconds": 0.01}),
        (skdp.config_context, {"noise": "system"}),
    ):
        first = {"estimator": made} if "estimator" in inspect.signature(function).parameters else {}
        yield _function(function, (), private=False, **{**first, **options})


BY_CLASS: dict[str, list[Subject]] = {}
for _case in CASES:
    _made = _case.make(epsilon=1.0, delta=1e-5, budget=None, random_state=0)
    if not isinstance(_made, OF_BASES):
        _subjects = BY_CLASS.setdefault(public_class(_made).__name__, [])
        _subjects.append(of_case(_case))
        if "groups" in inspect.signature(public_class(_made).fit).parameters:  # type: ignore[attr-defined]
            _subjects.append(of_case(_case, users=True))
for _subject in (*functions(), *others()):
    BY_CLASS.setdefault(_subject.name, []).append(_subject)
