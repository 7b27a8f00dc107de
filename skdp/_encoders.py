"""Columns of categories as numbers: `DPOneHotEncoder` and `DPOrdinalEncoder`.

Released are the categories that enough rows have, where nobody stated them: (epsilon, delta) with a
delta above 0, half of which is for categories that one row alone has. With stated categories
nothing is released and nothing is charged.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._encoding import ERROR, Encoder
from skdp.base.transformers import Floats, codes_of, indicators, input_names
from skdp.budget import PrivacyBudget
from skdp.parameters import FLAG, Table, naming, shown
from skdp.tabular import as_dense, check_public_array

__all__ = ["DPOneHotEncoder", "DPOrdinalEncoder"]

INFREQUENT = "infrequent_sklearn"  # as scikit-learn names it
_IGNORE, _RARE = "ignore", "infrequent_if_exist"


class DPOneHotEncoder(Encoder):
    """Encode categories as one column each; categories are stated or selected privately.

    The private counterpart of scikit-learn's ``OneHotEncoder``, without ``min_frequency`` and
    ``max_categories`` (epsilon and delta determine which categories are too rare), ``dtype``
    (float64) and ``feature_name_combiner``. Unlike there, output is dense by default, as private
    steps need it, and unknown categories are not an error.

    Parameters
    ----------
    categories : "private", "dtype" or list or mapping, default="private"
        Categories of every column, from public knowledge: a list with one list for each column, or
        a mapping from column name to such a list. ``"private"`` selects the categories that enough
        rows have: with one column, at epsilon 1 and delta 1e-6, a category with 32 rows is selected
        in half of all fits, one with 50 rows in nearly all. ``"dtype"`` takes the categories that
        the type of a column lists (pandas' category, polars' Enum, bool); you thereby declare that
        the list is public, and was not read off the rows. Either word may replace the list of a
        column.
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
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Must be above 0 if categories are selected: half of it covers categories that
        only one row has, the other half is for Gaussian noise.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    categories_ : list of ndarray
        Categories of each column: as stated, or the selected ones in order, numbers before text. If
        missing cells are a category, it is NaN, at the end.
    has_infrequent_ : ndarray of bool of shape (n_features_in_,)
        Which columns of X have an output column for categories that were not selected.
    drop_idx_ : ndarray of shape (n_features_in_,) or None
        The position of the left-out category of each column; None if none is left out.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of each unit were used at most.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost; with stated categories it says that
        nothing was released: no releases, epsilon 0.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if categories are
        private and ``delta=0``, if a column holds dates, or if X is not a table.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit` with private categories, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPOrdinalEncoder : One number for each cell.

    Notes
    -----
    **Privacy.** With stated categories (and ``"dtype"``) nothing is *released* and nothing
    *charged*. Otherwise: *released* are the values of each column (a missing cell counts as a
    value) whose noisy weight reaches a threshold; their numbers of rows are not released.
    *Sensitivity*: a row gives each of its m values the weight 1 / sqrt(m), a vector of L2 norm 1;
    replacing a row moves the weights by at most sqrt(2). *Mechanism*: rounded Gaussian noise, and a
    threshold. The values that only one row has reach it with probability at most delta / 2, for all
    its columns together. With several columns there are three rounds (DP-SIPS): values that were
    found leave their weight to the other values of a row. *Charged*: (epsilon, delta), once, before
    any noise, to ``budget``. Proofs: ``skdp/queries/key_selection.md``.

    Numbers and text that look alike are different categories. 1 and 1.0 are one category; so are 1
    and True, unless both are listed. Dates cannot be categories.

    ``transform`` adds no noise: its output on private rows is as private as the rows.

    **Expected error.** The part of the cells whose category a fit does not know.

    References
    ----------
    Gopi, Gulhane, Kulkarni, Shen, Shokouhi & Yekhanin 2020, "Differentially private set union".

    Swanberg, Desfontaines & Haney 2023, "DP-SIPS: a simpler, more scalable mechanism for
    differentially private partition selection".

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

    _missing_is_one = True

    def __init__(
        self,
        *,
        categories: Any = "private",
        drop: str | None = None,
        sparse_output: bool = False,
        handle_unknown: str = "ignore",
        epsilon: float = 1.0,
        delta: float = 0.0,
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
        """Return what the columns that one column becomes stand for."""
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
        found = self._decoded(codes)
        if rare.any():
            found[rare] = INFREQUENT
        return found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` makes.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X; those of `fit`, or x0, x1, ... if None.

        Returns
        -------
        names : ndarray of str
            The name of the column, an underscore and the category.
        """
        names = input_names(self, input_features)
        made = [f"{name}_{value}" for j, name in enumerate(names) for value in self._labels(j)]
        return np.array(made, dtype=object)


def _below_zero(value: Any, name: str) -> float:
    """Return a code of what has no category, or raise."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        with naming(name):
            number = float(value)
        if math.isnan(number) or (number < 0 and number.is_integer()):
            return number
        raise ValueError(f"{name} must be a whole number below 0, or NaN, got {shown(value)}")
    raise TypeError(f"{name} must be a whole number below 0, or NaN, got {type(value).__name__}")


class DPOrdinalEncoder(Encoder):
    """Encode each cell as the position of its category; categories are stated or private.

    The private counterpart of scikit-learn's ``OrdinalEncoder``, without ``min_frequency``,
    ``max_categories`` and ``dtype`` (float64). Unlike there, unknown and missing cells become -1 by
    default. So unknown cells are not an error, and missing cells are not NaN, which private steps
    refuse.

    Parameters
    ----------
    categories : "private", "dtype" or list or mapping, default="private"
        Categories of every column, from public knowledge: a list with one list for each column, or
        a mapping from column name to such a list. ``"private"`` selects the categories that enough
        rows have: with one column, at epsilon 1 and delta 1e-6, a category with 32 rows is selected
        in half of all fits, one with 50 rows in nearly all. ``"dtype"`` takes the categories that
        the type of a column lists (pandas' category, polars' Enum, bool); you thereby declare that
        the list is public, and was not read off the rows. Either word may replace the list of a
        column.
    handle_unknown : {"use_encoded_value", "error"}, default="use_encoded_value"
        How a category that is not among `categories_` is encoded: as `unknown_value`. With
        ``"error"`` (stated categories only): ValueError, in `fit` before any charge; it reveals
        that there is such a cell.
    unknown_value : int or NaN, default=-1
        Below 0.
    encoded_missing_value : int or NaN, default=-1
        Code of missing cells, which belong to no category. Below 0.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Must be above 0 if categories are selected: half of it covers categories that
        only one row has, the other half is for Gaussian noise.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    categories_ : list of ndarray
        Categories of each column, in the order of their codes: as stated, or the selected ones in
        order, numbers before text.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of each unit were used at most.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost; with stated categories it says that
        nothing was released: no releases, epsilon 0.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if categories are
        private and ``delta=0``, if a column holds dates, or if X is not a table.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit` with private categories, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPOneHotEncoder : One column for each category.

    Notes
    -----
    **Privacy.** With stated categories (and ``"dtype"``) nothing is *released* and nothing
    *charged*. Otherwise: *released* are the values of each column, except missing ones, whose noisy
    weight reaches a threshold; their numbers of rows are not released. *Sensitivity*: a row gives
    each of its m values the weight 1 / sqrt(m), a vector of L2 norm 1; replacing a row moves the
    weights by at most sqrt(2). *Mechanism*: rounded Gaussian noise, and a threshold. The values
    that only one row has reach it with probability at most delta / 2, for all its columns together.
    With several columns there are three rounds (DP-SIPS): values that were found leave their weight
    to the other values of a row. *Charged*: (epsilon, delta), once, before any noise, to
    ``budget``. Proofs: ``skdp/queries/key_selection.md``.

    Numbers and text that look alike are different categories. 1 and 1.0 are one category; so are 1
    and True, unless both are listed. Dates cannot be categories.

    ``transform`` adds no noise: its output on private rows is as private as the rows.

    **Expected error.** The part of the cells whose category a fit does not know.

    References
    ----------
    Gopi, Gulhane, Kulkarni, Shen, Shokouhi & Yekhanin 2020, "Differentially private set union".

    Swanberg, Desfontaines & Haney 2023, "DP-SIPS: a simpler, more scalable mechanism for
    differentially private partition selection".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPOrdinalEncoder
    >>> X = np.array([["low"], ["high"], ["none"], [None]], dtype=object)
    >>> encoder = DPOrdinalEncoder(categories=[["low", "middle", "high"]]).fit(X)
    >>> encoder.transform(X).ravel()
    array([ 0.,  2., -1., -1.])
    """

    _missing_is_one = False

    def __init__(
        self,
        *,
        categories: Any = "private",
        handle_unknown: str = "use_encoded_value",
        unknown_value: float = -1,
        encoded_missing_value: float = -1,
        epsilon: float = 1.0,
        delta: float = 0.0,
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
        found = np.where(codes < 0, float(self.unknown_value), codes)
        return np.where(missing, float(self.encoded_missing_value), found)

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
        sizes = np.array([len(one) for one in self.categories_])
        known = (values >= 0) & (values < sizes) & (np.floor(values) == values)
        others = [float(self.unknown_value), float(self.encoded_missing_value)]
        none = np.isin(values, others) | (np.isnan(values) & bool(np.isnan(others).any()))
        if not (known | none).all():
            raise ValueError(f"X must hold codes as transform of this {name} makes them")
        return self._decoded(np.where(known, values, -1).astype(np.int64))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, which are those of X.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X; those of `fit`, or x0, x1, ... if None.

        Returns
        -------
        names : ndarray of str
        """
        return np.array(input_names(self, input_features), dtype=object)
