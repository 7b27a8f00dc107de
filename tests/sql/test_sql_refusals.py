"""Private SQL: what is refused, why, where; nothing is charged for it, and no cell is quoted."""

from __future__ import annotations

import functools
import re

import duckdb
import pandas as pd
import polars as pl
import pytest

from skdp import PrivacyBudget, config_context
from skdp.exceptions import QueryRefusedError
from skdp.sql import PrivateDatabase, _catalog, _database, _stages
from tests.folding import each
from tests.sql.shop import TABLES, database, shop

REFUSED = [
    (
        "SELECT MAX(minutes) FROM visits",
        "column 12: MAX(minutes) would show the value of one row. For numbers use QUANTILE",
    ),
    ("SELECT MIN(minutes) FROM visits", "MIN(minutes) would show the value of one row"),
    ("SELECT browser FROM visits", "would show single rows"),
    ("SELECT browser, COUNT(*) FROM visits", "neither in GROUP BY nor inside of an aggregate"),
    ("SELECT * FROM visits", "would show single rows"),
    ("SELECT v.* FROM visits v", "would show single rows"),
    ("SELECT visits FROM visits", "no column"),
    ("SELECT rowid, COUNT(*) FROM visits GROUP BY rowid", "no column rowid"),
    (
        "SELECT uid, COUNT(*) FROM visits GROUP BY uid",
        "grouping by uid would show single privacy units",
    ),
    ("SELECT COUNT(*) OVER () FROM visits", "window"),
    ("SELECT SUM(minutes) OVER (ORDER BY day) FROM visits", "window"),
    ("SELECT COUNT(*) FROM visits QUALIFY TRUE", "QUALIFY"),
    ("SELECT COUNT(*) FROM visits; SELECT 1", "must be one statement, got 2"),
    ("SELECT COUNT(*) FROM visits; DROP TABLE visits", "must be one statement"),
    ("", "must start with SELECT"),
    ("DROP TABLE visits", "must start with SELECT"),
    ("PRAGMA database_list", "must start with SELECT"),
    ("COPY visits TO 'x.csv'", "must start with SELECT"),
    ("ATTACH 'x'", "must start with SELECT"),
    ("SET threads = 1", "must start with SELECT"),
    ("FROM visits", "must start with SELECT"),
    ("VALUES (1)", "must start with SELECT"),
    ("SELECT (((", "cannot be parsed as SQL"),
    ("SELECT COUNT(*) FROM", "cannot be parsed|no FROM"),
    ("SELECT 1", "no FROM"),
    ("(SELECT COUNT(*) FROM visits) LIMIT 1", "LIMIT after a SELECT in parentheses"),
    ("SELECT COUNT(*) FROM secret", "table secret is not declared"),
    ("SELECT COUNT(*) FROM no_such_table", "table no_such_table is not declared"),
    ("SELECT COUNT(*) FROM duckdb_tables", "not declared"),
    ("SELECT COUNT(*) FROM information_schema.tables", "not declared"),
    ("SELECT COUNT(*) FROM other.main.visits", "table other.main.visits is not declared"),
    ("SELECT COUNT(*) FROM temp.main.visits", "not declared"),
    ("SELECT COUNT(*) FROM main.secret", "table main.secret is not declared"),
    (
        "SELECT COUNT(*) AS n FROM main.visits WHERE main.visits.browser = 1",
        r"Write visits\.browser",
    ),
    ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "the table function"),
    ("SELECT COUNT(*) FROM 'x.parquet'", "not declared"),
    ("SELECT COUNT(*) FROM query('SELECT 1')", "the table function"),
    ("SELECT COUNT(*) FROM range(5)", "the table function"),
    ("SELECT COUNT(*) FROM (SELECT * FROM secret)", "not declared"),
    ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM secret)", "not declared"),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", "TABLESAMPLE"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 3)", "LIMIT in this subquery"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY uid)", "ORDER BY in this subquery"),
    (
        "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT 3)",
        "inside an expression is not supported",
    ),
    ("SELECT COUNT(*) FROM visits WHERE random() < 0.5", "RANDOM() is not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE now() > seen", "NOW() is not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE current_date > day", "CURRENT_DATE is not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE getenv('HOME') = 'x'", "GETENV('HOME') is not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE my_udf(minutes)", "MY_UDF(minutes) is not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE nextval('s') > 1", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE error('x')", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE repeat(note, 99999999) = 'x'", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE note SIMILAR TO 'x'", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE note LIKE browser", "must be a text literal"),
    ("SELECT COUNT(*) FROM visits WHERE note LIKE 'x' ESCAPE '!'", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE note COLLATE NOCASE = 'x'", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE seen AT TIME ZONE 'UTC' > day", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE CAST(seen AS TIMESTAMPTZ) > day", "cast to"),
    ("SELECT SUM(CAST(day AS DOUBLE)) FROM visits", "CAST(day AS DOUBLE) can only give NULL"),
    ("SELECT SUM(TRY_CAST(seen AS INT)) FROM visits", "seen holds timestamps. Write EXTRACT(YEAR"),
    ("SELECT COUNT(CAST(day AS DECIMAL)) FROM visits", "day holds dates"),
    ("SELECT COUNT(*) FROM visits WHERE CAST(day AS BOOLEAN)", "can only give NULL"),
    ("SELECT COUNT(*) FROM visits WHERE minutes::DATE > day", "minutes holds numbers. Use CAST("),
    ("SELECT COUNT((minutes > 1)::TIMESTAMP) FROM visits", "holds booleans"),
    ("SELECT COUNT(*) FROM visits WHERE browser > 5", "mixes integers and text"),
    ("SELECT COUNT(*) FROM visits WHERE minutes", "true or false"),
    ("SELECT COUNT(*) FROM visits WHERE day > 'yesterday'", "is not a date"),
    ("SELECT COUNT(*) FROM visits WHERE nope = 1", "there is no column nope here"),
    ("SELECT SUM(browser) FROM visits", "needs numbers, but browser holds text"),
    (
        "SELECT SUM(DISTINCT minutes) FROM visits",
        "DISTINCT in SUM(DISTINCT minutes) is not supported",
    ),
    ("SELECT COUNT(DISTINCT browser) FROM visits", "COUNT(DISTINCT uid)"),
    ("SELECT SUM(SUM(minutes)) FROM visits", "is not allowed here"),
    ("SELECT COUNT(*) FROM visits WHERE COUNT(*) > 1", "is not allowed here"),
    ("SELECT STRING_AGG(note, ',') FROM visits", "is not supported"),
    ("SELECT LIST(note) FROM visits", "is not supported"),
    (
        "SELECT ANY_VALUE(note) FROM visits",
        "ANY_VALUE(note) would show the value of one row. Add note to GROUP BY",
    ),
    ("SELECT FIRST(note) FROM visits", "is not supported"),
    ("SELECT ARG_MAX(note, minutes) FROM visits", "is not supported"),
    ("SELECT MODE(note) FROM visits", "is not supported"),
    ("SELECT QUANTILE_CONT(minutes, 0) FROM visits", "between 0 and 1"),
    ("SELECT QUANTILE_CONT(minutes, [0.1, 0.2]) FROM visits", "between 0 and 1"),
    ("SELECT COUNT(*) FROM visits GROUP BY ROLLUP (browser)", "not on the list"),
    ("SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((browser), ())", "not on the list"),
    ("SELECT COUNT(*) FROM visits ORDER BY minutes", "would show single rows"),
    ("SELECT COUNT(*) FROM visits HAVING minutes > 3", "would show single rows"),
    ("SELECT COUNT(*) FROM visits LIMIT 10%", "WITH TIES is not supported in LIMIT 10 PERCENT"),
    ("SELECT COUNT(*) FROM visits LIMIT (SELECT 1)", "LIMIT must be an integer"),
    ("SELECT COUNT(*) FROM visits FOR UPDATE", "FOR UPDATE"),
    ("SELECT COUNT(*) INTO x FROM visits", "INTO"),
    ("SELECT DISTINCT ON (browser) browser FROM visits", "DISTINCT ON"),
    ("WITH RECURSIVE a AS (SELECT 1) SELECT COUNT(*) FROM visits", "RECURSIVE"),
    ("SELECT COUNT(*) AS n, COUNT(*) AS N FROM visits", "two columns named 'n'"),
    ("SELECT COUNT(*) AS n, COUNT(*) + 1 AS n_low FROM visits", "two columns named 'n_low'"),
    ("SELECT COUNT(*) AS n, COUNT(*) + 1 AS N_LOW FROM visits", "two columns named 'n_low'"),
    (
        "SELECT AVG(pages) AS m, COUNT(*) AS m_population_low FROM visits",
        "two columns named 'm_population_low'",
    ),
    ('SELECT COUNT(*) AS "" FROM visits', "an empty name"),
    ('SELECT COUNT(*) AS "\ud800" FROM visits', "not Unicode"),
    (
        "SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM visits",
        "UNION of aggregated queries",
    ),
    ("SELECT COUNT(*) FROM visits a, visits b", "rows of different privacy units"),
    (
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.day = b.day",
        "rows of different privacy units",
    ),
    (
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.uid > b.uid",
        "rows of different privacy units",
    ),
    (
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.uid = b.uid OR TRUE",
        "rows of different privacy units",
    ),
    ("SELECT COUNT(*) FROM visits a FULL JOIN visits b ON a.uid = b.uid", "UNION ALL"),
    (
        "SELECT COUNT(*) FROM visits a, visits c RIGHT JOIN visits b ON a.uid = b.uid",
        "RIGHT JOIN is not supported here. Put its table first",
    ),
    (
        "SELECT COUNT(*) FROM visits NATURAL JOIN customer",
        "NATURAL, ASOF or POSITIONAL JOIN is not supported",
    ),
    (
        "SELECT COUNT(*) FROM visits ASOF JOIN customer ON uid >= c_id",
        "NATURAL, ASOF or POSITIONAL JOIN is not supported",
    ),
    ("SELECT COUNT(*) FROM visits, LATERAL (SELECT 1)", "in FROM is not supported"),
    (
        "SELECT COUNT(*) FROM nation LEFT JOIN customer ON n_id = c_nation",
        "belong to no privacy unit",
    ),
    (
        "SELECT c_name, COUNT(*) FROM nation LEFT JOIN customer ON n_id = c_nation GROUP BY c_name",
        "belong to no privacy unit",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT c_id FROM nation LEFT JOIN customer ON n_id = c_nation)",
        "belong to no privacy unit",
    ),
    (
        (
            "SELECT n_id, COUNT(*) FROM nation LEFT JOIN customer ON n_id = c_nation WHERE n_id > 99 "  # noqa: E501
            "GROUP BY n_id"
        ),
        "have no keys",
    ),
    (
        "SELECT COUNT(*) FROM nation WHERE EXISTS (SELECT 1 FROM visits)",
        "would decide which rows of public tables",
    ),
    (
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.day = v.day)",
        "rows of other privacy units",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE browser IN (SELECT browser FROM visits)",
        "rows of other privacy units",
    ),
    ("SELECT COUNT(*) FROM (SELECT uid FROM visits UNION SELECT c_id FROM customer)", "UNION ALL"),
    ("SELECT COUNT(*) FROM (SELECT n_id FROM nation UNION SELECT c_id FROM customer)", "UNION ALL"),
    (
        "SELECT COUNT(*) FROM (SELECT n_id FROM nation UNION ALL SELECT c_id FROM customer)",
        "private and a public",
    ),
    ("SELECT COUNT(*) FROM visits v JOIN customer ON v.uid = c_id WHERE x = 1", "no column x"),
    ("SELECT COUNT(*) FROM visits WHERE substring(note, -5, 3) = 'x'", "not be negative"),
    ("SELECT COUNT(*) FROM visits WHERE minutes = ANY (SELECT 1)", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE ? = 1", "not on the list"),
    ("SELECT COUNT(*) FROM visits PIVOT (COUNT(*) FOR browser IN ('a'))", "PIVOT"),
    ("SELECT COLUMNS(*) FROM visits", "not on the list"),
    ("SELECT COUNT(*) FROM visits WHERE note = 'a\0b'", "the character of code 0"),
]


@functools.cache
def small():
    return database(shop(users=3))


@each(("query", "why"), REFUSED, ids=[query for query, _ in REFUSED])
def test_refused_with_a_reason_and_nothing_is_charged(query, why):
    db = small()
    with pytest.raises(QueryRefusedError) as caught:
        db.sql(query, epsilon=1)
    pattern = re.sub(r"([()*%])", r"\\\1", why)
    assert re.search(pattern, str(caught.value)), str(caught.value)
    assert str(caught.value).endswith("Nothing was charged.")
    assert db.budget.spent.epsilon == 0


@pytest.mark.slow
def test_queries_of_any_size_are_refused_or_answered():
    db = database(shop(users=3))
    deep = "(" * 3000 + "1" + ")" * 3000
    grown = "note"
    for _ in range(40):
        grown = f"({grown} || {grown})" if len(grown) < 40_000 else grown
    chain = ", ".join(f"c{i} AS (SELECT a.* FROM c{i - 1} a JOIN c{i - 1} b ON a.uid = b.uid)"
                      for i in range(1, 12))  # fmt: skip
    doubled = ", ".join(
        f"d{i} AS (SELECT uid, note || note AS note FROM d{i - 1})" for i in range(1, 40)
    )
    for query in (
        f"SELECT COUNT(*) FROM visits WHERE {deep} = 1",
        f"WITH c0 AS (SELECT * FROM visits), {chain} SELECT COUNT(*) FROM c11",
        "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(["ok"] * 60_000),
        "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 5000 + "ok",
        "SELECT SUM(" + "x * ".replace("x", "minutes") * 151 + "1) FROM visits",
        "SELECT SUM(YEAR(day" + " + INTERVAL 1 DAY" * 200 + ")) FROM visits",
        "SELECT SUM(minutes" + " / (pages" * 200 + ")" * 200 + ") FROM visits",
    ):
        with pytest.raises(QueryRefusedError, match=r"characters|nest|too many tables"):
            db.sql(query)
    for query in (  # each is as long in DuckDB's SQL as it is here
        f"SELECT COUNT(*) FROM visits WHERE {grown} = 'x'",
        "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(f"pages = {i}" for i in range(2000)),
        "SELECT SUM(" + " - ".join(f"pages * {i}" for i in range(2000)) + ") FROM visits",
        "SELECT SUM(pages" + " / (pages" * 20 + ")" * 20 + ") FROM visits",
    ):
        assert len(db.sql(query)) == 1
    answer = db.sql(f"WITH d0 AS (SELECT * FROM visits), {doubled} SELECT COUNT(note) FROM d39")
    assert len(answer) == 1  # texts of 2**39 characters are cut


@pytest.mark.slow
def test_declarations_are_checked():
    budget = PrivacyBudget(1, 1e-6, adjacency="add_or_remove_one", unit="uid")

    def declare(tables, database=None, given=budget):
        return PrivateDatabase(database or shop(users=2), tables=tables, budget=given)

    for tables, error, why in (
        ({}, TypeError, "tables must be a dict"),
        ({"nope": "public"}, ValueError, "no table 'nope'"),
        ({"visits": "private"}, TypeError, "declared as 'public'"),
        ({"visits": {}}, ValueError, "either 'unit'"),
        ({"visits": {"unit": "nope"}}, ValueError, "no column 'nope'"),
        ({"visits": {"unit": "uid", "bound": {}}}, TypeError, "declared as 'public', or by a dict"),
        (
            {"visits": {"unit": "uid", "columns": {"minutes": (5, 1)}}},
            ValueError,
            "the lower one first",
        ),
        ({"visits": {"unit": "uid", "columns": {"minutes": 5}}}, TypeError, "two numbers"),
        ({"visits": {"unit": "uid", "keys": {"device": "pc"}}}, TypeError, "must be a list"),
        ({"visits": {"unit": "uid"}, "VISITS": "public"}, ValueError, "declared twice"),
        (
            {"visits": {"unit": "uid"}, "customer": {"unit": "c_name"}},
            TypeError,
            "must have the same type",
        ),
        ({"item": {"owner": ("i_order", "orders", "o_id")}}, ValueError, "declared private table"),
        ({"item": {"owner": "orders"}}, TypeError, "'owner' of table 'item' must be"),
        (
            {"orders": TABLES["orders"], "item": {"owner": ("i_kind", "orders", "o_id")}},
            TypeError,
            "must have the same type",
        ),
        (
            {"orders": TABLES["orders"], "item": {"owner": ("i_order", "orders", "o_customer")}},
            ValueError,
            "several owners",
        ),
        (
            {
                "orders": {"owner": ("o_id", "item", "i_order")},
                "item": {"owner": ("i_order", "orders", "o_id")},
            },
            ValueError,
            "form a circle",
        ),
    ):
        con = shop(users=40)
        with pytest.raises(error, match=why):
            declare(tables, con)
    with pytest.raises(TypeError, match="PrivacyBudget"):
        declare(TABLES, given=None)
    with pytest.raises(TypeError, match="DuckDB connection"):
        declare({"t": "public"}, 5)
    with pytest.raises(FileNotFoundError):
        declare({"t": "public"}, "no/such.duckdb")
    with pytest.raises(TypeError, match="cannot be read by DuckDB"):
        declare({"t": "public"}, {"t": object()})


@each("engine", ["polars", "spark", "DuckDB", None, 3, ["duckdb"]])
def test_every_engine_but_duckdb_is_refused_with_the_line_to_write(engine):
    budget = PrivacyBudget(1, 1e-6, adjacency="add_or_remove_one", unit="uid")
    frame = shop(users=2).sql("SELECT * FROM visits").pl()
    tables = {"visits": {"unit": "uid"}}
    with pytest.raises(ValueError, match="engine must be 'duckdb', got") as caught:
        PrivateDatabase({"visits": frame}, tables=tables, budget=budget, engine=engine)
    (line,) = re.findall(r"PrivateDatabase\(.*\)", str(caught.value))
    names = {"PrivateDatabase": PrivateDatabase, "frame": frame, "tables": tables, "budget": budget}
    # The line names its two parameters with an ellipsis.
    line = line.replace("tables=...", "tables=tables").replace("budget=...", "budget=budget")
    assert "charged once" in eval(line, names).explain("SELECT COUNT(*) FROM visits")
    assert budget.spent.epsilon == 0
    PrivateDatabase({"visits": frame}, tables=tables, budget=budget, engine="duckdb")


def test_a_lazy_table_that_fails_on_a_cell_is_refused_when_it_is_given_and_quotes_none():
    frame = shop(users=20).sql("SELECT * FROM visits").pl().lazy()
    budget = PrivacyBudget(1, 1e-6, adjacency="add_or_remove_one", unit="uid")
    failing = frame.with_columns(pl.col("browser").cast(pl.Int64))
    with pytest.raises(TypeError, match="Compute a lazy table of polars before") as caught:
        PrivateDatabase({"visits": failing}, tables={"visits": {"unit": "uid"}}, budget=budget)
    assert not re.search("chrome|firefox|it's", str(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_views_generated_columns_and_collations_are_no_tables():
    con = shop(users=2)
    con.execute("CREATE VIEW v AS SELECT uid, 1 / pages AS x FROM visits")
    con.execute("CREATE TABLE g (uid BIGINT, y INTEGER GENERATED ALWAYS AS (100 / uid) VIRTUAL)")
    con.execute("CREATE TABLE c (uid VARCHAR COLLATE NOCASE)")
    con.execute("CREATE TEMP TABLE temporary_one (uid BIGINT)")
    budget = PrivacyBudget(1, 1e-6, adjacency="add_or_remove_one", unit="uid")
    for name, why in (("v", "Views"), ("g", "generated"), ("c", "collations"),
                      ("temporary_one", "no table")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            PrivateDatabase(con, tables={name: {"unit": "uid"}}, budget=budget)


@each(
    "macro",
    [
        "CREATE MACRO lower(x) AS 'hacked'",
        'CREATE MACRO "+"(a, b) AS 42',
        "CREATE MACRO hash(x, y, z) AS 1",
        "CREATE MACRO SUM(x) AS 3",
        "CREATE MACRO least(a, b) AS 7",
        "CREATE SCHEMA other; CREATE MACRO other.count(x) AS 7",
        "CREATE SCHEMA memory.temp; CREATE MACRO memory.temp.lower(x) AS 'hacked'",
        # One that hides all others, and itself.
        "CREATE MACRO duckdb_functions() AS TABLE SELECT 'f' AS function_name, true AS internal",
    ],
)
def test_macros_of_the_database_are_never_run(macro):
    con = shop(users=9)
    query = (
        "SELECT LOWER(browser), SUM(LEAST(pages + 1, 3)) FROM visits a JOIN customer ON uid = c_id "
        "GROUP BY 1"
    )
    with config_context(noise="seeded"):
        db = database(con)
        expected = db.sql(query, random_state=1).fetchall()
        con.execute(macro)
        for later in (db, database(con)):
            assert later.sql(query, random_state=1).fetchall() == expected
    cursor = db._catalog.cursor()
    assert cursor.execute("SELECT hash(1, 2, 3) <> 1, 1 + 1, lower('A')").fetchone()[1:] == (2, "a")


def test_settings_of_the_connection_change_nothing():
    con = shop(users=50)
    db = database(con)
    query = "SELECT AVG(pages / 2) AS m FROM visits"
    parameters = {"epsilon": 500, "bounds": {"pages / 2": (-5, 5)}, "max_rows_per_unit": 16}
    before = db.sql(query, **parameters).to_dict()["m"][0]
    con.execute("SET integer_division = true")
    con.execute("SET default_order = 'DESC'")
    con.execute("SET default_null_order = 'NULLS_FIRST'")
    con.execute("SET max_execution_time = 1")
    con.execute("SET preserve_identifier_case = 'lowercase'")
    assert db.sql(query, **parameters).to_dict()["m"][0] == pytest.approx(before, abs=0.05)
    assert con.execute("SELECT current_setting('integer_division')").fetchone() == (True,)
    con.execute("SET default_collation = 'nocase'")  # a setting of the whole database
    spent = db.budget.spent.epsilon
    with pytest.raises(RuntimeError, match="RESET default_collation"):
        db.sql(query, **parameters)
    assert db.budget.spent.epsilon == spent
    assert con.execute("SELECT current_setting('default_collation')").fetchone() == ("nocase",)


def test_a_rare_key_never_has_the_numbers_of_a_common_one():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT range AS uid, 'often' AS k FROM range(4000)")
    con.execute("INSERT INTO t VALUES (9999, 'secret of one')")
    con.execute("SET default_order = 'DESC'")
    budget = PrivacyBudget(20, 1e-4, adjacency="add_or_remove_one", unit="uid")
    db = PrivateDatabase(con, tables={"t": {"unit": "uid"}}, budget=budget)
    answer = db.sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", epsilon=5, delta=1e-6)
    assert answer.to_dict()["k"] == ["often"]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE visits RENAME TO v; CREATE VIEW visits AS FROM v WHERE error('x')",
        "CREATE MACRO least(a, b) AS error('x')",
        "DROP TABLE visits",
    ],
)
def test_what_another_connection_changes_after_the_checks_is_not_seen(change, monkeypatch):
    con = shop(users=3)
    db = database(con)
    compute = _database._compute

    def changed(cursor, *rest):
        con.execute(change)
        return compute(cursor, *rest)

    monkeypatch.setattr(_database, "_compute", changed)
    assert len(db.sql("SELECT COUNT(*), SUM(LEAST(pages, 2)) FROM visits WHERE ok")) == 1


def test_public_rows_that_come_after_planning_are_not_joined(monkeypatch):
    """How many rows they make of one was counted before."""
    con = shop(users=50)
    query = "SELECT COUNT(*) AS n FROM customer JOIN nation ON c_nation = n_id"
    true = con.execute(query).fetchone()[0]
    planned = _stages.planned

    def changed(*args, **kwargs):
        plan = planned(*args, **kwargs)
        con.execute("INSERT INTO nation SELECT 1, 'more', 1 FROM range(5000)")
        return plan

    monkeypatch.setattr(_stages, "planned", changed)
    answer = database(con).sql(query, epsilon=500, max_rows_per_unit=16)
    assert answer.to_dict()["n"][0] == pytest.approx(true, abs=5)


def test_tables_of_another_engine_are_none():
    con = shop(users=3)
    assert len(_catalog._base_tables(con)) == 6

    class OfAnotherEngine:
        def execute(self, statement):
            other = "(SELECT 'memory' AS database_name, 'sqlite' AS type)"
            assert "system.main.duckdb_databases()" in statement
            return con.execute(statement.replace("system.main.duckdb_databases()", other))

    assert _catalog._base_tables(OfAnotherEngine()) == []


@pytest.mark.parametrize("pair", [(240, 0), (5, 5), (0, float("inf")), (float("nan"), 1)])
def test_stated_bounds_are_taken_or_refused_never_passed_over(pair):
    db = database(shop(users=3))
    with pytest.raises(ValueError, match="the lower one first"):
        db.sql("SELECT SUM(pages) FROM visits", bounds={"pages": pair})
    with pytest.raises(TypeError, match="two numbers"):
        db.sql("SELECT SUM(pages) FROM visits", bounds={"pages": 5})
    with pytest.raises(TypeError, match="bounds must be a dict"):
        db.sql("SELECT SUM(pages) FROM visits", bounds=pair)
    assert db.budget.spent.epsilon == 0


def test_a_schema_may_be_called_like_that_of_temporary_tables():
    con = shop(users=3)
    con.execute("CREATE SCHEMA temp; CREATE TABLE memory.temp.skdp_rows_of_query (uid BIGINT)")
    assert len(database(con).sql("SELECT COUNT(*) FROM visits")) == 1


def test_a_closed_connection_is_told_and_nothing_is_charged():
    con = shop(users=3)
    db = database(con)
    con.close()
    with pytest.raises(RuntimeError, match="nothing was charged"):
        db.sql("SELECT COUNT(*) FROM visits")
    assert db.budget.spent.epsilon == 0


def test_the_callers_variables_are_no_tables():
    frame = pd.DataFrame({"x": [1]})  # noqa: F841  DuckDB finds it by name
    assert len(duckdb.sql("SELECT * FROM frame").fetchall()) == 1
    with pytest.raises(QueryRefusedError, match="table frame is not declared"):
        database(shop(users=3)).sql("SELECT COUNT(*) FROM frame")
