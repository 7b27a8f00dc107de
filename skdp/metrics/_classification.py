"""Metrics of classifiers on held-out private rows, and noisy counts to compute them from.

Each row is in one cell: of true and predicted classes, of correct predictions, or of scores.
Metrics are computed from the noisy counts of these cells.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._docstrings import documenter, parameters_of, shared_texts
from skdp.base import CallContext
from skdp.base.context import public_key
from skdp.budget import PrivacyBudget
from skdp.confidence import Released, Source, released_metric
from skdp.confidence.equations import (
    Equation,
    Floats,
    Noise,
    Pair,
    proportion_equation,
    proportions,
)
from skdp.core import PrivacyCertificate, Session
from skdp.parameters import check_length, different_labels, shown
from skdp.planning import Allowance, row_count
from skdp.queries import MAX_TABLE, MarginalCells, row_counts
from skdp.tabular import Bins, CodedRows, check_outcomes, check_scores

_CLEAR = 2.0  # a class is clear of noise if its count is above this many widths of noise
_MOST_BINS = 1000
_AUTO = "auto"
# Scores are coded as places in a tree, any level of which can be counted: 10 cells, then halves.
_LEVELS = (10, 2, 2, 2, 2, 2, 2)
_COUNT_SHARE = Fraction(1, 20)  # for the number of rows, and of those in wide cells
_ENOUGH, _COARSE = 28.0, (0, 1, 2, 3)  # cells from which on the scores are first counted in 40
# Columns of the rows of `check_outcomes`.
_TRUE, _PREDICTED, _RIGHT = 0, 1, 2
_LABELS = (
    "labels must be all classes, from public knowledge: a sequence of different labels of one "
    "type, {least}, none missing: labels=model.classes_ of a private classifier"
)

TEXTS = {
    "y_true": """
        y_true : array-like of shape (n_samples,)
            Private labels of held-out rows.
        """,
    "y_pred": """
        y_pred : array-like of shape (n_samples,)
            The prediction of the model for each row, from that row alone.
        """,
    "labels": """
        labels : array-like of shape (n_classes,)
            All classes, from public knowledge: ``model.classes_`` of a private classifier. Must be
            given: those in `y_true` are private.
        """,
    "scores": """
        y_score : array-like of shape (n_samples,)
            The score of the second class for each row, from that row alone:
            ``model.predict_proba(X)[:, 1]``, or a decision function with edges as `bins`.
        labels : array-like of shape (2,)
            The two classes, from public knowledge, the positive one last: ``model.classes_``. Rows
            with other labels are left out.
        """,
    "bins": """
        bins : "auto", int or array-like of float, default="auto"
            The number of cells from 0 to 1, finer towards the ends; or public edges in increasing
            order. A score outside the edges counts in the nearest cell. "auto": from 10 to 640
            cells, more the more rows and epsilon there are and the closer together scores are. A
            twentieth of the allowance first releases the number of rows; if they are many, a
            second one counts classes and scores in 40 wide cells.
        """,
    "predictions": """
        Parameters
        ----------
        {y_true}
        {y_pred}
        {labels}
        {privacy}
        """,
    "histogram": """
        Parameters
        ----------
        {y_true}
        {scores}
        {bins}
        {privacy}
        """,
    "calibration": """
        prob_true : Released
            Of shape (n_bins,). If noise hides the rows of a cell, it is NaN, with the whole range
            as interval. The intervals hold individually, not jointly.
        prob_pred : ndarray of shape (n_bins,)
            The middle of each cell, not the mean score of its rows as in scikit-learn, which is
            somewhere in the cell: hold shares against `edges`.
        edges : ndarray of shape (n_bins + 1,)
            Edges of the cells. Scores are calibrated in a cell if the share is between its edges.
        """,
    "threshold": """
        Parameters
        ----------
        threshold : float, default=0.5
            One of the edges.
        """,
    "no_edge": """
        Raises
        ------
        ValueError
            If the threshold is not an edge.
        """,
    "raises": """
        Raises
        ------
        TypeError, ValueError
            If an argument is out of range, if lengths differ, or if a cell is missing. Nothing is
            then charged.
        {charge_raises}
        """,
    # Parts of the Notes.
    "counts": """
        *Sensitivity*: 1 if a row is added or removed, 2 (L1) if one is replaced. *Mechanism*:
        discrete Laplace or rounded Gaussian noise, whichever is less.
        """,
    "public_model": """
        The model must be public, or trained privately, and each prediction must depend on its own
        row alone.
        """,
    "scored": """
        >>> import numpy as np
        >>> from skdp import metrics
        >>> score = np.linspace(0, 1, 2000)
        >>> y = (np.arange(2000) * 7 % 10 / 10 < score).astype(int)
        """,
}
documented = documenter(TEXTS)

# --- labels, counts, shares -----------------------------------------------------------------------


def _classes(labels: Any, *, exactly: int | None = None) -> tuple[NDArray, NDArray[np.intp]]:
    """Return public classes, sorted, and the place of each given label among them."""
    least = "at least two" if exactly is None else f"exactly {exactly}, the positive one last"
    problem = _LABELS.format(least=least)
    known, order = different_labels(labels, problem)
    number_fits = known.size >= 2 if exactly is None else known.size == exactly
    if not number_fits:
        raise ValueError(problem)
    if (known.size + 1) ** 2 > MAX_TABLE:
        raise ValueError(f"labels: there must be at most {int(MAX_TABLE**0.5) - 1} classes")
    return known, order


def context_of(name: str, arguments: Mapping[str, Any]) -> CallContext:
    """Return the context of a call with these arguments; others are ignored."""
    names = ["epsilon", "delta", "budget", "random_state", "groups", "max_rows_per_unit"]
    return CallContext(name, **{key: arguments[key] for key in names})


@dataclass(frozen=True)
class _Counts:
    """Released counts, and the classes of their axes."""

    values: Floats
    noise: Noise
    privacy: PrivacyCertificate
    classes: NDArray
    order: NDArray[np.intp]  # of each given label, its place among the classes


def _counted(
    name: str,
    arguments: Mapping[str, Any],
    rows: CodedRows,
    columns: tuple[int, ...] | None,
    classes: tuple[NDArray, NDArray[np.intp]],
    edges: Any = None,
) -> _Counts:
    """Charge, and release the table of counts of some columns of coded rows.

    Without `columns` these are the class and the levels of scores that `_levels` finds.
    """
    known = classes[0].tolist()
    public = (name, known if edges is None else [known, edges])  # keys seeded noise
    context = context_of(name, arguments)
    context.unit()
    with context.open(rows, lambda: public_key(public)) as session:
        asked = range(1 + _levels(session, rows.sizes)) if columns is None else columns
        release = session.answer(row_counts(MarginalCells(rows.sizes, tuple(asked)), "marginal"))
        noise = Noise(float(np.max(release.std)), session.pure)
        privacy = session.certificate()
    return _Counts(np.array(release.value, dtype=np.float64), noise, privacy, *classes)


def _levels(session: Session, sizes: tuple[int, ...]) -> int:
    """Return how many levels of the tree of scores make the interval of an AUC short.

    With m cells, pairs within a cell widen the interval by about .65 / m, and noise by about
    3.3 s sqrt(m) / n, where s is the noise of a count, if both classes have n / 2 rows. The sum is
    least where m^1.5 = .4 n / s. Half or a fifth of that, as noise also moves the value: it is more
    where a class is rare. If all scores lie in a part of the cells, pairs are as many as if there
    were so many fewer cells.
    """
    n = row_count(session, _COUNT_SHARE)
    cells = (n / (12 * Allowance.left(session).cell_std)) ** (2 / 3)
    if cells >= _ENOUGH:
        query = row_counts(MarginalCells(sizes, _COARSE), "classes and scores in wide cells")
        release = session.answer(query, _COUNT_SHARE)
        std = float(np.max(release.std))
        table = np.reshape(release.value, (sizes[0], -1))[:2]
        least = max(std * math.sqrt(table.shape[1]), 1.0)
        rare, other = np.sort(np.maximum(table.sum(axis=1), least))
        rarity = math.sqrt(8) * rare * other / math.hypot(rare, other) / (rare + other)
        squares = np.sum(np.square(table.sum(axis=0)) - 2 * std**2) / (rare + other) ** 2
        part = 1 / (table.shape[1] * max(float(squares), 1 / table.shape[1]))
        cells = (n * rarity / (5 * Allowance.left(session).cell_std * part)) ** (2 / 3)
    level = round(math.log2(max(cells, 1.0) / _LEVELS[0]))
    return 1 + min(max(level, 0), len(_LEVELS) - 1)


def _released_counts(values: Floats, counts: _Counts) -> Released:
    """Return counts as numbers with a standard error."""
    std = np.full(values.shape, counts.noise.std)
    errors = Source.of_session(counts.privacy, std, uncorrelated=True)
    return Released(values, std, counts.privacy, errors=errors)


def _outcomes(columns: tuple[int, ...], name: str, arguments: Mapping[str, Any]) -> _Counts:
    classes = _classes(arguments["labels"])
    rows = check_outcomes(
        arguments["y_true"], arguments["y_pred"], estimator=name, classes=classes[0]
    )
    return _counted(name, arguments, rows, columns, classes)


def _share(
    counts: Any, part: Any, other: Any, cells: Any = 1, others: Any = 1, *, mean: bool = False
) -> Released:
    """Return part / (part + other), sums of so many noisy counts, or the mean of such shares."""
    noise: Noise = counts.noise
    value = proportion_equation(part, other, cells, others, noise.std, sampled=False).root
    limits = _mean_limits if mean else proportions
    ends = partial(limits, part, other, cells, others, noise)
    return released_metric(value.mean() if mean else value, ends, counts.privacy)


def _mean_limits(
    part: Floats, other: Floats, cells: Any, others: Any, noise: Noise, level: float, sampled: bool
) -> Pair:
    """Return the ends of a mean of independent shares from those of each share.

    If every class is clear of noise, squared distances to the ends add up (Zou & Donner 2008), for
    shares that are not clipped to [0, 1]. Otherwise the ends are the means of joint intervals.
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
            math.sqrt(sum(float(np.sum(np.square(ends[0] - ends[side]))) for ends in parts)) / size
            for side in (1, 2)
        )
        inside = np.clip(equation.root.mean(), 0.0, 1.0)
        return np.maximum(inside - down, 0.0), np.minimum(inside + up, 1.0)
    low, high = proportions(part, other, cells, others, noise, level ** (1.0 / size), sampled)
    return low.mean(), high.mean()


# --- confusion matrices ---------------------------------------------------------------------------


@shared_texts
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

    def accuracy(self) -> Released:
        """Return the share of rows that are predicted correctly.

        Only rows whose true and predicted labels are among the classes count. `accuracy_score` has
        less noise.
        """
        counts, size = self.counts.value, len(self.labels)
        right = np.trace(counts)
        return _share(self, right, counts.sum() - right, size, size * size - size)

    def balanced_accuracy(self) -> Released:
        """Return the mean of the recalls of all classes.

        Returns
        -------
        balanced_accuracy : Released
            NaN if noise hides a class.
        """
        return self._shares(axis=1, mean=True)

    def recall(self) -> Released:
        """Return, for each class, the share of its rows that are predicted correctly.

        Returns
        -------
        recall : Released
            Of shape (n_classes,). The intervals hold individually, not jointly.
        """
        return self._shares(axis=1)

    def precision(self) -> Released:
        """Return, for each class, the share of the predictions of this class that are correct.

        Returns
        -------
        precision : Released
            Of shape (n_classes,). The intervals hold individually, not jointly.
        """
        return self._shares(axis=0)

    def _shares(self, *, axis: int, mean: bool = False) -> Released:
        counts = self.counts.value
        right = counts.diagonal()
        other = counts.sum(axis=axis) - right
        return _share(self, right, other, 1, len(self.labels) - 1, mean=mean)


@documented
def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> ConfusionMatrix:
    """Return how many held-out private rows have each pair of true and predicted class.

    {predictions}

    Returns
    -------
    matrix : ConfusionMatrix
        Rows with a label that is not among the classes are left out.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: a count for each pair of classes.
    {counts}
    {public_model}

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
    counts = _outcomes((_TRUE, _PREDICTED), "confusion_matrix", locals())
    values = counts.values[np.ix_(counts.order, counts.order)]
    released = _released_counts(values, counts)
    return ConfusionMatrix(released, counts.classes[counts.order], counts.privacy, counts.noise)


@documented
@parameters_of(confusion_matrix, partial(_outcomes, (_RIGHT,)))
def accuracy_score(counts: _Counts) -> Released:
    """Return the share of held-out private rows that are predicted correctly.

    {predictions}

    Returns
    -------
    accuracy : Released
        A row whose label is not among the classes counts as predicted wrongly. NaN if noise hides
        all rows.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: how many rows are predicted correctly, and how many wrongly.
    {counts}
    {public_model}

    Examples
    --------
    >>> from skdp import metrics
    >>> accuracy = metrics.accuracy_score([0, 0, 1, 1] * 500, [0, 0, 0, 1] * 500, labels=[0, 1])
    >>> bool(abs(float(accuracy) - 0.75) < 0.02)
    True
    """
    wrong, right = counts.values
    return _share(counts, right, wrong)


@documented
@parameters_of(confusion_matrix, partial(_outcomes, (_TRUE, _RIGHT)))
def balanced_accuracy_score(counts: _Counts) -> Released:
    """Return the mean, over classes, of the share of private rows that are predicted correctly.

    {predictions}

    Returns
    -------
    balanced_accuracy : Released
        Rows whose true label is not among the classes are left out. NaN if noise hides a class. For
        a class without rows, the interval allows any share.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: for each class, how many rows are predicted correctly and wrongly.
    {counts}
    {public_model}

    Examples
    --------
    >>> from skdp import metrics
    >>> balanced = metrics.balanced_accuracy_score(
    ...     [0, 0, 0, 1] * 500, [0, 0, 0, 0] * 500, labels=[0, 1]
    ... )
    >>> bool(abs(float(balanced) - 0.5) < 0.02)
    True
    """
    wrong, right = counts.values[: len(counts.classes)].T
    return _share(counts, right, wrong, mean=True)


# --- scores ---------------------------------------------------------------------------------------


def _auc_equation(
    positive: Floats, negative: Floats, std: float, ties: float, sampled: bool = False
) -> Equation:
    """Return the equation of the share of pairs in which the positive row has the larger score.

    Pairs within a cell count as `ties`. The variance is computed from noisy counts, so it is too
    large on average. With `sampled` the largest variance of an AUC is added: theta (1 - theta) over
    the smaller class (Birnbaum & Klose 1957).
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
    if not (positive.sum() > 0 and negative.sum() > 0):
        return np.array(0.0), np.array(1.0)
    width, std = noise.width(level), noise.reach(level)
    lost, won = (_auc_equation(positive, negative, std, ties, sampled) for ties in (0.0, 1.0))
    return lost.interval(width, 0.0, 1.0)[0], won.interval(width, 0.0, 1.0)[1]


def _rate_limits(
    part: Floats, other: Floats, cells: NDArray, noise: Noise, level: float, sampled: bool
) -> Pair:
    """Return the ends of shares of a class, of which the first is 0 and the last is 1."""
    low, high = proportions(part, other, cells, cells[::-1], noise, level, sampled)
    low[0] = high[0] = 0.0
    low[-1] = high[-1] = 1.0
    return low, high


@documented
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

    def roc_auc(self) -> Released:
        """Return the area under the ROC curve.

        Returns
        -------
        auc : Released
            The value counts pairs of rows in the same cell as ties. The interval is for the exact
            scores, so it is at least as long as the share of such pairs.
        """
        negative, positive = self._sides
        value = _auc_equation(positive, negative, self.noise.std, 0.5).root
        if not (positive.sum() > 0 and negative.sum() > 0):
            value = np.array(np.nan)
        limits = partial(_auc_limits, positive, negative, self.noise)
        note = "the interval allows for pairs within a cell, the value counts them as ties"
        return released_metric(np.clip(value, 0.0, 1.0), limits, self.privacy, note)

    def roc_curve(self) -> tuple[Released, Released, Floats]:
        """Return the ROC curve at the edges of the cells.

        Returns
        -------
        fpr, tpr : Released
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

    def _rate(self, counts: Floats) -> Released:
        """Return the shares of a class's rows from each edge on, the last edge first."""
        cells = np.arange(len(counts) + 1)
        part = np.concatenate([[0.0], np.cumsum(counts[::-1])])
        shares = _share(self, part, counts.sum() - part, cells, cells[::-1]).value
        # The curve must rise: the middle between the largest rate before and the smallest after.
        rates = np.clip(np.nan_to_num(shares, nan=0.5), 0.0, 1.0)
        above = np.maximum.accumulate(rates)
        under = np.minimum.accumulate(rates[::-1])[::-1]
        value = np.where(np.isnan(shares), np.nan, (above + under) / 2)
        value[0], value[-1] = 0.0, 1.0
        limits = partial(_rate_limits, part, counts.sum() - part, cells, self.noise)
        return released_metric(value, limits, self.privacy)

    def calibration_curve(self, n_bins: int | None = None) -> tuple[Released, Floats, Floats]:
        """Return the share of positive rows in each cell of the scores.

        Parameters
        ----------
        n_bins : int, default=None
            Join neighbouring cells into this number of bins, which must divide the number of cells.
            None: keep the cells.

        Returns
        -------
        {calibration}

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
        width = size // int(wanted)
        negative, positive = (side.reshape(-1, width).sum(axis=1) for side in self._sides)
        edges = self.edges[::width].copy()
        shares = _share(self, positive, negative, width, width)
        low, high = shares.interval()
        value = np.where((low <= 0) & (high >= 1), np.nan, shares.value)  # noise hides the rows
        return replace(shares, value=value), (edges[:-1] + edges[1:]) / 2, edges

    def accuracy(self, threshold: float = 0.5) -> Released:
        """Return the accuracy of predicting "positive" for scores of at least a threshold.

        {threshold}

        Returns
        -------
        accuracy : Released
            `accuracy_score` has less noise.

        {no_edge}
        """
        k, size = self._place(threshold), len(self.edges) - 1
        negative, positive = self._sides
        right = positive[k:].sum() + negative[:k].sum()
        wrong = positive[:k].sum() + negative[k:].sum()
        return _share(self, right, wrong, size, size)

    def balanced_accuracy(self, threshold: float = 0.5) -> Released:
        """Return the balanced accuracy of predicting "positive" for scores of at least a threshold.

        {threshold}

        {no_edge}
        """
        k, size = self._place(threshold), len(self.edges) - 1
        negative, positive = self._sides
        right = np.array([negative[:k].sum(), positive[k:].sum()])
        wrong = np.array([negative[k:].sum(), positive[:k].sum()])
        cells, others = np.array([k, size - k]), np.array([size - k, k])
        return _share(self, right, wrong, cells, others, mean=True)

    def _place(self, threshold: Any) -> int:
        real = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
        near = np.flatnonzero(np.isclose(self.edges, float(threshold) if real else np.nan))
        if not near.size:
            raise ValueError("threshold must be one of the edges of the cells; see .edges")
        return int(near[0])


def _bins(bins: Any, *, even: bool) -> Bins:
    """Return the cells of scores, if not `even` of equal widths of arcsin(sqrt(score)).

    These are finer towards 0 and 1, where scores lie close together: fewer pairs share a cell.
    """
    if not even and isinstance(bins, str) and bins == _AUTO:
        bins = math.prod(_LEVELS)
    auto = "" if even else f"{_AUTO!r}, "
    problem = f"bins must be {auto}a number of cells from 2 to {_MOST_BINS}, or edges that increase"
    if isinstance(bins, numbers.Integral) and not isinstance(bins, bool):
        if not 2 <= int(bins) <= _MOST_BINS:
            raise ValueError(f"{problem}; got {shown(bins)}")
        part = np.linspace(0.0, 1.0, int(bins) + 1)
        return Bins(part if even else np.round(np.sin(np.pi / 2 * part) ** 2, 12))
    check_length(bins, "bins")
    try:
        cells = Bins(bins)
    except TypeError:
        raise TypeError(problem) from None
    except (ValueError, OverflowError):
        raise ValueError(problem) from None
    if not 2 <= cells.size <= _MOST_BINS:
        raise ValueError(f"{problem}; got {cells.size} cells")
    return cells


def _histogram(name: str, arguments: Mapping[str, Any], even: bool = False) -> ScoreHistogram:
    """Charge, and release the counts of scores under the name of a function."""
    classes = _classes(arguments["labels"], exactly=2)
    bins = arguments["bins"]
    grid = _bins(bins, even=even)
    auto = isinstance(bins, str)
    y_true, y_score = arguments["y_true"], arguments["y_score"]
    levels = _LEVELS if auto else (grid.size,)
    rows = check_scores(
        y_true, y_score, estimator=name, classes=classes[0], bins=grid, levels=levels
    )
    asked = None if auto else (0, 1)
    counts = _counted(name, arguments, rows, asked, classes, bins if auto else grid.edges.tolist())
    values = counts.values.reshape(len(counts.values), -1)[counts.order]
    edges = grid.edges[:: grid.size // values.shape[1]]
    labels = counts.classes[counts.order]
    released = _released_counts(values, counts)
    return ScoreHistogram(released, edges, labels, counts.privacy, counts.noise)


@documented
def score_histogram(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    bins: Any = _AUTO,
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> ScoreHistogram:
    """Return how many held-out private rows of each class have a score in each cell.

    The ROC curve, its area, calibration and accuracies can be computed from it, all for one charge.

    {histogram}

    {raises}

    Notes
    -----
    **Privacy.** *Released*: a count for each class and cell; before it, with ``bins="auto"``, the
    number of rows.
    {counts}
    The model must be public, or trained privately, and each score must depend on its own row alone.

    Examples
    --------
    {scored}
    >>> histogram = metrics.score_histogram(y, score, labels=[0, 1])
    >>> auc, (prob_true, prob_pred, edges) = histogram.roc_auc(), histogram.calibration_curve(10)
    >>> bool(abs(float(auc) - 0.83) < 0.05), prob_true.value.shape
    (True, (10,))
    """
    return _histogram("score_histogram", locals())


@documented
@parameters_of(score_histogram, _histogram)
def roc_auc_score(histogram: ScoreHistogram) -> Released:
    """Return the area under the ROC curve of held-out private rows.

    {histogram}

    Returns
    -------
    auc : Released
        The value counts pairs of rows in the same cell as ties; the interval allows for them. NaN
        if noise hides a class.

    {raises}

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `score_histogram`, which also gives
    the curve and calibration at the same cost.

    Examples
    --------
    {scored}
    >>> auc = metrics.roc_auc_score(y, score, labels=[0, 1])
    >>> bool(abs(float(auc) - 0.83) < 0.05)
    True
    """
    return histogram.roc_auc()


@documented
@parameters_of(score_histogram, _histogram)
def roc_curve(histogram: ScoreHistogram) -> tuple[Released, Released, Floats]:
    """Return the ROC curve of held-out private rows at the edges of the cells.

    {histogram}

    Returns
    -------
    fpr, tpr : Released
        Of shape (n_bins + 1,), rising from 0 to 1.
    thresholds : ndarray of shape (n_bins + 1,)
        In decreasing order; the first is infinite.

    {raises}

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `score_histogram`, which also gives
    the area and calibration at the same cost.

    Examples
    --------
    {scored}
    >>> fpr, tpr, thresholds = metrics.roc_curve(y, score, labels=[0, 1], bins=10)
    >>> tpr.value.shape, thresholds.shape
    ((11,), (11,))
    """
    return histogram.roc_curve()


@documented
@parameters_of(score_histogram, partial(_histogram, even=True), bins=10)
def calibration_curve(histogram: ScoreHistogram) -> tuple[Released, Floats, Floats]:
    """Return the share of positive rows among held-out private rows with similar scores.

    Parameters
    ----------
    {y_true}
    {scores}
    bins : int or array-like of float, default=10
        The number of cells of equal width from 0 to 1, or public edges in increasing order. A score
        outside the edges counts in the nearest cell.
    {privacy}

    Returns
    -------
    {calibration}

    {raises}

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `score_histogram`, which also gives
    the ROC curve at the same cost.

    Examples
    --------
    {scored}
    >>> prob_true, prob_pred, edges = metrics.calibration_curve(y, score, labels=[0, 1], bins=5)
    >>> bool(np.abs(prob_true.value - prob_pred).max() < 0.1)
    True
    """
    return histogram.calibration_curve()
