"""Marks of two samples: refused by a fixed text, whatever they say of which row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from subjects import GOOD, NUMBER, WORD, both, every_estimator_of_two_samples, prepared, refused

from skdp import PrivacyBudget
from skdp.density_ratio import DPuLSIF
from skdp.exceptions import BudgetExceededError, PublishedRowsWarning
from tests.folding import each

TURNS = np.arange(60) % 2


def bad_marks():
    """Yield (name, y, text that the message must hold)."""
    other = "y must mark every row.* 1 for a private row, 0 for a public one"
    yield "none", None, "requires y to be passed"
    yield "no private row", np.zeros(60), "y marks no private row"
    yield "no public row", np.ones(60), "y marks no public row"
    yield "codes 1 and 2", TURNS + 1, other
    yield "codes -1 and 1", 2 * TURNS - 1, other
    yield "a third value", np.where(np.arange(60) == 7, 2, TURNS), other
    yield "a weight", np.where(np.arange(60) == 7, NUMBER, TURNS), other
    yield "nan", np.where(np.arange(60) == 7, np.nan, TURNS), other
    yield "words", np.where(TURNS == 1, WORD, "public"), other
    yield "a word", np.where(np.arange(60) == 7, WORD, TURNS.astype(object)), other
    yield "pandas words", pd.Series(np.where(TURNS == 1, WORD, "public")), other
    yield "pandas na", pd.array([1, None, 0] * 20, "Int64"), other
    yield "two columns", np.column_stack([TURNS, TURNS]), other
    yield "a number", 1, other
    yield "too short", TURNS[:59], "y must have as many entries as X has rows"
    yield "too long", np.append(TURNS, 1), "y must have as many entries as X has rows"


BAD_MARKS = [pytest.param(*case[1:], id=case[0]) for case in bad_marks()]


@each(("y", "match"), BAD_MARKS)
@every_estimator_of_two_samples
def test_bad_marks(kind, y, match):
    X = GOOD + NUMBER
    for estimator in both(kind):
        refused(estimator, lambda e: e.fit(X, y), ValueError, match)
    refused(estimator, lambda e: e.score(X, y), ValueError, match)


@every_estimator_of_two_samples
def test_marks_are_not_left_out(kind):
    for call in (lambda e: e.fit(GOOD), lambda e: e.fit(GOOD, groups=TURNS)):
        refused(prepared(kind, False), call, TypeError, "'y'|groups")


@every_estimator_of_two_samples
def test_a_bad_public_row_is_refused_like_a_private_one(kind):
    for place in (4, 5):
        X = GOOD + NUMBER
        X[place, 1] = np.nan
        refused(
            prepared(kind, False), lambda e, X=X: e.fit(X, TURNS), ValueError, "NaN or infinity"
        )


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_published_rows_need_their_share_as_delta(adjacency):
    """Variant C: refused before the warning and the charge, if delta is below what it publishes."""
    budget = PrivacyBudget(100.0, 0.9, adjacency=adjacency)
    estimator = DPuLSIF("published_private_rows", n_centers=6, budget=budget)
    rate = 0.2  # 6 of 30 private rows
    if adjacency == "add_or_remove_one":
        # The share itself would tell the number of private rows.
        estimator.set_params(delta=0.5)
        refused(estimator, lambda e: e.fit(GOOD, TURNS), ValueError, "sampling_rate must be given")
        estimator.set_params(sampling_rate=rate)
    for delta in (0.0, 1e-6, np.nextafter(rate, 0)):
        estimator.set_params(delta=delta)
        refused(estimator, lambda e: e.fit(GOOD, TURNS), ValueError, "delta must be at least 0.2")
    # A budget of less delta than that refuses as well.
    estimator.set_params(delta=rate, budget=PrivacyBudget(100.0, 0.1, adjacency=adjacency))
    with pytest.warns(PublishedRowsWarning):
        refused(estimator, lambda e: e.fit(GOOD, TURNS), BudgetExceededError, "delta")
