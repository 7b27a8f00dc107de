"""Replay: with the same releases, other rows must give the same estimator to the last bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from calls import CALLS
from cases import DELTAS, RELATIONS, Case, make, of_every_pair, rows, thinned, two_samples
from estimators import CASES
from replays import PUBLIC, D, check_replay
from sklearn.base import BaseEstimator, TransformerMixin

from skdp import statistics
from skdp.audit import replay_check
from skdp.budget.budget import StandInBudget
from skdp.core.transcript import record, replay
from skdp.density_ratio import DPuLSIF
from skdp.exceptions import SeededNoiseWarning


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


@of_every_pair
@pytest.mark.parametrize("case", CASES + CALLS, ids=lambda c: c.name)
def test_fit_learns_from_releases_only(case, pairs):
    for delta, relation in pairs:
        if relation in case.relations:  # else nothing is released
            replay_unrelated(case, delta, relation, pairs)


def replay_unrelated(case, delta, relation, pairs):
    """Replay the fits of an estimator on tables that are unlike each other."""
    estimator = make(case, delta, relation)
    public = {
        "X_public": rows(5, case.n_features, 7),
        "y_public": [0, 1, 1, 0, 1] if case.samples else None,
    }
    tables = unrelated(relation, case.n_features)
    if case.samples and relation == "add_or_remove_one":
        tables.append((rows(3, case.n_features, 0), np.empty((0, case.n_features))))
    tables.append(tables[1][::-1])  # in the other order
    for private, replaced in thinned(tables, pairs):
        check_replay(estimator, case, private, replaced, **public)


LARGE = 5000


@pytest.mark.parametrize("case", CASES + CALLS, ids=lambda c: c.name)
def test_many_rows_and_little_noise_show_no_more(case):
    """Where a stop that depends on data comes early, and where shortcuts for many rows begin.

    In both orders: what only one of two tables makes a fit do is a release more or a release less.
    One delta and relation a case, in turn: each has as many cases.
    """
    turn = (CASES + CALLS).index(case)
    relation = case.relations[turn // 2 % len(case.relations)]
    estimator = make(case, DELTAS[turn % 2], relation, epsilon=10.0)
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
