"""Totals by key: tables and relations have the same integers, neighbours move as declared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.queries import KeyTotals, LeftOut, UnitShapes, UnitSpread, unit_sum
from skdp.queries.key_totals import term_bound
from skdp.tabular import check_grouped
from skdp.tabular.contributions import KeyTerm, bounded, term_width
from tests.folding import each

duckdb = pytest.importorskip("duckdb")

KEYS = ("a", "b", "it's", "no such key")
LOW, HIGH = -2.0, 1.5
TERMS = (
    KeyTerm("rows"),
    KeyTerm("units"),
    KeyTerm("filled", "v"),
    KeyTerm("sum", "v", LOW, HIGH),
    KeyTerm("sum", "v", LOW, HIGH, zero=True),
    KeyTerm("square", "v", LOW, HIGH),
    KeyTerm("bins", "v", edges=(LOW, 0.0, 1.0, HIGH)),
    KeyTerm("leaves", "v", LOW, HIGH, depth=3),
    KeyTerm("about", "v", LOW, HIGH, centers=(-(2**29), 0, 2**29, 7)),
    KeyTerm("sum", "v", 0.0, HIGH, zero=True),
    KeyTerm("between", "v", LOW, HIGH, cuts=((1, 2**20), (7, 8), (0, 1), (2, 2))),
)
ROWS = (1, 2, 5)

cells = st.one_of(
    st.none(),
    st.floats(-3, 3),
    st.sampled_from([0.0, -0.0, LOW, HIGH, 1.0, 1e300, -1e300, 5e-324, float("inf")]),
)
row = st.tuples(st.integers(0, 4), st.sampled_from(("a", "b", "it's", "other")), cells)


def frame(rows):
    table = pd.DataFrame(rows, columns=["u", "k", "v"])
    return table.astype({"u": "int64", "k": str, "v": "float64"})


def opened(table, **options):
    return check_grouped(table, by=["k"], unit="u", columns=["v"], allow_empty=True, **options)


def engines(table):
    """Return the table in memory and as a relation, with the same secret."""
    first, second = opened(table), opened(duckdb.from_arrow(pa.Table.from_pandas(table)))
    second.secret = first.secret
    return first, second


@pytest.mark.slow
@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(
    rows=st.lists(row, min_size=1, max_size=40),
    max_keys=st.integers(1, 4),
    max_rows=st.integers(1, 4),
)
def test_tables_and_relations_have_the_same_integers(rows, max_keys, max_rows):
    table = frame(rows)
    first, second = engines(table)
    for terms in (TERMS, TERMS[:2]):
        assert np.array_equal(
            first.totals(KEYS, terms, max_keys, max_rows),
            second.totals(KEYS, terms, max_keys, max_rows),
        )
    left = first.left_out(KEYS, max_keys, max_rows, 2, 3)
    assert np.array_equal(left, second.left_out(KEYS, max_keys, max_rows, 2, 3))
    shapes = (KEYS, (1, 2, 3), ROWS)
    assert np.array_equal(first.shapes(*shapes), second.shapes(*shapes))
    edges = (-4.0, -1.0, 0.0, 1.0, 4.0)
    assert np.array_equal(first.spread("v", edges), second.spread("v", edges))
    many = [9, 5, 3, 2]
    assert first.key_weights(many, 1, KEYS[:1]) == second.key_weights(many, 1, KEYS[:1])
    # In any order of the rows.
    shuffled = opened(table.iloc[::-1].reset_index(drop=True))
    everything = first.totals(KEYS, TERMS, 4, max_rows)
    assert np.array_equal(everything, shuffled.totals(KEYS, TERMS, 4, max_rows))


@pytest.mark.parametrize("max_rows", [1, 7, 2**14])
def test_rows_count_in_part_without_overflow(max_rows):
    sums = np.array([0, 3 * 2**30, 2**30 * 2**20, 2**30 * 2**30], dtype=np.int64)
    rows = np.array([0, 3, 2**20, 2**30], dtype=np.int64)
    exact = [
        int(s) if m <= max_rows else int(s) * max_rows // int(m)
        for s, m in zip(sums.tolist(), rows.tolist(), strict=True)
    ]
    assert bounded(sums, rows, max_rows).tolist() == exact


# --- neighbours -----------------------------------------------------------------------------------


class Holder:
    """A private table, as far as these queries read it; all have the same ranks of units."""

    def __init__(self, table):
        self.rows = opened(table)
        self.rows.secret = 3
        self.rows.hash = self.ranks

    @staticmethod
    def ranks(units, codes, salt):
        word = units * np.uint64(40503) + codes.astype(np.uint64)
        return word * np.uint64(0x9E3779B97F4A7C15)


def moved(query, first, second, relation):
    """Return how far the integers moved, over what is declared, in L1 and squared L2."""
    tables = [one if isinstance(one, Holder) else Holder(one) for one in (first, second)]
    out = [query.exact(one) for one in tables]
    moves = [abs(int(a) - int(b)) for a, b in zip(*out, strict=True)]
    declared = query.sensitivity(relation)
    return sum(moves) / declared.l1, sum(m * m for m in moves) / declared.l2_squared


QUERIES = [
    *(
        lambda k, r, i=i: unit_sum(KeyTotals(KEYS, TERMS, i, k, r))
        for i in range(len(TERMS))
    ),
    lambda k, r: unit_sum(UnitShapes(KEYS, (1, 2, 3), ROWS)),
    lambda k, r: unit_sum(UnitShapes(None, (1, 2, 3), ROWS)),
    lambda k, r: unit_sum(LeftOut(KEYS, k, r)),
    lambda k, r: unit_sum(UnitSpread("v", (-4.0, -1.0, 0.0, 1.0, 4.0))),
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(
    others=st.lists(row, max_size=25),
    one=st.lists(row, max_size=25),
    other=st.lists(row, min_size=1, max_size=25),
    max_keys=st.integers(1, 3),
    max_rows=st.integers(1, 3),
)
def test_neighbours_move_no_more_than_declared(others, one, other, max_keys, max_rows):
    mine = [(9, key, value) for _, key, value in one]
    yours = [(8, key, value) for _, key, value in other]
    table, without, replaced = (Holder(frame(others + rest)) for rest in (mine, [], yours))
    for make in QUERIES:
        query = make(max_keys, max_rows)
        assert max(moved(query, table, without, "add_or_remove_one")) <= 1
        assert max(moved(query, table, replaced, "replace_one")) <= 1


WORST = [(9, key, HIGH) for key in KEYS[:3] for _ in range(50)]


@each("i", range(len(TERMS)))
def test_a_sensitivity_is_attained(i):
    """By a unit with many rows in many keys, at a bound."""
    query = unit_sum(KeyTotals(KEYS, TERMS, i, 2, 3))
    l1, l2 = moved(
        query, frame([(1, "a", 0.0), *WORST]), frame([(1, "a", 0.0)]), "add_or_remove_one"
    )
    # From 0, the larger bound is the lower one; about its centre, the keys' centres differ.
    least = {4: 0.5, 8: 0.0}.get(i, 0.99)
    assert l1 >= least
    if TERMS[i].kind in ("sum", "square") and not TERMS[i].zero:
        low = [(8, key, LOW if TERMS[i].kind == "sum" else -0.25) for _, key, _ in WORST]
        assert moved(query, frame(WORST), frame(low), "replace_one")[1] > 0.1


@pytest.mark.parametrize(
    ("low", "high", "keys"),
    [(LOW, HIGH, "ab"), (-1.0, 0.25, "cd"), (0.0, HIGH, "cd"), (0.5, HIGH, "cd"), (LOW, 0.0, "cd")],
)
def test_the_change_of_a_sum_from_0_is_attained(low, high, keys):
    """In the same keys by the whole width, in other keys by the larger bound of both."""
    term = KeyTerm("sum", "v", low, high, zero=True)
    query = unit_sum(KeyTotals(tuple("abcd"), (term,), 0, 2, 3))
    far = low if abs(low) > abs(high) else high
    others = high + low - far if keys == "ab" else far
    one = frame([(9, key, far) for key in "ab" for _ in range(5)])
    other = frame([(8, key, others) for key in keys for _ in range(5)])
    l1, l2_squared = moved(query, one, other, "replace_one")
    assert 0.999 < l2_squared <= 1
    assert keys == "ab" or 0.999 < l1 <= 1


def test_what_a_unit_may_contribute_is_what_is_declared():
    for term in TERMS:
        l1, l2_squared, _ = term_bound(term, 3)
        assert l1 >= 1 and l2_squared <= l1**2 and term_width(term) >= 1


def test_a_cap_that_counts_one_key_more_is_found():
    """The planted bug: rows of max_keys + 1 keys."""
    query = unit_sum(KeyTotals(KEYS, TERMS, 0, 2, 3))
    broken = type("Broken", (), {})()
    rows = opened(frame(WORST))
    rows.hash = lambda units, codes, salt: codes.astype(np.uint64)
    right = rows.totals
    rows.totals = lambda keys, terms, k, r: right(keys, terms, k + 1, r)
    broken.rows = rows
    assert query.exact(broken).sum() > query.sensitivity("add_or_remove_one").l1
