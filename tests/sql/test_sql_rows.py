"""Rows of a query: no cell makes them fail, and no row depends on another unit."""

from __future__ import annotations

import dataclasses
import functools

import duckdb
import pyarrow as pa
import pytest

from skdp import PrivacyBudget
from skdp.sql import PrivateDatabase
from skdp.sql._plan import planned
from skdp.sql._syntax import parsed
from tests.folding import each
from tests.sql.shop import database, rows_of, shop

# Each column with what is worst in its type.
WORST = {
    "i": ("BIGINT", ["9223372036854775807", "-9223372036854775808", "0", "-1", "NULL", "7"]),
    "j": ("INTEGER", ["2147483647", "-2147483648", "0", "-1", "NULL", "3"]),
    "t": ("TINYINT", ["127", "-128", "0", "-1", "NULL", "1"]),
    "d": ("DOUBLE", ["'nan'", "'inf'", "'-inf'", "1e308", "-0.0", "NULL"]),
    "f": ("FLOAT", ["'nan'", "'inf'", "'-inf'", "3e38", "0", "NULL"]),
    "m": ("DECIMAL(38, 2)", [f"{'9' * 36}.99", f"-{'9' * 36}.99", "0", "1.005", "NULL", "5"]),
    "h": ("HUGEINT", ["170141183460469231731687303715884105727", "0", "-1", "NULL", "1", "2"]),
    "u": ("UHUGEINT", ["340282366920938463463374607431768211455", "0", "1", "NULL", "1", "2"]),
    "s": ("VARCHAR", ["'abc'", "''", "'9e999'", "chr(0) || 'x'", "NULL", "'12'"]),
    "w": ("VARCHAR", ["repeat('é', 70000)", "'%'", "'_'", "'2020-02-31'", "NULL", "'inf'"]),
    "day": (
        "DATE",
        ["'infinity'", "'-infinity'", "'5874897-12-31'", "'290000-01-01 (BC)'", "NULL", "'2020-2-29'"],  # noqa: E501
    ),
    "ts": (
        "TIMESTAMP",
        ["'infinity'", "'-infinity'", "'290000-01-01'", "'200000-01-01 (BC)'", "NULL", "'2020-2-9'"],  # noqa: E501
    ),
    "b": ("BOOLEAN", ["TRUE", "FALSE", "NULL", "TRUE", "FALSE", "NULL"]),
    "l": ("INTEGER[]", ["[1]", "[]", "NULL", "[NULL]", "[2, 3]", "[4]"]),
    "e": ("ENUM ('x', 'y')", ["'x'", "'y'", "NULL", "'x'", "'x'", "'y'"]),
    "g": ("UUID", ["gen_random_uuid()"] * 5 + ["NULL"]),
    "z": ("TIMESTAMPTZ", ["'infinity'", "'2020-01-01'", "NULL", "now()", "now()", "NULL"]),
}  # fmt: skip

EXPRESSIONS = [
    *("i + j", "i * i", "i - 1", "-i", "-j", "abs(i)", "abs(t)", "i // j", "i // t", "i % j"),
    *("i / j", "j * j * j", "t + t", "t * 100", "h * h", "u - h", "m * m", "m + 0.5", "d * d"),
    *("d / f", "d - d", "i + d", "m / t", "round(d, 2)", "round(m, -3)", "round(i, 5)"),
    *("floor(d)", "ceil(f)", "floor(m)", "sqrt(d)", "sqrt(i)", "ln(d)", "ln(t)", "isnan(d)"),
    *("CAST(s AS INT)", "CAST(s AS DOUBLE)", "CAST(d AS INT)", "CAST(d AS BIGINT)"),
    *("CAST(i AS TINYINT)", "CAST(d AS DECIMAL(10, 2))", "CAST(w AS DATE)", "CAST(w AS TIMESTAMP)"),
    *("CAST(day AS TIMESTAMP)", "CAST(ts AS DATE)", "CAST(day AS VARCHAR)", "CAST(s AS BOOLEAN)"),
    *("CAST(m AS BIGINT)", "CAST(h AS BIGINT)", "CAST(b AS INT)", "CAST(e AS VARCHAR)"),
    *("lower(w)", "upper(w)", "trim(s)", "length(w)", "substring(w, 2, 3)", "left(w, 2)"),
    *("right(w, 1)", "w || w", "w || s", "concat(w, s, e)", "replace(w, 'é', 'xyz')"),
    *("contains(w, '%')", "starts_with(s, 'a')", "w LIKE '%é_'", "s ILIKE 'A%'", "s NOT LIKE '_'"),
    *("year(day)", "month(ts)", "quarter(day)", "dayofweek(day)", "hour(ts)", "minute(day)"),
    *("extract(day FROM ts)", "date_trunc('month', day)", "date_trunc('week', ts)"),
    *("day + INTERVAL 10000 YEAR", "day - INTERVAL '3' MONTH", "ts + INTERVAL 5 HOUR"),
    *("day - DATE '2020-01-01'", "day - day", "day > '2020-01-01'", "day < ts", "ts = day"),
    *("CASE WHEN b THEN i ELSE d END", "CASE t WHEN 1 THEN 'x' ELSE s END", "coalesce(i, j, d)"),
    *("nullif(i, j)", "greatest(i, d)", "least(day, DATE '2020-01-01')", "if(b, s, w)"),
    *("i = j", "i <> d", "m < d", "d = d", "h > u", "i BETWEEN t AND j", "d IN (1, 2.5, i)"),
    *("i IS DISTINCT FROM j", "b AND NOT b", "b OR i > 3", "d IS NULL", "b IS NOT TRUE"),
    *("l IS NULL", "g IS NOT NULL", "z IS NULL", "u IS NULL", "e = 'x'", "s IN ('abc', w)"),
]


@functools.cache
def worst():
    con = duckdb.connect()
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in WORST.items())
    con.execute(f"CREATE TABLE worst (who INTEGER, {columns})")
    for row in range(6):
        for shift in range(6):  # every value beside several others
            cells = [v[(row + (k % 5 + 1) * shift) % 6] for k, (_, v) in enumerate(WORST.values())]
            con.execute(f"INSERT INTO worst VALUES ({row}, {', '.join(cells)})")
    budget = PrivacyBudget(10**6, 0.99, adjacency="add_or_remove_one", unit="who")
    db = PrivateDatabase(con, tables={"worst": {"unit": "who"}}, budget=budget)
    return con, db


@pytest.mark.slow
def test_no_cell_makes_an_expression_fail():
    con, db = worst()
    for one in EXPRESSIONS:
        # Twice, and inside more: an optimiser that takes common parts out must not fail either.
        for query in (
            f"SELECT COUNT({one}) AS n, COUNT(({one}) IS NULL) AS k FROM worst",
            f"SELECT COUNT(*) FROM worst WHERE ({one}) IS NOT NULL OR ({one}) IS NULL",
            f"SELECT {one} AS k, COUNT(*) FROM worst WHERE ({one}) = ({one}) GROUP BY {one}",
            (f"SELECT COUNT(k) FROM (SELECT who, MAX({one}) AS k, MIN({one}), COUNT(DISTINCT {one}) "  # noqa: E501
            "FROM worst GROUP BY who)"),
        ):  # fmt: skip
            plan = planned(query, parsed(query)[0], db._catalog, "who", {})
            con.execute(f"CREATE OR REPLACE TEMP TABLE found AS {plan.rows}")


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_before_the_first_one_that_duckdb_writes_are_null(unit):
    """To write one as text is an internal error, and no query of the database runs after it."""
    first = -9_223_372_022_400_000_000 // {"s": 10**6, "ms": 1000, "us": 1}[unit]
    cells = pa.array([first - 1, -(2**63), 0], pa.timestamp(unit))
    table = pa.table({"who": [1, 2, 3], "ts": cells})
    budget = PrivacyBudget(10, 0.1, adjacency="add_or_remove_one", unit="who")
    db = PrivateDatabase({"t": table}, tables={"t": {"unit": "who"}}, budget=budget)
    for one in ("ts", "CAST(ts AS DATE)", "CAST(ts AS VARCHAR)"):
        query = f"SELECT {one} AS k, COUNT(*) FROM t GROUP BY 1"
        plan = planned(query, parsed(query)[0], db._catalog, "who", {})
        found = db._catalog.cursor().execute(plan.rows).fetchall()
        assert len(found) == 3
        assert "" in {key for _, key, *_ in found}


def test_sums_inside_units_do_not_fail_either():
    con, db = worst()
    for one in ("i", "j", "d", "m", "h", "i + j", "d * d", "f"):
        query = (
            f"SELECT SUM(a), AVG(b) FROM (SELECT who, SUM({one}) AS a, AVG({one}) AS b FROM worst "
            "GROUP BY who)"
        )
        plan = planned(query, parsed(query)[0], db._catalog, "who", {})
        con.execute(f"CREATE OR REPLACE TEMP TABLE found AS {plan.rows}")


@pytest.mark.slow
def test_whole_answers_over_the_worst_cells():
    _, db = worst()
    for one in ("i", "m", "w", "ts", "e"):
        answer = db.sql(
            f"SELECT {one} AS k, COUNT(*) AS n, AVG(d) AS m FROM worst GROUP BY {one}",
            epsilon=200,
            delta=0.001,
        )
        assert "n_low" in answer.columns
    for one in ("d", "m"):
        row = db.sql(f"SELECT AVG({one}) a, SUM({one}) s, MEDIAN({one}) FROM worst", epsilon=5)
        assert len(row) == 1


@each("family", ["i", "d", "s", "day", "ts", "b", "e", "t"])
def test_keys_come_back_as_they_were(family):
    con, db = worst()
    kept = {"i": "i", "d": "d", "t": "t"}.get(family, family)
    answer = db.sql(
        f"SELECT {kept} AS k, COUNT(*) AS n FROM worst GROUP BY {kept}",
        epsilon=2000,
        delta=0.1,
        max_keys_per_unit=6,
        max_rows_per_unit=6,
    )
    shown = {repr(key) for key, *_ in answer.fetchall()}
    true = {repr(key) for (key,) in con.execute(f"SELECT DISTINCT {kept} FROM worst").fetchall()}
    assert shown <= true | {repr(0.0)}
    assert len(shown) >= 2


QUERIES = [
    "SELECT browser, COUNT(*), SUM(minutes) FROM visits WHERE pages > 1 GROUP BY browser",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.uid = b.uid WHERE a.day < b.day",
    "SELECT COUNT(*) FROM visits v JOIN customer c ON v.uid = c_id JOIN nation ON c_nation = n_id",
    "SELECT n_name, COUNT(*) FROM customer LEFT JOIN nation ON c_nation = n_id GROUP BY n_name",
    "SELECT COUNT(*), SUM(i_price) FROM item",
    "SELECT SUM(i_price * i_n) FROM orders JOIN item ON i_order = o_id WHERE o_price > 100",
    "SELECT SUM(i_price) FROM customer, orders, item WHERE c_id = o_customer AND o_id = i_order",
    "SELECT COUNT(*) FROM item a JOIN item b ON a.i_order = b.i_order AND a.i_price < b.i_price",
    "SELECT COUNT(*), COUNT(o_id) FROM customer LEFT JOIN orders ON c_id = o_customer",
    (
        "SELECT COUNT(*) FROM customer LEFT JOIN orders ON c_id = o_customer AND o_price > 200 "
        "WHERE o_id IS NULL"
    ),
    "SELECT COUNT(*) FROM orders WHERE EXISTS (SELECT * FROM item WHERE i_order = o_id AND i_n > 2)",  # noqa: E501
    "SELECT COUNT(*) FROM orders WHERE NOT EXISTS (SELECT 1 FROM item WHERE i_order = o_id)",
    "SELECT COUNT(*) FROM orders WHERE o_id IN (SELECT i_order FROM item WHERE i_kind = 'a')",
    "SELECT COUNT(*) FROM orders WHERE o_id NOT IN (SELECT i_order FROM item WHERE i_price > 9)",
    (
        "SELECT COUNT(*) FROM orders WHERE o_id IN (SELECT i_order FROM item GROUP BY i_order HAVING "  # noqa: E501
        "SUM(i_n) > 5)"
    ),
    "SELECT COUNT(*) FROM customer WHERE c_nation IN (SELECT n_id FROM nation WHERE n_size > 5)",
    "SELECT COUNT(*) FROM customer WHERE EXISTS (SELECT 1 FROM nation WHERE n_id = c_nation)",
    "SELECT n, COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) GROUP BY n",
    "SELECT AVG(m) FROM (SELECT uid, MAX(minutes) - MIN(minutes) AS m FROM visits GROUP BY uid)",
    "SELECT AVG(s) FROM (SELECT i_order, SUM(i_price) AS s FROM item GROUP BY i_order)",
    (
        "WITH v AS (SELECT uid, minutes AS m FROM visits), w AS (SELECT * FROM v WHERE m > 10) "
        "SELECT COUNT(*), SUM(w.m) FROM w JOIN v USING (uid)"
    ),
    (
        "SELECT COUNT(*) FROM (SELECT uid, day FROM visits UNION ALL SELECT o_customer, o_day FROM "
        "orders)"
    ),
    "SELECT COUNT(*) FROM (SELECT DISTINCT uid, browser FROM visits)",
    (
        "SELECT k.w, COUNT(*) FROM visits JOIN (VALUES ('pc', 1), ('tv', 2)) AS k(d, w) ON d = device "  # noqa: E501
        "GROUP BY k.w"
    ),
    "SELECT COUNT(*) FROM visits JOIN nation ON n_size > pages",
    "SELECT COUNT(*) FROM visits CROSS JOIN nation",
    (
        "SELECT COUNT(*) FROM customer c JOIN (SELECT n_id, COUNT(*) AS k FROM nation GROUP BY n_id) x "  # noqa: E501
        "ON x.n_id = c.c_nation WHERE k > 1"
    ),
    (
        "SELECT COUNT(*) FROM (SELECT o_customer, COUNT(*) AS n FROM orders GROUP BY o_customer HAVING "  # noqa: E501
        "COUNT(*) > 1) a JOIN visits v ON v.uid = a.o_customer"
    ),
]


@pytest.mark.parametrize("query", QUERIES)
def test_no_row_depends_on_another_unit(query):
    con, users = shop(users=25), 25
    plan = planned(query, parsed(query)[0], database(con)._catalog, "uid", {})
    whole = rows_of(con, plan)
    assert whole
    for user in range(0, users, 8):
        less = shop(users=users, without=user)
        expected = {unit: rows for unit, rows in whole.items() if unit != user}
        assert rows_of(less, plan) == expected


def test_a_join_that_forgets_units_would_be_found():
    query = QUERIES[1]
    con = shop(users=25)
    plan = planned(query, parsed(query)[0], database(con)._catalog, "uid", {})
    wrong = dataclasses.replace(plan, rows=plan.rows.replace("= t4.u", "<> t4.u"))
    wrong.rows = wrong.rows.replace('t2."c0" = t4."c0"', "TRUE")
    whole = rows_of(con, wrong)
    less = rows_of(shop(users=25, without=4), wrong)
    assert less != {unit: rows for unit, rows in whole.items() if unit != 4}


def test_rows_are_those_that_plain_sql_has():
    con = shop(users=60)
    db = database(con)
    for query in QUERIES:
        if "GROUP BY" in query.rpartition(")")[2]:
            continue
        plan = planned(query, parsed(query)[0], db._catalog, "uid", {})
        mine = sum(map(len, rows_of(con, plan).values()))
        column = query.partition("FROM")[0].count("COUNT(*)")
        if column:
            cells = con.execute(query).fetchone()
            assert mine == cells[0], query
