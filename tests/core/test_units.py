"""Rows of units: which are kept, how many, and what the choice of a bound may lose.

False alarms: of the one statistical test 1e-7; its seed is fixed.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skdp.budget import PrivacyBudget
from skdp.core import Unit, open_session, units
from skdp.core.privacy_filter import PrivacyFilter
from skdp.core.query import moved_by
from skdp.core.transcript import record
from skdp.tabular import Units, check_rows, check_units


def of(ids):
    return check_units(ids, len(ids), estimator="test")


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_no_unit_has_more_rows_and_none_with_fewer_loses_any(most):
    ids = np.random.default_rng(0).zipf(1.5, 3000) % 50
    kept = units.kept_rows(of(ids), most, None)
    before, after = np.bincount(ids, minlength=50), np.bincount(ids[kept], minlength=50)
    assert np.array_equal(after, np.minimum(before, most))
    assert np.all(np.diff(kept) > 0)


def test_ties_keep_no_row_more():
    """All tickets are equal where all words of all streams are."""
    codes = np.zeros(100, dtype=np.int64)
    for word in (0, 2**64 - 1):
        one = Units(codes, np.array([word], dtype=np.uint64))
        assert units.kept_rows(one, 3, b"").size == 3
    # A multiplier of 0 gives every row of a unit the same ticket.
    saved, units._GAMMA = units._GAMMA, np.uint64(0)
    try:
        assert units.kept_rows(of(codes), 3, None).size == 3
    finally:
        units._GAMMA = saved


def test_every_set_of_rows_is_as_likely():
    """chi-square over the 10 pairs of 5 rows of 40,000 interleaved units, and of neighbours."""
    for names in (np.arange(40_000), np.array([f"user {i}" for i in range(40_000)])):
        ids = np.tile(names, 5)
        places = np.arange(ids.size).reshape(5, -1)
        kept = np.isin(places, units.kept_rows(of(ids), 2, b"a key"))
        pairs = {pair: i for i, pair in enumerate(itertools.combinations(range(5), 2))}
        found = np.array([pairs[tuple(np.flatnonzero(unit))] for unit in kept.T])
        assert stats.chisquare(np.bincount(found)).pvalue > 1e-7
        both = np.zeros((10, 10))
        np.add.at(both, (found[:-1], found[1:]), 1)  # ids that follow each other
        assert stats.chisquare(both.ravel()).pvalue > 1e-7


def test_other_units_do_not_change_what_is_kept():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 20, 500)
    kept = units.kept_rows(of(ids), 4, b"key")
    others = np.flatnonzero(ids != 3)
    again = units.kept_rows(of(ids[others]), 4, b"key")
    assert np.array_equal(others[again], kept[ids[kept] != 3])


def test_other_units_do_not_decide_how_long_tickets_are(monkeypatch):
    """Tickets that differ in their last bits only, and a unit that leaves fewer bits to compare."""
    mix = units._mix
    monkeypatch.setattr(units, "_mix", lambda words: mix(words) & np.uint64(2**16 - 1))
    ids = np.repeat(np.arange(20), 30)
    more = np.concatenate([ids, np.full(10_000, 99)])
    kept = units.kept_rows(of(ids), 4, b"key")
    again = units.kept_rows(of(more), 4, b"key")
    assert np.array_equal(again[again < ids.size], kept)


def test_tickets_come_from_the_operating_system():
    ids = np.zeros(1000, dtype=int)
    assert not np.array_equal(units.kept_rows(of(ids), 5, None), units.kept_rows(of(ids), 5, None))


# --- the choice of a bound ------------------------------------------------------------------------


def test_candidates():
    assert units.bound_candidates(10) == (1, 2, 3, 4, 6, 8)
    assert units.bound_candidates(1) == (1,)
    assert len(units.bound_candidates()) == 40


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_unit_moves_no_score_further_than_declared_and_some_by_all_of_it(relation):
    rng = np.random.default_rng(0)
    query = units.RowsPerUnit(units.bound_candidates(64), 7)
    reached = 0
    for _ in range(300):
        counts = rng.integers(1, 80, rng.integers(0, 12)).tolist()
        new = [] if rng.random() < 0.3 else [int(rng.integers(1, 80))]
        tables = [counts + ([] if relation == "add_or_remove_one" else [3]), counts + new]
        scores = [
            query.scores(units.unit_table(of(np.repeat(np.arange(len(c)), c)), relation))
            for c in tables
        ]
        found = units.unit_table(of([1]), relation).stability
        moved = np.abs(scores[0] - scores[1]).max()
        assert moved <= moved_by(units.RowsPerUnit, query, found)
        reached = max(reached, moved)
    assert reached == moved_by(units.RowsPerUnit, query, found)


def chosen(counts, epsilon, delta=0.0, relation="replace_one"):
    ids = np.repeat(np.arange(len(counts)), counts)
    X = np.zeros((len(ids), 1))
    rows = check_rows(X, estimator="test", allow_empty=True).of_units(ids, "test")
    budget = PrivacyBudget(1e6, 0.5, adjacency=relation, unit="u")
    with open_session(
        rows, estimator="test", epsilon=epsilon, delta=delta, budget=budget,
        unit=Unit("u", "private"),
    ) as session:  # fmt: skip
        return session.max_rows_per_unit


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_bound_leaves_most_units_whole_and_is_not_much_larger(delta):
    """At a large epsilon: the smallest candidate that one unit in a hundred is above."""
    counts = np.r_[np.full(991, 5), np.full(4, 20), np.full(5, 900)]
    for relation in ("replace_one", "add_or_remove_one"):
        assert chosen(counts, 1e5, delta, relation) == 6
        assert chosen(np.r_[counts, np.full(20, 50)], 1e5, delta, relation) == 64


def test_a_row_a_unit_is_found_where_no_unit_has_two():
    found = [chosen(np.ones(3000, dtype=int), 1.0, 1e-6) for _ in range(60)]
    assert np.median(found) <= 2
    assert max(found) < 2**12


def test_an_empty_table_has_a_bound():
    assert chosen(np.zeros(0, dtype=int), 1.0) >= 1


def test_the_choice_is_charged_within_the_allowance():
    ids = np.repeat(np.arange(50), 4)
    rows = check_rows(np.zeros((200, 1)), estimator="test").of_units(ids, "test")
    for delta in (0.0, 1e-6):
        budget = PrivacyBudget(5.0, 1e-3, unit="u")
        with record() as transcript, open_session(
            rows, estimator="test", epsilon=2.0, delta=delta, budget=budget,
            unit=Unit("u", "private"),
        ) as session:  # fmt: skip
            assert session.remaining == 1
            session.row_count(0.25)
            session.row_count()
            assert session.remaining == 0
            certificate = session.certificate()
        assert [entry.name for entry in transcript.entries] == ["rows per unit", "count", "count"]
        assert budget.spent.epsilon == 2.0
        assert (certificate.unit, certificate.epsilon) == ("u", 2.0)
        assert certificate.max_rows_per_unit == session.max_rows_per_unit
        shares = [one.share for one in certificate.releases]
        assert shares == pytest.approx([0.1, 0.25 * 0.9, 0.75 * 0.9])
        if delta:
            spent = math.hypot(*(one.mu for one in certificate.releases))
            assert spent <= certificate.mu
        else:
            assert sum(Fraction(one.epsilon) for one in certificate.releases) <= 2
        assert f"one u ({session.max_rows_per_unit} of its rows at most)" in (
            certificate._repr_html_()
        )


def test_so_many_rows_that_nothing_is_left_are_refused_before_the_charge():
    rows = check_rows(np.zeros((3, 1)), estimator="test").of_units([1, 1, 2], "test")
    budget = PrivacyBudget(1.0, unit="u")
    with pytest.raises(ValueError, match="max_rows_per_unit=1000000 leaves"):
        open_session(rows, estimator="test", epsilon=1.0, budget=budget, unit=Unit("u", 1_000_000))
    assert budget.spent.epsilon == 0


def test_a_session_refuses_another_unit_than_the_budget_by_itself():
    rows = check_rows(np.zeros((3, 1)), estimator="test")
    budget = PrivacyBudget(1.0, unit="u")
    with pytest.raises(ValueError, match="the budget's unit is 'u', not None"):
        open_session(rows, estimator="test", epsilon=1.0, budget=budget)
    with pytest.raises(TypeError, match="rows of units need a unit"):
        open_session(rows.of_units([1, 1, 2], "test"), estimator="test", epsilon=1.0)
    assert budget.spent.epsilon == 0


def test_without_groups_nothing_is_another():
    rows = check_rows(np.zeros((3, 1)), estimator="test")
    with open_session(rows, estimator="test", epsilon=1.0) as session:
        assert session.max_rows_per_unit is None
        assert session.n_rows == 3
        plain = session.certificate().to_dict()
    assert plain["unit"] == "row"
    assert "max_rows_per_unit" not in plain


def test_orders_of_short_and_long_keys_are_one(monkeypatch):
    """Both ways of sorting keep the same rows but for ties of tickets, of which there are none."""
    rng = np.random.default_rng(0)
    for ids in (rng.integers(0, 40, 2000), np.zeros(500, dtype=int), np.arange(30).repeat(3)):
        fast = units.kept_rows(of(ids), 5, b"key")
        with monkeypatch.context() as patched:
            patched.setattr(units, "_LEAST_BITS", 65)
            patched.setattr(units, "_by_unit", lambda codes: np.argsort(codes, kind="stable"))
            assert np.array_equal(units.kept_rows(of(ids), 5, b"key"), fast)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_delta_that_groups_make_too_large_is_none(delta):
    """The sum of its growth is past the range of floats: nothing is left for one step."""
    for epsilon, some in ((3.0, True), (3000.0, False)):
        whole = PrivacyFilter(
            lambda: b"",
            estimator="test",
            epsilon=epsilon,
            delta=delta,
            separate_delta=0.1,
            budget=None,
        )
        found = whole.meter().per_step(3).separate_delta
        assert (found > 0) is some
        assert found < 0.1
