"""Refusal of DuckDB relations whose query may fail on a cell, by their plan alone.

DuckDB runs the query of a relation each time it is read. In it, a cast of text to a number may fail
on one cell. Then the success of a fit would show this cell, and no charge pays for that. So
`check_plan` reads the plan, which DuckDB gives as JSON: operators, expressions and types, no row.
An operation is refused unless it is known to have a value for all cells. Constants are checked too,
because a condition on a cell may decide whether they are computed.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import PurePath
from typing import Any

from skdp.user_code import or_raise

_MAY_FAIL = (
    "the DuckDB relation computes {what}, which may fail on a cell. Whether it fails would show "
    "the cell, and no budget pays for this. {way}ake it a table first (CREATE TABLE ... AS "
    "SELECT, or relation.create(name)) and hand in that table; nothing was charged"
)
_UNREAD = (
    "DuckDB cannot show the plan of the relation, so it may fail on a cell: a file other than "
    "Parquet (cells decide the types of CSV and JSON), a table "
    " of another database, or a statement that is no SELECT. Make "
    "it a table first (CREATE TABLE ... AS SELECT ..., or relation.create(name)); nothing was "
    "charged"
)

_OF_PANDAS = (
    "the DuckDB relation reads a table of pandas, whose cells decide the types of its columns. "
    "Hand in that table itself, or make one of Arrow (pyarrow.Table.from_pandas); nothing was "
    "charged"
)

# Views of Arrow tables read like this. DuckDB 2 shows no plan of them, nor of files. It takes the
# types of pandas tables from their cells.
_SOURCE = re.compile(r'SELECT \* FROM ((python_)?arrow)_scan\([\w, ]*\) AS "?\w+"?')
_PARQUET_FUNCTIONS = {"read_parquet", "parquet_scan"}
_ID = r'(?:"(?:[^"]|"")*"|\w+)'
_VIEW = re.compile(
    rf"CREATE (?:TEMP )?VIEW {_ID}(?:\.{_ID})* (?:\({_ID}(?:, {_ID})*\) )?AS (.*?);?", re.DOTALL
)
_SIGNATURES = (
    "SELECT function_name, parameter_types::VARCHAR, varargs FROM duckdb_functions() "
    "WHERE function_type = 'scalar'"
)
# Where DuckDB looks up a name without a schema. (It looks up names in a view where the view is.)
_RELATIONS = (
    "(SELECT database_name AS database, schema_name AS schema, view_name AS name, sql "
    "FROM duckdb_views() UNION ALL SELECT database_name, schema_name, table_name, sql "
    "FROM duckdb_tables()) WHERE (database = 'temp' OR (database = current_database() "
    "AND schema = current_schema()))"
)


def mixed_types(files: str) -> str:
    """Return SQL that counts the columns of Parquet files, an SQL expression, of several types.

    DuckDB casts them to the types in the first file, and such a cast may fail on a cell. It does
    not tell upper from lower case in names.
    """
    own = "lower(name) AS known, list(duckdb_type ORDER BY column_id) AS own"
    columns = f"SELECT {own} FROM parquet_schema({files}) WHERE column_id > 0"
    of_files = f"{columns} GROUP BY known, file_name"
    mixed = f"SELECT known FROM ({of_files}) GROUP BY known HAVING count(DISTINCT own) > 1"
    return f"SELECT count(*) FROM ({mixed})"


def _words(names: str) -> set[str]:
    return set(names.split())


def _by_name(table: dict[str, set[str]]) -> dict[str, set[str]]:
    return {name: types for names, types in table.items() for name in names.split()}


# Operators, expressions and windows of a plan that fail on no cell by themselves.
_PLAIN = _words(
    "PROJECTION FILTER GET DUMMY_SCAN EXPRESSION_GET EMPTY_RESULT CHUNK_GET COMPARISON_JOIN "
    "ANY_JOIN ASOF_JOIN CROSS_PRODUCT POSITIONAL_JOIN DELIM_JOIN DELIM_GET DISTINCT WINDOW "
    "AGGREGATE_AND_GROUP_BY ORDER_BY LIMIT SAMPLE UNION EXCEPT INTERSECT MATERIALIZED_CTE "
    "CTE_REF"
)
_SCANS = {"seq_scan", "range", "generate_series"}
_FIXED_LIMITS = {"UNSET", "CONSTANT_VALUE", "CONSTANT_PERCENTAGE"}
_CLASSES = _words(
    "BOUND_REF BOUND_COLUMN_REF BOUND_CONSTANT BOUND_CONJUNCTION BOUND_COMPARISON BOUND_BETWEEN "
    "BOUND_CASE"
)
_OPERATORS = _words(
    "OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE COMPARE_IN COMPARE_NOT_IN"
)
_WINDOWS = _words(
    "ROW_NUMBER RANK RANK_DENSE PERCENT_RANK CUME_DIST FIRST_VALUE LAST_VALUE LAG LEAD"
)
_FRAMES = {"EXPR_PRECEDING_ROWS", "EXPR_FOLLOWING_ROWS"}

_TEXT = {"VARCHAR"}
_FLOATS = {"FLOAT", "DOUBLE"}
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127} | {
    "UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64, "UHUGEINT": 128,
}  # fmt: skip
_INTEGERS = {kind for kind, bits in _BITS.items() if bits <= 64}
_SUMMED = _INTEGERS | _FLOATS | {"BOOLEAN"}
_DAYS = {"DATE", "TIMESTAMP", "TIMESTAMP_NS"}
_AS_TEXT = {*_BITS, *_FLOATS, "BOOLEAN", "DECIMAL", "DATE", "TIMESTAMP", "UUID", "ENUM"}
_WRITTEN = {*_BITS, *_FLOATS, *_DAYS, "BOOLEAN", "VARCHAR", "TIME", "UUID", "INTERVAL"} | {
    "TIMESTAMP WITH TIME ZONE"
}

_PARTS = _words(
    "year month day hour minute second quarter week weekofyear dayofweek weekday isodow dayofyear "
    "isoyear yearweek decade century"
)
_UNITS = {"date_part", "datepart"}
_TODAY = {"now", "get_current_timestamp", "today", "current_date"}
_ALWAYS = {"hash", "list_value", "random", *_TODAY}
# Functions that have a value for all values of these types ...
_TOTAL = _by_name(
    {
        "~~ !~~ ~~* !~~* contains prefix suffix starts_with ends_with": _TEXT,
        "lower lcase upper ucase length len strlen trim ltrim rtrim md5 || concat": _TEXT,
        "+ - * / sign abs": _FLOATS,
        "isnan isinf isfinite": _FLOATS | _DAYS,
        "floor ceil ceiling round": _FLOATS | _INTEGERS | {"DECIMAL"},
        "greatest least": {*_BITS, *_FLOATS, *_DAYS, *_TEXT, "DECIMAL"},
        " ".join(_PARTS): _DAYS,
    }
)
# ... and those that do if all arguments behind the first are constants of the usual size.
_FIXED = _by_name(
    {
        "substr substring left right array_slice array_extract replace": _TEXT,
        "// %": _INTEGERS,
        "round": _FLOATS | _INTEGERS | {"DECIMAL"},
    }
)
# Functions that may fail, but soon, and as TRY expects.
_TRIED = {*_TOTAL, *_FIXED, *_UNITS, *_TODAY} - {"replace"} | _words(
    "** ^ pow power sqrt ln log log2 log10 exp trunc mod fmod factorial divide add subtract "
    "multiply << >> date_trunc datetrunc last_day strptime strftime date_diff datediff date_sub "
    "datesub date_add make_date make_timestamp epoch epoch_ms epoch_us epoch_ns to_timestamp "
    "to_microseconds to_milliseconds to_seconds to_minutes to_hours to_days to_weeks to_months "
    "to_quarters to_years"
)
_AGGREGATES = {  # number of arguments; one more is a number, which may be a cell
    **dict.fromkeys(_words("min max first last any_value bool_and bool_or count count_if"), 1),
    **dict.fromkeys(_words("arg_min arg_max min_by max_by"), 2),
    "approx_count_distinct": 1,
    "count_star": 0,
}
_ADDED = _by_name({"sum avg": _SUMMED, "median": _INTEGERS | _FLOATS, "string_agg": _TEXT})


def check_plan(relation: Any) -> None:
    """Raise ValueError for a relation that may fail on a cell; the plan alone decides."""
    text = str(relation.sql_query()).strip()
    if _SOURCE.fullmatch(text):
        return

    def scans() -> str:
        rows = relation.query("skdp_rows_5e1c7f0a", "EXPLAIN FROM skdp_rows_5e1c7f0a").fetchall()
        return str([row[-1] for row in rows])

    if "PANDAS_SCAN" in or_raise(scans, lambda: ValueError(_UNREAD)):
        raise ValueError(_OF_PANDAS)

    def read(sql: str) -> list[tuple[Any, ...]]:
        result = relation.query("skdp_rows", sql)
        return [] if result is None else list(result.fetchall())

    what = or_raise(lambda: next(_Plans(read).failing(text), None), lambda: ValueError(_UNREAD))
    if what is None:
        return
    way = "M"
    if what.startswith("a CAST"):
        way = "Write TRY_CAST for CAST, or m"
    elif what[1:-1] in _TRIED:
        plain = what[1:-1] in ("+", "-", "*", "/", "abs", "sum")
        way = "Write TRY(...) around it" + ", compute with DOUBLE (::DOUBLE)" * plain + ", or m"
    elif what in ("'sum'", "'avg'"):
        way = "Add up DOUBLE (::DOUBLE), or m"
    raise ValueError(_MAY_FAIL.format(what=what, way=way))


@cache
def _built_in() -> Counter[tuple[Any, ...]]:
    """Return the signatures of DuckDB's own functions."""
    import duckdb

    with duckdb.connect() as connection:
        return Counter(connection.execute(_SIGNATURES).fetchall())


class _Plans:
    """The plans of a relation's query and of the views that it reads."""

    def __init__(self, read: Callable[[str], list[tuple[Any, ...]]]) -> None:
        self._read = read

    def _shown(self, function: str, text: str, more: str = "") -> Any:
        """Return a query as JSON, or None if DuckDB cannot."""
        result = json.loads(self._read(f"SELECT {function}({_literal(text)}{more})")[0][0])
        return None if result["error"] else result

    def _plan(self, text: str) -> Any:
        """Return the plan of a query before it is optimised: no expression has been moved yet."""
        try:
            return self._shown("json_serialize_plan", text, ", optimize := false")
        except Exception:  # noqa: BLE001  no plan of this
            return None

    def failing(self, text: str, of_view: bool = False) -> Iterator[str]:
        """Yield the operations that may fail on a cell, by their names in DuckDB.

        Sources that DuckDB does not show in a plan are replaced by empty tables of the same types.
        """
        plan = None if of_view else self._plan(text)
        empty_tables: list[str] = []
        try:
            if plan is None:
                tree = self._shown("json_serialize_sql", text)
                yield from self._replaced(tree["statements"], frozenset(), empty_tables)
                plan = self._plan(self._text(tree))
        finally:
            for table in empty_tables:
                self._read(f"DROP TABLE {table}")
        plans = plan["plans"]
        names = {_name(node) for node in _nodes(plans) if node.get("type") == "BOUND_FUNCTION"}
        yield from self._judged(plans, self._own(names), False)

    def _own(self, names: set[str]) -> set[str]:
        """Return the names under which a user has registered a function.

        DuckDB calls functions of Python its own, and lets them share a name with a built-in one.
        """
        if not names:
            return set()
        listed = ", ".join(map(_literal, sorted(names)))
        rows = self._read(f"{_SIGNATURES} AND function_name IN ({listed})")
        return {str(row[0]) for row in Counter(rows) - _built_in()}

    # --- empty tables for sources without a plan -------------------------------------------------

    def _text(self, tree: Any) -> str:
        return str(self._read(f"SELECT json_deserialize_sql({_literal(json.dumps(tree))})")[0][0])

    def _replaced(self, node: Any, ctes: frozenset[str], empty_tables: list[str]) -> Iterator[str]:
        """Put empty tables into a query; yield what may fail in the views that they replace."""
        if isinstance(node, list):
            for part in node:
                yield from self._replaced(part, ctes, empty_tables)
        if not isinstance(node, dict):
            return
        for entry in node.get("cte_map", {}).get("map", []):  # each of them sees those before it
            yield from self._replaced(entry["value"], ctes, empty_tables)
            ctes |= {entry["key"].lower()}
        if node.get("type") == "TABLE_FUNCTION":
            name = node["function"]["function_name"].lower()
            if name in _PARQUET_FUNCTIONS:
                files, *options = node["function"]["arguments"]
                if "schema" in map(_option, options):  # types that DuckDB casts to
                    raise ValueError
                query = self._shown("json_serialize_sql", "SELECT 1")
                query["statements"][0]["node"]["select_list"] = [files["expression"]]
                yield from self._mixed(self._text(query).removeprefix("SELECT "))
                self._put_empty(node, name, empty_tables)
                return
        elif node.get("type") == "BASE_TABLE":
            yield from self._replaced_table(node, ctes, empty_tables)
            return
        for key, part in node.items():
            if key != "cte_map":
                yield from self._replaced(part, ctes, empty_tables)

    def _replaced_table(
        self, node: dict[str, Any], ctes: frozenset[str], empty_tables: list[str]
    ) -> Iterator[str]:
        path = [node[key] for key in ("catalog_name", "schema_name", "table_name")]
        name = path[-1]
        if path[:2] == ["", ""] and name.lower() in ctes:
            return
        where = f"lower(name) = lower({_literal(name)})"
        for part in filter(None, path[:2]):  # one alone may be that of a database or a schema
            where += f" AND lower({_literal(part)}) IN (lower(database), lower(schema))"
        definitions = self._read(f"SELECT sql FROM {_RELATIONS} AND {where}")
        if len(definitions) > 1:
            raise ValueError  # views look for it elsewhere than queries do
        if self._plan(f"SELECT * FROM {_quoted(path)}") is not None:
            return
        if definitions:
            sql = definitions[0][0]
            (text,) = _VIEW.fullmatch(sql.strip()).groups()  # type: ignore[union-attr]
            if not _SOURCE.fullmatch(text):
                yield from self.failing(text, of_view=True)
        elif name.lower().endswith((".parquet", ".parq")):
            yield from self._mixed(_literal(name))
            self._put_empty(node, PurePath(name).stem, empty_tables)
            return
        elif not name.startswith("__duckdb_source_"):
            raise ValueError
        self._put_empty(node, name, empty_tables)

    def _mixed(self, files: str) -> Iterator[str]:
        if self._read(mixed_types(files)) != [(0,)]:
            yield "a cast of Parquet files whose types differ"

    def _put_empty(self, node: dict[str, Any], name: str, empty_tables: list[str]) -> None:
        """Turn a reference to a table, in place, into one to an empty table of the same types."""
        table = f"skdp_{uuid.uuid4().hex}"
        query = self._shown("json_serialize_sql", f"SELECT * FROM {table}")
        (statement,) = query["statements"]
        empty = statement["node"]["from_table"]
        own = {key: node[key] for key in ("sample", "column_name_alias", "alias") if key in node}
        bare: dict[str, Any] = {"sample": None, "column_name_alias": [], "alias": ""}
        statement["node"]["from_table"] = node | bare
        self._read(f"CREATE TEMP TABLE {table} AS {self._text(query)} LIMIT 0")
        empty_tables.append(table)
        node.clear()
        node.update(empty | own)
        node["alias"] = node["alias"] or name

    # --- what may fail ---------------------------------------------------------------------------

    def _judged(self, node: Any, own: set[str], tried: bool) -> Iterator[str]:
        if isinstance(node, list):
            for part in node:
                yield from self._judged(part, own, tried)
        if not isinstance(node, dict):
            return
        kind = str(node.get("type", ""))
        if "expression_class" in node:
            if _name(node) in own:
                yield f"{_name(node)!r}, a function of your own"
            elif kind == "OPERATOR_TRY":
                tried = True
            elif not (
                _is_total(node) or (tried and (kind == "OPERATOR_CAST" or _name(node) in _TRIED))
            ):
                with suppress(Exception):  # of constants alone, it may have a value
                    self._read(f"SELECT {_constant_sql(node)}")
                    return
                yield _named(node)
        elif kind.startswith("LOGICAL_"):
            yield from _failing_operator(node, kind)
        for part in node.values():
            yield from self._judged(part, own, tried)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(path: list[str]) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in path if part)


def _option(argument: dict[str, Any]) -> str:
    """Return the name of an option of a table function: name := value, or name = value."""
    left = argument["expression"].get("left", {})
    return str(argument["name"] or "".join(left.get("column_names", []))).lower()


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a plan."""
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node:
        if isinstance(part, dict | list):
            yield from _nodes(part)


def _failing_operator(node: dict[str, Any], kind: str) -> Iterator[str]:
    what = kind.removeprefix("LOGICAL_")
    if what == "RECURSIVE_CTE":
        yield "a recursive WITH, which may not end"
    elif what not in _PLAIN:
        yield repr(kind)
    elif what == "GET" and (_name(node) not in _SCANS or node.get("children")):
        yield f"a scan by {_name(node)!r}"
    elif node.get("join_type") == "SINGLE":
        yield "a subquery for one value, of which there may be two"
    limits = [node[key]["type"] for key in ("limit_val", "offset_val") if key in node]
    if not _FIXED_LIMITS.issuperset(limits):
        yield "a LIMIT or OFFSET"


def _name(node: dict[str, Any]) -> str:
    """Return the name of a function of DuckDB's; "" for a function of the database."""
    path = node.get("qname", {}).get("path") or [node.get("name", "")]
    owner = path[0] if len(path) > 2 else node.get("catalog_name", "system")
    return str(path[-1]) if owner in ("system", "") else ""


def _named(node: dict[str, Any]) -> str:
    if node.get("type") == "OPERATOR_CAST":
        return f"a CAST to {_type(node)}"
    if node.get("qname") and not _name(node):
        return "a function of your own"
    return repr(_name(node) or str(node.get("type", "an expression")))


def _type(part: Any) -> str:
    """Return the type of an expression, "" where it does not say."""
    kind = part.get("return_type") or part.get("value", {}).get("type", {})
    return str(kind.get("id", ""))


def _parts(node: dict[str, Any]) -> list[Any]:
    return node.get("children") or [part for part in [node.get("child")] if part]


def _is_total(node: dict[str, Any]) -> bool:
    """Say whether an expression has a value for all values of its parts."""
    kind, of = node["expression_class"], str(node.get("type", ""))
    if of == "OPERATOR_CAST":
        return _is_total_cast(node)
    if kind == "BOUND_FUNCTION":
        return of.startswith("COMPARE_") or _is_total_function(_name(node), _parts(node))
    if kind == "BOUND_AGGREGATE":
        return _is_total_aggregate(_name(node), _parts(node))
    if kind == "BOUND_OPERATOR":
        return of in _OPERATORS
    if kind != "BOUND_WINDOW":
        return kind in _CLASSES
    for side in ("start", "end"):
        if node.get(f"{side}_expr") is not None:
            rows = _constant(node[f"{side}_expr"])
            if node.get(side) not in _FRAMES or not isinstance(rows, int) or rows < 0:
                return False
    if of == "WINDOW_AGGREGATE":
        return _is_total_aggregate(_name(node), _parts(node))
    fixed = all(isinstance(_constant(part), int) for part in _parts(node)[1:2])
    return of.removeprefix("WINDOW_") in _WINDOWS and fixed


def _is_total_function(name: str, parts: list[Any]) -> bool:
    types = [_type(part) for part in parts]
    if name in _ALWAYS:
        return True
    if name == "-" and types == ["DATE", "DATE"]:
        return True
    if name in _UNITS and len(parts) == 2:
        return _constant(parts[0]) in _PARTS and types[1] in _DAYS
    if name in _TOTAL and parts and _TOTAL[name].issuperset(types):
        return name != "round" or len(parts) == 1 or _is_fixed(name, parts)
    return _is_fixed(name, parts)


def _is_fixed(name: str, parts: list[Any]) -> bool:
    types = [_type(part) for part in parts]
    if name not in _FIXED or types[0] not in _FIXED[name]:
        return False
    fixed = [_constant(part) for part in parts[1:] if _name(part) != "list_value"]
    if name in ("//", "%"):
        return len(fixed) == 1 and isinstance(fixed[0], int) and fixed[0] not in (0, -1)
    if name == "replace":
        return all(isinstance(value, str) for value in fixed)
    least = -(2**20) if types[0] in (*_FLOATS, *_TEXT) else 0  # 127 would be 130
    return all(isinstance(value, int) and least <= value < 2**20 for value in fixed)


def _is_total_aggregate(name: str, parts: list[Any]) -> bool:
    if name not in _ADDED:
        return _AGGREGATES.get(name) == len(parts) or (name == "count" and not parts)
    separators = [_constant(part) for part in parts[1:]]
    return _type(parts[0]) in _ADDED[name] and all(isinstance(s, str) for s in separators)


def _constant(node: dict[str, Any]) -> Any:
    """Return a constant's integer or text, behind casts of integers; None of anything else."""
    while node.get("type") == "OPERATOR_CAST" and _type(node) in (*_BITS, "VARCHAR"):
        node = _parts(node)[0]
    if node.get("expression_class") != "BOUND_CONSTANT" or _type(node) not in (*_BITS, "VARCHAR"):
        return None
    value = node["value"].get("value")  # none of NULL
    return value if isinstance(value, int | str) else None


def _constant_sql(node: dict[str, Any]) -> str:
    """Return an expression of constants as SQL; KeyError or ValueError for other expressions."""
    if node["expression_class"] == "BOUND_CONSTANT":
        value, kind = node["value"], _type(node)
        if value["is_null"]:
            return "NULL"
        if kind == "DECIMAL":
            return f"CAST({value['value']}e-{_digits(value['type'], kind)[1]} AS {_type_sql(node)})"
        if kind == "DATE":
            return f"(DATE '1970-01-01' + ({int(value['value'])}))"
        if kind in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
            return f"CAST(make_timestamp({int(value['value'])}) AS {kind})"
        if kind == "INTERVAL":
            return "(to_months({months}) + to_days({days}) + to_microseconds({micros}))".format(
                **value["value"]
            )
        if kind not in (*_BITS, *_FLOATS, "VARCHAR", "BOOLEAN"):
            raise ValueError
        return f"CAST({_literal(str(value['value']))} AS {kind})"
    parts = [_constant_sql(part) for part in _parts(node)]
    if node.get("type") == "OPERATOR_CAST":
        return f"CAST({parts[0]} AS {_type_sql(node)})"
    if node["expression_class"] != "BOUND_FUNCTION" or _name(node) not in _TRIED:
        raise ValueError
    return f"{_quoted([_name(node)])}({', '.join(parts)})"


def _type_sql(node: dict[str, Any]) -> str:
    kind = _type(node)
    info = (node.get("return_type") or node["value"]["type"]).get("type_info")
    if kind == "DECIMAL":
        return f"DECIMAL({info['width']}, {info['scale']})"
    if kind == "ENUM":
        return f"ENUM({', '.join(map(_literal, info['values']))})"
    if kind not in _WRITTEN:
        raise ValueError
    return kind


def _is_total_cast(node: dict[str, Any]) -> bool:
    given = node.get("function_data") or node
    if given.get("try_cast"):
        return True
    part = _parts(node)[0]
    of, to = part.get("return_type") or part.get("value", {}).get("type", {}), node["return_type"]
    old, new = _type(part), _type(node)
    if old == "NULL" or (old == new and old not in ("DECIMAL", "ENUM", "STRUCT", "LIST", "MAP")):
        return bool(old)
    if new == "VARCHAR":
        return old in _AS_TEXT
    if new in ("DATE", "TIMESTAMP") and old in ("TIMESTAMP", "TIMESTAMP_NS"):
        return True
    if new in _FLOATS:
        exact = {"BOOLEAN", "DECIMAL", *_INTEGERS}
        return old in exact or (old, new) == ("FLOAT", "DOUBLE")
    if old in _BITS and new in _BITS:
        return _BITS[old] <= _BITS[new] and (old[0] == "U" or new[0] != "U")
    if new == "DECIMAL" and (old in _BITS or old == "DECIMAL"):
        wide, scale = _digits(of, old)
        most, places = _digits(to, new)
        return places >= scale and most - places >= wide - scale
    return False


def _digits(kind: dict[str, Any], name: str) -> tuple[int, int]:
    """Return the number of decimal digits of a type, and of those after the point."""
    if name in _BITS:
        return len(str(2 ** _BITS[name])), 0
    info = kind.get("type_info") or {}
    return int(info.get("width", 99)), int(info.get("scale", 0))
