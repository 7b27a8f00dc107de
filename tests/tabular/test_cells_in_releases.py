"""What is released does not depend on how a cell beside others is written."""

from __future__ import annotations

import array
import decimal
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from skdp import DPuLSIF, statistics
from skdp.density_ratio import stack_samples
from skdp.engines import read_parquet
from skdp.tabular import check_labelled, check_labelled_table, opaque_rows
from tests.folding import each
from tests.tabular.cells import Counter, kept, outcome


def test_one_cell_of_text_does_not_move_a_histogram():
    rows = [[np.float32(0.7)]] * 1000
    counts = statistics.histogram([*rows, [0.5]], [0, 0.7, 1], epsilon=1000.0)[0].value
    assert np.abs(counts - [1001, 0]).max() < 3  # the nearest float below 0.7
    with pytest.raises(TypeError, match="numeric"):
        statistics.histogram([*rows, ["0.5"]], [0, 0.7, 1], epsilon=1000.0)


@pytest.mark.slow
def test_a_private_cell_does_not_move_the_candidates_of_a_bandwidth():
    public = [[np.float32(v)] for v in (0.1, 0.7, 0.3)]
    y = [1, 1, 0, 0, 0]
    gammas = []
    for cell in (np.float32(0.5), decimal.Decimal("0.5"), np.longdouble(0.5), 1, True):
        X = [[np.float32(0.2)], [cell], *public]
        gammas.append({DPuLSIF(epsilon=1e-3, random_state=k).fit(X, y).gamma_ for k in range(20)})
    assert len(set.union(*gammas)) < 20
    with pytest.raises(TypeError, match="numeric"):
        DPuLSIF(epsilon=1e-3).fit([[np.float32(0.2)], ["0.5"], *public], y)


@each("label", [None, math.nan, np.ma.masked, "x", 1j, Counter(), pd.NA])
def test_a_label_is_decided_by_itself(label):
    classes = np.array([0.5, 1.0])
    labels = [0.5, np.float32(1), 1, True, decimal.Decimal("0.5")]
    codes = [0, 1, 1, 1, 0]

    def read(labels):
        X = np.zeros((len(labels), 1))
        return outcome(lambda: check_labelled(X, labels, estimator="T", classes=classes))

    for place in (0, 2, 5):
        made = read([*labels[:place], label, *labels[place:]])
        if isinstance(made, tuple):
            assert made == read([label])
        else:
            assert made._y.tolist() == [*codes[:place], -1, *codes[place:]]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_label_of_several_is_refused_wherever_it_stands(place):
    labels = [0.5, 1.0]
    labels.insert(place, [1.0])
    found = outcome(lambda: check_labelled(np.zeros((3, 1)), labels, estimator="T"))
    assert found == (ValueError, "y must be one-dimensional, of shape (n_samples,).")


def test_scored_rows_of_lists_have_one_form():
    rows = opaque_rows([[np.float32(0.7), "a"], (1, None)], ["x", 2])
    assert rows._X.dtype == object
    assert isinstance(rows._X[0, 0], np.float32)
    assert rows._y.tolist() == ["x", 2]
    with pytest.raises(ValueError, match="as many cells in each row"):
        opaque_rows([[1, 2], [3]])


def test_labels_in_columns_of_every_library():
    classes = np.array(["a", "b"])
    for y in (
        pa.array(["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
        pa.table({"y": ["a", "b"]}),
        pa.array(["a", "b"]).dictionary_encode(),
        pl.Series(["a", "b"], dtype=pl.Categorical),
        pl.DataFrame({"y": ["a", "b"]}),
        pd.DataFrame({"y": ["a", "b"]}),
        pd.Series(["a", "b"], dtype="category"),
        [["a"], ["b"]],
        np.array([["a"], ["b"]]),
    ):
        rows = check_labelled(np.zeros((2, 1)), y, estimator="T", classes=classes)
        assert rows._y.tolist() == [0, 1]
    for y in (pa.table({"y": [1.0], "z": [1.0]}), np.ma.array([1.0], mask=[1])):
        found = outcome(lambda y=y: check_labelled(np.zeros((1, 1)), y, estimator="T"))
        assert found == (ValueError, "y must be one-dimensional, of shape (n_samples,).")


def test_an_array_of_python_s_own_is_a_column():
    for column in (array.array("f", [0.5, 2.0]), memoryview(np.array([0.5, 2.0])), (0.5, 2)):
        assert kept(column).tolist() == [[0.5], [2.0]]


INTEGERS_WITH_NULLS = {
    "pandas": lambda cells: pd.Series(cells, dtype="Int64"),
    "pandas arrow": lambda cells: pd.Series(cells, dtype="int64[pyarrow]"),
    "pandas categorical": lambda cells: pd.Series(cells, dtype="category"),
    "pandas frame": lambda cells: pd.DataFrame({"y": pd.Series(cells, dtype="Int64")}),
    "polars": lambda cells: pl.Series("y", cells),
    "polars frame": lambda cells: pl.DataFrame({"y": cells}),
    "pyarrow": lambda cells: pa.array(cells, type=pa.int64()),
}


@each("make", INTEGERS_WITH_NULLS.values(), ids=INTEGERS_WITH_NULLS)
def test_a_missing_label_changes_no_other(make):
    """Beyond 2**53 labels would merge in an array of floats, which one missing cell makes."""
    classes = [2**53, 2**53 + 1]

    def sums(labels):
        return statistics.subset_sums(
            np.ones(100), make(labels), classes=classes, bounds=(0, 1), nan_policy="omit",
            epsilon=1e3,
        ).value.ravel()  # fmt: skip

    np.testing.assert_allclose(sums([2**53 + 1] * 100), [0, 100], atol=0.5)
    np.testing.assert_allclose(sums([2**53 + 1] * 99 + [None]), [0, 99], atol=0.5)


@each("make", INTEGERS_WITH_NULLS.values(), ids=INTEGERS_WITH_NULLS)
def test_a_missing_target_changes_no_other_of_a_scorer(make):
    rows = [opaque_rows(np.ones((3, 1)), make([2**53 + 1, 2**53, last])) for last in (7, None)]
    seen = [[next(iter(np.ravel(y))) for _, y in one.slices(1)][:2] for one in rows]
    assert seen[0] == seen[1] == [2**53 + 1, 2**53]


def test_a_cell_of_pyarrow_does_not_decide_whether_samples_go_together():
    public = pa.table({"a": [0.5, 1.5]})
    for cell in (1, 2**53 + 1):
        stacked, marks = stack_samples(private=pa.table({"a": [cell, 2]}), public=public)
        assert stacked.num_rows == marks.size == 4


@pytest.mark.parametrize("last", [0.5, None])
def test_a_missing_label_does_not_change_what_short_floats_are(last, tmp_path):
    """Of 32 bits 0.1 is another number, and is the class 0.1 in every container."""
    labels, classes = pa.array([0.1, 0.1, last], pa.float32()), np.array([0.1, 0.5])
    options = {"estimator": "T", "classes": classes, "omit": True}
    for y in (labels, pl.Series([0.1, 0.1, last], dtype=pl.Float32)):
        rows, _ = check_labelled_table(np.zeros((3, 1)), y, **options)
        assert rows._y.tolist() == [0, 0, -1 if last is None else 1]
    table = pa.table({"x": [0.0, 0.0, 0.0], "y": labels})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    source = read_parquet(tmp_path / "rows.parquet")
    parts, _ = check_labelled_table(source, "y", **options, one_place="")
    (codes,) = parts.gather(lambda chunk: chunk[1], read="labelled")
    assert codes.tolist()[:2] == [0, 0]
