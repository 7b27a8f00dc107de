"""Private additive models by boosting on binned columns, for labels and numbers.

A fit releases bounds, unless stated; the number of rows of each class, or mean and mean square of
the target; the number of rows in each cell of each column; in each round the noisy gradient of the
loss in all cells; and of two classes how often a score is right, for calibration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base.calibration import Calibration, calibration_share
from skdp.base.callers import reported_steps
from skdp.base.classifiers import (
    COUNT_SHARE,
    Floats,
    LabelledClassifier,
    TargetRegressor,
    class_counts,
    learning_size,
)
from skdp.core import Session
from skdp.parameters import Integers, Table, check_size
from skdp.planning import Allowance, row_count
from skdp.queries import (
    MAX_CELLS,
    AdditiveScores,
    ColumnCells,
    Labelled,
    additive,
    additive_errors,
    additive_gradient,
    row_counts,
    target_moments,
)

_CELLS_SHARE = 0.05
# A bin has at least so many rows, and so many standard errors of a cell's count.
_LEAST_ROWS, _CELL_NOISE = 20.0, 2.0
_ROUNDS, _MOST_ROUNDS, _PURE_ROUNDS = 20, 60, 5
_LEARNING = 0.2  # of the allowance, for bounds: with more, bins have too little

_LENGTH = 4.0  # of all steps together
_SHORTER = 0.7  # factor on the length after a step that turned back
_LARGEST = 1e300

# For labels: bounds on the norm of a row's residuals (two classes, more), the length of a step
# times the number of columns, and the rows that a cell must beat, in the noise of all rounds.
_CLIPS, _STEP, _SHRINKAGE = (0.5, 0.35), 3.0, 8.0

# For numbers: the same, with noise in units of the target's standard deviation.
_TARGET_STEP, _TARGET_SHRINKAGE = 1.5, 12.0
# Of the allowance, for the mean of the target: the least and the most, and rows times epsilon that
# it takes.
_TARGET_SHARE, _TARGET_SIZE = (0.04, 0.6), (200.0, 85.0)  # with learned bounds, with stated ones
# Errors are clipped to so many standard deviations of the target (from, to) that the noise of a
# prediction, if cells were queried once and not shrunk, would be this part of a deviation.
_WIDE, _NOISE = (0.7, 4.0), 0.15
_LEAST = 1e-300
# What is left of a column that seems to be noise alone. (With less, the order of rows is lost where
# many columns tell a little each: breast cancer, epsilon 1, an AUC of .87 for .93.)
_LEAST_PART = 0.25
_NOTHING = Fraction(0)


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
    inner = (np.unique(a * (1 - part) + b * part) for a, b in zip(low, high, strict=True))
    return tuple(cuts[(cuts > a) & (cuts < b)] for cuts, a, b in zip(inner, low, high, strict=True))


def merged(cuts: Floats, counts: Floats, least: float) -> Floats:
    """Merge neighbouring cells until each has `least` rows; return the remaining cuts."""
    remaining, rows = [], 0.0
    for cut, count in zip(cuts, counts[:-1], strict=True):
        rows += max(float(count), 0.0)
        if rows >= least:
            remaining.append(cut)
            rows = 0.0
    if remaining and rows + max(float(counts[-1]), 0.0) < least:
        remaining.pop()
    return np.array(remaining, dtype=np.float64)


def _released_bins(
    session: Session, low: Floats, high: Floats, n_cells: int, n_targets: int = 0
) -> tuple[ColumnCells, Floats]:
    """Release the counts of equal cells; return bins with enough rows, and their counts.

    Rows have labels, or their target in the column after those with cells.
    """
    fine = ColumnCells(even_cuts(low, high, n_cells), n_targets)
    query = row_counts(fine if n_targets else Labelled(fine), "counts of cells")
    counts = session.answer(query, _CELLS_SHARE)
    least = max(_CELL_NOISE * float(np.mean(counts.std)), _LEAST_ROWS)
    cuts, weights = [], []
    for old, column in zip(fine.cuts, np.split(counts.value, fine.starts[1:-1]), strict=True):
        cuts.append(merged(old, column, least))
        places = np.searchsorted(old, cuts[-1]) + 1
        weights += [float(part.sum()) for part in np.split(column, places)]
    return ColumnCells(tuple(cuts), n_targets), np.array(weights)


def _descend(
    session: Session,
    query: Callable[[Floats], Any],
    name: str,
    scores: Floats,
    weights: Floats,
    n_columns: int,
    step: float,
    shrinkage: float,
    unit: float = 1.0,
    spread: float = 1.0,
    kept: Fraction = _NOTHING,
) -> tuple[Floats, Floats, int]:
    """Return the scores of all cells after a noisy descent, their noise, and the rounds it had.

    A cell takes a Newton step: its gradient, in this `unit`, over its weight. `shrinkage` is what a
    weight must beat, in noise over `spread`. `kept` is the share that is left. The noise is the
    variance of what the answers' noise moved a score by, of which later steps take back a part.
    """
    rounds = min(max(_ROUNDS, math.ceil(_LENGTH * n_columns / step)), _MOST_ROUNDS)
    rounds = _PURE_ROUNDS if session.pure else rounds
    rate = min(_LENGTH / rounds, step / n_columns)
    before, usual = np.zeros_like(scores), max(float(weights.mean()), 1.0)
    variance = np.zeros_like(scores)
    for number in reported_steps(rounds):
        # Equal shares: with Gaussian noise, all rounds together are as noisy as one.
        share = (session.remaining - kept) / (rounds - number)
        release = session.answer(query(scores), share, name=f"{name} {number + 1}")
        gradient, std = release.value, float(np.mean(release.std))
        # A step that turns back, by more than noise does, was too long.
        if number and float((gradient * before).sum()) < -3 * std**2 * math.sqrt(scores.size):
            rate *= _SHORTER
        before = gradient
        noise = std / math.sqrt(rounds) * (unit / spread)
        # Where noise is above what cells weigh, it would move scores in every round.
        rows = weights + shrinkage * noise * (1.0 + (noise / usual) ** 2) + 1.0
        scores = np.clip(scores - rate * unit * gradient / rows, -_LARGEST, _LARGEST)
        variance = variance + (rate * unit * std / rows) ** 2
    return scores, variance, rounds


def _shrunk(
    scores: Floats, variance: Floats, weights: Floats, starts: NDArray
) -> tuple[Floats, float]:
    """Shrink the scores of each column by which part of them is noise; return that of all, too.

    A column has few cells, so that what it tells is not known well: it is shrunk to the mean over
    all columns.
    """
    with np.errstate(all="ignore"):
        squares = np.atleast_2d(np.maximum(weights, 0.0) * scores**2)
        noise = np.atleast_2d(np.maximum(weights, 0.0) * variance)
        total, noise = (np.add.reduceat(a.sum(axis=0), starts[:-1]) for a in (squares, noise))
        told = total - noise
        doubt = 2 * noise**2 / (np.diff(starts) * len(squares))
        apart = max(float(told.var() - doubt.mean()), 0.0)
        told = told.mean() + apart / np.maximum(apart + doubt, _LEAST) * (told - told.mean())
        told = np.maximum(told, 0.0)
        part = np.nan_to_num(told / np.maximum(told + noise, _LEAST))
        signal = float(np.nan_to_num(told.sum() / max(told.sum() + noise.sum(), _LEAST)))
    return scores * np.repeat(np.maximum(part, _LEAST_PART), np.diff(starts)), signal


class _Additive:
    """The terms of a fitted additive model."""

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        # Pure noise allows few rounds, however little it is: never if delta allows Gaussian noise.
        return math.nan

    _n_progress_tasks = 1
    _parameter_table: ClassVar[Table] = {"n_bins": Integers(2, 1024)}

    @property
    def feature_importances_(self) -> Floats:
        """Mean size of what each column adds to a prediction, as a part of the sum of all columns.

        Computed from `term_scores_` and `bin_weights_`: 0 if no column adds anything. Noise gives
        columns without an effect a small importance.
        """
        check_is_fitted(self)
        sizes = np.array(
            [
                np.abs(term).reshape(len(rows), -1).mean(axis=1) @ (rows / max(rows.sum(), 1.0))
                for term, rows in zip(self.term_scores_, self.bin_weights_, strict=True)
            ]
        )
        return sizes / max(float(sizes.sum()), 1e-300)

    def _set_terms(self, scores: Floats, cells: ColumnCells, weights: Floats) -> Floats:
        """Set the fitted terms, less their means over rows; return the sum of these means."""
        split = cells.starts[1:-1]
        self._cells = cells
        self.bin_cuts_ = list(cells.cuts)
        self.bin_weights_ = np.split(np.maximum(weights, 0.0), split)
        terms = np.split(scores, split, axis=1)
        means = [
            term @ rows / max(float(rows.sum()), 1.0)
            for term, rows in zip(terms, self.bin_weights_, strict=True)
        ]
        terms = [term - mean[:, None] for term, mean in zip(terms, means, strict=True)]
        self._scores_of_cells = np.concatenate(terms, axis=1)
        self.term_scores_ = [np.array(term[0] if len(term) == 1 else term.T) for term in terms]
        self.term_scores_std_error_ = [np.full(term.shape, math.nan) for term in self.term_scores_]
        return np.asarray(np.sum(means, axis=0))


class DPExplainableBoostingClassifier(_Additive, LabelledClassifier):
    """A boosted additive model of binned columns: each column has a curve of its own.

    The private counterpart of ``ExplainableBoostingClassifier`` of ``interpret``, without pairs of
    columns. In scikit-learn it is closest to ``HistGradientBoostingClassifier(max_leaf_nodes=2)``.
    The whole model can be read: `term_scores_` holds what each bin of each column adds to a score,
    with which the probability rises. ``set_callbacks(ProgressBar())`` of scikit-learn 1.9 shows how
    many rounds are done.

    Parameters
    ----------
    n_bins : int, default=64
        Number of cells of equal width between the bounds of each column, in [2, 1024]. Neighbouring
        cells with few rows are merged. For a column of category codes 0 to k - 1 with bounds (0,
        k - 1), each code has a cell of its own if k is at most `n_bins`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
    bin_cuts_ : list of ndarray
        For each column, the cuts between its bins, in the units of X. A value equal to a cut is in
        the bin above it.
    bin_weights_ : list of ndarray of shape (n_bins,)
        For each column, the noisy number of rows in each bin, at least 0.
    term_scores_ : list of ndarray of shape (n_bins,) or (n_bins, n_classes)
        For each column, what its bins add to the score of the second class with two classes, or to
        the logit of each class with more. Their mean over rows is 0. The scores of a column are
        shrunk by which part of them noise explains.
    term_scores_std_error_ : list of ndarray, as `term_scores_`
        Always NaN: boosting stops early, so no exact solution exists to measure an error from.
    feature_importances_ : ndarray of shape (n_features,)
        Mean size of a column's `term_scores_` over the rows of `bin_weights_` (and over classes),
        as a part of the sum of all columns. Noise alone gives a column a small importance.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The logits of a row whose terms are 0; of two classes before their calibration.
    n_iter_ : int
        Number of rounds.
    bounds_ : tuple of two ndarrays of shape (n_features,)

    Raises
    ------
    TypeError, ValueError
        ... Also if `classes` is private and delta is 0, if a label is missing, or if the columns
        have more than 2**20 cells together.

    See Also
    --------
    skdp.linear_model.DPLogisticRegression : Better for linear logits, or few rows.
    DPTrainOnRelease : Trains any model, also one that uses pairs of columns.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (2% of the allowance; of few rows more) and of
    each cell (5%); then, in each round, the sum of the residuals of the rows of each cell; last, of
    two classes, counts of rows by their lead, for calibration (2 to 10%; of sensitivity 1, and 2 in
    L1 for replaced rows). A residual is the predicted probabilities minus the indicator of the
    label, clipped to the norm c. All attributes, `feature_importances_` too, are computed from
    these numbers. *Sensitivity* for d columns, if a row is added or removed: of the counts, d in L1
    and sqrt(d) in L2; of the residuals, c d (times the square root of the number of logits) in L1
    and c sqrt(d) in L2. If a row is replaced: of the counts, 2 d in L1 and sqrt(2 d) in L2; of the
    residuals, twice the above. *Mechanism*: rounded Gaussian noise if delta is above 0, otherwise
    discrete Laplace noise, with equal shares for all rounds.

    **Boosting.** All columns are boosted at once, and each cell takes a Newton step, shrunk if its
    rows are few compared with the noise. With Gaussian noise, all rounds together are as noisy as a
    single answer with the whole allowance. So further rounds do not add noise, and with them,
    correlated columns share an effect.

    References
    ----------
    Nori, Caruana, Bu, Shen & Kulkarni 2021, "Accuracy, interpretability, and differential privacy
    via explainable boosting", ICML (one column after the other, with trees of random splits).

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

    n_bins: int = field(default=64, kw_only=False)

    def _public(self, n_features: int) -> Any:
        check_cells(n_features, int(self.n_bins))
        return super()._public(n_features)

    def _check_size(self, n_features: int, n_classes: int) -> None:
        check_size("classes and n_bins", n_classes * n_features * int(self.n_bins))

    def _fit(self, session: Session, public: Any, n_classes: int) -> None:
        self._bounds(session, public, _LEARNING)
        counts, spread = class_counts(session, n_classes)
        logs = np.log(counts + spread)  # a ratio that noise hides is shrunk to 1
        logs -= logs.mean()
        two = n_classes == 2
        offset = logs[1:] - logs[:1] if two else logs
        cells, weights = _released_bins(session, *self.bounds_, int(self.n_bins))
        chances = counts / counts.sum()
        chances = chances[1:] if two else chances
        # The second derivative of the loss at the start stands for that in all rounds.
        rows = np.maximum(weights, 0.0) * (chances * (1 - chances))[:, None]
        n = float(counts.sum())
        scores, variance, self.n_iter_ = _descend(
            session,
            lambda scores: additive_gradient(cells, scores, offset, _CLIPS[not two]),
            "gradient",
            np.zeros((len(offset), weights.size)),
            rows,
            len(cells.cuts),
            _STEP,
            _SHRINKAGE,
            kept=calibration_share(session, n, n_classes) if two else _NOTHING,
        )
        scores, signal = _shrunk(scores, variance, rows, cells.starts)
        self.class_count_ = counts
        self.intercept_ = offset + self._set_terms(scores, cells, weights)
        self._calibration: Calibration | None = None
        if two:
            terms = self._scores_of_cells
            typical = math.sqrt(float(terms[0] ** 2 @ np.maximum(weights, 0.0)) / n)
            both = AdditiveScores(cells, np.concatenate([np.zeros_like(terms), terms]))
            self._calibration = Calibration.fitted(session, both, typical, signal, counts, spread)

    def _logits_of(self, rows: Floats) -> Floats:
        if self._calibration is not None:
            return self._calibration.of_rows(rows)
        return self.intercept_ + additive(self._scores_of_cells, self._cells.codes(rows))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the logits of the caller's rows."""
        logits = self._scores(X)
        return logits[:, 0] if logits.shape[1] == 1 else logits


class DPExplainableBoostingRegressor(_Additive, TargetRegressor):
    """A boosted additive regression on binned columns: each column has a curve of its own.

    `DPExplainableBoostingClassifier` for a number. In scikit-learn it is closest to
    ``HistGradientBoostingRegressor(max_leaf_nodes=2)``. The whole model can be read:
    `term_scores_` holds what each bin of each column adds to a prediction.

    Parameters
    ----------
    n_bins : int, default=64
        As in `DPExplainableBoostingClassifier`.
    target_bounds : "private" or tuple (low, high), default="private"
        Range of the target, to which it is clipped. If either this or `bounds` is not stated, the
        cost of learning is that of all columns and the target.

    Attributes
    ----------
    n_samples_ : float
        Number of rows; noisy where it is private.
    bin_cuts_, bin_weights_ : list of ndarray
        Cuts between the bins of each column, and noisy numbers of rows in them, as in
        `DPExplainableBoostingClassifier`.
    term_scores_ : list of ndarray of shape (n_bins,)
        For each column, what its bins add to the prediction, in the unit of y. Their mean over rows
        is 0.
    term_scores_std_error_ : list of ndarray of shape (n_bins,)
        Always NaN: boosting stops early, so no exact solution exists to measure an error from.
    feature_importances_ : ndarray of shape (n_features,)
        As in `DPExplainableBoostingClassifier`.
    intercept_ : float
        The noisy mean of the target.
    largest_error_ : float
        The value to which the error of a row was clipped in each round, in the unit of y; NaN if
        there was none.
    n_iter_ : int
        Number of rounds; 0 where rows are few.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    target_bounds_ : tuple of two floats
        The bounds of the target. Predictions are within them.

    Raises
    ------
    TypeError, ValueError
        ... Also if y is not one finite number for each row, or if the columns have more than 2**20
        cells together.

    See Also
    --------
    skdp.linear_model.DPRidge : Better for a linear target, or few rows.
    DPExplainableBoostingClassifier : For labels.

    Notes
    -----
    **Privacy.** A row and its target are protected together. *Released*: bounds, if not stated;
    the number of rows where it is private; the mean and mean square of the target (4%, or up to 60%
    where rows are few); the number of rows of each cell (5%); then, in each round, the sum of the
    errors (prediction minus target, clipped to `largest_error_`) of the rows of each cell.
    *Sensitivity* for d columns, if a row is added or removed: of the counts, d in L1 and sqrt(d) in
    L2; of the errors, the same in
    units of `largest_error_`. If a row is replaced: of the counts, 2 d in L1 and sqrt(2 d) in L2;
    of the errors, twice the above. *Mechanism* and *Charged*: as in
    `DPExplainableBoostingClassifier`.

    **Few rows.** Where rows times epsilon are below 650 with learned bounds of the target, or below
    200 with stated ones, all predictions are one released point, about the median of the target,
    and a warning says so. There noise is pure, also with a delta, if the number of rows is public;
    Gaussian noise takes more rows. A warning also says where noise hides how far targets differ.

    **Clipped errors.** `largest_error_` follows from the expected noise and the spread of the
    target: the more noise, the smaller it is. So a target with a heavy tail is fitted nearer to its
    median; `intercept_` corrects the mean. For a steep linear function of a column over a wide
    range, use `skdp.linear_model.DPRidge`.

    References
    ----------
    As for `DPExplainableBoostingClassifier`.

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

    _few_rows = 650.0, 200.0  # bins take more than coefficients

    n_bins: int = field(default=64, kw_only=False)

    def _stated_bounds(self, n_features: int, names: Sequence[Any] | None = None) -> Any:
        check_cells(n_features, int(self.n_bins))
        return super()._stated_bounds(n_features, names)

    def _fit(self, session: Session, columns: Any, target: Any, width: int) -> None:
        d = width - 1
        rows = row_count(session, COUNT_SHARE)
        if self._times_short(session, target, rows) > 1.0:
            points, _, low, high = self._points(session, columns, target, width, rows)
            cells = ColumnCells(even_cuts(low[:d], high[:d], 1), 1)
            self._set_terms(np.zeros((1, d)), cells, np.zeros(d))
            self.intercept_, self.n_iter_, self.largest_error_ = float(points[0]), 0, math.nan
            self.n_samples_ = rows
            self.bounds_ = low[:d].copy(), high[:d].copy()
            self.target_bounds_ = float(low[d]), float(high[d])
            return
        low, high, _, _ = self._boxed(session, columns, target, width, n=rows)
        sides = float(low[d]), float(high[d])
        center, spread, n, error, seen = _target(session, *sides, rows, target is not None)
        self._warn_of_noisy_mean(np.array([error]), np.array([seen]), *sides)
        cells, weights = _released_bins(session, low[:d], high[:d], int(self.n_bins), n_targets=1)
        wide = min(max(_NOISE / _noise(session, cells, weights, n), _WIDE[0]), _WIDE[1])
        reach = max(sides[1] - center, center - sides[0], _LEAST)
        largest = min(wide * spread, reach)
        scores, _, self.n_iter_ = _descend(
            session,
            lambda scores: additive_errors(cells, scores, center, *sides, largest),
            "errors",
            np.zeros(weights.size),
            np.maximum(weights, 0.0),
            d,
            _TARGET_STEP,
            _TARGET_SHRINKAGE,
            largest,
            spread,
        )
        self._set_terms(scores[None, :], cells, weights)
        self.intercept_ = center
        self.n_samples_, self.largest_error_ = n, largest
        self.bounds_, self.target_bounds_ = (low[:d].copy(), high[:d].copy()), sides

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the target of the caller's rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Within `target_bounds_`.
        """
        values = self._public_array(X)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self.intercept_ + additive(self._scores_of_cells, self._cells.codes(values))
        return np.clip(np.nan_to_num(sums[:, 0]), *self.target_bounds_)


def _target(
    session: Session, low: float, high: float, rows: float, stated: bool
) -> tuple[float, float, float, float, float]:
    """Release mean and standard deviation of the target, in user units, and the number of rows.

    A variance counts as at least twice its noise. The last numbers are the standard error of the
    mean, and the deviation; 0, if noise hides it.
    """
    part = _TARGET_SIZE[stated] / learning_size(session, rows)
    share = min(max(part, _TARGET_SHARE[0]), _TARGET_SHARE[1])
    mean, square, n = session.answer(target_moments(low, high), share * float(session.remaining))
    center, half = float(mean.value[0]), high / 2 - low / 2
    least = max(2 * float(np.mean(square.std)), 2.0**-40)
    variance = float(square.value[0]) - center**2
    spread = math.sqrt(min(max(variance, least), 1.0))
    error, seen = float(np.mean(mean.std)), math.sqrt(variance) if variance > least else 0.0
    middle = low / 2 + high / 2 + center * half
    return middle, max(spread * half, _LEAST), float(n.value), error * half, seen * half


def _noise(session: Session, cells: ColumnCells, weights: Floats, n: float) -> float:
    """Return the noise of a prediction if cells were queried once, with errors clipped to 1."""
    errors = additive_errors(cells, np.zeros(weights.size), 0.0, -1.0, 1.0, 1.0)
    std = Allowance.left(session, 1.0).query_std(errors)
    return max(std * math.sqrt(float(np.sum(1.0 / np.maximum(weights, 1.0))) / n), _LEAST)
