"""Protect and statistics: exact, order-free, and within the declared sensitivities."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from fractions import Fraction

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from threadpoolctl import threadpool_limits

from skdp.core import Ball, Box, ScaledBox, mechanisms
from skdp.core import clipping as protect
from skdp.core import table as table_module
from skdp.core.query import Terms
from skdp.core.sums import RowSum, Values
from skdp.queries import (
    NormBins,
    Projection,
    WeightedBall,
    histograms,
    moments,
    row_counts,
    second_moments,
    squared_offsets,
)
from skdp.queries import grouped_sums as groups
from skdp.queries.images import Moments
from skdp.queries.learned_bounds import learning
from skdp.tabular import Rows, check_rows
from tests.folding import each

ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=False, width=64)
MODERATE = st.floats(-10, 10, width=64)


def rows_of(X) -> Rows:
    return check_rows(np.asarray(X, dtype=float), estimator="T")


def exact(query, rows):
    """Return the exact integers of a query."""
    return query.exact(table_module.PrivateTable(rows, table_module.stability_of("replace_one")))


def offsets_of(box, centers, weight_bound=None):
    """Return the query of squared offsets in steps of 2**-20."""
    query = squared_offsets(box, centers, weight_bound)
    return replace(query, image=replace(query.image, one=2**20))


def views(d: int) -> list:
    directions = np.linalg.qr(np.random.default_rng(5).normal(size=(d, d)))[0][: max(1, d - 1)]
    ball = Ball(np.full(d, 0.3), 1.7)
    return [
        Box(np.full(d, -1.3), np.linspace(0.5, 2.0, d)),
        Box(np.full(d, -1.3), np.linspace(0.5, 2e-9, d), per_feature=True),
        Box(np.zeros(d), np.zeros(d)),
        ball,
        Ball(np.full(d, -1e300), 1e-3),
        Projection(ball, directions, 1.2),
        WeightedBall(Ball(np.full(d - 1, 0.3), 1.7), 0.25, 2.5),
    ]


@settings(max_examples=200, deadline=None)
@given(X=arrays(float, (7, 3), elements=ANY_FLOAT | MODERATE), which=st.integers(0, 6))
def test_every_view_keeps_its_bound_and_maps_each_row_alone(X, which):
    view = views(3)[which]
    with np.errstate(all="ignore"):
        q = view.map(X)
        one_by_one = np.concatenate([view.map(X[i : i + 1]) for i in range(len(X))])
        backwards = view.map(np.asfortranarray(X[::-1]))[::-1]
    assert np.array_equal(q, np.trunc(q))
    assert np.all(np.abs(q) <= view.half)
    assert all(sum(int(v) ** 2 for v in row) <= view.norm**2 for row in q)
    np.testing.assert_array_equal(q, one_by_one)
    np.testing.assert_array_equal(q, backwards)


@settings(max_examples=200, deadline=None)
@given(x=arrays(float, 4, elements=MODERATE), radius=st.floats(1e-3, 20))
@pytest.mark.parametrize("bits", [17, 30])
def test_rows_inside_a_ball_are_rounded_and_others_moved_to_its_sphere(bits, x, radius):
    ball = Ball(np.zeros(4), radius, bits=bits)
    q = [int(v) for v in ball.map(x[None])[0]]
    step = Fraction(float(ball.grid[0]))
    exact = [Fraction(float(v)) / step for v in x]
    nearest = [round(e) for e in exact]
    assert sum(v**2 for v in q) <= ball.norm**2
    if sum(v**2 for v in nearest) <= ball.norm**2:
        assert q == nearest
    else:
        length = math.sqrt(sum(float(e) ** 2 for e in exact))
        ideal = [float(e) * ball.norm / length for e in exact]
        assert max(abs(a - b) for a, b in zip(q, ideal, strict=True)) <= 2.6


def on_sphere(row, radius):
    """Return a row outside of a ball as `clip_to_norm` maps it, with sums of Python integers."""
    e = max(math.frexp(max(map(abs, row)))[1], -980)
    y = [round(v * 2.0 ** (31 - e)) for v in row]
    parts = [divmod(abs(v), 2**16) for v in y]
    a, b, c = (sum(map(f, parts)) for f in (lambda p: p[0] ** 2, math.prod, lambda p: p[1] ** 2))
    norm = math.sqrt(max(float(a) * 2.0**32 + float(b) * 2.0**17 + float(c), 1.0))
    inner = max(radius - math.ceil(math.sqrt(len(row)) / 2) - 1, 0)
    for length in (radius, inner):
        z = [round(v * (length / norm)) for v in y]
        if sum(v**2 for v in z) <= radius**2:
            return z
    return [0] * len(row)


@each("d", [1, 3, 70])
@each("bits", [0, 5, 17, 30])
def test_rows_outside_of_a_ball_are_mapped_as_by_python_integers(d, bits):
    X = np.random.default_rng(d).normal(size=(300, d)) * np.geomspace(0.1, 1e3, 300)[:, None]
    radius = 2 ** (bits + 1) - 1
    expected = []
    for row in X.tolist():
        q = [round(v * 2.0**bits) for v in row]
        expected.append(q if sum(v**2 for v in q) <= radius**2 else on_sphere(row, radius))
    for rows in (X, np.asfortranarray(X), np.asfortranarray(X)[::-1][::-1]):
        assert protect.clip_to_norm(rows, 2.0**-bits, radius).tolist() == expected


def test_norms_are_compared_exactly_at_the_sphere():
    """At 30 bits a square is above 2**53: the last bit of a norm decides nonetheless."""
    rng = np.random.default_rng(5)
    q = rng.integers(0, 2**30, size=(4000, 3)).astype(float)
    norms = [sum(int(v) ** 2 for v in row) for row in q]
    radii = [math.isqrt(v) + (math.isqrt(v) ** 2 < v) for v in norms]
    for row, norm, radius in zip(q[:1000], norms, radii, strict=False):
        for r in (radius - 1, radius):
            assert (protect._outside(row[None], r).size == 1) == (norm > r**2)
    # Near one radius, and beside rows far away.
    radius = 2**30 + 12345
    q[:, 2] = [math.isqrt(max(radius**2 - int(a) ** 2 - int(b) ** 2, 0)) for a, b, _ in q]
    q[::2, 2] += 1
    expected = [i for i, row in enumerate(q) if sum(int(v) ** 2 for v in row) > radius**2]
    assert 1000 < len(expected) < 3000
    assert protect._outside(q, radius).tolist() == expected


def test_the_largest_float_rows_stay_finite_and_bounded():
    X = np.array([[1.7e308, -1.7e308], [5e-324, -5e-324], [0.0, -0.0], [1e308, 1.0]])
    ball = Ball([-1e308, 1e308], 2.5)
    with np.errstate(all="ignore"):
        q = ball.map(X)
    assert np.isfinite(q).all()
    assert (q**2).sum(axis=1).max() <= ball.norm**2


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(2000, 3)) * [1, 2, 0.5]


def test_statistics_do_not_depend_on_order_block_size_or_threads(sample, monkeypatch):
    view = Ball(np.zeros(3), 2.0)
    box = Box(np.full(3, -2.0), np.full(3, 2.0))
    centers = np.array([[0.0, 0, 0], [1, 1, 0], [-1, 0, 0.5]])
    geometry = groups.tree_geometry(box.half, 9)

    edges = [[learning.distance_edges(0.0, 12, upwards=up) for up in (False, True)]] * 3

    def everything(X):
        rows = rows_of(X)
        table = groups.cell_table(rows, box, geometry)
        parts = [
            exact(RowSum(Values(view)), rows),
            *second_moments.exact_gram(rows, view),
            *second_moments.exact_gram(rows, view.at(22)),
            *second_moments.exact_gram(rows, view.at(30)),
            exact(RowSum(Values(box.at(31))), rows),
            exact(moments(box.low, box.high), rows),
            *groups.center_sums(rows, box, centers, np.array([1e-3, 1e-5, 1e-4]), 50_000),
            exact(offsets_of(box, centers), rows),
            *learning.distance_counts(rows, lambda block: block, np.zeros(3), edges),
            learning.outside_counts(rows, lambda block: block, box.low / 2, box.high / 2),
            exact(row_counts(NormBins(np.zeros(3)), "norms"), rows),
            histograms.grid_histograms(rows, box, 100),
            table.counts,
            table.sums,
        ]
        return [np.asarray(p) for p in parts]

    reference = everything(sample)
    shuffled = np.random.default_rng(1).permutation(sample)
    monkeypatch.setattr(table_module, "_BLOCK_VALUES", 96)
    monkeypatch.setattr(table_module, "_PARALLEL_VALUES", 1)
    monkeypatch.setattr(table_module, "usable_cores", lambda: 3)
    for a, b in zip(reference, everything(shuffled), strict=True):
        np.testing.assert_array_equal(a, b)


@each("bits", [6, 17, 18, 20, 22, 23, 24, 30])
def test_sum_and_gram_equal_python_integers(sample, bits):
    view = Ball([0.1, 0.0, -0.2], 1.999, bits=bits)
    q = [[int(v) for v in row] for row in view.map(sample)]
    total = exact(RowSum(Values(view)), rows_of(sample))
    second, first, _ = second_moments.exact_gram(rows_of(sample), view)
    assert total.tolist() == first.tolist() == [sum(r[j] for r in q) for j in range(3)]
    assert second.tolist() == [[sum(r[i] * r[j] for r in q) for j in range(3)] for i in range(3)]


def test_totals_change_to_python_integers_before_int64_could_overflow(sample):
    rows = rows_of(sample)
    assert table_module.total_dtype(rows, 2**18) is np.int64
    rows._n = 2**50
    assert table_module.total_dtype(rows, 2**18) is object
    part = np.array([2.0**52, -3.0])
    whole = table_module.as_total(part, object) * 2**40
    assert whole.tolist() == [2**92, -3 * 2**40]


def test_center_sums_equal_a_loop(sample):
    """Groups in user units, offsets in steps of each column, against Python integers."""
    box = Box(np.full(3, -3.0), np.full(3, 3.0))
    centers = np.array([[0.0, 0, 0], [1, 1, 0], [1, 1, 0], [9, 9, 9]])
    steps, radius = np.array([2.0**-14, 2.0**-20, 2.0**-16]), 40_000
    counts, sums = groups.center_sums(rows_of(sample), box, centers, steps, radius)
    expected = np.zeros((4, 3))
    hits = np.zeros(4, dtype=int)
    for x in sample.clip(-3, 3):
        j = int(np.argmin(((x - centers) ** 2).sum(axis=1)))
        hits[j] += 1
        offset = groups.round_to_norm(((x - centers[j]) / steps)[None], radius)[0]
        assert sum(int(v) ** 2 for v in offset) <= radius**2
        expected[j] += offset
    assert counts.tolist() == hits.tolist()
    assert counts[2] == counts[3] == 0  # a duplicate and a far centre get nothing
    np.testing.assert_array_equal(sums, expected)


@settings(max_examples=200, deadline=None)
@given(
    X=arrays(float, (6, 3), elements=ANY_FLOAT | MODERATE | st.floats(-1e6, 1e6)),
    radius=st.integers(1, 2**26),
)
def test_round_to_norm_keeps_its_bound_sees_each_row_alone_and_has_no_bias(X, radius):
    with np.errstate(all="ignore"):
        q = groups.round_to_norm(X, radius)
        alone = np.concatenate([groups.round_to_norm(X[i : i + 1], radius) for i in range(len(X))])
    assert np.array_equal(q, alone)
    assert np.array_equal(q, np.rint(q))
    for x, row in zip(X, q, strict=True):
        assert sum(int(v) ** 2 for v in row) <= radius**2
        nearest = [round(Fraction(float(v))) for v in x]
        if sum(v**2 for v in nearest) <= radius**2:
            assert [int(v) for v in row] == nearest
        else:
            assert np.linalg.norm(row) >= radius * (1 - 2**-16) - 2 * math.sqrt(3)


@pytest.mark.parametrize("widths", [(1, 1, 1), (60, 1e5, 0.5), (1, 0, 1e-9), (0, 0, 0)])
def test_leaf_images_move_by_no_more_than_their_bound(widths):
    """A row more, and a row moved within its leaf: corners and random places, in integers."""
    half = np.array(widths, dtype=float)
    view = groups.ColumnBox(-half, half, half, bits=20)
    geometry = groups.tree_geometry(view.half, 6, view.grid)
    leaves = np.array([8, 9, 5, 6, 7 * 8, 7 * 8 + 1, 7 * 4 + 1, 15])
    centers, reach = groups.leaf_geometry(geometry, leaves)
    weights = groups.leaf_weights(reach, view.grid)
    bounds = groups.image_bounds(reach, weights)
    assert np.all((weights > 0) == (reach > 0))
    rng = np.random.default_rng(3)
    for i, leaf in enumerate(leaves):
        low, high = geometry.low[leaf], geometry.high[leaf]
        start = rng.integers(-(10**6), 10**6, size=3) * (reach[i] > 0)
        image = groups.leaf_image(start[None], weights[i : i + 1])
        moved = []
        for _ in range(50):
            corner = np.where(rng.random(3) < 0.5, low, high)
            row = corner if rng.random() < 0.7 else rng.integers(low, np.maximum(high, low) + 1)
            other = groups.leaf_image((start + row - centers[i])[None], weights[i : i + 1])
            moved.append(other)
            assert math.sqrt(float(((other - image) ** 2).sum())) <= bounds[i]
        for a in moved[:20]:
            for b in moved[:20]:
                assert math.sqrt(float(((a - b) ** 2).sum())) <= 2 * bounds[i]
    if min(widths) > 0:
        # Not wasteful either: the half diagonal of a leaf is about 2**17 in the image.
        assert np.all(bounds < 2**17 * 1.01 + 10)


@settings(max_examples=100, deadline=None)
@given(X=arrays(float, (7, 3), elements=ANY_FLOAT | MODERATE | st.floats(-1e5, 1e5)))
def test_column_boxes_keep_their_bounds_and_map_each_row_alone(X):
    half = np.array([60.0, 1e5, 0.5])
    for view in (
        groups.ColumnBox([0, -1e5, 0], [120, 1e5, 1], groups.column_units(half)),
        groups.ColumnBox([0, -1e5, 2], [120, 1e5, 2], half, bits=17),
    ):
        with np.errstate(all="ignore"):
            q = view.map(X)
            alone = np.concatenate([view.map(X[i : i + 1]) for i in range(len(X))])
        assert np.array_equal(q, alone) and np.array_equal(q, np.rint(q))
        assert np.all(np.abs(q) <= view.half)
        assert all(sum(int(v) ** 2 for v in row) <= view.norm**2 for row in q)
        back = q * view.grid + view.center
        assert np.allclose(back, X.clip(view.low, view.high), atol=2e-5 * np.maximum(half, 1e-9))


def test_column_units_bound_the_total_and_each_column():
    rng = np.random.default_rng(0)
    for _ in range(200):
        d = int(rng.integers(1, 20))
        size = np.exp(rng.normal(size=d) * 4)
        unit = groups.column_units(size)
        assert np.isclose(((size / unit) ** 2).sum(), 1)
        assert (unit**2).sum() <= 4 / 3 * size.sum() ** 2 * (1 + 1e-9)
        assert np.all(unit / size <= 2 * math.sqrt(d) * (1 + 1e-9))


@pytest.mark.parametrize("depth", [0, 1, 7, 12])
def test_tree_counts_and_sums_equal_a_loop_over_the_boxes(sample, depth):
    box = Box([-2.0, -2.0, -1.0], [2.0, 2.0, 1.5])
    geometry = groups.tree_geometry(box.half, depth)
    table = groups.cell_table(rows_of(sample), box, geometry)
    q = box.map(sample)
    for level in {0, depth // 2, depth}:
        nodes = np.arange(2**level, 2 ** (level + 1))
        centers, reach = groups.leaf_geometry(geometry, nodes)
        low, high = geometry.low[nodes], geometry.high[nodes]
        counts, sums = table.node_counts(nodes), table.node_sums(nodes, centers)
        assert counts.sum() == len(sample)
        for i in np.unique(np.linspace(0, len(nodes) - 1, 40).astype(int)):
            inside = np.all((q >= low[i]) & (q <= high[i]), axis=1)
            assert counts[i] == inside.sum()
            residual = q[inside] - centers[i]
            assert sums[i].tolist() == residual.sum(axis=0).tolist()
            assert np.all(np.abs(residual) <= reach[i])


def test_children_partition_their_parent_even_when_boxes_shrink_to_a_point():
    geometry = groups.tree_geometry(np.array([2.0, 0.0]), 6)
    for node in range(1, 2**6):
        left, right = 2 * node, 2 * node + 1
        j = geometry.split_dims[int(math.log2(node))]
        values = range(geometry.low[node, j], geometry.high[node, j] + 1)
        in_left = [geometry.low[left, j] <= v <= geometry.high[left, j] for v in values]
        in_right = [geometry.low[right, j] <= v <= geometry.high[right, j] for v in values]
        assert all(a != b for a, b in zip(in_left, in_right, strict=True))


def test_tree_cells_near_the_faces_keep_half_the_diagonal():
    geometry = groups.tree_geometry(np.array([2.0**17, 2.0**16]), 10)
    leaves = np.arange(2**10, 2**11)
    _, reach = groups.leaf_geometry(geometry, leaves)
    half_sides = (geometry.high[leaves] - geometry.low[leaves]) / 2
    assert np.all(reach >= half_sides)
    assert np.all(reach <= half_sides + 1)


def test_the_tree_cuts_the_nominally_longest_side_whatever_the_grid_of_a_column():
    common = Box([0, 0, 0], [120, 2000, 1])
    own = groups.ColumnBox([0, 0, 0], [120, 2000, 1], [60, 1000, 0.5], bits=20)
    for view in (common, own):
        dims = groups.tree_geometry(view.half, 7, view.grid).split_dims
        assert dims.tolist() == [1, 1, 1, 1, 1, 0, 1]


@settings(max_examples=200, deadline=None)
@given(
    X=arrays(float, (9, 17), elements=st.floats(-1e25, 1e25) | MODERATE),
    unit=st.floats(1e-120, 1e120) | st.floats(0.1, 10.0),
)
def test_norm_codes_see_each_row_alone(X, unit):
    with np.errstate(all="ignore"):
        in_units = [histograms.norm_codes(X / unit), histograms.norm_codes(X, unit)]
        assert np.array_equal(*np.clip(in_units, -400, 400))
        codes = histograms.norm_codes(X)
        alone = np.concatenate([histograms.norm_codes(X[i : i + 1]) for i in range(len(X))])
        assert codes.tolist() == alone.tolist()
        assert codes.tolist() == histograms.norm_codes(np.asfortranarray(X[::-1]))[::-1].tolist()


@settings(max_examples=200, deadline=None)
@given(x=arrays(float, 3, elements=st.floats(-1e6, 1e6)))
def test_norm_codes_bracket_the_norm(x):
    norm = math.sqrt(math.fsum(v * v for v in x))
    code = int(histograms.norm_codes(x[None])[0])
    if norm == 0:
        assert code < -(2**10)
    elif norm > 1e-150:
        assert 2 ** ((code - 1) / 4) * (1 - 1e-5) <= norm <= 2 ** (code / 4) * (1 + 1e-5)


@each("d", [1, 2, 3, 4, 5, 8])
@each("tau", [0, 250, 1000])
def test_gram_sensitivities_hold_and_are_attained(d, tau):
    """Random and worst pairs on the sphere; tight bounds are met to 1 in 200."""
    rng = np.random.default_rng(d)
    norm = 1000

    def change(x, y, geometry):
        z = np.append(x, tau) if tau else x
        v = np.append(y, tau) if tau else y
        m = np.outer(z, z) - np.outer(v, v)
        if geometry == "frobenius":
            return np.linalg.norm(m)
        if geometry == "nuclear":
            return np.abs(np.linalg.eigvalsh(m)).sum()
        return np.abs(m[np.triu_indices(len(m))]).sum()

    def add(x, geometry):
        return change(x, np.zeros(d), geometry) if not tau else None

    pairs = []
    for _ in range(300):
        x, y = rng.normal(size=(2, d))
        x, y = norm * x / np.linalg.norm(x), norm * y / np.linalg.norm(y)
        pairs.append((x, y))
        if d > 1:  # the pair of the proof: z orthogonal to v
            u = y - (y @ x) * x / norm**2
            u *= norm / max(np.linalg.norm(u), 1e-300)
            c = -(tau**2) / norm**2
            pairs.append((x, c * x + math.sqrt(max(0.0, 1 - c * c)) * u))
    signs = (
        np.array(np.meshgrid(*[[-1, 1]] * d)).reshape(d, -1).T
        if d <= 5
        else rng.choice([-1, 1], (64, d))
    )
    pairs += [(norm * a / math.sqrt(d), norm * b / math.sqrt(d)) for a in signs for b in signs[:16]]
    for geometry in ("frobenius", "nuclear", "upper_l1"):
        bound = second_moments.gram_sensitivity(norm, tau, d, table_module.REPLACE_ONE, geometry)
        worst = max(change(x, y, geometry) for x, y in pairs)
        assert worst <= bound * (1 + 1e-12)
        if geometry != "upper_l1" and d > 1:
            assert worst >= 0.995 * bound
        one = second_moments.gram_sensitivity(norm, tau, d, "add_or_remove_one", geometry)
        full = np.full(d, norm / math.sqrt(d))
        z = np.append(full, tau) if tau else full
        m = np.outer(z, z)
        attained = {
            "frobenius": np.linalg.norm(m),
            "nuclear": np.trace(m),
            "upper_l1": np.abs(m[np.triu_indices(len(m))]).sum(),
        }[geometry]
        assert attained <= one * (1 + 1e-12)
        if geometry != "upper_l1" or tau in (0,):
            assert attained >= 0.995 * one


def test_laplace_gram_bound_is_attained_by_the_hadamard_like_matrix():
    """R, d even: eigenvectors of S = [[J, J], [J, -J]] give sqrt(d^2/2 + d + 1), close to it."""
    for d in (2, 4, 6):
        h = d // 2
        j = np.ones((h, h))
        s = np.block([[j, j], [j, -j]])
        weights = s * (1 + np.eye(d)) / 2  # upper triangle: off-diagonal entries count once
        values, vectors = np.linalg.eigh(weights)
        x, y = vectors[:, -1] * 1000, vectors[:, 0] * 1000
        m = np.outer(x, x) - np.outer(y, y)
        attained = np.abs(m[np.triu_indices(d)]).sum()
        bound = second_moments.gram_sensitivity(1000, 0, d, table_module.REPLACE_ONE, "upper_l1")
        assert 0.96 * bound <= attained <= bound
        assert attained == pytest.approx(np.sqrt(d**2 / 2 + d + 1) * 1000**2)


def moments_of(kind, view):
    """Return the image of moments as sessions add it up."""
    relation = "add_or_remove_one" if kind == "added" else "replace_one"
    stability = table_module.stability_of(relation)
    image = Moments(view).prepared(Terms(stability, False, 1.0, None))
    return image.in_cubes[0] if kind == "in cubes" else image


@pytest.mark.parametrize("kind", ["added", "replaced", "in cubes"])
def test_moments_stay_within_their_sensitivities_by_brute_force(kind):
    """The proof for the rounded squares, over every pair of rows at two small scales."""
    for bits in (7, 8):
        view = ScaledBox([-1.0], [1.0], bits)
        image, scale = moments_of(kind, view), view.steps
        x = np.arange(-scale, scale + 1)[:, None] / scale
        rows = np.column_stack([block.copy() for block in image.blocks(x, None, None)])
        assert rows[:, 0].tolist() == (image.factors[0] * scale * x[:, 0]).tolist()
        changes = np.abs(rows[:, None] - rows)
        # All bounds on one row are attained, and on the largest entry of a change.
        assert np.abs(rows).sum(axis=1).max() == image.l1
        assert (rows**2).sum(axis=1).max() == image.l2_squared
        assert (np.abs(rows).max(), changes.max()) == image.entry_bounds
        assert np.abs(rows).max() == image.largest
        assert changes.sum(axis=2).max() <= image.change_l1
        moved = (changes**2).sum(axis=2).max()
        assert moved <= image.change_l2_squared
        if kind != "in cubes":
            assert moved == image.change_l2_squared == (2 * image.factors[0] * scale) ** 2


def test_squares_have_nearly_as_large_a_factor_as_they_may():
    """With 13.4 in place of 13 beside 8 some rows would move further than opposite ends."""
    u = np.linspace(-1, 1, 401)
    moved = [
        64 * (u[:, None] - u) ** 2 + factor**2 * (u[:, None] ** 2 - u**2) ** 2
        for factor in (13.0, 13.3, 13.4)
    ]
    assert [bool(change.max() > 256 * (1 + 1e-9)) for change in moved] == [False, False, True]


def test_squares_that_are_not_centred_leave_less_room_for_a_count():
    """An added row moves (8 q, 13 p) by 106 of 256; by 233 if p were from 0 to Q."""
    image = Moments(ScaledBox([-1.0], [1.0]), (8, 13))
    scale = image.view.steps
    assert image.l2_squared == 106.25 * scale**2
    assert (8 * scale) ** 2 + (13 * scale) ** 2 == 233 * scale**2
    assert (
        image.l2_squared + 149 * scale**2
        <= image.change_l2_squared
        < 233 * scale**2 + 149 * scale**2
    )


def test_the_moments_of_extreme_rows_are_within_their_sensitivities():
    """The same for the map itself, at its own scale, in integers."""
    view = ScaledBox([-3.0], [4.0])
    ends = np.array([-3.0, 4.0])
    near = np.nextafter(ends, [0.0, 0.0])
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [ends, near, [0.5], ends[0] + 7 * rng.random(40), 4.0 - 2.0 ** -rng.random(9)]
    )
    scale = view.steps
    for image, added, replaced in (
        (Moments(view), 5 * scale**2 // 4, 4 * scale**2),
        (Moments(view, (8, 13)), 425 * scale**2 // 4, 256 * scale**2),
    ):
        totals = [exact(RowSum(image), rows_of([[value]])) for value in x]
        images = [[int(v) for v in total] for total in totals]
        assert max(a**2 + b**2 for a, b in images) == added == image.l2_squared
        moved = [(a - c) ** 2 + (b - d) ** 2 for a, b in images for c, d in images]
        assert max(moved) == replaced == image.change_l2_squared


@pytest.mark.parametrize("geometry", ["vector", "scalars", "gaussian", "wishart", "laplace"])
def test_a_shortened_statistic_stays_within_its_sensitivity(geometry):
    """Rounding to fewer bits moves each entry of a difference by less than one step."""
    rng = np.random.default_rng(1)
    for bits in (1, 5, 20):
        exact = rng.integers(-(2**40), 2**40, size=(200, 4, 4)).astype(object)
        other = exact + rng.integers(-(2**24), 2**24, size=exact.shape)
        matrix = geometry not in ("vector", "scalars")
        for a, b in zip(exact, other, strict=True):
            if matrix:
                a, b = a + a.T, b + b.T
            distance, moved = {
                "vector": (mechanisms.l2, 4),
                "scalars": (mechanisms.l1, 16),
                "gaussian": (mechanisms.l2, 4),
                "wishart": (second_moments.nuclear, 8),
                "laplace": (second_moments.upper_l1, 10),
            }[geometry]
            size = math.ceil(distance(a, b) * (1 + 1e-12))
            short = [mechanisms.shortened(m, bits) for m in (a, b)]
            assert distance(*short) <= mechanisms.after_shortening(size, bits, moved)


def test_gram_refuses_a_tau_for_which_the_bound_does_not_hold():
    with pytest.raises(ValueError, match="tau"):
        second_moments.gram_sensitivity(10, 11, 2, table_module.REPLACE_ONE, "nuclear")


def test_a_block_of_extreme_rows_stays_below_two_to_the_53(monkeypatch):
    """Exactness at the largest block: 2**16 rows on the sphere of the largest radius."""
    monkeypatch.setattr(table_module, "_BLOCK_VALUES", 2**30)
    ball = Ball([0.0], math.nextafter(2.0, 0.0))
    assert 2**18 > ball.norm >= 2**18 - 1
    X = np.full((2**16, 1), 2.0)
    second, first, n = second_moments.exact_gram(rows_of(X), ball)
    assert n * ball.norm**2 <= 2**53
    assert second[0, 0] == n * ball.norm**2
    assert first[0] == n * ball.norm


def test_norm_codes_at_the_boundaries_follow_the_sum_by_columns():
    """Norms of 2**(c/4) to the last bit: the code is the same in any company."""
    rng = np.random.default_rng(0)
    boundary = rng.normal(size=(400, 33))
    boundary *= (2.0 ** rng.integers(-3, 4, 400) / np.linalg.norm(boundary, axis=1))[:, None]
    codes = histograms.norm_codes(boundary)
    near = histograms._quarter_bins(np.einsum("ij,ij->i", boundary, boundary))[1]
    assert near.mean() > 0.9
    for i in range(400):
        assert histograms.norm_codes(boundary[i : i + 1])[0] == codes[i]
    everything = histograms.norm_codes(
        np.asfortranarray(np.vstack([rng.normal(size=(7, 33)), boundary]))
    )
    assert everything[7:].tolist() == codes.tolist()


def test_a_fold_uses_the_cores_that_others_leave(monkeypatch):
    """Of the process (affinity, control group), of BLAS; and one thread of BLAS in each."""
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    with threadpool_limits(1):  # as OMP_NUM_THREADS=1, or a worker process
        assert table_module.usable_cores() == 1
    with threadpool_limits(8):
        assert table_module.usable_cores() == 3
        seen = []

        def add(block, totals):
            seen.append((threading.get_ident(), table_module.usable_cores()))
            totals[0] += len(block)

        monkeypatch.setattr(table_module, "_PARALLEL_VALUES", 1)
        monkeypatch.setattr(table_module, "_BLOCK_VALUES", 8)
        rows = rows_of(np.zeros((9000, 1)))
        (count,) = table_module.fold(rows, add, lambda: [np.zeros(1, dtype=np.int64)])
        assert count == 9000
        assert {cores for _, cores in seen} == {1}  # nor does a fold within it start threads
        assert len({thread for thread, _ in seen}) <= 3
        assert table_module.usable_cores() == 3
