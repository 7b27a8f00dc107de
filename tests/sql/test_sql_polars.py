"""Polars as the second engine: the rows, integers and seeded answers of DuckDB, or a refusal."""

from __future__ import annotations

import decimal
import functools

import numpy as np
import polars as pl
import pytest

import skdp
from skdp import PrivacyBudget
from skdp.exceptions import QueryRefusedError
from skdp.sql import PrivateDatabase, _fan_out, _polars_values
from skdp.sql._database import _compute
from skdp.sql._parse import parsed
from skdp.sql._plan import planned
from tests.folding import each
from tests.sql import fuzz
from tests.sql.polars_shop import on_polars
from tests.sql.shop import database, shop

if int(pl.__version__.partition(".")[0]) < 2:
    pytest.skip("the second engine needs polars 2.0", allow_module_level=True)


@functools.cache
def engines():
    con = fuzz.nasty_shop()
    return database(con), on_polars(con)


def plan_of(db, query):
    plan = planned(query, parsed(query)[0], db._catalog, "uid", {})
    if db._catalog.lazy is not None:
        db._catalog.lazy.check(plan.rows)
    return plan


def rows(db, plan):
    """Return types and rows of what is aggregated, sorted, as text of all their digits.

    Zero has no sign there: no integer hangs on it, nor does the hash that seeds noise.
    """
    with db._catalog.one_state() as catalog, catalog.reading() as cursor:
        catalog.check_unchanged(cursor, plan.tables)
        _compute(cursor, plan, catalog.lazy)
        table = "temp.main.skdp_rows_of_query"
        kinds = [row[:2] for row in cursor.execute(f"DESCRIBE {table}").fetchall()]
        found = cursor.execute(f"SELECT * FROM {table}").fetchall()
        return kinds, sorted(repr(tuple(0 if cell == 0 else cell for cell in row))
                             for row in found)  # fmt: skip


def compared(query):
    """Return what became of a query; raise where the engines' rows differ in one bit."""
    duck, other = engines()
    try:
        plan = plan_of(duck, query)
    except QueryRefusedError:
        return "refused"
    try:
        same = plan_of(other, query)
    except QueryRefusedError as error:
        return "not proved" if "proved equal" in str(error) else str(error)
    assert plan.rows == same.rows
    assert rows(duck, plan) == rows(other, same), query
    return "equal"


class Generator(fuzz.Generator):
    """Draws fewer of the parts that are not proved, and numbers whose reciprocals are inexact."""

    def number(self, tables, depth=2):
        return str(self.pick(3, 0.1, 7, 1e9, -0.7)) if self.chance(0.1) else (
            super().number(tables, depth))  # fmt: skip

    def text(self, tables, depth=1):
        text = super().text(tables, depth)
        bare = self.column("text", tables) or "'x'"
        return bare if any(word in text for word in ("LOWER", "UPPER", "CAST")) else text

    def condition(self, tables, depth=2):
        return super().condition(tables, depth).replace("LIKE '%o_'", "= 'chrome'")


@pytest.mark.slow
def test_rows_of_random_queries_are_equal_or_refused():
    generator = Generator(5)
    found = [compared(generator.query()) for _ in range(250)]
    assert found.count("equal") > 60
    assert found.count("not proved") > 20


@each(
    "query",
    [
        "SELECT browser, COUNT(*), AVG(minutes) FROM visits GROUP BY browser",
        "SELECT minutes / 3, SUM(price / 0.1), AVG(ROUND(minutes, 2)) FROM visits GROUP BY 1",
        "SELECT pages % 4, pages // -3, COUNT(*) FROM visits GROUP BY 1, 2",
        "SELECT day, seen, ok, minutes, COUNT(*) FROM visits GROUP BY 1, 2, 3, 4",
        "SELECT day + INTERVAL 1 MONTH, seen - INTERVAL 5 YEAR, COUNT(*) FROM visits GROUP BY 1, 2",
        (
            "SELECT date_trunc('week', seen), date_trunc('month', day), COUNT(*) FROM visits "
            "GROUP BY 1, 2"
        ),
        (
            "SELECT quarter(day), dayofweek(day), hour(seen), minute(seen), day(day), COUNT(*) "
            "FROM visits GROUP BY ALL"
        ),
        (
            "SELECT AVG(t), MEDIAN(m) FROM "
            "(SELECT uid, SUM(price) AS t, AVG(minutes) AS m FROM visits GROUP BY uid)"
        ),
        "SELECT SUM(CAST(minutes AS BIGINT)) FROM visits",
        "SELECT SUM(i_price) FROM orders JOIN item ON o_id = i_order WHERE o_price > 100",
        "SELECT n_name, COUNT(*) FROM customer LEFT JOIN nation ON c_nation = n_id GROUP BY n_name",
        "SELECT COUNT(*) FROM visits v JOIN orders o ON v.uid = o.o_customer WHERE o_price > 10",
        (
            "SELECT COUNT(*) FROM customer JOIN (SELECT n_id FROM nation UNION SELECT n_id FROM "
            "nation WHERE n_size > 1) n ON c_nation = n.n_id"
        ),
        (
            "SELECT COUNT(*) FROM customer WHERE NOT EXISTS "
            "(SELECT 1 FROM orders WHERE o_customer = c_id AND o_price > 20)"
        ),
        "SELECT LEFT(note, 1) || RIGHT(browser, 2), LENGTH(note), SUM(1) FROM visits GROUP BY 1, 2",
    ],
)
def test_rows_are_equal(query):
    assert compared(query) == "equal"


@each(
    "test",
    [
        *("browser LIKE 'c%'", "lower(browser) = 'x'", "TRY_CAST(note AS DOUBLE) > 5"),
        *("ln(minutes) > 1", "minutes % 3 > 1", "CAST(minutes AS VARCHAR) = '1'"),
    ],
)
def test_what_is_not_proved_is_refused_before_the_charge(test):
    db = on_polars(shop(users=20))
    with pytest.raises(QueryRefusedError, match="engine='duckdb'"):
        db.sql(f"SELECT COUNT(*) FROM visits WHERE {test}", epsilon=1)
    assert db.budget.spent.epsilon == 0
    with pytest.raises(QueryRefusedError, match="engine='duckdb'"):
        db.explain(f"SELECT COUNT(*) FROM visits WHERE {test}", epsilon=1)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT browser, COUNT(*) n, AVG(minutes) m, SUM(price) s FROM visits GROUP BY browser",
        "SELECT device, MEDIAN(minutes) m, COUNT(DISTINCT uid) u FROM visits GROUP BY device",
        "SELECT month(day) k, SUM(pages) FROM visits WHERE minutes / 3 > 1 GROUP BY 1",
    ],
)
def test_seeded_answers_are_equal_to_the_last_bit(query):
    con = shop()
    with skdp.config_context(noise="seeded"):
        found = [
            db.sql(query, epsilon=1.0, random_state=3).fetchall()
            for db in (database(con), on_polars(con))
        ]
    assert len(found[0]) > 0
    assert list(map(repr, found[0])) == list(map(repr, found[1]))


def test_units_with_too_many_rows_in_a_join_have_the_same_of_them(monkeypatch):
    monkeypatch.setattr(_fan_out, "MOST_PAIRS", 16)  # 4 rows of a unit, each
    query = "SELECT SUM(v.pages * w.minutes) FROM visits v JOIN visits w ON v.uid = w.uid"
    assert compared(query) == "equal"


def test_a_division_that_rounds_twice_is_found(monkeypatch):
    monkeypatch.setattr(_polars_values, "ratio", lambda a, b: a / b)
    duck, other = engines()
    query = "SELECT SUM(price / 0.1) FROM visits"
    assert rows(duck, plan_of(duck, query)) != rows(other, plan_of(other, query))


def test_sums_of_nine_decimals_are_doubles_as_duckdb_has_them():
    rng = np.random.default_rng(0)
    many = 3000
    values = rng.choice([1.0, -1.0], many) * 10.0 ** rng.uniform(-9, 19, many)
    tables = {"visits": pl.DataFrame({"uid": np.arange(many) // 3, "x": values})}
    duck, other = (
        PrivateDatabase(
            tables,
            tables={"visits": {"unit": "uid"}},
            budget=PrivacyBudget(9, 0.1, adjacency="add_or_remove_one", unit="uid"),
            engine=engine,
        )
        for engine in ("duckdb", "polars")
    )
    query = "SELECT SUM(s), SUM(m) FROM (SELECT uid, SUM(x) s, AVG(x) m FROM visits GROUP BY uid)"
    assert rows(duck, plan_of(duck, query)) == rows(other, plan_of(other, query))


def test_decimals_of_columns_are_doubles_as_duckdb_has_them():
    rng = np.random.default_rng(1)
    whole = rng.integers(-(10**15) + 1, 10**15, 2000)
    cells = [decimal.Decimal(int(value)).scaleb(-4) for value in whole]
    frame = pl.DataFrame({"uid": np.arange(2000)}).with_columns(
        pl.Series("x", cells, dtype=pl.Decimal(15, 4))
    )
    budget = PrivacyBudget(9, 0.1, adjacency="add_or_remove_one", unit="uid")
    made = [
        PrivateDatabase({"t": frame}, tables={"t": {"unit": "uid"}}, budget=budget, engine=engine)
        for engine in ("duckdb", "polars")
    ]
    found = [rows(db, plan_of(db, "SELECT SUM(x) FROM t")) for db in made]
    assert found[0] == found[1]


def test_tables_of_every_kind_are_taken(tmp_path):
    con = shop(users=30)
    visits = con.sql("SELECT * FROM visits").pl()
    visits.write_parquet(tmp_path / "visits.parquet")
    given = [
        *(visits, visits.lazy(), visits.to_arrow(), visits.to_pandas()),
        str(tmp_path / "visits.parquet"),
        visits.with_columns(pl.col("browser").cast(pl.Categorical)),
    ]
    query = "SELECT browser, COUNT(*) AS n FROM visits GROUP BY browser"
    seen = set()
    for table in given:
        db = on_polars(con, visits=table)
        seen.add(str(rows(db, plan_of(db, query))))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("database_given", "error", "text"),
    [
        ("here.duckdb", TypeError, "dict from names"),
        ({"visits": "nowhere.parquet"}, ValueError, "Parquet files"),
        ({"visits": 3}, TypeError, "'visits' cannot be read"),
    ],
)
def test_what_is_no_table_is_refused(database_given, error, text):
    budget = PrivacyBudget(1, adjacency="add_or_remove_one", unit="uid")
    with pytest.raises(error, match=text):
        PrivateDatabase(
            database_given, tables={"visits": {"unit": "uid"}}, budget=budget, engine="polars"
        )
    with pytest.raises(ValueError, match="engine must be 'duckdb' or 'polars'"):
        PrivateDatabase({}, tables={"visits": {"unit": "uid"}}, budget=budget, engine="spark")


def test_a_key_of_an_owner_that_names_two_rows_is_refused():
    con = shop(users=20)
    orders = con.sql("SELECT * FROM orders").pl()
    with pytest.raises(ValueError, match="not unique"):
        on_polars(con, orders=pl.concat([orders, orders.head(1)]))


def test_what_polars_cannot_compute_quotes_no_cell_and_costs_nothing():
    con = shop(users=20)
    frame = con.sql("SELECT * FROM visits").pl().lazy()

    def fails(part):
        raise ValueError(f"cell {part[0]}")

    db = on_polars(con, visits=frame.map_batches(fails, schema=frame.collect_schema()))
    with pytest.raises(
        RuntimeError,
        match=r"polars could not compute the rows of the query, .* nothing was charged",
    ) as caught:
        db.sql("SELECT COUNT(*) FROM visits", epsilon=1, delta=0)
    assert caught.value.__cause__ is None
    assert db.budget.spent.epsilon == 0
