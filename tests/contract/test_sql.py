"""The contract for private SQL: replay, and neighbours that differ in one user of several tables.

Queries that are one release and queries in parts. Ranks are coupled, and noise replayed, so that
results repeat themselves: there are no false alarms.
"""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

from skdp.core.transcript import record
from skdp.core.transcript import replay as replayed
from skdp.sql import _relations, _stages
from skdp.tabular import contributions
from tests.sql.fuzz import NASTY, nasty_shop
from tests.sql.shop import database
from tests.sql.test_sql_fuzz import forgetful

GIVEN = {"epsilon": 8.0, "delta": 1e-3}
QUERIES = [
    "SELECT browser, COUNT(*), AVG(minutes), MEDIAN(minutes) FROM visits GROUP BY browser",
    "SELECT SUM(price), STDDEV(pages), COUNT(DISTINCT uid) FROM visits WHERE minutes / 3 > 1",
    "SELECT i_kind, SUM(i_price * i_n) FROM orders JOIN item ON o_id = i_order GROUP BY i_kind",
    "SELECT SUM(v.pages * w.minutes) FROM visits v JOIN visits w ON v.uid = w.uid",
    "SELECT AVG(t) FROM (SELECT uid, SUM(price) AS t FROM visits GROUP BY uid)",
    "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)",
    "SELECT MAX(c) FROM (SELECT browser, COUNT(*) AS c FROM visits GROUP BY browser)",
    (
        "SELECT s.k, SUM(s.c * v.pages) FROM visits v JOIN (SELECT browser AS k, COUNT(*) AS c "
        "FROM visits GROUP BY browser) s ON v.browser = s.k GROUP BY s.k"
    ),
]


@functools.cache
def shops():
    return nasty_shop(), nasty_shop(without=NASTY), nasty_shop(without=3)


@pytest.fixture
def _same_ranks(monkeypatch):
    monkeypatch.setattr(contributions, "secret_number", lambda *_: 12345)


def shown(answer):
    parts = [*answer.subqueries, answer]
    return [
        (one.columns, one.fetchall(), one.bounds_, one.left_out_, one.max_rows_per_unit_)
        for one in parts
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("_same_ranks")
@pytest.mark.parametrize("query", QUERIES)
def test_an_answer_learns_from_releases_only_and_one_user_moves_them_as_declared(query):
    whole, *less = shops()
    for other in less:
        for first, second in ((whole, other), (other, whole)):
            with record() as transcript:
                before = shown(database(first).sql(query, **GIVEN))
            with replayed(transcript) as again:
                after = shown(database(second).sql(query, **GIVEN))
            assert str(after) == str(before)
            assert len(transcript.entries) == len(again.entries) > 0
            for a, b in zip(transcript.entries, again.entries, strict=True):
                assert a.sensitivity == b.sensitivity
                assert float(a.distance(a.exact, b.exact)) <= a.sensitivity, a.name


@pytest.mark.slow
@pytest.mark.usefixtures("_same_ranks")
def test_users_whose_rows_meet_are_seen(monkeypatch):
    monkeypatch.setattr(_relations.Links, "check", lambda self, node: None)
    monkeypatch.setattr(_stages, "planned", functools.partial(forgetful, _stages.planned))
    query = "SELECT COUNT(*) FROM visits v JOIN visits w ON v.browser = w.browser"
    caps = {"max_rows_per_unit": 250, **GIVEN}
    whole, _, less = shops()
    with record() as transcript:
        database(whole).sql(query, **caps)
    with replayed(transcript) as again:
        database(less).sql(query, **caps)
    pairs = zip(transcript.entries, again.entries, strict=True)
    assert any(float(a.distance(a.exact, b.exact)) > a.sensitivity for a, b in pairs)
