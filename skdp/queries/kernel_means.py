"""Private means of feature maps: kernel values at public centres, or a user's map of one row.

Releases the mean over the rows of kernel values k_j(x, c_l) at several scales j: a public linear
image of them (sensitivity 1, or sqrt(2) under replace-one, if the image is whitened by the Gram
matrices, whatever the number of centres), or each with independent noise; and the mean of any
clipped map of a row. Centres, kernels and maps are public. Kernel values are integers in steps of
2**-30, decided by a row alone, so that sums are exact like all statistics here. Proofs:
kernel_means.md.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import SUM_BITS, Ball, Box, Floats, isqrt_up
from skdp.core.mechanisms import independent_noise, l2_noise
from skdp.core.privacy_filter import Release, Share, released
from skdp.core.query import Measurement, Noisy, UserFunction, reviewed, terms_of
from skdp.core.table import REPLACE_ONE, as_total, total_dtype
from skdp.queries.user_sums import sum_sensitivity, with_count, without_count
from skdp.tabular.containers import to_float
from skdp.tabular.sparse_rows import as_dense
from skdp.user_code import run_isolated, user_code

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable
from skdp.queries.kernel_maps import (
    _IMAGE_BITS,
    _MATRIX_BITS,
    _NOISE_BITS,
    _ROUND_UP,
    _STEP_BITS,
    KernelMap,
)

__all__ = [
    "BasisMean",
    "FeatureMeans",
    "KernelMean",
    "LinearImage",
]


def noisy_sums(
    table: PrivateTable,
    meter: Meter,
    name: str,
    exact: NDArray,
    weight: int,
    size: int,
    share: Share,
    unit: float,
) -> tuple[Floats, float, Release]:
    """Release sums of this L2 sensitivity with the number of rows: sums, their std, the count."""
    terms = terms_of(table, meter, share)
    values, std = l2_noise(meter, name, with_count(exact, table, weight), size, share, unit=unit)
    sums, count = without_count(Noisy(values, std, terms), weight)
    return sums, std, released(count, 0.0 if table.n_is_public else std / weight)


class LinearImage:
    """Public linear image a(x) = M k(x) of a row's kernel values, with a certified bound.

    Guarantee: nothing private is read. For M rounded to integers, and k the exact kernel values of
    any row, the norm of M k(x) is at most `bound`, and that of M (k(x) - k(x')) at most sqrt(2)
    times as much (kernel_means.md).

    Parameters
    ----------
    kernel : KernelMap
    matrix : array-like of shape (r, n_scales * b)
        Finite, not all zero. With K_j the Gram matrix of scale j and p = 1 / n_scales, the bound is
        the root of the largest eigenvalue of M diag(K_1 / p, ..., K_J / p) M', or a little more.

    Attributes
    ----------
    bound : float
    step : float
        User units of one step of `apply`: a power of two, 2**19 to 2**20 steps to the bound.

    Raises
    ------
    ValueError
        If the matrix is not as described; it is public.
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
        """Return an upper bound on the square root of the largest eigenvalue.

        M is exact; the Gram matrices are known up to the kernel's `error` an entry. The infinity
        norm bounds the eigenvalue; to it are added the rounding errors of both products, at most
        2 gamma_b + gamma_b**2 times |M||K||M|' (Higham 2002, section 3.5), those of the sum over
        the scales, and what the error of K can do.
        """
        b = self._kernel.n_centers
        scales = self._kernel.n_scales
        unit = 2.0**-53
        gamma = (b + 2) * unit / (1 - (b + 2) * unit)
        product: Any = 0.0
        spread: Any = 0.0
        slack: Any = 0.0
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
        whole = [sum(map(operator.mul, row.tolist(), sums)) >> shift for row in self._matrix]
        large = any(abs(v) >= 2**62 for v in whole)
        return np.array(whole, dtype=object if large else np.int64)

    def sensitivity(self, adjacency: str) -> int:
        """Return the L2 sensitivity of `apply` of the sum, in steps, rounded up.

        A: bound, and what the steps of kernel values can add. R: sqrt(2) bound, and twice that.
        Rounding down moves each of the r coordinates by less than a step.
        """
        replace = adjacency == REPLACE_ONE
        m = self._matrix * 2.0**-self._bits
        entry = 2.0**-_STEP_BITS + self._kernel.error
        lost = math.sqrt(self._kernel.n_dims) * entry * math.sqrt(np.sum(m * m))
        size = math.sqrt(2) * self.bound + 2 * lost if replace else self.bound + lost
        return math.ceil(size / self.step * _ROUND_UP + math.sqrt(len(m))) + 1


# --- a user's map of one row -------------------------------------------------------------------


def _features(
    transform: Callable[[Any], Any], X: Any, restart: Callable[[int], None]
) -> Floats | None:
    """Return what the map makes of rows as a float array, or None where it fails."""

    def make() -> Floats | None:
        made = transform(X)
        return to_float(as_dense(made))[0]

    values: Floats | None = run_isolated(make, None, restart)
    return values


def _row_features(
    transform: Callable[[Any], Any],
    X: Floats,
    view: Box | Ball,
    restart: Callable[[int], None],
) -> Floats:
    """Apply the user's map to rows and clip; a row that fails becomes zeros, and it alone."""
    length = len(X)
    # A copy: the map may write into it, or keep it.
    values = _features(transform, X.copy(), restart)
    if values is None or values.shape != (length, view.n_dims):
        if length == 1:
            return np.zeros((1, view.n_dims))
        # One bad row must not decide for the others: ask for each row alone.
        return np.concatenate(
            [_row_features(transform, X[i : i + 1], view, restart) for i in range(length)]
        )
    finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(values), axis=1)
    q = view.map(np.where(finite[:, None], values, 0.0))
    q[~finite] = 0.0
    return q


# --- measurements -----------------------------------------------------------------------------


def _kernel_total(table: PrivateTable, kernel: KernelMap) -> NDArray:
    if kernel.n_features != table.n_features:
        raise ValueError(
            f"the centres have {kernel.n_features} features, the rows {table.n_features}"
        )
    return kernel.total(table.rows)


@reviewed
@dataclass(frozen=True, eq=False)
class KernelMean(Measurement):
    """The mean of a public linear image M k(x) of the kernel values, and n.

    Guarantee: the certified sensitivity of `LinearImage`: its bound c (A), sqrt(2) c (R), in
    L2. R: the sum over the public n. A: (w n, sum) in one release, w = c / 3.

    Parameters
    ----------
    matrix : array-like of shape (r, n_scales * b)
        M, public. Whitened by the Gram matrices it has c = 1.

    Returns
    -------
    mean : Release, value of shape (r,)
    n : Release
        Number of rows: exact under replace-one, noisy otherwise; at least 1.
    """

    name: ClassVar[str] = "kernel mean"
    kernel: KernelMap
    matrix: Any

    def measure(
        self, table: PrivateTable, meter: Meter, share: Share, name: str
    ) -> tuple[Release, Release]:
        kernel, matrix = self.kernel, self.matrix
        image = LinearImage(kernel, matrix)
        exact = image.apply(_kernel_total(table, kernel))
        size = image.sensitivity(table.relation)
        weight = size // 3
        if not table.n_is_public:
            size = isqrt_up(weight**2 + size**2)
        total, std, count = noisy_sums(table, meter, name, exact, weight, size, share, image.step)
        n = count.value
        return released(total / n * image.step, std / n * image.step), count


@reviewed
@dataclass(frozen=True, eq=False)
class FeatureMeans(Measurement):
    """The mean of every k_j(x, c_l) with independent noise, and n.

    Guarantee: `KernelMap.sensitivity`, in L1 (discrete Laplace) in a pure session, in L2
    (rounded Gaussian) otherwise. R: the sum over the public n. A: (sum, w n) in one release;
    the weight w adds to the L1 sensitivity, and its square to that of L2. w balances the noise
    of sums and count for means of about 1/2: (S / 4)**(1/3) with the L1 sensitivity S,
    (S2 / 4)**(1/4) with the squared L2 one. Where noise would outgrow the samplers, sums are
    rounded down to coarser steps, which adds one step a coordinate in L1, and its root in L2.

    Returns
    -------
    mean : Release, value of shape (n_scales * b,)
    n : Release
        Number of rows: exact under replace-one, noisy otherwise; at least 1.
    """

    name: ClassVar[str] = "feature means"
    kernel: KernelMap

    def measure(
        self, table: PrivateTable, meter: Meter, share: Share, name: str
    ) -> tuple[Release, Release]:
        kernel = self.kernel
        exact = _kernel_total(table, kernel)
        first, second = kernel.sensitivity(table.relation)
        # Public numbers only: the noise has first / level or sqrt(second) / level steps.
        largest = max(first, isqrt_up(second)) if meter.pure else isqrt_up(second)
        shift = max(0, math.ceil(math.log2(largest / meter.level(share))) - _NOISE_BITS)
        step = 2.0 ** (shift - _STEP_BITS)
        if shift:
            exact = np.array([int(v) >> shift for v in exact], dtype=object)
            first = (first >> shift) + 1 + len(exact)
            second = ((isqrt_up(second) >> shift) + 1 + isqrt_up(len(exact))) ** 2
        n, weight = float(table.n), 1
        if table.n_is_public:
            noisy, std = independent_noise(meter, name, exact, first, second, share, unit=step)
        else:
            best = (first * step / 4) ** (1 / 3) if meter.pure else (second * step**2 / 4) ** 0.25
            weight = max(1, math.ceil(best / step))
            both = np.concatenate([exact, np.array([weight * table.n], dtype=object)])
            noisy, std = independent_noise(
                meter, name, both, first + weight, second + weight**2, share, unit=step
            )
            noisy, n = noisy[:-1], float(noisy[-1]) / weight
        n = max(1.0, n)
        mean = released(noisy.astype(np.float64) / n * step, std / n * step)
        return mean, released(n, 0.0 if table.n_is_public else std / weight)


@reviewed
@dataclass(frozen=True, eq=False)
class BasisMean(Measurement):
    """The mean over rows of a user's features of one row, clipped by a view, and n.

    The map gets one row at a time, as a float64 array of shape (1, d) of its own, and returns
    an array (dense, sparse or a table) of shape (1, b). Where it raises, or returns another
    shape or anything that is not finite, the row counts as the view's centre. With
    ``exact_blocks`` it gets blocks; one that fails is tried again row by row. That is sound
    only for maps that give a row the same bits in every block: elementwise ufuncs do, BLAS
    does not. Every call must start from the same state: a map that remembers rows would let
    one of them move the features of others. Guarantee: as `Mean`.

    Parameters
    ----------
    transform : callable
        Public; without memory.
    view : Box or Ball
        Over the b features.

    Returns
    -------
    mean : Release, value of shape (b,)
    n : Release
        Number of rows: exact under replace-one, noisy otherwise; at least 1.
    """

    name: ClassVar[str] = "basis mean"
    transform: UserFunction
    view: Any
    exact_blocks: bool = False

    def measure(
        self, table: PrivateTable, meter: Meter, share: Share, name: str
    ) -> tuple[Release, Release]:
        transform, view, exact_blocks = self.transform, self.view, self.exact_blocks
        rows = table.rows
        view = view.at(SUM_BITS)
        dtype = total_dtype(rows, int(view.half.max(initial=0.0)))
        total: NDArray = np.zeros(view.n_dims, dtype=dtype)
        width = max(table.n_features, view.n_dims)
        with user_code(meter, share, name) as restart:
            for start, stop in rows.spans(width=width):
                block = rows.chunk(start, stop)
                parts = [block] if exact_blocks else [block[i : i + 1] for i in range(len(block))]
                for part in parts:
                    q = _row_features(transform.call, part, view, restart)
                    total += as_total(np.ones(len(q)) @ q, dtype)
        weight = max(1, view.norm // 3)
        size = sum_sensitivity(view, table.relation, weight=weight)
        unit = float(view.grid.max())
        sums, std, count = noisy_sums(table, meter, name, total, weight, size, share, unit)
        n = count.value
        steps = np.clip(sums / n, -view.half, view.half)
        mean = released(view.center + steps * view.grid, std / n * view.grid)
        return mean, count
