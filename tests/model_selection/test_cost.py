"""Prices of cross-validation and of scores, what a price does not cover, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp.budget import Cost, PrivacyBudget
from skdp.model_selection import PerRecordKFold, cross_val_cost, private_scorer, search_cost
from tests.folding import each
from tests.model_selection.counting import Toy, X, Y, fitted


class Wrapper(BaseEstimator):
    """A meta-estimator that skdp knows nothing of."""

    def __init__(self, estimator=None):
        self.estimator = estimator


class Free(Toy):
    def privacy_cost(self, n_samples=None, n_features=None):
        return None


class Charging(BaseEstimator):
    """Would fit private estimators of its own making, on its budget."""

    def __init__(self, budget=None):
        self.budget = budget


class PricedWrapper(Wrapper):
    def privacy_cost(self, n_samples=None, n_features=None):
        return 3 * self.estimator.privacy_cost()


# --- private scorers in the cost -------------------------------------------------------------


def test_private_scores_are_in_the_price():
    one, two = (private_scorer("accuracy", epsilon=e) for e in (0.125, 0.25))

    def price(**more):
        cost = search_cost(GridSearchCV(Toy(), {"k": [1, 2, 3]}, **more), 20)
        return cost.epsilon, cost.n_scores, "scorer is not private" in cost.note

    assert price(scoring=one) == (16 + 15 * 0.125, 15, False)
    assert price(scoring=one, return_train_score=True) == (16 + 30 * 0.125, 30, False)
    assert price(scoring={"a": one, "b": two}, refit="a") == (16 + 15 * 0.375, 30, False)
    assert price(scoring={"a": one, "b": "accuracy"}, refit="a") == (16 + 15 * 0.125, 15, True)
    assert price() == (16, 0, True)
    assert price(scoring="accuracy") == (16, 0, True)
    assert price(scoring=["accuracy", "f1"], refit=False) == (15, 0, True)
    # The scorer alone has a cost where the estimator has none.
    plain = GridSearchCV(DummyClassifier(), {"strategy": ["prior"]}, scoring=one)
    assert search_cost(plain).epsilon == 5 * 0.125


def test_price_of_cross_validation():
    scorer = private_scorer("accuracy", epsilon=0.125)
    assert cross_val_cost(Toy()).epsilon == 5
    assert cross_val_cost(Toy(), 3, scoring=scorer).epsilon == 3 * 1.125
    assert cross_val_cost(Toy(), 3, scoring=scorer, return_train_score=True).epsilon == 3 * 1.25
    assert cross_val_cost(Toy(), LeaveOneOut(), n_samples=20).n_fits == 20
    groups = np.arange(20) % 4
    assert cross_val_cost(Toy(), LeaveOneGroupOut(), n_samples=20, groups=groups).n_fits == 4
    nested = GridSearchCV(Toy(), {"k": [1, 2]}, cv=2)
    cost = cross_val_cost(nested, 3)
    n_fits, epsilon, _ = fitted(lambda: cross_val_score(nested, X, cv=3))
    assert (n_fits, epsilon) == (15, 15.0)
    assert cost.epsilon == 15.0
    assert "not private" in cost.note  # the inner scores


def test_steps_that_release_nothing_are_free():
    budget = PrivacyBudget(99.0, adjacency="add_or_remove_one")
    pipe = make_pipeline(Free(), Toy(0.5, budget=budget))
    cost = cross_val_cost(pipe, PerRecordKFold(2, random_state=0), scoring="accuracy")
    assert cost.epsilon == 1.0
    assert "replaced record" not in cost.note  # of the free step, which has no budget
    with pytest.raises(ValueError, match="has a cost"):
        cross_val_cost(Free(), 2)


def test_only_one_budget_is_counted_if_asked():
    mine, other = PrivacyBudget(99.0), PrivacyBudget(99.0)
    pipe = make_pipeline(Toy(0.5, budget=mine), Toy(0.25, budget=other), Toy(0.125))
    scorer = private_scorer("accuracy", epsilon=1.0, budget=mine)
    assert cross_val_cost(pipe, 2, scoring=scorer).epsilon == 2 * 1.875
    assert cross_val_cost(pipe, 2, scoring=scorer, budget=mine).epsilon == 2 * 1.5
    assert cross_val_cost(pipe, 2, scoring=scorer, budget=other).epsilon == 2 * 0.25
    with pytest.raises(ValueError, match="nothing in the search has a cost"):
        cross_val_cost(Toy(), 2, budget=mine)


def scores_of_searches():
    budget = PrivacyBudget(999.0)
    one, two = (private_scorer("accuracy", epsilon=e, budget=budget) for e in (0.125, 0.25))
    inner = GridSearchCV(Toy(0.5, budget=budget), {"k": [1, 2]}, cv=2, scoring=one)
    nested = GridSearchCV(inner, {"estimator__delta": [0.0, 0]}, cv=2)
    named = {"a": one, "b": two}
    return budget, {
        "search": inner,
        "search of a search": nested,
        "pipeline": make_pipeline(StandardScaler(), make_pipeline("passthrough", inner)),
        "named": clone(inner).set_params(scoring=named, refit="b"),
        "frozen": make_pipeline(Toy(0.5, budget=budget), FrozenEstimator(clone(inner).fit(X, Y))),
        "scorers to choose from": GridSearchCV(inner, {"scoring": [one, clone(one)]}, cv=2),
        "steps to choose from": GridSearchCV(
            make_pipeline(inner), {"gridsearchcv": [nested]}, cv=2
        ),
    }


def spent_by(budget, run):
    """Return what a Toy (which notes it) and a scorer (which charges it) spend."""
    before = budget.spent.epsilon
    return fitted(run)[1] + budget.spent.epsilon - before


@pytest.mark.slow
@each("name", scores_of_searches()[1])
@each("train", [False, True])
def test_the_score_of_a_search_is_that_of_its_scorer(name, train):
    budget, searches = scores_of_searches()
    more = {"cv": 3, "return_train_score": train}
    cost = cross_val_cost(searches[name], **more)
    spent = spent_by(
        budget, lambda: cross_validate(searches[name], X, Y, error_score="raise", **more)
    )
    assert cost.epsilon == pytest.approx(spent, abs=1e-9)
    assert cost.n_scores == (6 if train else 3)
    assert "not private" not in cost.note


@pytest.mark.parametrize("train", [False, True])
def test_the_score_of_a_search_in_a_search(train):
    budget, searches = scores_of_searches()
    grid = {"standardscaler__with_std": [True, False]}
    outer = GridSearchCV(searches["pipeline"], grid, cv=3, return_train_score=train)
    cost = search_cost(outer)
    spent = spent_by(budget, lambda: outer.fit(X, Y))
    assert cost.epsilon == pytest.approx(spent, abs=1e-9)
    assert cost.n_scores == (12 if train else 6)  # those of inner searches belong to their fits
    assert "not private" not in cost.note
    # Candidates with scorers of their own, dear and not private: each is priced at its own.
    dear = private_scorer("accuracy", epsilon=8.0, budget=budget)
    outer = GridSearchCV(searches["search"], {"scoring": [dear, "accuracy"]}, cv=3, refit=False)
    cost = search_cost(outer)
    spent = spent_by(budget, lambda: outer.fit(X, Y))
    assert cost.epsilon == pytest.approx(spent, abs=1e-9)
    assert "scorer is not private" in cost.note


# --- what the cost does not cover ------------------------------------------------------------


class ByLength(KFold):
    """May draw its folds in any way."""


@each(
    ("adjacency", "cv", "word"),
    [
        ("replace_one", None, ""),
        ("replace_one", KFold(3, shuffle=True), ""),
        ("replace_one", ShuffleSplit(3), ""),
        ("replace_one", [(np.arange(9), np.arange(9, 20))], ""),
        ("replace_one", StratifiedKFold(3), "labels"),
        ("replace_one", GroupKFold(3), "labels"),
        ("replace_one", PredefinedSplit(np.arange(20) % 3), ""),
        ("replace_one", LeaveOneOut(), ""),
        ("replace_one", TimeSeriesSplit(3), "order of time"),
        ("replace_one", RepeatedStratifiedKFold(n_splits=2), "labels"),
        ("replace_one", StratifiedShuffleSplit(2), "labels"),
        ("replace_one", ByLength(3), "not known how ByLength"),
        ("replace_one", PerRecordKFold(3, random_state=0), "PerRecordKFold"),
        ("add_or_remove_one", None, "only PerRecordKFold"),
        ("add_or_remove_one", KFold(3, shuffle=True), "only PerRecordKFold"),
        ("add_or_remove_one", StratifiedKFold(3), "only PerRecordKFold"),
        ("add_or_remove_one", TimeSeriesSplit(3), "with TimeSeriesSplit"),
        ("add_or_remove_one", ShuffleSplit(3), "with ShuffleSplit"),
        ("add_or_remove_one", PredefinedSplit(np.arange(20) % 3), "that row alone"),
        ("add_or_remove_one", [(np.arange(9), np.arange(9, 20))], "that row alone"),
        ("add_or_remove_one", PerRecordKFold(3, random_state=0), ""),
    ],
)
def test_the_note_names_folds_that_are_not_neighbouring(adjacency, cv, word):
    budget = PrivacyBudget(99.0, adjacency=adjacency)
    scorer = private_scorer("neg_inertia", epsilon=1.0, bounds=1.0, budget=budget)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Toy(budget=budget)), {"toy__k": [1]}, cv=cv, scoring=scorer
    )
    note = search_cost(search, 20).note
    assert word in note
    assert bool(word) == bool(note)


REMOVE = "add_or_remove_one"


@each("resource", ["n_samples", "k"])
@each("where", ["alone", "pipeline", "scorer", "nested", "cross_validation"])
def test_halving_on_rows_is_refused_where_their_number_is_private(where, resource):
    """It makes 43 charges for 240 rows and 37 for 239, and resamples by position."""
    budget = PrivacyBudget(99.0, adjacency=REMOVE)
    own = {"max_resources": 4} if resource == "k" else {}
    toy = Toy(budget=None if where == "scorer" else budget)
    scorer = private_scorer("neg_inertia", epsilon=1.0, bounds=1.0, budget=budget)
    search = HalvingGridSearchCV(
        make_pipeline(StandardScaler(), toy) if where == "pipeline" else toy,
        {"toy__delta" if where == "pipeline" else "delta": [0.0, 0]},
        resource="toy__k" if (resource, where) == ("k", "pipeline") else resource,
        scoring=scorer,
        cv=PerRecordKFold(2, random_state=0),
        **own,
    )

    def price():
        if where == "nested":
            return search_cost(
                GridSearchCV(make_pipeline(search), {}, cv=PerRecordKFold(2), scoring=scorer)
            )
        return cross_val_cost(search, 2) if where == "cross_validation" else search_cost(search)

    if resource == "n_samples":
        with pytest.raises(ValueError, match="PerRecordKFold, another resource="):
            price()
    else:
        assert price().epsilon > 0
    assert budget.charges == []


def test_halving_that_counts_classes_is_named():
    class ToyClassifier(DummyClassifier):
        def privacy_cost(self, n_samples=None, n_features=None):
            return Cost(1.0)

    def note(**more):
        search = HalvingGridSearchCV(ToyClassifier(), {"strategy": ["prior"]}, cv=KFold(2), **more)
        return search_cost(search, 200).note

    assert "counts the classes in y" in note()
    assert "counts the classes in y" in note(min_resources="smallest")
    assert "classes" not in note(min_resources=20)


@pytest.mark.parametrize("cv", [LeaveOneOut(), LeavePOut(2)])
def test_what_fits_once_a_row_is_refused_where_their_number_is_private(cv):
    budget = PrivacyBudget(99.0, adjacency=REMOVE)
    with pytest.raises(ValueError, match=r"tell the number of rows.*PerRecordKFold"):
        cross_val_cost(Toy(budget=budget), cv, n_samples=20)
    with pytest.raises(ValueError, match=r"tell the number of rows.*PerRecordKFold"):
        search_cost(GridSearchCV(Toy(budget=budget), {"k": [1]}, cv=cv))
    assert cross_val_cost(Toy(), cv, n_samples=20).epsilon == cv.get_n_splits(X)


@pytest.mark.parametrize(
    "split",
    [
        ([0, 1, 1], [2]),
        ([0, 1], [2, 2]),
        (np.random.default_rng(0).integers(20, size=20), [0]),
        ([0, -20], [2]),  # one row by two names
    ],
)
def test_a_row_that_comes_twice_in_a_split_is_refused(split):
    for adjacency in ("replace_one", REMOVE):
        toy = Toy(budget=PrivacyBudget(9.0, adjacency=adjacency))
        with pytest.raises(ValueError, match=r"split 1 names a row more than once.*no bootstrap"):
            cross_val_cost(toy, [([0, 1], [2]), split], n_samples=20)
    masks = [(np.arange(20) < 9, np.arange(20) >= 9)]
    assert cross_val_cost(Toy(), masks, n_samples=20).n_fits == 1


def test_a_threshold_that_is_fixed_is_one_fit():
    assert cross_val_cost(FixedThresholdClassifier(Toy(0.5)), 2).epsilon == 1.0


def test_the_note_is_written_into_the_ledger():
    budget = PrivacyBudget(16.0)
    cost = search_cost(GridSearchCV(Toy(0.5, budget=budget), {"k": [1, 2, 3]}))
    with budget.reserve(cost, note=cost.note):
        assert budget.remaining.epsilon == 8.0
    (reservation,) = budget.reservations
    assert "scorer is not private" in reservation.note
    assert (reservation.epsilon, budget.remaining.epsilon) == (8.0, 16.0)
    for accountant in ("gdp", "zcdp"):
        gaussian = PrivacyBudget(9.0, 1e-5, accountant=accountant)
        with gaussian.reserve(search_cost(GridSearchCV(Toy(0.5, 1e-6), {"k": [1, 2, 3]}))):
            assert gaussian.remaining.epsilon < 9.0


def test_other_notes():
    class ToyClassifier(DummyClassifier):
        def privacy_cost(self, n_samples=None, n_features=None):
            return Cost(1.0)

    scorer = private_scorer("accuracy", epsilon=1.0)
    assert "stratifies classifiers" in cross_val_cost(ToyClassifier(), scoring=scorer).note
    assert cross_val_cost(ToyClassifier(), KFold(5), scoring=scorer).note == ""
    cached = Pipeline([("a", Toy())], memory="nowhere")
    assert "cache" in cross_val_cost(cached, scoring=scorer).note
    cached = Pipeline([("p", Pipeline([("a", Toy())], memory="nowhere"))])
    assert "cache" in cross_val_cost(cached, scoring=scorer).note


# --- bad input of the prices ------------------------------------------------------------------


def test_a_meta_estimator_that_fits_an_unknown_number_of_times_is_refused():
    for meta in (BaggingRegressor(Toy()), Wrapper(Toy()), Wrapper(make_pipeline(Toy()))):
        with pytest.raises(TypeError, match="how often"):
            cross_val_cost(meta)
    assert cross_val_cost(PricedWrapper(Toy(0.5)), 2).epsilon == 3.0
    for meta in (Charging(), Charging(PrivacyBudget(1.0)), Wrapper(Charging())):
        with pytest.raises(TypeError, match="charges its budget"):
            cross_val_cost(make_pipeline(Toy(), meta))
    with pytest.raises(TypeError, match="charges its budget"):
        cross_val_cost(Wrapper(PrivacyBudget(1.0)))
    voting = VotingRegressor([("a", Toy(0.5)), ("b", "drop"), ("c", Toy(0.25))])
    assert cross_val_cost(voting, 2).epsilon == 1.5


@each(
    ("call", "kind", "match"),
    [
        (lambda: search_cost(Toy()), TypeError, "cross_val_cost"),
        (lambda: search_cost(GridSearchCV), TypeError, "search must be"),
        (lambda: search_cost(GridSearchCV(DummyRegressor(), {})), ValueError, "has a cost"),
        (lambda: cross_val_cost(Toy(), iter([])), ValueError, "cv is an iterator"),
        (lambda: cross_val_cost(Toy(), "five"), ValueError, "cv"),
        (lambda: cross_val_cost(Toy(), LeaveOneOut()), ValueError, "n_samples must be given"),
        (lambda: cross_val_cost(Toy(), n_samples=0), ValueError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(), n_samples=2.5), TypeError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(), n_samples=True), TypeError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(epsilon=-1.0)), ValueError, "epsilon"),
        (
            lambda: search_cost(HalvingRandomSearchCV(Toy(), {"k": [1, 2]})),
            ValueError,
            "n_samples must be given .* or state n_candidates",
        ),
        (
            lambda: search_cost(
                HalvingRandomSearchCV(Toy(), {"k": [1, 2]}, min_resources="exhaust"), 20
            ),
            ValueError,
            "cannot be both 'exhaust'",
        ),
        (
            lambda: search_cost(HalvingRandomSearchCV(Toy(), {"k": [1]}, min_resources=30), 20),
            ValueError,
            "min_resources=30 is more",
        ),
    ],
)
def test_bad_input_of_prices(call, kind, match):
    with pytest.raises(kind, match=match):
        call()
