"""Relations of DuckDB that compute their rows: refused by their plan alone where a cell can fail.

Nothing is released here. A relation is a query that DuckDB runs again for everything that is asked
of it. A cast of text to a number inside it fails on one cell, so whether a fit succeeds would show
this cell, and no charge pays for that. So the plan is read, of which DuckDB makes JSON: operators,
expressions and types, no row. Whatever is not known to have a value for every cell is refused.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from skdp.user_code import or_raise

__all__ = ["check_plan"]

_MAY_FAIL = (
    "the DuckDB relation computes {what}, which may fail on a cell. Whether it fails would show "
    "the cell, and no budget pays for this. Make it a table first (CREATE TABLE ... AS SELECT, or "
    "relation.create(name)) and hand in that table, or write TRY_CAST for CAST; nothing was charged"
)
_UNREAD = (
    "DuckDB cannot show the plan of the relation, so it may fail on a cell. Make it a table first "
    "(CREATE TABLE ... AS SELECT ..., or relation.create(name)); nothing was charged"
)

# Tables of pandas or Arrow and Parquet files in a query: DuckDB 2 shows no plan of them.
_GIVEN = re.compile(
    r""""__duckdb_source_\w+"|\b(?:read_parquet|parquet_scan)\s*\((?:'[^']*'|[^()'])*\)"""
    r"""|(?<=from )'[^']*\.parq(?:uet)?'|(?<=join )'[^']*\.parq(?:uet)?'""",
    re.IGNORECASE,
)
_SCAN_ALONE = re.compile(r"SELECT \* FROM (pandas|arrow)_scan\([\w, ]*\) AS \w+")  # before DuckDB 2

# Operators of a plan are joins, unions, groups, orders and filters: these fail on no cell.
_SCANS = {"seq_scan", "parquet_scan", "read_parquet", "range", "generate_series"}
_CLASSES = {
    *("BOUND_REF", "BOUND_COLUMN_REF", "BOUND_CONSTANT", "BOUND_CONJUNCTION", "BOUND_COMPARISON"),
    *("BOUND_BETWEEN", "BOUND_CASE"),
}
_OPERATORS = {
    *("OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_COALESCE"),
    *("COMPARE_IN", "COMPARE_NOT_IN"),
}
_WINDOWS = {"WINDOW_ROW_NUMBER", "WINDOW_RANK", "WINDOW_RANK_DENSE"}
_TOTAL = {
    *("~~", "!~~", "~~*", "!~~*", "contains", "prefix", "suffix", "starts_with", "ends_with"),
    *("lower", "lcase", "upper", "ucase", "length", "len", "strlen", "trim", "ltrim", "rtrim"),
    *("greatest", "least", "isnan", "isinf", "isfinite", "hash", "md5", "||", "concat"),
}
_OF_FLOATS = {"+", "-", "*", "/", "abs", "floor", "ceil", "ceiling", "round", "greatest", "least"}
_AGGREGATES = {
    *("count", "count_star", "min", "max", "first", "last", "any_value", "bool_and", "bool_or"),
    *("arg_min", "arg_max", "approx_count_distinct"),
}
_FLOATS = ("FLOAT", "DOUBLE")
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127} | {
    "UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64, "UHUGEINT": 128,
}  # fmt: skip
_ADDED = {kind for kind, bits in _BITS.items() if bits <= 64} | set(_FLOATS) | {"BOOLEAN"}
_AS_TEXT = {*_BITS, *_FLOATS, "BOOLEAN", "DECIMAL", "DATE", "UUID", "ENUM"}


def check_plan(relation: Any) -> None:
    """Refuse a relation that may fail on a cell.

    Raises
    ------
    ValueError
        Whatever is in the cells: the plan alone decides.
    """
    text = str(relation.sql_query()).strip()
    if _SCAN_ALONE.fullmatch(text):
        return

    def read(sql: str) -> list[tuple[Any, ...]]:
        done = relation.query("skdp_rows", sql)
        return [] if done is None else list(done.fetchall())

    plan = or_raise(lambda: _plan_of(text, read), lambda: ValueError(_UNREAD))
    what = next(_failing(plan), None)
    if what is not None:
        raise ValueError(_MAY_FAIL.format(what=what))


def _plan_of(text: str, read: Callable[[str], list[tuple[Any, ...]]]) -> Any:
    """Return the plan of a query before it is optimised: no expression has been moved yet.

    An empty table of the same types stands for whatever DuckDB does not show in a plan.
    """
    empty = {name: f"skdp_{uuid.uuid4().hex}" for name in sorted(set(_GIVEN.findall(text)))}
    for name, table in empty.items():
        read(f"CREATE TEMP TABLE {table} AS SELECT * FROM {name} LIMIT 0")
        text = text.replace(name, table)
    query = text.replace("'", "''")
    shown = read(f"SELECT json_serialize_plan('{query}', optimize := false)")
    for table in empty.values():
        read(f"DROP TABLE {table}")
    found = json.loads(shown[0][0])
    if found["error"]:
        raise ValueError
    return found["plans"]


def _failing(node: Any) -> Iterator[str]:
    """Yield what may fail on a cell, by its name in DuckDB."""
    if isinstance(node, dict):
        if "expression_class" in node:
            if not _reads_cells(node):
                return  # it fails for every table, or for none
            if not _is_total(node):
                yield _named(node)
        elif node.get("type") == "LOGICAL_GET" and _name(node) not in _SCANS:
            yield f"a scan by {_name(node)!r}"
        for part in node.values():
            yield from _failing(part)
    elif isinstance(node, list):
        for part in node:
            yield from _failing(part)


def _reads_cells(node: Any) -> bool:
    if isinstance(node, list):
        return any(map(_reads_cells, node))
    if not isinstance(node, dict):
        return False
    kind = node.get("expression_class")
    if kind in ("BOUND_REF", "BOUND_COLUMN_REF", "BOUND_AGGREGATE", "BOUND_WINDOW"):
        return True
    name = _name(node) if kind == "BOUND_FUNCTION" else ""
    # One row fewer, and it would not be run.
    return name == "error" or any(map(_reads_cells, node.values()))


def _name(node: dict[str, Any]) -> str:
    """Return the name of a function; "" for one of the database, whatever it is called."""
    path = node.get("qname", {}).get("path") or [node.get("name", "")]
    owner = path[0] if len(path) > 2 else node.get("catalog_name", "system")
    return str(path[-1]) if owner in ("system", "") else ""


def _named(node: dict[str, Any]) -> str:
    if node.get("type") == "OPERATOR_CAST":
        return f"a CAST to {node.get('return_type', {}).get('id')}"
    return repr(_name(node) or str(node.get("type", "an expression")))


def _is_total(node: dict[str, Any]) -> bool:
    """Say whether an expression has a value for all values of its parts."""
    kind, of = node["expression_class"], str(node.get("type", ""))
    result = node.get("return_type", {})
    if of == "OPERATOR_CAST":
        return _is_total_cast(node, result)
    if kind == "BOUND_FUNCTION":
        if of.startswith("COMPARE_") or _name(node) in _TOTAL:
            return True
        return _name(node) in _OF_FLOATS and result.get("id") in _FLOATS
    if kind == "BOUND_AGGREGATE":
        added = _name(node) in ("sum", "avg") and _types(node.get("children")) <= _ADDED
        return added or _name(node) in _AGGREGATES
    if kind == "BOUND_OPERATOR":
        return of in _OPERATORS
    return of in _WINDOWS if kind == "BOUND_WINDOW" else kind in _CLASSES


def _types(parts: Any) -> set[str]:
    """Return the types of expressions, "" where one does not say."""
    return {str(part.get("return_type", {}).get("id", "")) for part in parts or []}


def _is_total_cast(node: dict[str, Any], to: dict[str, Any]) -> bool:
    given = node.get("function_data") or node
    if given.get("try_cast"):
        return True
    parts = node.get("children") or [node.get("child")]
    of = (parts[0] or {}).get("return_type", {})
    old, new = str(of.get("id", "")), str(to.get("id", ""))
    if old == "NULL" or (old == new and old not in ("DECIMAL", "ENUM", "STRUCT", "LIST", "MAP")):
        return True
    if new == "VARCHAR":
        return old in _AS_TEXT
    if new in _FLOATS:
        exact = {"BOOLEAN", "DECIMAL", *(one for one, bits in _BITS.items() if bits < 128)}
        return old in exact or (old, new) == ("FLOAT", "DOUBLE")
    if old in _BITS and new in _BITS:
        return _BITS[old] <= _BITS[new] and (old[0] == "U" or new[0] != "U")
    if new == "DECIMAL" and (old in _BITS or old == "DECIMAL"):
        wide, scale = _digits(of, old)
        most, places = _digits(to, new)
        return places >= scale and most - places >= wide - scale
    return False


def _digits(kind: dict[str, Any], name: str) -> tuple[int, int]:
    """Return how many decimal digits numbers of a type have, and how many are behind the point."""
    if name in _BITS:
        return len(str(2 ** _BITS[name])), 0
    info = kind.get("type_info") or {}
    return int(info.get("width", 99)), int(info.get("scale", 0))
