"""Private rows in parts (`skdp.engines`): checked by one pass, then folded where each part lies.

A batch of a part becomes rows in the same way as a table in memory does (`Form`). Its chunks are
added up by the same closures, so totals are the same integers. What travels to a part is a task: a
reader, a form and public closures. What comes back are totals, the number of rows and whether the
part could not be read.

Guarantee: a task raises for nothing that is in a part, because the text could quote a cell. Parts
that cannot be read, or have other rows than those that were checked, end in one fixed text:
nothing is released then, and what was charged stays charged.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skdp._config import noise_is_seeded
from skdp._version import __version__
from skdp.core.table import _chunk_rows, added, fold_span
from skdp.exceptions import PrivacyLeakError, SourceError
from skdp.tabular.containers import (
    checked,
    column_names,
    cut,
    is_frame,
    is_parts,
    is_sliced_table,
    listed,
)
from skdp.tabular.source import Part, Source

__all__ = [
    "ONE_PLACE",
    "CheckTask",
    "FoldTask",
    "Form",
    "GatherTask",
    "Meta",
    "Pair",
    "PartsRows",
    "bag",
    "checked_parts",
    "chosen",
    "heads_of",
    "len_of",
    "refuse_parts",
    "schema_of",
    "with_target",
]


# --- tasks ---------------------------------------------------------------------------------------

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


# --- the digest of rows in any order --------------------------------------------------------

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


# --- sources and rows ----------------------------------------------------------------------------

ONE_PLACE = "it needs all rows in one place"

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
_NO_ROWS = "X has 0 sample(s) while a minimum of 1 is required."


def refuse_parts(X: Any, estimator: str, one_place: str, *, name: str = "X") -> None:
    """Raise if X is in parts and the estimator says why it needs all rows in one place.

    Raises
    ------
    TypeError
        Before anything is read or charged.
    """
    if one_place and is_parts(X):
        raise TypeError(
            f"{estimator} does not take {name} in parts: {one_place}. Give it an array or a table "
            "in memory, of all rows or of a sample that was drawn without looking at them."
        )


def names_in(head: Any) -> tuple[Any, ...] | None:
    """Return the column names of a table, None of an array."""
    return column_names(head) if is_frame(head) or is_sliced_table(head) else None


def heads_of(source: Source, without: Any = None) -> tuple[tuple[Any, ...] | None, list[Any]]:
    """Return the names of the columns of X, and X without rows as each part may have it.

    Parameters
    ----------
    without : str, default=None
        The column that is the target.

    Raises
    ------
    ValueError
        If a column is missing in a part, or `without` is none of them.
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


class Pair(NamedTuple):
    """Rows of X and of y, where they are tables in parts of their own; y is None if rows differ."""

    X: Any
    y: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the longer one."""
        return (len_of(self.X if self.y is None else self.y),)


@dataclass(frozen=True)
class Joined:
    """Reads the parts of X and of y side by side."""

    X: Callable[[Any], Iterable[Any]]
    y: Callable[[Any], Iterable[Any]]

    def __call__(self, handle: tuple[Any, Any]) -> Iterator[Pair]:
        """Yield rows of X with theirs of y."""
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
                yield Pair(_between(X, start, start + step), _between(y, at, at + step))
                start, at = start + step, at + step
        if (y is not None and at < len_of(y)) or next(ys, None) is not None:
            yield Pair(np.zeros((1, 1)), None)


def _between(batch: Any, start: int, stop: int) -> Any:
    """Return rows start to stop of a table or of a column of one."""
    return batch.iloc[start:stop] if hasattr(batch, "iloc") else cut(batch, start, stop)


def joined(X: Source, y: Source) -> Source:
    """Return two tables in parts side by side, if they have as many parts and the same engine."""
    if len(X.handles) != len(y.handles) or type(X.engine) is not type(y.engine):
        raise ValueError("y must be in as many parts as X, of the same engine")
    if not getattr(X.engine, "takes_pairs", True):
        raise TypeError("y must be the name of a column of X: this engine reads one table")
    handles = tuple(zip(X.handles, y.handles, strict=True))
    return Source(handles, Joined(X.reader, y.reader), X.engine, X.heads, X.columns)


def with_target(
    X: Any, y: Any, name: str = "y"
) -> tuple[Source, tuple[Any, ...] | None, list[Any], Any, list[Any]]:
    """Return X with its target: the source, columns and heads of X, column and heads of y.

    Raises
    ------
    TypeError, ValueError
        If y is neither in as many parts as X nor the name of a column of X.
    """
    if not is_parts(X):
        raise TypeError(f"{name} is in parts, so X must be in parts, too")
    if is_parts(y):
        return joined(X, y), *heads_of(X), *heads_of(y)
    if hasattr(y, "__len__") and not isinstance(y, str | bytes | tuple):
        raise TypeError(
            f"{name} must be the name of a column of X or a table in parts, as X is in parts"
        )
    return X, *heads_of(X, without=y), y, [chosen(head, (y,)) for head in X.heads]


def _nothing() -> Totals:
    return []


def checked_parts(
    source: Source,
    form: Form,
    head: Any,
    *,
    allow_empty: bool,
    filtered: bool = False,
    sizes: tuple[int, ...] | None = None,
) -> PartsRows:
    """Read all parts once and return the rows; one fold, before any charge.

    Parameters
    ----------
    source : Source
    form : Form
        Its schema is checked.
    head : table
        X without rows, for what is public about it.
    allow_empty : bool
    filtered : bool
        As of `Rows`.
    sizes : tuple of int, default=None
        Of a domain that codes the rows.

    Raises
    ------
    SourceError
        If a part cannot be read.
    TypeError, ValueError
        Of several problems that with the highest priority, wherever it is.
    """
    seeded = noise_is_seeded()
    task = CheckTask(
        source.reader,
        form,
        form.add_hashes,
        no_hashes if seeded else _nothing,
        read=form.read,
        schemas=_schemas(source, form),
    )
    totals = _visited(source, task, [Part(k, h) for k, h in enumerate(source.handles)])
    if totals is not None and totals[-1][Meta.SKEW]:
        raise SourceError(_SKEWED)
    if totals is None or totals[-1][Meta.FAILED]:
        raise SourceError(_UNREADABLE)
    for (kind, text), count in zip(form.problems, totals[-2], strict=True):
        if count:
            raise kind(text)
    n = int(totals[-1][Meta.ROWS])
    if n == 0 and not allow_empty and not filtered:
        raise ValueError(_NO_ROWS)
    lengths = dict(sorted(totals[-3][0]))
    hashes = totals[0] if seeded else None
    return PartsRows(source, form, head, lengths, hashes, filtered=filtered, sizes=sizes)


def _schemas(source: Source, form: Form) -> frozenset[Any] | None:
    """Return the schemas that batches may have: those of the parts without rows."""
    if isinstance(source.reader, Joined):
        return None
    return frozenset(schema_of(head, form.reads) for head in source.heads)


def _visited(source: Source, task: FoldTask, parts: list[Part]) -> Totals | None:
    """Return the totals of all parts, None if the engine failed, whatever it says."""
    try:
        if getattr(source.engine, "remote", False):
            task = task.with_image()
        return source.engine.map_add(task, parts)
    except Exception:  # noqa: BLE001  its text may quote a cell
        return None


class PartsRows:
    """The private table in parts, checked; read by `fold` and `gather`.

    Attributes
    ----------
    n_features : int
    names : tuple or None
        Of the columns.
    head : table
        X without rows.
    filtered : bool
        As of `Rows`.
    sizes : tuple of int or None
        Of the domain that codes the rows.
    kept : WeakKeyDictionary
        As of `CodedRows`.
    at_a_time : int
        How many rows are added up to one total, at most, before it may be widened.
    """

    at_a_time = AT_A_TIME
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
        self.head = head
        self.n_features = int(head.shape[1]) + form.targets
        self.names = names_in(head)
        self.filtered, self.n_is_private = filtered, False
        self.sizes = sizes
        self.kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"PartsRows(n_features={self.n_features})"

    def __reduce__(self) -> Any:
        raise PrivacyLeakError("private rows in parts do not travel; their parts do")

    def of_units(self, groups: Any, estimator: str, adjacency: str) -> NoReturn:
        """Refuse rows of users: those of one user may lie in many parts.

        Raises
        ------
        TypeError
            Before any charge.
        """
        raise TypeError(
            f"{estimator}: groups= needs all rows in one place, because those of one user may "
            "lie in several parts. Give X in memory."
        )

    def _refuse(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refuse to read rows elsewhere than where they lie; nothing is released then."""
        raise PrivacyLeakError("rows in parts are read by fold only, and this reads them otherwise")

    spans = chunk = chunks = slices = labelled = codes = _refuse

    def spans_in_memory(self) -> list[tuple[int, int]]:
        """Return the (start, stop) of the chunks that the same rows would have in memory."""
        step = _chunk_rows(self.n_features)
        return [(i, min(i + step, self._n)) for i in range(0, self._n, step)]

    def digest(self) -> bytes:
        """Return a hash of the rows that does not depend on their order or on the parts."""
        if self._hashes is None:  # noise was not seeded when the rows were checked
            (self._hashes,) = self.fold(self._form.add_hashes, no_hashes, read=self._form.read)
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
        """Add up what `add` makes of the chunks of all parts; see `skdp.core.table.fold`.

        Raises
        ------
        SourceError
            If the rows are not as many as were checked, part by part being the engine's business.
        """
        schemas = _schemas(self._source, self._form)
        task = FoldTask(
            self._source.reader, self._form, add, fresh, width, least, read, schemas=schemas
        )
        return self._pass(task, [Part(k, h) for k, h in enumerate(self._source.handles)])

    def gather(
        self,
        take: Callable[[Any], NDArray],
        *,
        wanted: NDArray[np.int64] | None = None,
        read: str = "chunk",
    ) -> list[NDArray]:
        """Return what `take` makes of each row, in the order of the parts: in this process.

        Parameters
        ----------
        take : callable
            Maps a chunk to an array with a row for each of its rows; public.
        wanted : ndarray of int, default=None
            Ascending positions among all rows; None for all rows.
        """
        parts, start = [], 0
        handles = dict(enumerate(self._source.handles))
        for k, size in self._lengths.items():
            mine = None
            if wanted is not None:
                a, b = np.searchsorted(wanted, [start, start + size])
                mine = wanted[a:b] - start
            parts.append(Part(k, handles.get(k), mine))
            start += size
        schemas = _schemas(self._source, self._form)
        task: Any = GatherTask(
            self._source.reader, self._form, take, bag, read=read, schemas=schemas
        )
        (found,) = self._pass(task, parts)
        images = [image for _, _, image in sorted(found[0], key=lambda piece: piece[:2])]
        if sum(map(len, images)) != (self._n if wanted is None else len(wanted)):
            raise SourceError(_CHANGED)
        return images

    def _pass(self, task: Any, parts: list[Part]) -> Totals:
        totals = _visited(self._source, task, parts)
        if totals is None or totals[-1][Meta.FAILED] or totals[-1][Meta.SKEW]:
            raise SourceError(_CHANGED)
        places = sum(size * Meta.place(k) for k, size in self._lengths.items())
        if (totals[-1][Meta.ROWS], totals[-1][Meta.PLACES]) != (self._n, places):
            raise SourceError(_CHANGED)
        return totals[:-1]
