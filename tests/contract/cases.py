"""A case of the contract, and what its fits get: privacy parameters, budgets, rows, two samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import pytest

from skdp.budget import PrivacyBudget
from skdp.budget.budget import StandInBudget

T = TypeVar("T")
RELATIONS = ("replace_one", "add_or_remove_one")
DELTAS = (0.0, 1e-5)
# Pairs of delta and relation: two that differ in both run everywhere, the other two in CI, where
# tests of several tables take every fourth one: the parts of such a pair are all in the diagonal.
DIAGONAL = ((0.0, "replace_one"), (1e-5, "add_or_remove_one"))
REST = ((0.0, "add_or_remove_one"), (1e-5, "replace_one"))
of_every_pair = pytest.mark.parametrize(
    "pairs",
    [pytest.param(DIAGONAL, id="diagonal"), pytest.param(REST, id="rest", marks=pytest.mark.ci)],
)


def thinned(tables: Iterable[T], pairs: Iterable[tuple[float, str]]) -> list[T]:
    """Return all tables on the diagonal, and every fourth one elsewhere."""
    return list(tables)[:: 1 if tuple(pairs) == DIAGONAL else 4]


@dataclass(frozen=True)
class Case:
    """An estimator as the contract meets it.

    Attributes
    ----------
    name : str
    make : callable
        Makes an unfitted estimator from keyword-only privacy parameters; rows of the contract lie
        around [-1, 1], and far outside of it too.
    sklearn : bool
        Whether scikit-learn's checks run on it; configurations of one class need them once.
    n_features : int
        Of the rows that it is tested on.
    samples : bool
        Whether it is fitted on two samples, of which the rows with y = 1 alone are private.
    marked : callable or None
        Of two samples, and of labels: what scikit-learn's checks run on, since they bring any y.
    labels : callable or None
        From rows to their private labels, each decided by its row.
    relations : tuple of str
        Under which there are releases; a function may have none, or no meaning, under the other.
    """

    name: str
    make: Callable[..., Any]
    sklearn: bool = False
    n_features: int = 3
    samples: bool = False
    marked: Callable[..., Any] | None = None
    labels: Callable[[np.ndarray], np.ndarray] | None = None
    relations: tuple[str, ...] = RELATIONS

    def checked(self, **privacy: Any) -> Any:
        """Return what scikit-learn's checks run on."""
        return (self.marked or self.make)(**privacy)

    def table(self, private: np.ndarray, places: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (X, y) of these private rows, with the same public ones wherever it has such."""
        if self.labels is not None:
            return private, self.labels(private)
        if not self.samples:
            return private, None
        return two_samples(private, rows(N_PUBLIC, self.n_features, 11), places)


N_PUBLIC = 9


def two_samples(
    private: np.ndarray, public: np.ndarray, places: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y): both samples in their order, y = 1 private, shuffled by the number `places`.

    Tables of as many rows and of one `places` have the same y.
    """
    y = np.repeat([1, 0], [len(private), len(public)])
    np.random.default_rng(places).shuffle(y)
    X = np.empty((y.size, public.shape[1]))
    X[y == 1], X[y == 0] = private, public
    return X, y


def three_classes(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] > 0.1) + 1 * (X[:, 1] > 0.0) + 4 * (X[:, 2] > 1.0)  # the last is no class


def make(
    case: Case,
    delta: float,
    relation: str = "replace_one",
    epsilon: float = 1.0,
    unit: str | None = None,
) -> Any:
    """Return an unfitted estimator; under replace-one it has no budget, as most users' have.

    With delta the accountant asks for Gaussian noise: under "basic" most fits here would be pure.
    """
    budget = None
    if relation != "replace_one" or unit is not None or delta > 0:
        budget = budget_of(relation, unit, "gdp" if delta > 0 else "basic")
    return case.make(epsilon=epsilon, delta=delta, budget=budget, random_state=None)


@cache
def budget_of(relation: str, unit: str | None = None, accountant: str = "basic") -> PrivacyBudget:
    """Return one budget a relation; audits replace it by a stand-in, so nothing is charged."""
    if accountant != "basic":
        return StandInBudget(relation, unit, accountant=accountant)
    return PrivacyBudget(1.0, 1e-3, adjacency=relation, unit=unit)


def rows(n: int, d: int, seed: int) -> np.ndarray:
    """Return made-up rows, partly outside [-1, 1]."""
    return np.random.default_rng(seed).normal(0, 0.7, size=(n, d))
