"""Intervals of quantiles and of populations hold as often as they say, and are not much wider.

False alarms: 1e-6 a test, by binomial tails. A width that is a fifth too small is rejected.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from skdp import PrivacyBudget, statistics
from skdp.confidence import limits
from skdp.confidence.limits import MeanLimits, Window
from skdp.queries import Lattice
from tests.folding import each

ALARM = 1e-6
CELLS, EDGES = 16, np.arange(17)


def most(runs, chance):
    """Return how many of so many runs may miss."""
    return int(binom.isf(ALARM, runs, chance))


def noise(g, pure, std, size):
    if not pure:
        return np.rint(g.normal(scale=std, size=size))
    p = 1 - np.exp(-np.sqrt(2) / std)
    return (g.geometric(p, size) - g.geometric(p, size)).astype(float)


def windows(runs, q, n, pure, std, *, sampled):
    """Yield windows where exactly q of the rows, or of the population, is below edge 8."""
    g = np.random.default_rng([int(100 * q), n, pure, sampled])
    lattice = Lattice(0.0, 15.0, 1.0, "uniform")
    for _ in range(runs):
        counts = noise(g, pure, std, CELLS)
        below = g.binomial(n, q) if sampled else round(q * n)
        counts[7] += below
        counts[8] += n - below
        yield Window(lattice, EDGES, counts, std, q, pure, 1.0)


@each("level", [0.5, 0.8, 0.95])
@each("pure", [True, False])
@each("q", [0.5, 0.1, 0.95])
def test_an_edge_that_has_the_share_below_it_is_seldom_passed(q, pure, level):
    runs, chance = 3000, (1 - level) / 2
    ends = [w.between(level) for w in windows(runs, q, 2000, pure, 20.0, sampled=False)]
    for wrong in (sum(first >= 8 for first, _ in ends), sum(last <= 8 for _, last in ends)):
        assert wrong <= most(runs, chance)
        assert wrong >= binom.ppf(ALARM, runs, 0.5 * chance)  # not far too wide


@each("pure", [True, False])
@each(("q", "n"), [(0.5, 400), (0.9, 400), (0.98, 400), (0.5, 20_000)])
def test_of_a_population_too(q, n, pure):
    runs, level = 3000, 0.95
    found = list(windows(runs, q, n, pure, 4.0, sampled=True))
    ends = [w.between(level, population=True) for w in found]
    for wrong in (sum(first >= 8 for first, _ in ends), sum(last <= 8 for _, last in ends)):
        assert wrong <= most(runs, 0.025)
    both = sum(first >= 8 or last <= 8 for first, last in ends)
    assert both >= binom.ppf(ALARM, runs, 0.02)
    if n * q * (1 - q) > 90:  # what holds for the rows does not hold for the population
        rows_only = [w.between(level) for w in found]
        assert sum(first >= 8 or last <= 8 for first, last in rows_only) > most(runs, 0.05)


@pytest.mark.parametrize("sampled", [True, False])
def test_limits_a_fifth_too_small_are_seen(monkeypatch, sampled):
    right = Window._limits
    monkeypatch.setattr(Window, "_limits", lambda *a: tuple(0.8 * one for one in right(*a)))
    runs = 3000
    found = windows(runs, 0.5, 2000, True, 20.0, sampled=sampled)
    ends = [w.between(0.95, population=sampled) for w in found]
    assert sum(first >= 8 for first, _ in ends) > most(runs, 0.025)


def test_a_window_has_cells_for_the_population_and_for_the_rows():
    edges = limits._edges((0, 1200), (600, 610))
    assert edges.tolist() == [*range(0, 601, 100), *range(601, 611), *range(700, 1201, 100)]
    assert limits._edges((0, 3), (0, 3)).tolist() == [0, 1, 2, 3]
    assert limits._edges((5, 6), (5, 6)).tolist() == [5, 6]


KINDS = {
    "ages": (lambda g, n: g.integers(18, 90, n).astype(float), (0, 120), 1.0),
    "0/1": (lambda g, n: (g.random(n) < 0.3).astype(float), (0, 1), None),
    "money, many zeros": (
        lambda g, n: np.where(g.random(n) < 0.4, 0.0, g.lognormal(6, 1.5, n)), (0, 1e6), None),
    "two places": (lambda g, n: np.where(g.random(n) < 0.5, 3.0, 97.0), (0, 100), None),
}  # fmt: skip


@pytest.mark.statistical
@each("delta", [0.0, 1e-6])
@each("name", KINDS)
def test_intervals_of_calls_cover(system_noise, name, delta):
    draw, bounds, step = KINDS[name]
    g = np.random.default_rng(3)
    population = np.quantile(draw(g, 400_000), 0.5, method="inverted_cdf")
    runs, missed, beyond = 150, 0, 0
    for _ in range(runs):
        x = draw(g, 400)
        ask = {"bounds": bounds, "step": step, "intervals": True, "epsilon": 2.0, "delta": delta}
        answer = statistics.median(x, **ask)
        (low, high), truth = answer.interval(0.9), np.median(x)
        middle = np.quantile(x, 0.5, method="inverted_cdf")
        missed += not (low <= truth <= high or low <= middle <= high)
        low, high = answer.population_interval(0.9)
        beyond += not low <= population <= high
        assert bounds[0] <= low <= high <= bounds[1]
    assert missed <= most(runs, 0.1)
    assert beyond <= most(runs, 0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"bounds": (-4, 4), "n_rows": "public"}])
def test_a_population_mean_is_covered(system_noise, options):
    g = np.random.default_rng(4)
    runs, beyond, wide = 300, 0, []
    for _ in range(runs):
        answer = statistics.mean(g.normal(size=500), intervals=True, epsilon=4.0, **options)
        low, high = answer.population_interval(0.9)
        beyond += low > 0 or high < 0
        wide.append(high - low)  # NaN where bounds could not be learned well enough
    assert beyond <= most(runs, 0.1)
    if "bounds" in options:  # learned ones may be wide
        assert np.median(wide) < 1.5 * 2 * 1.645 / np.sqrt(500)


def test_a_population_interval_of_units_allows_for_rows_that_are_alike():
    rows = MeanLimits(*(np.array(v) for v in (0.0, 0.1, 0.01, -5.0, 5.0)), pure=False)
    units = MeanLimits(*(np.array(v) for v in (0.0, 0.1, 0.04, -5.0, 5.0)), pure=False)
    assert units.population(0.9)[1] > rows.population(0.9)[1]
    ids = np.repeat(np.arange(200), 5)
    x = np.repeat(np.random.default_rng(0).normal(size=200), 5)
    ask = {"bounds": (-4, 4), "intervals": True, "epsilon": 50.0, "max_rows_per_unit": 5}
    for call in (statistics.mean, statistics.median):
        alike = call(x, groups=ids, budget=PrivacyBudget(1e3, unit="user"), **ask)
        del_cap = {k: v for k, v in ask.items() if k != "max_rows_per_unit"}
        alone = call(x, **del_cap)
        width = [np.ptp(one.population_interval()) for one in (alike, alone)]
        assert width[0] > 1.7 * width[1]  # root of 5, but for noise and cells


def test_integers_have_exact_ends_and_few_rows_wide_ones():
    ages = np.random.default_rng(0).integers(18, 90, 5000)
    answer = statistics.median(ages, step=1, bounds=(0, 120), intervals=True, epsilon=20)
    assert answer.interval() == (54, 54) or np.ptp(answer.interval()) <= 1
    few = statistics.median(ages[:3], step=1, bounds=(0, 120), intervals=True, epsilon=0.01)
    assert few.interval(0.99) == (0, 120)
    assert few.interval(0.9999) == (0, 120)


def test_constant_columns_and_equal_bounds():
    for x, bounds in ((np.zeros(50), (0, 1)), (np.full(50, 7.0), (7, 7)), (np.ones(50), (0, 1))):
        answer = statistics.quantile(x, [0.0, 0.5, 1.0], bounds=bounds, intervals=True, epsilon=50)
        low, high = answer.interval()
        assert (low <= x[0]).all() and (x[0] <= high).all()
        assert (high[1] - low[1]) <= 1e-5


def test_entries_shapes_labels_and_pickles():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 2)), columns=["a", "b"])
    ask = {"bounds": (-5, 5), "intervals": True}
    answer = statistics.quantile(table, [0.25, 0.75], keepdims=True, **ask)
    assert answer.value.shape == (2, 1, 2) == answer.interval()[0].shape
    frame = answer.to_frame()
    ends = ["low", "high", "population_low", "population_high"]
    assert list(frame.columns) == ["q", "column", "value", "std", *ends]
    np.testing.assert_array_equal(frame["population_low"], answer.population_interval()[0].ravel())
    assert frame["q"].tolist() == [0.25, 0.25, 0.75, 0.75]
    assert frame["column"].tolist() == ["a", "b"] * 2
    one = answer[1, 0, 0]
    assert float(one.interval()[0]) == answer.interval()[0][1, 0, 0]
    assert float(one.population_interval()[1]) == answer.population_interval()[1][1, 0, 0]
    again = pickle.loads(pickle.dumps(answer))
    np.testing.assert_array_equal(again.interval(0.8), answer.interval(0.8))
    assert "<td>a</td>" in answer._repr_html_()
    flat = statistics.median(table["a"], **ask)
    for ends in (flat.interval(), flat.population_interval()):
        assert [type(end) for end in ends] == [float, float]
    mean = statistics.mean(table, **ask)
    assert mean[0].population_interval()[0] == mean.population_interval()[0][0]
    # No private row is kept: windows hold released counts and public edges.
    window = flat.limits.windows.item()
    assert isinstance(window, Window)
    assert window.counts.sum() == pytest.approx(400, abs=200)


def test_what_has_no_population_interval_says_which_has():
    x = np.random.default_rng(0).normal(size=100)
    answer = statistics.mean(x, bounds=(-5, 5), intervals=True)
    for other in (statistics.mean(x, bounds=(-5, 5)), 2 * answer, answer - answer):
        with pytest.raises(ValueError, match=r"population_interval needs .* intervals=True"):
            other.population_interval()
    for level in (0, 1, "x", np.nan):
        with pytest.raises(ValueError, match="level must be"):
            answer.population_interval(level)
    budget = PrivacyBudget(1.0)
    with pytest.raises(ValueError, match="axis must be 0 with intervals=True"):
        statistics.mean(x, axis=None, intervals=True, budget=budget)
    with pytest.raises(TypeError, match="intervals must be True or False"):
        statistics.median(x, intervals=1, budget=budget)
    assert not budget.charges


def test_a_call_spends_all_that_it_charges_and_no_more():
    x = np.random.default_rng(0).normal(size=(300, 2))
    for ask in ({}, {"delta": 1e-6}, {"bounds": (-5, 5)}):
        answer = statistics.quantile(x, [0.2, 0.8], intervals=True, **ask)
        shares = [one.share for one in answer.privacy.releases]
        assert sum(shares) == pytest.approx(1.0)


def test_windows_close_in_on_a_median_that_bounds_hold_far_too_wide(monkeypatch):
    x = np.random.default_rng(0).lognormal(6, 1, 5000)
    ask = {"bounds": (0, 1e6), "epsilon": 5.0, "intervals": True}
    assert np.ptp(statistics.median(x, **ask).interval()) < 100
    monkeypatch.setattr(limits, "_WINDOWS", 1)
    assert np.ptp(statistics.median(x, **ask).interval()) > 1e6 / 23
