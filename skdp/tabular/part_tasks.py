"""What travels to a part of a table: how its batches become rows, and what is added up of them.

Nothing is released here. A task holds public values and closures over such only. It returns
totals, the number of rows, and whether the part could not be read; it raises for nothing that is in
a part, because the text could quote a cell.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._version import __version__
from skdp.core.table import added, fold_span
from skdp.engines._source import Part
from skdp.tabular.containers import checked

__all__ = [
    "CheckTask",
    "FoldTask",
    "Form",
    "GatherTask",
    "Meta",
    "bag",
    "chosen",
    "len_of",
    "schema_of",
]

Totals = list[NDArray]

AT_A_TIME = 2**20  # rows of a part whose totals are added up before they may be widened


@dataclass(frozen=True)
class Form:
    """How a batch becomes rows: public values only. Subclasses stand beside the checks they make.

    Attributes
    ----------
    columns : tuple or None
        Names of the columns of X; None for all.
    n_columns : int
        How many they are; a batch with others cannot be read.
    """

    columns: tuple[Any, ...] | None
    n_columns: int

    def rows(self, batch: Any) -> Any:
        """Return a batch as rows; what it does not expect may raise anything."""
        raise NotImplementedError

    def check(self, batch: Any) -> tuple[Any, set[int]]:
        """Return a batch as rows, and which of `problems` it has."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[tuple[type[Exception], str], ...]:
        """Errors with fixed texts, those first that are told first."""
        raise NotImplementedError

    @property
    def read(self) -> str:
        """The method of the rows that returns all that is private about them."""
        return "chunk"

    @property
    def reads(self) -> tuple[Any, ...] | None:
        """Names of the columns that are read, those of the target included; None for all."""
        return self.columns

    def chosen(self, batch: Any) -> Any:
        """Return X of a batch, if it has as many columns as the others."""
        X = chosen(batch, self.columns)
        if (X.shape[1] if len(X.shape) > 1 else 1) != self.n_columns:
            raise ValueError("another number of columns")
        return X

    @property
    def targets(self) -> int:
        """How many columns a chunk has beside those of X."""
        return 0

    def add_hashes(self, read: Any, totals: Totals) -> None:
        """Add up hashes of rows, which key seeded noise and nothing else."""
        totals[0] += row_hashes(*read) if isinstance(read, tuple) else row_hashes(read)

    @property
    def n_read(self) -> int:
        """How many columns a chunk has."""
        return self.n_columns + self.targets


def chosen(batch: Any, columns: tuple[Any, ...] | None) -> Any:
    """Return some columns of a batch as a table of its own kind; an array as it is."""
    if type(batch).__name__ == "RecordBatch":  # which is no table to the readers of tables
        batch = import_module("pyarrow").Table.from_batches([batch])
    if columns is None or not hasattr(batch, "columns"):
        return batch
    if hasattr(batch, "iloc"):
        return batch.loc[:, list(columns)]
    return batch.select(list(columns))


def schema_of(batch: Any, columns: tuple[Any, ...] | None) -> Any:
    """Return the names and types of some columns of a batch, or the type of an array."""
    table = chosen(batch, columns)
    if not hasattr(table, "columns"):
        return str(getattr(table, "dtype", None))
    names = table.column_names if hasattr(table, "column_names") else table.columns
    types = table.schema.types if hasattr(table, "column_names") else table.dtypes
    return tuple(map(str, names)), tuple(map(str, types))


def len_of(batch: Any) -> int:
    """Return the number of rows of a batch; none of nothing."""
    if batch is None:
        return 0
    return int(batch.shape[0] if hasattr(batch, "shape") else len(batch))


class Meta:
    """The last total of every task: rows, parts that failed or have another skdp, where rows lie.

    The last is the sum of rows times a number of their part: rows that moved from one part to
    another change it, but for one case in a million.
    """

    ROWS, FAILED, SKEW, PLACES = 0, 1, 2, 3
    SIZE = 4

    @staticmethod
    def place(number: int) -> int:
        """Return what a row of a part counts as: 1 to 2**20."""
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
    width: int = 1
    least: int = 256
    read: str = "chunk"
    image: str | None = None  # of the probe, as it is where noise is drawn
    versions: tuple[str | None, ...] | None = None
    schemas: frozenset[Any] | None = None  # of which a batch must have one; None: any

    @property
    def reads(self) -> tuple[Any, ...] | None:
        """Names of the columns that are read; None for all."""
        return self.form.reads

    def with_image(self) -> FoldTask:
        """Return the task with what is compared on another machine."""
        return replace(self, image=self._image(), versions=_versions())

    def _image(self) -> str:
        """Return a hash of what `add` makes of public rows, before it is handed private ones."""
        chunk = np.linspace(-1.5, 2.0, 3 * self.form.n_read).reshape(3, -1)
        codes = np.zeros((3, self.form.n_columns), dtype=np.int64)
        probe: Any = {"labelled": (chunk, codes[:, 0]), "codes": codes}.get(self.read, chunk)
        totals = self.fresh()
        try:
            with np.errstate(all="ignore"):
                self._add_probe(probe, totals)
        except Exception:  # noqa: BLE001  not of these rows: then it says nothing
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
        return [*self.fresh(), np.zeros(Meta.SIZE, dtype=np.int64)]

    def added(self, one: Totals, other: Totals) -> Totals:
        """Add up two totals, exactly."""
        return added(one, other)

    def __call__(self, part: Part) -> Totals:
        """Return the totals of a part; if it cannot be read, zeros and a mark."""
        return self._attempt(part, lambda: self.reader(part.handle))

    def over(self, part: Part, batches: Iterable[Any]) -> Totals:
        """Return the totals of a part whose batches the engine reads."""
        return self._attempt(part, lambda: batches)

    def _attempt(self, part: Part, batches: Callable[[], Iterable[Any]]) -> Totals:
        totals = self.zero()
        try:
            if self._is_skewed():
                totals[-1][Meta.SKEW] = 1
                return totals
            return self._over(part, map(self._checked, batches()))
        except Exception:  # noqa: BLE001  its text may quote a cell
            totals[-1][Meta.FAILED] = 1
            return totals

    def _checked(self, batch: Any) -> Any:
        """Return a batch that is sound, and whose columns have the types that were checked."""
        batch = checked(batch)
        X = getattr(batch, "X", batch)  # of a pair
        if self.schemas is not None and len_of(X) and schema_of(X, self.reads) not in self.schemas:
            raise TypeError("columns of other types")
        return batch

    def _rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            if len_of(batch):
                yield self.form.rows(batch)

    def _over(self, part: Part, batches: Iterable[Any]) -> Totals:
        whole, now = None, self.zero()
        held = 0
        for rows in self._rows(batches):
            for span in rows.spans(width=self.width, least=self.least):
                size = span[1] - span[0]
                if held + size > AT_A_TIME:
                    whole, now = now if whole is None else added(whole, now), self.zero()
                    held = 0
                fold_span(rows, span, self.add, now[:-1], self.read)
                now[-1][Meta.ROWS] += size
                now[-1][Meta.PLACES] += size * Meta.place(part.number)
                held += size
        return now if whole is None else added(whole, now)


@dataclass(frozen=True)
class GatherTask(FoldTask):
    """Brings back what `add`, a map of chunks to an array with a row each, makes of wanted rows."""

    def _add_probe(self, probe: Any, totals: Totals) -> None:
        totals[0][0] = self.add(probe).tolist()

    def _over(self, part: Part, batches: Iterable[Any]) -> Totals:
        totals, n = self.zero(), 0
        (found,) = totals[:-1]
        pieces: list[tuple[int, int, NDArray]] = []
        for rows in self._rows(batches):
            for span in rows.spans(width=self.width, least=self.least):
                chunk = getattr(rows, self.read)(*span)
                size = span[1] - span[0]
                if part.wanted is not None:
                    a, b = np.searchsorted(part.wanted, [n, n + size])
                    chunk = chunk[part.wanted[a:b] - n]
                if len(chunk):
                    with np.errstate(all="ignore"):
                        image: NDArray = self.add(chunk)
                    pieces.append((part.number, n, image))
                n += size
        found[0] = pieces
        totals[-1][Meta.ROWS] = n
        totals[-1][Meta.PLACES] = n * Meta.place(part.number)
        return totals


def bag() -> Totals:
    """Return a total of things that are kept apart: adding it up joins lists."""
    bag = np.empty(1, dtype=object)
    bag[0] = []
    return [bag]


# --- the digest of rows in any order ----------------------------------------------------------

_LANES = 4
_ODD = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64
)


def row_hashes(*columns: NDArray) -> NDArray[np.uint64]:
    """Return the sum of hashes of rows, modulo 2**64, one a lane; it keys seeded noise only."""
    table = np.column_stack([np.asarray(one, dtype=np.float64) for one in columns]) + 0.0
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


def no_hashes() -> Totals:
    return [np.zeros(_LANES, dtype=np.uint64)]


@dataclass(frozen=True)
class CheckTask(FoldTask):
    """Counts the rows of each part, and the parts that have a problem, by problem."""

    def zero(self) -> Totals:
        """Return no rows and no problems."""
        problems = np.zeros(len(self.form.problems), dtype=np.int64)
        return [*self.fresh(), *bag(), problems, np.zeros(Meta.SIZE, dtype=np.int64)]

    def _over(self, part: Part, batches: Iterable[Any]) -> Totals:
        totals = self.zero()
        sizes, problems, meta = totals[-3:]
        for batch in batches:
            if not len_of(batch):
                continue
            rows, found = self.form.check(batch)
            problems[sorted(found)] = 1
            if rows is None:
                continue
            for span in rows.spans():
                if len(totals) > 3 and not found:
                    fold_span(rows, span, self.add, totals[:-3], self.read)
                meta[Meta.ROWS] += span[1] - span[0]
        sizes[0] = [(part.number, int(meta[Meta.ROWS]))]
        return totals
