"""A query of wrong shapes is refused where it is built, and in a session before its charge."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import core
from skdp.core import Ball, Box
from skdp.core.sums import RowSum
from skdp.queries import (
    BoxTree,
    Categories,
    ColumnCells,
    Grid,
    LogisticMinimiser,
    LogitBall,
    NormBins,
    Projection,
    ThresholdTable,
    additive_errors,
    additive_gradient,
    logistic_gradient,
    row_counts,
    sum_view,
)
from skdp.queries.images import LogisticGradient
from skdp.queries.key_totals import KeyTotals, LeftOut
from skdp.tabular import Bins, Domain, KeyTerm, check_coded, check_labelled, check_rows
from tests.folding import each

BALL = Ball([0.0, 0.0], 1.0)
CELLS = ColumnCells((np.array([0.0]), np.array([0.0])))  # four cells


def gradient(scores=(1, 4), offset=(1,)):
    return additive_gradient(CELLS, np.zeros(scores), np.zeros(offset), 1.0)


def errors(scores=(4,), **numbers):
    given = {"offset": 0.0, "low": -1.0, "high": 1.0, "largest_error": 1.0} | numbers
    return additive_errors(CELLS, np.zeros(scores), *given.values())


def logistic(theta=(1, 3), offset=(1,)):
    return logistic_gradient(BALL, 0.5, np.zeros(theta), np.zeros(offset), 1.0)


def logits(offset):
    return LogitBall(LogisticGradient(BALL, 0.5, np.zeros((1, 3)), np.zeros(offset), 1.0), 1.0)


WRONG = {
    "scores of one cell less": (lambda: gradient(scores=(1, 3)), "scores must have 4 columns"),
    "scores without classes": (lambda: gradient(scores=(4,)), r"scores must have shape \(K, n"),
    "an offset a row": (lambda: gradient(offset=(5, 1)), "offset must be a number for each of"),
    "an offset of two logits": (lambda: gradient(offset=(2,)), "offset must be a number for each"),
    "one offset for two logits": (lambda: gradient(scores=(2, 4)), "each of the 2 logits"),
    "scores of errors a cell less": (lambda: errors(scores=(3,)), "scores must have 4 columns"),
    "scores of errors of classes": (lambda: errors(scores=(1, 4)), r"shape \(n_cells,\)"),
    "an offset of errors a row": (lambda: errors(offset=np.zeros((5, 1))), "offset must be a num"),
    "a low end a row": (lambda: errors(low=np.zeros((5, 1))), "low must be a number"),
    "a high end a row": (lambda: errors(high=np.zeros((5, 1))), "high must be a number"),
    "a unit a row": (lambda: errors(largest_error=np.ones((5, 1))), "largest_error must be a"),
    "theta without constant": (lambda: logistic(theta=(1, 2)), "theta must have 3 columns"),
    "theta of one dimension": (lambda: logistic(theta=(3,)), "theta must have 3 columns"),
    "an offset of logits a row": (lambda: logistic(offset=(5, 1)), "offset must be a number"),
    "an offset of a map a row": (lambda: logits((5, 1)), "offset must be a number for each row"),
    "cuts that descend": (lambda: ColumnCells((np.array([1.0, 0.0]),)), "cuts must be .*ascending"),
    "no category": (lambda: Categories((np.array([]),), 2), "categories must have at least one"),
    "categories in disorder": (lambda: Categories((np.array([1.0, 0.0]),), 2), "must be one-dim"),
    "one edge": (lambda: Grid((np.array([1.0]),)), "edges must have at least two"),
    "a centre a row": (lambda: NormBins(np.zeros((5, 1))), "center must be one point"),
    "a unit of length a row": (lambda: NormBins(np.zeros(1), np.ones((5, 1))), "unit a number"),
    "components of other rows": (lambda: Projection(BALL, np.eye(3), 1.0), "components must have"),
    "one component": (lambda: Projection(BALL, np.ones(2), 1.0), r"shape \(k, 2\)"),
    "public rows of other columns": (
        lambda: LogisticMinimiser(BALL, np.zeros((4, 3)), 1.0), r"public must have shape \(m, 2\)"
    ),
}  # fmt: skip


@each(("make", "match"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_shape_is_refused_where_the_query_is_built(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_right_shapes_are_built():
    for make in (gradient, errors, logistic):
        make()
    logits((1,))


def flattened(array):
    """Give an array another shape, as its owner can at any time."""
    array.shape = (array.size, 1)


CHANGED = {
    "offset": (gradient, lambda q: flattened(q.image.offset), "offset must be"),
    "scores of errors": (errors, lambda q: flattened(q.image.scores), "scores must have shape"),
    "offset of logits": (logistic, lambda q: flattened(q.image.offset), "offset must be"),
    "theta": (logistic, lambda q: flattened(q.image.theta), "theta must have"),
    "cuts": (
        lambda: row_counts(ColumnCells((np.array([0.0, 1.0]),) * 2), "cells"),
        lambda q: q.cells.cuts[0].__setitem__(0, 2.0), "ascending",
    ),
    "edges": (
        lambda: row_counts(Grid((np.array([0.0, 1.0]),) * 2), "grid"),
        lambda q: q.cells.edges[0].__setitem__(0, 2.0), "ascending",
    ),
}  # fmt: skip


@each(("make", "change", "match"), CHANGED.values(), ids=list(CHANGED))
def test_an_array_that_is_changed_after_that_is_refused_before_the_charge(make, change, match):
    query = make()
    change(query)
    rows = check_labelled(np.zeros((6, 2)), [0, 1] * 3, estimator="T", classes=np.arange(2))
    with core.open_session(rows, estimator="T", epsilon=1.0) as session:
        with pytest.raises(ValueError, match=match):
            session.answer(query, 0.5)
        assert session.remaining == 1


def test_other_columns_are_refused_whether_there_are_rows_or_not():
    """An error of the pass over the rows would come only where there are some, and cost nothing."""
    queries = {
        "column must be": (
            ThresholdTable(np.array([0.0, 1.0]), 2, column=2),
            ThresholdTable(np.array([0.0, 1.0]), 2, column=-1),
        ),
        "1 columns, the rows have 2": (
            LogisticMinimiser(Box([0.0], [1.0]), np.zeros((4, 1)), 1.0),
            BoxTree(Box([0.0], [1.0]), 2),
        ),
        "edges must be one array for each of 2 columns, got": tuple(
            row_counts(Grid((np.array([0.0, 1.0]),) * number), "grid") for number in (0, 1, 3)
        ),
    }
    rows = check_rows(np.zeros((3, 2)), estimator="T")
    for match, wrong in queries.items():
        for query in wrong:
            with core.open_session(rows, estimator="T", epsilon=1.0) as session:
                vars(session._table.rows)["_n"] = 0
                with pytest.raises(ValueError, match=match):
                    session.answer(query)
                assert session.remaining == 1


def test_a_box_whose_ends_are_exchanged_is_refused():
    """Its width would be negative, and with others' hide how far a total moves."""
    with pytest.raises(ValueError, match="low must not exceed high"):
        sum_view([10.0, 0.0], [0.0, 10.0], 2, across=True, about_zero=True)


def test_sums_over_units_have_no_count():
    """A unit may have no rows in one of two tables, so a count would not cancel."""
    query = RowSum(LeftOut((("a",),), 1, 1), noise="entries", count=True)
    with pytest.raises(TypeError, match="no count"):
        query.check_table(None)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "other"},
        {"kind": "square", "zero": True},
        {"kind": "about", "centers": (2**32, 0)},
        {"kind": "sum", "low": 1.0, "high": 0.0},
        {"kind": "leaves", "depth": -1},
    ],
)
def test_terms_that_no_bound_covers_are_refused(options):
    with pytest.raises(ValueError, match=r"kind|zero|depth|low"):
        KeyTerm(**options)


def test_totals_of_unknown_bounds_are_refused():
    for high in (np.inf, np.nan):
        with pytest.raises(ValueError, match="finite"):
            KeyTotals((("a",),), (KeyTerm("sum", "x", 0.0, high),), 0, 1, 1)


class Watching(Bins):
    """Bins whose code would see cells."""

    def codes(self, values):
        raise AssertionError("a cell was read")


def test_no_code_of_others_reads_cells_for_a_domain():
    X = np.array([[0.5], [1.5]])
    for domain in (Domain([Watching([0.0, 1.0, 2.0])]), Domain([Bins([0.0, 1.0, 2.0])])):
        if type(domain._columns[0].bins) is Bins:
            vars(domain)["codes"] = Watching.codes
        with pytest.raises(TypeError, match="must be a Domain of skdp"):
            check_coded(X, domain, estimator="test")
