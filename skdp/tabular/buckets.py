"""Buckets of whole units, made of rows that come in batches.

Rows are collected before any charge. Up to `MOST_IN_MEMORY` rows are one bucket in memory. Larger
tables have `BUCKETS` buckets in a temporary folder that only this user may read, and one bucket is
in memory at a time. A hash of the unit's id decides the bucket of a row, so all rows of a unit are
in one bucket. The folder is removed when the table is closed, or when anything fails.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exceptions import SourceError
from skdp.tabular.cells import identity
from skdp.tabular.columns import ColumnType, coded, coded_ids, numbers_of, values_of
from skdp.tabular.contributions import Bucket, mixed_words
from skdp.tabular.terms import Ints
from skdp.user_code import or_raise

__all__ = ["BUCKETS", "MOST_IN_MEMORY", "Collected", "SpillError", "combined"]

MOST_IN_MEMORY = 2**24  # rows
BUCKETS = 64
_TOGETHER = 2**20  # rows that are coded at a time
_GONE = (
    "the temporary files of the table could not be read again. Nothing is released by this fit; "
    "what was charged stays charged."
)
_FULL = (
    "the table has more rows than are held in memory, and its temporary files could not be written "
    "(the disk may be full; TMPDIR says where they lie). Nothing was charged for this fit."
)
_PAIRS = ("start", "unit", "key", "rows", "words")


class SpillError(SourceError):
    """Temporary files could not be written."""


class _Columns(Mapping[str, NDArray[np.float64]]):
    """Columns of numbers in files, each read when it is asked for."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self._path, self._names = path, names

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return _loaded(self._path / f"v{self._names.index(name)}.npy")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _loaded(path: Path) -> NDArray:
    found: NDArray = or_raise(lambda: np.load(path), lambda: SourceError(_GONE))
    return found


def _with_ids(rows: Any, codes: Ints) -> tuple[Any, Ints]:
    """Return the rows that have an id, and their codes; an infinite date is no id."""
    known = codes >= 0
    return (rows if known.all() else rows.filter(known)), codes[known]


def _removed(folder: str, process: int) -> None:
    if os.getpid() == process:  # a fork that ends leaves the table to its parent
        shutil.rmtree(folder, ignore_errors=True)


def combined(parts: list[tuple[Ints, list[Any]]], dropna: bool) -> tuple[Ints, list[Any]]:
    """Return the code of each row's key, -1 for rows that are left out, and the distinct keys.

    Parameters
    ----------
    parts : list of (codes, values)
        One for each key column. Keys of several columns are tuples.
    dropna : bool
        Whether rows with a missing key are left out; else None is a key.
    """
    if not dropna:
        parts = [
            (np.where(codes < 0, len(values), codes), [*values, None]) for codes, values in parts
        ]
    code, values = parts[0]
    gone = code < 0
    for codes, own in parts[1:]:
        gone = gone | (codes < 0)
        code = code * (len(own) + 1) + codes
        code = np.unique(code, return_inverse=True)[1].reshape(-1)
    if gone.any():
        code = np.where(gone, -1, code)
    rows = np.bincount(code[~gone])  # a category may have no row
    used = np.flatnonzero(rows)
    if used.size < rows.size:
        place = np.cumsum(rows > 0) - 1
        code = np.where(gone, -1, np.append(place, -1)[code])
    if len(parts) == 1:
        return code, [values[i] for i in used.tolist()]
    first = np.zeros(used.size, dtype=np.int64)
    first[code[~gone][::-1]] = np.flatnonzero(~gone)[::-1]
    cells = [[own[i] for i in codes[first].tolist()] for codes, own in parts]
    return code, list(zip(*cells, strict=True))


class Collected:
    """Collects batches of rows and sorts them into buckets; leaves out rows without an id or a key.

    Parameters
    ----------
    unit : ColumnType or None
        Type of the ids, the first column of each batch; None if each row is a unit.
    by : list of (ColumnType, ColumnType)
        Types of the key columns, which come next: in the table, and of the keys.
    columns : dict of ColumnType
        Types of the columns of numbers, which come last.
    dropna : bool
        Whether rows with a missing key are left out; else None is a key.

    Attributes
    ----------
    n : int
        The number of rows, including those that are left out.
    keys : list
        The number of a key is its place in this list.
    """

    def __init__(
        self,
        unit: ColumnType | None,
        by: list[tuple[ColumnType, ColumnType]],
        columns: dict[str, ColumnType],
        dropna: bool = True,
    ) -> None:
        self.n, self._uncoded = 0, 0
        self._unit, self._by, self._dropna = unit, by, dropna
        self._columns, self._types = list(columns), list(columns.values())
        self._places: dict[Any, int] = {}
        self.keys: list[Any] = []
        self._waiting: list[Any] = []
        self._pieces: list[Any] = []  # ids, numbers of keys, values: as Arrow tables
        self._writers: list[Any] = []
        self._made: list[Bucket] = []
        self._folder: Path | None = None
        self._filled: list[Path] = []  # of a folder's buckets, those that have rows
        self._remove: Callable[[], Any] | None = None

    def add(self, batch: Any) -> None:
        """Add a batch: an Arrow table of ids, keys and numbers."""
        self.n += batch.num_rows
        self._uncoded += batch.num_rows
        self._waiting.append(batch)
        if self._uncoded >= _TOGETHER:
            self._code()

    def _code(self) -> None:
        """Replace the keys of the waiting rows by their numbers."""
        pa = import_module("pyarrow")
        table = pa.concat_tables(self._waiting)
        columns = table.columns
        if self._unit is None:
            ids = pa.array(np.arange(self.n - table.num_rows, self.n))
        else:
            ids, *columns = columns
            ids = values_of(ids)
        self._waiting, self._uncoded = [], 0
        parts = [
            coded(column, kind, own) for column, (own, kind) in zip(columns, self._by, strict=False)
        ]
        code, values = combined(parts, self._dropna)
        to = [self._place(value) for value in values]
        code = np.array([*to, -1], dtype=np.int64)[code]
        numbers = [
            numbers_of(column, kind)
            for column, kind in zip(columns[len(parts) :], self._types, strict=True)
        ]
        names = ["id", "key", *(f"v{i}" for i in range(len(numbers)))]
        piece = pa.table([ids, code, *numbers], names=names)
        missing = import_module("pyarrow.compute").is_null(ids, nan_is_null=True)
        left = (code >= 0) & ~np.asarray(missing)
        self._pieces.append(piece if left.all() else piece.filter(pa.array(left)))
        if self.n > MOST_IN_MEMORY:
            or_raise(self._spill, lambda: SpillError(_FULL))

    @property
    def _id_type(self) -> ColumnType:
        return ColumnType("integer") if self._unit is None else self._unit

    def _place(self, key: Any) -> int:
        """Return the number of a key."""
        place = self._places.setdefault(identity(key), len(self.keys))
        if place == len(self.keys):
            self.keys.append(key)
        return place

    def _spill(self) -> None:
        """Write coded rows to the files of their buckets."""
        pa = import_module("pyarrow")
        if self._folder is None:
            folder = tempfile.mkdtemp(prefix="skdp-")
            self._folder = Path(folder)
            self._remove = weakref.finalize(self, _removed, folder, os.getpid())
            schema = self._pieces[0].schema
            paths = [self._folder / f"{b}.arrow" for b in range(BUCKETS)]
            self._writers = [pa.ipc.new_stream(str(path), schema) for path in paths]
        for piece in self._pieces:
            codes, words = coded_ids(piece.column("id"), self._id_type)
            piece, codes = _with_ids(piece, codes)
            own = mixed_words(words, np.zeros(1, dtype=np.int64), 0) >> np.uint64(40)
            bucket = (own % np.uint64(BUCKETS)).astype(np.uint8)[codes]
            order = np.argsort(bucket, kind="stable")
            ends = np.searchsorted(bucket[order], np.arange(BUCKETS + 1))
            for b, writer in enumerate(self._writers):
                rows = order[ends[b] : ends[b + 1]]
                if rows.size:
                    writer.write_table(piece.take(pa.array(rows)))
        self._pieces = []

    def finish(self) -> None:
        """Make the buckets, after the last batch."""
        pa = import_module("pyarrow")
        if self._waiting:
            self._code()
        if self._folder is not None:
            or_raise(self._sort, lambda: SpillError(_FULL))
        elif self._pieces:
            self._made = self._bucket(pa.concat_tables(self._pieces)).blocks()
        self._pieces = []

    def _sort(self) -> None:
        """Sort the rows in the files of the buckets."""
        pa = import_module("pyarrow")
        assert self._folder is not None
        for b, writer in enumerate(self._writers):
            writer.close()
            path = self._folder / f"{b}.arrow"
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                rows = reader.read_all()
            path.unlink()
            if rows.num_rows:
                bucket, folder = self._bucket(rows), self._folder / str(b)
                folder.mkdir()
                self._filled.append(folder)
                for name in _PAIRS:
                    np.save(folder / f"{name}.npy", getattr(bucket, name))
                for i, name in enumerate(self._columns):
                    np.save(folder / f"v{i}.npy", bucket.columns[name])
        self._writers = []

    def _bucket(self, rows: Any) -> Bucket:
        """Return the bucket of coded rows."""
        units, words = coded_ids(rows.column("id"), self._id_type)
        rows, units = _with_ids(rows, units)
        values: dict[str, NDArray[np.float64]] = {
            name: np.asarray(rows.column(f"v{i}")) for i, name in enumerate(self._columns)
        }
        keys: Ints = np.asarray(rows.column("key"))
        return Bucket.of_rows(units, keys, words, values)

    def buckets(self) -> Iterator[Bucket]:
        """Yield all buckets."""
        yield from self._made
        for folder in self._filled:
            start, unit, key, rows, words = (_loaded(folder / f"{name}.npy") for name in _PAIRS)
            yield Bucket(start, unit, key, rows, words, _Columns(folder, self._columns))

    def close(self) -> None:
        """Remove the folder, if there is one."""
        for writer in self._writers:
            with contextlib.suppress(Exception):
                writer.close()
        if self._remove is not None:
            self._remove()
