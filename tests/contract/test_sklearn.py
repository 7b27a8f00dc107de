"""scikit-learn's own checks, strict, for every estimator; with delta > 0 they are exhaustive."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import DELTAS, make, rows
from estimators import (
    CASES,
    EXPECTED_FAILURES,
    FAILING_OF_DEFAULTS,
    FAILURES_OF_DEFAULTS,
)
from sklearn import config_context
from sklearn.base import is_classifier, is_regressor
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from skdp import PrivacyBudget
from tests.folding import each
from tests.sklearn_checks import run_checks

CHECKED = [case for case in CASES if case.sklearn]


@pytest.mark.parametrize("delta", [0.0, pytest.param(DELTAS[1], marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("case", CHECKED, ids=lambda c: c.name)
def test_scikit_learn_checks(case, delta, monkeypatch):
    expected = EXPECTED_FAILURES.get(type(case.checked()).__name__, {})
    run_checks(case.checked(delta=delta, random_state=0), expected, monkeypatch)


_WHY = ("labels_", "accuracy", "would tell of private", "scikit-learn's own")


def test_expected_failures_are_few_and_have_reasons():
    """Only checks that read labels_, demand accuracy or an error that tells of rows may fail."""
    names = {type(case.checked()).__name__ for case in CHECKED}
    assert set(EXPECTED_FAILURES) <= names
    for failures in EXPECTED_FAILURES.values():
        assert len(failures) <= 3
        for reason in failures.values():
            assert any(why in reason for why in _WHY)


def test_checks_with_defaults_fail_for_a_reason(monkeypatch):
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
        known = {*FAILURES_OF_DEFAULTS, *EXPECTED_FAILURES.get(kind.__name__, ())}
        assert set(bad) <= known, kind
        failed += bad
    assert len(failed) <= FAILING_OF_DEFAULTS


# --- conventions that no check of scikit-learn covers ---------------------------------------------

OURS = [case for case in CHECKED if "skdp." in type(make(case, 1e-6)).__module__]


def named_fit(case, **groups):
    """Return a fit of a table with names, and the table."""
    X, y = case.table(rows(40, case.n_features, 1))
    table = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    unit = "user" if groups else None
    budget = PrivacyBudget(1e6, 0.9, adjacency="add_or_remove_one", unit=unit)
    estimator = make(case, 1e-6).set_params(budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not groups:
            return estimator.fit(table, y), table
        with config_context(enable_metadata_routing=True):
            pipe = make_pipeline(estimator.set_fit_request(groups=True))
            return pipe.fit(table, y, **groups)[-1], table


@each("case", OURS, ids=lambda c: c.name)
def test_names_output_tags_and_html(case):
    estimator, table = named_fit(case)
    assert list(estimator.feature_names_in_) == list(table.columns)
    assert hasattr(estimator, "set_output") == hasattr(estimator, "get_feature_names_out")
    if hasattr(estimator, "set_output"):
        for library, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
            shown = estimator.set_output(transform=library).transform(table)
            assert isinstance(shown, kind)
            assert list(shown.columns) == list(estimator.get_feature_names_out())
    tags = get_tags(estimator)
    assert (tags.transformer_tags is not None) == hasattr(estimator, "transform")
    assert (tags.classifier_tags is not None) == is_classifier(estimator)
    assert (tags.regressor_tags is not None) == is_regressor(estimator)
    assert tags.target_tags.required == (case.labels is not None or case.samples)
    html = estimator._repr_mimebundle_()["text/html"]
    assert type(estimator).__name__ in html and "epsilon" in html


@each("case", OURS, ids=lambda c: c.name)
def test_groups_are_routed_to_the_fit(case):
    estimator, _ = named_fit(case, groups=np.arange(40 + 9 * case.samples) // 2)
    assert estimator.max_rows_per_unit_ >= 1
    weights = "sample_weight" in inspect.signature(estimator.fit).parameters
    with config_context(enable_metadata_routing=True):
        requests = estimator.get_metadata_routing().fit.requests
    assert set(requests) == {"groups"} | ({"sample_weight"} if weights else set())


@each("case", CHECKED, ids=lambda c: c.name)
def test_a_under_noised_variant_fails_the_checks(case):
    """The checks can fail: a class whose constructor changes a parameter does."""

    class Twin(type(case.checked())):
        def __init__(self, *, epsilon=1.0, delta=0.0, budget=None, random_state=None):
            super().__init__(epsilon=epsilon, delta=delta, budget=budget, random_state=random_state)
            self.epsilon = epsilon + 1

    with pytest.raises(Exception):  # noqa: B017  # whichever check sees it first
        check_estimator(Twin(), on_skip=None)
