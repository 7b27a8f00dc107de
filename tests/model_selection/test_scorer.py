"""Private scores: their values, sensitivity, noise, charges, and every wrong parameter."""

from __future__ import annotations

import pickle
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import (
    GridSearchCV,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skdp.budget import PrivacyBudget
from skdp.core import transcript
from skdp.model_selection import (
    PrivateScorer,
    _scorer,
    private_scorer,
    search_cost,
)
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler
from tests.folding import each

X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2


class Echo(BaseEstimator):
    """Predicts its first column, centres at the origin; refuses rows with a negative number."""

    def fit(self, X, y=None):
        self.cluster_centers_ = np.zeros((1, 2))
        return self

    def predict(self, X):
        X = np.asarray(X, dtype=float)
        if (X < 0).any():
            raise ValueError(f"a row that says {X}")
        return X[:, 0]


ECHO = Echo().fit(X)


def test_the_brier_score_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(300, 2)), rng.choice(["a", "b", "c"], 300, p=[0.8, 0.1, 0.1])
    budget = PrivacyBudget(1e12)
    score = private_scorer("neg_brier_score", epsilon=1e9, budget=budget)
    for kept in (labels != "c", labels != "none"):
        model = LogisticRegression().fit(rows[kept], labels[kept])
        chances = model.predict_proba(rows[kept])
        hit = labels[kept][:, None] == model.classes_
        assert score(model, rows[kept], labels[kept]) == pytest.approx(
            -((chances - hit) ** 2).sum(axis=1).mean() / 2, abs=1e-5
        )
        if len(model.classes_) == 2:
            wanted = brier_score_loss(labels[kept], chances[:, 1], pos_label="b")
            assert score(model, rows[kept], labels[kept]) == pytest.approx(-wanted, abs=1e-5)
    # A label that is no class of the model: as far off as can be, within the bounds.
    assert score(model, rows, np.full(300, "x")) >= -1.0
    with pytest.raises(TypeError, match="needs a fitted estimator with predict_proba"):
        score(ECHO, X, Y)
    with pytest.raises(ValueError, match="bounds must be None"):
        private_scorer("neg_brier_score", epsilon=1.0, bounds=1.0)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_scores_are_the_clipped_means(adjacency):
    budget = PrivacyBudget(1e9, adjacency=adjacency)
    rng = np.random.default_rng(0)
    array = rng.random((300, 2))
    y = np.where(np.arange(300) < 100, array[:, 0], 2.0)

    def score(metric, bounds, X=array, y=y, model=ECHO):
        scorer = private_scorer(metric, epsilon=1e6, bounds=bounds, budget=budget)
        return scorer(model, X, y)

    errors = array[:, 0] - y
    cases = [
        ("accuracy", None, (errors == 0).astype(float)),
        ("neg_mean_absolute_error", 1.5, -np.abs(errors)),
        ("neg_mean_squared_error", (-1.5, -0.25), -(errors**2)),
        ("neg_inertia", 0.5, -(array**2).sum(axis=1)),
    ]
    for metric, bounds, rows in cases:
        low, high = (
            (0, 1) if bounds is None else bounds if isinstance(bounds, tuple) else (-bounds, 0)
        )
        assert score(metric, bounds) == pytest.approx(np.clip(rows, low, high).mean(), abs=2e-4)
    # Rows that cannot be scored count as the worst; so do scores that are not finite.
    array[:30] = -1.0
    assert score("accuracy", None) == pytest.approx(70 / 300, abs=2e-4)
    array[:30] = np.nan
    assert score("neg_inertia", 0.5) == pytest.approx(
        np.where(np.isnan(array[:, 0]), -0.5, np.clip(-(array**2).sum(axis=1), -0.5, 0)).mean(),
        abs=2e-4,
    )
    # Text, tables, several outputs.
    frame = pd.DataFrame({"text": ["yes", "no", "no", "yes"] * 50})
    model = make_pipeline(
        FunctionTransformer(lambda t: (t == "yes").to_numpy(float)), DecisionTreeClassifier()
    ).fit(frame, ["a", "b", "b", "a"] * 50)
    truth = pd.Series(["a", "b", "a", "a"] * 50, index=np.arange(200)[::-1])
    assert score("accuracy", None, frame, truth, model) == pytest.approx(0.75, abs=2e-4)
    two = np.stack([y, y + 1], axis=1)
    model = LinearRegression().fit(array[30:], two[30:])
    expected = -np.clip(((model.predict(array[30:]) - two[30:]) ** 2).mean(axis=1), 0, 9).mean()
    found = score("neg_mean_squared_error", 9.0, array[30:], two[30:], model)
    assert found == pytest.approx(expected, abs=1e-3)


def test_inertia_of_a_pipeline_is_measured_behind_its_transformers():
    array = np.random.default_rng(0).normal(3.0, 2.0, (300, 2))
    pipe = make_pipeline(StandardScaler(), "passthrough", Echo()).fit(array)
    scorer = private_scorer("neg_inertia", epsilon=1e6, bounds=100.0)
    assert scorer(pipe, array) == pytest.approx(-2.0, abs=1e-3)


def test_inertia_behind_scalers_has_the_same_bits_in_every_batch():
    # What lets the kernel score rows in blocks where their number and order are private.
    rng = np.random.default_rng(0)
    array = rng.normal(size=(500, 23)) * rng.exponential(size=23)
    model = make_pipeline(
        DPMinMaxScaler(bounds=(-3.0, 3.0)),
        DPStandardScaler(bounds=(0.0, 1.0), random_state=0),
        Echo(),
    ).fit(array)
    model[-1].cluster_centers_ = rng.normal(size=(7, 23))
    score = _scorer._METRICS["neg_inertia"][0]
    alone = np.concatenate([score(model, array[i : i + 1], None) for i in range(500)])
    order = rng.permutation(500)
    for part in (slice(0, 500), slice(3, 260), slice(None, None, 3), order[:77], order):
        for batch in (array[part], np.asfortranarray(array[part]), pd.DataFrame(array[part])):
            assert score(model, batch, None).tolist() == alone[part].tolist()


VALUES = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, -1.0, np.nan, np.inf, 1e308])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["replace_one", "add_or_remove_one"]),
    hnp.arrays(np.float64, (5, 2), elements=VALUES),
    hnp.arrays(np.float64, 5, elements=VALUES),
)
def test_sensitivity_holds_for_any_row(adjacency, rows, y):
    budget = BUDGETS[adjacency]
    for metric in ("accuracy", "neg_inertia", "neg_mean_squared_error"):
        bounds = None if metric == "accuracy" else 2.5
        scorer = private_scorer(metric, epsilon=1.0, bounds=bounds, budget=budget)
        transcripts = []
        first = slice(0, 4)
        other = [4, 1, 2, 3] if adjacency == "replace_one" else [1, 2, 3]
        for part in (first, other):
            with transcript.record() as recorded:
                scorer(ECHO, rows[part], y[part])
            transcripts.append(recorded.entries)
        ((a,), (b,)) = transcripts
        assert a.sensitivity == b.sensitivity
        assert a.distance(a.exact, b.exact) <= a.sensitivity


BUDGETS = {a: PrivacyBudget(1e9, adjacency=a) for a in ("replace_one", "add_or_remove_one")}


@pytest.mark.parametrize("adjacency", BUDGETS)
def test_sensitivity_is_reached(adjacency):
    # So that the test above can fail: a tenth less would be refused by this pair.
    scorer = private_scorer("accuracy", epsilon=1.0, budget=BUDGETS[adjacency])
    right, wrong = np.zeros((3, 2)), np.zeros((3, 2))
    wrong[0] = 1.0
    pair = (right, wrong) if adjacency == "replace_one" else (right, right[1:])
    entries = []
    for rows in pair:
        with transcript.record() as recorded:
            scorer(ECHO, rows, np.zeros(len(rows)))
        entries += recorded.entries
    a, b = entries
    assert a.distance(a.exact, b.exact) > 0.9 * a.sensitivity


@pytest.mark.statistical
def test_noise_of_a_score_has_the_stated_scale():
    # 1000 seeds, fixed: this cannot fail by chance. Laplace of scale w/(n epsilon).
    rows, y = np.zeros((20, 2)), np.arange(20) % 2
    noise = [
        private_scorer("accuracy", epsilon=2.0, random_state=seed)(ECHO, rows, y) - 0.5
        for seed in range(1000)
    ]
    scale = 1.0 / (20 * 2.0)
    assert stats.kstest(noise, "laplace", (0, scale)).pvalue > 1e-2
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(noise, "laplace", (0, wrong * scale)).pvalue < 1e-3


def test_seeded_scores_are_reproducible_and_share_no_noise():
    rows, y = np.zeros((20, 2)), np.arange(20) % 2
    scorer = private_scorer("accuracy", epsilon=2.0, random_state=0)
    assert scorer(ECHO, rows, y) == clone(scorer)(ECHO, rows, y)
    assert scorer(ECHO, rows, y) != scorer(ECHO, rows, y[::-1])  # other targets, the same mean
    other = Echo().set_params().fit(X)
    other.cluster_centers_ = np.ones((1, 2))  # another candidate, the same predictions
    assert scorer(ECHO, rows, y) != scorer(other, rows, y)
    # Scorers that differ in their bounds only, by hardly anything: other noise, not scaled noise.
    squared = [
        private_scorer("neg_mean_squared_error", epsilon=2.0, bounds=b, random_state=0)
        for b in (9.0, 9.0 + 1e-12, (-9.0, 0.0))
    ]
    first, second, third = (scorer_(ECHO, rows, y) for scorer_ in squared)
    assert abs(first - second) > 1e-3
    assert first == third  # the same bounds, written differently
    frame = pd.DataFrame({"text": ["yes", "no"] * 10})
    model = make_pipeline(FunctionTransformer(text_length), DecisionTreeClassifier()).fit(
        frame, ["a", "b"] * 10
    )
    assert scorer(model, frame, ["a", "b"] * 10) == scorer(model, frame, ["a", "b"] * 10)


def text_length(table):
    return np.array([[len(cell)] for cell in table["text"]])


def test_every_call_is_charged_before_it_scores():
    budget = PrivacyBudget(0.3)
    scorer = private_scorer("accuracy", epsilon=0.1, budget=budget)
    rows, y = np.zeros((20, 2)), np.zeros(20)
    for copy_ in (scorer, clone(scorer), pickle.loads(pickle.dumps(scorer))):
        assert isinstance(copy_(ECHO, rows, y), float)
    with pytest.raises(ValueError, match="budget"):
        scorer(ECHO, rows, y)
    assert [c.estimator for c in budget.charges] == ["private_scorer(accuracy)"] * 3
    assert budget.spent.epsilon == 0.3
    assert budget.charges[0].delta == 0.0


def test_scoring_in_threads_leaves_the_warning_filters_alone():
    before = list(warnings.filters)
    rows = np.zeros((400, 2))

    def run():
        for _ in range(5):
            private_scorer("accuracy", epsilon=1.0)(ECHO, rows, rows[:, 0])

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_is_charged_for_its_scores_in_every_process(n_jobs):
    budget = PrivacyBudget(99.0)
    scorer = private_scorer("accuracy", epsilon=0.5, budget=budget)
    search = GridSearchCV(
        LogisticRegression(),
        {"C": [0.1, 1.0]},
        cv=3,
        scoring=scorer,
        n_jobs=n_jobs,
        error_score="raise",
    )
    with budget.reserve(search_cost(search, 60)):
        search.fit(np.arange(60.0)[:, None], np.arange(60) > 29)
    assert budget.spent.epsilon == 3.0 == search_cost(search).epsilon
    two = {"a": scorer, "b": clone(scorer)}
    result = cross_validate(
        LogisticRegression(),
        np.arange(60.0)[:, None],
        np.arange(60) > 29,
        cv=2,
        scoring=two,
        return_train_score=True,
        n_jobs=n_jobs,
    )
    assert budget.spent.epsilon == 3.0 + 8 * 0.5
    assert np.isfinite(result["test_a"]).all()


def test_an_empty_fold_is_scored_where_the_number_of_rows_is_private():
    empty = np.zeros((0, 2)), np.zeros(0)
    budget = PrivacyBudget(9.0, adjacency="add_or_remove_one")
    assert 0 <= private_scorer("accuracy", epsilon=1.0, budget=budget)(ECHO, *empty) <= 1
    assert budget.spent.epsilon == 1.0
    with pytest.raises(ValueError, match="0 sample"):
        private_scorer("accuracy", epsilon=1.0)(ECHO, *empty)


@each(
    ("parameters", "kind", "match"),
    [
        (("r2", 1.0), ValueError, "metric must be one of"),
        ((None, 1.0), ValueError, "metric must be one of"),
        (("accuracy", 0.0), ValueError, "epsilon"),
        (("accuracy", np.nan), ValueError, "epsilon"),
        (("accuracy", "1"), TypeError, "epsilon"),
        (("accuracy", 1.0, (0, 1)), ValueError, "bounds must be None"),
        (("neg_inertia", 1.0), ValueError, "bounds must be given"),
        (("neg_inertia", 1.0, 0.0), ValueError, "bounds"),
        (("neg_inertia", 1.0, True), ValueError, "bounds"),
        (("neg_inertia", 1.0, np.inf), ValueError, "bounds"),
        (("neg_inertia", 1.0, (0.0, -1.0)), ValueError, "bounds"),
        (("neg_inertia", 1.0, (0.0, np.nan)), ValueError, "bounds"),
        (("neg_inertia", 1.0, "ab"), ValueError, "bounds"),
        (("neg_inertia", 1.0, (1.0, 2.0, 3.0)), ValueError, "bounds"),
        (("accuracy", 1.0, None, 1.0), TypeError, "budget must be"),
    ],
)
def test_bad_parameters_of_scorers(parameters, kind, match):
    metric, epsilon, bounds, budget = (*parameters, None, None)[:4]
    with pytest.raises(kind, match=match):
        private_scorer(metric, epsilon=epsilon, bounds=bounds, budget=budget)
    scorer = PrivateScorer(metric, epsilon=epsilon, bounds=bounds, budget=budget)
    with pytest.raises(kind, match=match):
        scorer(ECHO, X, Y)


def test_bad_calls_of_scorers_charge_nothing():
    budget = PrivacyBudget(9.0)
    accuracy = private_scorer("accuracy", epsilon=1.0, budget=budget)
    inertia = private_scorer("neg_inertia", epsilon=1.0, bounds=1.0, budget=budget)
    with pytest.raises(TypeError, match="y must be given"):
        accuracy(ECHO, X)
    with pytest.raises(TypeError, match="cluster_centers_"):
        inertia(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y), X)
    with pytest.raises(ValueError, match="same number of rows"):
        accuracy(ECHO, X, Y[:-1])
    with pytest.raises(ValueError, match="random_state"):
        private_scorer("accuracy", epsilon=1.0, budget=budget, random_state="a")(ECHO, X, Y)
    assert budget.charges == []


def test_one_odd_label_in_a_list_does_not_change_the_others():
    """np.asarray(["a", 1]) would make every label text (adversarial reader)."""
    scores = []
    for odd in (1, "a"):
        y = [1] * 1000
        y[0] = odd
        budget = PrivacyBudget(1e6)
        scorer = private_scorer("accuracy", epsilon=1e4, budget=budget)
        scores.append(scorer(ECHO, np.ones((1000, 1)), y))
    assert abs(scores[0] - scores[1]) < 0.002
