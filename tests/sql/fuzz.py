"""Random queries against neighbouring shops: refused, or no statistic moves more than declared.

``python -m tests.sql.fuzz --write`` runs 10,000 of them and writes fuzz.md.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import time
from pathlib import Path

import numpy as np

from skdp.aggregation._plan import check_aggregates, terms_of
from skdp.exceptions import QueryRefusedError
from skdp.queries.key_totals import term_bound
from skdp.sql._plan import planned
from skdp.sql._stages import public_answer, staged
from skdp.sql._syntax import parsed
from skdp.tabular import check_grouped
from skdp.tabular.contributions import term_width
from tests.sql.shop import database, shop

NASTY = 999_999
USERS = 20

COLUMNS = {
    "visits": {
        "num": ["minutes", "pages", "price"],
        "text": ["browser", "device", "note"],
        "date": ["day"],
        "bool": ["ok"],
        "unit": ["uid"],
    },
    "customer": {"num": ["c_nation"], "text": ["c_name"], "unit": ["c_id"]},
    "orders": {"num": ["o_price", "o_id"], "date": ["o_day"], "unit": ["o_customer"]},
    "item": {"num": ["i_price", "i_n"], "text": ["i_kind"], "unit": ["i_order"]},
    "nation": {"num": ["n_id", "n_size"], "text": ["n_name"]},
}


def nasty_shop(without=None):
    """Return a shop in which one user has the worst cells; or without a user."""
    con = shop(users=USERS, without=without)
    if without != NASTY:
        for minutes, pages, day in (
            ("'nan'", 2**31 - 1, "'infinity'"),
            ("'inf'", -(2**31), "'290000-01-01 (BC)'"),
            ("-1e308", 0, "'5874897-12-31'"),
        ):
            con.execute(
                f"INSERT INTO visits VALUES ({NASTY}, chr(0) || 'x', 'pc', {minutes}, {pages}, "
                f"{day}, 'infinity', 9999999999.99, NULL, repeat('é', 5000))"
            )
        con.execute(f"INSERT INTO customer VALUES ({NASTY}, -2147483648, '')")
        con.execute(
            f"INSERT INTO orders VALUES (-9223372036854775808, {NASTY}, 'nan', '-infinity')"
        )
        con.execute("INSERT INTO item VALUES (-9223372036854775808, 1e308, '%', -2147483648)")
    return con


class Generator:
    """Draws queries: most are meant to be answered, some break a rule each."""

    def __init__(self, seed, source_spelling=False):
        self.rng = np.random.default_rng(seed)
        self.source_spelling = source_spelling

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def chance(self, p):
        return self.rng.random() < p

    def column(self, kind, tables):
        known = [f"{a}.{c}" for a, t in tables for c in COLUMNS[t].get(kind, [])]
        return self.pick(*known) if known else None

    def number(self, tables, depth=2):
        column = self.column("num", tables)
        if depth == 0 or self.chance(0.3):
            return column if column and self.chance(0.8) else str(self.pick(0, 1, -2, 0.5, 1e300))
        a = self.number(tables, depth - 1)
        b = self.number(tables, depth - 1)
        text, date = self.text(tables, depth - 1), self.column("date", tables)
        return self.pick(
            *(f"({a} {self.pick('+', '-', '*', '/', '%')} {b})", f"ABS({a})", f"ROUND({a}, 1)"),
            *(f"FLOOR({a})", f"SQRT({a})", f"LN({a})", f"COALESCE({a}, {b})", f"NULLIF({a}, {b})"),
            *(f"GREATEST({a}, {b})", f"(-{a})", f"LENGTH({text})", f"CAST({text} AS DOUBLE)"),
            f"CASE WHEN {self.condition(tables, depth - 1)} THEN {a} ELSE {b} END",
            f"CAST({a} AS BIGINT)",
            f"YEAR({date})" if date else a,
            f"({date} - DATE '2026-01-10')" if date else b,
        )

    def text(self, tables, depth=1):
        column = self.column("text", tables) or "'x'"
        if depth == 0 or self.chance(0.5):
            return column
        other = self.text(tables, depth - 1)
        return self.pick(
            *(f"LOWER({other})", f"UPPER({other})", f"SUBSTRING({other}, 1, 2)", "'chrome'"),
            *(f"({column} || {other})", f"REPLACE({other}, 'o', '00')", f"LEFT({other}, 3)"),
            f"CAST({self.number(tables, depth - 1)} AS VARCHAR)",
        )

    def condition(self, tables, depth=2):
        if depth > 0 and self.chance(0.4):
            a, b = self.condition(tables, depth - 1), self.condition(tables, depth - 1)
            return self.pick(f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})")
        a, b = (self.number(tables, min(depth, 1)) for _ in range(2))
        text, date = self.text(tables, min(depth, 1)), self.column("date", tables)
        return self.pick(
            f"{a} {self.pick('<', '<=', '>', '>=', '=', '<>', 'IS DISTINCT FROM')} {b}",
            f"{a} BETWEEN {b} AND 50",
            f"{a} IN (1, 2, {b})",
            f"{text} LIKE '%o_'",
            f"{text} IS {self.pick('', 'NOT ')}NULL",
            f"{text} IN ('chrome', 'a')",
            f"{date} > '2026-01-10'" if date else "TRUE",
            f"{date} + INTERVAL 3 DAY < DATE '2026-01-20'" if date else "1 = 1",
            self.column("bool", tables) or "FALSE",
        )

    def source(self):
        """Return FROM and its tables: (alias, table)."""
        v, w = [("v", "visits")], [("v", "visits"), ("w", "visits")]
        co = [("c", "customer"), ("o", "orders")]
        oi = [("o", "orders"), ("i", "item")]
        cn = [("c", "customer"), ("n", "nation")]
        on = self.condition(self.pick(w, v))
        sub = self.condition(v)
        every = "uid, minutes, pages, price, browser, device, note, day, ok"
        return self.pick(
            *[("visits v", v)] * 4,
            ("item i", oi[1:]),
            ("orders o", co[1:]),
            ("visits v JOIN visits w ON v.uid = w.uid", w),
            (f"visits v JOIN visits w ON v.uid = w.uid AND {on}", w),
            (f"visits v LEFT JOIN visits w ON v.uid = w.uid AND {on}", w),
            ("customer c JOIN orders o ON c.c_id = o.o_customer", co),
            ("customer c LEFT JOIN orders o ON c_id = o_customer", co),
            ("orders o JOIN item i ON i_order = o_id", oi),
            ("orders o, item i, customer c", [*oi, co[0]]),
            ("item i JOIN item j ON i.i_order = j.i_order", [("i", "item"), ("j", "item")]),
            ("customer c LEFT JOIN nation n ON c_nation = n_id", cn),
            ("customer c JOIN nation n ON c_nation = n_id", cn),
            (f"visits v JOIN nation n ON {self.condition([*v, *cn[1:]], 1)}", [*v, *cn[1:]]),
            ("visits v CROSS JOIN nation n", [*v, *cn[1:]]),
            (f"(SELECT * FROM visits v WHERE {sub}) v", v),
            (f"(SELECT DISTINCT {every} FROM visits) v", v),
            ("(SELECT * FROM visits UNION ALL SELECT * FROM visits WHERE ok) v", v),
            # What must be refused:
            (f"visits v JOIN visits w ON {on}", w),
            ("visits v, visits w", w),
            (f"(SELECT * FROM visits LIMIT {self.rng.integers(9)}) v", v),
            ("(SELECT DISTINCT browser FROM visits) v", v),
            ("nation n LEFT JOIN customer c ON c_nation = n_id", cn),
            ("secret v", v),
            ("visits v FULL JOIN customer c ON uid = c_id", [*v, *cn[:1]]),
        )  # fmt: skip

    def inner(self):
        """Return a query over a subquery that aggregates inside units, or inside what is not."""
        v = [("v", "visits")]
        by = self.pick("uid", "uid", "uid, browser", "browser", "uid, ok")
        made = [
            f"{self.pick('MIN', 'MAX', 'SUM', 'AVG', 'COUNT')}({self.number(v)}) AS x{i}"
            for i in range(2)
        ]
        having = self.pick(
            "", f" HAVING COUNT(*) > {self.rng.integers(4)}", " HAVING MAX(pages) > 2"
        )
        columns = f"{by}, COUNT(*) AS n, {', '.join(made)}"
        where = self.condition(v)
        inner = f"SELECT {columns} FROM visits v WHERE {where} GROUP BY {by} {having}"
        key = self.pick("n", "LEAST(n, 3)", "x0 > 3")
        return self.pick(
            f"SELECT {key}, COUNT(*), SUM(x1) FROM ({inner}) GROUP BY 1",
            f"WITH q AS ({inner}) SELECT AVG(x0), MEDIAN(x1), COUNT(*) FROM q WHERE n > 1",
            f"WITH q AS ({inner}) SELECT SUM(q.x0 * v.pages) FROM q JOIN visits v ON v.uid = q.uid",
        )

    def aggregate(self, tables):
        x, y = self.number(tables), self.condition(tables, 1)
        return self.pick(
            *("COUNT(*)", f"COUNT({x})", f"SUM({x})", f"AVG({x})", f"MEDIAN({x})", "COUNT(*)"),
            *(f"VAR_POP({x})", f"STDDEV({x})", f"QUANTILE_CONT({x}, 0.9)", f"COUNT_IF({y})"),
            *(f"SUM({x}) FILTER (WHERE {y})", f"COUNT(*) FILTER (WHERE {y})", f"AVG({x}) * 2"),
            *(f"SUM({x}) / COUNT(*)", f"COUNT(DISTINCT {self.column('unit', tables)})"),
            *((f"MAX({x})", f"SUM({x}) OVER ()", x, "ANY_VALUE(1)") if self.chance(0.1) else ()),
        )

    def clamped(self, tables):
        """Return an aggregate in the source's spelling."""
        x = self.number(tables)
        clamp = self.pick("", *(f" CLAMPED BETWEEN {ends}" for ends in ("0 AND 1", "-3.5 AND 9")))
        return self.pick(
            *(f"ANON_COUNT(*{clamp})", f"ANON_COUNT({x}{clamp})", f"ANON_AVG({x}{clamp})"),
            *(f"ANON_SUM({x}{clamp})", f"ANON_VAR({x}{clamp})", f"ANON_STDDEV_POP({x}{clamp})"),
            *(f"ANON_PERCENTILE({x}, 0.5{clamp})", f"ANON_COUNT(*{clamp}) / 2", "COUNT(*)"),
            *((f"MAX({x})", f"ANON_SUM({x} CLAMPED BETWEEN 2 AND 1)") if self.chance(0.1) else ()),
        )

    def test(self, tables):
        """Return a semi-join, or a plain condition."""
        names = dict(tables)
        more = []
        if "v" in names:
            inner = self.condition([("z", "visits")], 1)
            more += [
                f"EXISTS (SELECT 1 FROM visits z WHERE z.uid = v.uid AND {inner})",
                f"NOT EXISTS (SELECT 1 FROM orders o9 WHERE o9.o_customer = v.uid AND {inner})",
                f"EXISTS (SELECT 1 FROM visits z WHERE {inner})",
                f"v.uid IN (SELECT z.uid FROM visits z WHERE {inner})",
                "v.uid NOT IN (SELECT o_customer FROM orders)",
                "v.browser IN (SELECT browser FROM visits)",
                "v.pages IN (SELECT n_id FROM nation)",
            ]
        if "o" in names:
            more += [
                "o.o_id IN (SELECT i_order FROM item GROUP BY i_order HAVING SUM(i_n) > 4)",
                "EXISTS (SELECT 1 FROM item z WHERE z.i_order = o.o_id AND z.i_n > 2)",
                "o_id NOT IN (SELECT i_order FROM item WHERE i_price > 20)",
            ]
        return self.pick(*more) if more and self.chance(0.3) else self.condition(tables)

    def query(self):
        if self.chance(0.15):
            return self.spoiled(self.inner())
        source, tables = self.source()
        if source.startswith("orders o, item i"):
            joined = "o_id = i_order AND c_id = o_customer"
            tests = [self.pick(joined, joined, "o_id = i_order")]
        else:
            tests = []
        tests += [self.test(tables) for _ in range(self.rng.integers(3))]
        keys = [
            self.pick(self.text, self.number, self.condition)(tables)
            for _ in range(self.pick(0, 1, 1, 2))
        ]
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        made, options = self.aggregate, ""
        if self.source_spelling and self.chance(0.5):
            kind = self.pick("ANONYMIZATION", "DIFFERENTIAL_PRIVACY")
            made, options = self.clamped, f"WITH {kind} OPTIONS (epsilon = 1, kappa = 2) "
        items += [f"{made(tables)} AS a{i}" for i in range(self.rng.integers(1, 4))]
        query = f"SELECT {options}{', '.join(items)} FROM {source}"
        query += f" WHERE {' AND '.join(tests)}" if tests else ""
        query += f" GROUP BY {', '.join(keys)}" if keys else ""
        query += self.pick("", "", " HAVING COUNT(*) > 3", " ORDER BY a0 DESC LIMIT 3")
        return self.spoiled(query)

    def in_parts(self):
        """Return a query with subqueries that aggregate over units."""
        source, tables = self.source()
        v = [("v", "visits")]
        inner = f"FROM visits v WHERE {self.condition(v, 1)}"
        key = self.text(v)
        if self.chance(0.3):
            inner += f" AND {self.number(v, 1)} > (SELECT {self.aggregate(v)} FROM visits v)"
        by_key = f"(SELECT {key} AS k, {self.aggregate(v)} AS c {inner} GROUP BY {key})"
        ordered = by_key[:-1] + self.pick("", " HAVING COUNT(*) > 3", " ORDER BY c LIMIT 2") + ")"
        number = f"(SELECT {self.aggregate(v)} {inner})"
        first, second = self.aggregate(tables), self.aggregate(v)
        tied = f"FROM visits v JOIN {by_key} s ON v.browser = s.k"
        query = self.pick(
            f"SELECT {first} FROM {source} WHERE {self.number(tables, 1)} > {number}",
            f"SELECT {second} {tied} WHERE s.c > {self.number(v, 1)}",
            f"SELECT {second} {tied} AND s.c > {self.number(v, 0)} WHERE {self.condition(v, 1)}",
            f"SELECT s.k, SUM(s.c * {self.number(v, 1)}) {tied} GROUP BY s.k",
            f"SELECT {second} FROM visits v WHERE v.browser IN (SELECT k FROM {ordered})",
            f"SELECT {first} / {number} AS r FROM {source}",
            f"SELECT {key}, {second} FROM visits v GROUP BY 1 HAVING COUNT(*) > {number}",
            f"WITH q AS {ordered} SELECT MAX(c), (SELECT MIN(c) FROM q) FROM q WHERE c > 2",
            f"WITH q AS {by_key} SELECT {second} FROM visits v WHERE 9 > (SELECT AVG(c) FROM q)",
            f"SELECT AVG(t) FROM (SELECT uid, SUM({self.number(v, 1)}) AS t FROM visits v GROUP BY "
            f"uid HAVING COUNT(*) > {number})",
            f"SELECT {second} FROM visits v JOIN {by_key} s ON s.c > v.pages",
        )
        return self.spoiled(query)

    def spoiled(self, query):
        """Return a query, one in twenty with a word lost, doubled or put elsewhere."""
        if not self.chance(0.05):
            return query
        words = query.split(" ")
        i, j = self.rng.integers(len(words), size=2)
        new = self.pick([], [words[i], words[i]], [words[j]], ["NULL"], ["*"], ["'"], [";"])
        return " ".join([*words[:i], *new, *words[i + 1 :]])


def fetched(con, plan):
    """Return the rows of a plan as lists by column."""
    found = con.execute(plan.rows)
    names = [one[0] for one in found.description]
    cells = list(zip(*found.fetchall(), strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, cells, strict=True)}


def fill(cursor, table):
    """Put rows into the table of a released subquery: any, for what they are is public."""
    cells = {
        "int": ["0", "5", "-9223372036854775808"],
        "num": ["0.5", "'nan'", "1e300"],
        "text": ["'chrome'", "'it''s'", "NULL"],
        "bool": ["TRUE", "FALSE", "NULL"],
        "date": ["DATE '2026-01-10'", "NULL", "'infinity'"],
        "time": ["NULL", "TIMESTAMP '2026-01-10 01:00:00'", "'infinity'"],
    }
    for i in range(3 if table.released else 1):
        row = ", ".join(
            f"TRY_CAST({cells[column.family][i]} AS {column.kind})"
            for column in table.columns.values()
        )
        cursor.execute(f"INSERT INTO {table.source} VALUES ({row})")


def by_unit(rows):
    out = collections.defaultdict(list)
    for unit, *rest in zip(*rows.values(), strict=True):
        out[unit].append(repr(rest))
    return {unit: sorted(of) for unit, of in out.items()}


def exact(rows, plan, keys, terms, caps):
    """Return the exact statistics of rows, with secret ranks that are the same for all."""
    made = {name: np.array(cells, dtype=float) for name, cells in rows.items()
            if name not in (*plan.by, "uid")}  # fmt: skip
    made |= {name: rows[name] for name in (*plan.by, "uid")}
    table = check_grouped(made, by=plan.by, unit="uid", columns=list(made)[: len(made) - 1 -
                          len(plan.by)], allow_empty=True)  # fmt: skip
    table.secret = 7
    return np.array(table.totals(keys, terms, *caps), dtype=float)


class Checker:
    """Neighbouring shops, and the check of one query on them."""

    def __init__(self, users=(3, 8, NASTY)):
        self.whole = nasty_shop()
        self.less = {user: nasty_shop(without=user) for user in users}
        self.databases = {None: database(self.whole)}
        self.databases |= {user: database(con) for user, con in self.less.items()}

    def plan(self, query, user=None):
        catalog = self.databases[user]._catalog
        try:
            select, options = parsed(query)
            return planned(query, select, catalog, "uid", {}, anonymized=options.used), ""
        except QueryRefusedError as error:
            return None, str(error)

    def check_parts(self, query, number):
        """Return what became of a query in parts; raise where one of them shows a unit."""
        user = list(self.less)[number % len(self.less)]
        found = []
        for which in (None, user):
            with self.databases[which]._catalog.one_state() as catalog:
                try:
                    parts = staged(query, parsed(query)[0], catalog, "uid", {}, anonymized=False)
                except QueryRefusedError as error:
                    found.append(str(error))
                    continue
                cursor = catalog.reader
                rows = []
                for i, plan in enumerate(parts.plans):
                    rows.append((plan.rows, by_unit(fetched(cursor, plan))))
                    if i < len(parts.subqueries):
                        fill(cursor, parts.subqueries[i].table)
                if parts.last is None:
                    public_answer(catalog, query, parts.tree)
                found.append(rows)
        if isinstance(found[0], str) or isinstance(found[1], str):
            assert found[0] == found[1], query
            return "refused"
        for (text, whole), (other, fewer) in zip(*found, strict=True):
            assert text == other, query
            assert fewer == {unit: of for unit, of in whole.items() if unit != user}, query
        return "in parts" if len(found[0]) > 1 or parts.last is None else "answered"

    def check(self, query, number):
        """Return what became of a query; raise where it shows a unit."""
        plan, why = self.plan(query)
        user = list(self.less)[number % len(self.less)]
        other, reason = self.plan(query, user)
        assert why == reason, query
        if why:
            return "refused"
        if plan is None:
            return "public"
        assert plan.rows == other.rows
        rows, fewer = fetched(self.whole, plan), fetched(self.less[user], plan)
        mine = by_unit(rows)
        moved = {unit: of for unit, of in mine.items() if unit != user}
        assert by_unit(fewer) == moved, query
        if not plan.aggregates or not rows["uid"]:
            return "answered"
        bounds = {name: plan.bounds.get(name, (-10.0, 20.0)) for name in rows}
        specs = {one.name: one.given(bounds) for one in plan.aggregates}
        terms = [t for one in check_aggregates(specs, "private") for t in terms_of(one)]
        cells = zip(*(rows[name] for name in plan.by), strict=True)
        keys = sorted({key if len(plan.by) > 1 else key[0] for key in cells})
        for caps in ((1, 1), (2, 3)):
            a = exact(rows, plan, keys, terms, caps)
            b = exact(fewer, plan, keys, terms, caps)
            start = 0
            for term in terms:
                width = term_width(term)
                gap = np.abs(a - b)[:, start : start + width].sum()
                start += width
                limit = term_bound(term, caps[1])[0] * caps[0]
                assert gap <= limit, (query, term.kind, caps, gap, limit)
        return "answered"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--parts", action="store_true", help="queries with subqueries over units")
    parser.add_argument("--anonymization", action="store_true", help="the source's spelling, too")
    given = parser.parse_args()
    checker, generator = Checker(), Generator(given.seed, given.anonymization)
    started, found = time.time(), collections.Counter()
    for number in range(given.queries):
        if given.parts:
            found[checker.check_parts(generator.in_parts(), number)] += 1
        else:
            found[checker.check(generator.query(), number)] += 1
    moved = "" if given.parts else "None moved a statistic by more than declared, none"
    text = (
        f"{datetime.date.today()}: {given.queries} random queries (seed {given.seed}), "
        f"{dict(found)}. {moved or 'None'} changed a row of another unit, none raised anything but "
        f"a refusal. {time.time() - started:.0f} s.\n"
    )
    print(text)
    if given.write and not given.parts:
        Path(__file__).with_suffix(".md").write_text(f"# Random queries\n\n{text}")


if __name__ == "__main__":
    main()
