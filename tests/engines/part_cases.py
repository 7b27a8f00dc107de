"""What the tests of tables in parts share: cases of the contract, partitions, a spying engine."""

from __future__ import annotations

import io
import itertools
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))
import estimators
from calls import CALLS, Called
from cases import Case, make

from skdp import statistics
from skdp.base import PrivateMixin
from skdp.budget import PrivacyBudget
from skdp.core import Session
from skdp.core.privacy_filter import PrivacyFilter
from skdp.core.table import PrivateTable
from skdp.core.transcript import record, replay
from skdp.engines import Source, Threads, from_arrays
from skdp.tabular.parts import PartsRows

# Their rows are scored by code of the user, mixed, marked or weighted one by one: in one place.
SPECIAL = {"pipeline", "toy", "toy_ratio"}
SPECIAL |= {case.name for case in estimators.CASES if "weighted" in case.name}


def in_parts(case: Case) -> bool:
    """Say whether the estimator of a case takes tables in parts."""
    estimator = make(case, 0.0)
    if isinstance(estimator, Called):
        return estimator.function is not None and case.name not in ONE_PLACE_CALLS
    return isinstance(estimator, PrivateMixin) and not estimator._one_place()


# Functions of the contract that look at X themselves are called in a way of their own below.
ONE_PLACE_CALLS = {
    "metrics.accuracy_score",
    "metrics.confusion_matrix",
    "metrics.r2_score",
    "metrics.regression_errors",
    "metrics.score_histogram",
    "metrics.score_histogram_stated",
    "statistics.describe",
    "statistics.describe_stated",
    "statistics.query_session",
    "statistics.mst_cost",
    "statistics.histogram",
    "statistics.histogram2d_stated",
    "statistics.histogramdd_stated",
    "statistics.subset_sums_stated",
}


def _first(name: str, *arguments: Any) -> Any:
    def call(X: Any, **options: Any) -> Any:
        return getattr(statistics, name)(X, *arguments, **options)[0]

    return call


MORE = (
    Case("histogram", lambda **p: Called(_first("histogram"), {}, **p), n_features=1),
    Case(
        "histogram2d",
        lambda **p: Called(_first("histogram2d"), {"bounds": (-1, 1)}, **p),
        n_features=2,
    ),
    Case(
        "histogramdd",
        lambda **p: Called(_first("histogramdd", 3), {"bounds": (-1, 1)}, **p),
    ),
    Case("mean_omit", lambda **p: Called(statistics.mean, {"nan_policy": "omit"}, **p)),
)

ALL = [*estimators.CASES, *CALLS, *MORE]
CASES = [case for case in ALL if case.name not in SPECIAL and in_parts(case)]
REFUSED = [
    case
    for case in estimators.CASES
    if case.name not in SPECIAL and not case.samples and not in_parts(case)
]


class Spy(cloudpickle.CloudPickler):
    """Pickles a task and fails where anything travels that is private or draws noise."""

    def persistent_id(self, obj: Any) -> None:
        kinds = (PrivacyBudget, PrivacyFilter, PrivateTable, Session, PartsRows, PrivateMixin)
        kinds += (np.random.Generator, np.random.RandomState)
        if isinstance(obj, kinds):
            raise AssertionError(f"{type(obj).__name__} travels to the workers")


class Travelling(Threads):
    """Threads whose every task and part has been pickled, as it would be for another machine."""

    def map_add(self, task: Any, parts: Any) -> Any:
        # The totals of a part do not depend on the order either.
        order = np.random.default_rng(len(parts)).permutation(len(parts))
        return super().map_add(_travelled(task), [_travelled(parts[i]) for i in order])


class Failed(BaseException):
    """What a spy finds must not become the fixed text of an engine's failure."""


def _travelled(thing: Any) -> Any:
    file = io.BytesIO()
    try:
        Spy(file).dump(thing)
    except Exception as error:
        raise Failed(str(error)) from error
    return pickle.loads(file.getvalue())


def travelling(source: Source) -> Source:
    """Return a source whose engine pickles everything."""
    return Source(source.handles, source.reader, Travelling(2), source.heads, source.columns)


def cut_at(X: Any, cuts: Any) -> list[Any]:
    """Return consecutive parts of a table."""
    ends = [0, *sorted(cuts), len(X)]
    return [X[a:b] for a, b in itertools.pairwise(ends)]


def fit(estimator: Any, X: Any, y: Any = None, *, recorded: Any = None) -> tuple[Any, Any]:
    """Fit, and return the transcript with the error's type and text, if there is one.

    With `recorded`, releases are those of another fit, so that later questions are the same.
    """
    context = record() if recorded is None else replay(recorded)
    error = None
    with context as transcript, warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        try:
            estimator.fit(X, y)
        except Exception as problem:
            error = problem
    return transcript, error


def compare(case: Case, X: Any, y: Any, parts: Source, y_parts: Any, **how: Any) -> None:
    """Assert that a fit on parts asks the same and has the same exact answers."""
    relation, delta = how["relation"], how["delta"]
    whole, error = fit(_made(case, relation, delta), X, y)
    cut, other = fit(_made(case, relation, delta), parts, y_parts, recorded=whole)
    assert (type(error), str(error)) == (type(other), str(other))
    assert error is None, error
    assert [entry.name for entry in whole.entries] == [entry.name for entry in cut.entries]
    for one, two in zip(whole.entries, cut.entries, strict=True):
        assert one.sensitivity == two.sensitivity, one.name
        assert _plain(one.exact) == _plain(two.exact), one.name


def _plain(exact: Any) -> str:
    return repr(np.asarray(exact).tolist())


def _made(case: Case, relation: str, delta: float) -> Any:
    budget = None
    if relation != "replace_one":
        budget = PrivacyBudget(1e3, 1e-2, adjacency=relation)
    return case.make(epsilon=2.0, delta=delta, budget=budget, random_state=3)


def parts_of(case: Case, X: Any, y: Any, cuts: Any) -> tuple[Source, Any]:
    """Return the rows of a case in parts, and its labels in parts of their own."""
    source = from_arrays(cut_at(X, cuts))
    return source, None if y is None else from_arrays(cut_at(np.asarray(y), cuts))
