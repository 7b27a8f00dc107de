"""Folds by content, checked against the slow oracle: a hash of each record alone."""

from __future__ import annotations

import copy
import pickle
import warnings

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

from skdp import DPKMeans, PrivacyBudget
from skdp.exceptions import SeededNoiseWarning
from skdp.model_selection import (
    PerRecordKFold,
    _folds,
    private_scorer,
    search_cost,
)
from tests.folding import each

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


TOKENS = st.recursive(
    st.one_of(
        st.text(alphabet="ab1", max_size=2),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.booleans(),
        st.none(),
        st.just(10**400),
        st.timedeltas(),
        st.datetimes(),
        hnp.arrays(st.sampled_from([np.float32, np.int8, "U2", "m8[s]", "M8[ns]"]), (2,)),
    ),
    lambda cells: st.lists(cells, max_size=3) | st.tuples(cells, cells),
    max_leaves=6,
)


def without(cells, gone):
    return cells[:gone] + cells[gone + 1 :]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TOKENS, TOKENS), min_size=2, max_size=5), st.data())
def test_each_record_of_a_list_is_hashed_alone(records, data):
    # numpy makes numbers, text, objects or nothing of a list, depending on all of its rows.
    X_list, y_list = [x for x, _ in records], [y for _, y in records]
    gone = data.draw(st.integers(0, len(records) - 1))
    for y in (None, y_list):
        words = _folds.record_words(X_list, y, b"k").tolist()
        fewer = _folds.record_words(
            without(X_list, gone), None if y is None else without(y, gone), b"k"
        )
        assert without(words, gone) == fewer.tolist()
        alone = [_folds.record_words([x], None if y is None else [t], b"k")[0] for x, t in records]
        assert words == alone


def test_token_lists_and_durations():
    # What an adversarial reader found: one more row moved the others.
    cv = PerRecordKFold(5, random_state=0)
    tokens = [[f"{i}", f"{i + 1}"] for i in range(40)]
    numbers = [[i, i + 0.5] for i in range(40)]
    for rows in (tokens, numbers, [[r] for r in numbers]):
        for more in (["x"], [1, 2, 3], [], "x", None, 7, [10**400, 1], [[1], [2, 3]]):
            assert folds_of(cv, [*rows, more])[:40].tolist() == folds_of(cv, rows).tolist()
            whole, part = folds_of(cv, np.ones((41, 2)), [*rows, more]), np.ones((40, 2))
            assert whole[:40].tolist() == folds_of(cv, part, rows).tolist()
            # Rows of different lengths in X leave the keys of y where they are.
            y = np.arange(41)
            whole = folds_of(cv, [*rows, more], y)
            assert whole[:40].tolist() == folds_of(cv, rows, y[:40]).tolist()
    assert folds_of(cv, np.array(numbers)).tolist() == folds_of(cv, numbers).tolist()
    # Sequences in the cells of a table, whose dtype pyarrow and polars take from all rows.
    cells = [[1, 2], [3], [], None]
    for make in (
        lambda c: polars.DataFrame({"c": c}),
        lambda c: pyarrow.table({"c": c}),
        lambda c: pd.DataFrame({"c": c}),
    ):
        some, more = folds_of(cv, make(cells)), folds_of(cv, make([*cells, [0.5, None]]))
        assert some.tolist() == more[:-1].tolist()
    times = pd.Series(pd.to_timedelta(np.arange(-20, 20) * 1001, unit="ns"))
    kinds = [
        times,
        times.astype(object),
        times.astype("category"),
        times.tolist(),
        times.to_numpy(),
    ]
    for kind in kinds:
        kind = kind if isinstance(kind, list | np.ndarray) else kind.to_frame()
        assert folds_of(cv, kind).tolist() == folds_of(cv, times.to_frame()).tolist()
    words = _folds.record_words(times, None, b"k")
    mixed = pd.concat([times.astype("category"), pd.Series(["x"])], ignore_index=True)
    assert _folds.record_words(mixed, None, b"k")[:-1].tolist() == words.tolist()
    plain = [t.to_pytimedelta() for t in pd.to_timedelta(np.arange(40), unit="ms")]
    column = pd.Series(pd.to_timedelta(np.arange(40), unit="ms"))
    assert folds_of(cv, plain).tolist() == folds_of(cv, column).tolist()


class Nameless:
    """Has no text but its address."""


@pytest.mark.parametrize(
    "table",
    [
        np.ones((3, 2)) * 1j,
        [[1j, 2.0], [3.0, 4.0]],
        [["a", np.complex64(1)], ["b"]],
        pd.DataFrame({"a": [1.0, 2.0], "b": [1j, 2j]}),
        pd.DataFrame({"a": ["x", 2j]}),
    ],
)
def test_complex_cells_are_refused(table):
    for call in (lambda: folds_of(CV, table), lambda: folds_of(CV, X[: len(table)], table)):
        with pytest.raises((TypeError, ValueError), match=r"must (be real|hold real numbers)"):
            call()


def test_cells_without_content_are_refused():
    for table in ([[Nameless()]], pd.DataFrame({"a": [Nameless(), 1]})):
        with pytest.raises(TypeError, match="text of its own"):
            folds_of(CV, table)


CV = PerRecordKFold(3, random_state=0)


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


def charges_of_a_search(array):
    budget = PrivacyBudget(99.0, adjacency="add_or_remove_one")
    search = GridSearchCV(
        DPKMeans(epsilon=1.0, bounds=(0.0, 1.0), budget=budget, random_state=0),
        {"n_clusters": [1, 2]},
        scoring=private_scorer(
            "neg_inertia", epsilon=0.5, bounds=2.0, budget=budget, random_state=0
        ),
        cv=PerRecordKFold(5, random_state=0),
        return_train_score=True,
    )
    price = search_cost(search)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.filterwarnings("ignore", message=".*centres coincide")
        search.fit(array)
    scores = [v for k, v in search.cv_results_.items() if k.startswith(("split", "mean_t"))]
    assert np.isfinite(np.asarray(scores, dtype=float)).all()
    assert budget.spent.epsilon == price.epsilon
    return len(budget.charges)


def test_empty_folds_and_training_parts_are_charged_like_any_other():
    # Whether a training part is empty depends on one record: it must show neither in the number
    # of charges nor as an error (which scikit-learn would turn into a NaN score and a warning).
    same = np.full((12, 2), 0.5)
    other = np.concatenate([same, [[0.1, 0.9]]])
    cv = PerRecordKFold(5, random_state=0)
    assert sorted(len(train) for train, _ in cv.split(same)) == [0, 12, 12, 12, 12]
    assert min(len(train) for train, _ in cv.split(other)) == 1
    assert charges_of_a_search(same) == charges_of_a_search(other) == 2 * 5 * 3 + 1


@each(
    ("call", "kind", "match"),
    [
        (lambda: PerRecordKFold(1), ValueError, "n_splits must be an integer of at least 2"),
        (lambda: PerRecordKFold(2.0), TypeError, "n_splits must be an integer of at least 2"),
        (lambda: PerRecordKFold(True), TypeError, "n_splits"),
        (lambda: PerRecordKFold(None), TypeError, "n_splits"),
        (
            lambda: PerRecordKFold(random_state=0.5),
            TypeError,
            "random_state must be None or an int",
        ),
        (lambda: list(PerRecordKFold().split(X, groups=Y[:-1])), ValueError, "groups"),
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
