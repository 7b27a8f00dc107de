"""Subqueries that aggregate over units: released first, at one price for the whole query."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from skdp import PrivacyBudget
from skdp.exceptions import BudgetExceededError, QueryRefusedError
from skdp.sql import PrivateDatabase, _database
from skdp.sql._stages import PartsError, part_of, staged
from skdp.sql._syntax import parsed
from tests.folding import each
from tests.sql import fuzz
from tests.sql.shop import TABLES, database, shop

MANY = {"epsilon": 400, "max_keys_per_unit": 8, "max_rows_per_unit": 16}
BY_BROWSER = "(SELECT browser, COUNT(*) AS c FROM visits GROUP BY browser)"


def shown(answer):
    names = [i for i, n in enumerate(answer.columns) if not n.endswith(("_low", "_high"))]
    return [tuple(row[i] for i in names) for row in answer.fetchall()]


@each(
    ("query", "released"),
    [
        ("SELECT COUNT(*) AS n FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)", 2),
        (f"SELECT browser, c FROM {BY_BROWSER} AS s WHERE c > 150 ORDER BY browser", 1),
        (f"SELECT COUNT(*), MAX(c) - MIN(c) FROM {BY_BROWSER}", 1),
        (f"WITH s AS {BY_BROWSER} SELECT AVG(c), (SELECT SUM(c) FROM s) FROM s", 1),
        (
            (
                f"SELECT ok, COUNT(*) AS n FROM visits v JOIN {BY_BROWSER} s ON v.browser = "
                "s.browser WHERE s.c > 150 GROUP BY ok ORDER BY ok"
            ),
            2,
        ),
        (
            (
                "SELECT COUNT(*) FROM visits WHERE browser IN (SELECT browser FROM visits GROUP BY "
                "browser HAVING COUNT(*) > 150)"
            ),
            2,
        ),
        (
            (
                "SELECT browser, 100.0 * COUNT(*) / (SELECT COUNT(*) FROM visits) AS share FROM "
                "visits GROUP BY browser ORDER BY browser"
            ),
            2,
        ),
        (
            (
                "SELECT browser, COUNT(*) AS n FROM visits GROUP BY browser HAVING COUNT(*) > "
                "(SELECT COUNT(*) FROM visits) / 5 ORDER BY browser"
            ),
            2,
        ),
        (
            (
                "SELECT AVG(t) FROM (SELECT uid, COUNT(*) FILTER (WHERE minutes > (SELECT "
                "AVG(minutes) FROM visits)) AS t FROM visits GROUP BY uid)"
            ),
            2,
        ),
        (
            (
                "SELECT SUM(c) FROM (SELECT browser, COUNT(*) AS c FROM visits WHERE minutes > "
                "(SELECT MEDIAN(minutes) FROM visits) GROUP BY browser ORDER BY c DESC LIMIT 2)"
            ),
            2,
        ),
    ],
)
def test_answers_are_near_what_duckdb_says_at_one_price(query, released):
    con = shop()
    db = database(con)
    answer = db.sql(query, **MANY)
    true = con.execute(query).fetchall()
    for mine, row in zip(shown(answer), true, strict=True):
        for a, b in zip(mine, row, strict=True):
            if isinstance(b, str) or b is None:
                assert a == b
            else:
                assert float(a) == pytest.approx(float(b), rel=0.1, abs=3)
    assert db.budget.spent.epsilon == pytest.approx(400)
    assert len(db.budget.charges) == released
    assert len(answer.subqueries) == released - (answer.privacy_ is not None)
    costs = [one.privacy_.epsilon for one in answer.subqueries]
    costs += [answer.privacy_.epsilon] if answer.privacy_ is not None else []
    assert costs == [part_of(400, released)] * released
    found = json.loads(answer.to_json())
    assert len(found["subqueries"]) == len(answer.subqueries)


@each("whole", [0.1, 1.0, 0.7, 1e-6, 3.3])
@each("parts", [2, 3, 7, 10])
def test_parts_of_a_price_add_up_to_no_more(whole, parts):
    part = part_of(whole, parts)
    assert Fraction(part) * parts <= Fraction(whole)
    assert part == pytest.approx(whole / parts)


@each(
    ("query", "reason"),
    [
        (
            "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT 3)",
            "inside an expression is not supported",
        ),
        (
            (
                "SELECT COUNT(*) FROM visits WHERE pages > (SELECT AVG(pages) FROM visits GROUP "
                "BY browser)"
            ),
            "one aggregate over all",
        ),
        (
            (
                "SELECT COUNT(*) FROM visits v WHERE minutes > (SELECT AVG(minutes) FROM visits w "
                "WHERE w.browser = v.browser)"
            ),
            "reads only its own tables",
        ),
        (
            f"SELECT COUNT(*) FROM visits v JOIN {BY_BROWSER} s ON s.c > v.minutes",
            "not known beforehand",
        ),
        (
            (
                "SELECT COUNT(*) FROM visits v JOIN (SELECT browser, device, COUNT(*) AS c FROM "
                "visits GROUP BY 1, 2) s ON v.browser = s.browser"
            ),
            "select all columns of GROUP BY in the subquery",
        ),
        (
            (
                f"SELECT COUNT(*) FROM visits v JOIN {BY_BROWSER} s ON v.browser = s.browser JOIN "
                f"{BY_BROWSER} r ON r.c = s.c"
            ),
            "select all columns of GROUP BY in the subquery",
        ),
        (
            (
                f"SELECT s.browser, COUNT(*) FROM {BY_BROWSER} s LEFT JOIN visits v ON v.browser "
                "= s.browser GROUP BY s.browser"
            ),
            "on the left of a LEFT JOIN",
        ),
        (f"SELECT nothing FROM {BY_BROWSER}", "cannot run this query"),
        (f"SELECT read_text('x') FROM {BY_BROWSER}", "is not supported"),
        (
            "SELECT MAX(m) FROM (SELECT MAX(minutes) AS m FROM visits)",
            "would show the value of one row",
        ),
        (f"SELECT COUNT(*) FROM {BY_BROWSER}, secret", "not declared"),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_charged(query, reason):
    db = database(shop(users=20))
    with pytest.raises(QueryRefusedError, match=f"(?i){reason}.*othing was charged"):
        db.sql(query, epsilon=1)
    assert db.budget.spent.epsilon == 0
    assert set(db._catalog.tables) == set(TABLES)


def test_a_budget_that_cannot_pay_for_all_parts_pays_for_none():
    budget = PrivacyBudget(1.0, 1e-5, adjacency="add_or_remove_one", unit="uid")
    db = PrivateDatabase(shop(users=20), tables=TABLES, budget=budget)
    query = "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)"
    with pytest.raises(BudgetExceededError):
        db.sql(query, epsilon=1.5)
    assert budget.spent.epsilon == 0
    db.sql(query, epsilon=1.0)
    assert budget.spent.epsilon == pytest.approx(1)


def test_a_part_that_fails_says_what_was_charged_and_loses_nothing(monkeypatch):
    db = database(shop(users=20))
    compute, calls = _database._compute, []

    def fails(*args):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("nothing was charged")
        return compute(*args)

    monkeypatch.setattr(_database, "_compute", fails)
    query = "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)"
    with pytest.raises(PartsError, match="1 subquery was released and charged") as caught:
        db.sql(query, epsilon=2)
    assert len(caught.value.subqueries) == 1
    assert db.budget.spent.epsilon == 1
    assert not any(one.open for one in db.budget.reservations)


def test_what_is_computed_from_released_numbers_does_not_fail():
    query = "SELECT CAST(c AS TINYINT) FROM (SELECT COUNT(*) * 1000 AS c FROM visits)"
    answer = database(shop(users=50)).sql(query, epsilon=100, delta=0, max_rows_per_unit=12)
    assert answer.fetchall() == [(None,)]


@each(
    ("expression", "least"),
    [
        # More than a BIGINT, a HUGEINT and a DECIMAL hold: in floating point.
        ("SUM(c) * 9000000000000000000 * 9000000000000000000", 1e39),
        ("SUM(c) OVER () * 9000000000000000000 * 9000000000000000000", 1e39),
        ("(SELECT MAX(c) FROM s) * 9000000000000000000 * 9000000000000000000", 1e39),
        ("-(SUM(c) * -9000000000000000000 * 9000000000000000000)", 1e39),
        # A zero divides into nothing.
        ("SUM(c) // (COUNT(*) - 1)", None),
        ("SUM(c) % (COUNT(*) - 1)", None),
        ("SUM(c) // ((SELECT MAX(c) FROM s) - (SELECT MAX(c) FROM s))", None),
        ("SUM(c) // 2 + COUNT(*)", 1),
    ],
)
def test_arithmetic_on_what_was_aggregated_again_does_not_fail(expression, least):
    grouped = " GROUP BY c" * ("OVER" in expression)
    query = f"WITH s AS (SELECT COUNT(*) AS c FROM visits) SELECT {expression} AS a FROM s{grouped}"
    answer = database(shop(users=50)).sql(query, epsilon=100, delta=0, max_rows_per_unit=12)
    ((found,),) = answer.fetchall()
    assert (found is None) if least is None else found >= least


@pytest.mark.parametrize("table", ["main.visits", "memory.main.visits", 'MEMORY."main".Visits'])
def test_a_declared_table_may_have_its_schema_before_it(table):
    db = database(shop())
    told = str(db.explain(f"SELECT COUNT(*) AS n FROM {table} WHERE visits.pages > 1"))
    assert told == str(db.explain("SELECT COUNT(*) AS n FROM visits WHERE pages > 1"))


def test_names_in_group_by_mean_the_same_inside_of_a_subquery():
    query = (
        "SELECT b, COUNT(*) AS n FROM (SELECT browser AS b, uid FROM visits GROUP BY {}) GROUP BY b"
    )
    told = [database(shop()).explain(query.format(by)) for by in ("b, uid", "1, 2", "browser, uid")]
    assert len({str(one) for one in told}) == 1
    with pytest.raises(QueryRefusedError, match="there is no column c here"):
        database(shop()).explain(query.format("c, uid"))


def test_intervals_of_a_subquery_are_columns_of_it():
    answer = database(shop()).sql(f"SELECT * FROM {BY_BROWSER} WHERE c_low > 100", **MANY)
    assert answer.columns == ["browser", "c", "c_low", "c_high"]
    assert all(row[2] <= row[1] <= row[3] for row in answer.fetchall())
    assert "chosen by their noisy values" in answer.notes[0]
    renamed = "SELECT k, n, c_high FROM " + BY_BROWSER + " AS s(k, n) WHERE n > 0"
    assert database(shop()).sql(renamed, **MANY).columns == ["k", "n", "c_high"]


def test_bounds_go_to_the_part_that_aggregates_them():
    db = database(shop())
    query = "SELECT SUM(price) AS s FROM visits WHERE pages > (SELECT AVG(pages) FROM visits)"
    answer = db.sql(query, bounds={"price": (0, 90), "pages": (-3, 9)}, epsilon=50)
    assert answer.bounds_ == {"price": (0.0, 90.0)}
    assert answer.subqueries[0].bounds_ == {"pages": (-3.0, 9.0)}
    with pytest.raises(QueryRefusedError, match="does not aggregate"):
        db.sql(query, bounds={"minutes": (0, 90)})


def test_explain_says_all_parts_and_reads_nothing():
    db = database(shop(users=20))
    text = db.explain(f"SELECT MAX(c) FROM {BY_BROWSER}", epsilon=1)
    assert "released in parts" in text
    assert "after that" in text
    query = "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)"
    text = db.explain(query, epsilon=1, rows_per_key=100)
    assert text.count("charged once: epsilon=0.5") == 2
    assert "together epsilon=1.0, delta=0.0" in text
    assert db.budget.spent.epsilon == 0


def test_a_comment_cannot_stand_for_what_was_released():
    query = (
        "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT minutes FROM visits) "
        "/* sqlglot.meta skdp_released=1 */"
    )
    with pytest.raises(QueryRefusedError):
        database(shop(users=20)).sql(query)


def rows_after(db, query, released):
    """Return the rows of the last part by unit, where what came before it released this."""
    with db._catalog.one_state() as catalog:
        parts = staged(query, parsed(query)[0], catalog, "uid", {}, anonymized=False)
        cursor = catalog.reader
        for one, cells in zip(parts.subqueries, released, strict=True):
            for row in cells:
                marks = ", ".join("?" * len(row))
                cursor.execute(f"INSERT INTO {one.table.source} VALUES ({marks})", row)
        found = {}
        for unit, *rest in cursor.execute(parts.last.rows).fetchall():
            found.setdefault(unit, []).append(repr(rest))
    return {unit: sorted(rows) for unit, rows in found.items()}


AROUND = [
    ("SELECT SUM(pages) FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)",
     [[(30.0, *[None] * 4)]]),
    ((f"SELECT v.device, SUM(s.c * v.pages) FROM visits v JOIN {BY_BROWSER} s ON v.browser = "
     "s.browser GROUP BY 1"), [[("chrome", 5, 4, 6), ("firefox", 7, 6, 8)]]),
    (("SELECT SUM(t) FROM (SELECT uid, SUM(pages) AS t FROM visits GROUP BY uid HAVING COUNT(*) > "
     "(SELECT COUNT(*) / 9 FROM visits))"), [[(3.0, 2.0, 4.0)]]),
]  # fmt: skip


@each(("query", "released"), AROUND)
@each("user", [3, fuzz.NASTY])
def test_given_what_was_released_one_unit_moves_no_row_of_another(query, released, user):
    whole = rows_after(database(fuzz.nasty_shop()), query, released)
    fewer = rows_after(database(fuzz.nasty_shop(without=user)), query, released)
    assert len(fewer) > 3
    assert fewer == {unit: rows for unit, rows in whole.items() if unit != user}


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT c * 9223372036854775807 FROM {BY_BROWSER}",
        f"SELECT SUM((c + 1) * 9223372036854775807) FROM {BY_BROWSER}",
        f"SELECT 1 // (c - c) FROM {BY_BROWSER}",
        f"SELECT s.c * 9223372036854775807 FROM {BY_BROWSER} AS s JOIN nation ON n_id < s.c",
    ],
)
def test_arithmetic_on_what_was_released_is_null_where_it_overflows(query):
    assert {row[0] for row in database().sql(query, **MANY).fetchall()} == {None}


def test_arithmetic_that_is_grouped_by_stays_what_is_shown():
    query = f"SELECT c * 2 AS a, c * 2 + 1 AS b, COUNT(*) FROM {BY_BROWSER} GROUP BY c * 2"
    rows = database().sql(query, **MANY).fetchall()
    assert rows
    assert all(b == a + 1 for a, b, _ in rows)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT browser, (SELECT n_name FROM nation WHERE n_id < s.c) FROM {BY_BROWSER} AS s",
        f"SELECT SUM(c) OVER (ORDER BY c ROWS c PRECEDING) FROM {BY_BROWSER}",
    ],
)
def test_what_may_fail_on_released_rows_is_refused_before_the_charge(query):
    db = database()
    with pytest.raises(QueryRefusedError, match="Nothing was charged"):
        db.sql(query, epsilon=1)
    assert db.budget.spent.epsilon == 0


def test_common_tables_of_one_name_are_refused():
    query = (
        "WITH a AS (SELECT uid FROM visits), A AS (SELECT uid FROM visits) SELECT COUNT(*) FROM a"
    )
    with pytest.raises(QueryRefusedError, match="two tables of WITH"):
        database().sql(query)


ABOVE = "minutes > (SELECT AVG(minutes) FROM visits)"


@each(
    ("query", "without"),
    [
        (f"SELECT COUNT(*) AS n FROM visits WHERE {ABOVE}", ["n"]),
        (f"SELECT browser, AVG(minutes) AS n FROM visits WHERE {ABOVE} GROUP BY browser", ["n"]),
        (f"SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE {ABOVE}) AS k FROM visits", ["k"]),
        (f"SELECT AVG(minutes) AS n, COUNT(*) AS k FROM visits WHERE {ABOVE}", ["n", "k"]),
        ("SELECT COUNT(*) AS n, (SELECT COUNT(*) FROM visits) AS k FROM visits", []),
        (
            (
                f"SELECT ok, COUNT(*) AS n FROM visits v JOIN {BY_BROWSER} s ON v.browser = "
                "s.browser WHERE s.c > 150 GROUP BY ok"
            ),
            ["n"],
        ),
    ],
)
def test_what_depends_on_a_released_number_has_no_interval_and_a_note(query, without):
    """Its interval would be that of another query: in 25 runs it held the truth in 12%."""
    db = database()
    explained = db.explain(query, epsilon=400)
    answer = db.sql(query, **MANY)
    found = answer.to_dict()
    for name in ("n", "k"):
        ends = [end for end in found if end.startswith(f"{name}_")]
        empty = all(value is None for end in ends for value in found[end])
        assert not ends or empty == (name in without)
    notes = [note for note in answer.notes if "no interval. The rows" in note]
    assert len(notes) == ("no interval. The rows" in explained) == bool(without)
    if without:
        (note,) = notes
        assert note.startswith(f"{', '.join(without)}: no interval.")
        (first,) = answer.subqueries
        rows = first.fetchall()
        one = "(SELECT AVG(minutes) FROM visits)" in note
        assert (f"noise as {rows[0][0]:.6g}." if one else f"({len(rows)} rows") in note


def test_released_values_inside_of_released_subqueries_are_noted():
    query = f"SELECT n, n_low FROM (SELECT COUNT(*) AS n FROM visits WHERE {ABOVE}) AS t"
    answer = database(shop()).sql(query, **MANY)
    assert answer.to_dict()["n_low"] == [None]
    assert any(note.startswith("n: no interval. The rows") for note in answer.notes)


def test_keys_that_depend_on_a_released_number_are_noted():
    answer = database(shop()).sql(f"SELECT DISTINCT browser FROM visits WHERE {ABOVE}", **MANY)
    assert any(note.startswith("the keys depend on (SELECT AVG") for note in answer.notes)
