"""ROC curve, AUC and calibration of a classifier's scores on held-out private rows.

Released: how many rows of each class have a score in each cell of a public grid. Guarantee: a row
is in one cell (`skdp.queries.Marginal`); everything else is computed from the noisy counts.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._parameters import check_length, shown
from skdp.budget import PrivacyBudget
from skdp.confidence.equations import Floats
from skdp.metrics._call import classes_of, counted
from skdp.metrics._estimate import Estimate
from skdp.metrics._score_histogram import ScoreHistogram
from skdp.statistics import Released
from skdp.tabular import Bins, check_scores

__all__ = ["ScoreHistogram", "calibration_curve", "roc_auc_score", "roc_curve", "score_histogram"]

_MOST_BINS = 1000


def _bins(bins: Any, *, even: bool) -> Bins:
    """Return the cells of scores, or raise with the name of the parameter.

    Where they need not be even, cells of equal width of arcsin(sqrt(score)): finer towards 0 and 1,
    where scores lie close together, so that fewer pairs of rows share a cell.
    """
    problem = f"bins must be a number of cells from 2 to {_MOST_BINS}, or edges that increase"
    if isinstance(bins, numbers.Integral) and not isinstance(bins, bool):
        if not 2 <= int(bins) <= _MOST_BINS:
            raise ValueError(f"{problem}; got {shown(bins)}")
        part = np.linspace(0.0, 1.0, int(bins) + 1)
        return Bins(part if even else np.round(np.sin(np.pi / 2 * part) ** 2, 12))
    check_length(bins, "bins")
    try:
        found = Bins(bins)
    except TypeError:
        raise TypeError(problem) from None
    except (ValueError, OverflowError):
        raise ValueError(problem) from None
    if not 2 <= found.size <= _MOST_BINS:
        raise ValueError(f"{problem}; got {found.size} cells")
    return found


def score_histogram(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    labels: ArrayLike,
    bins: Any = 20,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> ScoreHistogram:
    """Return how many held-out private rows of each class have a score in each cell.

    The ROC curve, its area, calibration and accuracies can be computed from it, all for one charge.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private labels of held-out rows.
    y_score : array-like of shape (n_samples,)
        The score of the second class for each row, from that row alone:
        ``model.predict_proba(X)[:, 1]``, or a decision function with edges as `bins`.
    labels : array-like of shape (2,)
        The two classes, from public knowledge, the positive one last: ``model.classes_``. Rows with
        other labels are left out.
    bins : int or array-like of float, default=20
        The number of cells from 0 to 1, finer towards the ends; or public edges in increasing
        order. A score outside the edges counts in the nearest cell.
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    histogram : ScoreHistogram

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: a count for each class and cell. *Sensitivity*: 1 if a row is added or
    removed, 2 (L1) if one is replaced. *Mechanism*: discrete Laplace, or rounded Gaussian if
    delta > 0. *Charged*: (epsilon, delta), once, as "score_histogram". The model must be public, or
    trained privately, and each score must depend on its own row alone.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import metrics
    >>> score = np.linspace(0, 1, 2000)
    >>> y = (np.arange(2000) * 7 % 10 / 10 < score).astype(int)
    >>> found = metrics.score_histogram(y, score, labels=[0, 1])
    >>> auc, (prob_true, prob_pred, edges) = found.roc_auc(), found.calibration_curve(10)
    >>> bool(abs(float(auc) - 0.83) < 0.05), prob_true.value.shape
    (True, (10,))
    """
    return _histogram(
        "score_histogram",
        y_true,
        y_score,
        labels,
        bins,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    )


def _histogram(
    name: str,
    y_true: Any,
    y_score: Any,
    labels: Any,
    bins: Any,
    *,
    even: bool = False,
    **options: Any,
) -> ScoreHistogram:
    known, order = classes_of(labels, exactly=2)
    grid = _bins(bins, even=even)
    rows = check_scores(y_true, y_score, estimator=name, classes=known, bins=grid)
    public = [known.tolist(), grid.edges.tolist()]
    counts, noise, privacy = counted(name, rows, (0, 1), public, **options)
    counts = counts[order]
    released = Released(counts, np.full(counts.shape, noise.std), privacy)
    return ScoreHistogram(released, grid.edges, known[order], privacy, noise)


def roc_auc_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    labels: ArrayLike,
    bins: Any = 20,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Estimate:
    """Return the area under the ROC curve of held-out private rows.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private labels of held-out rows.
    y_score : array-like of shape (n_samples,)
        The score of the second class for each row, from that row alone:
        ``model.predict_proba(X)[:, 1]``, or a decision function with edges as `bins`.
    labels : array-like of shape (2,)
        The two classes, from public knowledge, the positive one last: ``model.classes_``. Rows with
        other labels are left out.
    bins : int or array-like of float, default=20
        The number of cells from 0 to 1, finer towards the ends; or public edges in increasing
        order. A score outside the edges counts in the nearest cell.
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    auc : Estimate
        The value counts pairs of rows in the same cell as ties; the interval allows for them. NaN
        if noise hides a class.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `score_histogram`, which also gives
    the curve and calibration at the same cost. *Charged*: (epsilon, delta), once, as
    "roc_auc_score".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import metrics
    >>> score = np.linspace(0, 1, 2000)
    >>> y = (np.arange(2000) * 7 % 10 / 10 < score).astype(int)
    >>> auc = metrics.roc_auc_score(y, score, labels=[0, 1])
    >>> bool(abs(float(auc) - 0.83) < 0.05)
    True
    """
    return _histogram(
        "roc_auc_score",
        y_true,
        y_score,
        labels,
        bins,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    ).roc_auc()


def roc_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    labels: ArrayLike,
    bins: Any = 20,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> tuple[Estimate, Estimate, Floats]:
    """Return the ROC curve of held-out private rows at the edges of the cells.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private labels of held-out rows.
    y_score : array-like of shape (n_samples,)
        The score of the second class for each row, from that row alone:
        ``model.predict_proba(X)[:, 1]``, or a decision function with edges as `bins`.
    labels : array-like of shape (2,)
        The two classes, from public knowledge, the positive one last: ``model.classes_``. Rows with
        other labels are left out.
    bins : int or array-like of float, default=20
        The number of cells from 0 to 1, finer towards the ends; or public edges in increasing
        order. A score outside the edges counts in the nearest cell.
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    fpr, tpr : Estimate
        Of shape (n_bins + 1,), rising from 0 to 1.
    thresholds : ndarray of shape (n_bins + 1,)
        In decreasing order; the first is infinite.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `score_histogram`, which also gives
    the area and calibration at the same cost. *Charged*: (epsilon, delta), once, as "roc_curve".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import metrics
    >>> score = np.linspace(0, 1, 2000)
    >>> y = (np.arange(2000) * 7 % 10 / 10 < score).astype(int)
    >>> fpr, tpr, thresholds = metrics.roc_curve(y, score, labels=[0, 1], bins=10)
    >>> tpr.value.shape, thresholds.shape
    ((11,), (11,))
    """
    return _histogram(
        "roc_curve",
        y_true,
        y_score,
        labels,
        bins,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    ).roc_curve()


def calibration_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    labels: ArrayLike,
    bins: Any = 10,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> tuple[Estimate, Floats, Floats]:
    """Return the share of positive rows among held-out private rows with similar scores.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private labels of held-out rows.
    y_score : array-like of shape (n_samples,)
        The score of the second class for each row, from that row alone:
        ``model.predict_proba(X)[:, 1]``, or a decision function with edges as `bins`.
    labels : array-like of shape (2,)
        The two classes, from public knowledge, the positive one last: ``model.classes_``. Rows with
        other labels are left out.
    bins : int or array-like of float, default=10
        The number of cells of equal width from 0 to 1, or public edges in increasing order. A score
        outside the edges counts in the nearest cell.
    groups : array-like of shape (n_samples,), default=None
        Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
        together. A budget with a `unit` needs groups; any other budget refuses them.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    prob_true : Estimate
        Of shape (n_bins,). If noise hides the rows of a cell, it is NaN, with the whole range as
        interval.
    prob_pred : ndarray of shape (n_bins,)
        The middle of each cell, not the mean score of its rows as in scikit-learn, which is
        somewhere in the cell: hold shares against `edges`.
    edges : ndarray of shape (n_bins + 1,)
        Edges of the cells. Scores are calibrated in a cell if the share is between its edges.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `score_histogram`, which also gives
    the ROC curve at the same cost. *Charged*: (epsilon, delta), once, as "calibration_curve".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import metrics
    >>> score = np.linspace(0, 1, 2000)
    >>> y = (np.arange(2000) * 7 % 10 / 10 < score).astype(int)
    >>> prob_true, prob_pred, edges = metrics.calibration_curve(y, score, labels=[0, 1], bins=5)
    >>> bool(np.abs(prob_true.value - prob_pred).max() < 0.1)
    True
    """
    return _histogram(
        "calibration_curve",
        y_true,
        y_score,
        labels,
        bins,
        even=True,
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    ).calibration_curve()
