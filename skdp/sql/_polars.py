"""Polars as the second engine: tables come in as lazy frames, rows go out to `DPGroupBy`.

Nothing is released here. DuckDB holds the types of private tables and none of their rows; polars
joins, filters and computes. Rows of a query are the same in both engines, to the last bit, so that
everything after them is: bounding, integers, and noise where it is seeded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skdp.sql._polars_rows import Lazy, Tables, lazy_rows
from skdp.sql._polars_typed import polars
from skdp.sql._typed import quoted
from skdp.tabular import checked, type_name
from skdp.user_code import or_raise, suppress_warnings

__all__ = ["PolarsTables"]

_WHOLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32")
_WIDEST = 15  # digits of a decimal that doubles hold, whatever its scale


def _frame(name: str, table: Any) -> Any:
    """Return a table as a lazy frame.

    Raises
    ------
    TypeError, ValueError
    """
    pl = polars()
    if isinstance(table, str | os.PathLike):
        path = os.fspath(table)
        missing = "*" not in path and not Path(path).exists()
        if not path.endswith((".parquet", ".parq")) or missing:
            raise ValueError(
                f"table {name!r} must be a table of polars, pandas or pyarrow, or the path of "
                f"Parquet files that exist (.parquet or .parq); got {path!r}"
            )
        return pl.scan_parquet(path)
    if isinstance(table, pl.LazyFrame):
        return table
    table = checked(table, f"table {name!r}")
    if isinstance(table, pl.DataFrame):
        return table.lazy()
    kind = type(table).__module__.partition(".")[0]
    read = pl.from_pandas if kind == "pandas" else pl.from_arrow
    with suppress_warnings():
        return or_raise(lambda: read(table).lazy(), lambda: _unreadable(name, table))


def _unreadable(name: str, table: Any) -> TypeError:
    return TypeError(
        f"table {name!r} cannot be read by polars. It must be a table of polars, pandas or "
        "pyarrow, with texts that are valid UTF-8, or the path of a Parquet file; got "
        f"{type(table).__name__}"
    )


class PolarsTables:
    """Tables of one database as lazy frames."""

    def __init__(self) -> None:
        try:
            version = str(polars().__version__)
        except ImportError:
            raise ImportError("engine='polars' needs polars: pip install polars") from None
        if int(version.partition(".")[0]) < 2:  # equality was tested on no older one
            raise ImportError(
                f"engine='polars' needs polars 2.0 or later, found {version}: pip install -U polars"
            )
        self._frames: dict[str, Any] = {}
        self._schemas: dict[str, Any] = {}

    def add(self, name: str, source: str, table: Any, *, whole: bool) -> Any:
        """Take a table in, and return an Arrow table for DuckDB: of its types, or of all rows."""
        pl = polars()
        given = _frame(name, table)

        def read() -> tuple[Any, Any, Any]:
            schema = given.collect_schema()
            named = [c for c, t in schema.items() if isinstance(t, pl.Categorical | pl.Enum)]
            frame = given.with_columns(pl.col(c).cast(pl.String) for c in named)
            schema = frame.collect_schema()
            shown = frame.collect() if whole else pl.DataFrame(schema=schema)
            return frame, schema, shown.to_arrow()

        frame, schema, arrow = or_raise(read, lambda: _unreadable(name, table))
        self._frames[source], self._schemas[source] = frame, schema
        return arrow

    def names_rows(self, source: str, column: str) -> bool:
        """Say whether no two rows have the same cell in a column, missing ones aside."""
        pl = polars()
        cells = pl.col(column).drop_nulls()
        found = _collected(
            self._frames[source].select(a=cells.len(), b=cells.n_unique()), "the key of an owner"
        )
        return bool(found["a"][0] == found["b"][0])

    def check_unchanged(self, source: str) -> bool:
        """Say whether a table has the columns that it had."""
        try:
            return bool(self._frames[source].collect_schema() == self._schemas[source])
        except Exception:  # noqa: BLE001
            return False

    def check(self, sql: str, cursor: Any = None, more: Sequence[str] = ()) -> None:
        """Raise where the rows of a rewritten query are not proved equal; nothing is read.

        Parameters
        ----------
        sql : str
        cursor : DuckDB connection
        more : sequence of str
            Tables of DuckDB alone.

        Raises
        ------
        QueryRefusedError
        """
        lazy_rows(sql, Tables(self._typed(cursor, more), lambda own, rows, test: None))

    def into(self, cursor: Any, table: str, sql: str, more: Sequence[str]) -> None:
        """Put the rows of a rewritten query into a table of DuckDB that has their types.

        Raises
        ------
        RuntimeError
        """
        tables = Tables(self._typed(cursor, more), _Choice(self, cursor))
        self.put(cursor, table, lazy_rows(sql, tables))

    def _typed(self, cursor: Any, more: Sequence[str]) -> dict[str, Lazy]:
        tables = {name: _typed(one, self._schemas[name]) for name, one in self._frames.items()}
        for name in more:
            frame = polars().from_arrow(cursor.sql(f"SELECT * FROM {name}").to_arrow_table())
            tables[name] = _typed(frame.lazy(), frame.schema)
        return tables

    def put(self, cursor: Any, table: str, lazy: Lazy) -> None:
        """Compute rows, and put them into a table of DuckDB that has their types.

        Raises
        ------
        RuntimeError
        """
        pl = polars()
        physical = {"date": (pl.Int32, pl.Date), "time": (pl.Int64, pl.Datetime("us"))}
        exprs = []
        for name, kind in lazy.kinds.items():
            expr = pl.col(name)
            for dtype in physical.get(kind, ()):
                expr = expr.cast(dtype)
            exprs.append(expr)
        found = _collected(lazy.frame.select(exprs), "the rows of the query")
        names = ", ".join(map(quoted, lazy.kinds))
        cells = [
            f"coalesce('=' || TRY_CAST({quoted(name)} AS VARCHAR), '')"
            if name in lazy.encoded
            else quoted(name)
            for name in lazy.kinds
        ]

        def read() -> None:
            cursor.register("skdp_rows_of_polars", found.to_arrow())
            cursor.execute(
                f"INSERT INTO {table} ({names}) SELECT {', '.join(cells)} FROM skdp_rows_of_polars"
            )
            cursor.unregister("skdp_rows_of_polars")

        text = "DuckDB could not read the rows that polars computed; nothing was charged"
        or_raise(read, lambda: RuntimeError(text))


class _Choice:
    """Takes rows of units that have too many, by DuckDB's hash of their cells."""

    def __init__(self, tables: PolarsTables, cursor: Any) -> None:
        self._tables, self._cursor, self._count = tables, cursor, 0

    def __call__(self, sql: str, rows: Lazy, test: str) -> Any:
        self._count += 1
        table = f"temp.main.skdp_many_rows_{self._count}"
        self._cursor.execute(f"CREATE TEMP TABLE skdp_many_rows_{self._count} AS {sql}")
        self._tables.put(self._cursor, table, rows)
        found = self._cursor.sql(f"SELECT * FROM {table} QUALIFY {test}").to_arrow_table()
        self._cursor.execute(f"DROP TABLE {table}")
        frame = polars().from_arrow(found)
        return _typed(frame.lazy(), frame.schema).frame


def _collected(frame: Any, what: str) -> Any:
    text = f"polars could not compute {what}, for example for lack of memory; nothing was charged"
    return or_raise(frame.collect, lambda: RuntimeError(text))


def _typed(frame: Any, schema: Mapping[str, Any]) -> Lazy:
    """Return a table as `skdp.sql._polars_rows` reads it: few types, dates as integers."""
    pl = polars()
    exprs: list[Any] = []
    kinds: dict[str, str] = {}
    missing: dict[str, Any] = {}
    for name, dtype in schema.items():
        cell, kind = pl.col(name), ""
        if str(dtype) in _WHOLE:
            cell, kind = cell.cast(pl.Int64), "int"
        elif dtype in (pl.Float32, pl.Float64, pl.UInt64):
            cell, kind = cell.cast(pl.Float64), "num"
        elif dtype == pl.String:
            kind = "text"
        elif dtype == pl.Boolean:
            kind = "bool"
        elif dtype == pl.Date:
            cell, kind = cell.cast(pl.Int32).cast(pl.Int64), "date"
        elif dtype == pl.Datetime("us", None):
            cell, kind = cell.cast(pl.Int64), "time"
        elif isinstance(dtype, pl.Decimal) and (dtype.precision or 99) <= _WIDEST:
            kind = "decimal"
        if kind:
            exprs.append(cell)
            kinds[name] = kind
        else:
            missing[name] = f"column {name!r} of type {type_name(dtype)}"
    return Lazy(frame.select(exprs), kinds, missing)
