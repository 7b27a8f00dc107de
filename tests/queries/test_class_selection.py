"""Private classes: which labels may be named, and what a classifier makes of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from skdp import PrivacyBudget
from skdp.audit import neighbour_check, replay_check
from skdp.core import open_session
from skdp.core.privacy_filter import PrivacyFilter
from skdp.core.session import Session
from skdp.core.table import PrivateTable, stability_of
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.engines import from_arrays
from skdp.ensemble import DPExplainableBoostingClassifier, DPTrainOnRelease
from skdp.linear_model import DPLogisticRegression
from skdp.naive_bayes import DPCategoricalNB, DPGaussianNB
from skdp.neighbors import DPNearestCentroid
from skdp.queries import key_selection as selection
from skdp.queries import select_classes
from skdp.tabular import check_unselected
from tests.folding import each

RELATIONS = ("add_or_remove_one", "replace_one")
OF_NUMBERS = (
    DPLogisticRegression,
    DPGaussianNB,
    DPNearestCentroid,
    DPLinearDiscriminantAnalysis,
)
ALPHA = 1e-7


def labelled(n=4000):
    rng = np.random.default_rng(0)
    X = rng.choice([-2.0, -1.0, 1.0, 2.0], size=(n, 2))
    return X, np.where(X.sum(axis=1) > 0, "yes", "no").astype(object)


@each("relation", RELATIONS)
@each("kind", OF_NUMBERS)
def test_every_classifier_learns_its_classes(kind, relation):
    X, y = labelled()
    clean = y.copy()
    y[:4] = ["rare", 7, True, dict]  # of few rows, and one of no class
    budget = PrivacyBudget(2.0, 1e-6, adjacency=relation)
    model = kind(bounds=(-2, 2), epsilon=2.0, delta=1e-6, budget=budget)
    cost = model.privacy_cost()
    model.fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, clean) > 0.8
    assert (budget.spent.epsilon, budget.spent.delta) == (cost.epsilon, cost.delta) == (2.0, 1e-6)
    first = model.privacy_.releases[0]
    # All of delta beside pure noise, half of it beside Gaussian noise; a third of it for each look.
    delta = 1e-6 if model.privacy_.mu is None else 5e-7
    assert (first.name, first.delta) == ("classes", pytest.approx(delta / 3))
    # An unchosen label is in no fit.
    assert model.class_count_.shape == (2,)


@each("kind", [*OF_NUMBERS, DPExplainableBoostingClassifier])
def test_a_target_of_many_numbers_points_to_regressors(kind):
    X, _ = labelled()
    model = kind(bounds=(-2, 2), delta=1e-6)
    with pytest.warns(
        UserWarning, match=r"^DP\w+: .* 0 class.*many different numbers.* a regressor"
    ):
        model.fit(X, X.sum(axis=1) + np.arange(len(X)) / len(X))
    assert len(model.classes_) == 0
    with pytest.warns(UserWarning, match=r"no class had enough rows.* take a regressor"):
        assert np.isnan(model.predict(X)).all()
    with pytest.warns(UserWarning, match="missing"):
        assert model.score(X, X.sum(axis=1)) == 0.0


def test_categories_and_private_classes():
    X, y = labelled()
    model = DPCategoricalNB([[-2, -1, 1, 2]] * 2, delta=1e-6, epsilon=2.0).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    model = DPCategoricalNB(delta=1e-6, random_state=0)  # both are learned
    cells = np.random.default_rng(0).integers(0, 5, (4000, 2))
    model.fit(cells, cells[:, 0] > 2)
    assert ((model.n_categories_ >= 5) & (model.n_categories_ < 12)).all()
    assert model.score(cells, cells[:, 0] > 2) > 0.95
    replay_check(model, cells, cells[::-1] * 90, y=cells[:, 0], y_other=cells[:, 1])


@pytest.mark.parametrize("kind", OF_NUMBERS)
def test_without_delta_classes_must_be_stated(kind):
    X, y = labelled(50)
    budget = PrivacyBudget(1.0)
    for classes in ("private", None):
        with pytest.raises(ValueError, match="classes must be given"):
            kind(classes=classes, budget=budget).fit(X, y)
    assert budget.spent.epsilon == 0


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (None, "requires y"),
        ([1, 2], "same number of rows"),
        ([1.0, np.nan] * 25, "must be finite"),
        (np.full(50, np.datetime64("2020-01-01")), "classes must be given where y"),
    ],
)
def test_bad_labels_are_refused_before_the_charge(y, match):
    X, _ = labelled(50)
    budget = PrivacyBudget(1.0, 1e-6)
    with pytest.raises(ValueError, match=match):
        DPGaussianNB(delta=1e-6, budget=budget).fit(X, y)
    assert budget.spent.epsilon == 0


def test_tables_in_parts_need_stated_classes():
    X, y = labelled(50)
    with pytest.raises(ValueError, match="for a table in parts"):
        DPGaussianNB(delta=1e-6).fit(from_arrays([X]), from_arrays([(y == "yes") * 1.0]))


@each(
    ("y", "classes"),
    [
        (np.arange(4000) % 3, np.arange(3)),
        (np.arange(4000) % 2 == 1, np.array([False, True])),
        ((np.arange(4000) % 2).astype(np.float32), np.array([0, 1], dtype=np.float32)),
        ([1, 1.0, 0, 0.0] * 1000, np.arange(2)),
        # Text and numbers: the family that has more classes; of equally many, text.
        (["a", "b", 1, 1.0] * 1000, np.array(["a", "b"])),
        (["a", 1, True, 2] * 1000, np.array([1, 2])),
        (["a", "b", 1, 2] * 1000, np.array(["a", "b"])),
    ],
)
def test_classes_have_the_type_of_labels(y, classes):
    X, _ = labelled()
    found = DPGaussianNB(bounds=(-2, 2), epsilon=5.0, delta=1e-6).fit(X, y).classes_
    np.testing.assert_array_equal(found, classes)
    assert found.dtype == classes.dtype


def test_codes_hang_on_a_rows_own_label_and_the_release():
    cells = ["b", 1, True, "a", 1.0, "c", 2**70, object(), float(3)]
    for order in (range(len(cells)), reversed(range(len(cells)))):
        order = list(order)
        y = np.empty(len(cells), dtype=object)
        y[:] = [cells[i] for i in order]
        rows = check_unselected(np.zeros((len(cells), 1)), y, estimator="test")
        assert rows.take_classes(["a", "b", True]).tolist() == ["a", "b"]
        codes = rows.labelled(0, len(cells))[1]
        assert dict(zip(order, codes.tolist(), strict=True)) == {
            0: 1, 1: -1, 2: -1, 3: 0, 4: -1, 5: -1, 6: -1, 7: -1, 8: -1,
        }  # fmt: skip
        assert rows.take_classes([1, 3]).tolist() == [1, 3]
        codes = dict(zip(order, rows.labelled(0, len(cells))[1].tolist(), strict=True))
        assert (codes[1], codes[2], codes[4], codes[8]) == (0, -1, 0, 1)  # True is no 1


def test_groups():
    X, y = labelled()
    users = np.arange(len(X)) // 2
    budget = PrivacyBudget(4.0, 1e-6, unit="user_id")
    model = DPGaussianNB(
        bounds=(-2, 2), epsilon=4.0, delta=1e-6, budget=budget, max_rows_per_unit=2
    ).fit(X, y, groups=users)
    assert model.classes_.tolist() == ["no", "yes"]
    assert budget.spent.epsilon == 4.0


def test_fewer_than_two_classes():
    X, y = labelled()
    model = DPLogisticRegression(bounds=(-2, 2), epsilon=2.0, delta=1e-6).fit(X, y)
    with pytest.warns(UserWarning, match=r"1 class\(es\) had enough rows"):
        model.fit(X, np.full(len(X), 3))
    assert not hasattr(model, "coef_")
    assert set(model.predict(X)) == {3}
    assert (model.predict_proba(X) == 1).all()
    assert (model.decision_function(X) == 0).all()
    with pytest.warns(UserWarning, match=r"0 class\(es\)"):
        model.fit(X[:9], y[:9])
    assert model.predict_proba(X).shape == (len(X), 0)
    with pytest.warns(UserWarning, match="every predicted label is missing"):
        assert np.isnan(model.predict(X)).all()


def test_an_array_of_booleans_needs_no_selection():
    X, y = np.zeros((40, 1)), np.arange(40) < 9
    model = DPGaussianNB(bounds=(-2, 2), delta=1e-6).fit(X, y)
    assert model.classes_.tolist() == [False, True]
    assert not [r for r in model.privacy_.releases if r.name.startswith("classes")]

    class Sequence:
        """A container without a type, which a single label would change."""

        def __init__(self, values):
            self.values = values

        def __len__(self):
            return len(self.values)

        def __getitem__(self, i):
            return self.values[i]

    class ReadByItself(Sequence):
        def __array__(self, dtype=None, copy=None):
            return np.array(self.values, dtype=dtype)

    labels = y.tolist()
    for untyped in (
        labels,
        *(c(v) for c in (Sequence, ReadByItself) for v in (labels, [*labels[1:], "x"])),
    ):
        with pytest.warns(UserWarning, match="had enough rows"):
            assert not len(model.fit(X, untyped).classes_)


@pytest.mark.parametrize("relation", RELATIONS)
def test_replay_and_neighbours(relation):
    def made():
        budget = PrivacyBudget(1000.0, 0.5, adjacency=relation)
        return DPGaussianNB(bounds=(-2, 2), epsilon=5.0, delta=1e-5, budget=budget)

    X, y = labelled(1000)
    other = X[::-1].copy(), np.where(np.arange(1000) % 3 == 0, "third", y).astype(object)
    if relation == "add_or_remove_one":  # whose number of rows is private
        other = other[0][1:], other[1][1:]
    replay_check(made(), X, other[0], y=y, y_other=other[1])
    near = y.copy()
    near[0] = "third"
    if relation == "replace_one":
        neighbour_check(made(), X, X, y=y, y_neighbour=near)
    else:
        neighbour_check(made(), X, X[1:], y=near, y_neighbour=near[1:])


def test_classes_are_looked_for_with_more_of_the_allowance():
    """Per fit both are found in .96, and after three looks (.25) only the shares are predicted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.where(np.arange(2000) % 4 == 0, "rare", "common")
    both, shares = 0, 0
    for _ in range(40):
        model = DPNearestCentroid(epsilon=0.1, delta=1e-6, bounds=(-4, 4))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        looks = [r for r in model.privacy_.releases if r.name.startswith("classes")]
        assert model.classes_.tolist() in (["common", "rare"], ["common"])
        both += len(model.classes_) == 2
        if len(looks) == 3 and len(model.classes_) == 2:
            shares += 1
            assert not hasattr(model, "centroids_")
            chances = model.predict_proba(X[:3])
            common = model.class_count_[0] / model.class_count_.sum()
            assert (np.abs(chances[:, 0] - 0.5) <= abs(common - 0.5) + 1e-12).all()  # shrunk
            labels = model.classes_[chances.argmax(axis=1)]
            assert (model.predict(X[:3]) == labels).all()
    assert both >= binom.ppf(ALPHA, 40, 0.96) and shares >= 1


def _shows(runs, relation, looks=()):
    """Return in how many runs the label of one row shows, at a separate delta of 0.1."""
    rows = check_unselected(np.zeros((1, 1)), ["alone"], estimator="test")
    table = PrivateTable(rows, stability_of(relation))
    options = {"estimator": "test", "epsilon": 1.0, "delta": 0.05, "budget": None}
    seen = 0
    for _ in range(runs):
        whole = PrivacyFilter(rows.digest, separate_delta=0.1, **options)
        seen += len(Session(table, whole).answer(select_classes(*looks)))
    return seen


@pytest.mark.statistical
@pytest.mark.parametrize("looks", [(), (0.1, 0.4, 0.45)])
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_label_of_one_row_shows_no_more_often_than_delta(relation, looks, monkeypatch):
    """False alarms: 1e-7 a relation."""
    runs, limit = 400, 0.1 if relation == "add_or_remove_one" else 0.05
    assert _shows(runs, relation, looks) <= binom.isf(ALPHA, runs, limit)
    monkeypatch.setattr(selection, "gaussian_threshold", lambda weights, *_: weights[0])
    assert _shows(runs, relation) > binom.isf(ALPHA, runs, limit)  # a threshold that hides nothing


def test_only_uncoded_labels_are_selected_from():
    from skdp.tabular import check_rows

    rows = check_rows(np.zeros((3, 1)), estimator="test")
    with (
        open_session(
            rows, estimator="test", epsilon=1.0, delta=1e-6, separate_delta=1e-6
        ) as session,
        pytest.raises(TypeError, match="rows that have keys"),
    ):
        session.answer(select_classes())


@pytest.mark.slow
def test_expected_error_counts_the_selection():
    X, y = labelled()
    model = DPGaussianNB(bounds=(-2, 2), delta=1e-6)
    assert 0 <= model.expected_error(4000, like=(X, y)) < 0.2
    assert model.expected_error(30, like=(X, y)) == 1.0


@each("epsilon", [1e-6, 1e-9])
def test_a_tiny_share_names_no_class_and_raises_nothing(epsilon):
    """The deviation of the noise is then above the largest that is drawn."""
    X, y = labelled(300)
    budget = PrivacyBudget(1.0, 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPTrainOnRelease(LogisticRegression(), epsilon=epsilon, delta=1e-6, budget=budget)
        model.fit(X, y)
    assert budget.spent.epsilon == pytest.approx(epsilon)
    assert set(model.released_xy()[1]) == {"other"}
