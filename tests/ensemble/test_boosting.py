"""`DPExplainableBoostingClassifier`: beside a slow oracle, on awkward tables, in bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdp import PrivacyBudget
from skdp.ensemble import DPExplainableBoostingClassifier
from skdp.ensemble._boosting import even_cuts, merged
from skdp.queries.cells import ColumnCells
from tests.folding import each

NOISELESS = {"epsilon": 1e6, "delta": 1e-6, "bounds": (-1, 1)}
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(3000, 3))
FLIPPED = RNG.random(3000) < 0.05
TWO = (np.abs(X[:, 0]) > 0.5) ^ FLIPPED
THREE = np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2, [-0.3, 0.4])


def oracle(model, y, n_logits, rounds=20):
    """Boost row by row and cell by cell, in plain floats, on the bins of a fit."""
    classes = np.unique(y)
    codes = [
        np.array([(cuts <= value).sum() for value in column])
        for cuts, column in zip(model.bin_cuts_, X.T, strict=True)
    ]
    counts = np.array([(y == one).sum() for one in classes], dtype=float)
    logs = np.log(counts) - np.log(counts).mean()
    offset = logs if n_logits > 1 else logs[1:] - logs[:1]
    parts = counts / counts.sum()
    chances = parts if n_logits > 1 else parts[1:]
    clip = 0.35 if n_logits > 1 else 0.5
    target = np.array([[float(label == one) for one in classes] for label in y])
    target = target if n_logits > 1 else target[:, 1:]
    scores = [np.zeros((n_logits, cuts.size + 1)) for cuts in model.bin_cuts_]
    for _ in range(rounds):
        logits = offset + sum(one[:, code].T for one, code in zip(scores, codes, strict=True))
        p = softmax(logits, axis=1) if n_logits > 1 else expit(logits)
        residual = target - p
        norm = np.linalg.norm(residual, axis=1, keepdims=True)
        residual *= np.minimum(1.0, clip / np.maximum(norm, 1e-12))
        for one, code in zip(scores, codes, strict=True):
            for cell in range(one.shape[1]):
                inside = code == cell
                rows = inside.sum() * chances * (1 - chances) + 1.0
                one[:, cell] += 0.2 * residual[inside].sum(axis=0) / rows
    return offset + sum(one[:, code].T for one, code in zip(scores, codes, strict=True))


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two classes", "three"])
def test_almost_without_noise_it_is_boosting_row_by_row(y):
    model = DPExplainableBoostingClassifier(8, classes=np.unique(y), **NOISELESS).fit(X, y)
    n_logits = len(np.unique(y)) if len(np.unique(y)) > 2 else 1
    logits = model.decision_function(X).reshape(len(X), n_logits)
    assert model.n_iter_ == 20
    assert model.score(X, y) > 0.85
    # What is shown is the model: an intercept, and a curve a column of mean 0 over rows.
    total = np.tile(model.intercept_, (len(X), 1))
    for cuts, term, weights, column in zip(
        model.bin_cuts_, model.term_scores_, model.bin_weights_, X.T, strict=True
    ):
        term = term.reshape(len(weights), n_logits)
        total += term[np.searchsorted(cuts, column, side="right")]
        assert np.abs(weights @ term / weights.sum()).max() < 1e-9
        assert weights.sum() == pytest.approx(len(X), rel=1e-3)
    assert np.abs(total - oracle(model, y, n_logits)).max() < 0.02
    if n_logits > 1:
        assert np.abs(total - logits).max() < 1e-9
    else:  # calibrated: the order of rows stays, and the share of the second class is true
        assert (np.diff(logits[np.argsort(total[:, 0]), 0]) > -1e-9).all()
        assert abs(model.predict_proba(X)[:, 1].mean() - y.mean()) < 0.02
    assert all(np.isnan(one).all() for one in model.term_scores_std_error_)
    means = [
        np.abs(term.reshape(len(rows), -1)).mean(axis=1) @ rows
        for term, rows in zip(model.term_scores_, model.bin_weights_, strict=True)
    ]
    np.testing.assert_allclose(model.feature_importances_, np.array(means) / np.sum(means))
    with pytest.raises(NotFittedError):
        _ = clone(model).feature_importances_


def test_columns_that_are_copies_share_what_they_tell():
    """All columns move at once: without shorter steps sixty copies would run away."""
    copies = np.repeat(X[:, :1], 60, axis=1)
    model = DPExplainableBoostingClassifier(8, classes=[False, True], **NOISELESS).fit(copies, TWO)
    assert model.score(copies, TWO) > 0.9
    assert np.abs(model.decision_function(copies)).max() < 30
    spread = np.ptp(list(model.term_scores_), axis=0)
    assert spread.max() < 0.2


def test_bins_of_few_rows_are_merged():
    cuts = np.array([1.0, 2.0, 3.0, 4.0])
    assert merged(cuts, np.array([50.0, 1.0, 60.0, 30.0, 70.0]), 40.0).tolist() == [1.0, 3.0]
    assert merged(cuts, np.array([50.0, -30.0, 60.0, 60.0, 1.0]), 40.0).tolist() == [1.0, 3.0]
    assert merged(cuts, np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 40.0).tolist() == []
    assert merged(cuts, np.full(5, 40.0), 40.0).tolist() == cuts.tolist()


def test_codes_of_categories_have_cells_of_their_own():
    for n_categories in (2, 3, 17, 64):
        (cuts,) = even_cuts(np.array([0.0]), np.array([n_categories - 1.0]), 64)
        places = np.searchsorted(cuts, np.arange(n_categories), side="right")
        assert len(set(places.tolist())) == n_categories


@pytest.mark.parametrize(
    ("low", "high", "sizes"),
    [(0.0, 0.0, 0), (-1e300, 1e300, 7), (0.0, 5e-324, 0), (1.0, 1.0 + 2**-51, 1)],
)
def test_cuts_lie_within_any_bounds(low, high, sizes):
    (cuts,) = even_cuts(np.array([low]), np.array([high]), 8)
    assert cuts.size == sizes
    assert ((cuts > low) & (cuts < high)).all()
    assert (np.diff(cuts) > 0).all()


def test_awkward_tables():
    """A column of zeros and ones, money of which most is 0, constants, two hundred rows."""
    rng = np.random.default_rng(1)
    money = np.where(rng.random(4000) < 0.7, 0.0, rng.lognormal(8, 1, 4000))
    table = np.column_stack([rng.integers(0, 2, 4000), money, np.full(4000, 7.0)])
    y = np.where(money > 0, "paid", "free")
    bounds = ([0, 0, 7], [1, 20_000, 7])
    options = {"classes": ["free", "paid"], "delta": 1e-6, "bounds": bounds}
    model = DPExplainableBoostingClassifier(epsilon=3.0, **options).fit(table, y)
    assert model.score(table, y) > 0.8
    assert model.bin_cuts_[2].size == 0
    few = DPExplainableBoostingClassifier(epsilon=0.1, **options).fit(table[:200], y[:200])
    assert np.isfinite(few.decision_function(table)).all()


@each(
    ("change", "error", "said"),
    [
        ({"n_bins": 1}, ValueError, "n_bins"),
        ({"n_bins": 2000}, ValueError, "n_bins"),
        ({"n_bins": 8.0}, TypeError, "n_bins"),
        ({"n_bins": "auto"}, TypeError, "n_bins"),
        ({"classes": "private"}, ValueError, "classes must be given"),
        ({"bounds": (1, -1)}, ValueError, "bounds"),
    ],
)
def test_bad_parameters_cost_nothing(change, error, said):
    budget = PrivacyBudget(1.0)
    model = DPExplainableBoostingClassifier(classes=[False, True], bounds=(-1, 1), budget=budget)
    with pytest.raises(error, match=said):
        model.set_params(**change).fit(X, TWO)
    assert budget.spent.epsilon == 0.0


def test_too_many_cells_cost_nothing():
    budget = PrivacyBudget(1.0)
    model = DPExplainableBoostingClassifier(1024, classes=[0, 1], bounds=(-1, 1), budget=budget)
    with pytest.raises(ValueError, match=r"n_bins times the number of columns must be at most"):
        model.fit(np.zeros((3, 1025)), [0, 1, 1])
    assert budget.spent.epsilon == 0.0


def test_whole_users_are_protected():
    budget = PrivacyBudget(5.0, 1e-4, adjacency="add_or_remove_one", unit="person")
    model = DPExplainableBoostingClassifier(
        classes=[False, True], bounds=(-1, 1), epsilon=5.0, delta=1e-5, budget=budget
    ).fit(X, TWO, groups=np.arange(3000) // 2)
    assert model.max_rows_per_unit_ >= 1
    assert model.score(X, TWO) > 0.6


def test_more_epsilon_is_better():
    """By medians of five fits each; 1e-6 is far above the chance that they come out otherwise."""
    options = {"classes": [False, True], "bounds": (-1, 1), "delta": 1e-6}
    scores = [
        np.median(
            [DPExplainableBoostingClassifier(epsilon=e, **options).fit(X, TWO).score(X, TWO)
             for _ in range(5)]
        )
        for e in (0.05, 1e3)
    ]  # fmt: skip
    assert scores[0] < 0.8 < 0.92 < scores[1]
    assert math.isfinite(scores[0])


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
EVEN = st.tuples(FLOATS, FLOATS, st.integers(1, 40))


@settings(max_examples=300, deadline=None)
@given(columns=st.lists(EVEN | st.lists(FLOATS, max_size=8), min_size=1, max_size=3), x=FLOATS)
def test_cells_by_buckets_are_those_of_a_search(columns, x):
    """At cuts, at their neighbours and at the ends; cuts may be equal, uneven, tiny and huge."""
    with np.errstate(over="ignore", invalid="ignore"):
        cuts = (np.linspace(*c) if isinstance(c, tuple) else np.array(c, float) for c in columns)
        columns = [np.sort(np.nan_to_num(c)) for c in cuts]
        values = np.concatenate([[x, 0.0, -1.7e308, 1.7e308], *columns])
        beside = [np.nextafter(values, v) for v in (-np.inf, np.inf)]
        values = np.nan_to_num(np.concatenate([values, *beside]))
    cells = ColumnCells(tuple(columns))
    block = np.tile(values[:, None], (2, len(columns)))
    codes = [np.searchsorted(cuts, values, side="right") for cuts in columns]
    expected = np.tile(np.transpose(codes) + cells.starts[:-1], (2, 1))
    np.testing.assert_array_equal(cells.codes(block), expected)
    np.testing.assert_array_equal(cells.codes(block[-1:]), expected[-1:])
