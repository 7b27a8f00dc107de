"""Intervals of counts, sums and means at other levels than 95%."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.aggregation import DPGroupBy

ROWS = 1200


def table():
    rng = np.random.default_rng(0)
    user = np.arange(ROWS) // 3
    return {"user": user, "key": np.zeros(ROWS, dtype=int), "x": rng.uniform(0, 8, ROWS)}


def fitted(delta=0.0, **parameters):
    by = DPGroupBy("key", "user", epsilon=2, delta=delta, keys=[0], max_keys_per_unit=1,
                   max_rows_per_unit=3, **parameters)  # fmt: skip
    return by.agg(n="count", u="distinct_units", s=("sum", "x", (0, 8)), m=("mean", "x", (0, 8)),
                  q=("quantile", "x", 0.5, (0, 8)), far=("mean", "x", (0, 40)))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("level", [0.6, 0.99])
def test_intervals_hold_as_often_as_their_level_says(delta, level):
    given, fits = table(), 250 if level == 0.99 else 100  # rare misses need more
    true = {"n": ROWS, "u": ROWS // 3, "s": given["x"].sum(), "m": given["x"].mean()}
    true["far"] = true["m"]  # noise of the number of rows is most of its error
    held, errors = dict.fromkeys(true, 0), {name: [] for name in true}
    for _ in range(fits):
        by = fitted(delta).fit(given)
        for name, value in true.items():
            (number,) = by.released_[name]
            low, high = number.interval(level)
            errors[name].append(float(number - value) / number.std)
            held[name] += low <= value + 1e-6 and value - 1e-6 <= high
    # Four binomial standard deviations: a false alarm in at most 1 of 15,000 cases, a side. Counts
    # are integers, so they hold more often; those at 95% would fail on either side.
    gap = 4 * np.sqrt(level * (1 - level) / fits)
    for name, times in held.items():
        assert times / fits >= level - gap, name
        assert name in ("n", "u") or times / fits <= level + gap, name
    # Mean squares of noises with a kurtosis of at most 6: five of their deviations.
    for name, found in errors.items():
        assert abs(np.mean(np.square(found)) - 1) < 5 * np.sqrt(5 / fits), name


def test_levels_that_there_are_not_are_refused():
    by = fitted().fit(table())
    for level in (0.0, 1.0, 2.0, float("nan")):
        with pytest.raises(ValueError, match="level must be a number above"):
            by.released_["n"].interval(level)
    with pytest.raises(ValueError, match="known at 95% alone"):
        by.released_["q"].interval(0.9)
    with pytest.raises(ValueError, match="population are known at 95% alone"):
        by.released_["m"].population_interval(0.9)


def test_intervals_at_95_percent_are_those_of_the_table():
    by = fitted(1e-6).fit(table())
    for name in ("n", "u", "s", "m", "q"):
        low, high = by.released_[name].interval()
        assert list(by.table_[f"{name}_low"]) == low.tolist()
        assert list(by.table_[f"{name}_high"]) == high.tolist()
    # Gaussian noise that is small beside the numbers.
    for name in ("s", "m", "far"):
        (number,) = by.released_[name]
        low, high = number.interval()
        assert (high - low) / 2 == pytest.approx(1.96 * number.std, rel=0.01)


def test_a_higher_level_has_longer_intervals():
    by = fitted().fit(table())
    ends = np.array(
        [np.ravel(by.released_["m"].interval(level)) for level in (0.5, 0.9, 0.95, 0.99)]
    )
    assert (np.diff(ends[:, 0]) < 0).all()
    assert (np.diff(ends[:, 1]) > 0).all()
