"""Tables in parts, to be grouped: a relation of DuckDB that streams the parts in this process.

Nothing is released here. The relation opens the parts anew for every query on it, one after the
other, so that no more than a batch of rows is held. The types of its columns are those of the parts
without rows, which are public; batches of other types end in DuckDB's error, whose text
`skdp.tabular.grouped_relation` replaces by a fixed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from skdp.engines import Source
from skdp.tabular.containers import checked
from skdp.tabular.parts import chosen, heads_of, len_of, names_in

__all__ = ["relation_of"]


def _schema(head: Any) -> Any:
    """Return the Arrow schema of a table without rows.

    Raises
    ------
    TypeError
        If a column may hold anything: its type would be decided by its rows.
    """
    arrow = import_module("pyarrow")
    if hasattr(head, "iloc"):
        schema = arrow.Schema.from_pandas(head, preserve_index=False).remove_metadata()
    elif hasattr(head, "to_arrow"):
        schema = head.to_arrow().schema
    else:
        schema = head.schema.remove_metadata()
    for field in schema:
        if arrow.types.is_null(field.type):
            raise TypeError(
                f"the type of column {field.name!r} does not say what it holds; give it a type in "
                "every part, such as astype('string')"
            )
    return schema


class _Stream:
    """What DuckDB scans, any number of times: the batches of all parts as one Arrow stream."""

    def __init__(self, source: Source, columns: tuple[Any, ...], schema: Any) -> None:
        self._source, self._columns, self._schema = source, columns, schema
        self._sizes: list[int] | None = None
        self.changed = False  # whether a later pass had parts of other sizes than the first

    def __repr__(self) -> str:
        return "_Stream(...)"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Open the parts anew."""
        arrow = import_module("pyarrow")
        reader = arrow.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[Any]:
        arrow = import_module("pyarrow")
        sizes = []
        for handle in self._source.handles:
            sizes.append(0)
            for batch in map(checked, self._source.reader(handle)):
                if not len_of(batch):
                    continue
                sizes[-1] += len_of(batch)
                one = chosen(batch, self._columns)
                if hasattr(one, "iloc"):
                    one = arrow.Table.from_pandas(one, schema=self._schema, preserve_index=False)
                elif hasattr(one, "to_arrow"):
                    one = one.to_arrow()
                yield from one.replace_schema_metadata().cast(self._schema).to_batches()
        self.changed |= self._sizes not in (None, sizes)
        self._sizes = sizes


def relation_of(source: Source, columns: Sequence[str]) -> tuple[Any, Any]:
    """Return a relation of some columns of all parts, and its stream; no row has been read.

    Parameters
    ----------
    source : Source
        Read in this process: of files, streams or tables in memory.
    columns : sequence of str
        Those that are asked for; those that are missing are left to the caller to name.

    Raises
    ------
    ImportError
        If DuckDB is not installed.
    TypeError
        If the parts lie elsewhere, have no names of columns, or types that may hold anything.
    ValueError
        If parts have other columns, or columns of other types.
    """
    if getattr(source.engine, "remote", False):
        raise TypeError(
            "rows of one unit may lie in several parts, so parts are grouped in this process, and "
            "these lie on the workers of a cluster. Give their files: read_parquet(paths)"
        )
    try:
        duckdb = import_module("duckdb")
    except ImportError:
        raise ImportError(
            "tables in parts are grouped by DuckDB: pip install duckdb, or hand in a table"
        ) from None
    _, heads = heads_of(source)
    known = [names_in(head) for head in heads]
    if None in known:
        raise TypeError("parts must have names of columns to be grouped by them")
    kept = [tuple(name for name in dict.fromkeys(columns) if name in (own or ())) for own in known]
    schemas = [_schema(chosen(head, own)) for head, own in zip(heads, kept, strict=True)]
    if any(schema != schemas[0] for schema in schemas):
        raise ValueError("parts must have the same columns, of the same types")
    stream = _Stream(source, kept[0], schemas[0])
    connection = duckdb.connect()
    connection.register("skdp_parts", stream)
    return connection.table("skdp_parts"), stream
