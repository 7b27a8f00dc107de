"""What DPSubsampleAggregate learns, from how many blocks, and with which error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from models import (
    LABELS,
    PUBLIC,
    TARGETS,
    TEST,
    TREE,
    A,
    Constant,
    R,
    X,
    averaging,
    budget_of,
    linear,
    relations,
    voting,
)
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from skdp.core.transcript import record
from skdp.ensemble import DPSubsampleAggregate
from skdp.ensemble._blocks import Scores, directions, radius
from tests.folding import each

# --- what it learns -------------------------------------------------------------------------------


@relations
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_votes_label_the_public_rows(relation, delta):
    model = voting(delta=delta, budget=budget_of(relation)).fit(X, LABELS)
    truth = np.where(PUBLIC[:, 0] > 0, "late", "on time")
    assert np.mean(model.answers_ == truth) > 0.9
    assert model.votes_.shape == (60, 2)
    assert model.score(TEST, np.where(TEST[:, 0] > 0, "late", "on time")) > 0.85
    assert model.student_.tree_.n_node_samples[0] == 60  # it has seen public rows only
    np.testing.assert_allclose(model.predict_proba(TEST).sum(axis=1), 1)
    assert not hasattr(model, "decision_function")


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_three_classes(delta):
    y = (X[:, 0] > 0).astype(int) + (X[:, 0] > 0.5)
    model = voting(classes=[2, 0, 1], delta=delta, epsilon=50.0, n_queries=30).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.votes_ is None) == (delta == 0)
    assert len(model.queries_) == len(model.answers_) == 30
    asked = PUBLIC[model.queries_, 0]
    assert np.mean(model.answers_ == (asked > 0).astype(int) + (asked > 0.5)) > 0.85


@relations
@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_predictions_of_regressors(relation, aggregate):
    model = averaging(aggregate=aggregate, epsilon=200.0, budget=budget_of(relation, 300.0))
    model.fit(X, TARGETS)
    asked = PUBLIC[model.queries_]
    truth = 3 * asked[:, 0] - asked[:, 1] + 0.5
    assert np.mean(np.abs(model.answers_ - truth)) < 0.5
    assert model.score(TEST, 3 * TEST[:, 0] - TEST[:, 1] + 0.5) > 0.9


def test_smooth_medians_of_predictions():
    model = averaging(aggregate="smooth_median", epsilon=200.0, n_queries=20).fit(X, TARGETS)
    asked = PUBLIC[model.queries_]
    assert np.mean(np.abs(model.answers_ - (3 * asked[:, 0] - asked[:, 1] + 0.5))) < 0.5
    (release,) = model.privacy_.releases
    assert release.mechanism == "rounded Cauchy, smooth sensitivity"


@relations
@each("aggregate", ["mean", "median", "smooth_median"])
def test_parameters_of_a_linear_model(relation, aggregate):
    model = linear(aggregate=aggregate, budget=budget_of(relation)).fit(X, TARGETS)
    np.testing.assert_allclose(model.coef_, [3.0, -1.0], atol=0.3)
    np.testing.assert_allclose(model.intercept_, 0.5, atol=0.3)
    expected = TEST @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(TEST), expected)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "queries_")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("inner", [LogisticRegression(), LinearSVC()])
def test_parameters_of_a_linear_classifier(inner, n_classes):
    corners = np.array([[1, 0], [-1, 1], [-1, -1]])[:n_classes].T
    model = linear(inner, classes=range(n_classes), epsilon=500.0, n_blocks=30)
    model.fit(X, (X @ corners).argmax(axis=1))
    assert model.coef_.shape == (1 if n_classes == 2 else 3, 2)
    assert model.score(TEST, (TEST @ corners).argmax(axis=1)) > 0.85
    shape = (500,) if n_classes == 2 else (500, 3)
    assert model.decision_function(TEST).shape == shape
    assert hasattr(model, "predict_proba") == isinstance(inner, LogisticRegression)


def test_a_student_of_another_kind():
    model = voting(student=LogisticRegression()).fit(X, LABELS)
    assert isinstance(model.student_, LogisticRegression)
    model = averaging(student=DecisionTreeRegressor()).fit(X, TARGETS)
    assert isinstance(model.student_, DecisionTreeRegressor)


def test_rows_with_other_labels_are_left_out():
    y = np.where(np.arange(len(X)) % 3, LABELS, "cancelled").astype(object)
    y[::9] = 7
    model = voting().fit(X, y)
    assert set(model.answers_) == {"late", "on time"}
    assert np.mean(model.answers_ == np.where(PUBLIC[:, 0] > 0, "late", "on time")) > 0.85


def test_bounds_clip_targets():
    y = np.where(np.arange(len(X)) % 50 == 0, 1e6, TARGETS)
    model = averaging(n_blocks=50, epsilon=200.0).fit(X, y)
    assert np.abs(model.answers_).max() <= 5


# --- how many blocks and queries ------------------------------------------------------------------


@pytest.mark.slow
@each("delta", [0.0, 1e-5])
@each("n", [1, 30, 1000, 6000])
@relations
def test_automatic_numbers(relation, delta, n):
    model = voting(
        aggregate="auto",
        n_blocks="auto",
        n_queries="auto",
        epsilon=3.0,
        delta=delta,
        budget=budget_of(relation),
    ).fit(X[:n], LABELS[:n])
    assert 1 <= model.n_blocks_ <= max(n, 30)
    assert 10 <= len(model.queries_) <= 60
    assert hasattr(model, "scores_") == (n < 6000 or delta == 0)  # 60 votes are not heard
    names = [release.name for release in model.privacy_.releases]
    assert ("count" in names) == (relation == A)
    if n == 6000:
        assert model.n_blocks_ > 10


@pytest.mark.statistical
@each("epsilon", [1.0, 10.0])
@each("delta", [0.0, 1e-5])
@each("make", [voting, averaging, linear])
def test_expected_error_is_that_of_the_noise(make, delta, epsilon):
    """Against the scale in the certificate, in steps and half widths."""
    model = make(epsilon=epsilon, delta=delta, n_blocks="auto")
    expected = model.expected_error(len(X), 2)
    model.fit(X, LABELS if make is voting else TARGETS)
    (release,) = model.privacy_.releases
    numbers = 3 if make is linear else len(model.answers_)
    spread = math.sqrt(numbers + 1)  # of K-norm noise, of the ball or of the cube
    if release.mechanism == "K-norm of the cube":
        spread *= math.sqrt((numbers + 2) / 3)
    std = release.scale if delta else release.scale * spread
    half = 1.0 if make is voting else 5.0
    assert std / model.n_blocks_ / half == pytest.approx(expected, rel=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize("relation, delta", [(R, 0.0), (A, 1e-5)])
def test_expected_error_of_scores_is_their_noise(relation, delta):
    """The noise of the difference of two classes, over rows (before the cut) and 24 fits.

    Its mean square over rows is the sum of squares of the noise of orthonormal directions, at least
    8: the root of a mean over 24 fits is off by 30% with probability below 1e-3.
    """
    budget = budget_of(relation, 1e4)
    model = voting(GaussianNB(), aggregate="scores", n_blocks=60, epsilon=2.0)
    model.set_params(delta=delta, budget=budget, random_state=None)
    expected = model.expected_error(len(X), 2)
    squares = []
    for _ in range(24):
        with record() as transcript:
            model.fit(X, LABELS)
        entry, release = transcript.entries[-1], model.privacy_.releases[-1]
        unit = release.sensitivity / entry.sensitivity / model.n_blocks_
        noise = (entry.released - entry.exact).astype(float) * unit
        assert noise.size >= 8
        squares.append(float(noise @ noise))
    assert expected / 1.3 < math.sqrt(np.mean(squares)) < expected * 1.3


@pytest.mark.slow
def test_scores_teach_from_few_rows():
    """400 rows of the breast cancer table: the median area under the curve of 9 fits.

    About 0.98 with a spread of 0.015; votes reach 0.90. Below 0.96 with probability below 1e-3.
    """
    X, y = load_breast_cancer(return_X_y=True)
    areas = []
    for seed in range(9):
        order = np.random.default_rng(seed).permutation(len(X))
        fitted, public, rest = order[:400], order[400:485], order[485:]
        model = DPSubsampleAggregate(
            make_pipeline(StandardScaler(), LogisticRegression()),
            public=X[public],
            classes=[0, 1],
        ).fit(X[fitted], y[fitted])
        assert model.votes_ is None and model.scores_.shape == (85, 2)
        areas.append(roc_auc_score(y[rest], model.predict_proba(X[rest])[:, 1]))
    assert np.median(areas) > 0.96


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("inner", [LogisticRegression(), LinearSVC()])
def test_scores_of_models_with_and_without_probabilities(inner, n_classes):
    corners = np.array([[1, 0], [-1, 1], [-1, -1]])[:n_classes].T
    model = voting(inner, aggregate="scores", classes=range(n_classes), epsilon=50.0)
    model.fit(X, (X @ corners).argmax(axis=1))
    assert model.scores_.shape == (60, n_classes)
    assert model.answers_.tolist() == model.scores_.argmax(axis=1).tolist()
    assert model.score(TEST, (TEST @ corners).argmax(axis=1)) > 0.85


def test_directions_are_orthonormal_and_smooth_first():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(50, 3)) * [1.0, 1e200, 1e-200]
    table = np.column_stack([table, np.full(50, 7.0), table[:, 0]])  # a constant, a copy
    for most in (1, 2, 4, 30, 80):
        basis = directions(table, most)
        assert basis.shape == (50, min(most, 50)) or most == 80
        np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-8)
        np.testing.assert_allclose(basis[:, 0], 50**-0.5)
    assert directions(np.ones((5, 2)), 10).shape == (5, 1)


@relations
def test_a_block_moves_scores_by_no_more_than_their_ball(relation):
    """Blocks that say the most extreme scores, one or the other: the sensitivity that is stated."""
    for n_classes in (2, 3):
        basis = directions(PUBLIC, 20)
        for k in range(n_classes):
            task = Scores(TREE, PUBLIC, len(PUBLIC), np.arange(n_classes), basis)
            parts = task(X[:5], np.full(5, k), 0)
            assert np.linalg.norm(parts) <= radius(n_classes) * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("how", ["median", "smooth_median"])
def test_medians_have_no_expected_error(how, delta):
    model = linear(aggregate=how, delta=delta)
    with pytest.raises(ValueError, match=r"how far the blocks agree.*aggregate='mean'"):
        model.expected_error(len(X), 2)


def test_winners_have_no_expected_error():
    model = voting(classes=[0, 1, 2], aggregate="vote")
    with pytest.raises(ValueError, match=r"delta > 0.*aggregate='scores'"):
        model.expected_error(len(X), 2)
    assert model.set_params(aggregate="scores").expected_error(len(X), 2) > 0
    assert model.set_params(aggregate="vote", delta=1e-5).expected_error(len(X), 2) > 0


def test_smooth_medians_need_few_blocks_where_these_agree():
    """Unanimous but for noise of 0.003: the other ways are far off with 30 blocks."""
    model = linear(
        Constant(0.003), aggregate="smooth_median", n_blocks=30, epsilon=3.0, random_state=None
    )
    far = [np.abs(model.fit(X, np.ones(len(X))).coef_[0] - 1) > 0.1 for _ in range(30)]
    # About one in fifty, each; 15 of 30 with probability below 1e-15.
    assert sum(far) < 15


def test_automatic_blocks_follow_the_documented_rule():
    model = voting(n_blocks="auto", n_queries=10, delta=1e-5, epsilon=1.0)
    assert model.expected_error(10**6, 2) == pytest.approx(0.25, rel=0.01)
    assert model.fit(X, LABELS).n_blocks_ <= len(X) // 20
    model.set_params(aggregate="scores")
    assert model.expected_error(10**6, 2) == pytest.approx(0.1, rel=0.01)
    assert model.fit(X[:900], LABELS[:900]).n_blocks_ <= 90
