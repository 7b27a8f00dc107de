"""The standard errors of private statistics against the spread of their answers.

The spread of seeded answers around their own mean, over the stated error: both as root mean squares
over the entries. Seeds are fixed. The ratio of 120 answers of one entry has a standard deviation of
0.065 (Gaussian) to 0.11 (Laplace tails), of several entries less: of other seeds, some cells of the
table would fall out of the limits.

Errors are to first order in the noise, so the tables have rows enough for it: noise stays well
below the variance of a column and, of correlations, below their distance from 1.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdp import PrivacyBudget, statistics
from skdp.core import RowSum
from skdp.queries import GramRelease, second_moments
from skdp.statistics import _call, _moments
from skdp.tabular.rows import Rows
from tests.statistics.calls import ADJACENCIES, UNMETERED

N_CALLS = 120
FUNCTIONS = ("mean", "var", "std", "covariance", "correlation")
# Rows, columns, correlation of each pair, how far the bounds reach below the rows, epsilon.
# Columns have standard deviation 1 and the upper bound 4: bounds from -24 have their middle 10
# standard deviations off.
TABLES = {
    "few rows": (2_000, 2, 0.9, 0, 10.0),
    "few rows, off centre": (2_000, 3, 0.0, 8, 10.0),
    "off centre": (20_000, 4, 0.5, 8, 3.0),
    "far off centre": (20_000, 3, 0.9, 20, 10.0),
    "many rows": (100_000, 2, 0.9, 20, 5.0),
    "little epsilon": (100_000, 5, 0.0, 0, 0.1),
}


def table(n, d, correlation, seed=0):
    rng = np.random.default_rng(seed)
    common = np.sqrt(correlation) * rng.normal(size=(n, 1))
    return np.clip(common + np.sqrt(1 - correlation) * rng.normal(size=(n, d)), -4, 4)


@pytest.fixture(params=TABLES.values(), ids=TABLES.keys())
def case(request, monkeypatch):
    """Rows whose checks and exact statistics are made once: only noise differs between calls."""
    n, d, correlation, below, epsilon = request.param
    X = table(n, d, correlation)
    known = {}
    places = [(RowSum, "exact"), (second_moments, "exact_gram")]

    def once(name, make):
        def kept(*args, **options):
            place = name, type(getattr(args[0], "image", None))  # sums of several images
            if place not in known:
                known[place] = make(*args, **options)
            return known[place]

        return kept

    for place, name in [*places, (_call, "check_table"), (Rows, "digest")]:
        monkeypatch.setattr(place, name, once(name, getattr(place, name)))
    return X, {"bounds": (-4 - below, 4), "epsilon": epsilon}


def ratio(call, X, **options):
    """Return stated over measured spread."""
    answers = [call(X, random_state=seed, **options) for seed in range(N_CALLS)]
    spread = np.std([answer.value for answer in answers], axis=0)
    stated = np.mean([answer.std**2 for answer in answers])
    return np.sqrt(stated / np.mean(spread**2))


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("adjacency", "n_rows"),
    [("replace_one", "public"), ("replace_one", "private"), ("add_or_remove_one", "private")],
)
def test_stated_errors_are_those_of_the_answers(case, adjacency, n_rows, delta):
    X, options = case
    options = {**options, "n_rows": n_rows}
    # The noise of products of columns is too large for first order there.
    names = FUNCTIONS[:3] if (adjacency, n_rows) == ("replace_one", "private") else FUNCTIONS
    ratios = {
        name: ratio(
            getattr(statistics, name), X, delta=delta, budget=UNMETERED[adjacency], **options
        )
        for name in names
    }
    assert all(0.8 < value < 1.3 for value in ratios.values()), ratios


def test_errors_are_the_derivatives():
    """First order: against differences of the released matrix, entry by entry."""
    rng = np.random.default_rng(1)
    d, n = 3, 900.0
    u = rng.normal(size=(40, d)) @ rng.normal(size=(d, d)) / 4 + [0.6, -0.3, 0.1]
    moment, total = n * u.T @ u / 40, n * u.mean(axis=0)
    stds = {"std": 0.7, "diagonal_std": 1.1, "total_std": 0.4, "n_std": 0.9}
    gram = GramRelease(moment, total, n, noise="wishart", **stds)

    def functions(moment, total, n):
        covariance = moment / n - np.outer(total, total) / n**2
        scale = np.sqrt(covariance.diagonal())
        return np.array([covariance, covariance / np.outer(scale, scale)])

    step, variances = 1e-4, np.zeros((2, d, d))
    base = functions(moment, total, n)
    for j in range(d):
        for k in range(j, d):
            other = moment.copy()
            other[j, k] = other[k, j] = moment[j, k] + step
            slope = (functions(other, total, n) - base) / step
            variances += (slope * stds["diagonal_std" if j == k else "std"]) ** 2
        slope = (functions(moment, total + step * np.eye(d)[j], n) - base) / step
        variances += (slope * stds["total_std"]) ** 2
    variances += ((functions(moment, total, n + step) - base) / step * stds["n_std"]) ** 2

    found = _moments._Moments(total / n, base[0], np.zeros((d, d)), np.ones(d), gram, None)
    zero = np.zeros((d, d))
    assert_allclose(found.errors(np.ones(d), zero), np.sqrt(variances[0]), rtol=1e-4)
    pull = base[1] / 2
    np.fill_diagonal(pull, 0.0)
    errors = found.errors(np.sqrt(base[0].diagonal()), pull)
    off = ~np.eye(d, dtype=bool)
    assert_allclose(errors[off], np.sqrt(variances[1])[off], rtol=1e-4)


def test_a_noisy_number_of_rows_below_the_degrees_of_freedom_has_an_answer():
    for call in (statistics.var, statistics.std, statistics.covariance):
        for adjacency in ADJACENCIES:
            answer = call(
                np.ones((3, 2)), ddof=2**53, bounds=(0, 2), budget=UNMETERED[adjacency],
                random_state=0,
            )  # fmt: skip
            assert np.isfinite(answer.value).all() and np.isfinite(answer.std).all()
        with pytest.raises(ValueError, match="ddof must be"):
            call(np.ones((3, 2)), ddof=10**400)


def test_infinity_is_not_missing():
    budget = PrivacyBudget(1.0)
    for X in ([[1.0], [np.inf]], [[np.nan], [-np.inf]], [None, float("inf")]):
        with pytest.raises(ValueError, match=r"infinity, which is not missing.*public know"):
            statistics.mean(X, bounds=(0, 2), nan_policy="omit", budget=budget)
    assert budget.charges == []
