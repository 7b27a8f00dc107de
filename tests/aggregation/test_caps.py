"""Caps from noisy histograms: noise alone is not taken for units of many rows."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.aggregation._plan import KEY_EDGES, ROW_EDGES, Shapes
from skdp.queries import counting_law
from tests.folding import each

N_TABLES = 3000


def noise(rng, std, size, pure):
    return rng.laplace(0, std / math.sqrt(2), size) if pure else rng.normal(0, std, size)


def chosen(rng, keys, rows, std, pure, **options):
    asked = {"stated": (1, None), "noise": 2.0, "power": 1.0 if pure else 0.5, "of_rows": True}
    by_keys = keys + noise(rng, std, len(KEY_EDGES), pure)
    by_rows = rows + noise(rng, std, len(ROW_EDGES), pure)
    return Shapes(by_keys, by_rows, std, pure).best_caps(n_keys=3, **asked | options)[0]


def units(edges, **numbers):
    """Return a histogram: ``_5=100`` are 100 units of 5."""
    counts = np.zeros(len(edges))
    for name, count in numbers.items():
        counts[np.searchsorted(edges, int(name[1:]), side="right") - 1] += count
    return counts


@pytest.mark.parametrize(("pure", "size"), [(True, 100), (False, 100_000)])
def test_noise_is_not_taken_for_units_of_many_rows(pure, size):
    """All units have one row: a larger cap comes of noise alone, the rarer the larger it is.

    Of 3,000 tables 4 to 7% have more than 2, 0.9% at most more than 16, 0.2% more than 64: limits
    are above these by six standard errors. A rule of two deviations has hundreds in the last.
    """
    rng = np.random.default_rng(5)
    keys, rows = units(KEY_EDGES, _1=size), units(ROW_EDGES, _1=size)
    caps = np.array([chosen(rng, keys, rows, 10.0, pure)[1] for _ in range(N_TABLES)])
    for cap, most in ((2, 0.1), (16, 0.02), (64, 0.006), (1024, 0.003)):
        assert np.mean(caps > cap) < most
    shapes = Shapes(keys + noise(rng, 10.0, len(keys), pure), rows, 10.0, pure)
    assert shapes.upper_cap() == 2


@pytest.mark.parametrize("pure", [True, False])
def test_units_of_many_bins_that_noise_hides_one_by_one_are_seen_together(pure):
    """500 units have 1 to 12 rows, some 50 in a bin, where noise has a deviation of 40."""
    rng = np.random.default_rng(6)
    keys, rows = units(KEY_EDGES, _1=500), np.zeros(len(ROW_EDGES))
    rows[:9] = 500 / 9
    caps = [chosen(rng, keys, rows, 40.0, pure)[1] for _ in range(200)]
    assert np.median(caps) >= 5


@pytest.mark.parametrize("pure", [True, False])
def test_a_cap_reaches_the_end_of_the_last_bin(pure):
    """All units have 100 rows, far above noise: a cap of 96 would leave rows out for nothing."""
    rng = np.random.default_rng(6)
    keys, rows = units(KEY_EDGES, _1=10**6), units(ROW_EDGES, _100=10**6)
    assert {chosen(rng, keys, rows, 10.0, pure) for _ in range(50)} == {(1, 128)}


def test_units_of_many_rows_are_seen():
    rng = np.random.default_rng(7)
    keys = units(KEY_EDGES, _1=10**6)
    rows = units(ROW_EDGES, _1=900_000, _3=90_000, _200=10_000)
    assert {chosen(rng, keys, rows, 10.0, False)[1] for _ in range(50)} == {256}


def test_nothing_seen_is_one():
    rng = np.random.default_rng(8)
    keys, rows = units(KEY_EDGES, _3=20), units(ROW_EDGES, _7=20)
    assert chosen(rng, keys, rows, 1e4, True, stated=(None, None)) == (1, 1)


def test_what_is_left_out_weighs_more_than_noise():
    """Units have up to 5 rows: with a weight of 1 a cap of 4 is chosen in 42 of 50 tables."""
    rng = np.random.default_rng(9)
    keys = units(KEY_EDGES, _1=3000)
    rows = units(ROW_EDGES, _1=2000, _2=600, _3=250, _4=100, _5=50)
    caps = [chosen(rng, keys, rows, 10.0, False, noise=20.0)[1] for _ in range(50)]
    assert np.median(caps) == 5


@each("noise", [1e-3, 1.0, 1e6])
@each("of_rows", [True, False])
def test_caps_keep_95_percent_of_rows_whatever_the_noise(noise, of_rows):
    keys, rows = units(KEY_EDGES, _1=900, _3=90, _24=10), units(ROW_EDGES, _1=1000)
    shapes = Shapes(keys, rows, 1e-3, True)
    options = {"noise": noise, "power": 1.0, "of_rows": of_rows}
    # 900 + 270 + 240 pairs: a cap of 3 keeps 1,200 of 1,410, and 16 keeps 1,330, 94.3%.
    (most, _), _ = shapes.best_caps((None, None), 100, **options)
    assert most >= 20
    (most, _), error = shapes.best_caps((2, None), 100, **options)
    assert most == 2 and error > 0


def test_counts_that_select_keys_have_the_least_caps_that_keep_95_percent():
    keys, rows = units(KEY_EDGES, _1=990, _2=10), units(ROW_EDGES, _1=500, _4=500)
    shapes = Shapes(keys, rows, 1e-3, True)

    def threshold(caps):
        return float(counting_law(*caps, Fraction(1), 1e-6, pure=True, replace=False)[1])

    caps, least = shapes.counting_caps((None, None), threshold, of_rows=True)
    assert caps == (1, 4) and least >= threshold((1, 4))
    caps, _ = shapes.counting_caps((None, None), threshold, of_rows=False)
    assert caps == (1, 1)


def of_pages(kind, **caps):
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(1500), rng.poisson(4, 1500) + 1)
    table = {"user": users, "page": rng.integers(0, 3, len(users))}
    table["stay"] = rng.random(len(users))
    budget = PrivacyBudget(1e3, 0.1, adjacency="add_or_remove_one", unit="user")
    by = DPGroupBy("page", "user", keys=[0, 1, 2], epsilon=2.0, budget=budget, **caps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return by.agg(x=kind).fit(table)


@pytest.mark.parametrize("kind", ["count", ("sum", "stay", (0, 1)), "distinct_units"])
def test_results_say_that_intervals_are_of_the_rows_within_private_caps(kind):
    fitted = of_pages(kind)
    note, missing = fitted.notes_
    assert missing.endswith("is missing, if there are any, are left out")
    keys, rows = fitted.max_keys_per_unit_, fitted.max_rows_per_unit_
    assert f"in at most {keys} key" in note
    assert f"at most {rows} of its rows in each" in note
    assert "not of all" in note
    name = "keys" if kind == "distinct_units" else "rows"
    assert f"{math.ceil(fitted.left_out_[f'{name}_high']):,}" in note


@pytest.mark.parametrize(
    ("kind", "caps"),
    [
        ("count", {"max_keys_per_unit": 3, "max_rows_per_unit": 4}),
        (("mean", "stay", (0, 1)), {}),
        ("distinct_units", {"max_keys_per_unit": 3}),
    ],
)
def test_stated_caps_and_means_need_no_note(kind, caps):
    (missing,) = of_pages(kind, **caps).notes_
    assert missing == "Rows in which 'user' or 'page' is missing, if there are any, are left out"
