"""Rows: checked once, read in blocks, and no error text that quotes a cell."""

from __future__ import annotations

import traceback

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from skdp import kernel
from skdp.kernel import rows as rows_module

SECRET = "S3cret"
VALUES = np.array([[1.5, 2.0], [3.0, 4.25], [5.0, 6.0]])


def read(X) -> np.ndarray:
    return np.concatenate(list(kernel.check_rows(X, estimator="T").blocks()))


@pytest.mark.parametrize(
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


def test_blocks_cover_a_long_table_in_order(monkeypatch):
    monkeypatch.setattr(rows_module, "_BLOCK_VALUES", 64)
    X = np.arange(3000.0).reshape(1000, 3)
    rows = kernel.check_rows(X, estimator="T")
    blocks = list(rows.blocks())
    assert rows.spans(least=7)[:2] == [(0, 21), (21, 42)]
    assert rows.spans(width=64, least=7)[-1] == (994, 1000)
    assert len(blocks) == 4
    np.testing.assert_array_equal(np.concatenate(blocks), X)
    # The digest sees content only, not the blocks that it came in.
    digest = rows.digest()
    monkeypatch.setattr(rows_module, "_BLOCK_VALUES", 2**16)
    assert kernel.check_rows(X.copy(), estimator="T").digest() == digest
    X[999, 2] += 1
    assert kernel.check_rows(X, estimator="T").digest() != digest


@pytest.mark.parametrize("width, least", [(1, 1), (10**4, 4 * 10**4), (10**7, 256), (8192, 32768)])
def test_no_block_is_larger_than_32_megabytes_unless_one_row_is(width, least):
    step = rows_module._block_rows(width, least)
    assert step >= 1
    assert step * width <= 2**22 or step == 1
    assert step <= 2**16  # exact sums need it


@pytest.mark.parametrize(
    "bad, error, text",
    [
        ([[1.0, np.nan]], ValueError, "NaN or infinity"),
        ([[1.0, -np.inf]], ValueError, "NaN or infinity"),
        (pd.DataFrame({"a": [1.0, None]}).convert_dtypes(), ValueError, "NaN or infinity"),
        (np.array([[SECRET, 1]], dtype=object), ValueError, "must be numeric"),
        (pd.DataFrame({"a": [SECRET]}), ValueError, "must be numeric"),
        (pl.DataFrame({"a": [SECRET]}), ValueError, "must be numeric"),
        (np.array([[{SECRET: 1}]], dtype=object), TypeError, "must be numeric"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), TypeError, "must be numeric"),
        ([[1 + 2j]], ValueError, "Complex data not supported"),
        (sparse.eye(3, format="csr"), TypeError, "sparse"),
        (np.ones(3), ValueError, "Expected 2D array, got 1D"),
        (np.ones((2, 2, 2)), ValueError, "Expected 2D array, got 3D"),
        (np.ones((0, 2)), ValueError, "0 sample"),
        (np.ones((2, 0)), ValueError, r"0 feature\(s\)"),
        ([[1.0, 2.0], [3.0]], ValueError, "must be numeric"),
    ],
)
def test_bad_rows_raise_fixed_texts_that_quote_no_cell(bad, error, text):
    with pytest.raises(error, match=text) as info:
        kernel.check_rows(bad, estimator="T")
    assert info.value.__cause__ is None
    assert info.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception_only(info.value))
    with pytest.raises(error, match=text) as info:
        kernel.check_public_array(bad, estimator="T")
    assert info.value.__context__ is None


def test_a_bad_last_block_is_found_before_anything_is_read_for_a_statistic():
    X = np.ones((200_000, 2))
    X[-1, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        kernel.check_rows(X, estimator="T")


def test_repr_tells_the_public_width_only():
    assert repr(kernel.check_rows(VALUES, estimator="T")) == "Rows(n_features=2)"


def test_opaque_rows_have_a_digest_of_content_and_targets():
    table = pd.DataFrame({"a": ["x", "y"], "b": [1.0, np.nan]})
    digest = kernel.opaque_rows(table, [0, 1]).digest()
    assert kernel.opaque_rows(table.copy(), [0, 1]).digest() == digest
    assert kernel.opaque_rows(table, [0, 2]).digest() != digest
    assert kernel.opaque_rows(table.replace("x", "z"), [0, 1]).digest() != digest
