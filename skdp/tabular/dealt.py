"""Rows that are dealt out to parts: by themselves, or by unit, everything that one has together.

Nothing is released here. For mechanisms that hand each part to code that protects a row, or a unit,
by itself (`skdp.queries.best_of_runs`).
"""

from __future__ import annotations

import hashlib
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from skdp.core.table import REPLACE_ONE
from skdp.tabular.containers import alone, take, to_float
from skdp.tabular.opaque import opaque_rows
from skdp.tabular.rows import Rows
from skdp.tabular.units import check_units, ids_of

__all__ = ["DealtRows", "WholeUnits", "dealt_rows", "whole_units"]


class DealtRows(Rows):
    """Rows of any content; a seed is keyed by what is in them, whatever holds it."""

    def digest(self) -> bytes:
        """Return a hash of the content; it keys the noise of seeded fits and nothing else."""
        both = tuple(None if one is None else _plain(one) for one in (self._X, self._y))
        return bytes.fromhex(joblib.hash(both, hash_name="sha1"))


def _plain(table: Any) -> Any:
    """Return a table of numbers as floats in an array of its own; others as they are."""
    found, problem = to_float(table)
    if found is None or problem:
        return table
    return np.ascontiguousarray(found.reshape(getattr(table, "shape", found.shape)))


def dealt_rows(X: Any, y: Any = None) -> DealtRows:
    """Return rows of any content, as `opaque_rows` does."""
    rows = opaque_rows(X, y)
    return DealtRows(rows._X, rows._y, numeric=False)


class WholeUnits:
    """A table whose rows are units.

    How many there are is private under both relations: a unit may have no row before, or after.
    """

    filtered = True
    n_is_private = True  # a unit may have no row on one side
    units = None  # a row of this table is a unit already

    def __init__(
        self, rows: Rows, groups: Any, unit_name: str, estimator: str, adjacency: str
    ) -> None:
        self._rows, self.unit_name = rows, unit_name
        self._units = check_units(groups, rows._n, estimator=estimator, adjacency=adjacency)
        self._ids = ids_of(groups)
        self._n, self.n_features = int(self._units.words.size), rows.n_features

    def __repr__(self) -> str:
        return f"WholeUnits(n_features={self.n_features})"

    def spans(self, *, width: int = 1, least: int = 256) -> list[tuple[int, int]]:
        """Refuse: no query but those that deal units out reads such a table."""
        raise TypeError("a table of units is read by queries that deal units out only")

    def chunk(self, start: int, stop: int) -> NDArray[np.float64]:
        """Refuse, as `spans` does."""
        raise TypeError("a table of units is read by queries that deal units out only")

    def part(self, chosen: NDArray[np.intp]) -> tuple[Any, Any, NDArray]:
        """Return copies of all rows of some units, in order: X, y and the ids."""
        wanted = np.zeros(self._n + 1, dtype=bool)  # the last is of rows without an id
        wanted[chosen] = True
        positions = np.flatnonzero(wanted[self._units.codes])
        X, y = self._rows._X, self._rows._y
        return (
            alone(take(X, positions)),
            None if y is None else alone(take(y, positions)),
            self._ids[positions],
        )

    def keyed_words(self, key: bytes) -> NDArray[np.uint64]:
        """Return a keyed word of each unit: of its id alone."""
        made = [
            hashlib.blake2b(int(word).to_bytes(8, "little"), digest_size=8, key=key).digest()
            for word in self._units.words
        ]
        return np.array([int.from_bytes(one, "little") for one in made], dtype=np.uint64)

    def digest(self) -> bytes:
        """Return a hash of the content; it keys the noise of seeded fits and nothing else."""
        ids = np.append(self._units.words, np.uint64(0))[self._units.codes]
        return self._rows.digest() + bytes.fromhex(joblib.hash(ids, hash_name="sha1"))


def whole_units(
    X: Any,
    y: Any,
    groups: Any,
    *,
    unit_name: str,
    estimator: str,
    adjacency: str = REPLACE_ONE,
) -> WholeUnits:
    """Return rows of any content as a table of units.

    Parameters
    ----------
    X, y : array-like
        As for `opaque_rows`.
    groups : array-like of shape (n_samples,)
        Ids of whose each row is.
    unit_name : str
        That of the budget's unit.
    estimator, adjacency : str
        As of `check_units`.

    Raises
    ------
    TypeError, ValueError
        As `check_units`; nothing has been charged.
    """
    return WholeUnits(dealt_rows(X, y), groups, unit_name, estimator, adjacency)
