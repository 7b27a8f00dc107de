"""A table in parts: its parts, their readers, and what an engine must do.

A source holds no rows (unless it is made of arrays). It only reads: it never gets a session, a seed
or a budget.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

_BATCH_ROWS = 2**16
Totals = list[NDArray]


def needed(module: str, extra: str) -> Any:
    """Return an optional module, or say how it is installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f'This needs {name}: pip install {name}, or ".[{extra}]" in a checkout.', name=name
        ) from None


class Part(NamedTuple):
    """One part of a table, as an engine sends it to the process that reads it.

    `handle` is the argument of the reader, picklable if the engine has other processes; `wanted`
    are the rows to read, ascending, None for all.
    """

    number: int
    handle: Any
    wanted: NDArray[np.int64] | None = None


class Engine(Protocol):
    """Visits parts: in threads, or on other machines.

    A task is a `skdp.tabular.parts.FoldTask`. An engine of other processes may have
    ``fetched(reader, number, handle, columns)``, which yields the batches of a part in this
    process: GROUP BY needs all rows of a unit in one place.
    """

    def map_add(self, task: Any, parts: Sequence[Part]) -> Totals:
        """Return the sum of ``task(part)`` over the parts, each counted once, in any order."""


@dataclass(frozen=True, repr=False, eq=False)
class Source:
    """A table in parts, to be passed instead of X; made by the functions of `skdp.engines`.

    Attributes
    ----------
    handles : tuple
        Arguments of the reader, one for each part.
    reader : callable
        Takes a handle and yields batches of its rows: two-dimensional arrays, or tables of pandas,
        polars or pyarrow. It may be called any number of times.
    engine : Engine
    heads : tuple
        Tables without rows, as the reader yields them: the public part of each part.
    columns : tuple or None
        Names of the columns to read, in order; None: all columns, or columns without names.
    """

    handles: tuple[Any, ...]
    reader: Callable[[Any], Iterable[Any]]
    engine: Engine
    heads: tuple[Any, ...]
    columns: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        return f"Source({len(self.handles)} parts, engine={type(self.engine).__name__})"

    def __len__(self) -> int:
        raise TypeError("the number of rows of a table in parts is not known; it may be private")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        raise TypeError(
            "a table in parts cannot be made an array: it would be as large as all of its parts"
        )

    def __iter__(self) -> Any:
        raise TypeError("a table in parts is read in place: pass it to fit instead of X")

    def select(self, columns: Sequence[Any]) -> Source:
        """Return the same parts with some columns only, by name, in this order."""
        return replace(self, columns=names_of(columns))


def names_of(columns: Any) -> tuple[Any, ...] | None:
    """Return names of columns as a tuple, None as it is."""
    if columns is None:
        return None
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a sequence of names, got {type(columns).__name__}")
    return tuple(columns)


def check_same(heads: list[Any], columns: tuple[Any, ...] | None) -> None:
    """Raise if the last file has other columns than the first: names, order and types."""
    first, last = heads[0].schema, heads[-1].schema
    if columns is not None:  # those that are missing are named later
        known = [name for name in columns if name in first.names and name in last.names]
        first, last = ([schema.field(name).type for name in known] for schema in (first, last))
    if first != last:
        raise ValueError(
            "all Parquet files must have the same columns, in one order and of the same types; "
            "state columns=[...], or write the files anew with one schema"
        )


# --- readers: they hold public values only, and can be pickled ------------------------------------


def itself(part: Any) -> Iterator[Any]:
    """Yield a part as its only batch."""
    yield part


@dataclass(frozen=True)
class ParquetReader:
    """Reads some columns (None: all) of Parquet row groups; a handle is (path, number)."""

    columns: tuple[str, ...] | None = None

    def __call__(self, handle: tuple[str, int]) -> Iterator[Any]:
        """Yield record batches of a row group."""
        path, group = handle
        parquet = needed("pyarrow.parquet", "parquet")
        columns = None if self.columns is None else list(self.columns)
        # The engine has threads already. No memory map: the process would end if the file were cut
        # while it is read.
        with parquet.ParquetFile(path, metadata=_footer(path, _state(path))) as file:
            yield from file.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False
            )


def _state(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=64)
def _footer(path: str, state: tuple[int, ...]) -> Any:
    """Return the footer of a file; it lists all row groups, and is read once for all of them."""
    parquet = needed("pyarrow.parquet", "parquet")
    with parquet.ParquetFile(path) as file:
        return file.metadata


@dataclass(frozen=True)
class StreamReader:
    """Reads one stream of record batches, which `open_reader` opens anew for every pass."""

    open_reader: Callable[[], Any]

    def __call__(self, handle: Any) -> Iterator[Any]:
        """Yield the batches of the stream."""
        yield from batches_of(self.open_reader())


def batches_of(stream: Any) -> Iterator[Any]:
    """Yield the batches of an Arrow reader, of an Arrow stream, or of an iterable."""
    arrow = needed("pyarrow", "parquet")
    if not isinstance(stream, arrow.RecordBatchReader) and hasattr(stream, "__arrow_c_stream__"):
        stream = arrow.RecordBatchReader.from_stream(stream)
    try:
        yield from stream
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            close()
