"""How a session answers: the rows, the relation, and what measurements may use of both.

Released: what a query asks for, with the noise of the sensitivity that stands in its type.
Guarantee: only registered query types are answered, as they were when they were handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exceptions import PrivacyLeakError
from skdp.kernel import sampling
from skdp.kernel import statistics as stats
from skdp.kernel.bounds import LearnedBox
from skdp.kernel.isolation import interruptible, quiet
from skdp.kernel.mechanisms import Mechanisms
from skdp.kernel.protect import Floats, isqrt_up
from skdp.kernel.query import (
    Choice,
    Independent,
    Measurement,
    Noisy,
    Sensitivity,
    Spherical,
    Terms,
    check_query,
    is_reviewed,
    owned,
)
from skdp.kernel.release import Release, Share, asked, released
from skdp.kernel.rows import Rows
from skdp.kernel.sums import Count
from skdp.kernel.table import PrivateTable
from skdp.kernel.trackers import untracked

__all__ = ["Doors"]


class Doors(Mechanisms):
    """The rows of a session beside its meter, and how it answers; `Session` inherits it."""

    learned: LearnedBox | None = None  # the bounds that this session has learned

    def __init__(self, rows: Rows, **options: Any) -> None:
        super().__init__(rows, **options)
        self._rows = rows
        self.n_features = rows.n_features

    # --- queries --------------------------------------------------------------------------------

    def answer(self, query: Any, share: Share = None, *, name: str | None = None) -> Any:
        """Release the answer to a query, with the noise that its own sensitivity asks for.

        Guarantee: level(share)-GDP, respectively pure DP for the share's epsilon, if the
        sensitivity that stands in the query's type holds; only registered types are answered.

        Parameters
        ----------
        query : Query or Measurement
        share : float or Fraction, default=None
            Of the session's allowance; None for all that is left.
        name : str, default=None
            In the certificate; that of the query by default.

        Raises
        ------
        TypeError
            If the query is not of a registered type.
        PrivacyLeakError
            If the allowance does not cover the share.
        """
        kind = check_query(query)
        query = owned(query)
        name = kind.name if name is None else name
        with asked(f"{kind.__module__}.{kind.__qualname__}", reviewed=is_reviewed(kind)):
            if issubclass(kind, Measurement):
                return kind.measure(query, self, share, name)
            if issubclass(kind, Choice):
                scores = kind.scores(query, self._private)
                size = kind.sensitivity(query, self.adjacency)
                return kind.decoded(query, self._choices(name, scores, size, share))
            terms = self.terms(share)
            query = kind.prepared(query, terms)
            exact = kind.exact(query, self._private)
            sensitivity = kind.sensitivity(query, self.adjacency)
            values, std = self._noised(name, exact, sensitivity, share, query.unit)
            return kind.decoded(query, Noisy(values, std, terms))

    def terms(self, share: Share = None) -> Terms:
        """Return what a query may know of this session; all of it is public."""
        return Terms(
            relation=self.adjacency,
            pure=self.pure,
            level=self.level(share),
            n_rows=self._rows._n if self._replace else None,
        )

    @property
    def _private(self) -> PrivateTable:
        return PrivateTable(self._rows, self.adjacency)

    def _noised(
        self, name: str, exact: NDArray, sensitivity: Sensitivity, share: Share, unit: float
    ) -> tuple[NDArray, float]:
        """Add the noise that a sensitivity asks for."""
        if isinstance(sensitivity, Spherical):
            return self._vector(name, exact, sensitivity.l2, share, unit=unit)
        if isinstance(sensitivity, Independent):
            l1, l2_squared = sensitivity.l1, sensitivity.l2_squared
            l2 = isqrt_up(l2_squared)
            if (
                sensitivity.or_spherical
                and self.pure
                and (math.sqrt(2) * l1 >= math.sqrt(exact.size + 1) * l2)
            ):
                return self._vector(name, exact, l2, share, unit=unit)
            return self._scalars(name, exact, l1, l2_squared, share, unit=unit)
        bounds = {
            "frobenius": sensitivity.frobenius,
            "nuclear": sensitivity.nuclear,
            "upper_l1": sensitivity.upper_l1,
        }
        return self._symmetric(name, exact, bounds.__getitem__, share, sensitivity.noise, unit=unit)

    def row_count(self, share: Share = None, *, name: str = "count") -> Release:
        """Return the number of rows: exact and free under replace-one, else a noisy release."""
        if self._replace:
            return released(float(self._rows._n), 0.0)
        out: Release = self.answer(Count(), share, name=name)
        return out

    # --- the trusted side -------------------------------------------------------------------------

    @contextmanager
    def _foreign(self) -> Iterator[None]:
        """Run a user's code on rows, which gets neither warnings through nor a release."""
        with self._lock:
            self._busy += 1
        try:
            with quiet(), interruptible(), untracked():
                yield
        finally:
            with self._lock:
                self._busy -= 1

    @contextmanager
    def _user_code(self, share: Share, name: str) -> Iterator[Callable[[int], None]]:
        """Run a user's code on rows before a release of this share: no release, no warning.

        Yields what gives code that failed fresh generators.
        """
        self._check_share(share, name)
        with self._foreign(), sampling.lent_generators() as restart:
            yield restart

    @property
    def _replace(self) -> bool:
        return self.adjacency == stats.REPLACE_ONE

    @property
    def n_rows(self) -> int:
        """Number of rows, where the relation makes it public."""
        if not self._replace:
            raise PrivacyLeakError("the number of rows is private under 'add_or_remove_one'")
        return self._rows._n

    def _count_of(self, n: float, std: float, weight: int) -> Release:
        """Return the number of rows as a release, from the noise of `weight` times itself."""
        return released(n, 0.0 if self._replace else std / weight)

    def _with_count(
        self,
        name: str,
        exact: NDArray,
        n: int,
        weight: int,
        sensitivity: int,
        share: Share,
        unit: float,
    ) -> tuple[Floats, float, float]:
        """Release sums with the number of rows (R: it is public; A: weight * n in the vector).

        Returns
        -------
        sums : ndarray
            In steps.
        std : float
        count : float
            At least 1.
        """
        if self._replace:
            noisy, std = self._vector(name, exact, sensitivity, share, unit=unit)
            return noisy.astype(np.float64), std, max(1.0, float(n))
        # Of Python integers where weight * n could overflow.
        dtype = exact.dtype if weight * n < 2**62 else object
        both = np.concatenate([exact, np.array([weight * n], dtype=dtype)])
        noisy, std = self._vector(name, both, sensitivity, share, unit=unit)
        return noisy[:-1].astype(np.float64), std, max(1.0, float(noisy[-1]) / weight)
