"""Folds by content: `PerRecordKFold`.

Nothing is released here. The fold of a record is a keyed hash of that record alone, so that
under adjacency="add_or_remove_one" the folds of neighbouring tables are neighbouring tables:
removing one record takes it out of one test fold and out of the other training folds, and moves
no other. A splitter by position cannot give this where the number of rows is private: removing
the first row moves up to one row across each border of an unshuffled `KFold`, and hundreds of
rows of a shuffled one.

Everything below is a function of one row at a time. That is easy to lose: the categories of a
column, the item size of a string array and the dtype that numpy or pandas chooses for a column
all depend on the *other* rows. So numbers are hashed as the bits of their float64 value whatever
the column's dtype, text as its characters, times as microseconds, missing values (None, NaN, NA,
NaT) as one word, and the rows of a list cell by cell, because they may differ in length.
Integer arithmetic modulo 2**64 makes it exact, and the same in every batch.
"""

from __future__ import annotations

import datetime
import hashlib
import numbers
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import BaseCrossValidator

from skdp.core import public_generator
from skdp.tabular import check_units, checked, is_missing
from skdp.user_code import or_raise, suppress_warnings

Words = NDArray[np.uint64]

_FIRST_OF_Y = 2**32  # the key of y's first column: rows of X may differ in length
_BLOCK = 2**16  # rows hashed at a time, so that no second copy of X is held
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

    def __init__(self, kind: type[Exception], text: str) -> None:
        super().__init__(text)
        self.problem = kind, text


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
    known: dict[str, int] = {}
    out = np.empty(values.shape, dtype=np.uint64)
    flat = out.reshape(-1)
    for i, cell in enumerate(values.reshape(-1)):
        if type(cell) is str or type(cell) is np.str_:
            word = known.get(cell)
            if word is None:
                word = known[str(cell)] = _cell_word(str(cell), key)
        else:
            word = _cell_word(cell, key)
        flat[i] = word
    return out


def _is_sequence(cell: Any) -> bool:
    """Say whether a cell has cells of its own (what numpy would make a dimension of)."""
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
    """Return the sum of the mixed words of each row of a list, whatever its length.

    The same as of an array, for rows that would make one.
    """
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
    """Return the columns of a table, or a whole array, as arrays with a first axis of rows."""
    table = checked(table)
    if sparse.issparse(table):
        return [table]  # in rows
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
    # Text, times or rows of different lengths. The array that numpy would make of them (numbers
    # beside text turn into text) depends on all rows, so each row is taken by itself.
    return [list(table)]


def _add_words(total: Words, column: Any, key: bytes, first: int) -> int:
    """Add the words of a column's rows to `total`, in place; return how many keys it used.

    uint64 sums wrap, so neither the order of the additions nor the blocks count.
    """
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
        total[start : start + _BLOCK] += _mix(words + keys).sum(axis=1, dtype=np.uint64)
    return width


def record_words(X: Any, y: Any, key: bytes) -> Words:
    """Return one keyed 64-bit hash for each record (a row of X with its entry of y).

    Guarantee: entry i is a function of `key` and record i, in every container. Text is hashed by
    keyed BLAKE2b, the words of a record are added up after mixing each with the key of its column.

    Parameters
    ----------
    X : array-like, sparse matrix or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), or None
    key : bytes
        At most 64.

    Returns
    -------
    words : ndarray of uint64, shape (n_samples,)
    """
    with suppress_warnings():  # a warning would tell of a cell
        try:
            # An error of a cell's own code may quote the cell.
            words: Words = or_raise(
                lambda: _record_words(X, y, key), lambda: TypeError(_NO_CONTENT), own=(_Refused,)
            )
            return words
        except _Refused as refused:
            problem = refused.problem
    raise problem[0](problem[1])


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


class PerRecordKFold(BaseCrossValidator):
    """K folds by content: the fold of a record is a keyed hash of the record itself.

    This is the splitter for adjacency="add_or_remove_one". The fold of a record does not depend on
    other records, on its position or on the number of rows. So if two tables differ in one record,
    their folds differ in that record only. The sum of the charges of a search is then a guarantee
    for the whole search.

    Records with the same content (a row of X with its entry of y) are always in the same fold.
    The values of a record are hashed: the same table with another dtype, container or order gives
    the same folds; a rescaled table gives others.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    random_state : int or None, default=None
        The key of the hash. None draws a key from the operating system when the splitter is made;
        all candidates of a search, and all copies of the splitter, use the same key. The key need
        not be secret, but must not be chosen after looking at the data.

    Notes
    -----
    **Privacy.** Nothing is released. Fold sizes are random, and private. In a table that is small
    or has few different records, a fold or a training part may be empty. This raises no error:
    under "add_or_remove_one" an empty training part is fitted and charged like any other, and a
    `private_scorer` scores an empty fold like any other. Under "replace_one" the number of rows of
    every fold would have to be public: use `KFold` instead.

    With `groups`, the fold of a user is a keyed hash of the id alone. All rows of one user are in
    one fold, and if two tables differ in one user, their folds differ in that user only. So this is
    also the splitter for a budget with a `unit`, under both relations.

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
        for name, value in (("n_splits", n_splits), ("random_state", random_state)):
            if value is None and name == "random_state":
                continue
            if not isinstance(value, numbers.Integral) or isinstance(value, bool):
                allowed = "an integer >= 2" if name == "n_splits" else "an integer or None"
                raise TypeError(f"{name} must be {allowed}, got {type(value).__name__}")
        if n_splits < 2:
            raise ValueError(f"n_splits must be an integer >= 2, got {n_splits}")
        self.n_splits = int(n_splits)
        self.random_state = random_state
        if random_state is None:
            self._key = public_generator(None).bytes(32)
        else:
            seed = f"PerRecordKFold {int(random_state)}".encode()
            self._key = hashlib.blake2b(seed, digest_size=32).digest()

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

    # scikit-learn's metadata routing hands them to `split`, where there are any.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def _user_words(self, X: Any, groups: Any) -> Words:
        """Return one keyed hash of its id for each row."""
        n = int(X.shape[0]) if hasattr(X, "shape") else len(X)
        # Rows without an id go to one fold: fits leave them out, or refuse them.
        name = type(self).__name__
        units = check_units(groups, n, estimator=name, adjacency="add_or_remove_one")
        first, second = (
            np.uint64(_digest(name, self._key)) for name in (b"user", b"fold of a user")
        )
        words = _mix(_mix(units.words ^ first) + second)
        return np.append(words, np.uint64(0))[units.codes]

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
        words = record_words(X, y, self._key) if groups is None else self._user_words(X, groups)
        # The upper half of the hash times n_splits: each fold has probability 1/n_splits to 2**-32.
        upper = words >> np.uint64(32)
        fold = (upper * np.uint64(self.n_splits)) >> np.uint64(32)
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)
