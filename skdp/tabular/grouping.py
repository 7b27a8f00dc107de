"""The entrance of rows that are grouped by key and unit.

Everything is checked and collected before any charge. Whether a table is accepted depends on its
columns and their declared types, never on its cells. Rows without an id leave, and so do rows
without a key (``dropna=True``).

Rows that come in batches are collected in memory, up to `MOST_IN_MEMORY`. Of larger tables, each
row goes to one of `BUCKETS` buckets by a hash of its unit's id, so that all rows of a unit are in
one bucket. Buckets lie in a folder that only this user may read, and one is in memory at a time.
The folder is removed when the table is closed, and if anything fails.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exceptions import SourceError
from skdp.tabular.cells import identity
from skdp.tabular.columns import (
    ColumnType,
    Ints,
    coded,
    coded_ids,
    numbers_of,
    stated_type,
    type_of_arrow,
    type_of_column,
    type_of_duckdb,
    valid_texts,
    values_of,
)
from skdp.tabular.containers import (
    array_of,
    checked,
    column_names,
    is_frame,
    is_listed,
    is_sliced_table,
    listed,
)
from skdp.tabular.contributions import Bucket, Contributions, mixed_words
from skdp.tabular.parts import (
    Source,
    check_same,
    chosen,
    files_at,
    heads_of,
    is_parts,
    len_of,
    names_in,
    needed,
)
from skdp.tabular.relation_plans import _quoted, check_plan
from skdp.user_code import or_raise

# --- the entrance --------------------------------------------------------------------------------

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

    The table is of pandas, polars or pyarrow, a dict of arrays, a DuckDB relation, in parts, or the
    path of Parquet files. `by` names the key columns, `unit` the column of ids (None: each row is a
    unit), `columns` the numbers, `types` the stated types of key columns. With `dropna`, rows with
    a missing key are left out; else None is a key. Errors name the column and quote no cell.
    """
    by, columns, ids = list(by), list(columns), [] if unit is None else [unit]
    roles: Any = {"by": by, "unit": unit, "columns": columns}
    stated = {name: stated_type(kind, name) for name, kind in (types or {}).items()}
    if extra := [name for name in stated if name not in by]:
        raise ValueError(f"types must be of key columns: {extra} are none")
    if is_parts(table) or is_relation(table):
        if is_parts(table):
            kinds, read, failure = batches_of_parts(table, (*by, *ids, *columns))
        else:
            kinds, read, failure = batches_of_relation(opened(table))
            allow_empty = True  # a condition of the relation decides how many rows there are
        _check_names(tuple(kinds), **roles)
        _check_types(kinds, stated, **roles)
        types_of_keys = {name: stated.get(name, kinds[name]) for name in by}
        rows = Collected(
            None if unit is None else kinds[unit],
            [(kinds[name], kind) for name, kind in types_of_keys.items()],
            {name: kinds[name] for name in columns},
            dropna,
        )
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(rows.close)
            or_raise(lambda: rows.read(read((*ids, *by), columns)), failure, own=(SpillError,))
            if not rows.n and not allow_empty:
                raise ValueError("table has no rows")
            contributions = Contributions(
                rows.buckets, rows.keys, len(columns), random_state, unit, types_of_keys, rows.close
            )
            on_failure.pop_all()
        return contributions
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
    _check_names(names, **roles)
    cells = {name: _column(table, name) for name in (*by, *ids, *columns)}
    shapes = set(map(_shape, cells.values()))
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise ValueError(_NOT_FLAT)
    kinds = {name: type_of_column(column) for name, column in cells.items()}
    _check_types(kinds, stated, **roles, lists=cells)
    ((n,),) = shapes
    if not n and not allow_empty:
        raise ValueError("table has no rows")
    if unit is None:
        units, words = np.arange(n), np.arange(n, dtype=np.uint64)
    else:
        units, words = coded_ids(cells[unit], kinds[unit])
    types_of_keys = {name: stated.get(name, kinds[name]) for name in by}
    code, keys = combined(
        [coded(cells[name], kind, kinds[name]) for name, kind in types_of_keys.items()], dropna
    )
    values = {name: numbers_of(cells[name], kinds[name]) for name in columns}
    remaining = (units >= 0) & (code >= 0)
    if not remaining.all():
        units, code = units[remaining], code[remaining]
        values = {name: column[remaining] for name, column in values.items()}
    blocks = Bucket.of_rows(units, code, words, values).blocks()
    return Contributions(lambda: blocks, keys, len(columns), random_state, unit, types_of_keys)


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
        wanted = stated[name].kind if name in stated else own
        if own not in ("any", wanted) and (own, wanted) not in _CONVERTED and wanted != "text":
            raise TypeError(
                f"types: column {name!r} has a type already, and no cell of it is {wanted}; leave "
                "it out, or convert the column"
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
    array: NDArray = or_raise(lambda: array_of(cells), lambda: TypeError(text))
    return array.tolist() if array.dtype == object and array.ndim == 1 else array


def _shape(cells: Any) -> tuple[int, ...]:
    """Return the shape of a column; a list has one dimension, whatever its cells are."""
    if isinstance(cells, list | tuple) or hasattr(cells, "to_pylist"):  # or of pyarrow
        return (len(cells),)
    shape: tuple[int, ...] = or_raise(lambda: tuple(np.shape(cells)), lambda: ValueError(_NOT_FLAT))
    return shape


# --- tables that are not in memory ----------------------------------------------------------------

# DuckDB relations, Parquet files and tables in parts yield Arrow tables of one schema: ids, keys,
# numbers. The error text of a library may quote a cell, so a fixed text replaces it.

_VIEW = "skdp_rows_5e1c7f0a"  # a name that no view of a caller has
_ROWS = 2**17  # in a batch of DuckDB
_NO_TYPE = (
    "the type of column {name!r} does not say what it holds, or holds what is no key, id or "
    "number; give it a type in every part, such as astype('string')"
)
_FAILED = "DuckDB could not run a query on the table"
_UNREADABLE = (
    "the parts could not be read as they were checked: a part is gone, or has columns of other "
    "types. Nothing was charged for this fit. Read the parts by themselves, where their rows may "
    "be shown, to see why."
)


# Types of the columns; a function of names of ids and keys, and of numbers, that yields tables of
# these columns in this order, once; and the error to raise if that fails.
Batches = tuple[
    dict[str, ColumnType],
    Callable[[Sequence[str], Sequence[str]], Iterator[Any]],
    Callable[[], Exception],
]


def is_relation(table: Any) -> bool:
    """Say whether a table is a DuckDB relation, or names Parquet files."""
    if isinstance(table, str | os.PathLike):
        return True
    return type(table).__name__ == "DuckDBPyRelation" and hasattr(table, "query")


def opened(table: Any) -> Any:
    """Return a relation, of Parquet files where a path names them."""
    if not isinstance(table, str | os.PathLike):
        return table
    path = os.fspath(table)
    if not (os.path.isdir(path) or path.endswith((".parquet", ".parq"))):
        raise ValueError("a table that is named by a path must be Parquet files (.parquet)")
    files = files_at(path)
    heads = [needed("pyarrow.parquet", "parquet").read_schema(file) for file in files]
    check_same([head.remove_metadata().empty_table() for head in heads], None)
    try:
        import duckdb
    except ImportError:
        raise ImportError(
            "Parquet files are read by DuckDB: pip install duckdb, or hand in a table"
        ) from None
    return or_raise(
        lambda: duckdb.connect().read_parquet([glob.escape(file) for file in files]),
        lambda: ValueError(f"{path!r} could not be read as Parquet"),
    )


def batches_of_relation(relation: Any) -> Batches:
    """Return the batches of a relation, read by one query; refuse one that may fail on a cell."""
    needed("pyarrow", "duckdb")
    check_plan(relation)
    names = tuple(relation.columns)
    if len({name.casefold() for name in names}) < len(names):  # DuckDB would read the first of two
        raise ValueError(
            "a relation must not have two columns whose names differ in case alone; rename one"
        )
    kinds = {name: str(kind).upper() for name, kind in zip(names, relation.types, strict=True)}

    def read(keys: Sequence[str], numbers: Sequence[str]) -> Iterator[Any]:
        # Whole numbers of 128 bits and UUIDs as text, which is exact. No cast fails on a cell.
        cells = []
        for i, name in enumerate(keys):
            text = "::VARCHAR" if kinds[name] in ("HUGEINT", "UHUGEINT", "UUID") else ""
            cells.append(f"{_VIEW}.{_quoted([name])}{text} AS c{i}")
        for i, name in enumerate(numbers):
            cells.append(f"{_VIEW}.{_quoted([name])}::DOUBLE AS v{i}")
        rows = relation.query(_VIEW, f"SELECT {', '.join(cells) or 'NULL AS none'} FROM {_VIEW}")
        start = getattr(rows, "to_arrow_reader", None) or rows.fetch_record_batch
        table = import_module("pyarrow").Table
        reader = start(_ROWS)
        try:
            for batch in reader:
                yield table.from_batches([batch])
        finally:
            reader.close()

    types = {name: type_of_duckdb(kind) for name, kind in kinds.items()}
    return types, read, lambda: RuntimeError(_FAILED)


def _schema(head: Any) -> Any:
    """Return the Arrow schema of a table without rows; TypeError if a column may hold anything."""
    arrow = import_module("pyarrow")
    if hasattr(head, "iloc") or hasattr(head, "get_columns"):
        for name in head.columns:  # rows would decide the Arrow type of such a column
            if type_of_column(head[name]).kind in ("any", "other"):
                raise TypeError(_NO_TYPE.format(name=name))
    if hasattr(head, "iloc"):
        schema = arrow.Schema.from_pandas(head, preserve_index=False).remove_metadata()
    elif hasattr(head, "to_arrow"):
        schema = head.to_arrow().schema
    else:
        schema = head.schema.remove_metadata()
    for field in schema:
        if arrow.types.is_null(field.type):
            raise TypeError(_NO_TYPE.format(name=field.name))
    return schema


def batches_of_parts(source: Source, columns: Sequence[str]) -> Batches:
    """Return the batches of a table in parts, read in this process, one part after the other.

    Columns that the table does not have are skipped: the caller names them. Parts must have names
    of columns, and the same columns of the same types.
    """
    needed("pyarrow", "parquet")
    _, heads = heads_of(source)
    known = [names_in(head) for head in heads]
    if None in known:
        raise TypeError("parts must have names of columns to be grouped by them")
    wanted = tuple(dict.fromkeys(columns))
    present = [tuple(name for name in wanted if name in (own or ())) for own in known]
    cut = [chosen(head, own) for head, own in zip(heads, present, strict=True)]
    schema, *others = map(_schema, cut)
    if any(other != schema for other in others):
        raise ValueError("parts must have the same columns, of the same types")

    def read(keys: Sequence[str], numbers: Sequence[str]) -> Iterator[Any]:
        table = import_module("pyarrow").Table
        names = [f"c{i}" for i in range(len(keys))] + [f"v{i}" for i in range(len(numbers))]
        fetch = getattr(source.engine, "fetched", None)  # of parts on other machines
        for number, handle in enumerate(source.handles):
            place = source.reader, number, handle, present[0]
            batches = source.reader(handle) if fetch is None else fetch(*place)
            for batch in filter(len_of, map(checked, batches)):
                rows = _as_arrow(chosen(batch, present[0]), schema, cut)
                cells = [rows.column(name) for name in (*keys, *numbers)]
                yield table.from_arrays(cells, names=names)

    types = {field.name: type_of_arrow(field.type) for field in schema}
    return types, read, lambda: SourceError(_UNREADABLE)


def _as_arrow(batch: Any, schema: Any, heads: Sequence[Any]) -> Any:
    """Return a batch as an Arrow table, if its columns have the types that were checked."""
    if hasattr(batch, "iloc"):
        if list(map(str, batch.dtypes)) not in [list(map(str, head.dtypes)) for head in heads]:
            raise TypeError
        return import_module("pyarrow").Table.from_pandas(
            valid_texts(batch), schema=schema, preserve_index=False
        )
    table = batch.to_arrow() if hasattr(batch, "to_arrow") else batch
    if table.schema.types != schema.types:
        raise TypeError
    return table


# --- collecting batches --------------------------------------------------------------------------

MOST_IN_MEMORY = 2**24  # rows
BUCKETS = 64
_TOGETHER = 2**20  # rows that are coded at a time
_GONE = (
    "the temporary files of the table could not be read again. Nothing is released by this fit; "
    "what was charged stays charged."
)
_FULL = (
    "the table has more rows than are held in memory, and its temporary files could not be written "
    "(the disk may be full; TMPDIR says where they lie). Nothing was charged for this fit."
)
_PAIRS = ("start", "unit", "key", "rows", "words")


class SpillError(SourceError):
    """Temporary files could not be written."""


class _Columns(Mapping[str, NDArray[np.float64]]):
    """Columns of numbers in files; a column is read at each access."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self._path, self._names = path, names

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return _loaded(self._path / f"v{self._names.index(name)}.npy")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _loaded(path: Path) -> NDArray:
    array: NDArray = or_raise(lambda: np.load(path), lambda: SourceError(_GONE))
    return array


def _with_ids(rows: Any, codes: Ints) -> tuple[Any, Ints]:
    """Return the rows that have an id, and their codes; an infinite date is no id."""
    known = codes >= 0
    return (rows if known.all() else rows.filter(known)), codes[known]


def _removed(folder: str, process: int) -> None:
    if os.getpid() == process:  # a fork that ends leaves the table to its parent
        shutil.rmtree(folder, ignore_errors=True)


def combined(parts: list[tuple[Ints, list[Any]]], dropna: bool) -> tuple[Ints, list[Any]]:
    """Return the code of each row's key, -1 for rows that are left out, and the distinct keys.

    `parts` are codes and values of each key column; keys of several columns are tuples. With
    `dropna`, rows with a missing key are left out; else None is a key.
    """
    if not dropna:
        parts = [
            (np.where(codes < 0, len(values), codes), [*values, None]) for codes, values in parts
        ]
    code, values = parts[0]
    gone = code < 0
    for codes, own in parts[1:]:
        gone = gone | (codes < 0)
        # Numbered anew after each column: the product of all sizes might not fit 64 bits.
        code = code * (len(own) + 1) + codes
        code = np.unique(code, return_inverse=True)[1].reshape(-1)
    if gone.any():
        code = np.where(gone, -1, code)
    rows = np.bincount(code[~gone])  # a category may have no row
    used = np.flatnonzero(rows)
    if used.size < rows.size:
        place = np.cumsum(rows > 0) - 1
        code = np.where(gone, -1, np.append(place, -1)[code])
    if len(parts) == 1:
        return code, [values[i] for i in used.tolist()]
    # The first row of each key, assigned backwards so that the first one remains.
    first = np.zeros(used.size, dtype=np.int64)
    first[code[~gone][::-1]] = np.flatnonzero(~gone)[::-1]
    cells = [[own[i] for i in codes[first].tolist()] for codes, own in parts]
    return code, list(zip(*cells, strict=True))


class Collected:
    """Collects batches of rows and sorts them into buckets; leaves out rows without an id or a key.

    The columns of a batch are the ids (unless each row is a unit), the keys and the numbers. `by`
    has two types of each key column: in the table, and as a key.
    """

    def __init__(
        self,
        unit: ColumnType | None,
        by: list[tuple[ColumnType, ColumnType]],
        columns: dict[str, ColumnType],
        dropna: bool = True,
    ) -> None:
        self.n, self._uncoded = 0, 0  # rows: all, and those of `_waiting`
        self._unit, self._by, self._dropna = unit, by, dropna
        self._id_type = ColumnType("integer") if unit is None else unit
        self._columns, self._types = list(columns), list(columns.values())
        self._places: dict[Any, int] = {}
        self.keys: list[Any] = []  # the number of a key is its place here
        self._waiting: list[Any] = []
        self._pieces: list[Any] = []  # ids, numbers of keys, values: as Arrow tables
        self._writers: list[Any] = []
        self._blocks: list[Bucket] = []  # of a table in memory
        self._folder: Path | None = None
        self._filled: list[Path] = []  # of a folder's buckets, those that have rows
        self._remove: Callable[[], Any] | None = None

    def read(self, batches: Iterable[Any]) -> None:
        """Collect batches, Arrow tables of ids, keys and numbers, and make the buckets."""
        for batch in batches:
            self.n += batch.num_rows
            self._uncoded += batch.num_rows
            self._waiting.append(batch)
            if self._uncoded >= _TOGETHER:
                self._code()
        if self._waiting:
            self._code()
        if self._folder is not None:
            or_raise(self._sort, lambda: SpillError(_FULL))
        elif self._pieces:
            pieces = import_module("pyarrow").concat_tables(self._pieces)
            self._blocks = self._bucket(pieces).blocks()
        self._pieces = []

    def _code(self) -> None:
        """Replace the keys of the waiting rows by their numbers."""
        pa = import_module("pyarrow")
        table = pa.concat_tables(self._waiting)
        columns = table.columns
        if self._unit is None:
            ids = pa.array(np.arange(self.n - table.num_rows, self.n))
        else:
            ids, *columns = columns
            ids = values_of(ids)
        self._waiting, self._uncoded = [], 0
        parts = [
            coded(column, kind, own) for column, (own, kind) in zip(columns, self._by, strict=False)
        ]
        code, values = combined(parts, self._dropna)
        to = []
        for key in values:
            to.append(self._places.setdefault(identity(key), len(self.keys)))
            if to[-1] == len(self.keys):
                self.keys.append(key)
        code = np.array([*to, -1], dtype=np.int64)[code]
        numbers = [
            numbers_of(column, kind)
            for column, kind in zip(columns[len(parts) :], self._types, strict=True)
        ]
        names = ["id", "key", *(f"v{i}" for i in range(len(numbers)))]
        piece = pa.table([ids, code, *numbers], names=names)
        missing = import_module("pyarrow.compute").is_null(ids, nan_is_null=True)
        remaining = (code >= 0) & ~np.asarray(missing)
        self._pieces.append(piece if remaining.all() else piece.filter(pa.array(remaining)))
        if self.n > MOST_IN_MEMORY:
            or_raise(self._spill, lambda: SpillError(_FULL))

    def _spill(self) -> None:
        """Write coded rows to the files of their buckets."""
        pa = import_module("pyarrow")
        if self._folder is None:
            folder = tempfile.mkdtemp(prefix="skdp-")
            self._folder = Path(folder)
            self._remove = weakref.finalize(self, _removed, folder, os.getpid())
            schema = self._pieces[0].schema
            paths = [self._folder / f"{b}.arrow" for b in range(BUCKETS)]
            self._writers = [pa.ipc.new_stream(str(path), schema) for path in paths]
        for piece in self._pieces:
            codes, words = coded_ids(piece.column("id"), self._id_type)
            piece, codes = _with_ids(piece, codes)
            # Salt 0: the secret is not drawn yet, and the bucket of a unit changes no integer.
            own = mixed_words(words, np.zeros(1, dtype=np.int64), 0) >> np.uint64(40)
            bucket = (own % np.uint64(BUCKETS)).astype(np.uint8)[codes]
            order = np.argsort(bucket, kind="stable")
            ends = np.searchsorted(bucket[order], np.arange(BUCKETS + 1))
            for b, writer in enumerate(self._writers):
                rows = order[ends[b] : ends[b + 1]]
                if rows.size:
                    writer.write_table(piece.take(pa.array(rows)))
        self._pieces = []

    def _sort(self) -> None:
        """Sort the rows in the files of the buckets."""
        pa = import_module("pyarrow")
        assert self._folder is not None
        for b, writer in enumerate(self._writers):
            writer.close()
            path = self._folder / f"{b}.arrow"
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                rows = reader.read_all()
            path.unlink()
            if rows.num_rows:
                bucket, folder = self._bucket(rows), self._folder / str(b)
                folder.mkdir()
                self._filled.append(folder)
                for name in _PAIRS:
                    np.save(folder / f"{name}.npy", getattr(bucket, name))
                for i, name in enumerate(self._columns):
                    np.save(folder / f"v{i}.npy", bucket.columns[name])
        self._writers = []

    def _bucket(self, rows: Any) -> Bucket:
        """Return the bucket of coded rows."""
        units, words = coded_ids(rows.column("id"), self._id_type)
        rows, units = _with_ids(rows, units)
        values: dict[str, NDArray[np.float64]] = {
            name: np.asarray(rows.column(f"v{i}")) for i, name in enumerate(self._columns)
        }
        keys: Ints = np.asarray(rows.column("key"))
        return Bucket.of_rows(units, keys, words, values)

    def buckets(self) -> Iterator[Bucket]:
        """Yield all buckets."""
        yield from self._blocks
        for folder in self._filled:
            start, unit, key, rows, words = (_loaded(folder / f"{name}.npy") for name in _PAIRS)
            yield Bucket(start, unit, key, rows, words, _Columns(folder, self._columns))

    def close(self) -> None:
        """Remove the folder, if there is one."""
        for writer in self._writers:
            with contextlib.suppress(Exception):
                writer.close()
        if self._remove is not None:
            self._remove()
