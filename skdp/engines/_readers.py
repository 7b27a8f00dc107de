"""Readers of parts: how the batches of a part are had, again and again.

Nothing is released here. A reader holds public values only, and is picklable.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from skdp.engines._source import needed

__all__ = ["BATCH_ROWS", "ParquetReader", "StreamReader", "itself"]

BATCH_ROWS = 2**16


def itself(part: Any) -> Iterator[Any]:
    """Yield a part that is its own only batch."""
    yield part


@dataclass(frozen=True)
class ParquetReader:
    """Reads row groups of Parquet files; a handle is (path, number of the row group).

    Attributes
    ----------
    columns : tuple or None
        The columns that are read; None for all.
    """

    columns: tuple[str, ...] | None = None

    def __call__(self, handle: tuple[str, int]) -> Iterator[Any]:
        """Yield record batches of a row group."""
        path, group = handle
        parquet = needed("pyarrow.parquet", "parquet")
        columns = None if self.columns is None else list(self.columns)
        # The threads are those of the engine. No memory map: of a file that is cut meanwhile it
        # would end the process.
        with parquet.ParquetFile(path, metadata=_footer(path, _state(path))) as file:
            yield from file.iter_batches(
                batch_size=BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False
            )


def _state(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


@functools.lru_cache(maxsize=64)
def _footer(path: str, state: tuple[int, ...]) -> Any:
    """Return the footer of a file, which lists all row groups: read once, not for each of them."""
    parquet = needed("pyarrow.parquet", "parquet")
    with parquet.ParquetFile(path) as file:
        return file.metadata


@dataclass(frozen=True)
class StreamReader:
    """Reads one stream of record batches, which is opened anew for every pass.

    Attributes
    ----------
    open_reader : callable
        Returns what has the Arrow stream interface, or record batches one by one.
    """

    open_reader: Callable[[], Any]

    def __call__(self, handle: Any) -> Iterator[Any]:
        """Yield the batches of the stream."""
        yield from batches_of(self.open_reader())


def batches_of(stream: Any) -> Iterator[Any]:
    """Yield the batches of a stream: an Arrow reader, what has its interface, or an iterable."""
    arrow = needed("pyarrow", "parquet")
    if not isinstance(stream, arrow.RecordBatchReader) and hasattr(stream, "__arrow_c_stream__"):
        stream = arrow.RecordBatchReader.from_stream(stream)
    try:
        yield from stream
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            close()
