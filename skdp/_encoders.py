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
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skdp._encoding import ERROR, Encoder
from skdp._parameters import FLAG, Table
from skdp._transforming import Floats, codes_of, indicators, input_names
from skdp.budget import PrivacyBudget
from skdp.tabular import check_public_array

__all__ = ["DPOneHotEncoder", "DPOrdinalEncoder"]

INFREQUENT = "infrequent_sklearn"  # as scikit-learn names it
_IGNORE, _RARE = "ignore", "infrequent_if_exist"


class DPOneHotEncoder(Encoder):
    """One column a category, with categories that are stated or selected privately.

    The private counterpart of scikit-learn's ``OneHotEncoder``, without ``min_frequency`` and
    ``max_categories`` (what is rare follows from epsilon and delta), ``dtype`` (float64) and
    ``feature_name_combiner``. Unlike there, output is dense by default, which private steps need,
    and unknown categories are no error.

    Parameters
    ----------
    categories : "private", "dtype" or list or mapping, default="private"
        Of every column, from public knowledge: a list with one list of categories a column, or a
        mapping from column name to one. ``"private"`` selects those that enough rows have: of
        one column, at epsilon 1 and delta 1e-6, a category of 32 rows shows in half of all fits,
        one of 50 in nearly all. ``"dtype"`` takes those that the type of a column lists (pandas'
        category, polars' Enum, bool): you say that the list is public, and was not read off the
        rows. Either word may stand for one column's list.
    drop : {"first", "if_binary"} or None, default=None
        Leave out the column of the first category of each column of X, or of those with two.
    sparse_output : bool, default=False
        Return a sparse matrix; private steps take dense rows only.
    handle_unknown : {"ignore", "infrequent_if_exist", "error"}, default="ignore"
        What becomes of a category that is not among `categories_`. ``"ignore"``: 0 in all columns.
        ``"infrequent_if_exist"``: the same where categories are stated; where they are private a
        column more, ``"..._infrequent_sklearn"``, for all that were not selected. ``"error"``, with
        stated categories only: ValueError, in `fit` before any charge, which tells that there is
        such a cell.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above 0 where categories are selected: half of it is for categories that one row
        alone has, the other half for Gaussian noise.
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
        Categories of each column: as stated, or the selected ones in order, numbers before text.
        NaN at the end stands for missing cells, where these are a category.
    has_infrequent_ : ndarray of bool of shape (n_features_in_,)
        Which columns have a column for categories that were not selected.
    drop_idx_ : ndarray of shape (n_features_in_,) or None
        The place of the category that is left out of each column, None for none.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of each unit were used at most.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost; with stated categories it says that
        nothing was: no releases, epsilon 0.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: a parameter out of its range, private categories with
        ``delta=0``, columns of dates, X no table.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit` with private categories, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPOrdinalEncoder : One number a cell.

    Notes
    -----
    **Privacy.** With stated categories (and ``"dtype"``) nothing is *released* and nothing
    *charged*. Otherwise: *released* are the values of each column, what is missing among them,
    whose noisy weight reaches a threshold, with nothing about how many rows they have.
    *Sensitivity*: a row gives each of its m values the weight 1 / sqrt(m), a vector of L2 norm 1;
    one row replaced moves the weights by at most sqrt(2). *Mechanism*: rounded Gaussian noise and a
    threshold that a value of one row alone reaches with probability at most delta / 2, all its
    columns together; of several columns in three rounds (DP-SIPS), where what was found leaves its
    weight to the other values of a row. *Charged*: (epsilon, delta), once, before any noise, to
    ``budget``. Proofs: ``skdp/queries/key_selection.md``.

    Numbers and text that look alike are told apart; 1 and 1.0 are one category, 1 and True are
    unless both are listed. Dates are no categories.

    ``transform`` adds no noise: its output on private rows is as private as the rows.

    **Expected error.** The part of the cells of which a fit knows no category.

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
        """Return one column a category.

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
        """Return the categories of rows as `transform` makes them.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features_out)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            Where all columns of a cell are 0, the category that is left out, or None.
        """
        check_is_fitted(self)
        X = X.toarray() if sparse.issparse(X) else X
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
        number = float(value)
        if math.isnan(number) or (number < 0 and number.is_integer()):
            return number
        raise ValueError(f"{name} must be a whole number below 0, or NaN, got {value!r}")
    raise TypeError(f"{name} must be a whole number below 0, or NaN, got {type(value).__name__}")


class DPOrdinalEncoder(Encoder):
    """The place of each cell among categories that are stated or selected privately.

    The private counterpart of scikit-learn's ``OrdinalEncoder``, without ``min_frequency``,
    ``max_categories`` and ``dtype`` (float64). Unlike there, unknown and missing cells become -1 by
    default: the one is no error, and the other no NaN, which private steps refuse.

    Parameters
    ----------
    categories : "private", "dtype" or list or mapping, default="private"
        Of every column, from public knowledge: a list with one list of categories a column, or a
        mapping from column name to one. ``"private"`` selects those that enough rows have: of
        one column, at epsilon 1 and delta 1e-6, a category of 32 rows shows in half of all fits,
        one of 50 in nearly all. ``"dtype"`` takes those that the type of a column lists (pandas'
        category, polars' Enum, bool): you say that the list is public, and was not read off the
        rows. Either word may stand for one column's list.
    handle_unknown : {"use_encoded_value", "error"}, default="use_encoded_value"
        What becomes of a category that is not among `categories_`: `unknown_value`, or (with stated
        categories only) ValueError, in `fit` before any charge, which tells that there is such a
        cell.
    unknown_value : int or NaN, default=-1
        Below 0.
    encoded_missing_value : int or NaN, default=-1
        What missing cells become; they are of no category. Below 0.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above 0 where categories are selected: half of it is for categories that one row
        alone has, the other half for Gaussian noise.
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
        nothing was: no releases, epsilon 0.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: a parameter out of its range, private categories with
        ``delta=0``, columns of dates, X no table.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit` with private categories, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPOneHotEncoder : One column a category.

    Notes
    -----
    **Privacy.** With stated categories (and ``"dtype"``) nothing is *released* and nothing
    *charged*. Otherwise: *released* are the values of each column, but for missing ones, whose
    noisy weight reaches a threshold, with nothing about how many rows they have. *Sensitivity*: a
    row gives each of its m values the weight 1 / sqrt(m), a vector of L2 norm 1; one row replaced
    moves the weights by at most sqrt(2). *Mechanism*: rounded Gaussian noise and a threshold that a
    value of one row alone reaches with probability at most delta / 2, all its columns together; of
    several columns in three rounds (DP-SIPS), where what was found leaves its weight to the other
    values of a row. *Charged*: (epsilon, delta), once, before any noise, to ``budget``. Proofs:
    ``skdp/queries/key_selection.md``.

    Numbers and text that look alike are told apart; 1 and 1.0 are one category, 1 and True are
    unless both are listed. Dates are no categories.

    ``transform`` adds no noise: its output on private rows is as private as the rows.

    **Expected error.** The part of the cells of which a fit knows no category.

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
            Codes as `transform` makes them.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            None for what is unknown or missing.
        """
        check_is_fitted(self)
        name = type(self).__name__
        values = np.array(X, dtype=np.float64)
        if values.ndim != 2:
            raise ValueError("Expected 2D array: X must have shape (n_samples, n_features)")
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
