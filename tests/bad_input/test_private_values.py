"""What depends on values is never refused: constant columns, one row, huge cells, no row."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from subjects import BOUNDED, ESTIMATORS, MARKED, VARIANTS, every_variant, takes_marks

from skdp import PrivacyBudget
from skdp.budget.budget import StandInBudget
from tests.folding import each

ADJACENCIES = ("replace_one", "add_or_remove_one")


def private_tables():
    """Yield (name, X): rows that are awkward, but rows."""
    rng = np.random.default_rng(1)
    yield "one row", np.array([[1.0, 2.0, 3.0]])
    yield "fewer rows than clusters", rng.normal(size=(2, 3))
    yield "twenty rows", rng.normal(size=(20, 3))
    yield "all rows equal", np.tile([[5.0, -7.0, 0.1]], (50, 1))
    yield "all zero", np.zeros((50, 3))
    yield "a constant column", np.column_stack([rng.normal(size=(50, 2)), np.full(50, 3.0)])
    yield "two values", np.repeat([[0.0, 0.0], [1.0, 1.0]], 25, axis=0)
    yield "an outlier", np.concatenate([rng.normal(size=(50, 3)), np.full((1, 3), 1e300)])
    yield "huge", rng.choice([-1e308, 1e308], size=(50, 3))
    yield "tiny", rng.choice([-5e-324, 5e-324], size=(50, 3))
    yield "one column", rng.normal(size=(50, 1))
    yield "more columns than rows", rng.normal(size=(5, 12))
    yield "booleans", rng.integers(0, 2, size=(50, 3)).astype(bool)
    yield "int8", rng.integers(-128, 128, size=(50, 3)).astype(np.int8)


def among_public(X):
    """Return (X, y): these private rows among public ones."""
    public = np.random.default_rng(2).normal(size=(8, X.shape[1]))
    table = np.concatenate([public[:3], X, public[3:]])
    return table, np.repeat([0, 1, 0], [3, len(X), 5])


def fit_private(estimator, X):
    """Fit the estimator on private rows that these are; there may be none of them."""
    with warnings.catch_warnings():
        # Of bins that coincide: by released quantiles.
        warnings.filterwarnings("ignore", message="DPKBinsDiscretizer")
        warnings.filterwarnings("ignore", message=".*rows are too few for this epsilon")
        warnings.filterwarnings("ignore", message="DPStandardScaler: bounds were learned")
        # Of centres that coincide: they are released.
        warnings.filterwarnings("ignore", message=".*centres coincide")
        return estimator.fit(*(among_public(X) if takes_marks(estimator) else (X,)))


def released(estimator):
    """Yield every fitted array or number of an estimator."""
    for name, value in vars(estimator).items():
        if name.endswith("_") and name not in (
            "privacy_",
            "feature_names_in_",
            "domain_",
            "domain_source_",
            "learned_ranges_",
        ):
            parts = value if isinstance(value, tuple | list) else (value,)
            if isinstance(value, np.ndarray) and value.dtype == object:
                parts = value  # arrays of several lengths
            for part in parts:
                if part is not None and not isinstance(part, str):
                    yield name, np.asarray(part, dtype=float)


def check_finite(e, name, value):
    """Everything is finite, but what is documented as NaN where it is not known.

    That is the errors of columns whose bounds were not learned well enough, the residuals of a
    clustering that has not measured them, how many rows change their cluster last, and the noise of
    components about an unknown radius.
    """
    unknown = (
        name in ("residual_scale_", "cluster_counts_std_")
        or (name.endswith("_std_error_") and e.get_params().get("bounds") == "private")
        or (name == "noise_level_" and e.norm_bound == "private" and e.n_resolved_ == 0)
    )
    if name == "bin_edges_":  # of a constant column minus and plus infinity, as scikit-learn's
        value = np.nan_to_num(value, nan=np.nan)
    assert np.all(np.isfinite(value) | (np.isnan(value) if unknown else False)), name


TABLES = list(enumerate(private_tables()))


@pytest.mark.filterwarnings("error")
@each(("turn", "X"), [pytest.param(turn, X, id=name) for turn, (name, X) in TABLES])
@every_variant
def test_private_values_never_raise(kind, turn, X):
    """Each table under both relations, and each privacy under one and the other in turn."""
    if kind == "kernel_density" and X.shape[1] > 10:
        return  # refused: the number of columns is public
    privacies = ({"epsilon": 1e-6}, {"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 1e6})
    for number, privacy in enumerate(privacies, turn):
        adjacency = ADJACENCIES[number % 2]
        e = clone({**ESTIMATORS, **VARIANTS}[kind])
        e.set_params(budget=StandInBudget(adjacency), **privacy)
        if "n_components" in e.get_params():
            e.set_params(n_components=1)
        fit_private(e, X)
        for name, value in released(e):
            check_finite(e, name, value)
        if hasattr(e, "transform"):
            assert not np.isnan(e.transform(X)).any()
        if hasattr(e, "predict"):
            assert len(e.predict(X)) == len(X)
        if hasattr(e, "score"):
            assert not np.isnan(e.score(*(among_public(X) if takes_marks(e) else (X,))))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("turn", "X"), [pytest.param(turn, X, id=name) for turn, (name, X) in TABLES]
)
@each("kind", [*BOUNDED, "ulsif_noisy"])
def test_private_values_never_raise_within_stated_bounds(kind, turn, X):
    """Bounds of zero width, bounds that hold no row, bounds that hold them all."""
    if kind == "kernel_density" and X.shape[1] > 10:
        return  # refused: the number of columns is public
    # Each bounds with each privacy and each relation, in turn from table to table.
    privacies = ({"epsilon": 0.1}, {"epsilon": 1.0, "delta": 1e-6})
    for number, bounds in enumerate(((0, 0), (1e6, 1e6 + 1), (-1e100, 1e100), (0, 1e-300)), turn):
        privacy, adjacency = privacies[number % 2], ADJACENCIES[number // 2 % 2]
        e = clone({**ESTIMATORS, **VARIANTS}[kind])
        e.set_params(budget=StandInBudget(adjacency), bounds=bounds, **privacy)
        fit_private(e, X)
        for name, value in released(e):
            check_finite(e, name, value)


@pytest.mark.filterwarnings("error")
@each("delta", [0.0, 1e-6])
@every_variant
def test_no_rows_are_rows_like_others_where_their_number_is_private(kind, delta):
    """An error, or no charge, would tell neighbours apart: a fold of a search may be empty."""
    budget = PrivacyBudget(10.0, 0.1, adjacency="add_or_remove_one")
    for n in (0, 1):
        X = np.zeros((n, 4))
        e = clone({**ESTIMATORS, **VARIANTS}[kind])
        e.set_params(budget=budget, epsilon=0.5, delta=delta)
        fit_private(e, X)
        for name, value in released(e):
            check_finite(e, name, value)
        for method in ("transform", "predict"):
            if hasattr(e, method):
                assert len(getattr(e, method)(X)) == n
        if hasattr(e, "score"):
            value = e.score(*(among_public(X) if takes_marks(e) else (X,)))
            # A density is 0 outside of the bounds that it has learned, and nowhere else.
            low, high = getattr(e, "bounds_", None) or (-np.inf, np.inf)
            inside = np.all((low <= X) & (high >= X))
            if kind == "pca" and value == -np.inf:
                continue  # no variance was found in some direction: there is no density
            assert np.isfinite(value) == bool(inside or not hasattr(e, "score_samples"))
    assert budget.spent.epsilon in (0.0, 1.0)  # nothing at all, or the same for both


# --- what depends on the public sample ------------------------------------------------------------


def public_tables():
    """Yield (name, X): public rows that are awkward, but rows."""
    for name, X in private_tables():
        if X.shape[1] == 3:
            yield name, X.astype(float)


@pytest.mark.filterwarnings("error")
@each("adjacency", ADJACENCIES)
@each("public", [pytest.param(X, id=name) for name, X in public_tables()])
@each("kind", [*MARKED, *VARIANTS])
def test_any_public_sample_gives_finite_weights(kind, public, adjacency):
    private = np.random.default_rng(3).normal(size=(30, 3))
    X, y = np.concatenate([private, public]), np.repeat([1, 0], [30, len(public)])
    for privacy in ({"epsilon": 1.0}, {"epsilon": 1e-3, "delta": 1e-6}):
        e = clone({**ESTIMATORS, **VARIANTS}[kind])
        e.set_params(budget=StandInBudget(adjacency), **privacy).fit(X, y)
        for name, value in released(e):
            assert np.all(np.isfinite(value)), name
        for rows in (X, np.sign(X) * 1e308, public[:1]):
            weights = e.predict(rows)
            assert np.all(np.isfinite(weights))
            assert np.all(weights >= 0)
        assert np.isfinite(e.score(X, y))
