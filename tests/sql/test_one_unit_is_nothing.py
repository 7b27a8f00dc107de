"""A second reading of what bounds one unit: joins times public tables, long cells, rounded keys.

Each of these told of one unit before: a query could be computed without it, and not with it.
"""

from __future__ import annotations

import duckdb
import pytest

from skdp.exceptions import QueryRefusedError
from tests.sql import shop
from tests.sql.test_fan_out import database, exact

MANY = "(SELECT a.i FROM (VALUES " + ", ".join(f"({i})" for i in range(900)) + ") a(i))"
PAIRS = "SELECT a.uid FROM visits a JOIN visits b ON a.uid = b.uid"
VICTIMS = {
    "nobody": "SELECT 1",
    "many rows": "INSERT INTO visits SELECT 777, 'hiv', [1], '7' FROM range(900)",
    "a long text": "INSERT INTO visits VALUES (777, repeat('x', 400000), [1], '7')",
    "a long list": "INSERT INTO visits VALUES (777, 'hiv', range(60000), '7')",
}


def visits(victim, tables=None):
    connection = duckdb.connect()
    connection.execute("SET memory_limit = '100MB'; SET temp_directory = ''; SET threads = 1")
    connection.execute("CREATE TABLE visits (uid INT, illness VARCHAR, codes INT[], name VARCHAR)")
    connection.execute("INSERT INTO visits SELECT i, 'none', [i], i FROM range(100) t(i)")
    connection.execute(VICTIMS.get(victim, victim))
    return database(connection, tables or {"visits": {"unit": "uid"}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "query"),
    [
        (
            "many rows",
            f"SELECT COUNT(*) FROM visits a JOIN visits b ON a.uid = b.uid JOIN {MANY} c ON TRUE",
        ),
        (
            "many rows",
            f"SELECT COUNT(*) FROM ({PAIRS}) d JOIN {MANY} c ON TRUE",
        ),
        (
            "a long text",
            f"SELECT illness, COUNT(*) FROM visits JOIN {MANY} c ON TRUE GROUP BY 1",
        ),
        (
            "a long list",
            f"SELECT COUNT(*) FROM(SELECT DISTINCT uid, i, codes FROM visits JOIN {MANY} c ON 1=1)",
        ),
    ],
)
def test_one_unit_does_not_decide_whether_a_query_can_be_computed(victim, query):
    for there in ("nobody", victim):
        db = visits(there)
        parts, _ = shop.parts_of(db, query)
        plan = parts.last
        cursor = db._catalog.cursor()
        cursor.execute(f"CREATE TEMP TABLE made AS {plan.rows}")
        others = "SELECT count(*) FROM made WHERE uid <> 777"
        assert cursor.execute(others).fetchone() == (90_000,)


def test_a_long_id_names_nobody_and_none_is_taken_for_another():
    long = "repeat('7', 1000)"
    more = f"INSERT INTO visits VALUES (1, 'a', [1], {long}), (2, 'a', [1], {long} || '8')"
    db = visits(more, {"visits": {"unit": "name"}})
    found = exact(db, "SELECT COUNT(*) FROM visits")
    assert len(found) == 101
    assert len({row[0] for row in found}) == 101


def test_joins_of_joins_are_bounded_in_unions_too():
    inside = " UNION ALL ".join([PAIRS] * 5)
    with pytest.raises(QueryRefusedError, match="UNION ALL of joins"):
        exact(visits("nobody"), f"SELECT COUNT(*) FROM ({inside}) s")
    assert (
        len(exact(visits("nobody"), f"SELECT COUNT(*) FROM ({PAIRS} UNION ALL {PAIRS}) s")) == 200
    )


def test_integers_that_are_one_double_are_not_told_apart():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (uid INT, x DOUBLE); CREATE TABLE codes (n BIGINT)")
    connection.execute("INSERT INTO visits VALUES (1, 9.2e18)")
    # 1,200 integers that no two are equal, within few numbers of DOUBLE
    connection.execute("INSERT INTO codes SELECT 9200000000000000000 + i FROM range(1200) t(i)")
    db = database(connection, {"visits": {"unit": "uid"}, "codes": "public"})
    with pytest.raises(QueryRefusedError, match="1,200 rows for one"):
        exact(db, "SELECT COUNT(*) FROM visits JOIN codes ON n = x")
    query = "SELECT COUNT(*) FROM visits JOIN codes ON n = CAST(x AS BIGINT)"
    assert len(exact(db, query)) == 1


@pytest.mark.parametrize(
    "instead",
    [
        "CREATE VIEW a AS SELECT * FROM other",
        "CREATE TABLE a (uid INT, x VARCHAR COLLATE NOCASE)",
        "CREATE TABLE a (uid INT, x VARCHAR GENERATED ALWAYS AS (uid::VARCHAR))",
    ],
)
def test_what_stands_in_a_tables_place_is_not_asked(instead):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE a (uid INT, x VARCHAR); CREATE TABLE other AS FROM a")
    db = database(connection, {"a": {"unit": "uid"}})
    connection.execute(f"DROP TABLE a; {instead}")
    with pytest.raises(RuntimeError, match="has changed since it was declared"):
        db.sql("SELECT x, COUNT(*) FROM a GROUP BY x", epsilon=1.0, delta=1e-6)
    assert db.budget.spent.epsilon == 0


def test_options_of_a_query_without_group_by_are_checked_and_named():
    db = visits("nobody")
    start = "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1, delta=1e-6, kappa={}) "
    query = start + "ANON_COUNT(* CLAMPED BETWEEN 0 AND 1) AS n FROM visits"
    for wrong in ("0", "1.5", "1_0"):
        with pytest.raises((QueryRefusedError, ValueError)):
            db.sql(query.format(wrong))
    assert any("kappa" in note for note in db.sql(query.format(3)).notes)


@pytest.mark.slow
def test_a_count_is_within_its_interval():
    db = visits("DELETE FROM visits")
    for _ in range(6):
        query = "SELECT COUNT(*) AS n, COUNT(*) * 2 + 1 AS m FROM visits"
        ((n, low, high, m, m_low, m_high),) = db.sql(query, epsilon=0.5, delta=0).fetchall()
        assert low <= n <= high
        assert m_low <= m <= m_high


@pytest.mark.parametrize(
    ("right", "left"),
    [
        (
            "visits v RIGHT JOIN customer c ON v.uid = c.c_id AND v.pages > 3",
            "customer c LEFT JOIN visits v ON v.uid = c.c_id AND v.pages > 3",
        ),
        (
            "nation n RIGHT JOIN customer c ON n_id = c_nation JOIN visits v ON v.uid = c_id",
            "customer c LEFT JOIN nation n ON n_id = c_nation JOIN visits v ON v.uid = c_id",
        ),
    ],
)
def test_a_right_join_is_a_left_join(right, left):
    con = shop.shop()
    db = shop.database(con)
    asked = "SELECT CAST(v.pages AS VARCHAR) AS k, COUNT(*) FROM {} GROUP BY 1"
    found = exact(db, asked.format(right))
    assert found == exact(db, asked.format(left))
    ((number,),) = con.execute(f"SELECT count(*) FROM {right}").fetchall()
    assert len(found) == number
    inner = f"SELECT COUNT(*) FROM (SELECT * FROM {right}) s(a) WHERE a IS NULL"
    ((number,),) = con.execute(inner).fetchall()
    assert len(exact(db, inner)) == number


def test_a_public_table_on_the_right_states_keys_as_on_the_left():
    db = shop.database()
    asked = "SELECT n_name, COUNT(*) AS n FROM {} GROUP BY n_name"
    made = [
        shop.parts_of(db, asked.format(source), delta=0.0, max_keys_per_unit=1, max_rows_per_unit=1)
        for source in (
            "customer RIGHT JOIN nation ON n_id = c_nation",
            "nation LEFT JOIN customer ON n_id = c_nation",
        )
    ]
    assert made[0][1][0].keys == made[1][1][0].keys
    assert len(made[0][1][0].keys) == 5


@pytest.mark.parametrize("kind", ["INTERVAL", "TIMETZ", "VARIANT", "JSON"])
def test_ids_of_types_of_which_two_may_be_equal_are_refused(kind):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE a (uid {kind})")
    with pytest.raises(TypeError, match="differ and compare as equal"):
        database(connection, {"a": {"unit": "uid"}})
