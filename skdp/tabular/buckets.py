"""Buckets of whole units, made of rows that come in batches: in memory, or in a temporary folder.

Nothing is released here. Rows are collected before any charge. Up to `MOST_IN_MEMORY` rows are one
bucket in memory. Of more, each row goes to one of `BUCKETS` buckets by a hash of its unit's id, so
that all rows of a unit are in one; buckets lie in a folder that only this user may read, and one is
in memory at a time. The folder is removed when the table is closed, and where anything fails.
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
from skdp.tabular.columns import Kinds, coded_ids, coded_keys, has_missing, numbers_of, values_of
from skdp.tabular.contributions import Bucket, mixed_words
from skdp.tabular.terms import Ints
from skdp.user_code import or_raise

__all__ = ["BUCKETS", "MOST_IN_MEMORY", "Collected", "SpillError"]

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


def _removed(folder: str, process: int) -> None:
    if os.getpid() == process:  # and not a fork, at whose end the table is still read
        shutil.rmtree(folder, ignore_errors=True)


def _combined(parts: list[tuple[Ints, list[Any]]]) -> tuple[Ints, list[Any]]:
    """Return the code of each row and the distinct keys; of several columns, keys are tuples."""
    code, values = parts[0]
    if len(parts) == 1:
        return code, values
    for codes, own in parts[1:]:
        code = np.unique(code * len(own) + codes, return_inverse=True)[1]
    first = np.unique(code, return_index=True)[1]
    cells = [[own[i] for i in codes[first].tolist()] for codes, own in parts]
    return code, list(zip(*cells, strict=True))


class Collected:
    """Rows as they come, and their buckets.

    Parameters
    ----------
    kinds : Kinds
    names : list of str
        Of the columns of numbers.

    Attributes
    ----------
    n : int
        The number of rows.
    keys : list
        Plain keys; the number of a key is its place here.
    missing : set of int
        Columns of ids (0) and keys (from 1) with missing cells.
    """

    def __init__(self, kinds: Kinds, names: list[str]) -> None:
        self.n, self._uncoded = 0, 0
        self.missing: set[int] = set()
        self._kinds, self._columns = kinds, names
        self._places: dict[Any, int] = {}
        self._waiting: list[Any] = []
        self._pieces: list[Any] = []  # ids, numbers of keys, values: as Arrow tables
        self._writers: list[Any] = []
        self._made: list[Bucket] = []
        self._folder: Path | None = None
        self._filled: list[Path] = []  # of a folder's buckets, those that have rows
        self._remove: Callable[[], Any] | None = None

    @property
    def keys(self) -> list[Any]:
        """The distinct keys."""
        return list(self._places)

    def add(self, batch: Any) -> None:
        """Take over a batch: an Arrow table of ids, keys and numbers."""
        self.n += batch.num_rows
        self._uncoded += batch.num_rows
        self._waiting.append(batch)
        if self._uncoded >= _TOGETHER:
            self._code()

    def _code(self) -> None:
        """Code the rows that wait: their keys are numbers from here on."""
        pa = import_module("pyarrow")
        table = pa.concat_tables(self._waiting)
        self._waiting, self._uncoded = [], 0
        ids, *columns = map(values_of, table.columns)
        if has_missing(ids):
            self.missing.add(0)
        parts = []
        for i, (kind, column) in enumerate(zip(self._kinds.by, columns, strict=False), 1):
            parts.append(coded_keys(column, kind))
            if (parts[-1][0] < 0).any():
                self.missing.add(i)
        if self.missing:  # the table will be refused, once it is known which columns
            return
        code, values = _combined(parts)
        to = [self._places.setdefault(value, len(self._places)) for value in values]
        code = np.array(to, dtype=np.int64)[code]
        columns = columns[len(parts) :]
        numbers = [
            numbers_of(column, kind)
            for column, kind in zip(columns, self._kinds.columns, strict=True)
        ]
        names = ["id", "key", *(f"v{i}" for i in range(len(numbers)))]
        self._pieces.append(pa.table([ids, code, *numbers], names=names))
        if self.n > MOST_IN_MEMORY:
            or_raise(self._spill, lambda: SpillError(_FULL))

    def _spill(self) -> None:
        """Write the rows that are coded to the files of their buckets."""
        pa = import_module("pyarrow")
        if self._folder is None:
            folder = tempfile.mkdtemp(prefix="skdp-")
            self._folder = Path(folder)
            self._remove = weakref.finalize(self, _removed, folder, os.getpid())
            schema = self._pieces[0].schema
            paths = [self._folder / f"{b}.arrow" for b in range(BUCKETS)]
            self._writers = [pa.ipc.new_stream(str(path), schema) for path in paths]
        for piece in self._pieces:
            codes, words = coded_ids(piece.column("id"), self._kinds.unit)
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
        """Sort the buckets, once the last batch is there; `missing` is known then."""
        pa = import_module("pyarrow")
        if self._waiting:
            self._code()
        if self.missing:
            return
        if self._folder is not None:
            or_raise(self._sort, lambda: SpillError(_FULL))
        elif self._pieces:
            self._made = [self._bucket(pa.concat_tables(self._pieces))]
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
        units, words = coded_ids(rows.column("id"), self._kinds.unit)
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
