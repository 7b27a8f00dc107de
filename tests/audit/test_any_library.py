"""Audits of callables: they find what is planted, and leave what is right alone.

False alarms: every statistical audit here is at confidence 1 - 1e-6 with fixed seeds.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.preprocessing import StandardScaler

from skdp.audit import (
    LowerBound,
    Primitive,
    black_box_bound,
    bound_from_guesses,
    bound_from_outputs,
    exact_distribution,
    exact_epsilon,
    find_violation,
    neighbouring_tables,
    one_run_audit,
    replay_mechanism,
    structured_pairs,
)
from skdp.audit._statistical import auc_mu_bound, bounds_of, held_out_bound, mu_bound
from skdp.budget import gdp_mu
from tests.folding import each

SURE = 1 - 1e-6


def on_grid(values):
    return np.round(np.asarray(values) * 1024) / 1024


def laplace_sum(scale, low=0.0, high=1.0):
    def mechanism(table, rng):
        clipped = np.clip(np.nan_to_num(np.asarray(table, dtype=float)), low, high)
        return float(on_grid(clipped.sum() + rng.laplace(0, scale)))

    return mechanism


# --- exact ---------------------------------------------------------------------------------------


def geometric(bound):
    """Return a truncated geometric mechanism of a bit, odds 2 a step: epsilon = log 2."""

    def mechanism(bit, rng):
        weights = [Fraction(1, 2 ** abs(k - bit)) for k in range(-bound, bound + 2)]
        return rng.choice_of(weights)

    return mechanism


def test_every_path_is_followed():
    def three(table, rng):
        first = rng.integers(1, 4)
        return first, rng.bernoulli(Fraction(1, 3)) if first == 2 else None

    found = exact_distribution(three, None)
    assert found == {
        (1, None): Fraction(1, 3),
        (2, False): Fraction(2, 9),
        (2, True): Fraction(1, 9),
        (3, None): Fraction(1, 3),
    }


def test_exact_epsilon_is_the_definition_s():
    rng = np.random.default_rng(0)
    for _ in range(30):
        p, q = (
            [Fraction(int(x), 64) for x in np.bincount(rng.integers(0, 5, 64), minlength=5)]
            for _ in range(2)
        )
        delta = float(rng.choice([0.0, 1 / 64, 0.1, 0.3]))

        def mechanism(table, choices):
            return choices.choice_of(table)

        epsilon = exact_epsilon(mechanism, p, q, delta=delta)

        def excess(e, a, b):
            return sum(
                max(0.0, float(x) - math.exp(e) * float(y)) for x, y in zip(a, b, strict=True)
            )

        if math.isinf(epsilon):
            assert max(excess(50, p, q), excess(50, q, p)) > delta
            continue
        assert max(excess(epsilon, p, q), excess(epsilon, q, p)) <= delta + 1e-12
        if epsilon > 0:
            assert max(excess(epsilon - 1e-6, p, q), excess(epsilon - 1e-6, q, p)) > delta


def test_exact_epsilon_is_exact_near_nothing():
    """Probabilities of 3,000 bits, and a loss of 1e-12: no digit is lost in the logarithm."""
    heads = Fraction(1, 2) + Fraction(1, 4 * 10**12)
    assert exact_epsilon(lambda bit, rng: bit ^ rng.bernoulli(1 - heads), 0, 1) == pytest.approx(
        math.log1p(1e-12 / (1 - 0.5e-12)), rel=1e-14
    )
    heads = 1 - Fraction(1, 2**3000)
    assert exact_epsilon(lambda bit, rng: bit ^ rng.bernoulli(1 - heads), 0, 1) == pytest.approx(
        3000 * math.log(2), rel=1e-15
    )
    for bad, error in ((1.0, ValueError), (-0.1, ValueError), ("0", TypeError)):
        with pytest.raises(error, match="delta must be a number in"):
            exact_epsilon(lambda bit, rng: bit, 0, 1, delta=bad)


def test_a_randomised_response_of_two_bits():
    def two(bits, rng):
        return tuple(bit ^ rng.bernoulli(Fraction(1, 4)) for bit in bits)

    assert exact_epsilon(two, (0, 0), (0, 1)) == pytest.approx(math.log(3))
    assert exact_epsilon(two, (0, 0), (1, 1)) == pytest.approx(2 * math.log(3))
    with pytest.raises(ValueError, match="max_paths"):
        exact_distribution(two, (0,) * 20, max_paths=100)


# --- black box -----------------------------------------------------------------------------------


def test_a_right_mechanism_is_left_alone_and_half_its_noise_is_not():
    options = {"epsilon": 1.0, "n_runs": 2000, "confidence": SURE, "random_state": 0}
    assert not black_box_bound(laplace_sum(1.0), [0.0], [1.0], **options).refutes(epsilon=1.0)
    assert black_box_bound(laplace_sum(0.5), [0.0], [1.0], **options).refutes(epsilon=1.0)


@each(
    "output",
    [
        lambda x, rng: "first" if rng.random() < 0.1 + 0.5 * x else None,  # text
        lambda x, rng: {"a": [1, 2], "b": rng.random(3 if x else 2) > 2},  # a shape
        lambda x, rng: 1 / (1 - x),  # an error
        lambda x, rng: float("nan") if x and rng.random() < 0.3 else rng.normal(),
        lambda x, rng: rng.laplace(x),  # the last bits of a float
        lambda x, rng: (rng.normal(size=6) + 3 * x * np.eye(6)[4]).tolist(),  # one of many
        lambda x, rng: (lambda s: [s + 5 * x, s])(rng.normal(0, 50)),  # a difference
    ],
    ids=["text", "shape", "error", "nan", "bits", "one of many", "difference"],
)
@pytest.mark.slow
def test_whatever_tells_the_tables_apart_is_found(output):
    bound = black_box_bound(output, 0, 1, epsilon=1.0, n_runs=2000, confidence=SURE, random_state=0)
    assert bound.refutes(epsilon=1.0)


@dataclasses.dataclass
class Answer:
    value: object


def opaque(value):
    """Return an object with nothing that an audit can read."""
    return type("Opaque", (), {"__init__": lambda self, x: setattr(self, "x", x)})(value)


@each(
    "form",
    [
        Fraction,
        Decimal,
        lambda x: complex(0.0, x),
        lambda x: datetime.date(2020, 1, 1 + x),
        lambda x: np.datetime64("2020-01-01") + x,
        Answer,
        lambda x: {"a": Answer([None, x])},
        lambda x: StandardScaler().fit([[x], [x + 1.0]]),
        lambda x: pd.DataFrame({"a": ["x"], "b": [x]}),
        lambda x: pd.Series([x], index=["a"]),
        lambda x: scipy.sparse.csr_array([[0.0, x]]),
        lambda x: {1, 2 + x},
        lambda x: np.r_[np.zeros(200), x],
        lambda x: np.r_[np.zeros(100), np.eye(2)[x]],  # equal sums and extremes
        lambda x: ["a"] * 200 + [str(x)],
    ],
)
@pytest.mark.filterwarnings("ignore:outputs have more than 64")
def test_whatever_holds_the_value_is_seen(form):
    """A mechanism that answers without noise: each of these once passed an audit in silence."""
    first, second = [form(0)] * 200, [form(1)] * 200
    bound = bound_from_outputs(first, second, confidence=SURE)
    assert bound.epsilon > 1.0, "nothing was seen"


def test_what_cannot_be_read_is_refused():
    with pytest.raises(TypeError, match=r"an output holds a Opaque at \.a\[1\]"):
        bound_from_outputs([{"a": [1, opaque(0)]}] * 100, [{"a": [1, opaque(1)]}] * 100)
    with pytest.raises(TypeError, match="an output holds a Opaque at its top"):
        black_box_bound(lambda table, rng: opaque(table), 0, 1, n_runs=100)
    for nothing in (StandardScaler, StandardScaler(), Answer):  # classes, and what is not fitted
        with pytest.raises(TypeError, match="an output holds a"):
            bound_from_outputs([nothing] * 100, [nothing] * 100)


def test_long_outputs_are_said_to_be_read_in_part():
    outputs = [np.arange(100.0)] * 100
    with pytest.warns(UserWarning, match="more than 64 numbers"):
        bound_from_outputs(outputs, outputs)


def test_a_smaller_claim_is_refuted_with_a_larger_one():
    bound = LowerBound(0.5, 1e-6, 0.1, 1e-3, 1.0, 0.999, 1000)
    assert bound.refutes(epsilon=1.0) and bound.refutes(epsilon=0.9)  # delta_at 1e-3 at epsilon 1
    assert not bound.refutes(epsilon=1.1)


def test_delta_and_epsilon_are_those_of_the_hockey_stick():
    rng = np.random.default_rng(0)
    leak = np.where(rng.random(6000) < 0.2, 100.0, 0.0)
    bound = bound_from_outputs(leak, np.zeros(6000), epsilon=1.0, delta=0.05, confidence=SURE)
    assert 0.15 < bound.delta_at <= 0.2
    assert bound.refutes(epsilon=1.0)
    assert bound_from_outputs(leak, np.zeros(6000), epsilon=1.0, delta=0.3).epsilon == 0.0
    with pytest.raises(ValueError, match="as many"):
        bound_from_outputs(leak, leak[:-1])


@pytest.mark.slow
def test_equal_tables_prove_nothing():
    """Of 40 audits at confidence 0.9 each, at most 15 bounds are above 0: fails with 6e-7."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(40):
        bound = bound_from_outputs(
            rng.normal(size=200), rng.normal(size=200), epsilon=0.0, confidence=0.9
        )
        wrong += max(bound.epsilon, bound.mu, bound.delta_at) > 0
    assert wrong <= 15


def test_intervals_are_exact_where_noise_is_gaussian():
    """At confidence 0.9, of 400 bounds on mu at most 80 are wrong: fails with 1e-9."""
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(400):
        a, b = rng.normal(0.5, size=100), rng.normal(size=100)
        wrong += auc_mu_bound(a, b, 0.1) > 0.5
        wrong += held_out_bound(a, b, mu_bound, 0.1, 25) > 0.5
    assert wrong <= 160
    ties = np.repeat([0.0, 1.0], 50)
    assert auc_mu_bound(ties, ties, 0.1) == 0.0
    assert auc_mu_bound(ties + 5, ties, 1e-6) > 1.5


@pytest.mark.parametrize("epsilon", [1.0, 2.5])
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.slow
def test_noise_at_two_thirds_is_caught_in_4000_runs(epsilon, gaussian):
    """Four of ten audits at least, where four of five are expected at confidence 0.999."""
    delta = 1e-6 if gaussian else 0.0
    claim = gdp_mu(epsilon, delta) if gaussian else epsilon
    rng = np.random.default_rng(0)
    draw = rng.normal if gaussian else rng.laplace
    caught = right = 0
    for _ in range(10):
        for scale in (1.5, 1.0):
            a, b = (on_grid(draw(x * claim * scale, 1, 4000)) for x in (0, 1))
            found = bounds_of(a, b, delta=delta, gaussian=gaussian, confidence=0.999, learned=False)
            refuted = found[1 if gaussian else 0] > claim
            caught, right = caught + (refuted and scale > 1), right + (refuted and scale == 1)
    assert caught >= 4
    assert right == 0


# --- search --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_search_finds_the_pair_that_shows_it():
    def forgets_to_clip(table, rng):
        return float(on_grid(np.nansum(table) + rng.laplace(0, 1)))

    def of_pairs(mechanism, **options):
        pairs = structured_pairs(low=0.0, high=1.0, sizes=(1, 3))
        return find_violation(
            mechanism, pairs, epsilon=1.0, n_runs=1500, n_looks=80, n_confirm=2,
            confidence=SURE, random_state=0, **options,
        )  # fmt: skip

    assert of_pairs(forgets_to_clip).refuted
    right = of_pairs(laplace_sum(1.0), n_steps=5)
    assert not right.refuted
    assert right.n_searched == 2 * 3 * 7 + 5
    assert right.n_confirmed == 2


@settings(max_examples=40, deadline=None)
@given(
    pair=neighbouring_tables(st.integers(0, 3)),
    other=neighbouring_tables(st.integers(0, 3), adjacency="add_or_remove_one"),
)
def test_strategies_draw_neighbours(pair, other):
    first, second = pair
    assert len(first) == len(second)
    assert sum(a != b for a, b in zip(first, second, strict=True)) <= 1
    short, long = sorted(other, key=len)
    assert any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_structured_pairs_are_neighbours(adjacency):
    for table, neighbour in structured_pairs(2, adjacency=adjacency):
        same = len(table) == len(neighbour)
        assert same == (adjacency == "replace_one")
        n = len(neighbour) - same
        assert np.array_equal(table[:n], neighbour[:n], equal_nan=True)
    with pytest.raises(ValueError, match="adjacency"):
        next(structured_pairs(adjacency="both"))


# --- record and replay ---------------------------------------------------------------------------


class Library:
    """A library whose one primitive adds noise."""

    def __init__(self, sensitivity):
        self.sensitivity = sensitivity

    def noisy(self, value):
        return value + np.random.laplace(0, self.sensitivity)


sys.modules["a_library"] = type(sys)("a_library")
sys.modules["a_library"].Library = Library
PRIMITIVE = Primitive(
    "a_library.Library.noisy", "value", lambda arguments: arguments["self"].sensitivity
)


def clipped_mean(table, rng):
    return Library(1 / len(table)).noisy(np.clip(table, 0, 1).mean())


WRONG = {
    "domain": lambda t, rng: [Library(1).noisy(np.sum(t == c)) for c in np.unique(t)],
    "sensitivity off rows": lambda t, rng: Library(np.ptp(t) / len(t)).noisy(np.mean(t)),
    "sensitivity too small": lambda t, rng: Library(0.1 / len(t)).noisy(np.clip(t, 0, 2).mean()),
    "exact beside noise": lambda t, rng: (Library(1).noisy(0), float(np.max(t))),
    "a missing cell": lambda t, rng: Library(1).noisy(np.mean(np.where(t > 2, np.nan, t))),
    "an error": lambda t, rng: Library(1).noisy(1) / (0 if np.max(t) > 2 else 1) and None,
    "no primitive": lambda t, rng: 0,
    "spends twice": lambda t, rng: [Library(9).noisy(np.mean(t)) for _ in range(int(max(t)))],
}


def test_replay_passes_what_depends_on_releases_only():
    found = replay_mechanism(clipped_mean, np.zeros(4), np.array([0, 0, 0, 7.0]), [PRIMITIVE])
    assert found.passed
    assert found.ratios == (1.0,)
    assert sys.modules["a_library"].Library.noisy is Library.noisy
    assert not hasattr(Library.noisy, "__wrapped__")


@each("name", WRONG)
def test_replay_names_what_does_not(name):
    table, neighbour = np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 7.0])
    found = replay_mechanism(WRONG[name], table, neighbour, [PRIMITIVE])
    assert not found.passed


# --- one run -------------------------------------------------------------------------------------


def test_the_curve_s_bound_is_not_beaten_by_independent_canaries():
    """mu-GDP cells guessed one by one: a claim of their own mu is refuted in at most 5%."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(15):
        right = int(rng.binomial(300, norm.cdf(0.5)))
        bound = bound_from_guesses(right, 300, 300)
        wrong += bound.mu > 1.0
    assert wrong == 0


def test_one_event_that_tells_of_all_canaries_is_allowed_for():
    """With probability delta everything is told: (0, delta)-DP, and all guesses are right."""
    assert bound_from_guesses(500, 500, 500, delta=0.05).epsilon == 0.0
    assert bound_from_guesses(500, 500, 500, delta=1e-9).epsilon > 4


def test_one_run_says_the_more_the_more_canaries():
    def cells(table, rng):
        return table + rng.laplace(0, 0.5, size=len(table))  # 2-DP

    found = [
        one_run_audit(cells, lambda i: i.astype(float), lambda o: o, m, random_state=0).epsilon
        for m in (30, 300, 3000)
    ]
    assert found == sorted(found)
    assert 1.0 < found[-1] <= 2.0
    some = one_run_audit(
        cells, lambda i: i.astype(float), lambda o: o, 3000, n_guesses=600, random_state=0
    )
    assert 1.2 < some.epsilon <= 2.0


@pytest.mark.parametrize("arguments", [(3, 2, 5), (1, 3, 2)])
def test_guesses_that_cannot_be(arguments):
    with pytest.raises(ValueError, match="at most"):
        bound_from_guesses(*arguments)
