"""Keys and ids in DuckDB: collations, dates, floats, stated keys; nothing is left behind."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.tabular import KeyTerm, check_grouped
from skdp.tabular.cells import words_of
from skdp.tabular.contributions import mixed_words
from tests.folding import each

duckdb = pytest.importorskip("duckdb")

UNITS = (KeyTerm("units"),)


@pytest.fixture
def engine():
    with duckdb.connect() as connection:
        yield connection


def stored(engine, sql):
    """Return a table of what a query computes: as a relation it might fail on a cell."""
    engine.execute(f"CREATE OR REPLACE TABLE stored AS {sql}")
    return engine.table("stored")


def opened(relation, by=("k",)):
    return check_grouped(relation, by=list(by), unit="u", columns=[])


def found(relation, **options):
    return dict(zip(*opened(relation, **options).key_weights([1] * 8, 3, ()), strict=True))


@pytest.mark.parametrize("setting", ["", "SET default_collation = 'NOCASE'"])
def test_the_spelling_of_one_unit_names_no_key_of_others(engine, setting):
    """Where a collation holds "Paris" and "PARIS" equal, one of both would stand for all rows."""
    collated = "" if setting else "COLLATE NOCASE"
    engine.execute(f"CREATE TABLE t (u VARCHAR {collated}, k VARCHAR {collated})")
    engine.execute("INSERT INTO t VALUES ('Ann', 'Paris'), ('ann', 'Paris'), ('bob', 'PARIS')")
    if setting:
        engine.execute(setting)
    table = engine.table("t")
    assert found(table) == {"Paris": 2, "PARIS": 1}  # and "Ann" and "ann" are two units
    assert opened(table).totals(("paris", "PARIS"), UNITS, 2, 1).ravel().tolist() == [0, 1]
    assert opened(table)._n == 3


@pytest.mark.parametrize(
    "setting", ["default_order = 'DESC'", "default_null_order = 'NULLS_FIRST'"]
)
def test_the_order_that_the_connection_prefers_gives_no_key_the_name_of_another(engine, setting):
    engine.execute("CREATE TABLE t AS SELECT range AS u, 'often' AS k FROM range(9)")
    engine.execute("INSERT INTO t VALUES (100, 'rare')")
    engine.execute(f"SET {setting}")
    table = engine.table("t")
    assert found(table) == {"often": 9, "rare": 1}
    rows = opened(table)
    assert rows.totals(("often", "rare"), UNITS, 1, 1).ravel().tolist() == [9, 1]


def test_zeros_are_one_key_and_one_id(engine):
    sql = "SELECT * FROM (VALUES (0.0::{0}, -0.0::{0}), (-0.0::{0}, 0.0::{0})) AS t(u, k)"
    for kind in ("DOUBLE", "FLOAT"):
        assert found(engine.sql(sql.format(kind))) == {0.0: 1}
        both = opened(engine.sql(sql.format(kind)))
        assert both.totals((-0.0,), UNITS, 1, 1).ravel().tolist() == [1]


@each("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"])
def test_dates_beyond_those_of_python(kind):
    with duckdb.connect() as engine:
        table = stored(
            engine,
            "SELECT range AS u, CASE WHEN range < 3 THEN '12026-01-01' ELSE '2026-01-01' END"
            f"::{kind} AS k FROM range(5)",
        )
        late, soon = np.datetime64("12026-01-01", "us"), np.datetime64("2026-01-01", "us")
        if kind == "DATE":
            late, soon = np.datetime64("12026-01-01"), datetime.date(2026, 1, 1)
        assert found(table) == {soon: 2, late: 3}
        rows = opened(table)
        assert rows.stated_keys((late,)) == (late,)
        assert rows.totals((late, soon), UNITS, 1, 1).ravel().tolist() == [3, 2]


def test_nanoseconds_are_keys_of_their_own(engine):
    table = stored(
        engine,
        "SELECT 1 AS u, ('2026-01-01 00:00:00.00000000' || range)::TIMESTAMP_NS AS k FROM range(9)",
    )
    moments = [np.datetime64("2026-01-01", "us"), np.datetime64("2026-01-01T00:00:00.000000008")]
    assert len(found(table)) == 8  # of nine, the unit's weights are for eight
    assert opened(table).totals(moments, UNITS, 9, 1).ravel().tolist() == [1, 1]


@each("cell", ["'infinity'::DATE", "make_date(5000000, 1, 1)", "NULL::DATE"])
def test_dates_that_cannot_be_counted_are_missing(cell):
    with duckdb.connect() as engine:
        table = engine.sql(f"SELECT 1 AS u, {cell} AS k UNION ALL SELECT 2, DATE '2026-01-01'")
        assert len(found(table)) == (2 if "5000000" in cell else 1)


def test_stated_keys_are_exact(engine):
    odd = 2**53 + 1
    whole = stored(engine, f"SELECT range AS u, {odd - 1} + range AS k FROM range(2)")
    stated = (0.5, 2.0**53, odd, 10**50, -(10**400))
    assert opened(whole).totals(stated, UNITS, 1, 1).ravel().tolist() == [0, 1, 1, 0, 0]
    floats = engine.sql("SELECT range AS u, 2.0::DOUBLE**53 AS k FROM range(2)")
    assert opened(floats).totals((2**53, odd, 10**400), UNITS, 1, 1).ravel().tolist() == [2, 0, 0]
    text = engine.sql("SELECT 1 AS u, 'it''s' || chr(0) || 'é' AS k")
    assert opened(text).totals(("it's\0é", "it's"), UNITS, 1, 1).ravel().tolist() == [1, 0]
    assert found(text) == {"it's\0é": 1}


def test_several_columns_of_any_type(engine):
    engine.execute("CREATE TYPE size AS ENUM ('small', 'large')")
    table = engine.sql(
        "SELECT range AS u, 'large'::size AS k, DATE '2026-01-01' AS d, range = 1 AS b "
        "FROM range(3)"
    )
    day = datetime.date(2026, 1, 1)
    expected = {("large", day, False): 2, ("large", day, True): 1}
    assert found(table, by=("k", "d", "b")) == expected
    rows = opened(table, by=("k", "d", "b"))
    assert rows.totals(tuple(expected), UNITS, 1, 1).ravel().tolist() == [2, 1]


@pytest.mark.parametrize("keys", ["private", [0, 1]])
def test_no_table_is_left_behind(engine, keys):
    engine.execute("CREATE TABLE t AS SELECT range AS u, range % 2 AS k, 1.0 AS x FROM range(500)")
    budget = PrivacyBudget(100, 0.1, adjacency="add_or_remove_one", unit="u")
    by = DPGroupBy("k", "u", epsilon=20, keys=keys, budget=budget)
    by = by.agg(n="count", m=("mean", "x"), q=("quantile", "x", 0.5, (0, 2)))
    assert len(by.fit(engine.table("t")).keys_) == 2
    with pytest.raises(TypeError, match="column 'k'"):
        by.set_params(keys=["a"]).fit(engine.table("t"))
    left = engine.sql("SELECT table_name FROM duckdb_tables()").fetchall()
    assert left == [("t",)]


def test_codes_of_other_units_keys_leave_the_ranks(engine):
    """Codes of private keys move with every key that a unit adds; ranks must not."""
    engine.execute("CREATE TABLE t AS SELECT range // 8 AS u, 10 + range % 8 AS k FROM range(400)")
    engine.execute("CREATE TABLE more AS SELECT * FROM t UNION ALL SELECT 1000, 0")
    counts = []
    for name in ("t", "more"):
        rows = opened(engine.table(name))
        rows.secret = 5
        counts.append(dict(zip(*rows.key_weights([1, 1], 7, ()), strict=True)))
        shape = rows.shapes(None, (1, 2), (1, 2))
        assert shape.sum() == 2 * (50 + (name == "more"))
    assert counts[1] == {**counts[0], 0: 1}


@pytest.mark.parametrize(
    "unit", ["u", "u::VARCHAR", "CASE WHEN u = 0 AND k < 5 THEN -0.0 ELSE u::DOUBLE END"]
)
def test_every_unit_has_its_keys_of_the_smallest_ranks_and_no_more(engine, unit):
    engine.execute(
        "CREATE TABLE raw AS SELECT range % 37 AS u, (range * 7) % 11 AS k FROM range(300)"
    )
    rows = opened(engine.sql(f"SELECT {unit} AS u, k FROM raw WHERE u > 4 OR k <= u"))
    held = engine.sql("SELECT u, k, count(*) FROM raw WHERE u > 4 OR k <= u GROUP BY ALL")
    words = {"u::VARCHAR": str}.get(unit, int)  # 3.0 is the id 3
    want, most = np.zeros((11, 2), dtype=int), 3
    by_unit = {}
    for u, k, n in held.fetchall():
        by_unit.setdefault(u, []).append((k, n))
    for u, pairs in by_unit.items():
        word = np.repeat(words_of([words(u)]), len(pairs))
        keys = np.array([k for k, _ in pairs])
        ranks = mixed_words(word, keys, rows.salt(-2)) >> np.uint64(32)
        for rank in np.lexsort((keys, ranks))[:most]:
            want[pairs[rank][0]] += pairs[rank][1], 1
    assert max(map(len, by_unit.values())) > most
    found = rows.totals(tuple(range(11)), (KeyTerm("rows"), KeyTerm("units")), most, 300)
    assert found.tolist() == want.tolist()


@pytest.mark.parametrize(
    "unit", ["'1'::JSON", "INTERVAL 1 DAY", "[1]", "{'a': 1}", "TIMETZ '01:00:00+01'", "MAP {1: 2}"]
)
def test_ids_without_one_value_are_refused_by_their_type(engine, unit):
    with pytest.raises(TypeError, match="unit column 'u' must hold ids that are numbers, text"):
        opened(stored(engine, f"SELECT {unit} AS u, 1 AS k"))


@pytest.mark.parametrize(
    "unit",
    [
        "i = 1", "i::UTINYINT", "i::HUGEINT << 100", "i::UHUGEINT", "(i / 10)::DECIMAL(9, 2)",
        "(i / 10)::FLOAT", "i::VARCHAR", "['x', 'y', 'z'][i + 1]::ENUM('x', 'y', 'z')",
        "encode(i::VARCHAR)", "uuids[i + 1]", "DATE '2026-01-01' + i::INT", "TIME '01:00' + more",
        "TIMESTAMP '2026-01-01' + more", "(TIMESTAMP '2026-01-01' + more)::TIMESTAMPTZ",
        "['infinity', '-infinity', '2026-01-01'][i + 1]::DATE",
    ],
)  # fmt: skip
def test_ids_of_any_type(engine, unit):
    rows = "SELECT range % 3 AS i, INTERVAL (range % 3) HOUR AS more FROM range(90)"
    uuids = "(SELECT list(uuid()) AS uuids FROM range(3))"
    table = stored(engine, f"SELECT ({unit}) AS u, 'k' AS k FROM ({rows}), {uuids}")
    units = 2 if unit == "i = 1" else 1 if "infinity" in unit else 3
    rows = opened(table)
    assert rows._n == units
    of_them = 30 if "infinity" in unit else 90
    assert rows.totals(("k",), (*UNITS, KeyTerm("rows")), 1, 90).tolist() == [[units, of_them]]
