"""Checks of a table for GROUP BY, before any charge.

Whether a table is accepted depends on its columns and their declared types, never on its cells.
Rows without an id are left out, and rows without a key too (``dropna=True``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from skdp.tabular.batches import Batches, batches_of_parts, batches_of_relation, is_relation, opened
from skdp.tabular.buckets import Collected, SpillError, combined
from skdp.tabular.columns import (
    ColumnType,
    coded,
    coded_ids,
    numbers_of,
    stated_type,
    type_of_column,
)
from skdp.tabular.containers import (
    checked,
    column_names,
    is_frame,
    is_listed,
    is_parts,
    is_sliced_table,
    listed,
)
from skdp.tabular.contributions import Bucket, Contributions
from skdp.user_code import or_raise

__all__ = ["check_grouped"]

_NOT_FLAT = "columns must be arrays of one dimension and one length"
_KEYS = (
    "keys of column {name!r} cannot be of its type. They may be text, numbers, booleans, dates, "
    "timestamps, times, durations, bytes, UUIDs or intervals: convert the column first"
)
_IDS = (
    "unit column {name!r} must hold ids that are numbers, text, bytes, dates, timestamps or UUIDs; "
    "make a text of other ids first"
)
_CONVERTED = {  # stated types that differ from the type of a column, and may be read from it
    ("integer", "float"), ("float", "integer"), ("date", "timestamp"), ("timestamp", "date"),
    ("decimal", "float"), ("decimal", "integer"),
}  # fmt: skip
_NUMBERS = ("boolean", "integer", "float", "decimal")
_NO_IDS = ("other", "interval")


def check_grouped(
    table: Any,
    *,
    by: Sequence[str],
    unit: str | None,
    columns: Sequence[str],
    types: Mapping[str, str] | None = None,
    dropna: bool = True,
    random_state: Any = None,
    allow_empty: bool = False,
) -> Contributions:
    """Return the contributions of a checked table; called before any charge, so it may raise.

    Parameters
    ----------
    table : table of pandas, polars or pyarrow, dict of arrays, DuckDB relation, Source, or path
        Of Parquet files, if a path.
    by : sequence of str
        Key columns.
    unit : str or None
        Column of ids; None if each row is a unit.
    columns : sequence of str
        Columns of numbers.
    types : dict, default=None
        Stated types of key columns of objects or categories: some of `STATED_TYPES`.
    dropna : bool, default=True
        Whether rows with a missing key are left out; else None is a key.

    Raises
    ------
    TypeError, ValueError
        Name the column; quote no cell.
    """
    by, columns, ids = list(by), list(columns), [] if unit is None else [unit]
    stated = {name: stated_type(kind, name) for name, kind in (types or {}).items()}
    if extra := [name for name in stated if name not in by]:
        raise ValueError(f"types must be of key columns: {extra} are none")
    if is_parts(table) or is_relation(table):
        if is_parts(table):
            batches = batches_of_parts(table, (*by, *ids, *columns))
        else:
            batches = batches_of_relation(opened(table))
            allow_empty = True  # a condition of the relation decides how many rows there are
        _check_names(tuple(batches.types), by=by, unit=unit, columns=columns)
        _check_types(batches.types, stated, by=by, unit=unit, columns=columns)
        return _read(batches, ids, by, columns, stated, dropna, random_state, allow_empty)
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
    of = {name: _column(table, name) for name in (*by, *ids, *columns)}
    lengths = {_shape(cells) for cells in of.values()}
    if len(lengths) != 1 or len(next(iter(lengths))) != 1:
        raise ValueError(_NOT_FLAT)
    kinds = {name: type_of_column(cells) for name, cells in of.items()}
    _check_types(kinds, stated, by=by, unit=unit, columns=columns, lists=of)
    ((n,),) = lengths
    if not n and not allow_empty:
        raise ValueError("table has no rows")
    if unit is None:
        units, words = np.arange(n), np.arange(n, dtype=np.uint64)
    else:
        units, words = coded_ids(of[unit], kinds[unit])
    parts = [coded(of[name], stated.get(name, kinds[name]), kinds[name]) for name in by]
    code, keys = combined(parts, dropna)
    values = {name: numbers_of(of[name], kinds[name]) for name in columns}
    remaining = (units >= 0) & (code >= 0)
    if not remaining.all():
        units, code = units[remaining], code[remaining]
        values = {name: cells[remaining] for name, cells in values.items()}
    blocks = Bucket.of_rows(units, code, words, values).blocks()
    return Contributions(
        lambda: blocks,
        keys,
        len(columns),
        random_state,
        unit,
        {name: stated.get(name, kinds[name]) for name in by},
    )


def _read(
    batches: Batches,
    ids: list[str],
    by: list[str],
    columns: list[str],
    stated: dict[str, ColumnType],
    dropna: bool,
    random_state: Any,
    allow_empty: bool,
) -> Contributions:
    """Return the contributions of a table that is read once, in batches."""
    kinds = batches.types
    of_keys = {name: stated.get(name, kinds[name]) for name in by}
    rows = Collected(
        kinds[ids[0]] if ids else None,
        [(kinds[name], of_keys[name]) for name in by],
        {name: kinds[name] for name in columns},
        dropna,
    )

    def read() -> None:
        for batch in batches.read((*ids, *by), columns):
            rows.add(batch)
        rows.finish()

    try:
        or_raise(read, batches.failure, own=(SpillError,))
        if not rows.n and not allow_empty:
            raise ValueError("table has no rows")
        return Contributions(
            rows.buckets,
            rows.keys,
            len(columns),
            random_state,
            ids[0] if ids else None,
            of_keys,
            rows.close,
        )
    except BaseException:
        rows.close()
        raise


def _check_names(
    names: Sequence[Any], *, by: Sequence[str], unit: str | None, columns: Sequence[str]
) -> None:
    """Raise for columns that do not exist, or are both key and unit."""
    if not by:
        raise ValueError("by must name at least one column")
    for name in (*by, *([] if unit is None else [unit]), *columns):
        if name not in names:
            raise ValueError(f"table has no column {name!r}; it has {listed(names)}")
        if list(names).count(name) > 1:
            raise ValueError(f"table has two columns {name!r}; rename one of them")
    if unit in by:
        raise ValueError(
            f"column {unit!r} is the unit; a key of its own for every unit would name it: "
            "by must be other columns"
        )
    if len(set(by)) < len(by):
        raise ValueError("by must name each column once")


def _check_types(
    kinds: Mapping[str, ColumnType],
    stated: Mapping[str, ColumnType],
    *,
    by: Sequence[str],
    unit: str | None,
    columns: Sequence[str],
    lists: Mapping[str, Any] | None = None,
) -> None:
    """Raise for columns whose declared type does not fit."""
    for name in by:
        own = kinds[name].kind
        if own == "other":
            raise TypeError(_KEYS.format(name=name))
        of = stated[name].kind if name in stated else own
        if own not in ("any", of) and (own, of) not in _CONVERTED and of != "text":
            raise TypeError(
                f"types: column {name!r} has a type already, and no cell of it is {of}; leave it "
                "out, or convert the column"
            )
    if unit is not None and kinds[unit].kind in _NO_IDS:
        raise TypeError(_IDS.format(name=unit))
    for name in columns:
        if kinds[name].kind in _NUMBERS or is_listed((lists or {}).get(name)):
            continue
        raise TypeError(
            f"column {name!r} must hold numbers, by its type: write table[{name!r}].astype(float)"
            if kinds[name].kind == "any"
            else f"column {name!r} must hold numbers"
        )


def _column(table: Any, name: str) -> Any:
    """Return a column: a list, or a column of numpy, pandas, polars or pyarrow."""
    cells = table[name]
    if isinstance(cells, list | tuple | np.ndarray):
        return cells
    if type(cells).__module__.partition(".")[0] == "pandas" and not hasattr(cells, "iloc"):
        return import_module("pandas").Series(cells)  # an index, or an array of pandas
    if hasattr(cells, "dtype") or hasattr(cells, "to_pylist"):
        return cells
    text = f"column {name!r} cannot be read as an array"
    if is_listed(cells):
        return or_raise(lambda: list(cells), lambda: TypeError(text))
    return or_raise(lambda: np.asarray(cells), lambda: TypeError(text))


def _shape(cells: Any) -> tuple[int, ...]:
    """Return the shape of a column; a list has one dimension, whatever its cells are."""
    if isinstance(cells, list | tuple) or hasattr(cells, "to_pylist"):  # or of pyarrow
        return (len(cells),)
    found: tuple[int, ...] = or_raise(lambda: tuple(np.shape(cells)), lambda: ValueError(_NOT_FLAT))
    return found
