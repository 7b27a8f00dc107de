"""Ids of the units that rows belong to: checked once, before any charge.

Two rows are of one unit if their ids are equal, as `skdp.tabular.cells` reads them: numbers by
their value (1, 1.0 and True are one id), text character by character ("1" is another id than 1),
dates and durations by their instant or length, bytes and UUIDs as they are. An id of another type
counts as missing. Error texts are fixed and quote no id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core.table import REPLACE_ONE
from skdp.core.units import UnitRows
from skdp.tabular.columns import coded_ids, flat_array, flat_column, type_of_column
from skdp.tabular.containers import is_frame, is_listed, is_sliced_table

_NOT_FLAT = "{estimator}: groups must be one-dimensional, one id for each row of X."
_OTHER_LENGTH = "{estimator}: groups must have as many entries as X has rows."
_MISSING = (
    "{estimator}: groups must have an id for every row under adjacency='replace_one', because the "
    "number of users is public there; some ids are missing (None, NaN, NaT or NA) or are no "
    "numbers, text, bytes, dates or UUIDs. Use a budget with adjacency='add_or_remove_one', which "
    "leaves such rows out, or drop the rows. Nothing was charged for this fit."
)
_STRANGE = (
    "{estimator}: groups must be numbers, texts, bytes, dates or UUIDs, one in each entry. Make a "
    "text of other ids first."
)


@dataclass(frozen=True, eq=False, repr=False)
class Units:
    """The unit of each row: its number, -1 without an id, and a hash of each unit's id."""

    codes: NDArray[np.int64]
    words: NDArray[np.uint64]


class UnitCounts(UnitRows):
    """A table with a row for each unit: the number of its rows.

    Under "replace_one" a unit may have no row before, or after: then a row enters, or leaves.
    """

    filtered, units = True, None

    def __init__(self, units: Units, name: str) -> None:
        codes = units.codes[units.codes >= 0]
        super().__init__(np.bincount(codes, minlength=units.words.size).astype(np.int64))
        self.unit_name = name


def name_of_ids(groups: Any) -> str | None:
    """Return the name of a column of ids; None where it has none."""
    if is_frame(groups) or is_sliced_table(groups):
        names = list(getattr(groups, "column_names", groups.columns))
        name = names[0] if len(names) == 1 else None
    else:
        name = getattr(groups, "name", None)
    return name if isinstance(name, str) and name else None


def check_units(
    groups: Any, n_rows: int | None, *, estimator: str, adjacency: str = REPLACE_ONE
) -> Units:
    """Return the units of rows by their ids (numpy, pandas, polars, pyarrow or a list).

    Guarantee: whether two rows are of one unit depends on their ids alone; no error quotes an id.
    Under "replace_one" a missing id is refused, under "add_or_remove_one" its code is -1. `n_rows`
    may be None: the number of ids.
    """
    cells = _column(groups)
    if cells is None or n_rows not in (None, len(cells)):
        text = _NOT_FLAT if cells is None else _OTHER_LENGTH
        raise ValueError(text.format(estimator=estimator))
    kind = type_of_column(cells)
    if kind.kind in ("other", "interval") or hasattr(groups, "levels"):  # an index of several
        raise TypeError(_STRANGE.format(estimator=estimator))
    codes, words = coded_ids(cells, kind)
    if adjacency == REPLACE_ONE and (codes < 0).any():
        raise ValueError(_MISSING.format(estimator=estimator))
    # A category, or an id under a mask, may have no row: it is no unit.
    used = np.bincount(codes[codes >= 0], minlength=words.size) > 0
    place = np.append(np.cumsum(used) - 1, [-1, -1])
    return Units(place[codes], words[used])


def ids_of(groups: Any) -> NDArray:
    """Return ids that `check_units` has accepted as an array, each entry as it was."""
    return flat_array(_column(groups))


def _column(groups: Any) -> Any:
    """Return ids as a column of any library or a list; None if they have another shape."""
    if isinstance(groups, str | bytes) or groups is None:
        return None
    return list(groups) if is_listed(groups) else flat_column(groups, "groups")
