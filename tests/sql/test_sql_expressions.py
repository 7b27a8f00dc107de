"""Expressions as a typed tree: values beside DuckDB's, linear size, time zones, settings."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp, parse_one

from skdp import PrivacyBudget
from skdp.exceptions import QueryRefusedError
from skdp.sql import PrivateDatabase, _stages
from skdp.sql._sources import Compiler
from skdp.sql.ir import LONGEST_SQL, Tree, integer
from skdp.sql.operators import Rule
from skdp.sql.rules import RULES, compiled
from tests.folding import each
from tests.sql.expressions import CHANGES, REASONS, Checker, counted
from tests.sql.shop import database, shop

MANY = {"epsilon": 1000, "delta": 1e-3, "max_keys_per_unit": 1, "max_rows_per_unit": 1}


@pytest.mark.slow
def test_random_expressions_raise_for_no_cell_and_agree_with_duckdb_or_are_listed():
    found, unlisted = counted(20261127, 1_000)
    assert not unlisted
    assert found["same"] > 600
    known = {"same", "refused", "DuckDB raises", *REASONS}
    assert {part for outcome in found for part in outcome.split(" and ")} <= {
        part for outcome in known for part in outcome.split(" and ")
    }
    assert set(CHANGES) <= set(REASONS)


@pytest.mark.slow
def test_operands_that_have_names_have_the_same_values(monkeypatch):
    monkeypatch.setattr("skdp.sql.ir._SHORT", 0)
    checker = Checker()
    assert "list_transform" in checker.sql("NULLIF(b + 1, 2)")
    _, unlisted = counted(11, 200, checker)
    assert not unlisted


def test_a_rule_that_raises_or_differs_is_found(monkeypatch):
    checker = Checker()
    assert checker.outcome("ABS(b)")[0] == "same"
    raw = Rule(lambda tree, node, one: tree.make(one.type, "abs({0})", one), ("this",))
    monkeypatch.setitem(RULES, exp.Abs, raw)
    with pytest.raises(duckdb.Error):
        checker.outcome("ABS(b)")
    wrong = Rule(lambda tree, node, one: tree.make(one.type, "({0} % 5)", one), ("this",))
    monkeypatch.setitem(RULES, exp.Abs, wrong)
    assert checker.outcome("ABS(ut)")[0] == "unlisted"


@each(
    "expression",
    [
        *("p * 3 = 0.45", "p % 0.05", "FLOOR(p * 100)", "ROUND(p, 1)", "p + 0.1", "ub", "ub + 1"),
        *("f = 0.1", "f IN (0.1, 7)", "f BETWEEN 0.1 AND 3.4e38", "h", "h % 7", "ti * ti", "-ti"),
        *("EXTRACT(EPOCH FROM n)", "EXTRACT(DOW FROM n)", "DATE_PART('hour', c)", "bl", "u", "c"),
        *("u = '6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b'", "c > '12:00:00'", "CAST(ut AS UBIGINT)"),
        *("q / 0.07", "m * m", "i * i * i", "b + b", "COALESCE(ti, b)", "ROUND(b, -3)"),
    ],
)
def test_exact_values_of_all_types(expression):
    assert Checker().outcome(expression)[0] == "same"


# --- size -----------------------------------------------------------------------------------------


SHAPES = {
    "sum": lambda n: " + ".join(["minutes"] * n),
    "decimals": lambda n: " - ".join(f"price * {i}" for i in range(n)),
    "divisions": lambda n: " + ".join(f"pages / (pages - {i})" for i in range(n)),
    "cases": lambda n: " + ".join(f"CASE pages WHEN {i} THEN minutes ELSE 1 END" for i in range(n)),
    "or": lambda n: " OR ".join(f"pages = {i}" for i in range(n)),
    "and": lambda n: " AND ".join(f"NULLIF(pages, {i}) IS NOT NULL" for i in range(n)),
    "text": lambda n: " || ".join(["note"] * n),
    "rounds": lambda n: " + ".join(f"ROUND(SQRT(minutes), {i % 9})" for i in range(n)),
}


@each("shape", sorted(SHAPES))
def test_nodes_and_sql_are_linear_in_the_terms(shape):
    catalog = database(shop(users=1))._catalog
    sizes = []
    for terms in (250, 2_000):
        compiler = Compiler(catalog)
        body = compiler.body(parse_one("SELECT 1 FROM visits", read="duckdb"), {})
        node = compiled(parse_one(SHAPES[shape](terms), read="duckdb"), body.scope)
        sizes.append((len(compiler.tree.known), len(node.sql)))
    (nodes, characters), (more_nodes, more_characters) = sizes
    assert more_nodes <= 9 * nodes
    assert more_characters <= 9 * characters
    assert more_nodes <= 12 * 2_000


def test_nested_operands_are_written_once():
    sizes = []
    for levels in (8, 16):
        text = "pages + 7 * minutes / 3"
        for i in range(levels):
            text = (
                f"NULLIF(({text}) / (CASE {text} WHEN 1 THEN 2 ELSE pages END), {i})"
                if i < 1
                else (f"NULLIF(1 / ({text}), {i})")
            )
        con = shop(users=2)
        compiler = Compiler(database(con)._catalog)
        body = compiler.body(parse_one("SELECT 1 FROM visits", read="duckdb"), {})
        node = compiled(parse_one(text, read="duckdb"), body.scope)
        con.execute(f"SELECT {node.sql} {body.sql}").fetchall()
        sizes.append(len(node.sql))
    assert sizes[1] < 3 * sizes[0]
    assert "list_transform" in node.sql  # names for operands


def test_limits_are_told():
    tree = Tree()
    one = tree.leaf(integer(8), "x" * 400_000)
    with pytest.raises(ValueError, match=f"{LONGEST_SQL:,} characters"):
        tree.make(integer(8), "({0} + {1} + {2})", one, one, one)
    with pytest.raises(QueryRefusedError, match="nested more than 150 levels deep"):
        database(shop(users=1)).sql("SELECT SUM(" + "minutes * " * 160 + "1) FROM visits")


# Of each line of the page's table of refused expressions some, and a part of what is said.
REFUSED = {
    "pages // minutes": "FLOOR\\(a / b\\)",
    "browser + 1": "CAST\\(x AS DOUBLE\\)",
    "ok + 1": "CAST\\(x AS DOUBLE\\)",
    "day + 1": "EXTRACT\\(YEAR",
    "note > day": "CAST\\(x AS DATE\\)",
    "note = pages": "CAST",
    "seen - seen": "DATE_DIFF",
    "INTERVAL 3 DAY": "not on the list",
    "day + INTERVAL 3 QUARTER": "use YEAR, MONTH",
    "seen AT TIME ZONE 'UTC'": "not on the list",
    "CAST(seen AS TIMESTAMPTZ)": "a cast to",
    "CAST(note AS TIME)": "a cast to",
    "CAST(note AS BLOB)": "a cast to",
    "CURRENT_DATE": "[Ww]rite the date itself",
    "STRFTIME(day, note)": "text literal",
    "STRFTIME(day, '%q')": "text literal",
    "ROUND(minutes, pages)": "literal integer",
    "note SIMILAR TO 'x'": "not on the list",
    "regexp_matches(note, 'x')": "not on the list",
    "POWER(minutes, 2)": "not on the list",
    "EXP(minutes)": "not on the list",
}


@each(("expression", "way"), list(REFUSED.items()), ids=list(REFUSED))
def test_what_is_refused_says_the_way_out(expression, way):
    with pytest.raises(QueryRefusedError, match=f"(?i){way}"):
        database(shop(users=1)).explain(f"SELECT COUNT({expression}) FROM visits")


# --- types of keys, time zones, settings ---------------------------------------------------------


def zoned(zone):
    con = duckdb.connect()
    con.execute(f"SET TimeZone = '{zone}'")
    con.execute(
        "CREATE TABLE t AS SELECT i AS uid, TIMESTAMPTZ '2024-03-31 00:30:00+00' + to_hours(i % 4) "
        "AS z, CAST(i % 3 AS UBIGINT) AS ub, CAST(i % 3 AS TINYINT) AS ti, "
        "CAST(i % 3 AS VARCHAR)::ENUM('0', '1', '2') AS en, ('a' || i % 3)::BLOB AS bl, "
        "TIME '10:00:00' + to_minutes(i % 3) AS c, CAST(i % 3 AS HUGEINT) AS h, "
        "TIMESTAMP_NS '2024-01-01 00:00:00.123456789' AS n, (i % 3)::FLOAT / 10 AS f, "
        "md5((i % 3)::VARCHAR)::UUID AS u, CAST(i % 3 AS DECIMAL(38, 10)) AS q "
        "FROM range(6000) r(i)"
    )
    budget = PrivacyBudget(1e9, 0.9, adjacency="add_or_remove_one", unit="uid")
    return con, PrivateDatabase(con, tables={"t": {"unit": "uid"}}, budget=budget)


ZONED = (
    "DATE_TRUNC('hour', z)",
    "EXTRACT(HOUR FROM z)",
    "CAST(z AS VARCHAR)",
    "STRFTIME(z, '%H')",
    "CAST(z AS DATE)",
    "z + INTERVAL 1 DAY > '2024-04-01 02:00:00'",
    "DATE_DIFF('hour', z, TIMESTAMPTZ '2024-04-01 00:00:00+02')",
)


@each("expression", ZONED)
def test_zoned_timestamps_are_computed_in_utc_whatever_the_connection_says(expression):
    query = f"SELECT {expression} AS k, COUNT(*) AS n FROM t GROUP BY k"
    answers, true = [], None
    for zone in ("UTC", "Asia/Tokyo"):
        con, db = zoned(zone)
        true = true or con.execute(f"SELECT DISTINCT {expression} FROM t").fetchall()
        keys = db.sql(query, **MANY).to_dict()["k"]
        answers.append(sorted(map(str, keys)))
        assert con.execute("SELECT current_setting('TimeZone')").fetchone() == (zone,)
    assert answers[0] == answers[1] == sorted(str(key) for (key,) in true)


@each("column", ["z", "ub", "ti", "en", "bl", "c", "h", "n", "f", "u", "q"])
def test_keys_come_back_in_the_type_of_their_column(column):
    con, db = zoned("UTC")
    answer = db.sql(f"SELECT {column} AS k, COUNT(*) AS rows FROM t GROUP BY {column}", **MANY)
    sql = f"SELECT DISTINCT {column} FROM t ORDER BY ALL"
    kind = con.sql(sql).types[0]
    assert answer.relation.types[0] == kind
    true = sorted(str(key) for (key,) in con.execute(sql).fetchall())
    assert sorted(str(key) for key, *_ in answer.fetchall()) == true


def test_no_setting_of_the_connection_is_changed():
    con = shop(users=20)
    con.execute("SET default_null_order = 'NULLS_FIRST'; SET integer_division = true")
    con.execute("SET default_order = 'DESC'; SET threads = 1; SET TimeZone = 'Asia/Tokyo'")
    settings = "SELECT name, value FROM duckdb_settings() ORDER BY name"
    before = con.execute(settings).fetchall()
    db = database(con)
    db.sql("SELECT pages / 2 AS k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=9)
    db.sql("SELECT n_id, COUNT(*) FROM nation GROUP BY n_id")
    assert con.execute(settings).fetchall() == before


def test_queries_on_public_tables_can_be_stopped(monkeypatch):
    stopped = []

    def cancellable(work, cancel):
        stopped.append(cancel.__name__)
        return work()

    monkeypatch.setattr(_stages, "cancellable", cancellable)
    assert len(database(shop(users=1)).sql("SELECT COUNT(*) FROM nation")) == 1
    assert stopped == ["interrupt"]


def test_nan_is_missing_where_values_are_counted():
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT i AS uid, IF(i < 40, 'nan'::DOUBLE, 1) AS x FROM range(90) r(i)"
    )
    budget = PrivacyBudget(1e6, 0.1, adjacency="add_or_remove_one", unit="uid")
    db = PrivateDatabase(con, tables={"t": {"unit": "uid"}}, budget=budget)
    row = db.sql(
        "SELECT COUNT(x) AS n, COUNT(*) AS r FROM t", **(MANY | {"epsilon": 5000})
    ).to_dict()
    assert (row["n"], row["r"]) == ([50], [90])


def test_greatest_and_least_of_aggregates_have_intervals():
    row = (
        database()
        .sql(
            "SELECT COUNT(*) AS n, GREATEST(COUNT(*), 9) AS g, LEAST(COUNT(*), COUNT(ok), 5) AS l "
            "FROM visits",
            epsilon=2,
            max_rows_per_unit=12,
        )
        .to_dict()
    )
    assert row["g_low"] == row["n_low"]
    assert row["g_high"] == row["n_high"]
    assert (row["l_low"], row["l"], row["l_high"]) == ([5], [5], [5])
