"""Checks, or copies, of the offsets, indices and masks in a caller's container.

Compiled code follows an offset wherever it leads. An offset out of its buffer ends the process. An
offset to another row gives one row the values of another, which no sensitivity covers. So such a
container is refused before a charge, with one fixed text.

Guarantee: the outcome depends on the container's structure (which is public), never on a cell.
Offsets that another thread could change between the check and a read are copied first.

Not checked: memory that its owner does not describe (a bare pointer, the buffers of Arrow's C
interface), and a file that is truncated while it is mapped.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import operator
import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skdp.user_code import suppress_warnings

_BROKEN = (
    "{name} contradicts itself: its shape, offsets, indices, masks or strides do not fit its data "
    "or its file. Nothing was charged. Make it anew from its source; "
    "X.check_format(full_check=True) of scipy and X.validate(full=True) of pyarrow say what is "
    "wrong."
)


def sound(X: Any, name: str = "X") -> Any:
    """Return a caller's container after a check of its structure; unknown containers as they are.

    ValueError with one fixed text, whatever is wrong.
    """
    for library, read in _LIBRARIES:
        if any(base.__module__.partition(".")[0] == library for base in type(X).__mro__):
            return _or_refused(read, X, name)
    return X


def _or_refused(read: Callable[[Any], Any], X: Any, name: str) -> Any:
    """Return what `read` makes of X; where it fails, raise a fixed text alone."""
    problem: Exception
    try:
        with suppress_warnings():  # those of a library's next version are not ours to raise
            return read(X)
    except MemoryError:  # its text says how many cells are stored
        problem = MemoryError(f"{name} is too large to be copied; nothing was charged")
    except Exception:  # noqa: BLE001  its text may quote a cell, or an index
        problem = ValueError(_BROKEN.format(name=name))
    raise problem


def _demand(holds: object) -> None:
    if not holds:
        raise ValueError


# --- numpy ------------------------------------------------------------------------------------


def _array(X: Any) -> Any:
    """Check that an array lies inside the memory that it is a view of, and its mask on it."""
    if not isinstance(X, np.ndarray):
        return X  # a scalar
    if isinstance(X, np.ma.MaskedArray):
        mask = np.ma.getmask(X)
        _demand(mask is np.ma.nomask or np.shape(mask) == np.ndarray.shape.__get__(X))
        if mask is not np.ma.nomask:
            _array(np.asarray(mask))
    plain = np.asarray(X)
    owner: Any = plain
    while isinstance(owner, np.ndarray) or hasattr(owner, "__array_interface__"):
        base = getattr(owner, "base", None)  # the base of `as_strided` is a plain object
        if base is None:
            break
        owner = base
    if owner is plain or plain.size == 0:
        return X
    if isinstance(owner, mmap.mmap):
        _demand(_mapped(X, owner))
    if isinstance(owner, np.ndarray):
        memory = owner if owner.flags.owndata else None
    else:
        try:
            memory = np.frombuffer(owner, dtype=np.uint8)
        except (BufferError, TypeError, ValueError):  # it does not say where its memory is
            memory = None
    if memory is not None:
        first, last = np.lib.array_utils.byte_bounds(memory)
        low, high = np.lib.array_utils.byte_bounds(plain)
        _demand(first <= low and high <= last)
    return X


def _mapped(X: Any, owner: mmap.mmap) -> bool:
    """Say whether a mapped file is as long as its map; beyond its end, reading ends the process."""
    offset = 0
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            offset = max(offset, int(getattr(X, "offset", 0) or 0))
        X = X.base
    return offset - offset % mmap.ALLOCATIONGRANULARITY + len(owner) <= owner.size()


# --- scipy ------------------------------------------------------------------------------------


def own_sparse(X: Any, name: str = "X") -> sparse.csr_array:
    """Return a sparse matrix of any format in compressed rows of our own, each index checked.

    Guarantee: the arrays are copies, made before they are checked. No code of a subclass runs
    after that. A cell that is stored twice stays so: reading a row adds it up.
    """
    own: sparse.csr_array = _or_refused(_own_sparse, X, name)
    return own


def _own_sparse(X: Any) -> sparse.csr_array:
    rows, columns = (operator.index(size) for size in X.shape)
    _demand(0 <= rows < 2**62 and 0 <= columns < 2**62)
    for kind, read in _FORMATS.items():
        if isinstance(X, (getattr(sparse, f"{kind}_array"), getattr(sparse, f"{kind}_matrix"))):
            return read(X, rows, columns)
    raise TypeError


def _own(array: Any, kinds: str, ndim: int = 1) -> NDArray:
    """Return a copy of an array, of its exact class and in this machine's order of bytes."""
    _demand(issubclass(type(array), np.ndarray))
    plain = np.asarray(_array(array))
    _demand(plain.ndim == ndim and plain.dtype.kind in kinds)
    dtype = plain.dtype.newbyteorder("=")
    if dtype == np.float16:  # which scipy does not add up
        dtype = np.dtype(np.float32)
    return np.array(plain, dtype=dtype, copy=True, order="C")


def _own_cells(X: Any, ndim: int = 1) -> NDArray:
    return _own(X.data, "biuf", ndim)


def _within(indices: NDArray, size: int) -> NDArray:
    """Return indices of which all are from 0 to size - 1, in a type that scipy has for them."""
    if indices.size:
        _demand(int(indices.min()) >= 0 and int(indices.max()) < size)
    return indices


def _layout(X: Any, lines: int, across: int, dtype: np.dtype) -> tuple[NDArray, NDArray, int]:
    """Return the indices and ends of the lines of a compressed format, and how many are stored."""
    ends = _own(X.indptr, "iu")
    _demand(ends.size == lines + 1 and ends[0] == 0 and not (ends[1:] < ends[:-1]).any())
    stored = int(ends[-1])
    indices = _own(X.indices, "iu")
    _demand(stored <= indices.size)
    indices = _within(indices[:stored], across)
    return indices.astype(dtype, copy=False), ends.astype(dtype, copy=False), stored


def _index_type(*numbers: int) -> np.dtype:
    return np.dtype(np.int32 if max(numbers) < 2**31 else np.int64)


def _compressed(X: Any, rows: int, columns: int, *, make: Any, by_rows: bool) -> Any:
    cells = _own_cells(X)
    dtype = _index_type(rows, columns, cells.size)
    lines, across = (rows, columns) if by_rows else (columns, rows)
    indices, ends, stored = _layout(X, lines, across, dtype)
    _demand(stored <= cells.size)
    return make((cells[:stored], indices, ends), shape=(rows, columns), copy=False).tocsr()


def _of_blocks(X: Any, rows: int, columns: int) -> Any:
    cells = _own_cells(X, 3)
    _, height, width = cells.shape
    _demand(height and width and rows % height == 0 and columns % width == 0)
    dtype = _index_type(rows, columns, cells.size)
    indices, ends, stored = _layout(X, rows // height, columns // width, dtype)
    _demand(stored <= len(cells))
    own = sparse.bsr_array((cells[:stored], indices, ends), shape=(rows, columns)).tocoo()
    return _of_triples(own.data, own.row, own.col, rows, columns)


def _of_triples(cells: NDArray, i: NDArray, j: NDArray, rows: int, columns: int) -> Any:
    """Return compressed rows; a cell that is stored twice keeps its order, as `toarray` adds up."""
    _demand(len(cells) == len(i) == len(j))
    dtype = _index_type(rows, columns, cells.size)
    i, j = _within(i, rows).astype(dtype), _within(j, columns).astype(dtype)
    order = np.argsort(i, kind="stable")
    ends = np.zeros(rows + 1, dtype=dtype)
    np.cumsum(np.bincount(i, minlength=rows), out=ends[1:])
    return sparse.csr_array((cells[order], j[order], ends), shape=(rows, columns), copy=False)


def _of_keys(X: Any, rows: int, columns: int) -> Any:
    items = list(X.items())
    at = np.array([(operator.index(i), operator.index(j)) for (i, j), _ in items], dtype=np.int64)
    cells = _of_objects([value for _, value in items], X.dtype)
    i, j = at.reshape(-1, 2).T
    return _of_triples(cells, i, j, rows, columns)


def _of_lists(X: Any, rows: int, columns: int) -> Any:
    _demand(np.shape(X.rows) == np.shape(X.data) == (rows,))
    places, values = list(map(list, X.rows)), list(map(list, X.data))
    sizes = list(map(len, places))
    _demand(sizes == list(map(len, values)))
    j = np.array([operator.index(place) for row in places for place in row], dtype=np.int64)
    cells = _of_objects([cell for row in values for cell in row], X.dtype)
    return _of_triples(cells, np.repeat(np.arange(rows), sizes), j, rows, columns)


def _of_objects(values: list[Any], dtype: np.dtype) -> NDArray:
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return _own(cells.astype(dtype), "biuf")


def _of_diagonals(X: Any, rows: int, columns: int) -> Any:
    cells, offsets = _own_cells(X, 2), _own(X.offsets, "i").astype(np.int64)
    _demand(len(offsets) == len(cells) == len(np.unique(offsets)))
    j = np.arange(min(cells.shape[1], columns))
    i = j - offsets[:, None]
    inside = (i >= 0) & (i < rows) & (cells[:, : j.size] != 0)
    across = np.broadcast_to(j, i.shape)
    return _of_triples(cells[:, : j.size][inside], i[inside], across[inside], rows, columns)


_FORMATS: dict[str, Callable[[Any, int, int], Any]] = {
    "csr": functools.partial(_compressed, make=sparse.csr_array, by_rows=True),
    "csc": functools.partial(_compressed, make=sparse.csc_array, by_rows=False),
    "coo": lambda X, rows, columns: _of_triples(
        _own_cells(X), _own(X.row, "iu"), _own(X.col, "iu"), rows, columns
    ),
    "bsr": _of_blocks,
    "lil": _of_lists,
    "dok": _of_keys,
    "dia": _of_diagonals,
}


def _scipy(X: Any) -> Any:
    """Return a sparse matrix or array as a compressed copy of the same kind."""
    if not sparse.issparse(X):
        return X
    own = _own_sparse(X)
    return own if isinstance(X, sparse.sparray) else sparse.csr_matrix(own)


# --- pyarrow ----------------------------------------------------------------------------------

# Of texts: the type of the same layout whose cells may be any bytes (whether they are Unicode is a
# question of one cell, and decides nothing), and the size of an offset.
_BYTES = {
    "string": ("binary", 4),
    "binary": ("binary", 4),
    "large_string": ("large_binary", 8),
    "large_binary": ("large_binary", 8),
}
_PART = 4  # times the bytes of a nested array, above which it is checked but not copied


def _arrow(X: Any) -> Any:
    """Return what pyarrow holds with offsets of our own, all of them checked."""
    arrow = sys.modules["pyarrow"]
    if isinstance(X, arrow.Array):
        return _chunk(arrow, X)
    if not isinstance(X, arrow.Table | arrow.RecordBatch | arrow.ChunkedArray):
        return X
    X.validate()
    is_column = isinstance(X, arrow.ChunkedArray)
    before = X.chunks if is_column else X.columns
    after = list(map(_arrow, before))
    if all(map(operator.is_, after, before)):
        return X
    if is_column:
        return arrow.chunked_array(after, type=X.type)
    return type(X).from_arrays(after, schema=X.schema)


def _chunk(arrow: Any, chunk: Any) -> Any:
    """Return an array whose offsets and indices are sound."""
    chunk.validate()  # the length of each buffer
    kind = str(chunk.type)
    if isinstance(chunk, arrow.DictionaryArray):
        own = _copied(
            arrow, chunk.indices, chunk.indices.type, chunk.type.index_type.bit_width // 8
        )
        values = _chunk(arrow, chunk.dictionary)
        return arrow.DictionaryArray.from_arrays(own, values, ordered=chunk.type.ordered, safe=True)
    if kind in _BYTES and len(chunk):
        plain, width = _BYTES[kind]
        own = _copied(arrow, chunk, getattr(arrow, plain)(), width, more=1)
        own.validate(full=True)
        return arrow.Array.from_buffers(chunk.type, len(own), own.buffers(), offset=own.offset)
    if isinstance(chunk, arrow.ExtensionArray):
        return arrow.ExtensionArray.from_storage(chunk.type, _chunk(arrow, chunk.storage))
    if kind in ("string_view", "binary_view") and len(chunk):
        own = _rebuilt(chunk, 1)
        own.view(arrow.binary_view()).validate(full=True)
        return own
    if chunk.type.num_fields:
        size = 0
        with contextlib.suppress(arrow.ArrowException):  # before pyarrow 19, of text views
            size = chunk.nbytes
        # A small part of a large array would be copied with all of it.
        is_small_part = chunk.get_total_buffer_size() > _PART * size + 2**20
        own = chunk if is_small_part else _rebuilt(chunk)
        own.validate(full=True)
        return own
    return chunk


def _rebuilt(chunk: Any, places: int | None = None) -> Any:
    """Return an array of any type whose buffers are copies; with `places`, the first ones only.

    By pickle, which follows no offset, and can keep the other buffers where they are.
    """
    buffers: list[Any] = []
    raw = pickle.dumps(chunk, protocol=5, buffer_callback=buffers.append)
    if places is not None:
        places += chunk.buffers()[0] is not None  # validity is the first of them
    shared = [] if places is None else buffers[places:]
    return pickle.loads(raw, buffers=[*map(bytes, buffers[:places]), *shared])


def _copied(arrow: Any, chunk: Any, kind: Any, width: int, more: int = 0) -> Any:
    """Return an array in a type of the same layout, with a copy of its offsets or indices."""
    if not len(chunk):
        return chunk
    first, rest = divmod(chunk.offset, 8)  # validity is a bit for each cell
    validity, places, *others = chunk.buffers()
    if validity is not None:
        validity = validity.slice(first)
    size = (rest + len(chunk) + more) * width
    places = arrow.py_buffer(places.slice(8 * first * width, size).to_pybytes())
    buffers = [validity, places, *others]
    return arrow.Array.from_buffers(kind, len(chunk), buffers, offset=rest)


# --- pandas -----------------------------------------------------------------------------------


def _pandas(X: Any) -> Any:
    """Return what pandas holds, with codes and sparse indices of our own, all of them checked."""
    pandas = sys.modules["pandas"]
    if isinstance(X, pandas.api.extensions.ExtensionArray):
        return _extension(pandas, X, len(X))
    if not isinstance(X, pandas.DataFrame | pandas.Series | pandas.Index):
        return X
    if isinstance(X, pandas.MultiIndex):
        own = [_own(codes, "iu") for codes in X.codes]
        return pandas.MultiIndex(list(map(_pandas, X.levels)), own, names=X.names)  # checks them
    # Of our own, so that nobody adds or drops rows of it meanwhile; its cells are not copied.
    X = X.copy(deep=False)
    # Tables of numbers alone are checked at once; a column at a time takes a tenth of a mean.
    manager = getattr(X, "_mgr", None)
    blocks = [getattr(block, "values", None) for block in getattr(manager, "blocks", [None])]
    if all(isinstance(block, np.ndarray) for block in blocks):
        _demand(all(block.shape[-1] == len(X) for block in map(_array, blocks)))
        return X
    columns = [column for _, column in X.items()] if X.ndim == 2 else [X]
    before = [column.array for column in columns]
    after = [_extension(pandas, values, len(X)) for values in before]
    changed = [j for j, values in enumerate(after) if values is not before[j]]
    if not changed:
        return X
    if X.ndim == 1:
        index = {"index": X.index} if isinstance(X, pandas.Series) else {}
        return type(X)(after[0], name=X.name, **index)
    for j in changed:
        X.isetitem(j, after[j])
    return X


def _extension(pandas: Any, values: Any, n: int) -> Any:
    """Return a column of pandas with codes or indices of its own, if it has any."""
    _demand(len(values) == n)
    kinds = pandas.arrays
    if isinstance(values, pandas.Categorical):
        dtype, labels = values.dtype, values.categories.array
        if (own := _extension(pandas, labels, len(labels))) is not labels:
            names = pandas.Index(own, name=values.categories.name)
            dtype = type(dtype)._from_fastpath(names, dtype.ordered)  # no label is read again
        return pandas.Categorical.from_codes(_own(values.codes, "iu"), dtype=dtype)
    if isinstance(values, kinds.SparseArray):
        index, cells = values.sp_index, _own(np.asarray(values.sp_values), "biufmMO")
        parts = ("blocs", "blengths") if hasattr(index, "blocs") else ("indices",)
        # The constructor checks their order and range.
        own = type(index)(n, *(_own(np.asarray(getattr(index, part)), "iu") for part in parts))
        _demand(own.npoints == len(cells) and index.length == n)
        return kinds.SparseArray._simple_new(cells, own, values.dtype)
    if isinstance(values, kinds.ArrowExtensionArray):
        before = values._pa_array
        if (own := _arrow(before)) is not before:
            values = values.copy()  # of the same class and type, and of the cells no copy
            values._pa_array = own
        _demand(len(own) == n)
    elif isinstance(values, kinds.IntegerArray | kinds.FloatingArray | kinds.BooleanArray):
        for part in (values._data, values._mask):
            _demand(np.shape(_array(part)) == (n,))
        _demand(values._mask.dtype == bool)
    elif isinstance(values, kinds.IntervalArray):
        _demand(len(values.left) == len(values.right) == n)
    elif isinstance(inner := getattr(values, "_ndarray", None), np.ndarray):
        _demand(np.shape(_array(inner)) == (n,))
    return values


# --- polars -----------------------------------------------------------------------------------


def _polars(X: Any) -> Any:
    """Check the offsets of what polars holds, which it does not do itself for Arrow's buffers."""
    polars = sys.modules["polars"]
    if not isinstance(X, polars.DataFrame | polars.Series):
        return X
    X = X.clone()  # as of pandas
    for column in X.get_columns() if isinstance(X, polars.DataFrame) else [X]:
        dtype = column.dtype
        flat = dtype.is_numeric() or dtype.is_temporal()
        if flat or dtype in (polars.Boolean, polars.Null, polars.Object):
            continue
        try:
            import_module("pyarrow")
        except ImportError:
            return X
        # Without a copy, which would follow the offsets.
        _arrow(column.to_arrow(compat_level=polars.CompatLevel.newest()))
    return X


_LIBRARIES: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("numpy", _array),
    ("scipy", _scipy),
    ("pandas", _pandas),
    ("pyarrow", _arrow),
    ("polars", _polars),
)
