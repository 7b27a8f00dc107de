"""Quantiles: recursion, stability, neighbours, lattices, rows and arguments of any kind."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skdp import config_context
from skdp.budget import gdp_mu
from skdp.core import noise, transcript
from skdp.core import table as table_module
from skdp.core.table import PrivateTable, stability_of
from skdp.exceptions import PrivacyLeakError
from skdp.queries import NoisyQuantiles, Quantiles, quantiles, ranked_columns
from skdp.tabular.labels import LabelledRows
from tests.folding import each
from tests.queries.ranks import PAIR, A, ask, open_session, oracle_scores, score_runs, spread
from tests.views import box_of

HALF = Fraction(1, 2)
RELATIONS = ("replace_one", "add_or_remove_one")


# --- recursion ------------------------------------------------------------------------------------


@each("m", [*range(1, 20), 31, 32, 100])
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
    one = spread(np.array(x, dtype=np.int64)).tolist()
    two = spread(np.array([*x, more], dtype=np.int64)).tolist()
    for place in one:
        two.remove(place)
    assert len(two) == 1
    assert two[0] >> ranked_columns.SPREAD_BITS == more


def test_rows_beyond_the_places_of_a_point_still_count():
    n = 2**ranked_columns.SPREAD_BITS + 5
    places = spread(np.zeros(n, dtype=np.int64))
    assert places.size == n and places.min() >= 0 and places.max() < 2**ranked_columns.SPREAD_BITS


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(x=columns, q=st.sampled_from(["0", "1/5", "1/2", "2/3", "1"]))
def test_runs_are_the_scores_of_all_points(x, q):
    level = Fraction(q)
    runs = score_runs(np.sort(np.array(x, dtype=np.int64)), 0, 6, level)
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
    places = spread(numbers)
    low, high = (end << (bits - 3) for end in sorted(ends))
    cuts = [int(np.searchsorted(places, place)) for place in (low, high)]
    assert [column.rows_below(place) for place in (low, high)] == cuts
    if leaf:
        low, high, places = low >> bits, high >> bits, places >> bits
    whole = score_runs(places[slice(*cuts)], low, high, level)
    options = {"spread": not leaf}
    found = column.part(*cuts, low, high, level, **options, reach=None).runs()
    for name, values in vars(found).items():
        np.testing.assert_array_equal(values, getattr(whole, name))
    near = column.part(*cuts, low, high, level, **options, reach=reach).runs()

    def live(runs):
        columns = zip(*(part.tolist() for part in vars(runs).values()), strict=True)
        return [run for run in columns if run[1]]

    every, some = live(whole), live(near)
    first = every.index(some[0])
    assert every[first : first + len(some)] == some
    left_out = every[:first] + every[first + len(some) :]
    assert all(score > reach for _, _, score in left_out)


@given(
    x=st.lists(st.integers(0, 9), max_size=60),
    heavy=st.integers(1, 80),
    q=st.sampled_from(["0", "1/2", "1/3", "7/10", "1"]),
    eta=st.fractions("1/500", 40, max_denominator=1000),
    v=st.integers(0, 2**64 - 1),
    leaf=st.booleans(),
    narrow=st.booleans(),
    powers=st.sampled_from([ranked_columns._POWERS, 1]),
    weight=st.sampled_from([1, 7]),
    block=st.sampled_from([1, 2, 2**9]),
)
def test_sums_by_ranks_choose_as_the_exponential_mechanism(
    x, heavy, q, eta, v, leaf, narrow, powers, weight, block
):
    numbers = np.repeat(np.array(x, dtype=np.int64), np.where(np.array(x) == 4, heavy, 1))
    column = ranked_columns.RankedColumn.of(*np.unique(numbers, return_counts=True))
    high = (10 << (0 if leaf else ranked_columns.SPREAD_BITS)) - 1
    where = (0, column.n, 0, high, Fraction(q))
    reach = math.ceil(ranked_columns._NEAR / eta) if narrow else None

    def part(reach):
        found = column.part(*where, spread=not leaf, reach=reach)
        if weight == 1:
            return found
        widths, low = np.full(found.values.size, weight), weight * found.low
        values, high = weight * found.values, weight * (found.high + 1) - 1
        return replace(found, values=values, widths=widths, low=low, high=high)

    ranked_columns._powers.cache_clear()
    with mock.patch.multiple(ranked_columns, _POWERS=powers, _BLOCK=block):
        found = part(reach).run_at(eta, v)
    ranked_columns._powers.cache_clear()
    runs = part(None).runs()
    entropy = noise.SeededEntropy(0)
    i = noise.exponential_mechanism(runs.scores, eta, runs.lengths, bits=v, entropy=entropy)
    assert found in (None, (runs.starts[i], runs.lengths[i]))
    assert found or not x or min(v, 2**64 - v) < 2**30 or i in (0, runs.starts.size - 1)


def test_rows_of_a_heavy_point_are_counted_at_their_places():
    n = 2 * 2**ranked_columns.SPREAD_BITS + 5
    numbers = np.repeat([1, 3], [n, 2])
    column = ranked_columns.RankedColumn.of(*np.unique(numbers, return_counts=True))
    places = spread(numbers)
    half = Fraction(1, 2)
    found = column.part(7, n, 0, 2**20, half, spread=True, reach=None).runs()
    exact = score_runs(places[7:n], 0, 2**20, half)
    for name, values in vars(found).items():
        np.testing.assert_array_equal(values, getattr(exact, name))


@pytest.mark.parametrize("levels", [0.5, (0.1, 0.3, 0.5, 0.9)])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_candidates_near_the_rank_decide_as_all_do(monkeypatch, levels, delta):
    x = np.random.default_rng(0).normal(3, 1, (20_000, 2))
    found = []
    for seldom in (ranked_columns._SELDOM, 700, -3):  # few candidates, all, too few to decide
        monkeypatch.setattr(ranked_columns, "_SELDOM", seldom)
        with config_context(noise="seeded"):
            session = open_session(x, epsilon=4.0, delta=delta, random_state=1)
            found.append(ask(session, levels))
    np.testing.assert_array_equal(found[:2], found[1:])


@pytest.mark.parametrize("n, kind", [(3, np.int64), (2**61, object)])
def test_scores_beyond_int64(n, kind):
    part = ranked_columns.Part(np.zeros(1, int), np.array([0, 3]), n, 0, 1, Fraction(1, 3))
    assert part.runs().scores.dtype == kind


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
@each("delta", [0.0, 1e-5])
@pytest.mark.parametrize("adjacency", RELATIONS)
@each("levels", [(0.5,), (0.3,), (0.2, 0.8), (0.1, 0.3, 0.5, 0.9)])
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


@each("delta", [0.0, 1e-5])
@each(
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
        # Nor on the columns beside it, whose bounds are others, or the same, or without a step.
        for highest in (1.0, 1000.0, 1e18):
            ends = (-1000.0, -1000.0, -highest)
            lattices = [quantiles.Lattice(low, 1000.0, step, prior) for low in ends]
            numbers = ranked_columns._numbering(lattices, range(1, 3))(np.column_stack([x] * 3))
            assert numbers.tolist() == [lattice.number(x).tolist() for lattice in lattices[1:]]


@each(
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


@each("adjacency", RELATIONS)
@each("delta", [0.0, 1e-6])
@each("levels", [0.5, (0.0, 0.5, 1.0), (0.1, 0.2, 0.3, 0.9)])
@each(
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


@each(
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


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 2)), max_size=12))
def test_choices_by_label_are_scored_by_the_rows_of_that_label(rows):
    x, labels = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    table = PrivateTable(LabelledRows(x[:, None], labels.astype(np.int64)), stability_of(A))
    lattice = quantiles.Lattice(0.0, 5.0, 1.0, "uniform")
    ((_, column),) = ranked_columns.ranked_columns(table, [lattice], 2)
    for label in range(2):
        first, stop = np.searchsorted(column.points, [6 * label, 6 * label + 6])
        ranks = column.below[first], column.below[stop]
        part = column.part(*ranks, 6 * label, 6 * label + 5, HALF, spread=False, reach=None)
        runs = part.runs()
        scores = np.repeat(runs.scores, runs.lengths) / 2
        own = x[labels == label]
        assert (scores == oracle_scores(own, range(6), HALF, own.size)).all()


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
