"""Noise of the scalers: as large as stated, and as expected before a fit.

The errors of seeded fits against the stated standard errors; the seeds are fixed, so a test gives
the same verdict every time, and each states how often it would be wrong for other seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skdp.budget.budget import StandInBudget
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler

ADJACENCIES = ("replace_one", "add_or_remove_one")

UNMETERED = {adjacency: StandInBudget(adjacency) for adjacency in ADJACENCIES}


def standardised_errors(delta, adjacency, n_fits, n_features):
    """Return (released - exact) / stated standard error of means and variances of many fits."""
    n, low, high = 300, -1.0, 1.0
    rng = np.random.default_rng(3)
    # Means far from the middle, so that the noise of a private n shows.
    X = rng.choice([0.7, 1.0], size=(n, n_features))
    mean, variance = X.mean(axis=0), X.var(axis=0)
    errors = []
    for seed in range(n_fits):
        s = DPStandardScaler(
            bounds=(low, high),
            epsilon=25.0,
            delta=delta,
            budget=UNMETERED[adjacency],
            random_state=seed,
        ).fit(X)
        assert np.all(s.var_ > 0)  # else the error would be a clipped one
        errors.append(
            [(s.mean_ - mean) / s.mean_std_error_, (s.var_ - variance) / s.var_std_error_]
        )
    return np.array(errors)


def calibrated(z):
    """Say whether standardised errors have mean 0 and variance 1.

    Each entry is a linear image of one fit's noise; one entry a fit is used, so the squares are
    independent. Their variance is 2 (Gaussian) to 4 (K-norm in two dimensions, kurtosis 5; less
    in more), so the mean of 1200 of them has standard deviation below 0.058 and the interval is
    more than five of those on either side: wrong for one set of seeds in 10**6.
    """
    return abs(z.mean()) < 5 / np.sqrt(len(z)) and abs((z**2).mean() - 1) < 0.3


@pytest.mark.statistical
@pytest.mark.parametrize(("adjacency", "delta"), zip(ADJACENCIES, (1e-4, 0.0), strict=True))
def test_noise_is_as_large_as_stated(delta, adjacency):
    z = standardised_errors(delta, adjacency, n_fits=1200, n_features=1)
    for kind in (0, 1):
        assert calibrated(z[:, kind, 0])
        # The test has teeth: a mechanism at 2/3 or 3/2 of the scale fails it.
        assert not calibrated(2 / 3 * z[:, kind, 0])
        assert not calibrated(3 / 2 * z[:, kind, 0])


@pytest.mark.parametrize("d", [2, 3000])
def test_seeded_fits_with_other_bounds_share_no_noise(d):
    """Bounds that differ in one late digit: with the same noise the means would be equal."""
    X = np.full((200, d), 0.5)
    other = np.ones(d)
    other[d // 2] += 1e-12
    means = [
        DPStandardScaler(bounds=(np.zeros(d), high), epsilon=1e6, random_state=0).fit(X).mean_
        for high in (np.ones(d), np.ones(d), other)
    ]
    assert_array_equal(means[0], means[1])
    assert np.mean(np.abs(means[0] - means[2]) > 2e-11) > 0.9


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_expected_error_is_the_standard_error(adjacency, delta):
    X = np.full((4000, 3), 1.0)  # the middle of the bounds
    scaler = DPStandardScaler(bounds=(-1, 3), delta=delta, budget=UNMETERED[adjacency])
    if adjacency == "add_or_remove_one":
        with pytest.raises(ValueError, match="where it lies"):
            scaler.expected_error(len(X), 3)
    expected = scaler.expected_error(len(X), 3, like=X)
    ratio = scaler.fit(X).mean_std_error_ / 4.0 / expected
    assert np.all((ratio > 0.98) & (ratio < 1.02))


def errors_of_scalers(scaler, draw, fits):
    """Return what happens: rms of a mean in widths of its bounds, and rows left out of a range."""
    squares, outside = [], []
    rng = np.random.default_rng(1)
    for _ in range(fits):
        X = draw(rng)
        m = clone(scaler).fit(X)
        if isinstance(m, DPStandardScaler):
            width = m.bounds_[1] - m.bounds_[0]
            squares.append(((m.mean_ - X.mean(axis=0)) / width) ** 2)
        else:
            cell = (m.bounds_[1] - m.bounds_[0]) / 4096
            outside.append(np.mean((m.data_min_ - cell > X) | (m.data_max_ + cell < X)))
    return np.sqrt(np.mean(squares)) if squares else np.mean(outside)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "adjacency"), [(500, "replace_one"), (8000, "add_or_remove_one")])
@pytest.mark.parametrize("make", [DPStandardScaler, DPMinMaxScaler])
def test_expected_errors_with_learned_bounds_are_what_happens(adjacency, make, n):
    """40 fits of 6 columns: a standard error of 8% of a ratio, at most."""

    def draw(rng, n=n):
        return np.column_stack([rng.normal(50, 15, (n, 4)), rng.integers(0, 2, (n, 2))])

    scaler = make(epsilon=6.0, budget=UNMETERED[adjacency])
    expected = scaler.expected_error(n, like=draw(np.random.default_rng(0), 600))
    assert 1 / 1.3 < expected / errors_of_scalers(scaler, draw, 40) < 1.3


@pytest.mark.slow
def test_expected_errors_of_ties_are_none():
    """A range holds the ages at its ends; those of a continuous column it leaves out."""
    ages = np.random.default_rng(0).integers(0, 2, (400, 2))
    scaler = DPMinMaxScaler(epsilon=3.0)
    assert scaler.expected_error(20_000, like=ages) < 1e-3
    assert scaler.expected_error(20_000, like=np.random.default_rng(0).random((400, 2))) > 1e-3


@pytest.mark.slow
def test_automatic_quantiles_stay_within_the_rows():
    """A cell beyond the rows has probability below 1/100 a column and side (the doc's bound).

    240 draws: more than 12 of them with probability below 1e-5 even at that bound; seeds fixed.
    """
    X = np.random.default_rng(5).normal(size=(20_000, 2))
    beyond = 0
    expected = DPMinMaxScaler(epsilon=1.0).expected_error(20_000, 2, like=X[:1000])
    for seed in range(60):
        m = DPMinMaxScaler(epsilon=1.0, random_state=seed).fit(X)
        cell = (m.bounds_[1] - m.bounds_[0]) / 4096
        beyond += np.sum(m.data_min_ + cell < X.min(axis=0))
        beyond += np.sum(m.data_max_ - cell > X.max(axis=0))
        outside = np.mean((m.data_min_ > X) | (m.data_max_ < X), axis=0)
        assert np.all(outside < 2.5 * expected)
    assert beyond <= 12


def test_ties_hold_the_quantiles():
    """Columns of few values: the atoms at the ends are found, not the empty cells beyond them."""
    rng = np.random.default_rng(6)
    n = 20_000
    X = np.column_stack([rng.integers(0, 2, n), rng.integers(5, 24, n), np.full(n, 7)])
    for seed in range(4):
        m = DPMinMaxScaler(epsilon=3.0, random_state=seed).fit(X)
        cell = (m.bounds_[1] - m.bounds_[0]) / 4096
        off = np.abs([m.data_min_ - X.min(axis=0), m.data_max_ - X.max(axis=0)])
        assert np.all((off <= 1.01 * cell)[:, :2])
        # Of one value both quantiles are one cell: the range is what the bounds are.
        assert [m.data_min_[2], m.data_max_[2]] == [m.bounds_[0][2], m.bounds_[1][2]]


@pytest.mark.slow
def test_expected_error_falls_with_n_and_epsilon():
    like = np.random.default_rng(0).normal(size=(300, 3))
    for make in (DPStandardScaler, DPMinMaxScaler):
        makes = [make(epsilon=0.3), make(epsilon=3.0)]
        at = [one.expected_error(n, like=like) for n in (1000, 20_000) for one in makes]
        assert at[0] > at[1] > at[3] > 0
        assert at[0] > at[2] > at[3]
    assert DPMinMaxScaler(bounds=(0, 1)).expected_error(10, 5) == 0
    assert DPStandardScaler(with_mean=False, with_std=False).expected_error(10, 5) == 0
    assert DPMinMaxScaler(q=0.1).expected_error(10**4, like=like) == pytest.approx(0.2, rel=0.1)
    for make in (DPStandardScaler, DPMinMaxScaler):
        with pytest.raises(ValueError, match="n_features"):
            make().expected_error(100)
        fitted = make().fit(np.ones((5, 3)))
        for refused in ({}, {"n_features": 3}, {"n_features": 3, "like": fitted}):
            if "like" in refused and make is DPMinMaxScaler:
                continue
            with pytest.raises(ValueError, match=r"like must be given.*[Mm]ade-up ones will do"):
                fitted.expected_error(100, **refused)
        with pytest.raises(ValueError, match="3 columns, got 2"):
            fitted.expected_error(100, like=like[:, :2])
