"""What is run on a block, and the checks of the models that are.

Nothing is released here: what these callables return reaches nobody but the queries of
blocks, which clip it, count failures as a public default and drop whatever is printed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor

from skdp.core import public_generator
from skdp.tabular import as_table, label_codes
from skdp.user_code import suppress_warnings

Floats = NDArray[np.float64]

AUTO = "auto"
COLUMN = (
    "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
    "(n_samples, ), for example using ravel()."
)
_PROBE_ROWS = 200
_FAR = 1e300

# --- what is run on a block -------------------------------------------------------------------


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone in which every random state that is not stated is this seed."""
    made = clone(estimator)
    unset = {
        name: seed
        for name, value in made.get_params(deep=True).items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return made.set_params(**unset) if unset else made


def bare(estimator: Any, seed: int) -> Any:
    """Return a seeded clone without callbacks: those of its own would be given private rows."""
    made = seeded(estimator, seed)
    for part in [made, *made.get_params(deep=True).values()]:
        if hasattr(part, "set_callbacks") and not isinstance(part, type):
            part.set_callbacks()
    return made


def _predicted(fitted: Any, queries: Any) -> NDArray:
    """Predict a copy: what works in place would pass something on to the next block."""
    return np.asarray(fitted.predict(copy.deepcopy(queries)))


@dataclass(frozen=True)
class Vote:
    """Fits on a block and returns the codes of its predictions at the queries."""

    estimator: Any
    queries: Any
    n_queries: int
    classes: NDArray

    def __call__(self, X: Any, codes: NDArray, seed: int) -> NDArray:
        known = codes >= 0
        if not known.all():
            X, codes = as_table(np.asarray(X)[known], X), codes[known]
        present = np.unique(codes)
        if present.size <= 1:  # few estimators take that; the vote is clear
            return np.full(self.n_queries, present[0] if present.size else -1)
        fitted = bare(self.estimator, seed).fit(X, self.classes[codes])
        return label_codes(_predicted(fitted, self.queries), self.classes)


@dataclass(frozen=True)
class Scores:
    """Fits on a block and returns its scores of the classes at public rows, by direction.

    Scores are probabilities where the estimator has them, else 1 for what it predicts. Of two
    classes their difference, of more their distance from equal ones: the parts have at most the
    norm of one row's (`skdp.ensemble._scores.radius`).
    """

    estimator: Any
    queries: Any
    n_queries: int
    classes: NDArray
    basis: Floats

    def __call__(self, X: Any, codes: NDArray, seed: int) -> NDArray:
        known = codes >= 0
        if not known.all():
            X, codes = as_table(np.asarray(X)[known], X), codes[known]
        scores = np.zeros((self.n_queries, len(self.classes)))
        present = np.unique(codes)
        if present.size == 1:  # few estimators take that; the scores are clear
            scores[:, present[0]] = 1.0
        elif present.size:
            fitted = bare(self.estimator, seed).fit(X, self.classes[codes])
            scores = self._scores(fitted)
        else:
            scores += 1.0 / len(self.classes)
        if len(self.classes) == 2:
            scores = scores[:, 1:] - scores[:, :1]
        else:
            scores = scores - 1.0 / len(self.classes)
        return np.asarray(self.basis.T @ scores).ravel() / self.n_queries**0.5

    def _scores(self, fitted: Any) -> Floats:
        scores = np.zeros((self.n_queries, len(self.classes)))
        if hasattr(fitted, "predict_proba"):
            found = np.asarray(fitted.predict_proba(copy.deepcopy(self.queries)))
            scores[:, np.searchsorted(self.classes, fitted.classes_)] = np.clip(found, 0.0, 1.0)
            return scores
        codes = label_codes(_predicted(fitted, self.queries), self.classes)
        known = np.flatnonzero(codes >= 0)
        scores[known, codes[known]] = 1.0
        return scores


@dataclass(frozen=True)
class Prediction:
    """Fits on a block, with clipped targets, and returns its predictions at the queries."""

    estimator: Any
    queries: Any
    low: float
    high: float

    def __call__(self, X: Any, y: NDArray, seed: int) -> NDArray:
        fitted = bare(self.estimator, seed).fit(X, np.clip(y, self.low, self.high))
        return _predicted(fitted, self.queries)


@dataclass(frozen=True)
class Parameters:
    """Fits on a block and returns ``coef_`` and ``intercept_`` in a row."""

    estimator: Any
    classes: NDArray | None
    n_coefs: int
    n_intercepts: int

    def __call__(self, X: Any, y: NDArray, seed: int) -> NDArray:
        if self.classes is not None:
            known = y >= 0
            X, y = as_table(np.asarray(X)[known], X), y[known]
            present = np.unique(y)
            if present.size == 1:  # an intercept says so; it will be clipped
                side = 1 if self.n_intercepts == 1 else np.arange(self.n_intercepts)
                one = np.where(present[0] == side, _FAR, -_FAR)
                return np.append(np.zeros(self.n_coefs), one)
            y = self.classes[y]
        return parameters_of(bare(self.estimator, seed).fit(X, y))


def parameters_of(fitted: Any) -> Floats:
    parts = [np.ravel(getattr(fitted, name)) for name in ("coef_", "intercept_")]
    return np.asarray(np.concatenate(parts), dtype=np.float64)


def replaceable(fitted: Any, other: Any, X: Any) -> bool:
    """Say whether a fitted model predicts like another once it has that one's parameters.

    If not, predictions depend on more than ``coef_`` and ``intercept_``, or these cannot be set.
    """
    model = copy.deepcopy(fitted)
    try:
        model.coef_, model.intercept_ = other.coef_.copy(), np.copy(other.intercept_)
        with np.errstate(all="ignore"):
            one, two = np.asarray(model.predict(X)), np.asarray(other.predict(X))
    except Exception:  # noqa: BLE001  public rows: any failure is the model's
        return False
    if one.dtype.kind == "f":
        return bool(np.allclose(one, two, rtol=1e-6, atol=1e-9))
    return bool(np.all(one == two))


# --- checks -----------------------------------------------------------------------------------


def check_model(value: Any, name: str) -> None:
    """Refuse what is no classifier or regressor, and what would charge a budget in each block."""
    good = not isinstance(value, type) and all(
        hasattr(value, name) for name in ("fit", "predict", "get_params", "__sklearn_tags__")
    )
    if not good or not (is_classifier(value) or is_regressor(value)):
        raise TypeError(
            f"{name} must be a scikit-learn classifier or regressor with fit and predict, "
            f"got {value.__name__ if isinstance(value, type) else type(value).__name__}"
        )
    if any(hasattr(v, "privacy_cost") for v in [value, *value.get_params(deep=True).values()]):
        raise TypeError(
            f"{name} must not be a private estimator: here noise on the aggregate protects the rows"
        )


def stated(value: Any) -> int | None:
    """Return an integer parameter that has been checked, or None for ``"auto"``."""
    return None if isinstance(value, str) else int(value)


def probe(
    estimator: Any,
    output: str,
    public: Floats,
    like: Any,
    classes: NDArray | None,
    targets: tuple[Floats, Floats] | None,
) -> Any:
    """Fit the estimator on public rows with made-up targets, or raise.

    An estimator that cannot be fitted would fail in every block, after the charge. Returns the
    fitted estimator, whose parameters have the shapes of those of the blocks.
    """
    rng = public_generator(b"probe")
    rows = rng.normal(size=(_PROBE_ROWS, public.shape[1]))
    if len(public):
        rows = public[np.arange(max(_PROBE_ROWS, len(public))) % len(public)]
    X = as_table(rows, like)
    if classes is not None:
        y = classes[np.arange(len(rows)) % len(classes)]
    else:
        low, high = (-1.0, 1.0) if targets is None else targets
        y = np.clip(rng.uniform(low, high, size=len(rows)), low, high)
    with suppress_warnings():
        try:
            fitted = bare(estimator, 0).fit(X, y)
        except ValueError:
            if classes is not None or len(public):
                raise
            y = np.abs(y) + 0.5  # a model of counts or durations
            fitted = bare(estimator, 0).fit(X, y)
        good = np.shape(fitted.predict(X)) == y.shape
    if not good:
        raise ValueError("estimator must predict one label or number a row")
    linear = all(hasattr(fitted, name) for name in ("coef_", "intercept_"))
    if output == "parameters" and not linear:
        raise TypeError(
            "estimator must have coef_ and intercept_ for output='parameters', as linear "
            f"models have; {type(fitted).__name__} has not"
        )
    if output == "parameters":
        with suppress_warnings():
            elsewhere = as_table(3.0 * rows[::-1] + 1.0, like)
            other = bare(estimator, 0).fit(elsewhere, y)
            good = replaceable(fitted, other, X)
        if not good:
            raise TypeError(
                "estimator must predict from coef_ and intercept_ alone, and let them be set, "
                f"for output='parameters'; {type(fitted).__name__} does not"
            )
    return fitted
