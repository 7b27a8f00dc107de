"""DuckDB relations: refused by their plan alone where a cell could make them fail."""

from __future__ import annotations

import pyarrow as pa
import pytest

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.tabular.relation_plans import check_plan
from tests.folding import each

duckdb = pytest.importorskip("duckdb")
if int(duckdb.__version__.partition(".")[0]) < 2:
    pytest.skip("the plans of queries on pandas are shown by DuckDB 2", allow_module_level=True)

_NUMBERS = ("u", "b", "t", "d", "f", "x", "y")
_TIMES = ("day", "ts", "tn")
EXPRESSIONS = [  # over `cells`, whose columns hold the extremes of their types
    *(f"{name}({column})" for name in ("round", "floor", "median", "isnan") for column in "ubtdf"),
    *(f"{name}({column})" for name in ("round", "floor", "ceil") for column in "xy"),
    *(f"round({column}, {n})" for column in "ubtdf" for n in (0, 2)),
    *(f"{column} {of}" for column in "ubt" for of in ("// 2", "// -3", "% 7", "/ 0", "> 2.5")),
    *(f"{column} IN (1, 2.5)" for column in _NUMBERS[:5]),
    *(
        "round(d, -30)",
        "round(f, -1)",
        "round(x, 1)",
        "round(y, 0)",
        "d + 1",
        "f * f",
        "-d",
        "d / 0",
        "abs(f)",
        "u / 2",
    ),
    *(f"{part}({column})" for part in ("year", "month", "hour", "week") for column in _TIMES),
    *(f"EXTRACT({part} FROM {column})" for part in ("dow", "quarter") for column in _TIMES),
    *(f"{column}::DATE" for column in _TIMES),
    *("ts::VARCHAR", "day::VARCHAR", "tn::TIMESTAMP", "day - DATE '2020-01-01'", "isfinite(ts)"),
    *("ts >= '2024-01-01'", "ts > TIMESTAMP '2024-01-01 10:00' + INTERVAL 1 MONTH"),
    *("day BETWEEN DATE '2024-01-01' AND '2025-01-01'", "day > current_date - 30"),
    *("k[1:2]", "k[:3]", "k[-2:]", "k[2]", "left(k, 2)", "right(k, -2)", "substr(k, 2, 3)"),
    *("replace(k, 'é', 'ee')", "lower(k)", "trim(k)", "k ILIKE '%a_'", "k || k", "concat(k, u)"),
    *("k LIKE k", "md5(k)", "length(k)", "e = 'a'", "'b'::kind", "e::VARCHAR", "hash(k)"),
    *("TRY(u + 1)", "TRY(b * b)", "TRY(x * x)", "TRY(u // u)", "TRY(k::INTEGER)", "TRY(sqrt(d))"),
    *("TRY(date_trunc('month', ts))", "TRY(date_trunc('day', day))", "TRY(day + u)"),
    *("TRY(ts + INTERVAL 1 DAY)", "TRY(strptime(k, '%Y'))", "TRY(d::BIGINT)"),
    *("TRY_CAST(k AS DATE)", "TRY_CAST(day AS TIMESTAMP)", "TRY_CAST(d AS DECIMAL(9, 2))"),
    *("CASE WHEN u = 7 THEN CAST('7' AS INTEGER) ELSE 10 * 60 END", "u > -1", "CAST('3' AS INT)"),
    *("lag(u) OVER (ORDER BY k)", "lead(k, 2, 'x') OVER (PARTITION BY o ORDER BY ts)"),
    *("sum(u) OVER (ORDER BY u ROWS 2 PRECEDING)", "count(*) OVER ()"),
    *("string_agg(k, ';')", "sum(b)", "avg(b)", "max(tn)", "arg_min(k, d)", "count(DISTINCT k)"),
    *("(SELECT avg(d) FROM cells)", "(SELECT max(u) FROM cells c WHERE c.k = cells.k)"),
]
TOTAL = [
    "FROM t",
    "FROM df",
    "SELECT u, k FROM t WHERE x > 2 AND k LIKE 'a%' OR k IS NULL AND NOT u IN (1, 2)",
    "SELECT u, TRY_CAST(k AS INTEGER) AS k FROM df",
    "SELECT u + 1.5::DOUBLE, d * 2, d / 0, u::BIGINT, u::VARCHAR, x::DOUBLE FROM t",
    "SELECT u FROM t WHERE u > 2.5 AND b > 2.5",
    "SELECT u, COUNT(*), SUM(d), AVG(b), MIN(k) FROM t GROUP BY u HAVING COUNT(*) > 1",
    "SELECT a.u, b.k FROM t a LEFT JOIN df b ON a.u = b.u",
    "SELECT CASE WHEN d > 1 THEN k ELSE LOWER(k) || 'x' END, COALESCE(k, 'x') FROM t",
    "FROM t UNION ALL FROM t ORDER BY 1 LIMIT 3",
    "FROM df LIMIT 5 OFFSET 1",
    "SELECT DISTINCT k FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY d) = 1",
    "WITH q AS MATERIALIZED (FROM t) FROM q a JOIN q b USING (u)",
    "FROM t WHERE EXISTS (FROM df c WHERE c.u = t.u)",
    "SELECT CAST('3' AS INTEGER) AS u FROM range(5)",
    # registered tables, and views of them
    "FROM r",
    "SELECT R.u FROM main.r",
    "SELECT u FROM temp.r WHERE u IN (SELECT u FROM df)",
    "FROM arrow JOIN r USING (u)",
    "FROM of_frame",
    'SELECT q."a b" FROM "of a view" AS q WHERE q."c""d" = \'x\'',
    "WITH r AS (SELECT * FROM r WHERE u > 0), s AS (FROM r) SELECT s.k FROM s",
    "WITH a AS (WITH r AS (SELECT 2 AS u) FROM r) SELECT a.u, r.k FROM a, r",
    "SELECT z.a FROM r AS z(a, b) TABLESAMPLE 50%",
]
MAY_FAIL = {
    "SELECT CAST(k AS INTEGER) AS k FROM t": "a CAST to INTEGER.*TRY_CAST",
    "FROM view_of_casts": "a CAST to INTEGER",
    "FROM casts_of_frame": "a CAST to INTEGER",
    "SELECT u FROM df WHERE CASE WHEN u > 9 THEN k = u END": "a CAST to",
    "SELECT u + 1 FROM t": r"'[+]'.*TRY\(",
    "SELECT -u FROM t": "'-'.*::DOUBLE",
    "SELECT ABS(u) FROM t": "'abs'",
    "SELECT x * 2 FROM t": "'[*]'",
    "SELECT SUM(x) FROM t": "'sum'.*::DOUBLE",
    "SELECT SQRT(d) FROM t": r"'sqrt'.*TRY\(",
    "SELECT d::INTEGER FROM t": "a CAST to INTEGER",
    "SELECT d::FLOAT FROM t": "a CAST to FLOAT",
    "SELECT b::INTEGER FROM t": "a CAST to INTEGER",
    "SELECT b::UBIGINT FROM t": "a CAST to UBIGINT",
    "SELECT b::DECIMAL(18, 3) FROM t": "a CAST to DECIMAL",
    "SELECT k::DATE FROM t": "a CAST to DATE",
    "SELECT k::BLOB FROM t": "a CAST to BLOB",
    "SELECT k::kind FROM t": "a CAST to ENUM",
    "SELECT REPEAT(k, u) FROM t": "'repeat'",
    "SELECT TRY(REPEAT(k, u)) FROM t": "'repeat'",
    "SELECT TRY(REPLACE(k, k, k)) FROM t": "'replace'",
    "SELECT LEFT(k, u) FROM t": "'left'",
    "SELECT REPLACE(k, k, k) FROM t": "'replace'",
    "SELECT u // u FROM t": "'//'",
    "SELECT u // -1 FROM t": "'//'",
    "SELECT u % 0 FROM t": "'%'",
    "SELECT ROUND(x, -1) FROM t": "'round'",
    "SELECT ROUND(u, -1) FROM t": "'round'",
    "SELECT REGEXP_MATCHES(k, k) FROM t": "'regexp_matches'",
    "SELECT STRPTIME(k, '%Y') FROM t": "'strptime'",
    "SELECT DATE_TRUNC('month', day) FROM t": "CAST|'date_trunc'",
    "SELECT UNNEST([u]) FROM t": "'LOGICAL_UNNEST'",
    "SELECT LAG(u, b) OVER (ORDER BY u) FROM t": "'WINDOW_LAG'",
    "SELECT SUM(u) OVER (ORDER BY u ROWS u PRECEDING) FROM t": "'sum'",
    "SELECT SUM(u) OVER (ORDER BY u RANGE 5 PRECEDING) FROM t": "'sum'|'-'",
    # what a condition on a cell guards
    "FROM t WHERE u <> 7 OR CAST('x' AS INTEGER) = 1": "a CAST to INTEGER",
    "SELECT CASE WHEN u = 7 THEN 'c'::kind END FROM t": "a CAST to ENUM",
    "SELECT CASE WHEN u = 7 THEN 1 // 0 END FROM t": "'//'",
    "SELECT CASE WHEN u = 7 THEN DATE '2024-13-01' END FROM t": "a CAST to DATE",
    "SELECT CASE WHEN u = 7 THEN 2147483647::INT + 1::INT END FROM t": "'[+]'",
    # what depends on the number of rows, or on a number in a cell
    "SELECT u FROM t WHERE u = (SELECT u FROM t)": "'error'",
    "SELECT (SELECT g.k FROM t g WHERE g.u = t.u) FROM t": "a subquery for one value",
    "FROM t LIMIT (SELECT MAX(u) FROM t)": "a LIMIT",
    "FROM t OFFSET (SELECT MAX(u) FROM df)": "a LIMIT",
    "WITH RECURSIVE a AS (SELECT 1 x UNION ALL SELECT x FROM a) FROM a": "recursive",
    "FROM t, LATERAL range(0, 10, t.u)": "a scan by 'range'",
    "SELECT MIN(k, u) FROM t": "'min'",
    "SELECT ARG_MIN(k, d, u) FROM t": "'arg_min'",
    "SELECT ERROR('x') FROM t": "'error'",
    "SELECT ERROR('x') WHERE EXISTS (FROM t)": "'error'",
    # names in a view that mean another table here
    "FROM other.of_frame": "cannot show the plan",
    # functions of Python
    "SELECT mine(u) FROM t": "'mine', a function of your own",
    "SELECT TRY(mine(u)) FROM t": "'mine', a function of your own",
    "SELECT hash(u) FROM t": "'hash', a function of your own",
    "SELECT upper(u) FROM t": "'upper', a function of your own",
}
SECRET = "SECRET"


@pytest.fixture(scope="module")
def con():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TYPE kind AS ENUM ('a', 'b'); CREATE TABLE t AS SELECT range::INTEGER AS u, "
        "'a' || range AS k, range * 1.5 AS x, range::DOUBLE AS d, range AS b, "
        "DATE '2020-01-01' AS day FROM range(10); "
        "CREATE VIEW view_of_casts AS SELECT u, k::INTEGER AS k FROM t"
    )

    def mine(x: int) -> int:
        return x

    for name in ("mine", "hash", "upper"):  # DuckDB lets them share names with its own
        connection.create_function(name, mine)
    connection.register("r", pa.table({"u": [1, 2], "k": ["a", "b"]}))
    connection.register("arrow", pa.table({"u": [1, 2]}))
    connection.execute(
        "CREATE VIEW of_frame AS SELECT k, u FROM r WHERE u > 0; CREATE SCHEMA other; "
        "CREATE VIEW other.of_frame AS FROM r; "
        "CREATE VIEW casts_of_frame AS SELECT u, k::INTEGER AS k FROM of_frame; "
        'CREATE VIEW "of a view"("a b", "c""d") AS SELECT u, k FROM of_frame'
    )
    return connection


@pytest.fixture(scope="module")
def extremes():
    """Return a table with the extremes of every type, also those that no text of a date gives."""
    low, high, ids = -(2**63), 2**63 - 1, [-(2**31), 2**31 - 1, 0, -1, None, 7, 1, 2]
    times = pa.array([low, low + 1, high, 0, None, 1, -1, high - 1], pa.int64())
    days = pa.array([-(2**31), -(2**31) + 1, 2**31 - 1, 0, None, 1, -1, 2**31 - 2], pa.int32())
    inf, nan = float("inf"), float("nan")
    source = pa.table(
        {
            "u": pa.array(ids, pa.int32()),
            "b": times,
            "t": pa.array([-128, 127, 0, -1, None, 7, 1, 2], pa.int8()),
            "d": [nan, inf, -inf, -0.0, None, 1.7e308, -1.7e308, 5e-324],
            "f": pa.array([nan, inf, -inf, -0.0, None, 3e38, -3e38, 1e-45], pa.float32()),
            "k": ["", "a", "é", "\0a", None, "é" * 70_000, "%_\\", "👩‍🚀x"],
            "day": days.view(pa.date32()),
            "ts": times.view(pa.timestamp("us")),
            "tn": times.view(pa.timestamp("ns")),
            "o": [True, False, None, True, False, None, True, True],
        }
    )
    connection = duckdb.connect()
    connection.register("source", source)
    connection.execute(
        "CREATE TYPE kind AS ENUM ('a', 'b'); CREATE TABLE cells AS SELECT *, "
        "CASE WHEN o THEN 'a'::kind END AS e, CASE WHEN o THEN 9.9 ELSE -9.9 END AS x, "
        "(CASE WHEN o THEN '' ELSE '-' END || repeat('9', 36) || '.99')::DECIMAL(38, 2) AS y "
        "FROM source"
    )
    return connection


@each("expression", EXPRESSIONS)
def test_what_is_taken_has_a_value_for_the_extremes_of_every_type(expression, extremes):
    relation = extremes.sql(f"SELECT {expression} AS value FROM cells")
    check_plan(relation)
    assert relation.query("taken", "SELECT count(*), sum(hash(value)) FROM taken").fetchall()


@each("query", TOTAL)
def test_what_has_a_value_for_every_cell_is_taken(query, con):
    df = pa.table({"u": [1, 2], "k": ["a", "b"]})
    relation = con.sql(query)
    check_plan(relation)
    assert relation.query("taken", "SELECT count(*) FROM taken").fetchall()
    del df


@each("query", MAY_FAIL)
def test_what_may_fail_on_a_cell_is_refused_whatever_the_cells_are(query, con):
    df = pa.table({"u": [1, 2], "k": ["1", "2"]})
    with pytest.raises(ValueError, match=MAY_FAIL[query]):
        check_plan(con.sql(query))
    del df


def test_files_and_chains_of_calls_are_read(con, tmp_path):
    path = str(tmp_path / "it's.parquet")
    con.sql("FROM t").write_parquet(path)
    named = "'" + path.replace("'", "''") + "'"
    con.execute(f"CREATE VIEW of_file AS FROM {named}; CREATE VIEW of_both AS FROM of_file, r")
    for taken in (
        con.read_parquet(path),
        con.read_parquet(path).filter("u > 1").project("u, k"),
        con.sql(f"SELECT u FROM {named} WHERE u > 1"),
        con.sql(f'SELECT "it\'s".u FROM\n{named}'),
        con.sql(f"SELECT t.u FROM t JOIN read_parquet({named}) AS p ON t.u = p.u"),
        con.sql(f"SELECT read_parquet.u FROM read_parquet(list_value({named}), filename = true)"),
        con.sql("SELECT day FROM of_both"),
        con.table("of_file"),
        con.table("r"),
        con.table("r").project("u").filter("u > 1"),
        con.table("t").filter("k = 'a'").aggregate("k, count(*)"),
    ):
        check_plan(taken)
    for refused in (
        con.read_parquet(path).project("k::INTEGER AS k"),
        con.sql(f"SELECT u FROM {named} WHERE k::INTEGER > 1"),
        con.table("t").filter("k::INTEGER = 1"),
        con.table("of_both").project("day::TIMESTAMP"),
    ):
        with pytest.raises(ValueError, match="may fail on a cell"):
            check_plan(refused)
    con.table("t").project("u").write_csv(str(tmp_path / "t.csv"))
    with pytest.raises(ValueError, match=r"cells decide the types of CSV.*CREATE TABLE"):
        check_plan(con.read_csv(str(tmp_path / "t.csv")))
    # DuckDB casts the columns of all files to the types of the first, or to stated ones.
    con.sql("SELECT k AS u FROM t").write_parquet(str(tmp_path / "other.parquet"))
    con.sql("SELECT k FROM t").write_parquet(str(tmp_path / "of_k.parquet"))
    con.sql("SELECT k AS U FROM t").write_parquet(str(tmp_path / "upper.parquet"))
    other, of_k, upper = (f"'{tmp_path}/{x}.parquet'" for x in ("other", "of_k", "upper"))
    check_plan(con.sql(f"SELECT k FROM read_parquet([{named}, {of_k}], union_by_name = true)"))
    for mixed in (
        con.read_parquet(f"{tmp_path}/*.parquet"),
        con.sql(f"SELECT u FROM '{tmp_path}/*.parquet'"),
        con.sql(f"SELECT k FROM read_parquet([{named}, {other}])"),
        con.sql(f"SELECT k FROM read_parquet([{named}, {upper}])"),  # names match in any case
    ):
        with pytest.raises(ValueError, match="a cast of Parquet files whose types differ"):
            check_plan(mixed)
    typed = "MAP {0: {name: 'u', type: 'DATE', default_value: NULL}}"
    with pytest.raises(ValueError, match="cannot show the plan"):
        check_plan(con.sql(f"SELECT u FROM read_parquet({other}, schema = {typed})"))
    con.execute("DROP VIEW of_both; DROP VIEW of_file")
    listed = con.sql("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'skdp%'")
    assert listed.fetchall() == []


@pytest.mark.parametrize("cell", ["1", SECRET])
def test_a_cast_is_refused_before_the_charge_whether_it_fails_or_not(cell, con):
    con.execute("CREATE OR REPLACE TABLE cells AS SELECT range AS u, 'a' AS k, ? AS x "
                "FROM range(5)", [cell])  # fmt: skip
    budget = PrivacyBudget(9, 0.1, adjacency="add_or_remove_one", unit="u")
    caps = {"max_keys_per_unit": 1, "max_rows_per_unit": 1}
    by = DPGroupBy("k", "u", keys=["a"], budget=budget, **caps).agg(m=("mean", "x", (0, 1)))
    for computed, kind in (("CAST(x AS INTEGER)", ValueError), ("TRY_CAST(x AS INTEGER)", None)):
        relation = con.sql(f"SELECT u, k, {computed} AS x FROM cells")
        if kind is None:
            assert len(by.fit(relation).keys_) == 1
            continue
        with pytest.raises(kind, match="may fail on a cell") as caught:
            by.fit(relation)
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert budget.spent.epsilon == 0
