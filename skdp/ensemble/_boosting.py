"""A private additive model by boosting on cells of columns: `DPExplainableBoostingClassifier`.

Released, under the (epsilon, delta) of one fit: bounds, unless stated; the number of rows of each
class and of each cell of each column; and the noisy gradient of the loss in all cells a round.
Scores, intercept and predictions are computed from these.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skdp._parameters import Integers, Table, check_size
from skdp._progress import told_steps
from skdp._standardising import class_counts
from skdp._supervised import Floats, LabelledClassifier
from skdp.budget import PrivacyBudget
from skdp.core import Session
from skdp.queries import MAX_CELLS, ColumnCells, Labelled, additive, additive_gradient, row_counts

__all__ = ["DPExplainableBoostingClassifier"]

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
        All class labels, from public knowledge, because which labels occur in y is private. Rows
        with another label are left out. ``"private"`` selects the labels that enough rows have, for
        a tenth of the allowance and half of delta. It needs delta above 0, labels that are text,
        numbers or booleans, and a table that is not in parts. With fewer than two labels selected,
        `fit` warns, and every row gets the one class.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them are in the first or the last bin.
        ``"private"`` learns them, for at most a fifth of the allowance.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Zero: pure epsilon-DP by Laplace noise, in few rounds. Above: Gaussian noise,
        which is much smaller here.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        `classes`, sorted; if private, the selected labels. With fewer than two selected, the fit
        learns nothing else: of the attributes below it sets only `privacy_`, `max_rows_per_unit_`
        and those that describe X.
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
        The bounds, stated or learned.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of each unit were used at most.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if `classes` is
        private and delta is 0, if X is not a dense table of finite numbers, if a label is missing,
        or if the columns have more than 2**20 cells together.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

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
    for step in told_steps(rounds):
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
