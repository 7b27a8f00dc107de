"""Accuracy, balanced accuracy and the confusion matrix of held-out private rows.

Released: how many rows have each pair of a true and a predicted class, or how many are predicted
rightly. Guarantee: a row is in one cell (`skdp.queries.Marginal`); everything else is computed from
the noisy counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.budget import PrivacyBudget
from skdp.confidence.equations import Floats, Noise, Pair, proportion_equation, proportions
from skdp.core import PrivacyCertificate
from skdp.metrics._call import classes_of, counted
from skdp.metrics._estimate import Estimate, estimate
from skdp.statistics import Released
from skdp.tabular import check_outcomes

__all__ = ["ConfusionMatrix", "accuracy_score", "balanced_accuracy_score", "confusion_matrix"]

_CLEAR = 2.0  # times what noise may be, above which a class is clear of it
# Columns of the rows of `check_outcomes`.
_TRUE, _PREDICTED, _RIGHT = 0, 1, 2


def share(
    part: Any,
    other: Any,
    cells: Any,
    others: Any,
    noise: Noise,
    privacy: PrivacyCertificate,
    note: str = "",
) -> Estimate:
    """Return part / (part + other), sums of so many noisy counts, with its intervals."""
    value = proportion_equation(part, other, cells, others, noise.std, sampled=False).root
    limits = partial(_share_limits, part, other, cells, others, noise)
    return estimate(value, limits, privacy, note)


def _share_limits(
    part: Any, other: Any, cells: Any, others: Any, noise: Noise, level: float, sampled: bool
) -> Pair:
    return proportions(part, other, cells, others, noise, level, sampled=sampled)


def mean_share(
    part: Floats,
    other: Floats,
    cells: Any,
    others: Any,
    noise: Noise,
    privacy: PrivacyCertificate,
    note: str = "",
) -> Estimate:
    """Return the mean of several shares, whose counts have noise of their own."""
    value = proportion_equation(part, other, cells, others, noise.std, sampled=False).root.mean()
    limits = partial(_mean_limits, part, other, cells, others, noise)
    return estimate(value, limits, privacy, note)


def _mean_limits(
    part: Floats, other: Floats, cells: Any, others: Any, noise: Noise, level: float, sampled: bool
) -> Pair:
    """Return the ends of a mean of independent shares from those of each.

    Where every class is clear of its noise the distances to the ends add as squares (Zou & Donner
    2008), of shares that may be out of [0, 1]: those that noise has taken there say how far it
    went. Elsewhere all ends hold at once, each at the level to the power of 1 over their number.
    """
    size, width = len(part), noise.width(level)
    reach = noise.std * np.sqrt(np.add(cells, others))
    if bool(np.all(part + other > _CLEAR * width * reach)):
        std = noise.reach(level)
        equation = proportion_equation(part, other, cells, others, std, sampled=False, clip=False)
        parts = [(equation.root, *equation.interval(width, -np.inf, np.inf))]
        if sampled:  # (Newcombe 1998)
            drawn = proportion_equation(part, other, 1, 1, 0.5 / width, sampled=True)
            parts.append((drawn.root, *drawn.interval(width, 0.0, 1.0)))
        down, up = (
            math.sqrt(sum(float(np.sum(np.square(one[0] - one[side]))) for one in parts)) / size
            for side in (1, 2)
        )
        inside = np.clip(equation.root.mean(), 0.0, 1.0)
        return np.maximum(inside - down, 0.0), np.minimum(inside + up, 1.0)
    each = level ** (1.0 / size)
    low, high = proportions(part, other, cells, others, noise, each, sampled=sampled)
    return low.mean(), high.mean()


@dataclass(frozen=True, eq=False, repr=False)
class ConfusionMatrix:
    """Noisy counts of true and predicted classes, and metrics computed from them for free.

    Attributes
    ----------
    counts : skdp.statistics.Released
        Of shape (n_classes, n_classes): rows are true classes, columns are predicted classes.
        Negative counts, which noise may cause, are kept.
    labels : ndarray of shape (n_classes,)
        The classes, in the given order.
    privacy : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.
    noise : object
        Noise of one count.
    """

    counts: Released
    labels: NDArray
    privacy: PrivacyCertificate
    noise: Noise

    def __repr__(self) -> str:
        with np.printoptions(suppress=True, precision=4):
            labels, counts = np.array2string(self.labels, separator=", "), str(self.counts.value)
        return (
            f"ConfusionMatrix(labels={labels}, standard error of a count: {self.noise.std:.4g}, "
            f"rows true, columns predicted:\n{counts})"
        )

    def accuracy(self) -> Estimate:
        """Return the share of rows that are predicted correctly.

        Only rows whose true and predicted labels are among the classes count. `accuracy_score` has
        less noise.

        Returns
        -------
        accuracy : Estimate
        """
        counts, size = self.counts.value, len(self.labels)
        right = np.trace(counts)
        cells = size, size * size - size
        return share(right, counts.sum() - right, *cells, self.noise, self.privacy)

    def balanced_accuracy(self) -> Estimate:
        """Return the mean of the recalls of all classes.

        Returns
        -------
        balanced_accuracy : Estimate
            NaN if noise hides a class.
        """
        counts = self.counts.value
        right = counts.diagonal()
        cells = 1, len(self.labels) - 1
        other = counts.sum(axis=1) - right
        return mean_share(right, other, *cells, self.noise, self.privacy)

    def recall(self) -> Estimate:
        """Return, for each class, the share of its rows that are predicted correctly.

        Returns
        -------
        recall : Estimate
            Of shape (n_classes,). The intervals hold individually, not jointly.
        """
        counts = self.counts.value
        right = counts.diagonal()
        cells = 1, len(self.labels) - 1
        return share(right, counts.sum(axis=1) - right, *cells, self.noise, self.privacy)

    def precision(self) -> Estimate:
        """Return, for each class, the share of the predictions of this class that are correct.

        Returns
        -------
        precision : Estimate
            Of shape (n_classes,). The intervals hold individually, not jointly.
        """
        counts = self.counts.value
        right = counts.diagonal()
        cells = 1, len(self.labels) - 1
        return share(right, counts.sum(axis=0) - right, *cells, self.noise, self.privacy)


def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> ConfusionMatrix:
    """Return how many held-out private rows have each pair of true and predicted class.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private labels of held-out rows.
    y_pred : array-like of shape (n_samples,)
        The prediction of the model for each row, from that row alone.
    labels : array-like of shape (n_classes,)
        All classes, from public knowledge: ``model.classes_`` of a private classifier.
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
    matrix : ConfusionMatrix
        Rows with a label that is not among the classes are left out.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: a count for each pair of classes. *Sensitivity*: 1 if a row is added
    or removed, 2 (L1) if one is replaced. *Mechanism*: discrete Laplace, or rounded Gaussian if
    delta > 0. *Charged*: (epsilon, delta), once, as "confusion_matrix". The model must be public,
    or trained privately, and each prediction must depend on its own row alone.

    Examples
    --------
    >>> from skdp import metrics
    >>> matrix = metrics.confusion_matrix([0, 0, 1, 1] * 500, [0, 0, 0, 1] * 500, labels=[0, 1])
    >>> matrix.counts.value.shape
    (2, 2)
    >>> low, high = matrix.accuracy().interval(0.9999)
    >>> bool(low < 0.75 < high)
    True
    """
    known, order = classes_of(labels)
    rows = check_outcomes(y_true, y_pred, estimator="confusion_matrix", classes=known)
    counts, noise, privacy = counted(
        "confusion_matrix",
        rows,
        (_TRUE, _PREDICTED),
        known.tolist(),
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    )
    counts = counts[np.ix_(order, order)]
    released = Released(counts, np.full(counts.shape, noise.std), privacy)
    return ConfusionMatrix(released, known[order], privacy, noise)


def accuracy_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Estimate:
    """Return the share of held-out private rows that are predicted correctly.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private labels of held-out rows.
    y_pred : array-like of shape (n_samples,)
        The prediction of the model for each row, from that row alone.
    labels : array-like of shape (n_classes,)
        All classes, from public knowledge: ``model.classes_`` of a private classifier.
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
    accuracy : Estimate
        A row whose label is not among the classes counts as predicted wrongly. NaN if noise hides
        all rows.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: how many rows are predicted correctly, and how many wrongly.
    *Sensitivity*: 1 if a row is added or removed, 2 (L1) if one is replaced. *Mechanism*: discrete
    Laplace, or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta), once, as
    "accuracy_score". The model must be public, or trained privately, and each prediction must
    depend on its own row alone.

    Examples
    --------
    >>> from skdp import metrics
    >>> accuracy = metrics.accuracy_score([0, 0, 1, 1] * 500, [0, 0, 0, 1] * 500, labels=[0, 1])
    >>> bool(abs(float(accuracy) - 0.75) < 0.02)
    True
    """
    known, _ = classes_of(labels)
    rows = check_outcomes(y_true, y_pred, estimator="accuracy_score", classes=known)
    (wrong, right), noise, privacy = counted(
        "accuracy_score",
        rows,
        (_RIGHT,),
        known.tolist(),
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    )
    return share(right, wrong, 1, 1, noise, privacy)


def balanced_accuracy_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Estimate:
    """Return the mean, over classes, of the share of private rows that are predicted correctly.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Private labels of held-out rows.
    y_pred : array-like of shape (n_samples,)
        The prediction of the model for each row, from that row alone.
    labels : array-like of shape (n_classes,)
        All classes, from public knowledge: ``model.classes_`` of a private classifier.
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
    balanced_accuracy : Estimate
        Rows whose true label is not among the classes are left out. NaN if noise hides a class. For
        a class without rows, the interval allows any share.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is then
        charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: for each class, how many of its rows are predicted correctly, and how
    many wrongly. *Sensitivity*: 1 if a row is added or removed, 2 (L1) if one is replaced.
    *Mechanism*: discrete Laplace, or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta),
    once, as "balanced_accuracy_score". The model must be public, or trained privately, and each
    prediction must depend on its own row alone.

    Examples
    --------
    >>> from skdp import metrics
    >>> balanced = metrics.balanced_accuracy_score(
    ...     [0, 0, 0, 1] * 500, [0, 0, 0, 0] * 500, labels=[0, 1]
    ... )
    >>> bool(abs(float(balanced) - 0.5) < 0.02)
    True
    """
    known, _ = classes_of(labels)
    rows = check_outcomes(y_true, y_pred, estimator="balanced_accuracy_score", classes=known)
    counts, noise, privacy = counted(
        "balanced_accuracy_score",
        rows,
        (_TRUE, _RIGHT),
        known.tolist(),
        groups=groups,
        max_rows_per_unit=max_rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        random_state=random_state,
    )
    wrong, right = counts[: len(known)].T
    return mean_share(right, wrong, 1, 1, noise, privacy)
