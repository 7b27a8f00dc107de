"""Filling missing cells: `DPSimpleImputer`.

A fit releases the mean, the median or the most frequent value of each column, over its non-missing
rows. With a constant it releases nothing.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.base import check_bounds
from skdp.base.expected_error import ExpectedErrorMixin, Fresh, mean_error, repeated, unanswered
from skdp.base.mixin import in_precision_of
from skdp.base.transformers import (
    SHORT,
    Floats,
    Transformer,
    check_delta_for,
    input_names,
    is_private,
    nullable,
    present_bounds,
    present_columns,
    stated_categories,
    warn_of_few_rows,
)
from skdp.core import Session
from skdp.exceptions import warn_caller
from skdp.parameters import FLAG, Table
from skdp.planning import Allowance, row_count
from skdp.queries import (
    MarginalCells,
    Quantiles,
    learn_domain,
    present_means,
    rank_scale,
    row_counts,
)
from skdp.tabular import (
    MISSING,
    ColumnPlan,
    array_of_cells,
    cell_key,
    check_categorical,
    check_coded,
    check_columns,
    check_public_array,
    check_uncoded,
    column_plans,
    holds_numbers,
    is_missing,
    listed,
    stand_in,
    with_missing,
)
from skdp.user_code import or_raise

__all__ = ["DPSimpleImputer"]

_CATEGORIES = Fraction(1, 2)  # of the allowance, for selecting categories
_SPARE = 0.1  # part of the rows that each learned bound of a median may clip
_FAR = 0.1  # an error of a mean, in widths of the bounds, or of a median, in rows: no fill
# A column is empty if its count is below so many standard errors, and these are below this part of
# the largest count: else an error says nothing of a column.
_SEEN, _LITTLE = 3.0, 0.01
_NUMERIC = ("mean", "median")


def _fill(value: Any, name: str) -> Any:
    """Return the constant, or raise: one number, text or boolean."""
    key = cell_key(value)
    if value is not None and (key is None or key == MISSING):
        raise ValueError(f"{name} must be one finite number, text, boolean or None, not missing")
    return value


def _marker(value: Any, name: str) -> Any:
    """Return what stands for missing cells, or raise."""
    if cell_key(value) is None and not _is_missing(value):
        raise ValueError(f"{name} must be NaN, None, one finite number, text or boolean")
    return value


def _with_missing(values: list[Any]) -> list[Any]:
    """Return categories with the missing one at the end, which counts all other cells, too."""
    return [*(value for value in values if cell_key(value) != MISSING), None]


def _is_missing(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, float | np.floating) and bool(cell != cell))


class DPSimpleImputer(ExpectedErrorMixin, Transformer):
    """Fill missing cells with private means, medians or most frequent values, or a constant.

    The private counterpart of scikit-learn's ``SimpleImputer``, without callables. Columns without
    values are left out where released counts show them. No row is left out as a whole. A sparse
    matrix is read as a dense one, and `transform` returns one.

    Parameters
    ----------
    missing_values : number, str, bool or None, default=NaN
        Cells with this value are missing, as are those with NaN, None and NA.
    strategy : {"mean", "median", "most_frequent", "constant"}, default="mean"
        ``"mean"`` and ``"median"`` are for numeric columns.
    fill_value : number, str or bool, default=None
        The value for ``strategy="constant"``, which costs nothing; None: 0, or "missing_value"
        where the types of columns are not all those of numbers.
    add_indicator : bool, default=False
        Add a column for each column of X, 1.0 where a cell was missing.
    keep_empty_features : bool, default=False
        Keep a column without values. Else `transform` leaves it out, with a warning, if its count
        is released and cannot be told from 0, and noise is small beside the counts of others: for
        means, and most frequent values of stated categories. With ``strategy="most_frequent"``,
        also fill a column in which no category had enough rows with 0, or "missing_value" where
        the types of columns are not all those of numbers.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them, for at most half of the allowance; for means, whose errors are told, for up to
        four fifths where rows are few. Only for means and medians.
    categories : "private", "dtype" or list or mapping, default="private"
        Only for ``strategy="most_frequent"``: as for `skdp.preprocessing.DPOneHotEncoder`.
        ``"private"`` needs a delta above 0, and takes half of the allowance.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        The value that fills the missing cells of each column: numbers for means and medians,
        otherwise objects. None for a column in which no category had enough rows; its cells stay
        missing. NaN for a column that is left out.
    statistics_std_error_ : ndarray of shape (n_features,)
        Standard error of means: due to noise and, with learned bounds, due to the clipping that
        ordinary columns undergo. NaN if bounds could not be learned well enough. 0 for a constant,
        NaN for all other strategies.
    counts_ : ndarray of shape (n_features,)
        Noisy number of the rows with a value in each column, and of the most frequent value's
        strategy those with a category that is stated or selected. NaN where it was not released: of
        medians and constants.
    counts_std_error_ : ndarray of shape (n_features,)
    indicator_ : MissingIndicator or None
        With `add_indicator`: scikit-learn's, for all columns.
    bounds_ : tuple of two ndarrays of shape (n_features,) or None
        For means and medians: the bounds, stated or learned.
    {fitted}
        ... With a constant there are no releases, and epsilon is 0.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if there is text where
        numbers are needed, if there is an infinite value, if categories are private and
        ``delta=0``, or if X is not a table.

    Notes
    -----
    **Privacy.** Statistics of a column are over the rows that have a value in it. *Released* for
    means and medians, if bounds are not stated: the number of these rows, of all columns together
    (5% of the allowance), and bounds, of all columns together. Then the means of the clipped
    values of all columns, with these numbers of rows, as one vector; or the median of each
    column. *Sensitivity*: replacing a row may replace, add or remove a value. The vector has the
    largest sensitivity of these three cases; ranks may move by two steps (by one in columns whose
    type has no missing values). *Mechanism*: K-norm or rounded Gaussian noise, whichever is less,
    for means, the exponential mechanism for medians. *Released* for most frequent values: the
    categories, if not stated (half of the allowance, as `skdp.preprocessing.DPOneHotEncoder`
    selects them), then the number of rows of each category. L1 *sensitivity* 1 (2 if a row is
    replaced), with discrete Laplace or rounded Gaussian noise, whichever is less. *Charged*: at
    most (epsilon, delta), once, before any noise, to ``budget``; with a constant nothing. Proofs:
    ``skdp/queries/columns.md``, ``skdp/queries/learned_domain.md``.

    **Expected error.** Of means and medians: how far noise moves the filled-in values from those of
    the rows (clipped to `bounds`, if stated), averaged over columns, in standard deviations of the
    column of `like` (in its unit, if all its values are equal). Of most frequent values: the part
    of the columns that get another value, or none. It needs `like`, with as many missing cells.

    References
    ----------
    Hardt & Talwar 2010, "On the geometry of differential privacy", section 4 (K-norm mechanism).

    Smith 2011, "Privacy-preserving statistical estimation with optimal convergence rates",
    Algorithm 2 (private quantiles).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.impute import DPSimpleImputer
    >>> X = np.random.default_rng(0).normal(40.0, 10.0, size=(5000, 1))
    >>> X[:1000] = np.nan
    >>> imputer = DPSimpleImputer(bounds=(0, 100)).fit(X)
    >>> abs(imputer.statistics_[0] - 40) < 1, np.isnan(imputer.transform(X)).any()
    (np.True_, np.False_)
    >>> X = np.array([[np.nan], [2.0]])
    >>> DPSimpleImputer(strategy="constant", fill_value=-1).fit_transform(X)
    array([[-1.],
           [ 2.]])
    """

    missing_values: Any = np.nan
    strategy: str = "mean"
    fill_value: Any = None
    add_indicator: bool = False
    keep_empty_features: bool = False
    bounds: Any = "private"
    categories: Any = "private"

    _tags = ("input_tags.allow_nan", "input_tags.sparse")
    _parameter_table: ClassVar[Table] = {
        "missing_values": _marker,
        "keep_empty_features": FLAG,
        "strategy": (*_NUMERIC, "most_frequent", "constant"),
        "fill_value": _fill,
        "add_indicator": FLAG,
    }

    def _is_free(self) -> bool:
        return self.strategy == "constant"

    @property
    def _selects(self) -> bool:
        return self.strategy == "most_frequent" and is_private(self.categories)

    @property
    def _learns(self) -> bool:
        return self._selects

    @property
    def _bounds_of_columns(self) -> Any:
        return super()._bounds_of_columns if self.strategy in _NUMERIC else None

    @property
    def _n_releases(self) -> int:
        return 6  # counts, bounds in several parts, and means or medians

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        if self.strategy == "mean":
            ends = -np.ones(n_features), np.ones(n_features)
            return allowance.query_std(present_means(*ends, tuple(range(n_features))))
        column = allowance.part(1 / n_features)
        return column.choice_scale(1) if self.strategy == "median" else column.cell_std

    def _check_without_rows(self) -> None:
        self._check_parameters()
        if self.strategy in _NUMERIC:
            super()._check_without_rows()
            return
        if self._selects:
            check_delta_for(type(self).__name__, self._allowed_delta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = self.strategy not in _NUMERIC
        tags.input_tags.categorical = self.strategy not in _NUMERIC
        return tags

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release the values that fill missing cells.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, with missing cells. Rows in parts (`skdp.engines`) are refused.
        """
        with self._all_or_nothing(groups):
            self._check_without_rows()
            table: Any = self._marked(X)
            self.bounds_: Any = None
            self._kept: Any = slice(None)
            if self.strategy in _NUMERIC:
                rows = check_columns(table, **self._entrance)
                self._describe(X)
                stated = self._stated_bounds(len(rows.plans))
                with self._session(rows) as session:
                    times, why = self._release_numbers(session, rows.plans, stated)
                self._leave_out(self._empty())
                if (few := np.flatnonzero(times > 1.0)).size:
                    labels = [rows.plans[j].label for j in few]
                    what = f"what fills columns {listed(labels)} may be far from their rows"
                    warn_of_few_rows(self, what, float(times.max()), why)
                return self
            of_numbers = holds_numbers(table)
            self._check_fill(X)
            table, schema = check_categorical(table, **self._entrance)
            self._describe(X)
            self.counts_, self.counts_std_error_ = np.full((2, schema.n_columns), np.nan)
            fill = self.fill_value
            if fill is None or not self._is_free():
                fill = 0 if of_numbers else "missing_value"
            if self._is_free():
                self.statistics_ = np.full(schema.n_columns, fill, dtype=object)
                self.statistics_std_error_ = np.zeros(schema.n_columns)
                self.privacy_ = self._context().nothing_released()
                return self
            empty_columns = self._release_frequent(table, schema)
            if self.keep_empty_features:
                self.statistics_[[value is None for value in self.statistics_]] = fill
                empty_columns = []
            if of_numbers and not empty_columns:
                self.statistics_ = np.array(self.statistics_.tolist())
        if empty_columns:  # which is released, so a warning may tell it
            warn_caller(
                f"{type(self).__name__}: no category of columns {listed(empty_columns)} had enough "
                "rows to be selected: their missing cells stay missing. State categories, or take "
                "a larger epsilon or delta",
            )
        return self

    def _check_fill(self, X: Any) -> None:
        """Refuse a constant that an array of numbers cannot hold."""
        dtype, kind = getattr(X, "dtype", None), type(self.fill_value)
        if self.fill_value is None or not self._is_free() or not holds_numbers(X):
            return
        if not np.can_cast(kind, np.float64 if dtype is None else dtype, casting="same_kind"):
            raise ValueError(
                f"fill_value={self.fill_value!r} (of type {kind!r}) cannot be cast to the input "
                f"data that is {dtype!r}. Make sure that both dtypes are of the same kind."
            )

    def _empty(self) -> NDArray[np.bool_]:
        """Say which columns have no value, by their released counts; a NaN says nothing."""
        far = _SEEN * self.counts_std_error_
        return (self.counts_ <= far) & (far < _LITTLE * self.counts_.max())

    def _leave_out(self, empty: NDArray[np.bool_]) -> None:
        """Leave columns out of what `transform` returns, unless they are to be kept."""
        if empty.any() and not self.keep_empty_features:
            self.statistics_[empty], self._kept = np.nan, np.flatnonzero(~empty)

    def _marked(self, X: Any) -> Any:
        """Return rows in which `missing_values` are missing as NaN or None are."""
        kind = getattr(getattr(X, "dtype", None), "kind", "")
        if kind in ("U", "S") and self.strategy not in _NUMERIC:
            raise ValueError(
                f"{type(self).__name__} does not support data with dtype {kind!r}: a missing cell "
                "would be text. Take an array of numbers, or of text with dtype object"
            )
        if kind in ("f", "i", "u") and isinstance(self.missing_values, str):
            raise ValueError(
                "'X' and 'missing_values' types are expected to be both numerical. Got "
                f"X.dtype={X.dtype} and type(missing_values)={type(self.missing_values)}."
            )
        if sparse.issparse(X) and cell_key(self.missing_values) == ("number", 0):
            raise ValueError(
                "Imputation not possible when missing_values == 0 and input is sparse. Provide a "
                "dense array instead."
            )
        if not _is_missing(self.missing_values):
            return with_missing(X, self.missing_values, estimator=type(self).__name__)
        return X.toarray() if sparse.issparse(X) else X

    def _describe(self, X: Any) -> None:
        """Set names and number of columns, and the indicator of missing cells."""
        validate_data(self, X, skip_check_array=True)
        self.indicator_ = None
        if self.add_indicator:
            numeric = isinstance(self.missing_values, numbers.Real)
            public = np.zeros((1, self.n_features_in_), dtype=np.float64 if numeric else object)
            options: Any = {"missing_values": self.missing_values, "features": "all"}
            self.indicator_ = MissingIndicator(**options, error_on_new=False).fit(public)

    def _release_numbers(self, session: Session, plans: Any, stated: Any) -> tuple[Floats, str]:
        """Release and set bounds and statistics.

        Return how many times the rows each column asks for, and what learned bounds say of that.
        """
        mean = self.strategy == "mean"
        spare = 0.0 if mean else _SPARE
        bounds, learned = present_bounds(session, plans, stated, audit=mean, spare=spare)
        why = ""
        std_error, counts, counts_error = np.full((3, len(plans)), np.nan)
        if mean:
            answer = session.answer(present_means(*bounds, nullable(plans)))
            values, std_error = answer.value, np.asarray(answer.std)
            counts, counts_error = answer.count.value, answer.count.std
            if learned is not None:
                std_error = np.hypot(std_error, learned.mean_error())
            times = std_error / np.maximum((bounds[1] - bounds[0]) * _FAR, 1e-300)
            if learned is not None and np.isnan(times).any():
                times[np.isnan(times)], why = math.inf, learned.why_no_error
        else:
            level, relation = session.level(session.remaining / len(plans)), session.adjacency
            off = rank_scale([0.5], level, 1, pure=session.pure, adjacency=relation)
            known = relation == "replace_one" or learned is not None
            n = row_count(session, None, learned) if known else math.inf
            times = np.full(len(plans), off / n / _FAR)
            if learned is not None and learned.short > max(SHORT, times.max()):
                times[:], why = learned.short, learned.why_no_error
            columns = present_columns(session, plans, bounds)
            medians = [c.answer(Quantiles(c.box, [0.5]), "median").value for c in columns]
            values = np.ravel(medians)
        self.bounds_ = bounds
        self.counts_, self.counts_std_error_ = np.array(counts), np.array(counts_error)
        self.statistics_, self.statistics_std_error_ = np.clip(values, *bounds), std_error
        return times, why

    def _release_frequent(self, table: Any, schema: Any) -> list[Any]:
        """Release and set statistics; return the columns without one."""
        d = schema.n_columns
        labels = list(schema.names or range(d))
        specs = zip(labels, stated_categories(self.categories, table, schema), strict=True)
        stated = {label: _with_missing(spec) for label, spec in specs if not isinstance(spec, str)}
        plans: list[ColumnPlan] = column_plans(stated, table, schema, labels=labels)
        named, empty = schema.names is not None, self._allow_empty
        domain, selects = stand_in(plans, named=named), any(plan.learned for plan in plans)
        rows: Any = (
            check_uncoded(table, plans, named=named, allow_empty=empty)
            if selects
            else check_coded(table, domain, **self._entrance)
        )
        with self._session(rows) as session:
            if selects:
                learned = learn_domain(session, plans, 1.0, 4, _CATEGORIES, named=named)
                domain = learned.domain
            counts, stds = [], []
            for j in range(d):
                query = row_counts(MarginalCells(tuple(domain.sizes), (j,)), "marginal")
                part = session.remaining / (d - j) if j < d - 1 else None
                answer = session.answer(query, part, name=f"column {labels[j]}")
                counts.append(answer.value)
                stds.append(float(np.max(answer.std)))
        self.statistics_ = np.full(d, None, dtype=object)
        self.statistics_std_error_ = np.full(d, np.nan)
        for j, count in enumerate(counts):
            values: list[Any] = list(domain.column(j))  # type: ignore[arg-type]  # no Bins
            known = [
                (float(c), value)
                for place, (c, value) in enumerate(zip(count, values, strict=True))
                # The last of selected categories stands for all others.
                if cell_key(value) != MISSING
                and not (plans[j].learned and place == len(values) - 1)
            ]
            self.counts_[j] = sum(number for number, _ in known)
            self.counts_std_error_[j] = stds[j] * math.sqrt(len(known))
            if known:
                self.statistics_[j] = max(known, key=lambda pair: pair[0])[1]
        self._leave_out(self._empty() & [not plan.learned for plan in plans])
        pairs = zip(labels, self.statistics_, strict=True)
        return [label for label, value in pairs if value is None]

    def _error_of_fit(self, n: int, n_features: int | None, like: Any) -> float:
        if like is None:
            raise unanswered(self, "the rows: on how many values each column has", fit=False)
        like = self._marked(like)
        if self.strategy in _NUMERIC:
            return self._error_of_numbers(n, like)
        return self._error_of_frequent(n, like)

    def _error_of_numbers(self, n: int, like: Any) -> float:
        name = f"{type(self).__name__}.expected_error(like=...)"
        rows = check_public_array(like, estimator=name, allow_missing=True)
        if np.isnan(rows).all(axis=0).any():
            raise ValueError("like must have a value in every column")
        scale = np.nanstd(rows, axis=0)
        scale[scale == 0] = 1.0
        by_position = self._by_position(like)
        stated = check_bounds(by_position.bounds, rows.shape[1], range(rows.shape[1]))
        clipped = rows if stated is None else np.clip(rows, *stated)
        of_column = np.nanmean if self.strategy == "mean" else np.nanmedian

        def once(fresh: Fresh, number: int) -> float:
            drawn = repeated(len(rows), n, number)
            values = fresh(number).fit(rows[drawn]).statistics_
            away = np.abs(values - of_column(clipped[drawn], axis=0)) / scale
            return float(np.nanmean(away))  # a column may have no value in few rows

        return mean_error(by_position, once)

    def _error_of_frequent(self, n: int, like: Any) -> float:
        name = f"{type(self).__name__}.expected_error(like=...)"
        table, schema = check_categorical(like, estimator=name)
        cells, specs = array_of_cells(table), stated_categories(self.categories, table, schema)
        keys = [
            [None if _is_missing(cell) else cell_key(cell) for cell in column] for column in cells.T
        ]
        if any(all(key is None for key in column) for column in keys):
            raise ValueError("like must have a value in every column")

        def once(fresh: Fresh, number: int) -> float:
            drawn = repeated(len(cells), n, number)
            values = fresh(number, categories=specs).fit(cells[drawn]).statistics_
            wrong = []
            for column, value in zip(keys, values, strict=True):
                counts = Counter(column[i] for i in drawn if column[i] is not None)
                chosen = counts.get(None if value is None else cell_key(value), 0)
                wrong.append(chosen < max(counts.values(), default=0))
            return float(np.mean(wrong))

        return mean_error(self, once)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Fill the missing cells of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            It is not changed. If it is private, so is the result.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features_out)
            Numbers for means and medians, and where the types of all columns and all statistics
            are those of numbers; otherwise objects, as lists of lists give too.
        """
        check_is_fitted(self)
        table = self._marked(X)
        if self.strategy in _NUMERIC:
            values: Any = check_public_array(table, **self._entrance, allow_missing=True)
            missing = np.isnan(values)
        else:
            values = array_of_cells(check_categorical(table, **self._entrance)[0])
            missing = np.array([_is_missing(cell) for cell in values.ravel()], dtype=bool)
            missing = missing.reshape(values.shape)
        validate_data(self, X, reset=False, skip_check_array=True)
        statistics = self.statistics_[self._kept]
        if len(statistics) < len(self.statistics_):
            names = np.delete(input_names(self, None), self._kept)
            warn_caller(
                f"Skipping features without any observed values: {names}. At least one non-missing "
                f"value is needed for imputation with strategy={self.strategy!r}, or "
                "keep_empty_features=True. Released counts cannot be told from 0.",
            )
        filled = np.where(missing[:, self._kept], statistics, values[:, self._kept])
        # By the types of columns, which are public: a cell of text must not decide for others.
        known = all(isinstance(value, numbers.Real | np.bool_) for value in statistics)
        if filled.dtype == object and known and holds_numbers(table):
            filled = filled.astype(np.float64)
        if filled.dtype == np.float64:
            filled = in_precision_of(X, filled)
        if self.add_indicator:
            filled = np.hstack([filled, missing.astype(np.float64)])
        numeric = filled.dtype != object  # else a column has no statistic
        return sparse.csc_matrix(filled) if sparse.issparse(X) and numeric else filled

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Make filled cells missing again, using the indicators; needs ``add_indicator=True``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)
            The output of `transform`.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            `missing_values` (None for NaN in an array of objects) where cells were missing.
        """
        check_is_fitted(self)
        if not self.add_indicator:
            raise ValueError(
                "'inverse_transform' works only when 'SimpleImputer' is instantiated with "
                "'add_indicator=True'. Got 'add_indicator=False' instead."
            )
        d, kept = self.n_features_in_, np.arange(self.n_features_in_)[self._kept]
        text = "X must be rows as transform makes them, of two dimensions: cells, then indicators"
        rows: Any = X
        dense = rows.toarray() if sparse.issparse(rows) else rows
        values = or_raise(lambda: np.array(dense), lambda: ValueError(text))
        if values.ndim != 2:
            raise ValueError(text)
        self._check_width(values.shape[1], len(kept) + d)
        marks = or_raise(lambda: values[:, -d:].astype(bool), lambda: ValueError(text))
        nothing: Any = self.missing_values
        if _is_missing(nothing):
            nothing = None if values.dtype == object else np.nan
        cells = np.full((len(values), d), nothing, dtype=values.dtype)
        cells[:, kept] = values[:, : len(kept)]
        return np.where(marks, nothing, cells)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` makes."""
        names = np.array(input_names(self, input_features), dtype=object)
        marks = [f"missingindicator_{name}" for name in names if self.add_indicator]
        return np.append(names[self._kept], np.array(marks, dtype=object))
