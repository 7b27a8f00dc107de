"""Callbacks of scikit-learn 1.9: every estimator tells of its fit, and nothing that is private."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from cases import make, rows
from estimators import CASES

from skdp.base import PrivateMixin
from skdp.budget import PrivacyBudget
from tests.folding import each

pytestmark = pytest.mark.skipif(
    not hasattr(PrivateMixin, "set_callbacks"), reason="scikit-learn before 1.9"
)
PRIVATE = [
    pytest.param(case, id=case.name)
    for case in CASES
    if case.sklearn and isinstance(make(case, 1e-6), PrivateMixin)
]
IN_STEPS = {"boosting", "kmeans_lloyd", "vote"}
IN_STEPS |= {"marginals", "mwem"}


class Log:
    """Writes down which tasks begin and end, and what is passed on."""

    def __init__(self):
        self.events, self.passed = [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, **passed):
        self.passed += passed.values()
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, **passed):
        self.passed += passed.values()
        self.events.append(f"end {context.task_name}")


def told(case, table):
    """Return what the fit of a case tells, and the fitted estimator."""
    X, y = case.table(table)
    log, estimator = Log(), make(case, 1e-6)
    estimator.set_params(budget=PrivacyBudget(1e6, 0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.set_callbacks(log).fit(X, y)
    return log, estimator


@each("case", PRIVATE)
def test_every_fit_is_told_with_its_steps_and_nothing_else(case):
    log, estimator = told(case, rows(40, case.n_features, 1))
    assert log.events[:2] == ["setup", "begin fit"]
    assert log.events[-2:] == ["end fit", "teardown"]
    between = log.events[2:-2]
    if between:
        kind = between[1].removeprefix("begin ")
        assert kind in {"step", "block"}
        assert [between[0], between[-1]] == [f"begin {kind}s", f"end {kind}s"]
        assert between[1:-1] == [f"begin {kind}", f"end {kind}"] * (len(between) // 2 - 1)
    assert bool(between) >= (case.name in IN_STEPS)
    assert all(one is None for one in log.passed)
    assert not [name for name in vars(estimator) if name.startswith("_callback")]


@each("case", PRIVATE)
def test_a_fit_that_is_refused_ends_for_callbacks_too(case):
    X, y = case.table(rows(40, case.n_features, 1))
    log, estimator = Log(), make(case, 1e-6)
    estimator.set_params(epsilon=-1.0)
    with pytest.raises(ValueError, match="epsilon"):
        estimator.set_callbacks(log).fit(X, y)
    assert log.events == ["setup", "begin fit", "teardown"]
    assert not [name for name in vars(estimator) if name.startswith("_callback")]


def test_fits_within_a_fit_are_no_steps_of_it():
    """How many candidates a private search runs is private."""
    case = next(one for one in CASES if one.name == "grid_search")
    seen = {tuple(told(case, table)[0].events) for table in (rows(40, 3, 1), np.zeros((40, 3)))}
    assert seen == {("setup", "begin fit", "end fit", "teardown")}


class Looks(Log):
    """Looks for ids and rows among the attributes of the estimator that it is given."""

    def on_fit_task_begin(self, estimator, context, **passed):
        super().on_fit_task_begin(estimator, context, **passed)
        for name, value in vars(estimator).items():
            if not name.startswith(("_skl", "_callback")):
                assert "user-of-row" not in repr(value), name

    on_fit_task_end = on_fit_task_begin


@pytest.mark.parametrize("name", ["kmeans_lloyd", "marginals"])
def test_whose_each_row_is_stays_with_the_fit(name):
    case = next(one for one in CASES if one.name == name)
    X, y = case.table(rows(40, case.n_features, 1))
    estimator, log = make(case, 1e-6, unit="user"), Looks()
    budget = PrivacyBudget(1e6, 0.9, adjacency="add_or_remove_one", unit="user")
    estimator.set_params(budget=budget)
    ids = np.array([f"user-of-row-{i // 2}" for i in range(40)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.set_callbacks(log).fit(X, y, groups=ids)
    assert "begin step" in log.events
    assert estimator._groups() is None
