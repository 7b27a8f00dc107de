"""A private additive model by boosting on cells of columns: `DPExplainableBoostingClassifier`.

Released, under the (epsilon, delta) of one fit: bounds, unless stated; the number of rows of each
class and of each cell of each column; and the noisy gradient of the loss in all cells a round.
Scores, intercept and predictions are computed from these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skdp.base.callers import reported_steps
from skdp.base.classifiers import Floats, LabelledClassifier, TargetRegressor, class_counts
from skdp.budget import PrivacyBudget
from skdp.core import Session
from skdp.parameters import Integers, Table, check_size
from skdp.planning import Allowance
from skdp.queries import (
    MAX_CELLS,
    ColumnCells,
    Labelled,
    additive,
    additive_errors,
    additive_gradient,
    row_counts,
    target_moments,
)

_CELLS_SHARE = 0.05
_CELL_NOISE, _LEAST_ROWS = 2.0, 20.0  # rows of a bin at least: in standard errors of one; and ever
_CLIPS = (0.5, 0.35)  # on the norm of a row's residuals, for two classes and for more
_ROUNDS, _MOST_ROUNDS, _PURE_ROUNDS = 20, 60, 5
_LENGTH, _LENGTH_OF_COLUMNS = 4.0, 3.0  # of all steps; of one, over the number of columns
_SHRINKAGE = 8.0  # rows of residual that a cell must beat, in the noise of all rounds together
_SHORTER = 0.7
_LARGEST = 1e300


def check_cells(n_features: int, n_bins: int) -> None:
    """Raise where columns have too many cells together."""
    if n_features * n_bins > MAX_CELLS:
        raise ValueError(
            f"n_bins times the number of columns must be at most {MAX_CELLS}, got "
            f"{n_bins} * {n_features}"
        )


def even_cuts(low: Floats, high: Floats, n_cells: int) -> tuple[Floats, ...]:
    """Return the cuts of columns into equal cells; none where a column's bounds are equal."""
    part = np.arange(1, n_cells) / n_cells
    made = (np.unique(a * (1 - part) + b * part) for a, b in zip(low, high, strict=True))
    return tuple(cuts[(cuts > a) & (cuts < b)] for cuts, a, b in zip(made, low, high, strict=True))


def merged(cuts: Floats, counts: Floats, least: float) -> Floats:
    """Return the cuts that are left when neighbouring cells have at least so many rows together."""
    kept, rows = [], 0.0
    for cut, count in zip(cuts, counts[:-1], strict=True):
        rows += max(float(count), 0.0)
        if rows >= least:
            kept.append(cut)
            rows = 0.0
    if kept and rows + max(float(counts[-1]), 0.0) < least:
        kept.pop()
    return np.array(kept, dtype=np.float64)


class DPExplainableBoostingClassifier(LabelledClassifier):
    """A boosted additive model of binned columns: each column has a curve of its own.

    The private counterpart of ``ExplainableBoostingClassifier`` of ``interpret``, without pairs of
    columns. In scikit-learn it is closest to ``HistGradientBoostingClassifier(max_leaf_nodes=2)``.
    It finds thresholds and curves that linear models miss. The whole model can be read:
    `term_scores_` holds what each bin of each column adds to the logits.

    With scikit-learn 1.9 or later ``set_callbacks(ProgressBar())`` shows how many steps are done.

    Parameters
    ----------
    n_bins : int, default=64
        Number of cells of equal width between the bounds of each column, in [2, 1024]. Neighbouring
        cells with few rows are merged. For a column of category codes 0 to k - 1 with bounds (0,
        k - 1), each code has a cell of its own if k is at most `n_bins`.
    classes : "private" or array-like of shape (n_classes,), default="private"
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them are in the first or the last bin.
        ``"private"`` learns them, for at most a fifth of the allowance.
    epsilon : float, default=1.0
    delta : float, default=0.0
        In [0, 1). Zero: pure epsilon-DP by Laplace noise, in few rounds. Above: Gaussian noise,
        which is much smaller here.
    max_rows_per_unit : int or "private", default="private"
    budget : PrivacyBudget or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        Noisy number of rows of each class, at least 1.
    bin_cuts_ : list of ndarray
        For each column, the cuts between its bins, in the units of X. A value equal to a cut is in
        the bin above it. A column with a single bin has no cuts.
    bin_weights_ : list of ndarray of shape (n_bins,)
        For each column, the noisy number of rows in each bin, at least 0.
    term_scores_ : list of ndarray of shape (n_bins,) or (n_bins, n_classes)
        For each column, what its bins add to the logits: to the logit of the second class with two
        classes, to that of each class with more. Their mean over rows is 0.
    term_scores_std_error_ : list of ndarray, as `term_scores_`
        Always NaN: boosting stops early, so there is no exact solution that an error could be
        measured from.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    n_iter_ : int
        Number of rounds.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
    max_rows_per_unit_ : int
    privacy_ : skdp.core.PrivacyCertificate

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if `classes` is
        private and delta is 0, if X is not a dense table of finite numbers, if a label is missing,
        or if the columns have more than 2**20 cells together.
    BudgetExceededError, SealedBudgetError, LedgerError

    See Also
    --------
    skdp.linear_model.DPLogisticRegression : Better for linear logits, or few rows.
    DPTrainOnRelease : Trains any model, also one that uses pairs of columns.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (2% of the allowance, or 12% where rows are few) and of
    each cell (5%); then, in each round, the sum of the residuals of the rows of each cell. A
    residual is the predicted probabilities minus the indicator of the label, clipped to the norm c.
    *Sensitivity* for d columns, if a row is added or removed: of the counts, d in L1 and sqrt(d) in
    L2; of the residuals, c d (times the square root of the number of logits) in L1 and c sqrt(d) in
    L2. If a row is replaced: of the counts, 2 d in L1 and sqrt(2 d) in L2; of the residuals, twice
    the above. *Mechanism*: discrete Laplace (``delta=0``) or rounded Gaussian noise, with equal
    shares for all rounds. *Charged*: (epsilon, delta), once, before any noise, to ``budget``.

    **Boosting.** All columns are boosted at once. Each cell takes a Newton step, based on the
    released counts, so a fit reads its rows once in each round. The step of a cell is shrunk if its
    rows are few compared with the noise. With Gaussian noise, the answers of all rounds together
    are as noisy as a single answer with the whole allowance. So further rounds do not add noise,
    and with them, correlated columns share an effect.

    References
    ----------
    Nori, Caruana, Bu, Shen & Kulkarni 2021, "Accuracy, interpretability, and differential privacy
    via explainable boosting", ICML (boosts one column after the other, with trees of random splits;
    here all columns and all cells at once).

    Dong, Roth & Su 2022, "Gaussian differential privacy", Corollary 2 (rounds compose).

    ``skdp/core/PROOFS.md``, "Sums" (the sensitivities, in integers).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.ensemble import DPExplainableBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = np.abs(X[:, 0]) > 0.5
    >>> model = DPExplainableBoostingClassifier(
    ...     classes=[False, True], bounds=(-1, 1), delta=1e-6
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _n_progress_tasks = 1

    _parameter_table: ClassVar[Table] = {"n_bins": Integers(2, 1024)}

    def __init__(
        self,
        n_bins: int = 64,
        *,
        classes: Any = "private",
        bounds: Any = "private",
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_bins = n_bins
        self.classes = classes
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def _public(self, n_features: int) -> Any:
        check_cells(n_features, int(self.n_bins))
        return super()._public(n_features)

    def _check_size(self, n_features: int, n_classes: int) -> None:
        check_size("classes and n_bins", n_classes * n_features * int(self.n_bins))

    def _fit(self, session: Session, public: Any, n_classes: int) -> None:
        self._bounds(session, public)
        counts, spread = class_counts(session, n_classes)
        logs = np.log(counts + spread)  # a ratio that noise hides is shrunk to 1
        logs -= logs.mean()
        two = n_classes == 2
        offset = logs[1:] - logs[:1] if two else logs
        self.class_count_ = counts
        cells, weights = released_bins(session, *self.bounds_, int(self.n_bins))
        scores, self.n_iter_ = _boosted(session, cells, weights, offset, counts / counts.sum())
        self._cells, self._weights = cells, weights
        self._set_terms(scores, offset)

    def _set_terms(self, scores: Floats, offset: Floats) -> None:
        """Set the fitted terms, of mean 0 over rows, and the intercept that takes their means."""
        split = self._cells.starts[1:-1]
        self.bin_cuts_ = list(self._cells.cuts)
        self.bin_weights_ = np.split(np.maximum(self._weights, 0.0), split)
        terms, means = centred_terms(scores, self._cells, self.bin_weights_)
        self.intercept_ = offset + means
        self._scores_of_cells = np.concatenate(terms, axis=1)
        shown = [term[0] if len(term) == 1 else term.T for term in terms]
        self.term_scores_ = [np.array(term) for term in shown]
        self.term_scores_std_error_ = [np.full(term.shape, math.nan) for term in shown]

    def _logits(self, X: Any) -> Floats:
        values = self._public_array(X)
        return self.intercept_ + additive(self._scores_of_cells, self._cells.codes(values))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the logits of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes those of the second one.
        """
        logits = self._scores(X)
        return logits[:, 0] if logits.shape[1] == 1 else logits


def centred_terms(
    scores: Floats, cells: ColumnCells, weights: list[Floats]
) -> tuple[list[Floats], Floats]:
    """Return the scores of each column less their mean over rows, and the sum of these means."""
    terms = np.split(scores, cells.starts[1:-1], axis=1)
    means = [
        term @ one / max(float(one.sum()), 1.0) for term, one in zip(terms, weights, strict=True)
    ]
    terms = [term - mean[:, None] for term, mean in zip(terms, means, strict=True)]
    return terms, np.sum(means, axis=0)


def released_bins(
    session: Session, low: Floats, high: Floats, n_cells: int, *, n_targets: int = 0
) -> tuple[ColumnCells, Floats]:
    """Release the counts of equal cells; return bins with enough rows, and their counts.

    Rows have labels, or their target in the column after those with cells.
    """
    fine = ColumnCells(even_cuts(low, high, n_cells), n_targets)
    counted_cells = fine if n_targets else Labelled(fine)
    counted = session.answer(row_counts(counted_cells, "counts of cells"), _CELLS_SHARE)
    least = max(_CELL_NOISE * float(np.mean(counted.std)), _LEAST_ROWS)
    columns = np.split(counted.value, fine.starts[1:-1])
    cuts = tuple(merged(*one, least) for one in zip(fine.cuts, columns, strict=True))
    kept = [np.searchsorted(old, new) + 1 for old, new in zip(fine.cuts, cuts, strict=True)]
    weights = [
        [float(part.sum()) for part in np.split(column, places)]
        for column, places in zip(columns, kept, strict=True)
    ]
    return ColumnCells(cuts, n_targets), np.concatenate(weights)


def _boosted(
    session: Session, cells: ColumnCells, weights: Floats, offset: Floats, parts: Floats
) -> tuple[Floats, int]:
    """Return the scores of all cells after a noisy descent, and the number of its steps.

    A step that turns back, by more than noise does, was too long: those after it are shorter.
    """
    d, n_logits = len(cells.cuts), len(offset)
    rounds = min(max(_ROUNDS, math.ceil(_LENGTH * d / _LENGTH_OF_COLUMNS)), _MOST_ROUNDS)
    rounds = _PURE_ROUNDS if session.pure else rounds
    rate = min(_LENGTH / rounds, _LENGTH_OF_COLUMNS / d)
    chances = parts[1:] if n_logits == 1 else parts
    curvature = (chances * (1 - chances))[:, None]
    clip = _CLIPS[n_logits > 1]
    scores, before = (np.zeros((n_logits, weights.size)) for _ in range(2))
    for step in reported_steps(rounds):
        share = session.remaining / (rounds - step)
        query = additive_gradient(cells, scores, offset, clip)
        release = session.answer(query, share, name=f"gradient {step + 1}")
        gradient, std = release.value, float(np.mean(release.std))
        if step and float((gradient * before).sum()) < -3 * std**2 * math.sqrt(scores.size):
            rate *= _SHORTER
        before = gradient
        rows = np.maximum(weights, 0.0) * curvature + _SHRINKAGE * std / math.sqrt(rounds) + 1.0
        scores = np.clip(scores - rate * gradient / rows, -_LARGEST, _LARGEST)
    return scores, rounds


# --- the regressor --------------------------------------------------------------------------------

# A private additive model of a number: `DPExplainableBoostingRegressor`.
#
# Released, under the (epsilon, delta) of one fit: bounds, unless stated; mean and mean square of
# the target, and the number of rows where it is private; the number of rows in each cell of each
# column; and the noisy sum of errors in all cells a round. Everything else is computed from these.

_TARGET_SHARE = 0.04
# Errors are clipped to so many standard deviations of the target: as many as leave predictions this
# noise, in such deviations, were they asked once and not shrunk.
_WIDE, _NOISE = (0.7, 4.0), 0.15
_LENGTH_OF_TARGET = 1.5  # of a step, over the number of columns
_TARGET_SHRINKAGE = (
    12.0  # rows that a cell must beat, in noise of all rounds over the target's deviation
)
_LEAST = 1e-300


class DPExplainableBoostingRegressor(TargetRegressor):
    """A boosted additive regression on binned columns: each column has a curve of its own.

    The private counterpart of ``ExplainableBoostingRegressor`` of ``interpret``, without pairs of
    columns. In scikit-learn it is closest to ``HistGradientBoostingRegressor(max_leaf_nodes=2)``.
    It finds thresholds and curves that linear models miss. The whole model can be read:
    `term_scores_` holds what each bin of each column adds to a prediction.

    Parameters
    ----------
    n_bins : int, default=64
        Number of cells of equal width between the bounds of each column, in [2, 1024]. Neighbouring
        cells with few rows are merged. For a column of category codes 0 to k - 1 with bounds (0,
        k - 1), each code has a cell of its own if k is at most `n_bins`.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them are in the first or the last bin.
        ``"private"`` learns them, for at most a fifth of the allowance.
    target_bounds : "private" or tuple (low, high), default="private"
        Range of the target, stated in the same way; the target is clipped to it. If either this or
        `bounds` is not stated, the cost of learning is that of all columns and the target.
    epsilon : float, default=1.0
    delta : float, default=0.0
        In [0, 1). Zero: pure epsilon-DP by Laplace noise, in few rounds. Above: Gaussian noise,
        which is much smaller here.
    max_rows_per_unit : int or "private", default="private"
    budget : PrivacyBudget or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    n_samples_ : float
        Number of rows; noisy where it is private.
    bin_cuts_ : list of ndarray
        For each column, the cuts between its bins, in the units of X. A value equal to a cut is in
        the bin above it. A column with a single bin has no cuts.
    bin_weights_ : list of ndarray of shape (n_bins,)
        For each column, the noisy number of rows in each bin, at least 0.
    term_scores_ : list of ndarray of shape (n_bins,)
        For each column, what its bins add to the prediction, in the unit of y. Their mean over rows
        is 0.
    term_scores_std_error_ : list of ndarray of shape (n_bins,)
        Always NaN: boosting clips and stops early, so there is no exact solution that an error
        could be measured from.
    intercept_ : float
        The noisy mean of the target.
    largest_error_ : float
        The value to which the error of a row was clipped in each round, in the unit of y.
    n_iter_ : int
        Number of rounds.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    target_bounds_ : tuple of two floats
        The bounds of the target. Predictions are within them.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
    max_rows_per_unit_ : int
    privacy_ : skdp.core.PrivacyCertificate

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if X is not a dense
        table of finite numbers, if y is not one finite number for each row, or if the columns have
        more than 2**20 cells together.
    BudgetExceededError, SealedBudgetError, LedgerError

    See Also
    --------
    skdp.linear_model.DPRidge : Better for a linear target, or few rows.
    DPExplainableBoostingClassifier : For labels.

    Notes
    -----
    **Privacy.** A row and its target are protected together. *Released*: bounds, if not stated;
    the mean and mean square of the target (4%), with the number of rows where it is private; the
    number of rows of each cell (5%); then, in each round, the sum of the errors (prediction minus
    target, clipped to `largest_error_`) of the rows of each cell. *Sensitivity* for d columns, if a
    row is added or removed: of the counts, d in L1 and sqrt(d) in L2; of the errors, the same in
    units of `largest_error_`. If a row is replaced: of the counts, 2 d in L1 and sqrt(2 d) in L2;
    of the errors, twice the above. *Mechanism*: discrete Laplace (``delta=0``) or rounded Gaussian
    noise, with equal shares for all rounds. *Charged*: (epsilon, delta), once, before any noise, to
    ``budget``.

    **Clipped errors.** `largest_error_` is chosen from the expected noise and from the spread of
    the target: the more noise, the smaller it is. Larger errors count as `largest_error_`, so a
    target with a heavy tail is fitted nearer to its median; `intercept_` corrects the mean. If the
    target is a steep linear function of a column over a wide range, use
    `skdp.linear_model.DPRidge`.

    References
    ----------
    Nori, Caruana, Bu, Shen & Kulkarni 2021, "Accuracy, interpretability, and differential privacy
    via explainable boosting", ICML (one column after the other, trees of random splits; here all
    columns and all cells at once, and clipped errors).

    Dong, Roth & Su 2022, "Gaussian differential privacy", Corollary 2 (rounds compose).

    ``skdp/core/PROOFS.md``, "Sums" (the sensitivities, in integers).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.ensemble import DPExplainableBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = np.abs(X[:, 0]) + rng.normal(scale=0.1, size=20_000)
    >>> model = DPExplainableBoostingRegressor(
    ...     bounds=(-1, 1), target_bounds=(-1, 2), delta=1e-6
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    """

    _n_progress_tasks = 1

    _parameter_table: ClassVar[Table] = {"n_bins": Integers(2, 1024)}

    def __init__(
        self,
        n_bins: int = 64,
        *,
        bounds: Any = "private",
        target_bounds: Any = "private",
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_bins = n_bins
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def _stated_bounds(self, n_features: int, names: Sequence[Any] | None = None) -> Any:
        check_cells(n_features, int(self.n_bins))
        return super()._stated_bounds(n_features, names)

    def _fit(self, session: Session, columns: Any, target: Any, width: int) -> None:
        d = width - 1
        low, high, _, _ = self._boxed(session, columns, target, width)
        sides = float(low[d]), float(high[d])
        center, spread, n = _target(session, *sides)
        cells, weights = released_bins(session, low[:d], high[:d], int(self.n_bins), n_targets=1)
        wide = min(max(_NOISE / _noise(session, weights, d, n), _WIDE[0]), _WIDE[1])
        reach = max(sides[1] - center, center - sides[0], _LEAST)
        largest = min(wide * spread, reach)
        scores, self.n_iter_ = _boosted_target(
            session, cells, weights, center, sides, largest, spread
        )
        self._cells = cells
        self.bin_cuts_ = list(cells.cuts)
        self.bin_weights_ = np.split(np.maximum(weights, 0.0), cells.starts[1:-1])
        terms, _ = centred_terms(scores, cells, self.bin_weights_)
        self._scores_of_cells = np.concatenate(terms, axis=1)
        self.intercept_ = center
        self.term_scores_ = [np.array(term[0]) for term in terms]
        self.term_scores_std_error_ = [np.full(one.shape, math.nan) for one in self.term_scores_]
        self.n_samples_, self.largest_error_ = n, largest
        self.bounds_, self.target_bounds_ = (low[:d].copy(), high[:d].copy()), sides

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the target of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Within `target_bounds_`.
        """
        values = self._public_array(X)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.intercept_ + additive(self._scores_of_cells, self._cells.codes(values))
        return np.clip(np.nan_to_num(found[:, 0]), *self.target_bounds_)


def _target(session: Session, low: float, high: float) -> tuple[float, float, float]:
    """Release mean and standard deviation of the target, in user units, and the number of rows.

    A variance counts as at least twice its noise.
    """
    mean, square, n = session.answer(target_moments(low, high), _TARGET_SHARE)
    center, half = float(mean.value[0]), high / 2 - low / 2
    least = max(2 * float(np.mean(square.std)), 2.0**-40)
    spread = math.sqrt(min(max(float(square.value[0]) - center**2, least), 1.0))
    return low / 2 + high / 2 + center * half, max(spread * half, _LEAST), float(n.value)


def _noise(session: Session, weights: Floats, d: int, n: float) -> float:
    """Return the noise of a prediction whose cells were asked once, with errors clipped to 1."""
    std = Allowance.left(session, 1.0).sum_std(math.sqrt(d), d)
    return max(std * math.sqrt(float(np.sum(1.0 / np.maximum(weights, 1.0))) / n), _LEAST)


def _boosted_target(
    session: Session,
    cells: ColumnCells,
    weights: Floats,
    offset: float,
    sides: tuple[float, float],
    largest: float,
    spread: float,
) -> tuple[Floats, int]:
    """Return the scores of all cells after a noisy descent, (1, cells), and its number of steps.

    A step that turns back, by more than noise does, was too long: those after it are shorter.
    """
    d = len(cells.cuts)
    rounds = min(max(_ROUNDS, math.ceil(_LENGTH * d / _LENGTH_OF_TARGET)), _MOST_ROUNDS)
    rounds = _PURE_ROUNDS if session.pure else rounds
    rate = min(_LENGTH / rounds, _LENGTH_OF_TARGET / d)
    scores, before = np.zeros(weights.size), np.zeros(weights.size)
    for step in reported_steps(rounds):
        share = session.remaining / (rounds - step)
        query = additive_errors(cells, scores, offset, *sides, largest)
        release = session.answer(query, share, name=f"errors {step + 1}")
        errors, std = release.value, float(np.mean(release.std))
        if step and float((errors * before).sum()) < -3 * std**2 * math.sqrt(scores.size):
            rate *= _SHORTER
        before = errors
        beaten = _TARGET_SHRINKAGE * std / math.sqrt(rounds) * (largest / spread)
        rows = np.maximum(weights, 0.0) + beaten + 1.0
        scores = np.clip(scores - rate * largest * errors / rows, -_LARGEST, _LARGEST)
    return scores[None, :], rounds
