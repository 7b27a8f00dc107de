"""Private rows in parts: checked by one pass, then read by `fold` only, each part where it lies.

Nothing is released here. A batch of a part becomes rows in the same way as a table in memory does
(`Form`), and its chunks are added up by the same closures, so the totals are the same integers.

Guarantee: what travels to a part is a `Task`: a reader, a form and public closures. Totals come
back, with the number of rows and whether a part could not be read. Whatever fails there, and rows
that are others than those that were checked, end in one fixed text: nothing is released then, and
what was charged stays charged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skdp._config import noise_is_seeded
from skdp.core.table import _chunk_rows
from skdp.engines import Source
from skdp.engines._source import Part
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
from skdp.tabular.part_tasks import (
    AT_A_TIME,
    CheckTask,
    FoldTask,
    Form,
    GatherTask,
    Meta,
    bag,
    chosen,
    len_of,
    no_hashes,
    schema_of,
)

__all__ = [
    "ONE_PLACE",
    "Form",
    "Pair",
    "PartsRows",
    "checked_parts",
    "chosen",
    "heads_of",
    "joined",
    "len_of",
    "refuse_parts",
]

Totals = list[NDArray]

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
