"""Private tables of cells of any types: coded by a public domain, and decoded after the release.

Nothing is released here. `check_coded` codes a private table by a `Domain`, once, before any
charge; after that no reader of the rows can fail. A row's codes depend on that row only, and are in
range. Proofs: kernel/README.md, "Linear queries".

Cells outside of the domain are moved to a declared value, or the table is refused, as the domain
says; refusing tells that there is such a cell, and nothing else.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.kernel.domain import REFUSE, Domain
from skdp.kernel.doors import interruptible, quiet
from skdp.kernel.rows import _NO_ROWS, Rows, _container, _is_frame, _is_sliced_table, _names

__all__ = ["CodedRows", "Schema", "check_coded", "decoded", "public_codes", "table_schema"]

_OUTSIDE = (
    "X has values outside of the stated domain, which refuses them; with outside='clip' they are "
    "moved to a declared value."
)


class CodedRows(Rows):
    """Private rows as codes of a public domain; each is in range of the column's size."""

    def __init__(self, codes: NDArray, sizes: tuple[int, ...]) -> None:
        super().__init__(codes)
        self.sizes = sizes

    def codes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the codes of rows start to stop, shape (stop - start, n_columns)."""
        return np.asarray(self._part(self._X, start, stop), dtype=np.int64)


@dataclass(frozen=True)
class Schema:
    """What is public about a table.

    Attributes
    ----------
    n_columns : int
    names : tuple or None
        Of the columns; None for an array.
    container : str
        ``"numpy"``, ``"pandas"``, ``"polars"`` or ``"pyarrow"``.
    """

    n_columns: int
    names: tuple[Any, ...] | None
    container: str


def table_schema(X: Any, *, estimator: str) -> tuple[Any, Schema]:
    """Return X as an array or table of cells of any types, and what is public about it.

    Raises
    ------
    TypeError, ValueError
        With a fixed text, if X is sparse, complex or not two-dimensional, or has no column or two
        of the same name.
    """
    if not hasattr(X, "dtype") and not hasattr(X, "columns"):
        # Objects: one row of text would turn the numbers of all others to text.
        try:
            X = np.array(X, dtype=object)
        except Exception:  # noqa: BLE001  ragged; the next check says so with a fixed text
            X = np.zeros(0)
    X = _container(X, estimator)
    if isinstance(X, np.ndarray):
        X = np.asarray(X)  # parts of a matrix would have two dimensions
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported: X must be real.")
        return X, Schema(X.shape[1], None, "numpy")
    container = "pyarrow" if hasattr(X, "column_names") else "polars"
    return X, Schema(X.shape[1], _names(X), "pandas" if _is_frame(X) else container)


def check_coded(X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False) -> CodedRows:
    """Code a private table of any types by a public domain, once.

    Guarantee: a row's codes depend on that row only; after it returns reading cannot fail. Error
    texts are fixed and quote no cell.

    Parameters
    ----------
    X : array-like, pandas, polars or pyarrow table of shape (n_samples, n_columns)
    domain : Domain
    estimator : str
        Name for error messages.
    allow_empty : bool, default=False

    Returns
    -------
    rows : CodedRows

    Raises
    ------
    TypeError, ValueError
        If X is no table of the domain's columns, or (``outside="refuse"``) has a cell outside.
    """
    codes = public_codes(X, domain, estimator=estimator, allow_empty=allow_empty)
    return CodedRows(codes, domain.sizes)


def public_codes(X: Any, domain: Domain, *, estimator: str, allow_empty: bool = False) -> NDArray:
    """Return the codes of the caller's own table, shape (n_rows, n_columns); as `check_coded`."""
    X, schema = table_schema(X, estimator=estimator)
    if schema.n_columns != domain.n_columns:
        raise ValueError(
            f"X has {schema.n_columns} features, but the domain of {estimator} has "
            f"{domain.n_columns} columns"
        )
    if None not in (schema.names, domain.names) and schema.names != domain.names:
        raise ValueError(
            f"X must have the columns of the domain, in its order: {list(domain.names or ())}"
        )
    domain._check_type(X)
    n = X.shape[0]
    if n == 0 and not allow_empty:
        raise ValueError(_NO_ROWS)
    largest = max(domain.sizes)
    coded = np.zeros((n, domain.n_columns), dtype=np.uint8 if largest <= 2**8 else np.uint16)
    step = 2**16
    strange = False
    with quiet(), interruptible():  # a cell's own conversion may warn, or raise
        for j in range(domain.n_columns):
            for start in range(0, n, step):
                cells = _column_part(X, j, start, min(start + step, n))
                codes, outside = domain.codes(j, cells)
                coded[start : start + step, j] = codes
                strange |= bool(outside.any())
    if strange and domain.outside == REFUSE:
        raise ValueError(_OUTSIDE)
    return coded


def _column_part(X: Any, j: int, start: int, stop: int) -> Any:
    """Return a part of one column in its own container."""
    if _is_frame(X):
        part = X.iloc[start:stop, j]
        plain = getattr(part.dtype, "kind", "O") in "biuf" and isinstance(part.dtype, np.dtype)
        return part.to_numpy() if plain else part
    if hasattr(X, "column_names"):  # pyarrow
        return X.column(j).slice(start, stop - start)
    if _is_sliced_table(X):  # polars
        column = X[:, j].slice(start, stop - start)
        # Reading a date that Python cannot hold would be a panic, with a trace on stderr.
        return column.to_numpy() if column.dtype.is_temporal() else column
    return X[start:stop, j]


def _one_type(stated: Any, column: NDArray) -> list[Any]:
    """Return a column of objects as a list that a typed container holds.

    The categories decide, not which of them were drawn: numbers become floats together, and what
    has no common type becomes text.
    """
    kinds = {type(value) for value in stated if value is not None}
    cells = column.tolist()
    if kinds <= {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    scalar = (bool, str, bytes, datetime.datetime, datetime.date, datetime.timedelta)
    if len(kinds) == 1 and kinds <= set(scalar):
        return cells
    return [None if cell is None else str(cell) for cell in cells]


def decoded(
    domain: Domain,
    codes: NDArray,
    *,
    names: Sequence[Any] | None = None,
    container: str = "numpy",
    rng: np.random.Generator | None = None,
) -> Any:
    """Return released codes as a table: numbers and categories, in the container asked for.

    Parameters
    ----------
    codes : ndarray of shape (n, n_columns)
        Released.
    names : sequence, default=None
        Column names of a table.
    container : {"numpy", "pandas", "polars", "pyarrow"}
        An array has numbers if all columns have, else objects.
    rng : Generator, default=None
        As for `Domain.values`.
    """
    columns = [domain.values(j, codes[:, j], rng) for j in range(domain.n_columns)]
    labels = list(names) if names is not None else [f"x{j}" for j in range(domain.n_columns)]
    if container != "numpy":
        module: Any = import_module(container)  # the caller's table came from there
        if container == "pandas":
            table = module.DataFrame(dict(enumerate(columns)))
            table.columns = labels
            return table
        by_name = {
            str(label): _one_type(domain.column(j), column) if column.dtype.kind == "O" else column
            for j, (label, column) in enumerate(zip(labels, columns, strict=True))
        }
        return module.table(by_name) if container == "pyarrow" else module.DataFrame(by_name)
    kinds = {column.dtype.kind for column in columns}
    if kinds <= set("biuf"):
        return np.column_stack(columns)
    out = np.empty((len(codes), domain.n_columns), dtype=object)
    for j, column in enumerate(columns):
        out[:, j] = column.tolist()
    return out
