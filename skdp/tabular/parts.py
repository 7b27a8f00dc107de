"""Private rows in parts (`skdp.engines`): checked by one pass, then folded where each part lies.

A batch of a part becomes rows as a table in memory does (`Form`). The same closures add up its
chunks, so the totals are the same integers. A part is sent a task: a reader, a form and public
closures, never a session, a seed or a budget. It sends back totals, its number of rows and whether
it could be read.

Guarantee: nothing in a part makes a task raise, because the text could quote a cell. If a part
cannot be read, or has other rows than those that were checked, one fixed text is raised. Nothing is
released then, and what was charged stays charged.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import importlib.metadata
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skdp._config import noise_is_seeded
from skdp._docstrings import shared_texts
from skdp._version import __version__
from skdp.core.table import _chunk_rows, added, fold_span
from skdp.exceptions import PrivacyLeakError, SourceError
from skdp.tabular.containers import (
    checked,
    column_names,
    column_types,
    cut,
    is_frame,
    is_sliced_table,
    listed,
)

Totals = list[NDArray]

# --- sources and readers --------------------------------------------------------------------------

_BATCH_ROWS = 2**16


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


@shared_texts
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


def files_at(paths: Any) -> list[str]:
    """Return the Parquet files that paths, folders and patterns name, in order."""
    single = isinstance(paths, str | os.PathLike)
    names: list[str] = []
    for path in map(os.fspath, [paths] if single else paths):
        if os.path.isdir(path):
            files = sorted(glob.glob(os.path.join(glob.escape(path), "*.parquet")))
        elif os.path.exists(path):
            files = [path]
        else:
            files = sorted(glob.glob(path))
        if not files:
            raise FileNotFoundError(f"no Parquet file at {path!r}")
        names += files
    if not names:
        raise FileNotFoundError("paths must name at least one Parquet file")
    return names


def check_same(heads: list[Any], columns: tuple[Any, ...] | None) -> None:
    """Raise if a file has other columns than the first: names, order and types."""
    schemas = [head.schema for head in heads]
    if columns is not None:  # those that are missing are named later
        known = [name for name in columns if all(name in schema.names for schema in schemas)]
        schemas = [[schema.field(name).type for name in known] for schema in schemas]
    if any(schema != schemas[0] for schema in schemas):
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
        status = os.stat(path)
        state = status.st_ino, status.st_size, status.st_mtime_ns
        parquet = needed("pyarrow.parquet", "parquet")
        columns = None if self.columns is None else list(self.columns)
        # The engine has threads already. No memory map: the process would end if the file were cut
        # while it is read.
        with parquet.ParquetFile(path, metadata=_footer(path, state)) as file:
            yield from file.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False
            )


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


# --- how batches become rows ----------------------------------------------------------------------


class Pair(NamedTuple):
    """Rows of X and of y, where both are in parts; y is None if their numbers of rows differ."""

    X: Any
    y: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the longer side."""
        return (len_of(self.X if self.y is None else self.y),)


@dataclass(frozen=True)
class Form:
    """How a batch becomes rows; its fields are public. Subclasses stand beside their checks."""

    columns: tuple[Any, ...] | None  # names of the columns of X; None for all
    n_columns: int
    problems: tuple[tuple[type[Exception], str], ...]  # of several, the first is raised
    target: Any = None  # column of the target; of a `Pair`, the columns of y
    has_target: bool = False
    read: str = "chunk"  # the method of the rows that returns all that is private about them
    targets: int = 0  # number of columns of a chunk that are not in X

    def check(self, batch: Any) -> tuple[Any, set[int]]:
        """Return a batch as rows (None if that is impossible), and which `problems` it has."""
        raise NotImplementedError

    @property
    def reads(self) -> tuple[Any, ...] | None:
        """Names of the columns that are read, including the target; None for all."""
        if self.columns is None or not self.has_target:
            return self.columns
        return (*self.columns, self.target)

    def sides(self, batch: Any) -> tuple[Any, Any]:
        """Return X and the target of a batch; the target is None if its rows are not as many."""
        if isinstance(batch, Pair):
            if batch.y is None:
                return batch.X, None
            return self._chosen(batch.X), chosen(batch.y, self.target)
        batch = chosen(batch, None)
        return self._chosen(batch), chosen(batch, (self.target,)) if self.has_target else None

    def _chosen(self, batch: Any) -> Any:
        X = chosen(batch, self.columns)
        if (X.shape[1] if len(X.shape) > 1 else 1) != self.n_columns:
            raise ValueError("another number of columns")
        return X

    def add_hashes(self, chunk: Any, totals: Totals) -> None:
        """Add up hashes of rows, which key seeded noise and nothing else."""
        totals[0] += row_hashes(*chunk) if isinstance(chunk, tuple) else row_hashes(chunk)


def chosen(batch: Any, columns: tuple[Any, ...] | None) -> Any:
    """Return some columns of a batch as a table of its own kind; an array as it is."""
    if type(batch).__name__ == "RecordBatch":  # which is no table to the readers of tables
        batch = import_module("pyarrow").Table.from_batches([batch])
    if columns is None or not hasattr(batch, "columns"):
        return batch
    if is_frame(batch):
        return batch.loc[:, list(columns)]
    return batch.select(list(columns))


def schema_of(batch: Any, columns: tuple[Any, ...] | None) -> Any:
    """Return the names and types of some columns of a batch, or the type of an array."""
    table = chosen(batch, columns)
    if (names := names_in(table)) is None:
        return str(getattr(table, "dtype", None))
    return tuple(map(str, names)), tuple(map(str, column_types(table)))


def names_in(table: Any) -> tuple[Any, ...] | None:
    """Return the column names of a table; None for an array."""
    return column_names(table) if is_frame(table) or is_sliced_table(table) else None


def len_of(batch: Any) -> int:
    """Return the number of rows of a batch; 0 for None."""
    if batch is None:
        return 0
    return int(batch.shape[0] if hasattr(batch, "shape") else len(batch))


# --- tasks ---------------------------------------------------------------------------------------

AT_A_TIME = 2**20  # rows of a part whose totals are added up before they may be widened
# The last total of every task has these numbers: rows, whether the part failed or is read by
# another skdp, and a checksum of where rows lie.
_ROWS, _FAILED, _SKEW, _PLACES = range(4)


def _place(number: int) -> int:
    """Return what a row of a part adds to the checksum: 1 to 2**20.

    Rows that moved from a part to another change the sum, but for one case in a million.
    """
    return 1 + (number * 0x9E3779B1 >> 3) % 2**20


@functools.cache
def _versions() -> tuple[str | None, ...]:
    """Return the versions that must be the same wherever rows are read: a model may be, too."""
    return __version__, *map(_version_of, ("numpy", "scipy", "scikit-learn", "pandas", "pyarrow"))


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class FoldTask:
    """Adds up what `add` makes of the chunks of a part."""

    reader: Callable[[Any], Iterable[Any]]
    form: Form
    add: Callable[..., Any]
    fresh: Callable[[], Totals]
    schemas: frozenset[Any] | None  # a batch must have one of them; None: any
    width: int = 1
    least: int = 256
    read: str = "chunk"
    image: str | None = None  # hash of what `add` makes of public rows where noise is drawn
    versions: tuple[str | None, ...] | None = None

    @classmethod
    def of(cls, source: Source, form: Form, add: Any, fresh: Any, **options: Any) -> FoldTask:
        """Return the task for a table in parts: batches have a schema that a part had."""
        schemas = None
        if not isinstance(source.reader, Joined):
            schemas = frozenset(schema_of(head, form.reads) for head in source.heads)
        return cls(source.reader, form, add, fresh, schemas, **options)

    def _image(self) -> str:
        """Return a hash of what `add` makes of public rows, before it is handed private ones."""
        # Machines or versions that compute otherwise differ here, before they see private rows.
        columns = self.form.n_columns
        chunk = np.linspace(-1.5, 2.0, 3 * (columns + self.form.targets)).reshape(3, -1)
        codes = np.zeros((3, columns), dtype=np.int64)
        probe: Any = {"labelled": (chunk, codes[:, 0]), "codes": codes}.get(self.read, chunk)
        totals = self.fresh()
        try:
            with np.errstate(all="ignore"):
                self._add_probe(probe, totals)
        except Exception:  # noqa: BLE001  `add` takes no such rows: nothing is compared
            return ""
        text = repr([total.tolist() for total in totals])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _add_probe(self, probe: Any, totals: Totals) -> None:
        self.add(probe, totals)

    def _is_skewed(self) -> bool:
        """Say whether another skdp, or another machine's arithmetic, would add up other numbers."""
        if self.versions is not None and self.versions != _versions():
            return True
        return self.image is not None and self.image != self._image()

    def zero(self) -> Totals:
        """Return the totals of no rows."""
        return [*self.fresh(), np.zeros(4, dtype=np.int64)]

    def __call__(self, part: Part, batches: Iterable[Any] | None = None) -> Totals:
        """Return the totals of a part; if it cannot be read, zeros and a mark.

        The engine may have read the batches.
        """
        totals = self.zero()
        try:
            if self._is_skewed():
                totals[-1][_SKEW] = 1
                return totals
            batches = self.reader(part.handle) if batches is None else batches
            return self._over(part, filter(len_of, map(self._checked, batches)))
        except Exception:  # noqa: BLE001  its text may quote a cell
            totals[-1][_FAILED] = 1
            return totals

    def _checked(self, batch: Any) -> Any:
        """Return a batch that is sound, and whose columns have the types that were checked."""
        batch = checked(batch)
        X = getattr(batch, "X", batch)  # of a pair
        schemas, reads = self.schemas, self.form.reads
        if schemas is not None and len_of(X) and schema_of(X, reads) not in schemas:
            raise TypeError("columns of other types")
        return batch

    def _spans(self, batches: Iterable[Any]) -> Iterator[tuple[Any, tuple[int, int]]]:
        """Yield the rows of each batch with each of their chunks."""
        for batch in batches:
            rows, _ = self.form.check(batch)  # None, which has no spans: not as it was checked
            for span in rows.spans(width=self.width, least=self.least):
                yield rows, span

    def _over(self, part: Part, batches: Iterable[Any]) -> Totals:
        # So few rows at a time that 64 bits hold their totals (`total_dtype`); `added` widens sums.
        totals, now = None, self.zero()
        waiting = 0
        for rows, span in self._spans(batches):
            size = span[1] - span[0]
            if waiting + size > AT_A_TIME:
                totals, now = now if totals is None else added(totals, now), self.zero()
                waiting = 0
            fold_span(rows, span, self.add, now[:-1], self.read)
            now[-1][_ROWS] += size
            now[-1][_PLACES] += size * _place(part.number)
            waiting += size
        return now if totals is None else added(totals, now)


@dataclass(frozen=True)
class GatherTask(FoldTask):
    """Brings back what `add`, a map of chunks to an array with a row each, makes of wanted rows."""

    def _add_probe(self, probe: Any, totals: Totals) -> None:
        totals[0][0] = self.add(probe).tolist()

    def _over(self, part: Part, batches: Iterable[Any]) -> Totals:
        totals, n = self.zero(), 0
        pieces: list[tuple[int, int, NDArray]] = []
        for rows, span in self._spans(batches):
            chunk = getattr(rows, self.read)(*span)
            size = span[1] - span[0]
            if part.wanted is not None:
                a, b = np.searchsorted(part.wanted, [n, n + size])
                chunk = chunk[part.wanted[a:b] - n]
            if len(chunk):
                with np.errstate(all="ignore"):
                    pieces.append((part.number, n, self.add(chunk)))
            n += size
        totals[0][0] = pieces
        totals[-1][[_ROWS, _PLACES]] = n, n * _place(part.number)
        return totals


@dataclass(frozen=True)
class CheckTask(FoldTask):
    """Counts the rows of each part, and the parts that have a problem, by problem."""

    def zero(self) -> Totals:
        """Return hashes, sizes of parts, problems and the last total of no rows."""
        problems = np.zeros(len(self.form.problems), dtype=np.int64)
        return [*self.fresh(), *_no_pieces(), problems, np.zeros(4, dtype=np.int64)]

    def _over(self, part: Part, batches: Iterable[Any]) -> Totals:
        totals = self.zero()
        *hashes, sizes, problems, numbers = totals
        for batch in batches:
            rows, bad = self.form.check(batch)
            problems[sorted(bad)] = 1
            if rows is None:
                continue
            for span in rows.spans():
                if hashes and not bad:
                    fold_span(rows, span, self.add, hashes, self.read)
                numbers[_ROWS] += span[1] - span[0]
        sizes[0] = [(part.number, int(numbers[_ROWS]))]
        return totals


def _no_pieces() -> Totals:
    """Return a total that is an empty list; adding up joins lists."""
    pieces = np.empty(1, dtype=object)
    pieces[0] = []
    return [pieces]


_LANES = 4
_ODD = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64
)


def row_hashes(*columns: NDArray) -> NDArray[np.uint64]:
    """Return the sum of hashes of rows, modulo 2**64, one a lane; it keys seeded noise only."""
    table = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns]) + 0.0
    words = table.view(np.uint64)
    with np.errstate(all="ignore"):
        h = np.repeat(_ODD[None], len(words), axis=0)
        for column in words.T:
            h ^= column[:, None]
            h *= _ODD[::-1]
            h ^= h >> np.uint64(29)
            h *= _ODD
            h ^= h >> np.uint64(32)
        return h.sum(axis=0, dtype=np.uint64)


def _no_hashes() -> Totals:
    return [np.zeros(_LANES, dtype=np.uint64)]


# --- sources and rows ----------------------------------------------------------------------------

ONE_PLACE = "it needs all rows in one place"
NO_ROWS = "X has 0 sample(s) while a minimum of 1 is required."

_UNREADABLE = (
    "a part of X could not be read. Nothing was charged for this fit. Read the parts by "
    "themselves, where their rows may be shown, to see why."
)
_CHANGED = (
    "the parts of X could not be read again as they were checked: a part is gone, has another "
    "number of rows, or an engine failed. Nothing is released by this fit; what was charged stays "
    "charged."
)
_SKEWED = (
    "where the parts of X are read there is another version of skdp, numpy, scipy, scikit-learn, "
    "pandas or pyarrow than here, or a machine that computes otherwise. Nothing was "
    "charged for this fit. Install the same versions everywhere."
)


def is_parts(X: Any) -> bool:
    """Say whether X is a table in parts."""
    return isinstance(X, Source)


def refuse_parts(X: Any, estimator: str, one_place: str, *, name: str = "X") -> None:
    """Raise TypeError if X is in parts and `one_place` says why all rows must be in one place."""
    if one_place and is_parts(X):
        raise TypeError(
            f"{estimator} does not take {name} in parts: {one_place}. Give it an array or a table "
            "in memory, of all rows or of a sample that was drawn without looking at them."
        )


def heads_of(source: Source, without: Any = None) -> tuple[tuple[Any, ...] | None, list[Any]]:
    """Return the names of the columns of X, and X without rows as each part may have it.

    The column `without` is the target. ValueError if a part does not have all of these columns.
    """
    heads = [chosen(head, None) for head in source.heads]
    known = [names_in(head) for head in heads]
    columns = source.columns
    if columns is None and any(names != known[0] for names in known):
        columns = known[0]
    if (without is not None or columns is not None) and None in known:
        raise ValueError("X has parts without names of columns, so none can be named")
    if without is not None:
        columns = known[0] if columns is None else columns
        assert columns is not None
        if without not in columns:
            raise ValueError(
                f"y must be the name of a column of X, got {without!r}; X has {listed(columns)}. "
                "Where columns= were chosen, the target is one of them"
            )
        columns = tuple(name for name in columns if name != without)
    # The smallest missing name is reported, so that the order of a set does not show.
    wanted = set(columns or ()) | ({without} - {None})
    for names in known:
        if missing := wanted - set(names or ()) if wanted else None:
            name = min(map(repr, missing))
            raise ValueError(
                f"X must have the same columns in every part; {name} is missing in one, which has "
                f"{listed(names or ())}"
            )
    heads = [chosen(head, columns) for head in heads]
    if len({head.shape[1:] for head in heads}) > 1:
        raise ValueError("X must have the same number of columns in every part")
    return columns, heads


@dataclass(frozen=True)
class Joined:
    """Reads the parts of X and of y side by side."""

    X: Callable[[Any], Iterable[Any]]
    y: Callable[[Any], Iterable[Any]]

    def __call__(self, handle: tuple[Any, Any]) -> Iterator[Pair]:
        """Yield rows of X with their rows of y, batches cut to the shorter of both."""
        ys = filter(len_of, map(checked, self.y(handle[1])))
        y, at = None, 0
        for X in map(checked, self.X(handle[0])):
            X, start, size = chosen(X, None), 0, len_of(X)
            while start < size:
                if y is None or at == len_of(y):
                    y, at = chosen(next(ys, None), None), 0
                if y is None:
                    yield Pair(X, None)
                    return
                step = min(size - start, len_of(y) - at)
                yield Pair(cut(X, start, start + step), cut(y, at, at + step))
                start, at = start + step, at + step
        # Rows of y are left: report it, as the part cannot raise.
        if (y is not None and at < len_of(y)) or next(ys, None) is not None:
            yield Pair(np.zeros((1, 1)), None)


def with_target(
    X: Any, y: Any, name: str = "y"
) -> tuple[Source, tuple[Any, ...] | None, list[Any], Any, list[Any]]:
    """Return X with its target: the source, columns and heads of X, column and heads of y.

    TypeError or ValueError if y is neither in as many parts as X nor the name of a column of X.
    """
    if not is_parts(X):
        raise TypeError(f"{name} is in parts, so X must be in parts, too")
    if is_parts(y):
        if len(X.handles) != len(y.handles) or type(X.engine) is not type(y.engine):
            raise ValueError("y must be in as many parts as X, of the same engine")
        if not getattr(X.engine, "takes_pairs", True):
            raise TypeError("y must be the name of a column of X: this engine reads one table")
        handles = tuple(zip(X.handles, y.handles, strict=True))
        source = Source(handles, Joined(X.reader, y.reader), X.engine, X.heads, X.columns)
        return source, *heads_of(X), *heads_of(y)
    if hasattr(y, "__len__") and not isinstance(y, str | bytes | tuple):
        raise TypeError(
            f"{name} must be the name of a column of X or a table in parts, as X is in parts"
        )
    return X, *heads_of(X, without=y), y, [chosen(head, (y,)) for head in X.heads]


def checked_parts(
    source: Source,
    form: Form,
    head: Any,
    *,
    allow_empty: bool,
    filtered: bool = False,
    sizes: tuple[int, ...] | None = None,
) -> PartsRows:
    """Read all parts once, before any charge, and return the rows.

    `head` is X without rows, for what is public about it; `sizes` is of a domain that codes rows.
    Of several problems the first of `form.problems` is raised, wherever it is.
    """
    seeded = noise_is_seeded()
    hashes = _no_hashes if seeded else list
    task = CheckTask.of(source, form, form.add_hashes, hashes, read=form.read)
    totals = _visited(source, task, _parts_of(source))
    if totals is not None and totals[-1][_SKEW]:
        raise SourceError(_SKEWED)
    if totals is None or totals[-1][_FAILED]:
        raise SourceError(_UNREADABLE)
    for (kind, text), count in zip(form.problems, totals[-2], strict=True):
        if count:
            raise kind(text)
    n = int(totals[-1][_ROWS])
    if n == 0 and not allow_empty and not filtered:
        raise ValueError(NO_ROWS)
    lengths = dict(sorted(totals[-3][0]))
    return PartsRows(
        source, form, head, lengths, totals[0] if seeded else None, filtered=filtered, sizes=sizes
    )


def _parts_of(source: Source) -> list[Part]:
    return [Part(number, handle) for number, handle in enumerate(source.handles)]


def _visited(source: Source, task: FoldTask, parts: Sequence[Part]) -> Totals | None:
    """Return the totals of all parts, None if the engine failed, whatever it says."""
    try:
        if getattr(source.engine, "remote", False):
            # Another machine compares them with its own.
            task = replace(task, image=task._image(), versions=_versions())
        return source.engine.map_add(task, parts)
    except Exception:  # noqa: BLE001  its text may quote a cell
        return None


class PartsRows:
    """The private table in parts, checked; read by `fold` and `gather`.

    `head` is X without rows; `sizes` is of the domain that codes the rows, if there is one; the
    other attributes are as of `Rows` and `CodedRows`.
    """

    at_a_time = AT_A_TIME
    n_is_private = False
    units = None  # the unit is a row

    def __init__(
        self,
        source: Source,
        form: Form,
        head: Any,
        lengths: dict[int, int],
        hashes: NDArray | None,
        *,
        filtered: bool,
        sizes: tuple[int, ...] | None,
    ) -> None:
        self._source, self._form = source, form
        self._lengths, self._hashes = lengths, hashes
        self._n = sum(lengths.values())
        self.head, self.names = head, names_in(head)
        self.ranges = None  # parts may have other types than the first one
        self.n_features = int(head.shape[1]) + form.targets
        self.filtered, self.sizes = filtered, sizes
        self.kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"PartsRows(n_features={self.n_features})"

    def __reduce__(self) -> Any:
        raise PrivacyLeakError("private rows in parts do not travel; their parts do")

    def of_units(self, groups: Any, estimator: str, adjacency: str) -> NoReturn:
        """Raise TypeError: the rows of one user may lie in several parts."""
        raise TypeError(
            f"{estimator}: groups= needs all rows in one place, because those of one user may "
            "lie in several parts. Give X in memory."
        )

    def _refuse(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refuse to read rows elsewhere than where they lie."""
        raise PrivacyLeakError("rows in parts are read by fold only, and this reads them otherwise")

    spans = chunk = chunks = slices = labelled = codes = _refuse

    def spans_in_memory(self) -> list[tuple[int, int]]:
        """Return the (start, stop) of the chunks that the same rows would have in memory."""
        step = _chunk_rows(self.n_features)
        return [(i, min(i + step, self._n)) for i in range(0, self._n, step)]

    def digest(self) -> bytes:
        """Return a hash of the rows that does not depend on their order or on the parts."""
        if self._hashes is None:  # noise was not seeded when the rows were checked
            (self._hashes,) = self.fold(self._form.add_hashes, _no_hashes, read=self._form.read)
        head = repr((self._n, self.n_features)).encode()
        return hashlib.blake2b(head + self._hashes.tobytes(), digest_size=32).digest()

    def fold(
        self,
        add: Callable[[Any, Totals], None],
        fresh: Callable[[], Totals],
        *,
        width: int = 1,
        least: int = 256,
        read: str = "chunk",
    ) -> Totals:
        """Add up what `add` makes of the chunks of all parts; see `skdp.core.table.fold`."""
        options: Any = {"width": width, "least": least, "read": read}
        task = FoldTask.of(self._source, self._form, add, fresh, **options)
        return self._pass(task, _parts_of(self._source))

    def gather(
        self,
        take: Callable[[Any], NDArray],
        *,
        wanted: NDArray[np.int64] | None = None,
        read: str = "chunk",
    ) -> list[NDArray]:
        """Return what `take` makes of each row, in the order of the parts: in this process.

        The public function `take` maps a chunk to an array with a row for each of its rows;
        `wanted` are ascending positions among all rows, None for all of them.
        """
        parts, start = [], 0
        handles = dict(enumerate(self._source.handles))
        for number, size in self._lengths.items():
            own = None
            if wanted is not None:
                a, b = np.searchsorted(wanted, [start, start + size])
                own = wanted[a:b] - start
            parts.append(Part(number, handles.get(number), own))
            start += size
        task = GatherTask.of(self._source, self._form, take, _no_pieces, read=read)
        (pieces,) = self._pass(task, parts)
        images = [image for _, _, image in sorted(pieces[0], key=lambda piece: piece[:2])]
        if sum(map(len, images)) != (self._n if wanted is None else len(wanted)):
            raise SourceError(_CHANGED)
        return images

    def _pass(self, task: FoldTask, parts: Sequence[Part]) -> Totals:
        """Return the totals of a pass; SourceError if its rows are not those of the check."""
        totals = _visited(self._source, task, parts)
        if totals is None or totals[-1][_FAILED] or totals[-1][_SKEW]:
            raise SourceError(_CHANGED)
        places = sum(size * _place(number) for number, size in self._lengths.items())
        if (totals[-1][_ROWS], totals[-1][_PLACES]) != (self._n, places):
            raise SourceError(_CHANGED)
        return totals[:-1]
