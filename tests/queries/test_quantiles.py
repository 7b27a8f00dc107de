"""Quantiles: exact distributions, stability, neighbours, bounded range, recursion, lattices."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from scipy.stats import norm as normal

from skdp import config_context, core
from skdp.budget import conversions, gdp_mu, pure_mu
from skdp.budget.stand_in import StandInBudget
from skdp.core import table as table_module
from skdp.core import transcript
from skdp.exceptions import PrivacyLeakError
from skdp.queries import NoisyQuantiles, Quantiles, quantiles, ranked_columns
from skdp.tabular import check_rows
from tests.views import box_of

RELATIONS = ("replace_one", "add_or_remove_one")
A = "add_or_remove_one"
ALPHA = 1e-6  # false-alarm rate of each chi-square test

# The table of the literature: one zero more or less makes the median another value.
PAIR = np.array([0.0, 0, 0, 1, 1, 1, 1]), np.array([0.0, 0, 0, 0, 1, 1, 1])


def open_session(x, adjacency="replace_one", *, epsilon=1.0, delta=0.0, **options):
    x = np.asarray(x, dtype=np.float64)
    rows = check_rows(x[:, None] if x.ndim == 1 else x, estimator="T", allow_empty=True)
    budget = None
    if adjacency == A:
        budget = StandInBudget(A)
    return core.open_session(
        rows, estimator="T", epsilon=epsilon, delta=delta, budget=budget, **options
    )


def ask(session, levels, low=0.0, high=6.0, *, share=None, **options):
    view = box_of(session, low, high, per_feature=True)
    return session.answer(Quantiles(view, levels, **options), share).value


# --- exact distributions ------------------------------------------------------------------------


def oracle_scores(values, candidates, level, n):
    """Return the distance of q n to the ranks of each candidate, one candidate at a time."""
    target = level * n
    scores = []
    for c in candidates:
        low, high = sum(v < c for v in values), sum(v <= c for v in values)
        scores.append(max(low - target, target - high, Fraction(0)))
    return scores


def oracle(values, candidates, level, rate):
    """Return the probabilities of candidates under exp(-rate * distance in ranks)."""
    scores = oracle_scores(values, candidates, level, len(values))
    weights = np.exp([-rate * float(s) for s in scores])
    return weights / weights.sum()


def is_like(counts, probabilities):
    """Say whether counts are those of draws with these probabilities, by chi-square at ALPHA."""
    expected = counts.sum() * probabilities
    order = np.argsort(expected)
    # Cells of fewer than ten expected draws are put together.
    small = np.cumsum(expected[order]) < 10
    groups = [order[small], *([i] for i in order[~small])]
    seen = np.array([counts[list(g)].sum() for g in groups if len(g)])
    hoped = np.array([expected[list(g)].sum() for g in groups if len(g)])
    keep = hoped > 0
    if seen[~keep].sum():
        return False
    statistic = ((seen[keep] - hoped[keep]) ** 2 / hoped[keep]).sum()
    return bool(chi2.sf(statistic, keep.sum() - 1) > ALPHA)


def drawn(x, adjacency, levels, runs, size, **options):
    """Return how often each tuple of candidates 0 .. size - 1 is released."""
    epsilon, delta = options.pop("epsilon", 1.0), options.pop("delta", 0.0)
    counts = np.zeros((size,) * np.size(levels), dtype=int)
    session = open_session(x, adjacency, epsilon=epsilon, delta=delta, random_state=0)
    for _ in range(runs):
        session._meter._state.spent = Fraction(0)  # time and again
        counts[tuple(ask(session, levels, step=1.0, **options)[0].astype(int))] += 1
    return counts.ravel()


MEDIAN_RATES = {  # per rank, at epsilon = 3: epsilon / (2 max(q, 1 - q)) (A), epsilon / 2 (R)
    (0.5, A): 3.0,
    (0.5, "replace_one"): 1.5,
    (0.2, A): 3.0 / 1.6,
    (0.2, "replace_one"): 1.5,
}


@pytest.mark.statistical
@pytest.mark.parametrize(("q", "adjacency"), MEDIAN_RATES)
@pytest.mark.parametrize("x", [PAIR[0], PAIR[1], [1.2, 4.6, 4.9, 7.0, 99.0], []])
def test_one_level_is_exactly_distributed(q, adjacency, x):
    counts = drawn(x, adjacency, q, 2500, 7, epsilon=3.0)
    values = [min(max(round(v), 0), 6) for v in x]
    level, rate = Fraction(str(q)), MEDIAN_RATES[q, adjacency]
    assert is_like(counts, oracle(values, range(7), level, rate))
    if len(x) == 7 and q == 0.5:
        assert not is_like(counts, oracle(values, range(7), level, rate * 2 / 3))
        assert not is_like(counts, oracle(values, range(7), level, rate * 3 / 2))


@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_gaussian_session_has_twice_the_range(adjacency):
    mu = gdp_mu(2.0, 1e-3)
    rate = 2 * conversions.pure_epsilon_from_mu(mu) / (1 if adjacency == A else 2)
    counts = drawn(PAIR[0], adjacency, 0.5, 2500, 7, epsilon=2.0, delta=1e-3)
    exact = oracle(PAIR[0], range(7), Fraction(1, 2), rate)
    assert is_like(counts, exact)
    for wrong in (2 / 3, 3 / 2):
        assert not is_like(counts, oracle(PAIR[0], range(7), Fraction(1, 2), wrong * rate))


def two_levels(values, size, first, second, rates):
    """Return the probabilities of pairs: the first level by brute force over all places."""
    places = 2**ranked_columns.SPREAD_BITS
    spread = []
    for point in sorted(set(values)):
        for j in range(1, values.count(point) + 1):
            place = int(f"{j:0{ranked_columns.SPREAD_BITS}b}"[::-1], 2)
            spread.append(point * places + place)
    spread = np.sort(spread)
    at = np.arange(size * places)
    below = np.searchsorted(spread, at)
    up_to = np.searchsorted(spread, at, side="right")
    target = float(first * len(values))
    weights = np.exp(-rates[0] * np.maximum(np.maximum(below - target, target - up_to), 0))
    weights /= weights.sum()
    table = np.zeros((size, size))
    for cut, point in set(zip(below.tolist(), (at // places).tolist(), strict=True)):
        mass = weights[(below == cut) & (at // places == point)].sum()
        rest = [int(v) // places for v in spread[cut:]]
        table[point, point:] += mass * oracle(rest, range(point, size), second, rates[1])
    return table.ravel()


@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_two_levels_are_exactly_distributed(adjacency):
    x = [0, 0, 1, 1, 1, 1, 1, 1, 2, 3]
    # Round 0 has level 1/2; round 1 has level (0.75 - 0.5) / (1 - 0.5), alone: half of epsilon.
    rate = 4.0 / 2 / (1 if adjacency == A else 2)
    counts = drawn(x, adjacency, (0.5, 0.75), 3000, 4, epsilon=4.0, high=3.0)
    half = Fraction(1, 2)
    assert is_like(counts, two_levels(x, 4, half, half, (rate, rate)))
    assert not is_like(counts, two_levels(x, 4, half, half, (rate * 1.5, rate)))
    assert not is_like(counts, two_levels(x, 4, half, half, (rate, rate * 2 / 3)))


# --- recursion ------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [*range(1, 20), 31, 32, 100])
def test_every_level_is_chosen_once_in_log_rounds(m):
    levels = [Fraction(i, m + 1) for i in range(1, m + 1)]
    rounds = quantiles.recursion(levels)
    assert len(rounds) == math.floor(math.log2(m)) + 1
    assert sorted(node.place for nodes in rounds for node in nodes) == list(range(m))
    bounds = {-1: Fraction(0), m: Fraction(1)}
    for nodes in rounds:
        # The parts of a round are disjoint: a row is in one of them at most.
        assert all(a.right <= b.left for a, b in itertools.pairwise(nodes))
        for node in nodes:
            low, high = bounds[node.left], bounds[node.right]
            assert abs(low + node.level * (high - low) - levels[node.place]) < 2**-20
        bounds |= {node.place: levels[node.place] for node in nodes}


@pytest.mark.parametrize("levels", [[0.0], [1.0], [0.0, 1.0], [0.0, 0.5, 1.0], [0.0, 0.1, 0.9, 1]])
def test_levels_of_zero_and_one(levels):
    x = np.random.default_rng(0).uniform(2, 4, 20_000)
    values = ask(open_session(x, epsilon=10.0), levels)[0]
    assert np.all(np.diff(values) >= 0)
    for q, value in zip(levels, values, strict=True):
        # Beyond all rows every candidate is as good.
        low, high = (0.0 if q == 0 else np.quantile(x, q - 0.01 * (q < 1) - 0.001), 6.0)
        if q < 1:
            high = np.quantile(x, q + 0.01)
        assert low <= value <= high


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_many_levels_find_their_place(adjacency, delta):
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.lognormal(3, 1, 30_000), rng.integers(-5, 6, 30_000)])
    levels = np.arange(1, 16) / 16
    session = open_session(x, adjacency, epsilon=4.0, delta=delta)
    view = box_of(session, [0, -20], [1000, 20], per_feature=True)
    release = session.answer(Quantiles(view, levels))
    assert release.value.shape == (2, 15)
    assert np.all(np.diff(release.value, axis=1) >= 0)
    rank = (x[:, 0, None] < release.value[0]).mean(axis=0)
    np.testing.assert_allclose(rank, levels, atol=0.01)
    np.testing.assert_allclose(release.value[1], np.quantile(x[:, 1], levels), atol=1e-3)


def test_levels_within_one_heavy_value():
    """Most rows are equal: the parts on either side of a cut within them have the right sizes."""
    x = np.repeat([0.0, 1.0, 2.0], [2000, 7000, 1000])
    levels = [0.1, 0.19, 0.22, 0.3, 0.5, 0.7, 0.88, 0.92, 0.97]
    values = ask(open_session(x, epsilon=10.0), levels, step=1.0)[0]
    np.testing.assert_array_equal(values, [0, 0, 1, 1, 1, 1, 1, 2, 2])


# --- stability and neighbours -------------------------------------------------------------------

columns = st.lists(st.integers(0, 4), max_size=12)


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(x=columns, more=st.integers(0, 4))
def test_a_row_more_is_one_place_more(x, more):
    one = ranked_columns.spread(np.array(x, dtype=np.int64)).tolist()
    two = ranked_columns.spread(np.array([*x, more], dtype=np.int64)).tolist()
    for place in one:
        two.remove(place)
    assert len(two) == 1
    assert two[0] >> ranked_columns.SPREAD_BITS == more


def test_rows_beyond_the_places_of_a_point_still_count():
    n = 2**ranked_columns.SPREAD_BITS + 5
    places = ranked_columns.spread(np.zeros(n, dtype=np.int64))
    assert places.size == n and places.min() >= 0 and places.max() < 2**ranked_columns.SPREAD_BITS


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(x=columns, q=st.sampled_from(["0", "1/5", "1/2", "2/3", "1"]))
def test_runs_are_the_scores_of_all_points(x, q):
    level = Fraction(q)
    runs = ranked_columns.score_runs(np.sort(np.array(x, dtype=np.int64)), 0, 6, level)
    assert runs.lengths.sum() == 7
    expanded = np.repeat(runs.scores, runs.lengths)
    exact = oracle_scores(x, range(7), level, len(x))
    assert [Fraction(int(s), level.denominator) for s in expanded] == exact
    live = runs.lengths > 0
    np.testing.assert_array_equal(
        np.cumsum(runs.lengths[live])[:-1], runs.starts[live][1:] - runs.starts[0]
    )


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(
    x=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    ends=st.tuples(st.integers(0, 5 << 3), st.integers(0, 5 << 3)),
    q=st.sampled_from(["0", "1/5", "1/2", "2/3", "1"]),
    reach=st.integers(0, 40),
    leaf=st.booleans(),
)
def test_a_column_of_counts_scores_as_its_sorted_rows(x, ends, q, reach, leaf):
    """All of a part between two places, and in one interval those of the least scores."""
    level, bits = Fraction(q), ranked_columns.SPREAD_BITS
    numbers = np.array(x, dtype=np.int64)
    column = ranked_columns.RankedColumn.of(*np.unique(numbers, return_counts=True))
    places = ranked_columns.spread(numbers)
    low, high = (end << (bits - 3) for end in sorted(ends))
    cuts = [int(np.searchsorted(places, place)) for place in (low, high)]
    assert [column.rows_below(place) for place in (low, high)] == cuts
    if leaf:
        low, high, places = low >> bits, high >> bits, places >> bits
    whole = ranked_columns.score_runs(places[slice(*cuts)], low, high, level)
    options = {"spread": not leaf}
    for name, values in vars(column.runs(*cuts, low, high, level, **options, reach=None)).items():
        np.testing.assert_array_equal(values, getattr(whole, name))
    near = column.runs(*cuts, low, high, level, **options, reach=reach)

    def live(runs):
        columns = zip(*(part.tolist() for part in vars(runs).values()), strict=True)
        return [run for run in columns if run[1]]

    every, some = live(whole), live(near)
    first = every.index(some[0])
    assert every[first : first + len(some)] == some
    left_out = every[:first] + every[first + len(some) :]
    assert all(score > reach for _, _, score in left_out)


def test_rows_of_a_heavy_point_are_counted_at_their_places():
    n = 2 * 2**ranked_columns.SPREAD_BITS + 5
    numbers = np.repeat([1, 3], [n, 2])
    column = ranked_columns.RankedColumn.of(*np.unique(numbers, return_counts=True))
    places = ranked_columns.spread(numbers)
    half = Fraction(1, 2)
    found = column.runs(7, n, 0, 2**20, half, spread=True, reach=None)
    exact = ranked_columns.score_runs(places[7:n], 0, 2**20, half)
    for name, values in vars(found).items():
        np.testing.assert_array_equal(values, getattr(exact, name))


@pytest.mark.parametrize("levels", [0.5, (0.1, 0.3, 0.5, 0.9)])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_candidates_near_the_rank_decide_as_all_do(monkeypatch, levels, delta):
    x = np.random.default_rng(0).normal(3, 1, (20_000, 2))
    found = []
    for near in (ranked_columns._NEAR, 2**60):
        monkeypatch.setattr(ranked_columns, "_NEAR", near)
        with config_context(noise="seeded"):
            session = open_session(x, epsilon=4.0, delta=delta, random_state=1)
            found.append(ask(session, levels))
    np.testing.assert_array_equal(*found)


def test_scores_beyond_int64():
    class Long(np.ndarray):
        size = 2**61

    runs = ranked_columns.score_runs(np.zeros(3, dtype=np.int64), 0, 1, Fraction(1, 3))
    assert runs.scores.dtype == np.int64
    wide = ranked_columns.score_runs(np.zeros(3, dtype=np.int64).view(Long), 0, 1, Fraction(1, 3))
    assert wide.scores.dtype == object


def entries(x, adjacency, delta, levels, source=None, **options):
    session = open_session(x, adjacency, epsilon=1.0, delta=delta)
    with transcript.record() if source is None else transcript.replay(source) as t:
        ask(session, levels, **options)
    return t


def losses(x, other, adjacency, delta, levels, **options):
    """Return (loss, declared) of each round on two tables, with the same earlier choices."""
    first = entries(x, adjacency, delta, levels, **options)
    second = entries(other, adjacency, delta, levels, first, **options)
    return [
        (a.distance(a.exact, b.exact), a.sensitivity)
        for a, b in zip(first.entries, second.entries, strict=True)
    ]


numbers = st.lists(st.integers(0, 6) | st.floats(-1, 8), min_size=1, max_size=8)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("levels", [(0.5,), (0.3,), (0.2, 0.8), (0.1, 0.3, 0.5, 0.9)])
def test_no_round_loses_more_than_it_declares(adjacency, delta, levels):
    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(x=numbers, row=st.integers(0, 6) | st.floats(-1, 8), step=st.sampled_from([None, 1.0]))
    def check(x, row, step):
        other = [*x[:-1], row] if adjacency == "replace_one" else x[:-1]
        for loss, declared in losses(x, other, adjacency, delta, levels, step=step):
            assert loss <= declared * (1 + 1e-9)

    check()


def test_the_counter_example_of_smooth_sensitivity():
    for adjacency, (x, other) in (("replace_one", PAIR), (A, (PAIR[0], PAIR[0][1:]))):
        for levels in (0.5, (0.25, 0.5, 0.75)):
            for loss, declared in losses(x, other, adjacency, 0.0, levels, step=1.0):
                assert loss <= declared * (1 + 1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(
    ("adjacency", "x", "other", "q"),
    [
        # A row leaves the median's right for its left: ranks between its places move on both sides.
        ("replace_one", [1.0, 2.0, 4.0, 5.0], [1.0, 2.0, 4.0, 0.0], 0.5),
        (A, [1.0, 2.0, 4.0, 5.0], [2.0, 4.0, 5.0], 0.5),
        (A, [1.0, 2.0, 4.0, 5.0, 5.5], [1.0, 2.0, 4.0, 5.0], 0.8),
    ],
)
def test_the_declared_loss_is_attained(adjacency, delta, x, other, q):
    ((loss, declared),) = losses(x, other, adjacency, delta, q)
    assert loss == pytest.approx(declared, rel=1e-6)


def test_two_parts_of_a_round_share_the_loss_of_a_replaced_row():
    """With relative levels of 1/2 a row that changes its part costs as much as one within."""
    nodes = quantiles.recursion([Fraction(i, 4) for i in (1, 2, 3)])[1]
    whole, half = Fraction(1), Fraction(1, 2)
    for eta, node in zip(quantiles.rates(nodes, whole, half, replace=True), nodes, strict=True):
        assert 2 * eta * node.level.denominator <= whole
        assert 2 * eta * node.widest == half
    x, other = [0.5, 1.0, 1.5, 4.0, 4.5, 5.0], [0.5, 1.0, 1.5, 4.0, 4.5, 0.2]
    found = losses(x, other, "replace_one", 0.0, (0.25, 0.5, 0.75))
    assert all(loss <= declared * (1 + 1e-12) for loss, declared in found)


def test_a_twin_with_rates_of_add_or_remove_under_replace_one_is_found(monkeypatch):
    right = quantiles.rates
    monkeypatch.setattr(quantiles, "rates", lambda *a, replace: right(*a, replace=False))
    ((loss, declared),) = losses(
        [1.0, 2.0, 4.0, 5.0], [1.0, 2.0, 4.0, 0.0], "replace_one", 0.0, 0.5
    )
    assert loss > 1.5 * declared


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_twin_with_two_thirds_of_the_noise_is_found(monkeypatch, adjacency, delta):
    right = quantiles.allowances

    def wrong(*a, **k):
        loss, whole, half = right(*a, **k)
        return loss, whole * Fraction(3, 2), half * Fraction(3, 2)

    monkeypatch.setattr(quantiles, "allowances", wrong)
    other = [1.0, 2.0, 4.0, 0.0] if adjacency == "replace_one" else [2.0, 4.0, 5.0]
    ((loss, declared),) = losses([1.0, 2.0, 4.0, 5.0], other, adjacency, delta, 0.5)
    assert loss > 1.4 * declared


# --- bounded range --------------------------------------------------------------------------------


def kinks(epsilon, t):
    """Return the errors of the best test between two points whose losses are t and t - epsilon."""
    return math.expm1(t) / math.expm1(epsilon), math.expm1(epsilon - t) / math.expm1(epsilon)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 10.0, 30.0])
def test_a_range_of_epsilon_is_gaussian_private_like_half_of_epsilon(epsilon):
    bound = pure_mu(epsilon / 2)
    found = []
    for t in np.linspace(0, epsilon, 401)[1:-1]:
        type_1, type_2 = kinks(epsilon, t)
        found.append(normal.isf(type_1) - normal.ppf(type_2))
    assert max(found) <= bound * (1 + 1e-9)
    assert found[200 - 1] == pytest.approx(bound, rel=1e-9)  # t = epsilon / 2


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 4.0])
def test_the_exponential_mechanism_is_within_its_gaussian_claim(mu):
    """All tests between two tables, of the mechanism itself: the trade-off stays above G_mu."""
    eta = conversions.pure_epsilon_from_mu(mu)  # per rank, R: a range of 2 ranks
    for x, other in (([1, 2, 4, 5], [1, 2, 4, 0]), (PAIR[0], PAIR[1]), ([3, 3, 3], [3, 3, 0])):
        p, q = (oracle(list(v), range(7), Fraction(1, 2), eta) for v in (x, other))
        order = np.argsort(q / p)
        type_1 = 1 - np.cumsum(p[order][::-1])
        type_2 = np.cumsum(q[order][::-1])
        for a, b in zip(type_1[:-1], type_2[:-1], strict=True):
            assert normal.isf(a) - normal.ppf(b) <= mu * (1 + 1e-6) + 1e-9


# --- lattices -------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(
    low=st.floats(-1e300, 1e300),
    width=st.floats(0, 1e300),
    step=st.none() | st.floats(1e-300, 1e300),
    prior=st.sampled_from(quantiles.PRIORS),
    x=st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_lattice_maps_every_value_to_its_nearest_candidate(low, width, step, prior, x):
    # The logarithms of so narrow a box, far from 0, are hardly told apart by floats.
    assume(prior == "uniform" or step is not None or width == 0 or width > 1e-9 * abs(low))
    lattice = quantiles.Lattice(low, low + width, step, prior)
    number = lattice.number(np.array([x, -x, low, low + width]))
    assert np.all((number >= 0) & (number < lattice.size))
    values = lattice.value(number)
    assert np.isfinite(values).all()
    # A candidate is its own nearest one, up to the resolution of a float.
    again = lattice.number(values)
    relative = np.abs(again - number) / lattice.size
    assert np.all((np.abs(again - number) <= 1) | (relative < 2**-16))


def test_a_value_s_image_does_not_depend_on_the_values_beside_it():
    x = np.random.default_rng(0).lognormal(3, 3, 1000) * np.resize([1, -1], 1000)
    for step, prior in ((None, "uniform"), (None, "log"), (0.1, "uniform")):
        lattice = quantiles.Lattice(-1000.0, 1000.0, step, prior)
        together = lattice.number(x)
        alone = [int(lattice.number(x[i : i + 1])[0]) for i in range(x.size)]
        assert together.tolist() == alone
        assert np.all(np.diff(together[np.argsort(x)]) >= 0)


@pytest.mark.parametrize(
    ("low", "high", "step", "expected"),
    [
        (0.0, 3.0, 1.0, [0, 1, 2, 3]),
        (-0.5, 1.7, 0.5, [-0.5, 0, 0.5, 1, 1.5]),
        (0.0, 0.4, 0.1, [0, 0.1, 0.2, 0.3, 0.4]),
        (10.2, 10.7, 1.0, [10]),  # none within: the one nearest to the middle
        (0.2, 0.9, 7.0, [0]),
        (-7.0, 7.0, 7.0, [-7, 0, 7]),
        (5.0, 5.0, 1.0, [5]),
    ],
)
def test_a_step_s_candidates(low, high, step, expected):
    lattice = quantiles.Lattice(low, high, step, "uniform")
    assert lattice.value(np.arange(lattice.size)).tolist() == expected


def test_a_step_too_fine_is_ignored():
    assert quantiles.Lattice(0.0, 1e300, 1e-300, "uniform").step == 0.0
    assert quantiles.Lattice(0.0, 1.0, 1e-13, "uniform").step == 0.0
    assert quantiles.Lattice(0.0, 0.0, 5e-324, "uniform").size == 1


def test_the_log_prior_spans_ten_powers_of_two():
    lattice = quantiles.Lattice(0.0, 1024.0, None, "log")
    values = lattice.value(np.arange(lattice.size))
    parts = np.histogram(values, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1024])[0]
    assert np.abs(parts / lattice.size - 0.1).max() < 0.001
    assert values[0] == 0.0 and values[-1] == pytest.approx(1024.0, rel=1e-4)
    x = np.array([-7.0, -0.25, 0.0, 0.5, 1e6])
    np.testing.assert_allclose(quantiles.piecewise_exp2(quantiles.piecewise_log2(x)), x, rtol=1e-12)


# --- rows of any kind, arguments of any kind ------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("levels", [0.5, (0.0, 0.5, 1.0), (0.1, 0.2, 0.3, 0.9)])
@pytest.mark.parametrize(
    "x",
    [
        [[3.0, 3.0]],
        [[1e300, -1e300]] * 5,
        [[5e-324, 0.0]] * 3,
        np.zeros((0, 2)),
        [[3.0, 3.0]] * 500,
    ],
    ids=["one row", "huge", "tiny", "no rows", "constant"],
)
def test_any_rows_have_quantiles(adjacency, delta, levels, x):
    if adjacency == "replace_one" and not len(x):
        return
    session = open_session(np.reshape(x, (-1, 2)), adjacency, delta=delta)
    for low, high in ((-5.0, 6.0), (3.0, 3.0), (-1e308, 1e308)):
        values = ask(session, levels, low, high, share=0.25)
        assert np.all((values >= low) & (values <= high))
        noisy = session.answer(
            NoisyQuantiles(box_of(session, low, high, per_feature=True), levels), 0.05
        )
        assert np.all((noisy.value >= low) & (noisy.value <= high))


def test_a_constant_column_of_many_rows_is_found():
    for step in (None, 1.0):
        values = ask(open_session(np.full(500, 3.0)), (0.25, 0.5, 0.75), step=step)[0]
        np.testing.assert_allclose(values, 3.0, atol=1e-4)


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_memory_blocks_and_order_of_rows_change_nothing(monkeypatch, adjacency):
    x = np.random.default_rng(0).normal(3, 1, (997, 5))
    found = []
    several, one, merged = {}, {"_GATHERED": 0, "_COUNTS": 2**19}, {"_GATHERED": 300, "_COUNTED": 0}
    for values, read in ((x, several), (x[::-1], several), (x, one), (x, merged)):
        for name, value in read.items():
            monkeypatch.setattr(ranked_columns, name, value)
        monkeypatch.setattr(table_module, "_BLOCK_VALUES", 1280)
        session = open_session(values, adjacency)
        with transcript.record() if not found else transcript.replay(found[0]) as t:
            ask(session, (0.25, 0.5, 0.75))
        found.append(t)
    for other in found[1:]:
        for a, b in zip(found[0].entries, other.entries, strict=True):
            assert a.name == b.name
            assert a.distance(a.exact, b.exact) == 0


@pytest.mark.parametrize(
    ("levels", "error"),
    [
        ([], ValueError),
        (-0.1, ValueError),
        ([0.5, 1.1], ValueError),
        (np.nan, ValueError),
        ([0.5, 0.25], ValueError),
        ([0.5, 0.5], ValueError),
        ([[0.5]], ValueError),
        ("median", TypeError),
        (None, TypeError),
        ([True], TypeError),
        ([[0.1], [0.1, 0.2]], ValueError),
    ],
)
def test_bad_levels_take_nothing(levels, error):
    session = open_session(PAIR[0])
    with pytest.raises(error, match=r"q must be|must be finite"):
        ask(session, levels)
    assert session.remaining == 1


@pytest.mark.parametrize(
    "options", [{"step": 0.0}, {"step": -1.0}, {"step": np.inf}, {"prior": "normal"}]
)
def test_bad_candidates_take_nothing(options):
    session = open_session(PAIR[0])
    with pytest.raises(ValueError, match=next(iter(options))):
        ask(session, 0.5, **options)
    assert session.remaining == 1


def test_the_allowance_is_metered():
    session = open_session(PAIR[0])
    ask(session, (0.25, 0.5), share=0.6)
    with pytest.raises(PrivacyLeakError, match="quantiles"):
        ask(session, 0.5, share=0.6)
    (record,) = session.certificate().releases
    assert record.share == 0.6
    # 0.3 a round; of level 1/2 in the one part that round 1 looks at: 2 / 0.3 ranks.
    assert record.scale == pytest.approx(2 / 0.3)


def test_replay_needs_no_rows():
    x = np.random.default_rng(0).normal(3, 1, 300)
    with transcript.record() as t:
        first = ask(open_session(x), (0.25, 0.5, 0.75))
    with transcript.replay(t):
        again = ask(open_session(np.zeros(5)), (0.25, 0.5, 0.75))
    np.testing.assert_array_equal(first, again)


# --- the naive one --------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_noise_of_the_global_sensitivity(adjacency, delta):
    x, other = np.repeat([0.0, 6.0], [4, 3]), np.repeat([0.0, 6.0], [3, 4])
    if adjacency == A:
        x, other = x[1:], x[2:]  # three zeros and three sixes; two and three
    found = []
    for values in (x, other):
        session = open_session(values, adjacency, delta=delta)
        with transcript.record() as t:
            release = session.answer(NoisyQuantiles(box_of(session, 0, 6, per_feature=True), 0.5))
        found += t.entries
    a, b = found
    assert a.distance(a.exact, b.exact) == pytest.approx(a.sensitivity)
    level = 1.0 if delta == 0 else gdp_mu(1.0, delta)
    factor = math.sqrt(2) if delta == 0 else 1.0
    assert release.std[0, 0] == pytest.approx(factor * 6 / level, rel=1e-4)
    no_rows = open_session(np.zeros((0, 1)), A)
    assert 0 <= no_rows.answer(NoisyQuantiles(box_of(no_rows, 0, 6), [0.1, 0.9])).value.min() <= 6
