"""Displays of private metrics: a confusion matrix, a ROC curve, calibration, with their intervals.

``from_released`` draws what `skdp.metrics` has released and releases nothing. ``from_predictions``
and ``from_estimator`` ask `skdp.metrics` first, which charges once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdp.confidence import Released
from skdp.inspection._budget import Display, documented
from skdp.metrics import (
    ConfusionMatrix,
    ScoreHistogram,
    confusion_matrix,
    score_histogram,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PrivateCalibrationDisplay", "PrivateConfusionMatrixDisplay", "PrivateRocCurveDisplay"]

_COLOR = "tab:blue"


def _check(released: Any, kind: type) -> Any:
    if not isinstance(released, kind):
        name = {ConfusionMatrix: "confusion_matrix", ScoreHistogram: "score_histogram"}[kind]
        raise TypeError(
            f"released must be what skdp.metrics.{name} returns, got {type(released).__name__}"
        )
    return released


def _scores(estimator: Any, X: Any) -> NDArray:
    """Return a classifier's scores of its second class."""
    if hasattr(estimator, "predict_proba"):
        scores: NDArray = np.asarray(estimator.predict_proba(X))[:, 1]
        return scores
    return np.asarray(estimator.decision_function(X))


def _ends(metric: Released, level: float, population: bool) -> tuple[NDArray, NDArray]:
    return metric.population_interval(level) if population else metric.interval(level)


def _arms(metric: Released, level: float, population: bool) -> NDArray:
    """Return the lengths of error bars, below and above; none where there is no value."""
    low, high = _ends(metric, level, population)
    lengths: NDArray = np.maximum(np.stack([metric.value - low, high - metric.value]), 0.0)
    return lengths


def _title(level: float, population: bool) -> str:
    return f"{level:.0%} " + ("for the population" if population else "of noise")


@documented
class PrivateConfusionMatrixDisplay(Display):
    """A private confusion matrix: noisy counts with their intervals, shaded by row.

    Parameters
    ----------
    {counts}
    {level}

    {attributes}

    Examples
    --------
    >>> from skdp.inspection import PrivateConfusionMatrixDisplay
    >>> display = PrivateConfusionMatrixDisplay.from_predictions(
    ...     [0, 0, 1, 1] * 500, [0, 0, 0, 1] * 500, labels=[0, 1], epsilon=0.5
    ... )
    >>> display.released.counts.value.shape
    (2, 2)
    """

    def __init__(self, released: ConfusionMatrix, level: float = 0.95) -> None:
        self.released: ConfusionMatrix = _check(released, ConfusionMatrix)
        self.level = level

    @classmethod
    def from_released(
        cls, released: ConfusionMatrix, *, level: float = 0.95, ax: Axes | None = None
    ) -> PrivateConfusionMatrixDisplay:
        """Plot a matrix that was released; nothing more is released.

        Parameters
        ----------
        {counts}
        {level}
        {plotted}
        """
        return cls(released, level).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        labels: Any,
        level: float = 0.95,
        ax: Axes | None = None,
        **privacy: Any,
    ) -> PrivateConfusionMatrixDisplay:
        """Release a confusion matrix, which is charged, and plot it.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_samples,)
            Private labels, and the predictions of the model.
        labels : array-like of shape (n_classes,)
            All classes, from public knowledge.
        {level}
        {ax}
        **privacy
            Arguments of `skdp.metrics.confusion_matrix`: epsilon, delta, budget, groups, ...

        {display}
        """
        return cls(confusion_matrix(y_true, y_pred, labels=labels, **privacy), level).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        labels: Any = None,
        level: float = 0.95,
        ax: Axes | None = None,
        **privacy: Any,
    ) -> PrivateConfusionMatrixDisplay:
        """Predict held-out private rows, release a confusion matrix, and plot it.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier, private or public.
        {X_y}
        labels : array-like of shape (n_classes,), default=None
            All classes, from public knowledge; None: ``estimator.classes_``.
        {level}
        {ax}
        **privacy
            Arguments of `skdp.metrics.confusion_matrix`: epsilon, delta, budget, groups, ...

        {display}
        """
        known = estimator.classes_ if labels is None else labels
        return cls.from_predictions(
            y, estimator.predict(X), labels=known, level=level, ax=ax, **privacy
        )

    _size = (5, 4.5)

    def _draw(self) -> None:
        counts = self.released.counts
        low, high = counts.interval(self.level)
        rows = np.maximum(counts.value, 0.0)
        shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
        self.ax_.imshow(shares, cmap="Blues", vmin=0, vmax=1.4)
        for (i, j), value in np.ndenumerate(counts.value):
            half = (high[i, j] - low[i, j]) / 2
            text = f"{value:,.0f}\n± {half:,.0f}"
            self.ax_.text(j, i, text, ha="center", va="center", fontsize=9)
        names = [str(label) for label in self.released.labels]
        self.ax_.set_xticks(range(len(names)), names)
        self.ax_.set_yticks(range(len(names)), names)
        self.ax_.set_xlabel("predicted")
        self.ax_.set_ylabel("true")
        accuracy = self.released.accuracy()
        first, last = accuracy.interval(self.level)
        self.ax_.set_title(
            f"accuracy {accuracy:.3f} ({first:.3f} to {last:.3f}), ± {_title(self.level, False)}",
            fontsize=10,
        )


@documented
class PrivateRocCurveDisplay(Display):
    """A private ROC curve: a point for each edge of the cells, with the interval of both rates.

    Parameters
    ----------
    {scores}
    {level}
    {population}
    {name}

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.inspection import PrivateRocCurveDisplay
    >>> score = np.linspace(0, 1, 2000)
    >>> y = (np.arange(2000) * 7 % 10 / 10 < score).astype(int)
    >>> display = PrivateRocCurveDisplay.from_predictions(y, score, labels=[0, 1])
    >>> bool(abs(float(display.released.roc_auc()) - 0.83) < 0.05)
    True
    """

    def __init__(
        self,
        released: ScoreHistogram,
        level: float = 0.95,
        population: bool = False,
        name: str = "",
    ) -> None:
        self.released: ScoreHistogram = _check(released, ScoreHistogram)
        self.level, self.population, self.name = level, bool(population), name

    @classmethod
    def from_released(
        cls,
        released: ScoreHistogram,
        *,
        level: float = 0.95,
        population: bool = False,
        name: str = "",
        ax: Axes | None = None,
    ) -> PrivateRocCurveDisplay:
        """Plot a histogram of scores that was released; nothing more is released.

        Parameters
        ----------
        {scores}
        {level}
        {population}
        {name}
        {plotted}
        """
        return cls(released, level, population, name).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        labels: Any,
        bins: Any = 20,
        level: float = 0.95,
        population: bool = False,
        name: str = "",
        ax: Axes | None = None,
        **privacy: Any,
    ) -> PrivateRocCurveDisplay:
        """Release a histogram of scores, which is charged, and plot its ROC curve.

        Parameters
        ----------
        y_true, y_score : array-like of shape (n_samples,)
            Private labels, and the scores of the second class.
        labels : array-like of shape (2,)
            The two classes, from public knowledge, the positive one last.
        bins : int or array-like, default=20
            As for `skdp.metrics.score_histogram`.
        {level}
        {population}
        {name}
        {ax}
        {privacy_options}

        {display}
        """
        released = score_histogram(y_true, y_score, labels=labels, bins=bins, **privacy)
        return cls(released, level, population, name).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, labels: Any = None, **options: Any
    ) -> PrivateRocCurveDisplay:
        """Score held-out private rows, release a histogram of the scores, and plot its ROC curve.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier of two classes, private or public, with ``predict_proba`` or (with
            edges as `bins`) ``decision_function``.
        {X_y}
        {options}
        """
        known = estimator.classes_ if labels is None else labels
        return cls.from_predictions(y, _scores(estimator, X), labels=known, **options)

    _size = (5, 4.5)

    def _draw(self) -> None:
        fpr, tpr, _ = self.released.roc_curve()
        auc = self.released.roc_auc()
        low, high = _ends(auc, self.level, self.population)
        label = f"AUC {auc:.3f} ({low:.3f} to {high:.3f})"
        (line,) = self.ax_.plot(
            fpr.value, tpr.value, ".-", label=f"{self.name}: {label}" if self.name else label
        )
        self.ax_.errorbar(
            fpr.value,
            tpr.value,
            yerr=_arms(tpr, self.level, self.population),
            xerr=_arms(fpr, self.level, self.population),
            fmt="none",
            ecolor=line.get_color(),
            elinewidth=0.8,
            alpha=0.5,
        )
        self.ax_.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
        self.ax_.set_xlabel("false positive rate")
        self.ax_.set_ylabel("true positive rate")
        self.ax_.set_title(f"bars: {_title(self.level, self.population)}", fontsize=10)
        self.ax_.legend(frameon=False, loc="lower right", fontsize=9)


@documented
class PrivateCalibrationDisplay(Display):
    """Private calibration: the share of positive rows in each cell of scores, with its interval.

    The width of a bar is that of its cell. If the bar crosses the diagonal, the scores of the cell
    may be calibrated.

    Parameters
    ----------
    {scores}
    {n_bins}
    {level}
    {population}

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.inspection import PrivateCalibrationDisplay
    >>> score = np.linspace(0, 1, 2000)
    >>> y = (np.arange(2000) * 7 % 10 / 10 < score).astype(int)
    >>> display = PrivateCalibrationDisplay.from_predictions(y, score, labels=[0, 1])
    >>> display.n_bins
    10
    """

    def __init__(
        self,
        released: ScoreHistogram,
        n_bins: int = 10,
        level: float = 0.95,
        population: bool = False,
    ) -> None:
        self.released: ScoreHistogram = _check(released, ScoreHistogram)
        self.n_bins, self.level, self.population = n_bins, level, bool(population)

    @classmethod
    def from_released(
        cls,
        released: ScoreHistogram,
        *,
        n_bins: int = 10,
        level: float = 0.95,
        population: bool = False,
        ax: Axes | None = None,
    ) -> PrivateCalibrationDisplay:
        """Plot a histogram of scores that was released; nothing more is released.

        Parameters
        ----------
        {scores}
        {n_bins}
        {level}
        {population}
        {plotted}
        """
        return cls(released, n_bins, level, population).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        labels: Any,
        n_bins: int = 10,
        level: float = 0.95,
        population: bool = False,
        ax: Axes | None = None,
        **privacy: Any,
    ) -> PrivateCalibrationDisplay:
        """Release a histogram of scores, which is charged, and plot its calibration.

        Parameters
        ----------
        y_true, y_score : array-like of shape (n_samples,)
            Private labels, and the predicted probabilities of the second class.
        labels : array-like of shape (2,)
            The two classes, from public knowledge, the positive one last.
        n_bins : int, default=10
            Cells of equal width from 0 to 1.
        {level}
        {population}
        {ax}
        {privacy_options}

        {display}
        """
        edges = np.linspace(0.0, 1.0, n_bins + 1)
        released = score_histogram(y_true, y_score, labels=labels, bins=edges, **privacy)
        return cls(released, n_bins, level, population).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, labels: Any = None, **options: Any
    ) -> PrivateCalibrationDisplay:
        """Score held-out private rows, release a histogram of the scores, and plot calibration.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier of two classes, private or public, with ``predict_proba``.
        {X_y}
        {options}
        """
        known = estimator.classes_ if labels is None else labels
        scores = np.asarray(estimator.predict_proba(X))[:, 1]
        return cls.from_predictions(y, scores, labels=known, **options)

    _size = (5, 4.5)

    def _draw(self) -> None:
        shares, _, edges = self.released.calibration_curve(self.n_bins)
        low, high = _ends(shares, self.level, self.population)
        left, right = edges[:-1], edges[1:]
        self.ax_.bar(
            left, high - low, right - left, low, align="edge", color=_COLOR, alpha=0.25, linewidth=0
        )
        self.ax_.hlines(shares.value, left, right, color=_COLOR)
        ends = [edges[0], edges[-1]]
        self.ax_.plot(ends, ends, color="0.4", linestyle="--", linewidth=1, label="calibrated")
        self.ax_.set_ylim(-0.02, 1.02)
        self.ax_.set_xlabel("score (one cell: one bar)")
        self.ax_.set_ylabel("share of positive rows")
        self.ax_.set_title(f"bars: {_title(self.level, self.population)}", fontsize=10)
        self.ax_.legend(frameon=False, loc="upper left", fontsize=9)
