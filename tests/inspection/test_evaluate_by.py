"""`evaluate_by`: errors of a model by group cover the exact ones, for one charge."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdp
from skdp import PrivacyBudget
from skdp.inspection import GroupEvaluation, evaluate_by
from skdp.statistics import compare
from skdp.synthetic import DPMarginalSynthesizer

REGIONS, SHARES = ["east", "north", "south"], [0.05, 0.7, 0.25]
GAPS = [0.3, 0.0, -0.1]  # of the chance of a positive label, by region
N, FITS, ALPHA = 3000, 40, 1e-6


def rows(seed):
    """Return rows, labels whose chance differs by region, and targets."""
    rng = np.random.default_rng(seed)
    region = rng.choice(3, N, p=SHARES)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, N), "region": np.array(REGIONS)[region]})
    chance = np.clip(0.5 + 0.4 * X["a"] + np.array(GAPS)[region], 0, 1)
    return X, rng.random(N) < chance, X["a"] + np.array(GAPS)[region]


@pytest.fixture(scope="module")
def models():
    X, y, target = rows(999)
    return (
        LogisticRegression().fit(X[["a"]], y),
        LinearRegression().fit(X[["a"]], target),
    )


def exact(model, X, y, target):
    """Return the metrics of the rows of each region."""
    classifier, regressor = model
    chance = classifier.predict_proba(X[["a"]])[:, 1]
    error = np.clip(regressor.predict(X[["a"]]) - target, -0.5, 0.5)
    losses = {
        "error": classifier.predict(X[["a"]]) != y,
        "calibration_gap": chance - y,
        "mean_error": error,
        "absolute_error": np.abs(error),
    }
    return pd.DataFrame(losses).groupby(X["region"]).mean(), X.groupby("region").size()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_cover(models, delta):
    """Each at least at its level: a false alarm in 10 of 10**6 runs, one for each metric."""
    misses, tries = {}, 0
    truth = exact(models, *map(pd.concat, zip(*map(rows, range(100, 160)), strict=True)))[0]
    with skdp.config_context(uncounted_fits="allow"):
        for seed in range(FITS):
            X, y, target = rows(seed)
            known, sizes = exact(models, X, y, target)
            options = {"by": "region", "keys": REGIONS, "epsilon": 1.0, "delta": delta}
            released = [
                evaluate_by(models[0], X, y, **options),
                evaluate_by(models[1], X, target, max_error=0.5, **options),
            ]
            tries += len(REGIONS)
            for evaluation in released:
                assert evaluation.groups == REGIONS
                for name, metric in evaluation.metrics.items():
                    wanted = sizes if name == "count" else known[name]
                    ends = {name: (metric.interval(), wanted)}
                    if name != "count":
                        ends[f"{name} of all"] = metric.population_interval(), truth[name]
                    for key, ((low, high), value) in ends.items():
                        outside = (value < low - 1e-6) | (value > high + 1e-6)
                        misses[key] = misses.get(key, 0) + int(outside.sum())
    limit = binom.isf(ALPHA, tries, 0.05)
    assert max(misses.values()) <= limit, misses
    # Wide enough to cover, and no wider than needed: half a width of noise is a few hundredths.
    low, high = released[0]["error"].interval()
    assert np.all(high - low < [0.5, 0.06, 0.15])


def test_one_charge_and_what_it_shows(models):
    X, y, _ = rows(1)
    budget = PrivacyBudget(2.0, 1e-6)
    evaluation = evaluate_by(models[0], X, y, by="region", epsilon=1.0, budget=budget)
    assert evaluation.groups == REGIONS  # selected
    assert len(budget.charges) == 1 and budget.spent.epsilon == evaluation.privacy.epsilon == 1.0
    assert budget.spent.delta <= 1e-6
    frame = evaluation.to_frame()
    assert list(frame.index) == REGIONS and frame.index.name == "region"
    assert {"error", "error_low", "error_population_high", "count_low"} <= set(frame)
    assert not {"error_population_low"} & set(evaluation.to_frame(level=0.9))
    assert "calibration_gap" in evaluation._repr_html_()
    assert len(compare(evaluation["error"]).p_value) == 3
    evaluation.plot()
    assert evaluation.ax_.get_xlabel() == "error rate"
    evaluation.plot("count", population=False)
    assert [tick.get_text() for tick in evaluation.ax_.get_yticklabels()] == REGIONS
    with pytest.raises(skdp.exceptions.BudgetExceededError):
        evaluate_by(models[0], X, y, by="region", epsilon=1.5, budget=budget)


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame, "array", "arrow"])
def test_groups_may_be_columns_or_an_array(models, container):
    X, y, _ = rows(2)
    options = {"keys": REGIONS, "epsilon": 50.0, "budget": PrivacyBudget(100.0)}
    if container == "array":
        evaluation = evaluate_by(models[0], X[["a"]], y, by=list(X["region"]), **options)
    elif container == "arrow":
        model = LogisticRegression().fit(X[["a"]].to_numpy(), y)
        table = pl.DataFrame(X[["a"]]).to_arrow()
        by = pl.Series(X["region"]).to_numpy()
        evaluation = evaluate_by(model, np.asarray(table["a"])[:, None], y, by=by, **options)
    else:
        evaluation = evaluate_by(models[0], container(X), y, by=["region"], **options)
    np.testing.assert_allclose(evaluation["count"], X.groupby("region").size(), atol=5)


def test_several_classes_and_units(models):
    X, y, _ = rows(3)
    y = np.where(y, REGIONS[0], REGIONS[1])
    y[::7] = REGIONS[2]
    model = DummyClassifier(strategy="prior").fit(X[["a"]], y)
    with skdp.config_context(uncounted_fits="allow"):
        evaluation = evaluate_by(
            model, X[["a"]], y, by=X["region"], keys=REGIONS, groups=np.arange(N) // 2, epsilon=9.0
        )
    assert isinstance(evaluation, GroupEvaluation)
    gap, error = evaluation["calibration_gap"].value, evaluation["error"].value
    np.testing.assert_allclose(gap, model.class_prior_.max() - (1 - error), atol=0.1)


def test_synthetic_counts():
    X, _, _ = rows(4)
    synthetic = X.assign(region=np.where(X["region"] == "east", "north", X["region"]))
    budget = PrivacyBudget(100.0, 1e-6)
    options = {"keys": REGIONS, "epsilon": 5.0, "budget": budget}
    evaluation = evaluate_by(synthetic, X, by="region", **options)
    sizes = X.groupby("region").size()
    expected = [-sizes["east"], sizes["east"], 0]
    np.testing.assert_allclose(evaluation["count_error"], expected, atol=8)
    low, high = evaluation["count_error"].interval()
    assert np.all(high - low < 8)
    thrice = pd.concat([synthetic] * 3)  # as large as nothing that is held out
    tripled = evaluate_by(thrice, X, by="region", **options)["count_error"]
    np.testing.assert_allclose(tripled, expected, atol=8)
    assert tripled.sum().value == pytest.approx(0.0, abs=1e-6)
    few = X.assign(region=["east"] * (len(X) - 10) + ["far"] * 10)  # too few for an error
    own = PrivacyBudget(5.0, 1e-6)
    learned = evaluate_by(few, few, by="region", epsilon=5.0, budget=own)
    known, expected = (np.isfinite(learned[name].std) for name in ("count_error", "count"))
    assert known[0] and np.array_equal(known, expected)
    release = DPMarginalSynthesizer(epsilon=20.0, delta=1e-6, budget=budget).fit(X)
    evaluation = evaluate_by(release, X, by="region", **options)
    assert np.all(np.abs(evaluation["count_error"].value) < 30)
    evaluation.plot()
    with pytest.warns(UserWarning, match="none of the released groups"):
        evaluate_by(synthetic.assign(region=1), X, by="region", **options)


def test_labels_that_are_missing_are_wrong(models):
    X, y, _ = rows(6)
    cells = y.astype(object)
    cells[:300] = pd.NA
    options = {"by": X["region"], "keys": REGIONS, "epsilon": 1e4}
    found, plain = (evaluate_by(models[0], X[["a"]], one, **options) for one in (cells, y))
    wrong = (found["error"].value * found["count"].value).sum()
    right = models[0].predict(X[["a"]])[:300] == y[:300]
    before = (plain["error"].value * plain["count"].value).sum()
    assert wrong == pytest.approx(before + right.sum(), abs=1)


def test_what_is_refused_costs_nothing(models):
    X, y, _ = rows(5)
    budget = PrivacyBudget(1.0)
    options = {"by": "region", "keys": REGIONS, "budget": budget}
    encoder = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(X[["region"]], y)
    strange = X.assign(region="Elsewhere")
    with pytest.raises(ValueError, match="could not predict") as caught:
        evaluate_by(encoder, strange[["region"]], y, **options)
    assert caught.value.__context__ is None and "Elsewhere" not in str(caught.value)
    cells = X["a"].astype(object)
    cells[3] = "Alice Smith"
    with pytest.raises(ValueError, match="or a target no number") as caught:
        evaluate_by(models[1], X[["a"]], cells, **{**options, "by": X["region"]})
    assert caught.value.__context__ is None and "Alice" not in str(caught.value)
    with pytest.raises(ValueError, match="got 2 for 3000 rows"):
        evaluate_by(models[0], X, y, **{**options, "by": ["Alice Smith", "Bob Jones"]})
    with pytest.raises(ValueError, match="y must be"):
        evaluate_by(models[0], X, **options)
    with pytest.raises(ValueError, match="max_error"):
        evaluate_by(models[1], X, y, max_error=-1.0, **options)
    with pytest.raises(ValueError, match="must name columns"):
        evaluate_by(models[0], X, y, **{**options, "by": ["nothing"]})
    for model in (OneHotEncoder(), 3):
        with pytest.raises(TypeError, match="model must be"):
            evaluate_by(model, X, y, **options)
    assert budget.spent.epsilon == 0
