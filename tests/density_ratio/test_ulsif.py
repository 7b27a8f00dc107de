"""DPuLSIF: its variants, what it reports, and that noise does what it says."""

from __future__ import annotations

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
)

from skdp import DPuLSIF, PrivacyBudget, PublishedRowsWarning
from skdp.budget import exact
from skdp.core.transcript import record, replay
from skdp.density_ratio import stack_samples
from skdp.density_ratio._features import is_elementwise

PUBLISHED = "published_private_rows"
RELATIONS = ("replace_one", "add_or_remove_one")


def samples(seed=0, n=4000, N=200, d=2):
    rng = np.random.default_rng(seed)
    public, private = rng.normal(0, 1, (N, d)), rng.normal(0.6, 0.7, (n, d))
    return public, private, *stack_samples(private=private, public=public)


def ratio_of(public, d=2):
    """Return the true ratio of `samples`."""
    log = np.sum(public**2, axis=1) / 2 - np.sum((public - 0.6) ** 2, axis=1) / 2 / 0.49
    return np.exp(log) / 0.7**d


def budget(relation):
    return PrivacyBudget(1e9, 0.9, adjacency=relation)


VARIANTS = {
    "default": {},
    "independent": {"noise": "independent"},
    "laplacian": {"kernel": "laplacian"},
    "stated centres": {"centers": np.linspace(-2, 2, 20).reshape(-1, 2)},
    "noisy": {"centers": "noisy", "n_centers": 40},
    "noisy, independent": {"centers": "noisy", "noise": "independent", "n_centers": 40},
    "splines": {"basis": SplineTransformer(5), "basis_bounds": (0, 1)},
    "one-hot": {"basis": KBinsDiscretizer(4), "basis_bounds": (0, 1)},
    "random features": {
        "basis": RBFSampler(gamma=0.5, n_components=200, random_state=0),
        "basis_bounds": (-0.1, 0.1),
    },
    "stated numbers": {"gamma": 0.5, "alpha": 0.01},
    "candidates": {"gamma": [0.1, 0.7], "alpha": [0.001, 0.1]},
    "source's model": {"baseline": 0.0, "nonnegative": "coefficients", "gamma": 2.0, "alpha": 0.1},
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_beats_equal_weights(name, delta, relation):
    """At epsilon = 2 and 4,000 private rows; the error of equal weights is 1.9."""
    public, _, X, y = samples()
    ledger = budget(relation)
    ratio = DPuLSIF(epsilon=2.0, delta=delta, budget=ledger, random_state=0, **VARIANTS[name])
    weights = ratio.fit(X, y).predict(public)
    assert weights.shape == (200,)
    assert np.all(np.isfinite(weights) & (weights >= 0))
    assert np.mean((weights - ratio_of(public)) ** 2) < 0.6 * np.mean((1 - ratio_of(public)) ** 2)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (2.0, delta)
    assert ratio.privacy_.epsilon == 2.0
    assert 1 <= ratio.effective_sample_size_ <= 200
    squares = weights.sum() ** 2 / np.square(weights).sum()
    assert ratio.effective_sample_size_ == pytest.approx(squares)
    share = sum(release.share for release in ratio.privacy_.releases)
    assert share == pytest.approx(1.0)


def test_without_noise_to_speak_of_it_is_the_closed_form_of_ulsif():
    """At epsilon = 1e12: (H + alpha I)^-1 h of the exact samples, up to the kernel's grid."""
    public, private, X, y = samples()
    ratio = DPuLSIF(
        noise="independent", gamma=0.5, alpha=0.1, baseline=0.0, epsilon=1e12, n_centers=50,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    F = rbf_kernel(public, ratio.centers_, gamma=0.5)
    h = rbf_kernel(private, ratio.centers_, gamma=0.5).mean(axis=0)
    exact = np.linalg.solve(F.T @ F / len(public) + 0.1 * np.eye(50), h)
    np.testing.assert_allclose(ratio.coef_, exact, atol=1e-4)
    np.testing.assert_allclose(ratio.predict(public), np.maximum(F @ exact, 0), atol=1e-3)


def test_cutting_coefficients_is_the_sources_equation_19():
    public, private, X, y = samples()
    given = {"gamma": 2.0, "alpha": 0.01, "baseline": 0.0, "epsilon": 1e12, "n_centers": 50}
    ratio = DPuLSIF(noise="independent", nonnegative="coefficients", random_state=0, **given)
    free = DPuLSIF(noise="independent", random_state=0, **given).fit(X, y)
    assert ratio.fit(X, y).coef_.min() == 0.0
    assert free.coef_.min() < 0.0


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_reported_std_is_that_of_the_noise(delta, relation):
    """Over 200 fits: the ratio of empirical and reported std of weights is 1 within 20%.

    The std of a mean of about 30 independent directions: false alarms below 1e-6. Reports of 2/3
    and 3/2 of the truth are refused.
    """
    public, _, X, y = samples(n=500)
    ledger = budget(relation)
    weights, stds = [], []
    for seed in range(200):
        ratio = DPuLSIF(
            epsilon=3.0, delta=delta, gamma=0.5, alpha=1.0, n_centers=20, budget=ledger,
            centers=public[:20], random_state=seed, baseline=5.0,
        ).fit(X, y)  # fmt: skip
        w, std = ratio.predict(public, return_std=True)
        weights.append(w)
        stds.append(std)
    assert np.min(weights) > 0  # nothing is cut off
    found = np.sqrt(np.mean(np.var(weights, axis=0)))
    said = np.sqrt(np.mean(np.square(stds)))
    assert 0.8 < found / said < 1.25
    assert ratio.noise_std_ == pytest.approx(np.sqrt(np.mean(stds[-1] ** 2)))


def test_nothing_but_noise_ends_in_equal_weights():
    """One private row at epsilon = 1e-3: weights are almost equal, whatever the noise says."""
    public, _, _, _ = samples()
    X, y = stack_samples(private=np.zeros((1, 2)), public=public)
    fits = [DPuLSIF(epsilon=1e-3, random_state=seed).fit(X, y) for seed in range(20)]
    assert np.median([ratio.effective_sample_size_ / 200 for ratio in fits]) > 0.8
    # And it is said that they are noise, also where the weights fell and became equal.
    assert {bool(ratio.coef_.any()) for ratio in fits} == {True, False}
    for ratio in fits:
        assert ratio.noise_std_ > 0.1
        _, std = ratio.predict(public, return_std=True)
        assert np.sqrt(np.mean(np.square(std))) == pytest.approx(ratio.noise_std_)


def test_weights_that_noise_pushes_below_zero_become_equal():
    public, _, X, y = samples(n=1)
    ones = [
        DPuLSIF(epsilon=1e-4, random_state=seed, alpha=1e-4, baseline=0.0).fit(X, y)
        for seed in range(30)
    ]
    fallen = [ratio for ratio in ones if not ratio.coef_.any()]
    for ratio in ones:
        assert ratio.predict(public).max() > 0
    for ratio in fallen:
        assert np.array_equal(ratio.predict(public), np.ones(200))


@pytest.mark.parametrize(
    "public",
    [
        np.zeros((1, 2)),
        np.zeros((50, 2)),
        np.repeat([[0.0, 1.0], [1.0, 0.0]], 30, axis=0),
        np.column_stack([np.zeros(40), np.linspace(0, 1, 40)]),
        np.random.default_rng(0).normal(size=(30, 2)) * 1e200,
        np.random.default_rng(0).normal(size=(30, 2)) * 1e-200,
        np.random.default_rng(0).normal(size=(30, 2)) + 1e9,
    ],
    ids=["one row", "all the same", "two points", "constant column", "huge", "tiny", "far"],
)
@pytest.mark.parametrize("variant", ["default", "independent", "noisy", "laplacian"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_odd_public_samples_give_finite_weights(public, variant, relation):
    private = np.random.default_rng(1).normal(size=(300, 2))
    X, y = stack_samples(private=private, public=public)
    ratio = DPuLSIF(random_state=0, budget=budget(relation), **VARIANTS[variant]).fit(X, y)
    weights, std = ratio.predict(np.vstack([public, private, [[1e300, -1e300]]]), return_std=True)
    assert np.all(np.isfinite(weights) & (weights >= 0) & np.isfinite(std))
    assert np.isfinite(ratio.effective_sample_size_)
    assert np.isfinite(ratio.score(X, y))


def test_no_private_rows_at_all_under_add_or_remove_one():
    public, _, _, _ = samples()
    ratio = DPuLSIF(budget=budget("add_or_remove_one"), random_state=0)
    weights = ratio.fit(public, np.zeros(200)).predict(public)
    assert np.all(np.isfinite(weights) & (weights >= 0))
    assert np.isfinite(ratio.score(public, np.zeros(200)))


def test_the_release_does_not_grow_with_the_number_of_centers():
    """Correlated noise has the norm of one feature vector; independent noise of all centres."""
    public, _, X, y = samples(N=400)

    def sensitivity(**options):
        ratio = DPuLSIF(random_state=0, gamma=0.5, **options).fit(X, y)
        return ratio.privacy_.releases[0].sensitivity

    assert sensitivity(n_centers=400) < 1.01 * np.sqrt(2)
    assert sensitivity(n_centers=20) < 1.01 * np.sqrt(2)
    few = sensitivity(n_centers=20, noise="independent")
    assert sensitivity(n_centers=400, noise="independent") > 5 * few


# --- private centres ----------------------------------------------------------------------------


def test_published_rows_are_published_and_charged():
    """Variant C leaks: raw private rows stand in centers_; delta is their share, exactly."""
    _, private, X, y = samples(n=1000)
    ledger = PrivacyBudget(2.0, 0.05)
    ratio = DPuLSIF(PUBLISHED, n_centers=30, delta=0.04, budget=ledger, gamma=0.5)
    with pytest.warns(PublishedRowsWarning, match="publishes raw private rows"):
        ratio.fit(X, y)
    # To the kernel's grid, which is finer than a thousandth by far.
    gaps = np.abs(ratio.centers_[:, None] - private).max(axis=2).min(axis=1)
    assert gaps.max() < 1e-3
    assert (ledger.spent.epsilon, ledger.spent.delta) == (1.0, 0.03)
    assert ledger.charges[0].mechanism == "approximate"
    assert "raw rows published" in [r.mechanism for r in ratio.privacy_.releases]
    assert ratio.privacy_.delta == 0.03


@pytest.mark.parametrize(
    ("relation", "options", "text"),
    [
        ("replace_one", {"delta": 0.0}, "delta must be at least 0.03"),
        ("replace_one", {"delta": 0.0299}, "delta must be at least 0.03"),
        ("add_or_remove_one", {"delta": 0.9}, "sampling_rate must be given"),
        ("add_or_remove_one", {"delta": 0.1, "sampling_rate": 0.2}, "delta must be at least 0.2"),
    ],
)
def test_publication_is_refused_below_its_delta(relation, options, text):
    _, _, X, y = samples(n=1000)
    ledger = PrivacyBudget(2.0, 0.9, adjacency=relation)
    with pytest.raises(ValueError, match=text):
        DPuLSIF(PUBLISHED, n_centers=30, budget=ledger, **options).fit(X, y)
    assert not ledger.charges


def test_publication_under_add_or_remove_one_costs_the_rate():
    _, _, X, y = samples(n=1000)
    ledger = PrivacyBudget(2.0, 0.9, adjacency="add_or_remove_one")
    ratio = DPuLSIF(PUBLISHED, n_centers=30, budget=ledger, delta=0.5, sampling_rate=0.02)
    with pytest.warns(PublishedRowsWarning):
        ratio.fit(X, y)
    assert ledger.spent.delta == 0.02
    assert ratio.centers_.shape == (30, 2)
    assert ratio.privacy_cost().delta == 0.5


def test_a_budget_with_too_little_delta_refuses_a_publication():
    from skdp import BudgetExceededError

    _, _, X, y = samples(n=1000)
    ledger = PrivacyBudget(2.0, 0.01)
    ratio = DPuLSIF(PUBLISHED, n_centers=30, budget=ledger, delta=0.1)
    with pytest.warns(PublishedRowsWarning), pytest.raises(BudgetExceededError):
        ratio.fit(X, y)
    assert not ledger.charges


@pytest.mark.parametrize("relation", RELATIONS)
def test_noisy_centers_stay_in_their_box_and_their_number_is_public(relation):
    public, _, _, _ = samples()
    for n in (3, 50, 3000):
        private = np.random.default_rng(n).normal(5, 1, (n, 2))
        X, y = stack_samples(private=private, public=public)
        ratio = DPuLSIF("noisy", n_centers=25, bounds=(-1, 2), budget=budget(relation)).fit(X, y)
        assert ratio.centers_.shape == (25 if relation != "replace_one" else min(25, n), 2)
        assert np.all((ratio.centers_ >= -1.001) & (ratio.centers_ <= 2.001))


# --- a basis ---------------------------------------------------------------------------------


def test_a_basis_of_any_transformer_is_mapped_row_by_row_and_fails_row_by_row():
    public, private, X, y = samples(n=300)

    def fragile(table):
        table = np.asarray(table)
        if len(table) == 1 and table[0, 0] > 1.0:
            raise ValueError("a private cell")
        return np.column_stack([table[:, 0] > 0, table[:, 1] > 0]).astype(float)

    basis = FunctionTransformer(fragile)
    ratio = DPuLSIF(basis=basis, basis_bounds=(0, 1), epsilon=1e6, random_state=0)
    with record() as transcript:
        ratio.fit(X, y)
    good = private[:, 0] <= 1.0
    expected = np.where(good, private[:, 1] > 0, 0.5).mean() - 0.5
    view = transcript.entries[-1].exact
    assert view[1] / 2.0**32 / 300 == pytest.approx(expected, abs=1e-8)


def test_basis_with_names_in_a_pipeline_of_columns():
    from sklearn.compose import make_column_transformer

    public, private, _, _ = samples(n=500)
    frame = {"private": private, "public": public}
    X, y = stack_samples(**{k: pd.DataFrame(v, columns=["a", "b"]) for k, v in frame.items()})
    basis = make_column_transformer(
        (KBinsDiscretizer(3), ["a"]), (SplineTransformer(4), ["b"]), sparse_threshold=0
    )
    ratio = DPuLSIF(basis=basis, basis_bounds=(0, 1), epsilon=5.0, random_state=0).fit(X, y)
    assert list(ratio.feature_names_in_) == ["a", "b"]
    assert ratio.centers_ is None
    assert ratio.gamma_ is None
    assert ratio.predict(X[y == 0]).shape == (200,)


def test_basis_is_fitted_on_public_rows_only():
    public, private, X, y = samples(n=500)
    ratio = DPuLSIF(basis=KBinsDiscretizer(3), basis_bounds=(0, 1), random_state=0).fit(X, y)
    edges = KBinsDiscretizer(3).fit(public).bin_edges_
    for found, expected in zip(ratio._features.transformer.bin_edges_, edges, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "basis",
    [
        PolynomialFeatures(3),
        SplineTransformer(5, extrapolation="continue"),
        SplineTransformer(5, extrapolation="periodic"),
        KBinsDiscretizer(4),
        KBinsDiscretizer(4, encode="ordinal"),
        OneHotEncoder(handle_unknown="ignore"),
    ],
    ids=str,
)
def test_transformers_that_are_mapped_in_blocks_give_a_row_the_same_bits_alone(basis):
    """What `_ELEMENTWISE` rests on: blocks of any length and order, to the last bit."""
    rng = np.random.default_rng(0)
    public = rng.normal(size=(100, 3)).round(0 if isinstance(basis, OneHotEncoder) else 9)
    rows = rng.normal(size=(257, 3)) * 3
    basis.fit(public)

    def outputs(part):
        made = basis.transform(part)
        return np.asarray(made.toarray() if hasattr(made, "toarray") else made)

    whole = outputs(rows)
    alone = np.vstack([outputs(rows[i : i + 1]) for i in range(257)])
    assert np.array_equal(whole, alone)
    order = rng.permutation(257)
    assert np.array_equal(outputs(rows[order]), whole[order])
    assert np.array_equal(outputs(rows[3:20]), whole[3:20])


# --- scikit-learn ------------------------------------------------------------------------------


def test_search_cross_validation_and_pipeline():
    public, _, X, y = samples(n=800)
    ledger = PrivacyBudget(100.0)
    ratio = DPuLSIF(epsilon=1.0, budget=ledger, random_state=0)
    scores = cross_val_score(ratio, X, y, cv=KFold(4))
    assert np.isfinite(scores).all()
    assert ledger.spent.epsilon == 4.0
    search = GridSearchCV(ratio, {"gamma": [0.01, 0.5]}, cv=KFold(3)).fit(X, y)
    assert ledger.spent.epsilon == 4.0 + 7.0
    assert search.best_params_ == {"gamma": 0.5}
    pipe = make_pipeline(FunctionTransformer(), ratio).fit(X, y)
    assert pipe.predict(public).shape == (200,)
    assert pipe.score(X, y) > 0.5


def test_score_is_minus_the_criterion_of_the_source():
    public, private, X, y = samples(n=800)
    ratio = DPuLSIF(random_state=0).fit(X, y)
    J = np.mean(ratio.predict(public) ** 2) / 2 - ratio.predict(private).mean()
    assert ratio.score(X, y) == pytest.approx(-J)
    shuffled = np.random.default_rng(0).permutation(len(X))
    assert ratio.score(X[shuffled], y[shuffled]) == pytest.approx(-J)


def test_weights_make_a_public_model_private_like():
    """The use: a misspecified classifier of public rows is better where private rows are."""
    rng = np.random.default_rng(5)
    public, private = rng.normal(0, 1, (2000, 1)), rng.normal(1.2, 0.4, (20000, 1))

    def label(x):
        return (np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=len(x)) > 0).astype(int)

    E, D = label(public), label(private)
    X, y = stack_samples(private=private, public=public)
    weights = DPuLSIF(epsilon=1.0, random_state=0).fit(X, y).predict(public)
    plain = LogisticRegression().fit(public, E).score(private, D)
    weighted = LogisticRegression().fit(public, E, sample_weight=weights).score(private, D)
    assert weighted > plain + 0.05


def test_seeded_fits_that_differ_in_the_public_sample_share_no_noise():
    public, private, _, _ = samples()
    noises = []
    for shift in (0.0, 1e-9):
        X, y = stack_samples(private=private, public=public + shift)
        with record() as transcript:
            DPuLSIF(centers=public[:20], gamma=0.5, random_state=0).fit(X, y)
        entry = transcript.entries[0]
        noises.append(entry.released - entry.exact)
    assert not np.array_equal(*noises)


def test_replay_ignores_the_private_rows():
    public, private, X, y = samples(n=300)
    other, marks = stack_samples(private=private[::-1] * 7 + 3, public=public)
    with record() as transcript:
        first = DPuLSIF(random_state=0).fit(X, y)
    with replay(transcript):
        second = DPuLSIF(random_state=0).fit(other, marks)
    assert np.array_equal(first.coef_, second.coef_)
    assert first.alpha_ == second.alpha_


# --- a basis is the user's code: it must not remember, nor see more than it may ---------------


class Remembering(TransformerMixin, BaseEstimator):
    """Keeps the rows that it transforms, writes into them, and counts its calls."""

    def fit(self, X, y=None):
        self.kept_ = [X]
        return self

    def transform(self, X):
        self.kept_.append(X.copy())
        made = np.column_stack([X[:, 0] > 0, np.full(len(X), len(self.kept_) % 2)]).astype(float)
        X[:] = 777.0
        return made


def test_a_basis_that_remembers_keeps_no_private_row_and_moves_no_other():
    """Contiguous samples, too: the public part of a table must not be a view of all of it."""
    public, private, _, _ = samples(n=200)
    X = np.vstack([private, public])
    y = np.r_[np.ones(200), np.zeros(200)]
    before = X.copy()
    exact = []
    for changed in (False, True):
        table = X.copy()
        table[0] += 5.0 * changed
        ratio = DPuLSIF(basis=Remembering(), basis_bounds=(0, 1), epsilon=9.0, random_state=0)
        with record() as transcript:
            ratio.fit(table, y)
        exact.append((transcript.entries[-1].exact, transcript.entries[-1].sensitivity))
        pickled = pickle.dumps(ratio)
        assert not any(row.tobytes() in pickled for row in private)
        assert all(len(kept) == 200 for kept in ratio._features.transformer.kept_)
    assert np.array_equal(X, before)
    (first, sensitivity), (second, _) = exact
    assert np.linalg.norm((first - second).astype(float)) <= sensitivity


def test_a_basis_with_a_generator_of_its_own_moves_by_one_row_only():
    """A transformer that draws as it transforms would shift the draws of all rows after a gap."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    def hide(X):
        return np.where(X > 1.0, np.nan, X)

    public, private, _, _ = samples(n=60, N=60)
    basis = make_pipeline(
        FunctionTransformer(hide),
        IterativeImputer(sample_posterior=True, random_state=0, max_iter=1),
    )
    tables = [private, np.vstack([[[5.0, 0.0]], private[1:]])]
    entries = []
    for table in tables:
        X, y = stack_samples(private=table, public=public)
        with record() as transcript:
            DPuLSIF(basis=basis, basis_bounds=(-1, 1), random_state=0).fit(X, y)
        entries.append(transcript.entries[-1])
    distance = entries[0].distance(entries[0].exact, entries[1].exact)
    assert distance <= entries[0].sensitivity


@pytest.mark.parametrize("kind", ["list", "categorical", "index", "dtype"])
def test_types_of_the_table_that_private_rows_decide_do_not_reach_the_basis(kind):
    """Replay: the fitted attributes are the same whatever the private rows are."""

    def frames(values):
        frame = pd.DataFrame({"c": values})
        if kind == "list":
            return [[v] for v in values]
        if kind == "categorical":
            return frame.astype("category")
        if kind == "index":
            frame.index = np.arange(len(frame)) + int(values[0])
        return frame

    def widths(X):
        names = pd.get_dummies(X, columns=["c"]).columns if hasattr(X, "columns") else [0]
        return np.full((len(X), 2), float(len(names) + str(getattr(X, "dtype", "")).count("int")))

    y = np.r_[1, np.zeros(6)]
    tables = [frames([v, 0, 1, 2, 0, 1, 2]) for v in (1, 2.5 if kind != "categorical" else 7)]
    basis = make_pipeline(FunctionTransformer(widths))
    fits = []
    with record() as transcript:
        fits.append(DPuLSIF(basis=basis, basis_bounds=(0, 9), random_state=0).fit(tables[0], y))
    with replay(transcript):
        fits.append(DPuLSIF(basis=basis, basis_bounds=(0, 9), random_state=0).fit(tables[1], y))
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


def test_rows_that_a_basis_fails_on_are_alike_in_both_samples_and_in_predict():
    """Two samples of one distribution, where the logarithm of some rows is not finite."""
    values = np.tile([0.0, np.e], 300)[:, None]
    X, y = stack_samples(private=np.repeat(values, 10, axis=0), public=values)
    ratio = DPuLSIF(
        basis=FunctionTransformer(np.log), basis_bounds=(-2, 2), epsilon=1e4, alpha=1e-4,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ratio.predict(values), 1.0, atol=0.02)
    strict = DPuLSIF(basis=OneHotEncoder(), basis_bounds=(0, 1), random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(strict.predict([[777.125], [0.0]])).all()
        assert np.isfinite(strict.score([[777.125], [0.0], [np.e]], [1, 0, 0]))


def test_a_basis_that_spends_a_budget_or_cannot_be_copied_is_refused():
    from skdp import DPStandardScaler

    class Locked(FunctionTransformer):
        def __reduce__(self):
            raise RuntimeError("no copies")

        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

        def __sklearn_clone__(self):
            return self

    _, _, X, y = samples(n=100)
    ledger = PrivacyBudget(10.0)
    private = DPStandardScaler(bounds=(-3, 3), budget=ledger)
    for basis in (private, make_pipeline(private)):
        with pytest.raises(ValueError, match="spends no privacy budget"):
            DPuLSIF(basis=basis, basis_bounds=(-3, 3), budget=ledger).fit(X, y)
    with pytest.raises(TypeError, match="can be pickled or copied"):
        DPuLSIF(basis=Locked(), basis_bounds=(-3, 3), budget=ledger).fit(X, y)
    assert not ledger.charges


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"centers": PUBLISHED, "delta": 0.5, "basis": SplineTransformer()}, "with a basis"),
        ({"centers": "noisy", "basis": SplineTransformer()}, "with a basis"),
        ({"nonnegative": "coefficients"}, "baseline must be 0"),
        ({"alpha": 1e-18}, "alpha must be"),
        ({"alpha": [0.1, 1e-320]}, "alpha must be"),
        ({"centers": "noisy", "bounds": (-1e308, 1e308)}, "within 1e100"),
        ({"basis": SplineTransformer(), "basis_bounds": (-1e200, 1e200)}, "within 1e9"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_charge(options, text):
    _, _, X, y = samples(n=100)
    ledger = PrivacyBudget(10.0, 0.9)
    options = {"basis_bounds": (0, 1), **options} if "basis" in options else options
    with pytest.raises(ValueError, match=text):
        DPuLSIF(budget=ledger, **options).fit(X, y)
    assert not ledger.charges


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1e9])
@pytest.mark.parametrize("variant", ["default", "independent", "noisy", "noisy, independent"])
def test_no_fit_fails_after_its_charge(variant, epsilon, relation):
    public = np.repeat(np.arange(5.0), 40)[:, None] * 1e150
    X, y = stack_samples(private=np.full((3, 1), -1e300), public=public)
    options = {**VARIANTS[variant], "n_centers": 150, "alpha": 1e-8, "gamma": [1e-300, 1.0, 1e300]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ratio = DPuLSIF(epsilon=epsilon, budget=budget(relation), **options).fit(X, y)
    assert np.isfinite(ratio.predict(X)).all()
    assert np.isfinite(ratio.noise_std_)


def test_private_centres_have_no_expected_error():
    for centers in ("noisy", PUBLISHED):
        ratio = DPuLSIF(centers=centers) if centers == "noisy" else DPuLSIF(centers, delta=0.1)
        with pytest.raises(ValueError, match=r"come from the private rows.*centers='public'"):
            ratio.expected_error(1000, np.zeros((5, 2)), like=np.zeros((5, 2)))


def test_a_share_that_no_float_is_equal_to_can_be_stated_as_the_formula_has_it():
    for size, n in [(1, 60), (3, 61), (7, 90)]:
        _, _, X, y = samples(n=n)
        ledger = PrivacyBudget(10.0, 0.9)
        ratio = DPuLSIF(PUBLISHED, n_centers=size, delta=size / n, budget=ledger)
        with pytest.warns(PublishedRowsWarning):
            ratio.fit(X, y)
        assert ledger.spent.delta >= size / n
        assert exact(ledger.spent.delta) >= Fraction(size, n)


@pytest.mark.parametrize("make", [make_pipeline, FeatureUnion])
def test_compositions_of_elementwise_transformers_are_mapped_in_blocks(make):
    steps = [SplineTransformer(4), PolynomialFeatures(2)]
    basis = make(*steps) if make is make_pipeline else make([("a", steps[0]), ("b", steps[1])])
    assert is_elementwise(basis)
    assert not is_elementwise(make_pipeline(SplineTransformer(), FunctionTransformer()))
    assert is_elementwise(make_column_transformer((SplineTransformer(), [0]), remainder="drop"))
