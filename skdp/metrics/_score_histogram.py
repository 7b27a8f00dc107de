"""What counts of scores say: ROC curve, AUC, calibration and accuracies, with their intervals.

Nothing is released here: everything is computed from noisy counts.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.confidence.equations import Equation, Floats, Noise, Pair, proportions
from skdp.core import PrivacyCertificate
from skdp.metrics._classification import mean_share, share
from skdp.metrics._estimate import Estimate, estimate
from skdp.statistics import Released

__all__ = ["ScoreHistogram"]


def _auc_equation(
    positive: Floats, negative: Floats, std: float, ties: float, *, sampled: bool
) -> Equation:
    """Return the equation of the share of pairs in which the positive row has the larger score.

    Pairs within a cell count as `ties`. The variance has the noisy counts in the place of the true
    ones, which makes it larger on average. With `sampled` it has that of any AUC at most
    (Birnbaum & Klose 1957): theta (1 - theta) over the smaller class.
    """
    p, n, square = positive.sum(), negative.sum(), std * std
    below = np.concatenate([[0.0], np.cumsum(negative)[:-1]]) + ties * negative
    above = (p - np.cumsum(positive)) + ties * positive
    equation = Equation(
        positive @ below,
        p * n,
        square * (below @ below + above @ above),
        square * (below.sum() * n + above.sum() * p),
        square * len(positive) * (n * n + p * p),
    )
    if not sampled:
        return equation
    size = max(p, 1.0) * max(n, 1.0) * max(p, n, 1.0)
    return equation.more(0.0, -size / 2, -size)


def _auc_limits(
    positive: Floats, negative: Floats, noise: Noise, level: float, sampled: bool
) -> Pair:
    """Return the ends for scores that are not binned: all ties lost, all ties won."""
    width = noise.width(level)
    std = noise.reach(level)
    if not (positive.sum() > 0 and negative.sum() > 0):
        return np.array(0.0), np.array(1.0)
    lost, won = (
        _auc_equation(positive, negative, std, ties, sampled=sampled) for ties in (0.0, 1.0)
    )
    return lost.interval(width, 0.0, 1.0)[0], won.interval(width, 0.0, 1.0)[1]


@dataclass(frozen=True, eq=False, repr=False)
class ScoreHistogram:
    """Noisy counts of scores of two classes, and metrics computed from them at no further cost.

    Attributes
    ----------
    counts : skdp.statistics.Released
        Of shape (2, n_bins): first the rows of the negative class, then those of the positive
        class. Negative counts, which noise may cause, are kept.
    edges : ndarray of shape (n_bins + 1,)
        A cell includes its lower edge. Scores outside the edges count in the nearest cell.
    labels : ndarray of shape (2,)
        The two classes, the positive one last.
    privacy : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.
    noise : object
        Noise of one count.
    """

    counts: Released
    edges: Floats
    labels: NDArray
    privacy: PrivacyCertificate
    noise: Noise

    def __repr__(self) -> str:
        rows = ", ".join(f"{side.sum():.4g}" for side in self._sides)
        return (
            f"ScoreHistogram({len(self.edges) - 1} bins from {self.edges[0]:.4g} to "
            f"{self.edges[-1]:.4g}, labels={self.labels.tolist()!r}, rows: {rows}, standard error "
            f"of a count: {self.noise.std:.4g}, roc_auc: {float(self.roc_auc()):.4g})"
        )

    @property
    def _sides(self) -> tuple[Floats, Floats]:
        negative, positive = self.counts.value
        return negative, positive

    def roc_auc(self) -> Estimate:
        """Return the area under the ROC curve.

        Returns
        -------
        auc : Estimate
            The value counts pairs of rows in the same cell as ties. The interval is for the exact
            scores, so it is at least as long as the share of such pairs.
        """
        negative, positive = self._sides
        value = _auc_equation(positive, negative, self.noise.std, 0.5, sampled=False).root
        if not (positive.sum() > 0 and negative.sum() > 0):
            value = np.array(np.nan)
        limits = partial(_auc_limits, positive, negative, self.noise)
        note = "the interval allows for pairs within a cell, the value counts them as ties"
        return estimate(np.clip(value, 0.0, 1.0), limits, self.privacy, note)

    def roc_curve(self) -> tuple[Estimate, Estimate, Floats]:
        """Return the ROC curve at the edges of the cells.

        Returns
        -------
        fpr, tpr : Estimate
            Of shape (n_bins + 1,), rising from 0 to 1: shares of rows with a score of at least the
            threshold. The intervals hold individually, not jointly.
        thresholds : ndarray of shape (n_bins + 1,)
            The edges, in decreasing order. The first is infinity instead of the last edge, because
            no score is above it.
        """
        rates = [self._rate(counts) for counts in self._sides]
        thresholds = self.edges[::-1].copy()
        thresholds[0] = np.inf
        return rates[0], rates[1], thresholds

    def _rate(self, counts: Floats) -> Estimate:
        """Return the shares of a class's rows from each edge on, the last edge first."""
        cells = np.arange(len(counts) + 1)
        part = np.concatenate([[0.0], np.cumsum(counts[::-1])])
        found = share(part, counts.sum() - part, cells, cells[::-1], self.noise, self.privacy)
        # A curve rises: the middle between the least that does and is not below, and not above.
        rising = np.clip(np.nan_to_num(found.value, nan=0.5), 0.0, 1.0)
        above = np.maximum.accumulate(rising)
        under = np.minimum.accumulate(rising[::-1])[::-1]
        value = np.where(np.isnan(found.value), np.nan, (above + under) / 2)
        value[0], value[-1] = 0.0, 1.0
        limits = partial(_rate_limits, part, counts.sum() - part, cells, self.noise)
        return estimate(value, limits, self.privacy)

    def calibration_curve(self, n_bins: int | None = None) -> tuple[Estimate, Floats, Floats]:
        """Return the share of positive rows in each cell of the scores.

        Parameters
        ----------
        n_bins : int, default=None
            Join neighbouring cells into this number of bins, which must divide the number of cells.
            None: keep the cells.

        Returns
        -------
        prob_true : Estimate
            Of shape (n_bins,). If noise hides the rows of a cell, it is NaN, with the whole range
            as interval. The intervals hold individually, not jointly.
        prob_pred : ndarray of shape (n_bins,)
            The middle of each cell, not the mean score of its rows as in scikit-learn, which is
            somewhere in the cell: hold shares against `edges`.
        edges : ndarray of shape (n_bins + 1,)
            Edges of the cells. Scores are calibrated in a cell if the share is between its edges.

        Raises
        ------
        ValueError
            If cells cannot be joined into this number.
        """
        size = len(self.edges) - 1
        wanted = size if n_bins is None else n_bins
        integral = isinstance(wanted, numbers.Integral) and not isinstance(wanted, bool)
        if not integral or not 1 <= wanted <= size or size % int(wanted):
            raise ValueError(f"n_bins must be a divisor of the number of cells, {size}")
        each = size // int(wanted)
        negative, positive = (side.reshape(-1, each).sum(axis=1) for side in self._sides)
        edges = self.edges[::each].copy()
        found = share(positive, negative, each, each, self.noise, self.privacy)
        low, high = found.limits(0.95, False)
        value = np.where((low <= 0) & (high >= 1), np.nan, found.value)  # noise hides the rows
        found = estimate(value, found.limits, self.privacy)
        return found, (edges[:-1] + edges[1:]) / 2, edges

    def accuracy(self, threshold: float = 0.5) -> Estimate:
        """Return the accuracy of predicting "positive" for scores of at least a threshold.

        Parameters
        ----------
        threshold : float, default=0.5
            One of the edges.

        Returns
        -------
        accuracy : Estimate
            `accuracy_score` has less noise.

        Raises
        ------
        ValueError
            If the threshold is not an edge.
        """
        k, size = self._place(threshold), len(self.edges) - 1
        negative, positive = self._sides
        right = positive[k:].sum() + negative[:k].sum()
        wrong = positive[:k].sum() + negative[k:].sum()
        return share(right, wrong, size, size, self.noise, self.privacy)

    def balanced_accuracy(self, threshold: float = 0.5) -> Estimate:
        """Return the balanced accuracy of predicting "positive" for scores of at least a threshold.

        Parameters
        ----------
        threshold : float, default=0.5
            One of the edges.

        Returns
        -------
        balanced_accuracy : Estimate

        Raises
        ------
        ValueError
            If the threshold is not an edge.
        """
        k, size = self._place(threshold), len(self.edges) - 1
        negative, positive = self._sides
        right = np.array([negative[:k].sum(), positive[k:].sum()])
        wrong = np.array([negative[k:].sum(), positive[:k].sum()])
        cells, others = np.array([k, size - k]), np.array([size - k, k])
        return mean_share(right, wrong, cells, others, self.noise, self.privacy)

    def _place(self, threshold: Any) -> int:
        real = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
        near = np.flatnonzero(np.isclose(self.edges, float(threshold) if real else np.nan))
        if not near.size:
            raise ValueError("threshold must be one of the edges of the cells; see .edges")
        return int(near[0])


def _rate_limits(
    part: Floats, other: Floats, cells: NDArray, noise: Noise, level: float, sampled: bool
) -> Pair:
    """Return the ends of shares of a class, of which the first is 0 and the last is 1."""
    equation_limits = proportions(part, other, cells, cells[::-1], noise, level, sampled=sampled)
    low, high = (np.array(end) for end in equation_limits)
    low[0] = high[0] = 0.0
    low[-1] = high[-1] = 1.0
    return low, high
