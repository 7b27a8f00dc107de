"""Rows of any content, for code of the user's that is handed one row at a time.

Nothing is released here, and nothing is read: whoever scores a row knows what its columns are. Rows
in parts are read where they lie; a batch of Arrow becomes a frame of pandas first, because models
do not read Arrow.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.containers import checked, cut, is_listed, is_parts, object_rows, reading
from skdp.tabular.part_tasks import Form, chosen
from skdp.tabular.parts import Pair, PartsRows, checked_parts, heads_of, joined
from skdp.tabular.rows import Rows
from skdp.user_code import or_raise

__all__ = ["opaque_rows"]

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


# --- in parts -------------------------------------------------------------------------------------


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
    if not is_parts(X):
        raise TypeError("y is in parts, so X must be in parts, too")
    source, target = X, y
    if is_parts(y):
        columns, heads = heads_of(X)
        target, _ = heads_of(y)
        source = joined(X, y)
    elif y is None:
        columns, heads = heads_of(X)
    elif hasattr(y, "__len__") and not isinstance(y, str | bytes | tuple):
        raise TypeError("y must be the name of a column of X or a table in parts, as X is in parts")
    else:
        columns, heads = heads_of(X, without=y)
    head = heads[0]
    n_columns = int(head.shape[1]) if len(head.shape) > 1 else 1
    form = OpaqueForm(columns, n_columns, target, y is not None)
    return checked_parts(source, form, head, allow_empty=allow_empty)
