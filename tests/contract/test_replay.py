"""Replay: with the same releases, other rows must give the same estimator to the last bit."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from estimators import CASES, DELTAS, RELATIONS, Case, Toy, make, rows
from sklearn.base import BaseEstimator

from skdp.audit import replay_check
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


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_fit_learns_from_releases_only(case, delta, relation):
    estimator = make(case, delta, relation)
    public = rows(5, case.n_features, 7)
    for X, other in unrelated(relation, case.n_features):
        replay_check(estimator, X, other, X_public=public)


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
        def _session(self, rows, *, epsilon=None, delta=None):
            return super()._session(rows, epsilon=0.5 if self._positive else 1.0)

        def fit(self, X, y=None):
            self._positive = bool(np.asarray(X)[0, 0] > 0)
            try:
                return super().fit(X)
            finally:
                del self._positive
                del self.privacy_

    assert "charge" in str(found_in(ChargesByRows, "add_or_remove_one"))


def test_a_seeded_fit_under_a_budget_still_warns_its_user():
    estimator = make(CASES[0], 0.0, "add_or_remove_one")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeededNoiseWarning)
        # The audit's own seed is no business of the user's.
        replay_check(estimator, rows(9, D, 0), rows(5, D, 1))
