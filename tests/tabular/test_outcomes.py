"""Outcomes of a model: what is known of a row is decided by its own pair alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp.engines import from_arrays
from skdp.tabular import Bins, check_errors, check_outcomes, check_scores

CLASSES = np.array([0, 1, 2])


class Strange:
    """A label that cannot be hashed or compared."""

    def __hash__(self):
        raise RuntimeError("private")

    def __eq__(self, other):
        raise RuntimeError("private")


TRUE = [0, 1, 2.0, np.float32(1), "1", Strange(), True, 10**30, 7]
PREDICTED = [0, 2, 2, 1, "1", 1, 1, 10**30, Strange()]
WANTED = [
    [0, 0, 1], [1, 2, 0], [2, 2, 1], [1, 1, 1], [3, 3, 0], [3, 1, 0], [1, 1, 1], [3, 3, 0],
    [3, 3, 0],
]  # fmt: skip


def codes_of(rows):
    return rows.codes(0, 10**6).tolist()


def test_a_row_is_decided_by_its_own_pair():
    whole = check_outcomes(TRUE, PREDICTED, estimator="it", classes=CLASSES)
    assert codes_of(whole) == WANTED
    assert whole.filtered
    assert whole.sizes == (4, 4, 2)
    for i, wanted in enumerate(WANTED):
        one = check_outcomes(TRUE[i : i + 1], PREDICTED[i : i + 1], estimator="it", classes=CLASSES)
        assert codes_of(one) == [wanted]
    score = [-1.0, 0.0, 0.49, 0.5, 1.0, 2.0]
    options = {"estimator": "it", "classes": CLASSES}
    both = check_scores([0, 1, 2, 0, 1, 9], score, bins=Bins([0, 0.5, 1]), levels=(2,), **options)
    assert codes_of(both) == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [3, 1]]
    fine = check_scores([0, 1], [0.1, 0.9], bins=Bins.regular(0, 1, 4), levels=(2, 2), **options)
    assert codes_of(fine) == [[0, 0, 0], [1, 1, 1]]
    assert fine.sizes == (4, 2, 2)


def test_numbers_and_how_far_predictions_are_from_them():
    rows = check_errors([1.0, -2.0, 1e308], [3, -2, -1e308], estimator="it", targets=True)
    assert rows.chunk(0, 3).tolist() == [[1, 2], [-2, 0], [1e100, 2e100]]
    assert rows.filtered
    alone = check_errors([1, 2], [1.5, 0], estimator="it", targets=False)
    assert alone.chunk(0, 2).tolist() == [[0.5], [2]]


def test_containers_say_the_same():
    y, predicted = np.array([0, 1, 2, 1]), np.array([0, 2, 2, 5])
    wanted = codes_of(check_outcomes(y, predicted, estimator="it", classes=CLASSES))
    for kind in (list, pd.Series, pl.Series, pa.array, lambda a: pd.DataFrame({"y": a})):
        found = check_outcomes(kind(y), kind(predicted), estimator="it", classes=CLASSES)
        assert codes_of(found) == wanted


def test_tables_in_parts_are_refused():
    parts = from_arrays([np.zeros(3), np.zeros(3)])
    with pytest.raises(TypeError, match=r"in parts"):
        check_outcomes(np.zeros(6), parts, estimator="it", classes=CLASSES)
