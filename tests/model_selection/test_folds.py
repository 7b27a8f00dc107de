"""Folds by content, checked against the slow oracle: a hash of each record alone."""

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
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp.model_selection import (
    PerRecordKFold,
    _folds,
    private_scorer,
)

X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2


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
