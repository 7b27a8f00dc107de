"""Metrics of held-out private rows: what they say, how often intervals cover, what is refused."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binomtest
from sklearn import metrics as sklearn_metrics
from sklearn.calibration import calibration_curve

from skdp import PrivacyBudget, metrics, statistics
from skdp.confidence.equations import Noise
from skdp.exceptions import BudgetExceededError
from tests.folding import each

BUDGETS = {
    "replace_one": None,
    "add_or_remove_one": PrivacyBudget(1e9, 0.9, adjacency="add_or_remove_one"),
}
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
PREDICTED = np.where(RNG.random(300) < 0.8, Y, (Y + 1) % 3)
SCORE = RNG.random(300)
BINARY = (RNG.random(300) < SCORE).astype(int)
LABELS = {"labels": [0, 1, 2]}
TWO = {"labels": [0, 1]}
X = RNG.normal(size=300)
TARGET = X + RNG.normal(0, 0.3, size=300)
EXACT = {"epsilon": 1e5}


def test_labels_that_are_not_given_name_the_way_out():
    for function in (metrics.accuracy_score, metrics.confusion_matrix, metrics.roc_auc_score):
        with pytest.raises(TypeError, match=r"labels=model\.classes_"):
            function([0, 1], [0, 1])


def test_without_noise_they_are_those_of_scikit_learn():
    matrix = metrics.confusion_matrix(Y, PREDICTED, **LABELS, **EXACT)
    np.testing.assert_array_equal(
        matrix.counts.value, sklearn_metrics.confusion_matrix(Y, PREDICTED)
    )
    right = sklearn_metrics.accuracy_score(Y, PREDICTED)
    balanced = sklearn_metrics.balanced_accuracy_score(Y, PREDICTED)
    assert float(metrics.accuracy_score(Y, PREDICTED, **LABELS, **EXACT)) == pytest.approx(right)
    assert float(matrix.accuracy()) == pytest.approx(right)
    assert float(matrix.balanced_accuracy()) == pytest.approx(balanced)
    alone = metrics.balanced_accuracy_score(Y, PREDICTED, **LABELS, **EXACT)
    assert float(alone) == pytest.approx(balanced)
    for found, name in ((matrix.recall(), "recall"), (matrix.precision(), "precision")):
        wanted = getattr(sklearn_metrics, f"{name}_score")(Y, PREDICTED, average=None)
        np.testing.assert_allclose(found.value, wanted)

    found = metrics.score_histogram(BINARY, SCORE, **TWO, bins=np.linspace(0, 1, 21), **EXACT)
    auc = found.roc_auc()
    low, high = auc.interval()
    assert low <= sklearn_metrics.roc_auc_score(BINARY, SCORE) <= high
    binned = sklearn_metrics.roc_auc_score(BINARY, np.floor(SCORE * 20))
    assert float(auc) == pytest.approx(binned)
    fpr, tpr, thresholds = found.roc_curve()
    for rates, label in ((fpr, 0), (tpr, 1)):
        wanted = [(SCORE[label == BINARY] >= t).mean() for t in thresholds]
        np.testing.assert_allclose(rates.value, wanted, atol=1e-9)
    alone = metrics.calibration_curve(BINARY, SCORE, **TWO, bins=5, **EXACT)
    prob_true, prob_pred, edges = found.calibration_curve(5)
    np.testing.assert_allclose(alone[0].value, prob_true.value)
    finer = metrics.score_histogram(BINARY, SCORE, **TWO, bins=4, **EXACT).edges
    np.testing.assert_allclose(finer, [0, 0.14644661, 0.5, 0.85355339, 1])
    wanted, _ = calibration_curve(BINARY, SCORE, n_bins=5)
    np.testing.assert_allclose(prob_true.value, wanted)
    np.testing.assert_allclose(prob_pred, [0.1, 0.3, 0.5, 0.7, 0.9])
    assert edges.tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    right = sklearn_metrics.accuracy_score(BINARY, SCORE >= 0.5)
    assert float(found.accuracy(0.5)) == pytest.approx(right)
    balanced = sklearn_metrics.balanced_accuracy_score(BINARY, SCORE >= 0.5)
    assert float(found.balanced_accuracy()) == pytest.approx(balanced)

    ask = {"target_bounds": (-5, 5), "max_error": 2.0, **EXACT}
    errors = metrics.regression_errors(TARGET, X, **ask)
    for found, name in (
        (errors.r2(), "r2_score"),
        (errors.mse(), "mean_squared_error"),
        (errors.mae(), "mean_absolute_error"),
        (errors.rmse(), "root_mean_squared_error"),
    ):
        wanted = getattr(sklearn_metrics, name)(TARGET, X)
        assert float(found) == pytest.approx(wanted, rel=1e-3)
        assert math.prod(float(end) - wanted for end in found.interval(0.9999)) <= 1e-12


def test_cells_of_scores_are_more_where_rows_are_many_and_count_the_same_rows():
    rng = np.random.default_rng(0)
    score = rng.random(100_000)
    y = (rng.random(100_000) < score).astype(int)
    widths = []
    for n, cells in ((100, 10), (10_000, 80), (100_000, 320)):
        # The released number of rows would have to be a sixth off for other numbers of cells.
        found = metrics.score_histogram(y[:n], score[:n], **TWO, epsilon=1.0, random_state=n)
        stated = metrics.score_histogram(y[:n], score[:n], **TWO, bins=cells, epsilon=1.0)
        np.testing.assert_array_equal(found.edges, stated.edges)
        low, high = found.roc_auc().interval()
        assert low <= sklearn_metrics.roc_auc_score(y[:n], score[:n]) <= high
        widths.append(high - low)
    assert widths[0] > 3 * widths[1] > 9 * widths[2]
    # Scores close together need more cells, and a rare class bears fewer.
    close = metrics.score_histogram(y, 0.5 + score / 20, **TWO, epsilon=1.0)
    rare = metrics.score_histogram(y * (score > 0.97), score, **TWO, epsilon=1.0)
    assert len(rare.edges) < len(found.edges) < len(close.edges)
    exact = {**TWO, **EXACT}
    auto, stated = (metrics.score_histogram(y, score, **exact, bins=b) for b in ("auto", 640))
    np.testing.assert_array_equal(auto.counts.value.round(), stated.counts.value.round())


def test_no_row_of_either_class_is_a_metric_that_is_not_known():
    for n in (0, 2000):
        y, score = np.full(n, 7), np.full(n, 0.5)
        budget = PrivacyBudget(1e6, adjacency="add_or_remove_one")
        assert np.isnan(metrics.roc_auc_score(y, score, **TWO, **EXACT, budget=budget))


def test_functions_release_no_more_than_what_they_are_named_after():
    assert {name for name in metrics.__all__ if name[0].islower()} == {
        "accuracy_score", "balanced_accuracy_score", "calibration_curve", "confusion_matrix",
        "mean_absolute_error", "mean_squared_error", "r2_score", "regression_errors",
        "roc_auc_score", "roc_curve", "score_histogram",
    }  # fmt: skip
    count = "skdp.core.sums.RowSum: number of rows"
    marginal = f"{count} by cell of a marginal table"
    moments = "skdp.core.sums.RowSum: clipped values and their squares"
    found = [
        metrics.accuracy_score(Y, PREDICTED, **LABELS),
        metrics.balanced_accuracy_score(Y, PREDICTED, **LABELS),
        metrics.confusion_matrix(Y, PREDICTED, **LABELS),
        metrics.score_histogram(BINARY, SCORE, **TWO, bins=5),
        metrics.calibration_curve(BINARY, SCORE, **TWO)[0],
    ]
    assert all([r.query for r in one.privacy.releases] == [marginal] for one in found)
    found = [
        metrics.score_histogram(BINARY, SCORE, **TWO),
        metrics.roc_auc_score(BINARY, SCORE, **TWO),
        metrics.roc_curve(BINARY, SCORE, **TWO)[0],
    ]
    assert all([r.query for r in one.privacy.releases] == [count, marginal] for one in found)
    stated = {"max_error": 1.0}
    found = [
        metrics.mean_squared_error(TARGET, X, **stated),
        metrics.mean_absolute_error(TARGET, X, **stated),
        metrics.r2_score(TARGET, X, target_bounds=(-3, 3), **stated),
        metrics.regression_errors(TARGET, X, target_bounds=(-3, 3), **stated),
    ]
    assert all([r.query for r in one.privacy.releases] == [moments] for one in found)


def test_one_charge_each_under_its_name():
    budget = PrivacyBudget(2.0, 1e-5)
    metrics.accuracy_score(Y, PREDICTED, **LABELS, epsilon=0.5, budget=budget)
    metrics.roc_curve(BINARY, SCORE, **TWO, epsilon=0.5, delta=1e-6, budget=budget)
    metrics.r2_score(TARGET, X, epsilon=0.5, budget=budget)
    assert [charge.estimator for charge in budget.charges] == [
        "accuracy_score", "roc_curve", "r2_score",
    ]  # fmt: skip
    assert budget.spent.epsilon == pytest.approx(1.5)
    with pytest.raises(BudgetExceededError):
        metrics.accuracy_score(Y, PREDICTED, **LABELS, budget=budget)


NAN = np.where(np.arange(300) == 7, np.nan, SCORE)


@each(
    ("call", "message"),
    [
        (lambda **o: metrics.accuracy_score(Y, PREDICTED[:-1], **LABELS, **o), "same number"),
        (lambda **o: metrics.accuracy_score(Y, None, **LABELS, **o), "y_pred"),
        (lambda **o: metrics.accuracy_score(Y, PREDICTED[:, None] * [1, 1], **LABELS, **o), "one-"),
        (lambda **o: metrics.accuracy_score(Y, NAN, **LABELS, **o), "NaN"),
        (lambda **o: metrics.accuracy_score([None] * 3, [0, 1, 1], **LABELS, **o), "missing"),
        (
            lambda **o: metrics.accuracy_score(Y, PREDICTED, labels=["a", "b"], **o),
            "none of the stated classes",
        ),
        (lambda **o: metrics.accuracy_score(Y, PREDICTED, labels=[0], **o), "at least two"),
        (lambda **o: metrics.accuracy_score(Y, PREDICTED, labels=[0, 0], **o), "different labels"),
        (lambda **o: metrics.accuracy_score(Y, PREDICTED, labels="01", **o), "got str"),
        (lambda **o: metrics.accuracy_score(Y, PREDICTED, labels=[0, None], **o), "none missing"),
        (lambda **o: metrics.roc_curve(BINARY, NAN, **TWO, **o), "NaN"),
        (lambda **o: metrics.roc_curve(BINARY, SCORE, labels=[0, 1, 2], **o), "exactly 2"),
        (lambda **o: metrics.roc_curve(BINARY, SCORE, **TWO, bins=1, **o), "bins must be"),
        (lambda **o: metrics.roc_curve(BINARY, SCORE, **TWO, bins=[1, 0], **o), "bins must be"),
        (lambda **o: metrics.roc_curve(BINARY, ["a"] * 300, **TWO, **o), "real numbers"),
        (lambda **o: metrics.r2_score(TARGET, NAN, **o), "NaN"),
        (lambda **o: metrics.r2_score(TARGET, X, target_bounds=(1, 1), **o), "target_bounds"),
        (lambda **o: metrics.r2_score(TARGET, X, target_bounds="no", **o), "target_bounds"),
        (lambda **o: metrics.r2_score(TARGET, X, max_error=0, **o), "max_error"),
        (lambda **o: metrics.mean_absolute_error(TARGET, X, max_error=True, **o), "max_error"),
        (lambda **o: metrics.r2_score(TARGET, X, groups=Y, **o), "protects one row"),
    ],
)
def test_what_is_wrong_is_refused_before_the_charge(call, message):
    budget = PrivacyBudget(1.0)
    with pytest.raises((TypeError, ValueError), match=message):
        call(budget=budget)
    assert not budget.charges


def test_wrong_privacy_parameters_are_refused_before_the_charge():
    budget = PrivacyBudget(1.0)
    for name, value in (("epsilon", 0.0), ("delta", 1.0), ("max_rows_per_unit", 0)):
        with pytest.raises(ValueError, match=name):
            metrics.accuracy_score(Y, PREDICTED, **LABELS, budget=budget, **{name: value})
        with pytest.raises(ValueError, match=name):
            metrics.r2_score(TARGET, X, budget=budget, **{name: value})
    assert not budget.charges


def test_labels_and_scores_that_are_none_have_a_fixed_rule():
    """Other labels are in no cell of a matrix, and predicted wrongly; scores go to the ends."""
    y, predicted = [0, 1, 7, 7, 1], [0, 7, 7, 0, 1]
    matrix = metrics.confusion_matrix(y, predicted, **TWO, **EXACT)
    assert matrix.counts.value.tolist() == [[1, 0], [0, 1]]
    assert float(metrics.accuracy_score(y, predicted, **TWO, **EXACT)) == pytest.approx(0.4)
    balanced = metrics.balanced_accuracy_score(y, predicted, **TWO, **EXACT)
    assert float(balanced) == pytest.approx(0.75)
    found = metrics.score_histogram([0, 1, 1, 7], [-3.0, 5.0, 1.0, 0.5], **TWO, bins=2, **EXACT)
    assert found.counts.value.tolist() == [[1, 0], [0, 2]]


def test_labels_of_any_type_and_container_in_any_order():
    names = np.array(["no", "maybe", "yes"])
    y, predicted = names[Y], names[PREDICTED]
    wanted = sklearn_metrics.confusion_matrix(y, predicted, labels=["yes", "no", "maybe"])
    for container in (np.asarray, list, pd.Series, pl.Series):
        matrix = metrics.confusion_matrix(
            container(y), container(predicted), labels=["yes", "no", "maybe"], **EXACT
        )
        np.testing.assert_array_equal(matrix.counts.value, wanted)
        assert matrix.labels.tolist() == ["yes", "no", "maybe"]
    found = metrics.roc_auc_score(BINARY == 1, SCORE, labels=[True, False], **EXACT)
    assert float(found) < 0.5


def test_one_class_only_and_no_rows_at_all():
    for y, score in ((np.ones(200, int), np.random.default_rng(3).random(200)), ([], [])):
        found = metrics.score_histogram(y, score, **TWO, epsilon=0.1)
        for one in (found.roc_auc(), found.balanced_accuracy()):
            low, high = one.interval()
            assert 0 <= low <= high <= 1
        low, high = found.calibration_curve(5)[0].interval()
        assert np.all((low >= 0) & (low <= high) & (high <= 1))
    errors = metrics.regression_errors([], [], epsilon=0.1)
    assert np.isposinf(errors.mse().interval()[1])
    assert "state max_error" in errors.mse().note


def test_a_cell_whose_rows_noise_hides_has_no_share():
    score = np.repeat([0.05, 0.95], 2000)  # nothing between
    found = metrics.score_histogram((score > 0.5).astype(int), score, **TWO, epsilon=1.0, bins=10)
    shares = found.calibration_curve()[0]
    assert (
        np.isnan(shares.value[2:8]).sum() >= 3
    )  # six cells without rows; in 60 calls 5 or 6 were NaN
    low, high = shares.interval()
    whole = (low == 0) & (high == 1)
    assert np.array_equal(np.isnan(shares.value), whole) and not whole[[1, 8]].any()


def test_an_estimate_is_a_number_with_two_intervals():
    accuracy = metrics.accuracy_score(Y, PREDICTED, **LABELS, epsilon=2.0)
    low, high = accuracy.interval()
    first, last = accuracy.population_interval()
    assert first < low < float(accuracy) < high < last
    assert accuracy.interval(0.5)[1] < high
    assert {type(end) for end in (low, high, first, last)} == {float}
    assert f"{accuracy:.2f}" == f"{float(accuracy):.2f}"
    assert "noise at 95%" in repr(accuracy)
    assert np.isclose(np.sqrt(accuracy), math.sqrt(accuracy))
    assert "95% for the population" in accuracy._repr_html_()
    columns = ["value", "std", "low", "high", "population_low", "population_high"]
    assert list(accuracy.to_frame()) == columns
    assert statistics.Released is type(accuracy)
    assert np.isnan(accuracy.std) and np.isnan((100 * accuracy).interval()).all()
    again = pickle.loads(pickle.dumps(accuracy))
    assert again.interval() == accuracy.interval()
    recall = metrics.confusion_matrix(Y, PREDICTED, **LABELS).recall()
    assert float(recall[1]) == recall.value[1]
    assert recall[1].interval() == tuple(end[1] for end in recall.interval())
    ends = recall.population_interval()
    assert recall[1:][0].population_interval() == tuple(end[1] for end in ends)
    assert [float(one) for one in recall] == recall.value.tolist()
    with pytest.raises(ValueError, match="level must be"):
        accuracy.interval(1.0)
    with pytest.raises(ValueError, match="edges"):
        metrics.score_histogram(BINARY, SCORE, **TWO).accuracy(0.51)
    with pytest.raises(ValueError, match="divisor"):
        metrics.score_histogram(BINARY, SCORE, **TWO).calibration_curve(7)


def test_what_metrics_are_computed_from_has_a_short_repr():
    histogram = metrics.score_histogram(BINARY, SCORE, **TWO, bins=np.linspace(0, 1, 21), **EXACT)
    negative, positive = histogram.counts.value.sum(axis=1)
    auc = float(histogram.roc_auc())
    text = repr(histogram)
    assert text.startswith("ScoreHistogram(20 bins from 0 to 1, labels=")
    assert f"rows: {negative:.4g}, {positive:.4g}, " in text
    assert text.endswith(f"roc_auc: {auc:.4g})")
    matrix = metrics.confusion_matrix(Y, PREDICTED, **LABELS)
    assert len(repr(matrix)) < 200
    assert str(matrix.counts.value) in repr(matrix)
    errors = metrics.regression_errors(X, X + 0.1, max_error=1.0, target_bounds=(-3, 3))
    assert f"mae: {float(errors.mae()):.4g}, rmse: " in repr(errors)
    for found in (histogram, matrix, errors):
        assert "PrivacyCertificate" not in repr(found)


def test_rows_of_one_unit_hang_together():
    budget = PrivacyBudget(10.0, unit="patient")
    groups = pd.Series(np.arange(300) // 3, name="patient")
    accuracy = metrics.accuracy_score(
        Y, PREDICTED, **LABELS, groups=groups, max_rows_per_unit=3, budget=budget
    )
    assert np.isfinite(accuracy.interval()).all()
    assert np.isnan(accuracy.population_interval()).all()
    assert "depend on each other" in accuracy._repr_html_()


def test_the_reach_of_noise_on_whole_numbers_by_its_exact_distribution():
    for epsilon in (0.01, 0.1, 1.0, 3.0, 6.0, 20.0):
        p = math.exp(-epsilon)
        noise = Noise(math.sqrt(2 * p) / (1 - p), pure=True)
        for level in (0.5, 0.9, 0.95, 0.999):
            half = math.floor(noise.width(level) * noise.reach(level) + 1e-9)
            assert 2 * p ** (half + 1) / (1 + p) <= 1 - level + 1e-12


def pmf_of_sum(p, n):
    """Return the exact distribution of a sum of n discrete Laplace noises, of -60 n to 60 n."""
    one = (1 - p) / (1 + p) * p ** np.abs(np.arange(-60, 61))
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, one)
    return np.arange(-60 * n, 60 * n + 1), total


@each("epsilon", [0.5, 1.0, 2.0, 3.0])
@each(("cells", "others"), [(1, 1), (1, 3), (2, 3), (4, 1)])
def test_a_share_of_few_counts_by_its_exact_distribution(epsilon, cells, others):
    """P(|(1 - t) S - t R| <= width) is at least the level: sums S and R of whole noises."""
    p = math.exp(-epsilon)
    noise = Noise(math.sqrt(2 * p) / (1 - p), pure=True)
    (x, of_part), (y, of_others) = pmf_of_sum(p, cells), pmf_of_sum(p, others)
    chance = np.outer(of_part, of_others)
    for share in (0.0, 0.02, 0.3, 0.5, 0.93, 1.0):
        far = np.abs(np.subtract.outer((1 - share) * x, share * y))
        norm = math.sqrt((1 - share) ** 2 * cells + share**2 * others)
        for level in (0.5, 0.8, 0.9, 0.95, 0.99):
            half = noise.width(level) * noise.reach(level) * norm
            assert chance[far <= half + 1e-9].sum() >= level - 1e-3


# --- how often intervals cover --------------------------------------------------------------------

MANY = pytest.mark.exhaustive


def covered(ask, truth, runs, level=0.9, *, population=False):
    """Assert that intervals cover at their level; false alarms: at most 1e-6 an entry."""
    inside = 0
    for _ in range(runs):
        found = ask()
        ends = found.population_interval(level) if population else found.interval(level)
        inside = inside + ((ends[0] <= truth + 1e-9) & (truth <= ends[1] + 1e-9))
    for hits in np.ravel(inside):
        assert binomtest(int(hits), runs, level, alternative="less").pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "delta", "relation", "runs"),
    [
        (0.1, 0.0, "add_or_remove_one", 100),
        (0.5, 1e-6, "replace_one", 100),
        *(
            pytest.param(*privacy, relation, 2000, marks=MANY)
            for privacy in ((0.1, 0.0), (2.0, 0.0), (0.5, 1e-6))
            for relation in BUDGETS
        ),
    ],
)
def test_intervals_cover_the_metric_of_these_rows(system_noise, epsilon, delta, relation, runs):
    ask = {"epsilon": epsilon, "delta": delta, "budget": BUDGETS[relation]}
    rng = np.random.default_rng(3)
    y = rng.permutation(np.repeat([0, 1, 2], [400, 150, 50]))
    predicted = np.where(rng.random(600) < 0.93, y, (y + 1) % 3)
    score = np.clip(rng.normal(0.3 + 0.4 * (y == 0), 0.2), 0, 1)
    wanted = sklearn_metrics.balanced_accuracy_score(y, predicted)
    covered(lambda: metrics.balanced_accuracy_score(y, predicted, **LABELS, **ask), wanted, runs)
    wanted = sklearn_metrics.accuracy_score(y, predicted)
    covered(lambda: metrics.accuracy_score(y, predicted, **LABELS, **ask), wanted, runs)
    wanted = sklearn_metrics.roc_auc_score(y == 0, score)
    labels = {"labels": [False, True]}
    covered(lambda: metrics.roc_auc_score(y == 0, score, **labels, **ask), wanted, runs)
    edges = np.linspace(0, 1, 6)
    wanted = np.array([(score[y == 0] >= t).mean() for t in edges[::-1]])
    wanted[0] = 0.0
    covered(lambda: metrics.roc_curve(y == 0, score, bins=edges, **labels, **ask)[1], wanted, runs)
    x = rng.normal(size=600)
    target = x + rng.normal(0, 0.5, 600)
    clipped, error = np.clip(target, -3, 3), np.minimum(np.abs(target - x), 1.5)
    stated = {"max_error": 1.5, **ask}
    covered(lambda: metrics.mean_absolute_error(target, x, **stated), error.mean(), runs)
    covered(lambda: metrics.mean_squared_error(target, x, **stated), (error**2).mean(), runs)
    stated["target_bounds"] = (-3, 3)
    wanted = 1 - (error**2).mean() / clipped.var()
    covered(lambda: metrics.r2_score(target, x, **stated), wanted, runs)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "epsilon", "runs"),
    [
        (150, 0.5, 100),
        pytest.param(150, 0.3, 2000, marks=MANY),
        pytest.param(1000, 2.0, 2000, marks=MANY),
    ],
)
def test_population_intervals_cover_the_metric_of_the_population(system_noise, n, epsilon, runs):
    """Rows are drawn anew in each run: 94% are right, AUC .76, R² .8."""
    ask = {"epsilon": epsilon, "budget": BUDGETS["add_or_remove_one"]}
    rng = np.random.default_rng(4)

    def right():
        y = rng.integers(0, 2, n)
        return y, np.where(rng.random(n) < 0.94, y, 1 - y)

    def scored():
        y = rng.integers(0, 2, n)
        return y, 1 / (1 + np.exp(-rng.normal(y, 1.0)))

    def numbers():
        x = rng.uniform(-1, 1, n)
        return x + rng.uniform(-0.5, 0.5, n), x

    covered(lambda: metrics.accuracy_score(*right(), **TWO, **ask), 0.94, runs, population=True)
    covered(
        lambda: metrics.balanced_accuracy_score(*right(), **TWO, **ask), 0.94, runs, population=True
    )
    covered(
        lambda: metrics.roc_auc_score(*scored(), **TWO, **ask), 0.7602499, runs, population=True
    )
    stated = {"max_error": 0.5, **ask}
    covered(lambda: metrics.mean_absolute_error(*numbers(), **stated), 0.25, runs, population=True)
    covered(lambda: metrics.mean_squared_error(*numbers(), **stated), 1 / 12, runs, population=True)
    stated["target_bounds"] = (-1.5, 1.5)
    covered(lambda: metrics.r2_score(*numbers(), **stated), 0.8, runs, population=True)
