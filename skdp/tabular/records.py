"""Rows of any content: for the user's code, for random partitions, and by key.

- `opaque_rows`: rows that the user's code reads one at a time.
- `dealt_rows`, `WholeUnits`: random partitions of rows or of users, for
  `skdp.queries.best_of_runs`.
- `split_by_key`: a partition by a key of each row.

Cells are read only for keys, and for the hashes that seeded noise needs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NoReturn

import joblib
import numpy as np
from numpy.typing import NDArray

from skdp.core.table import REPLACE_ONE
from skdp.tabular.cells import family, is_missing, read_cell, ticks
from skdp.tabular.columns import flat_array, flat_column
from skdp.tabular.containers import (
    alone,
    array_of,
    as_list,
    checked,
    cut,
    is_listed,
    object_rows,
    take,
    to_float,
)
from skdp.tabular.parts import Form, checked_parts, heads_of, is_parts, with_target
from skdp.tabular.rows import Rows, _ids, check_units
from skdp.user_code import or_raise, reading

# --- for a query that maps each row --------------------------------------------------------------

_NO_ROWS = "X and y must be arrays or tables with one row, or one entry, for each record"
_OTHER_LENGTH = "X and y must have the same number of rows"


def opaque_rows(X: Any, y: Any = None, *, allow_empty: bool = True) -> Any:
    """Wrap rows of any content (text, categories) for a query that maps each row alone.

    If X is in parts, y may be the name of a column or another table in parts. `allow_empty` is for
    X in parts, whose number of rows is not known before they are read.
    """
    if not (is_parts(X) or is_parts(y)):
        return Rows(_opaque_table(X, "X"), _opaque_table(y, "y"), numeric=False)
    if y is None:
        source, target = X, None
        columns, heads = heads_of(X)
    else:
        source, columns, heads, target, _ = with_target(X, y)
    n_columns = int(heads[0].shape[1]) if len(heads[0].shape) > 1 else 1
    problems = ((ValueError, _OTHER_LENGTH),)
    form = OpaqueForm(columns, n_columns, problems, target, y is not None, read="pair")
    return checked_parts(source, form, heads[0], allow_empty=allow_empty)


def _opaque_table(X: Any, name: str) -> Any:
    """Return a table or column that can be cut into rows, or raise with a fixed text."""
    if X is None:
        return None
    table = X = checked(X, name)
    is_arrow_column = hasattr(X, "to_pylist") and not hasattr(X, "shape")
    if is_arrow_column or is_listed(X):
        # Objects: a common dtype would be decided by all entries.
        with reading():
            items = or_raise(X.to_pylist, lambda: TypeError(_NO_ROWS)) if is_arrow_column else X
            table = object_rows(items)
        if table is None:
            raise ValueError(f"{name} must have as many cells in each row as in the others.")
    elif not hasattr(X, "shape"):
        table = or_raise(lambda: array_of(X), lambda: TypeError(_NO_ROWS))
    or_raise(lambda: cut(table, 0, 0), lambda: TypeError(_NO_ROWS))
    return table


# --- in parts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpaqueForm(Form):
    """Batches as rows of any content."""

    def check(self, batch: Any) -> tuple[Rows | None, set[int]]:
        """Return the rows of a batch, and which problems it has."""
        X, y = self.sides(batch)
        if self.has_target and y is None:
            return None, {0}
        if y is not None and (y := flat_column(_in_pandas(y), "y")) is None:
            raise ValueError("several targets")
        return Rows(_in_pandas(X), y, numeric=False), set()

    def add_hashes(self, chunk: Any, totals: list[NDArray]) -> None:
        """Add up hashes of the cells of each row."""
        X, y = (None if table is None else _cells(table) for table in chunk)
        assert X is not None
        for i, row in enumerate(X):
            cells = repr((row, None if y is None else y[i])).encode()
            with np.errstate(over="ignore"):
                totals[0] += np.frombuffer(hashlib.blake2b(cells, digest_size=32).digest(), "<u8")


def _in_pandas(table: Any) -> Any:
    """Return an Arrow table in pandas; other tables unchanged."""
    return table.to_pandas() if hasattr(table, "column_names") else table


def _cells(table: Any) -> list[Any]:
    """Return the cells of each row, as Python has them; a number is the same in any dtype."""
    table = table.to_numpy() if hasattr(table, "to_numpy") else np.asarray(table)
    rows: list[Any] = table.tolist()
    return [[_cell(c) for c in row] if isinstance(row, list) else _cell(row) for row in rows]


def _cell(cell: Any) -> Any:
    """Return a cell as it is hashed: 1, 1.0 and True alike, and all that is missing alike."""
    if is_missing(cell) or cell != cell:
        return None
    if not isinstance(cell, int | float):
        return cell
    try:
        number = float(cell) + 0.0
    except OverflowError:
        return cell
    return number if number == cell else cell


# --- random partitions of rows or users ----------------------------------------------------------


class DealtRows(Rows):
    """Rows of any content, whose hash depends on their values and not on their container."""

    def digest(self) -> bytes:
        """Return a hash of the content; it keys the noise of seeded fits and nothing else."""
        tables = tuple(None if table is None else _plain(table) for table in (self._X, self._y))
        return bytes.fromhex(joblib.hash(tables, hash_name="sha1"))


def _plain(table: Any) -> Any:
    """Return a table of numbers as a contiguous array of floats; others as they are."""
    values, problem = to_float(table)
    if values is None or problem:
        return table
    return np.ascontiguousarray(values.reshape(getattr(table, "shape", values.shape)))


def dealt_rows(X: Any, y: Any = None) -> DealtRows:
    """Return rows of any content, as `opaque_rows` does."""
    rows = opaque_rows(X, y)
    return DealtRows(rows._X, rows._y, numeric=False)


class WholeUnits:
    """A table whose rows are units, made from rows of any content and their ids.

    How many units there are is private under both relations: a unit may have no row before, or
    after. Errors are those of `check_units`.
    """

    filtered = True
    n_is_private = True
    units = None  # a row of this table is a unit already

    def __init__(
        self,
        X: Any,
        y: Any,
        groups: Any,
        *,
        unit_name: str,
        estimator: str,
        adjacency: str = REPLACE_ONE,
    ) -> None:
        self._rows, self.unit_name = dealt_rows(X, y), unit_name
        self._units = check_units(groups, self._rows._n, estimator=estimator, adjacency=adjacency)
        self._ids = flat_array(_ids(groups))  # each entry as it was
        self._n, self.n_features = int(self._units.words.size), self._rows.n_features

    def __repr__(self) -> str:
        return f"WholeUnits(n_features={self.n_features})"

    def spans(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refuse: only queries that partition units read such a table."""
        raise TypeError("a table of units is read by queries that deal units out only")

    chunk = spans

    def part(self, chosen: NDArray[np.intp]) -> tuple[Any, Any, NDArray]:
        """Return copies of all rows of some units, in order: X, y and the ids."""
        wanted = np.zeros(self._n + 1, dtype=bool)  # the last is for rows without an id, code -1
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
        digests = [
            hashlib.blake2b(int(word).to_bytes(8, "little"), digest_size=8, key=key).digest()
            for word in self._units.words
        ]
        return np.array([int.from_bytes(d, "little") for d in digests], dtype=np.uint64)

    def digest(self) -> bytes:
        """Return a hash of the content; it keys the noise of seeded fits and nothing else."""
        ids = np.append(self._units.words, np.uint64(0))[self._units.codes]
        return self._rows.digest() + bytes.fromhex(joblib.hash(ids, hash_name="sha1"))


# --- partitions by key ---------------------------------------------------------------------------


def split_by_key(X: Any, y: Any, keys: Any, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of each part, as tables of their own: (X,), or (X, y) where there is a y.

    The public `names` say what keys a part has: a whole number is named "1" or "1.0", a date
    "2026-01-31", a timestamp "2026-01-31T12:30:00".
    """
    listed = hasattr(keys, "__len__") and not isinstance(keys, str)
    if not listed or len(keys) != len(X) or (y is not None and len(y) != len(X)):
        raise ValueError("by (and y) must have an entry for each row of X.")
    is_column = hasattr(keys, "dtype") or hasattr(keys, "to_pylist")
    cells = as_list(keys) if is_column else list(keys)
    numbers = {name: number for number, name in enumerate(names)}
    place = np.array(
        [next((numbers[text] for text in _texts(cell) if text in numbers), -1) for cell in cells],
        dtype=np.intp,
    )
    parts = []
    for number in range(len(names)):
        rows = np.flatnonzero(place == number)
        parts.append(tuple(_rows(table, rows) for table in (X, y) if table is not None))
    return parts


def _texts(cell: Any) -> tuple[str, ...]:
    """Return the texts of a key: the same for equal numbers and dates, whatever holds them."""
    value = read_cell(cell)
    kind = family(value)
    if kind in ("date", "timestamp"):
        # ISO 8601 in its shortest form and in seconds; a day as a day.
        moment = np.datetime64(ticks(value), "ns")
        rounded = [moment.astype(f"M8[{unit}]") for unit in ("D", "s", "us", "ns")]
        return tuple(str(time) for time in rounded if time == moment)
    if value is None or kind not in ("text", "number", "boolean", "uuid"):
        return ()
    return (str(value), f"{value}.0") if type(value) is int else (str(value),)


def _rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows as a table of their own, in the kind of container that X is."""
    if isinstance(X, list | tuple):
        # A list without rows has no columns.
        return [X[i] for i in rows] if rows.size else np.zeros((0, *np.shape(X[:1])[1:]))
    return alone(take(X, rows))
