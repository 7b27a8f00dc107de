"""Folds by content, rules for other splitters, and parts of a table.

`PerRecordKFold`: the fold of a record is a keyed hash of that record alone. So under
adjacency="add_or_remove_one" removing a record takes it out of one test fold and out of the other
training folds, and moves no other: the folds of neighbouring tables are neighbouring tables. No
splitter by position can give this where the number of rows is private.

The hash must be a function of one row at a time, but the categories of a column, the item size of
a string array and the dtype that numpy or pandas chooses depend on the *other* rows. So numbers
are hashed as the bits of their float64 value, text as its characters, times as microseconds,
missing values (None, NaN, NA, NaT) as one word, and the rows of a list cell by cell. Integer
arithmetic modulo 2**64 makes the hash exact, and the same in every batch.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)

from skdp.base.callers import refused_for_users
from skdp.base.leaks import HALVES, is_halving
from skdp.budget import PrivacyBudget
from skdp.core import public_generator
from skdp.parameters import FRACTION, Integers, check_integer, check_parameter, rows_in
from skdp.tabular import check_units, checked, is_missing, split_by_key, take
from skdp.user_code import or_raise, suppress_warnings

Words = NDArray[np.uint64]

_FIRST_OF_Y = 2**32  # number of y's first column, above those of X, whose rows may be of any length
_BLOCK = 2**16  # rows hashed at a time, so that no second copy of X is needed
_COMPLEX = "Complex data not supported: X and y must be real."
_NO_CONTENT = (
    "X and y must hold real numbers, text, times, missing values or sequences of these: an object "
    "without a text of its own cannot be hashed by content"
)
_MISSING = np.uint64(0x7FF8000000000000)  # the bits of the one NaN that stands for all


def _mix(words: Words) -> Words:
    """Scramble 64-bit words, one by one: the finaliser of SplitMix64 ([1]_, fig. 17)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class _Refused(Exception):
    """Why records have no hash: a type of error and its fixed text."""


def _digest(content: bytes, key: bytes) -> int:
    """Return a keyed 64-bit hash of some bytes."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, key=key).digest(), "little")


def _number_words(values: NDArray) -> Words:
    """Return the bits of numbers as float64, with one zero and one NaN."""
    values = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    return np.where(np.isnan(values), _MISSING, values.view(np.uint64))


def _cell_word(cell: Any, key: bytes) -> int:
    """Return the word of one cell of a column that is not numeric as a whole."""
    if is_missing(cell):
        return int(_MISSING)
    if isinstance(cell, str):
        return _digest(cell.encode("utf-8", "surrogatepass"), key)
    if isinstance(cell, bytes):
        return _digest(cell, key)
    if isinstance(cell, datetime.date):  # datetime and pandas.Timestamp are dates
        naive = cell.replace(tzinfo=None) if isinstance(cell, datetime.datetime) else cell
        return int(_time_words(np.array([np.datetime64(naive, "us")]))[0])
    if isinstance(cell, datetime.timedelta):  # pandas.Timedelta has a 64-bit word of its own
        own = getattr(cell, "to_timedelta64", None)
        return _cell_word(np.timedelta64(cell, "us") if own is None else own(), key)
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return int(_time_words(np.array([cell]))[0])
    if _is_sequence(cell):
        return int(_row_words([cell], key, 0)[0])
    if isinstance(cell, numbers.Real | np.bool_):
        try:
            return int(_number_words(np.array([float(cell)]))[0])
        except OverflowError:
            pass  # an int above 1e308: by its digits
    kind: Any = type(cell)
    address = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    is_complex = isinstance(cell, numbers.Complex) and not isinstance(cell, numbers.Real)
    if is_complex or address:  # another one in every copy
        raise _Refused(TypeError, _NO_CONTENT)
    return _digest(str(cell).encode("utf-8", "surrogatepass"), key)


def _time_words(values: NDArray) -> Words:
    """Return times as microseconds, whatever unit the column has."""
    unit = "datetime64[us]" if values.dtype.kind == "M" else "timedelta64[us]"
    words = values.astype(unit).view(np.int64).view(np.uint64)
    return np.where(np.isnat(values), _MISSING, words)


def _words(values: NDArray, key: bytes) -> Words:
    """Return one word for each cell; equal cells have equal words in every column type."""
    if values.dtype.kind in "biuf":
        return _number_words(values)
    if values.dtype.kind in "mM":
        return _time_words(values)
    if values.dtype.kind == "c":
        raise _Refused(ValueError, _COMPLEX)
    known: dict[str, int] = {}  # most columns of text have few different texts

    def word(cell: Any) -> int:
        if type(cell) is not str and type(cell) is not np.str_:
            return _cell_word(cell, key)
        if cell not in known:
            known[str(cell)] = _cell_word(str(cell), key)
        return known[cell]

    flat = np.fromiter(map(word, values.reshape(-1)), np.uint64, values.size)
    return flat.reshape(values.shape)


def _is_sequence(cell: Any) -> bool:
    """Say whether a cell has cells of its own, of which numpy would make a dimension."""
    if isinstance(cell, str | bytes | np.generic) or is_missing(cell):
        return False
    return isinstance(cell, Sequence) or hasattr(cell, "__array__")


def _flat(cell: Any) -> list[Any]:
    """Return the cells of a row, from sequences in any depth."""
    if not _is_sequence(cell):
        return [cell]
    if hasattr(cell, "__array__"):
        array = np.asarray(cell).reshape(-1)
        if array.dtype != object:
            return list(array)
        cell = array
    return [part for inside in cell for part in _flat(inside)]


def _column_keys(first: int, width: int, key: bytes) -> Words:
    """Return the keys of some columns, so that swapped cells give another hash."""
    columns = range(first, first + width)
    return np.array([_digest(j.to_bytes(8, "little"), key) for j in columns], np.uint64)


def _row_words(rows: Sequence[Any], key: bytes, first: int) -> Words:
    """Return the hash of each row of a list: the same as of an array, if rows are of one length."""
    flat = [_flat(row) for row in rows]
    lengths = [len(row) for row in flat]
    cells = np.empty(sum(lengths), dtype=object)
    for i, cell in enumerate(part for row in flat for part in row):
        cells[i] = cell
    keys = _column_keys(first, max(lengths, default=0), key)
    column = np.concatenate([np.arange(length) for length in (0, *lengths)])
    total = np.zeros(len(rows), dtype=np.uint64)
    np.add.at(
        total, np.repeat(np.arange(len(rows)), lengths), _mix(_words(cells, key) + keys[column])
    )
    return total


def _columns(table: Any) -> list[Any]:
    """Return a table as arrays with a first axis of rows, or as one list of rows."""
    table = checked(table)
    if sparse.issparse(table):
        return [table]
    if hasattr(table, "iloc"):
        if table.ndim == 1:
            return [table.to_numpy()]
        return [table.iloc[:, j].to_numpy() for j in range(table.shape[1])]
    if hasattr(table, "iter_columns"):  # polars
        return [column.to_numpy() for column in table.iter_columns()]
    if hasattr(table, "itercolumns"):  # pyarrow
        return [column.to_numpy() for column in table.itercolumns()]
    if hasattr(table, "to_numpy"):  # a polars or pyarrow column
        return [table.to_numpy()]
    if isinstance(table, np.ma.MaskedArray):
        return [np.ma.filled(table.astype(object), None)]
    if isinstance(table, np.ndarray):
        return [table]
    try:
        values = np.asarray(table)
    except (OverflowError, TypeError, ValueError):  # rows of different lengths, huge integers
        values = np.empty(0)
    if values.dtype.kind in "biuf" and values.ndim and len(values) == len(table):
        return [values]
    # Text, times or rows of different lengths: the array that numpy would make depends on all rows
    # (numbers beside text turn into text), so each row is hashed by itself.
    return [list(table)]


def _add_words(total: Words, column: Any, key: bytes, first: int) -> int:
    """Add the words of a column's rows to `total`, in place; return its number of columns."""
    n, rows = len(total), isinstance(column, list)
    width = 1 if rows else int(np.prod(column.shape[1:], dtype=np.int64))
    keys = _column_keys(first, width, key)
    for start in range(0, n, _BLOCK):
        block = column[start : start + _BLOCK]
        if rows:
            total[start : start + _BLOCK] += _row_words(block, key, first)
            continue
        block = block.toarray() if sparse.issparse(block) else block
        words = _words(block, key).reshape(len(block), width)
        # uint64 sums wrap, so that neither the order of the additions nor the blocks matter.
        total[start : start + _BLOCK] += _mix(words + keys).sum(axis=1, dtype=np.uint64)
    return width


def record_words(X: Any, y: Any, key: bytes) -> Words:
    """Return one keyed 64-bit hash for each record (a row of X with its entry of y, if any).

    Entry i is a function of `key` (at most 64 bytes) and record i alone, in every container.
    """
    with suppress_warnings():  # a warning could quote a cell
        try:
            # An error of a cell's own code could quote the cell, too.
            words: Words = or_raise(
                lambda: _record_words(X, y, key), lambda: TypeError(_NO_CONTENT), own=(_Refused,)
            )
            return words
        except _Refused as refused:
            kind, text = refused.args
    raise kind(text)


def _record_words(X: Any, y: Any, key: bytes) -> Words:
    total = np.zeros(0, dtype=np.uint64)
    for table, first in ((X, 0), (y, _FIRST_OF_Y)):
        if table is None:
            continue
        for column in _columns(table):
            n = len(column) if isinstance(column, list) else column.shape[0]
            if first == 0:
                total = np.zeros(n, dtype=np.uint64)
            if len(total) != n:
                raise _Refused(ValueError, "X and y must have the same number of rows")
            first += _add_words(total, column, key, first)
    return _mix(total ^ np.uint64(_digest(b"record", key)))


def _key_of(random_state: int | None) -> bytes:
    """Return the key of a splitter."""
    if random_state is None:
        return public_generator(None).bytes(32)
    return hashlib.blake2b(f"PerRecordKFold {int(random_state)}".encode(), digest_size=32).digest()


def _row_or_unit_words(X: Any, y: Any, groups: Any, key: bytes, name: str) -> Words:
    """Return one keyed hash for each row: of its content, or of the id of its unit."""
    if groups is None:
        return record_words(X, y, key)
    options = {"estimator": name, "adjacency": "add_or_remove_one"}
    units = check_units(groups, rows_in(X), **options)
    first, second = (np.uint64(_digest(b, key)) for b in (b"user", b"fold of a user"))
    words = _mix(_mix(units.words ^ first) + second)
    # Rows without an id (code -1) go to one fold: fits leave them out, or refuse them.
    return np.append(words, np.uint64(0))[units.codes]


class PerRecordKFold(BaseCrossValidator):
    """K folds by content: the fold of a record is a keyed hash of the record itself.

    This is the splitter for adjacency="add_or_remove_one". The fold of a record does not depend on
    other records, on its position or on the number of rows. So if two tables differ in one record,
    their folds differ in that record only, and the sum of the charges of a search is a guarantee
    for the whole search.

    Records with the same content (a row of X with its entry of y) are always in the same fold, in
    every dtype, container and order. A rescaled table has other folds.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    random_state : int or None, default=None
        The key of the hash. None draws a key from the operating system when the splitter is made;
        copies of the splitter have the same key. It need not be secret, but must not be chosen
        after looking at the data.

    Notes
    -----
    **Privacy.** Fold sizes are random, and private. In a small table a fold or a training part may
    be empty. Under "add_or_remove_one" it is fitted, scored and charged like any other. Under
    "replace_one" the number of rows of every fold would have to be public: use `KFold` instead.

    With `groups`, the fold of a user is a keyed hash of the id alone: if two tables differ in one
    user, their folds differ in that user only. So this is also the splitter for a budget with a
    `unit`, under both relations.

    References
    ----------
    .. [1] G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators",
       OOPSLA 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.model_selection import PerRecordKFold
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> cv = PerRecordKFold(3, random_state=0)
    >>> folds = [test.tolist() for _, test in cv.split(X)]
    >>> fewer = [test.tolist() for _, test in cv.split(X[:-1])]  # without the last record
    >>> [[i for i in fold if i != 9] for fold in folds] == fewer
    True
    """

    def __init__(self, n_splits: int = 5, *, random_state: int | None = None) -> None:
        self.n_splits = check_integer(n_splits, "n_splits", low=2)
        check_parameter(random_state, "random_state", None, Integers())
        self.random_state = random_state
        self._key = _key_of(random_state)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object
            Ignored; for scikit-learn's interface.

        Returns
        -------
        n_splits : int
        """
        return self.n_splits

    # scikit-learn's metadata routing hands groups to `split`.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the positions of the training and test records of every fold.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            The records: numbers, text, times or missing values; rows may differ in length.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            The targets, which count as part of the record.
        groups : array-like of shape (n_samples,), default=None
            Id of the unit that each row belongs to, as for ``fit``. X and y then do not matter.

        Yields
        ------
        train, test : ndarray of int
            Positions, in order.

        Raises
        ------
        ValueError
            If X and y have different numbers of rows, if they are complex, or if an id is missing.
        TypeError
            If a cell is an object without a text representation of its own.
        """
        words = _row_or_unit_words(X, y, groups, self._key, type(self).__name__)
        # The upper half of the hash times n_splits: each fold has probability 1/n_splits to 2**-32.
        upper = words >> np.uint64(32)
        fold = (upper * np.uint64(self.n_splits)) >> np.uint64(32)
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


# --- splitters ------------------------------------------------------------------------------------

# The relations that decide which folds are neighbouring. Of a budget with a unit, both count as
# USERS: the number of rows is private, and all rows of a user are in one fold.
REPLACE, ADD, USERS = "replace_one", "add_or_remove_one", "users"

WAY_OUT = ". Use "  # between what is refused and what to do instead

_PER_ROW_NOTE = (
    "folds of PerRecordKFold differ in size between tables that differ in one replaced record: "
    "they are neighbouring under adjacency='add_or_remove_one' only"
)
_INDEX_NOTE = (
    "under adjacency='add_or_remove_one' only PerRecordKFold gives neighbouring folds: with "
    "{name} one record moves others between folds, an error tells of too few rows, and the sum of "
    "the charges is not a guarantee for the search"
)
_USERS_NOTE = (
    "where one user has many rows only PerRecordKFold gives neighbouring folds: with {name} a user "
    "more moves the rows of others between folds, and the sum of the charges is not a guarantee "
    "for the search"
)
_STATED_USERS_NOTE = (
    "where one user has many rows, stated splits give neighbouring folds only if the fold of each "
    "user was stated by looking at that user alone"
)
_STATED_NOTE = (
    "under adjacency='add_or_remove_one' only PerRecordKFold gives neighbouring folds: stated "
    "splits do so only if the fold of each row was stated by looking at that row alone"
)
_LABEL_NOTE = (
    "folds drawn from labels or groups (scikit-learn stratifies classifiers by default) are "
    "neighbouring only where those are public: elsewhere take cv=KFold(...), which splits by "
    "position"
)
_UNKNOWN_NOTE = (
    "it is not known how {name} draws its folds: they are neighbouring under "
    "adjacency='replace_one' if they are a function of the number of rows alone"
)
_TIME_NOTE = (
    "TimeSeriesSplit is for rows in an order of time: folds are neighbouring only if no private "
    "value decides the order of the rows"
)
_CLASSES_NOTE = (
    "min_resources={value!r} counts the classes in y: how many rows the rounds use is neighbouring "
    "only where the set of classes is public; state a number"
)

# Splitters whose folds are a function of the positions alone (n is public under replace_one). A
# class that inherits from one of them may do anything.
_BY_POSITION = (
    KFold, LeaveOneOut, LeavePOut, PredefinedSplit, RepeatedKFold, ShuffleSplit, TimeSeriesSplit,
)  # fmt: skip
_BY_LABEL = (
    GroupKFold, GroupShuffleSplit, LeaveOneGroupOut, LeavePGroupsOut, RepeatedStratifiedKFold,
    StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit,
)  # fmt: skip


def splitter_of(cv: Any) -> Any:
    """Return the splitter that scikit-learn would make of ``cv``."""
    if isinstance(cv, Iterator):
        raise ValueError(
            "cv is an iterator, which pricing the search would exhaust: pass a list of splits"
        )
    return check_cv(cv)


def number_of_splits(splitter: Any, n_samples: int | None, groups: Any) -> int:
    """Return the number of splits, which may depend on the number of rows but not on the rows."""
    if n_samples is None:
        if isinstance(splitter, LeaveOneOut | LeavePOut):
            raise ValueError(
                f"n_samples must be given for {type(splitter).__name__}, whose number of splits "
                "depends on it"
            )
        return int(splitter.get_n_splits(None, None, groups))
    stand_in = np.broadcast_to(np.float64(0.0), (n_samples, 1))
    return int(splitter.get_n_splits(stand_in, None, groups))


def relation_of(budget: Any) -> str:
    """Return the relation of a budget, or of none, that decides which folds are neighbouring."""
    if getattr(budget, "unit", None) is not None:
        return USERS
    return str(getattr(budget, "adjacency", REPLACE))


def _is_stated(cv: Any) -> bool:
    """Say whether the splits themselves are given."""
    return not hasattr(cv, "split") and not (cv is None or isinstance(cv, numbers.Integral))


def fold_notes(cv: Any, splitter: Any, classifier: bool, adjacencies: set[str]) -> list[str]:
    """Return why folds of neighbouring tables are not neighbouring under these relations."""
    kind = type(splitter)
    per_record = isinstance(splitter, PerRecordKFold)
    stated = _is_stated(cv) or kind is PredefinedSplit
    notes = []
    if USERS in adjacencies and not per_record:
        notes.append(_STATED_USERS_NOTE if stated else _USERS_NOTE.format(name=kind.__name__))
    if ADD in adjacencies and not per_record:
        notes.append(_STATED_NOTE if stated else _INDEX_NOTE.format(name=kind.__name__))
    if REPLACE in adjacencies:
        stratified = classifier and (cv is None or isinstance(cv, numbers.Integral))
        if per_record:
            notes.append(_PER_ROW_NOTE)
        elif stratified or kind in _BY_LABEL:
            notes.append(_LABEL_NOTE)
        elif kind is TimeSeriesSplit:
            notes.append(_TIME_NOTE)
        elif not (_is_stated(cv) or kind in _BY_POSITION):
            notes.append(_UNKNOWN_NOTE.format(name=kind.__name__))
    return notes


def check_splits(cv: Any, splitter: Any, adjacencies: set[str], n_samples: int | None) -> None:
    """Refuse splits that reveal a private number of rows, or that count one row several times."""
    kind, why = refused_for_users(splitter)
    if USERS in adjacencies and kind:
        raise ValueError(
            f"cv: {kind} {why}{WAY_OUT}PerRecordKFold, which draws the fold of each user alone"
        )
    if ADD in adjacencies and isinstance(splitter, LeaveOneOut | LeavePOut):
        raise ValueError(
            f"cv: {type(splitter).__name__} fits once a row or more, so the ledger would tell the "
            f"number of rows, which is private under adjacency='add_or_remove_one'{WAY_OUT}"
            "PerRecordKFold"
        )
    if not _is_stated(cv):
        return
    for number, split in enumerate(cv):
        for part, name in zip(split, ("training", "test"), strict=False):
            positions = np.asarray(part)
            if positions.dtype.kind not in "iu":
                continue  # a mask names each row once
            if n_samples is not None:
                positions = positions % n_samples  # -1 is the last row
            if np.unique(positions).size < positions.size:
                raise ValueError(
                    f"cv: the {name} part of split {number} names a row more than once, and each "
                    f"time counts against its privacy while the ledger says epsilon once{WAY_OUT}"
                    "splits that name each row once (no bootstrap)"
                )


def check_halving(search: Any, classifier: bool, adjacencies: set[str]) -> list[str]:
    """Refuse a halving search that reveals a private number of rows; else return notes."""
    if not is_halving(search) or search.resource != "n_samples":
        return []
    refused = f"{type(search).__name__} with resource='n_samples' is refused"
    instead = f"{HALVES}{WAY_OUT}GridSearchCV or RandomizedSearchCV with PerRecordKFold"
    if USERS in adjacencies:
        raise ValueError(f"{refused} where a user has many rows: {instead}, or another resource=")
    if ADD in adjacencies:
        raise ValueError(
            f"{refused} under adjacency='add_or_remove_one': {instead}, another resource=, or a "
            "budget with adjacency='replace_one'"
        )
    if classifier and isinstance(search.min_resources, str):
        return [_CLASSES_NOTE.format(value=search.min_resources)]
    return []


# --- parts of a table -----------------------------------------------------------------------------


class TrainTestSplit(NamedTuple):
    """Two disjoint parts of a table, each with a budget of its own; y and groups may be None.

    Attributes
    ----------
    X_train, X_test : table
    y_train, y_test : array or None
    groups_train, groups_test : array or None
    train_budget, test_budget : PrivacyBudget
    """

    X_train: Any
    X_test: Any
    y_train: Any
    y_test: Any
    groups_train: Any
    groups_test: Any
    train_budget: PrivacyBudget
    test_budget: PrivacyBudget


def private_train_test_split(
    X: Any,
    y: Any = None,
    *,
    budget: PrivacyBudget,
    epsilon: float,
    delta: float | None = None,
    test_size: float = 0.25,
    groups: Any = None,
    random_state: int | None = None,
) -> TrainTestSplit:
    """Split a table into two disjoint parts that are paid for once, in parallel.

    Parameters
    ----------
    X : array-like or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
    budget : PrivacyBudget
        Charged at this call, for both parts.
    epsilon, delta : float, float or None
        The allowance of each part, for everything that is fitted, scored or asked on it. None: half
        of the budget's delta, or of what is left of it where that is less; the remainder is for
        other fits on the whole table. 0 under accountants other than "basic".
    test_size : float, default=0.25
        Share of the rows (of the units, with `groups`) in the test part; between 0 and 1.
    groups : array-like of shape (n_samples,), default=None
        Id of the unit of each row; all rows of a unit are in one part.
    random_state : int or None, default=None
        Of the assignment, which need not be secret, but must not be chosen after looking at the
        data.

    Returns
    -------
    split : TrainTestSplit
        Named: X_train, X_test, y_train, y_test, groups_train, groups_test, train_budget,
        test_budget.

    Raises
    ------
    BudgetExceededError
        If the price does not fit; nothing was charged.
    TypeError, ValueError
        If an argument is out of range, or X, y and groups differ in length.

    Notes
    -----
    **Privacy.** Nothing is released. Under "replace_one" rows are assigned by position, drawn from
    their number alone: a replaced row stays where it is. Under "add_or_remove_one" a keyed hash of
    a row, or of the id of its unit, assigns it, and the sizes of the parts are private. Both cost
    (epsilon, delta) once, for the two parts together. Under "replace_one" with `groups`, where a
    unit may be replaced by one with another id, the price is (2 epsilon, (1 + exp(epsilon)) delta):
    see :meth:`skdp.PrivacyBudget.parallel`, which charges.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPGaussianNB, PrivacyBudget, metrics
    >>> from skdp.model_selection import private_train_test_split
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 4000)
    >>> X = rng.normal(size=(4000, 2)) + y[:, None]
    >>> budget = PrivacyBudget(1.0)
    >>> split = private_train_test_split(X, y, budget=budget, epsilon=1.0, random_state=0)
    >>> options = {"bounds": (-4, 5), "classes": [0, 1], "budget": split.train_budget}
    >>> model = DPGaussianNB(epsilon=1.0, **options).fit(split.X_train, split.y_train)
    >>> predicted = model.predict(split.X_test)
    >>> score = metrics.accuracy_score(
    ...     split.y_test, predicted, labels=[0, 1], epsilon=1.0, budget=split.test_budget
    ... )
    >>> bool(0.6 < score.value < 0.9), budget.spent.epsilon
    (True, 1.0)
    """
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget must be a PrivacyBudget, got {type(budget).__name__}")
    test_size = check_parameter(test_size, "test_size", FRACTION)
    if (groups is None) != (budget.unit is None):
        raise ValueError(
            "a budget with a unit needs groups, the ids of the units; any other refuses them"
        )
    if delta is None:
        delta, left = budget.delta / 2, budget.remaining.delta
        delta = delta if left > delta else left / 2
        doubled = budget.unit is not None and budget.adjacency == REPLACE
        delta = 0.0 if doubled or budget.accountant != "basic" else delta
    by_position = budget.adjacency == REPLACE and budget.unit is None
    n = rows_in(X)
    if any(len(side) != n for side in (y, groups) if side is not None):
        raise ValueError("X, y and groups must have the same number of rows")
    PerRecordKFold(2, random_state=random_state)  # checks the seed
    key = _key_of(random_state)
    if by_position:
        in_test = np.zeros(n, dtype=bool)
        chosen = public_generator(key).permutation(n)[: math.ceil(test_size * n)]
        in_test[chosen] = True
    else:
        in_test = _row_or_unit_words(X, y, groups, key, "private_train_test_split") >> np.uint64(
            32
        ) < int(test_size * 2**32)
    budgets = budget.parallel(
        ["train", "test"], epsilon=epsilon, delta=delta, by_position=by_position
    )
    tables = {}
    for name, table in (("X", X), ("y", y), ("groups", groups)):
        for part, rows in (("train", ~in_test), ("test", in_test)):
            tables[f"{name}_{part}"] = _rows_of(table, np.flatnonzero(rows))
    return TrainTestSplit(**tables, train_budget=budgets["train"], test_budget=budgets["test"])


def _rows_of(table: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of a table or sequence, in its own container."""
    if table is None:
        return None
    return [table[i] for i in rows] if isinstance(table, list | tuple) else take(table, rows)


def fit_parts(
    estimator: Any, X: Any, y: Any = None, *, by: Any, parts: Mapping[str, PrivacyBudget]
) -> dict[str, Any]:
    """Fit a clone on each part of a table.

    Parameters
    ----------
    estimator : estimator
        An estimator of skdp with a `budget` parameter; each clone gets its budget from `parts`.
    X : array-like or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
    by : array-like of shape (n_samples,)
        The key of each row, for example a column. A row belongs to the part whose name is the text
        of its key ("1" for 1 and 1.0, "2026-01-31" for that day). Rows without a key, or with
        another key, are in no part.
    parts : dict of str to PrivacyBudget
        As :meth:`skdp.PrivacyBudget.parallel` returned it.

    Returns
    -------
    fitted : dict of str to estimator
        One for each name of a part, even if no row has that key.

    Raises
    ------
    TypeError, ValueError
        If `parts` does not hold different budgets, each with the relation "add_or_remove_one" and
        without a unit, or if `by` and X differ in length. Nothing is then fitted.

    Notes
    -----
    **Privacy.** Each fit is charged to the budget of its part. The key of a row alone decides its
    part, so each row is in at most one part.
    """
    _check_parts(parts)
    split = split_by_key(X, y, by, list(parts))
    return {
        name: clone(estimator).set_params(budget=parts[name]).fit(*part)
        for name, part in zip(parts, split, strict=True)
    }


def _check_parts(parts: Any) -> None:
    """Refuse parts that are not budgets of `PrivacyBudget.parallel`."""
    if not isinstance(parts, Mapping) or not parts:
        raise TypeError("parts must be what PrivacyBudget.parallel returned: a dict of budgets.")
    for name, budget in parts.items():
        if not isinstance(name, str) or not isinstance(budget, PrivacyBudget):
            raise TypeError("parts must be a dict of names and budgets.")
        if budget.unit is not None:
            raise ValueError(
                f"the budget of a part protects one {budget.unit!r}, whose rows may have several "
                "keys: such parts are not disjoint. Split by something that each unit has once, "
                "and fit each part with groups= and its own budget."
            )
        if budget.adjacency != "add_or_remove_one":
            raise ValueError(
                'the budget of a part must have adjacency="add_or_remove_one": the number of its '
                "rows is private. Take PrivacyBudget.parallel."
            )
