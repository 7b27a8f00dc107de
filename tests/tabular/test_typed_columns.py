"""Containers that have types: the same numbers from every type, or a refusal without a quote."""

from __future__ import annotations

import datetime
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import statistics
from skdp.tabular import check_public_array, check_rows
from skdp.tabular.cells import number
from skdp.tabular.coding import table_schema
from skdp.tabular.grouping import check_grouped
from tests.folding import each
from tests.tabular.cells import image, kept, outcome

VALUES = [[0.5, 3.0], [1.25, 2.0], [0.75, 7.0]]
A, B = zip(*VALUES, strict=True)
TYPED = {
    "memory map": None,
    "matrix": np.array(VALUES).view(np.matrix),
    "big endian": np.array(VALUES, dtype=">f4"),
    "long double": np.array(VALUES, dtype=np.longdouble),
    "rows of arrays": [np.array(VALUES[0]), np.array(VALUES[1], np.float16), tuple(VALUES[2])],
    "pandas types": pd.DataFrame({"a": pd.array(A, "Float32"), "b": pd.array(B, "Int64")}),
    "pandas numpy types": pd.DataFrame({"a": np.float32(A), "b": np.int8(B)}),
    "pandas arrow": pd.DataFrame(
        {"a": pd.array(A, pd.ArrowDtype(pa.float32())), "b": pd.array(B, pd.ArrowDtype(pa.int8()))}
    ),
    "pandas arrow decimals": pd.DataFrame(
        {
            "a": pd.array([decimal.Decimal(v) for v in A], pd.ArrowDtype(pa.decimal128(9, 3))),
            "b": pd.array(B, pd.ArrowDtype(pa.int8())).astype(
                pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int8()))
            ),
        }
    ),
    "pandas categories": pd.DataFrame({"a": pd.Categorical(A), "b": pd.Categorical(B)}),
    "pandas sparse": pd.DataFrame({"a": pd.arrays.SparseArray(A), "b": B}),
    "pandas objects": pd.DataFrame({"a": pd.Series(A, dtype=object), "b": np.uint64(B)}),
    "polars types": pl.DataFrame({"a": pl.Series(A, dtype=pl.Float32), "b": np.uint8(B)}),
    "polars decimals": pl.DataFrame({"a": [decimal.Decimal(v) for v in A], "b": np.int64(B)}),
    "polars objects": pl.DataFrame({"a": pl.Series(A, dtype=pl.Object), "b": B}),
    "pyarrow types": pa.table({"a": pa.array(A, pa.float32()), "b": pa.array(map(int, B))}),
    "pyarrow half": pa.table({"a": pa.array(np.float16(A)), "b": pa.array(B, pa.float64())}),
    "pyarrow chunks": pa.table({"a": pa.chunked_array([A[:1], A[1:]]), "b": list(B)}),
    "pyarrow decimals": pa.table({"a": [decimal.Decimal(v) for v in A], "b": list(B)}),
    "pyarrow dictionary": pa.table({"a": pa.array(A).dictionary_encode(), "b": list(B)}),
    "pyarrow dictionaries": pa.table(
        {
            "a": pa.chunked_array(
                [pa.array(A[:2]).dictionary_encode(), pa.array(A[2:]).dictionary_encode()]
            ),
            "b": list(B),
        }
    ),
    "pyarrow batch": pa.record_batch({"a": list(A), "b": list(B)}),
}


@each("name", TYPED)
def test_every_type_of_column_gives_the_same_numbers(name, tmp_path):
    X = TYPED[name]
    if name == "memory map":
        np.array(VALUES, dtype=np.float32).tofile(tmp_path / "rows")
        X = np.memmap(tmp_path / "rows", dtype=np.float32, shape=(3, 2), mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = check_rows(X, estimator="T")
        np.testing.assert_array_equal(np.concatenate(list(rows.chunks())), VALUES)
        np.testing.assert_array_equal(check_public_array(X, estimator="T"), VALUES)
        np.testing.assert_array_equal(kept(X), VALUES)


GAPS = {
    "pandas Int64": pd.DataFrame({"a": pd.array([1, None, 2**53 + 1], "Int64")}),
    "pandas boolean": pd.DataFrame({"a": pd.array([True, None, False], "boolean")}),
    "pandas arrow": pd.DataFrame({"a": pd.array([1, None, 3], pd.ArrowDtype(pa.int64()))}),
    "pandas arrow bool": pd.DataFrame({"a": pd.array([1, None, 0], pd.ArrowDtype(pa.bool_()))}),
    "pandas categories": pd.DataFrame({"a": pd.Categorical([1, None, 3])}),
    "polars": pl.DataFrame({"a": [1, None, 3]}),
    "polars bool": pl.DataFrame({"a": [True, None, False]}),
    "polars short": pl.DataFrame({"a": pl.Series([1, None, 3], dtype=pl.Int8)}),
    "pyarrow": pa.table({"a": [1, None, 3]}),
    "pyarrow bool": pa.table({"a": [True, None, False]}),
    "pyarrow dictionary": pa.table({"a": pa.array([1, None, 3]).dictionary_encode()}),
    "pandas column": pd.Series([1, None, 3], dtype="Int64"),
    "polars column": pl.Series([1, None, 3]),
    "pyarrow column": pa.chunked_array([[1, None], [3]]),
    "pyarrow array": pa.array([True, None, False]),
    "masked constants": list(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])),
    "masked rows": list(np.ma.array([[1.0], [2.0], [3.0]], mask=[[0], [1], [0]])),
}


@each("X", GAPS.values(), ids=GAPS)
def test_missing_cells_of_every_type(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(kept(X)) == 2


MASKED = np.ma.array([[1.0], [2.0]], mask=[[0], [1]])
REFUSED = {
    "pandas dates": pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 2)}),
    "pandas zone": pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 2, utc=True)}),
    "pandas periods": pd.DataFrame({"a": pd.period_range("2020-01-01", periods=2)}),
    "pandas intervals": pd.DataFrame({"a": pd.interval_range(0, 2)}),
    "pandas durations": pd.DataFrame({"a": pd.to_timedelta([1, 2])}),
    "pandas strings": pd.DataFrame({"a": pd.array(["1", "2"], "string")}),
    "pandas no strings": pd.DataFrame({"a": pd.array([None, None], "string")}),
    "pandas arrow strings": pd.DataFrame({"a": pd.array(["1", "2"], pd.ArrowDtype(pa.string()))}),
    "pandas arrow dates": pd.DataFrame(
        {"a": pd.array([datetime.date(2020, 1, 1)], pd.ArrowDtype(pa.date32()))}
    ),
    "pandas text categories": pd.DataFrame({"a": pd.Categorical(["1", "2"])}),
    "polars text": pl.DataFrame({"a": ["1", "2"]}),
    "polars times": pl.DataFrame({"a": [datetime.time(1)]}),
    "polars lists": pl.DataFrame({"a": [[1.0], [2.0]]}),
    "polars bytes": pl.DataFrame({"a": [b"1"]}),
    "pyarrow text": pa.table({"a": ["1", "2"]}),
    "pyarrow dates": pa.table({"a": [datetime.date(1, 1, 1)]}),
    "pyarrow text dictionary": pa.table({"a": pa.array(["1"]).dictionary_encode()}),
    "pyarrow lists": pa.table({"a": [[1.0], [2.0]]}),
    "text": np.array([["1"], ["2"]]),
    "bytes": np.array([[b"1"], [b"2"]]),
    "variable text": np.array([["1"], ["2"]], dtype=getattr(np.dtypes, "StringDType", np.str_)()),
    "masked": MASKED,
    "subclass of masked": MASKED.view(type("Sub", (np.ma.MaskedArray,), {})),
}


@each("X", REFUSED.values(), ids=REFUSED)
def test_types_that_are_no_numbers_are_refused_everywhere(X):
    for read in (image, kept, lambda X: check_public_array(X, estimator="T")):
        kind, text = outcome(lambda read=read: read(X))
        assert issubclass(kind, TypeError)
        assert "numeric" in text or "masked" in text


def test_an_object_that_hides_a_masked_array_is_refused():
    class Holder:
        def __array__(self, dtype=None, copy=None):
            return MASKED

    assert outcome(lambda: image(Holder()))[0] is TypeError


def test_a_class_without_a_type_has_none_from_its_cells():
    class Indexed:
        def __init__(self, cells):
            self.cells = cells

        def __len__(self):
            return len(self.cells)

        def __getitem__(self, i):
            return self.cells[i]

    class Reads(Indexed):
        def __array__(self, dtype=None, copy=None):
            return np.array(self.cells, dtype=dtype)

    for cells in ([True, False], [True, 2], [1, 2.5]):
        for kind in (Reads, Indexed):
            X = kind([[cell] for cell in cells])
            rows = check_rows(X, estimator="T")
            np.testing.assert_array_equal(rows.ranges, [[-np.inf], [np.inf]])
            np.testing.assert_array_equal(image(X), [[cell] for cell in cells])
            assert table_schema(X, estimator="T")[1].types == (np.dtype(object),)
            grouped = {"k": kind(cells), "x": kind(cells)}
            found = check_grouped(grouped, by=["k"], unit=None, columns=["x"])
            assert found.types["k"].kind == "any"


def test_a_type_that_is_refused_names_its_column():
    with pytest.raises(TypeError, match="column 'when' is of dates"):
        check_rows(pd.DataFrame({"a": [1.0], "when": [pd.Timestamp(0)]}), estimator="T")


def test_categories_are_named_by_column():
    table = pd.DataFrame({"a": [1.0, 2.0], "sex": pd.Categorical(["SECRET", "m"])})
    wanted = "column 'sex' is category"
    reads = (image, kept, lambda X: check_public_array(X, estimator="T"))
    for read in reads:
        assert wanted in outcome(lambda read=read: read(table))[1]
    assert wanted in outcome(lambda: kept(table["sex"]))[1]
    many = pd.DataFrame({f"c{i}": pd.Categorical(["SECRET"]) for i in range(20)})
    assert outcome(lambda: image(many))[1].count("category") == 5
    numbers = table.assign(sex=pd.Categorical([3, 4]))
    np.testing.assert_array_equal(image(numbers), [[1, 3], [2, 4]])


def test_own_code_of_a_subclass_does_not_run():
    class Nosy(np.ndarray):
        def __getitem__(self, key):
            raise RuntimeError("SECRET")

        def __array_ufunc__(self, *args, **kwargs):
            raise RuntimeError("SECRET")

    class Nosier(Nosy):  # as a cell
        @property
        def ndim(self):
            raise RuntimeError("SECRET")

        dtype = astype = __class__ = ndim

    assert number(np.array(0.5).view(Nosier)) == 0.5
    assert number(np.array([0.5]).view(Nosier)) is None
    assert number(np.array("x").view(Nosier)) is None

    X = np.array(VALUES).view(Nosy)
    np.testing.assert_array_equal(image(X), VALUES)
    assert statistics.mean(X, bounds=(0, 9)).value.shape == (2,)
