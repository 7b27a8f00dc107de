"""Tables in parts: larger than memory, or than a machine; give one to ``fit`` in place of X.

Nothing is released here. Statistics are exact integers that are added up in any order, so a table
in parts, however it is cut, gives the same as an array of its rows. What travels to a part is a
public function of rows; what comes back are exact totals, which are private: whatever visits the
parts is on the trusted side. Noise is drawn where ``fit`` is called, and nowhere else.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from skdp.engines._readers import ParquetReader, StreamReader, batches_of, itself
from skdp.engines._source import Source, names_of
from skdp.engines._threads import Threads

__all__ = ["Source", "from_arrays", "from_dask", "from_spark", "from_stream", "read_parquet"]


def from_arrays(parts: Iterable[Any], *, columns: Any = None) -> Source:
    """Return a table in parts of arrays or tables in memory.

    Parameters
    ----------
    parts : iterable of array-likes of shape (n_samples, n_features)
        Arrays of numpy (memory maps, too), or tables of pandas, polars or pyarrow; at least one.
        They may have different types, and no rows.
    columns : sequence of str, default=None
        Of tables, the columns that are read, in this order; None for all.

    Returns
    -------
    source : Source

    Raises
    ------
    TypeError
        If a part is neither an array nor a table.

    Notes
    -----
    **Privacy.** Nothing is released.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPStandardScaler
    >>> from skdp.engines import from_arrays
    >>> parts = from_arrays([np.zeros((500, 1)), np.ones((500, 1))])
    >>> scaler = DPStandardScaler(bounds=(0, 1), random_state=0).fit(parts)
    >>> abs(scaler.mean_[0] - 0.5) < 0.1
    np.True_
    """
    tables = tuple(parts)
    if not tables:
        raise ValueError("parts must hold at least one array, which may have no rows")
    for table in tables:
        if not hasattr(table, "shape"):
            raise TypeError(
                f"parts must be arrays or tables of shape (n, d), got {type(table).__name__}"
            )
    return Source(tables, itself, Threads(), tuple(map(_head, tables)), names_of(columns))


def _head(table: Any) -> Any:
    """Return the first no rows of a table."""
    if hasattr(table, "iloc"):
        return table.iloc[:0]
    return table.slice(0, 0) if hasattr(table, "slice") else table[:0]


def read_parquet(paths: Any, *, columns: Any = None, engine: str = "threads") -> Source:
    """Return a table in parts of Parquet files, a part each row group; needs pyarrow.

    Parameters
    ----------
    paths : str, path or sequence of them
        Files, folders (all ``*.parquet`` in them) or patterns of names.
    columns : sequence of str, default=None
        The columns that are read, in this order; None for all of the first file.
    engine : {"threads", "dask", "spark"}, default="threads"
        Who visits the parts: threads of this process, the workers of the current dask client, or
        the Python workers of the active Spark session. Workers must see the files under the same
        paths; those of Spark read them without its Java runtime, which is much faster than
        `from_spark`.

    Returns
    -------
    source : Source

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        For another engine; for Spark without an active session.

    Notes
    -----
    **Privacy.** Nothing is released. The number of files and of row groups and their names are
    taken as public, as the names of columns are.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.engines import read_parquet
    >>> flights = read_parquet("flights/*.parquet", columns=["dep_delay"])  # doctest: +SKIP
    >>> DPPCA(delta=1e-6).fit(flights)  # doctest: +SKIP
    """
    if engine not in ("threads", "dask", "spark"):
        raise ValueError(f"engine must be 'threads', 'dask' or 'spark', got {engine!r}")
    parquet = import_module("pyarrow.parquet")
    names = names_of(columns)
    handles, heads = [], []
    for path in _files(paths):
        with parquet.ParquetFile(path) as file:
            head = file.schema_arrow.empty_table()
            names = tuple(head.column_names) if names is None else names
            heads.append(head)
            handles += [(path, group) for group in range(file.num_row_groups)]
    where: Any = Threads()
    if engine == "dask":
        where = import_module("skdp.engines._dask").Dask()
    elif engine == "spark":
        spark = import_module("skdp.engines._spark")
        spark.active_session()
        where = spark.SparkFiles()
    return Source(tuple(handles), ParquetReader(names), where, tuple(heads), names)


def _files(paths: Any) -> list[str]:
    """Return the files that paths, folders and patterns name, in order."""
    single = isinstance(paths, str | os.PathLike)
    found: list[str] = []
    for path in map(os.fspath, [paths] if single else paths):
        if os.path.isdir(path):
            files = sorted(glob.glob(os.path.join(glob.escape(path), "*.parquet")))
        elif os.path.exists(path):
            files = [path]
        else:
            files = sorted(glob.glob(path))
        if not files:
            raise FileNotFoundError(f"no Parquet file at {path!r}")
        found += files
    if not found:
        raise FileNotFoundError("paths must name at least one Parquet file")
    return found


def from_stream(open_reader: Callable[[], Any], *, columns: Any = None) -> Source:
    """Return a table of one part that is streamed, as often as it is needed; needs pyarrow.

    Parameters
    ----------
    open_reader : callable
        Takes nothing and returns a new ``pyarrow.RecordBatchReader``, or what has the Arrow stream
        interface (a relation of DuckDB, a frame of polars, a scanner of a pyarrow dataset); each
        time the same rows, in any order.
    columns : sequence of str, default=None
        The columns that are read, in this order; None for all.

    Returns
    -------
    source : Source

    Raises
    ------
    TypeError
        If `open_reader` is no callable: a reader can be read once only.

    Notes
    -----
    **Privacy.** Nothing is released. A query behind the stream that is no map of one row (a join,
    DISTINCT, LIMIT, a sample, an aggregate) lets one row of its table move many rows of this one:
    what is protected is a row of the stream.

    Examples
    --------
    >>> from skdp import DPStandardScaler
    >>> from skdp.engines import from_stream
    >>> query = "SELECT dep_delay FROM 'flights/*.parquet'"
    >>> source = from_stream(lambda: duckdb.sql(query))  # doctest: +SKIP
    >>> DPStandardScaler(bounds=(-60, 600)).fit(source)  # doctest: +SKIP
    """
    if not callable(open_reader):
        raise TypeError(
            "open_reader must be a callable that opens the rows anew for every pass over them, "
            f"got {type(open_reader).__name__}"
        )
    head = _schema_of(open_reader()).empty_table()
    return Source((None,), StreamReader(open_reader), Threads(), (head,), names_of(columns))


def _schema_of(stream: Any) -> Any:
    """Return the Arrow schema of a stream that has been opened, and close it."""
    arrow = import_module("pyarrow")
    if isinstance(stream, arrow.RecordBatchReader):
        schema = stream.schema
        stream.close()
        return schema
    if hasattr(stream, "__arrow_c_stream__"):
        return _schema_of(arrow.RecordBatchReader.from_stream(stream))
    for batch in batches_of(stream):
        return batch.schema
    raise TypeError("open_reader must return an Arrow reader; it returned no batch")


def from_dask(frame: Any) -> Source:
    """Return the partitions of a dask frame, series or array, visited by dask's workers.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame, dask.dataframe.Series or dask.array.Array
        Chunks of an array are joined across columns. It is computed anew for every pass over the
        rows: persist it where that is dear.

    Returns
    -------
    source : Source

    Raises
    ------
    TypeError
        If it is no collection of dask.

    Notes
    -----
    **Privacy.** Nothing is released. Workers and scheduler see exact totals, and what they spill,
    log or show on a dashboard: they are on the trusted side. Steps before this one that are no map
    of one row (drop_duplicates, merge, a sample) let one row of their table move many of this one.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.engines import from_dask
    >>> import dask.dataframe as dd  # doctest: +SKIP
    >>> DPPCA(delta=1e-6).fit(from_dask(dd.read_parquet("flights")))  # doctest: +SKIP
    """
    engine = import_module("skdp.engines._dask").Dask()
    if not (hasattr(frame, "to_delayed") and hasattr(frame, "_meta")):
        raise TypeError(f"frame must be a frame or an array of dask, got {type(frame).__name__}")
    if not hasattr(frame, "chunks"):
        return Source(tuple(frame.to_delayed()), itself, engine, (frame._meta,))
    if frame.ndim == 2:
        frame = frame.rechunk({1: -1})
    handles = tuple(frame.to_delayed().ravel())
    head = import_module("numpy").empty((0, *frame.shape[1:]), dtype=frame.dtype)
    return Source(handles, itself, engine, (head,))


def from_spark(frame: Any) -> Source:
    """Return the partitions of a Spark frame, visited by its Python workers.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Of columns that Arrow has. It is computed anew for every pass over the rows: cache it where
        that is dear. skdp and pyarrow must be installed where the workers run.

    Returns
    -------
    source : Source
        A target is named by its column.

    Raises
    ------
    TypeError
        If it is no frame of Spark.

    Notes
    -----
    **Privacy.** Nothing is released. Executors see exact totals, and so do shuffle files, spills
    and whoever may read them: they are on the trusted side. Steps before this one that are no map
    of one row (dropDuplicates, limit, join, sample) let one row of their table move many of this
    one.

    Examples
    --------
    >>> from skdp import DPStandardScaler
    >>> from skdp.engines import from_spark
    >>> frame = spark.read.parquet("flights")  # doctest: +SKIP
    >>> DPStandardScaler(bounds=(-60, 600)).fit(from_spark(frame))  # doctest: +SKIP
    """
    if not hasattr(frame, "mapInArrow"):
        raise TypeError(f"frame must be a DataFrame of Spark, got {type(frame).__name__}")
    types = import_module("pyspark.sql.pandas.types")
    head = types.to_arrow_schema(frame.schema).empty_table()
    engine = import_module("skdp.engines._spark").Spark(frame)
    handles = (None,) * frame.rdd.getNumPartitions()
    return Source(handles, itself, engine, (head,))
