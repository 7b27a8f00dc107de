"""scikit-learn's own checks, strict, for every estimator; with delta > 0 they are exhaustive."""

from __future__ import annotations

import inspect
import warnings

import pytest
from cases import DELTAS, make
from estimators import (
    CASES,
    EXPECTED_FAILURES,
    FAILING_OF_DEFAULTS,
    FAILURES_OF_DEFAULTS,
)
from sklearn.utils.estimator_checks import check_estimator

from tests.folding import each
from tests.sklearn_checks import run_checks

CHECKED = [case for case in CASES if case.sklearn]


@pytest.mark.parametrize("delta", [0.0, pytest.param(DELTAS[1], marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("case", CHECKED, ids=lambda c: c.name)
def test_scikit_learn_checks(case, delta, monkeypatch):
    expected = EXPECTED_FAILURES.get(type(case.checked()).__name__, {})
    run_checks(case.checked(delta=delta, random_state=0), expected, monkeypatch)


def test_expected_failures_are_few_and_have_reasons():
    """Only checks that read labels_, demand accuracy or an error that tells of rows may fail."""
    names = {type(case.checked()).__name__ for case in CHECKED}
    assert set(EXPECTED_FAILURES) <= names
    for failures in EXPECTED_FAILURES.values():
        assert len(failures) <= 3
        for reason in failures.values():
            assert any(why in reason for why in ("labels_", "accuracy", "would tell of private"))


def test_few_checks_fail_with_defaults(monkeypatch):
    """What runs above with its defaults is not run again."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    kinds = {type(make(case, 1e-6)) for case in CASES if not case.samples}
    kinds -= {type(case.checked()) for case in CHECKED if not case.marked}
    failed = []
    for kind in sorted(kinds, key=lambda kind: kind.__name__):
        parameters = inspect.signature(kind).parameters.values()
        if "skdp." not in kind.__module__ or any(one.default is one.empty for one in parameters):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(kind(delta=1e-6), on_fail=None, on_skip=None)
        bad = [one["check_name"] for one in results if one["status"] != "passed"]
        assert set(bad) <= set(FAILURES_OF_DEFAULTS), kind
        failed += bad
    passed = set(FAILURES_OF_DEFAULTS) - set(failed)
    assert all("accuracy" in FAILURES_OF_DEFAULTS[name] for name in passed)  # by luck
    assert len(failed) <= FAILING_OF_DEFAULTS


@each("case", CHECKED, ids=lambda c: c.name)
def test_a_under_noised_variant_fails_the_checks(case):
    """The checks can fail: a class whose constructor changes a parameter does."""

    class Twin(type(case.checked())):
        def __init__(self, *, epsilon=1.0, delta=0.0, budget=None, random_state=None):
            super().__init__(epsilon=epsilon, delta=delta, budget=budget, random_state=random_state)
            self.epsilon = epsilon + 1

    with pytest.raises(Exception):  # noqa: B017  # whichever check sees it first
        check_estimator(Twin(), on_skip=None)
