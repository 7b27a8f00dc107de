"""The entrance of rows that are grouped by key and held by unit: checked before any charge.

Nothing is released here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.batches import Batches, batches_of_parts, batches_of_relation, is_relation, opened
from skdp.tabular.buckets import Collected, SpillError
from skdp.tabular.containers import (
    checked,
    column_names,
    is_frame,
    is_parts,
    is_sliced_table,
    listed,
    to_float,
)
from skdp.tabular.contributions import Contributions, GroupedTable
from skdp.tabular.grouped_keys import (
    codes_of_column,
    column,
    families_of,
    key_codes,
    length,
    words_of,
)
from skdp.tabular.terms import Ints
from skdp.user_code import or_raise

__all__ = ["check_grouped"]

_MISSING = (
    "{what} column {name!r} has missing values{dates}; drop these rows, or put in a value that "
    "says so"
)
_NOT_FLAT = "columns must be arrays of one dimension and one length"


def check_grouped(
    table: Any,
    *,
    by: Sequence[str],
    unit: str,
    columns: Sequence[str],
    random_state: Any = None,
    allow_empty: bool = False,
) -> Contributions:
    """Return checked rows by unit and key. Nothing has been charged, so it may raise.

    Parameters
    ----------
    table : table of pandas, polars or pyarrow, dict of arrays, DuckDB relation, Source, or path
        Of Parquet files, if a path.
    by : sequence of str
        Key columns.
    unit : str
        Column of ids.
    columns : sequence of str
        Columns of numbers.

    Raises
    ------
    TypeError, ValueError
        Name the column; quote no cell.
    """
    by, columns = list(by), list(columns)
    if is_parts(table) or is_relation(table):
        if is_parts(table):
            batches = batches_of_parts(table, (*by, unit, *columns))
        else:
            batches = batches_of_relation(opened(table))
        return _read(
            batches,
            by=by,
            unit=unit,
            columns=columns,
            random_state=random_state,
            allow_empty=allow_empty,
        )
    if not (is_frame(table) or is_sliced_table(table) or isinstance(table, dict)):
        raise TypeError(
            "table must be one of pandas, polars or pyarrow, a dict of arrays, a DuckDB relation, "
            f"a table in parts or the path of a Parquet file, got {type(table).__name__}"
        )
    if isinstance(table, dict):
        table = {name: checked(cells, f"column {name!r}") for name, cells in table.items()}
    else:
        table = checked(table, "table")
    names = tuple(table) if isinstance(table, dict) else column_names(table)
    _check_names(names, by=by, unit=unit, columns=columns)
    if isinstance(table, dict):
        lengths = {_shape(table[name]) for name in (*by, unit, *columns)}
        if len(lengths) != 1 or len(next(iter(lengths))) != 1:
            raise ValueError(_NOT_FLAT)
    if not length(table) and not allow_empty:
        raise ValueError("table has no rows")
    units, ids = codes_of_column(table, unit, "unit")
    code: Ints = np.zeros(len(units), dtype=np.int64)
    parts: list[tuple[Ints, list[Any]]] = []
    families = {}
    for name in by:
        codes, values = key_codes(table, name)
        parts.append((codes, values))
        families[name] = families_of(table, name, values)
        code = code * max(len(values), 1) + codes
        _, code = np.unique(code, return_inverse=True)
    first = np.unique(code, return_index=True)[1]
    keys = [tuple(values[codes[i]] for codes, values in parts) for i in first.tolist()]
    numbers_of = {name: _numbers(column(table, name), name) for name in columns}
    named = [key[0] for key in keys] if len(by) == 1 else list(keys)
    words = words_of(ids)
    return GroupedTable(units, code, named, numbers_of, random_state, unit, words, families)


def _read(
    batches: Batches,
    *,
    by: list[str],
    unit: str,
    columns: list[str],
    random_state: Any,
    allow_empty: bool,
) -> Contributions:
    """Return the rows of a table that is read once, in batches."""
    _check_names(batches.names, by=by, unit=unit, columns=columns)
    kinds = batches.kinds(unit, by, columns)
    kinds.check(unit, by, columns)
    rows = Collected(kinds, columns)

    def read() -> None:
        for batch in batches.read(unit, by, columns):
            rows.add(batch)
        rows.finish()

    try:
        or_raise(read, batches.failure, own=(SpillError,))
        if not rows.n and not allow_empty:
            raise ValueError("table has no rows")
        for i in sorted(rows.missing):
            what, name = ("key" if i else "unit"), [unit, *by][i]
            dates = " or infinite dates" if i and kinds.by[i - 1] == "date" else ""
            raise ValueError(_MISSING.format(what=what, name=name, dates=dates))
        return Contributions(
            rows.buckets,
            rows.keys,
            len(columns),
            random_state,
            unit,
            kinds.families(by),
            rows.close,
        )
    except BaseException:
        rows.close()
        raise


def _check_names(
    names: Sequence[Any], *, by: Sequence[str], unit: str, columns: Sequence[str]
) -> None:
    """Raise for columns that a table has not, or that are both key and unit."""
    if not by:
        raise ValueError("by must name at least one column")
    for name in (*by, unit, *columns):
        if name not in names:
            raise ValueError(f"table has no column {name!r}; it has {listed(names)}")
    if unit in by:
        raise ValueError(
            f"column {unit!r} is the unit; a key of its own for every unit would name it: "
            "by must be other columns"
        )
    if len(set(by)) < len(by):
        raise ValueError("by must name each column once")


def _shape(cells: Any) -> tuple[int, ...]:
    """Return the shape of a column; that of a list is its length, whatever its cells are."""

    def shape() -> tuple[int, ...]:
        has_length = isinstance(cells, list | tuple) or hasattr(cells, "to_pylist")  # or of pyarrow
        return (len(cells),) if has_length else tuple(np.shape(cells))

    found: tuple[int, ...] = or_raise(shape, lambda: ValueError(_NOT_FLAT))
    return found


def _numbers(cells: Any, name: str) -> NDArray[np.float64]:
    """Return a column as float64, NaN for what is missing."""
    values, problem = to_float(cells)
    if values is None or problem or values.ndim != 1:
        raise TypeError(f"column {name!r} must hold numbers")
    return np.ascontiguousarray(values)
