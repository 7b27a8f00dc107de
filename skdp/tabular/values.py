"""One cell of a caller's table as a number, decided by that cell alone.

Nothing is released here. What numpy or pandas would make of many cells at once depends on all of
them: one text cell turns the numbers beside it into text, one complex cell makes all complex. So
lists and objects are read cell by cell. None of the code of a cell's own class runs (a metaclass
may have some), so reading it neither warns nor fails, and gives the same each time.

A number is a bool, an int, a float or a real scalar of numpy (subclasses are read as their base),
a `Decimal`, a `Fraction`, or an array of no dimensions of real numbers. A missing cell (None, NaN,
numpy's masked constant, pandas' NA and NaT) is NaN. Everything else is no number: text and bytes,
also where they read like one, dates and durations, complex numbers, any other object.
"""

from __future__ import annotations

import decimal
import fractions
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.user_code import interruptible, no_restart, run_isolated, suppress_warnings

__all__ = [
    "array_of_rows",
    "cells_of",
    "is_missing",
    "number",
    "numbers",
    "object_rows",
    "rows_of_numbers",
]

Floats = NDArray[np.float64]

_NUMPY = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.longlong, np.uint8, np.uint16, np.uint32,
    np.uint64, np.ulonglong, np.float16, np.float32, np.float64, np.longdouble,
)  # fmt: skip
# Types that numpy converts to float64 one by one, without code of their own.
_EXACT = frozenset({bool, int, float, *_NUMPY})
_STEP = 2**16  # cells converted at a time


def _whole(cell: Any) -> float:
    """Return an integer of any size as a float: infinity beyond the largest."""
    value = int.__int__(cell)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _decimal(cell: Any) -> float:
    return math.nan if decimal.Decimal.is_nan(cell) else decimal.Decimal.__float__(cell)


def _fraction(cell: fractions.Fraction) -> float:
    try:
        return cell.numerator / cell.denominator
    except OverflowError:
        return math.inf if cell.numerator > 0 else -math.inf


def _array(cell: NDArray) -> float | None:
    """Return an array of no dimensions of real numbers as a float."""
    if issubclass(type(cell), np.ma.MaskedArray):
        return None
    plain = np.asarray(cell)  # of a subclass, whose own code does not run then
    if plain.ndim or plain.dtype.kind not in "biuf":
        return None
    return float(plain.astype(np.float64))


def _tick(cell: Any) -> float | None:
    """Return NaN for numpy's NaT; a date or duration is no number."""
    return math.nan if np.isnat(cell) else None


def _nan(cell: Any) -> float:
    return math.nan


_MASKED: type = type(np.ma.masked)
_READERS: dict[type, Callable[[Any], float | None]] = {
    **{kind: kind.__float__ for kind in _NUMPY},
    float: float.__float__,
    int: _whole,
    decimal.Decimal: _decimal,
    type(None): _nan,
    _MASKED: _nan,
    np.datetime64: _tick,
    np.timedelta64: _tick,
    np.ndarray: _array,
}


def is_missing(cell: Any) -> bool:
    """Say whether a cell stands for no value: None, numpy's masked constant, pandas' NA or NaT."""
    kind = type(cell)
    return cell is None or kind is _MASKED or kind.__name__ in ("NAType", "NaTType")


def number(cell: Any) -> float | None:
    """Return a cell as a float, NaN if it is missing, None if it is no number."""
    if type(cell) is float:
        return float(cell)
    if is_missing(cell):
        return math.nan
    if type(cell) is fractions.Fraction:
        return _fraction(cell)
    # By what it inherits, and not by its own methods, which it may have overridden.
    for base in type(cell).__mro__:
        if (read := _READERS.get(base)) is not None:
            return read(cell)
    return None


def numbers(cells: Iterable[Any]) -> tuple[Floats, bool]:
    """Return cells as float64, each by itself, and whether any of them is no number.

    What is missing or no number is NaN. Call it within `suppress_warnings` and `interruptible`:
    a class may have code of its own too.
    """
    items = cells if isinstance(cells, list) else list(cells)
    with np.errstate(all="ignore"):  # a long double beyond the range is infinite
        fast: Floats | None = run_isolated(lambda: _at_once(items), None, no_restart)
        if fast is not None:
            return fast, False
        found = [run_isolated(functools.partial(number, cell), None, no_restart) for cell in items]
    values = np.array([math.nan if v is None else v for v in found], dtype=np.float64)
    return values, None in found


def _at_once(items: list[Any]) -> Floats | None:
    """Return cells of plain numbers, which numpy converts one by one; None if others are there."""
    if not set(map(type, items)) <= _EXACT:
        return None
    return np.array(items, dtype=np.float64)  # raises for an integer without a float


# --- rows of lists ----------------------------------------------------------------------------


def cells_of(row: Any) -> Any:
    """Return what a row of a list iterates over: its cells; None if it is one cell.

    A list, a tuple, another sequence or something that numpy makes an array of, but no text.
    """
    kind = type(row)
    if kind is list or kind is tuple:
        return row
    if kind is float or kind is int or kind is str or row is None:
        return None
    return run_isolated(lambda: _cells_of(row), None, no_restart)


def _cells_of(row: Any) -> Any:
    if issubclass(type(row), str | bytes | bytearray | np.generic):
        return None
    if hasattr(type(row), "__array__"):
        # One row by itself. Iterating gives numpy's scalars, so that dates stay dates.
        array = np.asanyarray(row)
        if not array.flags.owndata:  # a view may lead out of what it is a view of
            from skdp.tabular.sound import sound

            sound(array)
        if array.ndim == 0:
            return None
        return list(array) if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
    return list(row) if isinstance(row, Sequence) else None


def _rows(X: Iterable[Any]) -> tuple[list[Any], tuple[int, ...]] | None:
    """Return the cells of each row of a list, and the shape of a row; of a flat list itself and ().

    None if some rows have another shape than others.
    """
    items = list(X)
    if run_isolated(lambda: set(map(type, items)) <= _EXACT, False, no_restart):
        return items, ()
    rows = [cells_of(row) for row in items]
    shapes = {() if row is None else getattr(row, "shape", (len(row),)) for row in rows}
    if len(shapes) > 1:
        return None
    shape = shapes.pop() if shapes else ()
    return (rows if shape else items), shape


def rows_of_numbers(X: Iterable[Any]) -> tuple[Floats | None, bool]:
    """Return a list of rows, or of numbers, as float64, and whether any cell is no number.

    None if the rows have different shapes, or some are none.
    """
    if (found := run_isolated(lambda: _rows(X), None, no_restart)) is None:
        return None, False
    rows, shape = found
    if not shape:
        return numbers(rows)
    values = np.empty((len(rows), shape[0]))
    strange = False
    step = max(1, _STEP // max(shape[0], 1))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        flat, other = numbers(itertools.chain.from_iterable(part))
        values[start : start + step] = flat.reshape(len(part), shape[0])
        strange |= other
    return values, strange


def object_rows(X: Iterable[Any]) -> NDArray[np.object_] | None:
    """Return a list of rows, or of cells, as an array of the cells as they are.

    None if the rows have different shapes, or some are none.
    """
    if (found := run_isolated(lambda: _rows(X), None, no_restart)) is None:
        return None
    rows, shape = found
    table = np.empty((len(rows), *shape), dtype=object)
    for i, row in enumerate(rows):
        if len(shape) == 1:
            for j, cell in enumerate(row):
                table[i, j] = cell
        else:
            table[i] = row
    return table


def array_of_rows(X: Iterable[Any]) -> NDArray | None:
    """Return a list of rows as an array that reads as they do: of numbers, or of objects.

    None if the rows have different shapes, or some are none.
    """
    with suppress_warnings(), interruptible():
        table = object_rows(X)
    if table is not None and set(map(type, table.ravel().tolist())) <= {bool, int, float}:
        return np.array(table.tolist()).reshape(table.shape)  # each cell to a number of its own
    return table
