"""Private statistics where cells or labels are missing: their rows are left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skdp import statistics
from tests.folding import each
from tests.statistics.calls import (
    ADJACENCIES,
    CALLS,
    HIGH,
    IDS,
    LOW,
    NOISELESS,
    UNMETERED,
    WHOLE,
    labels,
)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_rows_with_missing_cells_are_left_out(X, adjacency):
    options = {"nan_policy": "omit", "epsilon": NOISELESS, "budget": UNMETERED[adjacency]}
    gaps = X.copy()
    gaps[::5, 1] = np.nan
    rest = np.delete(X, np.s_[::5], axis=0)
    assert float(statistics.count(gaps, **options)) == pytest.approx(len(rest))
    found = statistics.mean(gaps, **WHOLE, **options)
    assert_allclose(found, rest.mean(axis=0), rtol=1e-4)
    assert_allclose(statistics.var(gaps, **WHOLE, **options), rest.var(axis=0), rtol=1e-3)
    counts, edges = statistics.histogramdd(gaps, 2, **WHOLE, **options)
    assert_array_equal(counts, np.histogramdd(rest, edges)[0])
    assert found.privacy.adjacency == adjacency
    frame = pd.DataFrame(gaps).astype("Float64")
    assert_allclose(statistics.mean(frame, **WHOLE, **options), rest.mean(axis=0), rtol=1e-4)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_rows_of_a_missing_label_are_left_out(X, adjacency):
    options = {"epsilon": NOISELESS, "budget": UNMETERED[adjacency], "classes": [2, 0], **WHOLE}
    names = np.array(["few", "some", "many"], dtype=object)[labels(X)]
    gaps, some = X.copy(), names.copy()
    gaps[::5, 1] = np.nan
    some[::7] = None
    left = np.ones(len(X), dtype=bool)
    left[::5] = left[::7] = False
    step = len(X) * np.maximum(np.abs(LOW), HIGH) / 2**17
    wanted = [X[left & (names == name)].sum(axis=0) for name in ("many", "few")]
    codes = np.where(left | (np.arange(len(X)) % 7 > 0), labels(X), np.nan)
    for given, classes in [
        (some, ["many", "few"]),
        (some.tolist(), ["many", "few"]),
        (pd.Series(some), ["many", "few"]),
        (pd.Series(some, dtype="string"), ["many", "few"]),
        (codes, [2, 0]),
        (pd.Series(codes).astype("Int64"), [2, 0]),
    ]:
        more = {**options, "classes": classes}
        found = statistics.subset_sums(gaps, given, nan_policy="omit", **more)
        assert np.all(np.abs(found.value - np.array(wanted)) < step)
        assert found.privacy.adjacency == adjacency
        with pytest.raises(ValueError, match="labels must be finite"):
            statistics.subset_sums(X, given, **more)
    assert len(statistics.subset_sums(gaps, names, nan_policy="omit", **{
        **options, "classes": ["few"]}).value) == 1  # fmt: skip


def test_labels_may_be_dates():
    day = pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-01", None]))
    classes = day.dropna().unique()
    found = statistics.subset_sums(
        [1.0, 2.0, 4.0, 8.0], day, classes=classes, bounds=(0, 8), nan_policy="omit",
        epsilon=NOISELESS,
    )  # fmt: skip
    assert_allclose(found, [5.0, 2.0], atol=1e-2)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_replaced_row_moves_what_a_filter_leaves_by_its_worst(delta):
    """A count by one row, in or out; a quantile, whose bound is for one step, by two steps."""
    x, options = [1.0, np.nan, 0.5] * 10, {"nan_policy": "omit", "delta": delta}
    budgets = [UNMETERED["add_or_remove_one"], UNMETERED["replace_one"]]
    counts = one, two = [statistics.count(x, budget=b, **options) for b in budgets]
    medians = [statistics.median(x, bounds=(0, 1), budget=b, **options) for b in budgets]
    for pair, factor in ((counts, 1.0), (medians, 2.0)):
        (scale_one,), (scale_two,) = ([r.scale for r in a.privacy.releases] for a in pair)
        assert scale_two == pytest.approx(factor * scale_one, rel=1e-9 if factor == 1 else 1e-2)
    for answer in (*counts, *medians):
        (made,) = answer.privacy.releases
        level = answer.privacy.epsilon if delta == 0 else answer.privacy.mu
        assert (made.mu if delta else made.epsilon) == pytest.approx(level)
    assert one.privacy.mu == two.privacy.mu


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_table_without_a_whole_row_has_answers(adjacency):
    options = {"nan_policy": "omit", "budget": UNMETERED[adjacency]}
    gaps = np.full((4, 3), np.nan)
    for name, call, more in CALLS:
        answer = call(gaps, random_state=1, **more, **options)
        assert np.isfinite(answer.value).all(), name


@each(("name", "call", "more"), CALLS, ids=IDS)
def test_no_rows_are_a_table_where_their_number_is_private(name, call, more):
    answer = call(np.zeros((0, 3)), budget=UNMETERED["add_or_remove_one"], random_state=1, **more)
    assert np.isfinite(answer.value).all()
    # Of a filtered table too.
    assert np.isfinite(call(np.zeros((0, 3)), random_state=1, **more).value).all()
    with pytest.raises(ValueError, match="0 sample"):
        call(np.zeros((0, 3)), n_rows="public", **more)
