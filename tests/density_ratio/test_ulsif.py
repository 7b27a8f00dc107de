"""DPuLSIF: its variants, what it reports, and that noise does what it says."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, SplineTransformer

from skdp import DPuLSIF, PrivacyBudget, PublishedRowsWarning
from skdp.budget import exact
from skdp.core.transcript import record, replay
from skdp.density_ratio import stack_samples
from tests.density_ratio.shifted import ratio_of, samples
from tests.folding import each

PUBLISHED = "published_private_rows"
RELATIONS = ("replace_one", "add_or_remove_one")


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


@each(("relation", "delta"), zip(RELATIONS, [0.0, 1e-6], strict=True))
@each("name", VARIANTS)
def test_every_variant_beats_equal_weights(name, delta, relation):
    """At epsilon = 2 and 4,000 private rows; the error of equal weights is 1.9."""
    public, _, X, y = samples()
    ledger = budget(relation)
    ratio = DPuLSIF(epsilon=2.0, delta=delta, budget=ledger, random_state=0, **VARIANTS[name])
    weights = ratio.fit(X, y).predict(public)
    assert weights.shape == (200,)
    assert np.all(np.isfinite(weights) & (weights >= 0))
    assert np.mean((weights - ratio_of(public)) ** 2) < 0.6 * np.mean((1 - ratio_of(public)) ** 2)
    assert ledger.spent.epsilon == 2.0 and ledger.spent.delta in (0.0, delta)
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
@pytest.mark.parametrize(("relation", "delta"), zip(RELATIONS, [0.0, 1e-6], strict=True))
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


@each(
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
@each("variant", ["default", "independent", "noisy", "laplacian"])
@each("relation", RELATIONS)
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


# --- refusals --------------------------------------------------------------------------------


@each(
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


@each("relation", RELATIONS)
@each("epsilon", [1e-6, 1e-3, 1e9])
@each("variant", ["default", "independent", "noisy", "noisy, independent"])
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
