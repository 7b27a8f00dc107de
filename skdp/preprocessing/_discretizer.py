"""Columns in bins: `DPKBinsDiscretizer`.

A fit releases bounds, unless they are stated, and quantiles of each column (the edges between bins,
or the outer edges of bins of equal width) or its histogram.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import k_means
from sklearn.preprocessing import KBinsDiscretizer

from skdp._docstrings import documenter
from skdp.base import names_of
from skdp.base.expected_error import (
    ExpectedErrorMixin,
    Fresh,
    check_like,
    mean_error,
    resampled,
)
from skdp.base.mixin import WEIGHT_BOUND, in_precision_of, weighted_rows
from skdp.base.transformers import (
    Floats,
    Transformer,
    codes_of,
    dtype_of_codes,
    error_of_fits,
    indicators,
    input_names,
    release_range,
    warn_of_few_rows,
)
from skdp.core import Box, Session
from skdp.exceptions import warn_at_end
from skdp.parameters import STEP, Integers, Table, check_parameter, naming, shown
from skdp.planning import Allowance, bounds_in, row_count, weight_bound_in
from skdp.quantile import TEXTS, DPQuantile, check_multiples
from skdp.queries import ColumnCells, LearnedBox, OfColumn, Quantiles, rank_scale, row_counts
from skdp.tabular import as_dense, check_public_array, listed

# A histogram has at most so many cells. On average each has so many times the noise in rows.
_MOST_CELLS, _CLEAR = 2**10, {"quantile": 4.0, "kmeans": 16.0}
# Candidates for a quantile are half as far apart: edges of one value that many rows have.
_EQUAL = 2.0**-17
_OFF = 0.5  # bins that an edge is off: about its error where rows are few
_SHORT = 6.0  # times the rows that errors of learned bounds ask for: with 8.6 half were far off


_FEWER = (
    "{}: columns {} have fewer than n_bins bins: {}, for example because many rows have the same "
    "value. Consider decreasing the number of bins."
)
_WHY_FEWER = {
    "quantile": "released quantiles coincide",
    "kmeans": "the noisy histogram shows fewer values than that",
    "uniform": "the bounds coincide",
}
_CONSTANT = " Feature {} is constant and will be replaced with 0."
_BINS = Integers(2, 10_000)
_SEEN, _CLEAR_SUM = 2.0, 3.0  # deviations of noise in a cell, and in the cells up to an end
_COUNT_SHARE = 0.05  # for the number of rows, if it is private


def _numbers_of_bins(value: Any, name: str) -> Any:
    """Return one number of bins, or those of the columns as an array; or raise."""
    if not isinstance(value, list | tuple | np.ndarray):
        return check_parameter(value, name, _BINS)
    with naming(name):
        sizes = np.asarray(value)
    shape = f"{name} must be a scalar or array of shape (n_features,)."
    if sizes.ndim != 1 or sizes.dtype.kind not in "iuf":
        raise ValueError(shape)
    wrong = [str(j) for j, size in enumerate(sizes) if size != np.rint(size) or not _BINS.has(size)]
    if wrong:
        raise ValueError(
            f"DPKBinsDiscretizer received an invalid number of bins at indices {', '.join(wrong)}. "
            f"Number of bins must be at least {_BINS.low}, and must be an int. {shape}"
        )
    return sizes.astype(np.int64)


def _float_type(value: Any, name: str) -> Any:
    """Return a type of floats or None, or raise."""
    if value is None:
        return value
    if np.dtype(dtype_of_codes(value, name)) not in (np.float32, np.float64):
        raise ValueError(f"{name} must be float32, float64 or None, got {shown(value)}")
    return value


def _levels(size: int) -> list[float]:
    return [i / size for i in range(1, size)]


def _between(edges: Floats) -> Floats:
    return np.asarray(edges[1:] / 2 + edges[:-1] / 2)


def _inner_edges(strategy: str, edges: Floats, counts: Floats, noise: float, size: int) -> Floats:
    """Return the inner edges of so many bins from a noisy histogram."""
    seen = counts > _SEEN * noise
    if strategy == "kmeans":  # noise in empty cells at the ends would draw centers to it
        first, last = (_first_rows(side, noise) for side in (counts, counts[::-1]))
        seen[:first] = seen[counts.size - last :] = False
    counts = np.where(seen, counts, 0.0)
    if not counts.any():
        counts[:] = 1.0
    if strategy == "kmeans":  # as scikit-learn does it, on the numbers of cells that are not empty
        cells = np.flatnonzero(counts) * 1.0
        size = min(size, len(cells))
        start = _between(np.linspace(cells[0], cells[-1], size + 1))[:, None]
        weights = counts[counts > 0]
        centers = k_means(cells[:, None], size, sample_weight=weights, init=start, n_init=1)[0]
        return np.interp(_between(np.sort(centers[:, 0])) + 0.5, np.arange(len(edges)), edges)
    below = np.cumsum(counts)
    at, spread = np.array(_levels(size)) * below[-1], noise * math.sqrt(counts.size)
    # Where noise decides between two cells the edge is amid them.
    ranks = np.clip([at - spread, at + spread], 0.0, below[-1])
    return np.asarray(edges[np.searchsorted(below, ranks)].mean(axis=0))


def _first_rows(counts: Floats, noise: float) -> int:
    """Return the first cell up to which there are more rows than noise explains, or 0."""
    clear = np.cumsum(counts) > _CLEAR_SUM * noise * np.sqrt(np.arange(1, counts.size + 1))
    return int(clear.argmax())


def _depth(size: int) -> int:
    """Return how many choices find the inner edges of so many bins."""
    return (size - 1).bit_length()


def _counts_of(cuts: list[Floats], most: float | None = None) -> Any:
    """Return the query of the rows, or of their weights, between cuts of each column."""
    return row_counts(ColumnCells(tuple(cuts)), "histograms", most)


@documenter(TEXTS)
class DPKBinsDiscretizer(ExpectedErrorMixin, Transformer):
    """Put columns into bins: between private quantiles or clusters, or of equal width.

    The private counterpart of scikit-learn's ``KBinsDiscretizer``, without ``subsample``.

    Parameters
    ----------
    n_bins : int or array-like of shape (n_features,), default=5
        Number of bins of each column, at least 2.
    encode : {"onehot-dense", "onehot", "ordinal"}, default="onehot-dense"
        One column for each bin, dense or sparse (private steps take dense rows only), or the number
        of the bin.
    dtype : float32, float64 or None, default=None
        Type of the output; None: float32 for float32, else float64.
    strategy : {"quantile", "uniform", "kmeans"}, default="quantile"
        Bins with about equally many rows, of equal width, or of the values that are nearest to one
        of `n_bins` centres, by a private histogram of each column.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them are in the first or the last bin.
        ``"private"`` learns them, for a fifth of the allowance at most, or for up to a half where
        rows are few; with ``strategy="uniform"`` as `DPMinMaxScaler` learns a range, between
        extreme quantiles.
    {candidates}

    Attributes
    ----------
    bin_edges_ : ndarray of shape (n_features,)
        An array for each column, with one more edge than bins, in the units of X: the bounds, and
        between them edges from released quantiles or histograms. Minus and plus infinity for a
        column whose bounds are equal.
    n_bins_ : ndarray of shape (n_features,)
        Number of bins of each column. Fewer than `n_bins` if edges coincide, for example because
        many rows have the same value.
    weight_bound_ : float or None
    bounds_ : tuple of two ndarrays of shape (n_features,)

    See Also
    --------
    skdp.quantile.DPQuantileTransformer : Ranks instead of bins.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and quantiles: the ``n_bins - 1`` inner edges of
    every column, or with ``strategy="uniform"`` the outer ones, with the *sensitivity* (1 in ranks
    if a row is replaced; at most the larger of q and 1 - q if one is added or removed) and the
    *mechanism* (exponential) of `skdp.quantile.DPQuantile`. With ``strategy="kmeans"``, or
    quantiles of weighted rows: a histogram of each column, in at most 1024 equal cells, from which
    edges are computed. Each row adds its weight, in parts of the bound of weights, to one cell of
    each column: the *sensitivity* (L1) of all counts together is the number of columns, twice that
    if a row is replaced. *Mechanism*: discrete Laplace or rounded Gaussian noise, whichever is
    less. Cells whose counts noise hides count as empty. With ``strategy="uniform"`` and stated
    bounds nothing is released or charged. Proofs: ``skdp/queries/quantiles.md``,
    ``skdp/core/PROOFS.md``.

    **Expected error.** With quantiles, in ranks, as for `skdp.quantile.DPQuantile`: the mean number
    of rows between an edge and the exact quantile. It needs `like`, public rows. With centres, the
    part of the rows that are in another bin than without noise; it needs `like`. With equal widths,
    the part of the rows beyond the outer edges: zero if bounds are stated, otherwise it needs
    `like`.

    References
    ----------
    Kaplan, Schnapp & Stemmer 2022, "Differentially private approximate quantiles", Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPKBinsDiscretizer
    >>> X = np.random.default_rng(0).exponential(20.0, size=(10_000, 1))
    >>> bins = DPKBinsDiscretizer(4, encode="ordinal", bounds=(0, 500)).fit(X)
    >>> np.abs(np.bincount(bins.transform(X)[:, 0].astype(int)) / 2500 - 1) < 0.2
    array([ True,  True,  True,  True])
    >>> DPKBinsDiscretizer(2, strategy="uniform", bounds=(0, 10)).fit_transform([[1.0], [7.0]])
    array([[1., 0.],
           [0., 1.]])
    """

    n_bins: Any = field(default=5, kw_only=False)
    encode: str = "onehot-dense"
    dtype: Any = None
    strategy: str = "quantile"
    bounds: Any = "private"
    step: float | None = None
    prior: str = "uniform"
    weight_bound: Any = "private"

    _in_parts = True

    _parameter_table: ClassVar[Table] = {
        "n_bins": _numbers_of_bins,
        "encode": ("onehot-dense", "onehot", "ordinal"),
        "dtype": _float_type,
        "strategy": ("quantile", "uniform", "kmeans"),
        "weight_bound": WEIGHT_BOUND,
        "step": STEP,
        "prior": ("uniform", "log"),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.step is not None and self.prior != "uniform":
            raise ValueError("step must be None with prior='log', which sets the candidates itself")

    def _stated_bounds(self, n_features: int, names: Any = None) -> Any:
        stated = super()._stated_bounds(n_features, names)
        if self.strategy == "quantile":
            check_multiples(None if self.step is None else float(self.step), stated)
        return stated

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        if self.strategy == "uniform":
            return allowance.choice_scale(n_features)
        if self.strategy == "kmeans":
            return allowance.query_std(_counts_of([np.zeros(1)] * n_features))
        return allowance.choice_scale(sum(map(_depth, self._sizes_in(n_features))))

    def _sizes_in(self, n_features: int) -> list[int]:
        """Return the number of bins that each column is to have."""
        sizes = np.asarray(_numbers_of_bins(self.n_bins, "n_bins"))
        if sizes.ndim and len(sizes) != n_features:
            raise ValueError(
                f"n_bins must be a scalar or array of shape (n_features,). There are {n_features} "
                f"columns, and {len(sizes)} numbers of bins"
            )
        return [int(size) for size in np.broadcast_to(sizes, n_features)]

    def _is_free(self) -> bool:
        return self.strategy == "uniform" and not isinstance(self.bounds, str)

    def fit(
        self, X: ArrayLike, y: Any = None, *, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Charge the budget and release the edges.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows of finite numbers. May be in parts (`skdp.engines`).
        sample_weight : array-like of shape (n_samples,), default=None
            ... They move no bins of equal width. With rows in one table only.
        """
        with self._all_or_nothing(groups):
            rows, most = weighted_rows(self, self._open(X), sample_weight)
            stated = self._stated_bounds(rows.n_features)
            sizes = self._sizes_in(rows.n_features)
            inner, learned, off = [np.empty(0)] * len(sizes), None, 0.0
            if self._is_free():
                assert stated is not None
                self.bounds_ = stated
                self.privacy_ = self._context().nothing_released()
            else:
                with self._session(rows) as session:
                    if self.strategy == "uniform":
                        # Learned bounds may lie far beyond the rows; extreme quantiles do not.
                        _, learned, _, *ends = release_range(session, "auto")
                        self.bounds_ = ends[0], ends[1]
                    elif self.strategy == "kmeans" or most is not None:
                        self.weight_bound_ = weight_bound_in(session, most)
                        self.bounds_, learned = bounds_in(session, stated)
                        inner, off = self._of_histograms(session, learned, sizes)
                    else:
                        self.bounds_, learned = bounds_in(session, stated)
                        off = self._bins_off(session, learned, max(sizes))
                        inner = self._quantiles(session, sizes)
            self._set_edges(inner, sizes)
        if off > _OFF:
            what = f"edges are off by about {min(off, max(sizes)):.1g} bins"
            warn_of_few_rows(self, what, off / _OFF)
        elif learned is not None and learned.short > _SHORT:
            what = "learned bounds, and all bins with them, may be far off"
            warn_of_few_rows(self, what, learned.short / _SHORT)
        return self

    def _quantiles(self, session: Session, sizes: list[int]) -> list[Floats]:
        """Release the inner edges of all columns: at once, or those of equally many bins."""
        step, inner = None if self.step is None else float(self.step), []
        changes = [j for j in range(1, len(sizes)) if sizes[j] != sizes[j - 1]]
        cuts = [0, *changes, len(sizes)]
        for a, b in pairwise(cuts):
            box = Box(*(side[a:b] for side in self.bounds_), per_feature=True)
            query: Any = Quantiles(box, _levels(sizes[a]), step=step, prior=self.prior)
            part = None
            if changes:  # so that noise is equal, in ranks
                choices = [_depth(size) for size in sizes[a:]]
                part = session.remaining * Fraction(sum(choices[: b - a]), sum(choices))
                query = OfColumn(a, query, b)
            inner += list(session.answer(query, part).value)
        return inner

    def _of_histograms(
        self, session: Session, learned: LearnedBox | None, sizes: list[int]
    ) -> tuple[list[Floats], float]:
        """Release a histogram of each column; return inner edges and by how many bins they are off.

        Cells are as narrow as noise allows.
        """
        most = self.weight_bound_
        n = row_count(session, _COUNT_SHARE, learned)
        noise = Allowance.left(session).query_std(_counts_of([np.zeros(1)] * len(sizes), most))
        clear = _CLEAR[self.strategy]
        n_cells = int(np.clip(n / (clear * noise), 2 * max(sizes), _MOST_CELLS))
        box = zip(*self.bounds_, strict=True)
        edges = [np.unique(np.linspace(low, high, n_cells + 1)) for low, high in box]
        release = session.answer(_counts_of([edge[1:-1] for edge in edges], most))
        starts = np.cumsum([max(len(edge) - 1, 1) for edge in edges])[:-1]
        columns = zip(edges, np.split(np.asarray(release.value), starts), sizes, strict=True)
        std = float(np.max(release.std))
        inner = [
            _inner_edges(self.strategy, edge, counts, std, size)
            if len(edge) > 1
            else np.full(size - 1, edge[0])
            for edge, counts, size in columns
        ]
        return inner, clear * noise * max(sizes) / n

    def _bins_off(self, session: Session, learned: LearnedBox | None, size: int) -> float:
        """Return by how many bins noise moves an edge, about; 0 if the rows are not counted."""
        if session.adjacency != "replace_one" and learned is None:
            return 0.0
        level, n = session.level(session.remaining), row_count(session, None, learned)
        options: dict[str, Any] = {"pure": session.pure, "adjacency": session.adjacency}
        return rank_scale(_levels(size), level, session.n_features, **options) * size / n

    def _set_edges(self, inner: list[Floats], sizes: list[int]) -> None:
        """Set the edges and numbers of bins from bounds and released quantiles."""
        self.bin_edges_ = np.empty(len(sizes), dtype=object)
        fewer = []
        for j, (low, high) in enumerate(zip(*self.bounds_, strict=True)):
            if self.strategy == "uniform":
                edges = np.linspace(low, high, sizes[j] + 1)
            else:
                # A step may have no multiple within learned bounds.
                ends = min([low, *inner[j]]), max([high, *inner[j]])
                edges = np.array([ends[0], *inner[j], ends[1]])
            near = _EQUAL * (edges[-1] / 2 - edges[0] / 2) * 2
            if self.strategy == "uniform" or self.step is not None or self.prior == "log":
                near = 0.0
            edges = edges[np.concatenate([[True], np.diff(edges) > near])]
            self.bin_edges_[j] = edges if len(edges) > 1 else np.array([-np.inf, np.inf])
            if len(self.bin_edges_[j]) <= sizes[j]:
                fewer.append(j)
        self.n_bins_: Any = np.array([len(edges) - 1 for edges in self.bin_edges_])
        if fewer:  # which is released, so a warning may tell it
            names = self._names()
            names = range(len(sizes)) if names is None else names
            constant = [names[j] for j in fewer if self.n_bins_[j] == 1]
            columns, why = listed([names[j] for j in fewer]), _WHY_FEWER[self.strategy]
            text = _FEWER.format(type(self).__name__, columns, why)
            text += _CONSTANT.format(listed(constant)) if constant else ""
            warn_at_end(text)

    def transform(self, X: ArrayLike) -> Any:
        """Return the bins of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Finite numbers; X is not changed. If the rows are private, so is the result.

        Returns
        -------
        X_new : ndarray or sparse matrix of shape (n_samples, n_features_out)
        """
        values = self._public_array(X)
        codes = np.empty(values.shape, dtype=np.int64)
        for j, edges in enumerate(self.bin_edges_):
            codes[:, j] = np.searchsorted(edges[1:-1], values[:, j], side="right")
        dtype = self.dtype
        if dtype is None:
            dtype = in_precision_of(X, np.empty(0)).dtype
        if self.encode == "ordinal":
            return codes.astype(dtype)
        return indicators(codes, self.n_bins_, as_sparse=self.encode == "onehot", dtype=dtype)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the middle of each bin.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features_out)
            The output of `transform`.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            In the units of X; 0 for a column with one unbounded bin.
        """
        names = input_names(self)  # refuses an unfitted one
        ordinal = self.encode == "ordinal"
        X = as_dense(X)
        values = check_public_array(X, **self._entrance)
        self._check_width(values.shape[1], len(names) if ordinal else int(self.n_bins_.sum()))
        codes = values.astype(np.int64) if ordinal else codes_of(values, self.n_bins_)
        if (codes < 0).any() or (codes >= self.n_bins_).any():
            raise ValueError("X must have one bin of each column in every row, as transform makes")
        middles = np.empty(codes.shape)
        for j, edges in enumerate(self.bin_edges_):
            middle = _between(edges) if np.isfinite(edges).all() else np.zeros(1)
            middles[:, j] = middle[codes[:, j]]
        return middles

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that `transform` makes."""
        names = input_names(self, input_features)
        if self.encode != "ordinal":
            pairs = zip(names, self.n_bins_, strict=True)
            names = [f"{name}_{float(i)}" for name, size in pairs for i in range(size)]
        return np.array(names, dtype=object)

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        if self.strategy == "quantile":
            names = ("bounds", "step", "prior", "epsilon", "delta", "budget")
            given, sizes = {name: getattr(self, name) for name in names}, self._sizes_in(d)
            errors = {
                size: DPQuantile(_levels(size), **given).expected_error(n, d, like=like)
                for size in set(sizes)
            }
            return float(np.mean([errors[size] for size in sizes]))
        if self.strategy == "uniform" and self._stated_bounds(d, names_of(like)) is not None:
            return 0.0
        if self.strategy == "kmeans":
            rows = check_like(self, like, d)
            draw = resampled(rows, n)
            exact = KBinsDiscretizer(self.n_bins, encode="ordinal", strategy="kmeans")
            with warnings.catch_warnings(action="ignore"):
                codes = exact.fit_transform(rows)

            def moved(fresh: Fresh, number: int) -> float:
                fit = fresh(number, encode="ordinal").fit(draw(number))
                return float(np.mean(fit.transform(rows) != codes))

            return mean_error(self, moved)

        def beyond(fitted: Any, table: Floats) -> float:
            low, high = fitted.bounds_
            return float(np.mean((table < low) | (table > high)))

        return error_of_fits(self, n, d, like, beyond)
