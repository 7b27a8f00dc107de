"""DuckDB relations: refused by their plan alone where a cell could make them fail."""

from __future__ import annotations

import pandas as pd
import pytest

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.tabular.relation_plans import check_plan

duckdb = pytest.importorskip("duckdb")
if int(duckdb.__version__.partition(".")[0]) < 2:
    pytest.skip("the plans of queries on pandas are shown by DuckDB 2", allow_module_level=True)

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
    "SELECT DISTINCT k FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY d) = 1",
    "WITH q AS MATERIALIZED (FROM t) FROM q a JOIN q b USING (u)",
    "FROM t WHERE EXISTS (FROM df c WHERE c.u = t.u)",
    "SELECT CAST('3' AS INTEGER) AS u FROM range(5)",
]
MAY_FAIL = {
    "SELECT CAST(k AS INTEGER) AS k FROM t": "a CAST to INTEGER",
    "FROM view_of_casts": "a CAST to INTEGER",
    "SELECT u FROM df WHERE CASE WHEN u > 9 THEN k = u END": "a CAST to",
    "SELECT u FROM t WHERE TRY(u + 1) > 2": "'OPERATOR_TRY'",
    "SELECT u + 1 FROM t": "'[+]'",
    "SELECT -u FROM t": "'-'",
    "SELECT ABS(u) FROM t": "'abs'",
    "SELECT x * 2 FROM t": "'[*]'",
    "SELECT SUM(x) FROM t": "'sum'",
    "SELECT SQRT(d) FROM t": "'sqrt'",
    "SELECT d::INTEGER FROM t": "a CAST to INTEGER",
    "SELECT d::FLOAT FROM t": "a CAST to FLOAT",
    "SELECT b::INTEGER FROM t": "a CAST to INTEGER",
    "SELECT b::UBIGINT FROM t": "a CAST to UBIGINT",
    "SELECT b::DECIMAL(18, 3) FROM t": "a CAST to DECIMAL",
    "SELECT k::DATE FROM t": "a CAST to DATE",
    "SELECT k::BLOB FROM t": "a CAST to BLOB",
    "SELECT k::kind FROM t": "a CAST to ENUM",
    "SELECT REPEAT(k, u) FROM t": "'repeat'",
    "SELECT REGEXP_MATCHES(k, k) FROM t": "'regexp_matches'",
    "SELECT STRPTIME(k, '%Y') FROM t": "'strptime'",
    "SELECT YEAR(day) FROM t": "'year'",
    "SELECT UNNEST([u]) FROM t": "'BOUND_UNNEST'",
    "SELECT u FROM t WHERE u = (SELECT u FROM t)": "'error'",
    "SELECT ERROR('x') FROM t": "'error'",
    "SELECT ERROR('x') WHERE EXISTS (FROM t)": "'error'",
    "SELECT mine(u) FROM t": "'mine'",
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

    connection.create_function("mine", mine)
    return connection


@pytest.mark.parametrize("query", TOTAL)
def test_what_has_a_value_for_every_cell_is_taken(query, con):
    df = pd.DataFrame({"u": [1, 2], "k": ["a", "b"]})
    check_plan(con.sql(query))
    del df


@pytest.mark.parametrize("query", MAY_FAIL)
def test_what_may_fail_on_a_cell_is_refused_whatever_the_cells_are(query, con):
    df = pd.DataFrame({"u": [1, 2], "k": ["1", "2"]})
    with pytest.raises(ValueError, match=MAY_FAIL[query]):
        check_plan(con.sql(query))
    del df


def test_files_and_chains_of_calls_are_read(con, tmp_path):
    path = str(tmp_path / "t.parquet")
    con.sql("FROM t").write_parquet(path)
    for taken in (
        con.read_parquet(path),
        con.read_parquet(path).filter("u > 1").project("u, k"),
        con.sql(f"SELECT u FROM '{path}' WHERE u > 1"),
        con.sql(f"SELECT t.u FROM t JOIN read_parquet('{path}') AS p ON t.u = p.u"),
        con.table("t").filter("k = 'a'").aggregate("k, count(*)"),
    ):
        check_plan(taken)
    for refused in (
        con.read_parquet(path).project("k::INTEGER AS k"),
        con.sql(f"SELECT u FROM '{path}' WHERE k::INTEGER > 1"),
        con.table("t").filter("k::INTEGER = 1"),
    ):
        with pytest.raises(ValueError, match="may fail on a cell"):
            check_plan(refused)
    con.table("t").project("u").write_csv(str(tmp_path / "t.csv"))
    with pytest.raises(ValueError, match="cannot show the plan"):  # cells decide types
        check_plan(con.read_csv(str(tmp_path / "t.csv")))
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
