"""The base class of transformers; names of columns, categories and their indicators.

Categories are stated, listed by the public type of a column, or selected privately.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp.base.mixin import PrivateMixin
from skdp.budget import Cost
from skdp.core import Session
from skdp.parameters import naming, shown
from skdp.queries import select_categories
from skdp.tabular import MISSING, Schema, cell_key

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Transformer(PrivateMixin, TransformerMixin, BaseEstimator, ABC):
    """A private transformer, some fits of which release nothing."""

    @abstractmethod
    def _is_free(self) -> bool:
        """Say whether a fit with these parameters releases nothing."""

    def privacy_cost(  # type: ignore[override]  # None: nothing is charged
        self, n_samples: int | None = None, n_features: int | None = None
    ) -> Cost | None:
        """Return the cost of one fit, before any data is touched.

        {sizes}

        Returns
        -------
        cost : skdp.budget.Cost or None
            The (epsilon, delta) that one fit charges; None if it releases nothing. Where a fit
            selects classes or categories, a part of delta pays for that.
        """
        self._check_parameters()
        return None if self._is_free() else super().privacy_cost(n_samples, n_features)

    def _check_width(self, width: int, expected: int) -> None:
        """Refuse a table with a wrong number of columns."""
        if width != expected:
            raise ValueError(
                f"Shape of the passed X data is not correct. Expected {expected} columns, as "
                f"transform makes, got {width}"
            )


def input_names(estimator: Any, input_features: Any = None) -> list[str]:
    """Return the names of the columns of `fit`, or those given, or x0, x1, ...; or raise."""
    check_is_fitted(estimator)
    n, known = estimator.n_features_in_, getattr(estimator, "feature_names_in_", None)
    if input_features is None:
        return [f"x{j}" for j in range(n)] if known is None else list(known)
    given = list(np.asarray(input_features, dtype=object))
    if known is not None and given != list(known):
        raise ValueError("input_features is not equal to feature_names_in_")
    if len(given) != n:
        raise ValueError(f"input_features should have length equal to number of features ({n})")
    return given


def dtype_of_codes(value: Any, name: str) -> Any:
    """Return a type of numbers, or raise."""
    with naming(name):
        kind = np.dtype(value).kind
    if value is None or kind not in "biuf":
        raise ValueError(f"{name} must be a type of numbers, got {shown(value)}")
    return value


def indicators(
    codes: Codes, sizes: Sequence[int], *, as_sparse: bool, dtype: Any = np.float64
) -> Any:
    """Return one column for each of the `sizes[j]` codes of column j, 1 in its rows.

    A row with the code -1 has zeros. The table is dense, or CSR.
    """
    n, starts = len(codes), np.concatenate([[0], np.cumsum(sizes)])
    row, column = np.nonzero(codes >= 0)
    place = starts[column] + codes[row, column]
    if as_sparse:
        ones = np.ones(len(row), dtype=dtype)
        return sparse.csr_matrix((ones, (row, place)), shape=(n, int(starts[-1])))
    table = np.zeros((n, int(starts[-1])), dtype=dtype)
    table[row, place] = 1
    return table


def codes_of(table: Floats, sizes: Sequence[int]) -> Codes:
    """Return the code of the largest indicator of each column; -1 if all are 0."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    codes = np.full((len(table), len(sizes)), -1, dtype=np.int64)
    for j, size in enumerate(sizes):
        part = table[:, starts[j] : starts[j + 1]]
        if size:
            codes[:, j] = np.where(part.any(axis=1), part.argmax(axis=1), -1)
    return codes


# --- categories of columns ------------------------------------------------------------------------

PRIVATE, DTYPE = "private", "dtype"
_WHAT = (
    "categories must be 'private', 'dtype', or state every column: a list with one list of "
    "categories a column, or a mapping from column name to one; 'private' or 'dtype' may stand "
    "for a column's list"
)
_AUTO = (
    "categories='auto' would read the categories off private rows, and show the rare ones: state "
    "them, or take 'private' with delta above 0"
)
_FAMILIES = ("boolean", "number", "text", "missing")
_NO_DELTA = (
    "{0}: categories must be given where delta is 0: all categories of every column, from public "
    "knowledge, because which categories occur in X is private: categories=[['a', 'b'], ...]. "
    "With {0}(delta=1e-6), or a budget with delta, budget=PrivacyBudget(5, 1e-5), the categories "
    "that enough rows have are selected privately"
)


def per_column(categories: Any, n_columns: int, names: Sequence[Any] | None) -> list[Any]:
    """Return what is stated of each column ("private", "dtype" or a list), or raise."""
    if isinstance(categories, str):
        if categories in (PRIVATE, DTYPE):
            return [categories] * n_columns
        raise ValueError(_AUTO if categories == "auto" else f"{_WHAT}, got {categories!r}")
    if isinstance(categories, Mapping):
        labels = list(range(n_columns)) if names is None else list(names)
        unknown = [name for name in categories if name not in labels]
        missing = [name for name in labels if name not in categories]
        if unknown or missing:
            raise ValueError(
                f"categories must state every column; there are none for {missing}"
                + (f"; X does not have: {unknown}" if unknown else "")
            )
        return [_checked(categories[name], name) for name in labels]
    if not isinstance(categories, list | tuple | np.ndarray):
        raise TypeError(f"{_WHAT}, got {type(categories).__name__}")
    if len(categories) != n_columns:
        raise ValueError(
            "Shape mismatch: if categories is an array, it has to be of shape (n_features,): "
            f"categories must state every column, one list each: got {len(categories)} for "
            f"{n_columns} columns"
        )
    shown = range(n_columns) if names is None else names
    return [_checked(spec, name) for spec, name in zip(categories, shown, strict=True)]


def _checked(spec: Any, name: Any) -> Any:
    """Return one column's list of categories, or one of the two words."""
    if isinstance(spec, str) and spec in (PRIVATE, DTYPE):
        return spec
    if isinstance(spec, str | bytes | Mapping) or not isinstance(spec, Iterable):
        raise TypeError(
            f"categories of column {name!r} must be a list, 'private' or 'dtype', got "
            f"{type(spec).__name__}"
        )
    values = list(spec.tolist() if isinstance(spec, np.ndarray) else spec)
    keys = [cell_key(value) for value in values]
    if None in keys:
        raise TypeError(
            f"categories of column {name!r} must be text, finite numbers, booleans or missing"
        )
    if not keys:
        raise ValueError(f"categories of column {name!r} must be at least one")
    if len(set(keys)) < len(keys):
        raise ValueError(
            f"In column {name!r}, the predefined categories contain duplicate elements. "
            "They must be distinct"
        )
    return values


def is_private(categories: Any) -> bool:
    """Say whether a fit has to select categories, by the parameter alone."""
    if isinstance(categories, str):
        return categories == PRIVATE
    specs = categories.values() if isinstance(categories, Mapping) else categories
    if not isinstance(specs, Iterable):
        return False
    return any(isinstance(spec, str) and spec == PRIVATE for spec in specs)


def check_delta_for(name: str, delta: float) -> None:
    """Refuse a selection without a delta, before the charge."""
    if not delta:
        raise ValueError(_NO_DELTA.format(name))


def listed(X: Any, j: int, schema: Schema) -> list[Any]:
    """Return the categories that the type of a column lists."""
    if hasattr(X, "iloc"):
        dtype = X.dtypes.iloc[j]
    elif hasattr(X, "schema") and hasattr(X, "column_names"):  # pyarrow
        dtype = X.schema.field(j).type
    else:
        dtype = X.dtypes[j] if hasattr(X, "dtypes") else X.dtype
    categories = getattr(dtype, "categories", None)
    if categories is not None and type(dtype).__name__ in ("CategoricalDtype", "Enum"):
        return list(categories)
    if str(dtype).lower() in ("bool", "boolean"):
        return [False, True]
    name = j if schema.names is None else schema.names[j]
    raise ValueError(
        f"categories='dtype': the type of column {name!r} lists no categories; make it one of "
        "pandas' category, polars' Enum or bool, or state its categories"
    )


def stated_categories(categories: Any, X: Any, schema: Schema) -> list[Any]:
    """Return the categories of each column that are stated or listed by its type, or "private"."""
    specs = per_column(categories, schema.n_columns, schema.names)
    return [listed(X, j, schema) if spec == DTYPE else spec for j, spec in enumerate(specs)]


def selected(
    session: Session, columns: Sequence[int], share: Fraction | None = None
) -> dict[int, list[Any]]:
    """Select the categories of the columns of the session's rows that have keys, in order."""
    categories: dict[int, list[Any]] = {j: [] for j in columns}
    keys = session.answer(select_categories(len(columns)), share)
    for j, family, value in sorted(keys, key=lambda k: (k[0], _FAMILIES.index(k[1]), k[2])):
        categories[j].append(np.nan if (family, value) == MISSING else value)
    return categories


def as_array(values: list[Any], dtype: Any) -> NDArray[Any]:
    """Return categories as an array of booleans, of numbers (of the column's type), or objects.

    Of a column of objects they are objects, if the column is of an array.
    """
    families = {(cell_key(value) or ("", None))[0] for value in values}
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        pass
    elif families == {"boolean"}:
        return np.array(values, dtype=bool)
    elif values and families <= {"number", "missing"}:
        floats = isinstance(dtype, np.dtype) and dtype.kind == "f"
        return np.array(values, dtype=np.float64 if floats or "missing" in families else None)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


class Places:
    """The places of a column's categories; 0 is False and 1 is True, unless both are categories."""

    def __init__(self, values: Iterable[Any]) -> None:
        items = values.tolist() if isinstance(values, np.ndarray) else values
        self._known = {cell_key(value): place for place, value in enumerate(items)}

    def __call__(self, key: Any, otherwise: int) -> int:
        """Return the place of a cell's key."""
        place = self._known.get(key)
        if place is None and key[0] == "boolean":
            place = self._known.get(("number", int(key[1])))
        elif place is None and key[0] == "number" and key[1] in (0, 1):
            place = self._known.get(("boolean", bool(key[1])))
        return otherwise if place is None else place
