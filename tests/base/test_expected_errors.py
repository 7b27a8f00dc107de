"""`expected_error` is what happens, within a factor 1.3, or it is refused.

What happens is the mean error over fits of fresh tables; each case has fits enough for a standard
error of about 5% of the ratio, so that a right answer leaves [1/1.3, 1.3] with probability below
1e-4 (five standard errors), and all cases together in fewer than one of 300 runs. The same over
real tables and sizes: doc/benchmarks/expected_error.py.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import DPLogisticRatio, DPuLSIF, PrivacyBudget
from skdp.base.expected_error import Search, within
from skdp.density_ratio import stack_samples
from skdp.neighbors import DPHistogramDensity, DPKernelDensity
from skdp.quantile import DPMedian, DPQuantile, DPQuantileTransformer, DPRobustScaler
from skdp.synthetic import (
    Bins,
    DPEmpiricalCDF,
    DPMarginalSynthesizer,
    MWEMReleaser,
    PrivateMultiplicativeWeights,
    SmallDBReleaser,
    conjunctions,
    linear_queries,
    thresholds,
)
from tests.folding import each

R, A = "replace_one", "add_or_remove_one"
SIZES = [3, 4, 2, 2]
ASKED = [linear_queries(np.eye(12)[i : i + 1], columns=[0, 1]) for i in range(12)]


def budget(adjacency):
    return PrivacyBudget(1e6, 0.5, adjacency=adjacency)


def skewed(rng, n, d=2):
    return rng.exponential(10.0, size=(n, d))


def ages(rng, n, d=2):
    return rng.integers(18, 90, size=(n, d)).astype(float)


def normal(rng, n, d=1):
    return rng.normal(size=(n, d))


def coded(rng, n):
    a = rng.integers(0, 3, n)
    b = (a + (rng.random(n) < 0.3)) % 4
    c = (rng.random(n) < 0.2 + 0.2 * a).astype(int)
    return np.column_stack([a, b, c, rng.integers(0, 2, n)])


# --- what happens ---------------------------------------------------------------------------------


def ranks_off(X, values, levels):
    """Return the mean distance in ranks of values (n_levels, d) from their levels."""
    found = []
    for column, released in zip(X.T, values.T, strict=True):
        below = (column[:, None] < released).sum(axis=0)
        up_to = (column[:, None] <= released).sum(axis=0)
        target = len(X) * np.asarray(levels)
        found.append(np.maximum(np.maximum(below - target, target - up_to), 0))
    return np.mean(found)


def of_quantiles(fitted, X):
    if isinstance(fitted, DPMedian):
        return ranks_off(X, fitted.median_[None], [0.5])
    if isinstance(fitted, DPRobustScaler):
        return ranks_off(X, fitted.center_[None], [0.5])
    if isinstance(fitted, DPQuantile):
        return ranks_off(X, fitted.quantiles_, fitted.q_)
    return ranks_off(X, fitted.quantiles_[1:-1], fitted.references_[1:-1])


def of_density(fitted, X):
    if isinstance(fitted, DPHistogramDensity):
        exact = np.histogramdd(X, fitted.edges_)[0]
        return 0.5 * np.abs(fitted.probabilities_ - exact / exact.sum()).sum()
    (axis,) = fitted.axes_
    h = fitted.bandwidth_
    exact = np.exp(-0.5 * ((axis[:, None] - X[:, 0]) / h) ** 2).mean(axis=1)
    weights = np.ones(axis.size)
    weights[[0, -1]] /= 2
    weights /= weights.sum()
    exact /= weights @ exact
    return 0.5 * weights @ np.abs(fitted.density_ - exact)


def of_answers(fitted, X):
    """Return the largest error of a cell of two columns, counted by hand."""
    worst = 0.0
    for i in range(4):
        for j in range(i):
            rows = X[:, [j, i]]
            for a in range(SIZES[j]):
                for b in range(SIZES[i]):
                    cell = np.zeros((1, SIZES[j] * SIZES[i]))
                    cell[0, a * SIZES[i] + b] = 1.0
                    asked = linear_queries(cell, columns=[j, i])
                    exact = np.mean((rows == [a, b]).all(axis=1))
                    worst = max(worst, abs(float(fitted.predict(asked)[0]) - exact))
    return worst


def of_thresholds(fitted, X):
    edges = np.linspace(0, 100, 21)[1:-1]
    return max(
        abs(float(fitted.predict(lambda row, e=e: row[0] < e)[0]) - np.mean(X[:, 0] < e))
        for e in edges
    )


def of_cdf(fitted, X):
    found = []
    for j, column in enumerate(X.T):
        points = fitted.grid_[:-1, j]
        exact = np.mean(column[:, None] <= points, axis=0)
        found.append(np.abs(fitted.cdf(fitted.grid_)[:-1, j] - exact).max())
    return np.mean(found)


def of_online(fitted, X):
    worst = 0.0
    for i, query in enumerate(ASKED):
        answer = fitted.answer(query) if fitted.n_updates_left_ else fitted.predict(query)[0]
        worst = max(worst, abs(answer - np.mean(X[:, 0] * 4 + X[:, 1] == i)))
    return worst


def check(estimator, draw, happened, *, n, fits, like=None, **options):
    rng = np.random.default_rng(0)
    expected = estimator.expected_error(n, like=draw(rng, 700) if like is None else like, **options)
    found = []
    for _ in range(fits):
        X = draw(rng, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that nobody counts: made-up rows
            found.append(happened(clone(estimator).fit(X), X))
    assert 1 / 1.3 < expected / np.mean(found) < 1.3


@pytest.mark.slow
@each("draw, relation", [(skewed, R), (ages, A)])
@each(
    "estimator, fits",
    [
        (DPMedian(bounds=(0, 200)), 50),
        (DPRobustScaler(bounds=(0, 200), with_scaling=False, delta=1e-6), 50),
        (DPQuantile([0.1, 0.5, 0.9], bounds=(0, 200)), 25),
        (DPQuantileTransformer(n_quantiles=9, bounds=(0, 200), delta=1e-6), 15),
        (DPQuantile([0.5, 0.7], bounds=(0, 200), mechanism="global"), 15),
    ],
    ids=lambda value: type(value).__name__,
)
def test_ranks_of_quantiles(estimator, fits, draw, relation):
    estimator = clone(estimator).set_params(budget=budget(relation), epsilon=8.0)
    check(estimator, lambda rng, n: draw(rng, n, 8), of_quantiles, n=400, fits=fits)


@pytest.mark.slow
@each("delta", [0.0, 1e-6])
@each(
    "estimator",
    [
        DPHistogramDensity(bounds=(-4, 4)),
        DPKernelDensity(bounds=(-4, 4), bandwidth=0.5),
        DPKernelDensity(bounds=(-4, 4), bandwidth=0.5, features="cells"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_total_variation_of_densities(estimator, delta):
    estimator = clone(estimator).set_params(delta=delta, epsilon=2.0)
    check(estimator, normal, of_density, n=1000, fits=30)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator, draw, happened",
    [
        (MWEMReleaser(domain=SIZES), coded, of_answers),
        (DPMarginalSynthesizer(domain=SIZES), coded, of_answers),
        (PrivateMultiplicativeWeights(SIZES), coded, of_online),
        (
            SmallDBReleaser(thresholds(), domain=Bins.regular(0, 100, 20), alpha=0.05),
            lambda rng, n: skewed(rng, n, 1),
            of_thresholds,
        ),
        (DPEmpiricalCDF(bounds=(0, 100)), skewed, of_cdf),
    ],
    ids=lambda value: type(value).__name__,
)
def test_largest_errors_of_releasers(estimator, draw, happened):
    online = isinstance(estimator, PrivateMultiplicativeWeights)
    check(estimator, draw, happened, n=800, fits=20, **({"queries": ASKED} if online else {}))


@pytest.mark.slow
def test_weights_of_density_ratios():
    rng = np.random.default_rng(0)
    public = rng.normal(size=(80, 1))
    private = rng.normal(0.5, 0.8, size=(2000, 1))
    X, y = stack_samples(private=private, public=public)
    ratio = DPuLSIF(gamma=0.5, alpha=0.1)
    expected = ratio.expected_error(2000, public, like=rng.normal(0.5, 0.8, size=(500, 1)))
    exact = clone(ratio).set_params(epsilon=1e5).fit(X, y).predict(public)
    moved = [clone(ratio).fit(X, y).predict(public) - exact for _ in range(400)]
    happened = np.mean([np.sqrt(np.mean(np.square(one))) for one in moved])
    assert 1 / 1.3 < expected / happened < 1.3

    logistic = DPLogisticRatio(epsilon=2.0)
    expected = logistic.expected_error(2000, public)
    logs = np.array([np.log(clone(logistic).fit(X, y).predict(public)) for _ in range(300)])
    logs -= logs.mean(axis=1, keepdims=True)
    assert 1 / 1.3 < expected / np.sqrt(np.var(logs, axis=0, ddof=1).mean()) < 1.3


@pytest.mark.slow
def test_an_earlier_fit_stands_for_rows():
    rng = np.random.default_rng(1)
    X = skewed(rng, 2000)
    earlier = DPQuantile(np.arange(1, 16) / 16, bounds=(0, 200)).fit(X)
    check(DPMedian(bounds=(0, 200)), skewed, of_quantiles, n=400, fits=100, like=earlier)
    table = coded(rng, 2000)
    earlier = MWEMReleaser(domain=SIZES).fit(table)
    check(MWEMReleaser(domain=SIZES), coded, of_answers, n=800, fits=15, like=earlier)
    earlier = DPEmpiricalCDF(bounds=(0, 100)).fit(X)
    check(DPEmpiricalCDF(bounds=(0, 100)), skewed, of_cdf, n=800, fits=25, like=earlier)
    earlier = DPHistogramDensity(bounds=(-4, 4)).fit(normal(rng, 3000))
    estimator = DPHistogramDensity(bounds=(-4, 4))
    check(estimator, normal, of_density, n=1000, fits=25, like=earlier)


def test_many_equal_values_are_found_exactly():
    """Each age has 70 of 5,000 rows: the median is one of them, nearly always."""
    X = ages(np.random.default_rng(0), 5000, 1)
    exact = DPMedian(bounds=(0, 120), step=1)
    assert exact.expected_error(5000, like=X) < 1
    wide = DPMedian(bounds=(0, 120), step=1, epsilon=1e-3)
    assert wide.expected_error(5000, like=X) > 100


@pytest.mark.slow
def test_ranks_do_not_depend_on_the_number_of_rows():
    """Until a candidate stands for many of them: a million rows, 2**18 candidates."""
    like = skewed(np.random.default_rng(0), 500)
    estimator = DPQuantile([0.1, 0.5, 0.9], bounds=(0, 100))
    few, some = (estimator.expected_error(n, like=like) for n in (10**4, 10**5))
    assert 0.7 < few / some < 1.4
    with within(Search()):  # a quarter of the rehearsals
        assert DPMedian(bounds=(0, 10**6)).expected_error(10**6, like=like) > 100


# --- refusals, and what it does not touch ---------------------------------------------------------

EVERY = [
    DPMedian(bounds=(0, 200)),
    DPQuantile(),
    DPQuantile(mechanism="smooth"),
    DPRobustScaler(),
    DPQuantileTransformer(),
    DPHistogramDensity(),
    DPKernelDensity(),
    DPEmpiricalCDF(),
    MWEMReleaser(domain=SIZES),
    DPMarginalSynthesizer(domain=SIZES),
    DPMarginalSynthesizer(conjunctions(3), domain=SIZES),
    PrivateMultiplicativeWeights(SIZES),
    SmallDBReleaser(domain=[2, 2], size=8),
]


@each("estimator", EVERY, ids=lambda e: type(e).__name__)
def test_without_rows_it_is_refused_with_reason_and_way_out(estimator):
    d = {2: 2}.get(len(getattr(estimator, "domain", SIZES)), 4)
    with pytest.raises(ValueError, match=r"like must be given: .* depends on .*[Ss]tate public"):
        estimator.expected_error(1000, d)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", EVERY, ids=lambda e: type(e).__name__)
def test_nothing_is_charged_and_the_same_question_has_the_same_answer(estimator):
    live = PrivacyBudget(1.0, adjacency=[R, A][EVERY.index(estimator) % 2])
    estimator = clone(estimator).set_params(budget=live, random_state=None)
    rng = np.random.default_rng(0)
    coded_columns = hasattr(estimator, "domain")
    like = coded(rng, 60) if coded_columns else skewed(rng, 60)
    if isinstance(estimator, SmallDBReleaser):
        like = like[:, 2:]
    if isinstance(estimator, DPKernelDensity | DPHistogramDensity):
        like = like[:, :1]
    before, found = dict(vars(estimator)), set()
    for _ in range(2):
        with warnings.catch_warnings(), within(Search()):  # a quarter of the rehearsals
            warnings.simplefilter("error")
            found.add(estimator.expected_error(60, like=like))
    (error,) = found
    assert 0 <= error < 60
    assert live.charges == [] and live.spent.epsilon == 0
    assert vars(estimator) == before


@each("estimator", EVERY, ids=lambda e: type(e).__name__)
def test_bad_arguments_are_named(estimator):
    d = {2: 2}.get(len(getattr(estimator, "domain", SIZES)), 4)
    like = np.ones((20, d), dtype=int)
    with pytest.raises((TypeError, ValueError), match="n_samples"):
        estimator.expected_error(0, d, like=like)
    with pytest.raises((TypeError, ValueError), match=r"n_features|like|columns"):
        estimator.expected_error(50, d, like=like[:, :1])


@pytest.mark.slow
def test_an_earlier_release_says_the_domain_that_nobody_stated():
    X = np.random.default_rng(0).integers(0, 3, (5000, 2)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = DPMarginalSynthesizer(delta=1e-6, random_state=0).fit(X)
    error = found.expected_error(5000, like=found)
    stated = found.set_params(domain=found.domain_).expected_error(5000, like=found)
    assert 0 < error == pytest.approx(stated, rel=0.5)  # rehearsals are seeded
    table = pd.DataFrame(X, columns=["a", "b"])
    part = DPMarginalSynthesizer(domain={"a": [0, 1, 2]}, delta=1e-6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        part.fit(table)
    assert 0 < part.expected_error(5000, like=part) < 1
    with pytest.raises(ValueError, match="pass an earlier release"):
        part.expected_error(5000, like=table)
