"""Columns of categories as numbers: `DPOneHotEncoder` and `DPOrdinalEncoder`.

A fit selects the categories that enough rows have, which needs delta above 0. With stated
categories it releases nothing and costs nothing.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._docstrings import documenter
from skdp.base.expected_error import ExpectedErrorMixin, mean_error, rehearsal, repeated, unanswered
from skdp.base.transformers import (
    Codes,
    Floats,
    Places,
    Transformer,
    as_array,
    check_delta_for,
    codes_of,
    indicators,
    input_names,
    is_private,
    selected,
    stated_categories,
)
from skdp.budget import PrivacyBudget
from skdp.exceptions import outside_level
from skdp.parameters import FLAG, Table, naming, shown
from skdp.planning import Allowance
from skdp.queries import least_shown
from skdp.tabular import (
    MISSING,
    array_of_cells,
    as_dense,
    cell_codes,
    cell_key,
    check_categorical,
    check_keyed,
    check_public_array,
    column_cells,
    listed,
    never_held,
)

# --- what the encoders share ----------------------------------------------------------------------

ERROR = "error"
_UNKNOWN = "{}: X has categories in columns {} that are not among categories_"


def _place(places: Places, key: Any) -> int:
    """Return the place of a key: -1 for an unknown one, -2 for a missing cell without a place."""
    return places(key, -2 if key == MISSING else -1)


def codes_among(table: Any, categories: Sequence[NDArray[Any]]) -> tuple[Codes, NDArray[np.bool_]]:
    """Return the place of each cell among its column's categories, or -1; and missing cells.

    A missing cell that is a category counts as present.
    """
    n, d = int(table.shape[0]), len(categories)
    codes, missing = np.empty((n, d), dtype=np.int64), np.zeros((n, d), dtype=bool)
    for j, values in enumerate(categories):
        places = cell_codes(column_cells(table, j), partial(_place, Places(values)))
        missing[:, j], codes[:, j] = places == -2, np.maximum(places, -1)
    return codes, missing


class Encoder(ExpectedErrorMixin, Transformer):
    """An encoder: categories, codes of cells, and expected errors."""

    categories: Any
    handle_unknown: str
    categories_: list[NDArray[Any]]

    _missing_is_category: ClassVar[bool]

    def _is_free(self) -> bool:
        return not is_private(self.categories)

    @property
    def _learns(self) -> bool:
        return True

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        pure, delta = allowance.pure, self._allowed_delta
        return least_shown(  # of delta, Gaussian noise takes half
            n_features,
            allowance.level,
            delta if pure else delta / 2,
            pure=pure,
            replace=allowance.replace,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.handle_unknown == ERROR and not self._is_free():
            raise ValueError(
                f"{type(self).__name__}: handle_unknown='error' would reveal rare values that a "
                "private selection does not show; state all categories, or choose another "
                "handling"
            )

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        if not self._is_free():
            check_delta_for(type(self).__name__, self._allowed_delta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Take the stated categories, or charge the budget and select them.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows: text, numbers, booleans, missing cells. Rows in parts (`skdp.engines`) are
            refused.
        y : None, ignored
        groups : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : Encoder
        """
        with self._all_or_nothing(groups):
            self._check_without_rows()
            name = type(self).__name__
            table, schema = check_categorical(X, estimator=name, allow_empty=self._allow_empty)
            validate_data(self, X, skip_check_array=True)
            specs = stated_categories(self.categories, table, schema)
            categories = {j: spec for j, spec in enumerate(specs) if not isinstance(spec, str)}
            for j, values in categories.items():
                if never_held(values, schema.types[j], schema.container):
                    label = j if schema.names is None else schema.names[j]
                    raise TypeError(
                        f"{name}: column {label!r} can hold none of its stated categories: they "
                        "are text and it has numbers, or the other way round. Convert either"
                    )
            private = [j for j in range(schema.n_columns) if j not in categories]
            if private:
                rows = check_keyed(table, private, missing=self._missing_is_category)
                with self._session(rows) as session:
                    categories |= selected(session, private)
                    self.privacy_ = session.certificate()
            else:
                self.privacy_ = self._context().nothing_released()
            self.categories_ = [
                as_array(self._without_missing(categories[j]), schema.types[j])
                for j in range(schema.n_columns)
            ]
            self._finish(np.isin(np.arange(schema.n_columns), private))
            if self.handle_unknown == ERROR:
                self._codes(table)
        if empty := [j for j in private if not len(self.categories_[j])]:  # which is released
            shown = [int(j) if schema.names is None else schema.names[j] for j in empty]
            warnings.warn(
                f"{name}: no category of columns {listed(shown)} had enough rows to be selected. "
                "State them, categories=[['a', 'b'], ...], or take a larger epsilon or delta; for "
                "columns of many different numbers, take DPKBinsDiscretizer",
                stacklevel=outside_level(),
            )
        return self

    def _without_missing(self, values: list[Any]) -> list[Any]:
        """Return categories, without the missing one unless it may be a category."""
        if self._missing_is_category:
            return values
        return [value for value in values if cell_key(value) != MISSING]

    def _finish(self, private: NDArray[np.bool_]) -> None:
        """Set the other attributes; `private` are the columns with selected categories."""

    def _codes(self, table: Any) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the codes of cells, -1 for unknown ones, and which cells are missing."""
        codes, missing = codes_among(table, self.categories_)
        unknown = codes < 0 if self._missing_is_category else (codes < 0) & ~missing
        if self.handle_unknown == ERROR and unknown.any():
            names = input_names(self)
            shown = [names[j] for j in np.flatnonzero(unknown.any(axis=0))]
            raise ValueError(_UNKNOWN.format(type(self).__name__, shown))
        return codes, missing

    def _encoded(self, X: Any) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the codes of the caller's own X."""
        check_is_fitted(self)
        name = type(self).__name__
        table, _ = check_categorical(X, estimator=name, allow_empty=self._allow_empty)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self._codes(table)

    def _decoded(self, codes: Codes) -> NDArray[Any]:
        """Return categories of codes, None for unknown: objects, unless all are known numbers."""
        columns: list[NDArray[Any]] = []
        for j, values in enumerate(self.categories_):
            column = np.full(len(codes), None, dtype=object)
            known = codes[:, j] >= 0
            column[known] = values[codes[known, j]]
            plain = known.all() and values.dtype.kind != "O"
            columns.append(column.astype(values.dtype) if plain else column)
        if len({column.dtype for column in columns}) == 1:
            return np.stack(columns, axis=1)
        return np.stack([column.astype(object) for column in columns], axis=1)

    def _error_of_fit(self, n: int, n_features: int | None, like: Any) -> float:
        if like is None:
            raise unanswered(self, "the rows: on how many each category has", fit=False)
        name = f"{type(self).__name__}.expected_error(like=...)"
        table, schema = check_categorical(like, estimator=name)
        cells, specs = array_of_cells(table), stated_categories(self.categories, table, schema)

        def once(number: int) -> float:
            rows = cells[repeated(len(cells), n, number)]
            fitted = fresh(number, categories=specs).fit(rows)
            codes, missing = codes_among(rows, fitted.categories_)
            return float(np.mean((codes < 0) & (self._missing_is_category | ~missing)))

        with rehearsal(self, self._adjacency) as fresh:
            return mean_error(once, least=6, most=24, precision=0.1)


# --- the encoders ---------------------------------------------------------------------------------

documented = documenter(
    {
        "categories": """
            categories : "private", "dtype" or list or mapping, default="private"
                Categories of every column, from public knowledge: a list with one list for each
                column, or a mapping from column name to such a list. ``"private"`` selects the
                categories that enough rows have: with one column, at epsilon 1 and delta 1e-6, a
                category with 27 rows is selected in half of all fits, one with 35 rows in nearly
                all (14 and 20 if rows are added or removed). ``"dtype"`` takes the categories that
                the type of a column lists (pandas' category, polars' Enum, bool); you thereby
                declare that the list is public. Either
                word may replace the list of a column.
            """,
        "privacy_parameters": """
            epsilon : float, default=1.0
            delta : float or None, default=None
            {fit}
            """,
        "fitted_and_raises": """
            {fitted}
                ... With stated categories there are no releases, and epsilon is 0.

            Raises
            ------
            TypeError, ValueError
                In `fit`, before anything is charged: if a parameter is out of range, if categories
                are private and ``delta=0``, if a column holds dates, or if X is not a table.
            BudgetExceededError, SealedBudgetError, LedgerError
                In `fit` with private categories, if the budget cannot pay the cost.
            """,
        "selection": """
            *Sensitivity*: a row gives each of its m values the weight 1 / sqrt(m), a vector of L2
            norm 1; replacing a row moves the weights by at most sqrt(2). *Mechanism*: rounded
            Gaussian noise, and a threshold. With several columns there are three rounds (DP-SIPS):
            values that were found leave their weight to the other values of a row. Or, if that
            shows rarer values and the budget's accountant is "basic": each value is shown with the
            largest probability that epsilon / m and delta / m allow for the number of its rows (if
            a row may be replaced, half of these). Values that only one row has are shown with
            probability at most delta (delta / 2 beside Gaussian noise), for all its columns
            together. *Charged*: at most (epsilon, delta), once, before any noise, to ``budget``.
            Proofs: ``skdp/queries/key_selection.md``.

            Numbers and text that look alike are different categories. 1 and 1.0 are one category;
            so are 1 and True, unless both are listed. Dates cannot be categories.

            ``transform`` adds no noise: its output on private rows is as private as the rows.

            **Expected error.** The part of the cells whose category a fit does not know.

            References
            ----------
            Gopi, Gulhane, Kulkarni, Shen, Shokouhi & Yekhanin 2020, "Differentially private set
            union".

            Swanberg, Desfontaines & Haney 2023, "DP-SIPS: a simpler, more scalable mechanism for
            differentially private partition selection".
            """,
    }
)

INFREQUENT = "infrequent_sklearn"  # as scikit-learn names it
_IGNORE, _RARE = "ignore", "infrequent_if_exist"


@documented
class DPOneHotEncoder(Encoder):
    """Encode categories as one column each; categories are stated or selected privately.

    The private counterpart of scikit-learn's ``OneHotEncoder``, without ``min_frequency`` and
    ``max_categories`` (epsilon and delta determine which categories are too rare), ``dtype``
    (float64) and ``feature_name_combiner``. Unlike there, output is dense by default, as private
    steps need it, and unknown categories are not an error.

    Parameters
    ----------
    {categories}
    drop : {"first", "if_binary"} or None, default=None
        Leave out the first category of each column of X, or of each column with two categories.
    sparse_output : bool, default=False
        Return a sparse matrix; private steps take dense rows only.
    handle_unknown : {"ignore", "infrequent_if_exist", "error"}, default="ignore"
        How a category that is not among `categories_` is encoded. ``"ignore"``: 0 in all columns.
        ``"infrequent_if_exist"``: the same if categories are stated; if they are private, an
        additional column, ``"..._infrequent_sklearn"``, for all categories that were not selected.
        ``"error"``, only with stated categories: ValueError, in `fit` before any charge; it reveals
        that there is such a cell.
    {privacy_parameters}

    Attributes
    ----------
    categories_ : list of ndarray
        Categories of each column: as stated, or the selected ones in order, numbers before text. If
        missing cells are a category, it is NaN, at the end.
    has_infrequent_ : ndarray of bool of shape (n_features_in_,)
        Which columns of X have an output column for categories that were not selected.
    drop_idx_ : ndarray of shape (n_features_in_,) or None
        The position of the left-out category of each column; None if none is left out.
    {fitted_and_raises}

    See Also
    --------
    DPOrdinalEncoder : One number for each cell.

    Notes
    -----
    **Privacy.** With stated categories (and ``"dtype"``) nothing is *released* and nothing
    *charged*. Otherwise: *released* are the values of each column (a missing cell counts as a
    value) whose noisy weight reaches a threshold; their numbers of rows are not released.
    {selection}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPOneHotEncoder
    >>> X = np.array([["EWR"], ["JFK"], ["LGA"], [None]], dtype=object)
    >>> encoder = DPOneHotEncoder(categories=[["EWR", "JFK", "LGA"]]).fit(X)
    >>> encoder.transform(X)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 0.]])
    >>> encoder.privacy_cost() is None, encoder.get_feature_names_out(["origin"])[0]
    (True, 'origin_EWR')
    >>> many = np.repeat(X, [5000, 4000, 3000, 1], axis=0)
    >>> [found.tolist() for found in DPOneHotEncoder(delta=1e-6).fit(many).categories_]
    [['EWR', 'JFK', 'LGA']]
    """

    has_infrequent_: NDArray[np.bool_]
    drop_idx_: NDArray[Any] | None

    _missing_is_category = True

    def __init__(
        self,
        *,
        categories: Any = "private",
        drop: str | None = None,
        sparse_output: bool = False,
        handle_unknown: str = "ignore",
        epsilon: float = 1.0,
        delta: float | None = None,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.categories = categories
        self.drop = drop
        self.sparse_output = sparse_output
        self.handle_unknown = handle_unknown
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    _parameter_table: ClassVar[Table] = {
        "drop": ("first", "if_binary", None),
        "sparse_output": FLAG,
        "handle_unknown": (_IGNORE, _RARE, ERROR),
    }

    def _finish(self, private: NDArray[np.bool_]) -> None:
        self.has_infrequent_ = private & (self.handle_unknown == _RARE)
        self.drop_idx_ = None
        if self.drop is not None:
            self.drop_idx_ = np.full(len(private), None, dtype=object)
            for j, values in enumerate(self.categories_):
                size = len(values) + bool(self.has_infrequent_[j])
                if len(values) and (self.drop == "first" or size == 2):
                    self.drop_idx_[j] = 0

    def _labels(self, j: int) -> list[Any]:
        """Return the categories of the output columns of column j."""
        labels = list(self.categories_[j]) + [INFREQUENT] * bool(self.has_infrequent_[j])
        return labels[self._dropped(j) :]

    def _dropped(self, j: int) -> int:
        return int(self.drop_idx_ is not None and self.drop_idx_[j] is not None)

    @property
    def _sizes_out(self) -> list[int]:
        return [len(self._labels(j)) for j in range(len(self.categories_))]

    def transform(self, X: ArrayLike) -> Any:
        """Return one column for each category.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            If the rows are private, so is the result.

        Returns
        -------
        X_new : ndarray or sparse matrix of shape (n_samples, n_features_out)
        """
        codes, _ = self._encoded(X)
        for j, values in enumerate(self.categories_):
            if self.has_infrequent_[j]:
                codes[codes[:, j] < 0, j] = len(values)
            codes[:, j] = np.maximum(codes[:, j] - self._dropped(j), -1)
        return indicators(codes, self._sizes_out, as_sparse=bool(self.sparse_output))

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the categories of encoded rows.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features_out)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            If all columns of a cell are 0: the left-out category, or None.
        """
        check_is_fitted(self)
        X = as_dense(X)
        values = check_public_array(X, estimator=type(self).__name__, allow_empty=self._allow_empty)
        self._check_width(values.shape[1], sum(self._sizes_out))
        codes = codes_of(values, self._sizes_out)
        rare = np.zeros(codes.shape, dtype=bool)
        for j, known in enumerate(self.categories_):
            codes[:, j] += self._dropped(j)
            rare[:, j] = codes[:, j] == len(known)
            codes[rare[:, j], j] = -1
        cells = self._decoded(codes)
        if rare.any():
            cells[rare] = INFREQUENT
        return cells

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` makes.

        {input_names}

        Returns
        -------
        names : ndarray of str
            The name of the column, an underscore and the category.
        """
        names = input_names(self, input_features)
        outputs = [f"{name}_{value}" for j, name in enumerate(names) for value in self._labels(j)]
        return np.array(outputs, dtype=object)


def _below_zero(value: Any, name: str) -> float:
    """Return a code for cells without a category, or raise."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        with naming(name):
            number = float(value)
        if math.isnan(number) or (number < 0 and number.is_integer()):
            return number
        raise ValueError(f"{name} must be a whole number below 0, or NaN, got {shown(value)}")
    raise TypeError(f"{name} must be a whole number below 0, or NaN, got {type(value).__name__}")


@documented
class DPOrdinalEncoder(Encoder):
    """Encode each cell as the position of its category; categories are stated or private.

    The private counterpart of scikit-learn's ``OrdinalEncoder``, without ``min_frequency``,
    ``max_categories`` and ``dtype`` (float64). Unlike there, unknown and missing cells become -1 by
    default. So unknown cells are not an error, and missing cells are not NaN, which private steps
    refuse.

    Parameters
    ----------
    {categories}
    handle_unknown : {"use_encoded_value", "error"}, default="use_encoded_value"
        How a category that is not among `categories_` is encoded: as `unknown_value`. With
        ``"error"`` (stated categories only): ValueError, in `fit` before any charge; it reveals
        that there is such a cell.
    unknown_value : int or NaN, default=-1
        Below 0.
    encoded_missing_value : int or NaN, default=-1
        Code of missing cells, which belong to no category. Below 0.
    {privacy_parameters}

    Attributes
    ----------
    categories_ : list of ndarray
        Categories of each column, in the order of their codes: as stated, or the selected ones in
        order, numbers before text.
    {fitted_and_raises}

    See Also
    --------
    DPOneHotEncoder : One column for each category.

    Notes
    -----
    **Privacy.** With stated categories (and ``"dtype"``) nothing is *released* and nothing
    *charged*. Otherwise: *released* are the values of each column, except missing ones, whose noisy
    weight reaches a threshold; their numbers of rows are not released.
    {selection}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPOrdinalEncoder
    >>> X = np.array([["low"], ["high"], ["none"], [None]], dtype=object)
    >>> encoder = DPOrdinalEncoder(categories=[["low", "middle", "high"]]).fit(X)
    >>> encoder.transform(X).ravel()
    array([ 0.,  2., -1., -1.])
    """

    _missing_is_category = False

    def __init__(
        self,
        *,
        categories: Any = "private",
        handle_unknown: str = "use_encoded_value",
        unknown_value: float = -1,
        encoded_missing_value: float = -1,
        epsilon: float = 1.0,
        delta: float | None = None,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.unknown_value = unknown_value
        self.encoded_missing_value = encoded_missing_value
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    _parameter_table: ClassVar[Table] = {
        "handle_unknown": ("use_encoded_value", ERROR),
        "unknown_value": _below_zero,
        "encoded_missing_value": _below_zero,
    }

    def transform(self, X: ArrayLike) -> Floats:
        """Return the codes of cells.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            If the rows are private, so is the result.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features)
        """
        codes, missing = self._encoded(X)
        numbers = np.where(codes < 0, float(self.unknown_value), codes)
        return np.where(missing, float(self.encoded_missing_value), numbers)

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the categories of codes.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Codes, as returned by `transform`.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            None for unknown and missing cells.
        """
        check_is_fitted(self)
        name = type(self).__name__
        values = check_public_array(X, estimator=name, allow_empty=True, allow_missing=True)
        self._check_width(values.shape[1], len(self.categories_))
        sizes = np.array([len(categories) for categories in self.categories_])
        known = (values >= 0) & (values < sizes) & (np.floor(values) == values)
        others = [float(self.unknown_value), float(self.encoded_missing_value)]
        none = np.isin(values, others) | (np.isnan(values) & bool(np.isnan(others).any()))
        if not (known | none).all():
            raise ValueError(f"X must hold codes as transform of this {name} makes them")
        return self._decoded(np.where(known, values, -1).astype(np.int64))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, which are those of X.

        {input_names}

        Returns
        -------
        names : ndarray of str
        """
        return np.array(input_names(self, input_features), dtype=object)
