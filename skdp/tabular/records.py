"""Rows of any content as they are: for code of the user's, for random parts, and parts by key.

Rows are handed to code of the user's one at a time (`opaque_rows`), or partitioned at random, row
by row or user by user (`dealt_rows`, `whole_units`; for `skdp.queries.best_of_runs`), or split by a
key that each row has (`split_by_key`). No cell is read here, but for keys and for seeded noise.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from skdp.core.table import REPLACE_ONE
from skdp.tabular.cells import family, read_cell, ticks
from skdp.tabular.containers import (
    alone,
    as_list,
    checked,
    cut,
    is_listed,
    is_parts,
    object_rows,
    reading,
    take,
    to_float,
)
from skdp.tabular.parts import Form, Pair, PartsRows, checked_parts, chosen, heads_of, with_target
from skdp.tabular.rows import Rows
from skdp.tabular.units import check_units, ids_of
from skdp.user_code import or_raise

__all__ = [
    "DealtRows",
    "WholeUnits",
    "dealt_rows",
    "opaque_rows",
    "split_by_key",
    "whole_units",
]


# --- for a query that maps each row --------------------------------------------------------------

_NO_ROWS = "X and y must be arrays or tables with one row, or one entry, for each record"
_OTHER_LENGTH = "X and y must have the same number of rows"


def opaque_rows(X: Any, y: Any = None, *, allow_empty: bool = True) -> Any:
    """Wrap rows of any content (text, categories) for a query that maps each row alone.

    Parameters
    ----------
    X : array-like, table, or table in parts
    y : array-like of shape (n_samples,), default=None
        Of X in parts, the name of a column or another table in parts.
    allow_empty : bool, default=True
        Of X in parts, whose number of rows is not known before.

    Raises
    ------
    TypeError, ValueError
        If a row has another number of cells than the others; of parts as `check_labelled`.
    """
    if is_parts(X) or is_parts(y):
        return _opaque_parts(X, y, allow_empty=allow_empty)
    tables = []
    for one, name in ((X, "X"), (y, "y")):
        table = one = checked(one, name)
        column = hasattr(one, "to_pylist") and not hasattr(one, "shape")  # of pyarrow
        if column or is_listed(one):
            # Objects: a common dtype would be decided by all entries.
            with reading():
                items = or_raise(one.to_pylist, lambda: TypeError(_NO_ROWS)) if column else one
                table = object_rows(items)
            if table is None:
                raise ValueError(f"{name} must have as many cells in each row as in the others.")
        elif one is not None and not hasattr(one, "shape"):
            table = or_raise(functools.partial(np.asarray, one), lambda: TypeError(_NO_ROWS))
        if one is not None:
            or_raise(functools.partial(cut, table, 0, 0), lambda: TypeError(_NO_ROWS))
        tables.append(table)
    return Rows(*tables, numeric=False)


# --- in parts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpaqueForm(Form):
    """Batches as rows of any content.

    Attributes
    ----------
    y : object
        The column of the target; of a `Pair`, its columns; None for no target.
    target : bool
        Whether there is one.
    """

    y: Any = None
    target: bool = False

    @property
    def problems(self) -> tuple[tuple[type[Exception], str], ...]:
        """That rows and targets are not as many."""
        return ((ValueError, _OTHER_LENGTH),)

    @property
    def read(self) -> str:
        """The method of the rows that returns all that is private about them."""
        return "pair"

    @property
    def reads(self) -> tuple[Any, ...] | None:
        """Names of the columns that are read, that of the target included; None for all."""
        if self.columns is None or not self.target:
            return self.columns
        return (*self.columns, self.y)

    def rows(self, batch: Any) -> Rows:
        """Return the rows of a batch."""
        X, y = batch, None
        if isinstance(batch, Pair):
            if batch.y is None:
                raise ValueError(_OTHER_LENGTH)
            X, y = batch.X, chosen(batch.y, self.y)
        elif self.target:
            X = chosen(batch, None)
            y = chosen(X, (self.y,))
        return Rows(_read(self.chosen(X)), y if y is None else _column(y), numeric=False)

    def check(self, batch: Any) -> tuple[Rows | None, set[int]]:
        """Return the rows of a batch, and which problems it has."""
        if isinstance(batch, Pair) and batch.y is None:
            return None, {0}
        return self.rows(batch), set()

    def add_hashes(self, read: Any, totals: list[NDArray]) -> None:
        """Add up hashes of the cells of each row."""
        X, y = (None if one is None else _cells(one) for one in read)
        assert X is not None
        for i, row in enumerate(X):
            cells = repr((row, None if y is None else y[i])).encode()
            with np.errstate(over="ignore"):
                totals[0] += np.frombuffer(hashlib.blake2b(cells, digest_size=32).digest(), "<u8")


def _read(table: Any) -> Any:
    """Return a table of Arrow as one of pandas, others as they are."""
    return table.to_pandas() if hasattr(table, "column_names") else table


def _column(y: Any) -> Any:
    """Return a table of one column as that column."""
    y = _read(y)
    if len(getattr(y, "shape", (0,))) < 2:
        return y
    if y.shape[1] != 1:
        raise ValueError("several targets")
    if hasattr(y, "iloc"):
        return y.iloc[:, 0]
    return y.to_series() if hasattr(y, "to_series") else y[:, 0]


def _cells(table: Any) -> list[Any]:
    """Return the cells of each row, as Python has them; a number is the same in any dtype."""
    table = table.to_numpy() if hasattr(table, "to_numpy") else np.asarray(table)
    rows: list[Any] = table.tolist()
    return [[_cell(c) for c in row] if isinstance(row, list) else _cell(row) for row in rows]


def _cell(cell: Any) -> Any:
    """Return a cell as it is hashed: 1, 1.0 and True alike, and all that is missing alike."""
    if cell is None or type(cell).__name__ in ("NaTType", "NAType") or cell != cell:
        return None
    if not isinstance(cell, int | float):
        return cell
    try:
        number = float(cell) + 0.0
    except OverflowError:
        return cell
    return number if number == cell else cell


def _opaque_parts(X: Any, y: Any, *, allow_empty: bool) -> PartsRows:
    """Return a table in parts, with its targets if there are any, as rows of any content."""
    if y is None:
        source, target = X, None
        columns, heads = heads_of(X)
    else:
        source, columns, heads, target, _ = with_target(X, y)
    head = heads[0]
    n_columns = int(head.shape[1]) if len(head.shape) > 1 else 1
    form = OpaqueForm(columns, n_columns, target, y is not None)
    return checked_parts(source, form, head, allow_empty=allow_empty)


# --- random partitions of rows or users ----------------------------------------------------------


class DealtRows(Rows):
    """Rows of any content; a seed is keyed by what is in them, whatever holds it."""

    def digest(self) -> bytes:
        """Return a hash of the content; it keys the noise of seeded fits and nothing else."""
        both = tuple(None if one is None else _plain(one) for one in (self._X, self._y))
        return bytes.fromhex(joblib.hash(both, hash_name="sha1"))


def _plain(table: Any) -> Any:
    """Return a table of numbers as floats in an array of its own; others as they are."""
    found, problem = to_float(table)
    if found is None or problem:
        return table
    return np.ascontiguousarray(found.reshape(getattr(table, "shape", found.shape)))


def dealt_rows(X: Any, y: Any = None) -> DealtRows:
    """Return rows of any content, as `opaque_rows` does."""
    rows = opaque_rows(X, y)
    return DealtRows(rows._X, rows._y, numeric=False)


class WholeUnits:
    """A table whose rows are units.

    How many there are is private under both relations: a unit may have no row before, or after.
    """

    filtered = True
    n_is_private = True  # a unit may have no row on one side
    units = None  # a row of this table is a unit already

    def __init__(
        self, rows: Rows, groups: Any, unit_name: str, estimator: str, adjacency: str
    ) -> None:
        self._rows, self.unit_name = rows, unit_name
        self._units = check_units(groups, rows._n, estimator=estimator, adjacency=adjacency)
        self._ids = ids_of(groups)
        self._n, self.n_features = int(self._units.words.size), rows.n_features

    def __repr__(self) -> str:
        return f"WholeUnits(n_features={self.n_features})"

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        """Refuse: no query but those that deal units out reads such a table."""
        raise TypeError("a table of units is read by queries that deal units out only")

    def chunk(self, start: int, stop: int) -> NDArray[np.float64]:
        """Refuse, as `spans` does."""
        raise TypeError("a table of units is read by queries that deal units out only")

    def part(self, chosen: NDArray[np.intp]) -> tuple[Any, Any, NDArray]:
        """Return copies of all rows of some units, in order: X, y and the ids."""
        wanted = np.zeros(self._n + 1, dtype=bool)  # the last is of rows without an id
        wanted[chosen] = True
        positions = np.flatnonzero(wanted[self._units.codes])
        X, y = self._rows._X, self._rows._y
        return (
            alone(take(X, positions)),
            None if y is None else alone(take(y, positions)),
            self._ids[positions],
        )

    def keyed_words(self, key: bytes) -> NDArray[np.uint64]:
        """Return a keyed word of each unit: of its id alone."""
        made = [
            hashlib.blake2b(int(word).to_bytes(8, "little"), digest_size=8, key=key).digest()
            for word in self._units.words
        ]
        return np.array([int.from_bytes(one, "little") for one in made], dtype=np.uint64)

    def digest(self) -> bytes:
        """Return a hash of the content; it keys the noise of seeded fits and nothing else."""
        ids = np.append(self._units.words, np.uint64(0))[self._units.codes]
        return self._rows.digest() + bytes.fromhex(joblib.hash(ids, hash_name="sha1"))


def whole_units(
    X: Any,
    y: Any,
    groups: Any,
    *,
    unit_name: str,
    estimator: str,
    adjacency: str = REPLACE_ONE,
) -> WholeUnits:
    """Return rows of any content as a table of units.

    Parameters
    ----------
    X, y : array-like
        As for `opaque_rows`.
    groups : array-like of shape (n_samples,)
        Ids of whose each row is.
    unit_name : str
        That of the budget's unit.
    estimator, adjacency : str
        As of `check_units`.

    Raises
    ------
    TypeError, ValueError
        As `check_units`; nothing has been charged.
    """
    return WholeUnits(dealt_rows(X, y), groups, unit_name, estimator, adjacency)


# --- partitions by key ---------------------------------------------------------------------------


def split_by_key(X: Any, y: Any, keys: Any, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of each part, as tables of their own: (X,), or (X, y) where there is a y.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or None
    keys : array-like of shape (n_samples,)
    names : list of str
        Public. A whole number is named "1" or "1.0", a date "2026-01-31", a moment
        "2026-01-31T12:30:00".

    Raises
    ------
    ValueError
        If X, y and keys have different lengths.
    """
    listed = hasattr(keys, "__len__") and not isinstance(keys, str)
    if not listed or len(keys) != len(X) or (y is not None and len(y) != len(X)):
        raise ValueError("by (and y) must have an entry for each row of X.")
    is_column = hasattr(keys, "dtype") or hasattr(keys, "to_pylist")
    cells = as_list(keys) if is_column else list(keys)
    parts = {name: number for number, name in enumerate(names)}
    place = np.array([_place(cell, parts) for cell in cells], dtype=np.intp)
    found = []
    for number in range(len(names)):
        rows = np.flatnonzero(place == number)
        found.append(tuple(_rows(one, rows) for one in (X, y) if one is not None))
    return found


def _place(cell: Any, parts: Mapping[str, int]) -> int:
    """Return the number of the part that a key names; -1 for none."""
    return next((parts[text] for text in _texts(cell) if text in parts), -1)


def _texts(cell: Any) -> tuple[str, ...]:
    """Return the texts of a key: the same for equal numbers and dates, whatever holds them.

    None at all where it is missing, or has none.
    """
    value = read_cell(cell)
    found = family(value)
    if found in ("date", "timestamp"):
        return _texts_of_date(np.datetime64(ticks(value), "ns"))
    if value is None or found not in ("text", "number", "boolean", "uuid"):
        return ()
    return (str(value), f"{value}.0") if type(value) is int else (str(value),)


def _texts_of_date(moment: np.datetime64) -> tuple[str, ...]:
    """Return a moment as ISO 8601 has it, in its shortest form and in seconds; a day as a day."""
    units = [f"M8[{unit}]" for unit in ("D", "s", "us", "ns")]
    return tuple(str(moment.astype(one)) for one in units if moment.astype(one) == moment)


def _rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows as a table of their own, in the kind of container that X is."""
    if isinstance(X, list | tuple):
        # A list without rows has no columns.
        return [X[i] for i in rows] if rows.size else np.zeros((0, *np.shape(X[:1])[1:]))
    return alone(take(X, rows))
