"""Base classes of transformers and scalers; categories; moments and ranges of columns.

Categories are stated, listed by the public type of a column, or selected privately. Columns with
missing values are summarised over their non-missing rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.base.expected_error import (
    ExpectedErrorMixin,
    Fresh,
    check_like,
    mean_error,
    resampled,
)
from skdp.base.mixin import PrivateMixin, in_precision_of, keeps_precision
from skdp.budget import Cost
from skdp.core import Box, RowSum, Session
from skdp.exceptions import warn_at_end
from skdp.parameters import naming, shown
from skdp.planning import Allowance, bounds_in, learned_before, row_count
from skdp.queries import (
    CellQuantile,
    FilledCells,
    LearnedBounds,
    LearnedBox,
    OfColumn,
    moments,
    select_categories,
)
from skdp.tabular import (
    MISSING,
    ONE_PLACE,
    ColumnPlan,
    Schema,
    cell_key,
    check_columns,
    check_public_array,
    listed,
)

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Pair = tuple[Floats, Floats]


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


def _listed_by_type(X: Any, j: int, schema: Schema) -> list[Any]:
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
    return [
        _listed_by_type(X, j, schema) if spec == DTYPE else spec for j, spec in enumerate(specs)
    ]


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


# --- columns with missing cells -------------------------------------------------------------------


# Of the allowance, at most, for all columns together: counts, and bounds of which no error is told.
_COUNT, _BOUNDS = Fraction(1, 20), Fraction(1, 2)


@dataclass(frozen=True)
class Present:
    """One column, its clipping bounds, and the privacy allowance reserved for later columns."""

    session: Session
    number: int
    label: str
    box: Box
    reserved: Fraction

    @property
    def remaining(self) -> Fraction:
        """The remaining allowance of the column."""
        return self.session.remaining - self.reserved

    def answer(self, query: Any, name: str, part: Fraction = Fraction(1)) -> Any:
        """Answer a query on the column for a part of its remaining allowance."""
        share = self.remaining * part if self.reserved or part < 1 else None
        query = OfColumn(self.number, query)
        return self.session.answer(query, share, name=f"column {self.label}, {name}")


def nullable(plans: Sequence[ColumnPlan]) -> tuple[int, ...]:
    """Return the columns whose types have missing values."""
    return tuple(j for j, plan in enumerate(plans) if plan.missing)


def present_bounds(
    session: Session,
    plans: Sequence[ColumnPlan],
    stated: Pair | None,
    *,
    audit: bool,
    spare: float = 0.0,
) -> tuple[Pair, LearnedBox | None]:
    """Return the stated bounds, or learn those of each column over its non-missing rows.

    And what was learned, as `bounds_in` does. The session is of rows from `check_columns`; `audit`
    and `spare` go to `LearnedBounds`.
    """
    if stated is not None:
        return stated, learned_before(stated)
    later = session.remaining * (1 - _COUNT)
    n, columns = np.empty(len(plans)), nullable(plans)
    if len(columns) < len(plans):
        n[:] = session.row_count((session.remaining - later) / 4).value
    if columns:
        query = RowSum(FilledCells(columns), noise="smaller", name="rows with a value")
        n[list(columns)] = session.answer(query, session.remaining - later).value
    counts = np.maximum(n, 1.0)
    bounds = LearnedBounds(n=float(counts.mean()), audit=audit, spare=spare)
    share = None if audit else session.remaining * _BOUNDS
    box = session.answer(OfColumn(tuple(range(len(plans))), bounds), share, name="bounds")
    return (box.low, box.high), box.of_counts(counts)


def present_columns(
    session: Session, plans: Sequence[ColumnPlan], bounds: Pair
) -> Iterator[Present]:
    """Yield the columns with bounds; each has an equal part of the remaining allowance."""
    d = len(plans)
    for j, (plan, low, high) in enumerate(zip(plans, *bounds, strict=True)):
        # Of the remaining allowance: what a column does not spend is for later ones.
        reserved = session.remaining * (d - j - 1) / (d - j)
        yield Present(session, j, str(plan.label), Box(low, high, per_feature=True), reserved)


# --- scalers --------------------------------------------------------------------------------------

NAN_POLICY = ("raise", "omit")  # what `nan_policy` may be

_KEPT = ("float16", "float32")  # types that come back as they are
_LARGEST = float(np.finfo(np.float64).max)
N_CELLS = 4096  # of a column's bounds; a released quantile is the outer edge of one of them
_EMPTY_CELL = 0.01  # chance that noise puts an extreme quantile beyond the rows
_LARGEST_Q = 0.25
_FITS = 80  # rehearsals, at most: each costs a fit on n rows


def finite(values: Floats) -> Floats:
    """Replace infinities by the largest float of their sign."""
    return np.clip(values, -_LARGEST, _LARGEST)


class Scaler(OneToOneFeatureMixin, ExpectedErrorMixin, Transformer):
    """A scaler: bounds, missing cells, and transforms of the caller's rows."""

    bounds: Any = field(init=False)
    nan_policy: str = field(init=False, default="raise")  # for classes without this parameter

    @property
    def _n_releases(self) -> int:
        return 6 if self._omits else 1  # columns with missing cells are asked one by one

    @property
    def _omits(self) -> bool:
        """Whether missing cells are left out, column by column."""
        return self.nan_policy == "omit"

    def _one_place(self) -> str:
        return ONE_PLACE if self._omits else super()._one_place()

    def _open(self, X: Any, *, reset: bool = True) -> Any:
        self._check_parameters()
        if not self._omits:
            return super()._open(X, reset=reset)
        rows = check_columns(X, **self._entrance)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def _public_array(self, X: Any) -> Floats:
        check_is_fitted(self)
        values = self._table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return values

    def _table(self, X: Any) -> Floats:
        return check_public_array(X, **self._entrance, allow_missing=self._omits)

    def _refuse_error_of_present(self) -> None:
        """Refuse an expected error that depends on how many cells are missing."""
        if self._omits and not self._is_free():
            raise ValueError(
                f"{type(self).__name__} cannot tell its error beforehand with nan_policy='omit': "
                "it depends on how many cells of a column are missing. With nan_policy='raise' it "
                "tells that of columns without missing cells; or fit a clone to public rows"
            )

    def _forward(self, values: Floats) -> Floats:
        """Return transformed rows; `values` is a copy, which may be changed."""
        raise NotImplementedError

    def _backward(self, values: Floats) -> Floats:
        """Return transformed rows in the units of X."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = keeps_precision(super().__sklearn_tags__())
        tags.input_tags.allow_nan = self._omits
        return tags

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Transform the caller's rows by what the fit released; nothing is clipped to bounds.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Finite numbers, with ``nan_policy="omit"`` also missing ones, which stay missing; left
            as they are. If they are private, so is the result.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features)
            float64, or float32 or float16 if X is that. Always finite, since an error later would
            reveal a row.
        """
        values = self._public_array(X).copy()
        with np.errstate(over="ignore", under="ignore"):
            return in_precision_of(X, finite(self._forward(values)), _KEPT)

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return transformed rows to the units of X."""
        check_is_fitted(self)
        values = self._table(X)
        if values.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} columns, as many as in fit, got "
                f"{values.shape[1]}"
            )
        with np.errstate(over="ignore", under="ignore"):
            return in_precision_of(X, finite(self._backward(values.copy())), _KEPT)


# --- errors that depend on rows ----------------------------------------------------------------


def check_means(like: Any, d: int) -> Floats | None:
    """Return the means of an earlier fit, None if `like` is no fitted scaler, or raise."""
    if not isinstance(like, Scaler):
        return None
    means = getattr(like, "mean_", None)
    if means is None:
        raise ValueError("like must be fitted, with means, or public rows")
    if np.shape(means) != (d,):
        raise ValueError(f"like must have n_features = {d} columns, got {np.size(means)}")
    return np.asarray(means)


def error_of_fits(
    estimator: Any, n: int, d: int, like: Any, error: Callable[[Any, Floats], float]
) -> float:
    """Return the mean of error(fitted, rows) over fits to n rows drawn from public ones."""
    draw = resampled(check_like(estimator, like, d), n)

    def once(fresh: Fresh, number: int) -> float:
        table = draw(number)
        return error(fresh(number).fit(table), table)

    # To 15%, which is 7.5% of the root of a mean square. Columns tell as much as fits.
    return mean_error(estimator, once, least=max(24 // d, 8), most=_FITS, precision=0.15)


# --- moments -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnMoments:
    """Released means and mean squares of columns, in units of their bounds; arrays of shape (d,).

    `mean_noise` and `square_noise` are their standard errors. `n` counts (non-missing) rows or adds
    up weights; `n_noise` is its relative noise: 0 if `n` is public.
    """

    bounds: Pair
    mean: Floats
    square: Floats
    mean_noise: Floats
    square_noise: Floats
    n: Any
    n_noise: Any
    learned: list[LearnedBox]
    weighted: bool = False

    def clipped(self, means: Floats) -> Pair:
        """Return the errors of means and variances due to learned bounds, in the units of X."""
        d, start = len(means), 0
        if self.weighted and self.learned:
            return np.full(d, np.nan), np.full(d, np.nan)
        mean, variance = np.zeros(d), np.zeros(d)
        for box in self.learned:
            part = slice(start, start := start + len(box.low))
            mean[part] = box.mean_error()
            variance[part] = box.square_errors(means[part])
        return mean, variance


def release_moments(
    session: Session, stated: Pair | None, most: float | None = None
) -> ColumnMoments:
    """Release the moments of all columns in one vector, with `most` those of weighted rows."""
    bounds, learned = bounds_in(session, stated, errors=True)
    mean, square, count = session.answer(moments(*bounds, most))
    boxes, n = [] if learned is None else [learned], float(count.value)
    first, second = (np.full(len(mean.value), float(moment.std)) for moment in (mean, square))
    released = mean.value, square.value, first, second, n if most is None else n * most
    n_noise, weighted = float(count.std) / n, most is not None
    return ColumnMoments(bounds, *released, n_noise, boxes, weighted)


def release_present_moments(session: Session, rows: Any, stated: Pair | None) -> ColumnMoments:
    """Release the moments of each column, over its non-missing rows."""
    bounds, learned = present_bounds(session, rows.plans, stated, audit=True)
    boxes = [] if learned is None else [learned]
    columns = []
    for column in present_columns(session, rows.plans, bounds):
        first, second, n = column.answer(moments(column.box.low, column.box.high), "moments")
        release = first.value[0], second.value[0], float(first.std), float(second.std)
        columns.append((*release, float(n.value), float(n.std) / float(n.value)))
    mean, square, mean_noise, square_noise, rows_of, n_noise = np.array(columns).T
    return ColumnMoments(bounds, mean, square, mean_noise, square_noise, rows_of, n_noise, boxes)


# --- ranges ------------------------------------------------------------------------------------

# Bounds and what was learned of them, level of the lower quantile, both ends.
Range = tuple[Pair, LearnedBox | None, Any, Floats, Floats]


def release_range(session: Session, q: Any) -> Range:
    """Release bounds and two extreme quantiles of all columns."""
    bounds, learned = bounds_in(session, None)
    if q == "auto":
        part = Fraction(1, session.n_features)
        column = Allowance.left(session, session.remaining / 2).part(part)
        q = auto_q(row_count(session, None, learned), column.pure_epsilon)
    lower, upper = _ends(Box(*bounds, per_feature=True), q)
    half = session.remaining / 2
    first = session.answer(lower, half, name="lower quantile").value
    last = session.answer(upper, half, name="upper quantile").value
    return bounds, learned, float(q), *_outer(bounds, first, last)


def release_present_range(session: Session, rows: Any, q: Any) -> Range:
    """Release bounds and two extreme quantiles of each column, over its non-missing rows."""
    bounds, learned = present_bounds(session, rows.plans, None, audit=False)
    columns = []
    for column in present_columns(session, rows.plans, bounds):
        level, half = q, column.remaining / 2
        if q == "auto":
            assert learned is not None
            level = auto_q(learned.n, Allowance.left(session, half).pure_epsilon)
        lower, upper = _ends(column.box, level)
        first = column.answer(lower, "lower quantile", Fraction(1, 2)).value[0]
        last = column.answer(upper, "upper quantile").value[0]
        columns.append((float(level), first, last))
    levels, first, last = np.array(columns, dtype=np.float64).T
    return bounds, learned, levels, *_outer(bounds, first, last)


def _ends(box: Box, q: float) -> tuple[CellQuantile, CellQuantile]:
    # Rounded, because integer scores are as long as the level's decimals.
    return CellQuantile(box, q, N_CELLS), CellQuantile(box, round(1.0 - q, 12), N_CELLS)


def _outer(bounds: Pair, first: Floats, last: Floats) -> Pair:
    """Return the outer edges of the chosen cells; noise may exchange the two cells.

    Where both are one cell, most rows have one value, such as 0, and the others may lie anywhere
    within the bounds: these are the range, unless all columns have the same ones.
    """
    low, high = bounds
    cell = (high - low) / N_CELLS
    least, most = np.minimum(first, last), np.maximum(first, last)
    own = low.size == 1 or np.ptp(low) > 0 or np.ptp(high) > 0
    equal = (most - least < cell / 2) & own
    return np.where(equal, low, least - cell / 2), np.where(equal, high, most + cell / 2)


# --- quantile levels and doubtful bounds -------------------------------------------------------


def auto_q(n: float, epsilon: float) -> float:
    """Return the most extreme quantile level that n rows and a column's epsilon allow."""
    # The exponential mechanism weighs a cell r ranks off by exp(-r epsilon / 2). The cells beyond
    # all rows, at most N_CELLS, are q n ranks off: with this q, one of them is drawn with
    # probability below _EMPTY_CELL.
    ranks = max(2.0 / epsilon * math.log(N_CELLS / _EMPTY_CELL), 0.5)
    q = ranks / n
    if q >= _LARGEST_Q:
        return _LARGEST_Q
    # Rounded up to three digits, so that integer scores stay short.
    digit = 10.0 ** (math.floor(math.log10(q)) - 2)
    return float(f"{math.ceil(q / digit) * digit:.2e}")


def warn_of_few_rows(estimator: Any, what: str, times: float, why: str = "") -> None:
    """Warn that noise decides an answer, by public facts or released numbers."""
    if not why:
        more = f"{math.ceil(10.0 * times) / 10.0:g} times as many rows or as large an epsilon"
        why = f"rows are too few for this epsilon. Use {more}"
    warn_at_end(f"{type(estimator).__name__}: {what}: {why}")


SHORT = 2.0  # times the rows that errors ask for; with 2.5, a fifth of the results were absurd


def warn_of_far_bounds(estimator: Any, learned: LearnedBox | None) -> None:
    """Warn where rows are too few for learned bounds, by public facts and their released number."""
    if learned is not None and learned.short > SHORT:
        what = "learned bounds, and all results with them, may be far off"
        warn_of_few_rows(estimator, what, learned.short, learned.why_no_error)


_DOUBTFUL = (
    "{name}: bounds were learned, and those of {which} may be far off: rows are too few for this "
    "epsilon, or most of a column is one value (amounts that are mostly zero). Its standard error "
    "is NaN, and its scale may be far too small or too large for the next step. State bounds: "
    "bounds={bounds}, of all columns{more}."
)


def warn_of_doubtful_bounds(estimator: Any, errors: Floats, boxes: list[LearnedBox]) -> None:
    """Warn of columns whose learned bounds may be far off, as their released errors say."""
    doubtful = np.flatnonzero(np.isnan(errors))
    if doubtful.size:
        names = getattr(estimator, "feature_names_in_", None)
        shown = listed([str(j if names is None else names[j]) for j in doubtful])
        which = f"column {shown}" if doubtful.size == 1 else f"columns {shown}"
        bounds = "([low, ...], [high, ...])" if names is None else "{name: (low, high), ...}"
        rows = max(boxes, key=lambda box: box.needed).more_rows
        text = _DOUBTFUL.format(
            name=type(estimator).__name__,
            which=which,
            bounds=bounds,
            more=f"; or {rows}" if rows else "",
        )
        warn_at_end(text)
