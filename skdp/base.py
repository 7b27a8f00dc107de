"""What every private estimator shares: parameter checks, the session, the price, the certificate.

Nothing is released here. An estimator inherits `PrivateMixin` beside scikit-learn's own mixins
and follows one shape::

    def fit(self, X, y=None):
        with self._all_or_nothing():
            rows = self._open(X)                    # parameters and rows checked, nothing charged
            bounds = check_bounds(self.bounds, rows.n_features)
            with self._session(rows) as session:    # charged here
                ...                                 # releases and post-processing
                self.privacy_ = session.certificate()
        return self
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp import kernel
from skdp._clients import check_caller
from skdp._config import noise_is_seeded
from skdp._public_key import public_key
from skdp.budget import Cost, PrivacyBudget
from skdp.budget.ambient import ambient_budget, in_force
from skdp.budget.amounts import check_delta, check_positive

__all__ = [
    "PrivateMixin",
    "became_text",
    "check_bounds",
    "check_integer",
    "check_privacy",
    "check_step",
    "check_without_rows",
    "columns_of_bounds",
    "labels_of_bounds",
    "names_of",
]

PRIVATE = "private"
LEARNING_SHARE = 0.2  # of the allowance, at most, for bounds that only say where rows are


def check_privacy(name: str, epsilon: Any, delta: Any, budget: Any) -> None:
    """Check what every fit is told, and name whose it is: a pipeline has many steps."""
    try:
        check_positive(epsilon, "epsilon")
        check_delta(delta)
        if not (budget is None or isinstance(budget, PrivacyBudget)):
            raise TypeError(f"budget must be a PrivacyBudget or None, got {type(budget).__name__}")
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def check_integer(value: Any, name: str, *, low: int, high: int | None = None) -> int:
    """Return an integer parameter, or raise with its name and the values it may take."""
    allowed = f"an integer of at least {low}" + ("" if high is None else f" and at most {high}")
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be {allowed}, got {type(value).__name__}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {allowed}, got {number}")
    return number


def became_text(array: NDArray, labels: Iterable[Any]) -> bool:
    """Say whether an array made text of public labels that are none: numbers beside text."""
    text = {"U": str, "S": bytes}.get(array.dtype.kind)
    return text is not None and not all(isinstance(label, text) for label in labels)


def check_step(step: Any) -> float | None:
    """Return the distance of candidates as a float, or None; raise with the values it may take."""
    if step is None:
        return None
    if isinstance(step, bool | np.bool_) or not isinstance(step, numbers.Real):
        raise TypeError(f"step must be None or a number above 0, got {type(step).__name__}")
    try:
        value = float(step)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError("step must be None or a finite number above 0")
    return value


_BOUNDS = (
    "bounds must be 'private', a pair (low, high) of numbers, a pair (lows, highs) of two lists or "
    "arrays with one number per feature, or a mapping from column name to (low, high)"
)


def _has_pairs(bounds: Any) -> bool:
    """Say whether bounds look like one pair a column, which could be taken for (lows, highs).

    A list or array of anything but numbers, or a tuple of tuples: of two columns nobody could tell
    which is meant.
    """
    if isinstance(bounds, list | np.ndarray):
        return any(np.ndim(side) > 0 for side in bounds)
    return isinstance(bounds, tuple) and any(isinstance(side, tuple) for side in bounds)


def _is_number(side: Any) -> bool:
    """Say whether this one bound is a number, of any kind that arrays take."""
    return np.ndim(side) == 0 and np.asarray(side).dtype.kind in "biufO"


def _by_name(
    bounds: Mapping[Any, Any], n_features: int, names: Sequence[Any] | None
) -> tuple[list[Any], list[Any]]:
    """Return lows and highs in the order of the columns."""
    if names is None and set(bounds) <= set(range(n_features)):
        names = range(n_features)
    if names is None:
        way_out = (
            "; of an array the names are 0, 1, ..., and behind a step that makes arrays "
            "step.set_output(transform='pandas') keeps them"
        )
        if n_features == 1 and len(bounds) == 1:
            ((name, pair),) = bounds.items()
            way_out = f": of one column pass a table, as df[[{name!r}]], or write bounds={pair!r}"
        raise TypeError(
            f"bounds by column name need a table with column names, got rows without{way_out}"
        )
    unknown = [name for name in bounds if name not in names]
    if missing := [name for name in names if name not in bounds]:
        no_columns = f"; X does not have: {unknown}" if unknown else ""
        raise ValueError(
            f"bounds must state every column; there are none for {missing}{no_columns}"
        )
    if unknown:
        raise ValueError(f"bounds name columns that X does not have: {unknown}")
    for name in names:
        pair = bounds[name]
        if isinstance(pair, str) or np.ndim(pair) != 1 or len(pair) != 2:
            raise TypeError(
                f"bounds of column {name!r} must be a pair (low, high) of numbers; learned and "
                "stated bounds do not mix"
            )
        if not all(_is_number(side) for side in pair):
            raise TypeError(f"bounds of column {name!r} must be a pair (low, high) of numbers")
    return [bounds[name][0] for name in names], [bounds[name][1] for name in names]


def _labels(side: Any) -> list[Any] | None:
    """Return the index of one bound that is a Series, unless it only counts positions."""
    if not (hasattr(side, "iloc") and hasattr(side, "index")) or np.ndim(side) != 1:
        return None
    labels = list(side.index)
    return None if labels == list(range(len(labels))) else labels


def _aligned(side: Any, name: str, n_features: int, names: Sequence[Any] | None) -> Any:
    """Return one bound in the order of the columns, which its index may name in any other."""
    labels = _labels(side)
    if labels is None:
        return side
    columns = list(range(n_features) if names is None else names)
    if len(labels) != len(columns) or set(labels) != set(columns):
        raise ValueError(
            f"bounds: the index of {name} must hold each column once, got {labels} for "
            f"{columns}. For bounds by position pass {name}.to_numpy()"
        )
    return np.asarray(side)[[labels.index(column) for column in columns]]


def labels_of_bounds(bounds: Any) -> list[Any] | None:
    """Return the names of columns that bounds state, in their own order, or None."""
    if isinstance(bounds, Mapping):
        return list(bounds)
    if not isinstance(bounds, tuple):
        return None
    return next((labels for side in bounds if (labels := _labels(side)) is not None), None)


def check_bounds(
    bounds: Any, n_features: int, names: Sequence[Any] | None = None
) -> tuple[NDArray, NDArray] | None:
    """Return (low, high) as arrays of length n_features, or None for ``"private"``.

    Parameters
    ----------
    names : sequence, default=None
        Of the columns, as far as they have any; for bounds by column name, which a mapping has
        and a pair of Series with an index of its own.

    Raises
    ------
    TypeError, ValueError
        Naming ``bounds``; nothing has been charged.
    """
    if isinstance(bounds, str):
        if bounds == PRIVATE:
            return None
        raise ValueError(f"bounds must be 'private' or a pair (low, high), got {bounds!r}")
    if isinstance(bounds, Mapping):
        bounds = _by_name(bounds, n_features, names)
    elif _has_pairs(bounds):
        raise TypeError(
            f"{_BOUNDS}. A list of pairs is none of these: for columns a and b with bounds (0, 1) "
            "and (0, 9) write ([0, 0], [1, 9]) or {'a': (0, 1), 'b': (0, 9)}"
        )
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise TypeError(_BOUNDS) from None
    low = _aligned(low, "low", n_features, names)
    high = _aligned(high, "high", n_features, names)
    try:
        sides = [np.asarray(low), np.asarray(high)]
        if any(side.dtype.kind not in "biufO" for side in sides):  # text, dates, complex
            raise TypeError
        pair = [np.asarray(side, dtype=np.float64) for side in sides]
    except OverflowError:
        raise ValueError("bounds: low and high must be finite") from None
    except (TypeError, ValueError):
        raise TypeError(_BOUNDS) from None
    for side, name in zip(pair, ("low", "high"), strict=True):
        if side.ndim > 1 or (side.ndim == 1 and side.size != n_features):
            raise ValueError(
                f"bounds: {name} must be one number or have one per feature ({n_features}), got "
                f"shape {side.shape}"
            )
        if not np.isfinite(side).all():
            raise ValueError(f"bounds: {name} must be finite")
    low_array, high_array = (np.broadcast_to(side, (n_features,)).copy() for side in pair)
    if np.any(wrong := low_array > high_array):
        labels = range(n_features) if names is None else names
        which = [label for label, bad in zip(labels, wrong, strict=True) if bad]
        raise ValueError(
            f"bounds: low must not exceed high for any feature, as it does for {which}"
        )
    return low_array, high_array


def columns_of_bounds(bounds: Any) -> int | None:
    """Return the number of columns that stated bounds have, if they say one."""
    if isinstance(bounds, Mapping):
        return len(bounds)
    if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray):
        return None
    sizes = [np.size(side) for side in bounds if np.ndim(side) == 1]
    return max(sizes, default=None)


def names_of(like: Any) -> Sequence[Any] | None:
    """Return the names of the columns of public rows, or of an earlier fit, if they have any."""
    for attribute in ("feature_names_in_", "column_names", "columns"):
        names = getattr(like, attribute, None)
        if names is not None:
            return list(names)
    return None


def _columns_of(like: Any) -> int | None:
    """Return the number of columns of public rows, or of an earlier fit, if they say one."""
    width = getattr(like, "n_features_in_", None)
    if width is None:
        shape: Any = getattr(like, "shape", None) or (() if like is None else np.shape(like))
        width = shape[1] if len(shape) == 2 else None
    return None if width is None else int(width)


class AmbientBudgetMixin:
    """Takes the budget of a ``with budget:`` along, wherever it is cloned or pickled inside it."""

    budget: PrivacyBudget | None

    def __sklearn_clone__(self) -> Any:
        twin = super().__sklearn_clone__()  # type: ignore[misc]
        if twin.budget is None:
            twin.budget = ambient_budget()
        return twin

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        if self.budget is None and (budget := ambient_budget()) is not None:
            state = {**state, "budget": budget}
        return state


class PrivateMixin(AmbientBudgetMixin):
    """Parameter checks, session, price and certificate of a private estimator.

    Expects the parameters ``epsilon``, ``delta``, ``budget`` and ``random_state``.
    """

    epsilon: float
    delta: float
    budget: PrivacyBudget | None
    random_state: Any

    def _check_privacy_parameters(self) -> None:
        check_privacy(type(self).__name__, self.epsilon, self.delta, self.budget)

    def _check_without_rows(self) -> None:
        """Raise what every fit raises for these parameters, as far as that needs no rows.

        For `skdp.check_pipeline`; estimators add the checks that they have.
        """
        self._check_privacy_parameters()

    def _check_bounds_without_rows(self) -> Any:
        """Return bounds by themselves, as `check_bounds` does, for as many columns as they have."""
        bounds = self.bounds  # type: ignore[attr-defined]
        return check_bounds(bounds, columns_of_bounds(bounds) or 1, labels_of_bounds(bounds))

    @property
    def _adjacency(self) -> str:
        budget = ambient_budget() if self.budget is None else self.budget
        return "replace_one" if budget is None else budget.adjacency

    @property
    def _allow_empty(self) -> bool:
        """Whether tables without rows are tables like others: the number of rows is private."""
        return self._adjacency == "add_or_remove_one"

    @property
    def _seeds_noise(self) -> bool:
        """Whether the next fit draws reproducible noise."""
        return self.random_state is not None and noise_is_seeded()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator exactly as it was if the block raises: never partly fitted.

        Callers that would fail once the fit is charged are refused, and no tracker logs what is
        fitted inside of it.
        """
        check_caller(self)
        before = dict(vars(self))
        try:
            with kernel.untracked():
                yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _open(self, X: Any, *, reset: bool = True) -> kernel.Rows:
        """Check privacy parameters and rows; record the public schema. Charges nothing."""
        self._check_privacy_parameters()
        name = type(self).__name__
        rows = kernel.check_rows(X, estimator=name, allow_empty=self._allow_empty)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def _session(
        self,
        rows: kernel.Rows,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        delta_apart: float = 0.0,
        context: str = "",
    ) -> kernel.Session:
        """Charge the budget and open the session; epsilon and delta default to the parameters.

        `delta_apart` is charged beside delta, for rows that are published; `context` is public and
        keys seeded noise beside the parameters.
        """
        return kernel.open_session(
            rows,
            estimator=type(self).__name__,
            epsilon=self.epsilon if epsilon is None else epsilon,
            delta=self.delta if delta is None else delta,
            budget=in_force(self.budget, type(self).__name__),
            random_state=self.random_state,
            delta_apart=delta_apart,
            context=public_key(self) + context if self._seeds_noise else "",
        )

    def _public_array(self, X: Any) -> NDArray[np.float64]:
        """Check fittedness and the caller's own X, as float64 of shape (n, n_features_in_)."""
        check_is_fitted(self)
        name = type(self).__name__
        values = kernel.check_public_array(X, estimator=name, allow_empty=self._allow_empty)
        validate_data(self, X, reset=False, skip_check_array=True)
        return values

    def _names(self) -> Sequence[Any] | None:
        """Return the names of the columns; before a fit those of bounds, in their own order."""
        labels = labels_of_bounds(getattr(self, "bounds", None))
        if not hasattr(self, "n_features_in_") and labels is not None:
            return labels
        return getattr(self, "feature_names_in_", None)

    def _sizes(
        self, n_samples: int, n_features: int | None, *, like: Any = None, bounds: Any = None
    ) -> tuple[int, int]:
        """Check the arguments of `expected_error`.

        The number of columns, if it is not given, is that of an earlier fit, of public rows or of
        stated bounds; none may contradict another.
        """
        n = check_integer(n_samples, "n_samples", low=1)
        if n_features is None:
            n_features = getattr(self, "n_features_in_", None)
        else:
            n_features = check_integer(n_features, "n_features", low=1)
        stated = columns_of_bounds(bounds)
        for source, width in (("like", _columns_of(like)), ("bounds", stated)):
            if width is None:
                continue
            if n_features is not None and n_features != width:
                raise ValueError(
                    f"{source} must have n_features = {n_features} columns, got {width}"
                )
            n_features = width
        if n_features is None:
            raise ValueError("n_features must be given before fit, an integer of at least 1")
        return n, n_features

    def _by_position(self, like: Any) -> Self:
        """Return this estimator with bounds by position, in the order of the columns of `like`.

        For `expected_error`, whose rehearsals fit arrays. Itself where bounds have no names.
        """
        bounds = getattr(self, "bounds", None)
        labels = labels_of_bounds(bounds)
        if labels is None:
            return self
        names = names_of(like)
        if names is None:
            names = self._names()
        width = len(labels) if names is None else len(names)
        twin = copy.copy(self)
        twin.bounds = check_bounds(bounds, width, names)  # type: ignore[attr-defined]
        return twin

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the price of one fit, before any data is touched.

        Parameters
        ----------
        n_samples, n_features : int, default=None
            Accepted for symmetry; the price of a fit does not depend on them.

        Returns
        -------
        cost : skdp.budget.Cost
            The (epsilon, delta) that one fit charges, and its mu where noise is Gaussian.
        """
        self._check_privacy_parameters()
        epsilon, delta = float(self.epsilon), float(self.delta)
        mu = kernel.gdp_mu(epsilon, delta) if delta > 0 else None
        return Cost(epsilon=epsilon, delta=delta, mu=mu)


def check_without_rows(estimator: Any) -> None:
    """Raise what every fit of an estimator raises for its parameters, as far as it can tell."""
    if isinstance(estimator, PrivateMixin):
        estimator._check_without_rows()
