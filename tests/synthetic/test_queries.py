"""Specifications of queries: each against its definition, cell by cell, and what is refused."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skdp.synthetic import (
    Bins,
    Domain,
    conjunctions,
    intervals,
    linear_queries,
    parities,
    thresholds,
)
from skdp.synthetic import _queries as module
from skdp.synthetic._queries import as_queries
from tests.folding import each

MIXED = Domain({"a": ["x", "y", None], "b": Bins([0, 1, 2, 5, 9]), "c": 2, "d": [3, 1]})
ONE = 2**20


def matrix(queries, domain):
    """Return the coefficients of all queries on all cells, as the workload has them."""
    work = queries.workload(domain)
    return work.coefficients(np.arange(domain.n_cells)) / work.one


def definition(domain, functions):
    """Return functions of a row's codes on all cells."""
    cells = list(itertools.product(*map(range, domain.sizes)))
    return np.array([[float(f(cell)) for cell in cells] for f in functions])


def test_conjunctions_are_all_cells_of_all_marginals():
    for order in (1, 2, 3, 4):
        expected = [
            lambda cell, s=s, v=v: all(cell[j] == k for j, k in zip(s, v, strict=True))
            for s in itertools.combinations(range(4), order)
            for v in itertools.product(*(range(MIXED.sizes[j]) for j in s))
        ]
        assert np.array_equal(matrix(conjunctions(order), MIXED), definition(MIXED, expected))
    some = [
        lambda cell, i=i, j=j: cell[1] == i and cell[3] == j for i in range(4) for j in range(2)
    ]
    for columns in (["b", "d"], ["d", "b"], [3, 1], (1, "d")):
        found = matrix(conjunctions(2, columns=columns), MIXED)
        assert np.array_equal(found, definition(MIXED, some))
    alone = matrix(conjunctions(1, columns="c"), MIXED)
    assert np.array_equal(
        alone, definition(MIXED, [lambda cell: cell[2] == 0, lambda cell: cell[2] == 1])
    )


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (None, (2, 3, 1, 1)),
        ({"a": "x", 1: 1.5, "d": 3}, (0, 1, 1, 0)),
        ({"c": 0, "a": None}, (2, 3, 0, 1)),
    ],
)
def test_monotone_conjunctions_ask_one_value_of_all_columns(values, wanted):
    expected = [
        lambda cell, s=s: all(cell[j] == wanted[j] for j in s)
        for s in itertools.combinations(range(4), 2)
    ]
    found = matrix(conjunctions(2, monotone=True, values=values), MIXED)
    assert np.array_equal(found, definition(MIXED, expected))


def test_one_value_for_all_columns():
    binary = Domain.binary(3)
    for value in (0, 1):
        expected = [
            lambda c, s=s, v=value: all(c[j] == v for j in s) for s in ((0, 1), (0, 2), (1, 2))
        ]
        found = matrix(conjunctions(2, monotone=True, values=value), binary)
        assert np.array_equal(found, definition(binary, expected))


def test_thresholds_and_intervals():
    # Columns with an order: b (bins) and c (0, 1); not a (text) nor d (3 before 1).
    below = [lambda c, i=i: c[1] <= i for i in range(3)] + [lambda c: c[2] <= 0]
    assert np.array_equal(matrix(thresholds(), MIXED), definition(MIXED, below))
    # A stated column has the order that the domain states.
    for columns, j in (("a", 0), (["d"], 3), (1, 1)):
        expected = [lambda c, i=i, j=j: c[j] <= i for i in range(MIXED.sizes[j] - 1)]
        assert np.array_equal(matrix(thresholds(columns), MIXED), definition(MIXED, expected))
        ends = itertools.combinations_with_replacement(range(MIXED.sizes[j]), 2)
        expected = [lambda c, i=i, k=k, j=j: i <= c[j] <= k for i, k in ends]
        assert np.array_equal(matrix(intervals(columns), MIXED), definition(MIXED, expected))
    assert intervals().workload(MIXED).n_queries == 10 + 3
    # Of one cell: one query, that all rows are in it.
    assert matrix(thresholds(), Domain([1])).tolist() == [[1.0]]


def test_parities():
    for order in (1, 2, 4):
        expected = [
            lambda cell, s=s: sum(cell[j] for j in s) % 2 == 0
            for s in itertools.combinations(range(4), order)
        ]
        assert np.array_equal(matrix(parities(order), MIXED), definition(MIXED, expected))
    assert parities(2, columns=["a", "c"]).workload(MIXED).n_queries == 1


def test_matrices():
    rng = np.random.default_rng(0)
    weights = rng.random((5, MIXED.n_cells))
    assert np.abs(matrix(linear_queries(weights), MIXED) - weights).max() <= 0.5 / ONE
    zeros_and_ones = rng.integers(0, 2, size=(5, MIXED.n_cells))
    work = linear_queries(zeros_and_ones).workload(MIXED)
    assert work.one == 1
    assert np.array_equal(matrix(linear_queries(zeros_and_ones), MIXED), zeros_and_ones)
    assert linear_queries(zeros_and_ones[0]).workload(MIXED).n_queries == 1
    # The cells are those of the columns in the order in which these are stated.
    table = rng.integers(0, 2, size=(2, 4, 3))  # of b and a
    found = matrix(linear_queries(table.reshape(2, 12), columns=["b", "a"]), MIXED)
    expected = [lambda c, q=q: table[q, c[1], c[0]] for q in range(2)]
    assert np.array_equal(found, definition(MIXED, expected))


def test_functions_of_a_row():
    asked = []

    def late(row):
        asked.append(row)
        return row["b"] > 1 and row["a"] == "x"

    found = matrix(linear_queries(late, columns=["b", "a"]), MIXED)
    assert np.array_equal(found, definition(MIXED, [lambda c: c[1] >= 1 and c[0] == 0]))
    assert len(asked) == 12
    assert asked[0] == {"b": 0.5, "a": "x"}  # the middle of the bin
    assert asked[-1] == {"b": 7.0, "a": None}
    several = [lambda row: row[0] / 2, lambda row: row[1] == 1]
    found = matrix(linear_queries(several), Domain([3, 2]))
    expected = [lambda c: c[0] / 2, lambda c: c[1] == 1]
    assert np.array_equal(found, definition(Domain([3, 2]), expected))


def test_sums_keep_the_order():
    both = thresholds() + conjunctions(1) + parities()
    parts = [matrix(q, MIXED) for q in (thresholds(), conjunctions(1), parities())]
    assert np.array_equal(matrix(both, MIXED), np.concatenate(parts))
    assert both == thresholds() + (conjunctions(1) + parities())
    assert as_queries([thresholds(), conjunctions(1), parities()]) == both
    mixed = as_queries([conjunctions(1), lambda row: 0.25])
    assert matrix(mixed, MIXED)[-1].tolist() == [0.25] * MIXED.n_cells
    with pytest.raises(TypeError):
        thresholds() + 1


def test_a_specification_is_a_plain_parameter():
    cells = np.arange(6) % 2
    every = [
        conjunctions(),
        conjunctions(3, monotone=True, columns=["a", "b", "c"], values={"a": "x"}),
        conjunctions(3, monotone=True, values=0),
        thresholds(["b"]),
        intervals(),
        parities(2, columns=[0, 1]),
        linear_queries(cells),
        linear_queries(len),
        thresholds() + parities(),
    ]
    for i, a in enumerate(every):
        assert clone(a, safe=False) is a
        assert pickle.loads(pickle.dumps(a)) == a
        for j, b in enumerate(every):
            assert (a == b) == (i == j)
        assert hash(a) == hash(pickle.loads(pickle.dumps(a)))
    assert conjunctions(2)(MIXED).n_queries == conjunctions(2).workload(MIXED).n_queries
    assert repr(every[1]) == (
        "conjunctions(3, monotone=True, columns=('a', 'b', 'c'), values={'a': 'x'})"
    )
    assert repr(every[2]) == "conjunctions(3, monotone=True, values=0)"
    assert repr(every[6]) == "linear_queries(<1 x 6 matrix>)"
    assert repr(every[8]) == "thresholds() + parities(2)"
    with pytest.raises(ValueError, match="read-only"):
        every[6].weights[0, 0] = 7


@each(
    ("make", "error", "match"),
    [
        (lambda: conjunctions(0), ValueError, "order must be"),
        (lambda: conjunctions(2.0), TypeError, "order must be"),
        (lambda: conjunctions(True), TypeError, "order must be"),
        (lambda: conjunctions(2, monotone=1), TypeError, "monotone"),
        (lambda: conjunctions(2, values=1), ValueError, "values is for monotone"),
        (lambda: conjunctions(2, columns=[]), ValueError, "columns must name"),
        (lambda: conjunctions(2, columns=[[1], [2]]), TypeError, "columns must be names"),
        (lambda: parities("2"), TypeError, "order must be"),
        (lambda: thresholds([]), ValueError, "columns must name"),
        (lambda: linear_queries([]), ValueError, "at least one query.*shape \\(0,\\)"),
        (lambda: linear_queries(np.zeros((0, 5))), ValueError, "at least one query"),
        (lambda: linear_queries(np.zeros((5, 0))), ValueError, "at least one query"),
        (lambda: linear_queries(1.0), ValueError, "at least one query"),
        (lambda: linear_queries("abc"), TypeError, "q must be a matrix"),
        (lambda: linear_queries([[1], [1, 2]]), TypeError, "q must be a matrix"),
        (lambda: linear_queries(1j * np.ones(3)), TypeError, "q must be a matrix"),
        (lambda: linear_queries([0, 0.5, 1.25]), ValueError, r"\[0, 1\]; query 0 is 1.25 at cell"),
        (lambda: linear_queries([[1, 1], [0, -1]]), ValueError, "query 1 is -1 at cell 1"),
        (lambda: linear_queries([0, np.nan]), ValueError, "query 0 is nan at cell 1"),
        (lambda: as_queries([]), ValueError, "at least one query, got none"),
        (lambda: as_queries(None), TypeError, "queries must be made by"),
        (lambda: as_queries("ab"), TypeError, "queries must be made by"),
        (lambda: as_queries([conjunctions(), 1]), TypeError, "queries must be made by"),
    ],
)
def test_bad_specifications(make, error, match):
    with pytest.raises(error, match=match):
        make()


@each(
    ("queries", "domain", "error", "match"),
    [
        (conjunctions(5), MIXED, ValueError, "order=5 is above the number of columns"),
        (conjunctions(columns=["a", "z"]), MIXED, ValueError, "no column 'z'"),
        (conjunctions(columns=["a", 0]), MIXED, ValueError, "distinct"),
        (conjunctions(1, monotone=True, values="x"), MIXED, ValueError, "'x' is not in.*'b'"),
        (conjunctions(1, monotone=True, columns=["c"], values={"C": 0}), MIXED, ValueError,
         "values names no column of the domain: 'C'"),
        (conjunctions(1, monotone=True, values={4: 0}), MIXED, ValueError, "names no column.* 4"),
        (conjunctions(1, monotone=True, values={"c": 0, 2: 1}), MIXED, ValueError, "twice: 2"),
        (thresholds(["B"]), MIXED, ValueError, "no column 'B'"),
        (intervals("B"), MIXED, ValueError, "no column 'B'"),
        (parities(1, columns=["C"]), MIXED, ValueError, "no column 'C'"),
        (linear_queries(len, columns=["C"]), MIXED, ValueError, "no column 'C'"),
        (conjunctions(5), Domain([2] * 200), ValueError, "makes 2535650040 sets of columns"),
        (conjunctions(2), Domain([2000, 2000]), ValueError, "table of 4000000 cells"),
        (intervals(), Domain([60_000]), ValueError, "at most 16777216, got 1800030000"),
        (thresholds(), Domain([["a", "b"], [2, 1]]), ValueError, "thresholds needs an ordered"),
        (intervals(), Domain([["a", "b"]]), ValueError, "intervals needs an ordered"),
        (parities(2), Domain([2000, 2000]), ValueError, "table of 4000000 cells"),
        (linear_queries(np.ones(5)), MIXED, ValueError, "5 cells a query, .* 48"),
        (linear_queries(len), Domain([2] * 21), ValueError, "table of 2097152 cells"),
        (linear_queries(lambda row: 2), MIXED, ValueError, "query 0 is 2.0 at a cell"),
        (linear_queries([len, lambda row: "x"]), MIXED, (TypeError, ValueError), "q must"),
        (linear_queries(lambda row: 1j), MIXED, TypeError, "query 0 gave complex"),
    ],
)  # fmt: skip
def test_queries_that_do_not_fit(queries, domain, error, match):
    with pytest.raises(error, match=match):
        queries.workload(domain)


def test_too_large_matrices(monkeypatch):
    monkeypatch.setattr(module, "MAX_WEIGHTS", 100)
    with pytest.raises(ValueError, match="at most 100 entries, got 3 queries on 40 cells"):
        linear_queries(np.ones((3, 40)))
    with pytest.raises(ValueError, match="got 3 queries on 48 cells"):
        linear_queries([len] * 3).workload(MIXED)
