"""Labels become codes, one by one; bad ones are refused without a quote."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp.tabular import check_labelled
from tests.folding import each

SECRET = 31337.125


def codes_of(y, classes):
    found = check_labelled(
        np.zeros((len(y), 1)), y, estimator="test", classes=np.unique(classes), allow_empty=True
    )
    return found._y.tolist()


@each(
    ("y", "classes", "expected"),
    [
        ([0, 1, 2, 7, -1], [0, 1, 2], [0, 1, 2, -1, -1]),
        (np.array([0.0, 1.0, 0.5]), [0, 1], [0, 1, -1]),
        ([True, False], [False, True], [1, 0]),
        (["b", "a", "zebra", "A"], ["a", "b"], [1, 0, -1, -1]),
        (np.array(["b", "a", "long"]), ["a", "b"], [1, 0, -1]),
        (pd.Series(["b", "a", "c"], dtype="category"), ["a", "b"], [1, 0, -1]),
        (pl.Series(["b", "a", "c"]), ["a", "b"], [1, 0, -1]),
        (["a", 1, "b"], ["a", "b"], [0, -1, 1]),  # a number among text turns nothing into text
        ([0, "0", 1], [0, 1], [0, -1, 1]),
        (np.array([["a"], ["b"]]), ["a", "b"], [0, 1]),
        ([], ["a", "b"], []),
    ],
)
def test_labels_become_codes(y, classes, expected):
    assert codes_of(y, classes) == expected


class Odd:
    def __hash__(self):
        raise RuntimeError(f"{SECRET}")


@each(
    ("y", "classes", "text"),
    [
        (None, ["a", "b"], "requires y to be passed"),
        ([0, 1], None, "same number of rows"),
        ([0.0, np.nan, SECRET], [0, 1], "finite"),
        ([0.0, None, SECRET], [0, 1], "missing"),
        ([0.0, np.inf, SECRET], None, "finite"),
        (["a", "b", str(SECRET)], None, "real numbers"),
        ([1j, 0, 1], None, "real numbers"),
        (np.array(["2020-01-01"] * 3, dtype="M8[D]"), None, "real numbers"),
        (np.full((3, 2), SECRET), None, "one-dimensional"),
        ([[SECRET, 1]] * 3, None, "one-dimensional"),
        (7, None, "one-dimensional"),
    ],
)
def test_bad_labels_are_refused_without_a_quote(y, classes, text):
    with pytest.raises(ValueError, match=text) as caught:
        check_labelled(
            np.zeros((3, 1)), y, estimator="test",
            classes=None if classes is None else np.array(classes),
        )  # fmt: skip
    error = caught.value
    assert str(SECRET) not in f"{error} {error.__cause__} {error.__context__}"


def test_a_label_s_own_hash_may_fail():
    assert codes_of([0, Odd(), 1], [0, 1]) == [0, -1, 1]
