"""Leaks that replay must find, of one sample and of two, and what it says of them."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from cases import RELATIONS, Case, make, rows, two_samples
from replays import PUBLIC, SECRET, D, check_replay, found_in
from sklearn.base import BaseEstimator
from toys import Toy, ToyRatio

from skdp.audit import replay_check
from tests.folding import each

# --- leaks that must be found -----------------------------------------------------------------


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


@each("leaky", LEAKS, ids=lambda c: c.__name__)
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


@each("relation", RELATIONS)
@each("leaky", SAMPLE_LEAKS, ids=lambda c: c.__name__)
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


# --- beside the values of attributes ------------------------------------------------------------


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


def test_an_error_on_the_first_table_comes_out_as_it_is():
    with pytest.raises(RuntimeError, match="cannot work with"):
        replay_check(make(Case("raises", Raises), 0.0), np.full((6, D), -1.0), np.ones((6, D)))
