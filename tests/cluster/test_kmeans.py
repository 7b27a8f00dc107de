"""DPKMeans: utility goals, the noise-free limit, what is released, fallbacks, bad input.

All noise is seeded, so every test is deterministic: no false alarms.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from skdp import BudgetExceededError, PrivacyBudget
from skdp.cluster import DPKMeans, _lloyd
from skdp.cluster._coreset import NodeCounts, shrinkage, sphere_packing
from skdp.core.transcript import record, replay
from tests.cluster.blobs import A, R, blobs, dpkmeans, four_corners, matched
from tests.folding import each

DELTAS = (0.0, 1e-6)
FITTED = (
    "cluster_centers_",
    "cluster_centers_std_",
    "cluster_centers_noise_std_",
    "cluster_counts_",
    "cluster_counts_std_",
    "cluster_counts_noise_std_",
    "bounds_",
    "n_distinct_",
    "n_iter_",
    "residual_scale_",
    "weight_bound_",
)


def inertia(X, centers):
    distances = np.square(X[:, None, :] - centers).sum(axis=2)
    return distances.min(axis=1).sum()


@pytest.fixture(scope="module")
def tables():
    """Five tables of blobs with the inertia of scikit-learn's k-means."""
    made = [blobs(seed) for seed in range(5)]
    return [(X, KMeans(8, n_init=10, random_state=0).fit(X).inertia_) for X in made]


@pytest.fixture(scope="module")
def corners():
    return four_corners()


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


# --- utility ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "epsilon", "delta", "goal"),
    [(A, 0.3, 1e-6, 1.02), (A, 1.0, 1e-6, 1.02), (A, 0.3, 0.0, 1.07), (R, 1.0, 0.0, 1.07)],
)
def test_blobs(tables, adjacency, epsilon, delta, goal):
    ratios = []
    for X, exact in tables:
        model = dpkmeans(adjacency=adjacency, epsilon=epsilon, delta=delta)
        ratios.append(inertia(X, model.fit(X).cluster_centers_) / exact)
    assert np.median(ratios) <= goal
    assert sorted(ratios)[3] <= goal + 0.15


@pytest.mark.parametrize(("epsilon", "delta", "goal"), [(1.0, 1e-6, 1.33), (0.3, 1e-6, 1.75)])
def test_digits(digits, epsilon, delta, goal):
    exact = KMeans(10, n_init=3, random_state=0).fit(digits).inertia_
    ratios = []
    for seed in range(3):
        model = dpkmeans(
            10, adjacency=A, epsilon=epsilon, delta=delta, bounds=(0, 16), random_state=seed
        )
        ratios.append(inertia(digits, model.fit(digits).cluster_centers_) / exact)
    assert np.median(ratios) <= goal


# Of rows as they are, at default bounds: multiples of the inertia of one exact centre. Noise on one
# box for all columns had 15 and 40 of them.
FEW = {"wine": (load_wine, 1.0, 3.0), "cancer": (load_breast_cancer, 2.0, 1.3)}


@pytest.mark.filterwarnings("ignore:.*centres coincide")
@pytest.mark.parametrize("table", FEW)
@pytest.mark.parametrize(("adjacency", "delta"), [(R, 0.0), (A, 1e-6)])
def test_few_rows_at_default_bounds(table, adjacency, delta):
    """Never far from one centre, all clusters with more epsilon, and the fit says which."""
    load, epsilon, goal = FEW[table]
    X = load().data
    one = np.square(X - X.mean(axis=0)).sum()
    few, many = [], []
    for seed in range(9):
        options = {"adjacency": adjacency, "delta": delta, "bounds": "private"}
        few.append(dpkmeans(3, epsilon=epsilon, random_state=seed, **options).fit(X))
        many.append(dpkmeans(3, epsilon=30.0, random_state=seed, **options).fit(X))
    assert np.median([-model.score(X) for model in few]) <= goal * one
    assert np.median([-model.score(X) for model in many]) <= 0.35 * one
    assert {model.n_distinct_ for model in many} == {3}


def test_one_centre_is_said_to_be_all():
    X = load_wine().data
    with pytest.warns(ConvergenceWarning, match="one private mean is all .*stated bounds"):
        model = dpkmeans(3, epsilon=0.5, bounds="private").fit(X)
    assert model.n_distinct_ == 1 and model.n_clusters == 3
    # So few rows that nothing is claimed of where they are.
    low, high = model.bounds_
    assert 178 * 0.5 < 150
    np.testing.assert_allclose(model.cluster_centers_std_[0], high / 2 - low / 2)
    assert np.all(model.cluster_centers_noise_std_ <= model.cluster_centers_std_)


def test_tree_beats_lloyd(tables):
    X, exact = tables[0]
    lloyd = dpkmeans(algorithm="lloyd", epsilon=0.3).fit(X)
    tree = dpkmeans(epsilon=0.3).fit(X)
    assert inertia(X, tree.cluster_centers_) < inertia(X, lloyd.cluster_centers_)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adjacency", [A, R])
def test_learned_bounds(corners, adjacency, delta):
    X, centers = corners
    model = dpkmeans(4, adjacency=adjacency, epsilon=5.0, delta=delta, bounds="private").fit(X)
    low, high = model.bounds_
    assert (low <= -0.8).all()
    assert (high >= 0.8).all()
    assert np.allclose(model.cluster_centers_[matched(model, centers)], centers, atol=0.1)
    names = [r.name for r in model.privacy_.releases]
    learned = names.index("locations")
    assert names[learned : learned + 2] == ["locations", "distances"]


def test_noise_drowns_structure_in_many_features(digits):
    """With hopeless noise the answer is one centre, the private mean, not a scatter of noise."""
    model = dpkmeans(10, adjacency=A, epsilon=0.1, delta=1e-6, bounds=(0, 16)).fit(digits)
    assert np.ptp(model.cluster_centers_, axis=0).max() == 0
    exact = KMeans(10, n_init=3, random_state=0).fit(digits).inertia_
    assert inertia(digits, model.cluster_centers_) / exact < 2.3  # the exact mean: 1.85


# --- the limit without noise ------------------------------------------------------------------


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adjacency", [A, R])
def test_lloyd_is_lloyd(monkeypatch, adjacency, delta):
    """With negligible noise every iteration is scikit-learn's, from the same start."""
    X = np.random.default_rng(0).normal(0, 0.5, size=(3000, 2)).clip(-1.5, 1.5)
    starts = []

    def spy(*args, **kwargs):
        starts.append(sphere_packing(*args, **kwargs))
        return starts[-1]

    monkeypatch.setattr(_lloyd, "sphere_packing", spy)
    model = dpkmeans(
        5, algorithm="lloyd", max_iter=4, adjacency=adjacency, epsilon=1e6, delta=delta
    ).fit(X)
    start = starts[0] * np.linalg.norm([1.5, 1.5])
    exact = KMeans(5, init=start, n_init=1, max_iter=4, tol=0, algorithm="lloyd").fit(X)
    assert np.allclose(model.cluster_centers_, exact.cluster_centers_, atol=1e-3)
    assert model.n_iter_ == 4
    # A shorter run is somewhere else: the comparison sees an iteration.
    shorter = KMeans(5, init=start, n_init=1, max_iter=3, tol=0, algorithm="lloyd").fit(X)
    assert not np.allclose(model.cluster_centers_, shorter.cluster_centers_, atol=1e-3)


@each("d", [2, 5, 20])
@each("delta", DELTAS)
def test_tree_without_noise(d, delta):
    rng = np.random.default_rng(0)
    centers = rng.uniform(-1, 1, size=(3, d))
    X = np.repeat(centers, 400, axis=0) + 0.03 * rng.normal(size=(1200, d))
    model = dpkmeans(3, epsilon=1e5, delta=delta).fit(X)
    exact = KMeans(3, n_init=5, random_state=0).fit(X).cluster_centers_
    assert np.allclose(model.cluster_centers_[matched(model, exact)], exact, atol=0.01)
    assert np.allclose(model.cluster_counts_, 400, atol=1)


@pytest.mark.parametrize("delta", DELTAS)
def test_one_cluster_is_the_mean(delta):
    X = np.random.default_rng(0).exponential(0.2, size=(5000, 3)) - 1
    model = dpkmeans(1, epsilon=100.0, delta=delta, bounds=(-1, 2)).fit(X)
    clipped = X.clip(-1, 2).mean(axis=0)
    assert np.allclose(model.cluster_centers_[0], clipped, atol=6 * model.cluster_centers_std_[0])
    assert np.all((model.cluster_centers_std_[0] > 0) & (model.cluster_centers_std_[0] < 0.01))


# --- what is released -------------------------------------------------------------------------


@each("params", [{}, {"algorithm": "lloyd"}, {"bounds": "private"}])
@each("delta", DELTAS)
@each("d", [2, 14])
def test_everything_comes_from_releases(params, delta, d):
    """Other rows with the same releases end in the same attributes, to the last bit."""
    rng = np.random.default_rng(0)
    X, other = rng.normal(0, 0.5, size=(300, d)), rng.uniform(size=(417, d))
    make = lambda: dpkmeans(3, adjacency=A, epsilon=2.0, delta=delta, **params)  # noqa: E731
    with record() as transcript:
        first = make().fit(X)
    with replay(transcript):
        second = make().fit(other)
    for name in FITTED:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    assert first.privacy_ == second.privacy_


@each("delta", DELTAS)
@each("adjacency", [A, R])
@each("params", [{}, {"algorithm": "lloyd"}, {"bounds": "private"}])
@each("d", [2, 14])
def test_charge_and_shares(adjacency, delta, params, d):
    X = np.random.default_rng(0).normal(size=(100, d))
    model = dpkmeans(3, adjacency=adjacency, delta=delta, **params).fit(X)
    (charge,) = model.budget.charges
    assert (charge.epsilon, charge.delta, charge.estimator) == (1.0, delta, "DPKMeans")
    shares = {}
    for release in model.privacy_.releases:
        # The parts of a joint release share its cost.
        joint = release.name.removesuffix(": counts").removesuffix(": sums")
        shares.setdefault(joint, []).append(release.share)
    assert model.privacy_.adjacency == adjacency
    assert sum(share for parts in shares.values() for share in parts) >= 0.9
    names = [r.name for r in model.privacy_.releases]
    assert ("count" in names) == (adjacency == A and not params.get("algorithm"))


def test_every_cluster_gets_noise_in_every_iteration():
    """Empty clusters too: a rival skips them, and so tells which are empty."""
    X = np.full((500, 2), 0.3)
    with record() as transcript:
        dpkmeans(6, algorithm="lloyd", max_iter=3).fit(X)
    assert [entry.released.shape for entry in transcript.entries] == [(6, 3)] * 3
    for entry in transcript.entries:
        assert (entry.exact[:, 0] == 0).sum() == 5
        assert np.all((entry.released != entry.exact).any(axis=1))


def test_nodes_of_the_tree_get_noise_empty_or_not():
    X = np.repeat([[-0.9, -0.9], [0.9, 0.9]], 500, axis=0)
    with record() as transcript:
        dpkmeans(2, epsilon=2.0, delta=1e-6).fit(X)
    rounds = [entry for entry in transcript.entries if entry.name == "node counts"]
    assert len(rounds) > 2
    for entry in rounds:
        assert entry.exact.sum() == 1000  # the whole frontier, once
    assert sum(((e.exact == 0) & (e.released != 0)).sum() for e in rounds) > 0


def test_no_exact_attributes(corners):
    model = dpkmeans(4).fit(corners[0])
    for name in ("labels_", "inertia_", "n_init"):
        assert not hasattr(model, name)
    assert {name for name in vars(model) if name.endswith("_")} == {
        *FITTED,
        "n_features_in_",
        "privacy_",
    }
    assert len(pickle.dumps(model)) < 20_000  # no row in it


def test_fit_predict_is_fit_then_predict(corners):
    X, _ = corners
    labels = dpkmeans(4, epsilon=3.0).fit_predict(X)
    model = dpkmeans(4, epsilon=3.0)
    assert np.array_equal(labels, model.fit(X).predict(X))
    assert len(model.budget.charges) == 1
    assert len(np.unique(labels)) == 4


def test_seeds():
    X = blobs(0, n=500)
    centers = [dpkmeans(4, random_state=s).fit(X).cluster_centers_ for s in (0, 0, 1, None)]
    assert np.array_equal(centers[0], centers[1])
    assert not np.array_equal(centers[0], centers[2])
    assert not np.array_equal(centers[0], centers[3])


# --- after the fit ----------------------------------------------------------------------------


def test_like_kmeans(corners):
    """predict, transform and score are those of a KMeans with the same centres."""
    X, _ = corners
    model = dpkmeans(4).fit(X)
    copied = KMeans(4, init=model.cluster_centers_, n_init=1, max_iter=1, random_state=0).fit(X)
    copied.cluster_centers_ = model.cluster_centers_.copy()
    assert np.array_equal(model.predict(X), copied.predict(X))
    assert np.allclose(model.transform(X), copied.transform(X))
    assert model.score(X) == pytest.approx(copied.score(X))
    assert model.score(X) == pytest.approx(-inertia(X, model.cluster_centers_))


def test_rows_too_large_to_square(corners):
    model = dpkmeans(4, epsilon=3.0).fit(corners[0])
    far = np.array([[1e308, 1e308], [-1e200, -1e308], [1e308, 0.0]])
    assert model.predict(far).shape == (3,)  # no distance tells the centres apart out there
    assert np.isfinite(model.transform(far)).all()
    assert np.isfinite(model.score(far))
    near = np.array([[1e6, 1e6], [-1e6, -1e6]])
    assert np.array_equal(model.predict(near), model.predict(near / 1e6))


def test_tables_and_names(corners):
    frame = pd.DataFrame(corners[0], columns=["east", "north"])
    model = dpkmeans(4, bounds=([-2, -2], [2, 2])).fit(frame)
    assert list(model.feature_names_in_) == ["east", "north"]
    names = [f"dpkmeans{i}" for i in range(4)]
    assert list(model.get_feature_names_out()) == names
    out = model.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == names
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"east": "west"}))


def test_before_fit():
    with pytest.raises(NotFittedError):
        DPKMeans().predict([[0.0]])


# --- fallbacks --------------------------------------------------------------------------------

ODD = {
    "one row": np.full((1, 2), 0.4),
    "fewer rows than clusters": np.random.default_rng(0).normal(size=(5, 3)),
    "all equal": np.full((60, 2), -1.25),
    "constant column": np.c_[np.zeros(60), np.linspace(-1, 1, 60)],
    "twenty": np.random.default_rng(1).normal(size=(20, 2)),
    "one feature": np.linspace(-5, 5, 50)[:, None],
    "many features": np.random.default_rng(2).normal(size=(20, 30)),
    "huge": np.full((30, 2), 1.7e308) * [1, -1],
    "tiny": np.full((30, 2), 1e-310),
}


@each("algorithm", ["tree", "lloyd"])
@each("rows", ODD)
def test_odd_rows(rows, algorithm):
    X = ODD[rows]
    for adjacency in (A, R):
        for delta in DELTAS:
            for epsilon, bounds in ((1e-3, (-1.5, 1.5)), (1e3, "private")):
                model = dpkmeans(
                    adjacency=adjacency,
                    epsilon=epsilon,
                    delta=delta,
                    algorithm=algorithm,
                    bounds=bounds,
                ).fit(X)
                centers = model.cluster_centers_
                assert centers.shape == (8, X.shape[1])
                assert np.isfinite(centers).all()
                assert (centers >= model.bounds_[0]).all()
                assert (centers <= model.bounds_[1]).all()
                assert np.isfinite(model.cluster_centers_std_).all()
                assert (model.cluster_counts_ >= 0).all()


@each("algorithm", ["tree", "lloyd"])
@each("n_clusters", [1, 3])
@each("bounds", [(2, 2), (-1e-200, 1e-200), (-1e100, 1e100), ([0, 1], [0, 3]), (1e99, 1.1e99)])
def test_odd_bounds(bounds, n_clusters, algorithm):
    X = np.random.default_rng(0).normal(size=(50, 2))
    for adjacency in (A, R):
        for delta in DELTAS:
            model = dpkmeans(
                n_clusters, adjacency=adjacency, delta=delta, bounds=bounds, algorithm=algorithm
            ).fit(X)
            assert np.isfinite(model.cluster_centers_).all()
            assert (model.cluster_centers_ >= model.bounds_[0]).all()
            assert (model.cluster_centers_ <= model.bounds_[1]).all()


# --- bad input --------------------------------------------------------------------------------


@each(
    ("params", "error", "match"),
    [
        ({"n_clusters": 0}, ValueError, "n_clusters must be an integer of at least 1"),
        ({"n_clusters": 2.0}, TypeError, "n_clusters must be an integer"),
        ({"n_clusters": True}, TypeError, "n_clusters"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"max_iter": 1001}, ValueError, "max_iter"),
        ({"algorithm": "elkan"}, ValueError, "algorithm must be 'tree' or 'lloyd'"),
        ({"algorithm": None}, ValueError, "algorithm must be 'tree' or 'lloyd'"),
        ({"bounds": (1, -1)}, ValueError, "bounds: low must not exceed high"),
        ({"bounds": ([0, 0, 0], 1)}, ValueError, "bounds"),
        ({"bounds": (0, np.inf)}, ValueError, "bounds: high must be finite"),
        ({"bounds": (0, 1e101)}, ValueError, "bounds: low and high must lie within"),
        ({"bounds": None}, TypeError, "bounds"),
        ({"bounds": "auto"}, ValueError, "bounds"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"epsilon": np.nan}, ValueError, "epsilon"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"budget": 1.0}, TypeError, "budget"),
    ],
)
def test_bad_parameters(params, error, match):
    budget = PrivacyBudget(10.0, 1e-5)
    model = DPKMeans(3, bounds=(-1, 1), budget=budget).set_params(**params)
    with pytest.raises(error, match=match):
        model.fit(np.zeros((30, 2)))
    assert not budget.charges
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_rows(bad):
    budget = PrivacyBudget(10.0)
    with pytest.raises(ValueError, match="NaN or infinity"):
        DPKMeans(3, budget=budget).fit([[0.0, bad], [1.0, 2.0]])
    assert not budget.charges


def test_budget_too_small():
    budget = PrivacyBudget(0.5)
    model = DPKMeans(2, epsilon=1.0, bounds=(0, 1), budget=budget)
    with pytest.raises(BudgetExceededError):
        model.fit([[0.0], [1.0]])
    assert not hasattr(model, "cluster_centers_")


def test_clone():
    model = dpkmeans(3)
    copied = clone(model)
    assert copied.budget is model.budget
    assert copied.get_params() == model.get_params()


# --- post-processing --------------------------------------------------------------------------


def test_tree_estimates_are_least_squares():
    """Against the normal equations, on an unbalanced tree with repeated measurements."""
    rng = np.random.default_rng(0)
    counts = NodeCounts(3)
    tree, rows = {1: [2, 3], 2: [4, 5], 5: [10, 11]}, []

    def measure(nodes, std):
        values = rng.normal(size=len(nodes)) * 10
        counts.add(np.array(nodes), values, std)
        rows.extend((node, value, std) for node, value in zip(nodes, values, strict=True))

    measure([1], 2.0)
    for node, std in ((1, 1.0), (2, 3.0), (5, 0.5)):
        children = counts.split(np.array([node]))
        assert list(children) == tree[node]
        measure([*children, 3] if node != 1 else list(children), std)
    leaves = [3, 4, 10, 11]

    def below(node):
        return [node] if node in leaves else [x for child in tree[node] for x in below(child)]

    design = np.array([[leaf in below(node) for leaf in leaves] for node, _, _ in rows], float)
    weights = np.array([std**-2 for _, _, std in rows])
    normal = design.T @ (weights[:, None] * design)
    exact = np.linalg.solve(normal, design.T @ (weights * [value for _, value, _ in rows]))
    value, error = counts.estimate(np.array(leaves))
    assert np.allclose(value, exact)
    assert np.allclose(error, np.sqrt(np.diag(np.linalg.inv(normal))))


def test_shrinkage_is_positive_part():
    assert shrinkage(10.0, 2.5) == 0.75
    assert shrinkage(1.0, 2.5) == shrinkage(0.0, 0.0) == 0.0


@pytest.mark.parametrize(("n", "d"), [(1, 1), (8, 2), (30, 3), (5, 40)])
def test_sphere_packing(n, d):
    points = sphere_packing(n, np.ones(d), np.random.default_rng(0))
    assert points.shape == (n, d)
    assert np.abs(points).max() <= 1
    if n == 8:
        distances = np.linalg.norm(points[:, None] - points, axis=2)[np.triu_indices(n, 1)]
        assert distances.min() > 0.4
    flat = sphere_packing(3, np.array([1.0, 0.0]), np.random.default_rng(0))
    assert np.all(flat[:, 1] == 0)


def test_counts_where_all_centres_coincide_are_equal_parts():
    kmeans = DPKMeans(3, bounds=(-1e6, 1e6)).fit(np.random.default_rng(0).normal(size=(100, 2)))
    assert kmeans.n_distinct_ == 1
    assert len(set(kmeans.cluster_counts_)) == 1 and np.isnan(kmeans.cluster_counts_std_).all()
    assert set(kmeans.predict([[-9.0, 0.0], [9.0, 0.0]])) == {0}


def test_centres_in_one_place_warn():
    with pytest.warns(ConvergenceWarning, match="all 3 centres coincide"):
        DPKMeans(3, bounds=(0, 1), epsilon=1e-4).fit(np.full((20, 2), 0.5))
