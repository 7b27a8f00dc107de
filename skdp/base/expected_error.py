"""`expected_error`, from rehearsals: fits to public rows, which show how far noise moves them.

A rehearsal is the fit of a clone. Its budget is a stand-in that grants everything and writes
nothing, and its noise is seeded, so the same question has the same answer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from skdp._config import config_context
from skdp.base.context import allowed_delta
from skdp.base.mixin import PrivateMixin, refuse_units
from skdp.budget.ambient import ambient_budget
from skdp.budget.budget import StandInBudget
from skdp.core import public_generator
from skdp.parameters import check_integer
from skdp.tabular import check_public_array, checked

Floats = NDArray[np.float64]
Fresh = Callable[..., Any]  # see `rehearsal`

NOISELESS = 1e6  # an epsilon with negligible noise


def unanswered(
    estimator: Any, depends: str, otherwise: str = "", *, fit: bool = True
) -> ValueError:
    """Return the error that asks for `like`; with `fit`, an earlier fit will do, too."""
    name = type(estimator).__name__
    earlier = f", or an earlier fit of {name}{otherwise}" if fit else otherwise
    return ValueError(
        f"like must be given: the error of {name} depends on {depends}. State public rows that "
        f"resemble the private ones (made-up ones will do){earlier}"
    )


class ExpectedErrorMixin(PrivateMixin):
    """The method `expected_error`.

    A class implements `_expected_error(n, d, like)`; with a target, `_distance` of
    `TargetErrorMixin`; or `_error_of_fit`, if it does not need the number of columns.
    """

    def expected_error(
        self, n_samples: int, n_features: int | None = None, *, like: Any = None
    ) -> float:
        """Return the expected error of a fit, to see whether epsilon is large enough.

        Nothing private is read and nothing is charged. Where the error depends on the rows, public
        rows are fitted a few times, each time with fresh noise. The error of sampling is not
        included. Neither is what clipping to stated bounds changes, unless the Notes say so: the
        error is relative to the rows as clipped.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns. None: that of stated bounds or domains, of `like`, or of an earlier
            fit.
        like : array-like or table, pair (X, y), or fitted estimator, default=None
            Public rows that resemble the private ones (made-up ones will do), best as many as
            you will fit; with their targets, if a fit takes some. **Never the private rows
            themselves**: the answer is not private. Or an earlier fit, if that contains enough
            information.

        Returns
        -------
        error : float
            For classifiers, the part of the predictions for `like` that noise changes. For
            regressors, the root mean square of what noise adds to these predictions, in the unit
            of y. For all others the Notes of the class say which error this is, and in which unit.
            Zero if nothing is released.

        Raises
        ------
        ValueError
            If the answer depends on the rows and `like` is not given, or if there is no answer.
        """
        self._check_without_rows()
        refuse_units(type(self).__name__, ambient_budget() if self.budget is None else self.budget)
        n = check_integer(n_samples, "n_samples", low=1)
        if (is_free := getattr(self, "_is_free", None)) is not None and is_free():
            return 0.0
        return self._error_of_fit(n, n_features, like)

    def _error_of_fit(self, n: int, n_features: int | None, like: Any) -> float:
        """Return the error for n rows; the other arguments are unchecked."""
        planned = self._by_position(like)
        if planned is not self:
            return planned.expected_error(n, n_features, like=like)
        d = self._n_columns(n_features, like=like, bounds=self._bounds_of_columns)
        return self._expected_error(n, d, like)

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        """Return the error for n rows of d columns."""
        raise NotImplementedError


class TargetErrorMixin(ExpectedErrorMixin):
    """`expected_error` where a fit takes targets: compares fits with and without noise."""

    def _distance(self, fit: Any, exact: Any, X: Floats) -> float:
        """Return the distance of a fit with noise from one without, on public rows."""
        raise NotImplementedError

    def _known(self, y: NDArray) -> dict[str, Any]:
        """Return parameters of the exact fit that follow from public targets."""
        return {}

    def _error_of_fit(self, n: int, n_features: int | None, like: Any) -> float:
        check_pair(self, like)
        X = check_public_array(like[0], estimator=f"{type(self).__name__}.expected_error(like=...)")
        if n_features not in (None, X.shape[1]):
            raise ValueError(f"like must have n_features = {n_features} columns, got {X.shape[1]}")
        y = np.asarray(checked(like[1], "like"))
        if y.shape != (len(X), *y.shape[1 : 1 + getattr(self, "_takes_table", False)]):
            raise ValueError("like: y must have one entry for each row of X")
        exact = made_once(len(X), n)

        def once(fresh: Fresh, number: int) -> float:
            rows = repeated(len(X), n, number)
            known = {"epsilon": NOISELESS, "delta": 0.0, **self._known(y)}
            plain = exact(number, lambda: fresh(number, **known).fit(X[rows], y[rows]))
            return self._distance(fresh(number).fit(X[rows], y[rows]), plain, X)

        return mean_error(self._by_position(like[0]), once)


# --- rehearsals ---------------------------------------------------------------------------------


@dataclass
class Search:
    """What the answers of one search for an epsilon share."""

    rough: bool = True  # whether a few rehearsals will do
    was_rough: bool = False  # whether an answer had fewer than usual
    exact: dict[int, Any] = field(default_factory=dict)  # fits without noise


_search: ContextVar[Search | None] = ContextVar("_search", default=None)


@contextmanager
def within(search: Search) -> Iterator[None]:
    """Let answers inside share fits without noise, and rehearse less while `rough` is set.

    All must be about one estimator and the same rows.
    """
    token = _search.set(search)
    try:
        yield
    finally:
        _search.reset(token)


def made_once(n_like: int, n: int) -> Callable[[int, Callable[[], Any]], Any]:
    """Return what keeps the fits without noise: those to equal rows are equal, in a whole search.

    The rows of rehearsal `number` are `repeated(n_like, n, number)`.
    """
    known = Search().exact if (search := _search.get()) is None else search.exact

    def exact(number: int, make: Callable[[], Any]) -> Any:
        which = number if n % n_like else 0
        if which not in known:
            known[which] = make()
        return known[which]

    return exact


def rehearsals(usual: int) -> int:
    """Return how many rehearsals to make: a few in a search that is far from its end."""
    search = _search.get()
    if search is None or not search.rough:
        return usual
    search.was_rough = True
    return min(max(4, usual // 4), usual)


@cache
def _stand_in(adjacency: str, accountant: str) -> StandInBudget:
    """Return the stand-in budget of a relation and an accountant."""
    return StandInBudget(adjacency, accountant=accountant)


@contextmanager
def rehearsal(estimator: Any) -> Iterator[Fresh]:
    """Yield fresh(number, **changes): an unfitted clone that charges nothing, with a seed."""
    own = estimator.budget or ambient_budget()
    refuse_units(type(estimator).__name__, own)
    relation = ("replace_one", "basic") if own is None else (own.adjacency, own.accountant)
    budget = _stand_in(*relation)
    delta = allowed_delta(estimator)

    def fresh(number: int, **changes: Any) -> Any:
        copied = clone(estimator)
        if hasattr(copied, "set_callbacks"):
            copied.set_callbacks()  # none: they are told of fits, not of rehearsals
        return copied.set_params(
            **{"budget": budget, "random_state": number, "delta": delta, **changes}
        )

    with config_context(noise="seeded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield fresh
        finally:
            budget.asked.clear()


def mean_error(
    estimator: Any,
    once: Callable[[Fresh, int], float],
    *,
    least: int = 6,
    most: int = 24,
    precision: float = 0.1,
) -> float:
    """Return the mean of once(fresh, 0), ..., until its relative standard error is small."""
    errors: list[float] = []
    if (search := _search.get()) is not None and search.rough:
        most = rehearsals(least)
    with rehearsal(estimator) as fresh:
        for number in range(most):
            errors.append(float(once(fresh, number)))
            if number + 1 >= least:
                mean = float(np.mean(errors))
                if np.std(errors, ddof=1) <= precision * mean * math.sqrt(len(errors)):
                    break
    return float(np.mean(errors))


def rehearsal_rng(number: int = 0) -> np.random.Generator:
    """Return a generator for a rehearsal, with a public seed."""
    return public_generator(b"rehearsal" + str(number).encode())


# --- rows that are public -----------------------------------------------------------------------


def check_like(estimator: Any, like: Any, n_features: int) -> Floats:
    """Return public rows as floats, or raise naming ``like``."""
    name = f"{type(estimator).__name__}.expected_error(like=...)"
    rows = check_public_array(like, estimator=name)
    if rows.shape[1] != n_features:
        raise ValueError(f"like must have n_features = {n_features} columns, got {rows.shape[1]}")
    return rows


def check_pair(estimator: Any, like: Any) -> None:
    """Refuse what is no pair of public rows and targets."""
    if like is None:
        raise unanswered(estimator, "the rows and their targets", fit=False)
    if not (isinstance(like, tuple) and len(like) == 2):
        raise TypeError(
            "like must be a pair (X, y) of public rows and targets, never of private ones"
        )


def repeated(n_like: int, n: int, number: int = 0) -> NDArray[np.int64]:
    """Return n indices of public rows: each as often as any other, up to one."""
    times, remaining = divmod(n, n_like)
    drawn = rehearsal_rng(number).permutation(n_like)[:remaining]
    return np.concatenate([np.tile(np.arange(n_like), times), drawn])


def resampled(rows: Floats, n: int) -> Callable[[int], Floats]:
    """Return what draws n rows that are distributed like public ones; repeated rows are spread."""
    m, d = rows.shape
    if n <= m:
        return lambda number: rows[repeated(m, n, number)]
    # Continuous columns get half of the usual bandwidth of a kernel density.
    smooth = np.array([len(np.unique(column)) > m / 2 for column in rows.T])
    spread = 0.5 * rows.std(axis=0) * m ** (-1.0 / (d + 4)) * smooth

    def draw(number: int) -> Floats:
        drawn: Floats = rows[repeated(m, n, number)]
        drawn += rehearsal_rng(number).normal(size=drawn.shape) * spread
        return drawn

    return draw


def stretched(column: ArrayLike, n: int, rng: np.random.Generator) -> Floats:
    """Return n values, sorted, drawn from the distribution of a public column."""
    ordered = np.sort(np.asarray(column, dtype=np.float64))
    m = len(ordered)
    if m == n:
        return ordered
    places = np.sort(rng.random(n)) * (m - 1)
    if len(np.unique(ordered)) <= m / 2:
        # Ties stay ties. The number of rows of each value is uncertain, so it is drawn, too.
        again = np.sort(rng.choice(ordered, size=m))
        return again[np.rint(places).astype(np.int64)]
    # A smooth distribution: linear between some values, so that single gaps are not repeated.
    knots = np.unique(np.linspace(0, m - 1, max(2, round(2 * math.sqrt(m)))).round()).astype(int)
    return np.interp(places, knots, ordered[knots])
