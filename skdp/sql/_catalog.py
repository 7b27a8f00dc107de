"""Declared tables: private with their unit or owner, or public.

Tables that are not declared are refused. Names and types of columns come from DuckDB's catalogue
and are public.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from skdp.aggregation._plan import pair_of
from skdp.sql.ir import column_type, quoted, text_of
from skdp.tabular import checked, mixed_types, stated_type, type_name, with_types
from skdp.user_code import cancellable, or_raise, suppress_warnings

_KEYS = {"unit", "owner", "columns", "keys", "types"}
# Not: types of which two different values are equal (a month and 30 days), or of any length.
_OTHER_IDS = ("UUID", "BLOB", "BIT", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIME")
_FILES = "read_parquet("
_OF_FILE, _IN_FILE = "skdp_file", "file_row_number"  # columns that identify a row of files
_PLACES = f", filename = '{_OF_FILE}', {_IN_FILE} = true"
_SPECIAL = re.compile(r"\b(GENERATED|COLLATE)\b", re.IGNORECASE)


def folded(name: str) -> str:
    """Return a name in the lower case of DuckDB, of ASCII letters alone."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in name)


@dataclass(frozen=True)
class Column:
    """A column of a declared table: public facts."""

    name: str
    kind: str
    bounds: tuple[float, float] | None = None
    keys: tuple[Any, ...] | None = None

    @property
    def family(self) -> str:
        """How ids of this type are compared: floating point and decimals as numbers."""
        kind, name = column_type(self.kind).kind, self.kind.upper()
        numbers = kind in ("decimal", "double", "float")
        if numbers or name in ("UBIGINT", "HUGEINT", "UHUGEINT"):
            return "num"
        other = kind in ("zoned", "clock", "blob", "uuid") or name == "TIMESTAMP_NS"
        return "other" if other else kind


@dataclass(frozen=True)
class Owner:
    """A column that points to the key of another table, whose row owns the row."""

    column: str
    table: str
    key: str


@dataclass(frozen=True)
class Table:
    """A declared table."""

    name: str
    source: str  # in FROM: a full, quoted name, or files
    columns: dict[str, Column]  # by folded name
    unit: str | None = None  # the column of ids
    owner: Owner | None = None
    # Of the table of a released subquery: the columns that name one row, ("",) if none do.
    released: tuple[str, ...] | None = None
    # Where each row is a unit: SQL of its id, unique among all tables; {0} is the table.
    row_id: str = ""

    @property
    def public(self) -> bool:
        """Whether its rows belong to no unit."""
        return self.unit is None and self.owner is None and not self.row_id


@dataclass(eq=False, repr=False)
class Catalog:
    """A connection and its declared tables."""

    connection: Any
    tables: dict[str, Table] = field(default_factory=dict)

    @contextmanager
    def one_state(self) -> Iterator[Catalog]:
        """Yield the tables in one state of the database: that of the first read."""
        result = Catalog(self.connection, dict(self.tables))
        try:
            yield result
        finally:
            if "reader" in vars(result):
                result.reader.close()

    @cached_property
    def reader(self) -> Any:
        """The cursor of all reads."""
        return self.cursor()

    def named(self, parts: Sequence[str]) -> Table | None:
        """Return the declared table of a name, whose schema and database may be before it."""
        result = self.tables.get(folded(".".join(parts)))
        if result is not None or len(parts) < 2:
            return result
        end = "." + folded(".".join(map(quoted, parts)))
        tables = (t for t in self.tables.values() if not t.source.startswith('"temp"'))
        return next((t for t in tables if f".{folded(t.source)}".endswith(end)), None)

    def cursor(self) -> Any:
        """Return a new connection to the database, with known settings and in a transaction.

        RuntimeError if the connection is closed or the database has a default_collation.
        """

        def opened() -> tuple[Any, bool]:
            cursor = self.connection.cursor()
            # Settings of this cursor alone. The default order is a setting of the database: our SQL
            # states its order everywhere.
            for setting in (
                "integer_division = false",
                "ieee_floating_point_ops = true",
                "max_execution_time = 0",  # how long a query takes is up to its rows
                "preserve_identifier_case = 'preserve_case'",
                "python_enable_replacements = false",
                # Functions are DuckDB's own then, never macros of the database.
                "search_path = 'temp.main'",
            ):
                cursor.execute(f"SET {setting}")
            named = "SELECT system.main.current_setting('default_collation')"
            collated = bool(cursor.execute(named).fetchone()[0])  # a setting of the database
            if not collated:
                cursor.begin()  # tables stay as checked until the last query
            return cursor, collated

        text = (
            "the connection to DuckDB cannot be used, for example because it is closed. Open it "
            "again, and make a new PrivateDatabase; nothing was charged"
        )
        cursor, collated = or_raise(opened, lambda: RuntimeError(text))
        if collated:
            cursor.close()
            raise RuntimeError(
                "the database has a default_collation, under which different texts, and ids, are "
                "equal. Run RESET default_collation, or use a connection to a copy without it; "
                "nothing was charged"
            )
        return cursor

    def check_unchanged(self, tables: Sequence[Table]) -> None:
        """Raise RuntimeError for tables that have other columns than when they were declared.

        Expressions fail on no cell of the types for which they were compiled; others may fail.
        """
        places = {place for place, _, _, _ in _base_tables(self.reader)}
        for table in tables:
            if table.released is not None:
                continue  # this query has made it
            try:
                result = _columns_of(self.reader, table.source)
            except ValueError:
                result = []
            if not table.source.startswith(_FILES) and table.source not in places:
                result = []  # a view, or a table that may fail on a cell
            if result != [(column.name, column.kind) for column in table.columns.values()]:
                raise RuntimeError(
                    f"table {table.name!r} has changed since it was declared: it has other columns "
                    "or types, was dropped, or is a view now. Make a new PrivateDatabase; nothing "
                    "was charged"
                )


def open_catalog(database: Any, tables: Any) -> Catalog:
    """Return the declared tables of a connection, a file, or tables in memory."""
    duckdb = _duckdb()
    if not isinstance(tables, Mapping) or not tables:
        raise TypeError(
            "tables must be a dict from the names of one or more tables to 'public', "
            "{'unit': column}, {'unit': None} or {'owner': (column, owning table, its key column)}"
        )
    in_memory = isinstance(database, Mapping)
    sources: dict[str, str] = {}
    if in_memory:
        connection, sources = _in_memory(duckdb, database, tables)
    else:
        connection = _connected(duckdb, database)
    catalog = Catalog(connection)
    with closing(catalog.cursor()) as cursor:
        # The cursor of the catalogue has a schema of its own.
        named = "SELECT system.main.current_database(), system.main.current_schema()"
        here = () if in_memory else connection.cursor().execute(named).fetchone()
        for name, spec in tables.items():
            if not isinstance(name, str):
                raise TypeError(f"the names in tables must be strings, got {type(name).__name__}")
            place = folded(name)
            if place in catalog.tables:
                raise ValueError(
                    f"table {name!r} is declared twice: names that differ only in upper and lower "
                    "case are the same. Declare it once"
                )
            source = sources.get(place) if in_memory else _base_table(cursor, name, here)
            if source is None:
                raise ValueError(
                    f"there is no table {name!r} in the database. Views, temporary tables and "
                    "tables of other attached engines do not count: copy them with CREATE TABLE "
                    "... AS SELECT"
                )
            typed = not in_memory or source.startswith(_FILES)
            if typed and isinstance(spec, Mapping) and spec.get("types"):
                raise TypeError(
                    f"table {name!r}: 'types' is for columns of objects or categories of pandas; "
                    "the columns of files and databases have types already"
                )
            columns, row_id = _columns_of(cursor, source), ""
            if isinstance(spec, Mapping) and spec.get("unit", "") is None:
                source, row_id = _with_row_ids(name, source, columns, len(catalog.tables))
            catalog.tables[place] = _declared(name, source, columns, spec, row_id)
        _check_owners(catalog, cursor)
    _check_units(catalog)
    return catalog


def _duckdb() -> Any:
    import duckdb

    if int(duckdb.__version__.partition(".")[0]) < 2:
        # Older ones compare dates of different types differently, and close a connection for good
        # when a query runs out of memory. Answers were not tested on them.
        raise ImportError(
            f"skdp.sql needs DuckDB 2.0 or later, found {duckdb.__version__}: pip install -U duckdb"
        )
    return duckdb


def _connected(duckdb: Any, database: Any) -> Any:
    if isinstance(database, str | os.PathLike):
        if not Path(os.fspath(database)).exists():
            raise FileNotFoundError(f"there is no DuckDB file {os.fspath(database)!r}")
        return duckdb.connect(os.fspath(database), read_only=True)
    if not (hasattr(database, "cursor") and hasattr(database, "execute")):
        raise TypeError(
            "database must be a DuckDB connection, the path of a DuckDB file, or a dict from names "
            f"to tables or Parquet files, got {type(database).__name__}"
        )
    return database


def _in_memory(
    duckdb: Any, given: Mapping[str, Any], specs: Mapping[str, Any]
) -> tuple[Any, dict[str, str]]:
    """Return a new database with tables of pandas, polars or pyarrow, and the sources of tables."""
    connection = duckdb.connect(":memory:")
    sources = {}
    for name, table in given.items():
        spec = specs.get(name)
        types = spec.get("types") if isinstance(spec, Mapping) else None
        if isinstance(table, str | os.PathLike):
            path = os.fspath(table)
            if not path.endswith((".parquet", ".parq")) or (
                "*" not in path and not Path(path).exists()
            ):
                raise ValueError(
                    f"table {name!r} must be a table of pandas, polars or pyarrow, or the path of "
                    f"Parquet files that exist (.parquet or .parq); got {path!r}"
                )
            sources[folded(name)] = f"{_FILES}{text_of(path)})"
            continue
        _copy(connection, name, table, types or {})
        sources[folded(name)] = f'"memory"."main".{quoted(name)}'
    return connection, sources


def _copy(connection: Any, name: str, table: Any, types: Any) -> None:
    table = checked(table, f"table {name!r}")
    if not isinstance(types, Mapping):
        raise TypeError(f"'types' of table {name!r} must be a dict from columns to types")
    kinds = {column: stated_type(kind, column) for column, kind in types.items()}
    typed = with_types(table, kinds)
    days = [quoted(column) for column, kind in kinds.items() if kind.kind == "date"]
    casts = ", ".join(f"CAST({day} AS DATE) AS {day}" for day in days)
    dates = f" REPLACE ({casts})" if days else ""

    def copy() -> None:
        connection.register("skdp_given", typed)
        connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT *{dates} FROM skdp_given")
        connection.unregister("skdp_given")

    text = (
        f"table {name!r} cannot be read by DuckDB. It must be a table of pandas, polars or "
        "pyarrow, with columns of types that DuckDB has and texts that are valid UTF-8; "
        f"got {type(table).__name__}"
    )
    if type(table).__name__ == "LazyFrame":
        text += ". Compute a lazy table of polars before, with frame.collect(), to see what fails"
    with suppress_warnings():
        or_raise(lambda: cancellable(copy, connection.interrupt), lambda: TypeError(text))


def _base_tables(cursor: Any) -> list[tuple[str, str, str, str]]:
    """Return the base tables: full name, database, schema and name.

    Those with generated columns or collations have an empty full name. Tables of other engines
    (SQLite, PostgreSQL, CSV) are left out: to read one may fail on a cell.
    """
    result = cursor.execute(
        "SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables() "
        "WHERE NOT internal AND NOT temporary AND database_name IN "
        "(SELECT database_name FROM system.main.duckdb_databases() WHERE type = 'duckdb')"
    ).fetchall()
    return [
        ("" if _SPECIAL.search(sql or "") else ".".join(map(quoted, names)), *names)
        for *names, sql in result
    ]


def _base_table(cursor: Any, name: str, here: tuple[str, ...]) -> str | None:
    """Return a table's full name; None if there is no such base table."""
    wanted_schema, _, wanted = name.rpartition(".")
    place = here[0], folded(wanted_schema or here[1]), folded(wanted)
    for full_name, base, schema, table in _base_tables(cursor):
        if (base, folded(schema), folded(table)) == place:
            if not full_name:
                raise ValueError(
                    f"table {name!r} has generated columns or collations. They are not supported: "
                    "a generated column may fail on a value, and a collation may treat two ids as "
                    "equal. Declare a copy: CREATE TABLE ... AS SELECT"
                )
            return full_name
    return None


def rows_of(cursor: Any, statement: str, failed: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, which Ctrl-C stops; RuntimeError(failed) if DuckDB fails."""
    rows: list[tuple[Any, ...]] = or_raise(
        lambda: cancellable(lambda: cursor.execute(statement).fetchall(), cursor.interrupt),
        lambda: RuntimeError(failed),
    )
    return rows


def _columns_of(cursor: Any, source: str) -> list[tuple[str, str]]:
    text = f"DuckDB cannot read {source}. Check that the table or file exists and is not damaged"

    def read(sql: str) -> list[Any]:
        rows: list[Any] = or_raise(lambda: cursor.execute(sql).fetchall(), lambda: ValueError(text))
        return rows

    result = read(f"DESCRIBE SELECT * FROM {source}")
    if source.startswith(_FILES) and any(letter in source for letter in "*?["):
        # DuckDB casts the columns of all files to the types of the first: it may fail on a cell.
        files = source.replace(_PLACES, "").removeprefix(_FILES)[:-1]
        if read(mixed_types(files)) != [(0,)]:
            raise ValueError(
                f"the columns of {source} must have the same types in all files. Write the files "
                "anew with one schema"
            )
    of_files = (_OF_FILE, _IN_FILE) if f"{_OF_FILE}'" in source else ()
    return [(row[0], row[1]) for row in result if row[0] not in of_files]


def _with_row_ids(
    name: str, source: str, columns: list[tuple[str, str]], number: int
) -> tuple[str, str]:
    """Return the source of a table, and SQL of the id of each row: its place in the table.

    Rows of two tables have different ids, so that no row counts as the same unit as another.
    """
    for column, _ in columns:
        if folded(column) in ("rowid", _OF_FILE, _IN_FILE):
            raise ValueError(
                f"table {name!r} has a column {column!r}, by which DuckDB counts rows, so that "
                "each row cannot be a unit. Rename it, or name the column of the unit"
            )
    place = "{0}.rowid"
    if source.startswith(_FILES):
        source = f"{source[:-1]}{_PLACES})"
        place = f"{{0}}.{_OF_FILE}, ':', {{0}}.{_IN_FILE}"
    return source, f"concat('{number}:', {place})"


def _declared(
    name: str, source: str, columns: list[tuple[str, str]], spec: Any, row_id: str = ""
) -> Table:
    """Return a declared table, checked against its columns."""
    known = {folded(column): Column(column, kind) for column, kind in columns}
    if isinstance(spec, str) and spec == "public":
        return Table(name, source, known)
    if not isinstance(spec, Mapping) or not set(spec) <= _KEYS:
        raise TypeError(
            f"table {name!r} must be declared as 'public', or by a dict with 'unit' or 'owner', "
            "and where needed 'columns', 'keys' and 'types'"
        )
    if ("unit" in spec) == ("owner" in spec):
        raise ValueError(
            f"table {name!r} needs either 'unit' (the column of the privacy unit, or None: each "
            "row) or 'owner' (column, owning table, its key column), and not both"
        )

    def column(given: Any) -> str:
        if not isinstance(given, str) or folded(given) not in known:
            listed = ", ".join(item.name for item in known.values())
            raise ValueError(f"table {name!r} has no column {given!r}. Its columns are: {listed}")
        return folded(given)

    for given, pair in dict(spec.get("columns") or {}).items():
        place = column(given)
        known[place] = replace(known[place], bounds=pair_of(pair, f"bounds of {name!r}.{given!r}"))
    for given, keys in dict(spec.get("keys") or {}).items():
        place = column(given)
        if isinstance(keys, str) or not isinstance(keys, Sequence) or not keys:
            raise TypeError(
                f"'keys' of {name!r}.{given!r} must be a list of all values that the column may "
                "have, one or more"
            )
        known[place] = replace(known[place], keys=tuple(dict.fromkeys(keys)))
    if row_id:
        return Table(name, source, known, row_id=row_id)
    if "unit" in spec:
        unit = column(spec["unit"])
        if known[unit].family == "other" and known[unit].kind.upper() not in _OTHER_IDS:
            raise TypeError(
                f"column {spec['unit']!r} of table {name!r} cannot be the unit: its type is "
                f"{type_name(known[unit].kind)}, whose values may differ and compare as equal, or "
                "be of any size. Use a column of integers, text, dates, timestamps or UUIDs"
            )
        return Table(name, source, known, unit=unit)
    owner = spec["owner"]
    if isinstance(owner, str) or not isinstance(owner, Sequence) or len(owner) != 3:
        raise TypeError(
            f"'owner' of table {name!r} must be (column, owning table, its key column), such as "
            "('order_id', 'orders', 'id')"
        )
    first, table, key = map(str, owner)
    return Table(name, source, known, owner=Owner(column(first), folded(table), folded(key)))


def _check_owners(catalog: Catalog, cursor: Any) -> None:
    """Check that owners lead to a table with a unit, and that their keys name one row."""
    for table in catalog.tables.values():
        seen, at = {folded(table.name)}, table
        while at.owner is not None:
            above = catalog.tables.get(at.owner.table)
            if above is None or above.public or at.owner.key not in above.columns:
                raise ValueError(
                    f"'owner' of table {at.name!r} must name a declared private table and one of "
                    f"its columns: {at.owner.table!r} is not declared, is public, or has no column "
                    f"{at.owner.key!r}"
                )
            if folded(above.name) in seen:
                raise ValueError(
                    f"the owners of table {table.name!r} form a circle. The last of them must have "
                    "a 'unit'"
                )
            families = at.columns[at.owner.column].family, above.columns[at.owner.key].family
            if families[0] != families[1] or families[0] in ("other", "num"):
                raise TypeError(
                    f"{at.name!r}.{at.owner.column!r} and the key of its owner, "
                    f"{above.name!r}.{at.owner.key!r}, must have the same type: integers, text, "
                    "dates, timestamps or booleans"
                )
            seen.add(folded(above.name))
            at = above
        if table.owner is not None:
            _check_key(catalog, table.owner, cursor)


def _check_key(catalog: Catalog, owner: Owner, cursor: Any) -> None:
    """Refuse the key of an owner if several rows have the same value.

    This reads the table, as whoever declares it may. Queries do not rely on it: a row of two owners
    would count for both.
    """
    above = catalog.tables[owner.table]
    key = quoted(above.columns[owner.key].name)
    test = f"SELECT count({key}) <> count(DISTINCT {key}) FROM {above.source}"
    text = f"table {above.name!r} cannot be read, to check that each key in it names one row"
    ((twice,),) = rows_of(cursor, test, text)
    if twice:
        raise ValueError(
            f"values of {above.name!r}.{above.columns[owner.key].name!r}, the key of an owner, are "
            "not unique. A row that refers to one of them would have several owners. Use a key "
            "column with unique values"
        )


def _check_units(catalog: Catalog) -> None:
    """Check that the ids of all private tables can be compared with each other."""
    units = [table.columns[table.unit] for table in catalog.tables.values() if table.unit]
    families = {unit.family for unit in units}
    kinds = {unit.kind.upper() for unit in units}
    # Integers of up to 64 bits and texts are compared without a cast. A cast may make two ids
    # equal, or fail on a cell.
    if len(families) > 1 or (len(kinds) > 1 and not families <= {"int", "text"}):
        raise TypeError(
            "the unit columns of all tables must have the same type, since they are compared with "
            f"each other; their types are {', '.join(sorted(set(map(type_name, kinds))))}"
        )
