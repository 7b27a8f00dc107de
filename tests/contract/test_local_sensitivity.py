"""Noise by local sensitivity, and pure claims of Laplace noise by smooth sensitivity, are caught.

The library's own mechanisms pass on the same tables. `Broken` breaks the rules on purpose. Of
seven zeros and ones, the median moves from 1 to 0 between {0,0,0,1,1,1,1} and {0,0,0,0,1,1,1}. The
local sensitivity of both is 1, so that this pair cannot tell local from global sensitivity; one
more row away it jumps from 1 to 0, and the noise's scale with it.

False alarms: an audit of something private fails with probability at most 1 - CONFIDENCE = 3e-6,
all of them in this file together below 5e-5; seeds are fixed. What must be caught here was caught
in each of 20 audits with other seeds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skdp.audit import audit
from skdp.quantile import DPMedian
from skdp.queries.smooth_sensitivity import medians as smooth_module
from skdp.queries.smooth_sensitivity.ladders import student_kappa
from skdp.queries.smooth_sensitivity.medians import order_window, smooth_sensitivity
from tests.folding import each

CONFIDENCE = 1 - 3e-6
HALF = Fraction(1, 2)
STEP = 100  # of the grid that sensitivities are computed on


def ones(k):
    """Return seven rows, k of them 1."""
    return np.repeat([[0.0], [1.0]], [7 - k, k], axis=0)


SOURCE = ones(4), ones(3)  # medians 1 and 0, both with local sensitivity 1
JUMP = ones(5), ones(4)  # median 1 of both, local sensitivities 0 and 1
# No scale is 0: local sensitivities 0.05 and 0.45. The row 0.5 becomes 1.
WIDER = (
    np.array([[0.0], [0.0], [0.45], [0.5], [0.55], [1.0], [1.0]]),
    np.array([[0.0], [0.0], [0.45], [1.0], [0.55], [1.0], [1.0]]),
)
PAIRS = {"source": SOURCE, "jump": JUMP, "wider": WIDER}


def median_and_local(X):
    """Return x_(m), m = ceil(n / 2), and its local sensitivity in [0, 1], one row replaced."""
    x = np.concatenate([[0.0], np.sort(X[:, 0]), [1.0]])
    m = (len(x) - 1) // 2
    return x[m], max(x[m + 1] - x[m], x[m] - x[m - 1])


def smooth(X, beta):
    """Return the smooth sensitivity of the median in [0, 1], one row replaced."""
    steps = np.rint(STEP * X[:, 0]).astype(int)
    return smooth_sensitivity(steps, HALF, 0, STEP, beta, replace=True)[1] / STEP


class Broken(BaseEstimator):
    """The median plus Laplace noise of the scale that `rule` says; claims pure epsilon.

    "local" and "smooth" break their claim: the first is the shortcut that the source warns of, the
    second the source's own theorem. "global" is right.
    """

    def __init__(self, rule: str, epsilon: float = 2.0, random_state: Any = None) -> None:
        self.rule = rule
        self.epsilon = epsilon
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Broken:
        center, local = median_and_local(X)
        scale = {"local": local, "global": 1.0}.get(self.rule)
        if scale is None:
            scale = smooth(X, self.epsilon)
        noise = np.random.default_rng(self.random_state).laplace(scale=scale / self.epsilon)
        self.median_ = np.array([center + noise])
        return self


def audited(estimator, pair, statistic="median_", seed=0, n_runs=3000):
    """Audit a claim: that of `Broken` is given, because it states no cost."""
    return audit(
        estimator,
        *PAIRS[pair],
        statistic,
        epsilon=estimator.epsilon,
        n_runs=n_runs,
        confidence=CONFIDENCE,
        random_state=seed,
    )


def far(center):
    """Return the statistic |released - center|: noise of different scales about one median."""
    return lambda fitted: abs(fitted.median_[0] - center)


def refuted_at(result, factor):
    """Say whether the same runs refute a claim that is smaller by a factor."""
    return replace(result, epsilon=result.epsilon / factor).refuted


# --- what is in the tables ---------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
def test_the_tables_are_neighbours(pair):
    first, second = PAIRS[pair]
    assert min(
        sum(a != b for a, b in zip(first[:, 0], order, strict=True))
        for order in set(itertools.permutations(second[:, 0]))
    ) == 1  # fmt: skip


@pytest.mark.parametrize(
    ("X", "median", "local"),
    [
        (SOURCE[0], 1.0, 1.0),
        (SOURCE[1], 0.0, 1.0),
        (JUMP[0], 1.0, 0.0),
        (WIDER[0], 0.5, 0.05),
        (WIDER[1], 0.55, 0.45),
    ],
)
def test_local_sensitivity_is_the_most_that_one_row_moves_the_median(X, median, local):
    assert median_and_local(X) == pytest.approx((median, local))
    moved = []
    for row, value in itertools.product(range(7), np.linspace(0, 1, 21)):
        neighbour = X.copy()
        neighbour[row] = value
        moved.append(abs(median_and_local(neighbour)[0] - median))
    assert max(moved) == pytest.approx(local)


def test_smooth_sensitivity_has_no_jump_where_the_local_one_has():
    for pair, beta in itertools.product(PAIRS.values(), (0.1, 1.0)):
        first, second = (smooth(X, beta) for X in pair)
        assert abs(math.log(first / second)) <= beta * (1 + 1e-12)
        assert all(smooth(X, beta) >= median_and_local(X)[1] - 1e-12 for X in pair)
    assert smooth(ones(5), 1.0) == pytest.approx(math.exp(-1))


# --- local sensitivity ---------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("pair", ["jump", "wider"])
def test_noise_by_local_sensitivity_is_caught_where_it_jumps(pair):
    center = median_and_local(PAIRS[pair][0])[0]
    result = audited(Broken("local"), pair, far(center))
    assert result.refuted
    # The same audit of the same code, with the one scale that is right.
    assert not audited(Broken("global"), pair, far(center)).refuted


@pytest.mark.statistical
def test_the_pair_of_the_source_alone_does_not_catch_it():
    """Both scales are 1 / epsilon there: the loss is epsilon, no more. A pair proves nothing."""
    result = audited(Broken("local"), "source")
    assert result.passed
    assert refuted_at(result, 1.5)


def test_without_noise_one_release_tells_the_tables_apart():
    """Where the local sensitivity is 0 the exact median is released: the loss is infinite."""
    released = [Broken("local", random_state=s).fit(JUMP[0]).median_[0] for s in range(20)]
    assert set(released) == {1.0}
    assert 1.0 not in {Broken("local", random_state=s).fit(JUMP[1]).median_[0] for s in range(20)}


# --- what the library does -----------------------------------------------------------------------


# The last column says how much of the claim shows: a claim smaller by this factor is refuted by the
# same runs. The tables of "jump" have one median: only the scale of the smooth mechanism's noise
# tells them apart, by less than so few runs resolve.
OWN = [
    ("smooth", "source", 4.0),
    pytest.param("smooth", "jump", None, marks=pytest.mark.exhaustive),
    pytest.param("smooth", "wider", 8.0, marks=pytest.mark.exhaustive),
    ("exponential", "source", 12.0),
    ("exponential", "jump", 12.0),
    ("global", "source", 2.5),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("mechanism", "pair", "factor"), OWN)
def test_the_library_s_medians_pass(mechanism, pair, factor):
    # Of integers, as the median of such should be asked for.
    step = 1.0 if mechanism == "exponential" else None
    median = DPMedian(mechanism=mechanism, bounds=(0, 1), step=step, epsilon=4.0)
    result = audited(median, pair, n_runs=700 if pair == "source" else 1400)
    assert not result.refuted
    if factor is not None:
        assert refuted_at(result, factor)


@pytest.mark.statistical
@pytest.mark.parametrize("local", [False, True])
def test_the_smooth_mechanism_with_local_sensitivities_would_be_caught(monkeypatch, local):
    """The library's own code, its sensitivity replaced by the local one."""

    def log_local(x, m, low, high, beta, reach):
        window = order_window(x, m - 1, m + 1, low, high)
        gap = int(np.diff(window).max())
        return int(window[1]), math.log(gap) if gap else -math.inf

    if local:
        monkeypatch.setattr(smooth_module, "log_smooth_replace", log_local)
    median = DPMedian(mechanism="smooth", bounds=(0, 1), epsilon=2.0)
    assert audited(median, "jump", n_runs=600).refuted is local


# --- Laplace noise by smooth sensitivity --------------------------------------------------------


def laplace_loss(z, s, s_other):
    """Return log of the ratio of two Laplace densities about 0, of scales s and s_other."""
    return math.log(s_other / s) - abs(z) / s + abs(z) / s_other


def laplace_delta(epsilon, s, s_other, shift):
    """Return sup over E of P(E) - exp(epsilon) P'(E): the integral of what is above 0."""
    z = np.linspace(-60 * s, 60 * s, 400_001)
    p = np.exp(-np.abs(z) / s) / (2 * s)
    other = np.exp(-np.abs(z - shift) / s_other) / (2 * s_other)
    return float(np.maximum(p - math.exp(epsilon) * other, 0).sum() * (z[1] - z[0]))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_laplace_by_smooth_sensitivity_is_not_pure(epsilon):
    """Exactly: scale S / epsilon and beta = epsilon, as the source has it, on the pair "jump"."""
    narrow, wide = (smooth(X, epsilon) / epsilon for X in JUMP)
    assert wide / narrow == pytest.approx(math.exp(epsilon))
    # Up to here the loss is epsilon at most; twice as far it is not.
    edge = 2 * epsilon / (1 / narrow - 1 / wide)
    assert laplace_loss(edge, wide, narrow) == pytest.approx(epsilon)
    assert laplace_loss(2 * edge, wide, narrow) > 2.5 * epsilon
    # And that is not rare: the failure, in closed form and by integration.
    delta = math.exp(-edge / wide) - math.exp(epsilon - edge / narrow)
    assert laplace_delta(epsilon, wide, narrow, 0.0) == pytest.approx(delta, rel=1e-3)
    assert delta > {0.1: 0.014, 1.0: 0.19, 3.0: 0.69}[epsilon]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.02), (1.0, 0.23)])
def test_how_much_it_fails_at_worst(epsilon, delta):
    """The pair has no shift; with one, up to the smaller S, it fails more."""
    wide, narrow = 1 / epsilon, math.exp(-epsilon) / epsilon
    shifts = np.linspace(0, epsilon * narrow, 9)
    worst = max(laplace_delta(epsilon, wide, narrow, shift) for shift in shifts)
    assert round(worst, 2) == delta


@pytest.mark.parametrize("factor", [1, 10, 1000])
def test_no_factor_mends_it(factor):
    """With more noise the failure is rarer, and still there: the loss grows with |z| for ever."""
    narrow, wide = (factor * smooth(X, 1.0) for X in JUMP)
    assert laplace_loss(3 / (1 / narrow - 1 / wide), wide, narrow) > 1.0


def cauchy_loss(z, shift, s, s_other):
    """Return log of the ratio of Cauchy densities: about 0 with s, about shift with s_other."""
    return np.log(s / s_other) + np.log(s_other**2 + (z - shift) ** 2) - np.log(s**2 + z**2)


@each("epsilon", [0.1, 1.0, 3.0])
@each("pair", PAIRS)
def test_cauchy_noise_at_its_constant_is_pure_on_the_same_pairs(pair, epsilon):
    beta = epsilon / 2
    kappa = student_kappa(epsilon, beta, 1)
    (f, s), (g, t) = ((median_and_local(X)[0], kappa * smooth(X, beta)) for X in PAIRS[pair])
    far_out = np.geomspace(1e-6, 1e6, 200_001)
    z = np.concatenate([-far_out[::-1], [0.0], far_out]) * s
    assert np.abs(cauchy_loss(z, g - f, s, t)).max() <= epsilon


@pytest.mark.statistical
def test_laplace_by_smooth_sensitivity_is_caught_by_the_audit():
    result = audited(Broken("smooth"), "jump", far(1.0), n_runs=2000)
    assert result.refuted
    assert not audited(Broken("global"), "jump", far(1.0)).refuted
