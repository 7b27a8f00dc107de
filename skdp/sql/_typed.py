"""What row-local expressions share: their types, and SQL that cannot fail on any cell.

`skdp.sql._expressions` is the closed list of syntax that is answered. Its SQL has a value for
whatever is in the cells of one row, and depends on no other row. So a cell cannot raise:

- integers are added and multiplied as HUGEINT, where products of two BIGINT fit, and what is no
  BIGINT in the end is NULL; all other numbers are DOUBLE, where nothing overflows but to infinity;
- casts are TRY_CAST; a divisor of zero gives NULL; so do logarithms and roots of what has none;
- dates outside the years 1 to 9999 are NULL before anything is computed from them;
- texts are cut at `LONGEST` characters, those of columns and those that are put together; of what
  can only be counted a hash stands for the value: one cell must not fill the memory.

No TRY(...) is used: DuckDB 2.0 takes common parts of expressions out of it, where they raise.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any, Protocol

from sqlglot import exp

from skdp.sql._refusals import refusal, refuse, said

__all__ = [
    "FAMILIES",
    "LONGEST",
    "RELEASED",
    "TO_DATES",
    "TO_NUMBERS",
    "TYPES",
    "WORDS",
    "Expr",
    "Scope",
    "alike",
    "as_double",
    "bounded",
    "box",
    "canonical",
    "cast",
    "date_literal",
    "family_of",
    "quoted",
    "small_integer",
    "tamed",
    "text_of",
]

LONGEST = 1_000
RELEASED = "skdp_released"  # in the meta of a subquery: what it has released
_LONG = ("BLOB", "BIT")
_SHORT = ("UUID", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIME")
_FIRST_TIME = "TIMESTAMP '290309-12-22 (BC) 00:00:00'"

# What a column may be; all else can only be counted, or compared with NULL.
FAMILIES = {
    "int": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    "num": ("FLOAT", "DOUBLE", "DECIMAL", "HUGEINT", "UBIGINT", "UHUGEINT"),
    "text": ("VARCHAR",),
    "bool": ("BOOLEAN",),
    "date": ("DATE",),
    "time": ("TIMESTAMP",),
}
TYPES = {"int": "BIGINT", "num": "DOUBLE", "text": "VARCHAR", "bool": "BOOLEAN"} | {
    "date": "DATE",
    "time": "TIMESTAMP",
}
WORDS = {"int": "integers", "num": "numbers", "text": "text", "bool": "booleans"} | {
    "date": "dates",
    "time": "timestamps",
    "null": "NULL",
    "other": "values of a type that can only be counted",
}
TO_NUMBERS = (
    "use CAST(x AS DOUBLE) for text and booleans (a text that is not a number becomes NULL), and "
    "EXTRACT(YEAR FROM x) for dates"
)
TO_DATES = "use CAST(x AS DATE) for text (a text that is not a date becomes NULL)"
_ONLY_COUNTED = "use COUNT(x) or x IS NULL, or convert the column before the table is declared"


@dataclass(frozen=True)
class Expr:
    """A compiled expression.

    Attributes
    ----------
    sql : str
        Total: no cell makes it fail.
    family : str
        A key of `FAMILIES`, ``"null"``, or ``"other"``.
    bounds : tuple of float or None
        Between which its value is if columns are within their declared bounds.
    constant : Decimal, str, bool or None
        Its value, where the query states it.
    tags : frozenset of str
        Of a column: which ids it holds.
    """

    sql: str
    family: str
    bounds: tuple[float, float] | None = None
    constant: Any = None
    tags: frozenset[str] = frozenset()


class Scope(Protocol):
    """Where an expression stands: what its names mean, and what else it may hold there."""

    def column(self, node: exp.Column) -> Expr:
        """Return what a name means, or refuse it."""

    def special(self, node: exp.Expr) -> Expr | None:
        """Return what a node means here and nowhere else; None for what means the same."""


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_of(value: str) -> str:
    """Return a text as a literal."""
    return "'" + value.replace("'", "''") + "'"


def family_of(kind: str) -> str:
    """Return the family of a type of DuckDB."""
    base = kind.upper()
    if base.endswith("]"):
        return "other"
    base = base.partition("(")[0].strip()
    if base in ("TIMESTAMP_S", "TIMESTAMP_MS", "DATETIME"):
        return "time"
    return next((name for name, kinds in FAMILIES.items() if base in kinds), "other")


# --- what handlers share ---


def cast(one: Expr, family: str) -> str:
    """Return SQL of another family, NULL where there is no such value."""
    return f"TRY_CAST({one.sql} AS {TYPES[family]})"


def as_double(one: Expr) -> str:
    return one.sql if one.family == "num" else cast(one, "num")


def canonical(sql: str, family: str) -> str:
    """Return SQL that writes equal values alike: one zero, one NaN.

    Where equal values are put together, DuckDB keeps one of them, and which one depends on the
    order of rows, those of other units among them.
    """
    if family != "num":
        return sql
    return (
        f"(CASE WHEN {sql} = 0 THEN 0.0::DOUBLE WHEN isnan({sql}) THEN 'nan'::DOUBLE "
        f"ELSE {sql} END)"
    )


def bounded(sql: str, column: Any, *, named: bool) -> str:
    """Return a cell as SQL, of a length that no row decides; a time that is none as NULL.

    A join with public tables writes it up to a thousand times. Ids and keys of owners are not cut,
    which would take two for one: longer ones name nobody.

    Parameters
    ----------
    sql : str
    column : Column
    named : bool
        Whether it holds ids, or keys of owners.
    """
    kind = column.kind.upper()
    if column.family == "time":  # Arrow has earlier ones; to write one as text ends the database
        return f"(CASE WHEN {sql} >= {_FIRST_TIME} OR {sql} = TIMESTAMP '-infinity' THEN {sql} END)"
    if kind == "VARCHAR":
        short = f"strlen({sql}) <= {LONGEST}"  # bytes
        if named:
            return f"(CASE WHEN {short} THEN {sql} END)"
        return f'(CASE WHEN {short} THEN {sql} ELSE "left"({sql}, {LONGEST}) END)'
    if column.family == "other" and kind in _LONG and named:
        return f"(CASE WHEN octet_length({sql}) <= {LONGEST} THEN {sql} END)"
    if column.family == "other" and kind not in _SHORT:
        return f"(CASE WHEN {sql} IS NOT NULL THEN hash({sql}) END)"
    return sql


def box(low: float, high: float) -> tuple[float, float] | None:
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def small_integer(node: exp.Expr | None, most: int, what: str, *, text: bool = False) -> int:
    """Return an integer that the query states, or refuse."""
    negative = isinstance(node, exp.Neg)
    inner = node.this if negative and node is not None else node
    if isinstance(inner, exp.Literal) and (text or not inner.is_string):
        try:
            value = int(str(inner.this))
        except ValueError:
            value = most + 1
        if abs(value) <= most:
            return -value if negative else value
    given = "" if node is None else f", not {said(node)}"
    reason = f"{what} must be a literal integer of at most {most}{given}"
    raise refusal(node, reason, f"write a number from 0 to {most}")


def alike(node: exp.Expr, parts: list[Expr]) -> tuple[str, list[str]]:
    """Return the family that expressions have in common, and their SQL in it."""
    families = {one.family for one in parts} - {"null"}
    if "other" in families:
        reason = f"{said(node)} has values of a type that can only be counted"
        refuse(node, reason, _ONLY_COUNTED)
    if not families:
        return "null", ["NULL"] * len(parts)
    if len(families) == 1:
        return next(iter(families)), [one.sql for one in parts]
    if families == {"int", "num"}:
        return "num", [one.sql if one.family == "null" else as_double(one) for one in parts]
    if families == {"date", "time"}:
        return "time", [cast(one, "time") for one in parts]
    kinds = families - {"text"}
    if len(kinds) == 1 and kinds <= {"date", "time"}:
        family = next(iter(kinds))  # texts that the query states are read as dates
        return family, [
            date_literal(node, one.constant, family)
            if one.family == "text" and isinstance(one.constant, str)
            else one.sql
            if one.family != "text"
            else refuse(node, f"{said(node)} mixes text and {WORDS[family]}", TO_DATES)
            for one in parts
        ]
    raise refusal(
        node,
        f"{said(node)} mixes {' and '.join(sorted(WORDS[f] for f in families))}",
        "convert them to one type with CAST (a value that cannot be converted becomes NULL)",
    )


def date_literal(node: exp.Expr, text: str, family: str) -> str:
    """Return a stated date or time as SQL: it is public, so it may be refused."""
    try:
        if family == "date":
            day = datetime.date.fromisoformat(text)
            return f"DATE '{day.isoformat()}'"
        instant = datetime.datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            raise ValueError
        return f"TIMESTAMP '{instant.isoformat(sep=' ')}'"
    except ValueError:
        if family == "date":
            refuse(node, f"{text!r} is not a date", "write it like '2026-01-31'")
        way = "write it like '2026-01-31 12:30:00', without a time zone"
        refuse(node, f"{text!r} is not a timestamp", way)


def tamed(one: Expr) -> str:
    """Return a date or time of the years 1 to 9999, else NULL: none other is computed with."""
    kind = TYPES[one.family]
    low, high = f"{kind} '0001-01-01'", f"{kind} '9999-12-31'"
    return f"(CASE WHEN {one.sql} BETWEEN {low} AND {high} THEN {one.sql} END)"
