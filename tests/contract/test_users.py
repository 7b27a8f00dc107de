"""The contract for users: a unit is all rows of one id, under both relations.

Tables differ in every row of one user, who may have a handful of them, ten thousand, or all. The
bounded table is coupled (both fits keep the same rows of the others), which is how the proof goes,
so exact statistics are compared as for single rows. What bounds users is then broken on purpose.

False alarms: fits are seeded, so a result repeats itself; of the one statistical audit, 2e-6.
"""

from __future__ import annotations

import inspect
import itertools
import uuid
import zlib

import numpy as np
import pytest
from calls import CALLS, Called
from cases import RELATIONS, Case, make, rows
from estimators import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from neighbours import D, values
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from test_complete import estimators
from toys import OneRelease, Toy
from worst_queries import BOTH, CORNERS, QUERIES, laplace_pair, release_case

from skdp import statistics
from skdp.audit import audit, neighbour_check, replay_check
from skdp.budget import PrivacyBudget
from skdp.core import Box, Mean, RowSum, Sum, units
from skdp.core.query import moved_by
from skdp.core.table import Stability
from skdp.core.transcript import record
from skdp.queries import moments
from skdp.tabular import check_units
from tests.folding import each

UNIT = "user_id"
DELTAS = (0.0, 1e-5)
USERS = [
    *CASES,
    *(call for call in CALLS if call.name != "statistics.mst_cost"),
]


def of_users(case, delta, relation, most):
    estimator = make(case, delta, relation, unit=UNIT)
    names = [p for p in estimator.get_params() if p.endswith("max_rows_per_unit")]
    return estimator.set_params(**dict.fromkeys(names, most))


def ids(n, seed=0):
    """Return ids of n rows of ten users or so, interleaved."""
    return np.random.default_rng(seed).integers(0, 10, n)


def one_user_away(X, users, relation, rng, many):
    """Return (X', users'): all rows of user 3 are replaced by others, or removed."""
    own = users == 3
    others = X[~own], users[~own]
    if relation == "add_or_remove_one":
        return others
    new = np.sign(rng.normal(size=(many, X.shape[1])))
    places = np.sort(rng.integers(0, len(others[0]) + 1, many))
    return np.insert(others[0], places, new, axis=0), np.insert(others[1], places, 3)


# --- every estimator and function ---------------------------------------------------------------


def test_every_fit_takes_groups_and_every_estimator_rows_a_unit():
    for cls in estimators():
        if cls.__name__ == "Encoder":  # which two others inherit
            continue
        fit = inspect.signature(cls.fit).parameters
        assert fit["groups"].kind is inspect.Parameter.KEYWORD_ONLY, cls
        assert inspect.signature(cls).parameters["max_rows_per_unit"].default == "private", cls
        assert hasattr(cls, "set_fit_request"), cls


def two_pairs():
    """Return (case, delta, relation): one pair by the case's name, and the opposite one in CI.

    Both deltas and both relations of each case; of each query, which many cases ask, all pairs.
    """
    found = []
    for case in USERS:
        turn = zlib.crc32(case.name.encode())
        for other, mark in ((0, ()), (1, pytest.mark.ci)):
            delta, relation = DELTAS[turn + other & 1], RELATIONS[(turn >> 1) + other & 1]
            name = f"{case.name}-opposite" if other else case.name
            found.append(pytest.param(case, delta, relation, id=name, marks=mark))
    return found


of_two_pairs = pytest.mark.parametrize(("case", "delta", "relation"), two_pairs())


@of_two_pairs
def test_one_user_moves_no_statistic_further_than_declared(case, delta, relation):
    """The user has a third of all rows, or as many as the others have together."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    for most, many in ((2, 9), ("private", 40)):
        X, users = np.clip(rows(30, case.n_features, 1), -2, 2), ids(30)
        users[::3] = 3
        X[users == 3] = np.sign(X[users == 3])
        other, users_other = one_user_away(X, users, relation, rng, many)
        found = pair_check(
            of_users(case, delta, relation, most), case, X, users, other, users_other
        )
        assert found or case.name == "minmax_scaler_stated"  # it releases nothing
        if found and most == "private" and "search" not in case.name:  # its runs choose
            assert found[0].name == "rows per unit"


def pair_check(estimator, case, X, users, other, users_other):
    (X, y), (other, y_other) = case.table(X), case.table(other, len(X) != len(other))
    return neighbour_check(
        estimator, X, other, y=y, y_neighbour=y_other,
        groups=spread(users, y, case), groups_neighbour=spread(users_other, y_other, case),
    )  # fmt: skip


def spread(users, y, case):
    """Return ids for both samples of a table: public rows have one of their own."""
    if not case.samples:
        return users
    found = np.full(len(y), -1)
    found[y == 1] = users
    return found


@of_two_pairs
def test_a_fit_is_a_function_of_its_releases(case, delta, relation):
    X, users = rows(40, case.n_features, 2), ids(40)
    other, users_other = 3 * rows(55, case.n_features, 3), ids(55, 1) % 4
    (X, y), (other, y_other) = case.table(X), case.table(other, 1)
    estimator = of_users(case, delta, relation, "private")
    if case.samples:  # the same public rows in the same order, and y is private here
        y_other = np.asarray(y_other)
    replay_check(
        estimator, X, other, y=y, y_other=y_other,
        groups=spread(users, y, case), groups_other=spread(users_other, y_other, case),
        X_public=rows(8, case.n_features, 4),
    )  # fmt: skip


# --- refusals come before the charge ------------------------------------------------------------


@each("case", USERS, ids=lambda c: c.name)
def test_a_fit_of_another_unit_is_refused_before_the_charge(case):
    import pandas as pd

    X, y = case.table(rows(12, case.n_features, 0))
    arguments = (X,) if y is None else (X, y)
    users = np.arange(len(X)) % 5
    for unit, groups, text in (
        (UNIT, None, "no groups= say to whom"),
        (None, users, "the budget protects one row"),
        (UNIT, pd.Series(users, name="visit_id"), "groups are named 'visit_id'"),
    ):
        budget = PrivacyBudget(1e6, 0.5, adjacency="add_or_remove_one", unit=unit)
        estimator = case.make(epsilon=1.0, delta=0.0, budget=budget, random_state=None)
        if isinstance(estimator, Pipeline):
            names = [name for name, _ in estimator.steps]
            more = {} if groups is None else {f"{name}__groups": groups for name in names}
        else:
            more = {} if groups is None else {"groups": groups}
        before = dict(vars(estimator))
        with pytest.raises(ValueError, match=text):
            estimator.fit(*arguments, **more)
        assert budget.spent.epsilon == 0
        assert set(vars(estimator)) == set(before)


@each("case", USERS, ids=lambda c: c.name)
def test_no_expected_error_is_told_for_a_budget_of_users(case):
    X, y = case.table(rows(40, case.n_features, 0))
    budget = PrivacyBudget(1e6, 0.5, adjacency="add_or_remove_one", unit=UNIT)
    estimator = case.make(epsilon=1.0, delta=1e-5, budget=budget, random_state=None)
    if not hasattr(estimator, "expected_error"):
        return
    asked = inspect.signature(estimator.expected_error).parameters
    given = {
        "n_samples": 40,
        "n_features": X.shape[1],
        "like": X if y is None else (X, y),
        "X_public": X,
    }
    with pytest.raises(ValueError, match="no expected error"):
        estimator.expected_error(**{name: given[name] for name in given if name in asked})
    assert budget.spent.epsilon == 0


def test_no_expected_error_of_a_function_is_told_for_a_budget_of_users():
    budget = PrivacyBudget(1.0, unit=UNIT)
    for asked in ({"budget": budget}, {"groups": [1, 2]}):
        with pytest.raises(ValueError, match=r"no expected error|that of single rows"):
            statistics.expected_error("mean", 100, bounds=(0, 1), **asked)
    assert budget.spent.epsilon == 0


def test_mst_cost_protects_an_edge():
    budget = PrivacyBudget(1.0, unit=UNIT)
    with pytest.raises(ValueError, match="no unit for mst_cost"):
        statistics.mst_cost(2, [[0, 1]], [1.0], 2.0, budget=budget)
    assert budget.spent.epsilon == 0


# --- rows that are left out -----------------------------------------------------------------------


def left_out(X, *, groups, max_rows_per_unit, **privacy):
    return statistics.rows_left_out(groups, max_rows_per_unit, at_most=5, **privacy)


def of_rows_left_out(relation, delta, most):
    budget = PrivacyBudget(9.0, 0.5, adjacency=relation, unit=UNIT)
    return Called(left_out, delta=delta, max_rows_per_unit=most, budget=budget)


def with_one_more(rest, many):
    """Return (X, users) in which user "u" has so many rows among others', interleaved."""
    users = np.array([*np.repeat([f"other {i}" for i in range(20)], rest), *["u"] * many])
    users = np.random.default_rng(0).permutation(users)
    return np.zeros((len(users), 1)), users


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_number_of_rows_that_are_left_out_is_private(delta, relation):
    """Of one user with 10,000 rows five count; others have none, few or as many beyond."""
    moves = []
    for first, second, rest in ((10_000, 1, 4), (10_000, 0, 4), (0, 3, 9), (6, 4, 1)):
        (X, users), (other, users_other) = with_one_more(rest, first), with_one_more(rest, second)
        if relation == "add_or_remove_one" and min(first, second):
            other, users_other = X[users != "u"], users[users != "u"]
        ((name, distance, sensitivity),) = neighbour_check(
            of_rows_left_out(relation, delta, 3),
            X,
            other,
            groups=users,
            groups_neighbour=users_other,
        )
        assert name == "rows left out"
        assert sensitivity == pytest.approx(5)
        moves.append(distance)
    assert max(moves) == 5
    replay_check(of_rows_left_out(relation, delta, 3), X, other, groups=users,
                 groups_other=users_other)  # fmt: skip


def test_rows_left_out_that_are_not_bounded_are_found(monkeypatch):
    """`rows_beyond(3, 5)` without its bound on one user."""
    (X, users), (other, users_other) = with_one_more(4, 10_000), with_one_more(4, 0)
    monkeypatch.setattr(
        "skdp.queries.images.Beyond.blocks",
        lambda q, x, labels, cells: iter([np.maximum(x - q.max_rows, 0.0)]),
    )
    with pytest.raises(AssertionError, match="moved further"):
        neighbour_check(of_rows_left_out("add_or_remove_one", 0.0, 3), X, other, groups=users,
                        groups_neighbour=users_other)  # fmt: skip


def test_rows_left_out_are_those_that_a_fit_leaves_out():
    g = np.random.default_rng(0)
    users = g.permutation(np.repeat(np.arange(200), g.integers(1, 9, 200)))
    for relation, delta in itertools.product(RELATIONS, DELTAS):
        budget = PrivacyBudget(9e4, 0.5, adjacency=relation, unit=UNIT)
        options = {"epsilon": 1e4, "delta": delta, "budget": budget}
        kept = statistics.count(users, groups=users, max_rows_per_unit=3, **options)
        found = statistics.rows_left_out(users, 3, at_most=8, **options)
        assert abs(float(kept) + float(found) - users.size) <= 1
        assert found.privacy.unit == UNIT
        few = statistics.rows_left_out(users, 3, at_most=1, **options)
        beyond = np.bincount(users) > 3
        assert abs(float(few) - beyond.sum()) <= 1


@pytest.mark.parametrize(
    ("groups", "most", "error", "text"),
    [
        (None, 3, TypeError, "groups must be ids"),
        ([1, None], 3, ValueError, "some ids are missing"),
        ([1, 2], 0, ValueError, "max_rows_per_unit must be an integer of at least 1"),
        ([1, 2], "private", TypeError, "max_rows_per_unit must be an integer of at least 1"),
        ([[1], [2]], 3, ValueError, "some ids are missing"),
    ],
)
def test_rows_left_out_of_what_is_none_are_refused_before_the_charge(groups, most, error, text):
    budget = PrivacyBudget(1.0, unit=UNIT)
    with pytest.raises(error, match=text):
        statistics.rows_left_out(groups, most, budget=budget)
    rows = PrivacyBudget(1.0)
    with pytest.raises(ValueError, match="the budget protects one row"):
        statistics.rows_left_out([1, 2], 3, budget=rows)
    assert budget.spent.epsilon == rows.spent.epsilon == 0


# --- every query ---------------------------------------------------------------------------------


@each("query", QUERIES, ids=lambda query: query[0])
def test_every_query_holds_for_users(query):
    """On its worst pair of rows, which all three rows of a user are; two of them count."""
    name, ask, deltas, relations, pair, _ = query
    for delta, relation in itertools.product(deltas, RELATIONS):
        if "gradient" in name and relation not in relations:
            continue  # asked of public numbers of rows only
        first, second = laplace_pair() if pair is None else pair
        second = first if second is None else second
        others = np.zeros((2, D))
        X = np.vstack([others, *[first] * 3])
        other = np.vstack([others, *[second] * 3]) if relation == "replace_one" else others
        users = np.array(["a", "b", "u", "u", "u"])
        estimator = release_case(name, ask, relation, delta)
        budget = PrivacyBudget(9.0, 0.5, adjacency=relation, unit=UNIT)
        estimator.set_params(max_rows_per_unit=2, budget=budget)
        found = neighbour_check(
            estimator, X, other, groups=users, groups_neighbour=users[: len(other)]
        )
        assert found


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", BOTH)
def test_the_sensitivity_of_a_sum_is_attained(delta, relation):
    """Three rows of a user count, all at a corner; then they are at the opposite one, or gone."""
    ask = lambda s: s.answer(Sum(Box(-np.ones(D), np.ones(D)))).value  # noqa: E731
    first, second = CORNERS
    X = np.vstack([np.zeros((2, D)), *[first] * 10])
    other = np.vstack([np.zeros((2, D)), *[second] * 10]) if relation == "replace_one" else X[:2]
    users = ["a", "b", *["u"] * 10]
    budget = PrivacyBudget(9.0, 0.5, adjacency=relation, unit=UNIT)
    estimator = OneRelease(ask, delta=delta, max_rows_per_unit=3, budget=budget)
    ((_, distance, sensitivity),) = neighbour_check(
        estimator, X, other, groups=users, groups_neighbour=users[: len(other)]
    )
    assert 0.99 * sensitivity <= distance <= sensitivity


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_sensitivity_of_a_mean_is_attained_with_its_count(relation):
    """Users at a corner go to the opposite one, or have no row any more, which moves as far."""
    box = -np.ones(D), np.ones(D)
    X = np.vstack([np.zeros((2, D)), *[np.ones(D)] * 10])
    users = np.array(["a", "b", *["u"] * 10])
    others = [(X[:2], users[:2])]
    if relation == "replace_one":
        others.append((np.vstack([X[:2], -X[2:]]), users))
    asked = (Mean(Box(*box)), moments(*box), Mean(Box(*box), count_error=True))
    for query, delta, (other, users_other) in itertools.product(asked, BOTH, others):
        budget = PrivacyBudget(9.0, 0.5, adjacency=relation, unit=UNIT)
        estimator = OneRelease(
            lambda s, query=query: np.size(s.answer(query)),
            delta=delta, max_rows_per_unit=3, budget=budget,
        )  # fmt: skip
        ((_, distance, sensitivity),) = neighbour_check(
            estimator, X, other, groups=users, groups_neighbour=users_other
        )
        assert 0.99 * sensitivity <= distance <= sensitivity


# --- drawn users ---------------------------------------------------------------------------------

cells = st.lists(values, min_size=1, max_size=1)
kinds = [
    lambda i: i,
    str,
    lambda i: f"user {i}".encode(),
    float,
    lambda i: uuid.UUID(int=i),
    lambda i: np.datetime64("2020-01-01") + i,
    lambda i: [True, 1, "1", 2.5, 0][i % 5],  # True and 1 are one user
]


@st.composite
def drawn(draw):
    """Draw (X, users, X', users'): one user's rows replaced by another number of rows."""
    n = draw(st.integers(0, 8))
    X = [draw(cells) for _ in range(n)]
    users = [draw(st.integers(0, 3)) for _ in range(n)]
    many = draw(st.integers(0, 6))
    kept = [i for i in range(n) if users[i] != 2]
    other, users_other = [X[i] for i in kept], [users[i] for i in kept]
    for _ in range(many):
        place = draw(st.integers(0, len(other)))
        other.insert(place, draw(cells))
        users_other.insert(place, 2)
    kind = draw(st.sampled_from(kinds))
    return (
        np.array(X).reshape(-1, 1), [kind(i) for i in users],
        np.array(other).reshape(-1, 1), [kind(i) for i in users_other],
    )  # fmt: skip


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(drawn(), st.sampled_from(DELTAS), st.integers(1, 4))
def test_drawn_users_replaced(tables, delta, most):
    X, users, other, users_other = tables
    for case in (Case("toy", Toy), Case("sum", lambda **p: OneRelease(several, **p))):
        estimator = of_users(case, delta, "replace_one", most)
        neighbour_check(estimator, X, other, groups=users, groups_neighbour=users_other)


def several(session):
    """Ask queries of all three kinds: tight, per step and a choice."""
    from skdp.queries import Grid, Quantiles, row_counts

    box = Box([-1.0], [1.0])
    return (
        session.answer(Mean(box), 0.3).value,
        session.answer(row_counts(Grid((np.array([-1.0, 0.0, 1.0]),)), "histogram"), 0.3).value,
        session.answer(Quantiles(box, 0.5), 0.4).value,
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_user_of_ten_thousand_rows(relation):
    """Beside two hundred others, and alone: all rows are one user's."""
    rng = np.random.default_rng(0)
    for others in (200, 0):
        X = np.r_[np.ones((10_000, 1)), -np.ones((others, 1))]
        users = np.r_[np.full(10_000, 7), np.arange(1000, 1000 + others)]
        order = rng.permutation(len(X))
        X, users = X[order], users[order]
        rest = users != 7
        other, users_other = X[rest], users[rest]
        if relation == "replace_one":
            other = np.r_[other, [[-1.0]]]
            users_other = np.r_[users_other, 7]
        for most in ("private", 1, 50):
            estimator = of_users(Case("toy", Toy), 0.0, relation, most)
            neighbour_check(estimator, X, other, groups=users, groups_neighbour=users_other)


# --- broken on purpose ----------------------------------------------------------------------------


def unbounded(units_of, most, key):
    return np.arange(units_of.codes.size)


def one_more(units_of, most, key):
    return kept_rows(units_of, most + 1, key)


def by_place(units_of, most, key):
    """Keep rows by tickets of their places, which another user's rows shift."""
    generator = np.random.default_rng(0)
    tickets = generator.random(units_of.codes.size)
    order = np.lexsort((tickets, units_of.codes))
    codes = units_of.codes[order]
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    place = np.arange(codes.size) - np.repeat(starts, np.diff(np.r_[starts, codes.size]))
    return np.sort(order[place < most])


kept_rows = units.kept_rows


def broken_pair(relation):
    rng = np.random.default_rng(1)
    X = np.sign(rng.normal(size=(60, 1)))
    users = np.repeat(np.arange(6), 10)
    X[users == 3] = 1.0
    own = users == 3
    if relation == "replace_one":
        other = X.copy()
        other[own] = -1.0
        return X, users, other, users
    return X, users, X[~own], users[~own]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("broken", [unbounded, one_more])
def test_users_that_are_not_bounded_are_found(monkeypatch, relation, broken):
    monkeypatch.setattr(units, "kept_rows", broken)
    X, users, other, users_other = broken_pair(relation)
    estimator = of_users(Case("toy", Toy), 0.0, relation, 4)
    with pytest.raises(AssertionError, match="moved further"):
        neighbour_check(estimator, X, other, groups=users, groups_neighbour=users_other)


def test_tickets_that_depend_on_other_users_are_found(monkeypatch):
    monkeypatch.setattr(units, "kept_rows", by_place)
    X, users, other, users_other = broken_pair("add_or_remove_one")
    estimator = of_users(Case("toy", Toy), 0.0, "add_or_remove_one", 1)
    with pytest.raises(AssertionError, match="moved further"):
        neighbour_check(estimator, X, other, groups=users, groups_neighbour=users_other)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_stability_of_one_row_is_found(monkeypatch, relation):
    true = units.bound_units

    def unstable(table, units_of, most, relation, key):
        made = true(table, units_of, most, relation, key)
        few = Stability(1, 1) if relation == "replace_one" else Stability(0, 1)
        return type(made)(made.rows, few)

    monkeypatch.setattr("skdp.core.session.bound_units", unstable)
    X, users, other, users_other = broken_pair(relation)
    estimator = of_users(Case("toy", Toy), 0.0, relation, 4)
    with pytest.raises(AssertionError, match="moved further"):
        neighbour_check(estimator, X, other, groups=users, groups_neighbour=users_other)


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_claim_holds_for_users_and_a_fit_that_forgets_bounding_is_caught(monkeypatch, relation):
    """A user of 10 rows out of 12; every run draws its own rows. False alarms: 2e-6."""
    X = np.r_[np.ones((10, 1)), [[-1.0], [-1.0]]]
    users = np.r_[np.full(10, 5), [1, 2]]
    other = -np.ones((12, 1)) if relation == "replace_one" else X[10:]
    estimator = Toy(
        epsilon=1.5,
        max_rows_per_unit=2,
        budget=PrivacyBudget(1.0, adjacency=relation, unit=UNIT),
    )
    options = {
        "groups": users, "groups_neighbour": users if relation == "replace_one" else users[10:],
        "n_runs": 600, "confidence": 1 - 1e-6, "random_state": 0,
    }  # fmt: skip
    result = audit(clone(estimator), X, other, "mean_", **options)
    assert result.passed
    assert result.epsilon_lower > 0.2  # the audit sees the user
    monkeypatch.setattr(units, "kept_rows", unbounded)
    assert audit(clone(estimator), X, other, "mean_", **options).refuted


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_error_of_a_mean_of_users_is_that_about_the_rows_that_count(relation):
    """Squares of errors over standard errors, 400 fits: 1 but for 0.4, 5.6 standard errors.

    Users of many rows have other values than the others, so that of all rows would be far off.
    """
    rng = np.random.default_rng(3)
    users = np.r_[np.repeat(np.arange(10), 100), np.arange(10, 400)]
    X = np.where(users < 10, 0.8, -0.3) + 0.1 * rng.normal(size=len(users))
    kept = kept_rows(check_units(users, len(users), estimator="test"), 5, b"audited")
    truth = np.clip(X[kept], -1, 1).mean()
    budget = PrivacyBudget(1e9, 0.5, adjacency=relation, unit=UNIT)
    squares = []
    for _ in range(400):
        with record():  # in which the same rows are kept in every fit
            answer = statistics.mean(
                X, bounds=(-1, 1), groups=users, max_rows_per_unit=5, epsilon=2.0, delta=1e-6,
                budget=budget,
            )  # fmt: skip
        squares.append(((float(answer) - truth) / float(answer.std)) ** 2)
    assert abs(np.mean(squares) - 1) < 0.4
    assert abs(np.clip(X, -1, 1).mean() - truth) > 5 * float(answer.std)


def test_moved_by_counts_replaced_rows_and_others():
    for relation, size in (("replace_one", 2 * 5), ("add_or_remove_one", 5)):
        stability = Stability(5 if relation == "replace_one" else 0, 5)
        view = Box([-1.0], [1.0])
        one = Sum(view).sensitivity("add_or_remove_one").l2
        assert moved_by(RowSum, Sum(view), stability).l2 == size * one


RELEASING = [case for case in USERS if case.name != "minmax_scaler_stated"]


@each("case", RELEASING, ids=lambda c: c.name)
def test_bad_ids_are_refused_before_the_charge_and_not_quoted(case):
    X, y = case.table(rows(12, case.n_features, 0))
    arguments = (X,) if y is None else (X, y)
    secret = "alice@example.org"
    good = [secret] * (len(X) - 1)
    budget = PrivacyBudget(1e6, 0.5, adjacency="replace_one", unit=UNIT)
    estimator = case.make(epsilon=1.0, delta=0.0, budget=budget, random_state=None)
    names = [name for name, _ in getattr(estimator, "steps", ())]
    for groups in (good, [*good, None], [*good, [secret]], [[one, one] for one in [*good, secret]]):
        more = {f"{name}__groups": groups for name in names} if names else {"groups": groups}
        with pytest.raises((TypeError, ValueError), match="groups must") as caught:
            estimator.fit(*arguments, **more)
        assert secret not in str(caught.value)
        assert budget.spent.epsilon == 0
