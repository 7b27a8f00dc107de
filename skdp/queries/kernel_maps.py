"""Kernel values of a row at public centres, as certified integers.

Nothing is released here; the queries of `skdp.queries.kernel_means` add up what these maps make of
a row. Guarantee: every integer is decided by the row alone, whatever chunk it is in. Proofs:
kernel_means.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from skdp.core.clipping import Box, Floats, isqrt_up, power_of_two_grid
from skdp.core.query import reviewed
from skdp.core.table import MAX_FEATURES, REPLACE_ONE, as_total, fold, total_dtype
from skdp.tabular.rows import Rows

if TYPE_CHECKING:
    pass

KERNELS = ("rbf", "laplacian")

_STEP_BITS = 30  # kernel values are multiples of g = 2**-30
_REACH = 23.0  # exp(-23) < 2**-33: no kernel value that far is a step
_LARGEST = 1e300  # centres, and what is beyond the reach of tiny rates, end here
_MAX_SCALES = 64
_MAX_SQUARINGS = 4  # each doubles the relative error of a kernel value
# What is assumed of exp, numpy's (wherever in an array a number stands) and the C library's.
_EXP_ERROR = 2.0**-45
_ROUND_UP = 1.0 + 2.0**-30  # far above every rounding error of the bounds it multiplies
_CHUNK = 2**15  # kernel values at a time: three arrays of 256 KB stay in cache

_IMAGE_BITS = 20  # a linear image is released in steps of about 2**-20 of its bound
_MATRIX_BITS = 40  # its matrix has up to 2**40 steps


# --- kernel values as integers ----------------------------------------------------------------


def _chains(rates: list[float]) -> list[tuple[float, list[tuple[int, int]]]]:
    """Group rates that are a power of two apart: one exp a group, then repeated squaring.

    Returns
    -------
    chains : list of (rate, [(squarings, scale), ...])
        Squarings ascending, at most `_MAX_SQUARINGS`; scale is the position in `rates`.
    """
    chains: list[tuple[float, list[tuple[int, int]]]] = []
    for rate, scale in sorted(zip(rates, range(len(rates)), strict=True)):
        for base, links in chains:
            squarings = math.frexp(rate)[1] - math.frexp(base)[1]
            if squarings <= _MAX_SQUARINGS and math.ldexp(base, squarings) == rate:
                links.append((squarings, scale))
                break
        else:
            chains.append((rate, [(0, scale)]))
    return chains


def _scalar_exp(x: Floats) -> None:
    """Replace every number by its exponential, one at a time: the same wherever it stands."""
    x[...] = np.reshape([math.exp(v) for v in x.ravel().tolist()], x.shape)


def _vector_exp(x: Floats) -> None:
    """Replace every number by its exponential; the last bits may depend on the position."""
    np.exp(x, out=x)


@reviewed
class KernelMap:
    """Row map x -> trunc(k_j(x, c_l) / g), g = 2**-30, for all scales j and centres l.

    k_j(x, c) = exp(-gammas_j dist(x, c)); scale by scale, in the order given: column j b + l. Rows
    and centres are clipped to a public box, beyond which every value is below one step, and rounded
    to a common power-of-two grid, so that distances are exact integers.

    Guarantee: as every view's map. An integer depends on its row alone: where the float value is so
    near an integer that another evaluation could fall on its other side, one at a time decides.

    Parameters
    ----------
    centers : array-like of shape (b, d)
        Public.
    gammas : float or array-like of shape (n_scales,)
        Positive. One exponential serves all that are powers of two apart.
    kernel : {"rbf", "laplacian"}
        Squared Euclidean or L1 distance.

    Attributes
    ----------
    centers : ndarray of shape (b, d)
        As rounded to the grid, in user units. What is made of the release must use these.
    n_centers, n_scales : int
    n_dims : int
        n_scales * n_centers.
    grid, center, half, norm
        As of every view; all values are in [0, 1].
    n_features : int
        d.
    error : float
        Bound on the difference of a computed kernel value and the exact one.

    Raises
    ------
    ValueError
        If a parameter is not as described. All of them are public.
    """

    def __init__(
        self,
        centers: ArrayLike,
        gammas: ArrayLike,
        kernel: str = "rbf",
    ) -> None:
        if kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {KERNELS}, got {kernel!r}")
        where = np.array(centers, dtype=np.float64)
        if where.ndim != 2 or not where.size or not np.isfinite(where).all():
            raise ValueError("centers must be a finite array of shape (n_centers, n_features)")
        if where.shape[1] > MAX_FEATURES:
            # Squared distances are below 2**38 a feature, 2**51 in all.
            raise ValueError(f"centers must have at most {MAX_FEATURES} features")
        self.gammas = np.array(gammas, dtype=np.float64).reshape(-1)
        if not 1 <= self.gammas.size <= _MAX_SCALES:
            raise ValueError(f"gammas must have 1 to {_MAX_SCALES} entries")
        if not (np.isfinite(self.gammas).all() and np.all(self.gammas > 0)):
            raise ValueError("gammas must be positive and finite")
        self.kernel = kernel
        self.n_scales = self.gammas.size
        self.n_centers, self.n_features = where.shape
        self.n_dims = self.n_scales * self.n_centers

        where = np.clip(where, -_LARGEST, _LARGEST)
        self.box = _reaching_box(where, _reach(float(self.gammas.min()), kernel))
        step = float(self.box.grid[0])
        self._q = self.box.map(where)
        # Exact: the box's centre is a multiple of the step, of at most 2**49 steps.
        self.centers = self.box.center + self._q * step
        # [q, |q|^2, 1] times this is |q|^2 - 2 q.c + |c|^2, every partial sum below 2**52.
        self._right = np.vstack(
            [-2.0 * self._q.T, np.ones(self.n_centers), np.einsum("ij,ij->i", self._q, self._q)]
        )
        # One factor at a time: the square of the step may leave the range of floats.
        with np.errstate(all="ignore"):
            rates = self.gammas * step * (step if kernel == "rbf" else 1.0)
        self._chains = _chains(np.clip(rates, 0.0, _LARGEST).tolist())
        squarings = max(m for _, links in self._chains for m, _ in links)
        self.error = 2.0 * _EXP_ERROR * 2**squarings + 2.0**-51
        self._tolerance = 4.0 * self.error * 2**_STEP_BITS

        self.grid = np.full(self.n_dims, 2.0**-_STEP_BITS)
        self.center = np.zeros(self.n_dims)
        self.half = np.full(self.n_dims, 2.0**_STEP_BITS)
        self._row_l1, self._row_l2 = self._bounds()
        self.norm = isqrt_up(self._row_l2)
        for array in (self.centers, self.gammas, self._q, self._right):
            array.setflags(write=False)

    def __repr__(self) -> str:
        return (
            f"KernelMap(n_centers={self.n_centers}, n_scales={self.n_scales}, "
            f"kernel={self.kernel!r})"
        )

    # --- values -------------------------------------------------------------------------------

    def _distances(self, q: Floats) -> Floats:
        """Return the distances of integer rows to all centres, as exact integers."""
        if self.kernel == "laplacian":
            return cdist(q, self._q, "cityblock")
        left = np.empty((len(q), self.n_features + 2))
        left[:, :-2] = q
        np.einsum("ij,ij->i", q, q, out=left[:, -2])
        left[:, -1] = 1.0
        return left @ self._right

    def _values(self, distance: Floats, exp: Callable[[Floats], None]) -> Floats:
        """Return kernel values over exact distances (m, b), shape (m, n_scales * b).

        The distances are overwritten. Each value is off by less than `error`.
        """
        m, b = distance.shape
        values = distance if self.n_scales == 1 else np.empty((m, self.n_scales * b))
        for i, (rate, links) in enumerate(self._chains):
            last = i + 1 == len(self._chains)
            power = np.multiply(distance, -rate, out=distance if last else None)
            exp(power)
            done = 0
            for squarings, scale in links:
                for _ in range(squarings - done):
                    np.multiply(power, power, out=power)
                done = squarings
                if values is not distance:
                    values[:, scale * b : (scale + 1) * b] = power
        return values

    def _parts(self, block: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield (rows, their image) in chunks that fit a cache."""
        size = max(1, _CHUNK // self.n_dims)
        for start in range(0, len(block), size):
            rows = slice(start, min(start + size, len(block)))
            q = self.box.map(block[rows])
            low = self._values(self._distances(q), _vector_exp)
            low *= 2.0**_STEP_BITS
            # Rounded towards zero with the tolerance on either side: equal almost everywhere.
            # Values below the tolerance give 0 on both sides.
            high = low + self._tolerance
            np.trunc(high, out=high)
            low -= self._tolerance
            np.trunc(low, out=low)
            near = np.flatnonzero(low != high)
            if near.size:
                high.ravel()[near] = self._decided(q, near)
            yield rows, high

    def _decided(self, q: Floats, entries: NDArray[np.intp]) -> Floats:
        """Return the image of single entries of a block, evaluated one number at a time."""
        decided = np.full(entries.size, 2.0**_STEP_BITS)  # what distance 0 gives: exp(-0) is 1
        # In pieces: how many entries there are depends on the rows, the memory must not.
        size = max(1, 2**18 // self.n_features)
        for start in range(0, entries.size, size):
            piece = slice(start, start + size)
            i, column = np.divmod(entries[piece], self.n_dims)
            scale, j = np.divmod(column, self.n_centers)
            difference = q[i] - self._q[j]
            # Sums of integers below 2**52, exact in any order.
            if self.kernel == "rbf":
                distance = np.einsum("ij,ij->i", difference, difference)
            else:
                distance = np.abs(difference).sum(axis=1)
            apart = np.flatnonzero(distance)
            values = self._values(distance[apart, None], _scalar_exp)
            chosen = values[np.arange(apart.size), scale[apart]]
            decided[piece][apart] = np.trunc(chosen * 2.0**_STEP_BITS)
        return decided

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers in [0, 2**30], one a scale and centre."""
        image = np.empty((len(block), self.n_dims))
        with np.errstate(all="ignore"):
            for rows, part in self._parts(block):
                image[rows] = part
        return image

    def parts(self, block: Floats) -> Iterator[Floats]:
        """Yield the images of rows, some rows at a time."""
        with np.errstate(all="ignore"):
            for _, part in self._parts(block):
                yield part

    def total(self, rows: Rows) -> NDArray:
        """Return the sum of the images of all rows, exactly; private."""
        dtype = total_dtype(rows, 2**_STEP_BITS)

        def add(block: Floats, totals: list[NDArray]) -> None:
            for _, part in self._parts(block):
                # At most 2**16 rows * 2**30: exact.
                totals[0] += as_total(np.ones(len(part)) @ part, dtype)

        (total,) = fold(
            rows, add, lambda: [np.zeros(self.n_dims, dtype=dtype)], width=self.n_dims, least=2048
        )
        return total

    def evaluate(self, X: ArrayLike) -> Floats:
        """Return float kernel values at public rows, which are clipped and rounded as all rows are.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Finite.

        Returns
        -------
        values : ndarray of shape (n, n_scales * b)
            In [0, 1].
        """
        X = np.asarray(X, dtype=np.float64)
        values = np.empty((len(X), self.n_dims))
        size = max(1, _CHUNK // self.n_dims)
        with np.errstate(all="ignore"):
            for start in range(0, len(X), size):
                rows = slice(start, min(start + size, len(X)))
                part = self._values(self._distances(self.box.map(X[rows])), _vector_exp)
                np.minimum(part, 1.0, out=values[rows])
        return values

    def gram(self) -> list[Floats]:
        """Return k_j(c_i, c_l) of the rounded centres, one matrix of shape (b, b) a scale."""
        b = self.n_centers
        with np.errstate(all="ignore"):
            values = np.minimum(self._values(self._distances(self._q), _vector_exp), 1.0)
        return [values[:, j * b : (j + 1) * b] for j in range(self.n_scales)]

    # --- sensitivity --------------------------------------------------------------------------

    def _bounds(self) -> tuple[int, int]:
        """Return bounds on sum q and sum q**2 of any row, in steps and steps squared.

        If c_i is the centre nearest to x, then |x - c_l| >= |c_i - c_l| / 2 for all l, whatever
        the scale.
        """
        with np.errstate(all="ignore"):
            distance = self._distances(self._q)
            distance *= 0.25 if self.kernel == "rbf" else 0.5
            # Once for what is computed here, once for what is computed of a row.
            values = self._values(distance, _vector_exp) + 2.0 * self.error
        values.sort(axis=1)  # a float sum must not depend on the order of scales and centres
        first = float(values.sum(axis=1).max()) * _ROUND_UP
        second = float(np.square(values).sum(axis=1).max()) * _ROUND_UP
        one = 2**_STEP_BITS
        b = self.n_dims
        return (
            min(b * one, math.ceil(Fraction(first) * one)),
            min(b * one**2, math.ceil(Fraction(second) * one**2)),
        )

    def sensitivity(self, adjacency: str) -> tuple[int, int]:
        """Return the L1 and the squared L2 sensitivity of the sum of images, in steps, rounded up.

        A: the nearest-centre bounds. R: twice those, or b where that is less, because the
        integers are not negative.
        """
        if adjacency != REPLACE_ONE:
            return self._row_l1, self._row_l2
        one = 2**_STEP_BITS
        return (
            min(self.n_dims * one, 2 * self._row_l1),
            min(self.n_dims * one**2, 2 * self._row_l2),
        )


def _reach(gamma: float, kernel: str) -> float:
    """Return the distance in one coordinate beyond which no kernel value is a step."""
    if kernel == "rbf":
        return min(math.sqrt(_REACH) / math.sqrt(gamma), _LARGEST)
    return min(_REACH / max(gamma, 1e-299), _LARGEST)


def _reaching_box(centers: Floats, reach: float) -> Box:
    """Return a box around all centres, of whole steps, with a centre of whole steps.

    Then a rounded centre has the same integers again when it is mapped once more.
    """
    reach = max(reach, float(np.abs(centers).max()) * 2.0**-30)  # at most 2**49 steps from 0
    low, high = centers.min(axis=0), centers.max(axis=0)
    half = high / 2 - low / 2 + reach
    # A little more than needed, so that rounding up to whole steps stays in the same power of two.
    step = power_of_two_grid(float(half.max()) * (1 + 2.0**-15))
    middle = np.rint((low / 2 + high / 2) / step)
    steps = np.ceil(half / step) + 1.0
    return Box((middle - steps) * step, (middle + steps) * step)


# --- linear images ----------------------------------------------------------------------------
