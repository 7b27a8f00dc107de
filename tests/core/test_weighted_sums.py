"""Statistics of rows with weights: exact integers, whatever the order of rows and the chunks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp.core import Box, Mean, ScaledBox, sums
from skdp.core import table as table_module
from skdp.core.query import Terms
from skdp.queries import (
    Labels,
    StandardBall,
    logistic_gradient,
    moments,
    row_counts,
    squared_offsets,
)
from skdp.queries import grouped_sums as groups
from skdp.tabular import check_labelled, check_rows, with_weights


def rows_of(X):
    return check_rows(np.asarray(X, dtype=float), estimator="T")


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2000, 3)) * [1, 2, 0.5]


def weighted_sums(X, box):
    """Return the exact answers to queries of rows whose weights and labels they tell."""
    labels = np.where(X[:, 1] > 0, 1, 0)
    rows = check_labelled(X, labels, estimator="rows", classes=np.array([0, 1]))
    rows = with_weights(rows, X[:, 0], estimator="rows")
    table = table_module.PrivateTable(rows, table_module.stability_of("replace_one"))
    view = StandardBall(box.low, box.high, np.zeros(3), np.ones(3), 2.0)
    theta = np.array([[1.0, -2.0, 0.3, 0.1]])
    terms = Terms(table_module.stability_of("add_or_remove_one"), True, 1.0, None)
    return [
        query.prepared(terms).exact(table)
        for query in (
            moments(box.low, box.high, 1.5),
            Mean(box, weight_bound=1.5),
            row_counts(Labels(2), "labels", 1.5),
            row_counts(None, "total", 1.5),
            logistic_gradient(view, 0.25, theta, np.zeros(1), 0.5, 1.5),
        )
    ]


WEIGHTED_CENTERS = np.array([[0.0, 0, 0], [1, 1, 0], [-1, 0, 0.5]])
OF_STEPS = np.array([2.0**-14, 2.0**-20, 2.0**-16])


def weighted_groups(X, box, bits=24):
    """Return counts and sums of centres and of leaves, and squares, of rows with weights."""
    rows = with_weights(rows_of(X), X[:, 0], estimator="rows")
    geometry = groups.tree_geometry(box.half, 5)
    table = groups.cell_table(rows, box, geometry, 1.5)
    offsets = squared_offsets(box, WEIGHTED_CENTERS, 1.5)
    offsets = replace(offsets, image=replace(offsets.image, one=2**20))
    return [
        *groups.center_sums(rows, box, WEIGHTED_CENTERS, OF_STEPS, 40_000, 1.5, bits),
        offsets.exact(table_module.PrivateTable(rows, table_module.stability_of("replace_one"))),
        table.counts,
        table.sums,
    ]


@pytest.mark.parametrize("bits", [4, 7, 24])
def test_weighted_groups_equal_python_integers(sample, bits):
    box = Box(np.full(3, -2.0), np.full(3, 2.0))
    counts, sums, squares, leaf_counts, leaf_sums = weighted_groups(sample, box, bits)
    nearest = groups.Nearest(box.low, box.high, WEIGHTED_CENTERS)
    parts = np.clip(sample[:, 0], 0.0, 1.5) / 1.5
    geometry = groups.tree_geometry(box.half, 5)
    low, high = (side[32:] for side in (geometry.low, geometry.high))
    total, found, square = [0] * 3, [[0] * 3 for _ in range(3)], [0] * 3
    leaves, added = [0] * 32, [[0] * 3 for _ in range(32)]
    for row, part in zip(sample, parts, strict=True):
        x = row.clip(-2, 2)
        j = int(nearest(x[None])[0])
        steps, leaf_steps = round(part * 2**bits), round(part * 2**16)
        offset = groups.round_to_norm(((x - WEIGHTED_CENTERS[j]) / OF_STEPS)[None], 40_000)[0]
        total[j] += steps
        away = np.clip((x - WEIGHTED_CENTERS[j]) / 2, -1, 1)
        q = box.map(row[None])[0]
        leaf = int(np.flatnonzero(((low <= q) & (q <= high)).all(axis=1))[0])
        leaves[leaf] += leaf_steps
        for i in range(3):
            found[j][i] += steps * int(offset[i])
            square[i] += round(float(away[i] * away[i] * 2**20) * part)
            added[leaf][i] += leaf_steps * int(q[i])
    assert counts.tolist() == total
    assert sums.tolist() == [[(v + (1 << (bits - 1))) >> bits for v in one] for one in found]
    assert squares.tolist() == square
    assert leaf_counts.tolist() == leaves
    assert leaf_sums.tolist() == added


def test_a_tree_of_weighted_rows_refuses_more_steps_than_are_exact():
    rows = with_weights(rows_of(np.zeros((3, 2))), np.ones(3), estimator="rows")
    table = table_module.PrivateTable(rows, table_module.stability_of("replace_one"))
    fine = Box([-1, -1], [1, 1], bits=24)
    with pytest.raises(ValueError, match=r"2\*\*20 steps"):
        groups.Tree(table, None, fine, 3, 1.0)


def test_weights_equal_python_integers(sample):
    """Every weighted query against a loop over rows in exact arithmetic."""
    box = Box(np.full(3, -2.0), np.full(3, 2.0))
    found = weighted_sums(sample, box)
    parts = np.clip(sample[:, 0], 0.0, 1.5) / 1.5
    view = ScaledBox(box.low, box.high)
    last = found[0].size // 2
    expected = [[0] * 7, [0] * 4, [0] * 2, [0]]
    third = box.at(31).norm // 3
    for row, part in zip(sample, parts, strict=True):
        q = [int(v) for v in view.map(row[None])[0]]
        p = [2 * (round(v * v / view.steps) - view.steps // 2) for v in q]  # for noise of the cube
        for j, v in enumerate([*q, *p, view.steps]):
            expected[0][j] += round(v * part)
        for j, v in enumerate([*box.at(31).map(row[None])[0], third]):
            expected[1][j] += round(v * part)
        expected[3][0] += round(part * 2**30)
        expected[2][int(row[1] > 0)] += round(part * 2**30)
    assert last == 3
    for one, other in zip(found, expected, strict=False):
        assert one.tolist() == other


def test_weighted_statistics_do_not_depend_on_order_chunks_or_threads(sample, monkeypatch):
    box = Box(np.full(3, -2.0), np.full(3, 2.0))
    reference = weighted_sums(sample, box) + weighted_groups(sample, box)
    shuffled = np.random.default_rng(1).permutation(sample)
    monkeypatch.setattr(table_module, "_BLOCK_VALUES", 96)
    monkeypatch.setattr(table_module, "_PARALLEL_VALUES", 1)
    monkeypatch.setattr(table_module, "usable_cores", lambda: 3)
    found = weighted_sums(shuffled, box) + weighted_groups(shuffled, box)
    for one, other in zip(reference, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_python_integers_take_over_where_int64_could_overflow(sample, monkeypatch):
    box = Box(np.full(3, -2.0), np.full(3, 2.0))
    reference = weighted_sums(sample, box) + weighted_groups(sample, box)
    for module in (sums, groups):
        monkeypatch.setattr(module, "total_dtype", lambda rows, largest: object)
    for one, other in zip(
        reference, weighted_sums(sample, box) + weighted_groups(sample, box), strict=True
    ):
        assert other.dtype == object
        assert all(type(v) is int for v in other.flat)
        np.testing.assert_array_equal(one, other)


def test_a_gradient_with_full_weights_is_that_without(sample):
    box = Box(np.full(3, -2.0), np.full(3, 2.0))
    labels = np.where(sample[:, 1] > 0, 1, 0)
    plain = check_labelled(sample, labels, estimator="rows", classes=np.array([0, 1]))
    stability = table_module.stability_of("replace_one")
    view = StandardBall(box.low, box.high, np.zeros(3), np.ones(3), 2.0)
    asked = (view, 0.25, np.array([[1.0, -2.0, 0.3, 0.1]]), np.zeros(1), 0.5)
    exact = (
        logistic_gradient(*asked).exact(table_module.PrivateTable(plain, stability)).astype(object)
    )
    full = with_weights(plain, np.full(len(sample), 7.0), estimator="rows")
    table = table_module.PrivateTable(full, stability)
    np.testing.assert_array_equal(logistic_gradient(*asked, 7.0).exact(table), exact << 15)
