"""Each row of a table as a unit: which rows a query makes of it, and how it is counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.cluster import DPKMeans
from skdp.exceptions import QueryRefusedError
from skdp.sql import PrivateDatabase
from tests.sql import shop

TABLES = {
    "visits": {"unit": None, "columns": {"minutes": (0, 240)}, "keys": {"device": ["pc", "tv"]}},
    "orders": {"unit": None, "columns": {"o_price": (0, 1000)}},
    "item": {"owner": ("i_order", "orders", "o_id"), "columns": {"i_price": (0, 100)}},
    "nation": "public",
}
ONCE = {
    "SELECT COUNT(*) FROM visits": True,
    "SELECT browser, AVG(minutes) FROM visits WHERE pages > 1 GROUP BY browser": True,
    "SELECT device, SUM(m) FROM (SELECT device, minutes * 2 AS m FROM visits) v GROUP BY 1": True,
    "SELECT COUNT(*) FROM (SELECT DISTINCT browser, uid FROM orders JOIN visits ON TRUE) v": None,
    "SELECT n_name, COUNT(*) FROM visits JOIN nation ON n_size = pages + 5 GROUP BY 1": True,
    "SELECT n_name, COUNT(*) FROM visits JOIN nation ON n_id = pages GROUP BY 1": False,
    "SELECT n_size, COUNT(pages) FROM nation LEFT JOIN visits ON n_size = pages GROUP BY 1": True,
    "SELECT COUNT(*) FROM visits WHERE pages IN (SELECT n_id FROM nation)": True,
    "SELECT COUNT(*) FROM (SELECT uid FROM visits UNION ALL SELECT uid FROM visits) v": False,
    "SELECT COUNT(*) FROM (SELECT uid FROM visits UNION ALL SELECT o_id FROM orders) v": False,
    "SELECT i_kind, SUM(i_price) FROM item GROUP BY 1": False,
    "SELECT COUNT(*) FROM orders JOIN item ON i_order = o_id": False,
    "SELECT COUNT(*) FROM orders WHERE EXISTS (SELECT 1 FROM item WHERE i_order = o_id)": True,
    "SELECT COUNT(*) FROM (SELECT i_order, SUM(i_n) AS n FROM item GROUP BY 1) s": False,
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.o_id = b.o_id": True,
    "SELECT COUNT(*) FROM orders a LEFT JOIN orders b ON a.o_id = b.o_id": True,
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.uid = b.uid": None,
    "SELECT browser, COUNT(DISTINCT uid) FROM visits GROUP BY 1": None,
}
VICTIMS = [("visits", i) for i in range(40)] + [("orders", i) for i in range(20)]


def database(con, adjacency="add_or_remove_one"):
    budget = PrivacyBudget(10_000, 0.5, adjacency=adjacency)
    return PrivateDatabase(con, tables=TABLES, budget=budget)


def planned(con, query):
    """Return the plan of a query, and its rows: each with its unit, where a row is not one."""
    db = database(con)
    parts, _ = shop.parts_of(db, query)
    return parts.last, con.execute(parts.last.rows).fetchall()


@pytest.mark.parametrize("query", ONCE)
def test_a_row_of_a_table_moves_rows_of_its_own_alone(query):
    con = shop.shop(60)
    if ONCE[query] is None:
        with pytest.raises(QueryRefusedError):
            planned(con, query)
        return
    plan, rows = planned(con, query)
    assert plan.once is ONCE[query]
    moved = 0
    for table, place in VICTIMS:
        con.execute("BEGIN")
        con.execute(f"DELETE FROM {table} WHERE rowid = {place}")
        without = con.execute(plan.rows).fetchall()
        con.execute("ROLLBACK")
        gone, new = Counter(rows) - Counter(without), Counter(without) - Counter(rows)
        assert not new
        moved += gone.total()
        if plan.once:
            assert gone.total() <= 1
        else:
            assert len({row[0] for row in gone.elements()}) <= 1
    assert moved


def test_rows_of_two_tables_are_never_one_unit():
    query = "SELECT COUNT(*) FROM (SELECT uid FROM visits UNION ALL SELECT o_id FROM orders) v"
    con = shop.shop(60)
    _, rows = planned(con, query)
    tables = [con.execute(f"SELECT count(*) FROM {one}").fetchone()[0] for one in TABLES][:2]
    assert len({row[0] for row in rows}) == len(rows) == sum(tables)


@pytest.mark.parametrize("kind", ["TIMESTAMPTZ", "TIMESTAMP", "TIMESTAMP_S"])
def test_moments_that_are_one_in_another_type_are_counted_as_several(kind):
    con = shop.duckdb.connect()
    con.execute("SET GLOBAL TimeZone = 'UTC'")
    con.execute("CREATE TABLE p AS SELECT make_timestamp_ns(1577836800000000000 + i) AS d, "
                f"FROM range(900) r(i); CREATE TABLE t AS SELECT {kind} '2020-01-01' AS v"
                )  # fmt: skip
    budget = PrivacyBudget(9, 0.1, adjacency="add_or_remove_one")
    db = PrivateDatabase(con, tables={"p": "public", "t": {"unit": None}}, budget=budget)
    query = "SELECT COUNT(*) AS n FROM t JOIN p ON p.d = t.v"
    parts, _ = shop.parts_of(db, query)
    rows = con.execute(parts.last.rows).fetchall()
    assert len(rows) == 1 or not parts.last.once
    assert len(rows) == (500 if kind == "TIMESTAMPTZ" else 1)  # nanoseconds are rounded


def test_rows_of_files_are_units(tmp_path):
    frame = pd.DataFrame({"x": np.arange(30) % 3})
    frame[:10].to_parquet(tmp_path / "a.parquet")
    frame[10:].to_parquet(tmp_path / "b.parquet")
    budget = PrivacyBudget(1e4, 0.5)
    tables = {"v": {"unit": None}}
    db = PrivateDatabase({"v": str(tmp_path / "*.parquet")}, tables=tables, budget=budget)
    twice = "SELECT COUNT(*) FROM (SELECT x FROM v UNION ALL SELECT x FROM v) t"
    parts, _ = shop.parts_of(db, twice)
    rows = Counter(db._catalog.cursor().execute(parts.last.rows).fetchall())
    assert len(rows) == 30
    assert set(rows.values()) == {2}
    found = db.sql("SELECT x, COUNT(*) AS n FROM v GROUP BY x", epsilon=1e3, delta=1e-6)
    assert found.to_dict()["n"] == [10, 10, 10]
    for cell in (
        "x",
        "1",
    ):  # DuckDB would cast this column, and fail on the one and not on the other
        pd.DataFrame({"x": [cell]}).to_parquet(tmp_path / "c.parquet")
        with pytest.raises(RuntimeError, match="has changed"):
            db.sql("SELECT COUNT(*) AS n FROM v")
        with pytest.raises(ValueError, match="the same types in all files"):
            PrivateDatabase({"v": str(tmp_path / "*.parquet")}, tables=tables, budget=budget)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_one_budget_serves_estimators_group_by_and_sql(adjacency):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": rng.choice(["a", "b"], 3000), "x": rng.uniform(0, 9, 3000)})
    budget = PrivacyBudget(30, 1e-4, adjacency=adjacency)
    DPKMeans(2, epsilon=1.0, bounds=([0.0], [9.0]), budget=budget).fit(frame[["x"]])
    by = DPGroupBy("k", None, epsilon=10.0, keys=["a", "b"], budget=budget).agg(n="count")
    expected = by.fit(frame).table_["n"]
    db = PrivateDatabase({"t": frame}, tables={"t": {"unit": None}}, budget=budget)
    query = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
    answer = db.sql(query, epsilon=10.0, delta=1e-6)
    assert answer.privacy_.unit == "row"
    assert np.allclose(answer.to_dict()["n"], expected, atol=20)  # of noise of about 1: 1e-8
    nobody = db.sql("SELECT COUNT(*) AS n FROM t WHERE x > 99", epsilon=1.0, delta=0.0)
    assert abs(nobody.to_dict()["n"][0]) < 60  # 2 exp(-30)
    assert budget.spent.epsilon == 22.0
    assert db.sql("SELECT COUNT(*) FROM t", max_rows_per_unit=3).notes == [
        "max_rows_per_unit has no effect: each row is a unit, and counts once"
    ]
    assert "each row by itself, in t" in db.explain("SELECT COUNT(*) FROM t")
    assert "or that it owns" in db.explain("SELECT COUNT(*) FROM (FROM t UNION ALL FROM t) u")


def test_noise_of_a_replaced_row_is_twice_that_of_a_removed_one():
    con, widths = shop.shop(60), {}
    for adjacency in ("replace_one", "add_or_remove_one"):
        query = "SELECT device, COUNT(*) FROM visits GROUP BY 1"
        _, fits = shop.parts_of(database(con, adjacency), query, delta=0.0)
        budget = PrivacyBudget(9, 0, adjacency=adjacency)
        widths[adjacency] = fits[0].set_params(budget=budget).expected_error()["a0"]
    assert widths["replace_one"] == pytest.approx(2 * widths["add_or_remove_one"], rel=0.1)


def test_one_budget_is_for_one_kind_of_unit():
    for unit, of_budget, text in (
        (
            "uid",
            None,
            r"budget=PrivacyBudget\(\.\.\., unit='uid'\).*\{'visits': \{'unit': None\}\}",
        ),
        (None, "uid", r"tables=\{'visits': \{'unit': 'uid'\}\}.*budget=PrivacyBudget\(\.\.\.\)"),
    ):
        budget = PrivacyBudget(1, 1e-6, unit=of_budget)
        with pytest.raises(ValueError, match=text):
            PrivateDatabase(shop.shop(9), tables={"visits": {"unit": unit}}, budget=budget)


@pytest.mark.parametrize("column", ["ROWID", "rowid"])
def test_a_column_that_hides_the_places_of_rows_is_refused(column):
    frame = pd.DataFrame({column: [1, 1, 2]})
    with pytest.raises(ValueError, match="Rename it"):
        PrivateDatabase({"t": frame}, tables={"t": {"unit": None}}, budget=PrivacyBudget(1, 0))


def test_columns_of_objects_have_the_types_that_are_stated():
    cells = ["1", 1, 1.0, True, None, 2, "x", 2**70]
    frame = pd.DataFrame({"k": pd.Series(cells, dtype=object), "d": ["2026-01-02", *["x"] * 7]})
    found = {}
    for kind in ("integer", "float", "boolean", "text", "date"):
        spec = {"unit": None, "types": {"k": kind}}
        db = PrivateDatabase({"t": frame}, tables={"t": spec}, budget=PrivacyBudget(1, 0))
        rows = db._catalog.cursor().execute("SELECT k, typeof(k) FROM memory.t").fetchall()
        found[kind] = [row[0] for row in rows], rows[0][1]
    none = [None] * 8
    assert found == {
        "integer": ([None, 1, 1, None, None, 2, None, None], "BIGINT"),
        "float": ([None, 1, 1, None, None, 2, None, 2.0**70], "DOUBLE"),
        "boolean": ([*none[:3], True, *none[4:]], "BOOLEAN"),
        "text": (["1", "1", "1", "true", None, "2", "x", str(2**70)], "VARCHAR"),
        "date": (none, "DATE"),
    }
    with pytest.raises(TypeError, match="'z' is none of objects"):
        spec = {"unit": None, "types": {"z": "text"}}
        PrivateDatabase({"t": frame}, tables={"t": spec}, budget=PrivacyBudget(1, 0))
    with pytest.raises(TypeError, match="have types already"):
        spec = {"unit": None, "types": {"uid": "text"}}
        PrivateDatabase(shop.shop(9), tables={"visits": spec}, budget=PrivacyBudget(1, 0))
