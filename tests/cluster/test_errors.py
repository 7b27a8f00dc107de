"""DPKMeans: standard errors of what is released, and `expected_error`, against what happens.

All noise is seeded, so every test is deterministic: no false alarms.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.cluster import DPKMeans
from tests.cluster.blobs import A, R, blobs, dpkmeans, four_corners, matched

DELTAS = (0.0, 1e-6)


@pytest.fixture(scope="module")
def corners():
    return four_corners()


# --- standard errors --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["tree", "lloyd"])
@pytest.mark.parametrize("delta", DELTAS)
def test_standard_errors(corners, algorithm, delta):
    """Centres scatter by no more than the stated standard error; 2/3 of it is refuted.

    160 errors of coordinates: the ratio of variances has a standard deviation of about 0.11, and
    1.6 is below 9/4. Errors count the last step too, so they may be larger: lloyd's, about twice.
    """
    X, centers = corners
    means = np.array([X[500 * i : 500 * (i + 1)].mean(axis=0) for i in range(4)])
    ratios = []
    for seed in range(20):
        # Residuals are far inside of what they are clipped to, and shrinkage does next to nothing.
        model = dpkmeans(
            4, algorithm=algorithm, epsilon=8.0, delta=delta, max_iter=3, random_state=seed
        ).fit(X)
        order = matched(model, means)
        found = model.cluster_centers_[order]
        if np.abs(found - centers).max() > 0.3:  # a start that lloyd cannot mend
            continue
        error = model.cluster_centers_std_[order]
        ratios.append(((found - means) / error).ravel())
    assert len(ratios) >= 10
    spread = np.mean(np.square(np.concatenate(ratios)))
    assert spread < 1.6
    if algorithm == "lloyd":  # the tree's steps are shrunk, which the error does not count on
        # A step is the noise of two iterations, and it is counted beside the noise of the last.
        assert spread > 0.25


TAILS = {
    "zeros and lognormal": (lambda r, n: r.lognormal(8, 1.2, n) * (r.random(n) > 0.7), 1e5),
    "lognormal": (lambda r, n: r.lognormal(0, 1, n), 50),
    "exponential": (lambda r, n: r.exponential(1, n), 20),
    "normal": (lambda r, n: r.normal(10, 1, n), 20),
}


@pytest.mark.parametrize(
    ("algorithm", "n", "tails"),
    [*(("tree", 5000, tails) for tails in TAILS), ("lloyd", 50_000, "exponential")],
)
def test_standard_errors_of_tails(algorithm, n, tails):
    """They cover clipped residuals and what is not converged, whatever the shape of a cluster.

    Without clipping a quarter of the centres of the first table are beyond 4 errors, and two
    thirds of lloyd's without the distance of its last step; one of 30 is allowed.
    """
    make, high = TAILS[tails]
    z = []
    for seed in range(10):
        X = np.clip(make(np.random.default_rng(seed), n), 0, high)[:, None]
        model = dpkmeans(3, bounds=(0, high), algorithm=algorithm, random_state=seed).fit(X)
        labels = model.predict(X)
        for label in np.unique(labels):
            off = model.cluster_centers_[label, 0] - X[labels == label].mean()
            z.append(abs(off) / model.cluster_centers_std_[label, 0])
    assert np.sum(np.array(z) > 4) <= 1
    assert np.sqrt(np.mean(np.square(z))) < 1.6


def test_standard_errors_where_nothing_is_known():
    model = dpkmeans(4, epsilon=1e-6).fit(np.zeros((20, 2)))
    assert np.isfinite(model.cluster_centers_std_).all()
    assert (model.cluster_centers_std_ > 0.1).all()


# --- expected_error ---------------------------------------------------------------------------


def error_of(X, low, high, make, fits):
    """Return the error in the unit of `expected_error`, measured here."""
    half, squares = (high - low) / 2, []
    clipped = X.clip(low, high)
    for seed in range(fits):
        centers = make().set_params(random_state=seed).fit(X).cluster_centers_
        labels = np.square(clipped[:, None] - centers).sum(axis=2).argmin(axis=1)
        means = np.array([clipped[labels == j].mean(axis=0) for j in labels])
        squares.append(np.mean(((centers[labels] - means) / half) ** 2))
    return np.sqrt(np.median(squares))


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "delta"), [(R, 0.0), (A, 1e-6)])
def test_expected_error(adjacency, delta):
    """About the error of fits on other rows of the same kind, columns of any width."""
    low, high = np.array([0.0, 0.0]), np.array([10.0, 1000.0])
    tables = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        far = np.repeat([200.0, 500.0, 800.0], 200)
        tables.append(np.c_[rng.normal(4, 1, 600), rng.normal(far, 30)])
    make = lambda: dpkmeans(  # noqa: E731
        3, adjacency=adjacency, delta=delta, epsilon=8.0, bounds=(low, high)
    )
    happened = error_of(tables[0], low, high, make, 15)
    for like in (tables[1], make().fit(tables[0])):
        assert happened / 1.7 < make().expected_error(600, like=like) < happened * 1.7
    assert not make().budget.charges


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adjacency", [A, R])
def test_expected_error_of_one_mean(adjacency, delta):
    """It needs no rows; 1.3 is 5 standard deviations of a root mean square of 150 errors."""
    X = np.random.default_rng(0).uniform([0, -5, 2], [1, 5, 2], size=(500, 3))
    make = lambda: dpkmeans(  # noqa: E731
        1, adjacency=adjacency, delta=delta, bounds=([0, -5, 2], [1, 5, 2]), random_state=None
    )
    errors = [
        (make().fit(X).cluster_centers_[0] - X.mean(axis=0))[:2] / [0.5, 5] for _ in range(75)
    ]
    happened = np.sqrt(np.mean(np.square(errors)) * 2 / 3)
    assert happened / 1.3 < make().expected_error(500) < happened * 1.3


def test_expected_error_knows_its_limits():
    model = DPKMeans(8, bounds=(-1, 1), epsilon=1.0)
    with pytest.raises(ValueError, match="like=, public rows"):
        model.expected_error(100, 2)
    with pytest.raises(ValueError, match="like=, public rows"):
        DPKMeans(1).expected_error(100, 2)
    with pytest.raises(ValueError, match="n_features"):
        DPKMeans(1, bounds=(-1, 1)).expected_error(100)
    assert DPKMeans(1, bounds=([0, 0], 1)).expected_error(100) > 0
    assert DPKMeans(1, bounds=(0, 1), epsilon=1e-6).expected_error(100, 2) == 1.0
    one = DPKMeans(1, bounds=(-1, 1)).fit(np.zeros((10, 2)))
    with pytest.raises(ValueError, match="residual_scale_"):
        model.expected_error(100, like=one)
    with pytest.raises(ValueError, match="n_samples"):
        model.expected_error(0, like=np.zeros((10, 2)))


def test_expected_error_refuses_another_number_of_columns():
    rows = np.zeros((10, 2))
    model = DPKMeans(3, bounds={"a": (0, 1), "b": (0, 1)})
    with pytest.raises(ValueError, match="like must have n_features = 7 columns, got 2"):
        model.expected_error(100, 7, like=rows)
    with pytest.raises(ValueError, match="bounds must have n_features = 3 columns, got 2"):
        DPKMeans(1, bounds=([0, 0], [1, 1])).expected_error(100, 3)


@pytest.mark.parametrize("tails", TAILS)
def test_residuals_are_not_far_too_small(tails):
    """The rows far out that noise hides count: the truth is at most six times what is shown."""
    make, high = TAILS[tails]
    for n in (1000, 20_000):
        shown = 0
        for seed in range(3):
            X = np.clip(make(np.random.default_rng(seed), n), 0, high)[:, None]
            model = dpkmeans(3, bounds=(0, high), random_state=seed).fit(X)
            truth = np.sqrt(np.mean((X - model.cluster_centers_[model.predict(X)]) ** 2))
            if np.isfinite(model.residual_scale_[0]):
                assert model.residual_scale_[0] / 4 < truth < 6 * model.residual_scale_[0]
                shown += 1
        assert shown >= (2 if n == 20_000 else 0)


@pytest.mark.slow
def test_clusters_that_do_not_separate_are_said():
    """Centres that are all one private mean are counted, and not predicted as if they were many."""
    X = blobs(0, n=100, k=3)
    assert dpkmeans(3, epsilon=0.1).fit(X).n_distinct_ == 1
    assert dpkmeans(3, epsilon=50.0).fit(X).n_distinct_ == 3
    with pytest.raises(ValueError, match="all centres are one private mean"):
        dpkmeans(3, epsilon=0.1).expected_error(100, like=X)
    first, second = (dpkmeans(3, epsilon=8.0).expected_error(5000, like=X) for _ in range(2))
    assert first == second > 0
