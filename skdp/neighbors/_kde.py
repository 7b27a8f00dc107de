"""A private Gaussian kernel density: `DPKernelDensity`.

A fit releases bounds, unless stated, and the mean over the rows of whitened kernel features at a
public grid of centres. Gaussian noise makes the estimate the kernel density plus a Gaussian
process. Bandwidth, densities and samples follow from the release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import RegularGridInterpolator

from skdp.base.expected_error import NOISELESS, Fresh, mean_error
from skdp.base.nystroem import nystroem_features
from skdp.core import Session
from skdp.neighbors._density import (
    COUNT_SHARE,
    LOUD,
    MOST_CENTERS,
    MOST_FEATURES,
    BoxDensity,
    Floats,
    Lattice,
    Pair,
    along,
    axis_kernel,
    candidates,
    least_bandwidth,
    mixed,
    node_axes,
    peak,
)
from skdp.parameters import Reals, Table
from skdp.planning import Allowance, row_count
from skdp.queries import Grid, KernelMap, KernelMean, LearnedBox, row_counts, whitened_mean

# scikit-learn's rules for features of variance 1, of n rows and d features.
_RULES: dict[str, Callable[[float, int], float]] = {
    "scott": lambda n, d: n ** (-1.0 / (d + 4)),
    "silverman": lambda n, d: (n * (d + 2) / 4.0) ** (-1.0 / (d + 4)),
}
_CAUTION = 0.25  # standard deviations of the criterion, as in density ratios
_BLOCK_VALUES = 2**20
_LOUD_PURE = 0.1  # `LOUD` for K-norm noise
_TYPICAL_FEATURES = 20  # their number, for the choice between K-norm and Gaussian noise


@dataclass(frozen=True)
class Plan:
    """The release of a fit: for the first of the bandwidths `tried`.

    `map` is None for cells; `matrix` (r, b) maps kernel values to released features.
    """

    tried: list[float]
    lattice: Lattice
    map: KernelMap | None
    matrix: Floats | None


class DPKernelDensity(BoxDensity):
    """Differentially private kernel density with a Gaussian kernel.

    The released estimate gives the density at any point and any number of samples, at no further
    cost.

    Parameters
    ----------
    bandwidth : {"private", "scott", "silverman"} or float, default="private"
        Standard deviation of the kernel in every feature, 1e-100 to 1e100. ``"private"`` chooses it
        from the release by least-squares cross-validation that allows for the noise, at no cost. If
        features have different units, first scale them by public bounds, for example with
        ``DPMinMaxScaler(bounds=...)``, which is free. ``"scott"`` and ``"silverman"`` are
        scikit-learn's rules for features of variance 1, n**(-1 / (d + 4)) and
        (n (d + 2) / 4)**(-1 / (d + 4)), or the least bandwidth with at most 2000 centres.
    features : {"kernel", "cells"}, default="kernel"
        What is released. ``"kernel"``: whitened kernel values at the centres. ``"cells"``: counts
        of the rows in cells around the centres. In a pure fit of few rows, cells have as little as
        half the noise, but they move each row to the middle of its cell, which shows if values
        repeat (integers, say).
    spacing : float, default=0.8
        The largest distance of neighbouring centres, in bandwidths; 0.4 to 1.5. A smaller distance
        reproduces the kernel more exactly: see Notes.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high). A row outside is not moved: it counts as far as its kernel
        reaches into the box. ``"private"`` learns the box, for a fifth of the allowance at
        most; where rows are few, for up to a half. Without delta, this needs n * epsilon of about
        1,000 for each column; with fewer rows the box may be far off.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth, stated or chosen; with learned bounds, large enough for 2000 centres.
    centers_ : ndarray of shape (n_centers, n_features)
        The centres, rounded to the kernel's grid.
    coef_ : ndarray of shape (n_centers,)
        The released kernel density is ``sum_l coef_[l] N(x; centers_[l], bandwidth_**2)``. It may
        be negative at some points.
    density_ : ndarray, one dimension for each feature
        The density that `score_samples` uses, relative to the uniform one: the one above at the
        points of `axes_`, cut off at 0, with one additional row that is spread evenly, and scaled
        to an integral of 1. Between the points it is interpolated linearly.
    axes_ : tuple of ndarrays
        Points of `density_` in each feature, an eighth of a bandwidth apart (further apart with
        more than three features).
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The box, stated or learned.
    noise_std_ : float
        Standard deviation of the density due to noise, the root mean square over the box. If it is
        as large as the density itself, the density is only noise.

    Raises
    ------
    TypeError, ValueError
        ... Also if X has more than 10 columns, or the grid would have more than 2000 centres.

    See Also
    --------
    DPHistogramDensity : A simple baseline, also for more columns.
    skdp.DPuLSIF : Ratios of two densities.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (at most 20%); under ``"add_or_remove_one"`` the
    number of rows together with the means, and also before them if noise or bandwidth depend on it
    (2%); and the mean over the rows of the features psi(x) = K^(-1/2) k(x), where k are the kernel
    values at the centres and K those between centres; or, with ``features="cells"``, the numbers of
    rows in the cells. *Sensitivity* of the sum of psi: 1 if a row is added or removed, sqrt(2) if
    one is replaced, for any number of centres; both enlarged by what rounding may add (certified,
    about 0.1%). Of the counts: 1 if a row is added or removed; if one is replaced, 2 in L1 and
    sqrt(2) in L2. *Mechanism*: rounded Gaussian noise, or discrete Laplace noise on counts and
    K-norm noise on features, whichever is less. With K-norm noise, features that vary less over the
    box than the noise are left out.

    With Gaussian noise and a stated bandwidth h, the released density is the kernel density plus a
    Gaussian process with covariance s**2 r(x, y), where s = sqrt(2) (2 pi h**2)^(-d/2) / (n mu)
    under ``"replace_one"`` (corollary 9 of the reference, with the exact mu of the Gaussian
    mechanism), both projected onto the span of the kernels at the centres. There, r equals the
    kernel up to a residual: at most 0.0009 for each feature at a spacing of 0.8, and 0.00002 at
    0.6. With more than three features the grid ends at the bounds, and it is 0.006 at 0.8. K-norm
    noise on m features is sqrt(m + 1) / epsilon instead of 1 / mu; cells have the noise of counts,
    smoothed by the kernel.

    `score` is exact, so on private rows it is as private as the rows are.

    **Expected error.** How far noise will move the density, in total variation distance: half the
    integral of the absolute difference from the kernel density of the same bandwidth without noise,
    averaged over fits. It needs `like`: public rows, or an earlier fit, from which rows are drawn.
    The rows matter because negative noise is cut off: a density with few peaks has less noise.

    References
    ----------
    Hall, Rinaldo & Wasserman 2013, "Differential privacy for functions and functional data",
    Corollary 9 and Section 4.1 (kernel density).

    Williams & Seeger 2001, "Using the Nystroem method to speed up kernel machines", Section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.neighbors import DPKernelDensity
    >>> X = np.random.default_rng(0).normal(size=(10_000, 1))
    >>> density = DPKernelDensity(bounds=(-4, 4), delta=1e-6, random_state=0).fit(X)
    >>> at_0, beyond = density.pdf([[0.0], [5.0]])
    >>> bool(abs(at_0 - 0.4) < 0.05), float(beyond)
    (True, 0.0)
    >>> density.sample(3, random_state=0).shape
    (3, 1)
    """

    bandwidth: Any = "private"
    features: str = "kernel"
    spacing: float = 0.8
    bounds: Any = "private"

    _in_parts = True

    # --- checks before the charge ---------------------------------------------------------------

    _parameter_table: ClassVar[Table] = {
        "bandwidth": ("private", *_RULES, Reals(1e-100, 1e100)),
        "features": ("kernel", "cells"),
        "spacing": Reals(0.4, 1.5),
    }

    def _stated_bandwidth(self) -> float | None:
        return None if isinstance(self.bandwidth, str) else float(self.bandwidth)

    def _check_size(self, n_features: int, stated: Pair | None, bandwidth: float | None) -> None:
        """Refuse a public grid of too many centres."""
        if n_features > MOST_FEATURES:
            raise ValueError(
                f"X must have at most {MOST_FEATURES} columns, got {n_features}: a grid of centres "
                f"has at least 2**{n_features} then; take fewer columns (DPPCA), or "
                "DPHistogramDensity"
            )
        if stated is None or bandwidth is None:
            return
        sizes = Lattice.sizes(stated, bandwidth, float(self.spacing))
        number = math.prod(sizes)
        if number > MOST_CENTERS:
            least = least_bandwidth(stated, float(self.spacing), MOST_CENTERS)
            grid = " x ".join(f"{size:,}" for size in sizes)
            raise ValueError(
                f"bandwidth must be at least {least:.3g} for these bounds, got {bandwidth!r}: its "
                f"grid has {grid}{f' = {number:,}' if len(sizes) > 1 else ''} centres, and at most "
                f"{MOST_CENTERS:,} are feasible; take a larger bandwidth, narrower bounds or fewer "
                "columns, or DPHistogramDensity"
            )

    # --- fit --------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget, release the mean features, and compute the density from them."""
        with self._all_or_nothing(groups):
            rows = self._open(X)
            bandwidth = self._stated_bandwidth()
            stated = self._stated_bounds(rows.n_features)
            self._check_size(rows.n_features, stated, bandwidth)
            with self._session(rows) as session, np.errstate(all="ignore"):
                self.bounds_, learned = self._box_in(session, stated)
                self._release(session, bandwidth, learned)
        return self

    @property
    def _n_releases(self) -> int:
        return 2 if self.features == "cells" else 5

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if self.features == "cells":
            return super()._noise_of(allowance, n_features)
        return allowance.query_std(whitened_mean(_TYPICAL_FEATURES))

    def _release(
        self, session: Session, bandwidth: float | None, learned: LearnedBox | None
    ) -> None:
        """Plan, release the mean features, choose the bandwidth, and set the fitted attributes."""
        n = math.nan
        needed = session.pure or bandwidth is None or self.features == "cells"
        if needed or session.adjacency == "replace_one":
            n = row_count(session, COUNT_SHARE, learned)
        if self.bandwidth in _RULES:
            bandwidth = _RULES[self.bandwidth](max(n, 1.0), session.n_features)
        plan = self._planned(self.bounds_, bandwidth, n, Allowance.left(session))
        if plan.map is None or plan.matrix is None:
            release = session.answer(row_counts(Grid(tuple(plan.lattice.edges())), "cells"))
            mean, std = release.value.ravel() / n, float(np.max(release.std)) / n
        else:
            release, count = session.answer(KernelMean(plan.map, plan.matrix))
            mean, std = release.value, float(np.max(release.std))
            n = float(count.value)
        n = max(1.0, n)
        self._lattice, self._matrix, self._std = plan.lattice, plan.matrix, std
        self.centers_ = plan.lattice.centers()
        self.coef_ = mean if plan.matrix is None else plan.matrix.T @ mean
        self.bandwidth_ = plan.tried[0]
        if len(plan.tried) > 1:
            square = None if plan.matrix is None else plan.matrix.T @ plan.matrix
            loss = [
                criterion(plan.lattice, square, self.coef_, std, n, h, self.bounds_)
                for h in plan.tried
            ]
            self.bandwidth_ = plan.tried[int(np.argmin(np.nan_to_num(loss, nan=np.inf)))]
        self._tabulate(n)

    def _planned(
        self, bounds: Pair, bandwidth: float | None, n: float, allowance: Allowance
    ) -> Plan:
        """Return the plan of a fit, from public or released numbers."""
        spacing = float(self.spacing)
        least = least_bandwidth(bounds, spacing, MOST_CENTERS)

        def by_feature(size: int) -> float:
            return allowance.query_std(whitened_mean(size)) / n

        def by_kernel(h: float) -> float:
            return peak(bounds, h) * by_feature(math.prod(Lattice.sizes(bounds, h, spacing)))

        def by_cells(h: float) -> float:
            widths = (bounds[1] - bounds[0]) / h
            noise = allowance.cell_std / n * float(np.prod(widths))
            # Times the root of the sum over cells of squared kernels.
            return noise / (2 * math.sqrt(math.pi) * spacing) ** (len(widths) / 2)

        cells = self.features == "cells"
        if bandwidth is not None:
            tried = [max(bandwidth, least)]
        else:
            # K-norm noise of all directions grows with their number, smoothed or not.
            loud = _LOUD_PURE if allowance.pure and not cells else LOUD
            tried = candidates(bounds, spacing, n, by_cells if cells else by_kernel, loud)
        lattice = Lattice.make(bounds, tried[0], spacing, cells=cells)
        if cells:
            return Plan(tried, lattice, None, None)
        features = KernelMap(lattice.centers(), 0.5 / tried[0] ** 2)
        lattice = lattice.rounded(features.centers)
        second = lattice.second_moment(bounds, tried[0]) / peak(bounds, tried[0]) ** 2
        # Gaussian noise of a direction does not depend on the others, so all are released.
        noise = by_feature if allowance.pure else lambda size: 0.0
        matrix = nystroem_features(features.gram(), second, noise).matrix
        return Plan(tried, lattice, features, matrix)

    def _tabulate(self, n: float) -> None:
        """Set the density on a grid of points, and its standard deviation due to noise."""
        h, lattice = self.bandwidth_, self._lattice
        self.axes_ = tuple(node_axes(self.bounds_, h))
        kernels = lattice.kernels(self.axes_, h, self.bounds_)
        density = along(kernels, self.coef_.reshape(lattice.shape))
        self.density_, self._factor = mixed(density, _trapezoid(self.axes_), n)
        rms = self._std * lattice.root_mean_square(self._matrix, h, self.bounds_)
        unit = math.exp(min(-self._log_volume(), 700.0))
        self.noise_std_ = float(np.nan_to_num(rms * self._factor * unit))

    # --- post-processing --------------------------------------------------------------------------

    def _relative(self, values: Floats) -> Floats:
        axes = [np.linspace(0.0, 1.0, axis.size) for axis in self.axes_]
        low, high = self.bounds_
        unit = np.clip((values - low) / (high - low), 0.0, 1.0)
        return np.asarray(RegularGridInterpolator(axes, self.density_)(unit))

    def _relative_std(self, values: Floats) -> Floats:
        std = np.empty(len(values))
        widths = self.bounds_[1] - self.bounds_[0]
        own = self._lattice.own(self.bandwidth_)
        step = max(1, _BLOCK_VALUES // len(self.centers_))
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            image = np.ones((len(values[part]), len(self.centers_)))
            for j, (h, width) in enumerate(zip(own, widths, strict=True)):
                image *= axis_kernel(values[part, j], self.centers_[:, j], h, float(width))
            if self._matrix is not None:
                image = image @ self._matrix.T
            std[part] = np.linalg.norm(image, axis=1)
        return self._factor * self._std * std

    def _draw(self, n: int, random: Any) -> Floats:
        """Draw points of the grid, then a place in the tent over each."""
        weights = (_trapezoid(self.axes_) * self.density_).ravel()
        points = random.choice(weights.size, size=n, p=weights / weights.sum())
        index = np.unravel_index(points, self.density_.shape)
        columns = []
        for axis, i in zip(self.axes_, index, strict=True):
            offset = random.uniform(size=n) - random.uniform(size=n)
            offset = np.where(i == 0, np.abs(offset), offset)
            offset = np.where(i == axis.size - 1, -np.abs(offset), offset)
            unit = (i + offset) / (axis.size - 1)
            columns.append(axis[0] * (1.0 - unit) + axis[-1] * unit)
        return np.column_stack(columns)

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        rows = self._like(n, d, like)
        self._check_size(d, self._stated_bounds(d), self._stated_bandwidth())

        def distance(fresh: Fresh, number: int) -> float:
            public = rows(number)
            fitted = fresh(number).fit(public)
            stated = {"bandwidth": fitted.bandwidth_, "bounds": fitted.bounds_}
            plain = fresh(0, epsilon=NOISELESS, features="kernel", **stated).fit(public)
            moved = np.abs(fitted.density_ - plain.density_)
            return 0.5 * float((_trapezoid(fitted.axes_) * moved).sum())

        return mean_error(self, distance)


def criterion(
    lattice: Lattice,
    square: Floats | None,
    coef: Floats,
    std: float,
    n: float,
    bandwidth: float,
    bounds: Pair,
) -> float:
    """Return the integrated squared error of a bandwidth, up to a constant; lower is better.

    Least-squares cross-validation (Rudemo 1982; Bowman 1984): the integral of f_h**2 minus twice
    the mean over the n rows of f_h without the row. Both are quadratic forms in the released mean
    features. To the second, noise adds std**2 tr(B), which is subtracted, as is a row's own part of
    the density. A quarter of the criterion's standard deviation due to noise is added, so that
    chance does not choose a small bandwidth. Where features are a matrix M times kernel values,
    `square` is M'M, `coef` M' times the mean, and a form B of features is M F M'; else B is F.
    """
    wide, narrow = (lattice.gram(bandwidth, bounds, times) for times in (math.sqrt(2.0), 1.0))
    height = float(narrow[0, 0])
    others = n / max(n - 1.0, 1.0)
    form = wide - 2.0 * others * narrow
    moved = form @ coef
    if square is None:
        trace, norm, along = np.trace(narrow), np.square(form).sum(), moved @ moved
    else:  # the trace of BB is that of FM'MFM'M: one product of matrices, not two
        product = form @ square
        trace, norm = np.vdot(narrow, square), np.vdot(product, product.T)
        along = moved @ square @ moved
    loss = coef @ moved + 2.0 * others * (std**2 * trace + height / n)
    spread = 2.0 * std**4 * norm + 4.0 * std**2 * along
    return float(loss + _CAUTION * math.sqrt(max(spread, 0.0)))


def _trapezoid(axes: Sequence[Floats]) -> Floats:
    """Return the weights of the trapezoidal rule over equally spaced points, of sum 1."""
    weights = np.ones(())
    for axis in axes:
        along_axis = np.full(axis.size, 1.0 / (axis.size - 1))
        along_axis[[0, -1]] /= 2
        weights = np.multiply.outer(weights, along_axis)
    return weights
