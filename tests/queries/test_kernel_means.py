"""Kernel means: exact integers, by each row alone."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from skdp.core import table as table_module
from skdp.queries import KernelMap, kernel_means
from tests.folding import each
from tests.queries.kernels import CENTERS, KERNELS, SCALES, X, rows_of, slow_value

ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=False, width=64)


@pytest.mark.parametrize("kind", KERNELS)
def test_the_image_is_the_truncated_kernel_value(kind):
    k = KernelMap(CENTERS, SCALES, kernel=kind)
    sample = X[:12]
    image = k.map(sample)
    for q, row in zip(k.box.map(sample), image, strict=True):
        exact = [float(slow_value(k, gamma, q, c)) * 2**30 for gamma in k.gammas for c in k._q]
        for value, real in zip(row, exact, strict=True):
            assert math.floor(real - 1e-3) <= value <= math.floor(real + 1e-3)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("tolerance", [None, 0.3])
def test_sums_do_not_depend_on_order_blocks_or_threads(kind, tolerance, monkeypatch):
    k = KernelMap(CENTERS, SCALES, kernel=kind)
    sample = np.vstack([X, CENTERS, CENTERS[:3] + 50, [[1e308, -1e308, 0]]])
    reference = k.total(rows_of(sample))
    if tolerance is not None:
        object.__setattr__(k, "_tolerance", tolerance)  # most entries are decided one at a time
    image = k.map(sample)
    alone = np.concatenate([k.map(sample[i : i + 1]) for i in range(len(sample))])
    assert image.tobytes() == alone.tobytes()
    assert reference.tolist() == [sum(int(v) for v in column) for column in image.T]
    monkeypatch.setattr(table_module, "_BLOCK_VALUES", 96)
    monkeypatch.setattr(table_module, "_LARGEST_BLOCK", 500)
    monkeypatch.setattr(kernel_means, "_CHUNK", 70)
    monkeypatch.setattr(table_module, "_PARALLEL_VALUES", 1)
    monkeypatch.setattr(table_module, "usable_cores", lambda: 3)
    shuffled = np.random.default_rng(1).permutation(sample)
    np.testing.assert_array_equal(k.total(rows_of(shuffled)), reference)


def test_near_integers_the_position_in_a_block_decides_nothing(monkeypatch):
    """With an exp that errs differently at every position, within what is assumed of it."""
    rng = np.random.default_rng(2)
    calls = []

    def erring(x):
        np.exp(x, out=x)
        x *= 1 + rng.uniform(-1, 1, x.shape) * 0.9 * kernel_means._EXP_ERROR

    def counted(x, scalar=kernel_means._scalar_exp):
        calls.append(x.size)
        scalar(x)

    sample = np.random.default_rng(3).normal(size=(40_000, 3))
    for gammas in ([0.3], [2.0, 0.25, 0.7, 1.0]):
        k = KernelMap(CENTERS, gammas)
        reference = k.map(sample)
        with monkeypatch.context() as patch:
            patch.setattr(kernel_means, "_vector_exp", erring)
            patch.setattr(kernel_means, "_scalar_exp", counted)
            for _ in range(3):
                assert k.map(sample).tobytes() == reference.tobytes()
            assert sum(calls) > 0
            # Without the second look some would differ: the test can fail.
            object.__setattr__(k, "_tolerance", 0.0)
            assert k.map(sample).tobytes() != reference.tobytes()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data(), d=st.integers(1, 6), b=st.integers(1, 5), kind=st.sampled_from(KERNELS))
def test_bounds_hold_for_every_row_and_each_row_alone_decides(data, d, b, kind):
    element = ANY_FLOAT | st.floats(-3, 3)
    where = data.draw(arrays(float, (b, d), elements=st.floats(-3, 3) | st.just(1e12)))
    gammas = data.draw(st.lists(st.sampled_from([1e-9, 0.1, 0.4, 1.6, 7.0, 1e9]), min_size=1,
                                max_size=4))  # fmt: skip
    k = KernelMap(where, gammas, kernel=kind)
    sample = np.vstack([data.draw(arrays(float, (4, d), elements=element)), where, k.centers])
    image = k.map(sample)
    assert np.array_equal(image, np.trunc(image))
    assert image.min() >= 0
    assert np.all(image <= k.half)
    first, second = k._row_l1, k._row_l2
    for row in image:
        assert sum(int(v) for v in row) <= first
        assert sum(int(v) ** 2 for v in row) <= second <= k.norm**2
    l1, l2_squared = k.sensitivity("replace_one")
    for a in image[:3]:
        for c in image[3:]:
            change = [int(u) - int(v) for u, v in zip(a, c, strict=True)]
            assert sum(map(abs, change)) <= l1
            assert sum(v * v for v in change) <= l2_squared
    alone = np.concatenate([k.map(sample[i : i + 1]) for i in range(len(sample))])
    assert image.tobytes() == alone.tobytes()
    values = k.evaluate(sample)
    assert np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1
    # Rounded centres keep their integers: what the attribute says is what the kernel uses.
    np.testing.assert_array_equal(k.box.map(k.centers), k._q)
    for gram in k.gram():
        np.testing.assert_array_equal(np.diag(gram), 1.0)
        assert gram.min() >= 0 and gram.max() <= 1


@pytest.mark.parametrize("kind", KERNELS)
def test_columns_follow_the_scales_in_the_order_given(kind):
    k = KernelMap(CENTERS, SCALES, kernel=kind)
    order = np.argsort(SCALES)
    other = KernelMap(CENTERS, np.array(SCALES)[order], kernel=kind)
    shape = (len(X), len(SCALES), len(CENTERS))
    image = k.map(X).reshape(shape)
    np.testing.assert_array_equal(image[:, order], other.map(X).reshape(shape))
    np.testing.assert_array_equal(image[:, 1], image[:, 4])  # equal scales
    assert np.all(image[:, 0] <= image[:, 2])  # narrower kernels are smaller
    assert k.sensitivity("add_or_remove_one") == other.sensitivity("add_or_remove_one")
    orders = [KernelMap(CENTERS, p, kernel=kind) for p in itertools.permutations(SCALES)]
    assert len({m.sensitivity("add_or_remove_one") for m in orders}) == 1
    for a, j in zip(other.gram(), order, strict=True):
        np.testing.assert_array_equal(a, k.gram()[j])


@pytest.mark.parametrize("kind", KERNELS)
def test_evaluate_is_the_kernel_of_scikit_learn(kind):
    reference = rbf_kernel if kind == "rbf" else laplacian_kernel
    k = KernelMap(CENTERS, SCALES, kernel=kind)
    snapped = k.box.center + k.box.map(X) * k.box.grid
    each = [reference(snapped, k.centers, gamma=g) for g in SCALES]
    np.testing.assert_allclose(k.evaluate(X), np.hstack(each), atol=1e-12, rtol=1e-9)
    each = [reference(X, CENTERS, gamma=g) for g in SCALES]
    np.testing.assert_allclose(k.evaluate(X), np.hstack(each), atol=5e-3)
    for gram, g in zip(k.gram(), SCALES, strict=True):
        np.testing.assert_allclose(gram, reference(k.centers, gamma=g), atol=1e-12)


def test_powers_of_two_share_one_exponential():
    k = KernelMap(CENTERS, 0.3 * 2.0 ** np.arange(6))
    assert [[m for m, _ in links] for _, links in k._chains] == [[0, 1, 2, 3, 4], [0]]
    assert k.error == pytest.approx(2.0**-40, rel=1e-2)
    other = KernelMap(CENTERS, SCALES)
    assert [links for _, links in other._chains] == [[(0, 1), (0, 4), (1, 3), (3, 0)], [(0, 2)]]
    apart = KernelMap(CENTERS, [1.0, 3.0, 0.7])
    assert [links for _, links in apart._chains] == [[(0, 2)], [(0, 0)], [(0, 1)]]
    assert apart.error == pytest.approx(2.0**-44, rel=1e-2)


@each(
    "centers, gammas, kind, text",
    [
        (CENTERS, 1.0, "poly", "kernel must be"),
        (CENTERS[0], 1.0, "rbf", "centers must be"),
        (CENTERS[:0], 1.0, "rbf", "centers must be"),
        (CENTERS * np.nan, 1.0, "rbf", "centers must be"),
        (np.zeros((1, 9000)), 1.0, "rbf", "at most 8192"),
        (CENTERS, 0.0, "rbf", "gammas must be positive"),
        (CENTERS, np.inf, "rbf", "gammas must be positive"),
        (CENTERS, [], "rbf", "gammas must have"),
        (CENTERS, np.ones(65), "rbf", "gammas must have"),
    ],
)
def test_bad_kernels_are_refused(centers, gammas, kind, text):
    with pytest.raises(ValueError, match=text):
        KernelMap(centers, gammas, kind)


def test_the_widest_rows_stay_exact():
    """8192 features at opposite corners: squared distances of 2**51 steps."""
    where = np.zeros((2, 8192))
    where[1] = 1e6
    k = KernelMap(where, 1e-9)
    q = k.box.map(where)
    exact = sum((int(a) - int(b)) ** 2 for a, b in zip(q[0], q[1], strict=True))
    assert 2**45 < exact < 2**52
    distance = k._distances(q)
    assert distance[0, 1] == distance[1, 0] == exact
    assert distance[0, 0] == distance[1, 1] == 0


def test_memory_of_one_block():
    sample = np.random.default_rng(0).normal(size=(100_000, 4))
    k = KernelMap(sample[:150], [0.5, 1.0])
    rows = rows_of(sample)
    tracemalloc.start()
    try:
        k.total(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16e6  # the image of all rows is 240 MB
