"""The narrow waist: sessions answer registered queries, and nothing that states a sensitivity."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from skdp import PrivacyBudget, kernel
from skdp.kernel.query import check_query, owned

X = np.linspace(-1, 1, 40).reshape(20, 2)


def open_session(budget=None):
    rows = kernel.check_rows(X, estimator="T")
    return kernel.open_session(rows, estimator="T", epsilon=1.0, budget=budget)


class HomeMadeBox(kernel.Box):
    """Says that rows are bounded, and does not clip them."""

    def map(self, block):
        return block


@dataclass(frozen=True, eq=False)
class ExactSum(kernel.Query):
    """A query of somebody else, with a sensitivity that nobody checked."""

    factor: float = 1.0

    def exact(self, table):
        (total,) = table.fold(
            lambda block, totals: totals.__setitem__(0, totals[0] + len(block)), lambda: [0]
        )
        return np.array([round(self.factor * total)])

    def sensitivity(self, relation):
        return kernel.Independent(1, 1)

    def decoded(self, noisy):
        return float(noisy.values[0])


@dataclass(frozen=True, eq=False)
class RegisteredSum(ExactSum):
    pass


kernel.register_query(RegisteredSum)


def test_what_is_not_registered_is_refused_and_costs_nothing():
    session = open_session()
    for query in (ExactSum(), object(), X.sum(axis=0), 3, lambda table: 0, kernel.Sum):
        with pytest.raises(TypeError, match="a session answers the queries of skdp"):
            session.answer(query)
    assert session.rest == 1


def test_a_query_holds_registered_maps_of_rows_only():
    session = open_session()
    box = kernel.Box([-1, -1], [1, 1])
    object.__setattr__(box, "map", lambda block: block)
    wrong = (
        HomeMadeBox([-1, -1], [1, 1]),
        box,
        kernel.Projection(HomeMadeBox([-1, -1], [1, 1]), np.eye(2), 1.0),
    )
    for view in wrong:
        for query in (kernel.Sum(view), kernel.Mean(view)):
            with pytest.raises(TypeError, match="must be made of numbers, texts, arrays and types"):
                session.answer(query)
    with pytest.raises(TypeError, match="edges of EdgeHistogram"):
        session.answer(kernel.EdgeHistogram((np.array([0, 1], dtype=object),)))
    assert session.rest == 1


def test_a_subclass_of_a_query_is_another_query():
    class Tight(kernel.Sum):
        def sensitivity(self, relation):
            return kernel.Spherical(1)

    with pytest.raises(TypeError, match="got Tight"):
        open_session().answer(Tight(kernel.Box([-1, -1], [1, 1])))


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
        session.answer(kernel.Sum(session.box(-1, 1)), name="reviewed sum")
        certificate = session.certificate()
    theirs, ours = certificate.releases
    assert (theirs.reviewed, ours.reviewed) == (False, True)
    assert theirs.query.endswith("RegisteredSum")
    assert ours.query == "skdp.kernel.sums.Sum"
    assert certificate._repr_html_().count("unreviewed query") == 1
    assert json.loads(certificate.to_json())["releases"][0]["reviewed"] is False
    (charge,) = budget.charges
    assert [one.get("reviewed", True) for one in charge.releases] == [False, True]


class Both(RegisteredSum, kernel.Measurement):
    """Would be handed the session that answers it."""


@pytest.mark.parametrize("kind", [int, kernel.Query, type("Loose", (kernel.Query,), {}), Both])
def test_what_is_no_complete_query_is_not_registered(kind):
    with pytest.raises(TypeError, match="a query must be a frozen dataclass"):
        kernel.register_query(kind)


def test_a_query_of_skdp_cannot_be_made_a_strangers():
    kernel.register_query(kernel.Sum)
    assert check_query(kernel.Sum(kernel.Box([0], [1]))) is kernel.Sum
    with open_session() as session:
        session.answer(kernel.Sum(session.box(-1, 1)))
        assert session.certificate().releases[0].reviewed


def test_a_bound_cannot_be_changed_once_it_is_made():
    box = kernel.Box([-1, -1], [1, 1])
    with pytest.raises(AttributeError, match="cannot be changed"):
        box.norm = 1
    with pytest.raises(ValueError, match="read-only"):
        box.half[:] = 1
    assert kernel.Box([-1, -1], [1, 1]).norm == box.norm


def test_a_radius_below_zero_and_another_number_of_columns_are_refused():
    for radius in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="radius must be"):
            kernel.Ball([0.0, 0.0], radius)
    with pytest.raises(ValueError, match="radius must be"):
        kernel.Projection(kernel.Box([-1, -1], [1, 1]), np.eye(2), [1.0, -1.0])
    for across in (False, True):
        view = kernel.sum_view(0, 100, 1, across=across)
        with pytest.raises(ValueError, match="bounds are for 1 columns, the rows have 2"):
            open_session().answer(kernel.Sum(view))
    with pytest.raises(ValueError, match="at most 2\\*\\*30 steps"):
        open_session().answer(kernel.SmoothMedian(kernel.Box([-1, -1], [1, 1], bits=31)))


def test_a_registered_type_is_no_part_of_a_reviewed_query():
    @dataclass(frozen=True, eq=False)
    class View(ExactSum):
        norm: int = 1

        def at(self, bits):
            return self

        def map(self, block):
            return block

    kernel.register_query(View)
    with pytest.raises(TypeError, match="view of Sum must be made of"):
        open_session().answer(kernel.Sum(View()))


def test_a_query_is_answered_as_it_was_asked():
    """Arrays that the caller changes while rows are read decide about nothing."""
    low, high = np.zeros(2), np.ones(2)
    query = kernel.LabelSums(low, high, 1)
    mine = owned(query)
    low[:] = -9
    assert mine.low.tolist() == [0, 0] and not mine.low.flags.writeable
