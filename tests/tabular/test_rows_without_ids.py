"""Rows without an id: left out where a unit is added or removed, refused where it is replaced."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import skdp
from skdp import DPKMeans, PrivacyBudget, statistics
from skdp.core.transcript import record
from skdp.linear_model import DPRidge
from skdp.model_selection import PerRecordKFold
from skdp.naive_bayes import DPGaussianNB
from skdp.preprocessing import DPOneHotEncoder
from skdp.synthetic import DPMarginalSynthesizer
from skdp.tabular import WholeUnits
from tests.folding import each

N = 2000
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2)).clip(-3, 3)
Y = (X[:, 0] > 0).astype(int)
TEXT = np.where(Y, "yes", "no")
IDS = [None if RNG.random() < 0.2 else int(i) for i in RNG.integers(0, 300, N)]
HAS = np.array([one is not None for one in IDS])
SPARSE = sparse.csr_array(X)


def budget_of(relation="add_or_remove_one"):
    return PrivacyBudget(1e9, 1e-3, adjacency=relation, unit="user")


def options(**more):
    return {"random_state": 0, "epsilon": 2.0, "budget": budget_of(), **more}


B = {"bounds": (-3, 3)}
FITS = {
    "rows": lambda rows, ids: DPKMeans(2, **B, **options())
    .fit(X[rows], groups=ids).cluster_centers_,
    "frame": lambda rows, ids: DPKMeans(2, **B, **options())
    .fit(pd.DataFrame(X[rows]), groups=pd.Series(ids, dtype=object)).cluster_centers_,
    "labels": lambda rows, ids: DPGaussianNB(**B, classes=[0, 1], **options())
    .fit(X[rows], Y[rows], groups=ids).theta_,
    "private classes": lambda rows, ids: DPGaussianNB(
        **B, delta=1e-6, **options(epsilon=50.0, max_rows_per_unit=10)
    )
    .fit(X[rows], TEXT[rows], groups=ids).classes_,
    "weights": lambda rows, ids: DPKMeans(2, **B, weight_bound=3.0, **options())
    .fit(X[rows], sample_weight=np.abs(X[rows, 1]), groups=ids).cluster_centers_,
    "targets": lambda rows, ids: DPRidge(**B, **options())
    .fit(X[rows], X[rows, 1], groups=ids).coef_,
    "missing cells": lambda rows, ids: statistics.mean(
        np.where(np.arange(N)[:, None] % 7, X, np.nan)[rows], **B, nan_policy="omit", groups=ids,
        **options(),
    ).value,
    "left out": lambda rows, ids: statistics.rows_left_out(ids, 2, **options()).value,
}  # fmt: skip


def exact(fit, rows, ids):
    """Return what is released of some rows, and the exact statistics behind it."""
    with warnings.catch_warnings(), skdp.config_context(noise="seeded"):
        warnings.simplefilter("ignore")
        with record() as transcript:
            value = fit(rows, ids)
        return np.asarray(value), repr([one.exact.tolist() for one in transcript.entries])


@each("name", FITS)
def test_rows_without_an_id_change_nothing(name):
    """Seeded noise is keyed by the rows, too: the same release means that they are not in it."""
    some = [one for one in IDS if one is not None]
    every = exact(FITS[name], np.arange(N), IDS)
    left = exact(FITS[name], np.flatnonzero(HAS), some)
    np.testing.assert_array_equal(every[0], left[0])
    assert every[0].size
    assert every[1] == left[1]
    filled = exact(FITS[name], np.arange(N), ["somebody" if one is None else one for one in IDS])
    assert filled[1] != every[1]


@each("name", FITS)
def test_no_row_has_an_id_and_the_fit_goes_on(name):
    exact(FITS[name], np.arange(N), [None] * N)


@each("name", FITS)
def test_where_users_are_replaced_every_row_has_an_id(name, monkeypatch):
    budget = budget_of("replace_one")
    monkeypatch.setitem(globals(), "budget_of", lambda: budget)
    with pytest.raises(ValueError, match=r"number of users is public.*add_or_remove_one"):
        FITS[name](np.arange(N), IDS)
    assert budget.spent.epsilon == 0


def test_categories_and_codes_are_of_rows_with_an_id():
    cells = np.where(HAS, TEXT, "nobody").reshape(-1, 1).astype(object)
    kind = {"epsilon": 20.0, "delta": 1e-4, "max_rows_per_unit": 1}
    encoder = DPOneHotEncoder(budget=budget_of(), **kind).fit(cells, groups=IDS)
    assert encoder.categories_[0].tolist() == ["no", "yes"]
    made = DPMarginalSynthesizer(
        domain=[["no", "yes", "nobody"]], epsilon=1e4, max_rows_per_unit=20, budget=budget_of()
    ).fit(cells, groups=IDS)
    assert "nobody" not in set(np.ravel(made.database_))
    learned = DPMarginalSynthesizer(budget=budget_of(), **kind).fit(cells, groups=IDS)
    assert learned.domain_.columns[0] == ["no", "yes", "other"]


def test_whole_units_and_folds():
    table = WholeUnits(X, Y, IDS, unit_name="user", estimator="T", adjacency="add_or_remove_one")
    rows, _, ids = table.part(np.arange(table._n))
    np.testing.assert_array_equal(rows, X[HAS])
    assert ids.tolist() == [one for one in IDS if one is not None]
    folds = [test for _, test in PerRecordKFold(3, random_state=0).split(X, groups=IDS)]
    assert sorted(np.concatenate(folds).tolist()) == list(range(N))
    some = [one for one in IDS if one is not None]
    own = [test for _, test in PerRecordKFold(3, random_state=0).split(X[HAS], groups=some)]
    for fold, alone in zip(folds, own, strict=True):
        assert fold[HAS[fold]].tolist() == np.flatnonzero(HAS)[alone].tolist()


def test_sparse_rows():
    def fit(rows, ids):
        return DPRidge(**B, **options()).fit(SPARSE[rows], X[rows, 1], groups=ids).coef_

    some = [one for one in IDS if one is not None]
    every = exact(fit, np.arange(N), IDS)
    np.testing.assert_array_equal(every[0], exact(fit, np.flatnonzero(HAS), some)[0])
