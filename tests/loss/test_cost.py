"""Prices: one fit, or an exact sum of several that keeps its components."""

from __future__ import annotations

import dataclasses
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.budget import Cost, PrivacyLoss, exact
from tests.folding import each

PURE, GAUSS, CLAIM = Cost(0.1), Cost(0.5, 1e-6, mu=0.12), Cost(0.2, 1e-7)


def test_the_simple_forms():
    cost = Cost(epsilon=1, delta=0, mu=None)
    assert (cost.epsilon, cost.delta, cost.mu, cost.separate_delta) == (1.0, 0.0, None, 0.0)
    assert cost.components == ((cost, 1),)
    assert [c.mechanism for c in (PURE, GAUSS, CLAIM)] == ["pure", "gaussian", "approximate"]


def test_a_sum_keeps_its_components():
    total = 3 * PURE + GAUSS + PURE * 2 + 1 * CLAIM
    assert dict(total.components) == {PURE: 5, GAUSS: 1, CLAIM: 1}
    assert total.mechanism == "mixed"
    assert (total.epsilon, total.delta) == (1.2, 1.1e-06)
    assert (4 * GAUSS).mechanism == "gaussian"


def test_the_order_of_a_sum_does_not_matter():
    costs = [PURE, GAUSS, CLAIM, PURE]
    assert sum(costs) == sum(costs[::-1]) == (PURE + GAUSS) + (CLAIM + PURE)
    assert hash(sum(costs)) == hash(sum(costs[::-1]))
    assert 1 * PURE == PURE
    assert 2 * (PURE + GAUSS) == 2 * PURE + 2 * GAUSS
    assert pickle.loads(pickle.dumps(sum(costs))) == sum(costs)


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=8), st.integers(1, 20))
def test_sums_are_never_below_the_exact_sum(epsilons, times):
    total = times * sum(Cost(e) for e in epsilons)
    true = times * sum(exact(e) for e in epsilons)
    assert exact(total.epsilon) >= true
    assert exact(math.nextafter(total.epsilon, 0)) < true


def test_ten_tenths_are_one():
    assert (10 * Cost(0.1)).epsilon == 1.0
    assert sum([Cost(0.1)] * 3).epsilon == 0.3


@each(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon must"),
        ({"epsilon": math.nan}, "epsilon must"),
        ({"epsilon": 1, "delta": 1}, "delta must"),
        ({"epsilon": 1, "delta": 0.1, "mu": 0}, "mu must"),
        ({"epsilon": 1, "delta": 0, "mu": 1}, "delta must be above 0"),
        ({"epsilon": 1, "delta": 0.1, "separate_delta": 0.2}, "separate_delta must"),
    ],
)
def test_bad_prices(arguments, message):
    with pytest.raises(ValueError, match=message):
        Cost(**arguments)


def test_bad_arithmetic():
    with pytest.raises(ValueError, match="whole number >= 1"):
        0 * PURE
    for wrong in (1.5, True, "2"):
        with pytest.raises(TypeError):
            wrong * PURE
    with pytest.raises(TypeError):
        PURE + 1.0


def test_prices_and_losses_are_immutable():
    for thing in (PURE, PrivacyLoss(1.0, 0.0)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            thing.epsilon = 2.0
    assert repr(PURE) == "Cost(epsilon=0.1, delta=0.0, mu=None, separate_delta=0.0)"
