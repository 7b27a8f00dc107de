"""Calibrated probabilities: against the shares of the classes, monotone, beside slow oracles."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from skdp import Domain, DPTrainOnRelease, PrivacyBudget, config_context
from skdp.base.calibration import _curve, shrunk_shares
from skdp.core.clipping import Box
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.linear_model import DPLogisticRegression
from skdp.naive_bayes import DPCategoricalNB, DPGaussianNB
from skdp.neighbors import DPNearestCentroid
from skdp.queries import AdditiveScores, ColumnCells, TableScores, leads
from skdp.queries.scores import (
    CodedScoreCells,
    LinearScores,
    MedianScores,
    NormalScores,
    ScoreCells,
)
from tests.folding import each

KINDS = [DPGaussianNB, DPNearestCentroid, DPLinearDiscriminantAnalysis]


def copies(n, k, seed=0):
    """Return rows of k classes whose columns are copies of one another, and codes of labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(k, n, p=np.arange(1, k + 1) / sum(range(1, k + 1)))
    X = rng.normal(size=(n, 1)) + 1.2 * y[:, None] + 0.1 * rng.normal(size=(n, 12))
    return np.clip(np.round(X), -3, 3 + 2 * k), y


def made(kind, k, **options):
    options = {"epsilon": 1.0, "delta": 1e-6, "classes": range(k), **options}
    if kind is DPCategoricalNB:
        return kind([range(-3, 4 + 2 * k)] * 12, **options)
    return kind(bounds=(-3, 3 + 2 * k), **options)


def log_loss(chances, y):
    return -np.log(np.maximum(chances[np.arange(len(y)), y], 1e-12)).mean()


def calibration_error(chances, y):
    best, right = chances.max(axis=1), chances.argmax(axis=1) == y
    place = np.minimum((best * 10).astype(int), 9)
    return sum(
        (place == b).mean() * abs(best[place == b].mean() - right[place == b].mean())
        for b in np.unique(place)
    )


@each("k", [2, 3])
@each("kind", [*KINDS, DPCategoricalNB])
def test_copies_of_a_column_do_not_make_rows_certain(kind, k):
    """As independent columns, twelve copies would have log losses above 2."""
    X, y = copies(8000, k)
    Z, truth = copies(4000, k, 1)
    shares = np.bincount(y) / len(y)
    nothing = -np.log(shares[truth]).mean()
    for relation in ("replace_one", "add_or_remove_one"):
        budget = PrivacyBudget(10.0, 1e-3, adjacency=relation)
        chances = made(kind, k, budget=budget).fit(X, y).predict_proba(Z)
        assert log_loss(chances, truth) < nothing - 0.05
        assert calibration_error(chances, truth) < 0.1
        assert np.allclose(chances.sum(axis=1), 1)


@each("delta", [0.0, 1e-6])
@each("kind", KINDS)
def test_labels_that_nothing_tells_get_their_shares(kind, delta):
    """Means over eight fits of 400 rows; one fit deviates by about .01."""
    losses = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(400, 20)), (rng.random(400) < 0.25).astype(int)
        model = kind(classes=[0, 1], bounds=(-3, 3), delta=delta).fit(X, y)
        Z, truth = rng.normal(size=(2000, 20)), (rng.random(2000) < 0.25).astype(int)
        losses.append(log_loss(model.predict_proba(Z), truth))
    assert np.mean(losses) < -0.25 * np.log(0.25) - 0.75 * np.log(0.75) + 0.04


@each("kind", KINDS)
def test_the_order_of_rows_stays(kind):
    X, y = copies(500, 2)
    model = made(kind, 2, epsilon=0.1).fit(X, y)
    lead = leads(model._calibration.scores.of_rows(X))[0]
    chances = model.predict_proba(X)[:, 1][np.argsort(lead, kind="stable")]
    assert (np.diff(chances) >= -1e-12).all()
    assert chances[-1] > chances[0]


def test_shares_are_shrunk_by_their_noise():
    assert np.allclose(shrunk_shares(np.array([10.0, 30.0]), 0.0), [0.25, 0.75])
    shrunk = shrunk_shares(np.array([1.0, 30.0]), 100.0)
    assert np.allclose(shrunk, 0.5, atol=0.05) and shrunk.sum() == pytest.approx(1)


def test_the_shares_of_the_first_two_classes_are_no_evidence():
    """Scores that always put the largest of four classes first, before one of a tenth."""
    shares, places = np.array([0.7, 0.1, 0.1, 0.1]), np.geomspace(0.2, 4.0, 8)
    counts = np.tile([125.0, 875.0], (4, 1))  # of 5,000 rows: the next, and the first class
    within = np.full((4, 2), 0.25)
    curves = {
        ratio: _curve(counts, 10.0, places, within, 0.45, shares, 5000 * shares, 10.0, ratio)
        for ratio in (0.0, np.log(7.0))
    }
    told = {ratio: float(np.abs(curve(places)).max()) for ratio, curve in curves.items()}
    assert told[np.log(7.0)] < 0.3 < 1.0 < told[0.0]


def test_a_category_that_noise_hides_does_not_rule_a_class_out():
    rng = np.random.default_rng(0)
    y = (np.arange(3000) % 50 == 0).astype(int)  # 60 rows of the rarer class
    X = rng.integers(0, 8, size=(3000, 6)).astype(float)
    model = DPCategoricalNB([range(8)] * 6, classes=[0, 1], epsilon=0.3, random_state=0)
    with config_context(noise="seeded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    smallest = min(float(logs.min()) for logs in model.feature_log_prob_)
    assert model.category_count_std_error_ > 50 and smallest > np.log(1 / 80)


def coded(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 6))
    y = (X[:, 0] + X[:, 1] + rng.normal(0, 1.5, n) > 3.5).astype(int)
    return np.column_stack([X, y])


@each("delta", [0.0, 1e-6])
def test_a_trained_estimator_is_calibrated(delta):
    """Its logits are ten times too large, as those of a model that is too sure of itself."""

    class Sure(LogisticRegression):
        def predict_proba(self, X):
            lead = 10 * self.decision_function(X)
            return np.column_stack([1 / (1 + np.exp(lead)), 1 / (1 + np.exp(-lead))])

    rows, other = coded(6000), coded(3000, 1)
    domain = Domain([4] * 6 + [2])
    budget = PrivacyBudget(10.0, 1e-3, adjacency="add_or_remove_one")
    options = {"domain": domain, "delta": delta, "budget": budget}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPTrainOnRelease(Sure(), **options).fit(rows)
    Z, truth = other[:, :6], other[:, 6]
    own = model.estimator_.predict_proba(Z)
    assert log_loss(own, truth) > 0.8
    chances = model.predict_proba(Z)
    assert log_loss(chances, truth) < 0.6
    assert calibration_error(chances, truth) < 0.06
    moved = np.diff(chances[np.argsort(own[:, 1], kind="stable"), 1])
    assert (moved >= -1e-12).all()  # the order of rows stays
    assert model.privacy_.releases[-1].name == "calibration"


def test_scores_of_tables_are_those_of_the_distribution():
    rows = coded(1000)
    model = DPTrainOnRelease(LogisticRegression(), domain=Domain([4] * 6 + [2]), random_state=0)
    distribution = model.fit(rows)._model
    bags = [v for v, bag in enumerate(distribution.tree.bags) if 6 in bag]
    scores = TableScores(
        (4,) * 6 + (2,),
        6,
        2,
        tuple(distribution.tree.bags[v] for v in bags),
        tuple(np.log(distribution.conditionals[v]) for v in bags),
    ).of_rows(rows)
    for k in (0, 1):
        at = rows.copy()
        at[:, 6] = k
        other = at.copy()
        other[:, 6] = 1 - k
        expected = np.log(distribution.fractions(at)) - np.log(distribution.fractions(other))
        assert np.allclose(scores[:, k] - scores[:, 1 - k], expected)


def test_a_coded_row_is_in_one_cell_that_it_alone_decides():
    """So a row more moves one count by one, a row replaced two: both are attained."""
    rng = np.random.default_rng(0)
    logs = tuple(np.log(rng.dirichlet(np.ones(8)).reshape(4, 2)) for _ in range(3))
    scores = TableScores((4, 4, 4, 2), 3, 2, ((0, 3), (1, 3), (2, 3)), logs)
    rows = np.column_stack([rng.integers(0, 4, (500, 3)), rng.integers(0, 2, 500)])
    lead = scores.of_rows(rows)
    cells = CodedScoreCells(scores, np.quantile(lead[:, 1] - lead[:, 0], [0.2, 0.5, 0.8]))
    codes = cells.of_rows(rows, None)
    assert codes.shape == (500, 1) and set(np.unique(codes)) == set(range(8))
    for start, stop in ((0, 1), (7, 8), (3, 200)):
        assert (cells.of_rows(rows[start:stop], None) == codes[start:stop]).all()

    def counts(part):
        return np.bincount(cells.of_rows(part, None).ravel(), minlength=8)

    assert np.abs(counts(rows[1:]) - counts(rows)).sum() == 1
    moved = [
        np.abs(counts(np.r_[rows[1:], rows[i : i + 1]]) - counts(rows)).sum() for i in range(9)
    ]
    assert max(moved) == 2


def plain_scores(scores, row):
    """Return the scores of one row, in Python's numbers, added in the order of the columns."""
    out = []
    for k in range(2):
        total = float(scores.offset[k]) if isinstance(scores, LinearScores) else 0.0
        for j, x in enumerate(row.tolist()):
            if isinstance(scores, LinearScores):
                q = float(scores.view.map(row[None])[0, j]) * float(scores.view.grid[j])
                total += float(scores.weights[k, j]) * q
                continue
            if isinstance(scores, AdditiveScores):
                total += float(scores.scores[k, scores.cells.starts[j] + (x >= 0.0)])
                continue
            x = min(max(x, float(scores.low[j])), float(scores.high[j]))
            if isinstance(scores, MedianScores):
                total -= abs(x - float(scores.medians[k, j])) / float(scores.scale[j])
            else:
                total += float(np.log(scores.var[k, j]))
                total += (x - float(scores.mean[k, j])) ** 2 / float(scores.var[k, j])
        out.append(-0.5 * total if isinstance(scores, NormalScores) else total)
    return out


@pytest.mark.parametrize("n", [0, 1, 9])
def test_a_row_alone_decides_its_scores(n):
    rng = np.random.default_rng(n)
    low, high = -rng.random(4), rng.random(4)
    means, variances = rng.normal(size=(2, 4)), rng.random((2, 4)) + 0.1
    rows = rng.normal(size=(n, 4))
    for scores in (
        LinearScores(Box(low, high), means, rng.normal(size=2)),
        NormalScores(low, high, means, variances),
        MedianScores(low, high, means, variances[0]),
        AdditiveScores(ColumnCells((np.zeros(1),) * 4), rng.normal(size=(2, 8))),
    ):
        assert scores.of_rows(rows).tolist() == [plain_scores(scores, row) for row in rows]


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    exponent=st.sampled_from([-300, -8, 0, 8, 140, 300]),
    size=st.sampled_from([1.0, 1e-200]),
)
def test_products_put_rows_in_the_bins_of_their_leads(seed, exponent, size):
    """Also where leads are cuts, or rows differ from a cut in the last bits, or sums overflow."""
    rng = np.random.default_rng(seed)
    low, high = -rng.random(4), rng.random(4)
    means, variances = rng.normal(size=(2, 4)) * 10.0**exponent, 10.0 ** rng.uniform(-3, 3, (2, 4))
    if rng.random() < 0.3:
        means[1], variances[1] = means[0], variances[0]
    rows = rng.normal(size=(40, 4))
    if size < 1.0:  # reciprocals of the variances overflow
        low, high, means, rows = low * size, high * size, means * size, rows * size
        variances *= 1e-309
    rows[20:] = np.nextafter(rows[:20], rng.normal(size=4))
    for scores in (
        LinearScores(Box(low, high), means, rng.normal(size=2)),
        NormalScores(low, high, means, variances),
    ):
        lead = leads(scores.of_rows(rows))[0]
        cuts = np.unique(np.concatenate([lead[::5], [np.median(lead)]]))
        with np.errstate(all="ignore"):
            cells = ScoreCells(scores, cuts).of_rows(rows, np.ones(40, dtype=np.int64))
        assert cells.ravel().tolist() == (2 * np.searchsorted(cuts, lead, "right") + 1).tolist()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_few_rows_with_learned_bounds_get_the_shares_of_classes(delta):
    """Of 110 rows at epsilon .3: fits had a log loss of 1.4 on average, up to 2.5; ln 3 is 1.1."""
    rng = np.random.default_rng(0)
    y = np.arange(110) % 3
    X = rng.normal(size=(110, 4)) + y[:, None]
    losses = []
    for seed in range(8):
        model = DPLogisticRegression(epsilon=0.3, delta=delta, classes=[0, 1, 2], random_state=seed)
        with pytest.warns(UserWarning, match="only the shares of its 3 classes"):
            model.fit(X, y)
        assert not hasattr(model, "coef_") and model.bounds_[0].shape == (4,)
        losses.append(log_loss(model.predict_proba(X), y))
    assert np.mean(losses) < 1.25
    weights = np.where(y == 0, 0.0, 1.0)
    model.set_params(epsilon=1.0).fit(X, y, sample_weight=weights)
    assert model.class_count_[0] < model.class_count_[1:].min() / 2
    stated = DPLogisticRegression(epsilon=0.3, delta=delta, classes=[0, 1, 2], bounds=(-3, 5))
    assert hasattr(stated.fit(X, y), "coef_")
