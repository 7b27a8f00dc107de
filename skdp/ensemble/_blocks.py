"""Tasks that run on blocks of rows, numbers of blocks and queries, and directions of scores.

Queries of blocks call these tasks: they clip the results, count failures as a public default and
drop whatever is printed. Numbers of blocks and queries follow from parameters and from numbers of
rows that are public, or released before.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import Tags, get_tags

from skdp.core import Ball, Box, Mean, ScaledBox, Sum, public_generator
from skdp.planning import Allowance
from skdp.queries import SmoothMedian, planned_noise, vote_bounds
from skdp.tabular import as_table, label_codes
from skdp.user_code import suppress_warnings

Floats = NDArray[np.float64]

AUTO = "auto"
_PROBE_ROWS = 200
_FAR = 1e300

# --- tasks of a block -----------------------------------------------------------------------------


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone in which every random state that is not stated is this seed."""
    copied = clone(estimator)
    unset = {
        name: seed
        for name, value in copied.get_params(deep=True).items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return copied.set_params(**unset) if unset else copied


def bare(estimator: Any, seed: int) -> Any:
    """Return a seeded clone without callbacks, which would get private rows."""
    copied = seeded(estimator, seed)
    for part in [copied, *copied.get_params(deep=True).values()]:
        if hasattr(part, "set_callbacks") and not isinstance(part, type):
            part.set_callbacks()
    return copied


def _predicted(fitted: Any, queries: Any) -> NDArray:
    """Predict a copy of the queries, which an estimator could change for the next block."""
    return np.asarray(fitted.predict(copy.deepcopy(queries)))


def with_tags_of(estimator: Any, tags: Tags) -> Tags:
    """Return tags changed to those of a classifier or a regressor, as the estimator is."""
    tags.target_tags.required = True
    if hasattr(estimator, "__sklearn_tags__"):
        inner = get_tags(estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
    return tags


def _labelled(X: Any, codes: NDArray) -> tuple[Any, NDArray]:
    """Return the rows of a block that have a known label, and their codes."""
    known = codes >= 0
    return (X, codes) if known.all() else (as_table(np.asarray(X)[known], X), codes[known])


@dataclass(frozen=True)
class Vote:
    """Fits on a block and returns the codes of its predictions at the queries."""

    estimator: Any
    queries: Any
    n_queries: int
    classes: NDArray

    def __call__(self, X: Any, codes: NDArray, seed: int) -> NDArray:
        X, codes = _labelled(X, codes)
        present = np.unique(codes)
        if present.size <= 1:  # few estimators fit a single class; the vote is clear
            return np.full(self.n_queries, present[0] if present.size else -1)
        fitted = bare(self.estimator, seed).fit(X, self.classes[codes])
        return label_codes(_predicted(fitted, self.queries), self.classes)


@dataclass(frozen=True)
class Scores:
    """Fits on a block and returns its scores of the classes at public rows, by direction.

    Scores are probabilities where the estimator has them, else 1 for the predicted class: the
    difference of two classes, or the excess over equal scores of more. `radius` bounds their norm.
    """

    estimator: Any
    queries: Any
    n_queries: int
    classes: NDArray
    basis: Floats

    def __call__(self, X: Any, codes: NDArray, seed: int) -> NDArray:
        X, codes = _labelled(X, codes)
        scores = np.zeros((self.n_queries, len(self.classes)))
        present = np.unique(codes)
        if present.size == 1:  # few estimators fit a single class; the scores are clear
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
            chances = np.asarray(fitted.predict_proba(copy.deepcopy(self.queries)))
            scores[:, np.searchsorted(self.classes, fitted.classes_)] = np.clip(chances, 0.0, 1.0)
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
            X, y = _labelled(X, y)
            present = np.unique(y)
            if present.size == 1:  # an extreme intercept, which will be clipped
                side = 1 if self.n_intercepts == 1 else np.arange(self.n_intercepts)
                intercepts = np.where(present[0] == side, _FAR, -_FAR)
                return np.append(np.zeros(self.n_coefs), intercepts)
            y = self.classes[y]
        return parameters_of(bare(self.estimator, seed).fit(X, y))


def parameters_of(fitted: Any) -> Floats:
    parts = [np.ravel(getattr(fitted, name)) for name in ("coef_", "intercept_")]
    return np.asarray(np.concatenate(parts), dtype=np.float64)


def replaceable(fitted: Any, other: Any, X: Any) -> bool:
    """Say whether predictions follow from ``coef_`` and ``intercept_`` alone, which can be set."""
    model = copy.deepcopy(fitted)
    try:
        model.coef_, model.intercept_ = other.coef_.copy(), np.copy(other.intercept_)
        with np.errstate(all="ignore"):
            copied, original = np.asarray(model.predict(X)), np.asarray(other.predict(X))
    except Exception:  # noqa: BLE001  public rows: any failure is the model's
        return False
    if copied.dtype.kind == "f":
        return bool(np.allclose(copied, original, rtol=1e-6, atol=1e-9))
    return bool(np.all(copied == original))


# --- checks -----------------------------------------------------------------------------------


def check_model(value: Any, name: str) -> None:
    """Refuse all but classifiers and regressors, and those that would charge a budget."""
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
    """Return the estimator fitted on public rows with made-up targets, or raise.

    An estimator that cannot be fitted would fail in every block, after the charge.
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
    if output == "parameters":
        if not linear:
            raise TypeError(
                "estimator must have coef_ and intercept_ for output='parameters', as linear "
                f"models have; {type(fitted).__name__} has not"
            )
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


# --- numbers of blocks and queries ----------------------------------------------------------------

SCORES = "scores"
SMOOTH = "smooth_median"

COUNT_SHARE = 0.05  # for the number of rows, where it is private and decides the number of blocks

# "auto": the noise as a part of a unanimous vote, or of half a width.
_AIM = {"vote": 0.25, "mean": 0.05, "median": 0.05, SCORES: 0.1, SMOOTH: 0.05}
_LEAST_BLOCKS = 10
_LEAST_ROWS = 20  # of a block
_LEAST_ROWS_OF_SCORES = 10  # of a block: a mean of many rough scores is better than of few good
_LOUD_SCORES = 0.2  # the noise of all directions, as a part of unanimous scores
_MOST_DIRECTIONS = 33
# Votes teach a student if so many queries have at most this noise of a margin.
_ENOUGH_QUERIES, _CLEAR_VOTE = 100, 0.5
_PLANNED_ROWS = 50  # of a block, when queries are chosen
MOST_QUERIES = 1000
MOST_TOGETHER = 8192  # numbers of one release of vectors


@dataclass(frozen=True)
class Noise:
    """The noise of an aggregate of several numbers under one allowance; `n_classes` is of votes."""

    how: str
    n_classes: int
    allowance: Allowance

    @property
    def mu(self) -> float | None:
        """Of Gaussian noise; None of pure one."""
        return self.allowance.mu

    def _pure_epsilon(self, numbers: int) -> float:
        """Return the pure epsilon of each of several releases."""
        return self.allowance.part(Fraction(1, numbers)).pure_epsilon

    def _smooth(self, numbers: int) -> tuple[float, float]:
        """Return beta and kappa of smooth noise; ValueError if epsilon is too small for it."""
        view = Box(np.zeros(numbers), np.ones(numbers))
        noise = planned_noise(SmoothMedian(view), self.allowance)
        return float(noise.beta), float(noise.kappa)

    def _std(self, numbers: int) -> float:
        """Return the standard deviation in blocks: of a margin, or of a sum in half widths.

        Of a median, that of its rank times 2.
        """
        if self.how == "median" or (self.how == "vote" and self.n_classes > 2 and self.mu is None):
            # Choices in a Gaussian session may have twice the rate (quantiles.md).
            epsilon = self._pure_epsilon(numbers) * (1 if self.mu is None else 2)
            # Odds of exp(epsilon / 2) a vote: logistic; exp(-epsilon / 2) a rank on either side.
            spread = 4 * math.sqrt(2) if self.how == "median" else 2 * math.pi / math.sqrt(3)
            return spread / epsilon
        if self.how == "vote":
            bounds, step = vote_bounds(numbers, self.n_classes)
            if self.n_classes == 2:  # the margin itself is released, else two counts
                return self.allowance.std(bounds, numbers) * step
            return self.allowance.std(bounds, numbers * self.n_classes) * math.sqrt(2)
        of_blocks = replace(self.allowance, adjacency="replace_one")  # their number is public
        if self.how == "mean":
            return of_blocks.query_std(Sum(ScaledBox(-np.ones(numbers), np.ones(numbers))))
        # The norm of the noise on scores, as a part of that of unanimous ones.
        return math.sqrt(numbers) * of_blocks.query_std(Mean(Ball(np.zeros(numbers), 1.0)))

    def error(self, numbers: int, blocks: int) -> float:
        """Return the noise as a part of the answer of unanimous blocks.

        For a smooth median the scale over half the width, if blocks are unanimous: the smooth
        sensitivity is then the width times exp(-beta) for each of blocks / 2 changes.
        """
        if self.how != SMOOTH:
            return self._std(numbers) / blocks
        beta, kappa = self._smooth(numbers)
        return 2 * kappa * math.exp(-beta * (blocks // 2))

    def wanted(self, numbers: int) -> int:
        """Return the least number of blocks whose noise is that of `_AIM`."""
        aim = _AIM[self.how]
        if self.how != SMOOTH:
            return math.ceil(self._std(numbers) / aim)
        beta, kappa = self._smooth(numbers)
        return max(1, 2 * math.ceil(math.log(2 * kappa / aim) / beta))


def number_of_queries(
    noise: Noise, n: int, blocks: int | None, queries: int | None, most: int
) -> int:
    """Return the number of queries: as stated, or from n rows; at most `most` public rows.

    n is public or released. It is 0 if it is neither, which needs stated numbers.
    """
    if queries is not None:
        return min(queries, most)
    blocks = n // _PLANNED_ROWS if blocks is None else blocks
    low, high = min(10, most), min(MOST_QUERIES, most)
    while low < high:  # the largest number with little enough noise
        middle = (low + high + 1) // 2
        if noise.wanted(middle) <= blocks:
            low = middle
        else:
            high = middle - 1
    return low


def number_of_blocks(noise: Noise, n: int, stated: int | None, numbers: int) -> int:
    """Return the number of blocks for so many numbers; `n` as in `number_of_queries`."""
    if stated is None:
        rows = _LEAST_ROWS_OF_SCORES if noise.how == SCORES else _LEAST_ROWS
        stated = max(min(noise.wanted(numbers), n // rows), _LEAST_BLOCKS)
    return min(stated, n) if n else stated


@dataclass(frozen=True)
class Plan:
    """Numbers of blocks and queries (or parameters), from public or released numbers.

    Noise is for `numbers`: queries, parameters, or directions of scores.
    """

    noise: Noise
    blocks: int
    queries: int
    numbers: int


def planned(
    how: str,
    n_classes: int,
    allowance: Allowance,
    n: int,
    blocks: int | None,
    queries: int | None,
    n_public: int,
    n_numbers: int | None,
) -> Plan:
    """Return how many blocks and queries an aggregate has; `n` as in `number_of_queries`.

    ``how="auto"`` takes votes if they teach a student enough, else scores. `n_numbers` counts
    parameters; None for predictions.
    """
    if how == AUTO:
        votes = planned("vote", n_classes, allowance, n, blocks, queries, n_public, None)
        enough = min(_ENOUGH_QUERIES if queries is None else queries, n_public)
        clear = votes.noise.error(votes.queries, votes.blocks) <= _CLEAR_VOTE
        if votes.queries >= enough and clear:
            return votes
        how = SCORES
    noise = Noise(how, n_classes, allowance)
    if how == SCORES:
        rows = min(MOST_QUERIES if queries is None else queries, n_public)
        width = 1 if n_classes == 2 else n_classes
        number = min(rows, _MOST_DIRECTIONS, max(MOST_TOGETHER // width, 1))
        blocks = number_of_blocks(noise, n, blocks, number * width)
        # Fewer directions where their noise together would hide unanimous scores.
        while number > 2 and noise.error(number * width, blocks) > _LOUD_SCORES:
            number -= 1
        return Plan(noise, blocks, rows, number)
    if n_numbers is None:
        n_numbers = number_of_queries(noise, n, blocks, queries, n_public)
    return Plan(noise, number_of_blocks(noise, n, blocks, n_numbers), n_numbers, n_numbers)


def check_noise(noise: Noise, queries: int | None, n_public: int, n_numbers: int | None) -> None:
    """Refuse before the charge a smooth median that the session would refuse after it."""
    if noise.how != SMOOTH:
        return
    if n_numbers is None:
        n_numbers = min(MOST_QUERIES if queries is None else queries, n_public)
    try:
        noise.error(n_numbers, 1)
    except ValueError:
        raise ValueError(
            f"epsilon must be larger for a smooth median of {n_numbers} numbers"
        ) from None


# --- scores of classes in a few directions --------------------------------------------------------

# Noise on a block's scores at all public rows would hide what few blocks tell. Their components
# along a few directions that are smooth in the public rows are few numbers with little noise.

_FLAT = 1e-9  # of the largest singular value: no direction


def directions(public: Floats, most: int) -> Floats:
    """Return orthonormal directions over public rows, shape (n_rows, k), the smoothest first.

    The constant, then the principal components of the standardized columns, then those of a
    Gaussian kernel between the rows, whose width is their median distance. At most `most`; fewer
    where the rows have no more.
    """
    n = len(public)
    most = min(most, n)
    with np.errstate(all="ignore"):
        half = np.abs(public).max(axis=0, initial=0.0)
        scaled = public / np.where(half > 0, half, 1.0)  # squares of huge values overflow
        centred = scaled - scaled.mean(axis=0)
        width = np.sqrt(np.mean(np.square(centred), axis=0))
        z = np.where(width > _FLAT, centred / np.where(width > _FLAT, width, 1.0), 0.0)
    vectors, sizes, _ = np.linalg.svd(z, full_matrices=False)
    components = vectors[:, sizes > _FLAT * max(float(sizes.max(initial=0.0)), 1e-300)]
    basis = np.column_stack([np.full((n, 1), n**-0.5), components])
    if basis.shape[1] < most:
        squares = np.square(z).sum(axis=1)
        distances = np.maximum(squares[:, None] + squares - 2.0 * (z @ z.T), 0.0)
        typical = float(np.median(distances))
        if typical > 0:
            values, vectors = np.linalg.eigh(np.exp(-distances / typical))
            order = np.argsort(values)[::-1][: 2 * most]
            order = order[values[order] > _FLAT * values.max()]
            basis = _joined(basis, vectors[:, order])
    return basis[:, :most]


def _joined(basis: Floats, more: Floats) -> Floats:
    """Return an orthonormal basis extended by more columns, without those that it spans."""
    for column in more.T:
        for _ in range(2):  # once leaves rounding
            column = column - basis @ (basis.T @ column)
        size = float(np.linalg.norm(column))
        if size > 1e-3:
            basis = np.column_stack([basis, column / size])
    return basis


def radius(n_classes: int) -> float:
    """Return the largest norm of a block's scores, in all directions together.

    The difference of two classes is in [-1, 1]; more scores have sum 1, less 1/n_classes each.
    """
    return 1.0 if n_classes == 2 else float((1.0 - 1.0 / n_classes) ** 0.5)


def restored(parts: Floats, basis: Floats, n_classes: int) -> Floats:
    """Return scores at the public rows, shape (n_rows, n_classes), from released parts."""
    n, k = basis.shape
    scores = n**0.5 * (basis @ parts.reshape(k, -1))
    if n_classes == 2:
        scores = np.column_stack([0.5 - scores[:, 0] / 2, 0.5 + scores[:, 0] / 2])
    else:
        scores = scores + 1.0 / n_classes
    return np.asarray(np.clip(scores, 0.0, 1.0))
