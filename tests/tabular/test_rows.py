"""Rows: checked once, read in blocks, and no error text that quotes a cell."""

from __future__ import annotations

import re
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from skdp.core import table as table_module
from skdp.tabular import check_public_array, check_rows, check_samples, check_sparse, opaque_rows
from tests.folding import each

SECRET = "S3cret"
VALUES = np.array([[1.5, 2.0], [3.0, 4.25], [5.0, 6.0]])


def read(X) -> np.ndarray:
    return np.concatenate(list(check_rows(X, estimator="T").chunks()))


@each(
    "container",
    [
        np.array,
        np.asfortranarray,
        np.ndarray.tolist,
        pd.DataFrame,
        lambda v: pd.DataFrame(v).convert_dtypes(),
        lambda v: pl.DataFrame(v),
        lambda v: v.astype(np.float32),
        lambda v: v.astype(object),
    ],
)
def test_every_container_gives_the_same_rows(container):
    np.testing.assert_array_equal(read(container(VALUES)), VALUES)


def reshaped(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        X.shape = (2, 3)


@each(
    ("container", "change"),
    [
        (np.array, reshaped),
        (sparse.csr_array, lambda X: X.indices.fill(10**6)),
        (sparse.csc_matrix, lambda X: X.resize(1, 1)),
        (pd.DataFrame, lambda X: X.pop(0)),
        (pd.DataFrame, lambda X: X.insert(0, "a", "text")),
        (pl.DataFrame, lambda X: X.insert_column(0, pl.Series("a", ["text"] * 3))),
        (pl.DataFrame, lambda X: X.extend(X.clone())),
    ],
)
def test_what_was_checked_is_what_is_read(container, change):
    """The shape and the indices of a table are those of the check, whoever changes it meanwhile."""
    X = container(VALUES)
    rows = (check_sparse if sparse.issparse(X) else check_rows)(X, estimator="T")
    change(X)
    np.testing.assert_array_equal(np.concatenate(list(rows.chunks())), VALUES)


def test_blocks_cover_a_long_table_in_order(monkeypatch):
    monkeypatch.setattr(table_module, "_BLOCK_VALUES", 64)
    X = np.arange(3000.0).reshape(1000, 3)
    rows = check_rows(X, estimator="T")
    blocks = list(rows.chunks())
    assert rows.spans(least=7)[:2] == [(0, 21), (21, 42)]
    assert rows.spans(width=64, least=7)[-1] == (994, 1000)
    assert len(blocks) == 4
    np.testing.assert_array_equal(np.concatenate(blocks), X)
    # The digest sees content only, not the blocks that it came in.
    digest = rows.digest()
    monkeypatch.setattr(table_module, "_BLOCK_VALUES", 2**16)
    assert check_rows(X.copy(), estimator="T").digest() == digest
    X[999, 2] += 1
    assert check_rows(X, estimator="T").digest() != digest


@pytest.mark.parametrize("width, least", [(1, 1), (10**4, 4 * 10**4), (10**7, 256), (8192, 32768)])
def test_no_block_is_larger_than_32_megabytes_unless_one_row_is(width, least):
    step = table_module._chunk_rows(width, least)
    assert step >= 1
    assert step * width <= 2**22 or step == 1
    assert step <= 2**16  # exact sums need it


@each(
    "bad, error, text",
    [
        ([[1.0, np.nan]], ValueError, "NaN or infinity"),
        ([[1.0, -np.inf]], ValueError, "NaN or infinity"),
        (pd.DataFrame({"a": [1.0, None]}).convert_dtypes(), ValueError, "NaN or infinity"),
        (np.array([[SECRET, 1]], dtype=object), TypeError, "must be numeric"),
        (pd.DataFrame({"a": [SECRET]}), TypeError, "must be numeric"),
        (pl.DataFrame({"a": [SECRET]}), TypeError, "must be numeric"),
        (np.array([[{SECRET: 1}]], dtype=object), TypeError, "must be numeric"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), TypeError, "must be numeric"),
        (np.array([[1 + 2j]]), ValueError, "Complex data not supported"),
        ([[1 + 2j]], TypeError, "must be numeric"),
        (sparse.eye(3, format="csr"), TypeError, "sparse"),
        (np.ones(3), ValueError, "Expected 2D array, got 1D"),
        (np.ones((2, 2, 2)), ValueError, "Expected 2D array, got 3D"),
        (np.ones((0, 2)), ValueError, "0 sample"),
        (np.ones((2, 0)), ValueError, r"0 feature\(s\)"),
        ([[1.0, 2.0], [3.0]], ValueError, "as many cells in each row"),
        (pd.DataFrame(VALUES, columns=["a", "a"]), ValueError, "columns of the same name"),
        (pd.DataFrame(VALUES, columns=[0, 0]), ValueError, "columns of the same name"),
        (pa.Table.from_arrays([[1.0]] * 2, names=["a", "a"]), ValueError, "of the same name"),
    ],
)
def test_bad_rows_raise_fixed_texts_that_quote_no_cell(bad, error, text):
    with pytest.raises(error, match=text) as info:
        check_rows(bad, estimator="T")
    assert info.value.__cause__ is None
    assert info.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception_only(info.value))
    with pytest.raises(error, match=text) as info:
        check_public_array(bad, estimator="T")
    assert info.value.__context__ is None


def test_a_bad_last_block_is_found_before_anything_is_read_for_a_statistic():
    X = np.ones((200_000, 2))
    X[-1, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        check_rows(X, estimator="T")


def test_repr_tells_the_public_width_only():
    assert repr(check_rows(VALUES, estimator="T")) == "Rows(n_features=2)"


def test_opaque_rows_have_a_digest_of_content_and_targets():
    table = pd.DataFrame({"a": ["x", "y"], "b": [1.0, np.nan]})
    digest = opaque_rows(table, [0, 1]).digest()
    assert opaque_rows(table.copy(), [0, 1]).digest() == digest
    assert opaque_rows(table, [0, 2]).digest() != digest
    assert opaque_rows(table.replace("x", "z"), [0, 1]).digest() != digest


# --- two samples in one table -------------------------------------------------------------------

# Interleaved, unequal in number, and neither sample a run of rows.
MARKS = np.array([0, 1, 1, 0, 1, 0, 1, 1])
TABLE = np.random.default_rng(0).normal(size=(8, 3)) * [1.0, 1e-3, 1e6]


def samples(X, y, **options):
    """Return the private rows as the kernel reads them, and the public ones."""
    rows, public = check_samples(X, y, estimator="T", **options)
    blocks = list(rows.chunks())
    return np.concatenate(blocks) if blocks else np.empty((0, rows.n_features)), public


TABLES = {
    "C order": np.array,
    "Fortran order": np.asfortranarray,
    "list": np.ndarray.tolist,
    "strided": lambda v: np.repeat(v, 2, axis=0)[::2],
    "float32": lambda v: v.astype(np.float32),
    "objects": lambda v: v.astype(object),
    "pandas": lambda v: pd.DataFrame(v, columns=list("abc"), index=range(100, 100 + len(v))),
    "pandas nullable": lambda v: pd.DataFrame(v).convert_dtypes(),
    "pandas repeated index": lambda v: pd.DataFrame(v, index=[0] * len(v)),
    "polars": lambda v: pl.DataFrame(v),
    "pyarrow": lambda v: pa.table(dict(zip("abc", v.T, strict=True))),
}


@each(
    "marks",
    [
        MARKS,
        np.sort(MARKS),  # the public sample first
        np.sort(MARKS)[::-1],
        np.roll(np.sort(MARKS), 3),  # the public sample a run in the middle
        np.eye(8)[0],
        1 - np.eye(8)[7],
    ],
    ids=str,
)
@each("container", TABLES.values(), ids=TABLES)
def test_both_samples_of_every_container_are_exact(container, marks):
    exact = TABLE.astype(np.float32).astype(float)
    private, public = samples(container(exact), marks)
    np.testing.assert_array_equal(private, exact[marks == 1], strict=True)
    np.testing.assert_array_equal(public, exact[marks == 0], strict=True)


@each(
    "form",
    [
        np.array,
        np.ndarray.tolist,
        lambda y: y.astype(bool),
        lambda y: y.astype(bool).tolist(),
        lambda y: y.astype(float),
        lambda y: y.astype(np.float32),
        lambda y: y.astype(np.uint8),
        lambda y: -0.0 * (1 - y) + y,
        lambda y: y.reshape(-1, 1),
        lambda y: y.reshape(-1, 1).tolist(),
        lambda y: np.repeat(y, 3)[::3],
        pd.Series,
        lambda y: pd.Series(y.astype(bool), index=range(7, 15)),
        lambda y: pd.Series(y).astype("Int64"),
        lambda y: pd.Series(y).astype("boolean"),
        lambda y: pd.DataFrame({"sample": y}),
        lambda y: pl.Series("sample", y),
        lambda y: pl.Series("sample", y.astype(bool)),
        lambda y: pa.chunked_array([y[:3], y[3:]]),
    ],
)
def test_marks_of_every_form_mean_the_same(form):
    private, public = samples(TABLE, form(MARKS))
    np.testing.assert_array_equal(private, TABLE[MARKS == 1])
    np.testing.assert_array_equal(public, TABLE[MARKS == 0])


def marked(value, kind=None):
    """Return marks of which the fifth is something else."""
    marks = MARKS.astype(kind or np.asarray(value).dtype)
    marks[4] = value
    return marks


@each(
    "bad, text",
    [
        (marked(2), "must mark every row"),
        (marked(-1), "must mark every row"),
        (2 * MARKS - 1, "must mark every row"),
        (MARKS + 1, "must mark every row"),
        (marked(0.5), "must mark every row"),
        (marked(np.nextafter(1, 2)), "must mark every row"),
        (marked(np.nan), "must mark every row"),
        (marked(np.inf), "must mark every row"),
        (np.full(8, np.nan), "must mark every row"),
        (marked(1j), "must mark every row"),
        (np.array(["0", "1"] * 4), "must mark every row"),
        (np.array(["public", SECRET] * 4), "must mark every row"),
        (np.array([b"0", b"1"] * 4), "must mark every row"),
        (marked(SECRET, object), "must mark every row"),
        (marked(None, object), "must mark every row"),
        (marked({SECRET: 1}, object), "must mark every row"),
        (MARKS.astype("datetime64[D]"), "must mark every row"),
        (MARKS.astype("timedelta64[s]"), "must mark every row"),
        (pd.Series([0, 1, None, 1, 1, 0, 1, 1], dtype="Int64"), "must mark every row"),
        (pd.Series(["public", SECRET] * 4), "must mark every row"),
        (pd.Series(["public", SECRET] * 4, dtype="category"), "must mark every row"),
        (pl.Series([0, 1, None, 1, 1, 0, 1, 1]), "must mark every row"),
        ([0, [1, SECRET], 1, 0, 1, 0, 1, 1], "must mark every row"),
        (np.column_stack([MARKS, 1 - MARKS]), "must mark every row"),
        (pd.DataFrame({"a": MARKS, "b": MARKS}), "must mark every row"),
        (MARKS.reshape(1, -1), "must mark every row"),
        (MARKS.reshape(2, 2, 2), "must mark every row"),
        (1, "must mark every row"),
        (SECRET, "must mark every row"),
        ({"sample": MARKS}, "must mark every row"),
        (object(), "must mark every row"),
        (MARKS[:7], "as many entries as X has rows"),
        (np.append(MARKS, 1), "as many entries as X has rows"),
        (MARKS[:1], "as many entries as X has rows"),
        ([], "as many entries as X has rows"),
        (None, "requires y to be passed, but the target y is None"),
    ],
    ids=lambda value: type(value).__name__ if " at 0x" in str(value) else str(value),
)
def test_bad_marks_raise_fixed_texts_that_quote_nothing(bad, text):
    texts = []
    for table in (TABLE, pd.DataFrame(TABLE), TABLE[::-1] + 5):
        for allow_empty in (False, True):
            with pytest.raises(ValueError, match=text) as info:
                check_samples(table, bad, estimator="T", allow_empty=allow_empty)
            assert info.value.__cause__ is None
            assert info.value.__context__ is None
            texts.append(str(info.value))
    # The same, whatever is in the table; no entry of y in it, no place and no number of them.
    assert len(set(texts)) == 1
    assert SECRET not in texts[0]
    assert set(re.findall(r"\d+", texts[0])) <= {"0", "1"}


def test_marks_whose_comparison_fails_raise_the_fixed_text():
    class Sly:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError(SECRET)

    for bad in (Sly(), [Sly()] * 8):
        with pytest.raises(ValueError, match="must mark every row") as info:
            check_samples(TABLE, bad, estimator="T")
        assert info.value.__context__ is None


def test_no_public_row_is_an_error_under_both_relations():
    for allow_empty in (False, True):
        with pytest.raises(ValueError, match="no public row"):
            check_samples(TABLE, np.ones(8), estimator="T", allow_empty=allow_empty)


def test_no_private_row_is_an_error_where_the_number_is_public_only():
    with pytest.raises(ValueError, match="no private row"):
        check_samples(TABLE, np.zeros(8), estimator="T")
    private, public = samples(TABLE, np.zeros(8), allow_empty=True)
    assert private.shape == (0, 3)
    np.testing.assert_array_equal(public, TABLE)


@pytest.mark.parametrize("allow_empty", [False, True])
def test_a_table_without_rows_has_no_public_one(allow_empty):
    with pytest.raises(ValueError, match=r"public row|0 sample"):
        check_samples(np.empty((0, 3)), [], estimator="T", allow_empty=allow_empty)


@each("place", [0, 1])
@each("value", [np.nan, np.inf, SECRET, {SECRET: 1}, 1j, None])
def test_a_bad_cell_of_either_sample_raises_the_text_of_one_sample(value, place):
    """The same for a private and for a public row: which of them it is, is not said."""
    X = TABLE.astype(object if not isinstance(value, float | complex) else type(value))
    X[place, 1] = value
    with pytest.raises((ValueError, TypeError)) as alone:
        check_rows(X, estimator="T")
    with pytest.raises(type(alone.value)) as info:
        check_samples(X, MARKS, estimator="T")
    assert str(info.value) == str(alone.value)
    assert info.value.__cause__ is None
    assert info.value.__context__ is None


def test_blocks_of_a_sample_are_those_of_the_sample_alone(monkeypatch):
    """Long samples, in blocks: rows, spans and the key of seeded noise are as if parted before."""
    monkeypatch.setattr(table_module, "_BLOCK_VALUES", 64)
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(3000, 3)), rng.integers(0, 2, 3000)
    rows, public = check_samples(X, y, estimator="T")
    alone = check_rows(X[y == 1], estimator="T")
    assert rows.spans() == alone.spans()
    assert len(rows.spans()) > 3
    for block, expected in zip(rows.chunks(), alone.chunks(), strict=True):
        np.testing.assert_array_equal(block, expected, strict=True)
    np.testing.assert_array_equal(public, X[y == 0], strict=True)
    assert rows.digest() == alone.digest()
    # Neither the public rows nor the places of the private ones change the private sample.
    order = np.argsort(y, kind="stable")
    other = check_samples(X[order] * (1 + (y[order] == 0))[:, None], y[order], estimator="T")
    assert other[0].digest() == alone.digest()


def test_the_public_rows_are_a_copy():
    """No view: it would keep the private rows alive inside of a fitted estimator."""
    for marks in (MARKS, np.sort(MARKS), np.sort(MARKS)[::-1]):
        X = np.ascontiguousarray(TABLE)
        _, public = check_samples(X, marks, estimator="T")
        assert public.base is None
        assert not np.shares_memory(public, X)
    assert repr(check_samples(TABLE, MARKS, estimator="T")[0]) == "Rows(n_features=3)"
