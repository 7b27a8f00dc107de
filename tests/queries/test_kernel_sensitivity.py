"""Certified sensitivities of kernel means: no row moves an image by more, and some by all of it."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from skdp.queries import KernelMap, KernelMean, LinearImage
from tests.queries.kernels import (
    CENTERS,
    KERNELS,
    SCALES,
    X,
    open_session,
    rows_of,
    slow_value,
    whitened,
)

RELATIONS = ["replace_one", "add_or_remove_one"]


def largest(objective, start, d):
    """Return the largest value of an objective of d numbers that a few local searches find."""
    best = 0.0
    for s in start:
        found = optimize.minimize(lambda v: -objective(v), s, method="Nelder-Mead",
                                  options={"maxiter": 120 * d})  # fmt: skip
        best = max(best, -found.fun)
    return best


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("gammas", [[0.3], [1.0, 0.25, 0.6]])
def test_sensitivities_bound_the_largest_change_that_a_search_finds(kind, gammas):
    # The laplacian has long tails: two centres are orthogonal only far apart.
    where = np.random.default_rng(4).normal(size=(8, 2)) * (8 if kind == "laplacian" else 1)
    k = KernelMap(where, gammas, kernel=kind)
    w = LinearImage(k, whitened(k)[0])
    m = w._matrix * 2.0**-w._bits
    start = [*where[:4], np.array([0.1, 0.1])]
    pairs = [np.concatenate([a, c]) for a in where[:3] for c in (where[5], where[6] + 20.0)]

    def image(v):
        return k.map(v.reshape(1, -1))[0]

    def white(v):
        return m @ image(v) * 2.0**-30

    limit = {r: w.sensitivity(r) * w.step for r in RELATIONS}
    found = largest(lambda v: np.linalg.norm(white(v)), start, 2)
    assert 0.99 * limit["add_or_remove_one"] <= found <= limit["add_or_remove_one"]
    found = largest(lambda v: np.linalg.norm(white(v[:2]) - white(v[2:])), pairs, 4)
    assert 0.9 * limit["replace_one"] <= found <= limit["replace_one"]

    l1, l2_squared = k.sensitivity("add_or_remove_one")
    found = largest(lambda v: image(v).sum(), start, 2)
    assert 0.3 * l1 <= found <= l1
    found = largest(lambda v: np.square(image(v)).sum(), start, 2)
    assert 0.3 * l2_squared <= found <= l2_squared
    l1, l2_squared = k.sensitivity("replace_one")
    found = largest(lambda v: np.abs(image(v[:2]) - image(v[2:])).sum(), pairs, 4)
    assert 0.3 * l1 <= found <= l1
    found = largest(lambda v: np.square(image(v[:2]) - image(v[2:])).sum(), pairs, 4)
    assert 0.3 * l2_squared <= found <= l2_squared


@pytest.mark.parametrize("kind", KERNELS)
def test_far_apart_centres_attain_their_sensitivity(kind):
    k = KernelMap([[0.0], [100.0]], 1.0, kernel=kind)
    assert k.sensitivity("add_or_remove_one") == pytest.approx((2.0**30, 2.0**60), rel=1e-8)
    assert k.sensitivity("replace_one") == pytest.approx((2.0**31, 2.0**61), rel=1e-8)
    image = k.map(np.array([[0.0], [100.0]]))
    assert image.tolist() == [[2.0**30, 0.0], [0.0, 2.0**30]]


@pytest.mark.parametrize("kind", KERNELS)
def test_several_scales_attain_the_bound_of_cauchy_and_schwarz(kind):
    """The sum over the scales of one centre's values changes by J, its bound is J."""
    k = KernelMap([[0.0], [200.0]], [0.5, 2.0, 0.7], kernel=kind)
    matrix = np.tile([1.0, -1.0], 3)[None]
    w = LinearImage(k, matrix)
    assert w.bound == pytest.approx(3 * math.sqrt(2), rel=1e-8)
    zero, far = k.map(np.array([[0.0], [200.0]]))
    found = float(matrix[0] @ (zero - far)) * 2.0**-30
    assert found == 6.0
    declared = w.sensitivity("replace_one") * w.step
    assert found <= declared <= found * (1 + 1e-5)
    w = LinearImage(k, [[1.0, 0.0] * 3])
    assert w.bound == pytest.approx(3.0, rel=1e-8)
    assert 3.0 <= w.sensitivity("add_or_remove_one") * w.step <= 3.0 * (1 + 1e-5)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    b=st.integers(1, 6),
    r=st.integers(1, 6),
    gammas=st.lists(st.sampled_from([0.01, 0.3, 0.6, 1.2, 50.0]), min_size=1, max_size=4),
    exponent=st.integers(-6, 6),
    kind=st.sampled_from(KERNELS),
    shape=st.sampled_from(["any", "difference", "whitened"]),
)
def test_no_row_moves_a_linear_image_by_more_than_declared(
    seed, b, r, gammas, exponent, kind, shape
):
    """Whatever the matrix: also one that the Gram matrices nearly send to zero."""
    rng = np.random.default_rng(seed)
    where = rng.normal(size=(b, 2))
    if shape == "difference":
        where = np.vstack([where, where + 10.0 ** rng.uniform(-9, -1)])
    k = KernelMap(where, gammas, kernel=kind)
    matrix = rng.normal(size=(r, k.n_dims))
    if shape == "difference":
        matrix = matrix.reshape(r, -1, 2, b)
        matrix = np.stack([matrix[:, :, 0], -matrix[:, :, 0]], axis=2).reshape(r, k.n_dims)
    elif shape == "whitened":
        white = whitened(k, rtol=1e-10)[0]
        matrix = rng.normal(size=(r, len(white))) @ white
    w = LinearImage(k, matrix * 10.0**exponent)
    near = where[rng.integers(len(where), size=60)]
    sample = np.vstack([near + rng.normal(size=(60, 2)) * 10.0 ** rng.uniform(-9, 1, (60, 1)),
                        where, [[1e300, -1e300]]])  # fmt: skip
    # The best of many rows, moved a little, again and again.
    for spread in (0.3, 0.03):
        image = k.map(sample) @ (w._matrix * 2.0**-w._bits).T
        best = sample[np.argsort(-np.linalg.norm(image, axis=1))[:8]]
        near = np.repeat(best, 8, axis=0)
        sample = np.vstack([near + rng.normal(size=near.shape) * spread, sample])
    values = k.map(sample)
    base = k.total(rows_of(X[:, :2]))  # the rows that both tables have
    before = w.apply(base)
    after = np.array([w.apply(base + v.astype(np.int64)) for v in values]) - before
    norms = np.linalg.norm(after.astype(float), axis=1)
    assert norms.max() <= w.sensitivity("add_or_remove_one")
    order = np.argsort(-norms)[:60]
    pairs = np.linalg.norm((after[order, None] - after[None, :]).astype(float), axis=2)
    assert pairs.max() <= w.sensitivity("replace_one")


def slow_bound(w: LinearImage) -> float:
    """Return the root of the infinity norm of M diag(J K_j) M' from 40 digits."""
    k = w._kernel
    b, scales = k.n_centers, k.n_scales
    grams = [[[slow_value(k, float(g), p, q) for q in k._q] for p in k._q] for g in k.gammas]
    with decimal.localcontext(decimal.Context(prec=40)):
        rows = [[Decimal(int(v)) / Decimal(2**w._bits) for v in row] for row in w._matrix]
        largest = Decimal(0)
        for row in rows:
            half = [
                sum(row[j * b + i] * grams[j][i][c] for i in range(b))
                for j in range(scales)
                for c in range(b)
            ]
            total = sum(abs(sum(map(Decimal.__mul__, half, other))) for other in rows)
            largest = max(largest, total)
        return float((largest * scales).sqrt())


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("gammas", [[0.3], [1.2, 0.3, 0.5]])
def test_the_bound_is_above_that_of_a_slow_oracle_and_close(kind, gammas):
    rng = np.random.default_rng(5)
    k = KernelMap(CENTERS[:5], gammas, kernel=kind)
    for matrix in (whitened(k)[0], rng.normal(size=(3, k.n_dims)), rng.normal(size=(1, k.n_dims))):
        w = LinearImage(k, matrix)
        assert slow_bound(w) <= w.bound <= slow_bound(w) * (1 + 1e-6)
        stacked = np.zeros((k.n_dims, k.n_dims))
        for j, gram in enumerate(k.gram()):
            stacked[j * 5 : j * 5 + 5, j * 5 : j * 5 + 5] = gram * k.n_scales
        assert np.linalg.eigvalsh(matrix @ stacked @ matrix.T).max() <= w.bound**2 * (1 + 1e-9)
    # Differences of centres a few steps apart: the product cancels, its errors do not.
    matrix = np.tile(np.hstack([np.eye(3), -np.eye(3)]), len(gammas)) * rng.normal(size=(3, 1))
    for apart in (1, 5):
        near = CENTERS[:3] + apart * k.box.grid[0]
        pairs = KernelMap(np.vstack([CENTERS[:3], near]), gammas, kernel=kind)
        assert np.all(pairs._q[3:] - pairs._q[:3] == apart)
        for row in (matrix, *matrix[:, None]):
            w = LinearImage(pairs, row)
            assert 0 < slow_bound(w) <= w.bound <= slow_bound(w) * (1 + 1e-2)


def test_every_rounding_error_is_in_the_bounds():
    """Searches do not find rows at which these terms are needed; the README proves that they do."""
    k = KernelMap(np.repeat(CENTERS, 2, axis=0), [0.001, 0.002])
    w = LinearImage(k, whitened(k, rtol=1e-10)[0])
    size = w._matrix * 2.0**-w._bits
    steps = math.sqrt(48) * (2.0**-30 + k.error) * np.linalg.norm(size)
    assert steps > 5 * w.step
    for relation, c, times in (("add_or_remove_one", 1, 1), ("replace_one", math.sqrt(2), 2)):
        least = (c * w.bound + times * steps) / w.step + math.sqrt(len(size))
        assert least <= w.sensitivity(relation) <= least * (1 + 1e-8) + 3
    # The product is zero: what is left of the bound are the errors of the kernel, then of BLAS.
    null = np.array([[1.0, -1.0] + [0.0] * 46])
    assert LinearImage(k, null).bound ** 2 >= 2 * 4 * k.error
    object.__setattr__(k, "error", 0.0)
    assert LinearImage(k, null).bound ** 2 >= 2 * 4 * 2 * 26 * 2.0**-53


def test_whitened_images_have_bound_one_where_the_gram_matrix_is_nearly_singular():
    near = np.concatenate([CENTERS, CENTERS + 1e-5, CENTERS, np.linspace(-3, 3, 60).reshape(20, 3)])
    for gammas in ([0.05], [0.05, 0.2]):
        for rtol, most in ((1e-6, 1 + 1e-3), (1e-9, 2.0), (1e-12, 1e3)):
            k = KernelMap(near, gammas)
            w = LinearImage(k, whitened(k, rtol=rtol)[0])
            assert 1 - 1e-6 <= w.bound <= most
            m = w._matrix * 2.0**-w._bits
            norms = np.linalg.norm(k.evaluate(np.vstack([X, near])) @ m.T, axis=1)
            assert norms.max() <= w.sensitivity("add_or_remove_one") * w.step


def test_a_linear_image_is_exact_in_integers():
    k = KernelMap(CENTERS, SCALES)
    total = k.total(rows_of(X))
    for scale in (1e-6, 1.0, 1e6):
        w = LinearImage(k, whitened(k)[0] * scale)
        part = Fraction(w.step)
        expected = [
            math.floor(
                sum(Fraction(int(a), 2**30) * int(v) for a, v in zip(row, total, strict=True))
                * Fraction(1, 2) ** w._bits
                / part
            )
            for row in w._matrix
        ]
        assert w.apply(total).tolist() == expected
    huge = total.astype(object) * 2**40
    assert all(isinstance(v, int) for v in w.apply(huge).tolist())


@pytest.mark.parametrize("scale", [2.0**-300, 2.0**-20, 2.0**20, 2.0**300])
def test_the_unit_of_the_matrix_does_not_matter(scale):
    k = KernelMap(CENTERS, [0.5, 1.0])
    matrix = whitened(k)[0]
    one, other = LinearImage(k, matrix), LinearImage(k, matrix * scale)
    assert 2**19 <= one.bound / one.step <= 2**20
    assert other.step == one.step * scale
    assert other.bound == pytest.approx(one.bound * scale, rel=1e-12)
    np.testing.assert_array_equal(other._matrix, one._matrix)
    for relation in RELATIONS:
        assert one.sensitivity(relation) == other.sensitivity(relation)


def test_one_centre_and_centres_that_coincide():
    single = LinearImage(KernelMap([[3.0]], 2.0), [[1.0]])
    assert single.bound == pytest.approx(1.0, rel=1e-8)
    k = KernelMap(np.repeat(CENTERS, 2, axis=0), 0.5)
    matrix = whitened(k)[0]
    assert matrix.shape == (12, 24)
    assert LinearImage(k, matrix).bound == pytest.approx(1.0, rel=1e-6)
    # An image that is zero for every row has a small bound, and no division fails.
    zero = LinearImage(k, np.array([[1.0, -1.0] + [0.0] * 22]))
    assert 0 < zero.bound < 1e-6
    assert zero.apply(k.total(rows_of(X))).tolist() == [0]
    value, _ = open_session().answer(KernelMean(k, [[1.0, -1.0] + [0.0] * 22]), 0.5)
    assert np.isfinite(value.value).all() and value.std > 0
