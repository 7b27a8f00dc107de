"""Tables that are not in memory, in batches: DuckDB relations, Parquet files and tables in parts.

Each yields Arrow tables of one schema: the column of ids, the columns of keys, the columns of
numbers. Tables are read before any charge, so reading fails no charged fit. The error text of a
library may quote a cell, so a fixed text replaces it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from skdp.exceptions import SourceError
from skdp.tabular.columns import (
    ColumnType,
    type_of_arrow,
    type_of_column,
    type_of_duckdb,
    valid_texts,
)
from skdp.tabular.containers import checked
from skdp.tabular.parts import chosen, heads_of, len_of, names_in
from skdp.tabular.relation_plans import check_plan
from skdp.tabular.source import Source, check_same, needed
from skdp.user_code import or_raise

__all__ = ["Batches", "batches_of_parts", "batches_of_relation", "is_relation", "opened"]

_VIEW = "skdp_rows_5e1c7f0a"  # a name that no view of a caller has
_ROWS = 2**17  # in a batch of DuckDB
_NO_TYPE = (
    "the type of column {name!r} does not say what it holds, or holds what is no key, id or "
    "number; give it a type in every part, such as astype('string')"
)
_FAILED = "DuckDB could not run a query on the table"
_UNREADABLE = (
    "the parts could not be read as they were checked: a part is gone, or has columns of other "
    "types. Nothing was charged for this fit. Read the parts by themselves, where their rows may "
    "be shown, to see why."
)


@dataclass(eq=False, repr=False)
class Batches:
    """A table that can be read once, in batches.

    Attributes
    ----------
    types : dict of ColumnType
        Type of each column.
    read : callable
        Takes names of columns of ids and keys, and of columns of numbers; yields Arrow tables of
        these columns, in this order.
    failure : callable
        Returns the error to raise if the table cannot be read.
    """

    types: dict[str, ColumnType]
    read: Callable[[Sequence[str], Sequence[str]], Iterator[Any]]
    failure: Callable[[], Exception]


# --- DuckDB -------------------------------------------------------------------------------------


def is_relation(table: Any) -> bool:
    """Say whether a table is a DuckDB relation, or names Parquet files."""
    if isinstance(table, str | os.PathLike):
        return True
    return type(table).__name__ == "DuckDBPyRelation" and hasattr(table, "query")


def opened(table: Any) -> Any:
    """Return a relation, of Parquet files where a path names them."""
    if not isinstance(table, str | os.PathLike):
        return table
    path = os.fspath(table)
    if os.path.isdir(path):
        path = os.path.join(glob.escape(path), "*.parquet")
    if not path.endswith((".parquet", ".parq")):
        raise ValueError("a table that is named by a path must be Parquet files (.parquet)")
    if "*" not in path and not Path(path).exists():
        raise FileNotFoundError(f"no file {path!r}")
    files = [path] if Path(path).exists() else sorted(glob.glob(path))
    if not files:
        raise FileNotFoundError(f"no Parquet file at {path!r}")
    heads = [needed("pyarrow.parquet", "parquet").read_schema(file) for file in files]
    check_same([head.remove_metadata().empty_table() for head in heads], None)
    try:
        import duckdb
    except ImportError:
        raise ImportError(
            "Parquet files are read by DuckDB: pip install duckdb, or hand in a table"
        ) from None
    return or_raise(
        lambda: duckdb.connect().read_parquet([glob.escape(file) for file in files]),
        lambda: ValueError(f"{path!r} could not be read as Parquet"),
    )


def batches_of_relation(relation: Any) -> Batches:
    """Return the batches of a relation, read by one query; refuse one that may fail on a cell."""
    needed("pyarrow", "duckdb")
    check_plan(relation)
    names = tuple(relation.columns)
    if len({name.casefold() for name in names}) < len(names):  # DuckDB would read the first of two
        raise ValueError(
            "a relation must not have two columns whose names differ in case alone; rename one"
        )
    kinds = {name: str(kind).upper() for name, kind in zip(names, relation.types, strict=True)}

    def read(keys: Sequence[str], numbers: Sequence[str]) -> Iterator[Any]:
        # Whole numbers of 128 bits and UUIDs as text, which is exact. No cast fails on a cell.
        cells = []
        for i, name in enumerate(keys):
            text = "::VARCHAR" if kinds[name] in ("HUGEINT", "UHUGEINT", "UUID") else ""
            cells.append(f"{_VIEW}.{_quoted(name)}{text} AS c{i}")
        for i, name in enumerate(numbers):
            cells.append(f"{_VIEW}.{_quoted(name)}::DOUBLE AS v{i}")
        rows = relation.query(_VIEW, f"SELECT {', '.join(cells) or 'NULL AS none'} FROM {_VIEW}")
        start = getattr(rows, "to_arrow_reader", None) or rows.fetch_record_batch
        table = import_module("pyarrow").Table
        reader = start(_ROWS)
        try:
            for batch in reader:
                yield table.from_batches([batch])
        finally:
            reader.close()

    types = {name: type_of_duckdb(kind) for name, kind in kinds.items()}
    return Batches(types, read, lambda: RuntimeError(_FAILED))


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


# --- parts --------------------------------------------------------------------------------------


def _schema(head: Any) -> Any:
    """Return the Arrow schema of a table without rows; TypeError if a column may hold anything."""
    arrow = import_module("pyarrow")
    if hasattr(head, "iloc") or hasattr(head, "get_columns"):
        for name in head.columns:  # rows would decide the Arrow type of such a column
            if type_of_column(head[name]).kind in ("any", "other"):
                raise TypeError(_NO_TYPE.format(name=name))
    if hasattr(head, "iloc"):
        schema = arrow.Schema.from_pandas(head, preserve_index=False).remove_metadata()
    elif hasattr(head, "to_arrow"):
        schema = head.to_arrow().schema
    else:
        schema = head.schema.remove_metadata()
    for field in schema:
        if arrow.types.is_null(field.type):
            raise TypeError(_NO_TYPE.format(name=field.name))
    return schema


def batches_of_parts(source: Source, columns: Sequence[str]) -> Batches:
    """Return the batches of a table in parts, read in this process, one part after the other.

    Columns that the table does not have are skipped: the caller names them. Parts must have names
    of columns, and the same columns of the same types.
    """
    needed("pyarrow", "parquet")
    _, heads = heads_of(source)
    known = [names_in(head) for head in heads]
    if None in known:
        raise TypeError("parts must have names of columns to be grouped by them")
    wanted = tuple(dict.fromkeys(columns))
    present = [tuple(name for name in wanted if name in (own or ())) for own in known]
    cut = [chosen(head, own) for head, own in zip(heads, present, strict=True)]
    schema, *others = map(_schema, cut)
    if any(other != schema for other in others):
        raise ValueError("parts must have the same columns, of the same types")

    def read(keys: Sequence[str], numbers: Sequence[str]) -> Iterator[Any]:
        table = import_module("pyarrow").Table
        names = [f"c{i}" for i in range(len(keys))] + [f"v{i}" for i in range(len(numbers))]
        for batch in filter(len_of, map(checked, _batches(source, present[0]))):
            rows = _as_arrow(chosen(batch, present[0]), schema, cut)
            cells = [rows.column(name) for name in (*keys, *numbers)]
            yield table.from_arrays(cells, names=names)

    types = {field.name: type_of_arrow(field.type) for field in schema}
    return Batches(types, read, lambda: SourceError(_UNREADABLE))


def _batches(source: Source, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the batches of all parts; parts on other machines are sent to this process."""
    fetch = getattr(source.engine, "fetched", None)
    for number, handle in enumerate(source.handles):
        if fetch is None:
            yield from source.reader(handle)
        else:
            yield from fetch(source.reader, number, handle, columns)


def _as_arrow(batch: Any, schema: Any, heads: Sequence[Any]) -> Any:
    """Return a batch as an Arrow table, if its columns have the types that were checked."""
    if hasattr(batch, "iloc"):
        if list(map(str, batch.dtypes)) not in [list(map(str, head.dtypes)) for head in heads]:
            raise TypeError
        return import_module("pyarrow").Table.from_pandas(
            valid_texts(batch), schema=schema, preserve_index=False
        )
    table = batch.to_arrow() if hasattr(batch, "to_arrow") else batch
    if table.schema.types != schema.types:
        raise TypeError
    return table
