"""Columns of categories as numbers: `DPOneHotEncoder` and `DPOrdinalEncoder`.

A fit selects the categories that enough rows have, which needs delta above 0. With stated
categories it releases nothing and costs nothing. With `min_frequency` or `max_categories` it
releases the number of rows of each category, too.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._docstrings import documenter
from skdp.base.expected_error import ExpectedErrorMixin, Fresh, mean_error, repeated, unanswered
from skdp.base.transformers import (
    Codes,
    Floats,
    Places,
    Transformer,
    as_array,
    check_delta_for,
    codes_of,
    dtype_of_codes,
    indicators,
    input_names,
    is_private,
    selected,
    stated_categories,
)
from skdp.exceptions import warn_at_end, warn_caller
from skdp.parameters import FLAG, Integers, Reals, Table, naming, shown
from skdp.planning import Allowance
from skdp.queries import MarginalCells, least_shown, row_counts
from skdp.tabular import (
    KEYS,
    MISSING,
    NUMBERS,
    ColumnPlan,
    Domain,
    as_dense,
    cell_codes,
    cell_key,
    check_categorical,
    check_keyed,
    check_public_array,
    check_uncoded,
    column_cells,
    column_plans,
    listed,
    never_held,
    stand_in,
    take,
)

ERROR, _WARN = "error", "warn"
_UNKNOWN = "{}: Found unknown categories in columns {} that are not among categories_"
_MOST_COUNTED = 2**16 - 1  # categories of a column
_SELECTION = Fraction(1, 2)  # of the allowance, where categories are counted, too
INFREQUENT = "infrequent_sklearn"  # as scikit-learn names it


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


def _countable(values: list[Any]) -> dict[Any, Any]:
    """Return the categories that have a count of their own, by value: True and 1 have one."""
    column: dict[Any, Any] = {}
    for value in values:
        column.setdefault(cell_key(value)[1], value)  # type: ignore[index]
    return column


def specs_of(categories: dict[int, list[Any]]) -> tuple[list[dict[Any, Any]], list[list[Any]]]:
    """Return the countable categories of all columns, and these with one for all other cells."""
    columns = [_countable(categories[j]) for j in range(len(categories))]
    return columns, [[*column.values(), _other_than(column)] for column in columns]


def _other_than(column: dict[Any, Any]) -> str:
    """Return text that is no category."""
    text = "other"
    while text in column:
        text += "_"
    return text


_OF_CODES: Table = {
    "dtype": dtype_of_codes,
    "min_frequency": (None, Integers(1), Reals(0, 1, "()")),
    "max_categories": (None, Integers(1)),
}


class Encoder(ExpectedErrorMixin, Transformer):
    """An encoder: categories, codes of cells, and expected errors."""

    categories: Any = field(init=False)
    dtype: Any = field(init=False)
    handle_unknown: str = field(init=False)
    min_frequency: float | None = field(init=False)
    max_categories: int | None = field(init=False)

    _missing_is_category: ClassVar[bool]
    _tags: ClassVar[tuple[str, ...]] = (
        "input_tags.categorical", "input_tags.string", "input_tags.allow_nan",
    )  # fmt: skip

    @property
    def _counts(self) -> bool:
        """Whether a fit counts the rows of each category."""
        return self.min_frequency is not None or self.max_categories is not None

    def _is_free(self) -> bool:
        return not (is_private(self.categories) or self._counts)

    @property
    def _learns(self) -> bool:
        return is_private(self.categories)

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        if not is_private(self.categories):
            return allowance.part(1 / n_features).cell_std
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
        if self.handle_unknown in (ERROR, _WARN) and is_private(self.categories):
            raise ValueError(
                f"{type(self).__name__}: handle_unknown={self.handle_unknown!r} would reveal rare "
                "values that a private selection does not show; state all categories, or choose "
                "another handling"
            )

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        if is_private(self.categories):
            check_delta_for(type(self).__name__, self._allowed_delta)

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Take the stated categories, or charge the budget and select them.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows: text, numbers, booleans, missing cells. Rows in parts (`skdp.engines`) are
            refused.
        """
        with self._all_or_nothing(groups):
            table, schema, categories, private = self._read(X)
            self._check_codes(categories, schema.names)
            self._check_dropped(categories, schema.n_columns)
            if not private:
                self._set_categories(categories, schema)
                if self.handle_unknown == ERROR:
                    self._codes(table)
            counts: list[Floats] | None = None
            if self._counts:
                counts = self._release_counts(table, schema, categories, private)
            elif private:
                rows = check_keyed(table, private, missing=self._missing_is_category)
                with self._session(rows) as session:
                    categories |= selected(session, private)
            else:
                self.privacy_ = self._context().nothing_released()
            self._set_categories(categories, schema)
            self._group(counts)
            self._finish(np.isin(np.arange(schema.n_columns), private))
        self._warn_of_none(private, schema)
        return self

    def _read(self, X: Any) -> tuple[Any, Any, dict[int, list[Any]], list[int]]:
        """Check parameters and X; return table, schema, stated categories and private columns."""
        self._check_without_rows()
        name = type(self).__name__
        table, schema = check_categorical(X, **self._entrance)
        validate_data(self, X, skip_check_array=True)
        specs = stated_categories(self.categories, table, schema)
        categories = {j: spec for j, spec in enumerate(specs) if not isinstance(spec, str)}
        for j, values in categories.items():
            if never_held(values, schema.types[j], schema.container):
                where = f"column {j if schema.names is None else schema.names[j]!r}"
                raise TypeError(
                    f"{name}: {where} can hold none of its stated categories: they are text and it "
                    "has numbers, or the other way round. Convert either"
                )
        private = [j for j in range(schema.n_columns) if j not in categories]
        return table, schema, categories, private

    def _warn_of_none(self, private: list[int], schema: Any) -> None:
        """Warn of columns of which no category was selected, which is released."""
        if empty := [j for j in private if not len(self.categories_[j])]:
            shown = [int(j) if schema.names is None else schema.names[j] for j in empty]
            warn_caller(
                f"{type(self).__name__}: no category of columns {listed(shown)} had enough rows to "
                "be selected. State them, categories=[['a', 'b'], ...], or take a larger epsilon "
                "or delta; for columns of many different numbers, take DPKBinsDiscretizer",
            )

    def _set_categories(self, categories: dict[int, list[Any]], schema: Any) -> None:
        self.categories_ = [
            as_array(self._shown(categories[j]), schema.types[j]) for j in range(schema.n_columns)
        ]

    def _release_counts(
        self, table: Any, schema: Any, categories: dict[int, list[Any]], private: list[int]
    ) -> list[Floats]:
        """Select the private categories, add them, and return the counts of each column.

        The counts are in the order of `categories_`; the last one is that of all rows.
        """
        d, labels = schema.n_columns, schema.names or range(schema.n_columns)
        rows = self._uncoded(table, schema, categories, private)
        counts: list[Floats] = []
        with self._session(rows) as session:
            if private:
                categories |= self._chosen(session, private)
            columns, specs = specs_of(categories)
            session.code_rows(domain := Domain(specs))
            for j, column in enumerate(columns):
                query = row_counts(MarginalCells(tuple(domain.sizes), (j,)), "marginal")
                part = session.remaining / (d - j) if j < d - 1 else None
                cells = session.answer(query, part, name=f"column {labels[j]}").value
                place = {value: i for i, value in enumerate(column)}
                values = self._without_missing(categories[j])
                counted = [cells[place[cell_key(value)[1]]] for value in values]  # type: ignore[index]
                counts.append(np.array([*counted, cells.sum()]))
        return counts

    def _uncoded(
        self,
        table: Any,
        schema: Any,
        categories: dict[int, list[Any]],
        private: list[int],
        target: NDArray[Any] | None = None,
    ) -> Any:
        """Return private rows that get codes later, perhaps with numbers in one more column."""
        labels = list(schema.names or range(schema.n_columns))
        stated = {labels[j]: values for j, values in categories.items()}
        plans = column_plans(stated, table, schema, labels=labels)
        for j in private:  # whatever the types of columns list
            plans[j] = ColumnPlan(labels[j], KEYS)
        stand_in(plans, named=False)  # refuses what cannot be counted, before the charge
        behind = None if target is None else (target, len(labels))
        plans += [ColumnPlan("target", NUMBERS)] * (target is not None)
        options: Any = {"allow_empty": self._allow_empty, "target": behind}
        return check_uncoded(table, plans, named=False, **options)

    @staticmethod
    def _chosen(session: Any, private: list[int]) -> dict[int, list[Any]]:
        """Select the private categories, for half of the allowance."""
        categories = selected(session, private, _SELECTION).items()
        return {j: values[:_MOST_COUNTED] for j, values in categories}

    def _shown(self, values: list[Any]) -> list[Any]:
        """Return categories as `categories_` holds them."""
        return self._without_missing(values)

    def _group(self, counts: list[Floats] | None) -> None:
        """Set which categories are infrequent, and the place of each in the output."""
        self.infrequent_categories_: list[Any] = [None] * len(self.categories_)
        self._places: dict[int, Codes] = {}  # of columns with infrequent categories
        for j, count in enumerate(counts or ()):
            rare = self._infrequent(count[:-1], float(count[-1]))
            if rare.any():
                self.infrequent_categories_[j] = self.categories_[j][: len(rare)][rare]
                self._places[j] = np.where(rare, (~rare).sum(), np.cumsum(~rare) - 1)

    def _infrequent(self, counts: Floats, total: float) -> NDArray[np.bool_]:
        """Return which categories are infrequent, as scikit-learn does it, from noisy counts."""
        least = self.min_frequency or 0
        whole = isinstance(least, numbers.Integral)
        rare = counts < (least if whole else float(least) * total)
        most = self.max_categories
        if most is not None and most < len(rare) - rare.sum() + 1:
            rare[np.argsort(counts, kind="stable")[: len(rare) - (most - 1)]] = True
        return np.asarray(rare)

    def _size(self, j: int) -> int:
        """Return the number of codes of a column: infrequent categories have one, the last."""
        return int(self._places[j].max()) + 1 if j in self._places else len(self.categories_[j])

    def _grouped(self, codes: Codes) -> Codes:
        """Replace the places of categories by those in the output."""
        for j, places in self._places.items():
            known = codes[:, j] >= 0
            codes[known, j] = places[codes[known, j]]
        return codes

    def _check_codes(self, categories: dict[int, list[Any]], names: Any) -> None:
        """Refuse codes that are taken by stated categories."""

    def _check_dropped(self, categories: dict[int, list[Any]], n_columns: int) -> None:
        """Refuse wrong categories to leave out."""

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
        table, _ = check_categorical(X, **self._entrance)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self._codes(table)

    def _decoded(self, codes: Codes, rare: NDArray[np.bool_]) -> NDArray[Any]:
        """Return categories of codes, None for unknown: objects, unless all are known numbers.

        `rare` says which cells are infrequent; the code -2 is that of missing cells.
        """
        columns: list[NDArray[Any]] = []
        for j, values in enumerate(self.categories_):
            column = np.full(len(codes), None, dtype=object)
            known = (codes[:, j] >= 0) & ~rare[:, j]
            places = codes[known, j]
            if j in self._places:  # to the category that has the code
                places = np.unique(self._places[j], return_index=True)[1][places]
            column[known], column[rare[:, j]] = values[places], INFREQUENT
            column[codes[:, j] == -2] = np.nan
            plain = (known | (codes[:, j] == -2)).all() and values.dtype.kind != "O"
            columns.append(column.astype(values.dtype) if plain else column)
        if len({column.dtype for column in columns}) == 1:
            return np.stack(columns, axis=1)
        return np.stack([column.astype(object) for column in columns], axis=1)

    def _error_of_fit(self, n: int, n_features: int | None, like: Any) -> float:
        if like is None:
            raise unanswered(self, "the rows: on how many each category has", fit=False)
        name = f"{type(self).__name__}.expected_error(like=...)"
        table, _ = check_categorical(like, estimator=name)

        def once(fresh: Fresh, number: int) -> float:
            rows = take(table, np.sort(repeated(table.shape[0], n, number)))
            fitted = fresh(number).fit(rows)
            codes, missing = codes_among(rows, fitted.categories_)
            return float(np.mean((codes < 0) & (self._missing_is_category | ~missing)))

        return mean_error(self, once)


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
                declare that the list is public. Either word may replace the list of a column.
            """,
        "frequencies": """
            min_frequency : int or float or None, default=None
                Categories with fewer rows, or with a smaller part of the rows, are infrequent.
            max_categories : int or None, default=None
                At most so many codes of a column, that of the infrequent categories included. With
                either parameter the rows of each category are counted: for all of the allowance,
                or for half of it where categories are private.
            """,
        "infrequent": """
            infrequent_categories_ : list of ndarray or None
                The infrequent categories of each column; None for a column without any.
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
            together. Proofs: ``skdp/queries/key_selection.md``.
            """,
        "counts": """
            *Counts*, with `min_frequency` or `max_categories`: of the rows of each category, a
            column after the other; L1 sensitivity 1 (2 if a row is replaced), with discrete Laplace
            or rounded Gaussian noise.

            {alike}

            **Expected error.** The part of the cells whose category a fit does not know.

            {references}
            """,
        "alike": """
            Numbers and text that look alike are different categories. 1 and 1.0 are one category;
            so are 1 and True, unless both are listed. Dates cannot be categories.
            """,
        "references": """
            References
            ----------
            Gopi, Gulhane, Kulkarni, Shen, Shokouhi & Yekhanin 2020, "Differentially private set
            union".

            Swanberg, Desfontaines & Haney 2023, "DP-SIPS: a simpler, more scalable mechanism for
            differentially private partition selection".
            """,
    }
)

_IGNORE, _RARE = "ignore", "infrequent_if_exist"


def _drop(value: Any, name: str) -> Any:
    """Return what to leave out, or raise."""
    if value is None or (isinstance(value, str) and value in ("first", "if_binary")):
        return value
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise ValueError(
            f"{name} must be 'first', 'if_binary', None or one category of each column, got "
            f"{shown(value)}"
        )
    return value


def _combiner(value: Any, name: str) -> Any:
    """Return how names are made, or raise."""
    if not callable(value) and not (isinstance(value, str) and value == "concat"):
        raise ValueError(f"{name} must be 'concat' or callable, got {shown(value)}")
    return value


@documented
class DPOneHotEncoder(Encoder):
    """Encode categories as one column each; categories are stated or selected privately.

    The private counterpart of scikit-learn's ``OneHotEncoder``. Unlike there, output is dense by
    default, as private steps need it, and unknown categories are not an error.

    Parameters
    ----------
    {categories}
    drop : {"first", "if_binary"}, array-like of shape (n_features,) or None, default=None
        Leave out the first category of each column of X, or of each column with two categories, or
        these categories. One that is infrequent, or was not selected, is not left out.
    sparse_output : bool, default=False
        Return a sparse matrix; private steps take dense rows only.
    dtype : number type, default=float64
        Of the output.
    handle_unknown : {"ignore", "infrequent_if_exist", "warn", "error"}, default="ignore"
        How a category that is not among `categories_` is encoded. ``"ignore"``: 0 in all columns.
        ``"infrequent_if_exist"``: in the column of infrequent categories,
        ``"..._infrequent_sklearn"``, if there is one. If categories are private, there is one, for
        all categories that were not selected. Only with stated categories, as they reveal that
        there is such a cell: ``"warn"``, the same with a warning in `transform`; ``"error"``:
        ValueError, in `fit` before any charge.
    {frequencies}
    feature_name_combiner : "concat" or callable, default="concat"
        Returns the name of an output column, from the name of a column and a category.
        ``"concat"`` puts an underscore between them.

    Attributes
    ----------
    categories_ : list of ndarray
        Categories of each column: as stated, or the selected ones in order, numbers before text. If
        missing cells are a category, it is NaN, at the end.
    {infrequent}
    has_infrequent_ : ndarray of bool of shape (n_features_in_,)
        Which columns of X have an output column for infrequent categories, or for those that were
        not selected.
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
    {counts}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPOneHotEncoder
    >>> X = np.array([["EWR"], ["JFK"], ["LGA"], [None]], dtype=object)
    >>> encoder = DPOneHotEncoder(categories=[["EWR", "JFK", "LGA"]]).fit(X)
    >>> encoder.transform(X)
    array([[1., 0., 0.],
           [0., 1., 0.], [0., 0., 1.], [0., 0., 0.]])
    >>> encoder.privacy_cost() is None, encoder.get_feature_names_out(["origin"])[0]
    (True, 'origin_EWR')
    >>> many = np.repeat(X, [5000, 4000, 3000, 1], axis=0)
    >>> [found.tolist() for found in DPOneHotEncoder(delta=1e-6).fit(many).categories_]
    [['EWR', 'JFK', 'LGA']]
    """

    categories: Any = "private"
    drop: Any = None
    sparse_output: bool = False
    dtype: Any = np.float64
    handle_unknown: str = "ignore"
    min_frequency: float | None = None
    max_categories: int | None = None
    feature_name_combiner: str | Callable[[str, Any], str] = "concat"

    _missing_is_category = True

    _parameter_table: ClassVar[Table] = {
        **_OF_CODES,
        "drop": _drop,
        "sparse_output": FLAG,
        "handle_unknown": (_IGNORE, _RARE, _WARN, ERROR),
        "feature_name_combiner": _combiner,
    }

    def _check_dropped(self, categories: dict[int, list[Any]], n_columns: int) -> None:
        if self.drop is None or isinstance(self.drop, str):
            return
        if len(self.drop) != n_columns:
            raise ValueError(
                f"`drop` should have length equal to the number of features ({n_columns}), got "
                f"{len(self.drop)}"
            )
        for j, values in categories.items():
            if Places(values)(cell_key(self.drop[j]), -1) < 0:
                raise ValueError(
                    f"drop must name a category of each column: {shown(self.drop[j])} was not "
                    f"found among those of column {j}"
                )

    def _finish(self, private: NDArray[np.bool_]) -> None:
        grouped = np.isin(np.arange(len(private)), list(self._places))
        self.has_infrequent_ = grouped | private & (self.handle_unknown == _RARE)
        self.drop_idx_ = None
        if self.drop is not None:
            self.drop_idx_ = np.array(
                [self._drop_idx(j) for j in range(len(private))], dtype=object
            )

    def _drop_idx(self, j: int) -> int | None:
        """Return the position of the category of column j that is left out, if there is one."""
        places, size = self._places.get(j), self._size_with_rare(j)
        if isinstance(self.drop, str):
            if not len(self.categories_[j]) or (self.drop != "first" and size != 2):
                return None
            return 0 if places is None else int(np.flatnonzero(places == 0)[0])
        place = Places(self.categories_[j])(cell_key(self.drop[j]), -1)
        if place < 0 or (places is not None and places[place] == size - 1):
            reason = "was not selected" if place < 0 else "is infrequent"
            warn_at_end(  # both are released
                f"Unable to drop category {shown(self.drop[j])} from feature {j} because it "
                f"{reason}: all categories of the feature are encoded"
            )
            return None
        return place

    def _size_with_rare(self, j: int) -> int:
        """Return the number of output columns of column j, if none is left out."""
        return self._size(j) + bool(self.has_infrequent_[j] and j not in self._places)

    def _labels(self, j: int) -> list[Any]:
        """Return the categories of the output columns of column j."""
        rare = self.infrequent_categories_[j]
        values = (
            self.categories_[j]
            if rare is None
            else self.categories_[j][self._places[j] < self._places[j].max()]
        )
        labels = list(values) + [INFREQUENT] * bool(self.has_infrequent_[j])
        left_out = self._left_out(j)
        return labels if left_out is None else labels[:left_out] + labels[left_out + 1 :]

    def _left_out(self, j: int) -> int | None:
        """Return the code of column j that has no output column."""
        place = None if self.drop_idx_ is None else self.drop_idx_[j]
        return place if place is None or j not in self._places else int(self._places[j][place])

    @property
    def _sizes_out(self) -> list[int]:
        return [len(self._labels(j)) for j in range(len(self.categories_))]

    def transform(self, X: ArrayLike) -> Any:
        """Return one column for each category.

        Returns
        -------
        X_new : ndarray or sparse matrix of shape (n_samples, n_features_out)
        """
        codes, _ = self._encoded(X)
        unknown = codes < 0
        if self.handle_unknown == _WARN and unknown.any():
            columns = np.flatnonzero(unknown.any(axis=0)).tolist()
            warn_caller(
                f"Found unknown categories in columns {columns} during transform. "
                "These unknown categories will be encoded as the infrequent "
                "category, or as all zeros where there is none",
            )
        self._grouped(codes)
        for j in range(codes.shape[1]):
            if self.has_infrequent_[j] and self.handle_unknown in (_RARE, _WARN):
                codes[unknown[:, j], j] = self._size_with_rare(j) - 1
            if (place := self._left_out(j)) is not None:
                at = codes[:, j]
                codes[:, j] = np.where(at == place, -1, at - (at > place))
        sparse_output = bool(self.sparse_output)
        return indicators(codes, self._sizes_out, as_sparse=sparse_output, dtype=self.dtype)

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
        width = sum(self._sizes_out)
        values: Any = X
        if width or np.shape(X)[1:] != (0,):  # where no category was found there are no columns
            values = check_public_array(X, **self._entrance)
        self._check_width(values.shape[1], width)
        codes = codes_of(values, self._sizes_out)
        if self.handle_unknown == ERROR and self.drop_idx_ is None and (codes < 0).any():
            raise ValueError(
                f"Samples {np.flatnonzero((codes < 0).any(axis=1))} can not be inverted when "
                "drop=None and handle_unknown='error' because they contain all zeros"
            )
        rare = np.zeros(codes.shape, dtype=bool)
        for j in range(codes.shape[1]):
            if (place := self._left_out(j)) is not None:
                at = codes[:, j]
                codes[:, j] = np.where(at < 0, place, at + (at >= place))
            if self.has_infrequent_[j]:
                rare[:, j] = codes[:, j] == self._size_with_rare(j) - 1
        return self._decoded(codes, rare)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` makes.

        Returns
        -------
        names : ndarray of str
            The name of the column, an underscore and the category.
        """
        names = input_names(self, input_features)
        combine = self.feature_name_combiner
        if not callable(combine):
            combine = "{}_{}".format
        outputs = [
            combine(name, value) for j, name in enumerate(names) for value in self._labels(j)
        ]
        if not all(isinstance(output, str) for output in outputs):
            raise TypeError(
                "When `feature_name_combiner` is a callable, it should return a Python string. Got "
                f"{next(type(o) for o in outputs if not isinstance(o, str))} instead"
            )
        return np.array(outputs, dtype=object)


_NO_NAN = (
    "There are missing values in features {}. For OrdinalEncoder to encode missing values with "
    "dtype: {}, set encoded_missing_value to a whole number, or dtype to a type of floats"
)


def _code(value: Any, name: str) -> float:
    """Return a code for cells without a category, or raise."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        with naming(name):
            number = float(value)
        if math.isnan(number) or number.is_integer():
            return number
        raise ValueError(f"{name} should be an integer or NaN, got {shown(value)}")
    raise TypeError(f"{name} should be an integer or np.nan, got {type(value).__name__}")


@documented
class DPOrdinalEncoder(Encoder):
    """Encode each cell as the position of its category; categories are stated or private.

    The private counterpart of scikit-learn's ``OrdinalEncoder``. Unlike there, unknown and missing
    cells become -1 by default. So unknown cells are not an error, and missing cells are not NaN,
    which private steps refuse.

    Parameters
    ----------
    {categories}
    dtype : number type, default=float64
        Of the codes.
    handle_unknown : {"use_encoded_value", "error"}, default="use_encoded_value"
        How a category that is not among `categories_` is encoded: as `unknown_value`. With
        ``"error"`` (stated categories only): ValueError, in `fit` before any charge; it reveals
        that there is such a cell.
    unknown_value : int, NaN or None, default=-1
        No code of a category: below 0 where categories are private. None with ``"error"`` only.
    encoded_missing_value : int or NaN, default=-1
        Code of missing cells, which belong to no category; as `unknown_value`.
    {frequencies}

    Attributes
    ----------
    categories_ : list of ndarray
        Categories of each column, in the order of their codes: as stated, or the selected ones in
        order, numbers before text. NaN is the last, without a code, if it is stated.
    {infrequent}
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
    {counts}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPOrdinalEncoder
    >>> X = np.array([["low"], ["high"], ["none"], [None]], dtype=object)
    >>> encoder = DPOrdinalEncoder(categories=[["low", "middle", "high"]]).fit(X)
    >>> encoder.transform(X).ravel()
    array([ 0.,  2., -1., -1.])
    """

    categories: Any = "private"
    dtype: Any = np.float64
    handle_unknown: str = "use_encoded_value"
    unknown_value: float | None = -1
    encoded_missing_value: float = -1
    min_frequency: float | None = None
    max_categories: int | None = None

    _missing_is_category = False

    _parameter_table: ClassVar[Table] = {
        **_OF_CODES,
        "handle_unknown": ("use_encoded_value", ERROR),
        "encoded_missing_value": _code,
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.handle_unknown == ERROR and self.unknown_value is None:
            return
        unknown = _code(self.unknown_value, "unknown_value")
        if math.isnan(unknown) and np.dtype(self.dtype).kind != "f":
            raise ValueError(
                "When unknown_value is np.nan, the dtype parameter should be a float dtype. Got "
                f"{shown(self.dtype)}"
            )

    def _check_codes(self, categories: dict[int, list[Any]], names: Any) -> None:
        sizes = {j: len(self._without_missing(values)) for j, values in categories.items()}
        most = math.inf if is_private(self.categories) else max(sizes.values())
        most = min(most, self.max_categories or most)
        if self.unknown_value is not None and 0 <= self.unknown_value < most:
            raise ValueError(
                f"The used value for unknown_value {self.unknown_value} is one of the values "
                "already used for encoding the seen categories. Take one below 0"
            )
        columns = [j for j, size in sizes.items() if size < len(categories[j])]
        shown = [j if names is None else names[j] for j in columns]
        if 0 <= self.encoded_missing_value < most:
            raise ValueError(
                f"encoded_missing_value ({self.encoded_missing_value}) is already used to encode a "
                f"known category in features: {shown or list(names or sizes)}. Take one below 0"
            )
        if columns and math.isnan(self.encoded_missing_value) and np.dtype(self.dtype).kind != "f":
            raise ValueError(_NO_NAN.format(shown, self.dtype))

    def _shown(self, values: list[Any]) -> list[Any]:
        known = self._without_missing(values)
        return known if len(known) == len(values) else [*known, np.nan]

    def _lists_missing(self, j: int) -> bool:
        values = self.categories_[j]
        return len(values) > 0 and cell_key(values[-1]) == MISSING

    def _size(self, j: int) -> int:
        return super()._size(j) - (j not in self._places and self._lists_missing(j))

    def _codes(self, table: Any) -> tuple[Codes, NDArray[np.bool_]]:
        codes, missing = super()._codes(table)
        for j, values in enumerate(self.categories_):
            if self._lists_missing(j):
                missing[:, j] |= codes[:, j] == len(values) - 1
        return np.where(missing, -1, codes), missing

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the codes of cells."""
        codes, missing = self._encoded(X)
        unknown = math.nan if self.unknown_value is None else float(self.unknown_value)
        numbers = np.where(codes < 0, unknown, self._grouped(codes))
        numbers = np.where(missing, float(self.encoded_missing_value), numbers)
        if np.dtype(self.dtype).kind != "f" and np.isnan(numbers).any():
            columns = np.flatnonzero(np.isnan(numbers).any(axis=0)).tolist()
            raise ValueError(_NO_NAN.format(columns, self.dtype))
        return numbers.astype(self.dtype)

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the categories of codes.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Codes, as returned by `transform`.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            None for unknown and missing cells; NaN for missing ones of columns whose stated
            categories list that.
        """
        check_is_fitted(self)
        name = type(self).__name__
        values = check_public_array(X, estimator=name, allow_empty=True, allow_missing=True)
        self._check_width(values.shape[1], len(self.categories_))
        sizes = np.array([self._size(j) for j in range(len(self.categories_))])
        known = (values >= 0) & (values < sizes) & (np.floor(values) == values)
        others = [
            math.nan if value is None else float(value)
            for value in (self.unknown_value, self.encoded_missing_value)
        ]
        none = np.isin(values, others) | (np.isnan(values) & bool(np.isnan(others).any()))
        if not (known | none).all():
            raise ValueError(f"X must hold codes as transform of this {name} makes them")
        codes = np.where(known, values, -1).astype(np.int64)
        nothing = np.isin(values, others[1:]) | (np.isnan(values) & math.isnan(others[1]))
        lists = [self._lists_missing(j) for j in range(len(sizes))]
        codes[nothing & np.array(lists)] = -2
        rare = [codes[:, j] == (s - 1 if j in self._places else -2) for j, s in enumerate(sizes)]
        return self._decoded(codes, np.stack(rare, axis=1))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, which are those of X."""
        return np.array(input_names(self, input_features), dtype=object)
