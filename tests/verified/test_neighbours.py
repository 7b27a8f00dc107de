"""Queries of every registered type on all small tables and all their neighbours.

The shipped session answers each query on every table that can be made of a few awkward rows, while
an active transcript returns recorded releases (so all tables have the same history, as adaptive
composition assumes) and notes the exact statistics. Between every two neighbouring tables each
statistic moves by no more than the sensitivity that its mechanism was handed. Distances of integers
are compared exactly; `test_scales.py` compares the noise with these sensitivities.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from toys import OneRelease

from skdp import queries
from skdp.core import mechanisms
from skdp.core import session as session_module
from skdp.core.query import Choice, Derived, Measurement, Query, reviewed_types
from skdp.core.transcript import record, replay
from skdp.core.units import RowsPerUnit
from tests.verified.neighbour_cases import (
    A,
    R,
    contract_rank_tables,
    contract_tables,
    own_tables,
)

ABOUT = ("skdp/core", "skdp/queries", "skdp/tabular")
NEEDS = ()

# Distances that are not of integers carry rounding errors of a few units in the last place.
TOLERANCE = 1e-9

# Registered types that are not enumerated, each with the reason.
NOT_ENUMERATED = {
    "LogisticObjective": "a solver runs for each table: tests/queries/test_objective.py has pairs",
}


@contextlib.contextmanager
def marked_as_filtered(monkeypatch):
    """Mark the rows of the contract's estimators as those that a filter has left."""
    opened = OneRelease._session

    def session_of_filtered(self, rows):
        rows = copy.copy(rows)
        rows.filtered = True
        return opened(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(OneRelease, "_session", session_of_filtered)
        yield


# --- one case -----------------------------------------------------------------------------------


class Moved(NamedTuple):
    """How many tables and pairs were compared, and the largest part of a sensitivity reached."""

    tables: int
    pairs: int
    reached: float


def part_of_sensitivity(a, b):
    """Return how far a statistic moved, over its declared sensitivity; 2.0 stands for too far."""
    assert a.name == b.name
    assert a.sensitivity == b.sensitivity, "the declared sensitivity depends on rows"
    assert np.shape(a.exact) == np.shape(b.exact), "the shape of a statistic depends on rows"
    if a.distance in (mechanisms.l1, mechanisms.l2):
        power = 1 if a.distance is mechanisms.l1 else 2
        difference = (a.exact.astype(object) - b.exact.astype(object)).ravel().tolist()
        moved = sum(abs(value) ** power for value in difference)
        limit = Fraction(a.sensitivity) ** power
        return 2.0 if moved > limit else float(moved / limit) ** (1 / power)
    moved = max(a.distance(a.exact, b.exact), b.distance(b.exact, a.exact))
    exact = float(moved).is_integer() and float(a.sensitivity).is_integer() and moved < 2**53
    if moved > a.sensitivity + (0.0 if exact else TOLERANCE * a.sensitivity):
        return 2.0
    return float(moved / a.sensitivity) if a.sensitivity else 0.0


def neighbours_of(case, table):
    """Yield every neighbour of a table once for the pair: later in the order, or with fewer."""
    if case.replaced:
        for place, element in enumerate(table):
            for other in range(element + 1, len(case.elements)):
                yield (*table[:place], other, *table[place + 1 :])
    if case.added and len(table) - 1 in case.sizes:
        places = [len(table) - 1] if case.at_the_end else range(len(table))
        yield from {(*table[:place], *table[place + 1 :]) for place in places}


def check(case):
    """Compare all neighbouring tables of a case; raise where a statistic moves too far."""
    history, entries = None, {}
    for size in case.sizes:
        for table in itertools.product(range(len(case.elements)), repeat=size):
            elements = [case.elements[i] for i in table]
            if history is None or (case.n_is_public and len(history[1]) != size):
                with record() as transcript:
                    case.ask(elements)
                history = transcript, table
            with replay(history[0]) as transcript:
                case.ask(elements)
            assert len(transcript.entries) == len(history[0].entries)
            entries[table] = transcript.entries
    n_pairs, reached = 0, {}
    for table, here in entries.items():
        for other in neighbours_of(case, table):
            parts = [part_of_sensitivity(a, b) for a, b in zip(here, entries[other], strict=True)]
            assert max(parts) <= 1, (case.name, table, other, parts)
            n_pairs += 1
            for position, part in enumerate(parts):
                if here[position].sensitivity > 0:  # a draw without rows has none
                    reached[position] = max(part, reached.get(position, 0.0))
    assert min(reached.values()) > 0, f"{case.name}: a statistic never moves"
    return Moved(len(entries), n_pairs, max(reached.values()))


def check_all(cases, record_property):
    """Check several cases, and report how much was compared."""
    moved = [check(case) for case in cases]
    assert moved
    record_property("queries", len(moved))
    record_property("tables", sum(one.tables for one in moved))
    record_property("pairs", sum(one.pairs for one in moved))


# --- all cases ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("relation", [R, A])
def test_queries_of_rows(relation, record_property):
    """The contract's queries. Domain: tables of up to three of four rows, in every order."""
    check_all(contract_tables(relation), record_property)


@pytest.mark.slow
def test_queries_of_rows_that_a_filter_left(monkeypatch, record_property):
    """The same queries where a row may be replaced, added or removed: a filter of each row."""
    with marked_as_filtered(monkeypatch):
        check_all(contract_tables(R, filtered=True), record_property)


@pytest.mark.slow
def test_queries_of_ranks(record_property):
    """The contract's queries of whole tables. Domain: up to four rows, in every order."""
    check_all([*contract_rank_tables(R), *contract_rank_tables(A)], record_property)


@pytest.mark.slow
@pytest.mark.parametrize("relation", [R, A])
def test_queries_of_other_tables(relation, record_property):
    """Queries of units, keys, labels, missing cells. Domain: up to three units or rows."""
    check_all(own_tables(relation), record_property)


def test_every_registered_type_is_asked(monkeypatch, record_property):
    """Every query type of the package is asked in a case above, or listed with a reason."""
    asked, check_query = set(), session_module.check_query

    def noted(query):
        asked.add(type(query).__name__)
        return check_query(query)

    monkeypatch.setattr(session_module, "check_query", noted)
    names = set()
    for relation in (R, A):
        cases = contract_tables(relation), contract_rank_tables(relation), own_tables(relation)
        for case in itertools.chain(*cases):
            with record() as transcript:
                case.ask([*case.elements, *case.elements][: case.sizes[-1]])
            names.update(entry.name for entry in transcript.entries)
    if RowsPerUnit.name in names:  # `open_session` itself asks it, for units of private size
        asked.add(RowsPerUnit.__name__)
    for name in queries.__all__:  # types are registered when their file is first read
        getattr(queries, name)
    kinds = {k for k in reviewed_types() if issubclass(k, Query | Choice | Measurement | Derived)}
    assert {kind.__name__ for kind in kinds} - asked == set(NOT_ENUMERATED)
    assert not asked & set(NOT_ENUMERATED)
    record_property("types", len(kinds))


def test_a_sensitivity_that_is_too_small_is_found(monkeypatch):
    """Control: a sum whose sensitivity is stated as one step less fails on some pair."""
    declared = session_module.moved_by

    def one_less(kind, query, stability):
        size = declared(kind, query, stability)
        return mechanisms.Spherical(size.l2 - 1)

    monkeypatch.setattr(session_module, "moved_by", one_less)
    cases = {case.name: case for case in contract_tables(R)}
    with pytest.raises(AssertionError, match="sum of a box"):
        check(cases["sum of a box, delta=0.0"])
