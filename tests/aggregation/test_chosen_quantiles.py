"""Quantiles by key as chosen: their errors, their intervals, and when they come from a tree.

False alarms: 1e-7 for each test of how often intervals hold; 1e-5 for the errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy, _intervals
from skdp.aggregation import _plan as plan
from skdp.planning import Allowance
from tests.folding import each

A, R = RELATIONS = ("add_or_remove_one", "replace_one")
BOUNDS = (0.0, 100.0)
KEYS = 300
RANGE = {  # values of n rows of a key
    "even": lambda n: (np.arange(n) + 0.5) * 100 / n,
    "two values": lambda n: np.where(np.arange(n) < 0.7 * n, 33.0, 34.4),
    "far apart": lambda n: np.where(np.arange(n) < n / 2, 3.0, 97.0),
    "a gap": lambda n: np.r_[np.linspace(0, 15, n // 2), np.linspace(85, 100, n - n // 2)],
    "a step": lambda n: np.where(np.arange(n) < 0.2 * n, np.arange(n) / n * 200, 47.0),
    "a cluster": lambda n: 50 + np.linspace(-0.01, 0.01, n),
}


def fitted(x, q=0.5, relation=A, *, epsilon=1.0, delta=0.0, keys=KEYS, spec=None, **options):
    """Return the aggregates of keys that all have the values x, one row a unit."""
    budget = PrivacyBudget(1e6, 0.5, adjacency=relation, unit="u")
    table = {
        "u": np.arange(len(x) * keys),
        "k": np.repeat(np.arange(keys), len(x)),
        "x": np.tile(x, keys),
    }
    caps = {"max_keys_per_unit": 1, "max_rows_per_unit": 1, **options}
    by = DPGroupBy(
        "k", "u", keys=list(range(keys)), epsilon=epsilon, delta=delta, budget=budget, **caps
    )
    return by.agg(**(spec or {"m": ("quantile", "x", q, BOUNDS)})).fit(table)


def ends(by, name="m"):
    return tuple(np.array(by.table_[f"{name}{end}"]) for end in ("", "_low", "_high"))


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("relation", "most"), [(A, 2.5), (R, 5.0)])
def test_a_median_is_a_few_ranks_off(relation, most):
    """Of 6,000 keys: their mean is 2.1 (A) and 4.2 (R), the tree's 7 and 13 or more."""
    x = RANGE["even"](400)
    points, low, high = ends(fitted(x, relation=relation, keys=6000))
    off = np.abs(np.searchsorted(x, points) - 200)
    assert off.mean() <= most
    assert ((low <= points) & (points <= high)).all()


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@each("q", [0.5, 0.9])
def test_the_expected_length_is_the_usual_one(q, delta):
    """Within a third, where a key has far more rows than noise hides."""
    by = fitted(RANGE["even"](4000), q, delta=delta, keys=100)
    _, low, high = ends(by)
    expected = by.expected_error(rows_per_key=4000)["m"]
    half = np.median(high - low) / 2 / 100  # as a share of the rows
    assert half / 1.33 < expected < 1.33 * half


def test_a_distance_is_public_and_grows_with_what_a_unit_adds():
    one = _intervals._distances(Allowance(1.0, None, A), 0.5, (1, 1))
    assert one[0] == one[1]
    for caps, relation, factor in (((4, 1), A, 4), ((1, 3), A, 3), ((1, 1), R, 2)):
        more = _intervals._distances(Allowance(1.0, None, relation), 0.5, caps)
        assert more[0] == pytest.approx(factor * one[0], rel=0.01)
    below, above = _intervals._distances(Allowance(1.0, None, A), 0.9, (1, 1))
    assert below > 1.1 * above > one[0]


# --- intervals ----------------------------------------------------------------------------------


def held(name, n, q, relation, delta):
    """Return how many intervals have the lowest and the highest q-quantile; the worse of both."""
    x = RANGE[name](n)
    _, low, high = ends(fitted(x, q, relation, epsilon=4.0 if delta else 1.0, delta=delta))
    ranks = int(np.ceil(q * n - 1e-9)) - 1, min(int(np.floor(q * n + 1e-9)), n - 1)
    return min(int(((low <= x[r]) & (x[r] <= high)).sum()) for r in ranks)


LEAST = binom.ppf(1e-7, KEYS, 0.945)


@pytest.mark.statistical
@pytest.mark.parametrize(("relation", "delta"), [(A, 0.0), (R, 1e-6)])
@each("name", RANGE)
def test_intervals_hold_however_values_are_spread(name, delta, relation):
    for n, q in ((5, 0.5), (60, 0.5), (300, 0.5), (60, 0.9), (300, 0.7)):
        assert held(name, n, q, relation, delta) >= LEAST, (n, q)


@pytest.mark.statistical
def test_a_shorter_limit_is_seen(monkeypatch):
    right = _intervals._limits
    monkeypatch.setattr(_intervals, "_limits", lambda *a, **o: 0.3 * right(*a, **o))
    assert held("a gap", 300, 0.5, A, 0.0) < LEAST


@pytest.mark.statistical
def test_rows_that_count_in_part_have_their_own_quantile():
    """A unit of 9 rows at 90 counts like one of one row at 10, and the median is between."""
    n = 600
    u = np.r_[np.arange(n), np.repeat(np.arange(n, n + 280), 9)]
    x = np.r_[np.full(n, 10.0) + np.arange(n) / n, np.full(9 * 280, 90.0)]
    table = {"u": np.append(u, [9999]), "k": [0] * (len(u) + 1), "x": np.append(x, np.nan)}
    caps = {"max_keys_per_unit": 1, "max_rows_per_unit": 1}
    budget = PrivacyBudget(100, 0.5, adjacency=A, unit="u")
    by = DPGroupBy("k", "u", keys=[0], epsilon=50.0, delta=0.0, budget=budget, **caps)
    point, low, high = (v[0] for v in ends(by.agg(m=("x", "median", BOUNDS)).fit(table)))
    assert 10 <= low <= point <= high <= 11
    every = by.set_params(max_rows_per_unit=9).agg(m=("x", "median", BOUNDS)).fit(table)
    assert ends(every)[0][0] == pytest.approx(90.0, abs=0.01)


def test_ends_are_the_bounds_where_nothing_is_known():
    by = fitted(np.array([50.0]), epsilon=0.01, keys=20)
    _, low, high = ends(by)
    assert np.mean((low == 0) & (high == 100)) >= 0.5
    constant = fitted(np.full(50, 100.0), epsilon=100.0, keys=3)
    point, low, high = ends(constant)
    assert (high == 100).all() and (low > 99.99).all() and (point == 100).all()


@each("delta", [0.0, 1e-5])
@each("epsilon", [1e-4, 1e-6])
def test_next_to_no_allowance_is_no_error(epsilon, delta):
    for q in (0.5, 0.999):
        point, low, high = ends(
            fitted(np.array([50.0] * 9), q, epsilon=epsilon, delta=delta, keys=3)
        )
        assert ((low >= 0) & (low <= point) & (point <= high) & (high <= 100)).all()
    assert _intervals._rows(np.inf) == _intervals._MOST


def test_edges_ascend_and_stay_between_the_bounds():
    top = 1 << _intervals.POINT_BITS
    points = np.array([0, top, 500, 7, 500])
    lows, highs = np.array([0, 5, 490, 9, 500]), np.array([top, top, 520, 3, 500])
    cuts = _intervals._cuts(points, lows, highs)
    assert (np.diff(cuts, axis=1) >= 0).all() and cuts.min() == 0 and cuts.max() == top + 1
    assert cuts[2].tolist() == [475, 490, 496, 509, 521, 551]
    assert (cuts[:, :3] <= points[:, None]).all() and (cuts[:, 3:] > points[:, None]).all()


# --- what is chosen, and what comes from a tree ---------------------------------------------------


def test_a_median_is_stated_in_several_ways():
    ways = [("median", "x"), ("x", "median"), ("quantile", "x", 0.5), ("x", "quantile", 0.5)]
    for bounds in ([], [BOUNDS]):
        found = [plan.check_aggregates({"m": (*way, *bounds)}, {}) for way in ways]
        assert all(one == found[0] for one in found)
    assert plan.check_aggregates({"m": ("x", "mean")}, {})[0].kind == "mean"
    # A column with the name of an aggregate is the column of the aggregate before it.
    (odd,) = plan.check_aggregates({"m": ("mean", "median")}, {})
    assert (odd.kind, odd.column) == ("mean", "median")


@each(
    ("levels", "chosen"),
    [((0.5,), True), ((0.25, 0.75), True), ((0.5, 0.5, 0.5), True), ((0.25, 0.5, 0.75), False)],
)
def test_many_quantiles_of_a_column_come_from_one_tree(levels, chosen):
    spec = {f"q{i}": ("quantile", "x", q, BOUNDS) for i, q in enumerate(levels)}
    spec["other"] = ("median", "y", BOUNDS)
    *found, other = plan.check_aggregates(spec, {})
    assert {bool(a.chosen) for a in found} == {chosen} and other.chosen
    caps = {"max_keys_per_unit": 1, "max_rows_per_unit": 1}
    shares = DPGroupBy("k", "u", keys=["a"], delta=0.0, **caps).agg(**spec)._check().shares
    n = 1 + (len(set(levels)) if chosen else 1)
    assert shares["term"] * n == shares["terms"]


def test_equal_quantiles_are_one_choice_and_the_share_is_spent_once():
    spec = {"a": ("median", "x", BOUNDS), "b": ("x", "quantile", 0.5, BOUNDS), "n": "count"}
    by = fitted(RANGE["even"](50), keys=5, spec=spec)
    assert list(by.table_["a"]) == list(by.table_["b"])
    names = [release.name for release in by.privacy_.releases]
    assert names.count("quantile 0.5 x") == 1
    assert sum(release.share for release in by.privacy_.releases) <= 1
    with pytest.raises(ValueError, match="at 95% alone"):
        by.released_["a"].interval(0.9)


def test_no_caps_are_chosen_for_a_median_as_for_a_number_of_units():
    """A private cap on rows is that of a quantile: above 1 where units have many rows."""
    g = np.random.default_rng(0)
    table = {"u": np.repeat(np.arange(3000), 8), "k": np.zeros(24000, int),
             "x": g.uniform(0, 100, 24000)}  # fmt: skip
    budget = PrivacyBudget(100, 0.5, adjacency=A, unit="u")
    by = DPGroupBy("k", "u", keys=[0], epsilon=20.0, delta=0.0, budget=budget)
    chosen = by.agg(m=("median", "x", BOUNDS)).fit(table).max_rows_per_unit_
    assert chosen == by.agg(m=("mean", "x", BOUNDS)).fit(table).max_rows_per_unit_ > 1
