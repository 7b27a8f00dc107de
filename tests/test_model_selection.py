"""Prices of searches, folds by content, private scores.

The price is checked against what a search really does: a toy estimator counts its fits. Folds are
checked against the slow oracle, a hash of each record alone.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skdp.budget import Cost, PrivacyBudget
from skdp.kernel import tape
from skdp.model_selection import (
    PerRecordKFold,
    PrivateScorer,
    SearchCost,
    _folds,
    _scorer,
    cross_val_cost,
    private_scorer,
    search_cost,
)
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler

FITS: list[tuple[float, float]] = []  # (epsilon, delta) of every fit of a Toy in this process


class Toy(ClusterMixin, BaseEstimator):
    """Says what it would charge, and notes every fit; looks at no data."""

    def __init__(self, epsilon=1.0, delta=0.0, k=1, budget=None):
        self.epsilon = epsilon
        self.delta = delta
        self.k = k
        self.budget = budget

    def privacy_cost(self, n_samples=None, n_features=None):
        return Cost(self.epsilon, self.delta, mu=0.1 if self.delta else None)

    def fit(self, X, y=None):
        FITS.append((self.epsilon, self.delta))
        self.cluster_centers_ = np.zeros((1, 1))
        return self

    def transform(self, X):
        return X

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y=None):
        return -self.k


class Wrapper(BaseEstimator):
    """A meta-estimator that skdp knows nothing of."""

    def __init__(self, estimator=None):
        self.estimator = estimator


class Free(Toy):
    def privacy_cost(self, n_samples=None, n_features=None):
        return None


class PricedWrapper(Wrapper):
    def privacy_cost(self, n_samples=None, n_features=None):
        return 3 * self.estimator.privacy_cost()


X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2


def fitted(run):
    """Return the number of fits of a Toy, and what they charge, while `run` runs."""
    FITS.clear()
    run()
    return len(FITS), round(sum(e for e, _ in FITS), 9), round(sum(d for _, d in FITS), 12)


# --- search_cost: equal to what the search does -----------------------------------------------


PART = Toy(0.1)
SEARCHES = {
    "grid": GridSearchCV(Toy(), {"k": [1, 2, 3]}),
    "grid of epsilons": GridSearchCV(Toy(k=5), {"epsilon": [0.1, 0.2, 0.7], "k": [1, 2]}, cv=3),
    "two grids": GridSearchCV(Toy(), [{"k": [1, 2]}, {"epsilon": [0.5]}], cv=2),
    "no refit": GridSearchCV(Toy(), {"k": [1, 2, 3]}, refit=False),
    "refit by name": GridSearchCV(
        Toy(), {"k": [1]}, scoring={"a": lambda e, X, y=None: 0.0}, refit="a"
    ),
    "splitter": GridSearchCV(Toy(), {"k": [1]}, cv=ShuffleSplit(7, random_state=0)),
    "splits given": GridSearchCV(Toy(), {"k": [1]}, cv=[(np.arange(9), np.arange(9, 20))] * 4),
    "leave one out": GridSearchCV(Toy(), {"k": [1]}, cv=LeaveOneOut()),
    "repeated": GridSearchCV(Toy(), {"k": [1]}, cv=RepeatedKFold(n_splits=2, n_repeats=3)),
    "per record": GridSearchCV(Toy(), {"k": [1, 2]}, cv=PerRecordKFold(2, random_state=1)),
    "pipeline": GridSearchCV(make_pipeline(Toy(0.5), Toy(0.25, 1e-6)), {"toy-2__k": [1, 2]}),
    "step replaced": GridSearchCV(
        Pipeline([("a", Toy(0.5)), ("b", Toy(0.25))]), {"a": [Toy(0.5), Toy(0.5, k=2)]}
    ),
    "union": GridSearchCV(
        Pipeline([("u", FeatureUnion([("a", PART), ("d", "drop"), ("b", PART)])), ("c", PART)]),
        {"u__a__k": [1, 2]},
    ),
    "columns": GridSearchCV(
        Pipeline(
            [
                ("c", ColumnTransformer([("a", PART, [0]), ("d", "drop", [0])], remainder=PART)),
                ("k", PART),
            ]
        ),
        {"k__k": [1, 2]},
    ),
    "target": GridSearchCV(
        TransformedTargetRegressor(make_pipeline(PART, LinearRegression())),
        {"check_inverse": [True]},
    ),
    "frozen": GridSearchCV(
        Pipeline([("f", FrozenEstimator(Toy(9.0).fit(X))), ("k", PART)]), {"k__k": [1, 2]}
    ),
    "search in a pipeline": GridSearchCV(
        make_pipeline(PART, GridSearchCV(PART, {"k": [1, 2]}, cv=2)), {"toy__k": [1, 2]}, cv=3
    ),
    "random, seed": RandomizedSearchCV(
        Toy(), {"epsilon": stats.uniform(0.5, 1), "k": [1, 2]}, n_iter=4, cv=2, random_state=3
    ),
    "random, state": RandomizedSearchCV(
        Toy(),
        {"k": [1, 2, 3]},
        n_iter=2,
        cv=2,
        random_state=np.random.RandomState(3),
    ),
    "random, few": RandomizedSearchCV(Toy(), {"k": stats.randint(0, 9)}, n_iter=3, cv=2),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_price_of_a_search_is_what_its_fits_charge(name):
    search = SEARCHES[name]
    cost = search_cost(search, len(X))
    n_fits, epsilon, delta = fitted(lambda: clone(search).fit(X, Y.astype(float)))
    assert n_fits > 0
    if name == "grid of epsilons":  # the refitted one has k=1 and the least epsilon; not known
        assert cost.epsilon == pytest.approx(epsilon + 0.7 - 0.1)
    else:
        assert cost.epsilon == pytest.approx(epsilon, abs=1e-8)
    assert cost.delta == pytest.approx(delta, rel=1e-9)


def test_counts_of_fits_and_exact_sums():
    cost = search_cost(GridSearchCV(Toy(0.1), {"k": [1, 2, 3]}), 20)
    assert (cost.n_fits, cost.n_scores, cost.epsilon, cost.delta) == (16, 0, 1.6, 0.0)
    assert isinstance(cost, SearchCost)
    assert isinstance(cost, Cost)
    assert cost.components == ((Cost(0.1), 16),)
    assert pickle.loads(pickle.dumps(cost)).n_fits == 16
    assert (cost + Cost(0.4)).epsilon == 2.0
    assert (2 * cost).components == ((Cost(0.1), 32),)
    assert repr(cost).startswith("SearchCost(epsilon=1.6, delta=0.0, n_fits=16, n_scores=0, note=")
    PrivacyBudget(1.6).check(cost)
    with pytest.raises(ValueError, match="price"):
        PrivacyBudget(1.5999999).check(cost)


def test_pricing_reads_no_rows_and_leaves_the_search_alone():
    class Rows:
        def __getattr__(self, name):
            raise AssertionError("a row was read")

    search = RandomizedSearchCV(
        Toy(), {"k": [1, 2, 3]}, n_iter=2, random_state=np.random.RandomState(0)
    )
    before = pickle.dumps(search)
    assert search_cost(search).n_fits == 11
    assert pickle.dumps(search) == before
    assert not hasattr(search, "best_params_")
    budget = PrivacyBudget(15.0)
    with (
        pytest.raises(ValueError, match="price"),
        budget.reserve(search_cost(GridSearchCV(Toy(budget=budget), {"k": [1, 2, 3]}))),
    ):
        search.fit(Rows())
    assert budget.charges == []


def test_random_candidates_without_a_seed_are_priced_at_the_dearest():
    def price(distributions, **more):
        return search_cost(RandomizedSearchCV(Toy(), distributions, n_iter=3, cv=2, **more)).epsilon

    assert price({"epsilon": [0.1, 2.0], "k": stats.randint(1, 9)}) == 7 * 2.0
    assert price([{"epsilon": [0.1]}, {"epsilon": [0.5], "k": [1, 2]}]) == 7 * 0.5
    with pytest.raises(ValueError, match="random_state must be an int"):
        price({"epsilon": stats.uniform(0.5, 1)})
    pipe = Pipeline([("a", Toy(1.0)), ("b", Toy(1.0))])
    search = RandomizedSearchCV(pipe, {"a": [Toy(3.0), "passthrough"]}, n_iter=1, cv=2)
    assert search_cost(search).epsilon == 3 * 4.0


@pytest.mark.parametrize("aggressive", [False, True])
@pytest.mark.parametrize(("n", "factor"), [(2, 2), (5, 3), (9, 3), (10, 2.5), (12, 4)])
def test_halving_is_priced_at_an_upper_bound(n, factor, aggressive):
    search = HalvingGridSearchCV(
        Toy(),
        {"k": list(range(n))},
        factor=factor,
        cv=2,
        aggressive_elimination=aggressive,
        random_state=0,
        min_resources=4,
    )
    cost = search_cost(search, 200)
    many = np.arange(400.0).reshape(200, 2)
    n_fits, epsilon, _ = fitted(lambda: search.fit(many))
    assert epsilon <= cost.epsilon
    assert n_fits <= cost.n_fits
    if aggressive or search.n_possible_iterations_ >= search.n_required_iterations_:
        assert n_fits == cost.n_fits  # the bound is reached
    assert "upper bound" in cost.note


def test_halving_over_a_priced_resource_takes_its_largest_value():
    search = HalvingGridSearchCV(
        Toy(), {"k": [1, 2, 3]}, resource="epsilon", max_resources=4, min_resources=1, cv=2
    )
    cost = search_cost(search, 20)
    _, epsilon, _ = fitted(lambda: search.fit(X))
    assert epsilon <= cost.epsilon == (2 * (3 + 1) + 1) * 4.0


def test_the_refit_is_priced_at_a_candidate_that_is_dearest_in_every_sense_or_at_their_union():
    def price(epsilons, deltas):
        grid = [{"epsilon": [e], "delta": [d]} for e, d in zip(epsilons, deltas, strict=True)]
        return search_cost(GridSearchCV(Toy(), grid, cv=2))

    assert price([0.1, 0.5], [0.0, 0.0]).epsilon == pytest.approx(2 * 0.6 + 0.5)
    # One is dearer in delta, the other in epsilon: the refit may be either, so both are set aside.
    cost = price([2.0, 0.5], [0.0, 1e-6])
    assert cost.epsilon == pytest.approx(3 * 2.5)
    assert cost.delta == pytest.approx(3e-6)


# --- private scorers in the price -------------------------------------------------------------


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
    # The scorer alone has a price where the estimator has none.
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
    with pytest.raises(ValueError, match="has a price"):
        cross_val_cost(Free(), 2)


def test_only_one_budget_is_counted_if_asked():
    mine, other = PrivacyBudget(99.0), PrivacyBudget(99.0)
    pipe = make_pipeline(Toy(0.5, budget=mine), Toy(0.25, budget=other), Toy(0.125))
    scorer = private_scorer("accuracy", epsilon=1.0, budget=mine)
    assert cross_val_cost(pipe, 2, scoring=scorer).epsilon == 2 * 1.875
    assert cross_val_cost(pipe, 2, scoring=scorer, budget=mine).epsilon == 2 * 1.5
    assert cross_val_cost(pipe, 2, scoring=scorer, budget=other).epsilon == 2 * 0.25
    with pytest.raises(ValueError, match="nothing in the search has a price"):
        cross_val_cost(Toy(), 2, budget=mine)


# --- what the price does not cover ------------------------------------------------------------


@pytest.mark.parametrize(
    ("adjacency", "cv", "word"),
    [
        ("replace_one", None, ""),
        ("replace_one", KFold(3, shuffle=True), ""),
        ("replace_one", ShuffleSplit(3), ""),
        ("replace_one", [(np.arange(9), np.arange(9, 20))], ""),
        ("replace_one", StratifiedKFold(3), "labels"),
        ("replace_one", GroupKFold(3), "labels"),
        ("replace_one", PerRecordKFold(3, random_state=0), "PerRecordKFold"),
        ("add_or_remove_one", None, "only PerRecordKFold"),
        ("add_or_remove_one", KFold(3, shuffle=True), "only PerRecordKFold"),
        ("add_or_remove_one", StratifiedKFold(3), "only PerRecordKFold"),
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
    voting = VotingRegressor([("a", Toy(0.5)), ("b", "drop"), ("c", Toy(0.25))])
    assert cross_val_cost(voting, 2).epsilon == 1.5


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: search_cost(Toy()), TypeError, "cross_val_cost"),
        (lambda: search_cost(GridSearchCV), TypeError, "search must be"),
        (lambda: search_cost(GridSearchCV(DummyRegressor(), {})), ValueError, "has a price"),
        (lambda: cross_val_cost(Toy(), iter([])), ValueError, "cv is an iterator"),
        (lambda: cross_val_cost(Toy(), "five"), ValueError, "cv"),
        (lambda: cross_val_cost(Toy(), LeaveOneOut()), ValueError, "n_samples must be given"),
        (lambda: cross_val_cost(Toy(), n_samples=0), ValueError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(), n_samples=2.5), TypeError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(), n_samples=True), TypeError, "n_samples must be"),
        (lambda: cross_val_cost(Toy(epsilon=-1.0)), ValueError, "epsilon"),
        (
            lambda: search_cost(HalvingRandomSearchCV(Toy(), {"k": [1, 2]}), 20),
            TypeError,
            "HalvingGridSearchCV",
        ),
    ],
)
def test_bad_input_of_prices(call, kind, match):
    with pytest.raises(kind, match=match):
        call()


# --- PerRecordKFold ---------------------------------------------------------------------------


def folds_of(cv, X, y=None):
    """Return the fold of every record."""
    fold = np.full(X.shape[0] if hasattr(X, "shape") else len(X), -1)
    for k, (train, test) in enumerate(cv.split(X, y)):
        assert (fold[test] == -1).all()
        fold[test] = k
        assert sorted([*train, *test]) == list(range(len(fold)))
    assert (fold >= 0).all()
    return fold


def rows_of_frame(n):
    """Return a strategy for tables with columns of every kind."""
    text = st.text(alphabet="abcß\x00 é", max_size=4)
    columns = {
        "float": st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0, np.nan])),
        "int": st.integers(-3, 3),
        "big": st.integers(-(2**70), 2**70),
        "text": st.one_of(text, st.none()),
        "mixed": st.one_of(text, st.integers(-2, 2), st.floats(), st.booleans(), st.none()),
        "time": st.one_of(st.datetimes(), st.none(), st.dates()),
    }
    return st.lists(st.fixed_dictionaries(columns), min_size=2, max_size=n)


def frame_of(records):
    return pd.DataFrame(records, columns=["float", "int", "big", "text", "mixed", "time"])


@settings(max_examples=60, deadline=None)
@given(rows_of_frame(5), st.data())
def test_removing_one_record_moves_no_other(records, data):
    # pandas chooses dtypes from all rows, so this also removes rows that decide on a dtype.
    cv = PerRecordKFold(4, random_state=0)
    gone = data.draw(st.integers(0, len(records) - 1))
    frame = frame_of(records)
    fewer = frame_of(records[:gone] + records[gone + 1 :])
    folds = folds_of(cv, frame)
    assert np.delete(folds, gone).tolist() == folds_of(cv, fewer).tolist()
    # The slow oracle: each record alone.
    alone = [folds_of(cv, frame_of([record]))[0] for record in records]
    assert folds.tolist() == alone
    # A column of categories, whose codes depend on the other rows, and lists of lists.
    categories = [pd.DataFrame({"c": r["text"].astype("category")}) for r in (frame, fewer)]
    whole, rest = (folds_of(cv, c) for c in categories)
    assert np.delete(whole, gone).tolist() == rest.tolist()
    lists = [[r["mixed"], r["int"]] for r in records]
    whole, rest = folds_of(cv, lists), folds_of(cv, lists[:gone] + lists[gone + 1 :])
    assert np.delete(whole, gone).tolist() == rest.tolist()


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.uint8, bool, "U4", "S3"]),
        hnp.array_shapes(min_dims=1, max_dims=3, max_side=6),
    )
)
def test_each_record_of_an_array_is_hashed_alone(array):
    words = _folds.record_words(array, None, b"k")
    alone = [_folds.record_words(array[i : i + 1], None, b"k")[0] for i in range(len(array))]
    assert words.tolist() == alone


def test_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    array, y = rng.normal(size=(50, 3)), rng.integers(0, 3, 50).astype(str)
    words = _folds.record_words(array, y, b"k")
    monkeypatch.setattr(_folds, "_BLOCK", 7)
    assert _folds.record_words(array, y, b"k").tolist() == words.tolist()
    assert len(set(words.tolist())) == 50


def test_the_same_content_is_in_the_same_fold_in_every_container():
    rng = np.random.default_rng(0)
    array = rng.integers(-4, 5, (200, 3)) / 2
    array[3] = 0.0
    cv = PerRecordKFold(5, random_state=3)
    folds = folds_of(cv, array)
    frame = pd.DataFrame(array, columns=list("abc"), index=rng.permutation(200))
    negative_zero = np.where(array == 0, -0.0, array)
    others = [
        array.tolist(),
        np.asfortranarray(array),
        array.astype(np.float32),
        array.astype(object),
        negative_zero,
        sparse.csr_array(array),
        sparse.coo_array(array),
        frame,
        frame.astype("float32").astype({"a": object}),
        polars.DataFrame(array),
        pyarrow.table({"a": array[:, 0], "b": array[:, 1], "c": array[:, 2]}),
        np.repeat(array, 2, axis=0)[::2],
    ]
    for other in others:
        assert folds_of(cv, other).tolist() == folds.tolist(), type(other)
    order = rng.permutation(200)
    assert folds_of(cv, array[order]).tolist() == folds[order].tolist()
    twice = np.concatenate([array, array])
    assert folds_of(cv, twice).tolist() == [*folds, *folds]
    assert folds_of(cv, array * 3).tolist() != folds.tolist()
    text = np.array(["a", "bb", "ccc"])[rng.integers(0, 3, 200)]
    tables = [
        text,
        text.astype("U9"),
        text.tolist(),
        pd.Series(text),
        pd.Series(text, dtype="category"),
        polars.Series(text),
        pyarrow.chunked_array([pyarrow.array(text)]),
        text[:, None],
    ]
    assert len({tuple(folds_of(cv, array, t)) for t in tables}) == 1
    assert len({tuple(folds_of(cv, t)) for t in tables}) == 1
    times = pd.Series(pd.date_range("2020", periods=200, unit="ns"))
    kinds = [times, times.astype("datetime64[s]"), times.astype(object), times.dt.as_unit("us")]
    assert len({tuple(folds_of(cv, k.to_frame())) for k in kinds}) == 1


def test_y_belongs_to_the_record():
    cv = PerRecordKFold(2, random_state=0)
    same = np.ones((64, 2))
    assert len(set(folds_of(cv, same))) == 1
    assert len(set(folds_of(cv, same, np.arange(64)))) == 2
    two = np.stack([np.ones(64), np.arange(64)], axis=1)
    assert len(set(folds_of(cv, same, two))) == 2


def chi_square(folds, n_splits):
    return stats.chisquare(np.bincount(folds, minlength=n_splits)).pvalue


@pytest.mark.parametrize("n_splits", [2, 3, 7])
def test_folds_are_evenly_filled_and_independent_between_keys(n_splits):
    # Fixed seeds, so this cannot fail by chance; structured rows, where a poor hash shows.
    array = np.arange(20_000.0)[:, None]
    first, second = (folds_of(PerRecordKFold(n_splits, random_state=s), array) for s in (0, 1))
    assert chi_square(first, n_splits) > 1e-3
    assert chi_square(first * n_splits + second, n_splits**2) > 1e-3
    assert chi_square((first[1:] - first[:-1]) % n_splits, n_splits) > 1e-3
    # The same test refuses the bits of the number itself as its hash.
    bits = array[:, 0].view(np.uint64) >> np.uint64(32)
    assert chi_square((bits * np.uint64(n_splits) >> np.uint64(32)).astype(int), n_splits) < 1e-9


def test_the_key_belongs_to_the_object():
    cv = PerRecordKFold(3)
    array = np.random.default_rng(0).normal(size=(300, 2))
    folds = folds_of(cv, array)
    for other in (cv, copy.deepcopy(cv), clone(cv, safe=False), pickle.loads(pickle.dumps(cv))):
        assert folds_of(other, array).tolist() == folds.tolist()
    assert folds_of(PerRecordKFold(3), array).tolist() != folds.tolist()  # false alarm: 3**-300
    again = [folds_of(PerRecordKFold(3, random_state=np.int64(7)), array) for _ in range(2)]
    assert again[0].tolist() == again[1].tolist()
    assert repr(PerRecordKFold(3, random_state=7)) == "PerRecordKFold(n_splits=3, random_state=7)"
    assert cv.get_n_splits() == 3
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()
    folds_of(PerRecordKFold(3), array)
    assert np.random.get_state()[1].tolist() == before


def test_empty_folds_raise_nothing():
    cv = PerRecordKFold(5, random_state=0)
    splits = list(cv.split(np.zeros((2, 1))))
    assert len(splits) == 5
    assert sorted(len(test) for _, test in splits) == [0, 0, 0, 0, 2]
    assert [len(test) for _, test in cv.split(np.zeros((0, 1)))] == [0] * 5


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: PerRecordKFold(1), ValueError, "n_splits must be an integer >= 2"),
        (lambda: PerRecordKFold(2.0), TypeError, "n_splits must be an integer >= 2"),
        (lambda: PerRecordKFold(True), TypeError, "n_splits"),
        (lambda: PerRecordKFold(None), TypeError, "n_splits"),
        (lambda: PerRecordKFold(random_state=0.5), TypeError, "random_state must be an integer"),
        (lambda: list(PerRecordKFold().split(X, groups=Y)), ValueError, "groups"),
        (lambda: list(PerRecordKFold().split(X, Y[:-1])), ValueError, "same number of rows"),
    ],
)
def test_bad_input_of_folds(call, kind, match):
    with pytest.raises(kind, match=match):
        call()


@pytest.mark.parametrize("routing", [False, True])
def test_folds_in_a_search(routing):
    rng = np.random.default_rng(0)
    array = rng.normal(size=(200, 2))
    y = array[:, 0] > 0
    cv = PerRecordKFold(3, random_state=0)
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(
            make_pipeline(StandardScaler(), LogisticRegression()),
            {"logisticregression__C": [0.1, 1.0]},
            cv=cv,
            scoring=private_scorer("accuracy", epsilon=50.0),
        ).fit(array, y)
    assert search.n_splits_ == 3
    assert 0.8 < search.best_score_ <= 1.0
    assert len(cross_val_score(LogisticRegression(), pd.DataFrame(array), y, cv=cv)) == 3


# --- private_scorer ---------------------------------------------------------------------------


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
        tapes = []
        first = slice(0, 4)
        other = [4, 1, 2, 3] if adjacency == "replace_one" else [1, 2, 3]
        for part in (first, other):
            with tape.record() as recorded:
                scorer(ECHO, rows[part], y[part])
            tapes.append(recorded.entries)
        ((a,), (b,)) = tapes
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
        with tape.record() as recorded:
            scorer(ECHO, rows, np.zeros(len(rows)))
        entries += recorded.entries
    a, b = entries
    assert a.distance(a.exact, b.exact) > 0.9 * a.sensitivity


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


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_is_charged_for_its_scores_in_every_process(n_jobs):
    budget = PrivacyBudget(99.0)
    scorer = private_scorer("accuracy", epsilon=0.5, budget=budget)
    search = GridSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, cv=3, scoring=scorer, n_jobs=n_jobs
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


@pytest.mark.parametrize(
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
