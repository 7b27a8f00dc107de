"""Rows change nothing but what the claim allows: no error, no text, no more than a vote."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from models import (
    LABELS,
    PUBLIC,
    SECRET,
    TARGETS,
    TEST,
    TREE,
    A,
    Quotes,
    R,
    X,
    averaging,
    budget_of,
    linear,
    relations,
    scoring,
    smoothed,
    voting,
)
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from skdp import DPMinMaxScaler, DPSubsampleAggregate, PrivacyBudget
from skdp.audit import audit, neighbour_check
from skdp.core.transcript import record, replay
from tests.folding import each

# --- nothing raises or is said because of rows ----------------------------------------------------


class ScalesLargeRows(RegressorMixin, BaseEstimator):
    """A block's model with a private step of its own for the rows that it has."""

    def fit(self, X, y):
        if len(large := X[X[:, 0] > 5]):
            DPMinMaxScaler().fit(large)
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_warnings_of_blocks_are_not_said_later(recwarn):
    """As many as blocks with a large row would tell of these rows."""
    X = np.linspace(0, 1, 200)[:, None]
    y, X[:3] = X[:, 0].copy(), 9.0
    options = {"epsilon": 0.1, "delta": 0.0, "bounds": (0, 1), "public": np.full((5, 1), 0.5)}
    DPSubsampleAggregate(ScalesLargeRows(), **options).fit(X, y)
    assert not [w for w in recwarn if "DPMinMaxScaler" in str(w.message)]


@pytest.mark.slow
@each("at", ["fit", "predict", "never"])
@each("n_jobs", [1, 2])
def test_an_exception_that_quotes_a_cell_stays_inside(at, n_jobs, capfd, recwarn):
    rows = X.copy()
    rows[::7] = SECRET
    model = voting(Quotes(at), n_jobs=n_jobs, n_blocks=10, student=TREE).fit(rows, LABELS)
    assert not recwarn.list
    said = "".join(capfd.readouterr()).replace(f"{PUBLIC[0]}\n", "")  # of the fit on public rows
    assert said == ""
    assert str(SECRET).encode() not in pickle.dumps(model)


PRIVATE = {
    "one row": (X[:1], LABELS[:1], TARGETS[:1]),
    "fewer rows than blocks": (X[:20], LABELS[:20], TARGETS[:20]),
    "one class": (X, np.full(6000, "late"), np.zeros(6000)),
    "no class at all": (X, np.full(6000, "?"), np.full(6000, -1e300)),
    "constant rows": (np.zeros((50, 2)), LABELS[:50], TARGETS[:50]),
    "huge rows": (X * 1e307, LABELS, TARGETS * 1e307),
    "tiny rows": (X * 1e-310, LABELS, TARGETS * 1e-310),
}


@pytest.mark.slow
@each("case", PRIVATE)
@pytest.mark.parametrize(("auto", "relation"), [(True, R), (False, A)])
def test_private_values_never_raise(case, auto, relation, recwarn):
    rows, labels, targets = PRIVATE[case]
    n_blocks = "auto" if auto else 30
    for make, inner, y in [
        (voting, TREE, labels), (voting, LogisticRegression(), labels),
        (averaging, Ridge(), targets), (linear, LinearRegression(), targets),
        (linear, LogisticRegression(), labels), (smoothed, LinearRegression(), targets),
    ]:  # fmt: skip
        budget = PrivacyBudget(1.0, adjacency=relation)
        model = make(inner, n_blocks=n_blocks, epsilon=1.0, budget=budget, random_state=None)
        if make is linear and y is labels:
            model.set_params(classes=["late", "on time"])
        answer = model.fit(rows, y).predict(TEST)
        if answer.dtype.kind == "f":
            assert np.isfinite(answer).all()
        assert budget.spent.epsilon == 1.0
    assert not recwarn.list


@each("make", [voting, averaging, linear])
@each("n_blocks", ["auto", 20])
@each("delta", [0.0, 1e-5])
def test_no_rows_are_rows_like_others_where_their_number_is_private(make, n_blocks, delta):
    budget = PrivacyBudget(1.0, 1e-5, adjacency=A)
    model = make(n_blocks=n_blocks, delta=delta, epsilon=1.0, budget=budget, random_state=None)
    model.fit(X[:0], LABELS[:0] if make is voting else TARGETS[:0])
    assert len(model.predict(TEST)) == 500
    with pytest.raises(ValueError, match="0 sample"):
        make().fit(X[:0], LABELS[:0])


def test_probabilities_of_a_class_that_won_nothing():
    model = voting(classes=["late", "never", "on time"], epsilon=1e4).fit(X, np.full(6000, "late"))
    np.testing.assert_array_equal(model.predict_proba(TEST[:2]), [[1, 0, 0], [1, 0, 0]])
    assert set(model.predict(TEST)) == {"late"}


# --- what is kept -----------------------------------------------------------------------------


@pytest.mark.slow
@relations
@each("make", [voting, averaging, linear])
def test_no_cell_is_kept(make, relation):
    """Neighbours keep their rows, but no block's model is kept. Counts and cells are searched."""
    keeping = {voting: KNeighborsClassifier(3), averaging: KNeighborsRegressor(3)}
    inner = keeping.get(make, LinearRegression())
    model = make(inner, budget=budget_of(relation), random_state=None)
    model.fit(X, LABELS if make is voting else TARGETS)
    content = pickle.dumps(model)
    assert not any(row.tobytes() in content for row in X[:500])
    assert not any(cell.tobytes() in content for cell in X[:500].ravel())
    assert not any(target.tobytes() in content for target in TARGETS[:500])
    if relation == A:
        assert not re.search(r"(?<![\d.])6000(?!\d)", repr(vars(model)))


def test_a_fitted_model_can_be_pickled_and_cloned():
    model = voting().fit(X, LABELS)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(TEST), model.predict(TEST))
    assert not hasattr(clone(model), "student_")


# --- the claim --------------------------------------------------------------------------------


class LargestDecides(ClassifierMixin, BaseEstimator):
    """The worst there is: one row turns all predictions of its block."""

    def fit(self, X, y):
        self.answer_ = "late" if np.max(X) > 10 else "on time"
        return self

    def predict(self, X):
        return np.full(len(X), self.answer_)


class LargestTarget(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.coef_, self.intercept_ = np.full(2, np.max(y)), np.max(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.intercept_)


def pair(relation):
    rows, targets = np.zeros((40, 2)), np.full(40, -5.0)
    labels = LABELS[:40]
    big, high = rows.copy(), targets.copy()
    big[11], high[11] = 99.0, 5.0
    if relation == R:
        return (big, labels, high), (rows, labels, targets)
    keep = np.arange(40) != 11
    return (big, labels, high), (rows[keep], labels[keep], targets[keep])


@pytest.mark.slow
@relations
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_one_row_moves_releases_by_their_sensitivity(relation, delta):
    (big, labels, high), (rows, fewer, targets) = pair(relation)
    budget = budget_of(relation)
    for make, inner, y, other, n_blocks in [
        (voting, LargestDecides(), labels, fewer, 4), (scoring, LargestDecides(), labels, fewer, 4),
        (averaging, LargestTarget(), high, targets, 4), (linear, LargestTarget(), high, targets, 4),
        (smoothed, LargestTarget(), high, targets, 1),  # of more blocks the median would stay
    ]:  # fmt: skip
        model = make(inner, n_blocks=n_blocks, delta=delta, budget=budget)
        # Blocks with rows of one class vote without a fit; here all blocks have both.
        (*_, (_, distance, sensitivity)) = neighbour_check(model, big, rows, y=y, y_neighbour=other)
        assert distance > 0.99 * sensitivity


@pytest.mark.exhaustive
def test_the_claim_of_an_ensemble_holds_and_half_its_noise_would_not(monkeypatch):
    """One block, one query, one release; false alarms: 3e-6 each."""
    (big, labels, high), (rows, _, targets) = pair(R)
    options = {"n_runs": 1000, "confidence": 1 - 3e-6, "random_state": 0}
    one = {"n_blocks": 1, "n_queries": 1, "epsilon": 4.0, "random_state": None}

    def margin(fitted):
        return float(fitted.votes_[0, 1])

    voter, averager = voting(LargestDecides(), **one), averaging(LargestTarget(), **one)
    honest = audit(
        voter, big, rows, margin, y=labels, y_neighbour=labels, **{**options, "n_runs": 1600}
    )
    assert honest.passed
    assert honest.epsilon_lower > 4.0 / 2.0

    # An under-noised variant takes the sensitivity of a row that is added for that of one replaced.
    from skdp.core.mechanisms import Spherical

    noised = Spherical.noised

    def halved(bound, *arguments):
        return noised(Spherical(bound.l2 // 2), *arguments)

    monkeypatch.setattr(Spherical, "noised", halved)
    for model, statistic, y, other in [
        (voter, margin, labels, labels), (averager, "answers_", high, targets),
    ]:  # fmt: skip
        model = clone(model).set_params(epsilon=1.5)
        assert audit(
            model, big, rows, statistic, y=y, y_neighbour=other, **{**options, "n_runs": 1200}
        ).refuted


@pytest.mark.statistical
def test_the_smooth_median_holds_its_claim():
    """One block, whose median jumps from end to end: Cauchy noise shows epsilon in part only."""
    (big, _, high), (rows, _, targets) = pair(R)
    model = smoothed(LargestTarget(), n_blocks=1, epsilon=12.0, random_state=None)
    result = audit(
        model, big, rows, lambda fitted: float(fitted.intercept_), y=high, y_neighbour=targets,
        n_runs=800, confidence=1 - 3e-6, random_state=0,
    )  # fmt: skip
    assert result.passed
    # One of three parameters, so a third of epsilon; of it, the part that an event shows.
    assert result.epsilon_lower > 1.3


@pytest.mark.statistical
def test_the_winner_of_three_holds_its_claim():
    (big, _, _), (rows, _, _) = pair(R)
    labels = LABELS[:40]
    model = voting(
        LargestDecides(), classes=["late", "never", "on time"], n_blocks=1, n_queries=1,
        epsilon=4.0, random_state=None,
    )  # fmt: skip

    def late(fitted):
        return float(fitted.answers_[0] == "late")

    result = audit(
        model, big, rows, late, y=labels, y_neighbour=labels, n_runs=1000,
        confidence=1 - 3e-6, random_state=0,
    )  # fmt: skip
    assert result.passed
    # Odds change by the whole epsilon, but the third class takes a part of the probability.
    assert result.epsilon_lower > 1.0


def test_the_private_number_of_rows_is_released_where_it_is_needed_only():
    for n_blocks, names in [("auto", ["count", "votes of blocks"]), (9, ["votes of blocks"])]:
        with record() as transcript:
            voting(n_blocks=n_blocks, n_queries=5, budget=budget_of(A)).fit(X, LABELS)
        assert [entry.name for entry in transcript.entries] == names


@pytest.mark.statistical
def test_one_row_changes_one_vote_where_models_draw_from_the_global_generator():
    """Folds shuffled by numpy's generator: how often a block shuffles depends on its rows."""
    search = GridSearchCV(
        DecisionTreeClassifier(), {"max_depth": [1, 4]}, cv=StratifiedKFold(2, shuffle=True)
    )
    labels = np.random.default_rng(0).choice(["late", "on time"], size=800)
    other = labels.copy()
    other[3] = "late" if other[3] == "on time" else "on time"

    def run(y, manager):
        np.random.seed(0)
        with manager as transcript:
            voting(search, n_blocks=40, n_queries=20).fit(X[:800], y)
        return transcript, np.random.rand()

    first, left = run(labels, record())
    # The same answers are released, from which the student draws as it likes.
    second, left_again = run(other, replay(first))
    (a,), (b,) = first.entries, second.entries
    assert a.distance(a.exact, b.exact) <= a.sensitivity
    assert left == left_again
