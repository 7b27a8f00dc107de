"""Small tables for queries of every registered type, and how a session is asked each query.

Most cases are those of the contract (`tests/contract/worst_queries.py`): each query with a pair of
rows, or of tables, that moves it most. Queries that read other tables (units, keys, missing cells)
have cases of their own here.

A case has a few *elements*, from which every table of some sizes is made. An element is a row, or
all rows of one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from cases import RELATIONS
from neighbours import D
from worst_queries import QUERIES, WHOLE, laplace_pair, release_case

from skdp import config_context
from skdp.audit._statistical import fitted_clone, subject_of
from skdp.budget.budget import StandInBudget
from skdp.core import Ball, Box, Count, Mean, Sum, UserFunction, open_session
from skdp.core.sums import RowSum
from skdp.core.units import Unit
from skdp.queries import (
    BestOfRuns,
    CellQuantile,
    CountedKeys,
    FilledCells,
    KernelMap,
    KernelMean,
    KeyQuantiles,
    KeyTotals,
    LearnedBounds,
    LeftOut,
    LogisticMinimiser,
    NoisySample,
    OfColumn,
    PublishedRows,
    Quantiles,
    Repeats,
    SelectKeys,
    SmoothMedian,
    UnitShapes,
    UnitSpread,
    basis_mean,
    feature_means,
    moments,
    present_means,
    rows_beyond,
    select_categories,
    select_classes,
    unit_sum,
)
from skdp.tabular import (
    UnitCounts,
    check_columns,
    check_grouped,
    check_rows,
    check_uncoded,
    check_units,
    check_unselected,
    column_plans,
    opaque_rows,
    table_schema,
)
from skdp.tabular.contributions import KeyTerm
from skdp.tabular.unstated import check_keyed

R, A = RELATIONS
DELTA = 1e-5


@dataclass(frozen=True)
class SmallTables:
    """All tables that are made of a few elements, and one or more queries of them.

    Attributes
    ----------
    name : str
    elements : sequence
        Rows, or units.
    sizes : sequence of int
        Numbers of elements of a table.
    ask : callable
        Opens a session on a table (a list of elements) and asks its queries.
    replaced, added : bool
        Whether neighbouring tables have one element replaced, or one more.
    n_is_public : bool
        Then only tables of one size are compared, and each size has its own recorded releases.
    at_the_end : bool
        An element is added at the end only: where its place is the id of its unit.
    """

    name: str
    elements: Sequence[Any]
    sizes: Sequence[int]
    ask: Callable[[list[Any]], None]
    replaced: bool
    added: bool
    n_is_public: bool
    at_the_end: bool = False


# --- the contract's queries ---------------------------------------------------------------------

TINY = np.array([0.0, -0.0, 5e-324])
HUGE = np.array([1 / 3, -1e300, 1.7976931348623157e308])


def contract_tables(relation: str, *, filtered: bool = False) -> list[SmallTables]:
    """Return the contract's queries of single rows, for tables of one to three rows of four.

    Two of the rows are the pair that moves the query most. With `filtered` the rows are marked as
    those that a filter has left of a table under "replace_one".
    """
    made = []
    for name, ask, deltas, relations, pair, _ in QUERIES:
        if relation not in relations:
            continue
        first, second = laplace_pair() if pair is None else pair
        rows = [first, TINY[: len(first)] if second is None else second, TINY, HUGE]
        rows = list({row.tobytes(): row for row in rows}.values())
        for delta in deltas:
            made.append(_of_estimator(name, ask, delta, relation, rows, (1, 2, 3), filtered))
    return made


def contract_rank_tables(relation: str) -> list[SmallTables]:
    """Return the contract's queries of whole tables: up to four rows of the values in its pair."""
    made = []
    for name, ask, deltas, its_relation, X, other, _ in WHOLE:
        if its_relation != relation:
            continue
        rows = list(np.unique(np.concatenate([X, other]), axis=0))
        between = (rows[0] + rows[-1]) / 2
        rows = list({row.tobytes(): row for row in (*rows, between)}.values())
        # The cost of a spanning tree is of one row for each edge of a public graph.
        sizes = (len(X),) if name.startswith("spanning tree") else (1, 2, 3, 4)
        for delta in deltas:
            made.append(_of_estimator(name, ask, delta, relation, rows, sizes, False))
    return made


def _of_estimator(name, ask, delta, relation, rows, sizes, filtered):
    subject = subject_of(release_case(name, ask, relation, delta), seed=0)
    if relation == A:
        sizes = (0, *sizes)

    def run(table):
        X = np.array(table, dtype=np.float64).reshape(len(table), rows[0].size)
        fitted_clone(subject, X, None)

    return SmallTables(
        name=f"{name}, delta={delta}",
        elements=rows,
        sizes=sizes,
        ask=run,
        replaced=relation == R,
        added=relation == A or filtered,
        n_is_public=relation == R and not filtered,
    )


# --- queries of other tables --------------------------------------------------------------------


@dataclass(frozen=True)
class Own:
    """A query, or several in turn, of tables that the contract's cases have not.

    Attributes
    ----------
    name : str
    elements : sequence
    read : callable
        From a list of elements to the private rows.
    queries : sequence
        Each gets an equal share.
    sizes : sequence of int
    deltas : sequence of float
    separate_delta : float
    unit : Unit or str or None
        How many rows of a unit count; a text is the name of a unit that is one row of the table.
    always_added : bool
        Elements enter and leave under "replace_one", too.
    at_the_end : bool
    """

    name: str
    elements: Sequence[Any]
    read: Callable[[list[Any]], Any]
    queries: Sequence[Any]
    sizes: Sequence[int] = (1, 2, 3)
    deltas: Sequence[float] = (0.0, DELTA)
    separate_delta: float = 0.0
    unit: Any = None
    always_added: bool = False
    at_the_end: bool = False
    relations: Sequence[str] = field(default=RELATIONS)
    epsilon: float = 1.0


def own_tables(relation: str) -> list[SmallTables]:
    """Return the cases below, for every delta that they are for."""
    return [
        _of_session(case, relation, delta)
        for case in OWN
        if relation in case.relations
        for delta in case.deltas
    ]


def _of_session(case: Own, relation: str, delta: float) -> SmallTables:
    unit = case.unit if isinstance(case.unit, Unit) else None
    budget = StandInBudget(relation, getattr(case.unit, "name", case.unit))

    def run(table):
        rows = case.read(table)
        options = {"delta": delta, "separate_delta": case.separate_delta, "random_state": 0}
        with (
            config_context(noise="seeded"),
            open_session(
                rows,
                estimator="checker",
                epsilon=case.epsilon,
                budget=budget,
                unit=unit,
                **options,
            ) as session,
        ):
            for query in case.queries[:-1]:
                session.answer(query, 1 / (2 * len(case.queries)))
            session.answer(case.queries[-1])

    sizes = (0, *case.sizes) if relation == A else case.sizes
    return SmallTables(
        name=f"{case.name}, delta={delta}",
        elements=case.elements,
        sizes=sizes,
        ask=run,
        replaced=relation == R,
        added=relation == A or case.always_added,
        n_is_public=relation == R and not case.always_added,
        at_the_end=case.at_the_end,
    )


def numbers(table):
    """Return rows of two numbers."""
    X = np.array(table, dtype=np.float64).reshape(len(table), 2)
    return check_rows(X, estimator="checker", allow_empty=True)


def opaque(table):
    """Return rows of one number that a user's code reads."""
    return opaque_rows(np.array(table, dtype=np.float64).reshape(len(table), 1))


def columns(table):
    """Return rows of two numbers, some of which are missing."""
    X = np.array(table, dtype=np.float64).reshape(len(table), 2)
    return check_columns(X, estimator="checker", allow_empty=True)


def labelled(table):
    """Return rows of one number with labels that are private keys."""
    X = np.zeros((len(table), 1))
    y = np.array([*table, None], dtype=object)[:-1]
    return check_unselected(X, y, estimator="checker", allow_empty=True)


def categories(table):
    """Return rows of two cells that are private keys."""
    cells = np.empty((len(table), 2), dtype=object)
    for i, row in enumerate(table):
        cells[i] = row
    return check_keyed(cells, [0, 1], missing=True)


def undecided(table):
    """Return rows of a number and a text, of which no domain is stated."""
    frame = pd.DataFrame(table, columns=["number", "text"])
    frame = frame.astype({"number": "float64", "text": object})
    read, schema = table_schema(frame, estimator="checker")
    return check_uncoded(read, column_plans({}, read, schema), named=True, allow_empty=True)


def by_key(table):
    """Return units with the (key, value) rows of each; the place in the table is the id.

    Ranks of keys are a hash of the id and the key, the same in every table.
    """
    rows = [(i, key, value) for i, unit in enumerate(table) for key, value in unit]
    frame = pd.DataFrame(rows, columns=["u", "k", "v"])
    frame = frame.astype({"u": "int64", "k": str, "v": "float64"})
    grouped = check_grouped(frame, by=["k"], unit="u", columns=["v"], allow_empty=True)

    def ranks(ids, codes, salt):
        word = ids * np.uint64(40503) + codes.astype(np.uint64)
        return (word + np.uint64(salt % 2**32)) * np.uint64(0x9E3779B97F4A7C15)

    grouped.hash, grouped.secret = ranks, 3
    return grouped


def unit_counts(table):
    """Return one row a unit: the number of its rows."""
    ids = np.repeat(np.arange(len(table)), table)
    return UnitCounts(check_units(ids, len(ids), estimator="checker"), "user")


def rows_of_units(table):
    """Return all rows of some units; an element has those of one."""
    rows = [row for unit in table for row in unit]
    ids = np.repeat(np.arange(len(table)), [len(unit) for unit in table])
    return numbers(rows).of_units(ids, "checker")


def fit_mean(candidate, X, y, budget, seed):
    """Return the candidate and a private mean of a part of the rows."""
    rows = check_rows(X, estimator="run", allow_empty=True)
    with open_session(
        rows, estimator="run", epsilon=1 / 3, budget=budget, random_state=seed
    ) as session:
        return candidate, float(session.answer(Mean(Box([0.0], [1.0]))).value[0])


def score_mean(model, X, y, budget, seed):
    """Return a private score on the other part of the rows."""
    return fit_mean(0, X, y, budget, seed)[1] + model[0]


PAIRS = [[-2.0, 0.0], [2.0, 2.0], [1 / 3, -0.0], [1e300, -1e300]]
CENTERS = np.array([[0.0, 0.0], [1.0, -1.0], [2.0, 2.0]])
KERNEL = KernelMap(CENTERS, [0.5, 2.0])
SQUARE = Box([-2.0, -2.0], [2.0, 2.0])
KEYS = ("a", "b", "no such key")
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
    KeyTerm("between", "v", LOW, HIGH, cuts=((1, 2**20), (7, 8), (0, 1))),
    KeyTerm("about", "v", LOW, HIGH, centers=(-(2**29), 0, 7)),
)
NAN = float("nan")
BASKETS = [
    [("a", HIGH)] * 3,
    [("a", LOW), ("b", NAN)],
    [("b", 1e300), ("other", -0.0), ("a", 1 / 3)] * 2,
]

OWN = (
    # So little allowance that statistics are shortened before noise is added.
    Own("shortened sums", PAIRS, numbers, [Sum(SQUARE), Mean(SQUARE)], epsilon=1e-5),
    Own("kernel mean", PAIRS, numbers, [KernelMean(KERNEL, np.eye(6))]),
    Own("kernel mean, one image", PAIRS, numbers, [KernelMean(KERNEL, np.ones((1, 6)))]),
    Own("feature means", PAIRS, numbers, [feature_means(KERNEL)]),
    Own(
        "basis mean",
        PAIRS,
        numbers,
        [
            basis_mean(UserFunction(lambda X: X**2), Box([0.0, 0.0], [4.0, 4.0])),
            basis_mean(UserFunction(lambda X: X), Ball([0.0, 0.0], 2.0), True),
        ],
    ),
    Own(
        "logistic minimiser",
        PAIRS[:3],
        numbers,
        [LogisticMinimiser(SQUARE, CENTERS, 0.05), LogisticMinimiser(SQUARE, CENTERS, 4.0)],
    ),
    Own("noisy sample", PAIRS, numbers, [NoisySample(SQUARE, 2, rate=0.5)]),
    Own(
        "published rows",
        PAIRS,
        numbers,
        [PublishedRows(1, rate=0.5)],
        separate_delta=0.5,
        relations=(A,),
    ),
    Own(
        "published rows of a public number",
        PAIRS,
        numbers,
        [PublishedRows(1)],
        sizes=(2, 3),
        separate_delta=0.5,
        relations=(R,),
    ),
    Own(
        "best of runs",
        [0.0, 1.0, 7.0],
        opaque,
        [BestOfRuns(UserFunction(fit_mean), UserFunction(score_mean), 2, Repeats.of_mean(2), 0.5)],
        sizes=(2, 3),
        deltas=(0.0,),
    ),
    Own(
        "a column with missing cells",
        [[-1.0, 0.0], [1.0, NAN], [NAN, 5e-324], [1e300, -1e300]],
        columns,
        [
            OfColumn(0, Count()),
            OfColumn(0, Mean(Box([-1.0], [1.0]))),
            OfColumn(1, moments(np.array([-1.0]), np.array([1.0]))),
            OfColumn(1, CellQuantile(Box([-1.0], [1.0]), 0.5)),
            OfColumn(0, Quantiles(Box([-1.0], [1.0]), 0.5)),
            OfColumn(1, LearnedBounds()),
            OfColumn((0, 1), LearnedBounds(n=3.0)),
            RowSum(FilledCells((0, 1)), noise="smaller", name="rows with a value"),
            present_means([-1.0, -1.0], [1.0, 1.0], (1,)),
            present_means([-1.0, 0.0], [1.0, 0.0], (0, 1)),
        ],
    ),
    Own(
        "classes",
        ["a", "b", 7, dict],
        labelled,
        [select_classes()],
        deltas=(DELTA,),
        separate_delta=0.1,
    ),
    Own(
        "categories",
        [["a", 1.0], ["b", True], [None, 1.0], ["a", "a"]],
        categories,
        [select_categories(2)],
        deltas=(DELTA,),
        separate_delta=0.1,
    ),
    Own(
        "domain",
        [[-1.0, "a"], [NAN, "b"], [1e9, None]],
        undecided,
        [
            SelectKeys(1, "sips", "categories"),
            RowSum(FilledCells((0,), missing=True), noise="entries", name="missing values"),
            OfColumn(0, LearnedBounds(n=3.0, audit=False)),
            OfColumn((0,), LearnedBounds(n=1e4)),
            OfColumn(0, Quantiles(Box([-1.0], [1.0]), [0.25, 0.5, 0.75])),
        ],
        deltas=(DELTA,),
        separate_delta=0.1,
    ),
    *(
        Own(
            f"keys, {method}, {max_keys}",
            BASKETS,
            by_key,
            [SelectKeys(max_keys, method)],
            deltas=(DELTA,) if method in ("gaussian", "sips") else (0.0,),
            separate_delta=0.1,
            unit="u",
            always_added=True,
            at_the_end=True,
        )
        for method, max_keys in (
            ("laplace", 1),
            ("laplace", 2),
            ("optimal", 1),
            ("optimal", 2),
            ("gaussian", 1),
            ("gaussian", 2),
            ("sips", 2),
        )
    ),
    *(
        Own(
            f"counted keys, {max_keys}, {rows}",
            BASKETS,
            by_key,
            [CountedKeys(max_keys, rows)],
            deltas=(0.0, DELTA),
            separate_delta=0.1,
            unit="u",
            always_added=True,
            at_the_end=True,
        )
        for max_keys, rows in ((1, 1), (2, 1), (1, 2))
    ),
    Own(
        "totals by key",
        BASKETS,
        by_key,
        [
            *(unit_sum(KeyTotals(KEYS, TERMS, i, 1, 2)) for i in range(len(TERMS))),
            *(unit_sum(KeyTotals(KEYS, TERMS, i, 2, 2)) for i in range(len(TERMS))),
            unit_sum(UnitShapes(KEYS, (1, 2, 3), (1, 2, 5))),
            unit_sum(UnitShapes(None, (1, 2, 3), (1, 2, 5))),
            unit_sum(LeftOut(KEYS, 1, 1)),
            unit_sum(LeftOut(KEYS, 2, 1)),
            unit_sum(LeftOut(None, 1, 1)),
            unit_sum(UnitSpread("v", (-4.0, -1.0, 0.0, 1.0, 4.0))),
            KeyQuantiles(KEYS, KeyTerm("points", "v", LOW, HIGH), 0.5, 1, 2),
            KeyQuantiles(KEYS, KeyTerm("points", "v", LOW, HIGH), 0.9, 2, 2, below=3),
        ],
        unit="u",
        always_added=True,
        at_the_end=True,
        epsilon=100.0,
    ),
    Own(
        "rows beyond a bound",
        [1, 2, 4, 10_000],
        unit_counts,
        [rows_beyond(2, 3), rows_beyond(1, 1)],
        unit="user",
        always_added=True,
    ),
    *(
        Own(
            f"units, {most} rows",
            [[[-2.0, 0.0]], [[2.0, 2.0]] * 3, [[1 / 3, -0.0], [1e300, -1e300]]],
            rows_of_units,
            [
                Sum(SQUARE),
                Mean(SQUARE),
                Count(),
                CellQuantile(SQUARE, 0.5),
                SmoothMedian(SQUARE),
                Quantiles(SQUARE, 0.5),
            ],
            unit=Unit("user", most),
            always_added=True,
            at_the_end=True,
        )
        for most in (1, 2, "private")
    ),
)

assert len(TINY) == D
