"""Random SQL expressions over extreme cells of all types, beside what DuckDB itself answers.

``python -m tests.sql.expressions --write`` draws 50,000 expressions and adds the result to fuzz.md.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import math
import re
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
from sqlglot import exp, parse_one

from skdp import PrivacyBudget
from skdp.exceptions import QueryRefusedError
from skdp.sql import PrivateDatabase
from skdp.sql._sources import Compiler
from skdp.sql._syntax import with_extracts
from skdp.sql.rules import compiled

# Column: its type, and cells.
CELLS = {
    "ti": ("TINYINT", ["-128", "127", "0", "3"]),
    "i": ("INTEGER", ["-2147483648", "2147483647", "0", "7"]),
    "b": ("BIGINT", ["-9223372036854775808", "9223372036854775807", "0", "-1", "5"]),
    "h": ("HUGEINT", [str(-(2**127)), str(2**127 - 1), "0", "5"]),
    "ut": ("UTINYINT", ["255", "0", "9"]),
    "ub": ("UBIGINT", ["18446744073709551615", "0", "1", "9007199254740993"]),
    "p": ("DECIMAL(9, 2)", ["9999999.99", "-9999999.99", "0", "0.15", "2.50"]),
    "m": ("DECIMAL(18, 18)", ["0.999999999999999999", "-0.000000000000000001", "0", "0.5"]),
    "q": ("DECIMAL(38, 10)", ["9999999999999999999999999999.9999999999", "-0.0000000001", "1.5"]),
    "f": ("FLOAT", ["inf", "-inf", "nan", "0.1", "-0.0", "3.4e38"]),
    "x": ("DOUBLE", ["inf", "nan", "-0.0", "1e308", "0.1", "-2.5"]),
    "s": ("VARCHAR", ["x", "9e999", "9999-12-31", "12", "é", "", "LONG", "12:30:00"]),
    "en": ("ENUM('x', '9', '')", ["x", "9", ""]),
    "d": ("DATE", ["infinity", "0001-01-01", "9999-12-31", "290000-01-01", "2024-02-29"]),
    "t": (
        "TIMESTAMP",
        [
            "infinity",
            "-infinity",
            "0001-01-01",
            "9999-12-31 23:59:59.999999",
            "2024-02-29 10:30:05",
        ],
    ),
    "n": ("TIMESTAMP_NS", ["2020-01-01 00:00:00.123456789", "1700-01-01", "2262-01-01"]),
    "z": (
        "TIMESTAMPTZ",
        ["infinity", "2020-01-01 00:00:00+05", "9999-12-31 23:59:59+00", "0001-01-01 00:00:00+00"],
    ),
    "c": ("TIME", ["00:00:00", "23:59:59.999999", "12:30:00"]),
    "bl": ("BLOB", ["", "a", "b"]),
    "u": ("UUID", ["6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b", "00000000-0000-0000-0000-000000000000"]),
    "o": ("BOOLEAN", ["true", "false"]),
}
NUMBERS = ("ti", "i", "b", "h", "ut", "ub", "p", "m", "q", "f", "x")
ROWS = 24


def table():
    """Return a connection with a table t of extreme cells; rows are numbered by r."""
    rng = np.random.default_rng(0)
    con = duckdb.connect()
    con.execute("SET threads = 1; SET TimeZone = 'UTC'")
    listed = ", ".join(f"{name} {kind}" for name, (kind, _) in CELLS.items())
    con.execute(f"CREATE TABLE t (r BIGINT, {listed})")
    for row in range(ROWS):
        cells = []
        for kind, values in CELLS.values():
            value = values[row % len(values)] if row < 8 else values[rng.integers(len(values))]
            text = "repeat('é', 5000)" if value == "LONG" else f"'{value}'"
            cells.append("NULL" if rng.random() < 0.1 else f"CAST({text} AS {kind})")
        con.execute(f"INSERT INTO t VALUES ({row}, {', '.join(cells)})")
    return con


class Generator:
    """Draws expressions whose types fit."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def expression(self):
        kind = self.pick(self.number, self.number, self.moment, self.text, self.test, self.choice)
        return kind(int(self.rng.integers(1, 5)))

    def number(self, depth):
        if depth <= 0:
            stated = ("0", "1", "-2", "2.5", "0.07", "1e300", "9223372036854775807")
            return self.pick(*NUMBERS, *NUMBERS, *stated)
        a, b = self.number(depth - 1), self.number(depth - 1)
        part = self.pick(
            *("YEAR", "QUARTER", "MONTH", "DAY", "DOW", "DOY", "WEEK", "HOUR", "MINUTE", "SECOND"),
            *("EPOCH", "ISODOW", "MILLISECOND", "ISOYEAR"),
        )
        unit = self.pick("year", "quarter", "month", "week", "day", "hour", "minute", "second")
        kind = self.pick(
            *(
                "BIGINT",
                "DOUBLE",
                "FLOAT",
                "INT",
                "TINYINT",
                "HUGEINT",
                "UBIGINT",
                "DECIMAL(12, 3)",
            ),
            *("DECIMAL(38, 5)", "DECIMAL(4, 4)"),
        )
        of = self.pick(self.number, self.text, self.test)(depth - 1)
        date = self.moment(depth - 1)
        return self.pick(
            *(f"({a} {self.pick('+', '-', '*', '/', '%')} {b})" for _ in range(5)),
            *(f"{self.pick('ABS', 'FLOOR', 'CEIL', 'SQRT', 'LN', '-')}({a})" for _ in range(2)),
            f"ROUND({a}, {self.rng.integers(-2, 5)})",
            f"({a} // {b})",
            f"CASE WHEN {self.test(depth - 1)} THEN {a} ELSE {b} END",
            f"CASE {a} WHEN {b} THEN {a} WHEN 1 THEN 0 END",
            f"TRY_CAST({of} AS {kind})",
            f"TRY_CAST({of} AS {kind})",
            f"EXTRACT({part} FROM {date})",
            f"DATE_PART('{part}', {self.pick(date, 'c')})" if part in ("HOUR", "SECOND") else a,
            f"DATE_DIFF('{unit}', {date}, {self.moment(depth - 1)})",
            f"LENGTH({self.text(depth - 1)})",
            f"{self.pick('COALESCE', 'GREATEST', 'LEAST', 'NULLIF')}({a}, {b})",
        )

    def moment(self, depth):
        if depth <= 0:
            return self.pick(
                "d", "t", "n", "z", "DATE '2024-02-29'", "TIMESTAMP '2020-05-05 10:00:00'"
            )
        a = self.moment(depth - 1)
        unit = self.pick("DAY", "MONTH", "YEAR", "HOUR", "WEEK", "MINUTE")
        cut = self.pick("year", "quarter", "month", "week", "day", "hour", "minute")
        of = self.pick(self.moment, self.text)(depth - 1)
        return self.pick(
            f"({a} {self.pick('+', '-')} INTERVAL {self.pick(1, 90, 9999)} {unit})",
            f"DATE_TRUNC('{cut}', {a})",
            f"TRY_CAST({of} AS {self.pick('DATE', 'TIMESTAMP')})",
            f"{self.pick('COALESCE', 'GREATEST', 'LEAST')}({a}, {self.moment(depth - 1)})",
            f"CASE WHEN {self.test(depth - 1)} THEN {a} END",
        )

    def text(self, depth):
        if depth <= 0:
            return self.pick("s", "s", "en", "'x'", "''", "'12'")
        a, b = self.text(depth - 1), self.text(depth - 1)
        n = self.pick(0, 1, 7)
        form = self.pick("%Y-%m", "%d.%m.%y %H:%M:%S.%f", "%j %U %W %u %w %V %G", "%A %b %-d %I %p")
        cell = self.pick(self.number, self.moment, self.test, lambda _: "u", lambda _: "c")
        return self.pick(
            *(f"LOWER({a})", f"UPPER({a})", f"TRIM({a})", f"({a} || {b})", f"CONCAT({a}, {b})"),
            *(f"SUBSTRING({a}, {n}, {n})", f"LEFT({a}, {n})", f"RIGHT({a}, {n})"),
            *(f"REPLACE({a}, 'é', 'éé')", f"COALESCE({a}, {b})", f"NULLIF({a}, {b})"),
            *(
                f"CAST({cell(depth - 1)} AS VARCHAR)",
                f"STRFTIME({self.moment(depth - 1)}, '{form}')",
            ),
            f"{self.pick('DAYNAME', 'MONTHNAME')}({self.moment(depth - 1)})",
        )

    def test(self, depth):
        if depth <= 0:
            return self.pick("o", "TRUE", "i > 0", "s IS NULL", "x = x", "p = 0.15", "f = 0.1")
        sign = self.pick("=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
        number, moment, text = (
            (one(depth - 1), one(depth - 1)) for one in (self.number, self.moment, self.text)
        )
        pairs = (number, number, moment, text, ("u", "u"), ("bl", "bl"), ("c", "TIME '12:30:00'"))
        a, b = pairs[self.rng.integers(len(pairs))]
        x, y = self.test(depth - 1), self.test(depth - 1)
        return self.pick(
            *(f"({a} {sign} {b})" for _ in range(4)),
            f"({a} BETWEEN {b} AND {a})",
            f"({a} IN ({b}, {a}))",
            f"({number[0]} IN (1, 0.1, 7))",
            f"(({a}) IS NULL)",
            *(f"({x} AND {y})", f"({x} OR {y})", f"(NOT {x})", f"({x} IS TRUE)"),
            *(f"({text[0]} LIKE '%1_a%')", f"({text[0]} ILIKE 'É%')", f"ISNAN({number[0]})"),
            *(f"STARTS_WITH({text[0]}, 'x')", f"CONTAINS({text[0]}, '1')"),
            f"TRY_CAST({text[0]} AS BOOLEAN)",
        )

    def choice(self, depth):
        kind = self.pick(self.number, self.moment, self.text)
        return f"CASE WHEN {self.test(depth - 1)} THEN {kind(depth - 1)} ELSE {kind(depth - 1)} END"


# --- reasons for differences ----------------------------------------------------------------------


def _domains(node):
    """Return an expression in which division by zero, logarithms and roots are NULL."""
    if isinstance(node, exp.Div | exp.Mod | exp.IntDiv):
        divisor = exp.Nullif(this=node.expression.copy(), expression=exp.Literal.number(0))
        return type(node)(this=node.this.copy(), expression=divisor)
    if isinstance(node, exp.Ln | exp.Sqrt):
        sign = exp.GT if isinstance(node, exp.Ln) else exp.GTE
        test = sign(this=node.this.copy(), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=test, true=node.copy())])
    return node


def _double(*names):
    """Return what makes columns, and casts to FLOAT, DOUBLE."""

    def change(node):
        double = exp.DataType.build("DOUBLE")
        stated = isinstance(node.parent, exp.EQ) and isinstance(node.parent.expression, exp.Literal)
        if isinstance(node, exp.Column) and node.name in names and not stated:
            return exp.Cast(this=node.copy(), to=double)
        if isinstance(node, exp.Cast) and node.to.this.name == "FLOAT" and "f" in names:
            return exp.Cast(this=node.copy(), to=double)
        return node

    return change


def _one_zero(node):
    """Return columns of floating point with one zero and one NaN."""
    if isinstance(node, exp.Column) and node.name in ("f", "x"):
        return parse_one(
            f"CASE WHEN {node.name} = 0 THEN 0::FLOAT ELSE {node.name} END", read="duckdb"
        )
    return node


def _cut(node):
    """Return columns of nanoseconds as microseconds."""
    if isinstance(node, exp.Column) and node.name == "n":
        return parse_one("MAKE_TIMESTAMP(EPOCH_US(n))", read="duckdb")
    return node


def rewritten(tree, change):
    """Return an expression with a change made in all of its parts, from the inside out."""
    root = exp.Paren(this=tree.copy())
    for node in reversed(list(root.this.walk())):
        new = change(node)
        if new is not node:
            node.replace(new)
    return root.this


# Why values may differ from DuckDB's. Those with a function are tried: DuckDB is asked again.
REASONS = {
    "dates and long texts": (
        "A date that is infinite or outside the years 1 to 9999 is NULL where anything is computed "
        "from it; texts are cut at 1,000 characters."
    ),
    "zero divisors, logarithms and roots": (
        "x / 0, x % 0, LN(0) and SQRT of a negative number are NULL; DuckDB has infinity, NaN or "
        "an error."
    ),
    "FLOAT is computed as DOUBLE": (
        "FLOAT cells are compared with stated numbers as FLOAT, and computed with as DOUBLE."
    ),
    "decimals beyond 38 digits are DOUBLE": "DuckDB drops digits or raises there.",
    "one zero": "-0.0 is 0.0.",
    "nanoseconds are cut": (
        "What is computed from TIMESTAMP_NS is TIMESTAMP, and nanoseconds are cut; DuckDB rounds, "
        "in DATE_TRUNC up to the next minute."
    ),
    "wide integers": (
        "Where a result may need more than 127 bits, operands that leave no room for it are NULL, "
        "as is -2**127; ROUND of HUGEINT to tens is DOUBLE."
    ),
    "FLOOR and CEIL of integers": "They stay integers; DuckDB makes them DOUBLE.",
    "exact instead of DOUBLE": "Remainders of decimals and integers are exact.",
    "stated numbers": "What two stated numbers make is computed exactly, then rounded once.",
    "digits of a type": "CAST AS VARCHAR shows the digits of a DECIMAL, whose type may differ.",
    "decimals rounded to tens": "ROUND(x, -2) of a DECIMAL that has no room for it: DuckDB has 0.",
    "DATE and INTERVAL of days is a DATE": (
        "DuckDB makes it a TIMESTAMP of midnight, which CAST AS VARCHAR shows."
    ),
}


def _stated(node):
    """Return what two stated numbers make."""
    sides = [node.args.get("this"), node.args.get("expression")]
    if not isinstance(node, exp.Mul | exp.Div) or not all(
        isinstance(side, exp.Literal) for side in sides
    ):
        return node
    a, b = (Fraction(str(side.this)) for side in sides)
    if isinstance(node, exp.Div) and not b:
        return node
    value = a * b if isinstance(node, exp.Mul) else a / b
    return exp.cast(exp.Literal.string(repr(float(value))), "DOUBLE")


CHANGES = {
    "one zero": _one_zero,
    "stated numbers": _stated,
    "nanoseconds are cut": _cut,
    "zero divisors, logarithms and roots": _domains,
    "FLOAT is computed as DOUBLE": _double("f"),
    "decimals beyond 38 digits are DOUBLE": _double("p", "m", "q"),
}


# --- beside DuckDB --------------------------------------------------------------------------------


def same(mine, own):
    """Say whether two values are equal; NaN is missing, and floats have 12 digits."""
    mine, own = (None if isinstance(v, float) and v != v else v for v in (mine, own))
    if mine is None or own is None:
        return mine is own
    if isinstance(mine, bool) or isinstance(own, bool):
        return mine is own
    numbers = (int, float, Decimal)
    if isinstance(mine, numbers) and isinstance(own, numbers):
        if isinstance(mine, float) or isinstance(own, float):
            return mine == own or math.isclose(float(mine), float(own), rel_tol=1e-12)
        return Fraction(mine) == Fraction(own)
    return plain(mine) == plain(own)


def _are_numbers(*values):
    return all(isinstance(one, int | float | Decimal) for one in values)


def _number(text):
    """Return the number that a text says, None for others."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def plain(value):
    """Return a value as text: a date is the timestamp of its midnight, zoned ones are in UTC."""
    text = str(value).removesuffix("+00:00").removesuffix("+00")
    return text.removesuffix(" 00:00:00")


class Checker:
    """Puts expressions to skdp and to DuckDB."""

    def __init__(self):
        self.con = table()
        budget = PrivacyBudget(1, 1e-6, adjacency="add_or_remove_one", unit="r")
        database = PrivateDatabase(self.con, tables={"t": {"unit": "r"}}, budget=budget)
        self.catalog = database._catalog

    def sql(self, text):
        """Return our SQL of an expression."""
        compiler = Compiler(self.catalog)
        body = compiler.body(parse_one("SELECT 1 FROM t", read="duckdb"), {})
        node = compiled(with_extracts(parse_one(text, read="duckdb")), body.scope)
        return f"SELECT {body.unit} AS r, {node.sql} {body.sql} ORDER BY 1"

    def mine(self, text):
        """Return our values by row; raises where it is refused."""
        return dict(self.con.execute(self.sql(text)).fetchall())

    def own(self, text):
        """Return DuckDB's values by row, without those that it raises for; None if for all."""
        try:
            return dict(self.con.execute(f"SELECT r, {text} FROM t ORDER BY r").fetchall())
        except duckdb.Error:
            pass
        try:
            found = self.con.execute(f"SELECT r, TRY({text}) FROM t ORDER BY r").fetchall()
        except duckdb.Error:
            return None
        return {row: value for row, value in found if value is not None}

    def special_rows(self, text):
        """Return the rows where an expression has a date that is none, or a long text."""
        names = set(re.findall(r"\b[a-z]+\b", text))
        tests = [
            f"{name} NOT BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999'"
            for name in names & {"d", "t", "z"}
        ]
        tests = [one.replace("9999-12-31 23:59:59.999999", "9999-12-31") if one[0] == "d" else one
                 for one in tests]  # fmt: skip
        tests += ["strlen(s) > 1000"] * ("s" in names)
        if "INTERVAL" in text:  # moves the first and last days beyond the years 1 to 9999
            tests += [f"year({name}) IN (1, 9999)" for name in sorted(names & {"d", "t", "z"})]
        if re.search("INTERVAL|AS DATE|AS TIMESTAMP", text) and "s" in names:
            tests.append("s = '9999-12-31'")
        if re.search("AS DATE|AS TIMESTAMP", text):  # of the text 'inf'
            tests += [f"NOT isfinite({name})" for name in sorted(names & {"f", "x"})]
        tests += ["TRUE"] * bool(re.search("INTERVAL 9999 (YEAR|MONTH)", text))
        sql = f"SELECT r FROM t WHERE {' OR '.join(tests)}"
        return {row for (row,) in self.con.execute(sql).fetchall()} if tests else set()

    def whole(self, node):
        """Return FLOOR and CEIL of integers as they are: DuckDB makes them DOUBLE."""
        if isinstance(node, exp.Floor | exp.Ceil):
            sql = f"SELECT typeof({node.this.sql(dialect='duckdb')}) FROM t LIMIT 1"
            try:
                ((kind,),) = self.con.execute(sql).fetchall()
            except duckdb.Error:
                return node
            return node.this.copy() if kind.endswith("INT") or kind == "INTEGER" else node
        return node

    def reason(self, text, mine, differ):
        """Return why values differ: a key of `REASONS`, or "unlisted"."""
        special = self.special_rows(text)
        if all(row in special for row, _, _ in differ):
            return "dates and long texts"
        tree = parse_one(text, read="duckdb")
        for reasons in itertools.chain.from_iterable(
            itertools.combinations(CHANGES, size) for size in range(len(CHANGES) + 1)
        ):
            changed = rewritten(tree, self.whole)
            for reason in reasons:
                changed = rewritten(changed, CHANGES[reason])
            own = self.own(changed.sql(dialect="duckdb"))
            rows = [row for row, _, _ in differ if row not in special]
            if own is not None and all(row not in own or same(mine[row], own[row]) for row in rows):
                return " and ".join(reasons) or "FLOOR and CEIL of integers"
        rest = [(one, own) for row, one, own in differ if row not in special]
        if all(isinstance(own, float) and isinstance(one, int | Decimal) for one, own in rest):
            return "exact instead of DOUBLE"
        numbers = [(float(a), float(b)) for a, b in rest if _are_numbers(a, b)]
        near = len(numbers) == len(rest)
        if (
            near
            and re.search(r"\bf\b|FLOAT", text)
            and all(math.isclose(*pair, rel_tol=1e-6) for pair in numbers)
        ):
            return "FLOAT is computed as DOUBLE"
        if near and all(math.isclose(*pair, rel_tol=1e-9) for pair in numbers):
            return "decimals beyond 38 digits are DOUBLE"
        if "INTERVAL" in text and "VARCHAR" in text:
            return "DATE and INTERVAL of days is a DATE"
        if "ROUND(" in text and all(isinstance(own, Decimal) for _, own in rest):
            return "decimals rounded to tens"
        if "VARCHAR" in text:
            numbers = [(_number(a), _number(b)) for a, b in rest]
            if all(a is not None and b is not None for a, b in numbers):
                near = all(math.isclose(a, b, rel_tol=1e-9) for a, b in numbers)
                return "digits of a type" if near else "exact instead of DOUBLE"
        wide = set(re.findall(r"\b[a-z]+\b", text)) & {"h", "ub", "b"} or "HUGEINT" in text
        narrowed = r"TRY_CAST\(.* AS BIGINT\)|> CAST\('-1701|BETWEEN -CAST"
        if wide and ("ROUND(" in text or re.search(narrowed, self.sql(text))):
            return "wide integers"
        return "unlisted"

    def outcome(self, text):
        """Return what becomes of an expression, and the rows that differ with both values."""
        try:
            sql = self.sql(text)
        except QueryRefusedError as error:
            return "refused", str(error)
        mine = dict(self.con.execute(sql).fetchall())
        own = self.own(text)
        if own is None:
            return "DuckDB raises", None
        differ = [(row, mine[row], v) for row, v in own.items() if not same(mine[row], v)]
        return (self.reason(text, mine, differ), differ) if differ else ("same", None)


def counted(seed, number, checker=None):
    """Return how many random expressions have each outcome, and those that no reason explains."""
    checker, generator = checker or Checker(), Generator(seed)
    found, unlisted = collections.Counter(), []
    for _ in range(number):
        text = generator.expression()
        outcome, _ = checker.outcome(text)
        found[outcome] += 1
        if outcome == "unlisted":
            unlisted.append(text)
    return found, unlisted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--expressions", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    started = time.process_time()
    found, unlisted = counted(given.seed, given.expressions)
    spent = time.process_time() - started
    lines = [
        (
            f"{given.expressions:,} random expressions over {ROWS} rows of extreme cells of "
            f"{len(CELLS)} types (seed {given.seed}), beside DuckDB {duckdb.__version__}; none "
            f"raised. {spent:.0f} processor seconds."
        ),
        "",
        "| outcome | expressions |",
        "|---|---|",
        *(f"| {outcome} | {number:,} |" for outcome, number in found.most_common()),
        "",
        "Why values differ:",
        "",
        *(f"- {name}: {reason}" for name, reason in REASONS.items()),
        *(["", "Not explained by these:", ""] if unlisted else []),
        *(f"- `{text}`" for text in unlisted),
    ]
    print("\n".join(lines))
    if given.write:
        path = Path(__file__).with_name("fuzz.md")
        before = path.read_text(encoding="utf-8").partition("\n# Random expressions")[0]
        text = "\n".join(["", "# Random expressions", "", *lines, ""])
        path.write_text(before.rstrip("\n") + "\n" + text, encoding="utf-8")


if __name__ == "__main__":
    main()
