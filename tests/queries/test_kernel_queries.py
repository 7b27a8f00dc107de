"""Queries of kernel means and of a user's feature map: noise, replay, and rows that fail.

Statistical tests use a seeded stream; each states the probability with which a correct sampler
would have failed it under a random seed, and is shown to reject 2/3 and 3/2 of the right scale.
"""

from __future__ import annotations

import math
import signal
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from skdp import core
from skdp.budget import gdp_mu
from skdp.core import Ball, Box, UserFunction, transcript
from skdp.queries import KernelMap, KernelMean, LinearImage, basis_mean, feature_means
from skdp.tabular import check_rows
from tests.folding import each
from tests.queries.kernels import CENTERS, KERNELS, X, open_session, whitened

RELATIONS = ["replace_one", "add_or_remove_one"]
DELTAS = [0.0, 1e-6]


def mean_of_basis(basis, view, blocks=False):
    return basis_mean(UserFunction(basis), view, blocks)


# --- queries ------------------------------------------------------------------------------------


@each("kind", KERNELS)
@each("adjacency", RELATIONS)
@each("delta", DELTAS)
def test_both_doors_reproduce_the_kernel_means(kind, adjacency, delta):
    reference = rbf_kernel if kind == "rbf" else laplacian_kernel
    k = KernelMap(CENTERS, [1.0, 0.5], kernel=kind)
    matrix, restore = whitened(k, rtol=1e-9)
    snapped = k.box.center + k.box.map(X) * k.box.grid
    exact = np.hstack([reference(snapped, k.centers, gamma=g).mean(axis=0) for g in (1.0, 0.5)])
    session = open_session(epsilon=1e8, delta=delta, adjacency=adjacency)
    white, n = session.answer(KernelMean(k, matrix), 0.5)
    means, n_again = session.answer(feature_means(k), 0.5)
    tolerance = 1e-6 if delta == 0 else 2e-5
    np.testing.assert_allclose(restore @ white.value, exact, atol=tolerance)
    np.testing.assert_allclose(means.value, exact, atol=tolerance)
    assert n.value == pytest.approx(700, rel=1e-5)
    assert n_again.value == pytest.approx(700, rel=1e-5)
    assert (n.std == 0) == (adjacency == "replace_one")
    assert session.remaining == 0


def release_all(session):
    k = KernelMap(CENTERS, [0.5, 1.5])
    a, n = session.answer(KernelMean(k, whitened(k)[0]), 0.25)
    c, m = session.answer(feature_means(k), 0.25)
    e, p = session.answer(
        mean_of_basis(lambda X: X**2, Box([0.0] * 3, [9.0] * 3)),
        0.25,
    )
    f, q = session.answer(basis_mean(UserFunction(lambda X: X), Ball([0.0] * 3, 2.0), True))
    return np.concatenate(
        [a.value, c.value, e.value, f.value, [n.value, m.value, p.value, q.value]]
    )


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_replay_and_neighbours(adjacency, delta):
    rng = np.random.default_rng(0)

    def run(data, recorded=None):
        manager = transcript.record() if recorded is None else transcript.replay(recorded)
        with manager as t, open_session(data, delta=delta, adjacency=adjacency) as session:
            return release_all(session), t

    first, recorded = run(X)
    if adjacency == "replace_one":
        unrelated = rng.normal(5, 2, size=X.shape)
        neighbours = [np.vstack([X[1:], row[None]]) for row in (CENTERS[0], np.full(3, 1e300))]
    else:
        unrelated = rng.normal(5, 2, size=(30, 3))
        neighbours = [X[1:], np.vstack([X, CENTERS[:1]]), np.vstack([X, np.full((1, 3), 3.0)])]
    np.testing.assert_array_equal(run(unrelated, recorded)[0], first)
    for other in neighbours:
        entries = run(other, recorded)[1].entries
        assert len(entries) == 4
        for a, b in zip(recorded.entries, entries, strict=True):
            assert a.sensitivity == b.sensitivity
            assert a.distance(a.exact, b.exact) <= a.sensitivity


@pytest.mark.parametrize("delta", DELTAS)
def test_an_empty_private_table_is_a_table(delta):
    session = open_session(np.zeros((0, 3)), delta=delta, adjacency="add_or_remove_one")
    assert np.isfinite(release_all(session)).all()


def test_noise_and_count_share_one_release_where_n_is_private():
    session = open_session(adjacency="add_or_remove_one", delta=1e-6)
    k = KernelMap(CENTERS, 0.5)
    matrix, _ = whitened(k)
    with transcript.record() as t:
        session.answer(KernelMean(k, matrix), 0.5)
        session.answer(feature_means(k), 0.5)
    for entry, size in zip(t.entries, (len(matrix), 12), strict=True):
        assert entry.exact.shape == (size + 1,)
    step = LinearImage(k, matrix).step
    assert t.entries[0].sensitivity * step == pytest.approx(math.sqrt(1 + 1 / 9), rel=1e-4)


@pytest.mark.statistical
@each("delta", DELTAS)
@each("query", ["kernel_mean", "feature_means", "basis_mean"])
def test_noise_has_the_stated_standard_deviation(query, delta):
    """False-alarm rate about 1e-6 (z = 4.9) of the unit variance of noise over stated std."""
    far = np.full((5, 3), 1e6)  # every kernel value is 0, and so is every statistic
    k = KernelMap(CENTERS[:3], 0.5)
    matrix = whitened(k)[0] * 1e5  # the noise follows the unit of the matrix
    values = []
    for seed in range(700):
        # At epsilon = 100 no noisy mean reaches the end of its box, where it would be clipped.
        session = open_session(far, delta=delta, seed=seed, epsilon=100.0)
        if query == "kernel_mean":
            r, _ = session.answer(KernelMean(k, matrix))
        elif query == "feature_means":
            r, _ = session.answer(feature_means(k))
        else:
            r, _ = session.answer(
                basis_mean(UserFunction(lambda X: X * 0), Box([-1e3] * 3, [1e3] * 3)),
                1.0,
            )
        values.append(r.value / r.std)
    values = np.ravel(values)

    def fits(values):
        squares = values**2
        return abs(squares.mean() - 1) < 4.9 * squares.std() / math.sqrt(squares.size)

    assert fits(values)
    assert not fits(2 / 3 * values)
    assert not fits(3 / 2 * values)


def test_the_stated_std_follows_from_the_claim():
    mu = gdp_mu(1.0, 1e-6)
    k = KernelMap(CENTERS, 0.5)
    matrix = 7.0 * whitened(k)[0]
    g = open_session(delta=1e-6)
    r, n = g.answer(KernelMean(k, matrix), 0.25)
    assert r.std == pytest.approx(7 * math.sqrt(2) / (mu / 2) / n.value, rel=1e-4)
    p = open_session()
    r, n = p.answer(KernelMean(k, matrix), 0.25)
    assert r.std == pytest.approx(7 * math.sqrt(2) * 4 * math.sqrt(13) / n.value, rel=1e-4)
    r, n = p.answer(feature_means(k), 0.25)
    l1 = k.sensitivity("replace_one")[0] * 2.0**-30
    assert r.std == pytest.approx(math.sqrt(2) * 4 * l1 / n.value, rel=1e-4)


@each(
    "matrix, text",
    [
        (np.ones((2, 12)), "must have shape"),
        (np.ones(24), "must have shape"),
        (np.ones((0, 24)), "must have shape"),
        (np.zeros((2, 24)), "largest entry"),
        (np.full((2, 24), np.nan), "must be finite"),
        (np.full((2, 24), 1e101), "largest entry"),
        (np.full((2, 24), 1e-101), "largest entry"),
    ],
)
def test_bad_matrices_are_refused_before_any_charge(matrix, text):
    session = open_session()
    with pytest.raises(ValueError, match=text):
        session.answer(KernelMean(KernelMap(CENTERS, [0.5, 1.0]), matrix), 0.5)
    assert session.remaining == 1


def test_centres_of_other_features_are_refused_before_any_charge():
    session = open_session()
    k = KernelMap(CENTERS[:, :2], 0.5)
    with pytest.raises(ValueError, match="features"):
        session.answer(feature_means(k), 0.5)
    with pytest.raises(ValueError, match="features"):
        session.answer(KernelMean(k, np.eye(12)), 0.5)
    assert session.remaining == 1


# --- a user's feature map ------------------------------------------------------------------------


def bad_rows(X):
    """Fail in every way that a map of one row can fail, by the row's first value."""
    v = float(np.asarray(X)[0, 0])
    if v > 1.5:
        raise RuntimeError(f"a row that must not decide anything: {v}")
    if v > 1.2:
        return np.zeros((1, 5))
    if v > 1.0:
        return np.array([[v, np.nan]])
    if v > 0.8:
        return "text"
    if v > 0.6:
        return None
    return np.array([[v, v * v]])


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_rows_that_fail_count_as_the_centre_and_decide_for_themselves(adjacency):
    view = Box([-3.0, 0.0], [3.0, 9.0])
    seen = []

    def basis(X):
        seen.append(len(X))
        return bad_rows(X)

    session = open_session(epsilon=1e7, adjacency=adjacency)
    mean, n = session.answer(mean_of_basis(basis, view))
    v = X[:, 0]
    good = v <= 0.6
    clipped = np.clip(np.c_[v, v**2], view.low, view.high)
    expected = np.where(good[:, None], clipped, view.center).mean(axis=0)
    np.testing.assert_allclose(mean.value, expected, atol=1e-4)
    assert n.value == pytest.approx(700, rel=1e-5)
    assert set(seen) == {1}


def test_blocks_equal_rows_one_at_a_time():
    view = Box([-3.0, 0.0], [3.0, 9.0])

    def basis(X):
        if np.any(X[:, 0] > 1.5):
            raise RuntimeError
        features = np.c_[X[:, 0], X[:, 0] ** 2]
        features[X[:, 0] > 1.0, 1] = np.inf
        return features

    exact = []
    for blocks in (False, True):
        with transcript.record() as t:
            open_session().answer(mean_of_basis(basis, view, blocks))
        exact.append(t.entries[0].exact.tolist())
    assert exact[0] == exact[1]


def test_sparse_output_and_tables_are_taken():
    pandas = pytest.importorskip("pandas")
    view = Box([0.0] * 3, [9.0] * 3)
    maps = [
        lambda X: X**2,
        lambda X: sparse.csr_matrix(X**2),
        lambda X: sparse.coo_array(X**2),
        lambda X: pandas.DataFrame(X**2),
        lambda X: (X**2).tolist(),
    ]
    for blocks in (False, True):
        exact = []
        for basis in maps:
            with transcript.record() as t:
                open_session(X[:50]).answer(mean_of_basis(basis, view, blocks))
            exact.append(t.entries[0].exact.tolist())
        assert all(e == exact[0] for e in exact)


def test_the_map_gets_float64_arrays_of_its_own():
    """Whatever the caller's container: no type, index or memory that other rows have a part in."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X[:40].astype(np.float32), columns=["a", "b", "c"])
    table["c"] = pandas.Categorical(np.arange(40) % 3)
    kept = []

    def basis(rows):
        kept.append(rows)
        rows[:] = np.nan  # writing into it is nobody's loss
        return [[1.0]]

    for source in (table, table.to_numpy(np.float64), table.to_numpy(np.float64).tolist()):
        before = repr(source)
        rows = check_rows(source, estimator="T")
        session = core.open_session(rows, estimator="T", epsilon=1e7)
        session.answer(mean_of_basis(basis, Box([0.0], [1.0])))
        assert repr(source) == before
    assert {(type(k), k.dtype, k.shape) for k in kept} == {(np.ndarray, np.dtype(float), (1, 3))}
    assert all(k.base is None for k in kept)


def test_an_interrupt_in_the_map_leaves_without_its_text():
    def basis(rows):
        try:
            raise ValueError(f"cell {rows[0, 0]}")
        except ValueError:
            signal.raise_signal(signal.SIGINT)

    # A shell may have started the tests with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            open_session().answer(mean_of_basis(basis, Box([0.0], [1.0])))
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught.value.args == caught.value.__context__.args == ()
    assert caught.value.__context__.__context__ is None


def test_the_memory_of_undecided_entries_does_not_depend_on_the_rows():
    """Entries at distance 0 and at tiny gammas are undecided; they take 64 MB at most."""
    k = KernelMap(np.ones((16, 4096)), [1.0, 1e-9])
    tracemalloc.start()
    for value in (0.0, 1.0, 1.001):
        k.map(np.full((64, 4096), value))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**26


def test_an_interrupt_that_a_row_raises_is_a_failure_like_others():
    def basis(X):
        raise KeyboardInterrupt

    mean, _ = open_session().answer(mean_of_basis(basis, Box([0.0], [1.0])))
    assert np.isfinite(mean.value).all()
