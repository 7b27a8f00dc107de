"""Means of kernel values at public centres.

Released: the mean over the rows of k_j(x, c_l) at several scales j: a public linear image of all
values (if the Gram matrices whiten it, of sensitivity 1 or, under replace-one, sqrt(2), whatever
the number of centres), or each value with its own noise. Guarantee: kernel values are integers in
steps of 2**-30 that the row alone decides, so sums are exact. Proofs: kernel_means.md.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from skdp.core.clipping import Box, Floats, isqrt_up, power_of_two_grid
from skdp.core.mechanisms import Spherical
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, Terms, reviewed
from skdp.core.sums import Image, RowSum
from skdp.core.table import (
    ADD_OR_REMOVE_ONE,
    MAX_FEATURES,
    REPLACE_ONE,
    PrivateTable,
    as_total,
    fold,
    total_dtype,
)
from skdp.tabular.rows import Rows

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
    """Group rates that are a power of two apart: (rate, [(squarings, position in rates), ...]).

    One exp a group serves all its rates, by repeated squaring; squarings ascend.
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

    k_j(x, c) = exp(-gammas_j dist(x, c)) is column j b + l. Rows and centres are clipped to a box,
    beyond which every value is below one step, and rounded to one grid: distances are exact
    integers. Guarantee: a row alone decides its integers; where a float value is so near an integer
    that another evaluation could fall on its other side, scalar arithmetic decides.

    - `centers` of shape (b, d): Public.
    - `gammas` of shape (n_scales,): Positive. One exponential serves all that are powers of two
      apart.
    - `kernel` ({"rbf", "laplacian"}): Squared Euclidean or L1 distance.
    - `centers` of shape (b, d): Rounded to the grid, in user units; post-processing must use these.
    - `n_features`, `n_centers`, `n_scales`, `n_dims` (int): d, b, the number of scales, and
      n_scales * b.
    - `grid`, `center`, `half`, `norm`: As of every view; all values are in [0, 1].
    - `error` (float): Bound on the error of a computed kernel value.
    - raises ValueError: if a parameter is not as described.
    """

    def __init__(self, centers: ArrayLike, gammas: ArrayLike, kernel: str = "rbf") -> None:
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
        augmented = np.empty((len(q), self.n_features + 2))
        augmented[:, :-2] = q
        np.einsum("ij,ij->i", q, q, out=augmented[:, -2])
        augmented[:, -1] = 1.0
        return augmented @ self._right

    def _values(self, distance: Floats, exp: Callable[[Floats], None]) -> Floats:
        """Return kernel values of exact distances, (m, n_scales * b); overwrites the distances."""
        m, b = distance.shape
        values = distance if self.n_scales == 1 else np.empty((m, self.n_scales * b))
        for i, (rate, links) in enumerate(self._chains):
            last = i + 1 == len(self._chains)
            power = np.multiply(distance, -rate, out=distance if last else None)
            exp(power)
            squared = 0
            for squarings, scale in links:
                for _ in range(squarings - squared):
                    np.multiply(power, power, out=power)
                squared = squarings
                if values is not distance:
                    values[:, scale * b : (scale + 1) * b] = power
        return values

    def parts(self, block: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield (rows, their images) in chunks that fit a cache."""
        size = max(1, _CHUNK // self.n_dims)
        for start in range(0, len(block), size):
            rows = slice(start, min(start + size, len(block)))
            with np.errstate(all="ignore"):
                image = self._image(block[rows])
            yield rows, image

    def _image(self, block: Floats) -> Floats:
        """Return the integers of some rows; kernel_means.md, "A row alone decides its integers"."""
        q = self.box.map(block)
        low = self._values(self._distances(q), _vector_exp)
        low *= 2.0**_STEP_BITS
        # Rounded towards zero with the tolerance on either side: equal almost everywhere. Values
        # below the tolerance give 0 on both sides.
        high = low + self._tolerance
        np.trunc(high, out=high)
        low -= self._tolerance
        np.trunc(low, out=low)
        near = np.flatnonzero(low != high)
        if near.size:
            high.ravel()[near] = self._decided(q, near)
        return high

    def _decided(self, q: Floats, entries: NDArray[np.intp]) -> Floats:
        """Return the image of single entries of a block, evaluated one number at a time."""
        decided = np.full(entries.size, 2.0**_STEP_BITS)  # of distance 0
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
            nonzero = np.flatnonzero(distance)
            values = self._values(distance[nonzero, None], _scalar_exp)
            chosen = values[np.arange(nonzero.size), scale[nonzero]]
            decided[piece][nonzero] = np.trunc(chosen * 2.0**_STEP_BITS)
        return decided

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers in [0, 2**30], one a scale and centre."""
        image = np.empty((len(block), self.n_dims))
        for rows, part in self.parts(block):
            image[rows] = part
        return image

    def block_total(self, block: Floats, dtype: type) -> NDArray:
        """Return the sum of the images of at most 2**16 rows: at most 2**46, exact."""
        total = np.zeros(self.n_dims, dtype=dtype)
        for _, part in self.parts(block):
            total += as_total(np.ones(len(part)) @ part, dtype)
        return total

    def total(self, rows: Rows) -> NDArray:
        """Return the sum of the images of all rows, exactly; private."""
        dtype = total_dtype(rows, 2**_STEP_BITS)

        def add(block: Floats, totals: list[NDArray]) -> None:
            totals[0] += self.block_total(block, dtype)

        (total,) = fold(
            rows, add, lambda: [np.zeros(self.n_dims, dtype=dtype)], width=self.n_dims, least=2048
        )
        return total

    def evaluate(self, X: ArrayLike) -> Floats:
        """Return kernel values in [0, 1] at public finite rows, (n, n_scales * b), as floats.

        Rows are clipped and rounded like private ones.
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
        """Return bounds on sum q and sum q**2 of any row; kernel_means.md, "Nearest centre"."""
        with np.errstate(all="ignore"):
            distance = self._distances(self._q)
            distance *= 0.25 if self.kernel == "rbf" else 0.5
            # One `error` for the values computed here, one for those of a row.
            values = self._values(distance, _vector_exp) + 2.0 * self.error
        values.sort(axis=1)  # a float sum must not depend on the order of scales and centres
        first = float(values.sum(axis=1).max()) * _ROUND_UP
        second = float(np.square(values).sum(axis=1).max()) * _ROUND_UP
        first, second = Fraction(first) * 2**_STEP_BITS, Fraction(second) * 4**_STEP_BITS
        return (
            min(self.n_dims << _STEP_BITS, math.ceil(first)),
            min(self.n_dims << 2 * _STEP_BITS, math.ceil(second)),
        )

    def sensitivity(self, adjacency: str) -> tuple[int, int]:
        """Return the L1 and the squared L2 sensitivity of the sum of images, in steps, rounded up.

        A: the nearest-centre bounds. R: at most twice those, as the integers are not negative.
        """
        if adjacency != REPLACE_ONE:
            return self._row_l1, self._row_l2
        return (
            min(self.n_dims << _STEP_BITS, 2 * self._row_l1),
            min(self.n_dims << 2 * _STEP_BITS, 2 * self._row_l2),
        )


def _reach(gamma: float, kernel: str) -> float:
    """Return the distance in one coordinate beyond which no kernel value is a step."""
    if kernel == "rbf":
        return min(math.sqrt(_REACH) / math.sqrt(gamma), _LARGEST)
    return min(_REACH / max(gamma, 1e-299), _LARGEST)


def _reaching_box(centers: Floats, reach: float) -> Box:
    """Return a box around all centres whose sides and centre are whole numbers of steps.

    So a rounded centre is mapped to the same integers again.
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


class LinearImage:
    """Public linear image M k(x) of a row's kernel values, with a certified bound.

    Guarantee: for M rounded to integers and the exact kernel values k, the norm of M k(x) is at
    most `bound`, and that of M (k(x) - k(x')) at most sqrt(2) times as much (kernel_means.md).

    - `matrix` of shape (r, n_scales * b): Public, finite, not all zero. With K_j the Gram matrix of
      scale j of J, the bound is the root of the largest eigenvalue of M diag(J K_1, ..., J K_J) M',
      or a little more.
    - `bound` (float)
    - `step` (float): User units of one step of `apply`: a power of two, 2**19 to 2**20 steps to the
      bound.
    - raises ValueError: if the matrix is not as described.
    """

    def __init__(self, kernel: KernelMap, matrix: ArrayLike) -> None:
        m = np.array(matrix, dtype=np.float64)
        if m.ndim != 2 or not len(m) or m.shape[1] != kernel.n_dims:
            raise ValueError(f"matrix must have shape (n_features_out, {kernel.n_dims})")
        if not np.isfinite(m).all() or not 1e-100 < np.abs(m).max(initial=0.0) < 1e100:
            raise ValueError(
                "matrix must be finite, and its largest entry between 1e-100 and 1e100"
            )
        self._kernel = kernel
        self._bits = _MATRIX_BITS - math.frexp(float(np.abs(m).max()))[1]
        self._matrix = np.rint(m * 2.0**self._bits).astype(np.int64)
        self.bound = self._certified()
        self._step_bits = _IMAGE_BITS - math.frexp(self.bound)[1]
        self.step = 2.0**-self._step_bits

    def _certified(self) -> float:
        """Return an upper bound on the root of the largest eigenvalue; kernel_means.md."""
        b, scales = self._kernel.n_centers, self._kernel.n_scales
        unit = 2.0**-53
        gamma = (b + 2) * unit / (1 - (b + 2) * unit)
        product: Any = 0.0
        spread: Any = 0.0
        slack: Any = 0.0  # what the error of the Gram matrices can add
        for j, gram in enumerate(self._kernel.gram()):
            m = self._matrix[:, j * b : (j + 1) * b] * 2.0**-self._bits  # exact
            size = np.abs(m)
            product = product + m @ gram @ m.T
            spread = spread + (size @ np.abs(gram) @ size.T).sum(axis=1)
            weight = size.sum(axis=1)
            slack = slack + weight * weight.sum()
        rows = np.abs(product).sum(axis=1) + self._kernel.error * slack
        rows += (2.1 * gamma + (scales + 1) * unit) * spread
        return math.sqrt(float(rows.max()) * scales * _ROUND_UP)

    def apply(self, total: NDArray) -> NDArray:
        """Return floor(M total) of an exact sum of images, in steps."""
        sums = [int(v) for v in total]
        # Not negative: by the slack alone the bound is above 2**-22 of M's largest entry.
        shift = self._bits + _STEP_BITS - self._step_bits
        # Python's shifts are exact, and to the right they round down.
        image = [sum(map(operator.mul, row.tolist(), sums)) >> shift for row in self._matrix]
        large = any(abs(v) >= 2**62 for v in image)
        return np.array(image, dtype=object if large else np.int64)

    def sensitivity(self, adjacency: str) -> int:
        """Return the L2 sensitivity of `apply` of the sum, in steps, rounded up."""
        m = self._matrix * 2.0**-self._bits
        entry = 2.0**-_STEP_BITS + self._kernel.error
        lost = math.sqrt(self._kernel.n_dims) * entry * math.sqrt(np.sum(m * m))
        size = self.bound + lost
        if adjacency == REPLACE_ONE:
            size = math.sqrt(2) * self.bound + 2 * lost
        return math.ceil(size / self.step * _ROUND_UP + math.sqrt(len(m))) + 1


# --- queries ----------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class KernelMean(Query):
    """The mean of a public linear image M k(x) of the kernel values, and n.

    Guarantee: the certified L2 sensitivity of `LinearImage`, c (A), sqrt(2) c (R). Where n is
    private, (w n, sum) is one release, w = c / 3. It is no `RowSum`: M is applied to the exact sum
    of all rows and rounded once, which is finer than rounding each row's image.

    - `matrix` of shape (r, n_scales * b): M, public. Whitened by the Gram matrices it has c = 1.
    - `image`, `count_weight`: Set by the session: the `LinearImage`, and w where n is private, else
      0.
    - returns `mean` of shape (r,)
    - returns `n`: Number of rows: exact where it is public, noisy otherwise; at least 1.
    """

    name: ClassVar[str] = "kernel mean"
    kernel: KernelMap
    matrix: Any
    image: Any = None
    count_weight: int = 0

    def _linear(self) -> Any:
        return LinearImage(self.kernel, self.matrix)

    def prepared(self, terms: Terms) -> KernelMean:
        image = self._linear()
        weight = image.sensitivity(terms.relation) // 3 if terms.n_rows is None else 0
        return replace(self, image=image, count_weight=weight)

    @property
    def unit(self) -> float:
        return float(self.image.step)

    @property
    def entries(self) -> int:
        """How many integers are released, once the query is prepared."""
        return len(self.matrix) + (self.count_weight > 0)

    def check_table(self, table: PrivateTable) -> None:
        check_features(self.kernel, table)

    def exact(self, table: PrivateTable) -> NDArray:
        sums: NDArray = self.image.apply(self.kernel.total(table.rows))
        if not self.count_weight:
            return sums
        n = self.count_weight * table.n
        return np.concatenate([sums, np.array([n], dtype=sums.dtype if n < 2**62 else object)])

    def sensitivity(self, relation: str) -> Spherical:
        size = self.image.sensitivity(relation)
        if relation == REPLACE_ONE:
            return Spherical(size)
        return Spherical(isqrt_up(self.count_weight**2 + size**2))

    def decoded(self, noisy: Noisy) -> tuple[Release, Release]:
        values, n, n_std = noisy.values.astype(np.float64), float(noisy.terms.n_rows or 0), 0.0
        if self.count_weight:
            n, n_std = float(values[-1]) / self.count_weight, noisy.std / self.count_weight
            values = values[:-1]
        n = max(1.0, n)
        step = self.image.step
        return released(values / n * step, noisy.std / n * step), released(n, n_std)


class _Whitened:
    """What a `LinearImage` of whitened features is before its matrix is known: bound 1."""

    step = 2.0**-_IMAGE_BITS

    def sensitivity(self, adjacency: str) -> int:
        return isqrt_up((2 if adjacency == REPLACE_ONE else 1) << 2 * _IMAGE_BITS)


@dataclass(frozen=True, eq=False)
class _WhitenedMean(KernelMean):
    kernel: Any = None
    matrix: Any = None

    def _linear(self) -> Any:
        return _Whitened()


def whitened_mean(size: int) -> KernelMean:
    """Return a `KernelMean` of so many whitened features, for plans: no session answers it."""
    return _WhitenedMean(matrix=np.empty((size, 0)))


def check_features(kernel: KernelMap, table: PrivateTable) -> None:
    """Refuse centres that have other columns than the rows."""
    if kernel.n_features != table.n_features:
        raise ValueError(
            f"the centres have {kernel.n_features} features, the rows {table.n_features}"
        )


@reviewed
@dataclass(frozen=True, eq=False)
class KernelFeatures(Image):
    """The kernel values k_j(x, c_l) of a row; bounds: kernel_means.md, "Nearest centre"."""

    what = "kernel values at public centres"
    one_sign = True
    least = 2048
    kernel: KernelMap
    count_weight: int = 1  # set by the session

    def prepared(self, terms: Terms) -> KernelFeatures:
        # Balances the noise of sums and count for means of about 1/2.
        best = (self.l1 * self.unit / 4) ** (1 / 3)
        if not terms.pure:
            best = (self.l2_squared * self.unit**2 / 4) ** 0.25
        return replace(self, count_weight=max(1, math.ceil(best / self.unit)))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.kernel.n_dims,)

    @property
    def unit(self) -> float:
        return 2.0**-_STEP_BITS

    @property
    def l1(self) -> int:
        return self.kernel.sensitivity(ADD_OR_REMOVE_ONE)[0]

    @property
    def l2_squared(self) -> int:
        return self.kernel.sensitivity(ADD_OR_REMOVE_ONE)[1]

    @property
    def change_l1(self) -> int:
        return self.kernel.sensitivity(REPLACE_ONE)[0]

    @property
    def change_l2_squared(self) -> int:
        return self.kernel.sensitivity(REPLACE_ONE)[1]

    @property
    def largest(self) -> int:
        return 2**_STEP_BITS

    def check_table(self, table: PrivateTable) -> None:
        check_features(self.kernel, table)

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        yield self.kernel.map(x)

    def total(self, x: Any, labels: Any, weights: Floats | None, dtype: type) -> NDArray:
        if weights is not None:
            return super().total(x, labels, weights, dtype)
        return self.kernel.block_total(x, dtype)

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Any:
        if count is None:
            return super().decoded(sums, std, count)
        n = float(count.value)
        return released(sums / n * self.unit, std / n * self.unit), count


def feature_means(kernel: KernelMap) -> RowSum:
    """Return the query of the mean of every k_j(x, c_l) with independent noise, and n.

    The answer is (mean, n), the mean of shape (n_scales * b,).
    """
    return RowSum(KernelFeatures(kernel), noise="entries", count=True, name="feature means")
