"""Displays of private metrics: a confusion matrix, a ROC curve, calibration, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdp.confidence import Released
from skdp.inspection._budget import Display, documented
from skdp.metrics import ConfusionMatrix, ScoreHistogram, confusion_matrix, score_histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOR = "tab:blue"


@documented
class _MetricDisplay(Display):
    """A display of what `skdp.metrics` has released."""

    _kind: ClassVar[type]
    _size = (5, 4.5)

    def __init__(self, released: Any, level: float = 0.95, population: bool = False) -> None:
        if not isinstance(released, self._kind):
            name = "confusion_matrix" if self._kind is ConfusionMatrix else "score_histogram"
            raise TypeError(
                f"released must be what skdp.metrics.{name} returns, got {type(released).__name__}"
            )
        self.released, self.level, self.population = released, level, bool(population)

    @classmethod
    def from_released(cls, released: Any, *, ax: Axes | None = None, **options: Any) -> Self:
        """Plot what was released; nothing more is released.

        Parameters
        ----------
        released : skdp.metrics.ConfusionMatrix or skdp.metrics.ScoreHistogram
            Noisy counts, as the class takes them.
        {ax}
        **options
            The other parameters of the class.

        {display}
        """
        return cls(released, **options).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, labels: Any = None, **options: Any
    ) -> Self:
        """Predict held-out private rows, and release and plot as `from_predictions` does.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier, private or public: with ``predict`` for a confusion matrix, of two
            classes with ``predict_proba`` otherwise, or (for a ROC curve, with edges as `bins`)
            with ``decision_function``.
        X : array-like or table of shape (n_samples, n_features)
            Private rows.
        y : array-like of shape (n_samples,)
            Labels of the rows.
        labels : array-like of shape (n_classes,), default=None
            All classes, from public knowledge; None: ``estimator.classes_``.
        **options
            Arguments of `from_predictions`.

        {display}
        """
        known = estimator.classes_ if labels is None else labels
        predicted = cls._scores(estimator, X)
        display: Self = cls.from_predictions(y, predicted, labels=known, **options)  # type: ignore[attr-defined]
        return display

    def _ends(self, metric: Released) -> tuple[NDArray, NDArray]:
        """Return the interval of a metric at the level of the display."""
        interval = metric.population_interval if self.population else metric.interval
        return interval(self.level)

    def _title(self) -> str:
        return f"{self.level:.0%} " + ("for the population" if self.population else "of noise")

    @classmethod
    def _scores(cls, estimator: Any, X: Any) -> NDArray:
        """Return the scores of the second class."""
        scores: NDArray = np.asarray(estimator.predict_proba(X))[:, 1]
        return scores


@documented
class PrivateConfusionMatrixDisplay(_MetricDisplay):
    """A private confusion matrix: noisy counts with their intervals, shaded by row.

    Parameters
    ----------
    released : skdp.metrics.ConfusionMatrix
        Noisy counts.
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

    released: ConfusionMatrix
    _kind = ConfusionMatrix

    def __init__(self, released: ConfusionMatrix, level: float = 0.95) -> None:
        super().__init__(released, level)

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
    def _scores(cls, estimator: Any, X: Any) -> NDArray:
        predicted: NDArray = estimator.predict(X)
        return predicted

    def _draw(self) -> None:
        counts = self.released.counts
        low, high = counts.interval(self.level)
        rows = np.maximum(counts.value, 0.0)
        shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
        # The scale ends above 1: text stays readable on the darkest cell.
        self.ax_.imshow(shares, cmap="Blues", vmin=0, vmax=1.4)
        for (i, j), value in np.ndenumerate(counts.value):
            half = (high[i, j] - low[i, j]) / 2
            text = f"{value:,.0f}\n± {half:,.0f}"
            self.ax_.text(j, i, text, ha="center", va="center", fontsize=9)
        names = [str(label) for label in self.released.labels]
        self.ax_.set_xticks(range(len(names)), names)
        self.ax_.set_yticks(range(len(names)), names)
        self.ax_.set(xlabel="predicted", ylabel="true")
        accuracy = self.released.accuracy()
        first, last = accuracy.interval(self.level)
        self.ax_.set_title(
            f"accuracy {accuracy:.3f} ({first:.3f} to {last:.3f}), ± {self._title()}",
            fontsize=10,
        )


@documented
class PrivateRocCurveDisplay(_MetricDisplay):
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

    released: ScoreHistogram
    _kind = ScoreHistogram

    def __init__(
        self,
        released: ScoreHistogram,
        level: float = 0.95,
        population: bool = False,
        name: str = "",
    ) -> None:
        super().__init__(released, level, population)
        self.name = name

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
    def _scores(cls, estimator: Any, X: Any) -> NDArray:
        if hasattr(estimator, "predict_proba"):
            return super()._scores(estimator, X)
        return np.asarray(estimator.decision_function(X))

    def _arms(self, metric: Released) -> NDArray:
        """Return the lengths of error bars, below and above; none where there is no value."""
        low, high = self._ends(metric)
        lengths: NDArray = np.maximum(np.stack([metric.value - low, high - metric.value]), 0.0)
        return lengths

    def _draw(self) -> None:
        fpr, tpr, _ = self.released.roc_curve()
        auc = self.released.roc_auc()
        low, high = self._ends(auc)
        label = f"AUC {auc:.3f} ({low:.3f} to {high:.3f})"
        (line,) = self.ax_.plot(
            fpr.value, tpr.value, ".-", label=f"{self.name}: {label}" if self.name else label
        )
        self.ax_.errorbar(
            fpr.value,
            tpr.value,
            yerr=self._arms(tpr),
            xerr=self._arms(fpr),
            fmt="none",
            ecolor=line.get_color(),
            elinewidth=0.8,
            alpha=0.5,
        )
        self.ax_.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
        self.ax_.set(xlabel="false positive rate", ylabel="true positive rate")
        self.ax_.set_title(f"bars: {self._title()}", fontsize=10)
        self.ax_.legend(frameon=False, loc="lower right", fontsize=9)


@documented
class PrivateCalibrationDisplay(_MetricDisplay):
    """Private calibration: the share of positive rows in each cell of scores, with its interval.

    The width of a bar is that of its cell. If the bar crosses the diagonal, the scores of the cell
    may be calibrated.

    Parameters
    ----------
    {scores}
    n_bins : int, default=10
        Number of bins into which cells are joined.
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

    released: ScoreHistogram
    _kind = ScoreHistogram

    def __init__(
        self,
        released: ScoreHistogram,
        n_bins: int = 10,
        level: float = 0.95,
        population: bool = False,
    ) -> None:
        super().__init__(released, level, population)
        self.n_bins = n_bins

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

    def _draw(self) -> None:
        shares, _, edges = self.released.calibration_curve(self.n_bins)
        low, high = self._ends(shares)
        starts, stops = edges[:-1], edges[1:]
        self.ax_.bar(
            starts,
            high - low,
            stops - starts,
            low,
            align="edge",
            color=_COLOR,
            alpha=0.25,
            linewidth=0,
        )
        self.ax_.hlines(shares.value, starts, stops, color=_COLOR)
        ends = [edges[0], edges[-1]]
        self.ax_.plot(ends, ends, color="0.4", linestyle="--", linewidth=1, label="calibrated")
        self.ax_.set(xlabel="score (one cell: one bar)", ylabel="share of positive rows")
        self.ax_.set_ylim(-0.02, 1.02)
        self.ax_.set_title(f"bars: {self._title()}", fontsize=10)
        self.ax_.legend(frameon=False, loc="upper left", fontsize=9)
