"""Random queries: refused, or no statistic and no row of another unit moves; 10,000 in fuzz.md."""

from __future__ import annotations

import dataclasses
import functools
import re

import pytest

from skdp.sql import _relations, _stages
from tests.sql import fuzz


@functools.cache
def checker():
    return fuzz.Checker(users=(3, fuzz.NASTY))


def forgetful(planned, *args, **kwargs):
    """Return a plan that does not tie units together."""
    plan = planned(*args, **kwargs)
    rows = re.sub(r"t\d+\.u = t\d+\.u", "TRUE", plan.rows)
    return dataclasses.replace(plan, rows=rows)


@pytest.mark.slow
def test_random_queries_are_refused_or_keep_units_apart():
    generator = fuzz.Generator(7)
    found = [checker().check(generator.query(), number) for number in range(100)]
    assert found.count("answered") > 40
    assert found.count("refused") > 20


@pytest.mark.slow
def test_random_queries_in_the_source_spelling_keep_units_apart():
    generator = fuzz.Generator(9, source_spelling=True)
    queries = [generator.query() for _ in range(200)]
    found = [checker().check(query, number) for number, query in enumerate(queries)]
    spelled = [what for what, query in zip(found, queries, strict=True) if "OPTIONS" in query]
    assert spelled.count("answered") > 15
    assert spelled.count("refused") > 15


@pytest.mark.slow
def test_random_queries_in_parts_are_refused_or_keep_units_apart():
    generator = fuzz.Generator(8)
    found = [checker().check_parts(generator.in_parts(), number) for number in range(80)]
    assert found.count("in parts") > 40
    assert found.count("refused") > 5


@pytest.mark.slow
def test_parts_that_let_units_meet_are_found(monkeypatch):
    monkeypatch.setattr(_relations.Links, "check", lambda self, node: None)
    monkeypatch.setattr(_stages, "planned", functools.partial(forgetful, _stages.planned))
    query = (
        "SELECT COUNT(*) AS n FROM visits v JOIN visits w ON v.browser = w.browser "
        "WHERE v.pages > (SELECT AVG(pages) FROM visits)"
    )
    with pytest.raises(AssertionError):
        checker().check_parts(query, 0)


@pytest.mark.slow
def test_a_compiler_that_lets_units_meet_is_found(monkeypatch):
    monkeypatch.setattr(_relations.Links, "check", lambda self, node: None)
    monkeypatch.setattr(fuzz, "planned", functools.partial(forgetful, fuzz.planned))
    query = "SELECT COUNT(*) AS n FROM visits v JOIN visits w ON v.browser = w.browser"
    with pytest.raises(AssertionError):
        checker().check(query, 0)


@pytest.mark.slow
def test_a_bound_that_is_not_kept_is_found(monkeypatch):
    monkeypatch.setattr(fuzz, "term_bound", lambda term, rows: (0.5, 0.25, False))
    with pytest.raises(AssertionError):
        checker().check("SELECT COUNT(*) AS n FROM visits v", 0)
