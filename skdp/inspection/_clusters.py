"""Fitted attributes: cluster centres (plane, picture, table) and principal components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from skdp._docstrings import shared_texts
from skdp.budget.reports.html import html_table
from skdp.impute import DPSimpleImputer
from skdp.inspection._budget import Display, Floats, documented
from skdp.preprocessing import DPMinMaxScaler, DPRobustScaler, DPStandardScaler

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAP_COLORS = "tab20"
_LETTERS = 60  # of all names of columns, above which they are turned
_CLEAR = 4.0  # standard errors from the mean of the centres: darkest
_MOSTLY_NOISE = 0.5  # part of a standard error: noise below it is shown by itself


def _with_error(value: float, error: float) -> str:
    """Return a centre and its error, both to the second digit of the error."""
    if not np.isfinite(error):
        return f"{value:.4g}"
    if not 1e-9 < error < 1e9:
        return f"{value:.4g}\n± {error:.2g}"
    digits = 1 - int(np.floor(np.log10(error)))
    shown = [f"{round(x, digits):,.{max(digits, 0)}f}" for x in (value, error)]
    return "\n± ".join(shown)


def _released_centers(estimator: Any) -> Floats:
    check_is_fitted(estimator, "cluster_centers_")
    return np.array(estimator.cluster_centers_, dtype=np.float64)


def _mapped_back(
    steps: Pipeline, centers: Floats, errors: Sequence[Floats | None]
) -> tuple[Floats, list[Floats | None]]:
    """Return centres, and standard errors, in the units of the input of some steps.

    A standard error is how far its centre moves, in its own column. It is unknown if steps mix
    columns.
    """
    back = np.asarray(steps.inverse_transform(centers), dtype=np.float64)
    alone = all(isinstance(step, OneToOneFeatureMixin) for _, step in steps.steps)

    def moved(std: Floats | None) -> Floats | None:
        if std is None or not alone:
            return None
        ends = [np.asarray(steps.inverse_transform(centers + side * std)) for side in (-1, 1)]
        return np.max([np.abs(end - back) for end in ends], axis=0)

    return back, [moved(std) for std in errors]


@documented
class ClusterDisplay(Display):
    """Released centres in a plane, and the region that is nearest to each of them.

    The regions are computed from the centres on a public grid; no row is drawn. Centres are
    numbered as ``predict`` numbers them.

    Parameters
    ----------
    centers : array-like of shape (n_clusters, 2)
        The released centres.
    predict : callable
        Function from points of shape (m, 2) to cluster indices of shape (m,).
    extent : tuple of float, default=None
        ``(x_low, x_high, y_low, y_high)`` of the plot. By default the centres and a margin.

    {attributes}

    Examples
    --------
    >>> from skdp import DPKMeans
    >>> from skdp.inspection import ClusterDisplay
    >>> X = [[0.1, 0.1], [0.9, 0.9]] * 500
    >>> kmeans = DPKMeans(2, epsilon=1.0, bounds=(0, 1), random_state=0).fit(X)
    >>> ClusterDisplay.from_estimator(kmeans, extent=(0, 1, 0, 1)).extent
    (0.0, 1.0, 0.0, 1.0)
    """

    def __init__(
        self,
        centers: Any,
        predict: Callable[[Floats], Any],
        extent: Sequence[float] | None = None,
    ) -> None:
        self.centers: Floats = np.asarray(centers, dtype=np.float64)
        if self.centers.ndim != 2 or self.centers.shape[1] != 2:
            raise ValueError(
                f"centers must have shape (n_clusters, 2), got {self.centers.shape}; "
                "CentersDisplay shows centres of any number of features."
            )
        self.predict = predict
        if extent is None:
            low, high = self.centers.min(axis=0), self.centers.max(axis=0)
            margin = 0.25 * np.where(high > low, high - low, 1.0)
            (x0, y0), (x1, y1) = low - margin, high + margin
        else:
            x0, x1, y0, y1 = extent
            if not (x0 < x1 and y0 < y1):
                raise ValueError("extent must be (x_low, x_high, y_low, y_high), low below high.")
        self.extent = (float(x0), float(x1), float(y0), float(y1))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        extent: Sequence[float] | None = None,
        ax: Axes | None = None,
    ) -> ClusterDisplay:
        """Plot the clusters of a fitted estimator of two features.

        Parameters
        ----------
        estimator : object
            A fitted estimator with ``cluster_centers_`` of shape (n_clusters, 2) and ``predict``.
        extent : tuple of float, default=None
            ``(x_low, x_high, y_low, y_high)`` of the plot.
        {plotted}
        """
        display = cls(_released_centers(estimator), estimator.predict, extent)
        return display.plot(ax=ax)

    def _draw(self) -> None:
        x0, x1, y0, y1 = self.extent
        steps = 300
        middles = (np.arange(steps) + 0.5) / steps  # of the pixels of the image below
        grid = np.stack(np.meshgrid(x0 + (x1 - x0) * middles, y0 + (y1 - y0) * middles), axis=-1)
        regions = np.asarray(self.predict(grid.reshape(-1, 2))).reshape(steps, steps)
        self.ax_.imshow(
            regions % 20,
            extent=self.extent,
            origin="lower",
            aspect="auto",
            cmap=_MAP_COLORS,
            vmin=-0.5,
            vmax=19.5,
            alpha=0.45,
            interpolation="nearest",
        )
        for number, (cx, cy) in enumerate(self.centers):
            self.ax_.annotate(
                str(number),
                (cx, cy),
                ha="center",
                va="center",
                fontsize=9,
                annotation_clip=True,
                bbox={"boxstyle": "circle,pad=0.25", "fc": "white", "ec": "black", "lw": 0.8},
            )


@documented
class CentersDisplay(Display):
    """A table of released centres with their standard errors.

    A cell is the darker, the further its centre is from the mean of all centres in that column,
    counted in standard errors: up to four of them. A white cell may be noise, or rows far out
    that noise hides. Where noise is less than half of the standard error, it is shown, too: the
    rest is what clipping to `bounds_` and to residuals may hide, and falls with tighter bounds.

    Parameters
    ----------
    centers : array-like of shape (n_clusters, n_features)
        The centres, in the units to be shown.
    feature_names : sequence of str, default=None
        Names of the columns; ``x0``, ``x1``, ... by default.
    std : array-like of shape (n_clusters, n_features), default=None
        Standard errors of the centres; NaN where they are not known. None: no cell is shaded.
    noise_std : array-like of shape (n_clusters, n_features), default=None
        The parts of the standard errors that are noise alone, if they are known.

    {attributes}

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import DPKMeans, DPMinMaxScaler
    >>> from skdp.inspection import CentersDisplay
    >>> X = [[10.0, 100.0], [90.0, 900.0]] * 500
    >>> pipe = make_pipeline(
    ...     DPMinMaxScaler(bounds=([0, 0], [100, 1000])),
    ...     DPKMeans(2, epsilon=1.0, bounds=(0, 1), random_state=0),
    ... ).fit(X)
    >>> display = CentersDisplay.from_estimator(pipe, feature_names=["minutes", "miles"])
    >>> display.centers.shape
    (2, 2)
    """

    def __init__(
        self,
        centers: Any,
        feature_names: Sequence[str] | None = None,
        std: Any = None,
        noise_std: Any = None,
    ) -> None:
        self.centers: Floats = np.asarray(centers, dtype=np.float64)
        if self.centers.ndim != 2:
            raise ValueError(
                f"centers must have shape (n_clusters, n_features), got {self.centers.shape}."
            )
        width = self.centers.shape[1]
        names = [f"x{i}" for i in range(width)] if feature_names is None else feature_names
        if len(names) != width:
            raise ValueError(f"feature_names must hold {width} names, got {len(names)}.")
        self.feature_names = tuple(str(name) for name in names)
        self.std = self._errors("std", std)
        self.noise_std = self._errors("noise_std", noise_std)

    def _errors(self, name: str, values: Any) -> Floats:
        """Return errors of the centres' shape, NaN where there are none."""
        if values is None:
            return np.full(self.centers.shape, np.nan)
        errors = np.asarray(values, dtype=np.float64)
        if errors.shape != self.centers.shape:
            raise ValueError(f"{name} must have shape {self.centers.shape}, got {errors.shape}.")
        return errors

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> CentersDisplay:
        """Tabulate the centres of a fitted estimator, or of a pipeline that ends in one.

        The centres of a pipeline are mapped back by ``inverse_transform`` of the steps before the
        last, to the units of the pipeline's input. Where a step cannot do this (a
        ColumnTransformer), they are in the units and under the names of the last step's input.
        Standard errors (``cluster_centers_std_``, and ``cluster_centers_noise_std_`` for noise
        alone) are in the same units; they are not known behind a step that mixes columns.

        Parameters
        ----------
        estimator : object
            A fitted estimator with ``cluster_centers_``, or a Pipeline whose last step is one.
        feature_names : sequence of str, default=None
            Names of the features; by default those seen in fit, if there are any.
        {plotted}
        """
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        centers = _released_centers(last)
        names = ("cluster_centers_std_", "cluster_centers_noise_std_")
        errors = [getattr(last, name, None) for name in names]
        if isinstance(estimator, Pipeline):
            before = estimator[:-1]
            if len(before) and hasattr(before, "inverse_transform"):
                centers, errors = _mapped_back(before, centers, errors)
            elif len(before) and feature_names is None:
                feature_names = before.get_feature_names_out()
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", None)
        return cls(centers, feature_names, *errors).plot(ax=ax)

    def _draw(self) -> None:
        away = np.abs(self.centers - self.centers.mean(axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            shade = np.nan_to_num(away / self.std, posinf=_CLEAR)
        self.ax_.imshow(
            np.minimum(shade, _CLEAR), aspect="auto", cmap="Blues", vmin=0, vmax=1.6 * _CLEAR
        )
        for (row, column), value in np.ndenumerate(self.centers):
            error, noise = self.std[row, column], self.noise_std[row, column]
            text = _with_error(float(value), float(error))
            if noise < _MOSTLY_NOISE * error:
                text += f"\n(noise {noise:.2g})"
            self.ax_.text(column, row, text, ha="center", va="center", fontsize=9)
        turned: dict[str, Any] = {}
        if sum(map(len, self.feature_names)) > _LETTERS:
            turned = {"rotation": 25, "ha": "right", "rotation_mode": "anchor"}
        self.ax_.set_xticks(range(len(self.feature_names)), self.feature_names, **turned)
        if np.isfinite(self.std).any():
            self.ax_.set_title(f"dark: {_CLEAR:g} standard errors from the mean", fontsize=9)
        self.ax_.set(yticks=range(len(self.centers)), ylabel="cluster")
        self.ax_.tick_params(length=0)


# --- a table of clusters --------------------------------------------------------------------------

# Means of rows go through these as the rows do.
_LINEAR = (
    DPMinMaxScaler, DPRobustScaler, DPStandardScaler,
    MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler,
)  # fmt: skip
_NO_WAY_BACK = (
    "cluster_table cannot say what the centres are in the columns before step {step!r} ({name}), "
    "which has no inverse_transform. Describe the part of the pipeline behind it: "
    "cluster_table(pipeline[{behind}:])"
)


@dataclass(frozen=True)
class _Columns:
    """Means of clusters in some columns, (n_clusters, n_columns), and their standard errors."""

    names: list[str]
    values: Floats
    std: Floats

    def part(self, index: Any) -> _Columns:
        names = list(np.asarray(self.names, dtype=object)[index])
        return _Columns(names, self.values[:, index], self.std[:, index])


@dataclass(frozen=True)
class _Sizes:
    """Noisy numbers of rows of the clusters, their standard errors, and the noise of each."""

    counts: Floats
    std: Floats
    noise: float


@shared_texts
@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Clusters in the columns of a pipeline's input; made by `cluster_table`.

    Attributes
    ----------
    columns : list of str
        Columns of the input; of encoded ones a column for each category.
    values : ndarray of shape (n_clusters, n_columns)
        The mean of each column, of categories the share.
    std : ndarray of shape (n_clusters, n_columns)
        Standard errors; NaN where they are not known.
    counts : ndarray of shape (n_clusters,)
        Noisy numbers of rows; NaN if they were not released.
    counts_std : ndarray of shape (n_clusters,)
        Their standard errors, of the rows that ``predict`` puts into each cluster; NaN where they
        are not known.
    """

    columns: list[str]
    values: Floats
    std: Floats
    counts: Floats
    counts_std: Floats

    def __str__(self) -> str:
        return str(self.to_frame())

    def to_frame(self, *, std: bool = False) -> Any:
        """Return a pandas DataFrame, a row for each cluster: its count and its columns.

        Parameters
        ----------
        std : bool, default=False
            Return the standard errors instead.
        """
        import pandas as pd

        counts = self.counts_std if std else self.counts
        frame = pd.DataFrame(self.std if std else self.values, columns=self.columns)
        frame.insert(0, "count", counts, allow_duplicates=True)
        return frame.rename_axis("cluster")

    def _repr_html_(self) -> str:
        rows = []
        for i, count in enumerate(self.counts):
            pairs = zip(self.values[i].tolist(), self.std[i].tolist(), strict=True)
            cells = [_with_error(value, error) for value, error in pairs]
            rows.append((str(i), _with_error(float(count), float(self.counts_std[i])), *cells))
        return html_table(("cluster", "count", *map(str, self.columns)), rows)


@shared_texts
def cluster_table(pipeline: Any) -> ClusterTable:
    """Say what the clusters are: counts, and means in the columns that went into a pipeline.

    Parameters
    ----------
    pipeline : Pipeline or estimator
        Fitted; its last step has ``cluster_centers_``. Steps before may scale, impute, encode,
        select and project columns, and be a ColumnTransformer of such steps.

    Raises
    ------
    ValueError
        If a step has no way back to its input.

    Notes
    -----
    **Privacy.** Nothing is charged: the table is computed from fitted attributes, and takes no
    rows. (``df.groupby(pipeline.predict(df)).mean()`` would be exact, and counted by nobody.)

    Standard errors are those of `DPKMeans`, mapped back: means and counts are of the rows, clipped
    to its `bounds_`, that ``predict`` puts into a cluster. They are NaN where a step loses what
    they would need: components that were dropped, bins and ranks. Columns that were not selected
    are NaN.

    Behind an imputer, means are of the cells with a value. With ``add_indicator=True`` the cells
    that were filled are taken out. Else the values are means of filled columns, and their errors
    include what filling may change: `DPSimpleImputer` released how many cells are missing
    (``strategy="mean"`` or ``"most_frequent"``), and all of them may be in one cluster. The errors
    are NaN where that may be half of a cluster, or was not released.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import DPKMeans, DPMinMaxScaler
    >>> from skdp.inspection import cluster_table
    >>> X = np.array([[10.0, 100.0], [90.0, 900.0]] * 5000)
    >>> pipe = make_pipeline(
    ...     DPMinMaxScaler(bounds=([0, 0], [100, 1000])), DPKMeans(2, bounds=(0, 1))
    ... ).fit(X)
    >>> table = cluster_table(pipe)
    >>> table.columns, sorted(table.values[:, 1].round(-2).tolist())
    (['x0', 'x1'], [100.0, 900.0])
    """
    steps = list(pipeline.steps) if isinstance(pipeline, Pipeline) else [("", pipeline)]
    last = steps[-1][1]
    centers = _released_centers(last)
    errors = getattr(last, "cluster_centers_std_", None)
    std = np.full(centers.shape, np.nan) if errors is None else np.array(errors, dtype=np.float64)
    columns = _Columns(_input_names(last, centers.shape[1]), centers, std)
    unknown = np.full(len(centers), np.nan)
    counts, counts_std = (
        np.array(getattr(last, f"cluster_counts_{name}", unknown), dtype=np.float64)
        for name in ("", "std_")
    )
    noise = float(getattr(last, "cluster_counts_noise_std_", np.nan))
    # Weights are no rows, and of users other steps may have used other rows.
    of_rows = getattr(last, "weight_bound_", None) is None
    of_rows &= getattr(getattr(last, "privacy_", None), "max_rows_per_unit", None) is None
    sizes = _Sizes(counts, counts_std, noise if of_rows else np.nan)
    for i in range(len(steps) - 2, -1, -1):
        name, step = steps[i]
        if step is None or isinstance(step, str):
            continue
        try:
            columns = _through(step, columns, sizes)
        except _NoWayBack:
            kind = type(step).__name__
            text = _NO_WAY_BACK.format(step=name, name=kind, behind=i + 1)
            raise ValueError(text) from None
    return ClusterTable(columns.names, columns.values, columns.std, counts, counts_std)


class _NoWayBack(Exception):
    """A step has no inverse."""


def _input_names(step: Any, width: int) -> list[str]:
    names = getattr(step, "feature_names_in_", None)
    if names is None or len(names) != width:
        return [f"x{j}" for j in range(width)]
    return [str(name) for name in names]


def _through(step: Any, columns: _Columns, sizes: _Sizes) -> _Columns:
    """Return columns of the output of a fitted step as columns of its input."""
    if isinstance(step, Pipeline):
        for _, inner in reversed(step.steps):
            if inner is not None and not isinstance(inner, str):
                columns = _through(inner, columns, sizes)
        return columns
    if isinstance(step, ColumnTransformer):
        return _through_parts(step, columns, sizes)
    width: Any = getattr(step, "n_features_in_", columns.values.shape[1])
    names = _input_names(step, width)
    if isinstance(step, FunctionTransformer) and step.func is None:
        return _Columns(names, columns.values, columns.std)
    if hasattr(step, "categories_") and hasattr(step, "drop_idx_"):  # one-hot: shares
        labels = [str(name) for name in step.get_feature_names_out()]
        return _Columns(labels, np.clip(columns.values, 0.0, 1.0), columns.std)
    if hasattr(step, "categories_"):  # codes in an arbitrary order
        unknown = np.full_like(columns.std, np.nan)
        return _Columns([f"{name} (code)" for name in names], columns.values, unknown)
    if isinstance(step, DPSimpleImputer | SimpleImputer):
        return _before_filling(step, names, columns, sizes)
    if hasattr(step, "get_support"):
        every = np.full((2, len(columns.values), len(names)), np.nan)
        every[:, :, step.get_support()] = columns.values, columns.std
        return _Columns(names, *every)
    if not hasattr(step, "inverse_transform"):
        raise _NoWayBack
    back = _inverse(step, columns.values)
    if isinstance(step, _LINEAR):
        moved = _inverse(step, columns.values + columns.std)
        return _Columns(names, back, np.abs(moved - back))
    components = getattr(step, "components_", None)
    if components is not None and np.shape(components) == (back.shape[1], back.shape[1]):
        base = _inverse(step, np.zeros_like(columns.values))
        std = np.zeros_like(back)
        for j in range(components.shape[0]):  # their errors may all have one sign
            alone = np.zeros_like(columns.values)
            alone[:, j] = columns.std[:, j]
            std += np.abs(_inverse(step, alone) - base)
        return _Columns(names, back, std)
    return _Columns(names, back, np.full(back.shape, np.nan))


def _before_filling(step: Any, names: list[str], columns: _Columns, sizes: _Sizes) -> _Columns:
    """Return the means of the cells with a value, of means of filled columns.

    With indicators, the filled cells are taken out. Else they are in the errors, where the imputer
    released how many there may be: all of them may be in one cluster.
    """
    values, std = columns.values.copy(), columns.std.copy()
    d = len(names)
    try:
        fill = np.asarray(step.statistics_, dtype=np.float64)
    except (TypeError, ValueError):
        fill = np.full(d, np.nan)  # text, which was encoded behind the imputer
    shown = columns.names
    with np.errstate(divide="ignore", invalid="ignore"):
        if np.isfinite(fill).all() and values.shape[1] == 2 * d:
            shown = [*names, *(f"{name} missing" for name in names)]
            share, share_std = np.clip(values[:, d:], 0.0, 1.0), std[:, d:]
            # A cluster without values, as far as noise shows, has no mean of them.
            left = np.where(share + 3.0 * share_std < 1.0, 1.0 - share, np.nan)
            mean = (values[:, :d] - share * fill) / left
            values[:, :d] = mean
            std[:, :d] = (std[:, :d] + np.abs(mean - fill) * share_std) / left
            return _Columns(shown, values, std)
        seen, seen_std = (
            getattr(step, name, np.full(d, np.nan)) for name in ("counts_", "counts_std_error_")
        )
        noise = np.hypot(seen_std, sizes.noise * np.sqrt(len(sizes.counts)))
        missing = np.maximum(sizes.counts.sum() - seen, 0.0) + 2.0 * noise
        share = missing / np.maximum(sizes.counts - 2.0 * sizes.std, 1.0)[:, None]
        share = np.where(share < 0.5, share, np.nan)
        if values.shape[1] == d and np.isfinite(fill).all():
            shown, away = names, np.abs(values - fill)
        else:  # shares of categories: that of the filled one grows, the others shrink
            share, away = share.max(axis=1, keepdims=True), np.maximum(values, 1.0 - values)
            of_array = {f"x{j}": name for j, name in enumerate(names)}  # which the encoder saw
            parts = [label.partition("_") for label in columns.names]
            shown = [of_array.get(first, first) + "".join(rest) for first, *rest in parts]
        # Within two standard errors.
        return _Columns(shown, values, std + share * away / (1.0 - share) / 2.0)


def _inverse(step: Any, values: Floats) -> Floats:
    """Return values before a step; a value that is not known makes those unknown that need it."""
    unknown = np.isnan(values)
    back = np.array(step.inverse_transform(np.where(unknown, 0.0, values)), dtype=np.float64)
    if isinstance(step, OneToOneFeatureMixin):
        back[unknown] = np.nan
    else:
        back[unknown.any(axis=1)] = np.nan
    return back


def _through_parts(step: ColumnTransformer, columns: _Columns, sizes: _Sizes) -> _Columns:
    """Return the columns of the input of a ColumnTransformer, in the order of its parts."""
    every = _input_names(step, step.n_features_in_)
    parts = []
    for name, transformer, chosen in step.transformers_:
        part = columns.part(step.output_indices_[name])
        if (isinstance(transformer, str) and transformer == "drop") or not part.values.shape[1]:
            continue
        if not isinstance(transformer, str):
            part = _through(transformer, part, sizes)
        # Of an array the parts have names of their own; those of the whole table are meant.
        own = _chosen_names(chosen, every)
        if getattr(transformer, "feature_names_in_", None) is None and len(own) == len(part.names):
            part = _Columns(own, part.values, part.std)
        parts.append(part)
    return _Columns(
        [name for part in parts for name in part.names],
        np.hstack([part.values for part in parts]),
        np.hstack([part.std for part in parts]),
    )


def _chosen_names(chosen: Any, every: list[str]) -> list[str]:
    if isinstance(chosen, str):
        return [chosen]
    if isinstance(chosen, slice) or np.asarray(chosen).dtype.kind in "biu":
        return [str(name) for name in np.asarray(every, dtype=object)[chosen]]
    return [str(name) for name in chosen]


@documented
class ComponentsDisplay(Display):
    """Variances along private principal components; bars of those that noise hides are hollow.

    Parameters
    ----------
    variances : array-like of shape (n_components,)
        Released variances, in decreasing order, corrected for noise.
    n_resolved : int
        Number of components (the first ones) that are clear of the noise.
    noise_level : float, default=nan
        The largest variance that noise alone would show, before the correction.

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPCA
    >>> from skdp.inspection import ComponentsDisplay
    >>> X = np.random.default_rng(0).normal(size=(5000, 4)) * [3, 2, 0.1, 0.1]
    >>> pca = DPPCA(center=0.0, norm_bound=10.0, epsilon=5.0, delta=1e-6).fit(X)
    >>> ComponentsDisplay.from_estimator(pca).variances.shape
    (4,)
    """

    def __init__(
        self, variances: ArrayLike, n_resolved: int, noise_level: float = float("nan")
    ) -> None:
        self.variances: Floats = np.asarray(variances, dtype=np.float64)
        self.n_resolved = int(n_resolved)
        self.noise_level = float(noise_level)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> ComponentsDisplay:
        """Plot the spectrum of a fitted `DPPCA`.

        Parameters
        ----------
        estimator : DPPCA
            Fitted.
        {plotted}
        """
        check_is_fitted(estimator, ["explained_variance_", "n_resolved_", "noise_level_"])
        display = cls(estimator.explained_variance_, estimator.n_resolved_, estimator.noise_level_)
        return display.plot(ax=ax)

    _size = (6, 4)

    def _draw(self) -> None:
        place = np.arange(1, self.variances.size + 1)
        clear = place <= self.n_resolved
        for mask, face, label in (
            (clear, "tab:blue", "clear of the noise"),
            (~clear, "none", "about as good as a random direction"),
        ):
            if mask.any():
                values = self.variances[mask]
                self.ax_.bar(place[mask], values, color=face, edgecolor="tab:blue", label=label)
        if np.isfinite(self.noise_level):
            self.ax_.set_title(
                f"noise alone shows up to {self.noise_level:.3g} before it is taken off",
                fontsize=10,
            )
        self.ax_.set(xlabel="component", ylabel="variance along it")
        self.ax_.legend(frameon=False, fontsize=9)
