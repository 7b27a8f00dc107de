"""Quantiles by key: what is chosen, how it is distributed, and how far neighbours move it.

False alarms: 1e-6 for each test of a distribution. Everything else repeats itself.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import core
from skdp.budget.budget import StandInBudget
from skdp.core.transcript import record, replay
from skdp.loss.conversions import pure_mu, pure_part
from skdp.queries import KeyQuantiles, KeyTotals, key_totals, rows_off, unit_sum
from skdp.tabular import check_grouped, contributions
from skdp.tabular.contributions import POINT_BITS, KeyTerm
from tests.folding import each
from tests.queries.test_quantile_distributions import is_like

duckdb = pytest.importorskip("duckdb")

A, R = RELATIONS = ("add_or_remove_one", "replace_one")
KEYS = ("a", "b", "no such key")
TOP = 2**POINT_BITS
POINTS = KeyTerm("points", "v", 0.0, 8.0)
DELTA = 1e-3


def frame(rows):
    table = pd.DataFrame(rows, columns=["u", "k", "v"])
    return table.astype({"u": "int64", "k": str, "v": "float64"})


def opened(table):
    rows = check_grouped(table, by=["k"], unit="u", columns=["v"], allow_empty=True)
    rows.secret = 3  # two fits choose the same keys of a unit
    return rows


def session_of(table, relation=A, *, epsilon=1.0, delta=0.0, **options):
    budget = StandInBudget(relation, unit="u")
    return core.open_session(
        opened(table), estimator="T", epsilon=epsilon, delta=delta, budget=budget, **options
    )


# --- points and weights -------------------------------------------------------------------------


def point(value):
    return int(np.floor(min(max(value, 0.0), 8.0) / 8 * TOP + 0.5))


def slow_points(rows, max_rows):
    """Return the weight of every point of every key, where each unit counts in all its keys."""
    out = {key: {} for key in KEYS}
    for (_, key), mine in itertools.groupby(sorted(rows), lambda row: row[:2]):
        values = sorted(point(v) for *_, v in mine if v == v)
        m = len(values)
        for i, p in enumerate(values):
            share = [1024 * j * min(m, max_rows) // m for j in (i, i + 1)]
            if key in out:
                out[key][p] = out[key].get(p, 0) + share[1] - share[0]
    return out


def found_points(rows, max_rows):
    out = {}
    for first, starts, points, weights in rows.points_by_key(KEYS, POINTS, 9, max_rows):
        for i, (start, stop) in enumerate(itertools.pairwise(starts.tolist())):
            cells = zip(points[start:stop].tolist(), weights[start:stop].tolist(), strict=True)
            out[KEYS[first + i]] = dict(cells)
    return out


cells = st.one_of(st.floats(-1, 9), st.sampled_from([0.0, -0.0, 4.0, 8.0, 1e300, float("nan")]))
row = st.tuples(st.integers(0, 3), st.sampled_from(("a", "b", "other")), cells)


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(rows=st.lists(row, min_size=1, max_size=30), max_rows=st.integers(1, 4))
def test_points_have_the_weights_of_bounded_rows(rows, max_rows):
    expected = slow_points(rows, max_rows)
    assert found_points(opened(frame(rows)), max_rows) == expected
    largest = {key: max_rows * 1024 * len({u for u, k, _ in rows if k == key}) for key in KEYS}
    assert all(sum(own.values()) <= largest[key] for key, own in expected.items())


def test_relations_and_keys_a_few_at_a_time_have_the_same_points(monkeypatch):
    rng = np.random.default_rng(0)
    rows = list(zip(rng.integers(0, 9, 400), rng.choice(["a", "b"], 400), rng.normal(4, 2, 400),
                    strict=True))  # fmt: skip
    expected = found_points(opened(frame(rows)), 5)
    relation = opened(duckdb.from_arrow(pa.Table.from_pandas(frame(rows))))
    assert found_points(relation, 5) == expected
    monkeypatch.setattr(contributions, "_BLOCK", 16)  # many parts of the rows, merged one by one
    assert found_points(opened(frame(rows)), 5) == expected
    monkeypatch.setattr(contributions, "_GATHERED", 150)
    parts = list(opened(frame(rows)).points_by_key(KEYS, POINTS, 9, 5))
    assert [part[0] for part in parts] == [0, 1, 2]
    assert found_points(opened(frame(rows)), 5) == expected


def test_cells_between_cuts_are_those_of_the_points():
    """A value at a cut is above it; the same rounding as that of the points."""
    rng = np.random.default_rng(1)
    rows = [(i, k, v) for i, (k, v) in enumerate(zip(rng.choice(["a", "b"], 500),
            rng.integers(0, 9, 500) + rng.normal(0, 1e-6, 500), strict=True))]  # fmt: skip
    cuts = ((point(2), point(2) + 1, TOP), (0, point(5), TOP + 1), (1, 2, 3))
    term = KeyTerm("between", "v", 0.0, 8.0, cuts=cuts)
    found = opened(frame(rows)).totals(KEYS, (term,), 9, 1)
    for key, own, counts in zip(KEYS, cuts, found.tolist(), strict=True):
        points = slow_points(rows, 1)[key]
        cell = np.searchsorted(own, list(points), side="right")
        expected = np.bincount(cell, weights=list(points.values()), minlength=4)
        assert counts == expected.tolist()


# --- distributions ------------------------------------------------------------------------------


def rate_of(q, relation, level, k, r, *, pure):
    """Return by which factor a row off makes a point less likely, from the proof's inequalities."""
    w = max(q, 1 - q)
    if pure:
        return level / (2 * w * k * r) / (2 if relation == R else 1)
    ranges = [2 * pure_part(level, k if relation == A else 2 * k) / (2 * w)]
    if relation == R:
        ranges.append(2 * pure_part(level, k) / 2)
    return min(ranges) / r


def places(table, runs, relation, delta, **query):
    """Return the points chosen for key a in many releases."""
    session = session_of(table, relation, epsilon=2.0, delta=delta, random_state=0)
    out = []
    for _ in range(runs):
        session._meter._shares.spent = Fraction(0)  # time and again
        out.append(session.answer(KeyQuantiles(KEYS, POINTS, **query)).value[0])
    return np.array(out), session.level(1)


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, DELTA])
@each(
    ("q", "caps", "beside"),
    [
        (0.5, (1, 1), {}),
        (0.2, (2, 1), {}),
        (0.5, (1, 3), {"below": 4}),
        (0.9, (1, 1), {"above": 2}),
    ],
)
def test_a_choice_is_exactly_distributed(q, caps, beside, delta, relation):
    """Between two neighbouring values all points are alike."""
    values = [1.0, 1.0, 2.5, 5.0, 7.75, 8.0, 0.0]
    table = frame([(i, "a", v) for i, v in enumerate(values)])
    query = {"q": q, "max_keys": caps[0], "max_rows": caps[1]}
    tells = caps == (1, 1) and q == 0.5  # a wrong rate, which takes more draws
    found, level = places(table, 1500 if tells else 700, relation, delta, **query, **beside)
    mine = sorted([point(v) for v in values] + [0] * beside.get("below", 0)
                  + [TOP] * beside.get("above", 0))  # fmt: skip
    edges = np.unique([0, *(p + i for p in mine for i in (0, 1)), TOP + 1])
    starts = edges[:-1]
    below = np.searchsorted(mine, starts)
    up_to = np.searchsorted(mine, starts, side="right")
    off = np.maximum(np.maximum(below - q * len(mine), q * len(mine) - up_to), 0)
    counts = np.histogram(found, bins=edges - 0.5)[0]
    rate = rate_of(q, relation, level, *caps, pure=not delta)
    assert 1 / rate == pytest.approx(rows_off(level, q, *caps, pure=not delta, relation=relation))

    def expected(rate):
        weights = np.diff(edges) * np.exp(-rate * off)
        return weights / weights.sum()

    assert is_like(counts, expected(rate))
    if tells:
        assert not is_like(counts, expected(rate * 2))
        assert not is_like(counts, expected(rate / 2))


def test_a_key_without_rows_gets_a_point_and_never_fails():
    session = session_of(frame([(1, "a", 3.0)]), epsilon=500.0, random_state=0)
    found = session.answer(KeyQuantiles(KEYS, POINTS, 0.5, 1, 1), 0.5)
    assert found.value[0] == point(3.0) and np.isnan(found.std).all()
    assert ((found.value >= 0) & (found.value <= TOP)).all()
    beside = session.answer(KeyQuantiles(KEYS, POINTS, 0.5, 1, 1, above=10**6), 0.5)
    assert (beside.value == TOP).all()


# --- neighbours ---------------------------------------------------------------------------------


def moved(first, second, relation, delta, query):
    """Return what the choices lose between two tables, over what is declared."""
    with record() as transcript:
        session_of(first, relation, delta=delta).answer(query)
    with replay(transcript) as other:
        session_of(second, relation, delta=delta).answer(query)
    (a,), (b,) = transcript.entries, other.entries
    assert a.sensitivity == b.sensitivity
    return float(a.distance(a.exact, b.exact)) / a.sensitivity


def pairs(others, mine, yours):
    mine = [(9, key, v) for _, key, v in mine]
    yours = [(8, key, v) for _, key, v in yours]
    yield A, frame(others + mine), frame(others)
    yield R, frame(others + mine), frame(others + yours)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(
    others=st.lists(row, max_size=20),
    mine=st.lists(row, max_size=12),
    yours=st.lists(row, min_size=1, max_size=12),
    caps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    q=st.sampled_from([0.5, 0.1, 0.75]),
    beside=st.sampled_from([{}, {"below": 3}, {"above": 7}]),
)
def test_neighbours_move_no_more_than_declared(others, mine, yours, caps, q, beside):
    query = KeyQuantiles(KEYS, POINTS, q, *caps, **beside)
    for relation, first, second in pairs(others, mine, yours):
        for delta in (0.0, DELTA):
            assert moved(first, second, relation, delta, query) <= 1


CROWD = [(100 * (1 + j) + i, KEYS[j], 2.0 + 4 * (i % 2)) for i in range(60) for j in (0, 1)]
UP, DOWN = ([(9, key, v)] * 3 for key, v in (("a", 8.0), ("a", 0.0)))
BOTH_UP, BOTH_DOWN = ([(9, key, v) for key in KEYS[:2] for _ in range(3)] for v in (8.0, 0.0))
AWAY = [(9, "b", 8.0)] * 3
ATTAINED = {  # relation, caps, q, a unit's rows and another's; of pure epsilon and of mu
    "added": (A, (1, 3), 0.5, UP, [], (1.0, 1.0)),
    "added below": (A, (1, 3), 0.25, DOWN, [], (1.0, 1.0)),
    "added to two keys": (A, (2, 3), 0.5, BOTH_UP, [], (1.0, 1.0)),
    "another key": (R, (1, 3), 0.9, UP, AWAY, (1.0, 1.0)),
    "another key, at the median": (R, (1, 3), 0.5, UP, AWAY, (1.0, 0.7)),
    "replaced": (R, (1, 3), 0.5, UP, DOWN, (1.0, 1.0)),
    "replaced in two keys": (R, (2, 3), 0.5, BOTH_UP, BOTH_DOWN, (1.0, 1.0)),
}


def attained(name, pure):
    relation, caps, q, mine, yours, _ = ATTAINED[name]
    query = KeyQuantiles(KEYS, POINTS, q, *caps)
    other = [(8, *rest) for _, *rest in yours]
    tables = frame(CROWD + mine), frame(CROWD + other)
    return moved(*tables, relation, 0.0 if pure else DELTA, query)


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("name", ATTAINED)
def test_a_sensitivity_is_attained(name, pure):
    least = ATTAINED[name][-1][0 if pure else 1]
    assert 0.99 * least <= attained(name, pure) <= 1


def broken_rate(change):
    """Return `_rate` with other arguments."""
    right = key_totals._rate

    def rate(level, q, max_keys, max_rows, **options):
        return right(*change(level, q, max_keys, max_rows, options), **options)

    return rate


BUGS = {
    "the whole allowance where a unit is replaced": (
        "another key", lambda *a: (*a[:4], a[4].update(relation=A))[:4],
    ),
    "each of a unit's keys has all of it": (
        "added to two keys", lambda level, q, k, r, _: (level, q, 1, r),
    ),
    "a unit's rows count as one": (
        "added", lambda level, q, k, r, _: (level, q, k, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("bug", BUGS)
def test_a_rate_that_is_too_large_is_seen(bug, pure, monkeypatch):
    case, change = BUGS[bug]
    monkeypatch.setattr(key_totals, "_rate", broken_rate(change))
    assert attained(case, pure) > 1.2


def test_halves_of_mu_squared_are_too_much_for_a_unit_that_is_replaced(monkeypatch):
    """Two keys at a half each would do, but not a replacement within one."""
    monkeypatch.setattr(key_totals, "rates", lambda nodes, whole, half, replace: [
        half / (2 * node.widest) for node in nodes])  # fmt: skip
    assert attained("replaced", pure=False) == pytest.approx(2**0.5, rel=0.05)
    assert attained("replaced", pure=True) <= 1
    # Because the loss of a range grows almost in proportion to it.
    assert pure_mu(0.02) == pytest.approx(2 * pure_mu(0.01), rel=1e-3)


def test_rows_beyond_the_cap_are_seen(monkeypatch):
    monkeypatch.setattr(contributions, "bounded", lambda sums, rows, most: sums)
    many = [(9, "a", 8.0)] * 30
    query = KeyQuantiles(KEYS, POINTS, 0.5, 1, 3)
    assert moved(frame(CROWD + many), frame(CROWD), A, 0.0, query) > 5


# --- arguments ----------------------------------------------------------------------------------


@each(
    ("change", "text"),
    [
        ({"term": KeyTerm("rows")}, "one of points"),
        ({"max_rows": 0}, "at least 1"),
        ({"max_rows": 2**15}, "at most 2"),
        ({"max_keys": 0}, "at least 1"),
        ({"q": 0.0}, r"in \(0, 1\)"),
        ({"q": float("nan")}, r"in \(0, 1\)"),
        ({"term": KeyTerm("points", "v", 0.0, float("inf"))}, "finite"),
        ({"below": -1}, "numbers of rows"),
        ({"above": 2**40}, "numbers of rows"),
    ],
)
def test_a_query_that_no_bound_covers_is_refused(change, text):
    right = {"keys": KEYS, "term": POINTS, "q": 0.5, "max_keys": 1, "max_rows": 1}
    with pytest.raises(ValueError, match=text):
        KeyQuantiles(**{**right, **change})


@each(
    ("term", "text"),
    [
        (KeyTerm("points", "v"), "no sum"),
        (KeyTerm("between", "v", cuts=((1, 2),)), "of each key"),
    ],
)
def test_totals_of_points_or_of_too_few_cuts_are_refused(term, text):
    with pytest.raises(ValueError, match=text):
        unit_sum(KeyTotals(KEYS, (term,), 0, 1, 1))


@each("cuts", [((2, 1),), ((1, 2), (1,))])
def test_cuts_ascend_and_are_as_many_for_each_key(cuts):
    with pytest.raises(ValueError, match="ascend"):
        KeyTerm("between", "v", cuts=cuts)
