"""A domain that is learned: nothing but its releases, which move by what is declared."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.linear_model import LinearRegression

from skdp import DPTrainOnRelease, PrivacyBudget
from skdp.audit import neighbour_check, replay_check
from skdp.core import open_session
from skdp.core.privacy_filter import PrivacyFilter
from skdp.core.session import Session
from skdp.core.table import PrivateTable, stability_of
from skdp.queries import key_selection as selection
from skdp.queries import learn_domain
from skdp.synthetic import DPMarginalSynthesizer
from skdp.tabular import ColumnPlan, check_rows, check_uncoded, column_plans, table_schema

RELATIONS = ("add_or_remove_one", "replace_one")
ALPHA = 1e-7


def table(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.3, np.nan, rng.normal(3, 2, n)),
            "whole": rng.integers(0, 300, n),
            "text": np.where(rng.random(n) < 0.1, None, rng.choice(["a", "b"], n)),
            "kind": rng.choice(["x", "y", "z"], n),
        }
    )


def neighbours(relation):
    """Return two tables, one row apart, of which the row differs in every column."""
    one, other = table(), table()
    other.loc[0] = [-1e9, 10**9, "new", None]
    one.loc[0] = [np.nan, -7, "c", "x"]
    return (one, other) if relation == "replace_one" else (one, one.iloc[1:])


def made(kind, relation, **changes):
    options = {
        "epsilon": 3.0,
        "delta": 1e-5,
        "budget": PrivacyBudget(99.0, 0.5, adjacency=relation),
    }
    if kind == "model":
        model = LinearRegression()
        return DPTrainOnRelease(model, target="whole", **options | changes)
    return DPMarginalSynthesizer(**options | changes)


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours(relation):
    """Each statistic moves by at most what is declared; those of a row of new keys by just that."""
    found = neighbour_check(made("table", relation), *neighbours(relation))
    names = [one.name for one in found]
    assert "categories, round 1" in names
    (missing,) = [one for one in found if one.name == "missing values"]
    assert missing.distance == 1 == round(missing.sensitivity, 9)
    assert any(name.startswith("quantiles of whole") for name in names)
    keys = [one for one in found if one.name == "categories, round 1"]
    assert keys[0].distance > 0.99 * keys[0].sensitivity


@pytest.mark.parametrize("relation", RELATIONS)
def test_replay(relation):
    """An unrelated table with the same releases gives the same fit: no row decides otherwise."""
    other = table(1500 if relation == "replace_one" else 900, seed=5)
    other["text"], other["whole"] = "elsewhere", -other["whole"]
    replay_check(made("table", relation), table(), other)


def test_replay_of_a_model():
    one, other = table()[["whole", "kind"]], table(seed=4)[["kind", "whole"]][["whole", "kind"]]
    stated = {"kind": [0, 1, 2]}
    one["kind"], other["kind"] = (np.arange(1500) % 3 for _ in range(2))
    replay_check(made("model", "replace_one", domain=stated, delta=0.0), one, other)


def _shows(runs, relation):
    """Return in how many runs one of the two values of a row alone shows, at a delta of 0.1."""
    frame, schema = table_schema(pd.DataFrame({"a": ["p"], "b": ["q"]}), estimator="test")
    plans = column_plans({}, frame, schema)
    options = {"estimator": "test", "epsilon": 1.0, "delta": 0.05, "budget": None}
    seen = 0
    for _ in range(runs):
        rows = check_uncoded(frame, plans, named=True)
        whole = PrivacyFilter(rows.digest, separate_delta=0.1, **options)
        session = Session(PrivateTable(rows, stability_of(relation)), whole)
        learned = learn_domain(session, plans, 1.0, 4, Fraction(1), named=True)
        seen += max(learned.domain.sizes) > 1
    return seen


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
def test_values_of_one_row_show_no_more_often_than_delta(relation, monkeypatch):
    """All its columns together; false alarms: 1e-7 a relation."""
    runs, limit = 200, 0.1 if relation == "add_or_remove_one" else 0.05
    assert _shows(runs, relation) <= binom.isf(ALPHA, runs, limit)
    monkeypatch.setattr(selection, "gaussian_threshold", lambda weights, *_: weights[0])
    assert _shows(runs, relation) > binom.isf(ALPHA, runs, limit)  # a threshold that hides nothing


def test_units_of_many_rows():
    budget = PrivacyBudget(5.0, 1e-4, unit="user", adjacency="add_or_remove_one")
    rows = table(3000)
    fit = DPMarginalSynthesizer(epsilon=5.0, delta=1e-4, max_rows_per_unit=2, budget=budget)
    fit.fit(rows, groups=np.repeat(np.arange(1500), 2))
    assert fit.privacy_.unit == "user"
    assert fit.domain_.columns["kind"] == ["x", "y", "z", "other"]


def test_only_uncoded_rows_are_asked():
    plan = ColumnPlan(0, "learned numbers", missing=True)
    rows = check_rows(np.zeros((3, 1)), estimator="test")
    with (
        open_session(rows, estimator="test", epsilon=1.0) as session,
        pytest.raises(TypeError, match="no codes yet"),
    ):
        learn_domain(session, [plan], 3.0, 4, Fraction(1), named=False)
