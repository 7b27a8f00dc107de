"""A private density that is constant in each of many cells: `DPHistogramDensity`.

A fit releases bounds, unless stated, and the noisy numbers of rows in the cells.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skdp.base.expected_error import mean_error, rehearsal
from skdp.core import Session
from skdp.neighbors._base import COUNT_SHARE, BoxDensity, Floats, Pair, mixed
from skdp.planning import Allowance, row_count
from skdp.queries import MAX_CELLS, Grid, row_counts
from skdp.statistics._histograms import Bins, _bins, _bins_of_each, _edges

_MOST_BINS = 2**10  # of a feature
_MOST_FEATURES = 64  # dimensions of an array of numpy


def _most_bins(n_features: int) -> int:
    """Return the largest number of automatic bins."""
    return min(math.floor(MAX_CELLS ** (1.0 / n_features) + 1e-9), _MOST_BINS)


def auto_bins(n: float, n_features: int, std: float) -> int:
    """Return a number of bins for each feature, from public or released numbers.

    2 n**(1/(d+2)) balances the errors of sampling and of the width of cells for a smooth density; a
    cell holds at least four standard deviations `std` of the noise on average. Above 4, the number
    is rounded down to 2**k or 1.5 * 2**k, so that noise in a released n hardly ever moves it.
    """
    smooth = 2.0 * n ** (1.0 / (n_features + 2.0))
    loud = (n / (4.0 * std)) ** (1.0 / n_features)
    bins = int(min(max(math.floor(min(smooth, loud)), 1), _most_bins(n_features)))
    if bins <= 4:
        return bins
    power = 1 << (bins.bit_length() - 1)
    return power + power // 2 if bins >= power + power // 2 else power


class DPHistogramDensity(BoxDensity):
    """Differentially private density from a histogram: a simple baseline.

    Negative counts are set to 0, and the density is scaled to an integral of 1. `DPKernelDensity`
    is smooth, and has less error for most densities of one to three features.

    Parameters
    ----------
    bins : "auto", int or list, default="auto"
        An int: the number of cells of equal width between the bounds, the same for each feature. A
        list: for each feature such a number, or public edges in increasing order; for a single
        feature, the edges themselves. At most 2**20 cells altogether. ``"auto"`` computes the
        number from the number of rows (noisy where it is private), epsilon and delta.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); rows outside are in no cell. ``"private"`` learns the box, for a
        fifth of the allowance at most; where rows are few, for up to a half. Without delta, this
        needs n * epsilon of about 1,000 for each column; with fewer rows the box may be far off.
        Not used for columns with stated edges.

    Attributes
    ----------
    edges_ : tuple of ndarrays
        Edges of the cells, one array for each feature.
    probabilities_ : ndarray, one dimension for each feature
        Probabilities of the cells, with sum 1.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The box, stated or learned.
    noise_std_ : float
        Standard deviation of the probability of a cell due to noise, before it is cut off at 0.

    Raises
    ------
    TypeError, ValueError
        ... Also if there would be more than 2**20 cells or 64 columns.

    See Also
    --------
    DPKernelDensity : Smooth densities.
    skdp.statistics.histogramdd : The noisy counts alone.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (at most 20% of the allowance); under
    ``"add_or_remove_one"`` with ``bins="auto"``, the number of rows (2%); and the number of rows in
    each cell. *Sensitivity* of the counts: 1 if a row is added or removed; if one is replaced, 2 in
    L1 and sqrt(2) in L2. *Mechanism*: discrete Laplace or rounded Gaussian noise, whichever is
    less. Any number of densities and samples costs nothing more.

    One additional row is spread evenly over the box, so that the logarithm of the density is finite
    everywhere in the box.

    **Expected error.** How far noise will move the density, in total variation distance: half the
    integral of the absolute difference from the histogram of the same cells without noise, averaged
    over fits. It needs `like`: public rows, or an earlier fit, from which rows are drawn. The rows
    matter because negative noise is cut off: a density with few peaks has less noise.

    References
    ----------
    Wasserman & Zhou 2010, "A statistical framework for differential privacy", section 4
    (perturbed histograms).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.neighbors import DPHistogramDensity
    >>> X = np.random.default_rng(0).normal(size=(10_000, 1))
    >>> density = DPHistogramDensity(bounds=(-4, 4), random_state=0).fit(X)
    >>> at_0, beyond = density.pdf([[0.0], [5.0]])
    >>> bool(abs(at_0 - 0.4) < 0.1), float(beyond)
    (True, 0.0)
    >>> density.sample(3, random_state=0).shape
    (3, 1)
    """

    bins: Any = "auto"
    bounds: Any = "private"

    _in_parts = True

    def _bins_of_features(self, n_features: int) -> list[Bins] | None:
        """Return bins or edges of each feature, None for "auto"; refuse too many cells."""
        if n_features > _MOST_FEATURES:
            raise ValueError(
                f"X must have at most {_MOST_FEATURES} columns for a histogram of all of them "
                f"together, got {n_features}; choose some, or take statistics.histogram of each"
            )
        if isinstance(self.bins, str):
            if self.bins == "auto":
                return None
            raise ValueError(f"bins must be 'auto', an int or a list, got {self.bins!r}")
        given = _bins_of_each(self.bins) if isinstance(self.bins, list) else _bins(self.bins)
        if isinstance(given, np.ndarray) and n_features > 1:
            raise ValueError("bins must be a list with one entry for each feature, if it has edges")
        bins = given if isinstance(given, list) else [given] * n_features
        if len(bins) != n_features:
            raise ValueError(f"bins must have {n_features} entries, one a feature, got {len(bins)}")
        sizes = [b if isinstance(b, int) else b.size - 1 for b in bins]
        if math.prod(sizes) > MAX_CELLS:
            raise ValueError(
                f"bins must make at most {MAX_CELLS} cells, got {math.prod(sizes)}: "
                f"{' x '.join(map(str, sizes[:8]))}{' x ...' if len(sizes) > 8 else ''}; "
                "take fewer bins or columns, or bins='auto'"
            )
        return bins

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget, release the histogram, and compute the density."""
        with self._all_or_nothing(groups):
            rows = self._open(X)
            d = rows.n_features
            bins = self._bins_of_features(d)
            stated = self._stated_bounds(d)
            if bins is not None and not any(isinstance(b, int) for b in bins):
                stated = np.zeros(d), np.ones(d)  # not used: all edges are stated
            if stated is not None:
                # Refuse here bounds that are too close for the bins that a release may have.
                _all_edges(bins or [_most_bins(d)] * d, stated)
            with self._session(rows) as session:
                self._release(session, bins, stated)
                self.privacy_ = session.certificate()
        return self

    @property
    def _n_releases(self) -> int:
        return 2

    def _release(self, session: Session, bins: list[Bins] | None, stated: Pair | None) -> None:
        """Release the histogram and set the fitted attributes."""
        bounds, learned = self._box_in(session, stated)
        n = math.nan
        if session.adjacency == "replace_one" or bins is None:
            n = row_count(session, COUNT_SHARE, learned)
        if bins is None:
            std = Allowance.left(session).cell_std
            bins = [auto_bins(n, session.n_features, std)] * session.n_features
        edges = _all_edges(bins, bounds)
        release = session.answer(row_counts(Grid(tuple(edges)), "histogram"))
        counts = release.value
        n = max(1.0, float(counts.sum())) if math.isnan(n) else n
        widths = [np.diff(edge) / (edge[-1] - edge[0]) for edge in edges]
        cells = reduce(np.multiply.outer, widths, np.ones(()))
        self.bounds_ = np.array([e[0] for e in edges]), np.array([e[-1] for e in edges])
        self.edges_ = tuple(edges)
        relative, self._factor = mixed(counts / cells, cells, n)
        self.probabilities_ = relative * cells
        self._std = float(np.max(release.std))
        self.noise_std_ = self._std * self._factor

    # --- post-processing --------------------------------------------------------------------------

    def _cells(self, values: Floats) -> tuple[tuple[Any, ...], Floats]:
        """Return the cells of rows within the box, and their shares of the box."""
        index, part = [], np.ones(len(values))
        for j, edge in enumerate(self.edges_):
            cell = np.searchsorted(edge, values[:, j], side="right") - 1
            cell = np.clip(cell, 0, edge.size - 2)
            index.append(cell)
            part *= (np.diff(edge) / (edge[-1] - edge[0]))[cell]
        return tuple(index), part

    def _relative(self, values: Floats) -> Floats:
        index, part = self._cells(values)
        relative: Floats = self.probabilities_[index] / part
        return relative

    def _relative_std(self, values: Floats) -> Floats:
        return self.noise_std_ / self._cells(values)[1]

    def _draw(self, n: int, random: Any) -> Floats:
        weights = self.probabilities_.ravel()
        cells = random.choice(weights.size, size=n, p=weights / weights.sum())
        index = np.unravel_index(cells, self.probabilities_.shape)
        place = random.uniform(size=(n, len(self.edges_)))
        columns = [
            edge[i] * (1.0 - u) + edge[i + 1] * u
            for edge, i, u in zip(self.edges_, index, place.T, strict=True)
        ]
        return np.column_stack(columns)

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        rows = self._like(n, d, like)
        self._bins_of_features(d)
        with rehearsal(self, self._adjacency) as rehearsed:

            def distance(number: int) -> float:
                public = rows(number)
                fitted = rehearsed(number).fit(public)
                counts, _ = np.histogramdd(public, fitted.edges_)
                exact = counts / max(counts.sum(), 1.0)
                return 0.5 * float(np.abs(fitted.probabilities_ - exact).sum())

            return mean_error(distance)


def _all_edges(bins: list[Bins], bounds: Pair) -> list[Floats]:
    """Return the edges of every feature."""
    return [_edges(b, float(a), float(z)) for b, a, z in zip(bins, *bounds, strict=True)]
