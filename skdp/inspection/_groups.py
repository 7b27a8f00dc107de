"""`evaluate_by`: how wrong a model or a synthetic table is in each group of private rows.

Released are counts and means by group, by `DPGroupBy`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor

from skdp.aggregation import DPGroupBy
from skdp.budget import PrivacyBudget
from skdp.confidence import Released
from skdp.core import PrivacyCertificate
from skdp.exceptions import outside_level
from skdp.inspection._budget import Display, documented
from skdp.parameters import Reals, check_parameter, rows_in
from skdp.tabular import cell_key
from skdp.user_code import or_raise, suppress_warnings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PRIVATE = "private"
_UNIT = "unit"  # the column of `groups`
_KNOWN = 0.95  # the level of the intervals for populations
_NAMES = {
    "error": "error rate",
    "calibration_gap": "predicted probability less share of rows",
    "mean_error": "mean of prediction less target",
    "absolute_error": "mean absolute error",
    "count_error": "synthetic rows, scaled, less private rows",
    "count": "rows",
}
_UNKNOWN = (
    "evaluate_by: model must be a fitted classifier or regressor, a fitted synthesiser with "
    "database_, or a synthetic table, got {}"
)
_FAILED = (
    "evaluate_by: the model could not predict the private rows, or y is not as long, or a target "
    "no number; the message may quote cells, so it is not shown. Try model.predict on public rows "
    "with the same columns"
)
_NO_MATCH = (
    "evaluate_by: none of the released groups is among the synthetic rows: the columns may have "
    "other types"
)


@documented
@dataclass(eq=False)
class GroupEvaluation(Display):
    """Errors of a model, or of a synthetic table, by group; made by `evaluate_by`.

    Attributes
    ----------
    metrics : dict of str to Released
        The metrics and ``"count"``, with an entry for each group and the groups as labels.
    privacy : skdp.core.PrivacyCertificate
    ax_, figure_ : matplotlib Axes and Figure
        Those of the last plot.
    """

    metrics: dict[str, Released]
    privacy: PrivacyCertificate

    def __str__(self) -> str:
        return str(self.to_frame())

    def __getitem__(self, name: str) -> Released:
        return self.metrics[name]

    @property
    def groups(self) -> list[Any]:
        """The groups: values of `by`, or tuples of several columns."""
        labels = list(self.metrics["count"].labels.values())
        return list(labels[0]) if len(labels) == 1 else list(zip(*labels, strict=True))

    def to_frame(self, level: float = 0.95) -> Any:
        """Return a pandas DataFrame, a row for each group: its metrics and their intervals.

        Parameters
        ----------
        level : float, default=0.95
            Of the intervals. Those for the population are known at 0.95 alone.

        Returns
        -------
        frame : pandas.DataFrame
            Of each metric ``m`` columns ``m``, ``m_low`` and ``m_high`` (noise alone), and
            ``m_population_low`` and ``m_population_high`` (with sampling).
        """
        import pandas as pd

        labels = self.metrics["count"].labels
        columns: dict[str, Any] = {}
        for name, metric in self.metrics.items():
            columns[name] = metric.value
            ends = [("", metric.interval(level))]
            if metric.limits.of_population and level == _KNOWN:
                ends.append(("_population", metric.population_interval(level)))
            for of, (low, high) in ends:
                columns |= {f"{name}{of}_low": low, f"{name}{of}_high": high}
        index = [pd.Index(values, name=name) for name, values in labels.items()]
        return pd.DataFrame(
            columns, index=index[0] if len(index) == 1 else pd.MultiIndex.from_arrays(index)
        )

    def _repr_html_(self) -> str:
        html: str = self.to_frame()._repr_html_()
        return html

    _metric = ""
    _ends: Any = None

    def plot(
        self, metric: str | None = None, *, population: bool = True, ax: Axes | None = None
    ) -> GroupEvaluation:
        """Draw a metric with its 95% interval for each group, and its mean over all rows.

        Parameters
        ----------
        metric : str, default=None
            A key of `metrics`; None: the first one.
        population : bool, default=True
            Draw intervals for the population where they are known, else those for noise alone.
        {plotted}
        """
        self._metric = next(iter(self.metrics)) if metric is None else metric
        chosen = self.metrics[self._metric]
        sampled = population and chosen.limits.of_population
        self._ends = chosen.population_interval() if sampled else chosen.interval()
        return super().plot(ax=ax)

    def _draw(self) -> None:
        value, counts = self.metrics[self._metric].value, self.metrics["count"].value
        places = np.arange(len(value))
        low, high = self._ends
        self.ax_.hlines(places, low, high, color="tab:blue", linewidth=2)
        self.ax_.plot(value, places, "o", color="tab:blue")
        if self._metric in ("count", "count_error"):
            self.ax_.axvline(0.0, color="0.6", linestyle="--", linewidth=1)
        else:
            weights = np.maximum(counts, 0.0)
            if weights.any() and np.isfinite(value).all():
                mean = float(np.average(value, weights=weights))
                self.ax_.axvline(mean, color="0.6", linestyle="--", linewidth=1)
        self.ax_.set_yticks(places, [f"{group}" for group in self.groups])
        self.ax_.invert_yaxis()
        self.ax_.locator_params(axis="x", nbins=6)
        self.ax_.set_xlabel(_NAMES[self._metric])


@documented
def evaluate_by(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    by: Any,
    keys: Any = _PRIVATE,
    max_error: Any = _PRIVATE,
    groups: Any = None,
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> GroupEvaluation:
    """Release how wrong a model is in each group of private rows, with intervals.

    Parameters
    ----------
    model : estimator or table
        A fitted classifier or regressor, public or private itself. Or a fitted synthesiser with
        ``database_``, or a public table of synthetic rows: then only counts are compared.
    X : table or array-like of shape (n_samples, n_features)
        Private rows, which the model has not seen.
    y : array-like of shape (n_samples,), default=None
        Their private labels or targets.
    by : str, list of str or array-like of shape (n_samples,)
        Columns of X whose values are the groups, or the private group of each row. Columns that the
        model was not fitted with are kept from it.
    keys : "private", list or dict, default="private"
        All groups, from public knowledge, as `DPGroupBy` takes them. ``"private"`` shows those with
        enough rows, which needs a delta.
    max_error : "private" or float, default="private"
        Of a regressor: what errors are clipped to, from public knowledge. ``"private"`` learns it.
    groups : array-like of shape (n_samples,), default=None
        Ids of units: all rows of one id are protected together.

    Returns
    -------
    evaluation : GroupEvaluation
        Of a classifier ``"error"``, the error rate, and ``"calibration_gap"``, the mean predicted
        probability of the second class less the share of its rows (of several classes: the mean
        probability of the predicted class less the accuracy). Of a regressor ``"mean_error"``, of
        predictions less targets, and ``"absolute_error"``. Of a synthetic table ``"count_error"``,
        the number of its rows less that of X; its rows are scaled so that the groups (those whose
        count has a standard error) have as many together as their noisy counts say of X. And
        ``"count"``, the number of rows.

    Raises
    ------
    TypeError, ValueError
        Before anything is charged: if an argument is out of range, or the model cannot predict.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot pay the cost.

    See Also
    --------
    skdp.statistics.compare : Differences of groups with p-values, as in
        ``compare(evaluation["error"])``.

    Notes
    -----
    **Privacy.** *Released*: by `skdp.aggregation.DPGroupBy` a count of each group, and the sums and
    spreads of the losses of its rows, each loss a bounded number of one row; groups and bounds if
    they are not stated. *Sensitivity*, *mechanism*: those of `DPGroupBy`. *Charged*: at most
    (epsilon, delta), as "DPGroupBy". Each prediction must depend on its own row alone. Whether
    `predict` fails on the rows is not private.

    Intervals hold for each group by itself. A small group has a wide interval, which may be all
    that there is to say of it: rows that noise hides are NaN or anything. A calibration gap of 0
    may hide gaps of both signs: see `PrivateCalibrationDisplay`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPLogisticRegression
    >>> from skdp.inspection import evaluate_by
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> region = rng.choice(["north", "south"], 20_000)
    >>> y = np.where(region == "north", X[:, 0] > 0, rng.random(20_000) < 0.5)
    >>> model = DPLogisticRegression(bounds=(-1, 1), classes=[False, True], random_state=0)
    >>> model = model.fit(X[:10_000], y[:10_000])
    >>> test = slice(10_000, None)
    >>> evaluation = evaluate_by(
    ...     model, X[test], y[test], by=region[test], keys=["north", "south"]
    ... )
    >>> north, south = evaluation["error"].value
    >>> bool(north < 0.2), bool(0.4 < south < 0.6)
    (True, True)
    """
    stated = None
    if not (isinstance(max_error, str) and max_error == _PRIVATE):
        stated = float(check_parameter(max_error, "max_error", Reals(0.0, 1e100, "(]")))
    names, table = _group_columns(X, by)
    synthetic = None
    bounds: Any = {}
    if hasattr(model, "database_") or not hasattr(model, "predict"):
        synthetic = _synthetic_groups(model, names, by)
    elif is_classifier(model) or is_regressor(model):
        if y is None:
            raise ValueError("evaluate_by: y must be the labels or targets of the rows")
        # What goes wrong may quote cells.
        features, y = _features(model, X, names, by), np.asarray(y)
        losses, bounds = or_raise(
            lambda: _losses(model, features, y, stated), lambda: ValueError(_FAILED)
        )
        table |= losses
    else:
        raise TypeError(_UNKNOWN.format(type(model).__name__))
    if groups is not None:
        table[_UNIT] = groups
    aggregates: dict[str, Any] = {name: ("mean", name) for name in bounds}
    by_group = DPGroupBy(
        names,
        None if groups is None else _UNIT,
        epsilon=epsilon,
        delta=delta,
        keys=keys,
        bounds={name: ends for name, ends in bounds.items() if ends is not None} or _PRIVATE,
        budget=budget,
        random_state=random_state,
    )
    by_group = by_group.agg(**aggregates, count="count").fit(table)
    metrics = dict(by_group.released_)
    if synthetic is not None:
        own = np.array([synthetic.get(group, 0.0) for group in by_group.keys_])
        if own.size and synthetic and not own.any():
            warnings.warn(_NO_MATCH, stacklevel=outside_level())
        counts = metrics["count"]
        known = np.isfinite(counts.std)  # of a learned group that just showed, it is not
        scaled = counts[known].sum() * (own / max(float(own[known].sum()), 1.0))
        metrics = {"count_error": (scaled - counts).labelled(counts.labels)} | metrics
    return GroupEvaluation(metrics, by_group.privacy_)


def _group_columns(X: Any, by: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the group columns, and the columns."""
    if isinstance(by, str):
        by = [by]
    if isinstance(by, list) and by and all(isinstance(name, str) for name in by):
        has = list(getattr(X, "column_names", getattr(X, "columns", [])))
        if set(by) <= set(has):
            return by, {name: X[name] for name in by}
        if len(by) != rows_in(X):
            raise ValueError(
                f"evaluate_by: by must name columns of X, or have its length; got {len(by)} for "
                f"{rows_in(X)} rows"
            )
    return ["group"], {"group": np.asarray(by) if isinstance(by, list) else by}


def _features(model: Any, X: Any, names: list[str], by: Any) -> Any:
    """Return the columns that a model was fitted with, where others are among those of groups."""
    known = getattr(model, "feature_names_in_", None)
    if known is None or names == ["group"] or set(names) <= set(known):
        return X
    return X.select(list(known)) if hasattr(X, "column_names") else X[list(known)]


def _losses(
    model: Any, X: Any, y: NDArray, max_error: float | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the losses of each row by metric, and their bounds (None: to be learned)."""

    def called(method: str) -> NDArray:
        with suppress_warnings():  # their text, or whether there are any, may depend on the rows
            return np.asarray(getattr(model, method)(X))

    predicted = called("predict")
    if is_regressor(model):
        error = np.asarray(predicted, dtype=np.float64) - np.asarray(y, dtype=np.float64)
        losses = {"mean_error": error, "absolute_error": np.abs(error)}
        if max_error is None:
            return losses, dict.fromkeys(losses)
        return losses, {"mean_error": (-max_error, max_error), "absolute_error": (0.0, max_error)}
    wrong = 1.0 - _equal(y, predicted)
    losses, bounds = {"error": wrong}, {"error": (0.0, 1.0)}
    if hasattr(model, "predict_proba"):
        chances, classes = called("predict_proba"), model.classes_
        if len(classes) == 2:
            gap = chances[:, 1] - _equal(y, np.broadcast_to(classes[1], len(y)))
        else:
            gap = chances.max(axis=1) - _equal(y, classes[chances.argmax(axis=1)])
        losses["calibration_gap"], bounds["calibration_gap"] = gap, (-1.0, 1.0)
    return losses, bounds


def _equal(y: NDArray, labels: NDArray) -> NDArray[np.float64]:
    """Return 1.0 where a row has this label, 0.0 elsewhere and where it has none."""
    if y.dtype != object:
        return (y == labels).astype(np.float64)
    pairs = zip(y.tolist(), labels.tolist(), strict=True)
    return np.array([cell_key(cell) == cell_key(label) for cell, label in pairs], dtype=np.float64)


def _synthetic_groups(model: Any, names: list[str], by: Any) -> Mapping[Any, int]:
    """Return how many synthetic rows each group has."""
    rows = getattr(model, "database_", model)
    if not hasattr(rows, "columns") and not hasattr(rows, "column_names"):
        raise TypeError(_UNKNOWN.format(type(model).__name__))
    columns = [np.asarray(rows[name]).tolist() for name in names]
    return Counter(columns[0] if len(columns) == 1 else zip(*columns, strict=True))
