"""Intervals of all keys at once are those of each key alone, on ordinary and on extreme numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from skdp.aggregation import DPGroupBy, _intervals
from skdp.aggregation._intervals import quantile_bins, quotient_intervals, variance_interval
from tests.aggregation import slow_intervals
from tests.folding import each

KEYS = 100
RANGES = [1.0, 3e-90, 1e-9, 4e7, 2e95]
SIZES = {"few rows": 3, "as many as noise": 30, "many": 10**6, "more than noise": 10**14}


def numbers(seed, size, half):
    """Return totals and counts of keys: ordinary, without rows, beyond bounds, with no noise."""
    rng = np.random.default_rng(seed)
    count = np.round(rng.normal(0.5, 0.5, KEYS) * size)
    total = half * (count * rng.uniform(-1.3, 1.3, KEYS) + rng.normal(0, 9, KEYS))
    count[:6], total[:6] = (0, 0, 1, -5, size, -size), half * np.array([0, 40, -1, 3, size, size])
    total[6:20] = half * count[6:20] * rng.choice([-1.0, 0.0, 1.0, 0.25], 14)  # on the grid
    return total, count


def both(total, count, total_std, count_std, half, *, extra=0.0, **options):
    """Return the intervals at once and those of each key alone, in half ranges."""
    options = {"low": -half, "high": half, **options}
    fast = np.array(quotient_intervals(total, count, total_std, count_std, extra=extra, **options))
    one = np.broadcast_to(extra, total.shape)
    slow = np.array(
        [
            slow_intervals.quotient_interval(t, n, total_std, count_std, extra=more, **options)
            for t, n, more in zip(total.tolist(), count.tolist(), one.tolist(), strict=True)
        ]
    ).T
    return fast / half, slow / half


@each("pure", [True, False])
@each("half", RANGES)
@each("size", SIZES.values(), ids=list(SIZES))
def test_quotients_are_those_of_each_key(pure, half, size):
    total, count = numbers(size, size, half)
    rng = np.random.default_rng(size)
    spreads = [0.0, half**2 * rng.exponential(size, KEYS) * rng.integers(0, 2, KEYS)]
    for level in (0.95, 0.5):
        for stds in ((7.0, 5.0), (1e-6, 3.0), (4.0, 1e-6), (1e8, 1e8)):
            for extra in spreads if level == 0.95 else spreads[:1]:
                fast, slow = both(
                    total, count, stds[0] * half, stds[1], half, extra=extra, pure=pure, level=level
                )
                assert np.abs(fast - slow).max() <= 1e-11
                assert (fast[0] <= slow[0] + 1e-11).all() and (fast[1] >= slow[1] - 1e-11).all()


def test_ends_are_the_outer_numbers():
    """What is just beyond an end is not allowed, and the end is not short of what is."""
    total, count = numbers(1, 1000, 1.0)
    low, high = quotient_intervals(total, count, 7.0, 5.0, low=-1.0, high=1.0, pure=False)
    allowed = lambda r: _intervals.Z * np.hypot(7.0, 5.0 * r) - np.abs(total - r * count)  # noqa: E731
    clear = low < high
    for end, outwards in ((low, -1e-11), (high, 1e-11)):
        inside = clear & (np.abs(end) < 1)
        assert inside.sum() > KEYS / 3
        assert (allowed(end + outwards)[inside] < 0).all()
        assert (allowed(end - outwards)[inside] > 0).all()


def test_a_narrower_interval_is_seen(monkeypatch):
    total, count = numbers(2, 1000, 1.0)
    right = _intervals.heavy_z
    monkeypatch.setattr(_intervals, "heavy_z", lambda *which: (1 - 1e-8) * right(*which))
    fast, slow = both(total, count, 7.0, 5.0, 1.0, pure=False)
    assert np.abs(fast - slow).max() > 1e-11


@each("pure", [True, False])
@each("size", SIZES.values(), ids=list(SIZES))
def test_variances_are_those_of_each_key(pure, size):
    total, count = numbers(size, size, 1.0)
    square = count * np.random.default_rng(0).uniform(-0.6, 0.6, KEYS)
    for stds in ((5.0, 7.0, 3.0), (1e-6, 1e-6, 1e-6), (1e6, 1.0, 1e-3)):
        fast = variance_interval(count, total, square, stds, pure=pure)
        slow = slow_intervals.variance_interval(count, total, square, stds, pure=pure)
        assert np.array_equal(fast, slow)


@each("pure", [True, False])
@each("q", [0.5, 0.9, 0.01])
def test_quantiles_are_those_of_each_key(pure, q):
    rng = np.random.default_rng(5)
    for depth in (7, 1):
        leaves = rng.poisson(rng.choice([0, 0.05, 2, 1000], (KEYS, 1)), (KEYS, 2**depth))
        leaves[:3] = 0  # keys without rows
        nodes = np.hstack([leaves.reshape(KEYS, 2**k, -1).sum(axis=2) for k in range(1, depth + 1)])
        for std in (1e-300, 0.3, 20.0, 1e9):
            noisy = nodes + rng.normal(0, std, nodes.shape) * (std > 1e-9)
            fast = quantile_bins(noisy, std, depth, q, pure=pure)
            slow = slow_intervals.quantile_bins(noisy, std, depth, q, pure=pure)
            assert np.allclose(fast[0], slow[0], rtol=0, atol=1e-9)
            assert all(np.array_equal(a, b) for a, b in zip(fast[1:], slow[1:], strict=True))


def test_pools_are_those_of_isotonic_regression():
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.normal(size=(50, 129)), np.sort(rng.normal(size=(5, 129)), axis=1),
                      -np.sort(rng.normal(size=(5, 129)), axis=1), np.zeros((2, 129)),
                      rng.integers(-2, 2, (9, 129))])  # fmt: skip
    expected = np.array([slow_intervals.isotonic_regression(row) for row in rows])
    assert np.allclose(_intervals._ascending(rows), expected, rtol=1e-12, atol=1e-12)


@each("keys", [0, 1, 31, 33, 256, 257, 2049])
def test_any_number_of_keys(keys):
    rng = np.random.default_rng(keys)
    total, count = rng.normal(0, 50, keys), rng.normal(100, 50, keys)
    low, high = quotient_intervals(total, count, 7.0, 5.0, low=-1.0, high=1.0, pure=False)
    first, _, last = variance_interval(count, total, total, (5.0, 7.0, 3.0), pure=False)
    value, *_ = quantile_bins(rng.normal(size=(keys, 254)), 1.0, 7, 0.5, pure=False)
    assert len(low) == len(high) == len(first) == len(last) == len(value) == keys
    alone = [quotient_intervals(total[i:][:1], count[i:][:1], 7.0, 5.0, low=-1.0, high=1.0,
                                pure=False) for i in range(0, keys, 97)]  # fmt: skip
    assert [one[0][0] for one in alone] == low[::97].tolist()


def test_memory_does_not_grow_with_the_keys():
    """A table of 513 or 4,097 numbers a key would take 33 or 262 MB of 8,000 keys."""
    rng = np.random.default_rng(0)
    total, count = rng.normal(0, 50, 8000), rng.normal(100, 50, 8000)
    extra = rng.exponential(9.0, 8000)
    tracemalloc.start()
    try:
        quotient_intervals(total, count, 7.0, 5.0, low=-1.0, high=1.0, pure=True, extra=extra)
        variance_interval(count, total, total, (5.0, 7.0, 3.0), pure=True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 20 * 2**20


AGGREGATES = {
    "n": "count", "u": "distinct_units", "s": ("sum", "x", (-3, 8)), "m": ("mean", "x", (0, 8)),
    "v": ("variance", "x", (0, 8)), "d": ("std", "x", (0, 8)),
    "q": ("quantile", "x", 0.9, (0, 8)), "h": ("histogram", "x", [0, 1, 5, 8]),
    # Three of a column come from a tree of bins.
    "q1": ("quantile", "x", 0.25, (0, 8)), "q2": ("median", "x", (0, 8)),
    "chosen": ("median", "x", (0, 9)),
}  # fmt: skip


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("stated", [["a"], list("abcdefgh")])
def test_results_are_those_of_each_key(monkeypatch, delta, stated):
    """Of all aggregates, with missing cells, keys without rows and a key of one row."""
    rng = np.random.default_rng(3)
    key = rng.choice(list("abcdz"), 900, p=[0.5, 0.2, 0.2, 0.05, 0.05])
    x = np.where(rng.random(900) < 0.3, np.nan, rng.exponential(3, 900))
    table = {"k": np.append(key, "e"), "u": np.arange(901) // 3, "x": np.append(x, 1e300)}
    by = DPGroupBy("k", "u", delta=delta, keys=stated, max_keys_per_unit=2, max_rows_per_unit=2)
    by = by.agg(**AGGREGATES).fit(table)

    def columns():
        made = {}
        for name, totals in by._noisy.items():
            made |= totals.columns()
            if totals.aggregate.kind == "mean":
                made |= totals.columns(spread=totals.releases[0])
            assert len(made[name if name != "h" else "h_0"]) == len(stated)
        return made

    fast = columns()

    def quotients(total, count, *stds, extra=0.0, **options):
        every = zip(total, count, np.broadcast_to(extra, total.shape), strict=True)
        ends = [slow_intervals.quotient_interval(t, n, *stds, extra=more, **options)
                for t, n, more in every]  # fmt: skip
        return np.array(ends).T

    monkeypatch.setattr(_intervals, "quotient_intervals", quotients)
    monkeypatch.setattr(_intervals, "variance_interval", slow_intervals.variance_interval)
    monkeypatch.setattr(_intervals, "quantile_bins", slow_intervals.quantile_bins)
    slow = columns()
    assert fast.keys() == slow.keys() and {"m_population_low", "v_high", "q_low", "h_2"} <= set(
        fast
    )
    for name, cells in fast.items():
        assert np.allclose(cells, slow[name], rtol=1e-9, atol=1e-10), name
        assert name not in by.table_ or "population" in name or cells == list(by.table_[name])


def test_means_within_the_widest_bounds_have_intervals():
    """Fourth powers of the noise are beyond all floats: their shares of the variance are not."""
    table = {"k": list("ab") * 300, "u": np.arange(600), "x": np.linspace(-4e99, 4e99, 600)}
    by = DPGroupBy("k", "u", delta=0.0, keys=["a", "b"], max_keys_per_unit=1, max_rows_per_unit=1)
    found = by.agg(m=("mean", "x", (-4e99, 4e99))).fit(table).table_
    for low, high in (("m_low", "m_high"), ("m_population_low", "m_population_high")):
        assert all(-4e99 <= a < b <= 4e99 for a, b in zip(found[low], found[high], strict=True))
