"""What transformers that make other columns share: free fits, names and indicators of columns.

Nothing is released here: it computes on public parameters and on what was released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp.base import PrivateMixin
from skdp.budget import Cost

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Transformer(PrivateMixin, TransformerMixin, BaseEstimator, ABC):
    """A private transformer, some fits of which release nothing."""

    @abstractmethod
    def _is_free(self) -> bool:
        """Say whether a fit releases nothing, by its parameters alone."""

    def privacy_cost(  # type: ignore[override]  # None: nothing is charged
        self, n_samples: int | None = None, n_features: int | None = None
    ) -> Cost | None:
        """Return the cost of one fit, before any data is touched.

        Parameters
        ----------
        n_samples, n_features : int, default=None
            Not used: the cost does not depend on them.

        Returns
        -------
        cost : skdp.budget.Cost or None
            None if a fit releases nothing.
        """
        self._check_parameters()
        cost = super().privacy_cost(n_samples, n_features)
        return None if self._is_free() else cost

    def _check_width(self, width: int, expected: int) -> None:
        """Refuse a table of another number of columns than `transform` makes."""
        if width != expected:
            raise ValueError(f"X must have {expected} columns, as transform makes, got {width}")


def input_names(estimator: Any, input_features: Any = None) -> list[str]:
    """Return the names of the columns of `fit`, or those given, or x0, x1, ...

    Raises
    ------
    ValueError
        If names are given that are not those of `fit`, or not one a column.
    """
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


def indicators(codes: Codes, sizes: Sequence[int], *, as_sparse: bool) -> Any:
    """Return one column a code, 1.0 where a row has it; a code of -1 is none of its columns.

    Parameters
    ----------
    codes : ndarray of shape (n, d)
    sizes : sequence of int
        Number of codes of each of the d columns.
    as_sparse : bool

    Returns
    -------
    table : ndarray or scipy.sparse.csr_array of shape (n, sum(sizes))
    """
    n, starts = len(codes), np.concatenate([[0], np.cumsum(sizes)])
    row, column = np.nonzero(codes >= 0)
    place = starts[column] + codes[row, column]
    if as_sparse:
        ones = np.ones(len(row))
        return sparse.csr_matrix((ones, (row, place)), shape=(n, int(starts[-1])))
    table = np.zeros((n, int(starts[-1])))
    table[row, place] = 1.0
    return table


def codes_of(table: Floats, sizes: Sequence[int]) -> Codes:
    """Return the code of the largest indicator of each column; -1 where all of them are 0."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    found = np.full((len(table), len(sizes)), -1, dtype=np.int64)
    for j, size in enumerate(sizes):
        part = table[:, starts[j] : starts[j + 1]]
        if size:
            found[:, j] = np.where(part.any(axis=1), part.argmax(axis=1), -1)
    return found
