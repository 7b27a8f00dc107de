"""The entrance of private rows: one check of the table, then chunks of float64.

`check_rows` decides everything that may be an error (shape, type, NaN, infinity) once, before any
charge, with fixed texts that quote no cell. After it, reading the rows cannot fail. `Rows` returns
chunks: a memory-mapped array may be larger than memory, and there is no second copy of the data.

A privacy unit is one row, or all rows with one id. `Rows` with `units` know the unit of each row,
and the core bounds the rows of each unit (`skdp.core.units`). Two rows are of one unit if their ids
are equal, as `skdp.tabular.cells` reads them: numbers by their value (1, 1.0 and True are one id),
text character by character ("1" is another id than 1), dates and durations by their instant or
length, bytes and UUIDs as they are. An id of another type counts as missing.
"""

from __future__ import annotations

import copy
import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skdp.core.table import MAX_FEATURES, REPLACE_ONE, _chunk_rows
from skdp.core.units import UnitRows
from skdp.tabular.columns import coded_ids, flat_column, type_of_column
from skdp.tabular.containers import (
    alone,
    any_type,
    array_of,
    checked,
    column_names,
    cut,
    is_frame,
    is_listed,
    is_sliced_table,
    refuse_other_arrays,
    refused_type,
    rows_of_numbers,
    take,
    to_float,
    type_ranges,
)
from skdp.tabular.parts import (
    NO_ROWS,
    ONE_PLACE,
    Form,
    PartsRows,
    Source,
    checked_parts,
    heads_of,
    is_parts,
    names_in,
    refuse_parts,
)
from skdp.tabular.sound import own_sparse
from skdp.user_code import no_restart, reading, run_isolated

# --- ids of units ---------------------------------------------------------------------------------

_NOT_FLAT_IDS = "{estimator}: groups must be one-dimensional, one id for each row of X."
_OTHER_LENGTH_IDS = "{estimator}: groups must have as many entries as X has rows."
_MISSING_IDS = (
    "{estimator}: groups must have an id for every row under adjacency='replace_one', because the "
    "number of users is public there; some ids are missing (None, NaN, NaT or NA) or are no "
    "numbers, text, bytes, dates or UUIDs. Use a budget with adjacency='add_or_remove_one', which "
    "leaves such rows out, or drop the rows. Nothing was charged for this fit."
)
_STRANGE_IDS = (
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


def public_length(rows: Any) -> int | None:
    """Return the number of rows if it is public where rows are replaced; None if it is private."""
    return None if rows.filtered or rows.n_is_private else rows._n


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
    cells = _ids(groups)
    if cells is None or n_rows not in (None, len(cells)):
        text = _NOT_FLAT_IDS if cells is None else _OTHER_LENGTH_IDS
        raise ValueError(text.format(estimator=estimator))
    kind = type_of_column(cells)
    if kind.kind in ("other", "interval") or hasattr(groups, "levels"):  # an index of several
        raise TypeError(_STRANGE_IDS.format(estimator=estimator))
    codes, words = coded_ids(cells, kind)
    if adjacency == REPLACE_ONE and (codes < 0).any():
        raise ValueError(_MISSING_IDS.format(estimator=estimator))
    # A category, or an id under a mask, may have no row: it is no unit.
    used = np.bincount(codes[codes >= 0], minlength=words.size) > 0
    place = np.append(np.cumsum(used) - 1, [-1, -1])
    return Units(place[codes], words[used])


def _ids(groups: Any) -> Any:
    """Return ids as a column of any library or a list; None if they have another shape."""
    if isinstance(groups, str | bytes) or groups is None:
        return None
    return list(groups) if is_listed(groups) else flat_column(groups, "groups")


# --- rows ----------------------------------------------------------------------------------------

_NOT_FINITE = (
    "Input X contains NaN or infinity; X must be finite. Fill such cells from public knowledge "
    "before the private step (SimpleImputer(strategy='constant')), privately (DPSimpleImputer; "
    ".set_output(transform='pandas') where a later step goes by column names, as bounds may), or "
    "leave their rows out with nan_policy='omit' where a function has it. Do not drop the rows "
    "yourself: how many are left is private, and would be taken for public."
)
_INFINITE = (
    "Input X contains infinity, which is not missing: nan_policy='omit' leaves out rows with NaN, "
    "None or NA only. Replace infinity before the call by a value from public knowledge, such as "
    "a bound of its column, or by NaN."
)
_NOT_A_NUMBER = (
    "X must be numeric, and has non-numeric data:\ncould not convert string to float: the argument "
    "must be no string, date or other object but a real number, in every cell. Encode other "
    "columns first, in a ColumnTransformer: DPOneHotEncoder, or DPOrdinalEncoder where codes are "
    "wanted."
)
_COMPLEX = "Complex data not supported: X must be real."
_RAGGED = (
    "X must be a table of two dimensions, with as many cells in each row as in the others. "
    "Expected 2D array."
)
_NOT_MARKS = "y must mark every row of X: 1 for a private row, 0 for a public one."
_NO_PUBLIC = "y marks no public row (one class only): at least one must be 0."
_NO_PRIVATE = "y marks no private row (one class only): at least one must be 1."
_SAME_NAME = "X has columns of the same name; the names of its columns must be distinct."


class NotNumericError(TypeError, ValueError):
    """A cell is no number: ValueError for text and TypeError for objects, as for scikit-learn.

    Which of both a cell holds is private.
    """


def _raise(problems: str | Iterable[str], X: Any = None) -> None:
    """Raise the fixed text of a problem; of several problems, always of the same one.

    It names the columns of X whose public type may hold anything.
    """
    problems = {problems} if isinstance(problems, str) else set(problems)
    if problems & {"type", "value"}:
        types = "".join(f" The type of column {c!r} is {t}." for c, t in any_type(X).items())
        raise NotNumericError(_NOT_A_NUMBER + types)
    if "finite" in problems:
        raise ValueError(_NOT_FINITE)
    if "infinite" in problems:
        raise ValueError(_INFINITE)


def _no_table(X: Any, *, flat: bool = False) -> Any:
    """Return what has no columns of its own as an array of two dimensions (or `flat`), or raise."""
    if is_listed(X):
        with reading():
            array, strange = rows_of_numbers(X)
        if array is None:
            raise ValueError(_RAGGED)
        if strange and (flat or array.ndim == 2):
            raise NotNumericError(_NOT_A_NUMBER)
    else:
        refuse_other_arrays(X)
        with reading():  # the text of an error may quote a cell
            array = run_isolated(lambda: array_of(X), None, no_restart)
        _raise("" if array is not None else "value")
    array = checked(array)
    if isinstance(array, np.ma.MaskedArray):
        # The cells below the mask would count with whatever they hold.
        raise TypeError("X must not be a masked array; use X.filled(...) from public knowledge.")
    # A view of the exact class: code of a subclass could treat rows differently, and the caller
    # cannot change the shape of our view.
    array = np.asarray(array).view()
    if isinstance(X, str | os.PathLike):
        raise ValueError(
            "Expected 2D array, got 0D array instead: X must be a table, not a text. Of a file, "
            "skdp.engines.read_parquet(path) reads the rows in parts."
        )
    if array.ndim != 2 and not flat:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: X must have shape (n_samples, "
            "n_features). Reshape your data with X.reshape(-1, 1) if it has one feature or "
            "X.reshape(1, -1) if it is one sample."
        )
    return array


def _container(X: Any, estimator: str) -> Any:
    """Return X as something that can be cut into chunks of two dimensions, or raise."""
    if sparse.issparse(X):
        raise TypeError(
            f"{estimator} does not support sparse input. Sparse data was passed, but dense data is "
            "required; use X.toarray()."
        )
    if is_frame(X) or is_sliced_table(X):
        X = checked(X)
        names = column_names(X)
        if len(set(names)) < len(names):  # which scikit-learn refuses, too, in other words
            raise ValueError(_SAME_NAME)
    else:
        X = _no_table(X)
    if X.shape[1] > MAX_FEATURES:
        raise ValueError(f"X must have at most {MAX_FEATURES} features, got {X.shape[1]}.")
    if X.shape[1] == 0:
        # The number of rows is left out of the shape: it may be private.
        raise ValueError(
            "X: found array with 0 feature(s) (shape=(, 0)) while a minimum of 1 is required."
        )
    return X


def _numeric_container(X: Any, estimator: str, *, allow_empty: bool = True) -> Any:
    """Return X as `_container`, if the types of its columns may hold numbers; they are public."""
    X = _container(X, estimator)
    kind, name = refused_type(X)
    if kind == "complex":
        raise ValueError(_COMPLEX)
    if kind:
        where = "" if name is None else f" The type of column {name!r} is of {kind}."
        raise NotNumericError(_NOT_A_NUMBER + where)
    if X.shape[0] == 0 and not allow_empty:
        raise ValueError(NO_ROWS)
    return X


class Rows:
    """The private table, validated; only trusted code reads it.

    - `X` of shape (n_samples, n_features): Already checked.
    - `y` of shape (n_samples,): Targets that travel with the rows (private as well).
    - `numeric`: False for rows that only a user's callable reads.
    - `positions`: The rows of X that belong to the table, ascending; None for all.
    - `filtered`: Whether a filter of each row has left them: which rows, and how many, is private
      then.
    """

    n_is_private = False  # beyond what the relation, the filter and the units say

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        numeric: bool = True,
        positions: NDArray[np.intp] | None = None,
        filtered: bool = False,
    ) -> None:
        self.filtered = filtered
        self._X, self._y = X, y
        self._numeric = numeric
        self._positions = positions
        # Ids have an entry for each row of X, and not of `positions`.
        self._length = int(X.shape[0]) if hasattr(X, "shape") else len(X)
        self._n = self._length if positions is None else int(positions.size)
        self.n_features = int(X.shape[1]) if hasattr(X, "shape") and len(X.shape) > 1 else 1
        self.units: Units | None = None
        self._row_weights: NDArray | None = None  # of all rows of the table, if there are any
        # Results that a query keeps for its next release; as private as the rows.
        self.kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.names = names_in(X)  # public; None for an array
        # Ends of what the types of the first columns can hold; public.
        self.ranges = type_ranges(X) if numeric else None

    def __repr__(self) -> str:
        return f"Rows(n_features={self.n_features})"

    def of_units(self, groups: Any, estimator: str, adjacency: str = REPLACE_ONE) -> Self:
        """Return these rows with their units, by an id for each row of the caller's table.

        Under "add_or_remove_one" rows without an id are left out, each by itself.
        """
        copied = copy.copy(self)
        copied.units = check_units(groups, self._length, estimator=estimator, adjacency=adjacency)
        if adjacency == REPLACE_ONE:
            return copied
        return copied.keep(np.flatnonzero(copied.unit_rows().codes >= 0))

    def unit_rows(self) -> Units:
        """Return the unit of each of these rows."""
        assert self.units is not None
        if self._positions is None:
            return self.units
        return Units(self.units.codes[self._positions], self.units.words)

    def keep(self, positions: NDArray[np.intp]) -> Self:
        """Return the rows at ascending positions among these; nothing of them is kept yet."""
        copied = copy.copy(self)
        copied.kept = WeakKeyDictionary()
        copied._positions = positions if self._positions is None else self._positions[positions]
        copied._n = int(positions.size)
        return copied

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        """Return the (start, stop) of chunks that cover all rows.

        `width` is the number of values that the reader makes of a row, if more than n_features;
        `least` the number of rows that a chunk should have, if memory allows.
        """
        step = _chunk_rows(max(self.n_features, width), least)
        return [(i, min(i + step, self._n)) for i in range(0, self._n, step)]

    def _part(self, table: Any, start: int, stop: int) -> Any:
        """Return rows start to stop in the caller's own container; sparse numbers as an array."""
        if self._positions is None:
            part = cut(table, start, stop)
        else:
            part = take(table, self._positions[start:stop])
        return part.toarray() if self._numeric and sparse.issparse(part) else part

    def salt(self, number: int) -> int:
        """Return 0: rows with at most one key a column need no secret ranks of their keys."""
        return 0

    def chunk(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows start to stop as float64, shape (stop - start, n_features)."""
        values, _ = to_float(self._part(self._X, start, stop))
        assert values is not None  # check_rows has converted every chunk once
        if not _sum_is_finite(values):
            # The sum overflowed, or rows changed after the check. 0 replaces NaN and infinity,
            # which are no integers; an error would depend on a cell, after the charge.
            values = np.where(np.isfinite(values), values, 0.0)
        return values

    def weights(self, start: int, stop: int) -> NDArray:
        """Return the weights of rows start to stop."""
        weights = np.asarray(self._part(self._row_weights, start, stop), dtype=np.float64)
        # What changed after the check: as in `chunk`.
        return np.where(np.isfinite(weights), weights, 0.0)

    def weighted(self, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray]:
        """Return rows start to stop, and the weight of each."""
        return self.chunk(start, stop), self.weights(start, stop)

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Yield the rows in order as float64 arrays of shape (at most chunk, n_features)."""
        for start, stop in self.spans():
            yield self.chunk(start, stop)

    def pair(self, start: int, stop: int) -> tuple[Any, Any]:
        """Return copies of rows start to stop in the caller's own containers, X and y.

        Views would lead to the other rows, and the index of the whole table counts them.
        """
        y = None if self._y is None else alone(self._part(self._y, start, stop))
        return alone(self._part(self._X, start, stop)), y

    def slices(self, step: int) -> Iterator[tuple[Any, Any]]:
        """Yield such pairs, `step` rows at a time."""
        for start in range(0, self._n, step):
            yield self.pair(start, min(start + step, self._n))

    def digest(self) -> bytes:
        """Return a hash of the content; it keys the noise of seeded fits and nothing else."""
        if not self._numeric:
            return bytes.fromhex(joblib.hash((self._X, self._y), hash_name="sha1"))
        h = hashlib.blake2b(repr((self._n, self.n_features)).encode(), digest_size=32)
        for chunk in self.chunks():
            h.update(np.ascontiguousarray(chunk).tobytes())
        if self._row_weights is not None:
            h.update(np.ascontiguousarray(self.weights(0, self._n)).tobytes())
        return h.digest()


@dataclass(frozen=True)
class NumericForm(Form):
    """Batches as rows of numbers; its first problems are those of `number_problems`."""

    omit: bool = False  # leave out rows with a missing cell

    def check(self, batch: Any) -> tuple[Rows | None, set[int]]:
        """Return the rows of a batch, and which problems it has."""
        return self._numeric(self.sides(batch)[0])

    def _numeric(self, X: Any) -> tuple[Rows | None, set[int]]:
        values, problem = to_float(X)
        if values is None:
            return None, {0}
        values = values.reshape(-1, 1) if values.ndim == 1 else values
        complete, bad = _complete(values, self.omit)
        problems = {0} if problem else {1} if bad else set()
        return Rows(values, positions=complete, filtered=self.omit), problems


def _complete(values: NDArray[np.float64], omit: bool) -> tuple[NDArray[np.intp] | None, bool]:
    """Return the rows without a missing cell, None for all, and whether a cell is refused."""
    if _sum_is_finite(values):
        return np.arange(len(values)) if omit else None, False
    if not omit:
        return None, not np.isfinite(values).all()
    return np.flatnonzero(~np.isnan(values).any(axis=1)), bool(np.isinf(values).any())


def _sum_is_finite(values: NDArray[np.float64]) -> bool:
    """Say whether the sum of all cells is finite, so that all of them are: one pass, no array."""
    with np.errstate(all="ignore"):
        return math.isfinite(values.sum())


def number_problems(omit: bool) -> tuple[tuple[type[Exception], str], ...]:
    """Return the problems of rows of numbers; infinity is one even if NaN is left out."""
    return (NotNumericError, _NOT_A_NUMBER), (ValueError, _INFINITE if omit else _NOT_FINITE)


def _numeric_parts(
    X: Any, *, estimator: str, allow_empty: bool, omit: bool = False, filtered: bool = False
) -> PartsRows:
    """Return a table in parts as rows; errors as `check_rows`."""
    columns, heads = heads_of(X)
    head = numeric_head(heads, estimator)
    form = NumericForm(columns, int(head.shape[1]), number_problems(omit), omit=omit)
    return checked_parts(X, form, head, allow_empty=allow_empty, filtered=filtered or omit)


def numeric_head(heads: list[Any], estimator: str) -> Any:
    """Return the first head, a flat array as one column; raise if one has no numbers."""
    heads = [
        head.reshape(-1, 1) if isinstance(head, np.ndarray) and head.ndim == 1 else head
        for head in heads
    ]
    for head in heads:
        _numeric_container(head, estimator)
    return heads[0]


def check_rows(
    X: Any, *, estimator: str, allow_empty: bool = False, one_place: str = ONE_PLACE
) -> Any:
    """Validate a private table once and return the handle through which trusted code reads it.

    Guarantee: after it returns, reading any chunk cannot fail. Every error text is fixed and
    public (type, number of features), raised outside any ``except`` so that no context quotes
    a cell.

    - `allow_empty`: Accept no rows. Where the number of rows is private, whether there is one is
      too: a fold of a private search may be empty.
    - `one_place`: Why rows in parts (`skdp.engines`) are refused; "" where they are not.
    """
    if is_parts(X):
        refuse_parts(X, estimator, one_place)
        return _numeric_parts(X, estimator=estimator, allow_empty=allow_empty)
    return _checked_rows(_numeric_container(X, estimator, allow_empty=allow_empty))


def _checked_rows(X: Any, omit: bool = False) -> Rows:
    """Return rows of finite numbers or raise a fixed text; `omit` leaves out rows with NaN."""
    rows = Rows(X)
    problems, positions, text = set(), [], "infinite" if omit else "finite"
    for start, stop in rows.spans():
        values, problem = to_float(rows._part(X, start, stop))
        if values is None:
            problems.add(problem)
            continue
        complete, bad = _complete(values, omit)
        if complete is not None:
            positions.append(start + complete)
        # A cell that is no number is NaN, too: the text is that of its type.
        problems.add(problem or (text if bad else ""))
    _raise(problems, X)
    if not omit:
        return rows
    remaining = np.concatenate([np.zeros(0, dtype=np.intp), *positions])
    return Rows(X, positions=remaining, filtered=True)


def check_marks(
    y: Any, n_rows: int, *, estimator: str, allow_empty: bool = False
) -> NDArray[np.bool_]:
    """Return which rows are marked private, or raise a fixed text; see `check_samples`."""
    if y is None:
        raise ValueError(
            f"{estimator} requires y to be passed, but the target y is None. {_NOT_MARKS}"
        )
    refuse_other_arrays(y, "y")
    values, strange = to_float(checked(y, "y"))
    marks = np.zeros(0) if values is None else values
    marks = marks.reshape(-1) if marks.ndim == 2 and marks.shape[1] == 1 else marks
    if strange or marks.ndim != 1 or not np.all((marks == 0) | (marks == 1)):
        raise ValueError(_NOT_MARKS)
    if marks.size != n_rows:
        raise ValueError("y must have as many entries as X has rows.")
    if not (marks == 0).any():
        raise ValueError(_NO_PUBLIC)
    if not (allow_empty or (marks == 1).any()):
        raise ValueError(_NO_PRIVATE)
    return marks == 1


def check_samples(
    X: Any, y: Any, *, estimator: str, allow_empty: bool = False
) -> tuple[Rows, NDArray[np.float64]]:
    """Return the private rows of a table of two samples, and the public ones as an array.

    Guarantee: as `check_rows`, for all rows of X. Which rows are marked is as public as the number
    of rows: under "replace_one" y is public, under "add_or_remove_one" a private row comes with its
    mark, and the positions are not used.

    `y` is 1 (or True) for a private row, 0 (or False) for a public one, of which there is at least
    one; `allow_empty` accepts no private rows. Other codes are refused, as they do not say which
    sample is private.
    """
    refuse_parts(X, estimator, ONE_PLACE)
    X = _numeric_container(X, estimator)
    private = check_marks(y, X.shape[0], estimator=estimator, allow_empty=allow_empty)
    _checked_rows(X)
    rows = Rows(X, positions=np.flatnonzero(private))
    others = Rows(X, positions=np.flatnonzero(~private))
    public = np.empty((others._n, others.n_features))
    for start, stop in others.spans():
        public[start:stop] = others.chunk(start, stop)
    return rows, public


def check_public_array(
    X: Any, *, estimator: str, allow_empty: bool = False, allow_missing: bool = False
) -> NDArray[np.float64]:
    """Validate the caller's own argument of ``predict``/``transform`` and return it as float64.

    The same texts as `check_rows`, because the argument may be private to the caller too.
    """
    refuse_parts(
        X,
        estimator,
        "predictions and transformed rows would be as many rows in memory. fit may take parts; "
        "predict or transform batch by batch",
    )
    X = _numeric_container(X, estimator, allow_empty=allow_empty)
    values, problem = to_float(X)
    _raise(problem, X)
    assert values is not None
    if allow_missing and np.isinf(values).any():
        raise ValueError(_INFINITE)
    if not allow_missing and not np.isfinite(values).all():
        raise ValueError(_NOT_FINITE)
    return values


# --- tables ---------------------------------------------------------------------------------


def check_table(
    X: Any,
    *,
    estimator: str,
    allow_empty: bool = False,
    omit: bool = False,
    filtered: bool = False,
    one_place: str = ONE_PLACE,
) -> tuple[Any, bool]:
    """Return validated private rows, and whether X has one dimension.

    Guarantee: as `check_rows`. With `omit`, rows with a missing cell (NaN, None, NA) are left out;
    the number of the remaining rows is private under both relations. So it is with `filtered`: the
    caller has left out rows by their values.
    """
    if is_parts(X):
        refuse_parts(X, estimator, one_place)
        options = {"allow_empty": allow_empty, "omit": omit, "filtered": filtered}
        return _numeric_parts(X, estimator=estimator, **options), is_flat(X)
    table, flat = _as_columns(X)
    rows = _checked_rows(_numeric_container(table, estimator, allow_empty=allow_empty), omit)
    rows.filtered |= filtered
    if flat:
        rows.ranges = None if is_listed(X) else type_ranges(X)
    return rows, flat


def is_flat(source: Source) -> bool:
    """Say whether the parts of a table are arrays of one dimension."""
    return getattr(source.heads[0], "ndim", 2) == 1


def _as_columns(X: Any) -> tuple[Any, bool]:
    """Return what has one dimension as one column; everything else as it is."""
    if hasattr(X, "columns") or sparse.issparse(X):
        return X, False
    table, problem = X, ""
    if is_listed(X):
        table = _no_table(X, flat=True)
    elif not isinstance(X, np.ndarray) and getattr(X, "ndim", 1) == 1:
        if hasattr(X, "dtype") or hasattr(X, "to_pylist"):  # a column of a table's library
            table, problem = to_float(checked(X))
        else:
            table = _no_table(X, flat=True)
    _raise(problem, X)
    if not isinstance(table, np.ndarray) or table.ndim != 1:
        return table, False
    return table.reshape(-1, 1), True


# --- sparse rows ---------------------------------------------------------------------------------

_NOT_FINITE_SPARSE = "Input X contains NaN or infinity; the cells of a sparse X must be finite."


def check_sparse(X: Any, *, estimator: str, allow_empty: bool = False) -> Rows:
    """Validate a sparse private table; the container, its shape and its type are public.

    Errors have fixed texts: not two-dimensional, no real numbers, not finite, no row, no column or
    too many, or an index in `indices` or `indptr` that contradicts the shape.
    """
    table = _own_rows(X, estimator)
    if table.shape[0] == 0 and not allow_empty:
        raise ValueError(NO_ROWS)
    rows = Rows(table)
    with np.errstate(all="ignore"):
        if table.has_canonical_format:
            bad = [not np.isfinite(table.data.astype(np.float64, copy=False)).all()]
        else:  # of the chunks, not of the cells that are stored: what stands twice adds up
            parts = (rows._part(table, start, stop) for start, stop in rows.spans())
            bad = [not np.isfinite(part.astype(np.float64)).all() for part in parts]
    if any(bad):
        raise ValueError(_NOT_FINITE_SPARSE)
    return rows


def _own_rows(X: Any, estimator: str) -> sparse.csr_array:
    """Return the caller's sparse rows as our own, or raise with a fixed text."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have rows")
    kind = getattr(getattr(X, "dtype", None), "kind", "f")  # of no data at all, there is none
    if kind == "c":
        raise ValueError(_COMPLEX)
    if kind not in "biuf":
        raise TypeError(f"{estimator}: the cells of a sparse X must be real numbers")
    table = own_sparse(X)
    if not 1 <= table.shape[1] <= MAX_FEATURES:
        raise ValueError(
            f"Found array with {table.shape[1]} feature(s) while a minimum of 1 is required "
            f"and at most {MAX_FEATURES} are possible."
        )
    return table


def dense_blocks(X: Any, rows: int = 4096) -> Iterator[Any]:
    """Yield the caller's own sparse rows as dense blocks; at least one, which may be empty."""
    table = _own_rows(X, "predict or transform")
    for start in range(0, max(table.shape[0], 1), rows):
        yield table[start : start + rows].toarray()


def as_dense(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix, public or the caller's own, as an array; everything else as it is."""
    return own_sparse(X, name).toarray() if sparse.issparse(X) else X
