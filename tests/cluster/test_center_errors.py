"""DPKMeans: what clipping takes from a centre, what the last step leaves, and what two errors hold.

Bounds of what clipping takes are theorems, and noise is seeded, so every test is deterministic: no
false alarms.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.budget.budget import StandInBudget
from skdp.cluster._coreset import FromSquares, Leaves, PublicBox
from tests.cluster.blobs import A, R, blobs, dpkmeans
from tests.folding import each

# --- what clipping takes ----------------------------------------------------------------------


def one_hot(rng, n):
    return np.eye(3)[rng.choice(3, size=n, p=[0.7, 0.2, 0.1])]


ROWS = {
    "uniform": lambda rng, n: rng.random((n, 3)),
    "skewed": lambda rng, n: np.minimum(rng.exponential(0.1, size=(n, 3)), 1.0),
    "0/1": lambda rng, n: (rng.random((n, 3)) < [0.02, 0.3, 0.5]).astype(float),
    "one-hot": one_hot,
    "zeros": lambda rng, n: rng.random((n, 3)) * (rng.random((n, 3)) > 0.8),
    "far": lambda rng, n: np.where(rng.random((n, 1)) < 0.03, 1.0, 0.1) * np.ones(3),
}


def clipped_away(X, centers, units, radius):
    """Return the sums of what clipping takes from residuals, and each row's nearest centre."""
    group = np.square(X[:, None] - centers).sum(axis=2).argmin(axis=1)
    residual = X - centers[group]
    norm = np.linalg.norm(residual / units, axis=1)
    lost = residual * np.maximum(1 - radius / np.maximum(norm, radius), 0.0)[:, None]
    return np.array([lost[group == j].sum(axis=0) for j in range(len(centers))]), group


@each("kind", ROWS)
def test_clipping_takes_no_more_than_is_said(kind):
    """Whatever the rows of a leaf are: exact counts and means of one to eight leaves."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(100):
        X, split = ROWS[kind](rng, 200), rng.integers(0, 2, size=3)
        code = ((X > 0.5) * split) @ [1, 2, 4]
        inside = [X[code == leaf] for leaf in np.unique(code)]
        upper = np.array([((leaf >> np.arange(3)) & 1) * split for leaf in np.unique(code)])
        low, high = upper * 0.5, np.where(split, 0.5 + upper * 0.5, 1.0)
        leaves = Leaves(
            low,
            high,
            np.array([rows.mean(axis=0) for rows in inside]),
            np.array([float(len(rows)) for rows in inside]),
            np.zeros(len(inside)),
        )
        # One centre, so that every leaf is in its cluster.
        center = np.clip(X.mean(axis=0) + rng.normal(0, 0.1, 3), 0, 1)[None]
        units, radius = rng.uniform(0.1, 0.6, 3), rng.uniform(0.2, 2.5)
        lost, _ = clipped_away(X, center, units, radius)
        most, doubt = leaves.most_lost(center, units, radius)
        assert np.all(np.abs(lost) <= most * (1 + 1e-9) + 1e-9)
        assert not doubt.any()
        largest = max(largest, float((np.abs(lost) / np.maximum(most, 1e-9)).max()))
        none = np.full_like(low, np.nan)  # no mean of a leaf stands clear of the noise
        unknown = Leaves(low, high, none, leaves.rows, leaves.errors)
        assert np.all(np.abs(lost) <= unknown.most_lost(center, units, radius)[0] + 1e-9)
    # A bound of half as much is refuted by rows that are at the ends of their leaves.
    assert largest > {"0/1": 0.5, "one-hot": 0.5, "far": 0.5}.get(kind, 0.05)


@each("kind", ROWS)
def test_mean_squares_bound_what_clipping_takes(kind):
    """Rows about two centres, given mean squares, exact sizes, means of clipped residuals."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(100):
        X = ROWS[kind](rng, 200)
        centers, units = rng.random((2, 3)), rng.uniform(0.1, 0.6, 3)
        radius = rng.uniform(0.2, 2.5)
        lost, group = clipped_away(X, centers, units, radius)
        if len(np.unique(group)) < 2:
            continue
        sizes = np.bincount(group).astype(float)
        residual = X - centers[group]
        rms = np.sqrt(np.mean(residual**2, axis=0))
        sums = np.array([residual[group == j].sum(axis=0) for j in range(2)])
        offsets = (sums - lost) / sizes[:, None]
        about = FromSquares(PublicBox(np.zeros(3), np.ones(3)), rms, 200.0)
        most, _ = about.lost(centers, units, radius, sizes, offsets)
        assert np.all(np.abs(lost) <= most * (1 + 1e-9) + 1e-9)
        largest = max(largest, float((np.abs(lost) / np.maximum(most, 1e-9)).max()))
    assert largest > 0.3


def test_nothing_is_lost_inside_the_radius():
    leaves = Leaves(
        np.zeros((1, 2)), np.ones((1, 2)), np.full((1, 2), 0.5), np.array([100.0]), np.ones(1)
    )
    most, doubt = leaves.most_lost(np.full((1, 2), 0.5), np.ones(2), 0.75)
    assert not most.any() and not doubt.any()


def test_noise_of_empty_leaves_does_not_add_up():
    """Counts of 1,000 empty leaves far out: their sum is near 0, and the doubt is that of a sum."""
    rng = np.random.default_rng(0)
    low = np.full((1000, 1), 9.0)
    none, errors = np.full((1000, 1), np.nan), np.full(1000, 3.0)
    leaves = Leaves(low, low + 1, none, rng.normal(0, 3, 1000), errors)
    most, doubt = leaves.most_lost(np.zeros((1, 1)), np.ones(1), 1.0)
    assert doubt[0, 0] == pytest.approx(9 * 3 * np.sqrt(1000))
    assert most[0, 0] < 3 * doubt[0, 0]
    assert most[0, 0] < 0.1 * 9 * np.maximum(leaves.rows, 0.0).sum()


# --- what the last step leaves ----------------------------------------------------------------


def test_means_do_not_move_between_distant_clusters():
    low, high = np.array([[0.0], [0.9]]), np.array([[0.1], [1.0]])
    leaves = Leaves(low, high, low + 0.05, np.full(2, 500.0), np.ones(2))
    before, after = np.array([[0.04], [0.93]]), np.array([[0.05], [0.96]])
    assert not any(change.any() for change in leaves.moved(before, after))


@pytest.mark.parametrize("split", [1, 2, 16])
def test_means_move_as_those_of_uniform_rows(split):
    """The boundary of two centres moves from 0.5 to 0.55: exact means of the rows on [0, 1]."""
    edges = np.linspace(0, 1, split + 1)[:, None]
    low, high = edges[:-1], edges[1:]
    leaves = Leaves(low, high, (low + high) / 2, np.full(split, 1000.0 / split), np.ones(split))
    moved, counts = leaves.moved(np.array([[0.3], [0.7]]), np.array([[0.4], [0.7]]))
    np.testing.assert_allclose(counts, 50, rtol=0.02)
    come = 0.05 * (0.525 - np.array([0.4, 0.7]))  # of the strip, from either centre
    np.testing.assert_allclose(moved[:, 0], np.abs(come) / [0.55, 0.45], rtol=0.02)


def test_means_of_a_column_of_zeros_and_ones_move_further():
    """No leaf is cut along it: rows are at its ends, or uniform, which would move half as far."""
    low, high = np.array([[0.2, 0.0], [0.6, 0.0]]), np.array([[0.4, 1.0], [0.8, 1.0]])
    leaves = Leaves(low, high, (low + high) / 2, np.full(2, 500.0), np.ones(2))
    before, after = np.array([[0.3, 0.49], [0.7, 0.51]]), np.array([[0.45, 0.1], [0.55, 0.9]])
    rows = np.array([[x, y] for x in (0.3, 0.7) for y in (0.0, 1.0)])

    def means(centers):
        group = np.square(rows[:, None] - centers).sum(axis=2).argmin(axis=1)
        return np.array([rows[group == j].mean(axis=0) for j in range(2)])

    exact = np.abs(means(after) - means(before))
    assert exact[0, 1] == pytest.approx(0.5)
    # About 0.1 for each of 250 that go, and 0.9 for each of 250 that come, of 500.
    assert leaves.moved(before, after)[0][0, 1] == pytest.approx(0.5, abs=0.02)


# --- what two standard errors hold ------------------------------------------------------------


def numbers_and_one_hot(rng, n):
    """Two scaled columns and four categories, of three groups."""
    group = rng.integers(3, size=n)
    middle = np.array([[0.2, 0.3], [0.5, 0.75], [0.8, 0.35]])[group]
    parts = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.2, 0.2, 0.3, 0.3]])[group]
    category = (rng.random(n)[:, None] > np.cumsum(parts, axis=1)[:, :3]).sum(axis=1)
    return np.c_[np.clip(middle + 0.08 * rng.normal(size=(n, 2)), 0, 1), np.eye(4)[category]]


def unscaled(rng, n):
    group = rng.integers(3, size=n)
    middle = np.array([[30, 20_000, 5], [45, 60_000, 1], [60, 40_000, 9.0]])[group]
    return middle + rng.normal(size=(n, 3)) * [4, 6000, 1]


def money(rng, n):
    """Ages, amounts of money that are often 0, and a 0/1 column."""
    amounts = rng.lognormal(8, 1.2, n) * (rng.random(n) > 0.7)
    return np.c_[rng.uniform(18, 90, n), amounts, rng.random(n) < 0.3]


STATED = ([18, 0, 0], [90, 1e5, 1])
# Rows, their number, bounds, and how many times the errors (root mean squares) may be what happens:
# about twice what is seen. Where what clipping takes was bounded by the farthest corners, and any
# step counted in full, one-hot columns had up to 40 times.
TABLES = {
    "one-hot": (numbers_and_one_hot, 2000, (0, 1), 3.5),
    "more one-hot": (numbers_and_one_hot, 20_000, (0, 1), 4.0),
    "learned": (unscaled, 20_000, "private", 6.0),
    "blobs": (lambda rng, n: blobs(rng.integers(100), n, k=4), 20_000, (-1.5, 1.5), 4.0),
    "money": (money, 5000, STATED, 9.0),
    "few": (numbers_and_one_hot, 200, (0, 1), 3.5),
}


@pytest.fixture(
    scope="module", params=[(name, adjacency) for name in TABLES for adjacency in (R, A)]
)
def fits(request):
    """Errors and standard errors of centres of 25 fits (60, 100 of few rows), in half widths."""
    name, adjacency = request.param
    make, n, bounds, most = TABLES[name]
    off, std = [], []
    for seed in range({"few": 100, "learned": 60}.get(name, 25)):
        X = np.asarray(make(np.random.default_rng(seed), n), dtype=float)
        model = dpkmeans(3, adjacency=adjacency, bounds=bounds, random_state=seed).fit(X)
        low, high = model.bounds_
        rows = np.clip(X, low, high)
        labels = model.predict(rows)
        for label in np.unique(labels):
            mean = rows[labels == label].mean(axis=0)
            off.append(np.abs(model.cluster_centers_[label] - mean) / (high - low) * 2)
            std.append(model.cluster_centers_std_[label] / (high - low) * 2)
    return np.array(off), np.array(std), most, 0.02 if name == "few" else 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*centres coincide")
def test_two_standard_errors_hold_the_mean_of_the_rows(fits):
    """95% of coordinates, and 92% in every column; a quarter of the errors is refuted.

    So are errors that are six times as large. With few rows all centres are at one mean, whose
    error is that of noise alone: 96% are within two, of which 100 fits may miss 2% more by chance.
    """
    off, std, most, slack = fits

    def holds(std):
        inside = off <= 2 * std + 1e-12
        return bool(inside.mean() >= 0.95 - slack and inside.mean(axis=0).min() >= 0.92 - slack)

    def is_tight(std):
        return bool(np.sqrt(np.mean(std**2) / np.mean(off**2)) <= most)

    assert holds(std) and is_tight(std)
    assert not holds(std / 4)
    assert not is_tight(6 * std)


# --- the part that is noise alone ----------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.filterwarnings("ignore:.*centres coincide")
def test_where_noise_hides_all_clusters_the_error_is_that_of_one_mean(delta):
    X = numbers_and_one_hot(np.random.default_rng(0), 200)
    model = dpkmeans(3, bounds=(0, 1), delta=delta).fit(X)
    assert [release.name for release in model.privacy_.releases] == ["mean"]
    np.testing.assert_array_equal(model.cluster_centers_std_, model.cluster_centers_noise_std_)
    # The fit has begun with the noise of several clusters.
    budget = StandInBudget(accountant="gdp" if delta else "basic")
    one = dpkmeans(1, bounds=(0, 1), delta=delta).set_params(budget=budget)
    error = np.sqrt(np.mean(np.square(model.cluster_centers_std_[0] * 2)))
    assert 0.97 < error / one.expected_error(200, 6) <= 1  # shrunk a little


@each(("columns", "delta", "algorithm"), [(4, 1e-6, "tree"), (20, 1e-6, "tree"), (4, 0.0, "lloyd")])
def test_errors_of_counts_cover_those_of_predict(columns, delta, algorithm):
    """The last step comes after them, so noise alone covers a third to two thirds of them."""
    off, std, noise = [], [], []
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(20_000, columns))
        model = dpkmeans(8, bounds=(-3, 3), delta=delta, algorithm=algorithm, random_state=seed)
        labels = model.fit(X).predict(np.clip(X, *model.bounds_))
        off.append(np.abs(model.cluster_counts_ - np.bincount(labels, minlength=8)))
        std.append(model.cluster_counts_std_)
        noise.append(np.full(8, model.cluster_counts_noise_std_))
    off, std, noise = map(np.array, (off, std, noise))
    assert np.mean(off <= 2 * std) >= 0.92 and np.mean(off <= 2 * noise) < 0.75
    assert np.sqrt(np.mean(std**2) / np.mean(off**2)) < 4.0


@pytest.mark.parametrize("algorithm", ["tree", "lloyd"])
@pytest.mark.parametrize("n_clusters", [1, 4])
def test_noise_is_a_part_of_the_error(algorithm, n_clusters):
    X = blobs(0, n=5000, k=4)
    model = dpkmeans(n_clusters, algorithm=algorithm).fit(X)
    noise, std = model.cluster_centers_noise_std_, model.cluster_centers_std_
    assert noise.shape == std.shape == model.cluster_centers_.shape
    assert np.all((noise > 0) & (noise <= std * (1 + 1e-9)))


def test_wider_bounds_tell_what_noise_hides():
    """The noise stays as it is (residuals set its unit); rows far out could be anywhere."""
    X = blobs(0, n=5000, k=4)
    near, wide = (dpkmeans(4, bounds=(-b, b)).fit(X) for b in (1.5, 12.0))
    shares = [
        np.median(model.cluster_centers_noise_std_ / model.cluster_centers_std_)
        for model in (near, wide)
    ]
    assert shares[0] > 2 * shares[1]
    assert shares[1] < 0.5
