"""What encoders of categories share: the fit, codes of cells, the price, the expected error.

Nothing is released here, except that a fit asks an open session for categories.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._categories import (
    Places,
    as_array,
    check_delta_for,
    is_private,
    listed,
    per_column,
    selected,
)
from skdp._rehearsal import mean_error, rehearsal, repeated, unanswered
from skdp._transforming import Codes, Transformer, input_names
from skdp.base import check_integer, refuse_units
from skdp.budget import Cost, gdp_mu
from skdp.budget.ambient import ambient_budget, outside_level
from skdp.tabular import (
    MISSING,
    array_of_cells,
    cell_codes,
    cell_key,
    check_categorical,
    check_keyed,
    column_cells,
    never_held,
)

ERROR = "error"
_UNKNOWN = "{}: X has categories in columns {} that are not among categories_"


def _place(places: Places, key: Any) -> int:
    """Return the place of a key: -1 if it is none, -2 if it is missing and none."""
    return places(key, -2 if key == MISSING else -1)


def codes_among(table: Any, categories: Sequence[NDArray[Any]]) -> tuple[Codes, NDArray[np.bool_]]:
    """Return the place of each cell among its column's categories, -1 of one that is none.

    And which cells are missing, and no category.
    """
    n, d = int(table.shape[0]), len(categories)
    codes, missing = np.empty((n, d), dtype=np.int64), np.zeros((n, d), dtype=bool)
    for j, values in enumerate(categories):
        found = cell_codes(column_cells(table, j), partial(_place, Places(values)))
        missing[:, j], codes[:, j] = found == -2, np.maximum(found, -1)
    return codes, missing


class Encoder(Transformer):
    """What the two encoders share: categories, codes of cells, prices and expected errors."""

    categories: Any
    handle_unknown: str
    categories_: list[NDArray[Any]]

    _missing_is_one: ClassVar[bool]  # whether what is missing may be a category

    def _is_free(self) -> bool:
        return not is_private(self.categories)

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Any:
        """Return the cost of one fit, before any data is touched.

        Parameters
        ----------
        n_samples, n_features : int, default=None
            Not used: the cost of a fit does not depend on them.

        Returns
        -------
        cost : skdp.budget.Cost or None
            The (epsilon, delta) that one fit charges; half of delta covers categories that only one
            row has. None if all categories are stated.
        """
        self._check_parameters()
        if self._is_free():
            return None
        half = float(self.delta) / 2
        mu = gdp_mu(float(self.epsilon), half) if half else None
        return Cost(epsilon=float(self.epsilon), delta=2 * half, mu=mu, separate_delta=half)

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
            check_delta_for(type(self).__name__, self.delta)

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
            Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
            together. A budget with a `unit` needs groups; any other budget refuses them.
            Rows without an id are left out if a unit is added or removed, and refused otherwise.

        Returns
        -------
        self : Encoder
        """
        with self._all_or_nothing(groups):
            self._check_without_rows()
            name = type(self).__name__
            table, schema = check_categorical(X, estimator=name, allow_empty=self._allow_empty)
            validate_data(self, X, skip_check_array=True)
            specs = per_column(self.categories, schema.n_columns, schema.names)
            found = {j: listed(table, j, schema) for j, s in enumerate(specs) if s == "dtype"}
            found |= {j: spec for j, spec in enumerate(specs) if not isinstance(spec, str)}
            for j, values in found.items():
                if never_held(values, schema.types[j], schema.container):
                    label = j if schema.names is None else schema.names[j]
                    raise TypeError(
                        f"{name}: column {label!r} can hold none of its stated categories: they "
                        "are text and it has numbers, or the other way round. Convert either"
                    )
            private = [j for j in range(schema.n_columns) if j not in found]
            if private:
                rows = check_keyed(table, private, missing=self._missing_is_one)
                half = float(self.delta) / 2
                with self._session(rows, delta=half, separate_delta=half) as session:
                    found |= selected(session, private)
                    self.privacy_ = session.certificate()
            else:
                self.privacy_ = self._context().nothing_released()
            types = schema.types
            self.categories_ = [
                as_array(self._kept(found[j]), types[j]) for j in range(schema.n_columns)
            ]
            self._finish(np.isin(np.arange(schema.n_columns), private))
            if self.handle_unknown == ERROR:
                self._codes(table)
        if empty := [j for j in private if not len(self.categories_[j])]:  # which is released
            shown = [int(j) if schema.names is None else schema.names[j] for j in empty]
            warnings.warn(
                f"{name}: no category of columns {shown} had enough rows to be selected; state "
                "categories, or take a larger epsilon or delta",
                stacklevel=outside_level(),
            )
        return self

    def _kept(self, values: list[Any]) -> list[Any]:
        """Return categories, without the missing one where it is none."""
        if self._missing_is_one:
            return values
        return [value for value in values if cell_key(value) != MISSING]

    def _finish(self, private: NDArray[np.bool_]) -> None:
        """Set what else is fitted; `private` says of which columns categories were selected."""

    def _codes(self, table: Any) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the codes of cells, -1 of unknown ones, and which cells are missing."""
        codes, missing = codes_among(table, self.categories_)
        unknown = codes < 0 if self._missing_is_one else (codes < 0) & ~missing
        if self.handle_unknown == ERROR and unknown.any():
            named = input_names(self)
            shown = [named[j] for j in np.flatnonzero(unknown.any(axis=0))]
            raise ValueError(_UNKNOWN.format(type(self).__name__, shown))
        return codes, missing

    def _encoded(self, X: Any) -> tuple[Codes, NDArray[np.bool_]]:
        """Check the caller's own X, and return its codes."""
        check_is_fitted(self)
        name = type(self).__name__
        table, _ = check_categorical(X, estimator=name, allow_empty=self._allow_empty)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self._codes(table)

    def _decoded(self, codes: Codes, unknown: Any = None) -> NDArray[Any]:
        """Return categories of codes: objects, unless all are numbers and known."""
        columns: list[NDArray[Any]] = []
        for j, values in enumerate(self.categories_):
            column = np.empty(len(codes), dtype=object)
            known = codes[:, j] >= 0
            column[known] = values[codes[known, j]]
            column[~known] = unknown
            plain = known.all() and values.dtype.kind != "O"
            columns.append(column.astype(values.dtype) if plain else column)
        if len({column.dtype for column in columns}) == 1:
            return np.stack(columns, axis=1)
        return np.stack([column.astype(object) for column in columns], axis=1)

    def expected_error(
        self, n_samples: int, n_features: int | None = None, *, like: Any = None
    ) -> float:
        """Return the part of the cells whose category a fit will not know, on average.

        Nothing private is read and nothing is charged: public rows are fitted a few times, each
        time with fresh noise.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Accepted for symmetry; the number of columns is that of `like`.
        like : array-like or table of shape (n, n_features), default=None
            Public rows that resemble the private ones (made-up ones will do), of any number,
            **never the private rows themselves**: the answer is not private.

        Returns
        -------
        error : float
            In [0, 1]; zero if all categories are stated.

        Raises
        ------
        ValueError
            If categories are private and `like` is not given.
        """
        self._check_parameters()
        refuse_units(type(self).__name__, ambient_budget() if self.budget is None else self.budget)
        n = check_integer(n_samples, "n_samples", low=1)
        if self._is_free():
            return 0.0
        if like is None:
            raise unanswered(self, "the rows: on how many each category has", fit=False)
        name = f"{type(self).__name__}.expected_error(like=...)"
        table, schema = check_categorical(like, estimator=name)
        cells = array_of_cells(table)
        specs = per_column(self.categories, schema.n_columns, schema.names)
        specs = [listed(table, j, schema) if s == "dtype" else s for j, s in enumerate(specs)]

        def once(number: int) -> float:
            rows = cells[repeated(len(cells), n, number)]
            fitted = made(number, categories=specs).fit(rows)
            codes, missing = codes_among(rows, fitted.categories_)
            return float(np.mean((codes < 0) & (self._missing_is_one | ~missing)))

        with rehearsal(self, self._adjacency) as made:
            return mean_error(once, least=6, most=24, precision=0.1)
