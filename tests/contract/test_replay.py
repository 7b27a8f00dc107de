"""Replay: with the same releases, other rows must give the same estimator to the last bit."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict, deque
from functools import partial

import numpy as np
import pandas as pd
import pytest
from calls import CALLS
from cases import DELTAS, RELATIONS, Case, make, rows, two_samples
from estimators import CASES
from sklearn.base import BaseEstimator, TransformerMixin
from toys import Toy, ToyRatio

from skdp import statistics
from skdp.audit import replay_check
from skdp.budget.stand_in import StandInBudget
from skdp.core.transcript import record, replay
from skdp.density_ratio import DPuLSIF
from skdp.exceptions import SeededNoiseWarning

D = 3
PUBLIC = np.random.default_rng(7).normal(size=(5, D))


def unrelated(relation, d):
    """Return pairs of tables as unlike each other as the domain allows."""
    other = 40 if relation == "replace_one" else 17
    spread, constant = rows(40, d, 0), np.full((other, d), 3.25)
    far = rows(other, d, 1) * np.resize([1e6, 1e-6, 1.0], d) + 50
    huge = np.full((other, d), -1e300)
    one = np.full((40 if relation == "replace_one" else 1, d), 5e-324)
    return [(spread, constant), (spread, far), (far[:other], _as_long(spread, relation, other)),
            (huge, _as_long(spread, relation, other)), (spread, one)]  # fmt: skip


def _as_long(X, relation, length):
    return X[:length] if relation == "replace_one" else X[: length + 3]


def check_replay(estimator, case, private, replaced, **public):
    """Replace all private rows; where there are public ones too, these stay.

    Tables of two lengths have their private rows at other places: nothing may be made of these.
    """
    X, y = case.table(private)
    other, y_other = case.table(replaced, places=len(private) != len(replaced))
    replay_check(estimator, X, other, y=y, y_other=y_other, **public)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("case", CASES + CALLS, ids=lambda c: c.name)
def test_fit_learns_from_releases_only(case, delta, relation):
    if relation not in case.relations:
        pytest.skip("nothing is released")
    estimator = make(case, delta, relation)
    public = {
        "X_public": rows(5, case.n_features, 7),
        "y_public": [0, 1, 1, 0, 1] if case.samples else None,
    }
    pairs = unrelated(relation, case.n_features)
    if case.samples and relation == "add_or_remove_one":
        pairs.append((rows(3, case.n_features, 0), np.empty((0, case.n_features))))
    for private, replaced in [*pairs, pairs[1][::-1]]:  # and one in the other order
        check_replay(estimator, case, private, replaced, **public)


LARGE = 5000


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("case", CASES + CALLS, ids=lambda c: c.name)
def test_many_rows_and_little_noise_show_no_more(case, relation):
    """Where a stop that depends on data comes early, and where shortcuts for many rows begin.

    In both orders: what only one of two tables makes a fit do is a release more or a release less.
    """
    if relation not in case.relations:
        pytest.skip("nothing is released")
    delta = DELTAS[(CASES + CALLS).index(case) % 2]
    estimator = make(case, delta, relation, epsilon=10.0)
    other = LARGE if relation == "replace_one" else LARGE + 7
    few = rows(5, case.n_features, 7)
    spread, constant = rows(LARGE, case.n_features, 0), np.full((other, case.n_features), 0.75)
    public = {"X_public": few, "y_public": [0, 1, 1, 0, 1] if case.samples else None}
    check_replay(estimator, case, spread, constant, **public)
    check_replay(estimator, case, constant, spread, **public)


class KeepsTable(TransformerMixin, BaseEstimator):
    """A transformer that keeps what it was fitted on, as kernel methods do."""

    def fit(self, X, y=None):
        self.table_ = X
        return self

    def transform(self, X):
        return np.clip(X, 0.0, 1.0)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_basis_may_keep_its_public_rows(relation):
    """These alone: not as a window on the table that holds the private rows, too."""
    public = rows(9, D, 11)
    basis = {"basis": KeepsTable(), "basis_bounds": (0.0, 1.0)}
    estimator = make(Case("basis", lambda **p: DPuLSIF(**basis, **p)), 0.0, relation)
    for private_first in (True, False):
        tables = []
        for private in (rows(6, D, 0), rows(6 if relation == "replace_one" else 9, D, 1)):
            parts = [(private, 1), (public, 0)][:: 1 if private_first else -1]
            X = np.vstack([part for part, _ in parts])
            tables.append((X, np.concatenate([np.full(len(part), mark) for part, mark in parts])))
        (X, y), (other, y_other) = tables
        replay_check(estimator, X, other, y=y, y_other=y_other, X_public=PUBLIC)


@pytest.mark.parametrize("case", [c for c in CASES if c.samples], ids=lambda c: c.name)
def test_seeded_fits_with_other_public_rows_share_no_noise(case):
    """Or the difference of two releases would be the exact difference of their statistics."""
    private, public = rows(30, D, 0), rows(9, D, 11)
    noise = []
    for others in (public, public + 1e-9):
        estimator = case.make(epsilon=1.0, delta=0.0, random_state=3)
        with record() as transcript:
            estimator.fit(*two_samples(private, others))
        last = transcript.entries[-1]
        noise.append(np.asarray(last.released - last.exact, dtype=float))
    if case.name == "toy_ratio":  # what it releases has nothing to do with public rows
        assert (noise[0] == noise[1]).all()
    else:
        assert not np.any((noise[0] == noise[1]) & (np.abs(noise[0]) > 2**10))


def test_a_budget_is_not_charged_by_audits():
    estimator = make(CASES[0], 0.0, "add_or_remove_one")
    replay_check(estimator, rows(9, D, 0), rows(5, D, 1))
    assert estimator.budget.charges == []


@pytest.mark.parametrize("relation", RELATIONS)
def test_lengths_must_suit_the_relation(relation):
    equal = relation == "replace_one"
    with pytest.raises(ValueError, match="X_other must have"):
        replay_check(make(CASES[0], 0.0, relation), rows(9, D, 0), rows(8 if equal else 9, D, 1))


# --- leaks that must be found -----------------------------------------------------------------

SECRET = 0.123456789


class StoresMean(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        self.exact_ = np.asarray(X).mean(axis=0)
        return self


class StoresMeanDeep(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        self._cache = {"parts": [1, (np.float64(0), {"deep": float(np.sum(X))})]}
        return self


class StoresRowInObject(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        inner = BaseEstimator()
        inner.row_ = np.asarray(X)[0]
        self.helper_ = inner
        return self


class StoresLength(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        self.n_samples_seen_ = len(X)
        return self


class RoundsByLength(Toy):
    """Noise divided by the exact number of rows: its last bits tell the number."""

    def fit(self, X, y=None):
        super().fit(X)
        self.mean_ = self.mean_ * (1 + 1e-15 * len(X))
        return self


class BranchesOnRows(Toy):
    """Spends half of the allowance where the first row is positive."""

    def _share(self, X):
        return 0.5 if np.asarray(X)[0, 0] > 0 else None


class AsksAgain(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        if np.asarray(X)[0, 0] > 0:
            super().fit(X)
        return self


class SetsAttributeSometimes(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        if np.asarray(X)[0, 0] > 0:
            self.positive_ = True
        return self


class Warns(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        if np.asarray(X)[0, 0] > 0:
            warnings.warn("the first row is positive", UserWarning, stacklevel=2)
        return self


class Raises(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        if np.asarray(X)[0, 0] < 0:
            raise RuntimeError(f"cannot work with {np.asarray(X)[0, 0]}")
        return self


class SeedsByRows(Toy):
    """Randomness of post-processing that depends on rows."""

    def fit(self, X, y=None):
        super().fit(X)
        seed = int(abs(float(np.sum(X))) * 1e6) % 2**32
        self.restarts_ = np.random.default_rng(seed).random(3)
        return self


class HoldsGenerator(SeedsByRows):
    def fit(self, X, y=None):
        super().fit(X)
        del self.restarts_
        self._rng = np.random.default_rng(int(abs(float(np.sum(X))) * 1e6) % 2**32)
        return self


class AnswersFromGlobal(Toy):
    """Keeps the rows outside of itself, as a cache would."""

    kept: dict = {}

    def fit(self, X, y=None):
        super().fit(X)
        self.kept[self] = float(np.asarray(X)[0, 0])
        return self

    def __hash__(self):
        return id(self)

    def transform(self, X):
        return super().transform(X) + self.kept[self]


class OverwritesParameter(Toy):
    def fit(self, X, y=None):
        super().fit(X)
        self.bounds = (-1.0, float(np.max(X)))
        return self


LEAKS = {
    StoresMean: "exact_",
    StoresMeanDeep: r"_cache\['parts'\]\[1\]\[1\]\['deep'\]",
    StoresRowInObject: r"helper_\['row_'\]",
    BranchesOnRows: r"privacy_\['releases'\]",
    AsksAgain: "releases",
    SetsAttributeSometimes: "positive_ is set on some rows only",
    Warns: "list of warnings",
    Raises: "fit raised RuntimeError",
    SeedsByRows: "restarts_",
    HoldsGenerator: "_rng",
    AnswersFromGlobal: r"transform\(X_public\)",
    OverwritesParameter: "bounds",
}


def found_in(leaky, relation="replace_one"):
    X = np.full((6, D), 0.5)
    other = np.full((6 if relation == "replace_one" else 9, D), -SECRET)
    estimator = make(Case("leaky", leaky), 0.0, relation)
    with pytest.raises(AssertionError) as caught:
        replay_check(estimator, X, other, X_public=PUBLIC)
    return caught.value


@pytest.mark.parametrize("leaky", LEAKS, ids=lambda c: c.__name__)
def test_a_leak_is_found_and_named_without_data(leaky):
    error = found_in(leaky)
    assert re.search(LEAKS[leaky], str(error))
    assert str(SECRET) not in f"{error} {error.__cause__}"


@pytest.mark.parametrize("leaky", [StoresLength, RoundsByLength])
def test_a_private_length_is_found_under_add_or_remove_one(leaky):
    names = {StoresLength: "n_samples_seen_", RoundsByLength: "mean_"}
    assert names[leaky] in str(found_in(leaky, "add_or_remove_one"))
    # Under replace-one the length is public and may be stored.
    replay_check(make(Case("leaky", leaky), 0.0), np.full((6, D), 0.5), np.zeros((6, D)))


def test_a_charge_that_depends_on_rows_is_found():
    class ChargesByRows(Toy):
        def _session(self, rows, **options):
            self.epsilon = 0.5 if self._positive else 1.0
            return super()._session(rows, **options)

        def fit(self, X, y=None):
            self._positive = bool(np.asarray(X)[0, 0] > 0)
            try:
                return super().fit(X)
            finally:
                del self._positive
                del self.privacy_

    assert "charge" in str(found_in(ChargesByRows, "add_or_remove_one"))


# --- two samples: what must be found of the private one ------------------------------------------


class KeepsPrivateRow(ToyRatio):
    def fit(self, X, y):
        super().fit(X, y)
        self.first_ = X[np.asarray(y) == 1][:1]
        return self


class ReadsPastTheDoor(ToyRatio):
    """Takes all rows for the public ones, the commonest mistake."""

    def fit(self, X, y):
        super().fit(X, y)
        self.public_mean_ = np.clip(X, self.low_, self.high_).mean(axis=0)
        return self


class TakesTheOtherSample(ToyRatio):
    """Protects the rows marked 0 and publishes those marked 1."""

    def fit(self, X, y):
        return super().fit(X, 1 - np.asarray(y))


class ScoresByPrivateRows(ToyRatio):
    """Keeps the rows outside of itself, so that only its score tells."""

    kept: dict = {}

    def fit(self, X, y):
        super().fit(X, y)
        self.kept[self] = float(X[np.asarray(y) == 1].sum())
        return self

    def __hash__(self):
        return id(self)

    def score(self, X, y):
        return super().score(X, y) + self.kept[self]


class UsesExactNumber(ToyRatio):
    """The ratio of the two samples' sizes, as probabilistic classifiers want it."""

    def fit(self, X, y):
        super().fit(X, y)
        self.prior_ = float(np.mean(y))
        return self


class DividesByExactNumber(ToyRatio):
    def fit(self, X, y):
        super().fit(X, y)
        self.mean_ = self.mean_ * (1 + 1e-15 * np.sum(y))
        return self


class UsesPositions(ToyRatio):
    """Keeps where the public rows stood in the table, so how many private ones came before."""

    def fit(self, X, y):
        super().fit(X, y)
        self.public_rows_ = np.flatnonzero(np.asarray(y) == 0)[:3]
        return self


class SeedsByPositions(ToyRatio):
    """Fixes centres by a permutation of the table instead of one of its public rows."""

    def fit(self, X, y):
        super().fit(X, y)
        order = np.random.default_rng(0).permutation(len(X))
        self.centre_ = X[next(i for i in order if y[i] == 0)].copy()
        return self


SAMPLE_LEAKS = {
    KeepsPrivateRow: "first_",
    ReadsPastTheDoor: "public_mean_",
    TakesTheOtherSample: "public_mean_",
    ScoresByPrivateRows: r"score\(X_public\)",
}
NUMBER_LEAKS = {
    UsesExactNumber: "prior_",
    DividesByExactNumber: "mean_",
    UsesPositions: "public_rows_",
    SeedsByPositions: "centre_",
}


def found_in_samples(leaky, relation):
    case = Case("leaky", leaky, samples=True)
    replaced = np.full((6 if relation == "replace_one" else 9, D), -SECRET)
    with pytest.raises(AssertionError) as caught:
        check_replay(
            make(case, 0.0, relation), case, np.full((6, D), 0.5), replaced,
            X_public=PUBLIC, y_public=[0, 1, 0, 1, 1],
        )  # fmt: skip
    return caught.value


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("leaky", SAMPLE_LEAKS, ids=lambda c: c.__name__)
def test_a_leak_of_the_private_sample_is_found(leaky, relation):
    error = found_in_samples(leaky, relation)
    assert re.search(SAMPLE_LEAKS[leaky], str(error))
    assert str(SECRET) not in f"{error} {error.__cause__}"


@pytest.mark.parametrize("leaky", NUMBER_LEAKS, ids=lambda c: c.__name__)
def test_what_is_made_of_the_marks_is_found_where_their_number_is_private(leaky):
    assert NUMBER_LEAKS[leaky] in str(found_in_samples(leaky, "add_or_remove_one"))
    # Under replace-one all of y is public.
    case = Case("leaky", leaky, samples=True)
    check_replay(make(case, 0.0), case, np.full((6, D), 0.5), np.zeros((6, D)))


def test_the_score_is_asked_with_marks():
    """Without y_public those of the other table go with its rows; a score that raises is none."""
    public = rows(4, D, 2)
    X, y = two_samples(np.full((6, D), 0.5), public)
    other, y_other = two_samples(np.full((6, D), -0.5), public)
    leaky = make(Case("leaky", ScoresByPrivateRows), 0.0)
    with pytest.raises(AssertionError, match="score"):
        replay_check(leaky, X, other, y=y, y_other=y_other)
    replay_check(leaky, X, other, y=y, y_other=y_other, X_public=PUBLIC)


# --- rows in places that a comparison by value does not reach -----------------------------------


class Array(np.ndarray):
    """Each of these may carry attributes beside its content."""


class Number(float):
    pass


class Pair(tuple):
    pass


class Table(dict):
    pass


class Bag(set):
    pass


class Items(list):
    pass


class Hidden:
    __slots__ = ("__kept",)

    def __init__(self, kept):
        self.__kept = kept


def with_rows(value, rows):
    value.rows = rows.copy()
    return value


def closure(rows):
    kept = float(rows.sum())
    return lambda: kept


def frozen(rows):
    values = np.zeros(3)
    values.flags.writeable = bool(rows[0, 0] > 0)
    return values


def caught(rows):
    try:
        raise ValueError("public")
    except ValueError as error:
        return error


def renamed(rows):
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    frame.attrs["sum"] = float(rows.sum())
    return frame


def by_metadata(rows):
    return np.zeros(2, dtype=np.dtype("f8", metadata={"sum": float(rows.sum())}))


HIDING = {
    "array subclass": lambda rows: with_rows(np.zeros(2).view(Array), rows),
    "float subclass": lambda rows: with_rows(Number(1), rows),
    "tuple subclass": lambda rows: with_rows(Pair((1, 2)), rows),
    "dict subclass": lambda rows: with_rows(Table(a=1), rows),
    "list subclass": lambda rows: with_rows(Items([1]), rows),
    "set subclass": lambda rows: with_rows(Bag({1}), rows),
    "content of a set": lambda rows: with_rows(Bag({float(rows.sum())}), np.zeros(1)),
    "content of a dict": lambda rows: with_rows(Table(a=float(rows.sum())), np.zeros(1)),
    "type in a set": lambda rows: {1} if rows[0, 0] > 0 else {1.0},
    "factory": lambda rows: defaultdict(partial(float, rows.sum())),
    "under a mask": lambda rows: np.ma.array([rows.sum(), 1.0], mask=[True, False]),
    "the mask": lambda rows: np.ma.array([1.0, 1.0], mask=[bool(rows[0, 0] > 0), False]),
    "base": lambda rows: np.vstack([np.zeros(rows.shape[1]), rows])[:1],
    "base of a window": lambda rows: np.lib.stride_tricks.as_strided(
        np.append(0.0, rows), (1,), (8,)
    ),
    "base of a record": lambda rows: np.array([(0.0,), (rows.sum(),)], dtype=[("a", float)])[0],
    "flags": frozen,
    "order in memory": lambda rows: np.zeros((2, 2), order="F" if rows[0, 0] > 0 else "C"),
    "metadata": by_metadata,
    "slot": lambda rows: Hidden(float(rows.sum())),
    "closure": closure,
    "function attribute": lambda rows: with_rows(lambda: 0, rows),
    "partial": lambda rows: partial(max, float(rows.sum())),
    "queue": lambda rows: deque([float(rows.sum())]),
    "traceback": caught,
    "frame": lambda rows: pd.DataFrame({"a": [float(rows.sum())]}),
    "frame's index": lambda rows: pd.DataFrame({"a": [0.0]}, index=[float(rows.sum())]),
    "frame's columns": lambda rows: pd.DataFrame({float(rows.sum()): [0.0]}),
    "frame's type": lambda rows: pd.Series([1], dtype=int if rows[0, 0] > 0 else float),
    "frame's attrs": renamed,
    "categories": lambda rows: pd.Categorical([0.0], categories=[0.0, float(rows.sum())]),
}


class Holds(Toy):
    """Keeps what a function of rows returns; not a parameter, so that clones need not copy it."""

    hide = None

    def fit(self, X, y=None):
        super().fit(X)
        self.held_ = type(self).hide(np.array(X))
        return self


@pytest.mark.parametrize("place", HIDING)
def test_a_leak_is_found_wherever_it_hides(place):
    leaky = type("Leaky", (Holds,), {"hide": staticmethod(HIDING[place])})
    error = found_in(leaky)
    assert "held_" in str(error)
    assert str(SECRET) not in f"{error} {error.__cause__}"


@pytest.mark.parametrize("place", [place for place in HIDING if place != "traceback"])
def test_the_same_places_are_no_leak_without_rows(place):
    """A false alarm would be one here: made anew in each fit, of public numbers only."""
    hide = HIDING[place]
    public = type("Public", (Holds,), {"hide": staticmethod(lambda X: hide(np.ones((6, D))))})
    replay_check(make(Case("public", public), 0.0), np.full((6, D), 0.5), np.zeros((6, D)))


def test_the_order_of_attributes_is_compared():
    class Orders(Toy):
        def fit(self, X, y=None):
            super().fit(X)
            for name in ("a_", "b_") if np.asarray(X)[0, 0] > 0 else ("b_", "a_"):
                setattr(self, name, 0)
            return self

    assert "order in which attributes" in str(found_in(Orders))


def test_an_attribute_set_on_the_class_is_compared():
    class SetsOnClass(Toy):
        kept_: float

        def fit(self, X, y=None):
            type(self).kept_ = float(np.sum(X))
            return super().fit(X)

    assert "SetsOnClass.kept_" in str(found_in(SetsOnClass))


def test_frames_of_releases_are_no_leak():
    class Framed(Toy):
        def fit(self, X, y=None):
            super().fit(X)
            self.table_ = pd.DataFrame({"mean": self.mean_, "name": list("abc")})
            self.table_.attrs["unit"] = "m"
            self.series_ = self.table_["mean"].rename("x")
            self.by_name_ = self.table_.set_index("name").loc["b":]
            self.kinds_ = self.table_["name"].astype("category")
            self.dates_ = pd.date_range("2020-01-01", periods=3)
            self.masked_ = np.ma.masked_less(self.mean_, 0)
            return self

    case = Case("framed", Framed)
    for relation, n in (("replace_one", 9), ("add_or_remove_one", 5)):
        replay_check(make(case, 0.0, relation), rows(9, D, 0), rows(n, D, 1))


def test_an_error_on_the_first_table_comes_out_as_it_is():
    with pytest.raises(RuntimeError, match="cannot work with"):
        replay_check(make(Case("raises", Raises), 0.0), np.full((6, D), -1.0), np.ones((6, D)))


def test_a_seeded_fit_under_a_budget_still_warns_its_user():
    estimator = make(CASES[0], 0.0, "add_or_remove_one")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeededNoiseWarning)
        # The audit's own seed is no business of the user's.
        replay_check(estimator, rows(9, D, 0), rows(5, D, 1))


@pytest.mark.parametrize("call", [statistics.count, statistics.sum, statistics.mean])
def test_what_a_filter_leaves_shows_no_number_of_rows(call):
    """A replaced row may leave what a filter leaves: the releases alone say how many there are."""
    options = {"budget": StandInBudget("replace_one"), "nan_policy": "omit"}
    if call is not statistics.count:
        options["bounds"] = (0, 1)
    x = np.linspace(0, 1, 12)
    other = np.where(np.arange(12) == 5, np.nan, x)
    with record() as transcript:
        first = call(x, **options)
    with replay(transcript) as again:
        second = call(other, **options)
    assert np.array_equal(first.value, second.value)
    (a,), (b,) = transcript.entries, again.entries
    assert 0 < a.distance(a.exact, b.exact) <= a.sensitivity
