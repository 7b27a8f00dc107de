"""Tables in parts, larger than memory or than one machine; pass one to ``fit`` instead of X.

Statistics are exact integers, which can be added in any order. So a table in parts gives the same
results as an array of its rows, however it is divided. The process that reads a part gets a public
function of rows and returns exact totals, which are private: it must be trusted. Noise is drawn
only where ``fit`` is called.

Each engine has ``map_add(task, parts)``, in which each part is counted once. For tasks with equal
keys, dask would return the totals of an earlier pass without reading the parts, so every pass has
tasks of its own (``pure=False``). Spark returns totals as rows of a result, one for each partition:
where a task ran twice, its result is counted once. (An accumulator would add both results;
``toLocalIterator`` would run one partition after the other.)
"""

from __future__ import annotations

import functools
import itertools
import math
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._docstrings import shared_texts
from skdp._threads import in_threads, usable_cores
from skdp.core.table import added
from skdp.tabular.containers import cut
from skdp.tabular.parts import (
    FoldTask,
    ParquetReader,
    Part,
    Source,
    StreamReader,
    batches_of,
    check_same,
    files_at,
    itself,
    names_of,
    needed,
)
from skdp.tabular.sound import sound
from skdp.user_code import or_raise

__all__ = ["Source", "from_arrays", "from_dask", "from_spark", "from_stream", "read_parquet"]

_DASK_GROUP = 8  # totals that one dask task adds up
_SPARK_PARTITIONS = 16  # more of them than this are added up on the workers first
_TASKS_PER_CORE = 4  # of Spark: a task that takes long does not keep the others waiting
_SCHEMA = "totals binary"

Totals = list[NDArray]
Visitor = Callable[[Iterable[Any]], Iterator[Any]]


def _sum(task: FoldTask, totals: Iterable[Totals]) -> Totals:
    return functools.reduce(added, totals, task.zero())


class Threads:
    """Visits parts in as many threads as the process may use cores, BLAS with one thread each.

    - `most`: The largest number of threads; None for the cores that affinity, control group and
      ``OMP_NUM_THREADS`` allow.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most

    def map_add(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the sum of ``task(part)`` over the parts; each thread adds up its own."""
        cores = usable_cores() if self.most is None else self.most
        threads = max(1, min(cores, len(parts)))
        waiting = iter(parts)  # `next` of a list's iterator is atomic

        def work(_: int, stop: threading.Event) -> Totals:
            mine = itertools.takewhile(lambda part: not stop.is_set(), waiting)
            return _sum(task, map(task, mine))

        return functools.reduce(added, in_threads(work, threads))


# --- dask -----------------------------------------------------------------------------------------


def _visit(task: FoldTask, number: int, handle: Any, wanted: Any) -> Totals:
    return task(Part(number, handle, wanted))


class Dask:
    """Visits parts by the current client of dask, or by its default scheduler."""

    remote = True

    def map_add(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the sum of ``task(part)`` over the parts; what a lost worker did is done again."""
        delayed = import_module("dask").delayed
        public = delayed(task, pure=False)
        visit, add = delayed(_visit, pure=False), delayed(_sum, pure=False)
        totals = [visit(public, *part) for part in parts]
        while len(totals) > 1:
            groups = range(0, len(totals), _DASK_GROUP)
            totals = [add(public, totals[i : i + _DASK_GROUP]) for i in groups]
        return totals[0].compute() if totals else task.zero()

    def fetched(self, reader: Any, number: int, handle: Any, columns: Sequence[str]) -> Any:
        """Yield batches of one part in this process."""
        (part,) = import_module("dask").compute(handle)
        yield from reader(part)


# --- Spark ----------------------------------------------------------------------------------------


class Spark:
    """Visits the partitions of one frame."""

    remote = True
    takes_pairs = False  # partitions of two frames have nothing to do with each other

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def map_add(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the sum of the totals of all partitions."""
        reads = task.form.reads
        names = tuple(self.frame.columns) if reads is None else reads
        # `mapInArrow` does not find columns that have a dot in their name.
        frame = self.frame.select(*map(_quoted, names)).toDF(*(f"c{j}" for j in range(len(names))))
        return _collected(frame.mapInArrow(_visitor(task, parts, names), _SCHEMA), task, len(parts))

    def fetched(self, reader: Any, number: int, handle: Any, columns: Sequence[str]) -> Any:
        """Yield the rows of all partitions with the first: Spark hands them over together."""
        if number == 0:
            yield self.frame.select(*map(_quoted, columns)).toArrow()


class SparkFiles:
    """Visits parts that every worker can read, such as row groups of files, by the active session.

    Rows go from the file to the Python worker; those of a frame go through the Java runtime first.
    """

    remote = True

    def map_add(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the sum of ``task(part)`` over the parts; each Spark task takes some of them."""
        session = active_session()
        cores = session.sparkContext.defaultParallelism
        n = max(1, min(len(parts), _TASKS_PER_CORE * cores))
        numbers = session.range(0, len(parts), 1, n)
        return _collected(numbers.mapInArrow(_reader(task, parts), _SCHEMA), task, n)


def active_session() -> Any:
    """Return the active session of Spark; ValueError if there is none."""
    session = import_module("pyspark.sql").SparkSession.getActiveSession()
    if session is None:
        raise ValueError("engine='spark' needs an active session of Spark; start one before")
    return session


def _collected(frame: Any, task: FoldTask, n: int) -> Totals:
    """Return the sum of the totals in a frame of n partitions."""
    if n > _SPARK_PARTITIONS:
        frame = frame.repartition(math.isqrt(n)).mapInArrow(_adder(task), _SCHEMA)
    return _sum(task, [pickle.loads(row[0]) for row in frame.collect()])


def _quoted(name: str) -> str:
    """Return the name of a column as Spark reads it, where it may contain dots."""
    return "`" + str(name).replace("`", "``") + "`"


def _batch(totals: Totals) -> Any:
    arrow = import_module("pyarrow")
    return arrow.RecordBatch.from_arrays([arrow.array([pickle.dumps(totals)])], names=["totals"])


def _visitor(task: FoldTask, parts: Sequence[Part], names: tuple[str, ...]) -> Visitor:
    """Return the function by which a Python worker reads the batches of its partition."""
    wanted = {part.number: part.wanted for part in parts}
    some = any(rows is not None for rows in wanted.values())
    none = np.zeros(0, dtype=np.int64) if some else None

    def visit(batches: Iterable[Any]) -> Iterator[Any]:
        number = import_module("pyspark").TaskContext.get().partitionId()
        renamed = import_module("pyarrow").RecordBatch.from_arrays
        named = (renamed(batch.columns, names=list(names)) for batch in batches)
        yield _batch(task(Part(number, None, wanted.get(number, none)), named))

    return visit


def _reader(task: FoldTask, parts: Sequence[Part]) -> Visitor:
    """Return the function by which a Python worker visits the parts whose numbers it gets."""

    def visit(batches: Iterable[Any]) -> Iterator[Any]:
        numbers = (number.as_py() for batch in batches for number in batch.column(0))
        yield _batch(_sum(task, (task(parts[number]) for number in numbers)))

    return visit


def _adder(task: FoldTask) -> Visitor:
    """Return the function by which a Python worker adds up the totals of several partitions."""

    def add(batches: Iterable[Any]) -> Iterator[Any]:
        cells = (cell.as_py() for batch in batches for cell in batch.column(0))
        yield _batch(_sum(task, map(pickle.loads, cells)))

    return add


# --- tables in parts -----------------------------------------------------------------------------


@shared_texts
def from_arrays(parts: Iterable[Any], *, columns: Any = None) -> Source:
    """Return a table in parts of arrays or tables in memory.

    Parameters
    ----------
    parts : iterable of array-likes of shape (n_samples, n_features)
        At least one numpy array (or memory map) or table of pandas, polars or pyarrow. Parts may
        have different types, and may be empty.
    columns : sequence of str, default=None
        For tables, the columns to read, in this order; None: all columns.

    Raises
    ------
    TypeError
        If a part is neither an array nor a table.

    Notes
    -----
    **Privacy.** A source costs nothing; the fit that reads it does.

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
    return Source(tables, itself, Threads(), tuple(map(_head, tables)), names_of(columns))


def _head(table: Any) -> Any:
    """Return a table without its rows; ValueError if its parts contradict each other."""
    own = sound(table, "parts")
    text = f"parts must be arrays or tables of shape (n, d), got {type(table).__name__}"
    if not hasattr(table, "shape") or hasattr(table, "tocsr"):  # the latter is sparse
        raise TypeError(text)
    return or_raise(lambda: cut(own, 0, 0), lambda: TypeError(text))


@shared_texts
def read_parquet(paths: Any, *, columns: Any = None, engine: str = "threads") -> Source:
    """Return a table in parts from Parquet files, one part for each row group; needs pyarrow.

    Parameters
    ----------
    paths : str, path or sequence of them
        Files, folders (all ``*.parquet`` files in them) or name patterns.
    columns : sequence of str, default=None
        The columns to read, in this order; None: all columns of the first file.
    engine : {"threads", "dask", "spark"}, default="threads"
        What reads the parts: threads of this process, the workers of the current dask client, or
        the Python workers of the active Spark session. Workers must see the files under the same
        paths. Spark's workers read them without its Java runtime, which is much faster than
        `from_spark`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the engine is unknown, or for Spark without an active session. If a later file has other
        columns (of those that are read) than the first, in another order, or of other types.

    Notes
    -----
    **Privacy.** A source costs nothing; the fit that reads it does. The number and the names of
    files, of row groups and of columns are taken as public.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.engines import read_parquet
    >>> flights = read_parquet("flights/*.parquet", columns=["dep_delay"])  # doctest: +SKIP
    >>> DPPCA(delta=1e-6).fit(flights)  # doctest: +SKIP
    """
    if engine not in ("threads", "dask", "spark"):
        raise ValueError(f"engine must be 'threads', 'dask' or 'spark', got {engine!r}")
    parquet = needed("pyarrow.parquet", "parquet")
    names = names_of(columns)
    handles, heads = [], []
    for path in files_at(paths):
        with parquet.ParquetFile(path) as file:
            head = file.schema_arrow.remove_metadata().empty_table()
            names = tuple(head.column_names) if names is None else names
            heads.append(head)
            handles += [(path, group) for group in range(file.num_row_groups)]
    check_same(heads, names if columns is not None else None)
    where: Any = Threads()
    if engine == "dask":
        where = Dask()
    elif engine == "spark":
        active_session()
        where = SparkFiles()
    return Source(tuple(handles), ParquetReader(names), where, tuple(heads), names)


@shared_texts
def from_stream(open_reader: Callable[[], Any], *, columns: Any = None) -> Source:
    """Return a table with one part, which is streamed as often as needed; needs pyarrow.

    Parameters
    ----------
    open_reader : callable
        Function without arguments that returns a new ``pyarrow.RecordBatchReader``, or an object
        with the Arrow stream interface (a DuckDB relation, a polars frame, a scanner of a pyarrow
        dataset). It must return the same rows each time, in any order.
    columns : sequence of str, default=None
        The columns to read, in this order; None: all columns.

    Raises
    ------
    TypeError
        If `open_reader` is not callable; a reader itself could be read only once.

    Notes
    -----
    **Privacy.** A source costs nothing; the fit that reads it does. The unit of privacy is a row of
    the stream. If the query behind it does not map each row by itself (a join, DISTINCT, LIMIT, a
    sample, an aggregate), one row of its table may change many rows of the stream.

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
    needed("pyarrow", "parquet")
    head = or_raise(
        lambda: _schema_of(open_reader()).empty_table(),
        lambda: TypeError(
            "open_reader must return an Arrow reader, or an iterable of one or more record "
            "batches, and it did not, or failed. Call it yourself to see why"
        ),
    )
    return Source((None,), StreamReader(open_reader), Threads(), (head,), names_of(columns))


def _schema_of(stream: Any) -> Any:
    """Return the Arrow schema of a stream that has been opened, and close it."""
    arrow = needed("pyarrow", "parquet")
    if isinstance(stream, arrow.RecordBatchReader):
        schema = stream.schema
        stream.close()
        return schema
    if hasattr(stream, "__arrow_c_stream__"):
        return _schema_of(arrow.RecordBatchReader.from_stream(stream))
    return next(batches_of(stream)).schema


@shared_texts
def from_dask(frame: Any) -> Source:
    """Return a table from the partitions of a dask frame, series or array, read by its workers.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame, dask.dataframe.Series or dask.array.Array
        Chunks of an array are joined across columns. The collection is computed again for every
        pass over the rows: persist it if that is expensive.

    Raises
    ------
    TypeError
        If it is not a dask collection.

    Notes
    -----
    **Privacy.** A source costs nothing; the fit that reads it does. Workers and scheduler see exact
    totals, which they may spill, log or show on a dashboard: they must be trusted. If earlier steps
    do not map each row by itself (drop_duplicates, merge, a sample), one row of their table may
    change many rows of this one.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.engines import from_dask
    >>> import dask.dataframe as dd  # doctest: +SKIP
    >>> DPPCA(delta=1e-6).fit(from_dask(dd.read_parquet("flights")))  # doctest: +SKIP
    """
    if not (hasattr(frame, "to_delayed") and hasattr(frame, "_meta")):
        raise TypeError(f"frame must be a frame or an array of dask, got {type(frame).__name__}")
    if not hasattr(frame, "chunks"):
        return Source(tuple(frame.to_delayed()), itself, Dask(), (frame._meta,))
    if frame.ndim == 2:
        frame = frame.rechunk({1: -1})
    handles = tuple(frame.to_delayed().ravel())
    head = np.empty((0, *frame.shape[1:]), dtype=frame.dtype)
    return Source(handles, itself, Dask(), (head,))


def from_spark(frame: Any) -> Source:
    """Return a table from the partitions of a Spark frame, read by its Python workers.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        A frame with columns that Arrow supports. It is computed again for every pass over the rows:
        cache it if that is expensive. skdp and pyarrow must be installed where the workers run.

    Returns
    -------
    source : Source
        Name a target by its column.

    Raises
    ------
    TypeError
        If it is not a Spark frame.

    Notes
    -----
    **Privacy.** A source costs nothing; the fit that reads it does. Executors see exact totals, and
    shuffle files and spills contain them: executors, and whoever can read these files, must be
    trusted. If earlier steps do not map each row by itself (dropDuplicates, limit, join, sample),
    one row of their table may change many rows of this one.

    Examples
    --------
    >>> from skdp import DPStandardScaler
    >>> from skdp.engines import from_spark
    >>> frame = spark.read.parquet("flights")  # doctest: +SKIP
    >>> DPStandardScaler(bounds=(-60, 600)).fit(from_spark(frame))  # doctest: +SKIP
    """
    if not hasattr(frame, "mapInArrow"):
        raise TypeError(f"frame must be a DataFrame of Spark, got {type(frame).__name__}")
    types = needed("pyspark.sql.pandas.types", "spark")
    head = types.to_arrow_schema(frame.schema).empty_table()
    handles = (None,) * frame.rdd.getNumPartitions()
    return Source(handles, itself, Spark(frame), (head,))
