"""The narrow waist: sessions answer registered queries, and nothing that states a sensitivity."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import PrivacyBudget, PrivacyLeakError, core
from skdp.core import (
    Ball,
    Box,
    Independent,
    Mean,
    Measurement,
    PrivateTable,
    Query,
    RowSum,
    ScaledBox,
    Spherical,
    Sum,
    register_query,
)
from skdp.core.query import check_query, owned, reviewed
from skdp.core.sums import Values
from skdp.core.table import stability_of
from skdp.queries import (
    AssignedSums,
    ColumnBox,
    ColumnCells,
    Grid,
    KeyTotals,
    NormBins,
    Projection,
    SmoothMedian,
    StandardBall,
    Symmetric,
    ThresholdTable,
    UnitSpread,
    WeightedBall,
    logistic_gradient,
    row_counts,
    rows_beyond,
    sum_view,
    unit_sum,
)
from skdp.tabular import KeyTerm, check_grouped, check_labelled, check_rows
from tests.folding import each
from tests.views import box_of

X = np.linspace(-1, 1, 40).reshape(20, 2)


def open_session(budget=None):
    rows = check_rows(X, estimator="T")
    return core.open_session(rows, estimator="T", epsilon=1.0, budget=budget)


class HomeMadeBox(Box):
    """Says that rows are bounded, and does not clip them."""

    def map(self, block):
        return block


@dataclass(frozen=True, eq=False)
class ExactSum(Query):
    """A query of somebody else, with a sensitivity that nobody checked."""

    factor: float = 1.0

    def exact(self, table):
        (total,) = table.fold(
            lambda block, totals: totals.__setitem__(0, totals[0] + len(block)), lambda: [0]
        )
        return np.array([round(self.factor * total)])

    def sensitivity(self, relation):
        return Independent(1, 1)

    def decoded(self, noisy):
        return float(noisy.values[0])


@dataclass(frozen=True, eq=False)
class RegisteredSum(ExactSum):
    pass


register_query(RegisteredSum)


def test_what_is_not_registered_is_refused_and_costs_nothing():
    session = open_session()
    for query in (ExactSum(), object(), X.sum(axis=0), 3, lambda table: 0, Sum):
        with pytest.raises(TypeError, match="a session answers the queries of skdp"):
            session.answer(query)
    assert session.remaining == 1


def test_a_query_holds_registered_maps_of_rows_only():
    session = open_session()
    box = Box([-1, -1], [1, 1])
    object.__setattr__(box, "map", lambda block: block)
    wrong = (
        HomeMadeBox([-1, -1], [1, 1]),
        box,
        Projection(HomeMadeBox([-1, -1], [1, 1]), np.eye(2), 1.0),
    )
    for view in wrong:
        for query in (Sum(view), Mean(view)):
            with pytest.raises(TypeError, match="numbers, texts, arrays of numbers and types"):
                session.answer(query)
    for kind in (object, str, "S2", "M8[D]", complex):
        with pytest.raises(TypeError, match="edges of Grid must be made of numbers"):
            session.answer(row_counts(Grid((np.array([0, 1]).astype(kind),)), "histogram"))
    assert session.remaining == 1


def test_a_subclass_of_a_query_is_another_query():
    class Tight(RowSum):
        def sensitivity(self, relation):
            return Spherical(1)

    with pytest.raises(TypeError, match="got Tight"):
        open_session().answer(Tight(Values(Box([-1, -1], [1, 1]))))


def test_nothing_else_of_a_session_takes_a_value_with_a_sensitivity():
    """The least that a third party could try with public names and exact numbers."""
    session = open_session()
    public = {name for name in dir(session) if not name.startswith("_")}
    assert "publish" not in public
    assert not public & {"scalars", "vector", "symmetric", "joint", "choices"}


def test_a_third_party_registers_its_own_and_it_is_named_unreviewed(tmp_path):
    path = tmp_path / "l.budget"
    budget = PrivacyBudget(2.0, adjacency="add_or_remove_one", ledger=path)
    with open_session(budget) as session:
        assert abs(session.answer(RegisteredSum(2.0), Fraction(1, 2)) - 40) < 60
        session.answer(Sum(box_of(session, -1, 1)), name="reviewed sum")
        certificate = session.certificate()
    theirs, ours = certificate.releases
    assert (theirs.reviewed, ours.reviewed) == (False, True)
    assert theirs.query.endswith("RegisteredSum")
    assert ours.query == "skdp.core.sums.RowSum: clipped values"
    assert certificate._repr_html_().count("unreviewed query") == 1
    assert json.loads(certificate.to_json())["releases"][0]["reviewed"] is False
    (charge,) = budget.charges
    assert [one.get("reviewed", True) for one in charge.releases] == [False, True]


class Both(RegisteredSum, Measurement):
    """Would be handed the session that answers it."""


@pytest.mark.parametrize("kind", [int, Query, type("Loose", (Query,), {}), Both])
def test_what_is_no_complete_query_is_not_registered(kind):
    with pytest.raises(TypeError, match="a query must be a frozen dataclass"):
        register_query(kind)


def test_a_query_of_skdp_cannot_be_made_a_strangers():
    register_query(RowSum)
    assert check_query(Sum(Box([0], [1]))) is RowSum
    with open_session() as session:
        session.answer(Sum(box_of(session, -1, 1)))
        assert session.certificate().releases[0].reviewed


def test_a_bound_cannot_be_changed_once_it_is_made():
    box = Box([-1, -1], [1, 1])
    with pytest.raises(AttributeError, match="cannot be changed"):
        box.norm = 1
    with pytest.raises(ValueError, match="read-only"):
        box.half[:] = 1
    assert Box([-1, -1], [1, 1]).norm == box.norm


def test_a_radius_below_zero_and_another_number_of_columns_are_refused():
    for radius in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="radius must be"):
            Ball([0.0, 0.0], radius)
    with pytest.raises(ValueError, match="radius must be"):
        Projection(Box([-1, -1], [1, 1]), np.eye(2), [1.0, -1.0])
    for across in (False, True):
        view = sum_view(0, 100, 1, across=across)
        with pytest.raises(ValueError, match="bounds are for 1 columns, the rows have 2"):
            open_session().answer(Sum(view))
    with pytest.raises(ValueError, match="at most 2\\*\\*30 steps"):
        open_session().answer(SmoothMedian(Box([-1, -1], [1, 1], bits=31)))


@pytest.mark.parametrize(
    "base",
    [
        Box([-1.0] * 256, [1.0] * 256, bits=31),  # products of 2**31 steps are rounded
        ScaledBox([-1.0] * 256, [1.0] * 256),
        Ball([0.0] * 256, 1.0, bits=30),
        Box([-1.0, -1.0], [1.0, 8.0], per_feature=True),  # the columns' steps differ
    ],
)
def test_a_projection_rests_on_what_multiplies_exactly(base):
    """A rounded product may differ with the rows beside it, and then its bound holds no more."""
    with pytest.raises(ValueError, match="base must have one grid for all columns and at most"):
        Projection(base, np.eye(2, base.n_dims), 1.0)
    Projection(Ball([0.0] * 8192, 1.0), np.eye(2, 8192), 1.0)  # the most columns that there are


def test_a_registered_type_is_no_part_of_a_reviewed_query():
    @dataclass(frozen=True, eq=False)
    class View(ExactSum):
        norm: int = 1

        def at(self, bits):
            return self

        def map(self, block):
            return block

    register_query(View)
    with pytest.raises(TypeError, match="view of Values must be made of"):
        open_session().answer(Sum(View()))


def test_a_query_is_answered_as_it_was_asked():
    """Arrays that the caller changes while rows are read decide about nothing."""
    low, high = np.zeros(2), np.ones(2)
    query = row_counts(Grid((low, high)), "histogram")
    mine = owned(query).cells.edges[0]
    low[:] = -9
    assert mine.tolist() == [0, 0] and not mine.flags.writeable


# --- what a caller may not do ---------------------------------------------------------------------


class _Free(Fraction):
    """A share that buys a million times what it takes."""

    def __radd__(self, other):
        return Fraction(other)

    def __mul__(self, other):
        return Fraction(10**6) * other


def test_a_share_is_a_plain_number():
    session = open_session()
    session.answer(Sum(box_of(session, -1, 1)), _Free(1, 2))
    assert session.remaining == Fraction(1, 2)
    (made,) = session.certificate().releases
    assert made.epsilon == pytest.approx(0.5)


@each(
    "make",
    [
        lambda: Ball([np.nan], 1.0),
        lambda: Box([np.nan], [1.0]),
        lambda: ScaledBox([0.0], [np.inf]),
        lambda: StandardBall([0.0], [1.0], [np.nan], [1.0], 1.0),
        lambda: WeightedBall(Ball([0.0], 1.0), 0.5, np.nan),
        lambda: WeightedBall(Ball([0.0], 1.0), 0.5, np.inf),
        lambda: Box([0.0], [1.0], bits=50),
    ],
)
def test_a_map_of_rows_is_made_of_finite_numbers(make):
    with pytest.raises(ValueError, match=r"finite|bits|NaN"):
        make()


def test_a_map_of_rows_cannot_be_thawed():
    box = Box([0.0], [1.0])
    with pytest.raises(ValueError, match="WRITEABLE"):
        box.half.setflags(write=True)


def test_arrays_of_a_query_hold_no_nan():
    session = open_session()
    query = AssignedSums(box_of(session, -1, 1), [[np.nan] * session.n_features], 1.0)
    query = dataclasses.replace(query, centers=np.full((1, session.n_features), np.nan))
    with pytest.raises(ValueError, match="finite"):
        session.answer(query)
    assert session.remaining == 1


def test_a_type_that_equals_a_registered_one_is_not_it():
    class Same(type):
        def __hash__(cls):
            return hash(Sum)

        def __eq__(cls, other):
            return True

    @dataclasses.dataclass(frozen=True, eq=False)
    class Forged(Query, metaclass=Same):
        def exact(self, table):
            return np.array([0])

    with pytest.raises(TypeError, match="registered"):
        open_session().answer(Forged())
    with pytest.raises(TypeError, match="register_query"):
        reviewed(Forged)


def test_what_is_no_field_of_a_query_is_refused():
    session = open_session()
    query = Sum(box_of(session, -1, 1))
    vars(query)["unit"] = 1.0
    with pytest.raises(TypeError, match="no field"):
        session.answer(query)


def test_one_row_cannot_leave_the_bounds_of_a_gradient():
    """Logits of huge coefficients are infinite less infinite for some rows: those count as 0."""
    view = StandardBall([-1e200], [1e200], [0.0], [1.0], 1e200)
    theta = np.array([[1e150, 0.0], [1e150, 0.0], [0.0, 0.0]])
    query = logistic_gradient(view, 0.5, theta, np.zeros(3), 1.0)
    sizes = []
    for value in (0.0, 1e200):
        rows = check_labelled([[value]] * 3, [0, 1, 2], estimator="T", classes=np.arange(3))
        exact = query.exact(PrivateTable(rows, stability_of("add_or_remove_one")))
        sizes.append(math.sqrt(sum(int(v) ** 2 for v in exact.ravel())))
    assert max(sizes) <= 3 * query.sensitivity("add_or_remove_one").l2


# --- what authors of queries get wrong ------------------------------------------------------------


def asking(make, X=((0.0,), (1.0,)), **privacy):
    """Return a session on a small table, and what is asked of it."""
    session = core.open_session(check_rows(np.array(X), estimator="T"), estimator="T", **privacy)
    return session, make


@dataclass(frozen=True, eq=False)
class Fractions(core.Query):
    """A query whose statistic is no integer: noise on integers would leave its fraction bare."""

    kind: str

    def exact(self, table):
        first = next(iter(table.rows.chunks()))[0, 0]
        if self.kind == "raises":
            raise ArithmeticError
        return {
            "float": np.array([first]),
            "objects": np.array([float(first)], dtype=object),
            "bool": np.array([True]),
            "list": [1],
        }[self.kind]

    def sensitivity(self, relation):
        return core.Independent(1, 1)

    def decoded(self, noisy):
        return noisy.values


core.register_query(Fractions)


@pytest.mark.parametrize("kind", ["float", "objects", "bool", "list", "raises"])
def test_what_is_no_integer_is_refused_and_paid_for(kind):
    """Whether it is may depend on a row: who tries again must not learn it for nothing."""
    session, query = asking(Fractions(kind), epsilon=1.0)
    with session:
        with pytest.raises((TypeError, ArithmeticError)):
            session.answer(query, 0.25)
        assert session.remaining == Fraction(3, 4)
        with pytest.raises(PrivacyLeakError):  # before any row is read
            session.answer(query, 0.8)
        assert session.remaining == Fraction(3, 4)


def test_an_unreviewed_answer_has_one_type_of_number():
    """That int64 holds exact and noisy values would tell of the exact ones."""

    @core.register_query
    @dataclass(frozen=True, eq=False)
    class Ones(Fractions):
        kind: str = ""

        def exact(self, table):
            return np.array([1])

    session, query = asking(Ones(), epsilon=1.0)
    with session:
        assert session.answer(query).dtype == object


def test_a_matrix_shows_one_side_of_its_diagonal():
    """The noise of both sides is the same: what differs there would be exact."""

    @core.register_query
    @dataclass(frozen=True, eq=False)
    class Lopsided(core.Query):
        def exact(self, table):
            return np.array([[0, 5], [9, 0]])

        def sensitivity(self, relation):
            return Symmetric(9, 9, 9, "wishart")

        def decoded(self, noisy):
            return noisy.values

    session, query = asking(Lopsided(), epsilon=1.0)
    with session:
        released = session.answer(query)
        assert released[0, 1] == released[1, 0]


@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint8])
def test_numbers_of_numpy_do_not_wrap_in_a_sensitivity(integer):
    term = KeyTerm("sum", "v", 0.0, 1.0)
    ours, theirs = (unit_sum(KeyTotals(("a",), (term,), 0, 1, r)) for r in (200, integer(200)))
    assert ours.sensitivity("replace_one") == theirs.sensitivity("replace_one")
    assert type(theirs.image.max_rows) is int
    most = [rows_beyond(1, r).sensitivity("replace_one") for r in (200, integer(200))]
    assert most[0] == most[1]
    views = [ScaledBox([0.0] * 9, [1.0] * 9, bits=b) for b in (30, integer(30))]
    assert views[0].norm == views[1].norm
    assert type(views[1].norm) is int


@each(
    "make",
    [
        lambda: row_counts(Grid((np.array([0.0, 2.0, 1.0]),)), "histogram"),
        lambda: row_counts(Grid((np.array([[0.0, 1.0]]),)), "histogram"),
        lambda: ColumnCells((np.array([1.0, 0.0]),)).codes(np.zeros((2, 1))),
        lambda: ThresholdTable(np.array([1.0, 0.0]), 1),
        lambda: unit_sum(UnitSpread("v", (1.0, 0.0))),
        lambda: KeyTerm("bins", "v", 0.0, 1.0, edges=(1.0, 0.0)),
    ],
    ids=["edges", "two dimensions", "cuts", "grid", "spread", "terms"],
)
def test_edges_that_descend_are_refused(make):
    """A search among them begins where that of the row before has ended."""
    with pytest.raises(ValueError, match="ascending"):
        session, query = asking(make(), epsilon=1.0)
        with session:
            session.answer(query)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_bounds_that_are_not_finite_are_refused(value):
    term = KeyTerm("sum", "v", *sorted((0.0, value)))
    with pytest.raises(ValueError, match="finite"):
        KeyTotals(("a",), (term,), 0, 1, 1)
    totals = KeyTotals(("a",), (KeyTerm("sum", "v"),), 0, 1, 1)
    object.__setattr__(totals, "terms", (term,))
    session, query = asking(unit_sum(totals), epsilon=1.0)
    with session, pytest.raises(ValueError, match="finite"):
        session.answer(query)
    assert session.remaining == 1


@each(
    "make",
    [
        lambda: Ball(np.zeros((2, 1)), 1.0),
        lambda: Ball(np.zeros(8193), 1.0),
        lambda: Ball([0.0], 1.0, bits=31),
        lambda: ScaledBox(np.zeros((2, 1)), np.ones((2, 1))),
        lambda: ScaledBox([0.0], [1.0, 2.0]),
        lambda: ScaledBox([0.0], [1.0], bits=32),
        lambda: Box(np.zeros((2, 1)), np.ones((2, 1))),
        lambda: Projection(Box([-1e300], [1e300]), [[1.0]], 1e-20),
    ],
)
def test_maps_whose_bound_would_not_hold_are_refused(make):
    with pytest.raises(ValueError, match=r"must|at most|one number"):
        make()


def test_a_center_is_one_point():
    for shape in ((2, 1), (1,)):
        with pytest.raises(ValueError, match="center"):
            query = row_counts(NormBins(np.zeros(shape)), "norm histogram")
            session, query = asking(query, X=np.zeros((2, 2)), epsilon=1.0)
            with session:
                session.answer(query)


def test_how_many_units_have_rows_is_private():
    """Under replace-one, too: all rows of a unit may be replaced by none."""
    table = {"k": ["a", "a", "b"], "u": [1, 2, 3], "v": [0.0, 1.0, 2.0]}
    rows = check_grouped(pd.DataFrame(table), by=["k"], unit="u", columns=["v"])
    budget = PrivacyBudget(1.0, unit="u")
    with core.open_session(rows, estimator="T", epsilon=1.0, budget=budget) as session:
        with pytest.raises(PrivacyLeakError, match="private"):
            session.n_rows  # noqa: B018
        assert session.row_count(0.5).std > 0


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: StandardBall([0.0], [2.0], np.zeros((2, 1)), [1.0], 1.0), "one number"),
        (lambda: StandardBall([0.0], [2.0], [0.0, 1.0], [1.0], 1.0), "as many"),
        (lambda: StandardBall([0.0], [2.0], [0.0], [1.0], 1.0, bits=31), "bits"),
        (lambda: ColumnBox([0.0], [1.0], [0.5], bits=48), "bits"),
    ],
)
def test_other_maps_whose_bound_would_not_hold_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_a_wrong_shape_tells_the_number_of_rows_to_nobody_who_has_not_paid():
    """Shapes that fit a chunk by chance: an offset for each row, of as many rows as there are."""
    for k in (1, 2, 3):
        query = logistic_gradient(Box([0.0], [2.0]), 0.5, np.zeros((1, 2)), np.zeros(1), 1.0)
        # Behind the back of the check where queries are built.
        object.__setattr__(query.image, "offset", np.zeros((k, 1)))
        session, query = asking(query, epsilon=1.0)
        with session:
            with pytest.raises(ValueError, match="offset must be a number"):
                session.answer(query, 0.25)
            assert session.remaining == 1


def test_an_infinite_centre_is_refused():
    """Infinity less infinity is no number, which no limit would stop."""
    query = AssignedSums(Box([0.0], [1.0]), np.array([[np.inf]]), 1e-6, units=np.array([0.0]))
    session, query = asking(query, epsilon=1.0)
    with session, pytest.raises(ValueError, match="finite"):
        session.answer(query)


def test_unsigned_integers_are_added_up_exactly():
    """NumPy makes floats of unsigned and signed integers: what is exact would be rounded first."""

    @core.register_query
    @dataclass(frozen=True, eq=False)
    class Large(core.Query):
        def exact(self, table):
            return np.array([2**60 + 119], dtype=np.uint64)

        def sensitivity(self, relation):
            return core.Independent(1, 1)

        def decoded(self, noisy):
            return noisy.values

    session, query = asking(Large(), epsilon=1e9)
    with session:
        assert session.answer(query).tolist() == [2**60 + 119]
