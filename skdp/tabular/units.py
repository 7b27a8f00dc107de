"""Ids that say whose a row is: checked once, before any charge, and made codes.

Nothing is released here. Two rows are of one unit if their ids are equal: numbers by their value,
whatever holds them (1, 1.0 and True are one id), texts character by character ("1" is another id
than 1), dates and durations by their instant or length, bytes and UUIDs as they are. What stands
for one unit is never taken for two, nor two ids for one: what cannot be compared by its value is
refused. Error texts are fixed and quote no id.
"""

from __future__ import annotations

import decimal
import fractions
import functools
import hashlib
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core.units import UnitRows
from skdp.tabular.canonical import as_list, plain
from skdp.tabular.containers import checked, is_frame, is_listed, is_sliced_table
from skdp.user_code import interruptible, no_restart, run_isolated, suppress_warnings

__all__ = ["GONE", "ODD", "UnitCounts", "Units", "check_units", "id_key", "ids_of", "name_of_ids"]

_NOT_FLAT = "{estimator}: groups must be one-dimensional, one id for each row of X."
_OTHER_LENGTH = "{estimator}: groups must have as many entries as X has rows."
_MISSING = (
    "{estimator}: groups must have an id for every row, and some are missing (None, NaN, NaT or "
    "NA). Give such rows an id of your own, groups.fillna('unknown') say: all of them count as one "
    "unit then."
)
_STRANGE = (
    "{estimator}: groups must be numbers, texts, bytes, dates or UUIDs, one in each entry. Make a "
    "text of other ids first."
)
GONE, ODD = object(), object()  # for a missing id, and for what is none


@dataclass(frozen=True, eq=False, repr=False)
class Units:
    """Whose each row is.

    Attributes
    ----------
    codes : ndarray of int of shape (n_rows,)
        Of the unit of each row, from 0 to the number of units.
    words : ndarray of uint64
        A hash of each unit's id.
    """

    codes: NDArray[np.int64]
    words: NDArray[np.uint64]


class UnitCounts(UnitRows):
    """A table with a row for each unit: the number of its rows.

    Under "replace_one" a unit may have no row before, or after: then a row enters, or leaves.

    Parameters
    ----------
    units : Units
    name : str
        Of the unit.
    """

    filtered, units = True, None

    def __init__(self, units: Units, name: str) -> None:
        super().__init__(np.bincount(units.codes, minlength=units.words.size).astype(np.int64))
        self.unit_name = name


def name_of_ids(groups: Any) -> str | None:
    """Return the name of a column of ids; None where it has none."""
    if is_frame(groups) or is_sliced_table(groups):
        names = list(getattr(groups, "column_names", groups.columns))
        name = names[0] if len(names) == 1 else None
    else:
        name = getattr(groups, "name", None)
    return name if isinstance(name, str) and name else None


def check_units(groups: Any, n_rows: int | None, *, estimator: str) -> Units:
    """Return the units of rows by their ids.

    Guarantee: whether two rows are of one unit depends on their ids alone; nothing of an id is in
    an error.

    Parameters
    ----------
    groups : array-like of shape (n_rows,)
        Ids; numpy, pandas, polars, pyarrow or a list.
    n_rows : int or None
        None: as many as there are ids.
    estimator : str
        Name for error messages.

    Raises
    ------
    ValueError
        If groups has another length or more dimensions, or an id is missing.
    TypeError
        If an entry is no id.
    """
    cells, problem = _column(groups)
    if not problem and n_rows not in (None, len(cells)):
        problem = _OTHER_LENGTH
    if problem:
        raise ValueError(problem.format(estimator=estimator))
    with suppress_warnings(), interruptible():  # an id's own conversion may warn, or raise
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "biufUSMm":
            found, problem = _of_array(cells)
        else:
            found, problem = _of_objects(as_list(cells) if hasattr(cells, "dtype") else cells)
    if problem == _STRANGE:
        raise TypeError(problem.format(estimator=estimator))
    if problem or found is None:
        raise ValueError(problem.format(estimator=estimator))
    return found


def ids_of(groups: Any) -> NDArray:
    """Return ids that `check_units` has accepted as an array, each entry as it was."""
    cells, _ = _column(groups)
    if isinstance(cells, np.ndarray):
        return cells
    return np.fromiter(as_list(cells) if hasattr(cells, "dtype") else cells, dtype=object)


def _column(groups: Any) -> tuple[Any, str]:
    """Return ids as an array of one dimension or a list, and what is wrong with their shape."""
    if isinstance(groups, str | bytes) or groups is None:
        return (), _NOT_FLAT
    groups = checked(groups, "groups")
    if is_frame(groups) or (is_sliced_table(groups) and not hasattr(groups, "dtype")):
        if groups.shape[1] != 1:
            return (), _NOT_FLAT
        if is_frame(groups):
            groups = groups.iloc[:, 0]
        else:
            groups = groups.column(0) if hasattr(groups, "column") else groups.to_series(0)
    if is_listed(groups):
        return list(groups), ""
    if isinstance(groups, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(groups)
        groups = np.array(groups.data, dtype=object)
        groups[mask] = None
    if isinstance(groups, np.ndarray):
        array = np.asarray(groups)
        return array, "" if array.ndim == 1 else _NOT_FLAT
    dtype = getattr(groups, "dtype", None)
    if hasattr(groups, "iloc") and isinstance(dtype, np.dtype) and dtype.kind in "biufMm":
        return groups.to_numpy(), ""
    if hasattr(groups, "to_pylist") or hasattr(groups, "to_list"):
        return as_list(groups), ""
    array = run_isolated(lambda: np.asarray(groups), None, no_restart)
    if array is None or array.ndim != 1:
        return (), _NOT_FLAT
    return array, ""


def _of_array(cells: NDArray) -> tuple[Units | None, str]:
    """Return the units of an array of one plain type."""
    if cells.dtype.kind == "f":
        if np.isnan(cells).any():
            return None, _MISSING
        floats = cells.astype(np.float64) + 0.0  # one zero
        if cells.dtype.itemsize > 8 and (floats != cells).any():  # rounded, two ids would be one
            return None, _STRANGE
        cells = floats
    elif cells.dtype.kind in "Mm" and np.isnat(cells).any():
        return None, _MISSING
    known, codes = np.unique(cells, return_inverse=True)
    if cells.dtype.kind in "biu":
        words = known.astype(np.uint64)
    else:
        keys = [plain(one) for one in known] if cells.dtype.kind in "Mm" else known.tolist()
        words = np.array([_word(one) for one in keys], dtype=np.uint64)
    return Units(codes.reshape(-1).astype(np.int64), words), ""


def _of_objects(cells: list[Any]) -> tuple[Units | None, str]:
    """Return the units of ids of any types, each read by itself."""
    found: dict[Any, int] = {}
    codes = np.empty(len(cells), dtype=np.int64)
    problems = set()
    for i, cell in enumerate(cells):
        key = (
            cell
            if type(cell) is str
            else run_isolated(functools.partial(id_key, cell), ODD, no_restart)
        )
        if key is ODD or key is GONE:
            problems.add(_STRANGE if key is ODD else _MISSING)
            continue
        codes[i] = found.setdefault(key, len(found))
    if problems:
        return None, _STRANGE if _STRANGE in problems else _MISSING
    return Units(codes, np.array([_word(key) for key in found], dtype=np.uint64)), ""


def id_key(cell: Any) -> Any:
    """Return what an id is compared by: a value of a type whose equality is its own.

    `GONE` for a missing one, and `ODD` for what cannot be compared by its value.
    """
    if isinstance(cell, str):
        return str.__str__(cell)
    if isinstance(cell, bytes):
        return bytes(memoryview(cell))
    value = plain(cell)
    if value is None:
        return GONE
    if isinstance(cell, np.datetime64 | np.timedelta64) and type(value) is not tuple:
        return ODD  # of a unit that is no number of nanoseconds: years of a span, picoseconds
    if isinstance(value, np.floating):  # longer than a float: rounded, two ids would be one
        value = float(value) if float(value) == value else ODD
    kind = type(value)
    if kind is decimal.Decimal:
        return GONE if value.is_nan() else value
    if kind in (bool, int, float, fractions.Fraction, str, bytes, uuid.UUID):
        return value
    if kind is tuple and not isinstance(cell, tuple):  # a date, as `plain` has it
        return value
    if isinstance(value, int):  # an enumeration, say
        return int.__int__(value)
    return ODD


def _word(key: Any) -> int:
    """Return a 64-bit hash of what an id is compared by; equal ids have the same.

    A whole number is its own, so that columns of them need no loop.
    """
    number = isinstance(key, int | float | decimal.Decimal | fractions.Fraction)
    # Its size first: the digits of Decimal("1e999999999") fill no memory.
    if number and -(2**63) <= key < 2**64 and int(key) == key:
        return int(key) % 2**64
    if isinstance(key, str):
        content = b"t" + key.encode("utf-8", "surrogatepass")
    elif isinstance(key, bytes):
        content = b"b" + key
    elif number:
        content = b"n%d" % hash(key)  # the same for equal numbers of all types, in all processes
    else:
        content = b"o" + repr(key).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
