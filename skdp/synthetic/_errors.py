"""How far the answers of a releaser are off: rehearsed on public rows.

Nothing private is touched: the rows are public, made up, or drawn from an earlier release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp import kernel
from skdp._rehearsal import mean_error, rehearsal, repeated
from skdp.synthetic._base import ReleaserMixin
from skdp.synthetic._queries import Queries

__all__ = ["LIKE", "PublicTable", "largest_error"]

LIKE = "the rows: on how uneven they are, and on how far their columns depend on each other"


class PublicTable(ReleaserMixin):
    """As many public rows as will be fitted, and what they answer.

    Parameters
    ----------
    like : array-like, table or fitted releaser
        The latter is sampled.
    domain : Domain
    n : int
        Number of rows.
    """

    def __init__(self, like: Any, domain: kernel.Domain, n: int) -> None:
        name = "expected_error(like=...)"
        if isinstance(like, ReleaserMixin):
            like = like.sample(n, random_state=0)
        X, schema = kernel.table_schema(like, estimator=name)
        if schema.n_columns != domain.n_columns:
            raise ValueError(
                f"like must have the {domain.n_columns} columns of domain, got {schema.n_columns}"
            )
        codes = kernel.public_codes(X, domain, estimator=name)
        self.domain_, self._schema = domain, schema
        self._codes = codes[repeated(len(codes), n)]
        self.rows = self._table(self._codes)

    def _rows(self) -> NDArray:
        return self._codes

    def answers(self, queries: Queries) -> NDArray[np.float64]:
        """Return the exact answers."""
        return self._answers(queries)


def largest_error(estimator: Any, adjacency: str, table: PublicTable, queries: Queries) -> float:
    """Return the mean over fits to public rows of the largest error of an answer."""
    exact = table.answers(queries)
    with rehearsal(estimator, adjacency) as made:

        def once(number: int) -> float:
            fitted = made(number).fit(table.rows)
            return float(np.abs(fitted.predict(queries) - exact).max())

        return mean_error(once, least=5, most=30)
