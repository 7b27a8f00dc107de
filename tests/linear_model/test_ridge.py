"""Ridge and least squares: how good predictions are, and what `summary()` claims."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

from skdp import PrivacyBudget
from skdp.core import Box, Mean, open_session
from skdp.linear_model import DPLinearRegression, DPRidge
from skdp.queries import Labels, OfColumn, row_counts
from skdp.tabular import check_with_target

A, R = "add_or_remove_one", "replace_one"


def budget(relation=R):
    return PrivacyBudget(1e9, 0.1, adjacency=relation)


def work(n, seed=0):
    """Return years of school and of work with their square, and log wages."""
    rng = np.random.default_rng(seed)
    years = rng.uniform(0, 40, n)
    X = np.column_stack([rng.integers(6, 19, n), years, years**2])
    return X, X @ [0.09, 0.05, -0.0007] + 4.5 + rng.normal(scale=0.6, size=n)


WORK = {"bounds": ([6, 0, 0], [18, 40, 1600]), "target_bounds": (3, 10)}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("delta", "relation", "epsilon", "kind", "exact"),
    [
        (0.0, R, 10.0, DPLinearRegression, LinearRegression()),
        (1e-6, A, 6.0, DPLinearRegression, LinearRegression()),
        (1e-6, R, 6.0, DPRidge, Ridge(2000.0)),
        (0.0, A, 6.0, DPRidge, Ridge(2000.0)),
    ],
)
def test_the_summary_covers_collinear_coefficients(delta, relation, epsilon, kind, exact):
    """95% intervals of 60 fits, coefficient by coefficient.

    Of 60, fewer than one run in 10**5 has more than 12 outside. Claims that are three times too
    wide leave all but .3% inside of half an interval; 4 outside of it are asked (of about 16).
    """
    X, y = work(10_000)
    exact.fit(X, y)
    truth = np.append(exact.coef_, exact.intercept_)
    more = {"alpha": 2000.0} if kind is DPRidge else {}
    model = kind(**WORK, **more, delta=delta, epsilon=epsilon, budget=budget(relation))
    far = []
    for _ in range(60):
        made = clone(model).fit(X, y)
        summary = made.summary(of="rows")
        if np.isfinite(summary.std_error).all():
            far.append(np.abs(summary.coef - truth) / summary.std_error)
        # Errors beside coefficients that are shrunk would not cover: they are NaN.
        assert np.isfinite(made.coef_std_error_).all() <= (made.noise_level_ == 0.0)
    assert len(far) >= 50
    assert ((np.array(far) > 1.96).sum(axis=0) <= 12).all()
    assert ((np.array(far) > 0.98).sum(axis=0) >= 4).all()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_note_says_how_many_rows_would_give_errors(delta):
    """Of fits with so many 80% have errors or more: none of 6 by a chance of at most 1e-4."""
    X, y = work(2000)
    X = X[:, :2]
    stated = {"bounds": ([6, 0], [18, 40]), "target_bounds": (3, 10)}
    model = DPLinearRegression(**stated, delta=delta, epsilon=0.05, budget=budget())
    summary = model.fit(X, y).summary()
    assert np.isnan([*summary.std_error, *summary.p_value, *summary.low]).all()
    # Hidden scales tell nothing of the rows that are needed.
    assert "n * epsilon" not in summary.note
    model.set_params(bounds=([6, -900], [18, 40]), epsilon=1.0)
    notes = [model.fit(X, y).summary().note for _ in range(3)]
    wide = re.compile(r"n \* epsilon (=|of at least) [\d,]+ or narrower .* from the mean: 1 \(")
    assert any(wide.search(note) for note in notes)
    model.set_params(bounds=stated["bounds"])
    numbers = (
        re.search(r"n \* epsilon = ([\d,]+)", model.fit(X, y).summary().note)
        for model.epsilon in np.geomspace(0.3, 3.0, 20)
    )
    needed = float(next(number for number in numbers if number)[1].replace(",", ""))
    model.set_params(epsilon=needed / 2000)
    richer = [model.fit(X, y).summary() for _ in range(6)]
    assert sum(np.isfinite(summary.std_error).all() for summary in richer) >= 1
    assert str(richer[0]).count("\n") == 4
    assert richer[0].to_frame().shape == (3, 6)
    model.set_params(bounds=(0, 40))
    assert "hides a direction" in model.fit(X[:, [1, 1]], y).summary().note


def population(n, rng):
    """Return two columns that are alike, of which the second has no effect, and a target."""
    first = rng.normal(size=n)
    X = np.column_stack([first, 0.8 * first + 0.6 * rng.normal(size=n)])
    return X, first + rng.normal(size=n)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("delta", "relation", "n", "epsilon", "alpha"),
    [(0.0, R, 2000, 20.0, 0.0), (1e-6, A, 4000, 4.0, 0.0), (0.0, A, 2000, 8.0, 400.0)],
)
def test_intervals_of_a_population_cover_and_p_values_are_uniform(
    delta, relation, n, epsilon, alpha
):
    """Of 250 samples, with a false alarm in fewer than one run in 10**4 (three cases together).

    Counts are within four deviations of the nominal ones for three coefficients at three levels (10
    for the rarest misses). The sampling error left out at n epsilon = 40,000 leaves 60% inside of
    90% intervals: 18 deviations. The Kolmogorov-Smirnov test of the p-values of no effect, with
    alpha = 0, has the level 1e-5.
    """
    rng = np.random.default_rng(0)
    moments = np.array([[1.0, 0.8], [0.8, 1.0]])
    truth = np.linalg.solve(moments + np.eye(2) * alpha / n, moments[0])
    model = DPRidge(
        alpha, bounds=(-4, 4), target_bounds=(-7, 7), delta=delta, epsilon=epsilon,
        budget=budget(relation),
    )  # fmt: skip
    levels = np.array([0.9, 0.95, 0.99])
    inside, p_values = [], []
    for _ in range(250):
        made = model.fit(*population(n, rng))
        found = [made.summary(level) for level in levels]
        inside.append([(s.low <= [*truth, 0.0]) & (s.high >= [*truth, 0.0]) for s in found])
        p_values.append(found[0].p_value[1])
    assert np.isfinite(p_values).mean() > 0.95
    misses = 250 - np.sum(inside, axis=0) - np.isnan(p_values).sum()
    expected = 250 * (1 - levels)
    reach = np.maximum(4 * np.sqrt(expected * levels), 10 - expected)
    assert (np.abs(misses - expected[:, None]) <= reach[:, None]).all()
    if not alpha:
        assert kstest(np.array(p_values)[np.isfinite(p_values)], "uniform").pvalue > 1e-5


def test_rows_of_one_unit_have_no_errors_of_a_population():
    X, y = work(4000)
    ledger = PrivacyBudget(1e9, 0.1, unit="user")
    model = DPLinearRegression(**WORK, epsilon=100.0, max_rows_per_unit=2, budget=ledger)
    model.fit(X, y, groups=np.arange(4000) // 2)
    assert np.isnan(model.summary().std_error).all()
    assert "of='rows'" in model.summary().note
    assert np.isfinite(model.summary(of="rows").std_error).all()
    for wrong in ({"of": "row"}, {"level": 1.0}):
        with pytest.raises(ValueError, match=r"must be"):
            model.summary(**wrong)


def test_predictions_leave_out_a_constant_column():
    """Its coefficient was the largest of all in half of the fits."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(20_000, 2)), np.full(20_000, 2.0)])
    model = DPRidge(bounds=(-4, 4), target_bounds=(-9, 9), epsilon=3.0, budget=budget())
    model.fit(X, X.sum(axis=1) + rng.normal(size=20_000))
    assert abs(model.coef_[2]) < 0.2
    assert (np.abs(model.coef_[:2] - 1) < 0.2).all()


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_predictions_are_not_worse_than_the_mean(delta):
    """Twelve columns, 300 rows: before, the R squared was below -1 at the least epsilon.

    Means of 20 fits. The error of the mean of the target is at most .4 of the allowance's, or .98
    of it where noise hides the columns; four standard errors of these means are allowed for.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12))
    y = X[:, 0] - X[:, 1] + rng.normal(size=300)
    model = DPRidge(bounds=(-3, 3), target_bounds=(-6, 6), delta=delta, budget=budget())
    for epsilon, floor in ((0.1, -0.4 if delta == 0 else -5.0), (0.5, -0.1), (2.0, 0.05)):
        scores = [clone(model).set_params(epsilon=epsilon).fit(X, y).score(X, y) for _ in range(20)]
        assert np.mean(scores) > floor - 4 * np.std(scores) / math.sqrt(20)
    best = clone(model).set_params(epsilon=1000.0).fit(X, y).score(X, y)
    assert best > Ridge().fit(X, y).score(X, y) - 0.02


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_few_rows_without_bounds_predict_about_the_median(delta):
    """Learned bounds missed the target in a third of such fits, with an R squared below -5."""
    X, y = work(200)
    y = 1000.0 * y
    model = DPRidge(epsilon=1.0, delta=delta, budget=budget())
    scores = []
    for _ in range(9):
        with pytest.warns(UserWarning, match="State target_bounds"):
            made = clone(model).fit(X, y)
        assert made.noise_level_ == math.inf
        assert np.isnan(made.summary().std_error).all()
        assert np.isfinite(made.predict(X)).all()
        scores.append(made.score(X, y))
    assert np.median(scores) > -0.3


def test_rows_and_results_are_clipped():
    X, y = work(2000)
    model = DPRidge(**WORK, epsilon=100.0, budget=budget()).fit(X, y)
    far = np.array([[1e9, -1e9, 1e300], [18.0, 0.0, 1600.0]])
    np.testing.assert_array_equal(model.predict(far)[0], model.predict(far)[1])
    model.coef_ = model.coef_ * 1e6
    assert set(model.predict(np.vstack([X, -X]))) <= {3.0, 10.0}


def test_a_constant_is_shown_where_noise_hides_the_rows():
    X, y = work(500)
    model = DPRidge(**WORK, epsilon=1e-3, budget=budget()).fit(X, y)
    assert model.noise_level_ == math.inf
    np.testing.assert_array_equal(model.coef_, 0.0)
    shares = {release.name: release.share for release in model.privacy_.releases}
    assert shares["point amid the targets"] == 0.75
    assert len(shares) == 1


def test_a_column_whose_bounds_are_equal_has_no_coefficient():
    X, y = work(5000)
    X = np.column_stack([X[:, :2], np.full(len(X), 7.0)])
    model = DPLinearRegression(
        bounds=([6, 0, 2], [18, 40, 2]), target_bounds=(3, 10), epsilon=20.0, budget=budget()
    ).fit(X, y)
    assert model.coef_[2] == model.summary().std_error[2] == 0.0
    assert (model.summary().std_error[:2] > 0).all()


@pytest.mark.parametrize("private", [False, True])
def test_a_constant_column_is_named_and_the_others_have_errors(private):
    X, y = work(5000)
    X = np.column_stack([X[:, :2], np.full(len(X), 7.0)])
    stated = {} if private else {"bounds": ([6, 0, 0], [18, 40, 10]), "target_bounds": (3, 10)}
    far = []
    for _ in range(8):
        made = DPLinearRegression(**stated, epsilon=300.0, budget=budget()).fit(X, y)
        summary = made.summary(of="rows")
        assert "Without '2'" in summary.note
        assert np.isnan([summary.coef[2], summary.std_error[2]]).all()
        inside = np.clip(X[:, :2], *(side[:2] for side in made.bounds_))
        exact = LinearRegression().fit(inside, np.clip(y, *made.target_bounds_))
        far.append(np.abs(summary.coef[:2] - exact.coef_) / summary.std_error[:2])
    assert np.isfinite(far).all()
    assert (np.sum(np.array(far) > 1.96, axis=0) <= 4).all()


@pytest.mark.parametrize("relation", [A, R])
def test_learned_bounds_of_the_target_do_not_depend_on_those_of_columns(relation):
    """So few rows have one box for all columns: one of a million made the target's as wide."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 20)) * 1e6
    widths = []
    for _ in range(7):
        model = DPRidge(epsilon=1.0, budget=budget(relation)).fit(X, rng.normal(size=800))
        widths.append(model.target_bounds_[1] - model.target_bounds_[0])
    assert np.median(widths) < 100


def test_some_columns_are_those_of_the_table():
    rows = check_with_target(np.zeros((3, 2)), [1.0, 2.0, 3.0], estimator="test")
    with open_session(rows, estimator="test", epsilon=1e6) as session:
        mean = session.answer(OfColumn(2, Mean(Box([0.0], [4.0])), 3), 0.5)
        assert mean.value == pytest.approx([2.0], abs=1e-3)
        with pytest.raises(ValueError, match="among the 3"):
            session.answer(OfColumn(2, Mean(Box([0.0, 0.0], [4.0, 4.0])), 4))
        with pytest.raises(TypeError, match="without cells, labels and weights"):
            session.answer(OfColumn(0, row_counts(Labels(2), "labels"), 1))


def test_bounds_far_wider_than_a_column_cost_little_at_any_epsilon():
    """Rows stayed whole from epsilon = 4 on, as if the column had a twentieth of its bounds."""
    rng = np.random.default_rng(0)
    x = rng.gamma(3.0, 0.27, (50_000, 1))
    y = 8000.0 * x[:, 0] + rng.normal(0.0, 1500.0, 50_000)
    for epsilon in (3.0, 5.0, 9.0):
        model = DPLinearRegression(bounds=(0, 100), target_bounds=(0, 1e5), epsilon=epsilon)
        assert model.fit(x, y).score(x, y) > 0.8  # 0.86 without noise
